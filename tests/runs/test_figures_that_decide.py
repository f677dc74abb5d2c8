"""What is told, and what is left out or refused instead, is decided by figures: on either side of every bound."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member
from colonnade.model.job import Job
from colonnade.privacy import ledger
from colonnade.privacy.accountant import epsilon
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.runs.budgets import account, export_table, spending
from colonnade.runs.call import default_method
from colonnade.runs.preview import preview
from colonnade.runs.rehearsal import suppose_rows
from tests.helpers.exact_fits import CLASSES, ROWS, SCHEMAS, column, fitted, noisy, tables

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

KEYS = {name: f"ed25519:{number:064x}" for number, name in enumerate(("a", "b", "coordinator"), 1)}


@pytest.fixture(scope="module")
def fit(tmp_path_factory) -> co.Fit:
    return fitted(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def classes(tmp_path_factory) -> co.Fit:
    return fitted(tmp_path_factory.mktemp("store"), CLASSES)


# ------------------------------------------------------------------------------------------------ of a release


def test_holm_counts_slopes_that_are_not_determined_too(fit):
    seen = 0
    for sd in (20.0, 40.0, 60.0):
        found = noisy(fit.release, sd, seed=1).regress("y", ["x0", "x2", "flag"], drop=None).table.head(3)
        known = found.drop_nulls("p").sort("p")
        seen += 0 < known.height < 3
        wanted = np.maximum.accumulate([p * (3 - k) for k, p in enumerate(known["p"])])
        assert known["p_adjusted"].to_list() == pytest.approx(np.minimum(wanted, 1.0))
    assert seen


def test_columns_are_left_out_until_the_rest_is_determined(fit):
    """ξ of what is kept is at most 0.1, and every column is either kept or left out."""
    left = set()
    for sd in np.geomspace(2.0, 60.0, 12):
        for seed in (1, 2):
            release = noisy(fit.release, sd, seed=seed)
            found = release.regress()
            assert found.xi <= 0.1 + 1e-3
            assert not set(found.kept) & set(found.left_out)
            assert len(found.kept) + len(found.left_out) == 6
            assert found.facts().about[1].startswith(f"Determined: {6 - len(found.left_out)} of 6 columns (ξ ")
            left.add(len(found.left_out))
    assert left >= {0, 6}
    assert len(left) > 2


def test_the_column_that_says_least_is_left_out_first(tmp_path):
    """x2 declared a hundred times as wide: encoded it hardly varies, and all noise is alike."""
    wide = SCHEMAS | {"c": co.Schema((co.Numeric("x2", -398, 402),))}
    release = noisy(fitted(tmp_path, schemas=wide).release, 3.0, seed=3)
    found = release.regress(on=["x0", "x2", "flag"])
    assert [release.names[k] for k in found.left_out] == ["c:x2"]
    assert found.names == ("a:x0", "a:flag")
    assert "c:x2" in release.regress(on=["x0", "x2", "flag"], protect=["x2"]).names


def test_a_curve_that_is_protected_stays_with_its_hats(tmp_path):
    bent = SCHEMAS | {"a": co.Schema((co.Numeric("x0", -4, 4, smooth=2), co.Binary("flag")))}
    release = noisy(fitted(tmp_path, schemas=bent).release, 60.0, seed=3)
    hats = {"a:x0", *(f"a:x0~{k}" for k in (1, 2, 3))}
    assert not hats <= set(release.regress(on=["x0", "flag"]).names)
    assert hats <= set(release.regress(on=["x0", "flag"], protect=["x0"]).names)


@pytest.mark.parametrize("sd", [1.0, 4.0, 8.0, 30.0])
def test_correlations_are_null_where_noise_is_over_15_hundredths_of_a_columns_squares(fit, sd):
    release = noisy(fit.release, sd, seed=4)
    names = ["a:x0", "a:flag", "b:x1", "c:x2"]
    hidden = set()
    for name in names:
        k = release.names.index(name)
        mean = release.matrix[k, -2] / ROWS
        own = release.matrix[k, k] - ROWS * mean**2
        noise = math.hypot(release.noise[k, k], 2 * mean * release.noise[k, -2])
        hidden |= {name} if own <= 0 or noise > 0.15 * own else set()
    for a, b, r, low, high in release.correlation(names).iter_rows():
        assert (r is None) == bool({a, b} & hidden)
        assert r is not None or (low, high) == (-1.0, 1.0)
    assert (len(hidden) > 0) == (sd > 1.0)
    assert len(hidden) < 4 or sd == 30.0


def test_a_component_within_its_noise_is_refused(fit):
    """Of one column nothing turns: it is told while its squares exceed twice the noise of a row of the matrix."""
    k = fit.release.names.index("a:x0")
    own = fit.release.matrix[k, k] - fit.release.matrix[k, -2] ** 2 / ROWS
    for times, told in ((0.4, True), (0.7, False)):
        noise = np.zeros_like(fit.release.noise)
        noise[k, k] = times * own
        loud = replace(fit.release, noise=noise)
        if told:
            assert loud.pca(["x0"]).height == 1
        else:
            with pytest.raises(co.InvalidInput, match="turns the directions"):
                loud.pca(["x0"])


def test_odds_without_an_end_are_left_open(classes):
    found = noisy(classes.release, 400.0, seed=2).crude_odds()
    assert found.select("odds_ratio", "low", "high").rows() == [(None, 0.0, math.inf)] * 4
    told = noisy(classes.release, 2.0, seed=2).crude_odds()
    assert told["odds_ratio"].null_count() == 0
    assert told["high"].is_finite().all()


@pytest.mark.parametrize("norms", [{"a": 0.5, "b": 1.0}, {"a": 1.0, "c": 0.4}, {"b": 0.0}])
def test_the_most_rows_that_were_shortened_is_bounded_by_squares_and_their_noise(fit, norms):
    release = replace(noisy(fit.release, 3.0, seed=5), proven=False, norms=norms)
    shares = [0.0]
    for party, norm in norms.items():
        own = [k for k, one in enumerate(release.columns) if one.party == party]
        squares = sum(release.matrix[k, k] for k in own)
        if norm:
            shares.append((squares + 2 * 3.0 * math.sqrt(len(own))) / ROWS / norm**2)
    assert release.shortened == pytest.approx(min(1.0, max(shares)))
    assert replace(release, proven=True).shortened == 0.0


# ------------------------------------------------------------------------------------------------ before a run


@pytest.mark.parametrize(("steps", "refused"), [(10.0 + 1e-6, False), (10.0 - 1e-6, True)])
def test_noise_of_columns_hides_steps_from_ten_squared_ones_on(fit, steps, refused):
    """The label has other units: however much noise it has, it hides no step of a column."""
    release = noisy(fit.release, 40.0)
    release.noise[-1, :] = release.noise[:, -1] = 1e6
    found = replace(release, step=math.sqrt(40.0 / steps)).refusal
    assert (found is not None and found.startswith("the noise is 10 squared steps")) is refused


def test_a_curve_of_classes_is_half_as_high_in_probabilities_as_of_labels(classes):
    """Labels -1 and 1 are 2 apart."""
    data, encoded = (classes.inference(units=units).curve("x0", [-4.0, 0.0, 1.0, 4.0]) for units in ("data", "encoded"))
    slope = classes.inference().coefficients["a:x0"]
    assert data["effect"].to_list() == pytest.approx([-4 * slope, 0.0, slope, 4 * slope], abs=1e-12)
    for name in ("effect", "low", "high"):
        assert (2.0 * data[name]).to_list() == pytest.approx(encoded[name].to_list(), abs=1e-12)


@pytest.mark.parametrize(("share", "told"), [(0.0099, False), (0.0101, True)])
def test_shortened_rows_are_warned_of_from_one_in_a_hundred_on(fit, share, told):
    """Of an exact release: squares over rows and the square of the length are the share."""
    release = fit.release
    mine = [k for k, one in enumerate(release.columns) if one.party == "a"]
    norm = math.sqrt(np.diag(release.matrix)[mine].sum() / (release.rows * share))
    short = replace(release, proven=False, norms={"a": norm})
    assert short.shortened == pytest.approx(share)
    words = " ".join(short.regress().summary().split())
    assert ("coefficients of shortened rows" in words) is told
    assert f"unknown, at most {share:.1%} of a party's" in words


@pytest.mark.parametrize(("fewest", "most"), [((20, 30), 30), ((40, 5), 40), ((None, 7), 7)])
def test_supposed_rows_are_those_with_which_every_party_takes_part(fewest, most):
    members = {
        name: Member(SCHEMAS[name], co.Policy(epsilon=1.0, delta=1e-6, least=least), KEYS[name])
        for name, least in zip("ab", fewest, strict=True)
    }
    file = FederationFile(members, "id", ("a", "y"), hub="localhost:1", coordinator=KEYS["coordinator"])
    if None in fewest:
        with pytest.raises(co.InvalidInput):
            suppose_rows(file)
        return
    assert suppose_rows(file).rows == most
    assert suppose_rows(file, most).rows == most
    assert suppose_rows(file, most + 1).rows == most + 1
    with pytest.raises(co.InvalidInput, match=f"{most} common rows or more"):
        suppose_rows(file, most - 1)


@pytest.mark.chance(0, "bytes of a message do not depend on the noise in it")
@pytest.mark.parametrize("smooth", [1, 4])
def test_curves_that_more_than_double_the_bytes_are_said_to(smooth, tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.runs.preview.MANY", 0)
    rng = np.random.default_rng(0)
    key = np.arange(200)
    frames = {"a": pl.DataFrame({"key": key, "x": rng.random(200), "y": key % 2})}
    frames["b"] = pl.DataFrame({"key": key, "z": rng.random(200), "flag": key % 2})
    schemas = {
        "a": co.Schema((co.Numeric("x", 0, 1, smooth=smooth),)),
        "b": co.Schema((co.Numeric("z", 0, 1, smooth=False), co.Binary("flag"))),
    }
    fed = co.Federation.from_frames(frames, on="key", label=("a", "y"), schemas=schemas)
    problem, privacy = co.Problem(co.Logistic(), intercept=True), co.Privacy(4.0, 1e-3)
    told = preview(fed, problem, None, privacy, store=tmp_path)
    (note,) = [one for one in told.notes if "curves" in one]
    size, flat = (
        int(word.replace(",", "").rstrip(".")) for word in note.split() if word[0].isdigit() and len(word) > 3
    )
    assert size == told.size
    assert ("more than double" in note) == (size > 2 * flat)
    assert (size > 2 * flat) == (smooth == 4)


@pytest.mark.parametrize(("trust", "cross"), [("nobody", "none"), ("secure", "secure"), ("consortium", "secure")])
def test_products_between_parties_are_made_unless_nobody_is_trusted(trust, cross):
    found = default_method(co.Privacy(1.0, 1e-6, trust), co.Problem(co.Logistic()))
    assert isinstance(found, co.PrivateGram)
    assert found.cross == cross


@dataclass(frozen=True)
class Dearer(co.CentralFrankWolfe):
    """A method that asks for a fifth more than it was given."""

    def price(self, job: Job):
        return super().price(replace(job, privacy=replace(job.privacy, epsilon=1.2 * job.privacy.epsilon)))


def test_a_method_that_costs_more_than_was_allowed_is_refused():
    X = np.random.default_rng(0).uniform(-1, 1, (50, 4))
    fed = co.Federation.split(X, np.sign(X[:, 0]), parties={"a": slice(None)}, label="a")
    problem, privacy = co.Problem(co.Logistic(), co.L1Ball(2.0)), co.Privacy(1.0, 1e-6, feature_bound=1.0)
    with pytest.raises(co.InvalidInput, match=r"would cost epsilon 1\.2, and privacy= allows 1 "):
        co.fit(fed, problem, Dearer(rounds=3), privacy, store="nowhere")


# ------------------------------------------------------------------------------------------------ what was spent


@pytest.mark.chance(0, "prices are looked at, and nothing that was drawn")
def test_what_a_run_counts_for_is_its_own_releases_and_what_others_reserved(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (60, 4))
    fed = co.Federation.split(X, np.sign(X[:, 0]), {"a": [0, 1], "b": [2, 3]})
    privacy = co.Privacy(1.0, 1e-6, row_norm=2.0, feature_bound=1.0, trust="nobody")
    fit = co.fit(fed, co.Problem(co.Logistic()), co.PrivateGram(cross="none"), privacy, store=tmp_path)
    runs = {name: json.loads(export_table(tmp_path, name, "json", "runs"))[0] for name in "ab"}
    own = {name: runs[name]["counted_own_rho"] for name in "ab"}
    assert min(own.values()) > 0
    for name in "ab":
        others = runs[name]["reserved_other_rho"]  # of what others used of that, a party knows nothing
        assert runs[name]["counted_rho"] == pytest.approx(own[name] + others, rel=1e-9)
        assert others > 0
        assert account(tmp_path, name).spent == pytest.approx(fit.privacy.epsilon, rel=1e-9)


@pytest.mark.chance(0, "prices are looked at, and nothing that was drawn")
def test_releases_of_one_second_are_added_up(tmp_path, monkeypatch):
    now = "2026-01-01T00:00:00+00:00"
    monkeypatch.setattr(ledger, "_now", lambda: now)
    X = np.random.default_rng(0).uniform(-1, 1, (50, 4))
    fed = co.Federation.split(X, np.sign(X[:, 0]), parties={"a": slice(None)}, label="a")
    problem, privacy = co.Problem(co.Logistic(), co.L1Ball(2.0)), co.Privacy(1.0, 1e-6, feature_bound=1.0)
    co.fit(fed, problem, co.CentralFrankWolfe(rounds=3), privacy, store=tmp_path)
    rho = math.fsum(line["counted_rho"] for line in json.loads(export_table(tmp_path, "a", "json", "runs")))
    assert len(json.loads(export_table(tmp_path, "a", "json"))) == account(tmp_path, "a").releases == 3
    assert spending(tmp_path, "a") == [(now, pytest.approx(epsilon(rho, 1e-6), rel=1e-9))]
    assert account(tmp_path, "a").spent == pytest.approx(1.0, rel=1e-6)


# ------------------------------------------------------------------------------------------------ without a party


@pytest.mark.parametrize("way", [1, -1])
def test_a_column_that_may_only_rise_does_so_without_a_party_too(way, tmp_path):
    """What y takes from x0 is positive: where it may only fall, it is left at 0."""
    frames = {name: frame.drop("won", strict=False) for name, frame in tables().items()}
    assert float(np.cov(column(frames, "x0"), column(frames, "y"))[0, 1]) > 0
    schemas = SCHEMAS | {"a": co.Schema((co.Numeric("x0", -4, 4, monotone=way), co.Binary("flag")))}
    fed = co.Federation.from_frames(frames, on="id", label=("c", "y"), schemas=schemas)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-4), intercept=True)
    privacy = co.Privacy(1000.0, 1e-6, label_range=(-8.0, 8.0))
    made = co.fit(fed, problem, co.PrivateGram(), privacy, store=tmp_path, noise=SeededNoise(1))
    found = made.without("b")
    x = dict(zip(found.features["a"], found.coefficients["a"], strict=True))
    assert (x["x0"] > 0.5) if way > 0 else (x["x0"] == pytest.approx(0.0, abs=1e-6))
