"""A hub without a network: it asks parties' services in this process anything, in any order, and may lose them at any question."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from unittest import mock

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.data.schema.columns import Numeric
from colonnade.data.schema.table import Schema
from colonnade.methods.node_setup import Call, protocol_of
from colonnade.network.hub import Grpc, read_answer
from colonnade.network.party_run import Approvals
from colonnade.network.party_service import OK, PartyService
from colonnade.network.questions import BY_NAME, Parcel, Said, Sent, letters_in, pack, unpack
from colonnade.network.transport.metrics import Metrics
from colonnade.privacy.events import Event
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.runtime.host import Answered, Lost
from colonnade.runtime.program import FailureCode
from tests.helpers.contract import EVERY_METHOD, Case, federation
from tests.helpers.organisations import COORDINATOR_IDENTITY, COORDINATOR_KEY, Organisations

STAR, GRAPH = EVERY_METHOD["frank-wolfe, least squares"], EVERY_METHOD["graph admm"]
SECURE, NOISY = EVERY_METHOD["private gram, secure"], EVERY_METHOD["private sharing admm"]
REFUSES, BREAKS = int(FailureCode.REFUSED) + 1, int(FailureCode.PROTOCOL) + 1
STOPS = int(FailureCode.STOPPED) + 1


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: nothing here is about the disk, and a disk would only be slower."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Path(folder)


@dataclass(frozen=True)
class AskedOf:
    """A question to a party."""

    party: str
    what: str
    head: Mapping[str, Any]
    blobs: tuple[bytes, ...]


class Straw(Grpc):
    """A hub without a network. `lose` says at which questions a party's process dies, before or after it answers, heard or not."""

    def identity(self) -> bytes:
        return COORDINATOR_IDENTITY

    def __init__(self, made: Organisations, lose: dict[int, str] | None = None) -> None:
        self.made, self.lose, self.asked = made, lose or {}, 0
        self.patience, self.session, self.rows, self._file, self.metrics = 1.0, "", 0, made.file, Metrics()
        self.absent = {}
        self._board = self  # type: ignore[assignment]
        self.services = {name: made.service(name) for name in made.names}
        self.lives = dict.fromkeys(made.names, 0)
        self.away: set[str] = set()  # parties whose line is down
        self.wire: dict[tuple[str, str, int], set[bytes]] = {}  # every letter that left a party, in all its forms

    def keep_in(self, store: str | Path) -> Self:
        """It has no certificates."""
        return self

    def open(self, file: FederationFile) -> Any:
        return self

    def wait_for(self, names: Collection[str], timeout: float) -> None:
        """They are all here."""

    def connected(self) -> set[str]:
        return set(self.made.names) - self.away

    def process(self, party: str) -> str:
        return str(self.lives[party])

    def close(self) -> None:
        for service in self.services.values():
            service.close()

    def die(self, party: str) -> None:
        self.services[party].close()
        self.services[party] = self.made.service(party)
        self.lives[party] += 1

    def raw(self, party: str, what: str, head: Mapping[str, Any] | None = None, blobs: Sequence[bytes] = ()) -> Parcel:
        """The answer to a question: of these fields it has those that it knows, and is about "run" if none says another."""
        given = {"run": "run", **(head or {})}
        known = BY_NAME[what].asked.__struct_fields__ if what in BY_NAME else given
        asked = {"what": what, **{name: value for name, value in given.items() if name in known}}
        return unpack(self.services[party].answer(pack(asked, blobs)))

    def ask(
        self,
        party: str,
        what: str,
        head: Mapping[str, Any] | None = None,
        blobs: Sequence[bytes] = (),
        patience: float | None = None,
    ) -> Answered[Said]:
        return self.answer_to(AskedOf(party, what, head or {}, tuple(blobs)))

    def answer_to(self, asked: AskedOf) -> Answered[Said]:
        """What the party says; a hub that watches its parties, or loses them, has its own."""
        self.asked += 1
        way = self.lose.get(self.asked)
        party = asked.party
        if way == "before":
            self.die(party)
        if way == "silently":  # it is another process before anybody has noticed
            self.services[party].runs.clear()
            self.services[party].approvals = Approvals()
        request = pack({"what": asked.what, **asked.head}, asked.blobs)
        answer = Answered(lambda: read_answer(party, BY_NAME[asked.what], self.services[party].answer(request)))
        if isinstance(found := heard(answer), Sent):
            for x in letters_in(found.letters, asked.head["run"]):
                self.wire.setdefault((x.sender, x.receiver, x.sequence), set()).add(x.body)
        if way in ("after", "idle"):  # idle: its answer was heard, and nothing is asked of it while it comes back
            self.die(party)
        if way in ("before", "after"):
            return Answered(lambda: (_ for _ in ()).throw(Lost(party)))
        return answer


def heard(answer: Answered[Said]) -> Said | None:
    """An answer that is there; None if it is an error."""
    with contextlib.suppress(Exception):
        return answer.result()
    return None


def run_of(straw: Straw, case: Case, store: Path, run: str = "run") -> co.Fit:
    noise = None if case.privacy is None else SeededNoise(1)
    with mock.patch("colonnade.runtime.run_store.new_run_id", return_value=run):
        return co.fit(
            straw.made.federation, case.problem, case.method, case.privacy, engine=straw, store=store, noise=noise
        )


@contextlib.contextmanager
def straw_hub(
    case: Case, folder: Path, policy: co.Policy | None = None, lose: dict[int, str] | None = None
) -> Iterator[Straw]:
    with Straw(Organisations.of(federation(case), folder, policy), lose) as straw:
        yield straw


def proposal(case: Case, run: str = "run", seeded: bool = True, **changes: Any) -> dict[str, Any]:
    noise = SeededNoise(1) if case.privacy is not None and seeded else None
    call = Call(changes.get("method", case.method), changes.get("problem", case.problem), case.privacy, noise)
    return {"run": run, "call": call.to_json(), "code": protocol_of(call.method.variant(call.problem)), "session": ""}


def met(straw: Straw, case: Case, run: str = "run", seeded: bool = True) -> None:
    """All parties have reserved a run and have met."""
    said = {name: straw.raw(name, "reserve", proposal(case, run, seeded)) for name in straw.made.names}
    assert {answer.head["code"] for answer in said.values()} == {OK}
    for name in straw.made.names:
        others = [peer for peer in straw.made.names if peer != name]
        keys = [part for peer in others for part in said[peer].blobs]
        assert straw.raw(name, "meet", {"run": run, "peers": others}, keys).head["code"] == OK


def entries(service: PartyService) -> list[tuple[str, int, int, Event]]:
    service.log.verify()
    return [(e.run, e.tick, e.slot, e.event) for e in service.ledger.entries()]


def failing_turn(straw: Straw, error: Exception) -> Parcel:
    node = straw.services["party0"].runs["run"].host.node
    with mock.patch.object(type(node), "step", side_effect=error):
        return straw.raw("party0", "turn", {"run": "run", "letters": []})


def keyed(folder: Path, least: int = 3) -> Organisations:
    """Two parties whose rows are matched by a key: eight in common."""
    members, signing, tables = {}, {}, {}
    for name in ("bank", "shop"):
        public, signing[name] = new_key()
        schema = Schema((Numeric(name, -3.0, 3.0),))
        members[name] = Member(schema, co.Policy(exact=True, least=least), public)
    file = FederationFile(members, "key", ("bank", "y"), coordinator=COORDINATOR_KEY)
    draw = np.random.default_rng(3)
    for name, keys in (("bank", range(10)), ("shop", range(2, 12))):
        frame = {"key": list(keys), name: draw.normal(size=10), "y": draw.normal(size=10)}
        tables[name] = pl.DataFrame(frame)
    return Organisations(folder, file, signing, tables, {})
