"""Which code a case's rows come from: the version under which they are kept.

    version("papers.figures.lou_1_2", run_2)

Counted   every source of the package; of this folder what `run` reaches: its own definition, the names it uses, the names those use, and so on
          through imports. A change of a drawing, of a claim or of its check runs nothing again; a change of what is computed does.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import colonnade

PACKAGE = tuple(Path(place).resolve() for place in colonnade.__path__)
OWN = ("papers",)  # packages whose definitions are followed one by one


def version(module: str, run: Callable[..., Any]) -> str:
    """Of the package, with SHA-256 over its sources and over every definition that `run` reaches."""
    digest = hashlib.sha256()
    for root in PACKAGE:
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for place, text in sorted(reached(module, run).items()):
        digest.update(f"{place}\0{text}\0".encode())
    return f"{importlib.metadata.version('colonnade')}+{digest.hexdigest()[:16]}"


def reached(module: str, run: Callable[..., Any]) -> dict[str, str]:
    """Definitions by "module:name", each as its syntax tree says it: comments and line breaks do not count."""
    while isinstance(run, partial):
        run = run.func
    first = (run.__module__, run.__qualname__.partition(".")[0])
    followed = (*OWN, module.partition(".")[0])
    found: dict[str, str] = {}
    waiting = [first]
    while waiting:
        where, name = waiting.pop()
        place = f"{where}:{name}"
        if place in found or where.partition(".")[0] not in followed:
            continue
        definitions, imports = _read(where)
        if name in definitions:
            nodes = definitions[name]
            found[place] = "\n".join(ast.dump(node) for node in nodes)
            for used in {word for node in nodes for word in _names(node)}:
                if used in definitions:
                    waiting.append((where, used))
                elif used in imports:
                    waiting.append(imports[used])
            waiting += [target for node in nodes for target in _local_imports(node)]
        elif name in imports:
            waiting.append(imports[name])
        elif name == "*":  # a module as a whole, such as `from papers import partition`
            waiting += [(where, own) for own in definitions]
    return found


def _read(module: str) -> tuple[dict[str, list[ast.stmt]], dict[str, tuple[str, str]]]:
    """A module's definitions, several statements where a name is bound several times, and what it imports."""
    named = importlib.import_module(module).__file__
    assert named is not None
    path = Path(named)
    return _parsed(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _parsed(path: Path, changed: int) -> tuple[dict[str, list[ast.stmt]], dict[str, tuple[str, str]]]:  # noqa: ARG001
    definitions: dict[str, list[ast.stmt]] = {}
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            imports |= dict(_imported(node))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions.setdefault(node.name, []).append(node)
        else:
            for word in _bound(node):
                definitions.setdefault(word, []).append(node)
    return definitions, imports


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement of a module gives a value; those inside a comprehension are its own."""
    targets: list[ast.AST] = [node]
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name) and _stored(one)}


def _stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _names(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _local_imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    for one in ast.walk(node):
        if isinstance(one, ast.ImportFrom | ast.Import):
            yield from (target for _, target in _imported(one))


def _imported(node: ast.ImportFrom | ast.Import) -> Iterator[tuple[str, tuple[str, str]]]:
    """What each name stands for: (module, name), or (module, "*") for a module."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield alias.asname or alias.name.partition(".")[0], (alias.name, "*")
        elif node.module:
            whole = f"{node.module}.{alias.name}"
            target = (whole, "*") if _is_module(whole) else (node.module, alias.name)
            yield alias.asname or alias.name, target


@lru_cache(maxsize=1024)
def _is_module(name: str) -> bool:
    try:
        return name.partition(".")[0] in OWN and importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a name in a module, which is no package
        return False
