"""One process and several organisations take the same rows in the same order, under one and the same secret.

Services live in this process and a hub of straw asks them, as in test_party_service.py.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.cli.party import _show
from colonnade.data.alignment import Agreement
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.errors import InvalidInput
from colonnade.network.party_data import PartyData
from colonnade.privacy.accountant import Budget
from colonnade.privacy.block import Unit
from colonnade.privacy.conditions import KEYED_HASH, PLACE_BY_HASH
from colonnade.runtime.run_store import RunStore
from tests.helpers.organisations import COORDINATOR_KEY, Organisations
from tests.helpers.stub_hub import (
    Straw,
    tmp_path,  # noqa: F401  a short path of its own
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = {"bank": range(30), "lab": range(4, 36), "clinic": range(2, 33)}
SCHEMAS = {name: co.Schema((co.Numeric(name, -3.0, 3.0),)) for name in ROWS}
PROBLEM = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
PRIVACY = co.Privacy(4.0, 1e-6, trust="nobody", label_bound=1.0)
SORTS = {
    "text": lambda row: f"{row * 37 % 101:03}",
    "whole number": lambda row: row * 37 % 101 - 50,
    "date": lambda row: datetime.date(2020, 1, 1) + datetime.timedelta(days=row * 37 % 101),
}


def organisations(folder: Path, sort: str = "text", unit: Unit | None = None) -> Organisations:
    made = Organisations(folder, None, {}, {}, {})  # type: ignore[arg-type]
    members = {}
    for seed, (name, given) in enumerate(ROWS.items()):
        rows = given if unit is None else range(30)  # where people have surplus rows, all are at every party
        public, made.keys[name] = new_key()
        members[name] = Member(SCHEMAS[name], co.Policy(exact=True, least=3), public)
        rng = np.random.default_rng(seed)
        cells, labels = rng.uniform(-3, 3, len(rows)), np.random.default_rng(9).uniform(-1, 1, len(rows))
        order = rng.permutation(len(rows))  # every party has sorted its table in its own way
        frame = pl.DataFrame({"key": [SORTS[sort](row) for row in rows], name: cells, "y": labels})
        made.tables[name] = frame.with_columns(who=pl.Series([row % 7 for row in rows]))[order]
    who = {} if unit is None else {"unit": unit, "people": "clinic"}
    made.file = FederationFile(members, "key", ("bank", "y"), **who, coordinator=COORDINATOR_KEY)
    return made


def frames_of(made: Organisations, *, people: bool = False) -> dict[str, pl.DataFrame]:
    """The tables with the columns that one process takes: labels at the bank, whom rows are about at the clinic."""
    spare = {name: ["y"] * (name != "bank") + ["who"] * (name != "clinic" or not people) for name in made.names}
    return {name: table.drop(spare[name]) for name, table in made.tables.items()}


def agreements(made: Organisations) -> dict[str, Agreement]:
    texts = {name: (made.folder / name / "alignment.json").read_text() for name in made.names}
    return {name: Agreement.from_json(text) for name, text in texts.items()}


def both_ways(made: Organisations, method: object, privacy: co.Privacy) -> tuple[co.Fit, co.Fit]:
    """The model between organisations, and in one process with their pepper as the secret of the store; noise that repeats."""
    terms = {"method": method, "privacy": privacy, "noise": co.SeededNoise(1)}
    with Straw(made) as straw, mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"):
        apart = co.fit(made.federation, PROBLEM, engine=straw, store=made.folder / "hub", **terms)
    return apart, in_one(made, agreements(made)["bank"].pepper, **terms)


def in_one(made: Organisations, secret: bytes, **terms: object) -> co.Fit:
    fed = co.Federation.from_frames(frames_of(made), "key", ("bank", "y"), schemas=SCHEMAS)
    with (
        mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"),
        mock.patch.object(RunStore, "order_secret", return_value=secret),
    ):
        return co.fit(fed, PROBLEM, store=made.folder / secret.hex(), **terms)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(
    "method", [co.PrivateGram(cross="none"), co.PrivateSharingADMM(rounds=3)], ids=["gram", "admm"]
)
def test_a_private_model_is_the_same_to_the_bit_in_one_process_and_between_organisations(tmp_path, sort, method):  # noqa: F811
    """With the parties' pepper as the secret of the store, and noise that repeats."""
    made, privacy = organisations(tmp_path, sort), PRIVACY
    if isinstance(method, co.PrivateSharingADMM):
        privacy = co.Privacy(4.0, 1e-6, trust="nobody", label_bound=1.0, row_norm=1.0)
    apart, here = both_ways(made, method, privacy)
    agreed = agreements(made)
    fed = co.Federation.from_frames(frames_of(made), "key", ("bank", "y"), schemas=SCHEMAS)
    ordered = fed.ordered(agreed["bank"].pepper).keys.to_list()
    for name in made.names:
        assert ordered == PartyData(made.file, name, made.tables[name]).keys_in_order(agreed[name]).to_list()
        np.testing.assert_array_equal(apart.coefficients[name], here.coefficients[name])
    assert apart.intercept == here.intercept


WHOLE = {
    "raw": (co.PrivateGram(cross="secure"), "secure"),
    "inference": (co.PrivateGram(purpose="inference"), "secure"),
    "encrypted": (co.PrivateGram(), "parties"),
}


@pytest.mark.parametrize("way", WHOLE)
def test_a_model_of_masked_or_encrypted_rows_is_the_same_to_the_bit_in_both(tmp_path, way):  # noqa: F811
    """Under one run id, from which the public matrix of an encryption follows; masks are drawn anew and must cancel."""
    made, (method, trust) = organisations(tmp_path), WHOLE[way]
    privacy = co.Privacy(4.0, 1e-6, trust=trust, label_bound=1.0)
    apart, here = both_ways(made, method, privacy)
    other = in_one(made, bytes(32), method=method, privacy=privacy, noise=co.SeededNoise(1))
    for name in made.names:
        np.testing.assert_array_equal(apart.coefficients[name], here.coefficients[name])
        # Sums over all rows know no order; errors of an encryption meet other rows under another secret.
        assert np.array_equal(here.coefficients[name], other.coefficients[name]) == (way in ("raw", "inference"))
    assert apart.intercept == here.intercept
    # The coordinator holds the release of a run between organisations, with the names that their schemas declare.
    np.testing.assert_array_equal(apart.release.matrix, here.release.matrix)
    np.testing.assert_array_equal(apart.release.noise, here.release.noise)
    assert apart.release.names == here.release.names
    own = [name for name in apart.release.names if "~" not in name]  # without the hats of curves
    assert own == ["bank:bank", "lab:lab", "clinic:clinic", "bank:y"]
    assert (apart.release.refusal is None) == (way == "inference")


@pytest.mark.slow
def test_a_graph_of_organisations_solves_what_one_process_does_and_each_keeps_its_coefficients(tmp_path):  # noqa: F811
    made, privacy = organisations(tmp_path), co.Privacy(4.0, 1e-6, trust="parties", label_bound=1.0)
    apart, here = both_ways(made, co.PrivateGram(topology=co.Topology.line(3)), privacy)
    assert apart.intercept == here.intercept
    for name in made.names:
        with pytest.raises(co.HeldByParty):
            apart.coefficients[name]
        assert here.coefficients[name].size


def test_people_keep_the_same_rows_in_one_process_and_between_organisations(tmp_path):  # noqa: F811
    """Where all rows of people with many are common; else the cut comes before the match here, and after it there."""
    made = organisations(tmp_path, unit=Unit("who", 3))
    with Straw(made) as straw:
        co.fit(made.federation, PROBLEM, co.SharingADMM(rounds=2), engine=straw)
    agreed = agreements(made)
    frames = frames_of(made, people=True)
    fed = co.Federation.from_frames(frames, "key", ("bank", "y"), schemas=SCHEMAS, unit=("who", 3))
    ordered = fed.ordered(agreed["bank"].pepper)
    assert ordered.rows == 21
    for name in made.names:
        assert (
            ordered.keys.to_list()
            == PartyData(made.file, name, made.tables[name]).keys_in_order(agreed[name]).to_list()
        )


@pytest.mark.chance(0, "texts of a request: nothing that was drawn is compared")
def test_the_operator_is_told_what_makes_two_rows_the_same_row(tmp_path, capsys):  # noqa: F811
    made, asked = organisations(tmp_path), []
    with Straw(made) as straw:
        for service in straw.services.values():
            service.approve = lambda request: asked.append(request) or True
        co.fit(made.federation, PROBLEM, co.PrivateGram(cross="none"), PRIVACY, engine=straw, store=tmp_path / "hub")
    assert all({KEYED_HASH, PLACE_BY_HASH} <= set(request.conditions) for request in asked)
    _show(asked[0], Budget(None, None, 1, 0.0, 0.0))
    assert PLACE_BY_HASH.full in " ".join(capsys.readouterr().err.split())


def test_public_labels_of_rows_whose_order_the_parties_keep_are_refused(tmp_path):  # noqa: F811
    made = organisations(tmp_path)
    ball = co.Problem(co.LeastSquares(), constraint=co.L1Ball(1.0))
    method = co.PrivateBlockFrankWolfe(rounds=1, labels=co.PublicLabels(np.ones(26)))
    with Straw(made) as straw, pytest.raises(InvalidInput, match="public labels go by a row's place"):
        co.fit(made.federation, ball, method, PRIVACY, engine=straw, store=tmp_path / "hub")
