"""Colonnade: one sparse or regularised linear model from features that several parties may not pool.

import colonnade as co

fed = co.Federation.split(X, y, parties=4)
fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(10.0)), method=co.DistributedFrankWolfe())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from colonnade import published
from colonnade.algorithms.block_frank_wolfe import BlockFrankWolfe
from colonnade.algorithms.central_frank_wolfe import CentralFrankWolfe
from colonnade.algorithms.frank_wolfe import Corrective, DistributedFrankWolfe, LineSearch, OpenLoop
from colonnade.algorithms.graph_admm import GraphADMM
from colonnade.algorithms.graph_ridge import GraphRidge
from colonnade.algorithms.graph_tls import GraphTLS
from colonnade.algorithms.graph_zeroth import GraphZerothOrder
from colonnade.algorithms.method import Status
from colonnade.algorithms.private_block_frank_wolfe import PrivateBlockFrankWolfe
from colonnade.algorithms.private_gram import PrivateGram
from colonnade.algorithms.private_sharing_admm import PrivateSharingADMM
from colonnade.algorithms.sharing_admm import SharingADMM
from colonnade.audit import audit
from colonnade.between.hub import Grpc
from colonnade.certs import Tls
from colonnade.engines.inprocess import Faults, InProcess, Tap
from colonnade.engines.ray import Ray
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
from colonnade.fit import fit, score
from colonnade.privacy.block import COLUMN
from colonnade.privacy.events import Policy
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.statement import Privacy, PrivacyStatement
from colonnade.problem import (
    RBF,
    Absolute,
    AdaBoost,
    Changing,
    ElasticNet,
    Elementary,
    GroupL1Ball,
    GroupLasso,
    Huber,
    Independent,
    KernelSVM,
    L1Ball,
    Lasso,
    LeastSquares,
    Logistic,
    Nice,
    NuclearNorm,
    PerParty,
    Problem,
    Product,
    PublicLabels,
    Quantile,
    Ridge,
    Serial,
    Simplex,
    SquaredHinge,
    Topology,
)
from colonnade.result import CoefficientPath, Communication, Fit, load
from colonnade.schema import Binary, Categorical, Date, Numeric, Plain, Schema
from colonnade.simulate import simulate
from colonnade.sources import read

if TYPE_CHECKING:
    from colonnade.estimators import SparseClassifier, SparseRegressor
    from colonnade.estimators.federated import FederatedClassifier, FederatedRegressor

_LATER = {
    "FederatedClassifier": "colonnade.estimators.federated",
    "FederatedRegressor": "colonnade.estimators.federated",
    "SparseClassifier": "colonnade.estimators",
    "SparseRegressor": "colonnade.estimators",
}


def __getattr__(name: str) -> Any:
    """Names that bring scikit-learn with them are loaded when they are first used."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'colonnade' has no attribute {name!r}")


__all__ = [
    "COLUMN",
    "RBF",
    "Absolute",
    "AdaBoost",
    "Binary",
    "BlockFrankWolfe",
    "BudgetExhausted",
    "Categorical",
    "CentralFrankWolfe",
    "Changing",
    "CoefficientPath",
    "ColonnadeError",
    "Communication",
    "Corrective",
    "Date",
    "DistributedFrankWolfe",
    "ElasticNet",
    "Elementary",
    "Faults",
    "FederatedClassifier",
    "FederatedRegressor",
    "Federation",
    "Fit",
    "GraphADMM",
    "GraphRidge",
    "GraphTLS",
    "GraphZerothOrder",
    "GroupL1Ball",
    "GroupLasso",
    "Grpc",
    "HeldByParty",
    "Huber",
    "InProcess",
    "Independent",
    "InvalidInput",
    "KernelSVM",
    "L1Ball",
    "Lasso",
    "LeakError",
    "LeastSquares",
    "LedgerDamaged",
    "LineSearch",
    "Logistic",
    "Nice",
    "NuclearNorm",
    "Numeric",
    "OpenLoop",
    "PeerFailed",
    "PerParty",
    "Plain",
    "Policy",
    "PolicyRefused",
    "Privacy",
    "PrivacyStatement",
    "PrivateBlockFrankWolfe",
    "PrivateGram",
    "PrivateSharingADMM",
    "Problem",
    "Product",
    "ProtocolError",
    "PublicLabels",
    "Quantile",
    "Ray",
    "ReplayDiverged",
    "Ridge",
    "Schema",
    "SeededNoise",
    "Serial",
    "SharingADMM",
    "Simplex",
    "SparseClassifier",
    "SparseRegressor",
    "SquaredHinge",
    "Status",
    "StoreError",
    "Tap",
    "Tls",
    "Topology",
    "WireError",
    "audit",
    "fit",
    "load",
    "published",
    "read",
    "score",
    "simulate",
]
