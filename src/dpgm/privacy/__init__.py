"""Pure mathematics of privacy: events, accounting, calibration. No torch, no records, no randomness."""
