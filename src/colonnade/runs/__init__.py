"""Runs join the rooms below for one fit: check, price, reserve, drive, save; then predict, score and report.

`runs/fit.py` is `co.fit`, `runs/result.py` the `Fit` it returns; configuration files, job files, dry runs and budgets
are here too. Imports: `network` and below. Start with `runs/fit.py`.
"""
