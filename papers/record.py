"""The record of runs that is kept in this folder, and the pages that are rendered from it.

    papers/results/results.json     of every figure what `--json` says: verdicts with their numbers, small tables, mode, code version, CPU seconds
    papers/results/<figure>.svg     its plot

Rule     a page holds no measured number that is not in the record. `rendered` makes the pages from the record alone, so that a test can make
         them again and compare; what the record was measured with is said in it, and no page depends on the code's present version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import InvalidInput, StoreError
from colonnade.privacy.store import write_synced
from papers.page import WORDS

FOLDER, RESULTS = "results", "results.json"
START, END = "<!-- rendered by python -m papers pages -->", "<!-- end of what was rendered -->"
OWN = "this project"  # what is no paper's comes last
JUDGED = ("as stated", "differs")
Record = dict[str, dict[str, Any]]  # by figure, in the order in which they are listed
Page = Callable[[Record], str]


def publish(results: Path, pages: Path, names: Sequence[str]) -> list[str]:
    """Keep beside the pages what a results folder holds of these figures; the names of those that were kept.

    A figure that the folder does not hold keeps the record it has, one that no longer exists loses it.
    """
    target = pages / FOLDER
    record = load(pages) if (target / RESULTS).is_file() else {}
    fresh: list[str] = []
    for name in names:
        said = _outcome(results / name / "outcome.json")
        if said is not None:
            record[name] = said
            fresh.append(name)
    if not fresh:
        raise InvalidInput(f"{results} holds no finished figure: run `python -m papers all --results {results}` first.")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in fresh:
            write_synced(target / f"{name}.svg", (results / name / "figure.svg").read_bytes())
        kept = {name: record[name] for name in names if name in record}
        for gone in set(record) - set(kept):
            (target / f"{gone}.svg").unlink(missing_ok=True)
        write_synced(target / RESULTS, (json.dumps(kept, indent=1, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise StoreError(
            f"cannot write {target}: {error.strerror}. Name the folder of the pages with --pages."
        ) from error
    return fresh


def load(pages: Path) -> Record:
    """The record that is kept beside the pages."""
    path = pages / FOLDER / RESULTS
    try:
        found: Record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {path}: {error}. Make it with `python -m papers publish`.") from error
    return found


def rendered(folder: Path, pages: Mapping[str, Page]) -> dict[Path, str]:
    """What each page ought to hold: its own words, and between the marks what the record makes of it."""
    record, found = load(folder), {}
    for name, render in pages.items():
        path = folder / name
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror}. Name the folder with --pages.") from error
        before, start, rest = text.partition(START)
        _, end, after = rest.partition(END)
        if not (start and end):
            raise InvalidInput(
                f"{path} does not hold the lines {START!r} and {END!r}: add them where it is to be filled."
            )
        found[path] = f"{before}{START}\n{render(record)}\n{END}{after}"
    return found


def _outcome(path: Path) -> dict[str, Any] | None:
    """What became of a figure; None where it was not run, failed, or had no data."""
    try:
        said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if said.get("status") not in JUDGED or not (path.parent / "figure.svg").is_file():
        return None
    return {key: value for key, value in said.items() if key not in ("failures", "missing_data")}


# ------------------------------------------------------------------------------------------------ pages


def markdown_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with the same keys, as Markdown; a bar in a cell is escaped."""
    heads = list(rows[0])
    lines = [heads, ["---"] * len(heads), *([row[head] for head in heads] for row in rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def listed(record: Record) -> str:
    """How many claims hold, paper by paper: for papers/README.md."""
    parts = []
    for paper in papers(record):
        figures = [said["claims"] for said in record.values() if said["paper"] == paper]
        held = [claim["held"] for claims in figures for claim in claims]
        parts.append(f"- {paper}: {sum(held)} of {len(held)} claims, {len(figures)} figures")
    quick = [said["cpu_seconds"] for said in record.values() if said["quick"]]
    total = f"All {len(quick)} quick figures together took {sum(quick):,.0f} s of CPU, {sum(quick) / 120:.0f} minutes on two cores."
    full = [link(name) for name, said in record.items() if not said["quick"]]
    differs = [link(name) for name, said in record.items() if said["status"] != JUDGED[0]]
    modes = f"Run in full: {', '.join(full)}." if full else "All were run in quick mode."
    verdicts = (
        f"Verdicts differ from what their files state: {', '.join(differs)}."
        if differs
        else "All verdicts are as their files state."
    )
    return "\n".join((*parts, "", f"{total} {modes} {verdicts}"))


def papers(record: Record) -> list[str]:
    """The papers by name; what is no paper's comes last."""
    return sorted({said["paper"] for said in record.values()}, key=lambda name: (name == OWN, name))


def gallery(record: Record) -> str:
    """Every plot with its claims, paper by paper: for papers/gallery.md."""
    parts: list[str] = []
    for paper in papers(record):
        parts.append(f"## {paper}")
        parts += [_shown(name, said) for name, said in record.items() if said["paper"] == paper]
    return "\n\n".join(parts)


def _shown(name: str, said: Mapping[str, Any]) -> str:
    about = f"{mode(said)}, {said['cases']:,} cases, {said['cpu_seconds']:.0f} s of CPU; code {said['version']}"
    lines = [f"### {name}", f"**{said['title']}.** {said['setting']}", f"![{said['title']}]({FOLDER}/{name}.svg)"]
    lines.append(f"Privacy: {said['privacy']}")
    claims = []
    for claim in said["claims"]:
        finding = f" {claim['finding']}" if claim["finding"] else ""
        verdict = WORDS[claim["held"], claim["expected"]]
        claims.append(
            f"* *{verdict}*: {claim['says']}. Measured: {claim['evidence']} ({claim['confidence']}).{finding}"
        )
    return "\n\n".join([*lines, "\n".join(claims), f"<small>{about}</small>"])


def mode(said: Mapping[str, Any]) -> str:
    return "quick" if said["quick"] else "full"


def link(name: str) -> str:
    """To a figure in the gallery; headings lose their dots."""
    return f"[{name}](gallery.md#{name.replace('.', '')})"
