"""What a method is, and the messages that methods share.

A method is a frozen value that holds its settings, and a file of node programs that read like the paper. It names its
programs, what it asks and answers (`REPLIES`), and its price before anything is sent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Array, Floats
from colonnade.model.job import Answer, Job, Own, Roster, Status, swamped
from colonnade.notebook import explain_by_bases
from colonnade.privacy.block import Block
from colonnade.privacy.conditions import Condition
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import OF_TRUST, Privacy, Trust
from colonnade.privacy.values import Released
from colonnade.problem import Changing, Problem, Topology
from colonnade.problem.adjusted import Adjusted
from colonnade.problem.loss import RowLoss
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Program, ask_one, last, message

STANDS_OUT = 0.2  # correlation of a column with the label that real tables have


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
    DERIVATION: ClassVar[str | None] = None  # the proof of its price: a page, a heading; None: exact values leave
    SOLVES: ClassVar[tuple[type, ...]] = (Problem,)  # kinds of problem
    LOSSES: ClassVar[tuple[type, ...]] = (object,)  # whose problems it solves; what it derives may hold of few
    SPLITS: ClassVar[tuple[str, ...]] = ("columns",)  # what parties may hold: "columns", "rows", or both
    SEVERAL_RESPONSES: ClassVar[bool] = False  # whether a row's label may be several numbers
    PROTECTS_COLUMNS: ClassVar[bool] = False  # whether its price also holds for the unit COLUMN
    KEEPS_MONOTONE: ClassVar[bool] = False  # whether curves are monotone where schemas say so
    ADJUSTS: ClassVar[bool] = False  # whether rows may have an offset and a weight
    BOUNDS_AND_PENALISES: ClassVar[bool] = False  # whether a problem may have a constraint and a penalty at once

    # Two settings that many methods have, as fields with a default.
    rounds: int | None = None  # steps at most; None: no steps, or their number follows from the budget
    tolerance: float | None = None  # where to stop before that; 0: use all rounds

    def __init_subclass__(cls, **further: Any) -> None:
        super().__init_subclass__(**further)
        explain_by_bases(cls, __name__)

    def __post_init__(self) -> None:
        self.check_whole("rounds")
        tolerance: Any = self.tolerance
        if type(self).tolerance is not None and not 0 <= tolerance < math.inf:
            raise InvalidInput(
                f"tolerance must be 0 (use all rounds) or a positive number, got {tolerance!r}", "tolerance"
            )

    def check_whole(self, *settings: str) -> None:
        """InvalidInput where a setting is not a positive integer; None is taken only where it is the default.

        Parameters
        ----------
        *settings
            Names of settings.
        """
        for name in settings:
            value = getattr(self, name)
            unset = getattr(type(self), name) is None
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not (whole or (unset and value is None)):
                also = "None (from the budget) or " if unset else ""
                raise InvalidInput(f"{name} must be {also}a positive integer, got {value!r}", name)

    def check_trust(self, job: Job) -> None:
        """InvalidInput where the terms ask for a trust model that the derivation does not cover.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """
        if job.privacy is not None and job.privacy.trust not in self.trusts:
            known = " and ".join(repr(trust.value) for trust in self.trusts)
            raise InvalidInput(f"{self.TITLE} knows the trust model {known}; got {job.privacy.trust!r}.")

    def check_rows(self, job: Job) -> None:
        """InvalidInput where a set comes with a penalty, labels are counts, or rows have offsets, and it takes none.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """
        problem: Any = job.problem
        both = getattr(problem, "constraint", None) is not None and getattr(problem, "penalty", None) is not None
        if both and not self.BOUNDS_AND_PENALISES:
            remedy = "keep one of them, or use co.SharingADMM() or co.GraphADMM() without privacy"
            raise InvalidInput(f"{self.TITLE} takes a constraint or a penalty, and both were given: {remedy}.")
        private = self.DERIVATION is not None
        exact = "co.SharingADMM(), co.GraphADMM() or co.DistributedFrankWolfe()"
        if private and getattr(getattr(job.problem, "loss", None), "counts", False):
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

    def tolerates_dropout(self, job: Job) -> bool:  # noqa: ARG002  for methods that do
        """Whether its programs can go on when a party is lost on the way.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """
        return False

    def over(self, t: int, gap: float) -> bool:
        """Whether a round ends the run with this gap; a tolerance of 0 asks for all rounds.

        Parameters
        ----------
        t
            The round's number.
        gap
            The certified gap by its end.
        """
        return 0.0 < (self.tolerance or 0.0) >= gap or t == self.rounds

    def status(self, gap: float) -> Status:
        """Why a run that is over stopped; a tolerance of 0 asked for all rounds, whatever the gap's last bit says.

        Parameters
        ----------
        gap
            The certified gap at the end.
        """
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
        """The form of the method that solves this problem under these terms; most have one.

        Parameters
        ----------
        problem
            What is solved.
        privacy
            The terms; None: exact values leave.
        """
        return self

    def depth(self, job: Job) -> int:  # noqa: ARG002  lines
        """Of the curves of columns that leave it to the method: from public figures, the same wherever it is asked.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """
        return 0

    def relays(self, job: Job) -> bool:  # noqa: ARG002  never
        """Whether parties talk to each other, sealed, through the coordinator or through other parties.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """
        return False

    def rests_on(self, job: Job) -> tuple[Condition, ...]:
        """What a private run rests on and who breaks it: most often what the trust model that was asked for does.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """
        return () if job.privacy is None else OF_TRUST.get(str(job.privacy.trust), ())

    def depends_on_row_order(self, job: Job) -> bool:  # noqa: ARG002  never
        """Whether what leaves in a private run depends on the place of a row; the statement says what that means.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """
        return False

    @abstractmethod
    def check(self, job: Job) -> None:
        """InvalidInput if this method cannot do the job.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """

    @abstractmethod
    def price(self, job: Job) -> Mapping[str, Plan]:
        """Everything each party would release, before anything is.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """


def check_declared(kind: type) -> None:
    """InvalidInput where a kind of method leaves out what no default can say for it."""
    advice = "CONTRIBUTING.md, Add a method, says what a method consists of."
    if absent := [name for name in ("TITLE", "PROTOCOL", "REPLIES") if not hasattr(kind, name)]:
        raise InvalidInput(f"{kind.__name__} does not declare {' and '.join(absent)}. {advice}")
    if not (is_dataclass(kind) and kind.__dataclass_params__.frozen):  # type: ignore[attr-defined]  # of every dataclass
        what = "is no frozen dataclass, so a store and a party elsewhere could not tell its settings"
        raise InvalidInput(f"{kind.__name__} {what}: write @dataclass(frozen=True) above it. {advice}")


class Method(MethodBase):
    """A method on a star: a coordinator asks, and parties answer."""

    @abstractmethod
    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:
        """The coordinator's program; its gate is for secrets (seeds of masks), since it holds no data.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        gate
            The coordinator's own.
        """

    @abstractmethod
    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        """The program of one party.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        block
            The party's columns, and its labels if it has them.
        gate
            What its values leave by: it takes the price and draws the noise.
        """


class GraphMethod(MethodBase):
    """A method without a coordinator: every party runs the same program and talks to its neighbours only."""

    topology: Topology | Changing | None  # who may talk to whom, in roster order; None: the default of `network`

    @abstractmethod
    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Own]:
        """The program of one agent. A note that it writes holds released values only.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        block
            The agent's columns, and its labels if it has them.
        gate
            What its values leave by: it takes the price and draws the noise.
        neighbours
            The agents that it may talk to.
        """


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
    whole = network(changing, roster)
    parties = roster.parties
    if changing.size == whole.size:
        return changing
    place = [parties.index(name) for name in roster.with_columns]
    alone = parties.index(roster.label)
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
