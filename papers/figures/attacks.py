"""Attacks on what the papers release, and on what this library releases in its place: claimed epsilon beside what is shown.

Method   colonnade.attacks.run: two neighbouring tables, the release drawn many times from each, an event chosen on one half of the trials
         and judged on the other. A bound is too high with probability at most 1e-6; it stops growing where the trials end.
Exact    where the attacked pair has an epsilon in closed form, it stands beside the bound.
Noise    is the mechanisms' own and never the same twice, so that bounds differ from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from colonnade.attacks.run import CONFIDENCE, audit
from colonnade.attacks.run import TARGETS as SOUND
from colonnade.attacks.setting import Setting
from papers import published
from papers.attacks import TARGETS as BROKEN
from papers.attacks import sharing_pair, sketch_pair
from papers.figure import Case, Claim, Figure, Row, Verdict, stated
from papers.plot import Panel, Plot

if TYPE_CHECKING:
    import polars as pl

TARGETS = {**SOUND, **BROKEN}
OURS = (  # in place of what the papers have
    "block-frank-wolfe",
    "shared-choice",
    "sparse-picks",
    "frank-wolfe",
    "sharing-admm",
    "sharing-admm-column",
    "gram",
)
SHORT = {
    "published-sketch": "sketches (Lou & Cheung)",
    "published-sign": "exact signs (Raff et al.)",
    "published-laplace": "Laplace scale (Raff et al.)",
    "published-sharing-lemma": "lemma 1 (Hu et al.)",
    "published-sharing-range": "noise in a range (Hu et al.)",
    "published-zeroth-order": "intrinsic, u = 0.1 (Gratton)",
    "block-frank-wolfe": "PrivateBlockFrankWolfe",
    "shared-choice": "BlockFrankWolfe, consortium",
    "sparse-picks": "SparseClassifier, picks",
    "frank-wolfe": "CentralFrankWolfe",
    "sharing-admm": "PrivateSharingADMM, rows",
    "sharing-admm-column": "PrivateSharingADMM, columns",
    "gram": "PrivateGram, secure",
}
WHY = {
    "published-sketch": "The noise is divided by the number of rows, as if a mean over rows left, and a column's sketch is no mean.",
    "published-sign": "The sign of the chosen slope goes into the model without any noise.",
    "published-laplace": "Slopes are sums over rows, and the noise is scaled for means.",
    "published-sharing-lemma": "The lemma puts one over the number of columns for the norm of an inverse, which nothing bounds so.",
    "published-sharing-range": "Noise on coefficients never leaves the range of the data, which names the data.",
    "published-zeroth-order": "The solver's randomness is assumed to be wide and normal; nothing makes it so. The attack is at u = 0.1, on which the claim does not depend; "
    "with more releases it is refuted at the thesis' own u = 1 as well (finding-intrinsic-noise).",
}


def run(target: str, claim: float, trials: int) -> list[Row]:
    verdict = audit(TARGETS[target], epsilon=claim, trials=trials)
    row: Row = {"target": target, "claim": claim, "delta": TARGETS[target].delta, "trials": trials}
    exact = exact_epsilon(target, Setting(claim, TARGETS[target].delta, seed=0))
    return [row | {"bound": verdict.lower_bound, "violated": int(verdict.violated), "exact": exact}]


def exact_epsilon(target: str, setting: Setting) -> float | None:
    """The epsilon of the attacked pair itself, where there is a formula for it."""
    if target == "published-sketch":
        columns = published.SketchedColumns(setting.epsilon, setting.delta)
        sketch, first, second = sketch_pair(setting)
        shift = float(np.linalg.norm(sketch @ (first - second))) * math.sqrt(columns.parties * columns.rounds)
        return published.gaussian_epsilon(shift / columns.sigma(sketch), setting.delta)
    if target == "published-sharing-lemma":
        sharing = published.SharingADMM(setting.epsilon, setting.delta)
        one, other, dual, largest = sharing_pair(setting)
        shift = float(np.linalg.norm(one @ sharing.update(one, dual) - other @ sharing.update(other, dual)))
        return published.gaussian_epsilon(shift / sharing.sigma(one.shape[1], largest), setting.delta)
    # The sign of a coefficient, or the range of a matrix, is then seen without any noise at all.
    return math.inf if target in ("published-sign", "published-sharing-range") else None


def listing(table: pl.DataFrame) -> list[dict[str, str]]:
    """The rows as papers/findings.md prints them."""
    return [
        {
            "Release": TARGETS[row["target"]].title,
            "Claimed ε": f"{row['claim']:g}",
            "δ": f"{row['delta']:g}",
            "Shown by attack: ε at least": f"{row['bound']:.2f}",
            "Exact ε of the pair": _shown(row["exact"]),
            "Trials a side": f"{row['trials']:,}",
            "Verdict": "violated" if row["violated"] else "consistent: proves nothing more",
        }
        for row in table.to_dicts()
    ]


def _shown(epsilon: float | None) -> str:
    if epsilon is None:
        return "no formula"
    return f"{float(f'{epsilon:.3g}'):,g}" if math.isfinite(epsilon) else "infinite"


def drawer(title: str) -> Callable[[pl.DataFrame], Plot]:
    def draw(table: pl.DataFrame) -> Plot:
        rows = table.to_dicts()
        names = [f"{SHORT[row['target']]}, {row['claim']:g}" for row in rows]
        bars = {
            "epsilon, claimed": [row["claim"] for row in rows],
            "epsilon, shown by attack: at least": [row["bound"] for row in rows],
        }
        return Plot(title, [Panel(x="epsilon", bars=bars, names=names)], height=0.4 * len(names) + 0.6)

    return draw


def refuted(target: str) -> Claim:
    """The paper's claim about one release; it does not hold where any of its epsilons is violated."""

    def check(table: pl.DataFrame) -> Verdict:
        own = table.filter(target=target).to_dicts()
        words = ", ".join(f"claimed {row['claim']:g}, shown at least {row['bound']:.2f}" for row in own)
        return Verdict(not any(row["violated"] for row in own), f"{words} ({own[0]['trials']:,} trials a side)")

    says = f"the paper's privacy claim: {TARGETS[target].title}"
    return Claim(says, check, f"{1 - CONFIDENCE:.0e} a bound", reproduces=False, finding=WHY[target])


def _none_refuted(table: pl.DataFrame) -> Verdict:
    rows = table.to_dicts()
    worst = max(rows, key=lambda row: row["bound"])
    words = f"the largest of {len(rows)} bounds is {worst['bound']:.2f}, {SHORT[worst['target']]}"
    return Verdict(not any(row["violated"] for row in rows), f"{words}; {worst['trials']:,} trials a side")


def cases(
    targets: Sequence[str], claims: Sequence[float] | None, quick: int, full: int
) -> Callable[[bool], list[Case]]:
    """`quick` and `full` are trials, or 0 for those of the target (in full ten times)."""

    def listed(small: bool) -> list[Case]:
        found: list[Case] = []
        for name in targets:
            trials = (quick or TARGETS[name].trials) if small else (full or 10 * TARGETS[name].trials)
            found += [{"target": name, "claim": claim, "trials": trials} for claim in claims or TARGETS[name].claims]
        return found

    return listed


FIGURES = (
    Figure(
        name="attacks-published",
        paper="this project",
        title="The papers' private releases under attack",
        setting="The releases of published/, each at the epsilons that its paper speaks of, on tables made up so that one row or column decides as "
        "much as it can. A full run has ten times the trials; a bound cannot exceed what they can show, about 5.8 for 10,000 a side and 8 for 100,000.",
        cases=cases(tuple(BROKEN), None, 0, 0),
        run=run,
        draw=drawer("Published calibrations: what is claimed, and what an attack shows"),
        claims=tuple(refuted(name) for name in BROKEN),
        privacy=stated(
            "each release",
            epsilon="as claimed on the plot",
            delta="0.005 for sketches, 0.001 for the others",
            unit="one row, replaced; for Hu et al. one column, changed by at most 1",
            trust="nobody",
            guarantee="claimed by the papers, refuted here",
            note="The tables are made up.",
        ),
        listing=listing,
        fresh=True,
    ),
    Figure(
        name="attacks-ours",
        paper="this project",
        title="What stands in their place, under attack",
        setting="Whole runs through the real gates, ledgers and programs at a claimed epsilon of 4, attacked by who sees most: 1,000 trials a side (full: "
        "10,000). So few trials catch gross faults only: what is proven is in docs/understand/privacy.md, and `colonnade audit` attacks longer.",
        cases=cases(OURS, (4.0,), 1_000, 10_000),
        run=run,
        draw=drawer("Ours, at a claimed epsilon of 4: what an attack shows"),
        claims=(
            Claim("no attack shows more than the claimed epsilon", _none_refuted, f"{1 - CONFIDENCE:.0e} a bound"),
        ),
        privacy=stated(
            "each method",
            epsilon="4",
            delta="1e-5",
            unit="one row, replaced; for PrivateSharingADMM, columns, one column",
            trust="nobody; secure for PrivateGram; consortium where named",
            guarantee="proven; conditional under secure and consortium, and for sparse-picks",
            note="The tables are made up.",
        ),
        listing=listing,
        fresh=True,
    ),
)
