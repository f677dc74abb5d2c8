"""What a configuration file declares of columns and labels, and what in it is still to be confirmed.

    [data.label]
    party = "bank"
    column = "subscribed"
    positive = "yes"                    # the class that is learnt; or low and high, for a label that is a number
    negative = "no"                     # the other class; left out: every other value
    source = "data"

    [[data.parties.registry.column]]    # as in a schema file, and one key more
    type = "numeric"
    name = "age"
    low = 17.0
    high = 98.0
    source = "data"                     # read off the rows, and to be confirmed

`source` is "data" as long as nobody has said that the figures beside it may be known: a private run refuses them.
Without it they are declared. "public" says that they were read off the rows and are declared public all the same, which
the run's statement repeats; `colonnade fit --bounds-are-public` says so of all that are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from colonnade.data.federation import Federation
from colonnade.data.labels import in_words
from colonnade.data.schema.column import Column
from colonnade.data.schema.columns import Numeric
from colonnade.data.schema.table import Schema, Source, SourceField, column_from
from colonnade.errors import InvalidInput
from colonnade.fields import Table, Wrong, inside, must, read

CONFIRM = (
    "These figures were read off the rows and tell about single people. Replace each by one that you would print in a "
    'data dictionary without looking at the rows, and remove its line source = "data"; or, if all may be known, '
    "say --bounds-are-public, which the privacy statement repeats. Nothing was spent."
)


class Mark(NamedTuple):
    """A place of the file, or a schema's own file, whose figures are to be confirmed."""

    place: str
    what: str
    table: int = 0


_Class = Annotated[str | int | bool, must("a class as the table writes it", "yes")]
_Pair = Annotated[tuple[str, str], must("a pair", ["clinic", "readmitted"])]


class LabelTable(Table, frozen=True):
    """[data.label] as it is written."""

    party: Annotated[str, must("a text, who holds the label", "clinic")]
    column: Annotated[str, must("a text, the column of its table", "readmitted")]
    positive: _Class | None = None
    negative: _Class | None = None
    low: Any = None
    high: Any = None
    source: SourceField = Source.DECLARED


@dataclass(frozen=True)
class Label:
    """Who holds the label, in which column, and what is public about it."""

    party: str
    column: str
    positive: str | None = None
    negative: str | None = None
    range: Numeric | None = None
    source: Source = Source.DECLARED

    @classmethod
    def read(cls, raw: Any) -> Label:
        """From a pair, or from the table [data.label]."""
        if raw is None:
            raise Wrong("data", 'has no label; say who holds it: label = ["clinic", "readmitted"]')
        if not isinstance(raw, dict):
            return cls(*read(raw, _Pair, "data.label"))
        said: LabelTable = read(raw, LabelTable, "data.label")
        if said.negative is not None and said.positive is None:
            raise Wrong("data.label.negative", 'needs positive = "...", the class that is learnt')
        words = {key: in_words(raw[key]) for key in ("positive", "negative") if key in raw}
        if words and words.get("negative") == words["positive"]:
            raise Wrong("data.label.negative", "is the positive class; name the other one, or leave it out")
        ends = {key: raw[key] for key in ("low", "high") if key in raw}
        with inside("data.label"):
            declared = column_from({"type": "numeric", "name": said.column, **ends}) if ends else None
        if ends and words:
            raise Wrong("data.label.positive", "is for classes, and low and high are for numbers; leave one out")
        return cls(said.party, said.column, range=cast("Numeric | None", declared), source=said.source, **words)

    def named(self, federation: Federation, classifies: bool) -> Federation:
        """The federation with classes that have names, where the file names them."""
        if self.positive is None:
            if federation.targets.dtype.kind not in "biuf":
                named = 'name the class that is learnt, as in positive = "yes", in a table [data.label]'
                raise Wrong("data.label", f"is {self.column!r}, which holds texts: {named}")
            return federation
        if not classifies:
            raise Wrong("data.label.positive", 'is for two classes: write loss = "Logistic", or low and high instead')
        return federation.with_classes(self.positive, self.negative)


def read_schemas(
    folder: Path, parties: Mapping[str, Any], label: Label, public: bool
) -> tuple[dict[str, Schema], list[Mark]]:
    """The parties' schemas, from their files or from the tables of their columns, and what is to be confirmed."""
    schemas = dict[str, Schema]()
    marks = list[Mark]()
    for name, party in parties.items():
        where = f"data.parties.{name}"
        if "schema" in party and "column" in party:
            raise Wrong(f"{where}.schema", f"names a file, and [[{where}.column]] declares columns: keep one of them")
        if "schema" in party:
            schemas[name] = Schema.from_toml(folder / str(party["schema"]))
            marked = schemas[name].source == Source.DATA
            file = f'names {party["schema"]}, which has the line source = "data"'
            marks += [Mark(f"{where}.schema", file)] if marked else []
        elif "column" in party:
            columns, sources = _columns(where, party["column"])
            schemas[name] = Schema(tuple(columns), source=_of_all(sources))
            at = [place for place, source in enumerate(sources) if source is Source.DATA]
            marks += [Mark(f"{where}.column.source", f'of {columns[k].name!r} is "data"', k) for k in at]
    if label.source is Source.DATA:
        marks.append(Mark("data.label.source", 'is "data"'))
    _add_label(schemas, label)
    if public:
        schemas = {
            n: replace(one, source=Source.PUBLIC) if one.source == Source.DATA else one for n, one in schemas.items()
        }
        marks = []
    return schemas, marks


def _add_label(schemas: dict[str, Schema], label: Label) -> None:
    """What is declared of the label belongs to the schema of its holder."""
    if label.source is Source.DECLARED and label.range is None:
        return
    if label.party not in schemas:
        raise Wrong("data.label", f"declares figures, and party {label.party!r} has no schema; declare its columns")
    own = schemas[label.party]
    both = replace(own, source=_of_all((own.source, label.source)))
    schemas[label.party] = both if label.range is None else replace(both, label=label.range)


def _columns(where: str, raw: list[dict[str, Any]]) -> tuple[list[Column], list[Source]]:
    columns = list[Column]()
    sources = list[Source]()
    for place, item in enumerate(raw):
        try:
            source = read(item.get("source", Source.DECLARED), SourceField, "source")
            columns.append(column_from({key: value for key, value in item.items() if key != "source"}))
        except InvalidInput as error:
            raise Wrong(f"{where}.column", f"number {place + 1}: {error}", place) from error
        sources.append(source)
    return columns, sources


def _of_all(sources: Sequence[str]) -> Source:
    """Of several figures together: what the least public of them is."""
    return next((source for source in (Source.DATA, Source.PUBLIC) if source in sources), Source.DECLARED)


def refuse_marks(marks: Sequence[Mark]) -> None:
    """An error at the first of the marks that are left."""
    if marks:
        first = marks[0]
        more = f", and {len(marks) - 1:,} more like it" if len(marks) > 1 else ""
        raise Wrong(first.place, f"{first.what}{more}. {CONFIRM}", first.table)
