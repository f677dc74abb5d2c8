"""A look under attack: what it says that it costs, and what single cells can do to it before, during and after."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation import Federation
from colonnade.data.schema.sought import (
    SoughtCells,
    check_cells,
    days_of,
    levels_found,
    number_found,
    numbers_of,
    texts_of,
    with_own_names,
)
from colonnade.kernels.histograms import counts, quantiles, range_of
from colonnade.privacy.accountant import epsilon
from colonnade.privacy.conditions import Code
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger
from colonnade.runs.look import FORMAT, KIND
from colonnade.runs.release_file import write_sealed
from colonnade.runtime.run_store import RunStore

pytestmark = pytest.mark.chance(0, "ids, keys and noise are drawn: no claim depends on what they are")

WHATEVER = pytest.mark.chance(0, "what is refused, named and charged, whatever the noise is")
N = 20_000
TERMS = co.Privacy(4.0, 1e-6, trust="secure")
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3))
SQUARES = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-3))
SCHEMA = co.Schema((co.Numeric("x"), co.Categorical("c")))


def table(seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": np.arange(N),
            "x": rng.normal(5.0, 2.0, N),
            "c": rng.choice(["a", "b", "c"], N),
            "y": rng.choice([0.0, 1.0], N),
        }
    )


def federation(frame: Any = None, schema: co.Schema = SCHEMA, label: str = "y", **more: Any) -> Federation:
    own = table() if frame is None else frame
    return Federation.from_frames({"a": own}, on="id", label=("a", label), schemas={"a": schema}, **more)


def spent(store: Path, party: str = "a") -> tuple[float, float]:
    folder = RunStore(store)
    try:
        budget = Ledger(folder.log(party), party, co.Policy(exact=True)).budget()
        return budget.rho, budget.taken
    finally:
        folder.close()


# ------------------------------------------------------------------------------------------------ what it costs


@WHATEVER
def test_terms_remember_every_look_that_they_paid(tmp_path: Path) -> None:
    """The second look of the same terms is another release: a run after both has what both have left."""
    first = co.look(federation(), TERMS, store=tmp_path)
    second = co.look(federation(table(1)), first.privacy, store=tmp_path)
    assert first.privacy.looked is not None
    assert second.privacy.looked == pytest.approx(spent(tmp_path), rel=1e-9)
    fit = co.fit(second.federation, RIDGE, privacy=second.privacy, store=tmp_path)
    assert fit.privacy.epsilon <= 4.0
    rho, taken = spent(tmp_path)
    assert epsilon(rho, 1e-6 - taken) <= 4.0 * (1 + 1e-9)


@WHATEVER
def test_a_fit_that_looks_after_a_look_that_was_bought_costs_what_was_asked_for_in_all(tmp_path: Path) -> None:
    bought = co.look(federation(), TERMS, store=tmp_path)
    fit = co.fit(federation(table(1)), RIDGE, privacy=bought.privacy, store=tmp_path)
    assert fit.privacy.epsilon <= 4.0
    rho, taken = spent(tmp_path)
    assert epsilon(rho, 1e-6 - taken) <= 4.0 * (1 + 1e-9)


@pytest.mark.parametrize("looked", [(100.0, 0.0), (0.0, 1e-6), (0.0, 0.5), (True, 0.0), (-1.0, 0.0), (math.nan, 0.0)])
def test_a_look_that_would_have_taken_all_is_refused_where_terms_are_made(looked: Any) -> None:
    with pytest.raises(co.InvalidInput, match="look"):
        replace(TERMS, looked=looked)


@WHATEVER
def test_a_look_with_seeded_noise_says_that_it_protects_nobody_and_is_no_other_calls(tmp_path: Path) -> None:
    fits = [
        co.fit(federation(), RIDGE, privacy=TERMS, store=tmp_path / str(k), noise=co.SeededNoise(3)) for k in range(2)
    ]
    assert fits[0].privacy.sentence.startswith("Not private: the noise was seeded")
    assert fits[0].privacy.epsilon == math.inf
    assert fits[0].schemas["a"] == fits[1].schemas["a"]
    again = co.look(federation(), TERMS, store=tmp_path / "0")
    assert again.federation.parties["a"].schema.columns[0].low != fits[0].schemas["a"].columns[0].low


@WHATEVER
@pytest.mark.parametrize("looked", [None, (0.0, 0.0), (1e-9, 0.0)])
def test_a_run_that_does_not_count_its_look_names_its_price(looked: Any, tmp_path: Path) -> None:
    found = co.look(federation(), TERMS, store=tmp_path)
    fit = co.fit(found.federation, RIDGE, privacy=replace(TERMS, looked=looked), store=tmp_path)
    (said,) = [one for one in fit.privacy.conditions if one.code in (Code.LOOKED_AT, Code.LOOKED_BESIDE)]
    assert said.code is Code.LOOKED_BESIDE
    rho, taken = spent(tmp_path)
    assert said.figures == pytest.approx((found.statement.epsilon, epsilon(rho, 1e-6 - taken)), rel=1e-6)
    assert "both together cost epsilon" in fit.privacy.sentence
    fit.save(tmp_path / "fit.json")
    assert co.load(tmp_path / "fit.json").privacy == fit.privacy


def test_a_look_without_a_store_is_refused_as_a_run_is() -> None:
    with pytest.raises(co.InvalidInput, match="needs store="):
        co.look(federation(), TERMS)


@WHATEVER
def test_a_kept_look_that_is_damaged_or_not_whole_is_not_taken(tmp_path: Path) -> None:
    co.look(federation(), TERMS, store=tmp_path)
    price = spent(tmp_path)
    (path,) = (tmp_path / "fits").glob("*.look.json")
    head, body = path.read_text().split("\n", 1)
    changes: list[dict[str, Any]] = [
        {"parts": []},
        {"parts": [5] * 3},
        {"cells": [1, 2]},
        {"cells": [2**70] * 245},
        {"kinds": [[1]]},
        {"names": [["a", "a"]], "counts": [[9_999, 9_999]]},
        {"names": [["\ud800"]], "counts": [[9_999]]},
        {"names": 3},
    ]
    for change in changes:
        raw = json.loads(body)
        raw["a"] |= change
        write_sealed(path, KIND, FORMAT, json.dumps(raw))
        with pytest.raises(co.InvalidInput, match="not a whole look"):
            co.look(federation(), TERMS, store=tmp_path)
    path.write_text(head + "\n" + body[:-9])
    with pytest.raises(co.InvalidInput, match="damaged"):
        co.look(federation(), TERMS, store=tmp_path)
    assert spent(tmp_path) == price


# ------------------------------------------------------------------------------------------------ single cells


def cells_of(values: pl.Series, column: co.Column | None = None) -> SoughtCells:
    return SoughtCells(pl.DataFrame([values.alias("x")]), co.Schema((column or co.Unknown("x"),)))


FAR = 2**62
TYPED = {
    "text": pl.Series(
        ["a\0b", "", "\n", None, "nan", "1e400", "½", "١٢", "1,5", "1,500", " 7 ", "2024-02-30", "\U0001f642"]
    ),
    "float": pl.Series([math.nan, math.inf, -0.0, 1e300, 2.0**53, None]),
    "bool": pl.Series([True, None, False]),
    "decimal": pl.Series(["1.5", "2.25", None]).cast(pl.Decimal(10, 2)),
    "huge": pl.Series([2**64 - 1, 1, None], dtype=pl.UInt64),
    "categorical": pl.Series(["a", "", None], dtype=pl.Categorical),
    "enum": pl.Series(["a", "b", None], dtype=pl.Enum(["a", "b"])),
    "date": pl.Series([2**31 - 1, -(2**31), 0, None], dtype=pl.Int32).cast(pl.Date),
    "ms": pl.Series([FAR, -FAR, 0, None]).cast(pl.Datetime("ms")),
    "us": pl.Series([FAR, -FAR, 0, None]).cast(pl.Datetime("us")),
    "zone": pl.Series([FAR, -FAR, 0, None]).cast(pl.Datetime("ms", "Europe/Berlin")),
    "time": pl.Series([0, None]).cast(pl.Time),
    "nothing": pl.Series([None, None]),
}


@pytest.mark.parametrize("kind", TYPED)
def test_every_cell_is_read_by_itself_whatever_stands_beside_it(kind: str) -> None:
    values = TYPED[kind].alias("x")
    for read in (
        numbers_of,
        lambda one: days_of(one, "%Y-%m-%d"),
        lambda one: np.array(texts_of(one).to_list(), object),
    ):
        whole = read(values)
        alone = [read(values[k : k + 1])[0] for k in range(values.len())]
        assert all(a == b or (a != a and b != b) for a, b in zip(whole.tolist(), alone, strict=True))
    cells = cells_of(values)
    kinds = cells.kind_counts("x")
    assert kinds.sum() <= values.len()
    names, counts, missing = cells.level_counts("x")
    assert counts.sum() + missing == values.len()
    assert list(names) == sorted(set(names))
    assert len(cells.digest()) == 64
    for column in (
        co.Numeric("x", 0.0, 1.0, missing=0.5),
        co.Date("x", "2020-01-01", "2020-12-31", missing=dt.date(2020, 6, 1)),
        co.Categorical("x", ("a", "1"), "other"),
    ):
        assert cells.encoded(co.Schema((column,))).matrix.shape[0] == values.len()


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([[1], [2]]),
        pl.Series([{"a": 1}]),
        pl.Series([b"\xff"]),
        pl.Series([object()], dtype=pl.Object),
        pl.Series([dt.timedelta(1)]),
    ],
)
def test_a_type_that_no_look_can_read_is_refused_before_it(values: pl.Series) -> None:
    for column in (co.Numeric("x"), co.Categorical("x"), co.Date("x"), co.Unknown("x")):
        with pytest.raises(co.InvalidInput, match="which no look can read"):
            check_cells(pl.DataFrame([values.alias("x")]), co.Schema((column,)))


def test_cells_that_are_joined_otherwise_have_another_digest() -> None:
    found = [cells_of(pl.Series(own)).digest() for own in (["a\0b", "c"], ["a", "b\0c"], ["\1", "c"], [None, "c"])]
    assert len(set(found)) == 4


@pytest.mark.parametrize("name", ["count", "level", "rows", "x"])
def test_a_column_may_have_any_name(name: str) -> None:
    frame = pl.DataFrame({name: ["b", "a", "a", None]})
    found = SoughtCells(frame, co.Schema((co.Categorical(name),))).level_counts(name)
    assert (found[0], found[1].tolist(), found[2]) == (("a", "b"), [2, 1], 1)


@pytest.mark.parametrize("sentinel", [dt.date.max, dt.date.min])
@WHATEVER
def test_days_at_the_ends_of_the_calendar_have_bounds_there(sentinel: dt.date, tmp_path: Path) -> None:
    days = [sentinel if k % 2 else dt.date(2020, 1, 1 + k % 28) for k in range(N)]
    frame = table().with_columns(x=pl.Series(days))
    found = co.look(federation(frame, co.Schema((co.Date("x"), co.Categorical("c")))), TERMS, store=tmp_path)
    column = found.federation.parties["a"].schema.columns[0]
    assert column.low <= dt.date(2020, 1, 28)
    assert column.high >= dt.date(2020, 1, 1)


@WHATEVER
def test_levels_and_indicators_that_share_a_name_with_another_feature_give_way(tmp_path: Path) -> None:
    """Else a schema would be refused for what rows hold, after the price was paid."""
    gaps = pl.Series([k % 4 == 0 for k in range(N)])
    level = pl.Series(["missing", "other", "x", "x~1"] * (N // 4))
    frame = table().with_columns(
        pl.Series(
            "c", pl.select(pl.when(pl.Series([k % 5 == 0 for k in range(N)])).then(None).otherwise(level)).to_series()
        ),
        pl.Series("x", np.where(gaps, np.nan, table()["x"].to_numpy())),
        pl.Series("c=x", table(2)["x"]),
        pl.Series("x=missing", table(3)["x"]),
    )
    schema = co.Schema((co.Categorical("c"), co.Numeric("x"), co.Numeric("c=x"), co.Numeric("x=missing", 0, 9)))
    fed = federation(frame, schema)
    fit = co.fit(fed, RIDGE, privacy=TERMS, store=tmp_path)
    found = fit.schemas["a"].columns
    assert set(found[0].levels) == {"missing", "other"}
    assert found[0].missing == "other"
    assert isinstance(found[1].missing, float)
    assert len(set(fit.schemas["a"].features)) == fit.schemas["a"].width


LEVELS = (
    "indicator",
    "other",
    "refuse",
    "missing",
    "1",
    "1.0",
    "a\0b",
    "~",
    "=",
    '"',
    "\\",
    "\n",
    "\x7f",
    "é",
    "e\u0301",
    "\u2028",
    " a",
    "a" * 5_000,
)


def test_a_schema_of_any_levels_comes_back_from_its_file() -> None:
    for gaps in (False, True):
        (column,) = with_own_names([levels_found(co.Categorical("c"), LEVELS, gaps)], {"c"})
        schema = co.Schema((column,))
        assert co.Schema.from_text(schema.to_text()) == schema
        encoded = schema.encode(pl.DataFrame({"c": [*LEVELS, None]})).matrix
        whole = encoded.toarray() if hasattr(encoded, "toarray") else encoded
        assert (whole[: len(LEVELS), : len(LEVELS)] == np.eye(len(LEVELS))).all()
        assert not whole[len(LEVELS)].any()  # no level is a keyword to a gap, and "missing" has no indicator beside it


def test_quantiles_over_many_octaves_still_rise() -> None:
    rows = np.exp2(np.random.default_rng(0).uniform(-15.0, 30.0, 100_000))
    found = range_of(counts(rows), 100.0)
    assert found is not None
    column = number_found(co.Numeric("x"), found, quantiles(found, found.part_counts(rows), 5.0, 63), missing=False)
    assert len(column.quantiles) == 63
    schema = co.Schema((column,))
    assert co.Schema.from_text(schema.to_text()) == schema


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("column", [co.Numeric("z", 0, 1), co.Binary("z")])
def test_cells_that_a_declaration_refuses_are_refused_before_a_look_is_paid(column: co.Column) -> None:
    frame = table().with_columns(z=pl.Series([None, 2.0, *[0.0] * (N - 2)]))
    with pytest.raises(co.InvalidInput, match="'z'"):
        federation(frame, co.Schema((co.Numeric("x"), column)))


def test_labels_that_are_no_numbers_are_refused_before_a_look_at_their_range(tmp_path: Path) -> None:
    frame = table().with_columns(y=pl.Series(["abc", *["1.5"] * (N - 1)]))
    fed = federation(frame, co.Schema((co.Numeric("x"),), label=co.Numeric("y")))
    with pytest.raises(co.InvalidInput, match="a look for their range takes numbers"):
        co.look(fed, TERMS, store=tmp_path)
    assert not list((tmp_path / "nodes").glob("*.db"))


@pytest.mark.parametrize(("holder", "name"), [("a", "z"), ("b", "y")])
def test_a_range_of_labels_that_are_not_there_is_refused_before_a_look(holder: str, name: str, tmp_path: Path) -> None:
    frames = {"a": table().select("id", "x", "y"), "b": table().select("id", "c")}
    schemas = {"a": co.Schema((co.Numeric("x"),)), "b": co.Schema((co.Categorical("c"),))}
    schemas[holder] = replace(schemas[holder], label=co.Numeric(name))
    fed = Federation.from_frames(frames, on="id", label=("a", "y"), schemas=schemas)
    with pytest.raises(co.InvalidInput, match="and labels are column 'y' of 'a'"):
        co.look(fed, TERMS, store=tmp_path)
    with pytest.raises(co.InvalidInput, match="and labels are column 'y' of 'a'"):
        co.fit(fed, SQUARES, privacy=TERMS, store=tmp_path)
    assert not list((tmp_path / "nodes").glob("*.db"))


@pytest.mark.parametrize("column", [co.Numeric("x"), co.Categorical("x"), co.Date("x"), co.Unknown("x")])
def test_columns_that_wait_for_a_look_encode_nothing(column: co.Column) -> None:
    with pytest.raises(co.InvalidInput, match="not declared"):
        co.Schema((column,)).encode(table())


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@WHATEVER
def test_odd_labels_count_as_missing_or_at_the_end(odd: float, tmp_path: Path) -> None:
    frame = table().with_columns(y=pl.Series([odd, *table()["x"].to_list()[1:]]))
    fed = federation(frame, co.Schema((co.Numeric("x"),), label=co.Numeric("y")))
    fit = co.fit(fed, SQUARES, privacy=TERMS, store=tmp_path)
    assert -10.0 < fit.schemas["a"].label.low < fit.schemas["a"].label.high < 30.0


@WHATEVER
def test_a_look_that_saw_nothing_says_so(tmp_path: Path) -> None:
    frame = table().with_columns(c=pl.col("id").cast(pl.String))
    for _ in range(2):
        with pytest.raises(co.InvalidInput, match="the look saw none of the columns"):
            co.fit(federation(frame, co.Schema((co.Categorical("c"),))), RIDGE, privacy=TERMS, store=tmp_path)


def test_a_federation_that_waits_for_a_look_can_lose_a_party() -> None:
    frames = {"a": table().select("id", "x", "y"), "b": table().select("id", "c")}
    schemas = {"a": co.Schema((co.Numeric("x"),)), "b": co.Schema((co.Categorical("c"),))}
    fed = Federation.from_frames(frames, on="id", label=("a", "y"), schemas=schemas)
    assert list(fed.without("b").parties) == ["a"]


@pytest.mark.parametrize("column", [co.Numeric("x"), co.Categorical("x"), co.Unknown("x")])
def test_between_organisations_columns_without_figures_are_refused(column: co.Column) -> None:
    with pytest.raises(co.InvalidInput, match="between organisations nobody looks at columns"):
        federation(schema=co.Schema((column,))).to_file()


# ------------------------------------------------------------------------------------------------ what is seen of it


@WHATEVER
def test_a_rare_level_stands_in_no_letter_log_or_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rare = "Zanzibar-7"
    frame = table().with_columns(c=pl.Series([rare, *table()["c"].to_list()[1:]]))
    tap = co.Tap(co.InProcess())
    with caplog.at_level(0):
        found = co.look(federation(frame), TERMS, store=tmp_path, engine=tap)
        co.fit(found.federation, RIDGE, privacy=found.privacy, store=tmp_path, engine=tap)
    assert found.federation.parties["a"].schema.columns[1].levels_of() == ("a", "b", "c")
    assert rare not in caplog.text
    assert rare not in repr(found) + found._repr_html_()
    assert tap.letters
    assert all(rare.encode() not in letter.body for letter in tap.letters)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert all(rare.encode() not in path.read_bytes() for path in files)


@pytest.mark.parametrize("at", [1, 2, 3])
@WHATEVER
def test_a_look_that_stops_between_its_releases_sends_none_twice_and_is_paid_once(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Gate.histogram
    asked = []

    def stops(self: Gate, *given: Any, **named: Any) -> Any:
        asked.append(named["rho"])
        if len(asked) == at:
            raise KeyboardInterrupt
        return real(self, *given, **named)

    monkeypatch.setattr(Gate, "histogram", stops)
    schema = co.Schema((co.Unknown("x"), co.Categorical("c")))
    with pytest.raises(KeyboardInterrupt):
        co.look(federation(schema=schema), TERMS, store=tmp_path)
    monkeypatch.setattr(Gate, "histogram", real)
    found = co.look(federation(schema=schema), TERMS, store=tmp_path)
    assert spent(tmp_path) == pytest.approx(found.privacy.looked, rel=1e-9)


# ------------------------------------------------------------------------------------------------ types of columns


@pytest.mark.parametrize("odd", ["odd", 7, 1.5, True, None, math.nan, "\ud800", dt.date(2020, 1, 1), b"x", (1, 2)])
def test_one_odd_cell_of_a_pandas_column_moves_no_other(odd: Any) -> None:
    """The type of a whole column hangs on each of its cells: a look sees the others as they were."""
    import pandas as pd

    frame = pd.DataFrame(
        {"id": range(9), "n": range(9), "f": [k / 2 for k in range(9)], "c": list("abcabcabc"), "y": 0.0}
    )
    schema = co.Schema((co.Unknown("n"), co.Numeric("f"), co.Categorical("c")))
    changed = frame.astype({"n": object, "f": object, "c": object})
    for name in "nfc":
        changed[name] = pd.Series([odd, *frame[name].tolist()[1:]], dtype=object)
    before, after = (federation(one, schema).parties["a"].block.cells for one in (frame, changed))
    for name in ("n", "f"):
        assert np.array_equal(before.numbers(name, "numeric")[1:], after.numbers(name, "numeric")[1:])
    for name in "nfc":
        texts = [texts_of(cells.frame[name]).to_list()[1:] for cells in (before, after)]
        assert texts[0] == texts[1]


def test_one_odd_cell_of_a_csv_column_moves_no_other(tmp_path: Path) -> None:
    schema = co.Schema((co.Unknown("n"), co.Numeric("f"), co.Categorical("c")))
    seen = []
    for odd in ("1", "1.0", "", "word", "2024-01-01", "1e999", '"a\nb"'):
        rows = [
            f"{k},{odd if k == 0 else k},{odd if k == 0 else k / 2},{odd if k == 0 else k % 3},0.0" for k in range(9)
        ]
        path = tmp_path / f"{len(seen)}.csv"
        path.write_text("\n".join(["id,n,f,c,y", *rows]) + "\n")
        cells = federation(str(path), schema).parties["a"].block.cells
        texts = [texts_of(cells.frame[name]).to_list()[1:] for name in "nfc"]
        seen.append((texts, cells.numbers("n", "numeric")[1:].tolist()))
    assert all(one == seen[0] for one in seen)


# ------------------------------------------------------------------------------------------------ without privacy


@pytest.mark.parametrize("form", ["frame", "csv"])
def test_without_privacy_columns_are_of_the_kinds_that_were_said(form: str, tmp_path: Path) -> None:
    days = pl.Series([f"2024-{1 + k % 12:02d}-15" for k in range(N)])
    frame = table().with_columns(d=days, u=pl.col("x"), b=(pl.col("id") % 2).cast(pl.Int64), e=days)
    frame.write_csv(tmp_path / "a.csv")
    columns = (
        co.Numeric("x", monotone=1),
        co.Categorical("c"),
        co.Date("d"),
        co.Unknown("u"),
        co.Numeric("b"),
        co.Unknown("e"),
    )
    source = frame if form == "frame" else str(tmp_path / "a.csv")
    fed = federation(source, co.Schema(columns)).read_off()
    found = fed.parties["a"].schema.columns
    assert [one.kind() for one in found] == ["numeric", "categorical", "date", "numeric", "numeric", "date"]
    assert found[0].monotone == 1
    assert (found[0].low, found[0].high) == pytest.approx((table()["x"].min(), table()["x"].max()))
    assert found[1].levels_of() == ("a", "b", "c")
    fit = co.fit(federation(source, co.Schema(columns[1:])), RIDGE)
    assert fit.schemas["a"].source == "data"


def test_without_privacy_flags_of_unknown_kind_are_encoded() -> None:
    frame = table().with_columns(b=(pl.col("id") % 2).cast(pl.Int64), t=pl.col("id") % 2 == 0)
    fed = federation(frame, co.Schema((co.Unknown("b"), co.Unknown("t")))).read_off()
    assert np.array_equal(np.asarray(fed.parties["a"].block.matrix[:, [0]].sum()), N / 2)
