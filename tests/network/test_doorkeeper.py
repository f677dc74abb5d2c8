"""Claims about connections at the hub's port that do not greet: an address holds few of them, and no party loses its stream."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="the network needs the extra colonnade[grpc]")

from colonnade.network.transport import doorkeeper
from colonnade.network.transport.doorkeeper import address_of, too_many
from tests.helpers.streams import (
    PATIENCE,
    Party,
    eventually,
    files,
    folder,  # noqa: F401  a fixture by its name
    switchboard,
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def test_the_oldest_over_the_limit_of_an_address_or_of_all_are_hung_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorkeeper, "A_SOURCE", 2)
    monkeypatch.setattr(doorkeeper, "IN_ALL", 3)
    crowd = [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 4)]
    assert too_many(crowd) == [("a", 1), ("a", 2)]
    assert too_many(crowd[:3]) == []
    assert too_many([(host, 1) for host in "abcde"]) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:50051", ("127.0.0.1", 50051)),
        ("ipv6:%5B::1%5D:50051", ("::1", 50051)),
        ("ipv6:[::ffff:10.0.0.7]:443", ("10.0.0.7", 443)),
        ("ipv6:%5Bfe80::1%25eth0%5D:443", ("fe80::1", 443)),
    ],
)
def test_a_peer_is_known_however_grpc_writes_it(peer: str, address: tuple[str, int]) -> None:
    assert address_of(peer) == address


def ended(held: list[socket.socket]) -> int:
    """How many of these connections the hub has closed; it has not said a word on any other."""
    count = 0
    for one in held:
        try:
            count += one.recv(1) == b""
        except BlockingIOError:
            continue
        except ConnectionError:
            count += 1
    return count


def test_a_crowd_from_one_address_is_cut_to_the_limit_and_a_party_at_the_same_address_keeps_its_stream(
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doorkeeper, "A_SOURCE", 4)
    monkeypatch.setattr(doorkeeper, "LOOK", 0.05)
    with (
        switchboard(folder) as hub,
        Party(hub.port, files(folder, "hospital")) as party,
        contextlib.ExitStack() as last,
    ):
        hub.wait_for(["hospital"], PATIENCE)
        held = [
            last.enter_context(socket.create_connection(("127.0.0.1", hub.port), timeout=PATIENCE)) for _ in range(12)
        ]
        for one in held:
            one.setblocking(False)
        eventually(lambda: ended(held) >= 8)
        assert hub.ask("hospital", b"abc", timeout=PATIENCE).result() == b"cba"
        assert (ended(held), party.states, hub.metrics.refused["busy"]) == (8, ["connecting", "connected"], 8)
