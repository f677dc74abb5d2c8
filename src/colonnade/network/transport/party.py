"""A party's end of the stream: dial the hub, make sure that it is the hub, answer its requests one by one.

gRPC's Python interface does not show a client the server's certificate, so every attempt begins with a TLS 1.3
handshake of our own, in which the hub's certificate is checked (authority, validity, revocation, name or pinned key).
The gRPC channel is then told to trust that one certificate and no other.

An answer is kept until the next request says that it arrived: a request that comes again gets the same bytes, and
`answer` is not called twice for it. Lost connections are dialled again after a growing, random pause, short again once
one was good for something: a hub that greets and hangs up must not fill the log. Each reason is logged once an outage.
"""

from __future__ import annotations

import contextlib
import logging
import random
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import NoReturn

import grpc  # type: ignore[import-untyped]  # grpcio carries no types
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from colonnade.errors import InvalidInput, StoreError
from colonnade.network.certs import HUB, Credentials, RevocationList, Tls, check_own, distrust, host_name, load
from colonnade.network.transport import envelope as wire
from colonnade.network.transport.envelope import FIRST_PAUSE, GREETING_SECONDS, LONGEST_PAUSE, Malformed, Reason
from colonnade.network.transport.metrics import Metrics
from colonnade.network.transport.tls import split_address, tls_context

LASTED = 30.0  # seconds after which a connection was good for something, though nothing was asked
_QUEUED = 4  # envelopes that wait to be written: 4 MiB at most
_OPTIONS = [
    *wire.GRPC_OPTIONS,
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # the handshake before would not pass through it
    ("grpc.use_local_subchannel_pool", 1),  # another attempt must not wait for the back-off of the one before
]
# Why there is no connection: how loud to say it, and the sentence.
_LOST = {
    "absent": (logging.INFO, "nobody listens at {address} yet; trying again until somebody does"),
    "silent": (logging.INFO, "the hub at {address} says nothing; trying again"),
    "lost": (logging.INFO, "the stream to the hub at {address} ended ({why}); dialling again"),
    "later": (logging.INFO, "the hub knows a later stream of this party, or has no place free; dialling again"),
    "list": (logging.WARNING, "{why} Nothing is sent until it can be read; trying again"),
    "no_address": (
        logging.WARNING,
        "this machine finds no address for the hub's name in {address}; check it in the party's file or the "
        "federation file; trying again",
    ),
    "no_tls": (
        logging.WARNING,
        "whoever listens at {address} does not answer in TLS 1.3 ({why}); check that this is the hub's port and that "
        "nothing stands between; trying again",
    ),
    "unwelcome": (
        logging.WARNING,
        "the hub at {address} hung up when it saw this party's certificate ({why}); check that it was issued by the "
        "same authority as the hub's, and that it is neither expired nor revoked; trying again",
    ),
    "untrusted": (
        logging.WARNING,
        "whoever listens at {address} now is not the hub that was there before: {why}; nothing is sent to it; ask "
        "whoever runs the hub whether its certificate was changed; trying again",
    ),
}
_ADVICE = {
    Reason.TLS: "connect with TLS 1.3 and grpcio as new as the hub's",
    Reason.EXPIRED: "ask the authority for a new certificate",
    Reason.REVOKED: "the certificate was taken back; ask the authority for a new one",
    Reason.FINGERPRINT: "the hub has another key of this party on record; give it the fingerprint of this one",
    Reason.NAME: "the certificate must carry this party's name, and the hub must have it as a member",
    Reason.REPLACED: "another process serves the same party; run one of them",
}

log = logging.getLogger("colonnade.network.transport")


class _HubLost(Exception):  # not an error of ours: the reason to dial again
    """The connection is gone, or never was: a word for programs, a sentence for people."""

    def __init__(self, reason: str, address: str = "", why: object = "") -> None:
        self.reason = reason
        self.level, sentence = _LOST[reason]
        super().__init__(sentence.format(address=address, why=why))


def serve(
    address: str,
    tls: Tls,
    name: str,
    answer: Callable[[bytes], bytes],
    *,
    stop: threading.Event,
    metrics: Metrics | None = None,
    on_state: Callable[[str], None] | None = None,
    fingerprint: bytes | None = None,
) -> None:
    """Answer the hub's requests until `stop`; `fingerprint` pins the hub's key.

    Ends with `HubRefused` where dialling again cannot help, and with the exception of `answer`, of which the hub learns
    nothing but that there was one.
    """
    party = _Party(address, tls, name, answer, stop, metrics or Metrics(), on_state or (lambda _: None), fingerprint)
    watch = threading.Thread(target=party.watch, name="streams-watch", daemon=True)
    watch.start()
    try:
        party.dial_until_stopped()
    finally:
        party.over.set()
        watch.join()
        party.tell("stopped")


def rehearse(address: str, tls: Tls, name: str, pinned: bytes | None) -> None:
    """Make every check that dialling makes of this party's own files, and dial nobody; `pinned` is its own key."""
    split_address(address)
    tls_context(tls, load(tls), ssl.PROTOCOL_TLS_CLIENT)
    check_own(tls, name, pinned)


@dataclass(eq=False)
class _Party:
    address: str
    tls: Tls
    name: str
    answer: Callable[[bytes], bytes]
    stop: threading.Event
    metrics: Metrics
    tell: Callable[[str], None]
    pinned: bytes | None
    session: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    hub: bytes | None = None  # the hub's session
    attempt: int = 0
    last: int = 0  # the last request that was answered
    kept: bytes = b""  # and its answer
    progress: bool = False  # whether anything was asked since the last pause
    said: set[str] = field(default_factory=set)  # why there is no connection, as logged since the last one
    over: threading.Event = field(default_factory=threading.Event)
    call: grpc.Call | None = None
    deadline: float | None = None  # for the hub to greet, or to hang up

    # -------------------------------------------------------------------------------------------- dialling

    def dial_until_stopped(self) -> None:
        pause = FIRST_PAUSE
        while not self.stop.is_set():
            self.attempt += 1
            self.progress = False
            began = time.monotonic()
            self.tell("connecting")
            try:
                credentials = load(self.tls)
                self.converse(credentials, self.check_hub(credentials))
            except _HubLost as why:
                self.explain(why)
            if self.stop.is_set():
                return
            well = self.progress or time.monotonic() - began > LASTED
            pause = FIRST_PAUSE if well else min(2 * pause, LONGEST_PAUSE)
            self.tell("waiting")
            # Random, so that all parties of a hub that comes back do not dial at the same moment.
            self.stop.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311

    def explain(self, why: _HubLost) -> None:
        """A hub may be away for a day: each reason is told once, and the next connection ends the outage."""
        level = logging.DEBUG if why.reason in self.said else why.level
        self.said.add(why.reason)
        log.log(level, str(why), extra={"party": self.name, "attempt": self.attempt, "reason": why.reason})

    def watch(self) -> None:
        """Ends a conversation that nobody reads any more: on `stop`, or when the hub has not greeted in time."""
        while not self.over.is_set():
            call = self.call
            deadline = self.deadline
            late = deadline is not None and time.monotonic() > deadline
            if (self.stop.wait(0.25) or late) and call is not None:
                call.cancel()
            if self.stop.is_set():
                self.over.wait(0.1)

    def check_hub(self, credentials: Credentials) -> x509.Certificate:
        """The certificate that the hub shows and proves to have the key of."""
        context = tls_context(self.tls, credentials, ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(["h2"])
        with self.dial() as plain:
            try:
                secured = context.wrap_socket(plain, server_hostname=HUB)
            except ssl.SSLCertVerificationError as error:
                self.refuse_hub(f"its certificate does not verify ({error.verify_message})", error)
            except OSError as error:
                raise _HubLost("no_tls", self.address, type(error).__name__) from error
            with secured:
                shown = secured.getpeercert(binary_form=True)
                # The hub looks at our certificate after we have seen its own: its first bytes say that it agrees.
                try:
                    agreed = secured.recv(1)
                except TimeoutError as error:
                    raise _HubLost("silent", self.address) from error
                except OSError:
                    # An alert, or a reset: it hung up less politely.
                    agreed = b""
        if shown is None or not agreed:
            raise _HubLost("unwelcome", self.address, self.tls.certificate)
        certificate = x509.load_der_x509_certificate(shown)
        if why := distrust(certificate, HUB, self.pinned, self.revoked()):
            self.refuse_hub(f"its certificate is refused: {why}", None)
        return certificate

    def revoked(self) -> RevocationList | None:
        """The list as it is now. One that cannot be read is a mistake at first; later on somebody may be writing it."""
        try:
            return self.tls.revocations()
        except (InvalidInput, StoreError) as error:
            if self.hub is None:
                raise
            raise _HubLost("list", why=error) from error

    def dial(self) -> socket.socket:
        try:
            return socket.create_connection(split_address(self.address), timeout=GREETING_SECONDS)
        except OSError as error:
            raise _HubLost("no_address" if isinstance(error, socket.gaierror) else "absent", self.address) from error

    def refuse_hub(self, why: str, cause: Exception | None) -> NoReturn:
        """At the first attempt this is a mistake in the set-up; later on somebody may stand between us and the hub."""
        self.metrics.refuse("hub")
        if self.hub is None:
            log.warning("untrusted", extra={"party": self.name})
            raise wire.HubRefused(
                f"the hub at {self.address} is not trusted: {why}. Nothing was sent. Check the address, the authority "
                f"file and that the hub's certificate carries the name {HUB!r} or has the pinned fingerprint."
            ) from cause
        raise _HubLost("untrusted", self.address, why) from cause

    # -------------------------------------------------------------------------------------------- one stream

    def converse(self, credentials: Credentials, hub: x509.Certificate) -> None:
        if (known_as := host_name(hub)) is None:
            raise wire.HubRefused(f"the certificate of the hub at {self.address} has no DNS name and no common name.")
        secured = grpc.ssl_channel_credentials(hub.public_bytes(Encoding.PEM), credentials.key, credentials.chain)
        options = [*_OPTIONS, ("grpc.ssl_target_name_override", known_as)]
        outbox = _Outbox(self.address)
        with grpc.secure_channel(self.address, secured, options=options) as channel:
            outbox.put(wire.PartyHello(self.name, self.session, self.attempt).envelope())
            call = channel.stream_stream(wire.METHOD)(outbox)

            def ended() -> None:
                outbox.close()
                # Told by gRPC's thread: ours may be waiting for an operator's answer.
                if self.call is call:
                    self.tell("lost")

            self.deadline = time.monotonic() + GREETING_SECONDS
            self.call = call
            if not call.add_callback(ended):
                ended()
            try:
                self.listen(call, outbox)
            except grpc.RpcError as error:
                raise _HubLost("lost", self.address, error.code().name) from None
            except Malformed as refused:
                self.metrics.refuse(refused.reason.word)
                log.warning("refused", extra={"party": "hub", "reason": refused.reason.word})
                raise
            finally:
                self.call = self.deadline = None
                outbox.close()
                call.cancel()

    def listen(self, call: Iterable[bytes], outbox: _Outbox) -> None:
        assembler = wire.Assembler()
        welcome: wire.Welcome | None = None
        for envelope in call:
            head, body = wire.parse(envelope)
            if head.kind <= wire.EnvelopeKind.REFUSED:
                if (welcome := self.take_greeting(head, body, again=welcome is not None)) is None:
                    raise _HubLost("later")
            elif head.kind != wire.EnvelopeKind.REQUEST or welcome is None:
                raise Malformed(Reason.KIND)
            elif (request := assembler.feed(head, body)) is not None:
                self.attend(head, request, welcome.limit, call, outbox)
        raise _HubLost("lost", self.address, "closed by the hub")

    def attend(self, head: wire.Head, request: bytes, limit: int, call: Iterable[bytes], outbox: _Outbox) -> None:
        """Answer a request: by the same bytes if it was answered before."""
        self.progress = True
        self.metrics.received(len(request))
        if head.number not in (self.last, self.last + 1):
            raise Malformed(Reason.NUMBER)
        if head.number != self.last:
            try:
                message = self.answer(request)
                if len(message) > limit:
                    raise InvalidInput(f"an answer of {len(message):,} bytes is over the hub's limit of {limit:,}.")
            except BaseException:
                self.confess(head.number, call, outbox)
                raise
            self.last = head.number
            self.kept = message
        for part in wire.envelopes(wire.EnvelopeKind.ANSWER, head.number, self.kept):
            outbox.put(part)
        self.metrics.sent(len(self.kept))

    def take_greeting(self, head: wire.Head, body: memoryview, *, again: bool) -> wire.Welcome | None:
        """The hub's welcome; None if this stream is out of date but another may do."""
        said = wire.greeting(head, body)
        if isinstance(said, wire.Refusal):
            self.check_refusal(said)
            return None
        if not isinstance(said, wire.Welcome) or again:
            raise Malformed(Reason.KIND)
        said.check()
        self.deadline = None
        if self.hub is not None:
            self.metrics.reconnected()
        # A hub that was restarted counts from 1 again.
        if said.session != self.hub:
            self.hub = said.session
            self.last = 0
        self.said.clear()
        log.info("connected", extra={"party": self.name, "attempt": self.attempt})
        self.tell("connected")
        return said

    def check_refusal(self, said: wire.Refusal) -> None:
        self.metrics.refuse(said.reason.word)
        if said.reason in (Reason.REPLAYED, Reason.BUSY):  # the attempt is explained, once an outage
            return
        log.warning("refused", extra={"party": self.name, "reason": said.reason.word})
        advice = _ADVICE.get(said.reason, "install the same version of colonnade on both sides")
        if said.reason is Reason.VERSION:
            spoken = f"stream versions {said.lowest} to {said.highest}, this program {wire.LOWEST} to {wire.HIGHEST}"
            raise wire.HubRefused(f"the hub at {self.address} speaks {spoken}: {advice}.")
        raise wire.HubRefused(f"the hub at {self.address} refuses {self.name!r} ({said.reason.word}): {advice}.")

    def confess(self, number: int, call: Iterable[bytes], outbox: _Outbox) -> None:
        """Tell the hub that there will be no answer, without a word about why, and let it hang up."""
        with contextlib.suppress(_HubLost, grpc.RpcError):
            outbox.put(wire.failed(number))
            outbox.end()
            self.deadline = time.monotonic() + GREETING_SECONDS
            for _ in call:
                pass


class _Outbox:
    """What gRPC takes the envelopes from: holds few, ends when the stream does."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._held: SimpleQueue[bytes | None] = SimpleQueue()
        # One entry for each envelope that may still come.
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(_QUEUED):
            self._room.put(None)
        self._closed = False

    def put(self, envelope: bytes) -> None:
        self._room.get()
        if self._closed:
            self._room.put(None)
            raise _HubLost("lost", self.address, "before an answer had gone")
        self._held.put(envelope)

    def end(self) -> None:
        """Nothing more will come; what is held still goes."""
        self._held.put(None)

    def close(self) -> None:
        """The stream is gone: whoever waits at either end goes on."""
        self._closed = True
        self._held.put(None)
        self._room.put(None)

    def __iter__(self) -> _Outbox:
        return self

    def __next__(self) -> bytes:
        envelope = self._held.get()
        if envelope is None or self._closed:
            raise StopIteration
        self._room.put(None)
        return envelope
