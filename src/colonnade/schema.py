"""What a party says in public about its table, and how its rows become numbers.

Claim    encoded entries and rows never exceed `entry_bounds()` and `row_bound()`, whatever the data are.
Encodes  numeric     by its public bounds to [-1, 1]; with scale=False clipped to them, in its own units
         binary      as 0 or 1
         categorical one 0/1 column per public level; a value outside the levels is all zeros
         plain       as it is: no bound is known, so nothing private can be done with it
Missing  "refuse" (an error), "indicator" (0, and one more 0/1 column), or a number to use instead.
Leaves   the schema itself, and nothing else: names, bounds and levels are public once they are written here.
         A schema read off the data (`Schema.infer`) is marked as such and proves no bound.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput, StoreError

if TYPE_CHECKING:
    import polars as pl

Missing = Literal["refuse", "indicator"] | float
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Sparse = tuple[Rows, Floats]  # one encoded column: increasing row numbers, and the values there

LARGEST = 1e100  # of a bound: squares and sums of squares stay finite
MANY_LEVELS = 100  # from here on a text that is different in most rows is taken for an identifier
SPARSE_BELOW = 0.3  # density under which a compressed matrix is both smaller and faster than an array


@dataclass(frozen=True)
class Feature:
    """One encoded column, as far as it is public."""

    name: str
    bound: float | None  # of the absolute value; None where nothing is known
    nonnegative: bool
    binary: bool


@dataclass(frozen=True)
class Numeric:
    """A number with public bounds; values outside are clipped."""

    name: str
    low: float
    high: float
    scale: bool = True  # False keeps the units, and keeps zeros zero: for counts in wide sparse tables
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        _check_name(self.name)
        for key in ("low", "high"):
            what = f"column {self.name!r}: {key}"
            object.__setattr__(self, key, _number(what, getattr(self, key)))
        if not self.low < self.high:
            raise InvalidInput(
                f"column {self.name!r}: low = {self.low:g} is not below high = {self.high:g}. "
                f"Write public bounds with low < high."
            )
        if not isinstance(self.scale, bool):
            raise InvalidInput(f"column {self.name!r}: scale is {self.scale!r}. Write true or false.")
        object.__setattr__(self, "missing", _missing(self.name, self.missing))
        if not isinstance(self.missing, str) and not self.low <= self.missing <= self.high:
            raise InvalidInput(
                f"column {self.name!r}: missing = {self.missing:g} lies outside the bounds "
                f"{self.low:g} to {self.high:g}. Choose a value between them."
            )

    def features(self) -> tuple[Feature, ...]:
        bound = 1.0 if self.scale else max(abs(self.low), abs(self.high))
        value = Feature(self.name, bound, nonnegative=not self.scale and self.low >= 0.0, binary=False)
        return _with_indicator(value, self.missing)

    def encode(self, values: pl.Series) -> list[Sparse]:
        numbers, gaps = _numbers(self.name, self.missing, values)
        numbers = np.clip(numbers, self.low, self.high)
        if self.scale:
            # In this order every rounding is monotone, so that no value ends past -1 or 1.
            numbers = 2.0 * ((numbers - self.low) / (self.high - self.low)) - 1.0
        return _sparse_with_indicator(numbers, gaps, self.missing)


@dataclass(frozen=True)
class Binary:
    """A column of zeros and ones, or of booleans."""

    name: str
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "missing", _missing(self.name, self.missing))
        if not isinstance(self.missing, str) and self.missing not in (0.0, 1.0):
            raise InvalidInput(
                f"column {self.name!r}: missing = {self.missing:g} in a binary column. "
                f'Write 0, 1, "indicator" or "refuse".'
            )

    def features(self) -> tuple[Feature, ...]:
        return _with_indicator(Feature(self.name, 1.0, nonnegative=True, binary=True), self.missing)

    def encode(self, values: pl.Series) -> list[Sparse]:
        numbers, gaps = _numbers(self.name, self.missing, values)
        strange = np.count_nonzero((numbers != 0.0) & (numbers != 1.0))
        if strange:
            raise InvalidInput(
                f"column {self.name!r}: {strange:,} values are neither 0 nor 1, but the schema calls it "
                f'binary. Declare type = "numeric" with bounds, or type = "categorical" with levels.'
            )
        return _sparse_with_indicator(numbers, gaps, self.missing)


@dataclass(frozen=True)
class Categorical:
    """One of a public list of levels. Numbers may be levels too; they are compared as text."""

    name: str
    levels: tuple[str, ...]
    missing: Literal["refuse", "indicator"] = "refuse"

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "levels", _levels(self.name, self.levels))
        if self.missing not in ("refuse", "indicator"):
            raise InvalidInput(
                f"column {self.name!r}: missing = {self.missing!r} in a categorical column. "
                f'Write "indicator" or "refuse".'
            )

    def features(self) -> tuple[Feature, ...]:
        names = [f"{self.name}={level}" for level in self.levels]
        return tuple(Feature(name, 1.0, nonnegative=True, binary=True) for name in names) + (
            (_indicator(self.name),) if self.missing == "indicator" else ()
        )

    def encode(self, values: pl.Series) -> list[Sparse]:
        """One sparse column per level; the rows that belong to none of them get no entry."""
        import polars as pl

        texts = _as_text(self.name, values)
        _refuse_gaps(self.name, self.missing, texts.null_count())
        known = texts.cast(pl.Enum(self.levels), strict=False)
        codes = known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        order = np.argsort(codes, kind="stable").astype(np.int64, copy=False)
        ends = np.searchsorted(codes[order], np.arange(len(self.levels) + 1))
        columns = [order[start:end] for start, end in pairwise(ends)]
        if self.missing == "indicator":
            columns.append(np.flatnonzero(texts.is_null().to_numpy()))
        return [(rows, np.ones(rows.size)) for rows in columns]


@dataclass(frozen=True)
class Plain:
    """A number taken exactly as it is. Its bounds are unknown, so it cannot enter a private run."""

    name: str
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "missing", _missing(self.name, self.missing))

    def features(self) -> tuple[Feature, ...]:
        return _with_indicator(Feature(self.name, None, nonnegative=False, binary=False), self.missing)

    def encode(self, values: pl.Series) -> list[Sparse]:
        numbers, gaps = _numbers(self.name, self.missing, values)
        infinite = np.count_nonzero(np.isinf(numbers))
        if infinite:
            raise InvalidInput(
                f"column {self.name!r}: {infinite:,} values are infinite. Declare the column numeric with "
                f"bounds, which clips them, or remove those rows."
            )
        return _sparse_with_indicator(numbers, gaps, self.missing)


Column = Numeric | Binary | Categorical | Plain
KINDS: dict[str, type[Column]] = {
    "numeric": Numeric,
    "binary": Binary,
    "categorical": Categorical,
    "plain": Plain,
}


@dataclass(frozen=True)
class Encoded:
    """A party's table as numbers. Printing it shows its size only: the rest stays with the party."""

    matrix: Any  # scipy.sparse.csc_array of float64 with sorted indices, or a C-ordered float64 array
    names: tuple[str, ...]
    unknown: Mapping[str, int] = field(repr=False)  # by categorical column: values outside its levels

    def __repr__(self) -> str:
        return f"Encoded({self.matrix.shape[0]:,} rows x {self.matrix.shape[1]:,} columns)"


@dataclass(frozen=True)
class Schema:
    """A party's columns in order, with what is public about them.

    `row_norm` is a public L2 bound to which the party is willing to clip its encoded rows in a private
    run. `encode` does not clip rows, and `row_bound()` does not rely on it.
    """

    columns: tuple[Column, ...]
    row_norm: float | None = None
    source: Literal["declared", "data"] = "declared"

    def __post_init__(self) -> None:
        if isinstance(self.columns, Column):
            raise InvalidInput(f"a schema takes a tuple of columns: co.Schema(({type(self.columns).__name__}(...),)).")
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.row_norm is not None:
            row_norm = _number("row_norm", self.row_norm)
            if row_norm <= 0.0:
                raise InvalidInput(f"row_norm = {row_norm:g}. Write a public bound above 0, or leave it out.")
            object.__setattr__(self, "row_norm", row_norm)
        if self.source not in ("declared", "data"):
            raise InvalidInput(f'source = {self.source!r}. Write "declared" or "data".')
        for names in ([column.name for column in self.columns], self.features):
            name, times = next(iter(Counter(names).most_common(1)), ("", 0))
            if times > 1:
                raise InvalidInput(f"the name {name!r} stands for {times} columns. Rename all but one.")

    @classmethod
    def raw(cls, names: Iterable[str]) -> Schema:
        """Plain columns: every value is kept exactly as it is."""
        return cls(tuple(Plain(name) for name in names))

    @classmethod
    def infer(cls, frame: Any) -> Schema:
        """A schema read off a DataFrame, for runs without privacy.

        Its bounds and levels are facts about the rows in the frame, not public knowledge: such a schema
        answers `entry_bounds` and `row_bound` with an error. For a private run write it to a file, replace
        every figure by one you would print in a data dictionary, and set source = "declared".
        """
        table = _polars(frame, None)
        if table.is_empty():
            raise InvalidInput("the table has no rows to read a schema off. Declare its columns instead.")
        return cls(tuple(_inferred(values) for values in table), source="data")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns: "distance", "carrier=UA", "carrier=missing"."""
        return tuple(feature.name for feature in self._features())

    @property
    def width(self) -> int:
        return len(self._features())

    @property
    def nonnegative(self) -> NDArray[np.bool_]:
        """For each encoded column: is it at least 0 by its declaration?"""
        return np.array([feature.nonnegative for feature in self._features()], dtype=np.bool_)

    @property
    def binary(self) -> NDArray[np.bool_]:
        """For each encoded column: does it hold only 0 and 1?"""
        return np.array([feature.binary for feature in self._features()], dtype=np.bool_)

    @property
    def bounded(self) -> bool:
        """Whether every column has a declared bound, so that private methods can use it."""
        return self.source == "declared" and not any(isinstance(column, Plain) for column in self.columns)

    def entry_bounds(self) -> Floats:
        """For each encoded column, a public bound of its absolute value."""
        self._require_public_bounds()
        return np.array([feature.bound for feature in self._features()], dtype=np.float64)

    def row_bound(self) -> float:
        """The least public L2 bound of an encoded row that the columns prove by themselves."""
        self._require_public_bounds()
        # Of one column's encoded values at most one differs from zero: a level, the value, or its indicator.
        bounds = [max(f.bound or 0.0 for f in column.features()) for column in self.columns]
        total = sum((Fraction(bound) ** 2 for bound in bounds), Fraction(0))
        root = math.hypot(*bounds)
        while Fraction(root) ** 2 < total:  # a bound that rounding has lowered is none
            root = math.nextafter(root, math.inf)
        return root

    def encode(self, frame: Any) -> Encoded:
        """The rows of a polars or pandas DataFrame as numbers; columns the schema does not name are ignored."""
        table = _polars(frame, [column.name for column in self.columns])
        encoded: list[Sparse] = []
        unknown: dict[str, int] = {}
        for column in self.columns:
            parts = column.encode(table[column.name])
            encoded.extend(parts)
            if isinstance(column, Categorical):
                unknown[column.name] = table.height - sum(rows.size for rows, _ in parts)
        return Encoded(_assemble(encoded, table.height), self.features, unknown)

    def digest(self) -> str:
        """SHA-256 of a canonical form: equal for equal schemas, on every machine."""
        text = json.dumps(self._plain(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(b"colonnade schema 1\n" + text.encode("ascii")).hexdigest()

    def to_text(self) -> str:
        """The schema as the text of a TOML file."""
        return _toml(self._plain())

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """The inverse of `to_text`; a mistake is reported with its line and key."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidInput(f"not TOML: {error}.") from error
        return _schema(table, _places(text))

    def to_toml(self, path: str | Path) -> None:
        try:
            Path(path).write_text(self.to_text(), encoding="utf-8", newline="\n")
        except OSError as error:
            raise StoreError(f"the schema could not be written to {path}: {error.strerror}.") from error

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a schema; a mistake is reported with the file, the line or column, and the key."""
        try:
            return cls.from_text(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(f"the schema {path} could not be read: {error.strerror}.") from error
        except (InvalidInput, UnicodeDecodeError) as error:
            raise InvalidInput(f"the schema {path}: {error}") from error

    def _features(self) -> tuple[Feature, ...]:
        return tuple(feature for column in self.columns for feature in column.features())

    def _plain(self) -> dict[str, Any]:
        """Only text, numbers, lists and tables: what the file and the digest are made from."""
        kind = {cls: name for name, cls in KINDS.items()}
        columns = [{"type": kind[type(column)], **asdict(column)} for column in self.columns]
        top: dict[str, Any] = {"source": self.source}
        if self.row_norm is not None:
            top["row_norm"] = self.row_norm
        return top | {"column": columns}

    def _require_public_bounds(self) -> None:
        if self.source == "data":
            raise InvalidInput(
                "this schema was read off the data, and a bound taken from the data is not public. Write it "
                "with schema.to_toml(...), replace its bounds and levels by figures you would publish, set "
                'source = "declared" and read it back with Schema.from_toml(...).'
            )
        unbounded = [column.name for column in self.columns if isinstance(column, Plain)]
        if unbounded:
            raise InvalidInput(
                f"{len(unbounded):,} of {len(self.columns):,} columns are plain and have no public bound, the "
                f'first is {unbounded[0]!r}. Write type = "numeric" with low, high and scale = false to keep '
                f"its values and clip them to the bounds."
            )


# --- checks -------------------------------------------------------------------------------------------------


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"a column is called {name!r}. Give it a name: text, not empty.")
    _check_text(name)


def _check_text(text: str) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidInput(f"{text!r} holds half a character (a lone surrogate). Write it in valid Unicode.")


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(f"{what} is {value!r}. Write a number.")
    number = cast("float", value)
    if not -LARGEST <= number <= LARGEST:  # also refuses nan
        raise InvalidInput(f"{what} is {number}. Write a number within ±{LARGEST:g}.")
    return float(number) + 0.0  # -0.0 becomes 0.0: equal schemas have equal digests


def _missing(name: str, value: object) -> Missing:
    if value == "refuse":
        return "refuse"
    if value == "indicator":
        return "indicator"
    if isinstance(value, str):
        raise InvalidInput(f'column {name!r}: missing is {value!r}. Write "refuse", "indicator" or the number to use.')
    return _number(f"column {name!r}: missing", value)


def _levels(name: str, levels: object) -> tuple[str, ...]:
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise InvalidInput(f"column {name!r}: levels is {levels!r}. Write a list of values.")
    texts = []
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, (str, int, np.integer)):
            raise InvalidInput(f"column {name!r}: the level {level!r} is not text. Write it as text.")
        texts.append(str(level))
        _check_text(texts[-1])
    if not texts:
        raise InvalidInput(f"column {name!r}: no levels. List the values it may take: levels = [...].")
    level, times = Counter(texts).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"column {name!r}: the level {level!r} is listed {times} times. List it once.")
    return tuple(texts)


# --- from a frame to numbers --------------------------------------------------------------------------------


def as_frame(frame: Any) -> pl.DataFrame:
    """A polars or pandas DataFrame as polars, with all its columns."""
    return _polars(frame, None)


def _polars(frame: Any, names: list[str] | None) -> pl.DataFrame:
    """A polars or pandas DataFrame as polars, with the named columns (None: all) present."""
    import polars as pl

    table = frame if isinstance(frame, pl.DataFrame) else _from_pandas(frame, names)
    absent = [name for name in names or () if name not in table.columns]
    if absent:
        raise InvalidInput(
            f"the table lacks {len(absent):,} of the schema's {len(names or ()):,} columns, the first is "
            f"{absent[0]!r}. Rename the table's column or take it out of the schema."
        )
    return table


def _from_pandas(frame: Any, names: list[str] | None) -> pl.DataFrame:
    import polars as pl

    if not (hasattr(frame, "to_numpy") and hasattr(frame, "columns")):
        raise InvalidInput(f"rows came as {type(frame).__name__}. Give a polars or pandas DataFrame.")
    frame = frame.rename(columns=str)
    if names is not None:
        # A column the schema does not name may hold anything: leave it out before converting.
        frame = frame[[name for name in frame.columns if name in set(names)]]
    try:
        return pl.from_pandas(frame)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            "a pandas column mixes types that have no common one, or two columns share a name. Convert or "
            "rename it first, for example with frame.convert_dtypes() or astype(str)."
        ) from error


def _numbers(name: str, missing: Missing, values: pl.Series) -> tuple[Floats, Rows]:
    """A writable float copy with every gap filled, and the rows of the gaps."""
    import polars as pl

    if values.null_count() == values.len():  # then the type says nothing
        values = pl.Series(name, [None] * values.len(), dtype=pl.Float64)
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        raise InvalidInput(
            f"column {name!r} holds {values.dtype}, but the schema expects numbers. Convert it, or declare "
            f'type = "categorical" with its levels.'
        )
    numbers = np.array(values.cast(pl.Float64).to_numpy(), dtype=np.float64)  # nulls become nan
    gaps = np.flatnonzero(np.isnan(numbers))
    _refuse_gaps(name, missing, gaps.size)
    numbers[gaps] = 0.0 if isinstance(missing, str) else missing
    return numbers, gaps


def _refuse_gaps(name: str, missing: Missing, count: int) -> None:
    if count and missing == "refuse":
        raise InvalidInput(
            f'column {name!r}: {count:,} values are missing. Write missing = "indicator" in its schema to '
            f"give them a column of their own, or missing = a number to use instead (numeric columns)."
        )


def _as_text(name: str, values: pl.Series) -> pl.Series:
    """Whole numbers lose their ".0" (pandas turns integers with gaps into floats), nan becomes a gap."""
    import polars as pl

    if values.dtype.is_float():
        values = values.fill_nan(None)
        whole = values.is_finite() & (values == values.round(0)) & (values.abs() < 2.0**53)
        texts = pl.select(
            pl.when(whole).then(values.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(values.cast(pl.String))
        )
        return texts.to_series()
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object):
        raise InvalidInput(f"column {name!r} holds {values.dtype}, which has no levels. Convert it to text.")
    return values.cast(pl.String)


def _indicator(name: str) -> Feature:
    return Feature(f"{name}=missing", 1.0, nonnegative=True, binary=True)


def _with_indicator(value: Feature, missing: Missing) -> tuple[Feature, ...]:
    return (value, _indicator(value.name)) if missing == "indicator" else (value,)


def _sparse_with_indicator(numbers: Floats, gaps: Rows, missing: Missing) -> list[Sparse]:
    if missing != "indicator":
        return [_sparse(numbers)]
    numbers[gaps] = 0.0
    return [_sparse(numbers), (gaps, np.ones(gaps.size))]


def _sparse(numbers: Floats) -> Sparse:
    rows = np.flatnonzero(numbers)
    return rows, numbers[rows]


def _assemble(columns: list[Sparse], height: int) -> Any:
    """Encoded columns side by side: compressed if most entries are zero, else an array."""
    from scipy.sparse import csc_array

    stored = sum(rows.size for rows, _ in columns)
    if stored < SPARSE_BELOW * height * len(columns):
        small = max(stored, height) <= np.iinfo(np.int32).max
        indptr = np.cumsum([0] + [rows.size for rows, _ in columns])
        indices = np.concatenate([rows for rows, _ in columns])
        data = np.concatenate([values for _, values in columns])
        index = np.int32 if small else np.int64
        shape = (height, len(columns))
        matrix = csc_array((data, indices.astype(index), indptr.astype(index)), shape=shape)
        matrix.has_sorted_indices = True
        return matrix
    dense = np.zeros((height, len(columns)))
    for j, (rows, values) in enumerate(columns):
        dense[rows, j] = values
    return dense


def _inferred(values: pl.Series) -> Column:
    import polars as pl

    gaps = values.is_null() | values.is_nan() if values.dtype.is_float() else values.is_null()
    missing: Literal["refuse", "indicator"] = "indicator" if gaps.any() else "refuse"
    if gaps.all():
        return Numeric(values.name, -1.0, 1.0, missing=missing)
    if values.dtype == pl.Boolean:
        return Binary(values.name, missing=missing)
    if values.dtype.is_numeric():
        numbers = values.cast(pl.Float64).fill_null(math.nan).to_numpy()
        if infinite := int(np.isinf(numbers).sum()):
            raise InvalidInput(
                f"column {values.name!r} holds {infinite:,} infinite values. Replace them, or declare the column numeric "
                f"with bounds, which clips them."
            )
        numbers = numbers[np.isfinite(numbers)]
        low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (-1.0, 1.0)
        if values.dtype.is_integer() and (low, high) == (0.0, 1.0):
            return Binary(values.name, missing=missing)
        if low == high:  # a constant says nothing: centre it, so that it encodes as zero
            low, high = low - max(1.0, abs(low)), high + max(1.0, abs(high))
        return Numeric(values.name, low, high, missing=missing)
    if values.dtype in (pl.String, pl.Categorical, pl.Enum):
        levels = sorted(values.cast(pl.String).drop_nulls().unique().to_list())
        if len(levels) > MANY_LEVELS and 2 * len(levels) > values.len():
            raise InvalidInput(
                f"column {values.name!r} has {len(levels):,} different texts in {values.len():,} rows: it looks like a name or a "
                f"number of somebody. Leave it out, or declare it categorical with the levels that matter."
            )
        return Categorical(values.name, tuple(levels), missing=missing)
    raise InvalidInput(
        f"column {values.name!r} holds {values.dtype}, which has no encoding. Turn it into numbers or text "
        f"(for a date: month, weekday, hour), or drop it."
    )


# --- the file -----------------------------------------------------------------------------------------------


def _toml(table: dict[str, Any]) -> str:
    lines = [f"{key} = {toml_value(value)}" for key, value in table.items() if key != "column"]
    for column in table["column"]:
        lines += ["", "[[column]]"]
        lines += [f"{key} = {toml_value(value)}" for key, value in column.items()]
    return "\n".join(lines) + "\n"


def toml_value(value: str | bool | float | tuple[str, ...]) -> str:
    """A value as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case str():
            return '"' + re.sub(r'["\\\x00-\x1f\x7f]', lambda m: f"\\u{ord(m[0]):04x}", value) + '"'
        case _:
            return "[" + ", ".join(toml_value(item) for item in value) + "]"


def _places(text: str) -> list[int]:
    """Line numbers of the [[column]] headers."""
    return [number for number, line in enumerate(text.split("\n"), 1) if line.strip().startswith("[[column]]")]


def _schema(table: dict[str, Any], lines: list[int]) -> Schema:
    tables = table.pop("column", [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        raise InvalidInput("the key 'column' is not a list of tables. Open each column with [[column]].")
    for key in table:
        if key not in ("source", "row_norm"):
            raise InvalidInput(f"unknown key {key!r}. Known here: source, row_norm, [[column]].")
    columns = []
    for position, item in enumerate(tables):
        try:
            columns.append(_column(item))
        except InvalidInput as error:
            # A header inside a multi-line string would shift the count: then name the position only.
            line = f"line {lines[position]}, " if len(lines) == len(tables) else ""
            raise InvalidInput(f"{line}[[column]] number {position + 1}: {error}") from error
    return Schema(tuple(columns), **table)


def _column(item: dict[str, Any]) -> Column:
    values = dict(item)
    kind = values.pop("type", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"type is {kind!r}. Write one of {', '.join(KINDS)}.")
    known = {f.name: f for f in fields(KINDS[kind])}
    for key in values:
        if key not in known:
            raise InvalidInput(f"unknown key {key!r}. Known for type {kind!r}: {', '.join(known)}.")
    for key in ("name", "low", "high", "levels"):
        if key in known and key not in values:
            raise InvalidInput(f"key {key!r} is absent. A column of type {kind!r} needs it.")
    return KINDS[kind](**values)
