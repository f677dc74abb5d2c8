"""What an epsilon and a delta mean for somebody who tries to find out about one person.

Two tables that differ in one unit, A and B; the adversary knows everything else and sees what the statement says it
sees. (epsilon, delta) says of every set S of outcomes: P_A(S) ≤ e^epsilon · P_B(S) + delta, and the same with A and B
swapped. Hence
    a fair coin between A and B is guessed with probability at most (e^epsilon + delta) / (e^epsilon + 1),
    a test of B that is wrong in a share a of cases finds A in at most
    min(e^epsilon·a + delta, 1 − e^(−epsilon)·(1 − delta − a)).
It does not say that odds move by at most e^epsilon except with chance delta. Of odds this holds:
    odds for the truth afterwards ≤ e^t · odds before, except with a chance of at most c,
with t = rho + 2·√(rho·ln(1/delta)) and c = delta for a release of price rho in zCDP, and with t = epsilon + ln 2 and c
= 2·delta for every other. The proofs are in docs/privacy.md, "What epsilon and delta mean".
"""

from __future__ import annotations

import math


def tail(epsilon: float, delta: float, rho: float | None) -> tuple[float, float]:
    """t and c: the odds for the truth are multiplied by more than e^t with a chance of at most c."""
    if rho is None:
        return epsilon + math.log(2.0), min(1.0, 2.0 * delta)
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)), delta


def belief(before: float, loss: float) -> float:
    """The probability of the truth after odds of `before` were multiplied by e^loss."""
    if before in (0.0, 1.0):
        return before
    # e^-loss cannot overflow: large losses just end at 1.
    return 1.0 / (1.0 + (1.0 - before) / before * math.exp(-loss))


def guess(epsilon: float, delta: float) -> float:
    """The best chance of telling A from B when both are equally likely."""
    small = math.exp(-epsilon)
    return min(1.0, (1.0 + delta * small) / (1.0 + small))


def power(wrong: float, epsilon: float, delta: float) -> float:
    """The largest share of true cases found by a test that accuses wrongly in the share `wrong`."""
    first = math.exp(epsilon) * wrong + delta if epsilon < 700.0 else math.inf  # beyond, it overflows
    second = 1.0 - math.exp(-epsilon) * (1.0 - delta - wrong)
    return max(0.0, min(1.0, first, second))


def factor(loss: float) -> float:
    """e^loss with four digits, rounded up, since it is said of bounds; inf where it is no float."""
    if loss >= 700.0:
        return math.inf
    value = math.exp(loss)
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    return math.ceil(value / step * (1 - 1e-13)) * step


def percent(share: float) -> str:
    """A probability with enough digits to be told from 0 and from 1; rounded up, since it is said of bounds."""
    far = min(share, 1.0 - share)
    if far <= 0.0:
        return f"{share:.0%}".replace("%", " %")
    digits = min(12, max(1, -math.floor(math.log10(far))))
    least = math.ceil(share * 100.0 * 10**digits * (1 - 1e-13)) / 10**digits
    return f"{least:.{digits}f}".rstrip("0").rstrip(".") + " %"
