"""Runs that die: a fit whose process kills itself at a chosen one of all moments at which it commits or sends.

    child.py once STORE KIND          one fit; prints what it found
    child.py series FOLDER KIND SEED TRIALS
                                      for every trial: kill (often more than once), resume until it ends
    child.py short FOLDER TRIALS      a series of each kind, and one call by two processes at the same time

A moment is counted before and after every transaction, before every row, before and after every saved file and around
every letter. A series imports everything once and forks: the forked process is what dies, by SIGKILL.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import colonnade as co
from colonnade.privacy import store as stores
from colonnade.privacy.accountant import epsilon
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.store import FileLog
from colonnade.runs import result
from tests.helpers.contract import METHODS, federation
from tests.helpers.noisy import NoisySums

CASE = next(iter(METHODS.values()))
KINDS = {
    "exact": co.DistributedFrankWolfe(rounds=3, tolerance=0.0),
    "noisy": NoisySums(rounds=3),
    "other": co.DistributedFrankWolfe(rounds=1, tolerance=0.0),
}


class Moments:
    """Counts moments, and dies at one of them."""

    def __init__(self, fatal: int) -> None:
        self.count, self.fatal = 0, fatal

    def pass_one(self) -> None:
        self.count += 1
        if self.count == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)


def watch(moments: Moments) -> None:
    """Count a moment wherever something becomes durable."""
    atomic, append, save = FileLog.atomic, FileLog.append, stores.write_synced

    @contextlib.contextmanager
    def counted_atomic(self):
        moments.pass_one()
        with atomic(self):
            yield
            moments.pass_one()
        moments.pass_one()

    def counted_append(self, *row):
        moments.pass_one()
        append(self, *row)

    def counted_save(target, body):
        moments.pass_one()
        save(target, body)
        moments.pass_one()

    FileLog.atomic, FileLog.append = counted_atomic, counted_append
    stores.write_synced = result.write_synced = counted_save


def drive(folder: Path, kind: str, fatal: int = 0) -> dict:
    """One fit in `folder`, every letter written down before and after it is carried."""
    moments = Moments(fatal)
    watch(moments)
    wire = os.open(folder / ("other wire" if kind == "other" else "wire"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def carry(letter):
        line = f"{letter.sender}>{letter.receiver} {letter.sequence} {letter.check.hex()}\n"
        moments.pass_one()
        os.write(wire, line.encode())
        moments.pass_one()
        return (letter,)

    policy = co.Policy(exact=True) if kind != "noisy" else co.Policy(epsilon=30.0, delta=1e-6)
    fed = federation(CASE)
    fed = fed.with_policies(dict.fromkeys(fed.parties, policy))
    fit = co.fit(
        fed,
        CASE.problem,
        method=KINDS[kind],
        privacy=co.Privacy(epsilon=4.0, delta=1e-6) if kind == "noisy" else None,
        store=folder / "store",
        engine=co.Faults(co.InProcess(), carry),
    )
    found = {
        "run": fit.run,
        "model": {party: x.tobytes().hex() for party, x in fit.coefficients.items()},
        "communication": fit.communication.lines,
        "moments": moments.count,
    }
    return {**found, **books(folder / "store")}


def books(store: Path) -> dict:
    """What the ledgers of a store hold; their chains are walked."""
    rows, still_open, secrets = {}, [], 0
    for path in sorted((store / "nodes").glob("*.db")):
        log = FileLog(path)
        log.verify()
        entries = Ledger(log, path.stem, co.Policy(exact=True)).entries()
        rows[path.stem] = [(e.run, e.tick, e.slot, e.event.mechanism) for e in entries]
        still_open += [r.run for r in log.rows(kind="open") if not log.rows(r.run, "close")]
        secrets += log._db.execute("select count(*) from secret").fetchone()[0]
        log.close()
    return {"rows": rows, "open": still_open, "secrets": secrets}


def begun(folder: Path, kind: str, fatal: int, answer: Path) -> int:
    """`drive` in a process of its own: its number."""
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            answer.write_text(json.dumps(drive(folder, kind, fatal)))
            status = 0
        finally:
            os._exit(status)
    return child


def forked(folder: Path, kind: str, fatal: int) -> dict | None:
    """`drive` in a process of its own; None if it was killed."""
    answer = folder / "answer"
    _, status = os.waitpid(begun(folder, kind, fatal, answer), 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    if status:
        raise RuntimeError(f"a resumed run failed in {folder}, killed at moment {fatal}")
    return json.loads(answer.read_text())


def together(folder: Path, kind: str) -> list[dict]:
    """The same call by two processes at the same time."""
    folder.mkdir()
    answers = [folder / f"answer {number}" for number in (1, 2)]
    children = [begun(folder, kind, 0, answer) for answer in answers]
    if any(os.waitpid(child, 0)[1] for child in children):
        raise RuntimeError(f"one of two runs failed in {folder}")
    return [json.loads(answer.read_text()) for answer in answers]


def warm(kind: str) -> None:
    """Compile and import everything before the first fork."""
    for name in {kind, "other"} - {"noisy"}:
        co.fit(federation(CASE), CASE.problem, method=KINDS[name])
    SystemNoise().discrete_gaussian(1, 1.0)
    epsilon(0.1, 1e-6)


def ended_before_death(folder: Path) -> dict | None:
    """What a run left that died after it was over; the next call, of anything, tidies up behind it."""
    if not (folder / "store" / "runs.db").exists():
        return None
    journal = FileLog(folder / "store" / "runs.db")
    over = [row.run for row in journal.rows(kind="end")]
    journal.close()
    if not over:
        return None
    fit = co.load(folder / "store" / "fits" / f"{over[0]}.json")
    before = books(folder / "store")["rows"]
    forked(folder, "other", 0)
    found = {
        "run": fit.run,
        "model": {party: x.tobytes().hex() for party, x in fit.coefficients.items()},
        "communication": fit.communication.lines,
    }
    return {**found, **books(folder / "store"), "rows": before}


def series(folder: Path, kind: str, seed: int, trials: int) -> dict:
    warm(kind)
    calm = folder / "calm"
    calm.mkdir()
    reference = forked(calm, kind, 0)
    draw, found = random.Random(seed), []
    for number in range(trials):
        here = folder / str(number)
        here.mkdir()
        kills, ended = [], None
        while ended is None:
            if kills and (ended := ended_before_death(here)):
                break
            fatal = draw.randint(1, reference["moments"]) if len(kills) < 3 else 0
            # Moments spread evenly over the series, so that no part of a run escapes by chance.
            if not kills:
                fatal = 1 + (2 * number + 1) * (reference["moments"] - 1) // (2 * trials)
            ended = forked(here, kind, fatal)
            kills += [fatal] if ended is None else []
        found.append({"kills": kills, **ended, "wire": (here / "wire").read_text().split("\n")[:-1]})
    return {"reference": reference, "trials": found}


def short(folder: Path, trials: int) -> dict:
    """A series of either kind, and two at the same time, all from one process: most of its time is its start."""
    found = {}
    for kind in ("exact", "noisy"):
        (folder / kind).mkdir()
        found[kind] = series(folder / kind, kind, 1, trials)
    return {**found, "together": together(folder / "together", "noisy")}


if __name__ == "__main__":
    job, folder, *more = sys.argv[1:]
    if job == "once":
        answer: object = drive(Path(folder), *more)
    elif job == "series":
        kind, *numbers = more
        answer = series(Path(folder), kind, *map(int, numbers))
    else:
        answer = short(Path(folder), *map(int, more))
    sys.stdout.write(json.dumps(answer))
