"""What may be asked: a bound for every field of a call that a hub proposes, by the sizes of the federation; and of each
peer so many requests at once, and so many a second after that.

Calls    a number in a call can ask for memory: a graph of a billion nodes is 80 bytes. So every field is compared with
         its bound, from the party's own copy of the federation file, as plain JSON: before a value is built, a policy
         asked or an operator disturbed. K parties hold p columns of n rows. What has no line of its own in `CALL` falls
         under `OTHER`.
Rates    a bucket of `burst` tokens a name, which fills by `rate` tokens a second (a token bucket). Whoever finds it
         empty is refused and told after how many seconds one is there again. Names whose bucket is full again say
         nothing about anybody and are forgotten; where `MOST_NAMES` others are not full, a new name waits as if its
         bucket were empty: memory is bounded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from colonnade.data.federation_file import FederationFile, SplitBy
from colonnade.errors import InvalidInput
from colonnade.fields import parse_json

CEILING = 8 << 20  # bytes of a call, whatever the federation
ROUNDS = 10**7
STEPS = 10**6
PATTERN = 4096
WHOLE = 2**53
_DEPTH = 12
_SEED = 2**256
_CODE = 200  # letters of a word


@dataclass(frozen=True, slots=True)
class Sizes:
    """The federation in numbers."""

    parties: int
    columns: int
    rows: int

    @classmethod
    def of(cls, file: FederationFile, agreed: int = 0) -> Sizes:
        """`agreed` is the number of common rows, where a key matches them."""
        members = file.members.values()
        rows = sum(member.rows or 0 for member in members) if file.by == SplitBy.ROWS else file.rows or agreed
        return cls(len(members), sum(member.width for member in members), rows)

    @property
    def call(self) -> int:
        """Bytes of a call."""
        return min(CEILING, (2 << 20) + 64 * (self.columns + self.parties**2))


class Bound(NamedTuple):
    """A rule in words, and whether a plain value keeps it."""

    words: str
    kept: Callable[[Any, Sizes], bool]


def _whole(value: Any, most: int) -> bool:
    return value is None or (type(value) is int and 0 <= value <= most)


def _list(value: Any, most: int, kept: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and len(value) <= most and all(map(kept, value))


def _table(value: Any, most: int, kept: Callable[[Any], bool]) -> bool:
    short = isinstance(value, dict) and len(value) <= most and all(len(name) <= _CODE for name in value)
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
    "looked": Bound("two numbers", _pair),
    "entries": Bound("a table of at most K numbers, by party", lambda value, s: _table(value, s.parties, _small)),
}
OTHER = Bound(
    f"a number (whole: at most 2⁵³), yes or no, a word of at most {_CODE} letters, a list of at most K of these, "
    "or a value",
    lambda value, s: _small(value) or _list(value, s.parties, _small),
)


def check_call(text: str, sizes: Sizes) -> None:
    """Refuse a call with a field over its bound, before any value is made of it."""
    if len(text) > sizes.call:
        raise InvalidInput(f"a job of {len(text):,} bytes is over the {sizes.call:,} that this federation may propose.")
    try:
        _check_value(parse_json(text), sizes, "call", _DEPTH)
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the coordinator proposes no job that this version of colonnade knows.") from error


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


MOST_NAMES = 4096  # names that are not full


class RateLimit:
    """`allow(name)` takes a token: 0 if there was one, else the seconds until there is."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = burst
        self._clock = clock
        # When the bucket of a name will be full again.
        self._full_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def allow(self, name: str) -> float:
        with self._lock:
            now = self._clock()
            if name not in self._full_at and len(self._full_at) >= MOST_NAMES:
                self._full_at = {one: when for one, when in self._full_at.items() if when > now}
                if len(self._full_at) >= MOST_NAMES:
                    return min(self._full_at.values()) - now
            full_at = max(self._full_at.get(name, now), now) + 1 / self.rate
            late = full_at - now - self.burst / self.rate
            if late > 1e-9:
                return late
            self._full_at[name] = full_at
            return 0.0
