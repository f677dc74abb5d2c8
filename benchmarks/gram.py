"""Private Gram on real columns of real organisations: held-out accuracy against each party alone, and against nobody.

Splits are 80/20 (by patient where patients come back), delta = 1e-6, bounds are those of papers/schemas, written down
as a data dictionary would have them. A quick run simulates the release: exact sums plus Gaussian noise of the sds that the
secure protocol brings, both shares of a product of two parties counted; the rules and the solve are those of a run. A full
run is co.fit with co.PrivateGram between the parties, messages, masks, integers and all, once as it comes and once with
lines only (the same run, where no curve is taken), printed split by split; bars are held to it. On tables of at most
SIMULATED entries the mean of simulations stands beside. Baselines are scikit-learn's logistic regression, not private.
Then: bytes of class sums by labels that were released first; and least squares on made-up data, simulated.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import sparse
from scipy.stats import rankdata

import colonnade as co
from benchmarks.timing import data_folder
from colonnade.data.schema.columns import Binary, Numeric
from colonnade.data.schema.table import Schema
from colonnade.methods.gram.answer import Curves, GramSolution
from colonnade.methods.gram.rule import (
    Gram,
    GramRule,
    PublicColumns,
    RowFrame,
    choose,
    choose_depth,
    noise_levels,
    prepare,
    public_columns,
    survival,
    weigh,
)
from colonnade.methods.gram.solve import solve
from colonnade.model.job import Job, Sums
from colonnade.privacy.accountant import rho_for
from colonnade.problem import LeastSquares, Logistic, Problem
from colonnade.problem.link import Link
from papers.comparison.tables import encoded

EPSILONS = (0.1, 1.0, 4.0)
DELTA = 1e-6
# The least mean AUC at each epsilon that a full run must reach.
BARS = {
    "a9a": (0.862, 0.891, 0.894),
    "credit-default": (0.695, 0.768, 0.774),
    "nhanes-diabetes": (0.65, 0.89, 0.92),
    "flights": (0.695, 0.7255, 0.729),
    "diabetes130": (0.64, 0.675, 0.685),
}
MANY = 20_000  # rows from which on noise alone may cost less
LOSSES = (
    1.02,
    1.10,
)  # the most log loss, over the labels' entropy, at the smallest epsilon: of many rows, and of fewer
NEAR = 1.15  # times that of a pooled logistic regression: the most at the largest epsilon
SIMULATED = 10_000_000  # entries of a table up to which a full run simulates too
QUICK = ("a9a", "credit-default", "nhanes-diabetes")
SCHEMAS = Path(__file__).resolve().parents[1] / "papers" / "schemas"
ROWS_AT_ONCE = 20_000
PROBLEM = Problem(Logistic(), intercept=True)


@dataclass(frozen=True, eq=False)
class Dataset:
    """All columns as the parties' schemas encode them, side by side, and what is public about them."""

    matrix: Any  # CSR, n x d
    y: np.ndarray
    schemas: dict[str, Schema]
    columns: PublicColumns
    label: int  # the party that holds the labels
    units: np.ndarray | None = None  # rows of one person, where there are several
    made: dict[int, Dataset] = field(default_factory=dict, init=False, repr=False)  # with curves, by their depth

    def depth(self, rows: int, epsilon: float) -> int:
        """Of the curves that a run of so many rows takes."""
        left = [
            sum(counts) for counts in zip_longest(*(s.auto_curve_counts for s in self.schemas.values()), fillvalue=0)
        ]
        classes = set(np.unique(self.y).tolist()) <= {-1.0, 1.0}
        return choose_depth(survival(rows, 1, rho_for(epsilon, DELTA)), self.columns.owner.size, left, classes)

    def with_curve_depth(self, depth: int) -> Dataset:
        """The same rows with curves of this depth."""
        if depth not in self.made:
            self.made[depth] = self._bent(depth) if depth else self
        return self.made[depth]

    def _bent(self, depth: int) -> Dataset:
        owner, blocks = self.columns.owner, []
        for k, schema in enumerate(self.schemas.values()):
            own = sparse.csc_array(self.matrix[:, owner == k], dtype=np.float64)
            blocks.append(schema.bend(own, depth))
        schemas = {party: schema.with_curve_depth(depth) for party, schema in self.schemas.items()}
        return _dataset(blocks, self.y, schemas, {"label": self.parties[self.label]}, self.units)

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.schemas)

    def federation(self, rows: np.ndarray) -> co.Federation:
        """These rows between the parties: columns are encoded already, so schemas are declared beside them."""
        ends = np.searchsorted(self.columns.owner, np.arange(len(self.schemas) + 1)).tolist()
        parts = {party: slice(ends[k], ends[k + 1]) for k, party in enumerate(self.parties)}
        X = sparse.csr_array(self.matrix[rows], dtype=np.float64)
        fed = co.Federation.split(X, self.y[rows], parts, label=self.parties[self.label])
        fed = replace(fed, parties={name: replace(p, schema=self.schemas[name]) for name, p in fed.parties.items()})
        declared = public_columns(Job(PROBLEM, fed.roster(), co.Privacy(1.0, DELTA, trust="secure")))
        for part in fields(PublicColumns)[:-1]:  # else the simulation would speak of another release
            assert np.array_equal(getattr(declared, part.name), getattr(self.columns, part.name)), part.name
        return fed


# ------------------------------------------------------------------------------------------------ data


def load(name: str) -> Dataset | None:
    told = tomllib.loads((SCHEMAS / f"{name}.toml").read_text())
    if name == "flights":
        return _flights(told)
    folder = data_folder(name)
    if folder is None:
        return None
    if name == "a9a":
        X = sparse.vstack([sparse.load_npz(folder / f"X_{part}.npz") for part in ("train", "test")])
        y = np.concatenate([np.load(folder / f"y_{part}.npy") for part in ("train", "test")])
        names = [f"column {j}" for j in range(X.shape[1])]
    else:
        X = sparse.load_npz(folder / "X.npz")
        y = np.load(folder / ("y_any.npy" if name == "diabetes130" else "y.npy"))
        names = (folder / "features.txt").read_text().split("\n")
    X, blocks, schemas = sparse.csc_array(X, dtype=np.float64), [], {}
    for party, public in told["party"].items():
        first, end = public["columns"]
        bounds = public.get("numeric", {})
        schemas[party] = Schema(
            tuple(Numeric(c, *bounds[c]) if c in bounds else Binary(c) for c in names[first:end]), public["row_norm"]
        )
        blocks.append(encoded(X[:, first:end], schemas[party]))
    units = np.load(folder / "patient.npy") if name == "diabetes130" else None
    return _dataset(blocks, np.where(y > 0, 1.0, -1.0), schemas, told, units)


def _flights(told: dict[str, Any]) -> Dataset | None:
    from colonnade.cli import flights
    from colonnade.errors import InvalidInput

    try:
        data = flights.load()
    except InvalidInput as missing:
        print(f"skipped: {missing}")
        return None
    blocks = [flights.SCHEMAS[party].encode(data.frames[party]).matrix for party in told["party"]]
    schemas = {
        party: Schema(flights.SCHEMAS[party].columns, public["row_norm"]) for party, public in told["party"].items()
    }
    return _dataset(blocks, np.where(data.late, 1.0, -1.0), schemas, told, None)


def _dataset(
    blocks: list[Any], y: np.ndarray, schemas: dict[str, Schema], told: dict[str, Any], units: np.ndarray | None
) -> Dataset:
    columns = PublicColumns(
        owner=np.repeat(np.arange(len(schemas)), [schema.width for schema in schemas.values()]),
        norms=np.array([schema.row_norm for schema in schemas.values()]),
        bound=np.concatenate([schema.entry_bounds() for schema in schemas.values()]),
        binary=np.concatenate([schema.binary for schema in schemas.values()]),
        nonnegative=np.concatenate([schema.nonnegative for schema in schemas.values()]),
        level=np.concatenate([schema.level for schema in schemas.values()]),
        weight=np.ones(sum(schema.width for schema in schemas.values())),
    )
    matrix = sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks]), dtype=np.float32)
    return Dataset(matrix, y, schemas, columns, list(schemas).index(told["label"]), units)


def splits(data: Dataset, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    units = np.arange(data.y.size) if data.units is None else data.units
    names = np.unique(units)
    for seed in range(count):
        order = np.random.default_rng(1000 + seed).permutation(names)
        trained = np.isin(units, order[: int(0.8 * names.size)])
        yield np.flatnonzero(trained), np.flatnonzero(~trained)


# ------------------------------------------------------------------------------------------------ the release, simulated


def framed(matrix: Any, columns: PublicColumns, frame: RowFrame) -> Iterator[np.ndarray]:
    """Blocks of rows (a − centre)·scale over the kept columns, each party's part clipped to its norm."""
    ends = np.searchsorted(columns.owner[frame.keep], np.arange(frame.norms.size + 1))
    chosen = matrix if frame.keep.size == matrix.shape[1] else sparse.csr_array(matrix[:, frame.keep])
    for first in range(0, matrix.shape[0], ROWS_AT_ONCE):
        z = chosen[first : first + ROWS_AT_ONCE].toarray()
        if frame.centre.any() or (frame.scale != 1.0).any():
            z = (z - frame.centre.astype(np.float32)) * frame.scale.astype(np.float32)
        for k, norm in enumerate(frame.norms):
            part = z[:, ends[k] : ends[k + 1]]
            length = np.sqrt(np.einsum("ij,ij->i", part, part))
            part *= np.minimum(1.0, norm / np.maximum(length, 1e-9)).astype(np.float32)[:, None]
        yield z


class Release:
    """Exact sums of one training set, by frame; noise is drawn anew for every call."""

    def __init__(
        self, matrix: Any, y: np.ndarray, columns: PublicColumns, label: int, label_bound: float = 1.0
    ) -> None:
        self.matrix, self.y, self.columns, self.label, self.bound = matrix, y, columns, label, label_bound
        self.rows, every = matrix.shape[0], columns.owner.size
        self.whole = RowFrame(np.arange(every), np.zeros(every), np.ones(every), columns.norms, np.full(every, np.inf))
        self._raw: np.ndarray | None = None
        self._sums: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def sums(self, rho: float, rng: np.random.Generator) -> Sums:
        d, weights = self.columns.owner.size, (1.0 + self.y / self.bound) / 2.0
        if self._sums is None:
            totals = np.zeros((3, d))
            at = 0
            for z in framed(self.matrix, self.columns, self.whole):
                w = weights[at : at + len(z)].astype(np.float32)
                totals += w @ z, (1 - w) @ z, 0.5 * np.einsum("ij,ij->j", z, z)
                at += len(z)
            self._sums = totals[0], totals[1], totals[2]
        positive, negative, squares = self._sums
        sd = self.columns.sums_sensitivity() / math.sqrt(2.0 * rho)
        noise = np.where(self.columns.owner == self.label, sd, sd * math.sqrt(2.0))
        return Sums(
            positive + noise * rng.normal(size=d),
            negative + noise * rng.normal(size=d),
            float(weights.sum() + sd * rng.normal()),
            squares + sd * rng.normal(size=d),
            noise,
            sd,
            np.full(d, sd),
        )

    def gram(self, frame: RowFrame, rule: GramRule, rho: float, rng: np.random.Generator) -> Gram:
        s, extended = frame.keep.size, frame.extended(rule, self.bound)
        exact = self._raw if rule.name == "raw" else None
        if exact is None:
            exact, at = np.zeros((s + 2, s + 2)), 0
            for z in framed(self.matrix, self.columns, frame):
                wide = np.column_stack([z, np.ones(len(z), np.float32), self.y[at : at + len(z)].astype(np.float32)])
                exact += wide.T @ wide
                at += len(z)
            if rule.name == "raw":
                self._raw = exact
        weights = np.append(np.ones(s), [extended.constant, extended.label])
        fixed = bool(np.all(np.abs(self.y) == self.bound))
        owner = self.columns.owner[frame.keep]
        sds = noise_levels(owner, self.label, extended.noise(rho), labels_fixed=fixed)
        upper = np.triu(rng.normal(size=sds.shape) * sds)
        return Gram.of(extended, exact * np.outer(weights, weights) + upper + np.triu(upper, 1).T, sds)

    def fit(self, problem: Problem, epsilon: float, rng: np.random.Generator) -> tuple[GramRule, GramSolution]:
        rho, every = rho_for(epsilon, DELTA), self.columns.owner.size
        weight = weigh(survival(self.rows, 1, rho), self.columns.level, problem.loss.classifies)
        columns = replace(self.columns, weight=weight)
        rule = choose(self.rows, every, rho, classes=problem.loss.classifies, hats=columns.hats)
        sums = self.sums(rule.sums * rho, rng) if rule.sums else None
        spent = rule.sums
        rule, frame = prepare(rule, columns, self.rows, sums)
        gram = self.gram(frame, rule, (1.0 - spent) * rho, rng)
        sizes = {"rows": self.rows, "columns": every, "label_bound": self.bound}
        return rule, solve(
            gram, frame, rule, problem, **sizes, sums=sums, curves=Curves(columns.level, flags=columns.binary)
        )


# ------------------------------------------------------------------------------------------------ tables


def auc(y: np.ndarray, scores: np.ndarray) -> float:
    ranks, positive = rankdata(scores), y > 0
    m = int(positive.sum())
    return float((ranks[positive].sum() - m * (m + 1) / 2) / (m * (y.size - m)))


def entropy(share: float) -> float:
    return -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)


def log_loss(y: np.ndarray, p: np.ndarray) -> float:
    """Relative to the entropy of the labels."""
    likely = np.clip(np.where(y > 0, p, 1.0 - p), 1e-15, 1.0)
    return float(-np.mean(np.log(likely)) / entropy(float((y > 0).mean())))


def miscalibration(y: np.ndarray, p: np.ndarray, bins: int = 10) -> float:
    """Mean distance of predicted and true frequency over bins of equal size."""
    order = np.array_split(np.argsort(p), bins)
    return float(np.mean([abs(p[part].mean() - (y[part] > 0).mean()) for part in order]))


def alone(data: Dataset, count: int) -> dict[str, float]:
    """AUC without privacy: all columns, and each party's; and the log loss of all, over the labels' entropy."""
    from sklearn.linear_model import LogisticRegression

    found: dict[str, list[float]] = {}
    everyone = {"all": np.arange(data.columns.owner.size)} | {
        party: np.flatnonzero(data.columns.owner == k) for k, party in enumerate(data.parties)
    }
    for train, test in splits(data, count):
        for who, mine in everyone.items():
            X = sparse.csr_array(data.matrix[:, mine], dtype=np.float64)
            model = LogisticRegression(max_iter=500, tol=1e-3).fit(X[train], data.y[train])
            found.setdefault(who, []).append(auc(data.y[test], X[test] @ model.coef_[0]))
            if who == "all":
                found.setdefault("loss", []).append(log_loss(data.y[test], model.predict_proba(X[test])[:, 1]))
    return {who: float(np.mean(values)) for who, values in found.items()}


@dataclass(frozen=True)
class Held:
    """How one model does on rows that it has not seen."""

    auc: float
    off: float  # of its probabilities
    loss: float  # of its probabilities, over the entropy of the labels
    columns: int  # with a coefficient
    megabytes: float = 0.0  # sent by all nodes together; a simulation sends nothing


def held_out(data: Dataset, test: np.ndarray, x: np.ndarray, intercept: float, link: Link, sent: float = 0.0) -> Held:
    y, scores = data.y[test], data.matrix[test] @ x + intercept
    p = link(scores)
    return Held(auc(y, scores), miscalibration(y, p), log_loss(y, p), int(np.count_nonzero(x)), sent)


def real(
    data: Dataset, fed: co.Federation, test: np.ndarray, epsilon: float, method: co.PrivateGram | None = None
) -> Held:
    """One run between the parties."""
    with tempfile.TemporaryDirectory() as store:
        privacy = co.Privacy(epsilon, DELTA, trust="secure")
        fit = co.fit(fed, PROBLEM, method or co.PrivateGram(cross="secure"), privacy, store=store)
        x = np.concatenate([fit.coefficients[party] for party in data.parties])
        assert fit.link is not None
        return held_out(
            data.with_curve_depth(fit.depth), test, x, fit.intercept, fit.link, fit.communication.bytes / 1e6
        )


class Releases:
    """The releases of one training set, with the curves that each budget takes."""

    def __init__(self, data: Dataset, train: np.ndarray) -> None:
        self.data, self.train, self._made = data, train, dict[int, Release]()

    def at(self, epsilon: float) -> tuple[Dataset, Release]:
        depth = self.data.depth(self.train.size, epsilon)
        bent = self.data.with_curve_depth(depth)
        if depth not in self._made:
            self._made[depth] = Release(bent.matrix[self.train], bent.y[self.train], bent.columns, bent.label)
        return bent, self._made[depth]


def simulated(releases: Releases, test: np.ndarray, epsilon: float, seed: list[int]) -> tuple[str, Held]:
    data, release = releases.at(epsilon)
    rule, solved = release.fit(PROBLEM, epsilon, np.random.default_rng([*seed, int(1000 * epsilon)]))
    assert solved.link is not None
    return rule.name, held_out(data, test, solved.coefficients, solved.intercept, solved.link)


def mean(found: list[Held]) -> tuple[float, float]:
    """Mean AUC and its standard error."""
    area = np.array([one.auc for one in found])
    return float(area.mean()), float(area.std(ddof=1) / math.sqrt(area.size)) if area.size > 1 else math.nan


@dataclass
class Figures:
    """All that one data set's runs gave, by epsilon."""

    curves: dict[float, list[Held]] = field(default_factory=dict)
    lines: dict[float, list[Held]] = field(default_factory=dict)  # as run beside curves, or the same where none are
    trials: dict[float, list[Held]] = field(default_factory=dict)  # simulated
    rules: dict[float, str] = field(default_factory=dict)

    @property
    def shown(self) -> dict[float, list[Held]]:
        return self.curves or self.trials


def table(name: str, count: int, run: bool) -> bool:
    """Print one data set's figures, simulated or really run; whether every bar was reached."""
    data = load(name)
    if data is None:
        return True
    rows, d = data.matrix.shape
    base = alone(data, count)
    others = ", ".join(f"{who} {base[who]:.3f}" for who in data.parties)
    print(f"{name}: {rows:,} x {d:,}, {(data.y > 0).mean():.0%} positive, {count} splits, delta {DELTA:g}")
    print(
        f"  not private      all {base['all']:.4f}, log loss {base['loss']:.3f} of the entropy; "
        f"one party alone: {others}; x = 0: 0.500",
        flush=True,
    )
    # Few rows make AUC vary more from one draw of the noise to the next than from split to split.
    draws = 1 if rows > 10_000 else 8
    figures, began = Figures(), time.process_time()
    for seed, (train, test) in enumerate(splits(data, count)):
        if not run or rows * d <= SIMULATED:
            releases = Releases(data, train)
            for epsilon in EPSILONS:
                for draw in range(draws):
                    figures.rules[epsilon], trial = simulated(releases, test, epsilon, [seed, draw])
                    figures.trials.setdefault(epsilon, []).append(trial)
        if run:
            run_split(data, train, test, draws, figures)
            so_far = "   ".join(
                f"{e:g}: {mean(figures.curves[e][-draws:])[0]:.4f} ({mean(figures.lines[e][-draws:])[0]:.4f})"
                for e in EPSILONS
            )
            print(f"    split {seed}, {time.process_time() - began:.0f} s so far: AUC (lines) {so_far}", flush=True)
    reached = [told(name, data, base, figures, epsilon) for epsilon in EPSILONS]
    return all(reached)


def run_split(data: Dataset, train: np.ndarray, test: np.ndarray, draws: int, figures: Figures) -> None:
    """Runs between the parties at every epsilon, as they come and, where that differs, with lines only."""
    flat = replace(data, schemas={party: schema.as_lines() for party, schema in data.schemas.items()})
    bent, straight = data.federation(train), flat.federation(train)
    for epsilon in EPSILONS:
        found = [real(data, bent, test, epsilon) for _ in range(draws)]
        lines = found
        if data.depth(train.size, epsilon):
            lines = [real(flat, straight, test, epsilon) for _ in range(draws)]
        figures.curves.setdefault(epsilon, []).extend(found)
        figures.lines.setdefault(epsilon, []).extend(lines)


def told(name: str, data: Dataset, base: dict[str, float], figures: Figures, epsilon: float) -> bool:
    """Print what one budget gave beside its bars; whether all were reached."""
    held, at, rows = figures.shown[epsilon], EPSILONS.index(epsilon), data.y.size
    area, error = mean(held)
    bar, best = BARS[name][at], max(base[who] for who in data.parties)
    loss, most = float(np.mean([one.loss for one in held])), math.inf
    if at == 0:
        most = LOSSES[rows <= MANY]
    elif epsilon == EPSILONS[-1]:
        most = NEAR * base["loss"]
    reached, beside = area >= bar and loss <= most, ["simulated"]
    if figures.curves:
        flat, doubt = mean(figures.lines[epsilon])
        apart = np.array([one.auc for one in held]) - np.array([one.auc for one in figures.lines[epsilon]])
        spread = apart.std(ddof=1) / math.sqrt(apart.size)
        reached &= area >= flat - doubt
        sent, less = (np.mean([one.megabytes for one in some]) for some in (held, figures.lines[epsilon]))
        straight = "" if not apart.any() else f"; lines {flat:.4f} ± {doubt:.4f}, {less:.0f} MB"
        beside = [f"run, {sent:.0f} MB{straight}; curves add {apart.mean():+.4f} ± {spread:.4f}"]
        if figures.trials:
            beside.append("simulated {:.4f} ± {:.4f}".format(*mean(figures.trials[epsilon])))
    rule = f"{figures.rules[epsilon]}, " if figures.rules else ""
    print(
        f"  epsilon {epsilon:<4g}     {area:.4f} ± {error:.4f}  bar {bar:.4f} "
        f"{'reached' if area >= bar else f'MISSED by {bar - area:.4f}'}; "
        f"{'beats' if area > best else 'below'} the best party alone; "
        f"probabilities off by {np.mean([one.off for one in held]):.3f}, log loss {loss:.3f} of the entropy"
        f"{'' if math.isinf(most) else f' (bar {most:.3f} ' + ('reached)' if loss <= most else 'MISSED)')}; "
        f"{rule}{held[-1].columns:,} columns; {'; '.join(beside)}",
        flush=True,
    )
    return reached


def fewer_bytes(parties: int, rows: int = 2_000, columns: int = 1_200, keep: int = 90) -> None:
    """What whole runs send that keep a few of many columns of zeros and ones: by noisy labels, and by what else there is."""
    rng = np.random.default_rng(0)
    at = np.sort(rng.integers(0, columns, (rows, 12)), axis=1).ravel()
    X = sparse.csr_array((np.ones(at.size), at, np.arange(0, at.size + 1, 12)), shape=(rows, columns))
    X.sum_duplicates()
    X.data[:] = 1.0
    fed = co.Federation.split(X.tocsc(), np.where(rng.random(rows) < 0.5, 1.0, -1.0), parties=parties, label="party0")
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
    sent = {}
    for labels, trust in (("released", "secure"), ("secure", "secure"), ("secure", "parties")):
        privacy = co.Privacy(4.0, DELTA, trust=trust, row_norm=12**0.5, feature_bound=1.0)
        method = co.PrivateGram(labels=labels, screen=keep)
        with tempfile.TemporaryDirectory() as store, warnings.catch_warnings(action="ignore"):
            fit = co.fit(fed, problem, method, privacy, store=store, noise=co.SeededNoise(1))
        sent[labels, trust] = fit.communication.bytes / 1e6
    said = "; ".join(f"labels={labels!r}, trust={trust!r} {size:.1f} MB" for (labels, trust), size in sent.items())
    print(f"{parties} parties, {rows:,} rows, at most {keep} of {columns:,} columns kept: {said}", flush=True)


def regression(count: int) -> None:
    """Least squares on made-up rows: 4 parties of 25 columns, all correlated at .5, 10 of 100 coefficients not 0."""
    rng, d = np.random.default_rng(7), 100
    truth = np.where(rng.permutation(d) < 10, rng.normal(size=d), 0.0)
    columns = PublicColumns(
        owner=np.repeat(np.arange(4), 25),
        norms=np.full(4, 2.6),  # 25 columns of variance 1/4, and a little room
        bound=np.ones(d),
        binary=np.zeros(d, bool),
        nonnegative=np.zeros(d, bool),
        level=np.zeros(d, int),
        weight=np.ones(d),
    )

    def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
        A = math.sqrt(0.5) * (rng.normal(size=(rows, d)) + rng.normal(size=(rows, 1)))
        A = np.clip(A / 2.0, -1.0, 1.0)
        return A, np.clip(A @ truth + 0.5 + rng.normal(size=rows), -6.0, 6.0)

    A_test, y_test = draw(20_000)
    print(
        f"least squares, made up: 100 columns of 4 parties, |y| <= 6, {count} draws; risk above the truth's, of that of the mean"
    )
    for rows in (5_000, 50_000, 200_000):
        line = []
        for epsilon in EPSILONS:
            lost = []
            for _ in range(count):
                A, y = draw(rows)
                release = Release(sparse.csr_array(A, dtype=np.float32), y, columns, 0, label_bound=6.0)
                rule, solved = release.fit(Problem(LeastSquares(), intercept=True), epsilon, rng)
                best = np.mean((y_test - A_test @ truth - 0.5) ** 2)
                risk = np.mean((y_test - A_test @ solved.coefficients - solved.intercept) ** 2)
                lost.append((risk - best) / (np.mean((y_test - y.mean()) ** 2) - best))
            line.append(f"epsilon {epsilon:g}: {np.mean(lost):.3f} ({rule.name})")
        print(f"  {rows:>7,} rows   {'   '.join(line)}", flush=True)


def main(quick: bool = True) -> int:
    reached = [table(name, 2 if quick else 10, run=not quick) for name in (QUICK if quick else BARS)]
    for parties in (2,) if quick else (2, 3, 4):
        fewer_bytes(parties)
    regression(1 if quick else 3)
    return 0 if quick or all(reached) else 1


if __name__ == "__main__":
    raise SystemExit(main())
