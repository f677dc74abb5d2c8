"""Claims about private set intersection between organisations: the rows that digests find, and nothing of them at the hub.

Offices in this process and a hub of straw where anything may be asked or lost; processes and a network for the whole of it.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data import psi, row_order
from colonnade.data.alignment import Agreement
from colonnade.data.federation_file import FederationFile
from colonnade.data.row_order import canonical
from colonnade.errors import InvalidInput, PeerFailed, ProtocolError
from colonnade.network import certs
from colonnade.network.alignment import DECOYS, forget
from colonnade.network.party_data import PartyData
from colonnade.network.party_service import OK
from colonnade.network.questions import unpack
from colonnade.runtime.host import Computed
from tests.helpers.matching import COMMON, MOST, ROWS, Watched, _logged, asked, check_rows, key, keyed, last_seen, until  # noqa: F401
from tests.helpers.organisations import Organisations
from tests.helpers.parties_at_work import damaged
from tests.helpers.stub_hub import (
    BREAKS,
    REFUSES,
    STOPS,  # noqa: F401
    Straw,  # noqa: F401
    heard,  # noqa: F401
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PROBLEM = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
METHOD = co.SharingADMM(rounds=20)


# ------------------------------------------------------------------------------------------------ the same rows


@pytest.mark.parametrize("align", ["digests", "psi"])
def test_both_ways_find_the_common_rows_in_one_order(align, tmp_path):  # noqa: F811
    with Watched(keyed(tmp_path, align)) as straw:
        assert len(COMMON) == straw.meet(straw.made.federation).rows
        check_rows(straw.made)


def test_two_parties_need_no_chain(tmp_path):  # noqa: F811
    pair = {name: ROWS[name] for name in ("bank", "lab")}
    with Watched(keyed(tmp_path, rows=pair)) as straw:
        straw.meet(straw.made.federation)
        check_rows(straw.made, set(range(1, 9)))


def test_an_agreement_is_kept_and_not_made_again(tmp_path):  # noqa: F811
    with Watched(keyed(tmp_path)) as straw:
        straw.meet(straw.made.federation)
        session = straw.session
        straw.seen.clear()
        straw.meet(straw.made.federation)
        assert {what for _, what, _, _ in straw.seen} == {"hello"}
        assert session == straw.session


# ------------------------------------------------------------------------------------------------ what the hub sees


def sizes(folder: Path, rows) -> Counter:
    with Watched(keyed(folder, rows=rows)) as straw:
        straw.meet(straw.made.federation)
        return Counter((party, what, tuple(map(len, said))) for party, what, _, said in straw.seen if what != "tell")


def test_what_the_hub_carries_has_the_same_size_whatever_the_tables_hold(tmp_path):  # noqa: F811
    """Other lengths of tables, other overlaps between two of the three; the rows common to all are as many."""
    others = {"clinic": range(7), "bank": (*range(7), 20, 21, 22, 23), "lab": (*range(7), 20, 21, 22, 23, 30, 31)}
    assert sizes(tmp_path / "one", ROWS) == sizes(tmp_path / "two", others)


def secrets_of(made: Organisations) -> set[bytes]:
    """Keys as texts and as they are hashed, and their digests under the pepper."""
    found = set()
    for name, table in made.tables.items():
        agreement = Agreement.from_json((made.folder / name / "alignment.json").read_text())
        found |= {text.encode() for text in table["key"]} | set(canonical(table["key"]))
        found |= {row.tobytes() for row in row_order.digests(table["key"], agreement.pepper)}
        found |= {agreement.pepper, agreement.pepper.hex().encode()}
    return found


def test_the_hub_sees_no_key_and_no_digest(tmp_path):  # noqa: F811
    with Watched(keyed(tmp_path)) as straw:
        straw.meet(straw.made.federation)
        passed = b"".join(b"".join((*asked_, *said)) for _, _, asked_, said in straw.seen)
        assert not [secret for secret in secrets_of(straw.made) if secret in passed]
    with Watched(keyed(tmp_path / "digests", "digests")) as straw:  # where it does see them, the search finds them
        straw.meet(straw.made.federation)
        passed = b"".join(b"".join((*asked_, *said)) for _, _, asked_, said in straw.seen)
        assert sum(secret in passed for secret in secrets_of(straw.made) if len(secret) == 16) == 16


def test_no_message_is_the_same_in_another_session(tmp_path):  # noqa: F811
    made = keyed(tmp_path)
    said: list[set[bytes]] = []
    for _ in range(2):
        with Watched(made) as straw:
            straw.meet(made.federation)
            said.append({blob for _, what, _, blobs in straw.seen if what != "hello" for blob in blobs})
        for name in made.names:
            assert forget(made.folder / name)
    assert not said[0] & said[1]


# ------------------------------------------------------------------------------------------------ somebody dies


@pytest.mark.parametrize("way", ["before", "after"])
def test_a_party_that_dies_at_any_question_changes_nothing(way, tmp_path):  # noqa: F811
    """Every third question is lost; whatever is said twice is the same bytes."""
    with Watched(keyed(tmp_path), lose=dict.fromkeys(range(4, 40, 3), way)) as straw:
        assert len(COMMON) == straw.meet(straw.made.federation).rows
        check_rows(straw.made)
        assert straw.asked > 30
        aligning = {at: said for at, said in straw.forms.items() if at[1] != "hello"}
        assert {len(said) for said in aligning.values()} == {1}


def test_a_hub_that_dies_at_any_question_is_followed_by_one_that_goes_on(tmp_path):  # noqa: F811
    """Its successor takes up what was begun, and hears the same bytes; nobody has to be asked for permission."""
    made, forms = keyed(tmp_path), {}
    begun: set[str] = set()
    for stop in (*range(4, 22), 0):
        with Watched(made, stop=stop) as straw:
            with pytest.raises(SystemExit) if stop else contextlib.nullcontext():
                straw.meet(made.federation)
            for at, said in straw.forms.items():
                if at[1] != "hello" and at[2] is not None:
                    forms.setdefault(at, set()).update(said)
            begun |= {s for service in straw.services.values() if (s := service.aligning.standing().get("begun"))}
    check_rows(made)
    assert len(begun) == 1
    assert {straw.session} == begun
    assert {len(said) for said in forms.values()} == {1}


def test_rows_are_agreed_on_anew_when_all_operators_say_so(tmp_path):  # noqa: F811
    made = keyed(tmp_path)
    with Watched(made) as straw:
        straw.meet(made.federation)
        first = straw.session
    made.tables["lab"] = made.tables["lab"].slice(1)  # row 1, which the clinic does not have
    made.tables["clinic"] = made.tables["clinic"].slice(1)  # row 2, which all had
    assert [forget(made.folder / name) for name in made.names] == [True] * 3
    assert not forget(made.folder / "bank")
    with Watched(made) as straw:
        straw.meet(made.federation)
        assert straw.session != first
    check_rows(made, COMMON - {2})


def test_one_operator_alone_cannot_have_the_rows_agreed_on_anew(tmp_path):  # noqa: F811
    made = keyed(tmp_path)
    with Watched(made) as straw:
        straw.meet(made.federation)
        forget(made.folder / "bank")
        session = straw.session
        straw.meet(made.federation)
        assert session == straw.session
    check_rows(made)


# ------------------------------------------------------------------------------------------------ a hub that asks otherwise


def test_a_private_intersection_that_was_begun_is_the_only_one(tmp_path):  # noqa: F811
    """Or a label holder and a hub together would ask about other keys in every session."""
    straw = until(keyed(tmp_path), "tell")
    with straw:
        for name in straw.made.names:
            assert asked(straw, name, "greet", (), session="another").head == {"code": REFUSES}
        blobs = last_seen(straw, "clinic", "blind")
        assert asked(straw, "clinic", "blind", blobs, session="another").head == {"code": REFUSES}
        assert asked(straw, "clinic", "blind", blobs).head["code"] == OK


def test_parties_that_began_different_sessions_must_say_so_to_their_operators(tmp_path):  # noqa: F811
    with until(keyed(tmp_path), "narrow") as straw:
        straw.stop = 0
        (tmp_path / "lab" / "alignment.begun").write_text("another")
        with pytest.raises(ProtocolError, match="party realign"):
            straw.meet(straw.made.federation)


def test_no_digests_leave_where_the_file_says_psi_nor_the_other_way_round(tmp_path):  # noqa: F811
    with until(keyed(tmp_path / "psi"), "narrow") as straw:
        given = last_seen(straw, "bank", "seek")
        assert asked(straw, "bank", "offer", given).head == {"code": BREAKS}
    with Watched(keyed(tmp_path / "digests", "digests")) as straw:
        straw.meet(straw.made.federation)
        given = last_seen(straw, "lab", "offer")
        for what, more in (("show", ()), ("blind", (b"", b"")), ("seek", ()), ("tell", ())):
            assert asked(straw, "lab", what, [*given, *more], peer="clinic").head == {"code": BREAKS}


def test_every_party_has_its_own_part_and_no_other(tmp_path):  # noqa: F811
    with until(keyed(tmp_path), "tell") as straw:
        bank, lab = last_seen(straw, "bank", "seek"), last_seen(straw, "lab", "show")
        for what, more in (("show", ()), ("blind", (b"", b""))):
            assert asked(straw, "bank", what, [*bank, *more]).head == {"code": BREAKS}
        for what, more in (("seek", ()), ("tell", ()), ("keep", (b"", b"")), ("narrow", ())):
            assert asked(straw, "lab", what, [*lab, *more], peer="clinic", part="setup").head == {"code": BREAKS}


def test_parties_are_asked_in_the_order_of_the_file_and_all_of_them(tmp_path):  # noqa: F811
    """With one left out, the rows would be common to fewer than all."""
    with until(keyed(tmp_path), "narrow") as straw:
        given = last_seen(straw, "bank", "seek")
        for what, peer in (("seek", "lab"), ("seek", "bank"), ("seek", "nobody"), ("tell", ""), ("agreed", "")):
            assert asked(straw, "bank", what, given, peer=peer).head == {"code": BREAKS}
        assert straw.services["bank"].agreement() is None


def test_messages_that_were_changed_swapped_or_left_out_are_refused(tmp_path):  # noqa: F811
    made = keyed(tmp_path)
    with Watched(made) as old:
        old.meet(made.federation)
        stale = last_seen(old, "bank", "keep")[-2:]
    for name in made.names:
        forget(tmp_path / name)
    with until(made, "tell") as straw:
        parts = [asked_[-2:] for who, what, asked_, _ in straw.seen if (who, what) == ("bank", "keep")]
        (a, b), (c, d) = parts[-2:]  # what the lab showed, and what it answered
        given = last_seen(straw, "bank", "seek")
        wrong = [
            (c, d),
            (a, d),
            (b, a),
            (a, b[:-1]),
            (a, b + b"x"),
            stale,
            (a,),
            (),
            (b"", b""),
            (a, bytes([b[0] ^ 1]) + b[1:]),
        ]
        for sealed in wrong:
            found = asked(straw, "bank", "keep", [*given, *sealed], peer="lab", part="setup")
            assert found.head == {"code": BREAKS}
        for more in (
            {"peer": "clinic"},
            {"part": "response"},
            {"part": "all"},
            {"block": 1},
            {"block": -1},
            {"block": "0"},
        ):
            found = asked(straw, "bank", "keep", [*given, a, b], **{"peer": "lab", "part": "setup", **more})
            assert found.head["code"] != OK
        assert asked(straw, "bank", "keep", [*given, a, b], peer="lab", part="setup").head == {"code": OK}
        request = last_seen(straw, "lab", "blind")
        for sealed in (request[:-1], (*request[:-1], b""), (*request[:-2], request[-1], request[-2])):
            assert asked(straw, "lab", "blind", sealed).head == {"code": BREAKS}
        assert asked(straw, "clinic", "blind", request).head == {"code": BREAKS}


def test_no_rows_are_narrowed_before_all_blocks_came(tmp_path):  # noqa: F811
    with until(keyed(tmp_path), "keep") as straw:
        given = last_seen(straw, "bank", "seek")
        assert asked(straw, "bank", "narrow", given, peer="clinic").head == {"code": BREAKS}


def test_tables_of_many_blocks_are_compared_block_by_block_and_leave_none_behind(tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(psi, "BLOCK", 5)
    with Watched(keyed(tmp_path), lose=dict.fromkeys(range(4, 90, 7), "after")) as straw:
        straw.meet(straw.made.federation)
        check_rows(straw.made)
        blocks = Counter((party, what) for party, what, _, _ in straw.seen)
        assert blocks["lab", "show"] >= psi.blocks(MOST) == 3
        assert blocks["lab", "blind"] >= psi.blocks(MOST + DECOYS) == 29
        assert not list(tmp_path.glob("*/alignment.blocks"))
        assert {len(said) for at, said in straw.forms.items() if at[1] != "hello"} == {1}


def test_a_block_that_was_blinded_is_not_blinded_again_after_a_crash(tmp_path, monkeypatch):  # noqa: F811
    made, worked = keyed(tmp_path), []
    monkeypatch.setattr(psi, "BLOCK", 5)
    with until(made, "narrow"):
        pass
    times = psi._times
    monkeypatch.setattr(
        psi, "_times", lambda key, points: worked.append(len(points) // psi.POINT) or times(key, points)
    )
    with until(made, "narrow"):
        assert worked == []


def test_a_table_that_changed_in_the_middle_stops_the_session(tmp_path):  # noqa: F811
    """Other keys under the same seal would be two messages encrypted with one key."""
    made = keyed(tmp_path)
    with until(made, "tell") as straw:
        for name, what in (("lab", "show"), ("bank", "seek")):
            made.tables[name] = made.tables[name].slice(1)
            straw.die(name)
            found = asked(straw, name, what, last_seen(straw, name, what), peer="clinic")
            assert found.head == {"code": BREAKS}


@pytest.mark.parametrize("align", ["digests", "psi"])
def test_answers_about_one_table_are_not_told_or_kept_as_those_of_another(align, tmp_path):  # noqa: F811
    """A party that comes back with other keys, as many, just before the end: the bits it has would stand for rows that
    others do not have, and the label holder tell all parties the digests of keys that only it holds."""
    made = keyed(tmp_path, align)
    with Watched(made, stop="tell" if align == "psi" else "agreed") as straw:
        with pytest.raises(SystemExit):
            straw.meet(made.federation)
        session, given = session_of(straw), last_seen(straw, "bank", "seek" if align == "psi" else "offer")
        others = [key(row) for row in (*range(3), *range(70, 79))]
        made.tables["bank"] = made.tables["bank"].with_columns(pl.Series("key", others))
        straw.die("bank")
        bits = [] if align == "psi" else [b"\xff\x00"]
        if align == "psi":
            assert asked(straw, "bank", "tell", given, session=session).head == {"code": BREAKS}
        assert asked(straw, "bank", "agreed", [*given, *bits], session=session).head == {"code": BREAKS}
        assert straw.services["bank"].agreement() is None


def session_of(straw: Watched) -> str:
    (run,) = {row.run for row in straw.services["bank"].aligning.records.rows(kind="session")}
    return run.removeprefix("align/")


def test_a_bound_that_changed_in_the_middle_stops_the_session(tmp_path):  # noqa: F811
    """Blocks that were made under the old one do not fit with those of the new one."""
    made = keyed(tmp_path)
    with until(made, "tell") as straw:
        made.file = replace(made.file, members={n: replace(m, most=MOST + 1) for n, m in made.file.members.items()})
        for name, what in (("lab", "show"), ("bank", "seek")):
            straw.die(name)
            found = asked(straw, name, what, last_seen(straw, name, what), peer="clinic")
            assert found.head == {"code": BREAKS}


def test_blocks_are_gone_when_rows_are_agreed_on_whoever_dies_or_asks_again(tmp_path):  # noqa: F811
    made = keyed(tmp_path)
    with Watched(made) as straw:
        straw.meet(made.federation)
        said = {name: last_seen(straw, name, what) for name, what in (("lab", "show"), ("bank", "seek"))}
        first = {(party, what): answer for party, what, _, answer in straw.seen if what in ("show", "seek")}
        for name, what in (("lab", "show"), ("bank", "seek")):
            found = asked(straw, name, what, said[name], peer="lab")
            assert found.blobs == first[name, what]  # the same bytes, made anew
        assert not list(tmp_path.glob("*/alignment.blocks"))
        (tmp_path / "lab" / "alignment.blocks").mkdir()
        (tmp_path / "lab" / "alignment.blocks" / ".half").write_bytes(b"of a block")
        straw.die("lab")  # it was killed between the agreement and the end of its blocks
        assert not list(tmp_path.glob("*/alignment.blocks"))


def test_nothing_of_an_agreement_is_left_when_an_operator_lets_it_go(tmp_path):  # noqa: F811
    """Not even half of the file, of a process that was killed while it wrote: the pepper may be in that half."""
    with Watched(keyed(tmp_path)) as straw:
        straw.meet(straw.made.federation)
    whole = tmp_path / "lab" / "alignment.json"
    whole.with_name(".alignment.json.4711.0123abcd").write_bytes(whole.read_bytes()[:200])
    assert forget(tmp_path / "lab")
    assert not [path for path in (tmp_path / "lab").iterdir() if "alignment" in path.name]


def test_fewer_common_rows_than_a_party_takes_part_with_are_told_to_nobody(tmp_path):  # noqa: F811
    """One party's minimum is enough, and the label holder's own is lower: a hub cannot ask it to skip the others."""
    made = keyed(tmp_path)
    lab = replace(made.file.members["lab"], policy=co.Policy(exact=True, least=len(COMMON) + 1))
    made.file = replace(made.file, members={**made.file.members, "lab": lab})
    with Watched(made) as straw:
        with pytest.raises(PeerFailed, match="'bank' refused 'tell'"):
            straw.meet(straw.made.federation)
        assert {"tell", "agreed"}.isdisjoint(what for _, what, _, _ in straw.seen)
        session = straw.services["bank"].aligning.standing()["begun"]
        found = asked(straw, "bank", "agreed", last_seen(straw, "bank", "seek"), session=session)
        assert found.head == {"code": REFUSES}
        assert [service.agreement() for service in straw.services.values()] == [None] * 3


def test_a_label_holder_that_tells_fewer_rows_is_refused_by_the_party_itself(tmp_path):  # noqa: F811
    with until(keyed(tmp_path, least=len(COMMON)), "tell") as straw:
        bank, given = straw.services["bank"].aligning, last_seen(straw, "lab", "blind")[:-2]
        true, members = bank._left, straw.made.file.members
        lax = {name: replace(member, policy=replace(member.policy, least=1)) for name, member in members.items()}
        bank.file = replace(straw.made.file, members=lax)
        bank._left = lambda *asked_: true(*asked_) & (np.arange(asked_[1]) > 6)
        told = asked(straw, "bank", "tell", last_seen(straw, "bank", "seek"))
        assert told.head == {"code": OK}
        assert asked(straw, "lab", "agreed", [*given, *told.blobs[1:]]).head == {"code": REFUSES}
        assert straw.services["lab"].agreement() is None


def test_damaged_questions_get_a_code_and_change_no_agreement(tmp_path):  # noqa: F811
    with Watched(keyed(tmp_path)) as straw:
        heard: dict[str, list[bytes]] = {"bank": [], "lab": []}
        true = {name: straw.services[name].answer for name in heard}
        for name in heard:
            straw.services[name].answer = lambda raw, name=name: heard[name].append(raw) or true[name](raw)
        straw.meet(straw.made.federation)
        draw, kept = random.Random(5), {name: straw.services[name].agreement() for name in heard}
        for name, raws in heard.items():
            for _ in range(150):
                found = unpack(true[name](damaged(draw.choice(raws), draw, raws)))
                assert found.head["code"] in (0, 1, 2, 3, 4, 16, 17, 18)
        assert kept == {name: straw.services[name].agreement() for name in heard}


# ------------------------------------------------------------------------------------------------ before anything is sent


def test_a_table_with_more_rows_than_it_may_bring_stays_at_home(tmp_path):  # noqa: F811
    made = keyed(tmp_path)
    long = pl.concat([made.tables["lab"]] * 2)
    with pytest.raises(InvalidInput, match=r"20 rows, and by the federation file it may align 14 at most"):
        PartyData(made.file, "lab", long)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: replace(c, align="magic"), "align must be 'digests' or 'psi'; got 'magic'"),
        (lambda c: replace(c, align="digests"), 'most = ..., which is for align = "psi"'),
        (lambda c: replace(c, members={n: replace(m, most=None) for n, m in c.members.items()}), "needs most = ..."),
        (lambda c: replace(c, members={"bank": c.members["bank"]}), "two or more parties"),
        (lambda c: replace(c, on=None, rows=10), "encodes a table with a key, and there is no on = "),
        (
            lambda c: replace(c.members["bank"], most=0),
            "most must be a number of keys, at least 1 and at most 100,000,000, as in most = 25000; got 0",
        ),
        (lambda c: replace(c.members["bank"], most=True), "got True"),
        (lambda c: replace(c.members["bank"], most=10**8 + 1), "got 100000001"),
    ],
)
def test_a_mistake_in_the_federation_file_is_named(change, says, tmp_path):  # noqa: F811
    with pytest.raises(InvalidInput, match=says):
        change(keyed(tmp_path).file)


def test_the_way_and_the_bounds_are_in_the_file_that_all_parties_approve(tmp_path):  # noqa: F811
    tmp_path.joinpath("file").mkdir()
    file, by_digests = keyed(tmp_path).file, keyed(tmp_path, "digests").file
    file.save(tmp_path / "file" / "federation.toml")
    read = FederationFile.load(tmp_path / "file" / "federation.toml")
    assert (file, file.digest) == (read, read.digest)
    larger = {n: replace(m, most=15) for n, m in file.members.items()}
    same_keys = {n: replace(m, most=None) for n, m in file.members.items()}
    digests = {c.digest for c in (file, replace(file, members=larger), replace(by_digests, members=same_keys))}
    assert len(digests) == 3


# ------------------------------------------------------------------------------------------------ processes and a network


def run(made: Organisations, kill: tuple[tuple[str, str], ...] = ()) -> tuple[co.Fit, bytes]:
    """A fit between processes; before a party's first question of a kind it is killed. All bytes the hub saw."""
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")
    authority, to_kill, passed = made.folder / "certs", list(kill), []
    certs.init(authority)
    certs.issue(authority, "coordinator", hosts=["localhost"])
    for name in made.names:
        certs.issue(authority, name)
    with made.hub() as hub, made.at_work(hub.port):
        ask = hub.ask

        def watched(party, what, head=None, blobs=(), *_):
            if (party, what) in to_kill:
                to_kill.remove((party, what))
                made.kill(party)
                made.start(party, hub.port)
            passed.extend(blobs)
            return Computed(ask(party, what, head, blobs), overheard)

        def overheard(answer):
            found = answer.result()
            passed.extend(found.blobs)
            return found

        hub.ask = watched
        fit = co.fit(made.federation, PROBLEM, METHOD, engine=hub, store=made.folder / "hub")
    assert not to_kill
    return fit, b"".join(passed)


def test_processes_that_align_by_private_intersection_find_the_model_that_digests_find(tmp_path, caplog):  # noqa: F811
    """Two of them are killed on the way. Rows stand in the order of digests under another pepper, so sums are rounded
    otherwise: 1e-9 is far above that, and far below what one row changes."""
    caplog.set_level(logging.DEBUG)
    one, two = keyed(tmp_path / "psi"), keyed(tmp_path / "digests", "digests")
    by_psi, passed = run(one, kill=(("bank", "narrow"), ("lab", "blind")))
    check_rows(one)
    said = "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records).encode()
    stored = b"".join(path.read_bytes() for path in sorted((one.folder / "hub").rglob("*")) if path.is_file())
    assert len(stored) > 1000
    for secret in secrets_of(one):
        assert secret not in passed
        assert secret not in stored
        assert secret not in said
        assert secret.hex().encode() not in said
    by_digests, _ = run(two)
    for name in one.names:
        found, expected = (made.part(name, fit.run)["coefficients"] for made, fit in ((one, by_psi), (two, by_digests)))
        assert np.abs(expected).max() > 0.01
        assert np.abs(np.subtract(found, expected)).max() < 1e-9
