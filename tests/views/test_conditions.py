"""Every condition of a statement stands on every page that says what a run promises, and says the same on all of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import pytest

from colonnade.cli.party import _terms
from colonnade.methods.node_setup import Call
from colonnade.network.party_run import Request
from colonnade.privacy.conditions import MEANINGS, Code, Condition, Kind, of_kind
from colonnade.privacy.ledger import Terms
from colonnade.privacy.statement import OF_TRUST, Guarantee, Privacy, PrivacyStatement, guarantee_under
from colonnade.views.officer import PUBLIC, STANDING, render_officer
from colonnade.views.page import render_report
from colonnade.views.verdict import privacy_in_short
from tests.helpers.verdicts import (
    exact,  # noqa: F401  fixtures
    private,  # noqa: F401  fixtures
)

WORDS = pytest.mark.chance(0, "words of conditions that the test gives")

FIGURES = {
    Code.LATTICES: (40, 130, 117),
    Code.PAPER: ("every row is short",),
    Code.LARGE_DELTA: (0.1, 30, "rows"),
    Code.BOUNDS_READ_OFF: ("bank", "registry"),
    Code.LOOKED_AT: (0.3,),
    Code.LOOKED_BESIDE: (0.3, 4.2),
    Code.LEDGERS_REPLACED: (("bank", "2031-01-02T00:00:00+00:00"),),
    Code.PARTIES_LOST: (("lab", "in round 3"),),
}
EVERY = [Condition(code, FIGURES.get(code, ())) for code in Code]


def words(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def stating(statement: PrivacyStatement, *conditions: Condition) -> PrivacyStatement:
    return replace(statement, conditions=conditions, guarantee=guarantee_under(conditions))


def as_heard(one: Condition) -> str:
    """Its words, whatever the case of the first letter."""
    return one.full[1:]


def test_every_condition_has_words_and_every_code_an_example() -> None:
    assert MEANINGS.keys() == set(Code)
    assert all(one.full for one in EVERY)


@WORDS
@pytest.mark.parametrize("one", EVERY, ids=str)
def test_a_condition_stands_on_every_page_under_its_own_heading(private, one):  # noqa: F811
    fit = replace(private, privacy=stating(private.privacy, one))
    said, officer, report = fit.privacy, words(render_officer(fit)), words(render_report(fit))
    heads = {Kind.HOLDS_IF: "It holds if ", Kind.BROKEN_BY: "It is broken by ", Kind.NOTE: "Note: "}
    assert f"{heads[one.kind]}{one.full}".lower() in said.sentence.lower()
    assert said.sentence in report
    assert as_heard(one) in words(said._repr_html_())
    assert as_heard(one) in json.dumps(said.table(), ensure_ascii=False)
    # The officer's page: under the heading of its kind, and nowhere else among what the statement rests on.
    part = officer[officer.index("What it rests on") : officer.index("Approval and signatures")]
    place, broken, note = (part.find(text) for text in (as_heard(one), "It is broken by", " Note "))
    if one.kind is Kind.HOLDS_IF:
        assert 0 <= part.index("It holds if") < place
        assert place < part.index(STANDING[-1][1:])
    else:
        assert 0 <= {Kind.BROKEN_BY: broken, Kind.NOTE: note}[one.kind] < place
        assert part.count(as_heard(one)) == 1
    if one.kind is not Kind.HOLDS_IF:
        assert said.guarantee == Guarantee.PROVEN
    assert ("computational" in said.sentence.split(" for ")[0]) is one.computational


@WORDS
@pytest.mark.parametrize("one", EVERY, ids=str)
def test_an_operator_is_asked_with_the_same_words(private, one):  # noqa: F811
    call = Call(None, private.problem, None)
    request = Request("run", "bank", Terms("m", "s", "secure", "one row", "replace one row", ""), call, {}, 30)

    asked = replace(request, call=replace(call, privacy=Privacy(1.0, 1e-6, trust="secure")), conditions=(one,))
    assert (str(one.kind), one.full, "") in set(_terms(asked))


@WORDS
@pytest.mark.parametrize("one", EVERY, ids=str)
def test_the_terminal_says_every_note_and_every_condition_that_has_short_words(private, one):  # noqa: F811
    lines = privacy_in_short(stating(private.privacy, one))
    if one.kind is Kind.NOTE:
        assert lines["mind"] == one.full
    elif one.kind is Kind.HOLDS_IF:
        assert lines["verdict"].endswith(f", if {one.short or 'what its statement names holds'}")
    else:
        assert one.short
        assert lines["verdict"].endswith(f"; broken by {one.short}")
        assert "mind" not in lines


@WORDS
@pytest.mark.parametrize("trust", list(OF_TRUST))
def test_of_every_trust_model_the_verdict_says_something_of_what_it_rests_on(private, trust):  # noqa: F811
    lines = privacy_in_short(stating(private.privacy, *OF_TRUST[trust]))
    assert ", if " in lines["verdict"]
    assert not lines["verdict"].endswith("if ")
    assert all(one.short in lines["verdict"] for one in of_kind(OF_TRUST[trust], Kind.BROKEN_BY))


@WORDS
def test_bounds_that_were_read_off_are_not_said_to_be_public(private):  # noqa: F811
    """A standing assumption that this very statement denies is not repeated as one."""
    plain, told = (
        replace(private, privacy=stating(private.privacy, *conditions))
        for conditions in ((), (Condition(Code.BOUNDS_READ_OFF, ("bank",)),))
    )
    assert PUBLIC[1:] in words(render_officer(plain))
    assert PUBLIC[1:] not in words(render_officer(told))


@WORDS
def test_what_is_not_private_says_what_became_of_ledgers_and_parties(exact):  # noqa: F811
    lost = Condition(Code.PARTIES_LOST, FIGURES[Code.PARTIES_LOST])
    said = replace(exact.privacy, conditions=(lost,))
    assert "lab was lost in round 3" in said.sentence.lower()
    assert "lab was lost in round 3" in said._repr_html_().lower()


@pytest.mark.parametrize("one", EVERY, ids=str)
def test_a_condition_is_the_same_after_a_file(one: Condition) -> None:
    assert Condition.from_plain(json.loads(json.dumps(one.to_plain()))) == one


@pytest.mark.parametrize(
    "raw",
    [
        {"code": "unheard of", "figures": []},
        {"code": "masks", "figures": [1]},
        {"code": "masks", "figures": None},
        {"code": "lattices", "figures": [40, 130]},
        {"code": "lattices", "figures": [40, 130.5, 117]},
        {"code": "large delta", "figures": [0.1, 0, "rows"]},
        {"code": "large delta", "figures": [float("nan"), 30, "rows"]},
        {"code": "large delta", "figures": [0.1, 30, None]},
        {"code": "bounds read off", "figures": [1]},
        {"code": "bounds read off", "figures": "abc"},
        {"code": "bounds read off", "figures": []},
        {"code": "paper", "figures": [5]},
        {"code": "ledgers replaced", "figures": ["ab"]},
        {"code": "parties lost", "figures": [[{"a": 1}, None]]},
    ],
)
def test_a_file_with_a_condition_that_cannot_be_said_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"unheard of|no figures"):
        Condition.from_plain(raw)


def test_conditions_of_a_kind_keep_their_order() -> None:
    assert [one.code for one in of_kind(EVERY, Kind.BROKEN_BY)] == [Code.POOLING, Code.FORGING, Code.CHEATING]
