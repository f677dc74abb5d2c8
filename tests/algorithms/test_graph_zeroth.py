"""Claims about functions of which only values are known: rows and columns, callables, bad values.

The directions are seeded, so a run that passes once passes always: no test here can fail by chance.
"""

from __future__ import annotations

import numpy as np
import pytest
from graph_cases import GRAPHS, joined, reference, table

import colonnade as co
from colonnade.algorithms.graph_zeroth import Guess

QUICK = {"rounds": 40, "steps": 15, "draws": 4, "seed": 1}


def excess(X, y, problem, x):
    """By how much the objective is too high, of what there was to gain over zero."""
    best = reference(X, y, problem).objective
    value = problem.objective(X @ x, x, y)
    return (value - best) / (problem.objective(0 * y, 0 * x, y) - best)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("line", co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))),
        ("complete", co.Problem(co.Absolute(), penalty=co.Lasso(0.05))),
    ],
    ids=["smooth", "kinks everywhere"],
)
def test_agents_with_split_rows_gain_most_of_what_there_is_to_gain_from_values_alone(name, problem):
    X, y = table(1, 60, 4)
    fed = co.Federation.split(X, y, parties=4, by="rows")
    fit = co.fit(fed, problem, co.GraphZerothOrder(GRAPHS[name](4), **QUICK))
    assert max(excess(X, y, problem, x) for x in fit.coefficients.values()) <= 0.02


def test_agents_with_split_columns_gain_most_of_what_there_is_to_gain_from_values_alone():
    X, y = table(2, 60, 6)
    problem = co.Problem(co.Huber(0.5), penalty=co.Lasso(0.05))
    for label in (None, "party1"):
        fed = co.Federation.split(X, y, parties=3, label=label)
        fit = co.fit(fed, problem, co.GraphZerothOrder(**QUICK))
        assert excess(X, y, problem, joined(fit)) <= 0.02


def test_more_values_bring_the_answer_nearer():
    X, y = table(3, 30, 3)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    fed = co.Federation.split(X, y, parties=3, by="rows")

    def left(**settings):
        return excess(
            X, y, problem, co.fit(fed, problem, co.GraphZerothOrder(**{**QUICK, **settings})).coefficients["party0"]
        )

    assert left(steps=40) < left(steps=10) < left(rounds=4, steps=4)


@pytest.mark.parametrize("average", [True, False])
def test_any_callable_will_do(average):
    """Three paraboloids with different centres: the minimum of the sum is their mean."""
    centres = {f"party{k}": np.array([k, -2.0 * k, 1.0]) for k in range(3)}
    functions = {name: lambda x, c=centre: float(np.sum((x - c) ** 2)) for name, centre in centres.items()}
    X, y = table(4, 6, 3)
    method = co.GraphZerothOrder(co.Topology.line(3), functions=functions, average=average, **QUICK)
    fit = co.fit(co.Federation.split(X, y, parties=3, by="rows"), co.Problem(co.LeastSquares()), method)
    start, middle = 6.0, np.array([1.0, -2.0, 1.0])  # ‖0 − middle‖²
    for x in fit.coefficients.values():
        assert float(np.sum((x - middle) ** 2)) <= (0.01 if average else 0.05) * start
    assert fit.status is co.Status.FIXED_ROUNDS


def test_columns_may_have_penalties_of_their_own():
    """A penalty that allows nothing but 1 and one that allows everything: the loss decides the rest."""
    X, y = table(5, 60, 2)
    functions = {"party0": lambda x: 50.0 * float(np.abs(x - 1.0).sum()), "party1": lambda x: 0.0}
    fit = co.fit(
        co.Federation.split(X, y, parties=2),
        co.Problem(co.LeastSquares()),
        co.GraphZerothOrder(functions=functions, **QUICK),
    )
    assert fit.coefficients["party0"] == pytest.approx(1.0, abs=0.05)
    rest = float(X[:, 1] @ (y - X[:, 0])) / float(X[:, 1] @ X[:, 1])
    assert fit.coefficients["party1"] == pytest.approx(rest, abs=0.05)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_function_that_gives_no_number_ends_the_run_and_is_named(bad):
    X, y = table(6, 12, 3)
    functions = {"party0": lambda x: 0.0, "party1": lambda x: bad}
    with pytest.raises(co.InvalidInput, match=r"function of 'party1'.*finite"):
        co.fit(
            co.Federation.split(X, y, parties=2, by="rows"),
            co.Problem(co.LeastSquares()),
            co.GraphZerothOrder(functions=functions, **QUICK),
        )


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"steps": 0}, "steps"),
        ({"draws": 1.5}, "draws"),
        ({"functions": {"nobody": float}}, "functions are wanted for party0, party1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, advice):
    X, y = table(7, 12, 3)
    with pytest.raises(co.InvalidInput, match=advice):
        co.fit(
            co.Federation.split(X, y, parties=2, by="rows"),
            co.Problem(co.LeastSquares()),
            co.GraphZerothOrder(**settings),
        )


def test_a_constraint_or_missing_penalty_is_refused():
    X, y = table(7, 12, 3)
    with pytest.raises(co.InvalidInput, match="no constraint"):
        co.fit(
            co.Federation.split(X, y, parties=2, by="rows"),
            co.Problem(co.LeastSquares(), co.L1Ball(1.0)),
            co.GraphZerothOrder(),
        )
    with pytest.raises(co.InvalidInput, match="needs a penalty"):
        co.fit(co.Federation.split(X, y, parties=2), co.Problem(co.LeastSquares()), co.GraphZerothOrder())


def test_directions_are_secret_unless_seeded():
    X, y = table(8, 12, 3)
    fed, problem = co.Federation.split(X, y, parties=2, by="rows"), co.Problem(co.LeastSquares())

    def answer(**settings):
        return co.fit(fed, problem, co.GraphZerothOrder(rounds=3, steps=3, **settings)).coefficients["party0"]

    np.testing.assert_array_equal(answer(seed=1), answer(seed=1))
    assert not np.array_equal(answer(seed=1), answer(seed=2))
    assert not np.array_equal(answer(), answer())


def test_the_guessed_slope_is_right_on_average():
    """Of a linear function: E[(<c, n>) n] = c. The mean of m guesses has variance (‖c‖² + c_k²)/m in entry k; the bound is
    five standard deviations, exceeded in one of 500,000 runs an entry."""
    c, m = np.array([1.0, -2.0, 0.5]), 4000
    guess = Guess(lambda x: float(c @ x), m, np.random.default_rng(0), "a")
    deviation = np.sqrt((c @ c + c**2) / m)
    assert np.all(np.abs(guess.slope(np.zeros(3), 1) - c) <= 5 * deviation)
