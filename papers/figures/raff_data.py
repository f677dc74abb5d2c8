"""The data of Raff et al.: RCV1 and 20 Newsgroups as they can be had, and made-up tables with the shapes of the others.

RCV1 is the library's (23,749 rows with a label, 47,236 columns), not the paper's file; News20 is 20 Newsgroups with words and pairs of
words (18,846 × 1,604,981 against 19,996 × 1,355,191), rows scaled to length 1, with the data set's own two classes. URL, Web and KDDA are made
up: column ranks log-uniform (a text-like tail), row lengths log-normal, labels from a sparse model; rows scaled to memory.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput

PAPER = "Raff et al. 2023"
REAL = {"rcv1": "rcv1", "news20": "news20-bigram"}


MADE_UP = (
    "RCV1 and News20 are not the paper's files; URL, Web and KDDA cannot be had: made-up tables of their widths, with the rows that fit in memory "
    "(400,000, 35,000 and 1,500,000 of 2.4 million, 350,000 and 8.4 million)."
)


class Shape(NamedTuple):
    rows: int
    columns: int
    per_row: int
    head: float  # rank at which the popularity of columns starts to fall
    dense: int = 0  # full columns


SHAPES = {
    "url": Shape(400_000, 3_231_961, 48, 100.0, dense=67),
    "web": Shape(35_000, 16_609_143, 3_728, 4_000.0),
    "kdda": Shape(1_500_000, 20_216_830, 36, 100.0),
}


class Data(NamedTuple):
    """The same rows by columns and by rows; labels are −1 and 1, features within ±1."""

    csc: Any
    csr: Any
    y: NDArray[np.float64]

    @property
    def columns(self) -> tuple[Any, Any, Any]:
        return self.csc.data, self.csc.indices, self.csc.indptr

    @property
    def rows(self) -> tuple[Any, Any, Any]:
        return self.csr.data, self.csr.indices, self.csr.indptr


def load(name: str) -> Data:
    """A data set by the paper's name for it."""
    return real(REAL[name]) if name in REAL else made_up(SHAPES[name])


def real(name: str) -> Data:
    from colonnade.data.readers import read

    folder = Path(os.environ.get("COLONNADE_DATA", "")) / name
    if not (folder / "X.npz").is_file():
        raise InvalidInput(f"{name} is not there: set COLONNADE_DATA to the folder that holds {name}/X.npz.")
    X, y = read(folder / "X.npz")
    rows = sparse.csr_array(X)[y != 0]
    length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows.data /= np.repeat(np.where(length > 0, length, 1.0), np.diff(rows.indptr))
    return Data(rows.tocsc(), rows, np.where(y[y != 0] > 0, 1.0, -1.0))


def made_up(shape: Shape, seed: int = 1) -> Data:
    rng = np.random.default_rng(seed)
    length = np.clip(shape.per_row * np.exp(0.5 * rng.standard_normal(shape.rows) - 0.125), 3, 8 * shape.per_row)
    starts = np.concatenate([[0], np.cumsum(length.astype(np.int64))])
    spread = math.log(shape.columns / shape.head + 1.0)
    rank = (shape.head * np.expm1(spread * rng.random(starts[-1], dtype=np.float32))).astype(np.int64)
    rank = np.minimum(rank, shape.columns - 1).astype(np.int32)
    place = rng.permutation(shape.columns).astype(np.int32)
    X = sparse.csr_array((np.ones(rank.size, np.float32), place[rank], starts), shape=(shape.rows, shape.columns))
    X.sum_duplicates()
    X.data[:] = 1.0
    if shape.dense:
        full = sparse.csr_array(rng.random((shape.rows, shape.dense), dtype=np.float32))
        X = sparse.hstack([full, X[:, shape.dense :]], format="csr")
    else:
        X.data /= np.repeat(np.sqrt(np.diff(X.indptr)), np.diff(X.indptr)).astype(np.float32)
    truth = np.zeros(shape.columns)
    truth[place[rng.integers(0, min(20_000, shape.columns), 200)]] = 3.0 * rng.standard_normal(200)
    truth[: shape.dense] = 2.0 * rng.standard_normal(shape.dense)
    margin = X @ truth
    margin = 4.0 * (margin - np.median(margin)) / (margin.std() + 1e-12)
    y = np.where(rng.random(shape.rows) < 1.0 / (1.0 + np.exp(-margin)), 1.0, -1.0)
    return Data(X.tocsc(), X, y)
