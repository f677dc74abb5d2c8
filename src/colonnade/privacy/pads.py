"""One-time masks: a seed that stands for a uniform matrix, of which any rows can be made when they are needed.

A value plus its row of the mask is uniform to whoever lacks the seed, and the difference of two values masked alike is
not: a mask covers a row once. `Gate.masked` counts the rows; the stage and everything its parties agreed on are part
of the label, so that another stage, or parties that were told different things, never meet on one mask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.kernels.arrays import Integers
from colonnade.kernels.ring import Ring, uniform
from colonnade.privacy.keyring import derive


@dataclass(frozen=True, slots=True)
class Pad:
    """A mask of `columns` columns and as many rows as are asked for."""

    seed: bytes
    label: tuple[str, ...]
    columns: int
    ring: Ring

    @property
    def key(self) -> bytes:
        """What tells this mask from every other."""
        return derive(self.seed, "pad", *self.label, str(self.columns), str(self.ring.bits))

    def rows(self, first: int, count: int) -> NDArray[Any]:
        """Rows `first` to `first + count` of the mask."""
        return uniform(self.key, b"pad", first, count, self.columns, self.ring)


@dataclass
class ColumnPad:
    """A mask with a ring for each column: whole words, of which the low bits[j] bits of column j count."""

    seed: bytes
    label: tuple[str, ...]
    bits: Integers
    _made: tuple[int, int, Any] = field(default=(0, 0, None), init=False)  # the rows that were made last

    @cached_property
    def key(self) -> bytes:
        """What tells this mask from every other."""
        return derive(self.seed, "column pad", *self.label, ",".join(map(str, self.bits.tolist())))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint32 if self.bits.max(initial=1) <= 32 else np.uint64)

    def rows(self, first: int, count: int) -> NDArray[Any]:
        """Rows `first` to `first + count` of the mask; asked for twice in a row, they are made once."""
        if self._made[:2] != (first, count) or self._made[2] is None:
            words = Ring(8 * self.dtype.itemsize)
            self._made = (first, count, uniform(self.key, b"column pad", first, count, self.bits.size, words))
        return np.asarray(self._made[2])
