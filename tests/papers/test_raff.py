"""Raff et al.'s figures: the heap takes the published steps, the counts are counts, and every claim comes out as its figure says."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.kernels.lazy import lazy_picks
from colonnade.kernels.sparse_fw import LossCode
from colonnade.kernels.stream import keyed_stream
from papers.figures import raff_1_4, raff_tables
from papers.figures.raff_data import Shape, made_up
from papers.plot import to_svg
from papers.published.sparse_heap import heap_picks, true_gap
from papers.published.sparse_kernel import published_noisy_max

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("COLONNADE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def small():
    return made_up(Shape(300, 500, 12, 20.0))


def test_the_heap_takes_the_steps_of_the_published_scheme_without_noise(small):
    """With Laplace noise of 1e-14 the published kernel is an argmax over the same stale slopes."""
    picks, pops, work = heap_picks(small.columns, small.rows, small.y, radius=5.0, rounds=200)
    stream = keyed_stream(bytes(32))
    other = published_noisy_max(small.columns, small.rows, small.y, radius=5.0, rounds=200, scale=5e13, stream=stream)
    assert picks.columns.tolist() == other.columns.tolist()
    assert picks.signs.tolist() == other.signs.tolist()
    assert pops.min() >= 1
    lengths, touched = np.diff(small.csr.indptr), small.csc[:, [picks.columns[7]]].nonzero()[0]
    assert work[7] == (4 * lengths[touched] + 8).sum()


def test_the_gap_of_a_model_is_the_one_that_algorithm_1_reports(small):
    picks, gaps = lazy_picks(*small.columns, small.y, loss=LossCode.LOGISTIC, radius=5.0, rounds=60)
    for t in (1, 10, 59):
        assert true_gap(small.columns, small.csr, small.y, picks, t, 5.0) == pytest.approx(gaps[t], rel=1e-9, abs=1e-9)


def test_stale_slopes_lead_algorithm_2_to_other_steps(small):
    exact, _ = lazy_picks(*small.columns, small.y, loss=LossCode.LOGISTIC, radius=5.0, rounds=200)
    stale, _, _ = heap_picks(small.columns, small.rows, small.y, radius=5.0, rounds=200)
    assert exact.columns[0] == stale.columns[0]
    assert (exact.columns != stale.columns).any()


def test_a_made_up_table_has_the_asked_shape_and_rows_of_length_1(small):
    assert small.csr.shape == (300, 500)
    lengths = np.sqrt(small.csr.multiply(small.csr).sum(axis=1))
    assert np.ravel(lengths) == pytest.approx(np.ones(300), rel=1e-5)
    dense = made_up(Shape(50, 80, 6, 10.0, dense=3))
    assert (np.diff(dense.csc.indptr)[:3] == 50).all()
    assert set(np.unique(dense.y)) == {-1.0, 1.0}


def table_of(figure) -> pl.DataFrame:
    return pl.DataFrame([row for case in figure.cases(True) for row in figure.run(**case)], infer_schema_length=None)


@pytest.fixture
def real(monkeypatch):
    missing = [name for name in ("rcv1", "news20-bigram") if not (DATA / name).is_dir()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not in {DATA}; set COLONNADE_DATA")
    monkeypatch.setenv("COLONNADE_DATA", str(DATA))


def test_the_four_figures_can_be_judged_and_drawn_and_the_steps_differ_on_made_up_rows_too(small, monkeypatch):
    monkeypatch.setattr(raff_1_4, "load", lambda name: small)
    table = pl.DataFrame(raff_1_4.run(data="rcv1", rounds=200), infer_schema_length=None)
    assert set(table["method"]) == {"algorithm 1", "algorithm 2"}
    for figure in raff_1_4.FIGURES:
        assert to_svg(figure.draw(table))
        assert all(claim.check(table).evidence for claim in figure.claims)
    same = next(claim for claim in raff_1_4.FIGURES[0].claims if "same steps" in claim.says)
    assert not same.check(table).held


def test_every_claim_of_figures_1_to_4_comes_out_as_stated(real):
    table = table_of(raff_1_4.FIGURES[0])  # the four share their rows
    for figure in raff_1_4.FIGURES:
        for claim in figure.claims:
            assert claim.check(table).held == claim.expected(quick=True), claim.says


def test_every_claim_of_table_4_comes_out_as_stated(real):
    table = table_of(raff_tables.TABLE_4)
    assert to_svg(raff_tables.TABLE_4.draw(table))
    for claim in raff_tables.TABLE_4.claims:
        assert claim.check(table).held == claim.expected(quick=True), claim.says


def test_table_3_times_every_method_and_can_be_drawn(real):
    """Its claims are about time, which is no assertion here."""
    table = table_of(raff_tables.TABLE_3)
    assert set(table["method"]) == {"algorithm 1", "algorithm 2", "algorithms 2 + 4", "ours, exact"}
    assert table["seconds"].min() > 0
    assert to_svg(raff_tables.TABLE_3.draw(table))
