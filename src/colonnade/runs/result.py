"""What a run gives back: the model by party, its certificate, what it cost to send, what it says about privacy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from colonnade import problem as problems
from colonnade.data.federation import Federation
from colonnade.data.schema import Schema, as_frame
from colonnade.errors import HeldByParty, InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.methods.method import Status
from colonnade.privacy.block import Block
from colonnade.privacy.statement import PrivacyStatement
from colonnade.privacy.store import write_synced
from colonnade.problem import Problem
from colonnade.problem.boosting import Stumps
from colonnade.problem.kernel import KernelSVM, Support
from colonnade.problem.link import PLAIN, Link
from colonnade.runs import fit_file as fitfile
from colonnade.runtime.traffic import Communication
from colonnade.views.fit_facts import CoefficientPath, Coefficients, FitFacts

_FORMAT = 2
# What files of version 1 leave out: their writer did not know it yet, and it was so.
_UNSAID: dict[str, Any] = {"elsewhere": (), "numbers": (), "remarks": (), "facts": {}, "by_rows": False}
# What reading a file that is damaged, or not ours, may end in.
_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)
_UNSAID |= dict.fromkeys(("errors", "path", "link", "model"))


@dataclass(frozen=True)
class KeptScores:
    """Scores that parties elsewhere computed: the label holder has them, in its store, and nobody else."""

    run: str
    holder: str
    rows: int

    def __repr__(self) -> str:
        return (
            f"{self.rows:,} scores of run {self.run}, kept by {self.holder!r} in its store: scores/{self.run}.parquet"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Fit(FitFacts):
    """A fitted model and everything a reader may ask about how it came about."""

    # ------------------------------------------------------------------------ using it

    def scores(self, data: Any, without: Sequence[str] = ()) -> Floats:
        """The linear scores of rows, new ones or not, in the order in which they were given.

        data     a Federation: in the order of its rows (`federation.keys`);
                 {party: frame}: matched on the fit's key, in the order of the first frame, all of whose rows must be
                 matched;
                 one frame: all parties' columns side by side, in the order of its rows.
        without  parties that cannot take part: their part of every score is left out. A party that is missing and is
                 not named here is an error.
        """
        if isinstance(data, Federation) and data.away is not None:
            raise HeldByParty(
                "the rows are held by parties elsewhere: co.score(fit, federation, engine=co.Grpc(...)) lets the "
                "label holder learn their scores."
            )
        if self.by_rows:
            return self._row_scores(data)
        scores, order = np.zeros(0), slice(None)
        if isinstance(data, Federation):
            blocks = self.blocks(data, without)
        elif isinstance(data, Mapping) and self.on is not None:
            federation = self._federation(data, without)
            blocks, order = self.blocks(federation, without), self._places(data, federation)
        else:
            blocks = self._side_by_side(data, without)
        for party, block in blocks.items():
            part = _parts(block, self.coefficients[party]) if self.model is None else self._stumps(party, block)
            scores = part if scores.size == 0 else scores + part
        return np.asarray(scores + self.intercept)[order]

    def predict_proba(self, data: Any, without: Sequence[str] = ()) -> Floats:
        """The probability of label +1, for a fit that knows one; rows and `without` as in `scores`."""
        if not self.problem.loss.classifies:
            raise InvalidInput(f"{type(self.problem.loss).__name__} predicts values, not classes; use fit.predict.")
        if self.link is None and not isinstance(self.problem.loss, problems.Logistic):
            raise InvalidInput(f"scores of {type(self.problem.loss).__name__} are no probabilities; use fit.scores.")
        return (self.link or PLAIN)(self.scores(data, without))

    def predict(self, data: Any, without: Sequence[str] = ()) -> Floats:
        """Labels −1 and +1 where the loss classifies, values otherwise; rows and `without` as in `scores`."""
        scores = self.scores(data, without)
        if not self.problem.loss.classifies:
            return self.problem.loss.link(scores)
        odds = (self.link or PLAIN).log_odds(scores)  # so that +1 is what predict_proba gives a half or more
        return np.where(odds >= 0.0, 1.0, -1.0)

    def _stumps(self, party: str, block: Block) -> Floats:
        assert isinstance(self.model, Mapping)
        return self.model[party].scores(block.matrix)

    def _row_scores(self, data: Any) -> Floats:
        """Scores by a model whose coefficients are the same at every party: any split of columns or rows will do."""
        party, x = next(iter(self.coefficients.items()))
        if isinstance(self.model, Support):
            return self._kernel_scores(self.model, data)
        if not isinstance(data, Federation):
            schema = self.schemas[party]
            if schema is None:
                raise InvalidInput("this model was fitted on matrices: pass Federation.split(X, None, parties).")
            block = Block(schema.encode(as_frame(data)).matrix, np.arange(schema.width))
            return np.asarray(block.scores(x) + self.intercept)
        blocks = {name: party.block for name, party in data.parties.items() if party.block.columns}
        width = sum(b.columns for b in blocks.values()) if not data.by_rows else next(iter(blocks.values())).columns
        if width != len(x):
            raise InvalidInput(f"the data have {width:,} columns; the model was fitted on {len(x):,}.")
        scores = np.full(data.rows, self.intercept)
        for name, block in blocks.items():
            scores[data.places[name] if data.by_rows else slice(None)] += block.scores(x[block.positions])
        return scores

    def _kernel_scores(self, model: Support, data: Any) -> Floats:
        """Scores part by part, so that no table of all rows is made; a split of columns is put together."""
        assert isinstance(self.problem, KernelSVM)
        kernel, features = self.problem.kernel, model.points.shape[1]
        if not isinstance(data, Federation):
            schema = next(iter(self.schemas.values()))
            if schema is None:
                raise InvalidInput("this model was fitted on matrices: pass Federation.split(X, None, parties).")
            return model.scores(kernel, schema.encode(as_frame(data)).matrix)
        blocks = {name: party.block for name, party in data.parties.items() if party.block.columns}
        if not data.by_rows:
            order = np.argsort(np.concatenate([block.positions for block in blocks.values()]))
            parts = [sparse.csc_array(block.matrix) for block in blocks.values()]
            whole = sparse.csc_array(sparse.hstack(parts))[:, order]
            blocks = {"": Block(whole, np.arange(whole.shape[1]))}
        scores = np.empty(data.rows)
        for name, block in blocks.items():
            if block.columns != features:
                raise InvalidInput(f"the data have {block.columns:,} columns; the model was fitted on {features:,}.")
            matrix = (
                block.matrix
                if sparse.issparse(model.points) == sparse.issparse(block.matrix)
                else _like(model.points, block.matrix)
            )
            scores[data.places[name] if data.by_rows else slice(None)] = model.scores(kernel, matrix)
        return scores

    def _parties(self, without: Sequence[str]) -> list[str]:
        """The parties whose columns a score is made of."""
        if isinstance(without, str) or (unknown := [party for party in without if party not in self.coefficients]):
            wrong = without if isinstance(without, str) else unknown[0]
            raise InvalidInput(
                f"without={wrong!r}: give a list of parties of the model: {', '.join(self.coefficients)}."
            )
        if not (left := [party for party in self.coefficients if party not in without]):
            raise InvalidInput("without= names every party of the model, so there is nothing to score with.")
        return left

    def blocks(self, federation: Federation, without: Sequence[str] = ()) -> dict[str, Block]:
        """The blocks of a federation's parties, checked against the columns that the model was fitted on."""
        wanted = self._parties(without)
        absent = [party for party in wanted if party not in federation.parties]
        if absent:
            raise InvalidInput(
                f"a prediction needs the columns of every party, and {absent[0]!r} is missing; "
                f"name it in without= to leave its part out. The data have {', '.join(federation.parties)}."
            )
        for party in wanted:
            x, found = self.coefficients[party], federation.parties[party]
            if self.schemas.get(party) is not None and list(self.features[party]) != list(found.features):
                raise InvalidInput(
                    f"party {party!r} brings other columns than the model was fitted on; pass frames to fit.scores, "
                    "which encodes them as for the fit."
                )
            if found.block.columns != len(x):
                raise InvalidInput(
                    f"party {party!r} brings {found.block.columns:,} columns; the model was fitted on {len(x):,}. "
                    "Give the same columns in the same order."
                )
        return {party: federation.parties[party].block for party in wanted}

    def _federation(self, frames: Mapping[str, Any], without: Sequence[str]) -> Federation:
        wanted = self._parties(without)
        absent = [party for party in wanted if party not in frames]
        if absent:
            raise _missing(absent[0])
        schemas = {party: self.schemas[party] or Schema(()) for party in wanted}
        ordered = {party: frames[party] for party in frames if party in schemas}  # the first one gives the order
        return Federation.from_frames(ordered, on=str(self.on), schemas=schemas)

    def _places(self, frames: Mapping[str, Any], federation: Federation) -> Any:
        """Where each row of the first frame stands among the federation's rows."""
        first = next(party for party in frames if party in self.coefficients)
        asked = as_frame(frames[first]).select(str(self.on))
        asked = asked if federation.keys is None else asked.cast({str(self.on): federation.keys.dtype})
        if len(asked) != federation.rows:
            raise InvalidInput(
                f"{len(asked) - federation.rows:,} of the {len(asked):,} rows of {first!r} are not at every party, so "
                f"they have no score. Leave them out first: their {self.on!r} is not in federation.keys of "
                "Federation.from_frames(...) over the same frames."
            )
        assert federation.keys is not None
        places = federation.keys.to_frame().with_row_index("place")
        return asked.join(places, on=str(self.on), how="left", maintain_order="left")["place"].to_numpy()

    def _side_by_side(self, data: Any, without: Sequence[str]) -> dict[str, Block]:
        wanted = self._parties(without)
        schemas = {party: schema for party, schema in self.schemas.items() if schema is not None}
        if set(self.coefficients) - set(schemas):
            raise InvalidInput(
                "this model was fitted on matrices: pass Federation.split(X, None, parties) with the same parties."
            )
        if isinstance(data, Mapping):
            absent = [party for party in wanted if party not in data]
            if absent:
                raise _missing(absent[0])
        frames = {party: as_frame(data[party] if isinstance(data, Mapping) else data) for party in wanted}
        if len({frame.height for frame in frames.values()}) > 1:
            raise InvalidInput(
                "the frames have different numbers of rows, and this model knows no key to match them by. Give "
                "frames of the same rows in the same order."
            )
        return {
            party: Block(schemas[party].encode(frame).matrix, np.arange(schemas[party].width))
            for party, frame in frames.items()
        }

    def report(
        self, path: str | Path, *, evaluation: tuple[Any, Any] | None = None, evaluation_is: str | None = None
    ) -> Path:
        """Write a self-contained HTML report.

        evaluation     (federation or frames, labels) as for `scores`: rows on which to show how good the model is.
        evaluation_is  "public", or "paid for": figures computed on rows are a release about them; required with it.
        """
        from colonnade.runs.evaluation import evaluate_fit  # a report is seldom asked for: loaded then
        from colonnade.views import write_report

        return write_report(self, path, evaluation=evaluate_fit(self, evaluation, evaluation_is))

    # ------------------------------------------------------------------------ keeping it

    def save(self, path: str | Path) -> None:
        """Write the fit to one JSON file; `colonnade.load` reads it back, equal to the bit."""
        if not getattr(self.problem, "savable", True):
            raise InvalidInput("a kernel that is a function of yours cannot be saved; keep fit.model, or use co.RBF.")
        body = json.dumps(self._plain(), indent=1)  # in the order of the fit: scores are summed party by party
        digest = hashlib.sha256(body.encode()).hexdigest()
        text = json.dumps({"format": "colonnade fit", "version": _FORMAT, "sha256": digest}) + "\n" + body
        write_synced(Path(path), text.encode())

    def _plain(self) -> dict[str, Any]:
        return {
            "coefficients": {party: _sparse(x) for party, x in self.coefficients.local.items()},
            "elsewhere": list(self.coefficients.elsewhere),
            "intercept": self.intercept,
            "objective": self.objective,
            "gap": self.gap,
            "status": self.status.name,
            "privacy": asdict(self.privacy),
            "communication": self.communication.lines,
            "numbers": self.communication.numbers,
            "problem": _value(self.problem),
            "method": self.method,
            "run": self.run,
            "seconds": self.seconds,
            "label": self.label,
            "notes": list(self.notes),
            "features": {party: list(names) for party, names in self.features.items()},
            "schemas": {party: schema and schema.to_text() for party, schema in self.schemas.items()},
            "on": self.on,
            "errors": self.errors and {party: _sparse(x) for party, x in self.errors.items()},
            "path": self.path and [self.path.weights.tolist(), _lists(self.path.coefficients)],
            "link": self.link,
            "remarks": self.remarks,
            "facts": dict(self.facts),
            "by_rows": self.by_rows,
            "model": _model(self.model),
        }


def load(path: str | Path) -> Fit:
    """Read a fit that `Fit.save` wrote."""
    at = Path(path)
    try:
        size = at.stat().st_size
        head, _, body = at.read_text(encoding="utf-8").partition("\n") if size <= fitfile.LARGEST else ("", "", "")
        header = json.loads(head)
        known = header["format"] == "colonnade fit"
        version = header.get("version")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}. Check the path.") from error
    except (*_DAMAGED, MemoryError) as error:
        raise InvalidInput(
            f"{path} is not a saved fit, or it is damaged. Save the fit again, or restore a copy."
        ) from error
    if not known or type(version) is not int or version < 1:
        raise InvalidInput(f"{path} is not a saved fit, or it is damaged. Save the fit again, or restore a copy.")
    if version > _FORMAT:
        raise InvalidInput(
            f"{path} is of version {version}, of a later Colonnade; this one reads versions up to {_FORMAT}. Install "
            "that one: pip install --upgrade colonnade."
        )
    if hashlib.sha256(body.encode()).hexdigest() != header.get("sha256"):
        raise InvalidInput(f"{path} is damaged: its content does not match its check-sum. Restore it from a copy.")
    try:
        raw = json.loads(body)
        raw = _from_1(raw) if version == 1 else raw
        fitfile.check(raw, size)
        return _from_plain(raw)
    except (*_DAMAGED, MemoryError) as error:
        why = f": {error}" if isinstance(error, InvalidInput) else ""
        raise InvalidInput(f"{path} is not a whole saved fit{why}. Save the fit again, or restore a copy.") from error


def _missing(party: str) -> InvalidInput:
    return InvalidInput(
        f"a prediction needs a frame of every party, and {party!r} is missing. Add its frame, or name it in without= "
        "to leave its part of every score out."
    )


def _from_1(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A fit of version 1 as version 2 writes it; the file stays as it is."""
    said = {"derivation": "its file names no derivation", **raw["privacy"]}
    return {**_UNSAID, **raw, "privacy": said, "errors": None}  # given then where they do not cover, too


def _from_plain(raw: Mapping[str, Any]) -> Fit:
    return Fit(
        coefficients=Coefficients({party: _dense(x) for party, x in raw["coefficients"].items()}, raw["elsewhere"]),
        intercept=raw["intercept"],
        objective=raw["objective"],
        gap=raw["gap"],
        status=Status[raw["status"]],
        privacy=PrivacyStatement(**raw["privacy"]),
        communication=Communication(tuple(map(tuple, raw["communication"])), tuple(raw["numbers"])).along(
            raw["notes"], raw["gap"]
        ),
        problem=_problem(raw["problem"]),
        method=raw["method"],
        run=raw["run"],
        seconds=raw["seconds"],
        label=raw["label"],
        notes=tuple(raw["notes"]),
        features=raw["features"],
        schemas={party: text and Schema.from_text(text) for party, text in raw["schemas"].items()},
        on=raw["on"],
        errors=raw["errors"] and {party: _dense(x) for party, x in raw["errors"].items()},
        path=raw["path"] and CoefficientPath(np.array(raw["path"][0]), _arrays(raw["path"][1])),
        link=raw["link"] and Link(*raw["link"]),
        remarks=tuple(raw["remarks"]),
        facts=raw["facts"],
        by_rows=raw["by_rows"],
        model=_from_model(raw["model"]),
    )


def _problem(raw: Mapping[str, Any]) -> Any:
    made = _from_value(raw)
    loss = getattr(made, "loss", None)
    if not isinstance(made, Problem | KernelSVM | problems.AdaBoost) or not hasattr(loss, "classifies"):
        raise InvalidInput("'problem' is none that this version knows")
    return made


def _like(points: Any, matrix: Any) -> Any:
    """The matrix stored as the points are, so that a user's kernel sees what it saw."""
    return sparse.csc_array(matrix) if sparse.issparse(points) else matrix.toarray()


def _model(model: Support | Mapping[str, Stumps] | None) -> Any:
    if model is None:
        return None
    if isinstance(model, Support):
        rows = model.points.toarray() if sparse.issparse(model.points) else model.points
        return {
            "points": [_sparse(row) for row in rows],
            "size": rows.shape[1],
            "sparse": sparse.issparse(model.points),
            **_lists({"labels": model.labels, "weights": model.weights}),
        }
    return {party: _lists(vars(stumps)) for party, stumps in model.items()}


def _from_model(raw: Any) -> Support | dict[str, Stumps] | None:
    if raw is None:
        return None
    if "points" in raw:
        rows = np.array([_dense(row) for row in raw["points"]]).reshape(-1, raw["size"])
        points = sparse.csr_array(rows) if raw["sparse"] else rows
        return Support(points, np.array(raw["labels"]), np.array(raw["weights"]))
    return {
        party: Stumps(
            np.array(part["columns"], np.int64), *(np.array(part[k]) for k in ("thresholds", "signs", "weights"))
        )
        for party, part in raw.items()
    }


def _parts(block: Block, x: Floats) -> Floats:
    """A party's part of the scores: one column for each response where the coefficients are a matrix."""
    return block.scores(x) if x.ndim == 1 else np.column_stack([block.scores(np.ascontiguousarray(r)) for r in x.T])


def _sparse(x: Floats) -> dict[str, Any]:
    places = np.flatnonzero(x)
    shape = {"shape": list(x.shape)} if x.ndim > 1 else {}
    return {"size": x.size, "places": places.tolist(), "values": x.reshape(-1)[places].tolist(), **shape}


def _lists(arrays: Mapping[str, Floats]) -> dict[str, Any]:
    return {party: array.tolist() for party, array in arrays.items()}


def _arrays(lists: Mapping[str, Any]) -> dict[str, Floats]:
    return {party: np.array(values) for party, values in lists.items()}


def _dense(raw: Mapping[str, Any]) -> Floats:
    x = np.zeros(raw["size"])
    x[raw["places"]] = raw["values"]
    return x.reshape(raw.get("shape", [raw["size"]]))


# Graphs are no part of a problem, and a small file could ask for a large one.
_VALUES = {
    name: getattr(problems, name)
    for name in problems.__all__
    if is_dataclass(getattr(problems, name)) and name not in ("Topology", "Changing")
}


def _value(value: Any) -> Any:
    """A frozen value of problem/ as plain data; its type must be one that `_from_value` knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__, **{f.name: _value(getattr(value, f.name)) for f in fields(value)}}
    return [_value(item) for item in value] if isinstance(value, tuple) else value


def _from_value(raw: Any) -> Any:
    if isinstance(raw, dict):
        return _VALUES[raw["type"]](**{name: _from_value(item) for name, item in raw.items() if name != "type"})
    return tuple(_from_value(item) for item in raw) if isinstance(raw, list) else raw
