"""Files with labels, of one owner: (X, y) from whatever holds numbers, an estimator fitted to it, or its columns spread
over a cluster, where every party reads its own.

    .csv .parquet .arrow .feather .ipc   numbers; `label` names the column of labels (default: the last)
    .svm ..., .npz                       as colonnade.data.sources.matrices reads them

What cannot be read is refused with its line, or its row and column, and is not quoted.

    fed = co.Federation.shards("clicks.svm", parties=8)
    co.fit(fed, problem, method=co.DistributedFrankWolfe(), engine=co.Ray("auto"))

Whoever makes the federation reads the labels and the size of the table, nothing else. A party's block is a recipe: a
path and a range of columns. Only the recipe travels; the columns are read from the file, under the same path, by the
process that first computes with them. Of a Parquet file only the party's columns are read; a svmlight file is read from
end to end, and only entries of the party's columns are kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.federation import Federation
from colonnade.data.party import LABELS, OPEN, Alignment, LazyNames, Party
from colonnade.data.schema.cells import Blocks, nonzeros
from colonnade.data.schema.table import Schema
from colonnade.data.sources import Table, matrices, table_at
from colonnade.data.sources.files import BLOCK, Columnar, block_rows, choose_columns
from colonnade.data.sources.matrices import CHANGED, NO_ROW, TEXT, Progress, file_at, kind_of, svmlight_chunks
from colonnade.data.split_table import labels_only
from colonnade.errors import InvalidInput, unquoted
from colonnade.kernels.arrays import Floats
from colonnade.privacy.block import LARGEST, ROW, Block

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
    file = Path(path)
    tell = progress or (lambda _: None)
    if kind_of(file) in matrices.KINDS:
        return matrices.read_matrix(file, label, columns, tell)
    table = table_at(file)
    chosen, features = label_and_features(table, label)
    blocks = Blocks(len(features))
    labels = []
    parts = _expected_blocks(file, len(features) + 1)
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


# ------------------------------------------------------------------------------------------------ shards


@dataclass(frozen=True, slots=True)
class Recipe:
    """Some columns of a file: enough to read them anywhere."""

    path: str
    size: int  # of the file, in bytes
    changed: int  # when, in nanoseconds
    rows: int
    start: int  # the range of columns, as places in the table
    stop: int
    names: tuple[str, ...] = ()  # of these columns, in a Parquet file
    first: int = 1  # the number of the first column, in a svmlight file

    def matrix(self) -> Any:
        """The columns: C-ordered from Parquet, CSC from svmlight."""
        file = Path(self.path)
        if not file.is_file():
            advice = "Put it under the same path on every machine of the cluster, or say where it is"
            raise InvalidInput(f"{file} is not on this machine. {advice}: co.Ray(placement={{party: address}}).")
        if file.stat().st_size != self.size:
            sizes = f"{file.stat().st_size:,} bytes here and had {self.size:,} when the federation was made"
            raise InvalidInput(f"{file.name} has {sizes}. Give every machine the same file, and make it again.")
        found = _dense(file, self) if self.names else _sparse(file, self)
        if found.shape != (self.rows, self.stop - self.start):
            raise InvalidInput(CHANGED)
        return found


class Shard(Block):  # a kind of Block, so that programs compute with it as with any other
    """A block that stays in its file until it is used, and travels as a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(None, np.arange(recipe.start, recipe.stop))
        # From now on it is read when it is asked for.
        del self.__dict__["matrix"]
        self.__dict__["recipe"] = recipe

    recipe: Recipe

    @cached_property
    def matrix(self) -> Any:
        return self.recipe.matrix()

    @property
    def rows(self) -> int:
        return self.recipe.rows

    @property
    def columns(self) -> int:
        return self.recipe.stop - self.recipe.start

    def clipped(self, bound: float = LARGEST) -> Block:
        return Block(self.matrix, self.positions, self.labels, self.unit).clipped(bound)

    def digest(self) -> str:
        """A hash of where the columns are and of the file's size and date: its content is not read for it."""
        return hashlib.blake2b(repr(self.recipe).encode(), digest_size=16).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, (self.recipe,)


def shards(
    path: str | PathLike[str], *, label: str | None = None, parties: int = 8, columns: int | None = None
) -> Federation:
    """The columns of a file in so many parts of nearly equal size, and the labels at a party of their own, "labels".

    label    for Parquet, the column of labels (default: the last); a svmlight file has them at the start of its lines.
    columns  for svmlight, the public number of columns, counted from 1; entries beyond it are left out. Without it the
             largest number in the file decides, which tells about the row that holds it.
    """
    file = file_at(Path(path).resolve(), (".parquet", *TEXT))
    if (kind := kind_of(file)) == ".parquet":
        if columns is not None:
            raise InvalidInput("a Parquet file says itself how many columns it has: leave columns= out.")
        names, y = _parquet(file, label)
        width = len(names)
        first = 0
    elif kind in TEXT:
        if label is not None:
            raise InvalidInput("a svmlight file has its labels at the start of each line: leave label= out.")
        names = ()
        width, first, y = _svmlight(file, columns)
    else:
        raise InvalidInput(f"{file.name}: shards are read from .parquet and svmlight files, {TEXT}.")
    if not (isinstance(parties, int | np.integer) and 1 <= parties <= width):
        raise InvalidInput(f"parties={parties!r}: give a whole number from 1 to the {width:,} columns.")
    ends = [0, *np.cumsum([part.size for part in np.array_split(np.arange(width), int(parties))]).tolist()]
    state = file.stat()
    holders = {}
    whole = (str(file), state.st_size, state.st_mtime_ns, y.size)
    for k, (start, stop) in enumerate(pairwise(ends)):
        recipe = Recipe(*whole, start, stop, tuple(names[start:stop]), first)
        features = recipe.names or LazyNames(None, range(start, stop))
        holders[f"party{k}"] = Party(f"party{k}", Shard(recipe), features, OPEN)
    holders[LABELS] = labels_only(y.size, ROW)
    return Federation(holders, LABELS, Alignment(dict.fromkeys(holders, y.size), y.size), unit=ROW, _y=y)


# ------------------------------------------------------------------------------------------------ Parquet


def _parquet(file: Path, label: str | None) -> tuple[tuple[str, ...], NDArray[Any]]:
    """The names of the features, and the labels: the one column that is read here."""
    table = Columnar(file, "Parquet")
    chosen, features = label_and_features(table, label)
    labels = without_gaps(table.frame([chosen])[chosen], file, 0)
    if labels.is_empty():
        raise InvalidInput(NO_ROW)
    return tuple(features), labels.to_numpy()


def _dense(file: Path, recipe: Recipe) -> NDArray[np.float64]:
    out = np.empty((recipe.rows, len(recipe.names)))
    begin = 0
    for block in Columnar(file, "Parquet").blocks(recipe.names):
        end = begin + block.height
        if end > recipe.rows:
            raise InvalidInput(CHANGED)
        for j, name in enumerate(recipe.names):
            out[begin:end, j] = finite_numbers(block[name], file, begin)
        begin = end
    if begin != recipe.rows:
        raise InvalidInput(CHANGED)
    return out


# ------------------------------------------------------------------------------------------------ svmlight


def _svmlight(file: Path, columns: int | None) -> tuple[int, int, NDArray[Any]]:
    """How many columns there are, the number of the first one, and the labels."""
    labels = []
    least = 1
    most = 0
    for chunk in svmlight_chunks(file):
        labels.append(chunk.labels)
        least = min(least, int(chunk.column.min(initial=1)))
        most = max(most, int(chunk.column.max(initial=0)))
    y = np.concatenate(labels) if labels else np.zeros(0)
    if not y.size:
        raise InvalidInput(NO_ROW)
    return (most + 1 - least, least, y) if columns is None else (columns, 1, y)


def _sparse(file: Path, recipe: Recipe) -> Any:
    begin = 0
    low = recipe.first + recipe.start
    high = recipe.first + recipe.stop
    entries: list[tuple[NDArray[Any], ...]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for chunk in svmlight_chunks(file):
        own = (low <= chunk.column) & (chunk.column < high)
        entries.append((begin + chunk.row[own], chunk.column[own] - low, chunk.value[own]))
        begin += chunk.labels.size
    if begin != recipe.rows:
        raise InvalidInput(CHANGED)
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    matrix = sparse.csc_array((value, (row, column)), shape=(begin, high - low))
    matrix.sort_indices()
    return matrix
