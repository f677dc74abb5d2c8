"""The examples that a kernel machine has chosen so far, and how one that a peer sent is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Floats
from colonnade.kernels.examples import squared_norm


class Chosen:
    """The examples chosen so far, in the order of their numbers: what every node knows alike."""

    def __init__(self, features: int) -> None:
        self._features = features
        self._examples: list[Any] = []  # as they came: features, then the label; dense, or a CSC column
        self.labels: list[float] = []

    def __len__(self) -> int:
        return len(self._examples)

    def learn(self, example: Any) -> None:
        """Keep an example, unless there is none in the block."""
        if example.shape == (self._features + 1, 0):
            return
        self.labels.append(_read(example, self._features).label)
        self._examples.append(example)

    def point(self, number: int) -> Point:
        """One example, zeros and all."""
        return _read(self._examples[number], self._features)

    def row(self, number: int) -> Any:
        """One example as a table of one row, for a kernel: stored as it came."""
        row = self.point(number).features[None, :]
        return row if isinstance(self._examples[number], np.ndarray) else sparse.csr_array(row)

    def table(self, numbers: Sequence[int]) -> Any:
        """Some examples as a table, for a kernel."""
        rows = [self.row(number) for number in numbers]
        return sparse.csr_array(sparse.vstack(rows)) if sparse.issparse(rows[0]) else np.vstack(rows)


class Point(NamedTuple):
    """An example that travelled, zeros and all."""

    features: Floats
    square: float  # of its norm
    label: float


# A broadcast within one process is one object: all nodes read the very same example one after the other, and it is
# spread out once. Two, since the winner has its own copy of what the others were sent.
_recent: deque[tuple[Any, Point]] = deque(maxlen=2)


def _read(example: Any, features: int) -> Point:
    """The example in a block that a peer sent, or ProtocolError."""
    for known, point in tuple(_recent):
        if known is example and point.features.size == features:
            return point
    dense = isinstance(example, np.ndarray)
    if example.shape != ((features + 1,) if dense else (features + 1, 1)):
        raise ProtocolError(f"a peer sent a block of shape {example.shape} for an example of {features:,} features")
    last = dense or (example.indices.size > 0 and example.indices[-1] == features)  # the label is never zero
    label = float((example if dense else example.data)[-1]) if last else 0.0
    if label not in (-1.0, 1.0):
        raise ProtocolError("a peer sent an example whose label is neither -1 nor +1")
    values = np.zeros(features)
    if dense:
        values[:] = example[:-1]
    else:
        values[example.indices[:-1]] = example.data[:-1]
    point = Point(values, float(squared_norm(values)), label)
    _recent.append((example, point))
    return point
