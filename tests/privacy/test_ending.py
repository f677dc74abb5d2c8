"""How a run ended: its code comes back as it was, and only an own refusal returns what others reserved."""

from __future__ import annotations

import pytest

from colonnade.privacy.events import ABORTED, EXACT, FINISHED, Charge, Ending, How, Policy
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.store import MemoryLog

ENDINGS = [Ending(how, error, by_hub) for how in How for error in ("", "PolicyRefused") for by_hub in (False, True)]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.code)
def test_the_code_of_an_ending_is_read_as_it_was_written(ending: Ending) -> None:
    assert Ending.of(ending.code) == ending


@pytest.mark.parametrize("error", ["Größe", "x" * 81, "RayTaskError(KeyError)", "a/b", "a b", "\n"])
def test_an_error_of_any_name_ends_a_run_in_a_code_that_can_be_read(error: str) -> None:
    ending = Ending(How.FAILED, error)
    assert Ending.of(ending.code) == ending
    log = MemoryLog()
    book = Ledger(log, "a", Policy(exact=True))
    book.open_run("run", Terms("m", "s", "nobody", "one row", "replace one row", ""), {"a": (Charge(EXACT, 1, "x"),)})
    book.close_run("run", ending)
    assert (book.open_runs(), book.row_spent()) == (set(), 0.0)


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
