"""Pages in a real browser."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs Playwright: .venv/bin/pip install -c constraints.txt -e '.[browser]'"
)

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """A function that opens an address; what the page asked for and complained about is kept with it."""
    contexts = []

    def open_page(address: str, *, width: int = 1280, scheme: str = "light", **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.asked, page.complaints = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on(
            "console", lambda said: page.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()


LOOKS = [
    (1280, "light"),
    (390, "dark"),
    *(pytest.param(*look, marks=pytest.mark.slow) for look in [(1280, "dark"), (390, "light")]),
]

every_look = pytest.mark.parametrize(("width", "scheme"), LOOKS)

# Whether an element that is cut at the right shows that there is more: by the shadows of style.css.
CUT = """() => [...document.querySelectorAll("body *")].filter((one) => one.scrollWidth > one.clientWidth + 1 &&
  ["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX) &&
  !getComputedStyle(one).backgroundImage.includes("gradient")).map((one) => one.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The rules of axe-core, from the npm registry."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm to fetch axe-core")
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run(
            ["npm", "pack", "--silent", "axe-core@4"], cwd=folder, timeout=60, check=True, capture_output=True
        )
    except (subprocess.SubprocessError, OSError):
        pytest.skip("axe-core could not be fetched from the npm registry")
    with tarfile.open(next(folder.glob("axe-core-*.tgz"))) as archive:
        rules = archive.extractfile("package/axe.min.js")
        assert rules is not None
        return rules.read().decode()
