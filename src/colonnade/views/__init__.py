"""Views render plain facts that they are handed: the report, its charts, and pieces that the live page shares.

A `Fit` hands over `FitFacts`; no view opens a store or asks a party. Imports: `data` and below. Start with
`views/page.py`.

The report is one HTML file that answers what was asked, what came out, what left each party, and what it cost.

Holds    text, tables and small SVG charts, and no script; a content policy in the page forbids every network request.
Shows    released figures and the model only: coefficients, history, counts of bytes. Never a row.
Reads    every chart has its figures in a table beside it; light, dark, printed, on a phone, by a screen reader.
"""

from __future__ import annotations

from colonnade.views.fit_facts import Quality, RunFacts, left_by_party
from colonnade.views.page import check_target, render_report, write_report
from colonnade.views.words import human_bytes, message_words

__all__ = [
    "Quality",
    "RunFacts",
    "check_target",
    "human_bytes",
    "left_by_party",
    "message_words",
    "render_report",
    "write_report",
]
