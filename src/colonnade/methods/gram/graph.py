"""Private Gram without a coordinator: parties on a graph, products by two parties alone, and everybody solves.

Solves   as private_gram.py; trust "parties", and nobody carries or collects anything in the middle.
Steps    every agent plans the next release from public and released figures, and all compare digests of it. Pairs
         compute their products (lattice.py); what two agents that are no neighbours tell each other is passed on
         along the tree of fewest hops from its sender, sealed for its receivers. Then everybody's noisy parts go to
         everybody, and all compare digests of what they got: each agent has the same noisy matrix, solves the same
         problem, and gets the same bits. Digests are sealed: whoever passes them on can change none.
Leaves   what leaves in private_gram.py with trust "parties"; keys of the run, signed by pinned ones. What is proven
         there is proven against whoever sees everything; sealed, agents in between do not.
Price    rho in all, as there.
Not      a third party that multiplies blindly for a pair, as the coordinator of a star does: it would be sent 1.5 times
         the bytes of encryption at the least, and any two parties could break it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.methods.gram.lattice import Lattice, exchange_of, own_counts, own_parts, read_parts
from colonnade.methods.gram.plan import Cross, Figures, GramSettings, RunPlan, SumsBy
from colonnade.methods.gram.private_gram import PrivateGram, conclude, conditions_of, form_of
from colonnade.methods.gram.products import (
    Collected,
    check_prepare,
    class_sums,
    describe,
    gram_matrix,
    outcome_of,
    own_rows,
    plan_gram,
)
from colonnade.methods.gram.rows import Prepared
from colonnade.methods.gram.rule import RowFrame, whole_frame
from colonnade.methods.meeting import Losses
from colonnade.methods.method import GraphMethod, network
from colonnade.model.job import Job, Own
from colonnade.privacy.block import Block
from colonnade.privacy.conditions import Condition
from colonnade.privacy.events import Plan
from colonnade.privacy.exchange import Exchange
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import Trust
from colonnade.privacy.values import Packed, Released, value_digest
from colonnade.problem import Changing, Topology
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Post, Program, expect, message


@message(160)
class Passed:
    """Agent → its neighbour: what it sends, and what it passes on, in the order of the roster: keys, what is sealed for
    whoever it is for, and noisy parts."""

    rows: tuple[Released[bytes], ...]
    numbers: tuple[Released[Packed], ...]


class Item(NamedTuple):
    """What one agent tells others in one exchange."""

    rows: tuple[Released[bytes], ...] = ()
    numbers: tuple[Released[Packed], ...] = ()


@dataclass(frozen=True)
class Mail:
    """Who passes what on: the same at every agent, from the graph and who tells whom."""

    graph: Topology
    names: tuple[str, ...]
    me: str
    _sealed: Counter[str] = field(default_factory=Counter)  # what was sealed for each agent
    _opened: Counter[str] = field(default_factory=Counter)  # and what came sealed from each

    @cached_property
    def _trees(self) -> dict[str, dict[str, str]]:
        """By source: the agent before each other one, on the tree of fewest hops."""
        found = {}
        for i, source in enumerate(self.names):
            parents = self.graph.parents(i)
            found[source] = {name: self.names[parents[j]] for j, name in enumerate(self.names) if j != i}
        return found

    def _way(self, source: str, name: str) -> list[str]:
        """The agents from a source to another one, both included."""
        way = [name]
        while way[-1] != source:
            way.append(self._trees[source][way[-1]])
        return way[::-1]

    def spread(
        self,
        mine: Item,
        reach: Mapping[str, tuple[str, ...]],
        sizes: Mapping[str, tuple[int, int]],
        pace: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Program[dict[str, Item]]:
        """What every source in `reach` tells the agents named there; `sizes`: how many rows and numbers it has.

        `pace`: who tells whom that it goes along, without a word: nobody sends more before it has heard from them.
        """
        told = {source: [self._way(source, to) for to in ends] for source, ends in reach.items()}
        heard = {source: [self._way(source, to) for to in ends] for source, ends in (pace or {}).items()}
        every = [way for ways in (*told.values(), *heard.values()) for way in ways]
        held = {self.me: mine}
        for hop in range(1, max(map(len, every), default=1)):
            steps = [(way[hop - 1], way[hop]) for way in every if hop < len(way)]
            out: dict[str, dict[str, None]] = {to: {} for before, to in steps if before == self.me}
            due: dict[str, dict[str, None]] = {before: {} for before, to in steps if to == self.me}
            for source in sorted(told, key=self.names.index):
                for way in told[source]:
                    if hop < len(way) and way[hop - 1] == self.me:
                        out[way[hop]][source] = None
                    if hop < len(way) and way[hop] == self.me:
                        due[way[hop - 1]][source] = None
            if out or due:
                inbox = yield Post({to: _bundle([held[s] for s in found]) for to, found in out.items()}, tuple(due))
                for before, sources in due.items():
                    held |= _unbundle(expect(inbox, before, Passed), before, {s: sizes[s] for s in sources})
        return {source: held[source] for source, ends in reach.items() if self.me in ends}

    def seal(self, gate: Gate, parts: tuple[Released[Any], ...], to: tuple[str, ...]) -> tuple[Released[bytes], ...]:
        """Something for these agents alone: its content, and for each of them the key to it."""
        places = {agent: self._sealed[agent] for agent in to}
        sealed = gate.sealed(parts, places, f"{sum(self._sealed.values())}")
        self._sealed.update(to)
        return sealed

    def unseal(self, gate: Gate, sender: str, wrapped: Released[bytes], content: Released[bytes]) -> tuple[Any, ...]:
        """What another agent sealed for this one, in the order in which it did."""
        place = self._opened[sender]
        self._opened[sender] += 1
        return tuple(part.value for part in gate.opened(sender, place, wrapped.value, content.value))


def _bundle(items: list[Item]) -> Passed:
    return Passed(tuple(r for item in items for r in item.rows), tuple(n for item in items for n in item.numbers))


def _unbundle(came: Passed, sender: str, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Item]:
    wanted = tuple(sum(size[k] for size in sizes.values()) for k in (0, 1))
    if (len(came.rows), len(came.numbers)) != wanted:
        raise ProtocolError(f"{sender!r} passed on {len(came.rows)} rows and {len(came.numbers)} parts, not {wanted}")
    rows = list(came.rows)
    numbers = list(came.numbers)
    found = {}
    for source, (few, many) in sizes.items():
        found[source] = Item(tuple(rows[:few]), tuple(numbers[:many]))
        rows = rows[few:]
        numbers = numbers[many:]
    return found


@dataclass(frozen=True)
class GraphLine:
    """Rows and answers of one stage, passed on over the graph: all partners in step."""

    exchange: Exchange
    gate: Gate
    mail: Mail

    def rows(self, rows: Released[bytes]) -> Program[dict[str, bytes]]:
        exchange = self.exchange
        mail = self.mail
        me = self.mail.me
        to = {name: exchange.receivers(name) for name in exchange.sending}
        back = {name: exchange.senders(name) for name in mail.names if exchange.senders(name)}
        mine = Item(mail.seal(self.gate, (rows,), to[me])) if me in to else Item()
        came = yield from mail.spread(mine, to, {name: (1 + len(ends), 0) for name, ends in to.items()}, back)
        found = {}
        for sender in exchange.senders(me):
            content, *keys = came[sender].rows
            (found[sender],) = mail.unseal(self.gate, sender, keys[to[sender].index(me)], content)
        return found

    def answers(
        self, blind: Released[Packed] | None, noisy: Mapping[str, Released[Packed]]
    ) -> Program[dict[str, tuple[Packed, ...]]]:
        exchange = self.exchange
        mail = self.mail
        me = self.mail.me
        to = {name: exchange.senders(name) for name in mail.names if exchange.senders(name)}
        mine: tuple[Released[bytes], ...] = ()
        # W, for all of them; then B of each, for it alone.
        if blind is not None:
            mine = mail.seal(self.gate, (blind,), to[me])
            for sender, one in noisy.items():
                mine += mail.seal(self.gate, (one,), (sender,))
        came = yield from mail.spread(Item(mine), to, {name: (1 + 3 * len(ends), 0) for name, ends in to.items()})
        found: dict[str, tuple[Packed, ...]] = {}
        for receiver in exchange.receivers(me):
            whole, *rest = came[receiver].rows
            place = to[receiver].index(me)
            senders = len(to[receiver])
            content, key = rest[senders + 2 * place : senders + 2 * place + 2]
            blinded = mail.unseal(self.gate, receiver, rest[place], whole)
            found[receiver] = *blinded, *mail.unseal(self.gate, receiver, key, content)
        return found


# ------------------------------------------------------------------------------------------------ an agent


def peer(form: Lattice, block: Block, gate: Gate, topology: Topology | Changing | None) -> Program[Own]:
    plan = form.plan
    me = gate.node
    sums = None
    whole = False
    shortened = None
    mail = Mail(network(topology, plan.job.roster), plan.job.roster.parties, me)
    yield from _meet(mail, gate)
    if plan.sums is not None:
        told = yield from _agree(plan, plan.sums, whole_frame(plan.columns), mail, gate)
        whole = all(map(told.layout.whole, plan.job.roster.with_columns))
        came, shortened = yield from _release(plan, told, block, mail, gate)
        sums = class_sums(plan, came, np.zeros(0))
    # Is lost: every agent passes on what others say.
    nobody = Losses(plan.job.roster)
    planned = plan_gram(form, sums, nobody)
    told = yield from _agree(plan, planned.figures, planned.frame, mail, gate)
    came, own = yield from _release(plan, told, block, mail, gate)
    answer = conclude(outcome_of(form, planned, told, gram_matrix(told.layout, came), sums, nobody, whole=whole))
    # Later rows are cut to what class sums say, not to their bound.
    if shortened is None:
        shortened = own
    return Own(answer.coefficients.get(me, np.zeros(0)), gate.receipt(), shortened=shortened, answer=answer)


def _release(plan: RunPlan, told: Prepared, block: Block, mail: Mail, gate: Gate) -> Program[tuple[Collected, int]]:
    """One stage: what came of it, and how many of its own rows were shortened."""
    own = own_rows(plan, told, block, gate, np.zeros(0))
    exchange = exchange_of(plan, told.figures, told.layout)
    parts = yield from own_parts(plan, told, own, exchange, GraphLine(exchange, gate, mail))
    return (yield from _pool(plan, told, exchange, mail, gate, parts)), own.rows.shortened


def _meet(mail: Mail, gate: Gate) -> Program[None]:
    """Everybody's keys of this run, at everybody, if their pinned keys signed them."""
    came = yield from mail.spread(Item(gate.hello()), _to_all(mail), dict.fromkeys(mail.names, (2, 0)))
    for name, item in came.items():
        gate.keyring.meet(name, *(part.value for part in item.rows))


def _agree(plan: RunPlan, figures: Figures, frame: RowFrame, mail: Mail, gate: Gate) -> Program[Prepared]:
    """The next release, once all agents have said that they planned the same: before that nothing of it leaves."""
    prepared = check_prepare(plan, figures.name, describe(plan, figures, frame, np.zeros(0)))
    otherwise = "planned another release than we did: compare the federation files of both."
    yield from _compare(prepared.digest, otherwise, mail, gate)
    return prepared


def _compare(digest: bytes, otherwise: str, mail: Mail, gate: Gate) -> Program[None]:
    """All agents say what digest they have, each to each, sealed: whoever passes one on can change none."""
    to, (mine, _) = _to_all(mail), gate.seed(digest, shown=False)
    word = Item(mail.seal(gate, (mine,), to[mail.me]))
    came = yield from mail.spread(word, to, {name: (1 + len(ends), 0) for name, ends in to.items()})
    for name, item in came.items():
        content, *keys = item.rows
        (said,) = mail.unseal(gate, name, keys[to[name].index(mail.me)], content)
        if said != digest:
            raise ProtocolError(f"{name!r} {otherwise}")


def _pool(
    plan: RunPlan, prepared: Prepared, exchange: Exchange, mail: Mail, gate: Gate, parts: tuple[Any, ...]
) -> Program[Collected]:
    """Everybody's parts, the same at everybody: nobody goes on with what was changed on the way to some."""
    counts = own_counts(plan, prepared.figures)
    sizes = {name: (0, counts[name] + len(exchange.receivers(name))) for name in mail.names}
    came = yield from mail.spread(Item((), parts), _to_all(mail), sizes)
    every = {name: Item((), parts) if name == mail.me else came[name] for name in mail.names}
    values = {name: [part.value for part in item.numbers] for name, item in every.items()}
    whole = value_digest(tuple(part for parts in values.values() for part in parts))
    otherwise = "got other noisy parts than we did: somebody on the way changed them. What has left is spent."
    yield from _compare(whole, otherwise, mail, gate)
    return read_parts(plan, prepared, exchange, values)


def _to_all(mail: Mail) -> dict[str, tuple[str, ...]]:
    return {name: tuple(other for other in mail.names if other != name) for name in mail.names}


@dataclass(frozen=True)
class GraphGram(GramSettings, GraphMethod):
    """Settings: those of `PrivateGram`, and the graph."""

    topology: Topology | Changing | None = None

    TITLE: ClassVar[str] = "private Gram on a graph"
    LOSSES: ClassVar[tuple[type, ...]] = PrivateGram.LOSSES
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = {None: Passed}
    KEEPS_MONOTONE: ClassVar[bool] = True
    DERIVATION: ClassVar[str | None] = "docs/understand/privacy/gram.md, Private Gram"

    @property
    def trusts(self) -> tuple[Trust, ...]:
        return (Trust.PARTIES,)

    @property
    def _on_a_star(self) -> PrivateGram:
        return PrivateGram(**{f.name: getattr(self, f.name) for f in fields(GramSettings)})

    def check(self, job: Job) -> None:
        self.check_trust(job)
        if self.cross != Cross.SECURE or self.labels != SumsBy.SECURE:
            raise InvalidInput(
                "private Gram on a graph computes products by two parties alone: leave cross= and labels= out, or "
                "topology=."
            )
        if job.privacy is None:
            raise InvalidInput(
                "private Gram on a graph needs privacy=co.Privacy(epsilon, delta, trust='parties', ...). For exact "
                "values take co.GraphADMM or co.GraphRidge."
            )
        self._on_a_star.check(job)

    def depth(self, job: Job) -> int:
        return self._on_a_star.depth(job)

    def depends_on_row_order(self, job: Job) -> bool:
        return form_of(job, self).plan.depends_on_row_order

    def rests_on(self, job: Job) -> tuple[Condition, ...]:
        return conditions_of(form_of(job, self))

    def relays(self, job: Job) -> bool:  # noqa: ARG002  in every job alike
        return True

    def price(self, job: Job) -> Mapping[str, Plan]:
        return form_of(job, self).price()

    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Own]:  # noqa: ARG002
        form = form_of(job, self)
        assert isinstance(form, Lattice)
        return peer(form, block, gate, self.topology)
