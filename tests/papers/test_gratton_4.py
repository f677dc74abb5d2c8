"""Figures of chapter 4 of Gratton's thesis: what their quick runs show is what each claim is listed as."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import polars as pl
import pytest

from papers.figure import Figure
from papers.figures import gratton_4_1, gratton_4_common, gratton_4_curves, gratton_4_tradeoff
from papers.plot import to_svg
from papers.published.row_problems import error

pytestmark = pytest.mark.slow

FIGURES = {f.name: f for f in (gratton_4_1.FIGURE, *gratton_4_curves.FIGURES, *gratton_4_tradeoff.FIGURES)}
CHEAPEST = "gratton-4.10"


def judged(figure: Figure) -> None:
    rows = [row for case in figure.cases(True) for row in figure.run(**case)]
    table = pl.DataFrame(rows, infer_schema_length=None)  # an attack has a column of its own
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


def test_the_cheapest_figure_shows_what_its_claims_are_listed_as():
    judged(FIGURES[CHEAPEST])


@pytest.mark.parametrize("name", [name for name in FIGURES if name != CHEAPEST])
def test_every_other_figure_shows_what_its_claims_are_listed_as(name):
    judged(FIGURES[name])


def test_the_figures_of_the_chapter_are_there():
    assert {"4.1", "4.6", "4.7", "4.8", "4.9", "4.10", "4.11", "4.12", "4.13"} == {
        name.removeprefix("gratton-") for name in FIGURES
    }


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "gratton-4.1"])
def test_a_private_figure_says_epsilon_delta_unit_trust_and_guarantee(name):
    for word in ("epsilon ", "delta ", "unit: one row", "trust model: nobody", "conditional", "claimed"):
        assert word in FIGURES[name].privacy


@pytest.mark.parametrize("name", FIGURES)
def test_a_full_run_has_the_rounds_of_the_thesis_and_says_which_repeats_it_leaves_out(name):
    cases = [case for case in FIGURES[name].cases(False) if case["method"] != gratton_4_common.ATTACK]
    assert {case["seed"] for case in cases} == set(range(20))
    assert {case["rounds"] for case in cases} == {200}
    assert FIGURES[name].printed == {"seed": 100, "rounds": 200}


def test_a_case_runs_the_same_twice():
    case = next(c for c in FIGURES[CHEAPEST].cases(True) if c["method"] == "DP-ADMM")
    assert FIGURES[CHEAPEST].run(**case) == FIGURES[CHEAPEST].run(**case)


def test_our_method_in_a_figure_is_a_fit_on_the_same_functions():
    """The curve's last point is the error of what the agents return; it comes nearer than the first."""
    own = gratton_4_common.problem(0, "l1")
    errors = gratton_4_common.run_ours(own, gratton_4_common.GRAPH, 12, seed=1, steps=10, draws=2)
    assert len(errors) == 12
    assert errors[-1] < errors[0] / 3


def test_the_problem_of_chapter_4_is_scaled_as_it_says():
    own = gratton_4_common.problem(3, "ridge")
    A = own.A.reshape(-1, 10)
    assert np.linalg.norm(A, axis=1).max() <= 1 + 1e-12
    assert np.abs(A).max() <= 1
    first = next(islice(gratton_4_common.estimates(own, "PVP", 0.4, 1e-3, 0, 10), 1))
    assert math.isfinite(error(first, own.answer))
