"""What was asked of privacy, and what a result says about it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from colonnade import notebook
from colonnade.errors import InvalidInput
from colonnade.privacy.accountant import epsilon
from colonnade.privacy.block import Unit, check_sensible
from colonnade.privacy.events import shown


class Trust(StrEnum):
    """Who is the adversary."""

    NOBODY = "nobody"  # whoever sees anything that leaves a party, the coordinator included
    SECURE = "secure"  # the same, with cross-party products computed on masked data
    PARTIES = "parties"  # the same, with cross-party products computed by each two parties under lattice encryption
    CONSORTIUM = "consortium"  # only those who see the published model


class Guarantee(StrEnum):
    """What stands behind a statement."""

    PROVEN = "proven"  # derived in docs/privacy.md for the code that ran
    CONDITIONAL = "conditional"  # as proven, if what it names holds: who follows rules, what is hard to compute
    CLAIMED = "claimed"  # a paper's claim, not ours
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Assumption:
    """What a statement rests on beyond docs/privacy.md's standing assumptions; `says` completes "It holds if …"."""

    says: str
    computational: bool = False  # it speaks of what nobody can compute: epsilon holds for no adversary without a limit


MASKS = Assumption("nobody can undo the masks (AES-256, HKDF and X25519 do what they are for)", computational=True)
FOLLOWED = Assumption(
    "parties and coordinator follow the protocol, and the coordinator pools nothing with a party: if the coordinator "
    "and a party pool what they have, they read the columns of all partners of that party exactly, and with class sums "
    "the labels, whatever epsilon is"
)
LATTICES = Assumption(
    "nobody can solve learning with errors at the parameters that docs/privacy.md names, with the hints that published "
    "sums give (by an estimate of ours that no outside cryptographer has read), or break AES-256, HKDF and X25519",
    computational=True,
)
HONEST = Assumption(
    "parties and coordinator follow the protocol: they may pool all they have, and it then holds for the parts of a "
    "row that the others have; a party that cheats can read its partners' rows"
)
MEMBERS = Assumption("parties, coordinator and their links are trusted: it protects against readers of the model alone")
OF_TRUST: dict[str, tuple[Assumption, ...]] = {
    Trust.SECURE: (MASKS, FOLLOWED),
    Trust.PARTIES: (LATTICES, HONEST),
    Trust.CONSORTIUM: (MEMBERS,),
}


def guarantee_under(assumed: Sequence[Assumption]) -> Guarantee:
    """Proven where nothing is assumed but what docs/privacy.md assumes of every run, else conditional."""
    return Guarantee.CONDITIONAL if assumed else Guarantee.PROVEN


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
    low, high = float(pair[0]), float(pair[1])
    if not low < high:
        raise InvalidInput(f"label_range=({low:g}, {high:g}) is empty: give the lower figure first.")
    check_sensible(label_range=(high - low) / 2.0)
    check_sensible(label_range=max(abs(low), abs(high)))
    return low, high


@dataclass(frozen=True, slots=True)
class Privacy:
    """What a run may cost, against whom, and the public bounds that sensitivities are computed from.

    epsilon, delta  the whole price of the run; delta below 1/rows, or the run is refused.
    trust           who is the adversary: "nobody" is trusted (whoever sees anything that leaves a party), "secure",
                    "parties" or "consortium"; a method says which it knows. None: "secure" where the method knows it,
                    else the strictest that it knows; plan and statement name the word.
    row_norm        public bound of a row's length; longer rows are clipped.
    feature_bound   public bound of an entry; larger ones are clipped.
    label_range     public lowest and highest label, for regression; what lies outside is clipped. The nearer the
                    better.
    label_bound     B instead of label_range=(−B, B).
    allow_large_delta   True: run though delta is not below 1/rows; the statement then says so.
    """

    epsilon: float
    delta: float
    trust: str | None = None
    row_norm: float | Mapping[str, float] | None = None
    feature_bound: float | None = None
    label_bound: float | None = None
    label_range: tuple[float, float] | None = None
    allow_large_delta: bool = False

    def __post_init__(self) -> None:
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
        norms = self.row_norm.values() if isinstance(self.row_norm, Mapping) else [self.row_norm]
        for norm in norms:
            check_sensible(row_norm=norm)
        check_sensible(feature_bound=self.feature_bound, label_bound=self.label_bound)
        if self.label_range is not None:
            object.__setattr__(self, "label_range", check_range(self.label_range, self.label_bound))

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
    """What a result may claim, in figures and in a sentence."""

    epsilon: float
    delta: float
    unit: str
    neighbours: str
    trust: str
    accountant: str
    guarantee: str
    derivation: str  # where the proof stands, or why there is none
    sees: str  # what the adversary sees
    assumes: str = ""  # what it rests on beyond the derivation: one or more clauses, joined
    computational: bool = False  # whether one of them is about what nobody can compute
    place: str = ""  # what makes two rows the same row, where what leaves depends on the place of a row
    caveat: str = ""  # what a reader must know of the figures themselves
    rho: float | None = None  # the price in zCDP of all that is seen; None: the statement does not rest on one
    replaced: str = ""  # ledgers that took the place of lost ones, so that what was spent before may not be counted
    absent: str = ""  # parties that were lost on the way

    @property
    def sentence(self) -> str:
        if self.guarantee == Guarantee.NONE:
            return f"Not private: {self.derivation}. The adversary sees {self.sees}." + self._lost
        kind = "computational differential privacy" if self.computational else "differential privacy"
        return (
            f"({shown(self.epsilon)}, {shown(self.delta)})-{kind} for {self.unit}, {self.neighbours}, "
            f"against an adversary who sees {self.sees} (trust model: {self.trust}). "
            f"Guarantee: {self.guarantee}, {self.derivation}."
            + (f" It holds if {self.assumes}." if self.assumes else "")
            + (f" {self.place}." if self.place else "")
            + (f" Mind: {self.caveat}." if self.caveat else "")
            + self._lost
        )

    @property
    def _lost(self) -> str:
        return "".join(f" {text}." for text in (self.replaced, self.absent) if text)

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        if self.guarantee == Guarantee.NONE:
            facts = {
                "why": self.derivation,
                "the adversary sees": self.sees,
                "mind": "; ".join(filter(None, (self.replaced, self.absent))),
            }
            return notebook.shown("Not private", facts)
        kind = "computational differential privacy" if self.computational else "differential privacy"
        facts = {
            "epsilon": shown(self.epsilon),
            "delta": shown(self.delta),
            "protects": f"{self.unit}, {self.neighbours}",
            "the adversary sees": self.sees,
            "trust model": self.trust,
            "guarantee": f"{self.guarantee}, {self.derivation}",
            "it holds if": self.assumes,
            "place": self.place,
            "mind": "; ".join(filter(None, (self.caveat, self.replaced, self.absent))),
        }
        return notebook.shown(f"({shown(self.epsilon)}, {shown(self.delta)})-{kind}", facts)

    def table(self) -> dict[str, Any]:
        """Every figure by its name, for a table or JSON."""
        return {**asdict(self), "sentence": self.sentence}

    def to_json(self) -> str:
        """The table as JSON; an infinite epsilon is null."""
        return json.dumps({**self.table(), "epsilon": self.epsilon if math.isfinite(self.epsilon) else None}, indent=1)


def derived_statement(
    privacy: Privacy,
    rho: float,
    unit: Unit,
    sees: str,
    derivation: str,
    assumed: Sequence[Assumption] = (),
    caveat: str = "",
) -> PrivacyStatement:
    """The statement of a run that cost `rho` by a derivation of ours."""
    # It is proven where nothing is assumed but what docs/privacy.md assumes of every run, and conditional otherwise.
    assert privacy.trust is not None, "terms are settled before a run begins"
    return PrivacyStatement(
        epsilon=epsilon(rho, privacy.delta),
        delta=privacy.delta,
        unit=str(unit),
        neighbours=unit.neighbours,
        trust=privacy.trust,
        accountant=f"Renyi bound of {rho:.4g}-zCDP",
        guarantee=guarantee_under(assumed),
        derivation=derivation,
        sees=sees,
        assumes=join_assumptions(assumed),
        computational=any(one.computational for one in assumed),
        caveat=caveat,
        rho=rho,
    )


_BY_PLACE = "What leaves depends on the place of a row"
BY_SECRET = (
    f"{_BY_PLACE}, in the order of a keyed hash of the key. Against whoever lacks its secret a replaced row has "
    "another key, too (computational: no test tells that hash from a random one); against parties, who know the common "
    "keys and their order, neighbours keep their keys, and who is among the common rows is not protected"
)
BY_KEY = (
    f"{_BY_PLACE}, in the order of the key, since public labels go by it: neighbours keep their keys, and who is among "
    "the common rows is not protected"
)
BY_PLACE = f"{_BY_PLACE}: a row is known by its place in the table, and neighbours keep their places"


def describe_replaced(ledgers: Iterable[tuple[str, str, str]]) -> str:
    """What to say of ledgers that were replaced: whose, when, and how often. Equal triples are one ledger."""
    days: dict[str, list[str]] = {}
    for node, when, _ in sorted(set(ledgers)):
        days.setdefault(node, []).append(when[:10])
    if not days:
        return ""
    said = [f"that of {node} on {', '.join(found)}" for node, found in days.items()]
    count = sum(map(len, days.values()))
    lost = "ledger was replaced after it was lost" if count == 1 else "ledgers were replaced after they were lost"
    return f"{count:,} {lost}: {'; '.join(said)}. What only a lost ledger had counted is in no later sum"


def describe_absent(absent: Mapping[str, str]) -> str:
    """What to say of parties that were lost on the way: by name, when that was."""
    if not absent:
        return ""
    said = "; ".join(f"{party} was lost {when}" for party, when in absent.items())
    paid = "The price is that of the whole plan, and the noise was made for it: what had left anybody is spent"
    return f"{said}. {paid}, and nothing of it was released again"


def join_assumptions(assumed: Iterable[Assumption]) -> str:
    """Assumptions as one clause; each stands after "if"."""
    return "; and if ".join(one.says for one in assumed)


def with_trust(privacy: Privacy | None, known: Sequence[Trust]) -> Privacy | None:
    """The terms with their trust model: the one asked for, else `secure` where it is known, else the strictest."""
    if privacy is None or privacy.trust is not None:
        return privacy
    preferred = (Trust.SECURE, Trust.NOBODY, Trust.PARTIES, Trust.CONSORTIUM)
    return replace(privacy, trust=next((trust.value for trust in preferred if trust in known), Trust.NOBODY.value))


def large_delta(privacy: Privacy, count: int, what: str = "rows") -> str:
    """What to say of a delta that publishing one unit, drawn at random, would satisfy; nothing where it is smaller."""
    if privacy.delta * count < 1.0:
        return ""
    limit = f"1/{what} = {1.0 / count:.2g}"
    return f"delta={privacy.delta:g} is not below {limit}: publishing one of them at random would satisfy it"


def read_off(parties: Sequence[str]) -> str:
    """What to say of bounds and levels that no price covers, since their owner called them public."""
    return f"bounds were read from the data and declared public ({', '.join(parties)})" if parties else ""


def check_delta(privacy: Privacy, count: int, what: str = "rows") -> None:
    """Refuse such a delta, unless the terms allow it. `count` is public: rows in common, or columns."""
    if (wrong := large_delta(privacy, count, what)) and not privacy.allow_large_delta:
        advised = 10.0 ** math.floor(math.log10(0.1 / count))
        raise InvalidInput(
            f"{wrong}. Nothing was sent. Ask for delta={advised:g} or less, or, if you know what it means, allow "
            "it by allow_large_delta (`colonnade sparse`: --allow-large-delta); the statement then says so."
        )


LARGE_EPSILON = 20.0


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
