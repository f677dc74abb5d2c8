"""What coordinator and parties of Private Gram say to each other where they compute together.

A field in `Released` has passed a gate. Which messages are sealed, and to whom, stands with each.
"""

from __future__ import annotations

from colonnade.kernels.arrays import Floats, Integers
from colonnade.privacy.values import Packed, Released
from colonnade.runtime.program import message


@message(120)
class Introduce:
    """Coordinator → party: send your key of this run."""


@message(121)
class RunKey:
    """Party → coordinator, for the other parties: my public key of this run, signed by my pinned one."""

    key: Released[bytes]
    signature: Released[bytes]


@message(122)
class Meet:
    """Coordinator → party: the keys of all parties, in roster order; empty for those who are lost."""

    keys: tuple[bytes, ...]
    signatures: tuple[bytes, ...]


@message(140)
class CoordinatorKey:
    """Coordinator → party: my own public key of this run, signed by my pinned one; what is masked is sealed to it."""

    key: bytes
    signature: bytes


@message(141)
class Seed:
    """Party → party, sealed: the digest of the next stage as I was told it; to a partner also the seed of my mask."""

    digest: Released[bytes]
    seed: Released[bytes]


@message(142)
class Next:
    """Coordinator → party: send your next rows under their mask."""


@message(143)
class Masked:
    """Party → coordinator, sealed: the next rows of my columns under a one-time mask, each column in its own ring."""

    rows: Released[bytes]


@message(144)
class SendParts:
    """Coordinator → party: send what you computed, without what concerns those who are lost, by place in the roster."""

    lost: tuple[int, ...]


@message(145)
class SendDiagonal:
    """Coordinator → party: send the squared lengths of your columns."""


@message(146)
class Diagonal:
    """Party → coordinator, sealed: the squared lengths of its columns, noisy (inside a consortium exact)."""

    squares: Released[Packed]


@message(147)
class Widths:
    """Coordinator → party: the bits of the ring of each column, all parties' in roster order."""

    bits: Integers


@message(126)
class Parts:
    """Party → coordinator, sealed: its parts of the sums, noisy (inside a consortium exact), and its corrections of the
    products with each partner."""

    parts: tuple[Released[Packed], ...]


@message(148)
class Prepare:
    """Coordinator → all parties, the same to each: how rows of the next release are made, from public figures."""

    name: str
    step: float
    bits: int
    norm2: Integers  # by party, in roster order
    constant: int
    label: int
    keep: Integers  # places among all columns, in roster order
    centre: Floats
    scale: Floats
    labels: Floats  # noisy ones, where class sums go by them; else none
