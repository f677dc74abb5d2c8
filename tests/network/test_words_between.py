"""Labels that are words between organisations: the federation file names the class, and the model is that of one process.

Services live in this process and a hub of straw asks them, as in test_party_service.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.errors import ColonnadeError, InvalidInput
from colonnade.methods.node_setup import usable_labels
from colonnade.network.party_data import PartyData
from tests.helpers.organisations import COORDINATOR_KEY, Organisations
from tests.helpers.stub_hub import (
    Straw,
    tmp_path,  # noqa: F401  a short path of its own
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = {"bank": range(300), "bureau": range(20, 320)}
SCHEMAS = {name: co.Schema((co.Numeric(name, -2.0, 2.0),)) for name in ROWS}
LABEL = ("bank", "subscribed")
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(0.01), intercept=True)
NAMES = [("no", "yes"), (False, True), ("0", "1")]


def organisations(folder: Path, names=("no", "yes"), strange: int = 0, **classes) -> Organisations:
    """Two parties; so many labels are of a third class."""
    made = Organisations(folder, None, {}, {}, {})  # type: ignore[arg-type]
    members = {}
    for seed, (name, rows) in enumerate(ROWS.items()):
        rng = np.random.default_rng(seed)
        public, made.keys[name] = new_key()
        members[name] = Member(SCHEMAS[name], co.Policy(exact=True, least=3), public)
        table = pl.DataFrame({"client": list(rows), name: rng.uniform(-2, 2, len(rows))})
        if name == "bank":
            up = table[name].to_numpy() + rng.normal(size=len(rows)) > 0
            labels = ["maybe" if k < strange else names[int(one)] for k, one in enumerate(up)]
            table = table.with_columns(pl.Series("subscribed", labels))
        made.tables[name] = table[rng.permutation(len(rows))]
    made.file = FederationFile(members, "client", LABEL, coordinator=COORDINATOR_KEY, **classes)
    return made


def fitted(straw, made: Organisations, *terms) -> co.Fit:
    with mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"):
        return co.fit(made.federation, RIDGE, *terms, engine=straw, store=made.folder / "hub")


@pytest.mark.parametrize("names", NAMES, ids=str)
def test_the_model_of_words_is_that_of_one_process(tmp_path, names):  # noqa: F811
    made = organisations(tmp_path, names, negative=names[0], positive=names[1])
    method = co.SharingADMM(tolerance=1e-13)
    here = co.Federation.from_frames(made.tables, "client", LABEL, schemas=SCHEMAS, classes=names)
    expected = co.fit(here, RIDGE, method)
    with Straw(made) as straw:
        fit = fitted(straw, made, method)
    assert fit.classes == expected.classes == names
    for name in made.names:
        own = np.asarray(made.part(name)["coefficients"])
        assert own == pytest.approx(expected.coefficients[name], abs=1e-5)  # rows are in another order


@pytest.mark.chance(0, "names of classes: any score is called by one of the two")
def test_a_private_fit_between_organisations_knows_the_names(tmp_path):  # noqa: F811
    made = organisations(tmp_path, negative="no", positive="yes", strange=2)  # a third class raises no error
    with Straw(made) as straw:
        fit = fitted(straw, made, co.PrivateGram(), co.Privacy(20.0, 1e-6))
    assert fit.classes == ("no", "yes")
    frames = {name: table.drop("subscribed", strict=False) for name, table in made.tables.items()}
    common = {name: table.filter(pl.col("client").is_between(20, 299)) for name, table in frames.items()}
    assert set(fit.predict(common).tolist()) <= {"no", "yes"}


def test_without_privacy_a_third_class_is_refused_by_its_holder(tmp_path):  # noqa: F811
    made = organisations(tmp_path, negative="no", positive="yes", strange=40)
    with Straw(made) as straw, pytest.raises(ColonnadeError):
        fitted(straw, made, co.SharingADMM())
    holder = PartyData(made.file, "bank", made.tables["bank"])
    with pytest.raises(InvalidInput, match="40 of 300 labels of 'bank' are neither positive nor negative"):
        holder._labels_in(made.tables["bank"]["subscribed"], None)


def test_without_a_name_of_the_other_class_it_is_every_other(tmp_path):  # noqa: F811
    made = organisations(tmp_path, positive="yes", strange=40)
    with Straw(made) as straw:
        assert fitted(straw, made, co.SharingADMM()).classes == ("not yes", "yes")


def test_the_file_keeps_the_names_and_its_digest_covers_them(tmp_path):  # noqa: F811
    made = organisations(tmp_path, negative="no", positive="yes")
    made.file.save(tmp_path / "federation.toml")
    text = (tmp_path / "federation.toml").read_text()
    assert 'positive = "yes"' in text
    assert 'negative = "no"' in text
    again = FederationFile.load(tmp_path / "federation.toml")
    assert again.classes == ("no", "yes")
    assert again.digest == made.file.digest
    plain = replace(made.file, positive=None, negative=None)
    other = replace(made.file, negative=None)
    assert len({made.file.digest, plain.digest, other.digest}) == 3
    opened = co.Federation.open(tmp_path / "federation.toml", made.tables)
    assert opened.classes == ("no", "yes")
    assert opened.to_file().classes == ("no", "yes")
    rest = co.Federation.from_frames(made.tables, "client", LABEL, schemas=SCHEMAS).with_classes("yes")
    assert (rest.to_file().positive, rest.to_file().negative) == ("yes", None)


@pytest.mark.parametrize(
    ("classes", "advice"),
    [
        ({"negative": "no"}, "say positive"),
        ({"negative": "yes", "positive": "yes"}, "two different names"),
        ({"positive": ["yes"]}, "two different names"),
    ],
)
def test_a_file_that_names_no_two_classes_is_refused(tmp_path, classes, advice):  # noqa: F811
    with pytest.raises(InvalidInput, match=advice):
        organisations(tmp_path, **classes)


def test_texts_without_a_named_class_are_refused_with_the_remedy(tmp_path):  # noqa: F811
    labels = organisations(tmp_path).tables["bank"]["subscribed"].to_numpy()
    with pytest.raises(InvalidInput, match='positive = "yes"'):
        usable_labels(labels, mock.Mock(privacy=co.Privacy(20.0, 1e-6)))
