"""A job in a file: what it makes, and the line that every mistake is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

import colonnade as co
from colonnade.data.text_file import at_line, read_text
from colonnade.errors import InvalidInput
from colonnade.runs.config import load_job

WHOLE = """\
[problem]
loss = "Logistic"
penalty = { type = "ElasticNet", l1 = 0.01, l2 = 0.1 }
intercept = true

[method]
type = "PrivateGram"
cross = "secure"

[privacy]
epsilon = 1.0
delta = 1e-6
trust = "secure"
row_norm = { clinic = 2.0, lab = 1.0 }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_job_file_makes_the_values_that_a_program_would_write(tmp_path: Path) -> None:
    job = load_job(written(tmp_path, WHOLE))
    assert co.Problem(co.Logistic(), penalty=co.ElasticNet(0.01, 0.1), intercept=True) == job.problem
    assert co.PrivateGram(cross="secure") == job.method
    norms = {"clinic": 2.0, "lab": 1.0}
    assert co.Privacy(1.0, 1e-6, trust="secure", row_norm=norms) == job.privacy


def test_tables_that_others_read_are_handed_on_as_they_are(tmp_path: Path) -> None:
    job = load_job(
        written(tmp_path, 'store = "runs"\n' + WHOLE + "[data]\nx = 1\n"), others=("store", "data", "report")
    )
    assert dict(job.rest) == {"store": "runs", "data": {"x": 1}}


# What is written instead of WHOLE; the line that the answer names; words of the answer.
MISTAKES = [
    ("[problem\n", None, "not a TOML file"),
    ("[solver]\nx = 1\n", 1, "solver is unknown; there are problem, method, privacy"),
    ("[method]\n", None, "has no [problem]; write at least"),
    ("problem = 3\n", 1, "must be a table, as in [problem]"),
    ('[problem]\nloss = "Logistc"\n', 2, '"Logistc" is not known; write loss = "Logistic"'),
    ('[problem]\nloss = "Poissson"\n', 2, '"Poissson" is not known; write loss = "Poisson"'),
    ('[problem]\nloss = "Logistic"\nradius = 3\n', 3, "Problem has no 'radius'; it has loss, constraint, penalty"),
    ('[problem]\nloss = "Logistic"\npenalty = { type = "Ridge", a = -1 }\n', 3, "a must be"),
    ('[problem]\nloss = "Logistic"\npenalty = { type = "Rigde", a = 1 }\n', 3, "'Rigde' is not a value of colonnade"),
    ('[problem]\ntype = "Ridge"\na = 1.0\n', 1, "Ridge is no problem"),
    ('[problem]\nloss = "Logistic"\n[method]\nrounds = 3\n', 3, 'needs type = "..."'),
    ('[problem]\nloss = "Logistic"\n[method]\ntype = "Ridge"\na = 1.0\n', 3, "Ridge is no method"),
    (
        '[problem]\nloss = "Logistic"\n[privacy]\nepsilon = 0\ndelta = 1e-6\n',
        4,
        "epsilon must be a finite number above 0",
    ),
    ('[problem]\nloss = "Logistic"\n[privacy]\nepsilon = 1\n', 3, "Privacy needs delta"),
    ('[problem]\nloss = "Logistic"\n[privacy]\ntype = "Logistic"\n', 3, "Logistic says nothing about privacy"),
]


@pytest.mark.parametrize(("text", "line", "words"), MISTAKES, ids=[words[:40] for _, _, words in MISTAKES])
def test_every_mistake_is_answered_with_its_line_and_what_to_write(
    tmp_path: Path, text: str, line: int | None, words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_job(written(tmp_path, text))
    assert words in str(caught.value)
    assert str(tmp_path / "job.toml") in str(caught.value)
    if line is not None:
        assert f", line {line} (" in str(caught.value)


def test_the_line_of_a_key_is_found_inside_its_own_table() -> None:
    text = '[one]\nsource = "a"\n[two]\n# source is below\nsource = "b"\n'
    assert "f, line 5 (" in str(at_line("f", text, "two.source", "wrong"))
    assert "f, line 2 (" in str(at_line("f", text, "one.source", "wrong"))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"absent\.toml: No such file or directory\. Check the path"):
        read_text(tmp_path / "absent.toml")
    (tmp_path / "bytes").write_bytes(b"ab\xff")
    with pytest.raises(InvalidInput, match=r"not a text file \(byte 2 is not UTF-8\)"):
        read_text(tmp_path / "bytes")
