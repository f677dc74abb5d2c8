"""A model as a scorecard: points for each bin of a number and for each level, whole numbers that add up.

Scale    points = `points` + (ln(good : bad) − ln(odds))·double/ln 2. Log-odds are a line in the score: those of a
         logistic fit are the score, those of a private fit its link's straight part, from which its probabilities bend
         away; `probability` follows them.
Points   a line's are those of the effect half-way between its least and its largest there, less the least of its
         column, so that no line is below 0; rounded to whole points, and the base as well.
Rounding what all that can move a row's points by is known exactly, and stated: every column's effect is linear between
         knots, so its distance to a line's points is largest at a bin's end or at a knot. Errors of columns have signs
         and are free of each other: those of the base and the largest, or the least, of all columns add up to the most
         that any row is off, and some row is.
Leaves   nothing: coefficients, schemas and released figures. Rows are only read by `points`, `performance`, `stability`
         and `reasons`, which are given them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.data.schema.cells import Gaps, as_frame
from colonnade.data.schema.table import Source
from colonnade.errors import InvalidInput, StoreError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.problem.link import Link
from colonnade.runs import card_figures
from colonnade.runs.effects import (
    Effect,
    bounds_of,
    effects_of,
    holds_whole,
    in_order,
    in_whole_numbers,
    is_number,
    ranges,
)
from colonnade.runs.evidence import Witness
from colonnade.views import scorecard as view
from colonnade.views import scorer
from colonnade.views.scorecard import CardColumn, CardFacts, CardLine, Performance, Stability

if TYPE_CHECKING:
    import polars as pl

    from colonnade.runs.result import Fit

FINE = 8.0  # bins are within double/FINE points of the effect, where nobody says how many
SLACK = 1e-9  # of floating point, in what is stated of rounding
Bins = int | Mapping[str, int | Sequence[float]] | None


@dataclass(frozen=True)
class Scorecard(CardFacts):
    """Points by column; what they mean; how they do on rows at hand; and files of it.

    `Fit.scorecard` makes it.

    Parameters
    ----------
    scale
        So many points mean good : bad = `odds` : 1.
    odds
        Those of good against bad at `scale`.
    double
        So many more points mean twice the odds.
    good
        The label that counts as good.
    base
        The points that every row begins with.
    base_off
        What rounding the base moves a row's points by.
    rounding
        By how much a row's points can differ from those that its score means, at most.
    columns
        Each column with its lines.
    link
        From scores to probabilities: slope and offset of the log-odds first.
    run
        The id of the run that made the model.
    privacy
        The statement of that run.
    remarks
        What a reader must know.
    classes
        What the labels −1 and +1 are called; None: nobody said.
    on
        The column by which frames of several parties are matched.
    """

    on: str | None = None

    def __str__(self) -> str:
        return view.as_text(self)

    def _repr_html_(self) -> str:
        return view.as_html(self)

    @property
    def table(self) -> pl.DataFrame:
        """One row for every line, without the base."""
        import polars as pl

        kinds = {"party": pl.String, "column": pl.String, "line": pl.String, "points": pl.Int64, "off": pl.Float64}
        kinds |= {"share": pl.Float64, "woe": pl.Float64, "iv": pl.Float64, "basis": pl.String}
        rows = [
            (c.party, c.title, one.name, one.points, one.off, one.share, one.woe, c.iv, c.basis)
            for c in self.columns
            for one in c.lines
        ]
        return pl.DataFrame(rows, kinds, orient="row")

    # ------------------------------------------------------------------------ scoring

    def points_of_scores(self, scores: Floats) -> Floats:
        """What scores of the fit mean in points, before anything is rounded.

        Parameters
        ----------
        scores
            As `Fit.scores` gives them.
        """
        slope, offset = self.link[:2]
        line = (slope * np.asarray(scores) + offset) * (1.0 if self.good > 0 else -1.0)
        return np.asarray(self.scale + (line - math.log(self.odds)) * self.double / math.log(2.0))

    def points(self, data: Any) -> Integers:
        """The points of rows, in the order in which they were given.

        Parameters
        ----------
        data
            One frame with all columns, or {party: frame}, in the order of the first frame.
        """
        places = self.places(data)
        worth = [np.array([one.points for one in column.lines]) for column in self.columns]
        return self.base + sum((w[places[:, k]] for k, w in enumerate(worth)), np.zeros(len(places), np.int64))

    def probability(self, points: Floats | Integers) -> Floats:
        """That rows of so many points are bad.

        Parameters
        ----------
        points
            One number a row.
        """
        card = view.plain(self)
        return np.array([scorer.probability(float(one), card) for one in np.asarray(points).reshape(-1)])

    def places(self, data: Any) -> Integers:
        """For every row and column, which line it falls on.

        Parameters
        ----------
        data
            Rows, as in `points`.
        """
        card = view.plain(self)
        rows = card_figures.rows_of(self, data)
        try:
            found = [scorer.places(row, card) for row in rows]
        except ValueError as error:
            raise InvalidInput(f"{error}. Give every column of the card, as its schema declares it.") from None
        return np.array(found, np.int64).reshape(len(found), len(self.columns))

    def reasons(self, row: Mapping[str, Any] | Any, most: int = 4) -> list[tuple[str, str, int]]:
        """Why one row has not more points: column, line and points lost to the column's best, the most first.

        Parameters
        ----------
        row
            Its cells by column, or a table of one row.
        most
            How many reasons.
        """
        found = [row] if isinstance(row, Mapping) else as_frame(row).to_dicts()
        if len(found) != 1:
            raise InvalidInput(f"reasons are given for one row; this table has {len(found):,}. Take one of them.")
        try:
            return scorer.reasons(found[0], most, view.plain(self))
        except ValueError as error:
            raise InvalidInput(f"{error}. Give every column of the card, as its schema declares it.") from None

    # ------------------------------------------------------------------------ how it does

    def performance(self, data: Any, labels: Any) -> Performance:
        """KS, Gini, lift and IV on rows at hand. Not private: publishing them is a release about those rows.

        Parameters
        ----------
        data
            Rows, as in `points`.
        labels
            One a row.
        """
        return card_figures.performance(self, data, labels)

    def stability(self, data: Any, against: Any | None = None) -> Stability:
        """How far rows at hand have moved, by PSI. Not private.

        Parameters
        ----------
        data
            Rows, as in `points`.
        against
            Rows that they have moved from; None: by column, the released shares.
        """
        return card_figures.stability(self, data, against)

    # ------------------------------------------------------------------------ files

    def to_csv(self, path: str | Path) -> Path:
        """One line of a table for every line of the card.

        Parameters
        ----------
        path
            The file to write.
        """
        return _write(path, view.as_csv(self))

    def to_html(self, path: str | Path) -> Path:
        """A self-contained page.

        Parameters
        ----------
        path
            The file to write.
        """
        return _write(path, view.as_page(self))

    def to_json(self, path: str | Path) -> Path:
        """All of the card.

        Parameters
        ----------
        path
            The file to write.
        """
        return _write(path, view.as_json(self))

    def to_python(self, path: str | Path) -> Path:
        """A scorer in one file, which needs neither Colonnade nor NumPy: `python scorer.py rows.csv`.

        Parameters
        ----------
        path
            The file to write.
        """
        return _write(path, view.as_python(self))


def _write(path: str | Path, text: str) -> Path:
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise StoreError(f"the scorecard could not be written to {path}: {error.strerror}.") from error
    return Path(path)


# ------------------------------------------------------------------------------------------------ making one


@dataclass(frozen=True)
class _Draft:
    """How effects become points, and what was asked of them."""

    factor: float  # points per unit of score: below 0 where +1 is bad
    tolerance: float  # of automatic bins, in points
    bins: Bins
    monotone: Mapping[str, int]
    witness: Witness
    names: frozenset[str]  # columns that several parties have


def make_scorecard(
    fit: Fit, points: float, odds: float, double: float, bins: Bins, monotone: Mapping[str, int], good: int
) -> Scorecard:
    """The scorecard of a fit; the arguments are those of `Fit.scorecard`."""
    link = _check(fit, points, odds, double, good)
    sign = 1.0 if good > 0 else -1.0
    per_log = double / math.log(2.0)
    effects = [one for party in fit.coefficients for one in _effects(fit, party)]
    titles = [one.title for one in effects]
    twice = frozenset(title for title in titles if titles.count(title) > 1)
    _check_asked(effects, twice, bins, monotone)
    witness = Witness.of(fit.released, good)
    draft = _Draft(sign * per_log * link.slope, double / FINE, bins, monotone, witness, twice)
    made = [_column(one, draft) for one in effects if one.coefficients.any()]
    exact = points + per_log * (sign * (link.slope * fit.intercept + link.offset) - math.log(odds))
    exact += sum(least for _, least, _ in made)
    base = round(exact)
    under, over = (base - exact + sum(ends[k] for *_, ends in made) for k in (0, 1))
    return Scorecard(
        float(points),
        float(odds),
        float(double),
        good,
        base,
        abs(base - exact) + SLACK,
        max(-under, over) + SLACK * (1 + len(made)),
        tuple(column for column, *_ in made),
        tuple(map(float, link)),
        fit.run,
        str(fit.privacy),
        _remarks(fit, link, [_key(one, twice) for one in effects if not one.coefficients.any()]),
        fit.classes,
        fit.on,
    )


def _check(fit: Fit, points: float, odds: float, double: float, good: int) -> Link:
    if fit.by_rows or fit.model is not None or not fit.problem.loss.classifies:
        raise InvalidInput("a scorecard is made of a linear model of two classes: fit with co.Logistic().")
    link = fit.link or fit.problem.loss.odds
    if link is None:
        raise InvalidInput(f"scores of {type(fit.problem.loss).__name__} are no log-odds; fit with co.Logistic().")
    scale: tuple[Any, ...] = (points, odds, double)
    if not all(isinstance(one, Real) and math.isfinite(one) for one in scale) or min(odds, double) <= 0.0:
        names = ("points", "odds", "double")
        shown = [one if isinstance(one, Real) else f"a {type(one).__name__}" for one in scale]  # a table has values
        asked = ", ".join(f"{name}={one}" for name, one in zip(names, shown, strict=True))
        raise InvalidInput(f"{asked}: give finite numbers, the last two above 0.")
    if good not in (-1, 1):
        raise InvalidInput(f"good={good!r}: say which label counts as good, -1 (0 in the data) or 1.")
    if link.slope <= 0.0:
        what = "the noise hides what scores say of the labels, so that every row has the same odds"
        raise InvalidInput(f"{what}, and there are no points to give. Use more rows or a larger epsilon.")
    return link


def _effects(fit: Fit, party: str) -> list[Effect]:
    schema = fit.schemas.get(party)
    if schema is None:
        raise InvalidInput(
            f"the columns of {party!r} have no schema, so there are no bounds to make bins between: make the "
            "federation with Federation.from_frames(...), or from a DataFrame."
        )
    if plain := [column.name for column in schema.columns if not column.bounded]:
        raise InvalidInput(f"column {plain[0]!r} has no bounds, so it has no bins: declare it as co.Numeric.")
    effects = effects_of(fit, party, schema)
    if other := [one.column for one in effects if not one.column.card(one.group)]:
        what = f"column {other[0].name!r} is of type {other[0].kind()!r}, for which a scorecard has no lines"
        raise InvalidInput(f"{what}: fit without it, or declare it as co.Numeric.")
    return effects


def _check_asked(effects: Sequence[Effect], twice: frozenset[str], bins: Bins, monotone: Any) -> None:
    if not isinstance(monotone, Mapping):
        raise InvalidInput(f"monotone={monotone!r}: say it by column, as in monotone={{'income': 1}}.")
    known = {_key(one, twice): one for one in effects}
    asked = [*(bins if isinstance(bins, Mapping) else ()), *monotone]
    for name in asked:
        if name not in known or not is_number(known[name]):
            numbers = ", ".join(repr(key) for key, one in known.items() if is_number(one))
            raise InvalidInput(f"{name!r} is no number of this model; bins and monotone= take {numbers}.")
    for name, way in monotone.items():
        if way not in (-1, 1):
            raise InvalidInput(f"monotone={{{name!r}: {way!r}}}: write 1, points never fall, or -1, they never rise.")


def _key(effect: Effect, twice: frozenset[str]) -> str:
    return f"{effect.party}:{effect.title}" if effect.title in twice else effect.title


def _remarks(fit: Fit, link: Link, silent: Sequence[str]) -> tuple[str, ...]:
    said = []
    if link.weight != 1.0:
        said.append(
            "Probabilities of this fit bend away from the scale's odds; the scorer's `probability` gives the fit's own"
        )
    if any(schema is not None and schema.source == Source.DATA for schema in fit.schemas.values()):
        said.append("bounds and levels were read off the data and are not public: declare schemas to publish the card")
    if silent:
        said.append(f"without points, since the model does not use them: {', '.join(silent)}")
    return tuple(said)


def _column(effect: Effect, draft: _Draft) -> tuple[CardColumn, float, tuple[float, float]]:
    """A column of the card; the least points that any row has for it; by how much a row's points may be below what its
    score means, as a negative number, and above it."""
    key = _key(effect, draft.names)
    column = effect.column
    bounds: list[float] = []
    if is_number(effect):
        asked = draft.bins.get(key) if isinstance(draft.bins, Mapping) else draft.bins
        bounds = bounds_of(effect, asked, draft.tolerance / abs(draft.factor))
    names, low, high, facts = _numbers(effect, bounds) if bounds else _levels(effect)
    ends = np.sort(np.column_stack([low, high]) * draft.factor, axis=1)
    known = draft.witness.evidence(effect, bounds, len(names))
    worth = ends.mean(axis=1)
    if key in draft.monotone:
        count = len(bounds) - 1
        shares = [line.share for line in known.lines[:count]]
        weights = np.array([1.0 if None in shares else (share or 0.0) + 1e-6 for share in shares])
        worth[:count] = in_order(worth[:count], weights, draft.monotone[key])
    least = float(worth.min())
    points = np.rint(worth - least).astype(int)
    above, below = points - (ends.T - least)
    off = np.maximum(np.abs(below), np.abs(above)) + SLACK
    lines = [
        CardLine(name, int(p), float(o), line.share, line.woe, line.sd, line.share_sd)
        for name, p, o, line in zip(names, points, off, known.lines, strict=True)
    ]
    row_key = f"{effect.party}:{column.name}" if effect.title in draft.names else column.name
    made = CardColumn(effect.party, row_key, key, lines=tuple(lines), **facts)
    made = replace(made, iv=known.iv, basis=known.basis, why=known.why)
    return made, least, (float(below.min()), float(above.max()))


def _numbers(effect: Effect, bounds: Sequence[float]) -> tuple[list[str], Floats, Floats, dict[str, Any]]:
    """Names of bins, the least and largest effect in each, and what a scorer must know."""
    low, high = ranges(effect, bounds).T
    by_whole = in_whole_numbers(effect, bounds[1:-1])
    whole = holds_whole(effect)
    names = _bin_names(bounds[1:-1], effect.bins.day, by_whole)
    facts = {**effect.column.card(effect.group), "edges": tuple(bounds[1:-1])}
    facts |= {"whole": whole, "nearest": by_whole and not whole}
    return _with_gap(effect, names, low, high, facts)


def _bin_names(edges: Sequence[float], day: bool, whole: bool) -> list[str]:
    if not edges:
        return ["any value"]
    if whole:
        ends = [math.ceil(edge) for edge in edges]
        inner = [f"{a:,}" if a + 1 == b else f"{a:,} to {b - 1:,}" for a, b in pairwise(ends)]
        return [f"up to {ends[0] - 1:,}", *inner, f"{ends[-1]:,} and above"]
    texts = [_day(edge) if day else _number(edge) for edge in edges]
    inner = [f"{a} to below {b}" for a, b in pairwise(texts)]
    return [f"below {texts[0]}", *inner, f"{texts[-1]} and above"]


def _day(edge: float) -> str:
    return dt.date.fromordinal(math.ceil(edge)).isoformat()


def _number(edge: float) -> str:
    return f"{edge:,.0f}" if edge == round(edge) and abs(edge) < 1e15 else f"{edge:g}"


def _levels(effect: Effect) -> tuple[list[str], Floats, Floats, dict[str, Any]]:
    """Names of levels, the effect of each twice, and what a scorer must know."""
    column = effect.column
    facts = dict(effect.column.card(effect.group))
    names = list(column.levels_of(effect.group))
    if not names:  # a flag
        values = effect.at([0.0, 1.0])
        return _with_gap(effect, ["0", "1"], values, values, facts)
    values = effect.coefficients[: len(names)]
    names, low, high, facts = _with_gap(effect, names, values, values, facts)
    if column.covers(effect.group):
        return names, low, high, facts
    facts["other"] = len(names)
    return [*names, "any other"], np.append(low, 0.0), np.append(high, 0.0), facts


def _with_gap(
    effect: Effect, names: list[str], low: Floats, high: Floats, facts: dict[str, Any]
) -> tuple[list[str], Floats, Floats, dict[str, Any]]:
    """The same with a line for gaps, where they have one; or what stands in for them."""
    missing = effect.column.missing
    if missing == Gaps.REFUSE:
        return names, low, high, facts
    if missing == Gaps.INDICATOR:
        worth = 0.0 if effect.group else float(effect.at([None])[0])  # parts of a day have no column for gaps
        gap: Any = len(names)
        return [*names, "missing"], np.append(low, worth), np.append(high, worth), facts | {"gap": gap}
    stands = missing.isoformat() if isinstance(missing, dt.date) else missing
    return names, low, high, facts | {"gap": (stands,)}
