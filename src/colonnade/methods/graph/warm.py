"""Warm starts: begin where an earlier fit to the same rows ended, rather than at zero.

Claim    a run that begins at another problem's answer has only the difference to find, and ends at its own answer:
         methods that take `start=` converge from every point.
What     coefficients by party: a Fit, or a mapping. A party's program takes its own from it and nobody else's, and they
         do not travel: neither a Fit nor an array can be sent as a setting, so a run with parties elsewhere refuses it.
Duals    are not asked for. At an answer the dual vector is the slope of the loss at the scores (`slope_at`), and on a
         graph the multipliers of a tree are the scores behind each link (`resumed`): all of it follows from the
         parties' scores.
Leaves   what the method's other rounds and its certificate release too: scores of a party (SharingADMM) or, summed, of
         a subtree (on graphs), and the dual vector. Each is in the method's price.
Prints   as a digest: a stored run is found again by what its settings print, and settings are kept in every ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Array, Floats
from colonnade.methods.graph.consensus import Network, heard
from colonnade.methods.method import Job
from colonnade.privacy.events import EXACT, Charge
from colonnade.privacy.gate import Gate
from colonnade.privacy.released import Released
from colonnade.runtime.program import Post, Program, expect

RESUMED = Charge(EXACT, 1, "at a warm start the scores of its columns and of those behind it in the tree, summed")
BROUGHT = Charge(EXACT, 1, "at a warm start the dual vector at the scores of all")


@runtime_checkable
class Fitted(Protocol):
    """An earlier fit."""

    @property
    def coefficients(self) -> Mapping[str, Floats]: ...


class Start:
    """Coefficients by party, to begin with."""

    def __init__(self, coefficients: Mapping[str, Floats]) -> None:
        self._own = {name: np.array(x, dtype=np.float64) for name, x in coefficients.items()}

    @classmethod
    def of(cls, given: Given) -> Start | None:
        """From what a user gives as `start=`. Arrays only: what a file or a message says is lists, and those would
        travel."""
        if given is None:
            return None
        found = given.coefficients if isinstance(given, Fitted) else given
        if isinstance(found, Mapping):
            held = {name: found[name] for name in found}  # HeldByParty, where some are elsewhere
            if all(isinstance(x, np.ndarray) and x.dtype.kind in "fiu" for x in held.values()):
                return cls(held)
        raise InvalidInput(
            f"start={type(given).__name__} is no earlier fit: give a Fit, or arrays by party such as "
            "{'hospital': coefficients, 'lab': coefficients}."
        )

    def check(self, job: Job) -> None:
        """Every party with columns has its coefficients, and nobody else has any."""
        roster = job.roster
        strangers = sorted(name for name, x in self._own.items() if x.size and name not in roster.with_columns)
        if strangers:
            raise InvalidInput(
                f"start= has coefficients of {strangers[0]!r}, which has no columns here: give those of "
                f"{', '.join(roster.with_columns)}."
            )
        for party in roster.with_columns:
            wanted = (len(roster.positions[party]), *((roster.responses,) if roster.responses else ()))
            found = self._own.get(party)
            if found is None or found.shape != wanted or not np.all(np.isfinite(found)):
                what = "none" if found is None else f"an array of shape {found.shape}, or a value that is no number"
                raise InvalidInput(
                    f"start= has {what} for {party!r}, whose coefficients have the shape {wanted}: give those of an "
                    f"earlier "
                    "fit to the same columns, or leave start= out."
                )

    def own(self, party: str, shape: tuple[int, ...]) -> Floats:
        """The coefficients of one party; of one without columns, an empty array."""
        return self._own.get(party, np.zeros(0)).reshape(shape)

    def __repr__(self) -> str:
        """A digest: what two starts print is the same only if all of their values are."""
        whole = hashlib.sha256()
        for name in sorted(self._own):
            whole.update(bytes(f"{name!r} {self._own[name].shape} ", "utf-8") + self._own[name].tobytes())
        return f"Start({whole.hexdigest()[:32]})"


def printed(method: Any) -> str:
    """As any dataclass prints, but a start by its digest."""
    named = {f.name: getattr(method, f.name) for f in fields(method)}
    named["start"] = Start.of(named["start"])
    return f"{type(method).__name__}({', '.join(f'{name}={value!r}' for name, value in named.items())})"


def beginning(warm: bool, holds_labels: bool) -> tuple[Charge, ...]:
    """What a warm start on a graph adds to an agent's price."""
    return ((BROUGHT if holds_labels else RESUMED),) if warm else ()


Given = Fitted | Mapping[str, Any] | None


def resumed(
    kind: Any, gate: Gate, net: Network, root: str, scores: Floats, dual: Callable[[Floats], Floats]
) -> Program[tuple[Floats, Floats, dict[str, Floats]]]:
    """The dual vector at the sum of all scores, which the root makes; the scores of this subtree; multipliers of the
    links.

    `kind` is the method's message with one field, `values`. Two passes over the tree: scores up, the dual vector down.
    The multipliers are those of the tree under which each agent's add up to its own scores, and the root's to minus the
    rest.
    """
    parent, children = net.tree(root)
    inbox = yield Post({}, children)
    below, _ = heard({child: expect(inbox, child, kind).values.value for child in children}, scores.shape, 0)
    total = sum(below.values(), scores)
    flows = {child: -flow for child, flow in below.items()}
    if parent is None:
        down: Released[Array] = gate.exact(dual(total).reshape(-1))
    else:
        flows[parent] = total
        answer = yield Post({parent: kind(gate.exact(total.reshape(-1)))}, (parent,))
        down = expect(answer, parent, kind).values
    found, _ = heard({root: down.value}, scores.shape, 0)
    yield Post(dict.fromkeys(children, kind(down)), ())
    return found[root], total, flows
