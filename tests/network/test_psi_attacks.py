"""Claims about parties and hubs that work together against a private set intersection, or against its sessions.

Whoever cheats here has what a cheater has: its own keys, the session's pepper, and a hub that asks what it likes.
"""

from __future__ import annotations

import pytest

pytest.importorskip("private_set_intersection.python", reason="needs colonnade[psi]")

import polars as pl
from private_set_intersection import python as psi
from test_party_service import BREAKS, tmp_path  # noqa: F401
from test_psi import COMMON as SHARED
from test_psi import MOST, Watched, _logged, asked, check_rows, key, keyed, last_seen, until  # noqa: F401

from colonnade.data import alignment as psi_steps
from colonnade.data import row_order
from colonnade.data.alignment import PepperShare, psi_common, psi_key, psi_respond, psi_setup
from colonnade.data.row_order import canonical
from colonnade.errors import WireError
from colonnade.network.alignment import COMMON, PEPPER, REQUEST, RESPONSE, SETUP, forget
from colonnade.network.party_service import OK
from colonnade.network.questions import Parcel, Question


def words(*rows: int) -> list[bytes]:
    return canonical(pl.Series([key(row) for row in rows]))


def keys_of(straw: Watched, name: str, given) -> tuple:
    """A party's keys of the session and the pepper: what it needs to seal whatever it likes."""
    others = [peer for peer in straw.made.names if peer != name]
    asked_ = Parcel({"session": straw.session, "peers": others}, tuple(given))
    _, keyring, pepper, _ = straw.services[name].aligning._open_session(asked_, 0)
    return keyring, pepper


# ------------------------------------------------------------------------------------------------ questions as oracles


@pytest.mark.parametrize("missing", [8, 41], ids=["a key of the bank", "no key of the bank"])
def test_another_answer_of_a_party_is_refused_whatever_it_would_find(missing, tmp_path):  # noqa: F811
    """Or a party and a hub would ask the label holder, one table after the other, which keys it holds."""
    with until(keyed(tmp_path), "tell") as straw:
        lab, blobs = straw.services["lab"].aligning, last_seen(straw, "bank", "narrow")
        keyring, _ = keys_of(straw, "lab", last_seen(straw, "lab", "show"))
        held = [row for row in (*range(1, 9), 40, 41) if row != missing]
        setup = psi_setup(words(*held), lab._psi_key(straw.session, "bank"))
        sealed = keyring.seal({"bank": SETUP}, setup, "another")["bank"]
        found = asked(straw, "bank", "narrow", [*blobs[:-4], *sealed, *blobs[-2:]], peer="lab")
        assert found.head == {"code": BREAKS}
        assert asked(straw, "bank", "narrow", blobs, peer="lab").head == {"code": OK}


def test_an_answer_that_was_refused_cannot_be_mended(tmp_path):  # noqa: F811
    with until(keyed(tmp_path), "narrow") as straw:
        given = last_seen(straw, "clinic", "blind")[:-2]
        keyring, _ = keys_of(straw, "clinic", given)
        (shown,) = [said for party, what, _, said in straw.seen if (party, what) == ("clinic", "show")]
        (true,) = [said for party, what, _, said in straw.seen if (party, what) == ("clinic", "blind")]
        nonsense = keyring.seal({"bank": RESPONSE}, b"nonsense", "another")["bank"]
        bank = last_seen(straw, "bank", "seek")
        for response in (nonsense, true):
            found = asked(straw, "bank", "narrow", [*bank, *shown, *response], peer="clinic")
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
        secrets = [psi_key(bytes([at % 251 + 1]) * 32, str(at), "lab") for at in range(MOST)]

        def show(question: Parcel) -> Parcel:
            session, keyring, _, _ = lab._open_session(question, 0)
            made = psi.ServerSetup()
            made.raw.SetInParent()
            for secret in secrets:
                part = psi.ServerSetup()
                part.ParseFromString(psi_setup([known], secret))
                made.raw.encrypted_elements.extend(part.raw.encrypted_elements)
            ordered = sorted(made.raw.encrypted_elements)
            del made.raw.encrypted_elements[:]
            made.raw.encrypted_elements.extend(ordered)
            return lab._seal(session, keyring, {"bank": SETUP}, made.SerializeToString(), "setup")

        def blind(question: Parcel) -> Parcel:
            session, keyring, _, sealed = lab._open_session(question, 2)
            request = psi.Request()
            request.ParseFromString(keyring.open("bank", REQUEST, *sealed))
            asked_ = Parcel(
                {**question.head, "peers": ["clinic", "lab"], "peer": "lab"}, last_seen(straw, "bank", "seek")
            )
            _, _, _, _, sought = bank._words_for(asked_, 0)
            order = psi_steps._secret_order(sought, bank._psi_key(session, "lab"))
            lucky = request.encrypted_elements[order.index(sought.index(known))]  # a cheater would have to guess which
            answer = psi.Response()
            answer.ParseFromString(psi_respond(request.SerializeToString(), secrets[0], most=10**4))
            for at, secret in enumerate(secrets):
                one, part = psi.Request(), psi.Response()
                one.CopyFrom(request)
                del one.encrypted_elements[:]
                one.encrypted_elements.append(lucky)
                part.ParseFromString(psi_respond(one.SerializeToString(), secret, most=1))
                answer.encrypted_elements[at] = part.encrypted_elements[0]
            at = order.index(sought.index(known))
            if at >= MOST:  # its own answer stands once
                answer.encrypted_elements[at] = psi_answer(request.encrypted_elements[at])
            return lab._seal(session, keyring, {"bank": RESPONSE}, answer.SerializeToString(), "response")

        def psi_answer(element: bytes) -> bytes:
            one, part = psi.Request(), psi.Response()
            one.reveal_intersection = True
            one.encrypted_elements.append(element)
            part.ParseFromString(psi_respond(one.SerializeToString(), psi_key(b"z" * 32, "z", "z"), most=1))
            return bytes(part.encrypted_elements[0])

        straw.services["lab"].handlers |= {Question.SHOW: show, Question.BLIND: blind}
        with pytest.raises(Exception, match="'bank' refused 'narrow'"):
            straw.meet(straw.made.federation)
        assert [r for r in caplog.records if "words that nobody else can have" in getattr(r, "why", "")]
        assert "answer of lab" not in {row.key for row in bank.records.rows(kind="session")}


def test_a_point_has_one_form(tmp_path):  # noqa: F811
    """In another form the same point would not be seen to stand twice."""
    from cryptography.hazmat.primitives.asymmetric import ec

    mine, theirs = psi_key(b"a" * 32, "s", "lab"), psi_key(b"b" * 32, "s", "bank")
    asked_ = words(1, 2, 3)
    setup = psi_setup(words(1, 9), theirs)
    answer = psi.Response()
    answer.ParseFromString(psi_respond(psi_steps.psi_request(asked_, mine), theirs, most=3))
    for at in range(3):
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), answer.encrypted_elements[at])
        at_x, at_y = (n.to_bytes(32, "big") for n in (point.public_numbers().x, point.public_numbers().y))
        forged = psi.Response()
        forged.CopyFrom(answer)
        forged.encrypted_elements[(at + 1) % 3] = b"\4" + at_x + at_y
        with pytest.raises(WireError, match="one form"):
            psi_common(asked_, mine, setup, forged.SerializeToString(), most=2)


def test_a_message_that_is_longer_than_so_many_keys_make_it_is_not_read():
    """Of elements without a byte a message of 64 MiB would hold 32 million, and take more than a GiB to read."""
    many = psi.Request(encrypted_elements=[b""]).SerializeToString() * 10_000
    with pytest.raises(WireError, match="longer than 3 keys"):
        psi_respond(many, psi_key(b"a" * 32, "s", "lab"), most=3)
