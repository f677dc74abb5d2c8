"""The pages of the live view: whole HTML that reads without a script, which only fetches it again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from colonnade.cli.live.reading import Message, Run
from colonnade.privacy.events import shown
from colonnade.runs.budgets import Account
from colonnade.views.parts import Markup, cards, count_noun, facts, human_bytes, number, paragraph, section, table

UNKNOWN = "not known here"


def index_page(folder: str, runs: Sequence[Run], ledgers: Sequence[Account], messages: Sequence[Message]) -> str:
    running = sum(run.state == "running" for run in runs)
    left = section("messages", "Messages that left", _messages(messages, with_run=True))
    sections = [section("runs", "Runs", _runs(runs)), section("budgets", "Budgets", _ledgers(ledgers)), left]
    return _whole(f"Store “{folder}”", f"{count_noun(len(runs), 'run')}, {running:,} running", sections, "")


def run_page(run: Run, left: Sequence[tuple[str, str, int, float]], messages: Sequence[Message]) -> str:
    known = {"method": run.method, "trust model": run.trust, "unit": run.unit}
    known |= {"settings and privacy terms": run.settings, "code": run.fingerprint}
    terms = {"state": run.state, "began": _time(run), **{name: fact or UNKNOWN for name, fact in known.items()}}
    figures = {"epsilon reserved": _epsilon(run), "round": _progress(run), "state": run.state}
    rows = [(party, what, f"{times:,}", number(price)) for party, what, times, price in left]
    released = table("What left, and for what", ("party", "what", "times", "price (rho)"), rows, numbers=2)
    sections = [
        section("run", "The run", cards(figures) + facts("Terms", terms) + _link(run, "../")),
        section("left", "What left", released if rows else paragraph("Nothing has left a data holder of this store.")),
        section("messages", "Messages that left", _messages(messages, with_run=False)),
    ]
    return _whole(f"Run {run.name}", f"{run.state}, round {run.round:,}", sections, "../")


def error_page(title: str, words: str, up: str) -> str:
    return _whole(title, "", [section("what", "What happened", paragraph(words))], up, live=False)


def _runs(runs: Sequence[Run]) -> str:
    if not runs:
        return paragraph("No run has begun in this store.")
    rows = []
    for run in runs:
        name = Markup(f'<a href="run/{escape(run.name, quote=True)}">{escape(run.name)}</a>')
        figures = (_progress(run), _epsilon(run), _link(run, "") or "none yet")
        rows.append((name, run.state, *figures, run.method or UNKNOWN, _time(run)))
    heads = ("run", "state", "round", "epsilon", "report", "method", "began")
    return table(f"The newest {count_noun(len(runs), 'run')}, the last one first", heads, rows)


def _link(run: Run, up: str) -> Markup:
    if not run.reported:
        return Markup("")
    name = escape(run.name, quote=True)
    return Markup(f'<a href="{up}report/{name}" aria-label="report of run {name}">report</a>')


def _ledgers(ledgers: Sequence[Account]) -> str:
    if not ledgers:
        return paragraph("No data holder has a ledger in this store.")
    rows = []
    for one in ledgers:
        limit = one.budget.epsilon
        left = "no limit" if limit is None else f"{max(0.0, 1.0 - one.spent / limit):.0%}"
        spent = (number(one.spent), number(one.delta), "none" if limit is None else number(limit), left)
        rows.append((one.party, *spent, f"{one.releases:,}", f"{one.exact:,}", f"{one.open_runs:,}"))
    heads = ("party", "epsilon spent", "at delta", "limit", "left of it", "releases", "of them exact", "open runs")
    bounds = "“No bound” means that exact values have left, so that no epsilon holds."
    chains = "This page does not check the chains of the ledgers; colonnade budget show does."
    spent_table = table("Spent or reserved in this period", heads, rows, numbers=7)
    return spent_table + paragraph(f"{bounds} {chains}", "soft")


def _messages(messages: Sequence[Message], *, with_run: bool) -> str:
    if not messages:
        return paragraph("No message has left a data holder of this store.")
    heads = ("sender", "receiver", "message", "round", "size", *(("run",) if with_run else ()))
    rows = []
    for one in messages:
        size = "over 1 MiB" if one.size is None else human_bytes(one.size)
        rows.append((one.sender, one.receiver, one.kind, f"{one.round:,}", size, *((one.run,) if with_run else ())))
    return table(f"The last {count_noun(len(rows), 'message')}, the newest first", heads, rows)


def _epsilon(run: Run) -> str:
    if run.epsilon is None:
        return UNKNOWN
    return "no bound" if math.isinf(run.epsilon) else shown(run.epsilon)


def _progress(run: Run) -> Markup:
    """The round that the run has reached, with a bar while it goes on."""
    text = f"{run.round:,}" + (f" of at most {run.rounds:,}" if run.rounds is not None else "")
    if run.rounds is None or run.state != "running":
        return Markup(text)
    name = f"rounds of run {escape(run.name, quote=True)}"
    return Markup(f'{text} <progress max="{run.rounds}" value="{run.round}" aria-label="{name}"></progress>')


def _time(run: Run) -> str:
    return run.began.replace("T", " ").replace("+00:00", " UTC")


def _whole(title: str, summary: str, sections: Sequence[str], up: str, *, live: bool = True) -> str:
    script = f'<script src="{up}live.js" defer></script>' if live else ""
    back = f'<nav aria-label="Pages"><ul><li><a href="{up}./">All runs</a></li></ul></nav>' if up else ""
    told = f'<p id="live" role="status">{escape(summary)}</p>' if live else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} – Colonnade</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{up}style.css">
{script}
</head>
<body>
<header><h1>{escape(title)}</h1>{told}</header>
{back}
<main>
{"".join(sections)}</main>
</body>
</html>
"""
