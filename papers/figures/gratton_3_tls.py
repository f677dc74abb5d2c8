"""Figures 3.1 and 3.2: total least squares with split rows, three published methods and ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from colonnade.data.federation import Federation
from colonnade.kernels.arrays import Floats
from colonnade.methods.graph.tls import GraphTLS
from colonnade.problem import LeastSquares, Problem, Topology
from papers.figure import Case, Claim, Figure, Row, Verdict
from papers.figures.gratton_4_common import PAPER, curve, draw_curves
from papers.figures.gratton_graph import settled
from papers.figures.watched_runs import tls_estimate, watched_fit
from papers.plot import Plot
from papers.published.graph_rounds import numbers_sent
from papers.published.row_problems import error
from papers.published.tls import d_tls, da_tls, ipi_d_tls, tables

if TYPE_CHECKING:
    import polars as pl

AGENTS = 20
ADMM, DUAL, POWER, OURS = "DA-TLS", "D-TLS", "IPI-D-TLS", "ours (GraphTLS)"
SETTING = (
    "20 agents, random graphs with three neighbours on average; 2P rows each, normal entries and coefficients, errors of variance 0.25 in "
    "A and b; 5 outer times 80 (figure 3.2: 40) inner iterations; 100 repeats. Not said: the step of D-TLS, taken as 1."
)
BAR = 1e-3  # of the normalised error, far below where all start; of the published methods DA-TLS touches it, and none stays there


@lru_cache(maxsize=8)
def rows(seed: int, columns: int) -> tuple[Floats, Floats, Floats]:
    """A, b and the centralised answer."""
    rng = np.random.default_rng([seed, columns])
    x, exact = rng.normal(size=columns), rng.normal(size=(2 * columns * AGENTS, columns))
    A = exact + 0.5 * rng.normal(size=exact.shape)
    b = exact @ x + 0.5 * rng.normal(size=len(exact))
    v = np.linalg.svd(np.column_stack([A, -b]))[2][-1]
    return A, b, np.asarray(v[:-1] / v[-1])


def run(method: str, setting: float, columns: int, seed: int, inner: int) -> list[Row]:
    """`setting` is rho of DA-TLS or the step of the other two."""
    A, b, answer = rows(seed, columns)
    graph, C, rounds = Topology.random(AGENTS, degree=3, seed=seed), tables(A, b, AGENTS), 5 * inner
    told = float(numbers_sent(graph, columns + 1).mean())
    if method == OURS:
        fed = Federation.split(A, b, parties=AGENTS, by="rows")
        method_value = GraphTLS(graph, rounds=rounds, tolerance=0.0)
        _, seen = watched_fit(fed, Problem(LeastSquares()), method_value, tls_estimate)
    elif method == ADMM:
        seen = list(islice(da_tls(C, graph, rho=setting, inner=inner), rounds))
    else:
        seen = list(islice((d_tls if method == DUAL else ipi_d_tls)(C, graph, step=setting), rounds))
    errors = [error(np.stack(x), answer) for x in seen]
    told *= columns + 1 if method in (ADMM, OURS) else 1  # these two share a matrix
    labels: Case = {"method": method, "setting": float(setting), "P": columns, "seed": seed}
    labels |= {"settled": float(settled(np.array(errors), BAR) or 0), "touched": float(touched(errors))}
    return curve(errors, told, **labels)


def touched(errors: Sequence[float]) -> int:
    """The first round at the bar, where the curve may leave it again; 0 where there is none."""
    return next((k for k, e in enumerate(errors, 1) if e <= BAR), 0)


def _lasting(table: pl.DataFrame, method: str, measure: str = "error") -> dict[tuple[int, int], float]:
    """The best setting's error at the end, by repeat."""
    import polars as pl

    last = table.filter((pl.col("method") == method) & (pl.col("round") == pl.col("round").max()))
    return {(p, s): e for p, s, e in last.group_by("P", "seed").agg(pl.col(measure).min()).iter_rows()}


def _rounds(table: pl.DataFrame, method: str, what: str) -> dict[tuple[int, int], float]:
    """Rounds that the best setting needs; infinity where it never gets there."""
    import polars as pl

    own = table.filter(pl.col("method") == method).with_columns(
        pl.when(pl.col(what) > 0).then(pl.col(what)).otherwise(float("inf"))
    )
    return {(p, s): k for p, s, k in own.group_by("P", "seed").agg(pl.col(what).min()).iter_rows()}


def _sooner(what: str, told: str) -> Callable[[pl.DataFrame], Verdict]:
    """`what` is "settled" or "touched"."""

    def check(table: pl.DataFrame) -> Verdict:
        first = _rounds(table, ADMM, what)
        others = [m for m in (DUAL, POWER) if _rounds(table, m, what)]
        wins = [first[key] < _rounds(table, m, what)[key] for m in others for key in first]
        medians = ", ".join(f"{m} {np.median(list(_rounds(table, m, what).values())):g}" for m in (ADMM, *others))
        return Verdict(
            sum(wins) >= 0.9 * len(wins),
            f"{told} {BAR:g} before a rival in {sum(wins)} of {len(wins)} pairs; medians of the rounds: {medians}",
        )

    return check


def nearer(measure: str = "error") -> Callable[[pl.DataFrame], Verdict]:
    def check(table: pl.DataFrame) -> Verdict:
        own = _lasting(table, ADMM, measure)
        others = [m for m in (DUAL, POWER) if _lasting(table, m, measure)]
        wins = [own[key] < _lasting(table, m, measure)[key] for m in others for key in own]
        medians = ", ".join(f"{m} {np.median(list(_lasting(table, m, measure).values())):.2g}" for m in (ADMM, *others))
        return Verdict(
            sum(wins) >= 0.9 * len(wins),
            f"nearer after the last round than a rival in {sum(wins)} of {len(wins)} pairs; medians: {medians}",
        )

    return check


def _exact(table: pl.DataFrame) -> Verdict:
    worst = max(_lasting(table, OURS).values())
    return Verdict(worst <= 1e-12, f"after the last round at most {worst:.2g}")


# One criterion for the same claim, here and in total_least_squares_rounds.py.
STALL = (
    "as printed, DA-TLS has no normalisation: its inner problem has the optimum 0 or none, and every outer iteration starts X and the "
    "multipliers again at 0. It touches small errors on the way and loses them again; rho changes nothing at all (tls.py proves it)."
)
PAIRS = "nine of ten pairs of DA-TLS and a rival on the same rows, each at its best setting; a pair in which neither gets there counts against it"


def converges_faster() -> Claim:
    return Claim(
        f"DA-TLS converges significantly faster than D-TLS and IPI-D-TLS: its error is at most {BAR:g} for good in fewer rounds",
        _sooner("settled", "for good at"),
        f"normalised squared error, summed over agents; {PAIRS}",
        reproduces=False,
        finding=STALL,
        changed="for good; figure 3.1 asked for the first touch before, by which it held, and the other figure for the error after the last round.",
    )


def ends_nearer(measure: str = "error") -> Claim:
    told = f"normalised squared error, summed over agents, after the last round; {PAIRS}"
    return Claim("DA-TLS is nearer after the last round", nearer(measure), told, reproduces=False, finding=STALL)


def tls_figure(
    number: str,
    columns: tuple[int, ...],
    settings: dict[str, tuple[float, ...]],
    inner: int,
    exact: bool,
) -> Figure:
    def cases(quick: bool) -> list[Case]:
        return [
            {"method": m, "setting": value, "columns": p, "seed": s, "inner": inner}
            for m, values in settings.items()
            for s in range(2 if quick else 10 if m == OURS else 100)  # ours moves real messages and is not the thesis'
            for p in columns
            for value in values
        ]

    def draw(table: pl.DataFrame) -> Plot:
        title = f"Figure {number}: total least squares, N = 20; ours added. DA-TLS as printed, without a normalisation"
        return draw_curves(table, title, by="setting", panels="P")

    ours = Claim(
        "(ours, not the thesis') one loop with the trace fixed reaches the answer to 1e-12 (squared, relative)",
        _exact,
        "every repeat",
    )
    return Figure(
        name=f"gratton-{number}",
        paper=PAPER,
        title=f"Total least squares with split rows, P = {' and '.join(map(str, columns))}",
        setting=SETTING,
        cases=cases,
        run=run,
        draw=draw,
        claims=(
            converges_faster(),
            Claim(
                f"DA-TLS is the first to touch {BAR:g}, which it may leave again",
                _sooner("touched", "first at"),
                f"normalised squared error, summed over agents; {PAIRS}",
                changed="what figure 3.1 called converging faster before.",
            ),
            ends_nearer(),
            *((ours,) if exact else ()),
        ),
        privacy="none asked for: exact values",
        printed={"seed": 100},
    )


FIGURES = (
    tls_figure("3.1", (9,), {ADMM: (2.0, 3.0), DUAL: (1.0,), POWER: (0.2, 0.3), OURS: (0.0,)}, 80, True),
    tls_figure("3.2", (5, 9), {ADMM: (1.0,), POWER: (1.0,), OURS: (0.0,)}, 40, False),
)
