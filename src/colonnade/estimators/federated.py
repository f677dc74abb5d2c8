"""Models over columns of several parties, with the interface of scikit-learn.

    model = co.FederatedClassifier(parties={"hospital": ["age", "ward"], "lab": ["crp"]}, schemas=schemas,
                                   epsilon=1.0, delta=1e-6, trust="secure", classes=[0, 1], store="runs")
    model.fit(frame, frame["readmitted"]).predict_proba(frame)

Each fit is one run of `co.fit`, or one for each class against the rest. K such runs about the same rows add up in zCDP, so each is
given ρ/K: its epsilon is the one whose ρ at the same delta is just below that share (docs/notebook.md).
Leaves   what the method's runs release, and nothing else: coefficients, odds and, under privacy, weights of classes follow from it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from colonnade.data.federation import Federation
from colonnade.data.notices import UNSPENT, about_classes
from colonnade.data.one_table import table_federation
from colonnade.data.schema import Schema
from colonnade.errors import InvalidInput, NothingToLearn, unquoted
from colonnade.estimators.classifier import as_objects, label_keys, likeliest, probabilities
from colonnade.estimators.rows import as_doubles
from colonnade.estimators.several import resumed, same_call
from colonnade.estimators.surroundings import DELTA, looked_at
from colonnade.methods.admm.sharing import SharingADMM
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.statement import Guarantee, Privacy, PrivacyStatement
from colonnade.problem import LeastSquares, Logistic, Problem, Ridge
from colonnade.problem.link import PLAIN, Link
from colonnade.problem.weighted import ClassWeighted
from colonnade.runs.fit import fit as run
from colonnade.runs.result import Fit
from colonnade.runtime.run_store import RunStore

Floats = NDArray[np.float64]
OPEN_RIDGE = 1e-3  # where neither a penalty nor a constraint is given, and nothing is private
SLACK = 1e-9  # of a share's epsilon: so that the shares' ρ are below ρ/K whatever the accountant rounds


def share_of(epsilon: float, delta: float, parts: int) -> float:
    """The epsilon of each of `parts` runs whose prices add up to no more than that of one run at `epsilon`.

    Let ρ be what (epsilon, delta) buys. The answer e lies below epsilon_of(ρ/parts). If e bought ρ/parts or more, its
    reported epsilon would be at least epsilon_of(ρ/parts), above e, which `rho_for` excludes. So each run costs less than ρ/parts.
    """
    if parts == 1:
        return epsilon
    least = epsilon_of(rho_for(epsilon, delta) / parts, delta) * (1.0 - SLACK)
    if least <= 0.0:
        raise InvalidInput(
            f"epsilon={epsilon:g} is too little to be shared by {parts} one-against-rest models. Raise epsilon, or join classes."
        )
    return least


@dataclass(
    eq=False, repr=False
)  # writes the constructor that scikit-learn wants: it keeps its arguments, and does nothing else
class FederatedLinear(BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """Settings and fitting that do not depend on what the targets mean."""

    parties: int | Mapping[str, Any] | None = None
    _: KW_ONLY
    schemas: Mapping[str, Schema] | None = None
    label: str | None = None
    loss: Any = None
    penalty: Any = None
    constraint: Any = None
    intercept: bool = True
    method: Any = None
    epsilon: float | None = None
    delta: float | None = None
    trust: str | None = None
    row_norm: Any = None
    feature_bound: float | None = None
    allow_large_delta: bool = False
    store: str | PathLike[str] | None = None
    engine: Any = None

    label_bound: ClassVar[float | None] = None  # labels of a classifier are ±1
    label_range: ClassVar[tuple[float, float] | None] = None
    fit_: Fit | list[Fit] = field(init=False)
    privacy_: PrivacyStatement = field(init=False)
    n_features_in_: int = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.epsilon is not None
        return tags

    # ---------------------------------------------------------------- settings

    def _problem(self, loss: Any) -> Problem:
        penalty = self.penalty
        if penalty is None and self.constraint is None and self.epsilon is None:
            penalty = Ridge(OPEN_RIDGE)
        return Problem(loss, self.constraint, penalty, intercept=self.intercept)

    def _method(self, problem: Problem) -> Any:
        """Left open: private Gram with privacy; without, ADMM for penalties and Frank-Wolfe for balls."""
        simple = self.epsilon is None and problem.penalty is not None
        return SharingADMM() if self.method is None and simple else self.method

    def _terms(self, parts: int) -> Privacy | None:
        if self.epsilon is None:
            given = {"delta": self.delta, "row_norm": self.row_norm, "feature_bound": self.feature_bound}
            if unused := [name for name, value in given.items() if value is not None]:
                raise InvalidInput(
                    f"{unused[0]} is for private fits, and epsilon is None. Give epsilon=, or leave {unused[0]} out."
                )
            return None
        delta = DELTA if self.delta is None else self.delta
        labels = {"label_bound": self.label_bound, "label_range": self.label_range}
        asked = Privacy(self.epsilon, delta, self.trust, self.row_norm, self.feature_bound, **labels)  # type: ignore[arg-type]  # by name
        asked = replace(asked, allow_large_delta=self.allow_large_delta)
        return replace(asked, epsilon=share_of(self.epsilon, delta, parts))

    # ---------------------------------------------------------------- tables

    def _is_frame(self, X: Any) -> bool:
        """Whether columns are encoded by a schema: one that was declared, or, without privacy, one read off the frame."""
        return hasattr(X, "columns") and hasattr(X, "dtypes") and (self.schemas is not None or self.epsilon is None)

    def _table(self, X: Any, *, reset: bool) -> Any:
        """X checked: a frame as it is, anything else as numbers."""
        if self.schemas is not None and not self._is_frame(X):
            raise InvalidInput(f"schemas= names columns, and X is a {type(X).__name__}: give a data frame.")
        if self._is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if X.shape[0] < (2 if reset else 1):
                raise InvalidInput(f"X has {X.shape[0]} sample(s), and a fit needs 2 or more; a prediction needs 1.")
            return X
        private = self.epsilon is not None
        X = as_doubles(X) if private else X
        if private and not sparse.issparse(X) and np.asarray(X).dtype.kind not in "biuf":
            kind = np.asarray(X).dtype
            what = "Complex data not supported: " if kind.kind == "c" else ""
            raise InvalidInput(
                f"{what}X is an array of type {kind}, and a private fit takes numbers only. Give a frame with schemas=, or numbers."
            )
        kinds = {"accept_sparse": "csc", "dtype": np.float64, "reset": reset, "ensure_all_finite": not private}
        cells = validate_data(self, X, **kinds, ensure_min_samples=2 if reset else 1)
        if not private:
            return cells
        # A refusal would tell that some cell is no number: under privacy such a cell counts as zero.
        if sparse.issparse(cells):
            cells = cells.copy()
            cells.data[~np.isfinite(cells.data)] = 0.0
            return cells
        return np.where(np.isfinite(cells), cells, 0.0)

    def _parties(self, X: Any) -> int | dict[str, Any]:
        """Who holds which columns; names of a frame's columns become places where the frame became a matrix."""
        if self.schemas is not None:
            named = list(self.parties) if isinstance(self.parties, Mapping) else [str(self.parties)]
            if self.parties is not None and set(named) != set(self.schemas):
                raise InvalidInput(
                    f"parties= names {', '.join(named)} and schemas= {', '.join(self.schemas)}: leave parties= out."
                )
            return {}
        if self.parties is None:
            return 2 if X.shape[1] > 1 else 1
        if not isinstance(self.parties, Mapping):
            return int(self.parties)
        if self._is_frame(X):
            return dict(self.parties)
        names = list(getattr(self, "feature_names_in_", ()))
        return {party: _placed(party, columns, names) for party, columns in self.parties.items()}

    def _federations(self, X: Any, targets: Sequence[Any]) -> list[Federation]:
        """One federation for each target; all hold the same rows."""
        parties = self._parties(X)
        return [table_federation(X, target, parties, self.schemas, self.label) for target in targets]

    # ---------------------------------------------------------------- fitting and scoring

    def _run(self, federations: Sequence[Federation], losses: Sequence[Any], notices: Sequence[str] = ()) -> None:
        """One run for each federation, with its loss; `notices` are said before the first."""
        problems, terms = [self._problem(loss) for loss in losses], self._terms(len(federations))
        method, where = self._method(problems[0]), {"engine": self.engine, "store": self.store}
        search = None
        if self.epsilon is not None and terms is not None:
            search = looked_at(self.epsilon, terms.delta, partial(self._short_of, federations[0]))
        if notices:
            warnings.warn(f"{'; '.join(notices)}. {UNSPENT}", NothingToLearn, stacklevel=4)
        runs = [
            partial(run, each, problem, method, terms, **where)
            for each, problem in zip(federations, problems, strict=True)
        ]
        if len(runs) == 1 or self.store is None:
            fits = [one() for one in runs]
        else:
            fits = resumed(same_call(federations, problems, method, terms), runs, self.store)
        self._places = {name: party.block.positions for name, party in federations[0].parties.items()}
        self.fit_ = fits[0] if len(fits) == 1 else fits
        self.privacy_ = _together([each.privacy for each in fits], terms)
        if search is not None and terms is not None:  # who sees one of its models has seen what chose it
            spent = search.begun * search.rho
            words = f"Renyi bound of {spent:.4g}-zCDP, {search.begun} fits of a search"
            self.privacy_ = replace(self.privacy_, epsilon=epsilon_of(spent, terms.delta), accountant=words, rho=spent)

    def _short_of(self, federation: Federation, rho: float, _: int) -> str:
        """Why a search has no room for all its fits: every party's ledger must have a limit that leaves it."""
        if self.store is None or not (Path(self.store) / "runs.db").is_file():
            return "there is no store= with ledgers and limits (`colonnade budget set`)"
        with closing(RunStore(Path(self.store))) as books:
            for name, party in federation.parties.items():
                budget = Ledger(books.log(name), name, party.policy).budget()
                if budget.epsilon is None:
                    return f"the ledger of {name!r} has no limit (`colonnade budget set`), so nobody has said that it may cost as much"
                if rho > budget.left:
                    return f"the ledger of {name!r} has rho {budget.left:.3g} left of {budget.limit:.3g}"
        return ""

    @property
    def _fits(self) -> list[Fit]:
        return self.fit_ if isinstance(self.fit_, list) else [self.fit_]

    def _weights(self, made: Fit) -> Floats:
        """One vector over all columns, in the table's order; HeldByParty where a party keeps its part."""
        x = np.zeros(sum(len(self._places[party]) for party in made.coefficients))
        for party in made.coefficients:
            x[self._places[party]] = made.coefficients[party]
        return x

    @unquoted("could not convert")
    def _raw(self, X: Any) -> Floats:
        """The models' scores of new rows, one column a model."""
        check_is_fitted(self, "fit_")
        if sparse.issparse(X) or not isinstance(X, Federation | Mapping):  # a sparse matrix of type dok is a mapping
            if not hasattr(self, "n_features_in_"):
                raise InvalidInput("this model was fitted on a Federation: give one of new rows, or {party: frame}.")
            X = self._table(X, reset=False)
            if not self._is_frame(X):
                X = Federation.split(X, None, self._parties(X), label=None)
        return np.column_stack([made.scores(X) for made in self._fits])


def _placed(party: str, columns: Any, names: list[str]) -> Any:
    if isinstance(columns, slice | range) or not any(isinstance(column, str) for column in columns):
        return columns
    if absent := [column for column in columns if column not in names]:
        raise InvalidInput(
            f"party {party!r}: X has no column {absent[0]!r}; it has {len(names):,} named columns. Give names of X's columns."
        )
    return [names.index(column) for column in columns]


def _together(statements: Sequence[PrivacyStatement], terms: Privacy | None) -> PrivacyStatement:
    """The statement of several runs about the same rows: their prices add up."""
    first, count = statements[0], len(statements)
    if count == 1 or terms is None or first.guarantee == Guarantee.NONE:
        return first
    rho = count * rho_for(terms.epsilon, terms.delta)
    return replace(
        first,
        epsilon=epsilon_of(rho, terms.delta),
        accountant=f"Renyi bound of {rho:.4g}-zCDP, {count} runs of {rho / count:.4g} each",
        rho=rho,
        derivation=f"{first.derivation}; each of {count} one-against-rest models has 1/{count} of the budget",
    )


# ------------------------------------------------------------------------------------------------ classes


def _gives_odds(model: FederatedClassifier) -> bool:
    if not isinstance(model.loss, Logistic | None):
        raise AttributeError("predict_proba needs loss=co.Logistic(); other losses give scores, not odds")
    return True


@dataclass(eq=False, repr=False, kw_only=True)
class FederatedClassifier(ClassifierMixin, FederatedLinear):  # type: ignore[misc]  # scikit-learn carries no types
    """A linear classifier over columns of several parties; private when `epsilon` is given.

    X is a table (with y), or a co.Federation that holds its labels (without y), also one whose parties run elsewhere (engine=).
    With epsilon it is private by docs/privacy.md and says so in `privacy_`. Several classes are fitted one against the rest.

    parties        {"hospital": columns, ...} by name or place, or how many parts of equal size; None: two
    schemas        {"hospital": co.Schema(...), ...}: what is public about a frame's columns; it also says who holds which
    label          which party holds the labels; None: one that holds nothing else
    loss           co.Logistic() (None), co.SquaredHinge()
    penalty, constraint   at most one; neither: a small ridge, or what the noise asks for
    intercept      whether the model has one
    method         None: co.PrivateGram with epsilon; without, co.SharingADMM (penalty) or co.DistributedFrankWolfe (constraint)
    epsilon, delta, trust, row_norm, feature_bound, allow_large_delta   as in co.Privacy; delta=None is 1e-6. One budget for all classes together
    store          the folder of ledgers; required with epsilon
    engine         where the parties' programs run; None: in this process
    classes        the labels there are; required with epsilon, because a list of labels is a release
    class_weight   {label: weight}: a row counts so many times as one of a label that is not listed. Without epsilon it does so in
                   the loss, as in scikit-learn; with epsilon the released odds are multiplied instead, which costs nothing.
                   "balanced": so that all labels count alike
    class_counts   {label: rows}, public: what "balanced" goes by under privacy, where it may not look at the labels

    After fit: classes_, fit_ (a co.Fit, or a list with one for each class), privacy_, coef_, intercept_.
    """

    classes: Any = None
    class_weight: Any = None
    class_counts: Any = None

    @unquoted("could not convert")
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a table X and its labels y, or to a co.Federation that holds its own labels."""
        loss = Logistic() if self.loss is None else self.loss
        if not getattr(loss, "classifies", False):
            raise InvalidInput(
                f"loss={self.loss!r} does not classify; give co.Logistic(), or use co.FederatedRegressor."
            )
        if self.class_weight is not None and self.epsilon is not None and not isinstance(loss, Logistic):
            raise InvalidInput(
                "class_weight multiplies odds in a private fit, and loss=co.Logistic() alone gives odds; leave one of them out."
            )
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
            further = self._declared(None, federation.surplus_labels)[1]
            return classes, [federation.relabelled(*both) for both in zip(targets, further, strict=True)], labels
        classes = np.unique(np.asarray([-1, 1] if self.classes is None else self.classes))
        if classes.size != 2:
            raise InvalidInput(
                f"classes= lists {classes.size} classes, and the labels are held elsewhere, where a label above 0 is the one "
                "class and all others the other. Ask their holder for a column of 0 and 1 for each class, and fit one by one."
            )
        return classes, [federation], None

    def _targets(self, X: Any, y: Any) -> tuple[NDArray[Any], list[Floats], NDArray[Any]]:
        """The classes, one vector of ±1 for each model, and the labels."""
        if y is None:
            raise InvalidInput("y is missing: the fit requires y to be passed, but the target y is None.")
        if self.epsilon is not None:
            return self._declared(X, y)
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

    def _declared(self, X: Any, y: Any) -> tuple[NDArray[Any], list[Floats], NDArray[Any]]:
        """Under privacy nothing is found out from the labels: classes are given, and a label that is none of them is nobody's."""
        if self.classes is None:
            raise InvalidInput(
                "a private fit needs classes=, the labels there may be, from public knowledge: a list taken from the "
                "data would show a class that only one row has."
            )
        classes = np.unique(np.asarray(self.classes))
        keys = label_keys(classes)
        if classes.size < 2 or len(set(keys)) < classes.size or None in keys:
            raise InvalidInput(f"classes={self.classes!r}: list two or more different texts or numbers below 2^53.")
        labels = column_or_1d(as_objects(y) if isinstance(y, list | tuple) else y, warn=True)
        if X is not None:
            check_consistent_length(X, labels)
        found = label_keys(labels)
        positive = keys[1:] if classes.size == 2 else keys
        return classes, [np.array([1.0 if key == label else -1.0 for key in found]) for label in positive], labels

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
                'class_weight="balanced" counts the labels, which nobody paid for. Give public counts, as in class_counts='
                "{0: 900, 1: 100}, or the weights themselves as class_weight={label: weight}."
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
        return [made.link if made.link is not None and _is_logistic(made) else PLAIN for made in self._fits]

    @property
    def coef_(self) -> Floats:
        """Coefficients of the decision, one row a model, in the order of the encoded columns.

        Of a private logistic model they are on the scale of log odds; how far its probabilities follow them says the link.
        """
        check_is_fitted(self, "fit_")
        return np.array(
            [link.slope * self._weights(made) for link, made in zip(self._links(), self._fits, strict=True)]
        )

    @property
    def intercept_(self) -> Floats:
        check_is_fitted(self, "fit_")
        pairs = zip(self._links(), self._fits, strict=True)
        own = np.array([link.slope * made.intercept + link.offset for link, made in pairs])
        return np.asarray(own + self._shifts)

    def decision_function(self, X: Any) -> Floats:
        """Log odds (logistic) or scores: one a row for two classes (positive: the second), else one column a class."""
        check_is_fitted(self, "fit_")
        raw = self._raw(X)
        odds = [link.log_odds(scores) for link, scores in zip(self._links(), raw.T, strict=True)]
        scores = np.column_stack(odds) + self._shifts  # the weights of the classes multiply the odds
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest score."""
        index = likeliest(self.decision_function(X))
        return np.asarray(self.classes_[index])

    @available_if(_gives_odds)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities by class; those of several models are scaled to sum to 1."""
        return probabilities(self.decision_function(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; a federation of new rows may bring its own labels."""
        y = X.labels if y is None and isinstance(X, Federation) else y
        return float(super().score(X, y, sample_weight))


def _is_logistic(made: Fit) -> bool:
    return isinstance(made.problem.loss, Logistic)


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


# ------------------------------------------------------------------------------------------------ values


@dataclass(eq=False, repr=False, kw_only=True)
class FederatedRegressor(RegressorMixin, FederatedLinear):  # type: ignore[misc]  # scikit-learn carries no types
    """A linear regression over columns of several parties; private when `epsilon` is given.

    Settings as in co.FederatedClassifier; loss is co.LeastSquares() (None), co.Huber(...), co.Absolute() or co.Quantile(...), and

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
