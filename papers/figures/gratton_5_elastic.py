"""Figures 5.5 to 5.10 of Gratton's thesis: its two algorithms on the elastic net, by columns, rows, agents and graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from papers.figure import Case, Claim, Figure, Verdict
from papers.figures.gratton_curves import NO_PRIVACY, curves, faster, reaches, rising
from papers.figures.gratton_graph import PRINTED, SHARES, cases, run

if TYPE_CHECKING:
    import polars as pl

PAPER = "Gratton 2021"
BASE: Case = {"problem": "elastic net"}


def listed(rounds: int, repeats: int, curve_list: Sequence[Case], quick: bool) -> list[Case]:
    return cases({**BASE, "rounds": rounds}, curve_list, *((repeats, 1) if quick else (PRINTED,)))


# ---------------------------------------------------------------- 5.5 and 5.6: algorithm 6 beside broadcast ADMM

TWO = (
    "Elastic net with weights 1 and 1, random graphs with 3 links an agent, rho = 1, 500 rounds, 100 repeats, as printed; entries "
    "standard normal. M = 2 P rows, as in the conference paper behind the chapter (the thesis prints M without a value). The "
    "broadcast method's rho is not printed: 0.1, the best of 0.1, 1 and 10. Added: co.GraphADMM by co.fit, labels at one agent, rho chosen by the agents."
)


def beside(name: str, agents: int, columns: int, ours: bool) -> list[Case]:
    shape: Case = {"agents": agents, "columns": columns, "rows": 2 * columns}
    rivals: list[Case] = [
        {"curve": f"algorithm 6, {name}", "method": "algorithm 6", "parameter": 1.0, **shape},
        {"curve": f"broadcast, {name}", "method": "broadcast ADMM", "parameter": 0.1, **shape},
    ]
    return [*rivals, {"curve": f"GraphADMM, {name}", "method": "GraphADMM", **shape}] if ours else rivals


def two_claims(one: str, other: str) -> tuple[Claim, ...]:
    return (
        reaches("algorithm 6 converges", [f"algorithm 6, {one}", f"algorithm 6, {other}"], "to_1e-2"),
        faster(f"broadcast ADMM is faster ({one})", f"broadcast, {one}", f"algorithm 6, {one}", "to_1e-2"),
        faster(f"broadcast ADMM is faster ({other})", f"broadcast, {other}", f"algorithm 6, {other}", "to_1e-2"),
    )


first, *others = two_claims("P=10", "P=40")
SLOW = (
    "on one of the hundred graphs of a full run it is still above 1e-2 after 500 rounds, and falling: slow, not stuck."
)
CHANGED = "said to hold after quick runs, of few graphs."
FIGURE_5 = Figure(
    name="gratton-5.5",
    paper=PAPER,
    title="Elastic net, 20 agents with 10 or 40 columns",
    setting=TWO,
    cases=partial(listed, 500, 5, [*beside("P=10", 20, 10, True), *beside("P=40", 20, 40, False)]),
    run=run,
    draw=curves("Gratton 5.5: elastic net, 20 agents (M = 2P; with GraphADMM)", "error"),
    claims=(replace(first, reproduces=False, finding=SLOW, changed=CHANGED, quick=True), *others),
    privacy=NO_PRIVACY,
    printed={"seed": PRINTED},
    shares=SHARES,
)
FIGURE_6 = Figure(
    name="gratton-5.6",
    paper=PAPER,
    title="Elastic net, 20 or 50 agents with 10 columns",
    setting=TWO,
    cases=partial(listed, 500, 5, [*beside("N=20", 20, 10, True), *beside("N=50", 50, 10, False)]),
    run=run,
    draw=curves("Gratton 5.6: elastic net, 10 columns an agent (M = 2P; with GraphADMM)", "error"),
    claims=two_claims("N=20", "N=50"),
    privacy=NO_PRIVACY,
    printed={"seed": PRINTED},
    shares=SHARES,
)

# ---------------------------------------------------------------- 5.7 to 5.10: algorithm 7

FOUR = (
    "Elastic net with weights 1 and 1, rho = 2, two inner sweeps, random graphs with 3 links an agent, 100 repeats, as printed; 300 "
    "rounds (800 in figure 5.8). Added: co.GraphADMM by co.fit, labels at one agent, rho chosen by the agents. "
)


def seven(curve: str, agents: int, rows: int, columns: int, **other: str) -> Case:
    shape: Case = {"agents": agents, "rows": rows, "columns": columns, **other}
    return {"curve": curve, "method": "algorithm 7", "parameter": 2.0, **shape}


OURS: Case = {"curve": "GraphADMM", "method": "GraphADMM", "agents": 10, "columns": 2}


def more_rows_help(says: str, order: Sequence[str]) -> Claim:
    """The misalignment at the end falls from curve to curve, in enough seeds."""

    def check(table: pl.DataFrame) -> Verdict:
        import polars as pl

        last = table.filter(pl.col("round") == pl.col("round").max())
        ends = [float(last.filter(pl.col("curve") == name)["misalignment"].to_numpy().mean()) for name in order]
        shown = ", ".join(f"{name}: {end:.1e}" for name, end in zip(order, ends, strict=True))
        return Verdict(ends == sorted(ends, reverse=True), shown)

    return Claim(says, check, "means over the seeds")


COLUMNS = ((2, 800), (10, 1000), (20, 1100), (50, 1500))


def by_columns(quick: bool) -> list[Case]:
    """The first three curves lie close together: telling them apart takes many graphs, the last from the third few."""
    curve_list = [seven(f"P={p}, M={m}", 10, m, p) for p, m in COLUMNS]
    near, far = (listed(300, count, part, quick) for count, part in ((36, curve_list[:3]), (6, curve_list[3:])))
    return [*near, *far, *listed(300, 1, [{**OURS, "rows": 800}], quick)]


FIGURE_7 = Figure(
    name="gratton-5.7",
    paper=PAPER,
    title="Elastic net by the number of columns an agent has",
    setting=FOUR + "N is not printed: 10. Quick: 36 graphs, 6 for P = 50.",
    cases=by_columns,
    run=run,
    draw=curves("Gratton 5.7: elastic net, algorithm 7 by columns an agent (N = 10; with GraphADMM, P = 2)"),
    claims=(rising("fewer columns an agent, faster", [f"P={p}, M={m}" for p, m in COLUMNS], "to_1e-1"),),
    privacy=NO_PRIVACY,
    printed={"seed": PRINTED},
    shares=SHARES,
)
ROWS = (100, 300, 900)
FIGURE_8 = Figure(
    name="gratton-5.8",
    paper=PAPER,
    title="Elastic net by the number of rows",
    setting=FOUR + "N = 10, P = 2; the values of M are not in the text: 100, 300, 900.",
    cases=partial(listed, 800, 6, [*(seven(f"M={m}", 10, m, 2) for m in ROWS), {**OURS, "rows": 900}]),
    run=run,
    draw=curves("Gratton 5.8: elastic net, algorithm 7 by rows (with GraphADMM, M = 900)"),
    claims=(more_rows_help("more rows, more accurate", [f"M={m}" for m in ROWS]),),
    privacy=NO_PRIVACY,
    printed={"seed": PRINTED},
    shares=SHARES,
)
AGENTS = (5, 10, 20)
FIGURE_9 = Figure(
    name="gratton-5.9",
    paper=PAPER,
    title="Elastic net by the number of agents",
    setting=FOUR + "M = 500, P = 2; the values of N are not in the text: 5, 10, 20.",
    cases=partial(listed, 300, 5, [*(seven(f"N={n}", n, 500, 2) for n in AGENTS), {**OURS, "rows": 500}]),
    run=run,
    draw=curves("Gratton 5.9: elastic net, algorithm 7 by agents (with GraphADMM, N = 10)"),
    claims=(rising("fewer agents, faster", [f"N={n}" for n in AGENTS], "to_1e-1"),),
    privacy=NO_PRIVACY,
    printed={"seed": PRINTED},
    shares=SHARES,
)
NETS = ("complete", "ring", "star", "line")
FIGURE_10 = Figure(
    name="gratton-5.10",
    paper=PAPER,
    title="Elastic net by graph",
    setting=FOUR + "N = 10, M = 500, P = 2.",
    cases=partial(
        listed, 300, 5, [*(seven(net, 10, 500, 2, graph=net) for net in NETS), {**OURS, "rows": 500, "graph": "ring"}]
    ),
    run=run,
    draw=curves("Gratton 5.10: elastic net, algorithm 7 by graph (with GraphADMM on the ring)"),
    claims=(
        faster("the complete graph is faster than the ring", "complete", "ring", "to_1e-2"),
        faster("the ring is faster than the line", "ring", "line", "to_1e-2"),
        faster(
            "more links an agent, faster: the ring (2 on average) is faster than the star (1.8)",
            "ring",
            "star",
            "to_1e-2",
            reproduces=False,
            finding=(
                "What counts is how fast agreement spreads, not how many links there are: the second eigenvalue of the graph's "
                "Laplacian is 1 for a star of any size and 0.38 for a ring of 10."
            ),
        ),
    ),
    privacy=NO_PRIVACY,
    printed={"seed": PRINTED},
    shares=SHARES,
)
FIGURES = (FIGURE_5, FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10)
