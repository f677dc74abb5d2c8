"""`co.audit`: attack a mechanism, a whole method or a paper's calibration, and bound its epsilon from below.

    co.audit("frank-wolfe", epsilon=1.0).sentence         audit.sweep() attacks everything

Claim    a verdict "violated" is wrong with probability at most 1e-6; "consistent" proves nothing more.
Method   two neighbouring data sets, made up from a seed; the release drawn many times from each, its noise from the
         mechanism under test; one score a trial, the likelihood ratio where the density is known; then attack.py.
Leaves   nothing of anybody's: the data are made up here.
Ours     run through the real gate, ledger and node program. The papers' calibrations come from published/.
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

from colonnade.attacks import block_frank_wolfe, central_frank_wolfe, gram, mechanisms, papers, sharing_admm
from colonnade.attacks.setting import Setting
from colonnade.errors import InvalidInput
from colonnade.privacy.attack import Verdict, epsilon_lower_bound
from colonnade.privacy.statement import OF_TRUST, Guarantee, Trust, guaranteed
from colonnade.progress import Bar

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
        return Guarantee.CLAIMED if self.claimed else guaranteed(OF_TRUST.get(self.trust, ()))


@dataclass(frozen=True)
class Result:
    """A verdict, and on what."""

    target: str
    adversary: str
    delta: float
    verdict: Verdict


def audit(
    target: str,
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

    target     a name from `TARGETS`: "gaussian", "frank-wolfe", "published-sketch", ...
    delta      the delta claimed with it; by default the target's own.
    trials     releases drawn from each of the two data sets; by default enough for a quick audit.
    adversary  who attacks, for targets that several kinds of people can see; by default who sees most.
    seed       makes the data; the noise is the mechanism's own and never the same twice.
    jobs       processes; with more than one, a script needs the usual `if __name__ == "__main__":`.
    """
    asked = _Job.of(target, epsilon, delta, trials, adversary, seed)
    return _run([asked], progress, jobs)[0].verdict


def sweep(
    targets: Iterable[str] | None = None,
    *,
    effort: float = 1.0,
    seed: int = 0,
    progress: bool = False,
    jobs: int = 1,
) -> list[Result]:
    """Attack many targets (by default all), each at its usual claims and by each adversary.

    effort   multiplies the trials of a quick audit.
    """
    if not effort > 0:
        raise InvalidInput(f"effort={effort} must be above 0; 1 is a quick audit.")
    listed = []
    for name in TARGETS if targets is None else targets:
        known = _known(name)
        for adversary in known.adversaries:
            for claim in known.claims:
                trials = max(2, round(effort * known.trials))
                listed.append(_Job.of(name, claim, None, trials, adversary, seed))
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

    target: str
    adversary: str
    setting: Setting
    trials: int

    @classmethod
    def of(
        cls, target: str, epsilon: float, delta: float | None, trials: int | None, adversary: str | None, seed: int
    ) -> _Job:
        known = _known(target)
        adversary = next(iter(known.adversaries)) if adversary is None else adversary
        if adversary not in known.adversaries:
            raise InvalidInput(f"{target!r} has no adversary {adversary!r}; choose {', '.join(known.adversaries)}.")
        delta = known.delta if delta is None else delta
        if not (0 < epsilon < math.inf and 0 < delta < 1):
            raise InvalidInput(f"a claim needs a finite epsilon > 0 and 0 < delta < 1, got {epsilon} and {delta}.")
        trials = known.trials if trials is None else trials
        if trials < 2:
            raise InvalidInput(f"trials={trials}: half choose the test and half judge, so at least 2; 10,000 is usual.")
        return cls(target, adversary, Setting(epsilon, delta, seed), trials)

    def batches(self) -> list[tuple[_Job, bool, int]]:
        """The same trials for both data sets, cut into calls of the target's size."""
        batch = TARGETS[self.target].batch
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
        results.append(Result(job.target, job.adversary, job.setting.delta, bound.against(job.setting.epsilon)))
    return results


def _attack(batch: tuple[_Job, bool, int]) -> Floats:
    from threadpoolctl import threadpool_limits

    job, inside, size = batch
    with threadpool_limits(limits=1):
        return TARGETS[job.target].adversaries[job.adversary].attack(job.setting, inside, size)


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
    from colonnade.attacks import estimators  # which brings scikit-learn with it

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
_ONE_FEATURE = "replace one row of 200: the only one with the first feature, label 1 or 0"
_COLUMN = "change one column of 200 unit rows by flipping signs, a change of norm at most 1"

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
    "published-sketch": Target(
        "noisy sketches of columns, Lou and Cheung, equation 17",
        "replace one row of 200: its entry in every party's column is +1 or -1",
        {"coordinator": Adversary("all sketches of a run", "their sum along the row's direction", papers.sketches)},
        trials=10_000,
        batch=5_000,
        claimed=True,
        delta=1 / 200,
    ),
    "published-sign": Target(
        "sparse Frank-Wolfe with exact signs, Raff et al., algorithm 2",
        _ONE_FEATURE,
        {"reader": Adversary("the final model", "its first coefficient", papers.signs)},
        trials=10_000,
        batch=5_000,
        claimed=True,
        delta=1e-3,
    ),
    "published-laplace": Target(
        "sparse Frank-Wolfe with Laplace noise at the printed scale, Raff et al., algorithm 1",
        _ONE_FEATURE,
        {"reader": Adversary("the final model", "its first coefficient", papers.laplace)},
        trials=10_000,
        batch=5_000,
        claimed=True,
        delta=1e-3,
    ),
    "published-sharing-lemma": Target(
        "one iteration of ADMM sharing with independent noise, Hu et al., theorem 1",
        _COLUMN,
        {"coordinator": Adversary("the noisy prediction", "the likelihood ratio", papers.theorem)},
        trials=200_000,
        batch=5_000,
        claimed=True,
        claims=(0.1, 1.0),  # the theorem is stated for epsilon up to 1
        delta=1e-3,
    ),
    "published-sharing-range": Target(
        "one iteration of ADMM sharing with noise on the coefficients, Hu et al., algorithm 1",
        _COLUMN,
        {
            "coordinator": Adversary(
                "the noisy prediction", "its distance from one matrix's range", papers.outside_range
            )
        },
        trials=10_000,
        batch=5_000,
        claimed=True,
        claims=(0.1, 1.0),
        delta=1e-3,
    ),
    "published-zeroth-order": Target(
        "one primal update of zeroth-order ADMM, Gratton, theorem 4.1",
        "replace one row of 20: all zeros, or the first feature and the label 1",
        {"neighbour": Adversary("the agent's x", "its first entry", papers.first_update)},
        trials=1_000,
        batch=250,
        claimed=True,
        claims=(0.5,),  # the thesis computes epsilon from a whole number of directions
        delta=1e-3,
    ),
}
