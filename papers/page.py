"""What a run leaves in its folder for people: a plot of every figure, and a gallery of all.

<results>/index.html              every figure that has been run there, with its claims and what became of them
<results>/<figure>/figure.svg     the plot, with the privacy of its curves below
<results>/<figure>/rows.parquet   all rows behind it; again.parquet, those of a second run with other seeds
<results>/<figure>/plot.json      the plot as values: what `python -m papers draw` draws again
<results>/<figure>/outcome.json   verdicts, failures, version, CPU seconds
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

from colonnade.errors import StoreError
from colonnade.privacy.store import write_synced
from papers.figure import Figure
from papers.plot import from_values, to_svg, values
from papers.runner import Failure, Outcome, facts, run_line

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'"  # a page loads nothing from elsewhere
WORDS = {  # what the gallery and the command line call a verdict
    (True, True): "holds",
    (False, False): "does not hold: a finding",
    (True, False): "HOLDS, against what the figure says",
    (False, True): "DOES NOT HOLD, against what the figure says",
}


def write_pages(outcomes: Sequence[Outcome], results: Path) -> tuple[Path, list[Outcome]]:
    """Write the plots of these outcomes and the gallery of all; the gallery's path, and the outcomes with drawings that failed."""
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create {results}: {error.strerror}. Name another folder with --results.") from error
    told = [_write_figure(outcome, results / outcome.figure.name) for outcome in outcomes]
    return write_gallery(results), told


def write_gallery(results: Path) -> Path:
    """The gallery of every figure whose outcome is in the folder."""
    said = []
    for path in sorted(results.glob("*/outcome.json")):
        said.append(json.loads(path.read_text(encoding="utf-8")))
    said.sort(key=lambda one: (one["paper"], one["name"]))
    links = "".join(f'<li><a href="#{escape(one["name"])}">{escape(one["name"])}</a></li>' for one in said)
    sections = "\n".join(_section(one, results) for one in said)
    body = f"""<header><h1>The papers' figures, run again</h1>
<p class="soft">Every claim that a published figure makes, and what the rows say of it. A finding is a claim that is known not to
hold, with the reason.</p></header><nav aria-label="Figures"><ul>{links}</ul></nav><main>{sections}</main>"""
    target = results / "index.html"
    write_synced(target, _html("The papers' figures, run again", body).encode())
    return target


def _write_figure(outcome: Outcome, folder: Path) -> Outcome:
    folder.mkdir(exist_ok=True)
    if outcome.table is not None:
        try:
            _write_plot(outcome.figure, outcome, folder)
        except Exception as error:  # one drawing that fails must not cost the others theirs
            failed = Failure({}, f"draw raised {type(error).__name__}: {error}")
            outcome = replace(outcome, failures=(*outcome.failures, failed))
    write_synced(folder / "outcome.json", json.dumps(facts(outcome), indent=2).encode())
    return outcome


def _write_plot(figure: Figure, outcome: Outcome, folder: Path) -> None:
    assert outcome.table is not None
    rows = BytesIO()
    outcome.table.write_parquet(rows)
    write_synced(folder / "rows.parquet", rows.getvalue())
    if outcome.again_table is not None and outcome.chance != "none":
        rows = BytesIO()
        outcome.again_table.write_parquet(rows)
        write_synced(folder / "again.parquet", rows.getvalue())
    kept = values(figure.draw(outcome.table))
    write_synced(folder / "plot.json", json.dumps(kept, ensure_ascii=False).encode())
    drawn = to_svg(from_values(kept), foot(run_line(outcome), figure.privacy))
    write_synced(folder / "figure.svg", drawn.encode())


def foot(run: str, privacy: str) -> str:
    """What stands on a plot about its run and about its privacy: it stays with a picture that is taken out of its page."""
    return f"{run}\nPrivacy: {privacy}"


def seeds_told(claim: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    """What other seeds say of a verdict, and whether the claim was changed after it was seen to run."""
    size = ", of the quick size," if not said["quick"] and said.get("again_quick", True) else ""
    seeds = " with other seeds" if said["chance"] == "seeds" else ""
    told = {
        None: "Not yet judged with other seeds.",
        True: f"A second run{seeds}{size} gives the same verdict.",
        False: f"UNSTABLE: a second run{seeds}{size} gives the other verdict ({claim['again']}).",
    }[claim["stable"]]
    if said["chance"] == "none":
        told = "No chance in it: a second run is the same."
    return f"{told} Changed: {claim['changed']}" if claim["changed"] else told


# ------------------------------------------------------------------------------------------------ HTML


def _section(said: dict[str, Any], results: Path) -> str:
    name = escape(said["name"])
    parts = [f'<section id="{name}"><h2>{escape(said["title"])}</h2>']
    size = "quick" if said["quick"] else "full"
    about = f"{said['paper']}; {name}; {size}, {said['cases']:,} cases, {said['cpu_seconds']:.1f} s of CPU; {said['status']}"
    parts.append(f'<p class="soft">{escape(about)}</p>')
    if said["missing_data"]:
        parts.append(f"<p>Not run: it reads {escape(', '.join(said['missing_data']))}; set COLONNADE_DATA.</p>")
    elif (results / said["name"] / "figure.svg").is_file():
        picture = f'<img src="{name}/figure.svg" alt="{escape(said["title"])}" loading="lazy" style="width: 100%">'
        parts.append(f'<figure><a href="{name}/figure.svg">{picture}</a></figure>')
    parts.append(f"<p>{escape(said['setting'])}</p>")
    parts.append(f'<p class="statement">Privacy: {escape(said["privacy"])}</p>')
    for claim in said["claims"]:
        verdict = WORDS[claim["held"], claim["expected"]]
        finding = f"<p>{escape(claim['finding'])}</p>" if claim["finding"] else ""
        warn = "" if claim["held"] and claim["expected"] else " none"
        parts.append(
            f'<div class="statement{warn}"><p><strong>{escape(verdict)}.</strong> {escape(claim["says"])}</p>'
            f'<p class="soft">{escape(claim["evidence"])} ({escape(claim["confidence"])})</p>{finding}'
            f'<p class="soft">{escape(seeds_told(claim, said))}</p></div>'
        )
    for failure in said["failures"]:
        parts.append(f"<p>Failed: <code>{escape(json.dumps(failure['case']))}</code> {escape(failure['reason'])}</p>")
    return "\n".join([*parts, "</section>"])


def _html(title: str, body: str) -> str:
    style = (files("colonnade.views") / "style.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>
<style>{style}</style></head>
<body>{body}</body></html>
"""
