"""What an attack proves: a lower bound on epsilon from trials, with its confidence.

Claim    `epsilon_lower_bound` exceeds the true epsilon with probability at most 1 - confidence, whatever
         the scores are: an (ε, δ)-private release obeys P(S) ≤ e^ε Q(S) + δ for every event S, both ways round.
Source   Clopper and Pearson 1934; Jagielski, Ullman and Oprea, NeurIPS 2020, section 4.
Method   the event (a threshold, and on which side of it) is chosen on one half of the trials; the bound
         log((low(P(S)) - δ) / high(Q(S))) comes from the other half, both ways round, each at half the error.
Leaves   an attack sees data on purpose: run it on made-up rows, never on a party's.
Note     a consistent verdict proves nothing more: a better attack may exist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput

Scores = NDArray[np.float64]
THRESHOLDS = 401  # tried on the first half; more find little and cost time


@dataclass(frozen=True)
class Verdict:
    """An attack's answer to a claimed epsilon.

    Parameters
    ----------
    claim
        The epsilon that was claimed.
    lower_bound
        What epsilon is at least, by what the attack found.
    trials
        Releases drawn from each of the two data sets.
    confidence
        That the bound holds; 1 less the odds of an error.
    """

    claim: float
    lower_bound: float
    trials: int
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether the lower bound is above the claim."""
        return self.lower_bound > self.claim

    @property
    def sentence(self) -> str:
        """The verdict in words, with what it proves."""
        found = "violated: epsilon is at least" if self.violated else "consistent: proves nothing more than epsilon >="
        trials = f"{self.trials:,} trials a side, error probability {1 - self.confidence:.1g}"
        return f"{found} {self.lower_bound:.3g}, the claim is {self.claim:g} ({trials})."


@dataclass(frozen=True)
class LowerBound:
    """The largest epsilon the trials rule out."""

    epsilon: float
    trials: int
    confidence: float

    def against(self, claim: float) -> Verdict:
        return Verdict(claim, self.epsilon, self.trials, self.confidence)


def epsilon_lower_bound(scores_in: Scores, scores_out: Scores, delta: float, confidence: float) -> LowerBound:
    """How large epsilon must be, given the attacker's scores under the two neighbours, one score a trial."""
    scores_in = np.asarray(scores_in, dtype=float)
    scores_out = np.asarray(scores_out, dtype=float)
    trials = scores_in.size
    if scores_in.shape != (trials,) or scores_out.shape != (trials,) or trials < 2:
        shapes = f"{scores_in.shape} and {scores_out.shape}"
        raise InvalidInput(f"scores of shapes {shapes}: pass as many trials, two or more, for each neighbour.")
    if np.isnan(scores_in).any() or np.isnan(scores_out).any():
        raise InvalidInput("a score is nan: let the attack return a number (or an infinity) for every trial.")
    if not 0 <= delta < 1:
        raise InvalidInput(f"delta={delta:g} must lie in [0, 1): attack the delta that is claimed.")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence={confidence:g} must lie between 0 and 1; 0.999 is usual for one audit.")
    tail = (1 - confidence) / 4  # two ways round, two rates each
    best = 0.0
    for many, few in ((scores_in, scores_out), (scores_out, scores_in)):
        side, threshold = _choose_event(many[: trials // 2], few[: trials // 2], delta, tail)
        hit, false = _rates(side * many[trials // 2 :], side * few[trials // 2 :], np.array([threshold]), tail)
        best = max(best, float(_ratio(hit, false, delta)[0]))
    return LowerBound(best, trials, confidence)


def choice_log_ratio(index: int, scores_in: Scores, scores_out: Scores, scale: float) -> float:
    """log P(index | in) / P(index | out) of the exponential mechanism at this scale."""
    return _choice_log(index, scores_in, scale) - _choice_log(index, scores_out, scale)


def _choice_log(index: int, scores: Scores, scale: float) -> float:
    gaps = (np.asarray(scores, dtype=float) - np.max(scores)) / scale
    return float(gaps[index] - math.log(np.exp(gaps).sum()))


def _choose_event(many: Scores, few: Scores, delta: float, tail: float) -> tuple[int, float]:
    """The side (+1: score ≥ threshold; -1: -score ≥ threshold) and threshold with the largest bound here."""
    found = []
    for side in (1, -1):
        pooled = np.sort(side * np.concatenate([many, few]))
        thresholds = np.unique(pooled[np.linspace(0, pooled.size - 1, THRESHOLDS).astype(int)])
        shown = _ratio(*_rates(side * many, side * few, thresholds, tail), delta)
        best = int(shown.argmax())
        found.append((float(shown[best]), side, float(thresholds[best])))
    return max(found)[1:]


def _rates(many: Scores, few: Scores, thresholds: Scores, tail: float) -> tuple[Scores, Scores]:
    """For each threshold: a lower bound of the rate of scores ≥ it in `many`, an upper bound in `few`."""
    hits, falses = (scores.size - np.searchsorted(np.sort(scores), thresholds, side="left") for scores in (many, few))
    return clopper_pearson(hits, many.size, tail)[0], clopper_pearson(falses, few.size, tail)[1]


def _ratio(hit: Scores, false: Scores, delta: float) -> Scores:
    # Without evidence the bound is far below 0, and finite, so that events can still be compared.
    return np.asarray(np.log(np.maximum(hit - delta, 1e-300) / false))


def clopper_pearson(successes: NDArray[np.int64], trials: int, tail: float) -> tuple[Scores, Scores]:
    """Exact bounds on success rates: each side errs with probability at most `tail`."""
    from scipy.stats import beta

    failures = trials - successes
    low = np.where(successes > 0, beta.ppf(tail, np.maximum(successes, 1), failures + 1), 0.0)
    high = np.where(failures > 0, beta.isf(tail, successes + 1, np.maximum(failures, 1)), 1.0)
    return low, high
