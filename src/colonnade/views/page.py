"""The page: the verdict first, then the sections of one fit, put together and written in one piece. Here are those
about the run: how it was found, the parties, how good it is, convergence, cost, settings, reproduction. A section with
nothing to say is left out."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from importlib.metadata import version
from pathlib import Path

from colonnade.data.schema.table import Source
from colonnade.errors import InvalidInput
from colonnade.model.facts import FitFacts, RunFacts, left_by_party, parties_of
from colonnade.privacy.events import shown
from colonnade.privacy.store import write_synced
from colonnade.views import chart
from colonnade.views import parts as html
from colonnade.views.chart import INK
from colonnade.views.model import InferenceFacts, inference_section, model_section
from colonnade.views.verdict import (
    BASES,
    Evaluation,
    Quality,
    date_of,
    privacy_section,
    title_of,
    traffic_section,
    verdict_section,
)

SOURCES = {
    "declared": "declared before the run",
    "data": "read off the data",
    "public": "read off the data and declared public",
}
DIRECTIONS = {"up": "from the parties", "down": "to the parties", "across": "between parties"}


def write_report(
    fit: FitFacts,
    path: str | Path,
    *,
    quality: Quality | None = None,
    evaluation: Evaluation | None = None,
    inference: InferenceFacts | str = "",
) -> Path:
    """Write the report of a fit to one self-contained HTML file; the path it was written to.

    quality     figures that the caller computed, such as a comparison of models.
    evaluation  what was found on rows of the caller's: ROC, calibration and what each party adds.
    inference   coefficients with intervals and tests, or why there are none; nothing: no such section.
    """
    target = check_target(path)
    write_synced(target, render_report(fit, quality=quality, evaluation=evaluation, inference=inference).encode())
    return target


def check_target(path: str | Path) -> Path:
    """The path, or InvalidInput where no file can be written: better said before a run than after it."""
    target = Path(path)
    try:
        if target.is_dir():
            raise InvalidInput(f"{target} is a folder; name a file in it.")
        if not target.parent.is_dir():
            raise InvalidInput(f"the folder {target.parent} does not exist; create it, or name another.")
    except OSError as error:
        # A folder that may not be looked into, a name that is too long.
        raise InvalidInput(f"{target} cannot be written: {error.strerror}. Name another file.") from error
    return target


def render_report(
    fit: FitFacts,
    *,
    quality: Quality | None = None,
    evaluation: Evaluation | None = None,
    inference: InferenceFacts | str = "",
) -> str:
    """The report as text; arguments as in `write_report`."""
    known = RunFacts.of(fit)
    title = title_of(fit, known)
    began = date_of(fit.run)
    parts = [
        ("verdict", "The verdict", verdict_section(fit, known, quality, evaluation)),
        ("parties", "The parties", parties_section(fit, known)),
        ("model", "The model", model_section(fit)),
        ("inference", "Intervals and tests", inference_section(inference) if inference else ""),
        ("quality", "How good it is", quality_section(evaluation, quality)),
        ("privacy", "Privacy", privacy_section(fit)),
        ("found", "How it was found", found_section(fit)),
        ("traffic", "Messages", traffic_section(fit)),
        ("convergence", "Convergence", convergence_section(fit)),
        ("cost", "Cost", cost_section(fit)),
        ("settings", "Settings and scaling", settings_section(fit, known)),
        ("reproduction", "Reproduction", reproduction_section(fit, known)),
    ]
    shown_parts = [part for part in parts if part[2]]
    return html.filed_page("report.html", title, shown_parts, began=began, run=fit.run)


# ------------------------------------------------------------------------------------------------ sections


def found_section(fit: FitFacts) -> str:
    parties = parties_of(fit)
    held = "different rows with the same columns" if fit.by_rows else "different columns of the same rows"
    label = "each with its labels" if fit.by_rows else f"the label is held by {fit.label}"
    who = f"The parties {html.join_names(parties)} hold {held}"
    if len(parties) == 1:
        who = f"The party {parties[0]} holds all data"
    asked = f"{html.problem_sentence(fit.problem)} {html.plain_words(fit.problem)}"
    text = [
        html.paragraph(f"{who}; {label}. {asked}".rstrip()),
        html.paragraph(f"It was found by {fit.method} and stopped because: {fit.status.value}."),
        *(html.paragraph(f"Note: {remark}.") for remark in fit.remarks),
    ]
    figures = {
        "objective": None if fit.objective is None else html.number(fit.objective),
        "gap to the best, at most": None if fit.gap is None else html.number(fit.gap),
        "rounds": f"{len(fit.notes):,}" if fit.notes else None,
        "left the parties": html.human_bytes(sum(sent.bytes for sent in left_by_party(fit))),
    }
    return html.joined([*text, html.cards({name: figure for name, figure in figures.items() if figure is not None})])


def parties_section(fit: FitFacts, known: RunFacts) -> str:
    """Who took part; a column of which nothing is known is left out."""
    rows = []
    for party in parties_of(fit):
        columns = f"{len(fit.features[party]):,}" if party in fit.features else "none"
        brought = f"{known.brought[party]:,}" if party in known.brought else ""
        holds = "columns and the label" if party == fit.label and party in fit.features else "columns"
        holds = "the label" if party not in fit.features else holds
        rows.append((party, holds, known.policies.get(party, ""), brought, columns))
    heads = ("party", "holds", "its policy", "rows brought", "columns")
    kept = [k for k in range(len(heads)) if any(row[k] for row in rows)]
    matched = ""
    if known.rows is not None:
        matched = f"{html.count_noun(known.rows, 'row')} {'in all' if fit.by_rows else 'matched in all parties'}."
    on = f" They were matched on {fit.on!r}." if fit.on else ""
    allowed = " A policy says what a party would allow at most; what left it stands at the top." * bool(known.policies)
    unpriced = " How many rows a party brought is kept for runs without privacy only, since no price covers it."
    hidden = any(party not in known.brought for party in parties_of(fit))
    chosen = [[row[k] for k in kept] for row in rows]
    who = html.table("Who took part", [heads[k] for k in kept], chosen, numbers=sum(k > 2 for k in kept))
    return who + html.paragraph((matched + on + allowed + unpriced * hidden).strip())


GAP = "The gap by round, on a logarithmic axis: the objective is at most this far above the best possible."
CURVES = {
    "gap": (GAP, chart.Axis("gap", log=True)),
    "objective": ("The objective by round.", chart.Axis("objective")),
}


def convergence_section(fit: FitFacts) -> str:
    parts = []
    for name, (caption, axis) in CURVES.items():
        points = _history(fit, name, log=axis.log)
        if points:
            line = chart.Curve(name, points, INK)
            drawn = chart.lines([line], chart.Axis("round", whole=True), axis, label=caption)
            parts.append(html.figure(drawn, caption, _history_table(fit, name)))
    return html.joined(parts)


def _history_table(fit: FitFacts, name: str) -> str:
    """As many rounds as a table can show, evenly spaced."""
    places = html.evenly_spaced(len(fit.notes))
    rows = [(f"{fit.notes[k].get('round', k):,}", html.number(fit.notes[k].get(name))) for k in places]
    caption = f"The {name} in {len(rows)} of {html.count_noun(len(fit.notes), 'round')}, before the step of that round"
    return html.table(caption, ("round", name), rows, numbers=2)


def _history(fit: FitFacts, name: str, *, log: bool) -> list[tuple[float, float]]:
    """One released figure by round, where the axis can show it."""
    points = [(note.get("round"), note.get(name)) for note in fit.notes]
    finite = [(t, v) for t, v in points if t is not None and isinstance(v, float) and math.isfinite(v)]
    return [(float(t), v) for t, v in finite if v > 0.0 or not log]


def cost_section(fit: FitFacts) -> str:
    traffic = fit.communication
    by_direction = {line["direction"]: line for line in traffic.by("direction").to_dicts()}
    lines = [(name, by_direction[way]) for way, name in DIRECTIONS.items() if way in by_direction]
    rows = [(name, f"{line['messages']:,}", html.human_bytes(line["bytes"])) for name, line in lines]
    total = ("all", f"{traffic.messages:,}", html.human_bytes(traffic.bytes))
    wires = html.table("On the wires, by direction", ("direction", "messages", "bytes"), rows, numbers=2, total=total)
    took = "How long it took is not kept: under privacy a duration would tell about the data."
    if fit.seconds is not None:
        took = f"It took {fit.seconds:.1f} seconds."
    price = "No price in privacy can be named: exact values left the parties."
    if math.isfinite(fit.privacy.epsilon):
        cost = shown(fit.privacy.epsilon)
        delta = html.number(fit.privacy.delta)
        price = f"It cost epsilon {cost} of every budget that counts these rows, at delta {delta}."
    return html.joined([html.paragraph(took), html.paragraph(price), wires, _so_far(fit)])


def _so_far(fit: FitFacts) -> str:
    """Everything on the wires up to a round, by direction."""
    lines = fit.communication.by("direction", "round").sort("round").to_dicts()
    last = fit.communication.rounds
    curves = []
    columns = []
    for place, (way, name) in enumerate(DIRECTIONS.items()):
        own = {line["round"]: line["bytes"] for line in lines if line["direction"] == way}
        if own:
            points = []
            total = 0
            for number_ in sorted({*own, last}):
                total += own.get(number_, 0)
                points.append((float(number_), float(total)))
            curves.append(chart.Curve(name, points, INK, place, steps=True))
            columns.append((name, dict(points)))
    if not curves:
        return ""
    caption = "Bytes on the wires up to each round, by direction."
    x = chart.Axis("round", whole=True)
    y = chart.Axis("bytes so far", bytes=True, low=0.0)
    drawn = chart.lines(curves, x, y, label=caption)
    rows = []
    for t in html.evenly_spaced(last + 1):
        so_far = (max((total for round_, total in known.items() if round_ <= t), default=0.0) for _, known in columns)
        rows.append((f"{t:,}", *(html.human_bytes(int(total)) for total in so_far)))
    data = html.table("Bytes up to a round", ("round", *(name for name, _ in columns)), rows, numbers=len(columns) + 1)
    return html.figure(drawn, caption, data)


def settings_section(fit: FitFacts, known: RunFacts) -> str:
    rows = {"method": fit.method, "settings and privacy terms": known.settings, "problem": repr(fit.problem)}
    parts: list[str] = [html.facts("What was asked", {name: fact for name, fact in rows.items() if fact})]
    for party, schema in fit.schemas.items():
        if schema is not None:
            read = SOURCES[schema.source]
            text = html.piece("preformatted", schema.to_text())
            parts.append(html.folded_part(f"Columns of {party} and how they are scaled ({read})", text))
    if len(parts) == 1:
        parts.append(html.paragraph("Columns were used as they came: no schema scaled them."))
    return html.joined(parts)


def reproduction_section(fit: FitFacts, known: RunFacts) -> str:
    packages = ("colonnade", "numpy", "scipy", "numba")
    rows = {
        "run": fit.run,
        **hashes_of(fit, known),
        "rows matched on": fit.on or "their order",
        "report made with": ", ".join(f"{package} {version(package)}" for package in packages),
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
    }
    return html.facts("What this run was", rows) + html.paragraph(
        "The hashes are of public things and of the model above, never of data. The same call with the same store "
        "finds the run again; without noise the same call gives the same model, bit for bit.",
        "soft",
    )


def hashes_of(fit: FitFacts, known: RunFacts) -> dict[str, str]:
    """What ran: release and protocol, and hashes of problem, model, schemas, the federation file; never of data.

    A hash of figures that were read off the rows would let guesses of them be tested: it is left out, and so is that
    of a federation file that has them.
    """
    read_off = {
        party for party, schema in fit.schemas.items() if schema is not None and schema.source != Source.DECLARED
    }
    rows = {
        "release and protocol": known.protocol,
        "code of the run, SHA-256": known.code,
        "problem, SHA-256": _digest(repr(fit.problem)),
        "model, SHA-256": _model_digest(fit),
        "federation file, SHA-256": "" if read_off else known.federation,
    }
    for party, schema in fit.schemas.items():
        if schema is not None and party not in read_off:
            rows[f"schema of {party}, SHA-256"] = schema.digest()
    if read_off:
        rows["no hash"] = f"of what has figures that were read off the rows ({', '.join(sorted(read_off))})"
    return {name: value for name, value in rows.items() if value}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _model_digest(fit: FitFacts) -> str:
    """Of the coefficients known here and the intercept, as they are printed in full."""
    known = {party: x.tolist() for party, x in fit.coefficients.local.items()}
    return _digest(json.dumps([known, fit.intercept], sort_keys=True))


# ------------------------------------------------------------------------------------------------ how good it is


def quality_section(evaluation: Evaluation | None, quality: Quality | None) -> str:
    """What was measured; nothing where nothing was."""
    parts: list[str] = []
    if quality is not None:
        rows = [(name, quality.shown(name)) for name in quality.values]
        caption = "The joint model, and others to compare it with"
        parts += [
            html.table(caption, ("model", quality.measure), rows, numbers=1),
            html.paragraph(quality.note, "soft"),
        ]
    if evaluation is None:
        return html.joined(parts)
    parts.append(
        html.paragraph(f"On {html.count_noun(evaluation.rows, 'row')} given for this report. {BASES[evaluation.basis]}")
    )
    rows3 = [
        (name, html.with_error(value, error), meaning) for name, (value, error, meaning) in evaluation.figures.items()
    ]
    known = any(error is not None for _, error, _ in evaluation.figures.values())
    caption = "Figures of quality" + ", ± one standard error of these rows" * known
    parts.append(html.table(caption, ("measure", "figure", "meaning"), rows3))
    parts += [html.side_by_side([_roc(evaluation), _calibration(evaluation)]), _contribution(evaluation)]
    return html.joined(parts)


def _roc(evaluation: Evaluation) -> str:
    if not evaluation.roc:
        return ""
    caption = "ROC: positive rows found against negative rows accused, by threshold; on the grey line are guesses."
    x, y = (chart.Axis(name, low=0.0, high=1.0) for name in ("negative rows accused", "positive rows found"))
    drawn = chart.lines([chart.Curve("model", evaluation.roc, INK)], x, y, label=caption, diagonal=True)
    rows = [tuple(f"{share:.3f}" for share in evaluation.roc[k]) for k in html.evenly_spaced(len(evaluation.roc))]
    return html.figure(drawn, caption, html.table("Points of the ROC", (x.name, y.name), rows, numbers=2))


def _calibration(evaluation: Evaluation) -> str:
    if not evaluation.groups:
        return html.paragraph(evaluation.remark, "soft")
    caption = "Calibration: predicted against found, in groups of equal size; on the grey line both agree."
    points = [(predicted, found) for predicted, found, _ in evaluation.groups]
    low, high = (0.0, 1.0) if evaluation.roc else (min(map(min, points)), max(map(max, points)))
    x, y = (chart.Axis(name, low=low, high=high) for name in ("predicted", "found"))
    line = chart.Curve("model", points, INK, marks=True)
    drawn = chart.lines([line], x, y, label=caption, diagonal=bool(evaluation.roc))
    rows = [(f"{predicted:.4g}", f"{found:.4g}", f"{size:,}") for predicted, found, size in evaluation.groups]
    return html.figure(drawn, caption, html.table("Groups", ("predicted", "found", "rows"), rows, numbers=3))


def _contribution(evaluation: Evaluation) -> str:
    if not evaluation.without:
        return ""
    whole = evaluation.figures[evaluation.measure][0]
    rows = [("all parties", html.number(whole), "")]
    rows += [
        (f"without {p}", html.number(value), html.number(value - whole)) for p, value in evaluation.without.items()
    ]
    parts = html.table("What each party adds", ("scores", evaluation.measure, "difference"), rows, numbers=2)
    return parts + html.paragraph(
        "A party's part of every score is left out and the rest stays as it is: what it adds to this model, not what a "
        "model without it could reach.",
        "soft",
    )
