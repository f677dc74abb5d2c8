"""Claims about what a party refuses: letters that nobody asked for, of another run, of another kind or from somebody else, and keys
that the pinned one did not sign. Each is tried as an attack, with the code that is heard, and nothing is released or charged.
(Strangers at the door of a hub: test_streams.py; at that of a neighbour: test_streams_direct.py.)
"""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.data.federation_file import new_key
from colonnade.errors import ColonnadeError
from colonnade.methods.admm.private_sharing import Couple, SendNoisyLabels
from colonnade.methods.meeting import Introduce
from colonnade.methods.method import Done
from colonnade.network.party_service import OK, UNKNOWN
from colonnade.network.questions import Question
from colonnade.network.refusals import silence
from colonnade.privacy.keyring import Keyring
from colonnade.runtime.wire import Letter, decode, encode
from tests.helpers.frames import letters_of, with_letters
from tests.helpers.spending import own_spent
from tests.helpers.stub_hub import (
    BREAKS,
    GRAPH,
    NOISY,
    SECURE,
    Straw,
    entries,
    met,
    proposal,
    run_of,
    straw_hub,
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 30
ASKED = Couple(np.zeros(ROWS))  # what the coordinator asks a party first, in a run with noise


def brought(
    straw: Straw, letter: object, *, run="run", frame_run="run", place=0, sender="coordinator", receiver="party0"
):
    """The answer of party0 to a letter that the hub brings it."""
    sent = Letter(sender, receiver, place, 0, encode(letter, guarded=False))
    return straw.raw("party0", "turn", with_letters([sent], run, frame_run))


def said(answer) -> set[str]:
    return {type(decode(letter.body)).__name__ for letter in letters_of(answer.head)}


def test_what_is_asked_in_turn_is_answered_and_charged_once(tmp_path):
    """The control: what the letters below do not get. Played again it gets nothing."""
    with straw_hub(NOISY, tmp_path) as straw:
        met(straw, NOISY)
        answer = brought(straw, ASKED)
        assert (answer.head["code"], answer.head["failure"], said(answer)) == (OK, 0, {"NoisyPart"})
        (charged,) = entries(straw.services["party0"])
        again = brought(straw, ASKED)
        assert (again.head["code"], again.head["failure"], said(again)) == (OK, 0, set())
        assert entries(straw.services["party0"]) == [charged]


NOT_TAKEN = {
    "a frame of another run": ({"frame_run": "other"}, BREAKS),
    "a run that was never proposed": ({"run": "other", "frame_run": "other"}, UNKNOWN),
    "a letter for another party": ({"receiver": "party1"}, BREAKS),
}


@pytest.mark.parametrize(("changes", "code"), NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_a_letter_that_is_not_of_this_run_is_refused_and_leaves_no_trace(changes, code, tmp_path):
    with straw_hub(NOISY, tmp_path) as straw:
        met(straw, NOISY)
        log = straw.services["party0"].log
        rows = log.length()
        answer = brought(straw, ASKED, **changes)
        assert (dict(answer.head), answer.blobs) == ({"code": code}, ())
        assert log.length() == rows
        assert said(brought(straw, ASKED)) == {"NoisyPart"}  # the run goes on as if nothing had come


UNASKED = {
    "from a party that is no neighbour": (ASKED, {"sender": "party1"}),
    "from a stranger": (ASKED, {"sender": "nobody"}),
    "the second before the first": (ASKED, {"place": 1}),
    "of another method": (Introduce(), {}),
    "an answer": (Done(), {}),
    "a question to the label holder": (SendNoisyLabels(), {}),
    "about other rows": (Couple(np.zeros(ROWS + 1)), {}),
}


@pytest.mark.parametrize(("letter", "changes"), UNASKED.values(), ids=UNASKED)
def test_a_letter_that_has_no_place_in_the_run_ends_it_and_gets_a_farewell_alone(letter, changes, tmp_path):
    with straw_hub(NOISY, tmp_path) as straw:
        met(straw, NOISY)
        ledger = straw.services["party0"].ledger
        answer = brought(straw, letter, **changes)
        assert (answer.head["failure"], said(answer)) == (BREAKS, {"Failed"})
        assert [(x.sender, x.receiver, x.inside) for x in letters_of(answer.head)] == [("party0", "coordinator", "")]
        assert (entries(straw.services["party0"]), own_spent(ledger), ledger.open_runs()) == ([], 0.0, set())
        assert dict(brought(straw, ASKED).head) == {"code": UNKNOWN}  # and it is over, whatever comes then


# ------------------------------------------------------------------------------------------------ pinned keys


def test_a_key_that_the_pinned_one_did_not_sign_is_refused_and_nothing_leaves(tmp_path):
    """A hub that puts a key of its own in the place of a party's, to read what others cover for that party."""
    with straw_hub(GRAPH, tmp_path) as straw:
        blobs = {name: straw.raw(name, "reserve", proposal(GRAPH)).blobs for name in straw.made.names}
        others = [name for name in straw.made.names if name != "party0"]
        told = straw.services["party1"].runs["run"].cover._told
        pins = {name: member.public_key for name, member in straw.made.file.members.items()}
        forged = Keyring("run/cover", "party1", new_key()[1], pins, bytes(32), told).hello
        log = straw.services["party0"].log
        rows = log.length()
        for hello in (forged, (forged[0], blobs["party1"][1]), (blobs["party1"][0], forged[1]), blobs["party2"]):
            keys = [part for name in others for part in (hello if name == "party1" else blobs[name])]
            answer = straw.raw("party0", "meet", {"run": "run", "peers": others}, keys)
            assert dict(answer.head) == {"code": BREAKS}
            assert dict(straw.raw("party0", "turn", {"run": "run", "letters": []}).head) == {"code": UNKNOWN}
        assert log.length() == rows
        true = [part for name in others for part in blobs[name]]
        assert straw.raw("party0", "meet", {"run": "run", "peers": others}, true).head["code"] == OK


def test_a_party_that_signs_by_another_key_than_its_pin_gets_nothing_from_the_others(tmp_path):
    with straw_hub(SECURE, tmp_path) as straw:
        straw.services["party1"].identity = new_key()[1]  # past the check when the service opens
        with pytest.raises(ColonnadeError):
            run_of(straw, SECURE, tmp_path / "hub")
        left = {(edge[0], type(decode(body)).__name__) for edge, forms in straw.wire.items() for body in forms}
        honest = [name for name in straw.made.names if name != "party1"]
        assert {(name, kind) for name, kind in left if name in honest} == {
            (name, kind) for name in honest for kind in ("RunKey", "Failed")
        }
        for name in honest:
            assert entries(straw.services[name]) == []


@pytest.mark.parametrize("what", Question, ids=str)
def test_silence_is_said_of_who_may_still_think_or_of_who_hangs(what):
    """Only a run that is considered waits for an operator."""
    error = silence("bank", what, 30.0)
    assert (error.party, str(error).startswith(f"'bank' did not answer {what.value!r} for 30 seconds.")) == (
        "bank",
        True,
    )
    assert ("may not have decided yet" in str(error)) is (what is Question.CONSIDER)
    assert ("Its process hangs" in str(error)) is (what is not Question.CONSIDER)
