"""The officer's page: what a data-protection officer files and signs, from the fit and the ledgers, without a figure about a row."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.privacy.conditions import Code, Condition, Kind, of_kind
from colonnade.views.officer import render_officer
from tests.helpers.pages import Page, table_of
from tests.helpers.verdicts import (
    exact,  # noqa: F401  fixtures
    private,  # noqa: F401  fixtures
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

SECTIONS = ["purpose", "parties", "unit", "left", "budget", "assumptions", "approvals", "words", "hashes"]


@pytest.mark.chance(0, "parts and tags of a page, which the noise does not change")
def test_the_page_has_every_part_and_needs_nothing_else(private):  # noqa: F811
    text = render_officer(private, purpose="To plan <the> winter")
    page = Page(text)
    assert [attrs["id"] for tag, attrs in page.elements if tag == "section"] == SECTIONS
    assert "To plan <the> winter" in page.words
    assert "http" not in text.replace("http-equiv", "")
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "form"}


@pytest.mark.chance(0, "names of declared columns")
def test_it_names_every_column_that_was_used_and_has_a_line_for_the_officer(private):  # noqa: F811
    told = render_officer(private)
    for party, schema in private.schemas.items():
        assert ", ".join(column.name for column in schema.columns) in told, party
    assert "the data-protection officer: name, date, signature" in told


@pytest.mark.chance(0, "names of the label and its classes")
def test_without_a_purpose_it_repeats_what_was_asked(private):  # noqa: F811
    (said,) = re.findall(r'id="purpose".*?</h2><p>(.*?)</p></section>', render_officer(private))
    assert "“subscribed”, as bank records it, is “yes” rather than “no”" in said


@pytest.mark.chance(0, "budgets that the test gives")
def test_spent_and_left_stand_side_by_side_and_a_missing_limit_is_said(private):  # noqa: F811
    line = {"party": "bank", "limit": "ε 4 (δ 1e-06)", "spent": "ε 1", "left of the limit": "92%: ε 3.8"}
    free = {"party": "registry", "limit": "none on record", "spent": "ε 1", "left of the limit": "no limit"}
    page = Page(render_officer(private, budgets=[line, free]))
    assert [list(line.values()), list(free.values())] == table_of(page, "What was spent, and what is left")[-2:]
    words = " ".join(page.words)
    assert "left is the ε of one more run that would still be let through" in words
    assert "No limit is set for registry:" in words
    assert "No limit is set" not in " ".join(Page(render_officer(private, budgets=[line])).words)


@pytest.mark.chance(0, "words of the statement and of what left, which the plan fixes")
def test_words_that_only_a_statistician_knows_are_explained(private, exact):  # noqa: F811
    meanings = dict(table_of(Page(render_officer(private)), "What words on this page mean"))
    assert {"Gram matrix", "class sums", "mask", "ε", "δ"} == meanings.keys()
    assert "What words on this page mean" not in " ".join(Page(render_officer(exact)).words)
    encrypted = (Condition(Code.LATTICES, (40, 130, 117)),)
    page = render_officer(replace(private, privacy=replace(private.privacy, conditions=encrypted)))
    assert "2 to the power of 128" in dict(table_of(Page(page), "What words on this page mean"))["bits of work"]


@pytest.mark.chance(0, "words, which the plan fixes")
def test_delta_is_what_is_added_and_no_chance_of_failure(private):  # noqa: F811
    """One-coordinate noise at epsilon 0.1 goes beyond e^epsilon 42 times as often as delta: tests/views/test_odds.py."""
    meanings = dict(table_of(Page(render_officer(private)), "What words on this page mean"))
    assert "at most e^ε times that under the other, plus δ" in meanings["ε"]
    assert "added to these chances, for any set of outcomes" in meanings["δ"]
    assert "not the chance that the odds for the truth grow by more than e^ε" in meanings["δ"]


@pytest.mark.chance(0, "words of the statement, which the trust model fixes")
def test_who_can_break_it_stands_beside_epsilon(private):  # noqa: F811
    """Not in a later section alone: whoever reads the price reads at once against whom it says nothing."""
    page = render_officer(private)
    (price,) = re.findall(r'<section[^>]*id="unit".*?</section>', page, re.DOTALL)
    words = " ".join(Page(price).words).lower()
    broken = [one.full.lower() for one in of_kind(private.privacy.conditions, Kind.BROKEN_BY)]
    assert len(broken) == 2
    assert all(one in words for one in broken)


@pytest.mark.chance(0, "words of the statement, which the trust model fixes")
def test_no_note_stands_among_what_it_holds_by(private):  # noqa: F811
    """Of every condition that there is, at once: each under its own heading only."""
    figures = {Code.LARGE_DELTA: (0.1, 30, "rows"), Code.PAPER: ("x is so",), Code.BOUNDS_READ_OFF: ("bank",)}
    figures |= {Code.LEDGERS_REPLACED: (("bank", "2031-01-02"),), Code.PARTIES_LOST: (("lab", "in round 3"),)}
    figures |= {Code.LOOKED_AT: (0.25,), Code.LOOKED_BESIDE: (0.25, 1.5)}
    every = tuple(Condition(code, figures.get(code, ())) for code in Code)
    page = render_officer(replace(private, privacy=replace(private.privacy, conditions=every)))
    (part,) = re.findall(r'id="assumptions".*?</section>', page, re.DOTALL)
    lists = [" ".join(Page(one).words).lower() for one in re.findall(r"<ul.*?</ul>", part, re.DOTALL)]
    assert len(lists) == 3
    for kind, shown in zip((Kind.HOLDS_IF, Kind.BROKEN_BY, Kind.NOTE), lists, strict=True):
        for one in every:
            assert (one.full.lower() in shown) is (one.kind is kind), one


@pytest.mark.chance(0, "words of the statement, which the trust model fixes")
def test_every_condition_of_the_statement_is_on_it(private):  # noqa: F811
    words = " ".join(Page(render_officer(private)).words).lower()
    assert {one.kind for one in private.privacy.conditions} == {Kind.HOLDS_IF, Kind.BROKEN_BY}
    assert [one.full for one in private.privacy.conditions if one.full.lower() not in words] == []


def test_of_an_exact_run_it_says_that_nobody_is_protected(exact):  # noqa: F811
    words = Page(render_officer(exact)).words
    assert "Nobody: exact values left the parties." in words
    assert exact.privacy.sentence in words


@pytest.mark.chance(0, "facts that the test gives, and names of hashes")
def test_hashes_and_pinned_keys_of_what_ran_are_on_it(private):  # noqa: F811
    facts = {"keys": {"bank": "ed25519:ab"}, "federation": "f00d", "protocol": "0.1.0 abc"}
    page = Page(render_officer(replace(private, facts=facts)))
    ran = dict(row for row in table_of(page, "Hashes of what ran") if len(row) == 2)
    assert (ran["release and protocol"], ran["federation file, SHA-256"]) == ("0.1.0 abc", "f00d")
    assert {"model, SHA-256", "problem, SHA-256", "schema of bank, SHA-256"} <= ran.keys()
    assert table_of(page, "Keys that the federation file pins") == [["bank", "ed25519:ab"]]


@pytest.mark.chance(0, "names of parties")
def test_every_party_has_a_line_to_sign(private):  # noqa: F811
    text = render_officer(private)
    assert re.findall(r"<li>(\w+): name, date, signature</li>", text) == ["registry", "bank"]


@pytest.mark.chance(0, "the words of a refusal")
@pytest.mark.parametrize("words", [["--purpose", "x"], ["--store", "runs"]])
def test_what_is_for_the_officers_page_is_refused_for_the_report(private, tmp_path, words):  # noqa: F811
    private.save(tmp_path / "fit.json")
    said = CliRunner().invoke(app, ["report", str(tmp_path / "fit.json"), *words])
    assert said.exit_code != 0
    assert "add --officer" in " ".join(said.output.split())
