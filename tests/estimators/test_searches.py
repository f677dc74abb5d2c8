"""Claims about private estimators inside scikit-learn's searches and pipelines: nothing is spent without a word."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.linear_model import RANSACRegressor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import colonnade as co
from colonnade.estimators import base
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.local import LocalLedger
from colonnade.runtime.run_store import RunStore

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 90
EACH = rho_for(1.0, 1e-6)


def table():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (ROWS, 4))
    return X, (X[:, 0] + rng.normal(0, 0.3, ROWS) > 0).astype(int)


def private(ledger=None, **settings) -> co.SparseClassifier:
    return co.SparseClassifier(epsilon=1.0, delta=1e-6, classes=[0, 1], ledger=ledger, **settings)


@pytest.fixture
def ledger(tmp_path):
    """With room for seven fits at epsilon 1, and a little."""
    path = tmp_path / "ledger.db"
    LocalLedger(path).set_limit(epsilon_of(7.2 * EACH, 1e-6), 1e-6)
    return path


GRID = {"feature_bound": [0.5, 1.0]}
X, Y = table()
SEARCHES = {
    "grid": (lambda model: GridSearchCV(model, GRID, cv=3, error_score="raise").fit(X, Y), 7),
    "some of a grid": (
        lambda model: RandomizedSearchCV(
            model, {"feature_bound": [0.5, 1, 2]}, n_iter=2, cv=3, error_score="raise"
        ).fit(X, Y),
        7,
    ),
    "no refit": (lambda model: GridSearchCV(model, GRID, cv=2, refit=False, error_score="raise").fit(X, Y), 4),
    "scores": (lambda model: cross_val_score(model, X, Y, cv=5, error_score="raise"), 5),
    "predictions": (lambda model: cross_val_predict(model, X, Y, cv=4), 4),
    "in a pipeline": (
        lambda model: cross_val_score(make_pipeline(Normalizer(), model), X, Y, cv=3, error_score="raise"),
        3,
    ),
}


@pytest.mark.chance(0, "counts and prices of fits, the same for every candidate that is picked")
@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_is_priced_before_its_first_fit_and_charged_for_each(search, ledger):
    begin, fits = SEARCHES[search]
    with pytest.warns(co.NotPrivate, match=f"^{fits} private fits of .* each is charged.*not private"):
        begin(private(ledger))
    total = LocalLedger(ledger).total()
    assert (total.runs, total.rho) == (fits, pytest.approx(fits * EACH, rel=1e-9))


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_without_room_for_all_its_fits_spends_nothing(search, tmp_path):
    begin, fits = SEARCHES[search]
    path = tmp_path / "small.db"
    with pytest.raises(co.BudgetExhausted, match=r"its ledger has no limit.*Nothing was spent.*fit\.path"):
        begin(private(path))
    LocalLedger(path).set_limit(epsilon_of((fits - 0.5) * EACH, 1e-6), 1e-6)
    whole = f"{epsilon_of(fits * EACH, 1e-6):.3g} at delta 1e-06"
    with pytest.raises(co.BudgetExhausted, match=rf"{fits} private fits of .* would cost epsilon {whole}"):
        begin(private(path))
    with pytest.raises(co.BudgetExhausted, match="there is no ledger= with a limit"):
        begin(private())
    assert LocalLedger(path).total().runs == 0


def test_a_search_that_swallows_errors_spends_nothing_either(tmp_path):
    """scikit-learn turns errors of fits into missing scores, and into one of its own when all of them failed."""
    path = tmp_path / "small.db"
    with pytest.raises(ValueError, match="All the 3 fits failed"):
        cross_val_score(private(path), X, Y, cv=3)
    assert LocalLedger(path).total().runs == 0


def test_the_dearest_candidate_stands_for_all(tmp_path):
    path = tmp_path / "ledger.db"
    LocalLedger(path).set_limit(epsilon_of(5 * EACH, 1e-6), 1e-6)
    search = GridSearchCV(private(path), {"epsilon": [0.5, 2.0]}, cv=2, error_score="raise")
    with pytest.raises(co.BudgetExhausted, match=rf"\(rho {5 * rho_for(2.0, 1e-6):.3g}\)"):
        search.fit(X, Y)


def test_a_candidate_that_sets_no_epsilon_costs_that_of_the_estimator_and_not_of_the_first_fit(tmp_path):
    path = tmp_path / "ledger.db"
    LocalLedger(path).set_limit(epsilon_of(4 * EACH, 1e-6), 1e-6)
    grids = [{"epsilon": [0.1]}, {"feature_bound": [0.5]}]
    with pytest.raises(co.BudgetExhausted, match=rf"\(rho {5 * EACH:.3g}\)"):
        GridSearchCV(private(path), grids, cv=2, error_score="raise").fit(X, Y)
    whole = [{"model": [private(path)]}, {"model": [private(path).set_params(epsilon=2.0)]}]
    pipeline = Pipeline([("first", Normalizer()), ("model", private(path))])
    with pytest.raises(co.BudgetExhausted, match=rf"\(rho {5 * rho_for(2.0, 1e-6):.3g}\)"):
        GridSearchCV(pipeline, whole, cv=2, error_score="raise").fit(X, Y)
    assert LocalLedger(path).total().runs == 0


@pytest.mark.chance(0, "the price of all fits, whichever of them is best")
def test_the_best_model_of_a_search_states_all_that_was_spent(ledger):
    with pytest.warns(co.NotPrivate):
        search = GridSearchCV(private(ledger), GRID, cv=3, error_score="raise").fit(X, Y)
    stated = search.best_estimator_.privacy_
    assert stated.epsilon == pytest.approx(epsilon_of(7 * EACH, 1e-6), rel=1e-6)
    assert "7 fits" in stated.derivation


@pytest.mark.chance(0, "refusals and prices: the scores of the search are not compared")
def test_a_second_search_is_priced_anew(ledger):
    with pytest.warns(co.NotPrivate):
        cross_val_score(private(ledger), X, Y, cv=4, error_score="raise")
    with pytest.raises(co.BudgetExhausted, match="4 private fits"):
        cross_val_score(private(ledger), X, Y, cv=4, error_score="raise")
    assert LocalLedger(ledger).total().runs == 4


@pytest.mark.parametrize(
    "begin",
    [
        lambda model: learning_curve(model, X, Y, cv=2, error_score="raise"),
        lambda model: OneVsRestClassifier(model).fit(X, Y),
        lambda model: cross_val_score(GridSearchCV(model, GRID, cv=2, error_score="raise"), X, Y, error_score="raise"),
        lambda model: TunedThresholdClassifierCV(model, cv=2).fit(X, Y),
        lambda model: RANSACRegressor(model, min_samples=50, max_trials=3).fit(X, Y),
    ],
    ids=["learning curve", "one against the rest", "nested", "threshold", "random samples"],
)
def test_what_cannot_be_priced_beforehand_is_refused(begin, ledger):
    with pytest.raises(co.InvalidInput, match=r"cannot be priced. Nothing was spent"):
        begin(private(ledger))
    assert LocalLedger(ledger).total().runs == 0


@pytest.mark.chance(0, "the number of charged fits: no drawn figure is compared")
def test_what_fits_once_may_stand_around_a_private_fit(ledger):
    FixedThresholdClassifier(private(ledger)).fit(X, Y)
    assert LocalLedger(ledger).total().runs == 1


def test_fits_in_threads_that_do_not_see_their_search_are_refused(ledger):
    import joblib

    with joblib.parallel_backend("threading"), pytest.raises(co.InvalidInput, match="leave n_jobs= out"):
        cross_val_score(private(ledger), X, Y, cv=3, n_jobs=2, error_score="raise")
    assert LocalLedger(ledger).total().runs == 0


def test_an_exact_estimator_is_searched_as_ever():
    assert cross_val_score(make_pipeline(StandardScaler(), co.SparseClassifier(radius=5.0)), X, Y, cv=3).min() > 0.5


# ------------------------------------------------------------------------------------------------ several parties


def federated(store=None) -> co.FederatedClassifier:
    return co.FederatedClassifier(
        parties=2, epsilon=1.0, delta=1e-6, trust="secure", row_norm=2.0, classes=[0, 1], store=store
    )


@pytest.mark.chance(0, "refusals and prices: the scores of the search are not compared")
def test_a_search_over_parties_is_refused_without_room_and_charged_with_it(tmp_path):
    store = tmp_path / "runs"
    with pytest.raises(
        co.BudgetExhausted, match=r"2 private fits of cross_validate.*no store= with ledgers and limits"
    ):
        cross_val_score(federated(store), X, Y, cv=2, error_score="raise")
    books = RunStore(store)
    for name in ("party0", "party1", "labels"):
        Ledger(books.log(name), name, co.Policy()).set_budget(epsilon_of(5.1 * EACH, 1e-6), 1e-6)
    books.close()
    with pytest.warns(co.NotPrivate):
        search = GridSearchCV(federated(store), {"row_norm": [1.0, 2.0]}, cv=2, error_score="raise").fit(X, Y)
    assert search.best_estimator_.privacy_.epsilon == pytest.approx(epsilon_of(5 * EACH, 1e-6), rel=1e-3)
    with pytest.raises(co.BudgetExhausted, match="the ledger of 'party0' has rho"):
        cross_val_score(federated(store), X, Y, cv=2, error_score="raise")


# ------------------------------------------------------------------------------------------------ pipelines

LEARN = {
    "scaler": lambda: StandardScaler(),
    "bounds": lambda: MinMaxScaler(),
    "inside a union": lambda: FeatureUnion([("a", FunctionTransformer()), ("b", StandardScaler())]),
    "inside a pipeline": lambda: make_pipeline(Normalizer(), StandardScaler()),
    "inside columns": lambda: ColumnTransformer([("a", StandardScaler(), [0])], remainder="passthrough"),
    "levels of the data": lambda: OneHotEncoder(handle_unknown="ignore"),
}
PUBLIC = {
    "constants": lambda: FunctionTransformer(lambda cells: cells / 2.0),
    "rows by themselves": lambda: Normalizer(),
    "powers": lambda: PolynomialFeatures(2),
    "columns": lambda: ColumnTransformer([("a", Normalizer(), [0, 1])], remainder="passthrough"),
    "declared levels": lambda: make_pipeline(
        FunctionTransformer(np.sign), OneHotEncoder(categories=[[-1.0, 1.0]] * 4, handle_unknown="ignore")
    ),
    "fitted to public data": lambda: FunctionTransformer(StandardScaler().fit(np.eye(4)).transform),
    "nothing": lambda: "passthrough",
}


@pytest.mark.parametrize("model", [private, federated])
@pytest.mark.parametrize("step", LEARN)
def test_a_step_that_learns_from_the_rows_is_refused_before_a_private_fit(step, model):
    with pytest.raises(co.InvalidInput, match=r"learns from the rows.*Nothing was spent.*FunctionTransformer"):
        make_pipeline(LEARN[step](), model()).fit(X, Y)


def test_steps_of_another_librarys_pipeline_are_looked_at_too():
    class Other(Pipeline):
        def fit(self, X, y):  # as libraries do that resample between steps
            for _, step in self.steps[:-1]:
                X = step.fit_transform(X)
            self.steps[-1][1].fit(X, y)
            return self

    with pytest.raises(co.InvalidInput, match="StandardScaler learns from the rows"):
        Other([("first", StandardScaler()), ("model", private())]).fit(X, Y)


@pytest.mark.chance(0, "epsilon alone is compared, which goes by the plan")
@pytest.mark.parametrize("step", PUBLIC)
def test_a_step_that_learns_nothing_may_come_before_a_private_fit(step):
    model = make_pipeline(PUBLIC[step](), private(method="gaussian")).fit(X, Y)
    assert model[-1].privacy_.epsilon <= 1.0


def test_targets_scaled_by_the_data_are_refused():
    model = co.SparseRegressor(epsilon=1.0, delta=1e-6, label_bound=1.0)
    with pytest.raises(co.InvalidInput, match="StandardScaler learns from the rows"):
        TransformedTargetRegressor(model, transformer=StandardScaler()).fit(X, X[:, 0])


@pytest.mark.chance(0, "what is kept of prices: no drawn figure is compared")
def test_nothing_is_kept_of_a_search_that_is_over(ledger):
    import gc

    with pytest.warns(co.NotPrivate):
        cross_val_score(private(ledger), X, Y, cv=2, error_score="raise")
    gc.collect()
    assert len(base._PRICED) == 0
