"""What each column adds to a score, by party; and who may see which part of it.

A part is made of a party's rows and of its coefficients, so it is made where both are. Of a party that runs elsewhere
there is none here: asking for it raises HeldByParty, as its coefficients do, and so does the sum of all parts. What is
handed on follows the same rule (`seen_by`): a party sees its own columns, and the label holder the sum beside them,
which masked scores (`co.score`) tell it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from colonnade.data.schema.column import spans_of
from colonnade.errors import HeldByParty, InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.privacy.block import Block

if TYPE_CHECKING:
    import polars as pl

    from colonnade.runs.result import Fit


class Contribution(NamedTuple):
    """What one column adds to one row's score."""

    party: str
    column: str
    value: float


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Scores taken apart: intercept + the sum of all contributions of a row = its score.

    Parameters
    ----------
    intercept
        What every score begins with.
    parts
        By party and declared column, one number a row.
    label
        The party that may learn sums.
    rows
        How many there are.
    elsewhere
        Parties whose parts are with them.
    left_out
        Parties without which the scores are made.
    known
        Scores, where the parts do not say them.
    """

    intercept: float
    parts: Mapping[str, Mapping[str, Floats]]
    label: str
    rows: int
    elsewhere: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    known: Floats | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        columns = sum(map(len, self.parts.values()))
        away = f"; parts of {', '.join(self.elsewhere)} are held there" if self.elsewhere else ""
        return f"Explanation({self.rows:,} rows, {columns:,} columns of {', '.join(self.parts)}{away})"

    def of(self, party: str) -> Mapping[str, Floats]:
        """A party's contributions by column.

        Parameters
        ----------
        party
            Its name.

        Raises
        ------
        HeldByParty
            They are with the party.
        """
        if party in self.elsewhere:
            raise HeldByParty(f"the contributions of {party!r} are made of its rows, there; ask its operator.")
        if party not in self.parts:
            raise InvalidInput(f"{party!r} has no part in these scores; parties: {', '.join(self.parts)}.")
        return self.parts[party]

    def total(self, party: str) -> Floats:
        """A party's part of every score.

        Parameters
        ----------
        party
            Its name.
        """
        return np.asarray(sum(self.of(party).values(), np.zeros(self.rows)))

    @property
    def scores(self) -> Floats:
        """The scores, where all parts are here."""
        if self.known is not None:
            return self.known
        for party in self.elsewhere:
            self.of(party)
        return np.asarray(self.intercept + sum((self.total(party) for party in self.parts), np.zeros(self.rows)))

    @property
    def table(self) -> pl.DataFrame:
        """A column for each contribution, named party:column; then intercept and score, where that is known."""
        import polars as pl

        columns = {f"{party}:{name}": part for party, own in self.parts.items() for name, part in own.items()}
        if not self.elsewhere or self.known is not None:
            columns |= {"intercept": np.full(self.rows, self.intercept), "score": self.scores}
        return pl.DataFrame(columns)

    def row(self, place: int) -> list[Contribution]:
        """The contributions to one score that are known here, the largest first.

        Parameters
        ----------
        place
            Of the row, from 0 on.
        """
        every = [
            Contribution(party, name, float(part[place]))
            for party, own in self.parts.items()
            for name, part in own.items()
        ]
        return sorted(every, key=lambda one: -abs(one.value))

    def seen_by(self, party: str) -> Explanation:
        """What may be handed to a party: its own columns; to the label holder the scores as well.

        Parameters
        ----------
        party
            Its name.
        """
        if party not in (*self.parts, *self.elsewhere, self.label):
            raise InvalidInput(f"{party!r} has no part in these scores; parties: {', '.join(self.parts)}.")
        if party in self.elsewhere:
            self.of(party)
        others = tuple(name for name in (*self.parts, *self.elsewhere) if name != party)
        own = {party: self.parts[party]} if party in self.parts else {}
        known = self.scores if party == self.label and others else None
        return replace(self, parts=own, elsewhere=others, known=known)


def contributions(fit: Fit, party: str, block: Block) -> dict[str, Floats]:
    """By declared column of a party, what it adds to every row's score; without a schema, by encoded column."""
    x = fit.coefficients[party]
    schema = fit.schemas.get(party)
    if schema is None:
        return {str(name): _dot(block, x, k, k + 1) for k, name in enumerate(fit.features[party])}
    return {column.name: _dot(block, x, own.start, own.stop) for column, own in spans_of(schema.columns)}


def _dot(block: Block, x: Floats, first: int, end: int) -> Floats:
    return np.asarray(block.matrix[:, first:end] @ x[first:end], np.float64)


def explain(
    fit: Fit,
    blocks: Mapping[str, Block],
    order: Any,
    rows: int,
    elsewhere: Sequence[str],
    left_out: Sequence[str],
) -> Explanation:
    """The explanation of rows whose blocks are here, in the order in which they were given."""
    parts = {
        party: {name: part[order] for name, part in contributions(fit, party, block).items()}
        for party, block in blocks.items()
    }
    return Explanation(fit.intercept, parts, fit.label, rows, tuple(elsewhere), tuple(left_out))
