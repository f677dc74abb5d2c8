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
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput

Scores = NDArray[np.float64]
THRESHOLDS = 401  # tried on the first half; more find little and cost time


@dataclass(frozen=True)
class Verdict:
    """An attack's answer to a claimed epsilon."""

    claim: float
    lower_bound: float
    trials: int
    confidence: float

    @property
    def violated(self) -> bool:
        return self.lower_bound > self.claim

    @property
    def sentence(self) -> str:
        trials = f"{self.trials:,} trials a side, error probability {1 - self.confidence:.1g}"
        if self.violated:
            return f"violated: epsilon is at least {self.lower_bound:.3g}, the claim is {self.claim:g} ({trials})."
        return (
            f"consistent: proves nothing more than epsilon >= {self.lower_bound:.3g}, "
            f"the claim is {self.claim:g} ({trials})."
        )


@dataclass(frozen=True)
class LowerBound:
    """The largest epsilon the trials rule out, and the two rates that rule it out."""

    epsilon: float
    delta: float
    hit_rate: float  # at least this often the event happens under one neighbour
    false_rate: float  # at most this often under the other
    trials: int
    confidence: float

    def against(self, claim: float) -> Verdict:
        return Verdict(claim, self.epsilon, self.trials, self.confidence)


def clopper_pearson(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Exact bounds on a success rate: each side errs with probability at most (1 - confidence)/2."""
    if not 0 <= successes <= trials or trials < 1:
        raise InvalidInput(f"{successes} successes in {trials} trials: count each trial once, at least one.")
    low, high = _bounds(np.array([successes]), trials, _error(confidence) / 2)
    return float(low[0]), float(high[0])


def epsilon_lower_bound(scores_in: Scores, scores_out: Scores, delta: float, confidence: float) -> LowerBound:
    """How large epsilon must be, given the attacker's scores under the two neighbours, one score a trial."""
    scores_in, scores_out = np.asarray(scores_in, dtype=float), np.asarray(scores_out, dtype=float)
    trials = scores_in.size
    if scores_in.shape != (trials,) or scores_out.shape != (trials,) or trials < 2:
        raise InvalidInput(
            f"scores of shapes {scores_in.shape} and {scores_out.shape}: pass the same number of trials, "
            "two or more, for each neighbour."
        )
    if np.isnan(scores_in).any() or np.isnan(scores_out).any():
        raise InvalidInput("a score is nan: let the attack return a number (or an infinity) for every trial.")
    if not 0 <= delta < 1:
        raise InvalidInput(f"delta={delta:g} must lie in [0, 1): attack the delta that is claimed.")
    tail = _error(confidence) / 4  # two ways round, two rates each
    best = LowerBound(0.0, delta, 0.0, 1.0, trials, confidence)
    for many, few in ((scores_in, scores_out), (scores_out, scores_in)):
        side, threshold = _choose_event(many[: trials // 2], few[: trials // 2], delta, tail)
        hit, false = _rates(side * many[trials // 2 :], side * few[trials // 2 :], np.array([threshold]), tail)
        shown = float(_ratio(hit, false, delta)[0])
        if shown > best.epsilon:
            best = LowerBound(shown, delta, float(hit[0]), float(false[0]), trials, confidence)
    return best


def gaussian_log_ratio(
    release: NDArray[np.float64], mean_in: NDArray[np.float64], mean_out: NDArray[np.float64], sigma: float
) -> float:
    """log P(release | in) / P(release | out) under Gaussian noise, discrete or not: the best score there is."""
    shift = np.asarray(mean_in, dtype=float) - mean_out
    middle = (np.asarray(mean_in, dtype=float) + mean_out) / 2
    return float(np.sum((np.asarray(release) - middle) * shift) / sigma**2)


def choice_log_ratio(index: int, scores_in: Scores, scores_out: Scores, scale: float) -> float:
    """log P(index | in) / P(index | out) of the exponential mechanism at this scale."""
    return _choice_log(index, scores_in, scale) - _choice_log(index, scores_out, scale)


def run_trials(
    sample: Callable[[bool, int], float],
    trials: int,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
) -> tuple[Scores, Scores]:
    """Scores under both neighbours, `sample(inside, trial)` for trial 0, 1, ...: (inside, outside).

    `sample` makes its data from the trial's number, so both neighbours share them and a run can be repeated;
    the noise under attack is the mechanism's own. With jobs > 1 it must be a function at a module's top level.
    """
    if trials < 1 or jobs < 1:
        raise InvalidInput(f"trials={trials} and jobs={jobs} must both be at least 1.")
    edges = np.linspace(0, trials, min(trials, 16 * jobs) + 1).astype(int)
    chunks = [range(start, end) for start, end in pairwise(edges)]
    parts: list[list[tuple[float, float]]] = []
    if jobs == 1:
        for chunk in chunks:
            parts.append(_run_chunk(sample, chunk))
            _tell(progress, len(parts[-1]))
    else:
        # Fresh processes: a forked child would inherit locked threads of numba and BLAS.
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            for part in pool.map(_run_chunk, [sample] * len(chunks), chunks):
                parts.append(part)
                _tell(progress, len(part))
    scores = np.array([pair for part in parts for pair in part], dtype=float)
    return scores[:, 0].copy(), scores[:, 1].copy()


def _run_chunk(sample: Callable[[bool, int], float], chunk: range) -> list[tuple[float, float]]:
    return [(sample(True, trial), sample(False, trial)) for trial in chunk]


def _tell(progress: Callable[[int], None] | None, finished: int) -> None:
    if progress is not None:
        progress(finished)


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
    return _bounds(hits, many.size, tail)[0], _bounds(falses, few.size, tail)[1]


def _ratio(hit: Scores, false: Scores, delta: float) -> Scores:
    # Without evidence the bound is far below 0, and finite, so that events can still be compared.
    return np.asarray(np.log(np.maximum(hit - delta, 1e-300) / false))


def _bounds(successes: NDArray[np.int64], trials: int, tail: float) -> tuple[Scores, Scores]:
    from scipy.stats import beta

    failures = trials - successes
    low = np.where(successes > 0, beta.ppf(tail, np.maximum(successes, 1), failures + 1), 0.0)
    high = np.where(failures > 0, beta.isf(tail, successes + 1, np.maximum(failures, 1)), 1.0)
    return low, high


def _error(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence={confidence:g} must lie between 0 and 1; 0.999 is usual for one audit.")
    return 1 - confidence
