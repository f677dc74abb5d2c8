"""One exchange over one link of a consensus method: one pass over the vectors, arrays in, arrays out."""

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
        x, y, w, v = own[k], other[k], mine[k], theirs[k]
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
