"""Attacks on Private Gram: all programs of a run behind real gates, and one unknown row; `ATTACKS` lists them.

Method   two parties and one unknown row, scored by what each viewer can compute (gram_runs.py).
Viewers  coordinator  every message it gets, made into noisy sums: the likelihood ratio
         corrections  the coordinator once more, correction by correction, with the masks that either table implies
         uploads      the coordinator once more: masked rows of two stages, of a row that differs at party one only
         partner      party "two": its own noise, and even the released matrix, which it never gets
         reader       the model
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from colonnade.attacks import gram_runs
from colonnade.attacks.gram_runs import NAMES, ONE, RAW, TWO, View, World, likelihood, run
from colonnade.attacks.setting import LIKELIHOOD, LIKELIHOOD_OF_ALL, Adversary, Setting, Target, gate_for
from colonnade.kernels.arrays import Floats
from colonnade.methods.gram.masks import Totals
from colonnade.methods.gram.plan import OWN as OWN_RING
from colonnade.methods.gram.products import Masked
from colonnade.privacy.events import Event, Mechanism, Scope
from colonnade.privacy.statement import Trust
from colonnade.privacy.values import Private
from colonnade.runtime.program import COORDINATOR

Score = Callable[[World, Setting, View], float]

# ------------------------------------------------------------------------------------------------ trials


def _draw_scores(world: World, setting: Setting, inside: bool, trials: int) -> Floats:
    """What a run's gates were given, through a gate once for every trial: entries get independent noise."""
    view = run(world, setting, world.blocks(setting, inside))
    (stage,) = gram_runs.stages(world, setting, view)
    consortium = world.trust == Trust.CONSORTIUM
    given = {name: what for name, what in view.given if (name == COORDINATOR) == consortium}
    drawn = {name: _draw_often(name, what, trials) for name, what in given.items()}
    if consortium:
        own = drawn[COORDINATOR]
        # The diagonals of both, which leave first, then the other parts of one and of two, then of both.
        parts = {ONE: (own[0], *own[2:4]), TWO: (own[1], *own[4:6])}
        product = own[6].astype(np.uint64)
    else:
        parts = {name: drawn[name][:-1] for name in NAMES}
        # Corrections of one run: with the total of its masked rows they are the noisy product.
        product = drawn[ONE][-1].astype(np.uint64) + drawn[TWO][-1].astype(np.uint64) + _total(stage)
    own_parts = {name: tuple(map(OWN_RING.signed, parts[name])) for name in NAMES}
    noisy: gram_runs.Parted = {**own_parts, gram_runs.BOTH: (stage.decode(product),)}
    first, second = (stage.means(world.blocks(setting, side)) for side in (True, False))
    return gram_runs.log_ratio(stage, noisy, first, second, 1 if consortium else 2)


def _total(stage: gram_runs.Stated) -> NDArray[np.uint64]:
    """What the coordinator of a run has added up when all masked rows have come."""
    totals = Totals(stage.stage, {})
    for blocks in zip(*(stage.came(name, Masked) for name in NAMES), strict=True):
        totals.add(dict(zip(NAMES, blocks, strict=True)))
    return totals.cross[NAMES]


def _draw_often(name: str, what: gram_runs.Given, trials: int) -> tuple[NDArray[np.uint64], ...]:
    gate = gate_for(Event(Mechanism.LATTICE, what.rho, math.inf, Scope.JOINT), name=name, trust=Trust.SECURE)
    many = tuple(np.broadcast_to(part, (trials, *part.shape)) for part in what.parts)
    exact = Private(many, what.sensitivity)
    sent = gate.integers(exact, what.weights, what.masks, rho=what.rho, scope=Scope.JOINT)
    return tuple(part.value.values for part in sent)


def _run_scores(
    score: Score, world: World, setting: Setting, inside: bool, trials: int, quiet: str | None = None
) -> Floats:
    """A score per run; `quiet` names a party that looks on: its own part of the row is the same in both tables."""
    blocks = world.blocks(setting, inside, only_one=quiet is not None)
    return np.array([score(world, setting, run(world, setting, blocks, quiet)) for _ in range(trials)])


# ------------------------------------------------------------------------------------------------ the table

_TURNED = "replace one row of full length by one orthogonal to it: features of both parties and the label"
_EVERY = "every message of the parties to it"
Seen = tuple[str, str, Score]  # what somebody sees, the statistic, the score
_READER = ("the model", "the sum of its coefficients", gram_runs.model_score)
_CORRECTIONS = (_EVERY, "which table the corrections are nearer to", gram_runs.corrections_score)
_ALL_LOCAL = (_EVERY, LIKELIHOOD_OF_ALL, gram_runs.local_likelihood)


def _target(title: str, world: World, **viewers: Seen) -> Target:
    """Whole runs; a partner is party "two", which knows its own noise."""
    adversaries = {}
    for name, (sees, statistic, score) in viewers.items():
        quiet = TWO if name in ("partner", "uploads") else None
        adversaries[name] = Adversary(sees, statistic, partial(_run_scores, score, world, quiet=quiet))
    return Target(_titled(title, world), _TURNED, adversaries, trials=300, batch=50, trust=world.trust)


def _drawn(title: str, world: World, viewer: str, sees: str) -> Target:
    """One run, what its gates were given drawn often."""
    adversaries = {viewer: Adversary(sees, LIKELIHOOD, partial(_draw_scores, world))}
    return Target(_titled(title, world), _TURNED, adversaries, trials=50_000, batch=50_000, trust=world.trust)


def _titled(title: str, world: World) -> str:
    return f"{title}: all programs of a run, trust {world.trust!r}"


_PARTNER = partial(likelihood, quiet=TWO)
ATTACKS: Mapping[str, Target] = {
    "gram": _drawn("the Gram matrix of rows as they are, drawn often", RAW, "coordinator", _EVERY),
    "curve-gram": replace(
        _drawn("the Gram matrix of rows with a curve, drawn often", gram_runs.CURVE, "coordinator", _EVERY),
        neighbours="replace one row, a number at its bound, by one at its middle, and its label by the opposite one",
    ),
    "gram-views": _target(
        "the Gram matrix of rows as they are",
        RAW,
        coordinator=(_EVERY, LIKELIHOOD, likelihood),
        corrections=_CORRECTIONS,
        partner=("its own noise and the released matrix", LIKELIHOOD, _PARTNER),
        reader=_READER,
    ),
    "class-sums-gram": _target(
        "class sums, then the Gram matrix of centred rows",
        gram_runs.FIRST_SUMS,
        coordinator=(_EVERY, "the likelihood ratio of both releases", likelihood),
        corrections=_CORRECTIONS,
        partner=("its own noise and all that was released", LIKELIHOOD, _PARTNER),
        uploads=("masked rows of both gram_runs.stages", "their difference", gram_runs.masks_score),
        reader=_READER,
    ),
    "labels-gram": _target(
        "noisy labels, class sums by them, then the Gram matrix",
        gram_runs.FIRST_LABELS,
        coordinator=(_EVERY, "the likelihood ratio of all three releases", likelihood),
        reader=_READER,
    ),
    "shared-gram": _drawn(
        "the Gram matrix, noised on the way out, drawn often", gram_runs.SHARED, "reader", "the published matrix"
    ),
    "own-gram": _target(
        "noisy labels, then every party's own Gram matrix", gram_runs.OWN, coordinator=_ALL_LOCAL, reader=_READER
    ),
}
