"""Whole rows are rint((a − c)·s/step) wherever the centre lies, and private fits are those of such rows, to the last digit.

What is expected is made of the formula in `gram_runs`, in Python's integers; runs have no noise. Means lie beyond half of
their bounds on either side, where a cut at the wrong end shows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import colonnade as co
from colonnade.methods.gram.answer import Curves
from colonnade.methods.gram.local import Local
from colonnade.methods.gram.plan import RunPlan
from colonnade.methods.gram.rows import Grid, IntegerRows
from colonnade.methods.gram.rule import Gram, prepare, whole_frame
from colonnade.methods.gram.solve import solve
from colonnade.model.job import Job, Sums
from colonnade.privacy.block import Block
from tests.helpers.gram_runs import plain_gram, rows_by_formula, silent_run

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 240
TABLES = ("declared", "curves", "undeclared")
LOSSES = {"classes": co.Logistic(), "numbers": co.LeastSquares()}

# ---------------------------------------------------------------------------------------- one row at a time


eighths = st.integers(-80, 80).map(lambda k: k / 8)


@st.composite
def grids(draw, *, centred):
    """A table of eighths, and a grid of powers of two: floats hold every product of them, so that ties are ties."""
    width = draw(st.integers(1, 4))
    X = np.array(draw(st.lists(st.lists(eighths, min_size=width, max_size=width), min_size=1, max_size=8)))
    columns = [sorted(draw(st.lists(st.integers(-40, 40), min_size=2, max_size=2))) for _ in range(width)]
    low, high = np.array(columns).T
    if not centred:  # zeros must stay zeros
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    centre = np.array([draw(eighths) if centred else 0.0 for _ in range(width)])
    scale = np.array([draw(st.sampled_from([0.25, 0.5, 1.0, 2.0])) for _ in range(width)])
    toward = np.array([draw(st.booleans()) for _ in range(width)])
    norm2 = draw(st.sampled_from([10**9, 10**9, 900, 25, 1]))
    unit = np.ones(width, np.int64)
    step = draw(st.sampled_from([0.25, 0.5, 1.0]))
    return X, Grid(np.arange(width), centre, scale, low, high, norm2, step, unit, toward)


def by_fractions(X, grid):
    """The same from fractions, for rows that are short enough: `round` takes the even one of two, as `rint` does."""
    rows = []
    for cells in X:
        row = []
        for j, cell in enumerate(cells):
            exact = (Fraction(cell) - Fraction(grid.centre[j])) * Fraction(grid.scale[j]) / Fraction(grid.step)
            whole = math.trunc(exact) if grid.toward[j] else round(exact)
            row.append(min(max(whole, int(grid.low[j])), int(grid.high[j])))
        rows.append(row)
    return np.array(rows)


@given(grids(centred=True))
def test_a_row_is_its_formula_for_centres_and_bounds_of_every_sign(case):
    X, grid = case
    expected = by_fractions(X, grid)
    short = (expected**2).sum(axis=1) <= grid.norm2
    for matrix in (X, sparse.csc_array(X)):
        rows = IntegerRows(Block(matrix, grid.keep), grid)
        found = rows.rows(0, len(X))
        assert np.array_equal(found[short], expected[short])
        assert ((found**2).sum(axis=1) <= grid.norm2).all()
        assert rows.shortened == np.count_nonzero(~short)


@given(grids(centred=False))
def test_a_sparse_row_is_its_formula_for_bounds_on_either_side(case):
    X, grid = case
    expected = by_fractions(X, grid)
    short = (expected**2).sum(axis=1) <= grid.norm2
    rows = IntegerRows(Block(sparse.csc_array(X), grid.keep), grid)
    assert rows.stay_sparse
    found = rows.sparse_rows(0, len(X)).toarray()
    assert np.array_equal(found[short], expected[short])
    assert ((found**2).sum(axis=1) <= grid.norm2).all()
    assert rows.shortened == np.count_nonzero(~short)


def test_the_lower_cut_is_not_the_upper_one_with_its_sign_turned():
    """By hand: between 0 and 10, around 9 in steps of 1, entries lie between −9 and 1."""
    X, grid = (
        np.array([[0.0], [4.0], [10.0], [12.0], [-3.0]]),
        Grid(np.arange(1), np.array([9.0]), np.ones(1), np.array([-9]), np.array([1]), 100, 1.0, np.ones(1, int)),
    )
    assert IntegerRows(Block(X, np.arange(1)), grid).rows(0, 5).ravel().tolist() == [-9, -5, 1, 1, -9]
    plain = replace(grid, centre=np.zeros(1), low=np.array([-3]), high=np.array([10]))
    found = IntegerRows(Block(sparse.csc_array(X - 5), np.arange(1)), plain).sparse_rows(0, 5).toarray()
    assert found.ravel().tolist() == [-3, -1, 5, 7, -3]


# ---------------------------------------------------------------------------------------- whole runs


def cells(seed=0):
    """Columns whose means lie near either end of what is declared, in the middle, and beyond the bounds at times."""
    rng = np.random.default_rng(seed)
    return {
        "top": np.clip(9.0 + 1.5 * rng.normal(size=ROWS), 0, 10),
        "bottom": np.clip(0.8 + rng.normal(size=ROWS), 0, 10),
        "right": np.clip(4.0 + rng.normal(size=ROWS), -5, 5),
        "left": np.clip(-4.0 + rng.normal(size=ROWS), -5, 5),
        "middle": np.clip(2.0 * rng.normal(size=ROWS), -5, 5),
        "often": (rng.random(ROWS) < 0.9) * 1.0,
    }


def labels(kind, X, seed=0):
    rng = np.random.default_rng(seed + 1)
    score = X["top"] - 9.0 + X["bottom"] - X["left"] - 4.0 + 0.5 * X["middle"] + rng.normal(size=ROWS)
    return np.where(score > 0.5, 1.0, -1.0) if kind == "classes" else np.clip(np.round(38 * score) / 256, -1, 1)


def federation(table, kind):
    X = cells()
    y = labels(kind, X)
    if table == "undeclared":
        wide = np.column_stack(list(X.values()))
        return co.Federation.split(wide, y, parties={"a": [0, 1], "b": [2, 3, 4, 5]}, label="b")
    smooth = 2 if table == "curves" else 0
    ends = {"top": (0, 10), "bottom": (0, 10), "right": (-5, 5), "left": (-5, 5), "middle": (-5, 5), "often": (0, 1)}
    names = {"a": ("top", "bottom"), "b": ("right", "left", "middle", "often")}
    schemas = {
        p: co.Schema(
            tuple(
                co.Numeric(c, *ends[c], scale=bool(smooth), smooth=(smooth if c != "often" else 0) or False) for c in cs
            )
        )
        for p, cs in names.items()
    }
    key = pl.Series("key", np.arange(ROWS))
    frames = {p: pl.DataFrame([key, *(pl.Series(c, X[c]) for c in cs)]) for p, cs in names.items()}
    frames["b"] = frames["b"].with_columns(pl.Series("y", y))
    return co.Federation.from_frames(frames, "key", ("b", "y"), schemas=schemas)


def terms(table, trust="secure", epsilon=40.0):
    bounds = {"row_norm": 14.0, "feature_bound": 8.0} if table == "undeclared" else {}
    return co.Privacy(epsilon, 1e-6, trust=trust, label_range=(-1.0, 1.0), **bounds)


def problem(kind):
    return co.Problem(LOSSES[kind], penalty=co.Ridge(1e-3), intercept=True)


def sums_by_formula(fed, design, weights):
    """Class sums, class size and half squares of whole rows."""
    figures, frame, curves = design.sums, whole_frame(design.columns), bool(design.columns.level.any())
    whole = np.column_stack(list(rows_by_formula(fed, design.job.privacy, figures, frame, curves).values()))
    unit = figures.step / figures.label
    half = (whole.astype(float) ** 2).sum(axis=0) * figures.step**2 / 2.0
    up = whole.T @ weights * unit
    down = whole.T @ (figures.label - weights) * unit
    return up, down, weights.sum() / figures.label, half


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("trust", ["secure", "consortium"])
def test_a_private_fit_without_noise_is_that_of_rows_by_their_formula(table, kind, trust, monkeypatch):
    """Class sums, Gram matrix, coefficients and probabilities: the same rule on sums that were made here."""
    fed, asked, method = federation(table, kind), terms(table, trust), co.PrivateGram()
    seen = silent_run(fed, method, asked, monkeypatch, intercept=True, loss=LOSSES[kind])
    design = RunPlan.of(Job(problem(kind), fed.roster(), asked), method)
    y = np.asarray(fed.labels, float)
    weights = np.rint((1.0 + y) / 2.0 * design.sums.label).astype(np.int64)
    up, down, count, half = sums_by_formula(fed, design, weights)
    squared = ~design.columns.binary
    np.testing.assert_allclose(seen.sums.positive, up, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(seen.sums.negative, down, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(seen.sums.half_squares[squared], half[squared], rtol=1e-12)
    assert seen.sums.count == pytest.approx(count)

    noise = {name: getattr(seen.sums, name) for name in ("noise", "count_noise", "square_noise")}
    sums = Sums(up, down, count, np.where(squared, half, 0.0), **noise)
    rule, frame = prepare(design.rule, design.columns, ROWS, sums)
    assert rule.name == "centred"
    planned = design.gram(rule, frame)
    matrix = plain_gram(fed, design.job, planned.figures, frame, np.rint(y * planned.figures.label).astype(np.int64))
    np.testing.assert_allclose(seen.matrices[0][1], matrix, atol=1e-6)
    gram = Gram.of(planned.extended, matrix * planned.figures.step**2, design.sds(planned.figures, frame))
    sizes = {"rows": ROWS, "columns": design.columns.owner.size, "label_bound": design.job.label_bound}
    curves = Curves(design.columns.level, flags=design.columns.binary)
    solved = solve(gram, frame, rule, problem(kind), **sizes, sums=sums, curves=curves)
    found = np.concatenate([seen.fit.coefficients[name] for name in fed.parties])
    np.testing.assert_allclose(found, solved.coefficients, rtol=1e-6, atol=1e-9)
    assert seen.fit.intercept == pytest.approx(solved.intercept, rel=1e-6)
    assert seen.fit.link == (pytest.approx(solved.link, rel=1e-6) if kind == "classes" else None)
    assert np.abs(frame.centre).max() > 0.5 * design.columns.bound[np.argmax(np.abs(frame.centre))]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", LOSSES)
def test_what_a_party_releases_alone_is_made_of_rows_by_their_formula(table, kind, monkeypatch):
    """Squares, products, sums and what goes with public labels, whose noise is off too."""
    fed, asked, method = federation(table, kind), terms(table, "nobody"), co.PrivateGram(cross="none")
    seen = silent_run(fed, method, asked, monkeypatch, intercept=True, loss=LOSSES[kind])
    local = Local(RunPlan.of(Job(problem(kind), fed.roster(), asked), co.PrivateGram(cross="none")))
    made = rows_by_formula(fed, asked, local.figures, local.frame, curves=table == "curves")
    y = np.asarray(fed.labels, float) / local.labels.limit
    for (name, rows), release in zip(made.items(), seen.releases, strict=True):
        constant, label = local.beside(name)
        products = rows.T @ rows
        sums = rows.sum(axis=0) * constant, rows.T @ np.rint(y * label).astype(np.int64)
        expected = np.diag(products), products[np.triu_indices(len(products), 1)], *sums
        for (found, _), right in zip(release.parts, expected, strict=True):
            assert np.array_equal(found, right)
