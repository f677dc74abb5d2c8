"""The figures of docs/findings.md: every published calibration attacked, what the attacks prove, and what a fault is worth.

    colonnade.findings.main()                          the table on standard output, from quick audits
    colonnade.findings.main("docs/findings.md")        the same, written between the page's two marks
    colonnade.findings.main("docs/findings.md", quick=False)    ten times the trials

Claim    each lower bound is too high with probability at most 1e-6; bounds stop growing where the trials end.
Exact    where the noise is Gaussian, the pair's own epsilon in closed form; it is infinite where an event has a
         chance above delta on one side and none on the other.
Worth    RCV1 at a claimed epsilon of 0.1, as in table 4 of Raff et al.: the same choices with the exact sign and with a
         drawn one. RCV1 is looked for in the folder that COLONNADE_DATA names (rcv1/X.npz, rcv1/y.npy).
"""

from __future__ import annotations

import math
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from colonnade import published
from colonnade.attacks.papers import sharing_pair, sketch_pair
from colonnade.attacks.setting import Setting
from colonnade.audit import TARGETS, Result, sweep
from colonnade.errors import InvalidInput, StoreError
from colonnade.estimators import SparseClassifier
from colonnade.kernels.samplers import exact_picks
from colonnade.kernels.sparse_fw import Loss, model_of_picks
from colonnade.kernels.stream import keyed_stream
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.statement import Guarantee
from colonnade.readers import read

START, END = "<!-- measured by colonnade.findings -->", "<!-- end of what was measured -->"
HEAD = ("Release", "Claimed ε", "δ", "Shown by attack: ε at least", "Exact ε of the pair", "Trials a side", "Verdict")
WORTH = ("Model of RCV1", "Rounds", "Accuracy", "AUC", "ε", "Shown by attack: ε at least")
RADIUS, ROUNDS, CLAIM, DELTA = 5000.0, 400_000, 0.1, 1e-6  # table 4 of Raff et al.; delta is ours to choose
BROKEN = tuple(name for name, target in TARGETS.items() if target.guarantee is Guarantee.CLAIMED)


def main(path: str | Path | None = None, quick: bool = True, jobs: int = 1) -> list[Result]:
    """Attack the published calibrations; write the table to the page at `path`, or to standard output."""
    if path is not None:
        _page(Path(path))  # refused before the work, not after it
    results = sweep(BROKEN, effort=1.0 if quick else 10.0, progress=True, jobs=jobs)
    text = f"{table(results)}\n\n{worth(results, ROUNDS // (10 if quick else 1))}"
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


def worth(results: list[Result], rounds: int) -> str:
    """What the exact sign is worth, in Markdown: the paper's model, the same with drawn signs, and ours."""
    shown = [r.verdict.lower_bound for r in results if (r.target, r.verdict.claim) == ("published-sign", CLAIM)]
    attacked = f"{shown[0]:.2f}" if shown else "not attacked in this run"
    data = _rcv1()
    if data is None:
        absent = (
            "not measured: RCV1 is not there. Set COLONNADE_DATA to the folder that holds rcv1/X.npz and rcv1/y.npy"
        )
        lines = [(absent, f"{rounds:,}", "", "", f"{CLAIM:g} claimed", attacked)]
    else:
        (X, y), (new, truth) = data
        paper = published.SparseFrankWolfe(CLAIM, DELTA, rounds=rounds, radius=RADIUS)
        exact = new @ paper.learn(X, y, keyed_stream(os.urandom(32)))
        drawn = new @ _drawn(paper, X, y)
        price = epsilon_of(rounds * (2.0 * paper.scale(1)) ** 2 / 2.0, DELTA)
        lines = [
            ("as published: the exact sign", f"{rounds:,}", *_rates(exact, truth), f"{CLAIM:g} claimed", attacked),
            ("the same weights, signs drawn too", f"{rounds:,}", *_rates(drawn, truth), f"{price:.1g} proven", ""),
        ]
        for title, method in (("SparseClassifier, Frank-Wolfe", "frank-wolfe"), ("SparseClassifier", "auto")):
            model = SparseClassifier(epsilon=CLAIM, delta=DELTA, classes=[-1, 1], method=method).fit(X, y)
            rates = _rates(model.decision_function(new), truth)
            lines.append((title, "by the budget", *rates, f"{CLAIM:g} proven", ""))
    return "\n".join(f"| {' | '.join(line)} |" for line in (WORTH, ("---",) * len(WORTH), *lines))


def _rcv1() -> tuple[tuple[Any, Any], tuple[Any, Any]] | None:
    """Four fifths of the rows and labels to learn from, one fifth to judge by; None where the files are not there."""
    folder = Path(os.environ.get("COLONNADE_DATA", "")) / "rcv1"
    if not (folder / "X.npz").is_file():
        return None
    X, y = read(folder / "X.npz")
    X, y = sparse.csr_array(X)[y != 0], y[y != 0].astype(np.float64)
    train, test = np.split(np.random.default_rng(0).permutation(y.size), [int(0.8 * y.size)])
    return (X[train], y[train]), (X[test], y[test])


def _drawn(paper: published.SparseFrankWolfe, X: Any, y: Any) -> Any:
    """The model of the paper's weights with the sign drawn by the exponential mechanism as well."""
    columns, stream = sparse.csc_array(X), keyed_stream(os.urandom(32))
    settings: dict[str, Any] = {"loss": Loss.LOGISTIC, "radius": paper.radius, "rounds": paper.rounds}
    parts = columns.data, columns.indices, columns.indptr
    picks, _ = exact_picks(*parts, y, scale=paper.scale(1), feature_bound=1.0, stream=stream, **settings)
    return model_of_picks(picks, radius=paper.radius, columns=X.shape[1])


def _rates(scores: Any, truth: Any) -> tuple[str, str]:
    from sklearn.metrics import roc_auc_score

    return f"{(np.where(scores > 0, 1, -1) == truth).mean():.1%}", f"{roc_auc_score(truth, scores):.3f}"


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
