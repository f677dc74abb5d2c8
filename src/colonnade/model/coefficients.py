"""Coefficients by party, of which some may be held elsewhere, and along the penalty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.errors import HeldByParty
from colonnade.kernels.arrays import Floats
from colonnade.notebook import Grid, shown

if TYPE_CHECKING:
    import polars as pl


class Coefficients(Mapping[str, Floats]):
    """Coefficients by party; those of a party that runs elsewhere stay there.

    Parameters
    ----------
    local
        By party, one number for each encoded column.
    elsewhere
        The parties that hold theirs.
    names
        By party, the names of its columns.
    """

    def __init__(
        self,
        local: Mapping[str, Floats],
        elsewhere: Sequence[str] = (),
        names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._local = dict(local)
        self._elsewhere = tuple(elsewhere)
        self._names = names or {}

    def __getitem__(self, party: str) -> Floats:
        if party in self._elsewhere:
            raise HeldByParty(f"the coefficients of {party!r} are held there and did not leave it; ask its operator.")
        if party not in self._local:
            raise KeyError(f"{party!r} has no columns in this model; parties with columns: {', '.join(self)}")
        return self._local[party]

    def __contains__(self, party: object) -> bool:
        return party in self._local or party in self._elsewhere  # to know that a party has some is not to see them

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

    def table(self) -> pl.DataFrame:
        """One row for each coefficient that is known here: party, feature, coefficient (and response, of several)."""
        import polars as pl

        kinds: dict[str, Any] = {"party": pl.String, "feature": pl.String, "coefficient": pl.Float64}
        if any(x.ndim > 1 for x in self._local.values()):
            kinds["response"] = pl.Int64
        return pl.DataFrame(list(self._lines("response" in kinds)), kinds, orient="row")

    def _lines(self, several: bool) -> Iterator[tuple[Any, ...]]:
        for party, x in self._local.items():
            names = self._names.get(party) or [f"x{k}" for k in range(len(x))]
            for name, values in zip(names, np.atleast_2d(x.T).T.tolist(), strict=True):
                yield from ((party, str(name), v, *((k,) if several else ())) for k, v in enumerate(values))

    def __repr__(self) -> str:
        held = [f"{p}: {np.count_nonzero(x):,} of {x.size:,} nonzero" for p, x in self._local.items()]
        return f"Coefficients({', '.join([*held, *(f'{p}: elsewhere' for p in self._elsewhere)])})"

    def _repr_html_(self) -> str:
        used = {party: f"{np.count_nonzero(x):,} of {x.size:,} are not 0" for party, x in self._local.items()}
        used |= dict.fromkeys(self._elsewhere, "held there")
        return shown("Coefficients", used, [self.largest()])

    def largest(self) -> Grid:
        """Those that are not 0, the largest first."""
        lines = sorted((line for line in self._lines(False) if line[2]), key=lambda line: -abs(line[2]))
        rows = [(party, name, f"{value:.4g}") for party, name, value in lines]
        return Grid("largest first, per unit of the encoded column", ("party", "feature", "coefficient"), rows, 1)


@dataclass(frozen=True, eq=False)
class CoefficientPath:
    """The model along its penalty: what the same release gives at other weights (or radii), for nothing.

    Parameters
    ----------
    weights
        Of the penalty, or radii of the set.
    coefficients
        By party, one row for each weight.
    """

    weights: Floats
    coefficients: Mapping[str, Floats]

    def table(self) -> pl.DataFrame:
        """Nonzero coefficients and their l1 norm at each weight."""
        import polars as pl

        whole = np.hstack(list(self.coefficients.values()))
        sizes = {"weight": self.weights, "nonzero": (whole != 0).sum(axis=1), "l1_norm": np.abs(whole).sum(axis=1)}
        return pl.DataFrame(sizes)
