"""Empirical lower bounds on epsilon, by attacking the real pipeline."""
