"""Claims about the walls of every graph method: what crosses them, whatever the schedule."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import colonnade as co
from colonnade.model.job import Job
from colonnade.privacy.values import Released
from colonnade.runtime.program import BY_TYPE
from colonnade.runtime.wire import decode
from tests.helpers.graph_cases import table

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RIDGE = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
PLAIN = co.Problem(co.LeastSquares())
CASES = {
    "ridge": (co.GraphRidge(co.Topology.line(4), rounds=6), RIDGE, "columns"),
    "admm": (co.GraphADMM(co.Topology.line(4), rounds=6), RIDGE, "columns"),
    "total least squares, columns": (co.GraphTLS(co.Topology.line(4)), PLAIN, "columns"),
    "total least squares, rows": (co.GraphTLS(co.Topology.line(3), rounds=6), PLAIN, "rows"),
    "zeroth order, rows": (co.GraphZerothOrder(co.Topology.line(3), rounds=4, steps=2, seed=1), PLAIN, "rows"),
    "zeroth order, columns": (co.GraphZerothOrder(co.Topology.line(4), rounds=4, steps=2, seed=1), RIDGE, "columns"),
}
every_case = pytest.mark.parametrize(("method", "problem", "by"), CASES.values(), ids=CASES)


def federation(by):
    X, y = table(1, 20, 6)
    return co.Federation.split(X, y, parties=3, by=by)


@every_case
def test_only_declared_messages_cross_and_every_field_is_released(method, problem, by):
    tap = co.Tap(co.InProcess())
    co.fit(federation(by), problem, method, engine=tap)
    kinds = {type(decode(letter.body)) for letter in tap.letters}
    assert kinds
    assert kinds <= set(method.REPLIES.values())
    assert all("Released[" in field.declared for kind in method.REPLIES.values() for field in BY_TYPE[kind].fields)
    for letter in tap.letters:
        message = decode(letter.body)
        assert all(type(getattr(message, field.name)) is Released for field in dataclasses.fields(message))


@every_case
def test_every_release_is_announced_and_priced_as_infinite(method, problem, by):
    fed = federation(by)
    plans = method.price(Job(problem, fed.roster()))
    assert set(plans) == set(fed.parties)
    assert all(np.isinf(charge.rho) for plan in plans.values() for charge in plan)


@every_case
def test_repeated_letters_and_other_schedules_change_no_bit(method, problem, by):
    class Backwards(co.InProcess):
        def pick(self, ready):
            return ready.pop()

    fed = federation(by)
    plain = co.fit(fed, problem, method)
    twice = co.Faults(co.InProcess(), lambda letter: (letter, letter))
    for engine in (Backwards(), twice):
        other = co.fit(fed, problem, method, engine=engine)
        for party in plain.coefficients:
            np.testing.assert_array_equal(plain.coefficients[party], other.coefficients[party])
        assert plain.objective == other.objective
