"""What the hub asks a party, and what a party answers: every question once, by name, with what either side may say.

A question and its answer are one msgpack map each. `what` names the question; of an answer `code` says whether it is
one (0) or a refusal. The fields are declared here, each with its bound, and nothing is built of bytes that do not keep
them: any bytes at all end in a struct or in a WireError. A party answers a question by its method of the same name
(party_service.py, alignment.py).

A letter between two nodes travels as a `Frame` (runtime/wire.py) among the fields of a question or of an answer; keys,
seals and blocks of an alignment travel as they are, in `blobs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from colonnade.errors import WireError
from colonnade.fields import Choice
from colonnade.network.bounds import CEILING, WHOLE, Sizes
from colonnade.runtime.host import MOST
from colonnade.runtime.hosted_node import NOTES
from colonnade.runtime.wire import LONGEST_NAME, Frame, Letter

RUNS = 4096  # runs that one question tells the end of
_FEW = 1 << 16  # members of a table, whatever the federation; what it bounds itself is compared afterwards
_BLOBS = 1 << 16
LINES = 1 << 19  # of what was sent in a run
T = TypeVar("T")

# ------------------------------------------------------------------------------------------------ fields


def _at_most(words: str, most: Callable[[Sizes], int], ever: int = _FEW) -> Meta:
    """A length that the federation bounds: `check_sizes` compares it, once it is no more than it can `ever` be."""
    return Meta(max_length=ever, description=words, extra={"most": most})


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_NAME_WORDS = "a name: letters, digits and dashes, 64 at most"
# Names that the hub chooses become keys of records and names of files, so they are letters, digits and dashes.
Name = Annotated[str, Meta(pattern=rf"^{_NAME.pattern}\Z", description=_NAME_WORDS)]
Session = Annotated[str, Meta(pattern=rf"^({_NAME.pattern})?\Z", description="a name, or nothing")]
Word = Annotated[str, Meta(max_length=LONGEST_NAME, description=f"at most {LONGEST_NAME} letters")]
Short = Annotated[str, Meta(max_length=100, description="at most 100 letters")]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", description="64 hexadecimal digits")]
Count = Annotated[int, Meta(ge=0, le=WHOLE, description="a whole number, at most 2⁵³")]
Call = Annotated[str, _at_most("JSON, within the call's bound; its fields below", lambda s: s.call, CEILING)]
Peers = Annotated[tuple[Word, ...], _at_most("at most K names", lambda s: s.parties)]
Place = tuple[Count, Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")]]  # where a log stands: rows, and a hash
Heads = Annotated[
    dict[Word, Place],
    _at_most(
        "a table of at most K + 1: a number of rows (at most 2⁵³), and 64 hexadecimal digits or none",
        lambda s: s.parties + 1,
    ),
]
Counts = Annotated[
    dict[Word, Count],
    _at_most("a table of at most K + 1 whole numbers, at most 2⁵³", lambda s: s.parties + 1),
]
Over = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Short],
    Meta(max_length=RUNS, description=f"a table of at most {RUNS:,} runs: 64 letters, and at most 100 on how it ended"),
]
Frames = Annotated[tuple[Frame, ...], Meta(max_length=MOST, description=f"at most {MOST:,} frames")]
Blobs = Annotated[tuple[bytes, ...], Meta(max_length=_BLOBS, description=f"at most {_BLOBS:,} texts of bytes")]
Note = Annotated[dict[Short, bool | int | float | Short | None], Meta(max_length=64, description="at most 64 figures")]

# ------------------------------------------------------------------------------------------------ what is asked


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question without more than its name."""

    what: str
    blobs: Blobs = ()


class OfRun(Asked, frozen=True, kw_only=True):
    run: Name


class Proposed(OfRun, frozen=True, kw_only=True):
    call: Call
    code: Word
    session: Session | None = None


class Meeting(OfRun, frozen=True, kw_only=True):
    peers: Peers

    def __post_init__(self) -> None:
        _check_once(self.peers)


class Vouched(OfRun, frozen=True, kw_only=True):
    heads: Heads


class Remembered(OfRun, frozen=True, kw_only=True):
    when: Short
    heads: Heads


class Missed(OfRun, frozen=True, kw_only=True):
    since: Counts


class Brought(OfRun, frozen=True, kw_only=True):
    letters: Frames


class Based(OfRun, frozen=True, kw_only=True):
    basis: Digest


class Ended(OfRun, frozen=True, kw_only=True):
    how: Short


class Settled(OfRun, frozen=True, kw_only=True):
    over: Over


class Aligning(Asked, frozen=True, kw_only=True):
    session: Name
    peers: Peers

    def __post_init__(self) -> None:
        _check_once(self.peers)


class OfBlock(Aligning, frozen=True, kw_only=True):
    block: Count


class OfPeer(Aligning, frozen=True, kw_only=True):
    peer: Word


class OfPeersBlock(OfPeer, frozen=True, kw_only=True):
    block: Count


class PartOfBlock(OfPeersBlock, frozen=True, kw_only=True):
    part: Short


def _check_once(peers: Sequence[str]) -> None:
    if len(set(peers)) != len(peers):
        raise ValueError("a name twice in peers")


# ------------------------------------------------------------------------------------------------ what is answered


class Said(Struct, frozen=True, kw_only=True):
    """An answer that says no more than that it is one, or a refusal: then it has nothing but its code."""

    code: int = 0
    blobs: Blobs = ()


class Greeting(Said, frozen=True, kw_only=True):
    protocol: int
    version: Word
    file: Word
    clock: float
    session: Word | None = None
    rows: Count | None = None
    begun: Word | None = None

    def __post_init__(self) -> None:
        if (self.session is None) != (self.rows is None):
            raise ValueError("an agreement on rows is a session and a number of rows")

    def figures(self) -> dict[str, Any]:
        """What it says, by name."""
        known = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("code", "blobs")}
        return {name: value for name, value in known.items() if value is not None}


class Reached(Said, frozen=True, kw_only=True):
    up: Annotated[tuple[Word, ...], Meta(max_length=_FEW)]


class Promised(Said, frozen=True, kw_only=True):
    covers: bool
    confirms: bool


class Stood(Said, frozen=True, kw_only=True):
    heads: Annotated[dict[Word, Place], Meta(max_length=_FEW)]
    replaced: Annotated[tuple[tuple[Word, Short, Short], ...], Meta(max_length=1000)]


class Joining(Said, frozen=True, kw_only=True):
    received: Annotated[dict[Word, Count], Meta(max_length=_FEW)]
    sent: Annotated[dict[Word, Count], Meta(max_length=_FEW)]
    heard: Annotated[dict[Word, Count], Meta(max_length=_FEW)]


class Sent(Said, frozen=True, kw_only=True):
    letters: Frames
    more: bool


class Turned(Sent, frozen=True, kw_only=True):
    finished: bool
    wait: Annotated[tuple[Word, ...], Meta(max_length=_FEW)]
    notes: Annotated[tuple[Note, ...], Meta(max_length=NOTES)]
    told: Count
    failure: int


class Counted(Said, frozen=True, kw_only=True):
    # Sender, receiver, kind and round; messages, bytes and numbers.
    traffic: Annotated[tuple[tuple[Word, Word, Word, Count, Count, Count, Count], ...], Meta(max_length=LINES)]
    status: Short | None


class Agreed(Said, frozen=True, kw_only=True):
    rows: Count


# ------------------------------------------------------------------------------------------------ every question


class Phase(Enum):
    """How far things have come when a question is asked."""

    BEFORE = auto()
    ALIGNING = auto()
    CONSIDERED = auto()
    PROPOSED = auto()
    MEETING = auto()
    RUNNING = auto()


class Question(Choice):
    """A question by its name on the wire: when it is asked, with what, and what is answered."""

    phase: Phase
    asked: type[Asked]
    said: type[Said]

    HELLO = "hello", Phase.BEFORE, Asked, Greeting
    REACH = "reach", Phase.BEFORE, Asked, Reached
    CONSIDER = "consider", Phase.CONSIDERED, Proposed, Said
    RESERVE = "reserve", Phase.PROPOSED, Proposed, Promised
    MEET = "meet", Phase.MEETING, Meeting, Said
    VERIFY = "verify", Phase.BEFORE, OfRun, Said
    STANDING = "standing", Phase.BEFORE, OfRun, Stood
    VOUCH = "vouch", Phase.BEFORE, Vouched, Said
    REMEMBER = "remember", Phase.BEFORE, Remembered, Said
    JOIN = "join", Phase.RUNNING, OfRun, Joining
    RESEND = "resend", Phase.RUNNING, Missed, Sent
    TURN = "turn", Phase.RUNNING, Brought, Turned
    OUTCOME = "outcome", Phase.RUNNING, OfRun, Counted
    LEARNED = "learned", Phase.RUNNING, Based, Said
    OVER = "over", Phase.BEFORE, Ended, Said
    SETTLE = "settle", Phase.BEFORE, Settled, Said
    GREET = "greet", Phase.ALIGNING, Aligning, Said
    SHARE = "share", Phase.ALIGNING, Aligning, Said
    OFFER = "offer", Phase.ALIGNING, Aligning, Said
    SHOW = "show", Phase.ALIGNING, OfBlock, Said
    SEEK = "seek", Phase.ALIGNING, OfPeersBlock, Said
    BLIND = "blind", Phase.ALIGNING, OfBlock, Said
    KEEP = "keep", Phase.ALIGNING, PartOfBlock, Said
    NARROW = "narrow", Phase.ALIGNING, OfPeer, Said
    TELL = "tell", Phase.ALIGNING, Aligning, Said
    AGREED = "agreed", Phase.ALIGNING, Aligning, Agreed

    def __new__(cls, name: str, phase: Phase, asked: type[Asked], said: type[Said]) -> Question:
        made = str.__new__(cls, name)
        made._value_ = name
        made.phase = phase
        made.asked = asked
        made.said = said
        return made


BY_NAME = {question.value: question for question in Question}

# ------------------------------------------------------------------------------------------------ as bytes


class Parcel(NamedTuple):
    """Fields by name, and blobs."""

    head: Mapping[str, Any]
    blobs: tuple[bytes, ...] = ()


class _Named(Struct):
    what: str


class _Coded(Struct):
    code: int | str | None = None


def _plain(value: object) -> float:
    if isinstance(value, float):  # a figure of NumPy's
        return float(value)
    raise TypeError(f"a question or an answer cannot hold a {type(value).__name__}")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_read_any = msgspec.msgpack.Decoder(dict[str, Any])
_read_name = msgspec.msgpack.Decoder(_Named)
_read_code = msgspec.msgpack.Decoder(_Coded)


@cache
def _reader(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def encode_answer(said: Said) -> bytes:
    return _encoder.encode(said)


def pack(head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """The bytes of a question."""
    return _encoder.encode({**head, "blobs": blobs} if blobs else head)


def unpack(raw: bytes) -> Parcel:
    """What a process of the same owner packed; nothing of it is bounded."""
    head = _read(_read_any, raw)
    return Parcel(head, tuple(head.pop("blobs", ())))


def name_of(raw: bytes) -> str:
    """What a question calls itself."""
    return _read(_read_name, raw).what


def code_of_answer(raw: bytes) -> int | str | None:
    """Whether an answer is one (0), or why not, whatever else it says."""
    return _read(_read_code, raw).code


def read_as(kind: type[T], raw: bytes) -> T:
    """The bytes as a struct, if every field keeps its bound."""
    struct: Any = kind
    found: T = _read(_reader(struct), raw)
    return found


def _read(decoder: msgspec.msgpack.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.MsgspecError as error:
        # Says which field, and what was wanted of it.
        why = "a field that this version does not know" if "unknown field" in str(error) else str(error)
        raise WireError(f"not a message as this version of colonnade has it: {why}") from error
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a message as this version of colonnade has it: {type(error).__name__}") from error


def check_sizes(asked: Asked, sizes: Sizes) -> None:
    """Refuse a field that is over a bound of this federation."""
    for field, words, most in _bounds_of(type(asked)):
        value = getattr(asked, field)
        if len(value) > most(sizes):
            raise WireError(f"{field} of the question {asked.what!r} is over its bound: {words}")


@cache
def _bounds_of(kind: type[Asked]) -> tuple[tuple[str, str, Callable[[Sizes], int]], ...]:
    return tuple((field, meta.description, meta.extra["most"]) for field, meta in _metas(kind).items() if meta.extra)


def _metas(kind: type[Asked]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    plain = {field: get_args(hint)[0] if type(None) in get_args(hint) else hint for field, hint in hints.items()}
    return {field: hint.__metadata__[0] for field, hint in plain.items() if hasattr(hint, "__metadata__")}


def letters_out(letters: Iterable[Letter], run: str) -> tuple[Frame, ...]:
    return tuple([letter.frame(run) for letter in letters])


def letters_in(frames: Iterable[Frame], run: str) -> list[Letter]:
    """The letters of frames, each checked against its digest and its run."""
    return [Letter.read(frame, run) for frame in frames]


def plain_heads(heads: Mapping[str, tuple[int, bytes]]) -> dict[str, tuple[int, str]]:
    """Where ledgers stand, as a question says it."""
    return {peer: (count, at.hex()) for peer, (count, at) in heads.items()}


def is_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None
