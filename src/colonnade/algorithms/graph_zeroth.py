"""Functions that can only be evaluated, minimised together on any connected graph, without a coordinator.

Solves   rows:     min_x Σᵢ Fᵢ(x)                    each agent can evaluate its Fᵢ at any x, and nothing else;
         columns:  min_x loss(Σ Aᵢxᵢ, y) + Σ rᵢ(xᵢ)  each agent can evaluate its rᵢ; the loss is one of ours (its prox).
         Fᵢ and rᵢ are Python callables, or what the problem says: Fᵢ = (rows of i)/n · loss + penalty/N, rᵢ = the penalty.
Source   Gratton, thesis, D-ZOA: consensus ADMM whose inner minimisation looks at values only. A slope is guessed from two
         values along random normal directions, n₁ for smoothing (kinks may be anywhere) and n₂ for the difference,
             g = [F(x + u₁n₁ + u₂n₂) − F(x + u₁n₁)] / u₂ · n₂,   u₁ = u/t, u₂ = u/(P t)².
         The thesis steps along the slope of all that an agent minimises, with a step that somebody must tune. Here only F
         is guessed; the rest, κ/2 ‖x − v‖² (rows) or ‖Aᵢx + κv‖²/(2κ) (columns), is known and kept as it is, so each step
         is x ← argmin <g, x> + known(x) + ‖x − x_t‖²/(2α) with α = farthest so far / √Σ‖g‖², and the answer of a round is
         the mean of its steps weighted by t. Nothing is left to tune but how many values are looked at.
         Columns are new: agents agree on the dual vector as in graph_admm.py.
Leaves   each agent's estimate, every round: noisy, since the directions are random, but nobody proves how noisy: for a given
         x the thesis' (ε, δ) assumes that the errors are normal. Counted here as exact: every event is infinite.
Stops    after `rounds`, whatever the values: the steps are random and do not come to rest. `average` (the thesis' proof is
         for it) gives the mean of the second half of the rounds, else the last round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from colonnade.algorithms.consensus import Accord, Graph, Links, Network, check_settings
from colonnade.algorithms.graph_admm import Loss, own_penalty
from colonnade.algorithms.method import Answer, Array, Floats, Job, Own, Status
from colonnade.errors import InvalidInput
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.released import Released
from colonnade.problem.nearest import smaller_gram
from colonnade.runtime.messages import message
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Program, ask

Function = Callable[[Floats], float]
TINY = 1e-12
SMOOTHING = 1e-3  # u: against kinks; small against coefficients of size 1
INSIDE = "(the same party)"


@message(90)
class Share:
    """Agent → neighbour: my estimate, and the largest residuals I have heard of."""

    estimate: Released[Array]
    residuals: Released[Array]


@dataclass
class Guess:
    """Slopes of a function of which only values are known."""

    function: Function
    draws: int
    rng: np.random.Generator
    whose: str

    def slope(self, x: Floats, t: int) -> Floats:
        """The mean of `draws` two-point guesses at x, in step t of a descent."""
        u1, u2 = SMOOTHING / t, SMOOTHING / (x.size * t) ** 2
        u2 = max(u2, 1e-7)  # below it, the difference of two values is rounding
        total = np.zeros(x.size)
        for _ in range(self.draws):
            first, second = self.rng.normal(size=(2, x.size))
            start = x + u1 * first
            total += (self.value(start + u2 * second) - self.value(start)) / u2 * second
        return total / self.draws

    def value(self, x: Floats) -> float:
        value = float(self.function(x))
        if not math.isfinite(value):
            raise InvalidInput(
                f"the function of {self.whose!r} gave NaN or infinity at a point of its descent: it must be finite "
                "everywhere; put a large value where it is not defined."
            )
        return value


@dataclass
class Descent:
    """Steps x ← argmin scale·<g, x> + known(x) + ‖x − x_t‖²/(2α), from where the last descent ended."""

    guess: Guess
    columns: int
    steps: int
    scale: float
    reach: float = 1e-3  # how far the last descent went: the first step of the next goes as far

    def __post_init__(self) -> None:
        self.x = np.zeros(self.columns)

    def run(self, solve: Callable[[Floats, float], Floats]) -> Floats:
        """The mean of the steps, weighted by t; solve(b, 1/α) = argmin known(x) − <b, x> + ‖x‖²/(2α)."""
        start = x = self.x
        squares, mean, gone = 0.0, np.zeros(self.columns), 0.0
        for t in range(1, self.steps + 1):
            g = self.scale * self.guess.slope(x, t)
            squares += float(g @ g)
            stiff = max(math.sqrt(squares), TINY) / max(self.reach, gone)  # 1/α
            x = solve(stiff * x - g, stiff)
            gone = max(gone, float(np.linalg.norm(x - start)))
            mean += (x - mean) * 2.0 / (t + 1)
        self.x, self.reach = mean, max(gone, TINY)
        return mean


# ------------------------------------------------------------------------------------------------ split rows


class Whole:
    """The term of an agent with all columns of its rows: F, of which only values are known."""

    def __init__(self, guess: Guess, columns: int, steps: int) -> None:
        self.descent = Descent(guess, columns, steps, 1.0)

    def near(self, centre: Floats, weight: float) -> Floats:
        """argmin F + κ/2 ‖x − centre‖², nearly."""
        return self.descent.run(lambda back, stiff: (weight * centre + back) / (weight + stiff))


def row_peer(job: Job, block: Block, gate: Gate, settings: GraphZerothOrder) -> Program[Own]:
    net = Network(settings.topology, job.roster, gate.node)
    guess = Guess(settings.row_function(job, block, gate.node), settings.draws, settings.rng(gate), gate.node)
    term, mean = Whole(guess, block.columns, settings.steps), np.zeros(block.columns)
    x = mean
    links, accord = Links(net.neighbours, x.shape, net.penalty), Accord(net.hops, 0.0)
    for t in range(settings.rounds):
        x = term.near(links.centre, links.weight)
        mean = mean + (x - mean) / max(1, t + 1 - settings.rounds // 2)
        estimate, residuals, apart, moved = gate.exact(x, accord.flood, *accord.last)
        note = {"disagreement": apart, "movement": moved} if gate.node == job.roster.label else {}
        inbox = yield from ask(net.meets(t), Share(estimate, residuals), Share, note)
        links.meet(x, {name: share.estimate.value for name, share in inbox.items()})
        accord.hear([share.residuals.value for share in inbox.values()])
        accord.turn([links])
    answer = Answer({}, 0.0, None, None, Status.FIXED_ROUNDS)
    return Own(mean if settings.average else x, gate.receipt(), answer=answer)


# ------------------------------------------------------------------------------------------------ split columns


class Columns:
    """The term of a party's columns, as in graph_admm.py, with a penalty of which only values are known."""

    def __init__(self, block: Block, guess: Guess, steps: int) -> None:
        self.matrix, self.descent = block.matrix, Descent(guess, block.columns, steps, float(block.rows))
        wide = block.columns > block.rows
        gram = block.matrix.T @ block.matrix if wide else smaller_gram(block.matrix)
        self.values, self.vectors = np.linalg.eigh(np.asarray(gram.todense() if hasattr(gram, "todense") else gram))

    def near(self, v: Floats, weight: float) -> Floats:
        """argmin n·r(x) + ‖Ax + κv‖²/(2κ), nearly."""
        pull, curvature = np.asarray(self.matrix.T @ v), np.maximum(self.values, 0.0) / weight

        def solve(back: Floats, stiff: float) -> Floats:
            return np.asarray(self.vectors @ ((self.vectors.T @ (back - pull)) / (stiff + curvature)))

        return np.asarray(v + (self.matrix @ self.descent.run(solve)) / weight)


def column_peer(job: Job, block: Block, gate: Gate, settings: GraphZerothOrder) -> Program[Own]:
    rows, holds_labels = block.rows, gate.node == job.roster.label
    net = Network(settings.topology, job.roster, gate.node)
    inner = (INSIDE,) if holds_labels and block.columns else ()
    terms: dict[str, Columns | Loss] = {}
    if block.columns:
        function = settings.column_function(job, block, gate.node)
        terms["columns"] = Columns(
            block, Guess(function, settings.draws, settings.rng(gate), gate.node), settings.steps
        )
    if holds_labels:
        terms["labels"] = Loss(job.problem, block.own_labels().astype(np.float64))
    outer = next(iter(terms))
    links = {name: Links((*net.neighbours, *inner) if name == outer else inner, (rows,), net.penalty) for name in terms}
    accord, mean = Accord(net.hops, 0.0), np.zeros(block.columns)
    for t in range(settings.rounds):
        w = {name: term.near(links[name].centre, links[name].weight) for name, term in terms.items()}
        if isinstance(columns := terms[outer], Columns):
            mean += (columns.descent.x - mean) / max(1, t + 1 - settings.rounds // 2)
        estimate, residuals, apart, moved = gate.exact(w[outer], accord.flood, *accord.last)
        note = {"disagreement": apart, "movement": moved} if holds_labels else {}
        inbox = yield from ask(net.meets(t), Share(estimate, residuals), Share, note)
        received = {name: share.estimate.value for name, share in inbox.items()}
        if inner:
            received[INSIDE] = w["labels"]
            links["labels"].meet(w["labels"], {INSIDE: w["columns"]})
        links[outer].meet(w[outer], received)
        accord.hear([share.residuals.value for share in inbox.values()])
        accord.turn(list(links.values()))
    x = columns.descent.x if isinstance(columns := terms[outer], Columns) and not settings.average else mean
    return Own(x, gate.receipt(), answer=Answer({}, 0.0, None, None, Status.FIXED_ROUNDS))


REPLIES: Replies = {None: Share}


@dataclass(frozen=True)
class GraphZerothOrder:
    """Settings: the graph; `functions` by party, values only (None: what the problem says); how many values are looked at.

    A round takes 2·steps·draws values at each agent. `seed` makes the directions repeatable; without it they are secret.
    """

    topology: Graph | None = None
    rounds: int = 200
    steps: int = 30
    draws: int = 4
    average: bool = True
    functions: Mapping[str, Function] | None = field(default=None)
    seed: int | None = None
    TITLE: ClassVar[str] = "zeroth-order ADMM on a graph"
    REPLIES: ClassVar[Replies] = REPLIES
    DERIVATION: ClassVar[str | None] = None
    SPLITS: ClassVar[tuple[str, ...]] = ("rows", "columns")

    def __post_init__(self) -> None:
        check_settings(self.rounds, 0.0)
        for name in ("steps", "draws"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 1):
                raise InvalidInput(f"{name} must be a whole number of at least 1, got {value!r}")

    def rng(self, gate: Gate) -> np.random.Generator:
        """Directions of this agent: repeatable with a seed, else from a secret that survives a crash."""
        if self.seed is not None:
            return np.random.default_rng([self.seed, *bytes(gate.node, "utf-8")])
        return np.random.default_rng(int.from_bytes(gate.secret("directions"), "little"))

    def row_function(self, job: Job, block: Block, agent: str) -> Function:
        if self.functions is not None:
            return self.functions[agent]
        loss, penalty, agents = job.problem.loss, job.problem.penalty, len(job.roster.parties)
        share, y = block.rows / job.roster.rows, block.own_labels().astype(np.float64)

        def value(x: Floats) -> float:
            own = share * loss.value(np.asarray(block.matrix @ x), y)
            return own if penalty is None else own + penalty.value(x) / agents

        return value

    def column_function(self, job: Job, block: Block, agent: str) -> Function:
        return self.functions[agent] if self.functions is not None else own_penalty(job.problem, block.positions).value

    def check(self, job: Job) -> None:
        if job.problem.constraint is not None or job.problem.intercept:
            raise InvalidInput(f"{self.TITLE} takes a loss with or without a penalty: no constraint, no intercept.")
        wanted = job.roster.parties if job.roster.by_rows else job.roster.with_columns
        if self.functions is not None and set(self.functions) != set(wanted):
            raise InvalidInput(f"functions are wanted for {', '.join(wanted)}; got {', '.join(self.functions)}.")
        if not job.roster.by_rows and self.functions is None and job.problem.penalty is None:
            raise InvalidInput(f"{self.TITLE} over split columns needs a penalty, or functions={{party: penalty}}.")

    def price(self, job: Job) -> Mapping[str, Plan]:
        shares = Charge(EXACT, self.rounds, "its estimate, and residuals, in every round")
        return dict.fromkeys(job.roster.parties, (shares,))

    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Any]:  # noqa: ARG002
        return row_peer(job, block, gate, self) if job.roster.by_rows else column_peer(job, block, gate, self)
