"""`co.audit`: attack a mechanism or a whole method, and bound its epsilon from below.

    co.audit("frank-wolfe", epsilon=1.0).sentence         audit.sweep() attacks everything

Claim    a verdict "violated" is wrong with probability at most 1e-6; "consistent" proves nothing more.
Method   two neighbouring data sets, made up from a seed; the release drawn many times from each, its noise from the
         mechanism under test; one score a trial, the likelihood ratio where the density is known; then lower_bound.py.
Leaves   nothing of anybody's: the data are made up here.
Targets  run through the real gate, ledger and node program; a `Target` of one's own is attacked the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.audit import block_frank_wolfe, central_frank_wolfe, gram, mechanisms, sharing_admm
from colonnade.audit.lower_bound import Verdict, epsilon_lower_bound
from colonnade.audit.setting import Setting
from colonnade.errors import InvalidInput
from colonnade.privacy.statement import OF_TRUST, Guarantee, Trust, guarantee_under
from colonnade.runs.progress import Bar

Floats = NDArray[np.float64]
CLAIMS = (0.1, 1.0, 4.0)
CONFIDENCE = 1 - 1e-6  # of one verdict: all verdicts of a sweep together then err less than once in 10,000 times


@dataclass(frozen=True)
class Adversary:
    """What somebody sees of a release, and the score computed from it: `attack(setting, inside, trials)`."""

    sees: str
    statistic: str
    attack: Callable[[Setting, bool, int], Floats]


@dataclass(frozen=True)
class Target:
    """Something that claims privacy, a pair of neighbouring data sets, and who attacks it."""

    title: str
    neighbours: str
    adversaries: Mapping[str, Adversary]  # the first is the usual one
    trials: int  # a side, for a quick audit: enough to break what is broken
    batch: int  # trials in one call
    trust: str = Trust.NOBODY
    claimed: bool = False  # by a paper, not by us
    claims: tuple[float, ...] = CLAIMS
    delta: float = 1e-5

    @property
    def guarantee(self) -> Guarantee:
        """What stands behind the claim: of ours, what a statement under this trust model says."""
        return Guarantee.CLAIMED if self.claimed else guarantee_under(OF_TRUST.get(self.trust, ()))


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

    target     a name from `TARGETS`, such as "gaussian" or "frank-wolfe", or a `Target` of your own.
    delta      the delta claimed with it; by default the target's own.
    trials     releases drawn from each of the two data sets; by default enough for a quick audit.
    adversary  who attacks, for targets that several kinds of people can see; by default who sees most.
    seed       makes the data; the noise is the mechanism's own and never the same twice.
    jobs       processes; with more than one, a script needs the usual `if __name__ == "__main__":`.
    """
    name = target if isinstance(target, str) else target.title
    known = _known(target) if isinstance(target, str) else target
    asked = _Job.of(name, known, epsilon, delta, trials, adversary, seed)
    return _run([asked], progress, jobs)[0].verdict


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
    listed = []
    chosen = TARGETS if targets is None else targets
    named = chosen if isinstance(chosen, Mapping) else {name: _known(name) for name in chosen}
    for name, known in named.items():
        for adversary in known.adversaries:
            for claim in known.claims:
                trials = max(2, round(effort * known.trials))
                listed.append(_Job.of(name, known, claim, None, trials, adversary, seed))
    return _run(listed, progress, jobs)


def rows(results: Iterable[Result]) -> list[dict[str, str]]:
    """The results as a table: one row an attack, every cell a text."""
    table = []
    for result in results:
        verdict = result.verdict
        table.append(
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
        )
    return table


# ------------------------------------------------------------------------------------------------ running


@dataclass(frozen=True)
class _Job:
    """One attack that was asked for."""

    name: str
    target: Target
    adversary: str
    setting: Setting
    trials: int

    @classmethod
    def of(
        cls,
        name: str,
        known: Target,
        epsilon: float,
        delta: float | None,
        trials: int | None,
        adversary: str | None,
        seed: int,
    ) -> _Job:
        adversary = next(iter(known.adversaries)) if adversary is None else adversary
        if adversary not in known.adversaries:
            raise InvalidInput(f"{name!r} has no adversary {adversary!r}; choose {', '.join(known.adversaries)}.")
        delta = known.delta if delta is None else delta
        if not (0 < epsilon < math.inf and 0 < delta < 1):
            raise InvalidInput(f"a claim needs a finite epsilon > 0 and 0 < delta < 1, got {epsilon} and {delta}.")
        trials = known.trials if trials is None else trials
        if trials < 2:
            raise InvalidInput(f"trials={trials}: half choose the test and half judge, so at least 2; 10,000 is usual.")
        return cls(name, known, adversary, Setting(epsilon, delta, seed), trials)

    def batches(self) -> list[tuple[_Job, bool, int]]:
        """The same trials for both data sets, cut into calls of the target's size."""
        batch = self.target.batch
        sizes = [batch] * (self.trials // batch) + ([self.trials % batch] if self.trials % batch else [])
        return [(self, inside, size) for inside in (True, False) for size in sizes]


def _known(target: str) -> Target:
    if target not in TARGETS:
        raise InvalidInput(f"there is no target {target!r}; choose one of {', '.join(TARGETS)}.")
    return TARGETS[target]


def _run(listed: Sequence[_Job], progress: bool, jobs: int) -> list[Result]:
    if jobs < 1:
        raise InvalidInput(f"jobs={jobs} must be at least 1; 2 uses two processes.")
    work = [batch for job in listed for batch in job.batches()]
    scores: list[Floats] = []
    with _bar(progress, sum(size for *_, size in work)) as tell, _mapper(jobs) as mapper:
        for found in mapper(_attack, work):
            scores.append(found)
            tell(found.size)
    results, at = [], 0
    for job in listed:
        count = len(job.batches()) // 2
        inside, outside = (np.concatenate(scores[at + i : at + i + count]) for i in (0, count))
        at += 2 * count
        bound = epsilon_lower_bound(inside, outside, job.setting.delta, CONFIDENCE)
        results.append(Result(job.name, job.adversary, job.setting.delta, bound.against(job.setting.epsilon)))
    return results


def _attack(batch: tuple[_Job, bool, int]) -> Floats:
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


@contextmanager
def _bar(wanted: bool, trials: int) -> Iterator[Callable[[int], None]]:
    if not wanted:
        yield lambda _: None
        return
    bar, done = Bar("trials", trials), 0

    def tell(finished: int) -> None:
        nonlocal done
        done += finished
        bar.show({"round": done})

    try:
        yield tell
    finally:
        bar.stop()


# ------------------------------------------------------------------------------------------------ our estimators


def _attacks() -> Any:
    from colonnade.audit import estimators  # which brings scikit-learn with it

    return estimators


def _releases(recipe: str, moved: str, setting: Setting, inside: bool, trials: int) -> Floats:
    its = _attacks()
    found: Floats = its.releases(
        getattr(its, recipe)(setting), its.tables(setting, getattr(its, moved)), inside, trials
    )
    return found


def _estimated(recipe: str, setting: Setting, inside: bool, trials: int) -> Floats:
    its = _attacks()
    found: Floats = its.models(getattr(its, recipe)(setting), its.tables(setting, its.TURNED), inside, trials)
    return found


_class_sums = partial(_releases, "summed", "TURNED")
_class_sum_models = partial(_estimated, "summed")
_screened_sums = partial(_releases, "screened", "MOVED")
_gradients = partial(_releases, "stepped", "TURNED")
_gradient_models = partial(_estimated, "stepped")


def _sizes(setting: Setting, inside: bool, trials: int) -> Floats:
    its = _attacks()
    found: Floats = its.sizes(its.screened(setting), its.tables(setting, its.MOVED), inside, trials)
    return found


def _picks(setting: Setting, inside: bool, trials: int) -> Floats:
    found: Floats = _attacks().picks(setting, inside, trials)
    return found


def _pick_models(setting: Setting, inside: bool, trials: int) -> Floats:
    found: Floats = _attacks().pick_models(setting, inside, trials)
    return found


# ------------------------------------------------------------------------------------------------ the table

_LABEL = "replace one row of 21: the same features, the opposite label"
_TURNED = "replace one row of 21: the same target, features that point the other way"
_ALL_OF_IT = "the likelihood ratio of all of it"

TARGETS: Mapping[str, Target] = {
    "gaussian": Target(
        "sums through the gate's Gaussian mechanism",
        _LABEL,
        {"receiver": Adversary("the noisy sums", "their total, which is the likelihood ratio", mechanisms.gaussian)},
        trials=200_000,
        batch=50_000,
    ),
    "replay": Target(
        "the same release, replayed after each of fifteen crashes",
        _LABEL,
        {"receiver": Adversary("what each of sixteen lives sends", "the mean of the totals", mechanisms.replayed)},
        trials=50_000,
        batch=25_000,
    ),
    "noisy-max": Target(
        "the largest signed sum through the gate's exponential mechanism",
        _LABEL,
        {"receiver": Adversary("index and sign", "the likelihood ratio", mechanisms.noisy_max)},
        trials=3_000,
        batch=500,
    ),
    "top": Target(
        "the two largest signed sums through the gate",
        _LABEL,
        {"receiver": Adversary("the ordered picks", "the likelihood ratio", mechanisms.top)},
        trials=2_000,
        batch=500,
    ),
    "symmetric": Target(
        "a Gram matrix through the gate's symmetric Gaussian mechanism",
        "replace one row of 21: two orthogonal rows of full length",
        {"receiver": Adversary("the noisy matrix", "the likelihood ratio", mechanisms.symmetric)},
        trials=3_000,
        batch=500,
    ),
    "frank-wolfe": Target(
        "a whole run of CentralFrankWolfe: the holder's program behind its gate and budget",
        _LABEL,
        {
            "coordinator": Adversary(
                "every signed column number", "the likelihood ratio of all of them", central_frank_wolfe.transcripts
            ),
            "reader": Adversary("the final model", "the sum of its coefficients", central_frank_wolfe.models),
        },
        trials=1_000,
        batch=100,
    ),
    "class-sums": Target(
        "SparseClassifier by class sums: mean, weighted sum of rows, moments of scores",
        _TURNED,
        {
            "receiver": Adversary("every release of a fit", "the likelihood ratio of all of them", _class_sums),
            "reader": Adversary("the fitted model", "the coefficient of the row's column", _class_sum_models),
        },
        trials=500,
        batch=100,
    ),
    "screened-sums": Target(
        "SparseClassifier with max_features: sizes of columns first, then class sums",
        "replace one row of 21: the same target, another feature",
        {
            "receiver": Adversary("every release of a fit", "the likelihood ratio of all of them", _screened_sums),
            "screener": Adversary("the noisy sizes of columns", "one column's against the other's", _sizes),
        },
        trials=500,
        batch=100,
    ),
    "noisy-gradient": Target(
        "SparseClassifier by gradient steps in the row-norm geometry",
        _TURNED,
        {
            "receiver": Adversary("every release of a fit", "the likelihood ratio of all of them", _gradients),
            "reader": Adversary("the fitted model", "the coefficient of the row's column", _gradient_models),
        },
        trials=500,
        batch=100,
    ),
    "sparse-picks": Target(
        "SparseClassifier by sparse Frank-Wolfe: all picks of a fit",
        _LABEL,
        {
            "receiver": Adversary("every signed column number", "the likelihood ratio of all of them", _picks),
            "reader": Adversary("the fitted model", "the sum of its coefficients", _pick_models),
        },
        trials=1_000,
        batch=100,
    ),
    "block-frank-wolfe": Target(
        "a whole run of PrivateBlockFrankWolfe: two parties' programs, a coordinator that asks about one row",
        "replace one row of 21: +1 and −1 in the columns of both parties, or −1 and +1; labels are public",
        {
            "coordinator": Adversary(
                "column numbers, sketches, products", "the likelihood ratio", block_frank_wolfe.sketches
            )
        },
        trials=1_000,
        batch=100,
    ),
    "shared-choice": Target(
        "a whole run of PrivateBlockFrankWolfe inside a consortium: two parties and their coordinator",
        _LABEL,
        {"reader": Adversary("the final model", "the sum of its coefficients", block_frank_wolfe.models)},
        trials=1_000,
        batch=100,
        trust=Trust.CONSORTIUM,
    ),
    "sharing-admm": Target(
        "a whole run of PrivateSharingADMM: both holders' programs behind their gates and budgets",
        "replace one row of 200: its feature and its label change sign",
        {
            "coordinator": Adversary("noisy labels, predictions, coefficients", _ALL_OF_IT, sharing_admm.rows_seen),
            "reader": Adversary("the model", "the coefficient", sharing_admm.models_seen),
        },
        trials=1_000,
        batch=100,
    ),
    "sharing-admm-column": Target(
        "the same for one feature column",
        "change one column: parallel to the residual, or orthogonal to it",
        {"coordinator": Adversary("noisy predictions and coefficients", _ALL_OF_IT, sharing_admm.columns_seen)},
        trials=1_000,
        batch=100,
    ),
    **{
        name: Target(
            attacked.title,
            attacked.neighbours,
            {who: Adversary(v.sees, v.statistic, v.attack) for who, v in attacked.viewers.items()},
            trials=attacked.trials,
            batch=attacked.batch,
            trust=attacked.trust,
        )
        for name, attacked in gram.ATTACKS.items()
    },
}
