"""Tables in files and frames, whole or in blocks of rows: CSV, Parquet, Arrow, data frames."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from colonnade.data.schema.columns import Binary, Categorical, Column, Date
from colonnade.data.schema.table import Schema
from colonnade.data.sources.csv_form import form_of
from colonnade.errors import InvalidInput, unquoted

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

LED_BY_ZEROS = r"^\s*[+-]?0[0-9]"
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
        import pyarrow as pa

        names = self.names()
        wanted = choose_columns(self.shown, names, columns)
        types = {column.name: _arrow_type(column) for column in (schema.columns if schema else ())}
        types |= dict.fromkeys(texts, pa.string())
        with unquoted(), self._explain(names):
            types |= self._types(names, [name for name in wanted if name not in types])
            for batch in self._batches(wanted, types):
                yield self._polars(batch)

    def names(self) -> list[str]:
        try:
            form = form_of(self.path)
            with self.path.open(newline="", encoding=form.encoding) as text:
                names = next(csv.reader(text, delimiter=form.separator), [])
        except UnicodeDecodeError:
            raise InvalidInput(_not_utf8(self.shown, "in its first lines")) from None
        if not names:
            raise InvalidInput(f"{self.shown} is empty: not even a header names its columns. Is it the right file?")
        return names

    def _types(self, names: list[str], wanted: list[str]) -> dict[str, pa.DataType]:
        """A type per column that holds in all rows: guessed from the first block, widened where that was wrong."""
        import pyarrow as pa

        wider = {"null": pa.int64(), "int64": pa.float64()}  # then text
        types: dict[str, pa.DataType] = {}
        while wanted:
            try:
                for batch in self._batches(wanted, types):
                    types |= dict(zip(batch.schema.names, batch.schema.types, strict=True))
            except pa.ArrowInvalid as error:
                fault = re.search(r"column #(\d+).* conversion error to (\w+)", str(error), re.DOTALL)
                said = None if fault and fault[2] != "string" else self._fault(str(error), names)
            else:
                return types | dict.fromkeys(self._led_by_zeros(types), pa.string())
            if said is not None or fault is None:
                raise InvalidInput(str(said))
            types[names[int(fault[1])]] = wider.get(fault[2], pa.string())
        return {}

    def _led_by_zeros(self, types: Mapping[str, pa.DataType]) -> set[str]:
        """Columns that read as whole numbers and are none: "007" is the name of something, and 7 is another one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        looked = {name: pa.string() for name, kind in types.items() if kind == pa.int64()}
        found: set[str] = set()
        for batch in self._batches(list(looked), looked) if looked else ():
            rest = [name for name in looked if name not in found]
            found |= {name for name in rest if pc.any(pc.match_substring_regex(batch[name], LED_BY_ZEROS)).as_py()}
        return found

    def _batches(self, wanted: list[str], types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv as arrow_csv

        form = form_of(self.path)
        options = arrow_csv.ConvertOptions(include_columns=wanted, column_types=dict(types), decimal_point=form.decimal)
        encoding = "utf16" if form.encoding == "utf-16" else "utf8"
        in_order = arrow_csv.ReadOptions(block_size=BLOCK, use_threads=False, encoding=encoding)  # errors name the line
        cut = arrow_csv.ParseOptions(delimiter=form.separator)
        with self.path.open("rb") as raw:
            reader, empty = arrow_csv.open_csv(raw, in_order, cut, options), True
            for batch in reader:
                yield batch
                empty = False
            if empty:
                yield reader.schema.empty_table()

    @contextmanager
    def _explain(self, names: list[str]) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
            return
        except pa.ArrowInvalid as error:
            said = self._fault(str(error), names)
        raise InvalidInput(said)  # outside, so that no traceback shows the cell that Arrow quotes

    def _fault(self, said: str, names: list[str]) -> str:
        """Where Arrow found a fault, without the cell that it quotes."""
        column, row = (re.search(rf"{what} #(\d+)", said) for what in ("column", "Row"))
        line = "" if row is None else f" in line {int(row[1]):,}"
        if cells := re.search(r"Expected (\d+) columns, got (\d+)", said):
            advice = "Give every line as many cells; put texts that hold a comma in quotes, and write 1.5 for 1,5."
            return f"{self.shown}: {cells[2]} cells{line}, and the header has {cells[1]}. {advice}"
        if column is None:
            return f"{self.shown} cannot be read as CSV{line}. Save it as UTF-8 text with a header and commas."
        name = names[int(column[1])]
        if "UTF8" in said:
            return _not_utf8(self.shown, f"in column {name!r}{line}")
        wanted = "0, 1, true or false" if "error to bool" in said else "a number"
        advice = "Correct the cell (1.5, not 1,5), or declare the column categorical with its levels."
        return f"{self.shown}: column {name!r} has a cell{line} that is not {wanted}, as its schema says. {advice}"

    def _polars(self, table: Any) -> pl.DataFrame:
        import polars as pl
        import pyarrow as pa

        for part in table.schema:
            if part.type == pa.binary():  # what Arrow makes of texts that are not UTF-8
                raise InvalidInput(_not_utf8(self.shown, f"in column {part.name!r}"))
        frame = frame_of(table)
        texts = [name for name, kind in frame.schema.items() if kind == pl.String]
        return frame.with_columns(pl.col(texts).replace("", None)) if texts else frame


def _arrow_type(column: Column) -> pa.DataType:
    """How the cells of a declared column are read: levels as they are written, so that "01" stays "01"."""
    import pyarrow as pa

    if isinstance(column, Categorical | Date):
        return pa.string()
    return pa.bool_() if isinstance(column, Binary) else pa.float64()


def _not_utf8(shown: str, where: str) -> str:
    return f"{shown} is not UTF-8 ({where}). Save it as UTF-8, for example: iconv -f latin1 -t utf-8 old.csv > new.csv"


# ------------------------------------------------------------------------------------------------ Arrow and Parquet

# Given some of its columns, a file's batches of rows.
Batches = Callable[[list[str]], "Iterator[pa.RecordBatch]"]


@dataclass(frozen=True)
class Columnar:
    """A file that is stored by columns: Parquet, or Arrow IPC as a file (Feather is one) or as a stream."""

    path: Path
    kind: Literal["Parquet", "Arrow"]

    @property
    def shown(self) -> str:
        return self.path.name

    def names(self) -> list[str]:
        with self._open() as (schema, _):
            return list(schema.names)

    def frame(self, columns: Sequence[str] | None, _: object = None, __: object = ()) -> pl.DataFrame:
        return join_blocks(self.blocks(columns))

    def blocks(self, columns: Sequence[str] | None, _: object = None, __: object = ()) -> Iterator[pl.DataFrame]:
        with unquoted(), self._open() as (schema, batches):
            names, empty = choose_columns(self.shown, schema.names, columns), True
            for batch in batches(names):
                empty &= batch.num_rows == 0
                yield from frame_of(batch).iter_slices(block_rows(len(names)))
            if empty:
                yield frame_of(schema.empty_table().select(names))

    @contextmanager
    def _open(self) -> Iterator[tuple[pa.Schema, Batches]]:
        import pyarrow as pa

        try:
            with (_open_parquet if self.kind == "Parquet" else _open_arrow)(self.path) as found:
                yield found
        except (pa.ArrowException, OSError) as error:
            what = f"{self.shown} cannot be read as {self.kind} ({type(error).__name__})"
            raise InvalidInput(f"{what}. Is it whole, and is its suffix right? Write it again.") from None


@contextmanager
def _open_parquet(path: Path) -> Iterator[tuple[pa.Schema, Batches]]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        yield file.schema_arrow, lambda names: file.iter_batches(batch_size=block_rows(len(names)), columns=names)


@contextmanager
def _open_arrow(path: Path) -> Iterator[tuple[pa.Schema, Batches]]:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        try:
            whole = pa.ipc.open_file(file)
            found = whole.schema, (whole.get_batch(k) for k in range(whole.num_record_batches))
        except pa.ArrowInvalid:
            file.seek(0)
            stream = pa.ipc.open_stream(file)
            found = stream.schema, iter(stream)
        yield found[0], lambda names: (batch.select(names) for batch in found[1])
