"""Claims about what stands beside labels: an offset and a weight are columns of whoever holds the labels."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation_file import FederationFile
from colonnade.data.labels import beside_arrays, check_classes, check_pairs, other_class
from colonnade.errors import InvalidInput
from colonnade.model.job import Job
from colonnade.network.party_data import PartyData
from colonnade.runs.config import load_config
from colonnade.runs.preview import preview
from colonnade.runs.simulate import _rows

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 200


def frames(seed: int = 0) -> dict[str, pl.DataFrame]:
    """An insurer with claims, exposure and the age of drivers; a garage with the power of their cars, in another order."""
    rng = np.random.default_rng(seed)
    age, power, years = rng.uniform(18, 80, ROWS), rng.uniform(40, 200, ROWS), rng.uniform(0.2, 2.0, ROWS)
    claims = rng.poisson(years * np.exp(0.01 * power - 0.02 * age))
    policies = rng.integers(1, 4, ROWS)
    insurer = pl.DataFrame(
        {
            "policy": np.arange(ROWS),
            "age": age,
            "claims": claims,
            "log_years": np.log(years),
            "policies": policies,
        }
    )
    return {"insurer": insurer, "garage": pl.DataFrame({"policy": np.arange(ROWS), "power": power}).reverse()}


SCHEMAS = {
    "insurer": co.Schema((co.Numeric("age", 18, 80),)),
    "garage": co.Schema((co.Numeric("power", 40, 200),)),
}
LABEL, OFFSET, WEIGHT = ("insurer", "claims"), ("insurer", "log_years"), ("insurer", "policies")
PROBLEM = co.Problem(co.Poisson(), penalty=co.Ridge(0.01), intercept=True)
FINE = co.SharingADMM(tolerance=1e-12)


def federation(**beside: tuple[str, str]) -> co.Federation:
    return co.Federation.from_frames(frames(), "policy", LABEL, schemas=SCHEMAS, **beside)


def test_they_are_read_in_the_order_of_the_rows_and_are_no_features():
    fed = federation(offset=OFFSET, weight=WEIGHT)
    own = frames()["insurer"].sort("policy")
    assert fed.beside.values["offset"].tolist() == own["log_years"].to_list()
    assert fed.beside.values["weight"].tolist() == own["policies"].to_list()
    assert fed.roster().beside == ("offset", "weight")
    assert list(fed.parties["insurer"].features) == ["age"]
    inferred = co.Federation.from_frames(frames(), "policy", LABEL, offset=OFFSET, weight=WEIGHT)
    assert list(inferred.parties["insurer"].features) == ["age"]


def test_frames_and_arrays_of_the_same_rows_give_the_same_model():
    fed = federation(offset=OFFSET, weight=WEIGHT)
    X = np.column_stack([fed.parties[party].block.matrix for party in ("insurer", "garage")])
    arrays = {name: np.asarray(values, np.float64) for name, values in fed.beside.values.items()}
    held = {"insurer": [0], "garage": [1]}
    other = co.Federation.split(X, fed.labels, held, label="insurer", **arrays)
    one, two = (co.fit(f, PROBLEM) for f in (fed, other))
    assert one.intercept == two.intercept
    assert {p: x.tolist() for p, x in one.coefficients.items()} == {p: x.tolist() for p, x in two.coefficients.items()}


@pytest.mark.parametrize(
    ("beside", "advice"),
    [
        (
            {"offset": ("garage", "power")},
            "column of 'garage', and 'insurer' holds the labels.*Give 'insurer' the column",
        ),
        ({"weight": ("garage", "power")}, "weight is a column of 'garage'.*leave weight out"),
        ({"offset": ("insurer", "claims")}, "both name the column 'claims'"),
        ({"offset": ("insurer", "nothing")}, "no column 'nothing' to use as offset"),
        ({"weight": "policies"}, r"give the pair \(party, column\)"),
        ({"offset": OFFSET, "unit": ("policy", 2)}, "these take no offset"),
    ],
    ids=str,
)
def test_what_cannot_stand_beside_labels_is_refused_with_advice(beside, advice):
    with pytest.raises(InvalidInput, match=advice):
        federation(**beside)


def test_a_schema_that_names_the_offset_as_a_feature_is_refused():
    schemas = {**SCHEMAS, "insurer": co.Schema((co.Numeric("log_years", -2, 1),))}
    with pytest.raises(InvalidInput, match=r"its offset or weight.*no feature"):
        co.Federation.from_frames(frames(), "policy", LABEL, schemas=schemas, offset=OFFSET)


def test_missing_and_impossible_values_are_counted():
    table = frames()
    years = table["insurer"]["log_years"].to_list()
    table["insurer"] = table["insurer"].with_columns(pl.Series("log_years", [None, None, *years[2:]]))
    with pytest.raises(InvalidInput, match="the offset 'log_years' is missing in 2 rows"):
        co.Federation.from_frames(table, "policy", LABEL, offset=OFFSET)
    table["insurer"] = table["insurer"].with_columns(pl.Series("log_years", [float("-inf"), *years[1:]]))
    fed = co.Federation.from_frames(table, "policy", LABEL, offset=OFFSET)
    with pytest.raises(InvalidInput, match="1 of 200 offsets are NaN or infinite"):
        co.fit(fed, PROBLEM)
    X, y = np.ones((4, 2)), np.ones(4)
    with pytest.raises(InvalidInput, match="2 of 4 weights"):
        co.fit(co.Federation.split(X, y, weight=[1.0, 0.0, -1.0, 2.0]), PROBLEM)
    with pytest.raises(InvalidInput, match="give one number a row"):
        co.Federation.split(X, y, offset=np.zeros(3))
    with pytest.raises(InvalidInput, match="by='rows'"):
        co.Federation.split(X, y, offset=np.zeros(4), by="rows")
    with pytest.raises(InvalidInput, match="these take no weight"):
        co.Federation.split(X, y, weight=np.ones(4), unit=(np.arange(4), 2))


# ------------------------------------------------------------------------------------------------ predictions


def test_rates_are_those_of_score_plus_offset_however_rows_are_given():
    table, fed = frames(), federation(offset=OFFSET)
    fit = co.fit(fed, PROBLEM)
    expected = np.exp(fit.scores(fed) + fed.beside.values["offset"])
    assert fit.predict(fed).tolist() == expected.tolist()
    assert fit.predict(table) == pytest.approx(expected, rel=1e-14)  # the insurer's frame is in the order of the key
    turned = {"garage": table["garage"], "insurer": table["insurer"]}
    assert fit.predict(turned) == pytest.approx(expected[::-1], rel=1e-14)
    side = table["insurer"].join(table["garage"], on="policy", maintain_order="left")
    assert fit.predict(side) == pytest.approx(expected, rel=1e-14)
    assert float(fit.predict(fed).sum()) == pytest.approx(float(fed.labels.sum()), rel=1e-4)  # at the best intercept


def test_rows_without_an_offset_are_predicted_at_zero_and_a_warning_says_so():
    table, fed = frames(), federation(offset=OFFSET)
    fit = co.fit(fed, PROBLEM)
    bare = {**table, "insurer": table["insurer"].drop("log_years")}
    with pytest.warns(UserWarning, match="column 'log_years' of 'insurer'.*taken as 0 in every row"):
        rates = fit.predict(bare)
    assert rates.tolist() == np.exp(fit.scores(bare)).tolist()
    with pytest.warns(UserWarning, match="one unit of exposure"):
        fit.predict(co.Federation.from_frames(table, "policy", schemas=SCHEMAS))


def test_an_offset_that_only_some_rows_have_is_refused():
    table, fit = frames(), co.fit(federation(offset=OFFSET), PROBLEM)
    years = [None, *table["insurer"]["log_years"].to_list()[1:]]
    table["insurer"] = table["insurer"].with_columns(pl.Series("log_years", years))
    with pytest.raises(InvalidInput, match="1 of 200 rows have no offset"):
        fit.predict(table)


def test_a_saved_fit_still_knows_its_offset_and_says_so(tmp_path):
    fed = federation(offset=OFFSET, weight=WEIGHT)
    fit = co.fit(fed, PROBLEM)
    fit.save(tmp_path / "fit.json")
    again = co.load(tmp_path / "fit.json")
    assert again.beside == {"offset": "log_years", "weight": "policies"}
    assert again.predict(fed).tolist() == fit.predict(fed).tolist()
    assert any("offset (log_years)" in remark and "weight (policies)" in remark for remark in again.remarks)
    page = again.report(tmp_path / "report.html", evaluation=(fed, fed.labels), evaluation_is="public")
    assert "how many events to expect" in page.read_text()


# ------------------------------------------------------------------------------------------------ between organisations


def test_the_federation_file_carries_which_columns_they_are(tmp_path):
    fed = federation(offset=OFFSET, weight=WEIGHT)
    fed.to_file().save(tmp_path / "federation.toml")
    text = (tmp_path / "federation.toml").read_text()
    assert 'offset = ["insurer", "log_years"]' in text
    assert 'weight = ["insurer", "policies"]' in text
    file = FederationFile.load(tmp_path / "federation.toml")
    assert co.Federation.elsewhere(file, ROWS).roster().beside == ("offset", "weight")
    here = co.Federation.open(tmp_path / "federation.toml", frames())
    assert co.fit(here, PROBLEM).intercept == co.fit(fed, PROBLEM).intercept
    plain = federation().to_file()
    assert file.digest != FederationFile(file.members, plain.on, plain.label).digest


def test_a_partys_own_file_gives_it_the_labels_with_what_stands_beside_them(tmp_path):
    federation(offset=OFFSET).to_file().save(tmp_path / "federation.toml")
    file = FederationFile.load(tmp_path / "federation.toml")
    job = Job(PROBLEM, co.Federation.elsewhere(file, ROWS).roster())
    own = frames()["insurer"]
    data = PartyData(file, "insurer", own)
    labels = data._block(job, None, True).own_labels()
    assert labels[:, 0].tolist() == own["claims"].to_list()
    assert labels[:, 1].tolist() == own["log_years"].to_list()
    with pytest.raises(InvalidInput, match="no column 'log_years', which the federation file names"):
        PartyData(file, "insurer", own.drop("log_years"))
    holes = own.with_columns(pl.Series("log_years", [None, *own["log_years"].to_list()[1:]]))
    with pytest.raises(InvalidInput, match="the offset 'log_years' is missing in 1 rows"):
        PartyData(file, "insurer", holes)
    PartyData(file, "insurer", own.select("policy", "age"), models=tmp_path)  # new rows to score need neither


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ('offset = "log_years"', r"offset must be \[party, column\]"),
        ('offset = ["garage", "power"]', "column of 'garage', and 'insurer' holds the labels"),
        ('weight = ["insurer", "claims"]', "both name the column 'claims'"),
    ],
)
def test_a_federation_file_that_names_them_wrongly_is_refused(tmp_path, line, advice):
    path = tmp_path / "federation.toml"
    federation().to_file().save(path)
    path.write_text(path.read_text().replace("version = 1", f"version = 1\n{line}"))
    with pytest.raises(InvalidInput, match=advice):
        FederationFile.load(path)


# ------------------------------------------------------------------------------------------------ other ways in


def test_a_dry_run_of_counts_with_offsets_says_what_would_leave():
    fed = federation(offset=OFFSET, weight=WEIGHT)
    told = preview(fed, PROBLEM, co.SharingADMM(rounds=20), None)
    assert "the labels and the offsets and the weights" in str(told.plain())


@pytest.mark.parametrize("shared", [False, True], ids=["a table each", "one table"])
def test_a_configuration_file_names_them_as_it_names_the_label(tmp_path, shared):
    table = frames()
    both = table["insurer"].join(table["garage"], on="policy", maintain_order="left")
    for name, frame in {**table, "all": both}.items():
        frame.write_csv(tmp_path / f"{name}.csv")
    held = {"insurer": '["age"]', "garage": '["power"]'}
    parties = "".join(
        f"[data.parties.{name}]\ncolumns = {columns}\n" + ("" if shared else f'source = "{name}.csv"\n')
        for name, columns in held.items()
    )
    top = 'on = "policy"\nlabel = ["insurer", "claims"]\noffset = ["insurer", "log_years"]\n'
    source = 'source = "all.csv"\n' if shared else ""
    job = '[problem]\nloss = "Poisson"\npenalty = { type = "Ridge", a = 0.01 }\nintercept = true\n'
    job += '[method]\ntype = "SharingADMM"\ntolerance = 1e-12\n'
    (tmp_path / "run.toml").write_text(f"[data]\n{top}{source}{parties}{job}")
    found = load_config(tmp_path / "run.toml").run()
    table["insurer"] = table["insurer"].drop("policies")
    expected = co.fit(co.Federation.from_frames(table, "policy", LABEL, offset=OFFSET), PROBLEM, FINE)
    assert found.intercept == pytest.approx(expected.intercept, abs=1e-5)  # √(2·gap/curvature), about 0.1
    assert found.beside == {"offset": "log_years"}


def test_rows_that_a_simulation_takes_keep_their_own_offset():
    fed = federation(offset=OFFSET, weight=WEIGHT)
    places = np.array([3, 5, 8])
    some = _rows(fed, places)
    assert some.labels.tolist() == fed.labels[places].tolist()
    for name, values in fed.beside.values.items():
        assert some.beside.values[name].tolist() == values[places].tolist()


def test_a_regressor_of_counts_predicts_rates_at_the_offset_of_its_federation():
    fed = federation(offset=OFFSET)
    made = co.FederatedRegressor(loss=co.Poisson()).fit(fed)
    assert made.predict(fed) == pytest.approx(made.fit_.predict(fed), rel=1e-14)
    side = frames()["insurer"].select("age")
    counts = frames()["insurer"]["claims"].to_numpy()
    plain = co.FederatedRegressor(loss=co.Poisson(), parties=1).fit(side, counts)
    assert float(plain.predict(side).sum()) == pytest.approx(float(counts.sum()), rel=1e-2)


# ------------------------------------------------------------------------------------------------ by hand


def test_what_stands_beside_labels_is_one_number_a_row_and_no_label():
    assert beside_arrays(2, by_rows=False, weight=[1.0, 2.0], offset=None).columns == {"weight": ""}
    for wrong in (np.ones(3), np.ones((2, 1)), np.ones((2, 2)), 1.0):
        with pytest.raises(InvalidInput, match="give one number a row"):
            beside_arrays(2, by_rows=False, weight=wrong)
    assert check_pairs(("a", "y"), None, ("a", "w")) == ("a", {"weight": "w"})
    assert check_pairs(None, ("b", "o"), ("b", "w")) == ("b", {"offset": "o", "weight": "w"})
    for offset, weight in ((("a", "y"), None), (None, ("a", "y"))):
        with pytest.raises(InvalidInput, match="both name the column 'y'"):
            check_pairs(("a", "y"), offset, weight)
    with pytest.raises(InvalidInput, match="'a' holds the labels"):
        check_pairs(("a", "y"), None, ("b", "w"))


def test_classes_are_two_names_that_a_table_writes_differently():
    assert check_classes((0, 1)) == (0, 1)
    assert check_classes(np.array(["no", "yes"])) == ("no", "yes")
    for same in (
        ("1", 1),
        (1.0, 1),
        ("true", True),
        ("a", "a"),
        (math.nan, 1.0),
        (1.0, math.inf),
        ("a",),
        "ab",
        ("a", None),
    ):
        with pytest.raises(InvalidInput, match="give two different names"):
            check_classes(same)
    assert [other_class(one, None) for one in (True, False, "yes", 1.0)] == [False, True, "not yes", "not 1"]
    assert other_class("yes", "no") == "no"
