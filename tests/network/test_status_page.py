"""Claims about the page of a service: what it shows and to whom, and that nobody can fill it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from colonnade.errors import InvalidInput
from colonnade.network import certs, rate_limit, status_page
from colonnade.network.rate_limit import RateLimit
from colonnade.network.status_page import Answered, StatusPage, page
from colonnade.network.transport.metrics import Metrics


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def samples(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_the_page_shows_metrics_and_who_is_alive_and_who_is_ready_on_the_loopback_interface() -> None:
    metrics, well = Metrics(), threading.Event()
    metrics.sent(10, 5)
    metrics.refuse("name")
    with page(metrics.text, well.is_set) as port:
        status, text = get(port, "/metrics")
        assert metrics.text() in text
        found = samples(text)
        assert (
            found["colonnade_stream_messages_sent_total"],
            found["colonnade_stream_bytes_sent_wire_total"],
            found['colonnade_stream_refused_total{reason="name"}'],
        ) == ("1", "5", "1")
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
    lines = get(shown.port, "/metrics")[1].splitlines()
    assert "# TYPE colonnade_jobs gauge" in lines
    assert 'colonnade_jobs{state="queued"} 2' in lines
    assert 'colonnade_jobs{state="od\\"d\\n"} 0.5' in lines
    assert "colonnade_runs_total 7" in lines


def test_a_route_answers_posts_within_its_size_and_hides_the_text_of_errors(shown: StatusPage) -> None:
    assert post(shown.port, "/echo", b"hello") == (200, b"127.0.0.1 hello")
    with mock.patch.object(status_page, "LARGEST", 100):
        assert post(shown.port, "/echo", bytes(101))[0] == 413
    assert post(shown.port, "/nowhere", b"1")[0] == 404
    status, said = post(shown.port, "/broken", b"")
    assert status == 500
    assert b"division" not in said


def test_a_name_that_is_no_name_of_a_metric_is_refused() -> None:
    with pytest.raises(InvalidInput, match="small letters"):
        StatusPage().gauge("jobs of lab", "No.", lambda: 1)


def test_a_taken_port_is_said_to_be_taken(shown: StatusPage) -> None:
    with pytest.raises(InvalidInput, match=f"cannot listen on 127.0.0.1:{shown.port}"), StatusPage(shown.port):
        pass


def eventually_alive(port: int) -> bool:
    """Whether the page answers, once those that were hung up on have left."""
    for _ in range(400):
        with contextlib.suppress(OSError):
            if get(port, "/health")[0] == 200:
                return True
        time.sleep(0.02)
    return False


def test_connections_that_say_nothing_do_not_keep_others_out_for_long() -> None:
    with StatusPage() as made, contextlib.ExitStack() as open_ones:
        for _ in range(status_page.A_SOURCE):
            silent = open_ones.enter_context(socket.create_connection(("127.0.0.1", made.port)))
            silent.sendall(b"GET /hea")
        one_more = open_ones.enter_context(socket.create_connection(("127.0.0.1", made.port), timeout=20))
        assert one_more.recv(1) == b""  # turned away at once
        open_ones.enter_context(mock.patch.object(status_page, "ARRIVAL", 0.0))  # their time is up
        assert silent.recv(1) == b""
        open_ones.enter_context(mock.patch.object(status_page, "ARRIVAL", 10.0))
        assert eventually_alive(made.port)
        assert made.refused["connections"] >= 1


def test_under_tls_a_peer_is_who_its_certificate_names_and_a_stranger_is_nobody(tmp_path: Path) -> None:
    certs.init(tmp_path)
    certs.issue(tmp_path, "coordinator", hosts=["localhost"])
    certs.issue(tmp_path, "lab")
    certs.issue(tmp_path, "gone")
    theirs, ours = (ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER))
    for made, name in ((theirs, "lab"), (ours, "coordinator")):
        made.load_verify_locations(tmp_path / "authority.pem")
        made.load_cert_chain(tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
        made.verify_mode = ssl.CERT_REQUIRED
    listed = certs.tls_in(tmp_path, "coordinator")
    certs.revoke(tmp_path, "gone")
    page = StatusPage(tls=ours, revoked=replace(listed, revoked=tmp_path / "revoked.pem").revocations())
    page.post("/who", lambda asked: Answered(200, asked.peer.encode()))
    with page:
        where = f"https://localhost:{page.port}/who"
        with urllib.request.urlopen(where, data=b"", context=theirs, timeout=20) as answer:
            assert answer.read() == b"lab"
        theirs.load_cert_chain(tmp_path / "gone.pem", tmp_path / "gone.key")
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(where, data=b"", context=theirs, timeout=20)
        refused.value.close()
        assert page.refused["revoked"] == 1
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
    with mock.patch.object(rate_limit, "MOST", 10):
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
