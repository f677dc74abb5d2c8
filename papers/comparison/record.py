"""The record behind papers/comparison.md: every line of its table, each split's figure, and what they were measured with.

Kept as JSON beside the page (papers/results/comparison.json), so that the page can be written again from it, word for word.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.errors import StoreError
from colonnade.privacy.store import write_synced
from papers.comparison.rivals import Rivals
from papers.comparison.tables import FIRST_SEED, TRAINED

if TYPE_CHECKING:
    import polars as pl

KEYS = (
    "data",
    "rows",
    "columns",
    "parties",
    "model",
    "by",
    "place",
    "problem",
    "epsilon",
    "delta",
    "unit",
    "trust",
    "guarantee",
)
OURS = ("colonnade", "scikit-learn", "numpy", "scipy", "numba")


def record(
    table: pl.DataFrame, version: str, quick: bool, rivals: Rivals | None, left_out: list[str]
) -> dict[str, Any]:
    """One line for each model, table and epsilon, in the order they came in."""
    lines: list[dict[str, Any]] = []
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.iter_rows(named=True):
        groups.setdefault(tuple(row[key] for key in KEYS[:9]), []).append(row)
    for own in groups.values():
        lines.append({**{key: own[0][key] for key in KEYS}, **_figures(own)})
    return {
        "command": "python -m papers comparison" + ("" if quick else " --full"),
        "quick": quick,
        "version": version,
        "python": platform.python_version(),
        "here": {name: importlib.metadata.version(name) for name in OURS},
        "rivals": {} if rivals is None else rivals.versions(),
        "splits": {
            "seeds": sorted({FIRST_SEED + row["split"] for row in table.iter_rows(named=True)}),
            "trained": TRAINED,
        },
        "left_out": left_out,
        "lines": lines,
    }


def _figures(own: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over splits with the standard error of the area; the worst gap and the largest epsilon stated; the median time."""
    areas = [row["auc"] for row in own]

    def known(name: str) -> list[float]:
        return [float(row[name]) for row in own if row.get(name) is not None]

    def of(name: str, how: Any) -> float | None:
        return float(how(known(name))) if known(name) else None

    return {
        "auc": float(np.mean(areas)),
        "auc_error": float(np.std(areas, ddof=1) / math.sqrt(len(areas))) if len(areas) > 1 else None,
        "auc_by_split": areas,
        "stated": of("stated", max),
        "gap": of("gap", max),
        "bytes": of("bytes", np.mean),
        "rounds": of("rounds", np.mean),
        "seconds": of("seconds", np.median),
    }


def save(found: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_synced(path, f"{json.dumps(found, indent=1)}\n".encode())


def load(path: Path) -> dict[str, Any]:
    """A record that was kept."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read as a record; run `python -m papers comparison` again.") from error
    if not isinstance(found, dict) or "lines" not in found:
        raise StoreError(f"{path} is no record of a comparison.")
    return found
