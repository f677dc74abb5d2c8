"""A sparse linear regression on one machine, private or with a certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from colonnade.data.notices import about_range, count_labels
from colonnade.errors import InvalidInput
from colonnade.estimators.base import SparseLinear
from colonnade.kernels.arrays import Floats
from colonnade.kernels.sparse_fw import LossCode
from colonnade.privacy.block import SENSIBLE, clean_cells
from colonnade.privacy.statement import check_range


@dataclass(eq=False, repr=False)
class SparseRegressor(RegressorMixin, SparseLinear):  # type: ignore[misc]  # scikit-learn carries no types
    """Least squares over the ball ‖w‖₁ ≤ radius; private when `epsilon` is given.

    Without privacy it minimises 1/(2n) Σ (x·w + b − y)² with a free intercept, and `gap_` bounds its distance from the
    optimum. With `epsilon` it releases a model by docs/estimators.md, writes what it cost into a ledger, and says
    what holds in `privacy_`. Settings are those of SparseClassifier, and

    label_range    private labels are clipped to (low, high): public figures, required with epsilon
    label_bound    B instead of label_range=(−B, B)
    """

    radius: float = 1.0
    rounds: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    row_norm: float = 1.0
    feature_bound: float = 1.0
    label_bound: float | None = None
    method: str = "auto"
    ledger: str | PathLike[str] | None = None
    random_state: Any = None
    max_features: int | None = None
    label_range: tuple[float, float] | None = None
    allow_large_delta: bool = False

    def _fit(self, X: Any, y: Any, sample_weight: Any, start: Floats | None) -> SparseRegressor:
        self._check_settings()
        if self.epsilon is None:
            X, y = validate_data(
                self, X, y, accept_sparse="csc", dtype=[np.float64, np.float32], ensure_min_samples=2, y_numeric=True
            )
            y = np.asarray(y, dtype=np.float64)
            s = self._weights(X, sample_weight)
            found, self.history_ = self._solve(self._open_rows(X), y, s, LossCode.SQUARED, start)
            self.coef_, self.intercept_, self.gap_ = found.w, found.b, found.gap
            self.privacy_, self._rows = None, None
            return self
        if sample_weight is not None:
            raise InvalidInput("a private fit takes no sample_weight; leave it out.")
        if self.label_range is not None:
            low, high = check_range(self.label_range, self.label_bound)
        elif self.label_bound is not None and 1.0 / SENSIBLE <= self.label_bound <= SENSIBLE:
            low, high = -float(self.label_bound), float(self.label_bound)
        else:
            raise InvalidInput(
                "a private fit needs label_range=(low, high), or label_bound=, a finite public bound of |y| above 0, "
                f"got {self.label_bound}. Labels are clipped to it; a bound taken from the data would be a release."
            )
        X = self._private_rows(X)
        y = values_of(column_or_1d(y, warn=True))
        check_consistent_length(X, y)
        middle, bound = (low + high) / 2.0, (high - low) / 2.0
        t = clean_cells(np.clip(np.nan_to_num(y, nan=middle), low, high) - middle, bound) / bound
        labels = count_labels(y)
        notices = () if labels is None else about_range(labels, low, high)
        coef, b = self._private(X, [t], False, bound, notices)
        self.coef_, self.intercept_, self.gap_ = coef[0], middle + float(b[0]), None
        return self

    def predict(self, X: Any) -> Floats:
        """Values of new rows."""
        return self._scores(X)[:, 0]


def values_of(y: NDArray[Any]) -> Floats:
    """Each value as a double, NaN for what is no number: an error would quote the cell."""
    return y.astype(np.float64) if y.dtype.kind in "biuf" else np.array([_value_of(cell) for cell in y.tolist()])


def _value_of(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan
