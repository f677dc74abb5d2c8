"""What a question of the hub may hold: a bound for every field, from the party's own copy of the federation file.

A number in a question can ask for memory: a graph of a billion nodes is 80 bytes. So every field of a question, and of
the call in it, is compared with its bound as plain JSON, before a value is built, a policy asked or an operator
disturbed. K parties hold p columns of n rows. What has no line of its own in `CALL` falls under `OTHER`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput, WireError
from colonnade.network.parcel import LONGEST_NAME, Parcel, is_name
from colonnade.network.questions import Question
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.turns import MOST

CEILING = 8 << 20  # bytes of a head, whatever the federation
ROUNDS, STEPS, PATTERN = 10**7, 10**6, 4096
RUNS = 4096  # runs that one question tells the end of
WHOLE = 2**53
_DEPTH = 12
_SEED = 2**256
_CODE = 200  # letters of a word
_HOW = 100


@dataclass(frozen=True, slots=True)
class Sizes:
    """The federation in numbers."""

    parties: int
    columns: int
    rows: int
    name: int = LONGEST_NAME  # bytes of the longest name of a node

    @classmethod
    def of(cls, file: FederationFile, agreed: int = 0) -> Sizes:
        """`agreed` is the number of common rows, where a key matches them."""
        members = file.members.values()
        rows = sum(member.rows or 0 for member in members) if file.by == "rows" else file.rows or agreed
        names = [len(json.dumps(name)) for name in (*file.members, COORDINATOR)]
        return cls(len(members), sum(member.width for member in members), rows, max(names))

    @property
    def head(self) -> int:
        """Bytes of a question's head: room for the addresses of a turn, for the end of many runs, and for a call."""
        return min(CEILING, (1 << 20) + 2 * self.name * MOST + 64 * (self.columns + self.parties**2))


class Bound(NamedTuple):
    """A rule in words, and whether a plain value keeps it."""

    words: str
    kept: Callable[[Any, Sizes], bool]


def _text(most: int) -> Callable[[Any, Sizes], bool]:
    return lambda value, _: isinstance(value, str) and len(value) <= most


def _whole(value: Any, most: int) -> bool:
    return value is None or (type(value) is int and 0 <= value <= most)


def _list(value: Any, most: int, kept: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and len(value) <= most and all(map(kept, value))


def _table(value: Any, most: int, kept: Callable[[Any], bool], longest: int = LONGEST_NAME) -> bool:
    short = isinstance(value, dict) and len(value) <= most and all(len(name) <= longest for name in value)
    return short and all(map(kept, value.values()))


def _edges(value: Any, sizes: Sizes) -> bool:
    def below(node: Any) -> bool:
        return type(node) is int and 0 <= node < sizes.parties

    return _list(value, sizes.parties**2, lambda edge: _list(edge, 2, below) and len(edge) == 2)


def _rounds(value: Any, sizes: Sizes) -> bool:
    if isinstance(value, list):
        return _list(value, PATTERN, lambda edges: _edges(edges, sizes))
    return _whole(value, ROUNDS)


def _pair(value: Any, _: Sizes) -> bool:
    numbers = _list(value, 2, lambda one: type(one) in (int, float) and _small(one))
    return value is None or (numbers and len(value) == 2)


def _count(value: Any) -> int:
    """The leaves of nested lists."""
    return sum(_count(item) for item in value) if isinstance(value, list) else 1


def _leaves(value: Any, most: int) -> bool:
    """Numbers, or lists of numbers, so many in all; or a short word that stands for them."""
    if isinstance(value, list):
        return _count(value) <= most and all(_leaves(item, most) for item in value)
    return _small(value)


def _small(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _CODE
    return value is None or isinstance(value, bool | float) or (type(value) is int and abs(value) <= WHOLE)


def _is_place(value: Any) -> bool:
    """Where a log stands."""
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[1], str) and len(value[1]) <= 64):
        return False
    return value[0] is not None and _whole(value[0], WHOLE)


def _is_name(value: Any, _: Sizes) -> bool:
    return isinstance(value, str) and is_name(value)


# Fields of a call, by the names that they have in every value of colonnade.
CALL: dict[str, Bound] = {
    "size": Bound("a whole number, at most K", lambda value, s: _whole(value, s.parties)),
    "edges": Bound("at most K² pairs of numbers below K", _edges),
    "rounds": Bound(f"a whole number, at most {ROUNDS:,}; or at most {PATTERN:,} lists of edges", _rounds),
    "steps": Bound(f"a whole number, at most {STEPS:,}", lambda value, _: _whole(value, STEPS)),
    "draws": Bound(f"a whole number, at most {STEPS:,}", lambda value, _: _whole(value, STEPS)),
    "tau": Bound("a whole number, at most n + p", lambda value, s: _whole(value, s.rows + s.columns)),
    "sketch_rows": Bound("a whole number, at most n", lambda value, s: _whole(value, s.rows)),
    "seed": Bound("a whole number below 2²⁵⁶", lambda value, _: _whole(value, _SEED - 1)),
    "noise": Bound("a whole number below 2²⁵⁶", lambda value, _: _whole(value, _SEED - 1)),
    "groups": Bound("at most p numbers, in lists", lambda value, s: _leaves(value, s.columns)),
    "blocks": Bound("at most p numbers, in lists; or a word", lambda value, s: _leaves(value, s.columns)),
    "p": Bound("at most n + p numbers", lambda value, s: _leaves(value, s.rows + s.columns)),
    "values": Bound("at most n numbers", lambda value, s: _leaves(value, s.rows)),
    "label_range": Bound("two numbers", _pair),
    "entries": Bound("a table of at most K numbers, by party", lambda value, s: _table(value, s.parties, _small)),
}
OTHER = Bound(
    f"a number (whole: at most 2⁵³), yes or no, a word of at most {_CODE} letters, a list of at most K of these, "
    "or a value",
    lambda value, s: _small(value) or _list(value, s.parties, _small),
)

# Fields of a question's head.
FIELDS: dict[str, Bound] = {
    "run": Bound("a name: letters, digits and dashes, 64 at most", _is_name),
    "session": Bound("a name, or nothing", lambda value, s: value in (None, "") or _is_name(value, s)),
    "call": Bound("JSON, within the head; its fields below", lambda value, s: _text(s.head)(value, s)),
    "code": Bound(f"at most {_CODE} letters", _text(_CODE)),
    "peers": Bound(
        "at most K names", lambda value, s: _list(value, s.parties, lambda name: _text(LONGEST_NAME)(name, s))
    ),
    "peer": Bound(f"at most {LONGEST_NAME} letters", _text(LONGEST_NAME)),
    "heads": Bound(
        "a table of at most K + 1: a number of rows (at most 2⁵³) and 64 hexadecimal digits",
        lambda value, s: _table(value, s.parties + 1, _is_place),
    ),
    "when": Bound(f"at most {_HOW} letters", _text(_HOW)),
    "since": Bound(
        "a table of at most K + 1 whole numbers, at most 2⁵³",
        lambda value, s: _table(value, s.parties + 1, lambda count: count is not None and _whole(count, WHOLE)),
    ),
    "letters": Bound(
        f"at most {MOST:,} addresses of three texts, each at most {LONGEST_NAME} letters",
        lambda value, _: isinstance(value, list | tuple) and len(value) <= MOST,  # each is looked at when it is read
    ),
    "how": Bound(f"at most {_HOW} letters", _text(_HOW)),
    "over": Bound(
        f"a table of at most {RUNS:,} runs: 64 letters, and at most {_HOW} on how each ended",
        lambda value, s: _table(value, RUNS, lambda how: _text(_HOW)(how, s), 64),
    ),
}


def check_question(what: Question, asked: Parcel, sizes: Sizes) -> None:
    """Refuse a question with a field that this version does not know, or that is over its bound."""
    for name, value in asked.head.items():
        if name == "what":
            continue
        if name not in FIELDS:
            raise WireError(f"the question {what!r} has a field that no question has in this version")
        if not FIELDS[name].kept(value, sizes):
            raise WireError(f"{name} of the question {what!r} is over its bound: {FIELDS[name].words}")


def check_call(text: str, sizes: Sizes) -> None:
    """Refuse a call with a field over its bound, before any value is made of it."""
    if len(text) > sizes.head:
        raise InvalidInput(f"a job of {len(text):,} bytes is over the {sizes.head:,} that this federation may propose.")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the coordinator proposes no job that this version of colonnade knows.") from error
    _check_value(raw, sizes, "call", _DEPTH)


def _check_value(raw: Any, sizes: Sizes, where: str, depth: int) -> None:
    if not isinstance(raw, Mapping):
        raise InvalidInput(f"{where} of the proposed job is not a value of colonnade.")
    if depth == 0 or len(raw) > 64:
        raise InvalidInput(f"{where} of the proposed job is deeper or wider than any value of colonnade.")
    for name, value in raw.items():
        rule = CALL.get(name)
        if rule is None and isinstance(value, Mapping):
            _check_value(value, sizes, name[:_CODE], depth - 1)
        elif not (rule or OTHER).kept(value, sizes):
            raise InvalidInput(
                f"{name[:_CODE]} of the proposed job is over its bound: {(rule or OTHER).words} (K = {sizes.parties:,} "
                f"parties, p = {sizes.columns:,} columns, n = {sizes.rows:,} rows)."
            )
