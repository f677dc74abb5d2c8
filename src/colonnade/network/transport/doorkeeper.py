"""Connections at the hub's port that have not greeted: so many from one address, so many in all.

gRPC takes connections below Python and says nothing of them before TLS and a certificate have passed; until then, or
until its handshake has lasted too long, each holds a file of this process, and who holds enough of them locks all
others out. So a thread looks at the sockets that were taken at the port. Those of admitted streams are left alone. Of
the others the oldest above the limits are hung up, which gRPC sees as the end of the line. A party greets within
moments of its connection, and one that is hung up in a crowd dials again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import unquote

# connections that have not greeted
A_SOURCE = 32
IN_ALL = 256
LOOK = 0.5  # seconds between two looks
QUIET = 60.0  # seconds between two lines of the log
_FILES = Path("/dev/fd")

log = logging.getLogger("colonnade.network.transport")
Peer = tuple[str, int]


class Doorkeeper:
    """Looks after one port until it is stopped. `admitted` names the peers of admitted streams as gRPC does."""

    def __init__(self, port: int, admitted: Callable[[], set[str]], refused: Callable[[], None]) -> None:
        self._port = port
        self._admitted = admitted
        self._refused = refused
        self._seen: list[Peer] = []  # the oldest first
        self._told = -QUIET
        self._count = 0
        self._spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]  # to look by when all files are taken
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, name="doorkeeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        for one in self._spare:
            os.close(one)

    def _live(self) -> None:
        while not self._stop.wait(LOOK):
            self.look()

    def look(self) -> None:
        """Hang up what is too much; what cannot be looked at now is looked at the next time."""
        for one in self._spare:
            os.close(one)
        self._spare = []
        try:
            self._clear({peer: file for file, peer in _taken_at(self._port)})
        except OSError:
            pass
        finally:
            with contextlib.suppress(OSError):
                while len(self._spare) < 2:
                    self._spare.append(os.open(os.devnull, os.O_RDONLY))

    def _clear(self, files: dict[Peer, int]) -> None:
        greeted = {address_of(peer) for peer in self._admitted()}
        known = dict.fromkeys([*self._seen, *files])
        self._seen = [peer for peer in known if peer in files and peer not in greeted]
        for peer in too_many(self._seen):
            if _hang_up(files[peer], peer):
                self._refused()
                self._count += 1
        if self._count and time.monotonic() - self._told >= QUIET:
            log.warning("a crowd at the port", extra={"hung up": self._count, "reason": "busy"})
            self._told = time.monotonic()
            self._count = 0


def too_many(waiting: list[Peer]) -> list[Peer]:
    """Of peers that have not greeted, oldest first, those to hang up: over the limit of their address, or of all."""
    over = Counter(host for host, _ in waiting)
    over = Counter({host: count - A_SOURCE for host, count in over.items() if count > A_SOURCE})
    gone = list[Peer]()
    kept = list[Peer]()
    for peer in waiting:
        (gone if over[peer[0]] > 0 else kept).append(peer)
        over[peer[0]] -= 1
    return gone + kept[: max(0, len(kept) - IN_ALL)]


def address_of(peer: str) -> Peer:
    """Host and port of a peer as gRPC writes it: ipv4:127.0.0.1:50051, ipv6:%5B::1%5D:50051."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    found = ip_address(host.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _taken_at(port: int) -> Iterator[tuple[int, Peer]]:
    """The files of this process that are connections taken at a port, and who is at the other end."""
    for file in [int(one.name) for one in _FILES.iterdir()]:
        # It was closed meanwhile, or is no such thing.
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(file).st_mode) and (peer := _peer(file, port)) is not None:
                yield file, peer


def _peer(file: int, port: int) -> Peer | None:
    with socket.socket(fileno=os.dup(file)) as one:
        if one.family not in (socket.AF_INET, socket.AF_INET6) or one.getsockname()[1] != port:
            return None
        # Whoever listens has none, which is an OSError.
        host, at, *_ = one.getpeername()
        return _plain(host), at


def _hang_up(file: int, peer: Peer) -> bool:
    """End a connection, if the file is still that one."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(file)) as one:
        host, at, *_ = one.getpeername()
        if (_plain(host), at) == peer:
            one.shutdown(socket.SHUT_RDWR)
            return True
    return False
