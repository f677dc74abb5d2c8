"""Tables in files and frames, whole or in blocks of rows: CSV, Parquet, Arrow, data frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from colonnade.data.schema.table import Schema
from colonnade.data.sources.csv_text import Guess, Records, converted, first_foreign, form_of, header, ragged, records
from colonnade.errors import InvalidInput, quoting, unquoted

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

BLOCK = 1 << 22  # bytes of a block of rows, as text or at 8 bytes a cell
MOST_ROWS = 1 << 16


def block_rows(columns: int) -> int:
    """Rows of a block with so many columns; not too many, since a cell of text may be long."""
    return min(max(BLOCK // (8 * max(columns, 1)), 1), MOST_ROWS)


def choose_columns(shown: str, there: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """The columns asked for (None: all), if a table has each of them once."""
    times = Counter(there)
    if twice := [name for name in times if times[name] > 1]:
        what = f"{len(twice):,} column names stand more than once, the first is {twice[0]!r}"
        raise InvalidInput(f"{shown}: {what}. Rename them.")
    if columns is None:
        return list(there)
    if absent := [name for name in columns if name not in times]:
        lacks = f"{shown} lacks {len(absent):,} of the {len(columns):,} columns asked for, the first is {absent[0]!r}."
        names = f"{', '.join(there[:8])}{', ...' if len(there) > 8 else ''}"
        raise InvalidInput(f"{lacks} It has {len(there):,}: {names}. Correct the name.")
    return list(dict.fromkeys(columns))


def join_blocks(blocks: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """All blocks of a table in one frame."""
    import polars as pl

    return pl.concat(blocks)


def frame_of(table: Any) -> pl.DataFrame:
    """An Arrow table or batch as polars; numbers that PostgreSQL keeps as decimal text become floats."""
    import polars as pl
    import pyarrow as pa

    columns = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        values = column
        if isinstance(column.type, pa.BaseExtensionType):
            values = column.cast(column.type.storage_type)
            if getattr(column.type, "type_name", "") == "numeric":
                values = values.cast(pa.float64())
        columns[name] = values
    return pl.DataFrame(pl.from_arrow(pa.table(columns)))


@dataclass(frozen=True, eq=False)
class FrameTable:
    """A data frame in memory."""

    table: pl.DataFrame = field(repr=False)
    shown: str = "the frame"

    def names(self) -> list[str]:
        return self.table.columns

    def frame(self, columns: Sequence[str] | None, _: object = None, __: object = ()) -> pl.DataFrame:
        return self.table.select(choose_columns(self.shown, self.table.columns, columns))

    def blocks(self, columns: Sequence[str] | None, _: object = None, __: object = ()) -> Iterator[pl.DataFrame]:
        table = self.frame(columns)
        yield from table.iter_slices(block_rows(table.width)) if table.height else [table]


# ------------------------------------------------------------------------------------------------ CSV


@dataclass(frozen=True)
class Csv:
    """A CSV file with a header."""

    path: Path

    @property
    def shown(self) -> str:
        return self.path.name

    def frame(
        self, columns: Sequence[str] | None, schema: Schema | None = None, texts: Collection[str] = ()
    ) -> pl.DataFrame:
        return join_blocks(self.blocks(columns, schema, texts))

    def blocks(
        self, columns: Sequence[str] | None, schema: Schema | None = None, texts: Collection[str] = ()
    ) -> Iterator[pl.DataFrame]:
        """What a schema declares decides about types; the columns that it does not name are looked through first.

        texts  columns whose cells are names of somebody, however they look: "007" is no number, and stays as it is.
        """
        import polars as pl

        names = self.names()
        wanted = choose_columns(self.shown, names, columns)
        declared = schema.columns if schema else ()  # what waits for a look is text: no cell is refused
        types = {column.name: column.csv_type() if column.declared else pl.String for column in declared}
        types |= dict.fromkeys(texts, pl.String)
        with unquoted():
            types |= self._types(names, [name for name in wanted if name not in types])
            empty = True
            decimal = form_of(self.path).decimal
            for found, cells in self._cells(names, wanted):
                empty = False
                yield pl.DataFrame([self._values(cells[name], types[name], decimal, found) for name in wanted])
            if empty:
                yield pl.DataFrame(schema={name: types[name] for name in wanted})

    def names(self) -> list[str]:
        try:
            names = header(self.path, form_of(self.path))
        except UnicodeDecodeError:
            raise InvalidInput(_not_utf8(self.shown, "in its first lines")) from None
        if not names:
            raise InvalidInput(f"{self.shown} is empty: not even a header names its columns. Is it the right file?")
        return names

    def _types(self, names: list[str], wanted: list[str]) -> dict[str, Any]:
        """A type per column that holds in all rows."""
        form = form_of(self.path)
        guesses = {name: Guess(form.decimal) for name in wanted}
        for _, cells in self._cells(names, wanted) if wanted else ():
            for name, guess in guesses.items():
                if not guess.settled:
                    guess.look(cells[name])
        return {name: guess.dtype() for name, guess in guesses.items()}

    def _cells(self, names: list[str], wanted: list[str]) -> Iterator[tuple[Records, pl.DataFrame]]:
        """The wanted columns as text, an empty cell as a gap, block by block."""
        import polars as pl

        places = {names.index(name) for name in wanted}
        form = form_of(self.path)
        for found in records(self.path, form, BLOCK):
            if wrong := ragged(found, names):
                what = f"{wrong[1]} cells in line {wrong[0]:,}, and the header has {len(names)}"
                advice = "Give every line as many cells; put texts that hold a comma in quotes, and write 1.5 for 1,5."
                raise InvalidInput(f"{self.shown}: {what}. {advice}")
            body, foreign = first_foreign(found, places)
            if foreign is not None:
                where = f"in column {names[foreign[1]]!r} in line {found.lines[foreign[0]]:,}"
                raise InvalidInput(_not_utf8(self.shown, where))
            texts = dict.fromkeys(names, pl.String)
            quote = '"' if found.quoted else None
            how: dict[str, Any] = {"has_header": False, "separator": form.separator, "quote_char": quote}
            cells = pl.read_csv(body, schema=texts, columns=sorted(places), **how).select(wanted)
            if cells.height != found.ends.size:
                lines = f"lines {found.lines[0]:,} to {found.lines[-1]:,}"
                advice = "Save it as UTF-8 text with a header and commas."
                raise InvalidInput(f"{self.shown} cannot be read as CSV in {lines}. {advice}")
            yield found, cells

    def _values(self, cells: pl.Series, dtype: Any, decimal: str, found: Records) -> pl.Series:
        import polars as pl

        values, wrong = converted(cells, dtype, decimal)
        if (at := wrong.arg_true()).is_empty():
            return values
        where = f"column {cells.name!r} has a cell in line {found.lines[at[0]]:,}"
        wanted = "0, 1, true or false" if dtype == pl.Boolean else "a number"
        advice = "Correct the cell (1.5, not 1,5), or declare the column categorical with its levels."
        raise InvalidInput(f"{self.shown}: {where} that is not {wanted}, as its schema says. {advice}")


def _not_utf8(shown: str, where: str) -> str:
    return f"{shown} is not UTF-8 ({where}). Save it as UTF-8, for example: iconv -f latin1 -t utf-8 old.csv > new.csv"


# ------------------------------------------------------------------------------------------------ Arrow and Parquet


@dataclass(frozen=True)
class Columnar:
    """A file that is stored by columns: Parquet, or Arrow IPC as a file (Feather is one) or as a stream."""

    path: Path
    kind: Literal["Parquet", "Arrow"]

    @property
    def shown(self) -> str:
        return self.path.name

    def names(self) -> list[str]:
        with self._explain():
            if self._streamed:
                with _open_stream(self.path) as stream:
                    return list(stream.schema.names)
            return self._scan().collect_schema().names()

    def frame(self, columns: Sequence[str] | None, _: object = None, __: object = ()) -> pl.DataFrame:
        return join_blocks(self.blocks(columns))

    def blocks(self, columns: Sequence[str] | None, _: object = None, __: object = ()) -> Iterator[pl.DataFrame]:
        names = choose_columns(self.shown, self.names(), columns)
        empty = True
        with unquoted(), self._explain():
            for batch in (self._stream_batches if self._streamed else self._batches)(names):
                empty &= batch.is_empty()
                yield from batch.iter_slices(block_rows(len(names)))
            if empty:
                yield batch

    @property
    def _streamed(self) -> bool:
        with self.path.open("rb") as file:
            return self.kind == "Arrow" and file.read(4) == b"\xff\xff\xff\xff"

    def _scan(self) -> pl.LazyFrame:
        import polars as pl

        return (pl.scan_parquet if self.kind == "Parquet" else pl.scan_ipc)(self.path, glob=False)

    def _batches(self, names: list[str]) -> Iterator[pl.DataFrame]:
        rows = self._scan().select(names)
        yield rows.head(0).collect()
        yield from rows.collect_batches(chunk_size=block_rows(len(names)), maintain_order=True, lazy=True)

    def _stream_batches(self, names: list[str]) -> Iterator[pl.DataFrame]:
        with _open_stream(self.path) as stream:
            yield frame_of(stream.schema.empty_table().select(names))
            for batch in stream:
                yield frame_of(batch.select(names))

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not (isinstance(error, OSError) or quoting(error)):
                raise
            what = f"{self.shown} cannot be read as {self.kind} ({type(error).__name__})"
            raise InvalidInput(f"{what}. Is it whole, and is its suffix right? Write it again.") from None


@contextmanager
def _open_stream(path: Path) -> Iterator[pa.RecordBatchStreamReader]:
    try:
        import pyarrow as pa
    except ImportError:
        need = "an Arrow stream, which pyarrow reads block by block: pip install 'colonnade[parquet]'"
        raise InvalidInput(f"{path.name} is {need}; or write it as an Arrow file or as Parquet.") from None
    with pa.OSFile(str(path)) as file:
        yield pa.ipc.open_stream(file)
