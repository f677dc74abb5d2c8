"""What bins cost a scorecard: area under the ROC curve of its points, beside the scores of the fit that it is made of.

Tables are those of benchmarks/battery.py with classes, drawn anew for each run between two parties, epsilon 4, whole runs;
10,000 rows more are judged. Cards have 10, 20 or 40 bins a number, or as many as `bins=` left out takes.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from dataclasses import replace

import numpy as np
import polars as pl

import colonnade as co
from benchmarks.battery import BATTERY, JUDGED, Kind
from benchmarks.gram import DELTA, PROBLEM, auc

BINS = (10, 20, 40, None)


def trial(kind: Kind, seed: int) -> tuple[float, ...]:
    """AUC of a fit's scores, then of the points of cards with BINS."""
    rng = np.random.default_rng([seed, kind.rows])
    columns, score = kind.draw(rng, kind.rows + JUDGED)
    score = (score - score.mean()) / score.std()
    y = (rng.random(score.size) < 1 / (1 + np.exp(-1.5 * score))).astype(int)
    names = list(columns)
    whole = pl.DataFrame({"key": np.arange(y.size), **columns, "y": y})
    shares = {"bank": names[::2], "bureau": names[1::2]}
    schemas = {party: co.Schema(tuple(kind.declared(n, columns[n]) for n in own)) for party, own in shares.items()}
    frames = {party: whole.select("key", *own, *(["y"] if party == "bank" else [])) for party, own in shares.items()}
    train = {party: frame[: kind.rows] for party, frame in frames.items()}
    fed = co.Federation.from_frames(train, "key", ("bank", "y"), schemas=schemas)
    with tempfile.TemporaryDirectory() as store, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = co.fit(fed, PROBLEM, privacy=co.Privacy(4.0, DELTA), store=store)
    held = whole[kind.rows :]
    truth = np.where(held["y"].to_numpy() > 0, 1.0, -1.0)
    rows = {party: held.select("key", *own) for party, own in shares.items()}
    found = [auc(truth, fit.scores(rows))]
    for bins in BINS:
        card = fit.scorecard() if bins is None else fit.scorecard(bins=bins)
        found.append(auc(truth, -np.asarray(card.points(held.drop("key", "y")), np.float64)))
    return tuple(found)


def main(quick: bool = True, most: int = 10_000, kinds: int | None = None) -> int:
    chosen = [replace(kind, rows=min(kind.rows, most)) for kind in BATTERY if kind.classes and kind.rows >= 2_000]
    count = 2 if quick else 10
    print(f"AUC of scores, and what points add to it, epsilon 4, {count} draws: mean ± standard error")
    for kind in chosen[:kinds]:
        found = np.array([trial(kind, seed) for seed in range(count)])
        apart = found[:, 1:] - found[:, :1]
        error = apart.std(axis=0, ddof=1) / math.sqrt(count)
        told = "   ".join(
            f"{'default' if bins is None else f'{bins} bins'}: {m:+.4f} ± {e:.4f}"
            for bins, m, e in zip(BINS, apart.mean(axis=0), error, strict=True)
        )
        print(f"  {kind.rows:>6,} {kind.name:<20} {found[:, 0].mean():.3f}   {told}", flush=True)
    return 0


def smoke() -> None:
    """Two tables, cut short."""
    main(most=2_000, kinds=2)


if __name__ == "__main__":
    raise SystemExit(main())
