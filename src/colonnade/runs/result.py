"""What a run gives back: the model by party, its certificate, what it cost to send, what it says about privacy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.federation import ROW_KEY, Federation
from colonnade.data.labels import called
from colonnade.data.schema.cells import as_frame
from colonnade.data.schema.table import Schema
from colonnade.errors import HeldByParty, InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.model.facts import FitFacts
from colonnade.privacy.block import Block
from colonnade.problem import KernelSVM
from colonnade.problem.kernel import Support
from colonnade.problem.link import PLAIN, class_share
from colonnade.runs.fit_file import read_fit, write_fit
from colonnade.runs.inference import Inference, with_bands
from colonnade.runs.new_rows import read_rows, shifted_scores
from colonnade.runs.release import NONE, Release
from colonnade.views.model import EffectCurves, InferenceFacts, curves_of

if TYPE_CHECKING:
    from colonnade.runs.explanation import Explanation
    from colonnade.runs.plots import Plots
    from colonnade.runs.scorecard import Scorecard

ON_MATRICES = "this model was fitted on matrices: pass Federation.split(X, None, parties)"
MOST_REPORTED = 200  # columns of a table of intervals


@dataclass(frozen=True)
class KeptScores:
    """Scores that parties elsewhere computed: the label holder has them, in its store, and nobody else.

    Parameters
    ----------
    run
        The id of the run that computed them.
    holder
        The label holder.
    rows
        How many there are.
    """

    run: str
    holder: str
    rows: int

    def __repr__(self) -> str:
        kept = f"kept by {self.holder!r} in its store: scores/{self.run}.parquet"
        return f"{self.rows:,} scores of run {self.run}, {kept}"


@dataclass(frozen=True, eq=False, repr=False)
class Fit(FitFacts):
    """A fitted model and everything a reader may ask about how it came about.

    `co.fit` makes it, and `co.load` reads it back.

    Parameters
    ----------
    coefficients
        By party; those of a party that runs elsewhere raise HeldByParty.
    intercept
        What is added to every score; 0 unless the problem has one.
    objective
        Loss and penalty at the end; None: the run released nothing that tells.
    gap
        A bound on how far the objective is from the least there is; None where none was released.
    status
        Why the run stopped.
    privacy
        What the result may claim, in figures and in a sentence.
    communication
        What went over the wires.
    problem
        What was solved.
    method
        How, as reports name it.
    run
        The run's id.
    seconds
        How long it took; None under privacy: that would tell about the data.
    label
        The party that holds the labels.
    notes
        The run's history: one mapping a round.
    features
        By party, the names of its encoded columns.
    schemas
        By party, how its columns become numbers; None: a plain matrix.
    on
        The key that rows are matched by.
    spread
        By party, standard errors of coefficients, where they cover.
    path
        The model along its penalty, where the method releases it.
    link
        From scores to probabilities, where they need one.
    remarks
        What a reader must know about how the model was found.
    facts
        Public ones about the run, for its report.
    by_rows
        Whether the parties held different rows: then each has the same coefficients.
    model
        What predicts, where coefficients alone do not: the examples of a kernel machine, or stumps by party.
    beside
        The label holder's columns of "offset" and "weight".
    released
        The noisy Gram matrix that the model was made of, where the method releases one.
    """

    schemas: Mapping[str, Schema | None] = field(repr=False)
    released: Release | None = field(default=None, repr=False)

    # ------------------------------------------------------------------------ what it was made of

    @property
    def release(self) -> Release:
        """The noisy Gram matrix that was released, and what it takes to read it: any linear model for nothing more."""
        if self.released is None:
            raise InvalidInput(
                f"this fit has no release: {self.method} releases no Gram matrix. Fit with "
                "method=co.PrivateGram(purpose='inference')."
            )
        return self.released

    def inference(self, columns: Iterable[str] | None = None, **options: Any) -> Inference:
        """Intervals and tests of the model without penalty, on all columns or some.

        Parameters
        ----------
        columns
            The columns of the model; None: all.
        **options
            As in `Release.regress`.
        """
        return self.release.regress(None, columns, **options)

    def without(self, *parties: str) -> Fit:
        """The model of the other parties' columns, solved again from the same release: it costs nothing.

        For rows of which these parties know nothing. `scores(rows, without=[...])` leaves out their part of each score
        instead, which is all that can be done where a fit has no release.

        Parameters
        ----------
        *parties
            Whose columns to leave out.
        """
        from colonnade.runs.refit import refit

        return refit(self, parties)

    def curves(self, level: float = 0.95) -> EffectCurves:
        """What each number does to the score over its declared range, in its own unit: a grid and effects.

        A fit with `co.PrivateGram(purpose="inference")` has bands around them, at each value for itself, of the model
        without penalty. Else `low` and `high` are None. Bands of classes are those of the linear probability model on
        the score's scale, by the released share of the class, whose own doubt is left out.

        Parameters
        ----------
        level
            Of the bands: the share of such bands that cover.
        """
        found = curves_of(self)
        if self.released is None or self.released.refusal is not None:
            return found
        return with_bands(found, self.released.regress(level=level), self._per_probability())

    def _per_probability(self) -> float:
        """What a score differs by where the linear probability model differs by 1; 1 where labels are numbers."""
        loss = self.problem.loss
        release = self.release
        if not loss.classifies:
            return 1.0
        if loss.odds is None:
            return 2.0  # least squares on labels -1 and 1
        share = (1.0 + float(release.matrix[-2, -1]) / release.rows) / 2.0 if self.problem.intercept else 0.5
        share = class_share(share, float(release.noise[-2, -1]) / release.rows / 2.0)
        return 1.0 / (share * (1.0 - share))

    # ------------------------------------------------------------------------ using it

    def scores(self, data: Any, without: Sequence[str] = ()) -> Floats:
        """The linear scores of rows, new ones or not, in the order in which they were given.

        Parameters
        ----------
        data
            A Federation: in the order of its rows (`federation.keys`); {party: frame}: matched on the fit's key, in the
            order of the first frame, all of whose rows must be matched; one frame: all parties' columns side by side,
            in the order of its rows. The path of a CSV, Parquet or Arrow file may stand for a frame.
        without
            Parties that cannot take part: their part of every score is left out. A party that is missing and is not
            named here is an error.

        Raises
        ------
        HeldByParty
            The rows are held by parties elsewhere; `co.score` lets the label holder learn their scores.
        """
        data = read_rows(self, data)
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
        if isinstance(data, Mapping) and self.key is not None:
            federation = self._federation(data, without)
            return self.blocks(federation, without), self._places(data, federation)
        return self._side_by_side(data, without), slice(None)

    def explain(self, data: Any, without: Sequence[str] = ()) -> Explanation:
        """What each column adds to the score of every row, by party.

        Only parts whose coefficients are here: those of a party that runs elsewhere raise HeldByParty when they are
        asked for, and its rows need not be given.

        Parameters
        ----------
        data
            Rows, as in `scores`.
        without
            Parties that cannot take part, as in `scores`.
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

        Parameters
        ----------
        points
            So many points mean good : bad = `odds` : 1.
        odds
            Those of good against bad at `points`.
        double
            So many more points mean twice the odds.
        bins
            How many bins a number has at most, or by column their number or their inner edges; None: as few as keep
            every row within double/8 points of the model's effect, at most 20.
        monotone
            By column: 1, points never fall as it rises; -1, they never rise.
        good
            The label that counts as good: -1 (or 0 in the data), unless the label +1 is the good one.
        """
        from colonnade.runs.scorecard import make_scorecard

        return make_scorecard(self, points, odds, double, bins, monotone or {}, good)

    def pipeline(self) -> Any:
        """The whole model as a scikit-learn pipeline over a table with all parties' columns side by side.

        Its log-odds are those of a scorecard's scale: `predict_proba` and `predict` are the fit's own where that has no
        `link`. Those of a private fit bend away from that scale, and no standard part follows them.
        """
        from colonnade.runs.pipeline import pipeline_of

        return pipeline_of(self)

    def to_onnx(self, path: str | Path) -> Path:
        """The pipeline as an ONNX file; needs the extra `onnx`. A gap among texts is written "".

        Parameters
        ----------
        path
            The file to write.
        """
        from colonnade.runs.pipeline import write_onnx

        return write_onnx(self, path)

    def predict_proba(self, data: Any, without: Sequence[str] = ()) -> Floats:
        """The probability of the class that was learnt, for a fit that knows one.

        Parameters
        ----------
        data
            Rows, as in `scores`.
        without
            Parties that cannot take part, as in `scores`.
        """
        if not self.problem.loss.classifies:
            raise InvalidInput(f"{type(self.problem.loss).__name__} predicts values, not classes; use fit.predict.")
        link = self.link or self.problem.loss.odds
        if link is None:
            raise InvalidInput(f"scores of {type(self.problem.loss).__name__} are no probabilities; use fit.scores.")
        return link(shifted_scores(self, data, without))

    def predict(self, data: Any, without: Sequence[str] = ()) -> NDArray[Any]:
        """The labels' own values where the loss classifies (`classes`), numbers otherwise.

        Classes of a private fit are −1 and +1 unless they were named, or the labels are Booleans.

        A model with an offset predicts at score + offset, counts as exp(score + offset): the rows bring it in the label
        holder's column (a Federation by offset=). Without it a warning says that it was taken as 0.

        Parameters
        ----------
        data
            Rows, as in `scores`.
        without
            Parties that cannot take part, as in `scores`.
        """
        scores = shifted_scores(self, data, without)
        if not self.problem.loss.classifies:
            return self.problem.loss.link(scores)
        # So that +1 is what predict_proba gives a half or more.
        odds = (self.link or PLAIN).log_odds(scores)
        return called(odds >= 0.0, self.classes)

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
        kernel = self.problem.kernel
        features = model.points.shape[1]
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
            # Stored as the points are, so that a user's kernel sees what it saw.
            matrix = block.matrix
            if sparse.issparse(model.points) != sparse.issparse(matrix):
                matrix = sparse.csc_array(matrix) if sparse.issparse(model.points) else matrix.toarray()
            scores[data.places[name] if data.by_rows else slice(None)] = model.scores(kernel, matrix)
        return scores

    def parties_left(self, without: Sequence[str]) -> list[str]:
        """The parties whose columns a score is made of.

        Parameters
        ----------
        without
            Those to leave out.
        """
        if isinstance(without, str) or (unknown := [party for party in without if party not in self.coefficients]):
            wrong = without if isinstance(without, str) else unknown[0]
            known = ", ".join(self.coefficients)
            raise InvalidInput(f"without={wrong!r}: give a list of parties of the model: {known}.")
        if not (left := [party for party in self.coefficients if party not in without]):
            raise InvalidInput("without= names every party of the model, so there is nothing to score with.")
        return left

    def blocks(self, federation: Federation, without: Sequence[str] = ()) -> dict[str, Block]:
        """The blocks of a federation's parties, checked against the columns that the model was fitted on.

        Parameters
        ----------
        federation
            The rows, at parties in this process.
        without
            Parties that cannot take part.
        """
        wanted = self.parties_left(without)
        federation = federation.with_curve_depth(self.depth)
        if absent := [party for party in wanted if party not in federation.parties]:
            raise InvalidInput(
                f"a prediction needs the columns of every party, and {absent[0]!r} is missing; "
                f"name it in without= to leave its part out. The data have {', '.join(federation.parties)}."
            )
        for party in wanted:
            x = self.coefficients[party]
            found = federation.parties[party]
            if self.schemas.get(party) is not None and list(self.features[party]) != list(found.features):
                what = f"party {party!r} brings other columns than the model was fitted on"
                raise InvalidInput(f"{what}; pass frames to fit.scores, which encodes them as for the fit.")
            if found.block.columns != len(x):
                what = f"party {party!r} brings {found.block.columns:,} columns; the model was fitted on {len(x):,}"
                raise InvalidInput(f"{what}. Give the same columns in the same order.")
        return {party: federation.parties[party].block for party in wanted}

    @property
    def key(self) -> str | None:
        """The column by which rows of several tables are matched; None: they stand side by side."""
        return None if self.on == ROW_KEY else self.on

    @property
    def absent(self) -> dict[str, str]:
        """The parties that were lost on the way, of whose columns the model has none, and when that was."""
        return dict(self.facts.get("absent", {}))

    @property
    def depth(self) -> int:
        """Of the curves that the run chose for columns whose schema leaves it to the method; 0: lines."""
        return int(self.facts.get("depth", 0))

    def _federation(self, frames: Mapping[str, Any], without: Sequence[str]) -> Federation:
        wanted = self.parties_left(without)
        _check_present(wanted, frames)
        schemas = {party: self.schemas[party] or Schema(()) for party in wanted}
        ordered = {party: frames[party] for party in frames if party in schemas}  # the first one gives the order
        return Federation.from_frames(ordered, on=str(self.key), schemas=schemas)

    def _places(self, frames: Mapping[str, Any], federation: Federation) -> Any:
        """Where each row of the first frame stands among the federation's rows."""
        first = next(party for party in frames if party in self.coefficients)
        asked = as_frame(frames[first]).select(str(self.key))
        asked = asked if federation.keys is None else asked.cast({str(self.key): federation.keys.dtype})
        if len(asked) != federation.rows:
            raise InvalidInput(
                f"{len(asked) - federation.rows:,} of the {len(asked):,} rows of {first!r} are not at every party, so "
                f"they have no score. Leave them out first: their {self.key!r} is not in federation.keys of "
                "Federation.from_frames(...) over the same frames."
            )
        assert federation.keys is not None
        places = federation.keys.to_frame().with_row_index("place")
        return asked.join(places, on=str(self.key), how="left", maintain_order="left")["place"].to_numpy()

    def _side_by_side(self, data: Any, without: Sequence[str]) -> dict[str, Block]:
        wanted = self.parties_left(without)
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

    @property
    def plot(self) -> Plots:
        """Pictures, by plotly: `coefficients()`, `path()`, `bytes()`, `calibration(...)`, `roc(...)`."""
        from colonnade.runs.plots import Plots

        return Plots(self)

    def report(
        self, path: str | Path, *, evaluation: tuple[Any, Any] | None = None, evaluation_is: str | None = None
    ) -> Path:
        """Write a self-contained HTML report.

        Parameters
        ----------
        path
            The file to write.
        evaluation
            (federation or frames, labels) as for `scores`: rows on which to show how good the model is.
        evaluation_is
            "public", or "paid for": figures computed on rows are a release about them; required with `evaluation`.
        """
        from colonnade.runs.evaluation import evaluate_fit
        from colonnade.views.page import write_report

        asked = evaluation is not None or evaluation_is is not None
        found = evaluate_fit(self, evaluation, evaluation_is) if asked else None
        return write_report(self, path, evaluation=found, inference=self._inference_facts())

    def _inference_facts(self) -> InferenceFacts | str:
        """What the report says of intervals and tests; nothing where no Gram matrix was released."""
        if self.released is None:
            return ""
        if len(self.released.columns) > MOST_REPORTED:
            few = f"a table of {len(self.released.columns):,} columns is no page"
            return f"No intervals and tests here: {few}. Choose columns with fit.release.regress(on=[...])."
        if (why := self.released.refusal) is not None:
            return f"{NONE}: {why}"
        try:
            return self.inference().facts()
        except InvalidInput as error:
            return f"{error}"

    # ------------------------------------------------------------------------ keeping it

    def save(self, path: str | Path) -> None:
        """Write the fit to one JSON file; `colonnade.load` reads it back, equal to the bit.

        Parameters
        ----------
        path
            The file to write.
        """
        if not getattr(self.problem, "savable", True):
            raise InvalidInput("a kernel that is a function of yours cannot be saved; keep fit.model, or use co.RBF.")
        write_fit(self, Path(path))


def load(path: str | Path) -> Fit:
    """Read a fit that `Fit.save` wrote.

    Parameters
    ----------
    path
        The JSON file.

    Returns
    -------
    Fit
        Equal to the fit that was saved, to the bit.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import colonnade as co
    >>> fed = co.Federation.split([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [2.0, 1.0, 3.0], parties=2)
    >>> fit = co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(3.0)), co.DistributedFrankWolfe())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(Path(folder) / "fit.json")
    ...     again = co.load(Path(folder) / "fit.json")
    >>> again.objective == fit.objective
    True
    """
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
