"""A party's schema: its columns in order, the bounds they prove, its rows as numbers, and the file it lives in.

    version = 1                     # of this form; may be left out
    source = "declared"             # "data": proposed from rows; a private run refuses it. "public": read off the rows
                                    # and declared public by their owner all the same, which statements repeat
    row_norm = 2.0                  # optional
    label = { type = "numeric", name = "log_income", low = 2.0, high = 6.0 }  # optional: the range of numeric labels

    [[column]]
    type = "numeric"                # or binary, categorical, plain, date
    name = "age"
    low = 0.0
    high = 120.0
    smooth = true                   # optional, as are values = 40 and monotone = 1: docs/use/curves.md

A mistake is reported with its line and key.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.schema import cells
from colonnade.data.schema.cells import Blocks, Gaps, Sparse, as_frame, assemble, columns_of, hats
from colonnade.data.schema.column import Column, Feature, features_of, kinds, number
from colonnade.data.schema.columns import Numeric, Plain
from colonnade.data.schema.infer import look
from colonnade.data.text_file import naming, placed, read_text, shortened, toml_of
from colonnade.errors import InvalidInput, StoreError, unquoted
from colonnade.fields import Choice, Table, check_names, check_version, inside, must, read
from colonnade.kernels.arrays import Floats

VERSION = 1
_LABEL = 'a table, as in label = { name = "log_income", low = 2.0, high = 6.0 }'


class Source(Choice):
    """Where the figures of a schema come from."""

    DECLARED = "declared"
    DATA = "data"  # they were read off the rows
    PUBLIC = "public"  # they were read off the rows, and somebody says that they are public


SourceField = Annotated[Source, must(f"one of {', '.join(map(repr, Source))}", "declared")]


class SchemaTable(Table, frozen=True):
    """A schema's file; what a column must be is said by its kind."""

    version: int = VERSION
    source: SourceField = Source.DECLARED
    row_norm: Any = None
    label: Annotated[dict[str, Any], must(_LABEL)] | None = None
    column: Annotated[list[dict[str, Any]], must("a list of tables: open each column with [[column]]")] | None = None


@dataclass(frozen=True)
class Encoded:
    """A party's table as numbers. Printing it shows its size only: the rest stays with the party."""

    matrix: Any  # scipy.sparse.csc_array with sorted indices, or a C-ordered array
    names: tuple[str, ...]
    unknown: Mapping[str, int] = field(repr=False)  # by categorical column: values outside its levels
    clipped: Mapping[str, int] = field(repr=False)  # by number and date: values outside its bounds

    def __repr__(self) -> str:
        return f"Encoded({self.matrix.shape[0]:,} rows x {self.matrix.shape[1]:,} columns)"

    def owner_notes(self) -> tuple[str, ...]:
        """What the data's owner should know, and nobody else: no price covers a count of the data."""
        unknown = "are none of the declared levels and count as zeros; add a level if they matter"
        clipped = "lie outside the declared bounds and were clipped to them; widen the bounds if they matter"
        notes = [(name, count, unknown) for name, count in self.unknown.items()]
        notes += [(name, count, clipped) for name, count in self.clipped.items()]
        rows = self.matrix.shape[0]
        return tuple(f"column {name!r}: {count:,} of {rows:,} values {what}" for name, count, what in notes if count)


@dataclass(frozen=True)
class Schema:
    """A party's columns in order, with what is public about them.

    Parameters
    ----------
    columns
        How each column becomes numbers: `co.Numeric`, `co.Categorical`, `co.Binary`, `co.Date` or `co.Plain`.
    row_norm
        A public L2 bound to which the party is willing to clip its encoded rows in a private run; None: what the
        columns prove. `encode` does not clip rows, and `row_bound()` does not rely on it.
    source
        Where bounds and levels come from: "declared" as known beforehand, "public" from a public table, or "data", read
        off the rows, which no private run takes.
    label
        The labels that this party holds, where they are numbers: a private regression clips them to its low and high.

    Examples
    --------
    >>> import colonnade as co
    >>> schema = co.Schema((co.Numeric("age", low=18, high=90, smooth=False), co.Categorical("ward", ("A", "B"))))
    >>> schema.features
    ('age', 'ward=A', 'ward=B')
    """

    columns: tuple[Column, ...]
    row_norm: float | None = None
    source: str = Source.DECLARED
    label: Numeric | None = None

    def __post_init__(self) -> None:
        if isinstance(self.columns, Column):
            raise InvalidInput(f"a schema takes a tuple of columns: co.Schema(({type(self.columns).__name__}(...),)).")
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.row_norm is not None:
            row_norm = number("row_norm", self.row_norm)
            if row_norm <= 0.0:
                raise InvalidInput(f"row_norm = {row_norm:g}. Write a public bound above 0, or leave it out.")
            object.__setattr__(self, "row_norm", row_norm)
        if self.label is not None and not isinstance(self.label, Numeric):
            raise InvalidInput(
                f"label={self.label!r}: give its name and range, as in label=co.Numeric('log_income', 2, 6)."
            )
        object.__setattr__(self, "source", read(self.source, SourceField, "source"))
        for names in ([column.name for column in self.columns], self.features if self.declared else ()):
            name, times = next(iter(Counter(names).most_common(1)), ("", 0))
            if times > 1:
                raise InvalidInput(f"the name {name!r} stands for {times} columns. Rename all but one.")

    @classmethod
    def raw(cls, names: Iterable[str]) -> Schema:
        """Plain columns: every value is kept exactly as it is.

        Parameters
        ----------
        names
            Of the columns, in order.
        """
        return cls(tuple(Plain(name) for name in names))

    @classmethod
    @unquoted()
    def infer(cls, frame: Any) -> Schema:
        """A schema read off a DataFrame, for runs without privacy.

        Its bounds and levels are facts about the rows, not public knowledge: `entry_bounds` and `row_bound` refuse. For
        a private run write it to a file, replace every figure by one you would publish, and set source = "declared".

        Parameters
        ----------
        frame
            A polars or pandas DataFrame.
        """
        return cls(tuple(seen.column() for seen in look([frame])), source=Source.DATA)

    @property
    def declared(self) -> bool:
        """Whether all figures of its columns and label are known; else a private run looks for them, at a price."""
        return all(column.declared for column in (*self.columns, *((self.label,) if self.label else ())))

    def stand_in(self) -> Schema:
        """The same with made-up figures where none were declared: what can be checked before a look, is checked so."""
        if self.declared:
            return self
        columns = tuple(column.stand_in() for column in self.columns)
        label = None if self.label is None or not self.label.declared else self.label
        return replace(self, columns=columns, label=label)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns: "distance", "carrier=UA", "carrier=missing", "admitted.month=3"."""
        return tuple(feature.name for feature in self._features())

    @property
    def width(self) -> int:
        """How many columns it encodes to."""
        return len(self._features())

    @property
    def nonnegative(self) -> NDArray[np.bool_]:
        """For each encoded column, whether it is at least 0 by its declaration."""
        return np.array([feature.nonnegative for feature in self._features()], dtype=np.bool_)

    @property
    def binary(self) -> NDArray[np.bool_]:
        """For each encoded column, whether it holds only 0 and 1."""
        return np.array([feature.binary for feature in self._features()], dtype=np.bool_)

    @property
    def level(self) -> tuple[int, ...]:
        """For each encoded column: its level among the hats of a curve, 0 for all others."""
        return tuple(feature.level for feature in self._features())

    @property
    def monotone(self) -> tuple[int, ...]:
        """For each encoded column: 1 or -1 where it is a number whose curve never falls or never rises; else 0."""
        found = [0] * self.width
        starts = np.cumsum([0, *(len(features_of(column)) for column in self.columns)]).tolist()
        for start, column in zip(starts, self.columns, strict=False):
            found[start : start + 1] = [column.monotone or 0]
        return tuple(found[: self.width])

    @property
    def auto_curve_counts(self) -> tuple[int, ...]:
        """How many columns a method may bend, to depth 1, 2 and so on."""
        own = [column.auto_curve_counts for column in self.columns if self.declared]
        return tuple(sum(depth >= k for depth in own) for k in range(1, max(own, default=0) + 1))

    def with_curve_depth(self, depth: int) -> Schema:
        """The schema with curves of this depth wherever that was left to the method.

        Parameters
        ----------
        depth
            How often a number's range is halved; 0: lines.
        """
        columns = tuple(column.with_curve_depth(depth) for column in self.columns)
        return self if columns == self.columns else replace(self, columns=columns)

    def as_lines(self) -> Schema:
        """The schema without any curve."""
        return replace(self, columns=tuple(column.as_line() for column in self.columns))

    def bend(self, matrix: Any, depth: int) -> Any:
        """Rows that this schema encoded, as `with_curve_depth(depth)` would have encoded them.

        Parameters
        ----------
        matrix
            The encoded rows.
        depth
            How often a number's range is halved.
        """
        found = list[Sparse]()
        height = matrix.shape[0]
        start = 0
        for column, other in zip(self.columns, self.with_curve_depth(depth).columns, strict=True):
            stop = start + len(features_of(column))
            own = [columns_of(matrix, j) for j in range(start, stop)]
            if other != column:
                numbers = np.zeros(height)
                numbers[own[0][0]] = own[0][1]
                gaps = own[1][0] if other.missing == Gaps.INDICATOR else np.zeros(0, np.int64)
                if (scaled := other.curve_scale(numbers)) is not numbers:
                    scaled[gaps] = 0.0
                    own[0] = cells.nonzeros(scaled)
                own[1:1] = hats(scaled, other.depth, gaps)
            found = found + own
            start = stop
        return assemble(found, height)

    @property
    def bounded(self) -> bool:
        """Whether every column has a declared bound, so that private methods can use it."""
        return self.declared and self.source != Source.DATA and all(column.bounded for column in self.columns)

    def entry_bounds(self) -> Floats:
        """For each encoded column, a public bound of its absolute value."""
        self._require_public_bounds()
        return np.array([feature.bound for feature in self._features()], dtype=np.float64)

    def row_bound(self) -> float:
        """The least public L2 bound of an encoded row that the columns prove by themselves."""
        self._require_public_bounds()
        # Of a group's encoded values at most one differs from zero: a level, the value, or its indicator; or they are a
        # number's with its hats, which are together no longer than the number at its bound (kernels/curves.py).
        bounds = [max(f.bound or 0.0 for f in group) for column in self.columns for group in column.groups()]
        total = sum((Fraction(bound) ** 2 for bound in bounds), Fraction(0))
        root = math.hypot(*bounds)
        # A bound that rounding has lowered is none.
        while Fraction(root) ** 2 < total:
            root = math.nextafter(root, math.inf)
        return root

    def check_types(self, kinds: Mapping[str, Any]) -> None:
        """Refuse a table by the types of its columns alone, whatever they hold.

        Parameters
        ----------
        kinds
            By column, its polars type.
        """
        for column in self.columns:
            if column.declared and not column.takes(kind := kinds[column.name]):
                what = f"it holds {kind}, and the schema expects {column.EXPECTS}"
                raise cells.wrong(column.name, f"{what}. Convert it, or declare another type.")

    def encode(self, frame: Any) -> Encoded:
        """The rows of a DataFrame as numbers; columns the schema does not name are ignored.

        Parameters
        ----------
        frame
            A polars or pandas DataFrame with every column that the schema names.
        """
        return self.encode_blocks([frame])

    @unquoted()
    def encode_blocks(self, frames: Iterable[Any]) -> Encoded:
        """The same for a table that comes in blocks of rows, of which one is held at a time.

        Parameters
        ----------
        frames
            The blocks, in order.
        """
        if waiting := [column.name for column in self.columns if not column.declared]:
            raise cells.wrong(waiting[0], "its figures are not declared, so nothing can be encoded. Write them first.")
        names = [column.name for column in self.columns]
        blocks = Blocks(self.width)
        outside = dict.fromkeys(names, 0)
        for place, frame in enumerate(frames):
            table = as_frame(frame, names)
            encoded = []
            for column in self.columns:
                try:
                    part = column.encode(table[column.name])
                except InvalidInput as error:
                    if place == 0:
                        raise
                    rows = f"{blocks.rows + 1:,} to {blocks.rows + table.height:,}"
                    raise InvalidInput(f"among rows {rows}: {error}") from error
                _check_width(column, len(part.columns))
                encoded += part.columns
                outside[column.name] += part.outside
            blocks.add(encoded, table.height)
        unknown = {column.name: outside[column.name] for column in self.columns if column.levels_of()}
        clipped = {column.name: outside[column.name] for column in self.columns if column.CLIPS}
        return Encoded(blocks.together(), self.features, unknown, clipped)

    def digest(self) -> str:
        """SHA-256 of a canonical form: equal for equal schemas, on every machine."""
        form = self._top() | {"column": [column.to_file() for column in self.columns]}
        text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
        return hashlib.sha256(b"colonnade schema 1\n" + text.encode("ascii")).hexdigest()

    def to_text(self) -> str:
        """The schema as the text of a TOML file."""
        lines = toml_lines({"version": VERSION, **self._top()})
        for column in self.columns:
            lines += ["", "[[column]]", *toml_lines(column.to_file())]
        return "\n".join(lines) + "\n"

    def check_readable(self) -> None:
        """InvalidInput where no reader of a file could make a column again, since its kind is yours alone."""
        for column in self.columns:
            if kinds().get(column.kind()) is not type(column):
                kind = type(column).__name__
                what = f"{kind} is no public name of colonnade, so no file or store of it could be read again"
                raise cells.wrong(
                    column.name, f"{what}. Export it (CONTRIBUTING.md, Add a column kind), or save nothing."
                )

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """The inverse of `to_text`; a mistake is reported with its line and key.

        Parameters
        ----------
        text
            The text of a TOML file.
        """
        columns, top = _parse(text)
        return cls(columns, **top)

    def to_toml(self, path: str | Path) -> None:
        """Write the schema to a TOML file, which `from_toml` reads.

        Parameters
        ----------
        path
            The file to write.
        """
        self.check_readable()
        try:
            Path(path).write_text(self.to_text(), encoding="utf-8", newline="\n")
        except OSError as error:
            raise StoreError(f"the schema could not be written to {path}: {error.strerror}.") from error

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a schema; a mistake is reported with the file, the line or column, and the key.

        Parameters
        ----------
        path
            A file that `to_toml` or `colonnade data inspect` wrote.
        """
        advice = f"Check the path; `colonnade data inspect TABLE -o {shortened(Path(path).name)}` proposes one."
        with naming(f"the schema {shortened(path)} could not be read"):
            text = read_text(path, advice=advice)
        with placed(f"the schema {path}", text):
            return cls.from_text(text)

    def _features(self) -> tuple[Feature, ...]:
        return tuple(feature for column in self.columns for feature in features_of(column))

    def _top(self) -> dict[str, Any]:
        top: dict[str, Any] = {"source": self.source}
        top |= {} if self.row_norm is None else {"row_norm": self.row_norm}
        return top if self.label is None else top | {"label": self.label.to_file()}

    def _require_public_bounds(self) -> None:
        if self.source == Source.DATA:
            raise InvalidInput(
                "this schema was read off the data, and a bound taken from the data is not public. Write it with "
                "schema.to_toml(...), replace its bounds and levels by figures you would publish, "
                'set source = "declared" and read it back with Schema.from_toml(...).'
            )
        if unbounded := [column.name for column in self.columns if not column.bounded]:
            advice = 'Write type = "numeric" with low, high and scale = false to keep its values and clip them.'
            plain = f"{len(unbounded):,} of {len(self.columns):,} columns are plain and have no public bound"
            raise InvalidInput(f"{plain}, the first is {unbounded[0]!r}. {advice}")


def _check_width(column: Column, encoded: int) -> None:
    """Names and bounds go by place: with a feature too many or too few, every later one would have another's."""
    if encoded != (due := len(features_of(column))):
        kind = type(column).__name__
        what = f"{kind}.encode gave {encoded} features, and {kind}.groups names {due}"
        raise cells.wrong(column.name, f"{what}. Give the values of each, in that order.")


# ------------------------------------------------------------------------------------------------ the file


def toml_lines(entries: Mapping[str, Any]) -> list[str]:
    """Keys and values, one a line."""
    return [f"{key} = {toml_value(value)}" for key, value in entries.items()]


def toml_value(value: str | bool | float | dt.date | tuple[str, ...] | dict[str, Any]) -> str:
    """A value as TOML writes it."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + " }"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case dt.date():
            return value.isoformat()
        case str():
            return '"' + re.sub(r'["\\\x00-\x1f\x7f]', lambda m: f"\\u{ord(m[0]):04x}", value) + '"'
        case _:
            return "[" + ", ".join(toml_value(item) for item in value) + "]"


def _parse(text: str) -> tuple[tuple[Column, ...], dict[str, Any]]:
    """The columns of a file, and what it says beside them (source, row_norm)."""
    with naming("not TOML"):
        table = toml_of(text)
    if "version" in table:
        check_version(table, VERSION)
    said: SchemaTable = read(table, SchemaTable)
    tables = said.column or []
    top: dict[str, Any] = {name: table[name] for name in ("source", "row_norm") if name in table}
    if said.label is not None:
        with inside("label"):
            top["label"] = column_from({"type": "numeric", **said.label})
    lines = [number for number, line in enumerate(text.split("\n"), 1) if line.strip().startswith("[[column]]")]
    columns = []
    for position, item in enumerate(tables):
        try:
            columns.append(column_from(item))
        except InvalidInput as error:
            # A header inside a multi-line string would shift the count: then name the position only.
            line = f"line {lines[position]}, " if len(lines) == len(tables) else ""
            raise InvalidInput(f"{line}[[column]] number {position + 1}: {error}") from error
    return tuple(columns), top


def column_from(item: dict[str, Any]) -> Column:
    """The column that `Column.to_file` wrote."""
    values = dict(item)
    known_kinds = kinds()
    kind = values.pop("type", None)
    if not isinstance(kind, str) or kind not in known_kinds:
        what = "absent" if kind is None else repr(kind)
        raise InvalidInput(f"type is {what}. Write one of {', '.join(known_kinds)}.")
    known = {f.name: f for f in fields(known_kinds[kind])}
    check_names(values, known)
    for key, one in known.items():
        if one.default is MISSING and key not in values:
            raise InvalidInput(f"key {key!r} is absent. A column of type {kind!r} needs it.")
    try:
        return known_kinds[kind](**values)
    except TypeError as error:
        raise InvalidInput(
            f"no column of type {kind!r} can be made from {', '.join(values)} ({error}). Is each of the type that "
            f"help(co.{known_kinds[kind].__name__}) names?"
        ) from error
