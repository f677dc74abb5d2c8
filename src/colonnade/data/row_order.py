"""In which order rows stand in a run, and which rows of a person stay: by keyed digests of their keys, under a secret.

In one process the secret is the store's, between organisations it is the pepper that the parties share; the function is
the same. Without the secret the order is random, whatever the rows hold and whose they are, so that a person who takes
another one's place in the table may be thought to take the place in the order, too:
docs/understand/privacy/units.md, "Place of a row".

    place   rows are sorted by one digest of their key
    cut     of a person with too many rows those stay whose *other* digest is lowest: where the rows that stay stand
            does not tell how many the person had
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Set
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.fields import Choice
from colonnade.privacy.keyring import derive

if TYPE_CHECKING:
    import polars as pl

DIGEST = 16  # bytes; N different keys collide with probability at most N²/2¹²⁹: 1.5e-27 for a million
SECRET = 32
_DIGITS = r"\A(?:0|-?[1-9][0-9]*)\z"  # a text that writes a whole number as everybody does
_DIGIT = re.compile(r"0|-?[1-9][0-9]*")

Digests = NDArray[np.uint8]  # n × 16
Places = NDArray[np.int64]


class KeyKind(Choice):
    """What sort of key a column holds."""

    WHOLE = "whole number"
    DIGITS = "digits"  # texts that all write one
    TEXT = "text"
    DATE = "date"


def key_kind(keys: pl.Series) -> KeyKind:
    """What sort of key a column holds."""
    import polars as pl

    if keys.dtype.is_integer():
        return KeyKind.WHOLE
    if keys.dtype in (pl.String, pl.Categorical, pl.Enum):
        return KeyKind.DIGITS if keys.cast(pl.String).str.contains(_DIGITS).all() else KeyKind.TEXT
    if keys.dtype == pl.Date:
        return KeyKind.DATE
    kinds = "a key is a whole number, a text or a date. Convert it, in the same way at every party."
    raise InvalidInput(f"the key column has type {keys.dtype}; {kinds}")


def kinds_match(kinds: Set[str]) -> bool:
    """Whether keys of these sorts may be compared: "17" is 17; "0017" beside numbers lost a zero somewhere."""
    return len(kinds) == 1 or kinds in ({KeyKind.WHOLE, KeyKind.DIGITS}, {KeyKind.DIGITS, KeyKind.TEXT})


def canonical(keys: pl.Series) -> list[bytes]:
    """The bytes that stand for each key: a mark, then decimal digits, text in Unicode's form NFC, or the ISO date.

    The width of integers, the composition of accents and whether digits are a number or a text do not matter; leading
    zeros do. A party whose texts have them would lose rows without a word to one that holds numbers, so `agree` refuses
    the two.
    """
    import polars as pl

    sort = key_kind(keys)
    if keys.is_empty():
        raise InvalidInput("the key column has no rows.")
    if nulls := keys.null_count():
        raise InvalidInput(f"{nulls:,} rows have no key; fill it in or leave them out.")
    texts: list[str] = keys.cast(pl.String).to_list()
    if sort is not KeyKind.TEXT:
        mark = b"d" if sort is KeyKind.DATE else b"i"
        return [mark + text.encode() for text in texts]
    texts = [text if text.isascii() else unicodedata.normalize("NFC", text) for text in texts]
    return [(b"i" if _DIGIT.fullmatch(text) else b"t") + text.encode() for text in texts]


def as_whole_numbers(keys: pl.Series) -> pl.Series:
    """Keys as they are handed out: whole numbers where all are, though a file without types has them as texts."""
    import polars as pl

    if key_kind(keys) is not KeyKind.DIGITS:
        return keys
    numbers = keys.cast(pl.String).cast(pl.Int64, strict=False)
    return keys if numbers.null_count() else numbers  # over 64 bits they stay texts


def digests(keys: pl.Series, secret: bytes, use: str = "row") -> Digests:
    """The keyed digest of each key, in the order of the table: BLAKE2b of 16 bytes, keyed by the secret and the use."""
    key = derive(checked_secret(secret), "align", use)
    joined = b"".join([hashlib.blake2b(word, digest_size=DIGEST, key=key).digest() for word in canonical(keys)])
    return np.frombuffer(joined, np.uint8).reshape(-1, DIGEST)


def in_order(keys: pl.Series, secret: bytes, people: pl.Series | None = None, rows: int = 1) -> tuple[Digests, Places]:
    """The digests of the rows that stay, sorted, and the place in the table of each: everybody has at most `rows`."""
    mine = digests(keys, secret)
    words = as_words(mine)
    order = np.argsort(words, kind="stable")
    if double := int((words[order][1:] == words[order][:-1]).sum()):
        advice = "each key may stand once. Aggregate the rows of a key, or use a finer key. Nothing was sent."
        raise InvalidInput(f"{double:,} rows repeat a key; {advice}")
    if people is not None:
        order = order[_stays(people, np.argsort(as_words(digests(keys, secret, "cut"))), rows)[order]]
    return mine[order], order.astype(np.int64)


def _stays(people: pl.Series, order: NDArray[np.intp], rows: int) -> NDArray[np.bool_]:
    """Which rows of the table are, taken in this order, among the first `rows` of their person."""
    if len(people) != order.size or rows < 1:
        about = f"people says whom {len(people):,} rows are about, with at most {rows} each"
        raise InvalidInput(f"{about}; there are {order.size:,} keys, and a person keeps at least 1 row.")
    if nulls := people.null_count():
        raise InvalidInput(f"{nulls:,} rows do not say whom they are about; fill it in or leave them out.")
    ranks = rank_in_person(people.gather(order))
    stays = np.empty(order.size, np.bool_)
    stays[order] = (ranks < rows).to_numpy()
    return stays


def rank_in_person(people: pl.Series) -> pl.Series:
    """For each row, how many rows of the same person stand before it."""
    import polars as pl

    return people.to_frame("p").select(pl.int_range(pl.len()).over("p")).to_series()


def as_words(given: Digests) -> NDArray[np.bytes_]:
    """Each digest as one value that NumPy sorts byte by byte. All have 16 bytes, so trailing zeros cannot confuse."""
    return np.ascontiguousarray(given).view(f"S{DIGEST}").ravel()


def checked_secret(secret: Any) -> bytes:
    if not isinstance(secret, bytes) or len(secret) != SECRET:
        raise InvalidInput(f"a pepper or a secret is {SECRET} bytes; got {type(secret).__name__} of another length.")
    return secret
