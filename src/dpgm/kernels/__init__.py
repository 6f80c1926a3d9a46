"""Kernels on sparse records, and sums over records that may span processes."""
