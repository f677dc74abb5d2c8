"""The warning that noise swamps a model: right where it does, silent where it does not; and free post-processing."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import colonnade as co
from colonnade.kernels.prox import project_l2
from colonnade.methods.gram import answer
from colonnade.privacy.mechanisms import SeededNoise

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

GRAM = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
NUMBERS = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.01))
BALL = co.Problem(co.Logistic(), constraint=co.L1Ball(2.0))
ONE = {"holder": slice(None)}
TWO = {"a": range(4), "b": range(4, 8)}
# Seeded noise, so that no line fails by chance: a budget at which nothing is left of the model, and one at which it is clear.
CASES = [
    (co.PrivateGram(), "secure", GRAM, TWO, 0.02, 4.0),
    (co.PrivateGram(), "consortium", GRAM, TWO, 0.02, 4.0),
    (co.PrivateGram(cross="none"), "nobody", GRAM, TWO, 0.02, 8.0),
    (co.PrivateGram(), "secure", co.Problem(co.LeastSquares(), intercept=True), TWO, 0.01, 8.0),
    (co.PrivateSharingADMM(), "nobody", NUMBERS, TWO, 0.5, 200.0),
    (co.PrivateBlockFrankWolfe(), "consortium", BALL, TWO, 0.05, 4.0),
    (co.CentralFrankWolfe(), "nobody", BALL, ONE, 0.05, 4.0),
]


def table(rows=4000):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (rows, 8))
    return X, np.where(X @ [1.5, -1, 0.5, 0, 0, 1, 0, 0] + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)


def fitted(case, epsilon, store):
    method, trust, problem, parties, _, _ = case
    bounds = {} if problem.loss.classifies else {"label_range": (-1.0, 1.0)}
    norm = {name: float(np.sqrt(len(range(8)[at] if isinstance(at, slice) else at))) for name, at in parties.items()}
    terms = co.Privacy(epsilon, 1e-6, trust=trust, row_norm=norm, feature_bound=1.0, **bounds)
    fed = co.Federation.split(*table(), parties=parties, label=list(parties)[-1])
    return co.fit(fed, problem, method, terms, noise=SeededNoise(1), store=store)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_a_fit_says_where_noise_swamps_it_and_nothing_where_it_does_not(case, tmp_path, caplog):
    with pytest.warns(co.MostlyNoise, match="the noise swamps the model: "):
        made = fitted(case, case[4], tmp_path / "loud")
    assert any(remark.startswith("the noise swamps the model: ") for remark in made.remarks)
    assert "the noise swamps the model" in caplog.messages
    made.report(tmp_path / "report.html")
    assert "the noise swamps the model" in (tmp_path / "report.html").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error", co.MostlyNoise)
        made = fitted(case, case[5], tmp_path / "quiet")
    assert not any("swamps" in remark for remark in made.remarks)


@pytest.mark.chance(0, "the warning goes by rows, columns and the budget, which are public")
@pytest.mark.parametrize("method", ["gaussian", "frank-wolfe"])
def test_estimators_of_one_holder_say_so_too(method):
    X, y = table(1500)
    with pytest.warns(co.MostlyNoise):
        co.SparseClassifier(epsilon=0.02, classes=[-1, 1], method=method, row_norm=3.0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", co.MostlyNoise)
        co.SparseClassifier(epsilon=4.0, classes=[-1, 1], method=method, row_norm=3.0).fit(X, y)


def test_private_sharing_admm_stays_on_the_ball_that_it_minimises_over(tmp_path):
    """Noise of epsilon 1 takes the released coefficients far outside; projecting them is free."""
    made = fitted(CASES[4], 1.0, tmp_path)
    assert all(np.linalg.norm(part) <= 1.0 + 1e-12 for part in made.coefficients.values())
    x = np.array([3.0, 4.0])
    assert project_l2(x, 1.0) == pytest.approx([0.6, 0.8])
    assert project_l2(x, 5.0) is x
    assert project_l2(x, np.inf) is x


def test_a_warning_that_is_an_error_says_where_the_fit_is_that_was_paid_for(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", co.MostlyNoise)
        with pytest.raises(co.MostlyNoise) as raised:
            fitted(CASES[0], 0.02, tmp_path / "runs")
    (saved,) = (tmp_path / "runs" / "fits").iterdir()
    assert f"co.load({str(saved)!r})" in raised.value.__notes__[0]
    assert co.load(saved).remarks


@pytest.mark.chance(0, "the limit is set so that every model is told to be noise, whatever is drawn")
def test_a_job_of_several_models_goes_on_behind_the_one_whose_warning_was_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(answer, "CLEAR", math.inf)  # at 2.33 a model of noise is not told to be one in 1 run of 100
    rng = np.random.default_rng(5)
    X, y = rng.uniform(-1, 1, (300, 4)), np.arange(300) % 3
    model = co.FederatedClassifier(
        parties=2, epsilon=0.1, delta=1e-6, row_norm=2.0, classes=[0, 1, 2], store=tmp_path / "runs"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", co.MostlyNoise)
        with pytest.raises(co.MostlyNoise):
            model.fit(X, y)
    with pytest.warns(co.MostlyNoise):
        model.fit(X, y)
    assert len(list((tmp_path / "runs" / "fits").iterdir())) == 3
