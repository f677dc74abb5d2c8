"""A run that the hub proposes: what it would cost by this party's own reckoning, and what its operator is shown of it.

Everything here follows from public figures, so no price and no refusal depends on a row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from colonnade.data.alignment import Agreement
from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput, PolicyRefused
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.method import Job
from colonnade.methods.node_setup import Call, assumptions, place_of, terms_of
from colonnade.network.party_data import PartyData, Scoring
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.events import Plan, row_rho, unprotected
from colonnade.privacy.ledger import Terms
from colonnade.privacy.statement import Assumption, check_delta

UNPINNED = (
    "this method seals masked rows to the coordinator, and the federation file does not pin its key. Nothing was sent. "
    "At the coordinator run `colonnade federation pin FEDERATION.toml --certs FOLDER`, then give all parties the new "
    "file."
)


@dataclass(frozen=True)
class Proposal:
    """A run, its call, the rows that it is about, and the hub's fingerprint of the method's code."""

    run: str
    call: Call
    agreement: Agreement | None
    code: object

    def is_same(self, other: Proposal) -> bool:
        """Whether both have the same call about the same rows."""
        return (self.call.to_json(), self.agreement) == (other.call.to_json(), other.agreement)

    @property
    def content(self) -> bytes:
        """What the run is about, and about which rows."""
        return f"{self.call.to_json()} {self.agreement.session if self.agreement else ''}".encode()

    @property
    def told(self) -> str:
        return told_of(self.run, self.call)


def told_of(run: str, call: Call) -> str:
    """A run and its call: nodes that were told different things under one name do not meet."""
    return f"{run}/{hashlib.sha256(call.to_json().encode()).hexdigest()}"


def check_pinned(file: FederationFile, method: Any, job: Job) -> None:
    """What is masked is sealed to the coordinator's key of a run, so its signing key must be pinned."""
    if method.SEALED and method.relays(job) and file.coordinator is None:
        raise InvalidInput(UNPINNED)


class Priced(NamedTuple):
    """A job, its method, and what it costs everybody."""

    job: Job
    method: Any
    plans: Mapping[str, Plan]


@dataclass(frozen=True)
class Request:
    """What an operator is asked to approve: everything that would leave, and what it costs."""

    run: str
    party: str
    terms: Terms
    call: Call
    plans: Mapping[str, Plan]
    rows: int
    units: tuple[int, str]  # how many units there are at most, and of what: what a delta is compared with
    scored: int = 0  # runs before this one that reserved a part of scores of the same rows
    new: bool = False  # whether the table is there to be scored, and nothing is learned from it
    assumed: tuple[Assumption, ...] = ()  # what the statement of the run would rest on
    place: str = ""  # what makes two rows the same row in it
    notices: tuple[str, ...] = ()  # what it would pay for nothing; of this party's data, and for its operator alone
    unused: tuple[str, ...] = ()  # declared levels that no row has; likewise

    @property
    def own(self) -> Plan:
        return self.plans.get(self.party, ())


Approve = Callable[[Request], bool]  # the operator's yes or no; whoever else refuses raises PolicyRefused and says why


def price(call: Call, federation: Federation, data: PartyData, scoring: Scoring) -> Priced:
    """The job as this party understands it, and what it would cost everybody."""
    if data.scoring and not isinstance(call.method, MaskedScores):
        raise PolicyRefused(f"the table of {data.name!r} is there to be scored, not to learn from. Nothing was sent.")
    method = call.method.variant(call.problem)
    if isinstance(method, MaskedScores):
        method = scoring.equip(method)
    problem: Any = call.problem  # as in fit: a method refuses a problem it does not know
    job = Job(problem, federation.roster(), call.privacy)
    _check_method(call, method, federation.by_rows)
    method.check(job)
    check_pinned(data.file, method, job)
    plans: Mapping[str, Plan] = method.price(job)
    if call.privacy is not None:
        check_delta(call.privacy, *job.units)  # rows in common are public once they are agreed on
        if row_rho(plans) > rho_for(call.privacy.epsilon, call.privacy.delta) * (1 + 1e-9):
            raise PolicyRefused(f"{method.TITLE} costs more than the epsilon that the hub names. Nothing was sent.")
    if call.noise is not None:
        if not data.member.policy.exact:
            raise PolicyRefused(f"seeded noise protects nobody, and {data.name!r} lets no exact values leave")
        plans = {party: unprotected(plan) for party, plan in plans.items()}
    schemas = [member.schema for member in data.file.members.values() if member.schema]
    if call.privacy is not None and any(schema.source == "data" for schema in schemas):
        raise PolicyRefused("a schema was read off data: its bounds and levels tell about single rows")
    return Priced(job, method, plans)


def _check_method(call: Call, method: Any, by_rows: bool) -> None:
    if not isinstance(call.problem, method.SOLVES):
        raise InvalidInput(f"{method.TITLE} does not solve a {type(call.problem).__name__}")
    if ("rows" if by_rows else "columns") not in method.SPLITS:
        raise InvalidInput(f"{method.TITLE} does not work on what these parties hold")


def request_for(run: str, call: Call, priced: Priced, data: PartyData, scored: int) -> Request:
    """What an operator is shown of a proposal; `scored` counts the runs of scores before it."""
    job, method, plans = priced
    request = Request(
        run, data.name, terms_of(job, method), call, plans, job.roster.rows, job.units, scored, data.scoring
    )
    place = place_of(job, method, keyed=data.file.on is not None)
    unused = () if job.privacy is None else data.seen.unused
    return replace(request, assumed=assumptions(job), place=place, notices=data.notices(job), unused=unused)


class Approvals:
    """What was approved and is not reserved yet, one a run: so that nobody is asked twice about one proposal.

    Between the two times that a run is proposed (party_service.py) a party keeps in memory a digest of everything that
    was shown when its operator, or its policy, said yes: another call, other rows, or one more run of scores since
    then, and the question is put again. The hub chooses how often it proposes, so only the newest few are kept.
    """

    MOST = 64

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def has(self, run: str, *shown: object) -> bool:
        return self._kept.get(run) == _digest(shown)

    def keep(self, run: str, *shown: object) -> None:
        self.forget(run)
        self._kept[run] = _digest(shown)
        if len(self._kept) > self.MOST:
            del self._kept[next(iter(self._kept))]

    def forget(self, run: str) -> bool:
        """Whether there was one."""
        return self._kept.pop(run, None) is not None


def _digest(shown: tuple[object, ...]) -> bytes:
    return hashlib.sha256(repr(shown).encode()).digest()
