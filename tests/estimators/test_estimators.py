"""Claims about the estimators: the certificate without privacy; with it, the ledger, the sensitivities and the statement."""

from __future__ import annotations

import math
import os
import pickle
import warnings
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info, threadpool_limits

import colonnade as co
from colonnade.errors import BudgetExhausted, InvalidInput, NotPrivate, StoreError
from colonnade.estimators import base, recipe
from colonnade.estimators.recipe import ClipMap, PickRecipe, RowMap, RowRecipe, cheaper
from colonnade.estimators.sparse import SparseClassifier, SparseRegressor
from colonnade.kernels.sparse_fw import LossCode
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.conditions import KEYED_STREAM
from colonnade.privacy.events import Mechanism, Policy, plan_rho
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.local import HOLDER, EventLog, LocalLedger, Total
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.statement import Privacy
from tests.helpers.reference import confident

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

DATA = Path(os.environ.get("COLONNADE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


UNTOLD = "ignore::colonnade.errors.NothingToLearn"  # what a fit says about labels and rows that teach it nothing


def table(seed: int, rows: int = 60, columns: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A sparse table of any sign, labels ±1 of both kinds, and values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.6)
    values = X @ rng.normal(size=columns) + rng.normal(size=rows) + 1.0
    labels = np.where(values + rng.normal(size=rows) > 1.0, 1, -1)
    labels[:2] = 1, -1
    return X, labels, values


def logistic_slopes(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return -labels / (1.0 + np.exp(labels * scores))


def private_classifier(**more: object) -> SparseClassifier:
    return SparseClassifier(**{"epsilon": 1.0, "classes": [-1, 1], **more})


# ------------------------------------------------------------------------------------------------ scikit-learn


WEIGHTS = "weights of rows would change what one row may do, so a private fit takes none"
FRESH = "every private fit draws fresh noise: two fits differ"
TINY = "at this budget a model of so few rows is noise"
CLASSES = "classes= is declared; a label that it does not list is nobody's, and raises no error"
TYPES = "which type an array has is public, what a cell holds is not: an array of objects is refused, whatever is in it"
ANY_ROW = "a private fit refuses no row: what is not a number counts as zero"
EXPECTED = {
    "check_sample_weights_pandas_series": WEIGHTS,
    "check_sample_weights_not_an_array": WEIGHTS,
    "check_sample_weights_list": WEIGHTS,
    "check_all_zero_sample_weights_error": WEIGHTS,
    "check_sample_weights_shape": WEIGHTS,
    "check_sample_weights_not_overwritten": WEIGHTS,
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    "check_classifiers_one_label_sample_weights": WEIGHTS,
    "check_fit_idempotent": FRESH,
    "check_classifier_data_not_an_array": FRESH,
    "check_regressor_data_not_an_array": FRESH,
    "check_regressors_int": FRESH,
    "check_supervised_y_2d": FRESH,
    "check_classifiers_train": TINY,
    "check_regressors_train": TINY,
    "check_classifiers_one_label": TINY,
    "check_estimators_nan_inf": ANY_ROW,
    "check_dtype_object": TYPES,
    "check_supervised_y_no_nan": ANY_ROW,
}
EXPECTED_OF_A_CLASSIFIER = {
    "check_classifiers_classes": CLASSES,
    "check_classifiers_regression_target": CLASSES,
    "check_estimator_sparse_array": CLASSES,
    "check_estimator_sparse_matrix": CLASSES,
}
FLAT = "15 rows of 10 columns can be separated: many models have no loss, and weights lead to another one"
EXPECTED_OF_A_HINGE = {
    "check_sample_weight_equivalence_on_dense_data": FLAT,
    "check_sample_weight_equivalence_on_sparse_data": FLAT,
}


def contradicted(estimator: object) -> dict[str, str]:
    """Checks that a private estimator cannot pass, and why."""
    return EXPECTED | (EXPECTED_OF_A_CLASSIFIER if isinstance(estimator, SparseClassifier) else {})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning", "ignore::DeprecationWarning")
@parametrize_with_checks(
    [SparseClassifier(), SparseClassifier(loss="squared_hinge"), SparseRegressor()],
    expected_failed_checks=lambda model: EXPECTED_OF_A_HINGE if getattr(model, "loss", "") == "squared_hinge" else {},
)
def test_open_estimators_keep_every_convention_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.chance(
    1e-7, "ranks of scores cut at 1e-10 differ where two of four rows lie 1e-10 apart on a scale of 1e-5"
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning", "ignore::DeprecationWarning", UNTOLD)
@parametrize_with_checks(
    [SparseClassifier(epsilon=1.0, delta=1e-9, classes=[0, 1])],
    expected_failed_checks=contradicted,
    xfail_strict=False,  # whether a model of noise passes is chance
)
def test_private_classifiers_keep_the_conventions_that_privacy_allows(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning", "ignore::DeprecationWarning", UNTOLD)
@parametrize_with_checks(
    [SparseRegressor(epsilon=1.0, delta=1e-9, label_bound=10.0)],
    expected_failed_checks=contradicted,
    xfail_strict=False,  # whether a model of noise passes is chance
)
def test_private_regressors_keep_them_too(estimator, check):
    check(estimator)


def test_estimators_live_in_pipelines_and_remember_column_names():
    import pandas as pd

    X, labels, values = table(0)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    model = make_pipeline(MaxAbsScaler(), SparseRegressor(radius=2.0)).fit(frame, values)
    assert model.predict(frame).shape == (len(frame),)
    assert list(frame.columns) == list(SparseClassifier().fit(frame, labels).feature_names_in_)


@pytest.mark.chance(0, "one fit is compared with its own copy")
@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_a_fitted_estimator_survives_pickling_with_its_statement(epsilon):
    X, labels, _ = table(1)
    model = SparseClassifier(epsilon=epsilon, classes=[-1, 1]).fit(X, labels)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.decision_function(X), copy.decision_function(X))
    assert model.privacy_ == copy.privacy_


# ------------------------------------------------------------------------------------------------ without privacy


def reference(X: np.ndarray, y: np.ndarray, s: np.ndarray, radius: float, loss: LossCode) -> float:
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    v = X @ w + b
    rows = {
        LossCode.LOGISTIC: lambda: cp.logistic(-cp.multiply(y, v)),
        LossCode.SQUARED: lambda: cp.square(v - y) / 2,
        LossCode.SQUARED_HINGE: lambda: cp.square(cp.pos(1 - cp.multiply(y, v))) / 2,
    }[loss]()
    return confident(cp.Problem(cp.Minimize(s @ rows), [cp.norm1(w) <= radius]))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10_000),
    radius=st.floats(0.05, 30.0),
    weighted=st.booleans(),
    loss=st.sampled_from(list(LossCode)),
)
def test_the_gap_bounds_the_distance_to_the_optimum_of_another_solver(seed, radius, weighted, loss):
    X, labels, values = table(seed, 30, 6)
    weights = np.random.default_rng(seed).random(30) + 0.1 if weighted else None
    if loss is LossCode.SQUARED:
        y, model = values, SparseRegressor(radius=radius)
    else:
        y, model = labels, SparseClassifier(radius, loss="logistic" if loss is LossCode.LOGISTIC else "squared_hinge")
    model.fit(X, y, sample_weight=weights)
    s = np.full(30, 1 / 30) if weights is None else weights / weights.sum()
    objective = model.history_[-1]["objective"]
    excess = objective - reference(X, y.astype(float), s, radius, loss)
    assert -1e-6 <= excess <= model.gap_ + 1e-6  # the other solver's own accuracy
    assert model.gap_ <= 1e-6 * objective + 1e-9
    assert np.abs(model.coef_).sum() <= radius * (1 + 1e-12)


def test_the_intercept_is_the_best_one_so_that_it_adds_nothing_to_the_gap():
    X, labels, _ = table(3)
    model = SparseClassifier(radius=3.0).fit(X, labels)
    slopes = logistic_slopes(X @ model.coef_[0] + model.intercept_[0], labels)
    assert abs(slopes.mean()) < 1e-14


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), radius=st.sampled_from([0.5, 4.0]))
def test_the_order_of_rows_does_not_matter(seed, radius):
    X, labels, values = table(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    for model, y in ((SparseClassifier(radius), labels), (SparseRegressor(radius), values)):
        there, back = model.fit(X, y).coef_, clone(model).fit(X[order], y[order]).coef_
        np.testing.assert_allclose(there, back, rtol=0, atol=1e-9)


def test_dense_sparse_and_single_precision_give_one_model():
    X, labels, _ = table(4)
    X = X.astype(np.float32)
    dense = SparseClassifier(radius=5.0).fit(X, labels)
    for other in (sparse.csr_array(X), sparse.csc_array(X), sparse.coo_matrix(X), X.astype(np.float64)):
        np.testing.assert_allclose(dense.coef_, SparseClassifier(radius=5.0).fit(other, labels).coef_, atol=1e-9)


@pytest.mark.parametrize("offset", [100.0, 10_000.0])
def test_columns_far_from_zero_are_fitted_to_the_certified_gap(offset):
    """They are nearly collinear with each other and with the intercept; a warning would be an error."""
    X, labels, values = table(8)
    assert SparseRegressor(radius=2.0).fit(X + offset, values).gap_ <= 1e-6 * np.var(values)
    assert SparseClassifier(radius=2.0).fit(X + offset, labels).gap_ <= 1e-6 * math.log(2.0)


def test_a_path_gives_what_single_fits_give():
    X, labels, values = table(5)
    radii = [0.1, 1.0, 5.0, 2.0]
    for model, y in ((SparseClassifier(), labels), (SparseRegressor(), values)):
        for radius, found in zip(radii, model.path(X, y, radii), strict=True):
            alone = clone(model).set_params(radius=radius).fit(X, y)
            assert radius == found.radius
            np.testing.assert_allclose(alone.coef_, found.coef_, atol=1e-6)


def test_a_fit_has_one_thread_of_linear_algebra_and_gives_back_what_there_was(monkeypatch):
    X, y, _ = table(3)
    solve, seen = base.corrective_fit, []

    def watched(*args, **more):
        seen.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return solve(*args, **more)

    monkeypatch.setattr(base, "corrective_fit", watched)
    with threadpool_limits(limits=2):
        before = threadpool_info()
        SparseClassifier(radius=1.0).fit(X, y)
        SparseClassifier().path(X, y, [1.0])
        assert threadpool_info() == before
    assert seen
    assert set(seen) == {1}


def test_a_warm_start_saves_passes():
    X, labels, _ = table(6, 400, 60)
    radii = [3.0, 3.0001]
    cold = [len(SparseClassifier(r).fit(X, labels).history_) for r in radii]
    warm = [len(model.history_) for model in SparseClassifier().path(X, labels, radii)]
    assert cold[0] == warm[0]
    assert warm[1] < cold[1]


def test_plain_frank_wolfe_is_feasible_and_its_gap_holds():
    X, labels, _ = table(7)
    rough = SparseClassifier(radius=2.0, method="frank-wolfe", rounds=300).fit(X, labels)
    w = cp.Variable(X.shape[1])
    loss = cp.sum(cp.logistic(-cp.multiply(labels, X @ w))) / len(X)
    best = cp.Problem(cp.Minimize(loss), [cp.norm1(w) <= 2.0]).solve(solver=cp.CLARABEL)
    excess = rough.history_[-1]["objective"] - best
    assert -1e-7 <= excess <= rough.gap_ + 1e-7
    assert np.abs(rough.coef_).sum() <= 2.0 * (1 + 1e-12)


def test_several_classes_are_fitted_one_against_the_rest():
    X, _, values = table(8, 90)
    y = np.digitize(values, np.quantile(values, [0.33, 0.66]))
    model = SparseClassifier(radius=3.0).fit(X, y)
    for k in range(3):
        alone = SparseClassifier(radius=3.0).fit(X, y == k)
        np.testing.assert_allclose(alone.coef_[0], model.coef_[k], atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


BAD = [
    ({"radius": 0.0}, "radius must be a number above 0"),
    ({"method": "magic"}, "choose one of auto"),
    ({"method": "gaussian"}, "give epsilon="),
    ({"loss": "hinge"}, "choose one of logistic"),
    ({"rounds": 0}, "positive integer"),
    ({"max_features": 3}, "the radius decides how sparse"),
    ({"ledger": "x.db"}, "is for private fits"),
    ({"epsilon": 0.0, "classes": [-1, 1]}, "epsilon must be a finite number above 0"),
    ({"epsilon": -1.0, "classes": [-1, 1]}, "epsilon must be a finite number above 0"),
    ({"epsilon": 1.0, "delta": 1.0, "classes": [-1, 1]}, "delta must lie between 0 and 1"),
    ({"epsilon": 1.0}, "needs classes="),
    ({"epsilon": 1.0, "classes": [1]}, "list two or more"),
    ({"epsilon": 1.0, "classes": [-1, 1], "loss": "squared_hinge"}, "loss='logistic'"),
    ({"epsilon": 1.0, "classes": [-1, 1], "ledger": 3}, "path of a file"),
    ({"epsilon": 1.0, "classes": [-1, 1], "max_features": 0}, "positive integer"),
    ({"epsilon": 1.0, "classes": [-1, 1], "feature_bound": math.inf}, "feature_bound must be a number"),
]


@pytest.mark.parametrize(("setting", "advice"), BAD, ids=[str(list(s)) + a[:12] for s, a in BAD])
def test_a_setting_that_cannot_be_used_is_refused_with_advice(setting, advice):
    X, labels, _ = table(9)
    with pytest.raises(InvalidInput, match=advice):
        SparseClassifier(**setting).fit(X, labels)


@pytest.mark.parametrize(
    ("spoil", "advice"),
    [
        (lambda X, y: (X, np.ones(len(y))), "one class"),
        (lambda X, y: (np.where(X.max() == X, np.nan, X), y), "NaN"),
        (lambda X, y: (X[:1], y[:1]), "1 sample"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X, y[:-1]), "inconsistent"),
    ],
    ids=["one class", "nan", "one row", "no columns", "lengths"],
)
def test_data_that_cannot_be_used_are_refused_when_nothing_is_private(spoil, advice):
    X, labels, _ = table(10)
    with pytest.raises(ValueError, match=advice):
        SparseClassifier().fit(*spoil(X, labels))


@pytest.mark.chance(0, "scores are finite whatever is drawn: moments are clipped and nothing is divided by 0")
def test_zero_rows_and_zero_columns_are_no_trouble():
    X, labels, _ = table(11)
    X[5:9] = 0.0
    X[:, 3] = 0.0
    for model in (SparseClassifier(), private_classifier(), private_classifier(method="frank-wolfe")):
        assert np.isfinite(model.fit(X, labels).decision_function(X)).all()
    assert SparseClassifier().fit(np.zeros((4, 2)), [1, 1, 1, 0]).predict([[0.0, 0.0]]) == [1]


# ------------------------------------------------------------------------------------------------ the ledger


def closings(path: Path) -> list[bytes]:
    return [row.body for row in EventLog(path).rows(kind="close")]


@pytest.mark.chance(0, "prices, and that no value is kept")
@pytest.mark.parametrize("method", ["gaussian", "frank-wolfe"])
def test_a_private_fit_is_one_run_whose_events_cost_no_more_than_asked(method, tmp_path):
    X, labels, _ = table(12)
    path = tmp_path / "ledger.db"
    model = private_classifier(ledger=path, method=method).fit(X, labels)
    ledger = Ledger(EventLog(path), HOLDER, Policy())
    paid = math.fsum(entry.event.rho for entry in ledger.entries())
    assert 0.999 * rho_for(1.0, 1e-6) < paid <= rho_for(1.0, 1e-6)
    assert set() == ledger.open_runs()
    assert 0.999 < model.privacy_.epsilon <= 1.0
    assert ledger.log.rows(kind="release") == []  # prices are kept, values are not


@pytest.mark.chance(0, "prices and refusals: nothing that was drawn is compared")
def test_a_budget_refuses_the_fit_that_would_break_it_and_draws_no_noise(tmp_path, monkeypatch):
    X, labels, _ = table(13)
    path = tmp_path / "ledger.db"
    LocalLedger(path).set_limit(1.2, 1e-6)
    model = private_classifier(ledger=path).fit(X, labels)
    before = LocalLedger(path).total()

    def no_noise(*_: object) -> bytes:
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(SystemNoise, "uniform_bytes", no_noise)
    with pytest.raises(BudgetExhausted, match="Nothing was sent"):
        clone(model).fit(X, labels)
    assert before == LocalLedger(path).total()


@pytest.mark.chance(0, "prices: there are five fits, whichever setting wins")
def test_a_grid_search_pays_for_each_of_its_fits(tmp_path):
    X, labels, _ = table(14)
    path = tmp_path / "ledger.db"
    LocalLedger(path).set_limit(3.0, 1e-6)
    with pytest.warns(NotPrivate):
        GridSearchCV(private_classifier(ledger=path), {"feature_bound": [0.5, 1.0]}, cv=2).fit(X, labels)
    total = LocalLedger(path).total()
    assert total.runs == 2 * 2 + 1
    assert total.rho == pytest.approx(5 * rho_for(1.0, 1e-6), rel=1e-9)


def test_a_budget_that_would_end_in_mid_search_refuses_the_search_and_spends_nothing(tmp_path):
    X, labels, _ = table(14)
    path = tmp_path / "ledger.db"
    LocalLedger(path).set_limit(1.2, 1e-6)
    search = GridSearchCV(private_classifier(ledger=path), {"rounds": [None, 3]}, cv=2, error_score="raise")
    with pytest.raises(BudgetExhausted):
        search.fit(X, labels)
    assert LocalLedger(path).total().runs == 0


def stopping_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while noise is drawn for release number `count` + 1."""
    drawn = iter(range(count))
    whole = SystemNoise.discrete_gaussian

    def draw(self: SystemNoise, size: int, sigma: float) -> np.ndarray:
        if next(drawn, None) is None:
            raise KeyboardInterrupt
        return whole(self, size, sigma)

    monkeypatch.setattr(SystemNoise, "discrete_gaussian", draw)


@pytest.mark.chance(0, "prices of what was drawn, not its values")
def test_an_interrupted_fit_is_closed_with_what_it_had_drawn(tmp_path, monkeypatch):
    X, labels, _ = table(15)
    path = tmp_path / "ledger.db"
    stopping_after(3, monkeypatch)
    model = private_classifier(ledger=path, method="gaussian", rounds=10)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, labels)
    ledger = Ledger(EventLog(path), HOLDER, Policy())
    whole = rho_for(1.0, 1e-6)
    assert [0.01 * whole, *[0.093 * whole] * 2] == pytest.approx([entry.event.rho for entry in ledger.entries()])
    assert b"interrupted" in closings(path)[0]
    assert not hasattr(model, "coef_")


@pytest.mark.chance(0, "the old model is compared with itself")
def test_an_interrupted_fit_leaves_the_old_model_beside_its_own_statement(tmp_path, monkeypatch):
    X, labels, _ = table(15)
    model = private_classifier(ledger=tmp_path / "ledger.db", method="gaussian", rounds=10).fit(X, labels)
    before = dict(vars(model))
    stopping_after(3, monkeypatch)
    model.set_params(epsilon=2.0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :4], labels)
    assert {**before, "epsilon": 2.0} == vars(model)  # the very same objects, the number of columns included
    assert model.decision_function(X).shape == labels.shape


@pytest.mark.chance(0, "prices: fits are counted, whatever they drew")
def test_an_interrupted_fit_in_memory_is_counted_too(monkeypatch):
    X, labels, _ = table(15)
    model = private_classifier(method="gaussian", rounds=10)
    with monkeypatch.context() as patch:
        stopping_after(3, patch)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, labels)
    assert "2 fits, rho" in str(model.fit(X, labels).privacy_)


@pytest.mark.chance(0, "prices and refusals: nothing that was drawn is compared")
def test_a_fit_that_cannot_be_closed_keeps_its_whole_reservation(tmp_path, monkeypatch):
    X, labels, _ = table(16)
    path = tmp_path / "ledger.db"
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "close_run", lambda *_: (_ for _ in ()).throw(StoreError("disk full")))
        with pytest.raises(StoreError):
            private_classifier(ledger=path).fit(X, labels)
    assert LocalLedger(path).total().rho == pytest.approx(rho_for(1.0, 1e-6), rel=1e-9)


def test_a_limit_counts_the_rounding_of_the_sampler_over_many_fits(tmp_path):
    """Each run is cheap in rho; what their samplers may be off by, as their terms say, is over the limit."""
    plan, distance = PickRecipe(1000, 50, 1e-7, 1.0, 1, True, 50.0).plan(), 1e-8
    terms = Terms("test", "", "nobody", "one row", "replace one row", "")
    ledger = LocalLedger(tmp_path / "ledger.db")
    ledger.set_limit(1.0, 3.5 * (1.0 + math.e) * distance)
    for _ in range(3):
        with ledger.run(terms, plan, SystemNoise(), distance):
            pass
    before = ledger.total()
    assert before.distance == pytest.approx(3 * distance)
    with (
        pytest.raises(BudgetExhausted, match="rounding of samplers"),
        ledger.run(terms, plan, SystemNoise(), distance),
    ):
        pass
    assert before == ledger.total()


@pytest.mark.chance(0, "prices and refusals: nothing that was drawn is compared")
def test_a_limit_that_a_fit_just_meets_is_met_and_no_second_fit_is():
    X, labels, _ = table(17)
    for method in ("gaussian", "frank-wolfe"):
        model = private_classifier(method=method)
        model._memory = LocalLedger()
        model._memory.set_limit(1.0, 1e-6)
        model.fit(X, labels)
        with pytest.raises(BudgetExhausted):
            model.fit(X, labels)


@given(rho=st.floats(1e-4, 1.0), distance=st.floats(0.0, 1e-8))
@settings(max_examples=30, deadline=None)
def test_the_epsilon_of_a_total_pays_for_rho_and_for_distances(rho, distance):
    total = Total(rho, 3, distance)
    found = total.epsilon(1e-6)
    assert found >= epsilon_of(rho, 1e-6)
    if math.isfinite(found):
        assert epsilon_of(rho, 1e-6 - (1 + math.exp(found)) * distance) <= found
    else:  # then not even an epsilon that needs a tenth of delta only leaves that tenth
        assert (1 + math.exp(epsilon_of(rho, 1e-7))) * distance > 0.89e-6


def test_a_run_of_picks_without_a_known_distance_leaves_no_promise():
    memory = LocalLedger()
    ledger = Ledger(memory.memory, HOLDER, Policy())
    ledger.open_run(
        "old", Terms("t", "{}", "nobody", "u", "n", ""), {HOLDER: PickRecipe(9, 3, 0.1, 1, 1, True, 1).plan()}
    )
    assert memory.total().epsilon(1e-6) == math.inf


@pytest.mark.chance(0, "statements of prices")
def test_without_a_file_the_fits_of_one_estimator_add_up_in_memory_and_the_statement_says_so():
    X, labels, _ = table(17)
    model = private_classifier()
    first, second = model.fit(X, labels).privacy_, model.fit(X, labels).privacy_
    assert "1 fit, rho" in str(first)
    assert "epsilon 1.452 at delta" in str(second)
    assert "in memory with this estimator" in str(second)
    assert "1 fit," in str(clone(model).fit(X, labels).privacy_)


@pytest.mark.chance(0, "a statement, prices and a shape")
def test_the_statement_of_several_classes_says_how_the_budget_is_split():
    X, labels, _ = table(18)
    model = SparseClassifier(epsilon=1.0, classes=["a", "b", "c"]).fit(
        X, [*np.array(["a", "b"])[(labels > 0).astype(int)].tolist()[:-1], "c"]
    )
    assert "each of 3 one-against-rest models has 1/3 of the budget" in str(model.privacy_)
    assert model.coef_.shape == (3, X.shape[1])
    assert 0.999 < model.privacy_.epsilon <= 1.0


def test_a_delta_that_protects_nobody_is_refused_with_the_reason():
    X, labels, _ = table(19)
    with pytest.raises(
        InvalidInput, match=r"not below 1/rows = 0\.017: publishing one of them at random would satisfy it"
    ):
        private_classifier(delta=0.1).fit(X, labels)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_a_regressor_refuses_an_epsilon_that_is_none(epsilon):
    X, _, values = table(19)
    with pytest.raises(InvalidInput, match="epsilon must be a finite number above 0"):
        SparseRegressor(epsilon=epsilon, label_bound=1.0).fit(X, values)


def test_a_private_fit_needs_a_column():
    with pytest.raises(ValueError, match="0 feature"):
        private_classifier().fit(np.zeros((5, 0)), [1, -1, 1, -1, 1])


# ------------------------------------------------------------------------------------------------ sensitivity


class Scripted:
    """A gate without noise that writes down what it was given, and answers from a script if it has one."""

    def __init__(self, script: list[np.ndarray] | None = None) -> None:
        self.given: list[tuple[np.ndarray, float, float]] = []
        self.script = script
        self.rng = np.random.default_rng(0)

    def gaussian(self, private, *, rho):
        self.given.append((private.value, private.sensitivity, rho))
        noise = self.rng.normal(size=private.value.shape) * private.sensitivity / math.sqrt(2 * rho)
        value = private.value + noise if self.script is None else self.script[len(self.given) - 1]
        return type("Answer", (), {"value": value})()


ROW = st.lists(st.sampled_from([0.0, 0.3, 1.0, -1.0, 5.0, 1e-300, 1e300, math.nan, math.inf]), min_size=6, max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    new=ROW,
    label=st.sampled_from([-1.0, 1.0, 0.25]),
    steps=st.sampled_from([None, 4]),
    keep=st.sampled_from([None, 3]),
)
def test_no_release_moves_further_than_its_sensitivity_when_a_row_is_replaced(seed, new, label, steps, keep):
    """The second table is given the first one's answers, so that both are asked the same questions."""
    X, _, values = table(seed, 20, 6)
    t = np.clip(values, -1.0, 1.0) if label == 0.25 else np.sign(values)
    made = RowRecipe(20, 6, 0.5, 1.0, 1, label != 0.25, keep=keep, rounds=steps)
    one = Scripted()
    made.fit(one, X, [t])
    answers = replayed_answers(made, X, t)
    other = X.copy()
    other[3], other_t = new, t.copy()
    other_t[3] = label
    first, second = Scripted(answers), Scripted(answers)
    made.fit(first, X, [t])
    made.fit(second, other, [other_t])
    assert len(first.given) == sum(charge.count for charge in made.plan())
    for (a, sensitivity, _), (b, again, _) in zip(first.given, second.given, strict=True):
        assert sensitivity == again
        assert np.linalg.norm(a - b) <= sensitivity


def replayed_answers(made: RowRecipe, X: np.ndarray, t: np.ndarray) -> list[np.ndarray]:
    answers: list[np.ndarray] = []

    class Recording(Scripted):
        def gaussian(self, private, *, rho):
            answer = super().gaussian(private, rho=rho)
            answers.append(answer.value)
            return answer

    made.fit(Recording(), X, [t])
    return answers


def test_the_sensitivities_of_sum_and_gradient_are_reached():
    """A bound that nothing reaches would be paid for with noise that nobody needs."""
    for steps in (None, 1):
        made = RowRecipe(4, 2, 0.5, 1.0, 1, True, rounds=steps)
        X, t = np.array([[1.0, 0], [0, 1], [0, 1], [0, 1]]), np.array([1.0, -1, -1, -1])
        answers = [np.array([-2.0]), np.zeros(2), np.zeros(4)]
        if steps is not None:
            answers.insert(2, np.zeros(recipe.SPREADS.size))
        moved = []
        for sign in (1.0, -1.0):
            gate = Scripted(answers)
            made.fit(gate, X * [[sign], [1], [1], [1]], [t])
            moved.append(gate.given[1])
        assert np.linalg.norm(moved[0][0] - moved[1][0]) == pytest.approx(moved[0][1], rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=4), power=st.sampled_from([0.25, 0.5, 1.0]), keep=st.booleans())
def test_every_row_has_norm_one_or_zero_whatever_its_entries_were(rows, power, keep):
    kept = np.array([0, 2]) if keep else None
    made = RowMap(1.0, power, kept)(np.array(rows)).toarray()
    norms = np.linalg.norm(made, axis=1)
    assert ((np.abs(norms - 1.0) < 1e-14) | (norms == 0.0)).all()
    clean = np.clip(np.nan_to_num(np.array(rows), nan=0.0, posinf=1.0, neginf=-1.0), -1, 1)
    assert ((np.sign(clean) == np.sign(made)) | (made == 0.0)).all()


@pytest.mark.chance(0, "scales and prices: what was picked is not looked at")
def test_picks_are_drawn_at_a_scale_that_their_price_pays_for(monkeypatch):
    X, labels, _ = table(20)
    scales = []
    whole = recipe.exact_picks

    def spy(*args, **more):
        scales.append((more["scale"], more["rounds"], more["feature_bound"]))
        return whole(*args, **more)

    monkeypatch.setattr(recipe, "exact_picks", spy)
    private_classifier(method="frank-wolfe", feature_bound=0.5, rounds=7).fit(X, labels)
    SparseRegressor(epsilon=1.0, label_bound=2.0, method="frank-wolfe", rounds=3).fit(X, labels)
    for scale, rounds, bound in scales:
        price = rounds * (2 * bound * scale) ** 2 / 2
        assert 0.99 * rho_for(1.0, 1e-6) < price <= rho_for(1.0, 1e-6)


@pytest.mark.parametrize(
    ("rows", "columns", "rounds", "delta"),
    [(19_996, 1_355_191, 4_000, 1e-6), (8_407_752, 30_000_000, 4_000, 1e-9), (100, 50, 100_000, 1e-12)],
)
def test_the_whole_budget_goes_to_the_picks_however_many_and_among_however_many_columns(rows, columns, rounds, delta):
    """The shapes of News20 and KDDA, and more picks than rows: the sampler takes nothing of delta."""
    model = SparseClassifier(radius=50.0, rounds=rounds, epsilon=1.0, delta=delta, method="frank-wolfe")
    made, _ = model._recipe(rows, columns, Privacy(1.0, delta), 1, True, 1.0)
    assert made.picks == rounds
    assert made.distance == 0.0
    assert plan_rho(made.plan()) == pytest.approx(rho_for(1.0, delta), rel=1e-11)


@pytest.mark.chance(0, "prices: what was picked is not looked at")
def test_a_fit_of_picks_states_its_rho_and_all_of_its_epsilon():
    X, labels, _ = table(21)
    few = private_classifier(method="frank-wolfe", epsilon=30.0, delta=1e-6).fit(X, labels)
    assert few.privacy_.epsilon == pytest.approx(30.0, rel=1e-9)
    assert few.privacy_.rho == pytest.approx(rho_for(30.0, 1e-6), rel=1e-9)


@pytest.mark.chance(0, "conditions of statements: nothing that was drawn is looked at")
def test_a_fit_of_picks_names_the_stream_that_they_are_drawn_from_and_no_other_fit_does():
    """Picks come from a ChaCha20 stream under 32 bytes of the system, Gaussian noise from those bytes."""
    X, labels, _ = table(21)
    picked = private_classifier(method="frank-wolfe", epsilon=30.0, delta=1e-6).fit(X, labels).privacy_
    assert (picked.guarantee, picked.computational, picked.conditions) == ("conditional", True, (KEYED_STREAM,))
    assert "It holds if nobody tells a ChaCha20 stream" in picked.sentence
    other = private_classifier(method="gaussian", epsilon=30.0, delta=1e-6).fit(X, labels).privacy_
    assert (other.guarantee, other.computational, other.conditions) == ("proven", False, ())


@pytest.mark.chance(0, "which streams were made: nothing that was drawn is looked at")
@pytest.mark.parametrize(("method", "streams"), [("frank-wolfe", 1), ("gaussian", 0)])
def test_a_stream_is_keyed_by_the_system_for_picks_and_for_nothing_else(method, streams, monkeypatch):
    from colonnade.privacy import gate

    keyed = []
    whole = gate.keyed_stream
    monkeypatch.setattr(gate, "keyed_stream", lambda key: keyed.append(key) or whole(key))
    X, labels, _ = table(21)
    private_classifier(method=method, epsilon=30.0, delta=1e-6).fit(X, labels)
    assert [len(key) for key in keyed] == [32] * streams


@pytest.mark.chance(0, "conditions of statements: nothing that was drawn is looked at")
def test_a_search_that_chose_by_picks_names_their_stream_whatever_method_won(tmp_path):
    """Who sees the last model has seen what chose it: the statement is about all that the ledger has."""
    X, labels, _ = table(21)
    path = tmp_path / "train.ledger"
    LocalLedger(path).set_limit(60.0, 1e-6)
    private_classifier(method="frank-wolfe", epsilon=1.0, delta=1e-6, ledger=path).fit(X, labels)
    plain = private_classifier(method="gaussian", epsilon=1.0, delta=1e-6, ledger=path)
    assert plain.fit(X, labels).privacy_.conditions == ()  # about this fit alone
    with pytest.warns(co.NotPrivate):
        search = GridSearchCV(plain, {"feature_bound": [0.5, 1.0]}, cv=2, error_score="raise").fit(X, labels)
    found = search.best_estimator_.privacy_
    assert (found.guarantee, found.conditions) == ("conditional", (KEYED_STREAM,))


def test_noise_too_small_for_the_bounds_of_scores_is_refused():
    """2^30 is 10^9: with 10^-8 of slack a proposal would be accepted once in e^10 times, and beyond that never."""
    made = PickRecipe(1_000, 50, 8.0, 3.0, 1, True, 50.0, rounds=4)
    assert made.reach == pytest.approx(1_000.0)  # n·B·√(2ρ/T)/(2B)
    model = SparseClassifier(epsilon=1e12, delta=1e-6, method="frank-wolfe", rounds=1)
    with pytest.raises(InvalidInput, match="times the noise"):
        model._recipe(100_000, 10, Privacy(1e12, 1e-6), 1, True, 1.0)
    assert model._recipe(1_000, 10, Privacy(1e12, 1e-6), 1, True, 1.0)[0].reach > 1e8


@pytest.mark.parametrize("keep", [None, 5])
@pytest.mark.parametrize("targets", [1, 4])
@pytest.mark.parametrize("rho", [1e-6, 0.5])
def test_a_plan_costs_the_budget_and_not_more(rho, targets, keep):
    for made in (
        RowRecipe(20_000, 300, rho, 1.0, targets, True, keep=keep),
        RowRecipe(200, 300, rho, 1.0, targets, True, keep=keep),
        RowRecipe(200, 300, rho, 1.0, targets, True, keep=keep, rounds=7),
        PickRecipe(20_000, 300, rho, 1.0, targets, True, 50.0, keep=keep),
    ):
        assert plan_rho(made.plan()) == pytest.approx(rho, rel=1e-12)
        kinds = {charge.event.mechanism for charge in made.plan()}
        assert kinds == {Mechanism.GAUSSIAN if isinstance(made, RowRecipe) else Mechanism.PICKS}


@pytest.mark.parametrize("rounds", [None, 3])
@pytest.mark.parametrize(("columns", "centred"), [(8, True), (90, False)])
def test_the_mean_of_targets_is_paid_for_only_where_it_is_used(columns, centred, rounds):
    made = RowRecipe(60, columns, 0.5, 1.0, 1, True, rounds=rounds)
    assert centred == any(charge.what == "mean of a target" for charge in made.plan())
    X, labels, _ = table(29, 60, columns)
    gate = Scripted()
    made.fit(gate, X, [labels.astype(float)])
    paid, planned = [rho for _, _, rho in gate.given], [c.event.rho for c in made.plan() for _ in range(c.count)]
    assert sorted(planned) == pytest.approx(sorted(paid))


# ------------------------------------------------------------------------------------------------ what a private fit does


@pytest.mark.chance(0, "figures are finite whatever is drawn: moments are clipped and nothing is divided by 0")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda X, y: (X, np.ones(len(y))),
        lambda X, y: (np.where(X.max() == X, np.nan, X), y),
        lambda X, y: (np.where(X.max() == X, np.inf, X), y),
        lambda X, y: (np.where(X.max() == X, -1e308, X), y),
        lambda X, y: (X, np.where(np.arange(len(y)) == 3, 77, y)),
        lambda X, y: (np.zeros_like(X), y),
        lambda X, y: (X[:1], y[:1]),
    ],
    ids=["one class", "nan", "inf", "huge", "unlisted label", "all zero", "one row"],
)
@pytest.mark.parametrize("method", ["gaussian", "frank-wolfe"])
@pytest.mark.filterwarnings(UNTOLD)
def test_no_row_makes_a_private_fit_fail(method, spoil):
    X, y = spoil(*table(22)[:2])
    model = private_classifier(method=method).fit(X, y)
    values = SparseRegressor(epsilon=1.0, label_bound=1.0, method=method).fit(X, np.where(y == 77, np.nan, y))
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(values.predict(table(22)[0])).all()


def test_a_regressor_needs_a_declared_label_bound():
    X, _, values = table(23)
    with pytest.raises(InvalidInput, match=r"needs label_range=\(low, high\)"):
        SparseRegressor(epsilon=1.0).fit(X, values)


@pytest.mark.chance(
    1e-30, "seven sums with noise of sd 22,000 steps are all 0 at 6e-34; picks of weights 2 to 8 never cancel"
)
def test_a_sparse_answer_has_at_most_so_many_columns():
    X, labels, values = table(24, 200, 40)
    for method in ("gaussian", "frank-wolfe"):
        model = private_classifier(max_features=7, method=method).fit(X, labels)
        assert 1 <= np.count_nonzero(model.coef_) <= 7
        assert np.isfinite(model.decision_function(X)).all()
    regressor = SparseRegressor(epsilon=1.0, label_bound=5.0, max_features=7, method="gaussian").fit(X, values)
    assert np.count_nonzero(regressor.coef_) <= 7


@pytest.mark.chance(0, "weights of seven picks, 2 to 8, add up to an odd number: with no signs do all cancel")
@pytest.mark.parametrize("rounds", [None, 50])
def test_picks_never_exceed_the_columns_asked_for(rounds):
    assert PickRecipe(1000, 40, 0.5, 1.0, 1, True, 50.0, keep=7, rounds=rounds).picks <= 7
    X, labels, _ = table(24, 200, 40)
    model = private_classifier(max_features=7, rounds=rounds, method="frank-wolfe").fit(X, labels)
    assert 1 <= np.count_nonzero(model.coef_) <= 7


SECRET = "a name that stands in one cell"


@pytest.mark.parametrize(
    ("spoil", "advice"),
    [
        (lambda X: np.where(np.arange(X.size).reshape(X.shape) == 5, SECRET, X.astype(str)), "arrays of numbers only"),
        (lambda X: [[SECRET, *row[1:]] for row in X.tolist()], "arrays of numbers only"),
        (lambda X: X.astype(object), "arrays of numbers only"),
        (lambda X: X + 1j, "Complex data not supported"),
        (lambda X: X.ravel(), "1 dimensions and not 2"),
        (lambda X: [row[: 2 + i % 2] for i, row in enumerate(X.tolist())], "different lengths"),
    ],
    ids=["texts", "list", "objects", "complex", "flat", "ragged"],
)
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_an_array_that_a_private_fit_refuses_is_not_quoted(kind, spoil, advice):
    X, labels, _ = table(27)
    model = private_classifier() if kind == "classifier" else SparseRegressor(epsilon=1.0, label_bound=1.0)
    with pytest.raises(InvalidInput, match=advice) as refused:
        model.fit(spoil(X), labels)
    assert SECRET not in str(refused.value)
    assert f"{X[0, 0]:.3g}" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize("kind", ["boolean", "Int64", "Float64", "bool[pyarrow]", "int64[pyarrow]", "polars"])
@pytest.mark.parametrize("estimator", ["one holder", "federated"])
def test_whether_a_private_fit_is_refused_does_not_depend_on_a_missing_cell(estimator, kind, monkeypatch):
    """A frame of Booleans or numbers is taken with and without a null, under its names, and a null counts as zero."""
    rng = np.random.default_rng(0)
    cells, y = rng.random((40, 3)) < 0.5, np.where(rng.random(40) < 0.5, -1, 1)
    holes = cells.astype(object)
    holes[7, 1] = None

    def frame(values):
        if kind == "polars":
            return pl.DataFrame({f"c{j}": pl.Series(values[:, j].tolist(), dtype=pl.Boolean) for j in range(3)})
        return pd.DataFrame({f"c{j}": pd.array(values[:, j].tolist(), dtype=kind) for j in range(3)})

    if estimator == "federated":
        model = co.FederatedClassifier(epsilon=1.0, classes=[-1, 1], row_norm=1.0, feature_bound=1.0)
        tables = [model._table(frame(values), reset=True) for values in (cells, holes)]
    else:
        tables = []
        monkeypatch.setattr(
            SparseClassifier, "_private", lambda self, X, *_: tables.append(X) or (np.zeros((1, 3)), np.zeros(1))
        )
        for values in (cells, holes):
            model = private_classifier().fit(frame(values), y)
            assert model.feature_names_in_.tolist() == ["c0", "c1", "c2"]
    assert [table.dtype for table in tables] == [np.float64] * 2
    cells[7, 1] = 0
    np.testing.assert_array_equal(np.nan_to_num(tables[1]), cells.astype(float))


def test_a_value_that_is_no_number_counts_as_zero_and_is_not_quoted(monkeypatch):
    seen: list[np.ndarray] = []
    monkeypatch.setattr(
        SparseRegressor, "_private", lambda self, X, t, *_: seen.append(t[0]) or (np.zeros((1, 2)), [0.0])
    )
    X, y = np.ones((4, 2)), [0.5, SECRET, None, 10**400]
    SparseRegressor(epsilon=1.0, delta=1e-9, label_bound=1.0).fit(X, np.array(y, dtype=object))
    assert seen[0].tolist() == [0.5, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("method", ["gaussian", "frank-wolfe"])
def test_what_a_private_fit_is_asked_does_not_depend_on_the_form_or_order_of_rows(method, monkeypatch):
    """Noise differs from fit to fit, so exact values are compared: those that the gate is given, and the picks' scores."""
    X, labels, _ = table(28)
    order = np.random.default_rng(0).permutation(len(X))
    forms = [(X, labels), (sparse.csr_array(X), labels), (sparse.csc_matrix(X), labels), (X[order], labels[order])]
    given: list[list[np.ndarray]] = []
    answers: list[np.ndarray] = []
    for rows, y in forms:
        gate = Scripted(answers or None)
        if method == "gaussian":
            made = RowRecipe(60, 8, 0.5, 1.0, 1, True, rounds=3, keep=5)
            if not answers:
                answers = replayed_answers(made, rows, y.astype(float))
                gate = Scripted(answers)
            made.fit(gate, rows, [y.astype(float)])
            given.append([value for value, _, _ in gate.given])
        else:
            columns = sparse.csc_array(ClipMap(1.0)(rows))
            given.append([columns.T @ logistic_slopes(columns @ np.arange(8.0), y)])
    for other in given[1:]:
        for one, two in zip(given[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-9)


@pytest.mark.chance(0, "scores of one model, worked out in two ways to a bound on their rounding")
@pytest.mark.parametrize("method", ["gaussian", "frank-wolfe"])
def test_new_rows_are_treated_as_the_rows_of_the_fit_were(method):
    """Settings changed after the fit do not reach the fitted model, and row_norm is a matter of units."""
    X, labels, _ = table(24)
    model = private_classifier(method=method, row_norm=3.0, feature_bound=0.5).fit(X, labels)
    before = model.decision_function(X)
    np.testing.assert_allclose(before, model.decision_function(np.clip(X, -0.5, 0.5)))
    mapped = model._rows(X).toarray()
    sizes = np.abs(mapped) @ np.abs(model.coef_[0]) + abs(model.intercept_[0])
    rounding = 2 * mapped.shape[1] * np.finfo(np.float64).eps * float(sizes.max())  # terms may cancel, in another order
    np.testing.assert_allclose(before, mapped @ model.coef_[0] + model.intercept_[0], atol=rounding)
    if method == "gaussian":
        np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), 3.0)
    model.set_params(row_norm=1.0, feature_bound=9.0)
    np.testing.assert_array_equal(before, model.decision_function(X))


def test_entries_stored_twice_count_as_their_sum():
    X, labels, _ = table(26)
    half = sparse.coo_array(X / 2)
    parts = np.concatenate([half.data] * 2), tuple(np.concatenate([k] * 2) for k in half.coords)
    twice = sparse.coo_array(parts, shape=X.shape)
    once, again = (SparseClassifier(3.0).fit(rows, labels).coef_ for rows in (X, twice))
    np.testing.assert_allclose(once, again, atol=1e-9)


def test_slope_and_intercept_follow_from_the_moments_of_scores_by_hand():
    """Log-odds of two normal classes with one variance; for numbers the line of least squares."""
    rng = np.random.default_rng(3)
    t = np.where(rng.random(500) < 0.3, 1.0, -1.0)
    z = np.clip(0.3 * t + 0.2 * rng.normal(size=500), -1.0, 1.0)
    up, down, share = z[t > 0], z[t < 0], (t > 0).mean()
    within = share * up.var() + (1.0 - share) * down.var()
    slope = (up.mean() - down.mean()) / within
    intercept = math.log(share / (1.0 - share)) - slope * (up.mean() + down.mean()) / 2.0
    moments = z.mean(), (z * z).mean(), (z * t).mean(), t.mean()
    assert recipe._log_odds(*moments) == pytest.approx((slope, intercept))
    assert recipe._least_squares(*moments) == pytest.approx(tuple(np.polyfit(z, t, 1)))
    # Whatever noise makes of the moments: shares within 1 and 99 %, means of scores within ±1, no order turned round.
    assert recipe._log_odds(0.0, 0.5, 0.0, -3.0)[1] == pytest.approx(math.log(0.01 / 0.99))
    assert recipe._log_odds(0.0, 0.5, 0.0, 3.0)[1] == pytest.approx(math.log(0.99 / 0.01))
    assert recipe._log_odds(0.0, 0.5, -0.4, 0.0)[0] == 1e-3
    assert recipe._log_odds(0.0, 0.0, 5.0, 0.0)[0] == pytest.approx(2.0 / 0.01)
    assert recipe._least_squares(0.0, 0.5, -0.4, 3.0) == (0.0, 1.0)
    assert recipe._least_squares(0.0, 0.0, 5.0, 0.0) == (100.0, 0.0)


@pytest.mark.parametrize("classify", [True, False])
def test_moments_of_scores_move_no_further_than_charged_however_far_a_score_lies(classify):
    moments = []

    class Watched:
        def gaussian(self, exact, *, rho):
            moments.append((exact.value, exact.sensitivity))
            return exact

    made = RowRecipe(10, 3, 0.1, 1.0, 1, classify, 1.0)
    for score, t in ((1e9, 1.0), (-1e9, -1.0), (-1e9, 1.0), (0.0, -1.0)):
        made._calibrate(Watched(), np.array([score, *[0.1] * 9]), np.array([t, *[1.0] * 9]), 2.0)
    charged = math.sqrt(8.0 if classify else 12.0)
    assert all(charged <= sensitivity <= charged * (1 + 1e-9) for _, sensitivity in moments)
    apart = [np.linalg.norm(a - b) for a, _ in moments for b, _ in moments]
    assert math.sqrt(8.0) * (1 - 1e-9) <= max(apart) <= charged * (1 + 1e-9)


def test_the_cheaper_geometry_is_chosen_from_public_figures():
    wide = {"bound": 1.0, "radius": 50.0, "classify": True}
    assert cheaper(20_000, 47_000, 0.02, norm=1.0, **wide) == "gaussian"
    assert cheaper(20_000, 47_000, 0.02, norm=300.0, **wide) == "frank-wolfe"
    assert cheaper(20_000, 10**9, 0.02, norm=1.0, bound=1.0, radius=1.0, classify=True) == "frank-wolfe"


def sample(rows: int, share: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Two classes a good way apart: the first column leans one way, the second the other."""
    rng = np.random.default_rng(25)
    y = np.where(rng.random(rows) < share, 1, -1)
    X = rng.normal(size=(rows, 10)) * 0.2
    X[:, 0] += 0.3 * y
    X[:, 1] -= 0.3 * y
    return X, y


@pytest.mark.chance(1e-10, "over 15 fits each a margin of 4,000 sds")
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_private_classifier_learns_what_is_there_to_learn(epsilon):
    """0.998 without privacy; 40 private fits gave 0.998 with a deviation below 0.0001, so 0.9 is never reached by chance."""
    X, y = sample(20_000)
    model = private_classifier(epsilon=epsilon).fit(X[:15_000], y[:15_000])
    assert roc_auc_score(y[15_000:], model.decision_function(X[15_000:])) > 0.9


@pytest.mark.chance(1e-10, "over 12 fits margins of 110 sds and more")
def test_the_intercept_of_a_private_classifier_follows_the_share_of_the_classes():
    """Over 40 fits both figures had a deviation of 0.0006 around 0.107: the limits are more than 80 deviations away."""
    X, y = sample(20_000, 0.1)
    model = private_classifier(epsilon=2.0).fit(X, y)
    assert 0.03 < (model.predict(X) == 1).mean() < 0.2
    assert abs(model.predict_proba(X)[:, 1].mean() - 0.1) < 0.05


@pytest.mark.chance(1e-10, "over 25 fits margins of 29 sds of the log-loss and 400 of the area")
def test_rare_classes_are_learnt_and_their_odds_are_right():
    """Over 20 fits the area was 0.9988 and the log-loss 0.024, with deviations of 0.0001 and 0.003; the share alone has 0.138."""
    X, y = sample(20_000, 0.03)
    model = private_classifier(epsilon=4.0).fit(X[:15_000], y[:15_000])
    assert roc_auc_score(y[15_000:], model.decision_function(X[15_000:])) > 0.95
    share = (y > 0).mean()
    trivial = -(share * math.log(share) + (1 - share) * math.log(1 - share))
    assert log_loss(y[15_000:], model.predict_proba(X[15_000:])[:, 1]) < 0.7 * trivial


@pytest.mark.chance(1e-10, "over 25 fits margins of 18 sds of the mean and 100 of the root of 1 - R2")
def test_a_private_regressor_learns_a_line_and_its_offset():
    """Over 40 fits R² was 0.94 with a deviation of 0.02, and the mean prediction 4.0 with one of 0.02."""
    X, _ = sample(20_000)
    y = 3.0 * X[:, 0] - 2.0 * X[:, 1] + 4.0
    model = SparseRegressor(epsilon=2.0, label_bound=8.0).fit(X, y)
    assert model.score(X, y) > 0.4
    assert abs(model.predict(X).mean() - 4.0) < 0.3


# ------------------------------------------------------------------------------------------------ real data


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "rcv1").is_dir(), reason="rcv1 is not on this machine")
def test_private_models_of_rcv1_reach_their_accuracy_by_default():
    """Means of 4 splits. By 8 splits their standard errors are 0.0037, 0.0007, 0.0003 and 0.001: margins of 3.9 and more."""
    X = sparse.csr_array(sparse.load_npz(DATA / "rcv1" / "X.npz"))
    y = np.load(DATA / "rcv1" / "y.npy")
    X, y = X[y != 0], y[y != 0]
    wanted = {(0.1, None): 0.90, (1.0, None): 0.978, (4.0, None): 0.987, (1.0, 2000): 0.970}
    for (epsilon, keep), least in wanted.items():
        found = []
        for seed in range(4):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = np.split(order, [int(0.8 * len(y))])
            model = private_classifier(epsilon=epsilon, max_features=keep).fit(X[train], y[train])
            found.append(roc_auc_score(y[test], model.decision_function(X[test])))
            assert keep is None or np.count_nonzero(model.coef_) <= keep
        assert np.mean(found) >= least


@pytest.mark.parametrize("odd", ["x", None, 2.5, float("nan"), True, 10**30, "?"])
@pytest.mark.parametrize(
    "kind", [list, np.array, lambda y: np.array(y, dtype=object)], ids=["list", "array", "objects"]
)
def test_one_odd_label_changes_no_other_target(odd, kind, monkeypatch):
    """An array of all labels together takes its type from the oddest one: '1' == 1 is then False for every row."""
    seen: list[np.ndarray] = []

    def capture(self, X, targets, classify, scale, notices):
        seen.append(targets[0])
        return np.zeros((1, X.shape[1])), np.zeros(1)

    monkeypatch.setattr(SparseClassifier, "_private", capture)
    X, plain = np.ones((20, 2)), [0, 1] * 10
    for y in (plain, [odd, *plain[1:]]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            SparseClassifier(epsilon=1.0, delta=1e-9, classes=[0, 1]).fit(X, kind(y))
    assert (seen[0][1:] == seen[1][1:]).all()
    assert set(np.concatenate(seen)) <= {-1.0, 1.0}


@pytest.mark.chance(0, "what warns goes by public figures and the table")
def test_a_wild_label_gives_no_warning_of_its_own():
    """Warnings are errors here; whether one comes must not depend on a single label."""
    X, y = np.linspace(-1.0, 1.0, 60).reshape(30, 2), np.zeros(30)
    y[0] = 1e308
    SparseRegressor(epsilon=1.0, delta=1e-9, label_bound=0.1).fit(X, y)
