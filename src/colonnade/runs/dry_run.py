"""A dry run between organisations: every check that one side can make by itself. It spends nothing and asks nobody.

The checks are those of the real path, called from here: `checked_call` and the limits of a question for the
coordinator's proposal; for a party its table, ledger, policy and [limits]. What only others know stays unknown, and
`UNKNOWN` says what that is.

Where rows are matched by keys their number is not known before the parties have agreed on them. It is the least that
they take part with, unless the caller supposes another.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput
from colonnade.methods.node_setup import Call
from colonnade.network.bounds import Sizes, check_call
from colonnade.network.hub_alignment import check_least
from colonnade.network.party_file import PartyFile
from colonnade.network.party_service import PartyService, Request
from colonnade.network.transport.metrics import Metrics
from colonnade.runs.call import checked_call
from colonnade.runs.job_file import JobFile
from colonnade.runtime.run_store import RunStore, check_folder

RUN = "a run to come"
UNKNOWN = (
    "whether the parties are there, with the same federation file, version and clock",
    "whether their ledgers have room, and their operators or [limits] say yes",
    "what their tables hold, and whether they fit their schemas",
)
ROWS = "how many rows are common, before the parties have agreed on them"


def suppose_rows(charter: FederationFile, rows: int | None = None) -> Federation:
    """The federation as if its parties had agreed on so many rows: by default the fewest they take part with."""
    if charter.on is None:
        if rows is not None:
            raise InvalidInput("the federation file says how many rows there are; leave --rows out.")
        return Federation.elsewhere(charter)
    check_least(charter)
    fewest = max(member.policy.least or 1 for member in charter.members.values())
    if rows is not None and rows < fewest:
        raise InvalidInput(
            f"--rows {rows:,}: by the federation file the parties take part with {fewest:,} common rows or more."
        )
    return Federation.elsewhere(charter, fewest if rows is None else rows)


def propose_call(federation: Federation, asked: JobFile) -> Call:
    """What the coordinator would propose, if nothing of it is refused before anybody is asked."""
    assert federation.away is not None
    passed = checked_call(federation, asked.problem, asked.method, asked.privacy)
    call = Call(passed.asked, asked.problem, passed.job.privacy, None)
    check_call(call.to_json(), Sizes.of(federation.away, federation.rows))
    return call


@contextlib.contextmanager
def open_office(settings: PartyFile) -> Iterator[PartyService]:
    """A party's office over its own ledger; where there is none yet, over one that is gone afterwards."""
    with contextlib.ExitStack() as last:
        lines = settings.neighbours(Metrics())
        last.push(lines)  # closed at the end, and never started: nobody is dialled
        if not ((settings.store / "runs.db").is_file() and _ledger(settings).is_file()):
            check_folder(settings.store)
            settings = replace(settings, store=Path(last.enter_context(tempfile.TemporaryDirectory())))
        yield last.enter_context(contextlib.closing(settings.office(settings.limits, lines)))


def rehearse(
    settings: PartyFile, office: PartyService, asked: JobFile | None, rows: int | None = None
) -> Request | None:
    """Refuse what runs would be refused for at this party; what its operator would be shown of a job."""
    office.log.verify()
    office.aligning.check_able()
    agreement = office.agreement()
    if asked is None:
        office.holding.rehearse(None, agreement)
        return None
    if agreement is not None and rows is not None:
        raise InvalidInput(f"{agreement.rows:,} rows are agreed on; leave --rows out.")
    federation = suppose_rows(settings.charter, rows) if agreement is None else office.holding.federation(agreement)
    call = propose_call(federation, asked)
    priced = office.priced(call, federation)
    request = office.request(RUN, call, priced)
    if settings.approve == "policy":
        settings.limits(request)
    office.ledger.check_run(RUN, request.terms, request.plans)
    office.holding.rehearse(priced[0], agreement)
    return request


def _ledger(settings: PartyFile) -> Path:
    return RunStore.path_in(settings.store, settings.name)
