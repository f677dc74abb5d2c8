"""One file for a whole run: data, problem, method, privacy, where to keep it.

`colonnade init` writes one to start from, and docs/use/files.md describes every field: store, output, report, [data]
with a table for each of its parties, and a job. Paths are relative to the file. Between organisations a file holds the
job alone: problem, method and privacy as a user writes them down (docs/use/files.md).

    [problem]
    loss = "Logistic"                                       # a value of colonnade by its name
    penalty = { type = "ElasticNet", l1 = 0.01, l2 = 0.1 }  # one with settings

[method] names a type and its settings; left out, it is the default for the privacy asked for. Without [privacy] exact
values leave the parties. A mistake is answered with the line it is on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from colonnade.data.federation import ROW_KEY, Federation
from colonnade.data.schema.table import Schema
from colonnade.data.sources import KINDS, table_at
from colonnade.data.sources import Table as Source
from colonnade.data.text_file import at_line, parse_toml, placed, read_text
from colonnade.errors import InvalidInput, StoreError
from colonnade.fields import Table, Text, Wrong, check_names, inside, must, read, within
from colonnade.methods.method import MethodBase
from colonnade.methods.node_setup import InvalidValue, from_plain, known_methods, known_values
from colonnade.privacy.events import Policy
from colonnade.privacy.statement import Privacy
from colonnade.problem import AdaBoost, ClassWeighted, KernelSVM, Loss, Problem
from colonnade.runs import declared
from colonnade.runs.declared import Label, Mark
from colonnade.runs.fit import fit
from colonnade.runs.new_rows import together
from colonnade.runs.result import Fit

if TYPE_CHECKING:
    from colonnade.runs.preview import Preview

TABLES = ("problem", "method", "privacy")
_PROBLEMS = (Problem, KernelSVM, AdaBoost)
OTHERS = ("data", "store", "report", "output")
USUAL_DELTA = 1e-6
PARTS = {"loss": "losses", "penalty": "penalties", "constraint": "sets"}  # of a problem, by file of their room
PARTS_AS_IN = {"loss": '"Logistic"', "penalty": '{ type = "Ridge", a = 1e-3 }'}
PARTS_AS_IN["constraint"] = '{ type = "L1Ball", radius = 10.0 }'
POLICY = ("exact", "epsilon", "delta", "scores", "consortium")
_Plain = Mapping[str, Any]  # a table of the file
_Tables = dict[str, Any]  # frames, or tables where they lie, by party
_Place = Annotated[str, must("a text that names a place", "runs", min_length=1)]
_Source = Annotated[str, must("a text that names a file or a database", "clinic.csv", min_length=1)]
_Beside = Annotated[tuple[str, str], must("a pair", ["insurer", "log_exposure"])]


class PartyTable(Table, frozen=True):
    """[data.parties.NAME]; what a policy has is checked when it is made."""

    source: _Source | None = None
    query: Text | None = None
    columns: Annotated[list[str], must("a list of names", ["age", "ward"], min_length=1)] | None = None
    schema: Annotated[str, must("a text that names a file", "clinic.schema.toml", min_length=1)] | None = None
    column: Annotated[list[dict[str, Any]], must("a list of tables, each opened with [[ ]]")] | None = None
    exact: Any = None
    epsilon: Any = None
    delta: Any = None
    scores: Any = None
    consortium: Any = None


class DataTable(Table, frozen=True):
    """[data]."""

    source: _Source | None = None
    query: Text | None = None
    on: Annotated[str, must("a text that names the key column", "pid", min_length=1)] | None = None
    label: Any = None  # a pair, or a table: declared.py
    offset: _Beside | None = None
    weight: _Beside | None = None
    unit: Annotated[tuple[str, int], must("a pair", ["patient", 5])] | None = None
    parties: dict[str, PartyTable] = msgspec.field(default_factory=dict)


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
        self.check_places()
        fitted = fit(self.federation, asked.problem, asked.method, asked.privacy, store=self.store, progress=progress)
        save_finished(fitted, self.output, self.store)
        if self.report is not None:
            fitted.report(self.report)
        return fitted

    def preview(self) -> Preview:
        """What running it would release, after the same checks as those of `run`, the ledgers' included."""
        from colonnade.runs.preview import preview

        self.check_places()
        return preview(self.federation, self.job.problem, self.job.method, self.job.privacy, store=self.store)

    def check_places(self) -> None:
        """That a result can be written, over nothing that the run reads, and what is spent can be kept."""
        from colonnade.views.page import check_target

        taken = {self.path.resolve(): "this file itself", **self._read_files()}
        for name, target in (("output", self.output), ("report", self.report)):
            if target is not None:
                if (what := taken.get(target.resolve())) is not None:
                    raise InvalidInput(
                        f"{self.path}: {name} would be written to {target}, which is {what}. Name another place."
                    )
                check_target(target)
                taken[target.resolve()] = f"the {name}, too"
        if self.job.privacy is not None and self.store is None:
            raise InvalidInput(f'{self.path} asks for privacy and names no store: add store = "runs" at its top.')

    def _read_files(self) -> dict[Path, str]:
        """The tables and schemas that the run reads, and what each of them is."""
        data = self.job.rest["data"]
        found = dict[Path, str]()
        for where, table in (("[data]", data), *((f"party {name!r}", one) for name, one in data["parties"].items())):
            for key, what in (("source", "table"), ("schema", "schema")):
                if isinstance(named := table.get(key), str) and "://" not in named:
                    found[(self.path.parent / named).resolve()] = f"the {what} of {where}"
        return found


def save_finished(fitted: Fit, output: Path, store: Path | None) -> None:
    """Write the fit of a run that is over; where that fails, say where it is kept."""
    try:
        fitted.save(output)
    except StoreError as error:
        if store is None:
            raise
        why = getattr(error.__cause__, "strerror", None) or "it cannot be written to"
        raise StoreError(
            f"run {fitted.run} is finished, but not in {output}: {why}. Its fit is kept: copy "
            f"{store / 'fits' / fitted.run}.json to where you want it. Do not repeat the command, which would begin "
            "and pay another run."
        ) from error


def load_config(
    path: str | Path,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    public: bool = False,
    rows: Mapping[str, Path] | None = None,
) -> Configured:
    """Read a configuration file and the tables that it names.

    epsilon, delta   instead of what [privacy] says; without that table, delta is 1e-6.
    public           all figures that were read off the rows are declared public (`declared.py`).
    rows             by party: another file with the same columns, instead of the table that is named.
    """
    _is_configuration(Path(path))
    job = load_job(path, others=OTHERS)
    text = read_text(path)
    at = Path(path)
    job = replace(job, privacy=_with_budget(job.privacy, epsilon, delta))
    places = {name: _place(at, text, name, job.rest.get(name)) for name in ("store", "report", "output")}
    output = places["output"] or at.parent / "fit.json"
    with placed(at, text):
        federation = _federation(at.parent, _with_rows(job, rows) if rows else job, public)
    return Configured(at, job, federation, places["store"], places["report"], output)


def _with_rows(job: JobFile, rows: Mapping[str, Path]) -> JobFile:
    """The same study of other tables: those of all parties, since the own rows of one would be looked at."""
    data = job.rest.get("data", {})
    parties = data.get("parties", {})
    if "source" in data:
        raise InvalidInput("its parties share one table: write the other one as source = ... into a copy of the file.")
    if absent := [name for name in parties if name not in rows]:
        raise InvalidInput(f"other rows are needed of every party, and of {absent[0]!r} there are none: add them, too.")
    if strange := [name for name in rows if name not in parties]:
        raise InvalidInput(f"there is no party {strange[0]!r}; there are {', '.join(parties)}.")
    own = ("source", "query")
    others = {
        name: {**{key: value for key, value in party.items() if key not in own}, "source": str(rows[name].resolve())}
        for name, party in parties.items()
    }
    return replace(job, rest={**job.rest, "data": {**data, "parties": others}})


def load_declared(path: str | Path) -> Declared:
    """What a configuration file declares; the tables that it names are not read."""
    _is_configuration(Path(path))
    job = load_job(path, others=OTHERS)
    with placed(Path(path), read_text(path)):
        return read_declared(Path(path).parent, job)


def _is_configuration(path: Path) -> None:
    """Refuse the other files that lie beside a configuration."""
    if path.suffix.lower() in KINDS:
        begin = f"`colonnade init --party {shlex.quote(str(path))} --party OTHER.csv --on KEY --label PARTY.COLUMN`"
        raise InvalidInput(f"{path} is a table. {begin} writes the file that is asked for.")
    if path.suffix.lower() == ".json":
        raise InvalidInput(f"{path} is no configuration: that is a .toml file, which `colonnade init` writes.")


def _with_budget(privacy: Privacy | None, epsilon: float | None, delta: float | None) -> Privacy | None:
    """The terms of the file with another budget."""
    if privacy is not None:
        one = privacy if epsilon is None else replace(privacy, epsilon=epsilon)
        return one if delta is None else replace(one, delta=delta)
    if delta is not None and epsilon is None:
        raise InvalidInput(f"--delta {delta:g} goes with an epsilon: say --epsilon 1, or write [privacy] in the file.")
    return None if epsilon is None else Privacy(epsilon, USUAL_DELTA if delta is None else delta)


def _place(at: Path, text: str, name: str, value: Any) -> Path | None:
    if value is None:
        return None
    with placed(at, text):
        return at.parent / str(read(value, _Place, name))


class Declared(NamedTuple):
    """What a file declares of its parties' columns and of the label, and what of it is to be confirmed."""

    data: dict[str, Any]
    parties: dict[str, Any]
    label: Label
    schemas: dict[str, Schema]
    marks: list[Mark]


def read_declared(folder: Path, job: JobFile, public: bool = False) -> Declared:
    """What a file declares; no table is read."""
    data = job.rest.get("data")
    if not isinstance(data, dict):
        raise InvalidInput("there is no [data]; `colonnade init` writes a file to start from.")
    read(data, DataTable, "data")
    if not (parties := data.get("parties")):
        raise Wrong("data", "names no parties; add a table for each, as in [data.parties.clinic]")
    label = Label.read(data.get("label"))
    if label.party not in parties:
        raise Wrong("data.label", f"names {label.party!r}, which is not a party; there are {', '.join(parties)}")
    return Declared(data, parties, label, *declared.read_schemas(folder, parties, label, public))


def _federation(folder: Path, job: JobFile, public: bool) -> Federation:
    data, parties, label, schemas, marks = read_declared(folder, job, public)
    pairs: dict[str, Any] = {name: tuple(data[name]) for name in ("unit", "offset", "weight") if name in data}
    if job.privacy is not None:
        declared.refuse_marks(marks)
    policies = {name: own for name, party in parties.items() if (own := _policy(name, party)) is not None}
    data = {**data, "label": (label.party, label.column)}
    tables, on = (_share_table if "source" in data else _own_tables)(folder, data, parties, schemas)
    given: dict[str, Any] = {"schemas": schemas, "policies": policies, **pairs}
    made = Federation.from_frames(tables, on, data["label"], **given)
    return label.named(made, bool(job.problem.loss.classifies))


def _policy(name: str, party: _Plain) -> Policy | None:
    """What a party's table allows; None: it does not say."""
    with inside(within("data.parties", name)):
        own = {key: party[key] for key in POLICY if key in party}
        return Policy(**own) if own else None


def _share_table(folder: Path, data: _Plain, parties: _Plain, schemas: Mapping[str, Schema]) -> tuple[_Tables, str]:
    """One table, its columns given to parties by name; without a key, the number of the row is the key."""
    label = data["label"]
    unit = data.get("unit")
    for name, party in parties.items():
        if "source" in party or "columns" not in party:
            what = 'shares the table of [data]: give columns = ["age", ...] and no source'
            raise Wrong(f"data.parties.{name}", what)
    table, there = _source(folder, "data", data)
    on = data.get("on")
    wanted = {}
    frames = dict[str, Any]()
    for name, party in parties.items():
        extra = [label[1], *_beside_names(data, name), *(unit or ())[:1]] if name == label[0] else []
        wanted[name] = list(dict.fromkeys([*([] if on is None else [on]), *party["columns"], *extra]))
        if absent := [column for column in wanted[name] if column not in there]:
            what = f"names {absent[0]!r}, which {data['source']} does not have; it has {_some(there)}"
            raise Wrong(f"data.parties.{name}.columns", what)
    with _at_source("data"):
        names = [column for column in there if any(column in own for own in wanted.values())]
        whole = table.frame(names, together(schemas.values()), _texts_of(data))
    for name, own in wanted.items():
        frames[name] = whole.select(own) if on is not None else whole.select(own).with_row_index(ROW_KEY)
    return frames, on or ROW_KEY


def _beside_names(data: _Plain, party: str) -> list[str]:
    """The party's columns of offset and weight."""
    return [data[name][1] for name in ("offset", "weight") if name in data and data[name][0] == party]


def _texts_of(data: _Plain) -> set[str]:
    """Columns that name somebody: the key, and whom a row is about."""
    return {name for name in (data.get("on"), *(data.get("unit") or ())[:1]) if name is not None}


def _own_tables(folder: Path, data: _Plain, parties: _Plain, schemas: Mapping[str, Schema]) -> tuple[_Tables, str]:
    """One table a party, matched on the key."""
    if "query" in data:
        raise Wrong("data.query", "belongs to a source; write source = ... beside it")
    if "on" not in data:
        raise Wrong("data", 'needs on = "pid", the key column by which the parties\' rows are matched')
    frames: dict[str, Any] = {}
    for name, party in parties.items():
        where = f"data.parties.{name}"
        if "source" not in party:
            raise Wrong(where, "has no source, and [data] has none for all: give a file or a database's address")
        table, there = _source(folder, where, party)
        frames[name] = table  # read in blocks, where it lies
        if "columns" in party:
            kept = {data["on"], data["label"][1], *_beside_names(data, name), *(data.get("unit") or [])[:1]} & set(
                there
            )
            wanted = [*party["columns"], *sorted(kept - set(party["columns"]))]
            if absent := [column for column in wanted if column not in there]:
                raise Wrong(f"{where}.columns", f"names {absent[0]!r}; the source has {_some(there)}")
            with _at_source(where):
                frames[name] = table.frame(wanted, schemas.get(name), _texts_of(data))
    return frames, data["on"]


def _source(folder: Path, where: str, table: _Plain) -> tuple[Source, list[str]]:
    """A table where it lies, and the names of its columns."""
    source = table["source"]
    query = table.get("query")
    with _at_source(where):
        found = table_at(source if "://" in source else folder / source, query=query)
        return found, found.names()


@contextmanager
def _at_source(where: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise Wrong(f"{where}.source", f"cannot be read: {error}") from error


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")


# ------------------------------------------------------------------------------------------------ the job


@dataclass(frozen=True)
class JobFile:
    """What a job file says."""

    problem: Any
    method: Any | None
    privacy: Privacy | None
    rest: Mapping[str, Any]  # tables that others read: data, output


def load_job(path: str | Path, *, others: tuple[str, ...] = ()) -> JobFile:
    """Read a job file; `others` are further tables that it may hold."""
    return read_job(read_text(path), path, others=others)


def read_job(text: str, path: str | Path, *, others: tuple[str, ...] = ()) -> JobFile:
    """The job that a text describes; errors name the path."""
    raw = parse_toml(text, path)
    with placed(path, text):
        check_names(raw, (*TABLES, *others))
    if "problem" not in raw:
        raise InvalidInput(f'{path} has no [problem]; write at least: [problem] and loss = "Logistic".')
    try:
        problem = _read_table(raw, "problem", "Problem")
        method = _read_table(raw, "method")
        privacy = _read_table(raw, "privacy", "Privacy")
        _check_kinds(problem, method, privacy)
    except InvalidValue as error:
        place = f"{error.place}.{error.setting}" if error.setting else error.place
        raise at_line(path, text, place, error.what, mark=":") from error
    return JobFile(problem, method, privacy, {name: raw[name] for name in others if name in raw})


def accepted() -> dict[str, tuple[type, ...]]:
    """What each table may hold."""
    return {"problem": _PROBLEMS, "method": tuple(known_methods().values()), "privacy": (Privacy,)}


def _check_kinds(problem: object, method: object, privacy: object) -> None:
    """Each table must hold what its name says: a Ridge is a value of colonnade, and no method."""
    kinds = {
        "problem": (problem, _PROBLEMS, "is no problem; leave type out, or write KernelSVM or AdaBoost"),
        "method": (method, (MethodBase, type(None)), 'is no method; write for example type = "PrivateGram"'),
        "privacy": (privacy, (Privacy, type(None)), "says nothing about privacy; leave type out of [privacy]"),
    }
    for where, (value, wanted, what) in kinds.items():
        if not isinstance(value, wanted):
            raise InvalidValue(where, f"{type(value).__name__} {what}")


def _read_table(tables: Mapping[str, Any], where: str, kind: str | None = None) -> Any:
    """The value that a table describes; None without the table."""
    if where not in tables:
        return None
    raw = tables[where]
    if not isinstance(raw, dict):
        raise InvalidValue(where, f"must be a table, as in [{where}]")
    if kind is None and "type" not in raw:
        raise InvalidValue(where, 'needs type = "...", such as type = "PrivateGram"')
    for part in PARTS if kind == "Problem" else ():
        if isinstance(named := raw.get(part), str) and named not in known_values():
            raise InvalidValue(f"{where}.{part}", _unknown_part(part, named))
        if named is not None and not (isinstance(named, str) or (isinstance(named, dict) and "type" in named)):
            what = f"is no {part}: write one such as {PARTS_AS_IN[part]}"
            raise InvalidValue(f"{where}.{part}", what)
    return from_plain(_with_types({**({} if kind is None else {"type": kind}), **raw}), where)


def known_parts(part: str) -> dict[str, type]:
    """All losses, penalties or sets, by name."""
    values = known_values().items()
    if part == "loss":  # any file of the room may hold one
        return {name: kind for name, kind in values if issubclass(kind, Loss)}
    return {name: kind for name, kind in values if kind.__module__ == f"colonnade.problem.{PARTS[part]}"}


def _unknown_part(part: str, named: str) -> str:
    """What to say of a loss, penalty or set of a name that there is not."""
    there = [name for name, kind in known_parts(part).items() if kind is not ClassWeighted]
    near = [name for name in there if name.lower() == named.lower()] or get_close_matches(named, there, 1)
    advice = f'write {part} = "{near[0]}"' if near else f"there are {', '.join(there)}"
    return f'"{named}" is not known; {advice}.'


def _with_types(raw: Any) -> Any:
    """Names of values for values without settings, and tables without a type for tables."""
    if isinstance(raw, dict):
        inside = {key: _with_types(item) if key != "type" else item for key, item in raw.items()}
        return inside if "type" in raw else {"type": "table", "entries": inside}
    if isinstance(raw, list):
        return [_with_types(item) for item in raw]
    return {"type": raw} if isinstance(raw, str) and raw in known_values() else raw
