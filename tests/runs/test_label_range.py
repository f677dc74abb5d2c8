"""Numeric labels declared by a range: measured from its middle, and given back in everything that a fit says."""

from __future__ import annotations

import numpy as np
import pytest

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput
from colonnade.methods.node_setup import usable_labels
from colonnade.model.job import Job
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.runs.call import with_label_range
from tests.helpers.organisations import Organisations

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

NUMBERS = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-6), intercept=True)
BOUNDS = {"row_norm": 2.0, "feature_bound": 1.0}
LOW, HIGH = 2.0, 6.0


def wages(rows=8000, seed=1):
    """Logarithms of wages: nearly all between 2 and 6, R² of least squares about .43."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.random((rows, 8)) < 0.4, rng.uniform(-1, 1, (rows, 4))]).astype(float) / 2.0
    y = 4.1 + X @ np.linspace(-0.75, 0.75, 12) + rng.normal(0, 0.5, rows)
    return X, y


def split(data, holder="b"):
    return co.Federation.split(*data, parties={"a": range(6), "b": range(6, 12)}, label=holder)


def r2(fit, X, y):
    return 1 - np.mean((y - fit.predict(split((X, y)))) ** 2) / y.var()


def test_a_proper_range_explains_what_a_symmetric_bound_drowns(tmp_path):
    """Seeded noise, three runs each at epsilon 1: it cannot fail by chance."""
    X, y = wages()
    found = {}
    for name, labels in (("range", {"label_range": (LOW, HIGH)}), ("bound", {"label_bound": HIGH})):
        terms = co.Privacy(1.0, 1e-6, trust="secure", **BOUNDS, **labels)
        fits = [
            co.fit(split((X, y)), NUMBERS, privacy=terms, noise=SeededNoise(i), store=tmp_path / f"{name}{i}")
            for i in range(3)
        ]
        found[name] = np.mean([r2(fit, X, y) for fit in fits])
    A = np.column_stack([X, np.ones(len(X))])
    best = 1 - np.mean((y - A @ np.linalg.lstsq(A, y, rcond=None)[0]) ** 2) / y.var()
    assert 0.38 < best < 0.48
    assert found["range"] > best - 0.08
    assert found["range"] > found["bound"] + 0.05


METHODS = [
    (co.PrivateGram(), "secure", NUMBERS),
    (co.PrivateGram(), "consortium", NUMBERS),
    (co.PrivateGram(labels="released", screen=11), "secure", NUMBERS),
    (co.PrivateGram(cross="none"), "nobody", NUMBERS),
    (co.PrivateSharingADMM(rounds=1), "nobody", co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))),
    (co.PrivateBlockFrankWolfe(rounds=2), "nobody", co.Problem(co.LeastSquares(), constraint=co.L1Ball(1.0))),
]


@pytest.mark.chance(1e-14, "noise is seeded; of the sketch an intercept about 4 would have to be 0 to the last bit")
@pytest.mark.parametrize(("method", "trust", "problem"), METHODS, ids=str)
def test_a_range_is_a_shift_of_the_labels_and_nothing_else(method, trust, problem, tmp_path):
    X, y = wages(300)
    noise = SeededNoise(3)
    ranged = co.Privacy(2.0, 1e-6, trust=trust, **BOUNDS, label_range=(LOW, HIGH))
    plain = co.Privacy(2.0, 1e-6, trust=trust, **BOUNDS, label_bound=(HIGH - LOW) / 2)
    one = co.fit(split((X, y)), problem, method, ranged, noise=noise, store=tmp_path / "one")
    # Clipped before they are shifted: both then see the same numbers.
    shifted = np.clip(y, LOW, HIGH) - (LOW + HIGH) / 2
    jobs = [Job(problem, split((X, y)).roster(), terms) for terms in (ranged, plain)]
    assert np.array_equal(usable_labels(y, jobs[0]), usable_labels(shifted, jobs[1]))
    assert np.abs(usable_labels(np.array([np.nan, 1e308, -np.inf, 4.0]), jobs[0])).max() <= 2.0
    if problem.intercept:
        assert one.intercept != 0.0
    else:
        assert one.intercept == 4.0
    if "none" in str(method) or "ADMM" in str(method):  # others draw public numbers from the name of a run
        two = co.fit(split((X, shifted)), problem, method, plain, noise=noise, store=tmp_path / "two")
        assert all(np.array_equal(one.coefficients[p], two.coefficients[p]) for p in one.coefficients)
        assert one.intercept == two.intercept + 4.0
        assert np.allclose(one.predict(split((X, y))), two.predict(split((X, y))) + 4.0)
    assert problem.intercept or any("measured from the middle" in remark for remark in one.remarks)


@pytest.mark.chance(0, "settings, and a fit beside its own file")
def test_a_schema_declares_the_labels_range_and_its_file_keeps_it(tmp_path):
    schema = co.Schema((co.Numeric("age", 0, 100),), label=co.Numeric("log_income", LOW, HIGH))
    assert Schema.from_text(schema.to_text()) == schema
    assert schema.digest() != co.Schema(schema.columns).digest()
    rng = np.random.default_rng(0)
    import polars as pl

    frames = {
        "a": pl.DataFrame({"id": range(200), "age": rng.uniform(0, 100, 200), "log_income": rng.uniform(2, 6, 200)}),
        "b": pl.DataFrame({"id": range(200), "rooms": rng.uniform(0, 9, 200)}),
    }
    schemas = {"a": schema, "b": co.Schema((co.Numeric("rooms", 0, 9),))}
    fed = co.Federation.from_frames(frames, on="id", label=("a", "log_income"), schemas=schemas)
    terms = co.Privacy(1.0, 1e-6, trust="secure")
    fit = co.fit(fed, NUMBERS, privacy=terms, store=tmp_path)
    assert "label_range=(2.0, 6.0)" in fit.facts["settings"]
    again = co.load(next((tmp_path / "fits").glob("*.json")))
    assert again.schemas["a"].label == schema.label
    assert again.intercept == fit.intercept
    other = {**schemas, "a": co.Schema(schema.columns, label=co.Numeric("income", 0, 1))}
    fed = co.Federation.from_frames(frames, on="id", label=("a", "log_income"), schemas=other)
    with pytest.raises(InvalidInput, match="declares the label 'income'"):
        co.fit(fed, NUMBERS, privacy=terms, store=tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"label_range": (6.0, 2.0)}, "lower figure first"),
        ({"label_range": (2.0, 2.0)}, "lower figure first"),
        ({"label_range": (2.0, float("inf"))}, "two finite public figures"),
        ({"label_range": 5.0}, "two finite public figures"),
        ({"label_range": (0.0, 1.0), "label_bound": 1.0}, "the same thing twice"),
    ],
)
def test_a_range_that_says_nothing_or_two_things_is_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        co.Privacy(1.0, 1e-6, **given)
    X, y = wages(50)
    with pytest.raises(InvalidInput, match=message):
        co.SparseRegressor(epsilon=1.0, **given).fit(X, y)


def test_a_range_of_numbers_is_refused_for_classes(tmp_path):
    X, y = wages(50)
    terms = co.Privacy(1.0, 1e-6, trust="secure", **BOUNDS, label_range=(0.0, 1.0))
    with pytest.raises(InvalidInput, match="is for numbers, and Logistic is for classes"):
        co.fit(split((X, np.sign(y - 4))), co.Problem(co.Logistic()), privacy=terms, store=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_schemas_label_must_be_a_range():
    with pytest.raises(InvalidInput, match=r"label=co\.Numeric"):
        co.Schema((), label=co.Binary("late"))
    with pytest.raises(InvalidInput, match=r"label is not right: .*one bound without the other"):
        Schema.from_text('label = { name = "x", low = 0.0 }')


@pytest.mark.chance(1e-10, "over 20 fits each margins of 240 and 480 sds")
def test_estimators_take_the_range_and_give_it_back(tmp_path):
    X, y = wages(4000)
    sparse = co.SparseRegressor(epsilon=50.0, row_norm=2.0, label_range=(LOW, HIGH)).fit(X, y)
    assert abs(sparse.predict(X).mean() - y.mean()) < 0.3  # an intercept about 0 would be 3 away
    shared = {"epsilon": 50.0, "store": tmp_path, "parties": 2, **BOUNDS}
    federated = co.FederatedRegressor(label_range=(LOW, HIGH), **shared).fit(X, y)
    assert abs(federated.predict(X).mean() - y.mean()) < 0.3
    assert federated.get_params()["label_range"] == (LOW, HIGH)


def test_one_holder_gives_the_range_back_too(tmp_path):
    """Central Frank-Wolfe: a range is a shift of the labels, to the bit, and the intercept carries it."""
    X, y = wages(400)
    problem, method = co.Problem(co.LeastSquares(), constraint=co.L1Ball(1.0)), co.CentralFrankWolfe(rounds=3)
    shifted = np.clip(y, LOW, HIGH) - (LOW + HIGH) / 2
    fits = []
    for labels, bound in ((y, {"label_range": (LOW, HIGH)}), (shifted, {"label_bound": (HIGH - LOW) / 2})):
        fed = co.Federation.split(X, labels, parties={"holder": slice(None)}, label="holder")
        terms = co.Privacy(2.0, 1e-6, feature_bound=1.0, **bound)
        fits.append(co.fit(fed, problem, method, terms, noise=SeededNoise(3), store=tmp_path / str(len(fits))))
    assert np.array_equal(fits[0].coefficients["holder"], fits[1].coefficients["holder"])
    assert (fits[0].intercept, fits[1].intercept) == (4.0, 0.0)


def test_between_organisations_the_file_declares_the_range_and_every_party_sees_it(tmp_path):
    """The federation's file keeps it, a run takes it from there, and the label holder measures from its middle."""
    columns = (co.Numeric("age", 0, 100),)
    schemas = {
        "ward": co.Schema(columns, label=co.Numeric("log_income", LOW, HIGH)),
        "lab": co.Schema((co.Numeric("crp", 0, 9),)),
    }
    members = {name: Member(schema, co.Policy(least=1), new_key()[0]) for name, schema in schemas.items()}
    FederationFile(members, "pid", ("ward", "log_income")).save(tmp_path / "federation.toml")
    shared = FederationFile.load(tmp_path / "federation.toml")
    fed = co.Federation.elsewhere(shared, 50)
    terms = with_label_range(co.Privacy(1.0, 1e-6, trust="secure"), fed, NUMBERS, co.PrivateGram())
    assert terms.label_range == (LOW, HIGH)
    told = Job(NUMBERS, fed.roster(), terms)
    assert usable_labels(np.array([2.0, 3.0, 9.0, -1.0]), told).tolist() == [-2.0, -1.0, 2.0, -2.0]


@pytest.mark.chance(1e-10, "over 40 fits in one process a margin of 56 sds")
def test_between_organisations_a_run_by_a_range_predicts_about_its_middle(tmp_path):
    """One process a party. Labels lie about 4 and the noise moves the intercept by about .1, shrinkage by at most .5: a model
    that forgot the middle would have it near 0. In 40 runs in one process it was .06 off, with an sd of .017."""
    X, y = wages(3000)
    made = Organisations.of(split((X, y)), tmp_path, co.Policy(epsilon=20.0, delta=1e-5))
    terms = co.Privacy(8.0, 1e-6, trust="secure", **BOUNDS, label_range=(LOW, HIGH))
    with made.hub() as hub, made.at_work(hub.port):
        fit = co.fit(made.federation, NUMBERS, co.PrivateGram(), terms, engine=hub, store=tmp_path / "here")
    assert abs(fit.intercept - 4.0) < 1.0
    assert "label_range=(2.0, 6.0)" in fit.facts["settings"]
