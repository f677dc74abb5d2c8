"""`colonnade demo`: three organisations learn together, in private, which flights will arrive late.

Claim    the private joint model ranks held-out flights better than any party could alone without privacy.
Data     colonnade.cli.flights. A hash of its key puts a flight into training (80 %) or aside (20 %); every figure of
         quality is computed on the flights set aside.
Compares models without privacy: the same loss, ball, method, rounds and tolerance for all columns together and for each
         party alone; a party without the label is lent it by a party that holds nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np

from colonnade.cli import flights
from colonnade.cli.terminal import finite, lined, table_of
from colonnade.data.federation import Federation
from colonnade.data.notices import about_levels
from colonnade.data.party import LABELS, Alignment
from colonnade.errors import InvalidInput, UnusedLevels
from colonnade.methods.frank_wolfe.distributed import DistributedFrankWolfe
from colonnade.methods.gram.private_gram import PrivateGram
from colonnade.model.facts import left_by_party
from colonnade.privacy.events import shown
from colonnade.privacy.statement import Privacy
from colonnade.problem import L1Ball, Logistic, Problem, Ridge
from colonnade.runs.evaluation import area_error
from colonnade.runs.fit import fit
from colonnade.runs.result import Fit
from colonnade.views.page import write_report
from colonnade.views.parts import human_bytes, message_words, with_error
from colonnade.views.verdict import Quality, facts_in_short

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray
    from rich.console import Console

PRIVATE = "together, private"
JOINT = "together, not private"
MEASURE = "AUC on held-out flights"
RADIUS = 20.0  # chosen by hand, like the two below: a good answer within the minute
ROUNDS = 60
TOLERANCE = 0.02  # where every model without privacy stops
EPSILON = 1.0
DELTA = 1e-6
RIDGE = 1e-6  # the noise asks for far more than this, and the method adds it by itself

Tell = Callable[[str], None]


@dataclass(frozen=True)
class DemoModel:
    """A fitted model and how well it ranks the flights that were set aside."""

    name: str
    parties: tuple[str, ...]
    fit: Fit
    auc: float
    error: float  # the standard error of that figure

    @property
    def rounds(self) -> int:
        return len(self.fit.notes)

    @property
    def used(self) -> int:
        return sum(int(np.count_nonzero(x)) for x in self.fit.coefficients.values())


@dataclass(frozen=True)
class Demo:
    """Everything the demo found out."""

    private: DemoModel
    joint: DemoModel
    alone: tuple[DemoModel, ...]
    training: Alignment
    held_out: Alignment
    late: float  # share of late flights among those in training
    seconds: float

    @property
    def models(self) -> tuple[DemoModel, ...]:
        return (self.private, self.joint, *self.alone)

    def quality(self) -> Quality:
        note = (
            f"Area under the ROC curve on {self.held_out.matched:,} flights that no model was trained on: the chance "
            "that a late flight is ranked above a punctual one. 0.5 is guessing."
        )
        figures = {model.name: model.auc for model in self.models}
        return Quality(MEASURE, figures, note, {model.name: model.error for model in self.models}, JOINT)


def run(
    *, rows: int | None = None, rounds: int | None = None, epsilon: float = EPSILON, progress: bool = False, tell: Tell
) -> Demo:
    """Fit the private model, the same without privacy, and each party's own; `tell` is given a line for each part.
    With `rounds` models without privacy make exactly so many; without, they stop at TOLERANCE or after ROUNDS."""
    began = time.perf_counter()
    tell("Reading the flights and matching the parties' rows")
    data = flights.load(rows)
    masks = data.split()
    _check_both_classes(data, masks)
    training, held_out = (_rows_of(data.frames, mask) for mask in masks)
    test = _federation(held_out)
    settings = DistributedFrankWolfe(rounds or ROUNDS, TOLERANCE if rounds is None else 0.0)

    def model(name: str, frames: Mapping[str, pl.DataFrame]) -> DemoModel:
        federation = _federation(frames)
        parties = tuple(party for party in frames if party != LABELS)
        tell(f"Training on {federation.rows:,} flights: {name}")
        fitted = fit(federation, Problem(Logistic(), L1Ball(RADIUS), intercept=True), settings, progress=progress)
        # The held-out federation has the columns of all parties; a party's own model uses its own only.
        return DemoModel(name, parties, fitted, *_auc(test.labels, fitted.scores(test)))

    federation = _federation(training)
    tell(f"Training on {federation.rows:,} flights: {PRIVATE}, epsilon {shown(epsilon)}")
    for name, party in federation.parties.items():
        for line in about_levels(party.schema, party.block):
            tell(f"{name}: {line}")
    # A budget needs a ledger; this one lasts as long as the demo.
    with TemporaryDirectory() as store, catch_warnings():
        terms = Privacy(epsilon, DELTA, trust="secure")
        simplefilter("ignore", UnusedLevels)  # told above
        problem = Problem(Logistic(), penalty=Ridge(RIDGE), intercept=True)
        fitted = fit(federation, problem, PrivateGram(), terms, store=store, progress=progress)
    private = DemoModel(PRIVATE, tuple(training), fitted, *_auc(test.labels, fitted.scores(test)))
    joint = model(JOINT, training)
    alone = tuple(model(f"{party} alone", own_frames(training, party)) for party in training)
    late = float(np.mean(federation.labels))
    seconds = time.perf_counter() - began
    return Demo(private, joint, alone, federation.alignment, test.alignment, late, seconds)


def own_frames(frames: Mapping[str, pl.DataFrame], party: str) -> dict[str, pl.DataFrame]:
    """What one party would train on by itself: its frame, and the labels if they are not its own."""
    holder, column = flights.LABEL
    if party == holder:
        return {party: frames[party]}
    return {party: frames[party], LABELS: frames[holder].select(flights.KEY, column)}


def _federation(frames: Mapping[str, pl.DataFrame]) -> Federation:
    holder, column = flights.LABEL
    label = (holder if holder in frames else LABELS, column)
    own = {party: schema for party, schema in flights.SCHEMAS.items() if party in frames}
    return Federation.from_frames(frames, on=flights.KEY, label=label, schemas=own)


def _rows_of(frames: Mapping[str, pl.DataFrame], mask: NDArray[np.bool_]) -> dict[str, pl.DataFrame]:
    import polars as pl

    return {party: frame.filter(pl.Series(mask)) for party, frame in frames.items()}


def _check_both_classes(data: flights.Flights, masks: Sequence[NDArray[np.bool_]]) -> None:
    if any(np.unique(data.late[mask]).size < 2 for mask in masks):
        why = "among those to train on or those set aside, all are late or none is"
        raise InvalidInput(f"{data.rows:,} flights are too few: {why}. Ask for 1,000 or more.")


def _auc(labels: NDArray[Any], scores: NDArray[np.float64]) -> tuple[float, float]:
    """The area under the ROC curve, and its standard error."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores)), area_error(scores, np.asarray(labels) > 0) or math.nan


# ------------------------------------------------------------------------------------------------ for a program


def plain(demo: Demo, report: Path) -> dict[str, Any]:
    """The demo as plain data; figures that are infinite are None."""
    private = demo.private.fit
    return {
        "models": [
            {
                "model": model.name,
                "parties": list(model.parties),
                "auc": model.auc,
                "auc_error": finite(model.error),
                "rounds": model.rounds,
                "gap": model.fit.gap,
                "objective": model.fit.objective,
                "status": model.fit.status.value,
                "columns_used": model.used,
                "seconds": model.fit.seconds,
            }
            for model in demo.models
        ],
        "left": [sent._asdict() for sent in left_by_party(private)],
        "rows": {
            "training": demo.training.matched,
            "held_out": demo.held_out.matched,
            "left_out": demo.training.left_out,
            "late": demo.late,
        },
        "privacy": {name: finite(value) for name, value in private.privacy.table().items()},
        "seconds": demo.seconds,
        "report": str(report),
    }


# ------------------------------------------------------------------------------------------------ for people


def show(demo: Demo, report: Path, console: Console) -> None:
    """The tables, the verdict on privacy, and what to try next."""
    console.print()
    for table in (_models(demo), _left(demo.private.fit), _facts(demo)):
        console.print(table)
        console.print()
    told = lined(facts_in_short(demo.private.fit, {"report": str(report)}))
    console.print(told, highlight=False, markup=False, soft_wrap=True)
    console.print(
        "\n"
        "[bold]Try next[/bold]\n"
        "  colonnade demo --epsilon 0.1               ten times less privacy loss, more noise\n"
        "  colonnade demo --rows 20000                fewer flights, the same noise: privacy costs more\n"
        "  colonnade demo --json                      the same figures for a program\n"
        "  colonnade report --help                    the report of a fit of your own",
        highlight=False,
        soft_wrap=True,
    )


def _models(demo: Demo) -> Any:
    figures = (MEASURE, "columns used", "rounds", "gap")
    title = f"Who knows which flights arrive more than {flights.LATE_MINUTES} minutes late?"
    table = table_of(title, ("model", *figures), right=figures)
    for model in demo.models:
        style = "bold" if model is demo.private else ""
        rounds, gap = ("", "") if model.fit.gap is None else (f"{model.rounds:,}", f"{model.fit.gap:.3f}")
        table.add_row(model.name, with_error(model.auc, model.error), f"{model.used:,}", rounds, gap, style=style)
    return table


def _left(joint: Fit) -> Any:
    names = ("party", "message", "messages", "bytes", "meaning")
    table = table_of("What left each party for the private model", names, right=("messages", "bytes"))
    before = None
    for sent in left_by_party(joint):
        if before not in (None, sent.party):
            table.add_section()
        shown = "" if before == sent.party else sent.party
        # The table says who sends; the meaning begins after "sender → receiver: ".
        meaning = message_words(sent.type).partition(": ")[2]
        table.add_row(shown, sent.type, f"{sent.messages:,}", human_bytes(sent.bytes), meaning)
        before = sent.party
    return table


def _facts(demo: Demo) -> Any:
    from rich.table import Table

    private = demo.private.fit
    left = sum(sent.bytes for sent in left_by_party(private))
    left_out = sum(demo.training.left_out.values()) + sum(demo.held_out.left_out.values())
    table = Table("", "", title="The run", title_justify="left", show_header=False)
    for name, value in {
        "flights in training": f"{demo.training.matched:,}, of which {demo.late:.1%} late",
        "flights held out": f"{demo.held_out.matched:,}",
        "rows left out of the match": f"{left_out:,}",
        "method": f"{private.method}; without privacy {demo.joint.fit.method}, L1 ball of radius {RADIUS:g}",
        "budget": f"epsilon {shown(private.privacy.epsilon)}, delta {private.privacy.delta:g}",
        "left the parties": human_bytes(left),
        "sent to the parties": human_bytes(private.communication.bytes - left),
        "seconds": f"{demo.seconds:.1f} in all",
    }.items():
        table.add_row(name, value)
    return table


def report(demo: Demo, path: Path) -> Path:
    """The report of the private model, with the comparison."""
    return write_report(demo.private.fit, path, quality=demo.quality())
