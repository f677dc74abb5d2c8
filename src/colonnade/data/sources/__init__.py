"""Where a party's table comes from: files, data frames, databases; whole, or in blocks of rows.

    table.csv                         a header; UTF-8 and commas, or another form that `csv_text.py` knows by itself; an
                                      empty cell is missing, in a number also NA, NaN, null;
                                      a schema's columns are read as it declares them, keys as text
    table.parquet                     Parquet
    table.arrow .feather .ipc         Arrow IPC, as a file or as a stream (which needs the extra [parquet])
    data.svm ..., X.npz               numbers with labels: `read` gives (X, y), see matrices.py
    postgresql://user@host/database   the rows of query=, read-only; the password may come from PGPASSWORD or ~/.pgpass
    sqlite:///folder/file.db          the same; four slashes for an absolute path
    a polars or pandas DataFrame      itself

Leaves   nothing. Errors name places and counts; they quote no cell, and never a password.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from colonnade.data.schema.cells import as_frame
from colonnade.data.schema.table import Schema
from colonnade.data.sources import matrices, sql
from colonnade.data.sources.files import Columnar, Csv, FrameTable
from colonnade.data.sources.sql import Sql
from colonnade.errors import InvalidInput, unquoted

if TYPE_CHECKING:
    import polars as pl

Table = FrameTable | Csv | Columnar | Sql
ARROW = (".arrow", ".feather", ".ipc")
KINDS = (".csv", ".parquet", *ARROW, *matrices.KINDS)


@unquoted()
def read(
    source: Any,
    *,
    columns: Sequence[str] | int | None = None,
    query: str | None = None,
    schema: Schema | None = None,
    texts: Collection[str] = (),
) -> pl.DataFrame | tuple[Any, NDArray[Any]]:
    """A whole source: a polars frame, or (X, y) for svmlight and npz files.

    Parameters
    ----------
    source
        The path of a CSV, Parquet, Arrow, svmlight or npz file, the address of a database, or a data frame.
    columns
        Names of the columns to read, or the public number of columns of a svmlight file; None: all.
    query
        What to ask a database, as in query="select pid, age from stays".
    schema
        Of a CSV file: its columns are read as it declares them; what it does not name is guessed from all cells.
    texts
        Of a CSV file: columns that are read as text however they look, such as a key.

    Returns
    -------
    DataFrame or tuple
        The table; of a file that holds numbers without names, the matrix and its labels.

    Raises
    ------
    InvalidInput
        The source cannot be read; the message names the place, and quotes no cell.

    Examples
    --------
    >>> import colonnade as co
    >>> import polars as pl
    >>> co.read(pl.DataFrame({"id": [1, 2], "age": [40, 61]}), columns=["age"]).shape
    (2, 1)
    """
    if isinstance(source, str | PathLike) and matrices.kind_of(Path(source)) in matrices.KINDS:
        if columns is not None and not isinstance(columns, int):
            raise InvalidInput(f"{Path(source).name} has no named columns; give their number, or leave columns= out.")
        return matrices.read_matrix(Path(source), None, columns, lambda _: None)
    if isinstance(columns, int | str):
        raise InvalidInput(f"columns={columns!r}: give a list of names (a number is for svmlight files).")
    return table_at(source, query=query).frame(columns, schema, texts)


def table_at(source: Any, *, query: str | None = None) -> Table:
    """The value that stands for a source; nothing is read yet."""
    if isinstance(source, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source):
        return sql.query_at(source, query)
    if query is not None:
        raise InvalidInput("query= is for databases: give an address such as postgresql://user@host/database.")
    if not isinstance(source, str | PathLike):
        return FrameTable(as_frame(source))
    file = matrices.file_at(source, KINDS)
    if file.suffix == ".csv":
        return Csv(file)
    if file.suffix in (".parquet", *ARROW):
        return Columnar(file, "Parquet" if file.suffix == ".parquet" else "Arrow")
    if matrices.kind_of(file) in matrices.KINDS:
        raise InvalidInput(f"{file.name} holds numbers without names; read it with co.read, it needs no schema.")
    kind = file.suffix or "a file without a suffix"
    raise InvalidInput(f"{file.name}: no reader for {kind}; there are {', '.join(KINDS)}.")
