"""What an epsilon and a delta mean for somebody who tries to find out about one person.

Two tables that differ in one unit, A and B; the adversary knows everything else and sees what the statement says it sees.
With probability delta at most anything may come out. Apart from that every output is at most e^epsilon times as likely
under one table as under the other (Kairouz, Oh, Viswanath, arXiv:1311.0776: any such pair is post-processing of a randomised response). Hence
    odds of A against B afterwards ≤ e^epsilon · odds before,
    a fair coin between A and B is guessed with probability at most (e^epsilon + delta) / (e^epsilon + 1),
    a test of B that is wrong in a share a of cases finds A in at most min(e^epsilon·a + delta, 1 − e^(−epsilon)·(1 − delta − a)).
"""

from __future__ import annotations

import math


def belief(before: float, epsilon: float) -> float:
    """The largest probability after, for one of `before`, apart from the chance delta that nothing holds."""
    if before in (0.0, 1.0):
        return before
    # e^-epsilon cannot overflow: large epsilons just end at 1.
    return 1.0 / (1.0 + (1.0 - before) / before * math.exp(-epsilon))


def guess(epsilon: float, delta: float) -> float:
    """The best chance of telling A from B when both are equally likely."""
    small = math.exp(-epsilon)
    return min(1.0, (1.0 + delta * small) / (1.0 + small))


def power(wrong: float, epsilon: float, delta: float) -> float:
    """The largest share of true cases found by a test that accuses wrongly in the share `wrong`."""
    first = (
        math.exp(epsilon) * wrong + delta if epsilon < 700.0 else math.inf
    )  # beyond that it overflows, and is above 1
    second = 1.0 - math.exp(-epsilon) * (1.0 - delta - wrong)
    return max(0.0, min(1.0, first, second))


def percent(share: float) -> str:
    """A probability with enough digits to be told from 0 and from 1; rounded up, since it is said of bounds."""
    far = min(share, 1.0 - share)
    if far <= 0.0:
        return f"{share:.0%}".replace("%", " %")
    digits = min(12, max(1, -math.floor(math.log10(far))))
    least = math.ceil(share * 100.0 * 10**digits * (1 - 1e-13)) / 10**digits
    return f"{least:.{digits}f}".rstrip("0").rstrip(".") + " %"
