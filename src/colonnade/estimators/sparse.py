"""Sparse linear models on one machine, a classifier and a regression, private or with a certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from colonnade.data.notices import about_classes, about_range, count_labels
from colonnade.errors import InvalidInput
from colonnade.estimators.base import SparseLinear
from colonnade.kernels.arrays import Floats
from colonnade.kernels.sparse_fw import LossCode
from colonnade.privacy.block import SENSIBLE, clean_cells
from colonnade.privacy.statement import check_range

LOSSES = {"logistic": LossCode.LOGISTIC, "squared_hinge": LossCode.SQUARED_HINGE}


def _has_probabilities(model: SparseClassifier) -> bool:
    if model.loss != "logistic":
        raise AttributeError("predict_proba needs loss='logistic'; other losses give scores, not odds")
    return True


@dataclass(eq=False, repr=False)
class SparseClassifier(ClassifierMixin, SparseLinear):  # type: ignore[misc]  # scikit-learn carries no types
    """A linear classifier over the ball ‖w‖₁ ≤ radius; private when `epsilon` is given.

    Without privacy it minimises the mean loss over the ball, with a free intercept, and `gap_` bounds its distance from
    the optimum. With `epsilon` it releases a model by docs/use/estimators.md, writes what it cost into a ledger, and
    says what holds in `privacy_`. Several classes are fitted one against the rest.

    Parameters
    ----------
    radius
        Of the ball (without privacy, and for method="frank-wolfe"): a larger one allows more columns and larger
        weights.
    rounds
        Passes, picks or gradient steps at most; None: until the gap is 1e-6 of the objective, or by the budget.
    loss
        "logistic" or "squared_hinge" (only without privacy).
    epsilon
        The budget of one fit; None: not private.
    delta
        As in `co.Privacy`; None is 1e-6, and one of 1/rows or more is refused.
    row_norm
        Private rows are brought to this norm (method="gaussian"): a public figure.
    feature_bound
        Private entries are clipped to ± this: a public figure.
    method
        "frank-wolfe" picks columns one by one, "gaussian" adds noise to sums of rows (only private). "auto": under
        privacy the better one by the public figures, else a solver that corrects all weights at every step.
    classes
        The labels there are; required with epsilon, because a list of labels is a release.
    ledger
        The file where private fits are counted; None: in memory, with this estimator.
    random_state
        Has no effect: fits without privacy are deterministic, and noise cannot be seeded.
    max_features
        At most so many columns in a private model.
    allow_large_delta
        True: fit though delta is not below 1/rows; `privacy_` then says so.

    Examples
    --------
    >>> import colonnade as co
    >>> X = [[0.0, 1.0], [0.2, 0.0], [1.0, 0.0], [0.9, 1.0]]
    >>> model = co.SparseClassifier(radius=10.0).fit(X, [0, 0, 1, 1])
    >>> model.predict([[0.1, 0.5], [1.1, 0.5]])
    array([0, 1])
    """

    radius: float = 50.0
    rounds: int | None = None
    loss: str = "logistic"
    epsilon: float | None = None
    delta: float | None = None
    row_norm: float = 1.0
    feature_bound: float = 1.0
    method: str = "auto"
    classes: Any = None
    ledger: str | PathLike[str] | None = None
    random_state: Any = None
    max_features: int | None = None
    allow_large_delta: bool = False

    def _fit(self, X: Any, y: Any, sample_weight: Any, start: Floats | None) -> SparseClassifier:
        self._check_settings()
        if self.loss not in LOSSES:
            raise InvalidInput(f"loss={self.loss!r} is not known; choose one of {', '.join(LOSSES)}")
        if self.epsilon is None:
            return self._fit_open(X, y, sample_weight, start)
        if self.loss != "logistic" or sample_weight is not None:
            raise InvalidInput("a private fit has loss='logistic' and no sample_weight; leave them out.")
        X = self._private_rows(X)
        classes, targets, labels = declared_targets(self.classes, X, y)
        notices = about_classes(label_keys(labels), label_keys(classes))
        self.coef_, self.intercept_ = self._private(X, targets, True, 1.0, notices)
        self.classes_ = classes
        self.gap_ = None
        return self

    def _fit_open(self, X: Any, y: Any, sample_weight: Any, start: Floats | None) -> SparseClassifier:
        X, y = validate_data(self, X, y, accept_sparse="csc", dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(y)
        s = self._weights(X, sample_weight)
        classes = np.unique(y) if self.classes is None else np.unique(np.asarray(self.classes))
        if not np.isin(y, classes).all():
            raise InvalidInput("y holds a label that classes= does not list; add it, or leave classes= out.")
        present = np.unique(y[s > 0])
        if present.size < 2:
            raise InvalidInput("y has one class among the rows with weight; a classifier needs two classes or more.")
        X = self._open_rows(X)
        found = []
        for k, label in enumerate(classes[1:] if classes.size == 2 else classes):
            t = np.where(y == label, 1.0, -1.0)
            if not 0.0 < float(s[t > 0].sum()) < 1.0 and not np.isin(label, present):
                raise InvalidInput(f"no row with weight has class {label!r}; leave it out of classes=.")
            found.append(self._solve(X, t, s, LOSSES[self.loss], None if start is None else start[k]))
        self.classes_ = classes
        self.coef_ = np.array([model.w for model, _ in found])
        self.intercept_ = np.array([model.b for model, _ in found])
        self.gap_ = max(model.gap for model, _ in found)
        self.history_ = [{"model": k, **row} for k, (_, history) in enumerate(found) for row in history]
        self.privacy_ = None
        self._rows = None
        return self

    def decision_function(self, X: Any) -> Floats:
        """Scores: one a row for two classes (positive: the second), else one column a class.

        Parameters
        ----------
        X
            The rows.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest score.

        Parameters
        ----------
        X
            The rows.
        """
        index = likeliest(self.decision_function(X))
        return np.asarray(self.classes_[index])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities by class: the logistic of the scores, scaled to sum to 1 where there are several models.

        Parameters
        ----------
        X
            The rows.
        """
        return probabilities(self.decision_function(X))


def likeliest(scores: Floats) -> NDArray[np.intp]:
    """Which class each row has: by the sign of one score, or by the largest of several."""
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)


def probabilities(scores: Floats) -> Floats:
    """The logistic of the scores, one column a class, scaled to sum to 1 where there are several models."""
    likely = np.asarray(expit(scores))
    if likely.ndim == 1:
        return np.column_stack([1.0 - likely, likely])
    total = likely.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, likely / np.where(total > 0, total, 1.0), 1.0 / likely.shape[1]))


def declared_targets(classes: Any, X: Any, y: Any) -> tuple[NDArray[Any], list[Floats], NDArray[Any]]:
    """The classes, one vector of ±1 for each model, and the labels of a private fit.

    Nothing is read off the labels: classes are given; any other label is nobody's.
    """
    if classes is None:
        raise InvalidInput(
            "a private fit needs classes=, the labels there may be, from public knowledge: a list taken from the data "
            "would show a class that only one row has."
        )
    listed = np.unique(np.asarray(classes))
    keys = label_keys(listed)
    if listed.size < 2 or len(set(keys)) < listed.size or None in keys:
        raise InvalidInput(f"classes={classes!r}: list two or more different texts or numbers below 2^53.")
    # An array made of all labels together would let one odd label change the type, and so the meaning, of the others.
    labels = column_or_1d(as_objects(y) if isinstance(y, list | tuple) else y, warn=True)
    if X is not None:
        check_consistent_length(X, labels)
    found = label_keys(labels)
    positive = keys[1:] if listed.size == 2 else keys
    return listed, [np.array([1.0 if key == label else -1.0 for key in found]) for label in positive], labels


def as_objects(y: Any) -> NDArray[np.object_]:
    """A sequence of labels as an array that leaves each label what it is."""
    labels = list(y)
    out = np.empty(len(labels), dtype=object)
    out[:] = labels
    return out


def label_keys(labels: NDArray[Any]) -> list[float | str | None]:
    """What each label stands for, whatever its array's type: 1, 1.0, True, "1" and "1.0" are one class."""
    return [_label_key(label) for label in labels.tolist()]


def _label_key(label: object) -> float | str | None:
    text = str(label) if isinstance(label, str | bool | int | float) else None  # None: nothing that can be listed
    if text is None:
        return None
    text = {"True": "1", "False": "0"}.get(text, text)
    try:
        value = float(text)
    except (ValueError, OverflowError):
        return text
    return value if abs(value) < 2.0**53 else None


@dataclass(eq=False, repr=False)
class SparseRegressor(RegressorMixin, SparseLinear):  # type: ignore[misc]  # scikit-learn carries no types
    """Least squares over the ball ‖w‖₁ ≤ radius; private when `epsilon` is given.

    Without privacy it minimises 1/(2n) Σ (x·w + b − y)² with a free intercept, and `gap_` bounds its distance from the
    optimum. With `epsilon` it releases a model by docs/use/estimators.md, writes what it cost into a ledger, and says
    what holds in `privacy_`.

    Parameters
    ----------
    radius
        Of the ball (without privacy, and for method="frank-wolfe"): a larger one allows more columns and larger
        weights.
    rounds
        Passes, picks or gradient steps at most; None: until the gap is 1e-6 of the objective, or by the budget.
    epsilon
        The budget of one fit; None: not private.
    delta
        As in `co.Privacy`; None is 1e-6, and one of 1/rows or more is refused.
    row_norm
        Private rows are brought to this norm (method="gaussian"): a public figure.
    feature_bound
        Private entries are clipped to ± this: a public figure.
    label_bound
        B instead of label_range=(−B, B).
    method
        "frank-wolfe" picks columns one by one, "gaussian" adds noise to sums of rows (only private). "auto": under
        privacy the better one by the public figures, else a solver that corrects all weights at every step.
    ledger
        The file where private fits are counted; None: in memory, with this estimator.
    random_state
        Has no effect: fits without privacy are deterministic, and noise cannot be seeded.
    max_features
        At most so many columns in a private model.
    label_range
        Private labels are clipped to (low, high): public figures, required with epsilon. The nearer the better.
    allow_large_delta
        True: fit though delta is not below 1/rows; `privacy_` then says so.

    Examples
    --------
    >>> import colonnade as co
    >>> model = co.SparseRegressor(radius=5.0).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [1.0, 3.0, 5.0])
    >>> [round(float(w), 2) for w in model.coef_]
    [2.0, 0.0]
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
            self.coef_ = found.w
            self.intercept_ = found.b
            self.gap_ = found.gap
            self.privacy_ = None
            self._rows = None
            return self
        if sample_weight is not None:
            raise InvalidInput("a private fit takes no sample_weight; leave it out.")
        if self.label_range is not None:
            low, high = check_range(self.label_range, self.label_bound)
        elif self.label_bound is not None and 1.0 / SENSIBLE <= self.label_bound <= SENSIBLE:
            low = -float(self.label_bound)
            high = float(self.label_bound)
        else:
            raise InvalidInput(
                "a private fit needs label_range=(low, high), or label_bound=, a finite public bound of |y| above 0, "
                f"got {self.label_bound}. Labels are clipped to it; a bound taken from the data would be a release."
            )
        X = self._private_rows(X)
        y = values_of(column_or_1d(y, warn=True))
        check_consistent_length(X, y)
        middle = (low + high) / 2.0
        bound = (high - low) / 2.0
        t = clean_cells(np.clip(np.nan_to_num(y, nan=middle), low, high) - middle, bound) / bound
        labels = count_labels(y)
        notices = () if labels is None else about_range(labels, low, high)
        coef, b = self._private(X, [t], False, bound, notices)
        self.coef_ = coef[0]
        self.intercept_ = middle + float(b[0])
        self.gap_ = None
        return self

    def predict(self, X: Any) -> Floats:
        """Values of new rows.

        Parameters
        ----------
        X
            The rows.
        """
        return self._scores(X)[:, 0]


def values_of(y: NDArray[Any]) -> Floats:
    """Each value as a double, NaN for what is no number: an error would quote the cell."""
    return y.astype(np.float64) if y.dtype.kind in "biuf" else np.array([_value_of(cell) for cell in y.tolist()])


def _value_of(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan
