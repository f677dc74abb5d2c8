"""A party's public schema: what it promises about encoded rows, and the file it lives in."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy.sparse import csc_array, issparse

from colonnade.data.schema.cells import EncodedColumn, as_frame, nonzeros
from colonnade.data.schema.column import Column, Feature, Groups
from colonnade.data.schema.columns import Binary, Categorical, Date, Numeric, Plain
from colonnade.data.schema.infer import look
from colonnade.data.schema.table import VERSION, Encoded, Schema
from colonnade.errors import ColonnadeError, InvalidInput, StoreError

UNHURRIED = settings(deadline=None)  # a busy machine is no reason to fail
WORDS = st.text(min_size=1, max_size=6)
GAPS = st.sampled_from(["refuse", "indicator"])
FIGURES = st.floats(-1e6, 1e6) | st.floats(-1e100, 1e100)


def dense(encoded: Encoded) -> np.ndarray:
    return encoded.matrix.toarray() if issparse(encoded.matrix) else encoded.matrix


@st.composite
def numeric(draw: st.DrawFn, name: str) -> Numeric:
    low, high = sorted(draw(st.lists(FIGURES, min_size=2, max_size=2, unique_by=lambda x: x + 0.0)))
    missing = draw(GAPS | st.floats(low, high))
    return Numeric(name, low, high, scale=draw(st.booleans()), missing=missing)


@st.composite
def date(draw: st.DrawFn, name: str) -> Date:
    low, high = sorted(draw(st.lists(st.dates(), min_size=2, max_size=2, unique=True)))
    parts = draw(st.lists(st.sampled_from(["month", "weekday"]), max_size=2, unique=True))
    return Date(name, low, high, parts=tuple(parts), missing=draw(GAPS | st.dates(low, high)))


def binary(name: str) -> st.SearchStrategy[Binary]:
    return st.builds(Binary, st.just(name), missing=GAPS | st.sampled_from([0.0, 1.0]))


def categorical(name: str) -> st.SearchStrategy[Categorical]:
    levels = st.lists(st.text(max_size=4).filter(lambda text: text != "missing"), min_size=1, max_size=5, unique=True)
    return levels.flatmap(
        lambda found: st.builds(Categorical, st.just(name), st.just(tuple(found)), GAPS | st.sampled_from(found))
    )


def plain(name: str) -> st.SearchStrategy[Plain]:
    return st.builds(Plain, st.just(name), missing=GAPS | FIGURES)


@st.composite
def schemas(draw: st.DrawFn, *, bounded: bool = False) -> Schema:
    # An encoded name is "column=level": without "=" in column names no two of them can meet.
    names = draw(st.lists(WORDS.filter(lambda word: "=" not in word), max_size=5, unique=True))
    kinds = [numeric, date, binary, categorical] + ([] if bounded else [plain])
    columns = tuple(draw(draw(st.sampled_from(kinds))(name)) for name in names)
    if bounded:
        return Schema(columns)
    row_norm = draw(st.none() | st.floats(1e-6, 1e6))
    return Schema(columns, row_norm=row_norm, source=draw(st.sampled_from(["declared", "data"])))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, pl.DataFrame]:
    """A bounded schema and rows that respect its types, but neither its bounds nor its levels."""
    schema = draw(schemas(bounded=True))
    height = draw(st.integers(0, 6))
    data = {}
    for column in schema.columns:
        match column:
            case Numeric():
                values, dtype = st.floats(allow_nan=False), pl.Float64
            case Date():
                values, dtype = st.dates(), pl.Date
            case Binary():
                values, dtype = st.sampled_from([0.0, 1.0]), pl.Float64
            case Categorical():
                values, dtype = st.sampled_from(column.levels) | st.text(max_size=4), pl.String
            case _:
                raise AssertionError(f"add {type(column).__name__} to `tables`: cells that it takes, and their type")
        if column.missing != "refuse":
            values = st.none() | values
        rows = draw(st.lists(values, min_size=height, max_size=height))
        data[column.name] = pl.Series(column.name, rows, dtype=dtype)
    return schema, pl.DataFrame(data)


DAY = Date("day", dt.date(2000, 1, 1), dt.date(2010, 1, 1))


# --- what encoded rows satisfy ------------------------------------------------------------------------------


@UNHURRIED
@given(tables())
def test_no_data_can_exceed_the_entry_and_row_bounds(table):
    schema, frame = table
    rows = dense(schema.encode(frame))
    assert np.all(np.abs(rows) <= schema.entry_bounds())
    limit = Fraction(schema.row_bound()) ** 2
    assert all(sum((Fraction(value) ** 2 for value in row), Fraction(0)) <= limit for row in rows.tolist())


@UNHURRIED
@given(tables())
def test_the_public_flags_describe_every_encoded_entry(table):
    schema, frame = table
    rows = dense(schema.encode(frame))
    assert rows.shape[1] == schema.width == len(schema.features) == len(set(schema.features))
    assert np.all(rows[:, schema.nonnegative] >= 0.0)
    assert np.all(np.isin(rows[:, schema.binary], [0.0, 1.0]))


@UNHURRIED
@given(tables())
def test_encoding_agrees_with_a_row_by_row_reference_in_exact_arithmetic(table):
    schema, frame = table
    encoded = dense(schema.encode(frame)).tolist()
    for row, got in zip(frame.iter_rows(named=True), encoded, strict=True):
        for (value, slack), number in zip(reference_row(schema, row), got, strict=True):
            assert abs(Fraction(number) - value) <= slack


# Scaling rounds twice before and once in the quotient, which is at most 1, and once after doubling it:
# 2 * 3 + 1 units of rounding, one more for their products.
ROUNDING = Fraction(8, 2**53)


def reference_row(schema: Schema, row: dict[str, object]) -> list[tuple[Fraction, Fraction]]:
    """The encoded row without floating point, and how far rounding may carry each value."""
    out = []
    for column in schema.columns:
        value = row[column.name]
        stands_in = column.missing not in ("refuse", "indicator")
        if isinstance(column, Categorical):
            level = column.missing if value is None and stands_in else value
            out += [(Fraction(level == other), Fraction(0)) for other in column.levels]
        elif value is None and column.missing == "indicator":
            out.append((Fraction(0), Fraction(0)))
        elif isinstance(column, Date):
            day = column.missing if value is None else value
            low, high = column.low.toordinal(), column.high.toordinal()
            exact = min(max(day.toordinal(), low), high)
            out.append((Fraction(2 * exact - low - high, high - low), ROUNDING))
        elif isinstance(column, Numeric):
            number = column.missing if value is None else value
            exact = Fraction(min(max(number, column.low), column.high))
            low, high = Fraction(column.low), Fraction(column.high)
            out.append(((2 * exact - low - high) / (high - low), ROUNDING) if column.scale else (exact, Fraction(0)))
        elif isinstance(column, Binary):
            out.append((Fraction(column.missing if value is None else value), Fraction(0)))
        else:
            raise AssertionError(f"add {type(column).__name__} to `reference_row`: what its cells become, exactly")
        if column.missing == "indicator":
            out.append((Fraction(value is None), Fraction(0)))
        if isinstance(column, Date):
            day = column.missing if value is None and stands_in else value
            for part in column.parts:
                held = None if day is None else day.month if part == "month" else day.isoweekday()
                out += [(Fraction(held == level), Fraction(0)) for level in range(1, 13 if part == "month" else 8)]
    return out


def test_numeric_bounds_map_to_minus_one_and_one_and_values_outside_are_clipped():
    frame = pl.DataFrame({"t": [-math.inf, 10.0, 20.0, 25.0, 30.0, 1e300]})
    encoded = Schema((Numeric("t", 10, 30),)).encode(frame)
    assert dense(encoded)[:, 0].tolist() == [-1.0, -1.0, 0.0, 0.5, 1.0, 1.0]


def test_without_scaling_values_keep_their_units_inside_the_bounds():
    encoded = Schema((Numeric("count", 0, 9, scale=False),)).encode(pl.DataFrame({"count": [-4, 0, 5, 12]}))
    assert dense(encoded)[:, 0].tolist() == [0.0, 0.0, 5.0, 9.0]


def test_plain_columns_keep_every_bit():
    values = np.array([0.1, -1e-300, 5e-324, 1e308, -7.25])
    encoded = Schema.raw(["a"]).encode(pl.DataFrame({"a": values}))
    assert values.tobytes() == dense(encoded)[:, 0].tobytes()


def test_a_value_outside_the_levels_is_all_zeros_counted_and_not_printed():
    schema = Schema((Categorical("carrier", ("UA", "AA"), missing="indicator"),))
    encoded = schema.encode(pl.DataFrame({"carrier": ["AA", "secret", None, "UA"]}))
    assert encoded.names == ("carrier=UA", "carrier=AA", "carrier=missing")
    assert dense(encoded).tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert encoded.unknown == {"carrier": 1}
    assert repr(encoded) == "Encoded(4 rows x 3 columns)"


def test_what_was_left_out_or_clipped_is_told_to_the_owner_and_not_printed():
    schema = Schema(
        (Categorical("ward", ("a",), missing="indicator"), Numeric("t", 10, 30, missing="indicator"), DAY, Binary("b"))
    )
    frame = pl.DataFrame(
        {
            "ward": ["a", "secret", None],
            "t": [10.0, None, 30.5],
            "day": [dt.date(1999, 12, 31), dt.date(2001, 1, 1), dt.date(2020, 1, 1)],
            "b": [0, 1, 1],
        }
    )
    encoded = schema.encode(frame)
    assert encoded.unknown == {"ward": 1}
    assert encoded.clipped == {"t": 1, "day": 2}
    told = encoded.owner_notes()
    assert [text.split(" and ")[0] for text in told] == [
        "column 'ward': 1 of 3 values are none of the declared levels",
        "column 't': 1 of 3 values lie outside the declared bounds",
        "column 'day': 2 of 3 values lie outside the declared bounds",
    ]
    assert not any("secret" in text for text in told)
    assert "1" not in repr(encoded)
    assert schema.encode(frame.head(0)).owner_notes() == ()


def test_whole_numbers_are_levels_whether_pandas_made_them_floats_or_not():
    schema = Schema((Categorical("hour", (5, 6), missing="indicator"),))
    frame = pd.DataFrame({"hour": [5, None, 6, 6.5]})
    assert frame["hour"].dtype == np.float64
    assert dense(schema.encode(frame)).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert dense(schema.encode(pl.DataFrame({"hour": [5, 6]}))).tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("gap", [None, math.nan], ids=["null", "nan"])
@pytest.mark.parametrize("column", [Numeric("t", 0, 1), Binary("t"), Plain("t"), Categorical("t", ("0", "1"))])
def test_a_missing_value_is_refused_with_name_count_and_advice(column, gap):
    frame = pl.DataFrame({"t": [0.0, gap, 1.0, gap]}, strict=False)
    with pytest.raises(InvalidInput, match=r"column 't': 2 values are missing. Write missing = \"indicator\""):
        Schema((column,)).encode(frame)


def test_a_constant_stands_in_for_missing_values_in_the_columns_own_units():
    schema = Schema((Numeric("t", 0, 10, missing=5), Plain("p", missing=-3), Binary("b", missing=1)))
    frame = pl.DataFrame({"t": [None, 10.0], "p": [None, 2.5], "b": [None, False]})
    assert dense(schema.encode(frame)).tolist() == [[0.0, -3.0, 1.0], [1.0, 2.5, 0.0]]


def test_few_entries_make_a_sorted_compressed_matrix_and_many_an_array():
    frame = pl.DataFrame({"level": ["a", "b", "c", "d"] * 5, "x": [1.0, 2.0, 3.0, 4.0] * 5})
    compressed = Schema((Categorical("level", ("a", "b", "c", "d")),)).encode(frame).matrix
    assert isinstance(compressed, csc_array)
    assert compressed.has_sorted_indices
    assert all(np.all(np.diff(compressed.indices[a:b]) > 0) for a, b in pairwise(compressed.indptr))
    array = Schema((Numeric("x", 0, 5), Plain("level", missing=0))).encode(frame.with_columns(level=pl.lit(1.0)))
    assert isinstance(array.matrix, np.ndarray)
    assert array.matrix.flags.c_contiguous
    assert np.float64 == compressed.dtype == array.matrix.dtype


def test_a_wide_sparse_table_is_never_held_as_an_array():
    """20,000 rows of 20,000 levels would be 3.2 GB as an array; the compressed form is under a megabyte."""
    names = [str(number) for number in range(20_000)]
    matrix = Schema((Categorical("word", tuple(names)),)).encode(pl.DataFrame({"word": names[::-1]})).matrix
    assert matrix.nnz == 20_000
    assert np.array_equal(np.arange(20_000)[::-1], matrix.indices)


def test_pandas_and_polars_tables_encode_alike():
    frame = pl.DataFrame({"x": [1, None, 3], "c": ["a", "b", None], "b": [True, False, True], "extra": [1, 2, 3]})
    schema = Schema((Numeric("x", 0, 4, missing="indicator"), Categorical("c", ("a",), "indicator"), Binary("b")))
    other = frame.to_pandas().assign(extra=[object(), 1, "x"])  # what the schema does not name is not looked at
    assert np.array_equal(dense(schema.encode(frame)), dense(schema.encode(other)))


def test_a_party_without_features_still_has_rows():
    frame = pl.DataFrame({"late": [0, 1, 0]})
    assert (3, 0) == Schema(()).encode(frame).matrix.shape == Schema(()).encode(frame.to_pandas()).matrix.shape
    assert Schema(()).row_bound() == 0.0


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (Numeric("x", 0, 1), ["a"], "holds String, but the schema expects numbers"),
        (Binary("x"), [0, 2, 3], "2 values are neither 0 nor 1"),
        (Plain("x"), [math.inf], "1 values are infinite. Declare the column numeric"),
        (Categorical("x", ("a",)), [[1]], "has no levels. Convert it to text"),
        (Numeric("y", 0, 1), [1], "lacks 1 of the schema's 1 columns, the first is 'y'"),
    ],
)
def test_rows_that_contradict_the_schema_are_refused(column, values, message):
    with pytest.raises(InvalidInput, match=message):
        Schema((column,)).encode(pl.DataFrame({"x": values}))


def test_only_data_frames_are_encoded():
    with pytest.raises(InvalidInput, match=r"came as ndarray. Give a polars or pandas DataFrame"):
        Schema(()).encode(np.zeros((2, 2)))
    with pytest.raises(InvalidInput, match="mixes types"):
        Schema.infer(pd.DataFrame({"x": [1, "a", object()]}))


@dataclass(frozen=True)
class Own(Column):
    """A kind that is no public name: it names one feature, and encodes `width` of them."""

    width: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        range(self.width)

    def groups(self) -> Groups:
        return ((Feature(self.name, 1.0, nonnegative=False, binary=False),),)

    def encode(self, values: pl.Series) -> EncodedColumn:
        return EncodedColumn([nonzeros(values.to_numpy())] * self.width)

    def words(self) -> tuple[str, str]:
        return "own", ""


@pytest.mark.parametrize("width", [0, 2])
def test_a_kind_that_encodes_other_features_than_it_names_is_refused(width):
    frame = pl.DataFrame({"x": [0.5, 1.0]})
    assert dense(Schema((Own("x"),)).encode(frame)).tolist() == [[0.5], [1.0]]
    with pytest.raises(InvalidInput, match=rf"'x': Own.encode gave {width} features, and Own.groups names 1"):
        Schema((Own("x", width),)).encode(frame)


def test_a_kind_that_no_reader_knows_is_shown_and_not_written(tmp_path):
    schema = Schema((Plain("a"), Own("x")))
    assert 'type = "own"' in schema.to_text()
    with pytest.raises(InvalidInput, match=r"'x': Own is no public name.*CONTRIBUTING.md, Add a column kind"):
        schema.to_toml(tmp_path / "own.toml")
    assert not (tmp_path / "own.toml").exists()


def test_a_value_of_a_type_that_a_kind_does_not_take_is_named(monkeypatch):
    monkeypatch.setattr("colonnade.data.schema.table.kinds", lambda: {"own": Own})
    with pytest.raises(InvalidInput, match=r"line 1.*no column of type 'own' .* from name, width .*help\(co.Own\)"):
        Schema.from_text('[[column]]\ntype = "own"\nname = "x"\nwidth = "two"\n')


# --- dates --------------------------------------------------------------------------------------------------


def test_a_day_is_scaled_to_its_bounds_and_its_parts_are_levels():
    column = Date("day", dt.date(2024, 1, 1), dt.date(2024, 1, 31), parts=("weekday", "month"), missing="indicator")
    schema = Schema((column,))
    assert schema.features[:3] == ("day", "day=missing", "day.weekday=1")
    assert schema.features[-1] == "day.month=12"
    assert schema.width == 2 + 7 + 12
    frame = pl.DataFrame(
        {"day": [dt.date(2024, 1, 16), None, dt.date(2024, 2, 4)]}
    )  # a Tuesday; a Sunday after the end
    rows = dense(schema.encode(frame))
    named = [{name: x for name, x in zip(schema.features, row, strict=True) if x} for row in rows.tolist()]
    assert named == [
        {"day.weekday=2": 1.0, "day.month=1": 1.0},  # the middle of the bounds is zero
        {"day=missing": 1.0},
        {"day": 1.0, "day.weekday=7": 1.0, "day.month=2": 1.0},
    ]


def test_the_row_bound_counts_a_date_and_each_of_its_parts():
    schema = Schema((Date("day", "2024-01-01", "2024-01-31", parts=("month", "weekday")),))
    row = dense(schema.encode(pl.DataFrame({"day": [dt.date(2030, 1, 1)]})))[0]
    assert row @ row == 3.0
    assert math.sqrt(3) <= schema.row_bound() <= math.nextafter(math.nextafter(math.sqrt(3), 2), 2)


def test_dates_times_and_texts_of_one_day_encode_alike():
    days = [dt.date(2001, 2, 3), dt.date(2009, 12, 31), None]
    column = Date("day", "2000-01-01", "2010-01-01", format="%d.%m.%Y", missing="indicator")
    frame = pl.DataFrame({"day": days})
    wanted = dense(Schema((column,)).encode(frame))
    for other in (
        pl.col("day").cast(pl.Datetime) + pl.duration(hours=23),
        pl.col("day").cast(pl.Datetime("us", "Europe/Berlin")) + pl.duration(hours=12),
        pl.col("day").dt.strftime("%d.%m.%Y"),
    ):
        assert np.array_equal(wanted, dense(Schema((column,)).encode(frame.with_columns(other))))
    pandas = pd.DataFrame({"day": pd.to_datetime(pd.Series(days))})
    assert np.array_equal(wanted, dense(Schema((column,)).encode(pandas)))


def test_a_missing_date_or_level_takes_the_declared_one():
    schema = Schema((Date("day", "2000-01-01", "2000-01-03", missing="2000-01-02"), Categorical("c", ("a", "b"), "b")))
    encoded = schema.encode(pl.DataFrame({"day": [None, dt.date(2000, 1, 3)], "c": [None, "a"]}))
    assert dense(encoded).tolist() == [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    assert encoded.unknown == {"c": 0}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["2001-02-03", "2001-02-30", "secret"],
            r"'day': 2 of 3 texts are no dates of the form '%Y-%m-%d', .* in row 2",
        ),
        ([1.5, 2.5], r"'day' holds Float64, but the schema expects dates. Convert it"),
        ([dt.date(2001, 1, 1), None], r"'day': 1 values are missing. Write missing = \"indicator\""),
    ],
)
def test_what_is_no_date_is_refused_without_being_quoted(values, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        Schema((DAY,)).encode(pl.DataFrame({"day": values}))
    assert "secret" not in str(caught.value)


# --- blocks -------------------------------------------------------------------------------------------------


@settings(UNHURRIED, max_examples=50)
@given(tables(), st.integers(1, 4))
def test_a_table_in_blocks_becomes_the_same_matrix(table, size):
    schema, frame = table
    whole = schema.encode(frame)
    parts = schema.encode_blocks(frame.iter_slices(size) if frame.height else [frame])
    assert type(whole.matrix) is type(parts.matrix)
    assert whole.matrix.dtype == parts.matrix.dtype
    assert np.array_equal(dense(whole), dense(parts))
    assert (whole.unknown, whole.clipped) == (parts.unknown, parts.clipped)
    if issparse(parts.matrix):
        assert parts.matrix.has_canonical_format
        assert parts.matrix.indices.dtype == whole.matrix.indices.dtype


def test_an_error_in_a_later_block_names_its_rows():
    blocks = [pl.DataFrame({"x": [1.0, 2.0]}), pl.DataFrame({"x": [None, 2.0]})]
    with pytest.raises(InvalidInput, match=r"among rows 3 to 4: column 'x': 1 values are missing"):
        Schema((Plain("x"),)).encode_blocks(blocks)


# --- bounds -------------------------------------------------------------------------------------------------


def test_the_row_bound_counts_one_per_column_and_is_reached():
    schema = Schema(
        (
            Numeric("x", 0, 9, missing="indicator"),
            Numeric("n", -2, 1, scale=False),
            Categorical("c", ("a", "b", "c"), missing="indicator"),
            Binary("b"),
        )
    )
    assert schema.entry_bounds().tolist() == [1, 1, 2, 1, 1, 1, 1, 1]
    row = dense(schema.encode(pl.DataFrame({"x": [9], "n": [-5], "c": ["b"], "b": [1]})))[0]
    assert math.sqrt(7) <= schema.row_bound() <= math.nextafter(math.sqrt(7), 3)
    assert row @ row == 7.0


@UNHURRIED
@given(st.integers(1, 300))
@example(3)  # the double nearest to the root of 3 lies below it
def test_the_row_bound_is_never_rounded_down(count):
    bound = Schema(tuple(Binary(f"b{i}") for i in range(count))).row_bound()
    assert Fraction(bound) ** 2 >= count
    assert Fraction(math.nextafter(bound, 0.0)) ** 2 < count


@pytest.mark.parametrize(("reach", "bound"), [(5.0, 5.0), (0.25, 1.0)])
def test_the_row_bound_of_a_column_with_an_indicator_is_that_of_the_larger_of_the_two(reach, bound):
    """A row holds the value or the indicator, never both: -5 or 1, a quarter or 1."""
    schema = Schema((Numeric("x", -reach, reach, missing="indicator", scale=False),))
    rows = dense(schema.encode(pl.DataFrame({"x": [-reach, None]})))
    assert np.linalg.norm(rows, axis=1).tolist() == [reach, 1.0]
    assert schema.row_bound() == bound


def test_bounds_read_off_the_data_are_not_public():
    schema = Schema.infer(pl.DataFrame({"x": [1.0, 2.0]}))
    for bound in (schema.entry_bounds, schema.row_bound):
        with pytest.raises(InvalidInput, match='set source = "declared"'):
            bound()


def test_plain_columns_prove_no_bound_and_the_message_says_what_to_write():
    schema = Schema((Binary("a"), Plain("b"), Plain("c")), row_norm=2.0)
    for bound in (schema.entry_bounds, schema.row_bound):
        with pytest.raises(InvalidInput, match=r"2 of 3 columns .* first is 'b'. Write type = \"numeric\" with low"):
            bound()


# --- inference ----------------------------------------------------------------------------------------------


def test_inference_follows_types_and_never_refuses_what_it_saw():
    frame = pl.DataFrame(
        {
            "number": [1.5, math.nan, 4.0],
            "constant": [7, 7, 7],
            "flag": [True, None, False],
            "zero_one": [0, 1, 1],
            "text": ["b", "a", None],
            "nothing": [None, None, None],
        }
    )
    schema = Schema.infer(frame)
    assert (
        Numeric("number", 1.5, 4.0, missing="indicator"),
        Numeric("constant", 0.0, 14.0),
        Binary("flag", missing="indicator"),
        Binary("zero_one"),
        Categorical("text", ("a", "b"), missing="indicator"),
        Numeric("nothing", -1.0, 1.0, missing="indicator"),
    ) == schema.columns
    assert schema.source == "data"
    assert (3, schema.width) == schema.encode(frame).matrix.shape
    assert schema == Schema.infer(frame.to_pandas())


PANDAS = {
    "float": [1.5, None, 3.0],
    "int": [1, 2, 3],
    "small": np.array([1, 2, 3], np.uint8),
    "bool": [True, False, True],
    "text": ["a", None, "née"],
    "old text": pd.Series(["a", None, "b"], dtype=object),
    "flags with gaps": pd.Series([True, None, False], dtype=object),
    "whole with gaps": pd.Series([1, None, 2**60], dtype="Int64"),
    "truth with gaps": pd.Series([True, None, False], dtype="boolean"),
    "times": pd.to_datetime(["2020-01-01 10:00", None, "2021-05-05 00:00"]),
    "times in a zone": pd.to_datetime(["2020-01-01 10:00", None, "2021-05-05 00:00"]).tz_localize("Europe/Paris"),
    "days": pd.Series([dt.date(2020, 1, 1), None, dt.date(2021, 1, 1)], dtype=object),
    "levels": pd.Categorical(["x", None, "y"]),
    "number levels": pd.Categorical([3, None, 5]),
    "nothing": pd.Series([None, None, None], dtype=object),
}


def test_a_pandas_frame_is_the_same_with_and_without_pyarrow(monkeypatch):
    frame = pd.DataFrame(PANDAS)
    wanted = [as_frame(part) for part in (frame, frame.head(0))]

    def absent(_):
        raise ImportError("pyarrow is required")

    monkeypatch.setattr(pl, "from_pandas", absent)
    for expected, part in zip(wanted, (frame, frame.head(0)), strict=True):
        assert_frame_equal(expected.cast({pl.Categorical: pl.String}), as_frame(part))
    mixed = pd.Series([1, "a"], dtype=object)
    for bad in (pd.DataFrame({"x": mixed}), pd.DataFrame([[1, 2]], columns=["x", "x"])):
        with pytest.raises(InvalidInput, match="mixes types that have no common one, or two columns share a name"):
            as_frame(bad)


def test_inference_needs_rows():
    with pytest.raises(InvalidInput, match="no rows to read a schema off"):
        Schema.infer(pl.DataFrame({"x": pl.Series([], dtype=pl.Float64)}))


def test_dates_and_times_are_inferred_as_dates_with_the_bounds_that_were_seen():
    days = [dt.date(2013, 1, 5), None, dt.date(2013, 12, 31)]
    wanted = Date("day", dt.date(2013, 1, 5), dt.date(2013, 12, 31), missing="indicator")
    frame = pl.DataFrame({"day": days})
    assert (wanted,) == Schema.infer(frame).columns
    assert (wanted,) == Schema.infer(frame.with_columns(pl.col("day").cast(pl.Datetime))).columns
    assert (Date("day", dt.date(2013, 1, 4), dt.date(2013, 1, 6)),) == Schema.infer(frame.head(1)).columns


def test_inference_over_blocks_is_inference_over_the_whole():
    frame = pl.DataFrame(
        {
            "x": [None, 1.5, 2.0, math.nan, 8.0, -1.0],
            "n": [0, 1, 1, 0, 7, 1],
            "c": ["b", "a", None, "b", "c", "a"],
            "late": [None, None, None, None, "x", "x"],
            "d": [dt.date(2020, 1, day) for day in (5, 3, 9, 4, 4, 2)],
        }
    )
    for size in (1, 2, 4):
        looks = look(frame.iter_slices(size))
        assert Schema.infer(frame) == Schema(tuple(seen.column() for seen in looks), source="data")
        assert [seen.missing for seen in looks] == [2, 0, 1, 4, 0]


def test_a_type_that_has_no_encoding_is_named():
    with pytest.raises(InvalidInput, match=r"column 'x' holds List\(Int64\), which has no encoding.*or drop it"):
        Schema.infer(pl.DataFrame({"x": [[1]]}))
    blocks = [pl.DataFrame({"x": [1]}), pl.DataFrame({"x": ["a"]})]
    with pytest.raises(InvalidInput, match="no encoding"):
        look(blocks)[0].column()


# --- the value and its file ---------------------------------------------------------------------------------


@settings(UNHURRIED, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schema=schemas())
def test_a_schema_survives_its_file(tmp_path, schema):
    schema.to_toml(tmp_path / "party.toml")
    again = Schema.from_toml(tmp_path / "party.toml")
    assert schema == again
    assert schema.digest() == again.digest()
    assert schema == Schema.from_text(schema.to_text())


@UNHURRIED
@given(schemas(), schemas())
def test_digests_are_equal_exactly_when_schemas_are(first, second):
    assert (first == second) == (first.digest() == second.digest())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Schema((Numeric("x", 0, 1),)), Schema((Numeric("x", 0, 2),))),
        (Schema((Numeric("x", 0, 1),)), Schema((Numeric("x", 0, 1, scale=False),))),
        (Schema((Binary("x"),)), Schema((Plain("x"),))),
        (Schema((Binary("x"), Binary("y"))), Schema((Binary("y"), Binary("x")))),
        (Schema((Categorical("x", ("a", "b")),)), Schema((Categorical("x", ("b", "a")),))),
        (Schema(()), Schema((), row_norm=1.0)),
        (Schema(()), Schema((), source="data")),
    ],
)
def test_every_part_of_a_schema_enters_its_digest(first, second):
    assert first.digest() != second.digest()


def test_the_sign_of_zero_does_not_change_the_digest():
    assert Schema((Numeric("x", -0.0, 1),)).digest() == Schema((Numeric("x", 0, 1.0),)).digest()


DATE = 'version = 1\n[[column]]\ntype = "date"\nname = "a"\n'
NUMBER = '[[column]]\ntype = "numeric"\nname = "a"\nlow = 0\nhigh = 4\n'


def test_a_schema_written_by_hand_needs_only_what_has_no_default(tmp_path):
    path = tmp_path / "party.toml"
    path.write_text(
        'row_norm = 2\n[[column]]\ntype = "numeric"\nname = "age"\nlow = 0\nhigh = 100\nmissing = 40\n'
        '[[column]]\ntype = "categorical"\nname = "month"\nlevels = [1, 2]\nmissing = "indicator"\n'
    )
    columns = (
        Numeric("age", 0.0, 100.0, missing=40.0),
        Categorical("month", ("1", "2"), missing="indicator"),
    )
    assert Schema(columns, row_norm=2.0) == Schema.from_toml(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[column]]\nname = "a"\ntype = "number"\n',
            r"line 1, .*type is 'number'. Write one of numeric, binary",
        ),
        ('[[column]]\nname = "a"\n', r"line 1, .*type is absent. Write one of numeric"),
        (
            '\n[[column]]\ntype="numeric"\nname="a"\nlow=2\nhigh=2\n',
            r"line 2, .*'a': low = 2 is not below high = 2",
        ),
        (
            '[[column]]\ntype="numeric"\nname="a"\nlow=nan\nhigh=2\n',
            r"'a': low is nan. Write a number within",
        ),
        (
            '[[column]]\ntype="numeric"\nname="a"\nlow=0\nhigh=inf\n',
            r"'a': high is inf. Write a number within",
        ),
        ('[[column]]\ntype="numeric"\nname="a"\nlow=true\nhigh=2\n', r"'a': low is True. Write a number"),
        (
            '[[column]]\ntype="numeric"\nname="a"\nlow=0\nhigh=2\nscale=1\n',
            r"scale is 1. Write true or false",
        ),
        ('[[column]]\ntype="numeric"\nname="a"\nlow=0\nhigh=2\nmissing=3\n', r"missing = 3 lies outside"),
        (
            '[[column]]\ntype="numeric"\nname="a"\nlow=0\nhigh=2\nmissing="no"\n',
            r"missing is 'no'. Write \"refuse\"",
        ),
        ('[[column]]\ntype="numeric"\nname="a"\nlow=0\n', r"'a': one bound without the other. Write low and high"),
        ('[[column]]\ntype="numeric"\nname="a"\nmissing=0.0\n', r"'a': missing is a value, and there are no bounds"),
        ('[[column]]\ntype="numeric"\nname="a"\nscale=false\n', r"'a': scale and quantiles go with low and high"),
        (NUMBER + "quantiles = [1.0, 2.0]\n", r"'a': there are 2 quantiles. Write 1, 3, 7"),
        (NUMBER + "quantiles = [2.0, 2.0, 3.0]\n", r"'a': quantiles must rise between low and high"),
        (NUMBER + "quantiles = [4.0]\n", r"'a': quantiles must rise between low and high"),
        (NUMBER + "scale = false\nquantiles = [2.0]\n", r"quantiles must rise .* with scale = true"),
        (NUMBER + 'quantiles = "1"\n', r"'a': quantiles is '1'. Write a list of numbers"),
        ('[[column]]\ntype="binary"\nname="a"\nmissing=0.5\n', r"missing = 0.5 in a binary column"),
        (
            '[[column]]\ntype="binary"\nname="a"\nlow=0\n',
            r"low is unknown; there are name, missing",
        ),
        ('[[column]]\ntype="binary"\nname=""\n', r"a column is called ''"),
        ('[[column]]\ntype="binary"\n', r"key 'name' is absent"),
        ('[[column]]\ntype="categorical"\nname="a"\nlevels=[]\n', r"'a': no levels"),
        ('[[column]]\ntype="categorical"\nname="a"\nlevels="xy"\n', r"levels is 'xy'. Write a list"),
        ('[[column]]\ntype="categorical"\nname="a"\nlevels=[1.5]\n', r"level 1.5 is not text"),
        ('[[column]]\ntype="categorical"\nname="a"\nlevels=["1", 1]\n', r"level '1' is listed 2 times"),
        (
            '[[column]]\ntype="categorical"\nname="a"\nlevels=["x"]\nmissing=0\n',
            r"Write \"indicator\", \"other\", \"refuse\" or",
        ),
        ('[[column]]\ntype="binary"\nname="a"\n' * 2, r"name 'a' stands for 2 columns"),
        (DATE + "low = 2000-01-01\n", r"'a': one bound without the other. Write low and high"),
        (DATE + "low = 2000-01-01\nhigh = 2000-01-01\n", r"low = 2000-01-01 is not below high = 2000-01-01"),
        (DATE + "low = 2000-01-01\nhigh = 5\n", r"'a': high is 5. Write a date as 2024-12-31"),
        (DATE + "low = 2000-01-01\nhigh = 2001-01-01T00:00:00\n", r"Write a date .* without a time"),
        (DATE + 'low = 2000-01-01\nhigh = "soon"\n', r"'a': high is 'soon', which is no day"),
        (DATE + 'low = 2000-01-01\nhigh = 2001-01-01\nparts = ["year"]\n', r"Name each of month, weekday at most once"),
        (DATE + 'low = 2000-01-01\nhigh = 2001-01-01\nparts = "month"\n', r"Write a list, as in parts"),
        (DATE + "low = 2000-01-01\nhigh = 2001-01-01\nmissing = 1999-01-01\n", r"missing = 1999-01-01 lies outside"),
        (DATE + 'low = 2000-01-01\nhigh = 2001-01-01\nformat = ""\n', r"format is ''. Write for example"),
        ("version = 2\n", r"line 1 .*version is 2; this Colonnade reads version = 1. Write that, or install a newer"),
        ('version = "1"\n', r"version is '1'; this Colonnade reads version = 1"),
        (
            '[[column]]\ntype="categorical"\nname="a"\nlevels=["missing"]\nmissing="indicator"\n',
            r"name 'a=missing' stands for 2 columns",
        ),
        (
            '[[columns]]\ntype="binary"\nname="a"\n',
            r"party.toml, line 1 .*columns is unknown; the nearest name is 'column'",
        ),
        ("column = 3\n", r"open each column with \[\[column\]\]"),
        ("row_norm = 0\n", r"row_norm = 0. Write a public bound above 0"),
        (
            'source = "guess"\n',
            r"line 1 .*source must be one of 'declared', 'data', 'public', as in source = \"declared\"; got 'guess'",
        ),
        ("row_norm = \n", r"party.toml: not TOML: .*line 1"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(tmp_path, text, message):
    path = tmp_path / "party.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message) as caught:
        Schema.from_toml(path)
    assert str(path) in str(caught.value)


VERSION_1 = """source = "declared"
row_norm = 2.0

[[column]]
type = "numeric"
name = "age"
low = 0.0
high = 120.0
scale = true
missing = "refuse"

[[column]]
type = "numeric"
name = "count"
low = 0.0
high = 9.0
scale = false
missing = 3.0

[[column]]
type = "binary"
name = "smoker"
missing = "indicator"

[[column]]
type = "categorical"
name = "ward"
levels = ["surgery", "medicine"]
missing = "indicator"

[[column]]
type = "plain"
name = "crp"
missing = -1.5
"""


def test_a_file_of_version_1_means_what_it_meant():
    """The text and both digests were written by the last release of version 1."""
    schema = Schema.from_text(VERSION_1)
    assert schema == Schema(
        (
            Numeric("age", 0, 120),
            Numeric("count", 0, 9, scale=False, missing=3),
            Binary("smoker", missing="indicator"),
            Categorical("ward", ("surgery", "medicine"), missing="indicator"),
            Plain("crp", missing=-1.5),
        ),
        row_norm=2.0,
    )
    assert schema.digest() == "b7cf81d7b2eee10469687d3fff75fc011c901f44ae047df0a0cc6c391b984aba"
    assert Schema(()).digest() == "9290aaddab021d714d7728c96bd7c2b889bb3aea5fb541aa5a226e225e8eb99c"
    assert schema.to_text() == f"version = {VERSION}\n{VERSION_1}"


def test_a_date_written_by_hand_needs_only_its_bounds():
    text = 'version = 1\n[[column]]\ntype = "date"\nname = "day"\nlow = 2000-01-01\nhigh = "2010-01-01"\n'
    assert Schema((DAY,)) == Schema.from_text(text)


def test_a_header_inside_a_text_never_misleads_about_the_line(tmp_path):
    path = tmp_path / "party.toml"
    path.write_text('[[column]]\ntype="binary"\nname="""\n[[column]]\n"""\n[[column]]\ntype="wrong"\n')
    with pytest.raises(InvalidInput, match=r"party.toml: \[\[column\]\] number 2: type is 'wrong'"):
        Schema.from_toml(path)


def test_files_that_cannot_be_read_or_written_say_so(tmp_path):
    with pytest.raises(InvalidInput, match=r"could not be read: .*No such file"):
        Schema.from_toml(tmp_path / "absent.toml")
    with pytest.raises(StoreError, match="could not be written"):
        Schema(()).to_toml(tmp_path / "absent" / "party.toml")
    (tmp_path / "latin.toml").write_bytes(b'source = "\xff"\n')
    with pytest.raises(InvalidInput, match=r"latin.toml is not a text file \(byte 10 is not UTF-8\)"):
        Schema.from_toml(tmp_path / "latin.toml")


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_names_and_levels_that_no_file_could_hold_are_refused(text):
    for make in (lambda: Binary(text), lambda: Categorical("c", (text,))):
        with pytest.raises(ColonnadeError, match="lone surrogate"):
            make()


def test_importing_the_schema_loads_no_data_frame_library():
    code = "import sys, colonnade.data.schema; sys.exit('polars' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=False).returncode == 0
