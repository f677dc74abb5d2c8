"""The report: one HTML file that answers what was asked, what came out, what left each party, and what it cost.

Holds    plotly.js and everything else inline; a content policy in the page forbids every network request.
Shows    released figures and the model only: coefficients, history, counts of bytes. Never a row.
Reads    every plot has its figures in a table beside it; light, dark and printed.
"""

from __future__ import annotations

from colonnade.report.page import Quality, check_target, write_report
from colonnade.report.traffic import left_by_party
from colonnade.report.words import human_bytes, message_words

__all__ = [
    "Quality",
    "check_target",
    "human_bytes",
    "left_by_party",
    "message_words",
    "write_report",
]
