"""What ridge and ADMM on a graph share: settings, a warm start, and a certificate of how good the answer is.

Warm     a run that begins at another problem's answer has only the difference to find, and ends at its own: methods
         that take `start=` converge from every point. It is coefficients by party, a Fit or a mapping. A party's
         program takes its own and nobody else's, and they do not travel: neither a Fit nor an array can be sent as a
         setting, so a run with parties elsewhere refuses it. Settings print it as a digest, by which a stored run is
         found again and which every ledger keeps.
Duals    are not asked for. At an answer the dual vector is the slope of the loss at the scores (`slope_at`), and on a
         graph the multipliers of a tree are the scores behind each link (`resume`): all follows from the scores.
Bound    Fenchel duality: every u gives −loss*(u) − Σ gᵢ*(−Aᵢᵀu) ≤ the minimum of
         loss(Σ Aᵢxᵢ + b, y) + Σ gᵢ(xᵢ). Along the tree of fewest hops from the label holder its dual point goes down;
         sums of scores Aᵢxᵢ and of penalties come up; objective and gap go down. b is the best one for the scores.
Leaves   the dual point; from each agent the scores of its subtree, one vector of n, at the end and at a warm start
         (of SharingADMM: of each party); objective and gap, to everybody. Each is in the method's price.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Array, Floats
from colonnade.methods.graph.consensus import Graph, Network, check_meetings, read_shares
from colonnade.methods.method import GraphMethod, Method
from colonnade.model.job import Answer, Job, Status
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import Privacy
from colonnade.privacy.values import Released
from colonnade.problem import NuclearNorm, Penalty
from colonnade.problem.penalties import dual_figures
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Post, Program, ask, ask_one, expect, last, message, receive

RESUMED = Charge(EXACT, 1, "at a warm start the scores of its columns and of those behind it in the tree, summed")
BROUGHT = Charge(EXACT, 1, "at a warm start the dual vector at the scores of all")


@runtime_checkable
class Fitted(Protocol):
    """An earlier fit."""

    @property
    def coefficients(self) -> Mapping[str, Floats]: ...


class Start:
    """Coefficients by party, to begin with."""

    def __init__(self, coefficients: Mapping[str, Floats]) -> None:
        self._own = {name: np.array(x, dtype=np.float64) for name, x in coefficients.items()}

    @classmethod
    def of(cls, given: Given) -> Start | None:
        """From what a user gives as `start=`. Arrays only: a file or a message gives lists, and those would travel."""
        if given is None:
            return None
        found = given.coefficients if isinstance(given, Fitted) else given
        if isinstance(found, Mapping):
            held = {name: found[name] for name in found}  # HeldByParty, where some are elsewhere
            if all(isinstance(x, np.ndarray) and x.dtype.kind in "fiu" for x in held.values()):
                return cls(held)
        wanted = "a Fit, or arrays by party such as {'hospital': coefficients, 'lab': coefficients}"
        raise InvalidInput(f"start={type(given).__name__} is no earlier fit: give {wanted}.")

    def check(self, job: Job) -> None:
        """Every party with columns has its coefficients, and nobody else has any."""
        roster = job.roster
        strangers = sorted(name for name, x in self._own.items() if x.size and name not in roster.with_columns)
        if strangers:
            wrong = f"start= has coefficients of {strangers[0]!r}, which has no columns here"
            raise InvalidInput(f"{wrong}: give those of {', '.join(roster.with_columns)}.")
        for party in roster.with_columns:
            wanted = (len(roster.positions[party]), *((roster.responses,) if roster.responses else ()))
            found = self._own.get(party)
            if found is None or found.shape != wanted or not np.all(np.isfinite(found)):
                what = "none" if found is None else f"an array of shape {found.shape}, or a value that is no number"
                raise InvalidInput(
                    f"start= has {what} for {party!r}, whose coefficients have the shape {wanted}: give those of an "
                    "earlier fit to the same columns, or leave start= out."
                )

    def own(self, party: str, shape: tuple[int, ...]) -> Floats:
        """The coefficients of one party; of one without columns, an empty array."""
        return self._own.get(party, np.zeros(0)).reshape(shape)

    def __repr__(self) -> str:
        """A digest: what two starts print is the same only if all of their values are."""
        whole = hashlib.sha256()
        for name in sorted(self._own):
            whole.update(bytes(f"{name!r} {self._own[name].shape} ", "utf-8") + self._own[name].tobytes())
        return f"Start({whole.hexdigest()[:32]})"


def repr_of(method: Any) -> str:
    """As any dataclass prints, but a start by its digest."""
    named = {f.name: getattr(method, f.name) for f in fields(method)}
    named["start"] = Start.of(named["start"])
    return f"{type(method).__name__}({', '.join(f'{name}={value!r}' for name, value in named.items())})"


Given = Fitted | Mapping[str, Any] | None


@dataclass(frozen=True, repr=False)
class DualGraphMethod(GraphMethod):
    """The settings of ridge and ADMM on a graph."""

    topology: Graph | None = None
    rounds: int = 5000
    tolerance: float = 1e-9
    start: Given = field(default=None, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        Start.of(self.start)  # or InvalidInput

    __repr__ = repr_of

    def variant(self, problem: object, privacy: Privacy | None = None) -> Method | GraphMethod:
        """With a budget: one noisy release of all products on the same graph, where that is all a problem needs."""
        from colonnade.methods.gram.graph import GraphGram

        if privacy is None:
            return self
        loss = getattr(problem, "loss", None)
        penalty = getattr(problem, "penalty", None)
        served = isinstance(loss, GraphGram.LOSSES)
        if not served or isinstance(penalty, NuclearNorm):
            wrong = penalty if served else loss
            instead = "co.Logistic() for classes" if getattr(loss, "classifies", False) else "co.LeastSquares()"
            instead = "another penalty" if wrong is penalty else instead
            raise InvalidInput(
                f"{self.TITLE} with privacy= makes one noisy release of all products of columns, which serves "
                f"LeastSquares() and Logistic() with Ridge, Lasso, ElasticNet or GroupLasso; got {wrong!r}. Take "
                f"{instead}, or leave privacy out."
            )
        if self.start is not None:
            raise InvalidInput(f"{self.TITLE} with privacy= takes one exchange, and no start=: leave it out.")
        return GraphGram(topology=self.topology)

    def check(self, job: Job) -> None:
        check_meetings(self.topology, self.rounds)
        if (start := Start.of(self.start)) is not None:
            start.check(job)

    def price(self, job: Job) -> Mapping[str, Plan]:
        shares = Charge(EXACT, self.rounds, "its estimate of the dual vector, and residuals, in every round")
        plans: dict[str, Plan] = dict.fromkeys(job.roster.parties, (shares, ASKED))
        plans[job.roster.label] = (shares, TOLD)
        if self.start is None:
            return plans
        return {p: (BROUGHT if p == job.roster.label else RESUMED, *plan) for p, plan in plans.items()}


def resume(
    kind: Any, gate: Gate, net: Network, root: str, scores: Floats, dual: Callable[[Floats], Floats]
) -> Program[tuple[Floats, Floats, dict[str, Floats]]]:
    """The dual vector at the sum of all scores, which the root makes; the scores of this subtree; the multipliers.

    `kind` is the method's message with one field, `values`. Two passes over the tree: scores up, the dual vector down.
    The multipliers are those of the tree: each agent's add up to its own scores, and the root's to minus the rest.
    """
    parent, children = net.tree(root)
    inbox = yield Post({}, children)
    below, _ = read_shares({child: expect(inbox, child, kind) for child in children}, scores.shape, 0)
    total = sum(below.values(), scores)
    flows = {child: -flow for child, flow in below.items()}
    if parent is None:
        down = kind(gate.exact(dual(total).reshape(-1)))
    else:
        flows[parent] = total
        answer = yield Post({parent: kind(gate.exact(total.reshape(-1)))}, (parent,))
        down = expect(answer, parent, kind)
    found, _ = read_shares({root: down}, scores.shape, 0)
    yield Post(dict.fromkeys(children, down), ())
    return found[root], total, flows


# ------------------------------------------------------------------------------------------------ certificate


ASKED = Charge(EXACT, 1, "the scores of its columns and of those behind it in the tree, summed, and their penalty")
TOLD = Charge(EXACT, 2, "one dual point, and the objective and its gap at the end")


@message(66)
class DualPoint:
    """Parent → child: the point at which the dual value is asked for."""

    point: Released[Array]


@message(67)
class CertificatePart:
    """Child → parent: what my subtree adds to the scores, the penalty, and the dual value."""

    scores: Released[Array]
    penalty: Released[float]
    conjugate: Released[float]
    factor: Released[float]  # by which the point must shrink to suit everybody in the subtree


@message(68)
class CertificateTotal:
    """Parent → child: objective and gap of the model."""

    objective: Released[float]
    gap: Released[float]


CERTIFICATE: Replies = {DualPoint: CertificatePart, CertificatePart: CertificateTotal}


def certify(
    job: Job, block: Block, gate: Gate, net: Network, penalty: Penalty, x: Floats, dual: Floats, status: Status
) -> Program[Answer]:
    """What every agent returns: the label holder's `dual` is the point; the others' is not used."""
    loss = job.problem.loss
    parent, children = net.tree(job.roster.label)
    point = gate.exact(dual) if parent is None else (yield from receive(parent, DualPoint)).point
    below = (yield from ask(children, DualPoint(point), CertificatePart)).values()

    pull = -np.asarray(block.matrix.T @ point.value)
    own = 0.0, 0.0, 1.0
    if block.columns:
        value, shrink, conjugate = dual_figures(penalty, block.matrix, x, pull)
        own = value, conjugate, shrink
    scores = np.asarray(block.matrix @ x) + sum((part.scores.value for part in below), np.zeros(point.value.shape))
    cost = own[0] + math.fsum(part.penalty.value for part in below)
    conjugate = own[1] + math.fsum(part.conjugate.value for part in below)
    factor = min([own[2], *(part.factor.value for part in below)])
    if parent is not None:
        part = CertificatePart(*gate.exact(scores, cost, conjugate, factor))
        verdict = yield from ask_one(parent, part, CertificateTotal)
        yield from last(dict.fromkeys(children, verdict))
        return Answer({}, 0.0, verdict.objective.value, verdict.gap.value, status)
    y = block.own_labels().astype(np.float64)
    intercept = loss.best_intercept(scores, y) if job.problem.intercept else 0.0
    objective = loss.value(scores + intercept, y) + cost
    # A conjugate that is finite everywhere asks for no shrinking; the others are 0 wherever they are finite. Terms are
    # of one kind at all parties.
    gap = objective + loss.conjugate(factor * point.value, y) + conjugate
    verdict = CertificateTotal(*gate.exact(objective, gap))
    yield from last(dict.fromkeys(children, verdict))
    return Answer({}, intercept, objective, gap, status)
