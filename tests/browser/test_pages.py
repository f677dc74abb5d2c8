"""The report and the live view in a real browser: at two widths, in both colour schemes, printed, and by the rules of accessibility.

They need Playwright for Python and Debian's Chromium, and are skipped where one is missing. Screenshots go to pytest's temporary folder.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import colonnade as co
from colonnade.runs.evaluation import evaluate_fit
from colonnade.views.page import write_report
from colonnade.views.verdict import Quality
from tests.helpers import in_a_browser
from tests.helpers.in_a_browser import CHROMIUM, CUT, every_look
from tests.helpers.live_view import serving
from tests.helpers.pages import contrast

axe = in_a_browser.axe
browser = in_a_browser.browser
opened = in_a_browser.opened

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}: apt-get install chromium")

SCHEMES = ("light", "dark")
LONG = "insurer_of_all_who_live_in_the_province_and_beyond_its_borders_since_1998"
PARTIES = {"hospital": [0, 1, 2], "lab": [3, 4, 5], LONG: [6, 7, 8]}


def drawn(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(rows, 9))
    return X, np.where(X[:, 0] - X[:, 5] + 0.5 * rng.normal(size=rows) > 0.0, 1, -1)


def exact_run(store):
    X, y = drawn(120, 1)
    method = co.DistributedFrankWolfe(rounds=12, tolerance=0.0)
    return co.fit(co.Federation.split(X, y, PARTIES), co.Problem(co.Logistic(), co.L1Ball(3.0)), method, store=store)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("browser") / "runs"


@pytest.fixture(scope="module")
def fits(store):
    X, y = drawn(300, 0)
    terms = co.Privacy(2.0, 1e-6, trust="secure", row_norm=3.0, feature_bound=1.0)
    problem = co.Problem(co.Logistic(), penalty=co.Lasso(0.01))
    private = co.fit(co.Federation.split(X, y, PARTIES), problem, None, terms, store=store)
    return {"private": private, "exact": exact_run(store)}


@pytest.fixture(scope="module")
def addresses(fits, store, tmp_path_factory):
    """Every page there is, by name."""
    folder = tmp_path_factory.mktemp("reports")
    X, y = drawn(200, 3)
    private = write_report(
        fits["private"],
        folder / "private.html",
        evaluation=evaluate_fit(fits["private"], (co.Federation.split(X, None, PARTIES), y), "public"),
        quality=Quality(
            "AUC", {"together": 0.875, "open": 0.9, "hospital alone": 0.7}, "On rows.", {"open": 0.02}, "open"
        ),
    )
    exact = write_report(fits["exact"], folder / "exact.html")
    with serving(store) as server:
        yield {
            "private report": private.as_uri(),
            "exact report": exact.as_uri(),
            "live view": server.url,
            "live run": f"{server.url}run/{fits['exact'].run}",
            "officer's page": f"{server.url}officer/{fits['private'].run}",
        }


PAGES = ("private report", "exact report", "officer's page", "live view", "live run")
every_page = pytest.mark.parametrize("name", PAGES)

# Text, its colour and the colour behind it, of every element that shows text of its own.
TEXTS = """() => {
  const solid = (colour) => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return a === 1 ? [r, g, b] : null; };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !one.getClientRects().length) continue;
    let behind = one, back = null;
    while (behind && !(back = solid(getComputedStyle(behind).backgroundColor))) behind = behind.parentElement;
    const style = getComputedStyle(one);
    const colour = one instanceof SVGElement ? style.fill : style.color;
    found.push([one.textContent.trim().slice(0, 40), solid(colour), back || [255, 255, 255]]);
  }
  return found;
}"""


@every_look
@every_page
def test_a_page_fits_its_screen_reads_in_its_colours_and_asks_nobody(opened, addresses, name, width, scheme, tmp_path):
    page = opened(addresses[name], width=width, scheme=scheme)
    page.screenshot(path=str(tmp_path / f"{name.replace(' ', '-')}-{width}-{scheme}.png"), full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    texts = page.evaluate(TEXTS)
    assert len(texts) > 30
    for words, colour, back in texts:
        pair = ["#" + "".join(f"{round(part):02x}" for part in one) for one in (colour, back)]
        assert contrast(*pair) >= 4.5, (words, pair)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"
    assert dark == (scheme == "dark")
    own = re.sub(r"(run|officer)/[^/]+$", "", addresses[name])
    assert all(url.startswith((own, "data:,")) for url in page.asked)
    assert page.complaints == []


@every_page
def test_nothing_is_cut_at_the_side_without_a_cue(opened, addresses, name):
    assert opened(addresses[name], width=390).evaluate(CUT) == []


def test_the_budgets_fit_a_screen_and_scroll_on_a_phone(opened, addresses):
    hidden = """() => { const one = document.querySelector("#budgets .scroll"); return one.scrollWidth - one.clientWidth; }"""
    assert opened(addresses["live view"]).evaluate(hidden) <= 0
    assert opened(addresses["live view"], width=390).evaluate(hidden) > 0


@every_page
def test_every_table_region_and_figure_has_a_name(opened, addresses, name):
    page = opened(addresses[name])
    nameless = """() => [...document.querySelectorAll("table, [role=img], [role=region], section, nav, figure")].filter((one) =>
      !(one.getAttribute("aria-label") || one.querySelector("caption, figcaption") ||
        document.getElementById(one.getAttribute("aria-labelledby"))?.textContent)).map((one) => one.outerHTML.slice(0, 80))"""
    assert page.evaluate(nameless) == []
    cells = """() => [...document.querySelectorAll("th")].filter((one) => !one.getAttribute("scope")).length"""
    assert page.evaluate(cells) == 0


def test_a_printed_report_is_black_on_white_without_what_cannot_be_unfolded(opened, addresses):
    page = opened(addresses["private report"], scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator("nav").is_visible()
    assert page.locator("details:visible").count() == 0
    assert page.locator("svg.plot").first.is_visible()


def test_a_wide_table_can_be_scrolled_with_the_keyboard(opened, addresses):
    page = opened(addresses["live view"], width=390)
    region = page.locator("#runs .scroll")
    region.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('#runs .scroll').scrollLeft > 0")


def test_the_live_view_shows_a_new_run_by_itself_and_keeps_the_focus(opened, addresses, store):
    page = opened(addresses["live view"])
    before = page.locator("#runs tbody tr").count()
    page.locator("#runs tbody a").first.focus()
    exact_run(store)
    page.wait_for_function(f"() => document.querySelectorAll('#runs tbody tr').length === {before + 1}", timeout=20_000)
    assert page.evaluate("document.activeElement.closest('section')?.id") == "runs"
    assert str(before + 1) in page.locator("#live").inner_text()


def test_a_report_is_one_click_away_and_the_way_back_too(opened, addresses, fits):
    page = opened(addresses["live view"])
    page.get_by_role("link", name=f"report of run {fits['private'].run}").click()
    assert page.get_by_role("heading", name="What this means").is_visible()
    page.go_back()
    page.get_by_role("link", name=fits["exact"].run, exact=True).click()
    assert page.get_by_role("heading", name=f"Run {fits['exact'].run}").is_visible()
    page.get_by_role("link", name="All runs").click()
    assert page.get_by_role("heading", name="Budgets").is_visible()


def test_the_live_view_says_when_its_server_has_stopped(opened, store, fits):
    with serving(store) as server:
        page = opened(server.url)
        assert "running" in page.locator("#live").inner_text()
    page.wait_for_function("() => document.getElementById('live').textContent.includes('last state')", timeout=20_000)
    assert page.locator("#runs tbody tr").count() >= len(fits)


@pytest.mark.slow  # its rules take seconds a page
@pytest.mark.parametrize("scheme", SCHEMES)
@every_page
def test_axe_finds_no_fault(opened, addresses, axe, name, scheme):
    page = opened(addresses[name], scheme=scheme, bypass_csp=True)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.evaluate(axe)
    found = page.evaluate(
        "axe.run().then((result) => result.violations.map((v) => [v.id, v.help, v.nodes[0].html.slice(0, 200)]))"
    )
    assert found == []
