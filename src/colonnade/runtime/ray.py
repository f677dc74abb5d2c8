"""On a Ray cluster: one actor a party, for one owner whose columns outgrow a machine.

    co.fit(fed, problem, method, engine=co.Ray())                       # a local Ray, started on demand
    co.fit(fed, problem, method, engine=co.Ray("auto"), store="runs")   # the cluster this machine belongs to

Blocks go through Ray's object store, once; of a block that is a recipe only the recipe goes. An actor that dies is
started again by Ray, which forgets what it held; its host does not: it replays its transcript, and the run goes on to
the bit. Without `store=` transcripts are kept in a temporary folder for as long as the run lasts, and not synced to
disk: they outlive an actor, and not the machine, with which such a run ends anyway.

Turns travel as plain bytes, which Ray carries twice as fast as objects. Both ends are processes of one owner and one
version; between organisations turns travel as messages that trust nothing.

    question   a head, and each letter's body as it is
    answer     length of the head (4 bytes, little-endian) | head | the bodies, one behind the other

A head is JSON: of each letter sender, receiver, the kind of message inside, place, round and length.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import logging
import os
import shutil
import socket
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from colonnade.errors import ColonnadeError, InvalidInput, StoreError
from colonnade.notebook import explain
from colonnade.privacy.events import Ending, Plan
from colonnade.privacy.ledger import Terms
from colonnade.privacy.store import FileLog
from colonnade.runtime.host import (
    Answered,
    AskedHost,
    Computed,
    Distributed,
    HostedNodes,
    Lost,
    NodeLogs,
    Promise,
    Turns,
    ask_hosts,
)
from colonnade.runtime.hosted_node import HostedNode, Outcome, Turn
from colonnade.runtime.node import Listener, NodeSetup
from colonnade.runtime.program import COORDINATOR, NodeId
from colonnade.runtime.wire import Letter

if TYPE_CHECKING:
    from types import ModuleType

SPARE = 3  # deaths in a row after which a party gets another actor: perhaps this one will not be started again
ATTEMPTS = 20  # deaths in a row after which something else must be wrong
PATIENCE = 60.0  # seconds for another process to let go of a node's records
ANSWER = 5.0  # seconds for a cluster to answer at its address
STARTS = 2  # times that Ray is started here before it is given up


class Fresh(Exception):
    """The actor was started, or started again, and has not heard of the run yet."""


class Host:
    """What an actor holds: one host at a time."""

    def __init__(self) -> None:
        from threadpoolctl import threadpool_limits

        # As in one process: results must not depend on threads.
        threadpool_limits(limits=1)
        self.host: HostedNode | None = None
        self.refused: Exception = Fresh()  # why there is no host
        self.leaving = contextlib.ExitStack()

    def sit(self, setup: NodeSetup, run: str, path: str, terms: tuple[Any, ...] | None, passing: bool) -> None:
        """Take a setup in a run; `terms` are what it reserved, if it sat there before."""
        try:
            self.rise()
            self.leaving.enter_context(_hold_records(Path(path), passing))
            log = FileLog(path, synced=not passing)
            self.leaving.callback(log.close)
            host = HostedNode(setup, run, log)
            if terms is not None:
                host.reserve(*terms)
            self.host = host
        except Exception as error:
            # Told to whoever asks next: nobody waits for this call.
            self.refused = error

    def rise(self) -> None:
        """Leave the run, and its records."""
        self.host = None
        self.refused = Fresh()
        self.leaving.close()

    def call(self, what: str, *arguments: Any) -> Any:
        """Ask the host; `what` names a method of HostedNode."""
        if self.host is None:
            raise self.refused
        return getattr(self.host, what)(*arguments)

    def turn(self, head: bytes, *bodies: bytes) -> bytes | Turn:
        return write_answer(self.call("turn", read_question(head, *bodies)))


@contextlib.contextmanager
def _hold_records(path: Path, passing: bool) -> Iterator[None]:
    """Hold the records of a node for this process alone: an actor of a killed driver may still write to them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        _claim(lock, path)
        try:
            yield
        finally:
            if passing:
                shutil.rmtree(path.parent, ignore_errors=True)


def _claim(lock: IO[str], path: Path) -> None:
    late = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time.monotonic() > late:
            raise StoreError(f"another process has held {path} for {PATIENCE:.0f} seconds. End it and repeat the call.")
        time.sleep(0.02)


class Ray:
    """An engine on Ray. As a context (`with co.Ray() as engine:`) it keeps its actors for the next run.

    Parameters
    ----------
    address
        Of a cluster, or "auto" for the one this machine belongs to; None is what RAY_ADDRESS says, and without it Ray
        is started here, and stopped afterwards. Where the process is connected to Ray already, that is used.
    placement
        By party, the address of a machine of the cluster, for parties whose files lie there.
    """

    def __init__(self, address: str | None = None, *, placement: Mapping[str, str] | None = None) -> None:
        self.address = address
        self.placement = dict(placement or {})
        self._idle: dict[str | None, list[Any]] = defaultdict(list)  # actors without a setup, by machine
        self._ours = self._stays = False

    def __enter__(self) -> Self:
        self._stays = True
        return self

    def __exit__(self, *_: object) -> None:
        self._stays = False
        self.close()

    def hosted_nodes(
        self,
        run: str,
        setups: Mapping[NodeId, NodeSetup],
        logs: NodeLogs,
        listener: Listener,
        call: Any,  # noqa: ARG002
    ) -> HostedNodes:
        if strangers := self.placement.keys() - (setups.keys() - {COORDINATOR}):
            there = ", ".join(name for name in setups if name != COORDINATOR)
            raise InvalidInput(f"placement names {min(strangers)!r}, which is not a party; there are {there}.")
        self._start()
        try:
            self._check_machines()
            return RayNodes(self, run, setups, logs, listener)
        except BaseException:
            self.release({})
            raise

    def _start(self) -> None:
        ray = _ray()
        if ray.is_initialized():
            return
        address = self.address or os.environ.get("RAY_ADDRESS") or None  # as Ray itself looks for it
        if address is not None:
            _check_reachable(address)
        # Ray would report to its makers what runs here; whether it may is for the user to say, by this variable.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray's own 30 are short on a machine at work.
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "90")
        starts = STARTS if address is None else 1
        for attempt in range(1, starts + 1):
            try:
                with _silence_remarks():
                    ray.init(address, log_to_driver=False, include_dashboard=False, configure_logging=False)
                break
            except Exception as error:
                # Of many kinds, and plain ones: a node that was slow to start is an `Exception`.
                _end_what_began(error)
                if attempt == starts:
                    raise _not_there(address, error) from error
        self._ours = True

    def _check_machines(self) -> None:
        if not self.placement:
            return
        there = {node["NodeManagerAddress"] for node in _ray().nodes() if node["Alive"]}
        for party, machine in self.placement.items():
            if machine not in there:
                raise InvalidInput(
                    f"placement puts {party!r} on {machine!r}, which is no machine of this cluster; there are "
                    f"{', '.join(sorted(there))}."
                )

    def hire(self, party: NodeId) -> Any:
        """An actor for a party, on the machine where its files lie, if that was said.

        Parameters
        ----------
        party
            Its name.
        """
        machine = self.placement.get(party)
        if self._idle[machine]:
            return self._idle[machine].pop()
        pinned = {} if machine is None else {"resources": {f"node:{machine}": 1e-3}}
        # An actor waits for letters most of the time: it asks for no processor of its own, so that all fit on two.
        return _ray().remote(num_cpus=0, max_restarts=-1, **pinned)(Host).remote()

    def release(self, actors: Mapping[NodeId, Any]) -> None:
        """Actors whose run is over, for the next one; whoever is still at work after a while is ended.

        Parameters
        ----------
        actors
            By party.
        """
        ray = _ray()
        left = {actor.rise.remote(): (party, actor) for party, actor in actors.items()}
        if left:
            ray.wait(list(left), num_returns=len(left), timeout=PATIENCE, fetch_local=False)
        risen = set(ray.wait(list(left), num_returns=len(left), timeout=0, fetch_local=False)[0]) if left else set()
        for answer, (party, actor) in left.items():
            if answer in risen:
                self._idle[self.placement.get(party)].append(actor)
            else:
                ray.kill(actor)
        if not self._stays:
            self.close()

    def close(self) -> None:
        """Let the actors go, and Ray, if it was started for them."""
        ray = _ray()
        for actor in [actor for actors in self._idle.values() for actor in actors]:
            ray.kill(actor)
        self._idle.clear()
        if self._ours:
            ray.shutdown()
            self._ours = False


explain(Distributed, Ray)


class RayNodes:
    """The coordinator here, if the method has one, and every party in an actor of its own."""

    def __init__(
        self, engine: Ray, run: str, setups: Mapping[NodeId, NodeSetup], logs: NodeLogs, listener: Listener
    ) -> None:
        self.engine = engine
        self.run = run
        self.listener = listener
        self.passing = None if logs.durable else Path(tempfile.mkdtemp(prefix="colonnade-ray-"))
        here = COORDINATOR in setups
        self.local = HostedNode(setups[COORDINATOR], run, logs.log(COORDINATOR)) if here else None
        self.hosts = {name: self._host(name) for name in setups}
        parties = {name: setup for name, setup in setups.items() if name != COORDINATOR}
        self.paths = {name: self.path(logs, name, place) for place, name in enumerate(parties)}
        # What all hosts reserved, for actors that are started again.
        self.reserved: tuple[Any, ...] | None = None
        self.absent = set(parties)  # whose actor has not heard of the run
        self.deaths: Counter[NodeId] = Counter()  # since a party's last answer
        self.setups = {name: _ray().put(setup) for name, setup in parties.items()}
        self.actors = {name: engine.hire(name) for name in parties}

    def _host(self, name: NodeId) -> AskedHost:
        return AskedHost(lambda what, *arguments: self.promise(name, what, *arguments))

    def path(self, logs: NodeLogs, name: NodeId, place: int) -> str:
        path = logs.log_path(name) if self.passing is None else self.passing / str(place) / "node.db"
        assert path is not None
        return str(path.resolve())

    def reserve(self, terms: Terms, plans: Mapping[str, Plan], keys: Mapping[NodeId, bytes]) -> None:
        self.reserved = (terms, plans, keys)
        ask_hosts(self.hosts, lambda _, host: host.reserve(terms, plans, keys))

    def drive(self) -> Outcome:
        return Turns(self.hosts, self.listener).run()

    def close(self, ending: Ending) -> None:
        # An actor that is started again from here on has nothing left to reserve.
        self.reserved = None
        ask_hosts(self.hosts, lambda _, host: host.close(ending))

    def promise(self, name: NodeId, what: str, *arguments: Any) -> Promise[Any]:
        if name == COORDINATOR:
            return Answered(lambda: getattr(self.local, what)(*arguments))
        self.revive(name)
        # Calls of one caller are taken in order: this one comes before the question.
        if name in self.absent:
            self.absent.discard(name)
            self.actors[name].sit.remote(
                self.setups[name], self.run, self.paths[name], self.reserved, self.passing is not None
            )
        if what == "turn":
            asked = self.actors[name].turn.remote(*write_question(*arguments))
            return Computed(asked.future(), lambda found: read_answer(self.read_answer(name, found)))
        asked = self.actors[name].call.remote(what, *arguments)
        return Computed(asked.future(), lambda found: self.read_answer(name, found))

    def read_answer(self, name: NodeId, found: Promise[Any]) -> Any:
        """An answer, or what became of it."""
        from ray.exceptions import RayActorError, RayTaskError

        try:
            answer = found.result()
        except RayActorError as error:
            self.deaths[name] += 1
            raise Lost(name) from error
        except RayTaskError as error:
            if not isinstance(error.cause, Fresh):
                raise error.cause or error from None
            self.absent.add(name)
            raise Lost(name) from None
        self.deaths[name] = 0
        return answer

    def revive(self, name: NodeId) -> None:
        """Another actor for a party whose own does not come back."""
        if self.deaths[name] >= ATTEMPTS:
            raise ColonnadeError(
                f"the actor of {name!r} died {self.deaths[name]} times in a row; Ray's own logs say why (memory?). The "
                "run is not lost: with store=, the same call goes on with it."
            )
        if self.deaths[name] and self.deaths[name] % SPARE == 0:
            _ray().kill(self.actors[name])
            self.actors[name] = self.engine.hire(name)
            self.absent.add(name)

    def leave(self) -> None:
        self.engine.release(self.actors)
        if self.passing is not None:
            shutil.rmtree(self.passing, ignore_errors=True)


# ------------------------------------------------------------------------------------------------ turns as bytes


def write_question(letters: Sequence[Letter]) -> tuple[bytes, ...]:
    """The letters that a turn brings: a head and the bodies."""
    return json.dumps(_heads(letters)).encode(), *(letter.body for letter in letters)


def read_question(head: bytes, *bodies: bytes) -> list[Letter]:
    """The letters of a question."""
    return _letters(json.loads(head), bodies)


def write_answer(turn: Turn) -> bytes | Turn:
    """A turn as bytes; one with notes or a failure, which can hold anything, as it is."""
    if turn.notes or turn.failure is not None:
        return turn
    rest = turn.finished, turn.wait, turn.told, turn.more, sorted(turn.missing)
    head = json.dumps([_heads(turn.letters), *rest]).encode()
    return b"".join([len(head).to_bytes(4, "little"), head, *(letter.body for letter in turn.letters)])


def read_answer(raw: bytes | Turn) -> Turn:
    """The turn of an answer."""
    if isinstance(raw, Turn):
        return raw
    start = 4 + int.from_bytes(raw[:4], "little")
    heads, finished, wait, told, more, missing = json.loads(raw[4:start])
    ends = accumulate((size for *_, size in heads), initial=start)
    letters = _letters(heads, [raw[begin:end] for begin, end in pairwise(ends)])
    return Turn(tuple(letters), finished, tuple(wait), (), told, None, more, frozenset(missing))


def _heads(letters: Sequence[Letter]) -> list[tuple[str, str, str, int, int, int]]:
    return [(x.sender, x.receiver, x.inside, x.sequence, x.round, len(x.body)) for x in letters]


def _letters(heads: Sequence[Sequence[Any]], bodies: Sequence[bytes]) -> list[Letter]:
    return [
        Letter(sender, receiver, place, number, body, inside)
        for (sender, receiver, inside, place, number, _), body in zip(heads, bodies, strict=True)
    ]


# ------------------------------------------------------------------------------------------------ reaching Ray


def _ray() -> ModuleType:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise InvalidInput("co.Ray needs Ray, which is not installed. Try: pip install 'colonnade[ray]'") from error


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes, and might end this process in the end."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not host:  # a word: "auto", "local"
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
    except (OSError, ValueError) as error:
        raise _not_there(address, error) from error


def _end_what_began(error: BaseException) -> None:
    """End the processes of a start that failed: Ray itself leaves them to run, in nobody's hands."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if end := getattr(frame.f_locals.get("self"), "kill_all_processes", None):
            end(check_alive=False, wait=True)
    # A node that came up, and to which Ray then did not connect.
    _ray().shutdown()


def _not_there(address: str | None, error: Exception) -> ColonnadeError:
    why = type(error).__name__
    if address is None:
        return ColonnadeError(
            f"Ray did not start here, {STARTS} times ({why}); its own logs say why (memory, a full disk?). Repeat the "
            "call, or start Ray with `ray start --head` and use co.Ray('auto')."
        )
    return InvalidInput(
        f"no Ray cluster answers at {address!r} ({why}). Start it with `ray start`, or leave the address "
        "out to start Ray here."
    )


@contextlib.contextmanager
def _silence_remarks() -> Iterator[None]:
    """Without Ray's remarks on how it starts; its errors stay."""
    log = logging.getLogger("ray")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
