"""Runs of Private Gram whose noise is off and whose exact releases are kept: what its tests look at."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import colonnade as co
from colonnade.kernels.ring import Ring
from colonnade.methods.gram import private_gram, secure_release
from colonnade.methods.gram.design import OWN, sums_weights
from colonnade.methods.gram.rule import prepare
from colonnade.methods.gram.secure_design import Design, Layout, fixed_labels
from colonnade.methods.gram.secure_release import Prepared
from colonnade.methods.method import Job
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
    integers, matrix, sums_of = Gate.integers, secure_release.gram_matrix, private_gram.collect_sums

    def own_release(self: Gate, exact: Any, weights: Any, masks: Any, **more: Any) -> Any:
        if more["scope"] is Scope.OWN:
            seen.releases.append(Release(tuple(zip(exact.value, weights, strict=True)), exact.sensitivity))
        return integers(self, exact, weights, masks, **more)

    def look_at_sums(design: Any, prepared: Any, gate: Any, losses: Any) -> Any:
        got = yield from sums_of(design, prepared, gate, losses)
        seen.figures.append(prepared.figures)
        seen.releases.append(sums_release(design, prepared.figures, got))
        return got

    def look(layout: Any, rings: Any, diagonal: Any, got: Any) -> Any:
        seen.figures.append(layout.figures)
        seen.releases.append(gram_release(method, layout, rings, diagonal, got))
        seen.matrices.append((layout.figures, matrix(layout, rings, diagonal, got)))
        return seen.matrices[-1][1]

    def remember(rule: Any, columns: Any, rows: int, sums: Any) -> Any:
        seen.sums = sums
        rule, seen.frame = prepare(rule, columns, rows, like.sums if like else sums)
        return rule, seen.frame

    with monkeypatch.context() as patch:
        patch.setattr(Gate, "integers", own_release)
        patch.setattr(private_gram, "collect_sums", look_at_sums)
        patch.setattr(secure_release, "gram_matrix", look)
        patch.setattr(private_gram, "prepare", remember)
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
    parts += [(Ring(figures.bits).signed(both), 1.0) for both in got.cross.values()]
    return Release(tuple(parts), design.sensitivity(figures))


def gram_release(method: Any, layout: Any, rings: Any, diagonal: Any, got: Any) -> Release:
    """The Gram matrix as one mechanism: squared lengths, the rest of each party's own, products of two."""
    design, parts = Design(layout.job, method), []
    for name, own in got.own.items():
        places, (squares, *rest) = layout.mine(name), layout.weights(name)
        if name == layout.job.roster.label and fixed_labels(layout.job, layout.figures):
            places, squares = places[:-1], squares[:-1]  # y'y is public
        parts += [(diagonal[places], squares), *zip(map(OWN.signed, own), rest, strict=True)]
    for pair, both in got.cross.items():
        parts.append((rings.lift(both, *map(layout.mine, pair)), layout.cross_weights(pair)))
    return Release(tuple(parts), design.sensitivity(layout.figures))


def plain_gram(fed: co.Federation, job: Any, figures: Any, frame: Any, y: np.ndarray) -> np.ndarray:
    """The Gram matrix of [a, c·1, τ·y] in whole numbers, with everything in one place."""
    prepared = Prepared(figures, Layout(job, figures, frame), b"")
    parts = []
    for name, party in fed.parties.items():
        rows = prepared.rows(party.block, name)
        parts.append(rows.rows(0, fed.rows).astype(np.int64) * rows.grid.unit)
    whole = np.column_stack([*parts, np.full(fed.rows, figures.constant), y])
    return whole.T @ whole
