"""A scorecard of real customers: credit-default between four organisations, epsilon 4."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tomllib
from functools import reduce
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import colonnade as co
from colonnade.privacy.mechanisms import SeededNoise

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("COLONNADE_DATA", ROOT.parent / "shared" / "data")) / "credit-default"


@pytest.fixture(scope="module")
def customers() -> tuple[dict[str, pl.DataFrame], dict[str, co.Schema], np.ndarray]:
    """Each organisation's columns, what is public of them, and who defaulted."""
    if not DATA.is_dir():
        pytest.skip(f"no data set in {DATA} (set COLONNADE_DATA to the folder that holds credit-default)")
    X, bad = sparse.load_npz(DATA / "X.npz").toarray().astype(float), np.load(DATA / "y.npy") > 0
    names = (DATA / "features.txt").read_text().split("\n")
    told = tomllib.loads((ROOT / "papers" / "schemas" / "credit-default.toml").read_text())["party"]
    frames, schemas = {}, {}
    for party, public in told.items():
        own, bounds = range(*public["columns"]), public["numeric"]
        declared = (co.Numeric(names[j], *bounds[names[j]]) if names[j] in bounds else co.Binary(names[j]) for j in own)
        schemas[party] = co.Schema(tuple(declared))
        frames[party] = pl.DataFrame({"key": np.arange(bad.size), **{names[j]: X[:, j] for j in own}})
    return frames, schemas, bad


@pytest.mark.slow
def test_a_card_of_real_customers_scores_by_its_file_as_the_fit_does_and_knows_what_columns_say(customers, tmp_path):
    """Noise is seeded. Of zeros and ones the IV is that of released counts: within .05 of counting. Shares and odds of a
    number's bins are modelled: the strongest column has an IV within a third of counting and its lines' order, those
    that say much (IV over .2), which go with each other, are within a factor of two half of the time."""
    frames, schemas, bad = customers
    labelled = {**frames, "bank": frames["bank"].with_columns(default=pl.Series(bad.astype(int)))}
    fed = co.Federation.from_frames(labelled, on="key", label=("bank", "default"), schemas=schemas)
    problem, asked = co.Problem(co.Logistic(), intercept=True), co.Privacy(4.0, 1e-6)
    fit = co.fit(fed, problem, privacy=asked, store=tmp_path / "store", noise=SeededNoise(1))
    assert fit.depth > 0
    card = fit.scorecard()
    rows = reduce(lambda one, other: one.join(other, on="key"), frames.values()).sort("key").drop("key")

    card.to_python(tmp_path / "scorer.py")
    rows.write_csv(tmp_path / "rows.csv")
    command = [sys.executable, "-I", "-S", str(tmp_path / "scorer.py"), str(tmp_path / "rows.csv")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    points = np.array([int(row["points"]) for row in csv.DictReader(done.stdout.splitlines())])
    assert points.tolist() == card.points(rows).tolist()
    assert np.abs(points - card.points_of_scores(fit.scores(frames))).max() <= card.rounding

    places, ratios = card.places(rows), {}
    for k, column in enumerate(card.columns):
        good, worse = (np.bincount(places[who, k], minlength=len(column.lines)) for who in (~bad, bad))
        shares = [(count + 0.5) / (count.sum() + 0.5 * count.size) for count in (good, worse)]
        woe = np.log(shares[0] / shares[1])
        counted = float((shares[0] - shares[1]) @ woe)
        if column.basis != "modelled":
            assert column.iv == pytest.approx(counted, abs=0.05)
        elif counted > 0.2:
            ratios[column.title] = (column.iv or 0.0) / counted
        if column.title == "PAY_0":
            clear = [i for i, line in enumerate(column.lines) if line.woe is not None]
            said, often = [column.lines[i].woe for i in clear], (good + worse)[clear]
            together = np.cov(said, woe[clear], aweights=often)
            assert together[0, 1] > 0.9 * np.sqrt(together[0, 0] * together[1, 1])
    assert len(ratios) >= 5
    assert 0.67 < ratios["PAY_0"] < 1.5
    assert 0.5 < np.median(list(ratios.values())) < 2.0
