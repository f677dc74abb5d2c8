"""Who breaks what trust "secure" assumes reads what the statement says, no less and no more: played here, whole.

Pooling   the coordinator gives a party the masked rows of its partners, the party has the seeds of their masks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.typing import NDArray

import colonnade as co
from colonnade.kernels.bits import unpack_rows
from colonnade.methods.gram import masks
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
