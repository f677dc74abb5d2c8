"""Two zeroth-order methods for one machine, with which D-ZOA was compared.

Solves   min_x f(x) + l1 ‖x‖₁; f (or the sum) by values only.
Source   optimal_rate  Duchi, Jordan, Wainwright, Wibisono, "Optimal rates for zero-order convex optimization", 2015: OR-ZO.
                       x ← x − (α/√k) g,  g the two-point guess of zeroth_order.py, of f and the penalty together.
         online_admm   Liu, Chen, Chen, Hero, "Zeroth-order online alternating direction method of multipliers", 2018:
                       ZOO-ADMM, with x = z as the constraint, and steps linearised so that they have a closed form:
                       x ← x − s (g − λ + ρ(x − z)),  s = (α/√k)/(1 + ρα/√k)   g of f alone, by two values
                       z ← prox of l1/ρ at x − λ/ρ,  λ ← λ − ρ(x − z)
Sends    nothing: all rows are in one place.
Claims   √(P/k) for the mean of the points so far, up to log factors; no privacy.
Reads    in the papers' favour: the last point is shown, which here is nearer than the mean, and guesses are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from colonnade.kernels.arrays import Floats
from papers.published.zeroth_order import Differences, Values, guessed_slopes


def optimal_rate(
    differences: Differences, columns: int, *, step: float, draws: int, smoothing: float, rng: np.random.Generator
) -> Iterator[Floats]:
    """The point after each step, for ever: (columns,). `differences` are of one agent, the whole objective."""
    x, k = np.zeros((1, 1, columns)), 0
    while True:
        k += 1
        g = guessed_slopes(differences, x, k, draws=draws, smoothing=smoothing, rng=rng)
        x = x - step / math.sqrt(k) * g
        yield x[0, 0]


def online_admm(
    values: Values,
    columns: int,
    *,
    l1: float,
    penalty: float,
    step: float,
    draws: int,
    smoothing: float,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    """The point z after each step, for ever: (columns,). `values` is of one agent, without the l1 norm."""
    x, z, dual, k = np.zeros(columns), np.zeros(columns), np.zeros(columns), 0
    while True:
        k += 1
        beta = smoothing / k
        along = rng.standard_normal((1, draws, columns))
        here = np.broadcast_to(x, along.shape)
        guess = ((values(here + beta * along) - values(here)) / beta)[..., None] * along
        rate = step / math.sqrt(k)
        x = x - rate / (1.0 + penalty * rate) * (guess.mean(axis=(0, 1)) - dual + penalty * (x - z))
        point = x - dual / penalty
        z = np.sign(point) * np.maximum(np.abs(point) - l1 / penalty, 0.0)
        dual = dual - penalty * (x - z)
        yield z
