"""Claims about single envelopes at the bounds of their rules, and about one line's books, without a connection."""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from colonnade.errors import InvalidInput
from colonnade.network.transport import direct, tls
from colonnade.network.transport import envelope as wire
from colonnade.network.transport.direct import DirectLine, LineLost, Lines, Neighbour, Talk
from colonnade.network.transport.envelope import EnvelopeKind, Malformed, Reason
from colonnade.network.transport.metrics import Metrics, exposition

HEAD = struct.Struct("<4sBBHQII")  # as docs/develop/wire.md writes it
CHUNK = (1 << 20) - 24


def made(kind: int, body: bytes = b"", **more: Any) -> bytes:
    told = {"magic": b"clns", "version": 1, "code": 0, "number": 1, "offset": 0, "length": len(body)}
    told |= {"version": 0, "number": 0} if kind <= 3 else {}
    told |= more
    order = (told[name] for name in ("code", "number", "offset", "length"))
    return HEAD.pack(told["magic"], told["version"], kind, *order) + body


def refused(envelope: bytes, limit: int = wire.LIMIT) -> Reason | None:
    try:
        wire.parse(envelope, limit)
    except Malformed as error:
        return error.reason
    return None


GOOD = [
    made(EnvelopeKind.REQUEST, b"abc"),
    made(EnvelopeKind.ANSWER, b""),
    made(EnvelopeKind.REQUEST, bytes(CHUNK), length=CHUNK + 1),
    made(EnvelopeKind.REQUEST, b"x", offset=CHUNK, length=CHUNK + 1),
    made(EnvelopeKind.FAILED),
    made(EnvelopeKind.HELLO, b"abc"),
    made(EnvelopeKind.REFUSED, b"ab", code=3),
]
BAD = [
    (GOOD[0][:23], Reason.MALFORMED),
    (made(EnvelopeKind.REQUEST, bytes(CHUNK + 1)), Reason.MALFORMED),
    (made(EnvelopeKind.REQUEST, magic=b"clnt"), Reason.MALFORMED),
    (made(7), Reason.KIND),
    (made(0), Reason.KIND),
    (made(EnvelopeKind.REQUEST, b"abc", version=0), Reason.MALFORMED),
    (made(EnvelopeKind.REQUEST, b"abc", version=2), Reason.MALFORMED),
    (made(EnvelopeKind.REQUEST, b"abc", code=1), Reason.MALFORMED),
    (made(EnvelopeKind.REQUEST, b"abc", number=0), Reason.NUMBER),
    (made(EnvelopeKind.REQUEST, b"abc", length=4), Reason.MALFORMED),  # a crumb
    (made(EnvelopeKind.REQUEST, b"abc", length=2), Reason.MALFORMED),
    (made(EnvelopeKind.REQUEST, b"", offset=3, length=3), Reason.MALFORMED),
    (made(EnvelopeKind.REQUEST, b"abc", length=wire.LIMIT + 1), Reason.SIZE),
    *((made(EnvelopeKind.FAILED, **{name: 1}), Reason.MALFORMED) for name in ("code", "offset", "length")),
    (made(EnvelopeKind.FAILED, b"a", length=0), Reason.MALFORMED),
    *((made(EnvelopeKind.HELLO, b"abc", **{name: 1}), Reason.MALFORMED) for name in ("version", "number", "offset")),
    *((made(EnvelopeKind.HELLO, b"abc", **{name: 2}), Reason.MALFORMED) for name in ("code", "length")),
]


def test_an_envelope_keeps_every_rule_that_one_can_keep():
    assert [refused(one) for one in GOOD] == [None] * len(GOOD)
    assert [refused(one) for one, _ in BAD] == [reason for _, reason in BAD]
    assert [refused(GOOD[0], limit) for limit in (3, 2)] == [None, Reason.SIZE]


def fed(*envelopes: bytes) -> bytes | Reason | None:
    assembler, found = wire.Assembler(), None
    try:
        for one in envelopes:
            found = assembler.feed(*wire.parse(one))
    except Malformed as error:
        return error.reason
    return found


def test_chunks_of_one_message_alone_are_put_together_each_at_its_place():
    whole = {"length": 2 * CHUNK + 1}
    first, second = (made(EnvelopeKind.REQUEST, bytes([at]) * CHUNK, offset=at * CHUNK, **whole) for at in (0, 1))
    last = made(EnvelopeKind.REQUEST, b"z", offset=2 * CHUNK, **whole)
    assert fed(first, second, last) == bytes(CHUNK) + b"\1" * CHUNK + b"z"
    assert fed(first, second) is None
    for wrong in ((second,), (first, first), (first, last), (first, second, second)):
        assert fed(*wrong) is Reason.REPEATED
    assert fed(first, made(EnvelopeKind.REQUEST, b"\1" * CHUNK, offset=CHUNK, number=2, **whole)) is Reason.NUMBER
    others = (
        made(EnvelopeKind.ANSWER, b"\1" * CHUNK, offset=CHUNK, **whole),
        made(EnvelopeKind.REQUEST, b"\1" * CHUNK, offset=CHUNK, length=2 * CHUNK + 2),
    )
    assert [fed(first, other) for other in others] == [Reason.MALFORMED] * 2


def test_a_message_travels_as_it_is_so_that_its_size_says_nothing_of_what_it_holds():
    draw = random.Random(0)
    for size in (0, 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7):
        sizes = {
            tuple(len(one) for one in wire.envelopes(EnvelopeKind.ANSWER, 1, message))
            for message in (bytes(size), draw.randbytes(size))
        }
        assert len(sizes) == 1
        assert sum(*sizes) == size + 24 * len(*sizes)


def test_a_greeting_has_a_name_of_1_to_1024_bytes_and_words_of_their_lengths():
    fixed = struct.pack("<BB16sQ", 1, 3, bytes(16), 7)

    def greeting(kind: EnvelopeKind, body: bytes, **more: int) -> Any:
        try:
            return wire.greeting(*wire.parse(made(kind, body, **more)))
        except Malformed as error:
            return error.reason

    for length in (1, 1024):
        assert greeting(EnvelopeKind.HELLO, fixed + b"x" * length) == wire.PartyHello("x" * length, bytes(16), 7, 1, 3)
    for name in (b"", b"x" * 1025):
        assert greeting(EnvelopeKind.HELLO, fixed + name) is Reason.KIND
    assert greeting(EnvelopeKind.HELLO, fixed + b"\xff") is Reason.MALFORMED
    assert greeting(EnvelopeKind.REFUSED, b"\2\5", code=3) == wire.Refusal(Reason.EXPIRED, 2, 5)
    assert wire.Refusal(Reason.EXPIRED, 2, 5).envelope() == made(EnvelopeKind.REFUSED, b"\2\5", code=3)
    assert greeting(EnvelopeKind.REFUSED, b"\2\5", code=15) is Reason.MALFORMED
    assert greeting(EnvelopeKind.WELCOME, b"\1" + bytes(16) + b"\0\1\0\0") == wire.Welcome(1, bytes(16), 256)
    assert greeting(EnvelopeKind.WELCOME, b"\1" + bytes(19)) is Reason.MALFORMED


def test_two_ends_speak_where_their_versions_meet_and_a_limit_is_no_larger_than_ours(monkeypatch):
    monkeypatch.setattr(wire, "LOWEST", 2)
    monkeypatch.setattr(wire, "HIGHEST", 4)
    for lowest, highest in ((1, 2), (4, 9), (3, 3)):
        wire.PartyHello("a", b"", 1, lowest, highest).check_version()
    for version, limit in ((2, 1), (4, wire.LIMIT)):
        wire.Welcome(version, b"", limit).check()
    hellos = [wire.PartyHello("a", b"", 1, lowest, highest) for lowest, highest in ((1, 1), (5, 9))]
    welcomes = [wire.Welcome(*about) for about in ((1, b"", 1), (5, b"", 1), (3, b"", 0), (3, b"", wire.LIMIT + 1))]
    for check in (*(one.check_version for one in hellos), *(one.check for one in welcomes)):
        with pytest.raises(Malformed) as error:
            check()
        assert error.value.reason is Reason.VERSION


# ------------------------------------------------------------------------------------------------ addresses, peers


def test_an_address_is_a_host_and_a_port_below_65536():
    assert tls.split_address("a.org:65535") == ("a.org", 65535)
    assert tls.split_address("[::1]:0") == ("::1", 0)
    for wrong in ("a.org", ":1", "a.org:", "a.org:65536", "a.org:-1", "a.org:\N{SUPERSCRIPT TWO}", "a.org:x"):
        with pytest.raises(InvalidInput, match="is not an address"):
            tls.split_address(wrong)


def test_while_the_list_of_the_revoked_cannot_be_read_nobody_is_told_to_be_on_it(monkeypatch):
    asked = []
    for why, reason in (("unreadable", Reason.BUSY), ("revoked", Reason.REVOKED), ("name", Reason.NAME)):
        monkeypatch.setattr(tls, "distrust", lambda *about, why=why: asked.append(about) or why)
        with pytest.raises(Malformed) as error:
            tls.check_peer("certificate", "a", b"pin", "list")  # type: ignore[arg-type]
        assert error.value.reason is reason
    assert asked == [("certificate", "a", b"pin", "list")] * 3


def test_an_envelope_over_the_limit_is_refused_before_it_is_read():
    async def read(length: int) -> bytes:
        reader = asyncio.StreamReader()
        reader.feed_data(struct.pack("<I", length) + bytes(4))
        return await tls.read_envelope(reader)

    assert asyncio.run(read(4)) == bytes(4)
    with pytest.raises(Malformed):
        asyncio.run(read(wire.ENVELOPE + 1))


# ------------------------------------------------------------------------------------------------ one line's books


def lines(**more: Any) -> Any:
    ring = SimpleNamespace(call_soon_threadsafe=lambda action: action())
    about = {"_changed": threading.Condition(), "_loop": ring, "metrics": Metrics(), "patience": 0.0, "_revoked": None}
    one = Lines.__new__(Lines)
    vars(one).update({"name": "me", "_note_change": lambda _: None, **about, **more})
    return one


def talk(**more: Any) -> Any:
    aborted: list[bool] = []
    transport = SimpleNamespace(abort=lambda: aborted.append(True))
    return SimpleNamespace(
        sent=0, confirmed=0, serial=5, aborted=aborted, writer=SimpleNamespace(transport=transport), **more
    )


def line(**more: Any) -> DirectLine:
    one = DirectLine("peer", Neighbour(None, b"pin"))
    for name, value in more.items():
        setattr(one, name, value)
    return one


def test_a_line_confirms_what_it_sent_once_and_what_is_confirmed_takes_no_room():
    sent = [bytes(size) for size in (3, 4, 5)]
    one = line(unconfirmed=deque(sent), held=12)
    on = Talk(None, None, 5, sent=2)  # type: ignore[arg-type]
    for number, size in ((0, 0), (3, 0), (1, 1)):
        with pytest.raises(Malformed):
            lines()._confirm(one, on, wire.Head(1, EnvelopeKind.ANSWER, 0, number, 0, size))
    lines()._confirm(one, on, wire.Head(1, EnvelopeKind.ANSWER, 0, 2, 0, 0))
    assert (list(one.unconfirmed), one.held, on.confirmed) == (sent[2:], 5, 2)
    with pytest.raises(Malformed):
        lines()._confirm(one, on, wire.Head(1, EnvelopeKind.ANSWER, 0, 2, 0, 0))


def test_a_line_holds_so_many_bytes_and_a_message_that_does_not_fit_takes_another_road(monkeypatch):
    monkeypatch.setattr(direct, "HELD", 10)
    one = line(talk=talk())
    books = lines(_lines={"peer": one})
    assert [books.send("peer", bytes(size)) for size in (4, 7, 6, 1)] == [True, False, True, False]
    assert (one.held, [len(message) for message in one.unconfirmed]) == (10, [4, 6])
    assert not books.send("stranger", b"")
    one.talk = None
    assert not books.send("peer", b"")


def test_the_newest_connection_counts_and_an_older_one_that_ends_takes_nothing_down():
    books, one, old, new = lines(), line(), talk(), talk()
    books._up(one, old)
    assert books.metrics.reconnects == 0
    books._up(one, new)
    assert (one.talk, old.aborted, new.aborted, books.metrics.reconnects) == (new, [True], [], 1)
    books._down(one, old)
    assert one.talk is new
    with pytest.raises(LineLost):
        books._check_still_there(one, old)
    books._down(one, new)
    assert one.talk is None


@pytest.mark.parametrize(("listed", "error"), [(False, None), (True, Malformed), (None, LineLost)])
def test_a_line_of_a_revoked_certificate_ends_and_one_of_which_nobody_knows_pauses(listed, error):
    on = talk()
    books = lines(_revoked=SimpleNamespace(holds=lambda serial: {5: listed}[serial]))
    if error is None:
        books._check_still_there(line(talk=on), on)
    else:
        with pytest.raises(error):
            books._check_still_there(line(talk=on), on)


def test_a_greeting_counts_once_a_process_and_attempt():
    books, one = lines(), line()
    for session, attempt in ((b"s", 2), (b"s", 3), (b"t", 1)):
        books._admit(one, wire.PartyHello("peer", session, attempt))
    for attempt in (0, 1):
        with pytest.raises(Malformed) as error:
            books._admit(one, wire.PartyHello("peer", b"t", attempt))
        assert error.value.reason is Reason.REPLAYED
    with pytest.raises(Malformed) as error:
        books._admit(one, wire.PartyHello("peer", b"t", 2, lowest=2, highest=3))
    assert (error.value.reason, one.greeted) == (Reason.VERSION, (b"t", 1))


def test_whoever_is_at_the_other_end_is_checked_by_name_pin_and_list(monkeypatch):
    asked = []
    certificate = SimpleNamespace(serial_number=5)
    monkeypatch.setattr(direct.x509, "load_der_x509_certificate", {b"shown": certificate}.__getitem__)
    monkeypatch.setattr(direct, "check_peer", lambda *about: asked.append(about))
    shown = SimpleNamespace(getpeercert=lambda *, binary_form: b"shown" if binary_form else None)
    writer = SimpleNamespace(get_extra_info={"ssl_object": shown}.__getitem__)
    assert lines(_revoked="list")._prove(writer, line()) == 5
    assert asked == [(certificate, "peer", b"pin", "list")]


def test_contexts_of_lines_speak_tls_1_3_and_want_a_certificate(monkeypatch):
    context = SimpleNamespace(load_verify_locations=lambda **_: None, load_cert_chain=lambda *_: None)
    monkeypatch.setattr(tls.ssl, "SSLContext", lambda _: context)
    files = SimpleNamespace(certificate="c", key="k", authority="a")
    found: Any = tls.tls_context(files, SimpleNamespace(authority=b""), ssl.PROTOCOL_TLS_CLIENT)  # type: ignore[arg-type]
    assert (found.minimum_version, found.verify_mode) == (ssl.TLSVersion.TLSv1_3, ssl.CERT_REQUIRED)


def test_every_counter_is_shown_under_its_own_name():
    metrics = Metrics()
    for size in (10, 5):
        metrics.sent(size)
    metrics.received(7)
    for is_direct in (True, False, False, False):
        metrics.letter(direct=is_direct)
    metrics.refuse("busy")
    lines_of = [one.split() for one in exposition(metrics.families()).splitlines() if not one.startswith("#")]
    assert {name.removeprefix("colonnade_stream_"): float(count) for name, count in lines_of} == {
        "messages_sent_total": 2,
        "messages_received_total": 1,
        "bytes_sent_total": 15,
        "bytes_received_total": 7,
        "reconnects_total": 0,
        "letters_direct_total": 1,
        "letters_relayed_total": 3,
        'refused_total{reason="busy"}': 1,
    }
