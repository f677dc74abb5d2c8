"""A dry run between organisations: every check of the real path that one side can make by itself.

What only others know stays unknown, and `UNKNOWN` says what that is. Where rows are matched by keys their number is not
known before the parties have agreed on them: it is the least that they take part with, unless the caller supposes more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput
from colonnade.methods.node_setup import Call
from colonnade.network.aligner import check_least
from colonnade.network.bounds import Sizes, check_call
from colonnade.network.party_file import Approval, PartyFile
from colonnade.network.party_run import Request, check_pinned, price, request_for
from colonnade.network.party_service import PartyService
from colonnade.network.transport.metrics import Metrics
from colonnade.runs.call import checked_call
from colonnade.runs.preview import RUN
from colonnade.runtime.run_store import RunStore, check_folder

if TYPE_CHECKING:
    from colonnade.runs.config import JobFile

UNKNOWN = (
    "whether the parties are there, with the same federation file, version and clock",
    "whether their ledgers have room, and their operators or [limits] say yes",
    "what their tables hold, and whether they fit their schemas",
)
ROWS = "how many rows are common, before the parties have agreed on them"


def suppose_rows(file: FederationFile, rows: int | None = None) -> Federation:
    """The federation as if its parties had agreed on so many rows: by default the fewest they take part with."""
    if file.on is None:
        if rows is not None:
            raise InvalidInput("the federation file says how many rows there are; leave --rows out.")
        return Federation.elsewhere(file)
    check_least(file)
    fewest = max(member.policy.least or 1 for member in file.members.values())
    if rows is not None and rows < fewest:
        raise InvalidInput(f"--rows {rows:,}: the parties take part with {fewest:,} common rows or more.")
    return Federation.elsewhere(file, fewest if rows is None else rows)


def propose_call(federation: Federation, asked: JobFile) -> Call:
    """What the coordinator would propose, if nothing of it is refused before anybody is asked."""
    assert federation.away is not None
    passed = checked_call(federation, asked.problem, asked.method, asked.privacy)
    call = Call(passed.asked, asked.problem, passed.job.privacy, None)
    check_pinned(federation.away, passed.method, passed.job)
    check_call(call.to_json(), Sizes.of(federation.away, federation.rows))
    return call


@contextmanager
def open_service(settings: PartyFile) -> Iterator[PartyService]:
    """A party's service over its own ledger; where there is none yet, over one that is gone afterwards."""
    settings = replace(settings, tls=settings.tls.unkept())
    with ExitStack() as last:
        lines = settings.neighbours(Metrics())
        # Closed at the end, and never started: nobody is dialled.
        last.push(lines)
        ledger = RunStore.path_in(settings.store, settings.name)
        if not ((settings.store / "runs.db").is_file() and ledger.is_file()):
            check_folder(settings.store)
            settings = replace(settings, store=Path(last.enter_context(tempfile.TemporaryDirectory())))
        yield last.enter_context(closing(settings.service(settings.limits, lines)))


def rehearse(
    settings: PartyFile, service: PartyService, asked: JobFile | None, rows: int | None = None
) -> Request | None:
    """Refuse what runs would be refused for at this party; what its operator would be shown of a job."""
    service.log.verify()
    agreement = service.agreement()
    if asked is None:
        service.data.rehearse(None, agreement)
        return None
    if agreement is not None and rows is not None:
        raise InvalidInput(f"{agreement.rows:,} rows are agreed on; leave --rows out.")
    supposed = agreement is None
    federation = suppose_rows(settings.federation_file, rows) if supposed else service.data.federation(agreement)
    call = propose_call(federation, asked)
    priced = price(call, federation, service.data, service.scoring)
    request = request_for(RUN, call, priced, service.data, service.ledger.score_runs())
    if settings.approve == Approval.POLICY:
        settings.limits(request)
    service.ledger.check_run(RUN, request.terms, request.plans)
    service.data.rehearse(priced.job, agreement)
    return request
