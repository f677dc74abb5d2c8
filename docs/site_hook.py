"""A hook of MkDocs: the site also has README, the other documents at the root and papers/, and every link leads there.

The documents link to one another as they lie in the repository, so that they read well there, too. Links to what is no
document (a licence, a folder of examples) become plain words in the site. `mkdocs build --strict` checks the rest.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = "repository"  # where the site keeps what is not in docs/
LINK = re.compile(r"\[(?P<words>[^\]]*)\]\((?P<path>[^)\s#:]+)(?P<place>#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def outside() -> list[str]:
    """The documents that are not in docs/, and their pictures, as paths in the repository."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("papers/*.md"), *ROOT.glob("papers/results/*.svg")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def on_files(files: Any, config: Any) -> Any:
    """Add them to the site."""
    from mkdocs.structure.files import File

    for path in outside():
        files.append(File.generated(config, f"{OUTSIDE}/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the links of a page from places in the repository to places in the site."""
    return linked(markdown, page.file.src_uri, set(outside()))


def on_post_page(output: str, **_: Any) -> str:
    """Name the theme's search dialog, for whoever does not see it."""
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">')


def linked(markdown: str, uri: str, others: set[str]) -> str:
    """The text of the page at `uri` of the site with links of the site; `others` as `outside` gives them."""
    own = uri.removeprefix(f"{OUTSIDE}/") if uri.startswith(f"{OUTSIDE}/") else f"docs/{uri}"

    def there(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(own), found["path"]))
        if target.startswith("docs/") and (ROOT / target).suffix in (".md", ".svg"):
            place = target.removeprefix("docs/")
        elif target in others:
            place = f"{OUTSIDE}/{target}"
        else:
            return found["words"]
        return f"[{found['words']}]({posixpath.relpath(place, posixpath.dirname(uri) or '.')}{found['place'] or ''})"

    parts, start = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(there, markdown[start : fence.start()]), fence[0]]
        start = fence.end()
    return "".join([*parts, LINK.sub(there, markdown[start:])])
