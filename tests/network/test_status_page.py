"""Claims about the page of a service: what it shows and to whom, and that nobody can fill it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from colonnade.errors import InvalidInput
from colonnade.network import bounds, certs, page_server, status_page
from colonnade.network.bounds import RateLimit
from colonnade.network.status_page import Answered, Asked, StatusPage, page
from colonnade.network.transport.metrics import Metrics, exposition

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def samples(text: str) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def test_the_page_shows_metrics_and_who_is_alive_and_who_is_ready_on_the_loopback_interface() -> None:
    metrics, well = Metrics(), threading.Event()
    metrics.sent(5)
    metrics.refuse("name")
    with page(metrics.families, well.is_set) as port:
        status, text = get(port, "/metrics")
        assert exposition(metrics.families()) in text
        found = samples(text)
        assert (
            found["colonnade_stream_messages_sent_total"],
            found["colonnade_stream_bytes_sent_total"],
            found['colonnade_stream_refused_total{reason="name"}'],
        ) == (1, 5, 1)
        assert (status, get(port, "/ready"), get(port, "/else")[0]) == (200, (503, "not connected\n"), 404)
        assert get(port, "/health")[0] == 200  # waiting for the others is no reason to be restarted
        well.set()
        assert (get(port, "/ready")[0], get(port, "/health")[0]) == (200, 200)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.2", port), timeout=5)  # another address of this machine


@pytest.fixture(scope="module")
def shown() -> Iterator[StatusPage]:
    made = StatusPage()
    made.gauge("colonnade_jobs", "Jobs, by state.", lambda: {"queued": 2, 'od"d\n': 0.5}, label="state")
    made.counter("colonnade_runs_total", "Runs.", lambda: 7)
    made.post("/echo", lambda asked: Answered(200, asked.peer.encode() + b" " + asked.body))
    made.post("/broken", lambda asked: 1 / len(asked.body))  # type: ignore[arg-type, return-value]
    with made:
        yield made


def post(port: int, path: str, body: bytes) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data=body, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def test_named_numbers_are_shown_in_the_format_of_prometheus(shown: StatusPage) -> None:
    text = get(shown.port, "/metrics")[1]
    assert "# TYPE colonnade_jobs gauge" in text.splitlines()
    found = samples(text)
    assert found['colonnade_jobs{state="queued"}'] == 2
    assert found['colonnade_jobs{state="od\\"d\\n"}'] == 0.5
    assert found["colonnade_runs_total"] == 7


def test_a_route_answers_posts_within_its_size_and_hides_the_text_of_errors(
    shown: StatusPage, caplog: pytest.LogCaptureFixture
) -> None:
    assert post(shown.port, "/echo", b"hello") == (200, b"127.0.0.1 hello")
    with mock.patch.object(page_server, "LARGEST", 100):
        assert post(shown.port, "/echo", bytes(101))[0] == 413
    assert post(shown.port, "/nowhere", b"1")[0] == 404
    status, said = post(shown.port, "/broken", b"")
    assert status == 500
    assert b"division" not in said
    (told,) = (vars(record) for record in caplog.records if record.getMessage() == "not answered")
    assert (told["error"], told["path"]) == ("ZeroDivisionError", "/broken")


def raw_post(port: int, length: bytes, body: bytes = b"") -> bytes:
    """What a request is answered with whose sender has nothing more to say."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(b"POST /echo HTTP/1.0\r\nContent-Length: " + length + b"\r\n\r\n" + body)
        line.shutdown(socket.SHUT_WR)
        return answer_on(line)


@pytest.mark.parametrize(
    ("length", "status"),
    [(b"", 400), (b"-1", 400), (b"+1", 400), (b"\xb2", 400), (b"9" * 16, 411), (b"9" * 15, 413), (b"0", 200)],
)
def test_a_length_is_written_in_at_most_fifteen_plain_digits(shown: StatusPage, length: bytes, status: int) -> None:
    assert raw_post(shown.port, length).split()[1] == b"%d" % status


def test_requests_that_are_refused_for_their_form_are_counted_by_reason() -> None:
    made = StatusPage()
    made.post("/echo", lambda asked: Answered(200, asked.body))
    with made:
        assert [raw_post(made.port, size).split()[1] for size in (b"9" * 16, b"9" * 15, b"+1")] == [
            b"411",
            b"413",
            b"400",
        ]
        with socket.create_connection(("127.0.0.1", made.port), timeout=20) as line:
            line.sendall(b"GET /health HTTP/1.0\r\nX: " + bytes(page_server.HEAD).replace(b"\0", b"x") + b"\r\n\r\n")
            assert answer_on(line).split()[1] == b"431"
        assert raw_post(made.port, b"0").split()[1] == b"200"
        shown = samples(get(made.port, "/metrics")[1])
    counts = {name: found for name, found in shown.items() if name.startswith("colonnade_page_refused_total")}
    assert counts == {
        f'colonnade_page_refused_total{{reason="{reason}"}}': count
        for reason, count in {"length": 2, "request": 1, "head": 1}.items()
    }


def test_a_body_that_was_cut_off_is_given_to_nobody(shown: StatusPage) -> None:
    assert raw_post(shown.port, b"5", b"hello").endswith(b" hello")
    assert raw_post(shown.port, b"6", b"hello") == b""


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (b"", b"HTTP/1.1 411 "),  # in pieces, whose sum nobody says
        (b"Content-Length: 5\r\n", b"HTTP/1.1 200 "),
        (b"Content-Length: 6\r\n", b""),
        (b"Content-Length: 4\r\n", b""),
    ],
)
def test_a_body_in_pieces_is_as_long_as_it_was_said_to_be(shown: StatusPage, head: bytes, answer: bytes) -> None:
    with socket.create_connection(("127.0.0.1", shown.port), timeout=20) as line:
        line.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" + head)
        line.sendall(b"\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n")
        found = answer_on(line)
    assert found.startswith(answer)
    assert bool(found) == bool(answer)


def test_a_name_that_is_no_name_of_a_metric_is_refused() -> None:
    with pytest.raises(InvalidInput, match="small letters"):
        StatusPage().gauge("jobs of lab", "No.", lambda: 1)


def test_a_taken_port_is_said_to_be_taken(shown: StatusPage) -> None:
    with pytest.raises(InvalidInput, match=f"cannot listen on 127.0.0.1:{shown.port}"), StatusPage(shown.port):
        pass


def answer_on(connection: socket.socket) -> bytes:
    """All that comes back until the other side closes."""
    connection.settimeout(20)
    return b"".join(iter(lambda: connection.recv(4096), b""))


def is_busy(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.startswith(b"HTTP/1.1 503 ") and b"\r\nconnection: close" in head.lower() and b"try again" in body


def test_three_hundred_slow_clients_keep_nobody_from_the_page_and_all_but_the_last_are_told_503() -> None:
    """Their time never ends here: only who makes room for others lets /health through."""
    said = (
        b"",
        b"G",
        b"GET /hea",
        b"GET /health HTTP/1.1\r\nHost: 127",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1",
    )
    made = StatusPage()
    made.post("/echo", lambda asked: Answered(200, asked.body))
    with mock.patch.object(page_server, "ARRIVAL", 3600.0), made, contextlib.ExitStack() as open_ones:
        slow = []
        for number in range(300):
            slow.append(open_ones.enter_context(socket.create_connection(("127.0.0.1", made.port), timeout=20)))
            slow[-1].sendall(said[number % len(said)])
        assert get(made.port, "/health") == (200, "alive\n")
        assert get(made.port, "/ready")[0] == 200
        assert post(made.port, "/echo", b"1") == (200, b"1")
        turned_away = slow[: 300 - page_server.A_SOURCE]
        assert all(is_busy(answer_on(one)) for one in turned_away)
        assert made.refused["connections"] >= len(turned_away)
        still_there = slow[-1]  # of the last few, who is told nothing until its time is over
        still_there.sendall(b"23456789")
        assert answer_on(still_there).endswith(b"123456789")


def test_as_many_arrive_at_once_as_are_said_and_the_next_takes_the_place_of_the_slowest() -> None:
    book = page_server.Book(Counter())  # no port: its book of connections alone
    with mock.patch.multiple(page_server, CONNECTIONS=5, A_SOURCE=3):

        def come(host: str) -> Any:
            here = mock.Mock(source=host)
            book.enter(here)
            return here

        first, second, third = (come("a") for _ in range(3))
        assert list(book.arriving) == [first, second, third]
        fourth = come("a")
        assert list(book.arriving) == [second, third, fourth]
        fifth, sixth = come("b"), come("c")
        assert list(book.arriving) == [second, third, fourth, fifth, sixth]
        seventh = come("d")  # one too many in all: where most come from, one has to go
        assert list(book.arriving) == [third, fourth, fifth, sixth, seventh]
        assert book.refused == {"connections": 2}
        assert [one.turn_away.call_count for one in (first, second, third)] == [1, 1, 0]


def test_a_crowd_of_many_addresses_makes_room_where_it_is_largest() -> None:
    with (
        mock.patch.multiple(page_server, ARRIVAL=3600.0, CONNECTIONS=6, A_SOURCE=4),
        StatusPage() as made,
        contextlib.ExitStack() as open_ones,
    ):

        def from_there(host: str) -> socket.socket:
            return open_ones.enter_context(
                socket.create_connection(("127.0.0.1", made.port), timeout=20, source_address=(host, 0))
            )

        first, crowd = from_there("127.0.0.2"), [from_there("127.0.0.3") for _ in range(4)]
        from_there("127.0.0.4")
        assert get(made.port, "/health")[0] == 200
        assert is_busy(answer_on(crowd[0]))
        first.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert answer_on(first).endswith(b"alive\n")


@pytest.mark.parametrize("bounds", [{"A_SOURCE": 3}, {"CONNECTIONS": 3}], ids=["of one address", "in all"])
def test_a_request_above_those_that_are_being_answered_is_told_503_and_health_is_answered_still(bounds: dict) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow_route(asked: Asked) -> Answered:
        begun.release()
        go_on.wait(60)
        return Answered(200, asked.body)

    made = StatusPage()
    made.post("/slow", slow_route)
    request = b"POST /slow HTTP/1.0\r\nContent-Length: 2\r\n\r\nok"
    with mock.patch.multiple(page_server, **bounds), made, contextlib.ExitStack() as open_ones:

        def asking(number: int) -> socket.socket:
            there = (f"127.0.0.{number if 'CONNECTIONS' in bounds else 1}", 0)
            line = socket.create_connection(("127.0.0.1", made.port), timeout=20, source_address=there)
            line.sendall(request)
            return open_ones.enter_context(line)

        waiting = []
        for number in (2, 3, 4):
            waiting.append(asking(number))
            assert begun.acquire(timeout=20)
        assert is_busy(answer_on(asking(5)))
        assert get(made.port, "/health")[0] == 200
        assert get(made.port, "/metrics")[0] == 503
        assert made.refused["connections"] == 2
        go_on.set()
        assert all(answer_on(one).endswith(b"ok") for one in waiting)
        assert post(made.port, "/slow", b"again") == (200, b"again")  # their places are free


def test_who_hangs_up_leaves_no_room_for_another_before_its_route_has_ended() -> None:
    """Else a client that asks and is gone, over and over, would have a thread for each question."""
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow_route(asked: Asked) -> Answered:
        begun.release()
        go_on.wait(60)
        return Answered(200, asked.body)

    made = StatusPage()
    made.post("/slow", slow_route)
    with mock.patch.object(page_server, "A_SOURCE", 3), made:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", made.port), timeout=20) as line:
                line.sendall(b"POST /slow HTTP/1.0\r\nContent-Length: 2\r\n\r\nok")
                assert begun.acquire(timeout=20)
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not a close
        assert made._server is not None
        book = made._server.book
        until = time.monotonic() + 20
        while not all(one._is_over for one in book.answering) and time.monotonic() < until:
            time.sleep(0.01)
        assert [one._is_over for one in book.answering] == [True] * 3
        assert get(made.port, "/metrics")[0] == 503
        go_on.set()
        while book.answering and time.monotonic() < until:
            time.sleep(0.01)
        assert post(made.port, "/slow", b"again") == (200, b"again")


def test_a_head_that_comes_at_once_is_no_longer_than_one_in_parts(shown: StatusPage) -> None:
    def status(spare: int) -> bytes:
        with socket.create_connection(("127.0.0.1", shown.port), timeout=20) as line:
            line.sendall(b"GET /health HTTP/1.0\r\nX: " + b"x" * spare + b"\r\n\r\n")
            return answer_on(line).split()[1]

    at_most = page_server.HEAD - len(b"/health") - len(b"x")
    assert (status(at_most), status(at_most + 1), status(100_000)) == (b"200", b"431", b"431")


def test_who_has_said_all_and_closed_that_side_hears_the_answer() -> None:
    go_on = threading.Event()
    made = StatusPage()
    made.post("/slow", lambda asked: Answered(200, asked.body * go_on.wait(20)))
    with made, socket.create_connection(("127.0.0.1", made.port), timeout=20) as line:
        line.sendall(b"POST /slow HTTP/1.0\r\nContent-Length: 2\r\n\r\nok")
        line.shutdown(socket.SHUT_WR)
        time.sleep(0.2)  # by now it is known there
        go_on.set()
        assert answer_on(line).endswith(b"\r\nok")


def test_a_request_that_does_not_arrive_in_time_is_hung_up_on() -> None:
    with StatusPage() as made, socket.create_connection(("127.0.0.1", made.port), timeout=20) as silent:
        silent.sendall(b"GET /hea")
        with mock.patch.object(page_server, "ARRIVAL", 0.05):  # 0 would be a socket that does not wait at all
            assert silent.recv(1) == b""


def test_an_answer_that_nobody_reads_gives_its_place_back() -> None:
    made = StatusPage()
    made.post("/large", lambda asked: Answered(200, bytes(1 << 26)))
    with made, socket.create_connection(("127.0.0.1", made.port), timeout=20) as line:
        line.sendall(b"POST /large HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
        assert line.recv(1) == b"H"
        assert made._server is not None
        book, until = made._server.book, time.monotonic() + 20
        assert len(book.answering) == 1
        with mock.patch.object(page_server, "ARRIVAL", 0.05):
            while book.answering and time.monotonic() < until:
                time.sleep(0.01)
        assert not book.answering
        with contextlib.suppress(ConnectionResetError):
            assert len(answer_on(line)) < 1 << 26


def lab_and_coordinator(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    certs.init(folder)
    certs.issue(folder, "coordinator", hosts=["localhost"])
    certs.issue(folder, "lab", hosts=["clinic"])  # a host that is called as another party proves nothing
    theirs, ours = (ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER))
    for made, name in ((theirs, "lab"), (ours, "coordinator")):
        made.load_verify_locations(folder / "authority.pem")
        made.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        made.verify_mode = ssl.CERT_REQUIRED
    return theirs, ours


def test_who_dawdles_at_the_handshake_of_tls_makes_room_as_others_do(tmp_path: Path) -> None:
    theirs, ours = lab_and_coordinator(tmp_path)
    with (
        mock.patch.multiple(page_server, ARRIVAL=3600.0, A_SOURCE=3),
        StatusPage(tls=ours) as made,
        contextlib.ExitStack() as open_ones,
    ):
        slow = []
        for number in range(6):
            slow.append(open_ones.enter_context(socket.create_connection(("127.0.0.1", made.port), timeout=20)))
            slow[-1].sendall(b"\x16\x03\x01"[: number % 4])  # nothing, or the beginning of a greeting
        with urllib.request.urlopen(f"https://localhost:{made.port}/health", context=theirs, timeout=20) as answer:
            assert answer.status == 200
        assert all(answer_on(one) == b"" for one in slow[:4])
        assert made.refused["connections"] == 4


def test_under_tls_a_peer_is_who_its_certificate_names_and_a_stranger_is_nobody(tmp_path: Path) -> None:
    theirs, ours = lab_and_coordinator(tmp_path)
    certs.issue(tmp_path, "gone")
    listed = certs.tls_in(tmp_path, "coordinator")
    certs.revoke(tmp_path, "gone")
    page = StatusPage(tls=ours, revoked=replace(listed, revoked=tmp_path / "revoked.pem").revocations())
    page.post("/who", lambda asked: Answered(200, asked.peer.encode()))
    with page, mock.patch.object(certs.RevocationList, "LOOK_AGAIN", 0.0):
        where = f"https://localhost:{page.port}/who"
        with urllib.request.urlopen(where, data=b"", context=theirs, timeout=20) as answer:
            assert answer.read() == b"lab"
        for uris, hosts, peer in (({"lab", "clinic"}, [], b""), (set(), ["lab"], b"lab"), (set(), ["lab", "b"], b"")):
            carried = {"uri_names": lambda _, uris=uris: uris, "dns_names": lambda _, hosts=hosts: hosts}
            with (
                mock.patch.multiple(status_page, **carried),
                urllib.request.urlopen(where, data=b"", context=theirs, timeout=20) as answer,
            ):
                assert answer.read() == peer
        theirs.load_cert_chain(tmp_path / "gone.pem", tmp_path / "gone.key")
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(where, data=b"", context=theirs, timeout=20)
        refused.value.close()
        assert page.refused["revoked"] == 1
        (tmp_path / "revoked.pem").write_text("half of a li")
        theirs.load_cert_chain(tmp_path / "lab.pem", tmp_path / "lab.key")
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:  # nobody knows who is revoked
            urllib.request.urlopen(where, data=b"", context=theirs, timeout=20)
        refused.value.close()
        assert page.refused["revoked"] == 2
        stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        stranger.load_verify_locations(tmp_path / "authority.pem")
        with pytest.raises(OSError):
            urllib.request.urlopen(where, data=b"", context=stranger, timeout=20)


def test_a_rate_lets_a_burst_pass_and_then_one_at_a_time() -> None:
    now = [0.0]
    limit = RateLimit(2.0, 3, clock=lambda: now[0])
    assert [limit.allow("lab") for _ in range(4)] == [0, 0, 0, pytest.approx(0.5)]
    assert limit.allow("clinic") == 0  # another's rate is its own
    now[0] = 0.5
    assert [limit.allow("lab"), limit.allow("lab")] == [0, pytest.approx(0.5)]
    now[0] = 100.0
    assert [limit.allow("lab") for _ in range(3)] == [0, 0, 0]


def test_names_do_not_fill_the_memory() -> None:
    now = [0.0]
    limit = RateLimit(1.0, 1, clock=lambda: now[0])
    with mock.patch.object(bounds, "MOST_NAMES", 10):
        assert [limit.allow(str(name)) for name in range(10)] == [0.0] * 10
        assert limit.allow("one more") > 0
        now[0] = 1.5
        assert limit.allow("one more") == 0
    assert len(limit._full_at) == 1


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "localhost:1", 200),
        ("Host", "LOCALHOST", 200),
        ("Host", "127.0.0.1:9464", 200),
        ("Host", "127.0.0.1.evil.example:9464", 403),  # a name whose owner lets it mean this machine
        ("Host", "evil.example", 403),
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
    ],
)
def test_a_page_in_a_browser_on_this_machine_is_no_program_of_its_operator(
    shown: StatusPage, header: str, value: str, status: int
) -> None:
    for data in (None, b"{}"):
        path = "/health" if data is None else "/echo"
        asked = urllib.request.Request(f"http://127.0.0.1:{shown.port}{path}", data=data, headers={header: value})
        try:
            with urllib.request.urlopen(asked, timeout=20) as answer:
                found = answer.status
        except urllib.error.HTTPError as refused:
            with refused:
                found = refused.code
        assert found == status


def test_a_page_for_others_than_this_machine_needs_certificates() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "", "::"):
        with pytest.raises(InvalidInput, match="without TLS would answer anybody"):
            StatusPage(host=host)
    with pytest.raises(InvalidInput, match="must demand them"):
        StatusPage(host="0.0.0.0", tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    optional = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    optional.verify_mode = ssl.CERT_OPTIONAL
    with pytest.raises(InvalidInput, match="must demand them"):
        StatusPage(tls=optional)
