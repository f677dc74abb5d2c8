"""What a run gives back: the model by party, its certificate, what it cost to send, what it says about privacy."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade import problem as problems
from colonnade.algorithms.method import Status
from colonnade.engines.traffic import Traffic
from colonnade.errors import HeldByParty, InvalidInput
from colonnade.federation import Federation
from colonnade.privacy.block import Block
from colonnade.privacy.statement import PrivacyStatement
from colonnade.privacy.store import write_synced
from colonnade.problem import Problem
from colonnade.runtime.program import COORDINATOR
from colonnade.schema import Schema, as_frame

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
_FORMAT = 1


class Coefficients(Mapping[str, Floats]):
    """Coefficients by party; those of a party that runs elsewhere stay there."""

    def __init__(self, local: Mapping[str, Floats], elsewhere: Sequence[str] = ()) -> None:
        self._local, self._elsewhere = dict(local), tuple(elsewhere)

    def __getitem__(self, party: str) -> Floats:
        if party in self._elsewhere:
            raise HeldByParty(f"the coefficients of {party!r} are held there and did not leave it; ask its operator.")
        if party not in self._local:
            raise KeyError(f"{party!r} has no columns in this model; parties with columns: {', '.join(self)}")
        return self._local[party]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._local, *self._elsewhere])

    def __len__(self) -> int:
        return len(self._local) + len(self._elsewhere)

    def __repr__(self) -> str:
        shown = [f"{p}: {np.count_nonzero(x):,} of {x.size:,} nonzero" for p, x in self._local.items()]
        return f"Coefficients({', '.join([*shown, *(f'{p}: elsewhere' for p in self._elsewhere)])})"


@dataclass(frozen=True)
class Communication:
    """Everything that went over the wires, in codec bytes."""

    lines: tuple[tuple[str, str, str, int, int, int], ...]  # sender, receiver, type, round, messages, bytes

    @classmethod
    def of(cls, traffic: Traffic) -> Communication:
        lines = sorted(traffic.messages, key=lambda line: (line.round, line.sender, line.receiver, line.type))
        return cls(tuple((*line, traffic.messages[line], traffic.bytes[line]) for line in lines))

    @property
    def bytes(self) -> int:
        return sum(line[5] for line in self.lines)

    @property
    def messages(self) -> int:
        return sum(line[4] for line in self.lines)

    @property
    def rounds(self) -> int:
        return max((line[3] for line in self.lines), default=0)

    def table(self) -> pl.DataFrame:
        """One row for each edge, message type and round."""
        import polars as pl

        names = ["sender", "receiver", "type", "round", "messages", "bytes"]
        kinds = [pl.String, pl.String, pl.String, pl.Int64, pl.Int64, pl.Int64]
        columns = list(zip(*self.lines, strict=True)) if self.lines else [()] * len(names)
        return pl.DataFrame(
            [pl.Series(name, column, dtype=kind) for name, column, kind in zip(names, columns, kinds, strict=True)]
        )

    def by(self, *columns: str) -> pl.DataFrame:
        """Messages and bytes summed over everything but `columns`: "party", "direction", "type", "round", ..."""
        import polars as pl

        up = pl.col("receiver") == COORDINATOR
        table = self.table().with_columns(
            direction=pl.when(up)
            .then(pl.lit("up"))
            .when(pl.col("sender") == COORDINATOR)
            .then(pl.lit("down"))
            .otherwise(pl.lit("across")),
            party=pl.when(up).then(pl.col("sender")).otherwise(pl.col("receiver")),
        )
        if unknown := [column for column in columns if column not in table.columns]:
            raise InvalidInput(f"cannot sum by {unknown[0]!r}; choose among {', '.join(table.columns)}")
        return table.group_by(columns, maintain_order=True).agg(pl.col("messages", "bytes").sum())

    def __repr__(self) -> str:
        return f"Communication({self.messages:,} messages, {self.bytes:,} bytes, {self.rounds:,} rounds)"


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model and everything a reader may ask about how it came about."""

    coefficients: Coefficients
    intercept: float
    objective: float | None
    gap: float | None
    status: Status
    privacy: PrivacyStatement
    communication: Communication
    problem: Problem
    method: str
    run: str
    seconds: float | None  # None under privacy: how long it took would tell about the data
    label: str
    notes: tuple[Mapping[str, Any], ...] = field(repr=False)
    features: Mapping[str, Sequence[str]] = field(repr=False)
    schemas: Mapping[str, Schema | None] = field(repr=False)
    on: str | None = None

    @property
    def history(self) -> pl.DataFrame:
        """One row a round."""
        import polars as pl

        return pl.DataFrame(list(self.notes), infer_schema_length=None)

    @property
    def l1_norm(self) -> float:
        return math.fsum(float(np.abs(x).sum()) for x in self.coefficients.values())

    # ------------------------------------------------------------------------ using it

    def scores(self, data: Any) -> Floats:
        """The linear scores of new rows, in the order in which they were given.

        data  a Federation: in the order of its rows (`federation.keys`);
              {party: frame}: matched on the fit's key, in the order of the first frame, all of whose rows must be matched;
              one frame: all parties' columns side by side, in the order of its rows.
        """
        scores, order = np.zeros(0), slice(None)
        if isinstance(data, Federation):
            blocks = self._blocks(data)
        elif isinstance(data, Mapping) and self.on is not None:
            federation = self._federation(data)
            blocks, order = self._blocks(federation), self._places(data, federation)
        else:
            blocks = self._side_by_side(data)
        for party, x in self.coefficients.items():
            part = blocks[party].scores(x)
            scores = part if scores.size == 0 else scores + part
        return np.asarray(scores + self.intercept)[order]

    def predict(self, data: Any) -> Floats:
        """Labels −1 and +1 where the loss classifies, values otherwise; rows as in `scores`."""
        scores = self.scores(data)
        return np.where(scores >= 0.0, 1.0, -1.0) if self.problem.loss.classifies else self.problem.loss.link(scores)

    def _blocks(self, federation: Federation) -> dict[str, Block]:
        absent = [party for party in self.coefficients if party not in federation.parties]
        if absent:
            raise InvalidInput(
                f"a prediction needs the columns of every party, and {absent[0]!r} is missing; "
                f"the data have {', '.join(federation.parties)}."
            )
        for party, x in self.coefficients.items():
            found = federation.parties[party]
            if self.schemas.get(party) is not None and list(self.features[party]) != list(found.features):
                raise InvalidInput(
                    f"party {party!r} brings other columns than the model was fitted on; pass frames to fit.scores, "
                    "which encodes them as for the fit."
                )
            if found.block.columns != x.size:
                raise InvalidInput(
                    f"party {party!r} brings {found.block.columns:,} columns; the model was fitted on {x.size:,}."
                )
        return {party: federation.parties[party].block for party in self.coefficients}

    def _federation(self, frames: Mapping[str, Any]) -> Federation:
        absent = [party for party in self.coefficients if party not in frames]
        if absent:
            raise InvalidInput(f"a prediction needs a frame of every party, and {absent[0]!r} is missing.")
        schemas = {party: self.schemas[party] or Schema(()) for party in self.coefficients}
        ordered = {party: frames[party] for party in frames if party in schemas}  # the first one gives the order
        return Federation.from_frames(ordered, on=str(self.on), schemas=schemas)

    def _places(self, frames: Mapping[str, Any], federation: Federation) -> Any:
        """Where each row of the first frame stands among the federation's rows."""
        first = next(party for party in frames if party in self.coefficients)
        asked = as_frame(frames[first]).select(str(self.on))
        if len(asked) != federation.rows:
            raise InvalidInput(
                f"{len(asked) - federation.rows:,} of the {len(asked):,} rows of {first!r} are not at every party, so they have "
                f"no score. Leave them out first: their {self.on!r} is not in federation.keys of "
                "Federation.from_frames(...) over the same frames."
            )
        assert federation.keys is not None
        places = federation.keys.to_frame().with_row_index("place")
        return asked.join(places, on=str(self.on), how="left", maintain_order="left")["place"].to_numpy()

    def _side_by_side(self, data: Any) -> dict[str, Block]:
        schemas = {party: schema for party, schema in self.schemas.items() if schema is not None}
        if set(self.coefficients) - set(schemas):
            raise InvalidInput(
                "this model was fitted on matrices: pass Federation.split(X, None, parties) with the same parties."
            )
        if isinstance(data, Mapping):
            absent = [party for party in self.coefficients if party not in data]
            if absent:
                raise InvalidInput(f"a prediction needs a frame of every party, and {absent[0]!r} is missing.")
        frames = {party: as_frame(data[party] if isinstance(data, Mapping) else data) for party in self.coefficients}
        if len({frame.height for frame in frames.values()}) > 1:
            raise InvalidInput(
                "the frames have different numbers of rows, and this model knows no key to match them by."
            )
        return {
            party: Block(schemas[party].encode(frame).matrix, np.arange(schemas[party].width))
            for party, frame in frames.items()
        }

    def report(self, path: str | Path) -> Path:
        """Write a self-contained HTML report."""
        from colonnade.report import write_report  # the report stands above results; loaded when asked for

        return write_report(self, path)

    # ------------------------------------------------------------------------ keeping it

    def save(self, path: str | Path) -> None:
        """Write the fit to one JSON file; `colonnade.load` reads it back, equal to the bit."""
        body = json.dumps(self._plain(), indent=1)  # in the order of the fit: scores are summed party by party
        digest = hashlib.sha256(body.encode()).hexdigest()
        text = json.dumps({"format": "colonnade fit", "version": _FORMAT, "sha256": digest}) + "\n" + body
        write_synced(Path(path), text.encode())

    def _plain(self) -> dict[str, Any]:
        return {
            "coefficients": {party: _sparse(x) for party, x in self.coefficients.items()},
            "intercept": self.intercept,
            "objective": self.objective,
            "gap": self.gap,
            "status": self.status.name,
            "privacy": asdict(self.privacy),
            "communication": self.communication.lines,
            "problem": _value(self.problem),
            "method": self.method,
            "run": self.run,
            "seconds": self.seconds,
            "label": self.label,
            "notes": list(self.notes),
            "features": {party: list(names) for party, names in self.features.items()},
            "schemas": {party: schema and schema.to_text() for party, schema in self.schemas.items()},
            "on": self.on,
        }


def load(path: str | Path) -> Fit:
    """Read a fit that `Fit.save` wrote."""
    try:
        head, _, body = Path(path).read_text(encoding="utf-8").partition("\n")
        header = json.loads(head)
        known = header["format"] == "colonnade fit"
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}. Check the path.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path} is not a saved fit, or it is damaged. Save the fit again, or restore a copy."
        ) from error
    if not known or header.get("version") != _FORMAT:
        raise InvalidInput(f"{path} has format version {header.get('version')!r}; this colonnade reads {_FORMAT}.")
    if hashlib.sha256(body.encode()).hexdigest() != header.get("sha256"):
        raise InvalidInput(f"{path} is damaged: its content does not match its check-sum. Restore it from a copy.")
    try:
        return _from_plain(json.loads(body))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"{path} is not a whole saved fit. Save the fit again, or restore a copy.") from error


def _from_plain(raw: Mapping[str, Any]) -> Fit:
    return Fit(
        coefficients=Coefficients({party: _dense(x) for party, x in raw["coefficients"].items()}),
        intercept=raw["intercept"],
        objective=raw["objective"],
        gap=raw["gap"],
        status=Status[raw["status"]],
        privacy=PrivacyStatement(**raw["privacy"]),
        communication=Communication(tuple(tuple(line) for line in raw["communication"])),
        problem=_from_value(raw["problem"]),
        method=raw["method"],
        run=raw["run"],
        seconds=raw["seconds"],
        label=raw["label"],
        notes=tuple(raw["notes"]),
        features=raw["features"],
        schemas={party: text and Schema.from_text(text) for party, text in raw["schemas"].items()},
        on=raw["on"],
    )


def _sparse(x: Floats) -> dict[str, Any]:
    places = np.flatnonzero(x)
    return {"size": x.size, "places": places.tolist(), "values": x[places].tolist()}


def _dense(raw: Mapping[str, Any]) -> Floats:
    x = np.zeros(raw["size"])
    x[raw["places"]] = raw["values"]
    return x


_VALUES = {name: getattr(problems, name) for name in problems.__all__ if is_dataclass(getattr(problems, name))}


def _value(value: Any) -> Any:
    """A frozen value of problem/ as plain data; its type must be one that `_from_value` knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            "type": type(value).__name__,
            **{f.name: _value(getattr(value, f.name)) for f in fields(value)},
        }
    return [_value(item) for item in value] if isinstance(value, tuple) else value


def _from_value(raw: Any) -> Any:
    if isinstance(raw, dict):
        return _VALUES[raw["type"]](**{name: _from_value(item) for name, item in raw.items() if name != "type"})
    return tuple(_from_value(item) for item in raw) if isinstance(raw, list) else raw
