"""What a saved fit is used for at the command line: how good it is, a scorecard, a report, and in short what it says of privacy."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import log_loss, roc_auc_score

import colonnade as co
from colonnade.cli.terminal import UNCUT
from colonnade.privacy.conditions import Code, Condition
from colonnade.views.verdict import privacy_in_short
from tests.helpers.study_commands import INIT, LABEL, call, done
from tests.helpers.study_files import three_parties

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a private fit at a budget that drowns no signal, and what the command said."""
    folder = tmp_path_factory.mktemp("studied")
    three_parties(folder)
    with pytest.MonkeyPatch.context() as there:
        there.chdir(folder)
        done("init", *INIT, *LABEL)
        done("confirm", "study.toml", "--yes")
        said = done("fit", "study.toml", "--epsilon", "16")
    return folder, said


@pytest.fixture
def folder(studied: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(studied[0])
    return studied[0]


OLD = ("--party", "registry=registry.csv", "--party", "bank=bank.csv", "--party", "callcentre=callcentre.csv")


@pytest.mark.chance(1e-10, "no line says that noise swamps it: a signal 13 sds over 2.33 in 63 runs")
def test_a_fit_says_its_verdict_in_a_few_lines_and_where_the_whole_stands(studied: tuple[Path, str]) -> None:
    lines = {line[:12].strip(): line[13:] for line in studied[1].splitlines()}
    assert lines["verdict"].startswith("private: ε = 16 at δ = 1e-06 for one row, if all follow the protocol")
    assert "in at most 99.9999888 % of cases" in studied[1]  # e^16 / (1 + e^16) = 0.999999887
    assert "class sums of the columns" in lines["left noisy"]
    assert "one-time masks" in lines["left masked"]
    assert "bounds were read from the data and declared public (registry, bank, callcentre)" in lines["mind"]
    assert "Privacy” in report.html" in lines["statement"]
    sentence = co.load(studied[0] / "fit.json").privacy.sentence
    assert sentence not in studied[1]
    assert "bounds were read from the data" in sentence
    assert max(map(len, studied[1].splitlines())) < len(sentence) / 2 < UNCUT


@pytest.mark.chance(0, "words of the statement, which the plan fixes")
def test_the_verdict_in_short_names_what_a_reader_must_know(studied: tuple[Path, str]) -> None:
    notes = (Condition(Code.BOUNDS_READ_OFF, ("bank",)), Condition(Code.PARTIES_LOST, (("lab", "in round 2"),)))
    said = replace(co.load(studied[0] / "fit.json").privacy, conditions=notes)
    assert privacy_in_short(said)["mind"] == "; ".join(one.full for one in notes)
    open_to_all = replace(said, guarantee="none", epsilon=float("inf"), derivation="exact values left")
    assert privacy_in_short(open_to_all)["verdict"].startswith("not private: exact values left")


@pytest.mark.chance(1e-9, "at worst scores round otherwise: 4e4 pairs, of scores within 1e-15")
def test_figures_of_rows_at_hand_are_those_that_others_compute(folder: Path) -> None:
    told = json.loads(done("evaluate", "fit.json", *OLD, "--json"))
    model = co.load("fit.json")
    frames = {
        name: co.read(f"{name}.csv", schema=model.schemas[name], texts=["client_id"]) for name in model.coefficients
    }
    labels = pl.read_csv("bank.csv", separator=";", infer_schema=False).select("client_id", "subscribed")
    order = frames["registry"].select("client_id").join(labels, on="client_id", how="left", maintain_order="left")
    positive = (order["subscribed"] == "yes").to_numpy()
    scores, chances = model.scores(frames), model.predict_proba(frames)
    value = {name: figure["value"] for name, figure in told["figures"].items()}
    assert value["AUC"] == pytest.approx(roc_auc_score(positive, scores))
    assert value["Gini"] == pytest.approx(2 * roc_auc_score(positive, scores) - 1)
    assert value["KS"] == pytest.approx(ks_2samp(scores[positive], scores[~positive]).statistic)
    assert value["log loss"] == pytest.approx(log_loss(positive, chances))
    assert sum(group["rows"] for group in told["calibration"]) == told["rows"] == 400
    assert "no epsilon covers" in told["mind"][0]


@pytest.mark.chance(0, "the words of refusals and of a page")
def test_an_evaluation_asks_for_what_it_lacks(folder: Path) -> None:
    bank = pl.read_csv("bank.csv", separator=";", infer_schema=False)
    bank.drop("subscribed").write_csv("plain_bank.csv")
    bank.with_columns(pl.col("subscribed").replace("no", "nein")).write_csv("other_bank.csv")
    for words, said in (
        ((*OLD[:2], *OLD[4:]), "'bank' is missing. Add --party bank=FILE"),
        ((*OLD[:2], "--party", "bank=plain_bank.csv", *OLD[4:]), "has no column 'subscribed' to use as label"),
        ((*OLD, "--report", "good.html"), "--report and --rows-are go together"),
        ((*OLD[:2], "--party", "bank=other_bank.csv", *OLD[4:]), "labels of evaluation= are neither 'no' nor 'yes'"),
    ):
        code, out, error = call("evaluate", "fit.json", *words)
        assert (code, out) == (1, "")
        assert said in error
    done("evaluate", "fit.json", *OLD, "--report", "good.html", "--rows-are", "public")
    assert "These rows are public" in Path("good.html").read_text()


@pytest.mark.chance(1e-10, "points need a slope above 0: 17 sds over 63 runs")
def test_a_scorecard_is_that_of_the_model_in_the_form_that_its_name_says(folder: Path) -> None:
    card = co.load("fit.json").scorecard(500, 20, 40, good=1)
    for ending, write in (
        (".html", card.to_html),
        (".csv", card.to_csv),
        (".json", card.to_json),
        (".py", card.to_python),
    ):
        done(
            "scorecard",
            "fit.json",
            "-o",
            f"card{ending}",
            "--points",
            500,
            "--odds",
            20,
            "--double",
            40,
            "--good",
            "yes",
        )
        assert Path(f"card{ending}").read_text() == write(folder / f"own{ending}").read_text()
    code, _, error = call("scorecard", "fit.json", "-o", "card.csv")
    assert (code, "card.csv already exists. Say --overwrite" in error) == (1, True)
    code, _, error = call("scorecard", "fit.json", "-o", "card.xlsx")
    assert (code, "end the name with .html, .csv, .json, .py" in error) == (1, True)
    code, _, error = call("scorecard", "fit.json", "-o", "other.csv", "--good", "Yes")
    assert (code, "the model's classes are no and yes" in error) == (1, True)


@pytest.mark.chance(0, "the page of one fit written twice")
def test_a_report_is_not_written_over_unasked_and_an_officers_page_finds_its_store(folder: Path) -> None:
    before = Path("report.html").read_bytes()
    Path("report.html").write_text("mine")
    code, _, error = call("report", "fit.json")
    assert (code, Path("report.html").read_text()) == (1, "mine")
    assert "report.html already exists. Say --overwrite, or name another file with --output" in error
    done("report", "fit.json", "--overwrite")
    assert Path("report.html").read_bytes() == before
    done("report", "fit.json", "--officer")
    assert "left of the limit" in Path("officer.html").read_text()


@pytest.mark.chance(0, "keys that the test gives")
def test_a_text_that_a_spreadsheet_would_compute_is_written_as_a_text(folder: Path) -> None:
    for name in ("registry", "bank", "callcentre"):
        rows = pl.read_csv(f"new_{name}.csv", infer_schema=False).sort("client_id").head(3)
        keys = pl.Series("client_id", ["=1+1", "-7", "@x"])
        rows.with_columns(keys).write_csv(f"strange_{name}.csv")
    files: list[Any] = [f"--party={name}=strange_{name}.csv" for name in ("registry", "bank", "callcentre")]
    done("predict", "fit.json", *files, "-o", "strange.csv")
    with Path("strange.csv").open(newline="") as lines:
        assert sorted(row["client_id"] for row in csv.DictReader(lines)) == ["'=1+1", "'@x", "-7"]
