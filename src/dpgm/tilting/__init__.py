"""Reweighting of a pool of records to released statistics, for every family that draws such a pool."""
