"""`colonnade sparse`: one file of rows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from colonnade.cli import app

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(300):
        row = {int(j): float(rng.uniform(0.1, 0.9)) for j in rng.choice(np.arange(1, 40), 6, replace=False)}
        label = 1 if 3 in row else -1
        lines.append(f"{label} " + " ".join(f"{j}:{row[j]:.3f}" for j in sorted(row)))
    path = tmp_path / "train.svm"
    path.write_text("\n".join(lines) + "\n")
    return path


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["sparse", *map(str, words)])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_a_file_is_fitted_and_the_model_written(data: Path, tmp_path: Path) -> None:
    code, out, _ = call(data, "--radius", 5, "--output", tmp_path / "m.json", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 300
    model = json.loads((tmp_path / "m.json").read_text())
    assert model["privacy"] is None
    assert 2 in model["coefficients"][0]["places"]  # the third column decides


@pytest.mark.chance(0, "how many fits were charged, refusals and a word, whatever is picked")
def test_a_private_fit_says_so_and_is_charged(data: Path, tmp_path: Path) -> None:
    words = [data, "--epsilon", 1, "--classes=-1,1", "--ledger", tmp_path / "train.ledger"]
    words += ["--columns", 39, "--output", tmp_path / "m.json"]
    for fits in (1, 2):
        code, out, error = call(*words, *(["--overwrite"] if fits > 1 else []))
        assert code == 0, error
        assert f"{fits} fit" in out  # the refused one below was not charged
        before = (tmp_path / "m.json").read_bytes()
        code, _, error = call(*words)
        assert (code, before) == (1, (tmp_path / "m.json").read_bytes())
        assert "Another fit would cost epsilon 1 once more. Say --overwrite" in error
    assert json.loads((tmp_path / "m.json").read_text())["privacy"]["guarantee"] == "proven"


@pytest.mark.chance(0, "texts about delta and an exit code, whatever is picked")
@pytest.mark.parametrize("task", ["classify", "regress"])
def test_a_delta_of_one_over_rows_is_refused_and_taken_by_the_flag_that_the_refusal_names(
    data: Path, tmp_path: Path, task: str
) -> None:
    words = [data, "--epsilon", 1, "--delta", 0.01, "--columns", 39, "--task", task]
    words += ["--classes=-1,1"] if task == "classify" else ["--label-range=-1,1"]
    words += ["--ledger", tmp_path / "train.ledger", "--output", tmp_path / "m.json"]
    code, _, error = call(*words)
    assert (code, (tmp_path / "m.json").exists()) == (1, False)
    assert "delta=0.01 is not below 1/rows = 0.0033" in error
    (flag,) = re.findall(r"`colonnade sparse`: (--[a-z-]+)", error)
    code, out, error = call(*words, flag)
    assert code == 0, error
    assert "Note: delta=0.01 is not below 1/rows" in " ".join(out.split())
    assert "Note: delta=0.01" in json.loads((tmp_path / "m.json").read_text())["privacy"]["sentence"]


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (".", "is a folder; name a file in it"),
        ("none/m.json", "does not exist"),
        ("m" * 300, "cannot be written: File name too long."),
    ],
)
def test_a_model_that_has_no_place_is_refused_before_it_is_paid(
    place: str, says: str, data: Path, tmp_path: Path
) -> None:
    words = [data, "--epsilon", 1, "--classes=-1,1", "--ledger", tmp_path / "train.ledger", "--columns", 39]
    code, _, error = call(*words, "--output", tmp_path / place)
    assert (code, (tmp_path / "train.ledger").exists()) == (1, False)
    assert says in error
    assert "report" not in error


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["--epsilon", "1", "--columns", "39"], "classes="),
        (["--epsilon", "1", "--classes=a,b"], "list of numbers"),
        (["--epsilon", "1", "--classes=-1,1"], "--columns"),
        (["--task", "cluster"], "classify or regress"),
        (["--radius", "0"], "radius"),
    ],
)
def test_a_mistake_is_one_line_with_advice(data: Path, tmp_path: Path, words: list[str], advice: str) -> None:
    code, _, error = call(data, "--output", tmp_path / "m.json", *words)
    assert code == 1
    assert advice in error
    assert not (tmp_path / "m.json").exists()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, _, error = call(tmp_path / "none.svm")
    assert code == 1
    assert "is not a file" in error
