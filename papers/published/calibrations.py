"""The papers' own privacy calibrations, as printed: single releases for audits and figures, never for data.

Claim    none of ours. Each value carries the (epsilon, delta) that its paper states, with the guarantee "claimed".
Source   SketchedColumns      Lou and Cheung, "An uplink communication-efficient approach ...", equation 17.
         SparseFrankWolfe     Raff, Khanna and Lu, "Scaling up differentially private LASSO ...", algorithm 2.
         SparseLaplace        the same, algorithm 1, lines 7 and 8.
         SharingADMM          Hu et al., "Learning privately over distributed features", NeurIPS 2020, lemma 1, theorem 1.
         ZerothOrder          Gratton, thesis, chapter 4, equations 4.9 to 4.13 ("intrinsic" privacy).
Leaves   whatever the paper lets leave, many trials at once. Noise is floating point from a generator that is handed in.
Price    unknown: papers/findings.md shows by attack that the claims fail. There is no gate and no ledger here, so nothing in
         this file can spend a budget or take part in a fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.kernels.sparse_fw import model_of_picks
from colonnade.kernels.stream import Stream
from colonnade.privacy.statement import Guarantee, PrivacyStatement, Trust
from papers.published.sparse_kernel import published_big_step_little_step

Choice = tuple[NDArray[np.int64], Floats]  # for each trial: a coordinate and the sign of its slope


@dataclass(frozen=True)
class SketchedColumns:
    """Every party sends a noisy sketch J·a of one of its columns in every round (|entries of a| ≤ 1)."""

    epsilon: float
    delta: float
    parties: int = 2
    rounds: int = 10

    def __post_init__(self) -> None:
        check(self.epsilon, self.delta, parties=self.parties, rounds=self.rounds)

    def sigma(self, sketch: Floats) -> float:
        """Equation 17: the top singular value of J, divided by the number of rows."""
        top = float(np.linalg.norm(sketch, 2))
        spread = math.sqrt(self.parties * self.rounds * 2 * (math.log(1 / self.delta) + self.epsilon / 2))
        return top * spread / (int(sketch.shape[1]) * self.epsilon / 2)

    def release(self, sketch: Floats, column: Floats, rng: np.random.Generator, trials: int) -> Floats:
        """All sketches of a run in which every party's only column is `column`: (trials, parties·rounds, m)."""
        noise = rng.standard_normal((trials, self.parties * self.rounds, sketch.shape[0]))
        return np.asarray(sketch @ column + self.sigma(sketch) * noise)

    @property
    def statement(self) -> PrivacyStatement:
        return claimed(self.epsilon, self.delta, "one row", "replace one row", "noisy sketches of columns")


@dataclass(frozen=True)
class SparseFrankWolfe:
    """The exponential mechanism chooses among |slopes|; the model then moves by the chosen slope's exact sign."""

    epsilon: float
    delta: float
    rounds: int = 20
    radius: float = 1.0

    def __post_init__(self) -> None:
        check(self.epsilon, self.delta, rounds=self.rounds, radius=self.radius)

    def scale(self, rows: int) -> float:
        """Line 5 with L = 1: weights are exp(scale·|slope|). Slopes are read as means over rows, in the paper's favour."""
        return rows * self.epsilon / (2 * self.radius * _composition(self.rounds, self.delta))

    def release(self, X: Floats, y: Floats, rng: np.random.Generator, trials: int) -> Floats:
        """The final model of each trial; labels are 0 and 1, |entries| ≤ 1."""
        rows, columns = X.shape

        def choose(slopes: Floats) -> Choice:
            keys = self.scale(rows) * np.abs(slopes / rows) + rng.gumbel(size=(trials, columns))
            chosen = keys.argmax(axis=1)
            return chosen, np.sign(slopes[np.arange(trials), chosen])  # line 16: the exact sign

        return _frank_wolfe(X, y, self.rounds, self.radius, choose, trials)

    def learn(self, X: Any, y: Floats, stream: Stream) -> Floats:
        """The model of one run on sparse rows, at the paper's speed (algorithm 4); labels are -1 and 1."""
        csc, csr = (_parts(form(X)) for form in (sparse.csc_array, sparse.csr_array))
        scale = self.scale(1)  # on sums over rows instead of means
        picks = published_big_step_little_step(
            csc, csr, y, radius=self.radius, rounds=self.rounds, scale=scale, stream=stream
        )
        return model_of_picks(picks, radius=self.radius, columns=X.shape[1])

    @property
    def statement(self) -> PrivacyStatement:
        return claimed(self.epsilon, self.delta, "one row", "replace one row", "the model")


@dataclass(frozen=True)
class SparseLaplace:
    """Laplace noise on the slopes as line 7 computes them (sums over rows), at the scale that line 8 prints.

    Read in the paper's favour otherwise: the largest noisy slope is taken where "argmin" is printed, and the sign is the
    noisy one, so that what an attack finds is the scale's fault alone.
    """

    epsilon: float
    delta: float
    rounds: int = 20
    radius: float = 1.0

    def __post_init__(self) -> None:
        check(self.epsilon, self.delta, rounds=self.rounds, radius=self.radius)

    def scale(self, rows: int) -> float:
        """Line 8 with L = 1."""
        return self.radius * _composition(self.rounds, self.delta) / (rows * self.epsilon)

    def release(self, X: Floats, y: Floats, rng: np.random.Generator, trials: int) -> Floats:
        """The final model of each trial; labels are 0 and 1, |entries| ≤ 1."""
        rows, columns = X.shape

        def choose(slopes: Floats) -> Choice:
            noisy = slopes + rng.laplace(scale=self.scale(rows), size=(trials, columns))
            chosen = np.abs(noisy).argmax(axis=1)
            return chosen, np.sign(noisy[np.arange(trials), chosen])

        return _frank_wolfe(X, y, self.rounds, self.radius, choose, trials)

    @property
    def statement(self) -> PrivacyStatement:
        return claimed(self.epsilon, self.delta, "one row", "replace one row", "the model")


@dataclass(frozen=True)
class SharingADMM:
    """One iteration of one party: x = argmin λ/2 ‖x‖² + <y, Dx> + ρ/2 ‖Dx‖² (the others at 0), then D x with noise."""

    epsilon: float
    delta: float
    parties: int = 2
    ridge: float = 1e-3
    penalty: float = 1.0

    def __post_init__(self) -> None:
        check(self.epsilon, self.delta, parties=self.parties, ridge=self.ridge, penalty=self.penalty)

    def update(self, D: Floats, dual: Floats) -> Floats:
        """Equation 6."""
        hessian = self.ridge * np.eye(D.shape[1]) + self.penalty * D.T @ D
        return np.asarray(-np.linalg.solve(hessian, D.T @ dual))

    def sigma(self, columns: int, largest: float) -> float:
        """Theorem 1 on lemma 1's bound; `largest` bounds the norms of x, y and z, and R'' = 1."""
        bound = 3 / (columns * self.penalty) * (self.ridge + (1 + self.parties * self.penalty) * largest)
        return math.sqrt(2 * math.log(1.25 / self.delta)) * bound / self.epsilon

    def theorem(self, D: Floats, dual: Floats, largest: float, rng: np.random.Generator, trials: int) -> Floats:
        """As theorem 1 reads: independent noise on every entry of D x. (trials, rows)"""
        noise = rng.standard_normal((trials, D.shape[0]))
        return np.asarray(D @ self.update(D, dual) + self.sigma(D.shape[1], largest) * noise)

    def algorithm(self, D: Floats, dual: Floats, largest: float, rng: np.random.Generator, trials: int) -> Floats:
        """As equation 7 and algorithm 1 compute it: noise on x, so that D (x + ξ) leaves. (trials, rows)"""
        noise = rng.standard_normal((trials, D.shape[1]))
        return np.asarray((self.update(D, dual) + self.sigma(D.shape[1], largest) * noise) @ D.T)

    @property
    def statement(self) -> PrivacyStatement:
        return claimed(self.epsilon, self.delta, "one column", "change one column by at most 1", "D x with noise")


@dataclass(frozen=True)
class ZerothOrder:
    """The first primal update of one agent: `steps` zeroth-order steps of `draws` random directions each.

    The agent's loss is the mean of |a·x - b| over its rows, all of norm at most 1; it has one neighbour, still at 0.
    No noise is added: the thesis takes the solver's own randomness for a normal distribution of known variance. That
    variance, hence the claim, does not depend on `smoothing`, the distance at which slopes are estimated.
    """

    epsilon: float
    delta: float
    rows: int = 20
    columns: int = 5
    steps: int = 100
    penalty: float = 4.0
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        sizes = {"rows": self.rows, "columns": self.columns, "steps": self.steps}
        check(self.epsilon, self.delta, **sizes, penalty=self.penalty, smoothing=self.smoothing)

    @property
    def draws(self) -> int:
        """The most directions a step may average by equation 4.13, whose epsilon grows with their square root."""
        times = np.arange(1, self.steps + 1)
        sums = float((1 / times).sum()) * (1 + math.log(self.columns)) + float((times**-1.5).sum())
        spread = 0.5 * START**2 / math.log(2 * self.columns) * sums
        spread -= 4 / self.steps / (2 * self.penalty * self.rows) ** 2  # the optimum lies within 1/(2ρM) of 0
        reach = (self.penalty * self.rows) ** 2 / (2.1 * self.columns * math.log(1.25 / self.delta))
        draws = math.floor(self.epsilon**2 * reach * spread)
        if draws < 1:
            least = 1 / math.sqrt(reach * spread)
            raise InvalidInput(f"one direction a step already claims epsilon {least:.3g}; ask for that or more.")
        return draws

    def release(self, A: Floats, b: Floats, rng: np.random.Generator, trials: int) -> Floats:
        """The agent's x after its first update, as its neighbour receives it. (trials, columns)"""
        used = np.any(A != 0, axis=1)  # an empty row adds a constant

        def objective(x: Floats) -> Floats:
            loss = np.abs(x @ A[used].T - b[used]).sum(axis=-1) / self.rows
            return np.asarray(loss + self.penalty * (x * x).sum(axis=-1))

        x = np.zeros((trials, self.columns))
        lipschitz = 2 * self.penalty + 1
        for t in range(1, self.steps + 1):
            wide, narrow = self.smoothing / t, self.smoothing / (self.columns * t) ** 2
            slope = np.zeros_like(x)
            for _ in range(self.draws):
                here = x + wide * rng.standard_normal(x.shape)
                along = rng.standard_normal(x.shape)
                slope += ((objective(here + narrow * along) - objective(here)) / narrow)[:, None] * along
            step = START / (lipschitz * math.sqrt(t * self.columns * math.log(2 * self.columns)))
            x -= step * slope / self.draws
        return x

    @property
    def statement(self) -> PrivacyStatement:
        return claimed(self.epsilon, self.delta, "one row", "replace one row", "one agent's x after one round")


START = 0.54  # the thesis' first step


def gaussian_epsilon(distance: float, delta: float) -> float:
    """The exact epsilon of unit Gaussian noise about two points this far apart (Balle and Wang 2018)."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(epsilon: float) -> float:
        hit, false = norm.cdf(distance / 2 - epsilon / distance), norm.logcdf(-distance / 2 - epsilon / distance)
        return float(hit - math.exp(min(0.0, epsilon + false)) - delta)

    return float(brentq(excess, 0.0, distance**2 / 2 + 40 * distance + 1)) if excess(0.0) > 0 else 0.0


def _frank_wolfe(
    X: Floats, y: Floats, rounds: int, radius: float, choose: Callable[[Floats], Choice], trials: int
) -> Floats:
    """Both algorithms' loop for the logistic loss: rounds - 1 steps of 2/(t + 2), slopes recomputed every time."""
    w = np.zeros((trials, X.shape[1]))
    for t in range(1, rounds):
        slopes = (1 / (1 + np.exp(-(w @ X.T))) - y) @ X
        chosen, sign = choose(slopes)
        step = 2 / (t + 2)
        w *= 1 - step
        w[np.arange(trials), chosen] -= step * radius * sign
    return w


def _parts(matrix: Any) -> tuple[Any, Any, Any]:
    return np.asarray(matrix.data, dtype=np.float64), matrix.indices, matrix.indptr


def _composition(rounds: int, delta: float) -> float:
    return math.sqrt(8 * rounds * math.log(1 / delta))


def claimed(epsilon: float, delta: float, unit: str, neighbours: str, sees: str) -> PrivacyStatement:
    return PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        neighbours=neighbours,
        trust=Trust.NOBODY,
        accountant="the paper's",
        guarantee=Guarantee.CLAIMED,
        derivation="by the paper; papers/findings.md says why it does not hold",
        sees=sees,
    )


def check(epsilon: float, delta: float, **positive: float) -> None:
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise InvalidInput(f"a claim needs a finite epsilon > 0 and 0 < delta < 1, got {epsilon} and {delta}.")
    for name, value in positive.items():
        if not 0 < value < math.inf:
            raise InvalidInput(f"{name} must be a finite number above 0, got {value}.")
