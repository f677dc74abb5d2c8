"""Hostile numbers, in a party's cells and in what a coordinator sends: no sum is lost, nothing moves further than charged,
and what is refused is refused by the message alone.

Every guarded program is run by hand (`at_the_gate`), so that what reaches the gate is seen. Warnings are errors here.
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.errors import InvalidInput, LeakError, ProtocolError
from colonnade.estimators.recipe import clipped
from colonnade.methods.admm.private_sharing import Couple, SendNoisyLabels, SendNoisyModel
from colonnade.methods.frank_wolfe.central import Choose
from colonnade.methods.frank_wolfe.private_block import InsideTurn, SendColumn, Slope
from colonnade.methods.gram.local import Products
from colonnade.methods.gram.plan import RunPlan
from colonnade.methods.gram.products import Prepare, check_prepare
from colonnade.methods.gram.rows import Grid, IntegerRows
from colonnade.methods.method import Finish, SendLabels
from colonnade.model.job import Job
from colonnade.network.party_data import PartyData
from colonnade.network.party_file import read_table
from colonnade.privacy.block import COLUMN, LARGEST, Block, clean_cells
from colonnade.privacy.events import Charge, Event, Mechanism, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.store import MemoryLog
from colonnade.privacy.values import Private, release
from colonnade.runtime.program import COORDINATOR
from tests.helpers.at_the_gate import Watched, handed

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

SIGNALLING = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000001))[0]
NO_NUMBERS = [np.nan, np.inf, -np.inf, SIGNALLING]
WILD = [1e308, -1e308, 5e-324, -0.0]
ROWS = 12
RIDGE, BALL = {"penalty": co.Ridge(0.1)}, {"constraint": co.L1Ball(2.0)}


@dataclass(frozen=True)
class Case:
    """A guarded program, and what a coordinator asks it."""

    method: Any
    problem: co.Problem
    trust: str = "nobody"
    unit: Any = None

    def __str__(self) -> str:
        kind = getattr(self.method, "cross", "") + self.trust + ("" if self.unit is None else " column")
        return f"{type(self.method).__name__} {type(self.problem.loss).__name__} {kind}"

    def job(self) -> Job:
        X = np.zeros((ROWS, 3))
        parties = {"a": [0, 1, 2]} if isinstance(self.method, co.CentralFrankWolfe) else {"a": [0, 1], "b": [2]}
        fed = co.Federation.split(X, np.ones(ROWS), parties=parties, label="a", unit=self.unit)
        bounds = {"row_norm": 1.5, "feature_bound": 1.0, "label_bound": 2.0}
        job = Job(self.problem, fed.roster(), co.Privacy(1.0, 1e-6, trust=self.trust, **bounds))
        self.method.check(job)
        return job

    def asked(self, y: np.ndarray, slope: np.ndarray) -> list[Any]:
        if isinstance(self.method, co.CentralFrankWolfe):
            return [Choose(), Choose(), Choose()]
        if isinstance(self.method, co.PrivateSharingADMM):
            return [SendNoisyLabels(), Couple(slope), Couple(y), SendNoisyModel(slope)]
        if isinstance(self.method, co.PrivateGram):
            return [SendLabels(), Products(y)]
        if self.trust == "consortium":
            return [SendLabels(), InsideTurn(release(slope)), SendColumn(release(0)), InsideTurn(release(y))]
        return [SendLabels(), Slope(y, slope), Slope(np.zeros(0), y)]

    def run(self, X: Any, labels: np.ndarray, y: np.ndarray, slope: np.ndarray) -> Any:
        job = self.job()
        places = np.array(job.roster.positions["a"])
        own = X if sparse.issparse(X) else np.ascontiguousarray(X[:, : places.size])
        block = Block(own, places, labels=labels, unit=job.roster.unit)
        return handed(self.method, job, block, "a", self.asked(y, slope))


def two(method: Any, penalty: dict[str, Any], **more: Any) -> list[Case]:
    return [Case(method, co.Problem(loss, **penalty), **more) for loss in (co.Logistic(), co.LeastSquares())]


CASES = [
    *two(co.CentralFrankWolfe(rounds=3), BALL),
    *two(co.PrivateBlockFrankWolfe(rounds=2), BALL),
    *two(co.PrivateBlockFrankWolfe(rounds=2), BALL, trust="consortium"),
    *two(co.PrivateSharingADMM(rounds=3), RIDGE),
    *two(co.PrivateSharingADMM(rounds=3), RIDGE, unit=COLUMN),
    *two(co.PrivateGram(cross="none"), RIDGE),
]
every_program = pytest.mark.parametrize("case", CASES, ids=str)


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (ROWS, 3))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0), rng.normal(size=ROWS), rng.normal(size=ROWS)


def within_charges(case: Case, X: Any, labels: Any, other: Any, others: Any, y: Any, slope: Any) -> None:
    one, two = case.run(X, labels, y, slope), case.run(other, others, y, slope)
    assert len(one) == len(two) > 0
    for a, b in zip(one, two, strict=True):
        assert all(np.isfinite(part).all() for part in (*a.parts, *b.parts))
        assert a.sensitivity == b.sensitivity
        assert a.apart(b) <= a.sensitivity


# ---------------------------------------------------------------------------------------- in the data


@every_program
def test_a_hostile_row_moves_what_reaches_the_gate_no_further_than_charged(case):
    """A neighbour's row holds NaN, infinities, huge, tiny or negative zeros: in one cell, in all of them, in its label."""
    X, labels, y, slope = table()
    if case.unit is not None:  # neighbours differ in one column
        for bad in (*NO_NUMBERS, *WILD):
            other = X.copy()
            other[:, 0] = np.where(np.arange(ROWS) % 2, bad, X[:, 0])
            within_charges(case, X, labels, other, labels, y, slope)
        return
    for bad in (*NO_NUMBERS, *WILD):
        for cells in ([0], [0, 1, 2]):
            other, others = X.copy(), labels.copy()
            other[5, cells], others[5] = bad, bad
            if case.problem.loss.classifies:
                others[5] = -labels[5]  # a label of two classes is ±1 before a program sees it
            within_charges(case, X, labels, other, others, y, slope)


@pytest.mark.parametrize("case", [case for case in CASES if case.unit is None], ids=str)
def test_a_label_that_is_no_number_moves_no_further_than_any_other(case):
    X, labels, y, slope = table()
    for bad in (*NO_NUMBERS, *WILD):
        others = labels.copy()
        others[5] = bad
        within_charges(case, X, labels, X, others, y, slope)


@every_program
def test_entries_stored_twice_are_one_entry_however_large(case):
    """A sparse block with 1e308 stored twice at a place: alone each is finite, together they are not."""
    X, labels, y, slope = table()
    width = 3 if isinstance(case.method, co.CentralFrankWolfe) else 2
    X = X[:, :width]
    for one, more in ((1e308, 1e308), (np.inf, -np.inf), (1.0, 1.0), (0.9, 0.9)):
        plain = sparse.coo_array(X)
        twice = sparse.coo_array(
            (np.append(plain.data, [one, more]), (np.append(plain.row, [5, 5]), np.append(plain.col, [0, 0]))), X.shape
        )
        order = np.lexsort((twice.row, twice.col))
        hostile = sparse.csc_array(
            (twice.data[order], twice.row[order], np.searchsorted(twice.col[order], np.arange(width + 1))),
            shape=X.shape,
        )
        assert not hostile.has_canonical_format
        if case.unit is None:
            within_charges(case, sparse.csc_array(X), labels, hostile, labels, y, slope)
        else:
            assert all(np.isfinite(p).all() for g in case.run(hostile, labels, y, slope) for p in g.parts)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int8, np.int64, np.uint64, bool])
def test_a_cell_of_any_numeric_type_becomes_a_number_within_its_bound(kind):
    values = np.array([0, 1, 100], dtype=kind)
    if np.issubdtype(kind, np.floating):
        values = np.append(values, np.array([np.nan, np.inf, -np.inf, np.finfo(kind).max], dtype=kind))
    made = clean_cells(values, 3.0)
    assert made.dtype == np.float64
    assert made.tolist()[:3] == [0.0, 1.0, min(3.0, float(values[2]))]
    assert made.tolist()[3:] == ([] if made.size == 3 else [0.0, 3.0, -3.0, 3.0])
    assert np.abs(clean_cells(values)).max() <= LARGEST


@pytest.mark.chance(1e-30, "a run that ends passes; noise of sd 1 or more comes nowhere near 1e-308")
def test_a_cell_too_small_to_be_multiplied_ends_no_run_whatever_the_process_asks_of_numpy(tmp_path):
    X, labels, _, _ = table()
    X[5] = 5e-324
    fed = co.Federation.split(X, labels, parties={"a": [0, 1], "b": [2]}, label="a")
    terms = co.Privacy(1.0, 1e-6, "nobody", row_norm=1.5)
    with np.errstate(under="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore", co.MostlyNoise)
        co.fit(fed, co.Problem(co.Logistic(), **RIDGE), co.PrivateSharingADMM(rounds=3), terms, store=tmp_path / "runs")


# ---------------------------------------------------------------------------------------- in messages


@every_program
@pytest.mark.parametrize("bad", [0.0, *WILD, 1.7e308], ids=str)
def test_whatever_finite_numbers_a_coordinator_sends_a_row_moves_no_further_than_charged(case, bad):
    """Also where every number is so large that sums over rows would overflow, by one row or not."""
    X, labels, _, slope = table()
    X[:, :] = 1.0
    other, others = X.copy(), labels.copy()
    if case.unit is None:
        other[-1], others[-1] = -1.0, -labels[-1]
    else:
        other[:, 0] = -1.0
    for sent in (np.full(ROWS, bad), np.where(np.arange(ROWS) == 5, bad, slope)):
        within_charges(case, X, labels, other, others, sent, sent)


@every_program
@pytest.mark.parametrize("bad", NO_NUMBERS, ids=["nan", "inf", "-inf", "signalling"])
def test_a_message_that_holds_no_number_is_refused_whatever_the_data(case, bad):
    X, labels, y, slope = table()
    read = [m for m in case.asked(y, slope) if not isinstance(m, Choose | SendLabels | SendNoisyLabels)]
    for data in (X, np.zeros_like(X), np.full_like(X, np.nan)):
        for sent in (np.full(ROWS, bad), np.where(np.arange(ROWS) == 5, bad, slope)):
            if read:
                with pytest.raises(ProtocolError, match="not finite"):
                    case.run(data, labels, sent, sent)
        job = case.job()
        places = np.array(job.roster.positions["a"])
        program = case.method.party(job, Block(data[:, : places.size], places, labels=labels), Watched("a"))
        next(program)
        with pytest.raises(ProtocolError, match="not finite"):
            program.send({COORDINATOR: Finish(np.full(places.size, bad), 0.0)})


@pytest.mark.parametrize("bad", [*NO_NUMBERS, *WILD, 1e200, 1e-200], ids=str)
@pytest.mark.parametrize("what", ["step", "centre", "scale"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
def test_rows_of_a_secure_release_stay_within_their_length_however_they_are_described(what, bad, form):
    """A description is refused, or the rows that follow from it are within their bound: without a warning either way."""
    fed = co.Federation.split(np.zeros((ROWS, 3)), np.ones(ROWS), parties={"a": [0, 1], "b": [2]}, label="b")
    job = Job(co.Problem(co.Logistic(), **RIDGE), fed.roster(), co.Privacy(60.0, 1e-6, trust="secure", row_norm=1.5))
    told = {
        "step": 2.0**-6, "bits": 32, "norm2": np.array([4000, 2000]), "constant": 50,
        "label": 50, "keep": np.array([0, 1]), "centre": np.zeros(2), "scale": np.ones(2),
    }  # fmt: skip
    told[what] = bad if what == "step" else np.array([bad, 1.0])
    design = RunPlan.of(job, co.PrivateGram())
    try:
        prepared = check_prepare(design, "joint", Prepare("joint", **told, labels=np.zeros(0)))
    except ProtocolError:
        return
    X = np.array([[b, c] for b in (*NO_NUMBERS, *WILD, 1.0) for c in (*WILD, np.inf)])
    rows = prepared.rows(Block(form(X), np.arange(2)), "a")
    whole = [rows.rows(0, len(X))]
    whole += [rows.sparse_rows(0, len(X)).toarray()] if rows.stay_sparse else []
    assert all((w.astype(object) ** 2).sum(axis=1).max() <= 4000 for w in whole)


# ---------------------------------------------------------------------------------------- at the gate


def gate_for(events):
    ledger = Ledger(MemoryLog(), "a", Policy(exact=True))
    plan = tuple(Charge(Event(m, np.inf, np.inf), 1, "test") for m in events)
    ledger.open_run("run", Terms("m", "s", "consortium", "one row", "replace one row", "f"), {"a": plan})
    return Gate(ledger, "run", SeededNoise(0)), ledger


@pytest.mark.parametrize("bad", NO_NUMBERS, ids=["nan", "inf", "-inf", "signalling"])
def test_a_gate_makes_no_number_of_one_that_is_not_finite(bad):
    """After cleaning this cannot come about. If it does, nothing is drawn, paid or sent."""
    gate, ledger = gate_for([Mechanism.GAUSSIAN, Mechanism.GUMBEL])
    gate.begin(0, 0, None)
    vector = np.array([1.0, bad])
    for draw in (
        lambda: gate.gaussian(Private(vector, 1.0), rho=0.1),
        lambda: gate.gaussian(Private(np.ones(2), 1.0), Private(vector, 1.0), rho=0.1),
        lambda: gate.noisy_max(Private(vector, 1.0), rho=0.1),
        lambda: gate.entrust(Private(vector, 1.0), rho=0.1),
    ):
        with pytest.raises(LeakError, match="not finite"):
            draw()
    assert gate.receipt().events == ()
    assert ledger.entries() == []


# ---------------------------------------------------------------------------------------- from a file


def member(**more):
    return Member(None, Policy(), new_key()[0], **more)


@pytest.mark.parametrize("bad", NO_NUMBERS, ids=["nan", "inf", "-inf", "signalling"])
@pytest.mark.parametrize("form", ["npy", "npz"])
def test_a_matrix_file_with_a_cell_that_is_no_number_is_one_more_table(bad, form, tmp_path):
    """Accepted as it is, since a refusal would tell; and what a guarded program computes with is finite."""
    X, y = np.ones((ROWS, 2)), np.ones(ROWS)
    X[1, 0], y[2] = bad, bad
    path = str(tmp_path / f"data.{form}")
    np.save(path, X) if form == "npy" else sparse.save_npz(path, sparse.csr_array(X))
    file = FederationFile({"a": member(columns=2), "b": member(columns=2)}, None, ("a", "y"), rows=ROWS)
    case = Case(co.PrivateBlockFrankWolfe(rounds=2), co.Problem(co.Logistic(), **BALL))
    block = PartyData(file, "a", read_table(path, None, file, "a"), y).block(case.job(), None)
    made = block.clipped(1.0)
    dense = made.matrix.toarray() if form == "npz" else made.matrix
    assert np.abs(dense).max() <= 1.0
    assert np.isfinite(made.bounded_labels(1.0)).all()


@pytest.mark.parametrize("form", ["npy", "npz"])
def test_a_cell_too_wide_for_a_double_raises_no_warning_anywhere(form, tmp_path):
    """Warnings are errors here, as an operator may have made them: one cell would then end the run for everybody."""
    X, y = np.ones((ROWS, 2), np.longdouble), np.ones(ROWS, np.longdouble)
    X[1, 0] = y[2] = np.finfo(np.longdouble).max
    path = str(tmp_path / f"data.{form}")
    np.save(path, X) if form == "npy" else sparse.save_npz(path, sparse.csr_array(X))
    file = FederationFile({"a": member(columns=2), "b": member(columns=2)}, None, ("a", "y"), rows=ROWS)
    for case in (CASES[2], CASES[3]):
        job = case.job()
        party_data = PartyData(file, "a", read_table(path, None, file, "a"), y)
        party_data.notices(job)
        block = party_data.block(job, None)
        assert np.isfinite(block.bounded_labels(1.0)).all()
    wide = sparse.csc_array(X) if form == "npz" else X
    assert np.abs(Block(wide, np.arange(2)).clipped(1.0).matrix).max() == 1.0
    whole = Grid(np.arange(2), np.zeros(2), np.ones(2), np.full(2, -9), np.full(2, 9), 100, 0.5, np.ones(2, int))
    assert np.abs(IntegerRows(Block(wide, np.arange(2)), whole).rows(0, ROWS)).max() == 9
    assert np.abs(clipped(wide, 1.0)).max() == 1.0


@pytest.mark.parametrize("kind", ["U8", "S8", "complex128", "M8[s]", "V8"])
def test_a_matrix_file_of_another_type_is_refused_by_its_type_and_no_cell_is_quoted(kind, tmp_path):
    cells = np.array([["secret", "1"]] * ROWS) if kind[0] in "US" else np.zeros((ROWS, 2))
    np.save(tmp_path / "data.npy", cells.astype(kind))
    file = FederationFile({"a": member(columns=2), "b": member(columns=2)}, None, ("b", "y"), rows=ROWS)
    with pytest.raises(InvalidInput, match="holds no numbers") as refused:
        PartyData(file, "a", read_table(str(tmp_path / "data.npy"), None, file, "a"))
    assert "secret" not in str(refused.value)


# ---------------------------------------------------------------------------------------- public figures


@pytest.mark.parametrize("figure", [1e200, 1e-200, np.inf, np.nan, 0.0, -1.0])
def test_public_figures_under_which_sums_might_not_be_finite_are_refused(figure):
    for name in ("row_norm", "feature_bound", "label_bound"):
        with pytest.raises(InvalidInput, match=f"{name} must be a finite public figure above 0"):
            co.Privacy(1.0, 1e-6, **{name: figure})
    if figure > 0 and np.isfinite(figure):
        case = CASES[0]
        for changed in (
            replace(case, problem=co.Problem(co.Logistic(), constraint=co.L1Ball(figure))),
            replace(CASES[2], problem=co.Problem(co.Logistic(), constraint=co.L1Ball(figure))),
            replace(CASES[6], problem=co.Problem(co.Logistic(), penalty=co.Ridge(figure))),
        ):
            with pytest.raises(InvalidInput, match="must be a finite public figure above 0"):
                changed.job()
        with pytest.raises(InvalidInput, match="radius must be a finite public figure"):
            co.PrivateSharingADMM(radius=figure)
