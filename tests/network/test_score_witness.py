"""Claims about old copies of stores under a standing order: who lacks what another saw of it answers nothing."""

from __future__ import annotations

import shutil
import threading

import pytest

import colonnade as co
from colonnade.errors import WireError
from colonnade.network.score_parts import NOWHERE, Ask, Quota, Why, pack_asks, places_in, row_digest, unpack_parts
from colonnade.network.score_service import ScoreService
from tests.helpers.standing_orders import HOLDER, Consortium, Wired

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROLLED_BACK = r"lacks row \d+, which '\w+' saw before: it was rolled back"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    """Stores as they are now, and copies of them from between two processes of the label holder. A block is one row."""
    one = Consortium.made(tmp_path_factory.mktemp("world"), rows_a_day=100).approve_all()
    for when, keys in (("then", (30, 31)), ("now", (32, 33))):
        with Wired(one) as wired:  # with the second row the label holder says where it stands
            assert [wired.ask(key=key)[0] for key in keys] == [200, 200]
        for name in one.file.members:
            shutil.copytree(one.folder / name, one.folder / f"{name} {when}")
    return one


@pytest.fixture
def made(world: Consortium):
    put_back(world, *world.file.members, when="now")
    yield world
    world.close()


def put_back(made: Consortium, *names: str, when: str = "then") -> None:
    made.close()
    for name in names:
        shutil.rmtree(made.folder / name)
        shutil.copytree(made.folder / f"{name} {when}", made.folder / name)


def a_question(made: Consortium, service: ScoreService, name: str, number: int) -> bytes:
    ask = Ask(number, 0, row_digest(service._pairs[name], b"i40"))
    return pack_asks(made.order, [ask], service.quota.witness.places_for(name))


def holder(made: Consortium) -> ScoreService:
    service = ScoreService(made.approved(HOLDER), made.data(HOLDER), lambda *_: True, lambda: {"lab", "shop"})
    made.open.callback(service.close)
    return service


def test_a_party_whose_store_is_an_old_copy_answers_nothing(made):
    service = holder(made)
    (part,) = unpack_parts(made.order, made.answerer("lab").answer(a_question(made, service, "lab", 1000)))
    assert part.why is Why.OK  # the newest store is as good as before
    put_back(made, "lab")
    service, party = holder(made), made.answerer("lab")
    with pytest.raises(co.LedgerDamaged, match=ROLLED_BACK):
        party.answer(a_question(made, service, "lab", 2000))
    assert party.counts == {}
    shop = made.answerer("shop")  # who was not put back goes on
    (part,) = unpack_parts(made.order, shop.answer(a_question(made, service, "shop", 2000)))
    assert part.why is Why.OK


def test_a_label_holder_whose_store_is_an_old_copy_asks_no_more(made):
    put_back(made, HOLDER)
    with Wired(made) as wired:
        assert wired.ask(key=34)[0] == 503  # the first answers say what the others saw
        status, said = wired.ask(key=35)
        assert (status, said["refused"]) == (503, "store")
        assert not wired.service._is_ready()
        assert wired.service.counts["scored"] == 0


def test_a_copy_that_was_used_alone_for_a_while_is_noticed_all_the_same(made):
    """Refused here, a row costs the label holder's quota and asks nobody: its ledger is longer than the lost one was."""
    put_back(made, HOLDER)
    with Wired(made) as wired:
        assert {wired.ask(key=unknown)[0] for unknown in range(900, 910)} == {404}
        assert wired.ask(key=34)[0] == 503
        assert wired.ask(key=35)[1]["refused"] == "store"


def test_copies_of_one_moment_are_noticed_by_whoever_was_not_put_back(made):
    put_back(made, HOLDER, "lab")
    with Wired(made) as wired:
        wired.ask(key=34)  # shop saw the label holder since
        assert wired.ask(key=35)[1]["refused"] == "store"


def test_where_a_ledger_stands_is_kept_once_a_block(tmp_path):
    made = Consortium.made(tmp_path, rows_a_day=10_000).approve_all()  # a block is a hundred rows
    with Wired(made) as wired:
        noted, log = [], wired.parties["lab"]._approved.log
        note, log.note = log.note, lambda *given: noted.append(given) or note(*given)
        for key in range(20, 40):
            assert wired.ask(key=key)[0] == 200
        assert len(noted) <= 1  # of the label holder's block; its own stands in the ledger
        places = {places_in(answer) for name, _, answer in wired.messages if name == "lab"}
        assert len(places) == 2  # before and after the label holder said where it stands


def test_a_place_that_no_ledger_has_is_no_message(made):
    party = made.answerer("lab")
    for places in (b"\xff" * 40 + bytes(40), bytes(40) + b"\xff" * 40):
        with pytest.raises(WireError, match="no ledger has"):
            party.answer(pack_asks(made.order, [], places))
    assert party.answer(pack_asks(made.order, [], NOWHERE))


def test_a_message_without_news_waits_for_nobody_who_writes_to_the_ledger(made):
    service, party = holder(made), made.answerer("lab")
    for number in (1000, 1001):  # the second brings what the first has not yet said
        answer = party.answer(a_question(made, service, "lab", number))
        service.take("lab", answer)
    with service.quota._lock:  # as a request does that waits to reserve rows while another process has the file
        asked = threading.Thread(target=service.take, args=("lab", answer), daemon=True)
        asked.start()
        asked.join(30.0)
        assert not asked.is_alive()


def test_what_was_seen_of_others_and_cannot_be_read_is_damage(made):
    approved = made.approved("lab")
    for note in (b"no record", b"[]", b'{"bank": [1]}'):
        approved.log.note(f"seen in {made.order.run}", note)
        with pytest.raises(co.LedgerDamaged, match=r"what the ledger of 'lab' kept of others .* cannot be read"):
            Quota(approved)
