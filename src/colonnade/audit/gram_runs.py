"""Runs of Private Gram for its attacks: two small tables, and all programs of a run behind real gates.

Party "one" has two columns, "two" a column and the labels. The last row turns orthogonal to what it was, beside
constant and label and at full length: there the Gram matrix moves as far as it can.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.audit.setting import RUN, Setting, drive, ledger_of
from colonnade.methods.gram.private_gram import PrivateGram
from colonnade.methods.method import Job, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.mechanisms import Noise, SystemNoise
from colonnade.privacy.statement import Privacy
from colonnade.privacy.values import Private
from colonnade.problem import LeastSquares, Logistic, Problem, Ridge
from colonnade.runtime.program import COORDINATOR

ONE, TWO = "one", "two"
NAMES = (ONE, TWO)
LENGTHS = {ONE: 4.0, TWO: 1.0}
PLACES = {ONE: (0, 1), TWO: (2,)}


@dataclass(frozen=True)
class World:
    """A method, a trust model, and how many rows; and whether labels are numbers (±1 all the same): of many rows with
    numbers the rule takes one release, of few rows or with classes it asks for class sums first."""

    method: PrivateGram
    trust: str
    rows: int
    numbers: bool = False

    def job(self, setting: Setting) -> Job:
        bounds = {"row_norm": LENGTHS, "feature_bound": LENGTHS[ONE], "label_bound": 1.0 if self.numbers else None}
        privacy = Privacy(setting.epsilon, setting.delta, self.trust, **bounds)  # type: ignore[arg-type]  # by name
        problem = Problem(LeastSquares() if self.numbers else Logistic(), penalty=Ridge(1e-3), intercept=True)
        return Job(problem, Roster(self.rows, PLACES, TWO), privacy)

    def blocks(self, setting: Setting, inside: bool, *, only_one: bool = False) -> dict[str, Block]:
        """Rows of small numbers, and a last one of full length, turned or not (`only_one`: at party one alone)."""
        rng = np.random.default_rng(setting.seed)
        X = rng.uniform(-0.5, 0.5, (self.rows, 3))
        y = np.where(np.arange(self.rows) % 2 == 0, 1.0, -1.0)
        whole = sum(length**2 for length in LENGTHS.values())
        X[-1], y[-1] = [LENGTHS[ONE], 0.0, LENGTHS[TWO]], 1.0
        if not inside:
            # Beside c² = .1 and τ² = .25 of the squared length, the same constant and (if it may) another label.
            other = -1.0 if not only_one else 1.0
            along = -(other * LENGTHS[TWO] ** 2 + 0.1 * whole + other * 0.25 * whole) / LENGTHS[ONE]
            X[-1] = [along, math.sqrt(LENGTHS[ONE] ** 2 - along**2), other * LENGTHS[TWO]]
            y[-1] = other
        one, two = np.ascontiguousarray(X[:, :2]), np.ascontiguousarray(X[:, 2:])
        labelled = Block(two, np.array(PLACES[TWO]), labels=y.astype(np.int8))
        return {ONE: Block(one, np.array(PLACES[ONE])), TWO: labelled}


RAW = World(PrivateGram(), "secure", 3_000, numbers=True)
FIRST_SUMS = World(PrivateGram(), "secure", 12)
FIRST_LABELS = World(PrivateGram(labels="released"), "secure", 12)
SHARED = World(PrivateGram(), "consortium", 3_000, numbers=True)
OWN = World(PrivateGram(cross="none"), "nobody", 12)
BUCKETS = World(PrivateGram(cross="sketch"), "nobody", 12)


class Quiet(SystemNoise):
    """The noise of a party that looks on: it knows its own draws, which is as if there were none."""

    def discrete_gaussian(self, size: int, sigma: Any) -> NDArray[np.int64]:  # noqa: ARG002  none
        return np.zeros(size, np.int64)


@dataclass(frozen=True)
class Given:
    """What a gate was asked to release, in one call or, as one mechanism, in two."""

    parts: tuple[Any, ...]
    weights: tuple[Any, ...]
    masks: tuple[Any, ...]
    sensitivity: float
    rho: float


@dataclass
class View:
    """Everything that was sent, by whom to whom; and what gates of parties were given."""

    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    given: list[tuple[str, Given]] = field(default_factory=list)

    def all(self, sender: str, receiver: str, kind: type) -> list[Any]:
        return [m for a, b, m in self.sent if (a, b) == (sender, receiver) and isinstance(m, kind)]


class IntegerRecorder(Gate):
    """A gate that remembers what integers it was given: for drawing the same release often."""

    view: View

    def integers(self, exact: Private[Any], weights: Any, masks: Any, **more: Any) -> Any:
        self.view.given.append((self.node, Given(exact.value, weights, masks, exact.sensitivity, more["rho"])))
        return super().integers(exact, weights, masks, **more)

    def the_rest(self, exact: Private[Any], weights: Any, masks: Any) -> Any:
        place = max(k for k, (name, _) in enumerate(self.view.given) if name == self.node)
        one = self.view.given[place][1]
        both = one.parts + exact.value, one.weights + weights, one.masks + masks
        self.view.given[place] = (self.node, Given(*both, one.sensitivity, one.rho))
        return super().the_rest(exact, weights, masks)


def run(world: World, setting: Setting, blocks: Mapping[str, Block], quiet: str | None = None) -> View:
    """One run of all programs, without disk and engine; no message is sealed here."""
    job, view = world.job(setting), View()
    plans = world.method.price(job)
    identities = {name: SystemNoise().uniform_bytes(32) for name in (COORDINATOR, *NAMES)}
    pinned = {name: public_key(identity) for name, identity in identities.items()}
    gates: dict[str, IntegerRecorder] = {}
    for name in (COORDINATOR, *NAMES):
        keyring = Keyring(RUN, name, identities[name], pinned, SystemNoise().uniform_bytes(32))
        noise: Noise = Quiet() if name == quiet else SystemNoise()
        gates[name] = IntegerRecorder(ledger_of(name, setting, plans, world.trust), RUN, noise, keyring)
        gates[name].view = view
    programs = {name: world.method.party(job, blocks[name], gates[name]) for name in NAMES}
    view.sent = drive({COORDINATOR: world.method.coordinator(job, gates[COORDINATOR]), **programs}, gates)
    return view
