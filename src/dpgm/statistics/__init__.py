"""Statistics: a record as a vector of bounded norm, its noisy sum, and its value on a model.

Words that mean the same everywhere here: `profile` is the share of the records that hold each position, `lengths` the
share that hold n = 0, 1, ... of the positions in question, `known` what is known of the records (`Known`), `noise` a
multiplier of the sensitivity, `std` a standard deviation, `order` the number of positions in a set, and `emphasis` the
weight of a target in a fit.
"""
