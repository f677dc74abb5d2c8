"""Runs of Private Gram whose noise is off and whose exact releases are kept: what its tests look at."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import colonnade as co
from colonnade.methods.gram import private_gram
from colonnade.methods.gram.design import OWN, cross_weight, grid, own_weights
from colonnade.methods.gram.integer_rows import IntegerRows
from colonnade.methods.gram.rule import prepare
from colonnade.methods.method import Job
from colonnade.privacy.events import Scope, unprotected
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.runs.call import blocks_with_labels
from colonnade.runs.driver import RunDriver
from colonnade.runs.progress import Silent
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

    parts: tuple[tuple[np.ndarray, float], ...]
    sensitivity: float

    def distance(self, other: Release) -> float:
        pairs = zip(self.parts, other.parts, strict=True)
        return math.sqrt(sum(float(((a - b).astype(float) ** 2).sum()) / w**2 for (a, w), (b, _) in pairs))


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
    integers, matrix, release = Gate.integers, private_gram.gram_matrix, private_gram._release

    def own_release(self: Gate, exact: Any, weights: Any, rings: Any, **more: Any) -> Any:
        if more["scope"] is Scope.OWN:
            seen.releases.append(Release(tuple(zip(exact.value, weights, strict=True)), exact.sensitivity))
        return integers(self, exact, weights, rings, **more)

    def joint_release(design: Any, gate: Any, keys: Any, figures: Any, frame: Any, labels: Any = None) -> Any:
        got = yield from release(design, gate, keys, figures, frame, labels)
        seen.figures.append(figures)
        own = [zip(map(OWN.signed, parts), own_weights(figures, len(parts)), strict=True) for parts in got.own.values()]
        parts = [pair for pairs in own for pair in pairs]
        parts += [(figures.ring.signed(both), cross_weight(figures)) for both in got.cross.values()]
        seen.releases.append(Release(tuple(parts), design.sensitivity(figures)))
        return got

    def look(job: Any, figures: Any, got: Any) -> Any:
        seen.matrices.append((figures, matrix(job, figures, got)))
        return seen.matrices[-1][1]

    def remember(rule: Any, columns: Any, rows: int, sums: Any) -> Any:
        seen.sums = sums
        rule, seen.frame = prepare(rule, columns, rows, like.sums if like else sums)
        return rule, seen.frame

    with monkeypatch.context() as patch:
        patch.setattr(Gate, "integers", own_release)
        patch.setattr(private_gram, "_release", joint_release)
        patch.setattr(private_gram, "gram_matrix", look)
        patch.setattr(private_gram, "prepare", remember)
        loss = problem.pop("loss", co.Logistic())
        asked = co.Problem(loss, penalty=co.Ridge(1e-3), **problem)
        job = Job(asked, fed.roster(), privacy)
        method.check(job)
        plans = {name: unprotected(plan) for name, plan in method.price(job).items()}
        blocks = blocks_with_labels(fed, job)
        # One run id for all, so that public randomness is the same; nothing on disk, so that hundreds of runs are quick.
        run = RunDriver("run", fed, job, method, plans, blocks, MemoryStore(), Silent(), NoNoise(0))
        with run.hosted(co.InProcess()):
            seen.fit = running.drive_and_save(run)
    return seen


def plain_gram(fed: co.Federation, job: Any, figures: Any, frame: Any, y: np.ndarray) -> np.ndarray:
    """The Gram matrix of [a, c·1, τ·y] in whole numbers, with everything in one place."""
    owner = np.repeat(np.arange(len(fed.parties)), [p.block.columns for p in fed.parties.values()])
    parts = []
    for k, (name, party) in enumerate(fed.parties.items()):
        mine = owner[frame.keep] == k
        own = frame.keep[mine] - np.searchsorted(owner, k)
        rows = IntegerRows(party.block, grid(job, name, figures, own, frame.centre[mine], frame.scale[mine]))
        parts.append(rows.rows(0, fed.rows))
    whole = np.column_stack([*parts, np.full(fed.rows, figures.constant), y])
    return whole.T @ whole
