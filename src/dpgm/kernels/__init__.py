"""Compiled kernels on sparse records for CPU and GPU, and sums over records that may span processes."""
