"""The comparison with other libraries: its page is its record, its tables are what schemas make of them, its rivals run apart."""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from typer.testing import CliRunner

from colonnade.errors import InvalidInput, StoreError
from papers.commands import app
from papers.comparison import models, page, record, tables
from papers.comparison.rivals import Rivals
from papers.comparison.run import cases, run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "papers" / "comparison.md"
RECORD = ROOT / "papers" / "results" / "comparison.json"
SCHEMA = ROOT / "papers" / "schemas" / "credit-default.toml"
NAME, COLUMNS, ROWS = "credit-default", 33, 240


@pytest.fixture(scope="module")
def kept() -> dict:
    return record.load(RECORD)


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[np.ndarray, list[str]]]:
    """A small table with the columns of credit-default: numbers go beyond their public bounds, the others are 0 or 1."""
    names = [f"yes{j}" for j in range(COLUMNS)]
    for public in tomllib.loads(SCHEMA.read_text())["party"].values():
        first, _ = public["columns"]
        numeric = list(public.get("numeric", {}))
        names[first : first + len(numeric)] = numeric
    rng = np.random.default_rng(5)
    X = np.where(
        [name.startswith("yes") for name in names],
        rng.random((ROWS, COLUMNS)) < 0.3,
        3 * rng.normal(size=(ROWS, COLUMNS)),
    )
    folder = tmp_path / "data" / NAME
    folder.mkdir(parents=True)
    sparse.save_npz(folder / "X.npz", sparse.csr_matrix(X))
    np.save(folder / "y.npy", np.where(X[:, 0] + rng.normal(size=ROWS) > 0, 1.0, -1.0))
    (folder / "features.txt").write_text("\n".join(names))
    monkeypatch.setenv("COLONNADE_DATA", str(folder.parent))
    tables.load.cache_clear()
    yield X, names
    tables.load.cache_clear()


# ------------------------------------------------------------------------------------------------ the page and its record


def test_every_mean_and_error_of_the_record_is_that_of_its_splits(kept):
    assert kept["lines"]
    for line in kept["lines"]:
        found = line["auc_by_split"]
        assert len(found) == len(kept["splits"]["seeds"]) >= 5
        assert line["auc"] == pytest.approx(np.mean(found), abs=1e-12)
        assert line["auc_error"] == pytest.approx(np.std(found, ddof=1) / math.sqrt(len(found)), abs=1e-12)


def test_every_private_line_states_at_most_the_epsilon_it_stands_under(kept):
    private = [line for line in kept["lines"] if line["epsilon"] is not None]
    assert {line["epsilon"] for line in private} == {0.0, *models.EPSILONS}
    for line in private:
        assert line["stated"] <= line["epsilon"] * (1 + 1e-9)
        assert line["delta"] in (0.0, models.DELTA)
        assert line["unit"] == "one row"
        assert line["guarantee"] in ("proven", "conditional", "its authors'")
        assert line["trust"] in ("secure", "consortium", "nobody", models.HOLDER) or line["by"] == models.NOBODY


def test_the_record_names_the_versions_of_everybody_in_it(kept):
    by = {line["by"] for line in kept["lines"]} - {models.OURS, models.SKLEARN, models.NOBODY}
    assert by == {models.SKGLM, models.DIFFPRIVLIB}
    assert by <= set(kept["rivals"])
    assert {"colonnade", "scikit-learn"} <= set(kept["here"])


def test_every_method_of_the_record_ran_on_every_table_that_its_parties_hold(kept):
    for name in tables.SPLIT_COLUMNS:
        wanted = {
            (model.by, model.name, model.problem) for model in models.models(tables.parties(name), Rivals(Path()))
        }
        found = {(line["by"], line["model"], line["problem"]) for line in kept["lines"] if line["data"] == name}
        assert wanted == found


def test_where_another_library_has_the_higher_mean_the_page_says_so(kept):
    """Recomputed here from the lines: no win of theirs may be left out."""
    text = page.block(kept)
    for line in kept["lines"]:
        if line["by"] != models.DIFFPRIVLIB:
            continue
        same = [
            o
            for o in kept["lines"]
            if (o["data"], o["epsilon"], o["by"]) == (line["data"], line["epsilon"], models.OURS)
        ]
        for place in (models.ONE, models.BETWEEN):
            best = max(o["auc"] for o in same if o["place"] == place and " alone" not in o["model"])
            words = f"{line['data']}, ε = {line['epsilon']:g}: diffprivlib" + (
                " has" if place == models.ONE else ", which"
            )
            assert (best < line["auc"]) == (f"- {words}" in text)


def test_a_page_without_its_marks_is_refused_before_anything_runs(tmp_path, made_up, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text("nothing\n")
    done = CliRunner().invoke(app, ["comparison", "--page", str(tmp_path / "page.md")])
    assert done.exit_code == 1
    assert "add them where the table belongs" in done.stderr
    assert {"data", "page.md"} == {path.name for path in tmp_path.iterdir()}


def test_what_is_no_record_is_refused(tmp_path):
    (tmp_path / "r.json").write_text("[1]")
    with pytest.raises(StoreError, match="no record of a comparison"):
        record.load(tmp_path / "r.json")


# ------------------------------------------------------------------------------------------------ tables


def test_columns_are_what_the_schemas_encode(made_up):
    X, names = made_up
    table = tables.load(NAME)
    frame = pl.DataFrame(X, schema=names)
    for party, own in table.parts.items():
        columns = [column.name for column in table.schemas[party].columns]
        wanted = table.schemas[party].encode(frame.select(columns)).matrix
        wanted = wanted.toarray() if sparse.issparse(wanted) else wanted
        np.testing.assert_allclose(table.X[:, own].toarray(), wanted, atol=1e-12)


def test_a_federation_of_some_rows_keeps_the_declared_bounds_and_the_label_holder(made_up):
    table = tables.load(NAME)
    federation = table.federation(np.arange(50))
    assert federation.label == table.label == "bank"
    assert {name: party.schema for name, party in federation.parties.items()} == table.schemas
    assert all(schema.source != "data" for schema in table.schemas.values())


def test_splits_are_the_same_every_time_and_share_no_row(made_up):
    table = tables.load(NAME)
    first, again = list(table.splits(3)), list(table.splits(3))
    for (train, test), (same, tested) in zip(first, again, strict=True):
        assert np.array_equal(train, same)
        assert np.array_equal(test, tested)
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(ROWS))
    assert not np.array_equal(first[0][0], first[1][0])


def test_a_row_without_a_class_is_left_out_where_one_holder_has_everything(tmp_path, monkeypatch):
    folder = tmp_path / "rcv1"
    folder.mkdir()
    sparse.save_npz(folder / "X.npz", sparse.eye(6, format="csr"))
    np.save(folder / "y.npy", np.array([1, -1, 0, 1, 0, -1]))
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    tables.load.cache_clear()
    table = tables.load("rcv1")
    tables.load.cache_clear()
    assert table.y.tolist() == [1.0, -1.0, 1.0, -1.0]
    assert table.X.shape == (4, 6)


def test_without_tables_the_command_says_where_they_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["comparison"])
    assert done.exit_code == 1
    assert "set COLONNADE_DATA" in done.stderr


# ------------------------------------------------------------------------------------------------ models


def key(name: str, problem: str) -> str:
    return next(m.key for m in models.models(tables.parties(NAME), None) if (m.name, m.problem) == (name, problem))


def test_rows_carry_the_statement_of_the_run_they_come_from(made_up):
    rows = run(NAME, key("PrivateGram, secure", "private"), 1)
    assert list(models.EPSILONS) == [row["epsilon"] for row in rows]
    for row in rows:
        assert 0.99 * row["epsilon"] <= row["stated"] <= row["epsilon"] * (1 + 1e-9)
        assert tuple(row[k] for k in ("trust", "guarantee", "unit", "delta")) == (
            "secure",
            "conditional",
            "one row",
            models.DELTA,
        )
        assert row["bytes"] > 0
        assert 0.0 <= row["auc"] <= 1.0


def test_the_methods_over_a_ball_have_the_optimum_of_the_lasso(made_up):
    """One formula bounds everybody's distance to it, so rows of other libraries are held to the same."""
    central = run(NAME, key("LogisticRegression, liblinear", "lasso"), 1)[0]
    between = run(NAME, key("DistributedFrankWolfe", "lasso"), 1)[0]
    assert central["gap"] < 1e-4
    assert between["gap"] < 1e-4
    assert central["epsilon"] is between["epsilon"] is None
    assert central.get("bytes") is None


def test_the_gap_bounds_the_distance_to_the_optimum(made_up):
    cvxpy = pytest.importorskip("cvxpy")
    table = tables.load(NAME)
    split = models.Split(table, 0, *next(table.splits(1)))
    X, y, x = split.X.toarray(), split.y, np.full(COLUMNS, 0.01)
    w = cvxpy.Variable(COLUMNS)
    least = cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(y, X @ w))) / y.size + split.lam * cvxpy.norm1(w)
    optimum = cvxpy.Problem(cvxpy.Minimize(least)).solve(solver="CLARABEL")
    excess = np.mean(np.logaddexp(0, -y * (X @ x))) + split.lam * np.abs(x).sum() - optimum
    assert excess <= split.gap("lasso", x) + 1e-6


def test_no_score_at_all_costs_nothing_and_finds_nothing(made_up):
    (row,) = run(NAME, key("x = 0", "private"), 1)
    assert (row["auc"], row["epsilon"], row["stated"]) == (0.5, 0.0, 0.0)


def test_without_an_environment_no_case_is_of_another_library():
    mine, all_of_them = cases([NAME], 2, None), cases([NAME], 2, Rivals(Path("/venv/bin/python")))
    more = [case for case in all_of_them if case not in mine]
    assert {case["model"].split(":")[0] for case in more} == {models.SKGLM, models.DIFFPRIVLIB}
    assert all(case["python"] == "/venv/bin/python" for case in more)
    assert len(mine) + len(more) == len(all_of_them)


# ------------------------------------------------------------------------------------------------ other libraries

STAND_INS = {
    "skglm.py": """
class SparseLogisticRegression:
    def __init__(self, alpha, fit_intercept, tol):
        assert alpha > 0 and not fit_intercept
    def fit(self, X, y):
        self.coef_ = (X.T @ y).reshape(1, -1) / len(y)
        return self
""",
    "diffprivlib/__init__.py": "",
    "diffprivlib/utils.py": "class PrivacyLeakWarning(RuntimeWarning):\n    pass\n",
    "diffprivlib/models.py": """
import warnings
import numpy as np
from diffprivlib.utils import PrivacyLeakWarning
class LogisticRegression:
    def __init__(self, epsilon, data_norm=None):
        self.epsilon, self.data_norm = epsilon, data_norm
    def fit(self, X, y):
        if self.data_norm is None or np.linalg.norm(X, axis=1).max() > self.data_norm:
            warnings.warn("bounds were read off the data", PrivacyLeakWarning)
        self.coef_ = self.epsilon * (X.T @ y).reshape(1, -1)
        return self
""",
}


@pytest.fixture
def stand_ins(tmp_path: Path) -> Rivals:
    """An interpreter with toys of these libraries: it is the talk with another process that is tested, and what it is given."""
    place = tmp_path / "packages"
    for name, source in STAND_INS.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(source)
    for name in ("skglm", "diffprivlib"):
        folder = place / f"{name}-9.9.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{place}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return Rivals.at(python)


def test_another_library_gets_the_rows_and_gives_its_coefficients_back(stand_ins):
    assert stand_ins.versions()["skglm"] == "9.9"
    rng = np.random.default_rng(0)
    X, y = sparse.random(40, 5, density=0.5, format="csr", random_state=1), rng.choice([-1.0, 1.0], 40)
    ((x, seconds),), ((other, _),) = stand_ins.fits("skglm", [(X, y), (2 * X, y)], [{"alpha": 0.1}])
    np.testing.assert_allclose(x, X.T @ y / 40)
    np.testing.assert_allclose(other, 2 * x)
    assert seconds >= 0.0


def test_diffprivlib_is_given_public_bounds_and_rows_within_them(stand_ins, made_up):
    """Its warning about bounds read off the data is an error there."""
    rows = run(NAME, "diffprivlib: LogisticRegression: private", 2, str(stand_ins.python))
    assert [(0, e) for e in models.EPSILONS] + [(1, e) for e in models.EPSILONS] == [
        (r["split"], r["epsilon"]) for r in rows
    ]
    long = np.full((40, 3), 2.0)
    with pytest.raises(InvalidInput, match="bounds were read off the data"):
        stand_ins.fits("diffprivlib", [(long, np.resize([1.0, -1.0], 40))], [{"epsilon": 1.0}])


def test_an_environment_without_the_libraries_is_refused_with_what_it_needs(tmp_path):
    with pytest.raises(InvalidInput, match="is no environment"):
        Rivals.at(tmp_path / "nowhere")
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # without any installed package
    bare.chmod(0o755)
    with pytest.raises(InvalidInput, match=r"It needs diffprivlib, skglm"):
        Rivals.at(bare)


def test_rows_of_length_one_keep_their_direction_and_an_empty_row_stays_empty():
    X = sparse.csr_array(np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(models.unit_rows(X), [[0.6, 0.8], [0.0, 0.0]], rtol=1e-11)
    assert (np.linalg.norm(models.unit_rows(X), axis=1) <= 1.0).all()


def test_the_page_says_conditional_of_every_line_under_secure_and_consortium():
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines()]
    heads = [row for row in shown if "Guarantee" in row]
    assert heads
    trust, guarantee = heads[0].index("Trust"), heads[0].index("Guarantee")
    words = {(row[trust], row[guarantee]) for row in shown if len(row) == len(heads[0]) and row not in heads}
    assert {("secure", "conditional"), ("consortium", "conditional"), ("nobody", "proven")} <= words
    assert not {("secure", "proven"), ("consortium", "proven")} & words
