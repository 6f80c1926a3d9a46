"""The default generator for images: a network fitted to noisy mean features of each class.

Reading order: `strategy`, `measurement` (with the public `features` of images), `fitting`, `model`.
"""
