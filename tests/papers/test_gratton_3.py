"""Figures of chapter 3 of Gratton's thesis: what their quick runs show is what each claim is listed as."""

from __future__ import annotations

import polars as pl
import pytest

from papers.figure import Figure
from papers.figures import gratton_3_tls, gratton_3_zeroth
from papers.plot import to_svg

pytestmark = pytest.mark.slow

FIGURES = {f.name: f for f in (*gratton_3_tls.FIGURES, *gratton_3_zeroth.FIGURES)}


def judged(figure: Figure) -> None:
    table = pl.DataFrame([row for case in figure.cases(True) for row in figure.run(**case)])
    verdicts = {claim.says: claim.check(table) for claim in figure.claims}
    wrong = {
        c.says: verdicts[c.says].evidence for c in figure.claims if verdicts[c.says].held != c.expected(quick=True)
    }
    assert wrong == {}
    assert all(claim.finding for claim in figure.claims if not claim.reproduces)
    drawn = figure.draw(table)
    assert drawn.title.startswith(f"Figure {figure.name.removeprefix('gratton-')}")
    assert all("y" in panel.log for panel in drawn.panels)
    assert to_svg(drawn)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_shows_what_its_claims_are_listed_as(name):
    judged(FIGURES[name])


def test_the_figures_of_the_chapter_are_there():
    assert {"gratton-3.1", "gratton-3.2", "gratton-3.3", "gratton-3.4"} == set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_a_full_run_has_a_hundred_repeats(name):
    assert {case["seed"] for case in FIGURES[name].cases(False)} == set(range(100))
