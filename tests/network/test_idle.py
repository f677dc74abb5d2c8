"""Claims about lines on which nobody says anything: they stay up for as long as an operator thinks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

grpc = pytest.importorskip("grpc", reason="the network needs the extra colonnade[grpc]")

from grpc._cython import cygrpc  # noqa: E402

from colonnade.network.transport import hub as transport_hub  # noqa: E402
from colonnade.network.transport import party as transport_party  # noqa: E402
from tests.helpers.streams import (  # noqa: E402
    Party,
    files,
    folder,  # noqa: F401  a fixture is used by its name
    switchboard,
)

LIBRARY = Path(cygrpc.__file__).read_bytes()


@pytest.mark.parametrize("end", [transport_hub, transport_party], ids=["hub", "party"])
def test_every_option_that_we_pass_is_one_that_the_installed_grpc_knows(end: object) -> None:
    """gRPC ignores a name that it does not know without a word: the library must contain it, ended by a zero byte."""
    names = [name for name, _ in end._OPTIONS]
    assert len(names) > 5
    assert [name for name in names if name.encode() + b"\0" not in LIBRARY] == []


def test_a_name_that_grpc_does_not_know_is_noticed() -> None:
    assert b"grpc.http2.min_recv_ping_interval_without_data_ms\0" not in LIBRARY


def test_the_hub_allows_the_pings_that_parties_send() -> None:
    """Both ends ping after a quiet time, without end; a hub that calls that too often hangs up after the third."""
    hub, party = dict(transport_hub._OPTIONS), dict(transport_party._OPTIONS)
    assert hub["grpc.http2.min_ping_interval_without_data_ms"] < party["grpc.keepalive_time_ms"]
    assert hub["grpc.http2.max_pings_without_data"] == party["grpc.http2.max_pings_without_data"] == 0


@pytest.mark.fault
def test_a_question_may_stay_open_for_five_minutes(folder: Path) -> None:  # noqa: F811
    def answer(request: bytes) -> bytes:
        time.sleep(300.0)
        return request[::-1]

    with switchboard(folder) as hub, Party(hub.port, files(folder, "hospital"), answer=answer) as party:
        assert hub.ask("hospital", b"abc", timeout=360.0).result() == b"cba"
        assert (hub.metrics.reconnects, party.states) == (0, ["connecting", "connected"])
