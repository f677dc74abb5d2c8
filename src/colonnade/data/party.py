"""One party of a federation: its columns, its policy and its name; and how many rows all parties share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.schema.column import spans_of
from colonnade.data.schema.table import Schema, Source
from colonnade.errors import InvalidInput
from colonnade.model.job import Known
from colonnade.notebook import Grid, shown
from colonnade.privacy.block import Block
from colonnade.privacy.events import Policy
from colonnade.runtime.program import COORDINATOR

LABELS = "labels"
OPEN = Policy(exact=True)  # the default in process: whoever makes a federation from a table holds all of it


@dataclass(frozen=True, eq=False)
class Party:
    """One data holder: its encoded columns, how they were encoded, and what it allows."""

    name: str
    block: Block
    features: Sequence[str]
    policy: Policy
    schema: Schema | None = None  # None: a plain matrix, about which nothing is public but its width


@dataclass(frozen=True, slots=True)
class Alignment:
    """How many rows each party brought, and how many all of them have.

    Parameters
    ----------
    rows
        By party, what it brought.
    matched
        How many rows all parties have.
    surplus
        Matched, and left out because their person has more rows than a unit may.
    """

    rows: Mapping[str, int]
    matched: int
    surplus: int = 0

    @property
    def left_out(self) -> dict[str, int]:
        """By party, how many of its rows are not at every other."""
        return {party: count - self.matched for party, count in self.rows.items()}

    def __str__(self) -> str:
        parts = (f"{party} {count:,}" for party, count in self.left_out.items() if count)
        surplus = f"; {self.surplus:,} surplus rows of people with many" if self.surplus else ""
        return f"{self.matched:,} rows matched in all parties; left out: {', '.join(parts) or 'none'}{surplus}"


class LazyNames(Sequence[str]):
    """Names of some columns of a table, made when asked for: a million columns need no million strings."""

    def __init__(self, names: Sequence[str] | None, places: Sequence[int], word: str = "x") -> None:
        self._names = names
        self._places = places
        self._word = word

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        place = self._places[i]
        return self._names[place] if self._names is not None else f"{self._word}{place}"


def widths_under(party: Party, schema: Schema | None) -> NDArray[np.int64]:
    """How many columns each of a party's becomes under another schema that bends some of them."""
    widths = np.ones(party.block.columns, np.int64)
    if schema is None or party.schema is None:
        return widths
    old = spans_of(party.schema.columns)
    new = spans_of(schema.columns)
    # Among them the hats of a curve that was asked for.
    for (_, own), (_, other) in zip(old, new, strict=True):
        widths[own.start] += (other.stop - other.start) - (own.stop - own.start)
    return widths


def public_bounds(schema: Schema) -> Known:
    """What a schema says in public about the columns that it encodes."""
    proven = schema.row_bound()
    norm = proven if schema.row_norm is None else min(proven, schema.row_norm)
    bounds = schema.entry_bounds()
    binary = schema.binary.tolist()
    nonnegative = schema.nonnegative.tolist()
    levels = schema.level if any(schema.level) else ()
    directions = schema.monotone if any(schema.monotone) else ()
    return Known(tuple(map(float, bounds)), tuple(binary), tuple(nonnegative), norm, norm == proven, levels, directions)


_BOUNDS: dict[str, str] = {
    Source.DECLARED: "declared",
    Source.DATA: "read off the rows",
    Source.PUBLIC: "declared public",
}


def shown_parties(
    parties: Iterable[Party], alignment: Alignment, label: str, column: str | None, on: str | None
) -> str:
    """A federation in a notebook: who holds what, and what leaves at most."""
    rows = []
    for party in parties:
        bounds = "none" if party.schema is None else _BOUNDS[party.schema.source]
        budget = "" if party.policy.epsilon is None else f"epsilon {party.policy.epsilon:g} in all"
        allows = budget or ("exact values may leave" if party.policy.exact else "noisy values only")
        names = ", ".join(map(str, party.features[:6])) + (" …" if len(party.features) > 6 else "")
        held = f"{alignment.rows.get(party.name, party.block.rows):,}"
        rows.append((party.name, names, bounds, allows, f"{party.block.columns:,}", held))
    facts = {"label": f"{label}: {column}" if column else f"at {label}", "key": on or "", "rows": str(alignment)}
    head = ("party", "encoded columns", "bounds", "policy", "columns", "rows")
    return shown("Federation", facts, [Grid("", head, rows, 2)])


# ------------------------------------------------------------------------------------------------ names


def check_party_names(names: Iterable[str]) -> None:
    for name in names:
        if not (isinstance(name, str) and name and name == name.strip() and name.isprintable() and "/" not in name):
            raise InvalidInput(f"{name!r} cannot name a party: use a short text without slashes or outer spaces.")
        if name == COORDINATOR:
            raise InvalidInput(f"{COORDINATOR!r} is the coordinator's name; give the party another.")


def require_party(name: str, parties: Iterable[str], where: str) -> None:
    if name not in parties:
        raise InvalidInput(f"{where} names {name!r}, which is not a party; there are {list_names(parties)}.")


def list_names(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8:,} more" if len(shown) > 8 else "")
