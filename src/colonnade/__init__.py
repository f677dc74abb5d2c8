"""Colonnade: one sparse or regularised linear model from features that several parties may not pool.

import colonnade as co

fed = co.Federation.split(X, y, parties=4)
fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(10.0)), method=co.DistributedFrankWolfe())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from colonnade import published
from colonnade.algorithms.central_frank_wolfe import CentralFrankWolfe
from colonnade.algorithms.frank_wolfe import Corrective, DistributedFrankWolfe, LineSearch, OpenLoop
from colonnade.algorithms.method import Status
from colonnade.audit import audit
from colonnade.engines.inprocess import Faults, InProcess, Tap
from colonnade.errors import (
    BudgetExhausted,
    ColonnadeError,
    HeldByParty,
    InvalidInput,
    LeakError,
    LedgerDamaged,
    PeerFailed,
    PolicyRefused,
    ProtocolError,
    ReplayDiverged,
    StoreError,
    WireError,
)
from colonnade.federation import Federation
from colonnade.fit import fit
from colonnade.privacy.events import Policy
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.statement import Privacy, PrivacyStatement
from colonnade.problem import (
    Absolute,
    ElasticNet,
    GroupL1Ball,
    GroupLasso,
    Huber,
    L1Ball,
    Lasso,
    LeastSquares,
    Logistic,
    NuclearNorm,
    Problem,
    Quantile,
    Ridge,
    Simplex,
    SquaredHinge,
    Topology,
)
from colonnade.result import Communication, Fit, load
from colonnade.schema import Binary, Categorical, Numeric, Plain, Schema

if TYPE_CHECKING:
    from colonnade.estimators import SparseClassifier, SparseRegressor

_LATER = {"SparseClassifier": "colonnade.estimators", "SparseRegressor": "colonnade.estimators"}


def __getattr__(name: str) -> Any:
    """Names that bring scikit-learn with them are loaded when they are first used."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'colonnade' has no attribute {name!r}")


__all__ = [
    "Absolute",
    "Binary",
    "BudgetExhausted",
    "Categorical",
    "CentralFrankWolfe",
    "ColonnadeError",
    "Communication",
    "Corrective",
    "DistributedFrankWolfe",
    "ElasticNet",
    "Faults",
    "Federation",
    "Fit",
    "GroupL1Ball",
    "GroupLasso",
    "HeldByParty",
    "Huber",
    "InProcess",
    "InvalidInput",
    "L1Ball",
    "Lasso",
    "LeakError",
    "LeastSquares",
    "LedgerDamaged",
    "LineSearch",
    "Logistic",
    "NuclearNorm",
    "Numeric",
    "OpenLoop",
    "PeerFailed",
    "Plain",
    "Policy",
    "PolicyRefused",
    "Privacy",
    "PrivacyStatement",
    "Problem",
    "ProtocolError",
    "Quantile",
    "ReplayDiverged",
    "Ridge",
    "Schema",
    "SeededNoise",
    "Simplex",
    "SparseClassifier",
    "SparseRegressor",
    "SquaredHinge",
    "Status",
    "StoreError",
    "Tap",
    "Topology",
    "WireError",
    "audit",
    "fit",
    "load",
    "published",
]
