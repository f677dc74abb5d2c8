"""Runs the demonstration and keeps what README and home page show of it: docs/demo.json and docs/demo.svg.

    python docs/picture.py           run `colonnade demo`, which takes minutes, and write both
    python docs/picture.py --draw    draw docs/demo.svg again from docs/demo.json

The noise has no seed, so the private figure differs from run to run; the others do not.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from colonnade.views.parts import with_error

HERE = Path(__file__).resolve().parent
FIGURES, PICTURE = HERE / "demo.json", HERE / "demo.svg"
KEPT = ("model", "auc", "auc_error")
WIDTH, TOP, ROW = 760, 236, 34  # of the picture, of the scale in it, of a line on the scale
LOW, HIGH, LEFT, RIGHT = 0.5, 0.75, 200, 600  # the scale, and where it stands

STYLE = """
  text { font: 15px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #1b1f24; }
  .soft { fill: #545d68; font-size: 13px; }
  .strong { font-weight: 600; }
  .box { fill: #f5f6f8; stroke: #c3c9d1; }
  .line { stroke: #c3c9d1; stroke-width: 1; fill: none; }
  .masked { stroke: #0f7b6c; stroke-width: 3; fill: none; }
  .noisy { stroke: #b26a00; stroke-width: 3; fill: none; }
  .dot { fill: #545d68; }
  .own { fill: #0b5a94; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e9ee; } .soft { fill: #a5afbb; } .box { fill: #1d232c; stroke: #4a5562; }
    .line { stroke: #4a5562; } .masked { stroke: #35b59f; } .noisy { stroke: #e0a03c; }
    .dot { fill: #a5afbb; } .own { fill: #7cc0f2; }
  }
"""
ALT = (
    "Three organisations keep their columns. Masked numbers go to a coordinator, who learns a noisy matrix, and "
    "everybody gets one model. Below: how well it ranks flights that nobody trained on, beside the same "
    "without privacy and each organisation alone."
)


def main(arguments: list[str]) -> int:
    """Run, keep and draw; the exit code."""
    if arguments not in ([], ["--draw"]):
        sys.stderr.write("usage: python docs/picture.py [--draw]\n")
        return 2
    if not arguments:
        FIGURES.write_text(json.dumps(run_demo(), indent=1) + "\n", encoding="utf-8")
    PICTURE.write_text(draw(json.loads(FIGURES.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


def run_demo() -> dict[str, Any]:
    """The figures of `colonnade demo`."""
    from colonnade.cli import demo_run

    with TemporaryDirectory() as folder:
        found = demo_run.run(tell=lambda line: sys.stderr.write(f"{line}\n") and None)
        return kept(demo_run.plain(found, Path(folder) / "report.html"))


def kept(plain: dict[str, Any]) -> dict[str, Any]:
    """What README and home page need of `colonnade demo --json`."""
    models = [{name: model[name] for name in KEPT} for model in plain["models"]]
    rows = {name: plain["rows"][name] for name in ("training", "held_out")}
    return {"models": models, "rows": rows, "epsilon": plain["privacy"]["epsilon"], "delta": plain["privacy"]["delta"]}


def table(figures: dict[str, Any]) -> str:
    """The models beside each other, in Markdown, with what they were measured on."""
    rows = figures["rows"]
    lines = [f"| {m['model']} | {with_error(m['auc'], m['auc_error'])} |" for m in figures["models"]]
    note = (
        f"One run of `colonnade demo`: {rows['training']:,} training flights, {rows['held_out']:,} held-out flights, "
        f"± one standard error, ε = {figures['epsilon']:g}, δ = {figures['delta']:g}."
    )
    return "\n".join(["| Which flights are late? | AUC on held-out flights |", "| --- | --- |", *lines, "", note])


def draw(figures: dict[str, Any]) -> str:
    """The picture: what leaves whom, and how good the model is."""
    models = figures["models"]
    height = TOP + ROW * len(models) + 44
    parts = [*_flow(), *_scale(models), *_dots(models)]
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(ALT)}">\n'
        f"<title>{escape(ALT)}</title>\n<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _box(x: float, y: float, wide: float, name: str, holds: str) -> list[str]:
    box = f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="50" rx="7" class="box"/>'
    middle = x + wide / 2
    return [box, _text(middle, y + 21, name, "strong", "middle"), _text(middle, y + 39, holds, "soft", "middle")]


def _flow() -> list[str]:
    """Three organisations, a coordinator, a model."""
    holders = {"airline": "schedule, who was late", "weather": "wind, rain, sight", "registry": "aircraft"}
    parts = []
    for place, (name, holds) in enumerate(holders.items()):
        top = 8 + 62 * place
        parts += _box(8, top, 190, name, holds)
        parts.append(f'<path d="M198 {top + 25} C 260 {top + 25}, 262 95, 322 95" class="masked"/>')
    parts += _box(322, 70, 150, "coordinator", "has no mask")
    parts.append('<path d="M472 95 H 562" class="noisy"/>')
    parts += _box(562, 70, 190, "one model, for all", "from one noisy matrix")
    parts += [_text(262, 30, "masked", "soft", "middle"), _text(517, 86, "noisy", "soft", "middle")]
    return parts


def _at(value: float) -> float:
    return LEFT + (RIGHT - LEFT) * (value - LOW) / (HIGH - LOW)


def _scale(models: list[dict[str, Any]]) -> list[str]:
    bottom = TOP + ROW * len(models)
    parts = [_text(8, TOP - 14, "How well late flights are ranked above others (AUC; 0.5 is guessing)", "soft")]
    for k in range(6):
        value = LOW + (HIGH - LOW) * k / 5
        parts.append(f'<line x1="{_at(value):g}" x2="{_at(value):g}" y1="{TOP}" y2="{bottom}" class="line"/>')
        parts.append(_text(_at(value), bottom + 20, f"{value:.2f}", "soft", "middle"))
    return parts


def _dots(models: list[dict[str, Any]]) -> list[str]:
    parts = []
    for place, model in enumerate(models):
        own, y = place == 0, TOP + ROW * (place + 0.5)
        strong = "strong" if own else ""
        dot = f'<circle cx="{_at(model["auc"]):.1f}" cy="{y:g}" r="7" class="{"own" if own else "dot"}"/>'
        figure = with_error(model["auc"], model["auc_error"])
        parts += [_text(8, y + 5, model["model"], strong), dot, _text(WIDTH - 8, y + 5, figure, strong, "end")]
    return parts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
