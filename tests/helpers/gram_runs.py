"""Runs of Private Gram whose noise is off and whose exact releases are kept: what its tests look at."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import colonnade as co
from colonnade.methods.gram import masks as gram_masks
from colonnade.methods.gram import products as gram_products
from colonnade.methods.gram.plan import OWN, RunPlan
from colonnade.methods.gram.products import sums_weights
from colonnade.methods.gram.rule import prepare
from colonnade.model.job import Job
from colonnade.privacy.events import Scope, unprotected
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.runs.call import blocks_with_labels
from colonnade.runs.fit import RunDriver
from colonnade.runtime.run_store import MemoryStore

running = importlib.import_module("colonnade.runs.fit")  # the module; the name in the package is the function


class NoNoise(SeededNoise):
    """Noise that is zero."""

    def at(self, place: str) -> NoNoise:
        return self

    def discrete_gaussian(self, size: int, sigma: Any) -> Any:
        return np.zeros(size, np.int64)


@dataclass(frozen=True)
class Release:
    """One mechanism: its numbers, each beside the weight of its noise, and how far they may move together."""

    parts: tuple[tuple[np.ndarray, Any], ...]  # weights: one for all numbers of a part, or one for each
    sensitivity: float

    def distance(self, other: Release) -> float:
        pairs = zip(self.parts, other.parts, strict=True)
        return math.sqrt(sum(float(((a - b).astype(float) ** 2 / np.square(w)).sum()) for (a, w), (b, _) in pairs))


@dataclass
class Seen:
    """What was released, and what the coordinator made of it."""

    releases: list[Release] = field(default_factory=list)
    matrices: list[tuple[Any, Any]] = field(default_factory=list)
    figures: list[Any] = field(default_factory=list)
    sums: Any = None
    frame: Any = None
    fit: co.Fit | None = None


def silent_run(
    fed: co.Federation, method: Any, privacy: co.Privacy, monkeypatch: Any, like: Seen | None = None, **problem: Any
) -> Seen:
    """A run without noise; `like` another one: rows are then centred and scaled as there, whatever the sums."""
    seen = Seen()
    integers, matrix, sums_of = Gate.integers, gram_products.gram_matrix, gram_masks.collect_sums

    def own_release(self: Gate, exact: Any, weights: Any, masks: Any, **more: Any) -> Any:
        if more["scope"] is Scope.OWN:
            seen.releases.append(Release(tuple(zip(exact.value, weights, strict=True)), exact.sensitivity))
        return integers(self, exact, weights, masks, **more)

    def look_at_sums(design: Any, prepared: Any, gate: Any, losses: Any) -> Any:
        got = yield from sums_of(design, prepared, gate, losses)
        seen.figures.append(prepared.figures)
        seen.releases.append(sums_release(design, prepared.figures, got))
        return got

    def look(layout: Any, got: Any) -> Any:
        seen.figures.append(layout.figures)
        seen.releases.append(gram_release(method, layout, got))
        seen.matrices.append((layout.figures, matrix(layout, got)))
        return seen.matrices[-1][1]

    def remember(rule: Any, columns: Any, rows: int, sums: Any) -> Any:
        seen.sums = sums
        rule, seen.frame = prepare(rule, columns, rows, like.sums if like else sums)
        return rule, seen.frame

    with monkeypatch.context() as patch:
        patch.setattr(Gate, "integers", own_release)
        patch.setattr(gram_masks, "collect_sums", look_at_sums)
        patch.setattr(gram_products, "gram_matrix", look)
        patch.setattr(gram_products, "prepare", remember)
        loss = problem.pop("loss", co.Logistic())
        asked = co.Problem(loss, penalty=co.Ridge(1e-3), **problem)
        job = Job(asked, fed.roster(), privacy)
        method.check(job)
        plans = {name: unprotected(plan) for name, plan in method.price(job).items()}
        blocks = blocks_with_labels(fed, job)
        # One run id for all, so that public randomness is the same; nothing on disk, so that hundreds of runs are quick.
        run = RunDriver("run", fed, job, method, plans, blocks, MemoryStore(), lambda _: None, NoNoise(0))
        with run.hosted(co.InProcess()):
            seen.fit = running.drive_and_save(run)
    return seen


def sums_release(design: Any, figures: Any, got: Any) -> Release:
    """Class sums as one mechanism."""
    own = [zip(map(OWN.signed, parts), sums_weights(figures, len(parts)), strict=True) for parts in got.own.values()]
    parts = [pair for pairs in own for pair in pairs]
    parts += [(both, 1.0) for both in got.cross.values()]
    return Release(tuple(parts), design.sensitivity(figures))


def gram_release(method: Any, layout: Any, got: Any) -> Release:
    """The Gram matrix as one mechanism: squared lengths, the rest of each party's own, products of two."""
    design = RunPlan.of(layout.job, method)
    parts: list[tuple[np.ndarray, Any]] = []
    for name, own in got.own.items():
        squares, *rest = layout.weights(name)
        if name == layout.job.roster.label and layout.job.problem.loss.classifies:
            squares = squares[:-1]  # y'y is public
        parts += zip(map(OWN.signed, own), (squares, *rest), strict=True)
    for pair, both in got.cross.items():
        parts.append((both, layout.cross_weights(pair)))
    return Release(tuple(parts), design.sensitivity(layout.figures))


def whole_by_formula(
    X: np.ndarray, ends: Any, centre: Any, scale: Any, step: float, norm2: int, toward: Any = False
) -> np.ndarray:
    """rint((a − c)·s/step) of entries a within their ends, none longer than √norm2, and rows over it shortened toward zero.

    Written from the formula and one row at a time, in Python's integers. `toward`: entries cut instead of rounded.
    """
    real = (np.clip(np.nan_to_num(np.asarray(X, float)), *ends) - centre) * scale / step
    whole, most = np.where(toward, np.trunc(real), np.rint(real)), math.isqrt(norm2)
    rows = [[min(max(int(x), -most), most) for x in row] for row in whole]
    for row in rows:
        squares = sum(x * x for x in row)
        part = math.sqrt(norm2 / max(squares, 1))
        while squares > norm2:
            shorter = [math.trunc(x * part) for x in row]
            squares, part = sum(x * x for x in shorter), part * (1.0 - 2.0**-40)
            row[:] = shorter if squares <= norm2 else row
    return np.array(rows, np.int64).reshape(len(X), -1)


def declared_ends(fed: co.Federation, privacy: co.Privacy, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Between which numbers entries of a party's columns lie: by its schema; else no entry is longer than its row, whose
    length is shared out by numbers of columns."""
    known, most = fed.roster().known.get(name), privacy.feature_bound or math.inf
    if known is None:
        widths = {party: len(places) for party, places in fed.roster().positions.items()}
        norm: Any = privacy.row_norm
        share = norm[name] if isinstance(norm, dict) else norm * math.sqrt(widths[name] / sum(widths.values()))
        high = np.full(widths[name], min(most, share))
        return -high, high
    high = np.minimum(known.bounds, most)
    return np.where(known.nonnegative, 0.0, -high), high


def rows_by_formula(
    fed: co.Federation, privacy: co.Privacy, figures: Any, frame: Any, curves: bool = False
) -> dict[str, np.ndarray]:
    """Every party's whole rows of a release: from its table, its bounds and what the release says of itself.

    `curves`: of rows as they are, whose numbers are cut toward zero so that no curve is longer than its line.
    """
    made, first = {}, 0
    for name, party in fed.parties.items():
        width = len(fed.roster().positions[name])
        at = np.flatnonzero((frame.keep >= first) & (frame.keep < first + width))
        own, ends = frame.keep[at] - first, declared_ends(fed, privacy, name)
        X, matrix = np.zeros((fed.rows, 0)), party.block.matrix
        if own.size:
            X = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, float)[:, own]
        of = (end[own] for end in ends), frame.centre[at], frame.scale[at]
        toward = ~np.array(fed.roster().known[name].binary, bool)[own] if curves else False
        made[name] = whole_by_formula(X, *of, figures.step, figures.norm2[name], toward)
        first += width
    return made


def plain_gram(fed: co.Federation, job: Any, figures: Any, frame: Any, y: np.ndarray) -> np.ndarray:
    """The Gram matrix of [a, c·1, τ·y] in whole numbers, with everything in one place and rows by their formula."""
    parts = rows_by_formula(fed, job.privacy, figures, frame).values()
    whole = np.column_stack([*parts, np.full(fed.rows, figures.constant), y])
    return np.asarray(whole.T @ whole)
