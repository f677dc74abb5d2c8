"""Logistic regression of two parties in SPU's simulator, in an environment that has SPU; see peers.py.

Each party is a thread with a runtime of its own, and messages pass through memory. As in SecretFlow's SSRegression, an
epoch of mini-batches with its sigmoid "t1" is one program; all columns, labels and weights are secret-shared throughout.
SPU logs the bytes of each epoch and party ("Link details"). Sharing the inputs is neither timed nor counted.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import spu
from spu import libspu
from spu.utils import frontend

NAMES = ["first", "second", "labels", "weights"]
SECRET = libspu.Visibility.VIS_SECRET


def epoch_of(rows: int, rate: float) -> Any:
    """One epoch over batches of so many rows; the last, shorter batch is left out, as SSRegression does."""

    def sigmoid(z: Any) -> Any:
        p = 0.5 + 0.25 * z
        return jnp.where(p < 0.0, 0.0, jnp.where(p > 1.0, 1.0, p))

    def epoch(first: Any, second: Any, labels: Any, weights: Any) -> Any:
        X = jnp.concatenate([first, second], axis=1)
        for begin in range(0, X.shape[0] - rows + 1, rows):
            batch = jnp.concatenate([X[begin : begin + rows], jnp.ones((rows, 1))], axis=1)
            error = sigmoid(batch @ weights) - labels[begin : begin + rows]
            weights = weights - rate / rows * (batch.T @ error)
        return weights

    return epoch


def answer(request: dict[str, Any], values: list[np.ndarray]) -> dict[str, Any]:
    began = time.perf_counter()
    epoch = epoch_of(request["batch"], request["rate"])
    program, _ = frontend.compile(
        frontend.Kind.JAX, epoch, tuple(values), {}, NAMES, [SECRET] * len(NAMES), lambda _: ["out"]
    )
    compiled = time.perf_counter() - began
    config = libspu.RuntimeConfig(
        protocol=getattr(libspu.ProtocolKind, request["protocol"]), field=libspu.FieldType.FM64
    )
    config.enable_pphlo_profile = True  # makes it log the bytes
    io = spu.Io(2, config)
    shares = [io.make_shares(value, SECRET) for value in values]
    line = libspu.link.Desc()
    for rank in range(2):
        line.add_party(f"party{rank}", f"thread{rank}")

    def party(rank: int) -> Any:
        runtime = spu.Runtime(libspu.link.create_mem(line, rank), libspu.RuntimeConfig(config))
        for name, share in zip(NAMES, shares, strict=True):
            runtime.set_var(name, share[rank])
        for _ in range(request["epochs"]):
            runtime.run(program)
            runtime.set_var("weights", runtime.get_var("out"))
        return runtime.get_var("out")

    wall, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(2) as threads:
        parts = list(threads.map(party, range(2)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "weights": np.ravel(io.reconstruct(parts)).tolist(),
        "cpu": cpu,
        "wall": wall,
        "compiled": compiled,
        "versions": {name: version(name) for name in ("spu", "jax")},
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    asked = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    found = answer(asked, [np.load(folder / f"{name}.npy") for name in NAMES])
    (folder / "answer.json").write_text(json.dumps(found), encoding="utf-8")
