"""How a run ended: its code comes back as it was, and only an own refusal returns what others reserved."""

from __future__ import annotations

import pytest

from colonnade.privacy.ending import ABORTED, FINISHED, Ending, How

ENDINGS = [Ending(how, error, by_hub) for how in How for error in ("", "PolicyRefused") for by_hub in (False, True)]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.code)
def test_the_code_of_an_ending_is_read_as_it_was_written(ending: Ending) -> None:
    assert Ending.of(ending.code) == ending


def test_endings_have_different_codes_and_every_one_has_words() -> None:
    assert len({ending.code for ending in ENDINGS}) == len(ENDINGS)
    assert all(ending.words for ending in ENDINGS)
    assert (FINISHED.words, ABORTED.words) == ("finished", "aborted")
    assert Ending(How.LEFT_BEHIND, by_hub=True).words == "the hub says: finished after this party was lost"


def test_only_a_refusal_of_ones_own_returns_what_others_reserved() -> None:
    assert {ending.code for ending in ENDINGS if ending.returns_all} == {"refused", "refused/PolicyRefused"}


@pytest.mark.parametrize("code", ["", "over", "finished ", "refused/", "refused/a b", "hub", "hub/hub/failed", 3, None])
def test_another_text_is_no_ending(code: object) -> None:
    with pytest.raises(ValueError, match="no code of an ending"):
        Ending.of(code)
