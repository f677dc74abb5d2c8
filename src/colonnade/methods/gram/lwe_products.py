"""Products of columns held by two parties, computed by the two alone: plain learning with errors, no third party.

Solves   XₖᵀXₗ for pairs of parties, with the noise that each of the two adds. Trust "parties".
Source   ours, from kernels/lwe.py: of two parties the one with fewer columns sends, the other one receives.
Steps    in lockstep, block of rows by block of rows: a sender gives every receiver its next rows under encryption, and
         a receiver says that it is ready for the next. Then a receiver answers every sender with W, the same for all,
         and B = bᵀ[r; Y] + noise, and a sender opens what it got, adds its own noise, and lets it leave.
Leaves   b and W, uniform numbers to whoever lacks the secrets; B, to which its receiver has added its full noise; and
         what a sender opened, to which it has added its own.
Assumes  nobody solves learning with errors with the hints that published sums give; all follow the protocol, and may
         pool what they have. docs/understand/privacy/lwe.md, products by LWE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Integers
from colonnade.kernels.lwe import hidden_size, inner, unpack_hidden
from colonnade.methods.gram.lwe_design import Exchange
from colonnade.methods.gram.secure_products import BLOCK_BYTES, Rows
from colonnade.privacy.gate import Gate
from colonnade.privacy.lattice import Blinding, Hiding, public_product
from colonnade.privacy.values import Packed, Released
from colonnade.runtime.program import Post, Program, expect, message, public_bytes

HELD = 1 << 23  # entries of a party's matrix that it holds at a time


@message(149)
class Across:
    """Party → party, sealed: to a receiver my next rows under encryption; to a sender that I am ready for more, and at
    the end my answer, W and B."""

    rows: Released[bytes]
    answer: tuple[Released[Packed], ...]


def block_rows(bits: int, widest: int) -> int:
    """Rows of one block: of so many bits over all senders, and of so many columns at the widest party."""
    return max(1, min(8 * BLOCK_BYTES // max(1, bits), HELD // max(1, widest)))


def blocks(exchange: Exchange) -> list[tuple[int, int]]:
    """First row and number of rows of each message: the same for all parties."""
    travel = exchange.lattice.bits - exchange.cut
    bits = travel * sum(exchange.sides[party].width for party in exchange.sending)
    rows, size = exchange.mechanism.rows, block_rows(bits, max(side.width for side in exchange.sides.values()))
    return [(first, min(size, rows - first)) for first in range(0, rows, size)]


class Line(Protocol):
    """How a party's rows and answers come to its partners, and theirs to it: once a round, everybody in step. A party
    without partners takes part, too: it may stand between others."""

    def rows(self, rows: Released[bytes]) -> Program[dict[str, bytes]]:
        """Rows to receivers, or nothing where there is none; those of each sender."""
        ...

    def answers(
        self, blind: Released[Packed] | None, noisy: Mapping[str, Released[Packed]]
    ) -> Program[dict[str, tuple[Packed, ...]]]:
        """W and, by sender, B; of each receiver its W and the B that is for this party."""
        ...


@dataclass(frozen=True)
class Star:
    """Sealed messages from party to party, through the coordinator."""

    exchange: Exchange
    gate: Gate

    def rows(self, rows: Released[bytes]) -> Program[dict[str, bytes]]:
        me, nothing = self.gate.node, Across(self.gate.nothing(), ())
        told, receivers = Across(rows, ()), self.exchange.receivers(me)
        inbox = yield from self._swap({p: told if p in receivers else nothing for p in self.exchange.partners(me)})
        return {sender: inbox[sender].rows.value for sender in self.exchange.senders(me)}

    def answers(
        self, blind: Released[Packed] | None, noisy: Mapping[str, Released[Packed]]
    ) -> Program[dict[str, tuple[Packed, ...]]]:
        me, nothing = self.gate.node, self.gate.nothing()
        told: dict[str, tuple[Released[Packed], ...]] = {}
        if blind is not None:
            told = {sender: (blind, one) for sender, one in noisy.items()}
        inbox = yield from self._swap({p: Across(nothing, told.get(p, ())) for p in self.exchange.partners(me)})
        return {r: tuple(part.value for part in inbox[r].answer) for r in self.exchange.receivers(me)}

    def _swap(self, to: Mapping[str, Across]) -> Program[dict[str, Across]]:
        if not to:
            return {}
        inbox = yield Post(to, tuple(to))
        return {partner: expect(inbox, partner, Across) for partner in to}


@dataclass
class Products:
    """One party's part of the products of a stage."""

    exchange: Exchange
    gate: Gate
    line: Line
    digest: bytes  # of all that the parties were told of the stage
    bound: int  # public, of the entries of its matrix
    answers: dict[str, NDArray[np.uint64]] = field(default_factory=dict)  # by sender: bᵀ[r; Y], before noise

    @property
    def me(self) -> str:
        return self.gate.node

    @cached_property
    def public(self) -> bytes:
        """The key that A grows from: another one for each run and stage."""
        return public_bytes(self.gate.run, "public matrix", self.digest.hex())

    @cached_property
    def hiding(self) -> Hiding:
        seed, exchange = self.gate.lattice_seed(self.digest), self.exchange
        return Hiding(seed, self.public, exchange.lattice, exchange.scales[self.me], exchange.cut)

    @cached_property
    def blinding(self) -> Blinding:
        seed, exchange = self.gate.lattice_seed(self.digest), self.exchange
        return Blinding(seed, self.public, exchange.lattice, exchange.sides[self.me].width)

    # ------------------------------------------------------------------------ rows

    def pass_rows(self, matrix: Rows) -> Program[None]:
        """Read all rows once; hide them for receivers, and multiply what senders hid."""
        receivers = self.exchange.receivers(self.me)
        key = self.gate.hidden(self.hiding) if receivers else self.gate.nothing()
        self._start((yield from self.line.rows(key)))
        for first, count in blocks(self.exchange):
            rows = matrix(first, count)
            hidden = self.gate.hidden(self.hiding, rows) if receivers else self.gate.nothing()
            self._multiply((yield from self.line.rows(hidden)), first, rows)

    def _start(self, came: Mapping[str, bytes]) -> None:
        lattice = self.exchange.lattice
        if came:
            width = self.exchange.sides[self.me].width
            self._product: NDArray[np.uint64] = np.zeros((lattice.dimension, width), np.uint64)
        for sender, packed in came.items():
            rows = self._unpacked(sender, packed, lattice.dimension, 0)
            self.answers[sender] = self.blinding.mix(rows).astype(np.uint64)

    def _multiply(self, came: Mapping[str, bytes], first: int, rows: Integers) -> None:
        lattice = self.exchange.lattice
        if came:
            self._product += public_product(rows, first, self.bound, self.public, lattice)
        for sender, packed in came.items():
            theirs = self._unpacked(sender, packed, len(rows), self.exchange.cut)
            self.answers[sender] += inner(rows, theirs, self.bound, lattice)

    def _unpacked(self, sender: str, packed: bytes, count: int, cut: int) -> NDArray[np.uint64]:
        lattice, width = self.exchange.lattice, self.exchange.sides[sender].width
        if len(packed) != hidden_size(count * width, cut, lattice):
            raise ProtocolError(f"{sender!r} sent {len(packed):,} bytes for {count:,} encrypted rows")
        return unpack_hidden(packed, width, cut, lattice, count)

    # ------------------------------------------------------------------------ answers

    def answer(self, noisy: Mapping[str, Released[Packed]]) -> Program[list[Integers]]:
        """Send every sender its noisy B beside W; what the receivers' answers hold, opened, in their order."""
        exchange, lattice = self.exchange, self.exchange.lattice
        blind = self.gate.blinded(self.blinding, self._product) if noisy else None
        came = yield from self.line.answers(blind, noisy)
        opened = []
        for receiver in exchange.receivers(self.me):
            parts = came[receiver]
            width, mine = exchange.sides[receiver].width, exchange.sides[self.me].width
            fits = [part.values.shape for part in parts] == [(lattice.dimension, width), (mine, width)]
            if not fits or any(part.bits != lattice.bits for part in parts):
                raise ProtocolError(f"{receiver!r} sent an answer of other sizes than its {width:,} columns ask for")
            opened.append(self.hiding.reveal(*(part.values for part in parts)))
        return opened
