"""Compiled kernels on sparse records for CPU and GPU, and sums over records that may span processes."""

MEETING = "DPGM_MEETING"  # the variable that names the folder in which processes started by `--processes` meet
