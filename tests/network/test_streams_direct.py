"""Lines between parties: who gets in, what survives a broken connection, and what is refused."""

from __future__ import annotations

import datetime
import logging
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import pytest

pytest.importorskip("grpc", reason="the network needs the extra colonnade[grpc]")

from colonnade.errors import InvalidInput, WireError
from colonnade.network import certs
from colonnade.network.transport import envelope as wire
from colonnade.network.transport.direct import STRANGERS, Lines, Neighbour
from tests.helpers.streams import Proxy, eventually, files

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PATIENCE = 20.0  # seconds until a test gives up; nothing here takes long on an idle machine
SESSION = bytes(16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bank listens, the shop and the lab dial."""
    place = tmp_path_factory.mktemp("certs")
    certs.init(place)
    certs.issue(place, "bank", hosts=["localhost"])
    for name in ("shop", "lab"):
        certs.issue(place, name)
    return place


class End:
    """The lines of one party, and what came over them."""

    def __init__(
        self,
        folder: Path,
        name: str,
        neighbours: dict[str, Neighbour],
        listen: str | None = None,
        patience: float = 1.0,
    ) -> None:
        self.got: list[tuple[str, bytes]] = []
        options = {"listen": listen, "patience": patience}
        self.lines = Lines(name, files(folder, name), neighbours, self.take, **options)

    def take(self, sender: str, message: bytes) -> None:
        if message == b"nonsense":
            raise WireError("not a letter")
        self.got.append((sender, message))

    def __enter__(self) -> End:
        self.lines.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.stop()


@contextmanager
def bank(folder: Path, **more: object) -> Iterator[End]:
    around = {"shop": Neighbour(None), "lab": Neighbour(None)}
    with End(folder, "bank", around, "127.0.0.1:0", **more) as end:
        yield end


@contextmanager
def dialler(folder: Path, port: int, name: str = "shop", **more: object) -> Iterator[End]:
    with End(folder, name, {"bank": Neighbour(f"127.0.0.1:{port}")}, **more) as end:
        yield end


def assert_alive(listener: End, folder: Path) -> None:
    """Who has refused somebody still hears another."""
    before = len(listener.got)
    with dialler(folder, listener.lines.port, "lab", patience=PATIENCE) as lab:
        assert lab.lines.send("bank", b"well")
        eventually(lambda: listener.got[before:] == [("lab", b"well")])


# ------------------------------------------------------------------------------------------------ messages


def test_both_ends_send_when_they_like_and_every_message_comes_once_in_order(folder: Path) -> None:
    rng = random.Random(1)
    sizes = [0, 1, 40, 5000, wire.ENVELOPE, 3 * wire.ENVELOPE + 7, 200]
    there, back = ([rng.randbytes(size) for size in sizes * 3] for _ in range(2))
    with bank(folder) as listener, dialler(folder, listener.lines.port, patience=PATIENCE) as shop:
        shop.lines.wait_for(["bank"], PATIENCE)
        one = threading.Thread(target=lambda: [shop.lines.send("bank", message) for message in there])
        one.start()
        assert all(listener.lines.send("shop", message) for message in back)
        one.join(PATIENCE)
        eventually(lambda: len(listener.got) == len(shop.got) == len(there))
        assert [("shop", message) for message in there] == listener.got
        assert [("bank", message) for message in back] == shop.got
        eventually(lambda: not shop.lines._lines["bank"].unconfirmed and not listener.lines._lines["shop"].unconfirmed)
        assert listener.lines.metrics.bytes_received == sum(map(len, there))


def first_times(end: End) -> list[int]:
    """The first byte of each message, when it came first."""
    return list(dict.fromkeys(message[0] for _, message in end.got))


def test_connections_that_break_lose_no_message(folder: Path) -> None:
    """In mid-message, and between two: what was not confirmed comes again, and the order stays."""
    messages = [bytes([number]) + random.Random(number).randbytes(300_000) for number in range(12)]
    with bank(folder) as listener, Proxy(listener.lines.port) as proxy:
        proxy.cut["up"] = 1_000_000
        with dialler(folder, proxy.port, patience=PATIENCE) as shop:
            for number, message in enumerate(messages):
                assert shop.lines.send("bank", message)
                if number in (6, 9):
                    eventually(lambda: len(first_times(listener)) > 5)
                    proxy.break_all()
            eventually(lambda: first_times(listener) == list(range(12)))
            assert proxy.cuts == 1
            assert shop.lines.metrics.reconnects >= 2
            assert all(message in messages for _, message in listener.got)


def test_a_message_takes_another_road_once_its_line_has_been_down_for_the_patience_stated(folder: Path) -> None:
    with dialler(folder, 1, patience=0.2) as shop:  # nobody listens there
        assert not shop.lines.send("bank", b"letter")
        assert not shop.lines.send("nobody", b"letter")
    with dialler(folder, 1, patience=10 * PATIENCE) as shop:
        shop.lines._lines["bank"].since -= 10 * PATIENCE  # the same outage is waited for once
        second = threading.Thread(target=shop.lines.send, args=("bank", b"letter"), daemon=True)
        second.start()
        second.join(PATIENCE)
        assert not second.is_alive()


def test_a_message_over_the_limit_takes_another_road(folder: Path) -> None:
    with bank(folder) as listener, dialler(folder, listener.lines.port, patience=PATIENCE) as shop:
        assert not shop.lines.send("bank", bytes(wire.LIMIT + 1))
        assert shop.lines.send("bank", b"letter")


def test_a_neighbour_that_comes_back_is_reached_again(folder: Path) -> None:
    with bank(folder) as first:
        port = first.lines.port
        shop = End(folder, "shop", {"bank": Neighbour(f"127.0.0.1:{port}")}, patience=PATIENCE)
        shop.lines.start()
        assert shop.lines.send("bank", b"one")
        eventually(lambda: first.got == [("shop", b"one")])
    around = {"shop": Neighbour(None)}
    with End(folder, "bank", around, f"127.0.0.1:{port}", patience=PATIENCE) as second:
        assert second.lines.send("shop", b"two")
        eventually(lambda: shop.got == [("bank", b"two")])
    shop.lines.stop()


# ------------------------------------------------------------------------------------------------ who gets in


class Raw:
    """A dialler that says whatever a test wants, over a real TLS connection."""

    def __init__(
        self, port: int, authority: Path, pair: tuple[Path, Path] | None, version: ssl.TLSVersion | None = None
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(authority)
        if version is not None:
            context.maximum_version = version
        if pair is not None:
            context.load_cert_chain(*pair)
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
        try:
            self.line = context.wrap_socket(plain)
        except BaseException:
            plain.close()
            raise

    def say(self, *envelopes: bytes) -> None:
        with suppress(OSError):  # it may have hung up
            for envelope in envelopes:
                self.line.sendall(struct.pack("<I", len(envelope)) + envelope)

    def hear(self) -> object:
        """A greeting; None if the other end hung up."""
        raw = self.read(struct.unpack("<I", self.read(4) or bytes(4))[0])
        return wire.greeting(*wire.parse(raw)) if raw else None

    def read(self, size: int) -> bytes:
        found = b""
        with suppress(OSError):
            while len(found) < size and (part := self.line.recv(size - len(found))):
                found += part
        return found

    def hello(self, name: str = "shop", attempt: int = 1) -> object:
        self.say(wire.PartyHello(name, SESSION, attempt).envelope())
        return self.hear()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()


def pair(folder: Path, name: str = "shop") -> tuple[Path, Path]:
    return folder / f"{name}.pem", folder / f"{name}.key"


def raw(listener: End, folder: Path, name: str = "shop", **more: object) -> Raw:
    return Raw(listener.lines.port, folder / "authority.pem", pair(folder, name), **more)


def strange(kind: str, folder: Path, tmp_path: Path) -> tuple[Path, Path] | None:
    """Certificate and key as a stranger may have them, who calls itself the shop."""
    if kind == "no certificate":
        return None
    if kind == "another authority":
        certs.init(tmp_path / "elsewhere")
        certs.issue(tmp_path / "elsewhere", "shop")
        return pair(tmp_path / "elsewhere")
    if kind == "another name":
        return pair(folder, "lab")
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=400)
    for file in ("authority.pem", "authority.key", "revoked.pem"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    (tmp_path / "authority.key").chmod(0o600)
    (tmp_path / "issued").mkdir()
    with mock.patch("colonnade.network.certs._now", return_value=then):
        certs.issue(tmp_path, "shop", days=1)
    return pair(tmp_path)


REASONS = {"no certificate": "tls", "another authority": "tls", "another name": "name", "expired": "tls"}


@pytest.mark.parametrize("kind", REASONS)
def test_a_stranger_is_refused_and_others_are_still_heard(folder: Path, tmp_path: Path, kind: str) -> None:
    shown = strange(kind, folder, tmp_path)
    with bank(folder) as listener:
        with suppress(OSError), Raw(listener.lines.port, folder / "authority.pem", shown) as stranger:
            assert not isinstance(stranger.hello(), wire.Welcome)
        eventually(lambda: listener.lines.metrics.refused == {REASONS[kind]: 1})
        assert listener.lines.connected() == set()
        assert listener.got == []
        assert_alive(listener, folder)


def test_a_neighbour_that_is_to_be_dialled_does_not_get_in_by_dialling(folder: Path) -> None:
    """Who dials follows from the federation file: two lines between the same two would be one too many."""
    around = {"shop": Neighbour("127.0.0.1:1"), "lab": Neighbour(None)}
    with End(folder, "bank", around, "127.0.0.1:0") as listener:
        with raw(listener, folder) as shop:
            assert shop.hello() == wire.Refusal(wire.Reason.NAME)
        assert_alive(listener, folder)


def test_tls_before_1_3_is_refused(folder: Path) -> None:
    with bank(folder) as listener:
        with pytest.raises(ssl.SSLError):
            raw(listener, folder, version=ssl.TLSVersion.TLSv1_2)
        assert_alive(listener, folder)


def test_a_pinned_key_decides(folder: Path) -> None:
    right = certs.fingerprint(certs.read(folder / "shop.pem"))
    for pin, let_in in ((right, True), (bytes(32), False)):
        with End(folder, "bank", {"shop": Neighbour(None, pin)}, "127.0.0.1:0") as listener:
            with raw(listener, folder) as shop:
                assert isinstance(shop.hello(), wire.Welcome) == let_in
            assert dict(listener.lines.metrics.refused) == ({} if let_in else {"fingerprint": 1})


def revocable(folder: Path, place: Path) -> Path:
    """An authority of its own, since what is revoked stays so."""
    certs.init(place)
    certs.issue(place, "bank", hosts=["localhost"])
    for name in ("shop", "lab"):
        certs.issue(place, name)
    return place


def test_a_certificate_that_is_revoked_loses_its_line_and_gets_no_other(folder: Path, tmp_path: Path) -> None:
    place = revocable(folder, tmp_path / "certs")
    with bank(place) as listener, dialler(place, listener.lines.port, patience=PATIENCE) as shop:
        assert shop.lines.send("bank", b"before")
        eventually(lambda: listener.got == [("shop", b"before")])
        certs.revoke(place, "shop")
        time.sleep(1.1 * certs.RevocationList.LOOK_AGAIN)
        shop.lines.send("bank", b"after")
        eventually(lambda: listener.lines.metrics.refused["revoked"] > 1)  # the line, and the next attempt
        assert listener.lines.connected() == set()
        assert listener.got == [("shop", b"before")]
        assert_alive(listener, place)


# Whoever is refused dials again: asyncio drops a handshake that is under way when the impostor stops, and says so.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
def test_a_dialler_says_nothing_to_an_impostor(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody else's certificate of the same authority, at the address of the bank."""
    place = revocable(folder, tmp_path / "certs")
    certs.issue(place, "lab", hosts=["localhost"], replace=True)
    with (
        caplog.at_level(logging.INFO, "colonnade.network.transport"),
        End(place, "lab", {"shop": Neighbour(None)}, "127.0.0.1:0") as impostor,
        dialler(place, impostor.lines.port, patience=0.5) as shop,
    ):
        assert not shop.lines.send("bank", b"confidential")
        assert shop.lines.metrics.refused["name"] >= 1
        assert impostor.got == []
        assert impostor.lines.connected() == set()
    assert "refused party=bank reason=name" in caplog.text
    assert "confidential" not in caplog.text


def test_a_certificate_without_a_host_cannot_listen(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="--host"):
        End(folder, "shop", {"lab": Neighbour(None)}, "127.0.0.1:0")


def test_an_address_that_is_taken_is_told(folder: Path) -> None:
    with bank(folder) as listener, pytest.raises(InvalidInput, match="cannot listen"):
        End(folder, "bank", {}, f"127.0.0.1:{listener.lines.port}")


def test_strangers_that_say_nothing_get_few_places(folder: Path) -> None:
    with bank(folder) as listener:
        crowd = [socket.create_connection(("127.0.0.1", listener.lines.port)) for _ in range(2 * STRANGERS + 4)]
        eventually(lambda: listener.lines.metrics.refused["busy"] >= STRANGERS)
        for one in crowd:
            one.close()
        assert_alive(listener, folder)


def test_strangers_do_not_fill_the_disk_with_lines_about_them(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    quiet = mock.patch("colonnade.network.transport.direct.QUIET", 1e9)
    with caplog.at_level(logging.INFO), quiet, bank(folder) as listener:
        for made in range(1, 41):
            with socket.create_connection(("127.0.0.1", listener.lines.port)) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                eventually(lambda made=made: listener.lines.metrics.refused["tls"] >= made)
        said = [record for record in caplog.records if record.getMessage() == "refused"]
        assert len(said) == 1
        assert_alive(listener, folder)


@pytest.mark.parametrize("quiet", [1e9, 0.05])
def test_a_neighbour_that_comes_and_goes_does_not_fill_the_log(
    folder: Path, caplog: pytest.LogCaptureFixture, quiet: float
) -> None:
    """Its first up and down are told at once; the rest is counted until there was quiet, and the last word is how it stands."""
    caplog.set_level(logging.INFO, "colonnade.network.transport")
    with mock.patch("colonnade.network.transport.direct.QUIET", quiet), bank(folder) as listener:
        line = listener.lines._lines["shop"]
        for number in range(1, 21):
            with raw(listener, folder) as shop:
                assert isinstance(shop.hello(attempt=number), wire.Welcome)
            eventually(lambda number=number: line.changes == 2 * number)
        if quiet < 1:
            eventually(lambda: line.logged[1] == 40)
    said = [r for r in caplog.records if r.message.startswith("direct line ") and r.party == "shop"]
    assert [(r.message, r.changes) for r in said[:2]] == [("direct line up", 1), ("direct line down", 1)]
    assert said[-1].message == "direct line down"
    if quiet > 1:
        assert len(said) == 2
    else:
        assert sum(record.changes for record in said) == 40


def test_a_host_that_is_called_as_a_party_is_does_not_prove_that_party(folder: Path, tmp_path: Path) -> None:
    """Whoever listens has hosts in its certificate, and a host may have any name."""
    for file in ("authority.pem", "authority.key", "revoked.pem"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    (tmp_path / "issued").mkdir()
    certs.issue(tmp_path, "lab", hosts=["shop"])
    with bank(folder) as listener:
        with Raw(listener.lines.port, folder / "authority.pem", pair(tmp_path, "lab")) as lab:
            assert wire.Refusal(wire.Reason.NAME) == lab.hello("shop")
        assert_alive(listener, folder)


# ------------------------------------------------------------------------------------------------ what is refused


def head(**fields: int) -> bytes:
    """An envelope's head; by default that of message 1, of one byte."""
    values = {"version": 1, "kind": 4, "code": 0, "number": 1, "offset": 0, "length": 1} | fields
    return struct.pack("<4sBBHQII", b"clns", *values.values())


FULL = wire.ENVELOPE - wire.HEAD_SIZE
BAD: dict[str, tuple[list[bytes], str]] = {
    "not an envelope": ([b"confidential"], "malformed"),
    "nothing": ([b""], "malformed"),
    "an unknown kind": ([head(kind=77) + b"x"], "kind"),
    "a failure": ([head(kind=6, length=0)], "kind"),
    "a second greeting": ([wire.PartyHello("shop", SESSION, 2).envelope()], "kind"),
    "the second message first": ([head(number=2) + b"x"], "number"),
    "a message that is played again": ([head() + b"x", head() + b"x"], "number"),
    "a confirmation of nothing": ([head(kind=5, length=0)], "number"),
    "a confirmation with a body": ([head(kind=5) + b"x"], "number"),
    "a repeated chunk": ([head(length=2 * FULL) + bytes(FULL)] * 2, "repeated"),
    "over the limit": ([head(length=wire.LIMIT + 1) + bytes(FULL)], "size"),
    "a letter that is none": ([head(length=8) + b"nonsense"], "malformed"),
}


@pytest.mark.parametrize(("said", "reason"), BAD.values(), ids=BAD)
def test_what_has_no_place_on_a_line_ends_it_and_nothing_else(
    folder: Path, said: list[bytes], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "colonnade"), bank(folder) as listener:
        with raw(listener, folder) as shop:
            assert isinstance(shop.hello(), wire.Welcome)
            shop.say(*said)
            while isinstance(answer := heard(shop), wire.Head):
                """Its confirmations."""
            assert answer in (wire.Refusal(wire.Reason[reason.upper()]), None)
        eventually(lambda: listener.lines.metrics.refused == {reason: 1})
        assert f"refused party=shop reason={reason}" in caplog.text
        assert "confidential" not in caplog.text
        assert_alive(listener, folder)


def heard(shop: Raw) -> object:
    envelope = shop.read(struct.unpack("<I", shop.read(4) or bytes(4))[0])
    if not envelope:
        return None
    top, body = wire.parse(envelope)
    return top if top.kind == wire.EnvelopeKind.ANSWER else wire.greeting(top, body)


def test_an_oversized_envelope_is_refused_before_it_is_read(folder: Path) -> None:
    with bank(folder) as listener:
        with raw(listener, folder) as shop:
            assert isinstance(shop.hello(), wire.Welcome)
            shop.line.sendall(struct.pack("<I", wire.ENVELOPE + 1))  # and not one byte of it
            assert shop.hear() == wire.Refusal(wire.Reason.SIZE)
        assert_alive(listener, folder)


def test_a_greeting_that_is_played_again_is_refused(folder: Path) -> None:
    with bank(folder) as listener:
        for attempt, welcome in ((5, True), (5, False), (4, False), (6, True)):
            with raw(listener, folder) as shop:
                assert isinstance(shop.hello(attempt=attempt), wire.Welcome) == welcome
        assert listener.lines.metrics.refused == {"replayed": 2}
        assert_alive(listener, folder)


def test_damaged_envelopes_get_a_code_or_nothing_and_leave_the_listener_alive(folder: Path) -> None:
    rng = random.Random(3)
    other = b"d" * 16  # a damaged greeting may be a good one of a later attempt: of that process, not of ours
    with bank(folder) as listener:
        for attempt in range(1, 61):
            with raw(listener, folder) as shop:
                greeted = attempt % 2 == 0
                if greeted:
                    assert isinstance(shop.hello(attempt=attempt), wire.Welcome)
                whole = head() + b"x" if greeted else wire.PartyHello("shop", other, attempt).envelope()
                envelope = bytearray(whole)
                for _ in range(rng.randint(1, 6)):
                    envelope[rng.randrange(len(envelope))] ^= rng.randrange(1, 256)
                shop.say(bytes(envelope))
        assert_alive(listener, folder)
