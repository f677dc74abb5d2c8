"""Direct lines between parties: one TLS 1.3 connection a pair, on which either end sends when it has something.

One end listens, the other dials; which is which, and who may come, was agreed on before. Both show a certificate of the
authority that is neither expired nor revoked and carries the name, or has the pinned key. The bytes are those of
envelope.py, each envelope behind its length (4 bytes, little-endian):

    dialler    HELLO                                            listener   WELCOME, or REFUSED and the end
    either     REQUEST n: a message, n counts from 1            either     ANSWER n, empty: all up to n are here

What was not confirmed is sent again on the next connection: whoever takes a message twice tells by what is inside.
Nothing here is needed for a run to go on: `send` says no when a line has been down for `patience` seconds.

The port is open to the network: a stranger gets a TLS handshake, ten seconds, and one of a few places to wait in.
Whatever comes again and again is a line of the log a minute at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice

from cryptography import x509

from colonnade.errors import InvalidInput, WireError
from colonnade.network.certs import Tls, load
from colonnade.network.transport import envelope as wire
from colonnade.network.transport.envelope import FIRST_PAUSE, GREETING_SECONDS, LONGEST_PAUSE, Malformed, Reason
from colonnade.network.transport.metrics import Metrics
from colonnade.network.transport.tls import (
    check_peer,
    door,
    keep_alive,
    read_envelope,
    split_address,
    tls_context,
    write_envelopes,
)

PATIENCE = 10.0  # seconds that a line may be down before messages take another road
HELD = 2 * wire.LIMIT  # bytes that wait to be confirmed by one neighbour
QUIET = 60.0  # seconds between two lines of the log about the same thing: whoever may dial may dial often
STRANGERS = 8  # connections that have not proved who they are, and one more for each neighbour
_GONE = (OSError, TimeoutError, asyncio.IncompleteReadError)

log = logging.getLogger("colonnade.network.transport")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another party: where this one dials it (None: it dials), and its pinned key, if there is one."""

    address: str | None
    pin: bytes | None = None


@dataclass(eq=False, slots=True)
class Talk:
    """One connection, and how far both ends have come on it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    serial: int  # of the neighbour's certificate
    sent: int = 0
    confirmed: int = 0
    received: int = 0
    told: int = 0  # of those received, how many this end has confirmed


@dataclass(eq=False, slots=True)
class DirectLine:
    """What this end knows of one neighbour, over all its connections."""

    name: str
    neighbour: Neighbour
    talk: Talk | None = None  # on the connection that counts; None: the line is down
    since: float = field(default_factory=time.monotonic)  # when it went up or down last
    heard: float = 0.0  # when the last envelope came
    unconfirmed: deque[bytes] = field(default_factory=deque)
    held: int = 0
    greeted: tuple[bytes, int] = (b"", 0)  # session and attempt of the last greeting
    bell: asyncio.Event = field(default_factory=asyncio.Event)  # rung when there is something to say
    changes: int = 0  # how often it went up or down
    logged: tuple[float, int] = (0.0, 0)  # when that was told last, and how many there were then
    due: bool = False  # whether it is about to be told


class LineLost(Exception):  # not an error of ours: the reason to dial again
    """The connection is gone, or never was."""


class Lines:
    """All direct lines of one party. `take` gets each message and its sender; what it refuses ends the connection."""

    def __init__(
        self,
        name: str,
        tls: Tls,
        neighbours: Mapping[str, Neighbour],
        take: Callable[[str, bytes], None],
        *,
        listen: str | None = None,
        metrics: Metrics | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.name = name
        self.patience = patience
        self.metrics = metrics or Metrics()
        self._tls = tls
        self._take = take
        self._revoked = tls.revocations()
        self._lines = {peer: DirectLine(peer, neighbour) for peer, neighbour in neighbours.items()}
        self._session = secrets.token_bytes(16)
        self._attempt = 0
        self._changed = threading.Condition()
        self._strangers = 0
        # When something was logged last, by whom it is about.
        self._told: dict[tuple[str, str], float] = {}
        self._guests: set[asyncio.Task[None]] = set()
        self._secured = None if listen is None else tls_context(tls, load(tls), ssl.PROTOCOL_TLS_SERVER)
        self._door = None if listen is None else door(listen)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), name="direct-lines", daemon=True)

    # -------------------------------------------------------------------------------------------- for the party

    @property
    def port(self) -> int | None:
        """Where this party listens."""
        return None if self._door is None else int(self._door.getsockname()[1])

    def start(self) -> None:
        """Listen and dial from now on."""
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._loop is not None)
        log.info("direct lines", extra={"port": self.port, "neighbours": len(self._lines)})

    def stop(self) -> None:
        """Close all lines; what was not confirmed is lost."""
        if self._loop is not None and self._over is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(GREETING_SECONDS)
        if self._door is not None:
            self._door.close()

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Everybody to whom there is a line, or should be."""
        return tuple(self._lines)

    def connected(self) -> set[str]:
        """The neighbours to whom there is a line now."""
        return {peer for peer, line in self._lines.items() if line.talk is not None}

    def wait_for(self, peers: Collection[str], timeout: float) -> None:
        """Return when there is a line to all of them, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self.connected() >= set(peers), timeout)

    def heard(self, peer: str) -> float:
        """When something of a neighbour arrived last, on the monotonic clock."""
        return self._lines[peer].heard if peer in self._lines else 0.0

    def send(self, peer: str, message: bytes) -> bool:
        """Give a message to a line; False if it must take another road: there is no line, or it is down or full."""
        line = self._lines.get(peer)
        if line is None or self._loop is None or len(message) > wire.LIMIT:
            return False
        with self._changed:
            left = line.since + self.patience - time.monotonic()
            self._changed.wait_for(lambda: line.talk is not None, max(0.0, left))
            if line.talk is None or line.held + len(message) > HELD:
                return False
            line.unconfirmed.append(message)
            line.held += len(message)
        self._loop.call_soon_threadsafe(line.bell.set)
        return True

    # -------------------------------------------------------------------------------------------- both ends

    async def _live(self) -> None:
        self._over = asyncio.Event()
        tasks = [asyncio.create_task(self._dial(line)) for line in self._lines.values() if line.neighbour.address]
        if self._door is not None:
            tasks.append(asyncio.create_task(self._receive(self._door)))
        with self._changed:
            self._loop = asyncio.get_running_loop()
            self._changed.notify_all()
        await self._over.wait()
        for task in (ending := [*tasks, *self._guests]):
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        # Aborted transports close their sockets in the next rounds of the loop.
        for _ in range(4):
            await asyncio.sleep(0)

    async def _converse(self, line: DirectLine, talk: Talk) -> None:
        """Both directions at once, until one of them ends."""
        self._up(line, talk)
        both = [asyncio.create_task(self._hear(line, talk)), asyncio.create_task(self._say(line, talk))]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
        finally:
            self._down(line, talk)
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _hear(self, line: DirectLine, talk: Talk) -> None:
        """Never waits for its own words to go out: two ends that did would wait for each other."""
        assembler = wire.Assembler()
        while True:
            head, body = wire.parse(await read_envelope(talk.reader))
            self._check_still_there(line, talk)
            line.heard = time.monotonic()
            if head.kind == wire.EnvelopeKind.ANSWER:
                self._confirm(line, talk, head)
            elif head.kind == wire.EnvelopeKind.REFUSED:
                said = wire.greeting(head, body)
                raise Malformed(said.reason if isinstance(said, wire.Refusal) else Reason.KIND)
            elif head.kind != wire.EnvelopeKind.REQUEST:
                raise Malformed(Reason.KIND)
            elif head.number != talk.received + 1:
                raise Malformed(Reason.NUMBER)
            elif (message := assembler.feed(head, body)) is not None:
                self.metrics.received(len(message))
                self._take(line.name, message)
                talk.received += 1
                line.bell.set()

    async def _say(self, line: DirectLine, talk: Talk) -> None:
        line.bell.set()
        while True:
            await line.bell.wait()
            line.bell.clear()
            self._check_still_there(line, talk)
            if talk.told < talk.received:
                talk.told = talk.received
                await write_envelopes(talk.writer, *wire.envelopes(wire.EnvelopeKind.ANSWER, talk.told, b""))
            with self._changed:
                waiting = list(islice(line.unconfirmed, talk.sent - talk.confirmed, None))
            # One at a time: confirmations go between them.
            for message in waiting[:1]:
                talk.sent += 1
                for envelope in wire.envelopes(wire.EnvelopeKind.REQUEST, talk.sent, message):
                    await write_envelopes(talk.writer, envelope)
                self.metrics.sent(len(message))
                line.bell.set()

    def _confirm(self, line: DirectLine, talk: Talk, head: wire.Head) -> None:
        if head.length or not talk.confirmed < head.number <= talk.sent:
            raise Malformed(Reason.NUMBER)
        with self._changed:
            for _ in range(head.number - talk.confirmed):
                line.held -= len(line.unconfirmed.popleft())
            talk.confirmed = head.number

    def _up(self, line: DirectLine, talk: Talk) -> None:
        """The newest connection of a neighbour is the one that counts."""
        with self._changed:
            again = bool(line.heard)
            before = line.talk
            line.talk = talk
            line.since = line.heard = time.monotonic()
            self._changed.notify_all()
        if again:
            self.metrics.reconnected()
        if before is not None:
            before.writer.transport.abort()
        self._note_change(line)

    def _down(self, line: DirectLine, talk: Talk) -> None:
        with self._changed:
            if line.talk is not talk:
                return
            line.talk = None
            line.since = time.monotonic()
        self._note_change(line)

    def _note_change(self, line: DirectLine) -> None:
        """The first up and the first down are told at once; then how often it changed, and how it stands."""
        line.changes += 1
        if line.changes <= 2:
            self._tell_changes(line)
        elif not line.due:
            line.due, wait = True, line.logged[0] + QUIET - time.monotonic()
            asyncio.get_running_loop().call_later(max(0.0, wait), self._tell_changes, line)

    def _tell_changes(self, line: DirectLine) -> None:
        since = line.changes - line.logged[1]
        line.due, line.logged = False, (time.monotonic(), line.changes)
        told = {"party": line.name, "changes": since, "unconfirmed": len(line.unconfirmed)}
        log.info("direct line down" if line.talk is None else "direct line up", extra=told)

    def _check_still_there(self, line: DirectLine, talk: Talk) -> None:
        if line.talk is not talk:
            raise LineLost
        if self._revoked is not None and (listed := self._revoked.holds(talk.serial)) is not False:
            if listed:
                raise Malformed(Reason.REVOKED)
            # Until the list can be read letters take the other road.
            raise LineLost

    def _prove(self, writer: asyncio.StreamWriter, line: DirectLine) -> int:
        """The serial number of a certificate that proves who is at the other end."""
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        try:
            certificate = x509.load_der_x509_certificate(shown or b"")
            check_peer(certificate, line.name, line.neighbour.pin, self._revoked)
        except ValueError:
            # The authority signed it, and it cannot be read.
            raise Malformed(Reason.NAME) from None
        return certificate.serial_number

    def _refuse(self, party: str, reason: Reason) -> None:
        """Counted every time, and logged now and then: strangers must not fill the disk."""
        self.metrics.refuse(reason.word)
        if self._is_news(party, reason.name):
            log.warning("refused", extra={"party": party, "reason": reason.word, "road": "direct"})

    def _note_mistake(self, party: str, error: Exception) -> None:
        """A mistake of ours must not end the lines; its text may carry data."""
        if self._is_news(party, type(error).__name__):
            log.error("direct line broken", extra={"party": party, "error": type(error).__name__})

    def _is_news(self, party: str, what: str) -> bool:
        """Whether it was not logged a moment ago."""
        news = self._told.get((party, what), -QUIET) + QUIET <= time.monotonic()
        if news:
            self._told[party, what] = time.monotonic()
        return news

    # -------------------------------------------------------------------------------------------- the end that dials

    async def _dial(self, line: DirectLine) -> None:
        pause = FIRST_PAUSE
        while True:
            was = line.since
            well = False
            try:
                await self._call(line)
            except LineLost:
                well = line.since != was  # there was a line
            except WireError as refused:
                self._refuse(line.name, _reason(refused))
            except InvalidInput as error:  # its own files changed, or expired
                if self._is_news(line.name, "unready"):
                    log.warning("direct line not ready", extra={"party": line.name, "why": str(error)})
            except Exception as error:
                self._note_mistake(line.name, error)
            pause = FIRST_PAUSE if well else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311

    async def _call(self, line: DirectLine) -> None:
        host, port = split_address(line.neighbour.address or "")
        secured = tls_context(self._tls, load(self._tls), ssl.PROTOCOL_TLS_CLIENT)
        self._attempt += 1
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                reader, writer = await asyncio.open_connection(host, port, ssl=secured, limit=wire.ENVELOPE)
                talk = Talk(reader, writer, self._prove(writer, line))
                keep_alive(writer)
                await write_envelopes(writer, wire.PartyHello(self.name, self._session, self._attempt).envelope())
                said = wire.greeting(*wire.parse(await read_envelope(reader)))
            if isinstance(said, wire.Refusal):
                raise Malformed(said.reason)
            if not isinstance(said, wire.Welcome):
                raise Malformed(Reason.VERSION)
            said.check()
            await self._converse(line, talk)
        except ssl.SSLCertVerificationError as error:
            raise Malformed(Reason.TLS) from error
        except (*_GONE, UnicodeError) as error:
            # The last: the host has no name of that form.
            raise LineLost from error
        finally:
            if writer is not None:
                writer.transport.abort()

    # -------------------------------------------------------------------------------------------- the end that listens

    async def _receive(self, door: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                came, _ = await loop.sock_accept(door)
            except OSError:
                # Too many open files: the lines there are matter more.
                await asyncio.sleep(1.0)
                continue
            if self._strangers >= STRANGERS + len(self._lines):
                # Counted and not logged: a crowd would fill the disk.
                self.metrics.refuse("busy")
                came.close()
                continue
            self._strangers += 1
            guest = loop.create_task(self._attend(came))
            self._guests.add(guest)
            guest.add_done_callback(self._guests.discard)

    async def _attend(self, came: socket.socket) -> None:
        claimed = "unknown"
        writer = None
        stranger = True
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                reader, writer = await self._handshake(came)
                hello = wire.PartyHello.read(await read_envelope(reader))
                line = self._lines.get(hello.name)
                if line is None or line.neighbour.address is not None:  # nobody, or whom this party dials
                    raise Malformed(Reason.NAME)
                claimed = line.name
                talk = Talk(reader, writer, self._prove(writer, line))
                self._admit(line, hello)
                await write_envelopes(writer, wire.Welcome(wire.HIGHEST, self._session, wire.LIMIT).envelope())
            self._strangers = self._strangers - 1
            stranger = False
            await self._converse(line, talk)
        except WireError as refused:
            await self._turn_away(claimed, _reason(refused), writer)
        except ssl.SSLError:
            self._refuse(claimed, Reason.TLS)
        except (*_GONE, LineLost):
            pass  # gone; it will dial again
        except Exception as error:
            self._note_mistake(claimed, error)
        finally:
            self._strangers -= int(stranger)
            if writer is not None:
                writer.transport.abort()

    async def _handshake(self, came: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(wire.ENVELOPE, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, came, ssl=self._secured, ssl_handshake_timeout=GREETING_SECONDS
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        keep_alive(writer)
        return reader, writer

    def _admit(self, line: DirectLine, hello: wire.PartyHello) -> None:
        hello.check_version()
        if hello.session == line.greeted[0] and hello.attempt <= line.greeted[1]:
            raise Malformed(Reason.REPLAYED)
        line.greeted = (hello.session, hello.attempt)

    async def _turn_away(self, party: str, reason: Reason, writer: asyncio.StreamWriter | None) -> None:
        self._refuse(party, reason)
        if writer is not None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await write_envelopes(writer, wire.Refusal(reason).envelope())
                    writer.close()
                    await writer.wait_closed()


def _reason(refused: WireError) -> Reason:
    return refused.reason if isinstance(refused, Malformed) else Reason.MALFORMED
