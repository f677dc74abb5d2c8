"""One file for a whole run: data, problem, method, privacy, where to keep it.

    store = "runs"                     # ledgers and transcripts; needed with [privacy]
    output = "fit.json"
    report = "report.html"             # left out: none is written

    [data]
    on = "pid"                         # the key; left out: one table for all, whose rows are in one order anyway
    label = ["clinic", "readmitted"]   # who holds it, and its column
    source = "stays.parquet"           # one table for all parties, or a source for each of them below

    [data.parties.clinic]
    columns = ["age", "ward"]          # of the one table; or source = "clinic.csv", or source and query of a database
    schema = "clinic.schema.toml"      # what is public about its columns; a private run needs it

    [problem] ... [method] ... [privacy] ...       as in a job file (colonnade.runs.job_file)

Paths are relative to the file. `preview` says what such a run would release, how often and at what price, and spends nothing.
"""

from __future__ import annotations

import logging
import math
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.data.federation import Federation
from colonnade.data.one_table import ROW_KEY
from colonnade.data.party import OPEN, Alignment
from colonnade.data.schema import Column, Schema
from colonnade.data.sources import Table, table_at
from colonnade.data.text_file import at_line, read_text
from colonnade.errors import ColonnadeError, InvalidInput, MostlyNoise, NothingToLearn, StoreError, UnusedLevels
from colonnade.methods.method import GraphMethod, Job, Method
from colonnade.methods.node_setup import coordinator_setup, terms_of
from colonnade.privacy.accountant import epsilon
from colonnade.privacy.block import Block
from colonnade.privacy.events import MASKED, SCORES, Audience, Charge, Policy, row_rho
from colonnade.privacy.figures import shown
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.statement import Privacy, large_delta, remarks_on
from colonnade.privacy.store import MemoryLog
from colonnade.runs.fit import Checked, check_store, checked, fingerprint, fit, in_order, noticed, unused
from colonnade.runs.job_file import JobFile, load_job
from colonnade.runs.result import Fit
from colonnade.runtime.run_store import RunStore, check_folder

if TYPE_CHECKING:
    import polars as pl

OTHERS = ("data", "store", "report", "output")
DATA = ("source", "query", "on", "label", "unit", "parties")
PARTY = ("source", "query", "columns", "schema", "exact", "epsilon", "delta", "scores", "consortium")
POLICY = ("exact", "epsilon", "delta", "scores", "consortium")
CELLS = 400_000  # of the made-up table that a preview's bytes are counted on
FEW_ROUNDS = 3
HIDDEN = "its receiver, as uniform numbers"
SCORED = "the label holder, in a sum with the others' parts"
SEEN = {Audience.ALL: "everybody", Audience.CONSORTIUM: "the parties and their coordinator"}


@dataclass(frozen=True)
class Configured:
    """What a configuration file says, with its data read."""

    path: Path
    job: JobFile
    federation: Federation
    store: Path | None
    report: Path | None
    output: Path

    def run(self, *, progress: bool = False) -> Fit:
        """Do it: fit, save, report. That both can be written is seen to before anything is spent."""
        asked = self.job
        self._check_places()
        made = fit(self.federation, asked.problem, asked.method, asked.privacy, store=self.store, progress=progress)
        save_finished(made, self.output, self.store)
        if self.report is not None:
            made.report(self.report)
        return made

    def preview(self) -> Preview:
        """What running it would release, if it would not be refused: the checks are those of `run`, the ledgers' included."""
        self._check_places()
        return preview(self.federation, self.job.problem, self.job.method, self.job.privacy, store=self.store)

    def _check_places(self) -> None:
        """That a result can be written, and what is spent can be kept."""
        from colonnade.views import check_target

        for target in (self.output, self.report):
            if target is not None:
                check_target(target)
        if self.job.privacy is not None and self.store is None:
            raise InvalidInput(f'{self.path} asks for privacy and names no store: add store = "runs" at its top.')


def save_finished(made: Fit, output: Path, store: Path | None) -> None:
    """Write the fit of a run that is over; where that fails, say where it is kept, since repeating the call begins another run."""
    try:
        made.save(output)
    except StoreError as error:
        if store is None:
            raise
        why = getattr(error.__cause__, "strerror", None) or "it cannot be written to"
        raise StoreError(
            f"run {made.run} is finished, but not in {output}: {why}. Its fit is kept: copy {store / 'fits' / made.run}.json to where "
            "you want it. Do not repeat the command, which would begin and pay another run."
        ) from error


def load_config(path: str | Path) -> Configured:
    """Read a configuration file and the tables that it names."""
    job, text, at = load_job(path, others=OTHERS), read_text(path), Path(path)
    places = {name: _place(at, text, name, job.rest.get(name)) for name in ("store", "report", "output")}
    output = places["output"] or at.parent / "fit.json"
    try:
        federation = _federation(at.parent, job.rest.get("data"))
    except _Wrong as wrong:
        raise at_line(path, text, wrong.place, wrong.what) from wrong
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
    return Configured(at, job, federation, places["store"], places["report"], output)


class _Wrong(InvalidInput):
    """A mistake at a place of the file."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place} {what}")
        self.place, self.what = place, what


def _place(at: Path, text: str, name: str, value: Any) -> Path | None:
    if value is None:
        return None
    if not (isinstance(value, str) and value):
        raise at_line(at, text, name, f"must be a text that names a place, got {value!r}")
    return at.parent / value


# ------------------------------------------------------------------------------------------------ data


def _federation(folder: Path, data: Any) -> Federation:
    if not isinstance(data, dict):
        raise InvalidInput("there is no [data]; `colonnade init` writes a file to start from.")
    _known_keys("data", data, DATA)
    parties = data.get("parties")
    if not (isinstance(parties, dict) and parties):
        raise _Wrong("data", "names no parties; add a table for each, as in [data.parties.clinic]")
    for name, party in parties.items():
        where = f"data.parties.{name}"
        if not isinstance(party, dict):
            raise _Wrong(where, 'must be a table, as in [data.parties.clinic] with source = "clinic.csv"')
        _known_keys(where, party, PARTY)
    label = _pair(data, "label", '["clinic", "readmitted"]', str)
    unit = None if "unit" not in data else _pair(data, "unit", '["patient", 5]', int)
    if label is None:
        raise _Wrong("data", 'has no label; say who holds it: label = ["clinic", "readmitted"]')
    schemas = {name: Schema.from_toml(folder / p["schema"]) for name, p in parties.items() if "schema" in p}
    policies = {name: Policy(**own) for name, p in parties.items() if (own := {k: p[k] for k in POLICY if k in p})}
    if "source" in data:
        frames, on = _shared_out(folder, data, parties, label, unit, schemas)
        return Federation.from_frames(frames, on, label, schemas=schemas, policies=policies, unit=unit)
    tables, on = _each_its_own(folder, data, parties, schemas)
    return Federation.from_frames(tables, on, label, schemas=schemas, policies=policies, unit=unit)


def _shared_out(
    folder: Path,
    data: Mapping[str, Any],
    parties: Mapping[str, Any],
    label: tuple[str, str],
    unit: Any,
    schemas: Mapping[str, Schema],
) -> tuple[dict[str, pl.DataFrame], str]:
    """One table, its columns given to parties by name; without a key, the number of the row is the key."""
    for name, party in parties.items():
        if "source" in party or not _texts(party.get("columns")):
            raise _Wrong(
                f"data.parties.{name}", 'shares the table of [data]: give columns = ["age", ...] and no source'
            )
    if label[0] not in parties:
        raise _Wrong("data.label", f"names {label[0]!r}, which is not a party; there are {', '.join(parties)}")
    table, there = _source(folder, "data", data)
    on, wanted, frames = data.get("on"), {}, {}
    for name, party in parties.items():
        extra = [label[1], *(unit or ())[:1]] if name == label[0] else []
        wanted[name] = list(dict.fromkeys([*([] if on is None else [on]), *party["columns"], *extra]))
        if absent := [column for column in wanted[name] if column not in there]:
            raise _Wrong(
                f"data.parties.{name}.columns",
                f"names {absent[0]!r}, which {data['source']} does not have; it has {_some(there)}",
            )
    with _at_source("data"):
        names = [column for column in there if any(column in own for own in wanted.values())]
        whole = table.frame(names, _declared(schemas.values()), _texts_of(data))
    for name, own in wanted.items():
        frames[name] = whole.select(own) if on is not None else whole.select(own).with_row_index(ROW_KEY)
    return frames, on or ROW_KEY


def _declared(schemas: Iterable[Schema]) -> Schema:
    """What several schemas say of one table's columns; of a column that two of them declare in two ways, nothing."""
    kinds: dict[str, list[Column]] = {}
    for schema in schemas:
        for column in schema.columns:
            kinds.setdefault(column.name, []).append(column)
    return Schema(tuple(found[0] for found in kinds.values() if len({type(one) for one in found}) == 1))


def _texts_of(data: Mapping[str, Any]) -> set[str]:
    """Columns that name somebody: the key, and whom a row is about."""
    return {name for name in (data.get("on"), *(data.get("unit") or ())[:1]) if name is not None}


def _each_its_own(
    folder: Path, data: Mapping[str, Any], parties: Mapping[str, Any], schemas: Mapping[str, Schema]
) -> tuple[dict[str, pl.DataFrame | Table], str]:
    """One table a party, matched on the key."""
    if "query" in data:
        raise _Wrong("data.query", "belongs to a source; write source = ... beside it")
    if not isinstance(data.get("on"), str):
        raise _Wrong("data", 'needs on = "pid", the key column by which the parties\' rows are matched')
    frames: dict[str, pl.DataFrame | Table] = {}
    for name, party in parties.items():
        where = f"data.parties.{name}"
        if not isinstance(party.get("source"), str):
            raise _Wrong(where, "has no source, and [data] has none for all: give a file or a database's address")
        table, there = _source(folder, where, party)
        frames[name] = table  # read in blocks, where it lies
        if "columns" in party:
            kept = {data["on"], data["label"][1], *(data.get("unit") or [])[:1]} & set(there)
            wanted = [*party["columns"], *sorted(kept - set(party["columns"]))]
            if absent := [column for column in wanted if column not in there]:
                raise _Wrong(f"{where}.columns", f"names {absent[0]!r}; the source has {_some(there)}")
            with _at_source(where):
                frames[name] = table.frame(wanted, schemas.get(name), _texts_of(data))
    return frames, data["on"]


def _source(folder: Path, where: str, table: Mapping[str, Any]) -> tuple[Table, list[str]]:
    """A table where it lies, and the names of its columns."""
    source, query = str(table["source"]), table.get("query")
    with _at_source(where):
        found = table_at(source if "://" in source else folder / source, query=query)
        return found, found.names()


@contextmanager
def _at_source(where: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise _Wrong(f"{where}.source", f"cannot be read: {error}") from error


def _known_keys(where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := [key for key in table if key not in known]:
        raise _Wrong(f"{where}.{unknown[0]}", f"is unknown; there are {', '.join(known)}")


def _pair(data: Mapping[str, Any], name: str, example: str, second: type) -> tuple[Any, Any] | None:
    value = data.get(name)
    if value is None:
        return None
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and type(value[1]) is second):
        raise _Wrong(f"data.{name}", f"must be a pair, as in {name} = {example}; got {value!r}")
    return value[0], value[1]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")


# ------------------------------------------------------------------------------------------------ what would leave


@dataclass(frozen=True)
class Line:
    """One thing that would leave one party."""

    party: str
    what: str
    times: int
    rho: float  # of all those times together
    seen_by: str


@dataclass(frozen=True)
class Preview:
    """What a run would release, how often, and at what price. Making one spends nothing and sends nothing."""

    method: str
    rows: int
    lines: tuple[Line, ...]
    rho: float  # of one row, everything together
    delta: float | None
    size: int | None  # bytes sent by all nodes together, estimated; None where it could not be
    notices: tuple[str, ...] = ()  # what it would pay for nothing: for whoever holds the tables
    unused: tuple[str, ...] = ()  # declared levels that no row has, in tables otherwise in order: for the same
    unit: str = "one row"
    trust: str | None = None  # the trust model that the run would have; None where it is not private
    notes: tuple[str, ...] = ()  # what is to be said of the figures

    @property
    def epsilon(self) -> float:
        return math.inf if self.delta is None else epsilon(self.rho, self.delta)

    @property
    def price(self) -> str:
        if math.isinf(self.rho):
            return "exact values would leave: no epsilon holds"
        return f"epsilon {shown(self.epsilon)} at delta {self.delta:g} (rho {self.rho:.4g}) for {self.unit}, all parties together"

    def plain(self) -> dict[str, Any]:
        """As plain data; what is infinite is None."""

        def finite(value: float) -> float | None:
            return value if math.isfinite(value) else None

        return {
            "method": self.method,
            "rows": self.rows,
            "leaves": [{**vars(line), "rho": finite(line.rho)} for line in self.lines],
            "rho": finite(self.rho),
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
    return {MASKED: HIDDEN, SCORES: SCORED}.get(charge.event, SEEN[charge.event.audience])


def preview(
    federation: Federation,
    problem: Any,
    method: Method | GraphMethod | None = None,
    privacy: Privacy | None = None,
    *,
    store: str | Path | None = None,
) -> Preview:
    """What `co.fit` with the same arguments would release; it refuses what `co.fit` would refuse before its first message."""
    call = checked(federation, problem, method, privacy)
    check_store(call, federation, privacy, store)
    _check_ledgers(call, federation, store)
    lines = tuple(
        Line(party, charge.what, charge.count, charge.rho, seen_by(charge))
        for party, plan in call.plans.items()
        for charge in plan
        if charge.count
    )
    rho, unit, terms = row_rho(call.plans), str(call.job.roster.unit), call.job.privacy
    size = _rehearsed(federation, problem, call.method, terms)
    notices = tuple(noticed(federation, call.job, call.blocks))
    absent = tuple(unused(federation, call.job, call.blocks))
    known = Preview(call.method.TITLE, federation.rows, lines, rho, None, size, notices, absent, unit)
    if terms is None:
        return known
    notes = (*filter(None, [large_delta(terms, *call.job.units)]), *remarks_on(terms))
    return replace(known, delta=terms.delta, trust=terms.trust, notes=notes)


def planned(federation: Federation, problem: Any, method: Method | GraphMethod | None, privacy: Privacy | None) -> Job:
    """Refuse what `co.fit` would refuse before it looks at its store; the job, with settled terms."""
    return checked(federation, problem, method, privacy).job


def _check_ledgers(call: Checked, federation: Federation, store: str | Path | None) -> None:
    """Refuse what policies and ledgers would refuse when the run is reserved; nothing is written."""
    terms, folder = terms_of(call.job, call.method), None if store is None else Path(store).expanduser()
    with ExitStack() as last:
        books = None
        if folder is not None and (folder / "runs.db").is_file():
            books = last.enter_context(closing(RunStore(folder)))
        elif folder is not None:
            check_folder(folder)
        run = None
        if books is not None:
            run = books.going_on(fingerprint(federation, in_order(call, federation, books, kept=False)))
        nodes = {name: (party.policy, True) for name, party in federation.parties.items()}
        if not isinstance(call.method, GraphMethod):
            setup = coordinator_setup(call.job, call.method, None)
            nodes[setup.name] = (setup.policy, setup.guarded)
        for name, (policy, guarded) in nodes.items():
            kept = books is not None and books.log_path(name).is_file()
            log = books.log(name) if books is not None and kept else MemoryLog()
            Ledger(log, name, policy, holds_data=guarded).check_run(run or "a run to come", terms, call.plans)


def _rehearsed(
    federation: Federation, problem: Any, method: Method | GraphMethod, privacy: Privacy | None
) -> int | None:
    """Bytes, from the same programs on a made-up table of the same columns; nothing is read off the data but its shape.

    Beyond CELLS cells, or a few rounds, the counts of two smaller runs are drawn on in a straight line.
    """
    if federation.by_rows:
        return None
    columns = sum(party.block.columns for party in federation.parties.values())
    most = max(50, CELLS // max(columns, 1))
    rows = [federation.rows] if federation.rows <= most else [most // 2, most]
    rounds = method.rounds or 0
    tries = [FEW_ROUNDS, 2 * FEW_ROUNDS] if rounds > 2 * FEW_ROUNDS else [rounds]
    try:
        sent = [
            _straight(tries, [_made_up(federation, problem, _short(method, t), privacy, n) for t in tries], rounds)
            for n in rows
        ]
    except ColonnadeError:  # a method that takes no fewer rounds or rows: no estimate
        return None
    return round(_straight(rows, sent, federation.rows))


@contextmanager
def _about_a_made_up_table() -> Iterator[None]:
    """Nobody needs to hear what a run says of such a table: neither as a warning nor in a log."""
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


def _straight(at: Sequence[float], values: Sequence[float], wanted: float) -> float:
    if len(at) == 1:
        return values[0]
    return values[1] + (values[1] - values[0]) * (wanted - at[1]) / (at[1] - at[0])


def _short(method: Any, rounds: int) -> Any:
    """The same method with so many rounds, all of them used; 0 or its own number: as it is."""
    if rounds in (0, method.rounds):
        return method
    return replace(method, rounds=rounds, **({"tolerance": 0.0} if method.tolerance is not None else {}))


def _made_up(federation: Federation, problem: Any, method: Any, privacy: Privacy | None, rows: int) -> float:
    rng = np.random.default_rng(0)  # which numbers they are does not matter: noise and masks are not drawn from it
    parties = {}
    for name, party in federation.parties.items():
        cells = (rng.random((rows, party.block.columns)) < 0.5).astype(np.float64)
        block = Block(cells, party.block.positions, unit=party.block.unit)
        parties[name] = replace(party, block=block, policy=OPEN)
    y = np.where(np.arange(rows) % 2, 1.0, -1.0)
    same = Alignment(dict.fromkeys(parties, rows), rows)
    made = replace(federation, parties=parties, alignment=same, _y=y, keys=None, away=None)
    with tempfile.TemporaryDirectory() as store, _about_a_made_up_table():
        found = fit(made, problem, method, privacy, store=None if privacy is None else store)
    return float(found.communication.bytes)
