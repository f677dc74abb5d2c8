"""One linear model from a release: its table, its tests, and what must be said of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.fields import Choice
from colonnade.kernels import curves
from colonnade.kernels.arrays import Floats
from colonnade.privacy.events import shown
from colonnade.problem.inference import DETERMINED, WEAK, Intervals, LinearModel, Share, Test, TwoValues, holm
from colonnade.runs.release import TWO_VALUES, ColumnKind, Release, ReleasedColumn, Units
from colonnade.views.model import CoefficientRow, InferenceFacts, as_html, as_text, figure_of, probability

if TYPE_CHECKING:
    import polars as pl

    from colonnade.views.model import EffectCurve, EffectCurves

CONSTANT = "(constant)"
EQUAL = "equal variances assumed: residuals spread alike in all rows"
UNEQUAL = "unequal variances of classes counted in, as far as products of columns tell them"
UNEVEN = 0.25  # share of sampling in the variance from which unequal variances would be seen
MANY_SHORTENED = 0.01


def check_choices(drop: object, adjust: object, units: object) -> None:
    for name, given, known in (
        ("drop", drop, ("auto", None)),
        ("adjust", adjust, ("holm", None)),
        ("units", units, tuple(Units)),
    ):
        if given not in known:
            raise InvalidInput(f"{name}={given!r} is not known; choose {' or '.join(map(repr, known))}.", name)


class State(Choice):
    """How well a budget determines a model."""

    DETERMINED = "determined"
    WEAK = "weak"
    NOT_DETERMINED = "not determined"


@dataclass(frozen=True, eq=False, repr=False)
class Inference:
    """Coefficients with intervals and tests that cover: `print(it.summary())`, `it.table`, `it.test([...])`.

    `Release.regress` and `Fit.inference` make it; they say what the settings mean.

    Parameters
    ----------
    release
        What it is computed from.
    target
        The place of the column that is explained, among `release.names`.
    kept
        The places of those that explain it.
    left_out
        The places of those that the budget does not determine.
    references
        By declared column, the level that others are compared with.
    level
        Of the intervals.
    robust
        What the sampling variance is multiplied by.
    adjust
        "holm", or None: each p-value for itself.
    simultaneous
        Whether intervals hold for all slopes at once.
    units
        "data" or "encoded".
    """

    release: Release
    target: int
    kept: tuple[int, ...]
    left_out: tuple[int, ...]
    references: Mapping[str, str]
    level: float
    robust: float
    adjust: str | None
    simultaneous: bool
    units: str

    @cached_property
    def model(self) -> LinearModel:
        """The model in the units of the release."""
        known = self.release.part([*self.kept, self.target])
        return LinearModel(*known, self.release.rows, self.robust, self._two if self.release.noisy else None)

    @property
    def _two(self) -> TwoValues | None:
        """How residuals of classes, levels and flags spread; without noise errors are the classical ones."""
        if self._aim.kind not in (ColumnKind.CLASSES, *TWO_VALUES):
            return None
        lists: dict[tuple[str, int], int] = {}
        level = ColumnKind.LEVEL
        at = [lists.setdefault((c.party, c.block), len(lists)) if c.kind == level else -1 for c in self._columns]
        flags = np.array([c.kind in TWO_VALUES for c in self._columns], bool)
        return TwoValues(-1.0 if self._aim.kind == ColumnKind.CLASSES else 0.0, 1.0, flags, np.array(at, np.int64))

    # ------------------------------------------------------------------------ units

    @property
    def _columns(self) -> list[ReleasedColumn]:
        every = (*self.release.columns, self.release.label)
        return [every[k] for k in self.kept]

    @property
    def _aim(self) -> ReleasedColumn:
        return (*self.release.columns, self.release.label)[self.target]

    @cached_property
    def _to_data(self) -> tuple[Floats, Floats]:
        """H and h with (slopes, constant) = H·β + h in the units that were asked for."""
        size = len(self.kept) + 1
        if self.units == Units.ENCODED:
            return np.eye(size), np.zeros(size)
        units, middles = (np.array([getattr(c, name) for c in self._columns]) for name in ("unit", "middle"))
        H = np.diag(self._aim.unit / np.append(units, 1.0))
        H[-1, :-1] = -self._aim.unit * middles / units
        return H, np.append(np.zeros(size - 1), self._aim.middle)

    # ------------------------------------------------------------------------ coefficients

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        return tuple(map(str, self._columns))

    @property
    def xi(self) -> float:
        """The index of weakness: up to 0.2 determined, up to 0.5 weak, above not determined."""
        return self.model.xi

    @property
    def state(self) -> str:
        """In a word, from the index of weakness: "determined", "weak" or "not determined"."""
        if self.xi <= DETERMINED:
            return State.DETERMINED
        return State.WEAK if self.xi <= WEAK else State.NOT_DETERMINED

    @cached_property
    def _found(self) -> Intervals:
        """Of all slopes, then of the constant."""
        H, h = self._to_data
        tests = len(self.kept) if self.simultaneous else 1
        found = self.model.intervals(H, self.level, null=-h, tests=tests)
        return found._replace(estimate=found.estimate + h, low=found.low + h, high=found.high + h)

    @cached_property
    def _adjusted(self) -> Floats:
        slopes = self._found.pvalue[:-1]
        return np.append(holm(slopes) if self.adjust == "holm" else slopes, self._found.pvalue[-1])

    def _by_name(self, values: Any) -> dict[str, Any]:
        return dict(zip((*self.names, CONSTANT), values, strict=True))

    @property
    def coefficients(self) -> dict[str, float]:
        """By name, the constant last; nan where the budget does not determine it."""
        return self._by_name(np.where(self._found.determined, self._found.estimate, np.nan).tolist())

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """By name; from −inf to inf where the budget does not determine it."""
        return self._by_name(zip(self._found.low.tolist(), self._found.high.tolist(), strict=True))

    @property
    def errors(self) -> dict[str, float]:
        """Standard errors, of sampling and noise, at the estimate. Intervals are not made of them alone."""
        return self._by_name(self._found.error.tolist())

    @property
    def pvalues(self) -> dict[str, float]:
        """By name, that the coefficient is 0: adjusted for all slopes unless adjust=None was asked for."""
        return self._by_name(self._adjusted.tolist())

    @property
    def sampling_share(self) -> dict[str, float]:
        """By name, the share of the variance that sampling has; the rest is the noise's."""
        return self._by_name(self._found.sampling.tolist())

    @property
    def table(self) -> pl.DataFrame:
        """All of it as a data frame; columns that were left out come last."""
        import polars as pl

        found = self._found
        known = self._found.determined
        columns: dict[str, Any] = {
            "column": [*self.names, CONSTANT],
            "estimate": np.where(known, found.estimate, np.nan),
            "low": found.low,
            "high": found.high,
            "error": found.error,
            "p": found.pvalue,
            "p_adjusted": self._adjusted,
            "sampling_share": found.sampling,
            "state": [str(self.state if one else State.NOT_DETERMINED) for one in known],
        }
        rest = [self.release.names[k] for k in self.left_out]
        out = pl.DataFrame({"column": rest, "state": ["left out"] * len(rest)}, schema={"column": str, "state": str})
        return pl.concat([pl.DataFrame(columns), out], how="diagonal").with_columns(pl.selectors.float().fill_nan(None))

    # ------------------------------------------------------------------------ tests

    def _rows(self, equations: Iterable[Mapping[str, float]]) -> Floats:
        """Equations between coefficients, by name, as rows."""
        rows = []
        for equation in equations:
            row = np.zeros(len(self.kept) + 1)
            for name, weight in equation.items():
                for place in self.places(name):
                    row[place] += weight
            rows.append(row)
        return np.array(rows)

    def places(self, name: str) -> list[int]:
        """Where a name's coefficients stand, the constant last.

        Parameters
        ----------
        name
            Of a column, of a declared column, or "(constant)".
        """
        if name == CONSTANT:
            return [len(self.kept)]
        found = [self.kept.index(k) for k in self.release.find(name) if k in self.kept]
        if not found:
            why = "was left out as not determined" if name in self._left_names() else "is not in this model"
            raise InvalidInput(f"{name!r} {why}. It has {', '.join(self.names)}.")
        return found

    def _left_names(self) -> set[str]:
        every = self.release.columns
        return {one for k in self.left_out for one in (self.release.names[k], every[k].name, every[k].source)}

    def test(self, names: Iterable[str], value: float = 0.0) -> Test:
        """Test that the coefficients of all these columns have this value.

        Parameters
        ----------
        names
            One or several; a declared column stands for its levels, and a number that is a curve for its hats too.
        value
            In the units of the coefficients.
        """
        own = {place for name in ([names] if isinstance(names, str) else names) for place in self.places(name)}
        hats = self.release.with_hats(self.kept[place] for place in own if place < len(self.kept))
        places = sorted(own | {self.kept.index(k) for k in hats if k in self.kept})
        return self._joint(np.eye(len(self.kept) + 1)[places], np.full(len(places), value))

    def contrast(self, equations: Mapping[str, float] | Iterable[Mapping[str, float]], value: Any = 0.0) -> Test:
        """Test linear equations: {"a:age": 1, "b:age": -1} asks whether both are the same.

        Parameters
        ----------
        equations
            One or several, each by name the weight of a coefficient.
        value
            What they should come to, one for all or one for each.
        """
        rows = self._rows([equations] if isinstance(equations, Mapping) else equations)
        return self._joint(rows, np.broadcast_to(np.asarray(value, np.float64), (len(rows),)))

    def _joint(self, L: Floats, r: Floats) -> Test:
        H, h = self._to_data
        return self.model.joint(L @ H, r - L @ h)

    def combination(self, weights: Mapping[str, float]) -> tuple[float, float, float]:
        """Estimate and interval of a sum of coefficients; (nan, −inf, inf) where it is not determined.

        Parameters
        ----------
        weights
            By name, how often a coefficient is counted.
        """
        (row,), (H, h) = self._rows([weights]), self._to_data
        found = self.model.intervals(row @ H, self.level)
        moved = float(row @ h)
        estimate = float(found.estimate[0]) + moved if found.determined[0] else math.nan
        return estimate, float(found.low[0]) + moved, float(found.high[0]) + moved

    def curve(self, column: str, at: Iterable[float] | None = None) -> pl.DataFrame:
        """What a number adds, with a band: 0 at the middle of its range.

        A line is a curve without hats. With simultaneous=True the band holds at all these values at once.

        Parameters
        ----------
        column
            The number's name.
        at
            Values of it, in its own unit; None: its knots.
        """
        import polars as pl

        every = self.release.columns
        own = min(self.release.find(column)[0], len(every) - 1)
        alike = [k for k, c in enumerate(every) if (c.party, c.source) == (every[own].party, every[own].source)]
        value = next((k for k in alike if every[k].kind == ColumnKind.NUMBER and k in self.kept), None)
        if value is None:
            raise InvalidInput(f"{column!r} is no number of this model. It has {', '.join(self.names)}.")
        hats = [k for k in alike if every[k].kind == ColumnKind.PART]
        depth = (len(hats) + 1).bit_length() - 1
        middle = every[value].middle
        unit = every[value].unit
        values = middle + unit * curves.knots(depth) if at is None else np.array(list(at), np.float64)
        t = np.clip((values - middle) / unit, -1.0, 1.0)
        bends = curves.hats(t, depth) - curves.hats(np.zeros(1), depth)
        rows = np.zeros((values.size, len(self.kept) + 1))
        rows[:, self.kept.index(value)] = t
        for j, k in enumerate(hats):
            if k in self.kept:
                rows[:, self.kept.index(k)] = bends[:, j]
        found = self.model.intervals(rows, self.level, tests=values.size if self.simultaneous else 1)
        scale = self._aim.unit if self.units == Units.DATA else 1.0
        parts = {"effect": found.estimate, "low": found.low, "high": found.high}
        return pl.DataFrame({"value": values, **{name: scale * part for name, part in parts.items()}})

    def anderson_rubin(self, slopes: Mapping[str, float], constant: float | None = None) -> Test:
        """Test a value for every slope at once: valid also where nothing is determined.

        Parameters
        ----------
        slopes
            By name; 0 for those not named.
        constant
            The constant's value; None: whatever fits.
        """
        row = self._rows([slopes])[0][:-1]
        columns = self._columns
        aim = self._aim
        if self.units == Units.ENCODED:
            return self.model.anderson_rubin(row, constant)
        beta = row * np.array([c.unit for c in columns]) / aim.unit
        level = None
        if constant is not None:
            back = sum(b * c.middle / c.unit for b, c in zip(beta, columns, strict=True))
            level = (constant - aim.middle) / aim.unit + float(back)
        return self.model.anderson_rubin(beta, level)

    @property
    def overall(self) -> Test:
        """The test that all slopes are 0."""
        return self.model.overall()

    @property
    def r_squared(self) -> Share:
        """R² with its interval; refused where the model is not determined."""
        if self.xi > WEAK:
            raise InvalidInput(
                f"R² is not determined at this budget (index of weakness {self.xi:.2f}): take fewer columns."
            )
        return self.model.r_squared(self.level)

    @property
    def _across(self) -> Floats:
        """How far each column reaches, in the units of its coefficient; nothing for the constant."""
        units = [c.unit if self.units == Units.DATA else 1.0 for c in self._columns]
        far = np.array(units) * [(2.0 if c.kind == ColumnKind.NUMBER else 1.0) for c in self._columns]
        return np.append(far, 0.0)

    # ------------------------------------------------------------------------ what is said

    def facts(self) -> InferenceFacts:
        """What tables and reports show."""
        found = self._found
        values = (found.estimate, found.low, found.high, self._adjusted, found.sampling, self._across)
        parties = [*(c.party for c in self._columns), ""]
        lines = zip((*self.names, CONSTANT), parties, *(v.tolist() for v in values), strict=True)
        return InferenceFacts(
            title=self._title(),
            about=self._about(),
            level=self.level,
            adjusted="p (Holm)" if self.adjust == "holm" else "p",
            rows=tuple(CoefficientRow(*line) for line in lines),
            closing=self._closing(),
            warnings=self._warnings(),
        )

    def summary(self) -> str:
        """The table as text, with all that must be said of it."""
        return as_text(self.facts())

    def __repr__(self) -> str:
        return f"Inference({self._aim} on {len(self.kept)} columns, {self.state}); print(it.summary()) shows its table"

    def _repr_html_(self) -> str:
        return str(as_html(self.facts()))

    def _title(self) -> str:
        told = self.release.statement
        price = f"ε {shown(told.epsilon)}, δ {told.delta:g} (already spent; this page costs nothing)"
        price = price if math.isfinite(told.epsilon) else "no bound on ε: see the release's statement"
        kind = "a private release" if self.release.noisy else "an exact release"
        return f"Linear regression of {self._aim} from {kind}: {self.release.rows:,} rows, {price}"

    def _about(self) -> tuple[str, ...]:
        release = self.release
        every = len(self.kept) + len(self.left_out)
        capped = "" if self.target < len(release.columns) else _capped(release)
        lines = [
            f"About: the best linear predictor of {self._aim}{capped} by columns capped at their declared bounds; rows "
            f"shortened: {_shortened(release)}; {UNEQUAL if self.model.two is not None else EQUAL}",
            f"Determined: {len(self.kept)} of {every} columns (ξ {self.xi:.2g}: {self.state})"
            if self.state != State.NOT_DETERMINED
            else f"Not determined: the noise hides how the {every} columns go together (ξ {self.xi:.2g})",
        ]
        if self.left_out:
            out = ", ".join(release.names[k] for k in self.left_out)
            lines.append(f"Left out as not determined at this budget, so that the model is a shorter one: {out}")
        if self.references:
            lines.append(f"Compared with: {', '.join(self.references.values())}")
        if self.target == len(release.columns) and release.penalised:
            lines.append("The fit has a penalty or a set; this is the model without it")
        if self._aim.kind in (ColumnKind.CLASSES, *TWO_VALUES):
            what = "differences in probability" if self.units == Units.DATA else "differences of labels −1 and 1"
            lines.append(f"Coefficients are {what}, not odds ratios")
        return tuple(lines)

    def _closing(self) -> tuple[str, ...]:
        if not self.kept:
            return ("No column is determined at this budget",)
        test = self.overall
        named = f"χ²({test.df})"
        value = test.statistic
        if not self.release.noisy:  # then it is Fisher's
            named = f"F({test.df}, {self.release.rows - test.df - 1:,})"
            value = test.statistic / test.df
        whole = f"all slopes zero: {named} = {figure_of(value)}, p {_p(test.pvalue)}"
        try:
            share = self.r_squared
        except InvalidInput:
            return (f"R² not determined at this budget   {whole}",)
        return (f"R² {share.estimate:.2f} [{share.low:.2f}, {share.high:.2f}]   {whole}",)

    def _warnings(self) -> tuple[str, ...]:
        found = self._found
        known = found.determined[:-1]
        most = float(found.sampling[:-1][known].max(initial=0.0))
        lines = []
        if self.xi > DETERMINED and self.xi <= WEAK:
            lines.append("Weak: intervals hold, and are longer than they would have to be")
        if most > UNEVEN and self.release.noisy and self.robust == 1.0:
            lines.append(
                f"Note: sampling has up to {most:.0%} of a variance. If residuals spread unevenly, which a Gram matrix "
                "cannot show, intervals are too short; robust=1.5 or 2 widens them"
            )
        if self.release.shortened > MANY_SHORTENED:
            lines.append(
                "Note: these are coefficients of shortened rows. Row norms that the schemas prove shorten none: "
                "co.PrivateGram(purpose='inference')"
            )
        return tuple(lines)


def _p(value: float) -> str:
    text = probability(value)
    return text if text.startswith("<") else f"= {text}"


def _capped(release: Release) -> str:
    if release.label.kind == ColumnKind.CLASSES or not release.noisy:  # labels of an exact run are as they are
        return ""
    low, high = (figure_of(release.label.middle + s * release.reach) for s in (-1.0, 1.0))
    return f" capped to [{low}, {high}]"


def _shortened(release: Release) -> str:
    if release.proven:
        return "none (schema)"
    return f"unknown, at most {release.shortened:.1%} of a party's, by their released squares (no count was paid for)"


def with_bands(found: EffectCurves, model: Inference, scale: float) -> EffectCurves:
    """With the interval at each value, where the release determines a whole curve; `scale` times as wide."""
    return replace(found, curves=tuple(_with_band(curve, model, scale) for curve in found.curves))


def _with_band(curve: EffectCurve, model: Inference, scale: float) -> EffectCurve:
    name = f"{curve.party}:{curve.column}"
    places = model.release.with_hats(model.release.find(name)[:1])
    if not set(places) <= set(model.kept):
        return curve
    band = model.curve(name, curve.grid)
    low, high = (scale * band[name].to_numpy() for name in ("low", "high"))
    return replace(curve, low=low, high=high) if np.isfinite(low).all() and np.isfinite(high).all() else curve
