"""Views render plain facts that they are handed: the report, its charts, and pieces that the live page shares.

A `Fit` hands over `FitFacts`; no view opens a store or asks a party. Imports: `methods` and below. Start with
`views/page.py`.

The report is one HTML file that answers what was asked, what came out, what left each party, and what it cost.

Holds    text, tables and small SVG charts, and no script; a content policy in the page forbids every network request.
Shows    released figures and the model only: coefficients, history, counts of bytes. Never a row.
Reads    every chart has its figures in a table beside it; light, dark, printed, on a phone, by a screen reader.
"""
