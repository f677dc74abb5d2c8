"""Colonnade: one sparse or regularised linear model from features that several parties may not pool.

import colonnade as co

fed = co.Federation.split(X, y, parties=4)
fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(10.0)), method=co.DistributedFrankWolfe())

Names are loaded when they are first used: `colonnade --help` and `import colonnade` wait for no compiler.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what readers and type checkers see; `_HOMES` says the same to Python
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
    from colonnade.engines.traffic import Communication
    from colonnade.errors import (
        BudgetExhausted,
        ColonnadeError,
        ColonnadeWarning,
        HeldByParty,
        InvalidInput,
        LeakError,
        LedgerDamaged,
        MostlyNoise,
        NothingToLearn,
        NotPrivate,
        PeerFailed,
        PolicyRefused,
        ProtocolError,
        ReplayDiverged,
        StoreError,
        UnusedLevels,
        WireError,
    )
    from colonnade.estimators import SparseClassifier, SparseRegressor
    from colonnade.estimators.federated import FederatedClassifier, FederatedRegressor
    from colonnade.federation import Federation
    from colonnade.fit import fit, score
    from colonnade.fit_facts import CoefficientPath
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
    from colonnade.result import Fit, load
    from colonnade.schema import Binary, Categorical, Date, Numeric, Plain, Schema
    from colonnade.simulate import simulate
    from colonnade.sources import read

_HOMES = {
    "algorithms.block_frank_wolfe": "BlockFrankWolfe",
    "algorithms.central_frank_wolfe": "CentralFrankWolfe",
    "algorithms.frank_wolfe": "Corrective DistributedFrankWolfe LineSearch OpenLoop",
    "algorithms.graph_admm": "GraphADMM",
    "algorithms.graph_ridge": "GraphRidge",
    "algorithms.graph_tls": "GraphTLS",
    "algorithms.graph_zeroth": "GraphZerothOrder",
    "algorithms.method": "Status",
    "algorithms.private_block_frank_wolfe": "PrivateBlockFrankWolfe",
    "algorithms.private_gram": "PrivateGram",
    "algorithms.private_sharing_admm": "PrivateSharingADMM",
    "algorithms.sharing_admm": "SharingADMM",
    "audit": "audit",
    "between.hub": "Grpc",
    "certs": "Tls",
    "engines.inprocess": "Faults InProcess Tap",
    "engines.ray": "Ray",
    "engines.traffic": "Communication",
    "errors": (
        "BudgetExhausted ColonnadeError ColonnadeWarning HeldByParty InvalidInput LeakError LedgerDamaged MostlyNoise NothingToLearn NotPrivate PeerFailed PolicyRefused "
        "ProtocolError ReplayDiverged StoreError UnusedLevels WireError"
    ),
    "estimators": "SparseClassifier SparseRegressor",
    "estimators.federated": "FederatedClassifier FederatedRegressor",
    "federation": "Federation",
    "fit": "fit score",
    "fit_facts": "CoefficientPath",
    "privacy.block": "COLUMN",
    "privacy.events": "Policy",
    "privacy.mechanisms": "SeededNoise",
    "privacy.statement": "Privacy PrivacyStatement",
    "problem": (
        "Absolute AdaBoost Changing ElasticNet Elementary GroupL1Ball GroupLasso Huber Independent KernelSVM L1Ball "
        "Lasso LeastSquares Logistic Nice NuclearNorm PerParty Problem Product PublicLabels Quantile RBF Ridge Serial "
        "Simplex SquaredHinge Topology"
    ),
    "result": "Fit load",
    "schema": "Binary Categorical Date Numeric Plain Schema",
    "simulate": "simulate",
    "sources": "read",
}
_HOME = {name: f"colonnade.{home}" for home, names in _HOMES.items() for name in names.split()}


class _Package(ModuleType):
    """`colonnade.fit`, `audit` and `simulate` are functions, though the import of a module of that name would replace them."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _HOME.get(name) == value.__name__:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:  # or every misspelt name would pass a type checker

    def __getattr__(name: str) -> Any:
        """A public name, loaded now and kept."""
        if name == "published":
            return import_module("colonnade.published")
        if name not in _HOME:
            raise AttributeError(f"module 'colonnade' has no attribute {name!r}")
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
    "ColonnadeWarning",
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
    "MostlyNoise",
    "Nice",
    "NotPrivate",
    "NothingToLearn",
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
    "UnusedLevels",
    "WireError",
    "audit",
    "fit",
    "load",
    "published",
    "read",
    "score",
    "simulate",
]
