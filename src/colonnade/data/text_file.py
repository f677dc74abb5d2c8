"""Files that people write and read: errors that help and point to a line, and cells that no spreadsheet computes."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colonnade.errors import InvalidInput
from colonnade.fields import Wrong, without_password

LARGEST = 1 << 26  # bytes of a text that people write
LARGEST_KEY = 1 << 20  # of keys, certificates and lists of them
# What parsers of texts raise beside errors of their own: numbers of too many digits, tables in tables without end.
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)


def read_bytes(path: str | Path, most: int = LARGEST, advice: str = "Check the path.") -> bytes:
    """All of a regular file of bounded size: a device or a pipe may never end, or never begin."""
    try:
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "a device, a pipe or a socket"
            raise InvalidInput(f"cannot read {shortened(path)}: it is {what} and no file. {advice}")
        if found.st_size > most:
            size = f"{found.st_size:,} bytes, and may have {most:,} at most"
            raise InvalidInput(f"cannot read {shortened(path)}: it has {size}. Is it the right file?")
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {shortened(path)}: {error.strerror}. {advice}") from error
    except ValueError as error:  # a path with a zero in it
        raise error if isinstance(error, InvalidInput) else InvalidInput(f"{path!r} is no path. {advice}") from error


def read_text(path: str | Path, most: int = LARGEST, advice: str = "Check the path.") -> str:
    try:
        return read_bytes(path, most, advice).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not a text file (byte {error.start} is not UTF-8).") from error


def shortened(path: str | Path) -> str:
    """A path as it stands in a message; one that is longer than any system takes, its ends."""
    text = str(path)
    return text if len(text) <= 400 else f"{text[:60]}...{text[-60:]}"


def parse_toml(text: str, path: str | Path) -> dict[str, Any]:
    """The tables of a text that stands at `path`."""
    with naming(f"{path} is not a TOML file"):
        return toml_of(text)


def toml_of(text: str) -> dict[str, Any]:
    """The tables of a text; InvalidInput with the line where it is none."""
    try:
        return tomllib.loads(text)
    except UNREADABLE as error:
        why = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise InvalidInput(f"{why}. Correct it there.") from error


def fields_in(text: str, form: str) -> dict[str, Any]:
    """The fields of a JSON file of ours of version 1, without format and version."""
    try:
        raw = json.loads(text)
    except UNREADABLE as error:
        raise InvalidInput("it is no JSON") from error
    found = (raw.pop("format", None), raw.pop("version", None)) if isinstance(raw, dict) else ()
    if found != (form, 1) or type(found[1]) is not int:
        raise InvalidInput(f"it is no {form} of version 1")
    return dict(raw)


@contextmanager
def naming(where: object) -> Iterator[None]:
    """Say where a mistake is."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


@contextmanager
def placed(path: str | Path, text: str) -> Iterator[None]:
    """A mistake is one at a line of the text, where it names its place."""
    try:
        yield
    except Wrong as wrong:
        if not wrong.place:
            raise InvalidInput(f"{path}: {wrong}") from wrong
        where = from_table(text, wrong.place, wrong.table) if wrong.table else text
        raise at_line(path, where, wrong.place, wrong.what) from wrong
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def at_line(path: str | Path, text: str, place: str, what: str, mark: str = "") -> InvalidInput:
    """An error that points to the line of `place`, written as table.key.key."""
    words = [word for word in re.split(r"[.\[\]]", place) if word]
    number = 0
    lines = text.splitlines()
    for word in words:
        quoted = re.escape(word)
        pattern = re.compile(rf'^\s*\[+\s*(?:[\w."-]+\.)?"?{quoted}"?\s*\]|(?:^|[\s{{,.])"?{quoted}"?\s*=')
        number = next((at for at in range(number, len(lines)) if pattern.search(lines[at])), number)
    shown = lines[number].strip() if lines else ""
    return InvalidInput(f"{path}, line {number + 1} ({without_password(shown)[:60]}): {place}{mark} {what}")


def from_table(text: str, place: str, table: int) -> str:
    """The text of the file with everything blanked that comes before a table of a list."""
    words = place.split(".")
    head = r"\s*\.\s*".join(rf'"?{re.escape(word)}"?' for word in words[: words.index("column") + 1])
    starts = [found.start() for found in re.finditer(rf"(?m)^\s*\[\[\s*{head}\s*\]\]", text)]
    if table >= len(starts):
        return text
    return re.sub(r"[^\n]", " ", text[: starts[table]]) + text[starts[table] :]


def safe_cell(value: Any) -> Any:
    """What a spreadsheet shows and does not compute: text that would begin a formula gets an apostrophe before it."""
    risky = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\0"))
    return f"'{value}" if risky else value
