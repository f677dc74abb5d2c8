"""Contributions add up to the score, and a part is seen where its rows and coefficients are."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import colonnade as co
from colonnade.model.facts import Coefficients
from tests.helpers.lending import PROBLEM, SCHEMAS, exact_fit, side_by_side, tables

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture(scope="module")
def fit() -> co.Fit:
    return exact_fit()


@pytest.fixture(scope="module")
def apart(fit) -> co.Fit:
    """The same where the bureau runs elsewhere."""
    return dataclasses.replace(fit, coefficients=Coefficients({"bank": fit.coefficients["bank"]}, ["bureau"]))


def test_contributions_by_column_and_party_add_up_to_the_score(fit):
    frames = tables(200, seed=3)
    for data in (frames, side_by_side(frames)):
        told = fit.explain(data)
        np.testing.assert_allclose(told.scores, fit.scores(data), rtol=1e-12)
        whole = told.intercept + sum(told.total(party) for party in ("bank", "bureau"))
        np.testing.assert_allclose(whole, fit.scores(data), rtol=1e-12)
        without = fit.scores(data, without=["bureau"])
        np.testing.assert_allclose(told.intercept + told.total("bank"), without, rtol=1e-12)


def test_a_contribution_is_what_the_column_alone_adds(fit):
    """Each column encoded by itself, times its coefficients: gaps and unknown levels too."""
    frames = tables(100, seed=3)
    told = fit.explain(frames)
    first = 0
    for column in SCHEMAS["bank"].columns:
        alone = co.Schema((column,))
        matrix = alone.encode(frames["bank"]).matrix
        x = fit.coefficients["bank"][first : first + alone.width]
        np.testing.assert_allclose(told.of("bank")[column.name], np.asarray(matrix @ x), rtol=1e-12, atol=1e-15)
        first += alone.width


def test_rows_come_in_the_order_they_were_given(fit):
    frames = tables(60, seed=3)
    turned = {**frames, "bank": frames["bank"].reverse()}
    assert np.array_equal(fit.explain(frames).of("bureau")["income"][::-1], fit.explain(turned).of("bureau")["income"])


def test_the_table_and_one_row_say_the_same(fit):
    told = fit.explain(tables(30))
    table = told.table
    assert table.columns[-2:] == ["intercept", "score"]
    one = told.row(4)
    assert [abs(part.value) for part in one] == sorted((abs(part.value) for part in one), reverse=True)
    assert {f"{part.party}:{part.column}": part.value for part in one} == {
        name: value for name, value in table.row(4, named=True).items() if name not in ("intercept", "score")
    }


def test_a_federation_is_explained_as_it_is_scored(fit):
    fed = co.Federation.from_frames(tables(50), on="id", label=("bank", "default"), schemas=SCHEMAS)
    np.testing.assert_allclose(fit.explain(fed).scores, fit.scores(fed), rtol=1e-12)


def test_a_part_that_is_elsewhere_raises_and_so_does_the_sum(apart, fit):
    frames = tables(40)
    told = apart.explain({"bank": frames["bank"]})
    assert np.array_equal(told.of("bank")["age"], fit.explain(frames).of("bank")["age"])
    for use in (lambda: told.of("bureau"), lambda: told.total("bureau"), lambda: told.scores):
        with pytest.raises(co.HeldByParty, match="'bureau' are made of its rows"):
            use()
    assert "score" not in told.table.columns
    assert "parts of bureau are held there" in repr(told)
    named = apart.explain({"bank": frames["bank"]}, without=["bureau"])
    np.testing.assert_allclose(named.scores, fit.scores(frames, without=["bureau"]), rtol=1e-12)


def test_a_party_is_handed_its_own_part_and_the_label_holder_the_scores_too(fit):
    told = fit.explain(tables(40))
    bureau, bank = told.seen_by("bureau"), told.seen_by("bank")
    assert set(bureau.parts) == {"bureau"}
    assert set(bureau.table.columns) == {f"bureau:{name}" for name in ("income", "loans", "owner")}
    with pytest.raises(co.HeldByParty, match="'bank' are made of its rows"):
        _ = bureau.scores
    assert set(bank.parts) == {"bank"}
    assert np.array_equal(bank.scores, told.scores)
    with pytest.raises(co.HeldByParty):
        bank.of("bureau")
    with pytest.raises(co.HeldByParty):
        bureau.seen_by("bank")


def test_rows_that_are_elsewhere_are_explained_there(tmp_path):
    from tests.helpers.contract import federation, fitted
    from tests.helpers.organisations import Organisations
    from tests.helpers.stub_hub import STAR

    away = Organisations.of(federation(STAR), tmp_path).federation
    with pytest.raises(co.HeldByParty, match="held by parties elsewhere"):
        fitted(STAR).explain(away)


def test_what_has_no_contributions_is_refused(apart):
    X = np.random.default_rng(0).normal(size=(40, 4))
    y = np.sign(X[:, 0])
    rows = co.Federation.split(X, X[:, 0], parties=2, by="rows")
    for fed, problem, method in (
        (rows, co.KernelSVM(co.RBF(1.0), 1.0), None),
        (co.Federation.split(X, y, parties=2), co.AdaBoost(1.0), None),
    ):
        given = co.Federation.split(X, y, parties=2, by="rows") if fed is rows else fed
        with pytest.raises(co.InvalidInput, match="contributions by column and party"):
            co.fit(given, problem, method).explain(given)
    nobody = dataclasses.replace(apart, coefficients=Coefficients({}, ["bank", "bureau"]))
    with pytest.raises(co.HeldByParty, match="every party"):
        nobody.explain(tables(5))
    told = apart.explain({"bank": tables(5)["bank"]})
    with pytest.raises(co.InvalidInput, match="'nobody' has no part"):
        told.of("nobody")
    with pytest.raises(co.InvalidInput, match="'nobody' has no part"):
        told.seen_by("nobody")
    with pytest.raises(co.HeldByParty):
        told.seen_by("bureau")


def test_a_plain_matrix_is_explained_by_its_columns():
    X = np.random.default_rng(0).normal(size=(40, 4))
    fed = co.Federation.split(X, np.sign(X[:, 0]), parties=2)
    fit = co.fit(fed, PROBLEM)
    np.testing.assert_allclose(fit.explain(fed).scores, fit.scores(fed), rtol=1e-12)
