"""How close synthetic data is to real data. Computed on real data: curator only."""
