"""The app of every page: starlette's routes behind one door.

Who      `refuse` looks at the head of a request first, and may answer it instead of a route.
Body     of a POST: its length is said in the head, at most LARGEST bytes, and all of it is here before its route is
         called. One that was cut off is given to nobody.
Place    a request that finds too many others being answered is told 503; one for a path of `always` needs no place.
Errors   their text may carry data: the answer is 500, and the log has their kind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

LARGEST = 1 << 20  # bytes of a body
HEAD = 1 << 14  # of a request without its body
BUSY = "too many requests at once; try again in a moment\n"

Refuse = Callable[[Request], Response | None]
log = logging.getLogger("colonnade.network.page_app")


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
    app.router.redirect_slashes = False  # an address is as it was told, or there is nothing
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
        more = message.get("more_body", False)  # nothing comes any more from whoever hung up
    return bytes(found) if len(found) == size else None
