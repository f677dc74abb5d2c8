"""What both estimators share: settings, the run in the ledger, and the statement; and who calls a private fit.

A search that will fit many times, or a pipeline that has touched the rows: scikit-learn tells an estimator of neither.
Both stand on the stack of calls, where they are looked for before anything is spent.

Search    GridSearchCV, RandomizedSearchCV, cross_validate, cross_val_score, cross_val_predict in one process: priced as
          a whole, and refused unless a ledger has room for all of its fits. Whatever else of scikit-learn fits on
          behalf of its caller, or fits where the search cannot be seen (n_jobs), is refused: only what is known to fit
          once may stand around a fit.
Pipeline  steps before the estimator that learn from the rows are refused: what they learned is in no price, and one row
          moves it.
Limits    a step, a search or a loop of one's own is not seen: fits in a loop add up in a ledger, and nowhere else.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from types import FrameType
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from colonnade.data.notices import UNSPENT, about_rows
from colonnade.errors import BudgetExhausted, InvalidInput, MostlyNoise, NothingToLearn, NotPrivate, unquoted
from colonnade.estimators.recipe import (
    FARTHEST_REACH,
    ClipMap,
    PickRecipe,
    RowMap,
    RowRecipe,
    SparseBy,
    as_doubles,
    cheaper,
    check_rounds,
    clipped,
)
from colonnade.kernels.arrays import Floats
from colonnade.kernels.corrective import NEGLIGIBLE, Certified, SparseProblem, certify, corrective_fit, scores_of
from colonnade.kernels.lazy import lazy_picks
from colonnade.kernels.sparse_fw import LossCode, model_of_picks
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import ROW, SENSIBLE
from colonnade.privacy.conditions import KEYED_STREAM, Condition
from colonnade.privacy.events import Mechanism, Plan, plan_delta, plan_rho, shown
from colonnade.privacy.ledger import Terms
from colonnade.privacy.local import LocalLedger
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.statement import (
    Privacy,
    PrivacyStatement,
    Trust,
    check_delta,
    derived_statement,
    large_delta,
    remarks_on,
)

DELTA = 1e-6  # of an estimator that names none
SEARCH = "sklearn.model_selection._search"
VALIDATION = "sklearn.model_selection._validation"
SPLITS = ("cross_validate", "cross_val_predict")
WORKERS = ("_fit_and_score", "_fit_and_predict")
UNPRICED = ("permutation_test_score", "learning_curve", "validation_curve")
ONCE = (
    "sklearn.base",
    "sklearn.pipeline",
    "sklearn.compose._target",
    "sklearn.utils",
    SEARCH,
    VALIDATION,
)  # no fits of their own
FREE = (
    "For nothing: one fit of co.PrivateGram has the models of many penalties in fit.path, and every other setting can "
    "be chosen from public knowledge."
)


@dataclass(eq=False)
class Search:
    """A search around a fit: how many fits it makes, each at most how dear."""

    fits: int
    rho: float  # of one fit
    words: str
    begun: int = 0  # of its fits so far
    taken: float = 0.0  # of a delta, by releases of its fits so far, for themselves


_PRICED: WeakKeyDictionary[Any, Search] = WeakKeyDictionary()  # by joblib's Parallel: a search makes one of its own


def looked_at(epsilon: float, delta: float, room: Callable[[float, int], str]) -> Search | None:
    """The search that this fit is part of, if any, with room for it; what cannot be priced is refused.

    room  given rho of a whole search and the number of its fits, why there is no room for them; empty if there is
    """
    searches = []
    around = list(_frames())
    evaluation = None
    for frame, module, name in around:
        here = frame.f_locals
        if name.startswith("fit") and isinstance(here.get("self"), Pipeline):  # or another library's kind of it
            _check_steps([step for _, step in here["self"].steps[:-1]])
        elif module == "sklearn.compose._target" and name == "fit":
            _check_steps([here["self"].transformer])
        elif module == SEARCH and name == "evaluate_candidates":
            evaluation = here
        elif module == SEARCH and name == "fit" and hasattr(here.get("self"), "refit"):
            searches.append((here.get("parallel"), _of_candidates(here, evaluation, epsilon, delta)))
        elif module == VALIDATION and name in SPLITS:
            searches.append((here.get("parallel"), _of_splits(name, here, epsilon, delta)))
        elif module == VALIDATION and name in UNPRICED:
            raise _no_price(name)
        elif module.startswith("sklearn.") and not module.startswith(ONCE) and not _fits_once(here.get("self")):
            raise _no_price(module)
    if not searches:
        if any(module == VALIDATION and name in WORKERS for _, module, name in around):
            raise _no_price(
                "a search in several threads or processes, of which one cannot see the others: leave n_jobs= out"
            )
        return None
    if len(searches) > 1:
        raise _no_price("a search inside another")
    ((key, search),) = searches
    if key not in _PRICED:
        _check_room(search, epsilon, delta, room)
        _PRICED[key] = search
    search.begun += 1
    return search


def _check_room(search: Search, epsilon: float, delta: float, room: Callable[[float, int], str]) -> None:
    total = search.fits * search.rho
    if why := room(total, search.fits):
        raise BudgetExhausted(
            f"{search.words} would cost epsilon {epsilon_of(total, delta):.3g} at delta {delta:g} (rho {total:.3g}), "
            f"where one costs {epsilon:g}; {why}. Nothing was spent. {FREE}"
        )
    warnings.warn(
        f"{search.words}: each is charged. Scores on held-out rows are computed from these rows as they are, without "
        "noise: they are not private, and neither is a choice or a figure taken from them.",
        NotPrivate,
        stacklevel=2,
    )


def _frames() -> Iterator[tuple[FrameType, str, str]]:
    """Calls that have not returned, innermost first, with their modules and names."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame, str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        frame = frame.f_back


def _of_candidates(here: dict[str, Any], evaluation: dict[str, Any] | None, epsilon: float, delta: float) -> Search:
    """A grid, or some of its candidates; the dearest of them stands for all."""
    search = here["self"]
    key = here.get("parallel")
    if key in _PRICED:
        return _PRICED[key]
    if type(search) not in (GridSearchCV, RandomizedSearchCV) or key is None or evaluation is None:
        raise _no_price(type(search).__name__)
    candidates = evaluation["candidate_params"]
    splits = evaluation["n_splits"]
    rho = max(rho_for(epsilon, delta), *(_dearest(search.estimator, one) for one in candidates))
    fits = len(candidates) * splits + bool(search.refit)
    refit = ", and one on all rows" if search.refit else ""
    words = f"{fits} private fits of {type(search).__name__} ({len(candidates)} candidates in {splits} folds{refit})"
    return Search(fits, rho, words)


def _of_splits(name: str, here: dict[str, Any], epsilon: float, delta: float) -> Search:
    key = here.get("parallel")
    if key in _PRICED:
        return _PRICED[key]
    if key is None:
        raise _no_price(name)
    groups = here.get("groups")
    if groups is None:
        groups = (here.get("params") or {}).get("groups")
    folds = len(here["splits"]) if "splits" in here else here["cv"].get_n_splits(here["X"], here["y"], groups)
    return Search(folds, rho_for(epsilon, delta), f"{folds} private fits of {name}, one a fold")


def _dearest(estimator: Any, candidate: dict[str, Any]) -> float:
    """The most that one fit with these settings may cost, whichever of its parts are private."""
    made = clone(estimator).set_params(**clone(candidate, safe=False)).get_params()
    parts = [key.removesuffix("epsilon") for key in made if key.split("__")[-1] == "epsilon"]
    prices = [(made[f"{part}epsilon"], made.get(f"{part}delta")) for part in parts]
    return max((rho_for(e, DELTA if d is None else d) for e, d in prices if e is not None), default=0.0)


def _fits_once(around: Any) -> bool:
    return type(around) is FixedThresholdClassifier


def _no_price(what: str) -> InvalidInput:
    return InvalidInput(
        f"a private fit inside {what}: how many fits there will be cannot be told before the first, so they cannot be "
        "priced. Nothing "
        f"was spent. Fit by itself, or search with GridSearchCV or cross_val_score and a ledger that has room. {FREE}"
    )


def _check_steps(steps: Iterable[Any]) -> None:
    for step in steps:
        if not _public(step):
            raise InvalidInput(
                f"{type(step).__name__} learns from the rows, and a private fit comes after it: what it learned is in "
                "no price, and one row moves it, and with it all others. Nothing was spent. Scale by public bounds: "
                "feature_bound= and row_norm= do, or schemas=, or FunctionTransformer with constants; a step that was "
                "fitted to public data is FunctionTransformer(step.transform)."
            )


def _public(step: Any) -> bool:
    """Whether what a step does depends on no row: it learns nothing, or its settings say all of it."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return True
    if isinstance(step, Pipeline):
        return all(_public(inner) for _, inner in step.steps)
    if isinstance(step, FeatureUnion):
        return all(_public(inner) for _, inner in step.transformer_list)
    if isinstance(step, ColumnTransformer):
        return all(_public(inner) for _, inner, _ in step.transformers) and _public(step.remainder)
    if isinstance(step, OneHotEncoder | OrdinalEncoder):
        listed = not isinstance(step.categories, str) and step.handle_unknown != "error"
        return listed and step.min_frequency is None and step.max_categories is None
    return isinstance(step, PolynomialFeatures) or not get_tags(step).requires_fit


TOLERANCE = 1e-6  # of a fit without privacy: the certified gap over the objective
PASSES = 200
DERIVED = {SparseBy.FRANK_WOLFE: "sparse Frank-Wolfe picks", SparseBy.GAUSSIAN: "class sums"}
STEPPED = "noisy gradient in the row-norm geometry"


@cache
def _threads() -> Any:
    """What limits the threads of linear algebra: looking for its libraries takes milliseconds, and is done once."""
    return ThreadpoolController()


class SparseLinear(BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """Settings and fitting that do not depend on what the targets mean."""

    coef_: Floats
    intercept_: Any
    gap_: float | None
    history_: list[dict[str, Any]]
    privacy_: PrivacyStatement | None
    _rows: RowMap | ClipMap | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.epsilon is not None
        return tags

    @unquoted("could not convert")
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y.

        Parameters
        ----------
        X
            The rows: an array, a sparse matrix or a data frame of numbers.
        y
            One target a row.
        sample_weight
            How much each row counts; only without privacy.

        Returns
        -------
        Self
            This estimator, fitted.

        Raises
        ------
        InvalidInput
            A setting is missing or of no use, or a label or cell is no number.
        """
        if self.epsilon is not None and not hasattr(self, "_memory"):
            # Before anything is spent, so that an interrupted fit is counted too.
            self._memory = LocalLedger()
        # On a copy, taken over in one go: an interrupt leaves the old model and its statement, or the new ones.
        fitted = copy(self)
        # Systems are small: more threads would wait for each other, at full power.
        with _threads().limit(limits=1):
            fitted._fit(X, y, sample_weight, None)
        self.__dict__ = fitted.__dict__
        return self

    def path(self, X: Any, y: Any, radii: Any, sample_weight: Any = None) -> list[Self]:
        """One fitted model for each radius, each started from the one before. Without privacy only.

        Parameters
        ----------
        X
            The rows.
        y
            One target a row.
        radii
            Of the balls, in the order in which to fit.
        sample_weight
            How much each row counts.
        """
        if self.epsilon is not None:
            raise InvalidInput("a path is many looks at the data: fit each radius by itself, and each is charged.")
        models: list[Self] = []
        for radius in radii:
            start = models[-1].coef_ if models else None
            with _threads().limit(limits=1):
                models.append(clone(self).set_params(radius=radius)._fit(X, y, sample_weight, start))
        return models

    # ---------------------------------------------------------------- checks

    def _check_settings(self) -> None:
        if self.method not in tuple(SparseBy):
            raise InvalidInput(f"method={self.method!r} is not known; choose one of {', '.join(SparseBy)}")
        for name in ("radius", "row_norm", "feature_bound"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float, np.number)) and 1.0 / SENSIBLE <= value <= SENSIBLE):
                raise InvalidInput(f"{name} must be a number above 0 and of a sensible size, got {value!r}")
        check_rounds(self.rounds, self.max_features)
        if self.epsilon is None:
            given = {"delta": self.delta, "ledger": self.ledger, "max_features": self.max_features}
            if unused := [name for name, value in given.items() if value is not None]:
                raise InvalidInput(
                    f"{unused[0]} is for private fits, and epsilon is None: give epsilon=, or leave {unused[0]} out; "
                    "without privacy the radius decides how sparse the answer is."
                )
            if self.method == SparseBy.GAUSSIAN:
                raise InvalidInput("method='gaussian' adds noise: give epsilon=, or method='auto'.")
        elif self.ledger is not None and not isinstance(self.ledger, (str, os.PathLike)):
            raise InvalidInput(f"ledger must be None or the path of a file, got {type(self.ledger).__name__}")

    def _private_rows(self, X: Any) -> Any:
        """X of a private fit. What is refused depends on types and shapes, and the text of an error holds no cell."""
        X = as_doubles(X)
        try:
            cells = X if sparse.issparse(X) else np.asarray(X)
        except ValueError:
            raise InvalidInput("the rows of X have different lengths; give a table of numbers.") from None
        if cells.ndim != 2:
            raise InvalidInput(f"X has {cells.ndim} dimensions and not 2. Reshape your data into rows and columns.")
        if cells.dtype.kind not in "biuf":
            what = "Complex data not supported: " if cells.dtype.kind == "c" else ""
            raise InvalidInput(
                f"{what}X is an array of type {cells.dtype}, and a private fit takes arrays of numbers only: reading "
                "cells one by one would show what a row holds. Convert it first, as with X.astype(float)."
            )
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False)

    def _open_rows(self, X: Any) -> Any:
        """X of a fit without privacy, as CSC."""
        columns = sparse.csc_array(X)
        if not columns.has_canonical_format:
            columns = columns.copy()
            columns.sum_duplicates()
        return columns

    @unquoted("could not convert")
    def _scores(self, X: Any) -> Floats:
        """Linear scores of new rows, one column a model."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        coef = np.atleast_2d(self.coef_)
        b = np.atleast_1d(self.intercept_)
        X = X if self._rows is None else self._rows(X)
        return np.asarray(X @ coef.T + b)

    # ---------------------------------------------------------------- without privacy

    def _solve(
        self, X: Any, y: Floats, s: Floats, loss: LossCode, start: Floats | None
    ) -> tuple[Certified, list[dict[str, float]]]:
        """The model and one row of figures for each pass."""
        rounds = PASSES if self.rounds is None else int(self.rounds)
        problem = SparseProblem(X.data, X.indices, X.indptr, y, s, loss, float(self.radius))
        if self.method == SparseBy.FRANK_WOLFE:
            if np.ptp(s) > 1e-12 * s[0]:
                raise InvalidInput("method='frank-wolfe' takes no sample_weight; method='auto' does.")
            picks, _ = lazy_picks(*problem.columns, y, loss=loss, radius=self.radius, rounds=rounds)
            w = model_of_picks(picks, radius=self.radius, columns=X.shape[1])
            found = certify(problem, w, scores_of(problem, w), 0.0)
            return found, [found.row(1)]
        found, history = corrective_fit(problem, tolerance=TOLERANCE, passes=rounds, start=start)
        if found.gap > TOLERANCE * max(found.objective, NEGLIGIBLE * history[0]["objective"]):
            warnings.warn(
                f"after {rounds} passes the gap is {found.gap:.2g}, over {TOLERANCE:g} of the objective "
                f"{found.objective:.4g}. The model is feasible and its gap holds; raise rounds for a smaller one.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return found, history

    def _weights(self, X: Any, sample_weight: Any) -> Floats:
        """Row weights that sum to 1."""
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.sum() > 0:
            raise InvalidInput("all sample weights are zero: nothing is left to fit. Give at least one row a weight.")
        return np.asarray(weights / weights.sum())

    # ---------------------------------------------------------------- with privacy

    def _private(
        self, X: Any, targets: list[Floats], classify: bool, scale: float, notices: tuple[str, ...]
    ) -> tuple[Floats, Floats]:
        """Coefficients and intercepts, one row a target; sets privacy_, history_ and the map of rows.

        notices  what is known about the labels that would make this fit pay for nothing
        """
        n, d = X.shape
        delta = DELTA if self.delta is None else self.delta
        trust = Trust.NOBODY  # the model is all that leaves
        privacy = Privacy(self.epsilon, delta, trust, self.row_norm, self.feature_bound)
        privacy = replace(privacy, allow_large_delta=self.allow_large_delta)
        check_delta(privacy, n)
        for remark in remarks_on(privacy):
            warnings.warn(remark, UserWarning, stacklevel=5)
        recipe, why = self._recipe(n, d, privacy, len(targets), classify, scale)
        plan = recipe.plan()
        for remark in recipe.remarks:
            warnings.warn(f"{remark}.", MostlyNoise, stacklevel=5)
        if found := (*about_rows(clipped(X, float(self.feature_bound))), *notices):
            warnings.warn(f"{'; '.join(found)}. {UNSPENT}", NothingToLearn, stacklevel=5)
        ledger = self._memory if self.ledger is None else LocalLedger(self.ledger)
        search = looked_at(privacy.epsilon, delta, partial(self._short_of, recipe.distance))
        with ledger.run(self._terms(recipe), plan, SystemNoise(), recipe.distance) as gate:
            rows, models = recipe.fit(gate, X, targets)
        self._rows = rows
        self.history_ = [{"release": c.what, "times": c.count, "rho": c.rho} for c in plan]
        # Who sees one of the models of a search has seen what chose it: all that the ledger has.
        used = {charge.event.mechanism for charge in plan} if search is None else ledger.mechanisms()
        conditions = (*((KEYED_STREAM,) if Mechanism.PICKS in used else ()), *large_delta(privacy, n))
        self.privacy_ = self._statement(privacy, plan, why, ledger, len(targets), conditions)
        if search is not None:
            total = ledger.total()
            # Beside a distance rho does not bound all that is seen.
            rho = total.rho if total.distance == 0.0 else None
            self.privacy_ = replace(self.privacy_, epsilon=total.epsilon(delta), rho=rho, taken=total.taken)
        return np.array([model.w * scale for model in models]), np.array([model.b * scale for model in models])

    def _short_of(self, distance: float, rho: float, fits: int) -> str:
        """Why a search has no room for all its fits."""
        if self.ledger is None:
            return "there is no ledger= with a limit: a file, and LocalLedger(file).set_limit(epsilon, delta)"
        return LocalLedger(self.ledger).short_of(rho, fits * distance)

    def _recipe(
        self, n: int, d: int, privacy: Privacy, targets: int, classify: bool, scale: float
    ) -> tuple[RowRecipe | PickRecipe, str]:
        """What will be released, and where it is derived: all public."""
        bound = float(self.feature_bound)
        radius = float(self.radius) / scale
        rho = rho_for(privacy.epsilon, privacy.delta) * (1.0 - 1e-12)  # shares of it add up to a little less
        keep = None if self.max_features is None or self.max_features >= d else int(self.max_features)
        rounds = None if self.rounds is None else int(self.rounds)
        method = self.method
        if method == SparseBy.AUTO:
            norm = float(self.row_norm)
            method = cheaper(n, d, rho / targets, bound=bound, norm=norm, radius=radius, classify=classify)
        if method == SparseBy.GAUSSIAN:
            rows = RowRecipe(n, d, rho, bound, targets, classify, keep=keep, rounds=rounds, norm=float(self.row_norm))
            return rows, STEPPED if rows.steps else DERIVED[SparseBy.GAUSSIAN]
        picks = PickRecipe(n, d, rho, bound, targets, classify, radius, keep=keep, rounds=rounds)
        if picks.reach > FARTHEST_REACH:
            raise InvalidInput(
                f"epsilon={privacy.epsilon:g}, {n:,} rows: scores may be {picks.reach:.2g} times the noise: picks "
                "would take too long to draw. Give a smaller epsilon, more rounds, or method='gaussian'."
            )
        return picks, DERIVED[SparseBy.FRANK_WOLFE]

    def _terms(self, recipe: RowRecipe | PickRecipe) -> Terms:
        name = type(self).__name__
        settings = json.dumps({"recipe": type(recipe).__name__, **vars(recipe)}, sort_keys=True, default=str)
        return Terms(name, settings, Trust.NOBODY, str(ROW), ROW.neighbours, protocol="")

    def _statement(
        self, privacy: Privacy, plan: Plan, why: str, ledger: LocalLedger, targets: int, rests: tuple[Condition, ...]
    ) -> PrivacyStatement:
        total = ledger.total()
        in_memory = "in memory with this estimator, so clones and copies count apart"
        where = in_memory if ledger.path is None else "in its file"
        parts = f"; each of {targets} one-against-rest models has 1/{targets} of the budget" if targets > 1 else ""
        all_of_it = f"epsilon {shown(total.epsilon(privacy.delta))} at delta {privacy.delta:g}"
        spent = f"{total.runs} fit{'s' if total.runs > 1 else ''}, rho {total.rho:.4g} in all, {all_of_it}"
        derivation = f"docs/understand/privacy/one-holder.md, {why}{parts}; the ledger, kept {where}, has {spent}"
        sees = "the fitted model: coefficients, intercepts and settings"
        return derived_statement(privacy, plan_rho(plan), ROW, sees, derivation, rests, plan_delta(plan))
