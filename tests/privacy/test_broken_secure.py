"""Who breaks what trust "secure" assumes reads what the statement says, no less and no more: played here, whole.

Pooling   the coordinator gives a party the masked rows of its partners, the party has the seeds of their masks.
Forging   a party's columns are 0 but for a few huge entries: the products that are released are its partners' rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.typing import NDArray

import colonnade as co
from colonnade.kernels.bits import unpack_rows
from colonnade.methods.gram import masks
from colonnade.methods.gram.rows import OwnMatrix
from colonnade.privacy.conditions import Code
from colonnade.privacy.gate import Gate

ROWS = 400
CLASSES = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
NUMBERS = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-3), intercept=True)
TERMS = co.Privacy(0.1, 1e-6, trust="secure", row_norm=3.0, feature_bound=1.0)


@dataclass
class Pool:
    """What the coordinator and the party "b" have of the label holder "a", stage by stage; and what "a" masked."""

    sent: list[tuple[bytes, NDArray[np.int64]]] = field(default_factory=list)  # as the coordinator gets it; as it was
    stages: list[tuple[masks.Stage, bytes, str]] = field(default_factory=list)  # of "b": the seed of "a", the run

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        masked, begin = Gate.masked, masks.Corrections.__init__

        def upload(gate, rows, pad):
            out = masked(gate, rows, pad)
            if gate.node == "a":
                self.sent.append((out.value, np.array(rows)))
            return out

        def told(corrections, stage, gate, seeds):
            begin(corrections, stage, gate, seeds)
            if gate.node == "b" and "a" in seeds:
                self.stages.append((stage, seeds["a"], gate.run))

        monkeypatch.setattr(Gate, "masked", upload)
        monkeypatch.setattr(masks.Corrections, "__init__", told)

    def read(self):
        """By stage: what is read of the label holder's matrix, and what was there."""
        assert len(self.sent) == len(self.stages)  # 400 rows are one block of each
        for (packed, rows), (stage, seed, run) in zip(self.sent, self.stages, strict=True):
            bits = stage.bits["a"]
            cover = stage.mask("a", seed, run).rows(0, ROWS).astype(np.int64)
            size = 1 << bits
            found = (unpack_rows(packed, ROWS, bits).astype(np.int64) - cover) % size
            yield stage.name, np.where(found >= size // 2, found - size, found), rows


def federation(problem: co.Problem) -> co.Federation:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (ROWS, 4))
    score = X @ [1.0, -0.5, 0.5, 1.0] + rng.normal(size=ROWS)
    y = np.where(score > 0, 1.0, -1.0) if problem is CLASSES else np.clip(score, -3, 3)
    return co.Federation.split(X, y, parties={"a": slice(0, 2), "b": slice(2, 4)}, label="a")


@pytest.mark.chance(0, "masks are taken off as a whole, whatever was drawn")
@pytest.mark.parametrize(
    ("problem", "settings", "stages"),
    [
        (CLASSES, {}, ["sums", "joint"]),
        (CLASSES, {"labels": "released"}, ["joint"]),
        (CLASSES, {"purpose": "inference"}, ["joint"]),
        (NUMBERS, {"purpose": "inference"}, ["joint"]),
    ],
    ids=["prediction", "released labels", "inference", "inference, numbers"],
)
def test_a_coordinator_and_a_party_read_columns_and_labels_in_every_stage_and_the_statement_says_so(
    problem, settings, stages, monkeypatch, tmp_path
):
    fed = federation(problem)
    terms = TERMS if problem is CLASSES else replace(TERMS, label_range=(-3.0, 3.0))
    pool = Pool()
    pool.watch(monkeypatch)
    fit = co.fit(fed, problem, co.PrivateGram(**settings), terms, store=tmp_path)
    read = {}
    for name, found, rows in pool.read():
        assert np.array_equal(found, rows)
        # Class sums have both classes' weights in place of columns, the joint release the label beside the columns.
        read[name] = found[:, 0] - found[:, 1] if name == "sums" else found[:, -1]
    assert list(read) == stages
    labels = np.asarray(fed.labels)
    for steps in read.values():
        if problem is CLASSES:
            assert np.array_equal(np.sign(steps), labels)
        else:  # to the nearest step
            assert np.abs(steps / np.abs(steps).max() * np.abs(labels).max() - labels).max() < 0.1
    said = next(one.full for one in fit.privacy.conditions if one.code is Code.POOLING)
    assert "columns of all partners of that party, and the labels, in every stage" in said
    assert "purpose='inference'" in said


@pytest.mark.chance(0, "words of statements, which the terms fix")
@pytest.mark.parametrize(("trust", "cross"), [("nobody", "none"), ("parties", "secure"), ("consortium", "secure")])
def test_where_there_are_no_masks_or_all_are_trusted_pooling_breaks_nothing_more_than_is_said(trust, cross, tmp_path):
    """Noise alone, or encryption between two parties; of a consortium the statement promises members nothing."""
    terms = replace(TERMS, epsilon=1.0, trust=trust)
    fit = co.fit(federation(CLASSES), CLASSES, co.PrivateGram(cross=cross), terms, store=tmp_path)
    assert not fit.privacy.has(Code.POOLING)
    assert fit.privacy.has(Code.READERS_ONLY) == (trust == "consortium")
    assert fit.privacy.has(Code.POOLED_PARTS) == (trust == "parties")


def forge(rows_of: dict[int, dict[int, int]], monkeypatch: pytest.MonkeyPatch) -> dict[int, NDArray[np.int64]]:
    """The party "b" multiplies by columns of its own making: by column, huge entries by row. What "a" has there."""
    read, begin, add = OwnMatrix.read, OwnMatrix.__post_init__, OwnMatrix.add_up
    largest = max(size for entries in rows_of.values() for size in entries.values())
    truth: dict[int, NDArray[np.int64]] = {}

    def forged(matrix, first, count):
        rows = read(matrix, first, count)
        if matrix.gate.node == "a":
            truth.update({row: np.array(rows[row]) for entries in rows_of.values() for row in entries})
        if matrix.gate.node != "b":
            return rows
        own = np.zeros_like(rows, dtype=np.int64)
        for column, entries in rows_of.items():
            for row, size in entries.items():
                own[row, column] = size
        return own

    def careless(matrix):
        begin(matrix)
        if matrix.gate.node == "b":  # its own check of its own rows
            matrix.bound = largest

    def add_up(matrix, first, count):
        if matrix.gate.node != "b":
            return add(matrix, first, count)
        rows = matrix.read(first, count)
        matrix.products += rows.T @ rows
        return rows

    monkeypatch.setattr(OwnMatrix, "read", forged)
    monkeypatch.setattr(OwnMatrix, "add_up", add_up)
    monkeypatch.setattr(OwnMatrix, "__post_init__", careless)
    return truth


@pytest.mark.chance(1e-15, "a cell is wrong by more than 8 sds of the noise")
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_party_that_forges_its_rows_reads_a_row_for_each_of_its_columns_and_the_statement_says_so(
    epsilon, monkeypatch, tmp_path
):
    size = 1 << 29
    truth = forge({0: {3: size}, 1: {111: size}}, monkeypatch)
    terms = replace(TERMS, epsilon=epsilon)
    fit = co.fit(federation(CLASSES), CLASSES, co.PrivateGram(purpose="inference"), terms, store=tmp_path)
    step = fit.released.step
    theirs, mine = np.ix_([0, 1, -1], [2, 3])  # the columns of "a" and its labels, with the columns of "b"
    found = fit.released.matrix[theirs, mine] / (size * step)
    assert (8 * fit.released.noise[theirs, mine] / (size * step) < 0.01).all()  # cells are between -1 and 1
    there = np.array([truth[3], truth[111]]).T * np.array([[step], [step], [1.0]])
    assert np.abs(found - there).max() < 0.01
    (said,) = (one.full for one in fit.privacy.conditions if one.code is Code.FORGING)
    assert "whatever epsilon is" in said
    assert "about one row of its partners, labels included, for each column that it holds" in said


@pytest.mark.chance(1e-15, "a sum is wrong by more than 8 sds of the noise")
def test_where_cells_have_few_values_one_forged_column_reads_them_in_many_rows(monkeypatch, tmp_path):
    size = 1 << 22
    truth = forge({0: {row: size << row for row in range(8)}}, monkeypatch)
    fit = co.fit(federation(CLASSES), CLASSES, co.PrivateGram(purpose="inference"), TERMS, store=tmp_path)
    unit = size * fit.released.step
    assert 8 * fit.released.noise[-1, 2] < unit
    whole = round((fit.released.matrix[-1, 2] / unit + 255) / 2)  # of eight labels ±1, times 1, 2, 4, ...
    assert [2 * (whole >> row & 1) - 1 for row in range(8)] == [truth[row][-1] for row in range(8)]
    (said,) = (one.full for one in fit.privacy.conditions if one.code is Code.FORGING)
    assert "more rows where cells have few values" in said
