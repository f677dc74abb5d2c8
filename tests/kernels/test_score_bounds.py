"""Bounds of scores hold for every column and after every step, whatever the columns and whichever are picked.

The sampler is exact only as long as they do. Runs of the sampler give snapshots and ties; from there the picks are
chosen by the test, also ones that the sampler would hardly make. Scores are dense products in long doubles.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colonnade.kernels import column_scores, sampler_state, samplers, score_bounds
from colonnade.kernels.sparse_fw import LossCode
from colonnade.kernels.stream import keyed_stream
from tests.helpers.sparse_problems import arrays, slope

KINDS = ("plain", "copies", "huge", "tiny", "every size", "one above all", "one entry each", "full", "zeros and ones")


def columns_of(kind: str, n: int, d: int, rng: np.random.Generator) -> sp.csc_matrix:
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < rng.choice([0.05, 0.3, 1.0]))
    if kind == "copies":
        dense = dense[:, rng.integers(0, max(1, d // 4), d)] * rng.choice([-1.0, 1.0], d)
    elif kind == "huge":
        dense *= 1e6
    elif kind == "tiny":
        dense *= 10.0 ** -rng.integers(3, 200)
    elif kind == "every size":
        dense *= 10.0 ** rng.integers(-12, 3, size=d)
    elif kind == "one above all":
        dense *= 1e-3
        dense[:, 0] = rng.choice([-1.0, 1.0], n)
    elif kind == "one entry each":
        dense = np.zeros((n, d))
        dense[rng.integers(0, n, d), np.arange(d)] = rng.normal(size=d)
    elif kind == "full":
        dense = rng.random((n, d))
    elif kind == "zeros and ones":
        dense = (dense != 0.0) * 1.0
    dense[:, rng.integers(0, d)] *= rng.choice([0.0, 1.0])
    X = sp.csc_matrix(dense)
    X.data[rng.random(X.nnz) < 0.05] = 0.0  # stored zeros
    return X.astype(np.float32) if rng.random() < 0.5 else X


class Run:
    """The sampler's state after some picks of its own, and the true scores of all its heavy columns."""

    def __init__(self, X: sp.csc_matrix, y: np.ndarray, law: score_bounds.Law, rounds: int, key: bytes) -> None:
        self.csc, self.y, self.law, self.t = arrays(X), y, law, rounds
        self.s = samplers.make_sampler(self.csc, y, law, keyed_stream(key))
        self.picks = np.empty(rounds, np.int64)
        samplers._exact_kernel(self.s, self.picks, np.empty(rounds, np.int8))
        self.dense = np.clip(X.toarray().astype(float), -law.bound, law.bound)[:, self.s.which].astype(np.longdouble)

    @property
    def m(self) -> float:
        return 2.0 * self.law.radius / ((self.t + 1.0) * (self.t + 2.0))

    def scores(self) -> np.ndarray:
        v = self.m * self.s.rows.pairs[:, 0].astype(np.longdouble)
        return self.law.c * np.abs(self.dense.T @ slope(LossCode(self.law.loss).name, v, self.y, self.law.limit))

    def bounds(self, horizon: np.ndarray, now: np.ndarray) -> np.ndarray:
        found = [score_bounds.log_bound(self.s.heavy, x, horizon, now, self.law.c) for x in range(self.s.which.size)]
        return np.array(found)

    def bounds_now(self) -> np.ndarray:
        s = self.s
        score_bounds.look_at_now(self.t + 1, self.m, self.law, s.ties.columns, s.sums, s.clock, s.now)
        return self.bounds(s.now, s.now)

    def step(self, k: int, sign: int) -> None:
        s, self.t = self.s, self.t + 1
        score_bounds.advance(self.csc, k, self.t, sign, self.law, s.rows, s.ties.columns, s.sums, s.clock)

    @property
    def valid(self) -> bool:
        s = self.s
        return not (sampler_state.has_passed(s.clock, s.horizon) or sampler_state.has_passed(s.clock, s.far_horizon))


def law_of(loss: LossCode, n: int, *, radius: float, c: float, bound: float, limit: float = 1.0) -> score_bounds.Law:
    found = score_bounds.constants(loss, limit, 1.0)
    return score_bounds.Law(
        int(loss), radius, c / bound, bound, limit, *found, column_scores.grid_of(n, bound * found[2])
    )


def steered(run: Run, rng: np.random.Generator, steps: int) -> None:
    """Steps to columns of the test's choice: any, one for ever, those of before with the signs reversed."""
    k, sign, way = int(rng.integers(run.csc[2].size - 1)), int(rng.choice([-1, 1])), rng.integers(3)
    for _ in range(steps):
        if way == 0:
            k, sign = int(rng.integers(run.csc[2].size - 1)), int(rng.choice([-1, 1]))
        elif way == 1:
            k = int(rng.choice(run.picks))
        run.step(k, sign)
        assert (run.bounds_now() >= run.scores()).all()


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    loss=st.sampled_from([LossCode.LOGISTIC, *LossCode]),
    n=st.sampled_from([1, 2, 17, 60, 200]),
    d=st.sampled_from([1, 2, 9, 30, 80]),
    radius=st.floats(-2.0, 4.0),
    c=st.floats(-1.0, 4.5),
    stretch=st.sampled_from([0.5, 1.0, 10.0]),
    seed=st.integers(0, 2**32),
)
@example("tiny", LossCode.SQUARED_HINGE, 1, 80, -0.084, 2.906, 0.5, 1302008299)  # squares below the normal numbers
def test_no_bound_is_broken_by_odd_columns_or_odd_picks(kind, loss, n, d, radius, c, stretch, seed):
    rng = np.random.default_rng(seed)
    X = columns_of(kind, n, d, rng)
    y = rng.choice([-1.0, 1.0], n)
    bound = stretch * (float(np.abs(X.data).max(initial=0.0)) or 1.0)
    law = law_of(loss, n, radius=10.0**radius, c=10.0**c, bound=bound)
    for rounds in (1, 3, 12, 40, 150):
        run = Run(X, y, law, rounds, rng.bytes(32))
        assert not run.s.counts[samplers.VIOLATIONS]
        if run.valid:  # what the envelopes in force were made from
            assert (run.bounds(run.s.horizon, run.s.now) >= run.scores()).all()
        assert (run.bounds_now() >= run.scores()).all()
        steered(run, rng, 12)


@pytest.mark.parametrize("bound", [1e-60, 1e-3, 1.0, 1e60])
def test_columns_are_tied_whatever_the_unit_of_the_features(bound):
    """Two columns take all steps of a run with little noise: their bounds are close, in every unit."""
    rng = np.random.default_rng(3)
    X = sp.csc_matrix(rng.normal(size=(200, 2)).clip(-1.0, 1.0) * bound)
    y = np.where(X[:, [0]].toarray().ravel() > 0.0, 1.0, -1.0)
    run = Run(X, y, law_of(LossCode.LOGISTIC, 200, radius=5.0 / bound, c=300.0, bound=bound), 300, bytes(32))
    assert run.s.ties.columns[0] >= 0
    bounds, scores = run.bounds_now(), run.scores()
    assert (bounds >= scores).all()
    assert (bounds <= scores + 0.05 * 300.0 * 200).all()  # of the largest score that there could be


def test_a_curvature_that_is_too_small_is_seen():
    """Planted: the tests above are able to fail."""
    rng = np.random.default_rng(4)
    X, y = sp.csc_matrix(rng.normal(size=(60, 20)).clip(-1.0, 1.0)), rng.choice([-1.0, 1.0], 60)
    law = law_of(LossCode.LOGISTIC, 60, radius=0.5, c=20.0, bound=1.0)
    run = Run(X, y, law, 12, bytes(32))
    run.law = law._replace(curvature=law.curvature / 50.0)
    with pytest.raises(AssertionError):
        steered(run, rng, 200)


@pytest.mark.parametrize("fault", ["a tie too strong", "a step counted twice"])
def test_a_line_that_is_not_the_scores_is_seen(fault):
    """Planted in a run whose two chosen columns are tied and known within a thousandth."""
    X, y = sp.csc_matrix(np.eye(4).repeat(15, axis=0)), np.random.default_rng(5).choice([-1.0, 1.0], 60)
    run = Run(X, y, law_of(LossCode.LOGISTIC, 60, radius=0.5, c=300.0, bound=1.0), 60, bytes(32))
    tied = run.s.ties.columns[run.s.ties.columns >= 0]
    assert tied.size == 2
    run.step(int(tied[0]), 1)
    assert (run.bounds_now()[tied] <= 1.001 * run.scores()[tied]).all()
    wrong = run.s.heavy[:, score_bounds.TIE : score_bounds.WIDTH]
    if fault == "a step counted twice":
        wrong = run.s.sums[score_bounds.STEPS : score_bounds.SUMS]
    wrong *= 2.0
    assert (run.bounds_now() < run.scores()).any()
