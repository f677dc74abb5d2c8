"""The model is what a fit is made of: the job that was approved, its answer, coefficients, facts, what was released.

Plain values, which methods return, runs join and views show. Imports: `runtime` and below. Start with `model/job.py`;
`model/facts.py` is a whole `Fit` but what computes with rows.
"""
