"""Who holds what: parties, their columns, the labels, and how rows are matched.

In process, a federation is made from one table (`split`) or from one frame a party (`from_frames`). Rows that are not
in every frame are left out and counted; rows are put in the order of their key, so it does not matter how each party
had sorted its table. A private run takes them in an order of its own (`ordered`, row_order.py): that of the key would
move with whoever is in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data import keyed_tables
from colonnade.data.federation_file import FederationFile, Member, SplitBy, new_key
from colonnade.data.keyed_tables import Surplus, take_rows
from colonnade.data.labels import (
    NOTHING,
    Beside,
    as_named,
    beside_arrays,
    called,
    check_classes,
    check_named,
    check_pairs,
    check_unit,
    other_class,
    signs_of,
)
from colonnade.data.party import (
    LABELS,
    Alignment,
    LazyNames,
    Party,
    check_party_names,
    list_names,
    public_bounds,
    require_party,
    shown_parties,
    widths_under,
)
from colonnade.data.row_order import in_order
from colonnade.data.schema.cells import as_frame
from colonnade.data.schema.column import spans_of
from colonnade.data.schema.sought import sought_in, with_texts
from colonnade.data.schema.table import Schema
from colonnade.data.split_table import Columns, Places, check_labels, cut_to_unit, read_table, split_columns, split_rows
from colonnade.errors import HeldByParty, InvalidInput, unquoted
from colonnade.model.facts import Classes, Name
from colonnade.model.job import Roster
from colonnade.privacy.block import ROW, Block, FeatureColumn, Unit
from colonnade.privacy.events import Plan, Policy, quorum_of

if TYPE_CHECKING:
    import polars as pl

ROW_KEY = "row number"  # the key of one table whose rows need no matching
LABEL = "label of the rows"  # its column, where a frame is shared out


@dataclass(frozen=True, eq=False)
class Federation:
    """Parties that hold different columns of the same rows.

    Made by `split` from one table, by `from_frames` from one frame a party, by `shards` from a file, or by `open` from
    a federation file.

    Parameters
    ----------
    parties
        Each party's columns, by its name.
    label
        The party that holds the labels.
    alignment
        How many rows each party brought, and how many all of them have.
    on
        The key that rows are matched by; None: one table, whose rows need no matching.
    label_column
        The labels' column at their holder, where they came from a frame.
    unit
        Whose privacy is protected: one row, or one person with at most so many rows.
    keys
        Of the rows, in their order; None for one table.
    places
        Of split rows, by party: which rows of the table it holds.
    away
        The federation file, where the parties run elsewhere.
    session
        The agreement by which parties elsewhere agreed on their rows.
    depth
        Of the curves of columns that left it to the method; 0: lines.
    classes
        What the labels −1 and 1 are called; None: labels are as they came.
    beside
        Offset and weight of each row, at the label holder.
    left_out
        By party, columns that a look could not see: they take no part.
    looks
        By party, what all looks at these columns have released: later runs say so, and what it cost.

    Examples
    --------
    >>> import colonnade as co
    >>> table = [[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [2.0, 1.0, 0.0]]
    >>> fed = co.Federation.split(table, [1, -1, 1], {"bank": [0, 1], "shop": [2]})
    >>> list(fed.parties), fed.label, fed.rows
    (['bank', 'shop', 'labels'], 'labels', 3)
    """

    parties: Mapping[str, Party]
    label: str
    alignment: Alignment
    on: str | None = None
    label_column: str | None = None
    unit: Unit = ROW
    _y: NDArray[Any] | None = field(default=None, repr=False)
    keys: pl.Series | None = field(default=None, repr=False)
    places: Mapping[str, NDArray[np.int64]] = field(default_factory=dict, repr=False)
    away: FederationFile | None = field(default=None, repr=False)
    session: str = ""
    _surplus: Surplus | None = field(default=None, repr=False)
    depth: int = 0
    classes: Classes | None = None
    beside: Beside = field(default=NOTHING, repr=False)
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    looks: Mapping[str, Plan] = field(default_factory=dict)

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
        by: str = SplitBy.COLUMNS,
        offset: Any = None,
        weight: Any = None,
        classes: tuple[Name, Name] | None = None,
    ) -> Federation:
        """One table shared out by columns: into so many parts of nearly equal size, or as `parties` says by name.

        Parameters
        ----------
        X
            The table: an array, a sparse matrix, or a data frame, whose columns of text become levels.
        y
            One label a row; None for new rows.
        parties
            How many parts of equal size, or by name the places or names of each party's columns (by="rows": of its
            rows).
        label
            The party that holds the labels. None: one of their own, "labels"; by="rows": the first party, which
            reports.
        policies
            By party, what it allows; a party that is not named lets exact values leave.
        unit
            Protects people instead of rows: (who each row is about, the most rows a person may keep), the first as a
            column name of a frame or an array. Surplus rows are left out, the first ones in the table stay. `co.COLUMN`
            protects feature columns instead, for the one method that can.
        by
            "columns", or "rows": then each party holds all columns of its rows and their labels (methods over split
            rows only).
        offset
            A known part of each row's score, such as log(exposure): one number a row. For exact methods.
        weight
            How many rows each row stands for: one number above 0 a row. For exact methods.
        classes
            What the two labels are called, the one that is learnt last: ("no", "yes"). None: numbers, or as the labels
            are.

        Returns
        -------
        Federation
            The parties in this process.

        Raises
        ------
        InvalidInput
            The table holds what is no number, or `parties` and `label` do not fit it.
        """
        if by not in tuple(SplitBy):
            raise InvalidInput(f"by={by!r}: a table is split by 'columns' or by 'rows'.")
        check_unit({n: given for n, given in (("offset", offset), ("weight", weight)) if given is not None}, unit)
        people = unit if isinstance(unit, FeatureColumn) else ROW
        surplus = 0
        if unit is not None and not isinstance(unit, FeatureColumn):
            X, y, people, surplus = cut_to_unit(X, y, unit)
        table = read_table(X)
        rows = table.matrix.shape[0]
        y = None if y is None else check_labels(y, rows)  # new rows have no labels yet
        by_rows = by == SplitBy.ROWS
        beside = beside_arrays(rows, by_rows=by_rows, offset=offset, weight=weight)
        places: Places = {}
        if by_rows:
            holders, places = split_rows(table, parties, label, people)
        else:
            holders = split_columns(table, parties, label, people)
        holder = label or (next(iter(holders)) if by_rows else LABELS)
        check_party_names(holders)
        alignment = Alignment(dict.fromkeys(holders, rows), rows, surplus)
        fed = cls(holders, holder, alignment, unit=people, _y=y, places=places, beside=beside)
        return fed._named(classes).with_policies(policies or {})

    @classmethod
    def shards(
        cls, path: str | Path, *, label: str | None = None, parties: int = 8, columns: int | None = None
    ) -> Federation:
        """One owner's file, its columns read where each party runs.

        Parameters
        ----------
        path
            A Parquet or svmlight file; every machine finds it under the same path.
        label
            The name of its column of labels; None: the last one. A svmlight file says it itself.
        parties
            Into how many parts of nearly equal size the columns are split.
        columns
            The public number of columns of a svmlight file; None: the largest number in it, which tells about the row
            that holds it.
        """
        from colonnade.data.readers import shards

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
        offset: tuple[str, str] | None = None,
        weight: tuple[str, str] | None = None,
        classes: tuple[Name, Name] | None = None,
    ) -> Federation:
        """One table a party, matched on a key column. Rows that are not in every table are left out and counted.

        A table is a frame, or the path of a CSV, Parquet or Arrow file, or a query: sources.table_at(address,
        query=...). It is read in blocks, and only its key, its label and its encoded columns are held.

        Parameters
        ----------
        frames
            Each party's table, by its name.
        on
            The key column, which every table has.
        label
            (party, column) of the labels; None for new rows.
        schemas
            By party, how its columns become numbers, and what is public about them. A party without one gets one read
            off its data: good for a notebook, never for a private run.
        policies
            By party, what it allows; a party that is not named lets exact values leave.
        unit
            (column, rows): whom a row is about, and the most rows one of them may keep. Surplus rows are left out: the
            first ones in the order of the key stay, and in a private run those that the secret of its store chooses.
            The column is no feature. `co.COLUMN` protects feature columns instead, for the one method that can.
        offset
            (party, column) of the label holder: a known part of each row's score, such as log(exposure). For exact
            methods (docs/use/data.md).
        weight
            (party, column) of the label holder: how many rows each row stands for. For exact methods.
        classes
            The two labels' names, the one that is learnt last: ("no", "yes"). Without privacy it may be left out.

        Returns
        -------
        Federation
            The parties in this process, their rows in the order of the key.

        Raises
        ------
        InvalidInput
            A table lacks the key or has no rows, or a column is not what its schema declares.
        """
        if not (isinstance(frames, Mapping) and frames):
            raise InvalidInput("no frames were given: pass {'party': frame, ...} with one frame a party.")
        people: Unit = unit if isinstance(unit, FeatureColumn) else ROW
        if unit is not None and not isinstance(unit, FeatureColumn):
            if isinstance(unit, str) or len(unit) != 2:
                raise InvalidInput(f"unit={unit!r}: give (column, rows), as in unit=('patient', 5).")
            people = Unit(*unit)
        if label is not None and (isinstance(label, str) or len(label) != 2):
            raise InvalidInput(f"label={label!r}: give the pair (party, column).")
        holder, columns = check_pairs(label, offset, weight)
        check_unit(columns, unit)
        own = {*columns.values(), *(() if label is None else label[1:])}
        frames = {name: with_texts(frame, (schemas or {}).get(name)) for name, frame in frames.items()}
        tables = keyed_tables.read_tables(frames, on, holder, own, people)
        for name in schemas or {}:
            require_party(name, tables, "schemas")
        keys = keyed_tables.common_keys(tables, on)
        left = None
        if people != ROW and not isinstance(people, FeatureColumn):
            keys, left = keyed_tables.cut_surplus(keys, tables, on, people)
        y = None
        if label is not None:
            require_party(label[0], tables, "label")
            y = keyed_tables.labels_of(keys, tables, label, on)
        if columns:
            require_party(holder := str(holder), tables, next(iter(columns)))
        values = {w: keyed_tables.labels_of(keys, tables, (str(holder), c), on, w) for w, c in columns.items()}
        holders = keyed_tables.encode_parties(tables, keys[on], schemas or {}, people)
        check_party_names(holders)
        rows = {name: table.beside.height for name, table in tables.items()}
        alignment = Alignment(rows, keys.height, 0 if left is None else left.height)
        column = None if label is None else label[1]
        surplus = keyed_tables.surplus_of(tables, holders, keys, left, label, people)
        beside = Beside(columns, values)
        fed = cls(
            holders, holder or LABELS, alignment, on, column, people, y, keys[on], _surplus=surplus, beside=beside
        )
        return fed._named(classes).with_policies(policies or {})

    @classmethod
    def open(cls, path: str | Path, frames: Mapping[str, Any] | None = None) -> Federation:
        """A federation as its file describes it: its parties run elsewhere, or `frames` holds one frame a party.

        Elsewhere: co.fit(Federation.open("federation.toml"), ..., engine=co.Grpc(...)). With frames, the same
        federation runs in this process.

        Parameters
        ----------
        path
            The federation file.
        frames
            Each party's table, by its name, as in `from_frames`; None: they are elsewhere.
        """
        file = FederationFile.load(path)
        if frames is None:
            return cls.elsewhere(file)
        if file.on is None or any(member.schema is None for member in file.members.values()):
            raise InvalidInput(f"{path} describes plain matrices; in one process, use Federation.split for those.")
        if set(frames) != set(file.members):
            raise InvalidInput(f"{path} names {list_names(file.members)}; frames were given for {list_names(frames)}.")
        schemas = {name: member.schema for name, member in file.members.items() if member.schema is not None}
        policies = {name: member.policy for name, member in file.members.items()}
        ordered = {name: frames[name] for name in file.members}
        unit = (file.unit.name, file.unit.rows) if file.unit != ROW else None
        beside = {"offset": file.offset, "weight": file.weight}
        fed = cls.from_frames(ordered, file.on, file.label, schemas=schemas, policies=policies, unit=unit, **beside)
        return fed if file.positive is None else fed.with_classes(file.positive, file.negative)

    @classmethod
    def elsewhere(cls, file: FederationFile, rows: int | None = None, session: str = "") -> Federation:
        """What everybody knows of a federation whose parties run elsewhere.

        Parameters
        ----------
        file
            The federation file.
        rows
            How many rows they have in common, once they have agreed on them.
        session
            The agreement's name.
        """
        if file.unit != ROW and file.people is None:
            what = f"the federation file protects a {file.unit.name}, and does not say which party cuts surplus rows"
            raise InvalidInput(f'{what}: add people = "PARTY", the one whose table has that column.')
        parties = {}
        places = {}
        start = 0
        at = 0
        by_rows = file.by == SplitBy.ROWS
        total = rows if rows is not None else file.rows or 0
        for name, member in file.members.items():
            own = int(member.rows or 0) if by_rows else total
            where = np.arange(member.width) + (0 if by_rows else start)
            # Its size is known, and nothing that it holds.
            empty = sparse.csc_array((own, member.width))
            features = member.schema.features if member.schema else LazyNames(None, where.tolist())
            parties[name] = Party(name, Block(empty, where, unit=file.unit), features, member.policy, member.schema)
            if by_rows:
                places[name] = np.arange(at, at + own)
            start = start + member.width
            at = at + own
        alignment = Alignment({name: party.block.rows for name, party in parties.items()}, at if by_rows else total)
        holder, column = file.label
        check_party_names(parties)
        fed = cls(parties, holder, alignment, file.on, column, file.unit, places=places, away=file, session=session)
        return replace(fed, beside=Beside(file.beside), classes=file.classes)

    def to_file(self) -> FederationFile:
        """The federation file of this federation, with fresh keys that live in memory only."""
        if self.on is None or self.label_column is None:
            raise InvalidInput("only a federation made with from_frames(..., label=...) has a federation file.")
        members = {n: Member(p.schema or Schema(()), p.policy, new_key()[0]) for n, p in self.parties.items()}
        beside: dict[str, Any] = {name: (self.label, column) for name, column in self.beside.columns.items()}
        beside |= {} if self.classes is None else as_named(self.classes)
        return FederationFile(members, self.on, (self.label, self.label_column), self.unit, **beside)

    def _named(self, classes: Any) -> Federation:
        return self if classes is None else self.with_classes(*reversed(check_classes(classes)))

    def with_policies(self, policies: Mapping[str, Policy]) -> Federation:
        """The same federation with other policies for the parties named.

        Parameters
        ----------
        policies
            By party, what it allows.
        """
        if not isinstance(policies, Mapping):
            raise InvalidInput(f"policies={policies!r}: give {{party: co.Policy(...)}}.")
        for name, policy in policies.items():
            require_party(name, self.parties, "policies")
            if not isinstance(policy, Policy):
                raise InvalidInput(f"the policy of {name!r} is {policy!r}: give co.Policy(...).")
        parties = {n: replace(p, policy=policies.get(n, p.policy)) for n, p in self.parties.items()}
        return replace(self, parties=parties)

    def without(self, *names: str) -> Federation:
        """The same rows without some parties, for a run that starts anew when they dropped out.

        It is another federation: its runs have ids, keys and masks of their own, and every party that is left approves
        their terms again.

        Parameters
        ----------
        *names
            The parties to leave out; never the label holder.
        """
        for name in names:
            require_party(name, self.parties, "without")
        if self.label in names:
            raise InvalidInput(f"{self.label!r} holds the labels; without it there is nothing to fit.")
        left = {name: party for name, party in self.parties.items() if name not in names}
        if not any(party.block.columns or party.block.cells is not None for party in left.values()):
            raise InvalidInput("no party with columns is left.")
        return replace(self, parties=left)

    @property
    def declared(self) -> bool:
        """Whether the figures of all columns are known; else a private run looks for them first, at a price."""
        return all(party.schema is None or party.schema.declared for party in self.parties.values())

    def looked(self, schemas: Mapping[str, Schema]) -> Federation:
        """The same rows, encoded with the figures that a look found.

        Parameters
        ----------
        schemas
            By party, its schema with all figures.
        """
        parties = {}
        start = 0
        left = {} if self._surplus is None else dict(self._surplus.matrices)
        left_out = dict(self.left_out)
        for name, party in self.parties.items():
            block = party.block
            schema = schemas.get(name, party.schema)
            if (
                schema is not None
                and party.schema is not None
                and not party.schema.declared
                and block.cells is not None
            ):
                kept = {column.name for column in schema.columns}
                if faint := tuple(one.name for one in party.schema.columns if one.name not in kept):
                    left_out[name] = faint
                own = block.cells.encoded(schema)
                block = replace(block, matrix=own.matrix, owner_notes=own.owner_notes(), beyond=own.clipped, cells=None)
                if self._surplus is not None:
                    left[name] = self._surplus.cells[name].encoded(schema).matrix
            block = replace(block, positions=np.arange(start, start + block.columns))
            start += block.columns
            features = party.features if schema is None else schema.features
            parties[name] = replace(party, block=block, features=features, schema=schema)
        surplus = None if self._surplus is None else replace(self._surplus, matrices=left, cells={})
        return replace(self, parties=parties, _surplus=surplus, left_out=left_out)

    def without_label_range(self) -> Federation:
        """The same, where the range of labels need not be looked for: it is known, or they are classes."""
        parties = {}
        for name, party in self.parties.items():
            schema = party.schema
            if schema is not None and schema.label is not None and not schema.label.declared:
                schema = replace(schema, label=None)
                party = replace(party, schema=schema)
                if schema.declared:
                    party = replace(party, features=schema.features)
            parties[name] = party
        return replace(self, parties=parties)

    def stand_in(self) -> Federation:
        """The same parties with figures that nobody has found and rows that hold nothing: for checks before a look."""
        parties = {}
        for name, party in self.parties.items():
            schema = None if party.schema is None else party.schema.stand_in()
            block = party.block
            if schema is not party.schema and schema is not None:
                block = replace(block, matrix=sparse.csc_array((block.rows, schema.width)), cells=None)
            parties[name] = replace(party, block=block, schema=schema)
        return replace(self, parties=parties, _surplus=None).looked({})

    def read_off(self) -> Federation:
        """The same rows with figures read off them, as a run without privacy takes them."""
        own = {name: party.block.cells for name, party in self.parties.items() if party.block.cells is not None}
        return self.looked({name: cells.read_off() for name, cells in own.items()})

    @property
    def labelled(self) -> bool:
        """Whether the labels are here."""
        return self._y is not None

    def ordered(self, secret: bytes) -> Federation:
        """The rows as a private run takes them: in the order of their keys' digests under this secret (row_order.py).

        Of people with surplus rows others may stay than in the order of the key; their number is the same.

        Parameters
        ----------
        secret
            The store's own, so that the order tells nobody who is in the table.
        """
        import polars as pl

        assert self.keys is not None, "rows of one table have places and no keys"
        assert not self.beside.columns, "a private run takes no offset and no weight"
        keys = self.keys
        further = None
        people = None
        if self._surplus is not None:
            keys = pl.concat([keys, self._surplus.keys])
            further = self._surplus
            people = self._surplus.people
        _, places = in_order(keys, secret, people, self.unit.rows)
        parties = {}
        for name, party in self.parties.items():
            matrix = take_rows(party.block.matrix, further and further.matrices[name], places)
            cells = party.block.cells
            if cells is not None:
                cells = cells.gather(places, further and further.cells[name])
            parties[name] = replace(party, block=replace(party.block, matrix=matrix, cells=cells))
        y = None if self._y is None else take_rows(self._y, further and further.labels, places)
        return replace(self, parties=parties, _y=y, keys=keys.gather(places), _surplus=None)

    def with_curve_depth(self, depth: int) -> Federation:
        """The same rows with curves of this depth wherever a schema leaves that to the method.

        Parameters
        ----------
        depth
            How often a number's range is halved; 0: lines.
        """
        if not depth or self.depth:
            return self
        schemas = {
            name: party.schema.with_curve_depth(depth)
            for name, party in self.parties.items()
            if party.schema is not None
        }
        # A number's hats follow it in the joint table, and push back what comes after it.
        widths = {name: widths_under(party, schemas.get(name)) for name, party in self.parties.items()}
        old = np.concatenate([party.block.positions for party in self.parties.values()])
        order = np.argsort(old, kind="stable")
        wide = np.concatenate(list(widths.values()))
        starts = np.empty(old.size, np.int64)
        starts[order] = np.cumsum(wide[order]) - wide[order]
        parties = {}
        at = 0
        left = {} if self._surplus is None else dict(self._surplus.matrices)
        for name, party in self.parties.items():
            own = widths[name]
            first = starts[at : at + widths[name].size]
            at += own.size
            places = np.repeat(first, own) + np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
            matrix = party.block.matrix
            schema = schemas.get(name)
            if schema is not None and schema is not party.schema:
                assert party.schema is not None
                # Of parties elsewhere nothing is held but its size.
                empty = sparse.csc_array((party.block.rows, schema.width))
                matrix = party.schema.bend(matrix, depth) if self.away is None else empty
                left |= {name: party.schema.bend(left[name], depth)} if name in left else {}
            block = replace(party.block, matrix=matrix, positions=places)
            features = party.features if schema is None else schema.features
            parties[name] = replace(party, block=block, features=features, schema=schema)
        surplus = None if self._surplus is None else replace(self._surplus, matrices=left)
        return replace(self, parties=parties, _surplus=surplus, depth=depth)

    def as_lines(self) -> Federation:
        """The same rows without the hats of curves, and with columns that no method bends."""
        parties = {}
        start = 0
        for name, party in self.parties.items():
            if party.schema is None:
                lines = None
                block = party.block
            else:
                lines = party.schema.as_lines()
                kept = np.array(party.schema.level) == 0
                block = replace(party.block, matrix=party.block.matrix[:, np.flatnonzero(kept)])
            block = replace(block, positions=np.arange(start, start + block.columns))
            start += block.columns
            parties[name] = replace(
                party, block=block, features=lines.features if lines else party.features, schema=lines
            )
        return replace(self, parties=parties, depth=0, _surplus=None)

    def column_groups(self) -> tuple[tuple[int, ...], ...]:
        """Places of encoded columns that come from one column of a schema; of a plain matrix each by itself."""
        groups = list[tuple[int, ...]]()
        for party in self.parties.values():
            places = party.block.positions.tolist()
            if party.schema is None:
                groups += [(place,) for place in places]
            else:
                groups += [tuple(places[own]) for _, own in spans_of(party.schema.columns)]
        return tuple(groups)

    def relabelled(self, y: NDArray[Any], surplus: NDArray[Any] | None = None) -> Federation:
        """The same rows with other labels.

        Parameters
        ----------
        y
            One label a row.
        surplus
            Labels of the rows that were left out because their person has too many.
        """
        left = None if self._surplus is None or surplus is None else replace(self._surplus, labels=surplus)
        return replace(self, _y=y, _surplus=left, classes=None)

    def with_classes(self, positive: Name, negative: Name | None = None) -> Federation:
        """The same rows with two classes that have names: the one that is learnt, and the other.

        Labels are compared as text: "1" is 1.

        Parameters
        ----------
        positive
            The class that is learnt, +1.
        negative
            The other; None: every other label is of it.
        """
        where = f"party {self.label!r}, label {self.label_column!r}" if self.label_column else "the labels"
        every = [self.targets] if self.surplus_labels is None else [self.targets, self.surplus_labels]
        check_named(every, positive, negative, where)
        return self.with_names((other_class(positive, negative), positive))

    def with_names(self, classes: Classes) -> Federation:
        """The same rows with classes of these names; a label that is neither is of the first.

        Parameters
        ----------
        classes
            What −1 and +1 are called, in this order.
        """
        further = () if self.surplus_labels is None else (signs_of(self.surplus_labels, classes[1]),)
        return replace(self.relabelled(signs_of(self.targets, classes[1]), *further), classes=classes)

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
        """How many rows all parties have in common."""
        return self.alignment.matched

    @property
    def by_rows(self) -> bool:
        """Whether each party holds all columns of its own rows, instead of its own columns of all rows."""
        return bool(self.places)

    @property
    def labels(self) -> NDArray[Any]:
        """The labels in their own values, in the order of the federation's rows."""
        return self.targets if self.classes is None else called(self.targets > 0.0, self.classes)

    @property
    def targets(self) -> NDArray[Any]:
        """The labels that a run learns from: −1 and 1, where classes have names, else as they came."""
        if self.away is not None:
            raise HeldByParty(f"the labels are held by {self.label!r} and did not leave it.")
        if self._y is None:
            raise InvalidInput("this federation holds no labels: pass label=(party, column) to from_frames.")
        return self._y

    def example_names(self, party: str) -> Sequence[str]:
        """Names of a party's rows, where rows are split: "row 17" is the table's eighteenth.

        Parameters
        ----------
        party
            Its name.
        """
        return LazyNames(None, self.places[party].tolist(), "row ")

    def roster(self) -> Roster:
        """What everybody knows before a run."""
        positions = {name: tuple(party.block.positions.tolist()) for name, party in self.parties.items()}
        held = {p: at.size for p, at in self.places.items()}
        known = {name: public_bounds(p.schema) for name, p in self.parties.items() if p.schema and p.schema.bounded}
        responses = self._y.shape[1] if self._y is not None and self._y.ndim == 2 else 0
        schemas = [p.schema for p in self.parties.values() if p.schema is not None]
        every = zip_longest(*(schema.auto_curve_counts for schema in schemas), fillvalue=0)
        left = () if self.depth or self.by_rows else tuple(sum(counts) for counts in every)
        known_to_all = (self.rows, positions, self.label, self.unit, held, known, responses, left, self.depth)
        policies = [party.policy for party in self.parties.values()]
        schemas_of = {name: party.schema for name, party in self.parties.items() if party.schema is not None}
        sought = {name: sought_in(schema) for name, schema in schemas_of.items() if not schema.declared}
        return Roster(*known_to_all, tuple(self.beside.columns), quorum_of(policies), sought)

    def _repr_html_(self) -> str:
        return shown_parties(self.parties.values(), self.alignment, self.label, self.label_column, self.on)

    def __repr__(self) -> str:
        if self.by_rows:
            return f"Federation({', '.join(f'{name}: {at.size:,} rows' for name, at in self.places.items())})"
        widths = ", ".join(f"{name}: {party.block.columns:,} columns" for name, party in self.parties.items())
        return f"Federation({widths}; labels at {self.label!r}; {self.alignment})"


def table_federation(
    X: Any,
    y: Any,
    parties: int | Mapping[str, Any],
    schemas: Mapping[str, Schema] | None = None,
    label: str | None = None,
) -> Federation:
    """One table between parties: by places or names of columns, or as their schemas say."""
    if schemas is None:
        return Federation.split(X, y, parties, label=label)
    import polars as pl

    frame = as_frame(X)
    holder = label or "labels"
    frames = {}
    for party, schema in schemas.items():
        names = [column.name for column in schema.columns]
        if absent := [name for name in names if name not in frame.columns]:
            raise InvalidInput(f"the schema of {party!r} names {absent[0]!r}, which X does not have; add that column.")
        frames[party] = frame.select(names).with_row_index(ROW_KEY)
    own = frames.get(holder, pl.DataFrame({ROW_KEY: pl.Series(range(frame.height), dtype=pl.UInt32)}))
    frames[holder] = own.with_columns(pl.Series(LABEL, np.asarray(y)))
    return Federation.from_frames(frames, ROW_KEY, (holder, LABEL), schemas=schemas)
