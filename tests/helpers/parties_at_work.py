"""Parties as threads of this process, and damaged bytes for them."""

from __future__ import annotations

import contextlib
import copy
import random
import threading
from collections.abc import Iterator, Mapping

from colonnade.network.certs import tls_in
from colonnade.network.neighbours import Neighbours
from colonnade.network.party_service import PartyService
from colonnade.network.questions import pack, unpack
from colonnade.network.transport.party import serve
from tests.helpers.organisations import Organisations

PATIENCE = 60.0


@contextlib.contextmanager
def at_work(
    made: Organisations, port: int, lines: Mapping[str, Neighbours] | None = None
) -> Iterator[dict[str, PartyService]]:
    """All parties, as threads of this process; `lines` are those that some of them have to others."""
    stop, lines = threading.Event(), lines or {}
    threads: list[threading.Thread] = []
    services = {name: made.service(name, neighbours=lines.get(name)) for name in made.names}
    for name, service in services.items():
        line = (f"localhost:{port}", tls_in(made.folder / "certs", name), name, service.answer)
        threads.append(threading.Thread(target=serve, args=line, kwargs={"stop": stop}, daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield services
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
        for service in services.values():
            service.close()


WEIRD: list[object] = [
    None,
    True,
    0,
    -1,
    2**64 - 1,
    1e308,
    float("nan"),
    "",
    "x",
    b"\xff",
    "../x",
    [],
    [[]],
    {},
    {"": 0},
    ["party1"] * 3,
]


def damaged(raw: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """Bytes flipped, cut, glued; or a well-formed parcel with an entry that is missing, foreign, or of another kind."""
    way = draw.randrange(8)
    if way == 0:
        body = bytearray(raw)
        for _ in range(draw.randint(1, 8)):
            body[draw.randrange(len(body))] = draw.randrange(256)
        return bytes(body)
    if way == 1:
        return raw[: draw.randrange(len(raw))]
    if way == 2:
        return draw.randbytes(draw.randrange(200))
    found = unpack(raw)
    head, blobs = copy.deepcopy(dict(found.head)), list(found.blobs)
    if way == 3 and head:
        del head[draw.choice(list(head))]
    elif way == 4 and head:
        head[draw.choice(list(head))] = draw.choice(WEIRD)
    elif way == 5:  # fields and blobs of another
        other = unpack(draw.choice(others))
        head |= {name: value for name, value in other.head.items() if draw.random() < 0.5}
        blobs = list(other.blobs) if draw.random() < 0.5 else blobs
    elif way == 6 and blobs:
        at = draw.randrange(len(blobs))
        blobs[at] = draw.choice([b"", blobs[at][:-1], blobs[at] + b"x", draw.randbytes(len(blobs[at])), blobs[0]])
    else:
        draw.shuffle(blobs)
        head["run"] = draw.choice(["open", "run", "unknown", *WEIRD])
    return pack(head, blobs)
