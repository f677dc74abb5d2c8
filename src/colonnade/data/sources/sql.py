"""One query to a PostgreSQL or SQLite database, as blocks of rows, through ADBC, read-only.

Leaves   nothing. Drivers put parts of a mistyped address and the cells they stumble over into their messages: what they
         say is passed on only where it is about the words of the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from colonnade.data.sources.files import BLOCK, choose_columns, frame_of, join_blocks
from colonnade.errors import InvalidInput, unquoted

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

DATABASES = ("postgresql", "postgres", "sqlite")


@dataclass(frozen=True)
class Sql:
    """The rows of one query to a PostgreSQL or SQLite database, through ADBC."""

    address: str = field(repr=False)  # may hold a password
    query: str = field(repr=False)  # may name a person
    shown: str  # the address without user, password and options

    def names(self) -> list[str]:
        with self._reader() as reader:
            return list(reader.schema.names)

    def frame(self, columns: Sequence[str] | None, _: object = None, __: object = ()) -> pl.DataFrame:
        return join_blocks(self.blocks(columns))

    def blocks(self, columns: Sequence[str] | None, _: object = None, __: object = ()) -> Iterator[pl.DataFrame]:
        with unquoted(), self._reader() as reader:
            names = choose_columns(self.shown, list(reader.schema.names), columns)
            batches = self._fetch(reader)
            first = next(batches, reader.schema.empty_table())
            for batch in chain([first], batches):
                yield frame_of(batch.select(names))

    @contextmanager
    def _reader(self) -> Iterator[pa.RecordBatchReader]:
        with closing(self._connection()) as connection, closing(connection.cursor()) as cursor:
            said = None
            try:
                if not self._sqlite:
                    cursor.execute("SET TRANSACTION READ ONLY")
                cursor.adbc_statement.set_options(**self._options())
                cursor.execute(self.query)
                reader = cursor.fetch_record_batch()
            except Exception as error:
                said = self._about_the_query(error)
            # Outside, so that no traceback shows what the driver quotes.
            if said is not None:
                raise InvalidInput(f"{self.shown}: {said}")
            yield reader

    def _fetch(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        rows = 0
        failed = False
        while True:
            try:
                batch = next(reader, None)
            except Exception:
                failed = True
            if failed:
                failed_after = f"{self.shown}: the database failed after {rows:,} rows; its message may quote a cell"
                ask = "Does a column hold values of several types, or does an expression fail for some rows?"
                raise InvalidInput(f"{failed_after} and is not shown. {ask} CAST it in the query.")
            if batch is None:
                return
            rows += batch.num_rows
            yield batch

    @property
    def _sqlite(self) -> bool:
        return self.address.startswith("sqlite:")

    def _options(self) -> dict[str, str]:
        if self._sqlite:
            return {"adbc.sqlite.query.batch_rows": str(BLOCK // 64)}
        return {"adbc.postgresql.batch_size_hint_bytes": str(BLOCK)}

    def _connection(self) -> Any:
        said = None
        try:
            import_module("pyarrow")  # in which the drivers hand rows over
            if self._sqlite:
                address = f"file:{quote(str(_sqlite_file(self.address)))}?mode=ro"
                return import_module("adbc_driver_sqlite.dbapi").connect(address)
            return import_module("adbc_driver_postgresql.dbapi").connect(self.address)
        except ImportError:
            said = "databases need the drivers of an extra: pip install 'colonnade[sql]'."
        except Exception as error:
            said = _about_the_connection(str(error))
        # Outside: the driver's own message may hold a part of the address.
        raise InvalidInput(f"{self.shown}: {said}")

    def _about_the_query(self, error: Exception) -> str:
        """What is wrong with a query. Only messages about its words are passed on: others may quote cells."""
        state = getattr(error, "sqlstate", None) or ""
        details = dict(getattr(error, "details", None) or ())
        primary = details.get(b"PG_DIAG_MESSAGE_PRIMARY", b"").decode(errors="replace")
        if state.startswith("42"):  # syntax errors and names
            return f"the query was refused: {primary} (SQLSTATE {state}). Correct query=."
        if state == "25006" or "readonly" in str(error):
            return "the query would write, and the connection is read-only. Ask with SELECT only."
        if self._sqlite and (found := re.search(r"Failed to prepare query: (.+)", str(error))):
            return f"the query was refused: {found[1]}. Correct query=."
        return f"the query failed (SQLSTATE {state or 'unknown'}). Try it in the database's own shell."


def query_at(address: str, query: str | None) -> Sql:
    """The value that stands for a query to a database; nothing is asked yet."""
    scheme, _, rest = address.partition("://")
    if scheme not in DATABASES:
        raise InvalidInput(f"no reader for addresses that begin with {scheme}://; there are {', '.join(DATABASES)}.")
    if not (isinstance(query, str) and query.strip()):
        raise InvalidInput('a database needs query=, as in query="select pid, age from stays".')
    if scheme == "sqlite":
        file = _sqlite_file(address)
        if not file.is_file():  # opening it would make an empty one
            advice = "Write sqlite:///folder/file.db, or four slashes before an absolute path."
            raise InvalidInput(f"{file} is not a file. {advice}")
        return Sql(address, query, f"sqlite:///{file}")
    authority = re.split(r"[/?#]", rest)[0]
    if rest.count("@") != authority.count("@") or rest.count("@") > 1 or "#" in rest:
        # Then parts of the password would be taken for the host or the database, and shown.
        marks = "in a password write @ as %40, / as %2F, # as %23, ? as %3F, : as %3A"
        raise InvalidInput(f"the address cannot be read: {marks}.")
    parts = urlsplit(f"postgresql://{rest}")
    with suppress(ValueError):
        port = "" if parts.port is None else f":{parts.port}"
        return Sql(f"postgresql://{rest}", query, f"postgresql://{parts.hostname or ''}{port}{unquote(parts.path)}")
    raise InvalidInput("the address cannot be read: its port is no number. Write postgresql://user@host:5432/database.")


def _sqlite_file(address: str) -> Path:
    return Path(unquote(address.removeprefix("sqlite://").removeprefix("/")))


def _about_the_connection(said: str) -> str:
    if "password" in said:
        return "the server did not accept the user or the password. Check both, and PGPASSWORD or ~/.pgpass."
    if "database" in said and "does not exist" in said:
        return "the server has no database of that name. Check the end of the address."
    return "no connection. Is the server running there, and may this machine reach it?"
