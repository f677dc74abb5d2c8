"""How large the house is, and how often one fact is asked for outside its file: figures of the source text alone.

python -m benchmarks house             this tree
python benchmarks/house.py FOLDER      another one, such as a worktree of an earlier commit

lines      of code at width 120: without blanks, comments, docstrings and imports
packed     `a, b = x, y`, among all assignments
asked of   isinstance, match cases and type() of a column kind or a loss outside the files that define them
words      of the documents, as `wc -w` counts
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
KINDS = {"Numeric", "Categorical", "Binary", "Date", "Plain"}
LOSSES = {"LeastSquares", "Logistic", "SquaredHinge", "Hinge", "Huber", "Absolute", "Quantile", "Poisson"}
OWN = ("data/schema/column", "problem/loss")
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
ASSIGNMENTS = ast.Assign | ast.AnnAssign | ast.AugAssign


class Size(NamedTuple):
    files: int
    lines: int
    assignments: int
    packed: int
    kinds: int
    losses: int
    words: int


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines with a token on them that is code."""
    said = {
        token.start[0] + k
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in SILENT and token.type != tokenize.ENDMARKER
        for k in range(token.end[0] - token.start[0] + 1)
    }
    return len(said - set(_silent(tree)))


def _silent(tree: ast.Module) -> Iterator[int]:
    """Lines of imports and docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from range(node.lineno, (node.end_lineno or 0) + 1)
        if isinstance(node, DOCUMENTED) and node.body and ast.get_docstring(node, clean=False) is not None:
            yield from range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


def is_packed(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def asked_of(node: ast.AST, names: set[str]) -> bool:
    """Whether it asks if something is one of these."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass") and len(node.args) == 2:
        return bool(_names(node.args[1]) & names)
    if isinstance(node, ast.MatchClass):
        return bool(_names(node.cls) & names)
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        return any(ast.unparse(side).startswith("type(") for side in sides) and bool(_names(node) & names)
    return False


def _names(node: ast.AST) -> set[str]:
    found = (getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(node))
    return {name for name in found if name}


def size_of(root: Path) -> Size:
    source = root / "src/colonnade"
    files = sorted(source.rglob("*.py"))
    nodes: list[ast.AST] = []
    elsewhere: list[ast.AST] = []
    lines = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        lines += code_lines(text, tree)
        nodes += ast.walk(tree)
        elsewhere += () if file.relative_to(source).as_posix().startswith(OWN) else ast.walk(tree)
    return Size(
        len(files),
        lines,
        _count(isinstance(node, ASSIGNMENTS) for node in nodes),
        _count(map(is_packed, nodes)),
        _count(asked_of(node, KINDS) for node in elsewhere),
        _count(asked_of(node, LOSSES) for node in elsewhere),
        sum(len(page.read_text(encoding="utf-8").split()) for page in (root / "docs").rglob("*.md")),
    )


def _count(found: Iterable[bool]) -> int:
    return sum(found)


def main(quick: bool = True, root: Path = ROOT) -> int:  # noqa: ARG001  one size
    size = size_of(root)
    print(f"   files                {size.files:,}")
    print(f"   lines                {size.lines:,}")
    print(f"   packed               {size.packed:,} of {size.assignments:,} ({size.packed / size.assignments:.1%})")
    print(f"   asked of a kind      {size.kinds:,}")
    print(f"   asked of a loss      {size.losses:,}")
    print(f"   words of documents   {size.words:,}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(root=Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
