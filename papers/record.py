"""The record of runs that is kept in this folder, and the pages that are rendered from it.

    papers/results/<figure>.json    what `--json` says of it: verdicts with their numbers, sizes, seeds, mode, code version, CPU hours, its curves
    papers/results/<figure>.svg     its plot, which `python -m papers draw` makes again of the curves

Rule     a page holds no measured number that is not in the record. `rendered` makes the pages from the record alone, so that a test can make
         them again and compare; what the record was measured with is said in it, and no page depends on the code's present version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import InvalidInput, StoreError
from colonnade.privacy.store import write_synced
from papers.figure import Figure
from papers.page import WORDS, foot, seeds_told
from papers.plot import from_values, to_svg
from papers.registry import natural
from papers.runner import Outcome, run_line, settings

FOLDER = "results"
OTHERS = ("comparison.json",)  # of the folder, that are no figure's
START, END = "<!-- rendered by python -m papers pages -->", "<!-- end of what was rendered -->"
OWN = "this project"  # what is no paper's comes last
JUDGED = ("as stated", "differs")
Record = dict[str, dict[str, Any]]  # by figure, in the order in which they are listed
Page = Callable[[Record], str]


def publish(results: Path, pages: Path, names: Sequence[str]) -> list[str]:
    """Keep beside the pages what a results folder holds of these figures; the names of those that were kept.

    A figure that the folder does not hold keeps the record it has, one that no longer exists loses it. The record of a full run
    stays where the folder has a quick one that makes the same claims.
    """
    target = pages / FOLDER
    record = load(pages) if target.is_dir() else {}
    fresh = {name: said for name in names if (said := _outcome(results / name)) is not None}
    fresh = {name: said for name, said in fresh.items() if not _better(record.get(name), said)}
    if not fresh and not record:
        raise InvalidInput(f"{results} holds no finished figure: run `python -m papers all --results {results}` first.")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, said in fresh.items():
            write_synced(target / f"{name}.svg", (results / name / "figure.svg").read_bytes())
            write_synced(target / f"{name}.json", as_json(said).encode())
        for gone in set(record) - set(names):
            for kind in ("svg", "json"):
                (target / f"{gone}.{kind}").unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot write {target}: {error.strerror}. Name the folder of the pages with --pages."
        ) from error
    return list(fresh)


def as_json(said: Mapping[str, Any]) -> str:
    return json.dumps(said, indent=1, ensure_ascii=False) + "\n"


def _better(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> bool:
    """Whether the record that is there is of a full run and the new one, of a quick run, claims the same."""
    if old is None or old["quick"] or not new["quick"]:
        return False
    claims = [[(c["says"], c["confidence"]) for c in one["claims"]] for one in (old, new)]
    return claims[0] == claims[1]


def load(pages: Path) -> Record:
    """The record that is kept beside the pages, in the order in which figures are listed."""
    folder, found = pages / FOLDER, Record()
    if not folder.is_dir():
        raise StoreError(f"cannot read {folder}: there is no such folder. Make it with `python -m papers publish`.")
    for path in sorted(folder.glob("*.json"), key=lambda one: natural(one.stem)):
        if path.name in OTHERS:
            continue
        try:
            found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot read {path}: {error}. Make it with `python -m papers publish`.") from error
    return found


def waiting(figures: Iterable[Figure], record: Record) -> list[str]:
    """Figures whose claims are written down and not yet judged: they have no record, or one of other claims."""
    return [
        figure.name
        for figure in figures
        if figure.name not in record
        or [(c["says"], c["expected"], c["confidence"]) for c in record[figure.name]["claims"]]
        != [(c.says, c.expected(record[figure.name]["quick"]), c.confidence) for c in figure.claims]
    ]


def retold(record: Record, figures: Iterable[Figure]) -> Record:
    """Every record with the words that its figure's file has now: what a run measured stays. Not where its claims or sizes are others."""
    found = dict(record)
    for figure in figures:
        said = record.get(figure.name)
        if said is None or waiting([figure], record) or said["settings"] != settings(figure.cases(said["quick"])):
            continue
        run = run_line(
            Outcome(
                figure,
                said["version"],
                said["quick"],
                said["cases"],
                said["cpu_seconds"],
                None,
                (),
                printed_seconds=3600.0 * said["printed_hours"],
            )
        )
        words = {"title": figure.title, "setting": figure.setting, "privacy": figure.privacy, "less": figure.less}
        claims = [
            {**old, "finding": new.finding, "changed": new.changed}
            for old, new in zip(said["claims"], figure.claims, strict=True)
        ]
        found[figure.name] = {**said, **words, "run": run, "claims": claims}
    return found


def drawn(record: Record) -> dict[str, str]:
    """The plot of every figure, drawn again from the curves that its record keeps: by name, as SVG."""
    kept = {name: said for name, said in record.items() if said["plot"] is not None}
    return {name: to_svg(from_values(said["plot"]), foot(said["run"], said["privacy"])) for name, said in kept.items()}


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


def _outcome(folder: Path) -> dict[str, Any] | None:
    """What became of a figure; None where it was not run, failed, or had no data."""
    try:
        said: dict[str, Any] = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
        if said.get("status") not in JUDGED or not (folder / "figure.svg").is_file():
            return None
        said["plot"] = json.loads((folder / "plot.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
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
    repeated = {name: said["again_seconds"] if said.get("again_quick", True) else 0.0 for name, said in record.items()}
    quick = [said["cpu_seconds"] if said["quick"] else repeated[name] for name, said in record.items()]
    short = [seconds for seconds in quick if seconds > 0]
    total = f"Quick runs of {len(short)} figures together took {sum(short):,.0f} s of CPU, {sum(short) / 120:.0f} minutes on two cores."
    full = [link(name) for name, said in record.items() if not said["quick"]]
    differs = [link(name) for name, said in record.items() if said["status"] != JUDGED[0]]
    modes = f"Run in full, {len(full)} of {len(record)}: {', '.join(full)}." if full else "All were run in quick mode."
    swings = [
        f"{link(name)} (“{c['says']}”)" for name, said in record.items() for c in said["claims"] if c["stable"] is False
    ]
    alone = [link(name) for name, said in record.items() if any(c["stable"] is None for c in said["claims"])]
    twice = f"{len(record) - len(alone)} of {len(record)} figures were also run with other seeds"
    turned = f"; another verdict: {'; '.join(swings)}" if swings else "; no verdict changed"
    modes += f" {twice}{turned if len(alone) < len(record) else ''}."
    modes += f" Not yet judged with other seeds, or not all of its claims: {', '.join(alone)}." if alone else ""
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
    sizes = "; ".join(f"{key}: {value}" for key, value in said["settings"].items())
    about = f"{said['cases']:,} cases ({sizes}); {said['cpu_seconds']:.0f} s of CPU; code {said['version']}"
    lines = [f"### {name}", f"**{said['title']}.** {said['setting']}", f"![{said['title']}]({FOLDER}/{name}.svg)"]
    lines.append(f"Privacy: {said['privacy']}")
    claims = []
    for claim in said["claims"]:
        finding = f" {claim['finding']}" if claim["finding"] else ""
        verdict = WORDS[claim["held"], claim["expected"]]
        told = f"{claim['evidence']} ({claim['confidence']}).{finding} {seeds_told(claim, said)}"
        claims.append(f"* *{verdict}*: {claim['says']}. Measured: {told}")
    return "\n\n".join([*lines, "\n".join(claims), f"<small>{said['run']} {about}</small>"])


def mode(said: Mapping[str, Any]) -> str:
    return "quick" if said["quick"] else "full"


def link(name: str) -> str:
    """To a figure in the gallery; headings lose their dots."""
    return f"[{name}](gallery.md#{name.replace('.', '')})"
