"""A party's rows as whole numbers within public bounds: what integer releases are computed from.

Row r becomes round((a_r - centre)·scale / step) over the columns that are kept, each entry cut to its bound, and the
whole row shortened (toward zero) if the sum of its squares is over `norm2` (kernels/ring.py). All of it is done row by
row from public figures, and the last check is in integers: whatever the data, no row is longer than √norm2, so a
sensitivity built on it is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.ring import whole_rows
from colonnade.model.job import Job
from colonnade.privacy.block import LARGEST, Block, clean_cells


@dataclass(frozen=True)
class Grid:
    """How one party's rows become whole numbers: all of it public."""

    keep: NDArray[np.int64]  # places among the party's columns
    centre: Floats
    scale: Floats
    low: Integers  # in steps, after centring and scaling
    high: Integers
    norm2: int  # the most that the squares of a row may sum to, in steps
    step: float
    unit: Integers  # the steps that a 1 in each column stands for; entries and their bounds are in units
    toward: NDArray[np.bool_] | None = None  # zero: how entries of a curve are rounded; None, others: to the nearest

    @property
    def cut(self) -> NDArray[np.bool_]:
        """Whose entries are cut toward zero."""
        return np.zeros(self.keep.size, bool) if self.toward is None else self.toward


class IntegerRows:
    """The rows of a block on a grid, a few at a time."""

    def __init__(self, block: Block, grid: Grid) -> None:
        self.grid, self.count, self.columns = grid, block.rows, int(grid.keep.size)
        # Rows are read in blocks: a compressed matrix is cut and turned once, so that a slice of rows is cheap.
        self._sparse = sparse.issparse(block.matrix)
        self._matrix = block.matrix
        if self._sparse:
            with np.errstate(over="ignore", invalid="ignore"):  # as in `clean_cells`
                self._matrix = sparse.csr_array(block.matrix[:, grid.keep], dtype=np.float64, copy=True)
                self._matrix.sum_duplicates()  # what is stored twice at one place is one entry
            self._matrix.data = clean_cells(self._matrix.data)
        self.shortened = 0  # rows that were over the bound: for this party's operator, never for anybody else

    def rows(self, first: int, count: int, *beside: Integers) -> Integers:
        """Rows `first` to `first + count`, as integers; `beside` has the same rows of columns behind them."""
        grid = self.grid
        check_room(self.columns, grid.norm2)
        part: Any = self._matrix[first : first + count]
        with np.errstate(over="ignore", invalid="ignore"):  # as in `clean_cells`
            dense = np.asarray(part.toarray() if self._sparse else part, np.float64)
        keep = np.arange(self.columns) if self._sparse else grid.keep  # a sparse table was cut to them before
        reach = math.isqrt(grid.norm2)
        factor = grid.scale / grid.step / grid.unit
        whole = np.empty((len(dense), self.columns + len(beside)), np.int32 if reach < 1 << 31 else np.int64)
        for place, column in enumerate(beside, self.columns):
            whole[:, place] = column
        self.shortened += whole_rows(
            *(dense, keep, grid.centre, factor, grid.low, grid.high),
            *(grid.unit, reach // grid.unit, grid.cut, LARGEST, grid.norm2, whole),
        )
        return whole

    @property
    def stay_sparse(self) -> bool:
        """Whether zeros stay zeros, so that rows may be read without them: from public figures and the kind of
        table."""
        return self._sparse and not self.grid.centre.any()

    def sparse_rows(self, first: int, count: int) -> Any:
        """The same rows as `rows` gives, as a compressed matrix of integers."""
        grid = self.grid
        check_room(self.columns, grid.norm2)
        part = self._matrix[first : first + count]
        place, row = part.indices, np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        real = part.data * (grid.scale / grid.step)[place]
        real = np.where(grid.cut[place], np.trunc(real), np.rint(real))
        whole = np.clip(real, grid.low[place], grid.high[place]).astype(np.int64)
        reach = math.isqrt(grid.norm2)
        far = np.bincount(row, np.abs(whole) > reach, part.shape[0]) > 0
        whole = np.clip(whole, -reach, reach)

        def squares(entries: Integers) -> Any:
            total, filled = np.zeros(part.shape[0], np.int64), np.flatnonzero(np.diff(part.indptr))
            if filled.size:
                total[filled] = np.add.reduceat(entries**2, part.indptr[filled])
            return total

        long = squares(whole)
        self.shortened += int(np.count_nonzero(far | (long > grid.norm2)))
        factor = np.where(long > grid.norm2, np.sqrt(grid.norm2 / np.maximum(long, 1)), 1.0)
        while True:
            shorter = np.where(factor[row] < 1.0, np.trunc(whole * factor[row]), whole).astype(np.int64)
            left = squares(shorter) > grid.norm2
            if not left.any():
                return sparse.csr_array((shorter, place, part.indptr), shape=part.shape)
            factor[left] *= 1.0 - 2.0**-40  # a hair of rounding is left; try again


def check_room(width: int, norm2: int) -> None:
    """Squares of a row must not wrap round, or a long row would look short; from public figures alone."""
    if width * norm2 >= 1 << 63:
        raise InvalidInput(
            f"squares of {width:,} entries within a length of {math.isqrt(norm2):,} steps do not fit 63 bits: lower "
            "row_norm."
        )


def norms(job: Job) -> dict[str, float]:
    """The public length to which each party clips its part of a row.

    A number for the whole row is shared out in proportion to what the schemas prove, or to the numbers of columns.
    """
    roster, privacy = job.roster, job.privacy
    assert privacy is not None
    given, holders = privacy.row_norm, roster.with_columns
    proven = {party: roster.known[party].norm for party in holders if party in roster.known}
    if isinstance(given, Mapping):
        if unknown := set(given) - set(holders):
            raise InvalidInput(f"row_norm names {sorted(unknown)[0]!r}, which is not a party with columns.")
        if missing := [party for party in holders if party not in given and party not in proven]:
            raise InvalidInput(
                f"row_norm says nothing about party {missing[0]!r}, and no declared schema bounds its rows: "
                f"give Privacy(row_norm={{..., {missing[0]!r}: 1.0}})."
            )
        return {party: min(given.get(party, math.inf), proven.get(party, math.inf)) for party in holders}
    if given is None:
        if missing := [party for party in holders if party not in proven]:
            raise InvalidInput(
                f"nothing public bounds the rows of party {missing[0]!r}: declare its schema "
                "(from_frames(..., schemas={party: co.Schema(...)}); in its file, replace what was read off the data "
                "and then "
                'remove the line source = "data"), or give Privacy(row_norm=...), a length beyond which a row is '
                "shortened. "
                "A bound read off the data would tell about single rows."
            )
        return proven
    if len(proven) == len(holders):
        whole = math.hypot(*proven.values())
        return {party: bound * min(1.0, given / whole) for party, bound in proven.items()}
    columns = {party: len(roster.positions[party]) for party in holders}
    total = sum(columns.values())
    shares = {party: given * math.sqrt(count / total) for party, count in columns.items()}
    return {party: min(share, proven.get(party, math.inf)) for party, share in shares.items()}


def uncut(job: Job) -> bool:
    """Whether the schemas prove that no row is shortened and no entry cut."""
    lengths, known = norms(job), job.roster.known
    return all(
        party in known
        and known[party].proven
        and lengths[party] >= known[party].norm
        and (entry_bounds(job, party)[0] >= known[party].bounds).all()
        for party in job.roster.with_columns
    )


def hat_levels(job: Job, party: str) -> Integers:
    """Of each column of a party its level among the hats of a curve, 0 for all others."""
    known = job.roster.known.get(party)
    return np.array(known.level if known and known.level else [0] * len(job.roster.positions[party]), np.int64)


def directions(job: Job) -> Integers:
    """Of all columns, in roster order: 1 or -1 where a number never falls or rises, 0 elsewhere."""
    known = {party: job.roster.known.get(party) for party in job.roster.parties}
    own = {p: k.monotone if k and k.monotone else [0] * len(job.roster.positions[p]) for p, k in known.items()}
    return np.concatenate([np.array(part, np.int64) for part in own.values()])


def entry_bounds(job: Job, party: str) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Of each column of a party, in public: the bound of an entry, whether it is 0 or 1, whether it is at least 0."""
    roster, privacy = job.roster, job.privacy
    assert privacy is not None
    width = len(roster.positions[party])
    limit = math.inf if privacy.feature_bound is None else privacy.feature_bound
    if party in roster.known:
        known = roster.known[party]
        return np.minimum(known.bounds, limit), np.array(known.binary, bool), np.array(known.nonnegative, bool)
    # No entry is larger than its row, which is clipped.
    return np.full(width, min(limit, norms(job).get(party, 0.0))), np.zeros(width, bool), np.zeros(width, bool)
