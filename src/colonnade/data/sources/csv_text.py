"""CSV as it is found: how a file is written, its records as blocks of bytes, and what the cells of a column are.

Form     encoding, what stands between cells, and decimal mark, read off the first bytes. Commas, UTF-8 and decimal
         points are the rule. A byte order mark says UTF-16. A header of one name by commas and of several by semicolons
         or tabs is cut by those. In such a file a decimal comma is taken for one only where it cannot stand between
         thousands: 0,5 or 12,75, and never 1,234; and where no cell has a decimal point.
Records  in UTF-8, as many as fit into a block of bytes at a time, each with its line. A quote opens a cell where the
         cell begins, and only there: 5" is a text of two letters. Blocks in which every quote stands where the rule
         wants it are cut by counting quotes; others are read by Python's own reader, and written anew. Empty lines are
         no records.
Types    of a column: whole numbers, truth values, dates, times, numbers or text, whichever is first of those that all
         cells can be read as. A cell is missing if it is empty; in all but text also NA, N/A, NaN, null and their like.

Records are not left to polars, which converts the cells: its reader fills a row that is too short with gaps and says
nothing, says of one that is too long no line, makes a row of gaps of an empty line, refuses 5" in the middle of a cell,
and reads no UTF-16. A party is told the line of a row that is not like the others, and loses none.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

HEAD = 1 << 18  # bytes to look at
SEPARATORS = (",", ";", "\t")
WITH_POINT = re.compile(r"[+-]?\d+\.\d+")
WITH_COMMA = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0\d*,\d+|\d{4,},\d+)")


class CsvForm(NamedTuple):
    """What a reader has to be told."""

    encoding: str = "utf-8-sig"
    separator: str = ","
    decimal: str = "."


def form_of(path: Path) -> CsvForm:
    """The form of a file; letters that its encoding does not have are left to whoever reads it."""
    with path.open("rb") as raw:
        head = raw.read(HEAD)
    encoding = "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    lines = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head).splitlines()
    if len(head) == HEAD:
        lines = lines[:-1]  # it may be cut
    widths = {mark: len(next(csv.reader(lines[:1], delimiter=mark), [])) for mark in SEPARATORS}
    separator = max(SEPARATORS, key=widths.__getitem__) if widths[","] < 2 else ","
    if separator == ",":
        return CsvForm(encoding)
    cells = [cell.strip() for row in csv.reader(lines[1:], delimiter=separator) for cell in row]
    commas = any(map(WITH_COMMA.fullmatch, cells)) and not any(map(WITH_POINT.fullmatch, cells))
    return CsvForm(encoding, separator, "," if commas else ".")


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
        # Letters that are none are left to first_foreign, which knows their cell.
        if form.encoding == "utf-8-sig":
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
    # Bytes taken out up to the end of each record.
    moved = np.cumsum(np.where(empty, sizes + 1, 0))
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
    # The last one may go on in what is not read yet.
    whole = len(rows) if last else max(len(rows) - 1, 0)
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


NULLS = ["NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NULL", "null"]
NANS = ["NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]
MISSING = ["", *NULLS, *NANS]
TRUE = ("1", "true", "True", "TRUE")
FALSE = ("0", "false", "False", "FALSE")
LED_BY_ZEROS = r"^\s*[+-]?0[0-9]"
NANOSECONDS = datetime(1677, 9, 21, 0, 12, 44), datetime(2262, 4, 11, 23, 47, 15)  # the seconds that 64 bits count
FIRST = 8  # cells that are tried before all others
MOMENT = r"^(\d{4}-\d\d-\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(\.\d{1,9})?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$"

Read = Callable[["pl.Series"], "pl.Series"]  # cells as values, null where a cell is none


def converted(cells: pl.Series, dtype: Any, decimal: str = ".") -> tuple[pl.Series, pl.Series]:
    """The cells as values of the type, and which of them are neither missing nor such a value."""
    import polars as pl

    if dtype == pl.String:
        return cells.replace("", None), pl.repeat(False, cells.len(), eager=True)
    if dtype == pl.Null:
        return pl.Series(cells.name, [None] * cells.len(), dtype=pl.Null), cells.is_not_null() & ~cells.is_in(MISSING)
    there = cells.set(cells.is_in(MISSING), None)
    values = _readers(decimal)[dtype](there)
    return values, values.is_null() & there.is_not_null()


class Guess:
    """The types that every cell so far can be read as, the best first."""

    def __init__(self, decimal: str = ".") -> None:
        self.decimal = decimal
        self.open = [*_readers(decimal)]
        self.seen = self.zeros = False

    @property
    def settled(self) -> bool:
        """Whether no further cell can change the type: it is text."""
        return not self.open

    def look(self, cells: pl.Series) -> None:
        there = cells.filter(cells.is_not_null() & ~cells.is_in(MISSING))
        if there.is_empty():
            return
        self.seen = True
        self.open = [dtype for dtype in self.open if self._all(there.head(FIRST), dtype) and self._all(there, dtype)]
        self.zeros = self.zeros or bool(there.str.contains(LED_BY_ZEROS).any())

    def dtype(self) -> Any:
        """The type; "007" is the name of something and 7 is another one, so whole numbers led by zeros are text."""
        import polars as pl

        if not self.seen:
            return pl.Null
        best = self.open[0] if self.open else pl.String
        return pl.String if best == pl.Int64 and self.zeros else best

    def _all(self, cells: pl.Series, dtype: Any) -> bool:
        return _readers(self.decimal)[dtype](cells).null_count() == 0


@cache
def _readers(decimal: str) -> dict[Any, Read]:
    import polars as pl

    return {
        pl.Int64: _whole,
        pl.Boolean: _truth,
        pl.Date: lambda cells: _trimmed(cells, r"^\d{4}-\d\d-\d\d$").str.to_date("%Y-%m-%d", strict=False),
        pl.Time: _time,
        pl.Datetime("ms"): lambda cells: _moment(cells, "ms", fraction=False, zone=False),
        pl.Datetime("ns"): lambda cells: _moment(cells, "ns", fraction=True, zone=False),
        pl.Datetime("ms", "UTC"): lambda cells: _moment(cells, "ms", fraction=False, zone=True),
        pl.Datetime("ns", "UTC"): lambda cells: _moment(cells, "ns", fraction=True, zone=True),
        pl.Float64: lambda cells: _number(cells, decimal),
    }


def _trimmed(cells: pl.Series, form: str) -> pl.Series:
    """The cells without blanks around them, null where they have not the form."""
    bare = cells.str.strip_chars(" \t")
    return bare.set(~bare.str.contains(form), None)


def _whole(cells: pl.Series) -> pl.Series:
    import polars as pl

    return _trimmed(cells, r"^-?\d+$").cast(pl.Int64, strict=False)


def _number(cells: pl.Series, decimal: str) -> pl.Series:
    import polars as pl

    if decimal != ".":
        cells = cells.set(cells.str.contains(".", literal=True), None).str.replace(decimal, ".", literal=True)
    return cells.str.strip_chars(" \t").cast(pl.Float64, strict=False)


def _truth(cells: pl.Series) -> pl.Series:
    import polars as pl

    yes = cells.is_in(TRUE)
    no = cells.is_in(FALSE)
    return yes.set(~(yes | no), None) if cells.len() else pl.Series(cells.name, [], dtype=pl.Boolean)


def _time(cells: pl.Series) -> pl.Series:
    bare = _trimmed(cells, r"^\d\d:\d\d(:\d\d)?$")
    return bare.str.replace(r"^(\d\d:\d\d)$", "${1}:00").str.to_time("%H:%M:%S", strict=False)


def _moment(cells: pl.Series, unit: Any, *, fraction: bool, zone: bool) -> pl.Series:
    """Dates with a time of day, and days in a column of such; all with a zone, or none."""
    import polars as pl

    frame = cells.to_frame("cell").select(pl.col("cell").str.extract_groups(MOMENT))
    day, hour, minute, second, part, offset = (pl.col("cell").struct[k] for k in range(6))
    filled = pl.concat_str(
        day, pl.lit(" "), hour.fill_null("00"), pl.lit(":"), minute.fill_null("00"), pl.lit(":"), second.fill_null("00")
    )
    moment = filled.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit=unit, strict=False)
    if fraction:
        digits = part.str.slice(1).str.pad_end(9, "0").cast(pl.Int64, strict=False).fill_null(0)
        moment = moment + pl.duration(nanoseconds=digits, time_unit="ns")
    fits = part.is_null() | pl.lit(fraction)
    # 64 bits of them reach 292 years from 1970; polars would wrap round.
    if unit == "ns":
        fits &= filled.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False).is_between(*NANOSECONDS)
    if zone:
        bare = offset.str.replace_all(r"[Z:+-]", "").str.pad_end(4, "0").cast(pl.Int64, strict=False)
        minutes = (bare // 100 * 60 + bare % 100) * pl.when(offset.str.starts_with("-")).then(-1).otherwise(1)
        moment = (moment - pl.duration(minutes=minutes, time_unit=unit)).dt.replace_time_zone("UTC")
        fits = fits & offset.is_not_null()
    else:
        fits = fits & offset.is_null()
    return frame.select(pl.when(fits).then(moment).alias(cells.name)).to_series()
