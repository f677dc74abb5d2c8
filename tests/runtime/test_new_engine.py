"""Claims about two engines written as CONTRIBUTING.md says, and by nothing else: they change no result."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest
from threadpoolctl import threadpool_limits

import colonnade as co
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.runtime.host import AskedHost, Computed, Lost, Turns, ask_hosts
from colonnade.runtime.hosted_node import FINAL, HostedNode, Outcome, check_finished, code_of, deliver_once
from colonnade.runtime.wire import Traffic
from tests.helpers.contract import EVERY_METHOD, METHODS, OF_EACH_KIND, fitted

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


class Plain:
    """All letters pass through this process: every node that can go on goes on, in turn."""

    @threadpool_limits.wrap(limits=1)
    def run(self, nodes, carry=deliver_once):
        self.nodes, self.carry, self.traffic, self.failure = nodes, carry, Traffic(), None
        again = [letter for node in nodes.values() for letter in node.replay()]
        sent = Counter((letter.sender, letter.receiver) for letter in again)
        for node in nodes.values():
            node.check_senders(sent)
        self.send(again)
        while ready := [node for node in nodes.values() if node.ready]:
            for node in ready:
                self.send(self.answered(node, node.step))
        if self.failure is not None:
            raise self.failure
        check_finished({name: node.wait for name, node in nodes.items() if not node.finished})
        return Outcome({name: node.result for name, node in nodes.items()}, self.traffic)

    def send(self, letters):
        for letter in letters:
            self.traffic.count(letter)
            for arriving in self.carry(letter):
                node = self.nodes[arriving.receiver]
                if not node.finished:
                    self.send(self.answered(node, partial(node.deliver, arriving)) or ())

    def answered(self, node, do):
        try:
            return do()
        except tuple(FINAL) as error:
            self.failure = self.failure or error
            return node.farewell(code_of(error))


class Threads:
    """Every node lives in a thread of its own; `deaths` counts down the questions until one dies."""

    def __init__(self, deaths=0):
        self.deaths = deaths

    def hosted_nodes(self, run, setups, logs, listener, call):
        return ThreadNodes(self, run, setups, logs, listener)


class ThreadNodes:
    def __init__(self, engine, run, setups, logs, listener):
        self.engine, self.listener, self.reserved = engine, listener, None
        self.threads = {name: ThreadPoolExecutor(1) for name in setups}
        self.make = {name: partial(HostedNode, setup, run, logs.log(name)) for name, setup in setups.items()}
        self.nodes = {name: make() for name, make in self.make.items()}
        self.hosts = {name: AskedHost(partial(self.ask, name)) for name in setups}

    def ask(self, name, what, *arguments):
        self.engine.deaths -= 1
        if self.engine.deaths == 0:
            self.nodes[name] = self.make[name]()
            if self.reserved is not None:
                self.nodes[name].reserve(*self.reserved)
            lost: Future = Future()
            lost.set_exception(Lost(name))
            return lost
        answer = self.threads[name].submit(lambda: getattr(self.nodes[name], what)(*arguments))
        return Computed(answer, lambda found: found.result())

    def reserve(self, terms, plans, keys):
        self.reserved = (terms, plans, keys)
        ask_hosts(self.hosts, lambda _, host: host.reserve(terms, plans, keys))

    @threadpool_limits.wrap(limits=1)
    def drive(self):
        return Turns(self.hosts, self.listener).run()

    def close(self, ending):
        ask_hosts(self.hosts, lambda _, host: host.close(ending))

    def leave(self):
        for thread in self.threads.values():
            thread.shutdown()


def bits(made) -> dict[str, bytes]:
    return {party: x.tobytes() for party, x in made.coefficients.items()}


def rows(store) -> dict[str, list]:
    """Every row of every ledger, but for the time of day."""
    found = {}
    for path in sorted((store / "nodes").glob("*.db")):
        log = FileLog(path)
        entries = Ledger(log, path.stem, co.Policy(exact=True)).entries()
        found[path.stem] = [(e.run, e.tick, e.slot, e.event, e.what, e.round) for e in entries]
        log.close()
    return found


@pytest.mark.parametrize("engine", [Plain, Threads])
@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_the_model_the_bytes_and_the_ledgers_are_those_of_one_process(name, engine, tmp_path):
    one = fitted(EVERY_METHOD[name], store=tmp_path / "one")
    two = fitted(EVERY_METHOD[name], engine(), store=tmp_path / "two")
    assert bits(one) == bits(two)
    assert one.communication == two.communication
    assert rows(tmp_path / "one") == rows(tmp_path / "two")


def test_letters_are_heard_repeated_and_lost_as_in_one_process():
    case = METHODS["frank-wolfe, least squares"]
    tap, plain = co.Tap(Plain()), co.Tap(co.InProcess())
    assert bits(fitted(case, tap)) == bits(fitted(case, plain))
    assert {(x.sender, x.receiver, x.sequence, x.body) for x in tap.letters} == {
        (x.sender, x.receiver, x.sequence, x.body) for x in plain.letters
    }
    assert bits(fitted(case, co.Faults(Plain(), lambda letter: (letter, letter)))) == bits(fitted(case))
    with pytest.raises(co.ProtocolError):
        fitted(case, co.Faults(Plain(), lambda letter: () if letter.sequence == 1 else (letter,)))


@pytest.mark.parametrize("death", [5, 12, 20, 27, 35, 50])
def test_a_host_that_dies_at_any_question_changes_nothing(death, tmp_path):
    case, engine = METHODS["private sharing admm"], Threads(death)
    one = fitted(case, store=tmp_path / "one")
    two = fitted(case, engine, store=tmp_path / "two")
    assert engine.deaths < 0
    assert bits(one) == bits(two)
    assert rows(tmp_path / "one") == rows(tmp_path / "two")
