"""24 hours compressed: 2,000 runs of a small private model, one after another, against one set of stores.

A coordinator and two parties, each with its own store and ledger, as between organisations; their questions and answers
pass from hand to hand in this process, so that the processor is spent on runs and not on a network. Four times on the
way all stores are closed, measured and opened again, as a restart does. Claims, and the exit code is 1 where one fails:

- **one line**: a store grows by the same bytes a run at the end as at the beginning (`SAME` is how much more is still the
  same). Opening a store, and a run, cost at most `LINE` seconds of the processor more for each run that is in it: what
  is walked when a store is opened is what came since the last snapshots, and all rows are counted
- **budget**: every ledger counts all runs, and what is left is what 2,000 prices leave
- **log rotation**: what all wrote at INFO lies in `KEEP` + 1 files of `LOG` megabytes at most
- **store rotation**: a party retires its long ledger for a new one (`colonnade runs replaced`), the others take its
  record, and the next run counts all that was spent before

`python -m benchmarks --full day`; quick is 80 runs, too few for a line.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Collection
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import colonnade as co
from benchmarks import service
from colonnade.cli import terminal
from colonnade.data.federation_file import FederationFile
from colonnade.network import replaced_ledger
from colonnade.network.certs import tls_in
from colonnade.network.hub import Board, Grpc
from colonnade.network.party_data import PartyData
from colonnade.network.party_service import PartyService
from colonnade.privacy.accountant import Budget
from colonnade.privacy.ledger import Ledger
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.run_store import RunStore

QUICK, FULL = 80, 2000
POLICY = co.Policy(epsilon=1.0, delta=1e-6)
PRIVACY = co.Privacy(epsilon=0.02, delta=1e-9, trust="secure", row_norm=1.0, label_bound=1.0)
PROBLEM = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
SAME = 1.05
FLOOR, LINE = 0.05, 1e-4  # seconds of the processor: of opening an empty store, and for each run in it
LOG, KEEP = 1, 3
WARM = 4  # runs before anything is measured


@dataclass
class Measured:
    """What there was after so many runs."""

    runs: int
    bytes: dict[str, int]  # by store
    opening: dict[str, float]  # seconds of the processor
    run: float  # seconds of the processor, a run since the last time


class Hands:
    """A board without a network: whoever is asked answers at once."""

    port = 0

    def __init__(self, services: dict[str, PartyService]) -> None:
        self.services = services

    def stop(self) -> None:
        """Nothing listens."""

    def connected(self) -> set[str]:
        return set(self.services)

    def wait_for(self, names: Collection[str], timeout: float) -> None:
        """They are all here."""

    def session(self, party: str) -> str | None:
        return str(id(self.services[party]))

    def ask(self, party: str, request: bytes, *, timeout: float | None = None) -> Future[bytes]:  # noqa: ARG002
        answered: Future[bytes] = Future()
        answered.set_result(self.services[party].answer(request))
        return answered


class Near(Grpc):
    """The coordinator's engine over such a board."""

    def __init__(self, site: service.Site, board: Board) -> None:
        super().__init__("", site.folder / "certs")
        self._board, self._file = board, site.file

    def open(self, file: FederationFile) -> Board:  # noqa: ARG002
        assert self._board is not None
        return self._board


class Day:
    """Stores of all, closed and opened again at will."""

    def __init__(self, folder: Path) -> None:
        self.site = service.Site(folder, POLICY, ["party0", "party1"])
        self.stores = {COORDINATOR: folder / "hub", **{name: folder / name / "store" for name in self.site.names}}
        self.keys = {name: bytes.fromhex((folder / name / "signing.key").read_text()) for name in self.site.names}
        self.federation = co.Federation.elsewhere(self.site.file)

    def opened(self, last: ExitStack) -> Near:
        services = {name: self._party(name) for name in self.site.names}
        for one in services.values():
            last.callback(one.close)
        return Near(self.site, Hands(services))

    def _party(self, name: str) -> PartyService:
        home = self.site.folder / name
        labels = np.load(home / "labels.npy") if name == self.site.names[0] else None
        data = PartyData(self.site.file, name, np.load(home / "table.npy"), labels)
        return PartyService(data, self.stores[name], self.keys[name], lambda _: True)

    def runs(self, count: int) -> float:
        """So many runs by services that were just started; seconds of the processor for each."""
        with ExitStack() as last:
            hub, began = self.opened(last), time.process_time()
            for _ in range(count):
                co.fit(self.federation, PROBLEM, co.PrivateGram(), PRIVACY, engine=hub, store=self.stores[COORDINATOR])
            return (time.process_time() - began) / count

    def ledger(self, name: str, store: RunStore) -> Ledger:
        return Ledger(store.log(name), name, POLICY, identity=self.keys.get(name), holds_data=name != COORDINATOR)

    def measured(self, runs: int, seconds: float) -> Measured:
        sizes = {name: sum(f.stat().st_size for f in p.rglob("*") if f.is_file()) for name, p in self.stores.items()}
        opening = {}
        for name, path in self.stores.items():
            began = time.process_time()
            with closing(RunStore(path)) as store:
                ledger = self.ledger(name, store)
                ledger.check()
                ledger.budget()
                opening[name] = time.process_time() - began
        return Measured(runs, sizes, opening, seconds)

    def budget(self, name: str) -> tuple[Budget, int]:
        """What counts against a party's limit, and how many runs its ledger has closed."""
        with closing(RunStore(self.stores[name])) as store:
            ledger = self.ledger(name, store)
            return ledger.budget(), len(ledger.log.rows(kind="close"))

    def retire(self, name: str) -> None:
        """A new ledger in the place of a long one, beginning with what the long one counted; all others take it."""
        with closing(RunStore(self.stores[name])) as store:
            spent = self.ledger(name, store).row_spent()
        self.stores[name].rename(self.stores[name].with_name("retired"))
        with closing(RunStore(self.stores[name])) as store:
            record = replaced_ledger.sign_as_party(self.ledger(name, store), self.keys[name], self.site.file, spent)
        for other, path in self.stores.items():
            if other != name:
                with closing(RunStore(path)) as store:
                    tls = tls_in(self.site.folder / "certs", other)
                    replaced_ledger.accept(store, other, record, self.site.file, tls)


def main(quick: bool) -> int:
    runs = QUICK if quick else FULL
    shared = Path("/dev/shm")  # nothing here is about a disk
    folder = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
    root = logging.getLogger("colonnade")
    before = root.handlers[:], root.level, root.propagate
    try:
        root.propagate = False
        terminal.to_file(folder / "service.log", LOG, KEEP)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so little budget a run teaches little
            return _measure(Day(folder), folder, runs, quick)
    finally:
        root.handlers, root.propagate = before[0], before[2]
        root.setLevel(before[1])
        shutil.rmtree(folder, ignore_errors=True)


def _measure(day: Day, folder: Path, runs: int, quick: bool) -> int:
    day.runs(WARM)  # kernels are loaded, and the first rows are not those of every run
    price = day.budget("party1")[0].rho / WARM
    found = [day.measured(WARM, math.nan)]
    for turn in range(1, 5):
        found.append(day.measured(WARM + turn * runs // 4, day.runs(runs // 4)))
        _show(found[-1], found[-2])
    failed = [] if quick else _off_the_line(found)
    for name in day.site.names:
        budget, closed = day.budget(name)
        print(f"  {name}: {closed:,} runs in its ledger, epsilon {budget.spent:.3f} of {POLICY.epsilon} spent")
        if closed != runs + WARM or not math.isclose(budget.rho, price * closed, rel_tol=1e-9):
            failed.append(f"budget of {name}")
    failed += _logs(folder) + _rotated(day, price)
    print(f"  verdict: {'does not hold: ' + ', '.join(failed) if failed else 'every claim holds'}")
    return int(bool(failed))


def _a_run(now: Measured, then: Measured) -> dict[str, float]:
    return {name: (size - then.bytes[name]) / (now.runs - then.runs) for name, size in now.bytes.items()}


def _show(now: Measured, then: Measured) -> None:
    sizes = ", ".join(f"{name} {size / 2**20:.1f}" for name, size in now.bytes.items())
    growth = ", ".join(f"{size / 2**10:.1f}" for size in _a_run(now, then).values())
    opening = ", ".join(f"{1e3 * seconds:.0f}" for seconds in now.opening.values())
    print(f"  {now.runs:5,} runs: megabytes {sizes} (kilobytes a run: {growth})")
    print(f"        opening {opening} ms; a run {1e3 * now.run:.0f} ms of the processor", flush=True)


def _off_the_line(found: list[Measured]) -> list[str]:
    """What grew faster, or took longer, in the last quarter than in the first."""
    first, last = _a_run(found[1], found[0]), _a_run(found[4], found[3])
    failed = [f"bytes a run of {name}" for name in first if last[name] > SAME * first[name]]
    more = found[4].runs - found[1].runs
    failed += ["seconds a run"] * (found[4].run > found[1].run + LINE * more)
    return failed + [f"opening of {k}" for k, taken in found[4].opening.items() if taken > FLOOR + LINE * found[4].runs]


def _logs(folder: Path) -> list[str]:
    files = {one.name: one.stat().st_size for one in sorted(folder.glob("service.log*"))}
    print(f"  log files: {', '.join(f'{name} {size / 1e6:.2f} MB' for name, size in files.items())}")
    return ["log rotation"] * (len(files) > KEEP + 1 or max(files.values()) > LOG * 10**6)


def _rotated(day: Day, price: float) -> list[str]:
    before, _ = day.budget("party1")
    long = day.measured(0, math.nan)
    day.retire("party1")
    day.runs(1)
    after, closed = day.budget("party1")
    new = day.measured(0, math.nan)
    print(
        f"  party1 with a new ledger: {closed} run in it, epsilon {after.spent:.3f} spent (before: {before.spent:.3f}); "
        f"{long.bytes['party1'] / 2**20:.1f} -> {new.bytes['party1'] / 2**20:.1f} megabytes, "
        f"opening {1e3 * long.opening['party1']:.0f} -> {1e3 * new.opening['party1']:.0f} ms"
    )
    counts = math.isclose(after.rho, before.rho + price, rel_tol=1e-9)
    return ["store rotation"] * (closed != 1 or not counts)
