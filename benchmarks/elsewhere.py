"""Other libraries for a benchmark, each in an environment of its own: they need other versions than this one does.

Place    benchmarks/results/environments/<name>, made with venv and pip on the first run and kept for the next.
Asked    a program in a file of its own, which imports nothing of this package: `program.py FOLDER` reads the arrays and
         request.json there, and writes answer.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / "results" / "environments"
INSTALLS = True  # a smoke run installs nothing
PATIENCE = 3600.0  # seconds for an installation or an answer


class NotHere(Exception):
    """The library cannot be installed or run on this machine; the message says why."""


def ask(
    name: str, packages: tuple[str, ...], program: str, arrays: Mapping[str, Any], request: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """The answer of benchmarks/<program>, and all that it logged."""
    python = environment(name, packages)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for key, array in arrays.items():
            if sparse.issparse(array):
                sparse.save_npz(folder / f"{key}.npz", sparse.csc_matrix(array), compressed=False)
            else:
                np.save(folder / f"{key}.npy", array, allow_pickle=False)
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        log = _run([str(python), str(HERE / program), place], f"{program} in {python}")
        return json.loads((folder / "answer.json").read_text(encoding="utf-8")), log


def environment(name: str, packages: tuple[str, ...]) -> Path:
    """The interpreter of an environment that has the packages, made if it is not there."""
    folder = ENVIRONMENTS / name
    python, installed = folder / "bin" / "python", folder / "packages.txt"
    wanted = "\n".join(packages)
    if not (installed.is_file() and installed.read_text(encoding="utf-8") == wanted):
        if not INSTALLS:
            raise NotHere(f"{name} is not installed here, and this run installs nothing")
        print(f"installing {', '.join(packages)} in {folder}", flush=True)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], "python -m venv")
        _run([str(python), "-m", "pip", "install", "--quiet", *packages], f"pip install {' '.join(packages)}")
        installed.write_text(wanted, encoding="utf-8")
    return python


def _run(command: list[str], what: str) -> str:
    """What a command printed. It sees none of our packages, and linear algebra gets one thread."""
    variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    variables |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    try:
        done = subprocess.run(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotHere(f"{what} did not end well: {type(error).__name__}") from error
    if done.returncode:
        last = [line for line in done.stdout.splitlines() if line.strip()][-3:]
        raise NotHere(f"{what} ended with {done.returncode}: {' / '.join(last) or 'no message'}")
    return done.stdout
