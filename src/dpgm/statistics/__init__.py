"""Statistics: a record as a vector of bounded norm, its noisy sum, and its value on a model."""
