"""Tables, and lists of items beside columns: a small mixture of trees, tilted to all measured relations.

    columns   <- noisy counts of the values of every column
    coarse    <- noisy tables of groups of values, for all pairs of columns
    forest    <- the strongest pairs that form a tree
    full      <- noisy tables of all values, for the pairs of the tree and those with the label
    ranks     <- noisy rank correlations
    base      <- a mixture of trees fitted to all of these
    tilt      <- weights for a pool of the base's rows, of largest entropy, that meet all of these

`measurement` does the first five steps and spends the whole privacy budget; `base` and `fitting` the last two, which
are post-processing. `model` is what is released: the base and the parameters of the tilt.
"""
