"""Running a method: from a federation and a problem to a Fit.

    fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(10.0)), method=co.DistributedFrankWolfe())

The order is fixed. What the run would release is priced; every party's ledger reserves its whole plan or refuses; only
then is the first message sent. With `store=` every step is durable, and the same call goes on where a run stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.data.federation import Federation
from colonnade.data.notices import KEEP, UNSPENT, about_columns, about_labels, about_levels, different
from colonnade.data.row_order import kind
from colonnade.errors import (
    ColonnadeError,
    InvalidInput,
    MostlyNoise,
    NothingToLearn,
    PeerFailed,
    PolicyRefused,
    UnusedLevels,
)
from colonnade.methods.admm.sharing import SharingADMM
from colonnade.methods.frank_wolfe.distributed import DistributedFrankWolfe
from colonnade.methods.gram.private_gram import PrivateGram
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.method import SWAMPED, Answer, GraphMethod, Job, Method, Own, network
from colonnade.methods.node_setup import (
    Call,
    assumptions,
    coordinator_setup,
    labels_public,
    neighbours,
    party_setup,
    place_of,
    source_of,
    terms_of,
    usable_labels,
    variant,
)
from colonnade.privacy.accountant import epsilon, rho_for
from colonnade.privacy.block import Block, FeatureColumn
from colonnade.privacy.events import MASKED, Audience, Plan, Policy, row_rho, unprotected
from colonnade.privacy.figures import shown
from colonnade.privacy.ledger import Replaced
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.run_prices import REFUSED
from colonnade.privacy.statement import (
    BY_SECRET,
    Guarantee,
    Privacy,
    PrivacyStatement,
    Trust,
    check_delta,
    derived_statement,
    describe_replaced,
    large_delta,
    not_private,
    remarks_on,
    with_trust,
)
from colonnade.problem import AdaBoost, ElasticNet, GroupLasso, KernelSVM, Lasso, Problem, Ridge
from colonnade.problem.kernel import Support
from colonnade.runs.progress import Progress, Silent, watching
from colonnade.runs.result import Fit, KeptScores
from colonnade.runtime.hosted_node import FINAL, Head, NodeSetup, Standing
from colonnade.runtime.inprocess import Engine, InProcess, LocalNodes, Outcome
from colonnade.runtime.program import COORDINATOR, NodeId, Note
from colonnade.runtime.run_store import MemoryStore, RunStore, Store
from colonnade.runtime.traffic import Communication
from colonnade.runtime.turns import Distributed, HostedNodes
from colonnade.views.fit_facts import CoefficientPath, Coefficients

log = logging.getLogger("colonnade.runs.fit")


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

    federation  who holds what: Federation.split or Federation.from_frames.
    problem     loss, with a constraint set or a penalty; a kernel machine or boosting.
    method      how to solve it; by default private Gram where privacy is asked for, else sharing ADMM for a penalty and
                distributed Frank-Wolfe for a constraint set, which release exact values.
    privacy     the budget, the trust model and the public bounds; a method that releases exact values refuses it.
    engine      where the programs run; by default in this process.
    store       a folder for ledgers and transcripts: with it, the same call resumes a run that was interrupted. A private run
                takes rows that have keys in an order that follows from a secret of the store.
    progress    show a progress bar.
    noise       for tests and published figures only: repeatable noise, which protects nobody, and the Fit says so.
    """
    if privacy is not None and not isinstance(privacy, Privacy):
        raise InvalidInput(f"privacy={privacy!r}: give co.Privacy(epsilon, delta, trust='secure'), or leave it out.")
    if engine is not None and (
        isinstance(engine, type) or not (hasattr(engine, "run") or hasattr(engine, "hosted_nodes"))
    ):
        raise InvalidInput(f"engine={engine!r} is not an engine: give a value such as co.InProcess() or co.Ray().")
    if isinstance(federation, Federation) and federation.away is not None:
        federation = _met(federation, engine)
    passed = checked(federation, problem, method, privacy, noise)
    check_store(passed, federation, privacy, store)
    job = passed.job
    for remark in remarks_on(job.privacy):
        warnings.warn(remark, UserWarning, stacklevel=2)
    if notices := noticed(federation, job, passed.blocks):
        warnings.warn(f"{'; '.join(notices)}. {UNSPENT}", NothingToLearn, stacklevel=2)
    if absent := unused(federation, job, passed.blocks):
        warnings.warn(f"{'; '.join(absent)}. {KEEP}", UnusedLevels, stacklevel=2)
    books: Store = MemoryStore() if store is None else RunStore(store)
    try:
        passed = in_order(passed, federation, books)
        with books.run(fingerprint(federation, passed, noise)) as run, watching(progress, passed.method) as bar:
            call = Call(passed.asked, problem, job.privacy, noise)
            one = _Run(run, federation, job, passed.method, passed.plans, passed.blocks, books, bar, noise, call)
            with one.manned(engine or InProcess()):
                made = one.drive()
    except KeyboardInterrupt as stopped:
        if store is not None and not getattr(stopped, "__notes__", None):
            stopped.add_note(f"The run was stopped; repeat the call with the same store={str(store)!r} to go on.")
        raise
    finally:
        books.close()
    for remark in made.remarks:
        if remark.startswith(SWAMPED):
            log.warning(SWAMPED, extra={"run": made.run})
            try:
                warnings.warn(f"{remark}.", MostlyNoise, stacklevel=2)
            except MostlyNoise as raised:  # somebody made it an error, and the run is paid for
                raised.add_note(_saved(books.fit_path(made.run)))
                raise
    return made


def _saved(path: Path | None) -> str:
    return f"The run had finished; its fit is saved: co.load({str(path)!r}). To repeat the call would begin another."


@dataclass(frozen=True, eq=False)
class Checked:
    """A call that no check of public figures refuses: what would run, on what, and what it would release."""

    asked: Method | GraphMethod
    method: Method | GraphMethod
    job: Job
    blocks: Mapping[str, Block]
    plans: Mapping[str, Plan]


def checked(
    federation: Federation,
    problem: Problem | KernelSVM | AdaBoost,
    method: Method | GraphMethod | None,
    privacy: Privacy | None,
    noise: SeededNoise | None = None,
) -> Checked:
    """Every check of a call that needs no store: `fit` makes them before a run, and `configured.preview` instead of one."""
    asked = method if method is not None else _default(privacy, problem)
    method = variant(asked, problem)
    privacy = with_trust(privacy, method)
    _check_call(federation, problem, method)
    solved = cast(Problem, problem)  # a method that knows no other kind refused it above
    privacy = _with_range(privacy, federation, solved, method)
    job = Job(solved, federation.roster(), privacy)
    if isinstance(federation.unit, FeatureColumn) and not getattr(method, "COLUMNS", False):
        raise InvalidInput(f"{method.TITLE} protects rows or people, and this federation's unit is one feature column.")
    method.check(job)
    if isinstance(method, GraphMethod):
        network(method.topology, job.roster)  # refused before anything is written
    blocks = _with_labels(federation, job)
    plans = method.price(job)
    _check_privacy(method, plans, job)
    _check_schemas(federation, privacy)
    if _reordered(federation, method, privacy):
        kind(cast(Any, federation.keys))  # of a sort that has an order; refused before anything is written
    if noise is not None:
        _check_seeded(federation)
        plans = {party: unprotected(plan) for party, plan in plans.items()}
    return Checked(asked, method, job, blocks, plans)


def in_order(call: Checked, federation: Federation, books: Store, *, kept: bool = True) -> Checked:
    """The call with its rows in the order of the store's secret, where a run is private and has keys; `kept` as there."""
    if not (isinstance(books, RunStore) and _reordered(federation, call.method, call.job.privacy)):
        return call
    return replace(call, blocks=_with_labels(federation.ordered(books.order_secret(kept=kept)), call.job))


def score(
    fitted: Fit,
    federation: Federation,
    *,
    without: Sequence[str] = (),
    engine: Engine | Distributed | None = None,
    store: str | Path | None = None,
) -> NDArray[np.float64] | KeptScores:
    """Linear scores of a federation's rows, as the label holder learns them: the sum, and nobody's part of it.

    Parties send masked parts to the label holder; the coordinator carries them sealed. `without` names parties that
    are not there: their parts are left out, which the caller says, never a missing party. Where the parties run elsewhere
    (engine=co.Grpc(...)) they approve it as a run of its own, and the label holder keeps the scores: what comes back says
    where.
    """
    if not isinstance(fitted, Fit) or not isinstance(federation, Federation):
        raise InvalidInput(
            "score wants a Fit and a Federation of the rows: co.score(fit, Federation.from_frames(...))."
        )
    if fitted.model is not None:
        raise InvalidInput(f"masked scores are for linear models, and this is a {type(fitted.problem).__name__}.")
    if federation.away is not None:
        _check_elsewhere(fitted, federation, without)
        there = _met(federation, engine)
        method = MaskedScores(fitted.run, fitted.intercept)
    else:
        blocks = fitted.blocks(federation, without)
        kept = {name: party for name, party in federation.parties.items() if name in blocks or name == fitted.label}
        there = replace(federation, parties=kept, label=fitted.label)
        method = MaskedScores(fitted.run, fitted.intercept, {name: fitted.coefficients[name] for name in blocks})
    job = Job(fitted.problem, there.roster())
    method.check(job)
    books: Store = MemoryStore() if store is None else RunStore(store)
    held, call = {name: party.block for name, party in there.parties.items()}, Call(method, fitted.problem, None)
    try:
        with books.run(_fingerprint(there, job, method, held, None)) as run:
            one = _Run(run, there, job, method, method.price(job), held, books, Silent(), None, call)
            with one.manned(engine or InProcess()):
                scores = one.outcome().results[fitted.label]
                one.finish()
            return np.asarray(scores) if there.away is None else KeptScores(run, fitted.label, there.rows)
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
    call: Call | None = None
    notes: list[Mapping[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    hosted_nodes: HostedNodes = field(init=False)
    replaced: list[Replaced] = field(default_factory=list)  # ledgers that took the place of lost ones

    def drive(self) -> Fit:
        outcome = self.outcome()
        made = self.made(outcome.results, Communication.of(outcome.traffic))
        path = self.books.fit_path(self.run)
        if path is None:
            self.finish()
            return made
        with _undisturbed(_saved(path)):
            made.save(path)
            self.finish()
        return made

    def outcome(self) -> Outcome:
        """Reserve, run, and close the run if that fails for good."""
        try:
            self.reserve()
        except tuple(FINAL) as error:
            with contextlib.suppress(PeerFailed):  # whoever refused this refuses what follows from it, too
                self.end(f"{REFUSED}: {type(error).__name__}")
            raise
        try:
            return self.hosted_nodes.drive()
        except tuple(FINAL) as error:
            with contextlib.suppress(PeerFailed):
                self.end(f"failed: {type(error).__name__}")
            raise

    @contextlib.contextmanager
    def manned(self, engine: Engine | Distributed) -> Iterator[None]:
        """With all hosts in their places."""
        if isinstance(engine, Distributed):
            self.hosted_nodes = engine.hosted_nodes(self.run, self.setups(), self.books, self.listen, self.call)
        else:
            self.hosted_nodes = LocalNodes(self.run, self.setups(), self.books.log, engine, self.listen)
        try:
            yield
        finally:
            self.hosted_nodes.close()

    def everybody(self, what: str, *arguments: Any) -> dict[NodeId, Any]:
        """The same question to all hosts."""
        return self.hosted_nodes.ask(what, dict.fromkeys(self.seat_names, arguments))

    @property
    def seat_names(self) -> tuple[NodeId, ...]:
        graph = isinstance(self.method, GraphMethod)
        return self.job.roster.parties if graph else (COORDINATOR, *self.job.roster.parties)

    def reserve(self) -> None:
        """Every ledger reserves its whole plan, or nothing is sent at all."""
        keys = self.check_heads()
        if over := self.books.ended():  # runs whose process died before it could close every ledger
            self.everybody("settle", over)
        terms = terms_of(self.job, self.method)
        if self.federation.away is None:  # parties elsewhere are asked whether they would take part
            self.everybody("same_unit", terms, self.plans)
        self.everybody("reserve", terms, self.plans, keys)
        self.exchange_heads("start")

    def end(self, how: str) -> None:
        self.books.end(self.run, how)
        self.everybody("close", how)
        self.exchange_heads("end")

    def finish(self) -> None:
        """The result is there. Parties elsewhere that cannot be told now are told before the next run.

        An error would have the caller repeat the call, which would begin and pay another run.
        """
        try:
            self.end("finished")
        except ColonnadeError as error:
            if self.federation.away is None or self.run not in self.books.ended():
                raise
            log.warning("over, and not everybody could be told", extra={"run": self.run, "error": type(error).__name__})

    def check_heads(self) -> dict[NodeId, bytes]:
        """Every chain must be whole, and nobody's ledger may lack a row that another one saw; the keys they sign with."""
        self.everybody("verify")
        standing: dict[NodeId, Standing] = self.everybody("standing")
        self.replaced = [one for found in standing.values() for one in found.replaced]
        seen: dict[NodeId, dict[NodeId, Head]] = {name: {} for name in standing}
        for witness, found in standing.items():
            for peer, head in found.remembered.items():
                if peer in seen:
                    seen[peer][witness] = head
        self.hosted_nodes.ask("vouch", {name: (heads,) for name, heads in seen.items() if heads})
        return {name: standing[name].key for name in self.job.roster.parties}

    def exchange_heads(self, when: str) -> None:
        """The coordinator, if there is one, remembers where every ledger stands, and each party where the next one does."""
        if not self.books.durable:
            return
        heads = {name: found.head for name, found in self.everybody("standing").items()}
        names = list(heads)
        told = {
            name: (when, heads if name == COORDINATOR else {peer: heads[peer]})
            for name, peer in zip(names, [*names[1:], names[0]], strict=True)
        }
        self.hosted_nodes.ask("remember", told)

    def setups(self) -> dict[NodeId, NodeSetup]:
        policies = {name: party.policy for name, party in self.federation.parties.items()}
        made = {
            name: party_setup(self.job, self.method, self.blocks[name], policies[name], self.noise, name, around)
            for name, around in neighbours(self.job, self.method).items()
        }
        if not isinstance(self.method, GraphMethod):
            made = {COORDINATOR: coordinator_setup(self.job, self.method, self.noise), **made}
        return made

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
        own: Own | Answer = results[self.job.roster.label]
        if isinstance(own, Answer):  # of agents elsewhere, who keep what they know
            return own
        assert own.answer is not None, f"{type(self.method).__name__}.peer must return Own(..., answer=Answer(...))"
        return own.answer

    def made(self, results: Mapping[str, Any], communication: Communication) -> Fit:
        answer, parties = self.answer(results), self.federation.parties
        holders = [name for name, party in parties.items() if party.block.columns]
        own = {name: results[name].coefficients for name in holders if isinstance(results[name], Own)}
        own |= {name: answer.coefficients[name] for name in holders if name not in own and name in answer.coefficients}
        stumps = {name: part for name in own if (part := getattr(results[name], "model", None)) is not None}
        names = self.federation.example_names if isinstance(answer.model, Support) else lambda p: parties[p].features
        return Fit(
            coefficients=Coefficients(
                {name: np.array(x) for name, x in own.items()}, [name for name in holders if name not in own]
            ),
            intercept=answer.intercept + self.middle,
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
            features={name: names(name) for name in holders},
            schemas={name: parties[name].schema for name in holders},
            on=self.federation.on,
            errors=answer.errors,
            path=None if answer.path is None else CoefficientPath(*answer.path),
            link=answer.link,
            remarks=(*answer.remarks, *self.measured(), *remarks_on(self.job.privacy)),
            facts=self.facts(),
            by_rows=self.job.roster.by_rows,
            model=answer.model if answer.model is not None else stumps or None,
        )

    @property
    def middle(self) -> float:
        """What private labels were measured from."""
        numbers = self.job.privacy is not None and not self.job.problem.loss.classifies
        return self.job.privacy.label_middle if numbers and self.job.privacy is not None else 0.0

    def measured(self) -> tuple[str, ...]:
        if not self.middle or self.job.problem.intercept:
            return ()
        return (
            f"labels were measured from the middle of their declared range, {self.middle:g}: that is the intercept",
        )

    def facts(self) -> dict[str, Any]:
        """What everybody knew before the first message. How many rows each party brought is covered by no price."""
        terms, there = terms_of(self.job, self.method), self.federation.away is None
        return {
            "rows": self.job.roster.rows,
            "brought": dict(self.federation.alignment.rows) if there and self.job.privacy is None else {},
            "policies": {name: _allows(party.policy) for name, party in self.federation.parties.items()}
            if there
            else {},
            "settings": terms.settings,
            "fingerprint": terms.fingerprint,
        }

    def statement(self) -> PrivacyStatement:
        """What the result may claim; ledgers that were replaced are told whatever it is."""
        return replace(self._claimed(), replaced=describe_replaced(self.replaced))

    def _claimed(self) -> PrivacyStatement:
        unit, sees = self.job.roster.unit, _sees(self.plans)
        if self.job.privacy is None or self.method.DERIVATION is None:
            return not_private("exact values left the parties, so no bound on epsilon holds", unit, sees)
        if self.noise is not None:
            return not_private("the noise was seeded, so whoever knows the seed can subtract it", unit, sees)
        assumed = assumptions(self.job, self.method)
        caveat = large_delta(self.job.privacy, *self.job.units)
        made = derived_statement(
            self.job.privacy, row_rho(self.plans), unit, sees, self.method.DERIVATION, assumed, caveat
        )
        place = place_of(self.job, self.method, keyed=self.federation.on is not None)
        if place != BY_SECRET:
            return replace(made, place=place)
        # Of its two promises the one against outsiders rests on a hash that nobody tells from a random one.
        return replace(made, place=place, guarantee=Guarantee.CONDITIONAL, computational=True)


def _allows(policy: Policy) -> str:
    """A party's policy in words."""
    parts = ["exact values may leave" if policy.exact else "noisy values only"]
    if policy.epsilon is not None:
        parts.append(f"epsilon at most {shown(policy.epsilon)} (delta {policy.delta:g})")
    parts += ["exact values inside the consortium"] * policy.consortium + ["its part of scores"] * policy.scores
    return ", ".join(parts)


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


def _default(privacy: Privacy | None, problem: object) -> Method | GraphMethod:
    if privacy is None:
        added = isinstance(problem, Problem) and isinstance(problem.penalty, Ridge | Lasso | ElasticNet | GroupLasso)
        return SharingADMM() if added else DistributedFrankWolfe()
    return PrivateGram(cross="none" if privacy.trust == Trust.NOBODY else "secure")


def _sees(plans: Mapping[str, Plan]) -> str:
    charges = [charge for plan in plans.values() for charge in plan]
    inside = any(charge.event.audience is Audience.CONSORTIUM for charge in charges)  # masks go between members then
    seen = [c for c in charges if c.event.audience is Audience.ALL and not (inside and c.event == MASKED)]
    return "; ".join(dict.fromkeys(charge.what for charge in seen))


def _check_elsewhere(fitted: Fit, federation: Federation, without: Sequence[str]) -> None:
    """Whether the parties of a federation file are those of a model: their coefficients are with them."""
    if fitted.by_rows or fitted.label != federation.label:
        raise InvalidInput(
            f"scores go to {fitted.label!r}, who held the labels of a model over different columns; the federation file names "
            f"{federation.label!r}."
        )
    missing = [name for name in fitted.features if name not in federation.parties]
    if set(missing) != set(without):
        raise InvalidInput(
            f"parties of the model that are not in the federation file: {', '.join(missing) or 'none'}; without= names "
            f"{', '.join(without) or 'none'}. Write a file of those that take part, and name the others in without=."
        )
    for name, features in fitted.features.items():
        if name in federation.parties and federation.parties[name].block.columns != len(features):
            raise InvalidInput(
                f"party {name!r} brings {federation.parties[name].block.columns:,} columns; the model was fitted on "
                f"{len(features):,}."
            )


def _met(federation: Federation, engine: Engine | Distributed | None) -> Federation:
    """The federation once its parties are there and have agreed on their rows."""
    meet = getattr(engine, "meet", None)
    if meet is None:
        raise InvalidInput(
            "the parties of this federation run elsewhere: pass engine=co.Grpc(...), or open it with "
            "Federation.open(path, frames={party: frame}) to run it in this process."
        )
    return cast(Federation, meet(federation))


def _check_call(federation: Federation, problem: object, method: Method | GraphMethod) -> None:
    if not isinstance(federation, Federation):
        raise InvalidInput(
            f"fit wants a Federation first, got {type(federation).__name__}; make one with Federation.split or from_frames."
        )
    if not isinstance(problem, Problem | KernelSVM | AdaBoost):
        raise InvalidInput(
            f"fit wants a Problem second, got {type(problem).__name__}; give one such as co.Problem(co.Logistic(), co.L1Ball(10.0))."
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
    if federation.away is not None and federation.on is not None and labels_public(method):
        raise InvalidInput(
            "public labels go by the place of a row, and nobody but the parties knows the order of rows that were matched by "
            "keys: let a party hold the labels, or match rows in one process with from_frames."
        )
    split = "rows" if federation.by_rows else "columns"
    if split not in (splits := getattr(method, "SPLITS", ("columns",))):
        raise InvalidInput(
            f"{method.TITLE} works on split {' or '.join(splits)}, and the parties of this federation hold different "
            f"{split}: make it with Federation.split(..., by={splits[0]!r}), or choose another method."
        )


def _check_privacy(method: Method | GraphMethod, plans: Mapping[str, Plan], job: Job) -> None:
    privacy = job.privacy
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
            f"{method.TITLE} would cost epsilon {shown(epsilon(price, privacy.delta))}, and privacy= allows "
            f"{shown(privacy.epsilon)} (delta={privacy.delta:g}). Nothing was sent. Lower rounds or raise epsilon."
        )
    check_delta(privacy, *job.units)


def _check_schemas(federation: Federation, privacy: Privacy | None) -> None:
    read_off = [name for name, party in federation.parties.items() if party.schema and party.schema.source == "data"]
    if privacy is not None and read_off:
        raise InvalidInput(
            f"the schema of {read_off[0]!r} was read off its data: its bounds and levels would tell about single rows. "
            "Declare it: from_frames(..., schemas={party: co.Schema(...)}), or pass a plain matrix and public bounds."
        )


def _with_range(
    privacy: Privacy | None, federation: Federation, problem: Problem, method: Method | GraphMethod
) -> Privacy | None:
    """The terms with the range of labels that the label holder's schema declares, unless they name one themselves."""
    if privacy is None or labels_public(method) or federation.label not in federation.parties:
        return privacy  # without labels the job is refused further on, with advice
    schema = federation.parties[federation.label].schema
    declared = schema.label if schema is not None and schema.source == "declared" else None
    loss = getattr(problem, "loss", None)
    if loss is None or loss.classifies:
        if privacy.label_range is not None:
            raise InvalidInput(
                f"label_range={privacy.label_range} is for numbers, and {type(loss).__name__} is for classes: leave it out, "
                "or take co.LeastSquares()."
            )
        return privacy
    if declared is None or privacy.label_reach is not None:
        return privacy
    if federation.label_column not in (None, declared.name):
        raise InvalidInput(
            f"the schema of {federation.label!r} declares the label {declared.name!r}, and the labels are its column "
            f"{federation.label_column!r}. Declare that one, or give privacy=co.Privacy(..., label_range=(low, high))."
        )
    return replace(privacy, label_range=(declared.low, declared.high))


def _check_seeded(federation: Federation) -> None:
    strict = [name for name, party in federation.parties.items() if not party.policy.exact]
    if strict:
        raise PolicyRefused(
            f"seeded noise can be subtracted, so it protects nobody, and party {strict[0]!r} does not let exact values leave. "
            "Nothing was sent. Leave noise= out; for a test or a figure, set Policy(exact=True) on data that may be shown."
        )


def check_store(call: Checked, federation: Federation, privacy: Privacy | None, store: str | Path | None) -> None:
    """Whether a run needs a folder, or cannot be kept in one."""
    problem, method = call.job.problem, call.method
    if store is not None and not getattr(method, "savable", True):
        raise InvalidInput(
            "these functions cannot be told from others after a restart, so a run in store= could not go on with the same "
            "ones: give functions_version='a name', changed whenever they change, or leave store out."
        )
    if store is not None and not getattr(problem, "savable", True):
        raise InvalidInput(
            "a kernel that is a function of yours cannot be kept in store=: use co.RBF, or leave store out."
        )
    if store is not None:
        return
    if privacy is not None:
        raise InvalidInput("a run with a privacy budget needs store='a folder', where its ledgers outlive the process.")
    if limited := [name for name, party in federation.parties.items() if party.policy.epsilon is not None]:
        raise InvalidInput(
            f"the policy of {limited[0]!r} limits what all runs together may spend, so what this one spends must be kept: give "
            "store='a folder', where ledgers outlive the process, and a private method, since exact values exceed any limit."
        )


def _reordered(federation: Federation, method: Method | GraphMethod, privacy: Privacy | None) -> bool:
    """Whether a run takes its rows in the order of the store's secret: a private one of rows that have keys.

    Public labels name rows by their place, so their order is public, too.
    """
    return privacy is not None and federation.keys is not None and not labels_public(method)


def _with_labels(federation: Federation, job: Job) -> dict[str, Block]:
    """The parties' blocks; the label holder's with the labels as the loss wants them."""
    if federation.away is not None:
        return {name: party.block for name, party in federation.parties.items()}
    labels = usable_labels(federation.labels, job)
    blocks = {name: party.block for name, party in federation.parties.items()}
    if federation.by_rows:
        return {name: replace(block, labels=labels[federation.places[name]]) for name, block in blocks.items()}
    return {**blocks, federation.label: replace(blocks[federation.label], labels=labels)}


def noticed(federation: Federation, job: Job, blocks: Mapping[str, Block]) -> list[str]:
    """What a private run in this process would spend its budget on for nothing: for the caller, who holds all tables."""
    if job.privacy is None or federation.away is not None:
        return []
    found = [
        f"party {name!r}: {what}"
        for name, block in blocks.items()
        for what in about_columns(federation.parties[name].schema, block)
    ]
    return found + [f"party {federation.label!r}: {what}" for what in about_labels(different(federation.labels), job)]


def unused(federation: Federation, job: Job, blocks: Mapping[str, Block]) -> list[str]:
    """Declared levels that no row has, for the same caller: information, since the table may be in order."""
    if job.privacy is None or federation.away is not None:
        return []
    parties = federation.parties
    return [f"party {n!r}: {what}" for n, block in blocks.items() for what in about_levels(parties[n].schema, block)]


def fingerprint(federation: Federation, call: Checked, noise: SeededNoise | None = None) -> str:
    """What makes two calls the same call, so that the second goes on with the run of the first."""
    return _fingerprint(federation, call.job, call.method, call.blocks, noise)


def _fingerprint(
    federation: Federation,
    job: Job,
    method: Method | GraphMethod | MaskedScores,
    blocks: Mapping[str, Block],
    noise: SeededNoise | None,
) -> str:
    """What makes two calls the same call: method, problem, terms, who holds what, the data, the code."""
    data = [(name, block.digest()) for name, block in blocks.items()]
    data += [] if federation.away is None else [(federation.session, federation.away.digest)]
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
        source_of(method),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()
