"""What a statement rests on, what breaks it and what its reader must know: a code with its figures, and its words.

A statement carries one list of conditions. The sentence, the verdict of a terminal, the report, the officer's page and
what an operator is asked are written from that list; whoever decides something reads codes, never words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from colonnade.privacy.events import shown


class Kind(StrEnum):
    """What a condition does to a statement; also the words before it."""

    HOLDS_IF = "holds if"  # it rests on this, beyond what docs/understand/privacy.md assumes of every run
    BROKEN_BY = "broken by"  # somebody can do this, and what follows for the others
    NOTE = "note"  # what a reader must know of the figures themselves


class Code(StrEnum):
    """Every condition there is, by the name that files keep."""

    MASKS = "masks"
    LATTICES = "lattices"
    KEYED_HASH = "keyed hash"
    KEYED_STREAM = "keyed stream"
    PROTOCOL = "protocol"
    COORDINATOR_ALONE = "coordinator alone"
    MEMBERS_TRUSTED = "members trusted"
    PAPER = "paper"
    POOLING = "pooling"
    FORGING = "forging"
    CHEATING = "cheating"
    READERS_ONLY = "readers only"
    POOLED_PARTS = "pooled parts"
    PLACE_BY_HASH = "place by hash"
    PLACE_BY_KEY = "place by key"
    PLACE_BY_TABLE = "place by table"
    LARGE_DELTA = "large delta"
    BOUNDS_READ_OFF = "bounds read off"
    LOOKED_AT = "looked at"
    LOOKED_BESIDE = "looked at beside"
    LEDGERS_REPLACED = "ledgers replaced"
    PARTIES_LOST = "parties lost"


def _nothing(figures: tuple[Any, ...]) -> bool:
    return not figures


def _one_text(figures: tuple[Any, ...]) -> bool:
    return len(figures) == 1 and _texts(figures)


def _texts(figures: tuple[Any, ...]) -> bool:
    return bool(figures) and all(isinstance(one, str) for one in figures)


def _one_figure(figures: tuple[Any, ...]) -> bool:
    return len(figures) == 1 and type(figures[0]) is float and figures[0] >= 0.0


def _two_figures(figures: tuple[Any, ...]) -> bool:
    return len(figures) == 2 and all(_one_figure((one,)) for one in figures)


def _pairs(figures: tuple[Any, ...]) -> bool:
    return bool(figures) and all(isinstance(one, tuple) and len(one) == 2 and _texts(one) for one in figures)


def _bits_of_secrets(figures: tuple[Any, ...]) -> bool:
    return not figures or ([type(one) for one in figures] == [int, int, int] and min(figures) >= 0)


def _delta_of_a_count(figures: tuple[Any, ...]) -> bool:
    return [type(one) for one in figures] == [float, int, str] and 0.0 < figures[0] < 1.0 and figures[1] >= 1


@dataclass(frozen=True, slots=True)
class Meaning:
    """The words of a code, in full and for a line; after "holds if" and "broken by" they complete the sentence."""

    kind: Kind
    full: str | Callable[..., str]  # of the figures
    short: str | Callable[..., str] = ""  # for the verdict of a terminal; empty: it is not said there
    computational: bool = False  # it is about what nobody can compute: epsilon holds for no adversary without a limit
    takes: Callable[[tuple[Any, ...]], bool] = _nothing  # whether these are its figures


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a statement."""

    code: Code
    figures: tuple[Any, ...] = ()

    @property
    def kind(self) -> Kind:
        return MEANINGS[self.code].kind

    @property
    def computational(self) -> bool:
        return MEANINGS[self.code].computational

    @property
    def full(self) -> str:
        return self._said(MEANINGS[self.code].full)

    @property
    def short(self) -> str:
        return self._said(MEANINGS[self.code].short)

    def _said(self, words: str | Callable[..., str]) -> str:
        return words if isinstance(words, str) else words(*self.figures)

    def to_plain(self) -> dict[str, Any]:
        """For a file: what it is, without words."""
        return {"code": str(self.code), "figures": list(self.figures)}

    @classmethod
    def from_plain(cls, raw: Mapping[str, Any]) -> Condition:
        """What `to_plain` wrote; ValueError where a file names no code, or figures that its words cannot say."""
        code = Code(raw["code"])
        figures = raw["figures"]
        if not (isinstance(figures, list) and MEANINGS[code].takes(_as_tuples(figures))):
            raise ValueError(f"no figures of {code.value!r}: {figures!r}")
        return cls(code, _as_tuples(figures))


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


def of_kind(conditions: Iterable[Condition], kind: Kind) -> list[Condition]:
    return [one for one in conditions if one.kind is kind]


def as_clause(conditions: Iterable[Condition], kind: Kind) -> str:
    """What all conditions of a kind say, as one clause."""
    joint = "; and if " if kind is Kind.HOLDS_IF else "; "
    return joint.join(one.full for one in of_kind(conditions, kind))


def in_short(conditions: Iterable[Condition], kind: Kind) -> str:
    """What all conditions of a kind say in a few words."""
    return " and ".join(one.short for one in of_kind(conditions, kind) if one.short)


def by_kind(conditions: Sequence[Condition]) -> dict[str, str]:
    """What the conditions say, a clause a kind."""
    said = {str(kind): as_clause(conditions, kind) for kind in Kind}
    return {kind: clause for kind, clause in said.items() if clause}


# ------------------------------------------------------------------------------------------------ words

_PLACE = "what leaves depends on the place of a row"
_ALONE = "the coordinator pools nothing with a party"
_TRUSTED = "parties, coordinator and their links are trusted"


def _lwe(secrets: int = 0, classical: int = 0, quantum: int = 0) -> str:
    work = f"{classical} bits of work for all {secrets:,} secrets of the run, {quantum} on a quantum computer: core-SVP"
    by = f"{work}, by" if secrets else "by"
    return (
        "nobody can solve learning with errors (LWE) at the parameters that docs/understand/privacy/lwe.md names, with "
        f"the hints that published sums give ({by} an estimate of ours that no outside cryptographer has read), or "
        "break AES-256, HKDF and X25519"
    )


def _lwe_in_short(secrets: int = 0, classical: int = 0, quantum: int = 0) -> str:
    work = f": {classical} bits of work, {quantum} on a quantum computer, by our own estimate" if secrets else ""
    return f"nobody solves learning with errors (LWE{work})"


def _large_delta(delta: float, count: int, what: str) -> str:
    limit = f"1/{what} = {1.0 / count:.2g}"
    return f"delta={delta:g} is not below {limit}: publishing one of them at random would satisfy it"


def _read_off(*parties: str) -> str:
    return f"bounds were read from the data and declared public ({', '.join(parties)})"


def _looked_at(spent: float) -> str:
    return f"bounds, levels and quantiles that nobody declared were looked for before, for epsilon {shown(spent)} of it"


def _looked_beside(spent: float, both: float) -> str:
    return (
        f"bounds, levels and quantiles that nobody declared were looked for before, for epsilon {shown(spent)} beside "
        f"this; both together cost epsilon {shown(both)}"
    )


def _replaced(*ledgers: Sequence[str]) -> str:
    days: dict[str, list[str]] = {}
    for node, when in ledgers:
        days.setdefault(node, []).append(when[:10])
    said = [f"that of {node} on {', '.join(found)}" for node, found in days.items()]
    lost = (
        "ledger was replaced after it was lost" if len(ledgers) == 1 else "ledgers were replaced after they were lost"
    )
    return f"{len(ledgers):,} {lost}: {'; '.join(said)}. What only a lost ledger had counted is in no later sum"


def _lost(*parties: Sequence[str]) -> str:
    said = "; ".join(f"{party} was lost {when}" for party, when in parties)
    paid = "The price is that of the whole plan, and the noise was made for it: what had left anybody is spent"
    return f"{said}. {paid}, and nothing of it was released again"


MEANINGS: Mapping[Code, Meaning] = {
    Code.MASKS: Meaning(
        Kind.HOLDS_IF,
        "nobody can undo the masks (AES-256, HKDF and X25519 do what they are for)",
        computational=True,
    ),
    Code.LATTICES: Meaning(Kind.HOLDS_IF, _lwe, _lwe_in_short, computational=True, takes=_bits_of_secrets),
    Code.KEYED_HASH: Meaning(
        Kind.HOLDS_IF,
        "nobody tells the keyed hash that orders the rows from a random one",
        "nobody tells a keyed hash from random numbers",
        computational=True,
    ),
    Code.KEYED_STREAM: Meaning(
        Kind.HOLDS_IF,
        "nobody tells a ChaCha20 stream under 32 bytes of the operating system, by which columns were picked, from "
        "random bits",
        "nobody tells a ChaCha20 stream from random bits",
        computational=True,
    ),
    Code.PROTOCOL: Meaning(Kind.HOLDS_IF, "parties and coordinator follow the protocol", "all follow the protocol"),
    Code.COORDINATOR_ALONE: Meaning(Kind.HOLDS_IF, _ALONE, _ALONE),
    Code.MEMBERS_TRUSTED: Meaning(Kind.HOLDS_IF, _TRUSTED, _TRUSTED),
    Code.PAPER: Meaning(Kind.HOLDS_IF, lambda says: says, takes=_one_text),
    Code.POOLING: Meaning(
        Kind.BROKEN_BY,
        "a coordinator and a party that pool what they have: whatever epsilon is, they read exactly the columns of all "
        "partners of that party, and the labels, in every stage under masks, with purpose='prediction' and with "
        "purpose='inference'",
        "a coordinator and a party that pool what they have (they read columns and labels)",
    ),
    Code.FORGING: Meaning(
        Kind.BROKEN_BY,
        "a party that breaks the protocol: whatever epsilon is, by masked numbers far beyond its bounds it reads, off "
        "what is released, about one row of its partners, labels included, for each column that it holds, and more "
        "rows where cells have few values",
        "a party that cheats (it reads about one row of its partners, or more, for each column that it holds)",
    ),
    Code.CHEATING: Meaning(
        Kind.BROKEN_BY,
        "a party that cheats: whatever epsilon is, it can read its partners' rows",
        "a party that cheats (it can read its partners' rows)",
    ),
    Code.READERS_ONLY: Meaning(
        Kind.NOTE,
        "it protects against readers of the model alone: the parties and their coordinator see exact values",
    ),
    Code.POOLED_PARTS: Meaning(
        Kind.NOTE,
        "parties and coordinator may pool all they have: it then holds for the parts of a row that the others have",
    ),
    Code.PLACE_BY_HASH: Meaning(
        Kind.NOTE,
        f"{_PLACE}, in the order of a keyed hash of the key. Against whoever lacks its secret a replaced row has "
        "another key, too; against parties, who know the common keys and their order, neighbours keep their keys, and "
        "who is among the common rows is not protected",
    ),
    Code.PLACE_BY_KEY: Meaning(
        Kind.NOTE,
        f"{_PLACE}, in the order of the key, since public labels go by it: neighbours keep their keys, and who is "
        "among the common rows is not protected",
    ),
    Code.PLACE_BY_TABLE: Meaning(
        Kind.NOTE, f"{_PLACE}: a row is known by its place in the table, and neighbours keep their places"
    ),
    Code.LARGE_DELTA: Meaning(Kind.NOTE, _large_delta, takes=_delta_of_a_count),
    Code.BOUNDS_READ_OFF: Meaning(Kind.NOTE, _read_off, takes=_texts),
    Code.LOOKED_AT: Meaning(Kind.NOTE, _looked_at, takes=_one_figure),
    Code.LOOKED_BESIDE: Meaning(Kind.NOTE, _looked_beside, takes=_two_figures),
    Code.LEDGERS_REPLACED: Meaning(Kind.NOTE, _replaced, takes=_pairs),
    Code.PARTIES_LOST: Meaning(Kind.NOTE, _lost, takes=_pairs),
}

MASKS = Condition(Code.MASKS)
LATTICES = Condition(Code.LATTICES)
KEYED_HASH = Condition(Code.KEYED_HASH)
KEYED_STREAM = Condition(Code.KEYED_STREAM)
PROTOCOL = Condition(Code.PROTOCOL)
COORDINATOR_ALONE = Condition(Code.COORDINATOR_ALONE)
MEMBERS_TRUSTED = Condition(Code.MEMBERS_TRUSTED)
POOLING = Condition(Code.POOLING)
FORGING = Condition(Code.FORGING)
CHEATING = Condition(Code.CHEATING)
READERS_ONLY = Condition(Code.READERS_ONLY)
POOLED_PARTS = Condition(Code.POOLED_PARTS)
PLACE_BY_HASH = Condition(Code.PLACE_BY_HASH)
PLACE_BY_KEY = Condition(Code.PLACE_BY_KEY)
PLACE_BY_TABLE = Condition(Code.PLACE_BY_TABLE)
