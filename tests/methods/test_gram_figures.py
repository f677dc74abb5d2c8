"""The figures of Private Gram, each worked out by hand: charges, noise, rules and shares."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

import colonnade as co
from colonnade.methods.gram import plan as gram_plan
from colonnade.methods.gram import products
from colonnade.methods.gram.local import Local
from colonnade.methods.gram.plan import Figures, NoisyLabels, RunPlan
from colonnade.methods.gram.rule import Extended, PublicColumns, choose, noise_levels
from colonnade.model.job import Job, Sums


def job_of(loss=None, k: int = 1, **privacy) -> Job:
    X, n = np.zeros((12, 5)), 12
    unit = (np.arange(n) // k, k) if k > 1 else None
    fed = co.Federation.split(X, np.ones(n), {"a": [0, 1, 2], "b": [3, 4]}, label="b", unit=unit)
    terms = {"row_norm": 5.0, "label_bound": 3.0, **privacy}
    return Job(
        co.Problem(loss or co.LeastSquares(), penalty=co.Ridge(0.1)), fed.roster(), co.Privacy(1.0, 1e-6, **terms)
    )


# ---------------------------------------------------------------- charges


def test_class_sums_are_charged_for_sums_size_and_half_squares_of_every_party():
    """1 for the class size; 4C² where signs are mixed, 2C² where not; B²C²/2 for columns that are not binary."""
    columns = PublicColumns(
        owner=np.array([0, 0, 1, 1]),
        norms=np.array([2.0, 3.0]),
        bound=np.array([1.5, 5.0, 1.0, 1.0]),
        binary=np.array([False, False, True, True]),
        nonnegative=np.array([True, False, True, True]),
        level=np.zeros(4, int),
        weight=np.ones(4),
    )
    assert columns.sums_sensitivity() == pytest.approx(math.sqrt(1 + 4 * 4 + 2**2 * 4 / 2 + 2 * 9))


@pytest.mark.parametrize(("constant", "label"), [(0.1, 0.25), (0.3, 1.0)])
def test_a_row_beside_its_constant_and_label_is_charged_for_its_whole_length(constant, label):
    """Two rows of squared length L are √2·L apart in their squares, at most."""
    row = Extended(3.0, 2.0, constant, label)
    whole = 3.0**2 + row.constant**2 + (row.label * 2.0) ** 2
    assert row.sensitivity == pytest.approx(math.sqrt(2) * whole)
    assert (row.constant**2, (row.label * 2.0) ** 2) == pytest.approx((constant * 9, label * 9))
    assert row.noise(0.08) == pytest.approx(math.sqrt(2) * whole / 0.4)


@pytest.mark.parametrize("k", [1, 3])
def test_a_release_in_steps_is_charged_as_by_hand(k):
    job = job_of(k=k)
    widths = {"a": 3, "b": 3}
    joint = Figures("joint", 0.5, 30, {"a": 40, "b": 60}, widths, 3, 5, 12)
    assert gram_plan.joint_sensitivity(job, joint) == pytest.approx(math.sqrt(2) * (100 + 9 + 25) * k, rel=1e-9)
    sums = Figures("sums", 0.5, 30, {"a": 40, "b": 60}, widths, 0, 2, 12)
    entries = [
        min(math.ceil(bound / 0.5), math.isqrt(n2) + 1)
        for bound, n2 in ((5 * math.sqrt(3 / 5), 40), (5 * math.sqrt(2 / 5), 60))
    ]
    total = (
        (2 / 0.5) ** 2
        + 4 * 100 * 4
        + sum(e**2 * n2 * (2 * 0.5) ** 2 / 2 for e, n2 in zip(entries, (40, 60), strict=True))
    )
    assert gram_plan.sums_sensitivity(job, sums) == pytest.approx(math.sqrt(total) * k, rel=1e-9)


# ---------------------------------------------------------------- weights of noise


def test_the_parts_of_a_release_carry_noise_in_their_stated_ratios():
    """Entries off a diagonal stand twice in a Frobenius norm and are released once: 1/√2, rounded up. Half squares in
    steps²."""
    sums = Figures("sums", 0.25, 30, {"a": 1}, {"a": 1}, 0, 8, 10)
    assert Fraction(gram_plan.HALF) ** 2 >= Fraction(1, 2)
    assert gram_plan.square_weight(sums) == pytest.approx(2 / (0.25 * 8))
    assert products.sums_weights(sums, 3) == (pytest.approx(1.0), 1.0, 0.25)
    assert gram_plan.noise_sd(6.0, 0.5, 0.25) == pytest.approx(6.0 / 1.0 * 0.25)


def test_the_noise_of_every_entry_is_told_by_who_computed_it():
    """Two columns of party 0, one of party 1, who has the label: g on the diagonal, g/√2 off it, g between parties."""
    g, h = 4.0, 4.0 / math.sqrt(2)
    expected = np.array(
        [
            [g, h, g, h, g],
            [h, g, g, h, g],
            [g, g, g, h, h],
            [h, h, h, 0, h],
            [g, g, h, h, g],
        ]
    )
    owner = np.array([0, 0, 1])
    np.testing.assert_allclose(noise_levels(owner, 1, g, labels_fixed=False), expected, rtol=1e-12)
    expected[4, 4] = 0.0
    np.testing.assert_allclose(noise_levels(owner, 1, g, labels_fixed=True), expected, rtol=1e-12)
    alone = noise_levels(owner, 1, g, labels_fixed=True, shares=1)
    assert alone[0, 2] == pytest.approx(h)


# ---------------------------------------------------------------- the rule


@pytest.mark.parametrize(
    ("rows", "columns", "rho", "classes", "name", "sums", "slack"),
    [
        (100_000, 20, 0.03, False, "centred", 0.02, None),
        (100_000, 20, 0.03, True, "centred", 0.02, None),
        (1_500, 20, 0.03, True, "centred", 0.15, 1.15),
        (1_500, 20, 0.03, False, "centred", 0.15, 1.15),
        (300, 20, 0.003, True, "centred", 0.4, 0.7),
    ],
)
def test_the_rule_follows_from_what_survives_the_noise(rows, columns, rho, classes, name, sums, slack):
    """u = (n√(1.7ρ)/1.77)^(2/3)/d: from 2 on 2 % on class sums, from a half on 15 %, below it 40 %."""
    u = (rows * math.sqrt(1.7 * rho) / 1.77) ** (2 / 3) / columns
    rule = choose(rows, columns, rho, classes=classes)
    assert (rule.name, rule.sums) == (name, sums)
    assert rule.slack == pytest.approx(1.15 * (u / 2) ** 0.25 if slack is None else slack)
    assert (rule.constant_share, rule.label_share, rule.keep, rule.rho) == (0.1, 0.25, columns, rho)
    assert (rule.ridge, rule.power, rule.classes) == (1.5, 0.25, classes)


@pytest.mark.parametrize("threshold", [0.5, 2.0])
def test_the_rule_changes_where_it_is_said_to(threshold):
    def rows_at(u: float) -> int:
        return round((u * 30) ** 1.5 * 1.77 / math.sqrt(1.7 * 0.02))

    below, above = (choose(rows_at(threshold * f), 30, 0.02, classes=True).sums for f in (0.99, 1.01))
    assert (below, above) == ((0.4, 0.15) if threshold == 0.5 else (0.15, 0.02))


def test_means_and_pulls_are_those_of_the_sums():
    sums = Sums(
        positive=np.array([30.0, 4.0]),
        negative=np.array([10.0, 6.0]),
        count=60.0,
        half_squares=np.zeros(2),
        noise=np.array([2.0, 3.0]),
        count_noise=5.0,
        square_noise=np.zeros(2),
    )
    assert sums.label_mean(100) == (pytest.approx(0.2), pytest.approx(0.1))
    pull, noise = sums.pull(0.2, 0.1)
    assert pull.tolist() == pytest.approx([30 - 10 - 0.2 * 40, 4 - 6 - 0.2 * 10])
    expected = [math.sqrt((0.8**2 + 1.2**2) * sd**2 + (0.1 * whole) ** 2) for sd, whole in ((2.0, 40), (3.0, 10))]
    assert noise.tolist() == pytest.approx(expected)
    rare = Sums(sums.positive, sums.negative, 0.5, sums.half_squares, sums.noise, 5.0, sums.square_noise)
    assert rare.label_mean(100)[0] == pytest.approx(-0.96)  # no class is believed to be rarer than 2 %


# ---------------------------------------------------------------- noisy labels and shares of the budget


@pytest.mark.parametrize("k", [1, 3])
def test_noisy_labels_are_charged_for_a_label_that_turns_round(k):
    numbers, classes = NoisyLabels(job_of(k=k), 0.02, 3.0), NoisyLabels(job_of(co.Logistic(), k=k), 0.02, 1.0)
    assert numbers.sensitivity == pytest.approx(2 * 3.0 * k)
    assert classes.sensitivity == pytest.approx(2 * k)
    assert (numbers.sd, classes.sd) == pytest.approx((6 * k / 0.2, 2 * k / 0.2))
    assert (numbers.limit, classes.limit) == (9.0, 1.0)
    assert numbers.kept == 1.0


@pytest.mark.parametrize("rho", [0.005, 0.05, 2.0])
def test_what_the_cut_keeps_of_a_label_is_its_mean(rho):
    labels = NoisyLabels(job_of(co.Logistic()), rho, 1.0)
    mean, _ = integrate.quad(
        lambda z: np.clip(1 + labels.sd * z, -1, 1) * stats.norm.pdf(z), -12, 12, points=[0, -2 / labels.sd]
    )
    assert labels.kept == pytest.approx(mean, rel=1e-6)


def test_what_the_parties_spend_by_themselves_adds_up_to_the_budget():
    job = job_of(trust="nobody")
    local = Local(RunPlan.of(job, co.PrivateGram(cross="none")))
    plans = co.PrivateGram(cross="none").price(job)
    spent = math.fsum(charge.rho for plan in plans.values() for charge in plan)
    assert spent == pytest.approx(job.rho, rel=1e-9)
    rates = {p: local.sensitivity(p) ** 2 / local.rho(p) for p in local.releasing}
    assert max(rates.values()) == pytest.approx(min(rates.values()))  # noise is the same at all of them


@pytest.mark.parametrize("loss", [co.Logistic(), co.LeastSquares()])
def test_what_a_secure_run_spends_adds_up_to_the_budget_once(loss):
    job = job_of(loss, trust="secure")
    plans = co.PrivateGram().price(job)
    from colonnade.privacy.events import row_rho

    assert row_rho(plans) == pytest.approx(job.rho, rel=1e-9)


def test_noisy_labels_sum_to_the_same_number_in_every_order_of_rows():
    labels = NoisyLabels(job_of(), 0.02, 1.0)
    drawn = np.array([0.1, 0.7, -0.3, 1e-9, 2.9, -2.9, 0.2, 9.0, -0.6, 0.3, 1e-3, -9.0])
    turned = drawn[::-1].copy()
    assert np.clip(drawn, -3, 3).sum() != np.clip(turned, -3, 3).sum()  # or the next line would prove nothing
    assert labels.total(drawn) == labels.total(turned)
