"""What was asked of privacy, and what a result says about it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from colonnade import notebook
from colonnade.errors import InvalidInput
from colonnade.fields import Choice
from colonnade.privacy.accountant import epsilon, less_taken, rho_for
from colonnade.privacy.block import Unit, check_sensible
from colonnade.privacy.conditions import (
    CHEATING,
    COORDINATOR_ALONE,
    FORGING,
    LATTICES,
    MASKS,
    MEMBERS_TRUSTED,
    POOLED_PARTS,
    POOLING,
    PROTOCOL,
    READERS_ONLY,
    Code,
    Condition,
    Kind,
    as_clause,
    by_kind,
    of_kind,
)
from colonnade.privacy.events import shown


class Trust(Choice):
    """Who is the adversary."""

    NOBODY = "nobody"  # whoever sees anything that leaves a party, the coordinator included
    SECURE = "secure"  # the same, with cross-party products computed on masked data
    PARTIES = "parties"  # the same, with cross-party products computed by each two parties under lattice encryption
    CONSORTIUM = "consortium"  # only those who see the published model


class Guarantee(StrEnum):
    """What stands behind a statement."""

    PROVEN = "proven"  # derived in docs/understand/privacy.md for the code that ran
    CONDITIONAL = "conditional"  # as proven, if what it names holds: who follows rules, what is hard to compute
    CLAIMED = "claimed"  # a paper's claim, not ours
    NONE = "none"


OF_TRUST: dict[str, tuple[Condition, ...]] = {
    Trust.SECURE: (MASKS, PROTOCOL, COORDINATOR_ALONE, POOLING, FORGING),
    Trust.PARTIES: (LATTICES, PROTOCOL, CHEATING, POOLED_PARTS),
    Trust.CONSORTIUM: (MEMBERS_TRUSTED, READERS_ONLY),
}


def guarantee_under(conditions: Iterable[Condition]) -> Guarantee:
    """Proven where it rests on nothing but what docs/understand/privacy.md assumes of every run, else conditional."""
    return Guarantee.CONDITIONAL if of_kind(conditions, Kind.HOLDS_IF) else Guarantee.PROVEN


LARGEST_EPSILON = 1e12


def check_range(given: object, bound: float | None) -> tuple[float, float]:
    """A declared range of labels as two numbers, or an error."""
    if bound is not None:
        raise InvalidInput(
            f"label_bound={bound:g} and label_range={given!r} say the same thing twice: give "
            "label_range=(low, high) alone."
        )
    pair = given if isinstance(given, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(end, int | float) and math.isfinite(end) for end in pair):
        raise InvalidInput(f"label_range must be two finite public figures, low and high, got {given!r}", "label_range")
    low = float(pair[0])
    high = float(pair[1])
    if not low < high:
        raise InvalidInput(f"label_range=({low:g}, {high:g}) is empty: give the lower figure first.")
    check_sensible(label_range=(high - low) / 2.0)
    check_sensible(label_range=max(abs(low), abs(high)))
    return low, high


@dataclass(frozen=True, slots=True)
class Privacy:
    """What a run may cost, against whom, and the public bounds that sensitivities are computed from.

    A bound must be public: one read off the rows tells about them, and no price covers that. Tighter bounds need less
    noise.

    Parameters
    ----------
    epsilon
        With `delta`, the whole price of the run, above 0: of two tables that differ in one row, the chance of any set
        of outcomes is under one at most e^epsilon times that under the other, plus delta. 1 is a common choice, 10 a
        large one.
    delta
        What is added there, well below 1/rows: from 1/rows on, the run is refused. It is not the chance that odds grow
        by more than e^epsilon.
    trust
        Who is the adversary: "nobody" is trusted (whoever sees anything that leaves a party), "secure", "parties" or
        "consortium"; a method says which it knows. None: "secure" where the method knows it, else the strictest that it
        knows; plan and statement name the word.
    row_norm
        Public bound of a row's length, for all parties or by party; longer rows are clipped.
    feature_bound
        Public bound of an entry; larger ones are clipped.
    label_bound
        B instead of label_range=(−B, B).
    label_range
        Public lowest and highest label, for regression; what lies outside is clipped. The nearer the better.
    allow_large_delta
        True: run though delta is not below 1/rows; the statement then says so.
    look
        The share of the budget for a look at columns without declared bounds or levels, where there are any. Declared
        columns cost nothing.
    looked
        What a look at these columns has taken of the budget already: rho and delta. `co.look` gives such terms.

    Raises
    ------
    InvalidInput
        A figure is out of its range, or two say the same thing twice.

    Examples
    --------
    >>> import colonnade as co
    >>> terms = co.Privacy(epsilon=1.0, delta=1e-6, label_range=(0.0, 10.0))
    >>> terms.label_middle, terms.label_reach
    (5.0, 5.0)
    """

    epsilon: float
    delta: float
    trust: str | None = None
    row_norm: float | Mapping[str, float] | None = None
    feature_bound: float | None = None
    label_bound: float | None = None
    label_range: tuple[float, float] | None = None
    allow_large_delta: bool = False
    look: float = 0.1
    looked: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._check_look()
        for name in ("epsilon", "delta"):
            if isinstance(getattr(self, name), bool):
                raise InvalidInput(f"{name} must be a number, and is true or false", name)
            if not isinstance(getattr(self, name), int | float):
                raise InvalidInput(f"{name} must be a number, got {getattr(self, name)!r}", name)
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise InvalidInput(
                f"epsilon must be a finite number above 0, got {self.epsilon}; 1.0 is a common choice", "epsilon"
            )
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidInput(
                f"epsilon={self.epsilon:g} protects nobody; leave privacy out for exact values, or ask for 10 or less.",
                "epsilon",
            )
        if not 0 < self.delta < 1:
            raise InvalidInput(
                f"delta must lie between 0 and 1, got {self.delta}; well below 1/rows, such as 1e-6", "delta"
            )
        if not isinstance(self.allow_large_delta, bool):
            raise InvalidInput(
                f"allow_large_delta must be true or false, got {self.allow_large_delta!r}", "allow_large_delta"
            )
        if self.trust is not None and self.trust not in set(Trust):
            raise InvalidInput(f"trust={self.trust!r} is not known; choose one of {', '.join(Trust)}", "trust")
        object.__setattr__(self, "trust", None if self.trust is None else Trust(self.trust))
        norms = self.row_norm.values() if isinstance(self.row_norm, Mapping) else [self.row_norm]
        for norm in norms:
            check_sensible(row_norm=norm)
        check_sensible(feature_bound=self.feature_bound, label_bound=self.label_bound)
        if self.label_range is not None:
            object.__setattr__(self, "label_range", check_range(self.label_range, self.label_bound))
        self._check_left()

    def _check_look(self) -> None:
        if isinstance(self.look, bool) or not (isinstance(self.look, int | float) and 0.0 < self.look < 1.0):
            raise InvalidInput(f"look must be a share of the budget between 0 and 1, got {self.look!r}", "look")
        if self.looked is None:
            return
        pair = self.looked if isinstance(self.looked, tuple | list) else ()
        if len(pair) != 2 or not all(type(one) in (int, float) and 0.0 <= one < math.inf for one in pair):
            raise InvalidInput(f"looked is {self.looked!r}: give the rho and delta that a look has taken", "looked")
        object.__setattr__(self, "looked", (float(pair[0]), float(pair[1])))

    def _check_left(self) -> None:
        if self.looked is None or (self.looked[1] < self.delta and self.rho > 0.0):
            return
        spent, lost = self.looked
        raise InvalidInput(
            f"a look has taken rho={spent:g} and delta={lost:g}, and epsilon={self.epsilon:g} at delta={self.delta:g} "
            "has no more than that: nothing is left for a run. Ask for a larger epsilon or delta.",
            "looked",
        )

    @property
    def rho(self) -> float:
        """What is left of the budget once a look is paid, in zCDP: above 0, or nothing is."""
        spent, lost = self.looked or (0.0, 0.0)
        return rho_for(self.epsilon, max(self.delta - lost, 0.0)) - spent

    @property
    def label_middle(self) -> float:
        """What labels are measured from: the middle of their declared range."""
        return 0.0 if self.label_range is None else (self.label_range[0] + self.label_range[1]) / 2.0

    @property
    def label_reach(self) -> float | None:
        """How far a label lies from the middle of its range, at most; None: not declared."""
        return self.label_bound if self.label_range is None else (self.label_range[1] - self.label_range[0]) / 2.0


@dataclass(frozen=True, slots=True)
class PrivacyStatement:
    """What a result may claim, in figures and in a sentence.

    Parameters
    ----------
    epsilon
        The price that was paid; infinite where exact values left.
    delta
        What is added to e^epsilon times a chance, for any set of outcomes.
    unit
        Whose privacy is protected: "one row", or "one patient (at most 3 rows)".
    neighbours
        Which two tables must look alike, in words.
    trust
        The trust model: who is the adversary.
    accountant
        By which bound `epsilon` follows from what was released.
    guarantee
        What stands behind it: "proven", "conditional", "claimed" or "none".
    derivation
        Where the proof stands, or why there is none.
    sees
        What the adversary sees.
    conditions
        What it rests on, what breaks it, what its reader must know.
    rho
        The price in zCDP of all that is seen; None: the statement does not rest on one.
    taken
        The part of `delta` that releases took for themselves beside `rho`.
    """

    epsilon: float
    delta: float
    unit: str
    neighbours: str
    trust: str
    accountant: str
    guarantee: str
    derivation: str
    sees: str
    conditions: tuple[Condition, ...] = ()
    rho: float | None = None
    taken: float = 0.0

    @property
    def computational(self) -> bool:
        """Whether it rests on what nobody can compute."""
        return any(one.computational for one in self.conditions)

    def has(self, code: Code) -> bool:
        """Whether it names this condition.

        Parameters
        ----------
        code
            The condition's code.
        """
        return any(one.code is code for one in self.conditions)

    @property
    def _notion(self) -> str:
        """What epsilon and delta are of."""
        return "computational differential privacy" if self.computational else "differential privacy"

    @property
    def summary(self) -> str:
        """A line of figures, then what it rests on, what it does not protect against, and notes: a line each."""
        if self.guarantee == Guarantee.NONE:
            return self.sentence
        figures = f"ε = {shown(self.epsilon)}, δ = {shown(self.delta)} for {self.unit}, {self.neighbours}"
        lines = [f"{figures} ({self._notion}, {self.guarantee}, trust model: {self.trust})"]
        heads = {Kind.HOLDS_IF: "Holds if", Kind.BROKEN_BY: "Does not protect against", Kind.NOTE: "Note:"}
        lines += [f"{head} {said}" for kind, head in heads.items() if (said := as_clause(self.conditions, kind))]
        return "\n".join(lines)

    @property
    def sentence(self) -> str:
        """All of it in words, as a report prints it."""
        said = as_clause(self.conditions, Kind.NOTE)
        notes = f" Note: {said}." if said else ""
        if self.guarantee == Guarantee.NONE:
            return f"Not private: {self.derivation}. The adversary sees {self.sees}.{notes}"
        rests, broken = (as_clause(self.conditions, kind) for kind in (Kind.HOLDS_IF, Kind.BROKEN_BY))
        return (
            f"({shown(self.epsilon)}, {shown(self.delta)})-{self._notion} for {self.unit}, {self.neighbours}, "
            f"against an adversary who sees {self.sees} (trust model: {self.trust}). "
            f"Guarantee: {self.guarantee}, {self.derivation}."
            + (f" It holds if {rests}." if rests else "")
            + (f" It is broken by {broken}." if broken else "")
            + notes
        )

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        if self.guarantee == Guarantee.NONE:
            facts = {"why": self.derivation, "the adversary sees": self.sees, **by_kind(self.conditions)}
            return notebook.shown("Not private", facts)
        facts = {
            "epsilon": shown(self.epsilon),
            "delta": shown(self.delta),
            "protects": f"{self.unit}, {self.neighbours}",
            "the adversary sees": self.sees,
            "trust model": self.trust,
            "guarantee": f"{self.guarantee}, {self.derivation}",
            **by_kind(self.conditions),
        }
        return notebook.shown(f"({shown(self.epsilon)}, {shown(self.delta)})-{self._notion}", facts)

    def table(self) -> dict[str, Any]:
        """Every figure by its name, for a table or JSON."""
        conditions = [
            {"kind": str(one.kind), **one.to_plain(), "says": one.full, "computational": one.computational}
            for one in self.conditions
        ]
        whole = {"conditions": conditions, "computational": self.computational, "sentence": self.sentence}
        return self.to_plain() | whole

    def to_plain(self) -> dict[str, Any]:
        """For a file: its figures and facts, without the sentences that are made from them."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        # Files of most statements are those of a version that knew of none.
        if not self.taken:
            del plain["taken"]
        return {**plain, "conditions": [one.to_plain() for one in self.conditions]}

    @classmethod
    def from_plain(cls, raw: Mapping[str, Any]) -> PrivacyStatement:
        """A statement from its figures and facts, as `to_plain` gives them.

        Parameters
        ----------
        raw
            Every field by its name.
        """
        return cls(**{**raw, "conditions": tuple(map(Condition.from_plain, raw["conditions"]))})

    def to_json(self) -> str:
        """The table as JSON; an infinite epsilon is null."""
        return json.dumps({**self.table(), "epsilon": self.epsilon if math.isfinite(self.epsilon) else None}, indent=1)


def derived_statement(
    privacy: Privacy,
    rho: float,
    unit: Unit,
    sees: str,
    derivation: str,
    conditions: Sequence[Condition] = (),
    taken: float = 0.0,
) -> PrivacyStatement:
    """The statement of a run that cost `rho` by a derivation of ours, and of whose delta releases took their part."""
    assert privacy.trust is not None, "terms are settled before a run begins"
    return PrivacyStatement(
        epsilon=epsilon(rho, less_taken(privacy.delta, taken)),
        delta=privacy.delta,
        unit=str(unit),
        neighbours=unit.neighbours,
        trust=privacy.trust,
        accountant=f"Renyi bound of {rho:.4g}-zCDP{beside_rho(taken)}",
        guarantee=guarantee_under(conditions),
        derivation=derivation,
        sees=sees,
        conditions=tuple(conditions),
        rho=rho,
        taken=taken,
    )


def beside_rho(taken: float) -> str:
    """What is said behind a total of rho where releases took a part of delta for themselves."""
    return f" at what is left of delta when releases took {shown(taken)} of it for themselves" if taken else ""


def replaced_ledgers(ledgers: Iterable[tuple[str, str, str]]) -> tuple[Condition, ...]:
    """What to say of ledgers (node, when, id) that were replaced, once each."""
    known = tuple((node, when) for node, when, _ in sorted(set(ledgers)))
    return (Condition(Code.LEDGERS_REPLACED, known),) if known else ()


def looked_at(privacy: Privacy, known: tuple[float, float], rho: float, taken: float) -> tuple[Condition, ...]:
    """What to say of figures that a look has found: its price is in the sum of a run, or beside it.

    known       rho and delta of all looks at these columns
    rho, taken  of the run alone
    """
    counted = privacy.looked or (0.0, 0.0)
    if all(mine >= whole * (1.0 - 1e-9) for mine, whole in zip(counted, known, strict=True)):
        return (Condition(Code.LOOKED_AT, (epsilon(counted[0], less_taken(privacy.delta, counted[1])),)),) * any(
            counted
        )
    alone = epsilon(known[0], less_taken(privacy.delta, known[1]))
    both = epsilon(rho + known[0], less_taken(privacy.delta, taken + known[1]))
    return (Condition(Code.LOOKED_BESIDE, (alone, both)),)


def lost_parties(absent: Mapping[str, str]) -> tuple[Condition, ...]:
    """What to say of parties that were lost on the way: by name, when that was."""
    return (Condition(Code.PARTIES_LOST, tuple(absent.items())),) if absent else ()


def with_trust(privacy: Privacy | None, known: Sequence[Trust]) -> Privacy | None:
    """The terms with their trust model: the one asked for, else `secure` where it is known, else the strictest."""
    if privacy is None or privacy.trust is not None:
        return privacy
    preferred = (Trust.SECURE, Trust.NOBODY, Trust.PARTIES, Trust.CONSORTIUM)
    return replace(privacy, trust=next((trust.value for trust in preferred if trust in known), Trust.NOBODY.value))


def large_delta(privacy: Privacy, count: int, what: str = "rows") -> tuple[Condition, ...]:
    """What to say of a delta that publishing one unit, drawn at random, would satisfy; nothing where it is smaller."""
    return (Condition(Code.LARGE_DELTA, (privacy.delta, count, what)),) if privacy.delta * count >= 1.0 else ()


def read_off(parties: Sequence[str]) -> tuple[Condition, ...]:
    """What to say of bounds and levels that no price covers, since their owner called them public."""
    return (Condition(Code.BOUNDS_READ_OFF, tuple(parties)),) if parties else ()


def check_delta(privacy: Privacy, count: int, what: str = "rows") -> None:
    """Refuse such a delta, unless the terms allow it. `count` is public: rows in common, or columns."""
    if (wrong := large_delta(privacy, count, what)) and not privacy.allow_large_delta:
        advised = 10.0 ** math.floor(math.log10(0.1 / count))
        raise InvalidInput(
            f"{wrong[0].full}. Nothing was sent. Ask for delta={advised:g} or less, or, if you know what it means, "
            "allow it by allow_large_delta (`colonnade sparse`: --allow-large-delta); the statement then says so."
        )


LARGE_EPSILON = 20.0
SEEDED = "the noise was seeded, so whoever knows the seed can subtract it"


def remarks_on(privacy: Privacy | None) -> tuple[str, ...]:
    """What to say of terms that promise next to nothing."""
    if privacy is None or privacy.epsilon <= LARGE_EPSILON:
        return ()
    return (
        f"epsilon={shown(privacy.epsilon)} is over {LARGE_EPSILON:g}: it allows odds to grow by "
        f"e^{shown(privacy.epsilon)}, which rules out next to nothing; 1 is a common choice, 10 a large one",
    )


def not_private(why: str, unit: Unit, sees: str) -> PrivacyStatement:
    """The statement of a run that protects nobody, and why."""
    return PrivacyStatement(
        epsilon=math.inf,
        delta=0.0,
        unit=str(unit),
        neighbours=unit.neighbours,
        trust=Trust.NOBODY,
        accountant="none: no finite price holds",
        guarantee=Guarantee.NONE,
        derivation=why,
        sees=sees,
    )
