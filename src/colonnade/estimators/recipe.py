"""Private sparse models of one data holder: what is released at which share of the budget, by public figures.

Fits     t ≈ X·w + b for targets t in [-1, 1] (a class as ±1, or a value over its bound), one target after the other.
Source   two recipes, derived in docs/understand/privacy/one-holder.md. `PickRecipe`: Frank-Wolfe over the l1 ball by
         the exponential mechanism (Talwar, Thakurta, Zhang 2015; "sparse Frank-Wolfe picks"). `RowRecipe`: rows of norm
         1, and either one weighted sum of rows ("class sums") or gradient steps ("noisy gradient in the row-norm
         geometry").
Leaves   what the plan lists, and nothing else; the model is a function of it.
Price    the plan sums to rho. Rules see n, d, rho, bounds and settings, never an entry.
Rows     as a private fit sees them: entries clipped, bent by a power, brought to one length. What makes them looks at
         one row at a time and at public figures. So a neighbour, who differs in one row, differs in one row of what
         comes out, and that row has norm at most 1 whatever its entries were. x → sign(x)·|x|^p keeps signs, so it
         needs no promise about them. p < 1 pulls up small values: with noise on every column, that a word occurs tells
         more than how often. Entries that are not numbers count as zero: an error would tell about a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput
from colonnade.fields import Choice
from colonnade.kernels.arrays import Floats
from colonnade.kernels.samplers import exact_picks
from colonnade.kernels.sparse_fw import LossCode, Picks, model_of_picks
from colonnade.kernels.stream import Stream
from colonnade.methods.frank_wolfe.private_spend import balanced_rounds
from colonnade.methods.method import chosen_by_noise
from colonnade.model.job import swamped
from colonnade.privacy.block import clean_cells, sum_slack
from colonnade.privacy.events import Charge, Event, Mechanism, Plan
from colonnade.privacy.gate import Drawer, Gate
from colonnade.privacy.values import Private

FEWEST = 50.0  # n·√(2rho) below which noise has the larger part in a score
FEWEST_FOR_STEPS = 1000.0  # below this n·√(2rho) one weighted sum of rows beats gradient steps
TIME = 0.075  # length of the gradient flow for each unit of n·√(2rho)
LONGEST_STEP = 2.0  # n times the step: with rows of norm 1 the squared loss descends up to here
MOST_STEPS = 1000
MOST_DRAWS = 200_000_000  # numbers of noise in a fit: about a minute
# shares of the budget
SCREEN = 0.1
MEAN = 0.03
STEPPED_MEAN = 0.01
CALIBRATE = 0.05
SPREADS = 2.0 ** np.arange(-7.0, 2.0)  # sizes of scores that gradient steps may lead to: they aim at targets up to 2
INSIDE = 0.98  # of all rows lie within the spread of scores
FARTHEST_MEAN = 0.96  # of a target, however rare a class is: a released mean may lie anywhere
MOST_PICKS = 10_000
FARTHEST_REACH = 2.0**30  # of a score over the noise: bounds of scores are good to 1e-8, and proposals go by them


class SparseBy(Choice):
    """How a sparse model is found."""

    AUTO = "auto"
    FRANK_WOLFE = "frank-wolfe"  # columns one by one
    GAUSSIAN = "gaussian"  # from noisy sums of rows


@dataclass(frozen=True)
class ClipMap:
    """From a raw row to the row a model of picks multiplies: entries clipped, and nothing else."""

    bound: float

    def __call__(self, X: Any) -> Any:
        return clipped(X, self.bound)


@dataclass(frozen=True)
class RowMap:
    """From a raw row to the row a model multiplies: clip, power, keep some columns, norm (a zero row stays zero)."""

    bound: float
    power: float
    kept: NDArray[np.int64] | None = None
    norm: float = 1.0

    def __call__(self, X: Any) -> Any:
        """The rows of X as CSR, each of norm `norm` or 0."""
        return self.unit(X) * self.norm

    def unit(self, X: Any) -> Any:
        """The rows of X as CSR, each of norm 1 or 0."""
        rows = unit_rows(clipped(X, self.bound), self.power)
        if self.kept is None:
            return rows
        outside = np.ones(rows.shape[1], dtype=bool)
        outside[self.kept] = False
        rows.data[outside[rows.indices]] = 0.0
        return unit_rows(rows, 1.0)


def as_doubles(X: Any) -> Any:
    """A frame of numbers and Booleans as one of doubles, with NaN for a missing cell; anything else as it is.

    Left to itself an array of a Boolean column with one missing cell would be of another type than one without: what is
    refused must follow from the types of the columns, never from a cell.
    """
    if hasattr(X, "dtypes") and hasattr(X, "astype"):  # pandas
        return X.astype(np.float64) if all(getattr(kind, "kind", "O") in "biuf" for kind in X.dtypes) else X
    if hasattr(X, "schema") and hasattr(X, "cast"):  # polars
        import polars as pl

        return X.cast(pl.Float64) if all(kind.is_numeric() or kind == pl.Boolean for kind in X.dtypes) else X
    return X


def clipped(X: Any, bound: float) -> Any:
    """X as CSR of doubles with every entry within ±bound, NaN as zero."""
    with np.errstate(over="ignore", invalid="ignore"):  # as in `clean_cells`
        rows = sparse.csr_array(X, dtype=np.float64, copy=True)
        rows.sum_duplicates()
    rows.data = clean_cells(rows.data, bound)
    return rows


def unit_rows(rows: Any, power: float) -> Any:
    """sign(x)·|x|^power, then every row that is not zero to norm 1; `rows` is CSR and is changed in place."""
    rows.eliminate_zeros()
    counts = np.diff(rows.indptr)
    # Dividing by the largest entry first keeps squares of huge and tiny rows from over- or underflowing.
    _divide(rows, np.maximum.reduceat(np.append(np.abs(rows.data), 0.0), rows.indptr[:-1]), counts)
    rows.data = np.sign(rows.data) * np.abs(rows.data) ** power
    _divide(rows, np.sqrt(np.add.reduceat(np.append(rows.data**2, 0.0), rows.indptr[:-1])), counts)
    return rows


def _divide(rows: Any, by: NDArray[np.float64], counts: NDArray[Any]) -> None:
    """Each row over its own number; `reduceat` gives nonsense for an empty row, which has nothing to divide."""
    rows.data /= np.repeat(by, counts)


def norm_slack(rows: int, columns: int) -> float:
    """By how much a sum over rows may move further in doubles than on paper, as a factor.

    A row's norm is 1 up to (columns + 8)·2^-51. The sums over rows add γ_n of the sum of sizes: in L2, by the triangle
    inequality, at most γ_n·n row norms on either side, so a factor 1 + n·γ_n beside the exact movement of two norms.
    """
    return (1.0 + (columns + 8) * 2.0**-51) * sum_slack(rows + 1)


# ------------------------------------------------------------------------------------------------ recipes


@dataclass(frozen=True)
class Linear:
    """A released model of one target, on the rows that the recipe's map makes."""

    w: Floats
    b: float


@dataclass(frozen=True)
class RowRecipe:
    """The row-norm geometry: everything is settled by public figures."""

    n: int
    d: int
    rho: float  # for all targets together
    bound: float
    targets: int
    classify: bool
    keep: int | None = None  # columns of a sparse answer
    rounds: int | None = None
    norm: float = 1.0  # of the rows that the model multiplies; a matter of units
    distance = 0.0  # between the sampler's law and the ideal one: Gaussian noise is drawn exactly

    @property
    def _screen(self) -> float:
        return SCREEN * self.rho if self.keep is not None else 0.0

    @property
    def _each(self) -> float:
        """rho for one target."""
        return (self.rho - self._screen) / self.targets

    @property
    def q(self) -> float:
        """n·√(2rho), for one target: the number of rows, in units of the noise on a sum of rows."""
        return self.n * math.sqrt(2.0 * self._each)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Where noise rules: it adds more to a full row's score than what rows have in common does."""
        if self.q >= FEWEST:
            return ()
        return (
            swamped(f"{self.n:,} rows are {self.q:.2g} times the noise on a sum of rows, where {FEWEST:g} are few"),
        )

    @property
    def steps(self) -> int:
        """Gradient steps; 0 for one weighted sum."""
        if self.rounds is not None:
            return self.rounds
        if self.q < FEWEST_FOR_STEPS:
            return 0
        affordable = max(MOST_DRAWS // (self.targets * min(self.d, self.keep or self.d)), 1)
        return min(math.ceil(TIME * self.q / LONGEST_STEP), MOST_STEPS, affordable)

    @property
    def power(self) -> float:
        """1 leaves values as they are. In wide data columns are rare: an entry's presence tells more than its size."""
        if self.d <= self.n:
            return 1.0
        return 0.5 if self.steps else 0.25

    @property
    def centred(self) -> bool:
        """In wide data rows hardly overlap: their mean does no harm, and being unlike most rows marks a rare class."""
        return self.d <= self.n

    @property
    def _shares(self) -> tuple[float, float, float]:
        """rho of a mean (and of a histogram), of the sum or of all steps, of the calibration: for one target."""
        mean = STEPPED_MEAN if self.steps else MEAN
        before = mean * (int(self.centred) + int(self.steps > 0))  # a mean, and for steps a histogram
        return mean * self._each, (1.0 - before - CALIBRATE) * self._each, CALIBRATE * self._each

    def plan(self) -> Plan:
        mean, main, calibrate = self._shares
        lines = [
            ("sizes of columns, to keep the largest", self._screen, 1),
            ("mean of a target", mean, self.targets if self.centred else 0),
            ("sizes of scores, a histogram", mean, self.targets if self.steps else 0),
            ("sum of rows, weighted by a target", main, 0 if self.steps else self.targets),
            ("gradient at the model so far", main / max(self.steps, 1), self.steps * self.targets),
            ("moments of scores, for slope and intercept", calibrate, self.targets),
        ]
        return tuple(
            Charge(Event(Mechanism.GAUSSIAN, rho, math.inf), count, what) for what, rho, count in lines if rho * count
        )

    def fit(self, gate: Gate, X: Any, targets: Sequence[Floats]) -> tuple[RowMap, list[Linear]]:
        """The map of rows and one model for each target, all of it released."""
        rows = RowMap(self.bound, self.power)
        Z = rows.unit(X)
        if self.keep is not None:
            # Sizes, not values: a row of sizes is non-negative with norm 1, so two of them are √2 apart at most.
            sizes = Private(np.asarray(abs(Z).sum(axis=0)).ravel(), math.sqrt(2.0) * self._slack**2)
            released = gate.gaussian(sizes, rho=self._screen).value
            largest = np.argsort(-released, kind="stable")[: self.keep]
            rows = replace(rows, kept=np.sort(largest))
            Z = rows.unit(X)
        columns = np.arange(self.d) if rows.kept is None else rows.kept
        Z = sparse.csr_array(Z[:, columns])
        models = []
        for t in targets:
            w, spread = self._release_step(gate, Z, t) if self.steps else self._release_sum(gate, Z, t)
            slope, b = self._calibrate(gate, Z @ w, t, spread)
            whole = np.zeros(self.d)
            whole[columns] = slope / self.norm * w
            models.append(Linear(whole, b))
        return replace(rows, norm=self.norm), models

    @property
    def _slack(self) -> float:
        return norm_slack(self.n, self.d)

    def _centre(self, gate: Gate, t: Floats) -> float:
        """The mean of a target, 2π − 1 for two classes, π the share of the second; 0 where nothing is centred."""
        if not self.centred:
            return 0.0
        total = gate.gaussian(Private(np.array([t.sum()]), 2.0 * self._slack), rho=self._shares[0]).value[0]
        return float(np.clip(total / self.n, -FARTHEST_MEAN, FARTHEST_MEAN))

    def _release_sum(self, gate: Gate, Z: Any, t: Floats) -> tuple[Floats, float]:
        """Σ (t_i − mean)·row_i: for two classes (1−π)S₊ − πS₋, up to a factor 2; and the spread of its scores."""
        centre = self._centre(gate, t)
        main = self._shares[1]
        # |t − centre| ≤ 1 + |centre|, rows of norm 1 and any sign.
        delta = 2.0 * (1.0 + abs(centre)) * self._slack
        w = gate.gaussian(Private(np.asarray(Z.T @ (t - centre)), delta), rho=main).value
        sd = delta / math.sqrt(2.0 * main)
        # Its noise taken off: Σ (t − mean)·score without noise.
        signal = max(float(w @ w) - w.size * sd**2, 0.0)
        return w, 3.0 * sd + 2.0 * signal / (self.n * (1.0 - centre**2))

    def _release_step(self, gate: Gate, Z: Any, t: Floats) -> tuple[Floats, float]:
        """Gradient steps on the squared loss with residuals cut at ±1, from the mean; the last one counts."""
        centre = self._centre(gate, t)
        main = self._shares[1]
        # Rare classes move scores less and noise moves them as before, so the flow stops earlier: by the labels'
        # variance.
        variance = 1.0 - centre**2 if self.classify else 1.0
        length = variance * min(TIME * self.q / self.steps, LONGEST_STEP) / self.n
        columns = sparse.csc_array(Z)
        w = np.zeros(Z.shape[1])
        for _ in range(self.steps):
            pull = np.asarray(columns.T @ np.clip(t - centre - Z @ w, -1.0, 1.0))
            w = w + length * gate.gaussian(Private(pull, 2.0 * self._slack), rho=main / self.steps).value
        return w, self._spread(gate, Z @ w)

    def _spread(self, gate: Gate, scores: Floats) -> float:
        """Where calibration cuts scores off: the least power of two that leaves few rows outside, from a histogram."""
        octave = np.searchsorted(SPREADS, np.abs(scores)).clip(max=SPREADS.size - 1)
        counts = np.bincount(octave, minlength=SPREADS.size).astype(np.float64)
        released = gate.gaussian(Private(counts, math.sqrt(2.0)), rho=self._shares[0]).value
        inside = np.cumsum(released) >= INSIDE * self.n
        return float(SPREADS[int(inside.argmax()) if inside.any() else -1])

    def _calibrate(self, gate: Gate, scores: Floats, t: Floats, spread: float) -> tuple[float, float]:
        """(slope, intercept) that turn scores into log-odds or into values of t."""
        z = np.clip(scores / spread, -1.0, 1.0)
        moments = np.array([z.sum(), (z * z).sum(), (z * t).sum(), t.sum()])
        delta = math.sqrt(8.0 if self.classify else 12.0) * self._slack**2  # four sums, so twice the rounding at most
        released = gate.gaussian(Private(moments, delta), rho=self._shares[2]).value
        z1, z2, zt, t1 = (float(moment) / self.n for moment in released)
        slope, b = _log_odds(z1, z2, zt, t1) if self.classify else _least_squares(z1, z2, zt, t1)
        return slope / spread, b


def _log_odds(z1: float, z2: float, zt: float, t1: float) -> tuple[float, float]:
    """Log-odds of two normal classes with one variance, from the means of z, z², z·t and t, t = ±1."""
    share = min(max((1.0 + t1) / 2.0, 0.01), 0.99)
    up = min(max((z1 + zt) / (2.0 * share), -1.0), 1.0)
    down = min(max((z1 - zt) / (2.0 * (1.0 - share)), -1.0), 1.0)
    within = max(z2 - share * up**2 - (1.0 - share) * down**2, 0.01)
    # Never 0 or less: noise may shrink the odds, not turn the order round.
    slope = max((up - down) / within, 1e-3)
    return slope, math.log(share / (1.0 - share)) - slope * (up + down) / 2.0


def _least_squares(z1: float, z2: float, zt: float, t1: float) -> tuple[float, float]:
    """The line t ≈ slope·z + b from the means of z, z², z·t and t."""
    t1 = min(max(t1, -1.0), 1.0)
    slope = min(max((zt - z1 * t1) / max(z2 - z1**2, 1e-3), 0.0), 100.0)
    return slope, t1 - slope * z1


@dataclass(frozen=True)
class PickRecipe:
    """Frank-Wolfe over the ball ‖w‖₁ ≤ radius: T picks are one release, and the model is its picks."""

    n: int
    d: int
    rho: float
    bound: float
    targets: int
    classify: bool
    radius: float
    keep: int | None = None
    rounds: int | None = None
    distance = 0.0  # picks are drawn exactly too

    @property
    def sensitivity(self) -> float:
        """Of one score, at any model: entries are within ±bound and slopes within ±1."""
        return 2.0 * self.bound

    @property
    def remarks(self) -> tuple[str, ...]:
        return chosen_by_noise(self.n, self.d, self.rho / self.targets / self.picks)

    @property
    def picks(self) -> int:
        """The T that balances the error of T exact steps with that of noise shared out over T picks."""
        if self.rounds is not None:
            return min(self.rounds, self.keep or self.rounds)
        curvature, noise = _frank_wolfe_errors(
            self.n, self.d, self.rho / self.targets, self.bound, self.radius, self.classify
        )
        best = balanced_rounds(curvature, noise, MOST_PICKS)
        return best if self.keep is None else min(best, self.keep)

    @property
    def reach(self) -> float:
        """The largest score that n rows can have, over the scale of the noise of one pick."""
        return self.n * self.bound * math.sqrt(2.0 * self.rho / self.targets / self.picks) / self.sensitivity

    def plan(self) -> Plan:
        event = Event(Mechanism.PICKS, self.rho / self.targets, math.inf)
        return (Charge(event, self.targets, f"{self.picks} signed columns, one after the other"),)

    def fit(self, gate: Gate, X: Any, targets: Sequence[Floats]) -> tuple[ClipMap, list[Linear]]:
        columns = sparse.csc_array(clipped(X, self.bound))
        models = []
        for t in targets:
            drawer = Private(self._drawer(columns, t), self.sensitivity)
            index, sign = gate.picks(drawer, self.picks, partial(_bytes, columns, t), rho=self.rho / self.targets)
            released = Picks(index.value, sign.value.astype(np.int8))
            models.append(Linear(model_of_picks(released, radius=self.radius, columns=self.d), 0.0))
        return ClipMap(self.bound), models

    def _drawer(self, columns: Any, t: Floats) -> Drawer:
        loss = LossCode.LOGISTIC if self.classify else LossCode.SQUARED

        def draw(scale: float, stream: Stream) -> Picks:
            settings: dict[str, Any] = {
                "loss": loss,
                "radius": self.radius,
                "rounds": self.picks,
                "feature_bound": self.bound,
            }
            parts = columns.data, columns.indices, columns.indptr
            picks, _ = exact_picks(*parts, t, scale=scale, stream=stream, **settings)
            return picks

        return draw


def _bytes(columns: Any, t: Floats) -> bytes:
    """What picks are drawn from."""
    return b"".join(part.tobytes() for part in (columns.data, columns.indices, columns.indptr, t))


def _frank_wolfe_errors(n: int, d: int, rho: float, bound: float, radius: float, classify: bool) -> tuple[float, float]:
    """(Γ, E): after T picks the excess of the mean loss is at most about 2Γ/T + E√T."""
    curvature = 4.0 * (0.25 if classify else 1.0) * (radius * bound) ** 2
    return curvature, 2.0 * radius * 2.0 * bound * math.log(2.0 * d) / (n * math.sqrt(2.0 * rho))


def cheaper(n: int, d: int, rho: float, *, bound: float, norm: float, radius: float, classify: bool) -> SparseBy:
    """The geometry with the smaller bound of the excess risk against the best model of the ball, by public figures.

    Frank-Wolfe: 2Γ/T + E√T at the best T, which is 3Γ^(1/3)·(E/2)^(2/3)·2^(1/3). Row norms: radius·norm·√d/(n√(2rho)),
    the product of the longest model of the ball and the noise on a mean of rows.
    """
    curvature, noise = _frank_wolfe_errors(n, d, rho, bound, radius, classify)
    picks = max(1.0, min((4.0 * curvature / noise) ** (2.0 / 3.0), MOST_PICKS))
    frank_wolfe = 2.0 * curvature / picks + noise * math.sqrt(picks)
    rows = radius * norm * math.sqrt(d) / (n * math.sqrt(2.0 * rho))
    return SparseBy.GAUSSIAN if rows <= frank_wolfe else SparseBy.FRANK_WOLFE


def check_rounds(rounds: int | None, keep: int | None) -> None:
    """Settings that no recipe can use."""
    if rounds is not None and not (isinstance(rounds, (int, np.integer)) and 1 <= rounds < 2**30):
        raise InvalidInput(f"rounds must be None or a positive integer, got {rounds!r}")
    if keep is not None and not (isinstance(keep, (int, np.integer)) and keep >= 1):
        raise InvalidInput(f"max_features must be None or a positive integer, got {keep!r}")
