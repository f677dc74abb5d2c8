"""`co.audit("frank-wolfe", epsilon=1.0).sentence`: attack a mechanism or a whole method, bound its epsilon from below.

Claim    a verdict "violated" is wrong with probability at most 1e-6; "consistent" proves nothing more.
Method   two neighbouring data sets, made up from a seed; the release drawn many times from each, through the real gate,
         ledger and node program; one score per trial, the likelihood ratio where it is known; then lower_bound.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np

from colonnade.attacks import estimators, frank_wolfe, gram, mechanisms, sharing_admm
from colonnade.attacks.lower_bound import Verdict, epsilon_lower_bound
from colonnade.attacks.setting import Setting, Target
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.runs.progress import progress_bar

CONFIDENCE = 1 - 1e-6  # of one verdict: all verdicts of a sweep together then err less than once in 10,000 times


@dataclass(frozen=True)
class Result:
    """A verdict, and on what."""

    target: str
    adversary: str
    delta: float
    verdict: Verdict


def audit(
    target: str | Target,
    *,
    epsilon: float = 1.0,
    delta: float | None = None,
    trials: int | None = None,
    adversary: str | None = None,
    seed: int = 0,
    progress: bool = False,
    jobs: int = 1,
) -> Verdict:
    """Attack one target at the claim (epsilon, delta) and say whether the claim survives.

    Parameters
    ----------
    target
        A name from `TARGETS`, such as "gaussian" or "frank-wolfe", or a `Target` of your own.
    epsilon
        The epsilon claimed.
    delta
        The delta claimed with it; None: the target's own.
    trials
        Releases drawn from each of the two data sets; None: enough for a quick audit.
    adversary
        Who attacks, for targets that several kinds of people can see; None: who sees most.
    seed
        Makes the data; the noise is the mechanism's own and never the same twice.
    progress
        Whether to show how far it is.
    jobs
        Processes; with more than one, a script needs the usual `if __name__ == "__main__":`.

    Returns
    -------
    Verdict
        The claim, the lower bound on epsilon, and `sentence`, which says both. "Violated" is wrong with probability at
        most 1e-6; "consistent" proves nothing more.
    """
    name = target if isinstance(target, str) else target.title
    known = _target_named(target) if isinstance(target, str) else target
    setting = Setting(epsilon, known.delta if delta is None else delta, seed)
    who = next(iter(known.adversaries)) if adversary is None else adversary
    job = _AttackJob(name, known, who, setting, known.trials if trials is None else trials)
    return _run([job], progress, jobs)[0].verdict


def sweep(
    targets: Iterable[str] | Mapping[str, Target] | None = None,
    *,
    effort: float = 1.0,
    seed: int = 0,
    progress: bool = False,
    jobs: int = 1,
) -> list[Result]:
    """Attack many targets (by default all), each at its usual claims and by each adversary.

    targets  names from `TARGETS`, or targets of your own by name.
    effort   multiplies the trials of a quick audit.
    """
    if not effort > 0:
        raise InvalidInput(f"effort={effort} must be above 0; 1 is a quick audit.")
    chosen = TARGETS if targets is None else targets
    named = chosen if isinstance(chosen, Mapping) else {name: _target_named(name) for name in chosen}
    listed = [
        _AttackJob(name, known, who, Setting(claim, known.delta, seed), max(2, round(effort * known.trials)))
        for name, known in named.items()
        for who in known.adversaries
        for claim in known.claims
    ]
    return _run(listed, progress, jobs)


def rows(results: Iterable[Result]) -> list[dict[str, str]]:
    """The results as a table: one row per attack, every cell a text."""
    return [
        {
            "target": result.target,
            "adversary": result.adversary,
            "claim": f"{verdict.claim:g}",
            "delta": f"{result.delta:g}",
            "lower bound": f"{verdict.lower_bound:.2f}",
            "confidence": f"1 - {1 - verdict.confidence:.0e}",
            "trials": f"{verdict.trials:,}",
            "verdict": "violated" if verdict.violated else "consistent: proves nothing more",
        }
        for result in results
        for verdict in [result.verdict]
    ]


# ------------------------------------------------------------------------------------------------ running


@dataclass(frozen=True)
class _AttackJob:
    """One attack that was asked for."""

    name: str
    target: Target
    adversary: str
    setting: Setting
    trials: int

    def __post_init__(self) -> None:
        known = self.target.adversaries
        claim = self.setting
        trials = self.trials
        if self.adversary not in known:
            raise InvalidInput(f"{self.name!r} has no adversary {self.adversary!r}; choose {', '.join(known)}.")
        if not (0 < claim.epsilon < math.inf and 0 < claim.delta < 1):
            got = f"{claim.epsilon} and {claim.delta}"
            raise InvalidInput(f"a claim needs a finite epsilon > 0 and 0 < delta < 1, got {got}.")
        if trials < 2:
            raise InvalidInput(f"trials={trials}: half choose the test and half judge, so at least 2; 10,000 is usual.")

    def batches(self) -> list[tuple[_AttackJob, bool, int]]:
        """The same trials for both data sets, cut into calls of the target's size."""
        whole, rest = divmod(self.trials, self.target.batch)
        sizes = [self.target.batch] * whole + [rest] * (rest > 0)
        return [(self, inside, size) for inside in (True, False) for size in sizes]


def _target_named(target: str) -> Target:
    if target not in TARGETS:
        raise InvalidInput(f"there is no target {target!r}; choose one of {', '.join(TARGETS)}.")
    return TARGETS[target]


def _run(listed: Sequence[_AttackJob], progress: bool, jobs: int) -> list[Result]:
    if jobs < 1:
        raise InvalidInput(f"jobs={jobs} must be at least 1; 2 uses two processes.")
    work = [batch for job in listed for batch in job.batches()]
    scores: list[Floats] = []
    with progress_bar(progress, "trials", sum(size for *_, size in work)) as show, _mapper(jobs) as mapper:
        for found in mapper(_attack, work):
            scores.append(found)
            show({"round": sum(done.size for done in scores)})
    results = []
    at = 0
    for job in listed:
        count = len(job.batches()) // 2
        inside, outside = (np.concatenate(scores[at + i : at + i + count]) for i in (0, count))
        at += 2 * count
        bound = epsilon_lower_bound(inside, outside, job.setting.delta, CONFIDENCE)
        results.append(Result(job.name, job.adversary, job.setting.delta, bound.against(job.setting.epsilon)))
    return results


def _attack(batch: tuple[_AttackJob, bool, int]) -> Floats:
    from threadpoolctl import threadpool_limits

    job, inside, size = batch
    with threadpool_limits(limits=1):
        return job.target.adversaries[job.adversary].attack(job.setting, inside, size)


@contextmanager
def _mapper(jobs: int) -> Iterator[Callable[..., Iterable[Floats]]]:
    if jobs == 1:
        yield map
        return
    # Fresh processes: a forked child would inherit locked threads of numba and BLAS.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield pool.map


_FILES = (mechanisms, frank_wolfe, estimators, sharing_admm, gram)
TARGETS: Mapping[str, Target] = {name: target for file in _FILES for name, target in file.ATTACKS.items()}
