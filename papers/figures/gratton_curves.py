"""What the figures of chapter 5 have in common once they have run: the plot, and how a claim about speed is judged.

Speed    rounds until the error is at most a bar, compared seed by seed; "faster" holds where a one-sided sign test on the seeds
         is below 5 %. A run that never gets there counts as slower than any that does; two of those say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from papers.figure import Claim, Verdict
from papers.plot import Panel, Plot

if TYPE_CHECKING:
    import polars as pl

LEVEL = 0.05
SIGN_TEST = "one-sided sign test over the seeds at 5 %"
NO_PRIVACY = "none: every value that the agents send is exact"
FAR = 10.0  # times the worst start: what goes beyond it diverges, and a mean with it would hide all other curves


def curves(title: str, measure: str = "misalignment") -> Callable[[pl.DataFrame], Plot]:
    """A drawing: the mean over seeds of each curve, on logarithmic axes; dotted, the centralised answers' own errors.

    Seeds of a curve that diverge are left out, and counted in its name.
    """

    def draw(table: pl.DataFrame) -> Plot:
        import polars as pl

        panel = Panel(x="round", y=measure, log="xy")
        floors: dict[float, None] = {}
        for name, method in table.select("curve", "method").unique(maintain_order=True).iter_rows():
            own = table.filter(pl.col("curve") == name)
            start = pl.col(measure).filter(pl.col("round") == pl.col("round").min()).max()
            astray = own.filter(~(pl.col(measure) <= FAR * start))["seed"].unique()
            mean = own.filter(~pl.col("seed").is_in(astray.to_list())).group_by("round").agg(pl.col(measure).mean())
            told = f"{name} ({len(astray)} of {own['seed'].n_unique()} diverge, not shown)" if len(astray) else name
            mean = mean.sort("round")
            panel.line(mean["round"], mean[measure], told, method)
            if measure == "misalignment" and "floor" in own.columns:
                floors[float(f"{own['floor'].to_numpy().mean():.1g}")] = None
        for floor in floors:
            told = "centralised answer" if len(floors) == 1 else "centralised answers"
            panel.level(floor, told if floor == max(floors) else "")
        return Plot(title, [panel])

    return draw


def faster(says: str, quick: str, slow: str, bar: str, reproduces: bool = True, finding: str = "") -> Claim:
    """The curve `quick` needs fewer rounds than `slow`."""
    return Claim(says, lambda table: _faster(table, quick, slow, bar), SIGN_TEST, reproduces, finding)


def quicker(
    says: str, quick: str, slow: str, bar: str, part: float, reproduces: bool = True, finding: str = ""
) -> Claim:
    """The curve `quick` needs at most this part of the rounds of `slow`, in the median."""

    def check(table: pl.DataFrame) -> Verdict:
        ratios = sorted(a / b for a, b in paired(table, quick, slow, bar) if math.isfinite(a) and math.isfinite(b))
        if not ratios:
            return Verdict(False, f"no seed of {quick} and {slow} gets {bar.replace('_', ' ')}")
        median = ratios[len(ratios) // 2]
        told = f"rounds {bar.replace('_', ' ')} of {quick} / {slow}: median {median:.2f}"
        return Verdict(
            median <= part, f"{told}, {ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} seeds (limit {part:g})"
        )

    return Claim(says, check, "median over the seeds", reproduces, finding)


def rising(says: str, order: Sequence[str], bar: str, reproduces: bool = True, finding: str = "") -> Claim:
    """Each curve of the order needs fewer rounds than the next."""

    def check(table: pl.DataFrame) -> Verdict:
        steps = [_faster(table, quick, slow, bar) for quick, slow in pairwise(order)]
        return Verdict(all(step.held for step in steps), "; ".join(step.evidence for step in steps))

    return Claim(says, check, f"{SIGN_TEST}, for each of {len(order) - 1} steps", reproduces, finding)


def alike(
    says: str, one: str, other: str, bar: str, factor: float, reproduces: bool = True, finding: str = ""
) -> Claim:
    """Two curves need the same rounds within a factor, in every seed."""

    def check(table: pl.DataFrame) -> Verdict:
        pairs = paired(table, one, other, bar)
        ratios = sorted(a / b for a, b in pairs if math.isfinite(a) and math.isfinite(b))
        held = len(ratios) == len(pairs) > 0 and ratios[0] >= 1 / factor and ratios[-1] <= factor
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}" if ratios else "unknown"
        return Verdict(
            held, f"rounds of {one} / {other}: {spread} in {len(ratios)} of {len(pairs)} seeds (limit {factor:g})"
        )

    return Claim(says, check, f"every seed within a factor of {factor:g}", reproduces, finding)


def reaches(says: str, names: Sequence[str], bar: str, reproduces: bool = True, finding: str = "") -> Claim:
    """Every seed of these curves gets below the bar."""

    def check(table: pl.DataFrame) -> Verdict:
        found = {name: by_seed(table, name, bar) for name in names}
        held = all(values and all(map(math.isfinite, values.values())) for values in found.values())
        worst = "; ".join(
            f"{name}: at most {max(values.values(), default=math.inf):g} rounds" for name, values in found.items()
        )
        return Verdict(held, worst)

    return Claim(says, check, "every seed", reproduces, finding)


def by_seed(table: pl.DataFrame, curve: str, bar: str) -> dict[int, float]:
    """Rounds that each seed of a curve needed; infinity where it never got there."""
    import polars as pl

    own = table.filter(pl.col("curve") == curve).select("seed", bar).unique("seed").sort("seed")
    return {seed: math.inf if rounds is None else float(rounds) for seed, rounds in own.iter_rows()}


def paired(table: pl.DataFrame, one: str, other: str, bar: str) -> list[tuple[float, float]]:
    """Rounds of two curves on the seeds that both have."""
    a, b = by_seed(table, one, bar), by_seed(table, other, bar)
    return [(a[seed], b[seed]) for seed in a if seed in b]


def _faster(table: pl.DataFrame, quick: str, slow: str, bar: str) -> Verdict:
    pairs = [(a, b) for a, b in paired(table, quick, slow, bar) if a != b]
    wins = sum(a < b for a, b in pairs)
    chance = sum(math.comb(len(pairs), k) for k in range(wins, len(pairs) + 1)) / 2 ** len(pairs)
    ends = [sorted(column)[len(pairs) // 2] for column in zip(*pairs, strict=True)] or [math.nan] * 2
    told = f"{quick} needs fewer rounds {bar.replace('_', ' ')} than {slow} in {wins} of {len(pairs)} seeds"
    return Verdict(chance <= LEVEL, f"{told} (medians {ends[0]:g} and {ends[1]:g}; p = {chance:.2g})")
