"""Labels: two classes by their names, and what may stand beside each label at the party that holds it.

Classes  which of them is learnt, and what the labels −1 and +1 are called. A name is a text, a Boolean or a number;
         labels are compared with it as a table writes them, so "1" is 1 and "true" is True. Without privacy names may
         be read off the labels. A private run reads none: which labels there are would tell about single rows. The type
         of a column is public, and of Booleans it says both names.
Beside   an offset and a weight. An offset is a known part of a row's score, such as the logarithm of its exposure; a
         weight says how many rows a row stands for. What is minimised then: problem/adjusted.py. Both are columns of
         the label holder: they leave it as the labels do, by the same release, and no other party could bring them
         without knowing whose label they belong to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.data.schema.cells import as_frame
from colonnade.errors import InvalidInput
from colonnade.model.facts import Classes, Name

SAY = "classes=('no', 'yes') in Federation.split or from_frames, or positive = \"yes\" in a file"


def in_words(name: Name) -> str:
    """A class as tables write it: true, not True; 1, not 1.0."""
    if isinstance(name, bool | np.bool_):
        return str(bool(name)).lower()
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def labels_in_words(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as a table writes them; None where one is missing."""
    values = labels.ravel().tolist()
    words = {value: None if value is None or value != value else in_words(value) for value in _different(values)}
    return np.array([words[value] for value in values], dtype=object)


def _different(values: list[Any]) -> dict[Any, None]:
    try:
        return dict.fromkeys(values)
    except TypeError:
        # Of a list or a table; its message may quote it.
        raise InvalidInput("some labels are neither texts nor numbers: give one value a row.") from None


def check_classes(given: Any, advice: str = "") -> Classes:
    """(negative, positive), two different names."""
    pair = list(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else []
    names = [name.item() if isinstance(name, np.generic) else name for name in pair]
    plain = all(isinstance(n, str | bool | int) or (isinstance(n, float) and math.isfinite(n)) for n in names)
    if len(names) != 2 or not plain or in_words(names[0]) == in_words(names[1]):
        wanted = advice or "the class that is learnt last, as in ('no', 'yes')"
        raise InvalidInput(f"classes={given!r}: give two different names, {wanted}.")
    return cast(Classes, tuple(names))


def other_class(positive: Name, negative: Name | None) -> Name:
    """What the labels −1 are called: the other Boolean, or every class but the positive one, where none is named."""
    if negative is not None:
        return negative
    return (not positive) if isinstance(positive, bool) else f"not {in_words(positive)}"


def as_named(classes: Classes) -> dict[str, Name]:
    """positive and negative as a file names them, the second where it does not follow from the first."""
    negative, positive = classes
    follows = other_class(positive, None) == negative
    return {"positive": positive} if follows else {"positive": positive, "negative": negative}


def signs_of(labels: NDArray[Any], positive: Name) -> NDArray[np.float64]:
    """1 for the positive class and −1 for all else, whatever it is."""
    return np.where(labels_in_words(labels) == in_words(positive), 1.0, -1.0)


def count_strange(labels: NDArray[Any], classes: Classes) -> int:
    """How many labels are of neither class."""
    words, (negative, positive) = labels_in_words(labels), map(in_words, classes)
    return int(np.count_nonzero((words != positive) & (words != negative)))


def check_named(columns: Sequence[NDArray[Any]], positive: Name, negative: Name | None, where: str) -> None:
    """Whether some label is of the class that is learnt and, where the other is named too, none of a third."""
    rows = sum(len(labels) for labels in columns)
    if not any((signs_of(labels, positive) > 0.0).any() for labels in columns):
        kinds = len(set(np.concatenate([labels_in_words(labels) for labels in columns])))
        what = f"none of {rows:,} labels is {positive!r}; there are {kinds:,} different ones"
        raise InvalidInput(f"{where}: {what}. Name the class as the table writes it.")
    strange = 0 if negative is None else sum(count_strange(labels, (negative, positive)) for labels in columns)
    if strange:
        what = f"{strange:,} of {rows:,} labels are neither {positive!r} nor {negative!r}"
        raise InvalidInput(f"{where}: {what}. Leave those rows out, or name no negative class: then all others are.")


def called(positive: NDArray[np.bool_], classes: Classes | None) -> NDArray[Any]:
    """The names of classes; −1 and +1 where they have none."""
    names = (-1.0, 1.0) if classes is None else classes
    kind = None if len({type(name) for name in names}) == 1 else object
    return np.array(names, dtype=kind)[positive.astype(np.int64)]


def read_classes(labels: NDArray[Any], *, private: bool) -> Classes | None:
    """What the labels themselves call two classes; None: numbers, of which the loss says whether it takes them."""
    values = _different(labels.ravel().tolist()) if labels.dtype.kind == "O" else {}
    if labels.dtype.kind == "b" or (values and all(isinstance(value, bool) for value in values)):
        return (False, True)
    numbers = labels.dtype.kind in "iuf" or (values and all(isinstance(v, int | float) for v in values))
    if private:
        if not numbers:
            what = "the labels are texts, and a private run does not look which there are"
            raise InvalidInput(f"{what}. Name both classes: {SAY}. Nothing was spent.")
        return None
    if numbers:
        found = [value for value in np.unique(labels.astype(np.float64)).tolist() if not math.isnan(value)]
        if labels.ndim != 1 or found not in ([0.0, 1.0], [-1.0, 1.0]):
            return None
        return cast(Classes, tuple(found if labels.dtype.kind == "f" else map(int, found)))
    words = labels_in_words(labels)
    if missing := sum(word is None for word in words.tolist()):
        raise InvalidInput(f"{missing:,} of {words.size:,} labels are missing: leave those rows out.")
    names = sorted(set(words.tolist()))
    if len(names) != 2:
        advice = "check the label column" if len(names) < 2 else f"name the one that is learnt and the rest: {SAY}"
        raise InvalidInput(f"the labels are {len(names):,} different texts, and two classes are learnt: {advice}.")
    return (names[0], names[1])


OF_LABELS = "both stand beside the labels, and leave with them"


@dataclass(frozen=True, eq=False)
class Beside:
    """Of "offset" and "weight", which there are."""

    columns: Mapping[str, str] = field(default_factory=dict)  # of the label holder's table; empty for an array
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)  # empty where parties run elsewhere

    def of(self, rows: NDArray[np.int64]) -> Beside:
        """That of some rows."""
        return Beside(self.columns, {name: array[rows] for name, array in self.values.items()})


NOTHING = Beside()


def check_pairs(
    label: tuple[str, str] | None, offset: tuple[str, str] | None, weight: tuple[str, str] | None
) -> tuple[str | None, dict[str, str]]:
    """Who holds labels, offset and weight, and the columns of the last two; (party, column) were given for each."""
    holder = None if label is None else label[0]
    columns = {}
    for name, pair in (("offset", offset), ("weight", weight)):
        if pair is None:
            continue
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise InvalidInput(f"{name}={pair!r}: give the pair (party, column).")
        holder = pair[0] if holder is None else holder
        if pair[0] != holder:
            what = f"{name} is a column of {pair[0]!r}, and {holder!r} holds the labels: {OF_LABELS}"
            raise InvalidInput(f"{what}. Give {holder!r} the column, matched on the key, or leave {name} out.")
        if label is not None and pair[1] == label[1]:
            raise InvalidInput(f"{name} and label both name the column {pair[1]!r}: give each its own.")
        columns[name] = pair[1]
    return holder, columns


def check_unit(columns: Mapping[str, Any], unit: object) -> None:
    """A unit is for private runs, and these take no offset and no weight."""
    if columns and unit is not None:
        what = f"unit= protects people in private runs, and these take no {' and no '.join(columns)}"
        raise InvalidInput(f"{what}: leave one of them out.")


def beside_arrays(rows: int, *, by_rows: bool, **given: Any) -> Beside:
    """Offset and weight of a table's rows, as arrays."""
    values = {name: np.asarray(array) for name, array in given.items() if array is not None}
    for name, array in values.items():
        if by_rows:
            raise InvalidInput(f"{name}= stands beside labels that one party holds, and by='rows' splits them up.")
        if array.shape != (rows,):
            raise InvalidInput(f"{name} has shape {array.shape}, and X {rows:,} rows: give one number a row.")
    return Beside(dict.fromkeys(values, ""), values)


def offset_of(data: Any, holder: str, column: str, keys: Any) -> NDArray[Any] | None:
    """The offset of rows to be predicted, in the order of their scores; None where they bring none.

    data  a federation, {party: frame} (in the order of `keys`, if rows are matched by them), or one frame.
    """
    if isinstance(getattr(data, "beside", None), Beside):
        found: NDArray[Any] | None = data.beside.values.get("offset")
        return found
    frame = data.get(holder) if isinstance(data, Mapping) else data
    if frame is None or not column or column not in (own := as_frame(frame)).columns:
        return None
    if keys is None:
        whole: NDArray[Any] = own[column].to_numpy()
        return whole
    on = keys.name
    matched = keys.to_frame().join(
        own.select(on, column).cast({on: keys.dtype}), on=on, how="left", maintain_order="left"
    )
    if missing := matched[column].null_count():
        raise InvalidInput(
            f"{missing:,} of {keys.len():,} rows have no offset in column {column!r} of {holder!r}: add them there, or "
            "leave these rows out."
        )
    values: NDArray[Any] = matched[column].to_numpy()
    return values
