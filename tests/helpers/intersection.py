"""One private intersection of two lists of keys."""

from __future__ import annotations

from colonnade.data import psi
from colonnade.data.row_order import Places
from colonnade.privacy.keyring import derive

PEPPER, OTHER, SALT = bytes(range(32)), bytes(range(1, 33)), b"s" * 32


def split(words: list[bytes], key: bytes) -> list[bytes]:
    """The blinded words of a party, block by block."""
    order = psi.secret_order(words, key)
    places = [order[at * psi.BLOCK : (at + 1) * psi.BLOCK] for at in range(psi.blocks(len(words)))]
    return [psi.blind([words[place] for place in block], key, SALT) for block in places]


def again(blocks: list[bytes], key: bytes, size: int) -> list[bytes]:
    return [psi.blind_again(block, key, psi.block_size(size, at)) for at, block in enumerate(blocks)]


def intersect_privately(
    client: list[bytes], server: list[bytes], session: str = "s1"
) -> tuple[Places, tuple[bytes, ...]]:
    """One intersection: the places of the client's words that the server has, and all bytes on the way."""
    mine, theirs = (psi.psi_key(derive(name, "stored"), session, "peer") for name in (b"client", b"server"))
    request, setup = split(client, mine), split(server, theirs)
    response = again(request, theirs, len(client))
    shown = b"".join(again(setup, mine, len(server)))
    found = psi.common(shown, b"".join(response), psi.secret_order(client, mine), client)
    return found, (*request, *setup, *response)
