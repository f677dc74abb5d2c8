"""The report: self-contained, true to the fit, and readable."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as co
from colonnade.report import Quality, figures, human_bytes, write_report
from colonnade.report.page import SECTIONS
from colonnade.result import Coefficients

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


class Page(HTMLParser):
    """What a browser would find: elements, tables by caption, and scripts by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.elements, self.tables, self.scripts, self.words = text, [], {}, {}, []
        self._within, self._rows, self._caption = [], [], ""
        self.feed(text)

    @property
    def plots(self):
        return {name.removeprefix("figure-"): json.loads(body) for name, body in self.scripts.items() if name}

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self._within.append((tag, dict(attrs)))
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag):
        self._within.pop()
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data):
        tag, attrs = self._within[-1] if self._within else ("", {})
        if tag == "script":
            self.scripts[attrs.get("id", "")] = data
        elif tag == "caption":
            self._caption += data
        elif tag in ("td", "th"):
            self._rows[-1][-1] += data
        elif tag not in ("style", "title"):
            self.words.append(data)


def table_of(page, start):
    return next(rows for caption, rows in page.tables.items() if caption.startswith(start))


def test_the_report_loads_nothing(page):
    links = [attrs[name] for _, attrs in page.elements for name in ("src", "href", "data") if name in attrs]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not {tag for tag, _ in page.elements} & {"link", "img", "iframe", "object", "embed", "base"}
    style = (files("colonnade.report") / "style.css").read_text()
    assert "url(" not in style
    assert "@import" not in style


def test_the_report_forbids_itself_every_request(page):
    policy = next(attrs["content"] for tag, attrs in page.elements if tag == "meta" and "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_every_section_has_a_heading_and_a_link_to_it(page):
    assert ("html", {"lang": "en"}) in page.elements
    ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
    assert list(SECTIONS) == ids
    assert {f"#{key}" for key in SECTIONS} == {attrs["href"] for tag, attrs in page.elements if tag == "a"}
    assert len(SECTIONS) == sum(tag == "h2" for tag, _ in page.elements)


def test_every_plot_is_described_in_words(page):
    plots = [attrs for _, attrs in page.elements if attrs.get("class") == "plot"]
    assert {"coefficients", "gap", "objective", "bytes", "sofar"} == set(page.plots)
    assert {f"figure-{name}" for name in page.plots} == {attrs["data-figure"] for attrs in plots}
    assert all(len(attrs["aria-label"]) > 15 for attrs in plots)


def test_the_table_of_traffic_agrees_with_the_fit(page, fit):
    head, *lines, total = table_of(page, "Messages by party")
    assert head == ["party", "direction", "message", "count", "bytes"]
    ways = {"up": "left", "down": "reached"}
    expected = {
        (line["party"], ways[line["direction"]], line["type"], f"{line['messages']:,}", human_bytes(line["bytes"]))
        for line in fit.communication.by("party", "direction", "type").to_dicts()
    }
    assert expected == {tuple(line) for line in lines}
    assert len(expected) == len(lines)
    assert [f"{fit.communication.messages:,}", human_bytes(fit.communication.bytes)] == total[-2:]


def test_the_plots_of_bytes_add_up_to_what_the_fit_counted(page, fit):
    left = {
        line["party"]: line["bytes"]
        for line in fit.communication.by("party", "direction").to_dicts()
        if line["direction"] == "up"
    }
    assert left == {trace["name"]: sum(trace["y"]) for trace in page.plots["bytes"]["data"]}
    assert fit.communication.bytes == sum(trace["y"][-1] for trace in page.plots["sofar"]["data"])


def test_the_plots_of_convergence_are_the_history(page, fit):
    for name in ("gap", "objective"):
        (trace,) = page.plots[name]["data"]
        assert fit.history[name].to_list() == trace["y"]
        assert fit.history["round"].to_list() == trace["x"]
    assert page.plots["gap"]["layout"]["yaxis"]["type"] == "log"


def test_the_table_of_coefficients_holds_every_one_that_is_not_zero(page, fit):
    _, *rows = table_of(page, "Coefficients")
    expected = Counter({party: int(np.count_nonzero(x)) for party, x in fit.coefficients.items()})
    assert +expected == Counter(party for party, _, _ in rows)
    sizes = [abs(float(value.replace("−", "-"))) for _, _, value in rows]
    assert sizes == sorted(sizes, reverse=True)


def test_plotly_itself_accepts_every_figure(page):
    from plotly.graph_objects import Figure

    for figure in page.plots.values():
        Figure(figure)  # raises on any name or value that plotly does not know


def test_no_value_of_a_row_is_in_the_report(page, table):
    written = page.text.replace(page.scripts[""], "")
    assert not [value for value in table[0].ravel().tolist() if repr(value) in written]


def test_names_are_shown_as_text_and_never_run(table, tmp_path):
    X, y = table
    bad = "</script><img src=x onerror=alert(1)>"
    frame = pl.DataFrame({bad: X[:, 0], "b": X[:, 5]})
    fit = fitted(frame, y, {"a<b": [bad], "c&d": ["b"]})
    page = Page(fit.report(tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "img" not in {tag for tag, _ in page.elements}
    assert ["a<b", bad] in [row[:2] for row in table_of(page, "Coefficients")]
    assert bad in page.plots["coefficients"]["layout"]["yaxis"]["ticktext"]


def test_a_saved_fit_has_the_same_report(fit, page, tmp_path):
    fit.save(tmp_path / "fit.json")
    again = co.load(tmp_path / "fit.json").report(tmp_path / "again.html")
    assert page.text == again.read_text(encoding="utf-8")


def test_a_fit_that_released_no_history_says_so(fit, tmp_path):
    silent = replace(fit, notes=(), gap=None, objective=None)
    page = Page(write_report(silent, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert {"coefficients", "bytes", "sofar"} == set(page.plots)
    assert any("released no objective" in words for words in page.words)
    assert "not released" in page.words


def test_coefficients_held_elsewhere_are_said_to_be_there(fit, tmp_path):
    own = {party: x for party, x in fit.coefficients.items() if party != "lab"}
    apart = replace(fit, coefficients=Coefficients(own, elsewhere=["lab"]))
    page = Page(write_report(apart, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert ["lab", "held there", "held there", "held there"] in table_of(page, "Columns by party")
    assert "lab" not in {party for party, *_ in table_of(page, "Coefficients")}


def test_a_model_of_zeros_has_a_report(fit, tmp_path):
    zero = Coefficients({party: np.zeros_like(x) for party, x in fit.coefficients.items()})
    page = Page(write_report(replace(fit, coefficients=zero), tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "coefficients" not in page.plots


def test_figures_of_quality_come_with_the_data_they_were_computed_on(fit, tmp_path):
    quality = Quality("AUC", {"joint": 0.7251, "alone": 0.6}, "On 1,000 rows nobody trained on.")
    path = write_report(fit, tmp_path / "report.html", quality=quality)
    page = Page(path.read_text(encoding="utf-8"))
    assert table_of(page, "The joint model") == [["model", "AUC"], ["joint", "0.725"], ["alone", "0.600"]]
    assert quality.note in page.words


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


def luminance(colour: str) -> float:
    """Relative luminance as the web's accessibility rules define it."""
    parts = [int(colour[place : place + 2], 16) / 255.0 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_text_and_bars_stand_out_in_light_and_in_dark():
    style = (files("colonnade.report") / "style.css").read_text()
    schemes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in style.split(":root {")[1:]]
    assert len(schemes) == 3
    for scheme in schemes:
        for text in ("text", "soft", "accent"):
            for back in ("page", "card"):
                assert contrast(scheme[text], scheme[back]) >= 4.5
        assert contrast(scheme["text"], scheme["warn-back"]) >= 4.5
        for colour in figures.COLOURS:
            assert contrast(colour, scheme["page"]) >= 3.0
