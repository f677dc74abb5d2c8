"""One owner's file, its columns spread over a cluster: every party reads its own where it runs.

    fed = co.Federation.shards("clicks.svm", parties=8)
    co.fit(fed, problem, method=co.DistributedFrankWolfe(), engine=co.Ray("auto"))

Whoever makes the federation reads the labels and the size of the table, nothing else. A party's block is a recipe: a
path and a range of columns. Only the recipe travels; the columns are read from the file, under the same path, by the
process that first computes with them.

    .parquet                                       numbers; of the file only the party's columns are read
    .svm .svmlight .libsvm .txt (also .gz, .bz2)   read from end to end; only entries of the party's columns are kept
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.federation import Federation
from colonnade.data.party import LABELS, OPEN, Alignment, LazyNames, Party
from colonnade.data.readers import finite_numbers, label_and_features, without_gaps
from colonnade.data.sources.files import Columnar
from colonnade.data.sources.matrices import CHANGED, NO_ROW, TEXT, file_at, kind_of, svmlight_chunks
from colonnade.data.split_table import labels_only
from colonnade.errors import InvalidInput
from colonnade.privacy.block import LARGEST, ROW, Block


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
        del self.__dict__["matrix"]  # from now on it is read when it is asked for
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
        width, first = len(names), 0
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
    state, holders = file.stat(), {}
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
    out, begin = np.empty((recipe.rows, len(recipe.names))), 0
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
    labels, least, most = [], 1, 0
    for chunk in svmlight_chunks(file):
        labels.append(chunk.labels)
        least = min(least, int(chunk.column.min(initial=1)))
        most = max(most, int(chunk.column.max(initial=0)))
    y = np.concatenate(labels) if labels else np.zeros(0)
    if not y.size:
        raise InvalidInput(NO_ROW)
    return (most + 1 - least, least, y) if columns is None else (columns, 1, y)


def _sparse(file: Path, recipe: Recipe) -> Any:
    begin, low, high = 0, recipe.first + recipe.start, recipe.first + recipe.stop
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
