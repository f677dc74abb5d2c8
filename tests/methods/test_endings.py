"""Claims about why runs stopped: only a private run may say that stopping on the data would be a release."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

import colonnade as co
from colonnade.methods.node_setup import known_methods
from tests.helpers.contract import EVERY_METHOD, fitted

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

EXACT = {name: case for name, case in EVERY_METHOD.items() if case.privacy is None}
PRIVATE = {name: case for name, case in EVERY_METHOD.items() if case.privacy is not None}
FIELDS = {name: {one.name for one in fields(case.method)} for name, case in EXACT.items()}


def test_the_cases_below_are_all_methods():
    known = set(known_methods().values())
    assert known == {type(case.method) for case in EVERY_METHOD.values()}
    assert {kind for kind in known if kind.DERIVATION is None} == {type(case.method) for case in EXACT.values()}


@pytest.mark.thinned("fault")
@pytest.mark.parametrize("tolerance", [0.0, 1e-12, 1e6])
@pytest.mark.parametrize("name", EXACT)
def test_an_exact_run_never_says_that_stopping_would_be_a_release(name, tolerance):
    case = EXACT[name]
    if "tolerance" in FIELDS[name]:
        case = replace(case, method=replace(case.method, tolerance=tolerance))
    fit = fitted(case)
    assert fit.status is not co.Status.FIXED_ROUNDS
    assert "release" not in fit.status.value
    assert not [remark for remark in fit.remarks if "would be a release" in remark]


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_run_never_stops_on_the_data(name):
    assert fitted(PRIVATE[name]).status in (co.Status.FIXED_ROUNDS, co.Status.ONE_EXCHANGE)
