"""Who calls the fit of a private estimator: a search that will fit many times, or a pipeline that has touched the rows.

scikit-learn tells an estimator neither. Both stand on the stack of calls, where they are looked for before anything is
spent.

Search    GridSearchCV, RandomizedSearchCV, cross_validate, cross_val_score, cross_val_predict in one process: priced as
          a whole, and refused unless a ledger has room for all of its fits. Whatever else of scikit-learn fits on
          behalf of its caller, or fits where the search cannot be seen (n_jobs), is refused: only what is known to fit
          once may stand around a fit.
Pipeline  steps before the estimator that learn from the rows are refused: what they learned is in no price, and one row
          moves it.
Limits    a step, a search or a loop of one's own is not seen: fits in a loop add up in a ledger, and nowhere else.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.utils import get_tags

from colonnade.errors import BudgetExhausted, InvalidInput, NotPrivate
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.accountant import rho_for

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
