"""The default generators for item sets and tables: mixtures of products fitted to noisy counts of small sets of items.

Reading order: `strategy` has the whole method on one screen; `planning` the budget shares and the cost estimates;
`targets` turns noisy counts into targets of a fit; `fitting` fits the mixture; `model` holds it and draws samples.
`enumerated` replaces measuring and fitting for so few items that all possible records can be enumerated.
"""
