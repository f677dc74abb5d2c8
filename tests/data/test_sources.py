"""Claims about where tables come from: every source gives the same rows, in blocks too, and what cannot be read is explained."""

from __future__ import annotations

import datetime as dt
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from csv import QUOTE_ALL, QUOTE_MINIMAL
from csv import reader as csv_reader
from csv import writer as csv_writer
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from pyarrow import csv as arrow_csv
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from colonnade.data.federation import Federation
from colonnade.data.schema.columns import Binary, Categorical, Date, Numeric, Plain
from colonnade.data.schema.table import Encoded, Schema
from colonnade.data.sources import read, table_at
from colonnade.data.sources.csv_text import form_of
from colonnade.data.sources.files import FrameTable
from colonnade.errors import InvalidInput

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 300
SCHEMA = Schema(
    (
        Numeric("age", 0, 120, missing="indicator"),
        Categorical("ward", ("surgery", "medicine", "7"), missing="indicator"),
        Date("day", "2020-01-01", "2021-06-30", parts=("month",)),
        Binary("smoker"),
        Plain("crp"),
    )
)
PASSWORD = "correct horse"  # the tests look for it in everything that is shown


def table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "pid": [f"P{i:04}" for i in range(ROWS)],
            "age": [None if i % 9 == 0 else float(a) for i, a in enumerate(rng.integers(20, 95, ROWS))],
            "ward": [None if i % 7 == 0 else w for i, w in enumerate(rng.choice(["surgery", "medicine", "x"], ROWS))],
            "day": [dt.date(2020, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 700, ROWS)],
            "smoker": rng.random(ROWS) < 0.3,
            "crp": np.round(rng.exponential(20, ROWS), 3),
            "late": rng.integers(0, 2, ROWS),
        }
    )


def csv(frame: pl.DataFrame, folder: Path) -> dict[str, object]:
    frame.write_csv(folder / "t.csv")
    return {"source": folder / "t.csv"}


def parquet(frame: pl.DataFrame, folder: Path) -> dict[str, object]:
    frame.write_parquet(folder / "t.parquet", row_group_size=70)
    return {"source": str(folder / "t.parquet")}


def feather(frame: pl.DataFrame, folder: Path) -> dict[str, object]:
    frame.write_ipc(folder / "t.feather", compression="lz4")
    return {"source": folder / "t.feather"}


def stream(frame: pl.DataFrame, folder: Path) -> dict[str, object]:
    frame.write_ipc_stream(folder / "t.arrow")
    return {"source": folder / "t.arrow"}


def polars(frame: pl.DataFrame, folder: Path) -> dict[str, object]:
    return {"source": frame}


def pandas(frame: pl.DataFrame, folder: Path) -> dict[str, object]:
    return {"source": frame.to_pandas()}


def sqlite(frame: pl.DataFrame, folder: Path) -> dict[str, object]:
    path = folder / "a b.db"
    connection = sqlite3.connect(path)
    connection.execute("create table stays (pid text, age real, ward text, day text, smoker int, crp real, late int)")
    rows = [tuple(str(v) if isinstance(v, dt.date) else v for v in row) for row in frame.rows()]
    connection.executemany("insert into stays values (?, ?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return {"source": f"sqlite:///{path}", "query": "select * from stays order by pid"}


SOURCES = [csv, parquet, feather, stream, polars, pandas, sqlite]


def dense(encoded: Encoded) -> np.ndarray:
    return encoded.matrix.toarray() if sparse.issparse(encoded.matrix) else encoded.matrix


def encode(
    source: object, schema: Schema, keep: Sequence[str] = (), query: str | None = None
) -> tuple[Encoded, pl.DataFrame]:
    """A source encoded block by block, and the columns to `keep` beside it."""
    names = list(dict.fromkeys([*(column.name for column in schema.columns), *keep]))
    blocks = list(table_at(source, query=query).blocks(names, schema))
    return schema.encode_blocks(blocks), pl.concat(blocks).select(keep)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some twenty blocks for 300 rows."""
    for module in ("files", "sql"):
        monkeypatch.setattr(f"colonnade.data.sources.{module}.BLOCK", 1000)


# ------------------------------------------------------------------------------------------------ the same from everywhere


@pytest.mark.parametrize("write", SOURCES)
def test_every_source_gives_the_rows_that_were_written(write, tmp_path):
    frame = table()
    found = read(**write(frame, tmp_path))
    if write is sqlite:  # which knows neither dates nor booleans
        found = found.with_columns(pl.col("day").str.to_date(), pl.col("smoker").cast(pl.Boolean))
    if write is pandas:  # pandas has times only
        found = found.with_columns(pl.col("day").cast(pl.Date))
    assert_frame_equal(frame, found, check_dtypes=True)


@pytest.mark.parametrize("write", SOURCES)
def test_columns_are_read_in_the_order_asked_for(write, tmp_path):
    found = read(**write(table(), tmp_path), columns=["crp", "age"])
    assert_frame_equal(table().select("crp", "age"), found)


@pytest.mark.parametrize("write", SOURCES)
def test_a_source_in_blocks_is_encoded_as_its_frame_is(write, tmp_path, small_blocks):
    frame = table()
    given = write(frame, tmp_path)
    whole = SCHEMA.encode(frame)
    assert len(list(table_at(given["source"], query=given.get("query")).blocks(["age", "crp"]))) > (
        2 if write is sqlite else 4
    )
    encoded, kept = encode(**given, schema=SCHEMA, keep=("late", "pid"))
    assert np.array_equal(dense(whole), dense(encoded))
    assert (whole.names, whole.unknown, whole.clipped) == (encoded.names, encoded.unknown, encoded.clipped)
    assert_frame_equal(frame.select("late", "pid"), kept)
    _, nothing = encode(**given, schema=SCHEMA)
    assert nothing.width == 0


LAB = pl.DataFrame({"pid": [f"P{i:04}" for i in range(100, 350)], "sodium": np.linspace(130, 150, 250)})


def of_the_clinic(source: object, schema: Schema | None) -> Federation:
    schemas = {} if schema is None else {"clinic": schema}
    return Federation.from_frames({"clinic": source, "lab": LAB}, "pid", ("clinic", "late"), schemas=schemas)


@pytest.mark.parametrize("write", SOURCES)
def test_a_federation_encodes_a_source_in_blocks_as_if_it_had_been_read_whole(write, tmp_path, small_blocks):
    """Rows shuffled, a third of them at one party only; the expected matrix is that of one frame, filtered and sorted."""
    given = write(table().sample(fraction=1.0, shuffle=True, seed=3), tmp_path)
    wanted = table().filter(pl.col("pid") >= "P0100").sort("pid")
    made = of_the_clinic(table_at(given["source"], query=given.get("query")), SCHEMA)
    block = made.parties["clinic"].block
    assert np.array_equal(dense(SCHEMA.encode(wanted)), dense(Encoded(block.matrix, (), {}, {})))
    assert SCHEMA.encode(wanted).owner_notes() == block.owner_notes
    assert made.labels.tolist() == wanted["late"].to_list()
    assert made.keys.to_list() == wanted["pid"].to_list()
    assert made.alignment.left_out == {"clinic": 100, "lab": 50}


@pytest.mark.parametrize("write", [csv, parquet, feather, stream, polars])
def test_a_schema_read_off_blocks_is_that_of_the_matched_rows(write, tmp_path, small_blocks):
    frame = table().drop("day").sample(fraction=1.0, shuffle=True, seed=4)
    wanted = frame.filter(pl.col("pid") >= "P0100").sort("pid").drop("pid", "late")
    made = of_the_clinic(write(frame, tmp_path)["source"], None).parties["clinic"]
    assert Schema.infer(wanted) == made.schema
    assert np.array_equal(dense(made.schema.encode(wanted)), dense(Encoded(made.block.matrix, (), {}, {})))


def test_sparse_rows_are_put_in_the_order_of_their_keys(tmp_path, small_blocks):
    levels = tuple(f"{k:02}" for k in range(40))
    schema = Schema((Categorical("code", levels),))
    frame = table().select("pid", "late", code=pl.Series(levels * 8)[:ROWS])
    frame.reverse().write_parquet(tmp_path / "t.parquet")
    matrix = of_the_clinic(tmp_path / "t.parquet", schema).parties["clinic"].block.matrix
    assert sparse.issparse(matrix)
    assert matrix.has_canonical_format
    assert np.array_equal(np.eye(40)[np.arange(100, ROWS) % 40], matrix.toarray())


def test_a_table_that_changes_between_its_keys_and_its_rows_is_refused():
    class Shrinking(FrameTable):
        def blocks(self, columns, schema=None, texts=()):
            block = self.frame(columns)
            yield block if "age" not in columns else block.head(200)

    with pytest.raises(InvalidInput, match="party 'clinic': its table changed while it was read"):
        of_the_clinic(Shrinking(table()), SCHEMA)


@pytest.mark.parametrize("column", [Binary("late"), Categorical("pid", ("P0001",))])
def test_the_label_and_the_key_are_no_features(column):
    with pytest.raises(
        InvalidInput, match=f"its schema names '{column.name}', which is the key, the label.*Leave it out"
    ):
        of_the_clinic(table(), Schema((Plain("crp"), column)))


def test_svmlight_and_npz_files_give_a_matrix_and_labels(tmp_path):
    X, y = np.array([[0.0, 1.5], [2.0, 0.0]]), np.array([1.0, -1.0])
    dump_svmlight_file(X, y, str(tmp_path / "t.svm"), zero_based=False)
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_matrix(X))
    np.save(tmp_path / "y.npy", y)
    for name in ("t.svm", "X.npz"):
        A, b = read(tmp_path / name)
        assert np.array_equal(X, A.toarray())
        assert np.array_equal(y, b)
    assert read(tmp_path / "t.svm", columns=5)[0].shape == (2, 5)
    with pytest.raises(InvalidInput, match=r"t\.svm holds numbers without names"):
        table_at(tmp_path / "t.svm")


@pytest.mark.parametrize("write", [csv, parquet, feather, stream, polars, sqlite])
def test_a_table_without_rows_keeps_its_columns(write, tmp_path):
    given = write(table().head(0), tmp_path)
    assert read(**given).columns == table().columns
    encoded, kept = encode(**given, schema=SCHEMA, keep=("pid",))
    assert (encoded.matrix.shape, kept.height) == ((0, SCHEMA.width), 0)


# ------------------------------------------------------------------------------------------------ CSV


def test_the_type_of_a_csv_column_holds_in_all_its_blocks(tmp_path, small_blocks):
    """A column that begins with nothing, then whole numbers, then others, then a word."""
    (tmp_path / "t.csv").write_text("a,b,c,d\n" + ",1,1,\n" * 400 + "2,1.5,1,2020-01-01\n" + "3,1,word,\n" * 400)
    blocks = list(table_at(tmp_path / "t.csv").blocks(None))
    assert len(blocks) > 3
    assert {tuple(block.dtypes) for block in blocks} == {(pl.Int64, pl.Float64, pl.String, pl.Date)}
    assert_frame_equal(read(tmp_path / "t.csv"), pl.concat(blocks))


CELLS = {
    "whole": ["1", "-5", " 7 ", "9223372036854775807"],
    "number": ["1", ".5", "5.", "1e5", "-2.5E-3", "inf", "+1.5", "9223372036854775808", "1e400", "0.1"],
    "truth": ["true", "FALSE", "True", "0", "1"],
    "day": ["2020-01-01", " 1999-12-31", "0020-03-01"],
    "hour": ["12:30", "23:59:59"],
    "moment": ["2020-01-01 10:00", "2020-01-01T10:00:05", "2020-01-01 10", "2021-03-04"],
    "part of a second": ["2020-01-01 10:00:00.123", "2020-01-01T10:00:05.000000001", "2021-03-04"],
    "zone": ["2020-01-01T10:00:00Z", "2020-01-01 10:00:00+02:00", "2020-01-01 10:00-0530"],
    "word": [
        "a",
        "2020-02-30",
        "25:00",
        "1_000",
        "2020-1-1",
        "yes",
        "12:30:15.5",
        "née",
        "x,y",
        'say "x"',
        "two\nlines",
    ],
    "gap": ["", "NA", "NaN", "null", "N/A", "#N/A", "-nan"],
}


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_a_csv_file_is_read_as_pyarrow_reads_it(data):
    """Of one column's kinds of cells at most two, so that whole columns of dates and the like come up; all in one block."""
    rows = data.draw(st.integers(1, 12))
    columns = {}
    for k in range(3):
        kinds = data.draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=2))
        cells = st.sampled_from([cell for kind in [*kinds, "gap"] for cell in CELLS[kind]])
        columns[f"c{k}"] = data.draw(st.lists(cells, min_size=rows, max_size=rows))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with path.open("w", newline="", encoding="utf-8") as text:
            ending = data.draw(st.sampled_from(["\n", "\r\n"]))
            quoting = data.draw(st.sampled_from([QUOTE_MINIMAL, QUOTE_ALL]))
            csv_writer(text, lineterminator=ending, quoting=quoting).writerows(
                [list(columns), *zip(*columns.values(), strict=True)]
            )
        wanted = pl.DataFrame(pl.from_arrow(arrow_csv.read_csv(path)))
        texts = [name for name, dtype in wanted.schema.items() if dtype == pl.String]
        assert_frame_equal(wanted.with_columns(pl.col(texts).replace("", None)), read(path), check_exact=True)


def test_quotes_commas_and_line_ends_in_cells_are_read_as_python_reads_them(tmp_path, small_blocks):
    """Also quotes that stand where none should, empty lines and lines that end in several ways."""
    rng = np.random.default_rng(5)
    pieces = ["a", "née", ",", '""', "\n", "\r\n", " ", "7"]
    for trial in range(24):
        rows = []
        for _ in range(200):
            quoted = ['"' + "".join(rng.choice(pieces, 4)) + '"' for _ in range(2)]
            rows.append(",".join([quoted[0], "plain", quoted[1] if trial % 2 else '5" pipe']))
        end = ["\n", "\r\n"][trial // 2 % 2]
        text = f"x,y,z{end}" + end.join(row if rng.random() < 0.9 else row + end for row in rows)
        (tmp_path / "t.csv").write_bytes(text.encode())
        with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
            wanted = [tuple(cell or None for cell in row) for row in list(csv_reader(file))[1:] if row]
        blocks = list(table_at(tmp_path / "t.csv").blocks(None, texts=("x", "y", "z")))
        assert len(blocks) > 4
        assert [row for block in blocks for row in block.rows()] == wanted


def test_the_line_of_a_fault_counts_empty_lines_and_lines_in_cells(tmp_path, small_blocks):
    schema = Schema((Numeric("x", 0, 1),))
    for before in ('1,"two\nlines"\n\n' * 200, '1,5" pipe\n\n1,b\n' * 200):
        (tmp_path / "t.csv").write_text(f"x,c\n{before}oops,b\n")
        line = 2 + before.count("\n")
        with pytest.raises(InvalidInput, match=f"column 'x' has a cell in line {line:,} that is not a number"):
            encode(tmp_path / "t.csv", schema)
        (tmp_path / "t.csv").write_text(f"x,c\n{before}1\n")
        with pytest.raises(InvalidInput, match=f"1 cells in line {line:,}, and the header has 2"):
            encode(tmp_path / "t.csv", schema)


def test_letters_of_another_alphabet_matter_only_in_columns_that_are_read(tmp_path):
    (tmp_path / "t.csv").write_bytes(
        b"a,b,c\n" + b"1,x,n\xc3\xa9e\n" * 5000 + "1,caf\xe9,n\xc3\xa9e\n".encode("latin-1") * 50
    )
    assert read(tmp_path / "t.csv", columns=["a", "c"]).unique().rows() == [(1, "née")]
    with pytest.raises(InvalidInput, match=r"is not UTF-8 \(in column 'b' in line 5,002\)"):
        read(tmp_path / "t.csv", columns=["b"])


def test_levels_in_a_csv_are_compared_as_they_are_written_but_for_a_point_and_a_zero(tmp_path):
    (tmp_path / "t.csv").write_text("code\n01\n1\n1.0\n1.5\n")
    encoded, _ = encode(tmp_path / "t.csv", Schema((Categorical("code", ("01", "1")),)))
    assert dense(encoded).tolist() == [[1, 0], [0, 1], [0, 1], [0, 0]]
    assert encoded.unknown == {"code": 1}


def test_an_empty_cell_is_missing_and_na_only_in_a_number(tmp_path):
    (tmp_path / "t.csv").write_text("x,c\n1,NA\nNA,\n,b\n")
    schema = Schema((Numeric("x", 0, 1, missing="indicator"), Categorical("c", ("NA", "b"), missing="indicator")))
    encoded, _ = encode(tmp_path / "t.csv", schema)
    assert dense(encoded).tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 1, 0, 1, 0]]


def test_a_mark_at_the_beginning_of_a_file_is_not_part_of_a_name(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfpid,x\n1,2\n")
    assert read(tmp_path / "t.csv", columns=["pid"])["pid"].to_list() == [1]


FORMS = {
    "semicolons": ("utf-8", ";", "."),
    "semicolons and decimal commas": ("utf-8", ";", ","),
    "tabs": ("utf-8-sig", "\t", "."),
    "UTF-16": ("utf-16", ",", "."),
    "UTF-16, semicolons, decimal commas": ("utf-16", ";", ","),
}


@pytest.mark.thinned("slow")
@pytest.mark.parametrize(("encoding", "separator", "decimal"), FORMS.values(), ids=FORMS)
def test_a_csv_file_of_another_form_is_read_as_the_usual_one(encoding, separator, decimal, tmp_path, small_blocks):
    lines = [("pid", "x", "n", "c"), *((f"{i:04}", f"{i + 0.25}", str(i), f"née; {i % 3}") for i in range(300))]
    for name, mark, point, code in (("usual", ",", ".", "utf-8"), ("other", separator, decimal, encoding)):
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding=code) as text:
            writer = csv_writer(text, delimiter=mark)
            writer.writerows((a, x.replace(".", point), n, c) for a, x, n, c in lines)
    usual, other = (table_at(tmp_path / f"{name}.csv") for name in ("usual", "other"))
    assert other.names() == ["pid", "x", "n", "c"]
    assert_frame_equal(usual.frame(None), other.frame(None))
    schema = Schema((Numeric("x", 0, 400), Categorical("c", ("née; 0", "née; 1"))))
    assert np.array_equal(dense(encode(usual.path, schema)[0]), dense(encode(other.path, schema)[0]))


@pytest.mark.parametrize("cells", ["1,234", "1,234;5.5", "12,5;0.5", "word"])
def test_a_comma_that_may_stand_between_thousands_is_no_decimal_mark(cells, tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{cell};x\n" for cell in cells.split(";")))
    assert form_of(tmp_path / "t.csv") == ("utf-8-sig", ";", ".")


# ------------------------------------------------------------------------------------------------ what is refused


def file(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def database(folder: Path) -> str:
    path = folder / "t.db"
    connection = sqlite3.connect(path)
    connection.execute("create table t (x int, c text)")
    connection.executemany("insert into t values (?, ?)", [(i, "a") for i in range(90)] + [("secret", "b")])
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def in_schema(*columns: object) -> Callable[[object], object]:
    return lambda source: encode(source, Schema(columns))


def asked(query: str | None, **more: object) -> Callable[[object], object]:
    return lambda source: read(source, query=query, **more)


def joined(source: object) -> object:
    return Federation.from_frames({"clinic": read(source), "lab": pl.DataFrame({"pid": [1, 2]})}, on="pid")


X = Numeric("x", 0, 1)
BAD = {
    # name: (what is given, how it is read, what happened, what to do next)
    "no file": (lambda folder: folder / "t.csv", read, "t.csv is not a file", "Give the path of a .csv, .parquet, "),
    "empty file": (file("t.csv", ""), read, "t.csv is empty: 0 bytes", "Give a file with rows"),
    "unknown kind": (file("t.xlsx", "x"), read, "t.xlsx: no reader for .xlsx", "there are .csv, .parquet, .arrow"),
    "no such source": (
        lambda _: "ftp://host/t.csv",
        read,
        "begin with ftp://",
        "there are postgresql, postgres, sqlite",
    ),
    "not a table": (lambda _: {"x": [1]}, read, "rows came as dict", "Give a polars or pandas DataFrame"),
    "ragged": (
        file("t.csv", "a,b\n1,2\n3,4,secret\n"),
        read,
        "t.csv: 3 cells in line 3, and the header has 2",
        "put texts that hold a comma in quotes",
    ),
    "ragged block": (
        file("t.csv", "x,b\n1,2\nsecret\n"),
        in_schema(X),
        "t.csv: 1 cells in line 3, and the header has 2",
        "Give every line as many cells",
    ),
    "not UTF-8": (
        file("t.csv", "a,b\n1,caf\xe9\n".encode("latin-1")),
        read,
        "t.csv is not UTF-8 (in ",
        "Save it as UTF-8, for example: iconv",
    ),
    "not UTF-8 far below": (
        file("t.csv", b"x,c\n" + b"1,a\n" * 20_000 + "1,secret \xe9\n".encode("latin-1")),
        in_schema(Categorical("c", ("a",))),
        "t.csv is not UTF-8 (in column 'c' in line 20,002)",
        "Save it as UTF-8",
    ),
    "not UTF-8 key": (
        file("t.csv", b"x,c\n" + b"1,a\n" * 20_000 + "1,secret \xe9\n".encode("latin-1")),
        lambda source: encode(source, Schema((X,)), keep=("c",)),
        "t.csv is not UTF-8 (in column 'c'",
        "Save it as UTF-8",
    ),
    "open quote": (
        file("t.csv", 'a,b\n1,2\n3,"secret\n' + "4,5\n" * 9000),
        read,
        "t.csv: the record that begins in line 3 has no end within",
        "Is a quote left open there? Close it",
    ),
    "names twice": (
        file("t.csv", "a,b,a\n1,2,3\n"),
        read,
        "1 column names stand more than once, the first is 'a'",
        "Rename",
    ),
    "text in a number": (
        file("t.csv", "x\n1\nsecret\n"),
        in_schema(X),
        "t.csv: column 'x' has a cell in line 3 that is not a number",
        "Correct the cell (1.5, not 1,5), or declare the column categorical",
    ),
    "two in a flag": (
        file("t.csv", "b\n1\n2\n"),
        in_schema(Binary("b")),
        "column 'b' has a cell in line 3 that is not 0, 1, true or false",
        "Correct the cell",
    ),
    "wrong type": (
        lambda _: pl.DataFrame({"x": ["secret"]}),
        in_schema(X),
        "column 'x' holds String, but the schema expects numbers",
        'declare type = "categorical"',
    ),
    "levels of another type": (
        lambda _: pl.DataFrame({"c": [[1], [2]]}),
        in_schema(Categorical("c", ("1",))),
        "column 'c' holds List(Int64), which has no levels",
        "Convert it to text",
    ),
    "unknown column": (
        file("t.csv", "a,b\n1,2\n"),
        lambda source: read(source, columns=["a", "z"]),
        "t.csv lacks 1 of the 2 columns asked for, the first is 'z'. It has 2: a, b",
        "Correct the name",
    ),
    "column of the schema absent": (
        lambda _: pl.DataFrame({"y": [1]}),
        in_schema(X),
        "the frame lacks 1 of the 1 columns asked for, the first is 'x'. It has 1: y",
        "Correct the name",
    ),
    "one name": (
        file("t.csv", "a,b\n1,2\n"),
        lambda source: read(source, columns="ab"),
        "columns='ab'",
        "give a list of names",
    ),
    "all missing": (
        file("t.csv", "x\nNA\nNA\n"),
        in_schema(X),
        "column 'x': 2 values are missing",
        'Write missing = "indicator" for a column of their own',
    ),
    "not a number": (
        lambda _: pl.DataFrame({"x": [1.0, float("nan")]}),
        in_schema(X),
        "column 'x': 1 values are missing",
        "or missing = the value to use instead",
    ),
    "infinite": (
        lambda _: pl.DataFrame({"x": [1.0, float("inf")]}),
        in_schema(Plain("x")),
        "column 'x': 1 values are infinite",
        "Declare the column numeric with bounds, which clips them",
    ),
    "no date": (
        file("t.csv", "d\n2020-01-01\n31.12.2020\nsecret\n"),
        in_schema(Date("d", "2020-01-01", "2021-01-01")),
        "column 'd': 2 of 3 texts are no dates of the form '%Y-%m-%d', the first in row 2",
        'write their form, as in format = "%d.%m.%Y"',
    ),
    "no key": (
        file("t.csv", "id,x\n1,2\n"),
        joined,
        "party 'clinic' has no key column 'pid'",
        "its columns are 'id', 'x'",
    ),
    "nothing in it": (
        file("t.csv", "\n"),
        read,
        "t.csv is empty: not even a header names its columns",
        "Is it the right file?",
    ),
    "a number with a comma": (
        file("t.csv", 'x\n"1,5"\n'),
        in_schema(X),
        "column 'x' has a cell in line 2 that is not a number",
        "Correct the cell (1.5, not 1,5)",
    ),
    "key twice": (
        file("t.csv", "pid,x\n1,2\n1,3\n2,4\n"),
        joined,
        "party 'clinic': 1 rows repeat a key of 'pid'",
        "Aggregate the rows of a key, or use a finer key",
    ),
    "key empty": (
        file("t.csv", "pid,x\n,2\n1,3\n"),
        joined,
        "1 rows have no key in 'pid'",
        "fill it in or leave them out",
    ),
    "cut short": (
        file("t.parquet", b"PAR1 secret"),
        read,
        "t.parquet cannot be read as Parquet (ComputeError)",
        "Is it whole, and is its suffix right? Write it again",
    ),
    "no Arrow": (file("t.arrow", "secret"), read, "t.arrow cannot be read as Arrow", "Write it again"),
    "a name's number": (
        file("t.svm", "1 1:2\n"),
        lambda source: read(source, columns=["a"]),
        "t.svm has no named columns",
        "give their number",
    ),
    "query to a file": (file("t.csv", "a\n1\n"), asked("select 1"), "query= is for databases", "give an address"),
    "no query": (database, asked(None), "a database needs query=", 'as in query="select pid, age from stays"'),
    "no database file": (
        lambda folder: f"sqlite:///{folder}/absent.db",
        asked("select 1"),
        "absent.db is not a file",
        "four slashes before an absolute path",
    ),
    "SQL that is none": (
        database,
        asked("selec x"),
        'the query was refused: near "selec": syntax error',
        "Correct query=",
    ),
    "no such column": (
        database,
        asked("select z from t"),
        "the query was refused: no such column: z",
        "Correct query=",
    ),
    "no such table": (database, asked("select 1 from nowhere"), "no such table: nowhere", "Correct query="),
    "a query that writes": (database, asked("delete from t"), "the query would write", "Ask with SELECT only"),
    "several types": (
        database,
        lambda source: encode(source, Schema((X,)), query="select * from t"),
        "the database failed after ",
        "CAST it in the query",
    ),
    "column not in the answer": (
        database,
        asked("select c from t", columns=["x"]),
        "t.db lacks 1 of the 1 columns asked for, the first is 'x'. It has 1: c",
        "Correct the name",
    ),
}


@pytest.mark.parametrize(("given", "how", "happened", "advice"), BAD.values(), ids=BAD)
def test_bad_input_is_explained_with_what_to_do_and_no_cell_is_quoted(
    given, how, happened, advice, tmp_path, small_blocks
):
    source = given(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InvalidInput) as caught:
        how(source)
    text = str(caught.value)
    assert happened in text
    assert advice in text[text.index(happened) :]
    assert (
        "secret" not in "".join(traceback.format_exception(caught.value)).split("Error", 1)[-1] or "secret" not in text
    )
    assert "secret" not in text
    assert before == sorted(tmp_path.iterdir())  # asking for a database that is not there makes none


def test_a_driver_that_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_sqlite.dbapi", None)
    with pytest.raises(InvalidInput, match=r"pip install 'colonnade\[sql\]'"):
        read(database(tmp_path), query="select 1")


# ------------------------------------------------------------------------------------------------ passwords


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://reader:{PASSWORD.replace(' ', '%20')}@127.0.0.1:1/ward",
        "postgresql://reader@127.0.0.1:1/ward?password=correct%20horse",
        "postgresql://reader:correct@horse@127.0.0.1:1/ward",
        "postgresql://reader:correct/horse@127.0.0.1:1/ward",
        "postgresql://reader:12/correcthorse@127.0.0.1:1/ward",
        "postgresql://reader:12/correct?horse@127.0.0.1:1/ward",
        "postgresql://reader:correct#horse@127.0.0.1:1/ward",
        "postgresql://reader:correct?horse@127.0.0.1:1/ward",
        "postgresql://reader:correct:horse@127.0.0.1:1/ward",
        "postgresql://127.0.0.1:correcthorse/ward",
        "postgres://reader:correct%40horse@127.0.0.1:1/ward",
    ],
)
def test_a_password_is_in_no_error_and_no_repr(address):
    """Passwords with letters that mean something in an address end up as host, port or database there."""
    with pytest.raises(InvalidInput) as caught:
        read(address, query="select 1")
    error: BaseException | None = caught.value
    while error is not None:  # the whole chain, shown or not
        assert not any(word in repr(error) + str(error) for word in ("correct", "horse"))
        error = error.__cause__ or error.__context__
    shown = "".join(traceback.format_exception_only(caught.value))
    assert "horse" not in shown


def test_a_database_shows_itself_without_user_password_and_options():
    source = table_at(
        "postgresql://reader:horse@db.hospital:5433/ward?password=horse&sslmode=require", query="select 1"
    )
    assert source.shown == "postgresql://db.hospital:5433/ward"
    assert "horse" not in repr(source)
    assert "reader" not in repr(source)


# ------------------------------------------------------------------------------------------------ a real server


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip(
            "no PostgreSQL server is installed (looked in /usr/lib/postgresql/*/bin): apt-get install postgresql"
        )
    return found[-1].parent


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A PostgreSQL server of its own, in a temporary folder, stopped by its process; the address of its owner."""
    programs = _programs()
    pytest.importorskip("adbc_driver_postgresql", reason="the drivers are not installed: pip install 'colonnade[sql]'")
    user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="pg") as name, socket.socket() as free:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        if user:  # the server refuses to run as root
            for path in (folder, folder / "password"):
                os.chown(path, *_nobody())
        data, plain = folder / "data", {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
        command = [programs / "initdb", "-D", data, "-U", "owner", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"]
        subprocess.run(
            [*command, "--pwfile", folder / "password"], check=True, capture_output=True, cwd=folder, env=plain, **user
        )
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                [programs / "postgres", "-D", data, "-k", "", "-h", "127.0.0.1", "-p", str(port), "-F"],
                stdout=log,
                stderr=log,
                cwd=folder,
                env=plain,
                **user,
            )
        address = f"postgresql://owner:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/postgres"
        try:
            _fill(address, process)
            yield address
        finally:
            process.terminate()
            process.wait(20)


def _nobody() -> tuple[int, int]:
    import grp
    import pwd

    return pwd.getpwnam("nobody").pw_uid, grp.getgrnam("nogroup").gr_gid


def _fill(address: str, process: subprocess.Popen[bytes]) -> None:
    from adbc_driver_postgresql import dbapi

    deadline = time.monotonic() + 60
    while True:
        try:
            connection = dbapi.connect(address)
            break
        except dbapi.Error:
            assert process.poll() is None, "the server has stopped"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)
    with connection, connection.cursor() as cursor:
        cursor.adbc_ingest("stays", table().to_arrow())
        cursor.execute("alter table stays alter crp type numeric(9, 3)")
        cursor.execute("create table odd as select 'secret' as word, 0 as zero from generate_series(1, 9)")
        connection.commit()


def test_a_postgresql_server_gives_the_rows_that_were_put_there(server):
    found = read(server, query="select * from stays order by pid")
    assert_frame_equal(table(), found)
    assert_frame_equal(table().select("crp"), read(server, query="select * from stays order by pid", columns=["crp"]))


def test_a_query_to_a_server_is_encoded_in_blocks(server, small_blocks):
    query = "select * from stays order by pid"
    assert len(list(table_at(server, query=query).blocks(None))) > 4
    encoded, kept = encode(server, SCHEMA, query=query, keep=("pid",))
    whole = SCHEMA.encode(table())
    assert np.array_equal(dense(whole), dense(encoded))
    assert whole.unknown == encoded.unknown
    assert_frame_equal(table().select("pid"), kept)
    empty, _ = encode(server, SCHEMA, query=f"{query} limit 0")
    assert empty.matrix.shape == (0, SCHEMA.width)
    wanted = table().filter(pl.col("pid") >= "P0100")
    block = of_the_clinic(table_at(server, query="select * from stays order by crp"), SCHEMA).parties["clinic"].block
    assert np.array_equal(dense(SCHEMA.encode(wanted)), dense(Encoded(block.matrix, (), {}, {})))


@pytest.mark.parametrize(
    ("query", "happened", "advice"),
    [
        ("selec 1", 'the query was refused: syntax error at or near "selec" (SQLSTATE 42601)', "Correct query="),
        ("select z from stays", 'column "z" does not exist', "Correct query="),
        ("select 1 from nowhere", 'relation "nowhere" does not exist', "Correct query="),
        ("delete from stays", "the query would write, and the connection is read-only", "Ask with SELECT only"),
        ("select word::int from odd", "the database failed after 0 rows", "CAST it in the query"),
        ("select 1 / zero from odd", "the database failed after 0 rows", "CAST it in the query"),
        ("select 'secret'::int", "the query failed (SQLSTATE 22P02)", "Try it in the database's own shell"),
        ("select 1 as a, 2 as a", "1 column names stand more than once, the first is 'a'", "Rename them"),
    ],
)
def test_what_a_server_refuses_is_explained_and_no_cell_is_quoted(query, happened, advice, server):
    with pytest.raises(InvalidInput) as caught:
        read(server, query=query)
    text = str(caught.value)
    assert happened in text
    assert advice in text
    assert "secret" not in text
    assert "horse" not in text
    assert read(server, query="select count(*) from stays")["count"].to_list() == [ROWS]


@pytest.mark.parametrize(
    ("old", "new", "happened"),
    [
        ("correct%20horse", "wrong%20horse", "the server did not accept the user or the password"),
        ("owner", "somebody", "the server did not accept the user or the password"),
        ("/postgres", "/ward", "the server has no database of that name"),
        ("127.0.0.1", "127.0.0.2", "no connection. Is the server running there"),
    ],
)
def test_a_server_that_lets_nobody_in_is_explained_without_the_password(old, new, happened, server):
    with pytest.raises(InvalidInput) as caught:
        read(server.replace(old, new), query="select 1")
    assert happened in str(caught.value)
    assert "horse" not in str(caught.value)


def test_the_password_may_come_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    bare = server.replace(":correct%20horse@", "@")
    assert bare != server
    assert read(bare, query="select 1 as one")["one"].to_list() == [1]


# ------------------------------------------------------------------------------------------------ memory

# The most memory that is the process's own: pages of a mapped file are the system's, which drops them when it likes.
OWN = """
import resource, sys
from pathlib import Path
def own():
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("RssAnon"))
peak = 0
def watched(blocks):
    global peak
    for block in blocks:
        peak = max(peak, own())
        yield block
        peak = max(peak, own())
"""
PEAK = (
    OWN
    + """
from colonnade.data.schema.columns import Categorical
from colonnade.data.schema.table import Schema
from colonnade.data.sources import table_at
schema = Schema((Categorical("note", ("a", "b")),))
def encode(source):
    return schema.encode_blocks(watched(table_at(source, **query).blocks(["note"], schema)))
query = {"query": "select * from t"} if sys.argv[1].startswith("sqlite") else {}
encode(sys.argv[1])  # what the libraries take for themselves
before = peak
encoded = encode(sys.argv[2])
after = peak
print(before * 1024, after * 1024, encoded.matrix.shape[0], encoded.unknown["note"])
"""
)
NOTE = "this patient was seen in the morning and feels better than the day before it was number "
LETTERS = len(NOTE) + 6


def _notes(kind: str, folder: Path, rows: int) -> str:
    """A table of long texts, written in parts so that this process does not hold it either."""
    from pyarrow import parquet as arrow_parquet

    part = pa.table({"note": [f"{NOTE}{i:06}" for i in range(50_000)]})
    path = folder / f"{rows}.{kind}"
    if kind == "parquet":
        with arrow_parquet.ParquetWriter(path, part.schema) as out:
            for _ in range(rows // part.num_rows):
                out.write_table(part)
    elif kind == "feather":
        with pa.ipc.new_file(path, part.schema) as out:
            for _ in range(rows // part.num_rows):
                out.write_table(part)
    elif kind == "csv":
        with path.open("w") as text:
            text.write("note\n")
            for _ in range(rows // part.num_rows):
                text.write("\n".join(part["note"].to_pylist()) + "\n")
    else:
        connection = sqlite3.connect(path)
        connection.execute("create table t (note text)")
        for _ in range(rows // part.num_rows):
            connection.executemany("insert into t values (?)", ((note,) for note in part["note"].to_pylist()))
        connection.commit()
        connection.close()
        return f"sqlite:///{path}"
    return str(path)


@pytest.mark.parametrize(
    "kind", ["parquet", *(pytest.param(k, marks=pytest.mark.slow) for k in ("csv", "feather", "db"))]
)
def test_memory_does_not_grow_with_the_table(kind, tmp_path):
    """First 200,000 rows, then 2,200,000 in the same process. Held whole, the texts alone would raise the peak by all their bytes."""
    small, large = (_notes(kind, tmp_path, rows) for rows in (200_000, 2_200_000))
    done = subprocess.run(
        [sys.executable, "-c", PEAK, small, large],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ
        | {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},  # each thread keeps memory of its own
    )
    before, after, rows, unknown = map(int, done.stdout.split())
    assert rows == unknown == 2_200_000
    cells = 2_000_000 * LETTERS
    print(
        f"{kind}: the peak rose by {(after - before) / 2**20:.0f} MiB; the further rows hold {cells / 2**20:.0f} MiB of text"
    )
    assert after - before < cells / 2


FEDERATION_PEAK = """
import resource, sys
from colonnade.data.federation import Federation
from colonnade.data.schema.columns import Categorical
from colonnade.data.schema.table import Schema
schema = Schema((Categorical("note", ("a", "b")),))
def made(path):
    return Federation.from_frames({"clinic": path}, "pid", schemas={"clinic": schema})
made(sys.argv[1])  # what the libraries take for themselves
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
federation = made(sys.argv[2])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(before * 1024, after * 1024, federation.rows)
"""


def _keyed_notes(path: Path, rows: int) -> str:
    """Long texts with a key, in row groups of 50,000, so that this process does not hold the table either."""
    from pyarrow import parquet as arrow_parquet

    kinds = pa.schema({"pid": pa.int64(), "note": pa.string()})
    with arrow_parquet.ParquetWriter(path, kinds) as out:
        for first in range(0, rows, 50_000):
            numbers = range(first, first + 50_000)
            out.write_table(pa.table({"pid": numbers, "note": [f"{NOTE * 4}{i:06}" for i in numbers]}, kinds))
    return str(path)


@pytest.mark.slow
def test_the_memory_of_a_federation_does_not_grow_with_its_tables(tmp_path):
    """A million further rows: 16 MB of keys and places at the most a few times over, against 350 MB of texts."""
    small, large = (_keyed_notes(tmp_path / f"{rows}.parquet", rows) for rows in (100_000, 1_100_000))
    done = subprocess.run(
        [sys.executable, "-c", FEDERATION_PEAK, small, large],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    before, after, rows = map(int, done.stdout.split())
    assert rows == 1_100_000
    cells = 1_000_000 * (4 * len(NOTE) + 6)
    print(
        f"from_frames: the peak rose by {(after - before) / 2**20:.0f} MiB; the further rows hold {cells / 2**20:.0f} MiB of text"
    )
    assert after - before < cells / 2


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_on_data_runs_as_printed(tmp_path, monkeypatch, capsys):
    page = Path(__file__).resolve().parents[2] / "docs/use/data.md"
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        exec(compile(block, "docs/use/data.md", "exec"), names)
    shown = capsys.readouterr().out
    assert "Encoded(8 rows x 18 columns)" in shown
    assert "column 'ward': 1 of 8 values are none of the declared levels" in shown
    assert "{'insurer': [0.981], 'garage': [1.008]}\n772 772\n" in shown
    assert "column 'age': 1 of 8 values lie outside the declared bounds" in shown
    (text,) = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    wanted = Schema((Date("admitted", "2024-01-01", "2024-12-31", parts=("month",)),))
    assert text == wanted.to_text()
