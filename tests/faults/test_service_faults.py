"""Claims about a coordinator that serves while things go wrong: components die, strangers and floods come, jobs finish.

Kills are those of `python -m benchmarks service`, with few jobs; `--full` has a hundred.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

from test_coordinator_service import World

from benchmarks import service
from colonnade.network import certs

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
