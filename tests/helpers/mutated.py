"""Files that are damaged in every way that seeds choose: bytes, pages, values in texts and databases, and what is no file."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

LONG = "x" * 5000
TOML = ["0", "-1", "1e400", "nan", "-inf", "inf", "9" * 5000, "9" * 25, "true", '""', '"x"', "[]", "{}", "1970-01-01"]
TOML += [f'"{LONG}"', '"/dev/zero"', '"\\u0000"', "[[1]]", "1.5", "-0.0", "[nan]", '"\U0001f600"', '"../.."', '"."']
JSON = ["0", "-1", "1e400", "NaN", "-Infinity", "9" * 5000, "9" * 25, "true", '""', '"x"', "[]", "{}", "null", "[[1]]"]
JSON += [f'"{LONG}"', '"/dev/zero"', '"\\u0000"', "1.5", "[NaN]", "[null]", '{"a": 1}', "[" * 3000 + "]" * 3000]
CELLS = [0, -1, 2**62, 1.5, "text", "", b"", b"\0" * 70, None, "\0", b"\1" + b"f" * 64, b"{}", float("inf"), "9" * 400]
VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\b\d[\d.eE+-]*\b|\btrue\b|\bfalse\b|\bnull\b')


def mutate(path: Path, seed: object) -> str:
    """Damage the file at a path; how, in words."""
    draw = random.Random(repr(seed))
    if draw.random() < 0.04:
        return no_file(path, draw)
    body = path.read_bytes()
    if body[:6] == b"SQLite" and draw.random() < 0.6:
        return in_database(path, draw)
    if path.suffix in (".toml", ".json") and draw.random() < 0.7:
        text = in_text(body.decode(), draw, TOML if path.suffix == ".toml" else JSON)
        path.write_bytes(text.encode())
        return "a value"
    how = draw.choice(["flip", "cut", "page", "insert", "twice", "random", "line"])
    path.write_bytes(in_bytes(body, how, draw))
    return how


def no_file(path: Path, draw: random.Random) -> str:
    how = draw.choice(["empty", "folder", "pipe", "zero", "loop", "gone"])
    path.unlink()
    if how == "empty":
        path.touch()
    elif how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    elif how in ("zero", "loop"):
        path.symlink_to("/dev/zero" if how == "zero" else path)
    return how


def in_bytes(body: bytes, how: str, draw: random.Random) -> bytes:
    at = draw.randrange(len(body) or 1)
    if how == "flip":
        out = bytearray(body)
        for _ in range(draw.choice([1, 1, 2, 8])):
            out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
        return bytes(out)
    if how == "page":
        at -= at % 512
        return body[:at] + bytes(len(body[at : at + draw.choice([16, 512, 4096])])) + body[at + 4096 :]
    if how == "insert":
        return body[:at] + draw.randbytes(draw.choice([1, 3, 64])) + body[at:]
    if how == "line":
        lines = body.split(b"\n")
        lines.pop(draw.randrange(len(lines)))
        return b"\n".join(lines)
    return {"cut": body[:at], "twice": body[:at] + body, "random": draw.randbytes(at)}[how]


def in_text(text: str, draw: random.Random, values: list[str]) -> str:
    """Another value at some places; a file of ours gets the check-sum of what it holds then."""
    head, mark, body = text.partition("\n")
    sealed = '"sha256"' in head
    for _ in range(draw.choice([1, 1, 1, 2])):
        found = list(VALUE.finditer(body if sealed else text))
        if not found:
            break
        place, new = draw.choice(found), draw.choice(values)
        whole = body if sealed else text
        whole = whole[: place.start()] + new + whole[place.end() :]
        body, text = (whole, text) if sealed else (body, whole)
    if not sealed:
        return text
    header = json.loads(head) | {"sha256": hashlib.sha256(body.encode()).hexdigest()}
    return json.dumps(header) + mark + body


def in_database(path: Path, draw: random.Random) -> str:
    with closing(sqlite3.connect(path)) as base:
        tables = [name for (name,) in base.execute("select name from sqlite_master where type = 'table'")]
        table = draw.choice(tables)
        column = draw.choice([row[1] for row in base.execute(f"pragma table_info('{table}')")])
        try:
            base.execute(f'update or ignore "{table}" set "{column}" = ?', (draw.choice(CELLS),))
        except sqlite3.Error:
            base.execute(f'delete from "{table}"')
        base.commit()
    return f"{table}.{column}"


def put_back(path: Path, body: bytes) -> None:
    """As it was, without what SQLite keeps beside it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    for one in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        one.unlink(missing_ok=True)
    path.write_bytes(body)
    path.chmod(0o600)
