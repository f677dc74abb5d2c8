"""Running a method: from a federation and a problem to a Fit.

    fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(10.0)), method=co.DistributedFrankWolfe())

The order is fixed. What the run would release is priced; every party's ledger reserves its whole plan or refuses; only
then is the first message sent; then the programs talk, and the ledgers are closed. With `store=` every step is durable,
and the same call goes on where a run stopped. Ledgers are compared before a run and remembered by others at its start
and end, so that an old copy is noticed.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from colonnade import errors
from colonnade.data.federation import Federation
from colonnade.data.notices import KEEP, UNSPENT
from colonnade.data.schema.table import Source
from colonnade.errors import FinishedInterrupt, InvalidInput, MostlyNoise
from colonnade.methods import node_setup
from colonnade.methods.gatekeeper import released_to_all
from colonnade.methods.method import GraphMethod, Method
from colonnade.methods.node_setup import AnyMethod, terms_of
from colonnade.model.facts import CoefficientPath, Coefficients
from colonnade.model.job import Answer, Job, Own, Swamped
from colonnade.privacy import statement as stating
from colonnade.privacy.block import Block
from colonnade.privacy.events import FINISHED, Ending, How, Plan, row_delta, row_rho
from colonnade.privacy.ledger import Replaced, When
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.statement import Privacy, PrivacyStatement, not_private, remarks_on
from colonnade.problem import AdaBoost, KernelSVM, Problem
from colonnade.problem.kernel import Support
from colonnade.runs import call as calls
from colonnade.runs.progress import Show, progress_bar
from colonnade.runs.refit import of_columns, places_of
from colonnade.runs.release import release_of
from colonnade.runs.result import Fit
from colonnade.runtime.host import Distributed, Host, HostedNodes, LocalNodes, Promise, ask_hosts
from colonnade.runtime.hosted_node import FINAL, Engine, Head, InProcess, Outcome
from colonnade.runtime.node import NodeSetup
from colonnade.runtime.program import COORDINATOR, NodeId, Note
from colonnade.runtime.run_store import MemoryStore, RunStore, Store
from colonnade.runtime.wire import Communication

log = logging.getLogger("colonnade.runs.fit")
T = TypeVar("T")


def fit(
    federation: Federation,
    problem: Problem | KernelSVM | AdaBoost,
    method: Method | GraphMethod | None = None,
    privacy: Privacy | None = None,
    *,
    engine: Engine | Distributed | None = None,
    store: str | Path | None = None,
    progress: bool = False,
    noise: SeededNoise | None = None,
) -> Fit:
    """Fit one linear model to the columns of all parties.

    The run is priced first, every party's ledger reserves its whole plan or refuses, and only then is anything sent.

    Parameters
    ----------
    federation
        Who holds what: `Federation.split`, `Federation.from_frames` or `Federation.open`.
    problem
        Loss, with a constraint set or a penalty; a kernel machine or boosting.
    method
        How to solve it. None: private Gram where privacy is asked for, else sharing ADMM for a penalty and distributed
        Frank-Wolfe for a constraint set, which release exact values.
    privacy
        The budget, the trust model and the public bounds; a method that releases exact values refuses it. None: exact
        values leave, and no bound on epsilon holds.
    engine
        Where the programs run: `co.InProcess()`, `co.Ray()`, `co.Grpc(...)`; None: in this process.
    store
        A folder for ledgers and transcripts: with it, budgets add up over runs, and the same call resumes a run that
        was interrupted. A private run takes rows that have keys in an order that follows from a secret of the store.
    progress
        Whether to show a progress bar.
    noise
        For tests and published figures only: repeatable noise, which protects nobody, and the Fit says so.

    Returns
    -------
    Fit
        The model by party, its certificate, what it cost to send, and what it says about privacy.

    Raises
    ------
    InvalidInput
        The method does not solve this problem, or a bound or setting is missing; nothing was sent.
    PolicyRefused
        A party's policy forbids what the run would release; nothing was sent.
    BudgetExhausted
        A party's ledger has less left than the run would cost; nothing was sent.
    PartyLost
        A party was silent past its deadline, and the run cannot go on without it.

    Examples
    --------
    >>> import colonnade as co
    >>> fed = co.Federation.split([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [2.0, 1.0, 3.0], parties=2)
    >>> fit = co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(3.0)), co.DistributedFrankWolfe())
    >>> [round(float(fit.coefficients[party][0]), 3) for party in ("party0", "party1")]
    [2.0, 1.0]
    """
    return fit_as(None, federation, problem, method, privacy, engine, store, progress, noise)


def fit_as(
    job_name: str | None,
    federation: Federation,
    problem: Problem | KernelSVM | AdaBoost,
    method: Method | GraphMethod | None,
    privacy: Privacy | None,
    engine: Engine | Distributed | None,
    store: str | Path | None,
    progress: bool = False,
    noise: SeededNoise | None = None,
) -> Fit:
    """`fit`; under a name, a job has one run in its store, and goes on with that one only."""
    if privacy is not None and not isinstance(privacy, Privacy):
        raise InvalidInput(f"privacy={privacy!r}: give co.Privacy(epsilon, delta, trust='secure'), or leave it out.")
    runs = hasattr(engine, "run") or hasattr(engine, "hosted_nodes")
    if engine is not None and (isinstance(engine, type) or not runs):
        raise InvalidInput(f"engine={engine!r} is not an engine: give a value such as co.InProcess() or co.Ray().")
    if isinstance(federation, Federation) and federation.away is not None:
        federation = meet_parties(federation, engine, store)
    if isinstance(federation, Federation) and not federation.declared:
        from colonnade.runs.look import looked_for  # a look is a run, too

        federation, privacy = looked_for(federation, problem, method, privacy, engine, store, noise)
    passed = calls.checked_call(federation, problem, method, privacy, noise)
    federation = passed.federation
    calls.check_store(passed, federation, privacy, store)
    for remark, category in _warnings_before(federation, passed):
        warnings.warn(remark, category, stacklevel=3)
    run_store: Store = MemoryStore() if store is None else RunStore(store)
    try:
        passed = calls.ordered_call(passed, run_store)
        job = passed.job
        method = passed.method
        watch = progress_bar(True, method.TITLE, method.rounds) if progress else contextlib.nullcontext()
        claimed = run_store.run(calls.call_fingerprint(passed, noise))
        if job_name is not None and isinstance(run_store, RunStore):
            claimed = run_store.run_once(job_name)
        with claimed as run, watch as show:
            call = node_setup.Call(passed.asked, problem, job.privacy, noise)
            one = RunDriver(run, federation, job, method, passed.plans, passed.blocks, run_store, show, noise, call)
            with one.hosted(engine or InProcess()):
                fitted = drive_and_save(one)
    except FinishedInterrupt:
        raise
    except KeyboardInterrupt as stopped:
        if store is not None:
            stopped.add_note(f"The run was stopped; repeat the call with the same store={str(store)!r} to go on.")
        raise
    finally:
        run_store.close()
    for remark in fitted.remarks:
        if isinstance(remark, Swamped):
            log.warning(remark.WORDS, extra={"run": fitted.run})
            try:
                warnings.warn(f"{remark}.", MostlyNoise, stacklevel=3)
            except MostlyNoise as raised:
                # Somebody made it an error, and the run is paid for.
                raised.add_note(SavedFit(run_store.fit_path(fitted.run)))
                raise
    return fitted


def drive_and_save(run: RunDriver) -> Fit:
    """The Fit of a run, on disk before the run is over where the store has one."""
    fitted = assemble_fit(run, run.run_programs())
    path = run.store.fit_path(run.run)
    if path is None:
        run.finish()
        return fitted
    with _undisturbed(SavedFit(path)):
        fitted.save(path)
        if fitted.released is not None and isinstance(run.hosted_nodes, AnnouncesReleaseDigest):
            from colonnade.runs.refit import basis

            run.hosted_nodes.announce_release_digest(basis(fitted))
        run.finish()
    return fitted


def _warnings_before(federation: Federation, call: calls.CheckedCall) -> Iterator[tuple[str, type[UserWarning]]]:
    for remark in remarks_on(call.job.privacy):
        yield remark, UserWarning
    nothing, absent = calls.notices(federation, call.job, call.blocks)
    if nothing:
        yield f"{'; '.join(nothing)}. {UNSPENT}", errors.NothingToLearn
    if absent:
        yield f"{'; '.join(absent)}. {KEEP}", errors.UnusedLevels


class SavedFit(str):
    """The note on an error that stopped a call after its run had ended: the fit is saved."""

    __slots__ = ("path",)
    path: Path | None

    def __new__(cls, path: Path | None) -> Self:
        where = f"The run had finished; its fit is saved: co.load({str(path)!r})."
        note = super().__new__(cls, f"{where} To repeat the call would begin another.")
        note.path = path
        return note


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
        interrupt = FinishedInterrupt()
        interrupt.add_note(note)
        raise interrupt


# ------------------------------------------------------------------------------------------------ driving it


@runtime_checkable
class MeetingEngine(Protocol):
    """An engine whose parties run elsewhere and agree on their rows before a run."""

    def meet(self, federation: Federation, store: str | Path | None) -> Federation: ...


@runtime_checkable
class AnnouncesReleaseDigest(Protocol):
    """Hosts elsewhere that are told what fallbacks of a model follow from, before its run ends (refit.py)."""

    def announce_release_digest(self, basis: str) -> None: ...


def meet_parties(federation: Federation, engine: object, store: str | Path | None) -> Federation:
    """The federation once its parties are there and have agreed on their rows."""
    if not isinstance(engine, MeetingEngine):
        what = "the parties of this federation run elsewhere: pass engine=co.Grpc(...)"
        here = "Federation.open(path, frames={party: frame})"
        raise InvalidInput(f"{what}, or open it with {here} to run it in this process.")
    return engine.meet(federation, store)


@dataclass(eq=False)
class RunDriver:
    """One run of one method, from its plans to the outcome of its programs."""

    run: str
    federation: Federation
    job: Job
    method: AnyMethod
    plans: Mapping[str, Plan]
    blocks: Mapping[str, Block]
    store: Store
    show: Show | None  # is told about each round, where somebody looks
    noise: SeededNoise | None
    call: node_setup.Call | None = None
    notes: list[Mapping[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    hosted_nodes: HostedNodes = field(init=False)
    replaced: list[Replaced] = field(default_factory=list)  # ledgers that took the place of lost ones

    def run_programs(self) -> Outcome:
        """Reserve, run, and close the run if that fails for good."""
        begun = self.store.durable  # until it is known
        try:
            begun = begun and self.has_begun()
            self.reserve()
        except tuple(FINAL) as error:
            # Of a run that goes on, messages may have left: what others reserved must not return.
            how = How.FAILED if begun else How.REFUSED
            # Whoever refused this refuses what follows from it, too.
            with contextlib.suppress(errors.PeerFailed):
                self.end(Ending(how, type(error).__name__))
            raise
        try:
            return self.hosted_nodes.drive()
        except tuple(FINAL) as error:
            with contextlib.suppress(errors.PeerFailed):
                self.end(Ending(How.FAILED, type(error).__name__))
            raise

    @contextlib.contextmanager
    def hosted(self, engine: Engine | Distributed) -> Iterator[None]:
        """With a host for every node."""
        if isinstance(engine, Distributed):
            self.hosted_nodes = engine.hosted_nodes(self.run, self.setups(), self.store, self.listen, self.call)
        else:
            setups = self.setups()
            logs = {name: self.store.log(name) for name in setups}
            self.hosted_nodes = LocalNodes(self.run, setups, logs, engine, self.listen)
        try:
            yield
        finally:
            self.hosted_nodes.leave()

    def ask_all(self, ask: Callable[[Host], Promise[T]]) -> dict[NodeId, T]:
        """The same question to all hosts."""
        return ask_hosts(self.hosted_nodes.hosts, lambda _, host: ask(host))

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        graph = isinstance(self.method, GraphMethod)
        return self.job.roster.parties if graph else (COORDINATOR, *self.job.roster.parties)

    def has_begun(self) -> bool:
        """Whether a ledger has this run already."""
        return any(self.ask_all(lambda host: host.has_begun()).values())

    def reserve(self) -> None:
        """Every ledger reserves its whole plan, or nothing is sent at all."""
        keys = self.check_heads()
        # Of runs whose process died before it could close every ledger.
        self.store.tell(self.nodes, lambda over: self.ask_all(lambda host: host.settle(over)))
        terms = terms_of(self.job, self.method)
        self.ask_all(lambda host: host.same_unit(terms, self.plans))
        self.hosted_nodes.reserve(terms, self.plans, keys)
        self.exchange_heads(When.START)

    def end(self, ending: Ending) -> None:
        self.store.end(self.run, ending)
        self.hosted_nodes.close(ending)
        self.exchange_heads(When.END)

    def finish(self) -> None:
        """The result is there. Parties elsewhere that cannot be told now are told before the next run: an error would
        have the caller repeat the call, which would begin and pay another run."""
        try:
            self.end(FINISHED)
        except errors.ColonnadeError as error:
            if self.federation.away is None or self.store.how_ended(self.run) is None:
                raise
            log.warning("over, and not everybody could be told", extra={"run": self.run, "error": type(error).__name__})

    def check_heads(self) -> dict[NodeId, bytes]:
        """Check that every chain is whole and lacks no row that another node saw; the keys the nodes sign with."""
        self.ask_all(lambda host: host.verify())
        standing = self.ask_all(lambda host: host.standing())
        self.replaced = [one for found in standing.values() for one in found.replaced]
        seen: dict[NodeId, dict[NodeId, Head]] = {name: {} for name in standing}
        for witness, found in standing.items():
            for peer, head in found.remembered.items():
                if peer in seen:
                    seen[peer][witness] = head
        witnessed = {name: host for name, host in self.hosted_nodes.hosts.items() if seen[name]}
        ask_hosts(witnessed, lambda name, host: host.vouch(seen[name]))
        return {name: found.key for name, found in standing.items() if found.key}

    def exchange_heads(self, when: When) -> None:
        """Let the coordinator remember where every ledger stands, and each party where the next one does."""
        if not self.store.durable:
            return
        heads = {name: found.head for name, found in self.ask_all(lambda host: host.standing()).items()}
        names = list(heads)
        peers = dict(zip(names, [*names[1:], names[0]], strict=True))
        news = {name: heads if name == COORDINATOR else {peer: heads[peer]} for name, peer in peers.items()}
        hosts = {name: self.hosted_nodes.hosts[name] for name in news}
        ask_hosts(hosts, lambda name, host: host.remember(when, news[name]))

    def setups(self) -> dict[NodeId, NodeSetup]:
        policies = {name: party.policy for name, party in self.federation.parties.items()}
        job = self.job
        method = self.method
        noise = self.noise
        setups = dict[NodeId, NodeSetup]()
        if not isinstance(method, GraphMethod):
            setups[COORDINATOR] = node_setup.coordinator_setup(job, method, noise)
        for name, around in node_setup.neighbours(job, method).items():
            setups[name] = node_setup.party_setup(job, method, self.blocks[name], policies[name], noise, name, around)
        return setups

    def listen(self, node: NodeId, note: Note) -> None:
        if node != COORDINATOR and not note.keys() - {"round", "party"}:
            # An agent that counts its rounds and has no figures to show.
            return
        # How long a round takes depends on the data: under privacy the history does not say.
        clock = {} if self.job.privacy else {"seconds": time.perf_counter() - self.began}
        self.notes.append({**note, **clock})
        if self.show is not None:
            self.show(note)


# ------------------------------------------------------------------------------------------------ what it gives


def assemble_fit(run: RunDriver, outcome: Outcome) -> Fit:
    """The Fit of a run whose programs have all returned."""
    answer = _answer_of(run, outcome.results)
    parties = run.federation.parties
    job = run.job
    widths = {name: party.block.columns for name, party in parties.items() if party.block.columns}
    holders = [name for name in widths if name not in answer.absent]
    own = _own_coefficients(outcome.results, answer, holders)
    stumps = {name: part for name in own if (part := getattr(outcome.results[name], "model", None)) is not None}
    by_example = isinstance(answer.model, Support)
    features = {name: run.federation.example_names(name) if by_example else parties[name].features for name in holders}
    middle = _label_middle(run)
    problem = job.problem
    remarks = (*_remark_on_absent(answer), *answer.remarks, *_remark_on_middle(run), *_remark_on_rows(run))
    remarks += tuple(
        f"column {column!r} of {party!r} was too faint for the look to see, and takes no part"
        for party, columns in run.federation.left_out.items()
        for column in columns
    )
    statement = _statement(run, answer)
    facts = calls.facts_of_run(run.federation, job, terms_of(job, run.method), run.plans, answer.absent)
    if answer.absent:  # groups name the columns that are left
        problem = of_columns(problem, places_of(widths, holders))
    return Fit(
        coefficients=Coefficients(own, [name for name in holders if name not in own], features),
        intercept=answer.intercept + middle,
        objective=answer.objective,
        gap=answer.gap,
        status=answer.status,
        privacy=statement,
        communication=Communication.of(outcome.traffic).along(run.notes, answer.gap),
        problem=problem,
        method=run.method.TITLE,
        run=run.run,
        seconds=None if job.privacy else time.perf_counter() - run.began,
        label=run.federation.label,
        notes=tuple(run.notes),
        features=features,
        schemas={name: parties[name].schema for name in holders},
        on=run.federation.on,
        spread=answer.spread,
        path=None if answer.path is None else CoefficientPath(*answer.path),
        link=answer.link,
        remarks=(*remarks, *remarks_on(job.privacy)),
        facts=facts,
        by_rows=job.roster.by_rows,
        beside=dict(run.federation.beside.columns),
        model=answer.model if answer.model is not None else stumps or None,
        released=None
        if answer.release is None
        else release_of(answer.release, run.federation, job, statement, run.run, middle),
    )


def _answer_of(run: RunDriver, results: Mapping[str, Any]) -> Answer:
    if not isinstance(run.method, GraphMethod):
        answer = results[COORDINATOR]
        assert isinstance(answer, Answer), f"{type(run.method).__name__}.coordinator must return Answer(...)"
        return answer
    own: Own | Answer = results[run.job.roster.label]
    # Of agents elsewhere, who keep what they know.
    if isinstance(own, Answer):
        return own
    assert own.answer is not None, f"{type(run.method).__name__}.peer must return Own(..., answer=Answer(...))"
    return own.answer


def _own_coefficients(results: Mapping[str, Any], answer: Answer, holders: list[str]) -> dict[str, Any]:
    """By party, where they are known here: what it returned itself, else what the answer says of it."""
    returned = {name: results[name].coefficients for name in holders if isinstance(results[name], Own)}
    rest = [name for name in holders if name not in returned and name in answer.coefficients]
    own = returned | {name: answer.coefficients[name] for name in rest}
    return {name: np.array(x) for name, x in own.items()}


def _label_middle(run: RunDriver) -> float:
    """What private labels were measured from."""
    privacy = run.job.privacy
    return 0.0 if privacy is None or run.job.problem.loss.classifies else privacy.label_middle


def _remark_on_middle(run: RunDriver) -> tuple[str, ...]:
    middle = _label_middle(run)
    if not middle or run.job.problem.intercept:
        return ()
    return (f"labels were measured from the middle of their declared range, {middle:g}: that is the intercept",)


def _remark_on_absent(answer: Answer) -> tuple[str, ...]:
    said = "the model has none of its columns, and the others' were solved without it"
    return tuple(f"{party!r} was lost {when}: {said}" for party, when in answer.absent.items())


def _remark_on_rows(run: RunDriver) -> tuple[str, ...]:
    columns = run.federation.beside.columns
    if not columns:
        return ()
    named = [f"{name} ({column})" if column else name for name, column in columns.items()]
    each = " and ".join(f"its own {name}" for name in named)
    return (f"each row has {each}: the loss is the sum of weight times loss at score + offset, over the weights' sum",)


def _statement(run: RunDriver, answer: Answer) -> PrivacyStatement:
    """What the result may claim."""
    claim = _claim(run)
    afterwards = (*stating.replaced_ledgers(run.replaced), *stating.lost_parties(answer.absent))
    return replace(claim, conditions=(*claim.conditions, *afterwards))


def _claim(run: RunDriver) -> PrivacyStatement:
    unit = run.job.roster.unit
    seen = released_to_all(calls.with_looks(run.federation, run.plans))
    if run.job.privacy is None or run.method.DERIVATION is None:
        return not_private("exact values left the parties, so no bound on epsilon holds", unit, seen)
    if run.noise is not None:
        return not_private(stating.SEEDED, unit, seen)
    schemas = {name: party.schema for name, party in run.federation.parties.items()}
    read_off = [name for name, schema in schemas.items() if schema is not None and schema.source == Source.PUBLIC]
    conditions = node_setup.conditions_of(run.job, run.method, keyed=run.federation.on is not None)
    rho = row_rho(run.plans)
    taken = row_delta(run.plans)
    looks = run.federation.looks
    looked = stating.looked_at(run.job.privacy, (row_rho(looks), row_delta(looks)), rho, taken)
    said = (unit, seen, run.method.DERIVATION, (*conditions, *stating.read_off(read_off), *looked))
    spent, lost = run.job.privacy.looked or (0.0, 0.0)
    return stating.derived_statement(run.job.privacy, rho + spent, *said, taken + lost)
