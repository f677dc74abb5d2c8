"""Do intervals and tests from a release hold what they promise? Coverage, length and size, beside bars.

    python -m benchmarks coverage            quick: 100 repetitions of a few cells
    python -m benchmarks coverage --full     500 repetitions of all of them

Cell     a population of a table cut into blocks of 20 rows; a sample is a sum of blocks drawn with replacement, its noise
         normal, of the size that a run for inference adds (steps, bounds and sds are computed by the method's own code).
Truth    least squares of the population, capped and rounded as rows of a release are.
Limit    the length that intervals would have if the exact matrix were known where only its inverse matters: Cramér-Rao.
Real     credit-default, a9a and nhanes-diabetes of COLONNADE_DATA, resampled; columns are left out as in `regress`.
Runs     whole runs of co.fit with masks and integers: the size of their noise, and labels of a wide range.
A bar allows three standard errors of chance. The exit code is 1 where one is missed.
"""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

import colonnade as co
from benchmarks.timing import DATA
from colonnade.methods.gram.plan import RunPlan, StageName, plan_joint
from colonnade.methods.gram.rows import IntegerRows, Layout, grid
from colonnade.methods.gram.rule import prepare
from colonnade.model.job import Job
from colonnade.privacy.statement import not_private
from colonnade.problem.inference import score_noise
from colonnade.runs.inference import Inference
from colonnade.runs.release import ColumnKind, Release, ReleasedColumn, columns_of

POPULATION, BLOCK = 100_000, 20
NUMBERS, CLASSES = co.Problem(co.LeastSquares(), intercept=True), co.Problem(co.Logistic(), intercept=True)
Frames = dict[str, pl.DataFrame]


# ------------------------------------------------------------------------------------------------ tables


def simulated(kind: str, columns: int, seed: int, *, one: bool = False) -> tuple[Frames, dict[str, co.Schema]]:
    """Two parties, labels with the second; half of what labels vary is explained. `one`: by the first column alone."""
    rng = np.random.default_rng(seed)
    half, table, kinds = columns - columns // 2, {}, {}
    mixed = 0.3 * rng.normal(size=(columns, columns)) / math.sqrt(columns) + 0.7 * np.eye(columns)
    values = np.clip(rng.normal(size=(POPULATION, columns)) @ mixed.T / 2.0, -1.0, 1.0)
    if kind == "binary":
        values = (values > rng.uniform(-0.4, 0.4, columns)).astype(float)
    if kind == "onehot":  # a third of the columns are levels of two lists
        for start in (0, half):
            levels = max(2, columns // 6)
            code = rng.choice(levels, POPULATION, p=rng.dirichlet(np.full(levels, 5.0)))
            values[:, start : start + levels] = np.eye(levels)[code]
            table[f"list{start}"] = np.array([f"l{k}" for k in range(levels)])[code]
            kinds[start] = co.Categorical(f"list{start}", tuple(f"l{k}" for k in range(levels)))
    weights = np.eye(columns)[0] if one else rng.normal(size=columns)
    score = values @ weights
    noise = rng.normal(size=POPULATION)
    label = np.clip((score - score.mean()) / score.std() + noise, -4.0, 4.0)
    declared: dict[str, list[Any]] = {"a": [], "b": []}
    place = 0
    while place < columns:
        party = "a" if place < half else "b"
        if place in kinds:
            declared[party].append(kinds[place])
            place += len(kinds[place].levels)
            continue
        name = f"x{place}"
        table[name] = values[:, place]
        declared[party].append(co.Binary(name) if kind == "binary" else co.Numeric(name, -1, 1))
        place += 1
    frames = {
        party: pl.DataFrame({"id": np.arange(POPULATION), **{c.name: table[c.name] for c in mine}})
        for party, mine in declared.items()
    }
    frames["b"] = frames["b"].with_columns(label=pl.Series(label))
    schemas = {party: co.Schema(tuple(mine)) for party, mine in declared.items()}
    return frames, {**schemas, "b": co.Schema(schemas["b"].columns, label=co.Numeric("label", -4, 4))}


def real(name: str) -> tuple[Frames, dict[str, co.Schema]] | None:
    """A table of COLONNADE_DATA, halved between two parties; numbers are standardised there, and capped at ±3 here."""
    folder = DATA / name
    parts = ("X_train", "y_train") if name == "a9a" else ("X", "y")
    if not (folder / f"{parts[0]}.npz").exists():
        return None
    X = np.asarray(sparse.load_npz(folder / f"{parts[0]}.npz").todense(), np.float64)
    y = np.where(np.load(folder / f"{parts[1]}.npy") > 0, 1, -1)
    columns: list[tuple[Any, Any]] = []
    for group in _groups(folder, X.shape[1]):
        label = f"c{group[0]}"
        if len(group) > 1:
            code = np.where(X[:, group].any(axis=1), X[:, group].argmax(axis=1), -1)
            values: Any = np.array([*(f"l{k}" for k in range(len(group))), "none"])[code]
            columns.append((co.Categorical(label, tuple(f"l{k}" for k in range(len(group)))), values))
        elif set(np.unique(X[:, group[0]])) <= {0.0, 1.0}:
            columns.append((co.Binary(label), X[:, group[0]].astype(int)))
        else:
            columns.append((co.Numeric(label, -3, 3), X[:, group[0]]))
    cut = len(columns) // 2
    split = {"a": columns[:cut], "b": columns[cut:]}
    frames = {p: pl.DataFrame({"id": np.arange(len(y)), **{c.name: v for c, v in mine}}) for p, mine in split.items()}
    frames["b"] = frames["b"].with_columns(label=pl.Series(y))
    return frames, {p: co.Schema(tuple(c for c, _ in mine)) for p, mine in split.items()}


def _groups(folder: Path, width: int) -> list[list[int]]:
    """Levels of one attribute together, everything else alone."""
    names = folder / "features.txt"
    if not names.exists():
        return [list(range(low, high)) for low, high in json.loads((folder / "groups.json").read_text()).values()]
    groups: list[list[int]] = []
    features = names.read_text().split("\n")[:width]
    for place, name in enumerate(features):
        base, level, _ = name.partition("=")
        last = features[groups[-1][0]].partition("=") if groups else ("", "", "")
        if level and last[:2] == (base, level):  # not beside the number of the same name
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


# ------------------------------------------------------------------------------------------------ cells


@dataclass
class Cell:
    """A population, a number of rows and an epsilon: releases of samples of it."""

    frames: Frames
    schemas: dict[str, co.Schema]
    problem: co.Problem
    rows: int
    epsilon: float

    def __post_init__(self) -> None:
        self.fed = co.Federation.from_frames(self.frames, on="id", label=("b", "label"), schemas=self.schemas)
        reach = None if self.problem is CLASSES else (-4.0, 4.0)
        privacy = co.Privacy(self.epsilon, 1e-6, trust="secure", label_range=reach)
        self.job = Job(self.problem, replace(self.fed.roster(), rows=self.rows), privacy)
        method = co.PrivateGram(purpose="inference")
        method.check(self.job)
        design = RunPlan.of(self.job, method)
        self.rule, self.frame = prepare(design.rule, design.columns, self.rows, None)
        self.figures, extended = plan_joint(
            self.job, design.columns, self.frame, self.rule, design.rho(StageName.JOINT)
        )
        weights = np.ones(design.columns.owner.size + 2)
        weights[-2:] = 1.0 / extended.constant, 1.0 / extended.label
        self.noise = design.sds(self.figures, self.frame) * np.outer(weights, weights)
        self._cut_into_blocks(weights * self.figures.step)

    def _cut_into_blocks(self, weights: np.ndarray) -> None:
        """Rows as a release makes them, in their own units, and their products by block."""
        layout, parts = Layout(self.job, self.figures, self.frame), []
        for name, party in self.fed.parties.items():
            here = layout.kept[name]
            unit = layout.units[layout.mine(name)[: here.size]]
            of = layout.places(name), self.frame.centre[here], self.frame.scale[here], unit
            rows = IntegerRows(party.block, grid(self.job, name, self.figures, *of, whole=True))
            parts.append(rows.rows(0, party.block.rows) * unit)
            assert not rows.shortened
        y = np.asarray(self.fed.labels, np.float64)
        top = 1.0 if self.problem is CLASSES else 4.0
        label = np.rint(np.clip(y / top, -1.0, 1.0) * self.figures.label)
        Z = np.column_stack([*parts, np.full(y.size, self.figures.constant), label]) * weights
        order = np.random.default_rng(0).permutation(len(Z))[: len(Z) // BLOCK * BLOCK]
        blocks = Z[order].reshape(-1, BLOCK, Z.shape[1])
        self.upper = np.triu_indices(Z.shape[1])
        products = np.matmul(blocks.transpose(0, 2, 1), blocks)
        self.blocks = np.ascontiguousarray(products[:, self.upper[0], self.upper[1]])
        self.table = Z

    def _whole(self, upper: np.ndarray) -> np.ndarray:
        out = np.zeros(self.noise.shape)
        out[self.upper] = upper
        return out + np.triu(out, 1).T

    @cached_property
    def exact(self) -> Release:
        """The population's own matrix at the size of a sample, without noise."""
        matrix = self._whole(self.blocks.sum(axis=0) * self.rows / (len(self.blocks) * BLOCK))
        classes, roster = self.problem is CLASSES, self.job.roster
        columns: list[ReleasedColumn] = []
        for name, party in self.fed.parties.items():
            columns += columns_of(party, name, range(len(party.features)))
        return Release(
            *(matrix, np.zeros_like(self.noise), self.rows, tuple(columns)),
            label=ReleasedColumn("label", "b", "label", -1, ColumnKind.CLASSES if classes else ColumnKind.NUMBER),
            reach=1.0 if classes else 4.0,
            rule=self.rule.name,
            cross="secure",
            centre=self.frame.centre,
            scale=self.frame.scale,
            norms=dict.fromkeys(roster.with_columns, 1.0),
            proven=True,
            step=self.figures.step,
            unit_rows=1,
            penalised=False,
            cut=False,
            statement=not_private("drawn by a benchmark", roster.unit, ""),
            run="benchmark",
        )

    def samples(self, seed: int, count: int, *, permuted: bool = False) -> Iterator[Release]:
        """Releases of samples; `permuted`: with labels that have nothing to do with the columns."""
        rng, each = np.random.default_rng(seed), self.rows // BLOCK
        for _ in range(count):
            if permuted:
                places = rng.integers(len(self.table), size=self.rows)
                Z = self.table[places]
                Z[:, -1] = rng.permutation(Z[:, -1])
                matrix = Z.T @ Z
            else:
                drawn = rng.multinomial(each, np.full(len(self.blocks), 1.0 / len(self.blocks)))
                matrix = self._whole(drawn.astype(float) @ self.blocks)
            noise = rng.normal(size=self.upper[0].size) * self.noise[self.upper]
            rows = round(float(matrix[-2, -2]))
            yield replace(self.exact, matrix=matrix + self._whole(noise), noise=self.noise, rows=rows)

    def limit(self, truth: Inference) -> np.ndarray:
        """Standard errors at the Cramér-Rao bound, of the columns of `truth`."""
        places = [*truth.kept, len(self.exact.columns)]
        variance = np.square(replace(self.exact, noise=self.noise).part(places)[1])
        G = np.linalg.inv(truth.model.matrix[:-1, :-1])
        V = score_noise(variance, truth.model.gamma)
        return np.sqrt(np.diag(G @ V @ G + truth.model.residual_variance * G))


@dataclass
class Result:
    """What repetitions of a cell show."""

    xi: float
    cover: dict[str, float]  # by column that was kept in half of the repetitions or more
    kept: float
    unbounded: float
    length: float  # beside the limit, the median
    joint: float
    score: float
    share: float  # cover of R²
    ratio: float  # the largest coefficient's estimate beside its truth, the median

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.cover.values()))) if self.cover else math.nan

    @property
    def least(self) -> float:
        return min(self.cover.values(), default=math.nan)


def measure(cell: Cell, repeats: int, seed: int, drop: Any = None) -> Result:
    truths: dict[tuple[int, ...], tuple[Inference, np.ndarray, float]] = {}
    hits: dict[str, list[bool]] = defaultdict(list)
    xis, lengths, open_ends, kept = [], [], [], []
    tested: dict[str, list[bool]] = defaultdict(list)
    ratios: list[float] = []
    references = None
    for release in cell.samples(seed, repeats):
        found = release.regress(drop=drop, adjust=None, units="encoded", references=references)
        references = references or dict(found.references)  # the same comparison in every repetition
        if not found.kept:
            continue
        if found.kept not in truths:
            own = replace(found, release=cell.exact)
            truths[found.kept] = own, cell.limit(own), own.model.r_squared().estimate
        truth, limit, explained = truths[found.kept]
        beta, model = truth.model.beta, found.model
        ends = model.intervals()
        inside = (ends.low <= beta) & (beta <= ends.high)
        for name, hit in zip(found.names, inside[:-1].tolist(), strict=True):
            hits[name].append(hit)
        finite = ends.determined[:-1]
        open_ends.append(1.0 - finite.mean())
        lengths += ((ends.high - ends.low)[:-1] / (2 * 1.96 * limit[:-1]))[finite].tolist()
        xis.append(model.xi)
        kept.append(len(found.kept))
        tested["score"].append(model.anderson_rubin(beta[:-1], float(beta[-1])).pvalue < 0.05)
        if model.xi <= 0.5:
            half = np.eye(model.size)[: max(1, (model.size - 1) // 2)]
            tested["joint"].append(model.joint(half, half @ beta).pvalue < 0.05)
            share = model.r_squared()
            tested["share"].append(share.low <= explained <= share.high)
            big = int(np.argmax(np.abs(beta[:-1])))
            ratios.append(float(model.beta[big] / beta[big]))
    often = {name: float(np.mean(found)) for name, found in hits.items() if len(found) >= repeats / 2}
    means = {name: float(np.mean(found)) for name, found in tested.items()}
    at = (float(np.median(v)) if v else math.nan for v in (xis, lengths, ratios))
    xi, length, ratio = at
    none = math.nan
    return Result(
        *(xi, often, float(np.mean(kept)) if kept else 0.0, float(np.mean(open_ends)) if open_ends else 1.0, length),
        *(means.get("joint", none), means.get("score", none), means.get("share", none), ratio),
    )


# ------------------------------------------------------------------------------------------------ bars


class Bars:
    """What was asked of the figures, and what was missed."""

    def __init__(self, repeats: int) -> None:
        self.repeats, self.missed = repeats, list[str]()

    def room(self, p: float = 0.95) -> float:
        """Three standard errors of one share, over those of 500 repetitions, for which the bars were set."""
        one = 3.0 * math.sqrt(p * (1.0 - p))
        return one / math.sqrt(self.repeats) - one / math.sqrt(500)

    def ask(self, what: str, held: bool) -> None:
        if not held:
            self.missed.append(what)
            print(f"    MISSED: {what}", flush=True)

    def check(self, name: str, r: Result) -> None:
        room = self.room()
        if r.xi <= 0.2:
            self.ask(f"{name}: mean cover in .935 to .97", 0.935 - room <= r.mean <= 0.97 + room)
            self.ask(f"{name}: every coefficient covered .915", r.least >= 0.915 - room)
            self.ask(
                f"{name}: length at most {1.05 if r.xi <= 0.02 else 1.35} limits",
                r.length <= (1.05 if r.xi <= 0.02 else 1.35),
            )
            self.ask(f"{name}: tests at most .08", max(r.joint, r.score) <= 0.08 + room)
            self.ask(f"{name}: R² covered .92 to .98", 0.92 - room <= r.share <= 0.98 + room)
        elif r.xi <= 0.5:
            self.ask(f"{name}: every coefficient covered .93", r.least >= 0.93 - room)
        else:
            self.ask(f"{name}: few finite intervals", r.unbounded >= 0.5)
            self.ask(f"{name}: score test at most .08", r.score <= 0.08 + room)


def show(name: str, r: Result) -> None:
    print(
        f"{name:38} {r.xi:5.2f} {r.kept:5.1f} {r.mean:6.3f} {r.least:6.3f} {r.unbounded:5.2f} {r.length:6.2f} "
        f"{r.joint:6.3f} {r.score:6.3f} {r.share:6.3f}",
        flush=True,
    )


HEAD = f"{'cell':38} {'ξ':>5} {'kept':>5} {'cover':>6} {'least':>6} {'open':>5} {'length':>6} {'joint':>6} {'score':>6} {'R²':>6}"


def regions(found: Sequence[Result]) -> None:
    """All cells together, by how much of them the noise leaves determined."""
    for name, least, most in (("up to 0.2", -1.0, 0.2), ("0.2 to 0.5", 0.2, 0.5), ("over 0.5", 0.5, 2.0)):
        inside = [r for r in found if least < r.xi <= most]
        if not inside:
            continue
        parts = [f"ξ {name}: {len(inside)} cells", f"least covered coefficient {min(r.least for r in inside):.3f}"]
        for what, values in (
            ("mean cover", [r.mean for r in inside]),
            ("length", [r.length for r in inside]),
            ("joint test", [r.joint for r in inside]),
            ("score test", [r.score for r in inside]),
            ("R²", [r.share for r in inside]),
        ):
            known = [value for value in values if not math.isnan(value)]
            parts += [f"{what} {min(known):.3f} to {max(known):.3f}"] if known else []
        print("; ".join(parts), flush=True)


def simulations(quick: bool, bars: Bars) -> None:
    kinds = ("gauss", "onehot") if quick else ("gauss", "binary", "onehot")
    few = (2_000, 5_000, 20_000, 200_000)
    sizes = {5: (5_000,), 20: (20_000,)} if quick else {5: few, 20: few, 100: (200_000,)}
    found: list[Result] = []
    for kind in kinds:
        for columns, every in sizes.items():
            if columns == 100 and kind == "binary":
                continue
            frames, schemas = simulated(kind, columns, seed=columns)
            for rows in every:
                for epsilon in (1.0, 4.0) if quick else (0.5, 1.0, 4.0):
                    cell = Cell(frames, schemas, NUMBERS, rows, epsilon)
                    name = f"{kind}, {columns} columns, {rows:,} rows, ε {epsilon:g}"
                    r = measure(cell, bars.repeats, seed=rows + round(10 * epsilon))
                    show(name, r)
                    bars.check(name, r)
                    found.append(r)
    regions(found)
    clear = [r for r in found if r.xi <= 0.2]
    print(f"determined cells {len(clear)}: mean cover {np.mean([r.mean for r in clear]):.3f}, mean sizes of joint and score "
          f"tests {np.mean([r.joint for r in clear]):.3f} and {np.mean([r.score for r in clear]):.3f}")  # fmt: skip
    bars.ask("mean size of joint tests at most .055", float(np.mean([r.joint for r in clear])) <= 0.055 + bars.room())
    bars.ask("mean size of score tests at most .055", float(np.mean([r.score for r in clear])) <= 0.055 + bars.room())


def concentrated(quick: bool, bars: Bars) -> None:
    """One large coefficient among 100: the estimate beside the truth."""
    frames, schemas = simulated("gauss", 100, seed=100, one=True)
    repeats = 20 if quick else bars.repeats
    for rows, epsilon in ((200_000, 2.0),) if quick else ((200_000, 1.0), (200_000, 2.0), (200_000, 4.0)):
        cell = Cell(frames, schemas, NUMBERS, rows, epsilon)
        r = measure(cell, repeats, seed=1)
        name = f"one of 100 columns, {rows:,} rows, ε {epsilon:g}"
        show(name, r)
        print(f"    its estimate beside the truth: {r.ratio:.3f}")
        if r.xi <= 0.21:
            bars.ask(f"{name}: estimate within 2 % of the truth", 0.98 <= r.ratio <= 1.02)


def resampled(quick: bool, bars: Bars) -> None:
    for name in ("credit-default",) if quick else ("credit-default", "a9a", "nhanes-diabetes"):
        table = real(name)
        if table is None:
            print(f"skipped: no {name} in {DATA} (set COLONNADE_DATA to its folder)")
            continue
        rows = len(table[0]["a"]) // BLOCK * BLOCK
        for epsilon in (1.0, 4.0) if quick else (0.5, 1.0, 4.0):
            cell = Cell(*table, CLASSES, rows, epsilon)
            repeats = bars.repeats if name == "credit-default" else bars.repeats // 5  # no bar but the permuted one
            r = measure(cell, repeats, seed=29, drop="auto")
            show(f"{name}, ε {epsilon:g}", r)
            refused = [release.regress(adjust=None).overall.pvalue < 0.05
                       for release in cell.samples(31, repeats, permuted=True)]  # fmt: skip
            print(f"    labels permuted: the overall test refuses {np.mean(refused):.3f}")
            bars.ask(
                f"{name}, ε {epsilon:g}: permuted labels refused at most .09",
                float(np.mean(refused)) <= 0.09 + Bars(repeats).room(),
            )
            if name == "credit-default":
                room = bars.room()
                bars.ask(f"{name}, ε {epsilon:g}: mean cover .94 to .97", 0.94 - room <= r.mean <= 0.97 + room)
                bars.ask(f"{name}, ε {epsilon:g}: columns kept in half the runs covered .91", r.least >= 0.91 - room)
                bars.ask(f"{name}, ε {epsilon:g}: R² covered .89", r.share >= 0.89 - room)


def whole_runs(quick: bool, bars: Bars) -> None:
    """Whole runs: the noise has the size that a release names, and labels of a wide range are covered."""
    count, rng, z = 10 if quick else 100, np.random.default_rng(7), []
    X = rng.uniform(-1, 1, (2_000, 6))
    y = np.clip(X @ rng.normal(size=6) / 3 + 0.3 * rng.normal(size=2_000), -2, 2)
    for _ in range(count):
        release = _run(X, y, 2.0, 1.0).release
        Z = np.column_stack([X, np.ones(len(X)), y])
        at = np.triu_indices(8)
        moved, sds = (release.matrix - Z.T @ Z)[at], release.noise[at]
        z += (moved[sds > 0] / sds[sds > 0]).tolist()
    print(
        f"{count} runs of co.fit: noise of {len(z):,} entries beside its sd: mean {np.mean(z):.3f}, sd {np.std(z):.3f}"
    )
    room = max(0.0, 3.0 * (1.0 / math.sqrt(2.0 * len(z)) - 1.0 / math.sqrt(2.0 * 50 * 35)))
    bars.ask("noise of whole runs within .95 to 1.05 sds", 0.95 - room <= float(np.std(z)) <= 1.05 + room)
    rows, hits, count = 200_000, [], 10 if quick else bars.repeats
    X = rng.uniform(-1, 1, (rows, 5))
    truth = [0.5, -0.3, 0.2, 0.0, 0.1]
    for _ in range(count):
        found = _run(X, X @ truth + 0.5 * rng.normal(size=rows), 10.0, 4.0).inference(units="encoded")
        hits += [low <= b <= high for (low, high), b in zip(found.intervals.values(), [*truth, 0.0], strict=True)]
    print(f"{count} runs of co.fit, labels within ±10 of sd 0.6, 200,000 rows, ε 4: cover {np.mean(hits):.3f}")
    bars.ask("labels of a wide range covered .93", float(np.mean(hits)) >= 0.93 - 3.0 * math.sqrt(0.05 / len(hits)))


def _run(X: np.ndarray, y: np.ndarray, reach: float, epsilon: float) -> co.Fit:
    fed = co.Federation.split(X, y, parties=2, label="party1")
    norm = math.sqrt(X.shape[1])
    privacy = co.Privacy(epsilon, 1e-6, row_norm=norm, feature_bound=1.0, label_bound=reach)
    with tempfile.TemporaryDirectory() as store:
        return co.fit(fed, NUMBERS, co.PrivateGram(purpose="inference"), privacy, store=Path(store))


def main(quick: bool = True, bars: Bars | None = None) -> int:
    bars = bars or Bars(100 if quick else 500)
    print(f"{bars.repeats} repetitions a cell\n{HEAD}", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (simulations, concentrated, whole_runs, resampled):
            part(quick, bars)
    print(f"{len(bars.missed)} bars missed" + "".join(f"\n  {one}" for one in bars.missed))
    return int(bool(bars.missed))


def smoke() -> None:
    """Every part, four repetitions a cell."""
    main(bars=Bars(4))
