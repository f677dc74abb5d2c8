"""Tables 3 and 4 of Raff et al.: how many times faster than algorithm 1 under privacy, and what is learnt at ε = 0.1."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from colonnade.kernels.samplers import exact_picks
from colonnade.kernels.sparse_fw import LossCode, model_of_picks
from colonnade.kernels.stream import keyed_stream
from colonnade.privacy.accountant import rho_for
from papers.figure import Claim, Figure, Row, Verdict, stated
from papers.figures.raff_data import MADE_UP, PAPER, REAL, Data, load
from papers.plot import Plot
from papers.published import SparseFrankWolfe
from papers.published.algorithm_1 import noisy_max_picks
from papers.published.sparse_kernel import published_big_step_little_step, published_noisy_max

if TYPE_CHECKING:
    import polars as pl

ROUNDS, RADIUS, DELTA = 4_000, 50.0, 1e-6  # table 3; delta is ours to choose
PUBLISHED_3 = {  # (algorithms 2 + 4, algorithm 2) at epsilon 1 and 0.1, as printed
    ("rcv1", 1.0): (19.44, 1.36),
    ("rcv1", 0.1): (20.37, 1.82),
    ("news20", 1.0): (81.69, 17.83),
    ("news20", 0.1): (93.51, 19.05),
    ("url", 1.0): (9.99, 1.02),
    ("url", 0.1): (2451.80, 95.58),
    ("web", 1.0): (581.25, 21.24),
    ("web", 0.1): (537.65, 20.79),
    ("kdda", 1.0): (1239.64, 206.50),
    ("kdda", 0.1): (2245.56, 368.96),
}
PUBLISHED_4 = {"rcv1": (0.9053, 0.9729), "news20": (0.9237, 0.9865)}  # accuracy and AUC, as printed
ZEROS_4 = {"rcv1": 0.0581, "news20": 0.7519}  # of the model, as printed
WIDE, CLAIM = 5_000.0, 0.1  # table 4
WHOLE = "before, seconds a step of short runs were compared, of which most was set-up that a whole run pays once."


# ------------------------------------------------------------------------------------------------ table 3


def run_3(data: str, epsilon: float, rounds: int, alone: int, steps: int) -> list[Row]:
    """CPU seconds of a run of `rounds` steps: set-up and all steps, or so many of them that the rest can be told from these.

    alone   steps of algorithm 2 that are run, each of which looks at every column.     steps   of algorithm 1.
    """
    given, key = load(data), b"%32d" % round(1000 * epsilon)
    c = SparseFrankWolfe(epsilon, DELTA, rounds=ROUNDS, radius=RADIUS).scale(1)
    sound = 1.0 / (2.0 * math.sqrt(ROUNDS / (2.0 * rho_for(epsilon, DELTA))))
    published: dict[str, Any] = {"radius": RADIUS, "scale": c}
    exact: dict[str, Any] = {"radius": RADIUS, "scale": sound, "loss": LossCode.LOGISTIC}

    def again() -> Any:
        return keyed_stream(key)

    ways: dict[str, tuple[int, Callable[[Data, int], Any]]] = {
        "algorithm 1": (steps, lambda d, t: noisy_max_picks(*d.columns, d.y, rounds=t, stream=again(), **exact)),
        "algorithm 2": (
            alone,
            lambda d, t: published_noisy_max(d.columns, d.rows, d.y, rounds=t, stream=again(), **published),
        ),
        "algorithms 2 + 4": (
            rounds,
            lambda d, t: published_big_step_little_step(d.columns, d.rows, d.y, rounds=t, stream=again(), **published),
        ),
        "ours, exact": (
            rounds,
            lambda d, t: exact_picks(*d.columns, d.y, rounds=t, feature_bound=1.0, stream=again(), **exact),
        ),
    }
    few = given.csr[:50]
    tiny, taken = Data(few.tocsc(), few, given.y[:50]), dict[str, float]()
    for method, (made, way) in ways.items():
        way(tiny, 2)  # compiled for these types, or read from the cache, outside the clock
        first, some = (_seconds(way, given, t) for t in (1, made))
        taken[method] = first + (rounds - 1) * (some - first) / (made - 1)
    return [
        {"data": data, "epsilon": epsilon, "method": m, "seconds": s, "times": taken["algorithm 1"] / s}
        for m, s in taken.items()
    ]


def _seconds(way: Callable[[Data, int], Any], given: Data, rounds: int) -> float:
    began = time.process_time()
    way(given, rounds)
    return time.process_time() - began


def times(table: pl.DataFrame, method: str) -> dict[tuple[str, float], float]:
    return {(row["data"], row["epsilon"]): row["times"] for row in table.filter(method=method).to_dicts()}


def draw_3(table: pl.DataFrame) -> Plot:
    both, alone, own = (times(table, m) for m in ("algorithms 2 + 4", "algorithm 2", "ours, exact"))
    keys = list(both)
    cells = {
        "data, ε": [f"{data}, {epsilon:g}" for data, epsilon in keys],
        "2 + 4, printed": [f"{PUBLISHED_3[key][0]:,.1f}" for key in keys],
        "2 + 4, here": [f"{both[key]:,.1f}" for key in keys],
        "2, printed": [f"{PUBLISHED_3[key][1]:,.1f}" for key in keys],
        "2, here": [f"{alone[key]:,.1f}" for key in keys],
        "ours, exact": [f"{own[key]:,.0f}" for key in keys],
    }
    return Plot("Times faster than algorithm 1 in numba: CPU seconds of a whole run, one core", table=cells)


def _fast(table: pl.DataFrame) -> Verdict:
    found = times(table, "algorithms 2 + 4")
    return Verdict(min(found.values()) > 10, f"times faster: {min(found.values()):.0f} to {max(found.values()):.0f}")


def _as_printed(table: pl.DataFrame) -> Verdict:
    found = {key: here / PUBLISHED_3[key][0] for key, here in times(table, "algorithms 2 + 4").items()}
    told = ", ".join(f"{data} at ε = {epsilon:g} {ratio:.2g}" for (data, epsilon), ratio in found.items())
    return Verdict(all(1 / 3 <= ratio <= 3 for ratio in found.values()), f"times faster here over printed: {told}")


def _both_parts(table: pl.DataFrame) -> Verdict:
    both, alone = times(table, "algorithms 2 + 4"), times(table, "algorithm 2")
    leads = [both[key] / alone[key] for key in both]
    return Verdict(min(leads) > 2, f"2 + 4 over 2 alone: {min(leads):.0f} to {max(leads):.0f} times")


TABLE_3 = Figure(
    name="raff-table-3",
    paper=PAPER,
    title="Times faster than algorithm 1, private",
    setting=(
        "λ = 50, T = 4,000, ε = 1 and 0.1, δ = 1e-6. Algorithm 1 is ours in numba, which recomputes every score; the paper's was in Java. A quick run "
        "has RCV1 only, and 500 rounds. Noise drowns the slopes here: picks are nearly uniform, which flatters all but algorithm 1."
    ),
    cases=lambda quick: [
        {"data": d, "epsilon": e, "rounds": 500 if quick else ROUNDS, "alone": a, "steps": s}
        for d, a, s in (
            ("rcv1", 500, 20),
            *(() if quick else (("news20", 200, 10), ("url", 20, 4), ("web", 20, 4), ("kdda", 20, 4))),
        )
        for e in (1.0, 0.1)
    ],
    run=run_3,
    draw=draw_3,
    data=tuple(REAL.values()),
    privacy=" ".join(
        (
            stated(
                "algorithms 1, 2 and 4",
                epsilon="1 and 0.1",
                delta="1e-6",
                unit="one row, replaced",
                trust="the holder of the rows; readers of the model are not trusted",
                guarantee="claimed by the paper; the exact sign of algorithms 2 and 4 makes it infinite (papers/findings.md)",
            ),
            stated(
                "Ours",
                epsilon="1 and 0.1",
                delta="1e-6",
                unit="one row, replaced",
                trust="the holder of the rows; readers of the model are not trusted",
                guarantee="proven for the mechanism with noise of the system",
                note="Keys are fixed here, so that these very runs are not private.",
            ),
        )
    ),
    claims=(
        Claim(
            "algorithms 2 and 4 together are ten times faster than algorithm 1, or more",
            _fast,
            "CPU time of one run, a factor of 10",
            changed=WHOLE,
        ),
        Claim(
            "both are needed: algorithm 2 alone is slower",
            _both_parts,
            "CPU time of one run, a factor of 2",
            changed=WHOLE,
        ),
        Claim(
            "algorithms 2 and 4 together are as many times faster as printed",
            _as_printed,
            "CPU time of one run, every entry of the table within a factor of 3",
            reproduces=False,
            finding=(
                "On News20, Web and URL at ε = 0.1 it is, and on KDDA all but, in another language and on other files; on RCV1 it is four to five times the printed one. Not on URL at ε = 1: the paper's "
                "full columns are informative and picked often at that noise, which costs its algorithm the lead; those of our made-up table drown, and it keeps it."
            ),
            changed="said to hold before it was run.",
        ),
    ),
    fresh=True,
    less=(
        "A run of algorithm 1 is told from its first 4 to 20 steps and one of algorithm 2 alone from its first 20 to 500, each of which looks at every "
        f"column; all other steps are run. {MADE_UP}"
    ),
)


# ------------------------------------------------------------------------------------------------ table 4


def run_4(data: str, rounds: int, seed: int) -> list[Row]:
    from sklearn.metrics import roc_auc_score

    from colonnade.estimators.sparse import SparseClassifier  # here, since it brings scikit-learn with it

    given = load(data)
    train, test = np.split(np.random.default_rng(seed).permutation(given.y.size), [int(0.8 * given.y.size)])
    X, y, new, truth = given.csr[train], given.y[train], given.csr[test], given.y[test]
    paper = SparseFrankWolfe(CLAIM, DELTA, rounds=rounds, radius=WIDE)
    columns = sparse.csc_array(X)
    parts = columns.data, columns.indices, columns.indptr
    settings: dict[str, Any] = {"loss": LossCode.LOGISTIC, "radius": WIDE, "rounds": rounds, "feature_bound": 1.0}
    picks, _ = exact_picks(*parts, y, scale=paper.scale(1), stream=keyed_stream(b"%32d" % (seed + 1)), **settings)
    # Noise for a private fit has no seed: this row alone differs from run to run.
    fitted = SparseClassifier(epsilon=CLAIM, delta=DELTA, classes=[-1, 1]).fit(X, y)
    models = {
        "as published: exact signs": paper.learn(X, y, keyed_stream(b"%32d" % seed)),
        "the same weights, signs drawn": model_of_picks(picks, radius=WIDE, columns=X.shape[1]),
        "SparseClassifier": np.ravel(fitted.coef_),
    }
    found: list[Row] = []
    for method, w in models.items():
        scores = fitted.decision_function(new) if method == "SparseClassifier" else new @ w
        right = float((np.where(scores > 0, 1, -1) == truth).mean())
        auc = float(roc_auc_score(truth, scores))
        zeros = float((w == 0).mean())
        found.append({"data": data, "seed": seed, "method": method, "accuracy": right, "auc": auc, "zeros": zeros})
    return found


def listing_4(table: pl.DataFrame) -> list[dict[str, str]]:
    """What the paper prints, then means over the splits."""
    import polars as pl

    means = table.group_by("data", "method", maintain_order=True).agg(pl.col("accuracy", "auc", "zeros").mean())
    printed = [
        (d, "printed in the paper", *PUBLISHED_4[d], ZEROS_4[d]) for d in table["data"].unique(maintain_order=True)
    ]
    return [
        {"data": data, "model": model, "accuracy": f"{right:.1%}", "AUC": f"{auc:.1%}", "zeros": f"{zeros:.1%}"}
        for data, model, right, auc, zeros in (*printed, *means.iter_rows())
    ]


def draw_4(table: pl.DataFrame) -> Plot:
    lines = listing_4(table)
    cells = {head: [line[head] for line in lines] for head in lines[0]}
    return Plot("A claimed ε of 0.1: all that is learnt comes from the exact signs", table=cells)


def auc_of(table: pl.DataFrame, method: str) -> float:
    return float(table.filter(method=method)["auc"].to_numpy().min())


def _learns(table: pl.DataFrame) -> Verdict:
    auc = auc_of(table, "as published: exact signs")
    return Verdict(auc > 0.9, f"AUC at least {auc:.3f}")


def _learns_privately(table: pl.DataFrame) -> Verdict:
    auc = float(table.filter(method="the same weights, signs drawn")["auc"].to_numpy().max())
    own = auc_of(table, "SparseClassifier")
    return Verdict(
        auc > 0.75, f"AUC with drawn signs at most {auc:.3f}; SparseClassifier at a proven ε of 0.1: {own:.3f}"
    )


TABLE_4 = Figure(
    name="raff-table-4",
    paper=PAPER,
    title="Accuracy and AUC at ε = 0.1",
    setting=(
        "λ = 5,000, four fifths of the rows to learn from, one fifth to judge by. T = 400,000 on RCV1 and News20 in a full run; a quick run has "
        "T = 40,000 on RCV1. One split. Neither data set is the paper's file; URL, Web and KDDA cannot be had."
    ),
    cases=lambda quick: [
        {"data": d, "rounds": 40_000 if quick else 400_000, "seed": 0} for d in (("rcv1",) if quick else tuple(REAL))
    ],
    run=run_4,
    draw=draw_4,
    listing=listing_4,
    data=tuple(REAL.values()),
    privacy=" ".join(
        (
            stated(
                "as published",
                epsilon=f"{CLAIM:g}",
                delta=f"{DELTA:g}",
                unit="one row, replaced",
                trust="the holder of the rows; readers of the model are not trusted",
                guarantee="claimed by the paper; no finite epsilon holds (papers/findings.md)",
            ),
            stated(
                "Signs drawn",
                epsilon=f"far below {CLAIM:g}",
                delta=f"{DELTA:g}",
                unit="one row, replaced",
                trust="as above",
                guarantee="proven for the mechanism; with a fixed key here, so that this very run is not private",
            ),
            stated(
                "SparseClassifier",
                epsilon=f"{CLAIM:g}",
                delta=f"{DELTA:g}",
                unit="one row, replaced",
                trust="as above",
                guarantee="proven, noise of the system",
            ),
        )
    ),
    claims=(
        Claim("the published method learns: AUC above 0.9", _learns, "every split"),
        Claim(
            "it does so under privacy at ε = 0.1",
            _learns_privately,
            "every split; AUC above 0.75 with the sign drawn along with the column would count",
            reproduces=False,
            finding=(
                "At these settings the weights exp(s·|slope|) have s below 1e-7 on summed slopes: columns are drawn all but uniformly. The exact sign of the chosen slope "
                "then goes into the model without any noise; it carries all that is learnt. With signs drawn by the mechanism too, nothing is left."
            ),
        ),
    ),
    less="Two of the paper's five data sets: URL, Web and KDDA cannot be had, and accuracy on made-up labels would say nothing.",
)
FIGURES = (TABLE_3, TABLE_4)
