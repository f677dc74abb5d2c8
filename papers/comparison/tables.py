"""Real tables as organisations would hold them: columns encoded by declared schemas, and seeded splits of their rows.

Bounds   written down in papers/schemas, as a data dictionary would have them; never computed from rows.
Splits   four fifths of the rows to train on, one fifth to judge by; split s is drawn from the seed FIRST_SEED + s.
Data     in the folder that COLONNADE_DATA names: <name>/X.npz and y.npy (a9a: X_train.npz, X_test.npz and so on).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.federation import Federation
from colonnade.data.schema.columns import Binary, Numeric
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from papers.registry import data_folder

Places = NDArray[np.int64]
TRAINED, FIRST_SEED = 0.8, 1000
SPLIT_COLUMNS = ("credit-default", "nhanes-diabetes", "a9a")  # over parties, with public bounds
WHOLE = ("rcv1",)  # one holder: wide and sparse, rows of length 1


@dataclass(frozen=True)
class Table:
    """All columns side by side, as the parties' schemas encode them."""

    name: str
    X: Any  # CSR
    y: Floats  # −1 or 1
    schemas: dict[str, Schema]  # empty where one holder has everything
    label: str = ""  # the party that holds the labels

    @property
    def parts(self) -> dict[str, slice]:
        """Each party's columns."""
        ends = np.cumsum([0, *(schema.width for schema in self.schemas.values())]).tolist()
        return {party: slice(ends[k], ends[k + 1]) for k, party in enumerate(self.schemas)}

    def federation(self, rows: Places) -> Federation:
        """Some rows between the parties; columns are encoded already, so their schemas are declared beside them."""
        made = Federation.split(self.X[rows], self.y[rows], self.parts, label=self.label)
        declared = {name: replace(party, schema=self.schemas[name]) for name, party in made.parties.items()}
        return replace(made, parties=declared)

    def splits(self, count: int) -> Iterator[tuple[Places, Places]]:
        """(rows to train on, rows to judge by), the same every time."""
        for seed in range(FIRST_SEED, FIRST_SEED + count):
            order = np.random.default_rng(seed).permutation(self.y.size)
            cut = int(TRAINED * self.y.size)
            yield np.sort(order[:cut]), np.sort(order[cut:])


def present() -> list[str]:
    """The tables that are in the folder COLONNADE_DATA names."""
    folder = data_folder()
    return [name for name in (*SPLIT_COLUMNS, *WHOLE) if folder is not None and (folder / name).is_dir()]


def parties(name: str) -> tuple[str, ...]:
    """Who holds the columns of a table; nobody but one holder where this is empty."""
    return tuple(_declared(name)["party"]) if name in SPLIT_COLUMNS else ()


@lru_cache(maxsize=1)
def load(name: str) -> Table:
    """A table by its name."""
    folder = data_folder()
    if folder is None or not (folder / name).is_dir():
        raise InvalidInput(f"the comparison reads {name}: set COLONNADE_DATA to the folder that has it.")
    X, y, names = _read(folder / name)
    if name in WHOLE:
        return Table(name, X[y != 0], y[y != 0], {})
    told, schemas, blocks = _declared(name), {}, []
    for party, public in told["party"].items():
        first, end = public["columns"]
        bounds = public.get("numeric", {})
        columns = tuple(Numeric(c, *bounds[c]) if c in bounds else Binary(c) for c in names[first:end])
        schemas[party] = Schema(columns, public["row_norm"])
        blocks.append(encoded(sparse.csc_array(X[:, first:end]), schemas[party]))
    return Table(name, sparse.csr_array(sparse.hstack(blocks)), y, schemas, told["label"])


def _declared(name: str) -> dict[str, Any]:
    return tomllib.loads((files("papers") / "schemas" / f"{name}.toml").read_text(encoding="utf-8"))


def _read(folder: Path) -> tuple[Any, Floats, list[str]]:
    parts = ("_train", "_test") if (folder / "X_train.npz").is_file() else ("",)
    X = sparse.csr_array(sparse.vstack([sparse.load_npz(folder / f"X{part}.npz") for part in parts]), dtype=np.float64)
    # A memory map never unpickles.
    y = np.concatenate([np.lib.format.open_memmap(folder / f"y{part}.npy", mode="r") for part in parts])
    named = folder / "features.txt"
    names = named.read_text().split("\n") if named.is_file() else [f"column {j}" for j in range(X.shape[1])]
    rows_left_out = 0.0 if (y < 0).any() else -1.0  # a label 0 among −1 and 1 stands for neither class
    return X, np.where(y > 0, 1.0, np.where(y == 0, rows_left_out, -1.0)), names


def encoded(block: Any, schema: Schema) -> Any:
    """What `schema.encode` makes of these columns, without writing them into a frame."""
    columns = []
    for j, column in enumerate(schema.columns):
        values = block[:, [j]]
        if isinstance(column, Numeric):
            clipped = np.clip(values.toarray(), column.low, column.high)
            values = sparse.csc_array(2.0 * ((clipped - column.low) / (column.high - column.low)) - 1.0)
        columns.append(values)
    return sparse.hstack(columns, format="csr")
