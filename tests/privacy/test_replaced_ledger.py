"""Claims about what a new ledger in the place of a lost one begins with: the most that any other remembers, never less."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import colonnade as co
from colonnade.privacy.events import Charge, Event, Mechanism
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.runtime.run_store import RunStore, begin_new_ledger

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

TERMS = Terms("m", "s", "nobody", "one row", "replaced", "f")


def store_of(folder: Path, spent: dict[str, int]) -> None:
    """Ledgers that have each reserved so many releases of rho = 1/8; all remember a lost one, c."""
    with contextlib.closing(RunStore(folder)) as books:
        for name, times in spent.items():
            ledger = Ledger(books.log(name), name, co.Policy())
            if times:
                plan = {name: (Charge(Event(Mechanism.GAUSSIAN, 0.125, 1.0), times, "sums"),)}
                ledger.open_run(f"run-{name}", TERMS, plan)
            ledger.remember("run", "end", {"c": (5, bytes(32))})


@pytest.mark.parametrize(
    ("spent", "begins"),
    [
        ({"a": 2, "b": 6}, 0.75),
        ({"a": 6, "b": 2}, 0.75),
        ({"a": 3, "b": 1, "d": 2}, 0.375),
        ({"a": 0, "b": 0, "d": 1}, 0.125),
        ({"a": 1, "b": 0, "d": 0}, 0.125),
    ],
    ids=str,
)
def test_a_new_ledger_begins_with_the_most_that_any_peer_counts(spent, begins, tmp_path):
    store_of(tmp_path, spent)
    _, rho, _ = begin_new_ledger(tmp_path, "c")
    assert rho == begins
    with contextlib.closing(RunStore(tmp_path)) as books:
        new = Ledger(books.log("c"), "c", co.Policy())
        assert new.row_spent() == begins
        assert new.budget().rho == begins
        assert {n: Ledger(books.log(n), n, co.Policy()).row_spent() for n in spent} == {
            n: 0.125 * times for n, times in spent.items()
        }
        heads = {n: Ledger(books.log(n), n, co.Policy()).remembered()["c"] for n in spent}
    assert set(heads.values()) == {(1, heads["a"][1])}  # the new one's first row, and no row of the lost one


@pytest.mark.parametrize("rho", [0.5, 0.25])
def test_a_larger_figure_of_its_owner_counts_once_and_a_smaller_one_takes_nothing_back(rho, tmp_path):
    with contextlib.closing(RunStore(tmp_path)) as books:
        ledger = Ledger(books.log("c"), "c", co.Policy())
        first = ledger.begin_anew(0.25)
        assert ledger.begin_anew(rho) == first
        assert ledger.row_spent() == rho
        assert ledger.begin_anew(0.0) == first
        assert ledger.row_spent() == rho


@pytest.mark.parametrize(("rho", "taken"), [(0.375, True), (0.5, True), (0.374, False), (0.0, False)])
def test_a_peer_takes_no_new_ledger_that_counts_less_than_its_own(rho, taken, tmp_path):
    store_of(tmp_path, {"a": 3})
    with contextlib.closing(RunStore(tmp_path)) as books:
        one = Ledger(books.log("c"), "c", co.Policy()).begin_anew(rho)
        peer = Ledger(books.log("a"), "a", co.Policy())
        if not taken:
            with pytest.raises(co.InvalidInput, match=r"counts 0\.375 about the same rows"):
                peer.accept_replaced(one, (1, bytes(32)), rho)
        else:
            peer.accept_replaced(one, (1, bytes([1]) * 32), rho)
        assert peer.remembered()["c"] == ((1, bytes([1]) * 32) if taken else (5, bytes(32)))
