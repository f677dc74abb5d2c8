"""A turn as plain bytes, for engines that carry bytes faster than objects.

    question   a head, and each letter's body as it is
    answer     length of the head (4 bytes, little-endian) | head | the bodies, one behind the other

A head is JSON: of each letter sender, receiver, the kind of message inside, place, round and length. Both ends are
processes of one owner and one version; between organisations turns travel in parcels, which trust nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from colonnade.runtime.hosted_node import Turn
from colonnade.runtime.node import Letter
from colonnade.runtime.wire import Frame


def write_question(letters: Sequence[Letter]) -> tuple[bytes, ...]:
    """The letters that a turn brings: a head and the bodies."""
    return json.dumps(_heads(letters)).encode(), *(letter.frame.body for letter in letters)


def read_question(head: bytes, *bodies: bytes) -> list[Letter]:
    """The letters of a question."""
    return _letters(json.loads(head), bodies)


def write_answer(turn: Turn) -> bytes | Turn:
    """A turn as bytes; one with notes or a failure, which can hold anything, as it is."""
    if turn.notes or turn.failure is not None:
        return turn
    rest = turn.finished, turn.wait, turn.told, turn.more, sorted(turn.missing)
    head = json.dumps([_heads(turn.letters), *rest]).encode()
    return b"".join([len(head).to_bytes(4, "little"), head, *(letter.frame.body for letter in turn.letters)])


def read_answer(raw: bytes | Turn) -> Turn:
    """The turn of an answer."""
    if isinstance(raw, Turn):
        return raw
    start = 4 + int.from_bytes(raw[:4], "little")
    heads, finished, wait, told, more, missing = json.loads(raw[4:start])
    ends = accumulate((size for *_, size in heads), initial=start)
    letters = _letters(heads, [raw[begin:end] for begin, end in pairwise(ends)])
    return Turn(tuple(letters), finished, tuple(wait), (), told, None, more, frozenset(missing))


def _heads(letters: Sequence[Letter]) -> list[tuple[str, str, str, int, int, int]]:
    return [(x.sender, x.receiver, x.inside, x.frame.sequence, x.frame.round, len(x.frame.body)) for x in letters]


def _letters(heads: Sequence[Sequence[Any]], bodies: Sequence[bytes]) -> list[Letter]:
    return [
        Letter(sender, receiver, Frame(place, number, body), inside)
        for (sender, receiver, inside, place, number, _), body in zip(heads, bodies, strict=True)
    ]
