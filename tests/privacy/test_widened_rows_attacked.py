"""The strongest search for rows that move a release of Private Gram further than its sensitivity: schemas of all kinds
with curves, every rule, and all pairs of rows whose cells lie at bounds, at knots, beyond them, or are missing."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.kernels import curves
from colonnade.methods.gram.local import Local, _rows
from colonnade.methods.gram.plan import RunPlan, plan_joint
from colonnade.methods.gram.products import sums_weights
from colonnade.methods.gram.rows import Layout, Prepared, class_weights, label_steps, squared_columns
from colonnade.methods.gram.rule import prepare, whole_frame
from colonnade.methods.node_setup import usable_labels
from colonnade.model.job import Job, Sums

ROWS = 60  # of a table, each against each


def any_column(rng, name):
    low = float(rng.choice([-1.0, 0.0, 18.0, -3.7]))
    ends = low, low + float(rng.choice([1.0, 2.0, 0.1, 72.3, 1e4]))
    missing = "indicator" if rng.random() < 0.5 else float(rng.uniform(*ends))
    match rng.integers(8):
        case 0 | 1 | 2:
            values = int(rng.integers(2, 12)) if rng.random() < 0.3 else None
            return co.Numeric(name, *ends, missing=missing, smooth=int(rng.integers(1, 9)), values=values)
        case 3:
            return co.Numeric(name, *ends, missing=missing)
        case 4:
            return co.Numeric(name, *ends, missing=missing, scale=False)
        case 5:
            return co.Binary(name, missing="indicator")
        case 6:
            return co.Categorical(name, ("a", "b", "c"), missing="indicator")
        case _:
            return co.Date(name, dt.date(2020, 1, 1), dt.date(2024, 1, 1), parts=("month",), missing="indicator")


def any_cells(rng, column):
    if isinstance(column, co.Numeric):
        t = np.concatenate(
            [curves.knots(3), curves.knots(3) + 1e-12, [-1, 1, 0, -1e9, 1e9, 1 / 3], rng.uniform(-1, 1, 8)]
        )
        cells = column.low + (rng.choice(t, ROWS) + 1) / 2 * (column.high - column.low)
        return [None if gap else float(cell) for cell, gap in zip(cells, rng.random(ROWS) < 0.1, strict=True)]
    if isinstance(column, co.Binary):
        return [None if cell == 2 else int(cell) for cell in rng.integers(0, 3, ROWS)]
    if isinstance(column, co.Categorical):
        return rng.choice(np.array(["a", "b", "c", "unknown", None], object), ROWS).tolist()
    days = rng.integers(0, 2200, ROWS)
    return [None if day == 0 else dt.date(2019, 1, 1) + dt.timedelta(days=int(day)) for day in days]


@cache
def any_table(seed):
    """A table of a few rows, of parties with any schemas; and the generator as it is left, to go on from."""
    rng = np.random.default_rng(seed)
    classes = bool(rng.integers(2))
    names = list("abc")[: int(rng.integers(1, 4))]
    schemas = {p: co.Schema(tuple(any_column(rng, f"{p}{k}") for k in range(rng.integers(1, 5)))) for p in names}
    if rng.random() < 0.2:
        schemas["a"] = replace(schemas["a"], row_norm=float(schemas["a"].row_bound() * rng.uniform(0.3, 1.1)))
    frames = {
        p: pl.DataFrame({"key": np.arange(ROWS)} | {c.name: any_cells(rng, c) for c in schema.columns}, strict=False)
        for p, schema in schemas.items()
    }
    y = rng.choice([0, 1] if classes else [-9.0, -1.0, 1.0, 0.37, 5.0], ROWS)
    holder = str(rng.choice([*names, "lab"]))
    frames[holder] = frames.get(holder, frames["a"].select("key")).with_columns(pl.Series("y", y))
    return classes, co.Federation.from_frames(frames, "key", (holder, "y"), schemas=schemas), rng.bit_generator.state


def any_job(rng, seed, trust, cross):
    """Such a table in a run that is said to have many more rows."""
    classes, fed, rng.bit_generator.state = any_table(seed)
    more = {} if classes else {"label_range": (-1.0, 1.0)}
    more |= {"feature_bound": float(rng.uniform(0.2, 3))} if rng.random() < 0.15 else {}
    privacy = co.Privacy(float(10 ** rng.uniform(-1.5, 2.5)), 1e-9, trust=trust, **more)
    rows, problem = int(10 ** rng.uniform(1.5, 6)), co.Problem(co.Logistic() if classes else co.LeastSquares())

    def job():
        return Job(problem, replace(fed.roster(), rows=rows), privacy)

    screen = int(rng.integers(1, 12)) if cross == "secure" and rng.random() < 0.4 else None
    labels = "released" if cross == "secure" and (classes or screen) and rng.random() < 0.5 else "secure"
    method = co.PrivateGram(cross=cross, screen=screen, labels=labels)
    fed = fed.with_curve_depth(method.depth(job()))
    return fed, job(), method, usable_labels(fed.labels, Job(problem, fed.roster(), privacy))


def any_frame(rng, design, rows):
    """Centres, scales and lengths as they follow from class sums of any size, signal or noise."""
    columns, d = design.columns, design.columns.owner.size
    each, sd = columns.bound * rows * 10 ** rng.uniform(-2, 1), np.full(d, 10 ** rng.uniform(-4, 0) * rows)
    both = rng.normal(size=(2, d)) * each
    squares = np.abs(rng.normal(size=d)) * columns.bound**2 * rows / 3
    sums = Sums(*both, float(rng.uniform(0, rows)), squares, sd, float(sd[0]), sd)
    return prepare(design.rule, columns, rows, sums if design.rule.sums else None)


def apart(vectors):
    """Squared distances of all pairs."""
    squares = np.square(vectors).sum(axis=1)
    return squares[:, None] + squares - 2.0 * vectors @ vectors.T


def products_apart(vectors):
    """Squared distances of all pairs of zz'."""
    inner = vectors @ vectors.T
    squares = np.square(np.diag(inner))
    return squares[:, None] + squares - 2.0 * np.square(inner)


def integer_rows(fed, prepared, name):
    rows = prepared.rows(fed.parties[name].block, name)
    whole = rows.rows(0, ROWS).astype(np.int64) if rows.columns else np.zeros((ROWS, 0), np.int64)
    if prepared.figures.alone and rows.stay_sparse:
        assert (rows.sparse_rows(0, ROWS).toarray() == whole).all()
    if prepared.figures.name == "joint" and prepared.layout.whole(name):
        assert rows.shortened == 0
    return whole * rows.grid.unit


def sums_moved(rng, fed, job, design, y):
    """Class sums, in units of their noise: how far the two rows furthest apart are."""
    figures = design.sums
    prepared = Prepared(figures, Layout(job, figures, whole_frame(design.columns)), b"")
    squares, _, size = sums_weights(figures, 3)
    total = np.zeros((ROWS, ROWS))
    # By released labels, which are the same on both sides, any class; else that of each row.
    same = design.labels is not None
    weights = class_weights(job, np.full(ROWS, rng.choice([-1.0, 0.1, 1.0])) if same else y, figures.label)
    for name in job.roster.with_columns:
        whole = integer_rows(fed, prepared, name)
        own = whole[:, squared_columns(job, name)] ** 2 / squares
        total += apart(np.column_stack([whole * weights[:, :1], whole * weights[:, 1:], own]))
    return math.sqrt(max(0.0, float((total + apart(weights[:, :1] / size)).max()))) / design.sensitivity(figures)


def joint_moved(rng, fed, job, design, y):
    rule, frame = any_frame(rng, design, job.roster.rows)
    figures, _ = plan_joint(job, design.columns, frame, rule, design.rho("joint"))
    prepared = Prepared(figures, Layout(job, figures, frame), b"")
    unit = int(prepared.layout.units[prepared.layout.label])
    label = label_steps(job, y, figures.label // unit) * unit
    parts = [integer_rows(fed, prepared, name) for name in job.roster.parties]
    moved = products_apart(np.column_stack([*parts, np.full(ROWS, figures.constant), label]).astype(float))
    return rule.name, math.sqrt(max(0.0, float(moved.max()))) / design.sensitivity(figures)


@pytest.mark.parametrize("trust", ["secure", "consortium"])
def test_no_pair_of_rows_of_any_schema_moves_a_release_further_than_it_is_charged(trust):
    found: dict[str, float] = {}
    for seed in range(160):
        rng = np.random.default_rng(0)
        fed, job, method, y = any_job(rng, (seed, 1), trust, "secure")
        try:
            design = RunPlan.of(job, method)
            if design.sums is not None:
                found["sums"] = max(found.get("sums", 0.0), sums_moved(rng, fed, job, design, y))
            rule, ratio = joint_moved(rng, fed, job, design, y)
        except InvalidInput:
            continue  # sums that fit no ring are refused before anything is sent
        found[rule] = max(found.get(rule, 0.0), ratio)
    assert max(found.values()) <= 1.0
    assert min(found[name] for name in ("sums", "raw", "centred", "screened", "weak")) > 0.99  # and nearly reach it


def test_what_parties_release_alone_moves_no_further_than_they_are_charged_together():
    found = []
    for seed in range(100):
        rng = np.random.default_rng(0)
        fed, job, _, _ = any_job(rng, (seed, 2), "nobody", "none")
        try:
            local = Local(RunPlan.of(job, co.PrivateGram(cross="none")))
            price = np.zeros((ROWS, ROWS))
            for name in local.releasing:
                rows, (constant, label) = _rows(local, fed.parties[name].block, name), local.beside(name)
                whole = rows.rows(0, ROWS).astype(float) if rows.columns else np.zeros((ROWS, 0))
                # Labels were released before: the same on both sides.
                beside = np.full(ROWS, constant), np.full(ROWS, rng.choice([-label, 0, label]))
                moved = products_apart(np.column_stack([whole, *beside]))
                assert moved.max() <= local.sensitivity(name) ** 2
                if moved.any():  # not where a party's rows are under a step
                    price += local.rho(name) * moved / local.sensitivity(name) ** 2
        except InvalidInput:
            continue
        found.append(price.max() / (job.rho - local.label_rho))
    assert 0.99 < max(found) <= 1.0
