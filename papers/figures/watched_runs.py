"""Every agent's estimate after every round of a run by co.fit, and the CPU seconds until then, for curves.

A fit ends with one answer, and an agent's estimate is nobody's business on the way. For a figure, whose data are made up, the
agent's program is wrapped: each time it posts a message, its local variables are looked at. The run is the same, message by message.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import colonnade as co
from colonnade.kernels.arrays import Floats

Look = Callable[[Mapping[str, Any]], Floats | None]  # an agent's variables -> its estimate, or None outside the rounds


def ridge_estimate(now: Mapping[str, Any]) -> Floats | None:
    """Of co.GraphRidge."""
    return None if "x" in now else np.asarray(now["term"].coefficients(now["w"]))


def admm_estimate(now: Mapping[str, Any]) -> Floats | None:
    """Of co.GraphADMM, whose parties all have columns here."""
    return None if "x" in now else np.array(now["terms"]["columns"].x)


def tls_estimate(now: Mapping[str, Any]) -> Floats | None:
    """Of co.GraphTLS over split rows: what the agent would answer if this were the last round."""
    if "X" not in now or "v" in now:
        return None
    v = np.linalg.eigh(now["X"])[1][:, -1]
    return np.asarray(v[:-1] / v[-1])


def watched_fit(
    federation: co.Federation, problem: co.Problem, method: Any, look: Look
) -> tuple[co.Fit, list[list[Floats]]]:
    """The fit, and by round the agents' estimates in the federation's order."""
    seen: dict[str, list[Floats]] = {name: [] for name in federation.parties}

    def see(agent: str, now: Mapping[str, Any]) -> None:
        if (estimate := look(now)) is not None:
            seen[agent].append(estimate)

    fit = co.fit(federation, problem, _watched(method, see))
    return fit, [list(estimates) for estimates in zip(*seen.values(), strict=True)]


def timed(method: Any, stamps: list[float]) -> Any:
    """The same method; for every row of the history, the CPU seconds since its coordinator began are put into `stamps`."""
    kind = type(method)

    def coordinator(self: Any, job: Any, gate: Any) -> Any:
        began, program, inbox = time.process_time(), kind.coordinator(self, job, gate), None
        while True:
            try:
                post = program.send(inbox)
            except StopIteration as end:
                return end.value
            if post.note is not None:
                stamps.append(time.process_time() - began)
            inbox = yield post

    return _with(method, coordinator=coordinator)


def _watched(method: Any, see: Callable[[str, Mapping[str, Any]], None]) -> Any:
    """The same method, whose agents are watched."""
    kind = type(method)

    def peer(self: Any, job: Any, block: Any, gate: Any, neighbours: tuple[str, ...]) -> Any:
        program, inbox = kind.peer(self, job, block, gate, neighbours), None
        while True:
            try:
                post = program.send(inbox)
            except StopIteration as end:
                return end.value
            see(gate.node, inspect.getgeneratorlocals(program))
            inbox = yield post

    return _with(method, peer=peer)


def _with(method: Any, **programs: Any) -> Any:
    """The same method, of a class of its own that has these programs."""
    kind = type(method)
    same = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    return type(kind.__name__, (kind,), {**programs, "__module__": kind.__module__})(**same)
