"""Claims about releases that take a part of delta for themselves: what they took is added up, and never forgotten."""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.data.federation_file import new_key
from colonnade.estimators.federated import joint_statement, share_of
from colonnade.fields import read
from colonnade.methods.gatekeeper import NotCovered, _check_price
from colonnade.network.party_file import Limits
from colonnade.network.replaced_ledger import Record
from colonnade.privacy import ledger as ledgers
from colonnade.privacy.accountant import Budget, affords, epsilon, less_taken, rho_for
from colonnade.privacy.block import ROW
from colonnade.privacy.events import (
    ABORTED,
    EXACT,
    FINISHED,
    MASKED,
    Audience,
    Charge,
    Ending,
    Event,
    How,
    Mechanism,
    Scope,
    plan_delta,
    price_in_words,
    row_delta,
)
from colonnade.privacy.gate import Receipt
from colonnade.privacy.ledger import Ledger, Replaced, Terms, opening, prices_of_runs
from colonnade.privacy.local import LocalLedger, Total
from colonnade.privacy.mechanisms import SystemNoise, gaussian_sigma
from colonnade.privacy.statement import Privacy, PrivacyStatement, derived_statement
from colonnade.privacy.store import FileLog, MemoryLog
from colonnade.privacy.tally import Tally, last_snapshot, tallied
from colonnade.runs.budgets import (
    account,
    account_of,
    export_table,
    forecast,
    make_ledger,
    open_ledger,
    spending,
    verify_ledgers,
)
from colonnade.runs.preview import Preview, PreviewLine
from colonnade.runs.release_file import StatementTable
from colonnade.runtime.run_store import RunStore, begin_new_ledger, released

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

TERMS = Terms("M", "M()", "nobody", "one row", "changed", "f")
DELTA = 1e-6
RHO = 0.01
SUMS = Event(Mechanism.GAUSSIAN, RHO, 1.0)
LOOK = Event(Mechanism.HISTOGRAM, 0.002, 1.0, delta=DELTA / 16)  # a sixteenth: sums of a few are exact
TOGETHER = replace(LOOK, scope=Scope.JOINT)


def limited(limit: float = 1.0, log: Any = None, delta: float = DELTA) -> Ledger:
    return Ledger(log or MemoryLog(), "a", co.Policy(epsilon=limit, delta=delta))


def use(book: Ledger, run: str, *events: Event) -> None:
    for slot, event in enumerate(events):
        book.take(run, event)
        book.record(run, 0, slot, event, "x", 0)


# ------------------------------------------------------------------------------------------------ events and plans


def test_a_delta_is_written_where_there_is_one_and_nowhere_else():
    before = '{"audience": "all", "mechanism": "gaussian", "rho": 0.01, "scope": "own", "sensitivity": 1.0}'
    assert SUMS.to_json() == before
    assert Event.from_json(before) == SUMS
    assert json.loads(LOOK.to_json())["delta"] == DELTA / 16
    assert Event.from_json(LOOK.to_json()) == LOOK


@settings(max_examples=50)
@given(st.floats(0.0, 1.0, exclude_max=True))
def test_a_delta_comes_back_from_a_row_as_it_was(delta):
    event = replace(LOOK, delta=delta)
    assert Event.from_json(event.to_json()) == event


@pytest.mark.parametrize("delta", [-1e-12, 1.0, 2.0, math.inf, math.nan])
def test_a_delta_that_is_no_chance_is_refused(delta):
    with pytest.raises(co.InvalidInput, match="a delta from 0 on, below 1"):
        replace(LOOK, delta=delta)
    with pytest.raises(co.LedgerDamaged):
        Event.from_json(json.dumps({**json.loads(LOOK.to_json()), "delta": delta}))


def test_a_line_pays_for_a_release_of_its_own_delta_only():
    line = Charge(LOOK, 1, "levels")
    assert line.covers(replace(LOOK, sensitivity=7.0))
    for other in (0.0, LOOK.delta * (1 - 1e-15), LOOK.delta * (1 + 1e-15)):
        assert not line.covers(replace(LOOK, delta=other))
        assert not Charge(replace(LOOK, delta=other), 1, "levels").covers(LOOK)
    book = limited()
    book.open_run("one", TERMS, {"a": (line,)})
    with pytest.raises(co.LeakError, match="not in the plan"):
        book.take("one", replace(LOOK, delta=0.0))
    assert book.take("one", LOOK) == "levels"


def test_deltas_add_up_by_hand():
    """As prices do: every party's own, a line as often as it says, each joint mechanism once and at its dearest."""
    plans = {
        "a": (Charge(LOOK, 3, "levels"), Charge(TOGETHER, 2, "together"), Charge(SUMS, 9, "sums")),
        "b": (Charge(LOOK, 1, "levels"), Charge(TOGETHER, 5, "together"), Charge(LOOK, 0, "never")),
        "c": (Charge(replace(TOGETHER, rho=1.0), 1, "together"), Charge(TOGETHER, 1, "another"), Charge(EXACT, 1, "x")),
    }
    assert [plan_delta(plan) * 16 / DELTA for plan in plans.values()] == [5, 6, 2]
    assert row_delta(plans) * 16 / DELTA == 3 + 1 + 5 + 1
    assert row_delta(dict(reversed(plans.items()))) == row_delta(plans)
    assert row_delta({"a": (Charge(SUMS, 3, "sums"), Charge(EXACT, 2, "x"))}) == 0.0
    assert Receipt((LOOK, SUMS, LOOK)).delta == DELTA / 8


def test_a_price_is_told_with_its_delta():
    assert [price_in_words(0.02), price_in_words(math.inf), price_in_words(0.02, 5e-8)] == [
        "0.02",
        "exact",
        "0.02 and delta 5e-08",
    ]


# ------------------------------------------------------------------------------------------------ what it is worth


def test_what_releases_took_is_subtracted_before_rho_is_converted():
    assert affords(1.0, DELTA, rho_for(1.0, 0.75 * DELTA), DELTA / 4)
    assert not affords(1.0, DELTA, rho_for(1.0, DELTA), DELTA / 4)
    assert not affords(1.0, DELTA, rho_for(1.0, 0.75 * DELTA) * (1 + 1e-9), DELTA / 4)
    for taken in (DELTA, 2 * DELTA):
        assert not affords(1.0, DELTA, 0.0, taken)
        assert not affords(1e9, DELTA, 1e-300, taken)
    assert affords(1.0, DELTA, 0.0)
    assert (less_taken(DELTA, 0.0), less_taken(DELTA, 2 * DELTA)) == (DELTA, 0.0)


@pytest.mark.parametrize("parts", [1, 3])
def test_two_laws_that_part_with_that_chance_keep_the_promise_of_the_whole(parts):
    """Each release: one that a single row has is named with a chance of its delta, else discrete Gaussian noise."""
    rho, taken = 0.02, DELTA / 4
    sigma = gaussian_sigma(1024.0, parts * rho)  # the noise of all parts together, as one
    x = np.arange(-math.ceil(14 * sigma), math.ceil(14 * sigma) + 1, dtype=float)
    mass = np.exp(-(x**2) / (2 * sigma**2))
    mass /= mass.sum()
    loss = ((x + 1024.0) ** 2 - x**2) / (2 * sigma**2)
    good = (1.0 - taken) ** parts
    bound = epsilon(parts * rho, less_taken(DELTA, parts * taken))
    apart = (1.0 - good) + good * float((mass * np.maximum(0.0, 1.0 - np.exp(bound - loss))).sum())
    assert 0.9 * parts * taken < apart <= DELTA


# ------------------------------------------------------------------------------------------------ a ledger


def test_an_opening_says_what_its_plan_takes_and_what_the_others_take():
    plans = {"a": (Charge(LOOK, 2, "levels"), Charge(TOGETHER, 1, "together")), "b": (Charge(LOOK, 3, "levels"),)}
    said = json.loads(opening(TERMS, "a", plans, co.Policy(), "now"))
    assert (said["own_delta"] * 16 / DELTA, said["rest_delta"] * 16 / DELTA) == (2, 3 + 1)
    assert said["plan"][0]["event"]["delta"] == LOOK.delta
    free = json.loads(opening(TERMS, "c", plans, co.Policy(), "now"))
    assert "own_delta" not in free
    assert free["rest_delta"] * 16 / DELTA == 5 + 1


def test_what_a_run_did_not_use_of_its_delta_returns_when_it_closes():
    book = limited()
    plans = {"a": (Charge(LOOK, 3, "levels"), Charge(TOGETHER, 1, "together")), "b": (Charge(LOOK, 2, "levels"),)}
    book.open_run("one", TERMS, plans)
    assert book.row_taken() == book.budget().taken == 6 * DELTA / 16
    use(book, "one", LOOK, TOGETHER)
    assert book.row_taken() == 6 * DELTA / 16
    assert book.tally().released_delta() == 2 * DELTA / 16
    book.close_run("one", ABORTED)
    assert book.row_taken() == book.tally().released_delta() == (1 + 3) * DELTA / 16
    book.open_run("two", TERMS, plans)
    book.close_run("two", Ending(How.REFUSED))  # nothing was sent anywhere
    assert book.row_taken() == 4 * DELTA / 16
    book.renew("a new year")
    book.open_run("three", TERMS, plans)
    found = book.budget()
    assert (found.taken, found.lifetime_taken) == (6 * DELTA / 16, 10 * DELTA / 16)


def test_a_run_that_is_resumed_has_taken_what_is_on_record(tmp_path):
    with closing(FileLog(tmp_path / "a.db")) as log:
        plans = {"a": (Charge(LOOK, 3, "levels"),)}
        for used in range(3):
            book = limited(log=log)
            book.open_run("one", TERMS, plans)
            assert book.row_taken() == 3 * DELTA / 16
            book.take("one", LOOK)
            book.record("one", used, 0, LOOK, "levels", 0)
        with pytest.raises(co.ReplayDiverged, match="other terms"):
            limited(log=log).open_run("one", TERMS, {"a": (Charge(replace(LOOK, delta=0.0), 3, "levels"),)})


def test_a_ledger_is_overspent_by_delta_alone():
    """Nearly no rho, and a seventeenth sixteenth of its delta; sixteen leave none to any noise."""
    faint = replace(LOOK, rho=1e-12)
    book = limited()
    with pytest.raises(co.BudgetExhausted, match=r"those of this run would take 1\.063e-06, which leaves none"):
        book.open_run("one", TERMS, {"a": (Charge(faint, 17, "levels"),)})
    with pytest.raises(co.BudgetExhausted, match=r"Nothing was sent\. Ask for a smaller delta"):
        book.open_run("one", TERMS, {"a": (Charge(faint, 8, "levels"),), "b": (Charge(faint, 8, "levels"),)})
    book.open_run("one", TERMS, {"a": (Charge(faint, 15, "levels"),)})
    with pytest.raises(co.BudgetExhausted, match=r"took 9\.375e-07 of it for themselves, and those of this run"):
        book.open_run("two", TERMS, {"a": (Charge(faint, 1, "levels"),)})


@pytest.mark.parametrize("before", [False, True])
def test_a_limit_holds_at_what_is_left_of_its_delta_and_not_beyond(before):
    """Up to rho_for(epsilon, delta - taken), and a thousand millionth more is refused; also over two runs."""
    limit = rho_for(1.0, 0.75 * DELTA)

    def opened(part: float) -> Ledger:
        book = limited()
        look = Charge(replace(LOOK, rho=0.0), 4, "levels")
        noise = Charge(Event(Mechanism.GAUSSIAN, part * limit, 1.0), 1, "sums")
        if before:
            book.open_run("before", TERMS, {"b": (look,)})
        book.open_run("run", TERMS, {"a": (noise,) if before else (noise, look)})
        return book

    book = opened(1.0)
    assert book.budget().spent == epsilon(limit, 0.75 * DELTA) <= 1.0
    assert book.budget().left == 0.0
    for part in (1.0 + 1e-9, rho_for(1.0, DELTA) / limit):
        words = "would bring epsilon to" if before else "this run alone costs"
        with pytest.raises(co.BudgetExhausted, match=rf"{words}.* Releases take 2\.5e-07 of that delta for themselves"):
            opened(part)


def test_of_two_limits_neither_is_overspent_by_delta():
    """(0.7, 1e-3) is tighter than (1.5, 1e-6) until a run takes nearly all of that delta."""
    assert rho_for(1.5, DELTA) > rho_for(0.7, 1e-3) > rho_for(1.5, 1e-7 * DELTA)
    for limits in (((0.7, 1e-3), (1.5, DELTA)), ((1.5, DELTA), (0.7, 1e-3))):
        book = Ledger(MemoryLog(), "a", co.Policy(epsilon=limits[0][0], delta=limits[0][1]))
        book.set_budget(*limits[1])
        assert (book.budget().epsilon, book.budget().delta) == (0.7, 1e-3)
        with pytest.raises(co.BudgetExhausted, match=r"the limit has delta=1e-06.*leaves none"):
            book.open_run("one", TERMS, {"a": (Charge(replace(LOOK, rho=1e-6), 16, "levels"),)})
        book.open_run("one", TERMS, {"a": (Charge(replace(LOOK, rho=1e-6), 12, "levels"),)})
        book.open_run("two", TERMS, {"a": (Charge(replace(LOOK, rho=1e-6, delta=DELTA * 0.2499999), 1, "levels"),)})
        assert (book.budget().epsilon, book.budget().delta) == (1.5, DELTA)


def test_a_refusal_by_delta_changes_nothing(tmp_path):
    with closing(FileLog(tmp_path / "a.db")) as log:
        book = limited(log=log)
        with pytest.raises(co.BudgetExhausted):
            book.open_run("one", TERMS, {"a": (Charge(LOOK, 17, "levels"),)})
        assert (log.rows(), book.row_taken()) == ([], 0.0)


def test_a_run_of_delta_alone_fixes_the_unit_of_a_ledger():
    book = limited(1e3)
    book.open_run("one", TERMS, {"a": (Charge(replace(LOOK, rho=0.0), 1, "levels"),)})
    with pytest.raises(co.BudgetExhausted, match="counts for one row"):
        book.open_run("two", replace(TERMS, unit="one patient"), {"a": (Charge(SUMS, 1, "sums"),)})
    use(book, "one", replace(LOOK, rho=0.0))
    book.close_run("one", FINISHED)
    with pytest.raises(co.BudgetExhausted, match="counts for one row"):
        book.open_run("two", replace(TERMS, unit="one patient"), {"a": (Charge(replace(LOOK, rho=0.0), 1, "levels"),)})


RUN = st.tuples(
    st.integers(0, 3),  # releases of its own that take a delta, of three in the plan
    st.integers(0, 1),  # and of one together with others
    st.integers(0, 2),  # releases of another party about the same row
    st.sampled_from([1e-6, 0.1, 1 / 3, 1e-300]),
    st.sampled_from([FINISHED, ABORTED, Ending(How.REFUSED), None]),
)


def lived(runs: list[Any], place: int = -1) -> Ledger:
    book = Ledger(MemoryLog(), "a", co.Policy())
    for number, (own, joint, others, delta, how) in enumerate(runs):
        mine = replace(LOOK, delta=delta)
        shared = replace(TOGETHER, delta=delta)
        plans = {
            "a": (Charge(mine, 3, "levels"), Charge(shared, 1, "together")),
            "b": (Charge(mine, others, "levels"),),
        }
        book.open_run(f"run{number}", TERMS, plans)
        use(book, f"run{number}", *[mine] * own, *[shared] * joint)
        if how is not None:
            book.close_run(f"run{number}", how)
        if number == place:  # as a snapshot keeps it
            found = book.tally()
            book.log.tally = Tally.of(found.count, found.head, json.loads(json.dumps(found.plain())))
    return book


@settings(max_examples=60)
@given(st.lists(RUN, max_size=10), st.integers(0, 10), st.randoms())
def test_what_was_taken_is_the_sum_over_runs_in_any_order_and_over_any_snapshot(runs, place, shuffled):
    expected = []
    for own, _, others, delta, how in runs:
        rest = 0.0 if how == Ending(How.REFUSED) else math.fsum([delta * others, delta])
        expected.append((math.fsum([delta] * own) if how else 3 * delta) + rest)
    book = lived(runs, place)
    assert book.row_taken() == book.budget().taken == math.fsum(expected)
    assert [price.row_delta for price in prices_of_runs(book.log)] == expected
    anew = MemoryLog()
    anew._rows = book.log._rows
    assert tallied(anew).plain() == book.tally().plain()
    assert book.tally().released_delta() <= book.row_taken() + 1e-12 or any(
        run[4] == Ending(How.REFUSED) for run in runs
    )
    other = list(runs)
    shuffled.shuffle(other)
    assert (lived(other).row_taken(), lived(other).row_spent()) == (book.row_taken(), book.row_spent())


def test_a_ledger_opens_from_a_snapshot_with_its_delta_and_a_full_check_adds_it_up(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers, "EVERY", 10)
    store = RunStore(tmp_path)
    path = store.log_path("a")
    store.close()
    key = new_key()[1]
    with closing(FileLog(path)) as log:
        book = Ledger(log, "a", co.Policy(), identity=key)
        for number in range(6):
            book.open_run(f"run{number}", TERMS, {"a": (Charge(LOOK, 2, "levels"),), "b": (Charge(LOOK, 1, "levels"),)})
            use(book, f"run{number}", LOOK)
            if number:
                book.close_run(f"run{number}", FINISHED)
        whole = book.tally().plain()
        assert book.row_taken() == (3 + 5 * 2) * DELTA / 16
    with closing(FileLog(path)) as log:
        book = Ledger(log, "a", co.Policy(epsilon=9.0, delta=DELTA), identity=key)
        assert 0 < last_snapshot(log).count < log.length()
        assert (book.tally().plain(), book.row_taken()) == (whole, 13 * DELTA / 16)
        with pytest.raises(co.BudgetExhausted, match="leaves none"):
            book.open_run("over", TERMS, {"a": (Charge(LOOK, 3, "levels"),)})
        book.close_run("run0", FINISHED)
        assert book.row_taken() == 12 * DELTA / 16
        book.open_run("fits", TERMS, {"a": (Charge(LOOK, 3, "levels"),)})
    verify_ledgers(tmp_path)
    with closing(FileLog(path)) as log:
        made = json.loads(log.noted("snapshot"))
        made["state"]["lifetime"] = made["state"]["lifetime"][:2]
        log.note("snapshot", json.dumps(made).encode())
    with pytest.raises(co.LedgerDamaged, match="says other sums than its first"):
        verify_ledgers(tmp_path)


def test_rows_and_snapshots_without_a_delta_keep_the_bytes_that_they_had(tmp_path, monkeypatch):
    """The head of a chain and the sums of a ledger that was written by a version that knew of no delta."""
    monkeypatch.setattr(ledgers, "_now", lambda: "2026-01-01T00:00:00+00:00")
    monkeypatch.setattr(ledgers.secrets, "token_hex", lambda size: "0" * 2 * size)
    joint = Event(Mechanism.LATTICE, 0.02, math.inf, Scope.JOINT, Audience.CONSORTIUM)
    plan = (Charge(SUMS, 3, "sums"), Charge(joint, 2, "products"), Charge(MASKED, 4, "columns"))
    with closing(FileLog(tmp_path / "a.db")) as log:
        book = Ledger(log, "a", co.Policy(epsilon=9.0, delta=1e-6, consortium=True))
        book.begin_anew(0.003, [("one row", "changed")])
        for run, how in (("one", FINISHED), ("two", Ending(How.REFUSED)), ("three", ABORTED), ("four", None)):
            book.open_run(run, TERMS, {"a": plan, "b": plan[:2]})
            for slot, event in enumerate((SUMS, joint, MASKED)[: len(run) - 1]):
                book.record(run, 0, slot, event, "sums", slot)
            if how is not None:
                book.close_run(run, how)
            if run == "two":
                book.set_budget(8.0, 1e-6)
                book.renew("a new year")
        book.accept_replaced(Replaced("b", "2026-01-01T00:00:00+00:00", "1" * 16), (3, bytes(32)), 1.0)
        found = book.tally()
        sums = hashlib.sha256(json.dumps(found.plain(), sort_keys=True).encode()).hexdigest()
    assert found.head.hex() == "6f98b88a729911452e9ed812e0af330a1dc747fc9937f396a6053156fad02f24"
    assert sums == "fedb1cd91ba923f0b641fe0c5a78104f088dc6e9fddb606b72d8b8e77fe15d3e"


# ------------------------------------------------------------------------------------------------ ledgers that were lost


def test_a_new_ledger_begins_with_the_largest_delta_that_its_owner_or_a_peer_says(tmp_path):
    with closing(RunStore(tmp_path)) as books:
        for name, times in (("a", 2), ("b", 5)):
            ledger = Ledger(books.log(name), name, co.Policy())
            ledger.open_run(f"run-{name}", TERMS, {name: (Charge(LOOK, times, "levels"),)})
            ledger.remember("run", "end", {"c": (5, bytes(32))})
    when, rho, taken = begin_new_ledger(tmp_path, "c")
    assert (rho, taken) == (pytest.approx(5 * LOOK.rho), 5 * DELTA / 16)
    with closing(RunStore(tmp_path)) as books:
        new = Ledger(books.log("c"), "c", co.Policy(epsilon=3.0, delta=DELTA))
        assert new.row_taken() == new.budget().taken == 5 * DELTA / 16
        for rho, taken, total in ((0.0, 0.0, 5), (0.0, 7 * DELTA / 16, 7), (0.5, 0.0, 7), (0.5, DELTA, 16)):
            assert new.begin_anew(rho, taken=taken).when == when
            assert new.row_taken() == total * DELTA / 16
        assert new.row_spent() == pytest.approx(0.5)
        for wrong in (-1e-9, math.inf, math.nan):
            with pytest.raises(co.InvalidInput, match="a finite number of at least 0"):
                new.begin_anew(0.0, taken=wrong)
        with pytest.raises(co.BudgetExhausted, match="leaves none"):
            new.open_run("run", TERMS, {"c": (Charge(SUMS, 1, "sums"),)})


@pytest.mark.parametrize(
    ("parts", "rho", "fits"), [(3, 1.0, True), (2, 1.0, False), (0, 1.0, False), (0, math.inf, True)]
)
def test_a_peer_takes_no_new_ledger_that_forgets_a_delta(parts, rho, fits):
    """Unless it counts as one whose whole past is unknown: then no delta makes it worse."""
    book = Ledger(MemoryLog(), "a", co.Policy())
    book.open_run("one", TERMS, {"a": (Charge(LOOK, 3, "levels"),)})
    one = Replaced("b", "2031-01-01T00:00:01+00:00", "m")
    if fits:
        book.accept_replaced(one, (3, b"\1" * 32), rho, parts * DELTA / 16)
    else:
        with pytest.raises(co.InvalidInput, match=r"sign again with --delta 1\.875e-07 or more"):
            book.accept_replaced(one, (3, b"\1" * 32), rho, parts * DELTA / 16)
    assert book.remembered() == ({"b": (3, b"\1" * 32)} if fits else {})


def test_the_record_of_a_new_ledger_signs_its_delta_and_is_as_it_was_without_one(tmp_path):
    plain = Record("b", "2026-01-01T00:00:00+00:00", "1" * 16, "digest", 0.25, 3, "00" * 32)
    plain.save(tmp_path / "plain")
    found = [hashlib.sha256(body).hexdigest()[:16] for body in (plain.statement, (tmp_path / "plain").read_bytes())]
    assert found == ["e28aeccd87d6fcda", "5d2debbbafdfebbe"]
    record = replace(plain, delta=5e-8)
    record.save(tmp_path / "record")
    assert Record.load(tmp_path / "record") == record
    assert Record.load(tmp_path / "plain") == plain
    assert len({one.statement for one in (plain, record, replace(record, delta=6e-8))}) == 3
    (tmp_path / "record").write_text((tmp_path / "record").read_text().replace("5e-08", "-5e-08"))
    with pytest.raises(co.InvalidInput, match="delta must be a number from 0 on"):
        Record.load(tmp_path / "record")


# ------------------------------------------------------------------------------------------------ what is said and let through


def said(taken: float) -> PrivacyStatement:
    return derived_statement(Privacy(1.0, DELTA, "nobody"), 0.02, ROW, "sums", "here", (), taken)


def test_a_statement_is_of_the_whole_delta_and_says_what_releases_took_of_it():
    made = said(DELTA / 20)
    assert (made.epsilon, made.delta, made.rho, made.taken) == (epsilon(0.02, 0.95 * DELTA), DELTA, 0.02, DELTA / 20)
    assert made.epsilon > epsilon(0.02, DELTA)
    assert made.accountant == (
        "Renyi bound of 0.02-zCDP at what is left of delta when releases took 5e-08 of it for themselves"
    )
    plain = json.loads(json.dumps(made.to_plain()))
    assert plain["taken"] == DELTA / 20
    assert PrivacyStatement.from_plain(plain) == made
    assert read(plain, StatementTable).taken == DELTA / 20
    assert said(DELTA).epsilon == math.inf
    for wrong in (2 * DELTA, -DELTA):
        with pytest.raises(co.InvalidInput, match=r"took more than its delta|must be a finite number from 0 on"):
            read({**plain, "taken": wrong}, StatementTable)


def test_the_statement_of_several_runs_adds_up_what_their_releases_took():
    share = share_of(1.0, DELTA, 2)
    terms = Privacy(share, DELTA, "nobody")
    one = derived_statement(terms, rho_for(share, DELTA), ROW, "sums", "here", (), DELTA / 20)
    both = joint_statement([one, replace(one, taken=DELTA / 5)], terms)
    assert both.taken == DELTA / 4
    assert both.rho == 2 * rho_for(share, DELTA)
    assert both.epsilon == epsilon(both.rho, 0.75 * DELTA) > one.epsilon
    assert "when releases took 2.5e-07 of it for themselves, 2 runs of" in both.accountant
    plain = joint_statement([replace(one, taken=0.0)] * 2, terms)
    assert (plain.taken, plain.epsilon) == (0.0, epsilon(both.rho, DELTA))


def test_a_statement_of_releases_that_took_nothing_is_as_it_was():
    text = json.dumps(said(0.0).to_plain(), sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "b83cca9f676f9152"
    assert read(json.loads(text), StatementTable).taken == 0.0


def asked(rho: float, times: int) -> SimpleNamespace:
    """A run proposed at epsilon 1 and DELTA, of which it takes so many sixteenths for itself."""
    call = SimpleNamespace(method=co.PrivateGram(), privacy=Privacy(1.0, DELTA))
    plans = {
        "a": (Charge(Event(Mechanism.GAUSSIAN, rho, 1.0), 1, "sums"),),
        "b": (Charge(replace(LOOK, rho=0.0), times, "levels"),),
    }
    return SimpleNamespace(party="a", run="r", plans=plans, call=call)


def test_a_method_may_cost_what_is_left_of_the_delta_and_no_more():
    job = SimpleNamespace(privacy=Privacy(1.0, DELTA), units=(100, "rows"))
    whole = rho_for(1.0, DELTA)
    left = rho_for(1.0, 0.75 * DELTA)
    _check_price(co.PrivateGram(), asked(whole, 0).plans, job)
    _check_price(co.PrivateGram(), asked(left, 4).plans, job)
    for rho in (whole, left * (1 + 1e-9)):
        with pytest.raises(NotCovered, match=r"would cost epsilon 1.*, and privacy= allows 1 "):
            _check_price(co.PrivateGram(), asked(rho, 4).plans, job)
    for times in (16, 17):
        with pytest.raises(NotCovered, match=r"would take 1.*e-06 of a delta for themselves.*Ask for a larger delta"):
            _check_price(co.PrivateGram(), asked(1e-9, times).plans, job)


def test_the_limits_of_a_party_are_at_what_is_left_of_the_delta():
    price = epsilon(0.02, 0.75 * DELTA)
    assert Limits(("PrivateGram",), price)(asked(0.02, 4))
    with pytest.raises(co.PolicyRefused, match="is over"):
        Limits(("PrivateGram",), epsilon(0.02, DELTA))(asked(0.02, 4))
    with pytest.raises(co.PolicyRefused, match="epsilon = inf is over"):
        Limits(("PrivateGram",), 1e9)(asked(0.02, 16))


def test_a_preview_names_what_releases_take():
    line = PreviewLine("a", "levels", 1, 0.002, "everybody", DELTA / 16)
    found = Preview("M", 9, (line, replace(line, delta=0.0)), 0.02, DELTA, None, taken=DELTA / 16)
    assert found.epsilon == epsilon(0.02, 15 * DELTA / 16)
    assert "(rho 0.02, and releases take 6.25e-08 of that delta for themselves)" in found.price
    plain = found.plain()
    assert (plain["taken"], plain["leaves"][0]["delta"]) == (DELTA / 16, DELTA / 16)
    assert "delta" not in plain["leaves"][1]
    assert "taken" not in replace(found, taken=0.0).plain()


def test_the_total_of_one_holder_counts_what_its_releases_took(tmp_path):
    path = tmp_path / "ledger.db"
    book = LocalLedger(path)
    plan = (Charge(LOOK, 2, "levels"), Charge(SUMS, 1, "sums"))
    for _ in range(2):
        with book.run(TERMS, plan, SystemNoise()):
            """Nothing was drawn."""
    assert book.total() == Total(0.0, 2)

    def interrupted() -> None:
        with book.run(TERMS, plan, SystemNoise()) as gate:
            gate._ledger.take(gate.run, LOOK)
            gate._ledger.record(gate.run, 0, 0, LOOK, "levels", 0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    total = book.total()
    assert total == Total(pytest.approx(LOOK.rho), 3, 0.0, DELTA / 16)
    assert total.epsilon(DELTA) == epsilon(total.rho, 15 * DELTA / 16)
    assert total.epsilon(DELTA / 16) == math.inf
    book.set_limit(9.0, DELTA / 4)
    with (
        book.run(TERMS, plan, SystemNoise()),
        pytest.raises(co.BudgetExhausted, match="leaves none"),
        book.run(TERMS, plan, SystemNoise()),
    ):
        """The one around it has reserved two sixteenths, and one is taken."""


# ------------------------------------------------------------------------------------------------ the owner's view


def test_every_figure_of_an_account_counts_what_releases_took(tmp_path):
    make_ledger(tmp_path, "a")
    with open_ledger(tmp_path, "a") as ledger:
        ledger.set_budget(4.0, DELTA)
        for run in ("one", "two"):
            plans = {"a": (Charge(LOOK, 2, "levels"), Charge(SUMS, 1, "sums")), "b": (Charge(LOOK, 1, "levels"),)}
            ledger.open_run(run, TERMS, plans)
            use(ledger, run, LOOK, SUMS)
            ledger.close_run(run, FINISHED)
            if run == "one":
                ledger.renew("a new year")
        ledger.open_run("three", TERMS, {"a": (Charge(LOOK, 2, "levels"),)})
        use(ledger, "three", LOOK)
        found = account_of(ledger)
    period = 2 * LOOK.rho + RHO  # of a run that is over
    assert found.budget.taken * 16 / DELTA == 2 + 2
    assert found.budget.lifetime_taken * 16 / DELTA == 4 + 2
    assert found.spent == pytest.approx(epsilon(period + 2 * LOOK.rho, 12 * DELTA / 16))
    assert found.budget.spent == found.spent
    assert found.released == pytest.approx(epsilon(period + LOOK.rho, 13 * DELTA / 16))
    assert found.lifetime == pytest.approx(epsilon(2 * period + 2 * LOOK.rho, 10 * DELTA / 16))
    room = rho_for(4.0, 12 * DELTA / 16) - found.budget.rho
    assert found.budget.left == pytest.approx(room)
    assert found.left == pytest.approx(epsilon(room, DELTA))  # of a run that asks for the whole delta and takes none
    assert found.share == pytest.approx(room / rho_for(4.0, DELTA))
    assert found.cells()["limit"] == "ε 4 (δ 1e-06, of which releases took 2.5e-07)"
    assert account(tmp_path, "a") == found
    cast = forecast(tmp_path, "a", 1.0, DELTA, 1)
    assert cast.after == epsilon(found.budget.rho + rho_for(1.0, DELTA), 12 * DELTA / 16)
    assert cast.fits
    assert not forecast(tmp_path, "a", 3.95, DELTA, 1).fits
    left = [2 * (LOOK.rho + RHO) + LOOK.rho, 13 * DELTA / 16]
    assert spending(tmp_path, "a")[-1][1] == pytest.approx(epsilon(*left))
    assert [line.get("delta") for line in json.loads(export_table(tmp_path, "a", "json"))].count(LOOK.delta) == 3
    lines = json.loads(export_table(tmp_path, "a", "json", "runs"))
    counted = [
        [
            line.get(f"{name}_delta", 0.0) * 16 / DELTA
            for name in ("reserved_own", "reserved_other", "counted_own", "counted")
        ]
        for line in lines
    ]
    assert counted == [[2, 1, 1, 2], [2, 1, 1, 2], [2, 0, 2, 2]]


def test_commands_name_what_releases_took(tmp_path):
    make_ledger(tmp_path, "a")
    with open_ledger(tmp_path, "a") as ledger:
        ledger.begin_anew(0.01, taken=DELTA / 4)

    def told(*words: object) -> str:
        return CliRunner().invoke(app, list(map(str, words)), input="n\n").output

    assert "have already given rho 0.01 and delta 2.5e-07; a new period" in told(
        "budget", "renew", tmp_path, "a", "--reason", "x"
    )
    assert json.loads(told("budget", "show", tmp_path, "--json"))[0]["delta_taken"] == DELTA / 4
    told("budget", "set", tmp_path, "a", "--epsilon", 3)
    assert "of which releases took 2.5e-07" in " ".join(told("budget", "show", tmp_path).split())
    (line,) = [line for line in json.loads(export_table(tmp_path, "a", "json", "owner")) if line["kind"] == "replaced"]
    assert (line["rho"], line["delta"]) == (0.01, DELTA / 4)


def test_what_left_in_a_run_is_listed_with_its_delta(tmp_path):
    with closing(RunStore(tmp_path)) as store:
        store.adopt("one")
        book = Ledger(store.log("a"), "a", co.Policy())
        book.open_run("one", TERMS, {"a": (Charge(LOOK, 2, "levels"), Charge(SUMS, 1, "sums"))})
        for slot, (event, what) in enumerate(((LOOK, "levels"), (SUMS, "sums"), (LOOK, "levels"))):
            book.record("one", 0, slot, event, what, 0)
    left = {line["what"]: line for line in released(tmp_path, "one")[1]}
    assert left["levels"] == {"node": "a", "what": "levels", "times": 2, "rho": 2 * LOOK.rho, "delta": DELTA / 8}
    assert "delta" not in left["sums"]


def test_the_share_that_is_left_is_nothing_where_releases_took_all():
    full = Budget(1.0, DELTA, 1, 0.0, 0.0, DELTA, DELTA)
    assert (full.limit, full.left, full.share, full.spent) == (0.0, 0.0, 0.0, 0.0)
    assert Budget(1.0, DELTA, 1, 0.0, 0.0).share == 1.0
    assert Budget(None, None, 1, 5.0, 5.0, 1.0, 1.0).affords(9.0, 1.0)
