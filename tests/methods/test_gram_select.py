"""The weight of a penalty chosen from a release: at no price, and for the error that the model has on other rows."""

import numpy as np
import pytest

import colonnade as co
from colonnade.model.job import Job

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS, COLUMNS = 3000, 12
TRUTH = np.append([0.6, -0.4, 0.3], np.zeros(COLUMNS - 3))
PENALTIES = [co.Ridge(0.02), co.Lasso(0.02), co.ElasticNet(0.02, 0.01)]


def table(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (rows, COLUMNS))
    return X, np.clip(X @ TRUTH + 0.3 * rng.normal(size=rows), -2.0, 2.0)


def fitted(store, penalty, select, *, classes=False, epsilon=8.0, **settings):
    X, y = table(ROWS, 1)
    fed = co.Federation.split(X, np.where(y > 0.2, 1, -1) if classes else y, parties=2)
    method = co.PrivateGram(penalty="select" if select else "asked", **settings)
    trust = "nobody" if settings else "secure"
    bounds = {} if classes else {"label_bound": 2.0}
    privacy = co.Privacy(epsilon, 1e-6, trust=trust, row_norm=COLUMNS**0.5, feature_bound=1.0, **bounds)
    problem = co.Problem(co.Logistic() if classes else co.LeastSquares(), penalty=penalty, intercept=True)
    return co.fit(fed, problem, method, privacy, store=store, noise=co.SeededNoise(5))


def weights(fit):
    return np.concatenate(list(fit.coefficients.values()))


def error(fit, x=None, *, classes=False):
    """On rows that no run has seen: of the scores, or of the classes' best line through them."""
    X, y = table(50_000, 2)
    x = weights(fit) if x is None else x
    if not classes:
        return np.mean(np.square(y - X @ x - fit.intercept))
    z = np.where(y > 0.2, 1.0, -1.0)
    return 1.0 - np.corrcoef(z, X @ x)[0, 1] ** 2 if x.any() else 1.0


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("factor", [1.0, 50.0])
def test_the_chosen_weight_predicts_nearly_as_well_as_the_best_and_far_better_than_a_wrong_one(
    penalty, factor, tmp_path
):
    heavy = type(penalty)(*(factor * value for value in vars(penalty).values()))
    asked, chosen = (fitted(tmp_path / str(one), heavy, one) for one in (False, True))
    assert np.array_equal(asked.release.matrix, chosen.release.matrix)  # the same release: the same noise, by its seed
    along = [np.concatenate([part[k] for part in chosen.path.coefficients.values()]) for k in range(17)]
    assert any(np.allclose(weights(chosen), x, atol=1e-6) for x in along)
    best, whole = min(error(chosen, x) for x in along), np.var(table(50_000, 2)[1])
    assert error(chosen) <= min(best, error(asked)) + 0.01 * whole  # which is what the noise leaves open here
    if factor > 1.0:
        assert error(chosen) < error(asked) - 0.05 * whole  # so heavy a penalty explains little
    assert any("was chosen for the error" in one and "it cost nothing" in one for one in chosen.remarks)
    assert not any("was chosen" in one for one in asked.remarks)


@pytest.mark.chance(0, "noise is seeded, and masks alone are drawn")
@pytest.mark.parametrize("settings", [{}, {"cross": "none"}], ids=["secure", "none"])
def test_classes_are_chosen_for_too_however_products_are_made(settings, tmp_path):
    fits = [
        fitted(tmp_path / str(one), co.Lasso(0.3), one, classes=True, epsilon=50.0, **settings) for one in (False, True)
    ]
    asked, chosen = (error(fit, classes=True) for fit in fits)
    assert chosen < asked


def test_choosing_spends_nothing():
    X, y = table(ROWS, 1)
    fed = co.Federation.split(X, y, parties=2)
    privacy = co.Privacy(1.0, 1e-6, trust="secure", row_norm=4.0, feature_bound=1.0, label_bound=2.0)
    job = Job(co.Problem(co.LeastSquares(), penalty=co.Lasso(0.1)), fed.roster(), privacy)
    assert co.PrivateGram(penalty="select").price(job) == co.PrivateGram().price(job)


def test_what_cannot_be_chosen_is_refused(tmp_path):
    for penalty in (None, co.GroupLasso(0.1, groups=[[0, 1], list(range(2, COLUMNS))])):
        with pytest.raises(co.InvalidInput, match=r"chooses the weight of co.Ridge, co.Lasso or co.ElasticNet"):
            fitted(tmp_path, penalty, True)
    with pytest.raises(co.InvalidInput, match="choose 'asked' or 'select'"):
        co.PrivateGram(penalty="best")
