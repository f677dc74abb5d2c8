"""Claims about asking all parties before any of them reserves: what one party's no costs the others, who is asked how often, and
what a hub gains by asking otherwise. (Services and the hub of straw are those of test_party_service.py.)
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

import colonnade as co
from colonnade.errors import PeerFailed, ReplayDiverged
from colonnade.methods.node_setup import Call, protocol_of
from colonnade.network import party_run
from colonnade.network.bounds import RateLimit
from colonnade.network.hub_run import FAREWELL
from colonnade.network.inbox import Inbox
from colonnade.network.party_run import Approvals, Request
from colonnade.network.party_service import DIVERGED, OK, UNDECIDED, PartyService
from colonnade.network.questions import Said, pack, unpack
from colonnade.runtime.host import Answered, Lost
from colonnade.runtime.run_store import abort_run
from tests.helpers.contract import Case, federation
from tests.helpers.organisations import SERVER, Organisations
from tests.helpers.spending import own_spent
from tests.helpers.stub_hub import (
    BREAKS,
    NOISY,
    REFUSES,
    SECURE,
    STAR,
    STOPS,
    Straw,
    keyed,
    proposal,
    run_of,
    straw_hub,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ONE_RUN = co.Policy(epsilon=1.0, delta=1e-6)  # exactly what a run of SECURE costs


def attempt(straw: Straw, folder: Path) -> co.Fit:
    """A run with noise from the operating system, by a hub that does as it should."""
    return co.fit(
        straw.made.federation, SECURE.problem, SECURE.method, SECURE.privacy, engine=straw, store=folder / "hub"
    )


def state(service: PartyService) -> tuple:
    """All that counts at a party, as its own ledger says, and whether a run was begun there."""
    ledger = service.ledger
    service.log.verify()
    length = service.log.length()
    counted = ledger.budget(), own_spent(ledger), ledger.row_spent(), ledger.open_runs()
    return *counted, length, service.log.head_at(length), service.run_store.begun(), service.run_store.ended()


def states(straw: Straw) -> dict[str, tuple]:
    return {name: state(service) for name, service in straw.services.items()}


def listening(straw: Straw) -> list[tuple[str, str]]:
    """Who is asked what, from now on."""
    heard, ask = [], straw.ask

    def noting(party, what, *rest):
        heard.append((party, what))
        return ask(party, what, *rest)

    straw.ask = noting
    return heard


def operators(straw: Straw, no: str = "") -> Counter[str]:
    """How often each operator was asked; the one named says no."""
    asked: Counter[str] = Counter()

    def approve(request: Request) -> bool:
        asked[request.party] += 1
        return request.party != no

    for service in straw.services.values():
        service.approve = approve
    return asked


def another_version(straw: Straw, party: str) -> None:
    """One party has other code than the hub."""
    ask = straw.ask

    def told(name, what, head=None, blobs=(), *_):
        return ask(name, what, {**head, "code": "other"} if name == party and "code" in (head or {}) else head, blobs)

    straw.ask = told


# One way each in which operator, ledger or code say no.
REFUSALS = {
    "operator": lambda straw, party: operators(straw, no=party),
    "budget": lambda straw, party: straw.services[party].ledger.set_budget(0.5, 1e-6),
    "version": another_version,
}


# ------------------------------------------------------------------------------------------------ what a no costs


@pytest.mark.parametrize(("why", "place"), [("operator", 0), ("budget", 1), ("version", -1), ("operator", -1)])
def test_one_refusal_leaves_every_ledger_as_it_was_and_nobody_reserves(why, place, tmp_path):  # noqa: F811
    with straw_hub(SECURE, tmp_path, ONE_RUN) as straw:
        refuser = straw.made.names[place]
        REFUSALS[why](straw, refuser)
        before, heard = states(straw), listening(straw)
        with pytest.raises(PeerFailed, match=f"'{refuser}' refused 'consider' .* nothing was spent, at no party"):
            attempt(straw, tmp_path)
        assert before == states(straw)
        assert not straw.wire
        assert {what for _, what in heard}.isdisjoint({"reserve", "meet", "remember", "turn"})
        assert {len(service.approvals) for service in straw.services.values()} == {0}  # they were told that it is over


@pytest.mark.chance(0, "prices in ledgers and a refusal")
def test_after_a_refusal_the_whole_budget_is_there_for_a_run_that_all_approve(tmp_path):  # noqa: F811
    """The budget is that of one run: had a party counted anything for the first, the second would be refused."""
    with straw_hub(SECURE, tmp_path, ONE_RUN) as straw:
        operators(straw, no="labels")
        with pytest.raises(PeerFailed, match="refused 'consider'"):
            attempt(straw, tmp_path)
        operators(straw)
        assert attempt(straw, tmp_path).privacy.epsilon <= 1.0
        assert all(service.ledger.row_spent() > 0 for service in straw.services.values())


def dear(case: Case, run: str = "run") -> dict:
    """A proposal that no budget here allows."""
    return proposal(replace(case, privacy=replace(case.privacy, epsilon=30.0)), run, seeded=False)


def test_what_the_budget_refuses_is_in_no_book_however_often_it_is_proposed(tmp_path):  # noqa: F811
    """By a hub that does not ask first: the same code each time, and no row that makes the next question slower."""
    with straw_hub(NOISY, tmp_path, co.Policy(epsilon=2.0, delta=1e-6)) as straw:
        before = state(straw.services["party0"])
        for _ in range(3):
            assert straw.raw("party0", "reserve", dear(NOISY)).head == {"code": REFUSES}
        assert before == state(straw.services["party0"])


@pytest.mark.chance(0, "prices in ledgers and codes of refusals")
def test_a_run_that_was_refused_first_is_not_paid_back_when_it_was_run_after_all(tmp_path):  # noqa: F811
    """A hub proposes a run too dear, then at a price that passes, under one name; it never says that the run is over."""
    with straw_hub(SECURE, tmp_path, ONE_RUN) as straw:
        for name in straw.made.names:
            assert straw.raw(name, "reserve", dear(SECURE, "first")).head == {"code": REFUSES}
        ask = straw.ask
        straw.ask = lambda party, what, *rest: (
            Answered(lambda: Said()) if what in ("over", "settle") else ask(party, what, *rest)
        )
        with mock.patch("colonnade.runtime.run_store.new_run_id", return_value="first"):
            attempt(straw, tmp_path)
        spent = {name: service.ledger.row_spent() for name, service in straw.services.items()}
        assert min(spent.values()) > 0
        for name, service in straw.services.items():  # the next question closes what is over
            assert straw.raw(name, "consider", proposal(SECURE, "second", seeded=False)).head == {"code": REFUSES}
            assert service.ledger.row_spent() == spent[name]


def test_a_run_that_the_operator_aborted_is_not_begun_under_its_name(tmp_path):  # noqa: F811
    """Killed when the journal had it and the ledger had not; then its operator ended it."""
    with straw_hub(NOISY, tmp_path, co.Policy(epsilon=20.0, delta=1e-6)) as straw:
        straw.services["party0"].run_store.adopt("run")
        abort_run(tmp_path / "party0", "run")
        before = state(straw.services["party0"])
        for what in ("consider", "reserve"):
            assert straw.raw("party0", what, proposal(NOISY, seeded=False)).head == {"code": DIVERGED}
        assert before == state(straw.services["party0"])


def test_a_run_that_is_aborted_while_its_party_is_at_work_releases_nothing_more(tmp_path):  # noqa: F811
    with straw_hub(STAR, tmp_path) as straw:
        ask, service, turns = straw.ask, straw.services["party0"], Counter()

        def aborting(party, what, *rest):
            turns[party, what] += 1
            if (party, what) == ("party0", "turn") and turns[party, what] == 2:
                assert abort_run(tmp_path / "party0", "run") == ["party0"]
            return ask(party, what, *rest)

        straw.ask = aborting
        with pytest.raises(ReplayDiverged, match="'party0' cannot go on with this run: it is over there"):
            run_of(straw, STAR, tmp_path / "hub")
        kinds = [row.kind for row in service.log.rows("run")]
        assert "close" in kinds
        assert "event" not in kinds[kinds.index("close") :]


def test_a_refusal_to_consider_when_others_had_reserved_does_not_say_that_nothing_was_spent(tmp_path):  # noqa: F811
    """One party begins anew while all reserve, and its operator then says no: the others go on counting."""
    with straw_hub(SECURE, tmp_path, ONE_RUN) as straw:
        ask = straw.ask

        def dying(party, what, *rest):
            if (party, what) == ("party1", "reserve") and straw.lives[party] == 0:
                straw.die(party)
                straw.services[party].approve = lambda _: False
                return Answered(lambda: (_ for _ in ()).throw(Lost(party)))
            return ask(party, what, *rest)

        straw.ask = dying
        with pytest.raises(PeerFailed, match=r"'party1' refused 'consider'.*a party was restarted meanwhile"):
            attempt(straw, tmp_path)
        assert straw.services["party0"].ledger.row_spent() > 0


def test_a_run_that_is_refused_when_it_goes_on_ends_with_heads_kept_as_any_other(tmp_path):  # noqa: F811
    """The hub dies in it; one party is updated meanwhile. Its parties have begun it, and released something."""
    with straw_hub(STAR, tmp_path) as straw:
        ask, turns = straw.ask, Counter()

        def dying(party, what, *rest):
            turns[what] += 1
            if turns["turn"] > 8:
                raise SystemExit
            return ask(party, what, *rest)

        straw.ask = dying
        with pytest.raises(SystemExit):
            run_of(straw, STAR, tmp_path / "hub")
        straw.ask = ask
        for name in straw.made.names:
            straw.die(name)
        another_version(straw, "party1")
        with pytest.raises(PeerFailed, match="'party1' refused 'consider'"):
            run_of(straw, STAR, tmp_path / "hub")
        kept = {name: [row.key for row in service.log.rows("run", "peer")] for name, service in straw.services.items()}
        assert kept == {name: ["start", "end"] for name in straw.made.names}


# ------------------------------------------------------------------------------------------------ who is asked, and how often


def test_an_operator_is_asked_once_a_run(tmp_path):  # noqa: F811
    """When it is considered; not when it is reserved, and not when a process begins anew in the middle of it."""
    with straw_hub(STAR, tmp_path) as straw:
        asked, heard = operators(straw), listening(straw)
        run_of(straw, STAR, tmp_path / "hub")
        assert dict.fromkeys(straw.made.names, 1) == asked
        assert dict.fromkeys(straw.made.names, 1) == Counter(party for party, what in heard if what == "consider")
        places = [at for at, (_, what) in enumerate(heard) if what in ("consider", "reserve")]
        assert [heard[at][1] for at in places] == ["consider"] * 4 + ["reserve"] * 4
        assert {len(service.approvals) for service in straw.services.values()} == {0}


def test_a_run_that_goes_on_is_not_asked_about_again(tmp_path):  # noqa: F811
    with straw_hub(STAR, tmp_path) as straw:
        assert straw.raw("party0", "reserve", proposal(STAR)).head["code"] == OK
        straw.die("party0")
        asked = operators(straw, no="party0")
        before = state(straw.services["party0"])
        assert straw.raw("party0", "consider", proposal(STAR)).head == {"code": OK}
        assert straw.raw("party0", "reserve", proposal(STAR)).head["code"] == OK
        assert not asked
        assert before[:4] == state(straw.services["party0"])[:4]


def test_a_hub_that_does_not_ask_first_gets_the_same_approval(tmp_path):  # noqa: F811
    with straw_hub(STAR, tmp_path) as straw:
        asked = operators(straw, no="party0")
        assert straw.raw("party0", "reserve", proposal(STAR)).head == {"code": REFUSES}
        assert straw.raw("party1", "reserve", proposal(STAR)).head["code"] == OK
        assert asked == {"party0": 1, "party1": 1}


def test_a_yes_is_for_one_run_and_one_call(tmp_path):  # noqa: F811
    """Another problem at the same price, and the same call under another name: asked about anew, and refused."""
    with straw_hub(STAR, tmp_path) as straw:
        service, seen = straw.services["party0"], []
        service.approve = lambda request: seen.append(request) or len(seen) == 1
        assert straw.raw("party0", "consider", proposal(STAR)).head == {"code": OK}
        swapped = proposal(STAR, problem=co.Problem(co.LeastSquares(), co.L1Ball(3.0)))
        for what in ("consider", "reserve"):
            assert straw.raw("party0", what, swapped).head == {"code": REFUSES}
            assert straw.raw("party0", what, proposal(STAR, "another")).head == {"code": REFUSES}
        assert [request.run for request in seen] == ["run", "run", "another", "run", "another"]
        assert [request.call.problem.constraint.radius for request in seen] == [2.0, 3.0, 2.0, 3.0, 2.0]
        assert straw.raw("party0", "reserve", proposal(STAR)).head["code"] == OK  # what was said yes to
        assert len(seen) == 5


def test_a_yes_is_about_the_rows_that_were_agreed_on_then(tmp_path):  # noqa: F811
    call = Call(co.SharingADMM(rounds=2), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)), None)
    with Straw(keyed(tmp_path)) as straw:
        straw.meet(straw.made.federation)
        head = {"run": "run", "call": call.to_json(), "code": protocol_of(call.method), "session": straw.session}
        asked = operators(straw)
        assert straw.raw("bank", "consider", head).head == {"code": OK}
        service = straw.services["bank"]
        others = replace(service.agreement(), session="other")
        with mock.patch.object(service.aligning, "agreement", return_value=others):
            assert straw.raw("bank", "reserve", head).head == {"code": BREAKS}
            assert straw.raw("bank", "reserve", {**head, "session": "other"}).head["code"] == OK
        assert asked == {"bank": 2}


def test_an_operator_who_thinks_again_before_a_run_begins_is_heard(tmp_path):  # noqa: F811
    made = Organisations.of(federation(NOISY), tmp_path, co.Policy(epsilon=2.0, delta=1e-6))
    with Straw(made) as straw, contextlib.closing(Inbox(tmp_path / "box")) as box:
        service, head = straw.services["party0"], proposal(NOISY, seeded=False)
        service.approve, service.withdraw, service.asks_again = box, box.withdraw, True
        assert straw.raw("party0", "consider", head).head == {"code": UNDECIDED}
        name = box.questions()[0].name
        box.answer(name, True)
        assert straw.raw("party0", "consider", head).head == {"code": OK}  # the hub knows, and waits
        box.answer(name, False)
        before = state(service)
        assert straw.raw("party0", "reserve", head).head == {"code": REFUSES}
        assert state(service) == before
        box.answer(name, True)
        assert straw.raw("party0", "reserve", head).head["code"] == OK
        assert box.questions(every=True) == []


# ------------------------------------------------------------------------------------------------ a process dies in between


def _consider_and_be_killed(made: Organisations) -> None:
    answer = made.service("party0").answer(pack({"what": "consider", **proposal(NOISY, seeded=False)}))
    if unpack(answer).head == {"code": OK}:  # or the process ends as if all were well, and the test fails
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_party_killed_before_it_reserved_has_counted_nothing_and_asks_again(tmp_path):  # noqa: F811
    made = Organisations.of(federation(NOISY), tmp_path, co.Policy(epsilon=2.0, delta=1e-6))
    with Straw(made) as straw:
        before = state(straw.services["party0"])
    child = SERVER.Process(target=_consider_and_be_killed, args=(made,))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    with Straw(made) as straw:
        assert before == state(straw.services["party0"])
        asked = operators(straw, no="party0")
        assert straw.raw("party0", "reserve", proposal(NOISY, seeded=False)).head == {"code": REFUSES}
        assert before == state(straw.services["party0"])
        operators(straw)
        assert straw.raw("party0", "reserve", proposal(NOISY, seeded=False)).head["code"] == OK
        assert asked == {"party0": 1}


class Minds(Organisations):
    """Operators; the one of `party1` changes its mind when its process begins anew."""

    lives: Counter

    def service(self, name, approve=None):
        self.lives[name] += 1
        number = self.lives[name]
        return super().service(name, lambda request: (request.party, number) != ("party1", 2))


@pytest.mark.parametrize("back", [True, False], ids=["back at once", "back when it is asked"])
def test_nobody_reserves_while_a_party_that_began_anew_is_asked_again(back, tmp_path):  # noqa: F811
    """Its process dies when it has said yes, its operator says no the second time: nobody has reserved."""
    made = Minds(**vars(Organisations.of(federation(SECURE), tmp_path, ONE_RUN)))
    made.lives = Counter()
    with Straw(made) as straw:
        before, heard, ask = states(straw), listening(straw), straw.ask

        def dying(party, what, *rest):
            if party in straw.away:
                straw.away.clear()
                straw.die(party)
            answer = ask(party, what, *rest)
            if (party, what) == ("party1", "consider") and straw.lives[party] == 0:  # its answer was heard
                if back:
                    straw.die(party)
                else:
                    straw.away.add(party)
            return answer

        straw.ask = dying
        with pytest.raises(PeerFailed, match="'party1' refused 'consider'"):
            attempt(straw, tmp_path)
        assert straw.lives["party1"] == 1
        assert "reserve" not in {what for _, what in heard}
        assert before == states(straw)


def test_an_operator_who_says_no_is_not_asked_again_because_another_party_began_anew(tmp_path):  # noqa: F811
    with straw_hub(SECURE, tmp_path, ONE_RUN) as straw:
        asked, ask = operators(straw, no="party1"), straw.ask

        def losing(party, what, *rest):
            if (party, what) == ("party0", "consider"):
                straw.lose = {straw.asked + 1: "after"}
            return ask(party, what, *rest)

        straw.ask = losing
        with pytest.raises(PeerFailed, match="'party1' refused 'consider'"):
            attempt(straw, tmp_path)
        assert straw.lives["party0"] == 1
        assert asked["party1"] == 1


# ------------------------------------------------------------------------------------------------ a hub that asks on

# What is proposed, beside what a party would approve; and the code that it gets.
PROPOSALS = {
    "all is well": ({}, OK),
    "another version": ({"code": "other"}, STOPS),
    "other rows": ({"session": "other"}, BREAKS),
    "a call that is none": ({"call": "{}"}, STOPS),
    "exact values": (proposal(replace(NOISY, privacy=None, method=co.SharingADMM(rounds=2)), "exact"), REFUSES),
    "noise that protects nobody": (proposal(NOISY, "seeded"), REFUSES),
    "over the budget": (
        proposal(replace(NOISY, privacy=replace(NOISY.privacy, epsilon=30.0)), "dear", seeded=False),
        REFUSES,
    ),
    "a run that is over": ({"run": "over"}, DIVERGED),
    "a run that is open": ({"run": "open"}, OK),
    "another call of a run that is open": (
        proposal(replace(NOISY, problem=co.Problem(co.LeastSquares(), penalty=co.Ridge(7.0))), "open", seeded=False),
        DIVERGED,
    ),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_considering_tells_what_reserving_tells_and_writes_nothing(name, tmp_path):  # noqa: F811
    """The same code for the same proposal, and no length, row, secret or file of it."""
    changes, expected = PROPOSALS[name]
    with straw_hub(NOISY, tmp_path, co.Policy(epsilon=20.0, delta=1e-6)) as straw:
        base = proposal(NOISY, seeded=False)
        for run in ("over", "open"):
            assert straw.raw("party0", "reserve", {**base, "run": run}).head["code"] == OK
        assert straw.raw("party0", "over", {"run": "over", "how": "finished"}).head["code"] == OK
        straw.die("party0")
        service = straw.services["party0"]
        before = state(service), service.log.unerased(), sorted(tmp_path.rglob("*"))
        considered = straw.raw("party0", "consider", {**base, **changes})
        assert before == (state(service), service.log.unerased(), sorted(tmp_path.rglob("*")))
        assert (considered.head, considered.blobs) == ({"code": expected}, ())
        assert straw.raw("party0", "reserve", {**base, **changes}).head["code"] == expected


def test_another_call_is_refused_while_the_run_is_on_the_desk(tmp_path):  # noqa: F811
    with straw_hub(STAR, tmp_path) as straw:
        assert straw.raw("party0", "reserve", proposal(STAR)).head["code"] == OK
        other = proposal(STAR, problem=co.Problem(co.LeastSquares(), co.L1Ball(3.0)))
        assert {BREAKS} == {straw.raw("party0", what, other).head["code"] for what in ("consider", "reserve")}


def test_considering_does_not_look_at_the_table(tmp_path):  # noqa: F811
    with straw_hub(STAR, tmp_path) as straw:
        service = straw.services["party0"]
        with mock.patch.object(service.data, "block", side_effect=AssertionError("it was looked at")):
            assert straw.raw("party0", "consider", proposal(STAR)).head == {"code": OK}
            assert straw.raw("party0", "reserve", proposal(STAR)).head == {"code": STOPS}


def test_however_often_a_hub_asks_it_gets_one_question_to_the_operator_for_each_and_no_memory(tmp_path):  # noqa: F811
    with straw_hub(STAR, tmp_path) as straw, mock.patch.object(Approvals, "MOST", 8):
        asked, service = operators(straw), straw.services["party0"]
        before = state(service), service.log.unerased(), sorted(tmp_path.rglob("*"))
        for number in range(30):
            for _ in range(2):  # the second time it is known what the operator said
                assert straw.raw("party0", "consider", proposal(STAR, f"run{number}")).head == {"code": OK}
        assert asked == {"party0": 30}
        assert len(service.approvals) == 8
        assert before == (state(service), service.log.unerased(), sorted(tmp_path.rglob("*")))
        assert straw.raw("party0", "reserve", proposal(STAR, "run0")).head["code"] == OK  # forgotten: asked about again
        assert straw.raw("party0", "reserve", proposal(STAR, "run29")).head["code"] == OK
        assert asked == {"party0": 31}


def test_a_crowd_of_proposals_is_put_off_before_it_is_priced_or_shown_to_anybody(tmp_path, caplog):  # noqa: F811
    """One that the operator said yes to is reserved all the same, and what is put off is neither refused nor written down."""
    with straw_hub(STAR, tmp_path) as straw:
        asked, service = operators(straw), straw.services["party0"]
        service.pace = RateLimit(1e-6, 3)
        for number in range(3):
            assert straw.raw("party0", "consider", proposal(STAR, f"run{number}")).head == {"code": OK}
        before = state(service)
        with mock.patch.object(party_run, "price", side_effect=AssertionError("it was priced")):
            for number in range(3, 40):
                for what in ("consider", "reserve"):
                    assert straw.raw("party0", what, proposal(STAR, f"run{number}")).head == {"code": UNDECIDED}
        assert asked == {"party0": 3}
        assert before == state(service)
        assert caplog.text.count("too many proposals") == 1
        assert straw.raw("party0", "reserve", proposal(STAR, "run1")).head["code"] == OK
        assert straw.raw("party0", "consider", proposal(STAR, "run1")).head == {"code": OK}  # it is under way here
        assert straw.raw("party1", "consider", proposal(STAR, "run9")).head == {"code": OK}  # each has its own pace


def test_a_yes_that_the_ledger_refused_is_not_kept(tmp_path):  # noqa: F811
    """Or the next answer would come at once, and tell that it was the budget and not the operator."""
    with straw_hub(NOISY, tmp_path, co.Policy(epsilon=0.5, delta=1e-6)) as straw:
        asked = operators(straw)
        for _ in range(3):
            assert straw.raw("party0", "consider", proposal(NOISY, seeded=False)).head == {"code": REFUSES}
        assert asked == {"party0": 3}
        assert len(straw.services["party0"].approvals) == 0


def test_all_who_would_not_take_part_are_named(tmp_path):  # noqa: F811
    with straw_hub(NOISY, tmp_path) as straw:
        for name in ("party0", "party1"):
            straw.services[name].approve = lambda _: False
        with pytest.raises(PeerFailed, match=r"'party0' refused 'consider' .* Nor do these take part: 'party1'\."):
            run_of(straw, NOISY, tmp_path / "hub")


def test_a_party_that_made_a_run_fail_is_not_waited_for_a_second_time(tmp_path):  # noqa: F811
    """It may never answer: the others hear that the run is over, and the coordinator's user why, within seconds."""
    with straw_hub(NOISY, tmp_path) as straw:
        straw.services["party0"].approve = lambda _: False
        straw.patience, ask, given = 600.0, straw.ask, {}

        def noting(party, what, *rest):
            given.setdefault(what, set()).add(rest[2] if len(rest) > 2 else None)
            return ask(party, what, *rest)

        straw.ask = noting
        with pytest.raises(PeerFailed):
            run_of(straw, NOISY, tmp_path / "hub")
        assert given["consider"] == {None}
        assert given["over"] == {FAREWELL}
