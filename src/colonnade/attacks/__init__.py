"""Attacks on our own releases: each bounds an epsilon from below, with a stated confidence.

`attacks/run.py` is `co.audit` and lists the targets; every other file plays one adversary against the real programs,
gates and ledgers. Imports: `estimators` and below. Start with `attacks/run.py`.
"""
