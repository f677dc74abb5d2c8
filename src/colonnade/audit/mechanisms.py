"""Attacks on the gate's own mechanisms: one release through a real gate and ledger, drawn many times.

Leaves   nothing of anybody's: the tables are made up here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from colonnade.audit.gates import RUN, terms
from colonnade.audit.lower_bound import choice_log_ratio
from colonnade.audit.setting import LABEL_FLIPPED, LIKELIHOOD, Adversary, Setting, Target
from colonnade.kernels.arrays import Floats
from colonnade.privacy.events import Charge, Event, Mechanism, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.mechanisms import SystemNoise, gumbel_scale
from colonnade.privacy.released import Private
from colonnade.privacy.store import FileLog, Log, MemoryLog
from colonnade.runtime.transcript import Transcript

PARTY = "party"


def _gate(event: Event, count: int, log: Log | None = None) -> Gate:
    """A real gate over a real ledger whose plan is `count` such events."""
    ledger = Ledger(log or MemoryLog(), PARTY, Policy())
    ledger.open_run(RUN, terms(), {PARTY: (Charge(event, count, "audited release"),)})
    return Gate(ledger, RUN, SystemNoise())


def table(setting: Setting, inside: bool, columns: int = 2) -> tuple[Floats, Floats]:
    """Ten rows within ±1, each once with either label, and a row of ones whose label is the only difference.

    The others cancel in every sum, so that the last row decides as much as it can.
    """
    others = np.random.default_rng(setting.seed).uniform(-1, 1, (10, columns))
    X = np.vstack([others, others, np.ones((1, columns))])
    y = np.concatenate([np.ones(10), -np.ones(10), [1.0 if inside else -1.0]])
    return X, y


def _sums(setting: Setting, inside: bool) -> Floats:
    """X'y: replacing one row moves every entry by at most 2."""
    X, y = table(setting, inside)
    return np.asarray(X.T @ y)


def _many_sums(setting: Setting, inside: bool, trials: int) -> Private[Floats]:
    """`trials` copies. Entries get independent noise, so one release of all is one trial a row of this array."""
    return Private(np.tile(_sums(setting, inside), (trials, 1)), 2 * math.sqrt(2))


def gaussian(setting: Setting, inside: bool, trials: int) -> Floats:
    gate = _gate(Event(Mechanism.GAUSSIAN, setting.rho, math.inf), 1)
    released = gate.gaussian(_many_sums(setting, inside, trials), rho=setting.rho)
    return np.asarray(released.value.sum(axis=1))


def replayed(setting: Setting, inside: bool, trials: int, lives: int = 16) -> Floats:
    """A step that is released, then replayed after each of fifteen crashes; all sixteen answers are seen."""
    exact, seen = _many_sums(setting, inside, trials), []
    with TemporaryDirectory() as folder:
        log = FileLog(Path(folder) / "party.db")
        for life in range(lives):
            gate = _gate(Event(Mechanism.GAUSSIAN, setting.rho, math.inf), 1, log)
            transcript = Transcript(log, RUN)
            gate.begin(0, 0, next(transcript.steps()).releases if life else None)
            seen.append(gate.gaussian(exact, rho=setting.rho).value.sum(axis=1))
            if life == 0:
                transcript.record(0, {}, (), gate)
        log.close()
    return np.asarray(np.mean(seen, axis=0))


def _signed(setting: Setting, inside: bool) -> Floats:
    scores = _sums(setting, inside)
    return np.concatenate([scores, -scores])


def noisy_max(setting: Setting, inside: bool, trials: int) -> Floats:
    first, second = _signed(setting, True), _signed(setting, False)
    scale = gumbel_scale(2.0, setting.rho)
    ratios = [choice_log_ratio(i, first, second, scale) for i in range(first.size)]
    gate = _gate(Event(Mechanism.GUMBEL, setting.rho, math.inf), trials)
    exact, found = Private(_sums(setting, inside), 2.0), np.empty(trials)
    for trial in range(trials):
        gate.begin(trial, trial, None)
        index, sign = gate.noisy_max(exact, rho=setting.rho)
        found[trial] = ratios[index.value + (exact.value.size if sign.value < 0 else 0)]
    return found


def top(setting: Setting, inside: bool, trials: int, picks: int = 2) -> Floats:
    """Each pick's ratio is taken among the candidates that the picks before it have left."""
    first, second = _signed(setting, True), _signed(setting, False)
    scale = gumbel_scale(2.0, setting.rho / picks)
    gate = _gate(Event(Mechanism.TOP, setting.rho, math.inf), trials)
    exact, found = Private(_sums(setting, inside), 2.0), np.zeros(trials)
    for trial in range(trials):
        gate.begin(trial, trial, None)
        indices, signs = gate.top(exact, picks, rho=setting.rho)
        left = list(range(first.size))
        for index, sign in zip(indices.value, signs.value, strict=True):
            pick = int(index) + (exact.value.size if sign < 0 else 0)
            found[trial] += choice_log_ratio(left.index(pick), first[left], second[left], scale)
            left.remove(pick)
    return found


def symmetric(setting: Setting, inside: bool, trials: int) -> Floats:
    """The Gram matrix of rows of norm at most 1; two orthogonal rows of full length lie as far apart as rows can."""
    rng = np.random.default_rng(setting.seed)
    table = rng.normal(size=(20, 3))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    angle = math.pi / 8  # so that diagonal and off-diagonal entries both tell
    one, other = np.array([[math.cos(angle), math.sin(angle), 0.0], [-math.sin(angle), math.cos(angle), 0.0]])
    direction = np.outer(one, one) - np.outer(other, other)
    row = one if inside else other
    exact = Private(np.asarray(table.T @ table + np.outer(row, row)), math.sqrt(2))
    gate = _gate(Event(Mechanism.SYMMETRIC, setting.rho, math.inf), trials)
    found = np.empty(trials)
    for trial in range(trials):
        gate.begin(trial, trial, None)
        # Off the diagonal the variance is half and each entry is seen twice: one sum over all weighs both right.
        found[trial] = (direction * gate.symmetric(exact, rho=setting.rho).value).sum()
    return found


ATTACKS: Mapping[str, Target] = {
    "gaussian": Target(
        "sums through the gate's Gaussian mechanism",
        LABEL_FLIPPED,
        {"receiver": Adversary("the noisy sums", "their total, which is the likelihood ratio", gaussian)},
        trials=200_000,
        batch=50_000,
    ),
    "replay": Target(
        "the same release, replayed after each of fifteen crashes",
        LABEL_FLIPPED,
        {"receiver": Adversary("what each of sixteen lives sends", "the mean of the totals", replayed)},
        trials=50_000,
        batch=25_000,
    ),
    "noisy-max": Target(
        "the largest signed sum through the gate's exponential mechanism",
        LABEL_FLIPPED,
        {"receiver": Adversary("index and sign", LIKELIHOOD, noisy_max)},
        trials=3_000,
        batch=500,
    ),
    "top": Target(
        "the two largest signed sums through the gate",
        LABEL_FLIPPED,
        {"receiver": Adversary("the ordered picks", LIKELIHOOD, top)},
        trials=2_000,
        batch=500,
    ),
    "symmetric": Target(
        "a Gram matrix through the gate's symmetric Gaussian mechanism",
        "replace one row of 21: two orthogonal rows of full length",
        {"receiver": Adversary("the noisy matrix", LIKELIHOOD, symmetric)},
        trials=3_000,
        batch=500,
    ),
}
