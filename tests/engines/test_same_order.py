"""One process and several organisations take the same rows in the same order, under one and the same secret.

Offices live in this process and a hub of straw asks them, as in test_office.py.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
from test_office import Straw, tmp_path  # noqa: F401  a short path of its own

import colonnade as co
from colonnade.alignment import Agreement
from colonnade.between.holding import Holding
from colonnade.charter import Charter, Member, new_key
from colonnade.runbook import FolderStore
from organisations import Organisations

ROWS = {"bank": range(30), "lab": range(4, 36), "clinic": range(2, 33)}
SCHEMAS = {name: co.Schema((co.Numeric(name, -3.0, 3.0),)) for name in ROWS}
PROBLEM = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
PRIVACY = co.Privacy(4.0, 1e-6, trust="nobody", label_bound=1.0)
SORTS = {
    "text": lambda row: f"{row * 37 % 101:03}",
    "whole number": lambda row: row * 37 % 101 - 50,
    "date": lambda row: datetime.date(2020, 1, 1) + datetime.timedelta(days=row * 37 % 101),
}


def organisations(folder: Path, sort: str) -> Organisations:
    made = Organisations(folder, None, {}, {}, {})  # type: ignore[arg-type]
    members = {}
    for seed, (name, rows) in enumerate(ROWS.items()):
        public, made.keys[name] = new_key()
        members[name] = Member(SCHEMAS[name], co.Policy(exact=True, least=3), public)
        rng = np.random.default_rng(seed)
        cells, labels = rng.uniform(-3, 3, len(rows)), np.random.default_rng(9).uniform(-1, 1, len(rows))
        order = rng.permutation(len(rows))  # every party has sorted its table in its own way
        frame = pl.DataFrame({"key": [SORTS[sort](row) for row in rows], name: cells, "y": labels})
        made.tables[name] = frame[order]
    made.charter = Charter(members, "key", ("bank", "y"))
    return made


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(
    "method", [co.PrivateGram(cross="none"), co.PrivateSharingADMM(rounds=3)], ids=["gram", "admm"]
)
def test_a_private_model_is_the_same_to_the_bit_in_one_process_and_between_organisations(tmp_path, sort, method):  # noqa: F811
    """With the parties' pepper as the secret of the store, and noise that repeats."""
    made, privacy = organisations(tmp_path, sort), PRIVACY
    if isinstance(method, co.PrivateSharingADMM):
        privacy = co.Privacy(4.0, 1e-6, trust="nobody", label_bound=1.0, row_norm=1.0)
    with Straw(made) as straw, mock.patch("colonnade.runbook.new_run_id", return_value="run"):
        options = {"method": method, "privacy": privacy, "noise": co.SeededNoise(1)}
        apart = co.fit(made.federation, PROBLEM, engine=straw, store=tmp_path / "hub", **options)
        texts = {name: (tmp_path / name / "alignment.json").read_text() for name in made.names}
        agreed = {name: Agreement.from_json(text) for name, text in texts.items()}
        pepper = agreed["bank"].pepper
        frames = {name: table.drop([] if name == "bank" else ["y"]) for name, table in made.tables.items()}
        fed = co.Federation.from_frames(frames, "key", ("bank", "y"), schemas=SCHEMAS)
        with mock.patch.object(FolderStore, "order_secret", return_value=pepper):
            here = co.fit(fed, PROBLEM, store=tmp_path / "here", **options)
        ordered = fed.ordered(pepper).keys.to_list()
    for name in made.names:
        assert ordered == Holding(made.charter, name, made.tables[name]).keys_in_order(agreed[name]).to_list()
        np.testing.assert_array_equal(apart.coefficients[name], here.coefficients[name])
    assert apart.intercept == here.intercept
