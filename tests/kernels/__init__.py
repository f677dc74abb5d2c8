"""Tests of the numba kernels."""
