"""Products by learning with errors: who sends to whom, scales, bits that travel, and whether a stage may run at all.

All of it follows from public figures and what left before, so every party works it out for itself. Of two parties the
one with fewer columns sends; one upload serves all its receivers. A stage takes the first parameters of the table, and
of these the fewest bits, at which

    growth   what a sender learns of its receivers' rows through its own errors costs at most GROWTH of the sensitivity
    error    the errors of the encryption are at most ERROR of one party's noise in every entry
    hints    published sums leave at least LEAST_SIGMA of every secret's sd
    secrets  all secrets of the run together leave at least LEAST_BITS of security

and is refused where there are none. docs/understand/privacy/lwe.md, products by LWE, derives all of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.lwe import Lattice
from colonnade.privacy.lattice import (
    FAILURE,
    LEAST_BITS,
    LEAST_SIGMA,
    TABLE,
    bits_left,
    error_variance,
    longest,
    sigma_left,
)

Pair = tuple[str, str]
GROWTH = 0.01  # of the sensitivity: what errors may add to it
ERROR = 0.05  # of one party's noise: what errors may add to an entry
MARGIN = 12.0  # standard deviations of both parties' noise that fit beside a product on either side
FEWEST_BITS = 16  # of an entry that travel
SHOWN = 1e-9  # of delta: what the chance that a bound fails may come to; no statement would show it


@dataclass(frozen=True)
class Side:
    """A party's matrix in one stage, in public figures."""

    entries: Floats  # how far an entry of each column can be from zero, in units
    units: Floats  # f: the steps that a 1 in each column stands for
    nonnegative: NDArray[np.bool_]
    norm2: float  # the most that the squares of a row sum to, in steps

    @property
    def width(self) -> int:
        return self.entries.size


@dataclass(frozen=True)
class Mechanism:
    """The release that products are part of: in one stage the same for all of them."""

    rows: int
    sigma: float  # of an entry of weight 1, in steps
    weight: float  # of the noise that either party adds to a product
    sensitivity: float  # of one row, before errors count
    secrets: int = 1  # of the whole run, this stage among others


@dataclass(frozen=True)
class Exchange:
    """The products of one stage."""

    sides: Mapping[str, Side]
    pairs: tuple[Pair, ...]  # the first one before the second in the roster
    mechanism: Mechanism
    lattice: Lattice
    cut: int

    @cached_property
    def routes(self) -> tuple[Pair, ...]:
        """Sender and receiver of every pair, in the order of the pairs."""
        sides = self.sides
        return tuple((a, b) if sides[a].width <= sides[b].width else (b, a) for a, b in self.pairs)

    def receivers(self, party: str) -> tuple[str, ...]:
        return tuple(b for a, b in self.routes if a == party)

    def senders(self, party: str) -> tuple[str, ...]:
        return tuple(a for a, b in self.routes if b == party)

    def partners(self, party: str) -> tuple[str, ...]:
        """In the order of the pairs."""
        return tuple(b if a == party else a for a, b in self.pairs if party in (a, b))

    @property
    def sending(self) -> tuple[str, ...]:
        return tuple(party for party in self.sides if self.receivers(party))

    # ------------------------------------------------------------------------ figures of columns

    def noise(self, route: Pair) -> Floats:
        """The sd of one party's noise in every product of a route, in units."""
        one, other = (self.sides[party].units for party in route)
        return np.asarray(self.mechanism.weight * self.mechanism.sigma / np.outer(one, other))

    def reach(self, route: Pair) -> tuple[Floats, Floats]:
        """The least and the most that every product of a route can be with its noise, in units."""
        one, other = (self.sides[party] for party in route)
        most = self.mechanism.rows * np.outer(one.entries, other.entries)
        least = np.where(np.outer(one.nonnegative, other.nonnegative), 0.0, -most)
        spread = MARGIN * math.hypot(1.0, 1.0, ERROR) * self.noise(route) + 1.0
        return least - spread, most + spread

    @cached_property
    def scales(self) -> dict[str, Integers]:
        """Δ of every column of every sender: as large as the modulus has room for."""
        modulus = 2.0**self.lattice.bits
        return {party: np.floor(np.maximum(modulus / room, 1.0)).astype(np.int64) for party, room in self.rooms.items()}

    @cached_property
    def rooms(self) -> dict[str, Floats]:
        """How many whole numbers the products of every column of every sender are among, at the most."""
        found = {}
        for party in self.sending:
            ends = [self.reach((party, other)) for other in self.receivers(party)]
            found[party] = np.max([(high - low).max(axis=1) for low, high in ends], axis=0) + 1.0
        return found

    def weights(self, route: Pair) -> Floats:
        """Of the noise that either party of a route adds, in units of 1/Δ: on the grid of the ciphertext."""
        one, other = (self.sides[party].units for party in route)
        exact = self.mechanism.weight * self.scales[route[0]][:, None] / np.outer(one, other)
        return np.asarray(np.nextafter(exact * (1.0 + 2.0**-50), np.inf))  # noise is never less than priced

    def lift(self, route: Pair, opened: Integers) -> Floats:
        """The products of a route in units, from what its sender opened, modulo q."""
        scale = self.scales[route[0]][:, None]
        base = np.floor(self.reach(route)[0] * scale).astype(np.int64)
        above = (opened.astype(np.uint64) - base.astype(np.uint64)) & np.uint64(self.lattice.ring.mask)
        return np.asarray((base + above.astype(np.int64)) / scale)

    # ------------------------------------------------------------------------ what must hold

    def _steps(self, party: str) -> Floats:
        """An error of 1 in each column of a sender, in steps."""
        return np.asarray(self.sides[party].units / self.scales[party])

    @property
    def growth(self) -> float:
        """What errors add to the sensitivity, relative to it."""
        total = 0.0
        draws = float(self.mechanism.rows * max(1, len(self.sending)))
        for party in self.sending:
            steps = self._steps(party)
            cut = 2.0 ** (self.cut - 1) * float(np.linalg.norm(steps)) if self.cut else 0.0
            error = longest(steps, draws, self.lattice) + cut
            total += error**2 * math.fsum(self.sides[other].norm2 for other in self.receivers(party))
        return 2.0 / self.mechanism.weight * math.sqrt(total) / self.mechanism.sensitivity

    @property
    def error(self) -> float:
        """The sd of the errors in a product, relative to one party's noise: the largest of all products."""
        worst = 0.0
        for route in self.routes:
            squares = self.mechanism.rows * self.sides[route[1]].entries ** 2
            sd = np.sqrt(error_variance(squares, self.cut, self.lattice)) / self.scales[route[0]][:, None]
            worst = max(worst, float((sd / self.noise(route)).max(initial=0.0)))
        return worst

    @property
    def hints(self) -> float:
        """γ²: what published sums tell of a secret, the largest over all columns of senders and receivers."""
        rows = self.mechanism.rows
        worst = 0.0
        noise2 = (self.mechanism.weight * self.mechanism.sigma) ** 2
        secrets = 2.0 * math.fsum(side.width for side in self.sides.values())  # a party may both send and receive
        small = longest(np.ones(2 * self.lattice.dimension), secrets, self.lattice) ** 2  # of (r, e₂), or (S, e₀)
        for party in self.sending:
            others = [self.sides[other] for other in self.receivers(party)]
            seen = math.fsum(rows * side.norm2 + small * float((side.units**2).sum()) for side in others)
            worst = max(worst, float((self._steps(party) ** 2).max()) * seen / noise2)
        for party in {receiver for _, receiver in self.routes}:
            steps = math.fsum(float((self._steps(sender) ** 2).sum()) for sender in self.senders(party))
            worst = max(worst, small * steps * float((self.sides[party].units ** 2).max()) / noise2)
        return worst * float(self.lattice.sigma) ** 2

    @property
    def security(self) -> float:
        """Bits that all secrets of the run have together, by our estimate."""
        return bits_left(self.lattice, self.mechanism.secrets)

    @property
    def holds(self) -> bool:
        fits = all((room <= 2.0**self.lattice.bits).all() for room in self.rooms.values())
        if not fits or self.security < LEAST_BITS or self.growth > GROWTH or self.error > ERROR:
            return False
        return sigma_left(self.hints, self.lattice) >= LEAST_SIGMA


def secrets_of(widths: Mapping[str, int], pairs: tuple[Pair, ...]) -> int:
    """How many secrets the products of one stage have at most: a column of whoever sends is one, and of whoever
    receives; with two partners a party may do both. Fewer columns have fewer, whoever then sends."""
    partners = Counter(party for pair in pairs for party in pair)
    return sum(width * min(2, partners[party]) for party, width in widths.items())


def fitting(sides: Mapping[str, Side], pairs: tuple[Pair, ...], mechanism: Mechanism) -> Exchange | None:
    """The exchange with the first parameters that hold, and of these the fewest bits; None where none do."""
    for lattice in TABLE:
        if bits_left(lattice, mechanism.secrets) < LEAST_BITS:
            continue
        for cut in range(lattice.bits - FEWEST_BITS, -1, -1):
            exchange = Exchange(sides, pairs, mechanism, lattice, cut)
            if exchange.holds:
                return exchange
    return None


def settle(sides: Mapping[str, Side], pairs: tuple[Pair, ...], mechanism: Mechanism) -> Exchange:
    """The same, or an error."""
    found = fitting(sides, pairs, mechanism)
    if found is None:
        raise InvalidInput(_too_large(Exchange(sides, pairs, mechanism, TABLE[-1], 0)))
    return found


def _too_large(exchange: Exchange) -> str:
    """What does not hold of an exchange with the largest modulus, all bits of which travel."""
    bits = exchange.lattice.bits
    sigma = sigma_left(exchange.hints, exchange.lattice)
    room = max(float(room.max()) for room in exchange.rooms.values())
    broken = {
        f"they and their noise take 2^{math.log2(room):.1f} numbers": room > 2.0**bits,
        f"its errors would be {100 * exchange.error:.3g} % of the noise where {100 * ERROR:g} % may be": (
            exchange.error > ERROR
        ),
        f"its errors would cost {100 * exchange.growth:.3g} % of the sensitivity where {100 * GROWTH:g} % may": (
            exchange.growth > GROWTH
        ),
        f"published sums would leave an sd of {sigma:.3g} of its secrets where {LEAST_SIGMA:g} must be left": (
            sigma < LEAST_SIGMA
        ),
        f"{exchange.mechanism.secrets:,} secrets, one a column and stage, would leave {exchange.security:.1f} bits of "
        f"security where {LEAST_BITS:g} must be left": exchange.security < LEAST_BITS,
    }
    # Too much noise for the modulus, or too little for what encryption adds.
    noise = max(float(exchange.noise(route).max()) for route in exchange.routes)
    remedy = "a larger epsilon" if MARGIN * noise > 2.0 ** (bits - 4) else "a smaller epsilon"
    if exchange.security < LEAST_BITS:
        remedy = "fewer columns"
    return (
        f"products over {exchange.mechanism.rows:,} rows are too large for encryption modulo 2^{bits}: "
        f"{', and '.join(said for said, is_broken in broken.items() if is_broken)}. Take trust='secure', or {remedy}."
    )


def check_failure(epsilon: float, delta: float, releases: int) -> None:
    """Refuse terms by which the chance that a bound on errors fails would show in delta."""
    if 2 * releases * FAILURE * (1.0 + math.exp(min(epsilon, 700.0))) > SHOWN * delta:
        raise InvalidInput(
            f"trust='parties' holds but for a chance of 2^-100 a bound, which at epsilon={epsilon:g} and "
            f"delta={delta:g} is not small. Ask for a smaller epsilon or a larger delta."
        )
