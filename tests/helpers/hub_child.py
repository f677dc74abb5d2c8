"""Organisations whose processes die: a hub in a process of its own, and a party with a clock of its own.

The hub drives one run to its end, or dies on the way; started again on the same folder it goes on. Every letter that it
hears from a party or sends one is written down with its kind and its digest, over all its lives: one that comes in two
forms was noised twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import colonnade as co
from colonnade.network.hub import Grpc
from colonnade.network.hub_run import RemoteParty, RunLog
from colonnade.network.questions import Question, Sent
from colonnade.network.refusals import for_others
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.runtime.run_store import RunStore
from colonnade.runtime.wire import Letter, type_name
from tests.helpers.contract import METHODS, OTHER_METHODS, Case
from tests.helpers.organisations import Organisations, _live

WALK = co.DistributedFrankWolfe(rounds=30, tolerance=0.0)  # long enough to die in the middle of it
KINDS: dict[str, Case] = {
    "exact": Case(WALK, METHODS["frank-wolfe, least squares"].problem),
    "private": Case(
        co.PrivateSharingADMM(rounds=20),
        METHODS["private sharing admm"].problem,
        privacy=METHODS["private sharing admm"].privacy,
    ),
    "graph": Case(co.GraphADMM(co.Topology.ring(4), rounds=20), OTHER_METHODS["graph admm"].problem),
    "secure": METHODS["private gram, secure"],
    "secure, in blocks": replace(
        METHODS["private gram, secure"],
        parties={"bank": slice(0, 3), "clinic": slice(3, 5), "shop": slice(5, 8)},
        label="bank",
    ),
}
BLOCK_BYTES = {"secure, in blocks": 40}
WIRE, ANSWER = "wire", "answer.json"


def drive(made: Organisations, port: int, kind: str, seeded: bool = True) -> None:
    """One fit at the hub; what it found is in the folder when it is done."""
    case, heard, carried = KINDS[kind], RemoteParty.letters, RunLog.carried
    noise = SeededNoise(1) if seeded and case.privacy is not None else None

    def noted(self: RemoteParty, found: Sent) -> list[Letter]:
        letters = heard(self, found)
        note(made.folder, letters)
        return letters

    def noted_too(self: RunLog, letters: Sequence[Letter]) -> None:
        note(made.folder, letters)
        carried(self, letters)

    with (
        made.blocks(),
        mock.patch.object(RemoteParty, "letters", noted),
        mock.patch.object(RunLog, "carried", noted_too),
        mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"),
        made.hub(port) as hub,
    ):
        fit = finished(made, hub)
        if fit is None:
            store = made.folder / "hub"
            fit = co.fit(made.federation, case.problem, case.method, case.privacy, engine=hub, store=store, noise=noise)
    found = {"communication": fit.communication.table().rows(), "status": fit.status.name}
    aside = made.folder / f"{ANSWER}.{os.getpid()}"
    aside.write_text(json.dumps(found))
    aside.replace(made.folder / ANSWER)


def finished(made: Organisations, hub: Grpc) -> co.Fit | None:
    """The fit of a run that was over when its hub died. The next run of anything tells the parties; so does this."""
    store = RunStore(made.folder / "hub")
    over = store.ended()
    store.close()
    if not over:
        return None
    hub.hello(made.file)
    told = {run: for_others(ending).code for run, ending in over.items()}
    hub._ask_each({name: (Question.SETTLE, {"run": "run", "over": told}, ()) for name in made.names})
    return co.load(made.folder / "hub" / "fits" / "run.json")


def skewed(made: Organisations, name: str, port: int, seconds: float) -> None:
    """A party whose clock is wrong."""
    true = time.time
    with mock.patch("time.time", side_effect=lambda: true() + seconds):
        _live(made, name, port)


def note(folder: Path, letters: Iterable[Letter]) -> None:
    lines = [f"{x.sender}>{x.receiver} {x.sequence} {x.inside or type_name(x.body)} {x.check.hex()}\n" for x in letters]
    with (folder / WIRE).open("ab", buffering=0) as file:
        file.write("".join(lines).encode())


def noted_in(folder: Path) -> list[tuple[str, str, str]]:
    """Every letter that a hub heard or sent, in order: its place, its kind, its digest."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / WIRE).read_text().splitlines():
            with contextlib.suppress(ValueError):  # a hub died in the middle of a line
                edge, place, kind, content = line.split(" ")
                if len(content) == 32:
                    found.append((f"{edge} {place}", kind, content))
    return found


def forms_of(folder: Path) -> dict[str, set[str]]:
    """Every letter that a hub heard or sent, and all the forms in which it came."""
    forms: dict[str, set[str]] = {}
    for place, _, content in noted_in(folder):
        forms.setdefault(place, set()).add(content)
    return forms
