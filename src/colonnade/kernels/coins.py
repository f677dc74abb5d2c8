"""Coins tossed exactly, though their chances are real numbers: doubles decide, and exact arithmetic where they cannot.

Claim    a coin of chance p comes up with probability p, given uniform words: no rounding decides an outcome.
Source   ours; u < p for a uniform real u whose bits are drawn as they are needed.
Leaves   nothing: numbers in, an answer out.
Price    a word and two comparisons; about once in 2^40 tosses some milliseconds.

u is known by its `head`, the whole number of its first 53 bits, and p by a double that is off by a factor within
exp(±doubt/2), or below 2^-900 as p is. A head beyond the doubt is an answer. Within it the toss stays OPEN: `settle`
encloses p between two fractions, with more digits each time, and draws more bits of u until they part. `doubt_of`
bounds what the doubles of `samplers` are off by: docs/understand/privacy/one-holder.md, sparse Frank-Wolfe picks.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from numba import njit, uint64

from colonnade.kernels.stream import Stream, next_word

NO, YES, OPEN = range(3)
HEAD = 53  # bits: doubles hold head + 1 as well
DOUBT = 2.0**-50
MOST = 0.5  # a doubt above it says nothing
FLOOR = 2.0**-500  # of a chance in heads: below it only that it is below is known

Between = Callable[[int], tuple[Fraction, Fraction]]  # digits in, two fractions out: one at most p, one at least


@njit(inline="always")
def head_of(stream: Stream) -> Any:
    """The first bits of a uniform real, as a whole number in a double."""
    return float(next_word(stream) >> uint64(64 - HEAD))


@njit(inline="always")
def doubt_of(log_weight: float, doubt: float) -> Any:
    """Twice what the logarithm of a chance may be off by, where the exponent c·score is."""
    return (abs(log_weight) + 1024.0) * doubt


@njit(inline="always")
def toss(head: float, chance: float, doubt: float) -> Any:
    """Whether u < p: NO, YES or OPEN."""
    heads = chance * 2.0**HEAD
    if doubt > MOST:
        return OPEN
    if head >= heads * (1.0 + doubt) + FLOOR:
        return NO
    return YES if head + 1.0 <= heads * (1.0 - doubt) else OPEN


def settle(stream: Stream, head: int, between: Between) -> bool:
    """Whether u < p, where `toss` left it open."""
    u = head
    bits = HEAD
    digits = 40
    while True:
        low, high = between(digits)
        if Fraction(u + 1, 1 << bits) <= low:
            return True
        if Fraction(u, 1 << bits) >= high:
            return False
        u = u << 64 | int(next_word(stream))
        bits = bits + 64
        digits = digits + 20


def exp_between(x: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Two fractions around exp(x), that many digits apart; (0, a little) where x is far below."""
    least = Fraction(-1000 * digits)  # farther down with every digit, so that no x stays below it
    low = _exp(x, digits, ROUND_FLOOR).next_minus(_context(digits, ROUND_FLOOR)) if x >= least else Decimal(0)
    high = _exp(max(x, least), digits, ROUND_CEILING).next_plus(_context(digits, ROUND_CEILING))
    return Fraction(low), Fraction(high)


def _exp(x: Fraction, digits: int, rounding: str) -> Decimal:
    """exp to the nearest, which `Decimal.exp` promises, of x rounded as told."""
    narrow = _context(digits + 20 + len(str(int(x))), rounding).divide(Decimal(x.numerator), Decimal(x.denominator))
    return narrow.exp(_context(digits, rounding))


def _context(digits: int, rounding: str) -> Context:
    return Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def weight_between(log_weight: Fraction, ref: Fraction, factor: Fraction) -> Between:
    """factor·cosh(log_weight)·exp(-ref)."""

    def between(digits: int) -> tuple[Fraction, Fraction]:
        up = exp_between(log_weight - ref, digits)
        down = exp_between(-log_weight - ref, digits)
        return factor * (up[0] + down[0]) / 2, factor * (up[1] + down[1]) / 2

    return between


def sign_between(log_weight: Fraction) -> Between:
    """The chance of the sign that the score does not have: e/(1 + e), e = exp(-2|log_weight|)."""

    def between(digits: int) -> tuple[Fraction, Fraction]:
        low, high = exp_between(-2 * abs(log_weight), digits)
        return low / (1 + low), high / (1 + high)

    return between
