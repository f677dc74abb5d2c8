"""The hub of several organisations: it carries letters, runs the coordinator's program and holds no data.

    with co.Grpc("0.0.0.0:7443", certs="certs/coordinator") as hub:
        fit = co.fit(co.Federation.open("federation.toml"), problem, method, privacy, engine=hub, store="hub-store")

Parties dial in (`colonnade party run`) and answer questions (party_service.py). What happens in one run is in
hub_run.py. What a party answers is read as if it were hostile: a value of the right kind, or an error that stops the
run. It may neither end the hub's process nor keep it busy for ever.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput, PeerFailed, ProtocolError, ReplayDiverged, StoreError, WireError
from colonnade.methods.node_setup import Call
from colonnade.network.aligner import Asked, align
from colonnade.network.bounds import Sizes, check_call
from colonnade.network.certs import SIGNING_KEY, Tls, check_own, tls_in
from colonnade.network.hub_run import LOSSES, HubRun
from colonnade.network.party_file import read_key
from colonnade.network.party_service import DIVERGED, OK, PROTOCOL, UNAVAILABLE, UNDECIDED, UNKNOWN
from colonnade.network.questions import Greeting, Question, Reached, Said, code_of_answer, pack, read_as
from colonnade.network.refusals import PeerBroken, PeerUndecided, refusal, silence
from colonnade.network.transport.envelope import PartyRestarted, PeerTimeout
from colonnade.network.transport.metrics import Metrics
from colonnade.notebook import explain
from colonnade.privacy.events import quorum_of
from colonnade.privacy.keyring import public_key
from colonnade.runtime.host import Computed, Distributed, Lost, NodeLogs, Promise, gather_answers
from colonnade.runtime.node import Listener, NodeSetup
from colonnade.runtime.program import COORDINATOR, NodeId

CLOCKS = 60.0  # seconds that two clocks may differ before `check` warns
GLANCE = 1.0  # seconds before a party whose operator has not decided is asked again


class Board(Protocol):
    """Who is connected, and a question to any of them: the streams of this process, or a way to those of another."""

    @property
    def port(self) -> int: ...

    def stop(self) -> None: ...

    def connected(self) -> set[str]: ...

    def wait_for(self, names: Collection[str], timeout: float) -> None: ...

    def session(self, party: str) -> str | None: ...

    def ask(self, party: str, request: bytes, *, timeout: float | None = None) -> Future[bytes]: ...


class Grpc:
    """An engine over the network: parties dial this hub, with certificates of a common authority.

    As a context (`with co.Grpc(...) as hub:`) it stops listening at the end.

    Parameters
    ----------
    address
        Where to listen, as "0.0.0.0:7443"; port 0 takes a free one.
    certs
        Folder as `colonnade certs issue` fills it, or a `co.Tls` that names the files; the coordinator's signing key,
        coordinator.signing.key, lies beside its certificate.
    patience
        Seconds to wait for parties to come and for an answer, before a run stops.
    """

    def __init__(self, address: str, certs: str | Path | Tls, *, patience: float = 600.0) -> None:
        self.address = address
        self.patience = patience
        self.tls = certs if isinstance(certs, Tls) else tls_in(certs, COORDINATOR)
        self.metrics = Metrics()
        self._board: Board | None = None
        self._file: FederationFile | None = None
        # of the rows agreed on; empty where they need no agreement
        self.session = ""
        self.rows = 0
        # Who did not come, where enough did to go on with a run.
        self.absent: dict[NodeId, PeerTimeout] = {}

    def __enter__(self) -> Self:
        return self

    def keep_in(self, store: str | Path) -> Self:
        """Remember in the hub's store which list of revoked certificates was the newest.

        Parameters
        ----------
        store
            The folder of the hub's store.
        """
        self.tls = self.tls.kept_in(store)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        if self._board is not None:
            self._board.stop()
            self._board = None

    def open(self, file: FederationFile) -> Board:
        """Listen for the parties of a federation.

        Parameters
        ----------
        file
            The federation file, which pins their certificates.
        """
        if self._board is not None and self._file is not None and self._file.digest != file.digest:
            self.close()
        if self._board is None:
            transport = _transport()
            pins = {name: member.pin for name, member in file.members.items()}
            made = transport.Switchboard(self.address, self.tls, pins, metrics=self.metrics)
            self._board = made
            self._file = file
            made.start()
        assert self._board is not None
        return self._board

    @property
    def keys(self) -> dict[str, bytes]:
        """The signing keys that the federation file pins."""
        return {} if self._file is None else self._file.keys

    @property
    def deadline(self) -> float | None:
        """Seconds that a party may be silent in a run, as the federation file says."""
        return None if self._file is None else self._file.deadline

    @property
    def label(self) -> str:
        """Who holds the labels."""
        return "" if self._file is None else self._file.label[0]

    def identity(self) -> bytes:
        """The coordinator's signing key, if it is the one that the federation file pins."""
        path = self.tls.certificate.parent / SIGNING_KEY
        found = read_key(path, "`colonnade federation pin`")
        if public_key(found) != self.keys.get(COORDINATOR):
            raise InvalidInput(
                f"{path} is not the key that the federation file pins for the coordinator. Use the pinned one, or have "
                "the file changed at all parties."
            )
        return found

    def rehearse(self) -> None:
        """Make every check that listening makes, and do not listen."""
        _transport().ready(self.address, self.tls.unkept())
        check_own(self.tls, COORDINATOR)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        if self._board is None:
            raise InvalidInput("the hub is not listening yet; it begins with its first federation.")
        return self._board.port

    def meet(self, federation: Federation, store: str | Path | None = None) -> Federation:
        """Wait for all parties, see that everybody speaks of the same, and agree on the common rows.

        Parameters
        ----------
        federation
            One whose parties run elsewhere, as `co.Federation.open(file)` gives it.
        store
            The folder of the hub's store, to remember the newest list of revoked certificates in.
        """
        if store is not None:
            self.keep_in(store)
        if (file := federation.away) is None:
            raise InvalidInput("co.Grpc is for federations whose parties run elsewhere: Federation.open(file).")
        found = self.hello(file, spared=True)
        if troubles := _mismatches(file, found):
            raise InvalidInput(f"{troubles[0]}. Nothing was sent.")
        if file.on is None:
            self.session = ""
            self.rows = 0
            return Federation.elsewhere(file)
        sessions = {(said.session, said.rows) for said in found.values()}
        if self.absent and (None, None) in sessions:
            raise next(iter(self.absent.values()))
        kept = {session for said in found.values() if (session := said.session or said.begun)}
        if (None, None) in sessions and len(kept) < 2:
            # Nobody has agreed yet; or a hub died when some had, or were about to: all join the same session.
            sessions = {align(self._ask_each, file, *kept)}
        if len(sessions) > 1 or (None, None) in sessions:
            known = ", ".join(party for party, said in found.items() if said.session or said.begun)
            raise ProtocolError(
                f"the parties keep other agreements on rows ({known} have one). Let all run `colonnade party realign`."
            )
        session, rows = sessions.pop()
        self.session = str(session)
        self.rows = int(rows or 0)
        return Federation.elsewhere(file, rows, str(session))

    def hello(self, file: FederationFile, *, spared: bool = False) -> dict[str, Greeting]:
        """Every party's versions, file, clock and agreement on rows.

        Parameters
        ----------
        file
            The federation file.
        spared
            True: of as many parties as a run could go on with, by their quorum.
        """
        board = self.open(file)
        here = set(file.members)
        self.absent = {}
        try:
            board.wait_for(file.members, self.patience)
        except PeerTimeout as error:
            here &= board.connected()
            quorum = quorum_of(member.policy for member in file.members.values())
            if not (spared and quorum and len(here) >= quorum and file.label[0] in here):
                raise
            self.absent = dict.fromkeys((name for name in file.members if name not in here), error)
        found: dict[str, Greeting] = self._ask_all([name for name in file.members if name in here], Question.HELLO)
        return found

    def roads(self, file: FederationFile) -> dict[tuple[str, str], bool]:
        """Every pair of parties that the federation file gives a line, and whether both say that it is up.

        Parameters
        ----------
        file
            The federation file.
        """
        said: dict[str, Reached] = {}
        if any(member.address for member in file.members.values()):
            said = self._ask_all(file.members, Question.REACH)
        up = {(party, peer) for party, answer in said.items() for peer in answer.up}
        pairs = [pair for pair in combinations(file.members, 2) if file.listener(*pair) is not None]
        return {(one, other): {(one, other), (other, one)} <= up for one, other in pairs}

    def check(self, file: FederationFile) -> list[str]:
        """What is not in order before anything is spent; empty if all is well.

        Parameters
        ----------
        file
            The federation file that everybody should hold.
        """
        found = self.hello(file)
        ahead = {party: said.clock - time.time() for party, said in found.items()}
        clocks = [f"the clock of {party} differs by {s:+.0f} seconds" for party, s in ahead.items() if abs(s) > CLOCKS]
        return _mismatches(file, found) + clocks

    def hosted_nodes(
        self, run: str, setups: Mapping[NodeId, NodeSetup], logs: NodeLogs, listener: Listener, call: Any
    ) -> HubRun:
        if self._board is None or not isinstance(call, Call):
            raise InvalidInput("co.Grpc is for federations whose parties run elsewhere: Federation.open(file).")
        assert self._file is not None
        check_call(call.to_json(), Sizes.of(self._file, self.rows))  # as every party will
        return HubRun(self, run, setups, logs, listener, call)

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, no other run of the same store agrees on rows or is reserved."""
        return contextlib.nullcontext()

    def await_decision(self, undecided: PeerUndecided, began: float) -> None:
        """Wait a moment before an operator's decision is asked for again; not longer than patience lasts.

        Parameters
        ----------
        undecided
            Which party has not decided.
        began
            When it was first asked, by the monotonic clock.
        """
        if time.monotonic() - began > self.patience:
            raise silence(undecided.party, Question.CONSIDER, self.patience) from undecided
        time.sleep(GLANCE)

    def process(self, party: NodeId) -> str | None:
        """Which process of a party is on the line.

        Parameters
        ----------
        party
            Its name.
        """
        assert self._board is not None
        return self._board.session(party)

    def listens(self, party: NodeId, process: str | None) -> bool:
        """Whether a party is connected now, and by that process.

        Parameters
        ----------
        party
            Its name.
        process
            The process that was on the line before.
        """
        assert self._board is not None
        return party in self._board.connected() and self.process(party) == process

    def ask(
        self,
        party: NodeId,
        what: Question,
        head: Mapping[str, Any] | None = None,
        blobs: Sequence[bytes] = (),
        patience: float | None = None,
    ) -> Promise[Any]:
        """A question to a party; its answer, or the error that its code stands for.

        Parameters
        ----------
        party
            Its name.
        what
            Which question.
        head
            The question's fields, by name.
        blobs
            What goes with it as bytes.
        patience
            Seconds to wait for the answer; None: those of the hub.
        """
        assert self._board is not None
        seconds = self.patience if patience is None else patience
        raw = self._board.ask(party, pack({"what": what, **(head or {})}, blobs), timeout=seconds)

        def read(answer: Promise[bytes]) -> Said:
            try:
                said = answer.result()
            except PartyRestarted as error:
                raise Lost(party) from error
            except PeerTimeout as error:
                raise silence(party, what, seconds) from error
            except PeerFailed as error:
                # Its process could not answer, and has ended.
                raise PeerBroken(str(error)) from error
            return read_answer(party, what, said)

        return Computed(raw, read)

    def _ask_all(self, names: Iterable[str], what: Question) -> dict[str, Any]:
        return self._ask_each({name: (what, {}, ()) for name in names})

    def _ask_each(self, asked: Mapping[str, Asked]) -> dict[str, Any]:
        """All answers; asked again, a party that died meanwhile answers the same."""
        for _ in range(LOSSES):
            with contextlib.suppress(Lost):
                return gather_answers({name: self.ask(name, *question) for name, question in asked.items()})
        kinds = ", ".join(sorted({repr(what) for what, _, _ in asked.values()}))
        raise PeerBroken(f"a party began anew {LOSSES:,} times when it was asked {kinds}; its own log says why.")


explain(Distributed, Grpc)


def _transport() -> ModuleType:
    try:
        from colonnade.network.transport import hub
    except ImportError as error:
        raise InvalidInput("co.Grpc needs grpcio. Try: pip install 'colonnade[grpc]'") from error
    return hub


def _mismatches(file: FederationFile, found: Mapping[str, Greeting]) -> list[str]:
    """Who speaks another protocol, or holds another file."""
    troubles = []
    for party, said in found.items():
        if said.protocol != PROTOCOL:
            troubles.append(f"{party} speaks protocol {said.protocol}, this hub {PROTOCOL}: update one")
        if said.file != file.digest:
            troubles.append(f"{party} holds another federation file: give all the same one, and start them again")
    return troubles


# ------------------------------------------------------------------------------------------------ answers


def read_answer(party: str, question: Question, raw: bytes) -> Said:
    """An answer, or the error that its code stands for."""
    try:
        code = code_of_answer(raw)
        if code == OK:
            return read_as(question.said, raw)
    except WireError as error:
        raise WireError(f"the answer of {party!r} to {question!r} is not one: {error}") from error
    if code == UNKNOWN:
        raise Lost(party)
    if code == UNDECIDED:
        raise PeerUndecided(party)
    if code == UNAVAILABLE:
        raise StoreError(f"{party!r} cannot write to its store; its own log says why. Repeat the call when it can.")
    if code == DIVERGED:
        raise ReplayDiverged(
            f"{party!r} cannot go on with this run: it is over there, or records, data or code changed; its log says "
            "which. Put back what was changed and repeat the call, or end the run with `colonnade runs abort`."
        )
    raise refusal(party, question, code)
