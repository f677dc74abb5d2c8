"""Freshness as such: no two plaintexts, blocks, stages, runs or messages share a key, a mask or an offset.

A key used twice gives right answers, so no answer can show it. Here every key and every mask is written down with what it
covered, in whole runs, and key streams are laid bare by subtracting what went in from what came out. Each planted reuse at the
end must be found by the same means.

Masks are compared by the row, or by rows that follow each other until there are 60 bits of them: with fewer than 3,000 rows two agree by chance less than once
in 10¹⁰ tests. Key streams are compared by 16 bytes.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as co
from colonnade.methods import masked_scores
from colonnade.methods.gram import masks as gram_masks
from colonnade.network.party_run import cover_letter
from colonnade.privacy import gate as gates
from colonnade.privacy import keyring as keyrings
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import ColumnPad, Keyring, derive, public_key
from colonnade.privacy.store import FileLog
from colonnade.runtime.program import Sealed
from colonnade.runtime.wire import Letter, encode
from tests.helpers.freshness import RunLog, one_key_both_ways, one_place_on_an_edge

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PARTIES = {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7, 8]}
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(0.1))


def federation(rows: int = 60) -> co.Federation:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, 9))
    return co.Federation.split(X, np.where(X[:, 0] > 0, 1.0, -1.0), parties=PARTIES, label="b")


def fit(store: Path, trust: str = "secure", **more: Any) -> co.Fit:
    privacy = co.Privacy(1.0, 1e-6, trust=trust, row_norm=2.0, feature_bound=1.0)
    return co.fit(federation(), RIDGE, co.PrivateGram(), privacy, store=store, **more)


@pytest.fixture
def run_log(monkeypatch):
    monkeypatch.setattr(gram_masks, "BLOCK_BYTES", 200)  # so that a stage goes in several blocks
    return RunLog(monkeypatch)


def interrupted(after: int) -> co.Faults:
    carried = []

    def fault(letter: Any) -> Any:
        carried.append(letter)
        if len(carried) > after:
            raise KeyboardInterrupt
        return [letter]

    return co.Faults(co.InProcess(), fault)


# ---------------------------------------------------------------------------------------- whole runs


@pytest.mark.chance(1e-12, "some 700 masks of 60 bits or more, all different: 3e-13")
def test_two_runs_in_one_store_share_no_key_mask_or_secret(run_log, tmp_path):
    """Three parties, class sums and then the joint release, in several blocks each; and once more in the same store."""
    fit(tmp_path)
    stages = {kind for kind, _, _ in run_log.pads}
    assert stages == {"columns", "R"}
    assert len({key for kind, key, _ in run_log.pads if kind == "columns"}) == 6  # three parties, two stages
    assert max(first for kind, _, first in run_log.pads if kind == "columns") > 0  # several blocks
    assert len(run_log.sealed) > 20
    assert len(run_log.kept) == 3 * 3  # three parties: class sums, squared lengths, and the rest
    fit(tmp_path)
    assert len(run_log.hellos) == 8  # the coordinator has a key too
    run_log.check()


def test_letters_between_parties_share_no_key_over_two_runs_and_both_ways(run_log):
    """As agents of a graph cover them, for the hub to carry or for a line of their own: two runs, two letters each way, one body."""
    identity = {name: derive(name.encode(), "identity") for name in "ab"}
    pinned = {name: public_key(key) for name, key in identity.items()}
    body = encode(Sealed(b"the same", b"in all of them"), guarded=False)
    for run in ("one", "two"):  # with one secret for both, a run's name alone must keep them apart
        rings = {name: Keyring(run, name, key, pinned, derive(key, "secret")) for name, key in identity.items()}
        rings["a"].meet("b", *rings["b"].hello)
        rings["b"].meet("a", *rings["a"].hello)
        for sender, receiver in ("ab", "ba"):
            for sequence in range(2):
                letter = Letter(sender, receiver, sequence, 0, body, "")
                cover_letter(rings[sender], letter)
    assert len(run_log.sealed) == 2 * 2 * 2 * 2  # a content and its wrapped key each
    run_log.check()


@pytest.mark.chance(1e-12, "some 350 masks of 60 bits or more, all different: 6e-14")
def test_a_consortium_masks_its_columns_as_freshly(run_log, tmp_path):
    fit(tmp_path, "consortium")
    assert run_log.offsets
    run_log.check()


@pytest.mark.chance(1e-12, "some 600 masks of 60 bits or more, all different: 2e-13")
def test_masked_scores_of_two_runs_and_several_blocks_share_no_mask(run_log, tmp_path, monkeypatch):
    monkeypatch.setattr(masked_scores, "ROWS", 16)
    model = fit(tmp_path)
    for _ in range(2):
        co.score(model, federation(), store=tmp_path)
    assert (
        sum(kind == "scores" for kind, _ in run_log.offsets) == 2 * 2 * 60
    )  # two runs, two parties beside the label holder
    run_log.check()


@pytest.mark.chance(1e-12, "some 350 masks of 60 bits or more, all different: 6e-14; 171 letters whatever the noise")
@pytest.mark.parametrize("after", [20, 45, 70])
def test_a_resumed_run_says_the_same_again_under_the_same_keys_and_nothing_else(run_log, tmp_path, after):
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, engine=interrupted(after))
    before = list(run_log.sealed)
    assert before
    fit(tmp_path)
    assert set(before) <= set(run_log.sealed[len(before) :])  # replayed: the same keys, contents and bytes
    assert len({run for run, _ in run_log.hellos}) == 1
    run_log.check(resumed=True)


@pytest.mark.chance(0, "keys are counted, not what they draw")
def test_every_choice_of_an_estimator_draws_from_a_stream_of_its_own(run_log):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (80, 5)), rng.integers(0, 3, 80)
    for _ in range(2):
        co.SparseClassifier(epsilon=1.0, delta=1e-6, classes=[0, 1, 2], method="frank-wolfe", rounds=3).fit(X, y)
    assert len(run_log.streams) == 2 * 3
    run_log.check()


# ---------------------------------------------------------------------------------------- planted reuse


def one_content_key(patch):
    seal = Keyring.seal
    patch.setattr(Keyring, "seal", lambda self, places, body, name: seal(self, places, body, "0/0"))


def masks_from_the_first_row(patch):
    masked = Gate.masked

    def reset(self, rows, pad):
        self._pads.clear()
        return masked(self, rows, pad)

    patch.setattr(Gate, "masked", reset)


def one_label_for_both_stages(patch):
    """Widths and rings would still tell the masks apart: they are left out too."""
    patch.setattr(gram_masks.Stage, "label", lambda self: ("stage", "rings"))
    patch.setattr(ColumnPad, "key", property(lambda self: keyrings.derive(self.seed, "column pad", *self.label)))


def one_key_for_all_releases(patch):
    real = gates.derive
    patch.setattr(gates, "derive", lambda secret, *words: real(secret, words[0]))


def one_secret_for_all_names(patch):
    patch.setattr(FileLog, "secret", lambda self, run, name, size: keyrings.derive(run.encode(), str(self.path))[:size])


def no_mask(patch):
    rows = ColumnPad.rows
    patch.setattr(ColumnPad, "rows", lambda self, first, count: rows(self, first, count) * 0)


PLANTED = [
    (one_content_key, "one key sealed two things"),
    (one_place_on_an_edge, "one key sealed two things"),
    (one_key_both_ways, "one key sealed two things"),
    (masks_from_the_first_row, "one mask covers two rows"),
    (one_label_for_both_stages, "the mask R was grown 4 times"),
    (one_key_for_all_releases, "one key hides two releases"),
    (one_secret_for_all_names, "two secrets are the same|one value serves two"),
    (no_mask, "one mask covers two rows"),
]


@pytest.mark.chance(1e-12, "a planted reuse is one every time; of the other masks no two are the same: 6e-14")
@pytest.mark.parametrize(("plant", "found"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_reuse_is_found(plant, found, tmp_path, monkeypatch):
    monkeypatch.setattr(gram_masks, "BLOCK_BYTES", 200)
    plant(monkeypatch)
    run_log = RunLog(monkeypatch)
    with contextlib.suppress(Exception):  # a reuse may also stop a run, or turn its sums to noise; its log is judged
        fit(tmp_path)
    with pytest.raises(AssertionError, match=found):
        run_log.check()


@pytest.mark.chance(0, "the same masks are grown again every time")
def test_planted_scores_whose_masks_begin_anew_in_every_block_are_found(run_log, tmp_path, monkeypatch):
    monkeypatch.setattr(masked_scores, "ROWS", 16)
    scores = Gate.scores
    monkeypatch.setattr(Gate, "scores", lambda self, part, first, *more: scores(self, part, 0, *more))
    co.score(fit(tmp_path), federation(), store=tmp_path)
    with pytest.raises(AssertionError, match=r"one mask covers two rows|the mask scores was grown"):
        run_log.check()
