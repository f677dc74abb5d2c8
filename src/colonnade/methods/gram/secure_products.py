"""Products of columns held by different parties, computed on masked numbers: a coordinator deals, parties multiply.

Solves   AₖᵀAₗ modulo 2^w for pairs of parties, as two shares whose sum is the product; nobody holds both.
Source   Beaver's multiplication with a dealer, for tall matrices: masks grow from seeds, and the coordinator deals only
         seeds and, to one side of each pair, a share of UₖᵀUₗ.
Steps    for each pair k < l: Eₖ = Aₖ - Uₖ and Eₗ = Aₗ - Uₗ are exchanged, sealed end to end, a block of rows at a time;
         k keeps AₖᵀEₗ + its share, l keeps EₖᵀUₗ + its share; k adds and l subtracts R, which both derive from their
         own keys. AₖᵀEₗ + EₖᵀUₗ + UₖᵀUₗ = AₖᵀAₗ.
Leaves   Eₖ, uniform to whoever lacks Uₖ (the partners), and shares, uniform to whoever lacks R (the coordinator); their
         sum is the product, which is noised before it leaves: see private_gram.py.
Assumes  all follow the protocol, and the coordinator, who knows every U, never sees an E: it does not collude with a
         party.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Integers
from colonnade.kernels.ring import Ring, product
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import wrap
from colonnade.privacy.pads import Pad
from colonnade.privacy.released import Released
from colonnade.privacy.values import Packed
from colonnade.runtime.messages import message
from colonnade.runtime.program import COORDINATOR, Post, Program, ask, expect, receive

Rows = Callable[[int, int], Integers]  # first row, how many: those rows as integers
BLOCK_BYTES = 8 << 20  # of one masked message


@message(120)
class Introduce:
    """Coordinator → party: send your key of this run."""


@message(121)
class RunKey:
    """Party → coordinator, for the other parties: my public key of this run, signed by my pinned one."""

    key: Released[bytes]
    signature: Released[bytes]


@message(122)
class Meet:
    """Coordinator → party: the keys of all parties, in roster order."""

    keys: tuple[bytes, ...]
    signatures: tuple[bytes, ...]


@message(123)
class Deal:
    """Coordinator → party: the seed of your mask, and your share of UₖᵀUₗ for each partner k before you."""

    key: bytes  # of the coordinator, for this message
    seed: bytes  # under it: in the records of a run that is over nobody can read it
    shares: tuple[Packed, ...]


@message(124)
class Masked:
    """Party → partner, sealed: the next rows of my columns under a one-time mask."""

    rows: Released[Packed]


@dataclass(frozen=True)
class Stage:
    """One exchange: its public figures. Masks of different stages never meet, and neither do those of parties that were
    told different figures."""

    name: str
    rows: int
    widths: Mapping[str, int]  # columns of each party's matrix, in roster order
    pairs: tuple[tuple[str, str], ...]  # who multiplies with whom, the first one before the second in the roster
    ring: Ring
    terms: str  # everything else that the parties must agree on
    widest: int = 1  # columns that a party may read for one row of its matrix

    def partners(self, party: str) -> tuple[str, ...]:
        return tuple(b if a == party else a for a, b in self.pairs if party in (a, b))

    def digest(self) -> str:
        figures = (self.name, self.rows, dict(self.widths), self.pairs, self.ring.bits, self.terms)
        return hashlib.sha256(bytes(repr(figures), "utf-8")).hexdigest()

    def mask(self, party: str, seed: bytes, run: str) -> Pad:
        """The mask of a party's matrix."""
        return Pad(seed, ("columns", run, party, self.digest()), self.widths[party], self.ring)

    def share(self, pair: tuple[str, str], seed: bytes, run: str) -> Integers:
        """The share of UₖᵀUₗ that the first party of a pair grows from its seed."""
        pad = Pad(seed, ("share", run, *pair, self.digest()), self.widths[pair[1]], self.ring)
        return pad.rows(0, self.widths[pair[0]])

    def blocks(self) -> list[tuple[int, int]]:
        """First row and number of rows of each masked message: the same for all parties."""
        size = block_rows(max(self.widest, *self.widths.values()), self.ring.bits)
        return [(first, min(size, self.rows - first)) for first in range(0, self.rows, size)]


def block_rows(width: int, bits: int) -> int:
    """Rows that fit one masked message."""
    return max(1, 8 * BLOCK_BYTES // (max(1, width) * bits))


def introduce(parties: Iterable[str]) -> Program[dict[str, bytes]]:
    """The coordinator's part of the parties' meeting: it carries keys, and can change none; it keeps the public
    ones."""
    hellos = yield from ask(parties, Introduce(), RunKey)
    keys = tuple(hello.key.value for hello in hellos.values())
    signatures = tuple(hello.signature.value for hello in hellos.values())
    yield Post(dict.fromkeys(hellos, Meet(keys, signatures)), ())
    return dict(zip(hellos, keys, strict=True))


def meet(parties: tuple[str, ...], gate: Gate) -> Program[None]:
    """A party's part: its own key, and everybody else's if their pinned keys signed them."""
    yield from receive(COORDINATOR, Introduce)
    inbox = yield Post({COORDINATOR: RunKey(*gate.hello())}, (COORDINATOR,))
    met = expect(inbox, COORDINATOR, Meet)
    if not len(met.keys) == len(met.signatures) == len(parties):
        raise ProtocolError(f"{COORDINATOR!r} sent {len(met.keys)} keys for {len(parties)} parties")
    for party, key, signature in zip(parties, met.keys, met.signatures, strict=True):
        if party != gate.node:
            gate.keyring.meet(party, key, signature)


def deals(stage: Stage, gate: Gate, keys: Mapping[str, bytes]) -> dict[str, Deal]:
    """The dealer's part: a seed for each party, and for the second one of each pair what is left of UₖᵀUₗ."""
    seeds = {party: gate.secret(f"mask {stage.name} {party}") for party in stage.widths}
    masks = {party: stage.mask(party, seed, gate.run) for party, seed in seeds.items()}
    totals = {pair: stage.ring.negate(stage.share(pair, seeds[pair[0]], gate.run)) for pair in stage.pairs}
    for first, count in stage.blocks() if stage.pairs else ():
        block = {party: masks[party].rows(first, count) for party in {p for pair in stage.pairs for p in pair}}
        for pair in stage.pairs:
            more = product(block[pair[0]], block[pair[1]], stage.ring)
            totals[pair] = stage.ring.add(totals[pair], more)
    packed = {pair: Packed(total.astype(np.uint64), stage.ring.bits) for pair, total in totals.items()}
    secret, where = gate.secret("dealer"), ("seed", stage.name)
    wrapped = {party: wrap(secret, seed, keys[party], gate.run, party, *where) for party, seed in seeds.items()}
    return {
        party: Deal(*wrapped[party], tuple(packed[pair] for pair in stage.pairs if pair[1] == party)) for party in seeds
    }


def multiply(stage: Stage, gate: Gate, deal: Deal, matrix: Rows, bound: int) -> Program[list[Integers]]:
    """A party's part: its share of the product with each partner, rows of the product those of the pair's first party.

    `matrix` is asked for every block of rows once, in order; `bound` is the public bound of its entries.
    """
    me, partners = gate.node, stage.partners(gate.node)
    seed = gate.keyring.unwrap(deal.key, deal.seed, "seed", stage.name)
    mask = stage.mask(me, seed, gate.run)
    mine = {pair: pair[0] if pair[1] == me else pair[1] for pair in stage.pairs if me in pair}
    totals = {pair: stage.share(pair, seed, gate.run) for pair in mine if pair[0] == me}
    totals |= zip([pair for pair in mine if pair[1] == me], _dealt(stage, me, deal), strict=True)
    for first, count in stage.blocks():
        rows = matrix(first, count)
        if not partners:
            continue
        sent = Masked(gate.masked(rows, mask))
        inbox = yield Post(dict.fromkeys(partners, sent), partners, {})
        hidden = None
        for pair, partner in mine.items():
            theirs = _unpacked(
                expect(inbox, partner, Masked).rows.value, (count, stage.widths[partner]), stage.ring, partner
            )
            if pair[0] == me:  # AₖᵀEₗ
                more = product(rows, theirs, stage.ring, bound_a=bound)
            else:  # EₖᵀUₗ
                hidden = mask.rows(first, count) if hidden is None else hidden
                more = product(theirs, hidden, stage.ring)
            totals[pair] = stage.ring.add(totals[pair], more)
    for pair, partner in mine.items():  # without R the dealer, who knows every U, could read rows off the shares
        both = Pad(
            gate.keyring.shared(partner, "shares", stage.digest(), *pair), ("R",), stage.widths[pair[1]], stage.ring
        )
        apply = stage.ring.add if pair[0] == me else stage.ring.subtract
        totals[pair] = apply(totals[pair], both.rows(0, stage.widths[pair[0]]))
    return [totals[pair] for pair in mine]


def _dealt(stage: Stage, me: str, deal: Deal) -> list[Integers]:
    firsts = [pair[0] for pair in stage.pairs if pair[1] == me]
    if len(deal.shares) != len(firsts):
        raise ProtocolError(
            f"{COORDINATOR!r} dealt {len(deal.shares)} shares to a party with {len(firsts)} partners before it"
        )
    return [
        _unpacked(share, (stage.widths[first], stage.widths[me]), stage.ring, COORDINATOR)
        for share, first in zip(deal.shares, firsts, strict=True)
    ]


def _unpacked(packed: Packed, shape: tuple[int, int], ring: Ring, sender: str) -> Integers:
    if packed.values.shape != shape or packed.bits != ring.bits:
        raise ProtocolError(
            f"{sender!r} sent {packed.values.shape} numbers of {packed.bits} bits where {shape} of {ring.bits} were due"
        )
    return packed.values.astype(ring.dtype)
