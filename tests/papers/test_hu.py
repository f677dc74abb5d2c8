"""Claims about the figures of Hu et al.: every verdict is the one that the figure's file announces."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import colonnade as co
from papers.figures import hu_1, hu_2, hu_3, hu_sharing
from papers.plot import to_svg

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("COLONNADE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def drawn(figure, monkeypatch, quick=True):
    missing = [name for name in figure.data if not (DATA / name).is_dir()]
    if missing:
        pytest.skip(f"no data set {missing[0]!r} in {DATA}: set COLONNADE_DATA")
    monkeypatch.setenv("COLONNADE_DATA", str(DATA))
    table = pl.DataFrame([row for case in figure.cases(quick) for row in figure.run(**case)], infer_schema_length=None)
    assert to_svg(figure.draw(table))
    return table


def check(figure, table):
    for claim in figure.claims:
        verdict = claim.check(table)
        assert claim.expected(quick=True) == verdict.held, f"{claim.says}: {verdict.evidence}"
        assert claim.reproduces or claim.finding


def test_on_wide_data_admm_needs_far_fewer_epochs_than_gradient_steps(monkeypatch):
    check(hu_2.FIGURE, drawn(hu_2.FIGURE, monkeypatch))


@pytest.mark.parametrize("figure", [hu_1.FIGURE, hu_3.FIGURE], ids=lambda figure: figure.name)
def test_the_other_figures_say_what_they_announce(figure, monkeypatch):
    check(figure, drawn(figure, monkeypatch))


def test_a_watched_run_ends_with_the_coefficients_of_the_same_run_unwatched(monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.csc_array(rng.normal(size=(30, 7)))
    y = np.where(X @ rng.normal(size=7) > 0, 1.0, -1.0)
    monkeypatch.setattr(hu_sharing, "tables", lambda data: ((X, y), (X, y)))
    monkeypatch.setitem(hu_sharing.WIDTHS, "made up", (4, 3))
    seen = hu_sharing.watched("made up", 6)
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(hu_sharing.RIDGE))
    fit = co.fit(co.Federation.split(X, y, parties=hu_sharing.shares("made up")), problem, co.SharingADMM(6, 0.0))
    assert len(seen) == 6
    np.testing.assert_array_equal(seen[-1], np.concatenate([fit.coefficients[p] for p in ("party0", "party1")]))


def test_the_composition_of_corollary_1_is_the_printed_sum():
    """At one epoch: sqrt(2 ln(2/delta)) e + e (exp(e) - 1)."""
    assert hu_sharing.composed(0.5, 1) == pytest.approx(np.sqrt(2 * np.log(2e6)) * 0.5 + 0.5 * (np.exp(0.5) - 1))


def test_a_curve_reaches_a_level_when_it_stays_there():
    assert hu_sharing.reaches([(1, 3.0), (2, 1.0), (3, 2.0), (4, 1.0), (5, 0.5)], 1.0) == 4
    assert hu_sharing.reaches([(1, 3.0)], 1.0) == np.inf
