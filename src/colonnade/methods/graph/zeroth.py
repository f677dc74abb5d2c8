"""Functions that can only be evaluated, minimised together on any connected graph, without a coordinator.

Solves   rows:     min_x Σᵢ Fᵢ(x)                    each agent can evaluate its Fᵢ at any x, and nothing else;
         columns:  min_x loss(Σ Aᵢxᵢ, y) + Σ rᵢ(xᵢ)  each agent can evaluate its rᵢ; the loss is one of ours (its prox).
         Fᵢ and rᵢ are Python callables, or what the problem says: Fᵢ = (rows of i)/n · loss + penalty/N, rᵢ = penalty.
Source   Gratton, thesis, D-ZOA: consensus ADMM whose inner minimisation looks at values only. A slope is guessed from
         two values along random normal directions, n₁ for smoothing (kinks may be anywhere) and n₂ for the difference,
             g = [F(x + u₁n₁ + u₂n₂) − F(x + u₁n₁)] / u₂ · n₂,   u₁ = u/t, u₂ = u/(P t)².
         The thesis steps along the slope of all that an agent minimises, with a step that somebody must tune. Here only
         F is guessed; the rest, κ/2 ‖x − v‖² (rows) or ‖Aᵢx + κv‖²/(2κ) (columns), is known and kept as it is, so each
         step is x ← argmin <g, x> + known(x) + ‖x − x_t‖²/(2α) with α = farthest so far / √Σ‖g‖², at first as far as
         the last round came, and the answer of a round is the mean of its steps weighted by t. Nothing is left to tune
         but how many values are looked at.
         Columns are new: agents agree on the dual vector as in admm.py.
Leaves   each agent's estimate, every round, noisy, since the directions are random; the largest residuals it has heard
         of, and whose function was seen not to be convex. Counted as exact.
Price    every event is infinite; a finite budget refuses this method. The thesis' "intrinsic" (ε, δ) supposes how the
         errors are distributed: no ledger takes it, and an attack refutes it (docs/understand/methods/zeroth-order.md).
Stops    when no agent disagrees or moves by more than the tolerance in a round (consensus.py); with 0 after `rounds`.
         Random steps never quite come to rest: what can be asked for depends on how many values are looked at.
Answer   `average` (the thesis' proof is for it) gives the mean of the later rounds, else the last round.
Convex   functions are supposed to be. After every descent, a function's value halfway is compared with those at both
         ends: one that is above their mean is not convex, which the Fit then remarks. Seeing none proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Array, Floats
from colonnade.methods.graph.admm import INSIDE, LabelsTerm, own_term
from colonnade.methods.graph.consensus import Accord, Graph, Links, Network, check_meetings, status_of
from colonnade.methods.method import GraphMethod
from colonnade.model.job import Answer, Job, Own
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Released
from colonnade.problem.nearest import dense
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Program, ask, message

Function = Callable[[Floats], float]
TINY = 1e-12
SMOOTHING = 1e-3  # u: against kinks; small against coefficients of size 1
ROUNDING = 1e-9  # of the values compared: a function that is bent by less counts as convex


@message(90)
class EstimateShare:
    """Agent → neighbour: my estimate, and the largest residuals I have heard of."""

    estimate: Released[Array]
    residuals: Released[Array]  # four of them, and who was last heard to have a function that is not convex


@dataclass
class Guess:
    """Slopes of a function of which only values are known."""

    function: Function
    draws: int
    rng: np.random.Generator
    whose: str
    convex: bool = True  # as far as seen

    def slope(self, x: Floats, t: int) -> Floats:
        """The mean of `draws` two-point guesses at x, in step t of a descent."""
        u1 = SMOOTHING / t
        u2 = SMOOTHING / (x.size * t) ** 2
        # Below it, the difference of two values is rounding.
        u2 = max(u2, 1e-7)
        total = np.zeros(x.size)
        for _ in range(self.draws):
            first, second = self.rng.normal(size=(2, x.size))
            start = x + u1 * first
            total += (self.value(start + u2 * second) - self.value(start)) / u2 * second
        return total / self.draws

    def value(self, x: Floats) -> float:
        try:
            value = float(self.function(x))
        except (TypeError, ValueError) as error:
            wrong = f"the function of {self.whose!r} failed, or gave no number ({type(error).__name__})"
            advice = f"it takes a vector of {x.size} coefficients and returns one number"
            raise InvalidInput(f"{wrong}: {advice}.") from error
        if not math.isfinite(value):
            wrong = f"the function of {self.whose!r} gave NaN or infinity"
            raise InvalidInput(f"{wrong}: it must be finite everywhere; put a large value where it is not defined.")
        return value

    def compare(self, start: Floats, end: Floats) -> None:
        """Look for a place where the function lies above its chord."""
        values = [self.value(x) for x in (start, end, (start + end) / 2.0)]
        room = ROUNDING * sum(map(abs, values))
        self.convex = self.convex and values[2] <= (values[0] + values[1]) / 2.0 + room


@dataclass
class Descent:
    """Steps x ← argmin scale·<g, x> + known(x) + ‖x − x_t‖²/(2α), from where the last descent ended."""

    guess: Guess
    columns: int
    steps: int
    scale: float
    reach: float = 1e-3  # how far the last descent came: the first step of the next goes as far

    def __post_init__(self) -> None:
        self.x = np.zeros(self.columns)

    def run(self, solve: Callable[[Floats, float], Floats]) -> Floats:
        """The mean of the steps, weighted by t; solve(b, 1/α) = argmin known(x) − <b, x> + ‖x‖²/(2α)."""
        start = x = self.x
        squares = 0.0
        mean = np.zeros(self.columns)
        gone = 0.0
        for t in range(1, self.steps + 1):
            g = self.scale * self.guess.slope(x, t)
            squares += float(g @ g)
            stiff = max(math.sqrt(squares), TINY) / max(self.reach, gone)  # 1/α
            x = solve(stiff * x - g, stiff)
            gone = max(gone, float(np.linalg.norm(x - start)))
            mean += (x - mean) * 2.0 / (t + 1)
        self.guess.compare(start, mean)
        # Not `gone`: a first step as long as all that the last descent strayed makes the next one stray farther.
        self.x = mean
        self.reach = max(float(np.linalg.norm(mean - start)), TINY)
        return mean


class Later:
    """The mean of the later points, at least half of those so far and at most three quarters, kept as two vectors.

    Blocks are twice as long as the one before; the mean is over the last whole block and the one that is being filled.
    """

    def __init__(self, columns: int) -> None:
        self.older = np.zeros(columns)
        self.newer = np.zeros(columns)
        self.whole = 0
        self.filled = 0
        self.length = 1

    def add(self, x: Floats) -> None:
        if self.filled == self.length:
            self.older = self.newer
            self.newer = np.zeros(x.size)
            self.whole, self.filled, self.length = self.length, 0, 2 * self.length
        self.filled += 1
        self.newer = self.newer + (x - self.newer) / self.filled

    @property
    def mean(self) -> Floats:
        total: Floats = self.whole * self.older + self.filled * self.newer
        return total / max(self.whole + self.filled, 1)


class News:
    """Who was heard to have a function that is not convex: the last such party, by its place from 1; 0: nobody."""

    def __init__(self, names: tuple[str, ...], own: str) -> None:
        self.names = names
        self.own = names.index(own) + 1.0
        self.heard = 0.0

    def tell(self, residuals: Floats, convex: bool) -> Floats:
        self.heard = self.heard if convex else max(self.heard, self.own)
        return np.append(residuals, self.heard)

    def hear(self, accord: Accord, received: list[Array]) -> None:
        """One more hop: the residuals are the accord's, the last entry is ours."""
        for other in received:
            if other.shape != (5,) or other[-1] not in range(len(self.names) + 1):
                raise ProtocolError("a neighbour sent other residuals than four numbers and the number of a party")
        accord.hear([other[:-1] for other in received])
        self.heard = max([self.heard, *(float(other[-1]) for other in received)])

    @property
    def remarks(self) -> tuple[str, ...]:
        if not self.heard:
            return ()
        seen = "halfway between two points it lay above the mean of their values. The answer may be a local minimum"
        whose = self.names[int(self.heard) - 1]
        return (f"the function of {whose!r} is not convex, or not the same at every call: {seen}",)


# ------------------------------------------------------------------------------------------------ split rows


def _near(centre: Floats, weight: float, back: Floats, stiff: float) -> Floats:
    return (weight * centre + back) / (weight + stiff)


def row_peer(job: Job, block: Block, gate: Gate, settings: GraphZerothOrder) -> Program[Own]:
    net = Network(settings.topology, job.roster, gate.node)
    guess = Guess(settings.row_function(job, block, gate.node), settings.draws, settings.rng(gate), gate.node)
    descent = Descent(guess, block.columns, settings.steps, 1.0)
    later = Later(block.columns)
    news = News(net.names, gate.node)
    x = np.zeros(block.columns)
    links = Links(net.neighbours, x.shape, net.penalty)
    accord = Accord(net.hops, settings.tolerance)
    for t in range(settings.rounds):
        x = descent.run(partial(_near, links.centre, links.weight))  # argmin F + κ/2 ‖x − centre‖², nearly
        later.add(x)
        estimate, residuals, apart, moved = gate.exact(x, news.tell(accord.flood, guess.convex), *accord.last)
        note = {"disagreement": apart, "movement": moved} if gate.node == job.roster.label else {}
        inbox = yield from ask(net.meets(t), EstimateShare(estimate, residuals), EstimateShare, note)
        links.meet(x, {name: share.estimate.value for name, share in inbox.items()})
        news.hear(accord, [share.residuals.value for share in inbox.values()])
        accord.turn([links])
        if accord.agreed:
            break
    answer = Answer({}, 0.0, None, None, status_of(accord, settings.tolerance), remarks=news.remarks)
    return Own(later.mean if settings.average else x, gate.receipt(), answer=answer)


# ------------------------------------------------------------------------------------------------ split columns


class GuessedColumnsTerm:
    """The term of a party's columns, as in admm.py, with a penalty of which only values are known."""

    def __init__(self, block: Block, guess: Guess, steps: int) -> None:
        self.matrix = block.matrix
        self.descent = Descent(guess, block.columns, steps, float(block.rows))
        self.values, self.vectors = np.linalg.eigh(dense(block.matrix.T @ block.matrix))

    def near(self, v: Floats, weight: float) -> Floats:
        """argmin n·r(x) + ‖Ax + κv‖²/(2κ), nearly."""
        pull = np.asarray(self.matrix.T @ v)
        curvature = np.maximum(self.values, 0.0) / weight

        def solve(back: Floats, stiff: float) -> Floats:
            return np.asarray(self.vectors @ ((self.vectors.T @ (back - pull)) / (stiff + curvature)))

        return np.asarray(v + (self.matrix @ self.descent.run(solve)) / weight)


def column_peer(job: Job, block: Block, gate: Gate, settings: GraphZerothOrder) -> Program[Own]:
    rows = block.rows
    holds_labels = gate.node == job.roster.label
    net = Network(settings.topology, job.roster, gate.node)
    inner = (INSIDE,) if holds_labels and block.columns else ()
    terms: dict[str, GuessedColumnsTerm | LabelsTerm] = {}
    if block.columns:
        function = settings.column_function(job, block, gate.node)
        guess = Guess(function, settings.draws, settings.rng(gate), gate.node)
        terms["columns"] = GuessedColumnsTerm(block, guess, settings.steps)
    if holds_labels:
        terms["labels"] = LabelsTerm(job.problem, block.own_labels().astype(np.float64))
    outer = next(iter(terms))
    links = {name: Links((*net.neighbours, *inner) if name == outer else inner, (rows,), net.penalty) for name in terms}
    accord = Accord(net.hops, settings.tolerance)
    later = Later(block.columns)
    news = News(net.names, gate.node)
    for t in range(settings.rounds):
        w = {name: term.near(links[name].centre, links[name].weight) for name, term in terms.items()}
        convex = True
        if isinstance(columns := terms[outer], GuessedColumnsTerm):
            later.add(columns.descent.x)
            convex = columns.descent.guess.convex
        estimate, residuals, apart, moved = gate.exact(w[outer], news.tell(accord.flood, convex), *accord.last)
        note = {"disagreement": apart, "movement": moved} if holds_labels else {}
        inbox = yield from ask(net.meets(t), EstimateShare(estimate, residuals), EstimateShare, note)
        received = {name: share.estimate.value for name, share in inbox.items()}
        if inner:
            received[INSIDE] = w["labels"]
            links["labels"].meet(w["labels"], {INSIDE: w["columns"]})
        links[outer].meet(w[outer], received)
        news.hear(accord, [share.residuals.value for share in inbox.values()])
        accord.turn(list(links.values()))
        if accord.agreed:
            break
    x = later.mean
    if isinstance(columns := terms[outer], GuessedColumnsTerm) and not settings.average:
        x = columns.descent.x
    answer = Answer({}, 0.0, None, None, status_of(accord, settings.tolerance), remarks=news.remarks)
    return Own(x, gate.receipt(), answer=answer)


REPLIES: Replies = {None: EstimateShare}


@dataclass(frozen=True)
class GraphZerothOrder(GraphMethod):
    """Functions that can only be evaluated, minimised together on any connected graph, without a coordinator.

    A round takes 2·steps·draws + 3 values at each agent. Exact values leave: it is not private.

    Parameters
    ----------
    topology
        Who may talk to whom; None: all to all for few parties, else a random graph of degree 4.
    rounds
        The most rounds.
    steps
        Steps of an agent's descent in a round.
    draws
        Guesses at the slope in a step, whose mean is taken.
    average
        Whether the answer is the mean of the later rounds; else it is the last round.
    functions
        By party, a function from coefficients to a finite number; None: what the problem says.
    seed
        Makes the directions repeatable; None: they are secret.
    tolerance
        Stop when no agent disagrees or moves by more than this in a round; 0: use all rounds.
    functions_version
        Your own name for the functions, to be changed whenever they change: a run with functions needs it to be kept in
        a store (`savable`).
    """

    topology: Graph | None = None
    rounds: int = 200
    steps: int = 30
    draws: int = 4
    average: bool = True
    functions: Mapping[str, Function] | None = field(default=None)
    seed: int | None = None
    tolerance: float = 0.0
    functions_version: str | None = None
    TITLE: ClassVar[str] = "zeroth-order ADMM on a graph"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    SPLITS: ClassVar[tuple[str, ...]] = ("rows", "columns")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_whole("steps", "draws")

    @property
    def savable(self) -> bool:
        """Whether a later call can tell that it has the same functions."""
        return self.functions is None or self.functions_version is not None

    def __repr__(self) -> str:
        """As of any dataclass, but of the functions only whose they are: the address of one says nothing."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "functions"}
        if self.functions is not None:
            named["functions"] = tuple(self.functions)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in named.items())})"

    def rng(self, gate: Gate) -> np.random.Generator:
        """Directions of this agent: repeatable with a seed, else from a secret that survives a crash.

        Parameters
        ----------
        gate
            The agent's own.
        """
        if self.seed is not None:
            return np.random.default_rng([self.seed, *bytes(gate.node, "utf-8")])
        return np.random.default_rng(int.from_bytes(gate.secret("directions"), "little"))

    def row_function(self, job: Job, block: Block, agent: str) -> Function:
        """What an agent evaluates where rows are split.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        block
            The agent's rows and their labels.
        agent
            Its name.
        """
        if self.functions is not None:
            return self.functions[agent]
        loss = job.problem.loss
        penalty = job.problem.penalty
        agents = len(job.roster.parties)
        share = block.rows / job.roster.rows
        y = block.own_labels().astype(np.float64)

        def value(x: Floats) -> float:
            own = share * loss.value(np.asarray(block.matrix @ x), y)
            return own if penalty is None else own + penalty.value(x) / agents

        return value

    def column_function(self, job: Job, block: Block, agent: str) -> Function:
        """What an agent evaluates where columns are split.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        block
            The agent's columns.
        agent
            Its name.
        """
        return self.functions[agent] if self.functions is not None else own_term(job, block.positions).value

    def check(self, job: Job) -> None:
        check_meetings(self.topology, self.rounds)
        if job.problem.constraint is not None or job.problem.intercept:
            raise InvalidInput(f"{self.TITLE} takes a loss with or without a penalty: no constraint, no intercept.")
        wanted = job.roster.parties if job.roster.by_rows else job.roster.with_columns
        if self.functions is not None and set(self.functions) != set(wanted):
            raise InvalidInput(f"functions are wanted for {', '.join(wanted)}; got {', '.join(self.functions)}.")
        if not job.roster.by_rows and self.functions is None and job.problem.penalty is None:
            raise InvalidInput(f"{self.TITLE} over split columns needs a penalty, or functions={{party: penalty}}.")

    def price(self, job: Job) -> Mapping[str, Plan]:
        what = "its estimate, residuals, and whether a function was seen not to be convex, in every round"
        return dict.fromkeys(job.roster.parties, (Charge(EXACT, self.rounds, what),))

    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Any]:  # noqa: ARG002
        return row_peer(job, block, gate, self) if job.roster.by_rows else column_peer(job, block, gate, self)
