"""Weights of evidence of a scorecard's lines, from what a run released; nothing is read off rows.

WOE      ln((goods of the line / all goods) / (bads of the line / all bads)); IV Σ (difference of these shares)·WOE.
Levels   their counts by class are released: as class sums, or in a Gram matrix of rows as they are. A line either of
         whose counts lies within CLEAR sds of its noise has none. Noise makes differences larger: the IV is less what
         the noise adds on average, var(difference)/(mean of the shares), and never below 0.
Numbers  modelled. A line: the beta distribution with the released mean and variance; a curve: its hats' sums are the
         masses of a distribution around its knots. Log-odds as a + b·f, f the fitted effect (the number itself where
         that is nil), with a and b so that the class's share and its covariance with f are the released ones; nothing
         is said where that covariance lies within CLEAR sds of its noise.
Leaves   nothing: counts, moments and sds are released or public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betainc, expit

from colonnade.data.schema.cells import Gaps
from colonnade.kernels import curves
from colonnade.kernels.arrays import Floats, Indices
from colonnade.methods.gram.plan import Cross
from colonnade.methods.gram.rule import RuleName
from colonnade.runs.effects import Effect, is_number
from colonnade.runs.release import ColumnKind, Release

CLEAR = 2.0  # sds of its noise that a count must exceed
CELLS = 512  # of a number's range, in which its distribution is summed
STEEPEST = 12.0  # of log-odds over a number's range: beyond, released moments fit no distribution


@dataclass(frozen=True)
class LineEvidence:
    """Of one line of a card; None where it is not known."""

    share: float | None = None  # of all rows
    woe: float | None = None
    sd: float | None = None  # of the WOE, by noise alone
    share_sd: float | None = None  # by noise alone; None where the share is modelled


@dataclass(frozen=True)
class Evidence:
    """Of one column: its lines, its IV, and where that comes from or why it is missing."""

    lines: tuple[LineEvidence, ...]
    iv: float | None
    basis: str  # "released counts", "modelled" or ""
    why: str = ""


@dataclass(frozen=True)
class ClassSums:
    """Released sums of encoded columns over the rows of either class, and the sds of their noise."""

    positive: Floats
    negative: Floats
    sd: Floats
    squares: Floats  # of the columns, over all rows
    count: float  # rows of label +1
    rows: int


def class_sums(release: Release | None) -> ClassSums | str:
    """The sums by class of a release, or why there are none."""
    if release is None:
        return "this fit has no release: its method releases no Gram matrix"
    if release.label.kind != ColumnKind.CLASSES:
        return "the labels are no classes"
    size = len(release.columns)
    rows = release.rows
    if release.sums is not None:
        sums = release.sums
        return ClassSums(sums.positive, sums.negative, sums.noise, 2.0 * sums.half_squares, sums.count, rows)
    if release.rule != RuleName.RAW:
        return "class sums were not kept: rows were shortened to less than their schemas prove; leave row_norm out"
    if release.cross != Cross.SECURE:
        return f"cross={release.cross!r} releases no counts by class; co.PrivateGram(cross='secure') does"
    if not release.proven:
        return "rows may have been shortened, so that sums are no counts; leave row_norm out"
    ones = release.matrix[:size, size]
    pulls = release.matrix[:size, size + 1]
    sd = np.hypot(release.noise[:size, size], release.noise[:size, size + 1]) / 2.0
    count = (rows + float(release.matrix[size, size + 1])) / 2.0
    return ClassSums((ones + pulls) / 2.0, (ones - pulls) / 2.0, sd, np.diag(release.matrix)[:size], count, rows)


@dataclass(frozen=True)
class Witness:
    """What a release says of the columns of a card."""

    sums: ClassSums | str
    places: dict[tuple[str, str], int]  # by party and name of an encoded column
    good: int

    @classmethod
    def of(cls, release: Release | None, good: int) -> Witness:
        columns = () if release is None else release.columns
        return cls(class_sums(release), {(one.party, one.name): k for k, one in enumerate(columns)}, good)

    def evidence(self, effect: Effect, bins: Sequence[float], lines: int) -> Evidence:
        """Of a column's lines: its bins between `bins` (the bounds included) or its levels, then what else it has."""
        nothing = (LineEvidence(),) * lines
        if isinstance(self.sums, str):
            return Evidence(nothing, None, "", self.sums)
        found = [self.places.get((effect.party, one.name)) for one in effect.features]
        at = [place for place in found if place is not None]
        if len(at) < len(found):
            return Evidence(nothing, None, "", "some of its columns were not released")
        places = np.array(at)
        return self._of_bins(effect, bins, places, lines) if is_number(effect) else self._of_levels(effect, places)

    # ------------------------------------------------------------------------ levels

    def _of_levels(self, effect: Effect, at: Indices) -> Evidence:
        """By level; then gaps where they have a column; then what is left of all rows: the line before the first of a
        flag, the last of levels."""
        assert not isinstance(self.sums, str)
        sums = self.sums
        totals = (self.sums.count, self.sums.rows - self.sums.count)
        counts = [np.array([sums.positive[k], sums.negative[k]]) for k in at]
        sds = [np.array([sums.sd[k]] * 2) for k in at]
        rest = np.array(totals) - sum(counts, np.zeros(2))
        spread = np.sqrt(sum((sd**2 for sd in sds), np.zeros(2)))
        if rest.sum() <= CLEAR * np.linalg.norm(spread):  # what is left is most often nothing
            rest = np.zeros(2)
        first = not effect.column.levels_of(effect.group)
        counts, sds = ([rest, *counts], [spread, *sds]) if first else ([*counts, rest], [*sds, spread])
        if effect.column.covers(effect.group) and effect.column.missing != Gaps.INDICATOR:
            # nothing is left
            counts = counts[:-1]
            sds = sds[:-1]
        lines = []
        iv = 0.0
        clear = False
        for count, sd in zip(counts, sds, strict=True):
            line, term = self._line(count, sd, totals)
            lines.append(line)
            iv = iv + term
            clear = clear or line.woe is not None
        if not clear:
            return Evidence(tuple(lines), None, "released counts", "no count is clear of its noise at this budget")
        return Evidence(tuple(lines), max(iv, 0.0), "released counts")

    def _line(self, count: Floats, sd: Floats, totals: tuple[float, float]) -> tuple[LineEvidence, float]:
        """One line by its counts of both classes, and its term of the IV."""
        share = min(max(float(count.sum()) / sum(totals), 0.0), 1.0)
        share_sd = float(np.linalg.norm(sd)) / sum(totals)
        if min(totals) <= 0.0 or (count <= CLEAR * sd).any() or (count <= 0.0).any():
            return LineEvidence(share, share_sd=share_sd), 0.0
        of_class = count / np.array(totals)
        woe = math.log(of_class[0] / of_class[1]) * (1.0 if self.good > 0 else -1.0)
        added = float(np.sum((sd / np.array(totals)) ** 2)) / float(of_class.mean())
        term = abs(float(of_class[0] - of_class[1]) * woe) - added
        return LineEvidence(share, woe, float(np.hypot(*(sd / count))), share_sd), term

    # ------------------------------------------------------------------------ numbers

    def _of_bins(self, effect: Effect, bins: Sequence[float], at: Indices, lines: int) -> Evidence:
        assert not isinstance(self.sums, str)
        sums = self.sums
        own = at[: len(at) - 1] if _has_indicator(effect) else at
        gaps = at[len(own) :]
        missing = np.array([sums.positive[gaps].sum(), sums.negative[gaps].sum()])
        totals = np.array([sums.count, sums.rows - sums.count])
        here = totals - missing
        failed = Evidence((LineEvidence(),) * lines, None, "modelled", "released moments fit no distribution")
        if min(*here, *totals) <= 0.0:
            return failed
        edges = np.unique(np.concatenate([np.linspace(bins[0], bins[-1], CELLS + 1), bins, effect.knots]))
        weights = _distribution(effect, edges, sums, own, float(here.sum()))
        if weights is None:
            return failed
        if not effect.coefficients[: len(own)].any():  # the number itself
            effect = replace(effect, coefficients=np.eye(len(at))[0])
        x = effect.coefficients[: len(own)]
        share = float(here[0] / here.sum())
        middles = (edges[1:] + edges[:-1]) / 2.0
        apart = float(((1.0 - share) * sums.positive[own] - share * sums.negative[own]) @ x)  # of f between classes
        noise = math.hypot(share, 1.0 - share) * float(np.linalg.norm(sums.sd[own] * x))
        if abs(apart) <= CLEAR * noise:
            return replace(failed, why="how it differs between classes is not clear of the noise at this budget")
        chance = _tilt(effect.at_numbers(middles), weights, share, apart / float(here.sum()))
        if chance is None:
            return failed
        inside = np.searchsorted(np.asarray(bins)[1:-1], middles, side="right")
        found = []
        iv = 0.0
        for k in range(len(bins) - 1):
            mass = weights[inside == k]
            positive = float(mass @ chance[inside == k])
            negative = float(mass @ (1.0 - chance[inside == k]))
            counts = np.array([positive, negative]) * here.sum()
            line, term = self._line(counts, np.zeros(2), (float(totals[0]), float(totals[1])))
            found.append(LineEvidence(line.share, line.woe))
            iv += term
        if gaps.size:
            line, term = self._line(missing, np.array([sums.sd[gaps[0]]] * 2), (float(totals[0]), float(totals[1])))
            found.append(line)
            iv += max(term, 0.0)
        return Evidence(tuple(found), iv, "modelled")


def _has_indicator(effect: Effect) -> bool:
    return bool(effect.column.missing == Gaps.INDICATOR)


def _distribution(effect: Effect, edges: Floats, sums: ClassSums, own: Indices, rows: float) -> Floats | None:
    """Shares of rows with a value, by cell between edges, from released moments; None where they fit none."""
    low = float(edges[0])
    high = float(edges[-1])
    means = (sums.positive[own] + sums.negative[own]) / rows
    if len(own) == 1:
        mean = float(means[0])
        square = float(sums.squares[own[0]]) / rows
        if effect.column.entry_ends() != (-1.0, 1.0):  # in its own unit: as if it were scaled
            half = (high - low) / 2.0
            middle = (high + low) / 2.0
            square = (square - 2.0 * middle * mean + middle**2) / half**2
            mean = (mean - middle) / half
        variance = square - mean**2
        most = 1.0 - mean**2
        if not (abs(mean) < 1.0 and 1e-6 < variance < most):
            return None
        size = most / variance - 1.0
        a = size * (1.0 + mean) / 2.0
        b = size * (1.0 - mean) / 2.0
        return np.asarray(np.diff(betainc(a, b, (edges - low) / (high - low))))
    knots = curves.knots(len(own).bit_length() - 1)
    basis = np.column_stack([np.ones(knots.size), knots, curves.hats(knots, len(own).bit_length() - 1)])
    masses = np.maximum(np.linalg.solve(basis.T, np.concatenate([[1.0], means])), 0.0)
    if masses.sum() <= 0.0:
        return None
    # Of a hat around a knot; half of it at the ends.
    width = np.full(knots.size, knots[1] - knots[0])
    width[[0, -1]] /= 2.0
    middles = 2.0 * ((edges[1:] + edges[:-1]) / 2.0 - low) / (high - low) - 1.0
    weights = np.interp(middles, knots, masses / width) * np.diff(edges)
    return np.asarray(weights / weights.sum())


def _tilt(f: Floats, weights: Floats, share: float, aim: float) -> Floats | None:
    """P(+1 | f) = expit(a + b·f) with mean `share` and covariance `aim` with f; None: none has them."""
    spread = float(np.ptp(f))
    if spread == 0.0:
        return None
    z = (f - float(weights @ f)) / spread
    want = aim / spread
    a = math.log(share / (1.0 - share))
    b = 0.0
    for _ in range(100):
        p = expit(a + b * z)
        slope = weights * p * (1.0 - p)
        moments = np.array([share - weights @ p, want - weights @ (p * z)])
        hessian = np.array([[slope.sum(), slope @ z], [slope @ z, slope @ z**2]])
        step = np.linalg.solve(hessian + 1e-12 * np.eye(2), moments)
        step *= min(1.0, 2.0 / float(np.abs(step).max() + 1e-300))
        a = a + float(step[0])
        b = b + float(step[1])
        if abs(b) > STEEPEST:
            return None
        if np.abs(moments).max() < 1e-12:
            break
    return np.asarray(expit(a + b * z))
