"""How a price is written for people, everywhere alike: statement, report, command line, budget, errors."""

from __future__ import annotations

import math

DIGITS = 4


def shown(figure: float) -> str:
    """An epsilon or a delta for people: four significant digits, rounded up, so that no price looks lower than it is.

    What lies above a number of four digits by a part in 10⁹ or less is that number: the last bits of a computed figure.
    """
    if not (math.isfinite(figure) and figure > 0.0):
        return f"{figure:g}"
    nearest = float(f"{figure:.{DIGITS - 1}e}")
    if nearest < figure * (1.0 - 1e-9):
        step = 10.0 ** (math.floor(math.log10(nearest)) - DIGITS + 1)
        nearest = float(f"{nearest + step:.{DIGITS - 1}e}")
    return f"{nearest:.{DIGITS}g}"
