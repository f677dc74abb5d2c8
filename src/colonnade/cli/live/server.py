"""The server of the live view, on the loopback address, read-only; and its pages.

Who may read   whoever knows the token, which is random and part of every address. A page of another site cannot guess
               it; a name that points at this machine is refused by its Host header, a script's request by its Origin.
What is served fixed routes. No part of an address becomes part of a path: a run is looked up in the journal.
Bounds         those of every page (network/page_server.py).
Pages          whole HTML that reads without a script, which only fetches it again.
"""

from __future__ import annotations

import hmac
import math
import secrets
from collections.abc import Sequence
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.cli.live.reading import Message, NotReadable, Reader, Run
from colonnade.errors import ColonnadeError, InvalidInput
from colonnade.network.status_page import check_extra
from colonnade.privacy.events import shown
from colonnade.runs.budgets import Account
from colonnade.runs.result import load
from colonnade.views import parts
from colonnade.views.officer import render_officer
from colonnade.views.page import render_report
from colonnade.views.parts import POLICY, Section, paragraph, piece, table
from colonnade.views.verdict import chip

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

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

        from colonnade.network.page_app import make_app

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
        except ColonnadeError as error:  # such as a damaged fit: its text names the file and what to do
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
