"""Rows of parties that run apart: matched by keyed digests or private set intersection, in one order, under attack."""

from __future__ import annotations

import json
import math
import os
import unicodedata
from dataclasses import replace
from datetime import date
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as co
from colonnade.data import alignment
from colonnade.data.alignment import (
    Agreement,
    PepperShare,
    agree,
    bitmap,
    intersect,
    locate,
    offer,
    order_digest,
)
from colonnade.data.psi import psi_words
from colonnade.data.row_order import canonical, digests, key_kind
from colonnade.errors import InvalidInput, PolicyRefused, ProtocolError, WireError
from colonnade.privacy.keyring import Keyring, derive, public_key
from tests.helpers.intersection import intersect_privately

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PEPPER = derive(b"a pepper for tests", "test")
OTHER = derive(b"another pepper", "test")
TABLES = {"bank": [5, 3, 9, 1, 7, 20], "clinic": [1, 2, 3, 4, 5, 9], "lab": [9, 8, 5, 3, 0, 1, 30]}
COMMON = {1, 3, 5, 9}

keys_of_a_table = st.sets(st.integers(-50, 50), min_size=1, max_size=60).map(list)


def offers(tables, pepper=PEPPER, least=1):
    return {party: offer(pl.Series(keys), pepper, least=least) for party, keys in tables.items()}


def agreements(tables, pepper=PEPPER, least=1):
    """What every party holds after an alignment with an honest coordinator."""
    sent = offers(tables, pepper, least)
    _, places = intersect({party: mine.digests for party, mine in sent.items()}, least)
    answers = {party: bitmap(places[party], len(mine.digests)) for party, mine in sent.items()}
    return sent, {party: made(party, mine, answers[party], tables, pepper) for party, mine in sent.items()}


def made(party, mine, answer, parties=TABLES, pepper=PEPPER):
    return Agreement.from_answer(mine, answer, pepper, session="s1", party=party, parties=list(parties))


def confirmed(sent, kept, run="run"):
    """Every party checks what every other confirms."""
    said = {party: kept[party].confirmation(sent[party], run) for party in kept}
    for party, mine in kept.items():
        mine.check(sent[party], run, {other: said[other] for other in said if other != party})


def marking(mine, wanted):
    """A bitmap that marks these keys among the digests that were sent."""
    words = digests(pl.Series(sorted(wanted)), PEPPER)
    return bitmap(np.flatnonzero((mine.digests[:, None] == words[None]).all(2).any(1)), len(mine.digests))


# ------------------------------------------------------------------------------------------------ keys as bytes


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int32, pl.Int64, pl.UInt16, pl.UInt64])
def test_the_width_of_whole_numbers_does_not_matter(dtype):
    assert canonical(pl.Series([17, 0], dtype=dtype)) == [b"i17", b"i0"]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["a", "é"])])
def test_texts_are_the_same_however_a_column_stores_them(dtype):
    assert canonical(pl.Series(["a", "é"], dtype=dtype)) == [b"ta", "té".encode()]


def test_an_accent_written_in_two_ways_is_one_key():
    composed, apart = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
    assert composed != apart
    assert canonical(pl.Series([composed])) == canonical(pl.Series([apart]))


def test_a_date_is_written_as_iso_says():
    assert canonical(pl.Series([date(2024, 2, 29), date(987, 1, 2)])) == [b"d2024-02-29", b"d0987-01-02"]


any_key = st.one_of(st.integers(-(2**100), 2**100), st.text(), st.dates())


@given(any_key, any_key)
def test_two_keys_have_the_same_bytes_if_and_only_if_they_are_the_same_key(one, other):
    same = written(one) == written(other)
    assert (canonical(column(one)) == canonical(column(other))) == same


def column(key):
    return pl.Series([key], dtype=pl.Int128 if isinstance(key, int) else None)


def written(key):
    """Digits are a number, as long as Python writes that number with them."""
    if isinstance(key, str) and key.isascii() and key.removeprefix("-").isdigit() and str(int(key)) == key:
        return int(key)
    return unicodedata.normalize("NFC", key) if isinstance(key, str) else key


def test_texts_of_digits_are_the_numbers_that_they_write():
    number, text = pl.Series([17, -3, 0]), pl.Series(["17", "-3", "0"])
    assert canonical(number) == canonical(text) == canonical(pl.Series(["17", "-3", "0", "x"]))[:3]
    for one, other in ((number, text), (text, pl.Series(["017"]))):
        agree(
            {"bank": PepperShare.from_secret(one, PEPPER, "s1"), "lab": PepperShare.from_secret(other, OTHER, "s1")},
            "s1",
        )


def test_numbers_and_texts_with_leading_zeros_are_different_keys_and_parties_that_mix_them_are_refused_before_any_digest():
    number, text = pl.Series([17]), pl.Series(["017"])
    assert canonical(number) != canonical(text)
    shares = {"bank": PepperShare.from_secret(number, PEPPER, "s1"), "lab": PepperShare.from_secret(text, OTHER, "s1")}
    with pytest.raises(
        InvalidInput, match=r"bank: whole number, lab: text\). No digest was sent.*same sort.*leading zeros"
    ):
        agree(shares, "s1")


@pytest.mark.parametrize(
    "keys",
    [pl.Series([1.0]), pl.Series([True]), pl.Series([b"a"]), pl.Series([date(2024, 1, 1)]).cast(pl.Datetime)],
    ids=["float", "boolean", "binary", "datetime"],
)
def test_what_is_no_key_is_refused_with_advice(keys):
    with pytest.raises(InvalidInput, match=r"whole number, a text or a date.*same way at every party"):
        key_kind(keys)


def test_missing_keys_and_empty_columns_are_refused():
    with pytest.raises(InvalidInput, match=r"2 rows have no key; fill it in"):
        canonical(pl.Series(["a", None, None]))
    with pytest.raises(InvalidInput, match="no rows"):
        canonical(pl.Series([], dtype=pl.Int64))


# ------------------------------------------------------------------------------------------------ digests


def test_digests_depend_on_key_and_pepper_and_on_nothing_else():
    keys = pl.Series([3, 1, 2])
    assert digests(keys, PEPPER).shape == (3, 16)
    assert (digests(keys, PEPPER)[[1, 2, 0]] == digests(keys.sort(), PEPPER)).all()
    assert not (digests(keys, PEPPER) == digests(keys, OTHER)).all(1).any()


def test_digests_collide_as_often_as_random_bytes():
    """The bound N²/2¹²⁹ rests on this. Seen through 2 bytes; pairs that agree are nearly Poisson, 5 standard deviations:
    it fails by chance less than once in 10⁶ runs."""
    keys, peppers = pl.Series(range(1000)), 60
    seen = 0
    for number in range(peppers):
        short = digests(keys, derive(bytes([number]), "test"))[:, 6:8].copy().view(np.uint16)
        seen += sum(int(c) * (int(c) - 1) // 2 for c in np.unique(short, return_counts=True)[1])
    expected = peppers * math.comb(1000, 2) / 2**16
    assert abs(seen - expected) < 5 * math.sqrt(expected)


def test_a_million_keys_collide_less_than_once_in_a_thousand_million_million_million_tries():
    assert math.comb(10**6, 2) / 256**alignment.DIGEST < 1e-24


@pytest.mark.parametrize("pepper", [b"", b"short", bytes(33), "x" * 32, bytearray(32)])
def test_a_pepper_of_another_length_or_type_is_refused(pepper):
    with pytest.raises(InvalidInput, match="32 bytes"):
        digests(pl.Series([1]), pepper)


# ------------------------------------------------------------------------------------------------ the pepper


def rings(session="s1", names=tuple(TABLES)):
    identities = {name: derive(name.encode(), "identity") for name in names}
    pinned = {name: public_key(identity) for name, identity in identities.items()}
    made = {n: Keyring(session, n, identities[n], pinned, derive(n.encode(), "secret")) for n in names}
    for me, mine in made.items():
        for peer in set(names) - {me}:
            mine.meet(peer, *made[peer].hello)
    return made


def met(session="s1"):
    """The pepper that each party arrives at when all shares travel sealed; and the bytes on the way."""
    keyrings = rings(session)
    own = {n: PepperShare.from_secret(pl.Series(TABLES[n]), derive(n.encode(), "stored"), session) for n in TABLES}
    mail = {n: own[n].seal(keyrings[n], {p: 0 for p in TABLES if p != n}) for n in TABLES}
    peppers = {}
    for me in TABLES:
        shares = {n: PepperShare.unseal(keyrings[me], n, 0, *mail[n][me]) for n in TABLES if n != me}
        peppers[me] = agree(shares | {me: own[me]}, session)
    return peppers, own, mail


def test_all_parties_arrive_at_one_pepper_and_the_coordinator_carries_nothing_of_it():
    peppers, own, mail = met()
    assert len(set(peppers.values())) == 1
    carried = b"".join(part for letters in mail.values() for letter in letters.values() for part in letter)
    for secret in (peppers["bank"], *(share.contribution for share in own.values())):
        assert secret not in carried


def test_a_pepper_comes_again_from_stored_secrets_and_another_session_has_another():
    assert met() == met()
    _, own, _ = met()
    assert agree(own, "s1") != agree(own, "s2")
    assert own["lab"] != PepperShare.from_secret(pl.Series(TABLES["lab"]), derive(b"lab", "stored"), "s2")


@pytest.mark.parametrize("party", TABLES)
def test_every_partys_contribution_changes_the_pepper(party):
    _, own, _ = met()
    changed = own | {party: replace(own[party], contribution=bytes(32))}
    assert agree(own, "s1") != agree(changed, "s1")


def test_contributions_belong_to_their_party():
    _, own, _ = met()
    swapped = own | {"bank": own["lab"], "lab": own["bank"]}
    assert agree(own, "s1") != agree(swapped, "s1")


def test_a_share_sealed_for_one_party_opens_for_no_other():
    _, _, mail = met()
    with pytest.raises(ProtocolError, match="does not open"):
        PepperShare.unseal(rings()["lab"], "bank", 0, *mail["bank"]["clinic"])


def test_bytes_that_are_no_share_are_refused():
    keyrings = rings()
    for body in (b"", bytes(32), bytes(32) + b"float", bytes(31) + b"text", bytes(32) + b"\xff"):
        sealed = keyrings["bank"].seal({"lab": 0}, body, "x")["lab"]
        with pytest.raises(WireError, match="32 bytes"):
            PepperShare.unseal(keyrings["lab"], "bank", 0, *sealed)


def test_nobody_agrees_with_himself():
    with pytest.raises(InvalidInput, match="at least 2 parties"):
        agree({"bank": PepperShare("text", bytes(32))}, "s1")


def test_no_secret_is_shown_by_repr():
    sent, kept = agreements(TABLES)
    assert repr(PepperShare("text", PEPPER)) == "PepperShare(kind='text')"
    assert repr(sent["bank"]) == "RowOffer(least=1)"
    assert "rows=4" in repr(kept["bank"])
    for hidden in ("pepper", "bits", "column"):
        assert hidden not in repr(kept["bank"])


# ------------------------------------------------------------------------------------------------ the common rows


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), keys_of_a_table, min_size=2), st.randoms())
def test_every_party_ends_with_the_common_keys_in_one_order_however_its_table_is_sorted(tables, random):
    wanted = set.intersection(*map(set, tables.values()))
    for keys in tables.values():
        random.shuffle(keys)
    if not wanted:
        with pytest.raises(InvalidInput, match="fewer than 1 rows"):
            agreements(tables)
        return
    sent, kept = agreements(tables)
    found = [[tables[p][place] for place in kept[p].places(sent[p])] for p in tables]
    assert wanted == set(found[0])
    assert len(wanted) == len(found[0]) == kept[next(iter(tables))].rows
    assert all(a == b for a, b in pairwise(found))
    confirmed(sent, kept)


def test_the_rows_are_those_that_one_process_would_match():
    frames = {party: pl.DataFrame({"key": keys, party: keys}) for party, keys in TABLES.items()}
    fed = co.Federation.from_frames(frames, on="key", label=("bank", "bank"))
    sent, kept = agreements(TABLES)
    assert sorted(fed.keys) == sorted(TABLES["lab"][i] for i in kept["lab"].places(sent["lab"]))


def test_what_a_party_sends_is_sorted_so_that_it_says_nothing_about_its_table():
    keys = pl.Series(TABLES["lab"])
    assert (offer(keys, PEPPER, least=1).digests == offer(keys.reverse(), PEPPER, least=1).digests).all()


def test_trailing_zeros_do_not_make_digests_equal():
    rows = np.zeros((3, 16), np.uint8)
    rows[1, 15], rows[2, 0] = 1, 1
    common, places = intersect({"a": rows, "b": rows[[0, 2]]})
    assert common.tolist() == rows[[0, 2]].tolist()
    assert places["a"].tolist() == [0, 2]


def test_a_repeated_key_is_refused_before_anything_is_sent():
    with pytest.raises(InvalidInput, match=r"2 rows repeat a key.*Aggregate.*Nothing was sent"):
        offer(pl.Series([1, 2, 1, 1]), PEPPER, least=1)


def test_a_coordinator_refuses_repeated_or_unsorted_digests_and_names_the_party():
    good = offers(TABLES)["lab"].digests
    for bad in (good[[0, 0, 1]], good[::-1]):
        with pytest.raises(ProtocolError, match=r"'bank' sent digests that are not sorted, or repeat.*aggregate"):
            intersect({"bank": bad, "lab": good})


@pytest.mark.parametrize(
    "bad",
    [np.zeros((3, 15), np.uint8), np.zeros((3, 16), np.int8), np.zeros(16, np.uint8), np.zeros((0, 16), np.uint8)],
    ids=["short", "another type", "flat", "none"],
)
def test_a_coordinator_refuses_what_are_no_digests(bad):
    with pytest.raises(ProtocolError, match=r"'bank' sent .* where digests of 16 bytes"):
        intersect({"bank": bad, "lab": offers(TABLES)["lab"].digests})


def test_one_party_alone_has_nothing_in_common():
    with pytest.raises(InvalidInput, match="at least 2 parties"):
        intersect({"bank": offers(TABLES)["bank"].digests})


def test_parties_with_different_peppers_have_nothing_in_common():
    sent = {"bank": offers(TABLES)["bank"].digests, "lab": offers(TABLES, OTHER)["lab"].digests}
    with pytest.raises(InvalidInput, match="the same pepper"):
        intersect(sent)


# ------------------------------------------------------------------------------------------------ people with many rows


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 4), st.sets(st.integers(0, 59), min_size=1))
def test_nobody_has_more_than_the_allowed_rows_whatever_the_other_party_holds(people, rows, others):
    keys = pl.Series(range(len(people)))
    holder = offer(keys, PEPPER, least=1, people=pl.Series(people), rows=rows)
    kept = [people[i] for i in holder.places]
    assert {p: min(rows, people.count(p)) for p in set(people)} == {p: kept.count(p) for p in set(kept)}
    other = offer(pl.Series(sorted(others)), PEPPER, least=1)
    try:
        _, places = intersect({"holder": holder.digests, "other": other.digests})
    except InvalidInput:
        return
    common = [people[holder.places[i]] for i in places["holder"]]
    assert max(map(common.count, common)) <= rows


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.integers(1, 3), st.integers(6, 9))
def test_the_cut_of_one_person_does_not_depend_on_anybody_else(people, rows, stranger):
    """What makes the bound on a person's rows a bound on what one person can change."""
    keys = pl.Series(range(len(people)))
    changed = [stranger if p == people[0] else p for p in people]
    one, two = (offer(keys, PEPPER, least=1, people=pl.Series(p), rows=rows) for p in (people, changed))
    left = [{i for i in o.places.tolist() if people[i] != people[0]} for o in (one, two)]
    assert left[0] == left[1]


def test_people_must_be_known_for_every_row():
    with pytest.raises(InvalidInput, match="1 rows do not say whom they are about"):
        offer(pl.Series([1, 2]), PEPPER, least=1, people=pl.Series(["a", None]))
    with pytest.raises(InvalidInput, match="about, with at most 1 each; there are 2 keys"):
        offer(pl.Series([1, 2]), PEPPER, least=1, people=pl.Series(["a"]))
    with pytest.raises(InvalidInput, match="at least 1 row"):
        offer(pl.Series([1]), PEPPER, least=1, people=pl.Series(["a"]), rows=0)


# ------------------------------------------------------------------------------------------------ policy


def test_a_party_that_keeps_the_number_of_common_rows_to_itself_sends_no_digest():
    with pytest.raises(PolicyRefused, match=r"number of common rows.*Nothing was sent"):
        offer(pl.Series([1]), PEPPER, least=None)


def test_fewer_common_rows_than_a_policy_asks_for_are_told_to_nobody():
    sent = {party: mine.digests for party, mine in offers(TABLES).items()}
    assert len(COMMON) == len(intersect(sent, least=4)[0])
    with pytest.raises(InvalidInput, match=r"fewer than 5 rows.*Nobody was told") as refusal:
        intersect(sent, least=5)
    assert "4" not in str(refusal.value)


def test_a_coordinator_that_answers_with_one_row_is_refused_by_the_party_itself():
    mine = offers(TABLES, least=4)["bank"]
    assert made("bank", mine, marking(mine, COMMON)).rows == 4
    with pytest.raises(PolicyRefused, match=r"fewer than the 4.*may be after one of them"):
        made("bank", mine, marking(mine, {5}))


def test_a_policy_that_asks_for_more_rows_since_then_stops_the_next_run():
    sent, kept = agreements(TABLES)
    with pytest.raises(PolicyRefused, match="fewer than the 5"):
        kept["bank"].places(replace(sent["bank"], least=5))


def test_a_minimum_of_no_rows_is_no_minimum():
    with pytest.raises(InvalidInput, match="at least 1 common row"):
        offer(pl.Series([1]), PEPPER, least=0)


# ------------------------------------------------------------------------------------------------ a hostile coordinator


def test_rows_that_another_party_does_not_have_are_noticed_by_both():
    sent, kept = agreements(TABLES)
    kept["bank"] = made("bank", sent["bank"], marking(sent["bank"], COMMON | {20}))
    said = {party: kept[party].confirmation(sent[party], "run") for party in kept}
    for me, wrong in (("bank", "'clinic', 'lab'"), ("lab", "'bank'")):
        with pytest.raises(ProtocolError, match=f"^{wrong} did not confirm the rows"):
            kept[me].check(sent[me], "run", {p: said[p] for p in said if p != me})


@given(
    st.sets(st.sampled_from(sorted(TABLES["bank"])), min_size=1), st.sets(st.sampled_from(TABLES["lab"]), min_size=1)
)
def test_two_parties_confirm_each_other_if_and_only_if_they_have_the_same_rows(bank, lab):
    sent = offers({p: TABLES[p] for p in ("bank", "lab")})
    marks = {"bank": bank, "lab": lab}
    kept = {p: made(p, sent[p], marking(sent[p], marks[p]), marks) for p in marks}
    if bank == lab:
        confirmed(sent, kept)
    else:
        with pytest.raises(ProtocolError, match="did not confirm"):
            confirmed(sent, kept)


def test_one_partys_confirmation_cannot_be_passed_off_as_anothers():
    """Or a coordinator would give back to each party what it said itself."""
    sent, kept = agreements(TABLES)
    mine = kept["bank"].confirmation(sent["bank"], "run")
    with pytest.raises(ProtocolError, match="'clinic', 'lab' did not confirm"):
        kept["bank"].check(sent["bank"], "run", {"clinic": mine, "lab": mine})


def test_a_confirmation_of_another_run_is_refused():
    sent, kept = agreements(TABLES)
    old = {party: kept[party].confirmation(sent[party], "old") for party in ("clinic", "lab")}
    with pytest.raises(ProtocolError, match="did not confirm"):
        kept["bank"].check(sent["bank"], "new", old)


def test_a_party_that_is_missing_or_new_stops_the_run():
    sent, kept = agreements(TABLES)
    said = {party: kept[party].confirmation(sent[party], "run") for party in ("clinic", "lab")}
    for given_ in ({"lab": said["lab"]}, {}, said | {"stranger": said["lab"]}):
        with pytest.raises(ProtocolError, match=r"agreed on with clinic, lab.*Begin another alignment"):
            kept["bank"].check(sent["bank"], "run", given_)


@pytest.mark.parametrize("change", [lambda b: b"", lambda b: b + b"\0", lambda b: b"\xff" * len(b)])
def test_an_answer_of_another_length_or_beyond_the_table_is_refused(change):
    mine = offers(TABLES)["bank"]
    with pytest.raises(ProtocolError, match="the answer"):
        made("bank", mine, change(marking(mine, COMMON)))


@pytest.mark.parametrize("place", range(8))
def test_every_bit_of_an_answer_is_a_row_that_was_sent_or_refused(place):
    bits = bytes([0x80 >> place])
    if place < 3:
        assert alignment._unpack(bits, 3).tolist() == [place == row for row in range(3)]
    else:
        with pytest.raises(ProtocolError, match="beyond the 3 that were sent"):
            alignment._unpack(bits, 3)


def test_the_order_digest_tells_rows_order_number_pepper_and_run_apart():
    rows = offers(TABLES)["lab"].digests
    variants = [
        order_digest(rows, PEPPER, "run"),
        order_digest(rows[::-1], PEPPER, "run"),
        order_digest(rows[:-1], PEPPER, "run"),
        order_digest(rows, OTHER, "run"),
        order_digest(rows, PEPPER, "run2"),
    ]
    assert len(set(variants)) == len(variants)
    assert variants[0] == order_digest(rows.copy(), PEPPER, "run")


# ------------------------------------------------------------------------------------------------ what a dictionary finds


def test_with_the_pepper_digests_are_keys_to_whoever_can_guess_them_and_without_it_they_are_not():
    """The reason why a coordinator must not share anything with a party; docs/understand/alignment.md says so."""
    seen = {row.tobytes() for row in offers(TABLES)["lab"].digests}
    guesses = pl.Series(range(-100, 100))
    found = {
        p: {g for g, d in zip(guesses, digests(guesses, p), strict=True) if d.tobytes() in seen}
        for p in (PEPPER, OTHER)
    }
    assert found == {PEPPER: set(TABLES["lab"]), OTHER: set()}


# ------------------------------------------------------------------------------------------------ the stored record


def test_an_agreement_is_the_same_after_it_was_stored():
    _, kept = agreements(TABLES)
    assert kept["bank"] == Agreement.from_json(kept["bank"].to_json())


def test_a_table_that_was_sorted_anew_is_still_the_one_agreed_on():
    sent, kept = agreements(TABLES)
    keys = pl.Series(TABLES["bank"])
    anew = offer(keys.sort(), PEPPER, least=1)
    then, now = keys.gather(kept["bank"].places(sent["bank"])), keys.sort().gather(kept["bank"].places(anew))
    assert then.to_list() == now.to_list()


@pytest.mark.parametrize("keys", [[5, 3, 9, 1, 7], [5, 3, 9, 1, 7, 21], [5, 3, 9, 1, 7, 20, 21]])
def test_other_keys_than_those_agreed_on_are_noticed_before_anything_is_sent(keys):
    _, kept = agreements(TABLES)
    changed = offer(pl.Series(keys), PEPPER, least=1)
    for use in (lambda a: a.places(changed), lambda a: a.confirmation(changed, "run"), lambda a: a.check(changed, "run", dict.fromkeys(("clinic", "lab"), b""))):  # fmt: skip
        with pytest.raises(InvalidInput, match=r"not those that were agreed on.*Nothing was sent.*another alignment"):
            use(kept["bank"])


def test_a_record_of_another_version_or_a_damaged_one_is_refused():
    text = agreements(TABLES)[1]["bank"].to_json()
    raw = json.loads(text)
    with pytest.raises(InvalidInput, match="another version"):
        Agreement.from_json(json.dumps(raw | {"version": 2}))
    damaged = (
        {"bits": "AA=="},
        {"bits": "?"},
        {"pepper": "00"},
        {"party": "nobody"},
        {"more": 1},
        {"rows": 3},
        {"column": 1},
    )
    for change in damaged:
        with pytest.raises(InvalidInput):
            Agreement.from_json(json.dumps(raw | change))
    with pytest.raises(
        InvalidInput, match=r"agreement: rows must be a whole number from 0 on; got 'many'\. Align again"
    ):
        Agreement.from_json(json.dumps(raw | {"rows": "many"}))
    for text in ("", "[]", "{}", "null", "[" * 100_000):
        with pytest.raises(InvalidInput, match="not a stored agreement"):
            Agreement.from_json(text)


@pytest.mark.parametrize("name", ["pepper", "column", "bits"])
def test_what_is_secret_of_a_record_is_not_shown_where_it_is_damaged(name):
    raw = json.loads(agreements(TABLES)[1]["bank"].to_json())
    for damaged in (raw[name][:-1] + "?", [raw[name]], {"a": raw[name]}):
        with pytest.raises(InvalidInput, match=f"agreement: {name} must be ") as refused:
            Agreement.from_json(json.dumps(raw | {name: damaged}))
        assert raw[name][:8] not in str(refused.value)


def test_a_party_agrees_under_its_own_name_only():
    mine = offers(TABLES)["bank"]
    for parties in (("clinic", "lab"), ("bank", "bank", "lab")):
        with pytest.raises(InvalidInput, match="not once among"):
            made("bank", mine, marking(mine, COMMON), parties)


# ------------------------------------------------------------------------------------------------ private set intersection


def test_a_chain_of_private_intersections_ends_where_digests_do():
    """The label holder narrows its rows party by party, then tells all of them, sealed, which are left."""
    sent, by_digests = agreements(TABLES)
    words = psi_words(pl.Series(TABLES["bank"]), sent["bank"])
    left = np.arange(len(words))
    for party in ("clinic", "lab"):
        theirs = psi_words(pl.Series(TABLES[party]), sent[party])
        left = left[intersect_privately([words[i] for i in left], theirs)[0]]
    common = sent["bank"].digests[left]
    places = {p: left if p == "bank" else locate(sent[p], common) for p in TABLES}
    kept = {p: made(p, sent[p], bitmap(places[p], len(sent[p].digests))) for p in TABLES}
    assert by_digests == kept
    confirmed(sent, kept)


def test_a_label_holder_that_names_foreign_rows_is_refused():
    mine = offers(TABLES)["lab"]
    foreign = np.concatenate([mine.digests[:2], np.full((1, 16), 255, np.uint8)])
    with pytest.raises(ProtocolError, match="1 of 3 rows that are said to be common are not in this table"):
        locate(mine, foreign)


# ------------------------------------------------------------------------------------------------ all steps in turn


def test_three_parties_end_with_the_same_rows_in_the_same_order():
    tables = {"bank": [11, 12, 13, 14], "clinic": [14, 12, 99, 11], "lab": [12, 50, 14]}
    keys = {party: pl.Series(table) for party, table in tables.items()}
    shares = {p: PepperShare.from_secret(keys[p], os.urandom(32), "2024-05") for p in keys}
    pepper = agree(shares, "2024-05")
    offers = {p: offer(keys[p], pepper, least=2) for p in keys}
    _, places = intersect({p: mine.digests for p, mine in offers.items()}, least=2)
    answers = {p: bitmap(places[p], len(mine.digests)) for p, mine in offers.items()}
    kept = {
        p: Agreement.from_answer(offers[p], answers[p], pepper, session="2024-05", party=p, parties=list(keys))
        for p in keys
    }
    said = {p: kept[p].confirmation(offers[p], "run 1") for p in keys}
    for p in keys:
        kept[p].check(offers[p], "run 1", {other: said[other] for other in keys if other != p})
    rows = {p: keys[p].gather(kept[p].places(offers[p])).to_list() for p in keys}
    assert rows["bank"] == rows["clinic"] == rows["lab"]
    assert sorted(rows["bank"]) == [12, 14]
