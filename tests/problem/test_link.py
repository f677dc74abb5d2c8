"""The link from scores to probabilities, by hand arithmetic on round figures."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from colonnade.problem.link import class_share, constant, mixed, threshold


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # π = ½, π(1 − π) = ¼: factor 1, variance ¼, classes ½ apart, within them ¼ − ¼·¼ = 3/16; R = ½, ends .1 of ½ away
        ((0.5, 0.0, 0.25, 0.25), (8 / 3, 0.0, 0.5, 0.5, 0.5, 0.05, 0.95)),
        # covariance over variance is 4, and 1.5 is the most; R² = .9 is the most, so R > .85, and ends are .05 of ½ away
        ((0.5, 0.0, 0.4, 0.1), (60.0, 0.0, 0.85, 0.5, 0.75, 0.025, 0.975)),
        # π = .2 around ½: factor .8, variance .16, ½ apart, within .16 − .16·¼ = .12; h = ½ takes a sixteenth of R = ½
        (
            (0.2, 0.5, 0.2, 0.25, 0.0, 0.0, 0.5),
            (10 / 3, math.log(0.25) - 0.5 / 0.12 * (0.4 + 0.15), 0.5 * 15 / 16, 0.0, 0.4, 0.02, 0.92),
        ),
    ],
)
def test_a_link_is_that_of_its_moments(given, expected):
    figures = given if len(given) > 4 else (*given, 0.0, 0.0)
    assert mixed(*figures) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_noise_makes_a_link_flatter_by_the_fourth_power_of_how_far_it_reaches():
    """Noise of variance .01 of the largest covariance's may pass once in fifty: z = 2.05; 5 of its sds remain.

    The noise of the variance, of sd .05, makes that larger."""
    reach = float(stats.norm.isf(0.02)) / 5.0
    plain = mixed(0.5, 0.0, 0.25 * (1.0 - reach**4), 0.25, 0.0, 0.0)
    assert mixed(0.5, 0.0, 0.25, 0.25, 0.0025, 0.0) == pytest.approx(plain, rel=1e-12)
    assert mixed(0.5, 0.0, 0.25, 0.2, 0.0025, 0.0025) == pytest.approx(plain, rel=1e-12)
    assert mixed(0.3, 0.0, 0.1, 0.25, 0.0025, 0.0) == constant(0.3)  # two sds: within z = 2.1


@pytest.mark.parametrize(
    ("noise2", "chance"), [(1e-6, 0.05), (2e-4 / 0.05, 0.05), (0.008, 0.025), (0.02, 0.01), (0.2, 0.001)]
)
def test_noise_may_pass_for_a_signal_the_less_often_the_more_it_costs(noise2, chance):
    """Once in twenty, and at most as often as costs 2·10⁻⁴ nats on average."""
    assert threshold(noise2) == pytest.approx(float(stats.norm.isf(chance)), rel=1e-9)
    assert threshold(0.0) == 0.0


def test_a_share_is_the_mean_of_what_lies_between_none_and_all():
    for released, sd in ((0.3, 0.05), (-0.1, 0.2), (1.3, 0.4), (0.5, 30.0)):
        law = stats.truncnorm(-released / sd, (1.0 - released) / sd, released, sd)
        assert class_share(released, sd) == pytest.approx(float(law.mean()), abs=1 / 400)  # apart by that, from that on
    assert [class_share(share, 0.0) for share in (-0.2, 0.0, 0.4, 1.0)] == [0.0025, 0.0025, 0.4, 0.9975]
