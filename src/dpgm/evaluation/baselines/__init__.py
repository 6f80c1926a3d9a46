"""Baselines that must always stand beside us."""
