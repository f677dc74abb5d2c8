"""Every question that the hub may ask a party: its name, how far things have come when it is asked, and its fields."""

from __future__ import annotations

from enum import Enum, StrEnum, auto

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
    OVER = "over", Phase.BEFORE, "run", "how"
    SETTLE = "settle", Phase.BEFORE, "run", "over"
    GREET = "greet", Phase.ALIGNING, *_ALIGNING
    SHARE = "share", Phase.ALIGNING, *_ALIGNING
    OFFER = "offer", Phase.ALIGNING, *_ALIGNING
    SHOW = "show", Phase.ALIGNING, *_ALIGNING
    SEEK = "seek", Phase.ALIGNING, *_ALIGNING, "peer"
    BLIND = "blind", Phase.ALIGNING, *_ALIGNING
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
