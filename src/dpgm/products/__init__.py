"""The default for item sets and tables: noisy counts of items, pairs and larger sets, and a mixture of products."""
