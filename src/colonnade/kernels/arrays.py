"""Names for the arrays that go through the whole library, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Csc = tuple[Array, Array, Array]  # data, indices, indptr of a sparse matrix by columns
Integers = NDArray[Any]  # of any integer dtype
