"""A party's end of the stream: dial the hub, make sure that it is the hub, answer its requests one by one.

gRPC's Python interface does not show a client the server's certificate, so every attempt begins with a TLS 1.3
handshake of our own, in which the hub's certificate is checked (authority, validity, revocation, name or pinned key).
The gRPC channel is then told to trust that one certificate and no other.

An answer is kept until the next request says that it arrived: a request that comes again after a broken connection gets
the same bytes, and `answer` is not called twice for it. Lost connections are dialled again after a growing, random
pause, which is short again once a connection was good for something: a hub that greets and hangs up must not fill the
log. Why there is no connection is logged once an outage, each reason; attempts that end the same way are lines of debug
level.
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
from queue import SimpleQueue

import grpc  # type: ignore[import-untyped]  # grpcio carries no types
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from colonnade.errors import InvalidInput, StoreError
from colonnade.network.certs import (
    HUB,
    Credentials,
    RevocationList,
    Tls,
    check_own,
    common_name,
    distrust,
    dns_names,
    load,
)
from colonnade.network.transport.clock import FIRST_PAUSE, GREETING_SECONDS, LONGEST_PAUSE
from colonnade.network.transport.envelope import (
    ENVELOPE,
    HIGHEST,
    LIMIT,
    LOWEST,
    METHOD,
    Assembler,
    Compressed,
    EnvelopeKind,
    Head,
    HubRefused,
    Malformed,
    PartyHello,
    Reason,
    Refusal,
    Welcome,
    compress,
    envelopes,
    failed,
    greeting,
    parse,
)
from colonnade.network.transport.metrics import Metrics
from colonnade.network.transport.tls import split_address, tls_context

LASTED = 30.0  # seconds after which a connection was good for something, though nothing was asked
_QUEUED = 4  # envelopes that wait to be written: 4 MiB at most
_OPTIONS = [
    ("grpc.max_receive_message_length", ENVELOPE),
    ("grpc.max_send_message_length", ENVELOPE),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # the handshake before would not pass through it
    ("grpc.use_local_subchannel_pool", 1),  # another attempt must not wait for the back-off of the one before
]
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

    def __init__(self, reason: str, sentence: str, level: int = logging.INFO) -> None:
        super().__init__(sentence)
        self.reason, self.level = reason, level


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


class _Party:
    def __init__(
        self,
        address: str,
        tls: Tls,
        name: str,
        answer: Callable[[bytes], bytes],
        stop: threading.Event,
        metrics: Metrics,
        tell: Callable[[str], None],
        pinned: bytes | None,
    ) -> None:
        self.address, self.tls, self.name, self.answer = address, tls, name, answer
        self.stop, self.metrics, self.tell, self.pinned = stop, metrics, tell, pinned
        self.host, self.port = split_address(address)
        self.session = secrets.token_bytes(16)
        self.hub: bytes | None = None  # the hub's session
        self.attempt = 0
        self.last = 0  # the last request that was answered
        self.kept = Compressed(0, b"", 0)  # and its answer
        self.progress = False  # whether anything was asked since the last pause
        self.said: set[str] = set()  # why there is no connection, as logged since the last one
        self.over = threading.Event()
        self.call: grpc.Call | None = None
        self.deadline: float | None = None  # for the hub to greet, or to hang up

    # -------------------------------------------------------------------------------------------- dialling

    def dial_until_stopped(self) -> None:
        pause = FIRST_PAUSE
        while not self.stop.is_set():
            self.attempt += 1
            self.progress, began = False, time.monotonic()
            self.tell("connecting")
            try:
                credentials = load(self.tls)
                self.converse(credentials, self.checked_hub(credentials))
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
            call, deadline = self.call, self.deadline
            late = deadline is not None and time.monotonic() > deadline
            if (self.stop.wait(0.25) or late) and call is not None:
                call.cancel()
            if self.stop.is_set():
                self.over.wait(0.1)

    def checked_hub(self, credentials: Credentials) -> x509.Certificate:
        """The certificate that the hub shows and proves to have the key of."""
        context = tls_context(self.tls, credentials, ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(["h2"])
        with self.dialled() as plain:
            try:
                secured = context.wrap_socket(plain, server_hostname=HUB)
            except ssl.SSLCertVerificationError as error:
                return self.untrusted(f"its certificate does not verify ({error.verify_message})", error)
            except OSError as error:
                raise _HubLost(
                    "no_tls",
                    f"whoever listens at {self.address} does not answer in TLS 1.3 ({type(error).__name__}); check "
                    "that this is the hub's port and that nothing stands between; trying again",
                    logging.WARNING,
                ) from error
            with secured:
                shown = secured.getpeercert(binary_form=True)
                # The hub looks at our certificate after we have seen its own: its first bytes say that it agrees.
                try:
                    agreed = secured.recv(1)
                except TimeoutError as error:
                    raise _HubLost("silent", f"the hub at {self.address} says nothing; trying again") from error
                except OSError:  # an alert, or a reset: it hung up less politely
                    agreed = b""
        if shown is None or not agreed:
            raise _HubLost(
                "unwelcome",
                f"the hub at {self.address} hung up when it saw this party's certificate ({self.tls.certificate}); "
                "check that it was issued by the same authority as the hub's certificate, and that it is neither "
                "expired nor revoked; trying again",
                logging.WARNING,
            )
        certificate = x509.load_der_x509_certificate(shown)
        if why := distrust(certificate, HUB, self.pinned, self.revoked()):
            return self.untrusted(f"its certificate is refused: {why}", None)
        return certificate

    def revoked(self) -> RevocationList | None:
        """The list as it is now. One that cannot be read is a mistake at first; later on somebody may be writing it."""
        try:
            return self.tls.revocations()
        except (InvalidInput, StoreError) as error:
            if self.hub is None:
                raise
            raise _HubLost(
                "list", f"{error} Nothing is sent until it can be read; trying again", logging.WARNING
            ) from error

    def dialled(self) -> socket.socket:
        try:
            return socket.create_connection((self.host, self.port), timeout=GREETING_SECONDS)
        except socket.gaierror as error:
            raise _HubLost(
                "no_address",
                f"this machine finds no address for {self.host!r}; check the hub's name in the party's file or the "
                "federation file; trying again",
                logging.WARNING,
            ) from error
        except OSError as error:
            raise _HubLost(
                "absent", f"nobody listens at {self.address} yet; trying again until somebody does"
            ) from error

    def untrusted(self, why: str, cause: Exception | None) -> x509.Certificate:
        """At the first attempt this is a mistake in the set-up; later on somebody may stand between us and the hub."""
        self.metrics.refuse("hub")
        if self.hub is None:
            log.warning("untrusted", extra={"party": self.name})
            raise HubRefused(
                f"the hub at {self.address} is not trusted: {why}. Nothing was sent. Check the address, the authority "
                f"file and that the hub's certificate carries the name {HUB!r} or has the pinned fingerprint."
            ) from cause
        raise _HubLost(
            "untrusted",
            f"whoever listens at {self.address} now is not the hub that was there before: {why}; nothing is sent to "
            "it; ask whoever runs the hub whether its certificate was changed; trying again",
            logging.WARNING,
        ) from cause

    # -------------------------------------------------------------------------------------------- one stream

    def converse(self, credentials: Credentials, hub: x509.Certificate) -> None:
        known_as = next(iter(dns_names(hub)), None) or common_name(hub)
        if known_as is None:
            raise HubRefused(f"the certificate of the hub at {self.address} has neither a DNS name nor a common name.")
        secured = grpc.ssl_channel_credentials(hub.public_bytes(Encoding.PEM), credentials.key, credentials.chain)
        options = [*_OPTIONS, ("grpc.ssl_target_name_override", known_as)]
        outbox = _Outbox()
        with grpc.secure_channel(self.address, secured, options=options) as channel:
            outbox.put(PartyHello(self.name, self.session, self.attempt).envelope())
            call = channel.stream_stream(METHOD)(outbox)

            def ended() -> None:
                outbox.close()
                # Not hung up here. Told by gRPC's thread: ours may be making an answer, for as long as an operator
                # thinks.
                if self.call is call:
                    self.tell("lost")

            self.deadline = time.monotonic() + GREETING_SECONDS
            self.call = call
            if not call.add_callback(ended):
                ended()
            try:
                self.listen(call, outbox)
            except grpc.RpcError as error:
                code = error.code().name
                raise _HubLost(
                    "lost", f"the stream to the hub at {self.address} ended ({code}); dialling again"
                ) from None
            except Malformed as refused:
                self.metrics.refuse(refused.reason.name.lower())
                log.warning("refused", extra={"party": "hub", "reason": refused.reason.name.lower()})
                raise
            finally:
                self.call = self.deadline = None
                outbox.close()
                call.cancel()

    def listen(self, call: Iterable[bytes], outbox: _Outbox) -> None:
        assembler = Assembler()
        welcome: Welcome | None = None
        for envelope in call:
            head, body = parse(envelope)
            if head.kind <= EnvelopeKind.REFUSED:
                if (welcome := self.greeted(head, body, again=welcome is not None)) is None:
                    raise _HubLost(
                        "later", "the hub knows a later stream of this party, or has no place free; dialling again"
                    )
            elif head.kind != EnvelopeKind.REQUEST or welcome is None:
                raise Malformed(Reason.KIND)
            else:
                self.attend(head, assembler.feed(head, body), welcome.limit, call, outbox)
        raise _HubLost("lost", f"the hub at {self.address} closed the stream; dialling again")

    def attend(self, head: Head, request: bytes | None, limit: int, call: Iterable[bytes], outbox: _Outbox) -> None:
        if request is None:  # there is more of it to come
            return
        self.progress = True
        self.metrics.received(len(request), head.wire)
        packed = self.answered(head, request, limit, call, outbox)
        for part in envelopes(EnvelopeKind.ANSWER, head.number, packed):
            outbox.put(part)
        self.metrics.sent(packed.raw, len(packed.wire))

    def greeted(self, head: Head, body: memoryview, *, again: bool) -> Welcome | None:
        """The hub's welcome; None if this stream is out of date but another may do."""
        said = greeting(head, body)
        if isinstance(said, Refusal):
            self.turned_away(said)
            return None
        if not isinstance(said, Welcome) or again:
            raise Malformed(Reason.KIND)
        if not LOWEST <= said.version <= HIGHEST or not 0 < said.limit <= LIMIT:
            raise Malformed(Reason.VERSION)
        self.deadline = None
        if self.hub is not None:
            self.metrics.reconnected()
        if said.session != self.hub:  # a hub that was restarted counts from 1 again
            self.hub, self.last = said.session, 0
        self.said.clear()
        log.info("connected", extra={"party": self.name, "attempt": self.attempt})
        self.tell("connected")
        return said

    def turned_away(self, said: Refusal) -> None:
        self.metrics.refuse(said.reason.name.lower())
        if said.reason in (Reason.REPLAYED, Reason.BUSY):  # the attempt is explained, once an outage
            return
        log.warning("refused", extra={"party": self.name, "reason": said.reason.name.lower()})
        if said.reason is Reason.VERSION:
            raise HubRefused(
                f"the hub at {self.address} speaks stream versions {said.lowest} to {said.highest}, this program "
                f"{LOWEST} to {HIGHEST}: install the same version of colonnade on both sides."
            )
        advice = _ADVICE.get(
            said.reason, "the two programs disagree about the protocol; install the same version on both"
        )
        raise HubRefused(f"the hub at {self.address} refuses {self.name!r} ({said.reason.name.lower()}): {advice}.")

    def answered(self, head: Head, request: bytes, limit: int, call: Iterable[bytes], outbox: _Outbox) -> Compressed:
        """The answer to a request: the same bytes if it was answered before."""
        if head.number == self.last:
            return self.kept
        if head.number != self.last + 1:
            raise Malformed(Reason.NUMBER)
        try:
            message = self.answer(request)
            if len(message) > limit:
                raise InvalidInput(f"an answer of {len(message):,} bytes is over the hub's limit of {limit:,}.")
        except BaseException:
            self.confess(head.number, call, outbox)
            raise
        self.last, self.kept = head.number, compress(message)
        return self.kept

    def confess(self, number: int, call: Iterable[bytes], outbox: _Outbox) -> None:
        """Tell the hub that there will be no answer, without a word about why, and let it hang up."""
        with contextlib.suppress(_HubLost, grpc.RpcError):
            outbox.put(failed(number))
            outbox.end()
            self.deadline = time.monotonic() + GREETING_SECONDS
            for _ in call:
                pass


class _Outbox:
    """What gRPC takes the envelopes from: holds few, ends when the stream does."""

    def __init__(self) -> None:
        self._held: SimpleQueue[bytes | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()  # one entry for each envelope that may still come
        for _ in range(_QUEUED):
            self._room.put(None)
        self._closed = False

    def put(self, envelope: bytes) -> None:
        self._room.get()
        if self._closed:
            self._room.put(None)
            raise _HubLost("lost", "the stream to the hub ended before an answer had gone; dialling again")
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
