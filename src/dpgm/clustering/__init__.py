"""Private kernel k-means (Algorithm 2)."""
