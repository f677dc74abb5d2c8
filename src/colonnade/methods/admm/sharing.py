"""Sharing ADMM over columns held by different parties, in the form that converges.

Solves   min loss(Σ A_m x_m + b, y) + Σ penalty(x_m),   x_m in X_m,   A = [A₁ … A_M], party m holds A_m; every loss; no
         penalty, ridge, lasso, elastic net, group lasso whose groups each live at one party; X_m everything, a ball, a
         simplex, a box, x ≥ 0 (`local_term`).
Source   Boyd, Parikh, Chu, Peleato, Eckstein, "Distributed optimization and statistical learning via ADMM", 2011, 7.3
         (sharing). Two blocks, all parties' x and one z, so it converges for every rho. (Hu et al., NeurIPS 2020,
         algorithm 1, moves all parties at once against the full coupling, and need not.) As a map T of w = z + u, w_m ↦
         w_m + 2 (A_m x_m − z_m), it takes no two points further apart. There are two ways to a fixed point of such a
         map, and each is far ahead of the other on some problems:
             relaxed    w ← (1 − θ) w + θ T(w)             over-relaxed ADMM; faster where loss or penalty curve
             anchored   w ← anchor/(k+1) + k/(k+1) T(w)    faster on linear programs: sources in anchored.py
         It begins relaxed. An epoch ends when the residual has fallen, or has lasted a share of all rounds: then the
         next one goes the other way. A relaxed step is one anchored at w itself, so a party is told where the anchor is
         and how far `back`. v = rho·u, the dual vector, is all it needs: z_m = w_m − v/rho, and z_m − v/rho its target.
Leaves   the labels, and beside them offsets and weights of rows that have them, to the coordinator alone, whose v tells
         each party the slope of the loss in every row; from each party, every round: its prediction for every row, the
         penalty of its coefficients, and two numbers of the certificate; at a warm start (graph/dual.py) first of all
         its prediction there.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when the gap, which bounds objective − optimum, is at most the tolerance.
Proof    after the z-update v is a slope of the loss, so it lies in the domain of loss*. With s ≤ 1 that brings every
         −s·A_mᵀv into the domain of penalty*, −loss*(s·v) − Σ penalty*(−s·A_mᵀv) bounds the optimum from below; b asks
         for 1ᵀv = 0. Convergence: neither way takes w further from a fixed point than it was at the epoch's beginning,
         and either epochs grow for ever, in which the residual falls like 1/√k and 1/k, or each cuts it by a factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Array, Floats
from colonnade.methods.graph.anchored import FAINT, MOST_CHANGES, Epochs, halfway
from colonnade.methods.graph.consensus import ratio
from colonnade.methods.graph.dual import Given, Start, repr_of
from colonnade.methods.method import (
    Done,
    Finish,
    Labels,
    Method,
    SendLabels,
    adjusted,
    ask_labels,
    check_shape,
    label_charge,
)
from colonnade.model.job import Answer, Job, Own
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Released
from colonnade.problem import ElasticNet, GroupLasso, Lasso, Penalty, Problem, Ridge
from colonnade.problem.checks import positive
from colonnade.problem.nearest import nearest
from colonnade.problem.penalties import Free, Within, dual_figures
from colonnade.problem.sets import COLUMNS, Box, L1Ball, L2Ball, NonNegative, Product, Set, Simplex
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Note, Program, ask, ask_one, last, message, receive, tell

RELAXATION = 0.9  # θ
BLUNT = 1e-3  # of the mean residual: kinks are rounded off over that width where a slope is asked for at a kink


@message(40)
class SharingDual:
    """Coordinator → party: the dual vector; answer with the coefficients that suit it."""

    values: Array
    rho: float
    drop: bool  # the anchor, at the state that these values and this rho give
    back: float  # how far this round's step goes back from T(w) to the anchor


@message(41)
class SharingPart:
    """Party → coordinator: my prediction now, and what the certificate needs."""

    prediction: Released[Array]
    penalty: Released[float]  # of the sender's coefficients
    shrink: Released[float]  # by which the dual vector enters the domain of the sender's penalty*
    conjugate: Released[float]  # penalty* there


Request = SendLabels | SharingDual | Finish
Parts = Mapping[str, SharingPart]


class Coupling:
    """What the coordinator keeps: the dual vector, and each party's w, with its z = w − u and the anchors of both."""

    def __init__(self, problem: Problem, labels: Floats, parties: tuple[str, ...], settings: SharingADMM) -> None:
        self.problem = problem
        self.y = labels
        self.settings = settings
        self.rho = (settings.coupling or math.sqrt(len(parties))) / self.y.size
        self.w = np.zeros((len(parties), self.y.size))
        self.intercept = 0.0
        self.bound = -math.inf
        self.changes = 0
        self.primal = self.dual = math.nan
        self.epochs = Epochs(anchored=False, alternates=True)
        self.v = self.prox()
        self.anchor = self.w.copy()
        self.age = 0
        self.z0, self.v0 = np.zeros_like(self.w), np.zeros(self.y.size)

    @property
    def request(self) -> SharingDual:
        """What every party is asked next."""
        back = 1.0 / (self.age + 2) if self.epochs.anchored else 1.0 - RELAXATION
        return SharingDual(self.v, self.rho, self.age == 0 or not self.epochs.anchored, back)

    def begin(self, predictions: Floats) -> None:
        """At a fixed point, if these are predictions of an answer: z = Ax, and v the slope of the loss there."""
        self.v = slope_at(self.problem, predictions.sum(axis=0), self.y)
        self.w = predictions + self.v / self.rho
        self.z0, self.v0, self.anchor = predictions, self.v, self.w.copy()

    def prox(self) -> Floats:
        """v of z = argmin loss(Σ z_m) + rho/2 Σ ‖z_m − w_m‖², whose z_m is w_m − v/rho: one number a row."""
        count = len(self.w)
        point = self.w.sum(axis=0)
        prox = partial(self.problem.loss.prox, y=self.y, step=count / self.rho)
        if self.problem.intercept:
            self.intercept = free_intercept(prox, point, self.intercept)
        v = (self.rho / count) * (point + self.intercept - prox(point + self.intercept))
        return balanced(v) if self.problem.intercept else v

    def update(self, t: int, predictions: Floats) -> None:
        """w ← part of the way back from T(w) to the anchor;  v by the prox;  a restart, if the residual asks for it."""
        z = self.w - self.v / self.rho
        asked = self.request
        apart = predictions - z
        anchor = self.anchor if self.epochs.anchored else self.w
        self.w, self.age = asked.back * anchor + (1.0 - asked.back) * (self.w + 2.0 * apart), self.age + 1
        old = self.v
        self.v = self.prox()
        residual = float(np.linalg.norm(apart))
        self.primal = ratio(residual, float(np.linalg.norm(z)))
        self.dual = ratio(float(np.linalg.norm(self.v - old)), float(np.linalg.norm(self.v)))
        if self.epochs.over(t, residual):
            self._restart()

    def _restart(self) -> None:
        """Drop the anchor here; rho halfway, on a logarithmic scale, to how far v moved over how far the z did."""
        z = self.w - self.v / self.rho
        many = math.sqrt(len(self.w))
        shift = float(np.linalg.norm(z - self.z0))
        turned = many * float(np.linalg.norm(self.v - self.v0))
        clear = min(ratio(shift, float(np.linalg.norm(z))), ratio(turned, float(np.linalg.norm(self.v)))) > FAINT
        if self.settings.coupling is None and clear and self.changes < MOST_CHANGES:
            self.changes += 1
            self.rho *= halfway(self.rho, shift, turned)
            self.w = z + self.v / self.rho
        self.z0, self.v0, self.anchor, self.age = z, self.v, self.w.copy(), 0

    def certificate(self, parts: Parts) -> tuple[float, float, float]:
        """The objective at the parties' coefficients, its best intercept, and the gap to the best bound so far."""
        loss = self.problem.loss
        shrink = min(part.shrink.value for part in parts.values())
        conjugates = math.fsum(part.conjugate.value for part in parts.values())
        self.bound = max(self.bound, -loss.conjugate(shrink * self.v, self.y) - conjugates)
        scores = np.asarray(sum(part.prediction.value for part in parts.values()))
        intercept = loss.best_intercept(scores, self.y) if self.problem.intercept else 0.0
        value = loss.value(scores + intercept, self.y) + math.fsum(part.penalty.value for part in parts.values())
        return value, intercept, value - self.bound


def coordinator(job: Job, settings: SharingADMM) -> Program[Answer]:
    roster = job.roster
    parties = job.roster.with_columns
    problem, labels = adjusted(job, (yield from ask_labels(roster)))
    state = Coupling(problem, labels, parties, settings)
    note: Note | None = None
    for t in range(1, settings.rounds + 1):
        parts = yield from ask(parties, state.request, SharingPart, note)  # x_m, of all parties at once
        for party in parties:
            check_shape(parts[party].prediction.value, (roster.rows,), party)
        objective, intercept, gap = state.certificate(parts)
        predictions = np.stack([parts[party].prediction.value for party in parties])
        if t == 1 and settings.start is not None:
            state.begin(predictions)  # a party's first answer is the start
        else:
            state.update(t, predictions)  # z and u
        note = {"round": t, "objective": objective, "gap": gap, "primal": state.primal, "dual": state.dual}
        if settings.over(t, gap):
            break
    yield from tell({p: Finish(np.zeros(0), intercept) for p in roster.parties}, Done, note)
    return Answer({}, intercept, objective, gap, settings.status(gap))


def party(job: Job, block: Block, gate: Gate, settings: SharingADMM) -> Program[Own]:
    x = np.zeros(block.columns)
    w = np.zeros(block.rows)
    anchor = np.zeros(block.rows)
    rho_old = math.nan
    start = Start.of(settings.start)
    if block.columns:
        penalty = local_term(job, block.positions)
        closest = nearest(block.matrix, penalty)
    request = yield from receive(COORDINATOR, Request)
    while not isinstance(request, Finish):
        match request:
            case SendLabels():
                answer: object = Labels(gate.exact(block.own_labels()))
            case SharingDual(v, rho, drop, back):
                check_shape(v, (block.rows,), COORDINATOR)
                if not (math.isfinite(rho) and rho > 0.0 and 0.0 <= back <= 1.0):
                    raise ProtocolError("the coordinator sent a rho that is not positive, or a step back beyond 0 to 1")
                if start is not None:
                    x = start.own(gate.node, x.shape)
                    start = None
                    prediction = w = block.scores(x)
                    # The next z is this prediction, whatever v will be.
                    rho_old = math.inf
                else:
                    z = w - v / (rho if math.isnan(rho_old) else rho_old)
                    if drop:
                        anchor = w = w if rho == rho_old else z + v / rho
                    x = closest(z - v / rho, rho)
                    rho_old = rho
                    prediction = block.scores(x)
                    w = back * anchor + (1.0 - back) * (w + 2.0 * (prediction - z))
                pull = -block.correlations(v)
                figures = dual_figures(penalty, block.matrix, x, pull)
                answer = SharingPart(*gate.exact(prediction, *figures))  # infinite price
        request = yield from ask_one(COORDINATOR, answer, Request)
    yield from last({COORDINATOR: Done()})
    return Own(x, gate.receipt())


REPLIES: Replies = {SendLabels: Labels, SharingDual: SharingPart, Finish: Done}


@dataclass(frozen=True)
class SharingADMM(Method):
    """Sharing ADMM over columns held by different parties, in the form that converges.

    Exact values leave: it is not private.

    Parameters
    ----------
    rounds
        The most rounds.
    tolerance
        Stop when the certified gap is at most this, in units of the objective; 0: use all rounds.
    coupling
        The paper's rho times the number of rows, kept as it is. None: from the root of the number of parties on (one
        party's step asks for 1, that of z, which all share, for their number), moved until both residuals fall alike.
    start
        An earlier Fit, or coefficients by party: begin there; the first of the rounds goes into it.
    """

    rounds: int = 1000
    tolerance: float = 1e-4
    coupling: float | None = None
    start: Given = field(default=None, compare=False)
    TITLE: ClassVar[str] = "sharing ADMM"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    ADJUSTS: ClassVar[bool] = True
    BOUNDS_AND_PENALISES: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coupling is not None:
            positive("coupling", self.coupling, "None balances it.")
        Start.of(self.start)  # or InvalidInput

    __repr__ = repr_of

    def check(self, job: Job) -> None:
        if not isinstance(job.problem.penalty, Ridge | Lasso | ElasticNet | GroupLasso | None):
            known = "co.Ridge(a)), co.Lasso, co.ElasticNet or co.GroupLasso"
            raise InvalidInput(f"{self.TITLE} takes no {job.problem.penalty!r}: give Problem(loss, penalty={known}.")
        for name in job.roster.with_columns:
            local_term(job, np.array(job.roster.positions[name]))
        if (start := Start.of(self.start)) is not None:
            start.check(job)

    def price(self, job: Job) -> Mapping[str, Plan]:
        what = "its prediction for every row and three figures about its coefficients, every round"
        parts = (Charge(EXACT, self.rounds, what),)
        roster = job.roster
        return {
            p: (label_charge(roster),) * (p == roster.label) + parts * (p in roster.with_columns)
            for p in roster.parties
        }

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:  # noqa: ARG002  it draws nothing
        return coordinator(job, self)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return party(job, block, gate, self)


def free_intercept(prox: Callable[[Floats], Floats], point: Floats, start: float) -> float:
    """The b of argmin over scores and b of loss(scores) + ‖scores − b − point‖²/(2·step), for the loss of this prox."""

    def tilt(b: float) -> float:
        """The slope in b up to a factor, which rises: the sum of the slopes of the loss at the prox of point + b."""
        return float(np.mean(point + b - prox(point + b)))

    return rising_root(tilt, start, 1.0 + float(np.std(point)))


def rising_root(rising: Callable[[float], float], start: float, reach: float) -> float:
    """Where a rising function crosses zero, looked for from `start` on."""
    from scipy.optimize import brentq  # slow to load, and few need it

    low = high = start
    value = rising(start)
    while value != 0.0 and (rising(low) > 0.0 or rising(high) < 0.0):
        low, high, reach = (low - reach, high, 2 * reach) if value > 0.0 else (low, high + reach, 2 * reach)
    return start if value == 0.0 else float(brentq(rising, low, high, xtol=1e-13, rtol=1e-14))


def balanced(v: Floats) -> Floats:
    """v with the larger of its two sides shrunk, so that it adds up to 0: no row leaves the domain of loss*."""
    up = float(np.sum(v[v > 0.0]))
    down = -float(np.sum(v[v < 0.0]))
    if up == down:
        return v
    shrink = min(up, down) / max(up, down)
    return np.where((v > 0.0) == (up > down), v * shrink, v)


def slope_at(problem: Problem, scores: Floats, labels: Floats) -> Floats:
    """The dual vector of these scores, at their best intercept; at a kink, that of a rounded-off loss."""
    loss = problem.loss
    point = scores + loss.best_intercept(scores, labels) if problem.intercept else scores
    width = BLUNT * float(np.mean(np.abs(point - labels)))
    if loss.smooth or width == 0.0:
        slope = loss.slope(point, labels)
    else:
        slope = (point - loss.prox(point, labels, width * len(labels))) / (width * len(labels))
    return balanced(slope) if problem.intercept else slope


def local_term(job: Job, positions: Array) -> Penalty:
    """Of a party that holds these columns of the joint table, numbered as it numbers them."""
    problem = job.problem
    penalty = None if problem.penalty is None else local_penalty(problem, positions)
    if problem.constraint is None:
        return Free() if penalty is None else penalty
    own = local_set(job, problem.constraint, positions)
    if isinstance(own, NonNegative) and penalty is None:
        return Free(signed=False)
    return Within(own, penalty)


def local_set(job: Job, whole: Set, positions: Array) -> Set:
    """The part of a problem's set that bounds one party's columns."""
    if isinstance(whole, Box | NonNegative):
        return whole
    holders = job.roster.with_columns
    if isinstance(whole, Product):
        if whole.blocks == COLUMNS and not isinstance(whole.each, Simplex):
            return Box(-whole.radius, whole.radius)
        places = {int(place): own for own, place in enumerate(positions)}
        blocks = whole.over([job.roster.positions[name] for name in holders]).blocks
        assert not isinstance(blocks, str)
        inside = tuple(tuple(places[place] for place in group) for group in blocks if group[0] in places)
        return whole.each if len(inside) == 1 else Product(whole.each, inside)
    if isinstance(whole, L1Ball | L2Ball | Simplex) and len(holders) == 1:
        return whole
    kind = type(whole).__name__
    each = f"co.{kind}({whole.radius:g})" if isinstance(whole, L1Ball | L2Ball | Simplex) else "co.L2Ball(radius)"
    remedy = "" if isinstance(whole, L2Ball) else "; or use co.DistributedFrankWolfe()"
    raise InvalidInput(
        f"a {kind} of all columns ties the parties together, and this method needs a set for each: give "
        f"co.Product({each}, blocks='parties'), co.Box(low, high) or co.NonNegative(){remedy}."
    )


def local_penalty(problem: Problem, positions: Array) -> Penalty:
    """The penalty of one party's columns, numbered as the party numbers them."""
    penalty = problem.penalty
    assert penalty is not None
    if not isinstance(penalty, GroupLasso):
        return penalty
    places = {int(place): own for own, place in enumerate(positions)}
    split = [group for group in penalty.named if 0 < sum(column in places for column in group) < len(group)]
    if split:
        wrong = f"{len(split)} of {len(penalty.named)} groups are split over parties, the first is {split[0]}"
        raise InvalidInput(f"{wrong}: give each group's columns to one party, or cut the group along the parties.")
    inside = tuple(tuple(places[column] for column in group) for group in penalty.named if group[0] in places)
    if (named := sum(map(len, inside))) != len(places):
        wrong = f"a party has {len(places)} columns and the groups name {named} of them"
        raise InvalidInput(f"{wrong}: every column needs one group; a column on its own is one such as (7,).")
    return GroupLasso(penalty.a, inside)
