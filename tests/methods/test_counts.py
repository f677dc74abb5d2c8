"""Claims about counts, and about rows with an offset and a weight: the exact methods solve what statsmodels and CVXPY
solve, whoever holds what; what stands beside the labels leaves as they do; private methods refuse with advice."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Floats
from colonnade.methods.method import adjusted
from colonnade.model.job import Job
from colonnade.runtime.wire import decode
from tests.helpers.reference import confident

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

few = settings(deadline=None, max_examples=2)
once = settings(deadline=None, max_examples=1)  # each runs several methods
LOSSES = [*(co.LeastSquares(), co.Logistic(), co.SquaredHinge(), co.Huber(0.5)), co.Absolute(), co.Quantile(0.3)]
FREE = 1e-9  # a ridge that moves no digit that is compared: its pull is 1e-9 of a coefficient of about 1


def claims(seed: int, rows: int = 120, columns: int = 6) -> dict[str, Floats]:
    """Policies: columns, claims, the log of years insured, and how many policies a row stands for."""
    rng = np.random.default_rng(seed)
    X, years = rng.normal(size=(rows, columns)), rng.uniform(0.1, 3.0, size=rows)
    rate = np.exp(X @ (0.4 * rng.normal(size=columns)) - rng.uniform(0.0, 1.5))
    y = rng.poisson(years * rate).astype(float)
    y[0] += 1.0
    return {"X": X, "y": y, "offset": np.log(years), "weight": rng.integers(1, 6, size=rows).astype(float)}


def split(of: dict[str, Floats], *beside: str, **options: Any) -> co.Federation:
    return co.Federation.split(of["X"], of["y"], 3, **{name: of[name] for name in beside}, **options)


def model(fit: co.Fit) -> Floats:
    return np.concatenate([[fit.intercept], *(fit.coefficients[party] for party in fit.coefficients)])


def glm(of: dict[str, Floats], *beside: str, kind: str = "freq_weights") -> Floats:
    """Intercept and coefficients by statsmodels, by iteratively reweighted least squares."""
    given = {"offset": of["offset"]} if "offset" in beside else {}
    given |= {kind: of["weight"]} if "weight" in beside else {}
    X = np.column_stack([np.ones(of["y"].size), of["X"]])
    fitted = sm.GLM(of["y"], X, family=sm.families.Poisson(), **given).fit(tol=1e-13, maxiter=200)
    return np.asarray(fitted.params)


def optimum(problem: co.Problem, of: dict[str, Floats], *beside: str) -> float:
    """(1/Σw) Σ w·φ(Ax + b + o, y) + penalty, by another solver."""
    X, y = of["X"], of["y"]
    x, b = cp.Variable(X.shape[1]), cp.Variable()
    offset = of["offset"] if "offset" in beside else np.zeros(y.size)
    weight = of["weight"] if "weight" in beside else np.ones(y.size)
    s = X @ x + b + offset
    rows: dict[type, Any] = {
        co.Poisson: lambda: cp.exp(s) - cp.multiply(y, s),
        co.LeastSquares: lambda: cp.square(s - y) / 2,
        co.Logistic: lambda: cp.logistic(-cp.multiply(y, s)),
        co.SquaredHinge: lambda: cp.square(cp.pos(1 - cp.multiply(y, s))) / 2,
        co.Huber: lambda: cp.huber(s - y, 0.5) / 2,
        co.Absolute: lambda: cp.abs(s - y),
        co.Quantile: lambda: cp.maximum(0.3 * (y - s), 0.7 * (s - y)),
    }
    match problem.penalty:
        case co.Ridge(a):
            cost = a / 2 * cp.sum_squares(x)
        case co.Lasso(a):
            cost = a * cp.norm1(x)
        case co.ElasticNet(l1, l2):
            cost = l1 * cp.norm1(x) + l2 / 2 * cp.sum_squares(x)
        case co.GroupLasso(a, groups):
            cost = a * sum(np.sqrt(len(g)) * cp.norm(x[list(g)]) for g in groups)
        case None:
            cost = 0
    limits = [] if problem.intercept else [b == 0]
    limits += [] if problem.constraint is None else [cp.norm1(x) <= problem.constraint.radius]
    loss = cp.sum(cp.multiply(weight, rows[type(problem.loss)]())) / np.sum(weight)
    return confident(cp.Problem(cp.Minimize(loss + cost), limits))


BESIDE = [(), ("offset",), ("weight",), ("offset", "weight")]
every_kind = pytest.mark.parametrize("beside", BESIDE, ids=lambda names: "+".join(names) or "plain")


@every_kind
@once
@given(seed=st.integers(0, 10_000))
def test_every_exact_method_finds_the_coefficients_of_statsmodels(beside, seed):
    of = claims(seed)
    expected, fed = glm(of, *beside), split(of, *beside)
    reach = 1.0 + float(np.abs(expected[1:]).sum())
    free = co.Problem(co.Poisson(), penalty=co.Ridge(FREE), intercept=True)
    ball = co.Problem(co.Poisson(), co.L1Ball(reach), intercept=True)
    runs = {
        "sharing": co.fit(fed, free, co.SharingADMM(rounds=5000, tolerance=1e-12)),
        "graph": co.fit(fed, free, co.GraphADMM(tolerance=1e-9)),
        "frank-wolfe": co.fit(fed, ball, co.DistributedFrankWolfe(tolerance=1e-12)),
        "on a ring": co.fit(fed, ball, co.DistributedFrankWolfe(tolerance=1e-12, topology=co.Topology.ring(3))),
    }
    for name, fit in runs.items():
        # a gap g bounds the distance by √(2g/curvature); the least curvature of these tables is over 0.02
        assert model(fit) == pytest.approx(expected, abs=2e-5), name
        assert fit.gap < 1e-7, name


def test_both_kinds_of_weights_of_statsmodels_have_these_coefficients():
    of = claims(3)
    expected = glm(of, "offset", "weight", kind="var_weights")
    assert glm(of, "offset", "weight") == pytest.approx(expected, abs=1e-9)
    problem = co.Problem(co.Poisson(), penalty=co.Ridge(FREE), intercept=True)
    fit = co.fit(split(of, "offset", "weight"), problem, co.SharingADMM(rounds=5000, tolerance=1e-12))
    assert model(fit) == pytest.approx(expected, abs=2e-5)


def test_rates_with_exposure_as_weight_are_counts_with_its_logarithm_as_offset():
    of = claims(4)
    years = np.exp(of["offset"])
    problem = co.Problem(co.Poisson(), penalty=co.Ridge(FREE), intercept=True)
    method = co.SharingADMM(rounds=5000, tolerance=1e-12)
    counts = co.fit(split(of, "offset"), problem, method)
    rates = co.fit(split({**of, "y": of["y"] / years, "weight": years}, "weight"), problem, method)
    assert model(rates) == pytest.approx(model(counts), abs=2e-5)


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("kind", ["ridge", "lasso", "elastic net", "group lasso"])
@pytest.mark.parametrize("intercept", [False, True])
@once
@given(seed=st.integers(0, 10_000), beside=st.sampled_from(BESIDE))
def test_penalised_counts_are_within_the_gap_of_the_optimum_by_cvxpy(kind, intercept, seed, beside):
    of = claims(seed, rows=80)
    pairs = tuple((2 * k, 2 * k + 1) for k in range(3))
    penalties = {"ridge": co.Ridge(0.1), "lasso": co.Lasso(0.05), "elastic net": co.ElasticNet(0.03, 0.05)}
    problem = co.Problem(co.Poisson(), penalty={**penalties, "group lasso": co.GroupLasso(0.05, pairs)}[kind])
    problem = co.Problem(problem.loss, penalty=problem.penalty, intercept=intercept)
    best = optimum(problem, of, *beside)
    fed = split(of, *beside)
    for method in (co.SharingADMM(rounds=5000, tolerance=1e-9), co.GraphADMM(topology=co.Topology.line(3))):
        fit = co.fit(fed, problem, method)
        assert fit.gap < 1e-5
        assert best - 1e-6 <= fit.objective <= best + fit.gap + 1e-6  # 1e-6: the solver's own accuracy


@every_kind
@few
@given(seed=st.integers(0, 10_000))
def test_frank_wolfe_over_a_tight_ball_is_within_its_gap_of_the_optimum_by_cvxpy(beside, seed):
    of = claims(seed, rows=80)
    problem = co.Problem(co.Poisson(), co.L1Ball(0.3), intercept=True)
    fit = co.fit(split(of, *beside), problem, co.DistributedFrankWolfe(tolerance=1e-9))
    best = optimum(problem, of, *beside)
    assert fit.gap <= 1e-9
    assert best - 1e-6 <= fit.objective <= best + fit.gap + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@few
@given(seed=st.integers(0, 10_000))
def test_every_other_loss_takes_offsets_and_weights_too(loss, seed):
    of = claims(seed, rows=60)
    of["y"] = np.where(of["y"] > np.median(of["y"]), 1.0, -1.0) if loss.classifies else of["y"]
    if loss.classifies:
        of["y"][:2] = -1.0, 1.0
    problem = co.Problem(loss, penalty=co.Lasso(0.05), intercept=True)
    best = optimum(problem, of, "offset", "weight")
    fed = split(of, "offset", "weight")
    for method in (co.SharingADMM(rounds=20_000, tolerance=1e-5), co.GraphADMM(rounds=20_000, tolerance=1e-6)):
        fit = co.fit(fed, problem, method)
        assert fit.gap < 1e-4
        assert best - 1e-6 <= fit.objective <= best + fit.gap + 1e-6


def test_weights_of_one_and_offsets_of_zero_are_no_weights_and_no_offsets():
    of = claims(5)
    of |= {"weight": np.full(of["y"].size, 3.0), "offset": np.zeros(of["y"].size)}
    problem = co.Problem(co.Poisson(), penalty=co.Lasso(0.05), intercept=True)
    plain = co.fit(split(of), problem, co.SharingADMM(tolerance=1e-10))
    beside = co.fit(split(of, "offset", "weight"), problem, co.SharingADMM(tolerance=1e-10))
    assert model(beside) == pytest.approx(model(plain), abs=1e-6)
    assert beside.objective == pytest.approx(plain.objective, abs=1e-10)


def test_who_holds_which_column_changes_no_bit_of_frank_wolfe():
    of = claims(6)
    problem, method = co.Problem(co.Poisson(), co.L1Ball(0.5), intercept=True), co.DistributedFrankWolfe()
    fits = [co.fit(split(of, "offset", "weight"), problem, method)]
    held = {"left": [0, 2, 4], "right": [1, 3, 5]}
    fed = co.Federation.split(of["X"], of["y"], held, label="left", offset=of["offset"], weight=of["weight"])
    fits.append(co.fit(fed, problem, method))
    mixed = np.empty(6)
    for party, places in held.items():
        mixed[places] = fits[1].coefficients[party]
    assert mixed.tolist() == model(fits[0])[1:].tolist()
    assert fits[0].objective == fits[1].objective


# ------------------------------------------------------------------------------------------------ what leaves


def routes(fed: co.Federation, method: Any, *columns: Floats) -> list[tuple[str, str]]:
    """Who sent one of these columns to whom, alone or beside others, in the order in which it went."""
    tap = co.Tap(co.InProcess())
    penalised = co.Problem(co.Poisson(), penalty=co.Ridge(0.1), intercept=True)
    ball = co.Problem(co.Poisson(), co.L1Ball(1.0), intercept=True)
    co.fit(fed, ball if isinstance(method, co.DistributedFrankWolfe) else penalised, method, engine=tap)
    found = []
    for letter in tap.letters:
        message = decode(letter.body)
        parts = [getattr(getattr(message, f.name), "value", getattr(message, f.name)) for f in fields(message)]
        arrays = [part for part in parts if isinstance(part, np.ndarray) and part.ndim]
        sent = [column for array in arrays for column in np.atleast_2d(array.T)]
        if any(np.array_equal(one, other) for one in sent for other in columns):
            found.append((letter.sender, letter.receiver))
    return found


@pytest.mark.parametrize(
    "method", [co.SharingADMM(), co.GraphADMM(), co.DistributedFrankWolfe()], ids=lambda m: m.TITLE
)
def test_offsets_and_weights_go_where_the_labels_go_and_nowhere_else(method):
    of = claims(7)
    labels = routes(split(of), method, of["y"])
    assert routes(split(of, "offset", "weight"), method, of["offset"], of["weight"]) == labels
    assert bool(labels) == (not isinstance(method, co.GraphADMM))  # there the labels stay, and so do these


def test_the_plan_says_that_offsets_and_weights_leave_with_the_labels():
    fed = split(claims(7), "offset", "weight")
    for method, problem in (
        (co.SharingADMM(), co.Problem(co.Poisson(), penalty=co.Ridge(0.1))),
        (co.DistributedFrankWolfe(), co.Problem(co.Poisson(), co.L1Ball(1.0))),
    ):
        told = [charge.what for charge in method.price(Job(problem, fed.roster()))[fed.label]]
        assert told[0] == "the labels and the offsets and the weights"
        plain = method.price(Job(problem, split(claims(7)).roster()))[fed.label]
        assert plain[0].what == "the labels"


# ------------------------------------------------------------------------------------------------ refusals


PRIVATE = [
    co.PrivateGram(),
    co.PrivateGram(cross="none"),
    co.PrivateSharingADMM(),
    co.PrivateBlockFrankWolfe(),
]


@pytest.mark.parametrize("method", PRIVATE, ids=lambda method: method.TITLE)
def test_private_methods_refuse_counts_offsets_and_weights_and_say_what_they_can_do(method, tmp_path):
    of = claims(8)
    terms = co.Privacy(1.0, 1e-6, row_norm=4.0, feature_bound=4.0, label_range=(0.0, 10.0))
    with pytest.raises(InvalidInput, match=r"no Poisson likelihood.*log\(1 \+ count\).*label_range.*SharingADMM"):
        co.fit(split(of), co.Problem(co.Poisson(), penalty=co.Ridge(0.1)), method, terms, store=tmp_path)
    for beside in (("offset",), ("weight",), ("offset", "weight")):
        wanted = rf"takes no {' and no '.join(beside)}: its price is proven.*rate.*label_range"
        fed, least = split(of, *beside), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
        with pytest.raises(InvalidInput, match=wanted):
            co.fit(fed, least, method, terms, store=tmp_path)


def test_exact_methods_without_a_way_for_weights_refuse_them():
    fed, problem = split(claims(9), "weight"), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    with pytest.raises(InvalidInput, match=r"takes no weight: its rows count alike.*co\.SharingADMM"):
        co.fit(fed, problem, co.GraphRidge())
    with pytest.raises(InvalidInput, match="a AdaBoost take no weight"):
        co.fit(fed, co.AdaBoost(1.0), co.DistributedFrankWolfe())


def test_a_finite_epsilon_refuses_an_exact_method_with_offsets(tmp_path):
    fed, problem = split(claims(9), "offset"), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    terms = co.Privacy(1.0, 1e-6, label_range=(0, 1))
    with pytest.raises(InvalidInput, match="no finite epsilon can hold"):
        co.fit(fed, problem, co.SharingADMM(), terms, store=tmp_path)


@pytest.mark.parametrize("wrong", ["shape", "zero", "nan"])
def test_what_a_peer_sends_beside_its_labels_is_checked(wrong):
    of = claims(10)
    fed = split(of, "offset", "weight")
    job = Job(co.Problem(co.Poisson(), penalty=co.Ridge(0.1)), fed.roster())
    sent = np.column_stack([of["y"], of["offset"], of["weight"]])
    if wrong == "shape":
        sent = sent[:, :2]
    else:
        sent[3, 2 if wrong == "zero" else 1] = 0.0 if wrong == "zero" else np.nan
    with pytest.raises(ProtocolError, match={"shape": "shape", "zero": "above 0", "nan": "not finite"}[wrong]):
        adjusted(job, sent)
