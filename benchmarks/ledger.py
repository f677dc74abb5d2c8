"""A ledger of 10,000 runs: how long it takes to open, to be asked about one more run, and to be checked in full.

Every run is opened, releases four times, remembers where another ledger stood, and is closed; a snapshot is signed
as in a party's service. Aims: opening under 1 s, a proposal under 50 ms. Processor seconds, since the disk is shared.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from colonnade.data.federation_file import new_key
from colonnade.network.replaced_ledger import keyed_head
from colonnade.privacy.events import FINISHED, Charge, Event, Mechanism, Plan, Policy
from colonnade.privacy.ledger import Ledger, Terms, When
from colonnade.privacy.store import FileLog
from colonnade.privacy.tally import check_snapshot
from colonnade.runtime.run_store import RunStore

QUICK, FULL = 500, 10_000
OPENING, PROPOSAL = 1.0, 0.05  # seconds
EVENT = Event(Mechanism.GAUSSIAN, 1e-9, 1.0)
PLAN: Plan = (Charge(EVENT, 4, "sums"),)
TERMS = Terms("PrivateGram", "PrivateGram()", "secure", "one row", "changed", "of this code")
POLICY = Policy(epsilon=1.0, delta=1e-6)
Found = TypeVar("Found")


def main(quick: bool) -> int:
    runs = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as place:
        _, identity = new_key()
        _fill(Path(place), runs, identity)
        return _measure(Path(place), runs, identity)


def _fill(folder: Path, runs: int, identity: bytes) -> None:
    store = RunStore(folder)
    ledger = Ledger(store.log("party"), "party", POLICY, identity=identity)
    with ledger.log.atomic():  # one sync for all, which a party does not have
        for number in range(runs):
            _one_run(ledger, f"run{number}")
    with store._journal.atomic():
        for number in range(runs):
            store.adopt(f"run{number}")
            store.end(f"run{number}", FINISHED)
    store.close()


def _one_run(ledger: Ledger, run: str) -> None:
    ledger.open_run(run, TERMS, {"party": PLAN, "other": PLAN})
    ledger.remember(run, When.START, {"other": (1, bytes(32))})
    for slot in range(4):
        ledger.take(run, EVENT)
        ledger.record(run, slot, 0, EVENT, "sums", slot)
    ledger.close_run(run, FINISHED)


def _measure(folder: Path, runs: int, identity: bytes) -> int:
    found: dict[str, list[float]] = {"opening": [], "proposal": [], "a run's seven rows": []}
    for attempt in range(5):
        store, ledger = _timed(found["opening"], partial(_open, folder, identity))
        _timed(found["proposal"], partial(_propose, store, ledger, f"asked{attempt}"))
        _timed(found["a run's seven rows"], partial(_one_run, ledger, f"more{attempt}"))
        rows = ledger.log.length()
        store.close()
    log = FileLog(RunStore.path_in(folder, "party"))
    found["every row checked"] = []
    covered = _timed(found["every row checked"], lambda: (log.verify(), check_snapshot(log, "party"))[1])
    log.close()
    print(f"{runs:,} runs, {rows:,} rows, of which a snapshot vouches for {covered:,}")
    for what, times in found.items():
        print(f"  {what:18} {1e3 * statistics.median(times):8.1f} ms of the processor")
    return int(statistics.median(found["opening"]) > OPENING or statistics.median(found["proposal"]) > PROPOSAL)


def _open(folder: Path, identity: bytes) -> tuple[RunStore, Ledger]:
    store = RunStore(folder)
    ledger = Ledger(store.log("party"), "party", POLICY, identity=identity)
    ledger.check()
    ledger.budget()
    return store, ledger


def _propose(store: RunStore, ledger: Ledger, run: str) -> None:
    """What a party asks its records before it answers a proposal (network/party_service.py)."""
    for over in ledger.open_runs() | ledger.log.unerased():
        if (how := store.how_ended(over)) is not None:
            ledger.close_run(over, how)
    store.how_ended(run)
    ledger.score_runs()
    ledger.check_run(run, TERMS, {"party": PLAN, "other": PLAN})
    ledger.check()
    keyed_head(ledger.log, ledger.log.length())
    ledger.remembered()


def _timed(times: list[float], work: Callable[[], Found]) -> Found:
    began = time.process_time()
    found = work()
    times.append(time.process_time() - began)
    return found
