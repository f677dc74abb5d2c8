"""Secrets of products by learning with errors, the parameters they are drawn by, and what published sums tell of them.

Hiding     a sender's S and e: its rows plus A·S + e are uniform numbers to whoever lacks S. Every row is hidden once.
Blinding   a receiver's r and e₂: Aᵀ[r; Y] + e₂ is uniform to whoever lacks r, and covers one matrix Y once.
Law        all of them are discrete Gaussians of sd σ, drawn exactly (mechanisms.py) from a stream that a secret of the
           run keys: a replay makes the same again, and when the run closes the secret is erased.
Hints      sums that are published tell a little of secrets. Given hints of relative size γ they are as good as fresh
           ones of sd σ/√(2(1 + γ + γ²)) (Kim, Lee, Seo and Song, CRYPTO 2023; docs/understand/privacy/lwe.md), and a
           run in which that is below LEAST_SIGMA is refused.
Estimate   `security`, of the two attacks that shorten vectors: `python -m benchmarks lwe` prints it. It is ours, and no
           outside cryptographer has read it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.lwe import (
    CHUNK,
    SMALL,
    Lattice,
    PublicProduct,
    Room,
    hide,
    inner,
    open_answer,
    pack_hidden,
    times_public,
)
from colonnade.privacy.keyring import derive
from colonnade.privacy.mechanisms import Noise, rational_sigma

# The first that a stage fits in is taken: of each modulus a length for some hundred secrets, and one for thousands.
TABLE = (*map(Lattice, (32, 32, 40, 40, 48, 48), (1408, 1472, 1792, 1856, 2176, 2240)),)
LEAST_SIGMA = 4.0  # what hints must leave of σ; the estimate is made with it
LEAST_BITS = 128.0  # of security that all secrets of a run together must have by that estimate
CLASSICAL = 0.292  # bits of work for each dimension of a block: a sieve (Becker, Ducas, Gama and Laarhoven 2016)
QUANTUM = 0.265  # the same with Grover's search inside (Laarhoven 2015)
PARALLEL = 8  # chunks of rows from which a second thread pays
FAILURE = 2.0**-100  # the chance that one figure of a stage is over its bound: counted with the adversary's advantage


class KeyedNoise(Noise):
    """Exact draws from an AES-256 stream under a secret of the run: for secrets, which a replay needs again."""

    private = True

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def uniform_bytes(self, count: int) -> bytes:
        return self._stream.update(bytes(count))


def _small(key: bytes, name: str, shape: tuple[int, int], lattice: Lattice) -> NDArray[np.int64]:
    drawn = KeyedNoise(derive(key, "small", name)).discrete_gaussian(shape[0] * shape[1], lattice.sigma)
    return drawn.reshape(shape)


@dataclass(frozen=True)
class Hiding:
    """What hides a sender's columns in one stage: S, and e row by row."""

    seed: bytes = field(repr=False)  # a secret of the run: no log and no error message shows it
    public: bytes  # the key that A grows from
    lattice: Lattice
    scales: Integers  # Δ of each column
    cut: int  # low bits that do not travel

    @cached_property
    def key(self) -> bytes:
        """What tells these secrets from all others."""
        return derive(self.seed, "hiding", self.public.hex(), str(self.lattice), str(self.cut))

    @cached_property
    def secret(self) -> NDArray[np.int64]:
        return _small(self.key, "S", (self.lattice.dimension, self.scales.size), self.lattice)

    def first_rows(self) -> bytes:
        """The rows that carry no plaintext, whole: with them a receiver makes its answer look uniform."""
        rows = self.lattice.dimension
        public = self.lattice.public(self.public, 0, rows)
        error = self._error(0, rows)
        return pack_hidden(hide(public, self.secret, error, None, self.lattice), 0, self.lattice)

    def rows(self, first: int, rows: Integers) -> bytes:
        """Rows `first` on of the columns, hidden and rounded."""
        lattice = self.lattice
        secret = self.secret
        out = np.empty((len(rows), self.scales.size), np.uint64)

        def some(chunks: Chunks) -> None:
            room = Room(lattice)
            for start, count in chunks:
                place = lattice.dimension + first + start
                public = room.public(self.public, place, count)
                scaled = rows[start : start + count].astype(np.int64) * self.scales
                error = self._error(place, count)
                out[start : start + count] = hide(public, secret, error, scaled, lattice, room)

        _on_both_cores(some, len(rows))
        return pack_hidden(out, self.cut, lattice)

    def _error(self, first: int, count: int) -> NDArray[np.int64]:
        return _small(self.key, f"e from row {first} on", (count, self.scales.size), self.lattice)

    def reveal(self, blind: Integers, answer: Integers) -> NDArray[np.int64]:
        """What a receiver's answer holds: diag(Δ)·XᵀY, its noise, and the errors of the encryption."""
        return open_answer(self.secret, blind, answer, self.lattice)


@dataclass(frozen=True)
class Blinding:
    """What hides a receiver's columns in its answers of one stage: r and e₂, the same for all senders."""

    seed: bytes = field(repr=False)
    public: bytes
    lattice: Lattice
    columns: int

    @cached_property
    def key(self) -> bytes:
        return derive(self.seed, "blinding", self.public.hex(), str(self.lattice))

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """r: the rows that are put before the receiver's own."""
        return _small(self.key, "r", (self.lattice.dimension, self.columns), self.lattice)

    def blind(self, product: Integers) -> NDArray[np.uint64]:
        """W, from AᵀY over the rows that carry plaintext."""
        lattice = self.lattice
        first = times_public(self.rows, lattice.public(self.public, 0, lattice.dimension), SMALL, lattice)
        error = _small(self.key, "e2", (lattice.dimension, self.columns), lattice)
        total = product.astype(np.uint64) + first + error.astype(np.uint64)
        return np.asarray(total & np.uint64(lattice.ring.mask))

    def mix(self, first_rows: Integers) -> Integers:
        """b₀ᵀr: what the rows that carry no plaintext add to an answer."""
        return inner(self.rows, first_rows, SMALL, self.lattice)


def public_product(rows: Integers, first: int, bound: int, public: bytes, lattice: Lattice) -> NDArray[np.uint64]:
    """AᵀY over rows `first` on, of entries within a public bound."""

    def some(chunks: Chunks) -> NDArray[np.uint64]:
        product = PublicProduct(lattice, rows.shape[1], bound)
        for start, count in chunks:
            part = product.room.public(public, lattice.dimension + first + start, count)
            product.add(rows[start : start + count], part)
        return product.total

    total = np.zeros((lattice.dimension, rows.shape[1]), np.uint64)
    for part in _on_both_cores(some, len(rows)):
        total += part
    return np.asarray(total & np.uint64(lattice.ring.mask))


Chunks = list[tuple[int, int]]  # first row, number of rows
T = TypeVar("T")


def _on_both_cores(work: Callable[[Chunks], T], rows: int) -> list[T]:
    """The work on every other chunk of rows, on two threads: kernels let go of the interpreter. Sums are of integers,
    the same in any order."""
    chunks = [(start, min(CHUNK, rows - start)) for start in range(0, rows, CHUNK)]
    if len(chunks) < PARALLEL:
        return [work(chunks)]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, (chunks[::2], chunks[1::2])))


# ------------------------------------------------------------------------------------------------ bounds


def longest(weights: Floats, draws: float, lattice: Lattice) -> float:
    """A bound of ‖(aᵢeᵢ)‖ that none of so many independent vectors e passes, but for a chance of FAILURE.

    Σ aᵢ²eᵢ² ≤ σ²(Σa² + 2√(tΣa⁴) + 2t·max a²) but for a chance of exp(-t) (Laurent and Massart 2000, lemma 1; its
    proof needs no more of e than that it is subgaussian, as the discrete Gaussian is).
    """
    if not weights.size:
        return 0.0
    t = math.log(max(1.0, draws) / FAILURE)
    squares = weights**2
    total = squares.sum() + 2.0 * math.sqrt(t * float((squares**2).sum())) + 2.0 * t * float(squares.max())
    return float(rational_sigma(lattice.sigma)) * math.sqrt(float(total)) * (1.0 + 1e-9)  # of σ as it is drawn


def sigma_left(hints: float, lattice: Lattice) -> float:
    """The sd of a fresh secret that one is worth after hints of relative size γ: `hints` is γ²."""
    return float(lattice.sigma) / math.sqrt(2.0 * (1.0 + math.sqrt(hints) + hints))


def error_variance(squares: Floats, cut: int, lattice: Lattice) -> Floats:
    """Of (e + d)ᵀy + e₀ᵀr - Sᵀe₂, by the squared lengths of columns y."""
    # Of whole numbers, to the nearest multiple of 2^cut.
    rounding = (4.0**cut + 2.0) / 12.0 if cut else 0.0
    one = float(lattice.sigma) ** 2
    return np.asarray((one + rounding) * squares + 2.0 * lattice.dimension * one**2)


# ------------------------------------------------------------------------------------------------ security


def bits_left(lattice: Lattice, secrets: int, sieve: float = CLASSICAL) -> float:
    """Bits of security of so many secrets together: an attack may be about any of them, and as sender or receiver."""
    return min(security(lattice, LEAST_SIGMA, sieve)) - math.log2(2.0 * max(1, secrets))


def least_bits(secrets: int) -> tuple[int, int]:
    """Whole bits that a run of so many secrets has left, classical and quantum, whatever parameters it takes."""
    open_to_it = [lattice for lattice in TABLE if bits_left(lattice, secrets) >= LEAST_BITS]
    classical, quantum = (
        min((math.floor(bits_left(lattice, secrets, sieve)) for lattice in open_to_it), default=0)
        for sieve in (CLASSICAL, QUANTUM)
    )
    return classical, quantum


@lru_cache
def security(lattice: Lattice, sigma: float = LEAST_SIGMA, sieve: float = CLASSICAL) -> tuple[float, float]:
    """Bits of work of the primal and of the dual attack, core-SVP: 0.292 of the block size that they need, or 0.265 on
    a quantum computer.

    For secrets and errors of sd sigma and as many samples as an attack likes. Alkim, Ducas, Pöppelmann and Schwabe
    2016, section 6: the primal one with the condition of their 6.3, the dual one of 6.4 with many vectors from a sieve.
    """
    return _primal(lattice, sigma, sieve), _dual(lattice, sigma, sieve)


def _root(block: int) -> float:
    """log₂ of the root Hermite factor."""
    inside = block / (2 * math.pi * math.e) * (math.pi * block) ** (1 / block)
    return math.log2(inside) / (2 * (block - 1))


def _samples(lattice: Lattice) -> Floats:
    return np.arange(lattice.dimension // 2, 4 * lattice.dimension, 8, dtype=float)


def _primal(lattice: Lattice, sigma: float, sieve: float) -> float:
    m = _samples(lattice)
    n = lattice.dimension
    size = n + m + 1.0
    block = 60
    while True:
        longest_tail = (2 * block - size - 1) * _root(block) + m * lattice.bits / size
        if (math.log2(sigma) + 0.5 * math.log2(block) <= longest_tail).any():
            return sieve * block
        block += 1


def _dual(lattice: Lattice, sigma: float, sieve: float) -> float:
    m = _samples(lattice)
    n = lattice.dimension
    size = n + m
    best = math.inf
    for block in range(60, 1200):
        length = size * _root(block) + n * lattice.bits / size
        advantage = 2.0 * math.pi**2 * np.exp2(np.minimum(2.0 * (length + math.log2(sigma) - lattice.bits), 60.0))
        repeats = np.maximum(0.0, 2.0 * advantage / math.log(2.0) - 0.2075 * block)
        best = min(best, sieve * block + float(repeats.min()))
        if sieve * block >= best:
            break
    return best
