"""Who holds what: parties, their columns, the labels, and how rows are matched.

In process, a federation is made from one table (`split`) or from one frame a party (`from_frames`). Rows that are not
in every frame are left out and counted; rows are put in the order of their key, so it does not matter how each party
had sorted its table. A private run takes them in an order of its own (`ordered`, row_order.py): that of the key would move
with whoever is in the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.data.row_order import in_order, kind, match
from colonnade.data.schema import Categorical, Column, Date, Encoded, Plain, Schema, as_frame, look
from colonnade.data.sources import Table, located
from colonnade.data.sources.blocks import together
from colonnade.data.sources.files import Frame
from colonnade.data.surplus import Surplus, taken
from colonnade.errors import HeldByParty, InvalidInput, unquoted
from colonnade.methods.method import Known, Roster
from colonnade.privacy.block import ROW, Block, FeatureColumn, Unit
from colonnade.privacy.events import Policy
from colonnade.runtime.program import COORDINATOR

if TYPE_CHECKING:
    import polars as pl

Columns = Sequence[int] | Sequence[str] | slice | range | NDArray[Any]
LABELS = "labels"
COLUMNS_AT_ONCE = 64  # that are copied while rows are put in order
OPEN = Policy(exact=True)  # the default in process: whoever makes a federation from a table holds all of it


@dataclass(frozen=True, eq=False)
class Party:
    """One data holder: its encoded columns, how they were encoded, and what it allows."""

    name: str
    block: Block
    features: Sequence[str]
    policy: Policy
    schema: Schema | None = None  # None: a plain matrix, about which nothing is public but its width


@dataclass(frozen=True, slots=True)
class Alignment:
    """How many rows each party brought, and how many all of them have."""

    rows: Mapping[str, int]
    matched: int
    surplus: int = 0  # matched, and left out because their person has more rows than a unit may

    @property
    def left_out(self) -> dict[str, int]:
        return {party: count - self.matched for party, count in self.rows.items()}

    def __str__(self) -> str:
        parts = (f"{party} {count:,}" for party, count in self.left_out.items() if count)
        surplus = f"; {self.surplus:,} surplus rows of people with many" if self.surplus else ""
        return f"{self.matched:,} rows matched in all parties; left out: {', '.join(parts) or 'none'}{surplus}"


@dataclass(frozen=True, eq=False)
class Federation:
    """Parties that hold different columns of the same rows."""

    parties: Mapping[str, Party]
    label: str
    alignment: Alignment
    on: str | None = None
    label_column: str | None = None
    unit: Unit = ROW
    _y: NDArray[Any] | None = field(default=None, repr=False)
    keys: pl.Series | None = field(default=None, repr=False)  # of the rows, in their order; None for one table
    places: Mapping[str, NDArray[np.int64]] = field(
        default_factory=dict, repr=False
    )  # of each party's rows, if they are split
    away: FederationFile | None = field(
        default=None, repr=False
    )  # the file of a federation whose parties run elsewhere
    session: str = ""  # of the alignment by which parties elsewhere agreed on their rows
    _surplus: Surplus | None = field(
        default=None, repr=False
    )  # rows that stay under another order; None: there are none

    # -------------------------------------------------------------------------------- making one

    @classmethod
    @unquoted()
    def split(
        cls,
        X: Any,
        y: Any,
        parties: int | Mapping[str, Columns] = 2,
        *,
        label: str | None = None,
        policies: Mapping[str, Policy] | None = None,
        unit: tuple[Any, int] | FeatureColumn | None = None,
        by: Literal["columns", "rows"] = "columns",
    ) -> Federation:
        """One table split by columns: into so many parts of nearly equal size, or as `parties` says by name.

        by="rows" splits the rows instead: each party holds all columns of its rows and their labels (methods over split
        rows only); `parties` then gives places of rows, and `label`, who reports, is the first party unless named.

        The labels go to a party of their own, "labels", unless `label` names one. `unit` protects people instead of
        rows: (who each row is about, the most rows a person may keep), the first as a column name of a frame or an array;
        surplus rows are left out, the first ones in the table stay. `unit=co.COLUMN` protects feature columns instead, for
        the one method that can.
        """
        people, surplus = (unit if isinstance(unit, FeatureColumn) else ROW), 0
        if unit is not None and not isinstance(unit, FeatureColumn):
            X, y, people, surplus = _within_unit(X, y, unit)
        table = _table(X)
        rows = table.matrix.shape[0]
        y = None if y is None else _labels(y, rows)  # new rows have no labels yet
        if by not in ("columns", "rows"):
            raise InvalidInput(f"by={by!r}: a table is split by 'columns' or by 'rows'.")
        if by == "rows":
            made, places_of = _row_parties(table, parties, people)
            _known(label or next(iter(made)), made, "label")
            alignment = Alignment(dict.fromkeys(made, rows), rows, surplus)
            fed = cls(_checked(made), label or next(iter(made)), alignment, unit=people, _y=y, places=places_of)
            return fed.with_policies(policies or {})
        made = {}
        for name, columns in _shares(parties, table).items():
            schema, places = None, [c for c in columns if isinstance(c, int)]
            if table.columns is not None:
                kinds = [table.columns[str(column)] for column in columns]
                schema = Schema(tuple(kind for kind, _ in kinds), source="data")
                places = [place for _, at in kinds for place in at]
            block = Block(_stored(table.matrix[:, places]), np.asarray(places, np.int64), unit=people)
            made[name] = Party(name, block, _Names(table.names, places), OPEN, schema)
        holder = label or LABELS
        if label is not None and label not in made:
            raise InvalidInput(f"label={label!r} is not a party; there are {_listed(made)}.")
        if holder not in made:
            made[holder] = Party(holder, Block(np.zeros((rows, 0)), np.zeros(0, np.int64), unit=people), (), OPEN)
        alignment = Alignment(dict.fromkeys(made, rows), rows, surplus)
        return cls(_checked(made), holder, alignment, unit=people, _y=y).with_policies(policies or {})

    @classmethod
    def shards(
        cls, path: str | Path, *, label: str | None = None, parties: int = 8, columns: int | None = None
    ) -> Federation:
        """One owner's Parquet or svmlight file, its columns read where each party runs; see colonnade.data.shards."""
        from colonnade.data.shards import shards

        return shards(path, label=label, parties=parties, columns=columns)

    @classmethod
    @unquoted()
    def from_frames(
        cls,
        frames: Mapping[str, Any],
        on: str,
        label: tuple[str, str] | None = None,
        *,
        schemas: Mapping[str, Schema] | None = None,
        policies: Mapping[str, Policy] | None = None,
        unit: tuple[str, int] | FeatureColumn | None = None,
    ) -> Federation:
        """One table a party, matched on the key column `on`; `label` is (party, column).

        A table is a frame, or the path of a CSV, Parquet or Arrow file, or a query: sources.located(address, query=...). It is
        read in blocks, and only its key, its label and its encoded columns are held.
        A party without a schema gets one read off its data: good for a notebook, never for a private run. `unit` is
        (column, rows): whom a row is about, and the most rows one of them may keep; surplus rows are left out, the first
        ones in the order of the key stay, and in a private run those that the secret of its store chooses. The column is no
        feature.
        """
        if not (isinstance(frames, Mapping) and frames):
            raise InvalidInput("no frames were given: pass {'party': frame, ...} with one frame a party.")
        people: Unit = unit if isinstance(unit, FeatureColumn) else ROW
        beside = {on}  # columns that are no features
        if unit is not None and not isinstance(unit, FeatureColumn):
            if isinstance(unit, str) or len(unit) != 2:
                raise InvalidInput(f"unit={unit!r}: give (column, rows), as in unit=('patient', 5).")
            people = Unit(*unit)
            beside.add(people.name)
        if label is not None and (isinstance(label, str) or len(label) != 2):
            raise InvalidInput(f"label={label!r}: give the pair (party, column).")
        tables = {
            name: _Keyed.read(
                name,
                source,
                on,
                beside | ({label[1]} if label is not None and name == label[0] else set()),
                frozenset(beside),
            )
            for name, source in frames.items()
        }
        tables = _comparable(tables, on)
        for name in schemas or {}:
            _known(name, tables, "schemas")
        keys, left = _common_keys(tables, on), None
        if people != ROW and not isinstance(people, FeatureColumn):
            keys, left = _first_rows(keys, tables, on, people)
        y, holder = None, LABELS
        if label is not None:
            holder, column = label
            _known(holder, tables, "label")
            y = _taken_label(keys, holder, column, tables[holder], on)
        made, start = {}, 0
        for name, table in tables.items():
            schema, own = table.encoded(keys[on], (schemas or {}).get(name))
            positions = np.arange(start, start + schema.width)
            block = Block(own.matrix, positions, unit=people, owner_notes=own.owner_notes(), beyond=own.clipped)
            made[name] = Party(name, block, schema.features, OPEN, schema)
            start += schema.width
        rows = {name: table.beside.height for name, table in tables.items()}
        alignment = Alignment(rows, keys.height, 0 if left is None else left.height)
        surplus = _surplus_of(tables, made, keys, left, label, people)
        fed = cls(
            _checked(made), holder, alignment, on, label[1] if label else None, people, y, keys[on], _surplus=surplus
        )
        return fed.with_policies(policies or {})

    @classmethod
    def open(cls, path: str | Path, frames: Mapping[str, Any] | None = None) -> Federation:
        """A federation as its file describes it: its parties run elsewhere, or `frames` holds one frame a party.

        Elsewhere: co.fit(Federation.open("federation.toml"), ..., engine=co.Grpc(...)). With frames, the same federation
        runs in this process.
        """
        file = FederationFile.load(path)
        if frames is None:
            return cls.elsewhere(file)
        if file.on is None or any(member.schema is None for member in file.members.values()):
            raise InvalidInput(f"{path} describes plain matrices; in one process, use Federation.split for those.")
        if set(frames) != set(file.members):
            raise InvalidInput(f"{path} names {_listed(file.members)}; frames were given for {_listed(frames)}.")
        schemas = {name: member.schema for name, member in file.members.items() if member.schema is not None}
        policies = {name: member.policy for name, member in file.members.items()}
        ordered = {name: frames[name] for name in file.members}
        unit = (file.unit.name, file.unit.rows) if file.unit != ROW else None
        return cls.from_frames(ordered, file.on, file.label, schemas=schemas, policies=policies, unit=unit)

    @classmethod
    def elsewhere(cls, file: FederationFile, rows: int | None = None, session: str = "") -> Federation:
        """What everybody knows of a federation whose parties run elsewhere; `rows` once they have agreed on them."""
        if file.unit != ROW and file.people is None:
            raise InvalidInput(
                f"the federation file protects a {file.unit.name}, and does not say which party cuts surplus rows: add "
                'people = "PARTY", the one whose table has that column.'
            )
        made, places, start, at = {}, {}, 0, 0
        total = rows if rows is not None else file.rows or 0
        for name, member in file.members.items():
            own = int(member.rows or 0) if file.by == "rows" else total
            where = np.arange(member.width) + (0 if file.by == "rows" else start)
            empty = sparse.csc_array((own, member.width))  # its size is known, and nothing that it holds
            features = member.schema.features if member.schema else _Names(None, where.tolist())
            made[name] = Party(name, Block(empty, where, unit=file.unit), features, member.policy, member.schema)
            if file.by == "rows":
                places[name] = np.arange(at, at + own)
            start, at = start + member.width, at + own
        matched = at if file.by == "rows" else total
        alignment = Alignment({name: party.block.rows for name, party in made.items()}, matched)
        holder, column = file.label
        return cls(
            _checked(made),
            holder,
            alignment,
            file.on,
            column,
            file.unit,
            places=places,
            away=file,
            session=session,
        )

    def charter(self) -> FederationFile:
        """The federation file of this federation, with fresh keys that live in memory only."""
        if self.on is None or self.label_column is None:
            raise InvalidInput("only a federation made with from_frames(..., label=...) has a federation file.")
        members = {n: Member(p.schema or Schema(()), p.policy, new_key()[0]) for n, p in self.parties.items()}
        return FederationFile(members, self.on, (self.label, self.label_column), self.unit)

    def with_policies(self, policies: Mapping[str, Policy]) -> Federation:
        """The same federation with other policies for the parties named."""
        if not isinstance(policies, Mapping):
            raise InvalidInput(f"policies={policies!r}: give {{party: co.Policy(...)}}.")
        for name, policy in policies.items():
            _known(name, self.parties, "policies")
            if not isinstance(policy, Policy):
                raise InvalidInput(f"the policy of {name!r} is {policy!r}: give co.Policy(...).")
        parties = {n: replace(p, policy=policies.get(n, p.policy)) for n, p in self.parties.items()}
        return replace(self, parties=parties)

    def without(self, *names: str) -> Federation:
        """The same rows without some parties, for a run that starts anew when they dropped out.

        It is another federation: its runs have ids, keys and masks of their own, and every party that is left approves
        their terms again.
        """
        for name in names:
            _known(name, self.parties, "without")
        if self.label in names:
            raise InvalidInput(f"{self.label!r} holds the labels; without it there is nothing to fit.")
        left = {name: party for name, party in self.parties.items() if name not in names}
        if not any(party.block.columns for party in left.values()):
            raise InvalidInput("no party with columns is left.")
        return replace(self, parties=left)

    def ordered(self, secret: bytes) -> Federation:
        """The rows as a private run takes them: in the order of their keys' digests under this secret (row_order.py).

        Of people with surplus rows others may stay than in the order of the key; their number is the same.
        """
        import polars as pl

        assert self.keys is not None, "rows of one table have places and no keys"
        keys, further, people = self.keys, None, None
        if self._surplus is not None:
            keys, further, people = pl.concat([keys, self._surplus.keys]), self._surplus, self._surplus.people
        _, places = in_order(keys, secret, people, self.unit.rows)
        parties = {}
        for name, party in self.parties.items():
            matrix = taken(party.block.matrix, further and further.matrices[name], places)
            parties[name] = replace(party, block=replace(party.block, matrix=matrix))
        y = None if self._y is None else taken(self._y, further and further.labels, places)
        return replace(self, parties=parties, _y=y, keys=keys.gather(places), _surplus=None)

    def relabelled(self, y: NDArray[Any], surplus: NDArray[Any] | None = None) -> Federation:
        """The same rows with other labels, `surplus` for the rows that were left out."""
        left = None if self._surplus is None or surplus is None else replace(self._surplus, labels=surplus)
        return replace(self, _y=y, _surplus=left)

    @property
    def surplus_digest(self) -> str:
        """A hash of the rows that were left out because their person has too many; empty if there are none."""
        return "" if self._surplus is None else self._surplus.digest()

    @property
    def surplus_labels(self) -> NDArray[Any] | None:
        """The labels of the rows that were left out because their person has too many; None: there are none."""
        return None if self._surplus is None else self._surplus.labels

    # -------------------------------------------------------------------------------- looking at it

    @property
    def rows(self) -> int:
        return self.alignment.matched

    @property
    def by_rows(self) -> bool:
        """Whether each party holds all columns of its own rows, instead of its own columns of all rows."""
        return bool(self.places)

    @property
    def labels(self) -> NDArray[Any]:
        """The labels, in the order of the federation's rows."""
        if self.away is not None:
            raise HeldByParty(f"the labels are held by {self.label!r} and did not leave it.")
        if self._y is None:
            raise InvalidInput("this federation holds no labels: pass label=(party, column) to from_frames.")
        return self._y

    def example_names(self, party: str) -> Sequence[str]:
        """Names of a party's rows, where rows are split: "row 17" is the table's eighteenth."""
        return _Names(None, self.places[party].tolist(), "row ")

    def roster(self) -> Roster:
        """What everybody knows before a run."""
        positions = {name: tuple(party.block.positions.tolist()) for name, party in self.parties.items()}
        held = {p: at.size for p, at in self.places.items()}
        known = {name: _known_of(p.schema) for name, p in self.parties.items() if p.schema and p.schema.bounded}
        responses = self._y.shape[1] if self._y is not None and self._y.ndim == 2 else 0
        return Roster(self.rows, positions, self.label, self.unit, held, known, responses)

    def __repr__(self) -> str:
        if self.by_rows:
            return f"Federation({', '.join(f'{name}: {at.size:,} rows' for name, at in self.places.items())})"
        widths = ", ".join(f"{name}: {party.block.columns:,} columns" for name, party in self.parties.items())
        return f"Federation({widths}; labels at {self.label!r}; {self.alignment})"


def _known_of(schema: Schema) -> Known:
    proven = schema.row_bound()
    norm = proven if schema.row_norm is None else min(proven, schema.row_norm)
    bounds, binary, nonnegative = schema.entry_bounds(), schema.binary.tolist(), schema.nonnegative.tolist()
    return Known(tuple(bounds), tuple(binary), tuple(nonnegative), norm, norm == proven)


class _Names(Sequence[str]):
    """Names of some columns of a table, made when asked for: a million columns need no million strings."""

    def __init__(self, names: Sequence[str] | None, places: Sequence[int], word: str = "x") -> None:
        self._names, self._places, self._word = names, places, word

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        place = self._places[i]
        return self._names[place] if self._names is not None else f"{self._word}{place}"


# ------------------------------------------------------------------------------------------------ one table


@dataclass(frozen=True, eq=False)
class _Table:
    """A table as numbers. A column of a frame may take several places in the matrix (one for each level)."""

    matrix: Any
    names: Sequence[str] | None = None  # of the places, where there are names
    columns: Mapping[str, tuple[Column, list[int]]] | None = None  # of a frame: how encoded, and at which places


def _table(X: Any) -> _Table:
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise InvalidInput("X holds complex numbers; give their real and imaginary parts as columns of their own.")
    if sparse.issparse(X):
        matrix = sparse.csc_array(X, dtype=np.float64)
        matrix.sum_duplicates()
        _check_matrix(matrix.shape, matrix.data)
        return _Table(matrix)
    if hasattr(X, "columns") and hasattr(X, "shape"):
        return _frame_table(as_frame(X))
    try:
        matrix = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            "X is not a table of numbers: some entries are text or objects, or its rows differ in length. Pass an array of "
            "numbers, a sparse matrix or a data frame, whose columns of text become levels."
        ) from None  # NumPy's message quotes an entry
    _check_matrix(matrix.shape, matrix)
    return _Table(matrix)


def _check_matrix(shape: tuple[int, ...], values: NDArray[np.float64]) -> None:
    if len(shape) != 2:
        raise InvalidInput(
            f"X must have two dimensions, rows and columns; it has {len(shape)}. One column is X.reshape(-1, 1)."
        )
    if 0 in shape:
        raise InvalidInput(f"X has {shape[0]} rows and {shape[1]} columns; it needs at least one of each.")
    if bad := int(values.size - np.isfinite(values).sum()):
        raise InvalidInput(f"X holds {bad:,} values that are NaN or infinite; fill them in or leave those rows out.")


def _frame_table(frame: pl.DataFrame) -> _Table:
    """A frame: numbers stay as they are, text becomes one column for each of its values."""
    if frame.is_empty():
        raise InvalidInput(f"X has {frame.height} rows and {frame.width} columns; it needs at least one of each.")
    read = Schema.infer(frame).columns
    kinds = [kind if isinstance(kind, Categorical | Date) else Plain(kind.name) for kind in read]
    schema = Schema(tuple(kinds), source="data")
    ends = np.cumsum([len(kind.features()) for kind in kinds])
    places = [list(range(end - len(kind.features()), end)) for kind, end in zip(kinds, ends, strict=True)]
    columns = {kind.name: (kind, place) for kind, place in zip(kinds, places, strict=True)}
    return _Table(schema.encode(frame).matrix, schema.features, columns)


def _shares(
    parties: int | Mapping[str, Columns], table: _Table, what: str = "columns"
) -> dict[str, list[str] | list[int]]:
    """Which columns each party gets: names of a frame's columns, or places in a matrix."""
    everything: list[Any] = list(table.columns) if table.columns is not None else list(range(table.matrix.shape[1]))
    if not isinstance(parties, Mapping):
        if not (isinstance(parties, int | np.integer) and 1 <= parties <= len(everything)):
            raise InvalidInput(
                f"parties={parties!r}: give a whole number from 1 to the {len(everything)} {what}, or a dict."
            )
        parts = np.array_split(np.arange(len(everything)), int(parties))
        return {f"party{k}": [everything[i] for i in part] for k, part in enumerate(parts)}
    if not parties:
        raise InvalidInput(f"parties={{}} names nobody: give at least one party and its {what}.")
    shares = {name: _chosen(name, columns, everything, what) for name, columns in parties.items()}
    twice = [column for column, times in Counter(c for share in shares.values() for c in share).items() if times > 1]
    if twice:
        raise InvalidInput(
            f"{len(twice):,} {what} are given twice, the first is {twice[0]!r}; a {what[:-1]} lives at one party. "
            "Leave it out of all but one share."
        )
    return shares


def _row_parties(
    table: _Table, parties: int | Mapping[str, Columns], unit: Unit
) -> tuple[dict[str, Party], dict[str, NDArray[np.int64]]]:
    """All columns of some rows at each party, and which rows these are."""
    rows, width = table.matrix.shape
    numbers = _Table(np.empty((0, rows)))  # rows are chosen as columns are: by place, slice or mask
    shares = _shares(parties, numbers, "rows")
    columns = None if table.columns is None else tuple(kind for kind, _ in table.columns.values())
    schema = None if columns is None else Schema(columns, source="data")
    matrix = sparse.csr_array(table.matrix) if sparse.issparse(table.matrix) else table.matrix
    everything = np.arange(width)
    made = {
        name: Party(
            name,
            Block(_stored(matrix[share]), everything, unit=unit),
            _Names(table.names, range(width)),
            OPEN,
            schema,
        )
        for name, share in shares.items()
    }
    left = rows - sum(len(share) for share in shares.values())
    if left:
        raise InvalidInput(
            f"{left:,} of the {rows:,} rows are at no party: give every row to one, or leave them out of X."
        )
    return made, {name: np.asarray(share, np.int64) for name, share in shares.items()}


def _chosen(name: str, columns: Columns, everything: list[Any], what: str = "columns") -> list[Any]:
    if isinstance(columns, slice | range):
        picks: list[Any] = list(range(len(everything))[columns]) if isinstance(columns, slice) else list(columns)
    else:
        array = np.asarray(columns)
        if array.ndim != 1 or (array.dtype == bool and array.size != len(everything)):
            raise InvalidInput(
                f"party {name!r}: give a list of {what}, a slice, or a mask of all {len(everything):,} {what}."
            )
        picks = np.flatnonzero(array).tolist() if array.dtype == bool else array.tolist()
    chosen = []
    for pick in picks:
        if isinstance(pick, str) and pick in everything:
            chosen.append(pick)
        elif isinstance(pick, int) and -len(everything) <= pick < len(everything):
            chosen.append(everything[pick])
        else:
            raise InvalidInput(f"party {name!r}: X has no {what[:-1]} {pick!r}; it has {len(everything):,} {what}.")
    if not chosen:
        raise InvalidInput(f"party {name!r} gets no {what}; leave it out, or give it some.")
    return chosen


def _stored(matrix: Any) -> Any:
    """As the kernels want it: CSC, or C-ordered."""
    if sparse.issparse(matrix):
        matrix = sparse.csc_array(matrix)
        matrix.sort_indices()
        return matrix
    return np.ascontiguousarray(matrix)


def _labels(y: Any, rows: int) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim == 2 and 1 in labels.shape:
        labels = labels.ravel()
    if labels.ndim not in (1, 2) or len(labels) != rows or labels.size == 0:
        raise InvalidInput(f"X has {rows:,} rows, and y has shape {labels.shape}; give one label a row.")
    return labels


# ------------------------------------------------------------------------------------------------ one frame a party


@dataclass(frozen=True, eq=False)
class _Keyed:
    """A party's table: its keys, labels and people are held, its features stay where they are until they are encoded."""

    name: str
    table: Table
    names: list[str]  # of all its columns
    beside: pl.DataFrame  # the key, and the columns that are no features
    texts: frozenset[str]  # of these, the ones that name somebody: text, where a file does not say

    @classmethod
    def read(cls, name: str, source: Any, on: str, beside: set[str], texts: frozenset[str]) -> _Keyed:
        with _at(name):
            if isinstance(source, Table):
                table: Table = source
            else:
                table = located(source) if isinstance(source, str | Path) else Frame(as_frame(source))
            names = table.names()
        if on not in names:
            raise InvalidInput(f"party {name!r} has no key column {on!r}; its columns are {_listed(names)}.")
        with _at(name):
            held = together(table.blocks([column for column in names if column in beside], None, texts))
        if held.is_empty():
            raise InvalidInput(f"party {name!r} has no rows.")
        if nulls := held[on].null_count():
            raise InvalidInput(f"party {name!r}: {nulls:,} rows have no key in {on!r}; fill it in or leave them out.")
        if double := held.height - held[on].n_unique():
            raise InvalidInput(
                f"party {name!r}: {double:,} rows repeat a key of {on!r}; each key may stand once. "
                "Aggregate the rows of a key, or use a finer key."
            )
        return cls(name, table, names, held, texts)

    def encoded(self, keys: pl.Series, schema: Schema | None) -> tuple[Schema, Encoded]:
        """The rows of these keys, in their order, encoded a block at a time."""
        own = [column for column in self.names if column not in self.beside.columns]
        if schema is None:
            declared, schema = None, Schema(())
            if own:
                with _at(self.name):
                    looks = look(block for block, _ in self._matched(keys, own, None))
                    schema = Schema(tuple(seen.column() for seen in looks), source="data")
        else:
            declared, own = schema, [column.name for column in schema.columns]
        if taken := [column for column in own if column in self.beside.columns]:
            raise InvalidInput(
                f"party {self.name!r}: its schema names {taken[0]!r}, which is the key, the label, or whom a row is about, and "
                f"no feature. Leave it out of the schema."
            )
        if not own:  # a party with nothing but labels
            return schema, Encoded(np.zeros((keys.len(), 0)), (), {}, {})
        places: list[NDArray[np.int64]] = []

        def blocks() -> Iterator[pl.DataFrame]:
            for block, at in self._matched(keys, own, declared):
                places.append(at)
                yield block

        with _at(self.name):
            encoded = schema.encode_blocks(blocks())
        order = np.concatenate(places)
        if not np.array_equal(np.sort(order), np.arange(keys.len())):
            raise InvalidInput(
                f"party {self.name!r}: its table changed while it was read; make the federation again when nobody writes to it."
            )
        return schema, replace(encoded, matrix=_put_in_order(encoded.matrix, order))

    def _matched(
        self, keys: pl.Series, columns: Sequence[str], declared: Schema | None
    ) -> Iterator[tuple[pl.DataFrame, NDArray[np.int64]]]:
        """Blocks of the table without the rows that are not matched, and the place of each row among the keys."""
        import polars as pl

        wanted = pl.DataFrame({"key": keys, "place": pl.int_range(keys.len(), eager=True)})
        for block in self.table.blocks([keys.name, *columns], declared, self.texts):
            rows = pl.DataFrame(
                {"key": block[keys.name].cast(keys.dtype), "row": pl.int_range(block.height, eager=True)}
            )
            both = rows.join(wanted, on="key", how="inner", maintain_order="left")
            whole = both.height == block.height
            yield (block if whole else block[both["row"]]).select(columns), both["place"].to_numpy()


def _put_in_order(matrix: Any, place: NDArray[np.int64]) -> Any:
    """Row r moved to place[r], without a second matrix."""
    if np.array_equal(place, np.arange(place.size)):
        return matrix
    if sparse.issparse(matrix):
        moved = sparse.csc_array(
            (matrix.data, place.astype(matrix.indices.dtype)[matrix.indices], matrix.indptr), shape=matrix.shape
        )
        moved.sort_indices()
        return moved
    source = np.argsort(place)
    for first in range(0, matrix.shape[1], COLUMNS_AT_ONCE):
        part = matrix[:, first : first + COLUMNS_AT_ONCE]
        part[:] = part[source]
    return matrix


@contextmanager
def _at(name: str) -> Iterator[None]:
    """Say whose table a mistake is in."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"party {name!r}: {error}") from error


def _comparable(tables: Mapping[str, _Keyed], on: str) -> dict[str, _Keyed]:
    """The tables with keys of one type: digits where one party has them as text and another as numbers, as between organisations."""
    import polars as pl

    types = {name: table.beside[on].dtype for name, table in tables.items()}
    if len(set(types.values())) == 1:
        return dict(tables)
    comparable = False
    with suppress(InvalidInput):  # a type that is no key between organisations, either
        comparable = match({kind(table.beside[on]) for table in tables.values()})
    if not comparable:
        found = ", ".join(f"{name}: {of}" for name, of in types.items())
        raise InvalidInput(
            f"the key {on!r} has different types ({found}); convert it to the same type everywhere, and mind leading zeros."
        )
    return {name: replace(table, beside=table.beside.cast({on: pl.String})) for name, table in tables.items()}


def _common_keys(tables: Mapping[str, _Keyed], on: str) -> pl.DataFrame:
    keys = reduce(lambda a, b: a.join(b, on=on, how="inner"), (table.beside.select(on) for table in tables.values()))
    if keys.is_empty():
        raise InvalidInput(
            f"no key of {on!r} is in all of {_listed(tables)}; is it the same key, written the same way?"
        )
    return keys.sort(on)


def _taken_label(keys: pl.DataFrame, holder: str, column: str, table: _Keyed, on: str) -> NDArray[Any]:
    if column not in table.names or column == on:
        raise InvalidInput(f"party {holder!r} has no column {column!r} to use as label; it has {_listed(table.names)}.")
    labels = keys.join(table.beside.select(on, column), on=on, how="left", maintain_order="left")[column]
    if nulls := labels.null_count():
        raise InvalidInput(
            f"party {holder!r}: the label {column!r} is missing in {nulls:,} rows; leave those rows out."
        )
    return labels.to_numpy()


# ------------------------------------------------------------------------------------------------ people


def _within_unit(X: Any, y: Any, unit: tuple[Any, int]) -> tuple[Any, Any, Unit, int]:
    """The rows of a table that stay when nobody may have more than so many: the first ones, a public rule."""
    import polars as pl

    who, most = unit
    if isinstance(who, str):
        frame = as_frame(X)
        if who not in frame.columns:
            raise InvalidInput(
                f"unit names the column {who!r}, which X does not have; it has {_listed(frame.columns)}."
            )
        people, X, name = frame[who], frame.drop(who), who
    else:
        people, name = pl.Series(np.asarray(who)), "person"
        X = as_frame(X) if hasattr(X, "columns") else X
    y = np.asarray(y)
    if not len(people) == len(y) == X.shape[0]:
        raise InvalidInput(
            f"unit says whom {len(people):,} rows are about; X has {X.shape[0]:,} rows and y {len(y):,}."
        )
    kept = np.flatnonzero((people.to_frame("p").select(pl.int_range(pl.len()).over("p")).to_series() < most).to_numpy())
    rows = X[kept] if not sparse.issparse(X) else sparse.csr_array(X)[kept]
    return rows, y[kept], Unit(name, most), len(people) - len(kept)


def _first_rows(
    keys: pl.DataFrame, tables: Mapping[str, _Keyed], on: str, unit: Unit
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The keys of rows that stay in the order of the key, and of those that do not."""
    import polars as pl

    holders = [name for name, table in tables.items() if unit.name in table.names]
    if not holders:
        raise InvalidInput(f"unit names the column {unit.name!r}, which no party has.")
    people = keys.join(tables[holders[0]].beside.select(on, unit.name), on=on, how="left", maintain_order="left")
    if nulls := people[unit.name].null_count():
        raise InvalidInput(
            f"party {holders[0]!r}: {nulls:,} rows do not say whom they are about ({unit.name!r} is empty)."
        )
    ranked = people.with_columns(pl.int_range(pl.len()).over(unit.name).alias("rank of a row of theirs"))
    stays = ranked["rank of a row of theirs"] < unit.rows
    return people.filter(stays), people.filter(~stays)


def _surplus_of(
    tables: Mapping[str, _Keyed],
    made: Mapping[str, Party],
    keys: pl.DataFrame,
    left: pl.DataFrame | None,
    label: tuple[str, str] | None,
    unit: Unit,
) -> Surplus | None:
    """The rows that were left out, for a private run to choose among; a schema that was read off the data allows none."""
    import polars as pl

    read_off = any(party.schema is not None and party.schema.source == "data" for party in made.values())
    if left is None or left.is_empty() or read_off:
        return None
    on = keys.columns[0]
    people = pl.concat([keys[unit.name], left[unit.name]])
    matrices = {name: table.encoded(left[on], made[name].schema)[1].matrix for name, table in tables.items()}
    y = None if label is None else _taken_label(left, label[0], label[1], tables[label[0]], on)
    return Surplus(left[on], people, matrices, y)


# ------------------------------------------------------------------------------------------------ names


def _checked(parties: dict[str, Party]) -> dict[str, Party]:
    for name in parties:
        if not (isinstance(name, str) and name and name == name.strip() and name.isprintable() and "/" not in name):
            raise InvalidInput(f"{name!r} cannot name a party: use a short text without slashes or outer spaces.")
        if name == COORDINATOR:
            raise InvalidInput(f"{COORDINATOR!r} is the coordinator's name; give the party another.")
    return parties


def _known(name: str, parties: Mapping[str, Any], where: str) -> None:
    if name not in parties:
        raise InvalidInput(f"{where} names {name!r}, which is not a party; there are {_listed(parties)}.")


def _listed(names: Any) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8:,} more" if len(shown) > 8 else "")
