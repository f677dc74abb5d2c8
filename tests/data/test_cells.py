"""The claim that no cell is in an error: not in its message, and not in one of another library that hangs on it."""

from __future__ import annotations

import io
import logging
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import colonnade as co
from colonnade.data import readers
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.data.sources import table_at
from colonnade.errors import ColonnadeError, InvalidInput, unquoted
from colonnade.network.certs import Tls
from colonnade.network.party_file import PartyFile
from colonnade.runs.config import load_config

SECRET = "positive-SECRET"
Y = pl.DataFrame({"pid": ["1", "2", "3"], "y": [0, 1, 0]})
BINARY, NUMERIC = co.Schema((co.Binary("hiv"),)), co.Schema((co.Numeric("hiv", 0, 1),))
DATE = co.Schema((co.Date("hiv", "2020-01-01", "2021-01-01"),))
EXACT = co.Problem(co.Logistic(), co.L1Ball(1.0))


def everything_said(error: BaseException) -> str:
    """The message, the formatted traceback, and the same of all that hangs on it, shown by Python or not."""
    said, rest = [], [error]
    while rest:
        one = rest.pop()
        said += ["".join(traceback.format_exception(one)), repr(one), *getattr(one, "__notes__", ())]
        rest += [other for other in (one.__cause__, one.__context__) if other is not None]
    return "\n".join(said)


def planted(folder: Path) -> Path:
    path = folder / "leak.csv"
    path.write_text(f"pid,hiv\n1,1\n2,0\n3,{SECRET}\n")
    return path


def numbers(folder: Path) -> Path:
    """Where Arrow must guess, a secret in the wrong place: after blocks of numbers."""
    path = folder / "late.csv"
    path.write_text("pid,hiv\n" + "".join(f"{i},{i % 2}\n" for i in range(500)) + f"500,{SECRET}\n")
    return path


def of_frames(source: Any, schema: co.Schema | None) -> Any:
    schemas = {} if schema is None else {"a": schema}
    return co.Federation.from_frames({"a": source, "b": Y}, on="pid", label=("b", "y"), schemas=schemas)


def party(folder: Path) -> Any:
    members = {
        name: Member(schema, co.Policy(), new_key()[0])
        for name, schema in {"a": NUMERIC, "b": co.Schema((co.Numeric("z", 0, 1),))}.items()
    }
    nowhere = folder / "nowhere"
    shared, tls = FederationFile(members, "pid", ("b", "y")), Tls(nowhere, nowhere, nowhere)
    planted(folder)
    return PartyFile(
        folder / "party.toml", "a", shared, "hub:1", nowhere, nowhere, tls, "ask", {"source": "leak.csv"}
    ).read_data()


def configured(folder: Path) -> Any:
    planted(folder)
    NUMERIC.to_toml(folder / "a.toml")
    Y.write_csv(folder / "y.csv")
    (folder / "study.toml").write_text(
        '[data]\non = "pid"\nlabel = ["b", "y"]\n[data.parties.a]\nsource = "leak.csv"\nschema = "a.toml"\n'
        '[data.parties.b]\nsource = "y.csv"\n[problem]\nloss = "Logistic"\n'
    )
    return load_config(folder / "study.toml")


def database(folder: Path) -> Any:
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(folder / "t.db") as made:
        made.execute("create table t (pid, hiv)")
        made.executemany("insert into t values (?, ?)", [("1", 0), ("2", 1), ("3", SECRET)])
    made.close()
    return of_frames(table_at(f"sqlite:///{folder / 't.db'}", query="select * from t"), NUMERIC)


def parquet(folder: Path) -> Any:
    pl.DataFrame({"pid": ["1", "2", "3"], "hiv": ["0", "1", SECRET]}).write_parquet(folder / "t.parquet")
    return of_frames(folder / "t.parquet", NUMERIC)


def flat_table(folder: Path) -> Any:
    pl.DataFrame({"hiv": ["0", "1", SECRET], "y": [0, 1, 0]}).write_parquet(folder / "t.parquet")
    return readers.read(folder / "t.parquet", "y")


def matrix_file(folder: Path) -> Any:
    (folder / "X.npz").write_text(SECRET)
    np.save(folder / "y.npy", np.zeros(3))
    return readers.read(folder / "X.npz")


def pickled_labels(folder: Path) -> Any:
    sparse.save_npz(folder / "X.npz", sparse.csc_array(np.eye(3)))
    np.save(folder / "y.npy", np.array([SECRET, 1, 2], dtype=object), allow_pickle=True)
    return readers.read(folder / "X.npz")


def svmlight(folder: Path) -> Any:
    (folder / "t.svm").write_text(f"1 1:0.5\n-1 1:{SECRET}\n")
    return readers.read(folder / "t.svm")


def mixed() -> pd.DataFrame:
    return pd.DataFrame({"pid": ["1", "2", "3"], "hiv": [0, 1, SECRET]})


DOORS: dict[str, Callable[[Path], Any]] = {
    "csv, binary": lambda folder: of_frames(planted(folder), BINARY),
    "csv, numeric": lambda folder: of_frames(planted(folder), NUMERIC),
    "csv, date": lambda folder: of_frames(planted(folder), DATE),
    "csv, late": lambda folder: NUMERIC.encode_blocks(table_at(numbers(folder)).blocks(["hiv"], NUMERIC)),
    "csv, read": lambda folder: co.read(planted(folder), schema=NUMERIC),
    "csv, blocks": lambda folder: list(table_at(planted(folder)).blocks(None, NUMERIC)),
    "csv, one holder": lambda folder: readers.read(planted(folder), "pid"),
    "party": party,
    "configuration": configured,
    "sqlite": database,
    "parquet": parquet,
    "parquet, one holder": flat_table,
    "npz": matrix_file,
    "npz, labels": pickled_labels,
    "svmlight": svmlight,
    "pandas": lambda _: of_frames(mixed(), NUMERIC),
    "pandas, schema": lambda _: NUMERIC.encode(mixed()),
    "pandas, inferred": lambda _: co.Schema.infer(mixed()),
    "polars object": lambda _: NUMERIC.encode(pl.DataFrame({"hiv": pl.Series([0, SECRET], dtype=pl.Object)})),
    "dates": lambda _: DATE.encode(pl.DataFrame({"hiv": ["2020-01-01", SECRET]})),
    "split": lambda _: co.Federation.split(np.array([["1", SECRET], ["2", "3"]]), [0, 1]),
    "labels": lambda _: co.fit(co.Federation.split(np.eye(3), np.array([0, 1, SECRET], dtype=object)), EXACT),
    "sparse, rows": lambda _: co.SparseClassifier().fit([["1", SECRET], ["2", "3"]], [0, 1]),
    "sparse, frame": lambda _: co.SparseClassifier().fit(mixed()[["hiv"]], [0, 1, 0]),
    "sparse, private": lambda _: co.SparseClassifier(epsilon=1.0, classes=[0, 1]).fit(mixed()[["hiv"]], [0, 1, 0]),
    "sparse, values": lambda _: co.SparseRegressor().fit(np.eye(3), [0.0, 1.0, SECRET]),
    "federated": lambda _: co.FederatedClassifier().fit([["1", SECRET], ["2", "3"]], [0, 1]),
    "federated, values": lambda _: co.FederatedRegressor().fit(np.eye(3), np.array([0, 1, SECRET], dtype=object)),
    "prediction": lambda _: co.SparseClassifier().fit(np.eye(4), [0, 1, 0, 1]).predict([["1", SECRET, "2", "3"]]),
}  # fmt: skip


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    written, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(written), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.parametrize("door", DOORS)
def test_no_cell_is_in_an_error_or_hangs_on_it_or_is_logged(door, tmp_path, logged, monkeypatch):
    monkeypatch.setattr("colonnade.data.sources.files.BLOCK", 1000)
    with pytest.raises((ColonnadeError, TypeError)) as caught:
        DOORS[door](tmp_path)
    assert SECRET not in everything_said(caught.value), door
    assert SECRET not in logged.getvalue()


@unquoted()
def _twice(absent: Path) -> None:
    try:
        absent.read_text()
    except OSError as error:
        try:
            raise InvalidInput("first") from error
        except InvalidInput as first:
            raise InvalidInput("second") from first


def test_errors_of_the_system_and_of_ours_stay_in_the_chain(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        _twice(tmp_path / "absent")
    assert isinstance(caught.value.__cause__, InvalidInput)
    assert isinstance(caught.value.__cause__.__cause__, FileNotFoundError)
