"""Rows that a model is to score: read where they lie, in the columns that it knows, with their offset.

fit.predict({"clinic": "new_clinic.csv", "lab": frame})    one table a party, matched by the fit's key
fit.predict("new.parquet")                                 all columns side by side
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from colonnade.data.labels import offset_of
from colonnade.data.schema.cells import as_frame
from colonnade.data.schema.column import Column
from colonnade.data.schema.table import Schema
from colonnade.data.sources import Table, table_at
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem.adjusted import check_offset

if TYPE_CHECKING:
    from colonnade.runs.result import Fit

NO_OFFSET = (
    "this model was fitted with an offset, and the rows bring none ({place}): it was taken as 0 in every row, so "
    "counts are those of one unit of exposure."
)


def read_rows(fit: Fit, data: Any) -> Any:
    """A federation or frames as they are, and whatever is the place of a table as a frame."""
    if isinstance(data, Mapping):
        return {party: _read(fit, one, (party,)) for party, one in data.items()}
    return _read(fit, data, tuple(fit.features))


def _read(fit: Fit, source: Any, parties: Sequence[str]) -> Any:
    """A place's table, in the columns that the model has of these parties."""
    if not isinstance(source, str | PathLike | Table):
        return source
    table = source if isinstance(source, Table) else table_at(source)
    schema = together(found for party in parties if (found := fit.schemas.get(party)) is not None)
    beside = [fit.key, *(fit.beside.values() if fit.label in parties else ())]
    every = {column.name for party in parties for column in _columns(fit, party)}
    there = table.names()
    names = [name for name in there if name in every or name in beside]
    if not names:
        what = f"{table.shown} has no column of the model's {', '.join(parties)}"
        raise InvalidInput(f"{what}. Its first columns are {', '.join(there[:8])}.")
    return table.frame(names, schema, {fit.key} if fit.key is not None else set())


def _columns(fit: Fit, party: str) -> Sequence[Column]:
    schema = fit.schemas.get(party)
    return () if schema is None else schema.columns


def together(schemas: Iterable[Schema]) -> Schema:
    """What several schemas say of one table's columns; of a column that two of them declare in two ways, nothing."""
    kinds: dict[str, list[Column]] = {}
    for schema in schemas:
        for column in schema.columns:
            kinds.setdefault(column.name, []).append(column)
    return Schema(tuple(found[0] for found in kinds.values() if len({type(one) for one in found}) == 1))


def shifted_scores(fit: Fit, data: Any, without: Sequence[str] = ()) -> Floats:
    """Scores plus the offset, where the model has one and the rows bring it."""
    rows = read_rows(fit, data)
    scores = fit.scores(rows, without)
    if "offset" not in fit.beside:
        return scores
    column = fit.beside["offset"]
    keys = None
    if isinstance(rows, Mapping) and fit.key is not None:  # in the order of the first frame
        keys = as_frame(rows[next(party for party in rows if party in fit.coefficients)])[fit.key]
    offset = offset_of(rows, fit.label, column, keys)
    if offset is None:
        place = f"column {column!r} of {fit.label!r}" if column else "Federation.split(..., offset=...)"
        warnings.warn(NO_OFFSET.format(place=place), UserWarning, stacklevel=3)
        return scores
    return scores + check_offset(offset)
