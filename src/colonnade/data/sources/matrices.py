"""Files of numbers with labels into a sparse matrix by columns, without a second copy in memory.

    .svm .svmlight .libsvm .txt (also .gz, .bz2)   "label index:value ..." a line; indices from 1, unless a 0 occurs
    .npz                                           a scipy matrix; `label` is a .npy file (default: y*.npy beside it)

A svmlight file is a stream of chunks that is run twice. The first run counts the entries of each column; the second
puts them where they belong. So the memory is that of the answer and one chunk, and columns come out with their rows in
order. Nothing is unpickled. What cannot be read is refused with its line, and is not quoted.
"""

from __future__ import annotations

import bz2
import gzip
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput

Progress = Callable[[float], None]  # the part that is done, 0 to 1
CHUNK = 1 << 24  # bytes of text at a time
LINE = re.compile(rb"[^\s:]+(?:\s+\d+:[^\s:]+)*")  # a label, then index:value, and nothing else
CHANGED = "the file changed while it was read; read it again when nobody writes to it."
NO_ROW = "the file holds no row; give a file with data."
TEXT = (".svm", ".svmlight", ".libsvm", ".txt")
KINDS = (*TEXT, ".npz")


class Chunk(NamedTuple):
    """Some rows: their entries in row order, their labels, and how much of the file they end at."""

    row: NDArray[np.int64]  # of each entry, counted from the chunk's first
    column: NDArray[np.int64]
    value: NDArray[np.float64]
    labels: NDArray[Any]
    done: float


def kind_of(file: Path) -> str:
    """The suffix that says what is inside, packed or not."""
    return file.with_suffix("").suffix if file.suffix in (".gz", ".bz2") else file.suffix


def file_at(path: str | PathLike[str], kinds: Sequence[str]) -> Path:
    """A file with something in it."""
    file = Path(path)
    if not file.is_file():
        raise InvalidInput(f"{file} is not a file. Give the path of a {', '.join(kinds)} file.")
    if file.stat().st_size == 0:
        raise InvalidInput(f"{file.name} is empty: 0 bytes. Give a file with rows.")
    return file


def read_matrix(file: Path, label: str | None, columns: int | None, tell: Progress) -> tuple[Any, NDArray[Any]]:
    """(X, y) of a svmlight or npz file."""
    file_at(file, KINDS)
    if kind_of(file) == ".npz":
        return _npz(file, label, tell)
    if label is not None:
        raise InvalidInput("a svmlight file has its labels at the start of each line: leave label= out.")
    return _two_runs(lambda: _within(svmlight_chunks(file), columns), tell, (columns or -1) + 1)


# ------------------------------------------------------------------------------------------------ two runs


@njit(cache=True)
def _place(row, column, value, begin, at, indices, data):  # type: ignore[no-untyped-def]  # numba infers the types
    """Puts entries that come in row order behind the ones that their columns have already."""
    for z in range(column.size):
        k = column[z]
        indices[at[k]] = begin + row[z]
        data[at[k]] = value[z]
        at[k] += 1


def _two_runs(chunks: Callable[[], Iterator[Chunk]], tell: Progress, columns: int) -> tuple[Any, NDArray[Any]]:
    counts = np.zeros(max(columns, 1), np.int64)
    rows = 0
    labels = []
    for chunk in chunks():
        if chunk.column.size:
            found = np.bincount(chunk.column, minlength=counts.size)
            if found.size > counts.size:
                counts = np.append(counts, np.zeros(found.size - counts.size, np.int64))
            counts += found
        rows += chunk.labels.size
        labels.append(chunk.labels)
        tell(0.5 * chunk.done)
    if rows == 0:
        raise InvalidInput(NO_ROW)
    # With a public width nothing is numbered 0.
    skip = int(counts[0] == 0 and counts.size > 1)
    ends = np.concatenate([[0], np.cumsum(counts)])
    small = rows < 2**31 and ends[-1] < 2**31
    indices = np.empty(ends[-1], np.int32 if small else np.int64)
    data = np.empty(ends[-1])
    at = ends[:-1].copy()
    begin = 0
    for chunk in chunks():
        more = np.bincount(chunk.column, minlength=counts.size)
        if more.size > counts.size or (at + more > ends[1:]).any():  # the kernel looks at no bounds
            raise InvalidInput(CHANGED)
        _place(chunk.row, chunk.column, chunk.value, begin, at, indices, data)
        begin += chunk.labels.size
        tell(0.5 + 0.5 * chunk.done)
    if begin != rows or not np.array_equal(at, ends[1:]):
        raise InvalidInput(CHANGED)
    indptr = ends[skip:].astype(indices.dtype)
    return sparse.csc_array((data, indices, indptr), shape=(rows, indptr.size - 1)), np.concatenate(labels)


# ------------------------------------------------------------------------------------------------ svmlight


def svmlight_chunks(file: Path) -> Iterator[Chunk]:
    """Lines "label index:value ..."; "#" starts a comment, and qid:... is left out."""
    unpack: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(file.suffix, lambda raw, _: nullcontext(raw))
    size = max(file.stat().st_size, 1)
    begin = 1
    with file.open("rb") as raw, unpack(raw, "rb") as stream:
        while lines := stream.readlines(CHUNK):
            yield _parse_lines(lines, begin, min(raw.tell() / size, 1.0))
            begin += len(lines)


def _within(chunks: Iterator[Chunk], columns: int | None) -> Iterator[Chunk]:
    """The chunks with entries numbered 1 to `columns` only, where that is given."""
    for chunk in chunks:
        if columns is None:
            yield chunk
            continue
        kept = (chunk.column >= 1) & (chunk.column <= columns)
        yield chunk._replace(row=chunk.row[kept], column=chunk.column[kept], value=chunk.value[kept])


def _parse_lines(lines: list[bytes], begin: int, done: float) -> Chunk:
    clean = [(number, line) for number, line in enumerate(map(_without_comment, lines), begin) if line]
    pairs = np.array([line.count(b":") for _, line in clean], np.int64)
    starts = np.concatenate([[0], np.cumsum(1 + 2 * pairs)])
    numbers = _all_numbers(b"\n".join(line for _, line in clean).replace(b":", b" "))
    if starts[-1] != numbers.size or not all(LINE.fullmatch(line) for _, line in clean):
        raise InvalidInput(_first_fault(clean))
    is_label = np.zeros(numbers.size, bool)
    is_label[starts[:-1]] = True
    entries = numbers[~is_label]
    column = entries[0::2]
    value = entries[1::2]
    row = np.repeat(np.arange(pairs.size), pairs)
    rising = (np.diff(column) > 0) | (np.diff(row) > 0)
    if (column < 0).any() or (column != np.floor(column)).any() or not rising.all() or not np.isfinite(numbers).all():
        raise InvalidInput(_first_fault(clean))
    return Chunk(row, column.astype(np.int64), value, numbers[is_label], done)


def _all_numbers(text: bytes) -> NDArray[np.float64]:
    """The numbers of a text; fewer than there are words if one is not a number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy warns where the numbers end
        try:
            return np.fromstring(text, sep=" ") if text else np.zeros(0)
        except ValueError:
            return np.zeros(0)


def _without_comment(line: bytes) -> bytes:
    line = line.split(b"#", 1)[0].strip()
    return b" ".join(word for word in line.split() if not word.startswith(b"qid:")) if b"qid:" in line else line


def _first_fault(clean: list[tuple[int, bytes]]) -> str:
    """Which line cannot be read, and why: looked for one line at a time, after a whole chunk has failed."""
    for number, line in clean:
        label, *rest = line.split()
        if not _is_number(label):
            return f"line {number}: the label is not a number; write 'label index:value index:value ...'."
        last = -1.0
        for place, word in enumerate(rest, 1):
            index, colon, value = word.partition(b":")
            if not colon or not index.isdigit() or not _is_number(value):
                return f"line {number}: entry {place} is not 'index:value' with a whole index and a finite value."
            if int(index) <= last:
                return f"line {number}: the index of entry {place} is not above the one before; indices must rise."
            last = int(index)
    return "a line cannot be read; write 'label index:value index:value ...'."


def _is_number(word: bytes) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


# ------------------------------------------------------------------------------------------------ npz


def _npz(file: Path, label: str | None, tell: Progress) -> tuple[Any, NDArray[Any]]:
    """A matrix that scipy saved, and labels in a .npy file."""
    name = file.with_suffix(".npy").name
    beside = file.with_name(f"y{name[1:]}") if label is None and name[:1] in "Xx" else Path(label or "")
    if not beside.is_file():
        raise InvalidInput(f"no labels for {file.name}: give label=, the path of a .npy file (looked for {beside}).")
    try:
        X = sparse.csc_array(sparse.load_npz(file), dtype=np.float64)
        y = np.array(np.lib.format.open_memmap(beside, mode="r"))
    except Exception as error:  # whatever unpacking and parsing end in
        what = f"{file.name} or {beside.name} cannot be read ({type(error).__name__})"
        raise InvalidInput(f"{what}. Save them with scipy and NumPy.") from None  # its message may quote the file
    if y.shape != (X.shape[0],):
        raise InvalidInput(f"{file.name} has {X.shape[0]:,} rows, {beside.name} the shape {y.shape}; they must match.")
    X.sort_indices()
    tell(1.0)
    return X, y
