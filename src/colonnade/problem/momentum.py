"""The step that proximal gradients with momentum share: how far ahead of its last point a solver looks.

Source   Nesterov 1983, Beck and Teboulle 2009; begun anew where it turned back, O'Donoghue and Candès 2015.
"""

from __future__ import annotations

import math

import numpy as np

from colonnade.kernels.arrays import Floats


def look_ahead(x: Floats, ahead: Floats, new: Floats, momentum: float) -> tuple[Floats, float]:
    """Where to step from next, and the momentum there: x led to `ahead`, and a step from there to `new`."""
    change = new - x
    if float(np.vdot(ahead - new, change)) > 0.0:  # it turned back: start the momentum anew
        momentum = 1.0
    grown = 0.5 + math.sqrt(0.25 + momentum * momentum)
    return new + (momentum - 1.0) / grown * change, grown
