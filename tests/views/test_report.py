"""The report: self-contained, true to the fit, and readable."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise

import mpmath
import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import colonnade as co
from colonnade.model.facts import Coefficients
from colonnade.runs.evaluation import GROUPS, area, evaluate_fit, grouped, roc_curve
from colonnade.views import chart
from colonnade.views import verdict as odds
from colonnade.views.officer import render_officer
from colonnade.views.page import render_report, write_report
from colonnade.views.parts import human_bytes
from colonnade.views.verdict import Quality
from tests.helpers.pages import Page, contrast, table_of

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

SECTIONS = [
    "verdict",
    "parties",
    "model",
    "privacy",
    "found",
    "traffic",
    "convergence",
    "cost",
    "settings",
    "reproduction",
]
PROBLEM = co.Problem(co.Logistic(), co.L1Ball(3.0), intercept=True)


def fitted(X, y, parties):
    return co.fit(co.Federation.split(X, y, parties), PROBLEM, co.DistributedFrankWolfe(rounds=12, tolerance=0.0))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 9))
    return X, np.where(X[:, 0] - X[:, 5] + rng.normal(size=80) > 0.0, 1, -1)


@pytest.fixture(scope="module")
def fit(table):
    return fitted(*table, {"hospital": [0, 1, 2], "lab": [3, 4, 5], "insurer": [6, 7, 8]})


@pytest.fixture(scope="module")
def page(fit, tmp_path_factory):
    path = fit.report(tmp_path_factory.mktemp("report") / "report.html")
    return Page(path.read_text(encoding="utf-8"))


def agrees(text, value):
    """Whether "0.7213 ± 0.0023" is this value, to the last digit shown."""
    said, _, error = text.replace("−", "-").partition(" ± ")
    digits = len(said.partition(".")[2])
    counting = error.replace(".", "").lstrip("0")
    return abs(float(said) - value) <= 0.5 * 10**-digits + 1e-12 and (not error or len(counting) == 2)


def shown(fit, evaluation=None, evaluation_is=None, **options):
    asked = evaluation is not None or evaluation_is is not None
    found = evaluate_fit(fit, evaluation, evaluation_is) if asked else None
    return Page(render_report(fit, evaluation=found, **options))


# ---------------------------------------------------------------- one file that needs nothing else


def test_the_report_loads_nothing_and_runs_nothing(page):
    links = [attrs[name] for _, attrs in page.elements for name in ("src", "href", "data") if name in attrs]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not {tag for tag, _ in page.elements} & {
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "script",
        "form",
    }
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    style = (files("colonnade.views") / "style.css").read_text()
    assert "url(" not in style
    assert "@import" not in style
    assert "http" not in page.text.replace("http-equiv", "")


def test_the_report_forbids_itself_every_request(page):
    policy = next(attrs["content"] for tag, attrs in page.elements if tag == "meta" and "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    assert "http" not in policy


def test_the_report_is_small_enough_to_send(page):
    assert len(page.text.encode()) < 200_000


def test_every_section_has_a_heading_and_a_link_to_it(page):
    assert ("html", {"lang": "en"}) in page.elements
    ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
    assert ids == SECTIONS
    assert {f"#{key}" for key in SECTIONS} == {attrs["href"] for tag, attrs in page.elements if tag == "a"}
    assert len(SECTIONS) == sum(tag == "h2" for tag, _ in page.elements)


def test_landmarks_and_headings_are_in_order(page):
    tags = [tag for tag, _ in page.elements]
    assert [tags.count(name) for name in ("header", "nav", "main", "h1")] == [1, 1, 1, 1]
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_chart_is_described_and_has_its_figures_in_a_table(page):
    assert len(page.charts) == 4  # what left by round, gap, objective, bytes so far
    assert all(len(label) > 15 for label in page.charts)
    figures_in = [k for k, (tag, _) in enumerate(page.elements) if tag == "figure"]
    assert len(figures_in) == 4
    for start, end in zip(figures_in, [*figures_in[1:], None], strict=True):
        inside = {tag for tag, _ in page.elements[start:end]}
        assert {"svg", "figcaption", "details", "table"} <= inside
    hidden = [attrs.get("aria-hidden") for tag, attrs in page.elements if tag == "svg" and attrs.get("class") == "bar"]
    assert hidden
    assert set(hidden) == {"true"}


def test_the_table_of_traffic_agrees_with_the_fit(page, fit):
    head, *lines, total = table_of(page, "Messages by party")
    assert head == ["party", "direction", "message", "count", "bytes", "share of the largest"]
    ways = {"up": "left", "down": "reached"}
    expected = {
        (line["party"], ways[line["direction"]], line["type"], f"{line['messages']:,}", human_bytes(line["bytes"]))
        for line in fit.communication.by("party", "direction", "type").to_dicts()
    }
    assert expected == {tuple(line[:5]) for line in lines}
    assert len(expected) == len(lines)
    assert [f"{fit.communication.messages:,}", human_bytes(fit.communication.bytes)] == total[3:5]


def test_the_timeline_holds_what_left_in_every_round(page, fit):
    head, *lines = table_of(page, "Bytes that left, from this round on")
    up = fit.communication.by("party", "direction", "round").to_dicts()
    sizes = {(line["party"], line["round"]): line["bytes"] for line in up if line["direction"] == "up"}
    assert [str(number) for number in range(fit.communication.rounds + 1)] == [line[0] for line in lines]
    for line in lines:
        assert [human_bytes(sizes.get((party, int(line[0])), 0)) for party in head[1:]] == line[1:]


def test_the_bytes_so_far_end_at_what_the_fit_counted(page, fit):
    totals = {line["direction"]: line["bytes"] for line in fit.communication.by("direction").to_dicts()}
    last = table_of(page, "Bytes up to a round")[-1]
    assert [str(fit.communication.rounds), human_bytes(totals["up"]), human_bytes(totals["down"])] == last


@pytest.mark.parametrize("name", ["gap", "objective"])
def test_the_tables_of_convergence_are_the_history(page, fit, name):
    head, *lines = table_of(page, f"The {name} in 12 of 12 rounds")
    assert head == ["round", name]
    assert fit.history["round"].to_list() == [int(line[0]) for line in lines]
    found = [float(line[1].replace("−", "-")) for line in lines]
    assert found == pytest.approx(fit.history[name].to_list(), rel=1e-3)


def test_the_table_of_coefficients_holds_every_one_that_is_not_zero(page, fit):
    _, *rows = table_of(page, "Coefficients")
    expected = Counter({party: int(np.count_nonzero(x)) for party, x in fit.coefficients.items()})
    assert +expected == Counter(party for party, _, _ in rows)
    sizes = [abs(float(value.replace("−", "-"))) for _, _, value in rows]
    assert sizes == sorted(sizes, reverse=True)


def test_no_value_of_a_row_is_in_the_report(page, table):
    values = table[0].ravel().tolist()
    assert not [value for value in values if repr(value) in page.text or f"{value:.7g}" in page.text]


def test_names_are_shown_as_text_and_never_run(table, tmp_path):
    X, y = table
    bad = "</script><img src=x onerror=alert(1)>"
    frame = pl.DataFrame({bad: X[:, 0], "b": X[:, 5]})
    fit = fitted(frame, y, {"a<b": [bad], "c&d": ["b"]})
    page = Page(fit.report(tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "img" not in {tag for tag, _ in page.elements}
    assert ["a<b", bad] in [row[:2] for row in table_of(page, "Coefficients")]
    assert bad in [row[0] for row in table_of(page, "The ")]


def test_a_saved_fit_has_the_same_report(fit, page, tmp_path):
    fit.save(tmp_path / "fit.json")
    again = co.load(tmp_path / "fit.json").report(tmp_path / "again.html")
    assert page.text == again.read_text(encoding="utf-8")


def test_a_fit_that_released_no_history_has_no_empty_section_and_no_empty_tile(fit, tmp_path):
    silent = replace(fit, notes=(), gap=None, objective=None)
    page = Page(write_report(silent, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(page.charts) == 2
    assert "convergence" not in [attrs.get("id") for tag, attrs in page.elements if tag == "section"]
    assert "not released" not in page.text
    assert "<dt>objective</dt>" not in page.text


def test_coefficients_held_elsewhere_are_said_to_be_there(fit, tmp_path):
    own = {party: x for party, x in fit.coefficients.items() if party != "lab"}
    apart = replace(fit, coefficients=Coefficients(own, elsewhere=["lab"]))
    page = Page(write_report(apart, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert ["lab", "held there", "held there", "held there"] in table_of(page, "Columns by party")
    assert "lab" not in {party for party, *_ in table_of(page, "Coefficients")}


def test_a_model_of_zeros_has_a_report(fit, tmp_path):
    zero = Coefficients({party: np.zeros_like(x) for party, x in fit.coefficients.items()})
    page = Page(write_report(replace(fit, coefficients=zero), tmp_path / "r.html").read_text(encoding="utf-8"))
    assert not [caption for caption in page.tables if "largest of" in caption]
    assert any("known here are zero" in words for words in page.words)


def test_figures_of_quality_come_with_the_data_they_were_computed_on(fit, tmp_path):
    quality = Quality("AUC", {"joint": 0.7251, "alone": 0.6}, "On 1,000 rows nobody trained on.")
    path = write_report(fit, tmp_path / "report.html", quality=quality)
    page = Page(path.read_text(encoding="utf-8"))
    assert table_of(page, "The joint model") == [["model", "AUC"], ["joint", "0.7251"], ["alone", "0.6"]]
    assert quality.note in page.words
    spread = replace(quality, errors={"joint": 0.00234, "alone": 0.0196}, values={**quality.values, "open": 0.71999})
    page = shown(fit, quality=replace(spread, not_private="open"))
    _, *rows = table_of(page, "This model, one without privacy")
    assert [row[:2] for row in rows] == [["joint", "0.7251 ± 0.0023"], ["open", "0.72"], ["alone", "0.600 ± 0.020"]]


def test_the_sentence_about_privacy_is_in_the_report(page, fit):
    assert fit.privacy.sentence in page.words
    assert ["epsilon", "no bound"] in table_of(page, "The statement")


@pytest.mark.parametrize("name", ["missing/report.html", ""])
def test_a_place_where_no_report_can_be_written_is_refused(fit, tmp_path, name):
    with pytest.raises(co.InvalidInput, match=r"create it|name a file"):
        fit.report(tmp_path / name)
    assert not list(tmp_path.iterdir())


@given(st.integers(0, 10**16))
def test_human_bytes_are_within_half_a_percent(count):
    value, unit = human_bytes(count).replace(",", "").split()
    scale = 1000.0 ** ["B", "kB", "MB", "GB", "TB", "PB"].index(unit)
    assert abs(float(value) * scale - count) <= 0.005 * count


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (1840, "1.84 kB"), (999_999, "1.00 MB")])
def test_human_bytes_have_three_digits(count, text):
    assert text == human_bytes(count)


def test_text_and_bars_stand_out_in_light_and_in_dark():
    style = (files("colonnade.views") / "style.css").read_text()
    schemes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in style.split(":root {")[1:]]
    assert len(schemes) == 3
    for scheme in schemes:
        for text in ("text", "soft", "accent"):
            for back in ("page", "card"):
                assert contrast(scheme[text], scheme[back]) >= 4.5
        assert contrast(scheme["text"], scheme["exact-back"]) >= 4.5
        for colour in chart.COLOURS:
            assert contrast(colour, scheme["page"]) >= 3.0


# ---------------------------------------------------------------- charts


def points(svg: str) -> list[list[tuple[float, float]]]:
    found = re.findall(r'<polyline points="([^"]*)"', svg)
    return [[tuple(map(float, pair.split(","))) for pair in one.split()] for one in found]


curves = st.lists(st.tuples(st.integers(0, 500), st.integers(-500, 500)), min_size=2, max_size=20, unique=True)


@given(curves)
def test_a_curve_is_drawn_where_its_values_are(values):
    xs, ys = ([float(value[k]) for value in values] for k in (0, 1))
    assume(len(set(xs)) > 1 and len(set(ys)) > 1)
    line = chart.Curve("one", list(zip(xs, ys, strict=True)), "#000000")
    (drawn,) = points(chart.lines([line], chart.Axis("x"), chart.Axis("y"), label="a curve of the test"))
    for k, wanted in ((0, xs), (1, [-y for y in ys])):  # in a picture y counts downwards
        low, high = min(wanted), max(wanted)
        room = 0.04 / 1.08 * 1000
        expected = [room + (1000 - 2 * room) * (value - low) / (high - low) for value in wanted]
        assert [point[k] for point in drawn] == pytest.approx(expected, abs=0.051)  # one digit is printed


@given(st.floats(1e-15, 1e3), st.floats(1.5, 1e12), st.booleans())
def test_every_tick_is_on_the_axis_and_says_where_it_is(low, factor, log):
    axis = chart.Axis("y", log=log)
    span = axis.span([low, low * factor])
    ticks = axis.ticks(span)
    assert 2 <= len(ticks) <= 8
    for share, text in ticks:
        assert -1e-9 <= share <= 1 + 1e-9
        value = float(text.replace("−", "-").replace(",", ""))
        scaled = math.log10(value) if log else value
        assert (scaled - span[0]) / (span[1] - span[0]) == pytest.approx(share, abs=2e-3)


def test_the_parts_of_a_stacked_bar_stand_one_above_the_other():
    heights = {"a": [1.0, 2.0], "b": [3.0, 0.0]}
    first, second = chart.COLOURS[:2]
    svg = chart.stacked_bars(heights, [0, 1], chart.Axis("round", whole=True), chart.Axis("bytes"), label="two bars")
    rects = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="[\d.]+" height="([\d.]+)" fill="(#\w+)"', svg)
    by = {(colour, float(x)): (float(y), float(tall)) for x, y, tall, colour in rects}
    places = sorted({x for _, x in by})
    assert len(by) == 3  # nothing is drawn for nothing
    (top_a, tall_a), (top_b, tall_b) = by[first, places[0]], by[second, places[0]]
    assert top_a + tall_a == pytest.approx(1000, abs=0.2)
    assert top_b + tall_b == pytest.approx(top_a, abs=0.2)
    assert tall_b == pytest.approx(3 * tall_a, abs=0.4)


# ---------------------------------------------------------------- how good it is


@pytest.fixture(scope="module")
def evaluation():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 9))
    return X, np.where(X[:, 0] - X[:, 5] + rng.normal(size=300) > 0.0, 1, -1)


def split(X):
    return co.Federation.split(X, None, {"hospital": [0, 1, 2], "lab": [3, 4, 5], "insurer": [6, 7, 8]})


def test_without_rows_to_judge_by_the_report_says_why_it_judges_nothing(page):
    assert any("tells about the rows that it is computed on" in words for words in page.words)
    assert "quality" not in [attrs.get("id") for tag, attrs in page.elements if tag == "section"]


@pytest.mark.parametrize(("basis", "words"), [("public", "These rows are public"), ("paid for", "not in the epsilon")])
def test_figures_of_quality_say_on_which_kind_of_rows_they_were_computed(fit, evaluation, basis, words):
    X, y = evaluation
    page = shown(fit, evaluation=(split(X), y), evaluation_is=basis)
    assert any(words in text for text in page.words)
    figures_ = {row[0]: row[1] for row in table_of(page, "Figures of quality")}
    assert agrees(figures_["AUC"], roc_auc_score(y, fit.scores(split(X))))
    assert agrees(figures_["accuracy"], np.mean(fit.predict(split(X)) == y))
    assert len(page.charts) == 6


def test_what_a_party_adds_is_the_measure_without_its_part(fit, evaluation):
    X, y = evaluation
    page = shown(fit, evaluation=(split(X), y), evaluation_is="public")
    _, _, *rows = table_of(page, "What each party adds")
    expected = [
        [f"without {party}", f"{roc_auc_score(y, fit.scores(split(X), without=[party])):.4g}"]
        for party in fit.coefficients
    ]
    assert expected == [row[:2] for row in rows]


def test_a_model_of_values_is_judged_by_its_errors(table, evaluation):
    X, y = table[0], table[0][:, 0]
    fit = co.fit(co.Federation.split(X, y, 3), co.Problem(co.LeastSquares(), co.L1Ball(2.0)))
    new = evaluation[0]
    page = shown(fit, evaluation=(co.Federation.split(new, None, 3), new[:, 0]), evaluation_is="public")
    figures_ = {row[0]: row[1] for row in table_of(page, "Figures of quality")}
    residual = fit.scores(co.Federation.split(new, None, 3)) - new[:, 0]
    assert agrees(figures_["RMSE"], np.sqrt(np.mean(residual**2)))
    assert f"{1 - np.mean(residual**2) / np.var(new[:, 0]):.4g}" == figures_["R²"]


def test_rows_whose_standing_nobody_states_are_refused(fit, evaluation):
    X, y = evaluation
    with pytest.raises(co.InvalidInput, match=r"release about the rows.*evaluation_is='public'"):
        shown(fit, evaluation=(split(X), y))
    with pytest.raises(co.InvalidInput, match="without evaluation="):
        shown(fit, evaluation_is="public")
    with pytest.raises(co.InvalidInput, match="one label a row"):
        shown(fit, evaluation=(split(X), y[:-1]), evaluation_is="public")
    with pytest.raises(co.InvalidInput, match="the same class"):
        shown(fit, evaluation=(split(X), np.ones(300)), evaluation_is="public")


scored = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=60)


@settings(max_examples=40)  # scikit-learn checks its input for milliseconds
@given(scored)
def test_the_area_under_the_roc_is_that_of_scikit_learn(rows):
    scores, positive = np.array([float(s) for s, _ in rows]), np.array([p for _, p in rows])
    assume(positive.any() and not positive.all())
    assert area(roc_curve(scores, positive)) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)


@given(scored)
def test_the_groups_of_a_calibration_hold_every_row_once(rows):
    predicted, found = np.array([float(s) for s, _ in rows]), np.array([float(p) for _, p in rows])
    groups = grouped(predicted, found)
    assert len(rows) == sum(size for *_, size in groups)
    assert len(groups) == min(GROUPS, len(rows))
    assert [p for p, *_ in groups] == sorted(p for p, *_ in groups)
    assert sum(f * size for _, f, size in groups) == pytest.approx(found.sum())


# ---------------------------------------------------------------- what an epsilon means

epsilons = st.floats(1e-3, 30.0)
deltas = st.floats(1e-12, 1e-2)
shares = st.floats(1e-6, 1 - 1e-6)


@given(shares, epsilons)
def test_a_belief_grows_by_the_factor_of_the_loss_in_its_odds(before, loss):
    with mpmath.workdps(40):
        grown = mpmath.exp(mpmath.mpf(loss)) * mpmath.mpf(before) / (1 - mpmath.mpf(before))
        expected = float(grown / (1 + grown))
    assert odds.belief(before, loss) == pytest.approx(expected, rel=1e-12)


@given(st.floats(0.05, 6.0), st.floats(0.01, 8.0), shares)
def test_no_test_of_a_gaussian_release_beats_the_stated_power_and_guess(mu, epsilon, wrong):
    """The exact trade-off of one Gaussian release, at the exact delta of its epsilon: the best possible adversary."""
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    delta = max(delta, 0.0)
    found = norm.cdf(norm.ppf(wrong) + mu)
    assert found <= odds.power(wrong, epsilon, delta) + 1e-9
    assert norm.cdf(mu / 2) <= odds.guess(epsilon, delta) + 1e-9


@given(epsilons, deltas)
def test_randomised_response_reaches_the_stated_power_and_guess(epsilon, delta):
    """So the figures are no larger than they must be: with chance delta it tells the truth, else it answers by epsilon."""
    yes = (1 - delta) / (1 + math.exp(-epsilon))  # the likelier answer, when it does not tell the truth outright
    wrong = (1 - delta) / (1 + math.exp(epsilon))
    assert odds.power(wrong, epsilon, delta) == pytest.approx(delta + yes, rel=1e-9)
    assert odds.guess(epsilon, delta) == pytest.approx((delta + yes + 1 - wrong) / 2, rel=1e-9)


@given(st.floats(0.0, 1.0))
def test_a_bound_in_percent_is_never_rounded_down(share):
    text = odds.percent(share)
    value = float(text.removesuffix(" %")) / 100
    assert value >= share * (1 - 1e-12)
    assert value - share <= 0.1 * min(share, 1 - share) + 1e-12
    if share in (0.0, 1.0):
        assert value == share


def test_the_statement_is_explained_with_figures_of_its_own_epsilon(fit):
    private = replace(fit.privacy, epsilon=0.5, delta=1e-5, guarantee="proven")
    page = shown(replace(fit, privacy=private, seconds=None))
    after = {row[0]: row[1] for row in table_of(page, "How sure")}
    assert after["50 %"] == "76.8 %"  # without a rho: 2·e^0.5 / (1 + 2·e^0.5) = 0.76731
    text = " ".join(page.words)
    assert "e^epsilon = 1.649 times its chance under the other, plus delta = 1e−05" in text
    assert (
        "guesses right in 50 % of cases; with all it sees, in at most 62.3 %" in text
    )  # (e^0.5 + δ) / (1 + e^0.5) = 0.62246
    assert "except with a chance of at most 2e−05" in text
    assert "a duration would tell about the data" in text


def test_a_claim_that_is_not_proven_is_said_to_be_one(fit):
    claimed = replace(fit.privacy, epsilon=0.5, delta=1e-5, guarantee="claimed")
    assert any("its guarantee is: claimed" in words for words in shown(replace(fit, privacy=claimed)).words)


def test_where_no_epsilon_holds_the_report_promises_nothing(page):
    assert any("No number bounds what an adversary can find out" in words for words in page.words)
    assert not [caption for caption in page.tables if caption.startswith("How sure")]


# ---------------------------------------------------------------- the run


def test_facts_of_the_run_are_shown_where_they_are_known(fit):
    facts = {"rows": 80, "brought": {"lab": 90}, "policies": {"lab": "exact values may leave"}}
    facts |= {"settings": "DistributedFrankWolfe(rounds=12)", "protocol": "0.1.0 abc"}
    page = shown(replace(fit, facts=facts))
    rows = {row[0]: row for row in table_of(page, "Who took part")}
    assert rows["lab"] == ["lab", "columns", "exact values may leave", "90", "3"]
    assert rows["labels"] == ["labels", "the label", "", "", "none"]
    bare = table_of(shown(replace(fit, facts={})), "Who took part")
    assert bare[0] == ["party", "holds", "columns"]  # of what nothing is known there is no column
    assert any("80 rows matched in all parties" in words for words in page.words)
    assert ["settings and privacy terms", "DistributedFrankWolfe(rounds=12)"] in table_of(page, "What was asked")
    assert ["release and protocol", "0.1.0 abc"] in table_of(page, "What this run was")


def test_the_hash_of_the_model_changes_with_the_model_only(fit):
    def digest(one):
        return dict(table_of(shown(one), "What this run was"))["model, SHA-256"]

    other = {party: x + (party == "lab") for party, x in fit.coefficients.items()}
    assert digest(fit) == digest(replace(fit, run="another", seconds=1.0))
    assert digest(fit) != digest(replace(fit, coefficients=Coefficients(other)))


def test_a_schema_read_off_the_data_is_shown_as_such_and_not_hashed(table):
    X, y = table
    frames = {
        "a": pl.DataFrame({"key": range(80), "one": X[:, 0], "y": y}),
        "b": pl.DataFrame({"key": range(80), "two": X[:, 5]}),
    }
    fit = co.fit(co.Federation.from_frames(frames, on="key", label=("a", "y")), PROBLEM)
    page = shown(fit)
    schemas = [schema for schema in fit.schemas.values() if schema is not None]
    assert schemas
    hashed = [row[0] for row in table_of(page, "What this run was") if row[0].startswith("schema of")]
    assert len(hashed) == sum(schema.source == "declared" for schema in schemas)


@pytest.mark.parametrize("source", ["data", "public"])
@pytest.mark.parametrize("render", [render_report, render_officer], ids=["report", "officer's page"])
def test_no_page_has_a_hash_against_which_guesses_of_figures_that_were_read_off_can_be_tested(table, source, render):
    """Neither the schema's own, nor that of a federation file that has it, whether or not somebody called it public."""
    X, y = table
    frames = {
        "a": pl.DataFrame({"key": range(80), "one": X[:, 0], "y": y}),
        "b": pl.DataFrame({"key": range(80), "two": X[:, 5]}),
    }
    schemas = {"a": co.Schema((co.Numeric("one", -9.0, 9.0),)), "b": co.Schema((co.Numeric("two", -8.125, 9.0),))}
    fit = co.fit(co.Federation.from_frames(frames, on="key", label=("a", "y"), schemas=schemas), PROBLEM)
    known = replace(fit, facts={**fit.facts, "federation": "f00d" * 16})
    page = render(known)
    assert all(schema.digest() in page for schema in schemas.values())
    assert "f00d" * 16 in page
    read_off = replace(schemas["b"], source=source)
    page = render(replace(known, schemas={"a": schemas["a"], "b": read_off}))
    assert schemas["a"].digest() in page
    assert read_off.digest() not in page
    assert schemas["b"].digest() not in page
    assert "f00d" * 16 not in page
    assert "figures that were read off the rows (b)" in page


def kernel_machine(X, y):
    return co.fit(
        co.Federation.split(X, y, 3, by="rows"), co.KernelSVM(co.RBF(0.5)), co.DistributedFrankWolfe(rounds=5)
    )


def boosted(X, y):
    return co.fit(co.Federation.split(X, y, 3), co.AdaBoost(), co.DistributedFrankWolfe(rounds=5))


def several_responses(X, y):
    labels = np.column_stack([X[:, 0], X[:, 1] - X[:, 4]])
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    method = co.GraphADMM(rounds=10, topology=co.Topology.complete(4))
    return co.fit(co.Federation.split(X, labels, 3), problem, method)


@pytest.mark.parametrize("kind", [kernel_machine, boosted, several_responses])
def test_every_kind_of_model_has_a_report(table, kind):
    fit = kind(*table)
    page = shown(fit)
    nonzero = sum(int(np.count_nonzero(x)) for x in fit.coefficients.values())
    assert nonzero
    assert len(table_of(page, "Coefficients")) == nonzero + 1


@pytest.mark.chance(1e-9, "all nine coefficients are zero: each is in 5 of 100 runs, by itself")
def test_a_private_run_shows_the_path_and_no_errors_that_do_not_cover(table, tmp_path):
    X, y = table
    terms = co.Privacy(5.0, 1e-3, trust="secure", row_norm=3.0, feature_bound=1.0)
    problem = co.Problem(co.LeastSquares(), penalty=co.Lasso(0.01))
    method = co.PrivateGram()
    fit = co.fit(
        co.Federation.split(np.clip(X, -1, 1), y.astype(float), 3),
        problem,
        method,
        replace(terms, label_bound=1.0),
        store=tmp_path,
    )
    page = shown(fit)
    assert fit.spread is None
    assert fit.path is not None
    assert table_of(page, "Coefficients")[0][-1] == "coefficient"
    assert any("no standard errors: " in words for words in page.words)
    assert not any("±" in words or "two standard errors" in words for words in page.words)
    assert len(table_of(page, "Size of the model along")) == len(fit.path.weights) + 1
    assert any("along the weight of the penalty" in label for label in page.charts)
    assert any("except with a chance of at most 0.001." in words for words in page.words)


def test_a_run_whose_errors_cover_shows_them_and_names_them(table, tmp_path):
    X, y = table
    fit = co.fit(co.Federation.split(X, y, 3), co.Problem(co.Logistic(), constraint=co.L1Ball(2.0)))
    fit = replace(fit, spread={party: np.full(x.shape, 0.125) for party, x in fit.coefficients.items()})
    page = shown(fit)
    assert all(row[-1].endswith(" ± 0.12") for row in table_of(page, "Coefficients")[1:])
    assert all(row[2].endswith(" ± 0.12") for row in table_of(page, "The ")[1:])
    assert any(words.startswith("± is one standard error, the lines show two") for words in page.words)


def test_the_fit_keeps_the_public_facts_of_its_run(fit, page, tmp_path):
    rows = {row[0]: row for row in table_of(page, "Who took part")}
    assert rows["lab"] == ["lab", "columns", "exact values may leave", "80", "3"]
    assert any("80 rows matched in all parties" in words for words in page.words)
    settings = dict(row for row in table_of(page, "What was asked"))["settings and privacy terms"]
    assert settings.startswith("DistributedFrankWolfe(rounds=12")
    fit.save(tmp_path / "fit.json")
    assert fit.facts == co.load(tmp_path / "fit.json").facts


@pytest.mark.chance(0, "public facts of the run: nothing that was drawn is compared")
def test_a_private_run_keeps_no_count_that_no_price_covers(table, tmp_path):
    X, y = table
    terms = co.Privacy(5.0, 1e-3, trust="secure", row_norm=3.0, feature_bound=1.0)
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(0.1))
    fit = co.fit(co.Federation.split(np.clip(X, -1, 1), y, 3), problem, None, terms, store=tmp_path)
    assert fit.facts["brought"] == {}
    assert fit.facts["rows"] == 80


def test_fit_report_takes_rows_to_judge_by(fit, evaluation, tmp_path):
    X, y = evaluation
    path = fit.report(tmp_path / "report.html", evaluation=(split(X), y), evaluation_is="public")
    assert len(Page(path.read_text(encoding="utf-8")).charts) == 6
