"""How good is it? Objective and duality gap of a model whose columns are spread over a graph, along a tree.

Solves   nothing: bounds  loss(Σ Aᵢxᵢ + b, y) + Σ gᵢ(xᵢ) − its minimum  by the dual value at one point u for all.
Source   Fenchel duality, as in `problem.certificate`: every u gives −loss*(u) − Σ gᵢ*(−Aᵢᵀu) ≤ minimum.
How      along the tree of fewest hops from the label holder: its dual point goes down; sums of scores Aᵢxᵢ and of
         penalties come up; objective and gap go down. The intercept b is the best one for the scores.
Leaves   the dual point; from each agent the scores of its subtree, one vector of n; objective and gap, to everybody.
"""

from __future__ import annotations

import math

import numpy as np

from colonnade.kernels.arrays import Array, Floats
from colonnade.methods.graph.consensus import Network
from colonnade.methods.method import Answer, Job, Status
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge
from colonnade.privacy.gate import Gate
from colonnade.privacy.released import Released
from colonnade.problem import Penalty
from colonnade.runtime.messages import message
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Program, ask, ask_one, last, receive

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
        shrink = penalty.shrink(pull)
        own = penalty.value(x), penalty.conjugate(pull * shrink), shrink
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
    # A conjugate that is finite everywhere asks for no shrinking; the others are 0 wherever they are finite.
    gap = objective + loss.conjugate(factor * point.value, y) + conjugate
    verdict = CertificateTotal(*gate.exact(objective, gap))
    yield from last(dict.fromkeys(children, verdict))
    return Answer({}, intercept, objective, gap, status)
