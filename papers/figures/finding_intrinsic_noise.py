"""The scatter of a zeroth-order solver beside the deviation that "intrinsic" privacy assumes of it (Gratton, chapter 4)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from colonnade.attacks.lower_bound import epsilon_lower_bound
from papers.figure import Case, Claim, Figure, Row, Verdict, stated
from papers.plot import Panel, Plot
from papers.published import ZerothOrder

if TYPE_CHECKING:
    import polars as pl

EPSILON, DELTA, CONFIDENCE = 0.5, 1e-3, 1 - 1e-6
DISTANCES = (1.0, 0.5, 0.2, 0.1, 0.05)


def run(distance: float, trials: int, seed: int) -> list[Row]:
    """One row of 20 is all zeros, or has the first feature and the label 1; the noise of the solver is seeded."""
    method = ZerothOrder(EPSILON, DELTA, smoothing=distance)
    assumed = math.sqrt(2.1 * math.log(1.25 / DELTA)) / (method.penalty * method.rows * EPSILON)  # equation 4.15
    seen = []
    for side in (1.0, 0.0):
        A, b = np.zeros((method.rows, method.columns)), np.zeros(method.rows)
        A[0, 0] = b[0] = side
        seen.append(method.release(A, b, np.random.default_rng([int(side), trials, seed]), trials)[:, 0])
    bound = epsilon_lower_bound(seen[0], seen[1], DELTA, CONFIDENCE).against(EPSILON).lower_bound
    real = float(np.std(seen[1]))
    return [{"distance": distance, "assumed": assumed, "real": real, "bound": bound, "trials": trials}]


def draw(table: pl.DataFrame) -> Plot:
    across = "distance over which slopes are looked at"
    noise = Panel("standard deviation of one entry of x", x=across, log="xy")
    price = Panel(f"epsilon; claimed: {EPSILON:g}", x=across, log="x")
    own = table.sort("distance")
    for column, name in (("assumed", "assumed"), ("real", "measured")):
        noise.line(own["distance"], own[column], name, marks=True)
    price.line(own["distance"], own["bound"], "shown by attack: at least", marks=True)
    price.level(EPSILON, "claimed")
    return Plot("Intrinsic privacy: the better the solver, the less there is of it", [noise, price], columns=2)


def _as_wide(table: pl.DataFrame) -> Verdict:
    found = {row["distance"]: row["real"] / row["assumed"] for row in table.sort("distance").to_dicts()}
    told = ", ".join(f"{share:.4f} at {distance:g}" for distance, share in found.items())
    return Verdict(min(found.values()) >= 0.9, f"measured over assumed deviation, by distance: {told}")


def _private(table: pl.DataFrame) -> Verdict:
    rows = table.sort("distance").to_dicts()
    told = ", ".join(f"at least {row['bound']:.2f} at {row['distance']:g}" for row in rows)
    return Verdict(
        all(row["bound"] <= EPSILON for row in rows), f"epsilon at a claimed {EPSILON:g}, by distance: {told}"
    )


def _private_at_one(table: pl.DataFrame) -> Verdict:
    (row,) = table.filter(distance=1.0).to_dicts()
    return Verdict(
        row["bound"] <= EPSILON,
        f"at a claimed {EPSILON:g}: at least {row['bound']:.2f}, {row['trials']:,} releases a side",
    )


def cases(quick: bool) -> list[Case]:
    return [{"distance": distance, "trials": 1_000 if quick else 20_000, "seed": 0} for distance in DISTANCES]


FIGURE = Figure(
    name="finding-intrinsic-noise",
    paper="Gratton 2021",
    title="What a zeroth-order solver scatters, and what is assumed of it",
    setting="The first update of one agent with one neighbour: 20 rows, 5 features, 100 inner steps with the thesis' step sizes, as many directions a step as equation "
    "4.13 allows for epsilon 0.5; 20,000 releases a side (quick: 1,000). The thesis' own distance is 1.",
    cases=cases,
    run=run,
    draw=draw,
    claims=(
        Claim(
            "the solver's errors are as wide as equation 4.9 says, whatever its settings",
            _as_wide,
            "a deviation from 1,000 releases or more, known to 8 % (three standard errors); a tenth less would count as wide",
            reproduces=False,
            finding="Equation 4.9 is an upper bound on the slopes' second moment, used as their variance. It does not know the distance over which slopes are "
            "looked at; the real scatter falls in proportion to it.",
        ),
        Claim(
            "one update is private at the epsilon of equation 4.13, at every smoothing u, of which it does not depend",
            _private,
            "an attack's lower bound, wrong once in a million; at most the claimed epsilon at every u",
            reproduces=False,
            finding="No noise is added, and the assumed one is not there: a neighbour tells the two tables apart, the better the smaller u is.",
            changed="says now that it is about every smoothing; what holds at the thesis' own is a claim of its own.",
        ),
        Claim(
            "at the thesis' own smoothing, u = 1, the attack shows no more than the claimed epsilon",
            _private_at_one,
            "an attack's lower bound, wrong once in a million; it does not prove what is claimed",
            reproduces=False,
            finding="with 20,000 releases a side the attack shows more than the claimed epsilon at u = 1 as well: the scatter is less than a tenth of the assumed one.",
            changed="said to hold after quick runs, whose 1,000 releases a side are too few to refute it.",
            quick=True,
        ),
    ),
    privacy=stated(
        "D-ZOA",
        epsilon=f"{EPSILON:g} in ONE round of one agent",
        delta=f"{DELTA:g}",
        unit="one row, replaced",
        trust="nobody",
        guarantee="conditional on normal, independent errors of a known deviation; refuted here",
        note="The rows are made up.",
    ),
)
