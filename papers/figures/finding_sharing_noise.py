"""One private iteration of ADMM sharing by Hu et al.: how far a prediction moves, and where its noise lies.

left     two tables that differ in one column, a change of norm at most 1 (papers/attacks.py): movement of D x, over lemma 1's bound
         and over ours, Δ = ‖v‖c²/(λ + ρc²), c the largest norm of a column.
right    the published release D(x + ξ) of either table: its distance from the range of the first, over its length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from colonnade.attacks.setting import Setting
from papers.attacks import sharing_pair
from papers.figure import Case, Claim, Figure, Row, Verdict, stated
from papers.plot import Panel, Plot
from papers.published import SharingADMM

if TYPE_CHECKING:
    import polars as pl

ROWS, COLUMNS, EPSILON, DELTA, TRIALS = 200, (50, 75, 100, 125, 150), 1.0, 1e-3, 200


def run(columns: int, seed: int) -> list[Row]:
    method, setting = SharingADMM(EPSILON, DELTA), Setting(EPSILON, DELTA, seed)
    first, second, dual, largest = sharing_pair(setting, ROWS, columns)
    moved = float(np.linalg.norm(first @ method.update(first, dual) - second @ method.update(second, dual)))
    lemma = 3 / (columns * method.penalty) * (method.ridge + (1 + method.parties * method.penalty) * largest)
    longest = max(float(np.linalg.norm(D, axis=0).max()) for D in (first, second)) ** 2
    ours = float(np.linalg.norm(dual)) * longest / (method.ridge + method.penalty * longest)
    basis, rng = np.linalg.qr(first)[0], np.random.default_rng(seed)
    about: Row = {"columns": columns, "seed": seed, "moved": moved, "lemma": lemma, "ours": ours}
    for name, D in (("own", first), ("other", second)):
        seen = method.algorithm(D, dual, largest, rng, TRIALS)
        off = np.linalg.norm(seen - (seen @ basis) @ basis.T, axis=1) / np.linalg.norm(seen, axis=1)
        about |= {f"{name}_least": float(off.min()), f"{name}_most": float(off.max())}
    return [about]


def draw(table: pl.DataFrame) -> Plot:
    moved = Panel("movement of D x over a bound; above 1 the bound is wrong", x="columns", log="y")
    apart = Panel("distance of a release from the range of D", x="columns", log="y")
    own = table.group_by("columns").mean().sort("columns")
    for bound, name, method in (
        ("lemma", "lemma 1 of the paper", "published"),
        ("ours", "‖v‖c²/(λ + ρc²), ours", "ours"),
    ):
        moved.line(own["columns"], own["moved"] / own[bound], name, method, marks=True)
    moved.level(1.0, "the bound")
    for column, name in (
        ("own_most", "the table that was used: largest"),
        ("other_least", "its neighbour: smallest"),
    ):
        apart.line(own["columns"], own[column], name, marks=True)
    return Plot("ADMM sharing: a bound that does not hold, and noise that names the data", [moved, apart], columns=2)


def _lemma(table: pl.DataFrame) -> Verdict:
    own = table.group_by("columns").mean().sort("columns")
    found = dict(zip(own["columns"], own["moved"] / own["lemma"], strict=True))
    told = ", ".join(f"{value:.2f} with {columns} columns" for columns, value in found.items())
    return Verdict(
        float((table["moved"] / table["lemma"]).to_numpy().max()) <= 1.0, f"movement over the lemma's bound: {told}"
    )


def _hides(table: pl.DataFrame) -> Verdict:
    used, other = float(table["own_most"].to_numpy().max()), float(table["other_least"].to_numpy().min())
    told = f"{TRIALS} releases of each table: at most {used:.0e} from the range of the table used, at least {other:.0e} from its neighbour's"
    return Verdict(other <= used, told)


def _ours(table: pl.DataFrame) -> Verdict:
    worst = float((table["moved"] / table["ours"]).to_numpy().max())
    return Verdict(worst <= 1.0, f"movement over the bound: at most {worst:.2f}")


def cases(quick: bool) -> list[Case]:
    return [{"columns": columns, "seed": seed} for columns in COLUMNS for seed in range(3 if quick else 20)]


FIGURE = Figure(
    name="finding-sharing-noise",
    paper="Hu et al. 2020",
    title="Lemma 1 and the noise of ADMM sharing",
    setting=f"{ROWS} unit rows, ridge 0.001, rho 1, two parties; the neighbour has signs flipped in one column, a change of norm at most 1; the dual vector is the unit "
    "vector that moves most. Noise as theorem 1 asks for at epsilon 1 and delta 0.001; 20 pairs (quick: 3).",
    cases=cases,
    run=run,
    draw=draw,
    claims=(
        Claim(
            "lemma 1 bounds how far a party's prediction moves when one column changes",
            _lemma,
            "exact, every pair",
            reproduces=False,
            finding="The lemma puts 1/d, d the number of columns, for the norm of (DᵀD)⁻¹. Rows of norm 1 fix the sum of the eigenvalues of DᵀD, not the smallest.",
        ),
        Claim(
            "noise on the coefficients hides which table was used",
            _hides,
            "every release of every pair",
            reproduces=False,
            finding="D ξ lies in the range of D. With more rows than columns a release lies in the range of the table that was used and, almost surely, in no "
            "other's: no finite epsilon holds.",
        ),
        Claim("(ours) ‖v‖c²/(λ + ρc²) bounds the movement", _ours, "exact, every pair"),
    ),
    privacy=stated(
        "published",
        epsilon=f"{EPSILON:g}",
        delta=f"{DELTA:g}",
        unit="one column, changed by at most 1",
        trust="nobody",
        guarantee="claimed by the paper, refuted here",
        note="The bound called ours is proven (docs/understand/privacy/admm.md).",
    ),
)
