"""Figures 4.6, 4.7 (lasso) and 4.10, 4.11 (ridge): the error of each private method, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from papers.figure import Case, Figure
from papers.figures.gratton_4_common import (
    ASSUMED,
    LASSO_RIVALS,
    ONE_DIRECTION,
    PAPER,
    PRINTED,
    REPEATS,
    RIDGE_RIVALS,
    SETTING,
    ZOA,
    all_converge,
    as_noisy_as_assumed,
    draw_curves,
    larger_epsilon_is_nearer,
    nearest_of_all,
    nearest_with_one_direction,
    orders,
    privacy_text,
    private_cases,
    run_private,
)
from papers.plot import Plot

if TYPE_CHECKING:
    import polars as pl


NOT_TWO_ORDERS = (
    "DP-ADMM and DPSGD shrink their noise with their steps, and the former averages over agents; with steps tuned for each epsilon DP-ADMM "
    "comes within one to one and a half orders, most where epsilon is large. Against PVP and DVP (ridge) it is more than two orders."
)


def private_curves(number: str, penalty: str, epsilons: Sequence[float], delta: float, said: str) -> Figure:
    """One figure: every method at each epsilon."""
    rivals = LASSO_RIVALS if penalty == "l1" else RIDGE_RIVALS
    privacy = privacy_text(epsilons, [delta], rivals, 200)
    shown = f"epsilon {' and '.join(f'{e:g}' for e in epsilons)} a round, delta {delta:g}"

    def cases(quick: bool) -> list[Case]:
        seeds, rounds = ((0, ONE_DIRECTION), 80) if quick else (range(REPEATS), 200)
        return private_cases((ZOA, *rivals, ASSUMED), penalty, epsilons, [delta], seeds=seeds, rounds=rounds)

    def draw(table: pl.DataFrame) -> Plot:
        title = f"Figure {number}: {'lasso' if penalty == 'l1' else 'ridge'}, {shown}. Added: what theorem 4.1 assumes of D-ZOA"
        return draw_curves(table, title, panels="epsilon")

    # At these terms PVP hardly moves: its noise is as large as the answer. Converging is asked of those that do.
    moving = (ZOA, *LASSO_RIVALS)
    compared = (larger_epsilon_is_nearer((ZOA, *rivals)),) if len(epsilons) > 1 else ()
    one_direction = (nearest_with_one_direction(rivals),) if delta == 1e-6 else ()
    ahead = orders(rivals, 10.0) if penalty == "ridge" else orders(rivals, 50.0, NOT_TWO_ORDERS)
    return Figure(
        name=f"gratton-{number}",
        paper=PAPER,
        title=f"Private methods with split rows, {'lasso' if penalty == 'l1' else 'ridge'}, {shown}",
        setting=f"{SETTING} {said} {PRINTED} repeats of 200 rounds.",
        cases=cases,
        run=run_private,
        draw=draw,
        claims=(all_converge(moving), *compared, nearest_of_all(rivals), *one_direction, ahead, as_noisy_as_assumed()),
        privacy=privacy,
        printed={"seed": PRINTED, "rounds": 200},
        shares="gratton-4",
    )


TWO = "The two values of epsilon are those of figure 4.9, since the caption does not name them."
FIGURES = (
    private_curves("4.6", "l1", (0.15, 0.95), 1e-3, TWO),
    private_curves("4.7", "l1", (0.15, 0.95), 1e-6, TWO),
    private_curves("4.10", "ridge", (0.4,), 1e-3, ""),
    private_curves("4.11", "ridge", (0.8,), 1e-3, ""),
)
