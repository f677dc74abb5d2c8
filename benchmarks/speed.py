"""The ratios of docs/understand/speed.md, each from three measurements, as ranges; the page's lines are written from what they say.

    python -m benchmarks speed            RCV1's and News20's shapes
    python -m benchmarks --full speed     all shapes of the paper, rows scaled to memory
    python -m benchmarks.speed NAME ...   these shapes only
    python -m benchmarks.speed --write    the lines of docs/understand/speed.md, from benchmarks/results/speed.json

Measured is what `sparse` measures, in CPU seconds: data once, conversion, baselines and ours three times. A shape's last
measurement stands in the file, with the load of the machine when it began: ranges from a busy one are wider.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.sparse import SHAPES, TINY, Bar, Shape, generate, measured, seconds, warm_up
from benchmarks.timing import ROOT

RUNS = 3
ALGORITHM_1 = "Algorithm 1"  # the baseline of a ratio that names no other
FOUND = ROOT / "benchmarks" / "results" / "speed.json"
PAGE = ROOT / "docs/understand/speed.md"
PLACE = re.compile(r"(<!-- measured: python -m benchmarks --full speed -->\n).*?(<!-- end of measured -->)", re.DOTALL)

Found = dict[str, dict[str, Any]]


def range_of(values: list[float]) -> str:
    """From the smallest to the largest."""
    low, high = (f"{v:,.0f}" if v >= 20.0 else f"{v:.1f}" for v in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"


def verdict(values: list[float], asked: float) -> str:
    met = sum(value >= asked for value in values)
    return "met" if met == len(values) else "**missed**" if met == 0 else f"met in {met} of {len(values)}"


def table(found: Found) -> str:
    """Lists in Markdown by shape, with the load under which each was measured."""
    lines = []
    for name in (shape for shape in SHAPES if shape in found):
        lines.append(f"- **{name}** (load {found[name]['load']:.1f})")
        lines += [f"    - {said(what.removeprefix(f'{name}, '), bar)}" for what, bar in found[name]["bars"].items()]
    return "\n".join(lines)


def said(what: str, bar: dict[str, Any]) -> str:
    """One ratio: its range, its bar, and whether it was met."""
    values = bar["measured"]
    against = "" if bar["baseline"] in (what, ALGORITHM_1) else f", against {bar['baseline']}"
    return f"{what}{against}: {range_of(values)} (bar {bar['asked']:,g}, {verdict(values, bar['asked'])})"


def run(names: tuple[str, ...], quick: bool, kept: Path = FOUND, shape: Shape | None = None) -> Found:
    """Measures the shapes, keeps what was found, and shows the lines."""
    warm_up()
    found: Found = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    fresh: Found = {}
    for name in names:
        load, data, bars = os.getloadavg()[0], generate(name, shape), dict[str, list[Bar]]()
        for _ in range(RUNS):
            again = data._replace(conversion=seconds(data.csr.tocsc)[0])
            for bar in measured(again, quick):
                bars.setdefault(bar.what, []).append(bar)
        del data, again
        values = {
            what: {"baseline": all_[0].baseline, "asked": all_[0].asked, "measured": [bar.measured for bar in all_]}
            for what, all_ in bars.items()
        }
        fresh[name] = {"load": load, "bars": values}
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found | fresh, indent=1), encoding="utf-8")  # after each: the whole takes long
    print(f"\n{table(fresh)}")
    return fresh


def write() -> int:
    """Puts the lines into the page."""
    if not FOUND.exists():
        sys.stderr.write(f"no {FOUND}: measure first, by `python -m benchmarks --full speed`\n")
        return 1
    new = table(json.loads(FOUND.read_text(encoding="utf-8")))
    text, count = PLACE.subn(lambda place: f"{place[1]}{new}\n{place[2]}", PAGE.read_text(encoding="utf-8"))
    if count != 1:
        sys.stderr.write(f"{PAGE} has {count} places for its lines, not one\n")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


def main(quick: bool = True) -> int:
    """Measures; returns 1 if a bar is missed in every run."""
    found = run(("rcv1", "news20") if quick else tuple(SHAPES), quick)
    bars = [bar for shape in found.values() for bar in shape["bars"].values()]
    return int(any(max(bar["measured"]) < bar["asked"] for bar in bars))


def smoke() -> None:
    """One tiny shape, kept nowhere."""
    with tempfile.TemporaryDirectory() as folder:
        run(("rcv1",), True, Path(folder) / "speed.json", TINY)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        sys.exit(write())
    if not sys.argv[1:] or set(sys.argv[1:]) - set(SHAPES):
        sys.exit(f"usage: python -m benchmarks.speed (--write | NAME ...); names are {', '.join(SHAPES)}")
    run(tuple(sys.argv[1:]), quick=False)
