"""The figures of docs/findings.md: every published calibration attacked, and what the attacks prove.

    colonnade.findings.main()                          the table on standard output, from quick audits
    colonnade.findings.main("docs/findings.md")        the same, written between the page's two marks
    colonnade.findings.main("docs/findings.md", quick=False)    ten times the trials

Claim    each lower bound is too high with probability at most 1e-6; bounds stop growing where the trials end.
Exact    where the noise is Gaussian, the pair's own epsilon in closed form; it is infinite where an event has a
         chance above delta on one side and none on the other.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import numpy as np

from colonnade import published
from colonnade.audit import TARGETS, Result, Setting, sharing_pair, sketch_pair, sweep
from colonnade.errors import InvalidInput, StoreError
from colonnade.privacy.statement import Guarantee

START, END = "<!-- measured by colonnade.findings -->", "<!-- end of what was measured -->"
HEAD = ("Release", "Claimed ε", "δ", "Shown by attack: ε at least", "Exact ε of the pair", "Trials a side", "Verdict")
BROKEN = tuple(name for name, target in TARGETS.items() if target.guarantee is Guarantee.CLAIMED)


def main(path: str | Path | None = None, quick: bool = True, jobs: int = 1) -> list[Result]:
    """Attack the published calibrations; write the table to the page at `path`, or to standard output."""
    if path is not None:
        _page(Path(path))  # refused before the work, not after it
    results = sweep(BROKEN, effort=1.0 if quick else 10.0, progress=True, jobs=jobs)
    text = table(results)
    if path is None:
        sys.stdout.write(f"{text}\n")
    else:
        before, after = _page(Path(path))  # as it is now: somebody may have written on it meanwhile
        Path(path).write_text(f"{before}{START}\n{text}\n{END}{after}", encoding="utf-8")
    return results


def table(results: list[Result]) -> str:
    """The results in Markdown, with the error probability below."""
    lines = [HEAD, ("---",) * len(HEAD)]
    for result in results:
        verdict = result.verdict
        lines.append(
            (
                TARGETS[result.target].title,
                f"{verdict.claim:g}",
                f"{result.delta:g}",
                f"{verdict.lower_bound:.2f}",
                _shown(exact_epsilon(result)),
                f"{verdict.trials:,}",
                "violated" if verdict.violated else "consistent: proves nothing more",
            )
        )
    errors = ", ".join(f"{1 - c:.0e}" for c in sorted({result.verdict.confidence for result in results}))
    note = f"Each bound is too high with probability at most {errors}."
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{note}"


def exact_epsilon(result: Result) -> float | None:
    """The epsilon of the attacked pair itself, where there is a formula for it."""
    setting = Setting(result.verdict.claim, result.delta, seed=0)
    if result.target == "published-sketch":
        columns = published.SketchedColumns(setting.epsilon, setting.delta)
        sketch, first, second = sketch_pair(setting)
        shift = float(np.linalg.norm(sketch @ (first - second))) * math.sqrt(columns.parties * columns.rounds)
        return published.gaussian_epsilon(shift / columns.sigma(sketch), setting.delta)
    if result.target == "published-sharing-lemma":
        sharing = published.SharingADMM(setting.epsilon, setting.delta)
        one, other, dual, largest = sharing_pair(setting)
        shift = float(np.linalg.norm(one @ sharing.update(one, dual) - other @ sharing.update(other, dual)))
        return published.gaussian_epsilon(shift / sharing.sigma(one.shape[1], largest), setting.delta)
    # The sign of a coefficient, or the range of a matrix, is then seen without any noise at all.
    return math.inf if result.target in ("published-sign", "published-sharing-range") else None


def _shown(epsilon: float | None) -> str:
    if epsilon is None:
        return "no formula"
    return f"{epsilon:.3g}" if math.isfinite(epsilon) else "infinite"


def _page(path: Path) -> tuple[str, str]:
    """What stands before and after the marks."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}. Name an existing page, or none to print.") from error
    found = re.search(f"(.*){re.escape(START)}.*{re.escape(END)}(.*)", text, re.DOTALL)
    if found is None:
        raise InvalidInput(f"{path} does not hold the lines {START!r} and {END!r}: add them where the table belongs.")
    return found[1], found[2]
