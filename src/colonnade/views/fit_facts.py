"""What is known of a fitted model, as plain facts: what a report, a page or a notebook shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.data.schema import Schema
from colonnade.errors import HeldByParty
from colonnade.kernels.arrays import Floats
from colonnade.methods.method import Status
from colonnade.privacy.statement import PrivacyStatement
from colonnade.problem import Problem
from colonnade.problem.boosting import Stumps
from colonnade.problem.kernel import Support
from colonnade.problem.link import Link
from colonnade.runtime.traffic import Communication

if TYPE_CHECKING:
    import polars as pl


class Coefficients(Mapping[str, Floats]):
    """Coefficients by party; those of a party that runs elsewhere stay there."""

    def __init__(self, local: Mapping[str, Floats], elsewhere: Sequence[str] = ()) -> None:
        self._local, self._elsewhere = dict(local), tuple(elsewhere)

    def __getitem__(self, party: str) -> Floats:
        if party in self._elsewhere:
            raise HeldByParty(f"the coefficients of {party!r} are held there and did not leave it; ask its operator.")
        if party not in self._local:
            raise KeyError(f"{party!r} has no columns in this model; parties with columns: {', '.join(self)}")
        return self._local[party]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._local, *self._elsewhere])

    def __len__(self) -> int:
        return len(self._local) + len(self._elsewhere)

    @property
    def local(self) -> dict[str, Floats]:
        """Those that are known here."""
        return dict(self._local)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The parties that hold theirs."""
        return self._elsewhere

    def __repr__(self) -> str:
        shown = [f"{p}: {np.count_nonzero(x):,} of {x.size:,} nonzero" for p, x in self._local.items()]
        return f"Coefficients({', '.join([*shown, *(f'{p}: elsewhere' for p in self._elsewhere)])})"


@dataclass(frozen=True, eq=False)
class CoefficientPath:
    """The model along its penalty: what the same release gives at other weights (or radii), for nothing."""

    weights: Floats
    coefficients: Mapping[str, Floats]  # by party, one row for each weight

    def table(self) -> pl.DataFrame:
        """Nonzero coefficients and their l1 norm at each weight."""
        import polars as pl

        whole = np.hstack(list(self.coefficients.values()))
        sizes = {"weight": self.weights, "nonzero": (whole != 0).sum(axis=1), "l1_norm": np.abs(whole).sum(axis=1)}
        return pl.DataFrame(sizes)


@dataclass(frozen=True, eq=False, repr=False)
class FitFacts:
    """A model and how it came about: all of a `Fit` but what computes with rows."""

    coefficients: Coefficients
    intercept: float
    objective: float | None
    gap: float | None
    status: Status
    privacy: PrivacyStatement
    communication: Communication
    problem: Problem
    method: str
    run: str
    seconds: float | None  # None under privacy: how long it took would tell about the data
    label: str
    notes: tuple[Mapping[str, Any], ...] = field(repr=False)
    features: Mapping[str, Sequence[str]] = field(repr=False)
    schemas: Mapping[str, Schema | None] = field(repr=False)
    on: str | None = None
    errors: Mapping[str, Floats] | None = field(default=None, repr=False)  # standard errors, where they cover
    path: CoefficientPath | None = field(default=None, repr=False)
    link: Link | None = field(default=None, repr=False)  # from scores to probabilities, where they need one
    remarks: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)  # public ones about the run, for its report
    by_rows: bool = False  # whether the parties held different rows: then each has the same coefficients
    model: Support | Mapping[str, Stumps] | None = field(default=None, repr=False)  # where coefficients do not predict

    @property
    def coreset(self) -> pl.DataFrame:
        """The atoms of the model with their weights: columns, examples, or stumps with their thresholds."""
        import polars as pl

        kinds = {"party": pl.String, "name": pl.String, "index": pl.Int64, "weight": pl.Float64}
        atoms: list[tuple[Any, ...]] = []
        if isinstance(self.model, Mapping):
            kinds |= {"threshold": pl.Float64, "sign": pl.Float64}
            for party, stumps in self.model.items():
                parts = (stumps.columns, stumps.weights, stumps.thresholds, stumps.signs)
                atoms += [
                    (party, self.features[party][row[0]], *row)
                    for row in zip(*(p.tolist() for p in parts), strict=True)
                ]
        else:
            for party, x in self.coefficients.items():
                used = np.flatnonzero(x).tolist()
                atoms += [(party, self.features[party][index], index, float(x[index])) for index in used]
        return pl.DataFrame(atoms, kinds, orient="row")

    def __repr__(self) -> str:
        figures = "" if self.objective is None else f", objective {self.objective:.4g}"
        return (
            f"{type(self).__name__}({self.method}, run {self.run}: {self.status.value}{figures}; {self.coefficients!r})"
        )

    @property
    def history(self) -> pl.DataFrame:
        """One row a round."""
        import polars as pl

        return pl.DataFrame(list(self.notes), infer_schema_length=None)

    @property
    def l1_norm(self) -> float:
        return math.fsum(float(np.abs(x).sum()) for x in self.coefficients.values())
