"""The data of one party, made ready for runs: rows in the common order, columns encoded, labels if it has them; scores.

Everything here is exact and stays with the party. A run of scores names a model by the run that made it: each party
takes the coefficients that it kept of that run, from this store or the one its file names (`models`). The sum of all
parts stays with the label holder: `scores/RUN.parquet` in its store, with the key of each row.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data import row_order
from colonnade.data.alignment import Agreement, RowOffer, offer
from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile, SplitBy
from colonnade.data.labels import count_strange, signs_of
from colonnade.data.notices import LabelCounts, about_columns, about_labels, about_levels, count_labels
from colonnade.data.schema.cells import holds_numbers, is_frame
from colonnade.data.text_file import UNREADABLE, read_text
from colonnade.errors import InvalidInput
from colonnade.fields import Finite, Number, Table, read
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.node_setup import usable_labels
from colonnade.model.job import Job, Roster
from colonnade.network.questions import is_name
from colonnade.privacy.block import Block
from colonnade.privacy.store import write_synced

if TYPE_CHECKING:
    import polars as pl


class _Seen(NamedTuple):
    """What an operator should know of its whole table, and what a job's notices are made of."""

    nothing: tuple[str, ...]  # columns that carry nothing, or why the table cannot be encoded
    unused: tuple[str, ...]  # declared levels that no row has, for information
    labels: LabelCounts | None
    unusable: str = ""  # why the table cannot be encoded


@dataclass(eq=False)
class PartyData:
    """The table of one party: a frame with the key, or a plain matrix whose rows need no key."""

    file: FederationFile
    name: str
    table: Any = field(repr=False)  # a polars frame, an array or a sparse matrix
    labels: NDArray[Any] | None = field(default=None, repr=False)  # beside a plain matrix
    models: Path | None = None  # of new rows, scored and not learned from: the store with its parts of the models

    def __post_init__(self) -> None:
        member = self.file.members.get(self.name)
        if member is None:
            listed = ", ".join(self.file.members)
            raise InvalidInput(f"{self.name!r} is not a party of the federation file; there are {listed}.")
        self.member = member
        if self.file.on is not None:
            self._check_frame(self.file.on)
        else:
            self._check_matrix((member.rows if self.file.by == SplitBy.ROWS else self.file.rows) or 0)

    def _check_frame(self, on: str) -> None:
        if not is_frame(self.table):
            raise InvalidInput(
                f"the table of {self.name!r} is a plain matrix without names, and by the federation file rows are "
                f"matched by the key {on!r}: name a table that has this column (CSV, Parquet, Arrow or a database)."
            )
        if self.labels is not None:
            raise InvalidInput(
                f"labels = ... of {self.name!r} goes with a plain matrix; here the labels are the column "
                f"{self.file.label[1]!r} of {self.file.label[0]!r}. Leave labels out."
            )
        held, (holder, label) = list(getattr(self.table, "columns", [])), self.file.label
        wanted = [on, *(column.name for column in self.member.schema.columns)] if self.member.schema else [on]
        beside = self.file.beside if self.labelled and holder == self.name else {}
        wanted += [label, *beside.values()] if self.labelled and holder == self.name else []
        wanted += [self.file.unit.name] if self.file.people == self.name else []
        if absent := [column for column in wanted if column not in held]:
            raise InvalidInput(
                f"the table of {self.name!r} has no column {absent[0]!r}, which the federation file names; "
                f"it has {', '.join(held[:12])}{' and more' if len(held) > 12 else ''}."
            )
        if self.member.most is not None and self.rows > self.member.most:
            raise InvalidInput(
                f"the table of {self.name!r} has {self.rows:,} rows, and by the federation file it may align "
                f"{self.member.most:,} at most. Have `most` raised there, at all parties."
            )
        if self.labelled and holder == self.name and (nulls := self.table[label].null_count()):
            raise InvalidInput(f"the label {label!r} is missing in {nulls:,} rows of {self.name!r}; leave them out.")
        for what, column in beside.items():
            if nulls := self.table[column].null_count():
                raise InvalidInput(f"the {what} {column!r} is missing in {nulls:,} rows of {self.name!r}; fill it in.")
        self._check_types(label if self.labelled and self.file.classes is None else None, beside)

    def _check_types(self, label: str | None, beside: Mapping[str, str]) -> None:
        """By the types of columns alone, which tell about no row: a run would stop at them when it is paid for."""
        for what, column in {**beside, **({} if label is None else {"label": label})}.items():
            if not holds_numbers(kind := self.table.schema[column]):
                words = ', or name the class that is learnt in the federation file: positive = "..."'
                raise InvalidInput(
                    f"the {what} {column!r} of {self.name!r} holds {kind}, and must be a number. Convert it"
                    f"{words if what == 'label' else ''}."
                )
        if self.member.schema is not None:
            self.member.schema.check_types(self.table.schema)

    def _check_matrix(self, rows: int) -> None:
        shape = getattr(self.table, "shape", ())
        if is_frame(self.table):
            raise InvalidInput(
                f"the table of {self.name!r} has named columns, and the federation file names no key to match rows by: "
                'add on = "..." and its schema there, or save a plain matrix of numbers (numpy.save) and name that.'
            )
        if tuple(shape) != (rows, self.member.width):
            raise InvalidInput(
                f"the federation file gives {self.name!r} {rows:,} rows and {self.member.width:,} columns, not "
                f"{' x '.join(map(str, shape))}."
            )
        kind = self.table.dtype
        # To read texts as numbers would quote a cell, or fail for one.
        if kind.kind not in "biuf":
            raise InvalidInput(
                f"the matrix of {self.name!r} is of type {kind} and holds no numbers: save floats, integers or "
                "Booleans."
            )
        if not self.labelled:
            return
        if self.labels is None or self.labels.shape != (rows,):
            found = "none" if self.labels is None else " x ".join(f"{size:,}" for size in self.labels.shape) or "one"
            raise InvalidInput(
                f"{self.name!r} holds the labels of {rows:,} rows; {found} were given. Name a file with one for each "
                "row: labels = ..."
            )
        if self.labels.dtype.kind not in "biuf":
            raise InvalidInput(
                f"the labels of {self.name!r} are of type {self.labels.dtype}: save numbers, 1 for the class that is "
                "learnt and 0 for the other."
            )

    def check_width(self, roster: Roster) -> None:
        """Before a run is reserved: the table has as many columns as everybody counts on."""
        schema = self.member.schema
        due = len(roster.positions[self.name])
        width = self.table.shape[1] if schema is None else schema.with_curve_depth(roster.depth).width
        if width != due:
            raise InvalidInput(
                f"{self.name!r} holds {width:,} encoded columns, and the run counts on {due:,}. Nothing was sent. "
                "Compare the federation file with the table, at all parties."
            )

    @property
    def scoring(self) -> bool:
        return self.models is not None

    @property
    def holds_labels(self) -> bool:
        return self.file.label[0] == self.name or self.file.by == SplitBy.ROWS

    @property
    def labelled(self) -> bool:
        return self.holds_labels and not self.scoring

    @property
    def rows(self) -> int:
        return int(self.table.shape[0])

    def offer(self, pepper: bytes) -> RowOffer:
        """Its keyed digests, cut to the unit's rows where this party knows whom rows are about."""
        assert self.file.on is not None
        unit = self.file.unit
        cuts = self.file.people == self.name
        people = self.table[unit.name] if cuts else None
        return offer(self.keys, pepper, least=self.member.policy.least, people=people, rows=unit.rows)

    @property
    def keys(self) -> pl.Series:
        assert self.file.on is not None
        keys: pl.Series = self.table[self.file.on]
        return keys

    def federation(self, agreement: Agreement | None) -> Federation:
        """What everybody knows, from this party's own copy of the federation file."""
        if agreement is None:
            return Federation.elsewhere(self.file)
        return Federation.elsewhere(self.file, agreement.rows, agreement.session)

    def block(self, job: Job, agreement: Agreement | None, *, learns: bool = True) -> Block:
        """Its columns in the common order of rows, with labels as the loss wants them if the run learns from them."""
        assert agreement is not None or self.file.on is None
        return self._block(job, agreement, learns)

    def rehearse(self, job: Job | None, agreement: Agreement | None) -> None:
        """Refuse what a run would refuse of this table; without an agreement on rows all of them are tried."""
        if agreement is None and self.file.on is not None:
            self.offer(secrets.token_bytes(32))
        self._block(job, agreement, job is not None)

    def _block(self, job: Job | None, agreement: Agreement | None, learns: bool) -> Block:
        depth = 0 if job is None else job.roster.depth
        place = self.federation(agreement).with_curve_depth(depth).parties[self.name].block.positions
        notes: tuple[str, ...] = ()
        beside: dict[str, NDArray[Any]] = {}
        if self.file.on is None:
            matrix = self._matrix()
            labels = self.labels
        else:
            own = self.table if agreement is None else self.table[agreement.places(self.offer(agreement.pepper))]
            holder, column = self.file.label
            labels = self._labels_in(own[column], job) if learns and holder == self.name else None
            if labels is not None:
                beside = {what: own[name].to_numpy() for what, name in self.file.beside.items()}
            assert self.member.schema is not None
            schema = self.member.schema.with_curve_depth(depth)
            encoded = schema.encode(own) if schema.width else None
            matrix = np.zeros((own.height, 0)) if encoded is None else encoded.matrix
            notes = () if encoded is None else encoded.owner_notes()
        block = Block(matrix, place, unit=self.file.unit, owner_notes=notes)
        if job is None or not (learns and self.holds_labels):
            return block
        return replace(block, labels=usable_labels(np.asarray(labels), job, beside))

    def _labels_in(self, column: pl.Series, job: Job | None) -> NDArray[Any]:
        """Labels of its table: numbers, or −1 and 1 where the federation file names a class. A private run takes every
        other word for the other class: an error would tell whether one occurs."""
        labels = column.to_numpy()
        classes = self.file.classes
        if classes is None:
            return labels
        private = job is not None and job.privacy is not None
        if self.file.negative is not None and not private and (strange := count_strange(labels, classes)):
            what = f"{strange:,} of {labels.size:,} labels of {self.name!r} are neither positive nor negative"
            raise InvalidInput(
                f"{what} by the federation file. Leave those rows out, or leave negative out of the file."
            )
        return signs_of(labels, classes[1])

    @cached_property
    def seen(self) -> _Seen:
        """Of all its rows and labels, for this party's operator alone.

        Looked at before any run is proposed: nothing that others see or time depends on it.
        """
        try:
            return _Seen(*self._see_columns(), self._count_labels())
        except InvalidInput as error:
            why = str(error)
        except Exception as error:
            # Whatever a row made of it: it is not to be seen in an answer to the hub.
            why = f"the table could not be looked at ({type(error).__name__})"
        paid = "the table cannot be encoded, and a run would stop at that when it is paid for"
        return _Seen((f"{paid}: {why}",), (), self._count_labels(), why)

    def check_usable(self) -> None:
        """Before it takes part: a table with cells that no run can use is its operator's business, and nobody else has
        asked about it yet. A run would find them when it is paid for."""
        if self.seen.unusable:
            raise InvalidInput(f"the table of {self.name!r} cannot be encoded. {self.seen.unusable}")

    def _see_columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        schema = self.member.schema
        beyond: Mapping[str, int] = {}
        if self.file.on is not None and not (schema and schema.width):
            return (), ()
        if schema is None:
            matrix = self._matrix()
        else:
            encoded = schema.encode(self.table)
            matrix = encoded.matrix
            beyond = encoded.clipped
        if self.scoring:
            return (), ()
        block = Block(matrix, np.arange(matrix.shape[1]), beyond=beyond)
        return about_columns(schema, block), about_levels(schema, block)

    def _count_labels(self) -> LabelCounts | None:
        if not self.labelled:
            return None
        try:
            if self.file.on is None:
                return count_labels(self.labels)
            column = self.table[self.file.label[1]].to_numpy()
            return count_labels(column if self.file.classes is None else signs_of(column, self.file.classes[1]))
        except Exception:  # as above
            return None

    def notices(self, job: Job) -> tuple[str, ...]:
        """What a private run would spend this party's budget on for nothing."""
        return () if job.privacy is None else (*self.seen.nothing, *about_labels(self.seen.labels, job))

    def keys_in_order(self, agreement: Agreement) -> pl.Series:
        """The keys of the common rows, in the common order."""
        return self.keys.gather(agreement.places(self.offer(agreement.pepper)))

    def _matrix(self) -> Any:
        # A warning may be an error, which others see.
        with np.errstate(over="ignore", invalid="ignore"):
            if not sparse.issparse(self.table):
                return np.ascontiguousarray(self.table, dtype=np.float64)
            matrix = sparse.csc_array(self.table, dtype=np.float64)
            matrix.sum_duplicates()
            return matrix


def part_path(store: Path, run: str) -> Path:
    """Where a party's part of a run's model is."""
    return store / "fits" / f"{run}.part.json"


class PartTable(Table, frozen=True):
    """A party's part of a model, as `PartyRun` writes it."""

    format: Literal["colonnade part"]
    version: Literal[1]
    party: str
    features: list[str] | None
    coefficients: list[Finite]
    intercept: Finite | None
    run: str = ""
    objective: Number | None = None
    gap: Number | None = None
    members: tuple[str, ...] = ()  # pinned keys of those who took part, and so know the common rows


def read_part(path: Path, party: str) -> Any:
    """A party's part of a model."""
    text = read_text(path)
    try:
        raw = json.loads(text)
        part: PartTable = read(raw, PartTable)
        if part.party != party:
            raise InvalidInput(f"it is the part of {part.party!r}")
        if part.features is not None and len(part.features) != len(part.coefficients):
            raise InvalidInput("features and coefficients differ in length")
    except UNREADABLE as error:
        why = f": {error}" if isinstance(error, InvalidInput) else ""
        what = f"{path} is not this party's part of a model, or it is damaged{why}"
        raise InvalidInput(f"{what}. Nothing was sent. Restore it from a copy.") from error
    return raw


def rows_path(store: Path, run: str) -> Path:
    """Where a party keeps which rows a run's model was learned from: a random key, and digests under it."""
    return store / "fits" / f"{run}.rows"


def basis_path(store: Path, run: str) -> Path:
    """Where a party keeps what fallbacks of a run's model follow from: a digest (runs/refit.py)."""
    return store / "fits" / f"{run}.basis"


class Scoring:
    """One party's models and scores."""

    def __init__(self, data: PartyData, store: Path) -> None:
        self.data = data
        self.store = store
        self.models = data.models or store

    def equip(self, method: MaskedScores) -> MaskedScores:
        """The method with this party's own coefficients of the model it names."""
        part = self._part(method.model)
        member = self.data.member
        x = np.asarray(part["coefficients"], np.float64)
        features = list(member.schema.with_curve_depth(method.curves).features) if member.schema is not None else None
        width = member.width if features is None else len(features)
        if x.shape != (width,) or part["features"] != features:
            raise InvalidInput(
                f"{self.data.name!r} brings other columns than run {method.model} had. Nothing was sent."
            )
        # On a graph the label holder knows the intercept, and the hub does not.
        own = part["intercept"]
        return replace(method, coefficients={self.data.name: x}, intercept=method.intercept if own is None else own)

    def _part(self, model: str) -> Any:
        path = part_path(self.models, model)
        # A name first: the hub chose it, and it becomes a path.
        if not is_name(model) or not path.is_file():
            raise InvalidInput(
                f"{self.data.name!r} has no part of that model. Nothing was sent. Name the store with it: models = ..."
            )
        return read_part(path, self.data.name)

    def keep_rows(self, run: str, agreement: Agreement) -> None:
        """Keep which rows a model was learned from, so that they can be refused when scores are asked for."""
        secret = secrets.token_bytes(row_order.SECRET)
        known = row_order.digests(self.data.keys_in_order(agreement), secret, "training")
        # The order of a run's rows is nobody's business.
        order = np.argsort(row_order.as_words(known))
        write_synced(rows_path(self.store, run), secret + known[order].tobytes(), private=True)

    def keep(self, run: str, scores: NDArray[np.float64], agreement: Agreement | None) -> None:
        """Write the scores down, beside the keys of their rows."""
        import polars as pl

        frame = pl.DataFrame({"score": scores})
        if agreement is not None:
            keys = row_order.as_whole_numbers(self.data.keys_in_order(agreement))
            frame = frame.insert_column(0, keys.alias("key") if keys.name == "score" else keys)
        body = io.BytesIO()
        frame.write_parquet(body)
        path = self.store / "scores" / f"{run}.parquet"
        path.parent.mkdir(exist_ok=True)
        write_synced(path, body.getvalue(), private=True)
