"""Block-coordinate Frank-Wolfe under arbitrary sampling, over columns held by different parties.

Solves   min loss(Ax, y)  subject to  x in M₁ × … × M_B: each block (column, group, party) in its own ball or simplex.
Source   Lou and Cheung, "An uplink communication-efficient approach to featurewise distributed sparse optimization with
         differential privacy", algorithm 1; comments "line n" refer to its box. p_min is taken from the sampling by its
         definition; docs/understand/methods/frank-wolfe.md has the theorems, with what was mended in them.
Leaves   the labels, to the coordinator; from each party, every round, the change of its part of the prediction (one
         number a row, where it has a block in the round) and its share of the gap; its coefficients, at the end.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when the gap, which bounds objective − optimum, is at most the tolerance; the certificate looks at all blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Array, Floats, Indices
from colonnade.methods.method import (
    THE_LABELS,
    Done,
    Finish,
    Labels,
    Method,
    SendLabels,
    ask_labels,
    check_shape,
    finish_party,
)
from colonnade.model.job import Answer, Job, Own, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Released
from colonnade.problem.sampling import PerParty, Sampling, least_probability, universal_step
from colonnade.problem.sets import L1Ball, L2Ball, Product
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Note, Program, ask, ask_one, message, public_bytes, receive, tell


@message(100)
class BlockBegin:
    """Coordinator → party: send your part of the prediction at the starting point."""


@message(101)
class BlockTurn:
    """Coordinator → party: make the step you prepared, then prepare one for these of your blocks."""

    step: float
    slope: Array  # of the loss, one number a row
    blocks: Array  # numbers of the blocks in this round that the receiver holds


@message(102)
class Change:
    """Party → coordinator: how the prediction changes by a full step (empty: not at all), and my share of the gap."""

    change: Released[Array]
    gap: Released[float]


@message(103)
class SendBlockModel:
    """Coordinator → party: the step you prepared is not made; send your coefficients."""


@message(104)
class BlockModel:
    """Party → coordinator: my coefficients."""

    coefficients: Released[Array]


Request = SendLabels | BlockBegin | BlockTurn | SendBlockModel | Finish


def coordinator(job: Job, settings: BlockFrankWolfe, run: str) -> Program[Answer]:
    roster = job.roster
    loss = job.problem.loss
    parties = job.roster.with_columns
    owners = block_owners(_product(job), roster)
    least = least_probability(settings.sampling, owners)
    y = (yield from ask_labels(roster)).astype(np.float64)
    prediction = np.zeros(roster.rows)
    step = 0.0
    prediction += _sum((yield from ask(parties, BlockBegin(), Change)), roster)
    for t in range(settings.rounds + 1):
        drawn = _draw(settings.sampling, owners, run, t) if t < settings.rounds else np.zeros(0, np.int64)  # line 3
        slope = loss.slope(prediction, y)
        objective = loss.value(prediction, y)
        turns = {p: BlockTurn(step, slope, drawn[owners[drawn] == k]) for k, p in enumerate(parties)}
        note: Note = {"round": t + 1, "objective": objective, "blocks": int(drawn.size), "step": step}
        changes = yield from tell(turns, Change, note)  # lines 5 and 6
        gap = math.fsum(change.gap.value for change in changes.values())
        if settings.over(t, gap):
            break
        step = universal_step(t, least)
        prediction += step * _sum(changes, roster)  # line 7
    models = yield from ask(parties, SendBlockModel(), BlockModel)
    x = {p: models[p].coefficients.value for p in parties}
    yield from tell({p: Finish(x.get(p, np.zeros(0)), 0.0) for p in roster.parties}, Done)
    return Answer(x, 0.0, objective, gap, settings.status(gap))


def party(job: Job, block: Block, gate: Gate, settings: BlockFrankWolfe) -> Program[Own]:
    mine = _Mine(_product(job), block)
    least = settings.least(job)
    x = mine.start()
    ahead = np.zeros(block.columns)
    t = 0

    request = yield from receive(COORDINATOR, Request)
    while not isinstance(request, Finish):
        match request:
            case SendLabels():
                answer: object = Labels(gate.exact(block.own_labels()))
            case BlockBegin():
                answer = Change(*gate.exact(_change_of(block, x), 0.0))
            case BlockTurn(step, slope, blocks):
                x = x + step * ahead  # line 7, of the round before
                gradient = block.correlations(slope)
                error = universal_step(t, least)
                seen = gradient + settings.gradient_error * error * _signs(gate.run, t, block)  # line 5
                ahead = mine.towards(x, seen, blocks, settings.oracle_error * error)  # line 6
                answer = Change(*gate.exact(_change_of(block, ahead), mine.gap(x, gradient)))
                t += 1
            case SendBlockModel():
                answer = BlockModel(gate.exact(x))
        request = yield from ask_one(COORDINATOR, answer, Request)
    return (yield from finish_party(block, gate, request))


REPLIES: Replies = {SendLabels: Labels, BlockBegin: Change, BlockTurn: Change, SendBlockModel: BlockModel, Finish: Done}


@dataclass(frozen=True)
class BlockFrankWolfe(Method):
    """Block-coordinate Frank-Wolfe under arbitrary sampling, over columns held by different parties.

    Exact values leave: it is not private.

    Parameters
    ----------
    sampling
        Which blocks a round updates, such as `co.PerParty(1)`, by which no party waits for another.
    rounds
        The most steps.
    tolerance
        Stop when the certified gap is at most this, in units of the objective; 0: use all rounds.
    gradient_error
        In round t every entry of the gradient is wrong by this times the step, with random signs: to see what inexact
        answers cost. The certificate is exact all the same.
    oracle_error
        The vertex taken is the worst one within this times the step of the best: likewise.
    """

    sampling: Sampling = field(default_factory=lambda: PerParty(1))
    rounds: int = 1000
    tolerance: float = 1e-4
    gradient_error: float = 0.0
    oracle_error: float = 0.0
    TITLE: ClassVar[str] = "block Frank-Wolfe"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES

    def __post_init__(self) -> None:
        if isinstance(self.sampling, type) or not isinstance(self.sampling, Sampling):
            raise InvalidInput(f"sampling={self.sampling!r}: give one with draw and probabilities, such as Nice(4).")
        super().__post_init__()
        for name in ("gradient_error", "oracle_error"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise InvalidInput(f"{name} must be 0 or a positive number, got {value!r}", name)

    def check(self, job: Job) -> None:
        self.least(job)
        if not job.problem.loss.smooth or job.problem.intercept:
            advice = "Use LeastSquares, Logistic or SquaredHinge, and add a column of ones"
            raise InvalidInput(f"{self.TITLE} needs a smooth loss and no intercept. {advice}.")

    def price(self, job: Job) -> Mapping[str, Plan]:
        what = "every round's change of its part of the prediction, and its share of the gap"
        parts = (Charge(EXACT, self.rounds + 2, what), Charge(EXACT, 1, "its coefficients"))
        roster = job.roster
        return {p: (THE_LABELS,) * (p == roster.label) + parts * (p in roster.with_columns) for p in roster.parties}

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:
        return coordinator(job, self, gate.run)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return party(job, block, gate, self)

    def least(self, job: Job) -> float:
        """The least of the probabilities that a round has a block (p_min), over the blocks of this job.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """
        return least_probability(self.sampling, block_owners(_product(job), job.roster))


def block_owners(product: Product, roster: Roster) -> Indices:
    """For each block, the number of the party that holds it, among those with columns."""
    party_of = {place: k for k, p in enumerate(roster.with_columns) for place in roster.positions[p]}
    assert not isinstance(product.blocks, str)
    return np.array([party_of[group[0]] for group in product.blocks], np.int64)


class _Mine:
    """One party's blocks, by number: where each stands among the party's columns, and what its set says."""

    def __init__(self, product: Product, block: Block) -> None:
        place = {position: j for j, position in enumerate(block.positions.tolist())}
        assert not isinstance(product.blocks, str)
        assert not isinstance(product.each, L2Ball)
        self.each = product.each
        self.columns = dict[int, Indices]()
        for number, group in enumerate(product.blocks):
            if group[0] in place:
                self.columns[number] = np.array([place[position] for position in group])

    def start(self) -> Floats:
        x = np.zeros(sum(own.size for own in self.columns.values()))
        for own in self.columns.values():
            x[own] = self.each.start(own.size)
        return x

    def towards(self, x: Floats, gradient: Floats, blocks: Array, slack: float) -> Floats:
        """vertex − x on these blocks, 0 elsewhere."""
        ahead = np.zeros(x.size)
        for number in blocks.tolist():
            if number not in self.columns:
                raise ProtocolError(f"a peer asked for block {number}, which this party does not hold")
            own = self.columns[number]
            ahead[own] = -x[own]
            column, weight = self._vertex(gradient[own], slack)
            ahead[own[column]] += weight
        return ahead

    def _vertex(self, gradient: Floats, slack: float) -> tuple[int, float]:
        if slack == 0.0:
            return self.each.vertex(gradient)
        signs = (1.0, -1.0) if isinstance(self.each, L1Ball) else (1.0,)
        weights = np.concatenate([np.full(gradient.size, sign * self.each.radius) for sign in signs])
        values = weights * np.tile(gradient, len(signs))
        worst = int(np.argmax(np.where(values <= values.min() + slack, values, -np.inf)))
        return worst % gradient.size, float(weights[worst])

    def gap(self, x: Floats, gradient: Floats) -> float:
        """Σ over the blocks of <x, gradient> − support(gradient); one pass: every column may be a block."""
        if not self.columns:
            return 0.0
        ends = np.cumsum([0, *(own.size for own in self.columns.values())][:-1])
        values = gradient[np.concatenate(list(self.columns.values()))]
        steepest = np.minimum.reduceat(-np.abs(values) if isinstance(self.each, L1Ball) else values, ends)
        return float(x @ gradient) - self.each.radius * math.fsum(steepest)


def _change_of(block: Block, ahead: Floats) -> Floats:
    """The change of the prediction; nothing is sent where nothing moves."""
    return block.scores(ahead) if ahead.any() else np.zeros(0)


def _signs(run: str, t: int, block: Block) -> Floats:
    rng = np.random.default_rng(int.from_bytes(public_bytes(run, "error", t, *block.positions[:1]), "little"))
    return rng.choice(np.array([-1.0, 1.0]), block.columns)


def _draw(sampling: Sampling, owners: Indices, run: str, t: int) -> Indices:
    rng = np.random.default_rng(int.from_bytes(public_bytes(run, "blocks", t), "little"))
    drawn = np.unique(np.asarray(sampling.draw(owners, rng), dtype=np.int64))
    if drawn.size and not (drawn[0] >= 0 and drawn[-1] < owners.size):
        raise InvalidInput(f"{type(sampling).__name__} drew a block outside 0 to {owners.size - 1}.")
    return drawn


def _sum(changes: Mapping[str, Change], roster: Roster) -> Floats:
    total = np.zeros(roster.rows)
    for party, change in changes.items():
        moved = change.change.value
        if moved.shape != (0,):
            check_shape(moved, (roster.rows,), party)
            total += moved
    return total


def _product(job: Job) -> Product:
    if not isinstance(job.problem.constraint, Product) or isinstance(job.problem.constraint.each, L2Ball):
        raise InvalidInput(
            "block Frank-Wolfe minimises over a product of sets: give Problem(loss, constraint=co.Product("
            "co.L1Ball(radius) or co.Simplex(radius), blocks='columns' | 'parties' | groups)), or use "
            "co.DistributedFrankWolfe for one ball, co.SharingADMM for an L2Ball a party."
        )
    roster = job.roster
    return job.problem.constraint.over([roster.positions[party] for party in roster.with_columns])
