"""What a party answers, read as if it were hostile: a value of the right kind, or an error that stops the run.

It may neither end the hub's process nor keep it busy for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from colonnade.errors import ReplayDiverged, StoreError, WireError
from colonnade.methods.method import Answer, Status
from colonnade.network.party_service import DIVERGED, OK, UNAVAILABLE, UNKNOWN
from colonnade.network.questions import Parcel, Question, unpack
from colonnade.network.refusals import refusal
from colonnade.network.replaced_ledger import is_replaced
from colonnade.privacy.ledger import Replaced
from colonnade.runtime.hosted_node import Joined, Standing
from colonnade.runtime.program import COORDINATOR, NodeId
from colonnade.runtime.traffic import Traffic, TrafficRow
from colonnade.runtime.turns import Lost

_MOST_REPLACED = 1000  # ledgers that one party may say were replaced
_LARGEST_COUNT = 1 << 53


def read_answer(party: str, question: Question, raw: bytes) -> Parcel:
    """An answer, or the error that its code stands for."""
    found = unpack(raw)
    code = found.head.get("code")
    if code == OK:
        return found
    if code == UNKNOWN:
        raise Lost(party)
    if code == UNAVAILABLE:
        raise StoreError(f"{party!r} cannot write to its store; its own log says why. Repeat the call when it can.")
    if code == DIVERGED:
        raise ReplayDiverged(
            f"{party!r} cannot go on with this run: it is over there, or records, data or code changed; its log says "
            "which. Put back what was changed and repeat the call, or end the run with `colonnade runs abort`."
        )
    raise refusal(party, question, code)


def read_greeting(party: str, answer: Parcel) -> Mapping[str, Any]:
    """What a party says of itself, if it is of the right kind."""
    head = answer.head
    always = {"protocol": int, "version": str, "file": str, "clock": float}
    agreed = {"session": str, "rows": int} if "session" in head or "rows" in head else {}
    perhaps = {name: kind for name, kind in {"begun": str, "psi": bool}.items() if name in head}
    if not all(type(head.get(name)) is kind for name, kind in {**always, **agreed, **perhaps}.items()):
        raise WireError(f"{party!r} greets in a way that this hub does not know")
    return head


def read_reach(party: str, answer: Parcel) -> list[str]:
    up = answer.head.get("up")
    if not isinstance(up, list) or not all(isinstance(peer, str) for peer in up):
        raise WireError(f"{party!r} does not say whom it reaches")
    return up


def read_promise(party: str, answer: Parcel) -> Parcel:
    """A party's keys and its word on the rows, as many as it says."""
    if len(answer.blobs) != 2 * bool(answer.head.get("covers")) + bool(answer.head.get("confirms")):
        raise WireError(f"{party!r} promises to take part in a way that this hub does not know")
    return answer


# What follows raises any of ValueError, KeyError, TypeError and AttributeError, as hub_run.py expects.


def read_standing(head: Mapping[str, Any], parties: Iterable[NodeId]) -> Standing:
    heads = {peer: (read_count(count), bytes.fromhex(at)) for peer, (count, at) in head["heads"].items()}
    return Standing(heads.pop(""), heads, b"", read_replaced(head["replaced"], parties))


def read_replaced(raw: Any, names: Iterable[str]) -> tuple[Replaced, ...]:
    """Ledgers that a party says were replaced: they stand in statements, so few, and in plain words."""
    found, known = [Replaced(*one) for one in raw], {COORDINATOR, *names}
    if len(found) > _MOST_REPLACED or not all(one.node in known and is_replaced(one) for one in found):
        raise ValueError("a node, a time and a mark for each ledger that was replaced")
    return tuple(found)


def read_joined(party: NodeId, head: Mapping[str, Any]) -> Joined:
    heard = {(peer, party): count for peer, count in _counts(head["heard"]).items()}
    return Joined(_counts(head["received"]), _counts(head["sent"]), heard)


def read_outcome(party: NodeId, head: Mapping[str, Any]) -> tuple[Answer | None, Traffic]:
    """Why a party's part ended, and what it sent."""
    status, traffic = head["status"], Traffic()
    answer = None if status is None else Answer({}, 0.0, None, None, Status[status])
    for sender, receiver, kind, number, messages, size, numbers in head["traffic"]:
        if sender != party:
            raise ValueError("a party counts what it sent, and nothing else")
        line = TrafficRow(sender, str(receiver)[:200], str(kind)[:200], read_count(number))
        traffic.lines[line] = [read_count(messages), read_count(size), read_count(numbers)]
    return answer, traffic


def read_notes(raw: Any) -> tuple[Mapping[str, Any], ...]:
    """Rows for the history: names, and numbers or short words."""
    for note in raw:
        for name, value in note.items():
            if not isinstance(value, int | float | str | None) or len(f"{name}{value}") > 200:
                raise ValueError("a note is numbers and short words")
    return tuple(raw)


def read_count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST_COUNT:
        raise ValueError("a count is a whole number")
    return value


def _counts(raw: Mapping[str, Any]) -> dict[str, int]:
    return {str(peer): read_count(count) for peer, count in raw.items()}


def introductions(said: Sequence[Parcel]) -> list[bytes]:
    """All keys first, then all confirmations: as a party reads them when it meets the others."""
    keys = [part for one in said if one.head.get("covers") for part in one.blobs[:2]]
    return [*keys, *(one.blobs[-1] for one in said if one.head.get("confirms"))]
