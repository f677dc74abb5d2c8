"""Attacks on private block Frank-Wolfe: the parties' real programs behind real gates and ledgers.

sketches   trust "nobody". The coordinator is the adversary and sends whatever slope and labels it likes: those that
           look at one row only. It scores every sketch and product it gets by their likelihood ratio.
models     trust "consortium". The adversary reads the model; two parties and the coordinator run their programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from colonnade.audit.gates import gate as gate_of
from colonnade.audit.mechanisms import table
from colonnade.audit.setting import LABEL_FLIPPED, LIKELIHOOD, Adversary, Setting, Target
from colonnade.kernels.arrays import Floats
from colonnade.methods.frank_wolfe.private_block import HashedSketch, PrivateBlockFrankWolfe, Slope
from colonnade.methods.frank_wolfe.private_spend import PRODUCT
from colonnade.methods.method import Finish, Job, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.statement import Privacy, Trust
from colonnade.problem import L1Ball, LeastSquares, Logistic, Problem
from colonnade.problem.labels import PublicLabels
from colonnade.runtime.program import COORDINATOR

ROWS, SIZE, ROUNDS = 21, 8, 2
NAMES = ("one", "two")


# ------------------------------------------------------------------------------------------------ trust "nobody"


def sketches(claim: Setting, inside: bool, trials: int) -> Floats:
    """Replaced is one row of 21: +1 and −1 in the columns of both parties, or −1 and +1; labels are public."""
    return np.array([_sent(claim, inside) for _ in range(trials)])


def _sent(claim: Setting, inside: bool) -> float:
    """The log-ratio, up to a factor, of all that two parties send to a coordinator that looks at the last row alone."""
    spot = np.eye(1, ROWS, ROWS - 1)[0]
    X = np.outer(spot, np.array([1.0, -1.0]) * (1.0 if inside else -1.0))  # all other rows are empty
    method = PrivateBlockFrankWolfe(ROUNDS, SIZE, labels=PublicLabels(spot))
    privacy = Privacy(claim.epsilon, claim.delta, "nobody", feature_bound=1.0)
    roster = Roster(ROWS, {"one": (0, 1), "two": (2, 3), "labels": ()}, "labels")
    job = Job(Problem(LeastSquares(), L1Ball(1.0)), roster, privacy)
    plans, found = method.price(job), 0.0
    for name in NAMES:
        gate = gate_of(name, claim, plans)
        block = Block(X, np.array(roster.positions[name]))
        sketch, program = HashedSketch(gate.run, SIZE, ROWS), method.party(job, block, gate)
        next(program)
        for t in range(ROUNDS):
            gate.begin(t, t, None)
            pick = program.send({COORDINATOR: Slope(spot, spot)}).to[COORDINATOR]
            gate.flush()
            if pick.column:
                sign = 1.0 if pick.index.value == 0 else -1.0
                columns, product = (part.value for part in pick.column)
                found += sign * float(columns @ _column_of(sketch) + PRODUCT * product[0])
    return found


def _column_of(sketch: HashedSketch) -> Floats:
    """The column of J that belongs to the last row."""
    unit = Block(np.eye(1, ROWS, ROWS - 1).T.copy(), np.zeros(1, np.int64))
    return sketch.of(unit, 0)


# ------------------------------------------------------------------------------------------------ trust "consortium"


def models(claim: Setting, inside: bool, trials: int) -> Floats:
    """Replaced is one row of 21: the same features, the opposite label. The score is the sum of the coefficients."""
    return np.array([sum(x.sum() for x in _model(claim, inside).values()) for _ in range(trials)])


def _model(claim: Setting, inside: bool) -> Mapping[str, Floats]:
    """One run of all programs: two parties of one column each, who also hold the labels, and their coordinator."""
    X, y = table(claim, inside)
    method = PrivateBlockFrankWolfe(1)  # later picks turn back towards zero whatever the row says, and tell less
    privacy = Privacy(claim.epsilon, claim.delta, trust="consortium", feature_bound=1.0)
    roster = Roster(len(y), {"one": (0,), "two": (1,)}, "one")
    job = Job(Problem(Logistic(), L1Ball(2.0)), roster, privacy)
    plans = method.price(job)
    gates = {name: gate_of(name, claim, plans, Trust.CONSORTIUM) for name in (*NAMES, COORDINATOR)}
    blocks = {n: Block(np.ascontiguousarray(X[:, [k]]), np.array([k]), labels=y) for k, n in enumerate(NAMES)}
    programs: dict[str, Any] = {name: method.party(job, blocks[name], gates[name]) for name in NAMES}
    programs[COORDINATOR] = method.coordinator(job, gates[COORDINATOR])
    for name in NAMES:
        next(programs[name])
    tick, post = 0, next(programs[COORDINATOR])
    while not any(isinstance(sent, Finish) for sent in post.to.values()):
        tick += 1
        for gate in gates.values():
            gate.begin(tick, tick, None)
        answers = {name: programs[name].send({COORDINATOR: sent}).to[COORDINATOR] for name, sent in post.to.items()}
        post = programs[COORDINATOR].send(answers)
        for gate in gates.values():
            gate.flush()
    return {name: sent.coefficients for name, sent in post.to.items()}


ATTACKS: Mapping[str, Target] = {
    "block-frank-wolfe": Target(
        "a whole run of PrivateBlockFrankWolfe: two parties' programs, a coordinator that asks about one row",
        "replace one row of 21: +1 and −1 in the columns of both parties, or −1 and +1; labels are public",
        {"coordinator": Adversary("column numbers, sketches, products", LIKELIHOOD, sketches)},
    ),
    "shared-choice": Target(
        "a whole run of PrivateBlockFrankWolfe inside a consortium: two parties and their coordinator",
        LABEL_FLIPPED,
        {"reader": Adversary("the final model", "the sum of its coefficients", models)},
        trust=Trust.CONSORTIUM,
    ),
}
