"""The file of one party: what it needs to take part, and what it lets pass without asking.

    version = 1                        # of this form
    name = "airline"                   # as the federation file calls it
    federation = "federation.toml"     # this party's own copy
    hub = "hub.example.org:7443"       # left out: as the federation file says
    store = "store"                    # ledger, transcripts, its part of each model
    key = "signing.key"                # its public half stands in the federation file
    certs = "certs"                    # airline.pem, airline.key, authority.pem, revoked.pem
    models = "../learning/store"       # of new rows to be scored: the store with this party's parts of the models
    listen = "0.0.0.0:7444"            # if the federation file gives it an address: its port for other parties
    metrics = 9464                     # loopback port of a page with counters; left out: none
    approve = "ask"                    # terms are shown and asked about; "policy": see [limits]; "all" asks nobody;
                                       # "inbox": as "policy", and all else waits for `colonnade party approve`
    open_hours = 72                    # with "inbox": how long a question stays open before it is refused

    [data]
    source = "flights.parquet"         # or a database: source = "postgresql://...", query = "select ..."
    labels = "labels.npy"              # beside a plain matrix (.npy, .npz), at the label holder

    [limits]                           # with approve = "policy" or "inbox": what passes
    methods = ["PrivateGram"]          # "MaskedScores" for scores, where the policy has `scores`
    epsilon = 1.0                      # of one run, for one row, all parties together
    delta = 1e-5                       # the largest delta that epsilon may be stated at; left out: 1e-5
    scores = 1                         # the most runs of scores of this store's rows, ever; left out: 1
    models = ["20260101T120000-..."]   # the runs whose models may score; left out: all it has parts of

Paths are relative to the file. All of it is the party's own business and never leaves it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from colonnade.data.federation_file import FederationFile
from colonnade.data.text_file import LARGEST_KEY, parse_toml, placed, read_bytes, read_text
from colonnade.errors import InvalidInput, PolicyRefused, unquoted
from colonnade.fields import Choice, Table, Text, Wrong, check_version, must, read
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.node_setup import known_methods
from colonnade.network.certs import Tls, tls_in
from colonnade.network.inbox import Inbox
from colonnade.network.neighbours import Neighbours
from colonnade.network.party_data import PartyData
from colonnade.network.party_run import Approve, Request
from colonnade.network.party_service import PartyService
from colonnade.network.transport.metrics import Metrics
from colonnade.privacy.accountant import epsilon, less_taken
from colonnade.privacy.events import row_delta, row_rho

_VERSION = 1
_Names = Annotated[tuple[str, ...], must("a list of names", ["PrivateGram"])]
_Number = Annotated[float, must("a number from 0 on", 1.0, ge=0.0)]


class Approval(Choice):
    """Who says yes to a run."""

    ASK = "ask"  # the operator, at a terminal
    POLICY = "policy"  # [limits]
    ALL = "all"  # nobody is asked
    INBOX = "inbox"  # [limits], and the operator to all else


class DataTable(Table, frozen=True):
    """[data]: where the party's rows lie."""

    source: Annotated[str, must("a text that names a file or a database", "flights.parquet", min_length=1)]
    query: Text | None = None
    labels: Text | None = None


class PartyTable(Table, frozen=True):
    """A party's file as it is written."""

    version: int
    name: Annotated[str, must("a text, the party's name in the federation file", "airline", min_length=1)]
    federation: Annotated[str, must("a text that names a file", "federation.toml", min_length=1)]
    store: Annotated[str, must("a text that names a folder", "store", min_length=1)]
    key: Annotated[str, must("a text that names a file", "signing.key", min_length=1)]
    certs: Annotated[str, must("a text that names a folder", "certs", min_length=1)]
    data: DataTable
    hub: Text | None = None
    models: Text | None = None
    listen: Annotated[str, must("a text, host:port", "0.0.0.0:7444")] | None = None
    metrics: Annotated[int, must("the number of a port, 65,535 at most", 9464, ge=0, le=65_535)] | None = None
    approve: Annotated[Approval, must(f"one of {', '.join(Approval)}", "inbox")] = Approval.ASK
    open_hours: Annotated[float, must("a number of hours above 0, 8,784 at most", 72, gt=0.0, le=24 * 366)] = 72.0
    limits: dict[str, Any] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """What a policy lets pass: methods by name, and the epsilon of one run at a delta that is small enough.

    Scores have no price in rho, so their runs are counted: each is one more linear equation about every row, and how
    many it takes to solve for a row depends on its columns and on what the label holder knows. One is what naming
    MaskedScores asks for; whoever writes a larger number has thought about it.
    """

    methods: _Names = ()
    epsilon: _Number = 0.0
    delta: _Number = 1e-5  # the hub names the delta, and at one near 1 every price is a small epsilon
    scores: Annotated[int, must("a whole number of runs, 0 or more", 1, ge=0)] = 1
    models: _Names | None = None

    def __call__(self, asked: Request) -> bool:
        """Let a run pass, or refuse it with the reason, which is for the party's own log."""
        why = self.objection(asked)
        if why is not None:
            raise PolicyRefused(f"the [limits] of {asked.party!r} stop run {asked.run}: {why}. Nothing was sent.")
        return True

    def objection(self, asked: Request) -> str | None:
        """Why a run does not pass by itself; None if it does."""
        method = asked.call.method
        privacy = asked.call.privacy
        if type(method).__name__ not in self.methods:
            return f"methods does not name {type(method).__name__}"
        if isinstance(method, MaskedScores):
            return self._objection_to_scores(method, asked)
        rho = row_rho(asked.plans)
        if privacy is None or math.isinf(rho):
            return None if math.isinf(self.epsilon) else "exact values would leave, and epsilon is not inf"
        if privacy.delta > self.delta:
            return f"delta = {privacy.delta:g} is over {self.delta:g}"
        price = epsilon(rho, less_taken(privacy.delta, row_delta(asked.plans)))
        return None if price <= self.epsilon * (1 + 1e-9) else f"epsilon = {price:.4g} is over {self.epsilon:g}"

    def _objection_to_scores(self, method: MaskedScores, asked: Request) -> str | None:
        if self.models is not None and method.model not in self.models:
            return "models does not name the model that is to score"
        # The label holder learns scores, and gives none away.
        if asked.own and asked.scored >= self.scores:
            return f"runs of scores of these rows reserved before: {asked.scored:,}, and scores = {self.scores:,}"
        return None


@dataclass(frozen=True)
class PartyFile:
    """What a party's file says."""

    path: Path
    name: str
    federation_file: FederationFile
    hub: str
    store: Path
    key: Path
    tls: Tls
    approve: Approval
    data: Mapping[str, Any]
    limits: Limits = field(default_factory=Limits)
    metrics: int | None = None  # port of the loopback page with counters
    listen: str | None = None  # where it takes connections of other parties
    models: Path | None = None  # with it the table is of new rows: scored, not learned from
    open_hours: float = 72.0  # that a question to the operator stays open

    @classmethod
    def load(cls, path: str | Path) -> PartyFile:
        at = Path(path)
        text = read_text(path)
        raw = parse_toml(text, path)
        with placed(path, text):
            check_version(raw, _VERSION)
            return cls._made(at, read(raw, PartyTable))

    @classmethod
    def _made(cls, at: Path, said: PartyTable) -> PartyFile:
        folder = at.parent
        limits = _limits(said.limits)
        file = FederationFile.load(folder / said.federation)
        if (hub := said.hub or file.hub) is None:
            raise InvalidInput('hub = "host:port" is missing here and in the federation file')
        if said.name not in file.members:
            there = ", ".join(file.members)
            raise Wrong("name", f"is {said.name!r}, which is not a party of the federation file; there are {there}")
        store = folder / said.store
        tls = tls_in(folder / said.certs, said.name).kept_in(store)
        models = None if said.models is None else folder / said.models
        data = {name: value for name, value in asdict(said.data).items() if value is not None}
        more = limits, said.metrics, said.listen, models, said.open_hours
        return cls(at, said.name, file, hub, store, folder / said.key, tls, said.approve, data, *more)

    def identity(self) -> bytes:
        """The private half of the signing key."""
        return read_key(self.key)

    @unquoted()
    def read_data(self) -> PartyData:
        """The party's table, read from where its file says."""
        source = str(self.data["source"])
        labels = self.data.get("labels")
        if "://" not in source:
            source = str(self.path.parent / source)
        table = read_table(source, self.data.get("query"), self.federation_file, self.name)
        y = None
        if isinstance(table, tuple):  # a file of rows with their labels
            table, y = table
        if labels is not None:
            y = _read_array(self.path.parent / str(labels))
        return PartyData(self.federation_file, self.name, table, y, self.models)

    def service(self, approve: Approve, neighbours: Neighbours | None = None) -> PartyService:
        data = self.read_data()
        data.check_usable()
        return PartyService(data, self.store, self.identity(), approve, neighbours)

    def inbox(self, describe: Callable[[Request], str] = repr) -> Inbox:
        """The questions to its operator."""
        return Inbox(self.store, self.open_hours, describe)

    def passes_or(self, ask: Approve) -> Approve:
        """What [limits] let pass passes; about all else somebody is asked."""
        return lambda asked: self.limits.objection(asked) is None or ask(asked)

    def neighbours(self, metrics: Metrics) -> Neighbours:
        """The lines to other parties, where the federation file has addresses."""
        return Neighbours(self.federation_file, self.name, self.tls, listen=self.listen, metrics=metrics)


def _limits(raw: Mapping[str, Any]) -> Limits:
    limits: Limits = read(raw, Limits, "limits")
    known = sorted([*known_methods(), MaskedScores.__name__])
    if strange := [name for name in limits.methods if name not in known]:
        raise Wrong("limits.methods", f"names {strange[0]!r}, which is no method; there are {', '.join(known)}")
    return limits


def read_table(source: str, query: str | None, file: FederationFile, name: str) -> Any:
    """A frame from a file or a database; a plain matrix from .npy, or from .npz as scipy saves a sparse one.

    Of a frame the columns that the federation file names for this party, read as its schema declares them: as in one
    process.
    """
    from scipy import sparse

    from colonnade.data.sources import matrices, read, table_at

    if source.endswith(".npy"):
        return _read_array(Path(source))
    if source.endswith(".npz"):
        try:
            return sparse.load_npz(source)
        except Exception as error:  # whatever unpacking ends in
            # Its message may quote an entry.
            raise InvalidInput(f"{source} is no sparse matrix ({type(error).__name__}). Save it with scipy.") from None
    if name not in file.members:
        return read(source, query=query)
    if file.on is None:
        public = file.members[name].width if matrices.kind_of(Path(source)) in matrices.TEXT else None
        return read(source, query=query, columns=public)
    table = table_at(source, query=query)
    schema = file.members[name].schema
    texts = {file.on, *([file.unit.name] if file.people == name else [])}
    named = {*texts, *(column.name for column in (schema.columns if schema else ()))}
    named |= {file.label[1]} if file.label[0] == name else set()
    wanted = [column for column in table.names() if column in named]  # what is absent is said by PartyData
    return table.frame(wanted, schema, texts)


def _read_array(path: Path) -> NDArray[Any]:
    try:
        return np.array(np.lib.format.open_memmap(path, mode="r"))  # never unpickles
    except Exception as error:  # whatever parsing its head ends in
        # Its message may quote what stands in the file.
        raise InvalidInput(f"{path} is no array ({type(error).__name__}). Save it with numpy.save.") from None


def read_key(path: Path, maker: str = "`colonnade party key`") -> bytes:
    """The private half of a signing key."""
    body = read_bytes(path, LARGEST_KEY, f"{maker} makes a key.")
    try:
        raw = bytes.fromhex(body.decode("ascii").strip())
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise InvalidInput(f"{path} is not a signing key; {maker} makes one.")
    return raw


def write_key(path: Path) -> str:
    """A new signing key, readable by its owner alone; its public half as the federation file writes it."""
    from colonnade.data.federation_file import new_key

    public, private = new_key()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidInput(f"{path} exists. A party keeps its key; name another file for another party.") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}. Name a place that is writable.") from error
    with os.fdopen(descriptor, "w") as file:
        file.write(private.hex() + "\n")
    return public
