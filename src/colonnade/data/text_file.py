"""Files that people write and read: errors that help and point to a line, and cells that no spreadsheet computes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colonnade.errors import InvalidInput


def read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not a text file (byte {error.start} is not UTF-8).") from error


def parse_toml(text: str, path: str | Path) -> dict[str, Any]:
    """The tables of a text that stands at `path`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not a TOML file: {error}. Correct it there.") from error


@contextmanager
def naming(where: object) -> Iterator[None]:
    """Say where a mistake is."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def at_line(path: str | Path, text: str, place: str, what: str, mark: str = "") -> InvalidInput:
    """An error that points to the line of `place`, written as table.key.key."""
    words = [word for word in re.split(r"[.\[\]]", place) if word]
    number, lines = 0, text.splitlines()
    for word in words:
        quoted = re.escape(word)
        pattern = re.compile(rf'^\s*\[+\s*(?:[\w."-]+\.)?"?{quoted}"?\s*\]|(?:^|[\s{{,.])"?{quoted}"?\s*=')
        number = next((at for at in range(number, len(lines)) if pattern.search(lines[at])), number)
    shown = lines[number].strip() if lines else ""
    return InvalidInput(f"{path}, line {number + 1} ({shown[:60]}): {place}{mark} {what}")


def safe_cell(value: Any) -> Any:
    """What a spreadsheet shows and does not compute: text that would begin a formula gets an apostrophe before it."""
    risky = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\0"))
    return f"'{value}" if risky else value
