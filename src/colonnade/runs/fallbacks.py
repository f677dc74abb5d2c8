"""Fallback models of a standing order, and how a party knows that they are what they are said to be.

A fallback is the fit's problem solved again without some parties, from the fit's own release (refit.py): a function of
the release, the problem and the public schemas, and of nothing else. A digest of these, the *basis*, is told to every
party while the run is still open there, by the coordinator, whose word a party's own coefficients are, too. Whoever
writes an order later gives the fit along; a party that approves it compares the basis with the one that it kept, solves
every fallback itself, and refuses coefficients that are others. So a fallback is an equation that followed from what
was learned, and none that somebody chose to read a column by.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.network.party_data import basis_path
from colonnade.network.score_order import Fallback, Order
from colonnade.runs.fit_file import to_plain
from colonnade.runs.result import Fit

SAME = 1e-9  # of the largest coefficient: what two machines may make of the same sums
_BASIS = ("run", "label", "problem", "features", "schemas", "release")  # all that a refit reads


def basis(fit: Fit) -> str:
    """A digest of all that its fallbacks follow from; of a fit and of its saved file it is the same."""
    raw = to_plain(fit)
    return hashlib.sha256(json.dumps([raw[name] for name in _BASIS], sort_keys=True).encode()).hexdigest()


def fallback(fit: Fit, absent: Sequence[str]) -> Fallback:
    """The model of the columns of all other parties."""
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
