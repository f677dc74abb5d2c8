"""A released Gram matrix and what makes it readable: from it any linear model of any of its columns, for nothing more.

Holds    the noisy Gram matrix of [columns, 1, label], the sd of every entry's noise, and public facts: what the schemas
         declare about columns, how rows were made, rows, budget and statement. Nothing that did not leave by the gate.
Whose    the coordinator's, who received it. Its price was paid for everybody who sees it, under the trust model that
         the statement names: whoever the statement covers may be given the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from colonnade.data.federation import Federation
from colonnade.data.party import Party
from colonnade.data.schema.column import Feature
from colonnade.errors import InvalidInput
from colonnade.fields import Choice, Finite, Positive
from colonnade.kernels.arrays import Floats
from colonnade.methods.gram.plan import Cross
from colonnade.methods.gram.rule import RuleName
from colonnade.model.job import Job, ReleasedGram, Solving, Sums
from colonnade.notebook import Grid, shown
from colonnade.privacy.statement import PrivacyStatement
from colonnade.problem.inference import determined_columns

if TYPE_CHECKING:
    import polars as pl

    from colonnade.runs.inference import Inference
    from colonnade.runs.release_tables import Selection


class ColumnKind(Choice):
    """What a released column stands for."""

    NUMBER = "number"
    LEVEL = "level"  # one of a list of levels
    FLAG = "flag"  # 0 or 1
    PART = "part"  # a hat of a number's curve
    CLASSES = "classes"


class Units(Choice):
    """In what coefficients are told."""

    DATA = "data"  # per unit of the declared columns
    ENCODED = "encoded"  # as coefficients of a fit are


class Criterion(Choice):
    """By what a model is chosen."""

    CP = "cp"  # the expected squared error
    BIC = "bic"  # fewer coefficients: log n for each instead of 2


KINDS = {kind: kind.value for kind in ColumnKind} | {ColumnKind.FLAG: "yes or no", ColumnKind.PART: "part of a curve"}
TWO_VALUES = (ColumnKind.LEVEL, ColumnKind.FLAG)
LEAST_STEPS = 10.0  # sd of the noise in squared steps: with less, rounding to steps is no longer hidden by it
NONE = "no intervals or tests from this release"
AGAIN = "Fit again with method=co.PrivateGram(purpose='inference')"


@dataclass(frozen=True)
class ReleasedColumn:
    """One column of the Gram matrix, as far as it is public: value = middle + unit·entry."""

    name: str  # of the feature: "age", "carrier=UA"
    party: str
    source: str  # the declared column that it was made of
    block: int  # features of one party with the same number belong together: levels, or a number and its curve
    kind: ColumnKind
    middle: Finite = 0.0
    unit: Positive = 1.0

    def __str__(self) -> str:
        return f"{self.party}:{self.name}"


def columns_of(party: Party, name: str, kept: Iterable[int]) -> list[ReleasedColumn]:
    """Those columns of a party that are among `kept`, from its public schema; of a plain matrix nothing but names."""
    places = [k for k in kept if 0 <= k < len(party.features)]
    if party.schema is None:
        return [ReleasedColumn(own := str(party.features[k]), name, own, k, ColumnKind.NUMBER) for k in places]
    found: list[ReleasedColumn] = []
    block = 0
    for column in party.schema.columns:
        for number, group in enumerate(column.groups()):
            levels = column.levels_of(number)
            for feature in group:
                kind = _kind_of(feature, among_levels=bool(levels), is_number=feature.name == column.name)
                scale = column.scaling() if kind is ColumnKind.NUMBER else (0.0, 1.0)
                found.append(ReleasedColumn(feature.name, name, column.name, block, kind, *scale))
            block += 1
    return [found[k] for k in places]


def _kind_of(feature: Feature, *, among_levels: bool, is_number: bool) -> ColumnKind:
    if among_levels:
        return ColumnKind.LEVEL
    if feature.binary:
        return ColumnKind.FLAG
    # Beside a number stand the hats of its curve.
    return ColumnKind.NUMBER if is_number else ColumnKind.PART


@dataclass(frozen=True, eq=False)
class Release:
    """The noisy Gram matrix of a run, with all that is needed to read it. Every call below costs nothing.

    Parameters
    ----------
    matrix
        (s + 2, s + 2) of [columns, 1, label] as they are encoded.
    noise
        The sd of every entry's noise; 0 where it is public.
    rows
        How many rows it was summed over.
    columns
        What is public about each column.
    label
        What is public about the label.
    reach
        Labels lie within so much of their middle, in their own units; classes are −1 and 1.
    rule
        How rows were made: "raw" as they are.
    cross
        How products between columns of different parties came about, as `co.PrivateGram` names it.
    centre
        What was taken off each column; 0 if raw.
    scale
        What each column was multiplied by; 1 if raw.
    norms
        By party, the length beyond which its part of a row was shortened.
    proven
        Whether the schemas prove that no row is longer.
    step
        Entries were rounded to it.
    cut
        Whether entries of curves were cut toward zero instead of rounded to the nearest step.
    unit_rows
        Rows that one protected unit may have.
    penalised
        Whether the fit's own problem has a penalty or a set.
    statement
        What the run that made it may claim about privacy.
    run
        Its id.
    sums
        By class, where they were released before the matrix.
    solving
        What the fit was solved with beside it.
    """

    matrix: Floats = field(repr=False)
    noise: Floats = field(repr=False)
    rows: int
    columns: tuple[ReleasedColumn, ...] = field(repr=False)
    label: ReleasedColumn
    reach: float
    rule: str
    cross: str
    centre: Floats = field(repr=False)
    scale: Floats = field(repr=False)
    norms: Mapping[str, float]
    proven: bool
    step: float
    cut: bool
    unit_rows: int
    penalised: bool
    statement: PrivacyStatement
    run: str
    sums: Sums | None = field(default=None, repr=False)
    solving: Solving | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        spent = (
            f"epsilon {self.statement.epsilon:g}" if math.isfinite(self.statement.epsilon) else "no bound on epsilon"
        )
        return f"Release({len(self.columns)} columns and {self.label}, {self.rows:,} rows, {spent}, run {self.run})"

    def _repr_html_(self) -> str:
        told = self.statement
        price = (
            f"ε {told.epsilon:.4g}, δ {told.delta:g}: already spent" if math.isfinite(told.epsilon) else "no bound on ε"
        )
        facts = {"label": str(self.label), "rows": f"{self.rows:,}", "price": price, "run": self.run}
        facts["intervals and tests"] = "yes: release.regress(...)" if self.refusal is None else f"no: {self.refusal}"
        rows = [(one.party, one.name, KINDS[one.kind]) for one in self.columns]
        grid = Grid("Columns that it has products of", ("party", "column", "kind"), rows)
        return shown(
            f"Release of {len(self.columns):,} columns", facts, [grid], ["Every model from it costs nothing more."]
        )

    # ------------------------------------------------------------------------ names

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All columns, the label last."""
        return tuple(map(str, self._all))

    @property
    def _all(self) -> tuple[ReleasedColumn, ...]:
        return (*self.columns, self.label)

    def _place(self, k: int) -> int:
        """Of column k of `names` in the matrix: the constant stands before the label."""
        return k if k < len(self.columns) else len(self.columns) + 1

    def find(self, names: str | Iterable[str]) -> list[int]:
        """Places among `names`.

        Parameters
        ----------
        names
            One name or several. A name may leave out its party where that is clear, or name a declared column.
        """
        found: list[int] = []
        for name in [names] if isinstance(names, str) else list(names):
            exact = [k for k, full in enumerate(self.names) if full == name]
            alike = exact or [k for k, one in enumerate(self._all) if one.name == name]
            whole = alike or [k for k, one in enumerate(self._all) if name in (one.source, f"{one.party}:{one.source}")]
            owners = {(self._all[k].party, self._all[k].source) for k in whole}
            if not whole:
                raise InvalidInput(f"{name!r} is no column of this release. It has {_some(self.names)}.")
            if len(owners) > 1:
                raise InvalidInput(f"{name!r} is ambiguous: write {_some(sorted(self.names[k] for k in whole))}.")
            found += [k for k in whole if k not in found]
        return found

    def with_hats(self, places: Iterable[int]) -> list[int]:
        """Each number that is a curve followed by its hats.

        Parameters
        ----------
        places
            Among `names`.
        """
        found: list[int] = []
        for k in places:
            own = self._all[k]
            hats = list[int]()
            if own.kind == ColumnKind.NUMBER:
                hats = [
                    j
                    for j, one in enumerate(self.columns)
                    if (one.party, one.source, one.kind) == (own.party, own.source, ColumnKind.PART)
                ]
            found += [j for j in (k, *hats) if j not in found]
        return found

    # ------------------------------------------------------------------------ what may be read off it

    @property
    def noisy(self) -> bool:
        """Whether any entry has noise."""
        return bool(self.noise.any())

    @property
    def refusal(self) -> str | None:
        """Why no interval or test would hold, and what to do; None: they do."""
        if self.cross != Cross.SECURE:
            return f"products between columns of different parties are missing (cross={self.cross!r}). {AGAIN}."
        if self.rule != RuleName.RAW:
            how = "centred, scaled and shortened by what was released first"
            return f"rows were {how} (rule {self.rule!r}), which makes coefficients of other rows. {AGAIN}."
        if self.cut:
            what = "entries of curves were cut toward zero, so that no row is longer, which makes slopes too large"
            return f"{what}. {AGAIN}, which rounds them."
        if self.unit_rows > 1:
            what = f"a protected person may have {self.unit_rows} rows, which depend on each other"
            return f"{what}, and errors here are those of independent rows. Fit on one row a person."
        # Of columns alone: the label has other units.
        least = float(self.noise[:-2, :-2].max()) / self.step**2
        if self.noisy and least < LEAST_STEPS:
            what = f"the noise is {least:.2g} squared steps, so that rounding to steps is not hidden by it"
            return f"{what}. Ask for a smaller epsilon; intervals at this one would be those of rounded rows."
        return None

    def check(self) -> None:
        """InvalidInput where intervals and tests would not hold."""
        if (why := self.refusal) is not None:
            raise InvalidInput(f"{NONE}: {why}")

    @cached_property
    def shortened(self) -> float:
        """The most rows of a party, as a share, that can have been shortened: 0 where the schemas prove it."""
        if self.proven:
            return 0.0
        squares = np.diag(self.matrix)
        shares = [0.0]
        for party, norm in self.norms.items():
            mine = [k for k, column in enumerate(self.columns) if column.party == party]
            if not mine or norm == 0.0:
                continue
            # A shortened row is as long as its bound, so their share is at most the mean of squared lengths over it.
            spread = math.hypot(*np.diag(self.noise)[mine])
            shares.append((float(squares[mine].sum()) + 2.0 * spread) / (self.rows * norm**2))
        return min(1.0, max(shares))

    def part(self, places: Sequence[int]) -> tuple[Floats, Floats]:
        """Matrix and noise of some of `names`, the constant last but one.

        Parameters
        ----------
        places
            Among `names`, the column to explain last.
        """
        inner = [self._place(k) for k in places]
        at = np.ix_(*[[*inner[:-1], len(self.columns), inner[-1]]] * 2)
        return self.matrix[at], self.noise[at]

    def counts(self) -> dict[str, float]:
        """How often each level is, noise and all: released sums of 0-1 columns over rows that were not shortened.

        Where rows of the matrix were centred they are the sums by class, which were released before it.
        """
        if self.rule == RuleName.RAW and self.proven:
            sums = self.matrix[: len(self.columns), len(self.columns)]
        elif self.sums is not None:
            sums = self.sums.positive + self.sums.negative
        else:
            raw = self.rule == RuleName.RAW
            how = "rows may have been shortened" if raw else f"rows were centred (rule {self.rule!r})"
            raise InvalidInput(
                f"no counts from this release: {how}, and no sums of whole rows were released. Fit again without "
                "row_norm, so that what the schemas prove holds, with co.PrivateGram(cross='secure')."
            )
        return {str(c): float(sums[k]) for k, c in enumerate(self.columns) if c.kind in TWO_VALUES}

    # ------------------------------------------------------------------------ models

    def regress(
        self,
        target: str | None = None,
        on: Iterable[str] | None = None,
        *,
        level: float = 0.95,
        drop: Literal["auto"] | None = "auto",
        protect: Iterable[str] = (),
        robust: float = 1.0,
        adjust: Literal["holm"] | None = "holm",
        simultaneous: bool = False,
        units: str = Units.DATA,
        references: Mapping[str, str] | None = None,
    ) -> Inference:
        """A linear model of any column by any others, with intervals and tests; it costs nothing.

        Parameters
        ----------
        target
            The column to explain; None: the label.
        on
            The columns that explain it, declared columns by their name; None: all others. The name of a curve stands
            for its number and its hats; an indicator of gaps is named for itself, "age=missing".
        level
            Of the intervals: the share of such intervals that cover.
        drop
            "auto": leave out columns that the budget does not determine, by the columns alone, never by the target;
            None: keep all.
        protect
            Columns that stay whatever the budget says.
        robust
            What the sampling variance is multiplied by; over 1 where residuals may spread unevenly.
        adjust
            "holm": p-values that hold for all slopes at once; None: each for itself.
        simultaneous
            Whether intervals hold for all slopes at once (Bonferroni).
        units
            "data": per unit of the declared columns; "encoded": as coefficients of a fit are.
        references
            By declared column, the level that others are compared with; None: the one that the released counts show
            most often.

        Returns
        -------
        Inference
            Coefficients, intervals and tests; `print(it.summary())` shows all.

        Raises
        ------
        InvalidInput
            No interval would hold; the message says why, and how to fit so that it does.
        """
        from colonnade.runs.inference import Inference, check_choices  # it needs this file

        self.check()
        check_choices(drop, adjust, units)
        aim = self.find(target)[0] if target is not None else len(self.columns)
        if target is not None and len(self.find(target)) > 1:
            raise InvalidInput(
                f"{target!r} stands for several columns: explain one of them, as in {self.names[aim]!r}."
            )
        chosen = self._chosen(aim, on)
        compared = self._references(chosen, references or {})
        chosen = [k for k in chosen if k not in compared.values()]
        if not chosen:
            raise InvalidInput("no column is left to explain with: name more in on=.")
        kept = chosen
        left_out = list[int]()
        if drop == "auto":
            matrix, noise = self.part([*chosen, aim])
            guarded = set(self.with_hats(self.find(protect)))
            inside = {i for i, k in enumerate(chosen) if k in guarded}
            places, out = determined_columns(matrix[:-1, :-1], noise[:-1, :-1], inside)
            kept = [chosen[i] for i in places]
            left_out = [chosen[i] for i in out]
        return Inference(
            release=self,
            target=aim,
            kept=tuple(kept),
            left_out=tuple(left_out),
            references={source: self.names[k] for source, k in compared.items()},
            level=level,
            robust=robust,
            adjust=adjust,
            simultaneous=simultaneous,
            units=units,
        )

    def _chosen(self, aim: int, on: Iterable[str] | None) -> list[int]:
        """What explains: never the target, nor other levels of it."""
        own = (self._all[aim].party, self._all[aim].source) if aim < len(self.columns) else None
        if on is None:
            every = range(len(self.columns))
            return [k for k in every if (self.columns[k].party, self.columns[k].source) != own]
        chosen = self.with_hats(self.find(on))
        if aim in chosen or any((self._all[k].party, self._all[k].source) == own for k in chosen):
            raise InvalidInput(f"{self.names[aim]!r} cannot explain itself: leave its column out of on=.")
        return chosen

    def _references(self, chosen: Sequence[int], asked: Mapping[str, str]) -> dict[str, int]:
        """By declared column, the level to leave out: all of them together with the constant say one thing twice."""
        groups: dict[tuple[str, int], list[int]] = {}
        for k in chosen:
            if self._all[k].kind == ColumnKind.LEVEL:
                groups.setdefault((self._all[k].party, self._all[k].block), []).append(k)
        wanted = {k for name in asked.values() for k in self.find(name)}
        sums = self.matrix[:, len(self.columns)]
        found = dict[str, int]()
        for (party, block), inside in groups.items():
            level = (party, block, ColumnKind.LEVEL)
            whole = [k for k, c in enumerate(self.columns) if (c.party, c.block, c.kind) == level]
            if len(inside) < len(whole):
                # The levels that were not named are what is compared with.
                continue
            named = [k for k in inside if k in wanted]
            place = named[0] if named else max(inside, key=lambda k: float(sums[k]))
            found[f"{party}:{self._all[place].name.rpartition('=')[0]}"] = place
        if unused := wanted - set(found.values()):
            raise InvalidInput(f"references= names {self.names[min(unused)]!r}, which is no level of a column in on=.")
        return found

    # ------------------------------------------------------------------------ other tables, for nothing too

    def correlation(self, columns: Iterable[str] | None = None, *, level: float = 0.95) -> pl.DataFrame:
        """Correlations of all pairs with their intervals; null where the noise hides how much a column varies.

        Parameters
        ----------
        columns
            Which ones; None: all.
        level
            Of the intervals.
        """
        from colonnade.runs import release_tables

        return release_tables.correlation(self, columns, level)

    def vif(self, on: Iterable[str] | None = None, *, level: float = 0.95) -> pl.DataFrame:
        """By column, how much longer others make its interval: 1/(1 − R²) of the column by all others.

        Parameters
        ----------
        on
            The columns; None: all.
        level
            Of the intervals.
        """
        from colonnade.runs import release_tables

        return release_tables.vif(self, on, level)

    def pca(self, columns: Iterable[str] | None = None, *, level: float = 0.95) -> pl.DataFrame:
        """Principal components of columns as they are encoded: those whose direction the noise does not turn.

        Parameters
        ----------
        columns
            Which ones; None: all.
        level
            Of the intervals.
        """
        from colonnade.runs import release_tables

        return release_tables.pca(self, columns, level)

    def crude_odds(self, columns: Iterable[str] | None = None, *, level: float = 0.95) -> pl.DataFrame:
        """Odds ratios of the positive class by yes-or-no columns, each for itself; null where the noise hides it.

        Parameters
        ----------
        columns
            Which ones; None: all of that kind.
        level
            Of the intervals.
        """
        from colonnade.runs import release_tables

        return release_tables.crude_odds(self, columns, level)

    def select(
        self,
        target: str | None = None,
        on: Iterable[str] | None = None,
        *,
        candidates: Sequence[Any] | None = None,
        criterion: str = Criterion.CP,
    ) -> Selection:
        """Which penalty, or which set of columns, predicts other rows best, the noise counted in.

        Parameters
        ----------
        target
            The column to explain; None: the label.
        on
            The columns that explain it; None: all others.
        candidates
            Penalties (co.Ridge, co.Lasso, co.ElasticNet; weights as in a problem) or lists of columns; None: a path of
            lasso weights.
        criterion
            "cp": the expected squared error; "bic": fewer coefficients, log n for each instead of 2.
        """
        from colonnade.runs import release_tables

        return release_tables.select(self, target, on, candidates, criterion)

    # ------------------------------------------------------------------------ keeping it

    def save(self, path: str | Path) -> None:
        """Write the release to one file; `co.Release.load` reads it back, equal to the bit.

        Parameters
        ----------
        path
            The file to write.
        """
        from colonnade.runs.release_file import write_release

        write_release(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release that `save` wrote, or that of a saved fit.

        Parameters
        ----------
        path
            The file.
        """
        from colonnade.runs.release_file import read_release

        return read_release(Path(path))


def release_of(
    gram: ReleasedGram, federation: Federation, job: Job, statement: PrivacyStatement, run: str, middle: float
) -> Release:
    """What left by the gate, beside what schemas and terms say in public; `middle`: what labels were measured from."""
    columns = list[ReleasedColumn]()
    before = 0
    keep = gram.keep.tolist()
    for name, party in federation.parties.items():
        columns += columns_of(party, name, [k - before for k in keep])
        before += len(party.features)
    classes = job.problem.loss.classifies
    label = federation.label_column or "label"
    kind = ColumnKind.CLASSES if classes else ColumnKind.NUMBER
    # Of classes: whether it is the positive one.
    scale = (0.5, 0.5) if classes else (middle, 1.0)
    return Release(
        *(gram.matrix, gram.noise, job.roster.rows, tuple(columns)),
        label=ReleasedColumn(label, federation.label, label, -1, kind, *scale),
        reach=1.0 if classes or job.privacy is None else float(job.privacy.label_reach or 1.0),
        rule=gram.rule,
        cross=gram.cross,
        centre=gram.centre,
        scale=gram.scale,
        norms=gram.norms,
        proven=gram.proven,
        step=gram.step,
        cut=gram.cut,
        unit_rows=job.roster.unit.rows,
        penalised=job.problem.penalty is not None or job.problem.constraint is not None,
        statement=statement,
        run=run,
        sums=gram.sums,
        solving=gram.solving,
    )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")
