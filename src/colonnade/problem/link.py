"""From a score to a probability, by figures that were released: near the share of the class where they say little.

Share    the class's share is the mean of a normal around the released one, cut to [0, 1]: what a uniform guess and the
         noise's known size leave.
Link     w·(normal scores) + (1 − w)·(linear probability), w = min(R, .85)·(1 − h⁴). Normal scores: either class's
         scores as normal with one variance, so that log-odds are linear; the linear probability is what least squares
         on labels ±1 estimates, kept away from 0 and 1 by a part of the share: max(.05, .6 − R), for the less a score
         says the less are its ends to be believed.
Flags    h is 1 where one column of zeros and ones makes all of the score, and 1/k where k alike do. Of a score with two
         values the linear probability is exact, and normal scores are far too sure: at R² = .88 their log-odds are ±16
         where ±3.5 is right, so that more budget, which brings R² up, made log loss worse.
         .85: no release tells whether classes of numbers are normal. Where they are, that costs at most about .02 of
         the entropy; where a number has two values, or labels are wrong here and there, the normal part alone costs .05
         more.
Noise    a score whose covariance with the label lies within `threshold` standard deviations of its noise says nothing,
         and everybody has the share's chance; one that lies z of them away counts by 1 − (threshold/z)⁴.
Chosen   the threshold, so that noise alone costs less than COST, half of the third decimal of log loss over an entropy
         of .4. The rest by looking at nhanes-diabetes, credit-default and a9a, whole and cut down.
Leaves   nothing: moments, share and sds are released or public.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri

from colonnade.kernels.arrays import Floats

# of the share: how near a linear probability comes to 0 and 1, at R² of 1 and 0
NEAREST = 0.05
FARTHEST = 0.6
COST = 2e-4  # nats of log loss a row that noise alone may cost on average
LEVEL = 0.05  # the largest chance at which noise alone may pass for a signal
LARGEST_FACTOR = 1.5  # by which a score is made longer again after the ridge
LARGEST_R2 = 0.9
MOST_NORMAL = 0.85  # of a probability comes from normal scores, at most
GRID = np.linspace(0.0025, 0.9975, 400)


class Link(NamedTuple):
    """P(y = 1 | s) = weight·sigmoid(slope·s + offset) + (1 − weight)·(level + rise·s, within low and high)."""

    slope: float
    offset: float
    weight: float = 1.0
    level: float = 0.5
    rise: float = 0.0
    low: float = 0.0
    high: float = 1.0

    def __call__(self, scores: Floats) -> Floats:
        normal = expit(self.slope * np.asarray(scores) + self.offset)
        line = np.clip(self.level + self.rise * np.asarray(scores), self.low, self.high)
        return np.asarray(self.weight * normal + (1.0 - self.weight) * line)

    def log_odds(self, scores: Floats) -> Floats:
        """Of label +1: at least 0 exactly where its probability is a half or more."""
        if self.weight == 1.0:
            return np.asarray(self.slope * np.asarray(scores) + self.offset)
        return np.asarray(logit(self(scores)))


PLAIN = Link(1.0, 0.0)  # scores that are log-odds themselves


def constant(share: float) -> Link:
    """Everybody has the share's chance."""
    return Link(0.0, float(logit(share)))


def class_share(released: float, sd: float) -> float:
    """The mean of a normal around the released share, cut to [0, 1]; never quite 0 or 1."""
    if sd < 1e-6:
        return float(np.clip(released, GRID[0], GRID[-1]))
    squares = np.square((GRID - released) / sd)
    weights = np.exp(0.5 * (squares.min() - squares))
    return float(weights @ GRID / weights.sum())


def threshold(noise2: float) -> float:
    """How many deviations of its noise a score's correlation with the label must exceed, by that noise's variance.

    Noise of sd t that passes by z > beyond claims a correlation of t·z·(1 − (beyond/z)⁴), which costs half its square
    where there is none: less than .9·t² on average, if z is normal. It passes with a chance of COST/t² at most.
    """
    return float(-ndtri(min(LEVEL, COST / noise2))) if noise2 > 0.0 else 0.0


def mixed(
    share: float,
    middle: float,
    pull: float,
    spread: float,
    pull_noise2: float,
    spread_noise2: float,
    alone: float = 0.0,
) -> Link:
    """The link of scores with mean `middle`, on the scale of least squares on labels ±1.

    pull     covariance of score and label, and the variance of its noise
    spread   variance of the scores, and the variance of its noise
    alone    h: how far the scores are those of one column of zeros and ones
    """
    if spread <= 0.0 or pull <= 1e-6 * math.sqrt(spread):
        return constant(share)
    spread = spread + math.sqrt(spread_noise2)
    between = share * (1.0 - share)
    beyond = threshold(pull_noise2 / (spread * 4.0 * between))
    pull *= max(0.0, 1.0 - (beyond**2 * pull_noise2 / pull**2) ** 2)  # 0 within the noise, soon 1 beyond it
    factor = min(pull / spread, LARGEST_FACTOR)
    if factor <= 1e-9:
        return constant(share)
    variance = factor**2 * spread
    covariance = min(factor * pull, math.sqrt(LARGEST_R2 * variance * 4.0 * between))
    apart = covariance / (2.0 * between)  # mean scores of the classes
    # At least (1 - LARGEST_R2) of the variance.
    within = variance - between * apart**2
    slope = apart / within
    correlation = math.sqrt(covariance**2 / (variance * 4.0 * between))
    away = max(NEAREST, FARTHEST - correlation)
    return Link(
        slope=slope * factor,
        offset=float(logit(share)) - slope * (factor * middle + (0.5 - share) * apart),
        weight=min(correlation, MOST_NORMAL) * (1.0 - alone**4),
        level=share - factor * middle / 2.0,
        rise=factor / 2.0,
        low=away * share,
        high=1.0 - away * (1.0 - share),
    )
