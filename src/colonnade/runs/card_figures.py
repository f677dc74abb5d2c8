"""How a scorecard does on rows that the caller has: KS, Gini, lift, information values, stability.

Exact figures of rows: nothing here is private, and what comes of it says so.

KS        the largest distance between the shares of bads and of goods at and below some points
Gini      2·AUC − 1
Lift      the rate of bads in a tenth of rows over that of all
PSI       Σ (a − e)·ln(a/e) over groups with the shares a of rows at hand and e of those they are compared with; half a
          row is added to every group, so that an empty one has a logarithm. Against released shares only what lies
          beyond CLEAR sds of their noise counts; where so much noise may hide a shift, nothing is told
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.data.labels import count_strange, in_words, other_class, signs_of
from colonnade.data.schema.cells import as_frame
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Integers
from colonnade.runs.evidence import CLEAR
from colonnade.views.scorecard import RELEASED, STABLE, CardColumn, LineCount, Performance, Stability, Tenth

if TYPE_CHECKING:
    from colonnade.runs.scorecard import Scorecard

TENTHS = 10


def rows_of(card: Scorecard, data: Any) -> list[dict[str, Any]]:
    """Rows as a scorer reads them, by the names of the card's columns."""
    wanted = {(column.party, column.key) for column in card.columns}
    if not isinstance(data, Mapping):
        frame = as_frame(data)
        keys = list(dict.fromkeys(key for _, key in sorted(wanted)))
        if absent := [key for key in keys if key not in frame.columns]:
            raise InvalidInput(f"the table has no column {absent[0]!r}. Give every column of the card by its name.")
        return frame.select(keys).to_dicts() if keys else [{}] * frame.height
    whole = None
    for party in [name for name in data if any(name == owner for owner, _ in wanted)]:
        frame = as_frame(data[party])
        own = {key: key.removeprefix(f"{party}:") for owner, key in wanted if owner == party}
        matched = [] if card.on is None else [card.on]
        if absent := [name for name in (*own.values(), *matched) if name not in frame.columns]:
            raise InvalidInput(f"the frame of {party!r} lacks {absent[0]!r}, which the card needs.")
        # The key may be a column of the card as well: it is matched under a name of its own.
        frame = frame.select(*(_named(frame, name, key) for key, name in own.items()), *_keys(frame, matched))
        whole = frame if whole is None else _joined(whole, frame, party, bool(matched))
    if whole is None:
        raise InvalidInput("no frame of a party with columns of the card was given.")
    return whole.drop(KEY, strict=False).to_dicts()


KEY = "\0key"


def _named(frame: Any, name: str, key: str) -> Any:
    return frame[name].alias(key)


def _keys(frame: Any, matched: list[str]) -> list[Any]:
    return [frame[name].alias(KEY) for name in matched]


def _joined(whole: Any, frame: Any, party: str, matched: bool) -> Any:
    if not matched:
        if whole.height != frame.height:
            raise InvalidInput(f"the frame of {party!r} has {frame.height:,} rows, those before {whole.height:,}.")
        return whole.hstack(frame)
    if frame[KEY].n_unique() < frame.height:
        raise InvalidInput(f"the frame of {party!r} has rows with the same key; a row needs one of its own.")
    missing = whole.height - whole.join(frame, on=KEY, how="semi").height
    if missing:
        raise InvalidInput(f"{missing:,} of {whole.height:,} rows are not in the frame of {party!r}; leave them out.")
    return whole.join(frame, on=KEY, how="left", maintain_order="left")


def performance(card: Scorecard, data: Any, labels: Any) -> Performance:
    places = card.places(data)
    total = _points(card, places)
    bad = _bads(card, labels, len(places))
    if not 0 < bad.sum() < bad.size:
        raise InvalidInput(f"{bad.sum():,} of {bad.size:,} rows are bad: these figures need goods and bads.")
    order = np.argsort(total, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(total[order]) != 0, True))  # rows of equal points fall together
    bads = np.concatenate([[0.0], np.cumsum(bad[order])[ends] / bad.sum()])
    goods = np.concatenate([[0.0], np.cumsum(~bad[order])[ends] / (~bad).sum()])
    gap = np.abs(bads - goods)
    at = int(np.argmax(gap))
    auc = float(np.sum(np.diff(goods) * (bads[1:] + bads[:-1]) / 2.0))
    lines, iv = _by_line(card, places, bad)
    return Performance(
        rows=bad.size,
        bads=int(bad.sum()),
        ks=float(gap[at]),
        ks_at=int(total[order][ends[max(at, 1) - 1]]),
        gini=2.0 * auc - 1.0,
        auc=auc,
        tenths=_tenths(total[order], bad[order]),
        lines=lines,
        iv=iv,
    )


def _points(card: Scorecard, places: Integers) -> Integers:
    worth = [np.array([one.points for one in column.lines]) for column in card.columns]
    return card.base + sum((w[places[:, k]] for k, w in enumerate(worth)), np.zeros(len(places), np.int64))


def _bads(card: Scorecard, labels: Any, rows: int) -> Any:
    given = np.asarray(labels)
    if given.shape != (rows,):
        raise InvalidInput(f"labels of shape {given.shape} for {rows:,} rows: give one a row, in their order.")
    return (_signs(card, given) > 0) != (card.good > 0)


def _signs(card: Scorecard, given: Any) -> Any:
    """Labels as the model has them, above 0 for the class that was learnt: numbers, Booleans, or the classes' names."""
    strange = given.size
    known = "-1 or 0 and 1, or False and True, as the model has them"
    if card.classes is not None:
        negative, positive = card.classes
        every = isinstance(positive, str) and negative == other_class(
            positive, None
        )  # but the positive one is negative
        strange = count_strange(given, card.classes)
        known = f"{in_words(negative)} and {in_words(positive)}, or {known}"
        if not strange or (every and given.dtype.kind in "OU"):
            return signs_of(given, positive)
    if given.dtype == bool or (given.dtype.kind in "iufO" and np.isin(given, (-1, 0, 1)).all()):
        return given
    raise InvalidInput(f"labels must be {known}; {strange:,} of {given.size:,} are something else.")


def _tenths(total: Integers, bad: Any) -> tuple[Tenth, ...]:
    rate = float(bad.mean())
    found = 0
    tenths = []
    for part in np.array_split(np.arange(bad.size), min(TENTHS, bad.size)):
        count = int(bad[part].sum())
        found += count
        own = count / part.size
        ends = int(total[part[0]]), int(total[part[-1]])
        tenths.append(Tenth(*ends, int(part.size), count, own, own / rate, found / int(bad.sum())))
    return tuple(tenths)


def _by_line(card: Scorecard, places: Integers, bad: Any) -> tuple[tuple[LineCount, ...], dict[str, float]]:
    lines = []
    iv = dict[str, float]()
    for k, column in enumerate(card.columns):
        size = len(column.lines)
        total = 0.0
        bads = np.bincount(places[bad, k], minlength=size)
        goods = np.bincount(places[~bad, k], minlength=size)
        for line, good, lost in zip(column.lines, goods.tolist(), bads.tolist(), strict=True):
            woe = None
            if good and lost:
                shares = good / float(goods.sum()), lost / float(bads.sum())
                woe = math.log(shares[0] / shares[1])
                total += (shares[0] - shares[1]) * woe
            lines.append(LineCount(column.title, line.name, good, lost, woe))
        iv[column.title] = total
    return tuple(lines), iv


def stability(card: Scorecard, data: Any, against: Any | None) -> Stability:
    here = card.places(data)
    if against is None:
        known = {column.title: _against_shares(here[:, k], column) for k, column in enumerate(card.columns)}
        why = {title: found for title, found in known.items() if isinstance(found, str)}
        psi = {title: None if isinstance(found, str) else found for title, found in known.items()}
        return Stability(len(here), None, psi, "the released shares", why=why)
    there = card.places(against)
    if not len(here) or not len(there):
        raise InvalidInput("stability needs rows on both sides.")
    now = _points(card, here)
    then = _points(card, there)
    edges = np.unique(np.quantile(then, np.arange(1, TENTHS) / TENTHS, method="inverted_cdf"))
    groups = [np.bincount(np.searchsorted(edges, points), minlength=edges.size + 1) for points in (now, then)]
    columns: dict[str, float | None] = {}
    for k, column in enumerate(card.columns):
        counts = [np.bincount(places[:, k], minlength=len(column.lines)) for places in (here, there)]
        columns[column.title] = _psi(_shares(counts[0]), _shares(counts[1]))
    return Stability(len(here), _psi(_shares(groups[0]), _shares(groups[1])), columns, f"{len(there):,} other rows")


def _against_shares(places: Integers, column: CardColumn) -> float | str:
    """The PSI beyond the noise of released shares; or why there is none."""
    shares, sds = ([getattr(line, name) for line in column.lines] for name in ("share", "share_sd"))
    if column.basis != RELEASED or None in shares or None in sds:  # a model's error is no shift
        return "its shares were not released"
    counts = np.bincount(places, minlength=len(shares))
    released = np.array(shares, np.float64)
    reach = CLEAR * np.array(sds, np.float64)
    reach[(released == 0.0) & (counts == 0)] = 0.0  # of nothing on either side no PSI is made
    then = (released * places.size + 0.5) / (released.sum() * places.size + 0.5 * released.size)
    now = _shares(counts)
    least = 0.5 / places.size
    found = _psi(now, now + np.sign(then - now) * np.maximum(np.abs(then - now) - reach, 0.0))
    hidden = (_psi(now, now + reach) + _psi(now, np.maximum(now - reach, least))) / 2.0
    if hidden > STABLE > found:
        return f"the noise of its released shares may hide a PSI of {hidden:.2f}; compare with other rows"
    return found


def _shares(counts: Integers) -> Floats:
    return np.asarray((counts + 0.5) / (counts.sum() + 0.5 * counts.size))


def _psi(now: Floats, then: Floats) -> float:
    return float(np.sum((now - then) * np.log(now / then)))
