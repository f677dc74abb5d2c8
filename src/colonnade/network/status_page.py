"""A page about a service that lives long: `/health`, `/ready`, `/metrics`, and what else the service answers by POST.

    page = StatusPage(9464)
    page.gauge("colonnade_jobs", "Jobs, by state.", queue.counts, label="state")
    page.needs("the hub listens", hub.listening)
    page.post("/score", answer)
    with page:
        ...

It listens on 127.0.0.1 unless it is told otherwise: what a metric shows (who is there, how far a run is, what is left
of a budget) is for the operator of this machine. With a TLS context that demands certificates it may listen elsewhere,
and a peer is whoever its certificate names, by the same rule as on all lines (certs.py), unless that was revoked. Pages
that a browser on this machine has open are no programs of its operator: what they send says from where it comes, or to
whom it believes to speak, and is refused. Metrics are counts, sizes and fixed words; never give it a value of anybody's
data.

Everything is bounded, in all and from one address: requests that arrive, and requests that are being answered; the
seconds that one may take to arrive, and its bytes. Above a bound the answer is 503: where requests arrive the slowest
makes room for the newest, so that those who dawdle keep nobody out, and /health is answered however many others wait.
A connection carries one request.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from cryptography import x509

from colonnade.errors import InvalidInput
from colonnade.network.certs import RevocationList, dns_names, uri_names

ARRIVAL = 10.0  # seconds for a request to arrive, the handshake included
CONNECTIONS, A_SOURCE = 64, 16
LARGEST = 1 << 20  # bytes of a body

_LOOPBACK = ("127.0.0.1", "localhost")
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
_PLAIN = "text/plain; charset=utf-8"

log = logging.getLogger("colonnade.network.status_page")


class Asked(NamedTuple):
    """A request by POST: who sent it (the name in its certificate, else its address), and its body."""

    peer: str
    body: bytes


class Answered(NamedTuple):
    """What goes back."""

    status: int
    body: bytes
    kind: str = "application/json"


Route = Callable[[Asked], Answered]
Samples = Callable[[], float | Mapping[str, float]]  # one number; or one for each value of the label


class StatusPage:
    """A small HTTP server, for as long as its context lasts; `port` is the one it took."""

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        tls: ssl.SSLContext | None = None,
        revoked: RevocationList | None = None,
    ) -> None:
        if tls is None and host not in _LOOPBACK:
            raise InvalidInput(f"a page on {host} without TLS would answer anybody. Listen on 127.0.0.1, or use TLS.")
        if tls is not None and tls.verify_mode is not ssl.CERT_REQUIRED:
            raise InvalidInput("a page under TLS knows peers by their certificates: the context must demand them.")
        self.port, self.host, self.tls, self.revoked = port, host, tls, revoked
        self.refused: Counter[str] = Counter()
        self._texts: list[Callable[[], str]] = []
        self._needs: dict[str, Callable[[], bool]] = {}
        self.routes: dict[str, Route] = {}
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self.counter("colonnade_page_refused_total", "Requests that were refused.", lambda: self.refused, "reason")

    # ------------------------------------------------------------------------ what it shows

    def gauge(self, name: str, meaning: str, read: Samples, label: str = "") -> None:
        """Show a number that goes up and down; with a `label`, one for each of its values."""
        self._show("gauge", name, meaning, read, label)

    def counter(self, name: str, meaning: str, read: Samples, label: str = "") -> None:
        """Show a number that only grows: its name ends with _total."""
        self._show("counter", name, meaning, read, label)

    def _show(self, kind: str, name: str, meaning: str, read: Samples, label: str) -> None:
        if not _NAME.fullmatch(name) or (label and not _NAME.fullmatch(label)):
            raise InvalidInput(f"a metric {name!r} with label {label!r}: small letters, digits and _ only.")

        def text() -> str:
            found = read()
            samples: Mapping[str, float] = found if isinstance(found, Mapping) else {"": found}
            lines = [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            lines += [
                f'{name}{{{label}="{_escaped(value)}"}} {number:.17g}' if label else f"{name} {number:.17g}"
                for value, number in sorted(samples.items())
            ]
            return "\n".join(lines) + "\n"

        self._texts.append(text)

    def include(self, text: Callable[[], str]) -> None:
        """Show metrics that are written in the exposition format already, such as `Metrics.text`."""
        self._texts.append(text)

    def needs(self, what: str, met: Callable[[], bool]) -> None:
        """Ready is who meets every need; /ready names those that are not met, so name no party and no data."""
        self._needs[what] = met

    def post(self, path: str, route: Route) -> None:
        """Answer POST requests to a path."""
        self.routes[path] = route

    # ------------------------------------------------------------------------ while it listens

    def __enter__(self) -> Self:
        try:
            self._server = _Server((self.host, self.port), _Handler)
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on {self.host}:{self.port}: {error.strerror}. Name another port."
            ) from error
        self._server.page = self
        self.port = self._server.server_address[1]
        listen, often = self._server.serve_forever, {"poll_interval": 0.1}
        self._thread = threading.Thread(target=listen, kwargs=often, name="status-page", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        assert self._thread is not None
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def metrics(self) -> str:
        return "".join(text() for text in self._texts)

    def unmet(self) -> list[str]:
        return [what for what, met in self._needs.items() if not met()]

    def answer(self, path: str) -> Answered:
        """What GET gives."""
        if path == "/metrics":
            return Answered(200, self.metrics().encode(), _EXPOSITION)
        if path == "/health":
            return Answered(200, b"alive\n", _PLAIN)
        if path == "/ready":
            unmet = self.unmet()
            return Answered(503 if unmet else 200, ("; ".join(unmet) or "ready").encode() + b"\n", _PLAIN)
        paths = ", ".join(["/health", "/ready", "/metrics", *(f"POST {path}" for path in self.routes)])
        return Answered(404, f"there are {paths}\n".encode(), _PLAIN)


@contextlib.contextmanager
def page(text: Callable[[], str], ready: Callable[[], bool], port: int = 0) -> Iterator[int]:
    """A page about one stream, or all of a hub: its metrics, and whether it is connected; gives the port.

    A process that waits for the others is alive and not ready: restarting it would help nobody.
    """
    made = StatusPage(port)
    made.include(text)
    made.needs("not connected", ready)
    with made:
        yield made.port


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class _Server(ThreadingHTTPServer):
    """Threads for few connections, each closed when its request has not arrived in time."""

    daemon_threads = True
    request_queue_size = 512  # a crowd may knock at once; nobody waits for a second knock
    block_on_close = False  # a peer that reads slowly must not hold up who stops the service
    page: StatusPage

    def __init__(self, *arguments: Any) -> None:
        self.arriving: dict[socket.socket, tuple[str, float]] = {}  # from where, since when
        self.answered: Counter[str] = Counter()  # requests that are being answered, by where they come from
        self.bound = threading.Lock()
        super().__init__(*arguments)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take every connection; where there are too many, the one that has been sending for longest has to go."""
        source = client_address[0]
        with self.bound:
            arriving = Counter(where for where, _ in self.arriving.values())
            if arriving[source] >= A_SOURCE:
                self._turn_away(source)
            elif arriving.total() >= CONNECTIONS:
                self._turn_away(arriving.most_common(1)[0][0])
            self.arriving[request] = source, time.monotonic()
        return True

    def _turn_away(self, source: str) -> None:
        """End the slowest request from there: its thread reads no more of it, and answers 503."""
        theirs = {one: since for one, (where, since) in self.arriving.items() if where == source}
        slowest = min(theirs, key=lambda one: theirs[one])
        del self.arriving[slowest]
        self.page.refused["connections"] += 1
        with contextlib.suppress(OSError):
            socket.socket.shutdown(slowest, socket.SHUT_RD)

    def arrived(self, connection: Any) -> bool:
        """A request is here; false where it was turned away before."""
        with self.bound:
            return self.arriving.pop(connection, None) is not None

    @contextlib.contextmanager
    def answering(self, source: str) -> Iterator[bool]:
        """A place among the requests that are being answered; false where there is none."""
        with self.bound:
            free = self.answered.total() < CONNECTIONS and self.answered[source] < A_SOURCE
            if free:
                self.answered[source] += 1
            else:
                self.page.refused["connections"] += 1
        try:
            yield free
        finally:
            with self.bound:
                self.answered[source] -= free
                self.answered += Counter()  # drops those at 0

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        secured = request
        try:
            request.settimeout(ARRIVAL)
            if self.page.tls is not None:
                secured = self._secured(request, self.page.tls)
                secured.do_handshake()
            self.finish_request(secured, client_address)
        except (OSError, ValueError):  # it hung up, was too slow, or speaks no TLS: no event of ours
            self.page.refused["connection"] += 1
        finally:
            self.arrived(secured)
            self.shutdown_request(secured)

    def _secured(self, request: Any, tls: ssl.SSLContext) -> ssl.SSLSocket:
        """The connection under TLS, which takes its place among those that arrive."""
        with self.bound:
            if request not in self.arriving:
                raise ConnectionAbortedError
            made = tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            self.arriving[made] = self.arriving.pop(request)
            return made

    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # there is no thread for it
            self.arrived(request)
            raise

    def service_actions(self) -> None:
        """One byte now and then keeps no connection: the whole request has its time."""
        with self.bound:
            late = [one for one, (_, since) in self.arriving.items() if time.monotonic() - since > ARRIVAL]
        for one in late:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)  # an SSLSocket's own would forget its state


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    server_version, sys_version = "colonnade", ""
    raw_requestline = b""
    wbufsize, disable_nagle_algorithm = -1, True  # head and body of an answer leave together, at once

    def handle_one_request(self) -> None:
        super().handle_one_request()
        if not self.raw_requestline and not self.server.arrived(self.connection):
            self._busy()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """No sense in half a request is no fault of who was told to stop in the middle of it."""
        if self.server.arrived(self.connection):
            super().send_error(code, message, explain)
        else:
            self._busy()

    def do_GET(self) -> None:
        if not self.server.arrived(self.connection):
            self._busy()
        elif self._may_ask():
            if self.path == "/health":
                self._reply(self.server.page.answer(self.path))
            else:
                self._answer(lambda: self.server.page.answer(self.path))

    def do_POST(self) -> None:
        if not self._may_ask():
            return
        route = self.server.page.routes.get(self.path)
        if route is None:
            self._refuse("path", Answered(404, self.server.page.answer("").body, _PLAIN))
            return
        size = self.headers.get("Content-Length", "")
        if not (size.isascii() and size.isdigit() and len(size) < 16):
            self._refuse("length", Answered(411, b"say the Content-Length\n", _PLAIN))
            return
        if int(size) > LARGEST:
            self._refuse("size", Answered(413, f"a body has at most {LARGEST:,} bytes\n".encode(), _PLAIN))
            return
        body = self.rfile.read(int(size))
        if not self.server.arrived(self.connection):
            self._busy()
        elif len(body) == int(size):
            self._answer(lambda: route(Asked(self._peer(), body)))

    def _answer(self, answer: Callable[[], Answered]) -> None:
        """Answer where there is a place. The text of an error may carry data: the log has its kind."""
        with self.server.answering(self.client_address[0]) as free:
            if not free:
                self._busy()
                return
            try:
                found = answer()
            except Exception as error:  # a store that is locked just now, say
                log.warning("not answered", extra={"path": self.path, "error": type(error).__name__})
                found = Answered(500, b"this failed; the log says why\n", _PLAIN)
            self._reply(found)

    def _busy(self) -> None:
        """503: too many at once."""
        self.requestline, self.request_version = "", "HTTP/1.0"  # of half a request neither may be known
        self._reply(Answered(503, b"too many requests at once; try again in a moment\n", _PLAIN))

    def _may_ask(self) -> bool:
        if self._is_foreign_page():
            self._refuse("origin", Answered(403, b"pages of a browser get no answer\n", _PLAIN))
            return False
        revoked, shown = self.server.page.revoked, self._certificate
        if revoked is not None and shown is not None and revoked.holds(shown.serial_number) is not False:
            self._refuse("revoked", Answered(403, b"revoked, or the list of the revoked cannot be read\n", _PLAIN))
            return False
        return True

    def _is_foreign_page(self) -> bool:
        """Whether a browser sent it for a page from elsewhere: it says so, or thinks that a name means this machine."""
        name = self.headers.get("Host", "").lower().rpartition(":")[0] or self.headers.get("Host", "").lower()
        is_elsewhere = self.server.page.tls is None and bool(name) and name not in _LOOPBACK
        return is_elsewhere or "Origin" in self.headers

    @cached_property
    def _certificate(self) -> x509.Certificate | None:
        shown = self.connection.getpeercert(binary_form=True) if isinstance(self.connection, ssl.SSLSocket) else None
        return None if shown is None else x509.load_der_x509_certificate(shown)

    def _peer(self) -> str:
        if self._certificate is None:
            return str(self.client_address[0])
        names = uri_names(self._certificate) or set(dns_names(self._certificate))
        return names.pop() if len(names) == 1 else ""  # who has several names is none of them

    def _refuse(self, reason: str, answer: Answered) -> None:
        self.server.page.refused[reason] += 1
        self._reply(answer)

    def _reply(self, answer: Answered) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Asking for the page is no event."""
