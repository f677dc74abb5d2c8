"""Run the notebooks of this folder and write their outputs into them: python examples/run.py [NOTEBOOK.ipynb ...]

Each runs by itself, from top to bottom, in an empty folder, as a kernel would run it: what a cell prints, and what its
last line is worth, as text, HTML or a plotly figure. It needs no Jupyter. Noise is fresh in every run, so that private
figures come out a little different each time.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent


def run_notebook(path: Path) -> dict[str, Any]:
    """The notebook with the outputs of a fresh run; the error of a cell names the cell."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    space: dict[str, Any] = {"__name__": "__main__"}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            count = 0
            for number, cell in enumerate(notebook["cells"]):
                if cell["cell_type"] == "code":
                    count += 1
                    try:
                        cell["outputs"] = _outputs("".join(cell["source"]), space, count)
                    except BaseException as error:
                        error.add_note(f"in cell {number + 1} of {path.name}")
                        raise
                    cell["execution_count"] = count
        finally:
            os.chdir(here)
    return notebook


def _outputs(source: str, space: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        exec(compile(tree, "cell", "exec"), space)  # noqa: S102  # what a notebook is for
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), space)  # noqa: S307
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        result = {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": _bundle(value)}
        found.append(result)
    return found


def _bundle(value: Any) -> dict[str, Any]:
    """A value as a page may show it."""
    if hasattr(value, "to_plotly_json"):
        figure = json.loads(value.to_json())
        figure["layout"].pop("template", None)  # the page's own
        return {"application/vnd.plotly.v1+json": figure, "text/plain": ["a plotly figure"]}
    bundle: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_") and (html := value._repr_html_()) is not None:
        bundle["text/html"] = str(html).splitlines(keepends=True)
    return bundle


def main(words: list[str]) -> None:
    for path in [Path(word).resolve() for word in words] or sorted(FOLDER.glob("*.ipynb")):
        text = json.dumps(run_notebook(path), indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(text.encode()):,} bytes")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
