"""One-time masks: a seed that stands for a uniform matrix, of which any rows can be made when they are needed.

A value minus its row of the mask is uniform to whoever lacks the seed, and the difference of two values masked alike is
not: a mask covers a row once. `Gate.masked` counts the rows; the stage and everything its parties agreed on are part
of the label, so that another stage, or parties that were told different things, never meet on one mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

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
