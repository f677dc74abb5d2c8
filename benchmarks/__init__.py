"""Benchmarks: scripts that print ratios to a named baseline measured in the same run. `python -m benchmarks` runs all."""
