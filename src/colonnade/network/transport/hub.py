"""The hub's end of the streams: one gRPC server, one stream a party, requests that survive a broken connection.

A stream begins with proof of who it is (TLS 1.3, a certificate of the authority that is neither expired nor revoked and
carries the name, or the pinned key) and a greeting. Then one thread a stream writes a request and reads its answer, in
turns. A request is sent again on every new stream of the same process until it is answered; a party that comes back as
another process ends what is outstanding. A slow party holds at most `WINDOW` requests and twice the limit in bytes.
"""

from __future__ import annotations

import contextlib
import logging
import math
import secrets
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue

import grpc  # type: ignore[import-untyped]  # grpcio carries no types
from cryptography import x509

from colonnade.errors import ColonnadeError, InvalidInput, PeerFailed, ProtocolError
from colonnade.network.bounds import RateLimit
from colonnade.network.certs import Credentials, RevocationList, Tls, load
from colonnade.network.transport import envelope as wire
from colonnade.network.transport.doorkeeper import Doorkeeper
from colonnade.network.transport.envelope import GREETING_SECONDS, LONGEST_PAUSE, Malformed, Reason
from colonnade.network.transport.metrics import Metrics
from colonnade.network.transport.tls import address_taken, check_peer, split_address

WINDOW = 16
UNGREETED = 4
# that one certificate may open; a party that loses its line pauses longer
STREAMS_AT_ONCE = 60
STREAMS_A_SECOND = 1.0
_OPTIONS = [  # limits keep a stranger from holding the port
    *wire.GRPC_OPTIONS,
    ("grpc.max_concurrent_streams", 2),
    ("grpc.max_metadata_size", 8 << 10),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),  # parties ping every 20 s; gRPC's own floor is 300 s
    ("grpc.so_reuseport", 0),  # a second hub at the same address is a mistake to be told about
]

log = logging.getLogger("colonnade.network.transport")


@dataclass(eq=False, slots=True)
class _Call:
    """One request and who waits for its answer."""

    request: bytes
    future: Future[bytes] = field(default_factory=Future)
    alarm_off: Callable[[], None] | None = None

    def settle(self, outcome: bytes | ColonnadeError) -> None:
        if self.alarm_off is not None:
            self.alarm_off()
        with contextlib.suppress(InvalidStateError):  # its time was up before
            if isinstance(outcome, bytes):
                self.future.set_result(outcome)
            else:
                self.future.set_exception(outcome)


@dataclass(eq=False, slots=True)
class _Stream:
    """One connection of a party, from its greeting to its end."""

    context: grpc.ServicerContext
    claimed: str = "unknown"  # for the log: a member's name, never a text that a stranger sent
    serial: int = 0  # of its certificate
    over: bool = False
    bell: SimpleQueue[None] = field(default_factory=SimpleQueue)  # rung when its thread has something to look at

    def end(self) -> None:
        self.over = True
        self.bell.put(None)

    def hang_up(self) -> None:
        if not self.over:
            self.context.cancel()


class _Gone(Exception):
    """The party has closed its end of a stream."""


class _PartyLine:
    """What the hub knows of one party, over all its streams."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock)
        self.session: bytes | None = None
        self.former: deque[bytes] = deque(maxlen=4096)
        self.attempt = 0
        self.stream: _Stream | None = None
        self.waiting: deque[_Call] = deque()
        self.current: _Call | None = None  # the one that has gone out
        self.number = 0  # its number, or that of the one before
        self.closed = False

    def outstanding(self) -> list[_Call]:
        return [*self.waiting] if self.current is None else [self.current, *self.waiting]

    def has_room(self, size: int, limit: int) -> bool:
        held = self.outstanding()
        return not held or (len(held) < WINDOW and sum(len(call.request) for call in held) + size <= 2 * limit)

    def next_call(self) -> tuple[_Call | None, int]:
        """What is to be sent, and its number: again what was not answered, or else the next in turn."""
        if self.current is None and self.waiting:
            self.current = self.waiting.popleft()
            self.number += 1
        return self.current, self.number

    def empty(self) -> list[_Call]:
        calls = self.outstanding()
        self.waiting.clear()
        self.current = None
        self.number = 0
        self.room.notify_all()
        return calls


def ready(address: str, tls: Tls) -> tuple[Credentials, RevocationList | None]:
    """What listening needs: files that fit each other, and an address that is free. Nothing is opened."""
    credentials = load(tls)
    revoked = tls.revocations()
    host, port = split_address(address)
    try:
        for family, kind, number, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[:1]:
            with socket.socket(family, kind, number) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does
                tried.bind(place)
    except OSError as error:
        raise address_taken(address) from error
    return credentials, revoked


class Switchboard:
    """The hub: who is connected, and a question to any of them."""

    def __init__(
        self,
        address: str,
        tls: Tls,
        members: Mapping[str, bytes | None],
        *,
        limit: int = wire.LIMIT,
        metrics: Metrics | None = None,
    ) -> None:
        if short := [name for name, pin in members.items() if pin is not None and len(pin) != 32]:
            raise InvalidInput(f"the fingerprint of {short[0]!r} must be the 32 bytes of a SHA-256.")
        credentials, self._revoked = ready(address, tls)
        self.metrics = metrics or Metrics()
        self._limit = limit
        self._members = dict(members)
        self._lines = {name: _PartyLine(name) for name in members}
        self._session = secrets.token_bytes(16)
        self._arrivals = threading.Condition()
        self._ungreeted: Counter[int] = Counter()
        self._pace = RateLimit(STREAMS_A_SECOND, STREAMS_AT_ONCE)
        self._clock = Clock()
        self._door: Doorkeeper | None = None
        # One thread a stream; more, so that a party can come back before its old stream has died.
        size = (2 + UNGREETED) * len(members) + 4
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="streams")
        handlers = [_Door(self._talk)]
        self._server = grpc.server(self._pool, handlers=handlers, options=_OPTIONS, maximum_concurrent_rpcs=size)
        secured = grpc.ssl_server_credentials(
            [(credentials.key, credentials.chain)], credentials.authority, require_client_auth=True
        )
        try:
            self.port: int = self._server.add_secure_port(address, secured)
        except RuntimeError as error:
            self._server.stop(None)
            self._clock.stop()
            raise address_taken(address) from error

    def start(self) -> None:
        """Accept parties from now on."""
        self._server.start()
        self._door = Doorkeeper(self.port, self._greeted, lambda: self.metrics.refuse(Reason.BUSY.word))
        log.info("listening", extra={"port": self.port, "parties": len(self._members)})

    def stop(self) -> None:
        """Close every stream; what is outstanding fails."""
        for line in self._lines.values():
            with line.lock:
                line.closed = True
                calls = line.empty()
                if line.stream is not None:
                    line.stream.bell.put(None)
            for call in calls:
                call.settle(ProtocolError(f"the hub was stopped while {line.name!r} had not answered."))
        if self._door is not None:
            self._door.stop()
        self._server.stop(None).wait()
        self._pool.shutdown()
        self._clock.stop()
        log.info("not listening any more", extra={"port": self.port})

    def connected(self) -> set[str]:
        """The parties that have a stream now."""
        return {name for name, line in self._lines.items() if line.stream is not None}

    def _greeted(self) -> set[str]:
        return {stream.context.peer() for line in self._lines.values() if (stream := line.stream) is not None}

    def wait_for(self, names: Collection[str], timeout: float) -> None:
        """Return when all of them are connected."""
        for name in names:
            self._line(name)
        if absent := sorted(set(names) - self.connected()):
            log.info("waiting", extra={"for": ",".join(absent), "seconds": timeout})
        with self._arrivals:
            if not self._arrivals.wait_for(lambda: self.connected() >= set(names), timeout):
                here = self.connected()
                missing = ", ".join(repr(name) for name in sorted(set(names) - here))
                there = ", ".join(repr(name) for name in sorted(here & set(names))) or "nobody"
                raise wire.PeerTimeout(
                    f"after {timeout:g} s these parties have not connected: {missing}; connected is {there}. Start "
                    "them with this hub's address; their logs say why they were refused (one with a certificate of "
                    "another authority is turned away before it has said who it is, and only its own log shows that). "
                    f"One that runs dials again within {LONGEST_PAUSE:g} s: wait longer than that."
                )

    def session(self, party: str) -> str | None:
        """The id of the party's process; another one after it was restarted, None before it came or after it failed."""
        session = self._line(party).session
        return None if session is None else session.hex()

    def ask(self, party: str, request: bytes, *, timeout: float | None = None) -> Future[bytes]:
        """Send a request; the future gives the answer.

        Requests to one party go out one after another, each when the one before was answered. One whose time is up
        after it went out still holds its place, since the party may be at work on it.

        Blocks while the party has `WINDOW` requests unanswered, so do not call it from a future's callback.
        """
        line = self._line(party)
        if len(request) > self._limit:
            raise InvalidInput(f"a request of {len(request):,} bytes is over the limit of {self._limit:,} bytes.")
        until = None if timeout is None else time.monotonic() + timeout
        call = _Call(request)
        call.future.set_running_or_notify_cancel()  # what was sent cannot be taken back
        with line.lock:
            line.room.wait_for(lambda: line.closed or line.has_room(len(request), self._limit), timeout)
            if line.closed:
                raise ProtocolError("this hub was stopped; make another one to ask.")
            if line.has_room(len(request), self._limit):
                line.waiting.append(call)
                if line.stream is not None:
                    line.stream.bell.put(None)
                if until is not None:
                    call.alarm_off = self._clock.at(until, lambda: self._expire(line, call, timeout))
                return call.future
        self._expire(line, call, timeout)
        return call.future

    def _expire(self, line: _PartyLine, call: _Call, timeout: float | None) -> None:
        if call.future.done():
            return
        with line.lock:
            # It was never sent, so it need not be; one that was sent keeps its place.
            if call in line.waiting:
                line.waiting.remove(call)
                line.room.notify_all()
            here = "connected" if line.stream is not None else "not connected"
        call.settle(wire.PeerTimeout(f"{line.name!r} has not answered within {timeout:g} s; it is {here} now."))

    def _line(self, party: str) -> _PartyLine:
        try:
            return self._lines[party]
        except KeyError:
            known = ", ".join(map(repr, self._lines))
            raise InvalidInput(f"{party!r} is no member of this hub; there are {known}.") from None

    # -------------------------------------------------------------------------------------------- a stream's life

    def _talk(self, arriving: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        stream = _Stream(context)
        line: _PartyLine | None = None
        try:
            line = self._admit(stream, arriving)
            if context.add_callback(lambda: self._leave(line, stream)):
                yield wire.Welcome(wire.HIGHEST, self._session, self._limit).envelope()
                yield from self._take_turns(line, stream, arriving)
        except Malformed as refused:
            yield self._refusal(stream.claimed, refused.reason)
        except ValueError:
            # A certificate that the authority signed and that cannot be read.
            yield self._refusal(stream.claimed, Reason.NAME)
        except (grpc.RpcError, _Gone):
            # The connection broke; the party will dial again.
            pass
        finally:
            if line is not None:
                self._leave(line, stream)

    def _take_turns(self, line: _PartyLine, stream: _Stream, arriving: Iterator[bytes]) -> Iterator[bytes]:
        """Request, answer, request, answer. gRPC takes the next envelope when the one before has gone out: a slow party
        slows this loop and nothing else."""
        while not (stream.over or line.closed):
            with line.lock:
                call, number = line.next_call()
            if call is None:
                stream.bell.get()
                continue
            self._check_still_welcome(line, stream)
            yield from wire.envelopes(wire.EnvelopeKind.REQUEST, number, call.request)
            self.metrics.sent(len(call.request))
            message = self._answer(arriving, number)
            self._check_still_welcome(line, stream)
            if message is None:
                self._fail(line, stream)
                return
            with line.lock:
                if stream.over or line.current is not call:
                    return
                line.current = None
                line.room.notify_all()
            self.metrics.received(len(message))
            call.settle(message)

    def _answer(self, arriving: Iterator[bytes], number: int) -> bytes | None:
        """The answer to a request; None if the party could not answer."""
        assembler = wire.Assembler()
        for envelope in arriving:
            head, body = wire.parse(envelope, self._limit)
            if head.kind not in (wire.EnvelopeKind.ANSWER, wire.EnvelopeKind.FAILED):
                raise Malformed(Reason.KIND)
            if head.number != number:
                raise Malformed(Reason.NUMBER)
            if head.kind == wire.EnvelopeKind.FAILED:
                return None
            if (message := assembler.feed(head, body)) is not None:
                return message
        raise _Gone

    def _admit(self, stream: _Stream, arriving: Iterator[bytes]) -> _PartyLine:
        """Whose stream it is, after everything that a stream must prove."""
        proof: Mapping[str, list[bytes]] = stream.context.auth_context()
        if proof.get("ssl_tls_version") != [b"TLSv1.3"] or "x509_pem_cert" not in proof:
            raise Malformed(Reason.TLS)
        certificate = x509.load_pem_x509_certificate(proof["x509_pem_cert"][0])
        stream.serial = certificate.serial_number
        if self._revoked is not None and self._revoked.holds(stream.serial):
            raise Malformed(Reason.REVOKED)
        if self._pace.allow(str(stream.serial)):
            raise Malformed(Reason.BUSY)
        with self._one_of_few(stream.serial):
            alarm_off = self._clock.at(time.monotonic() + GREETING_SECONDS, stream.hang_up)
            first = next(arriving, None)
            alarm_off()
        if first is None:
            raise _Gone
        hello = wire.PartyHello.read(first)
        if hello.name not in self._members:
            raise Malformed(Reason.NAME)
        stream.claimed = hello.name
        check_peer(certificate, hello.name, self._members[hello.name], self._revoked)
        hello.check_version()
        self._take_over(self._lines[hello.name], hello, stream)
        return self._lines[hello.name]

    @contextlib.contextmanager
    def _one_of_few(self, serial: int) -> Iterator[None]:
        """Streams that have not greeted hold a thread each: one certificate must not hold them all."""
        with self._arrivals:
            if self._ungreeted[serial] >= UNGREETED:
                raise Malformed(Reason.BUSY)
            self._ungreeted[serial] += 1
        try:
            yield
        finally:
            with self._arrivals:
                self._ungreeted[serial] -= 1
                self._ungreeted += Counter()  # forgets those that are at zero

    def _take_over(self, line: _PartyLine, hello: wire.PartyHello, stream: _Stream) -> None:
        """The newest stream of the newest process is the party's; anything older is refused."""
        lost: list[_Call] = []
        with line.lock:
            if line.closed:
                raise Malformed(Reason.BUSY)
            if hello.session in line.former:
                raise Malformed(Reason.REPLACED)
            if hello.session == line.session:
                if hello.attempt <= line.attempt:
                    raise Malformed(Reason.REPLAYED)
                self.metrics.reconnected()
            elif line.session is not None:
                line.former.append(line.session)
                lost = line.empty()
            before = line.stream
            line.stream = stream
            line.session = hello.session
            line.attempt = hello.attempt
            if before is not None:
                before.end()
        if before is not None:
            before.context.cancel()
        for call in lost:
            call.settle(wire.PartyRestarted(f"{line.name!r} is another process now; what it was asked may be lost."))
        log.info("connected", extra={"party": line.name, "attempt": hello.attempt, "lost": len(lost)})
        with self._arrivals:
            self._arrivals.notify_all()

    def _leave(self, line: _PartyLine, stream: _Stream) -> None:
        with line.lock:
            stream.end()
            if line.stream is stream:
                line.stream = None
                log.info("disconnected", extra={"party": line.name, "unanswered": len(line.outstanding())})

    def _fail(self, line: _PartyLine, stream: _Stream) -> None:
        """That process of the party is gone; whatever is asked from now on waits for its next one."""
        with line.lock:
            if line.stream is not stream or line.session is None:
                return
            stream.end()
            line.stream = None
            line.former.append(line.session)
            line.session = None
            calls = line.empty()
        log.warning("failed", extra={"party": line.name, "unanswered": len(calls)})
        for call in calls:
            call.settle(PeerFailed(f"{line.name!r} could not answer and has stopped; its own log says why."))

    def _refusal(self, party: str, reason: Reason) -> bytes:
        self.metrics.refuse(reason.word)
        log.warning("refused", extra={"party": party, "reason": reason.word})
        return wire.Refusal(reason).envelope()

    def _check_still_welcome(self, line: _PartyLine, stream: _Stream) -> None:
        """Nothing goes out and nothing is taken while nobody knows who is revoked."""
        while self._revoked is not None and (listed := self._revoked.holds(stream.serial)) is not False:
            if listed:
                raise Malformed(Reason.REVOKED)
            if stream.over or line.closed:
                raise _Gone
            time.sleep(RevocationList.LOOK_AGAIN)


class _Door(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio carries no types
    """The one method that there is; bytes go in and out as they are."""

    def __init__(self, talk: Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]) -> None:
        self._handler = grpc.stream_stream_rpc_method_handler(talk)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._handler if details.method == wire.METHOD else None


class Clock:
    """One thread that does things at their time: few at once, so it looks through all of them."""

    def __init__(self) -> None:
        self._alarms: set[tuple[float, Callable[[], None]]] = set()
        self._wakes = math.inf
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="streams-clock", daemon=True)
        self._thread.start()

    def at(self, when: float, action: Callable[[], None]) -> Callable[[], None]:
        """Do something at a time, unless what this returns is called before."""
        alarm = (when, action)
        with self._changed:
            self._alarms.add(alarm)
            if when < self._wakes:
                self._changed.notify()
        return lambda: self._forget(alarm)

    def _forget(self, alarm: tuple[float, Callable[[], None]]) -> None:
        """An alarm holds a request and its answer: a long deadline must not keep them in memory."""
        with self._changed:
            self._alarms.discard(alarm)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                due = {(when, action) for when, action in self._alarms if when <= time.monotonic()}
                self._alarms -= due
                if not due:
                    self._wakes = min((when for when, _ in self._alarms), default=math.inf)
                    self._changed.wait(None if self._wakes == math.inf else self._wakes - time.monotonic())
            for _, action in due:
                action()
