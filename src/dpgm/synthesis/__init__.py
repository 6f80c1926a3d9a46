"""The synthesizer (Algorithm 1): configuration, plan, fit, release."""
