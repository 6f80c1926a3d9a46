"""The paper: mixtures of VAEs or RBMs, found by private kernel k-means and trained by private SGD.

In the order of reading: `fitting` is Algorithm 1, `kernel_kmeans` Algorithm 2, `mechanisms/norm_bound`
Algorithm 3, `private_sgd` Algorithm 4. `model` says what a network is, `vae` and `rbm` are two; `mixture` is what is
released. `refinement` is ours. `batch`, `clipped_gradients` (with its twin for CUDA) and `optimizer` make steps quick.
`strategy` tells plans what a fit costs.
"""
