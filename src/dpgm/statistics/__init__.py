"""Statistics: bounded sums over records that are released with noise, and the same numbers on a model.

`statistic` says what a statistic is. Each of these files holds one whole: `record_lengths`, `item_counts`,
`scaled_items`, `item_tuples`, `centred_pairs`, `enumerated_sets`, `cluster_counts`, `number_histograms`,
`column_counts`, `pair_blocks`. Shared parts: `coded_rows`, `clipping` (down-weighting of long records), `bounds`
(choice of the bound), `shrinkage`, `fourier_features`.

Terms with one meaning throughout: `profile` is the share of the records that hold each position; `lengths` the share
that hold n = 0, 1, ... of the positions in question; `known` what was released about the records so far
(`ReleasedFacts`); `noise` a multiplier of the sensitivity; `std` a standard deviation; `order` the number of positions
in a set; `emphasis` the weight of a target in a fit.
"""
