"""The default generators for item sets and tables: mixtures of products fitted to noisy counts of small sets of items.

Reading order: `strategy` (the whole method on one screen), `planning` (budget shares and cost estimates), `targets`
(from noisy counts to targets of a fit), `fitting`, `model`, `sampling`. `enumerated` replaces measuring and fitting
where there are so few items that all possible records can be enumerated.
"""
