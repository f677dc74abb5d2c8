"""The page: sections, tables and figures of one fit, put together and written in one piece."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np

from colonnade.errors import HeldByParty, InvalidInput
from colonnade.privacy.statement import Guarantee
from colonnade.privacy.store import write_synced
from colonnade.report import figures
from colonnade.report.traffic import left_by_party, reached_by_party
from colonnade.report.words import counted, human_bytes, listed, message_words, number, problem_sentence
from colonnade.result import Fit

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
SECTIONS = {
    "question": "The question",
    "model": "The model",
    "convergence": "Convergence",
    "traffic": "What left each party",
    "privacy": "Privacy",
    "reproduction": "Reproduction",
}
HISTORY_ROWS = 12  # of the table beside the plots


@dataclass(frozen=True)
class Quality:
    """How good models are: one figure by model, and on which data it was computed."""

    measure: str
    values: Mapping[str, float]
    note: str


def write_report(fit: Fit, path: str | Path, *, quality: Quality | None = None) -> Path:
    """Write the report of a fit to one self-contained HTML file; the path it was written to."""
    target = check_target(path)
    write_synced(target, _page(fit, quality).encode())
    return target


def check_target(path: str | Path) -> Path:
    """The path, or InvalidInput where no report can be written: better said before a run than after it."""
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder; name a file in it, for example {target / 'report.html'}.")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} for the report does not exist; create it, or name another.")
    return target


def _page(fit: Fit, quality: Quality | None) -> str:
    from plotly.offline import get_plotlyjs

    plots = _Plots()
    bodies = {
        "question": _question(fit, quality),
        "model": _model(fit, plots),
        "convergence": _convergence(fit, plots),
        "traffic": _traffic(fit, plots),
        "privacy": _privacy(fit),
        "reproduction": _reproduction(fit),
    }
    links = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title in SECTIONS.items())
    sections = "".join(
        f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{title}</h2>{bodies[key]}</section>\n'
        for key, title in SECTIONS.items()
    )
    count = len(_parties(fit))
    title = f"One model from {count:,} {'party' if count == 1 else 'parties'}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} – Colonnade report</title>
<style>{_asset("style.css")}</style>
</head>
<body>
<header><h1>{title}</h1>
<p class="soft">{escape(fit.method[:1].upper() + fit.method[1:])}, run <code>{escape(fit.run)}</code></p></header>
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main>
{sections}</main>
<noscript><p>The plots need JavaScript; every figure in them is also in a table.</p></noscript>
{plots.data()}
<script>{get_plotlyjs()}</script>
<script>{_asset("plots.js")}</script>
</body>
</html>
"""


# ------------------------------------------------------------------------------------------------ sections


def _question(fit: Fit, quality: Quality | None) -> str:
    parties = _parties(fit)
    text = (
        f"<p>The parties {escape(listed(parties))} hold different columns of the same rows; the label is held by "
        f"{escape(fit.label)}. {escape(problem_sentence(fit.problem))}</p>"
        f"<p>It was found by {escape(fit.method)} and stopped because: {escape(fit.status.value)}.</p>"
        + "".join(f"<p>Note: {escape(remark)}.</p>" for remark in fit.remarks)
    )
    facts = {
        "objective": number(fit.objective),
        "gap to the best, at most": number(fit.gap),
        "rounds": f"{len(fit.notes):,}",
        "left the parties": human_bytes(sum(sent.bytes for sent in left_by_party(fit))),
    }
    if fit.seconds is not None:
        facts["seconds"] = f"{fit.seconds:.1f}"
    cards = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return f'{text}<dl class="figures">{cards}</dl>' + (_quality(quality) if quality else "")


def _quality(quality: Quality) -> str:
    rows = [(name, f"{value:.3f}") for name, value in quality.values.items()]
    table = _table("The joint model, and others to compare it with", ("model", quality.measure), rows, numbers=1)
    return f'<h3>How good it is</h3>{table}<p class="soft">{escape(quality.note)}</p>'


def _model(fit: Fit, plots: _Plots) -> str:
    counts, entries = [], []
    for party in fit.coefficients:
        try:
            x = fit.coefficients[party]
        except HeldByParty:
            counts.append((party, "held there", "held there", "held there"))
            continue
        used = np.flatnonzero(x)
        counts.append((party, f"{x.size:,}", f"{used.size:,}", number(float(np.abs(x).sum()))))
        errors = np.zeros(x.size) if fit.errors is None else fit.errors[party]
        entries += [(party, str(fit.features[party][j]), float(x[j]), float(errors[j])) for j in used.tolist()]
    entries.sort(key=lambda entry: -abs(entry[2]))
    largest = entries[: figures.LARGEST]
    parts = [
        _table("Columns by party", ("party", "columns", "used", "L1 norm"), counts, numbers=3),
        f"<p>The intercept is {number(fit.intercept)}.</p>",
    ]
    if largest:
        bars = figures.coefficient_bars(largest, figures.party_colours(list(fit.coefficients)))
        caption = f"The {len(largest)} largest of {len(entries):,} coefficients that are not zero, by party."
        heads = ["party", "column", "coefficient"]
        rows = [(party, feature, number(value), number(error)) for party, feature, value, error in entries]
        if fit.errors is not None:
            caption += (
                " Lines show two standard errors to either side: of sampling, and of the noise that privacy added; not the "
                "shrinkage that this noise asks for."
            )
            heads.append("standard error")
        shown = [row[: len(heads)] for row in rows]
        parts += [
            plots.figure("coefficients", bars, caption),
            _folded(
                f"All {counted(len(entries), 'coefficient')} as a table",
                _table("Coefficients, largest first", heads, shown, numbers=len(heads) - 2),
            ),
        ]
    else:
        parts.append("<p>All coefficients known here are zero.</p>")
    return "".join(parts)


def _convergence(fit: Fit, plots: _Plots) -> str:
    gap = figures.history_lines(fit, "gap", "gap", log=True)
    objective = figures.history_lines(fit, "objective", "objective", log=False)
    if gap is None and objective is None:
        return "<p>This run released no objective and no gap, so there is no history to show.</p>"
    parts = []
    if gap is not None:
        caption = "The gap by round, on a logarithmic axis: the objective is at most this far above the best possible."
        parts.append(plots.figure("gap", gap, caption))
    if objective is not None:
        parts.append(plots.figure("objective", objective, "The objective by round."))
    places = np.unique(np.linspace(0, len(fit.notes) - 1, min(HISTORY_ROWS, len(fit.notes))).astype(int))
    names = [name for name in ("round", "objective", "gap", "step") if name in fit.notes[0]]
    rows = [
        tuple(f"{note[name]:,}" if name == "round" else number(note[name]) for name in names)
        for note in (fit.notes[place] for place in places)
    ]
    caption = f"{len(rows)} of {counted(len(fit.notes), 'round')}, before the step of that round"
    return "".join([*parts, _folded("The history as a table", _table(caption, names, rows, numbers=len(names)))])


def _traffic(fit: Fit, plots: _Plots) -> str:
    left, reached = left_by_party(fit), reached_by_party(fit)
    directions = [("left", sent) for sent in left] + [("reached", sent) for sent in reached]
    directions.sort(key=lambda line: (line[1].party, line[0]))
    rows = [(sent.party, way, sent.type, f"{sent.messages:,}", human_bytes(sent.bytes)) for way, sent in directions]
    traffic = fit.communication
    table = _table(
        "Messages by party, direction and type",
        ("party", "direction", "message", "count", "bytes"),
        rows,
        numbers=2,
        total=("all", "", "", f"{traffic.messages:,}", human_bytes(traffic.bytes)),
    )
    meanings = [(kind, message_words(kind)) for kind in sorted({sent.type for _, sent in directions})]
    by_round = figures.bytes_by_round(fit, figures.party_colours(_parties(fit)))
    return "".join(
        [
            table,
            '<p class="soft">A message between two parties stands at both; the last line counts it once. Bytes are those '
            "of the codec, without encryption and transport.</p>",
            _folded("What the messages are", _table("Types of messages", ("message", "meaning"), meanings)),
            plots.figure("bytes", by_round, "Bytes that left each party, by round."),
            plots.figure("sofar", figures.bytes_so_far(fit), "Bytes on the wires up to each round, by direction."),
        ]
    )


def _privacy(fit: Fit) -> str:
    kind = "statement none" if fit.privacy.guarantee == Guarantee.NONE else "statement"
    names = {
        "epsilon": "epsilon",
        "delta": "delta",
        "unit": "unit",
        "neighbours": "neighbouring tables",
        "trust": "trusted with exact values",
        "accountant": "accountant",
        "guarantee": "guarantee",
        "sees": "an adversary sees",
    }
    values = fit.privacy.table()
    rows = [
        (words, number(values[name]) if isinstance(values[name], float) else str(values[name]))
        for name, words in names.items()
    ]
    table = _table("The statement in figures", (), rows)
    return f'<p class="{kind}">{escape(fit.privacy.sentence)}</p>{table}'


def _reproduction(fit: Fit) -> str:
    packages = ("colonnade", "numpy", "scipy", "numba")
    rows = [
        ("run", fit.run),
        ("method", fit.method),
        ("problem", repr(fit.problem)),
        ("rows matched on", fit.on or "their order"),
        ("seconds", "not kept under privacy" if fit.seconds is None else f"{fit.seconds:.2f}"),
        ("report made with", ", ".join(f"{package} {version(package)}" for package in packages)),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
    ]
    return _table("What this run was", (), rows)


# ------------------------------------------------------------------------------------------------ parts


class _Plots:
    """Collects the figures; their data go to the end of the page, where the script finds them by name."""

    def __init__(self) -> None:
        self._made: dict[str, figures.Figure] = {}

    def figure(self, name: str, figure: figures.Figure, caption: str) -> str:
        self._made[name] = figure
        height = figure["layout"]["height"]
        return (
            f'<figure><div class="plot" role="img" aria-label="{escape(caption)}" data-figure="figure-{name}" '
            f'style="height: {height}px"></div><figcaption>{escape(caption)}</figcaption></figure>'
        )

    def data(self) -> str:
        # "</" inside a name would end the script element; JSON reads "<\/" as the same text.
        return "\n".join(
            f'<script type="application/json" id="figure-{name}">{json.dumps(figure).replace("</", "<" + chr(92) + "/")}</script>'
            for name, figure in self._made.items()
        )


def _table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: int = 0,
    total: Sequence[str] | None = None,
) -> str:
    """A table whose last `numbers` columns are figures; without a head where the first column names the values."""

    def line(cells: Sequence[str], scope: str) -> str:
        made = []
        for place, cell in enumerate(cells):
            names = place == 0 or scope == "col"  # a cell that names its row or its column
            kind = "th" if names else "td"
            marks = f' scope="{scope}"' if names else ""
            marks += ' class="n"' if place >= len(cells) - numbers else ""
            made.append(f"<{kind}{marks}>{escape(cell)}</{kind}>")
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "row") for row in rows)
    top = f"<thead>{line(head, 'col')}</thead>" if head else ""
    foot = f"<tfoot>{line(total, 'row')}</tfoot>" if total else ""
    return (
        # A table wider than the screen scrolls inside this region, which the keyboard can reach.
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0"><table><caption>{escape(caption)}</caption>'
        f"{top}<tbody>{body}</tbody>{foot}</table></div>"
    )


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def _parties(fit: Fit) -> list[str]:
    """Everyone who took part, with or without columns: the label holder too."""
    return list(dict.fromkeys([*fit.coefficients, fit.label]))


def _asset(name: str) -> str:
    return (files("colonnade.report") / name).read_text(encoding="utf-8")
