"""Attacks on the private Frank-Wolfe methods: their real programs behind real gates, ledgers and budgets.

transcripts     CentralFrankWolfe. The coordinator scores all signed column numbers of a run by their likelihood ratio.
central_models  the same run; a reader sees the final model only.
sketches        PrivateBlockFrankWolfe, trust "nobody". The coordinator is the adversary and sends whatever slope and
                labels it likes: those that look at one row only. It scores every sketch and product it gets.
models          the same method, trust "consortium". The adversary reads the model; all nodes run their programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit

from colonnade.attacks import setting as audited
from colonnade.attacks.lower_bound import choice_log_ratio
from colonnade.attacks.mechanisms import table
from colonnade.attacks.setting import LABEL_FLIPPED, PARTY, Adversary, Setting, Target, ask, drive, gate_of
from colonnade.kernels.arrays import Floats
from colonnade.methods.frank_wolfe.central import CentralFrankWolfe, Choose
from colonnade.methods.frank_wolfe.private_block import HashedSketch, PrivateBlockFrankWolfe, Slope
from colonnade.methods.frank_wolfe.private_spend import PRODUCT
from colonnade.methods.method import Finish
from colonnade.model.job import Job, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.mechanisms import gumbel_scale
from colonnade.privacy.statement import Privacy, Trust
from colonnade.problem import L1Ball, LeastSquares, Logistic, Problem
from colonnade.problem.problem import PublicLabels
from colonnade.runtime.program import COORDINATOR

# of the central method
PICKS = 4
RADIUS = 2.0
COLUMNS = 2
# of the block method
ROWS = 21
SIZE = 8
ROUNDS = 2
NAMES = ("one", "two")


# ------------------------------------------------------------------------------------------------ one holder


def _choices(setting: Setting, inside: bool) -> list[tuple[int, int]]:
    """One run of the holder's program behind its own gate and budget: every signed column that left."""
    X, y = table(setting, inside, COLUMNS)
    method = CentralFrankWolfe(rounds=PICKS)
    places = np.arange(COLUMNS)
    privacy = Privacy(setting.epsilon, setting.delta, "nobody", feature_bound=1.0)
    job = Job(Problem(Logistic(), L1Ball(RADIUS)), Roster(len(y), {PARTY: tuple(places.tolist())}, PARTY), privacy)
    gate = gate_of(PARTY, setting, method.price(job))
    program = method.party(job, Block(X, places, labels=y), gate)
    next(program)
    choices = [ask(gate, program, t, Choose()) for t in range(PICKS)]
    return [(choice.index.value, choice.sign.value) for choice in choices]


def transcripts(setting: Setting, inside: bool, trials: int) -> Floats:
    return np.array([_history_log_ratio(setting, tuple(_choices(setting, inside))) for _ in range(trials)])


@lru_cache(maxsize=1024)
def _history_log_ratio(setting: Setting, history: tuple[tuple[int, int], ...]) -> float:
    """The log-ratio of every choice given the ones before, added up; the formulas are written down anew here."""
    tables = [table(setting, side, COLUMNS) for side in (True, False)]
    total = 0.0
    x = np.zeros(COLUMNS)
    for t, (index, sign) in enumerate(history):
        first, second = (sign * (X.T @ (-y * expit(-y * (X @ x)))) for X, y in tables)
        scale = gumbel_scale(2 * float(expit(np.abs(x).sum())), setting.rho / PICKS)
        # With the sign turned into the scores, the candidate that was chosen is always the one at `index`.
        total += choice_log_ratio(index, np.append(first, -first), np.append(second, -second), scale)
        x = _step(x, t, index, sign)
    return total


def central_models(setting: Setting, inside: bool, trials: int) -> Floats:
    found = np.empty(trials)
    for trial in range(trials):
        x = np.zeros(COLUMNS)
        for t, choice in enumerate(_choices(setting, inside)):
            x = _step(x, t, *choice)
        found[trial] = x.sum()
    return found


def _step(x: Floats, t: int, index: int, sign: int) -> Floats:
    step = 2 / (t + 3)
    return np.asarray((1 - step) * x - step * sign * RADIUS * (np.arange(COLUMNS) == index))


# ------------------------------------------------------------------------------------------------ trust "nobody"


def sketches(claim: Setting, inside: bool, trials: int) -> Floats:
    """Replaced is one row of 21: +1 and −1 in the columns of both parties, or −1 and +1; labels are public."""
    return np.array([_sketch_score(claim, inside) for _ in range(trials)])


def _sketch_score(claim: Setting, inside: bool) -> float:
    """The log-ratio, up to a factor, of all that two parties send to a coordinator that looks at the last row alone."""
    spot = np.eye(1, ROWS, ROWS - 1)[0]
    X = np.outer(spot, np.array([1.0, -1.0]) * (1.0 if inside else -1.0))  # all other rows are empty
    method = PrivateBlockFrankWolfe(ROUNDS, SIZE, labels=PublicLabels(spot))
    privacy = Privacy(claim.epsilon, claim.delta, "nobody", feature_bound=1.0)
    roster = Roster(ROWS, {"one": (0, 1), "two": (2, 3), "labels": ()}, "labels")
    job = Job(Problem(LeastSquares(), L1Ball(1.0)), roster, privacy)
    plans = method.price(job)
    found = 0.0
    last = Block(spot[:, None].copy(), np.zeros(1, np.int64))  # its sketch is the last row's column of J
    for name in NAMES:
        gate = gate_of(name, claim, plans)
        block = Block(X, np.array(roster.positions[name]))
        sketch = HashedSketch(gate.run, SIZE, ROWS)
        program = method.party(job, block, gate)
        next(program)
        for t in range(ROUNDS):
            pick = ask(gate, program, t, Slope(spot, spot))
            if pick.column:
                sign = 1.0 if pick.index.value == 0 else -1.0
                columns, product = (part.value for part in pick.column)
                found += sign * float(columns @ sketch.of(last, 0) + PRODUCT * product[0])
    return found


# ------------------------------------------------------------------------------------------------ trust "consortium"


def models(claim: Setting, inside: bool, trials: int) -> Floats:
    """Replaced is one row of 21: the same features, the opposite label. The score is the sum of the coefficients."""
    return np.array([sum(x.sum() for x in _model(claim, inside).values()) for _ in range(trials)])


def _model(claim: Setting, inside: bool) -> Mapping[str, Floats]:
    """One run of all programs: two parties of one column each, who also hold the labels, and their coordinator."""
    X, y = table(claim, inside)
    # Later picks turn back towards zero whatever the row says, and tell less.
    method = PrivateBlockFrankWolfe(1)
    privacy = Privacy(claim.epsilon, claim.delta, trust="consortium", feature_bound=1.0)
    roster = Roster(len(y), {"one": (0,), "two": (1,)}, "one")
    job = Job(Problem(Logistic(), L1Ball(2.0)), roster, privacy)
    plans = method.price(job)
    gates = {name: gate_of(name, claim, plans, trust=Trust.CONSORTIUM) for name in (*NAMES, COORDINATOR)}
    blocks = {n: Block(np.ascontiguousarray(X[:, [k]]), np.array([k]), labels=y) for k, n in enumerate(NAMES)}
    programs: dict[str, Any] = {name: method.party(job, blocks[name], gates[name]) for name in NAMES}
    programs[COORDINATOR] = method.coordinator(job, gates[COORDINATOR])
    return {name: sent.coefficients for _, name, sent in drive(programs, gates) if isinstance(sent, Finish)}


ATTACKS: Mapping[str, Target] = {
    "frank-wolfe": Target(
        "a whole run of CentralFrankWolfe: the holder's program behind its gate and budget",
        LABEL_FLIPPED,
        {
            "coordinator": Adversary("every signed column number", audited.LIKELIHOOD_OF_ALL, transcripts),
            "reader": Adversary("the final model", "the sum of its coefficients", central_models),
        },
    ),
    "block-frank-wolfe": Target(
        "a whole run of PrivateBlockFrankWolfe: two parties' programs, a coordinator that asks about one row",
        "replace one row of 21: +1 and −1 in the columns of both parties, or −1 and +1; labels are public",
        {"coordinator": Adversary("column numbers, sketches, products", audited.LIKELIHOOD, sketches)},
    ),
    "shared-choice": Target(
        "a whole run of PrivateBlockFrankWolfe inside a consortium: two parties and their coordinator",
        LABEL_FLIPPED,
        {"reader": Adversary("the final model", "the sum of its coefficients", models)},
        trust=Trust.CONSORTIUM,
    ),
}
