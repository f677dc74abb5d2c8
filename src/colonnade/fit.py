"""Running a method: from a federation and a problem to a Fit.

    fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(10.0)), method=co.DistributedFrankWolfe())

The order is fixed. What the run would release is priced; every party's ledger reserves its whole plan or refuses; only
then is the first message sent. With `store=` every step is durable, and the same call goes on where a run stopped.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.algorithms.frank_wolfe import DistributedFrankWolfe
from colonnade.algorithms.method import Answer, Job, Method
from colonnade.engines.inprocess import FINAL, Engine, InProcess
from colonnade.errors import InvalidInput, PolicyRefused
from colonnade.federation import Federation
from colonnade.privacy.accountant import epsilon, rho_for
from colonnade.privacy.block import Block
from colonnade.privacy.events import Plan, Policy, row_rho, unprotected
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import REFUSED, Ledger, Terms
from colonnade.privacy.mechanisms import SeededNoise, SystemNoise
from colonnade.privacy.statement import Privacy, PrivacyStatement, Trust, not_private, proven
from colonnade.problem import Problem
from colonnade.progress import Progress, watching
from colonnade.result import Coefficients, Communication, Fit
from colonnade.runbook import FolderStore, MemoryStore, Store
from colonnade.runtime.node import Node
from colonnade.runtime.program import COORDINATOR, NodeId, Note, Program
from colonnade.runtime.transcript import Transcript


def fit(
    federation: Federation,
    problem: Problem,
    method: Method | None = None,
    privacy: Privacy | None = None,
    *,
    engine: Engine | None = None,
    store: str | Path | None = None,
    progress: bool = False,
    noise: SeededNoise | None = None,
) -> Fit:
    """Fit one linear model to the columns of all parties.

    federation  who holds what: Federation.split or Federation.from_frames.
    problem     loss, with a constraint set or a penalty.
    method      how to solve it; by default distributed Frank-Wolfe, which releases exact values.
    privacy     the budget, the trust model and the public bounds; a method that releases exact values refuses it.
    engine      where the programs run; by default in this process.
    store       a folder for ledgers and transcripts: with it, the same call resumes a run that was interrupted.
    progress    show a progress bar.
    noise       for tests and published figures only: repeatable noise, which protects nobody, and the Fit says so.
    """
    method = method if method is not None else DistributedFrankWolfe()
    _check_call(federation, problem, method)
    job = Job(problem, federation.roster(), privacy)
    method.check(job)
    blocks = _with_labels(federation, job)
    plans = method.price(job)
    _check_privacy(method, plans, privacy)
    _check_schemas(federation, privacy)
    _check_store(federation, privacy, store)
    if noise is not None:
        _check_seeded(federation)
        plans = {party: unprotected(plan) for party, plan in plans.items()}
    books: Store = MemoryStore() if store is None else FolderStore(store)
    call = _fingerprint(federation, job, method, blocks, noise)
    try:
        with books.run(call) as run, watching(progress, method) as bar:
            return _Run(run, federation, job, method, plans, blocks, books, bar, noise).drive(engine or InProcess())
    finally:
        books.close()


@dataclass(eq=False)
class _Run:
    """One run of one method, from its plans to its Fit."""

    run: str
    federation: Federation
    job: Job
    method: Method
    plans: Mapping[str, Plan]
    blocks: Mapping[str, Block]
    books: Store
    bar: Progress
    noise: SeededNoise | None
    notes: list[Mapping[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    @cached_property
    def ledgers(self) -> dict[NodeId, Ledger]:
        policies = {COORDINATOR: Policy(), **{name: party.policy for name, party in self.federation.parties.items()}}
        return {name: Ledger(self.books.log(name), name, policy) for name, policy in policies.items()}

    def drive(self, engine: Engine) -> Fit:
        try:
            self.reserve()
        except tuple(FINAL) as error:
            self.end(f"{REFUSED}: {type(error).__name__}")
            raise
        try:
            outcome = engine.run({node.name: node for node in self.nodes()})
        except tuple(FINAL) as error:
            self.end(f"failed: {type(error).__name__}")
            raise
        made = self.made(outcome.results[COORDINATOR], outcome.results, Communication.of(outcome.traffic))
        if (path := self.books.fit_path(self.run)) is not None:
            made.save(path)
        self.end("finished")
        return made

    def reserve(self) -> None:
        """Every ledger reserves its whole plan, or nothing is sent at all."""
        unit, trust = self.job.roster.unit, self.job.privacy.trust if self.job.privacy else Trust.NOBODY
        settings = f"{self.method!r} {self.job.privacy!r}"
        terms = Terms(self.method.TITLE, settings, trust, str(unit), unit.neighbours, _source(self.method))
        self.check_heads()
        self.settle()
        for ledger in self.ledgers.values():
            ledger.open_run(self.run, terms, self.plans)
        self.exchange_heads("start")

    def end(self, how: str) -> None:
        self.books.end(self.run, how)
        for ledger in self.ledgers.values():
            ledger.close_run(self.run, how)
        self.exchange_heads("end")

    def settle(self) -> None:
        """Close what is still open of runs that are over: their process died before it could close every ledger."""
        over = self.books.ended()
        for ledger in self.ledgers.values():
            for run in ledger.open_runs() & over.keys():
                ledger.close_run(run, over[run])

    def check_heads(self) -> None:
        """Every chain must be whole, and nobody's ledger may lack a row that another one saw."""
        for ledger in self.ledgers.values():
            ledger.log.verify()
        for witness in self.ledgers.values():
            for peer, (count, head) in witness.remembered().items():
                if peer in self.ledgers:
                    self.ledgers[peer].check_head(count, head, witness.node)

    def exchange_heads(self, when: str) -> None:
        """The coordinator remembers where every ledger stands, and each party where the next one does."""
        if not self.books.durable:
            return
        heads = {
            name: (ledger.log.length(), ledger.log.head_at(ledger.log.length()))
            for name, ledger in self.ledgers.items()
        }
        names = list(heads)
        self.ledgers[COORDINATOR].remember(self.run, when, heads)
        for name, peer in zip(names[1:], [*names[2:], names[0]], strict=True):
            self.ledgers[name].remember(self.run, when, {peer: heads[peer]})

    def nodes(self) -> list[Node]:
        parties = self.job.roster.parties
        coordinator = self.node(COORDINATOR, parties, False, lambda gate: self.method.coordinator(self.job, gate))
        return [coordinator, *(self.node(name, (COORDINATOR,), True, self.program(name)) for name in parties)]

    def program(self, party: NodeId) -> Callable[[Gate], Program[Any]]:
        return lambda gate: self.method.party(self.job, self.blocks[party], gate)

    def node(
        self, name: NodeId, neighbours: tuple[NodeId, ...], guarded: bool, make: Callable[[Gate], Program[Any]]
    ) -> Node:
        noise = SystemNoise() if self.noise is None else self.noise.at(name)
        gate = Gate(self.ledgers[name], self.run, noise)
        transcript = Transcript(self.ledgers[name].log, self.run)
        return Node(
            name,
            make(gate),
            gate,
            transcript,
            neighbours=neighbours,
            guarded=guarded,
            replies=self.method.REPLIES,
            listener=self.listen,
        )

    def listen(self, node: NodeId, note: Note) -> None:  # noqa: ARG002  on a star only the coordinator writes notes
        # How long a round takes depends on the data: under privacy the history does not say.
        clock = {} if self.job.privacy else {"seconds": time.perf_counter() - self.began}
        self.notes.append({**note, **clock})
        self.bar.show(note)

    def made(self, answer: Answer, results: Mapping[str, Any], communication: Communication) -> Fit:
        parties = self.federation.parties
        own = {name: results[name].coefficients for name, party in parties.items() if party.block.columns}
        return Fit(
            coefficients=Coefficients({name: np.array(x) for name, x in own.items()}),
            intercept=answer.intercept,
            objective=answer.objective,
            gap=answer.gap,
            status=answer.status,
            privacy=self.statement(),
            communication=communication,
            problem=self.job.problem,
            method=self.method.TITLE,
            run=self.run,
            seconds=None if self.job.privacy else time.perf_counter() - self.began,
            label=self.federation.label,
            notes=tuple(self.notes),
            features={name: parties[name].features for name in own},
            schemas={name: parties[name].schema for name in own},
            on=self.federation.on,
        )

    def statement(self) -> PrivacyStatement:
        unit, sees = self.job.roster.unit, _sees(self.plans)
        if self.job.privacy is None or self.method.DERIVATION is None:
            return not_private("exact values left the parties, so no bound on epsilon holds", unit, sees)
        if self.noise is not None:
            return not_private("the noise was seeded, so whoever knows the seed can subtract it", unit, sees)
        return proven(self.job.privacy, row_rho(self.plans), unit, sees, self.method.DERIVATION)


def _sees(plans: Mapping[str, Plan]) -> str:
    return "; ".join(dict.fromkeys(charge.what for plan in plans.values() for charge in plan))


def _check_call(federation: Federation, problem: Problem, method: Method) -> None:
    if not isinstance(federation, Federation):
        raise InvalidInput(f"fit wants a Federation first, got {type(federation).__name__}; see Federation.split.")
    if not isinstance(problem, Problem):
        raise InvalidInput(
            f"fit wants a Problem second, got {type(problem).__name__}; see co.Problem(loss, constraint)."
        )
    if isinstance(method, type) or not hasattr(method, "coordinator"):
        raise InvalidInput(f"method={method!r} is not a method: give a value such as co.DistributedFrankWolfe().")


def _check_privacy(method: Method, plans: Mapping[str, Plan], privacy: Privacy | None) -> None:
    if privacy is None:
        return
    price = row_rho(plans)
    if math.isinf(price):
        raise InvalidInput(
            f"{method.TITLE} releases exact values ({_sees(plans)}), so no finite epsilon can hold. "
            "Leave privacy out, or choose a private method."
        )
    if price > rho_for(privacy.epsilon, privacy.delta) * (1 + 1e-12):
        raise InvalidInput(
            f"{method.TITLE} would cost epsilon {epsilon(price, privacy.delta):.3g}, and privacy= allows "
            f"{privacy.epsilon:.3g} (delta={privacy.delta:g}). Nothing was sent. Lower rounds or raise epsilon."
        )


def _check_schemas(federation: Federation, privacy: Privacy | None) -> None:
    read_off = [name for name, party in federation.parties.items() if party.schema and party.schema.source == "data"]
    if privacy is not None and read_off:
        raise InvalidInput(
            f"the schema of {read_off[0]!r} was read off its data: its bounds and levels would tell about single rows. "
            "Declare it: from_frames(..., schemas={party: co.Schema(...)}), or pass a plain matrix and public bounds."
        )


def _check_seeded(federation: Federation) -> None:
    strict = [name for name, party in federation.parties.items() if not party.policy.exact]
    if strict:
        raise PolicyRefused(
            f"seeded noise can be subtracted, so it protects nobody, and party {strict[0]!r} does not let exact values leave. "
            "Nothing was sent. Leave noise= out; for a test or a figure, set Policy(exact=True) on data that may be shown."
        )


def _check_store(federation: Federation, privacy: Privacy | None, store: str | Path | None) -> None:
    budgets = privacy is not None or any(party.policy.epsilon is not None for party in federation.parties.values())
    if budgets and store is None:
        raise InvalidInput("a run with a privacy budget needs store='a folder', where its ledgers outlive the process.")


def _with_labels(federation: Federation, job: Job) -> dict[str, Block]:
    """The parties' blocks; the label holder's with the labels as the loss wants them."""
    loss = job.problem.loss
    y = loss.check(federation.labels) if job.privacy is None else _unquestioned(federation.labels, job)
    labels = y.astype(np.int8) if loss.classifies else y
    blocks = {name: party.block for name, party in federation.parties.items()}
    return {**blocks, federation.label: replace(blocks[federation.label], labels=labels)}


def _unquestioned(y: Any, job: Job) -> Any:
    """Labels under privacy: no check, since a refusal would tell whether both classes, or a wild value, occur."""
    assert job.privacy is not None
    values = np.nan_to_num(np.asarray(y, dtype=np.float64), nan=0.0)
    if job.problem.loss.classifies:
        return np.where(values > 0.0, 1.0, -1.0)
    bound = job.privacy.label_bound
    return values if bound is None else np.clip(values, -bound, bound)


def _fingerprint(
    federation: Federation, job: Job, method: Method, blocks: Mapping[str, Block], noise: SeededNoise | None
) -> str:
    """What makes two calls the same call: method, problem, terms, who holds what, the data, the code."""
    data = [(name, block.digest()) for name, block in blocks.items()]
    policies = [(name, repr(party.policy)) for name, party in federation.parties.items()]
    parts = (
        method,
        job.problem,
        job.privacy,
        noise,
        job.roster.label,
        job.roster.unit,
        data,
        policies,
        _source(method),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _source(method: Method) -> str:
    """The version of colonnade and the text of the method's own file."""
    file = inspect.getsourcefile(type(method))
    text = Path(file).read_bytes() if file else b""
    return f"{version('colonnade')} {hashlib.sha256(text).hexdigest()[:16]}"
