"""The records of a CSV file, turned into UTF-8, as many as fit into a block of bytes at a time, each with its line.

A quote opens a cell where the cell begins, and only there: 5" is a text of two letters. Blocks in which every quote
stands where the rule wants it are cut by counting quotes; others are read by Python's own reader, and written anew.
Empty lines are no records.

This is not left to polars, which converts the cells (csv_types.py): its reader fills a row that is too short with gaps
and says nothing, says of one that is too long no line, makes a row of gaps of an empty line, refuses 5" in the middle
of a cell, and reads no UTF-16. A party is told the line of a row that is not like the others, and loses none.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colonnade.data.sources.csv_form import CsvForm
from colonnade.errors import InvalidInput

LONGEST = 16  # blocks: a record that is longer has a quote that nobody closed
NEWLINE, RETURN, QUOTE = b'\n\r"'
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Records:
    """Whole records, none of them empty: bytes, the places of their ends and separators, and their lines."""

    body: bytes
    ends: Places
    marks: Places  # what stands between cells
    lines: Places
    quoted: bool

    def cells(self) -> Places:
        """How many cells each record has."""
        return np.diff(np.searchsorted(self.marks, self.ends), prepend=0) + 1

    def cell_at(self, place: int) -> tuple[int, int]:
        """The record and the column of a byte."""
        record = int(np.searchsorted(self.ends, place))
        before = self.ends[record - 1] if record else -1
        return record, int(np.searchsorted(self.marks, place) - np.searchsorted(self.marks, before))

    def without_first(self) -> Records:
        """All but the header."""
        cut = int(self.ends[0]) + 1
        later = self.marks[self.marks >= cut] - cut
        return Records(self.body[cut:], self.ends[1:] - cut, later, self.lines[1:], self.quoted)


def header(path: Path, form: CsvForm) -> list[str]:
    """The names of the columns; a UnicodeDecodeError where they are in another encoding."""
    with path.open(newline="", encoding=form.encoding) as text:
        return next((row for row in csv.reader(text, delimiter=form.separator) if row), [])


def records(path: Path, form: CsvForm, block: int) -> Iterator[Records]:
    """The records below the header, in order."""
    first = True
    for found in _all_records(path, form, block):
        rows = found.without_first() if first else found
        first = False
        if rows.ends.size:
            yield rows


def _all_records(path: Path, form: CsvForm, block: int) -> Iterator[Records]:
    rest = b""
    line = 1
    for new, last in _bytes(path, form, block):
        data = rest + new
        if last and data and not data.endswith(b"\n"):
            data += b"\n"
        if NEWLINE not in data:  # lines that end as those of old Macs
            data = data.replace(b"\r", b"\n")
        found, rest = _cut(data, ord(form.separator), line, last)
        line += data.count(b"\n", 0, len(data) - len(rest))
        if len(rest) > LONGEST * block or (last and rest):
            what = f"{path.name}: the record that begins in line {line:,} has no end within {len(rest):,} bytes"
            raise InvalidInput(f"{what}. Is a quote left open there? Close it, or write a quote in a text twice.")
        if found.ends.size:
            yield found


def _bytes(path: Path, form: CsvForm, block: int) -> Iterator[tuple[bytes, bool]]:
    """The file in UTF-8 without its mark, block by block, and whether it ends."""
    with path.open("rb") as raw:
        if form.encoding == "utf-8-sig":  # letters that are none are left to first_foreign, which knows their cell
            if raw.read(3) != codecs.BOM_UTF8:
                raw.seek(0)
            while new := raw.read(block):
                yield new, False
            yield b"", True
            return
        decoder = codecs.getincrementaldecoder(form.encoding)()
        while new := raw.read(block):
            yield decoder.decode(new).encode(), False
        yield decoder.decode(b"", final=True).encode(), True


def _cut(data: bytes, mark: int, line: int, last: bool) -> tuple[Records, bytes]:
    """The records that end in the data, and what is left of it."""
    letters = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(letters == NEWLINE)
    quotes = np.flatnonzero(letters == QUOTE)
    ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    stop = int(ends[-1]) + 1 if ends.size else 0
    inner = quotes if not ends.size else quotes[quotes < stop]
    if not _regular(letters, inner, mark):
        return _read_anew(data, mark, line, last)
    marks = np.flatnonzero(letters[:stop] == mark)
    marks = marks[np.searchsorted(quotes, marks) % 2 == 0]
    starts = np.concatenate(([0], ends[:-1] + 1)) if ends.size else ends
    lines = line + np.searchsorted(newlines, starts)
    found = Records(data[:stop], ends, marks, lines, bool(inner.size))
    return _without_empty(found, letters, starts), data[stop:]


def _regular(letters: NDArray[np.uint8], quotes: Places, mark: int) -> bool:
    """Whether every quote opens a cell at its beginning, closes one at its end, or is one of two that mean a quote."""
    opening = quotes[0::2]
    closing = quotes[1::2]
    before = letters[opening[opening > 0] - 1]
    after = letters[closing[closing + 1 < letters.size] + 1]
    opens = np.isin(before, (mark, NEWLINE, RETURN, QUOTE)).all()
    return bool(opens and np.isin(after, (mark, NEWLINE, RETURN, QUOTE)).all())


def _without_empty(found: Records, letters: NDArray[np.uint8], starts: Places) -> Records:
    sizes = found.ends - starts
    empty = (sizes == 0) | ((sizes == 1) & (letters[starts] == RETURN))
    if not empty.any():
        return found
    body = letters[: len(found.body)][np.repeat(~empty, sizes + 1)].tobytes()
    moved = np.cumsum(np.where(empty, sizes + 1, 0))  # bytes taken out up to the end of each record
    marks = found.marks - moved[np.searchsorted(found.ends, found.marks)]
    return Records(body, (found.ends - moved)[~empty], marks, found.lines[~empty], found.quoted)


def _read_anew(data: bytes, mark: int, line: int, last: bool) -> tuple[Records, bytes]:
    """The same from data whose quotes do not all stand where they should."""
    physical = io.BytesIO(data).readlines()
    between = chr(mark)
    reader = csv.reader((text.decode("utf-8", "surrogateescape") for text in physical), delimiter=between)
    rows = []
    lines = []
    read = [0]
    for row in reader:
        rows.append(row)
        lines.append(line + read[-1])
        read.append(reader.line_num)
    whole = len(rows) if last else max(len(rows) - 1, 0)  # the last one may go on in what is not read yet
    kept = [k for k in range(whole) if rows[k]]
    written = io.StringIO()
    csv.writer(written, delimiter=between, lineterminator="\n").writerows(rows[k] for k in kept)
    body = written.getvalue().encode("utf-8", "surrogateescape")
    letters = np.frombuffer(body, np.uint8)
    newlines, quotes, marks = (np.flatnonzero(letters == letter) for letter in (NEWLINE, QUOTE, mark))
    ends, marks = (places[np.searchsorted(quotes, places) % 2 == 0] for places in (newlines, marks))
    placed = np.array([lines[k] for k in kept], dtype=np.int64)
    return Records(body, ends, marks, placed, bool(quotes.size)), b"".join(physical[read[whole] :])


def first_foreign(found: Records, wanted: Collection[int]) -> tuple[bytes, tuple[int, int] | None]:
    """The records with every byte that is not UTF-8 replaced, and the first such (record, column) that is wanted."""
    places: list[int] = []

    def note(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        places.append(error.start)
        return "?", error.end

    if found.body.isascii():
        return found.body, None
    codecs.register_error("colonnade-note", note)
    clean = found.body.decode("utf-8", "colonnade-note").encode()
    cells = (found.cell_at(place) for place in places)
    return clean, next((cell for cell in cells if cell[1] in wanted), None)


def ragged(found: Records, names: Sequence[str]) -> tuple[int, int] | None:
    """The line and the number of cells of the first record that has not as many as the header."""
    cells = found.cells()
    wrong = np.flatnonzero(cells != len(names))
    return (int(found.lines[wrong[0]]), int(cells[wrong[0]])) if wrong.size else None
