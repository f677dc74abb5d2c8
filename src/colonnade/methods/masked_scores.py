"""Scores of rows by a model: every party computes its part, and only the label holder learns the sum.

Solves   s = Σₖ Aₖxₖ + b, where party k holds Aₖ and xₖ.
Source   pairwise masks that cancel, as in secure aggregation (Bonawitz et al., CCS 2017); drop-outs are not recovered.
Steps    parts become whole numbers modulo 2^64; every two parties other than the label holder add and subtract a mask
         that both derive from their keys; the sealed parts go to the label holder, in whose sum the masks cancel.
Leaves   masked parts, uniform but for their sum, to the label holder; nothing to the coordinator, who carries them.
         With one other party the sum is that party's part: there is nothing to hide it among.
Price    no rho: scores are exact, which is what was asked for, and each party's policy says whether they may leave.
         No epsilon of rows that the model was learned from holds against the label holder once they are scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Floats
from colonnade.kernels.ring import Ring
from colonnade.methods.meeting import Introduce, Losses, RunKey, introduce, meet
from colonnade.methods.method import Done, MethodBase, check_shape
from colonnade.model.job import Job, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.events import SCORES, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Pad
from colonnade.privacy.values import Packed, Released
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Post, Program, ask, expect, last, message, receive

RING = Ring(64)
FRACTION = 2.0**-32  # of a score; parts are rounded to it
LARGEST = 2.0**25  # of a part: sums of 32 of them stay within the ring
ROWS = 1 << 20  # rows in one message


@message(150)
class SendScores:
    """Coordinator → party: send your masked part of the scores to the label holder."""


@message(151)
class PartScores:
    """Party → label holder, sealed: my part of the scores of some rows, under masks that cancel in the sum."""

    values: Released[Packed]


REPLIES: Replies = {Introduce: RunKey, SendScores: Done, None: PartScores}


def coordinator(roster: Roster) -> Program[None]:
    yield from introduce(Losses(roster, tolerates_dropout=False))
    yield from ask(roster.parties, SendScores(), Done)


def party(roster: Roster, block: Block, x: Floats, intercept: float, gate: Gate) -> Program[Floats | None]:
    parties = roster.parties
    holder = roster.label
    yield from meet(gate, Losses(roster, tolerates_dropout=False))
    yield from receive(COORDINATOR, SendScores)
    part = whole(block.scores(x))
    if gate.node != holder:
        yield from _send(parties, holder, part, gate)
        yield from last({COORDINATOR: Done()})
        return None
    others = tuple(p for p in parties if p != holder)
    for first in range(0, part.size, ROWS):
        inbox = yield Post({}, others)
        here = slice(first, min(first + ROWS, part.size))
        for other in others:
            masked = expect(inbox, other, PartScores).values.value
            check_shape(masked.values, (here.stop - first, 1), other)
            if masked.bits != RING.bits:
                raise ProtocolError(f"{other!r} sent scores of {masked.bits} bits where {RING.bits} were due")
            part[here] = RING.add(part[here], masked.values[:, 0])
    yield from last({COORDINATOR: Done()})
    return np.asarray(RING.signed(part) * FRACTION + intercept)


def _send(parties: tuple[str, ...], holder: str, part: NDArray[Any], gate: Gate) -> Program[None]:
    me = gate.node
    plus = list[Pad]()
    minus = list[Pad]()
    for other in parties:
        if other not in (me, holder):
            pair = sorted((me, other), key=parties.index)
            pad = Pad(gate.keyring.shared(other, "scores", *pair), ("scores",), 1, RING)
            (plus if pair[0] == me else minus).append(pad)
    for first in range(0, part.size, ROWS):
        rows = part[first : first + ROWS, None]
        yield from last({holder: PartScores(gate.scores(rows, first, plus, minus, RING))})


def whole(scores: Floats) -> NDArray[Any]:
    """Scores as whole numbers modulo 2^64: clipped, rounded to FRACTION, and 0 where there is no number."""
    return RING.reduce(np.rint(np.clip(np.nan_to_num(scores), -LARGEST, LARGEST) / FRACTION).astype(np.int64))


@dataclass(frozen=True)
class MaskedScores(MethodBase):
    """The scores of a federation's rows by one model: `coefficients` by party, of the run whose id is `model`.

    Parties elsewhere are told the model's name, and take the coefficients that they kept.
    """

    model: str
    intercept: float
    coefficients: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    curves: int = 0  # to which depth the model's run bent the columns that were left open
    TITLE: ClassVar[str] = "scores of rows by a model"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    KEEPS_MONOTONE: ClassVar[bool] = True  # it learns nothing
    ADJUSTS: ClassVar[bool] = True

    def check(self, job: Job) -> None:
        if job.roster.label not in job.roster.parties:
            raise InvalidInput(f"the scores go to {job.roster.label!r}, who holds the labels and takes no part here.")

    def price(self, job: Job) -> Mapping[str, Plan]:
        count = -(-job.roster.rows // ROWS)
        charge = Charge(SCORES, count, "its part of the scores, to the label holder, who learns their sum")
        return {p: () if p == job.roster.label else (charge,) for p in job.roster.parties}

    def depth(self, job: Job) -> int:  # noqa: ARG002  that of the model
        return self.curves

    def relays(self, job: Job) -> bool:  # noqa: ARG002  in every job alike
        return True

    def coordinator(self, job: Job, gate: Gate) -> Program[None]:  # noqa: ARG002  it draws nothing
        return coordinator(job.roster)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Floats | None]:
        x = self.coefficients.get(gate.node, np.zeros(0))
        return party(job.roster, block, x, self.intercept, gate)
