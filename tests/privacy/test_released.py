"""Claims about the type of what may leave: it cannot be made, changed, copied or kept outside a gate by mistake."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest
from scipy import sparse

import colonnade as co
from colonnade.privacy.values import Packed, Private, Released, encode_value, release, released_body
from tests.helpers.contract import gate

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def test_it_cannot_be_made_by_calling_it():
    with pytest.raises(co.LeakError, match=r"only a gate makes a Released"):
        Released(1.0)


@pytest.mark.parametrize("fill", [{}, {"_value": 1.0}, {"_value": 1.0, "_body": b"f" + bytes(8)}], ids=str)
def test_one_forged_with_object_new_does_not_pass(fill):
    forged = object.__new__(Released)
    for name, value in fill.items():
        object.__setattr__(forged, name, value)
    with pytest.raises(co.LeakError, match=r"not made by a gate"):
        released_body(forged)
    with pytest.raises(co.LeakError):
        encode_value(forged)


def test_a_copied_mark_of_the_wrong_kind_does_not_pass():
    forged = object.__new__(Released)
    for name, value in {"_value": 1.0, "_body": b"f" + bytes(8), "_mark": object()}.items():
        object.__setattr__(forged, name, value)
    with pytest.raises(co.LeakError):
        released_body(forged)


def test_a_subclass_is_not_a_released():
    class Mine(Released):
        def __init__(self):
            pass

    with pytest.raises((co.LeakError, co.WireError)):
        encode_value(Mine())


@pytest.mark.parametrize("name", ["value", "_value", "_body", "_mark", "other"])
def test_it_cannot_be_changed(name):
    left = gate().exact(1.0)
    with pytest.raises(co.LeakError, match=r"cannot be changed"):
        setattr(left, name, 2.0)
    with pytest.raises((co.LeakError, TypeError, AttributeError)):
        delattr(left, name)
    assert left.value == 1.0


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_it_cannot_be_copied_or_pickled(way):
    with pytest.raises(co.LeakError, match=r"cannot be pickled or copied"):
        way(gate().exact(np.zeros(2)))


def test_it_cannot_be_written_as_json():
    with pytest.raises(TypeError):
        json.dumps(gate().exact(1.0))


def test_it_is_not_released_twice():
    left = gate().exact(1.0)
    with pytest.raises(co.LeakError, match=r"released already"):
        release(left)


def changed_array(array):
    array[:] = 7.0


def changed_column(column):
    column.data[:] = 7.0
    column.indices[:] = 0


def changed_packed(packed):
    packed.values[:] = 1


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (np.arange(3.0), changed_array),
        (sparse.csc_array(np.array([[0.0], [1.0], [2.0]])), changed_column),
        (Packed(np.arange(3, dtype=np.uint64), 4), changed_packed),
    ],
    ids=["array", "column", "packed"],
)
def test_changing_the_source_after_release_changes_nothing(value, change):
    left = gate().exact(value)
    before = encode_value(left)
    change(value)
    assert before == encode_value(left)
    assert before[1:] == encode_value(left.value)


def test_writing_into_the_released_array_is_refused():
    left = gate().exact(np.arange(3.0))
    with pytest.raises(ValueError, match=r"read-only"):
        left.value[:] = 0.0
    with pytest.raises(ValueError, match=r"WRITEABLE"):
        left.value.flags.writeable = True


@pytest.mark.chance(0, "writing is refused whatever the values are")
def test_writing_into_a_noisy_release_is_refused():
    from colonnade.privacy.events import Charge, Event, Mechanism

    door = gate((Charge(Event(Mechanism.GAUSSIAN, 0.1, 1.0), 1, "noise"),))
    left = door.gaussian(Private(np.arange(3.0), 1.0), rho=0.1)
    with pytest.raises(ValueError, match=r"read-only"):
        left.value[:] = 0.0


def test_equal_bytes_are_equal_and_hash_alike():
    one, two, other = gate().exact(np.zeros(2)), gate().exact(np.zeros(2)), gate().exact(np.ones(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != other
    assert one != 0.0


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.inf, math.nan])
def test_a_private_value_needs_a_finite_sensitivity_above_zero(sensitivity):
    with pytest.raises(co.InvalidInput, match=r"public bounds"):
        Private(np.zeros(2), sensitivity)


@pytest.mark.parametrize("bare", [np.zeros(2), 1.0])
def test_a_noisy_mechanism_takes_nothing_without_a_sensitivity(bare):
    with pytest.raises((AttributeError, TypeError, co.ColonnadeError)):
        gate().gaussian(bare, rho=0.1)
