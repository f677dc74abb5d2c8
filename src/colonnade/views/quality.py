"""How good a model is: what an evaluation found, and how models compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from colonnade.views.parts import with_error

BASES = {
    "public": "These rows are public, so the caller says: the figures tell nothing that is not known.",
    "paid for": "The caller says that these figures are paid for: their release is accounted for apart from the "
    "run, and is not in the epsilon of this report.",
}


@dataclass(frozen=True)
class Quality:
    """How good models are: one figure by model, the fit's own first, and on which data it was computed."""

    measure: str
    values: Mapping[str, float]
    note: str
    errors: Mapping[str, float] = field(default_factory=dict)  # standard errors of the values, where they are known
    not_private: str = ""  # which of the models is one of all parties without privacy

    def shown(self, name: str) -> str:
        """One model's figure as tables show it."""
        return with_error(self.values[name], self.errors.get(name))

    @property
    def best_other(self) -> str:
        """The best of the models that are neither this one nor the one without privacy; none: an empty name."""
        first = next(iter(self.values))
        others = {name: value for name, value in self.values.items() if name not in (first, self.not_private)}
        return max(others, key=lambda name: others[name], default="")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was found on the rows of an evaluation."""

    basis: str
    rows: int
    measure: str  # by which models are compared
    figures: Mapping[str, tuple[float, float | None, str]]  # by name: figure, standard error if known, meaning
    groups: tuple[tuple[float, float, int], ...]  # predicted, found, rows
    roc: tuple[tuple[float, float], ...] = ()
    without: Mapping[str, float] = field(default_factory=dict)  # the measure without a party
    remark: str = ""  # why something is missing
