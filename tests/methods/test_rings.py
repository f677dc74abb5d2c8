"""Rings that fit: no product of columns, with eight sds of noise on either side, is read wrongly; and what units need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.methods.gram.plan import RunPlan, plan_joint, squares_within
from colonnade.methods.gram.rows import MOST_BITS, SDS, Layout, Prepared, Rings
from colonnade.methods.gram.rule import whole_frame
from colonnade.model.job import Job

SCHEMAS = {
    "a": co.Schema((co.Binary("p"), co.Numeric("u", -1.0, 1.0, scale=False), co.Binary("q"))),
    "b": co.Schema((co.Binary("r"), co.Numeric("v", 0.0, 1.0, scale=False))),
}
ROWS = 400


def federation(seed=0):
    rng = np.random.default_rng(seed)
    frames = {
        "a": pl.DataFrame(
            {"key": range(ROWS), "p": rng.integers(0, 2, ROWS), "u": rng.uniform(-1, 1, ROWS), "q": np.ones(ROWS, int)}
        ),
        "b": pl.DataFrame({"key": range(ROWS), "r": np.ones(ROWS, int), "v": rng.uniform(0, 1, ROWS)}),
    }
    frames["b"] = frames["b"].with_columns(pl.Series("y", np.where(rng.random(ROWS) < 0.5, 1.0, -1.0)))
    return co.Federation.from_frames(frames, on="key", label=("b", "y"), schemas=SCHEMAS)


def layout_of(fed, loss=None, **more):
    """A joint release of all columns as they are."""
    privacy = co.Privacy(2.0, 1e-6, trust="secure", **({} if loss is None else {"label_range": (-1.0, 1.0)}), **more)
    job = Job(co.Problem(loss or co.Logistic(), penalty=co.Ridge(1e-3)), fed.roster(), privacy)
    design = RunPlan.of(job, co.PrivateGram())
    frame = whole_frame(design.columns)
    figures, _ = plan_joint(job, design.columns, frame, design.rule, design.rho("joint"))
    return design, Layout(job, figures, frame)


def whole(fed, layout):
    """All matrices in units, side by side."""
    prepared = Prepared(layout.figures, layout, b"")
    parts = []
    for name, party in fed.parties.items():
        parts.append(prepared.rows(party.block, name).rows(0, ROWS).astype(np.int64))
        if name == "b":
            y = np.asarray(fed.labels).astype(np.int64)
            parts.append((y * (layout.figures.label // layout.units[layout.label]))[:, None])
    return np.hstack(parts)


def test_zeros_and_ones_and_classes_enter_as_they_are_and_their_length_is_kept_aside():
    fed = federation()
    _, layout = layout_of(fed)
    step = round(1.0 / layout.figures.step)
    assert step > 1
    assert layout.units.tolist() == [step, 1, step, step, 1, layout.figures.label]
    rows = whole(fed, layout)
    assert set(rows[:, [0, 2, 3]].ravel().tolist()) <= {0, 1}
    assert set(rows[:, 5].tolist()) == {-1, 1}
    assert np.abs(rows[:, 1]).max() > 8  # numbers keep their steps
    _, numbers = layout_of(fed, co.LeastSquares())
    assert numbers.units[-1] == 1


@pytest.mark.parametrize(
    "how",
    ["a shorter row", "a lower bound", "centred", "scaled", "a coarse step", "a norm that is too small"],
)
def test_where_a_row_could_be_shortened_or_is_changed_it_stays_on_the_grid(how):
    """Rows of ones that are cut have none left, so units need the schema's word that no row of this release is."""
    fed = federation()
    bounds = {"a shorter row": {"row_norm": 1.0}, "a lower bound": {"feature_bound": 0.5}}.get(how, {})
    _, layout = layout_of(fed, **bounds)
    frame, figures = layout.frame, layout.figures
    first = np.arange(frame.keep.size) == 0
    if how == "centred":
        frame = replace(frame, centre=0.5 * first)
    if how == "scaled":
        frame = replace(frame, scale=1.0 + first)
    if how == "a coarse step":
        figures = replace(figures, step=2.0)
    if how == "a norm that is too small":
        figures = replace(figures, norm2={**figures.norm2, "a": squares_within(np.sqrt(3.0), figures.step) - 1})
    changed = Layout(layout.job, figures, frame)
    assert not changed.whole("a")
    assert (changed.units[:3] == 1).all()


def test_noise_of_an_entry_shrinks_with_the_units_of_its_columns_and_never_below():
    _, layout = layout_of(federation())
    f, half = layout.units.astype(float), 0.5**0.5
    diagonal, triangle, sums = layout.weights("a")
    i, j = np.triu_indices(3, 1)
    by_hand = [(diagonal, 1 / f[:3] ** 2), (triangle, half / (f[i] * f[j])), (sums, half / f[:3])]
    by_hand.append((layout.cross_weights(("a", "b")), half / np.outer(f[:3], f[3:])))
    for weights, least in by_hand:
        assert (weights > least).all()
        np.testing.assert_allclose(weights, least, rtol=1e-14)


@pytest.mark.parametrize("loss", [None, co.LeastSquares()], ids=["classes", "numbers"])
@pytest.mark.parametrize("g", [0.0, 3.0, 5e4])
def test_a_product_with_eight_sds_of_noise_is_read_as_it_was(loss, g):
    fed = federation()
    _, layout = layout_of(fed, loss)
    rows, units = whole(fed, layout), layout.units.astype(float)
    exact = rows.T @ rows
    low_diagonal = np.diag(exact) - SDS * g / units**2  # as far below the truth as noise goes
    spread = np.floor(SDS * g / np.outer(units, units)).astype(np.int64)
    rings = layout.fit(low_diagonal, g)
    a, b = layout.mine("a"), layout.mine("b")
    ring = np.minimum.outer(rings.bits[a], rings.bits[b])
    for noise in (spread, -spread, 0 * spread):
        noisy = (exact + noise)[np.ix_(a, b)]
        found = rings.lift((noisy & ((1 << ring) - 1)).astype(np.uint64), a, b)
        np.testing.assert_array_equal(found, noisy)
    assert rings.bits.max() <= MOST_BITS


@pytest.mark.parametrize("g", [0.0, 1e6, 1e7])
def test_the_least_that_a_product_can_be_is_below_columns_that_are_opposite(g):
    """A column of ones beside labels that are all -1, lengths that noise made shorter, and noise below that: eight sds of each."""
    fed = federation()
    _, layout = layout_of(fed)
    rows, units = whole(fed, layout), layout.units.astype(float)
    rows[:, layout.label] = -1
    exact, ones = rows.T @ rows, 2
    rings = layout.fit(np.diag(exact) - SDS * g / units**2, g)
    spread = SDS * g / (units[ones] * units[layout.label])
    assert exact[ones, layout.label] == -ROWS
    assert rings.low[ones, layout.label] <= -ROWS - spread
    assert rings.low[ones, layout.label] >= -ROWS - 3 * spread - 2  # and not by much


def test_products_of_what_is_never_negative_begin_at_zero_and_others_below():
    fed = federation()
    _, layout = layout_of(fed)
    rows = whole(fed, layout)
    rings = layout.fit(np.diag(rows.T @ rows).astype(float), 0.0)
    assert rings.low[2, 3] == rings.low[0, 4] == 0
    assert rings.low[1, 4] < 0
    assert rings.low[2, layout.label] < 0


def test_a_number_in_a_ring_is_read_from_the_least_that_it_can_be():
    narrow = Rings(np.array([4, 9]), np.array([[0, -3], [-3, 0]]))
    for value in range(-3, 13):
        assert narrow.lift(np.array([[value & 15]], np.uint64), np.array([0]), np.array([1])) == value


def test_a_party_whose_rows_are_under_a_step_has_rings_too():
    """All its entries are zero, which is no number times how many ones a column has that is not of zeros and ones."""
    _, layout = layout_of(federation())
    figures = replace(layout.figures, norm2=layout.figures.norm2 | {"b": 0})
    rings = replace(layout, figures=figures).fit(np.full(layout.owner.size, 50.0), 3.0)
    assert ((rings.bits >= 1) & (rings.bits <= MOST_BITS)).all()
    assert (rings.low <= 0).all()
