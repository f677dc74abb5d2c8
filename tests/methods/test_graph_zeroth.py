"""Claims about functions of which only values are known: rows and columns, callables, bad values.

The directions are seeded, so a run that passes once passes always: no test here can fail by chance.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as co
from colonnade.methods.graph.zeroth import Guess, Later
from colonnade.privacy.store import FileLog
from papers.published.zeroth_order import conditional
from tests.helpers.graph_cases import GRAPHS, joined, reference, table

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

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
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))

    def left(**settings):
        """The geometric mean over five tables."""
        found = []
        for seed in range(3, 8):
            X, y = table(seed, 30, 3)
            fed = co.Federation.split(X, y, parties=3, by="rows")
            fit = co.fit(fed, problem, co.GraphZerothOrder(**{**QUICK, **settings}))
            found.append(excess(X, y, problem, fit.coefficients["party0"]))
        return np.exp(np.log(found).mean())

    assert left(steps=40) < left(steps=10) < left(rounds=4, steps=4)


def test_more_rounds_do_not_lead_away_where_a_guessed_slope_is_mostly_chance():
    """Twenty columns, four directions a slope, and functions a hundred times as steep as the links are stiff."""
    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(4, 50, 20)), rng.normal(size=20)
    b = A @ x + 0.1 * rng.normal(size=(4, 50))
    answer = np.linalg.lstsq(A.reshape(-1, 20), b.reshape(-1), rcond=None)[0]
    fed = co.Federation.split(np.zeros((4, 20)), np.zeros(4), parties=4, by="rows")
    functions = {name: lambda v, k=k: float(((A[k] @ v - b[k]) ** 2).sum()) for k, name in enumerate(fed.parties)}

    def far(rounds):
        method = co.GraphZerothOrder(GRAPHS["line"](4), rounds=rounds, functions=functions, seed=1)
        found = co.fit(fed, co.Problem(co.LeastSquares()), method).coefficients.values()
        return max(np.linalg.norm(own - answer) for own in found) / np.linalg.norm(answer)

    assert far(60) < min(far(15), 0.05)


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
    assert fit.status is co.Status.ALL_ROUNDS


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
    """Of a linear function: E[(<c, n>) n] = c. The mean of m guesses has variance (‖c‖² + c_k²)/m in entry k; the bound
    is
    five standard deviations, exceeded in one of 500,000 runs an entry."""
    c, m = np.array([1.0, -2.0, 0.5]), 4000
    guess = Guess(lambda x: float(c @ x), m, np.random.default_rng(0), "a")
    deviation = np.sqrt((c @ c + c**2) / m)
    assert np.all(np.abs(guess.slope(np.zeros(3), 1) - c) <= 5 * deviation)


# ---------------------------------------------------------------- stopping


def test_a_tolerance_ends_the_run_when_nobody_disagrees_or_moves_by_more():
    X, y = table(1, 60, 4)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    fed = co.Federation.split(X, y, parties=4, by="rows")

    def run(**settings):
        return co.fit(fed, problem, co.GraphZerothOrder(co.Topology.line(4), **{**QUICK, **settings}))

    fit = run(rounds=100, tolerance=0.1)
    assert fit.status is co.Status.AGREED
    # What everybody knew in the round before the last: the last round's own figures are judged after it is sent.
    told = fit.history.select("disagreement", "movement").max_horizontal().to_list()
    assert all(figure > 0.1 for figure in told[: -co.Topology.line(4).diameter])
    assert run(rounds=len(told), tolerance=0.0).status is co.Status.ALL_ROUNDS
    assert run(rounds=10, tolerance=1e-6).status is co.Status.OUT_OF_ROUNDS


def test_all_agents_stop_in_the_same_round():
    """An agent that went on alone would wait for its neighbours for ever, and the engine would say so."""
    X, y = table(2, 60, 6)
    problem = co.Problem(co.Huber(0.5), penalty=co.Lasso(0.05))
    fed = co.Federation.split(X, y, parties=3)
    fit = co.fit(fed, problem, co.GraphZerothOrder(co.Topology.line(4), **{**QUICK, "rounds": 200}, tolerance=0.3))
    assert fit.status is co.Status.AGREED
    assert fit.history.height < 200


@given(points=st.lists(st.floats(-5, 5), min_size=1, max_size=70))
def test_the_answer_is_the_mean_of_the_last_half_to_three_quarters_of_the_rounds(points):
    later = Later(1)
    for x in points:
        later.add(np.array([x]))
    kept = later.whole + later.filled
    assert len(points) / 2 <= kept <= max(1, 3 * (len(points) + 1) / 4)
    assert later.mean[0] == pytest.approx(np.mean(points[-kept:]), abs=1e-12)


# ---------------------------------------------------------------- functions that are not what they should be


def paraboloids(**others):
    functions = {f"party{k}": lambda x, k=k: float(np.sum((x - k) ** 2)) for k in range(3)}
    return {**functions, **others}


def fitted(functions, store=None, engine=None, **settings):
    X, y = table(4, 6, 2)
    method = co.GraphZerothOrder(co.Topology.line(3), functions=functions, **{**QUICK, "rounds": 6, **settings})
    fed = co.Federation.split(X, y, parties=3, by="rows")
    return co.fit(fed, co.Problem(co.LeastSquares()), method, store=store, engine=engine)


@pytest.mark.parametrize(
    "bent",
    [
        lambda x: float(np.sqrt(np.abs(x)).sum()),
        lambda x: float(((x**2 - 1) ** 2).sum()),
        lambda x: float(-np.sum((x - 3.0) ** 2)),
    ],
    ids=["root", "two wells", "upside down"],
)
def test_a_function_that_is_not_convex_is_named(bent):
    fit = fitted(paraboloids(party2=bent))
    assert len(fit.remarks) == 1
    assert "function of 'party2' is not convex" in fit.remarks[0]


def test_nothing_is_remarked_about_convex_functions():
    """Kinks, large constants and flat places are convex."""
    odd = {
        "party0": lambda x: 1e9 + float(np.abs(x).sum()),
        "party1": lambda x: 0.0,
        "party2": lambda x: float(x.max()),
    }
    assert fitted(odd).remarks == ()
    X, y = table(1, 60, 4)
    fed = co.Federation.split(X, y, parties=3)
    assert co.fit(fed, co.Problem(co.Absolute(), penalty=co.Lasso(0.1)), co.GraphZerothOrder(**QUICK)).remarks == ()


@pytest.mark.parametrize("bad", [lambda x: x, lambda x: None, lambda: 0.0], ids=["a vector", "nothing", "no argument"])
def test_a_function_that_returns_no_number_ends_the_run_and_is_named(bad):
    with pytest.raises(co.InvalidInput, match=r"function of 'party1'.*one number"):
        fitted(paraboloids(party1=bad))


# ---------------------------------------------------------------- functions in a store


def interrupting(at):
    seen = []

    def carry(letter):
        seen.append(letter)
        if len(seen) == at:
            raise KeyboardInterrupt
        return (letter,)

    return co.Faults(co.InProcess(), carry)


def test_a_run_with_functions_goes_on_where_it_stopped(tmp_path):
    settings = {
        "seed": None,
        "functions_version": "paraboloids 1",
    }  # secret directions: a new run would find something else
    with pytest.raises(KeyboardInterrupt):
        fitted(paraboloids(), tmp_path, interrupting(9), **settings)
    fit = fitted(paraboloids(), tmp_path, **settings)
    log = FileLog(tmp_path / "runs.db")
    assert len(log.rows(kind="begin")) == 1
    log.close()
    assert fit.history.height == 6


def test_a_run_does_not_go_on_with_other_functions(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fitted(paraboloids(), tmp_path, interrupting(9), functions_version="a")
    fitted(paraboloids(party1=lambda x: float(np.sum((x - 1.5) ** 2))), tmp_path, functions_version="b")
    log = FileLog(tmp_path / "runs.db")
    assert len(log.rows(kind="begin")) == 2
    log.close()


def test_functions_without_a_version_cannot_be_kept_in_a_store(tmp_path):
    """Nothing tells them from others after a restart."""
    functions = paraboloids()
    assert not co.GraphZerothOrder(functions=functions).savable
    with pytest.raises(co.InvalidInput, match="give functions_version='a name'"):
        fitted(functions, tmp_path)
    named = [co.GraphZerothOrder(functions=functions, functions_version=version) for version in "ab"]
    assert all(method.savable for method in named)
    assert repr(named[0]) != repr(named[1])


# ---------------------------------------------------------------- a claim, not a guarantee


@given(
    deviation=st.floats(0.01, 10), bound=st.floats(0.1, 10), rows=st.integers(1, 1000), penalty=st.floats(0.1, 10),
    neighbours=st.integers(1, 9), rounds=st.integers(1, 500), delta=st.floats(1e-9, 0.5),
)  # fmt: skip
def test_the_conditional_epsilon_is_that_of_theorems_4_1_and_4_2(
    deviation, bound, rows, penalty, neighbours, rounds, delta
):
    once, whole = conditional(
        deviation=deviation, slope_bound=bound, weight=2 * penalty * neighbours, rows=rows, rounds=rounds, delta=delta
    )
    # Equations 4.11 and 4.16 as printed.
    assert deviation == pytest.approx(
        bound * np.sqrt(2.1 * np.log(1.25 / delta)) / (penalty * neighbours * rows * once.epsilon)
    )
    assert whole.epsilon == pytest.approx(
        once.epsilon * np.sqrt(rounds * np.log(1 / delta) / (1.05 * np.log(1.25 / delta)))
    )


def test_the_conditional_statement_says_its_assumption_and_that_it_is_refuted():
    once, _ = conditional(deviation=1.0, slope_bound=1.0, weight=1.0, rows=10, rounds=1, delta=1e-3)
    assert once.guarantee == "conditional"
    assert "It holds if the errors of a zeroth-order descent are normal" in once.sentence
    assert "refutes" in once.sentence
    with pytest.raises(co.InvalidInput, match="deviation must be"):
        conditional(deviation=0.0, slope_bound=1.0, weight=1.0, rows=10, rounds=1, delta=1e-3)


def test_no_budget_takes_the_conditional_privacy(tmp_path):
    X, y = table(8, 12, 3)
    fed, problem = co.Federation.split(X, y, parties=2, by="rows"), co.Problem(co.LeastSquares())
    with pytest.raises(co.InvalidInput, match="no finite epsilon can hold"):
        co.fit(fed, problem, co.GraphZerothOrder(**QUICK), privacy=co.Privacy(1.0, 1e-6), store=tmp_path)
    assert co.fit(fed, problem, co.GraphZerothOrder(**{**QUICK, "rounds": 2})).privacy.guarantee == "none"
