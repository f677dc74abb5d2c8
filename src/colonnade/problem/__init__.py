"""What is solved, and over which graph: losses, penalties, sets, topologies; pure values, no data, no I/O."""

from __future__ import annotations

from colonnade.kernels.prox import Array
from colonnade.problem.losses import Absolute, Huber, LeastSquares, Logistic, Loss, Quantile, SquaredHinge
from colonnade.problem.penalties import ElasticNet, GroupLasso, Lasso, NuclearNorm, Penalty, Ridge
from colonnade.problem.problem import Problem, certificate
from colonnade.problem.sets import GroupL1Ball, L1Ball, Set, Simplex
from colonnade.problem.topology import Topology

__all__ = [
    "Absolute",
    "Array",
    "ElasticNet",
    "GroupL1Ball",
    "GroupLasso",
    "Huber",
    "L1Ball",
    "Lasso",
    "LeastSquares",
    "Logistic",
    "Loss",
    "NuclearNorm",
    "Penalty",
    "Problem",
    "Quantile",
    "Ridge",
    "Set",
    "Simplex",
    "SquaredHinge",
    "Topology",
    "certificate",
]
