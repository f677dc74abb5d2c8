"""Figures of quality: found on rows that a caller gave, or computed by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BASES = {
    "public": "These rows are public, so the caller says: the figures tell nothing that is not known.",
    "paid for": "The caller says that these figures are paid for: their release is accounted for apart from the "
    "run, and is not in the epsilon of this report.",
}


@dataclass(frozen=True)
class Quality:
    """How good models are: one figure by model, and on which data it was computed."""

    measure: str
    values: Mapping[str, float]
    note: str


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was found on the rows of an evaluation."""

    basis: str
    rows: int
    measure: str  # by which models are compared
    figures: Mapping[str, tuple[float, str]]  # by name: the figure, and what it means
    groups: tuple[tuple[float, float, int], ...]  # predicted, found, rows
    roc: tuple[tuple[float, float], ...] = ()
    without: Mapping[str, float] = field(default_factory=dict)  # the measure without a party
    remark: str = ""  # why something is missing
