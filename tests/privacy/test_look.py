"""A look at columns moves as charged, whatever a cell holds; levels of one unit leave with at most their share of delta."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation import Federation
from colonnade.kernels.histograms import CELLS, HALF, cells_of
from colonnade.methods.look import THE_KINDS, THE_PARTS, THE_RANGES, LookPlan, let_out
from colonnade.model.job import Job
from colonnade.privacy.accountant import epsilon, rho_for
from colonnade.privacy.block import Block
from colonnade.privacy.events import Charge, Event, Mechanism, row_rho
from colonnade.privacy.gate import Levels
from colonnade.privacy.mechanisms import SystemNoise, gaussian_sigma, tail_from
from colonnade.privacy.values import Private
from colonnade.runs.look import NO_MODEL
from tests.helpers.at_the_gate import Watched
from tests.helpers.contract import gate

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

N = 30_000
SCHEMA = co.Schema((co.Numeric("x"), co.Categorical("c"), co.Unknown("u"), co.Date("d"), co.Numeric("fine", 0, 1)))
CELLS_THAT_MAY_BE = {
    "x": [None, "", "nan", "inf", "-inf", "1e300", "-1e-300", "0", "3.5", "3,5", "1,234", "word", "∞", "1_0"],
    "c": [None, "", "a", "new", " a", "1", "1.0", "a" * 1000],
    "u": [None, "", "7", "2024-02-29", "2024-02-30", "word", "1e5"],
    "d": [None, "", "2024-02-29", "2024-02-30", "9999-12-31", "0001-01-01", "29.02.2024", "7"],
}


def table(n: int = N) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    made = pl.DataFrame(
        {
            "id": np.arange(n),
            "who": np.arange(n) // 2,
            "x": [f"{v:.3f}" for v in rng.normal(5.0, 2.0, n)],
            "c": rng.choice(["a", "b", "c"], n),
            "u": [str(v) for v in rng.integers(0, 9, n)],
            "d": [f"2024-{m:02d}-15" for m in rng.integers(1, 13, n)],
            "fine": rng.random(n),
            "y": rng.choice([0.0, 1.0], n),
        }
    )
    first = made.select(pl.all().exclude("id").head(1))  # all of a person of two rows is alike
    return made.with_columns(
        [pl.Series(name, [first[name][0]] * 2 + made[name].to_list()[2:], made[name].dtype) for name in "xcud"]
    )


def federation(frame: pl.DataFrame, schema: co.Schema = SCHEMA, people: int = 1) -> Federation:
    unit = None if people == 1 else ("who", people)
    own = frame if people > 1 else frame.drop("who")
    return Federation.from_frames({"a": own}, on="id", label=("a", "y"), schemas={"a": schema}, unit=unit)


def job_of(fed: Federation, e: float = 1.0, delta: float = 1e-6, **terms: Any) -> Job:
    return Job(NO_MODEL, fed.roster(), co.Privacy(e, delta, trust="secure", **terms))


def handed(plan: LookPlan, block: Block, answers: list[np.ndarray]) -> Watched:
    watched = Watched("a")
    watched.answers = list(answers)
    let_out(plan, block, watched)  # type: ignore[arg-type]  # it answers as a gate does
    return watched


def script(plan: LookPlan) -> list[np.ndarray]:
    """What the first two steps are told to have released: u is a number; x and u lie in two cells, d in one."""
    kinds = np.array([9_000, 0, 0])
    grid = np.zeros(3 * (CELLS + 1) + 1, np.int64)
    high = int(plan.over) + 1
    x, u, d = 0, CELLS + 2, 2 * (CELLS + 1) + 1  # c has one count, of missing cells, behind those of x
    for start, number in ((x, 2.0), (x, 7.0), (u, 1.0), (u, 8.0), (d, 19_800.0)):
        grid[start + int(cells_of(np.array([number]))[0])] = high
    return [kinds, grid]


@pytest.mark.parametrize("people", [1, 2])
@pytest.mark.parametrize("column", ["x", "c", "u", "d"])
def test_counts_move_by_no_more_than_is_charged_whatever_a_cell_holds(column: str, people: int) -> None:
    frame = table(200)
    fed = federation(frame, people=people)
    plan = LookPlan(job_of(fed))
    answers = script(plan)
    before = handed(plan, fed.parties["a"].block, answers)
    assert [one.sensitivity for one in before.given] == pytest.approx(
        [people * math.sqrt(2.0 * m) for m in (1, 4, 3)], rel=1e-9
    )
    moved_most = 0.0
    for cell in CELLS_THAT_MAY_BE[column]:
        cells = [cell] * people + frame[column].to_list()[people:]
        other = federation(frame.with_columns(pl.Series(column, cells, dtype=pl.String)), people=people)
        after = handed(plan, other.parties["a"].block, answers)
        for a, b, names, others in zip(before.given, after.given, before.levels, after.levels, strict=True):
            levels = sum((names.get(k, 0) - others.get(k, 0)) ** 2 for k in names.keys() | others.keys())
            moved = math.sqrt(a.apart(b) ** 2 + levels)
            assert moved <= people * math.sqrt(2.0) + 1e-9  # of one column
            moved_most = max(moved_most, moved)
    assert moved_most >= people * math.sqrt(2.0) - 1e-9  # and some cell moves as far


def test_a_row_that_changes_in_every_column_moves_as_far_as_is_charged() -> None:
    frame = table(200)
    fed = federation(frame)
    plan = LookPlan(job_of(fed))
    answers = script(plan)
    before = handed(plan, fed.parties["a"].block, answers)
    changed = {"x": "-100", "c": "new", "u": "-1000", "d": "1900-01-01"}
    first = [pl.Series(name, [cell, *frame[name].to_list()[1:]]) for name, cell in changed.items()]
    after = handed(plan, federation(frame.with_columns(first)).parties["a"].block, answers)
    ranges, other = before.given[1], after.given[1]
    levels = sum(
        (before.levels[1].get(k, 0) - after.levels[1].get(k, 0)) ** 2 for k in before.levels[1] | after.levels[1]
    )
    assert math.sqrt(ranges.apart(other) ** 2 + levels) == pytest.approx(ranges.sensitivity, rel=1e-9)


def test_an_empty_table_column_and_a_huge_one_ask_for_the_same_noise() -> None:
    """Neither the sizes of what leaves nor how much is drawn depends on how many levels there are."""
    frame = table(5_000)
    one = federation(frame.with_columns(c=pl.lit("same")))
    many = federation(frame.with_columns(c=pl.Series([str(k) for k in range(5_000)])))
    plan = LookPlan(job_of(one))
    answers = script(plan)
    asked = [handed(plan, fed.parties["a"].block, answers).rows for fed in (one, many)]
    assert asked[0] == asked[1]
    assert asked[0][1][0] == 5_000


# ------------------------------------------------------------------------------------------------ prices


@pytest.mark.parametrize("look", [0.05, 0.1, 0.5])
def test_a_look_costs_its_share_of_the_budget_and_no_more(look: float) -> None:
    fed = federation(table())
    plan = LookPlan(job_of(fed, look=look))
    assert plan.delta == pytest.approx(1e-6 / 20)
    assert plan.rho == pytest.approx(look * rho_for(1.0, 1e-6 - plan.delta), rel=1e-9)
    lines = plan.plan("a")
    assert [line.what for line in lines] == [THE_KINDS, THE_RANGES, THE_PARTS]
    shares = [line.rho / plan.rho for line in lines]
    assert shares == pytest.approx([0.1, 0.45, 0.45], rel=1e-9)
    assert [line.event.delta for line in lines] == [0.0, plan.delta, 0.0]
    assert row_rho({"a": lines}) <= plan.rho * (1 + 1e-12)


def test_what_parties_pay_adds_up_and_their_noise_is_the_same() -> None:
    frame = table(20_000)
    parts = {
        "a": (frame.select("id", "x", "c", "y"), co.Schema((co.Numeric("x"), co.Categorical("c")))),
        "b": (frame.select("id", "u", "d"), co.Schema((co.Unknown("u"), co.Date("d")))),
        "c": (frame.select("id", "fine"), co.Schema((co.Numeric("fine", 0, 1),))),
    }
    fed = Federation.from_frames(
        {name: part for name, (part, _) in parts.items()},
        on="id",
        label=("a", "y"),
        schemas={name: schema for name, (_, schema) in parts.items()},
    )
    plan = LookPlan(job_of(fed))
    plans = {name: plan.plan(name) for name in parts}
    assert plans["c"] == ()
    assert row_rho(plans) == pytest.approx(plan.rho, rel=1e-9)
    assert sum(plan.delta_of(name) for name in parts) == pytest.approx(plan.delta)
    for name in ("a", "b"):
        prices = plan.prices(name)
        assert gaussian_sigma(plan.sensitivity(plan.all(name)), prices[1]) == pytest.approx(plan.sigma, rel=1e-12)
        assert gaussian_sigma(plan.sensitivity(plan.numbers(name)), prices[2]) == pytest.approx(
            plan.sigma_of_parts, rel=1e-12
        )


def test_numbers_alone_take_nothing_of_delta() -> None:
    fed = federation(table().select("id", "who", "x", "y"), co.Schema((co.Numeric("x"),)))
    plan = LookPlan(job_of(fed))
    assert plan.delta == 0.0
    assert [line.rho / plan.rho for line in plan.plan("a")] == pytest.approx([0.5, 0.5], rel=1e-9)


# ------------------------------------------------------------------------------------------------ levels


def exact_tail(sigma: float, k: int) -> Any:
    """P(Z ≥ k), by adding up terms of high precision."""
    import mpmath

    with mpmath.workdps(60):
        reach = k + int(60 * sigma) + 60
        terms = [mpmath.e ** (-(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for z in range(reach)]
        whole = terms[0] + 2 * mpmath.fsum(terms[1:])
        return mpmath.fsum(terms[k:]) / whole


@pytest.mark.parametrize("chance", [1e-3, 1e-8, 1e-12])
@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.0, 4.0, 50.0, 300.0])
def test_the_tail_of_the_discrete_gaussian_is_bounded_and_nearly_met(sigma: float, chance: float) -> None:
    k = tail_from(sigma, chance)
    assert exact_tail(sigma, k) <= chance
    assert exact_tail(sigma, max(0, math.floor(0.97 * k) - 2)) > chance


@pytest.mark.parametrize("rows", [1, 3])
def test_levels_of_one_unit_alone_leave_with_at_most_their_share_of_delta(rows: int) -> None:
    """By the exact tail: r·p_c of them at most, each with a count of r at most."""
    frame = table().with_columns(who=pl.Series(np.arange(N) // rows))
    people = federation(frame, people=rows) if rows > 1 else federation(frame)
    plan = LookPlan(job_of(people, e=20.0))
    sigma = gaussian_sigma(plan.sensitivity(plan.all("a")), plan.prices("a")[1])
    least = plan.least("a")
    assert plan.levels() == 2  # the column of levels, and the one that may turn out to be one
    assert rows * plan.levels() * exact_tail(sigma, least - rows) <= plan.delta


@pytest.mark.chance(1e-9, "names ~ Binomial(100,000, at most .001): 100 ± 10, bounded at 170")
def test_a_level_of_one_row_leaves_as_rarely_as_it_may_and_a_common_one_always() -> None:
    sigma = gaussian_sigma(math.sqrt(2.0), 0.01)
    least = 1 + tail_from(sigma, 1e-3)
    rare = tuple(f"{k:06d}" for k in range(100_000))
    counts = np.ones(100_001, np.int64)
    counts[-1] = least + round(8 * sigma)
    line = Charge(Event(Mechanism.HISTOGRAM, 0.01, 1.0, delta=1e-7), 1, "levels")
    private = Private(np.zeros(1, np.int64), math.sqrt(2.0))
    door = gate((line,))
    _, names, left = door.histogram(private, [Levels((*rare, "~"), counts, least)], 100_001, rho=0.01, delta=1e-7)
    (found,) = names.value
    assert found[-1] == "~"
    assert 1 <= len(found) - 1 <= 170
    assert list(found) == sorted(found)
    assert (left.value[0] >= least).all()


@pytest.mark.chance(1e-9, "sums of 2,000 squares of normal draws, bounded at 7 sds")
def test_noise_of_counts_has_the_law_that_is_charged() -> None:
    rho = 0.02
    sigma = gaussian_sigma(2.0, rho)
    line = Charge(Event(Mechanism.HISTOGRAM, rho, 2.0), 1, "cells")
    noisy, _, _ = gate((line,)).histogram(Private(np.full(2_000, 70, np.int64), 2.0), (), 0, rho=rho)
    drawn = noisy.value - 70
    assert drawn.dtype == np.int64
    assert abs(drawn.mean()) <= 7 * sigma / math.sqrt(2_000)
    assert abs((drawn.astype(float) ** 2).mean() / sigma**2 - 1) <= 7 * math.sqrt(2 / 2_000)


class Counting(SystemNoise):
    """Counts how much noise is drawn."""

    drawn = 0

    def discrete_gaussian(self, size: int, sigma: Any) -> Any:
        Counting.drawn += size
        return super().discrete_gaussian(size, sigma)


@pytest.mark.chance(0, "how much is drawn, and never what")
@pytest.mark.parametrize("count", [0, 1, 500])
def test_as_much_noise_is_drawn_for_a_column_whatever_levels_it_has(count: int) -> None:
    line = Charge(Event(Mechanism.HISTOGRAM, 0.5, 1.0, delta=1e-7), 1, "levels")
    levels = [Levels(tuple(map(str, range(count))), np.ones(count, np.int64), 10**6)]
    Counting.drawn = 0
    door = gate((line,))
    door._noise = Counting()
    door.histogram(Private(np.zeros(3, np.int64), 1.0), levels, 500, rho=0.5, delta=1e-7)
    assert Counting.drawn == 503


# ------------------------------------------------------------------------------------------------ refusals


def test_too_few_rows_are_refused_before_anything_is_spent(tmp_path: Any) -> None:
    fed = federation(table(2_000))
    with pytest.raises(
        co.InvalidInput, match=r"2,000 rows are too few .*Declare bounds \(low and high\) of 'x', 'u', 'd'"
    ):
        co.look(fed, co.Privacy(1.0, 1e-6), store=tmp_path)
    levels = federation(table(300), co.Schema((co.Categorical("c"),)))
    with pytest.raises(co.InvalidInput, match=r"Declare levels of 'c'"):
        co.look(levels, co.Privacy(1.0, 1e-6), store=tmp_path)
    assert not list((tmp_path / "nodes").glob("*.db"))


def test_the_refusal_goes_by_the_number_of_rows_alone() -> None:
    """The same for a table of gaps as for any other."""
    nothing = table(2_000).with_columns(x=pl.lit(None, pl.String), u=pl.lit(None, pl.String))
    said = []
    for frame in (table(2_000), nothing):
        with pytest.raises(co.InvalidInput) as refused:
            co.look(federation(frame), co.Privacy(1.0, 1e-6))
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_a_look_is_for_columns_without_figures_and_for_rows_or_people() -> None:
    frame = table(N)
    with pytest.raises(co.InvalidInput, match="columns without declared figures"):
        co.look(federation(frame, co.Schema((co.Numeric("fine", 0, 1),))), co.Privacy(1.0, 1e-6))
    columns = Federation.from_frames({"a": frame}, on="id", label=("a", "y"), schemas={"a": SCHEMA}, unit=co.COLUMN)
    with pytest.raises(co.InvalidInput, match="protects rows or people"):
        co.look(columns, co.Privacy(1.0, 1e-6))
    with pytest.raises(co.InvalidInput, match="look must be a share"):
        co.Privacy(1.0, 1e-6, look=1.0)
    with pytest.raises(co.InvalidInput, match="give the rho and delta that a look has taken"):
        co.Privacy(1.0, 1e-6, looked=(1.0,))


# ------------------------------------------------------------------------------------------------ what is reported


@pytest.mark.chance(0, "figures of the statement, which follow from the terms")
def test_a_look_and_the_run_that_follows_cost_what_was_asked_for(tmp_path: Any) -> None:
    fed = federation(table())
    asked = co.Privacy(1.0, 1e-6, trust="secure")
    found = co.look(fed, asked, store=tmp_path / "bought")
    plan = LookPlan(job_of(fed))
    assert found.statement.epsilon == pytest.approx(epsilon(plan.rho, 1e-6 - plan.delta), rel=1e-6)
    assert found.privacy == replace(asked, looked=(found.privacy.looked or (0.0, 0.0)))
    assert found.privacy.looked == pytest.approx((plan.rho, plan.delta), rel=1e-9)
    assert found.privacy.rho + plan.rho == pytest.approx(rho_for(1.0, 1e-6 - plan.delta), rel=1e-9)
    assert HALF == CELLS // 2
