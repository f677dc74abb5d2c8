"""What would privacy cost here? Methods, trust models and budgets compared on a table of one's own.

Every figure is of rows that were set aside: a split (80 % to train on) is made from a seed, everything else is a whole
run of `co.fit` with the noise that it has, which is never seeded. Beside them: all columns together and each party's
alone, by scikit-learn, not private.

Leaves   nothing, and everything: the table's holder looks at results computed from its rows. That is exploration, for
         which nobody paid. Choose settings on rows that no private release is about.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.federation import Federation, table_federation
from colonnade.data.party import Alignment
from colonnade.data.schema.table import Schema
from colonnade.errors import ColonnadeError, InvalidInput
from colonnade.methods.gram.private_gram import PrivateGram
from colonnade.methods.method import GraphMethod, Method
from colonnade.privacy.block import Block
from colonnade.privacy.statement import Privacy
from colonnade.problem import LeastSquares, Logistic, Problem
from colonnade.runs.call import checked_call, default_method
from colonnade.runs.fit import fit
from colonnade.runs.progress import progress_bar
from colonnade.views.chart import plotly_objects
from colonnade.views.model import in_curves

if TYPE_CHECKING:
    import polars as pl

Places = NDArray[np.int64]
TRAINED = 0.8  # of the rows
FIRST_SEED = 1000  # of the splits: the next one is 1001
TOGETHER = "together, not private"
ALONE = "alone, not private"
EXPLORED = (
    "Exploration: these figures were computed from the rows themselves and nobody paid for them; the ledgers of the "
    "runs were thrown away. Whoever sees them, or a setting chosen by them, learns about the rows."
)
BENT = (
    "The private models bend numbers into curves where that pays; what is not private here is a straight line of every "
    "number, and can do worse."
)


@dataclass(frozen=True)
class Trial:
    """One model on one split.

    Parameters
    ----------
    method
        Its name.
    trust
        The trust model; empty where nothing is private.
    epsilon
        Of the run; infinite where nothing is private.
    split
        Which split of the rows.
    figures
        On the held-out rows: AUC, or R2 and RMSE.
    bytes
        What the run sent.
    rounds
        How many it took.
    seconds
        How long it took.
    curves
        Whether numbers were bent.
    """

    method: str
    trust: str
    epsilon: float
    split: int
    figures: Mapping[str, float]
    bytes: int | None = None
    rounds: int | None = None
    seconds: float | None = None
    curves: bool = False


@dataclass(frozen=True)
class Simulation:
    """What a simulation found; printing it shows the table and what the figures are.

    Parameters
    ----------
    trials
        Every model on every split.
    refused
        Pairs that a method does not know, and why.
    note
        What the figures are: exploration that nobody paid for.
    measures
        The names of the figures, the one to compare by first.
    """

    trials: tuple[Trial, ...]
    refused: tuple[str, ...] = ()
    note: str = EXPLORED
    measures: tuple[str, ...] = field(default=())

    def table(self) -> pl.DataFrame:
        """One row for each method, trust model and epsilon: mean and standard error over splits, cost of a run."""
        import polars as pl

        lines = []
        for (method, trust, budget), own in self._groups().items():
            line: dict[str, Any] = {"method": method, "trust": trust, "epsilon": budget}
            for measure in self.measures:
                line[measure], line[f"{measure} ±"] = _mean(_by_split(own, measure))
            for name in ("bytes", "rounds", "seconds"):
                known = [value for trial in own if (value := getattr(trial, name)) is not None]
                line[name] = float(np.mean(known)) if known else None
            lines.append({**line, "runs": len(own)})
        return pl.DataFrame(lines, infer_schema_length=None)

    def plot(self) -> Any:
        """The first measure against epsilon, with standard errors; what is not private as level lines."""
        go = plotly_objects()
        measure = self.measures[0]
        table = self.table()
        figure = go.Figure()
        private = table.filter(table["epsilon"].is_finite())
        for (method, trust), own in private.group_by(["method", "trust"], maintain_order=True):
            at, found, errors = (own[name].to_list() for name in ("epsilon", measure, f"{measure} ±"))
            name = f"{method}, trust {trust}"
            error_bars = {"type": "data", "array": errors}
            figure.add_scatter(x=at, y=found, error_y=error_bars, name=name, mode="lines+markers")
        for line in table.filter(table["epsilon"].is_infinite()).iter_rows(named=True):
            if ALONE not in line["method"] or line["method"] == self.best_alone:
                figure.add_hline(y=line[measure], line_dash="dot", annotation_text=line["method"])
        figure.update_xaxes(type="log", title="epsilon (smaller protects more)")
        figure.update_layout(title=f"{measure} on rows set aside", yaxis_title=measure)
        below = {"xref": "paper", "yref": "paper", "x": 0, "y": -0.2}
        figure.add_annotation(text="exploration, not a private release", showarrow=False, **below)
        return figure

    @property
    def best_alone(self) -> str:
        """The party that does best by itself, without privacy."""
        alone = [(key, own) for key, own in self._groups().items() if ALONE in key[0]]
        return max(alone, key=lambda pair: _mean(_by_split(pair[1], self.measures[0]))[0])[0][0]

    def _groups(self) -> dict[tuple[str, str, float], list[Trial]]:
        groups: dict[tuple[str, str, float], list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault((trial.method, trial.trust, trial.epsilon), []).append(trial)
        return groups

    def __str__(self) -> str:
        return "\n".join([str(self.table()), self.note, *self.refused])


def simulate(
    X: Any,
    y: Any,
    parties: int | Mapping[str, Any] = 2,
    *,
    schemas: Mapping[str, Schema] | None = None,
    label: str | None = None,
    problem: Problem | None = None,
    methods: Sequence[Any] | Mapping[str, Any] | None = None,
    trusts: Sequence[str | None] = (None,),
    epsilons: Sequence[float] = (0.1, 1.0, 4.0),
    delta: float = 1e-6,
    row_norm: float | Mapping[str, float] | None = None,
    feature_bound: float | None = None,
    label_bound: float | None = None,
    label_range: tuple[float, float] | None = None,
    splits: int = 5,
    repeats: int = 1,
    progress: bool = False,
) -> Simulation:
    """Fit every method at every trust model and epsilon on several splits of one table, and compare on held-out rows.

    It is exploration: the figures are computed from the rows themselves, and nobody paid for them. Choose settings on
    rows that no private release is about.

    Parameters
    ----------
    X
        The table, as in `co.FederatedClassifier`.
    y
        One label a row.
    parties
        Who holds which columns: by name, or how many parts of equal size.
    schemas
        By party, what is public about its columns of a frame; it also says who holds which.
    label
        The party that holds the labels; None: one that holds nothing else.
    problem
        None: logistic with an intercept for two labels, else least squares.
    methods
        `co.PrivateGram()` and others, or {name: method}; (method, problem) for one with a problem of its own. One that
        releases exact values is run once, without privacy. None: the default.
    trusts
        The trust models to try; None among them: as `co.Privacy` has it.
    epsilons
        The budgets to try.
    delta
        Of all of them.
    row_norm
        Public bound of a row's length, as in `co.Privacy`.
    feature_bound
        Public bound of an entry, as in `co.Privacy`.
    label_bound
        Public bound of a label, as in `co.Privacy`.
    label_range
        Public range of labels, as in `co.Privacy`.
    splits
        How many; standard errors are over them.
    repeats
        Private runs on each split, whose figures are averaged first.
    progress
        Whether to show a progress bar.

    Returns
    -------
    Simulation
        Every model's figures; `table()` has means and standard errors.

    Examples
    --------
    >>> import colonnade as co
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> exact = {"exact": (co.SharingADMM(), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)))}
    >>> found = co.simulate(X, X @ [1.0, -1.0], methods=exact, splits=1)
    >>> found.measures[0]
    'R2'
    """
    _check_counts(splits, repeats, epsilons, trusts)
    values, classifies = _labels(y, problem)
    asked = problem or Problem(Logistic() if classifies else LeastSquares(), intercept=True)
    whole = table_federation(X, values, parties, schemas, label)
    bounds: dict[str, Any] = {"row_norm": row_norm, "feature_bound": feature_bound}
    bounds |= {"label_bound": label_bound, "label_range": label_range}
    terms = [Privacy(epsilon, delta, trust, **bounds) for trust in trusts for epsilon in epsilons]
    return _compare(whole, asked, methods, terms, splits, repeats, progress)


def simulate_study(
    whole: Federation,
    problem: Problem,
    method: Any,
    privacy: Privacy,
    epsilons: Sequence[float],
    splits: int,
    repeats: int,
    progress: bool,
) -> Simulation:
    """The same for the parties, the problem, the method and the terms of a configuration file."""
    _check_counts(splits, repeats, epsilons, (privacy.trust,))
    values, _ = _labels(whole.targets, problem)
    methods = None if method is None else [method]
    terms = [replace(privacy, epsilon=epsilon) for epsilon in epsilons]
    return _compare(whole.relabelled(values), problem, methods, terms, splits, repeats, progress)


def _compare(
    whole: Federation, asked: Problem, methods: Any, terms: Sequence[Privacy], splits: int, repeats: int, progress: bool
) -> Simulation:
    """Every method under all terms, on every split of these rows."""
    classifies = bool(asked.loss.classifies)
    plan, refused = _plan(whole, asked, methods, terms)
    if not plan:
        raise InvalidInput(f"nothing can be run: {' '.join(refused)}")
    trials: list[Trial] = []
    done = 0
    with progress_bar(progress, "simulating, fits", splits * sum(case.times(repeats) for case in plan)) as show:
        for number, (train, test) in enumerate(_splits(whole.rows, splits)):
            told = _rows(whole, train)
            held = _rows(whole, test)
            if classifies and min(len(set(told.targets.tolist())), len(set(held.targets.tolist()))) < 2:
                raise InvalidInput(f"split {number + 1} of {splits} has one class only: too few rows of a class.")
            for case in plan:
                for _ in range(case.times(repeats)):
                    trials.append(_trial(case, told, held, number, classifies))
                    done += 1
                    show({"round": done})
            trials += _baselines(told, held, number, classifies)
    note = f"{EXPLORED} {BENT}" if any(trial.curves for trial in trials) else EXPLORED
    return Simulation(tuple(trials), tuple(refused), note, measures=("AUC",) if classifies else ("R2", "RMSE"))


# ------------------------------------------------------------------------------------------------ what is run


@dataclass(frozen=True)
class _Case:
    name: str
    method: Any
    problem: Problem
    privacy: Privacy | None

    def times(self, repeats: int) -> int:
        """Runs a split: without noise one is enough."""
        return 1 if self.privacy is None else repeats


def _plan(whole: Federation, problem: Problem, methods: Any, terms: Sequence[Privacy]) -> tuple[list[_Case], list[str]]:
    """Every pair that can be run, and why the others cannot."""
    cases = list[_Case]()
    refused = list[str]()
    for name, method, own in _named(methods, problem):
        for privacy in terms if method is None or method.DERIVATION is not None else [None]:
            chosen = method if method is not None else default_method(privacy, own)
            try:
                job = checked_call(whole, own, chosen, privacy).job
            except ColonnadeError as error:
                where = "" if privacy is None else f", trust {privacy.trust}, epsilon {privacy.epsilon:g}"
                refused.append(f"{name}{where}: {error}")
            else:
                cases.append(_Case(name, chosen, own, job.privacy))
    return cases, refused


def _named(methods: Any, problem: Problem) -> Iterator[tuple[str, Any, Problem]]:
    if methods is None:
        yield PrivateGram.TITLE, None, problem
        return
    pairs = list(methods.items()) if isinstance(methods, Mapping) else [(None, method) for method in methods]
    asked = [(name, *(v if isinstance(v, tuple) and len(v) == 2 else (v, problem))) for name, v in pairs]
    for _, method, _ in asked:
        if not isinstance(method, Method | GraphMethod):
            raise InvalidInput(f"methods= holds {method!r}, which is no method: give values such as co.PrivateGram().")
    titles = [method.TITLE for _, method, _ in asked]
    for name, method, own in asked:
        yield name or (method.TITLE if titles.count(method.TITLE) == 1 else repr(method)), method, own


def _trial(case: _Case, told: Federation, held: Federation, split: int, classifies: bool) -> Trial:
    began = time.perf_counter()
    # A budget needs a ledger; this one lasts as long as the trial.
    with tempfile.TemporaryDirectory() as store:
        fitted = fit(told, case.problem, case.method, case.privacy, store=None if case.privacy is None else store)
    seconds = time.perf_counter() - began
    scores = fitted.scores(held) if classifies else fitted.predict(held)
    figures = _figures(held.targets, scores, classifies)
    trust, budget = ("", math.inf) if case.privacy is None else (str(case.privacy.trust), case.privacy.epsilon)
    sent = fitted.communication
    return Trial(
        case.name,
        trust,
        budget,
        split,
        figures,
        sent.bytes,
        sent.rounds,
        seconds,
        curves=any(in_curves(fitted, name) for name in fitted.schemas),
    )


def _baselines(told: Federation, held: Federation, split: int, classifies: bool) -> Iterator[Trial]:
    """All columns, and each party's, without privacy: scikit-learn's logistic regression or ridge with its defaults."""
    from sklearn.linear_model import LogisticRegression, Ridge

    holders = [name for name, party in told.parties.items() if party.block.columns]
    groups = {TOGETHER: holders, **({f"{name} {ALONE}": [name] for name in holders} if len(holders) > 1 else {})}
    for name, group in groups.items():
        began = time.perf_counter()
        model = LogisticRegression(max_iter=500, tol=1e-3) if classifies else Ridge()
        model.fit(_matrix(told, group), told.targets)
        scores = (model.decision_function if classifies else model.predict)(_matrix(held, group))
        seconds = time.perf_counter() - began
        yield Trial(name, "", math.inf, split, _figures(held.targets, scores, classifies), seconds=seconds)


def _matrix(federation: Federation, names: Sequence[str]) -> Any:
    blocks = [federation.parties[name].block.matrix for name in names]
    if any(sparse.issparse(block) for block in blocks):
        return sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks]))
    return np.hstack(blocks)


# ------------------------------------------------------------------------------------------------ rows and figures


def _labels(y: Any, problem: Problem | None) -> tuple[NDArray[Any], bool]:
    values = np.asarray(y)
    if values.ndim != 1 or values.size < 10:
        raise InvalidInput(f"y has shape {values.shape}: give one label a row, for 10 rows or more.")
    kinds = np.unique(values)
    classifies = kinds.size == 2 if problem is None else bool(problem.loss.classifies)
    if not classifies:
        if values.dtype.kind not in "biuf":
            raise InvalidInput(f"y holds {kinds.size:,} different texts; a simulation compares classes, or numbers.")
        return values.astype(np.float64), False
    if kinds.size != 2:
        raise InvalidInput(f"y holds {kinds.size:,} classes; a simulation compares two. Set one against the rest.")
    return np.where(values == kinds[1], 1.0, -1.0), True


def _splits(rows: int, count: int) -> Iterator[tuple[Places, Places]]:
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        order = np.random.default_rng(seed).permutation(rows)
        yield np.sort(order[: int(TRAINED * rows)]), np.sort(order[int(TRAINED * rows) :])


def _rows(whole: Federation, places: Places) -> Federation:
    """Some rows of an encoded federation."""
    parties = {}
    for name, party in whole.parties.items():
        matrix = party.block.matrix
        taken = sparse.csc_array(sparse.csr_array(matrix)[places]) if sparse.issparse(matrix) else matrix[places]
        if sparse.issparse(taken):
            taken.sort_indices()
        parties[name] = replace(party, block=Block(taken, party.block.positions, unit=party.block.unit))
    same = Alignment(dict.fromkeys(parties, places.size), places.size)
    keys = None if whole.keys is None else whole.keys[places]
    made = replace(whole, parties=parties, alignment=same, _y=whole.targets[places], keys=keys, _surplus=None)
    return replace(made, beside=whole.beside.of(places))


def _figures(y: NDArray[Any], scores: NDArray[np.float64], classifies: bool) -> dict[str, float]:
    from sklearn.metrics import r2_score, roc_auc_score

    if classifies:
        return {"AUC": float(roc_auc_score(y, scores))}
    return {"R2": float(r2_score(y, scores)), "RMSE": float(np.sqrt(np.mean((y - scores) ** 2)))}


def _by_split(trials: Sequence[Trial], measure: str) -> list[float]:
    """The measure on each split; repeats on one split share its rows, so they are averaged first."""
    places = dict.fromkeys(trial.split for trial in trials)
    return [float(np.mean([t.figures[measure] for t in trials if t.split == place])) for place in places]


def _mean(found: list[float]) -> tuple[float, float | None]:
    error = float(np.std(found, ddof=1) / math.sqrt(len(found))) if len(found) > 1 else None
    return float(np.mean(found)), error


def _check_counts(splits: int, repeats: int, epsilons: Sequence[float], trusts: Sequence[str | None]) -> None:
    for name, value in (("splits", splits), ("repeats", repeats)):
        if not (isinstance(value, int | np.integer) and value >= 1):
            raise InvalidInput(f"{name}={value!r}: give a whole number of at least 1; 5 is a common choice.")
    for name, given in (("epsilons", epsilons), ("trusts", trusts)):
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise InvalidInput(f"{name}={given!r}: give a list of at least one.")
