"""Private Gram's probabilities, and whether more budget is ever worse: releases simulated as in benchmarks/gram.py.

Log loss is of held-out rows, over the entropy of their labels: 1 is what the exact share of the class gives, below it the
model says more. Beside it stands the loss of the released share, which the model should not exceed. `rows` cuts a table
down first: small tables are where probabilities go wrong. The link's constants were chosen on TABLES and MORE; OTHERS had
no part in that. The same with labels that are drawn anew and have nothing to do with the columns. Then the area under the
ROC curve at 13 budgets from .1 to 16, and the largest step down between two of them: the same draws of noise at every
budget, so that a step is that of the rule. Then R² at the same budgets, on tables of benchmarks/battery.py with numbers
as labels, drawn anew for every run. At last private block Frank-Wolfe, which trusts nobody, on tables of
papers/figures/lou_comparison.py: the part of what there is to gain over x = 0 that it gains, and its worst run.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.battery import BATTERY, Kind, judged
from benchmarks.gram import PROBLEM, Dataset, Releases, auc, load, log_loss, splits
from colonnade.methods.frank_wolfe.private_block import PrivateBlockFrankWolfe
from colonnade.privacy.statement import Privacy
from colonnade.problem.link import Link
from papers.figures import lou_comparison
from papers.registry import data_folder

TABLES = (("nhanes-diabetes", 1_000), ("nhanes-diabetes", None), ("credit-default", 3_000), ("credit-default", None))
MORE = (("a9a", None), ("a9a", 3_000))
OTHERS = (("flights", 3_000), ("flights", 30_000))
EPSILONS = (0.1, 1.0, 4.0)
BLOCK_BUDGETS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
BUDGETS = tuple(float(round(x, 3)) for x in np.geomspace(0.1, 16.0, 13))


def table(name: str, rows: int | None) -> Dataset | None:
    """A data set, or so many of its rows."""
    data = load(name)
    if data is None or rows is None:
        return data
    kept = np.sort(np.random.default_rng(99).permutation(data.y.size)[:rows])
    units = None if data.units is None else data.units[kept]
    return replace(data, matrix=data.matrix[kept], y=data.y[kept], units=units)


def released_share(link: Link) -> float:
    """The share of the class that a link's one value, or its two ends, tell."""
    return float(link(np.zeros(1))[0]) if link.slope == 0.0 else link.low / (link.low + 1.0 - link.high)


def trial(releases: Releases, test: np.ndarray, epsilon: float, seed: list[int]) -> tuple[float, float, float]:
    """AUC and relative log loss of one simulated run on rows that it has not seen; that loss of its released share."""
    data, release = releases.at(epsilon)
    _, solved = release.fit(PROBLEM, epsilon, np.random.default_rng(seed))
    assert solved.link is not None
    y, scores = data.y[test], data.matrix[test] @ solved.coefficients + solved.intercept
    share = np.full(y.size, released_share(solved.link))
    return auc(y, scores), log_loss(y, solved.link(scores)), log_loss(y, share)


def draws(data: Dataset, budgets: tuple[float, ...], count: int, each: int) -> np.ndarray:
    """(budgets, runs, 3): AUC, relative log loss, and that of the released share."""
    found = np.zeros((len(budgets), count * each, 3))
    for split, (train, test) in enumerate(splits(data, count)):
        releases = Releases(data, train)
        for place, epsilon in enumerate(budgets):
            for draw in range(each):
                found[place, split * each + draw] = trial(releases, test, epsilon, [split, draw])
    return found


def probabilities(count: int, each: int, more: bool) -> None:
    print(
        f"log loss over the labels' entropy, {count} splits, {each} runs each, simulated; mean (worst), released share"
    )
    for name, rows in (*TABLES, *((*MORE, *OTHERS) if more else ())):
        data = table(name, rows)
        if data is None:
            continue
        found = draws(data, EPSILONS, count, each)
        line = "   ".join(
            f"epsilon {e:g}: {x[:, 1].mean():.3f} ({x[:, 1].max():.2f}), {x[:, 2].mean():.3f}"
            for e, x in zip(EPSILONS, found, strict=True)
        )
        print(f"  {name}, {data.y.size:,} rows: {line}", flush=True)


def nothing_to_learn(count: int, each: int) -> None:
    """What noise and sampling alone cost: labels of the table's share, drawn anew for every run."""
    print(f"model less released share, labels unrelated, {count} splits, {each} runs each: mean ± standard error")
    for name, rows in (("nhanes-diabetes", 1_000), ("credit-default", 3_000)):
        data = table(name, rows)
        if data is None:
            continue
        line, share = [], float((data.y > 0).mean())
        for epsilon in EPSILONS:
            lost = []
            for split, (train, test) in enumerate(splits(data, count)):
                for draw in range(each):
                    drawn = np.random.default_rng([5, split, draw]).random(data.y.size) < share
                    other = replace(data, y=np.where(drawn, 1.0, -1.0))
                    _, model, alone = trial(Releases(other, train), test, epsilon, [split, draw])
                    lost.append(model - alone)
            error = np.std(lost, ddof=1) / math.sqrt(len(lost))
            line.append(f"epsilon {epsilon:g}: {np.mean(lost):+.5f} ± {error:.5f}")
        print(f"  {name}, {data.y.size:,} rows: {'   '.join(line)}", flush=True)


def steps_down(name: str, rows: int | None, count: int, each: int) -> None:
    data = table(name, rows)
    if data is None:
        return
    print(f"{name}, {data.y.size:,} rows, {count} splits, {each} runs each: AUC by epsilon")
    tell_steps(draws(data, BUDGETS, count, each)[:, :, 0])


def steps_of_numbers(kind: Kind, count: int) -> None:
    found = np.zeros((len(BUDGETS), count))
    for draw in range(count):
        data, bound = kind.table(np.random.default_rng([1, draw]))
        found[:, draw] = [judged(kind, data, bound, epsilon, [2, draw]) for epsilon in BUDGETS]
    print(f"numbers, {kind.name}, {kind.rows:,} rows, {count} tables: R² by epsilon")
    tell_steps(found)


def steps_of_blocks(problem: str, rows: int, columns: int, parties: int, count: int) -> None:
    """Noise from the same seeds at every budget; the sketch follows the run's id, which is drawn anew."""
    loss, radius = lou_comparison.LOSS, lou_comparison.RADIUS
    found = np.zeros((len(BLOCK_BUDGETS), count))
    for seed in range(count):
        A, y = lou_comparison.TABLES[problem](rows, columns, seed)
        least, zero = loss.value(A @ lou_comparison.best_model(A, y, radius), y), loss.value(np.zeros(y.size), y)
        for place, epsilon in enumerate(BLOCK_BUDGETS):
            terms = Privacy(epsilon, lou_comparison.DELTA, feature_bound=1.0, label_bound=1.0)
            x = lou_comparison.fitted(A, y, parties, PrivateBlockFrankWolfe(), terms, seed)
            found[place, seed] = (zero - loss.value(A @ x, y)) / (zero - least)
    print(f"block Frank-Wolfe, {problem}, {rows:,} rows, {parties} parties, {count} runs: gain over x = 0 by epsilon")
    tell_steps(found, BLOCK_BUDGETS)
    errors = found.std(axis=1, ddof=1) / math.sqrt(count)
    for what, figures in (("standard error", errors), ("worst run", found.min(axis=1))):
        shown = "  ".join(f"{e:g}: {x:.4f}" for e, x in zip(BLOCK_BUDGETS, figures, strict=True))
        print(f"  {what}: {shown}", flush=True)


def blocks(quick: bool) -> None:
    folder, count = data_folder(), 2 if quick else 8
    known = folder is not None and (folder / lou_comparison.ADULT).is_dir()
    if not known:
        print(f"block Frank-Wolfe, {lou_comparison.ADULT}: skipped, set COLONNADE_DATA to the folder that has it")
    for parties in (2, 8) if quick else (2, 4, 8, 16):
        if known:
            steps_of_blocks(lou_comparison.ADULT, 32_561, 123, parties, count)
        steps_of_blocks(lou_comparison.CORRELATED, 5_000 if quick else 50_000, 40, parties, count)


def tell_steps(found: np.ndarray, budgets: tuple[float, ...] = BUDGETS) -> None:
    """Print the means by budget, and the smallest step from one to the next."""
    means, rise = found.mean(axis=1), np.diff(found, axis=0)
    worst = int(np.argmin(rise.mean(axis=1)))
    error = rise[worst].std(ddof=1) / math.sqrt(rise.shape[1])
    print("  " + "  ".join(f"{e:g}: {m:.4f}" for e, m in zip(budgets, means, strict=True)))
    print(
        f"  smallest step up: {rise[worst].mean():+.4f} ± {error:.4f}, from {budgets[worst]:g} to {budgets[worst + 1]:g}",
        flush=True,
    )


def main(quick: bool = True) -> int:
    probabilities(2 if quick else 5, 2 if quick else 8, more=not quick)
    nothing_to_learn(2 if quick else 5, 2 if quick else 60)
    for name in ("nhanes-diabetes", "credit-default"):
        steps_down(name, None, 2 if quick else 5, 2 if quick else 8)
    for kind in BATTERY:
        if not kind.classes and kind.rows == (2_000 if quick else 10_000):
            steps_of_numbers(kind, 4 if quick else 20)
    blocks(quick)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
