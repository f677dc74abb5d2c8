"""Chapter 5 of Gratton's thesis: its made-up data, its methods and ours on one problem, a row for about 100 of the rounds.

    min ‖Ax − y‖² + penalty,   y = A truth + noise of variance 0.1,   A standard normal, N agents with P columns each, M rows.

Errors   misalignment ‖x − truth‖²/‖truth‖², what the thesis plots; error ‖x − c‖/‖c‖ to the centralised answer c, and the
         rounds from which on it is at most 1e-1, 1e-2 and 1e-6 (empty where the run ends before).
Sent     numbers and bytes an agent sends in a round, over all its links, on average over agents: 8 bytes a number for the published
         methods, bytes as counted on the wire for ours.
Graphs   the thesis draws a graph of 10 agents and says "random, three links an agent on average"; ours are co.Topology.random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import colonnade as co
from colonnade.kernels.arrays import Floats
from colonnade.methods.graph.admm import DualShare
from colonnade.methods.graph.ridge import RidgeShare
from colonnade.methods.graph.tls import TlsShare
from colonnade.problem import ElasticNet, Lasso, Penalty, Ridge
from colonnade.problem.quadratic import minimise
from papers.figure import Case, Row
from papers.figures.watched_runs import admm_estimate, ridge_estimate, watched_fit
from papers.published.broadcast import broadcast_admm
from papers.published.consensus_ridge import d_ridge
from papers.published.diffusion import diffusion_ridge
from papers.published.dual_consensus import dc_admm
from papers.published.graph_rounds import Estimates, numbers_sent
from papers.published.nested_admm import feature_admm

RIDGE = 1e-3  # the thesis' weight of ridge and of lasso
SWEEPS = 2  # of its inner loop
PENALTIES: dict[str, Penalty] = {  # beside ‖Ax − y‖², in this library's scaling of a penalty
    "ridge": Ridge(2 * RIDGE),
    "lasso": Lasso(RIDGE),
    "elastic net": ElasticNet(1.0, 2.0),
}
GRAPHS: dict[str, Callable[[int, int], co.Topology]] = {
    "random": lambda agents, seed: co.Topology.random(agents, seed=seed),
    "line": lambda agents, _: co.Topology.line(agents),
    "ring": lambda agents, _: co.Topology.ring(agents),
    "star": lambda agents, _: co.Topology.star(agents),
    "complete": lambda agents, _: co.Topology.complete(agents),
}
BARS = ("1e-1", "1e-2", "1e-6")
OURS = ("GraphRidge", "GraphADMM")


@dataclass(frozen=True)
class Task:
    """One made-up problem, shared out over a graph."""

    blocks: list[Floats]
    y: Floats
    truth: Floats
    answer: Floats
    penalty: Penalty
    graph: co.Topology
    holders: Sequence[int]  # of the labels


def task(problem: str, agents: int, rows: int, columns: int, graph: str, holders: int, seed: int) -> Task:
    """One holder is the agent with most links; several are drawn."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, agents * columns))
    truth = rng.standard_normal(agents * columns)
    y = A @ truth + np.sqrt(0.1) * rng.standard_normal(rows)
    net = GRAPHS[graph](agents, seed)
    drawn = sorted(rng.permutation(agents)[:holders].tolist())
    who = drawn if holders > 1 else [max(range(agents), key=net.degree)]
    penalty = PENALTIES[problem]
    return Task(np.split(A, agents, axis=1), y, truth, centralised(A, y, penalty), penalty, net, who)


def centralised(A: Floats, y: Floats, penalty: Penalty) -> Floats:
    """argmin ‖Ax − y‖² + penalty: descent finds the columns in use and their signs, one solve the last digits."""
    if isinstance(penalty, Ridge):
        return np.asarray(np.linalg.solve(2 * A.T @ A + penalty.a * np.eye(A.shape[1]), 2 * A.T @ y))
    l1, l2 = (penalty.l1, penalty.l2) if isinstance(penalty, ElasticNet) else (getattr(penalty, "a", 0.0), 0.0)
    x = minimise(2 * A.T @ A, 2 * A.T @ y, penalty, tolerance=1e-14).x.copy()
    used = np.flatnonzero(x)
    own = A[:, used]
    x[used] = np.linalg.solve(2 * own.T @ own + l2 * np.eye(used.size), 2 * own.T @ y - l1 * np.sign(x[used]))
    return np.asarray(x)


def run(
    curve: str,
    method: str,
    problem: str,
    agents: int,
    rows: int,
    columns: int,
    rounds: int,
    seed: int,
    graph: str = "random",
    holders: int = 1,
    parameter: float = 0.0,
) -> list[Row]:
    """One method on one problem; `parameter` is its rho or its step (ours choose theirs themselves)."""
    given = task(problem, agents, rows, columns, graph, holders, seed)
    if method in OURS:
        estimates, numbers, size = ours(method, given, rounds)
    else:
        estimates = published(method, given, parameter, rounds)
        told = numbers_sent(given.graph, rows).mean() if method != "broadcast ADMM" else 2.0 * rows
        numbers, size = float(told), 8.0 * float(told)
    x = np.array([np.concatenate(own) for own in estimates])
    misalignment = np.sum(np.square(x - given.truth), axis=1) / np.sum(np.square(given.truth))
    error = np.linalg.norm(x - given.answer, axis=1) / np.linalg.norm(given.answer)
    floor = float(np.sum(np.square(given.answer - given.truth)) / np.sum(np.square(given.truth)))
    facts: Row = {"curve": curve, "method": method, "seed": seed, "numbers": numbers, "bytes": size, "floor": floor}
    facts |= {f"to_{bar}": settled(error, float(bar)) for bar in BARS}
    return [
        facts | {"round": t, "misalignment": float(misalignment[t - 1]), "error": float(error[t - 1])}
        for t in thinned(len(error))
    ]


def published(method: str, given: Task, parameter: float, rounds: int) -> list[list[Floats]]:
    """The papers' methods, by the names of the thesis' legends."""
    blocks, y, graph, everybody = given.blocks, given.y, given.graph, range(given.graph.size)
    makers: dict[str, Callable[[], Estimates]] = {
        "D-Ridge": lambda: d_ridge(blocks, y, graph, ridge=RIDGE, rho=parameter, holders=given.holders),
        "diffusion": lambda: diffusion_ridge(blocks, y, graph, ridge=RIDGE, step=parameter, holders=given.holders),
        "DC-ADMM": lambda: dc_admm(blocks, y, graph, penalty=given.penalty, rho=parameter, holders=given.holders[:1]),
        "algorithm 6": lambda: dc_admm(blocks, y, graph, penalty=given.penalty, rho=parameter, holders=everybody),
        "algorithm 7": lambda: feature_admm(blocks, y, graph, penalty=given.penalty, rho=parameter, sweeps=SWEEPS),
        "broadcast ADMM": lambda: broadcast_admm(blocks, y, penalty=given.penalty, rho=parameter),
    }
    estimates = makers[method]()
    return [next(estimates) for _ in range(rounds)]


def ours(method: str, given: Task, rounds: int) -> tuple[list[list[Floats]], float, float]:
    """By co.fit, labels at one agent: estimates by round, and numbers and bytes an agent sends in a round."""
    agents, A = given.graph.size, np.concatenate(given.blocks, axis=1)
    federation = co.Federation.split(A, given.y, parties=agents, label=f"party{given.holders[0]}")
    kind, look = (co.GraphRidge, ridge_estimate) if method == "GraphRidge" else (co.GraphADMM, admm_estimate)
    problem = co.Problem(co.LeastSquares(), penalty=scaled(given.penalty, len(given.y)))
    fit, estimates = watched_fit(federation, problem, kind(given.graph, rounds=rounds, tolerance=0.0), look)
    return estimates, *sent(fit, agents, rounds)


def scaled(penalty: Any, rows: int) -> Penalty:
    """The penalty beside 1/(2n) ‖Ax − y‖² that stands for this one beside ‖Ax − y‖²."""
    if isinstance(penalty, ElasticNet):
        return ElasticNet(penalty.l1 / (2 * rows), penalty.l2 / (2 * rows))
    return Ridge(penalty.a / (2 * rows)) if isinstance(penalty, Ridge) else Lasso(penalty.a / (2 * rows))


SHARE_TYPES = [one.__name__ for one in (DualShare, RidgeShare, TlsShare)]


def sent(fit: co.Fit, agents: int, rounds: int) -> tuple[float, float]:
    """Numbers and bytes of an agent's estimates in a round; what the certificate at the end takes is left out."""
    by_type = fit.communication.by("type")
    shares = by_type.filter(by_type["type"].is_in(SHARE_TYPES))
    numbers, size = (float(shares[name].sum()) / (agents * rounds) for name in ("numbers", "bytes"))
    return numbers, size


def thinned(rounds: int) -> list[int]:
    """About 100 rounds from 1 to the last, evenly on a logarithmic axis."""
    return sorted({round(t) for t in np.geomspace(1, rounds, 120)})


def settled(error: Floats, bar: float) -> int | None:
    """The first round from which on the error is at most the bar: a curve may dip below it and come back."""
    above = np.flatnonzero(~(error <= bar))
    last = int(above[-1]) + 1 if above.size else 0
    return last + 1 if last < len(error) else None


PRINTED = 100  # repeats
SHARES = "gratton-5"  # figures of this chapter have curves in common


def cases(base: Case, curves: Sequence[Case], repeats: int, ours_repeats: int = 10) -> list[Case]:
    """Every curve for every seed; ours, which move real messages and are added to the thesis' curves, for fewer."""
    return [
        {**base, **curve, "seed": seed}
        for curve in curves
        for seed in range(ours_repeats if curve["method"] in OURS else repeats)
    ]
