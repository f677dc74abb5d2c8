"""Claims about what a row with curves can move: as far as one with lines and no further, wherever its values lie."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.methods.gram import plan as gram_plan
from colonnade.methods.gram.plan import plan_sums
from colonnade.methods.gram.rows import IntegerRows, grid
from colonnade.methods.gram.rule import as_they_are, public_columns, whole_frame
from colonnade.model.job import Job
from tests.helpers.gram_runs import silent_run

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ENDS = (-1.0, -0.75, -0.5, 0.0, 0.25, 1.0, None)  # bounds, knots of every level, and no value


def federation(rows, y, smooth):
    """Two parties of two numbers each, at whose bounds and knots the longest rows lie."""
    key, names = np.arange(len(rows)), {"a": ("u", "v"), "b": ("w", "z")}
    cells = list(zip(*rows, strict=True))
    frames = {p: pl.DataFrame({"key": key} | {c: cells["uvwz".index(c)] for c in cs}) for p, cs in names.items()}
    frames["b"] = frames["b"].with_columns(pl.Series("y", y))
    columns = {
        p: tuple(co.Numeric(c, -1, 1, missing="indicator", smooth=smooth) for c in cs) for p, cs in names.items()
    }
    return co.Federation.from_frames(frames, "key", ("b", "y"), schemas={p: co.Schema(c) for p, c in columns.items()})


def terms(epsilon):
    return co.Privacy(epsilon, 1e-6, trust="secure", label_range=(-1.0, 1.0))


def moved(fed, other, epsilon, monkeypatch):
    """How far each release moves, relative to what is stated."""
    method, loss = co.PrivateGram(), co.LeastSquares()
    first = silent_run(fed, method, terms(epsilon), monkeypatch, loss=loss)
    then = silent_run(other, method, terms(epsilon), monkeypatch, like=first, loss=loss)
    return [a.distance(b) / a.sensitivity for a, b in zip(first.releases, then.releases, strict=True)]


@pytest.mark.parametrize("epsilon", [60.0, 2.0], ids=["raw", "sums first"])
@pytest.mark.parametrize("depth", [1, 3])
def test_neighbours_at_bounds_and_knots_move_a_release_no_further_than_stated(depth, epsilon, monkeypatch):
    rng = np.random.default_rng(depth)
    rows = [tuple(rng.uniform(-1, 1, 4)) for _ in range(40)]
    y = rng.uniform(-1, 1, 40)
    found = []
    for here, there, labels in [
        ((1.0,) * 4, (-1.0,) * 4, (1.0, 1.0)),
        ((0.0,) * 4, (1.0,) * 4, (1.0, -1.0)),
        ((0.0,) * 4, (0.5,) * 4, (1.0, 1.0)),
        ((-0.75,) * 4, (0.25,) * 4, (-1.0, 1.0)),
        ((None,) * 4, (0.0,) * 4, (1.0, 1.0)),
        ((0.0, 1.0, None, -0.5), (1.0, 0.0, 0.0, 1.0), (-1.0, 1.0)),
    ]:
        pair = [federation([row, *rows], [label, *y], depth) for row, label in zip((here, there), labels, strict=True)]
        found.append(moved(*pair, epsilon, monkeypatch))
    assert np.max(found) <= 1.0
    if epsilon == 60.0:  # rows at right angles to each other, of full length: nearly all of it is needed
        assert np.max(found) > 0.8


def steps_of(smooth, monkeypatch, *, toward=True):
    """Rows whose values lie at bounds, knots and between them, as one party makes it in a release of rows as they are."""
    if not toward:
        levels = gram_plan.hat_levels
        monkeypatch.setattr(gram_plan, "hat_levels", lambda job, party: 0 * levels(job, party))
    cells = [*product(ENDS, ENDS), *((t, 1.0) for t in np.linspace(-1, 1, 4001))]
    fed = federation([(*two, 0.0, 0.0) for two in cells], np.ones(len(cells)), smooth)
    job = Job(co.Problem(co.LeastSquares()), fed.roster(), terms(60.0))
    columns = public_columns(job)
    figures, _ = gram_plan.plan_joint(job, columns, whole_frame(columns), as_they_are(columns.owner.size, 1.0), 1.0)
    own = np.arange(len(job.roster.positions["a"]))
    of = own, np.zeros(own.size), np.ones(own.size), np.ones(own.size, np.int64)
    rows = IntegerRows(fed.parties["a"].block, grid(job, "a", figures, *of, whole=True))
    return rows, figures, rows.rows(0, len(cells)).astype(np.int64)


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8])
def test_a_row_of_curves_is_no_longer_in_whole_steps_than_one_of_lines(depth, monkeypatch):
    rows, figures, whole = steps_of(depth, monkeypatch)
    assert rows.shortened == 0
    assert (whole**2).sum(axis=1).max() <= figures.norm2["a"] == 2 * round(1 / figures.step) ** 2


def test_planted_rounding_to_the_nearest_step_makes_rows_too_long(monkeypatch):
    """The check in whole numbers finds and shortens them, so that privacy holds; but they are no longer as they were."""
    rows, figures, whole = steps_of(3, monkeypatch, toward=False)
    assert rows.shortened > 0
    assert (whole**2).sum(axis=1).max() <= figures.norm2["a"]


def test_class_sums_are_planned_for_the_same_length_with_curves_and_without():
    rng = np.random.default_rng(0)
    rows, y = [tuple(rng.uniform(-1, 1, 4)) for _ in range(40)], np.ones(40)
    lengths = []
    for smooth in (False, 3):
        job = Job(
            co.Problem(co.Logistic()), federation(rows, y, smooth).roster(), co.Privacy(2.0, 1e-6, trust="secure")
        )
        figures = plan_sums(job, public_columns(job), 0.1, alone=False)
        lengths.append({p: n * figures.step**2 for p, n in figures.norm2.items()})
    assert lengths[0] == pytest.approx(lengths[1])
