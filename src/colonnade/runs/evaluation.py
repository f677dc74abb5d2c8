"""How good a fit is, on rows that the caller hands over: figures, groups of calibration, the ROC.

A figure of quality is a function of the rows it was computed on, so it is a release about them. The report computes
none on the rows of the fit: those belong to the parties. Whoever gives rows answers for what they are.

Source   standard errors: means by their own spread; the area under the ROC by the placements of DeLong, DeLong and
         Clarke-Pearson (1988); the root of a mean by its slope.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.labels import as_named, called, count_strange, signs_of
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.runs.new_rows import shifted_scores
from colonnade.views.verdict import BASES, Evaluation

if TYPE_CHECKING:
    from colonnade.runs.result import Fit

GROUPS = 10
ROC_POINTS = 200  # as many as a page can show


def evaluate_fit(fit: Fit, evaluation: tuple[Any, Any] | None, basis: str | None) -> Evaluation:
    """The figures of a fit on (federation or frames, labels)."""
    if evaluation is None:
        raise InvalidInput(f"evaluation_is={basis!r} was given without evaluation=(rows, labels).")
    if basis not in BASES:
        raise InvalidInput(
            f"evaluation_is={basis!r}: figures of quality are a release about the rows they are computed on. Say "
            "evaluation_is='public', or 'paid for' where their release is accounted for elsewhere."
        )
    if not (isinstance(evaluation, tuple) and len(evaluation) == 2):
        raise InvalidInput("evaluation= wants a pair: (federation or frames, labels).")
    return evaluation_of(fit, *evaluation, basis)


def evaluation_of(fit: Fit, data: Any, given: Any, basis: str) -> Evaluation:
    """The figures on rows with these labels; what the rows are is up to whoever shows the figures to somebody."""
    scores = fit.scores(data)
    labels = np.asarray(given)
    if scores.ndim != 1 or labels.shape != scores.shape:
        shapes = f"labels of shape {labels.shape} for scores of shape {scores.shape}"
        raise InvalidInput(f"evaluation= brings {shapes}; give one label a row, in the order of the rows.")
    checked = np.asarray(fit.problem.loss.check(_in_numbers(fit, labels)), np.float64)
    evaluate = _of_classes if fit.problem.loss.classifies else _of_values
    return evaluate(fit, data, scores, checked, basis)


def _in_numbers(fit: Fit, labels: NDArray[Any]) -> NDArray[Any]:
    """Labels that are words as −1 and 1, by the names of the fit's classes; numbers that are none of them stay."""
    if fit.classes is None:
        return labels
    positive = fit.classes[1]
    strange = count_strange(labels, fit.classes)
    rest = "negative" not in as_named(fit.classes)  # every other value is of the other class
    if not strange or (rest and (signs_of(labels, positive) > 0.0).any()):
        return signs_of(labels, positive)
    if labels.dtype.kind in "biuf" and np.isin(labels, (-1, 0, 1)).all():
        return labels
    if rest:
        return signs_of(labels, positive)
    known = " nor ".join(repr(name) for name in fit.classes)
    raise InvalidInput(f"{strange:,} of {labels.size:,} labels of evaluation= are neither {known}: leave them out.")


def _of_classes(fit: Fit, data: Any, scores: Floats, labels: Floats, basis: str) -> Evaluation:
    positive = labels > 0.0
    curve = roc_curve(scores, positive)
    right = fit.predict(data) == called(positive, fit.classes)
    ranked = "the chance that a positive row is ranked above a negative one; 0.5 is guessing"
    figures: dict[str, tuple[float, float | None, str]] = {
        "AUC": (area(curve), area_error(scores, positive), ranked),
        "Gini": (*_doubled(curve, scores, positive), "2·AUC − 1; 0 is guessing"),
        "KS": (distance(curve), None, "largest distance between the shares of positive and negative rows found"),
        "accuracy": (*mean_and_error(right), "share of rows whose class is predicted"),
        "base rate": (*mean_and_error(positive), "share of positive rows"),
    }
    groups: tuple[tuple[float, float, int], ...] = ()
    remark = "Scores of this loss are no probabilities, so there is no calibration."
    if fit.link is not None or fit.problem.loss.odds is not None:
        chances = fit.predict_proba(data)
        guessed = f"of the probabilities; guessing the base rate has {_entropy(positive):.4g}"
        figures["log loss"] = (*_log_loss(np.where(positive, chances, 1.0 - chances)), guessed)
        figures["Brier score"] = (*mean_and_error((chances - positive) ** 2), "mean squared error of the probabilities")
        groups = grouped(chances, positive.astype(np.float64))
        remark = ""
    without = {party: area(roc_curve(part, positive)) for party, part in _left_out(fit, data).items()}
    shown = tuple(curve[k] for k in np.unique(np.linspace(0, len(curve) - 1, min(len(curve), ROC_POINTS)).astype(int)))
    return Evaluation(basis, labels.size, "AUC", figures, groups, shown, without, remark)


def _of_values(fit: Fit, data: Any, scores: Floats, labels: Floats, basis: str) -> Evaluation:
    shift = shifted_scores(fit, data) - scores
    link = fit.problem.loss.link
    predicted = np.asarray(link(scores + shift), np.float64)

    def error(values: Floats) -> float:
        return float(np.sqrt(np.mean((values - labels) ** 2)))

    spread = float(np.mean((labels - labels.mean()) ** 2))
    off = predicted - labels
    figures: dict[str, tuple[float, float | None, str]] = {
        "RMSE": (error(predicted), root_error(off**2), "root of the mean squared error, in units of the label"),
        "MAE": (*mean_and_error(np.abs(off)), "mean absolute error"),
    }
    if spread > 0.0:
        explained = "share of the labels' variance that is explained"
        figures["R²"] = (1.0 - error(predicted) ** 2 / spread, None, explained)
    without = {party: error(np.asarray(link(part + shift))) for party, part in _left_out(fit, data).items()}
    return Evaluation(basis, labels.size, "RMSE", figures, grouped(predicted, labels), (), without)


def _left_out(fit: Fit, data: Any) -> dict[str, Floats]:
    """The scores without each party in turn, where parties hold columns and there are several."""
    if fit.by_rows or len(fit.coefficients) < 2:
        return {}
    return {party: fit.scores(data, without=[party]) for party in fit.coefficients}


def roc_curve(scores: Floats, positive: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """(share of negative rows accused, share of positive rows found) at every threshold, from none to all."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0.0, True))  # rows of equal score fall together
    found = np.cumsum(positive[order])[ends] / positive.sum()
    accused = np.cumsum(~positive[order])[ends] / (~positive).sum()
    return [(0.0, 0.0), *zip(accused.tolist(), found.tolist(), strict=True)]


def distance(curve: list[tuple[float, float]]) -> float:
    """Kolmogorov's and Smirnov's: how far the shares of positive and of negative rows found are apart, at most."""
    return max(abs(found - accused) for accused, found in curve)


def _doubled(
    curve: list[tuple[float, float]], scores: Floats, positive: NDArray[np.bool_]
) -> tuple[float, float | None]:
    error = area_error(scores, positive)
    return 2.0 * area(curve) - 1.0, None if error is None else 2.0 * error


def _log_loss(truth: Floats) -> tuple[float, float | None]:
    """From the probability that each row was given for what it is; 0 is infinitely wrong."""
    return mean_and_error(-np.log(truth)) if truth.min() > 0.0 else (math.inf, None)


def _entropy(positive: NDArray[np.bool_]) -> float:
    rate = float(positive.mean())
    return -sum(share * math.log(share) for share in (rate, 1.0 - rate) if share)


def area(curve: list[tuple[float, float]]) -> float:
    """The area under a curve, by trapezoids."""
    x, y = np.array(curve).T
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2.0))


def grouped(predicted: Floats, found: Floats) -> tuple[tuple[float, float, int], ...]:
    """Mean prediction, mean outcome and size of ten groups of equal size, by prediction."""
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(GROUPS, predicted.size))
    return tuple((float(predicted[part].mean()), float(found[part].mean()), int(part.size)) for part in parts)


def area_error(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """The standard error of the area under the ROC, from how each row is placed among those of the other class."""
    found = np.sort(scores[positive])
    others = np.sort(scores[~positive])
    if min(found.size, others.size) < 2:
        return None

    # The share of `among` below a row, of equal ones half.
    def placed(rows: Floats, among: Floats) -> Floats:
        below = np.searchsorted(among, rows, "left")
        upto = np.searchsorted(among, rows, "right")
        return np.asarray((below + upto) / (2.0 * among.size))

    of_found, of_others = placed(found, others), placed(others, found)
    return float(np.sqrt(of_found.var(ddof=1) / found.size + of_others.var(ddof=1) / others.size))


def mean_and_error(values: NDArray[Any]) -> tuple[float, float | None]:
    """The mean over rows, and its standard error where there are two rows or more."""
    rows = np.asarray(values, np.float64)
    return float(rows.mean()), float(rows.std(ddof=1) / math.sqrt(rows.size)) if rows.size > 1 else None


def root_error(squares: Floats) -> float | None:
    """Of the root of the mean."""
    mean, error = mean_and_error(squares)
    return None if error is None or mean == 0.0 else error / (2.0 * math.sqrt(mean))
