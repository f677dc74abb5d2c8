"""Lou and Cheung's figures: the array versions agree with the library's own programs, and every claim comes out as its figure says."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from threadpoolctl import threadpool_limits

import colonnade as co
from colonnade.problem.sampling import Elementary
from papers.figures import lou_1_2, lou_3_4, lou_3_private, lou_5_8, lou_9, lou_sensitivity, lou_table_5
from papers.plot import to_svg
from papers.published import PublishedBlockFrankWolfe

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("COLONNADE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
OWN = (*lou_1_2.FIGURES, *lou_3_4.FIGURES, *lou_5_8.FIGURES, lou_9.FIGURE, lou_sensitivity.FIGURE, lou_table_5.FIGURE)
FIGURES = {f.name: f for f in OWN}


def judged(figure):
    """(says, held, expected) of every claim, in quick mode; and that the figure can be drawn."""
    with threadpool_limits(limits=1):
        rows = [row for case in figure.cases(True) for row in figure.run(**case)]
    table = pl.DataFrame(rows, infer_schema_length=None)
    assert to_svg(figure.draw(table))
    return [(claim.says, claim.check(table).held, claim.expected(quick=True)) for claim in figure.claims]


def test_rounds_on_arrays_are_those_of_the_library_s_block_frank_wolfe():
    A, y, x = lou_1_2.paper_table(30, 40, 0.3, 0.2, seed=5)
    radius, rounds = float(np.abs(x).max()), 25
    found = lou_1_2.objectives(A, y, radius, Elementary(), np.zeros(40, np.int64), 1.0, rounds, seed=0)
    federation = co.Federation.split(A.toarray(), y, parties=2)
    problem = co.Problem(co.LeastSquares(), co.Product(co.L1Ball(radius)))
    fit = co.fit(federation, problem, co.BlockFrankWolfe(Elementary(), rounds=rounds, tolerance=0.0))
    assert found == pytest.approx(fit.history["objective"].to_list(), rel=1e-9)


@pytest.mark.parametrize("parties", [1, 3])
def test_the_last_iterate_is_the_published_method_s_own(parties):
    """The same generator, the same draws: two writings of algorithm 2 that must agree."""
    A, y, _ = lou_1_2.paper_table(20, 30, 0.5, 0.2, seed=1)
    claim = PublishedBlockFrankWolfe(1.0, 0.05, parties, rounds=6, radius=2.0)
    *_, x = lou_3_private.published_iterates(A, y, claim, 8, np.random.default_rng(3))
    expected = claim.fit(A.toarray(), y, 8, np.random.default_rng(3))
    assert x == pytest.approx(expected, abs=1e-12)
    assert np.abs(x).sum() > 0


def test_averaged_vertices_stay_in_the_ball_and_published_ones_leave_it():
    A, y, _ = lou_1_2.paper_table(40, 60, 0.3, 0.2, seed=2)
    claim = PublishedBlockFrankWolfe(1.0, 0.05, 4, rounds=10, radius=1.0)
    *_, inside = lou_3_private.published_iterates(A, y, claim, 8, np.random.default_rng(0), weight=0.25)
    *_, outside = lou_3_private.published_iterates(A, y, claim, 8, np.random.default_rng(0))
    assert np.abs(inside).sum() <= 1.0 + 1e-12
    assert np.abs(outside).sum() > 1.0


def test_no_point_of_the_ball_is_below_the_tangent_bound():
    A, y, _ = lou_1_2.paper_table(40, 60, 0.3, 0.2, seed=2)
    losses, rng = lou_3_private.Losses(A, y), np.random.default_rng(0)
    points = rng.laplace(size=(200, 60))
    points *= lou_3_private.RADIUS / np.abs(points).sum(axis=1, keepdims=True)
    assert min(losses(x) for x in points) >= losses.least()
    *_, best = lou_3_private.central_iterates(A, y, 0.0, rng)
    assert losses.least() <= losses(best) < 1.0


def test_every_claim_of_the_cheapest_figure_comes_out_as_stated():
    for says, held, expected in judged(FIGURES["lou-6"]):
        assert expected == held, says


@pytest.mark.parametrize("name", sorted(set(FIGURES) - {"lou-6"}))
def test_every_claim_comes_out_as_stated(name, monkeypatch):
    monkeypatch.setenv("COLONNADE_DATA", str(DATA))
    missing = [data for data in FIGURES[name].data if not (DATA / data).is_dir()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not in {DATA}; set COLONNADE_DATA")
    for says, held, expected in judged(FIGURES[name]):
        assert expected == held, says
