"""Labels that are no secret, as a value of a method's settings: a run's terms name them by their hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats


@dataclass(frozen=True, eq=False)
class PublicLabels:
    """Labels that everybody may know: they are not protected, and neighbouring tables have the same ones."""

    values: Floats

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise InvalidInput(f"public labels have shape {values.shape}: give one finite number for each row.")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return (
            f"PublicLabels({self.values.size:,} rows, sha256 {hashlib.sha256(self.values.tobytes()).hexdigest()[:16]})"
        )
