"""Both sides of a release of Private Gram with trust "parties": as secure_release.py, products by lwe_products.py.

Party    its own sums and its answers leave in one call of the gate, what it opened of others' answers in a second one,
         of the same mechanism: other entries, the same noise, paid for with the first.
Coordinator   asks for everybody's parts, and reads products off what senders opened. It multiplies nothing.
Fits     what class sums advise may not fit under encryption (rows that are shorter or longer than they were). Rows as
         they are are known before a run: where they do not fit, nothing is sent and nothing is paid for; where only the
         advice does not, rows stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.methods.gram.design import HALF, OWN, Figures, noise_sd, own_count, sums_weights
from colonnade.methods.gram.lwe_design import Exchange, Mechanism, Side, check_failure, fitting, settle
from colonnade.methods.gram.lwe_products import Line, Products, Star
from colonnade.methods.gram.messages import Parts, SendParts
from colonnade.methods.gram.rule import whole_frame
from colonnade.methods.gram.secure_design import Design, Layout
from colonnade.methods.gram.secure_release import Collected, OwnMatrix, Prepared, SumsOfRows, gram_matrix
from colonnade.privacy.events import Scope
from colonnade.privacy.values import Packed, Private
from colonnade.runtime.program import COORDINATOR, Program, ask, receive


def exchange_of(design: Design, figures: Figures, layout: Layout) -> Exchange:
    """How the products of a stage are computed: from public figures and what left before; or an error."""
    return settle(*_known(design, figures, layout))


def fits(design: Design, figures: Figures, layout: Layout) -> bool:
    """Whether a stage's products can be computed under encryption at all."""
    return fitting(*_known(design, figures, layout)) is not None


def check_encrypted(design: Design) -> None:
    """Refuse a run of which a release does not fit under encryption, before any of them is paid for."""
    privacy = design.job.privacy
    assert privacy is not None
    check_failure(privacy.epsilon, privacy.delta, len(design.stages))
    if design.sums is not None:
        exchange_of(design, design.sums, Layout(design.job, design.sums, whole_frame(design.columns)))
    planned = design.plan_as_they_are()
    exchange_of(design, planned.figures, Layout(design.job, planned.figures, planned.frame))


def fits_encrypted(design: Design) -> bool:
    """Whether `check_encrypted` lets a run begin."""
    try:
        check_encrypted(design)
    except InvalidInput:
        return False
    return True


def _known(
    design: Design, figures: Figures, layout: Layout
) -> tuple[dict[str, Side], tuple[tuple[str, str], ...], Mechanism]:
    sides = _sums_sides(design, figures) if figures.name == "sums" else _joint_sides(design, figures, layout)
    sigma = noise_sd(design.sensitivity(figures), design.rho(figures.name), 1.0)
    weight = 1.0 if figures.name == "sums" else HALF
    sensitivity = design.bare_sensitivity(figures) / design.job.roster.unit.rows
    mechanism = Mechanism(figures.rows, sigma, weight, sensitivity, design.secrets)
    return sides, figures.pairs(design.job), mechanism


def _joint_sides(design: Design, figures: Figures, layout: Layout) -> dict[str, Side]:
    found = {}
    for party in design.job.roster.parties:
        here = layout.mine(party)
        norm2 = figures.norm2[party] + (figures.label**2 if party == design.job.roster.label else 0)
        units = layout.units[here].astype(float)
        found[party] = Side(layout.entries[here], units, layout.nonnegative[here], float(norm2))
    return found


def _sums_sides(design: Design, figures: Figures) -> dict[str, Side]:
    found, columns = {}, design.columns
    for k, party in enumerate(design.job.roster.parties):
        here = columns.owner == k
        if party == design.job.roster.label:  # its weights of either class
            top = np.full(figures.widths[party], float(figures.label))
            found[party] = Side(top, np.ones(top.size), np.ones(top.size, bool), float(figures.label**2))
            continue
        most = np.minimum(columns.bound[here] / figures.step + 1.0, math.isqrt(figures.norm2[party]))
        found[party] = Side(most, np.ones(most.size), columns.nonnegative[here], float(figures.norm2[party]))
    return found


# ------------------------------------------------------------------------------------------------ a party


def release_gram(design: Design, prepared: Prepared, matrix: OwnMatrix) -> Program[Parts]:
    """To the coordinator: what `gram_parts` has."""
    exchange = exchange_of(design, prepared.figures, prepared.layout)
    parts = yield from gram_parts(design, prepared, matrix, exchange, Star(exchange, matrix.gate))
    yield from receive(COORDINATOR, SendParts)
    return Parts(parts)


def release_sums(design: Design, prepared: Prepared, sums: SumsOfRows) -> Program[Parts]:
    """To the coordinator: what `sums_parts` has."""
    exchange = exchange_of(design, prepared.figures, prepared.layout)
    parts = yield from sums_parts(design, prepared, sums, exchange, Star(exchange, sums.gate))
    yield from receive(COORDINATOR, SendParts)
    return Parts(parts)


def gram_parts(
    design: Design, prepared: Prepared, matrix: OwnMatrix, exchange: Exchange, line: Line
) -> Program[tuple[Any, ...]]:
    """The Gram matrix of its own rows, and its part of the products with everybody else's: one mechanism."""
    gate, layout, width = matrix.gate, prepared.layout, matrix.width
    products = Products(exchange, gate, line, prepared.digest, matrix.bound)
    yield from products.pass_rows(matrix.add_up)
    diagonal, triangle, column_sums = layout.weights(gate.node)
    sent = matrix.squares_sent
    values = (np.diag(matrix.products)[:sent], matrix.products[np.triu_indices(width, 1)], matrix.sums)
    weights = (diagonal[:sent], triangle, column_sums)
    return (yield from _let_out(design, prepared, products, values, weights))


def sums_parts(
    design: Design, prepared: Prepared, sums: SumsOfRows, exchange: Exchange, line: Line
) -> Program[tuple[Any, ...]]:
    """Squares and class sums of its own, and its part of the class sums that it computes with the label holder."""
    products = Products(exchange, sums.gate, line, prepared.digest, sums.bound)
    yield from products.pass_rows(sums.read)
    own = sums.own()
    weights = sums_weights(prepared.figures, len(own))
    return (yield from _let_out(design, prepared, products, own, weights))


def _let_out(
    design: Design, prepared: Prepared, products: Products, own: tuple[Integers, ...], weights: tuple[Any, ...]
) -> Program[tuple[Any, ...]]:
    """Its own sums and its answers to senders, then what it opened of its receivers' answers: all with noise."""
    gate, exchange, me = products.gate, products.exchange, products.me
    sensitivity, ring = design.sensitivity(prepared.figures), exchange.lattice.ring.mask
    senders = exchange.senders(me)
    released = gate.integers(
        Private((*own, *(products.answers[sender] for sender in senders)), sensitivity),
        (*weights, *(exchange.weights((sender, me)) for sender in senders)),
        (*(OWN.mask for _ in own), *(ring for _ in senders)),
        rho=design.rho(prepared.figures.name),
        scope=Scope.JOINT,
        more=True,
    )
    opened = yield from products.answer(dict(zip(senders, released[len(own) :], strict=True)))
    rest: tuple[Any, ...] = ()
    if opened:
        routes = [(me, receiver) for receiver in exchange.receivers(me)]
        noise = tuple(exchange.weights(route) for route in routes)
        rest = gate.the_rest(Private(tuple(opened), sensitivity), noise, tuple(ring for _ in routes))
    return (*released[: len(own)], *rest)


# ------------------------------------------------------------------------------------------------ the coordinator


@dataclass(frozen=True)
class Lifted:
    """Products that are numbers already."""

    bits: Integers

    def lift(self, product: Floats, rows: Integers, columns: Integers) -> Floats:  # noqa: ARG002  as Rings does
        return product


def own_counts(design: Design, figures: Figures) -> dict[str, int]:
    """By party: how many of its parts it computes alone; in joint the squared lengths are one more."""
    more = 1 if figures.name == "joint" else 0
    return {name: own_count(design.job, figures, name) + more for name in design.job.roster.parties}


def read_parts(
    design: Design, prepared: Prepared, exchange: Exchange, came: Mapping[str, Sequence[Packed]]
) -> Collected:
    """Everybody's parts; products in units, each pair's first party first."""
    parties, counts = design.job.roster.parties, own_counts(design, prepared.figures)
    own, cross = {}, {}
    for party in parties:
        parts = [part.values for part in came[party]]
        routes = [(party, receiver) for receiver in exchange.receivers(party)]
        if len(parts) != counts[party] + len(routes):
            raise ProtocolError(f"{party!r} sent {len(parts)} parts where {counts[party] + len(routes)} were due")
        own[party] = tuple(parts[: counts[party]])
        for route, part in zip(routes, parts[counts[party] :], strict=True):
            if part.shape != tuple(exchange.sides[end].width for end in route):
                raise ProtocolError(f"{party!r} sent products of shape {part.shape} with {route[1]!r}")
            lifted = exchange.lift(route, part)
            cross[route if route in exchange.pairs else route[::-1]] = lifted if route in exchange.pairs else lifted.T
    return Collected(own, {pair: cross[pair] for pair in exchange.pairs})


def _collect(design: Design, prepared: Prepared) -> Program[Collected]:
    came = yield from ask(design.job.roster.parties, SendParts(()), Parts)
    exchange = exchange_of(design, prepared.figures, prepared.layout)
    parts = {name: [part.value for part in one.parts] for name, one in came.items()}
    return read_parts(design, prepared, exchange, parts)


def collect_sums(design: Design, prepared: Prepared) -> Program[Collected]:
    """Class sums."""
    return (yield from _collect(design, prepared))


def collect_gram(design: Design, prepared: Prepared) -> Program[Floats]:
    """The noisy Gram matrix of [a, c·1, τ·y] in steps²."""
    return read_gram(design, prepared, (yield from _collect(design, prepared)))


def read_gram(design: Design, prepared: Prepared, got: Collected) -> Floats:
    """The same, from what came."""
    job, layout = design.job, prepared.layout
    fixed = job.problem.loss.classifies
    diagonal, rest = np.zeros(layout.owner.size), {}
    for name, (squares, *others) in got.own.items():
        here = layout.mine(name)
        if squares.size != here.size - (fixed and name == job.roster.label):
            raise ProtocolError(f"{name!r} sent {squares.size} squared lengths for {here.size} columns")
        diagonal[here[: squares.size]] = OWN.signed(squares)
        rest[name] = tuple(others)
    return gram_matrix(layout, Lifted(np.zeros(0, int)), diagonal, Collected(rest, got.cross))
