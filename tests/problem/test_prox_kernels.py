"""The kernels where a caller's usual range would not show a fault: far points, tiny entries, zero groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.kernels.prox import (
    group_norms,
    group_soft_threshold,
    project_group_l1,
    project_l1,
    project_simplex,
    soft_threshold,
)

EPS = np.finfo(np.float64).eps
entries = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12).map(np.array)


@given(v=entries, lam=st.floats(0, 1e3))
def test_soft_thresholding_moves_every_entry_towards_zero_by_lam_or_to_zero(v, lam):
    expected = [np.sign(x) * max(abs(x) - lam, 0.0) for x in v]
    assert expected == soft_threshold(v, lam).tolist()


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_group_norms_neither_overflow_nor_vanish(scale):
    v, group = scale * np.array([3.0, 1.0, 4.0, 0.0]), np.array([0, 1, 0, 2])
    assert group_norms(v, group, 3) == pytest.approx(scale * np.array([5.0, 1.0, 0.0]), rel=4 * EPS)


def test_a_group_of_zeros_stays_zero_without_a_warning():
    v, group = np.array([0.0, 0.0, 3.0, 4.0]), np.array([0, 0, 1, 1])
    assert group_soft_threshold(v, group, np.array([1.0, 1.0])) == pytest.approx([0, 0, 2.4, 3.2])
    assert project_group_l1(v, group, 2, 1.0) == pytest.approx([0, 0, 0.6, 0.8])


@settings(deadline=None)
@given(v=entries, radius=st.floats(1e-3, 1e3), offset=st.sampled_from([0.0, 1e9, -1e9]))
def test_a_far_point_is_projected_as_well_as_a_near_one(v, radius, offset):
    """Adding a constant to every entry does not change the nearest point of the simplex."""
    far = v + offset
    near = far - offset  # what is left of v once it was stored beside the offset
    p = project_simplex(far, radius)
    assert np.all(p >= 0.0)
    assert float(np.sum(p)) == pytest.approx(radius, rel=1e-12)
    # rounding in the running sums: up to size·(spread + radius) each time
    room = 8 * v.size * EPS * (np.ptp(near) + radius)
    assert p == pytest.approx(project_simplex(near, radius), rel=0, abs=room)


def test_a_point_inside_is_returned_as_a_copy():
    v = np.array([0.25, -0.5])
    inside = project_l1(v, 1.0)
    inside[0] = 9.0
    assert v.tolist() == [0.25, -0.5]
