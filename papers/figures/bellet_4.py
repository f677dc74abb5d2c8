"""Figure 4 of Bellet et al.: distributed Frank-Wolfe and ADMM on Dorothea, against iterations and against computing time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import colonnade as co
from papers.figure import EXACT, Case, Claim, Figure, Row, Verdict
from papers.figures.bellet_lasso import NODES, admm, dorothea, drawn_rows, reference, walk
from papers.plot import Panel, Plot

if TYPE_CHECKING:
    import polars as pl

WALK, ADMM = "dFW", "ADMM, best rho of the grid"
RHOS = (0.1, 1.0, 10.0)  # the paper's, beside a sum over rows
SHOWN = {WALK: WALK, ADMM: "ADMM, best of three rho"}  # bellet-3a has the grid's relaxation, too
SHARE = 0.1  # of the excess at zero: where rounds and seconds are compared


def cases(quick: bool) -> list[Case]:
    if quick:
        return [{"beta": beta, "rounds": 80, "exchanges": 18, "near": 1e-3} for beta in (4.0, 16.0)]
    return [{"beta": beta, "rounds": 1000, "exchanges": 60, "near": 1e-5} for beta in (4.0, 16.0, 24.0)]


def run(beta: float, rounds: int, exchanges: int, near: float) -> list[Row]:
    X, y = dorothea()
    least = reference(X, y, beta, near)
    walk(X, y, beta, co.LineSearch(), 1)  # compiles, outside the clock
    whole = least.loss + least.lam * beta
    runs: list[tuple[str, float, float, Callable[[], list[Row]]]] = [
        (WALK, 0.0, least.loss, lambda: walk(X, y, beta, co.LineSearch(), rounds)[1]),
        *((ADMM, rho, whole, lambda rho=rho: admm(X, y, least.lam, exchanges, rho)[1]) for rho in RHOS),
    ]
    found = list[Row]()
    for method, rho, floor, work in runs:
        found += [
            {
                "method": method,
                "rho": rho,
                "beta": beta,
                "round": row["round"],
                "seconds": row["seconds"],
                "excess": max(float(row["objective"] or 0.0) - floor, 0.0),
            }
            for row in work()
        ]
    return found


def curve(table: pl.DataFrame, method: str, beta: float) -> pl.DataFrame:
    """A method's rows; of ADMM those of the rho that first has SHARE of the excess at zero left, else of the least excess."""
    own = table.filter(method=method, beta=beta).sort("round")
    if method != ADMM:
        return own
    start = float(table.filter(method=WALK, beta=beta).sort("round")["excess"][0])

    def rank(rho: float) -> tuple[float, float]:
        rows = own.filter(rho=rho).to_dicts()
        there = min((row["round"] for row in rows if row["excess"] <= SHARE * start), default=float("inf"))
        return there, min(row["excess"] for row in rows)

    return own.filter(rho=min(RHOS, key=rank))


def draw(table: pl.DataFrame) -> Plot:
    import polars as pl

    panels, betas = [], sorted(set(table["beta"]))
    for beta in betas:
        for axis, named in (("round", "iterations"), ("seconds", "seconds of one core, all nodes one after the other")):
            panels.append(panel := Panel(f"beta = {beta:g}", x=named, y="objective − optimum", log="xy"))
            for method in (WALK, ADMM):
                shown = drawn_rows(curve(table, method, beta).filter(pl.col("round") > 0))  # the axes are logarithmic
                panel.line(shown[axis], shown["excess"], SHOWN[method], method)
    title = (
        f"Dorothea, lasso, {NODES} nodes: excess against iterations and time. Messages are part of the time, ADMM's local solver "
        "is compiled coordinate descent where the paper's is a proximal gradient method in Matlab"
    )
    return Plot(title, panels, columns=2, height=1.0 + 3.4 * len(betas))


def needed(table: pl.DataFrame, method: str, beta: float, what: str) -> float:
    """Rounds or seconds until SHARE of the excess at zero is left."""
    start = float(curve(table, WALK, beta)["excess"][0])
    rows = curve(table, method, beta).to_dicts()
    return min((row[what] for row in rows if row["excess"] <= SHARE * start), default=float("inf"))


def compared(table: pl.DataFrame, what: str) -> dict[float, tuple[float, float]]:
    return {
        beta: (needed(table, WALK, beta, what), needed(table, ADMM, beta, what)) for beta in sorted(set(table["beta"]))
    }


def fewer_iterations(table: pl.DataFrame) -> Verdict:
    found = compared(table, "round")
    text = "; ".join(f"beta = {beta:g}: dFW {ours:g}, ADMM {theirs:g}" for beta, (ours, theirs) in found.items())
    return Verdict(
        all(theirs < ours for ours, theirs in found.values()), f"rounds until {SHARE:g} of the excess is left: {text}"
    )


def less_time(table: pl.DataFrame) -> Verdict:
    found = compared(table, "seconds")
    text = "; ".join(f"beta = {beta:g}: ADMM {theirs / ours:.1f} times dFW" for beta, (ours, theirs) in found.items())
    return Verdict(
        all(ours < theirs for ours, theirs in found.values()), f"seconds until {SHARE:g} of the excess is left: {text}"
    )


FIGURE = Figure(
    name="bellet-4",
    paper="Bellet et al. 2015",
    title="Lasso on Dorothea: distributed Frank-Wolfe against ADMM by iterations and by time",
    setting=f"{NODES} nodes on a star, beta = 4 and 16 (in full also 24); as figure 3(a). The paper sees one to two orders of magnitude in time, with "
    "another solver inside ADMM; here the claim is judged by who is ahead.",
    cases=cases,
    run=run,
    draw=draw,
    claims=(
        Claim(
            "ADMM converges in fewer iterations than dFW",
            fewer_iterations,
            f"exact: rounds until {SHARE:g} of the excess at zero is left, at every beta",
            changed="ADMM has the best rho of the paper's grid; before, one that balances itself. The verdict is the same.",
        ),
        Claim(
            "in computing time dFW decreases the objective faster than ADMM",
            less_time,
            f"CPU seconds until {SHARE:g} of the excess at zero is left, one timing of each in one process; the order only, at every beta",
            reproduces=False,
            finding=(
                "ADMM's local solver is compiled coordinate descent that starts from its last answer: an exchange, set-up included, costs three to eight rounds of dFW, and ADMM "
                "needs a fourth to a thirtieth of the rounds. In the paper a proximal gradient method in Matlab stood inside ADMM: that solver, not "
                "the method, decides who is ahead in time."
            ),
            changed=(
                "ADMM has the best rho of the paper's grid, before one that balances itself; every round has its own seconds, before a run's were shared "
                "out evenly; and a slow loop of ours no longer sets up ADMM's solvers. Before the last two it was said to hold."
            ),
        ),
    ),
    privacy=EXACT,
    data=("dorothea",),
    fresh=True,
    less="800 of the paper's 1,150 examples: the labels of the others are not public.",
)
