"""How many rounds a graph costs: GraphRidge to 1e-6 on six families of graphs, by their algebraic connectivity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import colonnade as co
from colonnade.kernels.arrays import Floats
from papers.figure import Case, Claim, Figure, Row, Verdict
from papers.figures.gratton_curves import NO_PRIVACY
from papers.figures.gratton_graph import sent, settled
from papers.figures.watched_runs import ridge_estimate, watched_fit
from papers.plot import Panel, Plot
from papers.published.graph_rounds import algebraic_connectivity

if TYPE_CHECKING:
    import polars as pl

FAMILIES = {
    "line": co.Topology.line,
    "ring": co.Topology.ring,
    "star": co.Topology.star,
    "tree": co.Topology.tree,
    "complete": co.Topology.complete,
    "random": co.Topology.random,
}
WEIGHT = 1.0  # of the ridge penalty, beside 1/(2n) ‖Ax − y‖²


def cases(quick: bool) -> list[Case]:
    sizes = (5, 10, 20) if quick else (5, 10, 20, 35, 50)
    return [{"graph": graph, "agents": agents, "seed": 0} for agents in sizes for graph in FAMILIES]


def run(graph: str, agents: int, seed: int) -> list[Row]:
    """60 rows, two columns an agent, labels at the first; until the agents themselves agree to 1e-8."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((60, 2 * agents))
    y = A @ (rng.standard_normal(2 * agents) * (rng.random(2 * agents) < 0.5)) + rng.standard_normal(60)
    answer: Floats = np.asarray(np.linalg.solve(A.T @ A / 60 + WEIGHT * np.eye(2 * agents), A.T @ y / 60))
    net = FAMILIES[graph](agents)
    fit, estimates = watched_fit(
        co.Federation.split(A, y, parties=agents, label="party0"),
        co.Problem(co.LeastSquares(), penalty=co.Ridge(WEIGHT)),
        co.GraphRidge(net, rounds=20_000, tolerance=1e-8),
        ridge_estimate,
    )
    x = np.array([np.concatenate(own) for own in estimates])
    error = np.linalg.norm(x - answer, axis=1) / np.linalg.norm(answer)
    numbers, size = sent(fit, agents, len(estimates))
    return [
        {
            "graph": graph,
            "agents": agents,
            "connectivity": algebraic_connectivity(net),
            "rounds": settled(error, 1e-6),
            "numbers": numbers,
            "bytes": size,
        }
    ]


def draw(table: pl.DataFrame) -> Plot:
    import polars as pl

    panel = Panel(x="algebraic connectivity", y="rounds to 1e-6", log="xy")
    for graph in FAMILIES:
        own = table.filter(pl.col("graph") == graph).sort("agents")
        panel.line(own["connectivity"], own["rounds"], graph, marks=True)
    title = "GraphRidge: rounds to a relative error of 1e-6, by the graph's connectivity (N from 5 up along each line)"
    return Plot(title, [panel])


def _falling(table: pl.DataFrame) -> Verdict:
    from scipy.stats import spearmanr

    if table["rounds"].null_count():
        return Verdict(False, "a run ended above 1e-6")
    ranks = float(spearmanr(table["connectivity"], table["rounds"]).statistic)
    return Verdict(ranks <= -0.5, f"rank correlation of connectivity and rounds: {ranks:.2f} over {len(table)} graphs")


def _line_is_slowest(table: pl.DataFrame) -> Verdict:
    import polars as pl

    firsts = {
        n: table.filter(pl.col("agents") == n).sort("rounds")["graph"][0] for n in table["agents"].unique().sort()
    }
    lines = {
        n: table.filter(pl.col("agents") == n).sort("rounds")["graph"][-1] for n in table["agents"].unique().sort()
    }
    return Verdict(set(lines.values()) == {"line"}, f"slowest by N: {lines}; quickest by N: {firsts}")


FIGURE = Figure(
    name="rounds-against-connectivity",
    paper="this project",
    title="Rounds of GraphRidge by algebraic connectivity",
    setting="Ridge with a = 1, 60 rows, two columns an agent, N = 5 to 50 agents (quick: to 20); rho chosen by the agents.",
    cases=cases,
    run=run,
    draw=draw,
    claims=(
        Claim(
            "better connected graphs need fewer rounds", _falling, "rank correlation of at most -0.5 over all graphs"
        ),
        Claim("the line is the slowest graph of every size", _line_is_slowest, "exact"),
    ),
    privacy=NO_PRIVACY,
)
