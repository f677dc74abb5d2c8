"""A linear regression over columns of several parties, with the interface of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from colonnade.data.federation import Federation
from colonnade.errors import InvalidInput, unquoted
from colonnade.estimators.federated import FederatedLinear
from colonnade.kernels.arrays import Floats
from colonnade.problem import LeastSquares


@dataclass(eq=False, repr=False, kw_only=True)
class FederatedRegressor(RegressorMixin, FederatedLinear):  # type: ignore[misc]  # scikit-learn carries no types
    """A linear regression over columns of several parties; private when `epsilon` is given.

    Settings as in co.FederatedClassifier; loss is co.LeastSquares() (None), co.Huber(...), co.Absolute() or
    co.Quantile(...), and

    label_range    public lowest and highest value of y; what lies outside is clipped. Needed with epsilon
    label_bound    B instead of label_range=(−B, B)

    After fit: fit_ (the co.Fit), privacy_, coef_, intercept_.
    """

    label_bound: float | None = None  # type: ignore[misc]  # a setting here, and none of a classifier
    label_range: tuple[float, float] | None = None  # type: ignore[misc]

    @unquoted("could not convert")
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a table X and its values y, or to a co.Federation that holds its own labels."""
        loss = LeastSquares() if self.loss is None else self.loss
        if getattr(loss, "classifies", True):
            raise InvalidInput(
                f"loss={self.loss!r} is for classes; give co.LeastSquares(), or use co.FederatedClassifier."
            )
        told = self.label_bound is not None or self.label_range is not None or self._declared(X)
        if self.epsilon is not None and not told:
            raise InvalidInput(
                "a private fit needs label_range=(low, high), the public range of y; what lies outside is clipped."
            )
        if isinstance(X, Federation):
            if y is not None:
                raise InvalidInput("the federation holds its labels: leave y out, or give a table as X.")
            self._run([X], [loss])
            return self
        X = self._table(X, reset=True)
        if y is None:
            raise InvalidInput("y is missing: the fit requires y to be passed, but the target y is None.")
        self._run(self._federations(X, [self._values(X, y)]), [loss])
        return self

    def _declared(self, X: Any) -> bool:
        """Whether a schema declares the range of the labels."""
        schema = X.parties[X.label].schema if isinstance(X, Federation) else (self.schemas or {}).get(self.label or "")
        return schema is not None and schema.label is not None

    def _values(self, X: Any, y: Any) -> Floats:
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        if y.dtype.kind not in "biuf":
            try:
                y = y.astype(np.float64)
            except (TypeError, ValueError):
                raise InvalidInput("y holds values that are no numbers. Unknown label type: give numbers.") from None
        y = y.astype(np.float64)
        finite = np.isfinite(y)
        if self.epsilon is not None:
            middle = 0.0 if self.label_range is None else sum(self.label_range) / 2.0
            return np.where(finite, y, middle)
        if not finite.all():
            raise InvalidInput(
                f"y holds {int((~finite).sum()):,} values that are NaN or infinity. Leave those rows out."
            )
        return np.asarray(y)

    @property
    def coef_(self) -> Floats:
        """Coefficients in the order of the encoded columns."""
        check_is_fitted(self, "fit_")
        return self._weights(self._fits[0])

    @property
    def intercept_(self) -> float:
        check_is_fitted(self, "fit_")
        return self._fits[0].intercept

    def predict(self, X: Any) -> Floats:
        """The values that the model expects."""
        scores = self._raw(X)[:, 0]
        return np.asarray(self._fits[0].problem.loss.link(scores))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of variance explained; a federation of new rows may bring its own labels."""
        y = X.labels if y is None and isinstance(X, Federation) else y
        return float(super().score(X, y, sample_weight))
