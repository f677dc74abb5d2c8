"""The verdict on a fit's privacy in a few lines, for a terminal; the whole statement is in the report and the fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.model.facts import FitFacts, RunFacts
from colonnade.privacy.conditions import Kind, as_clause, rests_in_short
from colonnade.privacy.events import KINDS, shown
from colonnade.privacy.statement import Guarantee, PrivacyStatement
from colonnade.views.verdict import guess, percent


def facts_in_short(fit: FitFacts, facts: Mapping[str, str]) -> dict[str, str]:
    """What a command prints of a run's facts: the verdict first, and where the whole statement stands instead of it."""
    where = [f"“Privacy” in {facts['report']}"] if "report" in facts else []
    where += [f"“privacy” in {facts['fit']}"] if "fit" in facts else []
    rest = {name: text for name, text in facts.items() if name != "privacy"}
    return privacy_in_short(fit.privacy, RunFacts.of(fit).left) | {"statement": " and ".join(where)} | rest


def privacy_in_short(privacy: PrivacyStatement, left: Sequence[Sequence[Any]] = ()) -> dict[str, str]:
    """Whether it is private, what that means, what left, and what to mind; lines by name."""
    lines = {"verdict": _verdict(privacy)}
    if math.isfinite(privacy.epsilon):
        best = percent(guess(privacy.epsilon, privacy.delta))
        lines["that is"] = (
            f"somebody who knows everything but {privacy.unit}, and sees all that was released, tells two "
            f"possibilities for it apart in at most {best} of cases; a coin, in 50 %"
        )
    lines |= _left(left)
    if mind := as_clause(privacy.conditions, Kind.NOTE):
        lines["mind"] = mind
    return lines


def _verdict(privacy: PrivacyStatement) -> str:
    if math.isinf(privacy.epsilon):
        return f"not private: {privacy.derivation}, and no number bounds what can be found out from it"
    price = f"ε = {shown(privacy.epsilon)} at δ = {shown(privacy.delta)} for {privacy.unit}"
    match privacy.guarantee:
        case Guarantee.PROVEN:
            return f"private: {price}"
        case Guarantee.CONDITIONAL:
            return f"private: {price}, if {rests_in_short(privacy.conditions) or 'what its statement names holds'}"
    return f"private by a paper's claim alone: {price}"


def _left(left: Sequence[Sequence[Any]]) -> dict[str, str]:
    """What left, a line for how it looked; what tells most comes first."""
    found: dict[str, list[str]] = {}
    for _, kind, what, _ in left:
        found.setdefault(kind, []).append(str(what).replace(f"{kind} ", ""))
    order = sorted(found, key=lambda kind: -KINDS.index(kind))
    return {f"left {kind}": "; ".join(dict.fromkeys(found[kind])) for kind in order}
