"""One table per party, matched on a key column: read, compared, and encoded in blocks of rows.

Keys, labels and people are held; the features stay where they are until they are encoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.party import OPEN, Party, list_names
from colonnade.data.row_order import key_kind, kinds_match, rank_in_person
from colonnade.data.schema.infer import look
from colonnade.data.schema.sought import SoughtCells, check_cells
from colonnade.data.schema.table import Encoded, Schema, Source
from colonnade.data.sources import Table, table_at
from colonnade.data.sources.files import join_blocks
from colonnade.data.text_file import naming
from colonnade.errors import InvalidInput
from colonnade.privacy.block import ROW, Block, FeatureColumn, Unit

if TYPE_CHECKING:
    import polars as pl

COLUMNS_AT_ONCE = 64  # that are copied while rows are put in order


@dataclass(frozen=True, eq=False)
class KeyedTable:
    """A party's table: its keys, labels and people are held; its features are read when they are encoded."""

    name: str
    table: Table
    names: list[str]  # of all its columns
    beside: pl.DataFrame  # the key, and the columns that are no features
    texts: frozenset[str]  # of these, the ones that name somebody: text, where a file does not say

    @classmethod
    def read(cls, name: str, source: Any, on: str, beside: Set[str], texts: frozenset[str]) -> KeyedTable:
        with naming(f"party {name!r}"):
            table: Table = source if isinstance(source, Table) else table_at(source)
            names = table.names()
        if on not in names:
            raise InvalidInput(
                f"party {name!r} has no key column {on!r}; its columns are {list_names(names)}. "
                "The key has one name at all parties, in the first line of each file."
            )
        with naming(f"party {name!r}"):
            held = join_blocks(table.blocks([column for column in names if column in beside], None, texts))
        if held.is_empty():
            raise InvalidInput(f"party {name!r} has no rows. Give a table with rows below its header.")
        if nulls := held[on].null_count():
            raise InvalidInput(f"party {name!r}: {nulls:,} rows have no key in {on!r}; fill it in or leave them out.")
        if double := held.height - held[on].n_unique():
            advice = "each key may stand once. Aggregate the rows of a key, or use a finer key."
            raise InvalidInput(f"party {name!r}: {double:,} rows repeat a key of {on!r}; {advice}")
        return cls(name, table, names, held, texts)

    def sought(self, keys: pl.Series, schema: Schema) -> SoughtCells:
        """The cells of these keys' rows, in their order, for a look: nothing can be encoded before."""
        import polars as pl

        own = self._own_columns(schema)
        with naming(f"party {self.name!r}"):
            blocks, places = zip(*self._matching_blocks(keys, own, schema), strict=True)
            frame = pl.concat(blocks)
            check_cells(frame, schema)
        order = np.concatenate(places)
        self._check_places(order, keys)
        return SoughtCells(frame[np.argsort(order)], schema)

    def encoded(self, keys: pl.Series, schema: Schema | None) -> tuple[Schema, Encoded]:
        """The rows of these keys, in their order, encoded a block at a time."""
        own = [column for column in self.names if column not in self.beside.columns]
        if schema is None:
            declared = None
            schema = Schema(())
            if own:
                with naming(f"party {self.name!r}"):
                    looks = look(block for block, _ in self._matching_blocks(keys, own, None))
                    schema = Schema(tuple(seen.column() for seen in looks), source=Source.DATA)
        else:
            declared = schema
            own = self._own_columns(schema)
        if not own:  # a party with nothing but labels
            return schema, Encoded(np.zeros((keys.len(), 0)), (), {}, {})
        places: list[NDArray[np.int64]] = []

        def blocks() -> Iterator[pl.DataFrame]:
            for block, at in self._matching_blocks(keys, own, declared):
                places.append(at)
                yield block

        with naming(f"party {self.name!r}"):
            encoded = schema.encode_blocks(blocks())
        order = np.concatenate(places)
        self._check_places(order, keys)
        return schema, replace(encoded, matrix=_reorder(encoded.matrix, order))

    def _own_columns(self, schema: Schema) -> list[str]:
        own = [column.name for column in schema.columns]
        if taken := [column for column in own if column in self.beside.columns]:
            beside = "which is the key, the label, its offset or weight, or whom a row is about, and no feature"
            what = f"its schema names {taken[0]!r}, {beside}"
            raise InvalidInput(f"party {self.name!r}: {what}. Leave it out of the schema.")
        return own

    def _check_places(self, order: NDArray[np.int64], keys: pl.Series) -> None:
        if not np.array_equal(np.sort(order), np.arange(keys.len())):
            changed = "its table changed while it was read; make the federation again when nobody writes to it."
            raise InvalidInput(f"party {self.name!r}: {changed}")

    def _matching_blocks(
        self, keys: pl.Series, columns: Sequence[str], declared: Schema | None
    ) -> Iterator[tuple[pl.DataFrame, NDArray[np.int64]]]:
        """Blocks of the table without the rows that are not matched, and the place of each row among the keys."""
        import polars as pl

        wanted = pl.DataFrame({"key": keys, "place": pl.int_range(keys.len(), eager=True)})
        for block in self.table.blocks([keys.name, *columns], declared, self.texts):
            own = block[keys.name].cast(keys.dtype)
            rows = pl.DataFrame({"key": own, "row": pl.int_range(block.height, eager=True)})
            both = rows.join(wanted, on="key", how="inner", maintain_order="left")
            whole = both.height == block.height
            yield (block if whole else block[both["row"]]).select(columns), both["place"].to_numpy()


def _reorder(matrix: Any, place: NDArray[np.int64]) -> Any:
    """Row r moved to place[r], without a second matrix."""
    if np.array_equal(place, np.arange(place.size)):
        return matrix
    if sparse.issparse(matrix):
        indices = place.astype(matrix.indices.dtype)[matrix.indices]
        moved = sparse.csc_array((matrix.data, indices, matrix.indptr), shape=matrix.shape)
        moved.sort_indices()
        return moved
    source = np.argsort(place)
    for first in range(0, matrix.shape[1], COLUMNS_AT_ONCE):
        part = matrix[:, first : first + COLUMNS_AT_ONCE]
        part[:] = part[source]
    return matrix


def read_tables(
    frames: Mapping[str, Any], on: str, holder: str | None, own_columns: Set[str], unit: Unit
) -> dict[str, KeyedTable]:
    """Every party's key and the columns beside it that are no features, with keys that can be compared.

    `own_columns` are those of the label holder: the label, its offset and its weight.
    """
    texts = frozenset({on} if unit == ROW or isinstance(unit, FeatureColumn) else {on, unit.name})
    tables = {}
    for name, source in frames.items():
        tables[name] = KeyedTable.read(name, source, on, texts | (own_columns if name == holder else set()), texts)
    return _with_comparable_keys(tables, on)


def _with_comparable_keys(tables: Mapping[str, KeyedTable], on: str) -> dict[str, KeyedTable]:
    """The tables with keys of one type: as text, where digits are text at one party and numbers at another."""
    import polars as pl

    types = {name: table.beside[on].dtype for name, table in tables.items()}
    if len(set(types.values())) == 1:
        return dict(tables)
    comparable = False
    # A type that is no key between organisations, either.
    with suppress(InvalidInput):
        comparable = kinds_match({key_kind(table.beside[on]) for table in tables.values()})
    if not comparable:
        found = ", ".join(f"{name}: {of}" for name, of in types.items())
        advice = "convert it to the same type everywhere, and mind leading zeros."
        raise InvalidInput(f"the key {on!r} has different types ({found}); {advice}")
    return {name: replace(table, beside=table.beside.cast({on: pl.String})) for name, table in tables.items()}


def common_keys(tables: Mapping[str, KeyedTable], on: str) -> pl.DataFrame:
    keys = reduce(lambda a, b: a.join(b, on=on, how="inner"), (table.beside.select(on) for table in tables.values()))
    if keys.is_empty():
        ask = "is it the same key, written the same way?"
        raise InvalidInput(f"no key of {on!r} is in all of {list_names(tables)}; {ask}")
    return keys.sort(on)


def labels_of(
    keys: pl.DataFrame, tables: Mapping[str, KeyedTable], label: tuple[str, str], on: str, what: str = "label"
) -> NDArray[Any]:
    """The labels of these rows, or what stands beside them; `label` is (party, column)."""
    holder, column = label
    table = tables[holder]
    if column not in table.names or column == on:
        has = list_names(table.names)
        raise InvalidInput(f"party {holder!r} has no column {column!r} to use as {what}; it has {has}.")
    labels = keys.join(table.beside.select(on, column), on=on, how="left", maintain_order="left")[column]
    if nulls := labels.null_count():
        raise InvalidInput(f"party {holder!r}: the {what} {column!r} is missing in {nulls:,} rows; leave them out.")
    return labels.to_numpy()


def encode_parties(
    tables: Mapping[str, KeyedTable], keys: pl.Series, schemas: Mapping[str, Schema], unit: Unit
) -> dict[str, Party]:
    """The parties with the rows of these keys; a table without a schema gets one read off its data."""
    parties: dict[str, Party] = {}
    start = 0
    for name, table in tables.items():
        declared = schemas.get(name)
        if declared is not None and not declared.declared:
            cells = table.sought(keys, declared) if declared.columns else None
            parties[name] = waiting(name, declared, cells, keys.len(), unit)
            continue
        schema, own = table.encoded(keys, declared)
        positions = np.arange(start, start + schema.width)
        block = Block(own.matrix, positions, unit=unit, owner_notes=own.owner_notes(), beyond=own.clipped)
        parties[name] = Party(name, block, schema.features, OPEN, schema)
        start += schema.width
    return parties


def waiting(name: str, schema: Schema, cells: SoughtCells | None, rows: int, unit: Unit) -> Party:
    """A party whose columns wait for a look: it has cells, and no encoded columns yet."""
    block = Block(np.zeros((rows, 0)), np.zeros(0, np.int64), unit=unit, cells=cells)
    return Party(name, block, (), OPEN, schema)


# ------------------------------------------------------------------------------------------------ people


def cut_surplus(
    keys: pl.DataFrame, tables: Mapping[str, KeyedTable], on: str, unit: Unit
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The keys of rows that stay in the order of the key, and of those that do not."""
    holders = [name for name, table in tables.items() if unit.name in table.names]
    if not holders:
        raise InvalidInput(f"unit names the column {unit.name!r}, which no party has.")
    people = keys.join(tables[holders[0]].beside.select(on, unit.name), on=on, how="left", maintain_order="left")
    if nulls := people[unit.name].null_count():
        empty = f"{nulls:,} rows do not say whom they are about ({unit.name!r} is empty)"
        raise InvalidInput(f"party {holders[0]!r}: {empty}.")
    stays = rank_in_person(people[unit.name]) < unit.rows
    return people.filter(stays), people.filter(~stays)


@dataclass(frozen=True, eq=False)
class Surplus:
    """Rows of people who have more than a unit may, encoded like the others: kept for another order of all rows."""

    keys: pl.Series
    people: pl.Series  # whom rows are about: first those that stayed, then these
    matrices: Mapping[str, Any]  # by party
    labels: NDArray[Any] | None
    cells: Mapping[str, SoughtCells] = field(default_factory=dict)  # by party, where a look comes first

    def digest(self) -> str:
        """A hash of the cells and labels: a private run may learn from any of these rows."""
        labels = np.zeros(0) if self.labels is None else self.labels
        blocks = [Block(m, np.arange(m.shape[1]), labels, cells=self.cells.get(n)) for n, m in self.matrices.items()]
        return " ".join(block.digest() for block in blocks)


def take_rows(first: Any, then: Any, places: NDArray[np.int64]) -> Any:
    """Some rows of a matrix that is followed by another, or by none, in this order."""
    if sparse.issparse(first):
        whole = first if then is None else sparse.vstack([first, then])
        rows = sparse.csc_array(sparse.csr_array(whole)[places])
        rows.sort_indices()
        return rows
    if then is None:
        return first[places]
    here = places < len(first)
    rows = np.empty((places.size, *first.shape[1:]), np.result_type(first, then))
    rows[here] = first[places[here]]
    rows[~here] = then[places[~here] - len(first)]
    return rows


def surplus_of(
    tables: Mapping[str, KeyedTable],
    parties: Mapping[str, Party],
    keys: pl.DataFrame,
    left: pl.DataFrame | None,
    label: tuple[str, str] | None,
    unit: Unit,
) -> Surplus | None:
    """The rows that were left out, for a private run to choose among; None where a schema was read off the data."""
    import polars as pl

    read_off = any(party.schema is not None and party.schema.source == Source.DATA for party in parties.values())
    if left is None or left.is_empty() or read_off:
        return None
    on = keys.columns[0]
    people = pl.concat([keys[unit.name], left[unit.name]])
    open_ones = {name for name, party in parties.items() if party.schema is not None and not party.schema.declared}
    encoded = {n: t.encoded(left[on], parties[n].schema)[1].matrix for n, t in tables.items() if n not in open_ones}
    cells = {n: tables[n].sought(left[on], parties[n].block.cells.schema) for n in open_ones if parties[n].block.cells}
    matrices = {n: encoded[n] if n in encoded else np.zeros((left.height, 0)) for n in tables}
    y = None if label is None else labels_of(left, tables, label, on)
    return Surplus(left[on], people, matrices, y, cells)
