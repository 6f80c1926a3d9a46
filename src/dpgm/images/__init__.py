"""The default for images: noisy class-wise mean embeddings, and a network whose images show them."""
