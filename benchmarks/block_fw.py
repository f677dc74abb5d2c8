"""Block Frank-Wolfe: figures 1 and 2 of Lou and Cheung as tables, then private methods at equal epsilon beside x = 0.

Figures. n x d tables of the paper's kind (sparse normal features, sparse normal truth, labels with a little noise); the objective
over that at zero, after so many rounds, mean of the runs. Figure 1 compares samplings, figure 2 the number of parties that draw
tau columns each. The set is a box, the product that the paper's proofs are about. p_min is the sampling's own; the paper's figure
for (K, tau) is printed beside it.

Private. Excess risk relative to that of x = 0: 0 is the best model in the ball, 1 is no better than not looking at the data. "as
published" is algorithm 2 with its own noise: its claim fails, and what its sketches really cost is printed with it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import colonnade as co
from colonnade.methods.frank_wolfe.block import BlockFrankWolfe
from colonnade.methods.frank_wolfe.private_block import PrivateBlockFrankWolfe
from colonnade.methods.method import Method
from colonnade.privacy.accountant import rho_for
from colonnade.problem.problem import PublicLabels
from colonnade.problem.sampling import Elementary, Nice, PerParty, Sampling, least_probability
from colonnade.problem.sets import Product
from papers.baselines import one_shot_sketches
from papers.figures.lou_comparison import best_model as best_of_gram
from papers.figures.lou_comparison import correlated, independent, paper_table
from papers.published.block_frank_wolfe import PublishedBlockFrankWolfe

LOSS = co.LeastSquares()
Solve = Callable[[int], np.ndarray]
Table = Callable[[int, int, int], tuple[np.ndarray, np.ndarray]]


def curve(n: int, d: int, sparsity: tuple[float, float], sampling: Sampling, parties: int, marks: list[int]) -> str:
    runs = []
    for seed in range(2):
        A, y, radius = paper_table(n, d, *sparsity, seed)
        federation = co.Federation.split(A, y, parties=parties)
        problem = co.Problem(LOSS, Product(co.L1Ball(radius)))
        fit = co.fit(federation, problem, BlockFrankWolfe(sampling, rounds=marks[-1], tolerance=0.0))
        values = fit.history["objective"].to_numpy()
        runs.append([values[mark] / values[0] for mark in marks])
    return "  ".join(f"{statistics.mean(column):8.4f}" for column in zip(*runs, strict=True))


def figure_1(n: int, d: int, marks: list[int]) -> None:
    tau, owners = 2 * d // 5, np.repeat([0, 1], [d - d // 2, d // 2])
    print(f"figure 1: n={n:,} d={d:,} tau={tau:,}; objective / objective at zero after rounds {marks}")
    for features in (0.1, 0.01):
        for truth in (0.1, 0.01):
            for name, sampling, printed in (
                ("elementary", Elementary(), 1.0),
                ("tau-nice", Nice(tau), tau / d),
                ("(2, tau/2)", PerParty(tau // 2), (tau / d) ** 2),
            ):
                least = least_probability(sampling, owners)
                shown = curve(n, d, (features, truth), sampling, 2, marks)
                head = (
                    f"  features {features:5} truth {truth:5}  {name:12} p_min {least:.2f} (the paper's {printed:.2f})"
                )
                print(f"{head}  {shown}", flush=True)


def figure_2(n: int, d: int, marks: list[int]) -> None:
    tau = d // 32
    print(f"figure 2: n={n:,} d={d:,}, every party draws {tau}; objective / objective at zero after rounds {marks}")
    for parties in (2, 4, 8, 16):
        print(f"  K = {parties:2}  {curve(n, d, (0.1, 0.01), PerParty(tau), parties, marks)}", flush=True)


def best_model(A: np.ndarray, y: np.ndarray, radius: float) -> np.ndarray:
    if A.shape[1] <= 500:
        return best_of_gram(A, y, radius)
    federation = co.Federation.split(A, y, parties=1)
    method = co.DistributedFrankWolfe(rounds=300, tolerance=1e-5)
    return co.fit(federation, co.Problem(LOSS, co.L1Ball(radius)), method).coefficients["party0"]


def fitted(
    A: np.ndarray, y: np.ndarray, parties: int, method: Method, privacy: co.Privacy, radius: float
) -> np.ndarray:
    one = {"holder": slice(None)}
    alone = isinstance(method, co.CentralFrankWolfe)
    federation = co.Federation.split(A, y, parties=one if alone else parties, label="holder" if alone else None)
    with tempfile.TemporaryDirectory() as store:
        fit = co.fit(federation, co.Problem(LOSS, co.L1Ball(radius)), method, privacy, store=store)
    return np.concatenate([fit.coefficients[name] for name in federation.parties if name in fit.coefficients])


def compare(table: Table, n: int, d: int, epsilon: float, runs: int, parties: int = 4, radius: float = 3.0) -> None:
    A, y = table(n, d, 0)
    delta, best, zero = 1e-6, best_model(A, y, radius), LOSS.value(np.zeros(n), y)
    floor = LOSS.value(A @ best, y)
    terms = partial(co.Privacy, epsilon, delta, feature_bound=1.0, label_bound=1.0)
    parts = [part.tolist() for part in np.array_split(np.arange(d), parties)]
    published = PublishedBlockFrankWolfe(epsilon, delta, parties, rounds=10, radius=radius)
    rows = max(4, min(n // 10, 200) // 4 * 4)

    length = 1.2 * float(np.sqrt(d / 9))  # of a row, by how the tables are made; what is longer is clipped

    def private(method: Method, trust: str = "nobody") -> Solve:
        norm = length if trust == "secure" else None
        return lambda _: fitted(A, y, parties, method, terms(trust=trust, row_norm=norm), radius)

    methods: dict[str, Solve] = {
        "x = 0": lambda _: np.zeros(d),
        "block FW, nobody, labels noisy": private(PrivateBlockFrankWolfe()),
        "block FW, nobody, labels public": private(PrivateBlockFrankWolfe(labels=PublicLabels(y))),
        "one-shot sketches (PRIDE), labels public": lambda seed: (
            one_shot_sketches(
                co.Problem(LOSS, co.L1Ball(radius)), A, y, parts, rho_for(epsilon, delta), rows, seed
            ).coefficients
        ),
        "block FW, consortium, 200 rounds": private(PrivateBlockFrankWolfe(rounds=200), "consortium"),
        "central FW, one holder, 200 rounds": private(co.CentralFrankWolfe(rounds=200)),
        "as published (not private)": lambda seed: published.fit(A, y, rows, np.random.default_rng(seed)),
    }
    if hasattr(co, "PrivateGram") and d <= 500:  # a Gram matrix of 20,000 columns does not fit
        methods["private Gram, secure"] = private(co.PrivateGram(cross="secure"), "secure")
    true = published.true_epsilon(min(n, 2000), rows)
    about = f"{table.__name__} columns, n={n:,} d={d:,} K={parties} epsilon={epsilon:g} delta={delta:g}"
    print(f"private: {about}, {runs} runs; excess risk, x = 0 is 1")
    print(f"  (the sketches of the published version cost epsilon {true:,.0f} at {min(n, 2000):,} rows)")
    for name, solve in methods.items():
        began = time.perf_counter()
        try:
            models = [solve(seed) for seed in range(runs)]
        except (co.InvalidInput, MemoryError) as error:
            print(f"  {name:42} skipped: {error}")
            continue
        excess = [(LOSS.value(A @ x, y) - floor) / (zero - floor) for x in models]
        norm = max(float(np.abs(x).sum()) for x in models)
        seconds = (time.perf_counter() - began) / runs
        spread = f"{min(excess):7.3f} to {max(excess):7.3f}"
        print(
            f"  {name:42} {statistics.mean(excess):8.3f}  ({spread})  l1 norm {norm:5.2f}  {seconds:6.1f} s", flush=True
        )


def main(quick: bool = True) -> int:
    n, d = (100, 400) if quick else (1000, 10_000)
    figure_1(n, d, [10, 50, 200])
    figure_2(n, d, [10, 50, 200])
    compare(correlated, 20_000 if quick else 200_000, 40, 1.0, 3 if quick else 5)
    compare(independent, 2_000, 2_000 if quick else 20_000, 1.0, 3)
    return 0


def smoke() -> None:
    """Every section, on little."""
    figure_1(40, 64, [2, 5])
    figure_2(40, 64, [2, 5])
    compare(correlated, 1_000, 20, 1.0, 1)
    compare(independent, 500, 600, 1.0, 1)


if __name__ == "__main__":
    raise SystemExit(main())
