"""`colonnade release`: what a file holds, and models and correlations from it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RUN = CliRunner()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    X = np.random.default_rng(0).uniform(-1, 1, (3000, 4))
    fed = co.Federation.split(X, X @ [0.5, 0.2, 0.0, -0.3], parties={"a": [0, 1], "b": [2, 3]}, label="b")
    privacy = co.Privacy(4.0, 1e-6, row_norm=2.0, feature_bound=1.0, label_bound=1.0)
    fit = co.fit(
        fed, co.Problem(co.LeastSquares()), co.PrivateGram(purpose="inference"), privacy, store=folder / "store"
    )
    fit.save(folder / "fit.json")
    return folder / "fit.json"


def told(*words: str) -> str:
    found = RUN.invoke(app, ["release", *words])
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.chance(0, "texts that follow from the plan: nothing that was drawn is compared")
def test_show_lists_columns_and_whether_intervals_hold(file):
    assert "a:x0" in told("show", str(file))
    lines = dict(line.split(maxsplit=1) for line in told("show", str(file)).splitlines() if line[:1].isalpha())
    assert lines["intervals"] == "may be read off it, and tests"
    assert lines["verdict"].startswith("private: ε = 4 at δ = 1e-06 for one row")
    assert lines["statement"] == f"colonnade release show {file} --json"
    assert json.loads(told("show", str(file), "--json"))["statement"] == co.load(file).privacy.sentence
    assert told("show", str(file), "--quiet").split() == ["a:x0", "a:x1", "b:x2", "b:x3", "b:label"]
    assert json.loads(told("show", str(file), "--json"))["rows"] == 3000


@pytest.mark.chance(1e-10, "columns stay in: their doubt is 1e-4 and 3e-4 in 30 runs, over 500 sds below its bounds")
def test_regress_prints_the_summary_or_its_figures(file):
    assert told("regress", str(file)) == co.Release.load(file).regress().summary() + "\n"
    found = json.loads(told("regress", str(file), "-t", "x1", "-x", "x0", "-x", "x2", "--json"))
    assert [row["column"] for row in found["coefficients"]] == ["a:x0", "b:x2", "(constant)"]
    assert told("regress", str(file), "--on", "x0", "--quiet").startswith("a:x0 ")


@pytest.mark.chance(0, "figures of one release against the same from Python")
def test_what_is_printed_is_what_python_says(file):
    release = co.Release.load(file)
    words = ("-t", "x1", "-x", "x0", "-x", "b:x2", "--level", "0.8", "--robust", "2", "--protect", "x0", "--json")
    found = release.regress("x1", ["x0", "b:x2"], level=0.8, robust=2.0, protect=["x0"])
    printed = json.loads(told("regress", str(file), *words))
    table = found.table.filter(found.table["state"] != "left out")
    finite = {name: table[name].replace([np.inf, -np.inf], [None, None]).to_list() for name in ("low", "high")}
    for name, key in (("estimate", "estimate"), ("p_adjusted", "p"), ("sampling_share", "sampling_share")):
        assert [row[key] for row in printed["coefficients"]] == table[name].to_list()
    for name, values in finite.items():
        assert [row[name] for row in printed["coefficients"]] == values
    facts = found.facts()
    assert (printed["title"], printed["xi"], printed["about"]) == (facts.title, found.xi, list(facts.about))
    assert (printed["whole"], printed["warnings"]) == (list(facts.closing), list(facts.warnings))
    pairs = json.loads(told("correlate", str(file), "-c", "x0", "-c", "x3", "-c", "label", "--level", "0.5", "--json"))
    assert pairs == release.correlation(["x0", "x3", "label"], level=0.5).to_dicts()
    assert "50 % interval" in told("correlate", str(file), "--level", "0.5")
    held = json.loads(told("show", str(file), "--json"))
    every = [*release.columns, release.label]
    assert held["columns"] == [
        {"column": f"{one.party}:{one.name}", "declared": one.source, "kind": one.kind, "unit": one.unit}
        for one in every
    ]
    assert (held["run"], held["rule"], held["refusal"]) == (release.run, "raw", None)
    assert held["shortened"] == release.shortened


@pytest.mark.chance(0, "names and numbers of pairs, whatever their figures")
def test_correlate_prints_pairs(file):
    assert len(json.loads(told("correlate", str(file), "--json"))) == 10
    assert "a:x0" in told("correlate", str(file), "-c", "x0", "-c", "x3")
    assert told("correlate", str(file), "-c", "x0", "-c", "x3", "--quiet").startswith("a:x0 b:x3 ")


def test_a_file_without_a_release_is_one_line(tmp_path):
    found = RUN.invoke(app, ["release", "show", str(tmp_path / "none.json")])
    assert found.exit_code == 1
    assert "cannot read" in found.output


def test_show_names_the_declared_column_and_kind_of_each(tmp_path):
    from tests.helpers.exact_fits import fitted

    fitted(tmp_path / "store").release.save(tmp_path / "release.json")
    columns = json.loads(told("show", str(tmp_path / "release.json"), "--json"))["columns"]
    assert [(one["column"], one["declared"], one["kind"], one["unit"]) for one in columns] == [
        ("a:x0", "x0", "number", 4.0),
        ("a:flag", "flag", "flag", 1.0),
        ("b:x1", "x1", "number", 8.0),
        ("b:level=a", "level", "level", 1.0),
        ("b:level=b", "level", "level", 1.0),
        ("b:level=c", "level", "level", 1.0),
        ("c:x2", "x2", "number", 4.0),
        ("c:y", "y", "number", 1.0),
    ]
