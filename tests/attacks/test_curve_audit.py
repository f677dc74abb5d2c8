"""Claims about the audit of rows with a curve: it finds nothing at epsilon 1, and a block longer than its line it finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import colonnade as co
from colonnade.attacks import gram_runs
from colonnade.kernels.curves import hats
from colonnade.methods.gram import rows as gram_rows
from colonnade.methods.gram.rows import grid
from colonnade.privacy.block import Block

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

TRIALS = 20_000


def shown(trials=TRIALS):
    return co.audit("curve-gram", epsilon=1.0, trials=trials)


def plant_long_hats(patch):
    """Hats of a curve that are four times as high as they should be: the block is longer than its line."""
    patch.setattr(gram_runs, "hats", lambda t, depth: 4.0 * hats(t, depth))


def plant_long_blocks(patch):
    """The whole block is twice as long as its line: rows of either table."""
    blocks = gram_runs.Bent.blocks

    def doubled(world, *which, **more):
        found = blocks(world, *which, **more)
        return {**found, "one": Block(2.0 * found["one"].matrix, found["one"].positions)}

    patch.setattr(gram_runs.Bent, "blocks", doubled)


def plant_rows_as_they_come(patch):
    """Neither entries nor rows are held to their bounds in whole numbers."""

    def loose(*figures, **more):
        made = grid(*figures, **more)
        far = np.full_like(made.high, 2**20)
        return replace(made, low=-far, high=far, norm2=2**50)

    patch.setattr(gram_rows, "grid", loose)


@pytest.mark.chance(1e-10, "above 0 by 12 sds over 400 draws of such scores; over 1 once in 10^15, by binomials")
def test_rows_with_a_curve_show_less_than_they_claim():
    verdict = shown(5 * TRIALS)
    assert not verdict.violated
    assert 0.0 < verdict.lower_bound < 1.0  # the attack tells the two tables apart at all


def test_the_two_rows_are_as_long_and_as_far_apart_as_rows_may_be():
    setting = gram_runs.Setting(1.0, 1e-5, 0)
    first, second = (gram_runs.CURVE.blocks(setting, inside) for inside in (True, False))
    rows = [np.concatenate([side["one"].matrix[-1], side["two"].matrix[-1]]) for side in (first, second)]
    whole = 1.0 + gram_runs.CURVE.two**2
    assert [row @ row for row in rows] == pytest.approx([whole, whole])
    # The constant and the opposite label stand beside them, with .1 and .25 of that squared length.
    assert rows[0] @ rows[1] + 0.1 * whole - 0.25 * whole == pytest.approx(0.0)


@pytest.mark.chance(1e-10, "16 sds over the claim in 300 draws of such scores")
def test_planted_a_block_longer_than_its_line_is_found(monkeypatch):
    plant_long_hats(monkeypatch)
    plant_rows_as_they_come(monkeypatch)
    assert shown().violated


@pytest.mark.audit
def test_planted_a_block_twice_as_long_as_its_line_is_found_by_more_trials(monkeypatch):
    plant_long_blocks(monkeypatch)
    plant_rows_as_they_come(monkeypatch)
    assert co.audit("curve-gram", epsilon=1.0, trials=200_000).violated


@pytest.mark.chance(1e-12, "bound over 1 at the worst threshold, by binomials at rates measured: 1e-14")
@pytest.mark.parametrize("plant", [plant_long_hats, plant_rows_as_they_come])
def test_either_hats_of_their_height_or_rows_held_to_their_length_are_enough(plant, monkeypatch):
    """Two walls: a wrong curve is cut in whole numbers, and a right one needs no cutting."""
    plant(monkeypatch)
    assert not shown().violated
