"""What an audit attacks: the claim, the target that makes it, and who looks at what the target releases.

Attacks that run a method's programs have real gates over real ledgers in memory, and no engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from colonnade.kernels.arrays import Floats
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import ROW, Unit
from colonnade.privacy.conditions import Condition
from colonnade.privacy.events import Charge, Event, Plan, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.statement import OF_TRUST, Guarantee, Trust, guarantee_under
from colonnade.privacy.store import MemoryLog
from colonnade.runtime.program import COORDINATOR, Fold

RUN = "audit"
PARTY = "party"
CLAIMS = (0.1, 1.0, 4.0)
LABEL_FLIPPED = "replace one row of 21: the same features, the opposite label"
LIKELIHOOD = "the likelihood ratio"
LIKELIHOOD_OF_ALL = "the likelihood ratio of all of them"


@dataclass(frozen=True)
class Setting:
    """The claim of one attack, and the seed its data are made from."""

    epsilon: float
    delta: float
    seed: int

    @cached_property
    def rho(self) -> float:
        """What our accountant sells for the claim."""
        return rho_for(self.epsilon, self.delta)


@dataclass(frozen=True)
class Adversary:
    """What somebody sees of a release, and the score computed from it: `attack(setting, inside, trials)`."""

    sees: str
    statistic: str
    attack: Callable[[Setting, bool, int], Floats]


@dataclass(frozen=True)
class Target:
    """Something that claims privacy, a pair of neighbouring data sets, and who attacks it."""

    title: str
    neighbours: str
    adversaries: Mapping[str, Adversary]  # the first is the usual one
    trials: int = 1_000  # per side, for a quick audit: enough to break what is broken
    batch: int = 100  # trials in one call
    trust: str = Trust.NOBODY
    claimed: bool = False  # by a paper, not by us
    claims: tuple[float, ...] = CLAIMS
    delta: float = 1e-5
    rests_on: tuple[Condition, ...] = ()  # beside what the trust model does

    @property
    def guarantee(self) -> Guarantee:
        """What stands behind the claim: of ours, what a statement under this trust model says."""
        return Guarantee.CLAIMED if self.claimed else guarantee_under((*OF_TRUST.get(self.trust, ()), *self.rests_on))


# ------------------------------------------------------------------------------------------------ nodes in memory


def terms(trust: str = Trust.NOBODY, unit: Unit = ROW) -> Terms:
    return Terms("audit", "", trust, str(unit), unit.neighbours, "")


def ledger_of(
    name: str, setting: Setting, plans: Mapping[str, Plan], trust: str = Trust.NOBODY, unit: Unit = ROW
) -> Ledger:
    """A party's ledger with the claim as its budget, and the run already planned."""
    policy = Policy(epsilon=setting.epsilon, delta=setting.delta, consortium=trust == Trust.CONSORTIUM)
    ledger = Ledger(MemoryLog(), name, policy)
    ledger.open_run(RUN, terms(trust, unit), plans)
    return ledger


def gate_of(name: str, setting: Setting, plans: Mapping[str, Plan], **terms: Any) -> Gate:
    return Gate(ledger_of(name, setting, plans, **terms), RUN, SystemNoise())


def gate_for(event: Event, count: int = 1, name: str = PARTY, trust: str = Trust.NOBODY, log: Any = None) -> Gate:
    """A gate whose plan is `count` such events."""
    ledger = Ledger(log or MemoryLog(), name, Policy())
    ledger.open_run(RUN, terms(trust), {name: (Charge(event, count, "audited release"),)})
    return Gate(ledger, RUN, SystemNoise())


def ask(gate: Gate, program: Any, tick: int, message: object) -> Any:
    """What a party's program answers to one message of the coordinator."""
    gate.begin(tick, tick, None)
    answer = program.send({COORDINATOR: message}).to[COORDINATOR]
    gate.flush()
    return answer


def drive(programs: Mapping[str, Any], gates: Mapping[str, Gate]) -> list[tuple[str, str, Any]]:
    """Whoever has what it waits for goes on, until all have ended: everything that was sent, by whom to whom."""
    boxes: dict[tuple[str, str], deque[Any]] = {(a, b): deque() for a in programs for b in programs}
    waits: dict[str, tuple[str, ...]] = dict.fromkeys(programs, ())
    folds: dict[str, Fold | None] = dict.fromkeys(programs)
    ticks = dict.fromkeys(programs, 0)
    sent = []
    while waits:
        ready = [name for name, wait in waits.items() if all(boxes[a, name] for a in wait)]
        assert ready, "every program waits for another"
        for name in ready:
            tick = ticks[name]
            inbox = {sender: boxes[sender, name].popleft() for sender in waits[name]}
            gates[name].begin(tick, tick, None)
            if (fold := folds[name]) is not None:
                fold.add(inbox)
                inbox = {}
            try:
                post = programs[name].send(inbox if tick else None)
            except StopIteration:
                del waits[name]
                continue
            gates[name].flush()
            waits[name] = post.wait
            folds[name] = post.fold
            ticks[name] = tick + 1
            for receiver, message in post.to.items():
                boxes[name, receiver].append(message)
                sent.append((name, receiver, message))
    return sent
