"""Which figures there are: every module of `papers.figures` that defines FIGURE, or several in FIGURES."""

from __future__ import annotations

import difflib
import importlib
import os
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from colonnade.errors import InvalidInput
from papers.figure import Figure

FIGURES = "papers.figures"


@dataclass(frozen=True)
class Listed:
    """A figure and the module that defines it: by both names another process finds it again."""

    figure: Figure
    module: str

    @property
    def missing(self) -> tuple[str, ...]:
        """The data sets it reads that are not in the folder COLONNADE_DATA names."""
        folder = data_folder()
        return tuple(name for name in self.figure.data if folder is None or not (folder / name).is_dir())


def data_folder() -> Path | None:
    """Where real data are looked for, if somewhere."""
    named = os.environ.get("COLONNADE_DATA", "")
    return Path(named) if named else None


def discover(package: str = FIGURES) -> dict[str, Listed]:
    """Every figure by name, in the order of names; a number in a name counts as a number."""
    where = importlib.import_module(package).__path__
    found: dict[str, Listed] = {}
    for entry in pkgutil.iter_modules(where):
        for listed in in_module(f"{package}.{entry.name}"):
            name = listed.figure.name
            if name in found:
                raise InvalidInput(f"{found[name].module} and {listed.module} both define {name!r}: rename one.")
            found[name] = listed
    return dict(sorted(found.items(), key=lambda item: natural(item[0])))


def in_module(module: str) -> list[Listed]:
    """The figures of one module; a module of helpers has none."""
    loaded = importlib.import_module(module)
    own = (loaded.FIGURE,) if hasattr(loaded, "FIGURE") else ()
    figures: Iterable[Figure] = (*own, *getattr(loaded, "FIGURES", ()))
    return [Listed(figure, module) for figure in figures]


def chosen(names: Iterable[str], known: dict[str, Listed]) -> list[Listed]:
    """The figures of these names; a name that ends in "*" stands for all that begin so."""
    picked: dict[str, Listed] = {}
    for name in names:
        hits = [key for key in known if key == name or (name.endswith("*") and key.startswith(name[:-1]))]
        if not hits:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
            hint = f"did you mean {', '.join(near)}?" if near else "`python -m papers list` names them all."
            raise InvalidInput(f"there is no figure called {name!r}: {hint}")
        picked |= {key: known[key] for key in hits}
    return list(picked.values())


def natural(name: str) -> list[tuple[int, int, str]]:
    """For sorting: a number in a name counts as a number."""
    parts = "".join(c if c.isdigit() else f" {c} " for c in name).split()
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
