"""Attacks on the sparse estimators: what a recipe releases, drawn through the real ledger and gate.

A recipe of `estimators/recipe.py` is fitted to one of two neighbouring tables, again and again. The score of all
releases is their likelihood ratio, given the answers before: both tables are asked the same questions, by fitting the
recipe once more to each with the seen answers in place of noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from colonnade.attacks.lower_bound import choice_log_ratio
from colonnade.attacks.setting import LABEL_FLIPPED, LIKELIHOOD_OF_ALL, Adversary, Setting, Target, terms
from colonnade.kernels.arrays import Floats
from colonnade.privacy.conditions import KEYED_STREAM
from colonnade.privacy.gate import Gate
from colonnade.privacy.local import LocalLedger
from colonnade.privacy.mechanisms import SystemNoise, gumbel_scale

if TYPE_CHECKING:  # they bring scikit-learn with them
    from colonnade.estimators.recipe import Linear, PickRecipe, RowRecipe

Table = tuple[Floats, Floats]
COLUMNS = 3
STEPS = 3
PICKS = 3
RADIUS = 2.0


# ------------------------------------------------------------------------------------------------ rows of norm 1


def tables(setting: Setting, last: Sequence[Sequence[float]]) -> tuple[Table, Table]:
    """Five rows and their opposites, each once with either target, which cancel in every sum whatever targets are
    centred at; and a last row, one of the two given, which decides as much as it can."""
    half = np.random.default_rng(setting.seed).uniform(-1, 1, (5, COLUMNS))
    others = np.vstack([half, -half])
    targets = np.concatenate([np.ones(10), -np.ones(10), [1.0]])
    first, second = (np.vstack([others, others, [row]]) for row in last)
    return (first, targets), (second, targets)


# Entries are far beyond the bounds: what does not clip, or does not bring rows to norm 1, shows.
TURNED = ((100.0, 0.0, 0.0), (-100.0, 0.0, 0.0))  # as far apart as rows can be
MOVED = ((100.0, 0.0, 0.0), (0.0, 100.0, 0.0))  # sizes of columns differ too


@dataclass
class ReleaseRecorder:
    """A gate that passes everything on, and remembers what left."""

    gate: Gate
    seen: list[Any] = field(default_factory=list)  # noisy arrays, or signed columns

    def gaussian(self, private: Any, *, rho: float) -> Any:
        released = self.gate.gaussian(private, rho=rho)
        self.seen.append(released.value)
        return released

    def picks(self, draw: Any, count: int, given: Any, *, rho: float) -> Any:
        columns, signs = self.gate.picks(draw, count, given, rho=rho)
        self.seen += zip(columns.value.tolist(), signs.value.tolist(), strict=True)
        return columns, signs


def _fits(recipe: RowRecipe | PickRecipe, table: Table, trials: int) -> Iterator[tuple[list[Any], Linear]]:
    """Each trial's releases and model, in a ledger of its own."""
    rows, targets = table
    for _ in range(trials):
        with LocalLedger().run(terms(), recipe.plan(), SystemNoise(), recipe.distance) as gate:
            recorder: Any = ReleaseRecorder(gate)
            _, models = recipe.fit(recorder, rows, [targets])
        yield recorder.seen, models[0]


@dataclass
class Script:
    """A gate without noise: it writes down what it is asked, and answers with what was seen."""

    answers: Sequence[Floats]
    asked: list[tuple[Floats, float]] = field(default_factory=list)

    def gaussian(self, private: Any, *, rho: float) -> Any:
        answer = self.answers[len(self.asked)]
        self.asked.append((private.value, private.sensitivity / math.sqrt(2 * rho)))
        return SimpleNamespace(value=answer)


@dataclass(frozen=True)
class RowFits:
    """Fits of one recipe in the row-norm geometry, to tables that end in one of two rows."""

    last: Sequence[Sequence[float]]
    keep: int | None = None  # columns that are screened for first
    rounds: int | None = None  # gradient steps; None: one weighted sum of rows

    def _recipe(self, setting: Setting) -> RowRecipe:
        from colonnade.estimators.recipe import RowRecipe

        return RowRecipe(21, COLUMNS, setting.rho, 1.0, 1, True, keep=self.keep, rounds=self.rounds)

    def _fits(self, setting: Setting, inside: bool, trials: int) -> Iterator[tuple[list[Floats], Linear]]:
        return _fits(self._recipe(setting), tables(setting, self.last)[0 if inside else 1], trials)

    def releases(self, setting: Setting, inside: bool, trials: int) -> Floats:
        """The likelihood ratio of everything that a fit releases."""
        recipe = self._recipe(setting)
        both = tables(setting, self.last)
        return np.array([_log_ratio(recipe, both, seen) for seen, _ in self._fits(setting, inside, trials)])

    def models(self, setting: Setting, inside: bool, trials: int) -> Floats:
        """The coefficient of the first column, in which the two last rows differ."""
        return np.array([model.w[0] for _, model in self._fits(setting, inside, trials)])

    def sizes(self, setting: Setting, inside: bool, trials: int) -> Floats:
        """The size of the first column against that of the second, the first thing that a screened fit releases."""
        return np.array([seen[0][0] - seen[0][1] for seen, _ in self._fits(setting, inside, trials)])


CLASS_SUMS = RowFits(TURNED)
SCREENED_SUMS = RowFits(MOVED, keep=COLUMNS - 1)
GRADIENTS = RowFits(TURNED, rounds=STEPS)


def _log_ratio(recipe: RowRecipe, both: tuple[Table, Table], seen: Sequence[Floats]) -> float:
    asked = []
    for rows, targets in both:
        script: Any = Script(seen)
        recipe.fit(script, rows, [targets])
        asked.append(script.asked)
    total = 0.0
    for answer, (one, sd), (other, _) in zip(seen, *asked, strict=True):
        total += float(((answer - other) ** 2 - (answer - one) ** 2).sum()) / (2 * sd**2)
    return total


# ------------------------------------------------------------------------------------------------ picks


def pick_table(setting: Setting, inside: bool) -> Table:
    """The last row has large entries, and its target is the only difference: every score moves in full."""
    (rows, targets), _ = tables(setting, ((100.0,) * COLUMNS,) * 2)
    targets[-1] = 1.0 if inside else -1.0
    return rows, targets


def picks(setting: Setting, inside: bool, trials: int) -> Floats:
    """The likelihood ratio of all picks of a fit."""
    return np.array([_picks_log_ratio(setting, tuple(seen)) for seen, _ in _pick_fits(setting, inside, trials)])


def pick_models(setting: Setting, inside: bool, trials: int) -> Floats:
    """The sum of a model's coefficients."""
    return np.array([model.w.sum() for _, model in _pick_fits(setting, inside, trials)])


def _pick_fits(setting: Setting, inside: bool, trials: int) -> Iterator[tuple[list[tuple[int, int]], Linear]]:
    from colonnade.estimators.recipe import PickRecipe

    recipe = PickRecipe(21, COLUMNS, setting.rho, 1.0, 1, True, RADIUS, rounds=PICKS)
    return _fits(recipe, pick_table(setting, inside), trials)


@lru_cache(maxsize=4096)
def _picks_log_ratio(setting: Setting, history: tuple[tuple[int, int], ...]) -> float:
    """The log-ratio of every pick given the ones before, added up; the formulas are written down anew here."""
    sides = [pick_table(setting, inside) for inside in (True, False)]
    scale = gumbel_scale(2.0, setting.rho / len(history))
    total = 0.0
    w = np.zeros(COLUMNS)
    for t, (index, sign) in enumerate(history, 1):
        first, second = (sign * (np.clip(X, -1, 1).T @ (-y * expit(-y * (np.clip(X, -1, 1) @ w)))) for X, y in sides)
        # With the sign turned into the scores, the candidate that was picked is always the one at `index`.
        total += choice_log_ratio(index, np.append(first, -first), np.append(second, -second), scale)
        step = 2.0 / (t + 2.0)
        w = (1.0 - step) * w - step * RADIUS * sign * (np.arange(COLUMNS) == index)
    return total


# ------------------------------------------------------------------------------------------------ the table

_TURNED = "replace one row of 21: the same target, features that point the other way"
_EVERY_RELEASE = "every release of a fit"
_OF_ITS_COLUMN = "the coefficient of the row's column"
ATTACKS: Mapping[str, Target] = {
    "class-sums": Target(
        "SparseClassifier by class sums: mean, weighted sum of rows, moments of scores",
        _TURNED,
        {
            "receiver": Adversary(_EVERY_RELEASE, LIKELIHOOD_OF_ALL, CLASS_SUMS.releases),
            "reader": Adversary("the fitted model", _OF_ITS_COLUMN, CLASS_SUMS.models),
        },
        trials=500,
    ),
    "screened-sums": Target(
        "SparseClassifier with max_features: sizes of columns first, then class sums",
        "replace one row of 21: the same target, another feature",
        {
            "receiver": Adversary(_EVERY_RELEASE, LIKELIHOOD_OF_ALL, SCREENED_SUMS.releases),
            "screener": Adversary("the noisy sizes of columns", "one's against the other's", SCREENED_SUMS.sizes),
        },
        trials=500,
    ),
    "noisy-gradient": Target(
        "SparseClassifier by gradient steps in the row-norm geometry",
        _TURNED,
        {
            "receiver": Adversary(_EVERY_RELEASE, LIKELIHOOD_OF_ALL, GRADIENTS.releases),
            "reader": Adversary("the fitted model", _OF_ITS_COLUMN, GRADIENTS.models),
        },
        trials=500,
    ),
    "sparse-picks": Target(
        "SparseClassifier by sparse Frank-Wolfe: all picks of a fit",
        LABEL_FLIPPED,
        {
            "receiver": Adversary("every signed column number", LIKELIHOOD_OF_ALL, picks),
            "reader": Adversary("the fitted model", "the sum of its coefficients", pick_models),
        },
        rests_on=(KEYED_STREAM,),
    ),
}
