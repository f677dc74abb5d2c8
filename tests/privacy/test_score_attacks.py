"""Attacks on scores on request: on the quota, on masks, on training rows, on keys, and by whoever writes the order."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data import row_order
from colonnade.methods.masked_scores import whole
from colonnade.network.party_data import part_path, rows_path
from colonnade.network.party_service import OK, PartyService
from colonnade.network.questions import pack, unpack
from colonnade.network.score_order import Fallback
from colonnade.network.score_parts import Answerer, Ask, Part, Why, pack_asks, read_trail, row_digest, unpack_parts
from tests.helpers.standing_orders import HOLDER, MODEL, OTHERS, TRAINED, Consortium, Wired

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def ask(made: Consortium, party: Answerer, name: str, number: int, key: int, model: int = 0) -> Part:
    pair = made.approved(HOLDER).keyring().shared(name, "score rows")
    asked = Ask(number, model, row_digest(pair, b"i%d" % key))
    (part,) = unpack_parts(made.order, party.answer(pack_asks(made.order, [asked])))
    return part


def own_part(made: Consortium, name: str, key: int) -> int:
    matrix = made.file.members[name].schema.encode(made.tables[name]).matrix
    return int(whole(matrix @ made.coefficients[name])[key])


# ---------------------------------------------------------------- the quota's file


@pytest.mark.parametrize(
    "statement",
    [
        "update log set body = cast(replace(cast(body as text), '\"rows\": 1', '\"rows\": 0') as blob) where kind = 'quota'",
        "update log set kind = 'other' where kind = 'quota'",
        "delete from log where kind = 'quota'",
    ],
    ids=["changed", "renamed", "removed"],
)
def test_a_party_whose_quota_was_changed_in_the_file_answers_nothing(tmp_path, statement):
    made = Consortium.made(tmp_path, rows_a_day=3).approve_all()
    lab = made.answerer("lab")
    assert [ask(made, lab, "lab", n, 40).why for n in range(4)] == [Why.OK] * 3 + [Why.QUOTA]
    made.close()
    with closing(sqlite3.connect(tmp_path / "lab" / "nodes" / "lab.db")) as db, db:
        assert db.execute(statement).rowcount == 3
    with pytest.raises(co.LedgerDamaged, match="does not continue the chain"):
        made.answerer("lab")
    made.close()


# ---------------------------------------------------------------- masks


def test_a_store_that_is_put_back_gives_the_same_bytes_and_no_mask_twice(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    made.close()
    shutil.copytree(tmp_path / "lab", tmp_path / "copy")
    first = ask(made, made.answerer("lab"), "lab", 5, 40)
    made.close()
    shutil.rmtree(tmp_path / "lab")
    shutil.copytree(tmp_path / "copy", tmp_path / "lab")
    again = made.answerer("lab")
    assert ask(made, again, "lab", 5, 40) == first
    made.close()
    shutil.rmtree(tmp_path / "lab")
    shutil.copytree(tmp_path / "copy", tmp_path / "lab")
    other = ask(made, made.answerer("lab"), "lab", 5, 41)  # the same number for another row: another mask
    difference = own_part(made, "lab", 41) - own_part(made, "lab", 40)
    assert (other.value - first.value - difference) % 2**64
    made.close()


def test_two_orders_about_the_same_rows_share_no_mask(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    first = ask(made, made.answerer("lab"), "lab", 5, 40)
    made.order = replace(made.order, id="20260102T000000-another", approvals={})
    made.approve_all()
    second = ask(made, made.answerer("lab"), "lab", 5, 40)
    assert first.why is second.why is Why.OK
    assert first.value != second.value
    made.close()


# ---------------------------------------------------------------- training rows


def learn(folder: Path, run: str, *keys: int, members: list[str] | None) -> None:
    """As a run of these members does that ends and has learned from these rows; None: as an unknown one."""
    secret = bytes(range(32, 64))
    learned = row_order.digests(pl.Series(keys), secret, "training")
    if members is not None:
        part = {"format": "colonnade part", "version": 1, "run": run, "party": folder.name, "intercept": None}
        part |= {"features": ["one"], "coefficients": [1.0], "members": members}
        part_path(folder, run).write_text(json.dumps(part))
    rows_path(folder, run).write_bytes(secret + learned.tobytes())


def test_a_row_that_another_model_was_learned_from_is_refused_too(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    known = [member.key for member in made.file.members.values()]
    learn(tmp_path / "lab", "20260301T000000-later", 50, 51, members=known)
    lab = made.answerer("lab")
    whys = [ask(made, lab, "lab", n, key).why for n, key in enumerate((TRAINED - 1, TRAINED, 50, 51, 52))]
    assert whys == [Why.TRAINING, Why.OK, Why.TRAINING, Why.TRAINING, Why.OK]
    learn(tmp_path / "lab", "20260302T000000-still-later", 52, members=known)  # while the party answers
    assert [ask(made, lab, "lab", n, key).why for n, key in ((6, 52), (7, 53))] == [Why.TRAINING, Why.OK]
    made.close()


@pytest.mark.parametrize("told", [True, False], ids=["members on record", "nothing on record"])
@pytest.mark.parametrize("late", [False, True], ids=["before it starts", "while it answers"])
def test_a_refusal_does_not_say_who_is_in_the_rows_of_a_party_that_the_label_holder_has_no_run_with(
    told, late, tmp_path
):
    """The lab learned with somebody else: to the label holder its rows look like those that the lab does not have."""
    made = Consortium.made(tmp_path).approve_all()
    elsewhere = ["ed25519:" + "ab" * 32, made.file.members["lab"].key] if told else None
    if not late:
        learn(tmp_path / "lab", "20260301T000000-elsewhere", 50, 51, members=elsewhere)
    lab = made.answerer("lab")
    if late:
        assert ask(made, lab, "lab", 0, 53).why is Why.OK
        learn(tmp_path / "lab", "20260301T000000-elsewhere", 50, 51, members=elsewhere)
    asked = [ask(made, lab, "lab", n, key) for n, key in enumerate((50, 51, 999, 52, TRAINED - 1), 1)]
    assert [part.why for part in asked] == [Why.NO_ROW, Why.NO_ROW, Why.NO_ROW, Why.OK, Why.TRAINING]
    theirs, nobodys = asked[0], asked[2]
    assert (theirs.why, theirs.value) == (nobodys.why, nobodys.value)
    trail = read_trail(tmp_path / "lab", made.order, "lab")
    assert [line["outcome"] for line in trail[-5:]] == ["no_row"] * 3 + ["ok", "training"]
    made.close()


@pytest.mark.parametrize("left", [0, 31, 40])
def test_a_record_of_training_rows_that_was_cut_off_is_refused(tmp_path, left):
    made = Consortium.made(tmp_path).approve_all()
    path = rows_path(tmp_path / "lab", MODEL)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(co.InvalidInput, match="is no record of rows"):
        made.answerer("lab")
    made.close()


# ---------------------------------------------------------------- keys


def test_keys_cannot_be_tried_without_end_at_the_label_holder_and_every_try_is_in_its_trail(tmp_path):
    with Wired(Consortium.made(tmp_path, rows_a_day=10).approve_all()) as wired:
        assert wired.ask(keys=[3, 999, 40, 998])[1]["scores"][0] == {"key": 3, "refused": "training"}
        assert wired.service.quota.left() == 6
        outcomes = [wired.ask(key=key)[0] for key in range(1000, 1010)]
        assert outcomes == [404] * 6 + [429] * 4
        trail = read_trail(wired.made.folder / HOLDER, wired.made.order, HOLDER)
        assert len(trail) == 10
        assert bytes.fromhex(trail[0]["row"]) == b"i3"


def test_a_table_that_repeats_a_key_is_refused(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    made.tables["lab"] = pl.concat([made.tables["lab"], made.tables["lab"].head(2)])
    with pytest.raises(co.InvalidInput, match="2 rows repeat a key"):
        made.answerer("lab")
    made.close()


def test_long_requests_that_may_come_again_are_not_kept_whole(tmp_path):
    with Wired(Consortium.made(tmp_path).approve_all()) as wired:
        for number in range(3):
            body = json.dumps({"key": 999, "id": f"a{number}"}).encode() + b" " * 100_000
            assert wired.post(body).status == 404
        assert wired.post(body).status == 404
        assert sum(len(kept) + len(found.body) for kept, found in wired.service._replies.values()) < 1000


# ---------------------------------------------------------------- whoever writes the order


def test_an_order_with_two_fallbacks_without_the_same_parties_is_none(tmp_path):
    """Else a writer reads a party's columns one by one: a fallback for each, with one coefficient of 1."""
    made = Consortium.made(tmp_path).with_fallback("shop")
    (one,) = made.order.fallbacks
    for more in (one, replace(one, intercept=1.0)):
        with pytest.raises(co.InvalidInput, match="two fallbacks are without the same parties"):
            replace(made.order, fallbacks=(one, more))
    with pytest.raises(co.InvalidInput, match="without must be a list of parties"):
        Fallback((), 0.0, dict.fromkeys(made.file.members, (1.0, 0.0)))
    made.close()


@pytest.mark.parametrize(
    ("without", "of"),
    [((HOLDER,), OTHERS), (("nobody",), (HOLDER, *OTHERS)), (("shop",), (HOLDER, *OTHERS)), (("shop",), (HOLDER,))],
    ids=str,
)
def test_a_fallback_of_other_parties_than_there_are_is_refused(tmp_path, without: Any, of: Any):
    made = Consortium.made(tmp_path)
    one = Fallback(without, 0.0, {name: tuple(np.ones(2).tolist()) for name in of})
    made.order = replace(made.order, fallbacks=(one,))
    with pytest.raises(co.InvalidInput, match="are not the parties of the federation file"):
        made.approved("lab")
    made.close()


def test_a_coordinator_does_not_end_an_order_by_naming_it(tmp_path):
    made = Consortium.made(tmp_path).approve_all()
    service = PartyService(made.data("lab"), tmp_path / "lab", made.keys["lab"], lambda _: True)
    for asked in (
        {"what": "over", "run": made.order.run, "how": "aborted"},
        {"what": "settle", "run": "x", "over": {made.order.run: "aborted"}},
    ):
        assert unpack(service.answer(pack(asked))).head["code"] == OK
    assert service.ledger.open_runs() == {made.order.run}
    service.close()
    assert ask(made, made.answerer("lab"), "lab", 5, 40).why is Why.OK
    made.close()
