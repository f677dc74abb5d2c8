"""What every value of this layer checks at its door: numbers, labels, shapes, groups of columns.

Messages carry counts and settings, never data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np

from colonnade.errors import InvalidInput, unquoted
from colonnade.kernels.arrays import Floats, Indices

Groups = tuple[tuple[int, ...], ...]

# Room at the edge of a conjugate's domain, relative to its size. A point that lies on the edge in exact
# arithmetic may be computed a few roundings outside; it is treated as lying on the edge.
EDGE = 1e-12


def positive(name: str, value: float, advice: str) -> float:
    """The value as a float, or InvalidInput when it is not a finite number above zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0.0):
        raise InvalidInput(f"{name} must be a finite number above 0, got {value!r}. {advice}", name)
    return number


def same_shape(scores: Floats, y: Floats) -> int:
    """The number of rows, once scores and labels agree on it."""
    # Without this, (n,) against (n, 1) would broadcast to n × n and return a plausible number.
    if scores.shape != y.shape or scores.ndim == 0 or len(scores) == 0:
        raise InvalidInput(f"scores have shape {scores.shape} and labels {y.shape}: make them equal, as with .ravel().")
    return len(scores)


@unquoted()
def real_labels(y: Any) -> Floats:
    """Labels of a regression as float64: finite, at least one row; a matrix holds several responses."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "biufO":
        raise InvalidInput(f"labels of type {labels.dtype} are not real numbers: convert them first.")
    try:
        labels = labels.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("some labels are no numbers: convert them, or drop those rows.") from None
    if labels.ndim not in (1, 2) or labels.size == 0:
        raise InvalidInput(f"labels have shape {labels.shape}: give one number for each row, and at least one row.")
    missing = int(np.count_nonzero(~np.isfinite(labels)))
    if missing:
        raise InvalidInput(f"{missing} of {labels.size} labels are NaN or infinite: drop those rows or fill them in.")
    return labels


def class_labels(y: Any, otherwise: str = ", or choose a regression loss") -> Floats:
    """Labels of a two-class problem as −1.0 and +1.0; 0/1 and booleans are mapped to them.

    Parameters
    ----------
    y
        One label a row.
    otherwise
        What else the caller may do, for the message that refuses them.
    """
    labels = real_labels(y)
    if labels.ndim != 1:
        raise InvalidInput(f"labels have shape {labels.shape}: a classifier takes one label for each row.")
    values = set(np.unique(labels).tolist())
    if not (values <= {-1.0, 1.0} or values <= {0.0, 1.0}):
        raise InvalidInput(
            f"found {len(values)} different labels that are not just -1 and +1 (or 0 and 1): "
            f"map the two classes to -1 and +1{otherwise}."
        )
    if len(values) == 1:
        raise InvalidInput(
            f"all {labels.size} labels are the same class, so there is nothing to learn: "
            f"check the label column, or add rows of the other class."
        )
    return np.where(labels > 0.0, 1.0, -1.0)


def two_classes(y: Any) -> Floats:
    """The same for a problem that has no other loss to choose: a kernel machine, or boosting."""
    labels = real_labels(y)
    count = np.unique(labels).size
    if labels.ndim == 1 and count > 2:
        raise InvalidInput(
            f"found {count} different labels, and KernelSVM and AdaBoost learn two classes. For more, fit each class "
            "against the rest, one fit each with labels +1 and -1, and take the largest score: "
            "docs/understand/methods/frank-wolfe.md."
        )
    return class_labels(labels, otherwise="")


def count_labels(y: Any) -> Floats:
    """Counts, or rates, as float64: none below 0, and not all of them 0."""
    labels = real_labels(y)
    if labels.ndim != 1:
        raise InvalidInput(f"labels have shape {labels.shape}: Poisson takes one count for each row.")
    below = int(np.count_nonzero(labels < 0.0))
    if below:
        raise InvalidInput(f"{below} of {labels.size} counts are below 0: give counts, or rates, from 0 on.")
    if not labels.any():
        raise InvalidInput(
            f"all {labels.size} counts are 0, so there is nothing to learn: the best rate is 0, and its logarithm has "
            "no end. Check the label column, or add rows with events."
        )
    return labels


def disjoint_groups(groups: Iterable[Iterable[int]]) -> Groups:
    """Groups as a tuple of tuples: none empty, no negative column, no column twice."""
    try:
        frozen = tuple(tuple(index(column) for column in group) for group in groups)
    except TypeError as cause:
        raise InvalidInput("groups must be sequences of column numbers, as in ((0, 1), (2,)).", "groups") from cause
    columns = [column for group in frozen for column in group]
    if not frozen or not all(frozen):
        raise InvalidInput(f"{len(frozen)} groups given, some or all empty: leave empty groups out.")
    if min(columns) < 0:
        raise InvalidInput(f"column {min(columns)} in a group is negative: columns count from 0.")
    if len(set(columns)) < len(columns):
        raise InvalidInput(f"{len(columns)} group entries name {len(set(columns))} columns: groups may not overlap.")
    return frozen


def group_of_column(groups: Groups) -> Indices:
    """For column j, the number of its group; −1 for a column that is in none."""
    owner = np.full(1 + max(max(group) for group in groups), -1, dtype=np.int64)
    for number, group in enumerate(groups):
        owner[list(group)] = number
    return owner


def covers(owner: Indices, x: Floats) -> Indices:
    """The owners, once they are known to name each column of x exactly once."""
    if x.shape != owner.shape or owner.min() < 0:
        raise InvalidInput(
            f"groups name {np.count_nonzero(owner >= 0)} columns up to number {owner.size - 1}, but the vector has "
            f"shape {x.shape}: every column needs one group; a column on its own is a group such as (7,)."
        )
    return owner
