"""Structured logs on standard error: what happened, to which run, how often; never a value.

A log record carries an event's name, a fixed word or sentence, and apart from it (`extra=`) a few named figures. As
text: `12:00:00 reserved run=... method=...`; with `as_json` one object a line, for a collector.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

_USUAL = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class _Lines(logging.Formatter):
    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        own = [name for name in vars(record) if not (name in _USUAL or name.startswith("_"))]  # Ray marks with _
        figures: dict[str, Any] = {name: vars(record)[name] for name in own}
        if self.as_json:
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
            body = {"when": when, "level": record.levelname.lower(), "from": record.name, "event": record.getMessage()}
            return json.dumps({**body, **figures}, default=str)
        said = " ".join(f"{name}={_brief(value)}" for name, value in figures.items())
        return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()} {said}".rstrip()


def _brief(value: object) -> str:
    """As one line: what others say must not end it and begin another in our name."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)


def to_stderr(as_json: bool = False, quiet: bool = False) -> None:
    """Let colonnade's logs appear on standard error; `quiet`: warnings and errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(as_json))
    root = logging.getLogger("colonnade")
    root.handlers, root.propagate = [handler], False
    root.setLevel(logging.WARNING if quiet else logging.INFO)
