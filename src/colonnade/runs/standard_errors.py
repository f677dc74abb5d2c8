"""Standard errors of figures of quality: how far a figure on these rows may lie from that on all rows like them.

Source   means by their own spread; the area under the ROC by the placements of DeLong, DeLong and Clarke-Pearson
         (1988); the root of a mean by its slope.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.kernels.arrays import Floats


def area_error(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """The standard error of the area under the ROC, from how each row is placed among those of the other class."""
    found = np.sort(scores[positive])
    others = np.sort(scores[~positive])
    if min(found.size, others.size) < 2:
        return None

    def placed(rows: Floats, among: Floats) -> Floats:  # the share of `among` below a row, of equal ones half
        below = np.searchsorted(among, rows, "left")
        upto = np.searchsorted(among, rows, "right")
        return np.asarray((below + upto) / (2.0 * among.size))

    of_found, of_others = placed(found, others), placed(others, found)
    return float(np.sqrt(of_found.var(ddof=1) / found.size + of_others.var(ddof=1) / others.size))


def mean_and_error(values: NDArray[Any]) -> tuple[float, float | None]:
    """The mean over rows, and its standard error where there are two rows or more."""
    rows = np.asarray(values, np.float64)
    return float(rows.mean()), float(rows.std(ddof=1) / math.sqrt(rows.size)) if rows.size > 1 else None


def root_error(squares: Floats) -> float | None:
    """Of the root of the mean."""
    mean, error = mean_and_error(squares)
    return None if error is None or mean == 0.0 else error / (2.0 * math.sqrt(mean))
