"""Files with labels, for one data holder: (X, y) from whatever holds numbers, and an estimator fitted to it.

    .csv .parquet .arrow .feather .ipc   numbers; `label` names the column of labels (default: the last)
    .svm ..., .npz                       as colonnade.data.sources.matrices reads them

What cannot be read is refused with its line, or its row and column, and is not quoted.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.schema.cells import Blocks, nonzeros
from colonnade.data.schema.table import Schema
from colonnade.data.sources import Table, table_at
from colonnade.data.sources.files import BLOCK, block_rows, choose_columns
from colonnade.data.sources.matrices import KINDS, NO_ROW, TEXT, Progress, kind_of, read_matrix
from colonnade.errors import InvalidInput, unquoted
from colonnade.kernels.arrays import Floats

if TYPE_CHECKING:
    import polars as pl


@unquoted()
def read(
    path: str | PathLike[str], label: str | None = None, *, columns: int | None = None, progress: Progress | None = None
) -> tuple[Any, NDArray[Any]]:
    """(X, y): a CSC matrix of float64, and the labels.

    columns  for svmlight files, the public number of columns, counted from 1; entries beyond it are left out. Without
             it the largest number in the file decides, which tells about the row that holds it.
    """
    file, tell = Path(path), progress or (lambda _: None)
    if kind_of(file) in KINDS:
        return read_matrix(file, label, columns, tell)
    table = table_at(file)
    chosen, features = label_and_features(table, label)
    blocks, labels, parts = Blocks(len(features)), [], _expected_blocks(file, len(features) + 1)
    for number, block in enumerate(table.blocks([*features, chosen], Schema.raw(features)), 1):
        numbers = [nonzeros(finite_numbers(block[name], file, blocks.rows)) for name in features]
        labels.append(without_gaps(block[chosen], file, blocks.rows).to_numpy())
        blocks.add(numbers, block.height)
        tell(min(number / parts, 1.0))
    if not blocks.rows:
        raise InvalidInput(NO_ROW)
    tell(1.0)
    return sparse.csc_array(blocks.together(dense=False)), np.concatenate(labels)


@dataclass(frozen=True)
class FileFit:
    """An estimator fitted to a file, and the size of what was in it."""

    estimator: Any
    rows: int
    columns: int
    nonzeros: int

    def table(self) -> dict[str, Any]:
        """What a command line prints, by name. A private fit shows nothing that was not released."""
        model = self.estimator
        figures: dict[str, Any] = {"rows": self.rows, "columns": self.columns}
        if model.privacy_ is None:
            last = model.history_[-1]
            figures |= {"stored entries": self.nonzeros, "objective": last["objective"], "gap": model.gap_}
        else:
            figures |= {"privacy": str(model.privacy_)}
        return figures | {"columns used": int(np.count_nonzero(np.any(np.atleast_2d(model.coef_) != 0.0, axis=0)))}


def fit_file(
    path: str | PathLike[str],
    estimator: Any,
    *,
    label: str | None = None,
    columns: int | None = None,
    progress: Progress | None = None,
) -> FileFit:
    """Read a file and fit an estimator, `SparseClassifier` or `SparseRegressor`, to it."""
    if estimator.epsilon is not None and columns is None and kind_of(Path(path)) in TEXT:
        raise InvalidInput(
            "a private fit of a svmlight file needs columns=, the number of columns from public knowledge (--columns "
            "on the command line): the largest number in the file tells about the row that holds it."
        )
    X, y = read(path, label, columns=columns, progress=progress)
    return FileFit(estimator.fit(X, y), X.shape[0], X.shape[1], int(X.nnz))


def label_and_features(table: Table, label: str | None) -> tuple[str, list[str]]:
    """The column of labels (None: the last), and the names of all others."""
    names = table.names() or [""]
    (chosen,) = choose_columns(table.shown, names, [names[-1] if label is None else label])
    features = [name for name in names if name != chosen]
    if not features:
        raise InvalidInput(f"{table.shown} has a column of labels and no other; add the features.")
    return chosen, features


def finite_numbers(values: pl.Series, file: Path, begin: int) -> Floats:
    """The numbers of a block that begins at this row of a file."""
    import polars as pl

    numbers = without_gaps(values, file, begin)
    if values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.String):
        numbers = values.cast(pl.Float64, strict=False)
    if numbers.dtype != pl.Float64 or numbers.null_count():
        raise InvalidInput(f"{file.name}: column {values.name!r} does not hold numbers ({values.dtype}); encode it.")
    _refuse_first(~numbers.is_finite(), "not finite", file, begin)
    return numbers.to_numpy()


def without_gaps(values: pl.Series, file: Path, begin: int) -> pl.Series:
    _refuse_first(values.is_null(), "empty", file, begin)
    return values


def _refuse_first(wrong: pl.Series, how: str, file: Path, begin: int) -> None:
    if wrong.any():
        row = begin + int(wrong.arg_max() or 0)
        place = f"line {row + 2}" if file.suffix == ".csv" else f"row {row + 1}"
        raise InvalidInput(f"{file.name}: column {wrong.name!r} is {how} in {place}; fill or drop it.")


def _expected_blocks(file: Path, columns: int) -> float:
    """About how many blocks a table comes in."""
    import polars as pl

    if file.suffix == ".parquet":
        return float(pl.scan_parquet(file).select(pl.len()).collect().item()) / block_rows(columns)
    return file.stat().st_size / BLOCK
