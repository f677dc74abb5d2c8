"""One exchange over one link of a consensus method, plain or anchored: arrays in, arrays out, one pass over them."""

from __future__ import annotations

from numba import njit

from colonnade.kernels.arrays import Floats


@njit(cache=True)
def exchange(
    own: Floats,
    other: Floats,
    penalty: float,
    relaxation: float,
    mine: Floats,
    theirs: Floats,
    middle: Floats,
    sums: Floats,
) -> None:
    """Writes mine (w_ij), theirs (w_ji) and middle (z); adds |x_j − x_i|², |z|², |ρ Δz|², |ρ (x_i − w_ij)|² to sums."""
    apart = size = moved = pull = 0.0
    for k in range(own.size):
        x = own[k]
        y = other[k]
        w = mine[k]
        v = theirs[k]
        z = 0.5 * (x + y)
        step = z - middle[k]
        apart += (y - x) * (y - x)
        size += z * z
        moved += step * step
        pull += (x - w) * (x - w)
        middle[k] = z
        mine[k] = (1.0 - relaxation) * w + relaxation * (2.0 * y - v)
        theirs[k] = (1.0 - relaxation) * v + relaxation * (2.0 * x - w)
    sums[0] += apart
    sums[1] += size
    sums[2] += penalty * penalty * moved
    sums[3] += penalty * penalty * pull


@njit(cache=True)
def anchored_exchange(
    own: Floats,
    other: Floats,
    penalty: float,
    age: int,
    pair: Floats,
    anchor: Floats,
    now: Floats,
    then: Floats,
    sums: Floats,
) -> None:
    """Writes pair (w_ij and w_ji) and now (z and λ_ij); anchor and then are what these two were at the last restart.

    Adds to sums |x_j − x_i|², |z|², |ρ (x_i + x_j − w_ij − w_ji)/2|², |λ|², |T − w|² (both vectors), |z − z₀|², |λ −
    λ₀|².
    """
    apart = size = unbalanced = pull = residual = shift = turn = 0.0
    rest = 1.0 / (age + 1.0)
    for k in range(own.size):
        x = own[k]
        y = other[k]
        w = pair[0, k]
        v = pair[1, k]
        z = 0.5 * (x + y)
        lam = penalty * (x - w)
        gap = y - x
        sway = x + y - w - v
        apart += gap * gap
        size += z * z
        unbalanced += sway * sway
        pull += lam * lam
        residual += 2.0 * (gap * gap + sway * sway)  # T − w is sway + gap at one end and sway − gap at the other
        shift += (z - then[0, k]) * (z - then[0, k])
        turn += (lam - then[1, k]) * (lam - then[1, k])
        now[0, k] = z
        now[1, k] = lam
        pair[0, k] = rest * anchor[0, k] + (1.0 - rest) * (2.0 * y - v)
        pair[1, k] = rest * anchor[1, k] + (1.0 - rest) * (2.0 * x - w)
    sums[0] += apart
    sums[1] += size
    sums[2] += 0.25 * penalty * penalty * unbalanced
    sums[3] += pull
    sums[4] += residual
    sums[5] += shift
    sums[6] += turn
