"""What values show of themselves in a notebook: all of it escaped, in the colours of the page, without an extra."""

from __future__ import annotations

import re
import sys
import types
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.model.facts import Coefficients
from colonnade.notebook import MOST_ROWS, Grid, bar, shown
from colonnade.runs import progress

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

EVIL = "<script>alert('x')</script>"
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
SCHEMAS = {
    "clinic": co.Schema((co.Numeric("age", 0, 100), co.Categorical("ward", ("A", EVIL)))),
    "lab": co.Schema((co.Numeric("crp", 0, 10),)),
}
VOID = {"br", "hr", "img", "progress", "wbr"}


class Checked(HTMLParser):
    """Every tag is closed in its turn; text and tags are kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.styles: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.styles += [value or "" for name, value in attrs if name == "style"]
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def fits(tmp_path_factory) -> dict[str, co.Fit]:
    rng = np.random.default_rng(0)
    rows = 600
    age, crp = rng.uniform(20, 90, rows), rng.uniform(0, 9, rows)
    back = (age / 90 + crp / 9 + rng.normal(0, 0.3, rows) > 1.1).astype(int)
    frames = {
        "clinic": pl.DataFrame({"id": range(rows), "age": age, "ward": rng.choice(["A", EVIL], rows), "back": back}),
        "lab": pl.DataFrame({"id": range(rows), "crp": crp}),
    }
    fed = co.Federation.from_frames(frames, "id", ("clinic", "back"), schemas=SCHEMAS, classes=(0, 1))
    store = tmp_path_factory.mktemp("store")
    private = co.fit(fed, RIDGE, privacy=co.Privacy(4.0, 1e-6), store=store)
    return {"exact": co.fit(fed, RIDGE), "private": private, "federation": fed}


def values(fits: dict[str, Any]) -> dict[str, Any]:
    exact, private = fits["exact"], fits["private"]
    return {
        "Fit": private,
        "Fit, exact": exact,
        "Coefficients": exact.coefficients,
        "Coefficients, elsewhere": Coefficients({"a": np.zeros(3)}, [EVIL]),
        "Communication": private.communication,
        "PrivacyStatement": private.privacy,
        "PrivacyStatement, none": exact.privacy,
        "Federation": fits["federation"],
        "Release": private.release,
    }


NAMES = ("Fit", "Fit, exact", "Coefficients", "Coefficients, elsewhere", "Communication", "PrivacyStatement")
NAMES += ("PrivacyStatement, none", "Federation", "Release")


@pytest.mark.chance(0, "figures of any size stand in the same tags")
@pytest.mark.parametrize("name", NAMES)
def test_every_value_shows_itself_as_whole_html_without_script_or_colour_of_its_own(fits, name: str) -> None:
    page = Checked(values(fits)[name]._repr_html_())
    assert set(page.tags) <= {"div", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    # Text takes the page's colour and no background is painted, so that light and dark pages show it.
    for style in page.styles:
        assert "background:none" in style or "background" not in style
        assert not re.search(r"(?<![-\w])color:(?!inherit)", style)


@pytest.mark.chance(0, "names are looked for, not figures")
def test_names_from_outside_are_escaped(fits) -> None:
    assert EVIL in "".join(Checked(fits["exact"]._repr_html_()).words)
    assert "<script" not in "".join(value._repr_html_() for value in values(fits).values())


@pytest.mark.chance(0, "what is shown of a fit is compared with the same fit")
def test_what_is_shown_is_what_the_values_say(fits) -> None:
    text = " ".join(Checked(fits["private"]._repr_html_()).words)
    for told in (fits["private"].run, f"ε {fits['private'].privacy.epsilon:.4g}", "1 rather than 0"):
        assert told in text
    assert "not private" in fits["exact"]._repr_html_()
    assert f"{fits['exact'].communication.bytes:,}" in fits["exact"].communication._repr_html_()
    assert "Not private" in fits["exact"].privacy._repr_html_()
    assert "declared" in fits["federation"]._repr_html_()


@pytest.mark.chance(0, "the exact fit alone is looked at")
def test_coefficients_are_a_table_by_name(fits) -> None:
    fit = fits["exact"]
    table = fit.coefficients.table()
    assert table.columns == ["party", "feature", "coefficient"]
    for party, x in fit.coefficients.items():
        own = table.filter(pl.col("party") == party)
        assert own["feature"].to_list() == list(fit.features[party])
        assert own["coefficient"].to_list() == x.tolist()


def test_coefficients_of_several_responses_say_which() -> None:
    x = np.arange(6.0).reshape(3, 2)
    table = Coefficients({"a": x}, names={"a": ["u", "v", "w"]}).table()
    assert table["coefficient"].to_list() == x.ravel().tolist()
    assert table["response"].to_list() == [0, 1] * 3
    assert table["feature"].to_list() == ["u", "u", "v", "v", "w", "w"]


@pytest.mark.chance(0, "the exact fit alone is looked at")
def test_a_table_by_name_survives_the_file(fits, tmp_path: Path) -> None:
    fits["exact"].save(tmp_path / "fit.json")
    assert co.load(tmp_path / "fit.json").coefficients.table().equals(fits["exact"].coefficients.table())


def test_long_tables_are_cut_and_say_so() -> None:
    text = shown("t", {}, [Grid("rows", ("k",), [(k,) for k in range(MOST_ROWS + 7)])])
    assert text.count("<td") == MOST_ROWS
    assert "7 more rows" in text


# ------------------------------------------------------------------------------------------------ progress in a notebook


class Page:
    """What a cell of a notebook shows, as IPython's module of displays would keep it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def HTML(self, text: str) -> str:
        return text

    def display(self, text: str, display_id: bool) -> Page:
        assert display_id
        self.update(text)
        return self

    def update(self, text: str) -> None:
        self.seen.append(text)


def test_in_a_notebook_the_bar_is_drawn_in_the_cell_and_goes_at_the_end(monkeypatch, capsys) -> None:
    page = Page()
    ipython = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress.NotebookBar, "EVERY", 0.0)
    with progress.progress_bar(True, "rounds of a test", 3) as show:
        for done in range(1, 4):
            show({"round": done, "gap": 0.5**done})
    assert [text for text in page.seen if "3/3" in text and "gap 1.25e-01" in text]
    assert page.seen[-1] == ""
    assert capsys.readouterr() == ("", "")
    Checked(bar(EVIL, 1, None, EVIL))


def test_a_cell_is_drawn_anew_after_a_tenth_of_a_second_and_at_the_last_round(monkeypatch) -> None:
    page, clock = Page(), [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    bar = progress.NotebookBar(page, "rounds", 3)
    bar.start()
    for now, done in ((100.05, 0.0), (100.125, 1.0), (100.15, 2.0), (100.16, 3.0), (100.17, 3.0)):
        clock[0] = now
        bar.update(done, "")
    assert [text for text in page.seen if "0/3" in text] == page.seen[:1]
    assert ["1/3" in text for text in page.seen[1:]] == [True, False, False]
    assert all("3/3" in text for text in page.seen[2:])
    bar.stop()
    assert page.seen[-1] == ""


def test_ipython_in_a_terminal_has_the_bar_of_a_terminal(monkeypatch, capsys) -> None:
    ipython = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace())  # no kernel
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.progress_bar(True, "rounds of a test", 3) as show:
        show({"round": 1})
    assert "rounds of a test" in capsys.readouterr().err
