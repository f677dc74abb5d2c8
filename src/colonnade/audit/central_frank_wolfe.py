"""Attacks on CentralFrankWolfe: the holder's program behind its own gate and budget.

transcripts   the coordinator scores all signed column numbers of a run by their likelihood ratio.
models        a reader sees the final model only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from scipy.special import expit

from colonnade.audit.gates import gate as gate_of
from colonnade.audit.lower_bound import choice_log_ratio
from colonnade.audit.mechanisms import PARTY, table
from colonnade.audit.setting import LABEL_FLIPPED, LIKELIHOOD_OF_ALL, Adversary, Setting, Target
from colonnade.kernels.arrays import Floats
from colonnade.methods.frank_wolfe.central import CentralFrankWolfe, Choose
from colonnade.methods.method import Job, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.mechanisms import gumbel_scale
from colonnade.privacy.statement import Privacy
from colonnade.problem import L1Ball, Logistic, Problem
from colonnade.runtime.program import COORDINATOR

ROUNDS, RADIUS, COLUMNS = 4, 2.0, 2


def _choices(setting: Setting, inside: bool) -> list[tuple[int, int]]:
    """One run of the holder's program behind its own gate and budget: every signed column that left."""
    X, y = table(setting, inside, COLUMNS)
    method, places = CentralFrankWolfe(rounds=ROUNDS), np.arange(COLUMNS)
    privacy = Privacy(setting.epsilon, setting.delta, "nobody", feature_bound=1.0)
    job = Job(Problem(Logistic(), L1Ball(RADIUS)), Roster(len(y), {PARTY: tuple(places.tolist())}, PARTY), privacy)
    gate = gate_of(PARTY, setting, method.price(job))
    program = method.party(job, Block(X, places, labels=y), gate)
    next(program)
    left = []
    for t in range(ROUNDS):
        gate.begin(t, t, None)
        choice = program.send({COORDINATOR: Choose()}).to[COORDINATOR]
        gate.flush()
        left.append((choice.index.value, choice.sign.value))
    return left


def transcripts(setting: Setting, inside: bool, trials: int) -> Floats:
    return np.array([_history_log_ratio(setting, tuple(_choices(setting, inside))) for _ in range(trials)])


@lru_cache(maxsize=1024)
def _history_log_ratio(setting: Setting, history: tuple[tuple[int, int], ...]) -> float:
    """The log-ratio of every choice given the ones before, added up; the formulas are written down anew here."""
    tables = [table(setting, side, COLUMNS) for side in (True, False)]
    total, x = 0.0, np.zeros(COLUMNS)
    for t, (index, sign) in enumerate(history):
        first, second = (sign * (X.T @ (-y * expit(-y * (X @ x)))) for X, y in tables)
        scale = gumbel_scale(2 * float(expit(np.abs(x).sum())), setting.rho / ROUNDS)
        # With the sign turned into the scores, the candidate that was chosen is always the one at `index`.
        total += choice_log_ratio(index, np.append(first, -first), np.append(second, -second), scale)
        x = _stepped(x, t, index, sign)
    return total


def models(setting: Setting, inside: bool, trials: int) -> Floats:
    found = np.empty(trials)
    for trial in range(trials):
        x = np.zeros(COLUMNS)
        for t, choice in enumerate(_choices(setting, inside)):
            x = _stepped(x, t, *choice)
        found[trial] = x.sum()
    return found


def _stepped(x: Floats, t: int, index: int, sign: int) -> Floats:
    step = 2 / (t + 3)
    return np.asarray((1 - step) * x - step * sign * RADIUS * (np.arange(COLUMNS) == index))


ATTACKS: Mapping[str, Target] = {
    "frank-wolfe": Target(
        "a whole run of CentralFrankWolfe: the holder's program behind its gate and budget",
        LABEL_FLIPPED,
        {
            "coordinator": Adversary("every signed column number", LIKELIHOOD_OF_ALL, transcripts),
            "reader": Adversary("the final model", "the sum of its coefficients", models),
        },
    )
}
