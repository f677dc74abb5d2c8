"""Other libraries, run in an environment of their own: they need other versions of what this one needs.

    Rivals.at(Path("some/venv"))     an environment that has them         Rivals.installed()     one made in the cache folder

What goes over is a folder with training rows and one request; what comes back is coefficients, intercept left out (it moves no
area under a curve), CPU seconds and versions. The program on the other side is rival_program.py, which knows nothing of this package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput, StoreError

# diffprivlib 0.6.6 imports names that scikit-learn 1.8 no longer has.
PACKAGES = ("diffprivlib", "skglm", "scikit-learn<1.8")
PROGRAM = Path(__file__).with_name("rival_program.py")
PATIENCE = 1800.0  # seconds for one request

Rows = tuple[Any, NDArray[np.float64]]
Answer = tuple[NDArray[np.float64], float]


@dataclass(frozen=True)
class Rivals:
    """An interpreter that can import them."""

    python: Path

    @classmethod
    def at(cls, where: Path) -> Rivals:
        """An environment's folder, or the interpreter itself."""
        python = where / "bin" / "python" if where.is_dir() else where
        if not python.is_file():
            raise InvalidInput(
                f"{where} is no environment: name a folder made by `python -m venv`, its python, or install."
            )
        made = cls(python.absolute())  # not resolved: an environment's python is a link, and its place says which it is
        made.versions()
        return made

    @classmethod
    def installed(cls) -> Rivals:
        """An environment in the cache folder, made if it is not there."""
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "colonnade" / "rivals"
        python = folder / "bin" / "python"
        try:
            if not python.is_file():
                _called([sys.executable, "-m", "venv", str(folder)])
            _called([str(python), "-m", "pip", "install", "--quiet", *PACKAGES])
        except (OSError, subprocess.SubprocessError) as error:
            raise StoreError(
                f"no environment could be made in {folder} ({type(error).__name__}). Is there a network? Make one by hand with "
                f"`pip install {' '.join(PACKAGES)}`, and give its folder."
            ) from error
        return cls.at(folder)

    def versions(self) -> dict[str, str]:
        """What is installed there, by package."""
        return {str(name): str(number) for name, number in self._asked({"task": "versions"}, []).items()}

    def fits(self, library: str, tables: Sequence[Rows], settings: Sequence[Mapping[str, float]]) -> list[list[Answer]]:
        """For each table, for each of the settings: coefficients and CPU seconds. One process, so that it compiles once."""
        said = self._asked({"task": library, "tables": len(tables), "settings": list(map(dict, settings))}, tables)
        return [
            [(np.asarray(one["coefficients"], dtype=np.float64), float(one["seconds"])) for one in answers]
            for answers in said["fits"]
        ]

    def _asked(self, request: dict[str, Any], tables: Sequence[Rows]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for number, (X, y) in enumerate(tables):
                np.save(folder / f"y{number}.npy", y, allow_pickle=False)
                if sparse.issparse(X):
                    sparse.save_npz(folder / f"X{number}.npz", sparse.csc_matrix(X), compressed=False)
                else:
                    np.save(folder / f"X{number}.npy", X, allow_pickle=False)
            (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
            try:
                _called([str(self.python), str(PROGRAM), name])
                answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
            except subprocess.CalledProcessError as error:
                reason = (error.stderr or "").strip().splitlines()[-1:] or ["no message"]
                raise InvalidInput(
                    f"{request['task']} failed in {self.python}: {reason[0]}. It needs {', '.join(PACKAGES)}."
                ) from error
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                raise StoreError(
                    f"{request['task']} gave no answer in {self.python}: {type(error).__name__}."
                ) from error
        if not isinstance(answer, dict):
            raise StoreError(f"{request['task']} gave an answer of another shape.")
        return answer


def _called(command: list[str]) -> None:
    """One thread, and nothing of this environment's own packages."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE, env=environment)  # noqa: S603  # our program, an interpreter that the user named
