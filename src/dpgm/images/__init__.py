"""The default for images: noisy class-wise mean embeddings, and a network whose images show them.

In the order of reading: `strategy`, `measurement` (on the public `features` of images), `fitting`, `model`.
"""
