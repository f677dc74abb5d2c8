"""One request to another library, answered in an environment that has it; see rivals.py. Imports nothing of this package.

python rival_program.py FOLDER      reads request.json, X and y there, and writes answer.json
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

SHOWN = ("diffprivlib", "skglm", "scikit-learn", "numpy", "scipy", "numba")
FEW = 200  # rows of either class in the fit before those that count: skglm compiles while it fits


def answer(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Versions, or for each table and each of the settings the coefficients of a fit and its CPU seconds."""
    if request["task"] == "versions":
        for name in ("diffprivlib.models", "skglm"):
            importlib.import_module(name)
        return {name: importlib.metadata.version(name) for name in SHOWN}
    tables = [(rows(folder, f"X{k}"), rows(folder, f"y{k}")) for k in range(request["tables"])]
    warm_up(request, *tables[0])
    return {"fits": [[fitted(request, settings, X, y) for settings in request["settings"]] for X, y in tables]}


def warm_up(request: dict[str, Any], X: Any, y: Any) -> None:
    some = np.concatenate([np.flatnonzero(y < 0)[:FEW], np.flatnonzero(y > 0)[:FEW]])
    made(request["task"], request["settings"][0]).fit(X[some], y[some])


def fitted(request: dict[str, Any], settings: dict[str, float], X: Any, y: Any) -> dict[str, Any]:
    model = made(request["task"], settings)
    began = time.process_time()
    model.fit(X, y)
    return {"seconds": time.process_time() - began, "coefficients": np.ravel(model.coef_).tolist()}


def made(library: str, settings: dict[str, float]) -> Any:
    """The library's own estimator, at its defaults but for what the problem and the public bounds fix."""
    if library == "skglm":
        kind = importlib.import_module("skglm").SparseLogisticRegression
        return kind(alpha=settings["alpha"], fit_intercept=False, tol=1e-6)
    # A warning of diffprivlib's about privacy would mean that a bound was left to the data.
    problem = importlib.import_module("diffprivlib.utils").PrivacyLeakWarning
    warnings.simplefilter("error", problem)
    return importlib.import_module("diffprivlib.models").LogisticRegression(epsilon=settings["epsilon"], data_norm=1.0)


def rows(folder: Path, name: str) -> Any:
    if (folder / f"{name}.npz").is_file():
        return sparse.csc_matrix(sparse.load_npz(folder / f"{name}.npz"))
    return np.array(np.lib.format.open_memmap(folder / f"{name}.npy", mode="r"))


if __name__ == "__main__":
    place = Path(sys.argv[1])
    asked = json.loads((place / "request.json").read_text(encoding="utf-8"))
    (place / "answer.json").write_text(json.dumps(answer(asked, place)), encoding="utf-8")
