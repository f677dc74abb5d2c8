"""Models over columns of several parties, with the interface of scikit-learn.

    model = co.FederatedClassifier(parties={"hospital": ["age", "ward"], "lab": ["crp"]}, schemas=schemas,
                                   epsilon=1.0, delta=1e-6, trust="secure", classes=[0, 1], store="runs")
    model.fit(frame, frame["readmitted"]).predict_proba(frame)

Each fit is one run of `co.fit`, or one for each class against the rest. K such runs about the same rows add up in zCDP,
so each is given ρ/K: its epsilon is the one whose ρ at the same delta is just below that share (docs/use/notebook.md).
Leaves   what the method's runs release, and nothing else: coefficients, odds and, under privacy, weights of classes
         follow from it.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from colonnade.data.federation import Federation, table_federation
from colonnade.data.notices import UNSPENT
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput, MostlyNoise, NothingToLearn, unquoted
from colonnade.estimators.base import DELTA, looked_at
from colonnade.estimators.recipe import as_doubles
from colonnade.kernels.arrays import Floats
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.accountant import less_taken, rho_for
from colonnade.privacy.events import FINISHED
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.statement import Guarantee, Privacy, PrivacyStatement, beside_rho
from colonnade.privacy.store import write_synced
from colonnade.problem import Problem, Ridge
from colonnade.runs.fit import SavedFit
from colonnade.runs.fit import fit as run
from colonnade.runs.look import looked_for
from colonnade.runs.new_rows import shifted_scores
from colonnade.runs.result import Fit, load
from colonnade.runtime.run_store import RunStore

OPEN_RIDGE = 1e-3  # where neither a penalty nor a constraint is given, and nothing is private
SLACK = 1e-9  # of a share's epsilon: so that the shares' ρ are below ρ/K whatever the accountant rounds


def share_of(epsilon: float, delta: float, parts: int) -> float:
    """The epsilon of each of `parts` runs whose prices add up to no more than that of one run at `epsilon`.

    Let ρ be what (epsilon, delta) buys. The answer e lies below epsilon_of(ρ/parts). If e bought ρ/parts or more, its
    reported epsilon would be at least epsilon_of(ρ/parts), above e, which `rho_for` excludes. So each run costs less
    than ρ/parts.
    """
    if parts == 1:
        return epsilon
    least = epsilon_of(rho_for(epsilon, delta) / parts, delta) * (1.0 - SLACK)
    if least <= 0.0:
        raise InvalidInput(
            f"epsilon={epsilon:g} is too little to be shared by {parts} one-against-rest models. Raise it or join some."
        )
    return least


@dataclass(eq=False, repr=False)  # writes the constructor that scikit-learn wants: it keeps its arguments, no more
class FederatedLinear(BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """Settings and fitting that do not depend on what the targets mean."""

    parties: int | Mapping[str, Any] | None = None
    _: KW_ONLY
    schemas: Mapping[str, Schema] | None = None
    label: str | None = None
    loss: Any = None
    penalty: Any = None
    constraint: Any = None
    intercept: bool = True
    method: Any = None
    epsilon: float | None = None
    delta: float | None = None
    trust: str | None = None
    row_norm: Any = None
    feature_bound: float | None = None
    allow_large_delta: bool = False
    store: str | PathLike[str] | None = None
    engine: Any = None

    label_bound: ClassVar[float | None] = None  # labels of a classifier are ±1
    label_range: ClassVar[tuple[float, float] | None] = None
    fit_: Fit | list[Fit] = field(init=False)
    privacy_: PrivacyStatement = field(init=False)
    n_features_in_: int = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.epsilon is not None
        return tags

    # ---------------------------------------------------------------- settings

    def _problem(self, loss: Any) -> Problem:
        penalty = self.penalty
        if penalty is None and self.constraint is None and self.epsilon is None:
            penalty = Ridge(OPEN_RIDGE)
        return Problem(loss, self.constraint, penalty, intercept=self.intercept)

    def _terms(self, parts: int) -> Privacy | None:
        if self.epsilon is None:
            given = {"delta": self.delta, "row_norm": self.row_norm, "feature_bound": self.feature_bound}
            if unused := [name for name, value in given.items() if value is not None]:
                raise InvalidInput(
                    f"{unused[0]} is for private fits, and epsilon is None. Give epsilon=, or leave {unused[0]} out."
                )
            return None
        delta = DELTA if self.delta is None else self.delta
        labels = {"label_bound": self.label_bound, "label_range": self.label_range}
        asked = Privacy(self.epsilon, delta, self.trust, self.row_norm, self.feature_bound, **labels)  # type: ignore[arg-type]  # by name
        asked = replace(asked, allow_large_delta=self.allow_large_delta)
        return replace(asked, epsilon=share_of(self.epsilon, delta, parts))

    # ---------------------------------------------------------------- tables

    def _is_frame(self, X: Any) -> bool:
        """Whether a schema encodes the columns: a declared one or, without privacy, one read off the frame."""
        return hasattr(X, "columns") and hasattr(X, "dtypes") and (self.schemas is not None or self.epsilon is None)

    def _table(self, X: Any, *, reset: bool) -> Any:
        """X checked: a frame as it is, anything else as numbers."""
        if self.schemas is not None and not self._is_frame(X):
            raise InvalidInput(f"schemas= names columns, and X is a {type(X).__name__}: give a data frame.")
        if self._is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if X.shape[0] < (2 if reset else 1):
                raise InvalidInput(f"X has {X.shape[0]} sample(s), and a fit needs 2 or more; a prediction needs 1.")
            return X
        private = self.epsilon is not None
        X = as_doubles(X) if private else X
        if private and not sparse.issparse(X) and np.asarray(X).dtype.kind not in "biuf":
            kind = np.asarray(X).dtype
            what = "Complex data not supported: " if kind.kind == "c" else ""
            raise InvalidInput(f"{what}X is of type {kind}: give a private fit numbers, or a frame with schemas=.")
        kinds = {"accept_sparse": "csc", "dtype": np.float64, "reset": reset, "ensure_all_finite": not private}
        cells = validate_data(self, X, **kinds, ensure_min_samples=2 if reset else 1)
        if not private:
            return cells
        # A refusal would tell that some cell is no number: under privacy such a cell counts as zero.
        if sparse.issparse(cells):
            cells = cells.copy()
            cells.data[~np.isfinite(cells.data)] = 0.0
            return cells
        return np.where(np.isfinite(cells), cells, 0.0)

    def _parties(self, X: Any) -> int | dict[str, Any]:
        """Who holds which columns; names of a frame's columns become places where the frame became a matrix."""
        if self.schemas is not None:
            named = list(self.parties) if isinstance(self.parties, Mapping) else [str(self.parties)]
            if self.parties is not None and set(named) != set(self.schemas):
                theirs = ", ".join(self.schemas)
                raise InvalidInput(f"parties= names {', '.join(named)} and schemas= {theirs}: leave parties= out.")
            return {}
        if self.parties is None:
            return 2 if X.shape[1] > 1 else 1
        if not isinstance(self.parties, Mapping):
            return int(self.parties)
        if self._is_frame(X):
            return dict(self.parties)
        names = list(getattr(self, "feature_names_in_", ()))
        return {party: _place_columns(party, columns, names) for party, columns in self.parties.items()}

    def _federations(self, X: Any, targets: Sequence[Any]) -> list[Federation]:
        """One federation for each target; all hold the same rows."""
        parties = self._parties(X)
        return [table_federation(X, target, parties, self.schemas, self.label) for target in targets]

    # ---------------------------------------------------------------- fitting and scoring

    def _run(self, federations: Sequence[Federation], losses: Sequence[Any], notices: Sequence[str] = ()) -> None:
        """One run for each federation, with its loss; `notices` are said before the first."""
        problems = [self._problem(loss) for loss in losses]
        terms = self._terms(len(federations))
        method = self.method
        where = {"engine": self.engine, "store": self.store}
        search = None
        if self.epsilon is not None and terms is not None:
            search = looked_at(self.epsilon, terms.delta, partial(self._short_of, federations[0]))
        if not federations[0].declared:
            if len(federations) > 1:
                advice = "Look once before (co.look) and give the schemas that it finds, or declare figures"
                raise InvalidInput(f"columns have no figures, and there are {len(federations)} models. {advice}.")
            store = None if self.store is None else Path(self.store)
            there, terms = looked_for(federations[0], problems[0], method, terms, self.engine, store, None)
            federations = [there]
        if notices:
            warnings.warn(f"{'; '.join(notices)}. {UNSPENT}", NothingToLearn, stacklevel=4)
        runs = [
            partial(run, each, problem, method, terms, **where)
            for each, problem in zip(federations, problems, strict=True)
        ]
        if len(runs) == 1 or self.store is None:
            fits = [one() for one in runs]
        else:
            fits = resume_runs(same_call(federations, problems, method, terms), runs, self.store)
        encoded = federations[0].with_curve_depth(fits[0].depth)  # with the curves that the run chose
        self._places = {name: party.block.positions for name, party in encoded.parties.items()}
        self.fit_ = fits[0] if len(fits) == 1 else fits
        self.privacy_ = joint_statement([each.privacy for each in fits], terms)
        # Who sees one of its models has seen what chose it.
        if search is not None and terms is not None:
            spent = search.begun * search.rho
            search.taken += self.privacy_.taken
            words = f"Renyi bound of {spent:.4g}-zCDP{beside_rho(search.taken)}, {search.begun} fits of a search"
            epsilon = epsilon_of(spent, less_taken(terms.delta, search.taken))
            said = replace(self.privacy_, epsilon=epsilon, accountant=words, rho=spent, taken=search.taken)
            self.privacy_ = said

    def _short_of(self, federation: Federation, rho: float, _: int) -> str:
        """Why a search has no room for all its fits: every party's ledger must have a limit that leaves it."""
        if self.store is None or not (Path(self.store) / "runs.db").is_file():
            return "there is no store= with ledgers and limits (`colonnade budget set`)"
        with closing(RunStore(Path(self.store))) as store:
            for name, party in federation.parties.items():
                budget = Ledger(store.log(name), name, party.policy).budget()
                if budget.epsilon is None:
                    return f"the ledger of {name!r} has no limit: nobody allowed as much (`colonnade budget set`)"
                if rho > budget.left:
                    return f"the ledger of {name!r} has rho {budget.left:.3g} left of {budget.limit:.3g}"
        return ""

    @property
    def _fits(self) -> list[Fit]:
        return self.fit_ if isinstance(self.fit_, list) else [self.fit_]

    def _weights(self, made: Fit) -> Floats:
        """One vector over all columns, in the table's order; HeldByParty where a party keeps its part."""
        x = np.zeros(sum(len(self._places[party]) for party in made.coefficients))
        for party in made.coefficients:
            x[self._places[party]] = made.coefficients[party]
        return x

    @unquoted("could not convert")
    def _raw(self, X: Any) -> Floats:
        """The models' scores of new rows, one column a model; with the offset of rows that have one."""
        check_is_fitted(self, "fit_")
        if sparse.issparse(X) or not isinstance(X, Federation | Mapping):  # a sparse matrix of type dok is a mapping
            if not hasattr(self, "n_features_in_"):
                raise InvalidInput("this model was fitted on a Federation: give one of new rows, or {party: frame}.")
            X = self._table(X, reset=False)
            if not self._is_frame(X):
                X = Federation.split(X, None, self._parties(X), label=None)
        return np.column_stack([shifted_scores(made, X) for made in self._fits])


def _place_columns(party: str, columns: Any, names: list[str]) -> Any:
    if isinstance(columns, slice | range) or not any(isinstance(column, str) for column in columns):
        return columns
    if absent := [column for column in columns if column not in names]:
        raise InvalidInput(f"party {party!r}: X has no column {absent[0]!r}; it has {len(names):,} named columns.")
    return [names.index(column) for column in columns]


def joint_statement(statements: Sequence[PrivacyStatement], terms: Privacy | None) -> PrivacyStatement:
    """The statement of several runs about the same rows: prices add up, and it rests on what any of them rests on."""
    first = statements[0]
    count = len(statements)
    if count == 1 or terms is None or first.guarantee == Guarantee.NONE:
        return first
    conditions = tuple(dict.fromkeys(one for statement in statements for one in statement.conditions))
    rho = count * rho_for(terms.epsilon, terms.delta)
    taken = math.fsum(statement.taken for statement in statements)
    return replace(
        first,
        epsilon=epsilon_of(rho, less_taken(terms.delta, taken)),
        accountant=f"Renyi bound of {rho:.4g}-zCDP{beside_rho(taken)}, {count} runs of {rho / count:.4g} each",
        rho=rho,
        taken=taken,
        conditions=conditions,
        derivation=f"{first.derivation}; each of {count} one-against-rest models has 1/{count} of the budget",
    )


def same_call(federations: Sequence[Federation], *settings: Any) -> str:
    """What makes two jobs the same job: the settings, who holds what, the rows and every run's labels.

    It enters a keyed hash, as runs do: nobody can test a guess about a row with it.
    """
    first = federations[0]
    held = [(name, party.block.digest(), repr(party.policy)) for name, party in first.parties.items()]
    labels = [hashlib.sha256(np.ascontiguousarray(each.labels).data).hexdigest() for each in federations]
    surplus = [each.surplus_digest for each in federations]
    parts = (settings, first.label, first.unit, first.roster().known, held, labels, surplus)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def resume_runs(call: str, runs: Sequence[Callable[[], Fit]], store: str | PathLike[str]) -> list[Fit]:
    """The fits of all runs, in order; those that an interrupted call with this store finished are read from it.

    store/classes/runs.db         which jobs were begun, and how they ended
    store/classes/fits/JOB.json   the ids of a job's finished runs, in order; their fits are in store/fits

    Once a job has ended, the same call is a new one, and is charged as one.
    """
    folder = Path(store).expanduser()
    with closing(RunStore(folder / "classes")) as jobs:
        with jobs.run(call) as job:
            finished = folder / "classes" / "fits" / f"{job}.json"
            done: list[str] = json.loads(finished.read_text()) if finished.exists() else []
            fits = [load(folder / "fits" / f"{run}.json") for run in done]

            def note(run: str) -> None:
                done.append(run)
                write_synced(finished, json.dumps(done).encode())

            for run in runs[len(done) :]:
                try:
                    fits.append(run())
                except (KeyboardInterrupt, MostlyNoise) as stopped:
                    # The second: where somebody made it an error.
                    for remark in getattr(stopped, "__notes__", ()):
                        if isinstance(remark, SavedFit) and remark.path is not None:
                            note(remark.path.stem)
                    raise
                note(fits[-1].run)
            jobs.end(job, FINISHED)
        return fits
