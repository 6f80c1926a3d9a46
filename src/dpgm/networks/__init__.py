"""The paper's method: mixtures of VAEs or RBMs, one per cluster of private kernel k-means, trained by private SGD.

The algorithms: `fitting` is Algorithm 1, `kernel_kmeans` Algorithm 2, `mechanisms/norm_bound` Algorithm 3,
`private_sgd` Algorithm 4; `refinement`, which fits networks to released statistics, is not in the paper.
The networks: `model` is their interface, `vae` and `rbm` implement it; `mixture` is what is released.
The work of a training step: `batch`, `clipped_gradients` (on the CPU; `clipped_gradients_cuda`), `optimizer`.
The plan: `rules` (tuned numbers), `presets` (settings), `planning` (budget, estimates); `strategy` is the entry point.
`kmeans_estimator` is k-means for users, without a plan.
"""
