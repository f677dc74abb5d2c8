"""From files to answers: `colonnade init --party`, `colonnade fit --epsilon` and `colonnade predict`, on files of rows."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer
from scipy import sparse

import colonnade as co
from colonnade.privacy.conditions import Code, Condition
from colonnade.runs.config import load_config
from tests.helpers.study_commands import INIT, LABEL, call, done
from tests.helpers.study_files import three_parties

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

NEW = (
    "--party",
    "registry=new_registry.csv",
    "--party",
    "bank=new_bank.csv",
    "--party",
    "callcentre=new_callcentre.csv",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    three_parties(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def study(*label: str) -> dict:
    done("init", *INIT, *(label or LABEL))
    return tomllib.loads(Path("study.toml").read_text())


def confirm(path: Path = Path("study.toml")) -> None:
    """What an owner does who finds all proposed figures fit to print."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith('source = "data"')))


# ------------------------------------------------------------------------------------------------ three commands


@pytest.mark.chance(1e-10, "both classes are seen: the extreme probabilities are 30 sds from a half, of 40 runs")
def test_three_commands_lead_from_files_to_predictions_in_the_labels_own_words(folder: Path) -> None:
    done("init", *INIT, *LABEL)
    confirm()
    told = json.loads(done("fit", "study.toml", "--epsilon", "20", "--json"))  # of little noise: both classes are seen
    assert "(20, 1e-06)-computational differential privacy" in told["privacy"]
    assert "declared public" not in told["privacy"]
    done("predict", "fit.json", *NEW, "-o", "scores.csv")
    found = pl.read_csv("scores.csv", schema_overrides={"client_id": pl.String})
    assert found.columns == ["client_id", "score", "probability", "class"]
    assert found["client_id"].to_list() == pl.read_csv("new_registry.csv", infer_schema=False)["client_id"].to_list()
    assert set(found["class"]) == {"yes", "no"}
    assert ((found["probability"] >= 0.5) == (found["class"] == "yes")).all()


@pytest.mark.chance(0, "scores of one saved model, computed twice")
def test_what_predict_writes_is_what_the_model_says_in_python(folder: Path) -> None:
    done("init", *INIT, *LABEL)
    done("fit", "study.toml", "--epsilon", "4", "--bounds-are-public")
    done("predict", "fit.json", *NEW)
    found = pl.read_csv("scores.csv", schema_overrides={"client_id": pl.String})
    model = co.load("fit.json")
    frames = {
        name: co.read(f"new_{name}.csv", schema=model.schemas[name], texts=["client_id"])
        for name in ("registry", "bank", "callcentre")
    }
    assert np.array_equal(model.scores(frames), found["score"].to_numpy())
    assert np.array_equal(model.predict_proba(frames), found["probability"].to_numpy())
    assert np.array_equal(model.predict(frames), found["class"].to_numpy())
    assert model.classes == ("no", "yes")


@pytest.mark.chance(0, "cells are counted by the schemas alone")
def test_predict_counts_the_cells_of_new_rows_that_the_model_does_not_take_as_they_are(folder: Path) -> None:
    done("init", *INIT, *LABEL)
    done("fit", "study.toml", "--epsilon", "4", "--bounds-are-public")
    rows = pl.read_csv("new_registry.csv", infer_schema=False)
    strange = int((rows["job"] == "worker").sum())
    rows.with_columns(pl.col("job").replace("worker", "sailor"), age=pl.lit("900")).write_csv("new_registry.csv")
    told = json.loads(done("predict", "fit.json", *NEW, "--json"))["mind"]
    assert sorted(line for line in told if line.startswith("registry")) == [
        f"registry: column 'age': {rows.height:,} of its {rows.height:,} values lie outside the declared bounds and "
        "count as the nearer one",
        f"registry: column 'job': {strange:,} of its {rows.height:,} values are none of its 4 declared levels and "
        "count as zeros",
    ]


def test_a_text_label_fits_the_same_model_as_its_numbers(folder: Path) -> None:
    """Without privacy, so that the two models may be compared to the bit."""
    done("init", *INIT, *LABEL)
    text = Path("study.toml").read_text()
    Path("words.toml").write_text(text[: text.index("[privacy]")].replace("fit.json", "words.json"))
    bank = pl.read_csv("bank.csv", separator=";", schema_overrides={"client_id": pl.String})
    bank.with_columns(subscribed=pl.col("subscribed") == "yes").write_csv("bank.csv")
    done("init", "numbers.toml", *INIT, "--label", "bank.subscribed")
    text = Path("numbers.toml").read_text()
    assert 'positive = "true"' in text
    Path("numbers.toml").write_text(text[: text.index("[privacy]")].replace("fit.json", "numbers.json"))
    done("fit", "numbers.toml")
    bank.write_csv("bank.csv")
    done("fit", "words.toml")
    one, other = co.load("words.json"), co.load("numbers.json")
    assert (one.classes, other.classes) == (("no", "yes"), ("false", "true"))
    assert one.intercept == other.intercept
    for party, x in one.coefficients.items():
        assert np.array_equal(x, other.coefficients[party])


# ------------------------------------------------------------------------------------------------ what init proposes


def test_each_kind_of_column_is_proposed_as_what_it_looks_like(folder: Path) -> None:
    data = study()["data"]
    columns = {c["name"]: c for party in data["parties"].values() for c in party["column"]}
    assert {name: column["type"] for name, column in columns.items()} == {
        "age": "numeric",
        "job": "categorical",
        "education": "numeric",
        "balance": "numeric",
        "housing": "binary",
        "opened": "date",
        "calls": "numeric",
        "duration": "numeric",
    }
    assert columns["opened"]["format"] == "%d.%m.%Y"
    assert columns["calls"]["missing"] == "indicator"
    assert columns["age"]["missing"] == "refuse"
    assert all(column["source"] == "data" for column in columns.values())
    assert data["label"] == {
        "party": "bank",
        "column": "subscribed",
        "positive": "yes",
        "negative": "no",
        "source": "data",
    }
    text = Path("study.toml").read_text()
    assert 'levels = ["1", "2", "3", "4"]' in text  # whole numbers that may be codes
    assert '# left out: "name" has 400 different texts in 400 rows' in text


def test_proposed_bounds_are_round_figures_or_those_of_a_name(folder: Path) -> None:
    """Neither the least nor the largest cell stands in the file: only what holds them."""
    balance = pl.read_csv("bank.csv", separator=";")["balance"]
    data = study()["data"]["parties"]
    age, own = data["registry"]["column"][0], data["bank"]["column"][0]
    assert (age["low"], age["high"]) == (0, 120)
    assert own["low"] <= balance.min() < balance.max() <= own["high"]
    assert own["low"] % 1000 == own["high"] % 1000 == 0
    text = Path("study.toml").read_text()
    assert [cell for cell in (str(balance.min()), str(balance.max())) if cell in text] == []


@pytest.mark.chance(0, "bounds and names of columns: no drawn figure is compared")
def test_a_label_that_is_a_number_is_regressed_on_within_bounds_that_are_marked(folder: Path) -> None:
    pl.read_csv("bank.csv", separator=";", infer_schema=False).drop("subscribed").write_csv("bank.csv")
    made = study("--label", "callcentre.duration")
    assert made["problem"]["loss"] == "LeastSquares"
    assert set(made["data"]["label"]) == {"party", "column", "low", "high", "source"}
    confirm()
    done("fit", "study.toml", "--epsilon", "4")
    model = co.load("fit.json")
    assert model.schemas["callcentre"].label.high == made["data"]["label"]["high"]
    done("predict", "fit.json", *NEW)
    assert pl.read_csv("scores.csv").columns == ["client_id", "score", "prediction"]


@pytest.mark.chance(0, "names of classes: nothing that was drawn is compared")
def test_of_three_classes_one_is_learnt_against_the_rest(folder: Path) -> None:
    made = study("--label", "registry.job=retired")
    assert made["data"]["label"]["positive"] == "retired"
    assert "negative" not in made["data"]["label"]
    done("fit", "study.toml", "--bounds-are-public")
    assert co.load("fit.json").classes == ("not retired", "retired")


def test_codes_may_be_made_levels_as_the_comment_says(folder: Path) -> None:
    study()
    text = Path("study.toml").read_text()
    block = next(part for part in text.split("\n\n") if 'name = "education"' in part)
    levels = 'type = "categorical"\nname = "education"\nlevels = ["1", "2", "3", "4"]'
    Path("study.toml").write_text(text.replace(block, f"[[data.parties.registry.column]]\n{levels}"))
    confirm()
    assert load_config("study.toml").federation.parties["registry"].schema.features[-4:] == (
        "education=1",
        "education=2",
        "education=3",
        "education=4",
    )


def test_what_a_number_may_be_is_proposed_in_comments_that_read_back(folder: Path) -> None:
    study()
    confirm()
    text = Path("study.toml").read_text()
    block = next(part for part in text.split("\n\n") if 'name = "age"' in part)
    said = [line.removeprefix("# ") for line in block.splitlines() if line.startswith("# ")]
    assert [line.split(" = ")[0] for line in said] == ["smooth", "values", "monotone"]
    assert load_config("study.toml").federation.parties["registry"].schema.columns[0].smooth is None
    bare = "\n".join(line.removeprefix("# ") for line in block.splitlines())
    Path("study.toml").write_text(text.replace(block, bare))
    age = load_config("study.toml").federation.parties["registry"].schema.columns[0]
    assert (age.name, age.smooth, age.values, age.monotone) == ("age", False, 5, 1)


def test_a_file_without_a_key_in_common_is_refused_before_anything_is_written(folder: Path) -> None:
    code, _, error = call("init", *INIT[:-1], "job", *LABEL)
    assert (code, Path("study.toml").exists()) == (1, False)
    assert "has no key column 'job'" in error or "repeat a key of 'job'" in error


def test_nothing_that_init_reads_leaves_but_in_its_file(folder: Path) -> None:
    """Its answer has counts, names and round figures, and no cell and no level."""
    out = done("init", *INIT, *LABEL)
    assert "Nothing left this machine" in out
    for cell in ("retired", "student", str(pl.read_csv("callcentre.csv")["duration"].max())):
        assert cell not in out


# ------------------------------------------------------------------------------------------------ marks


def test_a_figure_read_off_the_rows_enters_no_private_run_unconfirmed(folder: Path) -> None:
    study()
    for words in ((), ("--dry-run",)):
        code, out, error = call("fit", "study.toml", "--epsilon", "1", *words)
        assert (code, out) == (1, "")
        line = Path("study.toml").read_text().splitlines().index("[[data.parties.registry.column]]") + 1
        assert f"study.toml, line {line + 9} (source = " in error
        assert "'age' is \"data\", and 8 more like it" in error
        assert "--bounds-are-public" in error
    assert not Path("runs").exists()


def test_every_single_mark_that_is_left_is_refused_at_its_own_line(folder: Path) -> None:
    study()
    lines = Path("study.toml").read_text().splitlines(keepends=True)
    marked = [place for place, line in enumerate(lines) if line.startswith('source = "data"')]
    assert len(marked) == 9
    for one in marked:
        kept = [line for place, line in enumerate(lines) if place not in marked or place == one]
        Path("study.toml").write_text("".join(kept))
        code, _, error = call("fit", "study.toml", "--epsilon", "1")
        assert code == 1
        assert f"study.toml, line {kept.index(lines[one], one - len(marked)) + 1} (source = " in error
        assert "more like it" not in error
    assert not Path("runs").exists()


@pytest.mark.chance(0, "texts: nothing that was drawn is compared")
def test_figures_that_are_declared_public_are_repeated_by_the_statement_and_the_report(folder: Path) -> None:
    study()
    told = json.loads(done("fit", "study.toml", "--epsilon", "1", "--bounds-are-public", "--json"))
    said = "bounds were read from the data and declared public (registry, bank, callcentre)"
    assert said in told["privacy"]
    assert Condition(Code.BOUNDS_READ_OFF, ("registry", "bank", "callcentre")) in co.load("fit.json").privacy.conditions
    assert "read off the data and declared public" in Path("report.html").read_text()
    assert {schema.source for schema in co.load("fit.json").schemas.values()} == {"public"}


def test_one_decision_confirms_all_figures_and_the_statement_repeats_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study()
    before = Path("study.toml").read_text()
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: False)
    assert call("confirm", "study.toml")[0] == 1
    assert Path("study.toml").read_text() == before
    out = done("confirm", "study.toml", "--yes")
    assert "admin, retired, student, worker" in out  # whoever confirms levels sees them
    assert json.loads(done("confirm", "study.toml", "--json")) == {"file": "study.toml", "confirmed": 0}
    made = tomllib.loads(Path("study.toml").read_text())["data"]
    columns = [column for party in made["parties"].values() for column in party["column"]]
    assert {one.pop("source") for one in (made["label"], *columns)} == {"public"}
    old = tomllib.loads(before)["data"]
    del old["label"]["source"]
    for party in old["parties"].values():
        for column in party["column"]:
            del column["source"]
    assert made == old  # nothing else has changed
    asked = load_config("study.toml")
    assert {party.schema.source for party in asked.federation.parties.values()} == {"public"}


def test_a_mark_that_stands_on_no_line_of_its_own_is_left_and_said(folder: Path) -> None:
    study()
    text = Path("study.toml").read_text()
    begin, end = text.index("[[data.parties.callcentre.column]]"), text.index("[problem]")
    one = 'column = [{ type = "numeric", name = "calls", low = 0, high = 9, missing = 0, source = "data" }]\n\n'
    changed = text[:begin] + one + text[end:]
    Path("study.toml").write_text(changed)
    code, _, error = call("confirm", "study.toml", "--yes")
    assert (code, Path("study.toml").read_text()) == (1, changed)
    assert 'Write source = "public" there by hand' in error


@pytest.mark.chance(0, "refusals and texts, which go by the marks in the files")
def test_a_schema_file_read_off_the_rows_is_refused_and_may_be_declared_public_too(folder: Path) -> None:
    study()
    text = Path("study.toml").read_text()
    begin, end = text.index("[data.parties.callcentre]"), text.index("[problem]")
    done("data", "inspect", "callcentre.csv", "--leave-out", "client_id", "-o", "call.schema.toml")
    own = '[data.parties.callcentre]\nsource = "callcentre.csv"\nschema = "call.schema.toml"\n\n'
    Path("study.toml").write_text(text[:begin] + own + text[end:])
    confirm()
    code, _, error = call("fit", "study.toml", "--epsilon", "1")
    assert code == 1
    assert 'names call.schema.toml, which has the line source = "data"' in error
    assert done("confirm", "study.toml", "--yes", "--quiet") == "1\n"
    told = json.loads(done("fit", "study.toml", "--epsilon", "1", "--json"))
    assert "declared public (callcentre)" in told["privacy"]


def test_without_privacy_marks_are_no_matter(folder: Path) -> None:
    study()
    text = Path("study.toml").read_text()
    Path("study.toml").write_text(text[: text.index("[privacy]")])
    assert "Not private" in json.loads(done("fit", "study.toml", "--json"))["privacy"]
    assert call("fit", "study.toml", "--overwrite", "--epsilon", "1")[0] == 1


def test_the_budget_of_the_command_line_goes_before_that_of_the_file(folder: Path) -> None:
    study()
    confirm()
    assert load_config("study.toml").job.privacy == co.Privacy(1.0, 1e-6)
    assert load_config("study.toml", epsilon=2.0, delta=1e-7).job.privacy == co.Privacy(2.0, 1e-7)
    text = Path("study.toml").read_text()
    Path("study.toml").write_text(text[: text.index("[privacy]")])
    assert load_config("study.toml", epsilon=2.0).job.privacy == co.Privacy(2.0, 1e-6)
    assert load_config("study.toml").job.privacy is None
    with pytest.raises(co.InvalidInput, match="--delta 1e-07 goes with an epsilon"):
        load_config("study.toml", delta=1e-7)
    code, *_, error = call("fit", "study.toml", "--delta", "1e-7")  # never a fit without privacy
    assert code == 1
    assert "--delta 1e-07 goes with an epsilon: say --epsilon 1" in error
    assert not Path("fit.json").exists()


# ------------------------------------------------------------------------------------------------ simulate


@pytest.mark.chance(0, "only figures without privacy are compared; private ones are listed by name")
def test_a_simulation_compares_budgets_with_each_party_alone_and_keeps_nothing(folder: Path) -> None:
    study()
    before = sorted(folder.iterdir())
    code, _, error = call("simulate", "study.toml")
    assert (code, "--bounds-are-public" in error) == (1, True)
    words = ("--epsilons", "1,1000", "--splits", "2", "--bounds-are-public")
    told = json.loads(done("simulate", "study.toml", *words, "--json"))
    models = {(line["method"], line["epsilon"]): line["AUC"] for line in told["models"]}
    assert [name for name, _ in models] == [
        "private Gram",
        "private Gram",
        "together, not private",
        "registry alone, not private",
        "bank alone, not private",
        "callcentre alone, not private",
    ]
    assert "nobody paid for them" in told["note"]
    assert sorted(folder.iterdir()) == before
    # The same rows as one table, which `co.simulate` splits alike.
    whole = load_config("study.toml", public=True).federation
    matrix = np.hstack([_dense(party.block.matrix) for party in whole.parties.values()])
    problem, method = co.Problem(co.Logistic(), co.L1Ball(1.0)), co.DistributedFrankWolfe(rounds=1)
    other = co.simulate(matrix, whole.labels, 1, methods=[method], splits=2, problem=problem)
    (line,) = other.table().filter(pl.col("method") == "together, not private").iter_rows(named=True)
    assert models["together, not private", None] == pytest.approx(line["AUC"], abs=1e-12)


OTHER = tuple(word for name in ("registry", "bank", "callcentre") for word in ("--party", f"{name}=other_{name}.csv"))


@pytest.mark.chance(0, "figures without privacy, and texts; private ones are not looked at")
def test_a_simulation_on_other_rows_reads_none_of_the_studys(folder: Path) -> None:
    """So an epsilon can be chosen without a look at the rows that the release will be about."""
    study()
    words = ("--epsilons", "1", "--splits", "2", "--bounds-are-public")
    own = json.loads(done("simulate", "study.toml", *words, "--json"))
    for name in ("registry", "bank", "callcentre"):
        table = pl.read_csv(f"{name}.csv", infer_schema=False)
        table.reverse().head(200).write_csv(f"other_{name}.csv")
        Path(f"{name}.csv").unlink()
    other = json.loads(done("simulate", "study.toml", *OTHER, *words, "--json"))
    figures = [{x["method"]: x["AUC"] for x in told["models"] if x["epsilon"] is None} for told in (own, other)]
    assert figures[0].keys() == figures[1].keys()
    assert figures[0] != figures[1]
    code, _, error = call("simulate", "study.toml", *OTHER, *words)
    assert code == 0
    assert "these are the study's own rows" not in error


@pytest.mark.chance(0, "texts; private figures are not looked at")
def test_a_simulation_on_the_studys_own_rows_says_what_that_means(folder: Path) -> None:
    study()
    code, _, error = call("simulate", "study.toml", "--epsilons", "1", "--splits", "2", "--bounds-are-public")
    assert code == 0
    assert "these are the study's own rows: an epsilon that is chosen by them tells about them" in error
    assert "--party NAME=FILE for every party" in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (OTHER[:4], "other rows are needed of every party, and of 'callcentre' there are none"),
        ((*OTHER, "--party", "lab=x.csv"), "there is no party 'lab'; there are registry, bank, callcentre."),
        ((*OTHER[:2], *OTHER[:2]), "names the party twice"),
    ],
)
def test_other_rows_are_of_all_parties_or_of_none(words: tuple[str, ...], said: str, folder: Path) -> None:
    study()
    code, _, error = call("simulate", "study.toml", *words, "--bounds-are-public")
    assert code == 1
    assert said in error


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else matrix


# ------------------------------------------------------------------------------------------------ predict


@pytest.fixture
def model(folder: Path) -> Path:
    done("init", *INIT, *LABEL)
    text = Path("study.toml").read_text()
    Path("study.toml").write_text(text[: text.index("[privacy]")])
    done("fit", "study.toml")
    return folder / "fit.json"


def test_rows_in_another_order_and_files_of_another_form_get_the_same_scores(model: Path) -> None:
    done("predict", "fit.json", *NEW, "-o", "one.csv")
    for name, separator in (("bank", "\t"), ("callcentre", ";")):
        frame = pl.read_csv(f"new_{name}.csv", infer_schema=False)
        frame.sample(fraction=1.0, shuffle=True, seed=3).write_csv(f"new_{name}.csv", separator=separator)
    done("predict", "fit.json", *NEW, "-o", "two.csv")
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()


def test_rows_that_not_every_party_has_get_no_score_and_are_counted(model: Path) -> None:
    pl.read_csv("new_bank.csv", infer_schema=False).head(60).write_csv("new_bank.csv")
    out = done("predict", "fit.json", *NEW)
    assert "60 rows matched in all parties; left out: registry 40, callcentre 40" in out
    assert pl.read_csv("scores.csv").height == 60


@pytest.mark.chance(0, "refusals, files, and scores of one release that is solved again")
def test_a_party_is_left_out_only_if_that_is_asked_for_and_then_for_free(folder: Path) -> None:
    done("init", *INIT, *LABEL)
    done("fit", "study.toml", "--epsilon", "4", "--bounds-are-public")
    code, _, error = call("predict", "fit.json", *NEW[:4])
    assert (code, Path("scores.csv").exists()) == (1, False)
    assert "'callcentre' is missing. Add --party callcentre=FILE" in error
    assert "solves the model again without it, from the same release and for free" in error
    spent = {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
    told = json.loads(done("predict", "fit.json", *NEW[:4], "--without", "callcentre", "--json"))
    assert (told["without"], told["refitted"]) == (["callcentre"], True)
    assert spent == {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
    files = {name: f"new_{name}.csv" for name in ("registry", "bank")}
    found = pl.read_csv("scores.csv")
    assert np.array_equal(co.load("fit.json").without("callcentre").scores(files), found["score"].to_numpy())
    assert set(found["class"]) <= {"yes", "no"}


def test_of_a_model_without_a_release_a_partys_part_is_left_out(folder: Path) -> None:
    done("init", *INIT, *LABEL)
    text = Path("study.toml").read_text()
    Path("study.toml").write_text(text[: text.index("[privacy]")])
    done("fit", "study.toml")
    assert "leaves its part out of every score" in call("predict", "fit.json", *NEW[:4])[2]
    told = json.loads(done("predict", "fit.json", *NEW[:4], "--without", "callcentre", "--json"))
    assert told["refitted"] is False
    files = {name: f"new_{name}.csv" for name in ("registry", "bank")}
    wanted = co.load("fit.json").scores(files, without=["callcentre"])
    assert np.array_equal(wanted, pl.read_csv("scores.csv")["score"].to_numpy())


def test_one_table_without_a_key_is_scored_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, (200, 2))
    table = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": (x.sum(axis=1) > 1).astype(int)})
    table.write_csv("t.csv")
    Path("study.toml").write_text(
        '[data]\nsource = "t.csv"\nlabel = ["one", "y"]\n[data.parties.one]\ncolumns = ["a"]\n'
        '[data.parties.two]\ncolumns = ["b"]\n[problem]\nloss = "Logistic"\npenalty = { type = "Ridge", a = 0.01 }\n'
    )
    done("fit", "study.toml")
    done("predict", "fit.json", "--party", "one=t.csv", "--party", "two=t.csv")
    found, fit = pl.read_csv("scores.csv"), co.load("fit.json")
    assert found["row number"].to_list() == list(range(1, 201))
    assert np.array_equal(fit.scores(table), found["score"].to_numpy())
    assert set(found["class"]) == {0, 1}
