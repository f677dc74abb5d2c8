"""What rows add up to, kept as they come, and snapshots: the same figures, and every change of a row is still noticed."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from colonnade.data.federation_file import new_key
from colonnade.privacy import ledger as ledgers
from colonnade.privacy.accountant import epsilon
from colonnade.privacy.events import FINISHED, Charge, Ending, Event, How, Mechanism, Policy, Scope
from colonnade.privacy.ledger import Ledger, Terms, prices_of_runs
from colonnade.privacy.store import FileLog, MemoryLog
from colonnade.privacy.tally import Sum, Tally, check_snapshot, last_snapshot, sign, tallied
from colonnade.runs.budgets import verify_ledgers
from colonnade.runtime.run_store import RunStore, abort_run

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

TERMS = Terms("M", "M()", "nobody", "one row", "changed", "f")
KEY = new_key()[1]
RHO = 0.001


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "EVERY", 10)


def spend(
    book: Ledger, run: str, rho: float = RHO, used: int = 2, scope: Scope = Scope.OWN, how: Ending | None = FINISHED
) -> None:
    event = Event(Mechanism.GAUSSIAN, rho, 1.0, scope)
    book.open_run(run, TERMS, {book.node: (Charge(event, 3, "sums"),), "other": (Charge(event, 1, "sums"),)})
    for slot in range(used):
        book.record(run, 0, slot, event, "sums", 0)
    if how:
        book.close_run(run, how)


def filled(path: Path, runs: int = 6, key: bytes | None = KEY) -> None:
    with closing(FileLog(path)) as log:
        for number in range(runs):
            spend(Ledger(log, "a", Policy(), identity=key), f"run{number}")


def opened(path: Path, key: bytes | None = KEY) -> Ledger:
    return Ledger(FileLog(path), "a", Policy(), identity=key)


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


def read_rows(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From which row on the ledger's rows were read for its sums."""
    seen: list[int] = []
    plain = type(book.log).rows_between
    monkeypatch.setattr(
        type(book.log),
        "rows_between",
        lambda log, after, last, kinds: (seen.append(after), plain(log, after, last, kinds))[1],
    )
    return seen


# ---------------------------------------------------------------- sums


@settings(max_examples=100)
@given(st.lists(st.floats(0.0, 1e300), max_size=30), st.integers(0, 30))
def test_a_sum_is_that_of_all_prices_wherever_it_was_interrupted(prices: list[float], place: int) -> None:
    total = Sum()
    for rho in prices[:place]:
        total.add(rho)
    total = Sum.of(json.loads(json.dumps(total.plain())))
    for rho in prices[place:]:
        total.add(rho)
    assert total.value() == math.fsum(prices)


RUN = st.tuples(
    st.sampled_from([0.0, 0.1, 0.3, 1e-9, math.inf]),
    st.integers(0, 3),
    st.sampled_from([Scope.OWN, Scope.JOINT]),
    st.sampled_from([FINISHED, Ending(How.REFUSED, "x"), None]),
    st.booleans(),
)


@settings(max_examples=60)
@given(st.lists(RUN, max_size=12), st.integers(0, 12))
def test_what_is_kept_as_rows_come_is_what_all_rows_add_up_to(runs: list[Any], place: int) -> None:
    log = MemoryLog()
    book = Ledger(log, "a", Policy(exact=True))
    renewed = 0
    for number, (rho, used, scope, how, renew) in enumerate(runs):
        spend(book, f"run{number}", rho, used, scope, how)
        if renew:
            book.renew("x")
            renewed = log.length()
        if number == place:  # as a snapshot keeps it
            found = book.tally()
            log.tally = Tally.of(found.count, found.head, json.loads(json.dumps(found.plain())))
    prices = prices_of_runs(log)
    assert book.row_spent() == math.fsum(price.row for price in prices)
    assert book.budget().rho == math.fsum(price.row for price in prices if price.closed_at > renewed)
    assert book.open_runs() == {f"run{i}" for i, run in enumerate(runs) if not run[3]}
    assert book.units() == (("one row",) if any(0 < price.row < math.inf for price in prices) else ())
    assert book.tally().releases == len(book.entries())
    anew = MemoryLog()
    anew._rows = log._rows
    assert tallied(anew).plain() == book.tally().plain()


def test_a_row_that_cannot_be_read_leaves_nothing_half_added() -> None:
    log = MemoryLog()
    book = Ledger(log, "a", Policy())
    spend(book, "one")
    log.append("one", 9, "event", "0", b"{}")
    for _ in range(2):
        with pytest.raises(co.LedgerDamaged, match="does not know"):
            book.row_spent()


# ---------------------------------------------------------------- snapshots


def test_a_ledger_opens_from_its_snapshot_and_says_the_same(tmp_path, often, monkeypatch):
    filled(tmp_path / "a.db")
    with closing(FileLog(tmp_path / "a.db")) as log:
        whole, made = tallied(log).plain(), last_snapshot(log)
    assert 0 < made.count <= 24
    book = opened(tmp_path / "a.db")
    seen = read_rows(book, monkeypatch)
    book.check()
    assert book.tally().plain() == whole
    assert seen == [made.count]
    book.log.close()


def test_a_short_ledger_has_no_snapshot(tmp_path):
    filled(tmp_path / "a.db")
    with closing(FileLog(tmp_path / "a.db")) as log:
        assert last_snapshot(log) is None
        assert check_snapshot(log, "a") == 0


@pytest.mark.parametrize("key", [None, new_key()[1]], ids=["none", "another"])
def test_without_the_owners_key_every_row_is_read(tmp_path, often, monkeypatch, key):
    filled(tmp_path / "a.db")
    book = opened(tmp_path / "a.db", key)
    seen = read_rows(book, monkeypatch)
    assert book.row_spent() == pytest.approx(6 * 3 * RHO)
    assert seen == [0]
    book.log.close()


def test_who_does_not_know_the_owners_key_trusts_no_snapshot_and_signs_none(tmp_path, often, monkeypatch):
    """As `runs abort` and `runs replaced` open a party's ledger: also where somebody put a key of his own into the file."""
    store = RunStore(tmp_path)
    ours = Ledger(store.log("a"), "a", Policy(), identity=KEY)
    for number in range(6):
        spend(ours, f"run{number}")
    store.adopt("left")
    spend(ours, "left", used=12, how=None)  # enough rows for the next snapshot
    kept = last_snapshot(ours.log)
    store.close()
    abort_run(tmp_path, "left")
    with closing(FileLog(RunStore.path_in(tmp_path, "a"))) as log:
        assert log.holds("left", "close")
        assert (last_snapshot(log), log.has_secret("node", "signing key")) == (kept, False)
        assert log.length() - kept.count > ledgers.EVERY
        log.secret("node", "signing key", 32)
        sign(log, "a", log.kept("node", "signing key"))
    with closing(FileLog(RunStore.path_in(tmp_path, "a"))) as log:
        book = Ledger(log, "a", Policy(), snapshots=False)
        seen = read_rows(book, monkeypatch)
        book.row_spent()
        assert seen == [0]


def test_in_one_owners_store_the_key_lies_in_the_file(tmp_path, often, monkeypatch):
    filled(tmp_path / "a.db", key=None)
    book = opened(tmp_path / "a.db", None)
    seen = read_rows(book, monkeypatch)
    book.row_spent()
    assert seen == [last_snapshot(book.log).count]
    book.log.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made["state"].update(lifetime=["0x0", 0], period=["0x0", 0]),
        lambda made: made.update(count=made["count"] - 1),
        lambda made: made.update(node="b"),
        lambda made: made.update(signature="00" * 64),
        lambda made: made.update(signature="x"),
    ],
    ids=["sums", "place", "node", "signature", "no signature"],
)
def test_a_snapshot_that_was_changed_counts_for_nothing(tmp_path, often, monkeypatch, change):
    filled(tmp_path / "a.db")
    with closing(FileLog(tmp_path / "a.db")) as log:
        made = json.loads(log.noted("snapshot"))
        change(made)
        log.note("snapshot", json.dumps(made).encode())
    book = opened(tmp_path / "a.db")
    seen = read_rows(book, monkeypatch)
    assert book.row_spent() == pytest.approx(6 * 3 * RHO)
    assert seen == [0]
    book.log.close()


def test_a_snapshot_in_place_of_rows_that_were_cut_off_counts_for_nothing(tmp_path, often):
    filled(tmp_path / "a.db")
    edit(tmp_path / "a.db", "delete from log where seq > 8")
    book = opened(tmp_path / "a.db")
    book.check()
    assert book.row_spent() == pytest.approx(2 * 3 * RHO)  # as without: that rows are gone is what peers remember
    book.log.close()


BEFORE = {
    "changed": ["update log set body = x'007b7d' where seq = 2"],
    "removed": ["delete from log where seq = 2"],
    "reordered": [
        "update log set seq = 100 where seq = 2",
        "update log set seq = 2 where seq = 3",
        "update log set seq = 3 where seq = 100",
    ],
}


@pytest.mark.parametrize("how", BEFORE)
def test_a_change_before_the_snapshot_frees_nothing_and_a_full_check_sees_it(tmp_path, often, how):
    (tmp_path / "nodes").mkdir()
    store = RunStore(tmp_path)
    path = store.log_path("a")
    store.close()
    filled(path)
    verify_ledgers(tmp_path)
    edit(path, *BEFORE[how])
    book = opened(path)
    try:
        book.check()
    except co.LedgerDamaged:
        assert how == "removed"  # a gap is seen when the file is opened
    assert book.row_spent() == pytest.approx(6 * 3 * RHO)
    book.log.close()
    with pytest.raises(co.LedgerDamaged, match="does not continue the chain"):
        verify_ledgers(tmp_path)


@pytest.mark.parametrize("how", BEFORE)
def test_a_change_behind_the_snapshot_is_seen_when_the_ledger_opens(tmp_path, often, how):
    filled(tmp_path / "a.db", runs=5)  # a snapshot after three runs
    with closing(FileLog(tmp_path / "a.db")) as log:
        count, length = last_snapshot(log).count, log.length()
    assert count + 3 <= length
    places = {"2": str(count + 1), "3": str(count + 2), "100": "100"}
    edit(tmp_path / "a.db", *(" ".join(places.get(word, word) for word in text.split()) for text in BEFORE[how]))
    book = opened(tmp_path / "a.db")
    with pytest.raises(co.LedgerDamaged, match="does not continue the chain"):
        book.open_run("more", TERMS, {"a": ()})
    book.log.close()


def test_a_full_check_adds_up_what_a_snapshot_vouches_for(tmp_path, often):
    store = RunStore(tmp_path)
    path = store.log_path("a")
    store.close()
    filled(path)
    with closing(FileLog(path)) as log:
        made = json.loads(log.noted("snapshot"))
        made["state"]["lifetime"] = ["0x0", 0]
        log.note("snapshot", json.dumps(made).encode())
    with pytest.raises(co.LedgerDamaged, match="says other sums than its first"):
        verify_ledgers(tmp_path)


def test_a_change_by_another_process_is_seen_by_one_that_has_the_ledger_open(tmp_path, often):
    filled(tmp_path / "a.db")
    book = opened(tmp_path / "a.db")
    spend(book, "more")
    edit(tmp_path / "a.db", *BEFORE["changed"])
    with pytest.raises(co.LedgerDamaged, match="does not continue the chain"):
        book.open_run("last", TERMS, {"a": ()})
    book.log.close()


def test_rows_of_another_process_are_counted(tmp_path):
    path = tmp_path / "a.db"
    filled(path)
    book, other = opened(path), opened(path)
    spend(book, "mine")
    spend(other, "theirs")
    assert book.row_spent() == other.row_spent() == pytest.approx(8 * 3 * RHO)
    book.log.close()
    other.log.close()


def test_what_left_in_a_run_that_is_open_counts_as_released_and_its_whole_plan_as_spent(tmp_path):
    book = opened(tmp_path / "a.db")
    spend(book, "closed", used=1)
    spend(book, "open", used=2, how="")
    assert book.tally().released() == pytest.approx(
        (2 + 2) * RHO, rel=1e-12
    )  # of the closed one: its own, and the other's
    assert book.tally().spent() == pytest.approx((2 + 4) * RHO, rel=1e-12)


def test_a_transaction_that_is_undone_leaves_neither_snapshot_nor_sum(tmp_path, often):
    filled(tmp_path / "a.db", runs=2)
    book = opened(tmp_path / "a.db")
    spend(book, "open", used=3, how=None)
    spent = book.row_spent()

    def interrupted() -> None:
        with book.log.atomic():
            book.close_run("open", FINISHED)
            spend(book, "another")
            assert last_snapshot(book.log) is not None
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert book.row_spent() == spent
    assert book.open_runs() == {"open"}
    assert last_snapshot(book.log) is None
    book.log.close()


def test_a_limit_holds_over_a_snapshot(tmp_path, often):
    path = tmp_path / "a.db"
    filled(path)
    limit = epsilon(7.9 * 3 * RHO, 1e-6)  # six runs are over; a seventh reserves four parts, and uses three
    book = Ledger(FileLog(path), "a", Policy(epsilon=limit, delta=1e-6), identity=KEY)
    spend(book, "fits")
    with pytest.raises(co.BudgetExhausted):
        spend(book, "over")
    book.log.close()


def test_a_limit_that_was_changed_before_the_snapshot_is_not_the_one_that_holds(tmp_path, often):
    path = tmp_path / "a.db"
    book = Ledger(FileLog(path), "a", Policy(epsilon=9.0, delta=1e-6), identity=KEY)
    limit = epsilon(7.9 * 3 * RHO, 1e-6)
    book.set_budget(limit, 1e-6)
    book.log.close()
    filled(path)
    edit(path, f"update log set body = cast(replace(cast(body as text), '{limit!r}', '9.0') as blob) where seq = 1")
    book = Ledger(FileLog(path), "a", Policy(epsilon=9.0, delta=1e-6), identity=KEY)
    assert b'"epsilon": 9.0' in book.log.rows(kind="budget")[0].body
    assert book.budget().epsilon == limit
    spend(book, "fits")
    with pytest.raises(co.BudgetExhausted):
        spend(book, "over")
    book.log.close()


def test_limit_and_period_are_the_same_over_a_snapshot(tmp_path, often):
    path = tmp_path / "a.db"
    book = Ledger(FileLog(path), "a", Policy(), identity=KEY)
    for number in range(5):
        book.set_budget(3.0 + number, 1e-6)
        spend(book, f"run{number}")
        book.renew("a new year")
    said = book.budget()
    assert (said.epsilon, said.delta, said.period) == (7.0, 1e-6, 6)
    book.log.close()
    again = opened(path)
    assert last_snapshot(again.log) is not None
    assert again.budget() == said
    again.log.close()
