"""Kernels compute: arrays in, arrays out, by NumPy and numba.

No randomness of their own, no files, no options as words. Imports: `errors` alone. Start with
`kernels/columns.py` (one sequential sum per column) or, for the private sparse models, `kernels/sparse_fw.py`.
"""
