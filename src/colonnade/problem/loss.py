"""What every loss can say of itself: its arithmetic, and all that methods, files and pages ask of it.

A loss is one frozen dataclass in one file of this room. It says its value, slope, prox and conjugate; whatever else is
asked has an answer here: that of a smooth loss whose labels are numbers, and that no method without privacy need know.
CONTRIBUTING.md, Add a loss.

A line search ends at the zero of a rising function of one variable: Newton inside a bracket, bisection when Newton
fails. It is deterministic, and stops at float resolution, or when the function is zero up to the rounding in its sum.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.notebook import explain_by_bases
from colonnade.problem.checks import EDGE, class_labels, positive, real_labels, same_shape
from colonnade.problem.link import Link


class Derivative(NamedTuple):
    """A derivative along a line, its own derivative, and the rounding error it may carry."""

    value: float
    curvature: float
    rounding: float


Along = Callable[[float], Derivative]


def rising_zero(along: Along, low: float, high: float) -> float:
    """The point of [low, high] where `along` changes sign; an end when it does not."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InvalidInput(f"cannot search from low={low} to high={high}: give finite low <= high.")
    start = along(low)
    end = along(high)
    at_low = start.value
    at_high = end.value
    if math.isnan(at_low) or math.isnan(at_high):
        raise InvalidInput("the slope along this line is NaN: check scores and direction for NaN or infinity.")
    if at_low >= 0.0:
        return float(low)
    if at_high <= 0.0:
        return float(high)
    # The first guess is Newton's from whichever end is nearer to zero: both are paid for already.
    near, guess = (low, start) if abs(at_low) <= abs(at_high) else (high, end)
    point = near - guess.value / guess.curvature if guess.curvature > 0.0 else near
    if not low < point < high:
        point = 0.5 * (low + high)
    before = high - low
    # Halving from the largest to the smallest float takes fewer.
    for _ in range(2200):
        value, curvature, rounding = along(point)
        if abs(value) <= rounding:
            return point
        if value < 0.0:
            low = point
        else:
            high = point
        step = value / curvature if curvature > 0.0 else float("inf")
        # A Newton step must stay inside and be half the step before; else the bracket is halved. Either
        # way the step shrinks by two each time, so the loop ends whatever the function looks like.
        if not low < point - step < high or abs(step) > 0.5 * before:
            step = point - 0.5 * (low + high)
        before = abs(step)
        following = point - step
        if following in (point, low, high):
            return following
        point = following
    return point


def unbounded_zero(along: Along) -> float:
    """The zero of `along` anywhere on the line: a bracket grows from 0, twice Newton's step first, at most 1."""
    # The ends of the bracket are looked at again.
    along = cache(along)
    value, curvature, rounding = along(0.0)
    # Also what is no number, which is refused there.
    if not abs(value) > rounding:
        return rising_zero(along, 0.0, 0.0)
    newton = 2.0 * abs(value) / curvature if curvature > 0.0 else 1.0
    sign = math.copysign(1.0, value)
    far = newton if 0.0 < newton < 1.0 else 1.0
    while sign * along(-sign * far).value > 0.0:
        far *= 2.0
        if far > 0.25 * sys.float_info.max:
            raise InvalidInput("the objective falls without end along this line: it has no minimum.")
    return rising_zero(along, min(0.0, -sign * far), max(0.0, -sign * far))


class LossFacts:
    """What is asked of a loss beside its arithmetic."""

    words: ClassVar[str] = ""  # what it means for the model, for a reader who knows no name
    asks: ClassVar[str] = "Which number {label} is"  # what a model answers; of classes a page says which
    odds: ClassVar[Link | None] = None  # from scores to probabilities, where scores are log-odds
    counts: ClassVar[bool] = False  # whether labels are counts, which have no bound
    quadratic: ClassVar[bool] = False  # whether its curvature is the same everywhere
    two_labels: ClassVar[tuple[float, float]] = (-1.0, 1.0)  # that it takes, for rows that are made up
    sklearn: ClassVar[str] = "LinearRegression"  # of its linear models, the one that predicts the same from scores

    def as_square(self, share: float) -> tuple[float, float] | None:  # noqa: ARG002
        """Curvature and pull of the least squares that stands for it; None: none does.

        Parameters
        ----------
        share
            Of class +1 among the rows.
        """
        return None

    def steepest(self, score: float, residual: float) -> float:  # noqa: ARG002
        """The largest slope of a row.

        Parameters
        ----------
        score
            Scores lie within ± this.
        residual
            Residuals are clipped to ± this.
        """
        return math.inf


class Loss(LossFacts, ABC):
    """What every loss can say about itself."""

    def __init_subclass__(cls, **further: Any) -> None:
        super().__init_subclass__(**further)
        explain_by_bases(cls, __name__)

    @property
    @abstractmethod
    def smooth(self) -> bool:
        """Whether the slope is continuous."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """Lipschitz constant of one row's derivative, before the 1/n; inf when not smooth."""

    @property
    def classifies(self) -> bool:
        """Whether labels are −1 and +1."""
        return False

    def check(self, y: Any) -> Floats:
        """Labels as float64, or InvalidInput that says what is wrong with them.

        Parameters
        ----------
        y
            One label a row.
        """
        return class_labels(y) if self.classifies else real_labels(y)

    @abstractmethod
    def value(self, scores: Floats, y: Floats) -> float:
        """The mean loss of a row.

        Parameters
        ----------
        scores
            One score a row.
        y
            One label a row, as `check` gives them.
        """
        ...

    @abstractmethod
    def slope(self, scores: Floats, y: Floats) -> Floats:
        """Gradient in the scores; a subgradient where the loss has a kink.

        Parameters
        ----------
        scores
            One score a row.
        y
            One label a row.
        """

    @abstractmethod
    def curvature(self, scores: Floats, y: Floats) -> Floats:
        """Second derivative in each score; one of its limits where it jumps.

        Parameters
        ----------
        scores
            One score a row.
        y
            One label a row.
        """

    @abstractmethod
    def prox(self, v: Floats, y: Floats, step: float) -> Floats:
        """The s that minimises value(s, y) + ‖s − v‖²/(2·step).

        Parameters
        ----------
        v
            The point to stay near: one number a row.
        y
            One label a row.
        step
            How much the loss weighs against staying near, above 0.
        """

    @abstractmethod
    def conjugate(self, u: Floats, y: Floats) -> float:
        """The largest <u, s> − value(s, y) over all s; infinite outside its domain.

        Parameters
        ----------
        u
            A dual point: one number a row.
        y
            One label a row.
        """

    def link(self, scores: Floats) -> Floats:
        """What the model predicts at these scores.

        Parameters
        ----------
        scores
            One score a row.
        """
        return np.where(scores >= 0.0, 1.0, -1.0) if self.classifies else scores

    def along(self, scores: Floats, direction: Floats, y: Floats) -> Along:
        """The derivative of t → value(scores + t·direction, y), of a loss with slope and curvature.

        Parameters
        ----------
        scores
            One score a row.
        direction
            Where to go: one number a row.
        y
            One label a row.
        """
        same_shape(direction, y)

        def along(t: float) -> Derivative:
            moved = scores + t * direction
            terms = direction * self.slope(moved, y)
            curvature = float(np.sum(np.square(direction) * self.curvature(moved, y)))
            rounding = 2.0 * np.finfo(np.float64).eps * float(np.sum(np.abs(terms)))
            return Derivative(float(np.sum(terms)), curvature, rounding)

        return along

    def minimise_along(
        self, scores: Floats, direction: Floats, y: Floats, low: float = 0.0, high: float = 1.0
    ) -> float:
        """The t in [low, high] that minimises value(scores + t·direction, y).

        Parameters
        ----------
        scores
            One score a row.
        direction
            Where to go: one number a row.
        y
            One label a row.
        low
            The least t.
        high
            The largest t.
        """
        return rising_zero(self.along(scores, direction, y), low, high)

    def best_intercept(self, scores: Floats, y: Floats) -> float:
        """The b that minimises value(scores + b, y).

        Parameters
        ----------
        scores
            One score a row.
        y
            One label a row.
        """
        same_shape(scores, y)
        if self.classifies:
            check_both_classes(y)
        return unbounded_zero(self.along(scores, np.ones_like(scores), y))


class RowLoss(Loss):
    """A loss that is a sum over rows, each of which may count more or less than the others."""

    @abstractmethod
    def value(self, scores: Floats, y: Floats, weight: Floats | None = None) -> float:
        """The mean loss of a row.

        Parameters
        ----------
        scores
            One score a row.
        y
            One label a row, as `check` gives them.
        weight
            How much each row counts; None: all alike.
        """
        ...

    @abstractmethod
    def prox(self, v: Floats, y: Floats, step: float | Floats) -> Floats:
        """The s that minimises value(s, y) + ‖s − v‖²/(2·step).

        Parameters
        ----------
        v
            The point to stay near: one number a row.
        y
            One label a row.
        step
            How much the loss weighs against staying near, above 0: one for all, or one a row.
        """

    @abstractmethod
    def conjugate(self, u: Floats, y: Floats, weight: Floats | None = None) -> float:
        """The largest <u, s> − value(s, y) over all s; infinite outside its domain.

        Parameters
        ----------
        u
            A dual point: one number a row.
        y
            One label a row.
        weight
            How much each row counts; None: all alike.
        """
        ...


def check_both_classes(y: Floats) -> None:
    if np.all(y == y.flat[0]):
        raise InvalidInput(f"all {y.size} labels are the same class: add rows of the other class for an intercept.")


# ------------------------------------------------------------------------------------------------ from rows to the mean

Rows = Callable[[Any, Floats, Floats], Floats]  # (loss, scores, y) → one number a row
DualRows = Callable[[Any, Floats, Floats], Floats | None]  # (loss, w, y) → φ* of every row; None outside its domain


def mean_of(rows: Rows) -> Callable[..., float]:
    """(1/n) Σ over rows, each as often as its weight says."""

    def mean(self: Any, scores: Floats, y: Floats, weight: Floats | None = None) -> float:
        n = same_shape(scores, y)
        each = rows(self, scores, y)
        return float(np.sum(each if weight is None else weight * each)) / n

    return mean


def each_of(rows: Rows) -> Rows:
    """(1/n) times each row: a derivative of the mean."""

    def each(self: Any, scores: Floats, y: Floats) -> Floats:
        n = same_shape(scores, y)
        return rows(self, scores, y) / n

    return each


def conjugate_of(rows: DualRows) -> Callable[..., float]:
    """The conjugate of the mean, from that of a row: (1/n) Σ c·φ*(n·u/c)."""

    def conjugate(self: Any, u: Floats, y: Floats, weight: Floats | None = None) -> float:
        n = same_shape(u, y)
        each = rows(self, n * u if weight is None else n * u / weight, y)
        if each is None:
            return math.inf
        return float(np.sum(each if weight is None else weight * each)) / n

    return conjugate


def row_step(v: Floats, y: Floats, step: float | Floats) -> float | Floats:
    """h: the step of one row, or of each, whose loss enters the sum with weight 1/n."""
    advice = "It weighs staying near v against lowering the loss."
    n = same_shape(v, y)
    if not isinstance(step, np.ndarray):
        return positive("step", step, advice) / n
    if step.shape != y.shape or not (np.isfinite(step).all() and step.min() > 0.0):
        raise InvalidInput(
            f"steps of {step.size} rows were given for {n}, or one is no finite number above 0. {advice}"
        )
    return step / n


def within(w: Floats, low: float | Floats, high: float | Floats) -> Floats | None:
    """w on [low, high] when it lies there up to rounding, else None."""
    room = EDGE * (high - low) if np.all(np.isfinite(high)) else 0.0
    if np.any(w < low - room) or np.any(w > high + room) or np.any(np.isnan(w)):
        return None
    return np.clip(w, low, high)
