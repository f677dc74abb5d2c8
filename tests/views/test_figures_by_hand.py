"""Figures in words, cards and bounds as hand arithmetic has them, rounded to the side that is safe to say."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from colonnade.model.facts import CoefficientPath, Coefficients
from colonnade.views import model, parts, verdict
from colonnade.views.scorecard import CardColumn, CardFacts, CardLine, about, by_information


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (0.72134, 0.00231, "0.7213 ± 0.0023"),
        (123.4, 12.3, "123 ± 12"),
        (-5678.0, 999.0, "−5700 ± 1000"),
        (1.0, 0.0996, "1.00 ± 0.10"),
        (0.5, None, "0.5"),
        (0.5, math.inf, "0.5 ± no bound"),
    ],
)
def test_a_figure_is_shown_to_the_second_digit_of_its_error(value, error, shown):
    assert parts.with_error(value, error) == shown


def test_counts_and_sizes_are_said_as_people_write_them():
    sizes = {0: "0 B", 999: "999 B", 1000: "1.00 kB", 12_345: "12.3 kB", 999_499: "999 kB", 999_500: "1.00 MB"}
    assert {count: parts.human_bytes(count) for count in sizes} == sizes
    assert [parts.count_noun(count, "row") for count in (0, 1, 1234)] == ["0 rows", "1 row", "1,234 rows"]
    assert [parts.count_parties(count) for count in (1, 2)] == ["1 party", "2 parties"]
    assert [parts.join_names(list(names)) for names in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
    assert [parts.evenly_spaced(count) for count in (1, 3)] == [[0], [0, 1, 2]]
    assert parts.evenly_spaced(111) == [10 * place for place in range(12)]


@pytest.mark.parametrize(("numbers", "bars"), [(0, False), (2, False), (1, True), (2, True)])
def test_the_last_columns_of_a_table_but_for_bars_are_figures(numbers, bars):
    drawn = parts.table("t", ("a", "b", "c", "d"), [("w", "x", "y", "z")], numbers=numbers, bars=bars)
    figures = re.findall(r'<t[hd][^>]*class="n"[^>]*>(\w)<', drawn)
    last = 4 - bars
    assert figures == [*"abcd"[last - numbers : last], *"wxyz"[last - numbers : last]]


# ------------------------------------------------------------------------------------------------ bounds


def test_bounds_are_rounded_up_to_four_digits():
    assert verdict.factor(math.log(12345.0)) == pytest.approx(12350.0, rel=1e-12)
    assert verdict.factor(math.log(12341.0)) == pytest.approx(12350.0, rel=1e-12)
    assert verdict.factor(math.log(12340.0)) == pytest.approx(12340.0, rel=1e-12)
    assert verdict.factor(0.0) == 1.0
    assert verdict.factor(math.log(2.00001)) == pytest.approx(2.001)
    assert verdict.factor(1e3) == math.inf


def test_what_an_adversary_can_do_is_as_much_as_either_bound_allows():
    """Of 1 % accused wrongly at epsilon 1, 2.72 % are found; of 90 %, all but e⁻¹ of the tenth."""
    assert verdict.power(0.01, 1.0, 0.0) == pytest.approx(0.01 * math.e)
    assert verdict.power(0.01, 1.0, 1e-3) == pytest.approx(0.01 * math.e + 1e-3)
    assert verdict.power(0.9, 1.0, 0.0) == pytest.approx(1.0 - 0.1 / math.e)
    assert verdict.power(0.01, 800.0, 0.0) == 1.0
    assert verdict.tail(1.0, 1e-6, None) == (pytest.approx(1.0 + math.log(2.0)), 2e-6)
    assert verdict.tail(1.0, 0.6, None)[1] == 1.0


def test_what_tells_most_stands_first():
    left = [("a", "masked", "masked rows", 2), ("b", "exact", "exact labels", 1), ("a", "noisy", "noisy sums", 1)]
    assert re.findall(r'class="chip (\w+)"', verdict.left_list(left)) == ["exact", "noisy", "masked"]


# ------------------------------------------------------------------------------------------------ models and cards


def test_the_size_of_a_model_counts_coefficients_below_0_like_others():
    path = CoefficientPath(
        np.array([2.0, 1.0]), {"a": np.array([[0.0, -2.0], [1.0, -2.0]]), "b": np.array([[0.0], [0.5]])}
    )
    assert path.table().rows() == [(2.0, 1, 2.0), (1.0, 3, 3.5)]
    largest = Coefficients({"a": np.array([1.0, 0.0, -3.0]), "b": np.array([2.0])}).largest()
    assert [row[2] for row in largest.rows] == ["-3", "2", "1"]


def test_the_report_names_coefficients_of_the_largest_size_first_whatever_their_sign():
    x = {"a": np.array([1.0, 0.0, -3.0]), "b": np.array([2.0])}
    fit = SimpleNamespace(coefficients=x, spread=None, features={"a": tuple("pqr"), "b": ("s",)})
    counts, entries = model._entries(fit)  # type: ignore[arg-type]
    assert [(one.party, one.feature, one.value) for one in entries] == [
        ("a", "r", -3.0),
        ("b", "s", 2.0),
        ("a", "p", 1.0),
    ]
    assert [line[:3] for line in counts] == [("a", "3", "2"), ("b", "1", "1")]


AGE = (CardLine("below 30", 5, 0.2), CardLine("30 and above", 40, 0.2), CardLine("missing", 90, 0.0))
KIND = (CardLine("x", 10, 0.2), CardLine("y", 7, 0.2), CardLine("any other", 99, 0.0))
CARD = CardFacts(
    *(600.0, 50.0, 20.0, -1, 500, 0.3, 1.5),
    columns=(
        CardColumn("bank", "age", "age", "number", AGE, (30.0,), gap=2, iv=0.1),
        CardColumn("shop", "day", "day", "day", AGE[:2], (7e5,)),
        CardColumn("shop", "kind", "kind", "level", KIND, other=2, iv=0.4),
    ),
    link=(1.0, 0.0, 1.0, 0.5, 0.0, 0.0, 1.0),
    run="r",
    privacy="p",
)


def test_neither_a_gap_nor_an_unknown_level_is_the_best_of_a_column():
    assert [column.best for column in CARD.columns] == [40, 40, 10]


def test_columns_stand_by_their_information_and_those_without_it_last():
    assert [column.key for column in by_information(CARD)] == ["kind", "age", "day"]


@pytest.mark.parametrize(("good", "said"), [(-1, "repaid, label -1"), (1, "defaulted, label +1")])
def test_the_class_that_counts_as_good_is_named(good, said):
    card = replace(CARD, good=good)
    assert f"good ({said.partition(', ')[2]}) is to bad as 50 to 1; 20 more points" in about(card)[0]
    assert f"good ({said})" in about(replace(card, classes=("repaid", "defaulted")))[0]
