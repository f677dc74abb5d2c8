"""Who is compared, and how one of them is run on one split: a row of figures for each epsilon, or one without privacy.

Problems lasso     logistic loss, lasso, no intercept; the methods over a ball get the radius of scikit-learn's answer, so that
                   they have the same optimum
         ball      logistic loss over the ball of that radius, with an intercept
         balls     logistic loss over an L1 ball a party, as large as the largest part of that answer
         ridge     logistic loss, ridge, no intercept
         squares   least squares on labels −1 and 1, ridge, no intercept
         private   logistic loss, each library's or method's own regularisation at its defaults
Gap      a bound on objective − optimum: computed here by one formula (papers/certificate.py) from everybody's coefficients;
         for `ball` and `balls` it is the method's own.
Seconds  of CPU for one fit, all parties' together, one thread. Loading, splitting and judging are not counted.
Noise    as in use: from the operating system, without a seed.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

import colonnade as co
from colonnade.kernels.arrays import Floats
from colonnade.privacy.statement import PrivacyStatement
from papers.certificate import certificate
from papers.comparison.rivals import Rivals
from papers.comparison.tables import Places, Table
from papers.figure import Row

EPSILONS, DELTA = (0.1, 1.0, 4.0), 1e-6
LAM = {"rcv1": 1e-4}  # of lasso and ridge; others: USUAL
USUAL = 1e-3
RADIUS = 10.0  # of the ball of private Frank-Wolfe; chosen without looking
PRIVATE_RIDGE = 0.1
ROUNDS = 50  # of the methods that would take hundreds: what that leaves is in their gap
OURS, SKLEARN, SKGLM, DIFFPRIVLIB, NOBODY = "Colonnade", "scikit-learn", "skglm", "diffprivlib", "none"
ONE, BETWEEN = "one place", "between parties"
HOLDER = "one holder"  # has all rows and labels; others see the model


@dataclass(frozen=True)
class Split:
    """One division of a table's rows, and what its models share."""

    table: Table
    number: int
    train: Places
    test: Places

    @cached_property
    def X(self) -> Any:
        return self.table.X[self.train]

    @property
    def y(self) -> Floats:
        return self.table.y[self.train]

    @property
    def lam(self) -> float:
        return LAM.get(self.table.name, USUAL)

    @cached_property
    def federation(self) -> co.Federation:
        return self.table.federation(self.train)

    @cached_property
    def lasso(self) -> Floats:
        """scikit-learn's answer, which says how large balls are."""
        return _liblinear(self)[0]

    def judged(self, scores: Floats, seconds: float, **said: Any) -> Row:
        """A row: area under the ROC curve on the rows set aside, beside what the caller says."""
        from sklearn.metrics import roc_auc_score

        auc = float(roc_auc_score(self.table.y[self.test], scores))
        return {"split": self.number, "auc": auc, "seconds": seconds, **said}

    def linear(self, x: Floats, seconds: float, **said: Any) -> Row:
        """The row of a model with these coefficients."""
        return self.judged(self.table.X[self.test] @ x, seconds, **said)

    def gap(self, problem: str, x: Floats) -> float:
        loss = co.LeastSquares() if problem == "squares" else co.Logistic()
        penalty = co.Lasso(self.lam) if problem == "lasso" else co.Ridge(self.lam)
        return float(certificate(loss, penalty, self.X, x, self.y))


@dataclass(frozen=True)
class Model:
    """One line of the table, or one for each epsilon."""

    name: str
    by: str
    place: str
    problem: str
    run: Callable[[Sequence[Split]], Iterator[Row]]

    @property
    def key(self) -> str:
        return f"{self.by}: {self.name}: {self.problem}"


def models(parties: Sequence[str], rivals: Rivals | None) -> list[Model]:
    """Everybody who can be run on a table of these parties; other libraries only where there is an environment for them."""
    shared = [
        Model("LogisticRegression, liblinear", SKLEARN, ONE, "lasso", _central(_liblinear, "lasso")),
        Model("SparseClassifier", OURS, ONE, "ball", _each(_sparse)),
        Model("SparseClassifier", OURS, ONE, "private", _each(_private_sparse)),
    ]
    theirs = []
    if rivals is not None:
        theirs.append(Model("SparseLogisticRegression", SKGLM, ONE, "lasso", partial(_skglm, rivals)))
        if parties:  # it takes dense rows only, which a wide sparse table is too large for
            theirs.append(Model("LogisticRegression", DIFFPRIVLIB, ONE, "private", partial(_diffprivlib, rivals)))
    return [*shared, *theirs, *(_between(parties) if parties else [])]


def _between(parties: Sequence[str]) -> Iterator[Model]:
    """What needs parties, and what is without them."""
    exact = [
        ("DistributedFrankWolfe", "lasso", co.DistributedFrankWolfe(tolerance=1e-6)),
        ("BlockFrankWolfe", "balls", co.BlockFrankWolfe(rounds=5 * ROUNDS)),
        ("SharingADMM", "ridge", co.SharingADMM(rounds=ROUNDS)),
        ("GraphADMM", "ridge", co.GraphADMM(rounds=ROUNDS, tolerance=1e-5)),
        ("GraphRidge", "squares", co.GraphRidge(rounds=ROUNDS, tolerance=1e-5)),
    ]
    for name, problem, method in exact:
        yield Model(name, OURS, BETWEEN, problem, _each(partial(_exact, problem, method)))
    yield Model("LogisticRegression, lbfgs", SKLEARN, ONE, "ridge", _central(_lbfgs, "ridge"))
    yield Model("Ridge", SKLEARN, ONE, "squares", _central(_ridge, "squares"))
    whole = co.Problem(co.Logistic(), intercept=True)
    ball = co.Problem(co.Logistic(), co.L1Ball(RADIUS))
    ridge = co.Problem(co.Logistic(), penalty=co.Ridge(PRIVATE_RIDGE), intercept=True)
    private = [
        ("PrivateGram, secure", whole, co.PrivateGram(cross="secure"), "secure"),
        ("PrivateGram, consortium", whole, co.PrivateGram(cross="secure"), "consortium"),
        ("PrivateGram, none", whole, co.PrivateGram(cross="none"), "nobody"),
        ("PrivateBlockFrankWolfe, nobody", ball, co.PrivateBlockFrankWolfe(), "nobody"),
        ("PrivateBlockFrankWolfe, consortium", ball, co.PrivateBlockFrankWolfe(rounds=ROUNDS), "consortium"),
        ("PrivateSharingADMM", ridge, co.PrivateSharingADMM(), "nobody"),
    ]
    for name, asked, settings, trust in private:
        yield Model(name, OURS, BETWEEN, "private", _each(partial(_private, asked, settings, trust)))
    for party in parties:
        yield Model(f"{party} alone, LogisticRegression", SKLEARN, ONE, "ridge", _each(partial(_alone, party)))
        yield Model(f"{party} alone, SparseClassifier", OURS, ONE, "private", _each(partial(_private_alone, party)))
    yield Model("x = 0", NOBODY, ONE, "private", _each(_zero))


def _each(run: Callable[[Split], Iterator[Row]]) -> Callable[[Sequence[Split]], Iterator[Row]]:
    """One split after the other."""

    def over(splits: Sequence[Split]) -> Iterator[Row]:
        for split in splits:
            yield from run(split)

    return over


# ------------------------------------------------------------------------------------------------ without privacy

OPEN: Row = {"epsilon": None, "stated": None, "delta": None, "unit": "", "trust": "", "guarantee": "none"}


def _central(
    solve: Callable[[Split], tuple[Floats, float]], problem: str
) -> Callable[[Sequence[Split]], Iterator[Row]]:
    def run(split: Split) -> Iterator[Row]:
        x, seconds = solve(split)
        yield split.linear(x, seconds, gap=split.gap(problem, x), **OPEN)

    return _each(run)


def _timed(model: Any, X: Any, y: Floats) -> float:
    """CPU seconds of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stopped early shows in its gap
        began = time.process_time()
        model.fit(X, y)
        return time.process_time() - began


def _liblinear(split: Split) -> tuple[Floats, float]:
    import sklearn
    from sklearn.linear_model import LogisticRegression

    newer = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
    kind: dict[str, Any] = {"l1_ratio": 1.0} if newer else {"penalty": "l1"}
    scale = 1.0 / (split.y.size * split.lam)
    model = LogisticRegression(C=scale, solver="liblinear", fit_intercept=False, tol=1e-6, max_iter=1000, **kind)
    seconds = _timed(model, split.X, split.y)
    return model.coef_[0], seconds


def _lbfgs(split: Split) -> tuple[Floats, float]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1.0 / (split.y.size * split.lam), fit_intercept=False, tol=1e-6, max_iter=2000)
    seconds = _timed(model, split.X, split.y)
    return model.coef_[0], seconds


def _ridge(split: Split) -> tuple[Floats, float]:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=split.y.size * split.lam, fit_intercept=False, tol=1e-8)
    seconds = _timed(model, split.X, split.y)
    return np.asarray(model.coef_), seconds


def _sparse(split: Split) -> Iterator[Row]:
    model = co.SparseClassifier(radius=float(np.abs(split.lasso).sum()))
    seconds = _timed(model, split.X, split.y)
    yield split.linear(model.coef_[0], seconds, gap=model.gap_, **OPEN)


def _alone(party: str, split: Split) -> Iterator[Row]:
    from sklearn.linear_model import LogisticRegression

    own = split.table.parts[party]
    model = LogisticRegression(C=1.0 / (split.y.size * split.lam), tol=1e-6, max_iter=2000)
    seconds = _timed(model, split.X[:, own], split.y)
    yield split.judged(split.table.X[split.test][:, own] @ model.coef_[0], seconds, **OPEN)


def _exact(problem: str, method: Any, split: Split) -> Iterator[Row]:
    asked = {
        "lasso": co.Problem(co.Logistic(), co.L1Ball(float(np.abs(split.lasso).sum()))),
        "balls": co.Problem(co.Logistic(), co.Product(co.L1Ball(_largest_part(split)), "parties")),
        "ridge": co.Problem(co.Logistic(), penalty=co.Ridge(split.lam)),
        "squares": co.Problem(co.LeastSquares(), penalty=co.Ridge(split.lam)),
    }[problem]
    fit, seconds = _fitted(split, asked, method, None)
    x = _side_by_side(split, fit)
    gap = fit.gap if problem == "balls" else split.gap(problem, x)
    yield split.linear(x, seconds, gap=gap, **_sent(fit), **OPEN)


def _largest_part(split: Split) -> float:
    return max(float(np.abs(split.lasso[own]).sum()) for own in split.table.parts.values())


# ------------------------------------------------------------------------------------------------ with privacy


def _private(problem: co.Problem, method: Any, trust: str, split: Split) -> Iterator[Row]:
    norms = {party: float(schema.row_norm or 0.0) for party, schema in split.table.schemas.items()}
    for epsilon in EPSILONS:
        terms = co.Privacy(epsilon, DELTA, trust=trust, row_norm=norms, feature_bound=1.0)
        fit, seconds = _fitted(split, problem, method, terms)
        yield split.linear(_side_by_side(split, fit), seconds, **_sent(fit), **_stated(epsilon, fit.privacy))


def _private_sparse(split: Split) -> Iterator[Row]:
    yield from _sparse_rows(split, split.X, split.table.X[split.test])


def _private_alone(party: str, split: Split) -> Iterator[Row]:
    own = split.table.parts[party]
    yield from _sparse_rows(split, split.X[:, own], split.table.X[split.test][:, own])


def _sparse_rows(split: Split, X: Any, new: Any) -> Iterator[Row]:
    for epsilon in EPSILONS:
        model = co.SparseClassifier(epsilon=epsilon, delta=DELTA, classes=[-1, 1])
        seconds = _timed(model, X, split.y)
        assert model.privacy_ is not None
        said = {**_stated(epsilon, model.privacy_), "trust": HOLDER}
        yield split.judged(model.decision_function(new), seconds, **said)


def _zero(split: Split) -> Iterator[Row]:
    """No score tells rows apart, and nothing about them is told."""
    said = {"stated": 0.0, "delta": 0.0, "unit": "one row", "trust": "", "guarantee": "proven"}
    yield split.judged(np.zeros(split.test.size), 0.0, epsilon=0.0, **said)


# ------------------------------------------------------------------------------------------------ other libraries


def _skglm(rivals: Rivals, splits: Sequence[Split]) -> Iterator[Row]:
    found = rivals.fits(SKGLM, [(split.X, split.y) for split in splits], [{"alpha": splits[0].lam}])
    for split, ((x, seconds),) in zip(splits, found, strict=True):
        yield split.linear(x, seconds, gap=split.gap("lasso", x), **OPEN)


def _diffprivlib(rivals: Rivals, splits: Sequence[Split]) -> Iterator[Row]:
    """Rows are brought to length 1, whatever they hold, as SparseClassifier does: its data_norm is then public."""
    tables = [(unit_rows(split.X), split.y) for split in splits]
    found = rivals.fits(DIFFPRIVLIB, tables, [{"epsilon": epsilon} for epsilon in EPSILONS])
    said = {"delta": 0.0, "unit": "one row", "trust": HOLDER, "guarantee": "its authors'"}
    for split, answers in zip(splits, found, strict=True):
        new = unit_rows(split.table.X[split.test])
        for epsilon, (x, seconds) in zip(EPSILONS, answers, strict=True):
            yield split.judged(new @ x, seconds, epsilon=epsilon, stated=epsilon, **said)


def unit_rows(X: Any) -> Floats:
    """Each row over its length."""
    dense = X.toarray()
    lengths = np.sqrt(np.einsum("ij,ij->i", dense, dense))[:, None]
    return np.asarray(dense / np.where(lengths > 0.0, lengths, 1.0) * (1.0 - 1e-12))


# ------------------------------------------------------------------------------------------------ a run of ours


def _fitted(split: Split, problem: co.Problem, method: Any, privacy: co.Privacy | None) -> tuple[co.Fit, float]:
    federation = split.federation
    with tempfile.TemporaryDirectory() as store:  # a budget needs a ledger; this one lasts as long as the run
        began = time.process_time()
        fit = co.fit(federation, problem, method, privacy, store=store if privacy is not None else None)
        return fit, time.process_time() - began


def _side_by_side(split: Split, fit: co.Fit) -> Floats:
    return np.concatenate([fit.coefficients[party] for party in split.table.schemas])


def _sent(fit: co.Fit) -> Row:
    """Codec bytes on all edges, and how many exchanges there were, the opening one included."""
    return {"bytes": fit.communication.bytes, "rounds": len({line[3] for line in fit.communication.lines})}


def _stated(epsilon: float, statement: PrivacyStatement) -> Row:
    return {
        "epsilon": epsilon,
        "stated": statement.epsilon,
        "delta": statement.delta,
        "unit": statement.unit,
        "trust": statement.trust,
        "guarantee": statement.guarantee,
    }
