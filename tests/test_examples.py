"""The notebooks of examples/: shown as they ran, small, and running."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


def runner() -> Any:
    spec = importlib.util.spec_from_file_location("examples_run", EXAMPLES / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(name: str) -> list[dict[str, Any]]:
    return json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]


def test_there_are_four_stories() -> None:
    assert NOTEBOOKS == ["bank_and_bureau.ipynb", "hospitals.ipynb", "statistics.ipynb", "text_on_one_machine.ipynb"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_shows_what_each_of_its_cells_gave(name: str) -> None:
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        last = ast.parse("".join(cell["source"])).body[-1]
        assert bool(cell["outputs"]) or not isinstance(last, ast.Expr), "".join(cell["source"])
        assert all(output["output_type"] in ("stream", "execute_result") for output in cell["outputs"])


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_small_and_of_no_machine(name: str) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert len(text.encode()) < 300_000
    assert not re.search(r"/(home|root|tmp|work|Users)/|Warning:|Traceback", text)
    assert cells(name)[0]["cell_type"] == "markdown"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_has_the_form_that_jupyter_reads(name: str) -> None:
    whole = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
    assert (whole["nbformat"], whole["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in whole["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", one) for one in ids)


def test_the_runner_names_the_cell_that_fails(tmp_path: Path) -> None:
    failing = {"cells": [{"cell_type": "code", "source": ["1 / 0"], "outputs": [], "execution_count": None}]}
    (tmp_path / "bad.ipynb").write_text(json.dumps(failing))
    with pytest.raises(ZeroDivisionError) as caught:
        runner().run_notebook(tmp_path / "bad.ipynb")
    assert caught.value.__notes__ == ["in cell 1 of bad.ipynb"]


def test_the_runner_keeps_what_is_printed_and_what_the_last_line_is_worth(tmp_path: Path) -> None:
    source = ["print('a')\n", "import polars as pl\n", "pl.DataFrame({'x': [1]})"]
    one = {"cells": [{"cell_type": "code", "source": source, "outputs": [], "execution_count": None}]}
    (tmp_path / "one.ipynb").write_text(json.dumps(one))
    (cell,) = runner().run_notebook(tmp_path / "one.ipynb")["cells"]
    stream, result = cell["outputs"]
    assert stream["text"] == ["a\n"]
    assert set(result["data"]) == {"text/plain", "text/html"}
    assert cell["execution_count"] == 1


@pytest.mark.slow
@pytest.mark.notebooks
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_top_to_bottom(name: str) -> None:
    again = runner().run_notebook(EXAMPLES / name)["cells"]
    shown = [[output["output_type"] for output in cell.get("outputs", ())] for cell in again]
    assert shown == [[output["output_type"] for output in cell.get("outputs", ())] for cell in cells(name)]
