"""A model without some parties, from the release that a fit was made of: it costs nothing and nobody is asked.

The released Gram matrix of fewer columns is a part of the one that there is, noise and all. Solved as the fit was, it
gives the model of the columns that are left: not what remains of the fit when a part of every score is missing, but
what these columns say where the others are not there. Its noise is that of the whole release, so a run of its own
without the party would be less noisy, and would be paid for.

Fallback models of a standing order are such models, and a party knows that they are what they are said to be: each is
the fit's problem solved again without some parties, from the fit's own release, a function of the release, the problem
and the public schemas, and of nothing else. A digest of these, the *basis*, is told to every party while the run is
still open there, by the coordinator, whose word a party's own coefficients are, too. Whoever writes an order later
gives the fit along; a party that approves it compares the basis with the one that it kept, solves every fallback
itself, and refuses coefficients that are others. So a fallback is an equation that followed from what was learned, and
none that somebody chose to read a column by.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.methods.gram.answer import COVER, DRAWN, Curves, GramSolution, chosen_weight, doubts
from colonnade.methods.gram.rule import Gram, RowFrame, RuleName, as_they_are
from colonnade.methods.gram.solve import solve
from colonnade.model.facts import CoefficientPath, Coefficients
from colonnade.model.job import Sums, Swamped
from colonnade.problem import GroupL1Ball, GroupLasso, Problem
from colonnade.runs.fit_file import to_plain
from colonnade.runs.release import Release

if TYPE_CHECKING:
    from colonnade.network.score_order import Fallback, Order
    from colonnade.runs.result import Fit

CHOSEN = " was chosen for the error"  # of a penalty: as chosen_weight has it


def refit(fit: Fit, without: Sequence[str]) -> Fit:
    """The fit's problem on the columns of all other parties."""
    left = fit.parties_left(without)
    release = fit.release
    widths = {party: len(names) for party, names in fit.features.items()}
    part = _of_parties(release, left)
    solved = _solve(fit, part, left, of_columns(fit.problem, places_of(widths, left)))
    ends = np.cumsum([widths[party] for party in left])[:-1]

    def by_party(values: Floats) -> dict[str, Floats]:
        return dict(zip(left, np.split(values, ends, axis=-1), strict=True))

    remarks = [one for one in fit.remarks if not one.startswith((Swamped.WORDS, COVER))]
    remarks = [one for one in remarks if CHOSEN not in one and DRAWN not in one]
    remarks += [chosen_weight(solved)] if part.solving is not None and part.solving.select else []
    told = fit.spread is not None and solved.uncovered is None
    if fit.spread is not None:  # else the fit says why there are none
        remarks.append(COVER if told else f"no standard errors: {solved.uncovered}")
    remarks = [*doubts(solved), *remarks]
    names = ", ".join(without)
    again = f"solved again without {names}, from the release of run {fit.run}: nothing more was released or paid"
    numbers = not fit.problem.loss.classifies
    return replace(
        fit,
        coefficients=Coefficients(by_party(solved.coefficients), (), {party: fit.features[party] for party in left}),
        intercept=solved.intercept + (release.label.middle if numbers else 0.0),
        problem=of_columns(fit.problem, places_of(widths, left)),
        features={party: fit.features[party] for party in left},
        schemas={party: fit.schemas.get(party) for party in left},
        spread=by_party(solved.errors) if told else None,
        path=None if solved.path is None else CoefficientPath(solved.path.weights, by_party(solved.path.coefficients)),
        link=solved.link,
        remarks=(*remarks, *([again] if names else [])),
        released=part,
    )


def places_of(widths: dict[str, int], left: Sequence[str]) -> Indices:
    """Of the parties that are left, the places of their columns among all."""
    starts = dict(zip(widths, np.cumsum([0, *widths.values()]).tolist(), strict=False))
    return np.concatenate([np.arange(starts[party], starts[party] + widths[party]) for party in left])


def _of_parties(release: Release, left: Sequence[str]) -> Release:
    """The release of these parties' columns alone, in the order that they had."""
    at = np.array([k for k, column in enumerate(release.columns) if column.party in left], np.int64)
    if at.size == 0:
        raise InvalidInput("the release has no column of a party that is left, so there is nothing to solve.")
    both = np.append(at, [len(release.columns), len(release.columns) + 1])
    return replace(
        release,
        matrix=release.matrix[np.ix_(both, both)],
        noise=release.noise[np.ix_(both, both)],
        columns=tuple(release.columns[k] for k in at.tolist()),
        centre=release.centre[at],
        scale=release.scale[at],
        norms={party: norm for party, norm in release.norms.items() if party in left},
        sums=None if release.sums is None else release.sums.of(at),
        solving=None if release.solving is None else release.solving.of(at),
    )


def _solve(fit: Fit, part: Release, left: Sequence[str], problem: Problem) -> GramSolution:
    names = [(party, str(name)) for party in left for name in fit.features[party]]
    place = {name: k for k, name in enumerate(names)}
    keep = np.array([place[column.party, column.name] for column in part.columns], np.int64)
    if (solving := part.solving) is None:
        raise InvalidInput("this release does not say what it was solved with, so no part of it can be solved again.")
    name = RuleName(part.rule)
    rule = replace(as_they_are(keep.size, 1.0), name=name, ridge=solving.ridge)  # all that solving reads of a rule
    frame = RowFrame(keep, part.centre, part.scale, np.array(list(part.norms.values())), solving.doubt)
    return solve(
        Gram(part.matrix, part.noise),
        frame,
        rule,
        problem,
        rows=part.rows,
        columns=len(names),
        label_bound=part.reach,
        sums=None if solving.sums is None else _spread_out(solving.sums, keep, len(names)),
        curves=_curves(fit, left, solving.choose),
        select=solving.select,
    )


def _spread_out(sums: Sums, keep: Indices, columns: int) -> Sums:
    """Sums of all columns, 0 for those that were not kept: solving reads the others alone."""
    arrays = {name: value for name, value in vars(sums).items() if isinstance(value, np.ndarray)}
    wide: dict[str, Any] = {name: np.zeros(columns) for name in arrays}
    for name, value in arrays.items():
        wide[name][keep] = value
    return replace(sums, **wide)


def _curves(fit: Fit, left: Sequence[str], choose: bool) -> Curves:
    """What the schemas say of hats, directions, and zeros and ones."""
    level = list[int]()
    monotone = list[int]()
    flags = list[bool]()
    for party in left:
        schema = fit.schemas.get(party)
        width = len(fit.features[party])
        level += [0] * width if schema is None else list(schema.level)
        monotone += [0] * width if schema is None else list(schema.monotone)
        flags += [False] * width if schema is None else list(schema.binary)
    return Curves(np.array(level, np.int64), np.array(monotone, np.int64), choose, np.array(flags, bool))


def of_columns(problem: Problem, places: Indices) -> Problem:
    """The problem of some columns: groups name those that are left, by their new places."""
    place = {old: new for new, old in enumerate(places.tolist())}

    def fewer(groups: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        kept = (tuple(place[column] for column in group if column in place) for group in groups)
        return tuple(group for group in kept if group)

    if isinstance(problem.penalty, GroupLasso):
        return replace(problem, penalty=replace(problem.penalty, groups=fewer(problem.penalty.named)))
    if isinstance(problem.constraint, GroupL1Ball):
        return replace(problem, constraint=replace(problem.constraint, groups=fewer(problem.constraint.groups)))
    return problem


SAME = 1e-9  # of the largest coefficient: what two machines may make of the same sums
_BASIS = ("run", "label", "problem", "features", "schemas", "release")  # all that a refit reads


def basis(fit: Fit) -> str:
    """A digest of all that its fallbacks follow from; of a fit and of its saved file it is the same."""
    raw = to_plain(fit)
    return hashlib.sha256(json.dumps([raw[name] for name in _BASIS], sort_keys=True).encode()).hexdigest()


def fallback(fit: Fit, absent: Sequence[str]) -> Fallback:
    """The model of the columns of all other parties."""
    from colonnade.network.score_order import Fallback

    less = fit.without(*absent)
    left = {name: tuple(less.coefficients[name].tolist()) for name in less.features}
    return Fallback(tuple(absent), float(less.intercept), left, link_of(less))


def link_of(fit: Fit) -> tuple[float, ...]:
    """From scores to probabilities, where the fit knows any."""
    link = fit.link or fit.problem.loss.odds
    return tuple(map(float, link)) if link is not None and says_classes(fit) else ()


def says_classes(fit: Fit) -> bool:
    """Whether a score alone says a class: with an offset of each row it does not."""
    return fit.problem.loss.classifies and "offset" not in fit.beside


def check_fallbacks(order: Order, fit: Fit, models: Path, party: str) -> None:
    """Refuse an order whose fallbacks do not follow from what this party was told when the model was learned."""
    from colonnade.network.party_data import basis_path

    if fit.run != order.model:
        raise InvalidInput(f"the fit is of run {fit.run}, and the order's model of {order.model}. Give that fit.")
    path = basis_path(models, order.model)
    if not path.is_file():
        raise InvalidInput(
            f"{party!r} was not told what fallbacks of run {order.model} follow from, so it takes none: its "
            "coordinator could not say so before the run ended. Nothing was approved. Make an order without "
            "fallbacks, or learn again."
        )
    if fit.released is None or path.read_text(encoding="ascii") != basis(fit):
        raise InvalidInput(
            f"the fit is not what {party!r} was told when run {order.model} was learned: its release, problem or "
            "schemas were changed. Nothing was approved."
        )
    for given in order.fallbacks:
        own = fallback(fit, given.without)
        if not _same(own, given):
            raise InvalidInput(
                f"the fallback without {', '.join(given.without)} is not what follows from the release of run "
                f"{order.model}. Nothing was approved. Ask who wrote the order; `colonnade score order` solves it anew."
            )


def _same(own: Fallback, given: Fallback) -> bool:
    if own.coefficients.keys() != given.coefficients.keys() or len(own.link) != len(given.link):
        return False
    figures = [
        np.array([*one.link, one.intercept, *(x for name in own.coefficients for x in one.coefficients[name])])
        for one in (own, given)
    ]
    near = figures[0].shape == figures[1].shape
    return near and bool(np.abs(figures[0] - figures[1]).max() <= SAME * max(1.0, np.abs(figures[0]).max()))
