"""A linear classifier and a regression over columns of several parties, with the interface of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_consistent_length, check_is_fitted, column_or_1d

from colonnade.data.federation import Federation
from colonnade.data.notices import about_classes
from colonnade.errors import InvalidInput, unquoted
from colonnade.estimators.federated import FederatedLinear
from colonnade.estimators.sparse import declared_targets, label_keys, likeliest, probabilities
from colonnade.kernels.arrays import Floats
from colonnade.problem import LeastSquares, Logistic
from colonnade.problem.adjusted import ClassWeighted
from colonnade.problem.link import PLAIN, Link


def _gives_odds(model: FederatedClassifier) -> bool:
    if model.loss is not None and getattr(model.loss, "odds", None) is None:
        raise AttributeError("predict_proba needs loss=co.Logistic(); other losses give scores, not odds")
    return True


@dataclass(eq=False, repr=False, kw_only=True)
class FederatedClassifier(ClassifierMixin, FederatedLinear):  # type: ignore[misc]  # scikit-learn carries no types
    """A linear classifier over columns of several parties; private when `epsilon` is given.

    X is a table (with y), or a co.Federation that holds its labels (without y), also one whose parties run elsewhere
    (engine=). With epsilon it is private by docs/understand/privacy.md and says so in `privacy_`. Several classes are
    fitted one against the rest.

    After fit: classes_, fit_ (a co.Fit, or a list with one for each class), privacy_, coef_, intercept_.

    Parameters
    ----------
    parties
        {"hospital": columns, ...} by name or place, or how many parts of equal size; None: two.
    schemas
        {"hospital": co.Schema(...), ...}: what is public about a frame's columns; it also says who holds which.
    label
        Which party holds the labels; None: one that holds nothing else.
    loss
        `co.Logistic()` (None), `co.SquaredHinge()`.
    penalty
        What large coefficients cost. Neither penalty nor constraint: a small ridge, or what the noise asks for.
    constraint
        The set that coefficients lie in; not beside a penalty, unless `method` takes both.
    intercept
        Whether the model has one.
    method
        None: `co.PrivateGram` with epsilon; without, `co.SharingADMM` (penalty) or `co.DistributedFrankWolfe`
        (constraint).
    epsilon
        The budget of one fit, for all classes together; None: not private.
    delta
        As in `co.Privacy`; None is 1e-6.
    trust
        Who is the adversary, as in `co.Privacy`.
    row_norm
        Public bound of a row's length, as in `co.Privacy`.
    feature_bound
        Public bound of an entry, as in `co.Privacy`.
    allow_large_delta
        True: fit though delta is not below 1/rows, as in `co.Privacy`.
    store
        The folder of ledgers; required with epsilon.
    engine
        Where the parties' programs run; None: in this process.
    classes
        The labels there are; required with epsilon, because a list of labels is a release.
    class_weight
        {label: weight}: a row counts so many times as one of a label that is not listed. Without epsilon it does so in
        the loss, as in scikit-learn; with epsilon the released odds are multiplied instead, which costs nothing.
        "balanced": so that all labels count alike.
    class_counts
        {label: rows}, public: what "balanced" goes by under privacy, where it may not look at the labels.

    Examples
    --------
    >>> import colonnade as co
    >>> X = [[0.0, 1.0], [0.2, 0.0], [1.0, 0.0], [0.9, 1.0]]
    >>> model = co.FederatedClassifier({"bank": [0], "shop": [1]}).fit(X, ["no", "no", "yes", "yes"])
    >>> model.predict(X).tolist()
    ['no', 'no', 'yes', 'yes']
    """

    classes: Any = None
    class_weight: Any = None
    class_counts: Any = None

    @unquoted("could not convert")
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a table X and its labels y, or to a co.Federation that holds its own labels.

        Parameters
        ----------
        X
            An array, a sparse matrix, a data frame, or a `co.Federation`.
        y
            One label a row; None: the federation holds them.
        """
        loss = Logistic() if self.loss is None else self.loss
        if not getattr(loss, "classifies", False):
            raise InvalidInput(f"loss={self.loss!r} does not classify; give co.Logistic(), or co.FederatedRegressor.")
        if self.class_weight is not None and self.epsilon is not None and loss.odds is None:
            raise InvalidInput("class_weight multiplies odds in a private fit, and co.Logistic() alone gives odds.")
        if isinstance(X, Federation):
            classes, federations, labels = self._of_federation(X, y)
        else:
            X = self._table(X, reset=True)
            classes, targets, labels = self._targets(X, y)
            federations = self._federations(X, targets)
        weights = _against_rest(classes, self._class_weights(classes, labels))
        # Under privacy a weight may not touch a row: it would change what one row can do. It changes the odds instead.
        inside = self.class_weight is not None and self.epsilon is None
        private = self.epsilon is not None and labels is not None
        notices = about_classes(label_keys(labels), label_keys(classes)) if private else ()
        self._run(federations, [ClassWeighted(loss, *pair) if inside else loss for pair in weights], notices)
        self.classes_ = classes
        self._shifts = np.array([0.0 if inside else math.log(own / rest) for rest, own in weights])
        return self

    def _of_federation(self, federation: Federation, y: Any) -> tuple[NDArray[Any], list[Federation], Any]:
        if y is not None:
            raise InvalidInput("the federation holds its labels: leave y out, or give a table as X.")
        if federation.away is None:
            classes, targets, labels = self._targets(None, federation.labels)
            if self.epsilon is None or federation.surplus_labels is None:
                return classes, [federation.relabelled(target) for target in targets], labels
            _, further, _ = declared_targets(self.classes, None, federation.surplus_labels)
            return classes, [federation.relabelled(*both) for both in zip(targets, further, strict=True)], labels
        classes = np.unique(np.asarray([-1, 1] if self.classes is None else self.classes))
        if classes.size != 2:
            raise InvalidInput(
                f"classes= lists {classes.size} classes, and labels held elsewhere have two, above 0 or not: ask their "
                "holder for a column of 0 and 1 for each class, and fit one by one."
            )
        return classes, [federation], None

    def _targets(self, X: Any, y: Any) -> tuple[NDArray[Any], list[Floats], NDArray[Any]]:
        """The classes, one vector of ±1 for each model, and the labels."""
        if y is None:
            raise InvalidInput("y is missing: the fit requires y to be passed, but the target y is None.")
        if self.epsilon is not None:
            return declared_targets(self.classes, X, y)
        y = column_or_1d(y, warn=True)
        if X is not None:
            check_consistent_length(X, y)
        try:
            assert_all_finite(y, input_name="y")
            check_classification_targets(y)
        except ValueError as error:
            raise InvalidInput(str(error)) from error
        classes = np.unique(y) if self.classes is None else np.unique(np.asarray(self.classes))
        if not np.isin(y, classes).all():
            raise InvalidInput("y holds a label that classes= does not list; add it, or leave classes= out.")
        counts = {label: int((y == label).sum()) for label in classes.tolist()}
        if classes.size < 2 or 0 in counts.values():
            lacking = [label for label, count in counts.items() if not count]
            what = f"no row has class {lacking[0]!r}; leave it out of classes=" if lacking else "y has one class"
            raise InvalidInput(f"{what}; a classifier needs two classes or more, and rows of each.")
        positive = classes[1:] if classes.size == 2 else classes
        return classes, [np.where(y == label, 1.0, -1.0) for label in positive], y

    def _class_weights(self, classes: NDArray[Any], labels: Any) -> Mapping[Any, float] | None:
        if not (isinstance(self.class_weight, str) and self.class_weight == "balanced"):
            if self.class_counts is not None:
                raise InvalidInput('class_counts= is what class_weight="balanced" goes by; give both, or neither.')
            if not isinstance(self.class_weight, Mapping | None):
                raise InvalidInput(f'class_weight={self.class_weight!r}: give {{label: weight}}, "balanced", or None.')
            return self.class_weight
        counts = self.class_counts
        if counts is None and (self.epsilon is not None or labels is None):
            raise InvalidInput(
                'class_weight="balanced" counts the labels, which nobody paid for. Give public counts, as in '
                "class_counts={0: 900, 1: 100}, or the weights themselves as class_weight={label: weight}."
            )
        if counts is None:
            counts = {label: int((labels == label).sum()) for label in classes.tolist()}
        for label in classes.tolist():
            if not (isinstance(counts.get(label), int | float) and 0 < counts[label] < math.inf):
                raise InvalidInput(f"class_counts= has no count above 0 for class {label!r}; give one for every class.")
        total = sum(counts[label] for label in classes.tolist())
        return {label: total / (classes.size * counts[label]) for label in classes.tolist()}

    # ---------------------------------------------------------------- what it says

    def _links(self) -> list[Link]:
        """How each model's scores become log odds."""
        return [fit.link if fit.link and fit.problem.loss.odds is not None else PLAIN for fit in self._fits]

    @property
    def coef_(self) -> Floats:
        """Coefficients of the decision, one row a model, in the order of the encoded columns.

        Of a private logistic model they are on the scale of log odds; how far its probabilities follow them says the
        link.
        """
        check_is_fitted(self, "fit_")
        pairs = zip(self._links(), self._fits, strict=True)
        return np.array([link.slope * self._weights(fit) for link, fit in pairs])

    @property
    def intercept_(self) -> Floats:
        """The constants of the decision, one a model."""
        check_is_fitted(self, "fit_")
        pairs = zip(self._links(), self._fits, strict=True)
        own = np.array([link.slope * fit.intercept + link.offset for link, fit in pairs])
        return np.asarray(own + self._shifts)

    def decision_function(self, X: Any) -> Floats:
        """Log odds (logistic) or scores: one a row for two classes (positive: the second), else one column a class.

        Parameters
        ----------
        X
            Rows: a table like that of the fit, a `co.Federation` of new rows, or {party: frame}.
        """
        check_is_fitted(self, "fit_")
        raw = self._raw(X)
        odds = [link.log_odds(scores) for link, scores in zip(self._links(), raw.T, strict=True)]
        # The weights of the classes multiply the odds.
        scores = np.column_stack(odds) + self._shifts
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest score.

        Parameters
        ----------
        X
            Rows, as in `decision_function`.
        """
        index = likeliest(self.decision_function(X))
        return np.asarray(self.classes_[index])

    @available_if(_gives_odds)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities by class; those of several models are scaled to sum to 1.

        Parameters
        ----------
        X
            Rows, as in `decision_function`.
        """
        return probabilities(self.decision_function(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; a federation of new rows may bring its own labels.

        Parameters
        ----------
        X
            Rows, as in `decision_function`.
        y
            Their labels; None: the federation holds them.
        sample_weight
            How much each row counts.
        """
        y = X.labels if y is None and isinstance(X, Federation) else y
        return float(super().score(X, y, sample_weight))


def _against_rest(classes: NDArray[Any], weights: Mapping[Any, float] | None) -> list[tuple[float, float]]:
    """For each model the weight of the others, which is the mean of their weights, and that of its own class."""
    names = classes.tolist()
    if unknown := [label for label in weights or {} if label not in names]:
        raise InvalidInput(f"class_weight= has a weight for {unknown[0]!r}; the classes are {names}. Leave it out.")
    values = [float((weights or {}).get(label, 1.0)) for label in names]
    if not all(0 < value < math.inf for value in values):
        raise InvalidInput(f"class_weight={dict(weights or {})!r}: weights must be finite and above 0.")
    pairs = [((math.fsum(values) - own) / (len(values) - 1), own) for own in values]
    return pairs[1:] if len(names) == 2 else pairs


@dataclass(eq=False, repr=False, kw_only=True)
class FederatedRegressor(RegressorMixin, FederatedLinear):  # type: ignore[misc]  # scikit-learn carries no types
    """A linear regression over columns of several parties; private when `epsilon` is given.

    X is a table (with y), or a co.Federation that holds its labels (without y), as in co.FederatedClassifier.

    After fit: fit_ (the co.Fit), privacy_, coef_, intercept_.

    Parameters
    ----------
    parties
        {"hospital": columns, ...} by name or place, or how many parts of equal size; None: two.
    schemas
        {"hospital": co.Schema(...), ...}: what is public about a frame's columns; it also says who holds which.
    label
        Which party holds the labels; None: one that holds nothing else.
    loss
        `co.LeastSquares()` (None), `co.Huber(...)`, `co.Absolute()` or `co.Quantile(...)`.
    penalty
        What large coefficients cost. Neither penalty nor constraint: a small ridge, or what the noise asks for.
    constraint
        The set that coefficients lie in; not beside a penalty, unless `method` takes both.
    intercept
        Whether the model has one.
    method
        None: `co.PrivateGram` with epsilon; without, `co.SharingADMM` (penalty) or `co.DistributedFrankWolfe`
        (constraint).
    epsilon
        The budget of one fit; None: not private.
    delta
        As in `co.Privacy`; None is 1e-6.
    trust
        Who is the adversary, as in `co.Privacy`.
    row_norm
        Public bound of a row's length, as in `co.Privacy`.
    feature_bound
        Public bound of an entry, as in `co.Privacy`.
    allow_large_delta
        True: fit though delta is not below 1/rows, as in `co.Privacy`.
    store
        The folder of ledgers; required with epsilon.
    engine
        Where the parties' programs run; None: in this process.
    label_bound
        B instead of label_range=(−B, B).
    label_range
        Public lowest and highest value of y; what lies outside is clipped. Needed with epsilon.

    Examples
    --------
    >>> import colonnade as co
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 2.0]]
    >>> model = co.FederatedRegressor({"bank": [0], "shop": [1]}).fit(X, [1.0, 3.0, 5.0, 7.0])
    >>> [round(float(value)) for value in model.predict(X)]
    [1, 3, 5, 7]
    """

    label_bound: float | None = None  # type: ignore[misc]  # a setting here, and none of a classifier
    label_range: tuple[float, float] | None = None  # type: ignore[misc]

    @unquoted("could not convert")
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a table X and its values y, or to a co.Federation that holds its own labels.

        Parameters
        ----------
        X
            An array, a sparse matrix, a data frame, or a `co.Federation`.
        y
            One value a row; None: the federation holds them.
        """
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
        """The constant of the model."""
        check_is_fitted(self, "fit_")
        return self._fits[0].intercept

    def predict(self, X: Any) -> Floats:
        """The values that the model expects.

        Parameters
        ----------
        X
            Rows: a table like that of the fit, a `co.Federation` of new rows, or {party: frame}.
        """
        scores = self._raw(X)[:, 0]
        return np.asarray(self._fits[0].problem.loss.link(scores))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of variance explained; a federation of new rows may bring its own labels.

        Parameters
        ----------
        X
            Rows, as in `predict`.
        y
            Their values; None: the federation holds them.
        sample_weight
            How much each row counts.
        """
        y = X.labels if y is None and isinstance(X, Federation) else y
        return float(super().score(X, y, sample_weight))
