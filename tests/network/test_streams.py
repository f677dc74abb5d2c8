"""The network between organisations: who gets in, what survives a broken connection, and what is refused."""

from __future__ import annotations

import datetime
import gc
import logging
import os
import random
import socket
import ssl
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import InvalidInput, PeerFailed, ProtocolError
from colonnade.network import certs
from colonnade.network.certs import Tls
from colonnade.network.status_page import page
from colonnade.network.transport import envelope as wire
from colonnade.network.transport import hub as transport_hub
from colonnade.network.transport import party as transport_party
from colonnade.network.transport.envelope import HubRefused, PartyRestarted, PeerTimeout
from colonnade.network.transport.hub import Switchboard
from colonnade.network.transport.metrics import Metrics
from colonnade.network.transport.party import serve
from tests.helpers import streams
from tests.helpers.streams import PATIENCE, SESSION, Party, Proxy, Raw, eventually, files, grpc, switchboard

folder = streams.folder

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture
def hub(folder: Path) -> Iterator[Switchboard]:
    with switchboard(folder, {"hospital": None, "lab": None}) as made:
        yield made


def assert_alive(hub: Switchboard, folder: Path) -> None:
    """A hub that has refused somebody still serves another."""
    with Party(hub.port, files(folder, "lab"), "lab"):
        hub.wait_for(["lab"], PATIENCE)
        assert hub.ask("lab", b"abc", timeout=PATIENCE).result() == b"cba"


# ------------------------------------------------------------------------------------------------ who gets in


def made(
    name: str,
    signer: tuple[x509.Certificate, object] | None = None,
    *,
    sans: tuple[x509.GeneralName, ...] = (),
    ends: datetime.timedelta = datetime.timedelta(days=1),
    key: object = None,
) -> tuple[x509.Certificate, object]:
    """A certificate of another tool's making."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer[0].subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    )
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(sans)), critical=False)
    return builder.sign(signer[1] if signer else key, hashes.SHA256()), key


def saved(place: Path, name: str, pair: tuple[x509.Certificate, object], authority: Path) -> Tls:
    certificate, key = pair
    (place / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (place / f"{name}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    (place / f"{name}.key").chmod(0o600)
    return Tls(place / f"{name}.pem", place / f"{name}.key", authority, None)


def authority_of(folder: Path) -> tuple[x509.Certificate, object]:
    key = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), password=None)
    return certs.read(folder / "authority.pem"), key


def first_bytes(port: int, folder: Path, shown: Tls | None, most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """What the hub says first to a plain TLS client: HTTP/2 settings if it lets it in, nothing otherwise."""
    context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
    context.check_hostname = False
    context.maximum_version = most
    context.set_alpn_protocols(["h2"])
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
        try:
            with context.wrap_socket(plain) as secured:
                return secured.recv(9)
        except (ssl.SSLError, ConnectionError):
            return b""


def test_a_plain_client_with_a_good_certificate_passes_the_handshake(hub: Switchboard, folder: Path) -> None:
    """The control: what the refused clients below do not get."""
    assert first_bytes(hub.port, folder, files(folder, "hospital")) != b""


def test_nobody_gets_in_without_a_certificate(hub: Switchboard, folder: Path) -> None:
    assert first_bytes(hub.port, folder, None) == b""
    assert_alive(hub, folder)


def test_a_certificate_of_another_authority_does_not_get_in(hub: Switchboard, folder: Path, tmp_path: Path) -> None:
    other = made("hospital", made("other authority"))
    assert first_bytes(hub.port, folder, saved(tmp_path, "hospital", other, folder / "authority.pem")) == b""
    assert_alive(hub, folder)


def test_an_expired_certificate_does_not_get_in(hub: Switchboard, folder: Path, tmp_path: Path) -> None:
    uri = x509.UniformResourceIdentifier("colonnade:hospital")
    for ends, let_in in ((datetime.timedelta(hours=1), True), (-datetime.timedelta(hours=1), False)):
        pair = made("hospital", authority_of(folder), sans=(uri,), ends=ends)
        shown = saved(tmp_path, "hospital", pair, folder / "authority.pem")
        assert let_in == (first_bytes(hub.port, folder, shown) != b"")
    assert_alive(hub, folder)


def test_a_party_with_an_expired_certificate_says_so_before_it_dials(folder: Path, tmp_path: Path) -> None:
    pair = made("hospital", authority_of(folder), ends=-datetime.timedelta(hours=1))
    tls = saved(tmp_path, "hospital", pair, folder / "authority.pem")
    with pytest.raises(InvalidInput, match="issue a new one"):
        serve("127.0.0.1:1", tls, "hospital", bytes, stop=threading.Event())


def test_a_certificate_of_another_name_is_refused(hub: Switchboard, folder: Path) -> None:
    error = Party(hub.port, files(folder, "lab"), "hospital").ended()
    assert isinstance(error, HubRefused)
    assert "refuses 'hospital' (name)" in str(error)
    assert hub.metrics.refused == {"name": 1}
    assert_alive(hub, folder)


def test_a_host_that_is_called_as_another_party_does_not_get_in_as_that_party(own_folder: Path) -> None:
    """A host may have any name, and stands in the certificate of whoever listens there."""
    certs.issue(own_folder, "lab", hosts=["hospital"], replace=True)
    with switchboard(own_folder, {"hospital": None, "lab": None}) as hub:
        error = Party(hub.port, files(own_folder, "lab"), "hospital").ended()
        assert isinstance(error, HubRefused)
        assert "refuses 'hospital' (name)" in str(error)
        assert (hub.metrics.refused, hub.connected()) == ({"name": 1}, set())
        with Party(hub.port, files(own_folder, "lab"), "lab"):
            hub.wait_for(["lab"], PATIENCE)


def test_a_name_that_is_no_member_is_refused_and_not_logged(
    hub: Switchboard, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "colonnade.network.transport"), Raw(hub.port, files(folder, "lab")) as raw:
        assert wire.Refusal(wire.Reason.NAME) == raw.hello("stranger in the log")
    assert "stranger" not in caplog.text
    assert "reason=name" in caplog.text


@pytest.mark.parametrize(("pinned", "let_in"), [("hospital", True), ("lab", False)])
def test_a_pinned_key_decides(folder: Path, pinned: str, let_in: bool) -> None:
    pin = certs.fingerprint(certs.read(folder / f"{pinned}.pem"))
    with switchboard(folder, {"hospital": pin, "lab": None}) as hub:
        with Party(hub.port, files(folder, "hospital")) as party:
            if let_in:
                hub.wait_for(["hospital"], PATIENCE)
            else:
                assert "(fingerprint)" in str(party.ended())
        assert_alive(hub, folder)


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    """An authority that a test may change."""
    place = tmp_path / "certs"
    certs.init(place)
    for name in ("coordinator", "hospital", "lab"):
        certs.issue(place, name)
    return place


def test_a_revoked_certificate_is_refused_and_a_new_one_is_not(own_folder: Path) -> None:
    certs.revoke(own_folder, "hospital")
    with switchboard(own_folder, {"hospital": None, "lab": None}) as hub:
        assert "(revoked)" in str(Party(hub.port, files(own_folder, "hospital")).ended())
        assert_alive(hub, own_folder)
        certs.issue(own_folder, "hospital", replace=True)
        with Party(hub.port, files(own_folder, "hospital")):
            hub.wait_for(["hospital"], PATIENCE)


def test_a_certificate_that_is_revoked_during_a_stream_gets_no_further_request(own_folder: Path) -> None:
    asked = []
    with (
        switchboard(own_folder) as hub,
        Party(hub.port, files(own_folder, "hospital"), answer=lambda r: asked.append(r) or r) as party,
    ):
        assert hub.ask("hospital", b"1", timeout=PATIENCE).result() == b"1"
        certs.revoke(own_folder, "hospital")
        time.sleep(2 * certs.RevocationList.LOOK_AGAIN)
        late = hub.ask("hospital", b"2", timeout=1.0)
        assert "(revoked)" in str(party.ended())
        with pytest.raises(PeerTimeout):
            late.result()
        assert asked == [b"1"]


def test_a_half_written_list_of_revoked_certificates_lets_nobody_new_in_and_everybody_wait(own_folder: Path) -> None:
    """A slow copy over the live list: nobody is asked anything, nobody hears that it is revoked, and all goes on afterwards."""
    asked, revoked = [], own_folder / "revoked.pem"
    whole, tls = revoked.read_bytes(), {name: files(own_folder, name) for name in ("hospital", "lab")}
    with (
        switchboard(own_folder, {"hospital": None, "lab": None}) as hub,
        Party(hub.port, tls["hospital"], answer=lambda r: asked.append(r) or r) as party,
    ):
        assert hub.ask("hospital", b"1", timeout=PATIENCE).result() == b"1"
        revoked.write_bytes(whole[:100])
        time.sleep(2 * certs.RevocationList.LOOK_AGAIN)
        waiting = hub.ask("hospital", b"2", timeout=PATIENCE)
        with Party(hub.port, replace(tls["lab"], revoked=None), "lab") as late:
            eventually(lambda: hub.metrics.refused["busy"] >= 1)
            assert (asked, waiting.done(), hub.connected()) == ([b"1"], False, {"hospital"})
            revoked.write_bytes(whole)
            assert waiting.result() == b"2"
            hub.wait_for(["hospital", "lab"], PATIENCE)
            assert hub.metrics.refused["revoked"] == 0
            assert (party.error, late.error) == (None, None)


def test_a_hub_can_be_stopped_while_it_waits_for_its_list(own_folder: Path) -> None:
    with switchboard(own_folder) as hub, Party(hub.port, files(own_folder, "hospital")):
        hub.wait_for(["hospital"], PATIENCE)
        (own_folder / "revoked.pem").write_bytes(b"")
        time.sleep(2 * certs.RevocationList.LOOK_AGAIN)
        late = hub.ask("hospital", b"1")
    with pytest.raises(ProtocolError, match="stopped"):
        late.result()


def test_a_party_whose_own_list_is_half_written_dials_again(own_folder: Path) -> None:
    revoked = own_folder / "revoked.pem"
    whole = revoked.read_bytes()
    with switchboard(own_folder) as hub, Proxy(hub.port) as proxy:
        ours = own_folder / "mine.pem"
        ours.write_bytes(whole)
        with Party(proxy.port, replace(files(own_folder, "hospital"), revoked=ours)) as party:
            assert hub.ask("hospital", b"ab", timeout=PATIENCE).result() == b"ba"
            ours.write_bytes(whole[:100])
            proxy.break_all()
            eventually(lambda: "waiting" in party.states)
            ours.write_bytes(whole)
            assert hub.ask("hospital", b"cd", timeout=PATIENCE).result() == b"dc"
            assert party.error is None


def test_a_stream_below_tls_1_3_is_refused(hub: Switchboard, folder: Path) -> None:
    """grpcio accepts TLS 1.2 in the handshake and has no setting against it, so the stream is refused instead."""
    tls = files(folder, "hospital")
    assert first_bytes(hub.port, folder, tls, ssl.TLSVersion.TLSv1_2) != b""
    for version, expected in (
        (ssl.TLSVersion.TLSv1_2, wire.Refusal(wire.Reason.TLS)),
        (ssl.TLSVersion.TLSv1_3, wire.Welcome),
    ):
        context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
        context.check_hostname = False
        context.maximum_version = version
        context.load_cert_chain(tls.certificate, tls.key)
        context.set_alpn_protocols(["h2"])
        with (
            Proxy(hub.port, upstream=context) as proxy,
            Raw(0, tls, grpc.insecure_channel(f"127.0.0.1:{proxy.port}")) as raw,
        ):
            said = raw.hello()
            assert expected in (said, type(said))
    assert_alive(hub, folder)


def test_certificates_of_another_authority_work_as_pem_files(tmp_path: Path) -> None:
    """RSA keys, DNS names or no names at all but pinned keys."""
    root = made("Example Trust", key=rsa.generate_private_key(65537, 2048))
    authority = tmp_path / "root.pem"
    authority.write_bytes(root[0].public_bytes(serialization.Encoding.PEM))
    hub_pair = made("hub.example.org", root, key=rsa.generate_private_key(65537, 2048))
    hub_tls = saved(tmp_path, "hub", hub_pair, authority)
    lab = saved(tmp_path, "lab", made("any", root, sans=(x509.DNSName("lab"),)), authority)
    pair = made("some machine", root)
    hospital = saved(tmp_path, "hospital", pair, authority)
    hub = Switchboard("127.0.0.1:0", hub_tls, {"hospital": certs.fingerprint(pair[0]), "lab": None})
    hub.start()
    pin = certs.fingerprint(hub_pair[0])
    try:
        with Party(hub.port, hospital, fingerprint=pin), Party(hub.port, lab, "lab", fingerprint=pin):
            hub.wait_for(["hospital", "lab"], PATIENCE)
            assert hub.ask("hospital", b"abc", timeout=PATIENCE).result() == b"cba"
    finally:
        hub.stop()


def impostor(folder: Path, tls: Tls) -> Switchboard:
    """A hub that shows other certificates to the parties, and accepts theirs."""
    hub = Switchboard("127.0.0.1:0", tls, {"hospital": None})
    hub.start()
    return hub


@pytest.mark.parametrize("kind", ["another authority", "another name", "revoked", "another key"])
def test_a_party_tells_nothing_to_a_hub_that_it_cannot_trust(own_folder: Path, tmp_path: Path, kind: str) -> None:
    authority, root = own_folder / "authority.pem", authority_of(own_folder)
    tls, pin = files(own_folder, "hospital"), None
    name = x509.DNSName("coordinator")
    match kind:
        case "another authority":
            shown = saved(tmp_path, "hub", made("coordinator", made("other"), sans=(name,)), authority)
        case "another name":
            shown = saved(tmp_path, "hub", made("lab", root, sans=(x509.DNSName("lab"),)), authority)
        case "revoked":
            certs.revoke(own_folder, "coordinator")
            shown = files(own_folder, "coordinator")
        case _:
            shown, pin = files(own_folder, "coordinator"), bytes(32)
    hub = impostor(own_folder, replace(shown, revoked=None))
    try:
        party = Party(hub.port, tls, fingerprint=pin)
        error = party.ended()
        assert isinstance(error, HubRefused)
        assert "Nothing was sent" in str(error)
        assert "connected" not in party.states
        assert None is hub.session("hospital")
    finally:
        hub.stop()


# ------------------------------------------------------------------------------------------------ versions


def test_a_party_of_a_later_version_is_told_what_the_hub_speaks(hub: Switchboard, folder: Path) -> None:
    with Raw(hub.port, files(folder, "hospital")) as raw:
        assert wire.Refusal(wire.Reason.VERSION, wire.LOWEST, wire.HIGHEST) == raw.hello(lowest=7, highest=9)
    assert hub.metrics.refused == {"version": 1}
    assert_alive(hub, folder)


def test_versions_that_overlap_agree_on_the_highest_common_one(hub: Switchboard, folder: Path) -> None:
    with Raw(hub.port, files(folder, "hospital")) as raw:
        said = raw.hello(lowest=1, highest=9)
        assert isinstance(said, wire.Welcome)
        assert said.version == wire.HIGHEST


@contextmanager
def fake_hub(folder: Path, talk: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Iterator[int]:
    """A hub with the right certificate that says whatever a test wants."""

    class Door(grpc.GenericRpcHandler):
        def service(self, _: object) -> object:
            return grpc.stream_stream_rpc_method_handler(lambda arriving, _: talk(arriving))

    mine = certs.load(files(folder, "coordinator"))
    server = grpc.server(ThreadPoolExecutor(4), handlers=[Door()])
    secured = grpc.ssl_server_credentials([(mine.key, mine.chain)], mine.authority, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", secured)
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def test_a_party_says_which_versions_its_hub_speaks(folder: Path) -> None:
    def talk(arriving: Iterator[bytes]) -> Iterator[bytes]:
        next(arriving)
        yield wire.Refusal(wire.Reason.VERSION, 7, 9).envelope()

    with fake_hub(folder, talk) as port:
        error = Party(port, files(folder, "hospital")).ended()
    assert isinstance(error, HubRefused)
    assert "versions 7 to 9, this program 1 to 1" in str(error)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (next(wire.envelopes(wire.EnvelopeKind.REQUEST, 2, b"x")), "number"),
        (next(wire.envelopes(wire.EnvelopeKind.ANSWER, 1, b"x")), "kind"),
        (wire.Welcome(1, SESSION, 10).envelope(), "kind"),
        (b"nonsense", "malformed"),
    ],
)
def test_a_party_leaves_a_hub_that_breaks_the_rules(folder: Path, said: bytes, reason: str) -> None:
    def talk(arriving: Iterator[bytes]) -> Iterator[bytes]:
        next(arriving)
        yield wire.Welcome(1, SESSION, 1000).envelope()
        yield said
        next(arriving, None)

    metrics, asked = Metrics(), []
    with fake_hub(folder, talk) as port:
        party = Party(port, files(folder, "hospital"), answer=lambda r: asked.append(r) or r, metrics=metrics)
        assert isinstance(party.ended(), wire.Malformed)
    assert (metrics.refused, asked) == ({reason: 1}, [])


# ------------------------------------------------------------------------------------------------ questions and answers


def test_a_message_of_any_length_arrives_whole(hub: Switchboard, folder: Path) -> None:
    with Party(hub.port, files(folder, "hospital")):
        edge = wire.ENVELOPE - wire.HEAD_SIZE
        for length in (0, 1, 4096, edge - 1, edge, edge + 1, 3 * edge, 5_000_000):
            request = random.Random(length).randbytes(length)
            assert request[::-1] == hub.ask("hospital", request, timeout=PATIENCE).result()


def test_a_message_at_the_limit_arrives_and_one_over_it_is_not_sent(hub: Switchboard, folder: Path) -> None:
    with Party(hub.port, files(folder, "hospital"), answer=lambda request: request):
        request = os.urandom(1 << 20) * (wire.LIMIT >> 20)
        assert request == hub.ask("hospital", request, timeout=PATIENCE).result()
        with pytest.raises(InvalidInput, match="over the limit"):
            hub.ask("hospital", request + b"x")
    assert hub.metrics.messages_sent == 1


def test_an_answer_over_the_hubs_limit_never_leaves(folder: Path) -> None:
    with switchboard(folder, limit=1000) as hub:
        party = Party(hub.port, files(folder, "hospital"), answer=lambda _: bytes(1001))
        with pytest.raises(PeerFailed):
            hub.ask("hospital", b"", timeout=PATIENCE).result()
        assert "over the hub's limit of 1,000" in str(party.ended())


def test_requests_are_answered_in_order_and_parties_do_not_wait_for_each_other(hub: Switchboard, folder: Path) -> None:
    release, order = threading.Event(), []

    def slow(request: bytes) -> bytes:
        order.append(request)
        release.wait(PATIENCE)
        return request

    with Party(hub.port, files(folder, "hospital"), answer=slow), Party(hub.port, files(folder, "lab"), "lab"):
        requests = [bytes([i]) for i in range(10)]
        futures = [hub.ask("hospital", request, timeout=PATIENCE) for request in requests]
        assert hub.ask("lab", b"abc", timeout=PATIENCE).result() == b"cba"
        assert not any(future.done() for future in futures)
        release.set()
        assert requests == [future.result() for future in futures] == order


def test_silence_fails_the_future_and_keeps_the_stream(hub: Switchboard, folder: Path) -> None:
    release = threading.Event()

    def answer(request: bytes) -> bytes:
        if request == b"slow":
            release.wait(PATIENCE)
        return request

    with Party(hub.port, files(folder, "hospital"), answer=answer) as party:
        hub.wait_for(["hospital"], PATIENCE)
        with pytest.raises(PeerTimeout, match=r"'hospital' has not answered within 0.2 s; it is connected"):
            hub.ask("hospital", b"slow", timeout=0.2).result()
        release.set()
        assert hub.ask("hospital", b"next", timeout=PATIENCE).result() == b"next"
        assert party.states.count("connected") == 1


def test_a_party_that_never_came_is_named(hub: Switchboard, folder: Path) -> None:
    with Party(hub.port, files(folder, "lab"), "lab"):
        hub.wait_for(["lab"], PATIENCE)
        with pytest.raises(PeerTimeout, match=r"not connected: 'hospital'; connected is 'lab'\.") as told:
            hub.wait_for(["lab", "hospital"], 0.1)
        assert {"lab"} == hub.connected()
    assert f"dials again within {transport_hub.LONGEST_PAUSE:g} s: wait longer than that" in str(told.value)
    assert transport_hub.LONGEST_PAUSE is transport_party.LONGEST_PAUSE  # written down once
    with pytest.raises(PeerTimeout, match="not connected now"):
        hub.ask("hospital", b"", timeout=0.1).result()
    with pytest.raises(InvalidInput, match="no member"):
        hub.ask("bank", b"")


def test_an_error_at_a_party_reaches_the_hub_without_its_text(
    hub: Switchboard, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: bytes) -> bytes:
        raise ValueError("patient 4711")

    with caplog.at_level(logging.DEBUG, "colonnade.network.transport"):
        party = Party(hub.port, files(folder, "hospital"), answer=answer)
        with pytest.raises(PeerFailed) as told:
            hub.ask("hospital", b"confidential", timeout=PATIENCE).result()
        assert str(party.ended()) == "patient 4711"
    assert "4711" not in f"{told.value}{told.value.__cause__}{caplog.text}"
    assert "confidential" not in caplog.text
    eventually(lambda: not hub.connected())
    with Party(hub.port, files(folder, "hospital")):  # its next process is asked afresh
        assert hub.ask("hospital", b"abc", timeout=PATIENCE).result() == b"cba"


def test_a_slow_party_does_not_make_the_hubs_memory_grow(folder: Path) -> None:
    release = threading.Event()
    with (
        switchboard(folder, {"hospital": None, "lab": None}, limit=1 << 20) as hub,
        Party(hub.port, files(folder, "hospital"), answer=lambda request: (release.wait(PATIENCE), request)[1]),
    ):
        for party, room, size in (("hospital", transport_hub.WINDOW, 10), ("lab", 2, 1 << 20)):
            futures = [hub.ask(party, os.urandom(size), timeout=60.0) for _ in range(room)]
            with pytest.raises(PeerTimeout):
                hub.ask(party, os.urandom(size), timeout=0.1).result()
            assert not any(future.done() for future in futures)
        release.set()
        assert hub.ask("hospital", b"x", timeout=PATIENCE).result() == b"x"


def test_a_long_deadline_does_not_keep_what_was_answered(hub: Switchboard, folder: Path) -> None:
    with Party(hub.port, files(folder, "hospital")):
        kept = []
        for _ in range(5):
            future = hub.ask("hospital", b"abc", timeout=3600.0)
            assert future.result() == b"cba"
            kept.append(weakref.ref(future))
        del future

        def forgotten() -> bool:
            gc.collect()
            return not any(ref() for ref in kept)

        eventually(forgotten)


def test_a_stopped_hub_fails_what_is_outstanding(folder: Path) -> None:
    with switchboard(folder) as hub:
        future = hub.ask("hospital", b"")
    with pytest.raises(ProtocolError, match="stopped"):
        future.result(PATIENCE)
    with pytest.raises(ProtocolError, match="stopped"):
        hub.ask("hospital", b"")


def test_nothing_keeps_running_after_both_ends_stopped(folder: Path) -> None:
    before = set(threading.enumerate())
    with switchboard(folder) as hub, Party(hub.port, files(folder, "hospital")):
        hub.ask("hospital", b"abc", timeout=PATIENCE).result()
        assert set(threading.enumerate()) > before
    eventually(lambda: set(threading.enumerate()) <= before)


# ------------------------------------------------------------------------------------------------ broken connections


@pytest.mark.parametrize("way", ["down", "up"])
def test_a_connection_reset_in_mid_message_loses_and_repeats_nothing(hub: Switchboard, folder: Path, way: str) -> None:
    asked: list[int] = []

    def answer(request: bytes) -> bytes:
        asked.append(len(request))
        return request[::-1]

    with Proxy(hub.port) as proxy, Party(proxy.port, files(folder, "hospital"), answer=answer):
        hub.wait_for(["hospital"], PATIENCE)
        for length, after in ((100_000, 50_000), (3_000_000, 1_700_000)):
            before = hub.session("hospital")
            proxy.cut[way] = after
            request = random.Random(length).randbytes(length)
            assert request[::-1] == hub.ask("hospital", request, timeout=PATIENCE).result()
            assert hub.session("hospital") == before
        assert (proxy.cuts, hub.metrics.reconnects) == (2, 2)
        assert asked == [100_000, 3_000_000]


def cut_for(seconds: float, folder: Path) -> None:
    asked: list[bytes] = []
    with (
        switchboard(folder) as hub,
        Proxy(hub.port) as proxy,
        Party(proxy.port, files(folder, "hospital"), answer=lambda r: asked.append(r) or r[::-1]),
    ):
        assert hub.ask("hospital", b"1", timeout=PATIENCE).result() == b"1"
        proxy.down.set()
        proxy.break_all()
        eventually(lambda: not hub.connected())
        future = hub.ask("hospital", b"23", timeout=seconds + 2 * PATIENCE)
        time.sleep(seconds)
        assert not future.done()
        proxy.down.clear()
        assert future.result() == b"32"
        assert asked == [b"1", b"23"]
        assert hub.metrics.reconnects == 1


def test_a_cut_of_a_second_is_survived(folder: Path) -> None:
    cut_for(1.0, folder)


@pytest.mark.fault
def test_a_cut_of_thirty_seconds_is_survived(folder: Path) -> None:
    cut_for(30.0, folder)


def test_an_answer_that_was_computed_while_the_connection_was_down_is_not_lost(hub: Switchboard, folder: Path) -> None:
    began, release, asked = threading.Event(), threading.Event(), []

    def answer(request: bytes) -> bytes:
        asked.append(request)
        began.set()
        release.wait(PATIENCE)
        return b"answer"

    with Proxy(hub.port) as proxy, Party(proxy.port, files(folder, "hospital"), answer=answer):
        future = hub.ask("hospital", b"request", timeout=PATIENCE)
        assert began.wait(PATIENCE)
        proxy.break_all()
        eventually(lambda: not hub.connected())
        release.set()
        assert future.result() == b"answer"
        assert asked == [b"request"]


def test_parties_come_back_after_the_hub_was_restarted(folder: Path) -> None:
    with switchboard(folder) as hub:
        party = Party(hub.port, files(folder, "hospital"))
        assert hub.ask("hospital", b"abc", timeout=PATIENCE).result() == b"cba"
        session = hub.session("hospital")
    with party, switchboard(folder, address=f"127.0.0.1:{hub.port}") as second:
        assert second.ask("hospital", b"def", timeout=PATIENCE).result() == b"fed"
        assert session == second.session("hospital")


def test_two_hubs_cannot_share_a_port(hub: Switchboard, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot listen"):
        Switchboard(f"127.0.0.1:{hub.port}", files(folder, "coordinator"), {"hospital": None})


def test_a_party_that_comes_back_as_another_process_fails_what_it_was_asked(hub: Switchboard, folder: Path) -> None:
    """And the process that it took over from is told to go: two of them would answer in turns."""
    began, release = threading.Event(), threading.Event()

    def hangs(request: bytes) -> bytes:
        began.set()
        release.wait(PATIENCE)
        return request

    first = Party(hub.port, files(folder, "hospital"), answer=hangs)
    future = hub.ask("hospital", b"abc", timeout=PATIENCE)
    assert began.wait(PATIENCE)
    session = hub.session("hospital")
    with Party(hub.port, files(folder, "hospital")):
        with pytest.raises(PartyRestarted):
            future.result(PATIENCE)
        assert hub.session("hospital") != session
        assert hub.ask("hospital", b"def", timeout=PATIENCE).result() == b"fed"
        release.set()
        assert "(replaced)" in str(first.ended())
        assert hub.ask("hospital", b"ghi", timeout=PATIENCE).result() == b"ihg"


def test_a_party_dials_with_growing_pauses_until_it_is_stopped(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with Party(port, files(folder, "hospital")) as party:
        eventually(lambda: party.states.count("connecting") >= 4)
    dialled = [when for when, state in zip(party.times, party.states, strict=True) if state == "connecting"]
    for turn, (before, after) in enumerate(pairwise(dialled)):
        assert after - before >= 0.1 * 2**turn
    assert party.error is None
    assert party.states[-1] == "stopped"


def told(caplog: pytest.LogCaptureFixture, party: str = "hospital") -> list[tuple[str, str]]:
    """What a party's operator reads at the usual level."""
    seen = [r for r in caplog.records if r.levelno >= logging.INFO]
    return [(r.reason, r.getMessage()) for r in seen if getattr(r, "party", None) == party and hasattr(r, "reason")]


def test_a_party_that_is_there_before_its_hub_says_so_once_an_outage(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_party, "LONGEST_PAUSE", 0.2)  # what is said does not depend on how long it waits
    caplog.set_level(logging.DEBUG, "colonnade.network.transport")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    absent = ("absent", f"nobody listens at 127.0.0.1:{port} yet; trying again until somebody does")
    with Party(port, files(folder, "hospital")) as party:
        eventually(lambda: party.states.count("waiting") >= 3)
        assert [absent] == told(caplog)
        attempts = [r.attempt for r in caplog.records if getattr(r, "reason", "") == "absent"]
        assert attempts[:3] == [1, 2, 3]  # the others are there for whoever looks closer
        with switchboard(folder, address=f"127.0.0.1:{port}") as hub:
            hub.wait_for(["hospital"], PATIENCE)
            eventually(lambda: "connected" in party.states)
            caplog.clear()
        eventually(lambda: party.states[party.states.index("connected") :].count("waiting") >= 4)
    assert {"lost", "absent"} == {
        reason for reason, _ in told(caplog)
    }  # the stream that ended, and that nobody is there
    assert len(told(caplog)) == 2


def test_a_hub_that_greets_and_hangs_up_is_dialled_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time is an outage of its own, with a line for its beginning and one for its end."""
    pauses: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return len(pauses) > 20 and (self.set() or True)

    nothing: Any = None
    party = transport_party._Party("hub:1", nothing, "hospital", bytes, Stop(), Metrics(), lambda _: None, None)
    welcome = wire.Welcome(wire.HIGHEST, bytes(16), wire.LIMIT).envelope()
    monkeypatch.setattr(transport_party, "load", lambda _: None)
    monkeypatch.setattr(party, "check_hub", lambda _: None)
    monkeypatch.setattr(party, "converse", lambda *_: party.listen(iter([welcome]), nothing))
    party.dial_until_stopped()
    assert min(pauses[10:]) >= transport_party.LONGEST_PAUSE / 2


def test_a_party_that_a_hub_hangs_up_on_is_told_what_to_check_once(
    hub: Switchboard, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "colonnade.network.transport")
    stranger = saved(tmp_path, "hospital", made("hospital", made("other authority")), folder / "authority.pem")
    with Party(hub.port, stranger) as party:
        eventually(lambda: party.states.count("waiting") >= 3)
        with pytest.raises(PeerTimeout, match=r"of another authority is turned away .* only its own log shows that"):
            hub.wait_for(["hospital"], 0.1)
    assert {"hospital"} == {getattr(r, "party", "hospital") for r in caplog.records}
    assert {"waiting"} == {r.message for r in caplog.records if not hasattr(r, "party")}  # all that the hub knows
    ((reason, sentence),) = told(caplog)
    assert reason == "unwelcome"
    assert (
        f"hung up when it saw this party's certificate ({tmp_path / 'hospital.pem'}); check that it was issued by the same"
        in sentence
    )
    assert "neither expired nor revoked" in sentence


def test_a_party_that_dialled_another_port_than_the_hubs_is_told(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "colonnade.network.transport")
    with page(list, lambda: True, 0) as port, Party(port, files(folder, "hospital")) as party:
        eventually(lambda: party.states.count("waiting") >= 2)
    ((reason, sentence),) = told(caplog)
    assert reason == "no_tls"
    assert "check that this is the hub's port" in sentence


def test_a_hub_that_does_not_greet_is_dialled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.network.transport.party.GREETING_SECONDS", 0.5)
    greeted = []

    def talk(arriving: Iterator[bytes]) -> Iterator[bytes]:
        greeted.append(wire.greeting(*wire.parse(next(arriving))))
        with suppress(grpc.RpcError):
            next(arriving, None)
        yield from ()

    with fake_hub(folder, talk) as port, Party(port, files(folder, "hospital")):
        eventually(lambda: len(greeted) >= 2)
    assert [hello.attempt for hello in greeted[:2]] == [1, 2]


def test_a_stream_that_does_not_greet_is_closed(
    hub: Switchboard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_hub, "GREETING_SECONDS", 0.2)
    with Raw(hub.port, files(folder, "hospital")) as raw, pytest.raises(grpc.RpcError) as ended:
        next(raw.call)
    assert ended.value.code() == grpc.StatusCode.CANCELLED
    assert_alive(hub, folder)


def test_one_certificate_cannot_hold_the_hub_with_streams_that_never_greet(hub: Switchboard, folder: Path) -> None:
    told: list[object] = []

    def listen(raw: Raw) -> None:
        try:
            told.append(raw.greeted())
        except grpc.RpcError as error:
            told.append(error.code())

    with ExitStack() as stack:
        for _ in range(30):
            raw = stack.enter_context(Raw(hub.port, files(folder, "hospital")))
            threading.Thread(target=listen, args=(raw,), daemon=True).start()
        eventually(lambda: len(told) >= 30 - transport_hub.UNGREETED)
        assert wire.Refusal(wire.Reason.BUSY) in told
        assert_alive(hub, folder)


def test_one_certificate_cannot_keep_the_hub_busy_with_streams_that_greet_and_leave(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_hub, "STREAMS_AT_ONCE", 3)
    monkeypatch.setattr(transport_hub, "STREAMS_A_SECOND", 0.001)
    with switchboard(folder, {"hospital": None, "lab": None}) as hub:
        said = []
        for attempt in range(1, 6):
            with Raw(hub.port, files(folder, "hospital")) as raw:
                said.append(raw.hello(attempt=attempt))
        assert [isinstance(one, wire.Welcome) for one in said[:3]] == [True] * 3
        assert said[3:] == [wire.Refusal(wire.Reason.BUSY)] * 2
        assert hub.metrics.refused["busy"] == 2
        assert_alive(hub, folder)  # another's pace is its own


# ------------------------------------------------------------------------------------------------ what is refused


def test_a_stream_that_is_replayed_is_refused(hub: Switchboard, folder: Path) -> None:
    tls = files(folder, "hospital")
    with Raw(hub.port, tls) as first, Raw(hub.port, tls) as second, Raw(hub.port, tls) as third:
        assert isinstance(first.hello(attempt=5), wire.Welcome)
        assert wire.Refusal(wire.Reason.REPLAYED) == second.hello(attempt=5)
        assert wire.Refusal(wire.Reason.REPLAYED) == third.hello(attempt=4)
        assert {"hospital"} == hub.connected()
    assert_alive(hub, folder)


def test_a_process_that_was_replaced_cannot_come_back(hub: Switchboard, folder: Path) -> None:
    tls = files(folder, "hospital")
    with Raw(hub.port, tls) as first, Raw(hub.port, tls) as second, Raw(hub.port, tls) as third:
        assert isinstance(first.hello(session=b"a" * 16), wire.Welcome)
        assert isinstance(second.hello(session=b"b" * 16), wire.Welcome)
        assert wire.Refusal(wire.Reason.REPLACED) == third.hello(session=b"a" * 16, attempt=9)
        assert (b"b" * 16).hex() == hub.session("hospital")


def head(**fields: int) -> bytes:
    """An envelope's head; by default that of a one-byte answer to request 1."""
    values = {"version": 1, "kind": 5, "code": 0, "number": 1, "offset": 0, "length": 1} | fields
    return struct.pack("<4sBBHQII", b"clns", *values.values())


FULL = wire.ENVELOPE - wire.HEAD_SIZE
BAD_ANSWERS: dict[str, tuple[list[bytes], str]] = {
    "not an envelope": ([b"confidential"], "malformed"),
    "nothing": ([b""], "malformed"),
    "another magic": ([b"XXXX" + head()[4:] + b"x"], "malformed"),
    "another version": ([head(version=9) + b"x"], "malformed"),
    "an unknown kind": ([head(kind=77) + b"x"], "kind"),
    "a request": ([head(kind=4) + b"x"], "kind"),
    "a second greeting": ([wire.PartyHello("hospital", SESSION, 2).envelope()], "kind"),
    "an answer with a reason": ([head(code=2) + b"x"], "malformed"),
    "a number that was not asked": ([head(number=2) + b"x"], "number"),
    "no number": ([head(number=0) + b"x"], "number"),
    "more than announced": ([head() + b"xy"], "malformed"),
    "a crumb": ([head(length=9) + b"x"], "malformed"),
    "a middle without a beginning": ([head(offset=FULL, length=FULL + 1) + b"x"], "repeated"),
    "a repeated chunk": ([head(length=2 * FULL) + bytes(FULL)] * 2, "repeated"),
    "a length that changes": (
        [head(length=2 * FULL) + bytes(FULL), head(offset=FULL, length=FULL + 1) + b"x"],
        "malformed",
    ),
    "over the limit": ([head(length=wire.LIMIT + 1) + bytes(FULL)], "size"),
    "a failure with a body": ([head(kind=6) + b"x"], "malformed"),
}


@pytest.mark.parametrize(("answers", "reason"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_a_bad_answer_ends_its_stream_and_nothing_else(
    hub: Switchboard, folder: Path, answers: list[bytes], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "colonnade.network.transport"), Raw(hub.port, files(folder, "hospital")) as raw:
        assert isinstance(raw.hello(), wire.Welcome)
        future = hub.ask("hospital", b"question", timeout=60.0)
        assert raw.hear()[0].kind == wire.EnvelopeKind.REQUEST
        for answer in answers:
            raw.say(answer)
        assert wire.Refusal(wire.Reason[reason.upper()]) == raw.greeted()
        assert list(raw.call) == []
        assert not future.done()  # a proper stream of the same process may still answer it
    assert {reason: 1} == hub.metrics.refused
    assert f"refused party=hospital reason={reason}" in caplog.text
    assert "question" not in caplog.text
    assert "confidential" not in caplog.text
    eventually(lambda: "hospital" not in hub.connected())
    with Raw(hub.port, files(folder, "hospital")) as raw:
        assert isinstance(raw.hello(attempt=2), wire.Welcome)
        number = raw.hear()[0].number
        raw.say(next(wire.envelopes(wire.EnvelopeKind.ANSWER, number, b"good")))
        assert future.result(PATIENCE) == b"good"


def test_an_envelope_over_a_mebibyte_is_not_even_read(hub: Switchboard, folder: Path) -> None:
    with Raw(hub.port, files(folder, "hospital")) as raw:
        raw.hello()
        hub.ask("hospital", b"question")
        raw.hear()
        raw.say(bytes(wire.ENVELOPE + 1))
        with pytest.raises(grpc.RpcError) as ended:
            next(raw.call)
    assert ended.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert_alive(hub, folder)


# ------------------------------------------------------------------------------------------------ the parser


@given(
    kind=st.sampled_from([wire.EnvelopeKind.REQUEST, wire.EnvelopeKind.ANSWER]),
    number=st.integers(1, 2**64 - 1),
    message=st.binary(max_size=100)
    | st.integers(1, 3 * FULL).map(bytes)
    | st.integers(1, 200_000).map(lambda n: random.Random(n).randbytes(n)),
)
def test_what_is_cut_into_envelopes_is_put_together(kind: wire.EnvelopeKind, number: int, message: bytes) -> None:
    assembler, found = wire.Assembler(), None
    for envelope in wire.envelopes(kind, number, message):
        assert found is None
        assert len(envelope) <= wire.ENVELOPE
        top, body = wire.parse(envelope)
        assert (kind, number) == (top.kind, top.number)
        found = assembler.feed(top, body)
    assert message == found


def fuzz(count: int, seed: int) -> dict[str, int]:
    """Envelopes with flipped bytes, cut, extended, or all random: each is parsed or refused, and nothing else happens."""
    rng = random.Random(seed)
    good = [
        wire.PartyHello("hospital", SESSION, 1).envelope(),
        wire.Welcome(1, SESSION, 100).envelope(),
        wire.Refusal(wire.Reason.NAME).envelope(),
        wire.failed(3),
        *wire.envelopes(wire.EnvelopeKind.REQUEST, 1, rng.randbytes(50)),
        *wire.envelopes(wire.EnvelopeKind.ANSWER, 1, bytes(9)),
    ]
    outcomes = dict.fromkeys(("read", "refused"), 0)
    for _ in range(count):
        envelope = bytearray(rng.choice(good))
        match rng.randrange(4):
            case 0:
                for _ in range(rng.randint(1, 4)):
                    envelope[rng.randrange(len(envelope))] = rng.randrange(256)
            case 1:
                del envelope[rng.randrange(len(envelope)) :]
            case 2:
                envelope += rng.randbytes(rng.randint(1, 40))
            case _:
                envelope[4:] = rng.randbytes(rng.randint(0, 60))
        try:
            top, body = wire.parse(bytes(envelope), 1 << 20)
            if top.kind <= wire.EnvelopeKind.REFUSED:
                wire.greeting(top, body)
            elif top.kind != wire.EnvelopeKind.FAILED:
                message = wire.Assembler().feed(top, body)
                assert message is None or len(message) == top.length <= 1 << 20
            outcomes["read"] += 1
        except wire.Malformed:
            outcomes["refused"] += 1
    for envelope in good:
        wire.parse(envelope)
    return outcomes


def test_twenty_thousand_damaged_envelopes_are_read_or_refused() -> None:
    outcomes = fuzz(20_000, seed=1)
    assert outcomes["refused"] > 15_000
    assert outcomes["read"] > 0  # a changed name or number is still an envelope


@pytest.mark.fault
def test_a_million_damaged_envelopes_are_read_or_refused() -> None:
    assert sum(fuzz(1_000_000, seed=2).values()) == 1_000_000


@pytest.mark.parametrize("enum", [wire.EnvelopeKind, wire.Reason])
def test_the_documents_list_every_kind_and_reason(enum: type[wire.EnvelopeKind] | type[wire.Reason]) -> None:
    text = (Path(__file__).parents[2] / "docs/develop/wire.md").read_text().split("## Between organisations")[1]
    for member in enum:
        assert f"\n- {member.value} `{member.name}`" in text


# ------------------------------------------------------------------------------------------------ metrics


def test_the_metrics_count_messages_and_bytes(folder: Path) -> None:
    ours, theirs = Metrics(), Metrics()
    with (
        switchboard(folder, metrics=ours) as hub,
        Party(hub.port, files(folder, "hospital"), answer=lambda _: b"ok", metrics=theirs),
    ):
        hub.ask("hospital", bytes(100_000), timeout=PATIENCE).result()
        hub.ask("hospital", b"123", timeout=PATIENCE).result()
    assert (ours.messages_sent, ours.bytes_sent, ours.messages_received, ours.bytes_received) == (2, 100_003, 2, 4)
    assert (theirs.bytes_received, theirs.bytes_sent) == (100_003, 4)
