"""The paper: mixtures of VAEs or RBMs, found by private kernel k-means and trained by private SGD."""
