"""What ledgers and journals say of a run, as facts: what was released, as events, plans of events, policies; how a
price is written for people; and how a run ended.

The ledger stores events; what they cost is derived from them (accountant.py), and may be derived better tomorrow.
The kinds below are a fixed table: from the first release on a kind is never removed, none ever changes its meaning, and
an unknown one is refused.

An ending is a word, the name of the error if there was one, and whether another organisation says so. It is kept as it
is; what people read is made from it (`Ending.words`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import lru_cache
from numbers import Real
from operator import attrgetter
from typing import Annotated

from colonnade.errors import InvalidInput, LedgerDamaged, PolicyRefused
from colonnade.fields import LARGEST, Flag, check, must
from colonnade.fields import shown as shown_value


class Mechanism(StrEnum):
    """How a value was made safe to leave."""

    EXACT = "exact"  # not at all: infinite price
    GAUSSIAN = "gaussian"  # discrete Gaussian on an integer grid
    HISTOGRAM = "histogram"  # discrete Gaussian on counts, of which those of unknown levels leave only over a threshold
    GUMBEL = "gumbel"  # exponential mechanism: index and sign of the noisy largest
    PICKS = "picks"  # several such choices in a row, each over scores that depend on the ones before
    LATTICE = "lattice"  # discrete Gaussian on integers modulo a power of two, parts with sds in a fixed ratio
    CONTINUED = "continued"  # more entries of a lattice release whose whole price was paid with the first ones
    MASKED = "masked"  # under a one-time mask: uniform numbers to whoever lacks it, so no price
    HIDDEN = "hidden"  # under learning with errors: uniform numbers to whoever lacks the secret, so no price
    SCORES = "scores"  # a part of the scores of rows by a model, for the label holder, by agreement


class Scope(StrEnum):
    """How prices of several parties about the same row add up."""

    OWN = "own"  # each party's release is a mechanism of its own: prices add
    JOINT = "joint"  # one mechanism run by several parties together: counted once


class Audience(StrEnum):
    """Who sees what was released."""

    ALL = "all"  # anybody on the wire, the coordinator included
    CONSORTIUM = "consortium"  # the parties and their coordinator only


@dataclass(frozen=True, slots=True)
class Event:
    """One call of a gate: one mechanism, however many arrays it released together."""

    mechanism: Mechanism
    rho: float  # price in zero-concentrated differential privacy; infinite for exact values
    sensitivity: float
    scope: Scope = Scope.OWN
    audience: Audience = Audience.ALL
    delta: float = 0.0  # beside rho: with a chance of so much at most the release is worse than rho says

    def __post_init__(self) -> None:
        if math.isnan(self.rho) or self.rho < 0:
            raise InvalidInput(f"an event costs rho >= 0, got {self.rho}")
        if not 0.0 <= self.delta < 1.0:
            raise InvalidInput(f"an event costs a delta from 0 on, below 1, got {self.delta}")

    def to_json(self) -> str:
        return _event_json(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Event:
        """The event of a row of a ledger, or one alone."""
        try:
            raw = json.loads(text)
            raw = raw.get("event", raw)
            rho = float(raw["rho"])
            sensitivity = float(raw["sensitivity"])
            seen = Scope(raw["scope"]), Audience(raw["audience"])
            return cls(Mechanism(raw["mechanism"]), rho, sensitivity, *seen, float(raw.get("delta", 0.0)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LedgerDamaged(
                "the ledger holds an event this version of colonnade does not know, so its price is unknown and "
                "nothing can be released. Use the newest version of colonnade that wrote to this ledger."
            ) from error


@lru_cache(maxsize=1024)
def _event_json(event: Event) -> str:  # a long run makes the same few events over and over
    plain = asdict(event)
    # The bytes of most rows, also of those that were written before there was one.
    if not event.delta:
        del plain["delta"]
    return json.dumps(plain, sort_keys=True)


_KIND = attrgetter("mechanism", "rho", "scope", "audience", "delta")
_MOST_ROWS = 10**10
EXACT = Event(Mechanism.EXACT, math.inf, math.inf)
MASKED = Event(Mechanism.MASKED, 0.0, 0.0)
HIDDEN = Event(Mechanism.HIDDEN, 0.0, 0.0)
SCORES = Event(Mechanism.SCORES, 0.0, math.inf)


KINDS = ("masked", "noisy", "exact")


def kind_of(event: Event) -> str:
    """How a release looks to whoever gets it: one of KINDS; exact is also what only members see so."""
    if event.mechanism in (Mechanism.MASKED, Mechanism.HIDDEN):
        return KINDS[0]
    inside = event.audience is Audience.CONSORTIUM and event.mechanism is not Mechanism.GAUSSIAN
    exact = event.mechanism in (Mechanism.EXACT, Mechanism.SCORES) or math.isinf(event.rho)
    return KINDS[2] if exact or inside else KINDS[1]


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of a plan: an event and how often a run may make it. Sensitivities are settled at release."""

    event: Event
    count: int
    what: str  # in words, for people: "index and score of the steepest column"

    @property
    def rho(self) -> float:
        return self.event.rho * self.count if self.count else 0.0

    @property
    def delta(self) -> float:
        return self.event.delta * self.count

    def covers(self, event: Event) -> bool:
        return _KIND(self.event) == _KIND(event)


Plan = tuple[Charge, ...]
_Rows = Annotated[int, must(f"a number of rows, at least 1 and at most {_MOST_ROWS:,}", 500, ge=1, le=_MOST_ROWS)]


_Figure = Callable[[Charge], float]  # of a line: its rho, or the delta beside it
RHO: _Figure = attrgetter("rho")
DELTA: _Figure = attrgetter("delta")


def plan_rho(plan: Iterable[Charge]) -> float:
    """The whole price of one party's plan."""
    return math.fsum(map(RHO, plan))


def plan_delta(plan: Iterable[Charge]) -> float:
    """What the releases of one party's plan take of a delta beside their rho."""
    return math.fsum(map(DELTA, plan))


def row_rho(plans: Mapping[str, Plan]) -> float:
    """The whole price of one row: every party's own releases, and each joint mechanism once."""
    return own_sum(RHO, *plans.values()) + joint_sum(RHO, plans)


def row_delta(plans: Mapping[str, Plan]) -> float:
    """What all releases about one row take of a delta beside their rho, added up as `row_rho` adds."""
    return own_sum(DELTA, *plans.values()) + joint_sum(DELTA, plans)


def own_sum(figure: _Figure, *plans: Plan) -> float:
    """A figure of the releases that parties make by themselves."""
    return math.fsum(figure(c) for plan in plans for c in plan if c.event.scope is Scope.OWN)


def joint_sum(figure: _Figure, plans: Mapping[str, Plan]) -> float:
    """A figure of the mechanisms that several parties run together: of each, what the dearest party pays for it."""
    joint: dict[str, float] = {}
    for plan in plans.values():
        lines = [charge for charge in plan if charge.event.scope is Scope.JOINT]
        for what in {charge.what for charge in lines}:
            mine = math.fsum(figure(charge) for charge in lines if charge.what == what)
            joint[what] = max(joint.get(what, 0.0), mine)
    return math.fsum(joint.values())


def with_delta(**figures: float) -> dict[str, float]:
    """Deltas of a row or a record, written only where they are not 0: all others keep the bytes that they had."""
    return {name: delta for name, delta in figures.items() if delta}


def price_in_words(rho: float, delta: float = 0.0) -> str:
    """The price of a release in a table for people."""
    if math.isinf(rho):
        return "exact"
    return f"{rho:.4g} and delta {shown(delta)}" if delta else f"{rho:.4g}"


def unprotected(plan: Plan) -> Plan:
    """The plan of a run whose noise can be subtracted: what it releases is as good as exact."""
    free = (Mechanism.MASKED, Mechanism.HIDDEN, Mechanism.SCORES, Mechanism.CONTINUED)
    return tuple(c if c.event.mechanism in free else replace(c, event=replace(c.event, rho=math.inf)) for c in plan)


@dataclass(frozen=True, slots=True)
class Policy:
    """What one party allows: whether exact values may leave it, and what may be spent on its rows in all.

    In a federation made in process a party without a policy lets exact values leave: its maker holds all tables anyway.

    Parameters
    ----------
    exact
        True: values may leave as they are, and no bound on epsilon holds.
    epsilon
        With `delta`, the most that private runs may spend on a row together; None: no limit of its own.
    delta
        As `epsilon`: give both, or neither.
    scores
        True: its part of the scores of its rows, new ones or not, may go to the label holder, who learns the sum
        exactly.
    consortium
        True: exact values may go to the other parties and their coordinator in a run whose trust is "consortium", and
        nowhere else.
    least
        The fewest rows in common with parties elsewhere that it takes part with; their number is then known to all.
        None: it takes part only where that number is public anyway.
    quorum
        The fewest parties, itself and the label holder among them, with which a run may go on when others are lost on
        the way; None: it ends then.

    Examples
    --------
    >>> import colonnade as co
    >>> co.Policy(epsilon=3.0, delta=1e-6, scores=True).exact
    False
    """

    exact: Flag = False
    epsilon: float | None = None
    delta: float | None = None
    scores: Flag = False
    consortium: Flag = False
    least: _Rows | None = None
    quorum: Annotated[int, must("a number of parties, at least 2", 4, ge=2)] | None = None

    def __post_init__(self) -> None:
        check(self)
        if (self.epsilon is None) != (self.delta is None):
            raise InvalidInput("a budget needs both epsilon and delta; give both, or neither for no budget")
        for name in ("epsilon", "delta"):
            if not isinstance(figure := getattr(self, name), Real | None) or isinstance(figure, bool):
                raise InvalidInput(f"a budget needs a number as {name}, got {shown_value(figure)}")
        if self.epsilon is not None and not 0 < self.epsilon <= LARGEST:
            raise InvalidInput(f"a budget needs a finite epsilon > 0, got {shown_value(self.epsilon)}")
        if self.delta is not None and not 0 < self.delta < 1:
            raise InvalidInput(f"a budget needs 0 < delta < 1, got {shown_value(self.delta)}; 1e-6 is a common choice")
        if self.exact and self.epsilon is not None:
            raise InvalidInput("a party that lets exact values leave has no budget to keep: drop exact=True or epsilon")


def quorum_of(policies: Iterable[Policy]) -> int:
    """How many parties must be left for a run to go on when others are lost: as many as any of them asks for; 0: one of
    them does not go on."""
    asked = [policy.quorum for policy in policies]
    return 0 if None in asked else max((one for one in asked if one is not None), default=0)


def check_policy(node: str, policy: Policy, plan: Plan) -> None:
    """Refuse a plan that releases what the party's policy does not allow, whatever it costs."""
    # It looks at the plan alone, never at data, so a refusal tells nothing about a row.
    exact = [charge.what for charge in plan if math.isinf(charge.event.rho) and charge.count]
    if exact and not policy.exact:
        raise PolicyRefused(
            f"party {node!r} does not let exact values leave, and this method would release {'; '.join(exact)}. "
            "Nothing was sent. Choose a private method (privacy=...), or, if the party agrees, set "
            "Policy(exact=True) for it."
        )
    members = [charge for charge in plan if charge.event.audience is Audience.CONSORTIUM and charge.count]
    inside = [charge.what for charge in members if charge.event.mechanism is not Mechanism.GAUSSIAN]  # that adds noise
    if inside and not (policy.exact or policy.consortium):
        raise PolicyRefused(
            f"party {node!r} does not show exact values to the other parties, and in a consortium this method would: "
            f"{'; '.join(inside)}. Nothing was sent. Ask for trust='secure', or, if the party trusts the others and "
            "their coordinator, set Policy(consortium=True) for it."
        )
    if not (policy.exact or policy.scores) and any(charge.event == SCORES for charge in plan):
        raise PolicyRefused(
            f"party {node!r} does not let its part of scores leave. Nothing was sent. If the party agrees that the "
            "label holder learns the scores of these rows, set Policy(scores=True) for it."
        )


DIGITS = 4


def shown(figure: float) -> str:
    """An epsilon or a delta for people: four significant digits, rounded up, so that no price looks lower than it is.

    What lies above a number of four digits by a part in 10⁹ or less is that number: the last bits of a computed figure.
    """
    if not (math.isfinite(figure) and figure > 0.0):
        return f"{figure:g}"
    nearest = float(f"{figure:.{DIGITS - 1}e}")
    if nearest < figure * (1.0 - 1e-9):
        step = 10.0 ** (math.floor(math.log10(nearest)) - DIGITS + 1)
        nearest = float(f"{nearest + step:.{DIGITS - 1}e}")
    return f"{nearest:.{DIGITS}g}"


class How(StrEnum):
    """The ways in which a run ends."""

    FINISHED = "finished"
    REFUSED = "refused"  # before it began: nothing was sent anywhere
    FAILED = "failed"
    ABORTED = "aborted"  # by its owner, after an interruption
    INTERRUPTED = "interrupted"
    LEFT_BEHIND = "left behind"  # it finished without this party, which was lost on the way


# Of other parties a party hears PeerFailed and no more (network/refusals.py): which of the three it was is theirs.
_ERRORS = {
    "PeerSilent": "failed: a party did not answer in time",
    "PeerRefused": "refused: a party's policy, budget or operator said no",
    "PeerBroken": "failed: a party could not go on",
    "PeerFailed": "failed: another node refused, could not go on or did not answer",
    "PolicyRefused": "refused: a policy does not allow it",
    "BudgetExhausted": "refused: a budget does not allow it",
    "InvalidInput": "failed: data, files or settings do not fit it",
    "LeakError": "failed: something would have left without passing a gate",
    "WireError": "failed: something came that is no message of ours",
    "ProtocolError": "failed: a node broke the rules of the conversation, or nobody could go on",
}


_ERROR = re.compile(r"\w{1,80}", re.ASCII)
_CODE = re.compile(rf"(?P<hub>hub/)?(?P<how>{'|'.join(How)})(?:/(?P<error>{_ERROR.pattern}))?", re.ASCII)
_WORDS = {How.LEFT_BEHIND: "finished after this party was lost"}


@dataclass(frozen=True, slots=True)
class Ending:
    """How one run ended."""

    how: How
    error: str = ""  # the name of its kind
    by_hub: bool = False  # another organisation says so

    def __post_init__(self) -> None:
        # A name that no code can hold would be written and never read again, and so close a ledger for good.
        if self.error and not _ERROR.fullmatch(self.error):
            object.__setattr__(self, "error", "Exception")

    @property
    def returns_all(self) -> bool:
        """Whether what other parties reserved about the same rows returns, too: nothing was sent anywhere. The word of
        another organisation is not enough for that."""
        return self.how is How.REFUSED and not self.by_hub

    @property
    def finished(self) -> bool:
        return self.how is How.FINISHED

    @property
    def words(self) -> str:
        """For people."""
        said = _ERRORS.get(self.error) or _WORDS.get(self.how) or ": ".join(filter(None, [self.how, self.error]))
        return f"the hub says: {said}" if self.by_hub and not self.finished else said

    @property
    def code(self) -> str:
        """As journals, ledgers and the wire have it: finished, refused/PolicyRefused, hub/failed/PeerFailed."""
        return "/".join(filter(None, ["hub" * self.by_hub, self.how, self.error]))

    @classmethod
    def of(cls, code: object) -> Ending:
        """The ending with this code, or ValueError."""
        if not (isinstance(code, str) and (found := _CODE.fullmatch(code))):
            raise ValueError(f"no code of an ending: {code!r}")
        return cls(How(found["how"]), found["error"] or "", found["hub"] is not None)


FINISHED = Ending(How.FINISHED)
ABORTED = Ending(How.ABORTED)
