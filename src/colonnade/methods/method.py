"""What a method is, and the messages that methods share.

A method is a frozen value that holds its settings, and a file of node programs that read like the paper. It names its
programs, what it asks and answers (`REPLIES`), and its price before anything is sent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Array, Floats, Indices
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import ROW, Block, FeatureColumn, Unit
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate, Receipt
from colonnade.privacy.statement import Privacy, Trust
from colonnade.privacy.values import Released
from colonnade.problem import Changing, Poisson, Problem, Topology
from colonnade.problem.adjusted import Adjusted
from colonnade.problem.link import Link
from colonnade.problem.losses import RowLoss
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Program, ask_one, last, message

if TYPE_CHECKING:
    from colonnade.methods.gram.rule import Solving, Sums


@dataclass(frozen=True, slots=True)
class Known:
    """What a party's schema says in public about its encoded columns."""

    bounds: tuple[float, ...]  # of the absolute value of an entry
    binary: tuple[bool, ...]
    nonnegative: tuple[bool, ...]
    norm: float  # of a row: proven by the columns, or declared where that is less
    proven: bool = False  # whether no row can be longer than that
    level: tuple[int, ...] = ()  # of a curve's hat, 1, 2, …; 0 for other columns; empty: there are no curves
    monotone: tuple[int, ...] = ()  # 1 or -1 of a number that never falls or rises, its hats behind it; empty: none


@dataclass(frozen=True, slots=True)
class Roster:
    """What everybody knows before a run: who takes part, which places its columns have, who holds the labels."""

    rows: int
    positions: Mapping[str, tuple[int, ...]]  # by party, in the order of the party's columns
    label: str  # who holds the labels; where rows are split, everybody does, and this is who reports
    unit: Unit = ROW
    held_rows: Mapping[str, int] = field(default_factory=dict)  # by party, where rows are split; else empty
    known: Mapping[str, Known] = field(default_factory=dict)  # of the parties with a declared schema
    responses: int = 0  # numbers in a row's label, where it is a vector; 0 where it is one number
    left_open: tuple[int, ...] = ()  # how many columns the method may bend, to depth 1, 2 and so on
    depth: int = 0  # to which it bent those that were left open
    beside: tuple[str, ...] = ()  # what stands beside every label, at its holder: of "offset" and "weight"
    quorum: int = 0  # parties that must be left for a run to go on when others are lost; 0: it ends then

    def __post_init__(self) -> None:
        """Every node makes its own before a run is priced: what disagrees here has cost nobody anything."""
        for party, known in self.known.items():
            due = len(self.positions.get(party, ()))
            figures = (known.bounds, known.binary, known.nonnegative, known.level, known.monotone)
            if wrong := [len(one) for place, one in enumerate(figures) if len(one) != due and (one or place < 3)]:
                raise InvalidInput(
                    f"the schema of {party!r} describes {wrong[0]:,} encoded columns, and it has {due:,} places in the "
                    "joint table. Nothing was sent. Give every party the same file, and the same version of Colonnade."
                )

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Of the labels as they travel: with a column for all that stands beside them."""
        return (self.rows, 1 + len(self.beside)) if self.beside else (self.rows,)

    @property
    def by_rows(self) -> bool:
        """Whether each party holds all columns of its own rows."""
        return bool(self.held_rows)

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.positions)

    @property
    def with_columns(self) -> tuple[str, ...]:
        return tuple(party for party, places in self.positions.items() if places)


def curves_in_words(roster: Roster) -> str:
    """How deep the curves are that were asked for or chosen, and how many columns; empty: there are none."""
    depths, hats = list[int](), 0
    for known in roster.known.values():
        for level in filter(None, known.level):  # those of a curve rise from 1 on
            hats += 1
            depths[len(depths) - (level > 1) :] = [level]
    if not depths:
        return ""
    deep = "" if min(depths) == max(depths) else f"{min(depths)} to "
    columns = sum(len(places) for places in roster.positions.values())
    said = f"curves of depth {deep}{max(depths)}, {len(depths):,} in all"
    return f"{said}: {columns:,} columns instead of {columns - hats:,}"


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done, as everybody approved it: the problem, who takes part, and what it may cost."""

    problem: Problem
    roster: Roster
    privacy: Privacy | None = None

    @property
    def rho(self) -> float:
        """The whole price of the run that its privacy terms allow, in zCDP."""
        if self.privacy is None:
            raise InvalidInput("this method needs privacy=co.Privacy(epsilon, delta, ...), which sets its noise.")
        return rho_for(self.privacy.epsilon, self.privacy.delta)

    @property
    def feature_bound(self) -> float:
        """B: the public bound of an entry."""
        if self.privacy is None or self.privacy.feature_bound is None:
            raise InvalidInput("this method needs co.Privacy(..., feature_bound=B), a public bound of |entries|.")
        return self.privacy.feature_bound

    @property
    def label_bound(self) -> float:
        """Y: the public bound of a label, or of a residual; 1 for classes."""
        if self.problem.loss.classifies:
            return 1.0
        if self.privacy is None or self.privacy.label_reach is None:
            raise InvalidInput("this method needs co.Privacy(..., label_range=(low, high)), to which it clips labels.")
        return self.privacy.label_reach

    @property
    def units(self) -> tuple[int, str]:
        """How many units there are at most, and of what: both public, rows once the parties have agreed on them."""
        if isinstance(self.roster.unit, FeatureColumn):
            return sum(len(places) for places in self.roster.positions.values()), "columns"
        return self.roster.rows, "rows"


class Status(Enum):
    """Why a run stopped."""

    CERTIFIED = "gap below tolerance"
    AGREED = "all agents agree and stand still within the tolerance"
    OUT_OF_ROUNDS = "rounds used up before the tolerance was reached"
    ONE_EXCHANGE = "one exchange, and everything else from what it released"
    ALL_ROUNDS = "all rounds done, as many as were asked for: the tolerance was 0"
    # Of private runs alone: an exact run has released everything that stopping could tell.
    FIXED_ROUNDS = "all rounds done; their number was fixed before, since stopping on the data would be a release"


@dataclass(frozen=True, slots=True)
class ReleasedGram:
    """A Gram matrix of [columns, 1, label] as it was released, and how its rows were made."""

    matrix: Floats  # (s + 2, s + 2)
    noise: Floats  # sd of every entry; 0 where it is public
    keep: Indices  # (s,) places among all columns
    centre: Floats  # (s,) what was taken off a column, and what it was multiplied by
    scale: Floats
    norms: Mapping[str, float]  # by party: rows that were longer were shortened to it
    proven: bool  # whether public bounds prove that none was
    rule: str
    cross: str
    step: float
    buckets: int = 0
    sums: Sums | None = None  # by class, of these columns: where they were released first and no row was shortened
    cut: bool = False  # whether entries of curves were cut toward zero instead of rounded to the nearest step
    solving: Solving | None = None  # what it was solved with beside itself


@dataclass(frozen=True, slots=True)
class Answer:
    """The model as far as one node may know it: the coordinator, or the agents of a graph."""

    coefficients: Mapping[str, Floats]
    intercept: float
    objective: float | None
    gap: float | None
    status: Status
    spread: Mapping[str, Floats] | None = None  # standard errors, privacy noise included
    path: tuple[Floats, Mapping[str, Floats]] | None = None  # weights of the penalty, and coefficients at each of them
    link: Link | None = None  # from a score to a probability
    remarks: tuple[str, ...] = ()  # what a reader must know about how the answer was found
    model: Any = None  # what predicts, where coefficients alone do not: the examples of a kernel machine
    release: ReleasedGram | None = None  # what the model was made of, where that is a Gram matrix
    absent: Mapping[str, str] = field(default_factory=dict)  # parties that were lost on the way, and when


@dataclass(frozen=True, slots=True)
class Own:
    """What a party's program returns; it stays with the party."""

    coefficients: Floats
    receipt: Receipt = field(default_factory=lambda: Receipt(()))
    shortened: int = 0  # rows that were over their public bound: for the party's operator only
    answer: Answer | None = None  # on a graph: what this agent knows of the whole; the Fit takes the label holder's
    model: Any = None  # the party's part of what predicts, where coefficients alone do not: its stumps


STANDS_OUT = 0.2  # correlation of a column with the label that real tables have


class Swamped(str):
    """A remark that noise rules, which a fit also warns of and logs; from public and released figures alone."""

    WORDS = "the noise swamps the model"


def swamped(why: str) -> Swamped:
    return Swamped(f"{Swamped.WORDS}: {why}. A larger epsilon, more rows or tighter public bounds would help")


def chosen_by_noise(rows: int, columns: int, rho: float, unit: int = 1, stretch: float = 1.0) -> tuple[str, ...]:
    """The remark on choices of columns, `rho` each, where only large correlations stand out of their noise.

    A score moves by 2·unit of the largest that a row can add, so the noise of the largest of 2·columns scores is about
    2·unit·ln(2·columns)/√(2ρ) of it, and all rows together add `rows` of it times a correlation. `stretch` is how much
    longer noise in the labels makes what a row adds.
    """
    needed = 2.0 * unit * stretch * math.log(2.0 * columns) / (rows * math.sqrt(2.0 * rho))
    if needed < STANDS_OUT:
        return ()
    beyond = ", and none is over 1" if needed > 1.0 else ""
    what = "columns are chosen for what they say only where a correlation is about"
    return (swamped(f"{what} {min(needed, 99.0):.2g} or more{beyond}"),)


NO_COUNTS = (
    "what it releases are sums of products, which is all that least squares needs, while a likelihood of counts needs "
    "exp(score) of every row at every step, and one row's part of that has no bound"
)


class MethodBase(ABC):
    """What every method says of itself. A method is a frozen dataclass that subclasses `Method` or `GraphMethod`."""

    TITLE: ClassVar[str]  # as reports and ledgers name it
    PROTOCOL: ClassVar[int]  # raised whenever its nodes say, or take for said, anything else than before
    REPLIES: ClassVar[Replies]  # the one answer to each request
    SEALED: ClassVar[tuple[type, ...]] = ()  # messages that nobody but the coordinator may read
    DERIVATION: ClassVar[str | None] = None  # where docs/privacy.md proves its price; None: it releases exact values
    SOLVES: ClassVar[tuple[type, ...]] = (Problem,)  # kinds of problem
    SPLITS: ClassVar[tuple[str, ...]] = ("columns",)  # what parties may hold: "columns", "rows", or both
    SEVERAL_RESPONSES: ClassVar[bool] = False  # whether a row's label may be several numbers
    PROTECTS_COLUMNS: ClassVar[bool] = False  # whether its price also holds for the unit COLUMN
    KEEPS_MONOTONE: ClassVar[bool] = False  # whether curves are monotone where schemas say so
    ADJUSTS: ClassVar[bool] = False  # whether rows may have an offset and a weight
    BOUNDS_AND_PENALISES: ClassVar[bool] = False  # whether a problem may have a constraint and a penalty at once

    # Two settings that many methods have, as fields with a default.
    rounds: int | None = None  # steps at most; None: no steps, or their number follows from the budget
    tolerance: float | None = None  # where to stop before that; 0: use all rounds

    def __post_init__(self) -> None:
        self.check_whole("rounds")
        tolerance: Any = self.tolerance
        if type(self).tolerance is not None and not 0 <= tolerance < math.inf:
            raise InvalidInput(
                f"tolerance must be 0 (use all rounds) or a positive number, got {tolerance!r}", "tolerance"
            )

    def check_whole(self, *settings: str) -> None:
        """InvalidInput where a setting is no whole number from 1 on; None is one only where it is the default."""
        for name in settings:
            value, unset = getattr(self, name), getattr(type(self), name) is None
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not (whole or (unset and value is None)):
                also = "None (from the budget) or " if unset else ""
                raise InvalidInput(f"{name} must be {also}a whole number from 1 on, got {value!r}", name)

    def check_trust(self, job: Job) -> None:
        """InvalidInput where the terms ask for a trust model that the derivation does not cover."""
        if job.privacy is not None and job.privacy.trust not in self.trusts:
            known = " and ".join(repr(trust.value) for trust in self.trusts)
            raise InvalidInput(f"{self.TITLE} knows the trust model {known}; got {job.privacy.trust!r}.")

    def check_rows(self, job: Job) -> None:
        """InvalidInput where a set comes with a penalty, labels are counts, or rows have offsets, and it takes none."""
        problem: Any = job.problem
        both = getattr(problem, "constraint", None) is not None and getattr(problem, "penalty", None) is not None
        if both and not self.BOUNDS_AND_PENALISES:
            remedy = "keep one of them, or use co.SharingADMM() or co.GraphADMM() without privacy"
            raise InvalidInput(f"{self.TITLE} takes a constraint or a penalty, and both were given: {remedy}.")
        private, exact = self.DERIVATION is not None, "co.SharingADMM(), co.GraphADMM() or co.DistributedFrankWolfe()"
        if private and isinstance(getattr(job.problem, "loss", None), Poisson):
            raise InvalidInput(
                f"{self.TITLE} fits no Poisson likelihood: {NO_COUNTS}. Fit co.LeastSquares() to log(1 + count), or to "
                f"the rate, with label_range=(low, high); or leave privacy out and use {exact}."
            )
        if job.roster.beside and (job.roster.responses or not isinstance(job.problem, Problem)):
            kind = "several responses" if job.roster.responses else f"a {type(job.problem).__name__}"
            raise InvalidInput(f"{kind} take no {' and no '.join(job.roster.beside)}: leave them out.")
        if job.roster.beside and not self.ADJUSTS:
            why = "its price is proven for rows that count alike" if private else "its rows count alike"
            remedy = "Fit the rate (count over exposure) with label_range=(low, high) instead; or" if private else "To"
            remedy += f" {'leave privacy out and use' if private else 'have them, use'} {exact}"
            raise InvalidInput(f"{self.TITLE} takes no {' and no '.join(job.roster.beside)}: {why}. {remedy}.")

    def spares(self, job: Job) -> bool:  # noqa: ARG002  for methods that do
        """Whether its programs can go on when a party is lost on the way."""
        return False

    def over(self, t: int, gap: float) -> bool:
        """Whether round t ends the run with this gap; a tolerance of 0 asks for all rounds."""
        return 0.0 < (self.tolerance or 0.0) >= gap or t == self.rounds

    def status(self, gap: float) -> Status:
        """Why a run that is over stopped; a tolerance of 0 asked for all rounds, whatever the gap's last bit says."""
        if not self.tolerance:
            return Status.ALL_ROUNDS
        return Status.CERTIFIED if gap <= self.tolerance else Status.OUT_OF_ROUNDS

    @property
    def trusts(self) -> tuple[Trust, ...]:
        """The trust models that its derivation covers."""
        return ()

    @property
    def savable(self) -> bool:
        """Whether a store can tell these settings from others."""
        return True

    @property
    def labels_public(self) -> bool:
        """Whether the settings hold the labels, by the place of a row."""
        return False

    def variant(self, problem: object, privacy: Privacy | None = None) -> Method | GraphMethod | Self:  # noqa: ARG002
        """The form of the method that solves this problem under these terms; most have one."""
        return self

    def depth(self, job: Job) -> int:  # noqa: ARG002  lines
        """Of the curves of columns that leave it to the method: from public figures, the same wherever it is asked."""
        return 0

    def relays(self, job: Job) -> bool:  # noqa: ARG002  never
        """Whether parties talk to each other, sealed, through the coordinator or through other parties."""
        return False

    def rests_on(self, job: Job) -> str:
        """The trust model whose assumptions a private run rests on: most often the one that was asked for."""
        return "" if job.privacy is None else str(job.privacy.trust)

    def by_place(self, job: Job) -> bool:  # noqa: ARG002  never
        """Whether what leaves in a private run depends on the place of a row; the statement says what that means."""
        return False

    @abstractmethod
    def check(self, job: Job) -> None:
        """InvalidInput if this method cannot do the job."""

    @abstractmethod
    def price(self, job: Job) -> Mapping[str, Plan]:
        """Everything each party would release, before anything is."""


class Method(MethodBase):
    """A method on a star: a coordinator asks, and parties answer."""

    @abstractmethod
    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:
        """The coordinator's program; its gate is for secrets (seeds of masks), since it holds no data."""

    @abstractmethod
    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        """The program of one party."""


class GraphMethod(MethodBase):
    """A method without a coordinator: every party runs the same program and talks to its neighbours only."""

    topology: Topology | Changing | None  # who may talk to whom, in roster order; None: the default of `network`

    @abstractmethod
    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Own]:
        """The program of one agent. A note that it writes holds released values only."""


FEW_AGENTS = 6


def network(topology: Topology | Changing | None, roster: Roster) -> Topology:
    """The graph over all parties, in roster order.

    A graph over the parties with columns only is taken too: a party that holds nothing but the labels is then linked to
    its centre. Without a graph, few agents are all linked to each other; more get a random graph of degree 4, whose
    messages grow with the agents and whose diameter hardly does.
    """
    parties = roster.parties
    if topology is None:
        few = len(parties) <= FEW_AGENTS
        return Topology.complete(len(parties)) if few else Topology.random(len(parties), degree=4)
    if isinstance(topology, Changing):
        topology = topology.union
    if not isinstance(topology, Topology):
        raise InvalidInput(f"topology={topology!r} is not a graph: give one such as co.Topology.ring(4).", "topology")
    if topology.size == len(parties):
        return topology
    place = {i: parties.index(name) for i, name in enumerate(roster.with_columns)}
    only_labels = not roster.positions[roster.label] and len(parties) == len(place) + 1
    if topology.size == len(place) and only_labels:
        extra = (place[topology.centre], parties.index(roster.label))
        return Topology(len(parties), (*((place[i], place[j]) for i, j in topology.edges), extra))
    raise InvalidInput(
        f"the topology has {topology.size} nodes for {len(parties)} parties ({', '.join(parties)}): "
        f"every party is a node, in this order. Give a topology of {len(parties)} nodes."
    )


def pattern(changing: Changing, roster: Roster) -> Changing:
    """The links of each round over all parties, as `network` places them: one that it adds never rests."""
    whole, parties = network(changing, roster), roster.parties
    if changing.size == whole.size:
        return changing
    place, alone = [parties.index(name) for name in roster.with_columns], parties.index(roster.label)
    added = tuple(edge for edge in whole.edges if alone in edge)
    return Changing(whole.size, tuple((*((place[i], place[j]) for i, j in edges), *added) for edges in changing.rounds))


def check_shape(values: Array, shape: tuple[int, ...], sender: str) -> None:
    """ProtocolError where a peer sent an array of another shape than was due."""
    if values.shape != shape:
        raise ProtocolError(f"{sender!r} sent an array of shape {values.shape} where {shape} was due")


def numbers(values: Array, shape: tuple[int, ...], sender: str) -> Floats:
    """An array that a peer sent, as doubles; refused for its shape, or where one is not finite: by it alone."""
    check_shape(values, shape, sender)
    if not np.isfinite(out := values.astype(np.float64)).all():
        raise ProtocolError(f"{sender!r} sent numbers that are not finite. Nothing was computed with them.")
    return out


@message(10)
class SendLabels:
    """Coordinator → label holder: release the labels."""


@message(11)
class Labels:
    """Label holder → coordinator: the labels."""

    values: Released[Array]


@message(12)
class Finish:
    """Coordinator → party: the run is over; these coefficients are yours."""

    coefficients: Array
    intercept: float


@message(13)
class Done:
    """Party → coordinator: finished."""


THE_LABELS = Charge(EXACT, 1, "the labels")


def label_charge(roster: Roster) -> Charge:
    """The labels, and what stands beside them."""
    return Charge(EXACT, 1, " and ".join(("the labels", *(f"the {name}s" for name in roster.beside))))


def ask_labels(roster: Roster) -> Program[Array]:
    """The labels as their holder sends them, one a row; beside each its offset and its weight, where it has them."""
    labels = (yield from ask_one(roster.label, SendLabels(), Labels)).values.value
    check_shape(labels, roster.label_shape, roster.label)
    return labels


def adjusted(job: Job, labels: Array) -> tuple[Problem, Floats]:
    """The problem of these rows and the labels alone: offsets and weights that stand beside them become its loss."""
    roster = job.roster
    if not roster.beside:
        return job.problem, labels.astype(np.float64)
    own = numbers(labels, roster.label_shape, roster.label)
    beside = dict(zip(roster.beside, np.ascontiguousarray(own.T[1:]), strict=True))
    weight = beside.get("weight")
    if weight is not None and weight.min() <= 0.0:
        raise ProtocolError(f"{roster.label!r} sent weights that are not above 0. Nothing was computed with them.")
    loss = Adjusted.of(cast(RowLoss, job.problem.loss), roster.rows, beside.get("offset"), weight)
    return replace(job.problem, loss=loss), np.ascontiguousarray(own[:, 0])


def finish_party(block: Block, gate: Gate, finish: Finish, shortened: int = 0) -> Program[Own]:
    """The end of a party's program: check its coefficients, say that it is done, and keep them."""
    coefficients = numbers(finish.coefficients, (block.columns,), COORDINATOR)
    yield from last({COORDINATOR: Done()})
    return Own(coefficients, gate.receipt(), shortened=shortened)
