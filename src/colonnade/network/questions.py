"""What the hub asks a party: every question by name, its bytes, and a bound for every field.

A question and its answer are parcels, a small table of texts and numbers, and blobs behind it:

    "clp1" | length of the head (4 bytes, little-endian) | head, JSON | the blobs, one behind the other

The head's "blobs" are their lengths. Any bytes at all end in a parcel or a WireError; nothing is executed or imported.
A turn's head is nearly always that of the turn before, so short ones are remembered; no other head is, since it may be
large or hold what should not stay in memory.

A number in a question can ask for memory: a graph of a billion nodes is 80 bytes. So every field of a question, and of
the call in it, is compared with its bound, from the party's own copy of the federation file, as plain JSON: before a
value is built, a policy asked or an operator disturbed. K parties hold p columns of n rows. What has no line of its own
in `CALL` falls under `OTHER`.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput, WireError
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.turns import MOST
from colonnade.runtime.wire import Letter

_PROPOSAL = ("run", "call", "code", "session")
_ALIGNING = ("session", "peers")


class Phase(Enum):
    """How far things have come when a question is asked."""

    BEFORE = auto()
    ALIGNING = auto()
    CONSIDERED = auto()
    PROPOSED = auto()
    MEETING = auto()
    RUNNING = auto()


class Question(StrEnum):
    """A question by its name on the wire; `fields` are those that its head may have beside the name."""

    phase: Phase
    fields: tuple[str, ...]

    HELLO = "hello", Phase.BEFORE
    REACH = "reach", Phase.BEFORE
    CONSIDER = "consider", Phase.CONSIDERED, *_PROPOSAL
    RESERVE = "reserve", Phase.PROPOSED, *_PROPOSAL
    MEET = "meet", Phase.MEETING, "run", "peers"
    VERIFY = "verify", Phase.BEFORE, "run"
    STANDING = "standing", Phase.BEFORE, "run"
    VOUCH = "vouch", Phase.BEFORE, "run", "heads"
    REMEMBER = "remember", Phase.BEFORE, "run", "when", "heads"
    JOIN = "join", Phase.RUNNING, "run"
    RESEND = "resend", Phase.RUNNING, "run", "since"
    TURN = "turn", Phase.RUNNING, "run", "letters"
    OUTCOME = "outcome", Phase.RUNNING, "run"
    LEARNED = "learned", Phase.RUNNING, "run", "basis"
    OVER = "over", Phase.BEFORE, "run", "how"
    SETTLE = "settle", Phase.BEFORE, "run", "over"
    GREET = "greet", Phase.ALIGNING, *_ALIGNING
    SHARE = "share", Phase.ALIGNING, *_ALIGNING
    OFFER = "offer", Phase.ALIGNING, *_ALIGNING
    SHOW = "show", Phase.ALIGNING, *_ALIGNING, "block"
    SEEK = "seek", Phase.ALIGNING, *_ALIGNING, "peer", "block"
    BLIND = "blind", Phase.ALIGNING, *_ALIGNING, "block"
    KEEP = "keep", Phase.ALIGNING, *_ALIGNING, "peer", "block", "part"
    NARROW = "narrow", Phase.ALIGNING, *_ALIGNING, "peer"
    TELL = "tell", Phase.ALIGNING, *_ALIGNING
    AGREED = "agreed", Phase.ALIGNING, *_ALIGNING

    def __new__(cls, name: str, phase: Phase = Phase.BEFORE, *fields: str) -> Question:
        made = str.__new__(cls, name)
        made._value_ = name
        made.phase, made.fields = phase, fields
        return made

    def __repr__(self) -> str:
        return repr(self.value)


# ------------------------------------------------------------------------------------------------ parcels

_MAGIC = b"clp1"
_LENGTH = struct.Struct("<4sI")
LARGEST_HEAD = 16 << 20
LAST_ROUND = 1 << 32  # no run gets there; a receiver counts on from the number that a letter carries
LONGEST_NAME = 200
_FEW = 64  # blobs of a head that is remembered when it is written
_SHORT = 8 << 10  # bytes of a head that is remembered when it is read
# Names that the hub chooses become keys of records and names of files, so they are letters, digits and dashes.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


class Parcel(NamedTuple):
    """One question, or its answer."""

    head: Mapping[str, Any]
    blobs: tuple[bytes, ...] = ()


def pack(head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """The bytes of a parcel. Tuples in the head hold texts only: heads are cached, and 1 and True are the same key."""
    sizes = tuple(map(len, blobs))
    try:
        write = _remembered if "letters" in head and len(sizes) <= _FEW else _written
        start = write(tuple(head.items()), sizes, tuple(map(type, head.values())))
    except TypeError:  # a table in it, which cannot be a key
        start = _written(tuple(head.items()), sizes)
    return b"".join((start, *blobs))


def _written(head: tuple[tuple[str, Any], ...], sizes: tuple[int, ...], _: tuple[type, ...] = ()) -> bytes:
    text = json.dumps({**dict(head), "blobs": sizes}).encode()
    return _LENGTH.pack(_MAGIC, len(text)) + text


_remembered = lru_cache(maxsize=256)(_written)


def unpack(raw: bytes, largest: int = LARGEST_HEAD) -> Parcel:
    try:
        magic, length = _LENGTH.unpack_from(raw)
        start = _LENGTH.size + length
        if magic != _MAGIC or length > min(len(raw) - _LENGTH.size, largest):
            raise WireError("not a parcel of this version of colonnade")
        text = raw[_LENGTH.size : start]
        head, sizes = _recalled(text) if b'"letters"' in text[:_SHORT] and length <= _SHORT else _read(text)
        if sum(sizes) != len(raw) - start:
            raise WireError("a parcel whose contents do not add up")
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"a malformed parcel: {type(error).__name__}") from error
    blobs, at = [], start
    for size in sizes:
        blobs.append(raw[at : at + size])
        at += size
    return Parcel(head, tuple(blobs))


def _read(text: bytes) -> tuple[Mapping[str, Any], tuple[int, ...]]:
    """A head, and the lengths of what stands behind it."""
    head = json.loads(str(text, "utf-8"))
    sizes = tuple(head.pop("blobs"))
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise WireError("a parcel whose contents do not add up")
    if isinstance(addresses := head.get("letters"), list):
        head["letters"] = tuple(tuple(x) if isinstance(x, list) else x for x in addresses)
    return MappingProxyType(head), sizes


_recalled = lru_cache(maxsize=256)(_read)


def letters_out(letters: Sequence[Letter], run: str) -> tuple[tuple[tuple[str, str, str], ...], list[bytes]]:
    """Addresses for the head; for the blobs of each letter the head of its frame, and the body."""
    parts = [part for x in letters for part in (x.head(run), x.body)]
    return tuple([(x.sender, x.receiver, x.inside) for x in letters]), parts


def letters_in(addresses: Any, parts: Sequence[bytes], run: str) -> list[Letter]:
    """The letters of a parcel, each frame checked against its digest and its run."""
    if not (type(addresses) is tuple and 2 * len(addresses) == len(parts)):
        raise WireError("letters and addresses do not match")
    letters = []
    for place, address in enumerate(addresses):
        sender, receiver, inside = _address(address)
        letter = Letter.read(sender, receiver, inside, parts[2 * place], parts[2 * place + 1], run)
        if letter.round > LAST_ROUND:
            raise WireError("a letter of a round that no run reaches")
        letters.append(letter)
    return letters


def _address(raw: Any) -> tuple[str, str, str]:
    if type(raw) is not tuple or list(map(type, raw)) != [str, str, str]:
        raise WireError("a letter without an address")
    if max(map(len, raw)) > LONGEST_NAME:
        raise WireError("a letter with an address that is too long")
    return raw


def plain_heads(heads: Mapping[str, tuple[int, bytes]]) -> dict[str, list[Any]]:
    """Where ledgers stand, as a head says it."""
    return {peer: [count, at.hex()] for peer, (count, at) in heads.items()}


def text_in(asked: Parcel, name: str) -> str:
    value = asked.head.get(name)
    if not (isinstance(value, str) and value):
        raise WireError(f"a question without {name}")
    return value


def names_in(asked: Parcel, name: str) -> list[str]:
    value: Any = asked.head.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WireError(f"a question without {name}")
    if len(set(value)) != len(value):
        raise WireError(f"a question with a name twice in {name}")
    return list(value)


def is_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None


def name_in(asked: Parcel, name: str) -> str:
    value = text_in(asked, name)
    if not is_name(value):
        raise WireError(f"a question whose {name} is not a name: letters, digits and dashes, 64 at most")
    return value


# ------------------------------------------------------------------------------------------------ bounds

CEILING = 8 << 20  # bytes of a head, whatever the federation
ROUNDS, STEPS, PATTERN = 10**7, 10**6, 4096
RUNS = 4096  # runs that one question tells the end of
WHOLE = 2**53
_DEPTH = 12
_SEED = 2**256
_CODE = 200  # letters of a word
_HOW = 100
_BASIS = 64


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
    "block": Bound("a whole number, at most 2⁵³", lambda value, _: value is not None and _whole(value, WHOLE)),
    "part": Bound(f"at most {_HOW} letters", _text(_HOW)),
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
    "basis": Bound(f"{_BASIS} letters", lambda value, s: _text(_BASIS)(value, s) and len(value) == _BASIS),
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
