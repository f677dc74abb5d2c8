"""A party's program, its gate and its coordinator, with nothing between them: what reaches the gate is written down.

The coordinator's messages are given, and the gate answers the same whatever it is handed. So two neighbours are asked
the same questions after the same past, and what they hand to the gate may differ by no more than is charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.methods.method import Finish
from colonnade.model.job import Job
from colonnade.privacy.block import Block
from colonnade.privacy.gate import Receipt
from colonnade.privacy.values import Packed, release
from colonnade.runtime.program import COORDINATOR


@dataclass(frozen=True)
class Given:
    """One release: what the gate was handed, and what the program says it moves by."""

    kind: str
    parts: tuple[np.ndarray, ...]
    sensitivity: float
    weights: tuple[float, ...]

    def apart(self, other: Given, weights: Sequence[float] | None = None) -> float:
        """How far two neighbours are apart, as this kind of release counts it: entrywise for choices, else in L2."""
        assert (self.kind, len(self.parts)) == (other.kind, len(other.parts))
        pairs = [(a - b) / w for a, b, w in zip(self.parts, other.parts, weights or self.weights, strict=True)]
        if self.kind == "choice":
            return max(float(np.abs(pair).max()) for pair in pairs)
        return math.sqrt(sum(float((pair**2).sum()) for pair in pairs))


class Watched:
    """A gate that writes down what it is handed and answers from a fixed script: numbers by place, and columns in turn."""

    def __init__(self, node: str, run: str = "run") -> None:
        self.node, self.run = node, run
        self.given: list[Given] = []
        self.levels: list[dict[tuple[int, str], int]] = []  # of histograms
        self.rows: list[tuple[int, float, float]] = []
        self.answers: list[np.ndarray] = []  # to these, by and by; then zeros
        self._random = np.random.default_rng(0)

    def _take(self, kind: str, values: Any, sensitivity: float, weights: Any = None) -> None:
        parts = tuple(np.array(value, dtype=np.float64) for value in values)
        self.given.append(Given(kind, parts, sensitivity, tuple(weights or [1.0] * len(parts))))

    def gaussian(self, *exact: Any, rho: float, scope: Any = None, audience: Any = None) -> Any:
        self._take("gaussian", [e.value for e in exact], math.hypot(*(e.sensitivity for e in exact)))
        made = tuple(release(self._random.normal(size=e.value.shape)) for e in exact)
        return made[0] if len(made) == 1 else made

    def noisy_max(self, scores: Any, *, rho: float, scope: Any = None) -> Any:
        self._take("choice", [scores.value], scores.sensitivity)
        return release(len(self.given) % scores.value.size), release(1)

    def entrust(self, scores: Any, *, rho: float) -> Any:
        return (*self.noisy_max(scores, rho=rho), release(0))

    def integers(self, exact: Any, weights: Any, masks: Any, *, rho: float, scope: Any, audience: Any = None) -> Any:
        self._take("integers", exact.value, exact.sensitivity, weights)
        return tuple(release(Packed(np.zeros(part.shape, np.uint64), 62)) for part in exact.value)

    def histogram(self, cells: Any, levels: Any, rows: int, *, rho: float, delta: float = 0.0) -> Any:
        """Levels by name, so that those that only one neighbour has stand alone; the script names none of them."""
        named = {(k, name): c for k, one in enumerate(levels) for name, c in zip(one.names, one.counts, strict=True)}
        self.given.append(Given("histogram", (cells.value.astype(np.float64),), cells.sensitivity, (1.0,)))
        self.levels.append(named)
        self.rows.append((rows, rho, delta))
        answer = self.answers.pop(0) if self.answers else np.zeros(cells.value.shape, np.int64)
        names = tuple(() for _ in levels)
        return release(answer), release(names), release(tuple(np.zeros(0, np.int64) for _ in levels))

    def inside(self, value: Any) -> Any:
        assert np.isfinite(value).all()
        return release(value)

    def receipt(self) -> Receipt:
        return Receipt(())


def handed(method: Any, job: Job, block: Block, node: str, messages: Sequence[Any]) -> list[Given]:
    """What one party hands to its gate while a coordinator asks it in turn; it is told to finish at the end."""
    gate = Watched(node)
    program = method.party(job, block, gate)
    next(program)
    for asked in messages:
        program.send({COORDINATOR: asked})
    program.send({COORDINATOR: Finish(np.zeros(block.columns), 0.0)})
    return gate.given
