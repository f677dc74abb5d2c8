"""Files into a sparse matrix by columns and a vector of labels, without a second copy in memory.

Every format is a stream of chunks that can be run twice. The first run counts the entries of each column; the second
puts them where they belong. So the memory is that of the answer and one chunk, and columns come out with their rows in
order.

    .svm .svmlight .libsvm .txt (also .gz, .bz2)   "label index:value ..." a line; indices from 1, unless a 0 occurs
    .csv .parquet                                  numbers; `label` names the column of labels (default: the last)
    .npz                                           a scipy matrix; `label` is a .npy file (default: y*.npy beside it)

Nothing is unpickled. What cannot be read is refused with its line, or its row and column, and is not quoted.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput, unquoted

Progress = Callable[[float], None]  # the part that is done, 0 to 1
CHUNK = 1 << 24  # bytes of text at a time
LINE = re.compile(rb"[^\s:]+(?:\s+\d+:[^\s:]+)*")  # a label, then index:value, and nothing else
CHANGED = "the file changed while it was read; read it again when nobody writes to it."
TEXT = (".svm", ".svmlight", ".libsvm", ".txt")
TABLES = (".csv", ".parquet")


class Chunk(NamedTuple):
    """Some rows: their entries in row order, their labels, and how much of the file they end at."""

    row: NDArray[np.int64]  # of each entry, counted from the chunk's first
    column: NDArray[np.int64]
    value: NDArray[np.float64]
    labels: NDArray[Any]
    done: float


Chunks = Callable[[], Iterator[Chunk]]


@unquoted()
def read(
    path: str | PathLike[str],
    label: str | None = None,
    *,
    columns: int | None = None,
    progress: Progress | None = None,
) -> tuple[Any, NDArray[Any]]:
    """(X, y): a CSC matrix of float64, and the labels.

    columns  for svmlight files, the public number of columns, counted from 1; entries beyond it are left out. Without
             it the largest number in the file decides, which tells about the row that holds it.
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidInput(f"{file} is not a file. Give the path of a {', '.join((*TEXT, *TABLES, '.npz'))} file.")
    kind = kind_of(file)
    tell = progress or (lambda _: None)
    if file.stat().st_size == 0:
        raise InvalidInput(f"{file.name} is empty: 0 bytes. Give a file with rows.")
    if kind in TEXT:
        if label is not None:
            raise InvalidInput("a svmlight file has its labels at the start of each line: leave label= out.")
        return _assemble(lambda: _within(svmlight_chunks(file), columns), tell, 1, (columns or -1) + 1)
    if kind in TABLES:
        chosen, features = label_and_features(file, label)
        return _assemble(lambda: _table_chunks(file, features, chosen), tell, 0, len(features))
    if kind == ".npz":
        return _matrix(file, label, tell)
    raise InvalidInput(
        f"{file.name}: no reader for {kind or 'a file without a suffix'}; there are {TEXT + TABLES + ('.npz',)}"
    )


def kind_of(file: Path) -> str:
    """The suffix that says what is inside, packed or not."""
    return file.with_suffix("").suffix if file.suffix in (".gz", ".bz2") else file.suffix


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
    rows, columns = X.shape
    return FileFit(estimator.fit(X, y), rows, columns, int(X.nnz))


# ------------------------------------------------------------------------------------------------ two runs


@njit(cache=True)
def _place(row, column, value, begin, at, indices, data):  # type: ignore[no-untyped-def]  # numba infers the types
    """Puts entries that come in row order behind the ones that their columns have already."""
    for z in range(column.size):
        k = column[z]
        indices[at[k]] = begin + row[z]
        data[at[k]] = value[z]
        at[k] += 1


def _assemble(chunks: Chunks, tell: Progress, first: int, columns: int = 0) -> tuple[Any, NDArray[Any]]:
    counts, rows, labels = np.zeros(max(columns, 1), np.int64), 0, []
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
        raise InvalidInput("the file holds no row; give a file with data.")
    skip = first if counts[0] == 0 and first < counts.size else 0  # with a public width nothing is numbered 0
    ends = np.concatenate([[0], np.cumsum(counts)])
    small = rows < 2**31 and ends[-1] < 2**31
    indices, data = np.empty(ends[-1], np.int32 if small else np.int64), np.empty(ends[-1])
    at, begin = ends[:-1].copy(), 0
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
    opened: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(file.suffix, lambda raw, _: nullcontext(raw))
    size, begin = max(file.stat().st_size, 1), 1
    with file.open("rb") as raw, opened(raw, "rb") as stream:
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
    column, value = entries[0::2], entries[1::2]
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


# ------------------------------------------------------------------------------------------------ tables


def label_and_features(file: Path, label: str | None) -> tuple[str, list[str]]:
    """The column of labels (None: the last), and the names of all others."""
    names = _names(file) or [""]
    chosen = names[-1] if label is None else label
    if chosen not in names or len(set(names)) < len(names):
        raise InvalidInput(
            f"{file.name} has no column {chosen!r}, or two columns of one name. It has {len(names):,} columns: "
            f"{', '.join(names[:8])}{', ...' if len(names) > 8 else ''}."
        )
    features = [name for name in names if name != chosen]
    if not features:
        raise InvalidInput(f"{file.name} has a column of labels and no other; add the features.")
    return chosen, features


def _names(file: Path) -> list[str]:
    if file.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        try:
            return [str(name) for name in parquet.ParquetFile(file).schema_arrow.names]
        except pa.ArrowException as error:
            raise InvalidInput(
                f"{file.name} cannot be read as Parquet ({type(error).__name__}). Is it whole? Write it again."
            ) from None
    try:
        with file.open(newline="", encoding="utf-8-sig") as text:
            return next(csv.reader(text), [])
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{file.name} is not UTF-8 (in its first lines). Save it as UTF-8, for example: iconv -f latin1 -t utf-8 "
            "old > new"
        ) from None


def _batches(file: Path, features: list[str]) -> Iterator[tuple[Any, float]]:
    import pyarrow as pa

    if file.suffix == ".parquet":
        from pyarrow import parquet

        whole = parquet.ParquetFile(file)
        done, total = 0, max(whole.metadata.num_rows, 1)
        for batch in whole.iter_batches(batch_size=max(CHUNK // (8 * (len(features) + 1)), 1)):
            done += batch.num_rows
            yield batch, done / total
        return
    from pyarrow import csv as arrow_csv

    options = arrow_csv.ConvertOptions(column_types=dict.fromkeys(features, pa.float64()))
    with file.open("rb") as raw:
        size = max(file.stat().st_size, 1)
        single = arrow_csv.ReadOptions(block_size=CHUNK, use_threads=False)  # errors then name the row
        try:
            for batch in arrow_csv.open_csv(raw, read_options=single, convert_options=options):
                yield batch, min(raw.tell() / size, 1.0) if not raw.closed else 1.0
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                f"{file.name}: {_csv_fault(str(error))}; every column but the labels must hold numbers."
            ) from None


def _csv_fault(text: str) -> str:
    """Where pyarrow found a fault, without the cell that it quotes."""
    column, row = (re.search(rf"{what} #(\d+)", text) for what in ("column", "Row"))
    if column is None:
        return f"a line has another number of cells than the first{'' if row is None else f' (line {row[1]})'}"
    return f"column {int(column[1]) + 1} has a cell that is no number{'' if row is None else f' (line {row[1]})'}"


def _table_chunks(file: Path, features: list[str], label: str) -> Iterator[Chunk]:
    begin = 0
    for batch, done in _batches(file, features):
        dense = np.column_stack([finite_numbers(batch.column(name), name, file, begin) for name in features])
        row, column = np.nonzero(dense)
        labels = batch.column(label)
        if labels.null_count:
            raise InvalidInput(_missing(file, begin, labels, label))
        if str(labels.type) == "binary":  # what Arrow makes of texts that are not UTF-8
            raise InvalidInput(f"{file.name}: the label {label!r} is not UTF-8 text; save the file as UTF-8.")
        yield Chunk(row, column, dense[row, column], labels.to_numpy(zero_copy_only=False), done)
        begin += batch.num_rows


def finite_numbers(column: Any, name: str, file: Path, begin: int) -> NDArray[np.float64]:
    import pyarrow as pa

    if column.null_count:
        raise InvalidInput(_missing(file, begin, column, name))
    try:
        values: NDArray[np.float64] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidInput(f"{file.name}: column {name!r} does not hold numbers ({column.type}); encode it.") from None
    if not np.isfinite(values).all():
        first = begin + int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidInput(f"{file.name}: column {name!r} is not finite in {_place_of(file, first)}; fill or drop it.")
    return values


def _missing(file: Path, begin: int, column: Any, name: str) -> str:
    first = begin + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
    return f"{file.name}: column {name!r} is empty in {_place_of(file, first)}; fill or drop it."


def _place_of(file: Path, row: int) -> str:
    return f"line {row + 2}" if file.suffix == ".csv" else f"row {row + 1}"


# ------------------------------------------------------------------------------------------------ npz


def _matrix(file: Path, label: str | None, tell: Progress) -> tuple[Any, NDArray[Any]]:
    """A matrix that scipy saved, and labels in a .npy file."""
    name = file.with_suffix(".npy").name
    beside = file.with_name(f"y{name[1:]}") if label is None and name[:1] in "Xx" else Path(label or "")
    if not beside.is_file():
        raise InvalidInput(f"no labels for {file.name}: give label=, the path of a .npy file (looked for {beside}).")
    try:
        X = sparse.csc_array(sparse.load_npz(file), dtype=np.float64)
        y = np.array(np.lib.format.open_memmap(beside, mode="r"))
    except (ValueError, KeyError, OSError) as error:
        raise InvalidInput(
            f"{file.name} or {beside.name} cannot be read ({type(error).__name__}). Save them with scipy and NumPy."
        ) from None  # its message may quote what stands in the file
    if y.shape != (X.shape[0],):
        raise InvalidInput(
            f"{file.name} has {X.shape[0]:,} rows and {beside.name} the shape {y.shape}; they must match."
        )
    X.sort_indices()
    tell(1.0)
    return X, y
