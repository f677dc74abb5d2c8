"""Counts with an offset and a weight between organisations: the file names the columns, and the model is that of one
process.

Services live in this process and a hub of straw asks them, as in test_party_service.py.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.errors import InvalidInput
from tests.helpers.organisations import COORDINATOR_KEY, Organisations
from tests.helpers.stub_hub import (
    Straw,
    tmp_path,  # noqa: F401  a short path of its own
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = {"insurer": range(60), "garage": range(10, 70)}
SCHEMAS = {name: co.Schema((co.Numeric(name, -2.0, 2.0),)) for name in ROWS}
LABEL, OFFSET, WEIGHT = ("insurer", "claims"), ("insurer", "log_years"), ("insurer", "policies")
PENALISED = co.Problem(co.Poisson(), penalty=co.Ridge(0.01), intercept=True)
BALL = co.Problem(co.Poisson(), co.L1Ball(5.0), intercept=True)


def organisations(folder) -> Organisations:
    made = Organisations(folder, None, {}, {}, {})  # type: ignore[arg-type]
    members = {}
    for seed, (name, rows) in enumerate(ROWS.items()):
        rng = np.random.default_rng(seed)
        public, made.keys[name] = new_key()
        members[name] = Member(SCHEMAS[name], co.Policy(exact=True, least=3), public)
        table = pl.DataFrame({"policy": list(rows), name: rng.uniform(-2, 2, len(rows))})
        if name == "insurer":
            years = rng.uniform(0.2, 2.0, len(rows))
            claims = rng.poisson(years * np.exp(0.5 * table[name].to_numpy()))
            policies = rng.integers(1, 4, len(rows))
            beside = {"claims": claims, "log_years": np.log(years), "policies": policies}
            table = table.with_columns(**{what: pl.Series(values) for what, values in beside.items()})
        made.tables[name] = table[rng.permutation(len(rows))]
    made.file = FederationFile(members, "policy", LABEL, coordinator=COORDINATOR_KEY, offset=OFFSET, weight=WEIGHT)
    return made


def fitted(straw, made: Organisations, problem: co.Problem, method: object) -> co.Fit:
    with mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"):
        return co.fit(made.federation, problem, method, engine=straw, store=made.folder / "hub")


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (PENALISED, co.SharingADMM(tolerance=1e-13)),
        (PENALISED, co.GraphADMM(tolerance=1e-10)),
        (BALL, co.DistributedFrankWolfe(tolerance=1e-13)),
    ],
    ids=["sharing", "graph", "frank-wolfe"],
)
def test_the_model_is_that_of_one_process(tmp_path, problem, method):  # noqa: F811
    made = organisations(tmp_path)
    here = co.Federation.from_frames(made.tables, "policy", LABEL, schemas=SCHEMAS, offset=OFFSET, weight=WEIGHT)
    expected = co.fit(here, problem, method)
    with Straw(made) as straw:
        fitted(straw, made, problem, method)
    for name in made.names:
        own = np.asarray(made.part(name)["coefficients"])
        assert own == pytest.approx(expected.coefficients[name], abs=1e-5)  # rows are in another order


def test_a_private_job_on_rows_with_an_offset_is_refused_before_anybody_is_asked(tmp_path):  # noqa: F811
    made, terms = organisations(tmp_path), co.Privacy(1.0, 1e-6, trust="nobody", label_range=(0.0, 5.0))
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    with Straw(made) as straw, pytest.raises(InvalidInput, match="takes no offset and no weight"):
        co.fit(made.federation, problem, co.PrivateGram(cross="none"), terms, engine=straw, store=tmp_path / "hub")
