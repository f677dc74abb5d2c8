"""Figures of fallbacks and of people with several rows: links that differ, and noise that grows with a person's rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.problem.link import Link
from colonnade.runs.refit import _same, fallback, link_of
from tests.helpers.exact_fits import CLASSES, NUMBERS, SCHEMAS, fitted, tables

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def frames(label: str = "won", rows: int = 400):
    return {name: frame.drop({"y", "won"} - {label}, strict=False) for name, frame in tables(rows).items()}


@pytest.fixture(scope="module")
def private(tmp_path_factory) -> co.Fit:
    fed = co.Federation.from_frames(frames(), on="id", label=("c", "won"), schemas=SCHEMAS)
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
    privacy, store = co.Privacy(100.0, 1e-6), tmp_path_factory.mktemp("store")
    return co.fit(fed, problem, co.PrivateGram(), privacy, store=store, noise=SeededNoise(2))


def test_a_fallback_has_the_link_of_the_model_that_it_is(private):
    """Without x0 scores say less: the fallback's link is its own, and not that of the whole fit."""
    less = private.without("a")
    made = fallback(private, ["a"])
    assert made.link == tuple(map(float, less.link))
    assert made.link != tuple(map(float, private.link))
    assert made.intercept == less.intercept
    assert made.coefficients == {name: tuple(less.coefficients[name].tolist()) for name in ("b", "c")}
    assert made.without == ("a",)


def test_what_is_solved_again_is_compared_in_every_figure(private):
    made = fallback(private, ["a"])
    size = max(1.0, *(abs(x) for own in made.coefficients.values() for x in own), *map(abs, made.link))

    def moved(by: float):
        for k in range(len(made.link)):
            yield replace(made, link=tuple(x + by * (j == k) for j, x in enumerate(made.link)))
        yield replace(made, intercept=made.intercept + by)
        for name, own in made.coefficients.items():
            for k in range(len(own)):
                changed = tuple(x + by * (j == k) for j, x in enumerate(own))
                yield replace(made, coefficients={**made.coefficients, name: changed})

    assert all(_same(made, other) for other in moved(1e-10 * size))
    assert not any(_same(made, other) for other in moved(1e-7 * size))
    assert not _same(made, replace(made, link=made.link[:2]))
    assert not _same(made, replace(made, coefficients={"b": made.coefficients["b"]}))


def test_a_link_is_told_where_scores_alone_say_a_class(private, tmp_path):
    assert link_of(private) == tuple(map(float, private.link))
    other = Link(2.0, -0.5, 0.7, 0.4, 0.1, 0.02, 0.95)
    assert link_of(replace(private, link=other)) == (2.0, -0.5, 0.7, 0.4, 0.1, 0.02, 0.95)
    assert link_of(replace(private, link=None)) == (1.0, 0.0, 1.0, 0.5, 0.0, 0.0, 1.0)  # scores are log-odds
    assert link_of(replace(private, beside={"offset": "exposure"})) == ()
    assert link_of(fitted(tmp_path, NUMBERS)) == ()
    assert link_of(replace(private, link=None, problem=co.Problem(co.SquaredHinge()))) == ()


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_noise_grows_with_the_rows_that_a_person_may_have(rows, tmp_path):
    """A person of k rows moves a sum by k times as much as one row does, so its noise is k times as large."""
    sds = []
    for k in (1, rows):
        own = {name: frame.with_columns(person=pl.col("id") // rows) for name, frame in frames().items()}
        unit = {} if k == 1 else {"unit": ("person", k)}
        own = own if unit else frames()
        lines = {name: schema.as_lines() for name, schema in SCHEMAS.items()}
        fed = co.Federation.from_frames(own, on="id", label=("c", "won"), schemas=lines, **unit)
        privacy = co.Privacy(100.0, 1e-6)  # so that rows are made by one rule, whatever k is
        fit = co.fit(fed, CLASSES, co.PrivateGram(), privacy, store=tmp_path / str(k), noise=SeededNoise(1))
        assert fit.release.unit_rows == k
        assert (fit.privacy.unit == "one row") == (k == 1)
        sds.append(fit.release.sums.noise if fit.release.sums is not None else fit.release.noise[:2, -2])
    assert sds[1] == pytest.approx(rows * np.asarray(sds[0]), rel=0.02)
