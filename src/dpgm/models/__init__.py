"""Generative networks as plain tensors; they know nothing of privacy."""
