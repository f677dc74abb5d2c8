"""What a run gives back: the model by party, its certificate, what it cost to send, what it says about privacy;
and how good it is, on rows that the caller hands over and says to be public or paid for."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.beside import offset_of
from colonnade.data.federation import Federation
from colonnade.data.schema.cells import as_frame
from colonnade.data.schema.table import Schema
from colonnade.errors import HeldByParty, InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.privacy.block import Block
from colonnade.problem import KernelSVM, Logistic
from colonnade.problem.adjusted import check_offset
from colonnade.problem.kernel import Support
from colonnade.problem.link import PLAIN
from colonnade.runs.fit_file import read_fit, write_fit
from colonnade.runs.inference import Inference
from colonnade.runs.release import Release
from colonnade.views.fit_facts import BASES, Evaluation, FitFacts
from colonnade.views.inference import InferenceFacts

if TYPE_CHECKING:
    from colonnade.runs.explanation import Explanation
    from colonnade.runs.scorecard import Scorecard

ON_MATRICES = "this model was fitted on matrices: pass Federation.split(X, None, parties)"
NO_OFFSET = (
    "this model was fitted with an offset, and the rows bring none ({place}): it was taken as 0 in every row, so "
    "counts are those of one unit of exposure."
)
GROUPS = 10
MOST_REPORTED = 200  # columns of a table of intervals
ROC_POINTS = 200  # as many as a page can show


@dataclass(frozen=True)
class KeptScores:
    """Scores that parties elsewhere computed: the label holder has them, in its store, and nobody else."""

    run: str
    holder: str
    rows: int

    def __repr__(self) -> str:
        kept = f"kept by {self.holder!r} in its store: scores/{self.run}.parquet"
        return f"{self.rows:,} scores of run {self.run}, {kept}"


@dataclass(frozen=True, eq=False, repr=False)
class Fit(FitFacts):
    """A fitted model and everything a reader may ask about how it came about."""

    released: Release | None = field(default=None, repr=False)

    # ------------------------------------------------------------------------ what it was made of

    @property
    def release(self) -> Release:
        """The noisy Gram matrix that was released, and what it takes to read it: any linear model for nothing more."""
        if self.released is None:
            raise InvalidInput(
                f"this fit has no release: {self.method} releases no Gram matrix, or an earlier Colonnade saved the "
                "fit, which kept coefficients alone. Fit with method=co.PrivateGram(purpose='inference')."
            )
        return self.released

    def inference(self, columns: Iterable[str] | None = None, **options: Any) -> Inference:
        """Intervals and tests of the model without penalty, on all columns or some; options as in `Release.regress`."""
        return self.release.regress(None, columns, **options)

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
        if self.by_rows and not (isinstance(data, Federation) and data.away is not None):
            return self._row_scores(data)
        scores = np.zeros(0)
        blocks, order = self._blocks_of(data, without)
        for party, block in blocks.items():
            stumps = self.model[party] if isinstance(self.model, Mapping) else None
            part = _parts(block, self.coefficients[party]) if stumps is None else stumps.scores(block.matrix)
            scores = part if scores.size == 0 else scores + part
        return np.asarray((scores + self.intercept)[order])

    def _blocks_of(self, data: Any, without: Sequence[str]) -> tuple[dict[str, Block], Any]:
        """By party the encoded rows, and where each row that was given stands among them."""
        if isinstance(data, Federation):
            if data.away is not None:
                remedy = "co.score(fit, federation, engine=co.Grpc(...)) lets the label holder learn their scores"
                raise HeldByParty(f"the rows are held by parties elsewhere: {remedy}.")
            return self.blocks(data, without), slice(None)
        if isinstance(data, Mapping) and self.on is not None:
            federation = self._federation(data, without)
            return self.blocks(federation, without), self._places(data, federation)
        return self._side_by_side(data, without), slice(None)

    def explain(self, data: Any, without: Sequence[str] = ()) -> Explanation:
        """What each column adds to the score of every row, by party; rows and `without` as in `scores`.

        Only parts whose coefficients are here: those of a party that runs elsewhere raise HeldByParty when they are
        asked for, and its rows need not be given.
        """
        from colonnade.runs.explanation import explain

        if self.by_rows or self.model is not None or any(x.ndim > 1 for x in self.coefficients.local.values()):
            kind = "rows split over parties" if self.by_rows else type(self.problem).__name__
            raise InvalidInput(f"contributions by column and party are those of one linear score, not of {kind}.")
        held = [party for party in self.coefficients.elsewhere if party not in without]
        if not (here := [party for party in self.coefficients.local if party not in without]):
            raise HeldByParty("every party of this model holds its part of it; nothing can be explained here.")
        blocks, order = self._blocks_of(data, [*without, *held])
        rows = blocks[here[0]].rows
        return explain(self, blocks, order, rows, held, without)

    def scorecard(
        self,
        points: float = 600.0,
        odds: float = 50.0,
        double: float = 20.0,
        bins: int | Mapping[str, int | Sequence[float]] | None = None,
        *,
        monotone: Mapping[str, int] | None = None,
        good: int = -1,
    ) -> Scorecard:
        """The model as a scorecard: whole points for each bin of a number and for each level.

        points, odds, double   so many points mean good : bad = odds : 1, and `double` more points twice the odds.
        bins      how many bins a number has at most, or by column their number or their inner edges; None: as few as
                  keep every row within double/8 points of the model's effect, at most 20.
        monotone  by column: 1, points never fall as it rises; -1, they never rise.
        good      the label that counts as good: -1 (or 0 in the data), unless the label +1 is the good one.
        """
        from colonnade.runs.scorecard import make_scorecard

        return make_scorecard(self, float(points), float(odds), float(double), bins, monotone or {}, good)

    def pipeline(self) -> Any:
        """The whole model as a scikit-learn pipeline over a table with all parties' columns side by side."""
        from colonnade.runs.pipeline import pipeline_of

        return pipeline_of(self)

    def to_onnx(self, path: str | Path) -> Path:
        """The pipeline as an ONNX file; needs the extra `onnx`. A gap among texts is written ""."""
        from colonnade.runs.pipeline import write_onnx

        return write_onnx(self, path)

    def predict_proba(self, data: Any, without: Sequence[str] = ()) -> Floats:
        """The probability of label +1, for a fit that knows one; rows and `without` as in `scores`."""
        if not self.problem.loss.classifies:
            raise InvalidInput(f"{type(self.problem.loss).__name__} predicts values, not classes; use fit.predict.")
        if self.link is None and not isinstance(self.problem.loss, Logistic):
            raise InvalidInput(f"scores of {type(self.problem.loss).__name__} are no probabilities; use fit.scores.")
        return (self.link or PLAIN)(shifted_scores(self, data, without))

    def predict(self, data: Any, without: Sequence[str] = ()) -> Floats:
        """Labels −1 and +1 where the loss classifies, values otherwise; rows and `without` as in `scores`.

        A model with an offset predicts at score + offset, counts as exp(score + offset): the rows bring it in the label
        holder's column (a Federation by offset=). Without it a warning says that it was taken as 0.
        """
        scores = shifted_scores(self, data, without)
        if not self.problem.loss.classifies:
            return self.problem.loss.link(scores)
        odds = (self.link or PLAIN).log_odds(scores)  # so that +1 is what predict_proba gives a half or more
        return np.where(odds >= 0.0, 1.0, -1.0)

    def _row_scores(self, data: Any) -> Floats:
        """Scores by a model whose coefficients are the same at every party: any split of columns or rows will do."""
        party, x = next(iter(self.coefficients.items()))
        if isinstance(self.model, Support):
            return self._kernel_scores(self.model, data)
        if not isinstance(data, Federation):
            schema = self.schemas[party]
            if schema is None:
                raise InvalidInput(f"{ON_MATRICES}.")
            return np.asarray(_encode(schema, as_frame(data)).scores(x) + self.intercept)
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
                raise InvalidInput(f"{ON_MATRICES}.")
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
            matrix = block.matrix  # stored as the points are, so that a user's kernel sees what it saw
            if sparse.issparse(model.points) != sparse.issparse(matrix):
                matrix = sparse.csc_array(matrix) if sparse.issparse(model.points) else matrix.toarray()
            scores[data.places[name] if data.by_rows else slice(None)] = model.scores(kernel, matrix)
        return scores

    def _parties(self, without: Sequence[str]) -> list[str]:
        """The parties whose columns a score is made of."""
        if isinstance(without, str) or (unknown := [party for party in without if party not in self.coefficients]):
            wrong = without if isinstance(without, str) else unknown[0]
            known = ", ".join(self.coefficients)
            raise InvalidInput(f"without={wrong!r}: give a list of parties of the model: {known}.")
        if not (left := [party for party in self.coefficients if party not in without]):
            raise InvalidInput("without= names every party of the model, so there is nothing to score with.")
        return left

    def blocks(self, federation: Federation, without: Sequence[str] = ()) -> dict[str, Block]:
        """The blocks of a federation's parties, checked against the columns that the model was fitted on."""
        wanted, federation = self._parties(without), federation.bent(self.depth)
        if absent := [party for party in wanted if party not in federation.parties]:
            raise InvalidInput(
                f"a prediction needs the columns of every party, and {absent[0]!r} is missing; "
                f"name it in without= to leave its part out. The data have {', '.join(federation.parties)}."
            )
        for party in wanted:
            x, found = self.coefficients[party], federation.parties[party]
            if self.schemas.get(party) is not None and list(self.features[party]) != list(found.features):
                what = f"party {party!r} brings other columns than the model was fitted on"
                raise InvalidInput(f"{what}; pass frames to fit.scores, which encodes them as for the fit.")
            if found.block.columns != len(x):
                what = f"party {party!r} brings {found.block.columns:,} columns; the model was fitted on {len(x):,}"
                raise InvalidInput(f"{what}. Give the same columns in the same order.")
        return {party: federation.parties[party].block for party in wanted}

    @property
    def depth(self) -> int:
        """Of the curves that the run chose for columns whose schema leaves it to the method; 0: lines."""
        return int(self.facts.get("depth", 0))

    def _federation(self, frames: Mapping[str, Any], without: Sequence[str]) -> Federation:
        wanted = self._parties(without)
        _check_present(wanted, frames)
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
            raise InvalidInput(f"{ON_MATRICES} with the same parties.")
        if isinstance(data, Mapping):
            _check_present(wanted, data)
        frames = {party: as_frame(data[party] if isinstance(data, Mapping) else data) for party in wanted}
        if len({frame.height for frame in frames.values()}) > 1:
            what = "the frames have different numbers of rows, and this model knows no key to match them by"
            raise InvalidInput(f"{what}. Give frames of the same rows in the same order.")
        return {party: _encode(schemas[party], frame) for party, frame in frames.items()}

    def report(
        self, path: str | Path, *, evaluation: tuple[Any, Any] | None = None, evaluation_is: str | None = None
    ) -> Path:
        """Write a self-contained HTML report.

        evaluation     (federation or frames, labels) as for `scores`: rows on which to show how good the model is.
        evaluation_is  "public", or "paid for": figures computed on rows are a release about them; required with it.
        """
        from colonnade.views.page import write_report

        found = evaluate_fit(self, evaluation, evaluation_is)
        return write_report(self, path, evaluation=found, inference=self._inference_facts())

    def _inference_facts(self) -> InferenceFacts | str:
        """What the report says of intervals and tests; nothing where no Gram matrix was released."""
        if self.released is None:
            return ""
        if len(self.released.columns) > MOST_REPORTED:
            few = f"a table of {len(self.released.columns):,} columns is no page"
            return f"No intervals and tests here: {few}. Choose columns with fit.release.regress(on=[...])."
        try:
            return self.inference().facts()
        except InvalidInput as error:
            return f"{error}"

    # ------------------------------------------------------------------------ keeping it

    def save(self, path: str | Path) -> None:
        """Write the fit to one JSON file; `colonnade.load` reads it back, equal to the bit."""
        if not getattr(self.problem, "savable", True):
            raise InvalidInput("a kernel that is a function of yours cannot be saved; keep fit.model, or use co.RBF.")
        write_fit(self, Path(path))


def shifted_scores(fit: Fit, data: Any, without: Sequence[str] = ()) -> Floats:
    """Scores plus the offset, where the model has one and the rows bring it."""
    scores = fit.scores(data, without)
    if "offset" not in fit.beside:
        return scores
    column, keys = fit.beside["offset"], None
    if isinstance(data, Mapping) and fit.on is not None:  # in the order of the first frame
        keys = as_frame(data[next(party for party in data if party in fit.coefficients)])[fit.on]
    offset = offset_of(data, fit.label, column, keys)
    if offset is None:
        place = f"column {column!r} of {fit.label!r}" if column else "Federation.split(..., offset=...)"
        warnings.warn(NO_OFFSET.format(place=place), UserWarning, stacklevel=3)
        return scores
    return scores + check_offset(offset)


def load(path: str | Path) -> Fit:
    """Read a fit that `Fit.save` wrote."""
    return Fit(**read_fit(Path(path)))


def _check_present(wanted: Sequence[str], frames: Mapping[str, Any]) -> None:
    if absent := [party for party in wanted if party not in frames]:
        what = f"a prediction needs a frame of every party, and {absent[0]!r} is missing"
        raise InvalidInput(f"{what}. Add its frame, or name it in without= to leave its part of every score out.")


def _encode(schema: Schema, frame: Any) -> Block:
    return Block(schema.encode(frame).matrix, np.arange(schema.width))


def _parts(block: Block, x: Floats) -> Floats:
    """A party's part of the scores: one column for each response where the coefficients are a matrix."""
    return block.scores(x) if x.ndim == 1 else np.column_stack([block.scores(np.ascontiguousarray(r)) for r in x.T])


# ------------------------------------------------------------------------------------------------ how good it is

# A figure of quality is a function of the rows it was computed on, so it is a release about them. The report computes
# none on the rows of the fit: those belong to the parties. Whoever gives rows answers for what they are.


def evaluate_fit(fit: Fit, evaluation: tuple[Any, Any] | None, basis: str | None) -> Evaluation | None:
    """The figures of a fit on (federation or frames, labels), if any are given."""
    if evaluation is None and basis is None:
        return None
    if evaluation is None:
        raise InvalidInput(f"evaluation_is={basis!r} was given without evaluation=(rows, labels).")
    if basis not in BASES:
        raise InvalidInput(
            f"evaluation_is={basis!r}: figures of quality are a release about the rows they are computed on. Say "
            "evaluation_is='public', or 'paid for' where their release is accounted for elsewhere."
        )
    if not (isinstance(evaluation, tuple) and len(evaluation) == 2):
        raise InvalidInput("evaluation= wants a pair: (federation or frames, labels).")
    data, given = evaluation
    scores = fit.scores(data)
    labels = np.asarray(given)
    if scores.ndim != 1 or labels.shape != scores.shape:
        shapes = f"labels of shape {labels.shape} for scores of shape {scores.shape}"
        raise InvalidInput(f"evaluation= brings {shapes}; give one label a row, in the order of the rows.")
    checked = np.asarray(fit.problem.loss.check(labels), np.float64)
    evaluate = _of_classes if fit.problem.loss.classifies else _of_values
    return evaluate(fit, data, scores, checked, basis)


def _of_classes(fit: Fit, data: Any, scores: Floats, labels: Floats, basis: str) -> Evaluation:
    positive = labels > 0.0
    curve = roc_curve(scores, positive)
    figures = {
        "AUC": (area(curve), "the chance that a positive row is ranked above a negative one; 0.5 is guessing"),
        "accuracy": (float(np.mean((fit.predict(data) > 0.0) == positive)), "share of rows whose class is predicted"),
        "base rate": (float(positive.mean()), "share of positive rows"),
    }
    groups: tuple[tuple[float, float, int], ...] = ()
    remark = "Scores of this loss are no probabilities, so there is no calibration."
    if fit.link is not None or isinstance(fit.problem.loss, Logistic):
        chances = fit.predict_proba(data)
        figures["Brier score"] = (float(np.mean((chances - positive) ** 2)), "mean squared error of the probabilities")
        groups, remark = grouped(chances, positive.astype(np.float64)), ""
    without = {party: area(roc_curve(part, positive)) for party, part in _left_out(fit, data).items()}
    shown = tuple(curve[k] for k in np.unique(np.linspace(0, len(curve) - 1, min(len(curve), ROC_POINTS)).astype(int)))
    return Evaluation(basis, labels.size, "AUC", figures, groups, shown, without, remark)


def _of_values(fit: Fit, data: Any, scores: Floats, labels: Floats, basis: str) -> Evaluation:
    shift, link = shifted_scores(fit, data) - scores, fit.problem.loss.link
    predicted = np.asarray(link(scores + shift), np.float64)

    def error(values: Floats) -> float:
        return float(np.sqrt(np.mean((values - labels) ** 2)))

    spread = float(np.mean((labels - labels.mean()) ** 2))
    figures = {
        "RMSE": (error(predicted), "root of the mean squared error, in units of the label"),
        "MAE": (float(np.mean(np.abs(predicted - labels))), "mean absolute error"),
    }
    if spread > 0.0:
        figures["R²"] = (1.0 - error(predicted) ** 2 / spread, "share of the labels' variance that is explained")
    without = {party: error(np.asarray(link(part + shift))) for party, part in _left_out(fit, data).items()}
    return Evaluation(basis, labels.size, "RMSE", figures, grouped(predicted, labels), (), without)


def _left_out(fit: Fit, data: Any) -> dict[str, Floats]:
    """The scores without each party in turn, where parties hold columns and there are several."""
    if fit.by_rows or len(fit.coefficients) < 2:
        return {}
    return {party: fit.scores(data, without=[party]) for party in fit.coefficients}


def roc_curve(scores: Floats, positive: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """(share of negative rows accused, share of positive rows found) at every threshold, from none to all."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0.0, True))  # rows of equal score fall together
    found = np.cumsum(positive[order])[ends] / positive.sum()
    accused = np.cumsum(~positive[order])[ends] / (~positive).sum()
    return [(0.0, 0.0), *zip(accused.tolist(), found.tolist(), strict=True)]


def area(curve: list[tuple[float, float]]) -> float:
    """The area under a curve, by trapezoids."""
    x, y = np.array(curve).T
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2.0))


def grouped(predicted: Floats, found: Floats) -> tuple[tuple[float, float, int], ...]:
    """Mean prediction, mean outcome and size of ten groups of equal size, by prediction."""
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(GROUPS, predicted.size))
    return tuple((float(predicted[part].mean()), float(found[part].mean()), int(part.size)) for part in parts)
