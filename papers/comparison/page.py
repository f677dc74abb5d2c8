"""A record as the part of papers/comparison.md that carries numbers: where they come from, the table, and where others win."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import InvalidInput, StoreError
from colonnade.privacy.statement import OF_TRUST, Guarantee, guarantee_under
from papers.comparison.models import BETWEEN, NOBODY, ONE, OURS

START, END = "<!-- written by python -m papers comparison -->", "<!-- end of what was measured -->"
OPEN_HEAD = ("Problem", "Model", "AUC", "Gap at most", "MB sent", "Rounds", "CPU s")
ALONE = " alone, "
Line = dict[str, Any]


def block(found: dict[str, Any]) -> str:
    """Everything between the page's marks."""
    lines = shown(found["lines"])
    parts = [_source(found), _trusts([line for line in lines if line["epsilon"]])]
    for data in dict.fromkeys(line["data"] for line in lines):
        here = [line for line in lines if line["data"] == data]
        private = [line for line in here if line["epsilon"]]
        exact = [line for line in here if line["epsilon"] is None]
        nothing = "".join(f" {line['model']}: AUC {area(line)}." for line in here if line["epsilon"] == 0)
        parts += [
            f"### {data}",
            f"Private. {_deltas(private)}.{nothing}",
            _private(private),
            "Not private.",
            _open(exact),
        ]
    return "\n\n".join([*parts, "## Where others win", _wins(found["lines"])])


def write(found: dict[str, Any], page: Path) -> None:
    """Put the record's block between the marks of a page."""
    before, after = around(page)
    page.write_text(f"{before}{START}\n{block(found)}\n{END}{after}", encoding="utf-8")


def around(page: Path) -> tuple[str, str]:
    """The page before and after its marks."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot read {page}: {error.strerror}. Name an existing page, or none to print.") from error
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise InvalidInput(f"{page} does not hold the lines {START!r} and {END!r}: add them where the table belongs.")
    return before, after


def shown(lines: Sequence[Line]) -> list[Line]:
    """By table, then by epsilon with what is not private last; of all single parties the best at each epsilon."""
    best: dict[tuple[Any, ...], float] = {}
    for line in lines:
        if ALONE in line["model"]:
            key = line["data"], line["epsilon"]
            best[key] = max(best.get(key, 0.0), line["auc"])
    kept = [line for line in lines if ALONE not in line["model"] or line["auc"] == best[line["data"], line["epsilon"]]]
    order = list(dict.fromkeys(line["data"] for line in lines))

    def place(line: Line) -> tuple[Any, ...]:
        private = line["epsilon"] is not None
        within = (line["epsilon"], "", -line["auc"]) if private else (0.0, line["problem"], line["seconds"])
        return (order.index(line["data"]), not private, *within)

    return sorted(kept, key=place)


# ------------------------------------------------------------------------------------------------ parts


def _source(found: dict[str, Any]) -> str:
    here = ", ".join(f"{name} {number}" for name, number in found["here"].items())
    theirs = ", ".join(f"{name} {number}" for name, number in found["rivals"].items()) or "none"
    seeds = found["splits"]["seeds"]
    sizes = {line["data"]: line for line in found["lines"]}.values()
    tables = "; ".join(
        f"{line['data']} {line['rows']:,} × {line['columns']:,}, "
        + (f"{line['parties']} parties" if line["parties"] else "one holder")
        for line in sizes
    )
    text = (
        f"`{found['command']}`, version {found['version']}, Python {found['python']}. Here: {here}. In the others' environment: {theirs}. "
        f"{len(seeds)} splits, seeds {seeds[0]} to {seeds[-1]}. Rows × columns: {tables}."
    )
    missing = "".join(f"\n- left out: {reason}" for reason in found["left_out"])
    return text + (f"\n{missing}" if missing else "")


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rest))


def _private(lines: Sequence[Line]) -> str:
    """One row for each model, the best at the largest epsilon first: its AUC at every epsilon, and what it took at each."""
    epsilons = sorted({line["epsilon"] for line in lines})
    models: dict[str, dict[float, Line]] = {}
    for line in lines:
        models.setdefault(_named(line), {})[line["epsilon"]] = line
    units = {line["unit"] for line in lines}
    if len(units) != 1:
        raise InvalidInput(
            f"the page states one unit of privacy, and the record has {sorted(units)}: add a column for it."
        )
    ranked = sorted(models.items(), key=lambda item: [-_auc(item[1].get(e)) for e in reversed(epsilons)])
    rows = [
        [name, *(area(by[e]) if e in by else "" for e in epsilons)]
        + [_each([cell(by[e]) for e in epsilons if e in by]) for cell in (_megabytes, _rounds, _seconds)]
        for name, by in ranked
    ]
    head = ["Model", *(f"AUC, ε = {e:g}" for e in epsilons), *OPEN_HEAD[-3:]]
    return _table([head, *rows])


def _trusts(lines: Sequence[Line]) -> str:
    """Against whom the private lines protect, and how firmly that is known."""
    models: dict[tuple[str, str], dict[str, None]] = {}
    for line in lines:
        _, alone, model = _named(line).rpartition(ALONE)
        models.setdefault((line["trust"], _guarantee(line)), {})[f"one party{alone}{model}" if alone else model] = None
    rows = [[*terms, "; ".join(names)] for terms, names in sorted(models.items())]
    return _table([["Trust", "Guarantee", "Private models"], *rows])


def _deltas(lines: Sequence[Line]) -> str:
    """The delta of each library's lines."""
    found = {
        library: sorted({line["delta"] for line in lines if line["by"] == library})
        for library in (OURS, *_rivals(lines))
    }
    return "δ: " + ", ".join(
        f"{library} {' or '.join(f'{d:g}' for d in deltas)}" for library, deltas in found.items() if deltas
    )


def _rivals(lines: Sequence[Line]) -> list[str]:
    return sorted({line["by"] for line in lines} - {OURS})


def _named(line: Line) -> str:
    """A model, with its library if that is another one."""
    return str(line["model"]) if line["by"] == OURS else f"{line['by']}: {line['model']}"


def _open(lines: Sequence[Line]) -> str:
    cells = [
        [
            line["problem"],
            _named(line),
            area(line),
            _gap(line),
            _megabytes(line),
            _rounds(line),
            _seconds(line),
        ]
        for line in lines
    ]
    return _table([OPEN_HEAD, *cells])


def _each(cells: Sequence[str]) -> str:
    """One for each epsilon, or one for all if they are the same."""
    return cells[0] if len(set(cells)) == 1 else "; ".join(cells)


def _auc(line: Line | None) -> float:
    return 0.0 if line is None else float(line["auc"])


def _gap(line: Line) -> str:
    return "" if line["gap"] is None else f"{max(line['gap'], 0.0):.0e}"


def _megabytes(line: Line) -> str:
    return "" if line["bytes"] is None else f"{line['bytes'] / 1e6:.3g}"


def _rounds(line: Line) -> str:
    return "" if line["rounds"] is None else f"{line['rounds']:,.0f}"


def _seconds(line: Line) -> str:
    return f"{line['seconds']:.2g}"


def _guarantee(line: Line) -> str:
    """As recorded; a word of ours by what today's statements rest on, since a record may be of an earlier one."""
    known = OF_TRUST.get(line["trust"], ())
    ours = line["guarantee"] in (Guarantee.PROVEN, Guarantee.CONDITIONAL)
    return guarantee_under(known) if ours and known else str(line["guarantee"])


def area(line: Line) -> str:
    """Mean, and its standard error in brackets."""
    return f"{line['auc']:.4f}" + ("" if line["auc_error"] is None else f" ({line['auc_error']:.4f})")


def _wins(lines: Sequence[Line]) -> str:
    """Where another library's mean is higher at the same epsilon, and where it needs less time for the same problem."""
    said = [*_accuracy(lines), *_time(lines)]
    return "\n".join(f"- {text}" for text in said) if said else "Nowhere in this table."


def _accuracy(lines: Sequence[Line]) -> Iterator[str]:
    for line in lines:
        if line["epsilon"] is None or line["by"] in (OURS, NOBODY):
            continue
        same = [o for o in lines if (o["data"], o["epsilon"]) == (line["data"], line["epsilon"]) and o["by"] == OURS]
        for place in (ONE, BETWEEN):
            ours = max((o for o in same if o["place"] == place and ALONE not in o["model"]), key=lambda o: o["auc"])
            if ours["auc"] < line["auc"]:
                errors = (line["auc_error"] or 0.0) + (ours["auc_error"] or 0.0)
                near = ", within their standard errors" if line["auc"] - ours["auc"] <= errors else ""
                yield (
                    f"{line['data']}, ε = {line['epsilon']:g}: {line['by']} has {area(line)}, ours in one place"
                    f" ({ours['model']}) {area(ours)}{near}."
                    if place == ONE
                    else f"{line['data']}, ε = {line['epsilon']:g}: {line['by']}, which sees all columns, has {area(line)}, "
                    f"ours between parties ({ours['model']}) {area(ours)}{near}."
                )


def _time(lines: Sequence[Line]) -> Iterator[str]:
    """A method between parties pays for messages and certificates: problem by problem, how many times as long it takes."""
    open_lines = [line for line in lines if line["epsilon"] is None and ALONE not in line["model"]]
    for problem in ("lasso", "ridge", "squares"):
        found = []
        for data in dict.fromkeys(line["data"] for line in open_lines):
            own = [o for o in open_lines if (o["data"], o["problem"]) == (data, problem)]
            ours = min((o for o in own if o["by"] == OURS), key=lambda o: o["seconds"], default=None)
            theirs = min((o for o in own if o["by"] != OURS), key=lambda o: o["seconds"], default=None)
            if ours is not None and theirs is not None and theirs["seconds"] < ours["seconds"]:
                found.append(f"{data} {ours['seconds'] / theirs['seconds']:.1f} ({theirs['by']})")
        if found:
            yield f"{problem}, our fewest seconds between parties over the fewest in one place: {', '.join(found)}."
