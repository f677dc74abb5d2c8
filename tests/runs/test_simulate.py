"""Simulations: what is compared, on which rows, and whether they find what docs/understand/methods/private-gram.md says."""

from __future__ import annotations

import math
import os
import re
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse, stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.runs.simulate import ALONE, EXPLORED, FIRST_SEED, TOGETHER, simulate

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("COLONNADE_DATA", ROOT.parent / "shared" / "data"))
BOUNDS = {"row_norm": 2.0, "feature_bound": 1.0}


def table(rows: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = np.clip(rng.normal(size=(rows, 4)) / 2, -1, 1)
    values = X @ [2.0, -1.0, 1.0, 0.0] + 0.3 * rng.normal(size=rows)
    return X, np.where(values > 0, "late", "early"), values


@pytest.fixture(scope="module")
def found():
    X, labels, _ = table()
    parties = {"airline": [0, 1], "weather": [2, 3]}
    methods = [
        co.PrivateGram(cross="secure"),
        (co.SharingADMM(rounds=10), co.Problem(co.Logistic(), penalty=co.Ridge(0.1))),
    ]
    return simulate(
        X,
        labels,
        parties,
        methods=methods,
        trusts=["secure", "consortium", "nobody"],
        epsilons=[1.0, 50.0],
        splits=2,
        **BOUNDS,
    )


@pytest.mark.chance(0, "names, shapes and bytes: no figure of a private fit is looked at")
def test_a_table_has_a_row_for_each_method_trust_and_epsilon_and_the_baselines(found):
    lines = found.table()
    kinds = set(lines.select("method", "trust", "epsilon").rows())
    assert kinds == {
        *(("private Gram", trust, e) for trust in ("secure", "consortium") for e in (1.0, 50.0)),
        ("sharing ADMM", "", math.inf),
        (TOGETHER, "", math.inf),
        (f"airline {ALONE}", "", math.inf),
        (f"weather {ALONE}", "", math.inf),
    }
    assert lines.columns == ["method", "trust", "epsilon", "AUC", "AUC ±", "bytes", "rounds", "seconds", "runs"]
    assert lines.filter(pl.col("trust") == "secure")["bytes"].min() > 0


@pytest.mark.chance(0, "refusals, which go by settings")
def test_pairs_that_a_method_does_not_know_are_left_out_and_said(found):
    assert len(found.refused) == 2
    assert all("trust nobody" in line for line in found.refused)
    assert all(line in str(found) for line in found.refused)


@pytest.mark.chance(0, "texts")
def test_the_result_says_that_it_is_exploration(found):
    assert found.note == EXPLORED
    assert "nobody paid for them" in str(found)


@pytest.mark.chance(0, "the line without privacy alone is looked at")
def test_figures_are_of_the_rows_that_were_set_aside(found):
    X, labels, _ = table()
    y, expected = np.where(labels == "late", 1, -1), []
    for seed in range(FIRST_SEED, FIRST_SEED + 2):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.sort(order[:240]), np.sort(order[240:])
        model = LogisticRegression(max_iter=500, tol=1e-3).fit(X[train], y[train])
        expected.append(roc_auc_score(y[test], model.decision_function(X[test])))
    line = found.table().filter(pl.col("method") == TOGETHER).row(0, named=True)
    assert line["AUC"] == pytest.approx(np.mean(expected), abs=1e-9)
    assert line["AUC ±"] == pytest.approx(np.std(expected, ddof=1) / math.sqrt(2), abs=1e-9)


@pytest.mark.chance(0, "parties alone are fitted without privacy; else names and counts")
def test_the_best_party_alone_is_named_and_drawn_and_the_others_are_not(found):
    assert found.best_alone == f"airline {ALONE}"  # it holds the two columns that matter most
    figure = found.plot()
    notes = [note.text for note in figure.layout.annotations]
    assert {TOGETHER, f"airline {ALONE}", "sharing ADMM"} <= set(notes)
    assert f"weather {ALONE}" not in notes
    assert figure.layout.xaxis.type == "log"
    assert {"private Gram, trust secure", "private Gram, trust consortium"} == {trace.name for trace in figure.data}
    assert all(len(trace.error_y.array) == 2 for trace in figure.data)


@pytest.mark.chance(1e-10, "over 12 simulations a margin of 57 sds")
def test_a_large_budget_costs_next_to_nothing(found):
    """At epsilon 50 the noise on 240 rows is far below the signal; AUC of both is near 0.98."""
    lines = {(m, t, e): auc for m, t, e, auc in found.table().select("method", "trust", "epsilon", "AUC").rows()}
    assert lines["private Gram", "consortium", 50.0] > lines[TOGETHER, "", math.inf] - 0.1


@pytest.mark.chance(0, "names, a count, and the line without privacy")
def test_numbers_are_judged_by_explained_variance_and_error(tmp_path):
    X, _, values = table()
    found = simulate(X, values, 2, epsilons=[20.0], splits=2, repeats=2, label_bound=4.0, **BOUNDS)
    lines = found.table()
    assert {"R2", "R2 ±", "RMSE", "RMSE ±"} <= set(lines.columns)
    together = lines.filter(pl.col("method") == TOGETHER).row(0, named=True)
    assert 0.8 < together["R2"] <= 1.0
    assert together["RMSE"] == pytest.approx(0.3, abs=0.15)
    assert lines.filter(pl.col("trust") == "secure")["runs"].to_list() == [4]


@pytest.mark.chance(0, "an empty folder")
def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    X, labels, _ = table(60)
    simulate(X, labels, 2, epsilons=[1.0], splits=1, **BOUNDS)
    assert list(tmp_path.iterdir()) == []


X0, Y0, V0 = table(40)
MESSAGES = [
    ({"splits": 0}, "splits=0: give a whole number of at least 1"),
    ({"repeats": 1.5}, "repeats=1.5"),
    ({"epsilons": []}, "epsilons=[]: give a list of at least one"),
    ({"trusts": "secure"}, "trusts='secure': give a list"),
    ({"epsilons": [0.0]}, "epsilon must be a finite number above 0"),
    ({"trusts": ["friends"]}, "trust='friends' is not known"),
    ({"methods": [co.PrivateGram]}, "which is no method: give values such as co.PrivateGram()"),
    ({"methods": [co.Ridge(1.0)]}, "which is no method"),
    ({"row_norm": None, "feature_bound": None}, "nothing can be run"),
    ({"y": np.arange(40) % 3, "problem": co.Problem(co.Logistic())}, "y holds 3 classes; a simulation compares two"),
    ({"y": np.array(["a", "b", "c", "d"] * 10)}, "4 different texts"),
    ({"y": np.zeros((40, 2))}, "y has shape (40, 2)"),
    ({"y": np.where(np.arange(40) == 3, 1, 0)}, "one class only"),
]


@pytest.mark.parametrize(("given", "words"), MESSAGES, ids=[words[:40] for _, words in MESSAGES])
def test_every_mistake_is_answered_with_what_to_do(given, words):
    settings = {"y": Y0, "parties": 2, "epsilons": [1.0], "splits": 2, **BOUNDS, **given}
    with pytest.raises(InvalidInput) as caught:
        simulate(X0, **settings)
    assert words in str(caught.value)


# ------------------------------------------------------------------------------------------------ the documented table


def cells(name: str) -> dict[str, list[float]]:
    """The figures of a line of the table in docs/understand/methods/private-gram.md, by the head of their column."""
    text = (ROOT / "docs/understand/methods/private-gram.md").read_text()
    head = next(line for line in text.splitlines() if line.startswith("| Data | Rows"))
    line = next(line for line in text.splitlines() if line.startswith(f"| {name}"))
    pairs = zip(head.split("|"), line.split("|"), strict=True)
    return {title.strip(): [float(figure) for figure in re.findall(r"\.\d+", cell)] for title, cell in pairs}


def documented(name: str) -> dict[float, tuple[float, float]]:
    """Mean and standard error by epsilon."""
    found = cells(name)
    return {float(title.removeprefix("ε = ")): (*found[title],) for title in found if title.startswith("ε")}


def real(name: str) -> tuple[pl.DataFrame, np.ndarray, dict[str, co.Schema], str]:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there; set COLONNADE_DATA to the folder that holds {name}")
    told = tomllib.loads((ROOT / "papers" / "schemas" / f"{name}.toml").read_text())
    names = (folder / "features.txt").read_text().split()
    frame = pl.DataFrame(sparse.load_npz(folder / "X.npz").toarray(), schema=names)
    schemas = {}
    for party, public in told["party"].items():
        bounds = public.get("numeric", {})
        own = names[slice(*public["columns"])]
        columns = tuple(co.Numeric(c, *bounds[c]) if c in bounds else co.Binary(c) for c in own)
        schemas[party] = co.Schema(columns, public["row_norm"])
    return frame, np.load(folder / "y.npy"), schemas, told["label"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "repeats"), [("credit-default", 1), ("nhanes-diabetes", 2)])
def test_a_simulation_finds_what_the_page_about_private_gram_says(name, repeats, capsys):
    """Two means of 10 splits each: by Student's t they differ by more than this less than once in 10,000 runs of all six."""
    frame, y, schemas, label = real(name)
    wanted = documented(name)
    found = simulate(frame, y, schemas=schemas, label=label, epsilons=list(wanted), splits=10, repeats=repeats)
    with capsys.disabled(), pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, fmt_str_lengths=40):
        print(f"\n{name}\n{found}")
    most = float(stats.t.ppf(1 - 1e-4 / 12, df=9))
    for line in found.table().filter(pl.col("trust") == "secure").iter_rows(named=True):
        mean, error = wanted[line["epsilon"]]
        assert abs(line["AUC"] - mean) <= most * math.hypot(error, line["AUC ±"])
    # Without privacy nothing is left to chance: the same scikit-learn, on the same splits, but for the order of its sums.
    means = dict(found.table().select("method", "AUC").rows())
    assert cells(name)["All, not private"] == [pytest.approx(means[TOGETHER], abs=2e-4)]
    assert cells(name)["Best party alone, not private"] == [pytest.approx(means[found.best_alone], abs=2e-4)]


@pytest.mark.chance(0, "a name in what is printed, and a file")
def test_the_page_about_simulations_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(co, "simulate", simulate, raising=False)
    page = (ROOT / "docs/use/simulate.md").read_text()
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/use/simulate.md", "exec"), {})
    assert "private Gram" in capsys.readouterr().out
    assert (tmp_path / "simulation.html").is_file()
