"""Sequences: a mixture of chains proposes, and a maximum-entropy tilt reweights what it proposes."""
