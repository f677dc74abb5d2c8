"""Claims about Ray when something dies: an actor or the driver, at any moment; the run goes on and pays nothing twice.

The moments are gone through with actors of straw in this process, which die before or after any call; then a few times with
real actors and SIGKILL, and many times under the marker `fault`.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from unittest import mock

import pytest

import colonnade as co
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.runtime import ray as engines
from colonnade.runtime.host import Answered, Computed
from colonnade.runtime.ray import Host, Ray
from tests.helpers.contract import EVERY_METHOD, METHODS, federation, fitted

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'colonnade[ray]'")
from ray import cloudpickle  # noqa: E402
from ray.exceptions import ActorDiedError, RayTaskError  # noqa: E402

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

STAR = METHODS["frank-wolfe, least squares"]
CASES = {name: EVERY_METHOD[name] for name in ("frank-wolfe, least squares", "graph admm", "private gram, secure")}


@pytest.fixture
def memory():
    """A folder in memory where there is one: a killed process loses no page that was written."""
    shared = Path("/dev/shm")
    where = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
    yield where
    shutil.rmtree(where)


def bits(made) -> dict[str, bytes]:
    return {party: x.tobytes() for party, x in made.coefficients.items()}


def rows(store) -> dict[str, list]:
    """Every row of every ledger, but for the time of day; chains are walked, and no place may be used twice."""
    found = {}
    for path in sorted((store / "nodes").glob("*.db")):
        log = FileLog(path)
        log.verify()
        entries = Ledger(log, path.stem, co.Policy(exact=True)).entries()
        found[path.stem] = [(e.tick, e.slot, e.event, e.what, e.round) for e in entries]
        assert len({row[:2] for row in found[path.stem]}) == len(entries)
        assert [r.run for r in log.rows(kind="open") if not log.rows(r.run, "close")] == []
        log.close()
    return found


# ------------------------------------------------------------------------------------------------ actors of straw


class Straw(Ray):
    """An engine whose actors are objects of this process; at the calls named in `fatal` the one that is called dies."""

    def __init__(self, fatal: frozenset[int] = frozenset(), after: bool = False) -> None:
        super().__init__()
        self.fatal, self.after, self.calls = fatal, after, 0

    def hire(self, party):
        return Actor(self)


class Actor:
    """The face of a Ray actor over a Host, which a death forgets."""

    def __init__(self, engine: Straw) -> None:
        self.engine = engine
        self.sit, self.call, self.turn, self.rise = (Method(self, name) for name in ("sit", "call", "turn", "rise"))
        self.start()

    def start(self) -> None:
        with mock.patch("threadpoolctl.threadpool_limits"):  # this process has other work, too
            self.host = Host()

    def die(self) -> None:
        self.host.leaving.close()  # the system closes files, and so frees locks
        self.start()

    def do(self, what: str, *arguments):
        self.engine.calls += 1
        fatal = self.engine.calls in self.engine.fatal
        if fatal and not self.engine.after:
            self.die()
            return failed(ActorDiedError())
        arguments = [cloudpickle.loads(a) if what == "sit" and isinstance(a, bytes) else a for a in arguments]
        try:
            answer = Answered(lambda: getattr(self.host, what)(*arguments))
            answer = Answered(lambda: cloudpickle.loads(cloudpickle.dumps(answer.result())))
            answer.result()
        except Exception as error:
            answer = failed(RayTaskError(what, "", error))
        if fatal:
            self.die()
            return failed(ActorDiedError())
        return answer


class Method:
    def __init__(self, actor: Actor, name: str) -> None:
        self.actor, self.name = actor, name

    def remote(self, *arguments):
        answer = self.actor.do(self.name, *arguments)
        return mock.Mock(future=lambda: answer)


def failed(error: Exception) -> Future:
    answer: Future = Future()
    answer.set_exception(error)
    return answer


def straw_fit(case, store, fatal=frozenset(), after=False, fit=fitted):
    """A fit, and how many calls its actors had."""
    engine = Straw(frozenset(fatal), after)
    nothing = mock.Mock(put=cloudpickle.dumps, wait=lambda refs, **_: (refs, []))  # Ray's own functions
    with mock.patch.object(engines, "_ray", return_value=nothing):
        return fit(case, engine, store=store), engine.calls


def through_all_moments(case, memory, number: int | None) -> None:
    """Die once at each moment, or at so many of them spread evenly, before and after what was asked is done."""
    reference = fitted(case, store=memory / "calm")
    calm, moments = straw_fit(case, memory / "straw")
    assert bits(calm) == bits(reference)
    chosen = range(1, moments + 1) if number is None else {1 + i * (moments - 1) // (number - 1) for i in range(number)}
    for fatal in chosen:
        for after in (False, True):
            here = memory / f"{fatal}{after}"
            fit, _ = straw_fit(case, here, {fatal}, after)
            assert bits(fit) == bits(reference), (fatal, after)
            assert fit.communication == reference.communication, (fatal, after)
            assert rows(here) == rows(memory / "calm"), (fatal, after)
            shutil.rmtree(here)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_in_which_an_actor_dies_at_some_moment_is_as_if_nothing_had_happened(case, memory):
    through_all_moments(case, memory, 4)


@pytest.mark.fault
@pytest.mark.parametrize("case", EVERY_METHOD.values(), ids=EVERY_METHOD)
def test_a_run_in_which_an_actor_dies_at_any_moment_is_as_if_nothing_had_happened(case, memory):
    through_all_moments(case, memory, None)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(k, marks=pytest.mark.fault) for k in range(2, 12))])
def test_a_run_in_which_many_actors_die_is_as_if_nothing_had_happened(seed, memory):
    case, draw = EVERY_METHOD["graph admm"], random.Random(seed)
    _, moments = straw_fit(case, memory / "calm")
    fatal = {k for k in range(1, 3 * moments) if draw.random() < 0.1}
    fit, _ = straw_fit(case, memory / "many", fatal, after=bool(seed % 2))
    assert bits(fit) == bits(fitted(case))
    assert rows(memory / "many") == rows(memory / "calm")


def unseeded(case, engine, store):
    """The case with noise that cannot be repeated."""
    fed = federation(case).with_policies(dict.fromkeys(federation(case).parties, co.Policy(epsilon=1.0, delta=1e-6)))
    return co.fit(fed, case.problem, method=case.method, privacy=case.privacy, engine=engine, store=store)


@contextlib.contextmanager
def noisy_releases():
    """The place of every release that asks for noise: node, tick, slot. How many bytes its sampler reads is chance."""
    places, fresh = [], Gate._fresh

    def noted(gate):
        places.append((gate.node, gate._tick, gate._slot - 1))  # the slot is taken by then
        return fresh(gate)

    with mock.patch.object(Gate, "_fresh", noted):
        yield places


@pytest.mark.chance(0, "noise stands in no row: places and prices are fixed by the plan")
def test_an_actor_that_died_after_its_release_sends_the_same_release_again(memory):
    """Noise is drawn once for every noisy row of the ledger, however often the row's message is made again."""
    case = METHODS["private sharing admm"]
    _, moments = straw_fit(case, memory / "calm", fit=unseeded)
    calm = rows(memory / "calm")
    noisy = sorted((name, *row[:2]) for name, own in calm.items() for row in own if row[2].mechanism == "gaussian")
    assert noisy
    for fatal in range(1, moments + 1, max(1, moments // 5)):
        with noisy_releases() as places:
            straw_fit(case, memory / str(fatal), {fatal}, after=True, fit=unseeded)
        assert sorted(places) == noisy, fatal
        assert rows(memory / str(fatal)) == calm, fatal


def test_an_actor_that_never_comes_back_is_replaced_and_then_given_up_without_losing_the_run(memory):
    case = STAR
    _, moments = straw_fit(case, memory / "calm")
    late = moments // 2
    fit, _ = straw_fit(case, memory / "replaced", range(late, late + 5))
    assert bits(fit) == bits(fitted(case))
    with pytest.raises(co.ColonnadeError, match=r"died 20 times in a row.*the same call goes on"):
        straw_fit(case, memory / "hopeless", range(late, 10_000))
    assert bits(fitted(case, store=memory / "hopeless")) == bits(fitted(case))
    assert rows(memory / "hopeless") == rows(memory / "calm")


# ------------------------------------------------------------------------------------------------ real actors


def process_of(actor) -> int:
    """The process that an actor lives in; one that was killed a moment ago must be there again first."""
    until = time.monotonic() + 60.0
    while True:
        try:
            return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))
        except ray.exceptions.ActorUnavailableError:
            assert time.monotonic() < until
            time.sleep(0.1)


class Deadly(Ray):
    """Ray whose actors are killed at the questions named, each in its way; what arrives of every letter is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.fatal: dict[int, str] = {}
        self.asked, self.interrupt = 0, 0
        self.wire: dict[tuple, set[bytes]] = {}

    def hosted_nodes(self, *arguments):
        made = super().hosted_nodes(*arguments)
        promise, self.asked = made.promise, 0

        def watched(name, what, *letters):
            self.asked += 1
            if self.asked == self.interrupt:
                signal.raise_signal(signal.SIGINT)
            due = [at for at in self.fatal if at <= self.asked]  # the coordinator is no actor: then the next one
            way = self.fatal.pop(due[0]) if due and name in made.actors else None
            pid = process_of(made.actors[name]) if way == "from outside" else 0
            if way == "by itself":
                made.actors[name].__ray_call__.remote(lambda _: os.kill(os.getpid(), signal.SIGKILL))
            future = promise(name, what, *letters)
            if way == "from outside":
                os.kill(pid, signal.SIGKILL)
            elif way == "by Ray":
                ray.kill(made.actors[name], no_restart=False)
            return Computed(future, self.noted) if what == "turn" else future

        made.promise = watched
        return made

    def noted(self, promise):
        turn = promise.result()
        for x in turn.letters:
            self.wire.setdefault((x.sender, x.receiver, x.sequence), set()).add(x.sha256)
        return turn

    def fit(self, case, store, fatal=None, interrupt=0, fit=fitted):
        """A fit with these deaths; nothing may have left twice in two forms."""
        self.fatal, self.interrupt, self.wire = dict(fatal or {}), interrupt, {}
        made = fit(case, self, store=store)
        assert {len(forms) for forms in self.wire.values()} == {1}
        return made


@pytest.fixture(scope="module")
def deadly():
    with Deadly() as engine:
        yield engine


WAYS = ("by itself", "from outside", "by Ray")


@pytest.mark.fault
def test_killed_actors_change_nothing(deadly, memory):
    """Three deaths in one run, each in another way; one in a run without a store; and an interruption by Ctrl-C, after which the
    same call goes on."""
    reference = fitted(STAR, store=memory / "calm")
    fit = deadly.fit(STAR, memory / "killed", {25: WAYS[0], 45: WAYS[1], 60: WAYS[2]})
    assert not deadly.fatal  # all of them have died
    assert bits(fit) == bits(reference)
    assert fit.communication == reference.communication
    assert rows(memory / "killed") == rows(memory / "calm")
    assert bits(deadly.fit(STAR, None, {25: WAYS[1]})) == bits(
        reference
    )  # records that are not synced outlive a process
    assert not deadly.fatal
    with pytest.raises(KeyboardInterrupt):
        deadly.fit(STAR, memory / "pressed", interrupt=40)
    fit = deadly.fit(STAR, memory / "pressed")
    assert bits(fit) == bits(reference)
    assert rows(memory / "pressed") == rows(memory / "calm")


@pytest.mark.fault
def test_killed_actors_pay_nothing_twice(deadly, memory):
    case = METHODS["private sharing admm"]
    reference = fitted(case, store=memory / "calm")
    fit = deadly.fit(case, memory / "killed", {30: WAYS[1]})
    assert not deadly.fatal
    assert bits(fit) == bits(reference)
    assert rows(memory / "killed") == rows(memory / "calm")


@pytest.mark.fault
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_actors_killed_in_long_series_change_nothing(case, deadly, memory):
    reference, draw = fitted(case, store=memory / "calm"), random.Random(7)
    deadly.fit(case, memory / "counted")
    questions = deadly.asked
    for trial in range(12):
        fatal = {draw.randint(1, questions): draw.choice(WAYS) for _ in range(3)}
        fit = deadly.fit(case, memory / str(trial), fatal)
        assert bits(fit) == bits(reference), fatal
        assert rows(memory / str(trial)) == rows(memory / "calm"), fatal


@pytest.mark.fault
def test_actors_killed_under_noise_of_the_system_release_one_form_of_everything(deadly, memory):
    case, draw = METHODS["private sharing admm"], random.Random(11)
    deadly.fit(case, memory / "calm", fit=unseeded)
    questions = deadly.asked
    for trial in range(12):
        fatal = {draw.randint(1, questions): draw.choice(WAYS) for _ in range(2)}
        deadly.fit(case, memory / str(trial), fatal, fit=unseeded)
        assert rows(memory / str(trial)) == rows(memory / "calm"), fatal


# ------------------------------------------------------------------------------------------------ the driver dies

DRIVER = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.faults.test_ray_faults import STAR, Deadly, fitted
class Dying(Deadly):
    def noted(self, promise):
        turn = super().noted(promise)
        if sum(map(len, self.wire.values())) >= int(sys.argv[4]):
            os.kill(os.getpid(), signal.SIGKILL) if sys.argv[3] == "kill" else os.killpg(0, signal.SIGINT)
        return turn
fitted(STAR, Dying(), store=Path(sys.argv[2]))
"""


def driver_dies(store: Path, how: str, at: int) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", DRIVER, str(Path(__file__).parents[2]), str(store), how, str(at)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, start_new_session=True)


def begun(store: Path) -> int:
    log = FileLog(store / "runs.db")
    count = len(log.rows(kind="begin"))
    log.close()
    return count


def check_driver(memory: Path, how: str, at: int, engine) -> None:
    died = driver_dies(memory / "died", how, at)
    if how == "kill":
        assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
    else:
        assert "KeyboardInterrupt" in died.stderr
    fit, reference = fitted(STAR, engine, store=memory / "died"), fitted(STAR, store=memory / "calm")
    assert bits(fit) == bits(reference)
    assert fit.communication == reference.communication
    assert rows(memory / "died") == rows(memory / "calm")
    assert begun(memory / "died") == 1


@pytest.mark.fault
def test_a_driver_killed_in_mid_run_goes_on_when_the_call_is_repeated(memory):
    """Repeated in one process: what a run has recorded does not say on which engine."""
    check_driver(memory, "kill", 20, co.InProcess())


@pytest.mark.fault
@pytest.mark.parametrize("how", ["kill", "interrupt"])
@pytest.mark.parametrize("at", [1, 11, 30])
def test_a_driver_that_dies_anywhere_goes_on_on_ray(memory, how, at, deadly):
    check_driver(memory, how, at, deadly)
