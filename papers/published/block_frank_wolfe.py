"""Private block Frank-Wolfe as it was published, for figures and attacks, never for data: algorithm 2 whole, not a release alone.

Claim    none of ours: the statement carries the paper's (epsilon, delta) with the guarantee "claimed".
Source   Lou and Cheung, "An uplink communication-efficient approach ...", algorithm 2, private signed index computation, equations 16
         and 17; the losses of its table V. Read in the paper's favour: the largest |v| where line 8 prints the largest v, 1/n in both terms of the
         partial gradient, G = 1 in the noise of the index; for the other two losses q is J A x, not divided by n, and the mean over rows is
         in the gradient, as the loss has it.
Losses   least squares needs products of sketches alone. The other two read one prediction a row off the sketch, Jᵀq in the place of A x:
         its error is ‖A x‖/√m in every row, √(n/m) times the size of a prediction.
Faults   the noise of equation 17 is divided by n (`true_epsilon`); line 12 adds K vertices of the ball, so ‖x‖₁ reaches K·radius.
Leaves   whatever the paper lets leave; noise is floating point from a generator that is handed in. No gate, no ledger: nothing here
         can spend a budget or take part in a fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.privacy.statement import PrivacyStatement
from papers.published.calibrations import SketchedColumns, check, claimed, gaussian_epsilon
from papers.published.dense_sketch import gaussian_sketch, largest_column_norm

SLOPES: dict[str, Callable[[Floats, Floats], Floats]] = {  # of a row's loss in its prediction, by table V
    "logistic": lambda scores, y: -y * expit(-y * scores),
    "smoothed hinge": lambda scores, y: -y * np.maximum(0.0, 1.0 - y * scores),
}


@dataclass(frozen=True)
class PublishedBlockFrankWolfe:
    """DP-BCFW-AS with `parties` of equal width."""

    epsilon: float
    delta: float
    parties: int = 2
    rounds: int = 10
    radius: float = 1.0
    loss: str = "least squares"  # or "logistic" or "smoothed hinge", labels ±1

    def __post_init__(self) -> None:
        check(self.epsilon, self.delta, parties=self.parties, rounds=self.rounds, radius=self.radius)
        if self.loss not in ("least squares", *SLOPES):
            raise InvalidInput(f"loss={self.loss!r}: table V has least squares, {' and '.join(SLOPES)}.")

    def index_scale(self, rows: int) -> float:
        """Of the Laplace noise on every entry of the partial gradient."""
        spread = math.sqrt(2 * self.rounds * math.log(2 / self.delta))
        return (2 * self.radius / (self.parties * rows)) * spread / (self.epsilon / (4 * self.parties))

    def fit(self, A: Floats, y: Floats, sketch_rows: int, rng: np.random.Generator) -> Floats:
        """x after all rounds; |entries| ≤ 1."""
        *_, x = self.iterates(A, y, sketch_rows, rng)
        return x

    def iterates(
        self, A: Floats, y: Floats, sketch_rows: int, rng: np.random.Generator, noise: float = 1.0
    ) -> Iterator[Floats]:
        """x before every round and after the last; `noise` multiplies all noise, 0 turns it off."""
        n, d = A.shape
        sketch = gaussian_sketch(rng.bytes(32), sketch_rows, n)
        sketched, moment = sketch @ A, A.T @ y / n
        sigma = noise * SketchedColumns(self.epsilon, self.delta, self.parties, self.rounds).sigma(sketch)
        x, q = np.zeros(d), np.zeros(sketch_rows)  # q is J A x
        for t in range(self.rounds):
            yield x
            step, vertex, moved = 2 / (t + 2), np.zeros(d), np.zeros(sketch_rows)
            if self.loss == "least squares":
                slopes = sketched.T @ q / n - moment  # line 6
            else:
                slopes = A.T @ SLOPES[self.loss](sketch.T @ q, y) / n  # table V
            for own in np.array_split(np.arange(d), self.parties):
                noisy = slopes[own] + noise * rng.laplace(scale=self.index_scale(n), size=own.size)  # line 7
                best = int(np.abs(noisy).argmax())  # line 8
                column = sketched[:, own[best]] + sigma * rng.standard_normal(sketch_rows)  # line 9
                vertex[own[best]] -= self.radius * np.sign(noisy[best])  # line 12
                moved -= np.sign(noisy[best]) * self.radius * column
            x = (1 - step) * x + step * vertex  # line 13
            q = (1 - step) * q + step * moved  # line 14
        yield x

    def true_epsilon(self, rows: int, sketch_rows: int) -> float:
        """What the sketches of a run cost at this delta: one row's entry, +1 or −1 in every column, moves each by 2κ."""
        sketch = gaussian_sketch(bytes(32), sketch_rows, rows)
        sigma = SketchedColumns(self.epsilon, self.delta, self.parties, self.rounds).sigma(sketch)
        distance = 2 * largest_column_norm(sketch) * math.sqrt(self.parties * self.rounds) / sigma
        return gaussian_epsilon(distance, self.delta)

    @property
    def statement(self) -> PrivacyStatement:
        sees = "signed column numbers and noisy sketches of columns"
        return claimed(self.epsilon, self.delta, "one row", "replace one row", sees)
