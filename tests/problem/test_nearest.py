"""The x-updates of ADMM are minima: a step along the gradient and the prox of the term leave each where it is.

A prox is tested by itself; here it says what an optimum is. Tall and wide blocks, columns that depend on each other, a
block of zeros, and one rho after another, since factors and last answers are kept.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import colonnade as co
from colonnade.problem.nearest import nearest, nearest_matrix
from colonnade.problem.penalties import Free, Within

GROUPS = ((3, 0), (1,), (4, 2))
TERMS = [
    co.Ridge(0.4),
    co.Lasso(0.3),
    co.ElasticNet(0.2, 0.5),
    co.GroupLasso(0.3, GROUPS),
    Within(co.L2Ball(0.2), co.Ridge(0.4)),
    Within(co.L2Ball(20.0), co.Ridge(0.4)),
    Within(co.L1Ball(0.3), co.Ridge(0.4)),
    Within(co.Box(-0.1, 0.3), co.Lasso(0.3)),
    Within(co.Simplex(), None),
    Free(signed=False),
    Free(),
]


def block(kind):
    rng = np.random.default_rng(7)
    A = rng.normal(size=(3 if kind == "wide" else 9, 5))
    if kind == "dependent":
        A[:, 4] = A[:, 0] - A[:, 1]
    return A * (kind != "zeros"), rng.normal(size=len(A))


@pytest.mark.parametrize("kind", ["tall", "wide", "dependent", "zeros"])
@pytest.mark.parametrize("term", TERMS, ids=repr)
def test_an_answer_stays_where_a_step_towards_the_minimum_begins(term, kind):
    A, target = block(kind)
    for matrix in (A, sparse.csc_array(A)):
        solve = nearest(matrix, term)
        for rho in (0.5, 4.0, 0.1):
            for t in (target, -3.0 * target):
                x = solve(t, rho)
                moved = term.prox(x - 0.1 * rho * (A.T @ (A @ x - t)), 0.1)
                assert moved == pytest.approx(x, abs=1e-6)


@pytest.mark.parametrize("kind", ["tall", "wide", "dependent", "zeros"])
def test_without_a_penalty_it_is_the_shortest_of_the_nearest(kind):
    A, target = block(kind)
    for turn in range(8):  # eigenvalues of 0 are computed a rounding above it, or below
        B = np.roll(A, turn, axis=1) @ np.diag(np.linspace(1.0, 2.0 + turn, 5))
        shortest = np.linalg.pinv(B, rcond=1e-10) @ target
        assert nearest(B, Free())(target, 2.0) == pytest.approx(shortest, abs=1e-9)


@pytest.mark.parametrize(
    "penalty", [co.Ridge(0.4), co.Lasso(0.3), co.ElasticNet(0.2, 0.5), co.NuclearNorm(0.3)], ids=repr
)
def test_several_responses_have_an_answer_each(penalty):
    A, target = block("tall")
    T = np.column_stack([target, -2.0 * target[::-1], target**2])
    X = nearest_matrix(A, penalty, 3)(T, 0.5)
    assert penalty.prox(X - 0.05 * (A.T @ (A @ X - T)), 0.1) == pytest.approx(X, abs=1e-6)
