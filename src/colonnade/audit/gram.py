"""Attacks on Private Gram: all programs of a run behind real gates, and one unknown row.

    "gram"             one release, rows as they are        trust "secure"      "gram-views" by everybody, whole runs
    "class-sums-gram"  class sums, then the Gram matrix     trust "secure"
    "labels-gram"      noisy labels first of all            trust "secure"
    "shared-gram"      one release, noised on the way out   trust "consortium"
    "own-gram"         noisy labels, then each party's own  trust "nobody"
    "bucket-gram"      noisy buckets of each party          trust "nobody"

Method   two parties and one unknown row (gram_runs.py), scored by what each viewer can compute (gram_scores.py).
Viewers  coordinator  every message it gets; of two shares the sum: the likelihood ratio
         dealer       the coordinator once more, share by share, with the masks that it dealt
         partner      party "two": its own noise, and even the released matrix, which it never gets
         onlooker     party "two": masked columns of two stages
         reader       the model
Leaves   nothing of anybody's: the tables are made up here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from colonnade.audit.gates import RUN, terms
from colonnade.audit.gram_runs import (
    BUCKETS,
    FIRST_LABELS,
    FIRST_SUMS,
    NAMES,
    ONE,
    OWN,
    RAW,
    SHARED,
    TWO,
    Given,
    View,
    World,
    run,
)
from colonnade.audit.gram_scores import (
    BOTH,
    Parted,
    dealer_score,
    likelihood,
    local_likelihood,
    log_ratio,
    masks_score,
    model_score,
    stages,
)
from colonnade.audit.setting import LIKELIHOOD, LIKELIHOOD_OF_ALL, Adversary, Setting, Target
from colonnade.kernels.arrays import Floats
from colonnade.privacy.events import Charge, Event, Mechanism, Policy, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.released import Private
from colonnade.privacy.statement import Trust
from colonnade.privacy.store import MemoryLog
from colonnade.runtime.program import COORDINATOR

Score = Callable[[World, Setting, View], float]


def _draw_scores(world: World, setting: Setting, inside: bool, trials: int) -> Floats:
    """What a run's gates were given, through a gate once for every trial: entries get independent noise."""
    job, view = world.job(setting), run(world, setting, world.blocks(setting, inside))
    consortium = world.trust == "consortium"
    given = {name: what for name, what in view.given if (name == COORDINATOR) == consortium}
    drawn = {name: _draw_often(name, what, trials) for name, what in given.items()}
    if consortium:
        own = drawn[COORDINATOR]
        got: Parted = {ONE: own[:3], TWO: own[3:6], BOTH: own[6:]}
    else:
        ring = given[ONE].rings[-1]
        both = ring.signed(ring.add(drawn[ONE][-1], drawn[TWO][-1]))
        got = {**{name: drawn[name][:-1] for name in NAMES}, BOTH: (both,)}
    (stage,) = stages(world, setting, view)
    first, second = (stage.means(job, world.blocks(setting, side)) for side in (True, False))
    sensitivity = next(iter(given.values())).exact.sensitivity
    return log_ratio(stage, got, first, second, sensitivity, 1 if consortium else 2)


def _draw_often(name: str, what: Given, trials: int) -> tuple[NDArray[np.int64], ...]:
    event = Event(Mechanism.LATTICE, what.rho, math.inf, Scope.JOINT)
    ledger = Ledger(MemoryLog(), name, Policy())
    ledger.open_run(RUN, terms(Trust.SECURE), {name: (Charge(event, 1, "audited release"),)})
    many = tuple(np.broadcast_to(part, (trials, *part.shape)) for part in what.exact.value)
    exact = Private(many, what.exact.sensitivity)
    sent = Gate(ledger, RUN, SystemNoise()).integers(exact, what.weights, what.rings, rho=what.rho, scope=Scope.JOINT)
    return tuple(ring.signed(part.value.values) for ring, part in zip(what.rings, sent, strict=True))


def _run_scores(
    score: Score, world: World, setting: Setting, inside: bool, trials: int, quiet: str | None = None
) -> Floats:
    """A score per run; `quiet` names a party that looks on: its own part of the row is the same in both tables."""
    blocks = world.blocks(setting, inside, only_one=quiet is not None)
    return np.array([score(world, setting, run(world, setting, blocks, quiet)) for _ in range(trials)])


# ------------------------------------------------------------------------------------------------ the table

_TURNED = "replace one row of full length by one orthogonal to it: features of both parties and the label"
_SUM = "the sum of its coefficients"
_EVERY = "every message of the parties to it"


def _target(title: str, world: World, trials: int, batch: int, **viewers: Adversary) -> Target:
    whole = f"{title}: all programs of a run, trust {world.trust!r}"
    return Target(whole, _TURNED, viewers, trials=trials, batch=batch, trust=world.trust)


def _by(sees: str, statistic: str, score: Score, world: World, quiet: str | None = None) -> Adversary:
    return Adversary(sees, statistic, partial(_run_scores, score, world, quiet=quiet))


def _draws(sees: str, world: World) -> Adversary:
    return Adversary(sees, LIKELIHOOD, partial(_draw_scores, world))


_PARTNER = partial(likelihood, quiet=TWO)
ATTACKS: Mapping[str, Target] = {
    "gram": _target(
        "the Gram matrix of rows as they are, drawn often", RAW, 50_000, 50_000, coordinator=_draws(_EVERY, RAW)
    ),
    "gram-views": _target(
        "the Gram matrix of rows as they are",
        RAW,
        300,
        50,
        coordinator=_by(_EVERY, LIKELIHOOD, likelihood, RAW),
        dealer=_by(f"{_EVERY}, and its masks", "which table the shares are nearer to", dealer_score, RAW),
        partner=_by("its own noise and the released matrix", LIKELIHOOD, _PARTNER, RAW, TWO),
        reader=_by("the model", _SUM, model_score, RAW),
    ),
    "class-sums-gram": _target(
        "class sums, then the Gram matrix of centred rows",
        FIRST_SUMS,
        300,
        50,
        coordinator=_by(_EVERY, "the likelihood ratio of both releases", likelihood, FIRST_SUMS),
        dealer=_by(f"{_EVERY}, and its masks", "which table the shares are nearer to", dealer_score, FIRST_SUMS),
        partner=_by("its own noise and all that was released", LIKELIHOOD, _PARTNER, FIRST_SUMS, TWO),
        onlooker=_by("masked columns of both stages", "their difference", masks_score, FIRST_SUMS, TWO),
        reader=_by("the model", _SUM, model_score, FIRST_SUMS),
    ),
    "labels-gram": _target(
        "noisy labels, class sums by them, then the Gram matrix",
        FIRST_LABELS,
        300,
        50,
        coordinator=_by(_EVERY, "the likelihood ratio of all three releases", likelihood, FIRST_LABELS),
        reader=_by("the model", _SUM, model_score, FIRST_LABELS),
    ),
    "shared-gram": _target(
        "the Gram matrix, noised on the way out, drawn often",
        SHARED,
        50_000,
        50_000,
        reader=_draws("the published matrix", SHARED),
    ),
    "own-gram": _target(
        "noisy labels, then every party's own Gram matrix",
        OWN,
        300,
        50,
        coordinator=_by(_EVERY, LIKELIHOOD_OF_ALL, local_likelihood, OWN),
        reader=_by("the model", _SUM, model_score, OWN),
    ),
    "bucket-gram": _target(
        "noisy buckets of every party's columns",
        BUCKETS,
        300,
        50,
        coordinator=_by(_EVERY, LIKELIHOOD_OF_ALL, local_likelihood, BUCKETS),
        reader=_by("the model", _SUM, model_score, BUCKETS),
    ),
}
