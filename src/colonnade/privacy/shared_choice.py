"""The exponential mechanism over the scores of several parties, each of which draws its own part.

Claim    index and party together follow P ∝ exp(score/b) over all signed scores of all parties, up to one grid step a
         score, which `shared_scale` pays for: exactly one sample of the central mechanism, at the price of one.
How      party k draws one of its own candidates by its own law, P(i | k) = w_i / W_k, and says W_k = Σ w_i; then
         somebody draws the party, P(k) = W_k / Σ W. The product is w_i / Σ W.
Leaves   nothing by itself. W_k is an exact figure about the party's data: it may be shown to those only who are trusted
         with the data, and neither it nor the losing picks may be published.
Price    ρ = Δ²/(2b²) once, however many parties (docs/privacy.md, "one choice by several parties").

Weights are powers of two as in mechanisms.py: w_i = 2^(-gap_i/M) below the party's best, gaps capped at DEPTH·M. A mass
is a whole number of grid steps, best + M·log2 Σ w_i to the nearest: the sum is correctly rounded and its terms are good
to 2^-46, so what is said differs from the truth by less than one step. Parties are drawn without any cap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.privacy.mechanisms import (
    DEPTH,
    Noise,
    _pick,
    _power_of_half,
    _uniform,
    _whole_steps,
    choice_grid,
    gumbel_scale,
)

SLACK = 2.0**-20  # of the sensitivity: more than the two steps by which a mass may be wrong on two neighbours
LEAST_RHO = 2.0**-36  # below it the steps would not be small against the sensitivity


def shared_scale(sensitivity: float, rho: float) -> float:
    """b for a choice that costs at most ρ in all, the rounding of the masses included."""
    if not rho >= LEAST_RHO:
        raise InvalidInput(f"rho={rho:g} a choice is too little for a shared one; spend at least {LEAST_RHO:g}.")
    return gumbel_scale(sensitivity * (1.0 + SLACK), rho)


def own_part(noise: Noise, scores: NDArray[np.float64], scale: float) -> tuple[int, int, int]:
    """One of this party's signed candidates, by their own law: index, sign, and the mass of all, in grid steps."""
    grid, steps = choice_grid(scale)
    heights = _whole_steps(np.concatenate([scores, np.negative(scores)]), grid)
    best = int(heights.max())
    gaps = best - heights
    winner = _pick(noise, gaps, steps)
    total = math.fsum(np.exp2(-np.minimum(gaps / steps, DEPTH)))
    return winner % len(scores), 1 if winner < len(scores) else -1, best + round(steps * math.log2(total))


def draw_party(noise: Noise, masses: Sequence[int], scale: float) -> int:
    """The number of the party whose pick is taken, P(k) ∝ 2^(mass_k/M): whole powers as weights, then a coin."""
    _, steps = choice_grid(scale)
    best = max(masses)
    powers, rests = zip(*(divmod(best - mass, steps) for mass in masses), strict=True)
    weights = [1 << (max(powers) - power) for power in powers]
    while True:
        number, ticket = 0, _uniform(noise, sum(weights))
        while ticket >= weights[number]:
            ticket -= weights[number]
            number += 1
        if _power_of_half(noise, rests[number], steps):
            return number
