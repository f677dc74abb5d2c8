"""Pictures of a fit show the figures of the fit, and say how to get what draws them."""

from __future__ import annotations

import builtins
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

import colonnade as co
from colonnade.model.facts import CoefficientPath, Coefficients
from colonnade.runs import plots
from colonnade.runs.evaluation import area
from colonnade.runtime.wire import Communication
from colonnade.views.verdict import Evaluation

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
SCHEMAS = {
    "clinic": co.Schema(
        (co.Numeric("age", 0, 100), co.Categorical("ward", ("A", "B"))), label=co.Numeric("cost", 0, 9)
    ),
    "lab": co.Schema((co.Numeric("crp", 0, 10),)),
}


def tables(label: str = "back") -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(0)
    rows = 600
    age, crp = rng.uniform(20, 90, rows), rng.uniform(0, 9, rows)
    score = age / 90 + crp / 9 + rng.normal(0, 0.3, rows)
    own = np.where(score > 1.1, "yes", "no") if label == "back" else np.clip(4 * score, 0, 9)
    clinic = pl.DataFrame({"id": range(rows), "age": age, "ward": rng.choice(["A", "B"], rows), label: own})
    return {"clinic": clinic, "lab": pl.DataFrame({"id": range(rows), "crp": crp})}


@pytest.fixture(scope="module")
def private(tmp_path_factory) -> co.Fit:
    fed = co.Federation.from_frames(tables(), "id", ("clinic", "back"), schemas=SCHEMAS, classes=("no", "yes"))
    return co.fit(fed, RIDGE, privacy=co.Privacy(8.0, 1e-6), store=tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory) -> co.Fit:
    fed = co.Federation.from_frames(tables("cost"), "id", ("clinic", "cost"), schemas=SCHEMAS)
    problem, method = co.Problem(co.LeastSquares(), intercept=True), co.PrivateGram(purpose="inference")
    return co.fit(fed, problem, method, co.Privacy(8.0, 1e-6), store=tmp_path_factory.mktemp("store"))


@pytest.mark.chance(1e-10, "a party has no bar if all its coefficients are 0: its largest is .9 or more in 107 runs")
def test_bars_are_the_coefficients_largest_first(private: co.Fit) -> None:
    drawn = private.plot.coefficients()
    found = {name: x for bar in drawn.data for name, x in zip(bar.y, bar.x, strict=True)}
    table = private.coefficients.table().filter(pl.col("coefficient") != 0)
    wanted = {f"{party}: {name}": x for party, name, x in table.iter_rows()}
    assert found == wanted
    order = list(reversed(drawn.layout.yaxis.categoryarray))
    assert order == sorted(wanted, key=lambda name: -abs(wanted[name]))
    assert len({bar.marker.color for bar in drawn.data}) == 2
    fewer = private.plot.coefficients(most=2)
    assert sorted(name for bar in fewer.data for name in bar.y) == sorted(order[:2])


@pytest.mark.chance(1e-10, "no coefficient of numbers is exactly 0: their sds are .16 to 1.6, their signal 9 sds")
def test_bars_have_the_standard_errors_that_cover(private: co.Fit, numbers: co.Fit) -> None:
    assert private.spread is None
    assert all(bar.error_x.array is None for bar in private.plot.coefficients().data)
    errors = {party: np.linspace(0.1, 0.2, x.size) for party, x in numbers.coefficients.items()}
    numbers = replace(numbers, spread=errors)
    drawn = numbers.plot.coefficients().data
    found = {name: error for bar in drawn for name, error in zip(bar.y, bar.error_x.array, strict=True)}
    spread = [(p, n, e) for p, x in numbers.spread.items() for n, e in zip(numbers.features[p], x, strict=True)]
    assert found == {f"{party}: {name}": error for party, name, error in spread}


@pytest.mark.chance(0, "coefficients of one fit against the same in a picture")
def test_the_path_is_that_of_the_fit(private: co.Fit, numbers: co.Fit) -> None:
    drawn = private.plot.path()
    whole = np.hstack([np.asarray(along) for along in private.path.coefficients.values()])
    assert len(drawn.data) == whole.shape[1]
    np.testing.assert_allclose(sorted(np.ravel([line.y for line in drawn.data])), sorted(whole.ravel()))
    assert drawn.layout.xaxis.type == "log"
    with pytest.raises(co.InvalidInput, match="this fit has no path"):
        numbers.plot.path()


def test_the_largest_are_drawn_whatever_their_sign_and_named_from_the_top() -> None:
    """Of an exact fit whose coefficients are put in by hand."""
    fed = co.Federation.split(np.eye(6, 5), np.arange(6.0), {"a": [0, 1, 2], "b": [3, 4]})
    made = co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.Ridge(1.0)), co.SharingADMM(rounds=2, tolerance=0.0))
    given = {"a": np.array([0.5, -3.0, 1.0]), "b": np.array([2.0, 0.0])}
    names = {party: list(made.features[party]) for party in given}
    fit = replace(made, coefficients=Coefficients(given, [], names))
    drawn = fit.plot.coefficients(most=3)
    order = [f"a: {names['a'][1]}", f"b: {names['b'][0]}", f"a: {names['a'][2]}"]
    assert list(reversed(drawn.layout.yaxis.categoryarray)) == order
    assert drawn.layout.title.text.startswith("3 of 5 coefficients")
    along = {"a": np.array([[0.0, 1.0, 0.1], [-5.0, 1.0, 0.1]]), "b": np.array([[2.0, 0.0], [2.0, 0.0]])}
    path = replace(fit, path=CoefficientPath(np.array([0.1, 1.0]), along)).plot.path(most=2)
    assert [line.name for line in path.data] == [f"a: {names['a'][0]}", f"b: {names['b'][0]}"]
    assert [list(line.x) for line in path.data] == [[0.1, 1.0]] * 2
    assert path.layout.xaxis.title.text == "weight of the penalty"
    ball = replace(fit, problem=co.Problem(co.LeastSquares(), co.L1Ball(1.0)), path=CoefficientPath(np.ones(2), along))
    assert ball.plot.path().layout.xaxis.title.text == "radius"
    ticks = [replace(fit, communication=Communication(((*("a", "b", "x"), n, 1, 8),))) for n in (9, 10)]
    assert [one.plot.bytes().layout.xaxis.dtick for one in ticks] == [1, None]


@pytest.mark.chance(0, "figures that are given, whatever the fit")
def test_calibration_and_roc_have_what_was_predicted_across_and_what_was_found_upward(private, monkeypatch) -> None:
    found = Evaluation(
        *("public", 30, "AUC", {"AUC": (0.875, None, "")}),
        groups=((0.2, 0.1, 10), (0.4, 0.7, 20)),
        roc=((0.0, 0.0), (0.25, 1.0), (1.0, 1.0)),
        without={},
    )
    monkeypatch.setattr(plots, "evaluate_fit", lambda *_: found)
    line, groups = private.plot.calibration(None, None).data
    assert (list(groups.x), list(groups.y), list(groups.text)) == ([0.2, 0.4], [0.1, 0.7], ["10 rows", "20 rows"])
    assert list(line.x) == list(line.y) == [0.1, 0.7]
    drawn = private.plot.roc(None, None)
    assert (list(drawn.data[1].x), list(drawn.data[1].y)) == ([0.0, 0.25, 1.0], [0.0, 1.0, 1.0])
    assert "30 rows (public)" in drawn.layout.title.text


@pytest.mark.chance(0, "bytes of one run added up twice")
def test_bytes_are_those_that_left_the_parties(private: co.Fit) -> None:
    drawn = private.plot.bytes()
    left = {line[0]: 0 for line in private.communication.lines}
    for sender, _, _, _, _, size in private.communication.lines:
        left[sender] += size
    left.pop("coordinator")
    assert {bar.name: sum(bar.y) for bar in drawn.data} == left


@pytest.mark.chance(1e-10, "equal but for rounding, which shows at an AUC of .8125 alone: 26 sds off")
def test_quality_is_drawn_on_rows_that_somebody_answers_for(private: co.Fit, numbers: co.Fit) -> None:
    frames = tables()
    labels = frames["clinic"]["back"].to_numpy()
    with pytest.raises(co.InvalidInput, match="evaluation_is='public'"):
        private.plot.roc(frames, labels)
    roc = private.plot.roc(frames, labels, evaluation_is="public").data[1]
    auc = roc_auc_score(labels == "yes", private.scores(frames))
    assert roc.name == f"AUC {auc:.3f}"
    assert area(list(zip(roc.x, roc.y, strict=True))) == pytest.approx(
        auc, abs=0.01
    )  # as many points as a page can show
    drawn = private.plot.calibration(frames, labels, evaluation_is="public").data[1]
    assert np.mean(drawn.x) == pytest.approx(private.predict_proba(frames).mean(), rel=1e-9)  # ten groups of one size
    assert np.mean(drawn.y) == pytest.approx((labels == "yes").mean(), rel=1e-9)
    costs = tables("cost")
    with pytest.raises(co.InvalidInput, match="a ROC is of two classes"):
        numbers.plot.roc(costs, costs["clinic"]["cost"].to_numpy(), evaluation_is="public")
    assert len(numbers.plot.calibration(costs, costs["clinic"]["cost"].to_numpy(), evaluation_is="public").data) == 2


@pytest.mark.chance(0, "the words of an error")
@pytest.mark.parametrize("picture", ["coefficients", "path", "bytes"])
def test_without_the_extra_an_error_says_how_to_get_it(private: co.Fit, picture: str, monkeypatch) -> None:
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name.startswith("plotly"):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(co.InvalidInput, match=r"pip install 'colonnade\[plot\]'"):
        getattr(private.plot, picture)()
