"""Attacks on private sharing ADMM: the parties' real programs behind real gates, ledgers and budgets.

Rows     one row of 200 is replaced, its label too. The coordinator is the adversary: it sends what makes the row show
         most, residuals beyond the clip for the predictions, and one row's residual alone for the coefficients.
Columns  one column is replaced: parallel to the residual, or orthogonal to it.
Method   the party has one column, so that its coefficient has a closed form, which is written down anew here. The
         score is the likelihood ratio of everything that leaves: labels, predictions of two rounds, the coefficient.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from typing import Any

import numpy as np

from colonnade.attacks.setting import Adversary, Setting, Target, ask, gate_of
from colonnade.kernels.arrays import Floats
from colonnade.methods.admm import private_sharing as admm
from colonnade.model.job import Job, Roster
from colonnade.privacy.block import COLUMN, ROW, Block, Unit
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import Privacy
from colonnade.problem import Logistic, Problem, Ridge

HOLDER = "one"
LABELLER = "labels"
# rows of the two tables
ROWS = 200
SHORT = 8
# their ridges: where the bounds are nearly reached, and an entry out of bounds shows
RIDGE = 10.0
STEEP = 1000.0
ROUNDS = 3
RADIUS = 0.1
NORM = 1.0
CLIPPED = 2.0
# an entry beyond its bound; a coupling beyond every clip
WILD = 50.0
FAR = 1e6


# ------------------------------------------------------------------------------------------------ one row


def rows_seen(claim: Setting, inside: bool, trials: int) -> Floats:
    return np.array([sum(_row_scores(claim, inside)) for _ in range(trials)])


def models_seen(claim: Setting, inside: bool, trials: int) -> Floats:
    return np.array([_row_scores(claim, inside)[-1] for _ in range(trials)])


def row_table(inside: bool) -> tuple[Floats, Floats]:
    """Ones; the last row is far beyond the bound, on either side, and so is its label."""
    column = np.ones(ROWS)
    labels = np.ones(ROWS)
    column[-1], labels[-1] = (WILD, WILD) if inside else (-WILD, -WILD)
    return column, labels


def _row_scores(claim: Setting, inside: bool) -> tuple[float, float, float]:
    """The log-ratios of the labels, of the predictions, and of the coefficient."""
    privacy = Privacy(claim.epsilon, claim.delta, "nobody", row_norm=NORM)
    rho = 1.0 / ROWS
    spot = np.eye(1, ROWS, ROWS - 1)[0]
    tell = _holders(claim, privacy, ROW, RIDGE, *row_table(inside))
    label = _weight(2.0, admm.LABELS * claim.rho) * 2.0 * float(tell(LABELLER, admm.SendNoisyLabels()).values.value[-1])
    push = rho * NORM * (NORM * RADIUS + CLIPPED)
    moves = math.hypot(2 * NORM * RADIUS, push / math.sqrt(RIDGE * rho))
    seen = np.zeros(ROWS)
    prediction = 0.0
    for _ in range(ROUNDS - 1):
        # Every residual at its clip: ‖x‖ at its bound.
        coupling = admm.Couple(np.full(ROWS, -FAR))
        seen = tell(HOLDER, coupling).prediction.value
        prediction += _weight(moves, _share(claim)) * 2.0 * RADIUS * NORM * float(seen[-1])
    model = tell(HOLDER, admm.SendNoisyModel(seen - FAR * spot)).coefficients.value[0]  # the last row's residual alone
    apart = 2.0 * rho * CLIPPED / (RIDGE + rho * ROWS)
    return label, prediction, _weight(2.0 * push / RIDGE, admm.MODEL * claim.rho) * apart * float(model)


# ------------------------------------------------------------------------------------------------ one column


def columns_seen(claim: Setting, inside: bool, trials: int) -> Floats:
    return np.array([_column_score(claim, inside) for _ in range(trials)])


def _column_score(claim: Setting, inside: bool) -> float:
    privacy = Privacy(claim.epsilon, claim.delta, "nobody", feature_bound=1.0)
    rho = 1.0 / SHORT
    column = np.ones(SHORT)
    other = np.where(np.arange(SHORT) % 2 == 0, 1.0, -1.0)
    tell = _holders(claim, privacy, COLUMN, STEEP, WILD * (column if inside else other), np.ones(SHORT))
    # ‖v‖ of a residual at its clip in every row.
    pull = rho * CLIPPED * math.sqrt(SHORT)
    # For the column that is parallel to it; the other's is 0.
    x = rho * CLIPPED * SHORT / (STEEP + rho * SHORT)
    score = 0.0
    for _ in range(ROUNDS - 1):
        seen = tell(HOLDER, admm.Couple(np.full(SHORT, -FAR))).prediction.value
        score += _weight(pull * SHORT / (STEEP + rho * SHORT), _share(claim)) * x * float(column @ seen)
    model = tell(HOLDER, admm.SendNoisyModel(np.full(SHORT, -FAR))).coefficients.value[0]
    return score + _weight(pull / math.sqrt(STEEP * rho), admm.MODEL * claim.rho) * x * float(model)


# ------------------------------------------------------------------------------------------------ both


def _share(claim: Setting) -> float:
    """What one of the predictions may cost."""
    return (1.0 - admm.LABELS - admm.MODEL) * claim.rho / (ROUNDS - 1)


def _weight(sensitivity: float, rho: float) -> float:
    """1/σ² of a Gaussian release."""
    return 2.0 * rho / sensitivity**2


def _holders(claim: Setting, privacy: Privacy, unit: Unit, ridge: float, column: Floats, labels: Floats) -> Any:
    """`tell(party, message)`: the answer of a party's program, both with a ledger of their own."""
    roster = Roster(labels.size, {HOLDER: (0,), LABELLER: ()}, LABELLER, unit)
    job = Job(Problem(Logistic(), penalty=Ridge(ridge)), roster, privacy)
    method = admm.PrivateSharingADMM(ROUNDS, RADIUS)
    blocks = {
        HOLDER: Block(column[:, None], np.array([0])),
        LABELLER: Block(np.zeros((labels.size, 0)), np.zeros(0, np.int64), labels=labels),
    }
    running: dict[str, tuple[Gate, Any]] = {}
    for name, block in blocks.items():
        gate = gate_of(name, claim, method.price(job), unit=unit)
        running[name] = gate, method.party(job, block, gate)
        next(running[name][1])
    ticks = count()
    return lambda name, message: ask(*running[name], next(ticks), message)


_ALL_OF_IT = "the likelihood ratio of all of it"
ATTACKS: Mapping[str, Target] = {
    "sharing-admm": Target(
        "a whole run of PrivateSharingADMM: both holders' programs behind their gates and budgets",
        "replace one row of 200: its feature and its label change sign",
        {
            "coordinator": Adversary("noisy labels, predictions, coefficients", _ALL_OF_IT, rows_seen),
            "reader": Adversary("the model", "the coefficient", models_seen),
        },
    ),
    "sharing-admm-column": Target(
        "the same for one feature column",
        "change one column: parallel to the residual, or orthogonal to it",
        {"coordinator": Adversary("noisy predictions and coefficients", _ALL_OF_IT, columns_seen)},
    ),
}
