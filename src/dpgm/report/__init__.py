"""The fidelity report: an evaluation as one HTML page, for people who do not know the mathematics."""
