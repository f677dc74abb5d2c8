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
from functools import cached_property, lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from colonnade import published
from colonnade.algorithms.central_frank_wolfe import CentralFrankWolfe, Choose
from colonnade.algorithms.method import Job, Roster
from colonnade.attacks import block_frank_wolfe, gram, sharing_admm
from colonnade.errors import InvalidInput
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.attack import Verdict, choice_log_ratio, epsilon_lower_bound
from colonnade.privacy.block import Block
from colonnade.privacy.events import Charge, Event, Mechanism, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import SystemNoise, gumbel_scale
from colonnade.privacy.released import Private
from colonnade.privacy.statement import Guarantee, Privacy
from colonnade.privacy.store import FileLog, Log, MemoryLog
from colonnade.problem import L1Ball, Logistic, Problem
from colonnade.progress import Bar
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.transcript import Transcript

Floats = NDArray[np.float64]
CLAIMS = (0.1, 1.0, 4.0)
CONFIDENCE = 1 - 1e-6  # of one verdict: all verdicts of a sweep together then err less than once in 10,000 times
RUN, PARTY = "audit", "party"
TERMS = Terms("audit", "", "nobody", "one row", "replace one row", "")


@dataclass(frozen=True)
class Setting:
    """What one attack is up against: the claim, and the seed its data are made from."""

    epsilon: float
    delta: float
    seed: int

    @cached_property
    def rho(self) -> float:
        """What our accountant sells for the claim."""
        return rho_for(self.epsilon, self.delta)


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
    guarantee: Guarantee = Guarantee.PROVEN
    claims: tuple[float, ...] = CLAIMS
    delta: float = 1e-5


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


# ------------------------------------------------------------------------------------------------ our mechanisms


def _gate(event: Event, count: int, log: Log | None = None) -> Gate:
    """A real gate over a real ledger whose plan is `count` such events."""
    ledger = Ledger(log or MemoryLog(), PARTY, Policy())
    ledger.open_run(RUN, TERMS, {PARTY: (Charge(event, count, "audited release"),)})
    return Gate(ledger, RUN, SystemNoise())


def _table(setting: Setting, inside: bool, columns: int = 2) -> tuple[Floats, Floats]:
    """Ten rows within ±1, each once with either label, and a row of ones whose label is the only difference.

    The others cancel in every sum, so that the last row decides as much as it can.
    """
    others = np.random.default_rng(setting.seed).uniform(-1, 1, (10, columns))
    X = np.vstack([others, others, np.ones((1, columns))])
    y = np.concatenate([np.ones(10), -np.ones(10), [1.0 if inside else -1.0]])
    return X, y


def _sums(setting: Setting, inside: bool) -> Floats:
    """X'y: replacing one row moves every entry by at most 2."""
    X, y = _table(setting, inside)
    return np.asarray(X.T @ y)


def _many_sums(setting: Setting, inside: bool, trials: int) -> Private[Floats]:
    """`trials` copies. Entries get independent noise, so one release of all is one trial a row of this array."""
    return Private(np.tile(_sums(setting, inside), (trials, 1)), 2 * math.sqrt(2))


def _gaussian(setting: Setting, inside: bool, trials: int) -> Floats:
    gate = _gate(Event(Mechanism.GAUSSIAN, setting.rho, math.inf), 1)
    released = gate.gaussian(_many_sums(setting, inside, trials), rho=setting.rho)
    return np.asarray(released.value.sum(axis=1))


def _replayed(setting: Setting, inside: bool, trials: int, lives: int = 16) -> Floats:
    """A step that is released, then replayed after each of fifteen crashes; all sixteen answers are seen."""
    exact, seen = _many_sums(setting, inside, trials), []
    with TemporaryDirectory() as folder:
        log = FileLog(Path(folder) / "party.db")
        for life in range(lives):
            gate = _gate(Event(Mechanism.GAUSSIAN, setting.rho, math.inf), 1, log)
            transcript = Transcript(log, RUN)
            gate.begin(0, 0, next(transcript.steps()).releases if life else None)
            seen.append(gate.gaussian(exact, rho=setting.rho).value.sum(axis=1))
            if life == 0:
                transcript.record(0, {}, {}, gate)
        log.close()
    return np.asarray(np.mean(seen, axis=0))


def _signed(setting: Setting, inside: bool) -> Floats:
    scores = _sums(setting, inside)
    return np.concatenate([scores, -scores])


def _noisy_max(setting: Setting, inside: bool, trials: int) -> Floats:
    first, second = _signed(setting, True), _signed(setting, False)
    scale = gumbel_scale(2.0, setting.rho)
    ratios = [choice_log_ratio(i, first, second, scale) for i in range(first.size)]
    gate = _gate(Event(Mechanism.GUMBEL, setting.rho, math.inf), trials)
    exact, found = Private(_sums(setting, inside), 2.0), np.empty(trials)
    for trial in range(trials):
        gate.begin(trial, trial, None)
        index, sign = gate.noisy_max(exact, rho=setting.rho)
        found[trial] = ratios[index.value + (exact.value.size if sign.value < 0 else 0)]
    return found


def _top(setting: Setting, inside: bool, trials: int, picks: int = 2) -> Floats:
    """Each pick's ratio is taken among the candidates that the picks before it have left."""
    first, second = _signed(setting, True), _signed(setting, False)
    scale = gumbel_scale(2.0, setting.rho / picks)
    gate = _gate(Event(Mechanism.TOP, setting.rho, math.inf), trials)
    exact, found = Private(_sums(setting, inside), 2.0), np.zeros(trials)
    for trial in range(trials):
        gate.begin(trial, trial, None)
        indices, signs = gate.top(exact, picks, rho=setting.rho)
        left = list(range(first.size))
        for index, sign in zip(indices.value, signs.value, strict=True):
            pick = int(index) + (exact.value.size if sign < 0 else 0)
            found[trial] += choice_log_ratio(left.index(pick), first[left], second[left], scale)
            left.remove(pick)
    return found


def _symmetric(setting: Setting, inside: bool, trials: int) -> Floats:
    """The Gram matrix of rows of norm at most 1; two orthogonal rows of full length lie as far apart as rows can."""
    rng = np.random.default_rng(setting.seed)
    table = rng.normal(size=(20, 3))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    angle = math.pi / 8  # so that diagonal and off-diagonal entries both tell
    one, other = np.array([[math.cos(angle), math.sin(angle), 0.0], [-math.sin(angle), math.cos(angle), 0.0]])
    direction = np.outer(one, one) - np.outer(other, other)
    row = one if inside else other
    exact = Private(np.asarray(table.T @ table + np.outer(row, row)), math.sqrt(2))
    gate = _gate(Event(Mechanism.SYMMETRIC, setting.rho, math.inf), trials)
    found = np.empty(trials)
    for trial in range(trials):
        gate.begin(trial, trial, None)
        # Off the diagonal the variance is half as large and each entry is seen twice: one sum over all weighs both right.
        found[trial] = (direction * gate.symmetric(exact, rho=setting.rho).value).sum()
    return found


# ------------------------------------------------------------------------------------------------ our method

ROUNDS, RADIUS, COLUMNS = 4, 2.0, 2


def _choices(setting: Setting, inside: bool) -> list[tuple[int, int]]:
    """One run of the holder's program behind its own gate and budget: every signed column that left."""
    X, y = _table(setting, inside, COLUMNS)
    method, places = CentralFrankWolfe(rounds=ROUNDS), np.arange(COLUMNS)
    privacy = Privacy(setting.epsilon, setting.delta, feature_bound=1.0)
    job = Job(Problem(Logistic(), L1Ball(RADIUS)), Roster(len(y), {PARTY: tuple(places.tolist())}, PARTY), privacy)
    ledger = Ledger(MemoryLog(), PARTY, Policy(epsilon=setting.epsilon, delta=setting.delta))
    ledger.open_run(RUN, TERMS, method.price(job))
    gate = Gate(ledger, RUN, SystemNoise())
    program = method.party(job, Block(X, places, labels=y), gate)
    next(program)
    left = []
    for t in range(ROUNDS):
        gate.begin(t, t, None)
        choice = program.send({COORDINATOR: Choose()}).to[COORDINATOR]
        gate.flush()
        left.append((choice.index.value, choice.sign.value))
    return left


def _transcripts(setting: Setting, inside: bool, trials: int) -> Floats:
    return np.array([_history_log_ratio(setting, tuple(_choices(setting, inside))) for _ in range(trials)])


@lru_cache(maxsize=1024)
def _history_log_ratio(setting: Setting, history: tuple[tuple[int, int], ...]) -> float:
    """The log-ratio of every choice given the ones before, added up; the formulas are written down anew here."""
    tables = [_table(setting, side, COLUMNS) for side in (True, False)]
    total, x = 0.0, np.zeros(COLUMNS)
    for t, (index, sign) in enumerate(history):
        first, second = (sign * (X.T @ (-y * expit(-y * (X @ x)))) for X, y in tables)
        scale = gumbel_scale(2 * float(expit(np.abs(x).sum())), setting.rho / ROUNDS)
        # With the sign turned into the scores, the candidate that was chosen is always the one at `index`.
        total += choice_log_ratio(index, np.append(first, -first), np.append(second, -second), scale)
        x = _stepped(x, t, index, sign)
    return total


def _models(setting: Setting, inside: bool, trials: int) -> Floats:
    found = np.empty(trials)
    for trial in range(trials):
        x = np.zeros(COLUMNS)
        for t, choice in enumerate(_choices(setting, inside)):
            x = _stepped(x, t, *choice)
        found[trial] = x.sum()
    return found


def _stepped(x: Floats, t: int, index: int, sign: int) -> Floats:
    step = 2 / (t + 3)
    return np.asarray((1 - step) * x - step * sign * RADIUS * (np.arange(COLUMNS) == index))


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


# ------------------------------------------------------------------------------------------------ the papers' calibrations


def sketch_pair(setting: Setting, rows: int = 200, size: int = 20) -> tuple[Floats, Floats, Floats]:
    """A Gaussian sketch, and a column of zeros whose entry in the sketch's longest direction is +1 or -1."""
    rng = np.random.default_rng(setting.seed)
    sketch = rng.standard_normal((size, rows)) / math.sqrt(size)
    column = np.zeros(rows)
    column[int(np.linalg.norm(sketch, axis=0).argmax())] = 1.0
    return sketch, column, -column


def _sketches(setting: Setting, inside: bool, trials: int) -> Floats:
    sketch, *columns = sketch_pair(setting)
    seen = published.SketchedColumns(setting.epsilon, setting.delta).release(
        sketch, columns[0 if inside else 1], np.random.default_rng(), trials
    )
    return np.asarray(seen.sum(axis=1) @ (sketch @ columns[0]))


def _one_label(inside: bool, rows: int = 200, columns: int = 4) -> tuple[Floats, Floats]:
    """One row holds the first feature and nobody holds another; its label is 1 or 0."""
    X, y = np.zeros((rows, columns)), np.zeros(rows)
    X[0, 0], y[0] = 1.0, float(inside)
    return X, y


def _signs(setting: Setting, inside: bool, trials: int) -> Floats:
    method = published.SparseFrankWolfe(setting.epsilon, setting.delta)
    return method.release(*_one_label(inside), np.random.default_rng(), trials)[:, 0]


def _laplace(setting: Setting, inside: bool, trials: int) -> Floats:
    method = published.SparseLaplace(setting.epsilon, setting.delta)
    return method.release(*_one_label(inside), np.random.default_rng(), trials)[:, 0]


def sharing_pair(setting: Setting, rows: int = 200, columns: int = 100) -> tuple[Floats, Floats, Floats, float]:
    """Unit rows; the same with signs flipped in one column, a change of norm at most 1; a dual vector; b₁.

    The dual vector is the unit vector that the two predictions tell apart best.
    """
    method = published.SharingADMM(setting.epsilon, setting.delta)
    first = np.random.default_rng(setting.seed).standard_normal((rows, columns))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    changes = 4 * first[:, 0] ** 2
    largest_first = np.argsort(-changes)
    flipped = largest_first[np.cumsum(changes[largest_first]) <= 1]
    second = first.copy()
    second[flipped, 0] *= -1
    apart = first @ method.update(first, np.eye(rows)) - second @ method.update(second, np.eye(rows))
    values, vectors = np.linalg.eigh((apart + apart.T) / 2)
    dual = vectors[:, int(np.abs(values).argmax())]
    norms = [float(np.linalg.norm(method.update(D, dual))) for D in (first, second)]
    return first, second, dual, max(1.0, *norms)


def _theorem(setting: Setting, inside: bool, trials: int) -> Floats:
    method = published.SharingADMM(setting.epsilon, setting.delta)
    first, second, dual, largest = sharing_pair(setting)
    seen = method.theorem(first if inside else second, dual, largest, np.random.default_rng(), trials)
    return np.asarray(seen @ (first @ method.update(first, dual) - second @ method.update(second, dual)))


def _range(setting: Setting, inside: bool, trials: int) -> Floats:
    """How far a release lies from the range of the first matrix: nothing at all, if it is the first that was used."""
    method = published.SharingADMM(setting.epsilon, setting.delta)
    first, second, dual, largest = sharing_pair(setting)
    seen = method.algorithm(first if inside else second, dual, largest, np.random.default_rng(), trials)
    basis = np.linalg.qr(first)[0]
    return np.asarray(np.linalg.norm(seen - (seen @ basis) @ basis.T, axis=1) / np.linalg.norm(seen, axis=1))


def _first_update(setting: Setting, inside: bool, trials: int) -> Floats:
    method = published.ZerothOrder(setting.epsilon, setting.delta)
    A, b = np.zeros((method.rows, method.columns)), np.zeros(method.rows)
    A[0, 0] = b[0] = 1.0 if inside else 0.0
    return method.release(A, b, np.random.default_rng(), trials)[:, 0]


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
        {"receiver": Adversary("the noisy sums", "their total, which is the likelihood ratio", _gaussian)},
        trials=200_000,
        batch=50_000,
    ),
    "replay": Target(
        "the same release, replayed after each of fifteen crashes",
        _LABEL,
        {"receiver": Adversary("what each of sixteen lives sends", "the mean of the totals", _replayed)},
        trials=50_000,
        batch=25_000,
    ),
    "noisy-max": Target(
        "the largest signed sum through the gate's exponential mechanism",
        _LABEL,
        {"receiver": Adversary("index and sign", "the likelihood ratio", _noisy_max)},
        trials=3_000,
        batch=500,
    ),
    "top": Target(
        "the two largest signed sums through the gate",
        _LABEL,
        {"receiver": Adversary("the ordered picks", "the likelihood ratio", _top)},
        trials=2_000,
        batch=500,
    ),
    "symmetric": Target(
        "a Gram matrix through the gate's symmetric Gaussian mechanism",
        "replace one row of 21: two orthogonal rows of full length",
        {"receiver": Adversary("the noisy matrix", "the likelihood ratio", _symmetric)},
        trials=3_000,
        batch=500,
    ),
    "frank-wolfe": Target(
        "a whole run of CentralFrankWolfe: the holder's program behind its gate and budget",
        _LABEL,
        {
            "coordinator": Adversary("every signed column number", "the likelihood ratio of all of them", _transcripts),
            "reader": Adversary("the final model", "the sum of its coefficients", _models),
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
        )
        for name, attacked in gram.ATTACKS.items()
    },
    "published-sketch": Target(
        "noisy sketches of columns, Lou and Cheung, equation 17",
        "replace one row of 200: its entry in every party's column is +1 or -1",
        {"coordinator": Adversary("all sketches of a run", "their sum along the row's direction", _sketches)},
        trials=10_000,
        batch=5_000,
        guarantee=Guarantee.CLAIMED,
        delta=1 / 200,
    ),
    "published-sign": Target(
        "sparse Frank-Wolfe with exact signs, Raff et al., algorithm 2",
        _ONE_FEATURE,
        {"reader": Adversary("the final model", "its first coefficient", _signs)},
        trials=10_000,
        batch=5_000,
        guarantee=Guarantee.CLAIMED,
        delta=1e-3,
    ),
    "published-laplace": Target(
        "sparse Frank-Wolfe with Laplace noise at the printed scale, Raff et al., algorithm 1",
        _ONE_FEATURE,
        {"reader": Adversary("the final model", "its first coefficient", _laplace)},
        trials=10_000,
        batch=5_000,
        guarantee=Guarantee.CLAIMED,
        delta=1e-3,
    ),
    "published-sharing-lemma": Target(
        "one iteration of ADMM sharing with independent noise, Hu et al., theorem 1",
        _COLUMN,
        {"coordinator": Adversary("the noisy prediction", "the likelihood ratio", _theorem)},
        trials=200_000,
        batch=5_000,
        guarantee=Guarantee.CLAIMED,
        claims=(0.1, 1.0),  # the theorem is stated for epsilon up to 1
        delta=1e-3,
    ),
    "published-sharing-range": Target(
        "one iteration of ADMM sharing with noise on the coefficients, Hu et al., algorithm 1",
        _COLUMN,
        {"coordinator": Adversary("the noisy prediction", "its distance from one matrix's range", _range)},
        trials=10_000,
        batch=5_000,
        guarantee=Guarantee.CLAIMED,
        claims=(0.1, 1.0),
        delta=1e-3,
    ),
    "published-zeroth-order": Target(
        "one primal update of zeroth-order ADMM, Gratton, theorem 4.1",
        "replace one row of 20: all zeros, or the first feature and the label 1",
        {"neighbour": Adversary("the agent's x", "its first entry", _first_update)},
        trials=1_000,
        batch=250,
        guarantee=Guarantee.CLAIMED,
        claims=(0.5,),  # the thesis computes epsilon from a whole number of directions
        delta=1e-3,
    ),
}
