"""Claims about the accountant: its figures bound exact curves computed at high precision, and are nearly tight."""

from __future__ import annotations

import math

import mpmath
import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import InvalidInput
from colonnade.privacy.accountant import ORDERS, epsilon, rho_for
from tests.helpers.spending import pld_epsilon

RHOS = (1e-8, 0.000433, 0.0306, 0.5, 8.0, 300.0)
DELTAS = (1e-2, 1e-6, 1e-12)
prices = st.floats(-9, 3).map(lambda exponent: 10.0**exponent)
chances = st.floats(-15, -1).map(lambda exponent: 10.0**exponent)
budgets = st.floats(-4, 3).map(lambda exponent: 10.0**exponent)


# ---------------------------------------------------------------- against exact curves


@pytest.mark.parametrize(
    ("budget", "chance", "rho"),
    [
        (1, 1e-3, 0.0594),
        (1, 1e-5, 0.0306),
        (0.1, 1e-3, 0.00118),
        (0.1, 1e-5, 0.000433),
        (4, 1e-3, 0.612),
        (4, 1e-5, 0.373),
    ],
)
def test_known_budgets_buy_the_known_amounts(budget, chance, rho):
    assert rho_for(budget, chance) == pytest.approx(rho, rel=0.01)
    assert epsilon(rho, chance) == pytest.approx(budget, rel=0.01)


@pytest.mark.parametrize("chance", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_the_figure_is_the_best_conversion_over_all_orders_and_never_below_it(rho, chance):
    best = best_conversion(rho, chance)
    assert best <= epsilon(rho, chance)
    if best > 0:
        assert epsilon(rho, chance) <= best * 1.002 + 1e-11


@pytest.mark.parametrize(("rho", "chance"), [(0.0306, 1e-5), (0.5, 1e-6), (8.0, 1e-12)])
def test_the_figure_is_above_the_exact_conversion_at_the_very_orders_that_are_used(rho, chance):
    """To forty digits: the rounding of doubles must lie on the private side, and no more than a hair of it is added."""
    with mpmath.workdps(40):
        exact = min(
            order * mpmath.mpf(rho) + mpmath.log1p(-1 / order) - mpmath.log(mpmath.mpf(chance) * order) / (order - 1)
            for order in map(mpmath.mpf, ORDERS)
        )
    assert exact < epsilon(rho, chance) < exact * (1 + 1e-11)


@pytest.mark.parametrize("chance", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_a_gaussian_release_is_as_private_as_reported(rho, chance):
    """The exact curve of continuous Gaussian noise with mu = sensitivity/sigma = sqrt(2 rho) (Balle and Wang 2018)."""
    assert gaussian_delta(mpmath.sqrt(2 * mpmath.mpf(rho)), epsilon(rho, chance)) <= chance


@pytest.mark.parametrize("chance", DELTAS)
@pytest.mark.parametrize(("sigma", "shift"), [(0.4, 1), (1.0, 1), (3.0, 2), (6.0, 1)])
def test_a_discrete_gaussian_release_is_as_private_as_reported(sigma, shift, chance):
    rho = shift**2 / (2 * sigma**2)
    assert discrete_gaussian_delta(sigma, shift, epsilon(rho, chance)) <= chance


@pytest.mark.parametrize("chance", DELTAS)
@pytest.mark.parametrize("rho", [0.0306, 0.5, 3.0])
@pytest.mark.parametrize("rivals", [1, 5])
def test_a_choice_is_as_private_as_reported(rivals, rho, chance):
    """The exponential mechanism, one candidate against equal rivals, everyone moving the worst way."""
    move = mpmath.sqrt(2 * mpmath.mpf(rho))  # sensitivity/scale
    promised = mpmath.exp(epsilon(rho, chance))
    for lead in mpmath.linspace(-8, 8, 33):
        p, q = (1 / (1 + rivals * mpmath.exp(-(lead + side * 2 * move))) for side in (0, 1))
        for here, there in ((p, q), (q, p)):
            excess = max(0, here - promised * there) + max(0, (1 - here) - promised * (1 - there))
            assert excess <= chance


@pytest.mark.parametrize("count", [1, 25])
@pytest.mark.parametrize("sigma", [2.0, 20.0])
def test_the_privacy_loss_distribution_lies_between_the_exact_curve_and_the_figure(sigma, count):
    crosscheck = pld_epsilon(sigma, 1.0, count, 1e-6)
    assert gaussian_delta(mpmath.sqrt(count) / sigma, crosscheck) <= 1e-6
    assert crosscheck <= epsilon(count / (2 * sigma**2), 1e-6)


@pytest.mark.parametrize("chance", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_the_figures_are_those_of_dp_accounting_over_the_same_orders(rho, chance):
    other = RdpAccountant(orders=ORDERS).compose(ZCDpEvent(rho))
    assert epsilon(rho, chance) == pytest.approx(other.get_epsilon(chance), rel=1e-11, abs=1e-11)


# ---------------------------------------------------------------- inverses


@settings(deadline=None, max_examples=100)
@given(budget=budgets, chance=chances)
def test_a_budget_buys_the_largest_total_that_it_covers(budget, chance):
    rho = rho_for(budget, chance)
    assert epsilon(rho, chance) <= budget < epsilon(rho * (1 + 1e-6), chance)


@settings(deadline=None, max_examples=100)
@given(rho=prices, more=st.floats(1, 100), chance=chances)
def test_spending_more_never_reports_less(rho, more, chance):
    assert epsilon(rho, chance) <= epsilon(rho * more, chance)


# ---------------------------------------------------------------- the ends


def test_nothing_costs_nothing_and_an_exact_release_costs_everything():
    assert epsilon(0.0, 1e-6) == epsilon(0.0, 0.0) == 0
    assert epsilon(math.inf, 1e-6) == epsilon(0.1, 0.0) == math.inf
    assert rho_for(math.inf, 1e-6) == math.inf
    assert rho_for(1.0, 0.0) == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda: epsilon(-1.0, 1e-6),
        lambda: epsilon(1.0, 1.0),
        lambda: epsilon(math.nan, 1e-6),
        lambda: rho_for(-1.0, 1e-6),
        lambda: rho_for(math.nan, 1e-6),
        lambda: rho_for(1.0, -1e-6),
    ],
)
def test_what_is_no_price_is_refused(ask):
    with pytest.raises(InvalidInput, match="must not be negative"):
        ask()


# ---------------------------------------------------------------- exact curves


def best_conversion(rho: float, chance: float) -> mpmath.mpf:
    """min over real orders of the RDP conversion, or 0 where total variation alone is below delta."""
    with mpmath.workdps(40):
        rho, chance = mpmath.mpf(rho), mpmath.mpf(chance)
        if chance**2 > -mpmath.expm1(-rho):
            return mpmath.mpf(0)

        def bound(log_excess):
            order = 1 + mpmath.exp(log_excess)
            return order * rho + mpmath.log1p(-1 / order) - mpmath.log(chance * order) / (order - 1)

        low, high = mpmath.log("1e-4"), mpmath.log("1e8")
        ratio = (mpmath.sqrt(5) - 1) / 2
        for _ in range(120):  # golden section: the bound falls, then rises
            left, right = high - ratio * (high - low), low + ratio * (high - low)
            low, high = (low, right) if bound(left) < bound(right) else (left, high)
        return max(mpmath.mpf(0), bound(low))


def gaussian_delta(mu: mpmath.mpf, limit: float) -> mpmath.mpf:
    with mpmath.workdps(400):  # the two terms may agree to hundreds of digits
        mu, limit = mpmath.mpf(mu), mpmath.mpf(limit)
        return mpmath.ncdf(mu / 2 - limit / mu) - mpmath.exp(limit) * mpmath.ncdf(-mu / 2 - limit / mu)


def discrete_gaussian_delta(sigma: float, shift: int, limit: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        reach = range(-math.ceil(40 * sigma) - shift, math.ceil(40 * sigma) + shift + 1)
        weight = {
            i: mpmath.exp(-(mpmath.mpf(i) ** 2) / (2 * mpmath.mpf(sigma) ** 2))
            for i in range(min(reach) - shift, max(reach) + 1)
        }
        total = mpmath.fsum(weight.values())
        promised = mpmath.exp(limit)
        return mpmath.fsum(max(0, weight[i - shift] - promised * weight[i]) for i in reach) / total


def test_the_continuous_gaussian_does_not_bound_the_discrete_one():
    """The figure of docs/understand/privacy/accounting.md: at sigma = 1 step, shift 1 step, epsilon = 4.3 the discrete delta is 1.8 times larger."""
    budget = 4.3
    mass = {k: math.exp(-k * k / 2) for k in range(-40, 42)}
    total = math.fsum(mass.values())
    discrete = math.fsum(max(0.0, mass[k] - math.exp(budget) * mass.get(k + 1, 0.0)) / total for k in range(-40, 41))
    tail = lambda x: 0.5 * math.erfc(x / math.sqrt(2))  # noqa: E731
    continuous = tail(budget - 0.5) - math.exp(budget) * tail(budget + 0.5)
    assert pytest.approx(discrete / continuous, abs=0.05) == 1.8
