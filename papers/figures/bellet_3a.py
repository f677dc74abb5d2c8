"""Figure 3(a) of Bellet et al.: distributed Frank-Wolfe and ADMM on Dorothea, objective against communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import colonnade as co
from papers.figure import EXACT, Case, Claim, Figure, Row, Verdict
from papers.figures.bellet_lasso import (
    NODES,
    admm,
    at_most,
    dorothea,
    drawn_rows,
    published_admm,
    reference,
    sent_until,
    walk,
)
from papers.plot import Panel, Plot
from papers.published.boyd_sharing import GRID

if TYPE_CHECKING:
    import polars as pl

WALK, CORRECTED, BALANCED = "dFW, line search", "dFW, corrective", "ADMM, rho balanced"
BEST = "ADMM, best rho of the grid"
SHOWN = 1e-6  # the optimum itself is known to 1e-5 of the objective at zero: what lies lower is not drawn


def cases(quick: bool) -> list[Case]:
    if quick:
        return [{"beta": beta, "rounds": 50, "corrected": 15, "exchanges": 5, "near": 1e-3} for beta in (4.0, 16.0)]
    return [
        {"beta": beta, "rounds": 300, "corrected": 150, "exchanges": 20, "near": 1e-5} for beta in (4.0, 16.0, 24.0)
    ]


def run(beta: float, rounds: int, corrected: int, exchanges: int, near: float) -> list[Row]:
    X, y = dorothea()
    least = reference(X, y, beta, near)
    whole = least.loss + least.lam * beta
    curves = [
        (WALK, 0.0, 0.0, least.loss, walk(X, y, beta, co.LineSearch(), rounds)[1]),
        (CORRECTED, 0.0, 0.0, least.loss, walk(X, y, beta, co.Corrective(), corrected)[1]),
        (BALANCED, 0.0, 0.0, whole, admm(X, y, least.lam, exchanges)[1]),
    ]
    for rho, relaxation in GRID:
        rows = published_admm(X, y, least.lam, exchanges, rho, relaxation)
        curves.append((BEST, rho, relaxation, whole, rows))
    found = list[Row]()
    for method, rho, relaxation, floor, rows in curves:
        about: Row = {"method": method, "beta": beta, "rho": rho, "relaxation": relaxation}
        for row in rows:
            found.append({**about, **row, "excess": max(float(row["objective"] or 0.0) - floor, 0.0)})
    return found


def curve(table: pl.DataFrame, method: str, beta: float) -> pl.DataFrame:
    """A method's rows; of the grid, those of the setting whose excess is least at the end of what dFW sent."""
    own = table.filter(method=method, beta=beta).sort("round")
    if method != BEST:
        return own
    rho, relaxation = best_setting(table, beta)
    return own.filter(rho=rho, relaxation=relaxation)


def best_setting(table: pl.DataFrame, beta: float) -> tuple[float, float]:
    most = max(table.filter(method=WALK, beta=beta)["numbers"].to_list())
    own = table.filter(method=BEST, beta=beta)
    return min(GRID, key=lambda one: at_most(own.filter(rho=one[0], relaxation=one[1]), most))


def draw(table: pl.DataFrame) -> Plot:
    import polars as pl

    panels = []
    for beta in sorted(set(table["beta"])):
        rho, relaxation = best_setting(table, beta)
        told = f"beta = {beta:g}; best: rho {rho:g}, relaxation {relaxation:g}"
        panels.append(panel := Panel(told, x="numbers sent over all edges", log="xy"))
        for method in (WALK, CORRECTED, BALANCED, BEST):
            known = curve(table, method, beta).filter((pl.col("numbers") > 0) & (pl.col("excess") >= SHOWN))
            shown = drawn_rows(known)  # both axes are logarithmic
            panel.line(shown["numbers"], shown["excess"], method, marks=method in (BALANCED, BEST))
    panels[0].y = "objective − optimum"
    title = (
        f"Dorothea, lasso, {NODES} nodes: excess against communication. Excess instead of the objective, so that the "
        "constrained and the penalised form can be compared"
    )
    return Plot(title, panels, columns=len(panels), same_y=True)


def duels(table: pl.DataFrame, beta: float) -> list[tuple[int, int, float]]:
    """After each exchange of ADMM within what dFW sent: (exchange, numbers, excess of ADMM so far over that of dFW)."""
    ours, found = curve(table, WALK, beta), []
    most = max(ours["numbers"].to_list())
    rival = curve(table, BEST, beta)
    for row in rival.to_dicts():
        if 0 < row["numbers"] <= most:
            mine, theirs = at_most(ours, row["numbers"]), at_most(rival, row["numbers"])
            found.append((int(row["round"]), int(row["numbers"]), theirs / mine))
    return found


def better(table: pl.DataFrame) -> Verdict:
    found = {beta: duels(table, beta) for beta in sorted(set(table["beta"]))}
    text = "; ".join(
        f"beta = {beta:g}: {', '.join(f'{r:.2f}' for *_, r in several)}" for beta, several in found.items()
    )
    held = all(several and min(r for *_, r in several) > 1.0 for several in found.values())
    return Verdict(held, f"excess of ADMM over that of dFW at equal communication, exchange by exchange: {text}")


def sparse_first(table: pl.DataFrame) -> Verdict:
    ours, rival = curve(table, WALK, 4.0), curve(table, BEST, 4.0)
    wanted = 0.2 * float(ours["excess"][0])
    mine, theirs = sent_until(ours, wanted), sent_until(rival, wanted)
    said = f"{theirs:,.0f}" if theirs < float("inf") else f"more than {rival['numbers'].to_list()[-1]:,}"
    return Verdict(
        2.0 * mine < theirs, f"beta = 4, numbers until a fifth of the excess is left: dFW {mine:,.0f}, ADMM {said}"
    )


def catches_up(table: pl.DataFrame) -> Verdict:
    last = {beta: duels(table, beta)[-1] for beta in sorted(set(table["beta"]))}
    ratios = [ratio for *_, ratio in last.values()]
    text = "; ".join(f"beta = {beta:g}: {ratio:.2f} at {sent:,} numbers" for beta, (_, sent, ratio) in last.items())
    return Verdict(ratios == sorted(ratios, reverse=True), f"excess of ADMM over that of dFW at the end: {text}")


GRID_NOW = (
    "ADMM now has the best setting of the paper's grid; before, a rho that balances itself. The verdict is the same."
)
FIGURE = Figure(
    name="bellet-3a",
    paper="Bellet et al. 2015",
    title="Lasso on Dorothea: distributed Frank-Wolfe against ADMM",
    setting=f"{NODES} nodes on a star, beta = 4, 16 and (in full) 24; the 800 examples of Dorothea whose labels are public, the paper has 1,150. ADMM "
    "solves the penalised form with the same solution: the best of the paper's six settings (rho 0.1, 1, 10; relaxation 1, 1.5), chosen in hindsight "
    "for each beta, and beside it the library's, which balances rho by itself.",
    cases=cases,
    run=run,
    draw=draw,
    claims=(
        Claim(
            "for a given communication cost dFW is generally better at reducing the objective",
            better,
            "exact: at every beta, after every exchange of ADMM within what dFW sent, ADMM's excess is the larger one",
            reproduces=False,
            finding="With the best setting of the paper's own grid ADMM is ahead where the model is denser (beta = 16 and 24). dFW is ahead where it is sparse (beta = 4).",
            changed="ADMM now has the best setting of the paper's grid; with a rho that balances itself the claim was said to hold.",
        ),
        Claim(
            "dFW finds very sparse solutions with very little communication, less than half of ADMM's",
            sparse_first,
            "exact: beta = 4, numbers until a fifth of the excess at zero is left, twice dFW's are below ADMM's best setting's",
            changed=GRID_NOW,
        ),
        Claim(
            "as the model becomes denser ADMM catches up",
            catches_up,
            "exact: ADMM's excess over dFW's at the end of what dFW sent falls from beta to beta",
            changed=GRID_NOW,
        ),
    ),
    privacy=EXACT,
    data=("dorothea",),
    less="800 of the paper's 1,150 examples: the labels of the others are not public.",
)
