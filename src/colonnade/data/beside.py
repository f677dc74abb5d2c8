"""What may stand beside each label, at the party that holds it: an offset and a weight.

An offset is a known part of a row's score, such as the logarithm of its exposure; a weight says how many rows a row
stands for. What is minimised then: problem/adjusted.py. Both are columns of the label holder: they leave it as the
labels do, by the same release, and no other party could bring them without knowing whose label they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.schema.cells import as_frame
from colonnade.errors import InvalidInput

OF_LABELS = "both stand beside the labels, and leave with them"


@dataclass(frozen=True, eq=False)
class Beside:
    """Of "offset" and "weight", which there are."""

    columns: Mapping[str, str] = field(default_factory=dict)  # of the label holder's table; empty for an array
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)  # empty where parties run elsewhere

    def of(self, rows: NDArray[np.int64]) -> Beside:
        """That of some rows."""
        return Beside(self.columns, {name: array[rows] for name, array in self.values.items()})


NOTHING = Beside()


def check_pairs(
    label: tuple[str, str] | None, offset: tuple[str, str] | None, weight: tuple[str, str] | None
) -> tuple[str | None, dict[str, str]]:
    """Who holds labels, offset and weight, and the columns of the last two; (party, column) were given for each."""
    holder = None if label is None else label[0]
    columns = {}
    for name, pair in (("offset", offset), ("weight", weight)):
        if pair is None:
            continue
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise InvalidInput(f"{name}={pair!r}: give the pair (party, column).")
        holder = pair[0] if holder is None else holder
        if pair[0] != holder:
            what = f"{name} is a column of {pair[0]!r}, and {holder!r} holds the labels: {OF_LABELS}"
            raise InvalidInput(f"{what}. Give {holder!r} the column, matched on the key, or leave {name} out.")
        if label is not None and pair[1] == label[1]:
            raise InvalidInput(f"{name} and label both name the column {pair[1]!r}: give each its own.")
        columns[name] = pair[1]
    return holder, columns


def check_unit(columns: Mapping[str, Any], unit: object) -> None:
    """A unit is for private runs, and these take no offset and no weight."""
    if columns and unit is not None:
        what = f"unit= protects people in private runs, and these take no {' and no '.join(columns)}"
        raise InvalidInput(f"{what}: leave one of them out.")


def beside_arrays(rows: int, by: str, **given: Any) -> Beside:
    """Offset and weight of a table's rows, as arrays."""
    values = {name: np.asarray(array) for name, array in given.items() if array is not None}
    for name, array in values.items():
        if by == "rows":
            raise InvalidInput(f"{name}= stands beside labels that one party holds, and by='rows' splits them up.")
        if array.shape != (rows,):
            raise InvalidInput(f"{name} has shape {array.shape}, and X {rows:,} rows: give one number a row.")
    return Beside(dict.fromkeys(values, ""), values)


def offset_of(data: Any, holder: str, column: str, keys: Any) -> NDArray[Any] | None:
    """The offset of rows to be predicted, in the order of their scores; None where they bring none.

    data  a federation, {party: frame} (in the order of `keys`, if rows are matched by them), or one frame.
    """
    if isinstance(getattr(data, "beside", None), Beside):
        found: NDArray[Any] | None = data.beside.values.get("offset")
        return found
    frame = data.get(holder) if isinstance(data, Mapping) else data
    if frame is None or not column or column not in (own := as_frame(frame)).columns:
        return None
    if keys is None:
        whole: NDArray[Any] = own[column].to_numpy()
        return whole
    on = keys.name
    matched = keys.to_frame().join(
        own.select(on, column).cast({on: keys.dtype}), on=on, how="left", maintain_order="left"
    )
    if missing := matched[column].null_count():
        raise InvalidInput(
            f"{missing:,} of {keys.len():,} rows have no offset in column {column!r} of {holder!r}: add them there, or "
            "leave these rows out."
        )
    values: NDArray[Any] = matched[column].to_numpy()
    return values
