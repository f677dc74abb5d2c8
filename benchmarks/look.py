"""What does it cost that nobody declared a figure? AUC with every column looked at, beside declared bounds and levels.

    python -m benchmarks look            quick: credit-default at epsilon 1, two splits
    python -m benchmarks look --full     credit-default, a9a and flights at epsilon .5, 1 and 4, five splits

Declared  numbers by the ranges of papers/schemas or of the demonstration, all levels that there are.
Looked    the same columns without any figure, at a tenth of the budget.
Both are whole runs of co.fit with trust "secure" on the same rows, and predict the same held-out ones.
Raw       credit-default comes standardised: its numbers are whole, and their published least and largest values give back
          what they were; one-hot columns become levels again. a9a comes one-hot: each attribute is a column of levels.
A bar allows .004 and three standard errors of the difference. The exit code is 1 where one is missed.
"""

from __future__ import annotations

import json
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from scipy import sparse
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

import colonnade as co
from benchmarks.gram import SCHEMAS
from benchmarks.timing import data_folder

EPSILONS = (0.5, 1.0, 4.0)
WORSE = 0.004  # of AUC, at most
ERRORS = 3.0
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1e-4))
PUBLISHED = {  # least and largest values of credit-default, as UCI's description of the table has them
    "AGE": (21, 79),
    "LIMIT_BAL": (10_000, 1_000_000),
    "BILL_AMT1": (-165_580, 964_511),
    "BILL_AMT2": (-69_777, 983_931),
    "BILL_AMT3": (-157_264, 1_664_089),
    "BILL_AMT4": (-170_000, 891_586),
    "BILL_AMT5": (-81_334, 927_171),
    "BILL_AMT6": (-339_603, 961_664),
    "PAY_AMT1": (0, 873_552),
    "PAY_AMT2": (0, 1_684_259),
    "PAY_AMT3": (0, 896_040),
    "PAY_AMT4": (0, 621_000),
    "PAY_AMT5": (0, 426_529),
    "PAY_AMT6": (0, 528_666),
    **{f"PAY_{k}": (-2, 8) for k in (0, 2, 3, 4, 5, 6)},
}


@dataclass(frozen=True)
class Raw:
    """A table as its owners have it, with what they would declare."""

    frames: Mapping[str, pl.DataFrame]
    declared: Mapping[str, co.Schema]
    label: str
    y: np.ndarray


def main(quick: bool = True) -> int:
    names = ("credit-default",) if quick else tuple(TABLES)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        passed = [measure(name, 2 if quick else 5, (1.0,) if quick else EPSILONS) for name in names]
    return int(not all(passed))


def measure(name: str, splits: int, epsilons: tuple[float, ...]) -> bool:
    raw = TABLES[name]()
    if raw is None:
        return True
    print(f"{name}: {raw.y.size:,} rows, {sum(len(s.columns) for s in raw.declared.values())} columns, {splits} splits")
    passed = True
    for e in epsilons:
        found = np.array([split(raw, e, seed) for seed in range(splits)])
        apart = found[:, 1] - found[:, 0]
        error = apart.std(ddof=1) / np.sqrt(splits)
        good = apart.mean() >= -WORSE - ERRORS * error
        passed &= bool(good)
        declared, looked = found.mean(axis=0)
        figures = f"declared {declared:.4f}  looked at {looked:.4f}  {apart.mean():+.4f} ± {error:.4f}"
        print(f"    epsilon {e:g}: {figures}{'' if good else '  MISSED'}", flush=True)
    return passed


def split(raw: Raw, e: float, seed: int) -> tuple[float, float]:
    """Held-out AUC with figures declared, and looked at."""
    order = np.random.default_rng(1000 + seed).permutation(raw.y.size)
    train, test = (np.sort(part) for part in np.split(order, [int(0.8 * order.size)]))
    rows = {name: frame[train].with_columns(id=train) for name, frame in raw.frames.items()}
    rows[raw.label] = rows[raw.label].with_columns(pl.Series("the label", raw.y[train]))
    new = {name: frame[test].with_columns(id=test) for name, frame in raw.frames.items()}
    found = []
    for schemas in (raw.declared, {name: without_figures(schema) for name, schema in raw.declared.items()}):
        fed = co.Federation.from_frames(rows, "id", (raw.label, "the label"), schemas=schemas, classes=(0, 1))
        with tempfile.TemporaryDirectory() as store:
            fit = co.fit(fed, RIDGE, privacy=co.Privacy(e, 1e-6, trust="secure"), store=store)
        scores = np.asarray(fit.predict_proba(new))
        found.append(float(roc_auc_score(raw.y[test], scores[:, 1] if scores.ndim == 2 else scores)))
    return found[0], found[1]


def without_figures(schema: co.Schema) -> co.Schema:
    """The same columns with nothing known of them but their kinds."""
    bare = {co.Numeric: co.Numeric, co.Categorical: co.Categorical}
    return replace(schema, columns=tuple(bare.get(type(c), lambda _, c=c: c)(c.name) for c in schema.columns))


# ------------------------------------------------------------------------------------------------ tables


def credit_default() -> Raw | None:
    if (folder := data_folder("credit-default")) is None:
        return None
    told = tomllib.loads((SCHEMAS / "credit-default.toml").read_text())["party"]
    X = sparse.load_npz(folder / "X.npz").toarray().astype(np.float64)
    names = (folder / "features.txt").read_text().split("\n")
    frames, schemas = {}, {}
    for party, public in told.items():
        cells: dict[str, np.ndarray] = {}
        columns: list[co.Numeric | co.Categorical] = []
        for j in range(*public["columns"]):
            name, _, level = names[j].partition("=")
            if not level:
                least, largest = PUBLISHED[name]
                unit = (largest - least) / np.ptp(X[:, j])
                cells[name] = np.rint(least + (X[:, j] - X[:, j].min()) * unit)
                ends = [least + (end - X[:, j].min()) * unit for end in public["numeric"][name]]
                columns.append(co.Numeric(name, *ends))
            else:
                cells.setdefault(name, np.full(len(X), "", object))[X[:, j] > 0] = level
        kinds = {name: sorted(set(own)) for name, own in cells.items() if own.dtype == object}
        columns += [co.Categorical(name, tuple(levels), missing="other") for name, levels in kinds.items()]
        frames[party], schemas[party] = pl.DataFrame(cells), co.Schema(tuple(columns))
    return Raw(frames, schemas, "bank", (np.load(folder / "y.npy") > 0).astype(np.float64))


def a9a() -> Raw | None:
    if (folder := data_folder("a9a")) is None:
        return None
    X = sparse.vstack([sparse.load_npz(folder / f"X_{part}.npz") for part in ("train", "test")]).toarray()
    y = np.concatenate([np.load(folder / f"y_{part}.npy") for part in ("train", "test")])
    groups = json.loads((folder / "groups.json").read_text())
    ends = list(groups.values()) if isinstance(groups, dict) else groups
    frames, schemas = {}, {}
    for party, own in {"first": ends[:6], "second": ends[6:13], "third": ends[13:]}.items():
        cells = {}
        for number, (first, end) in enumerate(own):
            part = X[:, first:end]
            cells[f"{party}{number}"] = [
                str(k) if some else "none" for k, some in zip(part.argmax(1), part.any(1), strict=True)
            ]
        frames[party] = pl.DataFrame(cells)
        columns = (co.Categorical(c, tuple(sorted(set(cells[c]))), missing="other") for c in cells)
        schemas[party] = co.Schema(tuple(columns))
    return Raw(frames, schemas, "first", (y > 0).astype(np.float64))


def flights() -> Raw | None:
    from colonnade.cli import flights as source

    try:
        data = source.load()
    except co.InvalidInput as missing:
        print(f"skipped: {missing}")
        return None
    names = {party: [column.name for column in schema.columns] for party, schema in source.SCHEMAS.items()}
    frames = {party: frame.select(names[party]) for party, frame in data.frames.items()}
    return Raw(frames, source.SCHEMAS, source.LABEL[0], data.late.astype(np.float64))


TABLES: dict[str, Callable[[], Raw | None]] = {"credit-default": credit_default, "a9a": a9a, "flights": flights}
