"""Attacks on the gate's own mechanisms: one release through a real gate and ledger, drawn many times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from colonnade.attacks.lower_bound import choice_log_ratio
from colonnade.attacks.setting import LABEL_FLIPPED, LIKELIHOOD, RUN, Adversary, Setting, Target, gate_for
from colonnade.kernels.arrays import Floats
from colonnade.privacy.events import Event, Mechanism
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import gumbel_scale
from colonnade.privacy.store import FileLog, Log
from colonnade.privacy.values import Private
from colonnade.runtime.node import Transcript


def _gate(mechanism: Mechanism, setting: Setting, count: int, log: Log | None = None) -> Gate:
    return gate_for(Event(mechanism, setting.rho, math.inf), count, log=log)


def table(setting: Setting, inside: bool, columns: int = 2) -> tuple[Floats, Floats]:
    """Ten rows within ±1, each once with either label, which cancel in every sum; and a row of ones whose label is the
    only difference, and which decides as much as it can."""
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
    gate = _gate(Mechanism.GAUSSIAN, setting, 1)
    released = gate.gaussian(_many_sums(setting, inside, trials), rho=setting.rho)
    return np.asarray(released.value.sum(axis=1))


def replayed(setting: Setting, inside: bool, trials: int, lives: int = 16) -> Floats:
    """A step that is released, then replayed after each of fifteen crashes; all sixteen answers are seen."""
    exact = _many_sums(setting, inside, trials)
    seen = []
    with TemporaryDirectory() as folder:
        log = FileLog(Path(folder) / "party.db")
        for life in range(lives):
            gate = _gate(Mechanism.GAUSSIAN, setting, 1, log)
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
    first = _signed(setting, True)
    second = _signed(setting, False)
    scale = gumbel_scale(2.0, setting.rho)
    ratios = [choice_log_ratio(i, first, second, scale) for i in range(first.size)]
    gate = _gate(Mechanism.GUMBEL, setting, trials)
    exact = Private(_sums(setting, inside), 2.0)
    found = np.empty(trials)
    for trial in range(trials):
        gate.begin(trial, trial, None)
        index, sign = gate.noisy_max(exact, rho=setting.rho)
        found[trial] = ratios[index.value + (exact.value.size if sign.value < 0 else 0)]
    return found


def _target(title: str, receiver: Adversary, trials: int, batch: int) -> Target:
    return Target(title, LABEL_FLIPPED, {"receiver": receiver}, trials=trials, batch=batch)


_TOTALS = Adversary("the noisy sums", "their total, which is the likelihood ratio", gaussian)
_MEANS = Adversary("what each of sixteen lives sends", "the mean of the totals", replayed)
_INDICES = Adversary("index and sign", LIKELIHOOD, noisy_max)
ATTACKS: Mapping[str, Target] = {
    "gaussian": _target("sums through the gate's Gaussian mechanism", _TOTALS, 200_000, 50_000),
    "replay": _target("the same release, replayed after each of fifteen crashes", _MEANS, 50_000, 25_000),
    "noisy-max": _target("the largest signed sum through the gate's exponential mechanism", _INDICES, 3_000, 500),
}
