"""One table as a federation: its columns shared out between parties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from colonnade.data.federation import Federation
from colonnade.data.schema.cells import as_frame
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput

ROW_KEY = "row number"  # the key of one table whose rows need no matching
LABEL = "label of the rows"  # its column, where a frame is shared out


def table_federation(
    X: Any,
    y: Any,
    parties: int | Mapping[str, Any],
    schemas: Mapping[str, Schema] | None = None,
    label: str | None = None,
) -> Federation:
    """One table between parties: by places or names of columns, or as their schemas say."""
    if schemas is None:
        return Federation.split(X, y, parties, label=label)
    import polars as pl

    frame, holder = as_frame(X), label or "labels"
    frames = {}
    for party, schema in schemas.items():
        names = [column.name for column in schema.columns]
        if absent := [name for name in names if name not in frame.columns]:
            raise InvalidInput(f"the schema of {party!r} names {absent[0]!r}, which X does not have; add that column.")
        frames[party] = frame.select(names).with_row_index(ROW_KEY)
    own = frames.get(holder, pl.DataFrame({ROW_KEY: pl.Series(range(frame.height), dtype=pl.UInt32)}))
    frames[holder] = own.with_columns(pl.Series(LABEL, np.asarray(y)))
    return Federation.from_frames(frames, ROW_KEY, (holder, LABEL), schemas=schemas)
