"""Pages under uvicorn, with bounds: it serves the page about a service and the live view.

    server = PageServer(make_app(routes, refuse), port=9464)
    with server:
        ...

Everything is bounded, in all and from one address: requests that arrive, and requests that are being answered; the
seconds that one may take to arrive, the handshake of TLS included, and those that its answer may take to be read. Where
too many arrive the slowest makes room for the newest and is told 503, so that those who dawdle keep nobody out. uvicorn
alone would refuse the newest, and counts nobody who is still at the handshake: hence the loop that accepts is here.

A connection carries one request. uvicorn's own log stays silent: it would have addresses and the text of errors.

The app of every page is starlette's routes behind one door:

Who      `refuse` looks at the head of a request first, and may answer it instead of a route.
Body     of a POST: its length is said in the head, at most LARGEST bytes, and all of it is here before its route is
         called. One that was cut off is given to nobody.
Place    a request that finds too many others being answered is told 503; one for a path of `always` needs no place.
Errors   their text may carry data: the answer is 500, and the log has their kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

LARGEST = 1 << 20  # bytes of a body
HEAD = 1 << 14  # of a request without its body
BUSY = "too many requests at once; try again in a moment\n"

Refuse = Callable[[Request], Response | None]
log = logging.getLogger("colonnade.network.page_server")


def make_app(
    routes: Sequence[Route],
    refuse: Refuse,
    *,
    always: Collection[str] = (),
    handlers: Mapping[Any, Any] | None = None,
    secret: bool = False,
) -> Starlette:
    """An app that answers these routes; `handlers` answer by status where no route does. `secret` addresses stay out of
    the log."""
    door = Middleware(_Door, refuse=refuse, always=always, secret=secret)
    app = Starlette(routes=routes, middleware=[door], exception_handlers=handlers)
    # An address is as it was told, or there is nothing.
    app.router.redirect_slashes = False
    return app


class _Door:
    """What every request passes on its way to a route."""

    def __init__(self, app: ASGIApp, refuse: Refuse, always: Collection[str], secret: bool) -> None:
        self.app = app
        self.secret = secret
        self.refuse = refuse
        self.always = always

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        visitor = scope["state"]["visitor"]  # the connection, as page_server.py has it
        answer: ASGIApp | None = _long_head(request) or self.refuse(request) or _wrong_length(request)
        if answer is None:
            body = await _body_of(request, receive)
            if body is None:
                visitor.hang_up()
                return
            scope["state"]["body"] = body
        if not visitor.arrived():
            return  # it was told 503 on its way here
        if answer is None:
            answer = self.app if scope["path"] in self.always or visitor.admit() else _busy
        try:
            await self._safely(answer, scope, receive, send)
        finally:
            visitor.answered()

    async def _safely(self, answer: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await answer(scope, receive, send)
        except Exception as error:  # a store that is locked just now, say
            where = {} if self.secret else {"path": scope["path"]}
            log.warning("not answered", extra={**where, "error": type(error).__name__})
            await PlainTextResponse("this failed; the log says why\n", 500)(scope, receive, send)


_busy = PlainTextResponse(BUSY, 503)


def _long_head(request: Request) -> Response | None:
    """The answer to a head that came at once, and is longer than one may be that comes in parts."""
    scope = request.scope
    said = len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(n) + len(v) for n, v in scope["headers"])
    most = f"a request has at most {HEAD:,} bytes before its body\n"
    return _refused(request, "head", most, 431) if said > HEAD else None


def _wrong_length(request: Request) -> Response | None:
    """The answer to a POST that does not say its length, or too large a one."""
    size = request.headers.get("content-length", "")
    if request.method != "POST":
        return None
    if not size.isdigit() or len(size) > 15:
        return _refused(request, "length", "say the Content-Length\n", 411)
    if int(size) > LARGEST:
        return _refused(request, "length", f"a body has at most {LARGEST:,} bytes\n", 413)
    return None


def _refused(request: Request, reason: str, said: str, status: int) -> Response:
    request.state.visitor.count_refused(reason)
    return PlainTextResponse(said, status)


async def _body_of(request: Request, receive: Receive) -> bytes | None:
    """All of a POST's body; None where it was cut off, or is longer than was said. Others have none."""
    found = bytearray()
    if request.method != "POST":
        return bytes(found)
    size = int(request.headers["content-length"])
    more = True
    while more and len(found) <= size:
        message = await receive()
        found += message.get("body", b"")
        # Nothing comes any more from whoever hung up.
        more = message.get("more_body", False)
    return bytes(found) if len(found) == size else None


ARRIVAL = 10.0  # seconds for a request to arrive, and for its answer to be read
CONNECTIONS = 64
A_SOURCE = 16
_KNOCKING = 512  # a crowd may knock at once; nobody waits for a second knock
_PARTING = 1  # seconds for answers that are under way when the server stops
_BUSY = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    f"Content-Length: {len(BUSY)}\r\nConnection: close\r\n\r\n{BUSY}"
).encode()


class Book:
    """Who is there. The event loop alone writes in it."""

    def __init__(self, refused: Counter[str]) -> None:
        self.refused = refused
        self.arriving: dict[Visitor, float] = {}  # since when
        # Those with a place, until they have gone and their route has ended: who hangs up leaves it at work.
        self.answering: set[Visitor] = set()
        self.reading: dict[Visitor, float] = {}  # since when the answer is all theirs

    def enter(self, visitor: Visitor) -> None:
        """Take every connection; where there are too many, the one that has been sending for longest has to go."""
        sources = Counter(one.source for one in self.arriving)
        if sources[visitor.source] >= A_SOURCE:
            self._turn_away(visitor.source)
        elif sources.total() >= CONNECTIONS:
            self._turn_away(sources.most_common(1)[0][0])
        self.arriving[visitor] = time.monotonic()

    def _turn_away(self, source: str) -> None:
        theirs = {one: since for one, since in self.arriving.items() if one.source == source}
        slowest = min(theirs, key=lambda one: theirs[one])
        del self.arriving[slowest]
        self.refused["connections"] += 1
        slowest.turn_away()

    def arrived(self, visitor: Visitor) -> bool:
        """A request is here; false where it was turned away before."""
        return self.arriving.pop(visitor, None) is not None

    def admit(self, visitor: Visitor) -> bool:
        """Give it a place among the requests that are being answered; false where there is none."""
        sources = Counter(one.source for one in self.answering)
        free = sources.total() < CONNECTIONS and sources[visitor.source] < A_SOURCE
        if free:
            self.answering.add(visitor)
        else:
            self.refused["connections"] += 1
        return free

    def leave(self, visitor: Visitor) -> None:
        self.arriving.pop(visitor, None)
        self.reading.pop(visitor, None)
        if not visitor.at_work:
            self.answering.discard(visitor)

    def late(self) -> list[Visitor]:
        """One byte now and then keeps no connection: the whole request has its time, and so has its answer."""
        now = time.monotonic()
        waiting = [*self.arriving.items(), *self.reading.items()]
        return [one for one, since in waiting if now - since > ARRIVAL]


class Visitor(H11Protocol):
    """One connection, as uvicorn reads it, with its place in the book."""

    def __init__(self, server: _Server, source: str) -> None:
        super().__init__(server.config, server.server_state, {"visitor": self}, asyncio.get_running_loop())
        self.source = source
        self.opening: asyncio.Task[None] | None = None
        self._book = server.book
        self._secured = server.tls is not None
        self.at_work = False  # a route makes its answer
        self._is_open = False
        self._is_over = False
        self._turned_away = False

    # ------------------------------------------------------------------------ what the book and the app do with it

    def turn_away(self) -> None:
        """Say 503, however little of the request is here."""
        self._turned_away = True
        if self._is_open:
            self._say_busy()
        elif self._secured and self.opening is not None:
            self.opening.cancel()  # nobody speaks HTTP with it yet

    def _say_busy(self) -> None:
        self._silence()
        self.transport.write(_BUSY)
        self.transport.close()

    def _silence(self) -> None:
        """The app, which may still wait for a body, answers nothing any more."""
        if self.cycle is not None:
            self.cycle.disconnected = True

    def hang_up(self) -> None:
        if self._is_open:
            self._silence()
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def arrived(self) -> bool:
        return self._book.arrived(self)

    def admit(self) -> bool:
        self.at_work = self._book.admit(self)
        return self.at_work

    def answered(self) -> None:
        """The answer is all theirs, to be read; or the place is free, where they have gone."""
        self.at_work = False
        if self._is_over:
            self._book.leave(self)
        else:
            self._book.reading[self] = time.monotonic()

    def count_refused(self, reason: str) -> None:
        self._book.refused[reason] += 1

    def certificate(self) -> bytes | None:
        """The certificate that was shown under TLS, in DER."""
        secured = self.transport.get_extra_info("ssl_object")
        return None if secured is None else secured.getpeercert(binary_form=True)

    # ------------------------------------------------------------------------ what asyncio and uvicorn call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._is_open = True
        if self._turned_away:
            self._say_busy()

    def data_received(self, data: bytes) -> None:
        if not self._turned_away:
            super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio keeps the connection where it is told True
        """Who has said all hears the answer still; half a request gets none. TLS knows no such half."""
        return self.cycle is not None and not self.cycle.more_body and not self._secured

    def send_400_response(self, msg: str) -> None:
        self.count_refused("request")
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._book.leave(self)
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """uvicorn's server, but for who is let in: it is given no socket of its own to accept at."""

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, tls: ssl.SSLContext | None, refused: Counter[str]
    ) -> None:
        super().__init__(config)
        self.tls = tls
        self.book = Book(refused)
        self._listener = listener
        self._accepting: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        current_default_thread_limiter().total_tokens = math.inf  # the book bounds who is being answered
        self._accepting = asyncio.create_task(self._accept())

    async def on_tick(self, counter: int) -> bool:
        for visitor in self.book.late():
            visitor.hang_up()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
        for visitor in list(self.book.arriving):
            visitor.hang_up()
        # They are gone before uvicorn looks for those that are left.
        await asyncio.sleep(0)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):  # who reads slowly holds up nobody
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError:
                # No descriptor is left, or whoever knocked has gone.
                await asyncio.sleep(0.1)
                continue
            visitor = Visitor(self, address[0])
            self.book.enter(visitor)
            visitor.opening = loop.create_task(self._open(connection, visitor))
            # A crowd that knocks keeps nobody waiting who is inside.
            await asyncio.sleep(0)

    async def _open(self, connection: socket.socket, visitor: Visitor) -> None:
        secured = self.tls is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: visitor,
                connection,
                ssl=self.tls,
                ssl_handshake_timeout=ARRIVAL if secured else None,
                ssl_shutdown_timeout=ARRIVAL if secured else None,  # what is not yet read waits behind the last words
            )
        except OSError:
            # It hung up, was too slow, or speaks no TLS: no event of ours.
            self.book.refused["connection"] += 1
            self.book.leave(visitor)
        except asyncio.CancelledError:
            self.book.leave(visitor)
            raise


class PageServer:
    """An app on a port, in a thread of its own, for as long as its context lasts. The port is taken at once."""

    def __init__(
        self,
        app: Starlette,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        tls: ssl.SSLContext | None = None,
        refused: Counter[str] | None = None,
    ) -> None:
        """tls  of this side, for peers that speak TLS
        refused  where those that were refused are counted.
        """
        self._listener = socket.create_server((host, port), backlog=_KNOCKING)
        self._listener.setblocking(False)
        self.host, self.port = self._listener.getsockname()[:2]
        config = uvicorn.Config(
            app,
            loop="asyncio",
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,  # an address is the connection's, never what a header says
            server_header=False,
            headers=[("connection", "close")],
            h11_max_incomplete_event_size=HEAD,
            timeout_graceful_shutdown=_PARTING,
        )
        self._server = _Server(config, self._listener, tls, refused if refused is not None else Counter())
        self.book = self._server.book
        self._thread = threading.Thread(target=self._server.run, args=([],), name="page-server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.001)
        if not self._server.started:
            self.close()
            raise OSError(f"the page could not be served at {self.host}:{self.port}")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self.close()

    def close(self) -> None:
        """Give the port back."""
        self._listener.close()

    def serve(self) -> None:
        """Serve until Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt), self:
            # To join the thread would take it for ended when a signal comes.
            threading.Event().wait()
