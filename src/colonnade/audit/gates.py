"""Real gates over real ledgers in memory, for attacks that run a method's programs."""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.audit.setting import Setting
from colonnade.privacy.block import ROW, Unit
from colonnade.privacy.events import Plan, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.statement import Trust
from colonnade.privacy.store import MemoryLog

RUN = "audit"


def terms(trust: str = Trust.NOBODY, unit: Unit = ROW) -> Terms:
    return Terms("audit", "", trust, str(unit), unit.neighbours, "")


def ledger(
    name: str, setting: Setting, plans: Mapping[str, Plan], trust: str = Trust.NOBODY, unit: Unit = ROW
) -> Ledger:
    """A party's ledger with the claim as its budget, and the run already planned."""
    policy = Policy(epsilon=setting.epsilon, delta=setting.delta, consortium=trust == Trust.CONSORTIUM)
    made = Ledger(MemoryLog(), name, policy)
    made.open_run(RUN, terms(trust, unit), plans)
    return made


def gate(name: str, setting: Setting, plans: Mapping[str, Plan], trust: str = Trust.NOBODY, unit: Unit = ROW) -> Gate:
    return Gate(ledger(name, setting, plans, trust, unit), RUN, SystemNoise())
