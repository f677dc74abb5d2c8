"""Scores on request: the sum and nothing else, each number once, quotas that no kill and no crowd exceeds."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import signal
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data import row_order
from colonnade.methods.masked_scores import FRACTION
from colonnade.network import certs, score_parts, score_service
from colonnade.network.party_data import part_path, rows_path
from colonnade.network.score_order import Approved, Order
from colonnade.network.score_parts import (
    Ask,
    Masks,
    Part,
    Quota,
    Why,
    pack_asks,
    pack_parts,
    read_trail,
    row_digest,
    unpack_parts,
)
from colonnade.network.score_service import PartLine, ScoreService, Waiting, holder_lines, models_in_words
from colonnade.network.status_page import StatusPage
from colonnade.network.transport.tls import tls_context
from colonnade.privacy.store import FileLog
from colonnade.problem.link import Link
from colonnade.runs.refit import link_of
from colonnade.runtime.run_store import RunStore, abort_run
from tests.helpers.contract import METHODS, federation, fitted
from tests.helpers.standing_orders import HOLDER, MODEL, OTHERS, ROWS, TRAINED, Consortium, Wired

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

CLOSE = 4 * FRACTION  # each of three parts is rounded to FRACTION/2, and floats add less


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    with Wired(Consortium.made(tmp_path).approve_all()) as made:
        yield made


# ---------------------------------------------------------------- what is learned


def test_the_label_holder_gets_the_sum_of_all_parts(wired):
    for key in (20, 41, 59):
        status, found = wired.ask(key=key)
        assert status == 200
        assert abs(found["score"] - wired.made.expected(key)) < CLOSE
        assert (found["model"], found["fallback"], found["without"]) == (MODEL, False, [])
    status, found = wired.ask(keys=[30, 3, 31, 999])
    assert status == 200
    assert abs(found["scores"][0]["score"] - wired.made.expected(30)) < CLOSE
    assert abs(found["scores"][2]["score"] - wired.made.expected(31)) < CLOSE
    assert [line.get("refused") for line in found["scores"]] == [None, "training", None, "no_row"]


def test_a_key_is_the_same_row_however_its_request_is_read(wired):
    import polars as pl

    from colonnade.data.row_order import canonical

    keys = [0, 17, -5, 10**15]
    assert wired.service._words(keys) == canonical(pl.Series(keys))
    assert wired.ask(key=True)[0] == 400


@pytest.mark.parametrize("kind", ["Int64", "UInt16", "String"])  # the last: a CSV file, which has no types
def test_keys_of_requests_and_answers_are_whole_numbers_where_those_of_the_table_are(tmp_path, kind):
    import polars as pl

    made = Consortium.made(tmp_path)
    made.tables = {name: table.cast({"key": getattr(pl, kind)}) for name, table in made.tables.items()}
    with Wired(made.approve_all()) as wired:
        status, found = wired.ask(key=41)
        assert (status, found["key"], type(found["key"])) == (200, 41, int)
        assert abs(found["score"] - made.expected(41)) < CLOSE
        _, found = wired.ask(keys=[30, 3, 999])
        assert [line["key"] for line in found["scores"]] == [30, 3, 999]
        assert [line.get("refused") for line in found["scores"]] == [None, "training", "no_row"]
        for wrong in (41.0, True, None):
            assert wired.ask(key=wrong)[0] == 400
        if kind == "String":
            assert wired.ask(key="41")[1]["key"] == 41


def test_keys_of_which_some_are_no_whole_numbers_are_texts(tmp_path):
    import polars as pl

    made = Consortium.made(tmp_path)
    named = pl.col("key").cast(pl.String).str.zfill(2)  # 07 is not 7
    made.tables = {name: table.with_columns(named) for name, table in made.tables.items()}
    with Wired(made.approve_all()) as wired:
        assert wired.ask(key="41")[1]["key"] == "41"
        assert wired.ask(key="07")[1]["key"] == "07"
        status, found = wired.ask(key=41)
        assert (status, found["refused"]) == (400, "keys")


def asked(made: Consortium, name: str, number: int, key: int, model: int = 0) -> Ask:
    approved = made.approved(HOLDER)
    pair = approved.keyring().shared(name, "score rows")
    return Ask(number, model, row_digest(pair, b"i%d" % key))


def parts_of(made: Consortium, answerer: Any, *asks: Ask) -> list[Part]:
    return unpack_parts(made.order, answerer.answer(pack_asks(made.order, asks)))


def own_part(made: Consortium, name: str, key: int) -> int:
    matrix = made.file.members[name].schema.encode(made.tables[name]).matrix
    return int(np.rint(matrix[key] @ made.coefficients[name] / FRACTION)) % 2**64


def sum_of(made: Consortium, asks: dict[str, Ask], answerers: dict[str, Any]) -> int:
    return sum(parts_of(made, answerers[name], ask)[0].value for name, ask in asks.items()) % 2**64


def test_masks_cancel_only_where_all_were_asked_for_the_same_row_number_and_model(tmp_path):
    made = Consortium.made(tmp_path, others=("lab", "shop", "post")).with_fallback("post").approve_all()
    names = ("lab", "shop", "post")
    answerers = {name: made.answerer(name) for name in names}
    plain = sum(own_part(made, name, 40) for name in names) % 2**64
    assert sum_of(made, {name: asked(made, name, 1, 40) for name in names}, answerers) == plain
    mixed = sum(own_part(made, name, 41 if name == "lab" else 40) for name in names) % 2**64
    assert sum_of(made, {n: asked(made, n, 2, 41 if n == "lab" else 40) for n in names}, answerers) != mixed
    assert sum_of(made, {n: asked(made, n, 3 + (n == "lab"), 40) for n in names}, answerers) != plain
    doubled = sum(2 * own_part(made, name, 40) for name in ("lab", "shop"))

    def off(models: dict[str, int], number: int) -> int:
        asks = {name: asked(made, name, number, 40, model=model) for name, model in models.items()}
        difference = (sum_of(made, asks, answerers) - doubled) % 2**64
        return min(difference, 2**64 - difference)

    assert off({"lab": 1, "shop": 1}, 8) <= 2  # each part is rounded
    assert off({"lab": 1, "shop": 0}, 10) > 2
    made.close()


def test_a_mask_is_for_one_number_one_model_and_one_row(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    approved = made.approved("lab")
    masks = Masks(approved.keyring(), approved)
    masks._pairs.append(masks._pairs[0])  # as if two models had the same parties
    cases = [(1, 0, b"i40"), (2, 0, b"i40"), (1, 1, b"i40"), (1, 0, b"i41")]
    assert len({masks.total(*case) % 2**64 for case in cases}) == 4
    made.close()


def test_a_part_under_its_mask_is_not_the_part_and_differs_in_every_request(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    lab = made.answerer("lab")
    values = [part.value for part in parts_of(made, lab, *(asked(made, "lab", n, 40) for n in range(50)))]
    assert len({*values, own_part(made, "lab", 40)}) == 51
    bits = np.unpackbits(np.array(values, "<u8").view(np.uint8)).mean()
    assert abs(bits - 0.5) < 4.5 * 0.5 / np.sqrt(50 * 64)  # a fair coin is further off less than once in 100,000 runs
    made.close()


def test_with_one_other_party_its_part_itself_is_learned_and_the_order_says_so(tmp_path):
    made = Consortium.made(tmp_path, others=("lab",)).approve_all()
    lab = made.answerer("lab")
    assert parts_of(made, lab, asked(made, "lab", 1, 40))[0].value == own_part(made, "lab", 40)
    assert models_in_words(made.order, HOLDER, list(made.file.members)) == ["all parties: the part of lab itself"]
    made.close()


# ---------------------------------------------------------------- each number once


def test_a_number_is_answered_once_and_a_retry_gets_the_same_bytes(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    lab = made.answerer("lab")
    raw = pack_asks(made.order, [asked(made, "lab", 5, 40)])
    first = lab.answer(raw)
    left = lab.quota.left()
    assert lab.answer(raw) == first
    assert lab.quota.left() == left
    for other in (asked(made, "lab", 5, 41), asked(made, "lab", 5, 40, model=1)):
        assert parts_of(made, lab, other) == [Part(5, Why.NUMBER)]
    made.close()


def test_after_a_crash_no_number_is_answered_again(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    lab = made.answerer("lab")
    ask = asked(made, "lab", 5, 40)
    assert parts_of(made, lab, ask)[0].why is Why.OK
    lab.close()
    again = made.answerer("lab")
    (part,) = parts_of(made, again, ask)
    assert part.why is Why.NUMBER
    assert parts_of(made, again, asked(made, "lab", part.value, 40))[0].why is Why.OK  # it says from where on
    made.close()


def test_the_service_goes_on_after_a_party_came_back(wired):
    assert wired.ask(key=40)[0] == 200
    wired.parties["lab"].close()
    wired.parties["lab"] = wired.made.answerer("lab")
    status, found = wired.ask(key=40)
    assert status == 200
    assert abs(found["score"] - wired.made.expected(40)) < CLOSE


def test_two_processes_of_a_party_do_not_answer_for_one_order(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    made.answerer("lab")
    with pytest.raises(co.StoreError, match="another process answers"):
        made.answerer("lab")
    made.close()


def test_a_request_with_an_id_that_comes_again_gets_the_same_bytes_and_costs_nothing(wired):
    body = json.dumps({"key": 40, "id": "a"}).encode()
    first, left = wired.post(body), wired.service.quota.left()
    assert wired.post(body) == first
    assert wired.service.quota.left() == left
    assert wired.post(json.dumps({"key": 41, "id": "a"}).encode()).status == 409
    assert wired.service.counts["repeated"] == 1


def test_an_id_is_its_askers_own_and_of_very_many_the_newest_answers_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(score_service, "KEPT", 2)
    with Wired(Consortium.made(tmp_path, askers=("crm", "loan")).approve_all()) as wired:
        wired.service.certified = True

        def number(asker: str, name: str) -> int:
            return json.loads(wired.post(json.dumps({"key": 40, "id": name}).encode(), asker).body)["number"]

        asks = [("crm", "a"), ("loan", "a"), ("crm", "a"), ("crm", "b"), ("loan", "a"), ("crm", "a")]
        assert [number(*ask) for ask in asks] == [0, 1, 0, 2, 1, 3]  # the last: three others came since
        assert not wired.service._going


def test_answers_are_kept_for_so_many_numbers_and_those_before_get_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(score_parts, "WINDOW", 2)
    made = Consortium.made(tmp_path).approve_all()
    lab = made.answerer("lab")
    asks = [asked(made, "lab", number, 40) for number in (3, 5, 9)]
    first = parts_of(made, lab, *asks)
    assert parts_of(made, lab, *asks[1:]) == first[1:]
    assert parts_of(made, lab, asks[0], asked(made, "lab", 2, 40)) == [Part(n, Why.NUMBER, 4) for n in (3, 2)]
    assert parts_of(made, lab, asked(made, "lab", 4, 40))[0].why is Why.OK
    assert parts_of(made, lab, asked(made, "lab", 2**63, 40))[0].why is Why.NUMBER  # numbers last for ever
    assert parts_of(made, lab, asked(made, "lab", 20, 40, model=1))[0].why is Why.MODEL
    made.close()


def test_numbers_are_skipped_where_another_party_has_used_them_and_not_for_ever(tmp_path):
    made = Consortium.made(tmp_path, rows_a_day=1000).approve_all()
    quota = made.answerer("lab").quota
    assert quota.take(3) == 0
    quota.skip(2)
    assert quota.take(1) == 3
    quota.skip(50)
    assert quota.take(2) == 50
    quota.skip(52 + score_parts.FAR)
    assert quota.take(1) == 52
    assert quota.left() == 1000 - 7
    made.close()


# ---------------------------------------------------------------- quotas


def test_the_quota_is_exact_under_concurrency_at_every_party(tmp_path):
    with Wired(Consortium.made(tmp_path, rows_a_day=70).approve_all()) as wired:
        found: list[int] = []

        def ask() -> None:
            found.extend(wired.ask(key=20 + n)[0] for n in range(25))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [200] * 70 + [429] * 30
        assert wired.service.quota.left() == 0
        assert {name: party.counts["ok"] for name, party in wired.parties.items()} == {"lab": 70, "shop": 70}


def test_a_refusal_costs_a_row_so_that_keys_cannot_be_tried_without_end(tmp_path):
    made = Consortium.made(tmp_path, rows_a_day=3).approve_all()
    lab = made.answerer("lab")
    asks = [asked(made, "lab", number, key) for number, key in enumerate((999, 3, 40, 41))]
    assert [part.why for part in parts_of(made, lab, *asks)] == [Why.NO_ROW, Why.TRAINING, Why.OK, Why.QUOTA]
    made.close()


def test_the_next_day_has_its_own_quota_and_a_day_that_is_over_does_not_come_back(tmp_path):
    made = Consortium.made(tmp_path, rows_a_day=2).approve_all()
    now = ["2026-03-01"]
    quota = Quota(made.approved("lab"), lambda: now[0])
    assert quota.take(1, 0) == 0
    now[0] = "2026-03-02"
    assert [quota.take(1, n) for n in range(3, 6)] == [3, 4, None]
    now[0] = "2026-03-01"  # of which a row was left
    assert Quota(made.approved("lab"), lambda: now[0]).take(1, 9) is None
    made.close()


def _take_until_killed(folder: str, order: Order, file: Any, identity: bytes, count: Any) -> None:
    quota = Quota(Approved(order, file, "lab", RunStore(folder), identity))
    number = quota.floor
    while quota.take(1, number) is not None:
        count.value += 1
        number += 1
        time.sleep(0.0005)


def test_kills_lose_rows_of_the_quota_and_never_add_any(tmp_path):
    made = Consortium.made(tmp_path, rows_a_day=400).approve_all()
    made.close()
    apart = multiprocessing.get_context("fork")
    count = apart.Value("q", 0, lock=False)
    given = (str(tmp_path / "lab"), made.order, made.file, made.keys["lab"], count)
    for wait in (0.05, 0.02, 0.08, None):
        process = apart.Process(target=_take_until_killed, args=given)
        process.start()
        if wait is None:
            process.join()
        else:
            before = count.value
            while count.value == before and process.is_alive():
                time.sleep(0.002)
            time.sleep(wait)
            os.kill(process.pid, signal.SIGKILL)
            process.join()
    size = 400 // 100
    assert 400 - 3 * size <= count.value <= 400
    log = FileLog(tmp_path / "lab" / "nodes" / "lab.db")
    assert sum(json.loads(row.body)["rows"] for row in log.rows(kind="quota")) == 400
    log.close()


# ---------------------------------------------------------------- who and what is refused


def test_training_rows_are_refused_by_every_party_unless_the_order_lets_them(tmp_path):
    made = Consortium.made(tmp_path / "strict").approve_all()
    for name in OTHERS:
        answers = parts_of(made, made.answerer(name), *(asked(made, name, key, key) for key in range(ROWS)))
        assert [part.why is Why.TRAINING for part in answers] == [key < TRAINED for key in range(ROWS)]
    made.close()
    free = Consortium.made(tmp_path / "free", training_rows=True).approve_all()
    assert parts_of(free, free.answerer("lab"), asked(free, "lab", 1, 3))[0].why is Why.OK
    free.close()


def learned(made, name, run, keys):
    """The record of the rows that one more model was learned from by the same parties."""
    part = {"format": "colonnade part", "version": 1, "run": run, "party": name, "intercept": None, "features": ["x"]}
    part |= {"coefficients": [1.0], "members": [member.key for member in made.file.members.values()]}
    part_path(made.folder / name, run).write_text(json.dumps(part))
    secret = run.encode().ljust(32, b".")
    known = row_order.digests(pl.Series(np.array(keys)), secret, "training")
    rows_path(made.folder / name, run).write_bytes(secret + known.tobytes())


@pytest.mark.parametrize("earlier", [["20250101T000000-m"], ["20250101T000000-m", "20270101T000000-m"]])
@pytest.mark.parametrize("late", [False, True], ids=["before it starts", "while it answers"])
def test_rows_of_every_model_on_record_are_refused_and_not_those_of_the_last_one_only(earlier, late, tmp_path):
    """The order's model was learned from keys 0 to 19; each other one from two rows of its own."""
    made = Consortium.made(tmp_path).approve_all()
    records = {run: [30 + 2 * place, 31 + 2 * place] for place, run in enumerate(earlier)}
    refused = {*range(TRAINED), *(key for keys in records.values() for key in keys)}
    if not late:
        _write_records(made, records)
    with Wired(made) as wired:
        if late:
            _write_records(made, records)
        answers = parts_of(made, wired.parties["lab"], *(asked(made, "lab", key, key) for key in range(ROWS)))
        assert {key for key, part in enumerate(answers) if part.why is Why.TRAINING} == refused
        found = {key for key in range(ROWS) if wired.service._own_refusal(b"i%d" % key) is Why.TRAINING}
        assert found == refused  # the label holder's own: it asks nobody for them


def _write_records(made, records):
    for name in (HOLDER, "lab"):
        for run, keys in records.items():
            learned(made, name, run, keys)


def test_a_party_that_cannot_tell_training_rows_answers_nothing(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    (tmp_path / "lab" / "fits" / f"{MODEL}.rows").unlink()
    with pytest.raises(co.InvalidInput, match="no record of the rows"):
        made.answerer("lab")
    made.close()


@pytest.mark.parametrize("peer", ["crm", "10.0.0.7", "loopback"])
def test_without_certificates_only_this_machine_gets_an_answer(wired, peer):
    status, found = wired.ask(peer, key=40)
    assert (status, found["refused"]) == (403, "asker")


@pytest.mark.parametrize(("peer", "status"), [("crm", 200), ("127.0.0.1", 403), ("loopback", 403), ("lab", 403)])
def test_with_certificates_a_name_is_who_asks_and_no_name_is_this_machine(tmp_path, peer, status):
    made = Consortium.made(tmp_path, askers=("crm", "loopback")).approve_all()
    with Wired(made) as wired:
        wired.service.certified = True
        assert wired.ask(peer, key=40)[0] == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"key": 1, "keys": [1]}', 400),
        (b'{"keys": 3}', 400),
        (b'{"keys": []}', 400),
        (b'{"key": "x"}', 400),
        (b'{"key": {"a": 1}}', 400),
        (b'{"key": 40, "id": 7}', 400),
        (b'{"key": 40, "row": 1}', 400),
        (b'{"key": 40, "id": ""}', 400),
        (b'{"key": 40, "id": null}', 400),
        (b'{"id": "a"}', 400),
        (b'{"key": "\\ud800"}', 400),
        (b"[" * 100_000, 400),
        (json.dumps({"key": 40, "id": "x" * 201}).encode(), 400),
        (json.dumps({"keys": [3] * 1001}).encode(), 400),
        (b'{"key": 999}', 404),
        (b'{"key": 3}', 403),
    ],
)
def test_a_request_that_gets_no_score_says_why(wired, body, status):
    left = wired.service.quota.left()
    found = wired.post(body)
    assert found.status == status
    assert "refused" in json.loads(found.body)
    assert wired.service.quota.left() == left - (status in (403, 404))  # a key that was tried counts


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"keys": 3}', "request.keys must be a list of 1 to 1,000 keys, as in keys = [4711, 4712]; got 3; write {"),
        (b'{"key": 40, "id": 7}', 'request.id must be a text of 1 to 200 letters, as in id = "a-17"; got 7; write {'),
        (b'{"id": "a"}', "request needs key, a key of the table, as in key = 4711; write {"),
        (b'{"key": 1, "keys": [1]}', "request.key is unknown"),
        (b"half of a requ", 'this is no JSON: write {"key"'),
    ],
)
def test_a_request_of_another_form_is_told_which_field_is_wrong_and_how_it_is_written(wired, body, why):
    assert why in json.loads(wired.post(body).body)["why"]


def test_an_order_that_was_aborted_at_a_party_releases_nothing_more(wired):
    assert wired.ask(key=40)[0] == 200
    with pytest.raises(co.StoreError, match="being driven"):
        abort_run(wired.made.folder / "lab", wired.made.order.run)
    wired.parties["lab"].lock.close()
    abort_run(wired.made.folder / "lab", wired.made.order.run)
    status, found = wired.ask(key=41)
    assert (status, found["refused"]) == (410, "ended")


def test_an_order_ends_with_its_day(tmp_path):
    now = ["2026-03-01"]
    made = Consortium.made(tmp_path, until="2999-03-01").approve_all()
    with Wired(made, clock=lambda: now[0]) as wired:
        assert wired.ask(key=40)[0] == 200
        now[0] = "2999-03-01"
        assert wired.ask(key=40)[0] == 200  # its last day is its own
        made.order.check_day(now[0])
        now[0] = "2999-03-02"
        with pytest.raises(co.InvalidInput, match="ended on 2999-03-01"):
            made.order.check_day(now[0])
        assert wired.ask(key=41)[1]["refused"] == "ended"
        assert parts_of(made, wired.parties["lab"], asked(made, "lab", 500, 40))[0].why is Why.ENDED


# ---------------------------------------------------------------- approval


def test_a_party_whose_policy_keeps_scores_does_not_approve(tmp_path):
    made = Consortium.made(tmp_path, policy=co.Policy(epsilon=1.0, delta=1e-6, least=3))
    with pytest.raises(co.PolicyRefused, match="does not let its part of scores leave"):
        made.approved("lab").approve()
    made.close()


def test_an_order_needs_the_word_of_every_party_on_the_same_terms(tmp_path):
    made = Consortium.made(tmp_path)
    made.order = made.approved("lab").approve()
    with pytest.raises(co.InvalidInput, match="has not approved the order"):
        made.approved("lab").keyring()
    made.approve_all()
    fair = made.order
    made.order = replace(fair, rows_a_day=10**6)  # of terms that nobody saw
    with pytest.raises(co.InvalidInput, match="has not approved these terms"):
        made.approved("lab").keyring()
    greedy = Consortium.made(tmp_path / "other", rows_a_day=10**6)
    greedy.keys, greedy.file = made.keys, made.file
    greedy.order = replace(greedy.order, federation=made.file.digest)
    theirs = greedy.approved("shop").approve().approvals["shop"]
    made.order = replace(fair, approvals={**fair.approvals, "shop": theirs})
    with pytest.raises(co.ProtocolError, match="not signed by the key pinned"):
        made.approved("lab").keyring()
    made.close()
    greedy.close()


def test_an_approval_is_one_run_of_scores_in_the_ledger(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    ledger = made.approved("lab").ledger
    assert ledger.score_runs() == 1
    assert ledger.open_runs() == {made.order.run}
    parts_of(made, made.answerer("lab"), asked(made, "lab", 1, 40))
    assert [entry.event.mechanism for entry in ledger.entries()] == ["scores"]
    made.close()


def test_an_order_is_read_back_as_it_was_written_and_nothing_else_is(tmp_path):
    made = Consortium.made(tmp_path).with_fallback("shop").approve_all()
    made.order.save(tmp_path / "order.json")
    assert Order.load(tmp_path / "order.json") == made.order
    assert Order.load(tmp_path / "order.json").digest == made.order.digest
    made.close()
    for text in ("", "{}", "[1]", '{"format": "colonnade standing order", "version": 1}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(co.InvalidInput, match="is no standing order"):
            Order.load(tmp_path / "bad.json")


# ---------------------------------------------------------------- a missing party


def test_a_fallback_answers_for_a_missing_party_and_says_so(tmp_path):
    with Wired(Consortium.made(tmp_path).with_fallback("shop").approve_all()) as wired:
        wired.there = {"lab"}
        status, found = wired.ask(key=40)
        assert (status, found["fallback"], found["without"]) == (200, True, ["shop"])
        assert abs(found["score"] - wired.made.expected(40, ("shop",))) < CLOSE
        wired.there = {"shop"}
        left = wired.service.quota.left()
        assert wired.ask(key=40)[0] == 503
        assert wired.service.quota.left() == left
        wired.there = {"lab", "shop"}
        assert wired.ask(key=40)[1]["fallback"] is False


# ---------------------------------------------------------------- what a score says


@pytest.mark.parametrize("case", ["private gram, secure", "frank-wolfe, logistic, simplex, intercept"])
def test_probability_and_class_of_an_answer_are_those_of_the_fit(case, tmp_path):
    """By the link of the private fit, and of log-odds; the label holder needs nothing but the score for them."""
    found, rows = fitted(METHODS[case]), federation(METHODS[case])
    terms = {"link": link_of(found), "classes": ("no", "yes")}
    made = Consortium.made(tmp_path, **terms)
    scores, likely, classes = found.scores(rows), found.predict_proba(rows), found.predict(rows)
    for score, chance, sign in zip(scores, likely, classes, strict=True):
        said = made.order.meaning(float(score), 0)
        assert said == {"probability": pytest.approx(chance, abs=1e-12), "class": "yes" if sign > 0 else "no"}
    with Wired(made.approve_all()) as wired:
        status, answer = wired.ask(key=40)
        assert status == 200
        assert {name: answer[name] for name in ("probability", "class")} == made.order.meaning(answer["score"], 0)
        made.order.save(tmp_path / "order.json")
        assert Order.load(tmp_path / "order.json").digest == made.order.digest


def test_a_model_of_numbers_has_no_class_and_its_order_the_digest_that_it_had(tmp_path):
    """Orders from before answers had probabilities keep their approvals."""
    order = Consortium.made(tmp_path).with_fallback("shop").order
    assert order.meaning(0.3, 0) == {}
    assert "link" not in json.dumps(order.terms)
    assert "classes" not in order.terms
    for wrong in ({"link": (1.0,)}, {"link": link_of(fitted(METHODS["private gram, secure"]))}, {"classes": ("yes",)}):
        with pytest.raises(co.InvalidInput):
            replace(order, **wrong)


def test_after_its_ledger_was_replaced_a_party_answers_nothing_until_it_has_approved_again(tmp_path):
    """A new ledger knows no quota that was used: so it knows no order either."""
    made = Consortium.made(tmp_path).approve_all()
    made.close()
    RunStore.path_in(tmp_path / "lab", "lab").unlink()
    with pytest.raises(co.InvalidInput, match="'lab' has not approved these terms"):
        made.answerer("lab")
    made.close()


# ---------------------------------------------------------------- what is kept and shown


def test_the_trail_says_who_asked_for_what_and_a_changed_one_is_noticed(wired):
    wired.ask(key=40)
    wired.ask(keys=[41, 42])
    lines = read_trail(wired.made.folder / HOLDER, wired.made.order, HOLDER)
    assert [(line["number"], line["asker"], line["outcome"]) for line in lines] == [
        (0, "loopback", "ok"),
        (1, "loopback", "ok"),
        (2, "loopback", "ok"),
    ]
    theirs = read_trail(wired.made.folder / "lab", wired.made.order, "lab")
    assert [line["number"] for line in theirs] == [0, 1, 2]
    assert [(line["model"], line["outcome"]) for line in theirs] == [(0, "ok")] * 3
    assert {line["asker"] for line in theirs} == {HOLDER}
    assert wired.ask(keys=[3, 43, 999])[0] == 200
    *_, training, absent, scored = read_trail(wired.made.folder / HOLDER, wired.made.order, HOLDER)
    told = [(line["number"], line["outcome"], bytes.fromhex(line["row"])) for line in (training, absent, scored)]
    assert told == [(3, "training", b"i3"), (4, "no_row", b"i999"), (5, "ok", b"i43")]
    log = wired.parties["lab"].trail.log
    log._db.execute("update log set body = replace(body, 'bank', 'shop') where seq = 1")
    with pytest.raises(co.LedgerDamaged):
        read_trail(wired.made.folder / "lab", wired.made.order, "lab")


def test_metrics_count_outcomes_and_never_show_a_score(wired):
    page = StatusPage()
    wired.service.show(page)
    _, found = wired.ask(key=40)
    wired.ask(key=3)
    text = page.metrics()
    assert 'colonnade_score_rows_total{outcome="scored"} 1' in text
    assert 'colonnade_score_rows_total{outcome="training"} 1' in text
    assert "colonnade_score_quota_left 998" in text
    assert 'colonnade_score_seconds_bucket{le="+Inf"} 2' in text
    assert "colonnade_score_seconds_count 2" in text
    wired.service.seconds.clear()
    wired.service.seconds.update({0.002: 1, 0.01: 2, 0.5: 3, np.inf: 4})
    bounds = [line.split()[1] for line in page.metrics().splitlines() if line.startswith("colonnade_score_seconds_b")]
    assert list(map(float, bounds)) == [1, 1, 3, 3, 3, 3, 3, 6, 6, 6, 10]
    assert "colonnade_score_seconds_count 10" in page.metrics()
    assert "colonnade_score_parties_connected 2" in text
    assert str(found["score"]) not in text
    assert page.unmet() == []
    wired.there = set()
    assert len(page.unmet()) == 1


def test_a_part_that_does_not_come_in_time_is_503_and_the_next_request_is_answered(wired, monkeypatch):
    monkeypatch.setattr(score_service, "PATIENCE", 0.05)
    plain, lost = wired.send, []
    wired.service._send = lambda name, raw: lost.append(raw) or True
    status, found = wired.ask(key=40)
    assert (status, found["refused"]) == (503, "late")
    monkeypatch.setattr(score_service, "PATIENCE", 5.0)
    wired.service._send = plain
    for name, raw in zip(OTHERS, lost, strict=True):  # what comes late is nobody's
        wired.service.take(name, wired.parties[name].answer(raw))
    status, found = wired.ask(key=40)
    assert status == 200
    assert abs(found["score"] - wired.made.expected(40)) < CLOSE
    lines = read_trail(wired.made.folder / HOLDER, wired.made.order, HOLDER)
    assert [line["outcome"] for line in lines] == ["late", "ok"]


def test_a_request_is_whole_when_each_party_has_answered_and_not_before(wired):
    one = Waiting({name: [Ask(7, 0, bytes(16))] for name in OTHERS})
    wired.service._waiting[7] = one
    raw = pack_parts(wired.made.order, [Part(7, Why.OK, 1)])
    for party in ("shop", "shop", "stranger", HOLDER):
        wired.service.take(party, raw)
        assert not one.done.is_set()
    wired.service.take("shop", pack_parts(wired.made.order, [Part(7, Why.OK, 2)]))
    wired.service.take("lab", raw)
    assert one.done.is_set()
    assert one.parts["shop", 7].value == 1
    del wired.service._waiting[7]


def test_a_line_that_goes_down_is_503_at_once(wired):
    wired.service._send = lambda *_: False
    began = time.monotonic()
    assert wired.ask(key=40)[1]["refused"] == "late"
    assert time.monotonic() - began < score_service.PATIENCE


@pytest.mark.parametrize("raw", [b"", b"csa2", b"csa2" + bytes(112), b"csa2" + bytes(129)])
def test_bytes_of_another_order_or_none_are_refused(wired, raw):
    with pytest.raises(co.WireError):
        wired.service.take("lab", raw)
    with pytest.raises(co.WireError):
        wired.parties["lab"].answer(raw)


# ---------------------------------------------------------------- over lines and HTTP


def post(port: int, body: bytes, context: ssl.SSLContext | None = None) -> tuple[int, dict[str, Any]]:
    kind = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    if context is not None:
        kind = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    with closing(kind) as asked:
        asked.request("POST", "/score", body)
        found = asked.getresponse()
        return found.status, json.loads(found.read())


@pytest.mark.parametrize("mtls", [False, True])
def test_scores_are_served_over_mutual_tls_lines_to_those_who_may_ask(tmp_path, mtls):
    authority = tmp_path / "certs"
    certs.init(authority)
    for name in (HOLDER, *OTHERS, "crm", "stranger"):
        certs.issue(authority, name, hosts=["localhost"] if name == HOLDER else ())
    made = Consortium.made(tmp_path, askers=("crm",) if mtls else ("loopback",)).approve_all()
    with ExitStack() as last:
        last.callback(made.close)
        approved, found = made.approved(HOLDER), []
        take = lambda party, raw: found[0].take(party, raw)  # noqa: E731
        lines = holder_lines(approved, certs.tls_in(authority, HOLDER), "127.0.0.1:0", take)
        last.callback(lines.stop)
        service = ScoreService(approved, made.data(HOLDER), lines.send, lines.connected, certified=mtls)
        last.callback(service.close)
        found.append(service)
        lines.start()
        for name in OTHERS:
            to = (name, HOLDER, f"localhost:{lines.port}", certs.tls_in(authority, name), None)
            last.enter_context(PartLine(made.answerer(name), *to))
        lines.wait_for(OTHERS, 20)
        tls = tls_context_of(authority, HOLDER, ssl.PROTOCOL_TLS_SERVER) if mtls else None
        page = StatusPage(tls=tls)
        service.show(page)
        last.enter_context(page)
        crm = tls_context_of(authority, "crm", ssl.PROTOCOL_TLS_CLIENT) if mtls else None
        status, answer = post(page.port, b'{"key": 40}', crm)
        assert (status, abs(answer["score"] - made.expected(40)) < CLOSE) == (200, True)
        if mtls:
            stranger = tls_context_of(authority, "stranger", ssl.PROTOCOL_TLS_CLIENT)
            assert post(page.port, b'{"key": 40}', stranger)[0] == 403


def tls_context_of(authority: Path, name: str, side: Any) -> ssl.SSLContext:
    tls = certs.tls_in(authority, name)
    return tls_context(tls, certs.load(tls), side)


def test_an_answer_is_counted_where_its_time_ends(wired, monkeypatch):
    moments = iter([0.0, 0.002, 1.0, 1.003, 2.0, 9.0])  # 2 ms, 3 ms and 7 s
    monkeypatch.setattr(score_service.time, "perf_counter", lambda: next(moments))
    for _ in range(3):
        wired.ask(key=3)
    monkeypatch.undo()
    assert wired.service.seconds == {0.002: 1, 0.005: 1, np.inf: 1}
    assert wired.service.time == pytest.approx(7.005)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "../x"},
        {"model": "a/b"},
        {"rows_a_day": 0},
        {"rows_a_day": 10**9 + 1},
        {"rows_a_day": 1.0},
        {"until": "2027-1-1"},
        {"until": "2027-01-01T00"},
        {"askers": ()},
        {"askers": ("crm", "")},
        {"intercept": float("nan")},
        {"classes": ("no",)},
        {"classes": ("no", "yes", "maybe")},
    ],
    ids=str,
)
def test_terms_that_are_none_are_refused(tmp_path, wrong):
    order = Consortium.made(tmp_path).with_fallback("shop").with_fallback("lab").order
    replace(order, rows_a_day=10**9, classes=("no", "yes"))
    with pytest.raises(co.InvalidInput):
        replace(order, **wrong)
    one = order.fallbacks[0]
    with pytest.raises(co.InvalidInput, match="without the same parties"):
        replace(order, fallbacks=(one, one))
    for none in ({"without": ()}, {"intercept": float("inf")}, {"coefficients": {"a": (float("nan"),)}}):
        with pytest.raises(co.InvalidInput, match=f"^{next(iter(none))} must be "):
            replace(one, **none)


def test_a_score_of_even_odds_is_of_the_class_that_is_learnt_and_every_model_has_its_own_link(tmp_path):
    order = replace(Consortium.made(tmp_path).with_fallback("shop").order, classes=("no", "yes"))
    assert [order.meaning(score, 1) for score in (-1e-9, 0.0)] == [{"class": "no"}, {"class": "yes"}]
    links = [tuple(link_of(fitted(METHODS["private gram, secure"])))] * 2
    links[1] = (links[0][0] + 1.0, *links[0][1:])
    order = replace(order, link=links[0], fallbacks=tuple(replace(one, link=links[1]) for one in order.fallbacks))
    for model, link in enumerate(links):
        likely = float(Link(*link)(np.array([0.3]))[0])
        assert order.meaning(0.3, model)["probability"] == pytest.approx(likely)
    assert order.meaning(0.3, 0)["probability"] != pytest.approx(order.meaning(0.3, 1)["probability"])
