"""The independent solver, asked so that its doubts do not become our failures."""

from __future__ import annotations

import warnings

import cvxpy as cp
from hypothesis import assume, currently_in_test_context


def confident(problem: cp.Problem) -> float:
    """The optimum by Clarabel; a generated example where the solver doubts its own answer is passed over."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "may be inaccurate" is the status looked at below
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:  # it gave up: no answer to compare with
            if not currently_in_test_context():
                raise
            assume(False)
    if currently_in_test_context():
        assume(problem.status == cp.OPTIMAL)
    assert problem.status == cp.OPTIMAL
    return float(problem.value)
