"""The recipes of CONTRIBUTING.md for a column kind and a loss, followed to the letter: a file, its export, and no more."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import colonnade as co

pytestmark = pytest.mark.chance(0, "ids, keys, masks and noise are drawn: no claim depends on them")

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(co.__file__).parent
EXPORTS = {"__init__.py", "__init__.pyi"}


def blocks(heading: str) -> list[tuple[str, str, str]]:
    """Of a recipe's blocks of code: the file that is written, above which of its lines, and what."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = []
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        first, _, rest = block.partition("\n")
        place = re.fullmatch(r"# src/colonnade/(\S+?)(?:, above (.+))?", first)
        assert place is not None, f"{first!r} names no file of the package"
        found.append((place[1], place[2] or "", rest))
    return found


def follow(heading: str, package: Path) -> set[str]:
    """Apply a recipe to a copy of the package; the files that it touched."""
    shutil.copytree(SOURCE, package, copy_function=os.symlink)  # with the kernels that are compiled already
    for name, anchor, text in blocks(heading):
        file = package / name
        assert file.exists() == bool(anchor), f"{name} is new, or a line of it is named"
        lines = file.read_text().splitlines(keepends=True) if anchor else []
        places = [k for k, line in enumerate(lines) if line.strip().startswith(anchor)] if anchor else [0]
        assert len(places) == 1, f"{len(places)} lines of {name} begin with {anchor}"
        file.unlink(missing_ok=True)
        file.write_text("".join([*lines[: places[0]], text, *lines[places[0] :]]))
    return {
        str(file.relative_to(package)) for file in package.rglob("*.py*") if file.is_file() and not file.is_symlink()
    }


@pytest.mark.parametrize(
    ("heading", "serves", "file"),
    [
        ("Add a column kind", "column", "data/schema/cycle.py"),
        ("Add a loss", "loss", "problem/expectile.py"),
    ],
)
def test_a_file_and_its_export_are_all_that_a_new_value_needs(
    heading: str, serves: str, file: str, tmp_path: Path
) -> None:
    assert follow(heading, tmp_path / "src" / "colonnade") == {file} | EXPORTS
    (tmp_path / "made").mkdir()
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "tests.helpers.with_a_new_value", serves]
    around = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(ROOT)])}
    done = subprocess.run([*command, tmp_path / "made"], cwd=ROOT, env=around, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_examples_of_the_recipes_are_no_part_of_the_package() -> None:
    names = {
        name for heading in ("Add a column kind", "Add a loss") for name, anchor, _ in blocks(heading) if not anchor
    }
    assert names
    assert not any((SOURCE / name).exists() for name in names)
