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

page_server.py bounds what anybody may send. /health is answered however many others wait. It needs the
extra [serve].

A party's page shows beside its streams also runs, what is left of its budget, its ledger, questions that wait
(`PartyStatus`): for the operator of this machine, since what is left of a budget tells of past runs, and is no secret
of a row, but it is nobody's business outside. Counts and sums of the ledger only, and no figure of the table.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from cryptography import x509

from colonnade.errors import InvalidInput
from colonnade.network.certs import RevocationList, dns_names, uri_names
from colonnade.network.transport.metrics import exposition, family
from colonnade.privacy.accountant import epsilon
from colonnade.privacy.events import Policy
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.runtime.run_store import RunStore

if TYPE_CHECKING:
    from prometheus_client import Metric
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from colonnade.network.inbox import Inbox
    from colonnade.network.page_server import PageServer

_LOOPBACK = ("127.0.0.1", "localhost")
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
_PLAIN = "text/plain; charset=utf-8"


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
        check_extra()
        self.port = port
        self.host = host
        self.tls = tls
        self.revoked = revoked
        self.refused: Counter[str] = Counter()
        self._families: list[Callable[[], Iterable[Metric]]] = []
        self._needs: dict[str, Callable[[], bool]] = {}
        self.routes: dict[str, Route] = {}
        self._server: PageServer | None = None
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
        self.include(lambda: [family(kind, name, meaning, read(), label)])

    def include(self, families: Callable[[], Iterable[Metric]]) -> None:
        """Show metrics that are made elsewhere, such as `Metrics.families`."""
        self._families.append(families)

    def needs(self, what: str, met: Callable[[], bool]) -> None:
        """Ready is who meets every need; /ready names those that are not met, so name no party and no data."""
        self._needs[what] = met

    def post(self, path: str, route: Route) -> None:
        """Answer POST requests to a path."""
        self.routes[path] = route

    # ------------------------------------------------------------------------ while it listens

    def __enter__(self) -> Self:
        from colonnade.network.page_server import PageServer

        try:
            self._server = PageServer(self._app(), self.port, self.host, tls=self.tls, refused=self.refused)
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on {self.host}:{self.port}: {error.strerror}. Name another port."
            ) from error
        self.port = self._server.port
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.__exit__(*error)

    def metrics(self) -> str:
        return exposition(one for families in self._families for one in families())

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

    # ------------------------------------------------------------------------ as an app

    def _app(self) -> Starlette:
        from starlette.routing import Route as At

        from colonnade.network.page_server import make_app

        def get(request: Request) -> Response:
            return _response(self.answer(request.scope["path"]))

        def post(request: Request) -> Response:
            return _response(self.routes[request.scope["path"]](Asked(_peer(request), request.state.body)))

        # By the loop itself, which waits for no thread.
        async def alive(request: Request) -> Response:
            return get(request)

        async def nowhere(*_: object) -> Response:
            self.refused["path"] += 1
            return _response(self.answer(""))

        shown = [At("/health", alive), At("/ready", get), At("/metrics", get)]
        taken = [At(path, post, methods=["POST"]) for path in self.routes]
        return make_app([*shown, *taken], self._refuse, always=["/health"], handlers={404: nowhere, 405: nowhere})

    def _refuse(self, request: Request) -> Response | None:
        """The answer to whom nothing is told."""
        if self._is_foreign_page(request):
            self.refused["origin"] += 1
            return _response(Answered(403, b"pages of a browser get no answer\n", _PLAIN))
        shown = _certificate(request)
        if self.revoked is not None and shown is not None and self.revoked.holds(shown.serial_number) is not False:
            self.refused["revoked"] += 1
            return _response(Answered(403, b"revoked, or the list of the revoked cannot be read\n", _PLAIN))
        return None

    def _is_foreign_page(self, request: Request) -> bool:
        """Whether a browser sent it for a page from elsewhere: it says so, or thinks that a name means this machine."""
        host = request.headers.get("host", "").lower()
        name = host.rpartition(":")[0] or host
        is_elsewhere = self.tls is None and bool(name) and name not in _LOOPBACK
        return is_elsewhere or "origin" in request.headers


@contextlib.contextmanager
def page(families: Callable[[], Iterable[Metric]], ready: Callable[[], bool], port: int = 0) -> Iterator[int]:
    """A page about one stream, or all of a hub: its metrics, and whether it is connected; gives the port.

    A process that waits for the others is alive and not ready: restarting it would help nobody.
    """
    made = StatusPage(port)
    made.include(families)
    made.needs("not connected", ready)
    with made:
        yield made.port


def check_extra() -> None:
    """An error that says what to install, where the extra [serve] is not here."""
    try:
        import prometheus_client  # noqa: F401  whether it is there
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidInput(f"this page needs {error.name}. Try: pip install 'colonnade[serve]'") from error


def _certificate(request: Request) -> x509.Certificate | None:
    shown = request.state.visitor.certificate()
    return None if shown is None else x509.load_der_x509_certificate(shown)


def _peer(request: Request) -> str:
    shown = _certificate(request)
    if shown is None:
        return "" if request.client is None else request.client.host
    names = uri_names(shown) or set(dns_names(shown))
    return names.pop() if len(names) == 1 else ""  # who has several names is none of them


def _response(answer: Answered) -> Response:
    from starlette.responses import Response

    return Response(answer.body, answer.status, media_type=answer.kind)


FRESH = 5.0  # seconds for which what was read of a ledger is shown


class PartyStatus:
    """Reads the ledger of a party over a connection of its own, so that its answers are not held up."""

    def __init__(
        self, store: Path, name: str, policy: Policy, inbox: Inbox | None = None, identity: bytes | None = None
    ) -> None:
        """identity  the party's signing key: by its snapshot a long ledger is read in a moment."""
        self.path = RunStore.path_in(store, name)
        self.name = name
        self.policy = policy
        self.inbox = inbox
        self._identity = identity
        self._read: tuple[float, dict[str, float]] = (-FRESH, {})

    def show_on(self, page: StatusPage) -> None:
        for figure, meaning in (
            (
                "budget_epsilon_limit",
                "The most that runs may spend on a row in this period; left out where none is set.",
            ),
            ("budget_epsilon_left", "What is left of it, at its delta."),
            ("ledger_rows", "Rows of the ledger and its transcripts."),
            ("runs_open", "Runs that have reserved and are not over."),
        ):
            page.gauge(f"colonnade_{figure}", meaning, self._figure(figure), label="party")
        page.gauge("colonnade_ledger_bytes", "Size of the ledger and its transcripts.", lambda: size_of(self.path))
        if self.inbox is not None:
            page.gauge("colonnade_questions", "Questions to the operator.", self.inbox.counts, label="state")

    def _figure(self, figure: str) -> Callable[[], dict[str, float]]:
        return lambda: {self.name: found[figure]} if figure in (found := self.figures()) else {}

    def figures(self) -> dict[str, float]:
        """Read again only after some seconds: whoever asks for the page often must not keep the disk busy."""
        when, found = self._read
        if time.monotonic() - when < FRESH:
            return found
        with contextlib.closing(FileLog(self.path)) as log:
            ledger = Ledger(log, self.name, self.policy, identity=self._identity)
            budget = ledger.budget()
            found = {"ledger_rows": float(log.length()), "runs_open": float(len(ledger.open_runs()))}
        if budget.epsilon is not None and budget.delta is not None:
            left = epsilon(budget.left, budget.delta)
            found |= {"budget_epsilon_limit": budget.epsilon, "budget_epsilon_left": left}
        self._read = (time.monotonic(), found)
        return found


def size_of(database: Path) -> float:
    """Bytes of a SQLite file and of what it has not folded into it yet."""
    parts = (database, database.with_name(f"{database.name}-wal"))
    return float(sum(part.stat().st_size for part in parts if part.exists()))
