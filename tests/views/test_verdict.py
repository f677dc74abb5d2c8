"""The verdict of a report: asked in the label's words, priced in one sentence, and what left in three colours that mean only that."""

from __future__ import annotations

import re
from importlib.resources import files

import polars as pl
import pytest

import colonnade as co
from colonnade.privacy.events import EXACT, KINDS, MASKED, SCORES, Audience, Event, Mechanism, kind_of
from colonnade.views import chart
from colonnade.views.page import render_report
from colonnade.views.parts import with_error
from colonnade.views.verdict import date_of
from tests.helpers import verdicts
from tests.helpers.pages import Page
from tests.helpers.verdicts import SCHEMAS, frames

private = verdicts.private
exact = verdicts.exact

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def verdict(fit):
    text = render_report(fit)
    (inside,) = re.findall(r'<dl class="verdict">(.*?)</dl>', text, re.DOTALL)
    return dict(re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd></div>", inside, re.DOTALL))


@pytest.mark.chance(0, "titles, which are those of every report")
def test_the_verdict_comes_first_and_answers_in_order(private):
    text = render_report(private)
    assert re.findall(r"<section id=\"(\w+)\"", text)[0] == "verdict"
    assert list(verdict(private)) == ["Asked", "How good", "Cost", "What left", "Approved"]


@pytest.mark.chance(0, "words and prices of a report: nothing that was drawn is in them")
def test_the_question_is_asked_in_the_words_of_the_label(private, exact):
    assert "<h1>Predicting “subscribed”</h1>" in render_report(private)
    for fit in (private, exact):
        asked = verdict(fit)["Asked"]
        assert "Whether “subscribed”, as bank records it, is “yes” rather than “no”, from the columns of " in asked
        assert "over 400 rows in common." in asked


@pytest.mark.chance(0, "the id of a run beside itself")
def test_a_report_says_when_its_run_began(private):
    assert date_of("20260102T030405-abcdef") == "2 January 2026, 03:04 UTC, "
    assert date_of("elsewhere") == ""
    assert f'<p class="soft">{date_of(private.run)}run <code>{private.run}</code></p>' in render_report(private)


@pytest.mark.chance(0, "words and prices of a report: nothing that was drawn is in them")
def test_the_price_is_one_figure_and_one_plain_sentence(private, exact):
    cost = verdict(private)["Cost"]
    assert "ε = 1 at δ = 1e-05, for one row." in cost
    assert "in at most 73.2 % of cases, where a coin names it in 50 %" in cost  # (e + δ) / (1 + e) = 0.731061
    assert "No epsilon: exact values left" in verdict(exact)["Cost"]


@pytest.mark.chance(0, "kinds of releases, whatever was drawn")
def test_what_left_is_masked_or_noisy_in_a_private_run_and_exact_in_another(private, exact):
    def chips(fit):
        return re.findall(r'<span class="chip (\w+)">(\w+)</span>', verdict(fit)["What left"])

    assert {kind for kind, _ in chips(private)} == {"masked", "noisy"}
    assert {kind for kind, _ in chips(exact)} == {"exact"}
    assert all(kind == word for kind, word in [*chips(private), *chips(exact)])


@pytest.mark.chance(0, "words and prices of a report: nothing that was drawn is in them")
def test_a_private_report_nowhere_says_that_exact_values_may_leave(private, exact):
    assert "exact values may leave" not in render_report(private)
    assert "exact values may leave" in verdict(exact)["Approved"]
    assert "noisy values only, epsilon at most 3 (delta 1e-05)" in verdict(private)["Approved"]
    assert "bank: no limit of its own" in verdict(private)["Approved"]


@pytest.mark.chance(0, "whether figures are told, not which")
def test_nothing_is_said_to_be_unreleased_or_unkept(private, exact):
    for fit in (private, exact):
        text = " ".join(Page(render_report(fit)).words)
        assert "not released" not in text
        assert "not kept with" not in text


@pytest.mark.chance(0, "one fit beside itself")
def test_a_saved_fit_has_the_same_verdict(private, tmp_path):
    private.save(tmp_path / "fit.json")
    assert render_report(co.load(tmp_path / "fit.json")) == render_report(private)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (EXACT, "exact"),
        (SCORES, "exact"),
        (MASKED, "masked"),
        (Event(Mechanism.GAUSSIAN, 0.1, 1.0), "noisy"),
        (Event(Mechanism.GUMBEL, 0.1, 1.0), "noisy"),
        (Event(Mechanism.LATTICE, float("inf"), 1.0), "exact"),  # its noise was seeded
        (Event(Mechanism.LATTICE, 0.1, 1.0, audience=Audience.CONSORTIUM), "exact"),  # members see it so
        (Event(Mechanism.GAUSSIAN, 0.1, 1.0, audience=Audience.CONSORTIUM), "noisy"),
    ],
)
def test_a_release_looks_masked_noisy_or_exact(event, kind):
    assert kind_of(event) == kind


def test_the_three_colours_mean_nothing_else():
    style = (files("colonnade.views") / "style.css").read_text()
    used = re.findall(r"^([^\n{}]*)\{[^}]*var\(--(masked|noisy|exact)\)", style, re.MULTILINE)
    assert {(where.strip(), kind) for where, kind in used} == {
        *((f".chip.{kind}", kind) for kind in KINDS),
        (".statement.none", "exact"),
    }
    taken = {colour.lower() for kind in KINDS for colour in re.findall(rf"--{kind}: (#\w+)", style)}
    assert not taken & {colour.lower() for colour in (*chart.COLOURS, chart.INK)}
    assert chart.INK not in chart.COLOURS


def test_a_party_has_one_colour_in_every_part_of_a_report(tmp_path):
    tables = frames()
    tables["registry"] = (
        tables["registry"].with_columns(kind=pl.col("client").cast(pl.String).str.slice(-1)).drop("age")
    )
    schemas = {**SCHEMAS, "registry": co.Schema((co.Categorical("kind", tuple("0123456789")),))}
    fed = co.Federation.from_frames(tables, on="client", label=("bank", "subscribed"), schemas=schemas)
    fit = co.fit(fed.with_classes("yes", "no"), co.Problem(co.Logistic(), penalty=co.Ridge(0.01)))
    text = render_report(fit)
    second = chart.COLOURS[1]  # of bank, whose number alone has a curve
    curve = text[text.index("What numbers say") :]
    assert f'stroke="{second}"' in curve[: curve.index("</figure>")]
    assert list(fit.coefficients) == ["registry", "bank"]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.72134, 0.00234, "0.7213 ± 0.0023"),
        (-12.3456, 0.0996, "−12.35 ± 0.10"),
        (1234.5, 96.4, "1234 ± 96"),
        (123456.0, 7890.0, "123500 ± 7900"),
        (0.5, None, "0.5"),
        (0.5, 0.0, "0.5 ± 0"),
        (2.5e-12, 1.26e-13, "2.500e−12 ± 1.3e−13"),
    ],
)
def test_of_an_uncertainty_two_digits_are_shown(value, error, text):
    assert with_error(value, error) == text
