"""The hub: where parties of several organisations meet. It carries letters, runs the coordinator's program, holds no data.

    with co.Grpc("0.0.0.0:7443", certs="certs/coordinator") as hub:
        fit = co.fit(co.Federation.open("federation.toml"), problem, method, privacy, engine=hub, store="hub-store")

Parties dial in (`colonnade party run`) and answer questions (office.py). The hub proposes a run; each party prices it and
approves it; when all have said that they would take part, each reserves; then letters go round in turns (runtime/turns.py). A
party that was restarted gets the same proposal again, finds its run in its own books, and goes on from its transcript. So
does the hub.

What a party answers is read as if it were hostile: it may stop a run, and neither end this process nor keep it busy for ever.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput, PeerFailed, ProtocolError, ReplayDiverged, StoreError, WireError
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.method import Answer, Status
from colonnade.methods.node_setup import Call
from colonnade.network.bounds import RUNS, Sizes, check_call
from colonnade.network.certs import Tls, check_own
from colonnade.network.hub_alignment import align
from colonnade.network.parcel import Parcel, letters_in, letters_out, pack, unpack
from colonnade.network.party_service import DIVERGED, OK, PROTOCOL, UNAVAILABLE, UNKNOWN
from colonnade.network.refusals import PeerBroken, PeerRefused, refusal, silence, told_to_others
from colonnade.network.replaced_ledger import is_replaced
from colonnade.network.run_log import RunLog
from colonnade.network.transport.envelope import PartyRestarted, PeerTimeout
from colonnade.network.transport.metrics import Metrics
from colonnade.privacy.ledger import Replaced
from colonnade.runtime.hosted_node import HostedNode, Joined, NodeSetup, Standing, Turn
from colonnade.runtime.inprocess import Outcome
from colonnade.runtime.messages import Direct, FailureCode
from colonnade.runtime.node import Letter, Listener
from colonnade.runtime.program import COORDINATOR, NodeId
from colonnade.runtime.traffic import Traffic, TrafficRow
from colonnade.runtime.turns import (
    Answered,
    Computed,
    HostedNodes,
    Lost,
    NodeLogs,
    Promise,
    Turns,
    gather_answers,
    wait_for_all,
)
from colonnade.runtime.wire import HEADER_SIZE, encode

if TYPE_CHECKING:
    from colonnade.network.transport.hub import Switchboard

CLOCKS = 60.0  # seconds that two clocks may differ before `check` warns
FAREWELL = 5.0  # seconds to wait for an answer when a run has failed
_MOST_REPLACED = 1000  # ledgers that one party may say were replaced
LOSSES = 1000  # how often a party may begin anew in one run
_MOST = 1 << 53
_NOTE = encode(Direct(b""), guarded=False)[:HEADER_SIZE]  # how a note begins that a letter went over a line

log = logging.getLogger("colonnade.network.hub")


class Grpc:
    """An engine over the network: parties dial this hub, with certificates of a common authority.

    address   where to listen, as "0.0.0.0:7443"; port 0 takes a free one.
    certs     folder as `colonnade certs issue` fills it, or a co.Tls that names the files.
    patience  seconds to wait for parties to come and for an answer, before a run stops.
    """

    def __init__(self, address: str, certs: str | Path | Tls, *, patience: float = 600.0) -> None:
        self.address, self.patience = address, patience
        self.tls = certs if isinstance(certs, Tls) else tls_in(certs, COORDINATOR)
        self.metrics = Metrics()
        self._board: Switchboard | None = None
        self._charter: FederationFile | None = None
        self.session, self.rows = "", 0  # of the rows agreed on; empty where they need no agreement

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._board is not None:
            self._board.stop()
            self._board = None

    def open(self, charter: FederationFile) -> Switchboard:
        """Listen for the parties of a federation."""
        if self._board is not None and self._charter is not None and self._charter.digest != charter.digest:
            self.close()
        if self._board is None:
            pins, streams = {name: member.pin for name, member in charter.members.items()}, _streams()
            self._board, self._charter = (
                streams.Switchboard(self.address, self.tls, pins, metrics=self.metrics),
                charter,
            )
            self._board.start()
        return self._board

    def rehearse(self) -> None:
        """Make every check that listening makes, and do not listen."""
        _streams().ready(self.address, self.tls)
        check_own(self.tls, COORDINATOR)

    @property
    def port(self) -> int:
        if self._board is None:
            raise InvalidInput("the hub is not listening yet; it begins with its first federation.")
        return self._board.port

    # ------------------------------------------------------------------------ before a run

    def meet(self, federation: Federation) -> Federation:
        """Wait for all parties, see that everybody speaks of the same, and agree on the common rows."""
        charter = _away(federation)
        found = self.hello(charter)
        for party, said in found.items():
            if said["protocol"] != PROTOCOL:
                raise ProtocolError(f"{party!r} speaks protocol {said['protocol']}, this hub {PROTOCOL}; update one.")
            if said["file"] != charter.digest:
                raise InvalidInput(
                    f"{party!r} holds another federation file than this hub. Nothing was sent. Compare the two files, give all the "
                    "same one, and start the parties again."
                )
        if unable := _unable(charter, found):
            raise InvalidInput(f"{unable[0]}. Nothing was sent.")
        if charter.on is None:
            self.session, self.rows = "", 0
            return Federation.elsewhere(charter)
        sessions = {(said.get("session"), said.get("rows")) for said in found.values()}
        kept = {session for said in found.values() if (session := said.get("session") or said.get("begun"))}
        if (None, None) in sessions and len(kept) < 2:
            # Nobody has agreed yet; or a hub died when some had, or were about to: all join the same session.
            sessions = {align(self._each, charter, *kept)}
        if len(sessions) > 1 or (None, None) in sessions:
            known = ", ".join(party for party, said in found.items() if said.get("session") or said.get("begun"))
            raise ProtocolError(
                f"the parties do not keep the same agreement on rows ({known} keep or began one). Let each of them run "
                "`colonnade party realign`, and begin again."
            )
        session, rows = sessions.pop()
        self.session, self.rows = str(session), int(rows or 0)
        return Federation.elsewhere(charter, rows, str(session))

    def hello(self, charter: FederationFile) -> dict[str, Mapping[str, Any]]:
        """Every party's versions, file, clock and agreement on rows."""
        board = self.open(charter)
        board.wait_for(charter.members, self.patience)
        return {party: _greeting(party, answer) for party, answer in self._all(charter.members, "hello").items()}

    def roads(self, charter: FederationFile) -> dict[tuple[str, str], bool]:
        """Every pair of parties that has a line of its own by the federation file, and whether both say that it is up."""
        said = self._all(charter.members, "reach") if any(m.address for m in charter.members.values()) else {}
        up = {(party, str(peer)) for party, answer in said.items() for peer in _peers(party, answer)}
        pairs = [pair for pair in combinations(charter.members, 2) if charter.listener(*pair) is not None]
        return {(one, other): {(one, other), (other, one)} <= up for one, other in pairs}

    def check(self, charter: FederationFile) -> list[str]:
        """What is not in order before anything is spent; empty if all is well."""
        troubles, found = [], self.hello(charter)
        for party, said in found.items():
            if said["protocol"] != PROTOCOL:
                troubles.append(f"{party} speaks protocol {said['protocol']}, this hub {PROTOCOL}")
            if said["file"] != charter.digest:
                troubles.append(f"{party} holds another federation file")
            if abs(said["clock"] - time.time()) > CLOCKS:
                troubles.append(f"the clock of {party} differs by {said['clock'] - time.time():+.0f} seconds")
        return troubles + _unable(charter, found)

    # ------------------------------------------------------------------------ a run

    def hosted_nodes(
        self, run: str, setups: Mapping[NodeId, NodeSetup], books: NodeLogs, listener: Listener, call: Any
    ) -> HostedNodes:
        if self._board is None or not isinstance(call, Call):
            raise InvalidInput("co.Grpc is for federations whose parties run elsewhere: Federation.open(file).")
        assert self._charter is not None
        check_call(call.to_json(), Sizes.of(self._charter, self.rows))  # as every party will
        return GrpcNodes(self, run, setups, books, listener, call)

    def process(self, party: NodeId) -> str | None:
        """Which process of a party is on the line."""
        assert self._board is not None
        return self._board.session(party)

    def listens(self, party: NodeId, process: str | None) -> bool:
        """Whether a party is connected now, and by that process."""
        assert self._board is not None
        return party in self._board.connected() and self.process(party) == process

    # ------------------------------------------------------------------------ asking

    def ask(
        self,
        party: NodeId,
        what: str,
        head: Mapping[str, Any] | None = None,
        blobs: Sequence[bytes] = (),
        patience: float | None = None,
    ) -> Promise:
        """A question to a party; its answer, or the error that its code stands for."""
        assert self._board is not None
        seconds = self.patience if patience is None else patience
        raw = self._board.ask(party, pack({"what": what, **(head or {})}, blobs), timeout=seconds)

        def opened(answer: Promise) -> Parcel:
            try:
                said = answer.result()
            except PartyRestarted as error:
                raise Lost(party) from error
            except PeerTimeout as error:
                raise silence(party, what, seconds) from error
            except PeerFailed as error:  # its process could not answer, and has ended
                raise PeerBroken(str(error)) from error
            return _opened(party, what, said)

        return Computed(raw, opened)

    def _all(
        self, names: Sequence[str] | Mapping[str, Any], what: str, head: Mapping[str, Any] | None = None
    ) -> dict[str, Parcel]:
        return self._each(what, {name: (head or {}, ()) for name in names})

    def _each(self, what: str, asked: Mapping[str, tuple[Mapping[str, Any], Sequence[bytes]]]) -> dict[str, Parcel]:
        """All answers; asked again, a party that died meanwhile answers the same."""
        for _ in range(LOSSES):
            with contextlib.suppress(Lost):
                return gather_answers(
                    {name: self.ask(name, what, head, blobs) for name, (head, blobs) in asked.items()}
                )
        raise PeerBroken(f"a party began anew {LOSSES:,} times when it was asked {what!r}; its own log says why.")


class GrpcNodes:
    """The coordinator here, if the method has one, and every party at its own office."""

    def __init__(
        self, hub: Grpc, run: str, setups: Mapping[NodeId, NodeSetup], books: NodeLogs, listener: Listener, call: Call
    ) -> None:
        self.hub, self.run, self.listener, self.call = hub, run, listener, call
        self.names = list(setups)
        self.parties = [name for name in setups if name != COORDINATOR]
        here = COORDINATOR in setups
        self.local = HostedNode(setups[COORDINATOR], run, books.log(COORDINATOR)) if here else None
        self.code = ""  # of the method, as this hub has it
        self.said: dict[NodeId, Parcel] = {}  # what each party answered when the run was proposed
        self.process: dict[NodeId, str | None] = {}  # which process of a party that was
        # Whether any party was asked to reserve; in an earlier life of this hub, all were before the coordinator did.
        self.reserving = self.local is not None and bool(self.local.log.rows(run, "open"))
        self.diary = RunLog(run, alone=not here)
        self.patience: float | None = None  # with an answer; None: as the hub has
        self.losses: Counter[NodeId] = Counter()
        self.carried: Counter[bool] = Counter()  # letters between parties, by whether they had a line of their own
        self.places: Counter[tuple[NodeId, NodeId]] = Counter()  # by edge, where the next letter stands at least

    def ask(self, what: str, to: Mapping[NodeId, tuple[Any, ...]]) -> dict[NodeId, Any]:
        """What fit.py asks of all hosts; the parties find terms, plans and keys in their own books."""
        if what == "reserve":
            terms = next(iter(to.values()))[0]
            self.code = terms.fingerprint
            self.diary.proposed(terms.method, len(self.parties))
            self.introduce(self.parties)
        if what == "close":
            self.diary.over(*next(iter(to.values())))
        if what == "close" and ("finished",) not in to.values():  # whoever made the run fail may not answer at all
            self.patience = min(self.hub.patience, FAREWELL)
        unknown = what == "remember" and not self.reserving  # parties keep nothing of a run that they never began
        if what == "reserve" or unknown:
            to = {name: arguments for name, arguments in to.items() if name == COORDINATOR}
        while True:
            try:
                return gather_answers({name: self.promise(name, what, *arguments) for name, arguments in to.items()})
            except Lost:  # asked again, a party's books answer the same
                continue

    def drive(self) -> Outcome:
        self.diary.reserved()
        found = Turns(self.names, self.promise, self.listener).run()
        self.diary.traffic = found.traffic
        if self.carried:
            told = {"direct": self.carried[True], "relayed": self.carried[False]}
            log.info("letters between parties", extra={"run": self.run, **told})
        return found

    def count(self, lost: Lost) -> None:
        """A party begins anew: as often as machines fail, and not for ever."""
        name = str(lost)
        self.process.pop(name, None)  # whatever it was told, it has forgotten
        self.losses[name] += 1
        if self.losses[name] > LOSSES:
            raise PeerBroken(f"{name!r} began anew {LOSSES:,} times in this run; its own log says why.") from lost

    def introduce(self, names: Sequence[NodeId]) -> None:
        """Propose the run; when all would take part, let them reserve; and tell each of them what all others said."""
        proposal = {"run": self.run, "call": self.call.to_json(), "code": self.code, "session": self.hub.session}
        while True:
            self.process |= {name: self.hub.process(name) for name in names}
            try:
                _willing({name: self.propose(name, "consider", proposal) for name in names})
                for name in names:
                    if not self.hub.listens(name, self.process[name]):
                        raise Lost(name)  # whoever begins anew has forgotten its operator's yes, and may now hear a no
                self.reserving = True
                answers = gather_answers({name: self.propose(name, "reserve", proposal) for name in names})
                self.said |= {name: _promised(name, answer) for name, answer in answers.items()}
                told = {}
                for name in names:
                    others = [peer for peer in self.parties if peer != name]
                    told[name] = ({"run": self.run, "peers": others}, _introductions([self.said[p] for p in others]))
                gather_answers({name: self.hub.ask(name, "meet", *parts) for name, parts in told.items()})
                return
            except Lost as lost:
                self.count(lost)

    def propose(self, name: NodeId, what: str, proposal: Mapping[str, Any]) -> Promise:
        """Ask one party; what helps where it refuses scores is other than where it refuses a fit."""
        asked = self.hub.ask(name, what, proposal)

        def heard(answer: Promise) -> Any:
            try:
                return answer.result()
            except PeerRefused as error:
                raise refusal(name, what, int(FailureCode.REFUSED) + 1, scores=True) from error

        return Computed(asked, heard) if isinstance(self.call.method, MaskedScores) else asked

    def close(self) -> None:
        """The line stays open for the next run."""
        self.diary.left()

    def promise(self, name: NodeId, what: str, *arguments: Any) -> Promise:
        if name == COORDINATOR:
            return Answered(lambda: getattr(self.local, what)(*arguments))
        another = self.process.get(name) != self.hub.process(name)
        if what == "join" and another:
            self.introduce([name])  # it must hear of the run again
        if what == "turn" and another:  # with its process died the letters that it held and had not read
            asked: Promise = Answered(lambda: _lost(name))
        else:
            question, head, blobs = self.question(what, arguments)
            asked = self.hub.ask(name, question, {"run": self.run, **head}, blobs, self.patience)

        def heard(found: Promise) -> Any:
            try:
                return self.heard(name, what, found.result())
            except Lost as lost:
                self.count(lost)
                raise

        return Computed(asked, heard)

    def question(self, what: str, arguments: tuple[Any, ...]) -> tuple[str, dict[str, Any], Sequence[bytes]]:
        match what, arguments:
            case "vouch", (heads,):
                return what, {"heads": _plain_heads(heads)}, ()
            case "remember", (when, heads):
                return what, {"when": when, "heads": _plain_heads(heads)}, ()
            case "close", (how,):
                return "over", {"how": told_to_others(how)}, ()
            case "settle", (over,):
                last = list(over.items())[-RUNS:]  # of older ones nobody is still waiting to hear
                return what, {"over": {run: told_to_others(how) for run, how in last}}, ()
            case "resend", (since,):
                return what, {"since": dict(since)}, ()
            case "turn", (letters,):
                self.diary.carried(letters)
                addresses, frames = letters_out(letters, self.run)
                return what, {"letters": addresses}, frames
            case _:
                return what, {}, ()

    def heard(self, name: NodeId, what: str, found: Parcel) -> Any:
        """A party's answer as the value that its host would have returned."""
        head = found.head
        try:
            match what:
                case "standing":
                    heads = {peer: (_count(count), bytes.fromhex(at)) for peer, (count, at) in head["heads"].items()}
                    return Standing(heads.pop(""), heads, b"", _replaced(head["replaced"], self.parties))
                case "join":
                    for peer in self.names:
                        self.places.pop((name, peer), None)
                    heard = {(peer, name): count for peer, count in _counts(head["heard"]).items()}
                    return Joined(_counts(head["received"]), _counts(head["sent"]), heard)
                case "resend":
                    return tuple(self.letters(name, found))
                case "turn":
                    return self.turned(name, found)
                case "outcome":
                    return _status(head["status"]), _traffic(name, head["traffic"])
                case _:
                    return None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WireError(f"the answer of {name!r} to {what} is not one: {type(error).__name__}") from error

    def turned(self, name: NodeId, found: Parcel) -> Turn:
        head, sent = found.head, tuple(self.letters(name, found))
        finished, more = head["finished"], head["more"]
        if type(finished) is not bool or type(more) is not bool or (more and not sent):
            raise ValueError("whoever has more to send sends something")
        wait = tuple(peer for peer in head["wait"] if peer in self.names)
        failed = refusal(name, "turn", head["failure"]) if head["failure"] else None
        return Turn(sent, finished, wait, _notes(head["notes"]), _count(head["told"]), failed, more)

    def letters(self, name: NodeId, found: Parcel) -> list[Letter]:
        """What a party sends: in its own name, to somebody here, and nothing twice."""
        letters = letters_in(found.head["letters"], found.blobs, self.run)
        for letter in letters:
            edge = (name, letter.receiver)
            if letter.sender != name or letter.receiver not in self.names:
                raise ProtocolError(f"{name!r} sent a letter as {letter.sender!r} for {letter.receiver!r}; refused")
            if letter.frame.sequence < self.places[edge]:
                raise ProtocolError(f"{name!r} sends the same letter to {letter.receiver!r} over and over; refused")
            self.places[edge] = letter.frame.sequence + 1
            if letter.receiver != COORDINATOR:
                direct = letter.frame.body.startswith(_NOTE)
                self.carried[direct] += 1
                self.hub.metrics.letter(direct=direct)
        if self.local is not None:  # before anything of them is read here, or carried on
            self.local.receipts.note(((name, letter.receiver), letter.frame) for letter in letters)
        return letters


def _streams() -> ModuleType:
    try:
        from colonnade.network.transport import hub as streams_hub
    except ImportError as error:
        raise InvalidInput("co.Grpc needs grpcio. Try: pip install 'colonnade[grpc]'") from error
    return streams_hub


def tls_in(folder: str | Path, name: str) -> Tls:
    """The files of one node, as `colonnade certs issue` names them."""
    at = Path(folder)
    revoked = at / "revoked.pem"
    return Tls(at / f"{name}.pem", at / f"{name}.key", at / "authority.pem", revoked if revoked.is_file() else None)


def _away(federation: Federation) -> FederationFile:
    if federation.away is None:
        raise InvalidInput("co.Grpc is for federations whose parties run elsewhere: Federation.open(file).")
    return federation.away


def _lost(party: str) -> NoReturn:
    raise Lost(party)


def _willing(answers: Mapping[NodeId, Promise]) -> None:
    """All would take part; or the error of one that would not, before the loss of another: an operator says no once."""
    wait_for_all(answers.values())
    lost: list[Lost] = []
    refused: dict[NodeId, PeerFailed] = {}
    for name, answer in answers.items():
        try:
            answer.result()
        except Lost as error:
            lost.append(error)
        except PeerFailed as error:
            refused[name] = error
    if refused:
        first, *others = refused
        more = f" Nor do these take part: {', '.join(map(repr, others))}." if others else ""
        raise type(refused[first])(f"{refused[first]}{more}") from refused[first]
    if lost:
        raise lost[0]


def _opened(party: str, what: str, raw: bytes) -> Parcel:
    found = unpack(raw)
    code = found.head.get("code")
    if code == OK:
        return found
    if code == UNKNOWN:
        raise Lost(party)
    if code == UNAVAILABLE:
        raise StoreError(f"{party!r} cannot write to its store; its own log says why. Repeat the call when it can.")
    if code == DIVERGED:
        raise ReplayDiverged(
            f"{party!r} cannot go on with this run: it is over there, or its records, data or code changed. It sends nothing more of it, and "
            "its log says why. Put back what was changed and repeat the call, or end the run with `colonnade runs abort` and begin another."
        )
    raise refusal(party, what, code)


def _greeting(party: str, answer: Parcel) -> Mapping[str, Any]:
    """What a party says of itself, if it is of the right kind."""
    head = answer.head
    always = {"protocol": int, "version": str, "file": str, "clock": float}
    agreed = {"session": str, "rows": int} if "session" in head or "rows" in head else {}
    perhaps = {name: kind for name, kind in {"begun": str, "psi": bool}.items() if name in head}
    if not all(type(head.get(name)) is kind for name, kind in {**always, **agreed, **perhaps}.items()):
        raise WireError(f"{party!r} greets in a way that this hub does not know")
    return head


def _unable(charter: FederationFile, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Who cannot align the way the federation file says."""
    if charter.align != "psi":
        return []
    return [
        f"{party} cannot align by private set intersection: it has no openmined-psi (pip install 'colonnade[psi]')"
        for party, said in found.items()
        if said.get("psi") is not True
    ]


def _peers(party: str, answer: Parcel) -> list[str]:
    up = answer.head.get("up")
    if not isinstance(up, list) or not all(isinstance(peer, str) for peer in up):
        raise WireError(f"{party!r} does not say whom it reaches")
    return up


def _promised(party: str, answer: Parcel) -> Parcel:
    """A party's keys and its word on the rows, as many as it says."""
    if len(answer.blobs) != 2 * bool(answer.head.get("covers")) + bool(answer.head.get("confirms")):
        raise WireError(f"{party!r} promises to take part in a way that this hub does not know")
    return answer


def _introductions(said: Sequence[Parcel]) -> list[bytes]:
    """All keys first, then all confirmations: as an office reads them."""
    keys = [part for one in said if one.head.get("covers") for part in one.blobs[:2]]
    return [*keys, *(one.blobs[-1] for one in said if one.head.get("confirms"))]


def _plain_heads(heads: Mapping[str, tuple[int, bytes]]) -> dict[str, list[Any]]:
    return {peer: [count, head.hex()] for peer, (count, head) in heads.items()}


def _replaced(raw: Any, names: Iterable[str]) -> tuple[Replaced, ...]:
    """Ledgers of this federation that a party says were replaced: they stand in statements, so not many, and in plain words."""
    found, known = [Replaced(*one) for one in raw], {COORDINATOR, *names}
    if len(found) > _MOST_REPLACED or not all(one.node in known and is_replaced(one) for one in found):
        raise ValueError("a node, a time and a mark for each ledger that was replaced")
    return tuple(found)


def _counts(raw: Mapping[str, Any]) -> dict[str, int]:
    return {str(peer): _count(count) for peer, count in raw.items()}


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError("a count is a whole number")
    return value


def _notes(raw: Any) -> tuple[Mapping[str, Any], ...]:
    """Rows for the history: names, and numbers or short words."""
    for note in raw:
        for name, value in note.items():
            if not isinstance(value, int | float | str | None) or len(f"{name}{value}") > 200:
                raise ValueError("a note is numbers and short words")
    return tuple(raw)


def _status(name: str | None) -> Answer | None:
    """What a party says of a result that it keeps: why it ended."""
    return None if name is None else Answer({}, 0.0, None, None, Status[name])


def _traffic(party: str, lines: Sequence[Sequence[Any]]) -> Traffic:
    traffic = Traffic()
    for sender, receiver, kind, number, messages, size, numbers in lines:
        if sender != party:
            raise ValueError("a party counts what it sent, and nothing else")
        line = TrafficRow(sender, str(receiver)[:200], str(kind)[:200], _count(number))
        counts = (_count(messages), _count(size), _count(numbers))
        traffic.lines[line] = list(counts)
    return traffic
