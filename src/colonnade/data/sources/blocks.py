"""What all sources share: the size of a block, the choice of columns, and Arrow's tables as frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from colonnade.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

BLOCK = 1 << 22  # bytes of a block of rows, as text or at 8 bytes a cell
MOST_ROWS = 1 << 16


def block_rows(columns: int) -> int:
    """Rows of a block with so many columns; not too many, since a cell of text may be long."""
    return min(max(BLOCK // (8 * max(columns, 1)), 1), MOST_ROWS)


def choose_columns(shown: str, there: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """The columns asked for (None: all), if a table has each of them once."""
    times = Counter(there)
    twice = [name for name in times if times[name] > 1]
    if twice:
        raise InvalidInput(
            f"{shown}: {len(twice):,} column names stand more than once, the first is {twice[0]!r}. Rename them."
        )
    if columns is None:
        return list(there)
    absent = [name for name in columns if name not in times]
    if absent:
        raise InvalidInput(
            f"{shown} lacks {len(absent):,} of the {len(columns):,} columns asked for, the first is {absent[0]!r}. "
            f"It has {len(there):,}: {', '.join(there[:8])}{', ...' if len(there) > 8 else ''}. Correct the name."
        )
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
