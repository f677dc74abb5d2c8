"""What a run would release, how often and at what price, without running it: nothing is spent, nothing is sent.

Between organisations: runs/rehearsal.py.
"""

from __future__ import annotations

import logging
import math
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.data.federation import Federation
from colonnade.data.labels import Beside
from colonnade.data.party import OPEN, Alignment
from colonnade.errors import ColonnadeError, MostlyNoise, NothingToLearn, UnusedLevels
from colonnade.methods.method import GraphMethod, Method
from colonnade.methods.node_setup import coordinator_setup, terms_of
from colonnade.model.job import curves_in_words
from colonnade.privacy.accountant import epsilon, less_taken
from colonnade.privacy.block import Block
from colonnade.privacy.events import HIDDEN, MASKED, SCORES, Audience, Charge, row_delta, row_rho, shown, with_delta
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.statement import Privacy, large_delta, remarks_on
from colonnade.privacy.store import MemoryLog
from colonnade.problem.loss import LossFacts
from colonnade.runs.call import CheckedCall, call_fingerprint, check_store, checked_call, notices, ordered_call
from colonnade.runs.fit import fit
from colonnade.runtime.run_store import RunStore, check_folder

CELLS = 100_000  # of the made-up table that a preview's bytes are counted on
MANY = 10_000_000  # bytes: from here on it is worth another run on a made-up table to know those of lines
FEW_ROUNDS = 3
UNIFORM = "its receiver, as uniform numbers"
SCORED = "the label holder, in a sum with the others' parts"
SEEN = {Audience.ALL: "everybody", Audience.CONSORTIUM: "the parties and their coordinator"}
RUN = "a run to come"


@dataclass(frozen=True)
class PreviewLine:
    """One thing that would leave one party."""

    party: str
    what: str
    times: int
    rho: float  # of all those times together
    seen_by: str
    delta: float = 0.0  # beside rho


@dataclass(frozen=True)
class Preview:
    """What a run would release, how often, and at what price. Making one spends nothing and sends nothing."""

    method: str
    rows: int
    lines: tuple[PreviewLine, ...]
    rho: float  # of one row, everything together
    delta: float | None
    size: int | None  # bytes sent by all nodes together, estimated; None where it could not be
    notices: tuple[str, ...] = ()  # what it would pay for nothing: for whoever holds the tables
    unused: tuple[str, ...] = ()  # declared levels that no row has, in tables otherwise in order: for the same
    unit: str = "one row"
    trust: str | None = None  # the trust model that the run would have; None where it is not private
    notes: tuple[str, ...] = ()  # what is to be said of the figures
    taken: float = 0.0  # of delta, by releases for themselves

    @property
    def epsilon(self) -> float:
        return math.inf if self.delta is None else epsilon(self.rho, less_taken(self.delta, self.taken))

    @property
    def price(self) -> str:
        if math.isinf(self.rho):
            return "exact values would leave: no epsilon holds"
        taken = f", and releases take {shown(self.taken)} of that delta for themselves" if self.taken else ""
        price = f"epsilon {shown(self.epsilon)} at delta {self.delta:g} (rho {self.rho:.4g}{taken})"
        return f"{price} for {self.unit}, all parties together"

    def plain(self) -> dict[str, Any]:
        """As plain data; what is infinite is None."""

        def finite(value: float) -> float | None:
            return value if math.isfinite(value) else None

        return {
            "method": self.method,
            "rows": self.rows,
            "leaves": [
                {name: value for name, value in vars(line).items() if name != "delta"}
                | {"rho": finite(line.rho), **with_delta(delta=line.delta)}
                for line in self.lines
            ],
            "rho": finite(self.rho),
            **with_delta(taken=self.taken),
            "epsilon": finite(self.epsilon),
            "delta": self.delta,
            "unit": self.unit,
            "trust": self.trust,
            "notes": list(self.notes),
            "bytes": self.size,
            "notices": list(self.notices),
            "unused_levels": list(self.unused),
        }


def seen_by(charge: Charge) -> str:
    """Who sees what a line of a plan lets out."""
    return {MASKED: UNIFORM, HIDDEN: UNIFORM, SCORES: SCORED}.get(charge.event, SEEN[charge.event.audience])


def preview(
    federation: Federation,
    problem: Any,
    method: Method | GraphMethod | None = None,
    privacy: Privacy | None = None,
    *,
    store: str | Path | None = None,
) -> Preview:
    """What `co.fit` with the same arguments would release, refused where `co.fit` would refuse it before sending."""
    call = _call_of(federation, problem, method, privacy)
    federation = call.federation
    check_store(call, federation, privacy, store)
    check_ledgers(call, federation, store)
    charges = [(party, charge) for party, plan in call.plans.items() for charge in plan if charge.count]
    lines = tuple(PreviewLine(party, one.what, one.count, one.rho, seen_by(one), one.delta) for party, one in charges)
    rho = row_rho(call.plans)
    unit = str(call.job.roster.unit)
    terms = call.job.privacy
    size = _estimate_bytes(federation, problem, call.method, terms)
    nothing, unused = map(tuple, notices(federation, call.job, call.blocks))
    bent = _about_curves(federation, problem, call, size)
    known = Preview(call.method.TITLE, federation.rows, lines, rho, None, size, nothing, unused, unit, notes=bent)
    if terms is None:
        return known
    large = tuple(one.full for one in large_delta(terms, *call.job.units))
    notes = (*bent, *large, *remarks_on(terms))
    if terms.looked is not None:
        notes += ("columns without figures are looked at first; until then bytes and curves are guesses",)
    return replace(known, delta=terms.delta, trust=terms.trust, notes=notes, taken=row_delta(call.plans))


def _call_of(federation: Federation, problem: Any, method: Any, privacy: Privacy | None) -> CheckedCall:
    """The call; where columns have no figures, with the look at them before it."""
    if not isinstance(federation, Federation) or federation.declared:
        return checked_call(federation, problem, method, privacy)
    from colonnade.runs.look import stand_in_call, without_need  # a look asks the ledgers as a preview does

    if privacy is None:
        return checked_call(federation.read_off(), problem, method, None)
    needed = without_need(federation, problem, privacy)
    ask = checked_call if needed.declared else stand_in_call
    return ask(needed, problem, method, privacy)


def _about_curves(federation: Federation, problem: Any, call: CheckedCall, size: int | None) -> tuple[str, ...]:
    """What the curves, asked for or chosen, make of the table, and of the bytes."""
    if not (said := curves_in_words(call.job.roster)):
        return ()
    flat = None
    if size is not None and size >= MANY:
        flat = _estimate_bytes(federation.as_lines(), problem, call.method, call.job.privacy)
    known = "" if flat in (None, size) else f", and about {size:,} bytes instead of {flat:,}"
    double = " That is more than double:" if size is not None and flat is not None and size > 2 * flat else ""
    return (f"{said}{known}.{double} smooth = false in a schema keeps a column a line",)


def check_ledgers(call: CheckedCall, federation: Federation, store: str | Path | None) -> None:
    """Refuse what policies and ledgers would refuse when the run is reserved; nothing is written."""
    terms = terms_of(call.job, call.method)
    folder = None if store is None else Path(store).expanduser()
    nodes = {name: (party.policy, True) for name, party in federation.parties.items()}
    if not isinstance(call.method, GraphMethod):
        setup = coordinator_setup(call.job, call.method, None)
        nodes[setup.name] = (setup.policy, setup.guarded)
    with ExitStack() as last:
        kept = None
        run = None
        if folder is not None and (folder / "runs.db").is_file():
            kept = last.enter_context(closing(RunStore(folder)))
            run = kept.going_on(call_fingerprint(ordered_call(call, kept, kept=False)))
        elif folder is not None:
            check_folder(folder)
        for name, (policy, guarded) in nodes.items():
            log = kept.log(name) if kept is not None and kept.path_in(kept.folder, name).is_file() else MemoryLog()
            Ledger(log, name, policy, holds_data=guarded).check_run(run or RUN, terms, call.plans)


def _estimate_bytes(
    federation: Federation, problem: Any, method: Method | GraphMethod, privacy: Privacy | None
) -> int | None:
    """Bytes, from the same programs on a made-up table of the same columns: nothing is read off the data but its shape.
    Beyond CELLS cells, or a few rounds, the counts of two smaller runs are drawn on in a straight line."""
    if federation.by_rows:
        return None
    columns = sum(party.block.columns for party in federation.parties.values())
    most = max(50, CELLS // max(columns, 1))
    rows = [federation.rows] if federation.rows <= most else [most // 2, most]
    rounds = method.rounds or 0
    tries = [FEW_ROUNDS, 2 * FEW_ROUNDS] if rounds > 2 * FEW_ROUNDS else [rounds]

    def bytes_of(n: int) -> float:
        sent = [_bytes_of_made_up(federation, problem, _shorten(method, t), privacy, n) for t in tries]
        return _extrapolate(tries, sent, rounds)

    try:
        sent = [bytes_of(n) for n in rows]
    except ColonnadeError:
        # A method that takes no fewer rounds or rows: no estimate.
        return None
    return round(_extrapolate(rows, sent, federation.rows))


@contextmanager
def _silenced() -> Iterator[None]:
    """Nobody needs to hear what a run says of a made-up table: neither as a warning nor in a log."""
    log = logging.getLogger("colonnade.runs.fit")
    before = log.disabled
    with warnings.catch_warnings():
        for kind in (NothingToLearn, UnusedLevels, MostlyNoise):
            warnings.simplefilter("ignore", kind)
        log.disabled = True
        try:
            yield
        finally:
            log.disabled = before


def _extrapolate(at: Sequence[float], values: Sequence[float], wanted: float) -> float:
    if len(at) == 1:
        return values[0]
    return values[1] + (values[1] - values[0]) * (wanted - at[1]) / (at[1] - at[0])


def _shorten(method: Any, rounds: int) -> Any:
    """The same method with so many rounds, all of them used; 0 or its own number: as it is."""
    if rounds in (0, method.rounds):
        return method
    return replace(method, rounds=rounds, **({"tolerance": 0.0} if method.tolerance is not None else {}))


def _bytes_of_made_up(federation: Federation, problem: Any, method: Any, privacy: Privacy | None, rows: int) -> float:
    # Which numbers they are does not matter: noise and masks are not drawn from it.
    rng = np.random.default_rng(0)
    parties = {}
    for name, party in federation.parties.items():
        cells = (rng.random((rows, party.block.columns)) < 0.5).astype(np.float64)
        block = Block(cells, party.block.positions, unit=party.block.unit)
        parties[name] = replace(party, block=block, policy=OPEN)
    low, high = getattr(problem, "loss", LossFacts).two_labels
    y = np.where(np.arange(rows) % 2, high, low)
    numbers = {"offset": np.zeros(rows), "weight": np.ones(rows)}
    beside = Beside(federation.beside.columns, {what: numbers[what] for what in federation.beside.columns})
    same = Alignment(dict.fromkeys(parties, rows), rows)
    made_up = replace(federation, parties=parties, alignment=same, _y=y, keys=None, away=None, beside=beside)
    with tempfile.TemporaryDirectory() as store, _silenced():
        found = fit(made_up, problem, method, privacy, store=None if privacy is None else store)
    return float(found.communication.bytes)
