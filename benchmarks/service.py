"""Many jobs through one coordinator, 4 parties, 8 runs at a time: memory, kills, and what may never happen.

All are processes of the command line on this machine: `colonnade coordinator serve` and four times `colonnade party run`.
They are forked from one process that has imported everything, so that what was killed is back in a moment and kills
fall into work, not into the start of Python. Three series, each with a fresh store:

1. undisturbed: memory of the service and of every party after the first 20 jobs and at the end; flat is at most a
   twentieth more
2. a few seconds after all are connected and at work again a random component is killed (-9) and started again: the
   service, a party or the process of a run, three times for each job that ends at most. Every job finishes or fails with
   a reason; every model is that of one process, to the bit; every ledger holds the releases of one undisturbed run a
   job, each once
3. the same with private jobs whose budgets last for a part of them: what is spent stays within the limit of every party

`python -m benchmarks --full service` runs 100 jobs (20 private ones); quick is 8 (4). The last line is the verdict; exits with
1 where a claim fails. Memory is that of this machine, and kills hit at random moments.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.network import certs
from colonnade.network.job_queue import JobQueue, JobState
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.runtime.run_store import RunStore

PARTIES, WIDTH, ROWS = 4, 3, 60
AT_A_TIME = 8
BETWEEN = 3  # kills for each job that is over, and three before the first
SERVICE = "service"
ROUNDS = 5
EXACT = co.Policy(exact=True)
LIMITED = co.Policy(epsilon=1.0, delta=1e-6)
EACH = 0.4  # epsilon of a private job: few fit into the limit
WARM, FLAT = 20, 1.05  # jobs after which memory is looked at first, and by how much it may have grown at the end
STARTER = multiprocessing.get_context("forkserver")  # of the components; the service has one of its own for its runs
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}

EXACT_JOB = """[problem]
loss = "LeastSquares"
constraint = {{ type = "L1Ball", radius = {radius} }}
[method]
type = "DistributedFrankWolfe"
rounds = {rounds}
tolerance = 0.0
"""
PRIVATE_JOB = """[problem]
loss = "LeastSquares"
penalty = {{ type = "Ridge", a = {a} }}
[method]
type = "PrivateGram"
[privacy]
epsilon = {epsilon}
delta = 1e-6
trust = "secure"
row_norm = 1.0
label_bound = 1.0
"""


@dataclass
class Site:
    """Five organisations on this machine, each a process of the command line."""

    folder: Path
    policy: co.Policy
    names: list[str] = field(default_factory=lambda: [f"party{k}" for k in range(PARTIES)])
    running: dict[str, BaseProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(7)
        X = np.clip(rng.normal(size=(ROWS, len(self.names) * WIDTH)) / 4, -1, 1)
        y = np.clip(X[:, 0] - X[:, WIDTH] + 0.1 * rng.normal(size=ROWS), -1, 1)
        slices = {name: slice(k * WIDTH, (k + 1) * WIDTH) for k, name in enumerate(self.names)}
        self.federation = co.Federation.split(X, y, parties=slices, label=self.names[0])
        authority = self.folder / "certs"
        certs.init(authority)
        certs.issue(authority, "coordinator", hosts=["localhost"])
        public, signing = new_key()
        (authority / certs.SIGNING_KEY).write_text(signing.hex())
        self.port, self.page = free_port(), free_port()
        members = {}
        for name in self.names:
            certs.issue(authority, name)
            home = self.folder / name
            home.mkdir()
            key, private = new_key()
            (home / "signing.key").write_text(private.hex())
            np.save(home / "table.npy", X[:, slices[name]])
            members[name] = Member(None, self.policy, key, WIDTH)
        np.save(self.folder / self.names[0] / "labels.npy", y)
        self.file = FederationFile(
            members, None, (self.names[0], "y"), hub=f"localhost:{self.port}", rows=ROWS, coordinator=public
        )
        self.file.save(self.folder / "federation.toml")
        for name in self.names:
            labels = 'labels = "labels.npy"\n' if name == self.names[0] else ""
            (self.folder / name / "party.toml").write_text(
                f'version = 1\nname = "{name}"\nfederation = "../federation.toml"\nstore = "store"\nkey = "signing.key"\n'
                f'certs = "../certs"\napprove = "all"\n[data]\nsource = "table.npy"\n{labels}'
            )
        JobQueue(self.store).close()

    @property
    def store(self) -> Path:
        return self.folder / "hub"

    def start(self, name: str) -> None:
        service = ["coordinator", "serve", "federation.toml", "--store", "hub", "--runs", str(AT_A_TIME), "--quiet"]
        service += ["--metrics", str(self.page)]
        words = service if name == SERVICE else ["party", "run", f"{name}/party.toml", "--quiet"]
        self.running[name] = STARTER.Process(target=component, args=(words, self.folder, f"{name}.log"))
        self.running[name].start()

    @contextlib.contextmanager
    def up(self) -> Iterator[None]:
        start_starter()
        for name in (SERVICE, *self.names):
            self.start(name)
        try:
            yield
        finally:
            for process in self.running.values():
                process.terminate()
            for process in self.running.values():
                process.join(60)
                process.kill()
                process.join()

    def runs(self) -> list[int]:
        """The processes of runs: children of the one that forks them, itself a child of the service."""
        return sorted(run for fork in children(self.running[SERVICE].pid or 0) for run in children(fork))

    def kill(self, draw: random.Random) -> str:
        """Kill one of them as a power cut does, and start it again; which kind of component it was."""
        kind = draw.choice([SERVICE, "party", "run"])
        if kind == "run":
            if not (runs := self.runs()):
                return "none"
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(runs), signal.SIGKILL)
            return kind
        name = SERVICE if kind == SERVICE else draw.choice(self.names)
        self.running[name].kill()
        self.running[name].join()
        self.start(name)
        return kind

    def ready(self) -> bool:
        """Whether the service is up, and every party connected to it."""
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self.page}/ready", timeout=5) as said,
        ):
            return bool(said.status == 200)
        return False

    def memory(self) -> dict[str, int]:
        """Kilobytes that are resident, by process."""
        return {name: resident(process.pid or 0) for name, process in self.running.items()}


def start_starter() -> None:
    path = os.pathsep.join(one for one in sys.path if one)  # it takes none from this process
    with mock.patch.dict(os.environ, {**ENVIRONMENT, "PYTHONPATH": path}):
        STARTER.set_forkserver_preload(["benchmarks.service_warm"])
        forkserver.ensure_running()


def component(words: list[str], folder: Path, log: str) -> None:
    """One command, in a process of its own."""
    from colonnade.cli import main as command

    os.chdir(folder)
    os.environ.update(ENVIRONMENT)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(written, number)
    sys.argv = ["colonnade", *words]
    command()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def children(pid: int) -> set[int]:
    with contextlib.suppress(FileNotFoundError):
        return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    return set()


def submit(site: Site, count: int) -> dict[str, float]:
    """So many jobs, each another problem, of three owners; by name what makes it another."""
    settings = {}
    with co.Jobs(site.store) as jobs:
        for k in range(count):
            name, setting = f"job-{k:03}", round(0.5 + 0.01 * k, 4)
            text = EXACT_JOB.format(radius=setting, rounds=ROUNDS)
            if site.policy.epsilon is not None:
                text = PRIVATE_JOB.format(a=setting, epsilon=EACH)
            file = site.folder / "job.toml"
            file.write_text(text)
            jobs.submit(name, file, owner=f"owner{k % 3}")
            settings[name] = setting
    return settings


def wait(site: Site, count: int, pause: float | None, seed: int) -> tuple[Counter[str], dict[int, dict[str, int]]]:
    """Until all jobs are over; with a `pause` something is killed so often. What was killed, and memory by jobs done."""
    draw, killed, seen = random.Random(seed), Counter[str](), dict[int, dict[str, int]]()
    last, began, before, told = time.monotonic(), time.monotonic(), 0, 0
    with co.Jobs(site.store) as jobs:
        while (done := sum(job.over for job in jobs.list())) < count:
            if time.monotonic() > began + 300 + 60 * count:
                break  # `check` says what is missing
            if done not in seen and pause is None:
                seen[done] = site.memory()
            if done >= told + 10:
                told = done
                print(
                    f"   {done} of {count} after {time.monotonic() - began:.0f} s, {killed.total()} kills", flush=True
                )
            carried = sum(job.bytes for job in jobs.list())
            enough = killed.total() >= BETWEEN * (done + 1)  # on a busy machine nothing else would ever end
            if pause is not None and (carried == before or enough or not site.ready()):
                last = time.monotonic()  # what was killed is not back yet, or nothing has been asked since
            elif pause is not None and time.monotonic() - last > draw.uniform(0.0, 2.0) * pause:
                killed[site.kill(draw)] += 1
                last, before = time.monotonic(), carried
            time.sleep(0.2)
        if pause is None:
            seen[count] = site.memory()
    return killed, seen


def releases(folder: Path, name: str, policy: co.Policy) -> tuple[dict[str, list[Any]], float, int]:
    """Every release of a party by run, what counts against its limit (epsilon), and how many runs are open."""
    log = FileLog(folder / "nodes" / f"{name}.db")
    with contextlib.closing(log):
        log.verify()
        ledger, found = Ledger(log, name, policy), dict[str, list[Any]]()
        entries = ledger.entries()
        assert len({(e.run, e.tick, e.slot) for e in entries}) == len(entries), "a release is recorded twice"
        for e in entries:
            found.setdefault(e.run, []).append((e.tick, e.slot, e.event, e.what))
        return found, ledger.budget().spent, len(ledger.open_runs())


def check(site: Site, settings: dict[str, float]) -> list[str]:
    """What is wrong after a series; empty if nothing is."""
    troubles = []
    with co.Jobs(site.store) as jobs:
        listed = {job.name: job for job in jobs.list()}
        fits = {name: jobs.fit(name) for name, job in listed.items() if job.state == "finished"}
    troubles += [f"{job.name}: {job.state} still" for job in listed.values() if not job.over]
    troubles += [
        f"{j.name}: {j.state} without a reason" for j in listed.values() if j.state != "finished" and not j.why
    ]
    with contextlib.closing(RunStore(site.store)) as store:
        begun, ended = dict(store.begun()), store.ended()
    if len(begun) > len(settings) or len({job.run for job in listed.values() if job.run}) < len(fits):
        troubles.append(f"{len(begun)} runs were begun for {len(settings)} jobs")
    troubles += [f"run {run} is not over" for run in begun if run not in ended]
    expected: dict[str, list[Any]] = {}
    if site.policy.epsilon is None:
        with tempfile.TemporaryDirectory() as own:
            problem = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
            method = co.DistributedFrankWolfe(rounds=ROUNDS, tolerance=0.0)
            co.fit(site.federation, problem, method, store=own)
            expected = {name: next(iter(releases(Path(own), name, EXACT)[0].values())) for name in site.names}
        for name, fit in fits.items():
            alone = co.fit(site.federation, co.Problem(co.LeastSquares(), co.L1Ball(settings[name])), method)
            if not all(np.array_equal(alone.coefficients[p], fit.coefficients[p]) for p in site.names):
                troubles.append(f"{name}: another model than in one process")
    done = {fit.run for fit in fits.values()}
    for name in site.names:
        found, spent, still = releases(site.folder / name / "store", name, site.policy)
        if still:
            troubles.append(f"{name}: {still} runs are open in its ledger")
        if site.policy.epsilon is not None and spent > site.policy.epsilon * (1 + 1e-9):
            troubles.append(f"{name}: overspent, {spent:.4g} of {site.policy.epsilon}")
        if expected:
            sizes = {run: len(rows) for run, rows in found.items() if run in done}
            more = [run for run, size in sizes.items() if size != len(expected[name])]
            troubles += [f"{name}: run {run} released {sizes[run]} times, not {len(expected[name])}" for run in more]
    return troubles


def series(
    title: str, policy: co.Policy, count: int, pause: float | None, seed: int = 1
) -> tuple[bool, dict[int, dict[str, int]]]:
    shared = Path("/dev/shm")  # a killed process loses no page that was written
    folder = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
    try:
        site = Site(folder, policy)
        settings, began = submit(site, count), time.monotonic()
        with site.up():
            killed, memory = wait(site, count, pause, seed)
        took = time.monotonic() - began
        with co.Jobs(site.store) as jobs:
            states = Counter(job.state for job in jobs.list())
            reasons = Counter(job.why.partition(":")[0][:70] for job in jobs.list() if job.state == "failed")
            tries = sum(job.attempts for job in jobs.list())
        troubles = check(site, settings)
        spent = [releases(folder / name / "store", name, policy)[1] for name in site.names]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{title}: {dict(states)} in {took:.0f} s, {tries} attempts; killed {dict(killed)}")
    for reason, times in reasons.items():
        print(f"   failed {times} times: {reason}")
    if policy.epsilon is not None:
        print(f"   epsilon spent of {policy.epsilon}: at most {max(spent):.3f}")
    for trouble in troubles:
        print(f"   WRONG: {trouble}")
    return not troubles and (policy.epsilon is not None or states[JobState.FINISHED] == count), memory


def is_flat(memory: dict[int, dict[str, int]], count: int) -> bool:
    """What every process held after the first jobs and at the end."""
    first = min((done for done in memory if done >= min(WARM, count // 5)), default=count)
    print(f"   resident megabytes after {first} and after {count} jobs:")
    for name, before in memory[first].items():
        print(f"   {name:8} {before / 1024:7.1f} {memory[count][name] / 1024:7.1f}")
    grown = [name for name, before in memory[first].items() if memory[count][name] > FLAT * before]
    if count <= WARM:
        print(f"   flat or not is a claim about more than {WARM} jobs")
    elif grown:
        print(f"   WRONG: more than {FLAT:g} times as much: {', '.join(grown)}")
    return count <= WARM or not grown


def main(quick: bool = True) -> int:
    count, pause = (8, 3.0) if quick else (100, 3.0)
    well, memory = series("undisturbed", EXACT, count, None)
    verdicts = {"undisturbed": well, "memory": is_flat(memory, count)}
    for title, policy, some in (("with kills", EXACT, count), ("private, with kills", LIMITED, max(4, count // 5))):
        verdicts[title], _ = series(title, policy, some, pause)
    failed = [name for name, fine in verdicts.items() if not fine]
    print(f"   verdict: {'does not hold: ' + ', '.join(failed) if failed else 'every claim holds'}")
    return int(bool(failed))
