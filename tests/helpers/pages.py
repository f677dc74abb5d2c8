"""A page of HTML as a reader sees it."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

VOID = {"meta", "br", "link", "wbr"}


class Page(HTMLParser):
    """What a browser would find: elements, tables by caption, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.words: list[str] = []
        self._within: list[str] = []
        self._rows: list[list[str]] = []
        self._caption = ""
        self.feed(text)
        assert self._within == [], "an element is left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._within.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._within.pop() == tag
        if tag == "table":
            assert self._caption, "a table without a caption"
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        tag = self._within[-1] if self._within else ""
        if tag == "caption":
            self._caption += data
        elif {"td", "th"} & set(self._within):
            self._rows[-1][-1] += data
        elif tag not in ("style", "title"):
            self.words.append(data)

    @property
    def charts(self) -> list[str | None]:
        return [attrs["aria-label"] for tag, attrs in self.elements if tag == "svg" and attrs.get("role") == "img"]


def table_of(page: Page, start: str) -> list[list[str]]:
    return next(rows for caption, rows in page.tables.items() if caption.startswith(start))


def luminance(colour: str) -> float:
    """Relative luminance as the web's accessibility rules define it."""
    parts = [int(colour[place : place + 2], 16) / 255.0 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)
