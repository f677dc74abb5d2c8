"""A cryptographic counter stream that numba can read: ChaCha20.

Claim    the words drawn are the ChaCha20 key stream, in order, as little-endian 64-bit words.
Source   RFC 8439, sections 2.1 to 2.3. Words 12 and 13 of the state count blocks together, so the stream
         does not wrap at 2^32 blocks; up to there it is the RFC's stream bit for bit.
Leaves   nothing. A stream array holds its key: never log it, never send it.
Price    measured by `python -m benchmarks.sparse`: about 30 ns a word.

A stream is one uint64 array, so that it passes through numba as an array like any other:
word 0 is the position in the buffer, words 1 to 8 are the sixteen 32-bit words of the next block's input,
words 9 to 16 are the buffer (one block of 64 bytes).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint32, uint64
from numpy.typing import NDArray

from colonnade.errors import InvalidInput

BUFFER = 9
WORDS = 8
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")

Stream = NDArray[np.uint64]


def keyed_stream(key: bytes, nonce: bytes = bytes(12), counter: int = 0) -> Stream:
    """The stream of a key. Whoever knows the key can subtract the noise: it comes from the operating system, fresh."""
    if len(key) != 32 or len(nonce) != 12 or not 0 <= counter < 2**32:
        raise InvalidInput("ChaCha20 needs a key of 32 bytes, a nonce of 12 and a counter from 0 to 2^32.")
    stream = np.zeros(BUFFER + WORDS, dtype=np.uint64)
    block = np.concatenate(
        [
            _CONSTANTS,
            np.frombuffer(key, dtype="<u4"),
            np.array([counter], dtype=np.uint32),
            np.frombuffer(nonce, dtype="<u4"),
        ]
    ).astype(np.uint64)
    stream[1:BUFFER] = block[0::2] | (block[1::2] << np.uint64(32))
    stream[0] = WORDS
    return stream


@njit(cache=True)
def _quarter_round(a: Any, b: Any, c: Any, d: Any) -> Any:
    # uint32(...) cuts each sum back to 32 bits: numba widens scalar sums to 64.
    a = uint32(a + b)
    d = uint32(d ^ a)
    d = uint32((d << uint32(16)) | (d >> uint32(16)))
    c = uint32(c + d)
    b = uint32(b ^ c)
    b = uint32((b << uint32(12)) | (b >> uint32(20)))
    a = uint32(a + b)
    d = uint32(d ^ a)
    d = uint32((d << uint32(8)) | (d >> uint32(24)))
    c = uint32(c + d)
    b = uint32(b ^ c)
    b = uint32((b << uint32(7)) | (b >> uint32(25)))
    return a, b, c, d


@njit(cache=True)
def _join(low: Any, high: Any) -> Any:
    return uint64(uint32(low)) | (uint64(uint32(high)) << uint64(32))


@njit(cache=True)
def _refill(stream: Stream) -> None:
    """Puts the next block into the buffer and advances the block counter."""
    i0 = uint32(stream[1])
    i1 = uint32(stream[1] >> uint64(32))
    i2 = uint32(stream[2])
    i3 = uint32(stream[2] >> uint64(32))
    i4 = uint32(stream[3])
    i5 = uint32(stream[3] >> uint64(32))
    i6 = uint32(stream[4])
    i7 = uint32(stream[4] >> uint64(32))
    i8 = uint32(stream[5])
    i9 = uint32(stream[5] >> uint64(32))
    i10 = uint32(stream[6])
    i11 = uint32(stream[6] >> uint64(32))
    i12 = uint32(stream[7])
    i13 = uint32(stream[7] >> uint64(32))
    i14 = uint32(stream[8])
    i15 = uint32(stream[8] >> uint64(32))
    x0 = i0
    x1 = i1
    x2 = i2
    x3 = i3
    x4 = i4
    x5 = i5
    x6 = i6
    x7 = i7
    x8 = i8
    x9 = i9
    x10 = i10
    x11 = i11
    x12 = i12
    x13 = i13
    x14 = i14
    x15 = i15
    for _ in range(10):
        x0, x4, x8, x12 = _quarter_round(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter_round(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter_round(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter_round(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter_round(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter_round(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter_round(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter_round(x3, x4, x9, x14)
    stream[9] = _join(x0 + i0, x1 + i1)
    stream[10] = _join(x2 + i2, x3 + i3)
    stream[11] = _join(x4 + i4, x5 + i5)
    stream[12] = _join(x6 + i6, x7 + i7)
    stream[13] = _join(x8 + i8, x9 + i9)
    stream[14] = _join(x10 + i10, x11 + i11)
    stream[15] = _join(x12 + i12, x13 + i13)
    stream[16] = _join(x14 + i14, x15 + i15)
    stream[7] += uint64(1)  # words 12 and 13: the block counter
    stream[0] = uint64(0)


@njit(cache=True)
def next_word(stream: Stream) -> Any:
    """The next 64 bits."""
    position = stream[0]
    if position == uint64(WORDS):
        _refill(stream)
        position = uint64(0)
    stream[0] = position + uint64(1)
    return stream[BUFFER + np.int64(position)]


@njit(cache=True)
def below(stream: Stream, n: Any) -> Any:
    """A uniform integer in [0, n), exactly, for 1 <= n <= 2^63: keep the low bits, draw again if too large."""
    n = uint64(n)
    mask = n - uint64(1)
    mask |= mask >> uint64(1)
    mask |= mask >> uint64(2)
    mask |= mask >> uint64(4)
    mask |= mask >> uint64(8)
    mask |= mask >> uint64(16)
    mask |= mask >> uint64(32)
    while True:
        r = next_word(stream) & mask
        if r < n:
            return r


@njit(cache=True)
def open_uniform(stream: Stream) -> Any:
    """A double strictly inside (0, 1): (k + 1/2) / 2^52 with k uniform, so that neither 0 nor 1 can come up."""
    return (np.float64(next_word(stream) >> uint64(12)) + 0.5) * 2.0**-52
