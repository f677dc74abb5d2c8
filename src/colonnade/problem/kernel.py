"""The kernel machine as a problem: the dual of the L2-loss SVM over examples, and the model it ends in.

Solves   min αᵀK̃α  over the unit simplex,  K̃_ij = y_i y_j (k(x_i, x_j) + 1) + δ_ij / C;  scores are Σ_j α_j y_j
         (k(x_j, x) + 1).
Source   Tsang, Kwok, Cheung, "Core vector machines", JMLR 2005; Bellet et al., arXiv:1404.2644, equation 5.
Kernels  RBF(gamma), or a function (X, Z) → the table of k(x, z) over the rows of both, which must be positive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem.checks import positive
from colonnade.problem.loss import Loss
from colonnade.problem.losses import SquaredHinge
from colonnade.problem.sets import Simplex

Kernel = Callable[[Any, Any], Any]
ROWS_AT_ONCE = 4096  # when new rows are scored: a table of so many by the support
ROOM = 1e-9  # of the kernel's size: rounding may push a positive kernel this far over its bounds


@dataclass(frozen=True)
class RBF:
    """The Gaussian kernel exp(−gamma·‖x − z‖²).

    Parameters
    ----------
    gamma
        One over twice the squared width, above 0: a larger one counts fewer examples as near.
    """

    gamma: float

    def __post_init__(self) -> None:
        advice = "It is one over twice the squared width: larger means that fewer examples count as near."
        object.__setattr__(self, "gamma", positive("gamma", self.gamma, advice))

    def __call__(self, X: Any, Z: Any) -> Floats:
        products = X @ Z.T
        products = products.toarray() if sparse.issparse(products) else np.asarray(products)
        distances = _squares(X)[:, None] + _squares(Z)[None, :] - 2.0 * products
        return np.exp(-self.gamma * np.maximum(distances, 0.0))


@dataclass(frozen=True)
class KernelSVM:
    """An L2-loss support vector machine over examples that different nodes hold, by its dual on the simplex.

    Parameters
    ----------
    kernel
        How alike two rows are: `co.RBF(gamma)`, or a positive function of two tables (X, Z) that gives one value for
        each pair of their rows. A fit with a function of your own cannot be saved.
    C
        How much the loss of an example weighs against the margin, above 0.
    """

    kernel: Kernel
    C: float = 1.0
    loss: ClassVar[Loss] = SquaredHinge()
    constraint: ClassVar[Simplex] = Simplex(1.0)
    penalty: ClassVar[None] = None
    intercept: ClassVar[bool] = False  # the +1 in K̃ is one, and it is penalised with the rest

    def __post_init__(self) -> None:
        if isinstance(self.kernel, type) or not callable(self.kernel):
            raise InvalidInput(f"kernel={self.kernel!r}: give co.RBF(gamma) or a function (X, Z) → table.", "kernel")
        object.__setattr__(self, "C", positive("C", self.C, "It weighs the loss of an example against the margin."))

    @property
    def savable(self) -> bool:
        """Whether a fit can be written to a file: a function of the user cannot."""
        return isinstance(self.kernel, RBF)


def kernel_values(kernel: Kernel, X: Any, Z: Any) -> Floats:
    """The table of k(x, z), or InvalidInput when the user's function gave something else."""
    raw = kernel(X, Z)
    values = np.asarray(raw.toarray() if sparse.issparse(raw) else raw, dtype=np.float64)
    if values.shape != (X.shape[0], Z.shape[0]):
        raise InvalidInput(
            f"the kernel gave values of shape {values.shape} for {X.shape[0]:,} rows against {Z.shape[0]:,}: "
            "it must return one value for each pair of rows."
        )
    if not np.isfinite(values).all():
        raise InvalidInput("the kernel gave NaN or infinite values: check the features, or scale them down.")
    return values


def check_positive(column: Floats, diagonal: Floats, own: float) -> None:
    """InvalidInput when k(x, z)² > k(x, x)·k(z, z) somewhere: a positive kernel cannot do that."""
    bound = diagonal * own
    if own < 0.0 or bool(np.any(np.square(column) > bound + ROOM * np.abs(bound) + np.finfo(np.float64).tiny)):
        raise not_positive()


def check_table(values: Floats) -> None:
    """InvalidInput when a table of values among some examples is not symmetric or has a negative eigenvalue."""
    size = float(np.abs(values).max())
    if np.abs(values - values.T).max() > ROOM * size or np.linalg.eigvalsh(values)[0] < -ROOM * size * len(values):
        raise not_positive()


def not_positive() -> InvalidInput:
    return InvalidInput(
        "the kernel is not positive, so Frank-Wolfe could certify no minimum. Use co.RBF(gamma), or a function whose "
        "table of values has no negative eigenvalue, such as a product of features or a sum of such kernels."
    )


@dataclass(frozen=True, eq=False)
class Support:
    """What a kernel machine predicts with: the examples that were chosen, their labels and weights."""

    points: Any  # one row an example, dense or CSR
    labels: Floats
    weights: Floats

    def scores(self, kernel: Kernel, X: Any) -> Floats:
        """Σ_j α_j y_j (k(x_j, x) + 1) for the rows of X."""
        X = sparse.csr_array(X) if sparse.issparse(X) else X
        signed = self.weights * self.labels
        out = np.empty(X.shape[0])
        for start in range(0, X.shape[0], ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            out[rows] = kernel_values(kernel, X[rows], self.points) @ signed
        return out + float(signed.sum())


def _squares(X: Any) -> Floats:
    return np.asarray((X * X).sum(axis=1) if not sparse.issparse(X) else X.multiply(X).sum(axis=1)).ravel()
