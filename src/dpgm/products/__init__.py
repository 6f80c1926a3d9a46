"""The default for item sets and tables: noisy counts of items, pairs and larger sets, and a mixture of products.

In the order of reading: `strategy` has the whole fit on one screen, `measurement` what is asked of the rows (each
statistic is a file of `statistics/`), `fitting` how a mixture is moved to the answers, `model` how it is sampled.
`enumerated` replaces both where there are so few items that all possible records can be listed.
"""
