"""The live view: a page on this machine over a store, for looking only: runs, budgets, messages as they leave, reports.

Never    a value: of a message's body only the first bytes are read, which say its kind and round; no secret is read.
Safe     it listens on the loopback address alone, wants a random token in the address, refuses foreign Host and Origin
         headers, loads nothing from elsewhere, and opens every file of the store for reading only.
Who may read   whoever knows the token. A page of another site cannot guess it; a name that points at this machine is
               refused by its Host header, a script's request by its Origin.
What is served fixed routes. No part of an address becomes part of a path: a run is looked up in the journal.
Bounds         those of every page (network/page_server.py).
Pages          whole HTML that reads without a script, which only fetches it again.

The store is read as it stands now, without touching it while other processes write.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import math
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from colonnade.errors import ColonnadeError, InvalidInput, StoreError
from colonnade.methods import load_all
from colonnade.network.status_page import check_extra
from colonnade.privacy.accountant import epsilon, less_taken
from colonnade.privacy.events import Ending, Event, Policy, kind_of, shown
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog, check_format
from colonnade.privacy.tally import Reserved
from colonnade.runs.budgets import DELTA, Account, account_of, last_policy
from colonnade.runs.result import load
from colonnade.runtime.node import LOOK, header_and_length
from colonnade.runtime.program import BY_CODE, COORDINATOR
from colonnade.runtime.run_store import node_name
from colonnade.views import parts
from colonnade.views.officer import render_officer
from colonnade.views.page import render_report
from colonnade.views.parts import POLICY, Section, paragraph, piece, table
from colonnade.views.verdict import chip

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

NEWEST = 50  # runs on the page
TAIL = 40  # messages on the page
PATIENCE = 10.0  # a sum over a ledger is made again after so many times what it took
_RUN_ID = re.compile(r"[A-Za-z0-9-]{1,80}")
_BEGUN = "select run, substr(body, 2) from log where kind = 'begin' order by seq desc limit ?"
_OUT = f"select run, tick, key, substr(body, 1, {1 + LOOK}), length(body) from log where kind = 'out'"  # noqa: S608  a number
_ROUND = (
    "select substr(body, 10, 8) from log where run = ? and kind = 'in' and tick <= ? and substr(body, 1, 1) = x'00' "
    "order by tick desc limit 1"
)


@dataclass(frozen=True)
class Run:
    """One run as the store knows it."""

    name: str
    began: str
    state: str
    method: str = ""
    trust: str = ""
    unit: str = ""
    settings: str = ""
    protocol: str = ""
    epsilon: float | None = None  # None: no ledger here knows the run; infinite: exact values leave
    round: int = 0
    rounds: int | None = None  # at most, where the settings say so
    reported: bool = False


@dataclass(frozen=True)
class Message:
    """What left a data holder once; never what was in it."""

    run: str
    sender: str
    receiver: str
    kind: str
    size: int | None  # None: more than the transcript keeps
    round: int


class ReadingLog(FileLog):
    """A FileLog that is opened for reading only, so that a Ledger can sum it up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._blobs = path.parent / "blobs"
        self._depth = 0
        self._db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0, check_same_thread=False)
        try:
            check_format(path, self.stored_format())
        except BaseException:
            self._db.close()
            raise

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._db.execute(query, values).fetchall()


class Reader:
    """One store, looked at again and again."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        if not (self.folder / "runs.db").is_file():
            raise InvalidInput(f"{folder} is not a store: it has no runs.db. Name the folder that was given as store=.")
        self._sums: dict[str, tuple[int, float, float, Account]] = {}  # by party: rows, when, how long, what
        # Messages of any method may be in the store.
        load_all()

    # -------------------------------------------------------------------------------- runs

    def runs(self) -> list[Run]:
        """The newest runs, the last one first."""
        with self._looking(self.folder / "runs.db") as journal:
            begun = journal.ask(_BEGUN, NEWEST)
            ended = {
                run: Ending.of(json.loads(row.body)["how"]) for run, _ in begun for row in journal.rows(run, "end")
            }
        with contextlib.ExitStack() as files:
            nodes = {name: files.enter_context(self._looking(path)) for name, path in self._nodes().items()}
            held = _locked_files()
            return [self._run(run, bytes(when).decode(), ended.get(run), held, nodes) for run, when in begun]

    def run(self, name: str) -> Run | None:
        return next((run for run in self.runs() if run.name == name), None)

    def _run(
        self, name: str, began: str, ending: Ending | None, held: set[int] | None, nodes: dict[str, ReadingLog]
    ) -> Run:
        openings = {node: json.loads(row.body) for node, log in nodes.items() for row in log.rows(name, "open")}
        state = ending.words if ending is not None else self._going(name, held)
        if not openings:
            return Run(name, began, state)
        terms = next(iter(openings.values()))["terms"]
        delta = re.search(r"Privacy\(epsilon=[^,]+, delta=([^,)]+)", terms["settings"])
        rounds = re.search(r"\brounds=(\d+)", terms["settings"])
        reserved = [Reserved.of(opened) for opened in openings.values()]
        price = max(one.rho for one in reserved)
        taken = max(one.delta for one in reserved)
        return Run(
            name,
            began,
            state,
            **{fact: terms[fact] for fact in ("method", "trust", "unit", "settings", "protocol")},
            epsilon=epsilon(price, less_taken(float(delta.group(1)) if delta else DELTA, taken)),
            round=max((_round(log, name) for log in nodes.values()), default=0),
            rounds=int(rounds.group(1)) if rounds else None,
            reported=self.fit_file(name) is not None,
        )

    def _going(self, name: str, held: set[int] | None) -> str:
        try:
            driven = held is not None and (self.folder / "locks" / f"{name}.lock").stat().st_ino in held
        except OSError:
            driven = False
        return "running" if driven else "not ended: interrupted, or driven from elsewhere"

    def fit_file(self, name: str) -> Path | None:
        """The saved fit of a run. A name that somebody else chose must not lead out of the folder."""
        path = self.folder / "fits" / f"{name}.json"
        return path if _RUN_ID.fullmatch(name) and path.is_file() else None

    def left(self, name: str) -> list[tuple[str, str, str, int, float, float]]:
        """What left each data holder in a run: how it looked, what it was for, how often, and its price: rho, delta."""
        found: dict[tuple[str, str, str], list[Event]] = {}
        for party, path in self._holders().items():
            with self._looking(path) as log:
                for entry in Ledger(log, party, Policy()).entries(name):
                    found.setdefault((party, kind_of(entry.event), entry.what), []).append(entry.event)
        return [
            (*key, len(events), math.fsum(one.rho for one in events), math.fsum(one.delta for one in events))
            for key, events in found.items()
        ]

    # -------------------------------------------------------------------------------- messages

    def messages(self, run: str | None = None) -> list[Message]:
        """The last messages that left data holders, the newest first: of one run, or of all."""
        found = []
        for party, path in self._holders().items():
            with self._looking(path) as log:
                newest = f"{_OUT} order by seq desc limit ?", TAIL
                own = f"{_OUT} and run = ? order by tick desc limit ?", run, TAIL
                rows = log.ask(*newest) if run is None else log.ask(*own)
                for name, tick, receiver, start, length in rows:
                    kind, size = _kind(bytes(start), length)
                    number = _round(log, name, tick)
                    # Run ids begin with the time, so that their order is the order of runs.
                    found.append(((name, number, tick), Message(name, party, receiver, kind, size, number)))
        found.sort(key=lambda pair: pair[0], reverse=True)
        return [message for _, message in found[:TAIL]]

    # -------------------------------------------------------------------------------- budgets

    def ledgers(self) -> list[Account]:
        """Every data holder's budget. The chains are not checked here: `colonnade budget show` does that."""
        return [self._ledger(party, path) for party, path in self._holders().items()]

    def _ledger(self, party: str, path: Path) -> Account:
        with self._looking(path) as log:
            count = log.length()
            now = time.monotonic()
            known = self._sums.get(party)
            if known and (known[0] == count or now - known[1] < PATIENCE * known[2]):
                return known[3]
            account = account_of(Ledger(log, party, last_policy(log)))
        self._sums[party] = (count, now, time.monotonic() - now, account)
        return account

    # -------------------------------------------------------------------------------- files

    def _nodes(self) -> dict[str, Path]:
        files = sorted((self.folder / "nodes").glob("*.db"))
        return {node_name(path.stem): path for path in files if path.stat().st_size}  # an empty one is just being made

    def _holders(self) -> dict[str, Path]:
        return {node: path for node, path in self._nodes().items() if node != COORDINATOR}

    @contextlib.contextmanager
    def _looking(self, path: Path) -> Iterator[ReadingLog]:
        try:
            with contextlib.closing(ReadingLog(path)) as log:
                yield log
        except (sqlite3.DatabaseError, StoreError, KeyError, ValueError) as error:
            raise NotReadable(f"{path.name} cannot be read now: {type(error).__name__}.") from error


class NotReadable(ColonnadeError):
    """A file of the store is being made, is locked, or is damaged: the next look may find it whole."""


def _round(log: ReadingLog, run: str, tick: int = 1 << 62) -> int:
    """The newest round that a node had been told of by a step."""
    found = log.ask(_ROUND, run, tick)
    return int.from_bytes(bytes(found[0][0]), "little") if found else 0


def _kind(start: bytes, length: int) -> tuple[str, int | None]:
    """Kind and size of a message, from the first bytes of its row: a mark, the wire's version, the kind's number."""
    said = header_and_length(start[1:], length - 1) if start[:1] == b"\0" else None
    if said is None:
        return "large message", None
    head, size = said
    shape = BY_CODE.get(int.from_bytes(head[1:3], "little"))
    return (shape.cls.__name__ if shape else "unknown"), size


def _locked_files() -> set[int] | None:
    """Inodes of locked files; None where the system does not say. To try a lock would take it for a moment, and a run
    that is just being resumed would find it taken."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    places = [place for line in lines if " FLOCK " in line for place in line.split() if place.count(":") == 2]
    return {int(place.rsplit(":", 1)[1]) for place in places}


ADDRESS = "127.0.0.1"
UNKNOWN = "not known here"
CELLS = "live_parts.html"
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
KEPT_TO_ITSELF = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
HTML, CSS, SCRIPT = (f"text/{kind}; charset=utf-8" for kind in ("html", "css", "javascript"))
Answer = tuple[HTTPStatus, str, str, str]  # status, kind, policy, text


class Server:
    """The pages of one store, on one port."""

    def __init__(self, store: str | Path, port: int = 0) -> None:
        check_extra()
        from colonnade.network.page_server import PageServer

        self.reader = Reader(store)
        self.token = secrets.token_urlsafe(24)
        try:
            self.http = PageServer(self._app(), port, ADDRESS)
        except OSError as error:
            why = f"cannot listen on port {port}: {error.strerror}"
            raise InvalidInput(f"{why}. Choose another with --port, or leave it out.") from error
        self.port = self.http.port
        self.url = f"http://{ADDRESS}:{self.port}/{self.token}/"

    def serve(self) -> None:
        """Serve until Ctrl-C."""
        self.http.serve()

    def _app(self) -> Starlette:
        from starlette.routing import Route

        from colonnade.network.page_server import make_app

        def get(request: Request) -> Response:
            host, origin = (request.headers.get(name) for name in ("host", "origin"))
            return _response(self.answer(host, origin, request.scope["raw_path"].decode("ascii", "replace")))

        def only_reading(request: Request) -> Response | None:
            return None if request.method in ("GET", "HEAD") else _response(_refused(HTTPStatus.NOT_IMPLEMENTED))

        return make_app([Route("/{rest:path}", get)], only_reading, secret=True)

    # -------------------------------------------------------------------------------- answers

    def answer(self, host: str | None, origin: str | None, path: str) -> Answer:
        """What a request gets; it is refused in the same words whatever was wrong with it."""
        hosts = {f"{ADDRESS}:{self.port}", f"localhost:{self.port}"}
        if host not in hosts or (origin is not None and origin != f"http://{host}"):
            return _refused(HTTPStatus.FORBIDDEN)
        token, slash, rest = path.removeprefix("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode(), self.token.encode()):
            return _refused(HTTPStatus.NOT_FOUND)
        up = "../" * rest.count("/")
        try:
            return self._page(rest)
        except NotReadable as error:
            title = "The store cannot be read now"
            words = f"{error} Try again in a moment."
            status = 503
        except ColonnadeError as error:
            # Such as a damaged fit: its text names the file and what to do.
            title = "This cannot be shown"
            words = str(error)
            status = 500
        return HTTPStatus(status), HTML, PAGE_POLICY, error_page(title, words, up)

    def _page(self, rest: str) -> Answer:
        kind, _, name = rest.partition("/")
        match kind, name:
            case "", "":
                reader = self.reader
                text = index_page(reader.folder.name or "store", reader.runs(), reader.ledgers(), reader.messages())
                return HTTPStatus.OK, HTML, PAGE_POLICY, text
            case "style.css", "":
                return HTTPStatus.OK, CSS, PAGE_POLICY, parts.style()
            case "live.js", "":
                text = (files("colonnade.cli.live") / "live.js").read_text(encoding="utf-8")
                return HTTPStatus.OK, SCRIPT, PAGE_POLICY, text
            case (("run" | "report" | "officer"), name) if (run := self.reader.run(name)) is not None:
                if kind == "run":
                    text = run_page(run, self.reader.left(name), self.reader.messages(name))
                    return HTTPStatus.OK, HTML, PAGE_POLICY, text
                if (path := self.reader.fit_file(name)) is not None:
                    fit = load(path)
                    if kind == "officer":
                        lines = [one.cells() for one in self.reader.ledgers()]
                        return HTTPStatus.OK, HTML, POLICY, render_officer(fit, budgets=lines)
                    return HTTPStatus.OK, HTML, POLICY, render_report(fit)
        return _refused(HTTPStatus.NOT_FOUND)


def _refused(status: HTTPStatus) -> Answer:
    text = error_page("Nothing here", "Open the address that colonnade ui printed, with its token.", "")
    return status, HTML, PAGE_POLICY, text


def _response(answer: Answer) -> Response:
    from starlette.responses import Response

    status, kind, policy, text = answer
    return Response(text, status, {**KEPT_TO_ITSELF, "Content-Security-Policy": policy}, kind)


# ------------------------------------------------------------------------------------------------ pages


def index_page(folder: str, runs: Sequence[Run], ledgers: Sequence[Account], messages: Sequence[Message]) -> str:
    running = sum(run.state == "running" for run in runs)
    left = ("messages", "Messages that left", _messages(messages, with_run=True))
    sections = [("runs", "Runs", _runs(runs)), ("budgets", "Budgets", _ledgers(ledgers)), left]
    return _whole(f"Store “{folder}”", f"{parts.count_noun(len(runs), 'run')}, {running:,} running", sections, "")


def _price(rho: float, delta: float) -> str:
    return f"{parts.number(rho)} and delta {parts.number(delta)}" if delta else parts.number(rho)


def run_page(run: Run, left: Sequence[tuple[str, str, str, int, float, float]], messages: Sequence[Message]) -> str:
    known = {"method": run.method, "trust model": run.trust, "unit": run.unit}
    known |= {"settings and privacy terms": run.settings, "protocol": run.protocol}
    terms = {"state": run.state, "began": _time(run), **{name: fact or UNKNOWN for name, fact in known.items()}}
    figures = {"state": run.state, "epsilon reserved": _epsilon(run), "round": _progress(run)}
    rows = [(party, chip(kind), what, f"{times:,}", _price(*price)) for party, kind, what, times, *price in left]
    released = table(
        "What left, how it looked, and for what", ("party", "as", "what", "times", "price (rho)"), rows, numbers=2
    )
    sections = [
        ("run", "The run", parts.cards(figures) + _links(run, "../")),
        ("left", "What left", released if rows else paragraph("Nothing has left a data holder of this store.")),
        ("terms", "Terms", parts.facts("What the parties agreed on", terms)),
        ("messages", "Messages that left", _messages(messages, with_run=False)),
    ]
    return _whole(f"Run {run.name}", f"{run.state}, round {run.round:,}", sections, "../")


def error_page(title: str, words: str, up: str) -> str:
    return _whole(title, "", [("what", "What happened", paragraph(words))], up, live=False)


def _runs(runs: Sequence[Run]) -> str:
    if not runs:
        return paragraph("No run has begun in this store.")
    rows = []
    for run in runs:
        figures = (_progress(run), _epsilon(run), _links(run, "") or "none yet")
        rows.append((piece("run_link", run.name, of=CELLS), run.state, *figures, run.method or UNKNOWN, _time(run)))
    heads = ("run", "state", "round", "epsilon", "report", "method", "began")
    return table(f"The newest {parts.count_noun(len(runs), 'run')}, the last one first", heads, rows)


def _links(run: Run, up: str) -> str:
    """The pages about a finished run."""
    return piece("pages", run.name, up, of=CELLS) if run.reported else ""


def _ledgers(ledgers: Sequence[Account]) -> str:
    if not ledgers:
        return paragraph("No data holder has a ledger in this store.")
    lines = []
    for one in ledgers:
        line = one.cells()
        lines.append({**line, "left of the limit": _with_bar(line["left of the limit"], one)})
    bounds = "“Unbounded” means that exact values have left, so that no epsilon holds."
    chains = "The figures are those of colonnade budget show, which also checks the chains of the ledgers."
    return parts.budget_table(lines) + paragraph(f"{bounds} {chains}", "soft")


def _with_bar(words: str, account: Account) -> str:
    """What is left of a limit, with a bar where there is one."""
    if account.budget.epsilon is None:
        return words
    return piece("bar", words, f"{account.share:.4f}", 1, f"left of the limit of {account.party}", of=CELLS)


def _messages(messages: Sequence[Message], *, with_run: bool) -> str:
    if not messages:
        return paragraph("No message has left a data holder of this store.")
    heads = ("sender", "receiver", "message", "round", "size", *(("run",) if with_run else ()))
    rows = []
    for one in messages:
        size = "over 1 MiB" if one.size is None else parts.human_bytes(one.size)
        rows.append((one.sender, one.receiver, one.kind, f"{one.round:,}", size, *((one.run,) if with_run else ())))
    return table(f"The last {parts.count_noun(len(rows), 'message')}, the newest first", heads, rows)


def _epsilon(run: Run) -> str:
    if run.epsilon is None:
        return UNKNOWN
    return "no bound" if math.isinf(run.epsilon) else shown(run.epsilon)


def _progress(run: Run) -> str:
    """The round that the run has reached, with a bar while it goes on."""
    text = f"{run.round:,}" + (f" of at most {run.rounds:,}" if run.rounds is not None else "")
    if run.rounds is None or run.state != "running":
        return text
    return piece("bar", text, run.round, run.rounds, f"rounds of run {run.name}", of=CELLS)


def _time(run: Run) -> str:
    return run.began.replace("T", " ").replace("+00:00", " UTC")


def _whole(title: str, summary: str, sections: Sequence[Section], up: str, *, live: bool = True) -> str:
    return parts.render("live.html", title=title, summary=summary, sections=sections, up=up, is_live=live)
