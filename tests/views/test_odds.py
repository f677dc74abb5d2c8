"""What is said of epsilon and delta: sets of outcomes, guesses and odds, against exact sums over the discrete Gaussian."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import colonnade as co
from colonnade.privacy.accountant import ORDERS, rho_for
from colonnade.privacy.mechanisms import gaussian_sigma, rational_sigma
from colonnade.views import verdict as odds
from colonnade.views.page import render_report

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROOT = Path(__file__).resolve().parents[2]
DELTA = 1e-6
SHIFT = 1024  # in steps of the grid: one coordinate that moves by its whole sensitivity


class Noise:
    """The law of the shipped noise for this epsilon, by summation: masses, and the loss at each value."""

    def __init__(self, epsilon: float) -> None:
        self.rho = rho_for(epsilon, DELTA)
        sigma = float(rational_sigma(gaussian_sigma(float(SHIFT), self.rho)))
        reach = math.ceil(14 * sigma)  # what lies beyond weighs less than 1e-40
        x = np.arange(-reach, reach + 1, dtype=float)
        weights = np.exp(-(x**2) / (2 * sigma**2))
        self.mass = weights / weights.sum()
        self.loss = ((x + SHIFT) ** 2 - x**2) / (2 * sigma**2)

    def beyond(self, loss: float) -> float:
        """The chance that the odds for the truth grow by more than e^loss."""
        return float(self.mass[self.loss > loss].sum())

    def excess(self, epsilon: float) -> float:
        """The most that P(S) exceeds e^epsilon·Q(S) by, over all S: Q = P·e^−loss."""
        return float((self.mass * np.maximum(0.0, 1.0 - np.exp(epsilon - self.loss))).sum())


@pytest.fixture(scope="module", params=[0.1, 1.0, 4.0])
def case(request: pytest.FixtureRequest) -> tuple[float, Noise]:
    return request.param, Noise(request.param)


def test_the_noise_keeps_the_promise_and_goes_beyond_its_factor_more_often_than_delta(case):
    epsilon, noise = case
    assert noise.excess(epsilon) <= DELTA
    assert noise.beyond(epsilon) > DELTA


def test_the_figure_in_the_derivation_is_that_of_the_noise():
    said = re.search(
        r"chance of (\d+)·10⁻⁶, and keeps the promise", (ROOT / "docs/understand/privacy/accounting.md").read_text()
    )
    assert said is not None
    assert round(Noise(0.1).beyond(0.1) / 1e-6) == int(said[1])


def test_odds_grow_beyond_the_stated_factor_no_more_often_than_stated(case):
    epsilon, noise = case
    for rho in (noise.rho, None):
        loss, chance = odds.tail(epsilon, DELTA, rho)
        assert noise.beyond(loss) <= chance
    loss, _ = odds.tail(epsilon, DELTA, noise.rho)
    assert noise.beyond(0.75 * loss) > DELTA  # so it is no bound that everything keeps


def test_what_releases_took_of_delta_lifts_odds_no_more_often_than_stated():
    """P₀ has a rare outcome just below the bound on its odds, and what was taken lies in it: the bound for P₀ alone, at a
    chance of both parts of delta, would be broken."""
    rho, taken = 0.02, 5.3e-8
    delta = 1e-6 + taken
    least = odds.tail(1.0, delta - taken, rho)[0]
    mass = 1.9e-6
    loss = least - 0.0245
    rest = math.log1p(-mass), math.log1p(-mass * math.exp(-loss))  # of the other outcome, in P₀ and in Q₀
    for alpha in ORDERS:  # within zCDP, both ways
        there = np.logaddexp(math.log(mass) + (alpha - 1) * loss, alpha * rest[0] + (1 - alpha) * rest[1])
        back = np.logaddexp(math.log(mass) - alpha * loss, alpha * rest[1] + (1 - alpha) * rest[0])
        assert max(there, back) <= alpha * (alpha - 1) * rho
    chance = (1.0 - taken) * mass + taken
    lifted = math.log(chance / ((1.0 - taken) * mass * math.exp(-loss)))
    assert lifted > least
    assert chance > 1.5 * delta
    found, at_most = odds.tail(1.0, delta, rho, taken)
    assert at_most == delta
    assert lifted < found < 1.25 * least
    assert odds.tail(1.0, delta, rho, 0.0) == odds.tail(1.0, delta, rho)


@pytest.mark.parametrize("share", [1e-3, 0.05, 0.5, 0.9])
def test_odds_where_releases_took_a_part_of_delta_are_the_bound_of_the_derivation(share, case):
    """δ′ + δ_L/(1 − e^−η) is delta, and the noise goes beyond t₀ with a chance of δ′ at most."""
    _, noise = case
    taken = share * DELTA
    found, chance = odds.tail(1.0, DELTA, noise.rho, taken)
    raised = math.log((DELTA + taken) / (DELTA - taken))
    half = (DELTA - taken) / 2.0
    assert half + taken / -math.expm1(-raised) == pytest.approx(chance, rel=1e-9)
    assert noise.beyond(found - raised) <= half
    assert found > odds.tail(1.0, DELTA, noise.rho)[0]


def test_a_guess_at_even_odds_is_right_no_more_often_than_stated(case):
    epsilon, noise = case
    best = float((noise.mass * np.maximum(1.0, np.exp(-noise.loss))).sum()) / 2  # the likelier table, at every outcome
    assert 0.5 < best <= odds.guess(epsilon, DELTA)


def test_every_report_says_these_figures_and_no_chance_of_failure():
    X = np.arange(24.0).reshape(6, 4) % 5
    fed = co.Federation.split(X, X @ [1.0, 0.0, -1.0, 0.0], parties=2)
    fit = co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(1.0)), co.DistributedFrankWolfe(rounds=2))
    rho = 0.02436
    said = replace(fit.privacy, epsilon=1.0, delta=1e-6, guarantee="proven", rho=rho)
    page = re.sub(r"<[^>]+>", "", render_report(replace(fit, privacy=said, seconds=None)))
    loss = rho + 2 * math.sqrt(rho * 6 * math.log(10))
    assert "at most e^epsilon = 2.719 times its chance under the other, plus delta = 1e−06" in page
    assert "in at most 73.2 %" in page  # (e + 1e-6) / (1 + e) = 0.731059
    grown = f"{math.ceil(math.exp(loss) * 1000) / 1000:g}"
    assert f"odds for the truth by at most {grown}, except with a chance of at most 1e−06" in page
    assert "50 %76.6 %" in page  # 1 / (1 + e^−1.18462) = 0.76578
    page = re.sub(r"<[^>]+>", "", render_report(replace(fit, privacy=replace(said, rho=None), seconds=None)))
    assert "odds for the truth by at most 5.437, except with a chance of at most 2e−06" in page  # 2e = 5.43656


def test_nothing_says_that_delta_is_the_chance_that_a_bound_fails():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    wrong = re.compile(
        r"bound may fail|promise fails|chance that this fails|probability (of at most )?(delta|δ)( at most)?[,;:]? (any|no)thing"
        r"|except with a probability of at most (delta|δ)|apart from the chance delta"
        r"|chance that (this|the) bound fails|so small that it is left out|change by a factor of at most e\^",
        re.IGNORECASE,
    )
    found = {path.name: hit[0] for path in pages if (hit := wrong.search(" ".join(path.read_text().split())))}
    assert found == {}


@pytest.mark.chance(0, "prices alone are compared")
def test_the_price_behind_epsilon_is_in_a_statement_that_rests_on_it(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 3))
    fed = co.Federation.split(X, np.sign(X[:, 0]), parties={"clinic": slice(None)}, label="clinic")
    asked = co.Privacy(0.7, 1e-5, feature_bound=1.0)
    fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(2.0)), co.CentralFrankWolfe(rounds=2), asked, store=tmp_path)
    assert fit.privacy.rho == pytest.approx(rho_for(0.7, 1e-5), rel=1e-6)
    exact = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(2.0)), co.DistributedFrankWolfe(rounds=2))
    assert exact.privacy.rho is None
