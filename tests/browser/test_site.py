"""The documentation as a site: every link leads somewhere, search finds, and its pages read in both colours at two widths.

They need `mkdocs` on the path (pip install '.[docs]'), Playwright for Python and Debian's Chromium, and are skipped
where one is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.helpers.in_a_browser import (
    CUT,
    axe,  # noqa: F401  fixtures
    browser,  # noqa: F401  fixtures
    every_look,
    opened,  # noqa: F401  fixtures
)

ROOT = Path(__file__).resolve().parents[2]
MKDOCS = shutil.which("mkdocs")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MKDOCS is None, reason="needs mkdocs: pip install '.[docs]'"),
]
PAGES = (
    "index.html",
    "use/tutorial.html",
    "use/files.html",
    "use/prices.html",
    "understand/privacy/gram.html",
    "repository/index.html",
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the site. `--strict` stops at a link that leads nowhere."""
    folder = tmp_path_factory.mktemp("site")
    build = [MKDOCS, "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        build, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@every_look
def test_the_home_page_fits_its_screen_shows_its_picture_and_asks_nobody_else(site, opened, width, scheme, tmp_path):  # noqa: F811
    page = opened(f"{site}index.html", width=width, scheme=scheme)
    page.screenshot(path=str(tmp_path / f"home-{width}-{scheme}.png"), full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelector('img[src$=\".svg\"]').naturalWidth") > 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(30, 33, 41)"
    )
    assert all(url.startswith((site, "data:")) for url in page.asked)
    assert page.complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_no_page_of_the_site_is_cut_at_the_side_without_a_cue(site, opened, name):  # noqa: F811
    page = opened(f"{site}{name}", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert [cut for cut in page.evaluate(CUT) if "md-sidebar" not in cut and "md-search" not in cut] == []


def test_search_finds(site, opened):  # noqa: F811
    page = opened(f"{site}index.html")
    page.keyboard.press("/")
    page.keyboard.type("epsilon", delay=30)
    page.wait_for_selector(".md-search-result__item", timeout=20_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_fault_on_the_site(site, opened, axe, name, scheme):  # noqa: F811
    page = opened(f"{site}{name}", scheme=scheme)
    page.evaluate(axe)
    found = page.evaluate(
        "axe.run().then((result) => result.violations.map((v) => [v.id, v.help, v.nodes[0].html.slice(0, 200)]))"
    )
    assert found == []
