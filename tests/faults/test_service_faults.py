"""Claims about a coordinator that serves while things go wrong: components die, strangers and floods come, jobs finish.

Kills are those of `python -m benchmarks service`, with few jobs; `--full` has a hundred.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

from benchmarks import service
from colonnade.network import certs, inbox, party_service
from colonnade.network.certs import tls_in
from colonnade.network.inbox import Inbox
from colonnade.network.questions import pack, unpack
from colonnade.network.status_page import StatusPage
from colonnade.network.transport import doorkeeper
from colonnade.network.transport import hub as transport_hub
from colonnade.network.transport.envelope import Reason, Refusal
from tests.helpers.coordinator_world import CASE, World
from tests.helpers.streams import Raw
from tests.helpers.stub_hub import REFUSES, proposal

pytestmark = pytest.mark.fault


def test_with_kills_every_job_finishes_once_with_the_model_of_one_process() -> None:
    well, _ = service.series("with kills", service.EXACT, 5, 3.0)
    assert well


def test_with_kills_private_jobs_end_with_a_reason_and_no_budget_is_overspent() -> None:
    well, _ = service.series("private, with kills", service.LIMITED, 4, 3.0)
    assert well


def test_outsiders_floods_and_slow_peers_do_not_keep_jobs_from_finishing(tmp_path: Path) -> None:
    strangers = tmp_path / "strangers"
    certs.init(strangers)
    certs.issue(strangers, "party0")
    with contextlib.ExitStack() as last:
        world = World(tmp_path / "world", last)
        stop = threading.Event()

        def silent() -> None:
            """Connections that say nothing, or garbage, and are held."""
            with contextlib.ExitStack() as held:
                for place in range(200):
                    with contextlib.suppress(OSError):
                        one = held.enter_context(socket.create_connection(("127.0.0.1", world.hub.port), timeout=5))
                        if place % 2:
                            one.sendall(b"GET / HTTP/1.1\r\n" + bytes(100))
                stop.wait(120)

        def stranger() -> None:
            """A member's name under another authority, over and over."""
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.load_cert_chain(strangers / "party0.pem", strangers / "party0.key")
            while not stop.is_set():
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("127.0.0.1", world.hub.port), timeout=5) as plain,
                    context.wrap_socket(plain) as secured,
                ):
                    secured.recv(1)
                stop.wait(0.02)

        threads = [threading.Thread(target=work, daemon=True) for work in (silent, stranger)]
        for thread in threads:
            thread.start()
        with world.service(most=3) as made:
            for name in ("a", "b", "c"):
                world.jobs.submit(name, world.job)
            found = world.over(made, "a", "b", "c")
        stop.set()
        for thread in threads:
            thread.join(60)
        assert [(job.state, job.troubles) for job in found] == [("finished", 0)] * 3
        world.check("b")


class Siege:
    """What comes at a live service from outside, each in a thread of its own until `stop`."""

    def __init__(self, world: World, page: StatusPage) -> None:
        self.world, self.page, self.stop = world, page, threading.Event()
        self.said: Counter[Any] = Counter()  # what streams of a certificate that is no member's were told
        self.codes: Counter[int] = Counter()  # what a party answered to the flood
        self.seconds = 0.0
        works = (self.crowd, self.slow, self.strangers, self.questions)
        self.threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()

    def crowd(self) -> None:
        """Hundreds of connections from one address, that say nothing or a byte now and then."""
        with contextlib.ExitStack() as held:
            place = ("127.0.0.1", self.world.hub.port)
            for _ in range(300):
                with contextlib.suppress(OSError):
                    held.enter_context(socket.create_connection(place, timeout=5, source_address=("127.0.0.2", 0)))
            self.stop.wait(120)

    def slow(self) -> None:
        """Requests to the page that arrive byte by byte."""
        with contextlib.ExitStack() as held:
            ones = []
            for _ in range(40):
                with contextlib.suppress(OSError):
                    made = socket.create_connection(
                        ("127.0.0.1", self.page.port), timeout=5, source_address=("127.0.0.3", 0)
                    )
                    ones.append(held.enter_context(made))
            while not self.stop.wait(0.5):
                for one in ones:
                    with contextlib.suppress(OSError):
                        one.sendall(b"G")

    def strangers(self) -> None:
        """A certificate of the right authority whose name is no member's, over and over."""
        tls = tls_in(self.world.made.folder / "certs", "nobody")
        for attempt in range(1, transport_hub.STREAMS_AT_ONCE + 20):
            with contextlib.suppress(Exception), Raw(self.world.hub.port, tls) as raw:
                self.said[raw.hello("nobody", attempt=attempt)] += 1

    def questions(self) -> None:
        """A coordinator that proposes hundreds of runs to one party, each another."""
        began, party = time.monotonic(), self.world.made.names[0]
        for number in range(2 * party_service.PROPOSALS_AT_ONCE):
            asked = pack({"what": "consider", **proposal(CASE, f"flood{number}")})
            answer = self.world.board.ask(party, asked, timeout=60).result()
            self.codes[unpack(answer).head["code"]] += 1
        self.seconds = time.monotonic() - began


def test_with_the_service_up_the_published_limits_hold_against_crowds_slow_peers_and_floods_of_questions(
    tmp_path: Path,
) -> None:
    """Limits are those of docs/operate/service.md. Jobs that are submitted meanwhile finish without trouble."""
    shown: Counter[str] = Counter()
    with contextlib.ExitStack() as last:
        world = World(tmp_path / "world", last)
        certs.issue(world.made.folder / "certs", "nobody")
        box = last.enter_context(contextlib.closing(Inbox(tmp_path / "box")))

        def approve(request: Any) -> bool:
            shown[request.run[:5]] += 1
            return box(request) if request.run.startswith("flood") else True

        world.approve = approve
        world.before = lambda party, _: time.sleep(0.02) if party == "party1" else None  # one party is slow, too
        page = last.enter_context(StatusPage())
        with world.service(most=3) as made:
            made.show_on(page)
            siege = Siege(world, page)
            for name in ("a", "b", "c"):
                world.jobs.submit(name, world.job)
            found = world.over(made, "a", "b", "c")
            with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/health", timeout=20) as answer:
                assert answer.status == 200
            for _ in range(100):
                crowd = [host for _, (host, _) in doorkeeper._taken_at(world.hub.port) if host == "127.0.0.2"]
                if len(crowd) <= doorkeeper.A_SOURCE:
                    break
                time.sleep(0.1)
            siege.end()
        assert len(crowd) <= doorkeeper.A_SOURCE
        assert [(job.state, job.troubles) for job in found] == [("finished", 0)] * 3
        for name in ("a", "b", "c"):
            world.check(name)
        refused = world.hub.metrics.refused
        assert refused["busy"] >= 300 - doorkeeper.A_SOURCE - 10  # of the crowd; some may have found the door full
        assert siege.said[Refusal(Reason.BUSY)] > 0
        assert siege.said[Refusal(Reason.NAME)] <= transport_hub.STREAMS_AT_ONCE + 60
        assert set(siege.codes) <= {party_service.UNDECIDED, REFUSES}  # a full inbox refuses
        limit = party_service.PROPOSALS_AT_ONCE + party_service.PROPOSALS_A_SECOND * (siege.seconds + 1)
        assert 0 < shown["flood"] <= limit
        assert box.counts()["open"] <= inbox.MOST
