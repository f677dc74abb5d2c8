"""Methods on graphs: rounds and bytes beside the published methods and by connectivity, total least squares, and a large run.

Rounds are counted until the relative error of the coefficients is at most 1e-6, for good. The agents' rho beside the best fixed one
is a section of `python -m benchmarks admm`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import colonnade as co
from papers.figure import Row
from papers.figures import (
    gratton_5_rivals,
    gratton_graph,
    rounds_against_connectivity,
    total_least_squares_rounds,
)

GRAPHS: dict[str, Callable[[int], co.Topology]] = {
    "line": co.Topology.line,
    "ring": co.Topology.ring,
    "star": co.Topology.star,
    "complete": co.Topology.complete,
    "random": co.Topology.random,
}
ERROR = 1e-6
SECONDS = 60.0  # for 50 agents, 2,000 rounds, 1,000 rows


def table(rows: int, columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return X, X @ (rng.normal(size=columns) * (rng.random(columns) < 0.5)) + rng.normal(size=rows)


# method, rho or step (ours choose theirs; the thesis' where it prints one, else the best of a grid: `choices`), agents that know the labels
RIVALS = {
    "ridge": (
        ("diffusion", 0.02, 10),
        ("D-Ridge", 4.0, 10),
        ("D-Ridge", 4.0, 1),
        ("DC-ADMM", 0.1, 10),
        ("algorithm 7", 0.1, 10),
        ("broadcast ADMM", 3.0, 10),
        ("GraphRidge", 0.0, 1),
        ("GraphADMM", 0.0, 1),
    ),
    "elastic net": (
        ("DC-ADMM", 2.0, 10),
        ("algorithm 7", 2.0, 10),
        ("broadcast ADMM", 0.3, 10),
        ("GraphADMM", 0.0, 1),
    ),
}


GRID = (1, 1.5, 2, 3, 5, 7)  # times powers of ten
PRINTED = {
    "ridge": ("diffusion", "D-Ridge"),
    "elastic net": ("DC-ADMM", "algorithm 7"),
}  # in the thesis: rho, or the step


def rivals(repeats: int) -> None:
    """Median over seeds of the rounds to ERROR, for the published methods at the penalties above and for ours."""
    print("| Problem | Method | Labels at | Rounds to 1e-6 | Bytes an agent and round | Bytes an agent to 1e-6 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for problem, methods in RIVALS.items():
        for method, parameter, holders in methods:
            ends = [
                gratton_graph.run(method, method, problem, 10, 50, 2, 1500, seed, holders=holders, parameter=parameter)[
                    -1
                ]
                for seed in range(repeats)
            ]
            known = "all" if holders > 1 else "one"
            print_rival(
                f"{problem}, N = 10, M = 50, P = 2", f"{method} {parameter:g}" if parameter else method, known, ends
            )
    for method, parameter in (*total_least_squares_rounds.METHODS, ("GraphTLS", 0.0)):
        ends = [
            total_least_squares_rounds.run(method, method, 20, 9, 400, seed, parameter=parameter)[-1]
            for seed in range(repeats)
        ]
        name = f"{method} {parameter:g}" if parameter else method
        print_rival("total least squares, N = 20, P = 9", name, "rows split", ends)


def searched(
    method: str,
    problem: str,
    shape: tuple[int, int, int],
    start: float,
    rounds: int,
    bar: str,
    holders: int,
    seeds: int,
) -> dict[float, tuple[float, float]]:
    """Rounds to the bar (all and one if never) and the last error, medians over seeds, by rho or step.

    A walk over the grid of GRID times powers of ten, from `start` on to whichever neighbour is better, until neither is.
    """

    def tried(place: int) -> tuple[float, float]:
        if place not in found:
            with np.errstate(all="ignore"):  # a step may be too much, and the run diverges
                ends = [
                    gratton_graph.run(
                        method, method, problem, *shape, rounds, seed, holders=holders, parameter=grid(place)
                    )[-1]
                    for seed in range(seeds)
                ]
            needed = float(np.median([end[f"to_{bar}"] or rounds + 1 for end in ends]))
            errors = np.nan_to_num([end["error"] for end in ends], nan=np.inf)
            found[place] = needed, float(np.median(errors))
        return found[place]

    def grid(place: int) -> float:
        return float(f"{GRID[place % len(GRID)]}e{place // len(GRID)}")

    found: dict[int, tuple[float, float]] = {}
    best = min(range(-36, 19), key=lambda place: abs(math.log(grid(place) / start)))
    while (better := min((best - 1, best, best + 1), key=tried)) != best:
        best = better
    return {grid(place): found[place] for place in (best - 1, best, best + 1)}


def choices(seeds: int = 3) -> int:
    """Where no rho or step is printed: the one that the figures take beside its neighbours on the grid; 1 if one of those is better."""
    print("| Problem, N, M, P | Method | rho or step: rounds (last error), the best in the middle | the figures take |")
    print("| --- | --- | --- | --- |")
    beaten = 0
    for shape, (rho, consensus, central, dual, step) in gratton_5_rivals.SIZES.items():
        taken = {
            "algorithm 7": rho,
            "DC-ADMM": consensus,
            "broadcast ADMM": central,
            "D-Ridge": dual,
            "diffusion": step,
        }
        for method, parameter in taken.items():
            holders = shape[0] if method in ("D-Ridge", "diffusion") else 1  # as in the figures
            beaten |= print_choice("ridge", shape, method, parameter, 600, "1e-2", holders, seeds)
    for problem, methods in RIVALS.items():
        for method, parameter, holders in methods:
            if method not in PRINTED[problem] and parameter:
                beaten |= print_choice(problem, (10, 50, 2), method, parameter, 1500, "1e-6", holders, seeds)
    return beaten


def print_choice(
    problem: str,
    shape: tuple[int, int, int],
    method: str,
    taken: float,
    rounds: int,
    bar: str,
    holders: int,
    seeds: int,
) -> int:
    found = searched(method, problem, shape, taken, rounds, bar, holders, seeds)
    told = ", ".join(
        f"{p:g}: {f'{needed:.0f}' if needed <= rounds else '-'} ({error:.0e})" for p, (needed, error) in found.items()
    )
    print(f"| {problem}, {', '.join(map(str, shape))} | {method} | to {bar}: {told} | {taken:g} |", flush=True)
    return int(taken != list(found)[1])


def connectivity(sizes: tuple[int, ...]) -> None:
    """Rounds and bytes of GraphRidge to ERROR by graph, with the second eigenvalue of its Laplacian."""
    print("| N | Graph | Algebraic connectivity | Rounds to 1e-6 | Bytes an agent to 1e-6 |")
    print("| --- | --- | --- | --- | --- |")
    for agents in sizes:
        rows = [rounds_against_connectivity.run(graph, agents, 0)[0] for graph in rounds_against_connectivity.FAMILIES]
        for row in sorted(rows, key=partial(figure, "connectivity")):
            rounds = figure("rounds", row)
            sent = rounds * figure("bytes", row)
            told = f"{figure('connectivity', row):.3g} | {rounds:,} | {sent:,.0f}"
            print(f"| {agents} | {row['graph']} | {told} |", flush=True)


def figure(name: str, row: Row) -> float:
    value = row[name]
    assert isinstance(value, (int, float))
    return value


def print_rival(problem: str, name: str, labels: str, ends: list[dict[str, Any]]) -> None:
    found = [end["to_1e-6"] for end in ends]
    size = float(np.mean([end["bytes"] for end in ends]))
    if None in found:
        worst = max(float(end["error"]) for end in ends)
        print(f"| {problem} | {name} | {labels} | not reached ({worst:.0e}) | {size:,.0f} | |", flush=True)
    else:
        rounds = float(np.median(found))
        print(f"| {problem} | {name} | {labels} | {rounds:,.0f} | {size:,.0f} | {rounds * size:,.0f} |", flush=True)


def total_least_squares(agents: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    clean = rng.normal(size=(20 * agents, columns))
    y = clean @ rng.normal(size=columns) + 0.3 * rng.normal(size=len(clean))
    A = clean + 0.3 * rng.normal(size=clean.shape)
    v = np.linalg.svd(np.column_stack([A, -y]))[2][-1]
    answer = v[:-1] / v[-1]
    for name, make in GRAPHS.items():
        fit = co.fit(
            co.Federation.split(A, y, parties=agents, by="rows"),
            co.Problem(co.LeastSquares()),
            co.GraphTLS(make(agents), rounds=400),
        )
        error = max(np.linalg.norm(x - answer) for x in fit.coefficients.values()) / np.linalg.norm(answer)
        print(f"  rows     {name:9} {len(fit.notes):4} rounds, relative error {error:.1e}", flush=True)
    fed = co.Federation.split(A, y, parties=min(agents, columns))
    fit = co.fit(fed, co.Problem(co.LeastSquares()), co.GraphTLS())
    error = np.linalg.norm(np.concatenate(list(fit.coefficients.values())) - answer) / np.linalg.norm(answer)
    print(f"  columns  default   {fit.communication.messages:,} messages, relative error {error:.1e}", flush=True)


def large(rounds: int) -> int:
    X, y = table(1000, 49 * 5)
    fed = co.Federation.split(X, y, parties=49)
    problem, graph = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)), co.Topology.random(50)
    co.fit(fed, problem, co.GraphRidge(graph, rounds=2, tolerance=0.0))  # compile
    began, spent = time.perf_counter(), time.process_time()
    fit = co.fit(fed, problem, co.GraphRidge(graph, rounds=rounds, tolerance=0.0))
    wall, spent = time.perf_counter() - began, time.process_time() - spent
    scaled = spent * 2000 / rounds
    verdict = "met" if scaled <= SECONDS else f"missed by {scaled / SECONDS:.1f}x"
    print(
        f"  50 agents, 1,000 rows, {rounds:,} rounds: {spent:.1f} s of CPU ({wall:.1f} s on the clock), "
        f"{fit.communication.messages:,} messages; at 2,000 rounds {scaled:.0f} s (bar {SECONDS:.0f} s: {verdict})"
    )
    return int(scaled > SECONDS)


def main(quick: bool = True) -> int:
    print(
        f"rounds and bytes to a relative error of {ERROR:g}, median of {1 if quick else 5} (in brackets: the error at the end)"
    )
    rivals(1 if quick else 5)
    if not quick:
        choices()
    print("rounds against algebraic connectivity")
    connectivity((5, 10, 20) if quick else (5, 10, 20, 50))
    print("total least squares beside the singular value decomposition")
    total_least_squares(*((8, 5) if quick else (20, 9)))
    print("a large run")
    return large(200 if quick else 2000)


if __name__ == "__main__":
    raise SystemExit(main())
