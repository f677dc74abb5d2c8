"""Engines around an engine: one that keeps all letters, one whose wires fail, one whose parties fall silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from colonnade.errors import InvalidInput
from colonnade.notebook import explain
from colonnade.runtime.hosted_node import Carry, Engine, Outcome, deliver_once
from colonnade.runtime.node import LOST, Node
from colonnade.runtime.program import NodeId
from colonnade.runtime.wire import Letter


def _in_process(engine: Engine, around: object) -> Engine:
    """An engine whose letters pass through this process, where they can be kept, changed or lost."""
    if not callable(getattr(engine, "run", None)) or isinstance(engine, type):
        name = f"co.{type(around).__name__}"
        raise InvalidInput(
            f"{name} is for engines whose letters pass through this process, such as co.InProcess(); got {engine!r}. "
            "co.Ray() starts a party that dies again and gives up none; of parties elsewhere co.Grpc(...) gives one up "
            "itself, as deadline and quorum in the federation file say. Nothing was begun."
        )
    return engine


class Tap:
    """An engine that also keeps every letter that went over its wires.

    Parameters
    ----------
    engine
        One whose letters pass through this process, such as `co.InProcess()`.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = _in_process(engine, self)
        self.letters: list[Letter] = []

    def run(self, nodes: Mapping[NodeId, Node], carry: Carry = deliver_once) -> Outcome:
        def listen(letter: Letter) -> Iterable[Letter]:
            self.letters.append(letter)
            return carry(letter)

        return self.engine.run(nodes, listen)


class Faults:
    """An engine whose wires do what `fault` says: lose, repeat, change or forge letters.

    Parameters
    ----------
    engine
        One whose letters pass through this process, such as `co.InProcess()`.
    fault
        From a letter that was sent to the letters that arrive: none, it, or others.
    """

    def __init__(self, engine: Engine, fault: Carry) -> None:
        self.engine = _in_process(engine, self)
        self.fault = fault

    def run(self, nodes: Mapping[NodeId, Node], carry: Carry = deliver_once) -> Outcome:
        def disturbed(letter: Letter) -> Iterable[Letter]:
            for arriving in self.fault(letter):
                yield from carry(arriving)

        return self.engine.run(nodes, disturbed)


class Dropouts:
    """An engine whose parties fall silent, each after so many of its letters, and are given up at once.

    Whoever waits for such a party hears that it is lost, as by a hub whose deadline has passed.

    Parameters
    ----------
    engine
        One whose letters pass through this process, such as `co.InProcess()`.
    after
        By party, how many letters it still sends.
    """

    def __init__(self, engine: Engine, after: Mapping[NodeId, int]) -> None:
        self.engine = _in_process(engine, self)
        self.after = dict(after)

    def run(self, nodes: Mapping[NodeId, Node], carry: Carry = deliver_once) -> Outcome:
        sent: Counter[NodeId] = Counter()

        def thinned(letter: Letter) -> Iterable[Letter]:
            sender = letter.sender
            most = self.after.get(letter.sender)
            if (last := self.after.get(letter.receiver)) is not None and sent[letter.receiver] > last:
                return
            sent[sender] += 1
            if most is None or sent[sender] <= most:
                yield from carry(letter)
            elif sent[sender] == most + 1:
                for peer in sorted(nodes[sender].neighbours):
                    yield Letter(sender, peer, nodes[peer].received_from(sender), 0, LOST)

        return self.engine.run(nodes, thinned)


explain(Engine, Tap, Faults, Dropouts)
