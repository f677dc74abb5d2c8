"""How a CSV file is written: its encoding, what stands between cells, and its decimal mark. Read off its first bytes.

Commas, UTF-8 and decimal points are the rule. A byte order mark says UTF-16. A header of one name by commas and of
several by semicolons or tabs is cut by those. In such a file a decimal comma is taken for one only where it cannot
stand between thousands: 0,5 or 12,75, and never 1,234; and where no cell has a decimal point.
"""

from __future__ import annotations

import codecs
import csv
import re
from pathlib import Path
from typing import NamedTuple

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
