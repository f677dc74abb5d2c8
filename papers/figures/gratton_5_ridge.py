"""Figures 5.2 to 5.4 of Gratton's thesis: D-Ridge beside diffusion, by who knows the labels, and on a line."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from papers.figure import Case, Figure
from papers.figures.gratton_curves import NO_PRIVACY, alike, curves, faster, quicker
from papers.figures.gratton_graph import PRINTED, SHARES, cases, run

BASE: Case = {"problem": "ridge", "agents": 10, "rows": 50, "columns": 2, "rounds": 2000}
SETTING = (
    "N = 10 agents, P = 2 columns each, M = 50 rows, ridge 1e-3, rho = 4, 100 repeats, 2,000 rounds, as printed. The drawn graph is "
    "not in the text: random graphs with 3 links an agent. Diffusion with Metropolis weights; steps 0.01 and 0.02 (0.02 is printed "
    "for figure 5.4). Added: co.GraphRidge by co.fit, labels at one agent, rho chosen by the agents."
)


def listed(curve_list: list[Case], quick: bool) -> list[Case]:
    return cases(BASE, curve_list, *((6, 1) if quick else (PRINTED,)))


def d_ridge(holders: int, **other: str) -> Case:
    line = ", line" if other else ""
    return {"curve": f"D-Ridge B={holders}{line}", "method": "D-Ridge", "parameter": 4.0, "holders": holders, **other}


def diffusion(step: float, holders: int, **other: str) -> Case:
    line = ", line" if other else ""
    name = f"diffusion {step:g} B={holders}{line}"
    return {"curve": name, "method": "diffusion", "parameter": step, "holders": holders, **other}


OURS: Case = {"curve": "GraphRidge", "method": "GraphRidge", "rounds": 1200}
SAME_RATE = (
    "An iteration of D-Ridge is affine, and the labels are in its constant term only: the matrix that errors are multiplied with is "
    "the same for every B, so the rate is too. What B changes is the first error, which is worth a few rounds at most."
)

FIGURE_2 = Figure(
    name="gratton-5.2",
    paper="Gratton 2021",
    title="D-Ridge and diffusion, labels at one or at all agents",
    setting=SETTING,
    cases=partial(
        listed, [*(d_ridge(b) for b in (1, 10)), *(diffusion(s, b) for s in (0.01, 0.02) for b in (1, 10)), OURS]
    ),
    run=run,
    draw=curves("Gratton 5.2: ridge, D-Ridge and diffusion (random graphs; with GraphRidge)"),
    claims=(
        faster("D-Ridge is faster than diffusion with B = 1", "D-Ridge B=1", "diffusion 0.02 B=1", "to_1e-2"),
        faster("D-Ridge is faster than diffusion with B = 10", "D-Ridge B=10", "diffusion 0.02 B=10", "to_1e-2"),
        replace(
            alike(
                "who knows the labels hardly matters to diffusion",
                "diffusion 0.02 B=1",
                "diffusion 0.02 B=10",
                "to_1e-2",
                1.25,
                reproduces=False,
                finding="it hardly matters on most graphs; among the hundred that a full run draws are some on which it costs half as many rounds again, or saves a third.",
            ),
            changed="said to hold after quick runs, of six graphs.",
            quick=True,
        ),
    ),
    privacy=NO_PRIVACY,
    printed={"seed": PRINTED},
    shares=SHARES,
)
FIGURE_3 = Figure(
    name="gratton-5.3",
    paper="Gratton 2021",
    title="D-Ridge, labels at 1 to 10 agents",
    setting=SETTING,
    cases=partial(listed, [*(d_ridge(b) for b in (1, 2, 5, 10)), OURS]),
    run=run,
    draw=curves("Gratton 5.3: D-Ridge by the number of agents that know the labels (random graphs; with GraphRidge)"),
    claims=(
        quicker(
            "D-Ridge is faster as more agents know the labels (by a tenth of the rounds at least)",
            "D-Ridge B=10",
            "D-Ridge B=1",
            "to_1e-6",
            0.9,
            reproduces=False,
            finding=SAME_RATE,
        ),
    ),
    privacy=NO_PRIVACY,
    printed={"seed": PRINTED},
    shares=SHARES,
)
FIGURE_4 = Figure(
    name="gratton-5.4",
    paper="Gratton 2021",
    title="D-Ridge and diffusion on a random graph and on a line",
    setting=SETTING,
    cases=partial(
        listed,
        [
            *(d_ridge(b) for b in (1, 10)),
            *(d_ridge(b, graph="line") for b in (1, 10)),
            diffusion(0.02, 10),
            diffusion(0.02, 10, graph="line"),
            OURS,
        ],
    ),
    run=run,
    draw=curves("Gratton 5.4: ridge on a line and on random graphs (with GraphRidge)"),
    claims=(
        faster("D-Ridge is faster than diffusion on the graph", "D-Ridge B=10", "diffusion 0.02 B=10", "to_1e-2"),
        faster("... and on a line", "D-Ridge B=10, line", "diffusion 0.02 B=10, line", "to_1e-2"),
        faster("... there with B = 1 too", "D-Ridge B=1, line", "diffusion 0.02 B=10, line", "to_1e-2"),
    ),
    privacy=NO_PRIVACY,
    printed={"seed": PRINTED},
    shares=SHARES,
)
FIGURES = (FIGURE_2, FIGURE_3, FIGURE_4)
