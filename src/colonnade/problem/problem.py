"""What is solved: a loss with a set, a penalty or both; public labels.

Solves   min_x,b  loss(Ax + b, y)  + penalty(x)  subject to x in the set;  b = 0 unless intercept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem.loss import Loss
from colonnade.problem.penalties import Penalty
from colonnade.problem.sets import Set


@dataclass(frozen=True)
class Problem:
    """A loss, with a constraint set and a penalty where given; the intercept is free of both.

    Parameters
    ----------
    loss
        How far scores are from labels, such as `co.Logistic()` for two classes or `co.LeastSquares()` for numbers.
    constraint
        The set that coefficients lie in, such as `co.L1Ball(10.0)`; None: anywhere.
    penalty
        What large coefficients cost, such as `co.Lasso(0.1)`; None: nothing.
    intercept
        Whether a constant is added to the scores. Neither the set nor the penalty touches it.

    Notes
    -----
    Both a set and a penalty, or neither, is for `co.SharingADMM` and `co.GraphADMM`: the other methods take one of
    them.

    Examples
    --------
    >>> import colonnade as co
    >>> problem = co.Problem(co.Logistic(), co.L1Ball(10.0), intercept=True)
    >>> problem.constraint
    L1Ball(radius=10.0)
    """

    loss: Loss
    constraint: Set | None = None
    penalty: Penalty | None = None
    intercept: bool = False

    def __post_init__(self) -> None:
        _is_value("loss", self.loss, Loss, "loss=Logistic()")
        if self.constraint is not None:
            _is_value("constraint", self.constraint, Set, "constraint=L1Ball(10.0)")
        if self.penalty is not None:
            _is_value("penalty", self.penalty, Penalty, "penalty=Lasso(0.1)")
        if not isinstance(self.intercept, bool | np.bool_):
            raise InvalidInput(f"intercept must be true or false, got {self.intercept!r}", "intercept")

    def objective(self, scores: Floats, coefficients: Floats, y: Floats) -> float:
        """The loss at these scores (intercept included) plus the penalty; that x lies in the set is not checked.

        Parameters
        ----------
        scores
            One score a row, Ax + b.
        coefficients
            The coefficients x that the penalty is of.
        y
            One label a row, as the loss wants them: -1 and +1 for two classes.
        """
        loss = self.loss.value(scores, y)
        return loss if self.penalty is None else loss + self.penalty.value(coefficients)


@dataclass(frozen=True, eq=False)
class PublicLabels:
    """Labels that everybody may know: they are not protected, and neighbouring tables have the same ones.

    A value of a method's settings: a run's terms name them by their hash.

    Parameters
    ----------
    values
        One finite number a row, in the order of the rows in common.
    """

    values: Floats

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise InvalidInput(f"public labels have shape {values.shape}: give one finite number for each row.")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.values.tobytes()).hexdigest()[:16]
        return f"PublicLabels({self.values.size:,} rows, sha256 {digest})"


def _is_value(name: str, value: object, kind: type, example: str) -> None:
    if isinstance(value, type) or not isinstance(value, kind):
        raise InvalidInput(f"{name}={value!r} is not a {name}: give a value such as {example}.", name)
