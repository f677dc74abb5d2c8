"""Claims about parties and hubs that work together against a private set intersection, or against its sessions.

Whoever cheats here has what a cheater has: its own keys, the session's pepper, and a hub that asks what it likes.
"""

from __future__ import annotations

import polars as pl
import pytest

from colonnade.data import psi, row_order
from colonnade.data.alignment import PepperShare
from colonnade.data.row_order import canonical
from colonnade.network.alignment import COMMON, DECOYS, PEPPER, REQUEST, RESPONSE, SETUP, forget
from colonnade.network.party_service import OK
from colonnade.network.questions import Aligning, OfBlock, OfPeer, Question, Said
from colonnade.privacy.keyring import derive
from tests.helpers.matching import COMMON as SHARED
from tests.helpers.matching import (
    MOST,
    Watched,
    _logged,  # noqa: F401
    asked,
    check_rows,
    key,
    keyed,
    last_seen,
    until,
)
from tests.helpers.stub_hub import (
    BREAKS,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def words(*rows: int) -> list[bytes]:
    return canonical(pl.Series([key(row) for row in rows]))


def keys_of(straw: Watched, name: str, given) -> tuple:
    """A party's keys of the session and the pepper: what it needs to seal whatever it likes."""
    others = [peer for peer in straw.made.names if peer != name]
    asked_ = Aligning(what="offer", session=straw.session, peers=tuple(others), blobs=tuple(given))
    _, keyring, pepper, _ = straw.services[name].aligning._open_session(asked_, 0)
    return keyring, pepper


# ------------------------------------------------------------------------------------------------ questions as oracles


@pytest.mark.parametrize("missing", [8, 41], ids=["a key of the bank", "no key of the bank"])
def test_another_answer_of_a_party_is_refused_whatever_it_would_find(missing, tmp_path):  # noqa: F811
    """Or a party and a hub would ask the label holder, one table after the other, which keys it holds."""
    with until(keyed(tmp_path), "tell") as straw:
        lab, given = straw.services["lab"].aligning, last_seen(straw, "bank", "seek")
        keyring, pepper = keys_of(straw, "lab", last_seen(straw, "lab", "show"))
        held = [row for row in (*range(1, 9), 40, 41) if row != missing]
        key = lab._psi_key(straw.session, "bank")
        setup = psi.blind(psi.psi_fill(words(*held), MOST, key), key, derive(pepper, "align", "curve"))
        sealed = keyring.seal({"bank": SETUP}, setup, "another")["bank"]
        (true,) = [asked_[-2:] for at, asked_ in kept(straw) if at == ("lab", "setup")]
        found = asked(straw, "bank", "keep", [*given, *sealed], peer="lab", part="setup")
        assert found.head == {"code": BREAKS}
        assert asked(straw, "bank", "keep", [*given, *true], peer="lab", part="setup").head == {"code": OK}
        assert asked(straw, "bank", "narrow", given, peer="lab").head == {"code": OK}


def kept(straw: Watched) -> list[tuple[tuple[str, str], tuple[bytes, ...]]]:
    """Whose blocks the label holder was given, and of which part."""
    parts = [(asked_, at) for at, (who, what, asked_, _) in enumerate(straw.seen) if (who, what) == ("bank", "keep")]
    names = [(peer, part) for peer in ("clinic", "lab") for part in ("setup", "response")]
    return [(name, asked_) for name, (asked_, _) in zip(names, parts, strict=True)]


def test_an_answer_that_was_refused_cannot_be_mended(tmp_path):  # noqa: F811
    with until(keyed(tmp_path), "keep") as straw:
        keyring, _ = keys_of(straw, "clinic", last_seen(straw, "clinic", "show"))
        (true,) = [said for party, what, _, said in straw.seen if (party, what) == ("clinic", "show")]
        nonsense = keyring.seal({"bank": SETUP}, b"nonsense", "another")["bank"]
        bank = last_seen(straw, "bank", "seek")
        for setup in (nonsense, true):
            found = asked(straw, "bank", "keep", [*bank, *setup], peer="clinic", part="setup")
            assert found.head == {"code": BREAKS}


@pytest.mark.parametrize("guess", [40, 99], ids=["a key of the lab", "no key of the lab"])
def test_a_label_holder_tells_a_party_one_list_and_cannot_try_another(guess, tmp_path):  # noqa: F811
    """How a list is refused tells whether its rows are in the table: asked again and again, the whole column."""
    with until(keyed(tmp_path), "agreed") as straw:
        given = last_seen(straw, "lab", "blind")[:-2]
        keyring, pepper = keys_of(straw, "bank", last_seen(straw, "bank", "tell"))

        def told(*rows: int) -> dict:
            digests = row_order.digests(pl.Series([key(row) for row in rows]), pepper)
            body = b"".join(sorted(row.tobytes() for row in digests))
            sealed = keyring.seal({"lab": COMMON}, body, f"list {rows}")["lab"]
            return asked(straw, "lab", "agreed", [*given, *sealed]).head

        told(98)  # whatever it says to the first
        assert told(guess) == {"code": BREAKS}
        assert told(*sorted(SHARED), guess) == {"code": BREAKS}
        assert told(*sorted(SHARED)) == {"code": BREAKS}
        assert straw.services["lab"].agreement() is None


# ------------------------------------------------------------------------------------------------ two contents, one session


def test_a_session_has_one_pepper(tmp_path):  # noqa: F811
    """Another share in the middle would put digests in another order, and the label holder tell of rows that nobody has."""
    with until(keyed(tmp_path), "tell") as straw:
        keyring, _ = keys_of(straw, "lab", last_seen(straw, "lab", "show"))
        share = PepperShare("text", bytes(32)).seal(keyring, {"bank": PEPPER})["bank"]
        given = last_seen(straw, "bank", "seek")
        assert asked(straw, "bank", "tell", [*given[:6], *share]).head == {"code": BREAKS}
        assert {"code": asked(straw, "bank", "tell", given).head["code"]} == {"code": OK}


def test_a_table_that_changed_gives_no_digests_under_a_pepper_that_was_used(tmp_path):  # noqa: F811
    """An operator that aligns anew for new rows does not show a hub, by the old session's name, which rows came and went."""
    made = keyed(tmp_path, "digests")
    with Watched(made) as straw:
        straw.meet(made.federation)
        given = last_seen(straw, "lab", "offer")
        for name in made.names:
            forget(tmp_path / name)
        assert asked(straw, "lab", "offer", given).head["code"] == OK  # the same bytes as before
        made.tables["lab"] = made.tables["lab"].slice(1)
        straw.die("lab")
        assert asked(straw, "lab", "offer", given).head == {"code": BREAKS}
        straw.meet(made.federation)  # in another session
    check_rows(made)


# ------------------------------------------------------------------------------------------------ rows that it does not hold


def test_a_party_cannot_have_rows_declared_common_that_it_does_not_hold(tmp_path, caplog):  # noqa: F811
    """One common key under many secrets of its own stands for as many rows, all distinct on the wire. Among the rows that it
    would gain are words that nobody has: it misses them all with a chance below 1 in 10^13."""
    with Watched(keyed(tmp_path)) as straw:
        bank, lab = (straw.services[name].aligning for name in ("bank", "lab"))
        (known,) = words(5)
        secrets = [psi.psi_key(bytes([at + 1]) * 32, str(at), "lab") for at in range(MOST)]
        rest = psi.psi_key(b"z" * 32, "z", "z")

        def show(question: OfBlock) -> Said:
            session, keyring, pepper, _ = lab._open_session(question, 0)
            setup = b"".join(psi.blind([known], secret, derive(pepper, "align", "curve")) for secret in secrets)
            return lab._seal(session, keyring, {"bank": SETUP}, setup, "setup 0")

        def blind(question: OfBlock) -> Said:
            session, keyring, _, sealed = lab._open_session(question, 2)
            request = keyring.open("bank", REQUEST, *sealed)
            about = {"session": question.session, "peers": ("clinic", "lab"), "peer": "lab"}
            sought = bank._words_for(OfPeer(what="seek", **about, blobs=last_seen(straw, "bank", "seek")))[-1]
            lucky = sought.order.tolist().index(sought.words.index(known))  # a cheater would have to guess which
            points = [request[at : at + psi.POINT] for at in range(0, len(request), psi.POINT)]
            answer = [psi.blind_again(points[lucky], secret, 1) for secret in secrets]
            answer += [psi.blind_again(point, rest, 1) for point in points[MOST:]]
            return lab._seal(session, keyring, {"bank": RESPONSE}, b"".join(answer), "response 0")

        straw.services["lab"].handlers |= {Question.SHOW: show, Question.BLIND: blind}
        with pytest.raises(Exception, match="'bank' refused 'narrow'"):
            straw.meet(straw.made.federation)
        assert [r for r in caplog.records if "words that nobody else can have" in getattr(r, "why", "")]
        assert "answer of lab" not in {row.key for row in bank.records.rows(kind="session")}


@pytest.mark.parametrize("u", [0, 1], ids=["order 1", "order 4"])
def test_a_label_holder_that_asks_with_a_point_of_small_order_gets_no_answer(u, tmp_path):  # noqa: F811
    with until(keyed(tmp_path), "blind") as straw:
        given = last_seen(straw, "clinic", "show")
        keyring, _ = keys_of(straw, "bank", last_seen(straw, "bank", "seek"))
        size = MOST + DECOYS
        true = psi.blind([b"i%d" % at for at in range(size)], b"k" * 32, b"s" * 32)
        forged = u.to_bytes(psi.POINT, "little") + true[psi.POINT :]
        sealed = keyring.seal({"clinic": REQUEST}, forged, "another")["clinic"]
        assert asked(straw, "clinic", "blind", [*given, *sealed]).head == {"code": BREAKS}
