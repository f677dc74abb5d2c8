"""Colonnade: one sparse or regularised linear model from features that several parties may not pool.

import colonnade as co

fed = co.Federation.split(X, y, parties=4)
fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(10.0)), method=co.DistributedFrankWolfe())

Names are loaded when they are first used: `colonnade --help` and `import colonnade` wait for no compiler. Type checkers
read `__init__.pyi`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {  # the public names, by the module that defines them
    "attacks.run": "audit",
    "data.federation": "Federation",
    "data.schema.columns": "Numeric Binary Categorical Plain Date Unknown",
    "data.schema.table": "Schema",
    "data.sources": "read",
    "errors": (
        "BudgetExhausted ColonnadeError ColonnadeWarning HeldByParty InvalidInput LeakError LedgerDamaged "
        "MostlyNoise NothingToLearn NotPrivate PartyLost PeerFailed PolicyRefused ProtocolError ReplayDiverged "
        "StoreError UnusedLevels WireError"
    ),
    "estimators.federated_models": "FederatedClassifier FederatedRegressor",
    "estimators.sparse": "SparseClassifier SparseRegressor",
    "methods.admm.private_sharing": "PrivateSharingADMM",
    "methods.admm.sharing": "SharingADMM",
    "methods.frank_wolfe.block": "BlockFrankWolfe",
    "methods.frank_wolfe.central": "CentralFrankWolfe",
    "methods.frank_wolfe.distributed": "Corrective DistributedFrankWolfe LineSearch OpenLoop",
    "methods.frank_wolfe.private_block": "PrivateBlockFrankWolfe",
    "methods.gram.private_gram": "PrivateGram",
    "methods.graph.admm": "GraphADMM",
    "methods.graph.ridge": "GraphRidge",
    "methods.graph.tls": "GraphTLS",
    "methods.graph.zeroth": "GraphZerothOrder",
    "model.facts": "CoefficientPath",
    "model.job": "Status",
    "network.certs": "Tls",
    "network.hub": "Grpc",
    "privacy.block": "COLUMN",
    "privacy.events": "Policy",
    "privacy.mechanisms": "SeededNoise",
    "privacy.statement": "Privacy PrivacyStatement",
    "problem": (
        "RBF Absolute AdaBoost Box Changing ElasticNet Elementary GroupL1Ball GroupLasso Hinge Huber Independent "
        "KernelSVM L1Ball L2Ball Lasso LeastSquares Logistic Nice NonNegative NuclearNorm PerParty Poisson Problem "
        "Product PublicLabels Quantile Ridge Serial Simplex SquaredHinge Topology"
    ),
    "runs.fit": "fit",
    "runs.inference": "Inference",
    "runs.jobs": "Jobs",
    "runs.look": "Looked look",
    "runs.release": "Release",
    "runs.result": "Fit load",
    "runs.scoring": "score",
    "runs.simulate": "simulate",
    "runtime.fault_tools": "Dropouts Faults Tap",
    "runtime.hosted_node": "InProcess",
    "runtime.ray": "Ray",
    "runtime.wire": "Communication",
}
HOMES = {name: f"colonnade.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:
    """A public name, loaded now and kept."""
    if name not in HOMES:
        raise AttributeError(f"module 'colonnade' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
