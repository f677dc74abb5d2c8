"""Figures behind the findings: their quick runs bear out what each claim is listed as, and their parts agree with other solvers."""

from __future__ import annotations

from itertools import islice

import cvxpy as cp
import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.attacks.setting import Setting
from colonnade.privacy.statement import Guarantee
from papers.figures import (
    attacks,
    finding_feature_admm,
    finding_intrinsic_noise,
    finding_sharing_divergence,
    finding_sharing_noise,
    finding_sketch_noise,
)
from papers.plot import to_svg

pytestmark = pytest.mark.slow

CHEAPEST = finding_sketch_noise.FIGURE
OTHERS = (
    finding_sharing_noise.FIGURE,
    finding_sharing_divergence.FIGURE,
    finding_feature_admm.FIGURE,
    finding_intrinsic_noise.FIGURE,
    *attacks.FIGURES,
)


@pytest.mark.parametrize("figure", [CHEAPEST, *OTHERS], ids=lambda figure: figure.name)
def test_every_claim_is_judged_as_recorded(figure):
    table = pl.DataFrame([row for case in figure.cases(True) for row in figure.run(**case)], infer_schema_length=None)
    assert to_svg(figure.draw(table))
    for claim in figure.claims:
        verdict = claim.check(table)
        assert verdict.held == claim.expected(quick=True), f"{claim.says}: {verdict.evidence}"


# ------------------------------------------------------------------------------------------------ sketches and sharing


def test_the_noise_of_the_sketches_is_a_mean_s_noise():
    """n times the printed noise would be private at the claimed epsilon, and more rows make it no safer as it is."""
    few, many = (finding_sketch_noise.run(rows) for rows in (200, 2_000))
    printed, undivided = ([row["epsilon"] for row in rows[:2]] for rows in (few, many))
    assert printed[0] < undivided[0]
    assert max(printed[1], undivided[1]) < 1 < min(printed[0], undivided[0])


def test_the_two_tables_differ_in_one_column_by_at_most_1():
    (row,) = finding_sharing_noise.run(columns=60, seed=3)
    assert 0 < row["lemma"] < row["moved"] <= row["ours"]
    first, second, *_ = attacks.sharing_pair(Setting(1.0, 1e-3, 3), 200, 60)
    changed = np.linalg.norm(first - second, axis=0)
    assert (changed > 0).sum() == 1
    assert changed.max() <= 1.0


# ------------------------------------------------------------------------------------------------ the Huber loss


def test_reweighting_finds_the_ridge_of_hubers_loss():
    A, y = finding_feature_admm.table_of(agents=2, seed=0)
    x = finding_feature_admm.reweighted(A, y, 1.0, finding_feature_admm.CORNER, np.zeros(4), steps=500)
    free = cp.Variable(4)
    loss = cp.sum(cp.huber(A @ free - y, finding_feature_admm.CORNER)) / 2
    cp.Problem(cp.Minimize(loss + finding_feature_admm.RIDGE / 2 * cp.sum_squares(free))).solve(solver=cp.CLARABEL)
    assert x == pytest.approx(free.value, abs=1e-6)


def test_on_squares_the_printed_factor_does_no_harm():
    """A corner beyond all residuals: both readings are ridge regression."""
    A, y = finding_feature_admm.table_of(agents=4, seed=1)
    ridge = np.linalg.solve(A.T @ A + finding_feature_admm.RIDGE * np.eye(8), A.T @ y)
    for corner in (1e6, 1e6 / 4):
        steps = finding_feature_admm.algorithm(A, y, co.Topology.ring(4), 0.1, corner)
        assert next(islice(steps, 299, None)) == pytest.approx(ridge, abs=1e-8)


# ------------------------------------------------------------------------------------------------ attacks


def test_the_exact_epsilon_of_an_attacked_pair_stands_beside_the_bound():
    def exact(target: str, claim: float) -> str:
        delta = attacks.TARGETS[target].delta
        row = {"target": target, "claim": claim, "delta": delta, "trials": 2, "bound": 0.0, "violated": 0}
        table = pl.DataFrame([row | {"exact": attacks.exact_epsilon(target, Setting(claim, delta, seed=0))}])
        return attacks.listing(table)[0]["Exact ε of the pair"]

    assert [exact("published-sketch", claim) for claim in (0.1, 1.0, 4.0)] == ["7.13", "262", "2,860"]
    assert exact("published-sign", 1.0) == "infinite"
    assert exact("published-zeroth-order", 0.5) == "no formula"


def test_a_claim_is_refuted_by_one_violated_epsilon_and_by_nothing_else():
    row = {"target": "published-sketch", "claim": 1.0, "delta": 0.005, "trials": 100, "bound": 0.5, "exact": None}
    claim = attacks.refuted("published-sketch")
    assert claim.check(pl.DataFrame([row | {"violated": 0}])).held
    assert not claim.check(pl.DataFrame([row | {"violated": 0}, row | {"violated": 1, "bound": 3.0}])).held


def test_an_attack_on_noise_in_a_range_is_a_row_that_says_violated():
    table = pl.DataFrame(attacks.run("published-sharing-range", 1.0, 400))
    (row,) = attacks.listing(table)
    assert row["Verdict"] == "violated"
    assert row["Trials a side"] == "400"


def test_every_published_calibration_and_what_stands_for_it_is_attacked():
    published, ours = attacks.FIGURES
    assert {case["target"] for case in published.cases(True)} == set(attacks.BROKEN)
    assert {case["target"] for case in ours.cases(True)} == set(attacks.OURS)
    for name in attacks.OURS:
        assert attacks.TARGETS[name].guarantee is not Guarantee.CLAIMED
