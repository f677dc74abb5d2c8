"""The public names with their types, for type checkers and editors; `HOMES` is the same table for Python."""

from colonnade.attacks.run import audit
from colonnade.data.federation import Federation
from colonnade.data.schema.columns import Binary, Categorical, Date, Numeric, Plain, Unknown
from colonnade.data.schema.table import Schema
from colonnade.data.sources import read
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
    PartyLost,
    PeerFailed,
    PolicyRefused,
    ProtocolError,
    ReplayDiverged,
    StoreError,
    UnusedLevels,
    WireError,
)
from colonnade.estimators.federated_models import FederatedClassifier, FederatedRegressor
from colonnade.estimators.sparse import SparseClassifier, SparseRegressor
from colonnade.methods.admm.private_sharing import PrivateSharingADMM
from colonnade.methods.admm.sharing import SharingADMM
from colonnade.methods.frank_wolfe.block import BlockFrankWolfe
from colonnade.methods.frank_wolfe.central import CentralFrankWolfe
from colonnade.methods.frank_wolfe.distributed import Corrective, DistributedFrankWolfe, LineSearch, OpenLoop
from colonnade.methods.frank_wolfe.private_block import PrivateBlockFrankWolfe
from colonnade.methods.gram.private_gram import PrivateGram
from colonnade.methods.graph.admm import GraphADMM
from colonnade.methods.graph.ridge import GraphRidge
from colonnade.methods.graph.tls import GraphTLS
from colonnade.methods.graph.zeroth import GraphZerothOrder
from colonnade.model.facts import CoefficientPath
from colonnade.model.job import Status
from colonnade.network.certs import Tls
from colonnade.network.hub import Grpc
from colonnade.privacy.block import COLUMN
from colonnade.privacy.events import Policy
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.statement import Privacy, PrivacyStatement
from colonnade.problem import (
    RBF,
    Absolute,
    AdaBoost,
    Box,
    Changing,
    ElasticNet,
    Elementary,
    GroupL1Ball,
    GroupLasso,
    Hinge,
    Huber,
    Independent,
    KernelSVM,
    L1Ball,
    L2Ball,
    Lasso,
    LeastSquares,
    Logistic,
    Nice,
    NonNegative,
    NuclearNorm,
    PerParty,
    Poisson,
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
from colonnade.runs.fit import fit
from colonnade.runs.inference import Inference
from colonnade.runs.jobs import Jobs
from colonnade.runs.look import Looked, look
from colonnade.runs.release import Release
from colonnade.runs.result import Fit, load
from colonnade.runs.scoring import score
from colonnade.runs.simulate import simulate
from colonnade.runtime.fault_tools import Dropouts, Faults, Tap
from colonnade.runtime.hosted_node import InProcess
from colonnade.runtime.ray import Ray
from colonnade.runtime.wire import Communication

HOMES: dict[str, str]

__all__ = [
    "COLUMN",
    "RBF",
    "Absolute",
    "AdaBoost",
    "Binary",
    "BlockFrankWolfe",
    "Box",
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
    "Dropouts",
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
    "Hinge",
    "Huber",
    "InProcess",
    "Independent",
    "Inference",
    "InvalidInput",
    "Jobs",
    "KernelSVM",
    "L1Ball",
    "L2Ball",
    "Lasso",
    "LeakError",
    "LeastSquares",
    "LedgerDamaged",
    "LineSearch",
    "Logistic",
    "Looked",
    "MostlyNoise",
    "Nice",
    "NonNegative",
    "NotPrivate",
    "NothingToLearn",
    "NuclearNorm",
    "Numeric",
    "OpenLoop",
    "PartyLost",
    "PeerFailed",
    "PerParty",
    "Plain",
    "Poisson",
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
    "Release",
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
    "Unknown",
    "UnusedLevels",
    "WireError",
    "audit",
    "fit",
    "load",
    "look",
    "read",
    "score",
    "simulate",
]
