"""The problem says what is solved: losses, penalties, constraint sets, graphs, as small frozen values.

No data and no files: a value checks itself, evaluates itself and knows its certificate. Imports: `kernels`. Start with
`problem/problem.py`, then `problem/loss.py`.
"""

from __future__ import annotations

from colonnade.notebook import explain
from colonnade.problem.adjusted import ClassWeighted
from colonnade.problem.boosting import AdaBoost
from colonnade.problem.kernel import RBF, KernelSVM
from colonnade.problem.loss import Loss
from colonnade.problem.losses import Absolute, Hinge, Huber, LeastSquares, Logistic, Poisson, Quantile, SquaredHinge
from colonnade.problem.penalties import ElasticNet, GroupLasso, Lasso, NuclearNorm, Penalty, Ridge
from colonnade.problem.problem import Problem, PublicLabels
from colonnade.problem.sampling import Elementary, Independent, Nice, PerParty, Sampling, Serial
from colonnade.problem.sets import Box, GroupL1Ball, L1Ball, L2Ball, NonNegative, Product, Set, Simplex
from colonnade.problem.topology import Changing, Topology

__all__ = [
    "RBF", "Absolute", "AdaBoost", "Box", "Changing", "ClassWeighted", "ElasticNet", "Elementary", "GroupL1Ball",
    "GroupLasso", "Hinge", "Huber", "Independent", "KernelSVM", "L1Ball", "L2Ball", "Lasso", "LeastSquares", "Logistic",
    "Loss", "Nice", "NonNegative", "NuclearNorm", "Penalty", "PerParty", "Poisson", "Problem", "Product",
    "PublicLabels", "Quantile", "Ridge", "Sampling", "Serial", "Set", "Simplex", "SquaredHinge", "Topology",
]  # fmt: skip

# What solvers call is explained at its face; `help` shows it at each value too.
explain(Set, Box, GroupL1Ball, L1Ball, L2Ball, NonNegative, Product, Simplex)
explain(Penalty, ElasticNet, GroupLasso, Lasso, NuclearNorm, Ridge)
explain(Sampling, Elementary, Independent, Nice, PerParty, Serial)
