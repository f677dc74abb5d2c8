"""Running a method: from a federation and a problem to a Fit.

    fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(10.0)), method=co.DistributedFrankWolfe())

The order is fixed. What the run would release is priced; every party's ledger reserves its whole plan or refuses; only
then is the first message sent. With `store=` every step is durable, and the same call goes on where a run stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.algorithms.frank_wolfe import DistributedFrankWolfe
from colonnade.algorithms.masked_scores import MaskedScores
from colonnade.algorithms.method import Answer, GraphMethod, Job, Method, Own, network
from colonnade.algorithms.private_gram import PrivateGram
from colonnade.engines.inprocess import FINAL, Engine, InProcess, Outcome
from colonnade.errors import InvalidInput, PolicyRefused
from colonnade.federation import Federation
from colonnade.privacy.accountant import epsilon, rho_for
from colonnade.privacy.block import Block, FeatureColumn
from colonnade.privacy.events import Audience, Plan, Policy, row_rho, unprotected
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.ledger import REFUSED, Ledger, Terms
from colonnade.privacy.mechanisms import SeededNoise, SystemNoise
from colonnade.privacy.statement import Privacy, PrivacyStatement, Trust, not_private, proven
from colonnade.problem import AdaBoost, KernelSVM, Problem
from colonnade.problem.kernel import Support
from colonnade.progress import Progress, Silent, watching
from colonnade.result import CoefficientPath, Coefficients, Communication, Fit
from colonnade.runbook import FolderStore, MemoryStore, Store
from colonnade.runtime.node import Node
from colonnade.runtime.program import COORDINATOR, NodeId, Note, Program
from colonnade.runtime.transcript import Transcript


def fit(
    federation: Federation,
    problem: Problem | KernelSVM | AdaBoost,
    method: Method | GraphMethod | None = None,
    privacy: Privacy | None = None,
    *,
    engine: Engine | None = None,
    store: str | Path | None = None,
    progress: bool = False,
    noise: SeededNoise | None = None,
) -> Fit:
    """Fit one linear model to the columns of all parties.

    federation  who holds what: Federation.split or Federation.from_frames.
    problem     loss, with a constraint set or a penalty; a kernel machine or boosting.
    method      how to solve it; by default private Gram where privacy is asked for, else distributed Frank-Wolfe, which
                releases exact values.
    privacy     the budget, the trust model and the public bounds; a method that releases exact values refuses it.
    engine      where the programs run; by default in this process.
    store       a folder for ledgers and transcripts: with it, the same call resumes a run that was interrupted.
    progress    show a progress bar.
    noise       for tests and published figures only: repeatable noise, which protects nobody, and the Fit says so.
    """
    if privacy is not None and not isinstance(privacy, Privacy):
        raise InvalidInput(f"privacy={privacy!r}: give co.Privacy(epsilon, delta, trust='secure'), or leave it out.")
    method = _variant(method if method is not None else _default(privacy), problem)
    _check_call(federation, problem, method)
    solved = cast(Problem, problem)  # a method that knows no other kind refused it above
    job = Job(solved, federation.roster(), privacy)
    if isinstance(federation.unit, FeatureColumn) and not getattr(method, "COLUMNS", False):
        raise InvalidInput(f"{method.TITLE} protects rows or people, and this federation's unit is one feature column.")
    method.check(job)
    if isinstance(method, GraphMethod):
        network(method.topology, job.roster)  # refused before anything is written
    blocks = _with_labels(federation, job)
    plans = method.price(job)
    _check_privacy(method, plans, privacy)
    _check_schemas(federation, privacy)
    _check_store(federation, problem, privacy, store)
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


def score(
    fitted: Fit,
    federation: Federation,
    *,
    without: Sequence[str] = (),
    engine: Engine | None = None,
    store: str | Path | None = None,
) -> NDArray[np.float64]:
    """Linear scores of a federation's rows, as the label holder learns them: the sum, and nobody's part of it.

    Parties send masked parts to the label holder; the coordinator carries them sealed. `without` names parties that
    are not there: their parts are left out, which the caller says, never a missing party.
    """
    if not isinstance(fitted, Fit) or not isinstance(federation, Federation):
        raise InvalidInput(
            "score wants a Fit and a Federation of the rows: co.score(fit, Federation.from_frames(...))."
        )
    if fitted.model is not None:
        raise InvalidInput(f"masked scores are for linear models, and this is a {type(fitted.problem).__name__}.")
    blocks = fitted.blocks(federation, without)
    kept = {name: party for name, party in federation.parties.items() if name in blocks or name == fitted.label}
    there = replace(federation, parties=kept, label=fitted.label)
    method = MaskedScores(fitted.run, {name: fitted.coefficients[name] for name in blocks})
    job = Job(fitted.problem, there.roster())
    method.check(job)
    books: Store = MemoryStore() if store is None else FolderStore(store)
    held = {name: party.block for name, party in kept.items()}
    try:
        with books.run(_fingerprint(there, job, method, held, None)) as run:
            one = _Run(run, there, job, method, method.price(job), held, books, Silent(), None)
            scores = one.outcome(engine or InProcess()).results[fitted.label]
            one.end("finished")
            return np.asarray(scores + fitted.intercept)
    finally:
        books.close()


@dataclass(eq=False)
class _Run:
    """One run of one method, from its plans to its Fit."""

    run: str
    federation: Federation
    job: Job
    method: Method | GraphMethod | MaskedScores
    plans: Mapping[str, Plan]
    blocks: Mapping[str, Block]
    books: Store
    bar: Progress
    noise: SeededNoise | None
    notes: list[Mapping[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    @cached_property
    def ledgers(self) -> dict[NodeId, Ledger]:
        policies = {name: party.policy for name, party in self.federation.parties.items()}
        if not isinstance(self.method, GraphMethod):
            policies = {COORDINATOR: Policy(exact=self.noise is not None, consortium=True), **policies}
        return {name: Ledger(self.books.log(name), name, policy) for name, policy in policies.items()}

    def drive(self, engine: Engine) -> Fit:
        outcome = self.outcome(engine)
        for name, own in outcome.results.items():
            if isinstance(own, Own) and own.shortened and self.books.durable:
                text = f"{own.shortened:,} of {self.blocks[name].rows:,} rows were over the public bound and were shortened"
                self.ledgers[name].tell_operator(self.run, text)
        made = self.made(outcome.results, Communication.of(outcome.traffic))
        path = self.books.fit_path(self.run)
        with _undisturbed(f"The run had finished; its fit is saved: co.load({str(path)!r})."):
            if path is not None:
                made.save(path)
            self.end("finished")
        return made

    def outcome(self, engine: Engine) -> Outcome:
        """Reserve, run, and close the run if that fails for good."""
        try:
            self.reserve()
        except tuple(FINAL) as error:
            self.end(f"{REFUSED}: {type(error).__name__}")
            raise
        try:
            return engine.run({node.name: node for node in self.nodes()})
        except tuple(FINAL) as error:
            self.end(f"failed: {type(error).__name__}")
            raise

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
            for run in (ledger.open_runs() | ledger.log.unerased()) & over.keys():
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
        """The coordinator, if there is one, remembers where every ledger stands, and each party where the next one does."""
        if not self.books.durable:
            return
        heads = {
            name: (ledger.log.length(), ledger.log.head_at(ledger.log.length()))
            for name, ledger in self.ledgers.items()
        }
        names = list(heads)
        for name, peer in zip(names, [*names[1:], names[0]], strict=True):
            self.ledgers[name].remember(self.run, when, heads if name == COORDINATOR else {peer: heads[peer]})

    def nodes(self) -> list[Node]:
        parties = self.job.roster.parties
        if isinstance(self.method, GraphMethod):
            links = network(self.method.topology, self.job.roster).over(parties)
            return [self.node(name, links[name], True, self.agent(name, links[name])) for name in parties]
        coordinator = self.node(COORDINATOR, parties, False, partial(self.method.coordinator, self.job))
        others = {name: tuple(p for p in parties if p != name) if self.relays else () for name in parties}
        return [
            coordinator,
            *(self.node(n, (COORDINATOR, *others[n]), True, self.program(n), others[n]) for n in parties),
        ]

    @cached_property
    def relays(self) -> bool:
        """Whether parties talk to each other through the coordinator, sealed."""
        return bool(getattr(self.method, "relays", lambda _: False)(self.job))

    def program(self, party: NodeId) -> Callable[[Gate], Program[Any]]:
        assert not isinstance(self.method, GraphMethod)
        return partial(self.method.party, self.job, self.blocks[party])

    def agent(self, party: NodeId, neighbours: tuple[NodeId, ...]) -> Callable[[Gate], Program[Any]]:
        assert isinstance(self.method, GraphMethod)
        peer, block = self.method.peer, self.blocks[party]
        return lambda gate: peer(self.job, block, gate, neighbours)

    def node(
        self,
        name: NodeId,
        neighbours: tuple[NodeId, ...],
        guarded: bool,
        make: Callable[[Gate], Program[Any]],
        relayed: tuple[NodeId, ...] = (),
    ) -> Node:
        noise = SystemNoise() if self.noise is None else self.noise.at(name)
        gate = Gate(self.ledgers[name], self.run, noise, self.keyring(name) if guarded and self.relays else None)
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
            relayed=relayed,
        )

    def keyring(self, party: NodeId) -> Keyring:
        """A party's keys in this run. Its signing key lives with its ledger, the others know the public half."""
        secret = self.ledgers[party].log.secret(self.run, "keyring", 32)
        return Keyring(
            self.run, party, self.identities[party], {p: public_key(k) for p, k in self.identities.items()}, secret
        )

    @cached_property
    def identities(self) -> dict[NodeId, bytes]:
        logs = {name: self.ledgers[name].log for name in self.job.roster.parties}
        return {name: log.secret("node", "signing key", 32) for name, log in logs.items()}

    def listen(self, node: NodeId, note: Note) -> None:
        if node != COORDINATOR and not note.keys() - {"round", "party"}:
            return  # an agent that counts its rounds and has no figures to show
        # How long a round takes depends on the data: under privacy the history does not say.
        clock = {} if self.job.privacy else {"seconds": time.perf_counter() - self.began}
        self.notes.append({**note, **clock})
        self.bar.show(note)

    def answer(self, results: Mapping[str, Any]) -> Answer:
        if not isinstance(self.method, GraphMethod):
            answer: Answer = results[COORDINATOR]
            return answer
        own: Own = results[self.job.roster.label]
        assert own.answer is not None, f"{type(self.method).__name__}.peer must return Own(..., answer=Answer(...))"
        return own.answer

    def made(self, results: Mapping[str, Any], communication: Communication) -> Fit:
        answer, parties = self.answer(results), self.federation.parties
        own = {name: results[name].coefficients for name, party in parties.items() if party.block.columns}
        stumps = {name: part for name in own if (part := getattr(results[name], "model", None)) is not None}
        names = self.federation.example_names if isinstance(answer.model, Support) else lambda p: parties[p].features
        return Fit(
            coefficients=Coefficients({name: np.array(x) for name, x in own.items()}),
            intercept=answer.intercept,
            objective=answer.objective,
            gap=answer.gap,
            status=answer.status,
            privacy=self.statement(),
            communication=communication.along(self.notes, answer.gap),
            problem=self.job.problem,
            method=self.method.TITLE,
            run=self.run,
            seconds=None if self.job.privacy else time.perf_counter() - self.began,
            label=self.federation.label,
            notes=tuple(self.notes),
            features={name: names(name) for name in own},
            schemas={name: parties[name].schema for name in own},
            on=self.federation.on,
            errors=answer.errors,
            path=None if answer.path is None else CoefficientPath(*answer.path),
            link=answer.link,
            remarks=answer.remarks,
            by_rows=self.job.roster.by_rows,
            model=answer.model if answer.model is not None else stumps or None,
        )

    def statement(self) -> PrivacyStatement:
        unit, sees = self.job.roster.unit, _sees(self.plans)
        if self.job.privacy is None or self.method.DERIVATION is None:
            return not_private("exact values left the parties, so no bound on epsilon holds", unit, sees)
        if self.noise is not None:
            return not_private("the noise was seeded, so whoever knows the seed can subtract it", unit, sees)
        return proven(self.job.privacy, row_rho(self.plans), unit, sees, self.method.DERIVATION)


@contextlib.contextmanager
def _undisturbed(note: str) -> Iterator[None]:
    """Let Ctrl-C wait until the block is done: a run that ended half would be begun, and paid for, again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        interrupt = KeyboardInterrupt()
        interrupt.add_note(note)
        raise interrupt


def _default(privacy: Privacy | None) -> Method | GraphMethod:
    if privacy is None:
        return DistributedFrankWolfe()
    return PrivateGram(cross="none" if privacy.trust == Trust.NOBODY else "secure")


def _sees(plans: Mapping[str, Plan]) -> str:
    seen = [charge for plan in plans.values() for charge in plan if charge.event.audience is Audience.ALL]
    return "; ".join(dict.fromkeys(charge.what for charge in seen))


def _variant(method: Method | GraphMethod, problem: object) -> Method | GraphMethod:
    """One public name may stand for several programs: by problem, or by topology."""
    own = getattr(method, "variant", None)
    return cast(Method | GraphMethod, own(problem)) if own is not None and not isinstance(method, type) else method


def _check_call(federation: Federation, problem: object, method: Method | GraphMethod) -> None:
    if not isinstance(federation, Federation):
        raise InvalidInput(f"fit wants a Federation first, got {type(federation).__name__}; see Federation.split.")
    if not isinstance(problem, Problem | KernelSVM | AdaBoost):
        raise InvalidInput(
            f"fit wants a Problem second, got {type(problem).__name__}; see co.Problem(loss, constraint)."
        )
    if isinstance(method, type) or not (hasattr(method, "coordinator") or isinstance(method, GraphMethod)):
        raise InvalidInput(f"method={method!r} is not a method: give a value such as co.DistributedFrankWolfe().")
    if not isinstance(problem, getattr(method, "SOLVES", (Problem,))):
        raise InvalidInput(
            f"{method.TITLE} does not solve a {type(problem).__name__}: use method=co.DistributedFrankWolfe(), which does."
        )
    if federation.roster().responses and not getattr(method, "RESPONSES", False):
        raise InvalidInput(
            f"{method.TITLE} takes one label a row; with several, use co.GraphADMM, or fit them one by one."
        )
    split = "rows" if federation.by_rows else "columns"
    if split not in (splits := getattr(method, "SPLITS", ("columns",))):
        raise InvalidInput(
            f"{method.TITLE} works on split {' or '.join(splits)}, and the parties of this federation hold different "
            f"{split}: make it with Federation.split(..., by={splits[0]!r}), or choose another method."
        )


def _check_privacy(method: Method | GraphMethod, plans: Mapping[str, Plan], privacy: Privacy | None) -> None:
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


def _check_store(federation: Federation, problem: object, privacy: Privacy | None, store: str | Path | None) -> None:
    if store is not None and not getattr(problem, "savable", True):
        raise InvalidInput(
            "a kernel that is a function of yours cannot be kept in store=: use co.RBF, or leave store out."
        )
    budgets = privacy is not None or any(party.policy.epsilon is not None for party in federation.parties.values())
    if budgets and store is None:
        raise InvalidInput("a run with a privacy budget needs store='a folder', where its ledgers outlive the process.")


def _with_labels(federation: Federation, job: Job) -> dict[str, Block]:
    """The parties' blocks; the label holder's with the labels as the loss wants them."""
    loss = job.problem.loss
    y = loss.check(federation.labels) if job.privacy is None else _unquestioned(federation.labels, job)
    labels = y.astype(np.int8) if loss.classifies else y
    blocks = {name: party.block for name, party in federation.parties.items()}
    if federation.by_rows:
        return {name: replace(block, labels=labels[federation.places[name]]) for name, block in blocks.items()}
    return {**blocks, federation.label: replace(blocks[federation.label], labels=labels)}


def _unquestioned(y: Any, job: Job) -> Any:
    """Labels under privacy: no check, since a refusal would tell whether both classes, or a wild value, occur."""
    assert job.privacy is not None
    if np.asarray(y).dtype.kind not in "biuf":  # the type of a column is public
        raise InvalidInput(
            "labels must be numbers in a private run: write the positive class as 1, the other as 0 or −1."
        )
    values = np.nan_to_num(np.asarray(y, dtype=np.float64), nan=0.0)
    if job.problem.loss.classifies:
        return np.where(values > 0.0, 1.0, -1.0)
    bound = job.privacy.label_bound
    return values if bound is None else np.clip(values, -bound, bound)


def _fingerprint(
    federation: Federation,
    job: Job,
    method: Method | GraphMethod | MaskedScores,
    blocks: Mapping[str, Block],
    noise: SeededNoise | None,
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
        job.roster.known,
        data,
        policies,
        _source(method),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _source(method: Method | GraphMethod | MaskedScores) -> str:
    """The version of colonnade and the text of the method's own file."""
    file = inspect.getsourcefile(type(method))
    text = Path(file).read_bytes() if file else b""
    return f"{version('colonnade')} {hashlib.sha256(text).hexdigest()[:16]}"
