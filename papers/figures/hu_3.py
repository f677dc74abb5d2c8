"""Figure 3 of Hu et al.: what noise does to the test log loss, on a9a and on gisette; and what their calibration asks for."""

from __future__ import annotations

import math
import tempfile
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

import colonnade as co
from colonnade.privacy.mechanisms import SeededNoise
from papers.figure import Case, Claim, Figure, Row, Verdict, stated
from papers.figures.hu_sharing import (
    ALL,
    DELTA,
    LOCAL,
    LOSS,
    PUBLISHED,
    WIDTHS,
    central,
    claimed_epsilon,
    claimed_noise,
    curve,
    log_loss,
    path,
    shares,
    tables,
)
from papers.plot import Panel, Plot

if TYPE_CHECKING:
    import polars as pl

SLOW = "published, rho = 1/n"
SIGMAS = (0.0, 0.01, 0.1, 1.0)
MODERATE, HEAVY = 0.01, 1.0
EPSILONS = (1.0, 10.0)
CLAIMED, OURS = "published, noise of theorem 1", "ours, private"
PRIVATE_RIDGE = 0.1
ROW_NORM = {
    "a9a": math.sqrt(14.0),
    "gisette": 24.0,
}  # 14 of a9a's columns are 1 in a row; longer rows of gisette are shortened


def cases(quick: bool) -> list[Case]:
    count, seeds = (40, 1) if quick else (100, 5)
    found: list[Case] = []
    for data in WIDTHS:
        every: Case = {"data": data, "count": count, "epsilon": math.inf}
        found += [every | {"method": method, "seed": 0, "sigma": 0.0} for method in (ALL, LOCAL, *PUBLISHED)]
        found += [every | {"method": SLOW, "seed": s, "sigma": sigma} for sigma in SIGMAS[1:] for s in range(seeds)]
        for epsilon in EPSILONS:
            found += [every | {"method": CLAIMED, "seed": s, "sigma": 0.0, "epsilon": epsilon} for s in range(seeds)]
            found += [every | {"method": OURS, "seed": s, "sigma": 0.0, "epsilon": epsilon} for s in range(seeds)]
    return found


def run(data: str, method: str, seed: int, count: int, sigma: float, epsilon: float) -> list[Row]:
    noise = claimed_noise(data, epsilon, count) if method == CLAIMED else sigma
    name = {CLAIMED: f"{CLAIMED}, claims epsilon {epsilon:g}", OURS: f"{OURS}, epsilon {epsilon:g}"}.get(method, method)
    if method in (ALL, LOCAL):
        rows = [row | {"epoch": t} for row in central(data, method) for t in (1, count)]
    elif method == OURS:
        rows = private(data, seed, count, epsilon)
    else:
        rows = curve(data, SLOW if method == CLAIMED else method, seed, count, noise)
    each: Row = {
        "method": name,
        "sigma": sigma,
        "noise": noise,
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "epoch_epsilon": claimed_epsilon(data, sigma, count) if sigma else None,
    }
    return [row | each for row in rows]


def private(data: str, seed: int, count: int, epsilon: float) -> list[Row]:
    """co.PrivateSharingADMM, which fixes its rounds before: one level. Repeatable noise here, which protects nobody."""
    (X, y), test = tables(data)
    federation = co.Federation.split(sparse.csc_array(X), y, parties=shares(data))
    problem = co.Problem(LOSS, penalty=co.Ridge(PRIVATE_RIDGE), intercept=True)
    terms = co.Privacy(epsilon, DELTA, row_norm=ROW_NORM[data])
    with tempfile.TemporaryDirectory() as store:
        fit = co.fit(federation, problem, co.PrivateSharingADMM(), terms, store=store, noise=SeededNoise(seed))
    x = np.concatenate([fit.coefficients[party] for party in shares(data)])
    loss = log_loss(test, x, fit.intercept)
    named: Row = {"data": data, "method": OURS, "seed": seed, "sigma": 0.0}
    point: Row = {"objective": None, "test_loss": loss, "values_sent": None}
    return [named | point | {"epoch": t} for t in (1, count)]


def draw(table: pl.DataFrame) -> Plot:
    import polars as pl

    panels = []
    keys = table.select("method", "sigma").unique(maintain_order=True).rows()
    for what in ("levels of noise", "the noise that is asked for"):
        for data in WIDTHS:
            panels.append(panel := Panel(f"{data}: {what}", x="epoch", y="test log loss", log="y"))
            for method, sigma in keys:
                asked = method.startswith((CLAIMED, OURS))
                if method not in (ALL, LOCAL) and asked != (what != "levels of noise"):
                    continue
                steps = path(table.filter(pl.col("data") == data), method, sigma=sigma)
                of = CLAIMED if method.startswith(CLAIMED) else OURS if method.startswith(OURS) else method
                name = f"{method}, noise {sigma:g}" if sigma else method
                x, y = [t for t, _ in steps], [loss for _, loss in steps]
                panel.line(x, y, name, "published" if of in PUBLISHED else of)
    title = "Noise on coefficients: its levels are ours, the paper prints none; gisette on a seventh of its rows"
    return Plot(title, panels, columns=2, height=7.6)


def end(table: pl.DataFrame, data: str, method: str, sigma: float = 0.0) -> float:
    return path(table, method, data, sigma)[-1][1]


def more_columns_help(table: pl.DataFrame) -> Verdict:
    pairs = {data: (end(table, data, ALL), end(table, data, SLOW), end(table, data, LOCAL)) for data in WIDTHS}
    said = "; ".join(f"{data}: all {a:.4f}, ADMM {m:.4f}, first party {p:.4f}" for data, (a, m, p) in pairs.items())
    return Verdict(all(max(a, m) < p for a, m, p in pairs.values()), said)


def better_than_central(table: pl.DataFrame) -> Verdict:
    admm, level = min(end(table, "gisette", method) for method in PUBLISHED), end(table, "gisette", ALL)
    return Verdict(admm < level, f"gisette: ADMM, stopped early, {admm:.4f}; scikit-learn at the optimum {level:.4f}")


def moderate(table: pl.DataFrame) -> Verdict:
    pairs = {data: (end(table, data, SLOW, MODERATE), end(table, data, LOCAL)) for data in WIDTHS}
    said = "; ".join(f"{data}: {noisy:.4f}, first party {alone:.4f}" for data, (noisy, alone) in pairs.items())
    return Verdict(all(noisy < alone for noisy, alone in pairs.values()), f"noise {MODERATE:g}: {said}")


def heavy(table: pl.DataFrame) -> Verdict:
    pairs = {data: (end(table, data, SLOW, HEAVY), end(table, data, LOCAL)) for data in WIDTHS}
    said = "; ".join(f"{data}: {noisy:.4f}, first party {alone:.4f}" for data, (noisy, alone) in pairs.items())
    return Verdict(all(noisy > alone for noisy, alone in pairs.values()), f"noise {HEAVY:g}: {said}")


def well_contained(table: pl.DataFrame) -> Verdict:
    """Whether the noise that still beats the first party is priced at 1 or less for an epoch, where theorem 1 is stated."""
    import polars as pl

    each = {d: table.filter((pl.col("data") == d) & (pl.col("sigma") == MODERATE))["epoch_epsilon"][0] for d in WIDTHS}
    calibrated = {d: end(table, d, f"{CLAIMED}, claims epsilon 1") for d in WIDTHS}
    ours = {d: end(table, d, f"{OURS}, epsilon 1") for d in WIDTHS}
    said = "; ".join(
        f"{d}: theorem 1 prices an epoch of noise {MODERATE:g} at epsilon {each[d]:.3g}; test log loss with the noise it asks for at "
        f"epsilon 1 in all {calibrated[d]:.3g}, ours at a proven epsilon 1 {ours[d]:.3g}"
        for d in WIDTHS
    )
    return Verdict(all(value <= 1.0 for value in each.values()), said)


FIGURE = Figure(
    name="hu-3",
    paper="Hu et al. 2020",
    title="ADMM over split features under noise",
    setting="As figures 1 and 2 (gisette on a seventh of the rows), rho 1/n. The paper does not say how much noise it added: here normal "
    "noise of standard deviation 0.01, 0.1 and 1 on coefficients (its equation 7), and what its own theorem 1 asks for at a total epsilon "
    "of 1 and 10, delta 1e-6. Beside them co.PrivateSharingADMM at the same epsilon, ridge 0.1, an intercept. 100 epochs, "
    "five seeds (quick: 40 epochs, one seed).",
    cases=cases,
    run=run,
    draw=draw,
    claims=(
        Claim("more columns than the first party's help, by ADMM as in one place", more_columns_help, "exact"),
        Claim(
            "on gisette ADMM is even better than scikit-learn on all columns",
            better_than_central,
            "exact; the best rho of two",
        ),
        Claim("under moderate noise the model still beats the first party's", moderate, "the mean over seeds"),
        Claim("too much noise ruins the model", heavy, "the mean over seeds"),
        Claim(
            "the privacy cost is well contained",
            well_contained,
            "exact: the paper's own formulas, in the scale and with the bounds that favour it",
            reproduces=False,
            finding="Lemma 1's bound grows with b1, which bounds the norm of a vector with one entry a row, so theorem 1 prices the noise "
            "that the curves bear far above the epsilon of at most 1 for which it is stated, and at an epsilon of 1 asks for "
            "noise that destroys the model. The theorem itself does not hold either (papers/findings.md). A proven epsilon of 1 "
            "costs more accuracy than the curves suggest: on these data ours is behind the first party's own model.",
        ),
    ),
    data=("a9a", "gisette-valid"),
    privacy=" ".join(
        (
            stated(
                "published, noise of theorem 1",
                epsilon="1 and 10",
                delta=f"{DELTA:g}",
                unit="one column, changed by at most 1",
                trust="nobody",
                guarantee="claimed by the paper, refuted (papers/findings.md)",
                note="Noise 0.01, 0.1 and 1 is that of equation 7 without an epsilon.",
            ),
            stated(
                "Ours, private",
                epsilon="1 and 10",
                delta=f"{DELTA:g}",
                unit="one row, replaced",
                trust="nobody",
                guarantee="proven",
                note="Drawn with repeatable noise, which protects nobody. All other curves are exact.",
            ),
        )
    ),
)
