"""Claims about curves that a method chooses beside curves that were asked for, and of parties that run elsewhere."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

MIXED = {
    "a": co.Schema(
        (
            co.Numeric("asked", -1, 1, smooth=2, missing="indicator"),
            co.Numeric("open", -1, 1, missing="indicator"),
            co.Categorical("ward", ("x", "y")),
            co.Numeric("line", -1, 1, smooth=False),
        )
    ),
    "b": co.Schema((co.Numeric("few", 0, 4, values=3), co.Numeric("kept", 0, 9, scale=False), co.Numeric("z", 0, 1))),
}


def frames(rows=300):
    rng, key = np.random.default_rng(3), np.arange(300)
    asked, other, line, z = (rng.uniform(-1, 1, rows) for _ in range(4))
    ward, gaps = rng.choice(["x", "y"], rows), rng.random(rows) < 0.1
    columns = {"asked": np.where(gaps, np.nan, asked), "open": np.where(gaps, np.nan, other), "ward": ward}
    mine = {"few": rng.integers(0, 3, rows) * 2.0, "kept": rng.uniform(0, 9, rows), "z": np.abs(z)}
    return {
        "a": pl.DataFrame({"key": key, **columns, "line": line}),
        "b": pl.DataFrame({"key": key, **mine, "y": np.clip(asked + other, -1, 1)}),
    }


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_curves_that_were_asked_for_stand_beside_those_that_a_method_chooses(depth):
    """As if the schemas had said so at first: the same columns, in places of one joint table, each once."""
    bent = co.Federation.from_frames(frames(), "key", ("b", "y"), schemas=MIXED).with_curve_depth(depth)
    said = {name: schema.with_curve_depth(depth) for name, schema in MIXED.items()}
    first = co.Federation.from_frames(frames(), "key", ("b", "y"), schemas=said)
    assert bent.roster().positions == first.roster().positions
    assert bent.roster().known == first.roster().known
    for name, party in bent.parties.items():
        matrices = [p.block.matrix for p in (party, first.parties[name])]
        one, other = (m.toarray() if hasattr(m, "toarray") else m for m in matrices)
        assert (one == other).all()
        assert tuple(party.features) == first.parties[name].schema.features


@pytest.mark.chance(0, "a depth that follows from public figures, and numbers of columns")
def test_a_run_takes_schemas_that_leave_some_curves_open_and_ask_for_others(tmp_path):
    fed = co.Federation.from_frames(frames(), "key", ("b", "y"), schemas=MIXED)
    terms = co.Privacy(200.0, 1e-6, label_range=(-1, 1))
    fit = co.fit(fed, co.Problem(co.LeastSquares(), intercept=True), privacy=terms, store=tmp_path)
    assert fit.depth > 0
    assert {name: len(fit.features[name]) for name in MIXED} == {
        name: schema.with_curve_depth(fit.depth).width for name, schema in MIXED.items()
    }


def test_of_parties_elsewhere_a_curve_is_columns_without_cells():
    """A hat is 1 somewhere: made of cells that nobody has, a million rows would fill the coordinator's memory."""
    members = {name: Member(schema, co.Policy(), new_key()[0]) for name, schema in MIXED.items()}
    away = co.Federation.elsewhere(FederationFile(members, "key", ("b", "y")), rows=1000)
    here = co.Federation.from_frames(frames(), "key", ("b", "y"), schemas=MIXED).with_curve_depth(3)
    for name, party in away.with_curve_depth(3).parties.items():
        assert party.block.matrix.shape == (1000, here.parties[name].block.columns)
        assert party.block.matrix.nnz == 0
    assert away.with_curve_depth(3).roster().positions == here.roster().positions
