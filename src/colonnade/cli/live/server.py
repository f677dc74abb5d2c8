"""The server of the live view: the standard library's, on the loopback address, read-only.

Who may read   whoever knows the token, which is random and part of every address. A page of another site cannot guess
               it; a name that points at this machine is refused by its Host header, a script's request by its Origin.
What is served fixed routes. No part of an address becomes part of a path: a run is looked up in the journal.
"""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from colonnade.cli.live.page import error_page, index_page, run_page
from colonnade.cli.live.reading import NotReadable, Reader
from colonnade.errors import ColonnadeError, InvalidInput
from colonnade.runs.result import load
from colonnade.views.fit_facts import RunFacts
from colonnade.views.page import POLICY, render_report
from colonnade.views.parts import style

ADDRESS = "127.0.0.1"
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HTML, CSS, SCRIPT = (f"text/{kind}; charset=utf-8" for kind in ("html", "css", "javascript"))
Answer = tuple[HTTPStatus, str, str, str]  # status, kind, policy, text


class Server:
    """`with Server("runs") as server:` serves from a thread of its own; `serve()` serves from this one until Ctrl-C."""

    def __init__(self, store: str | Path, port: int = 0) -> None:
        self.reader = Reader(store)
        self.token = secrets.token_urlsafe(24)
        handler = type("Handler", (_Handler,), {"ours": self})
        try:
            self._http = _Http((ADDRESS, port), handler)
        except OSError as error:
            why = f"cannot listen on port {port}: {error.strerror}"
            raise InvalidInput(f"{why}. Choose another with --port, or leave it out.") from error
        self.port = int(self._http.server_address[1])
        self.url = f"http://{ADDRESS}:{self.port}/{self.token}/"
        self._thread: threading.Thread | None = None

    def serve(self) -> None:
        """Serve until Ctrl-C."""
        try:
            self._http.serve_forever()
        except KeyboardInterrupt:
            pass  # the way to stop it
        finally:
            self._http.server_close()

    def __enter__(self) -> Server:
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        if self._thread is not None:
            self._thread.join()

    # -------------------------------------------------------------------------------- answers

    def answer(self, host: str | None, origin: str | None, path: str) -> Answer:
        """What a request gets; it is refused in the same words whatever was wrong with it."""
        hosts = {f"{ADDRESS}:{self.port}", f"localhost:{self.port}"}
        if host not in hosts or (origin is not None and origin != f"http://{host}"):
            return _refused(HTTPStatus.FORBIDDEN)
        token, slash, rest = path.partition("?")[0].removeprefix("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode(), self.token.encode()):
            return _refused(HTTPStatus.NOT_FOUND)
        up = "../" * rest.count("/")
        try:
            return self._page(rest)
        except NotReadable as error:
            title, words, status = "The store cannot be read now", f"{error} Try again in a moment.", 503
        except ColonnadeError as error:  # such as a damaged fit: its text names the file and what to do
            title, words, status = "This cannot be shown", str(error), 500
        return HTTPStatus(status), HTML, PAGE_POLICY, error_page(title, words, up)

    def _page(self, rest: str) -> Answer:
        kind, _, name = rest.partition("/")
        match kind, name:
            case "", "":
                reader = self.reader
                text = index_page(reader.folder.name or "store", reader.runs(), reader.ledgers(), reader.messages())
                return HTTPStatus.OK, HTML, PAGE_POLICY, text
            case "style.css", "":
                return HTTPStatus.OK, CSS, PAGE_POLICY, style()
            case "live.js", "":
                text = (files("colonnade.cli.live") / "live.js").read_text(encoding="utf-8")
                return HTTPStatus.OK, SCRIPT, PAGE_POLICY, text
            case (("run" | "report"), name) if (run := self.reader.run(name)) is not None:
                if kind == "run":
                    text = run_page(run, self.reader.left(name), self.reader.messages(name))
                    return HTTPStatus.OK, HTML, PAGE_POLICY, text
                if (path := self.reader.fit_file(name)) is not None:
                    fit = load(path)
                    known = RunFacts.of(fit) if fit.facts.get("settings") else self.reader.facts(run)
                    return HTTPStatus.OK, HTML, POLICY, render_report(fit, facts=known)
        return _refused(HTTPStatus.NOT_FOUND)


def _refused(status: HTTPStatus) -> Answer:
    text = error_page("Nothing here", "Open the address that colonnade ui printed, with its token.", "")
    return status, HTML, PAGE_POLICY, text


class _Http(ThreadingHTTPServer):
    """A request in flight does not keep the process alive."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is nothing to tell about."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Reads the head of a request, and writes an answer with the headers that keep it to itself."""

    ours: ClassVar[Server]
    protocol_version = "HTTP/1.0"  # one request a connection: none outlives the server
    server_version, sys_version = "colonnade", ""
    timeout = 15  # seconds for a request to arrive

    def do_GET(self) -> None:
        status, kind, policy, text = self.ours.answer(self.headers["Host"], self.headers["Origin"], self.path)
        body = text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815  the name that the base class looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Nothing: an address holds the token."""
