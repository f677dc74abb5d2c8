"""Tables from a release beside regressions: correlations, inflation of variances, components, odds, chosen models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem import ElasticNet, Lasso, Ridge
from colonnade.problem.inference import DETERMINED
from colonnade.problem.second_moments import choose_model, components, correlations, odds_ratio
from colonnade.runs.inference import CONSTANT, Inference
from colonnade.runs.release import TWO_VALUES, ColumnKind, Criterion, Release

if TYPE_CHECKING:
    import polars as pl

PATH = 20  # weights of the lasso that are tried, and how far down
LIGHTEST = 1e-3


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> pl.DataFrame:
    """A data frame; what is not determined is null."""
    import polars as pl

    special: dict[str, Any] = {"column": pl.String, "with": pl.String, "component": pl.Int64}
    kinds = {name: special.get(name, pl.Float64) for name in columns}
    return pl.DataFrame(list(rows), kinds, orient="row").with_columns(pl.selectors.float().fill_nan(None))


def _with_constant(release: Release, places: Sequence[int]) -> tuple[Floats, Floats]:
    """Matrix and noise of [columns, 1]."""
    matrix, noise = release.part([*places, places[0]])
    return matrix[:-1, :-1], noise[:-1, :-1]


def _columns(release: Release, columns: Iterable[str] | None, label: bool) -> list[int]:
    places = list(range(len(release.columns) + label)) if columns is None else release.find(columns)
    if not places:
        raise InvalidInput("name at least one column, or leave the names out for all of them.")
    return places


def correlation(release: Release, columns: Iterable[str] | None, level: float) -> pl.DataFrame:
    release.check()
    places = _columns(release, columns, label=True)
    found = correlations(*_with_constant(release, places), release.rows, level)
    names = [release.names[k] for k in places]
    values = (found.estimate, found.low, found.high)
    pairs = zip(*np.triu_indices(len(places), 1), strict=True)
    rows = [(names[i], names[j], *(float(value[i, j]) for value in values)) for i, j in pairs]
    return _table(("column", "with", "correlation", "low", "high"), rows)


def vif(release: Release, on: Iterable[str] | None, level: float) -> pl.DataFrame:
    chosen = release.regress(None, on, level=level)
    rows: list[tuple[Any, ...]] = []
    for k in chosen.kept:
        others = tuple(other for other in chosen.kept if other != k)
        if not others:
            rows.append((release.names[k], 1.0, 1.0, 1.0))
            continue
        model = replace(chosen, target=k, kept=others, left_out=())
        if model.xi > DETERMINED:
            rows.append((release.names[k], None, 1.0, math.inf))
            continue
        share = model.model.r_squared(level)
        factors = (1.0 / (1.0 - min(max(one, 0.0), 1.0 - 1e-9)) for one in share)
        rows.append((release.names[k], *factors))
    return _table(("column", "vif", "low", "high"), rows)


def pca(release: Release, columns: Iterable[str] | None, level: float) -> pl.DataFrame:
    release.check()
    places = _columns(release, columns, label=False)
    found = components(*_with_constant(release, places), release.rows, level)
    if not found.variance.size:
        raise InvalidInput(
            f"the noise turns the directions of all {found.every} components: take columns that vary differently, or a "
            "larger budget."
        )
    names = [release.names[k] for k in places]
    rows = [
        (k + 1, *(float(part[k]) for part in (found.variance, found.low, found.high, found.share)), name, load, error)
        for k in range(found.variance.size)
        for name, load, error in zip(names, found.loadings[:, k].tolist(), found.errors[:, k].tolist(), strict=True)
    ]
    return _table(("component", "variance", "low", "high", "share", "column", "loading", "error"), rows)


def crude_odds(release: Release, columns: Iterable[str] | None, level: float) -> pl.DataFrame:
    release.check()
    if release.label.kind != ColumnKind.CLASSES:
        raise InvalidInput(f"odds are of classes, and {str(release.label)!r} is a number: regress it instead.")
    every = [k for k, column in enumerate(release.columns) if column.kind in TWO_VALUES]
    places = every if columns is None else release.find(columns)
    if wrong := [release.names[k] for k in places if k not in every]:
        raise InvalidInput(f"{wrong[0]!r} is no yes-or-no column: declare it co.Binary or co.Categorical.")
    s = len(release.columns)
    rows = []
    for k in places:
        at = ([k, k, s], [s, s + 1, s + 1])
        sums = release.matrix[at]
        variance = np.square(release.noise[at])
        # Of labels ±1: the first, the first among positive rows, positive rows.
        T = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.5]])
        counts = T @ sums + np.array([0.0, 0.0, release.rows / 2.0])
        rows.append((release.names[k], *odds_ratio(counts, (T * variance) @ T.T, release.rows, level)))
    return _table(("column", "odds_ratio", "low", "high"), rows)


@dataclass(frozen=True, eq=False)
class Selection:
    """Candidates by how well they would predict other rows, and the best of them.

    Parameters
    ----------
    table
        One row a candidate: what it is, its criterion (of the target as it is encoded), and so on.
    best
        The best candidate: a penalty or a list of columns.
    coefficients
        Of the best, as columns are encoded; the constant last.
    """

    table: pl.DataFrame
    best: Any
    coefficients: dict[str, float]

    def __repr__(self) -> str:
        return f"Selection(best: {self.best!r} of {self.table.height})"


def select(
    release: Release, target: str | None, on: Iterable[str] | None, candidates: Sequence[Any] | None, criterion: str
) -> Selection:
    import polars as pl

    if criterion not in tuple(Criterion):
        raise InvalidInput(f"criterion={criterion!r} is not known; choose 'cp' or 'bic'.", "criterion")
    chosen = release.regress(target, on)
    if not chosen.kept:
        raise InvalidInput("the budget determines none of these columns, so that there is nothing to choose among.")
    model = chosen.model
    if candidates is None:
        M = model.matrix[:-1, :-1]
        b = model.matrix[:-1, -1]
        n = model.rows
        most = float(np.abs(b[:-1] - M[:-1, -1] * b[-1] / M[-1, -1]).max()) / n
        candidates = [Lasso(most * float(x)) for x in np.geomspace(1.0, LIGHTEST, PATH)]
    terms = [_term(chosen, one) for one in candidates]
    if not terms:
        raise InvalidInput("candidates= is empty: give penalties, or lists of columns.")
    found = choose_model(model, terms, per_coefficient=math.log(model.rows) if criterion == Criterion.BIC else 2.0)
    above = found.error - found.error[found.best]
    table = {
        "candidate": [
            str(one) if isinstance(one, Ridge | Lasso | ElasticNet) else ", ".join(one) for one in candidates
        ],
        criterion: found.error,
        "coefficients": found.size,
        "above_best": above,
        "noise_of_that": found.doubt,
        "may_be_best": above <= 2.0 * found.doubt,
    }
    beta = dict(zip((*chosen.names, CONSTANT), found.beta[found.best].tolist(), strict=True))
    return Selection(pl.DataFrame(table), candidates[found.best], beta)


def _term(chosen: Inference, candidate: Any) -> Any:
    if isinstance(candidate, Ridge | Lasso | ElasticNet):
        return candidate
    if isinstance(candidate, str) or not isinstance(candidate, Iterable):
        raise InvalidInput(
            f"{candidate!r} is no candidate: give co.Ridge, co.Lasso, co.ElasticNet or a list of columns."
        )
    return np.array(sorted({place for name in candidate for place in chosen.places(name)}), dtype=np.int64)
