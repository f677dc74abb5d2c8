"""Claims about curves in schemas: what a number becomes, what that proves, and that it can be decided later."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.kernels import curves


def frame(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(10, 100, rows)  # some are outside the bounds
    age[::7] = np.nan
    return pl.DataFrame({"age": age, "ward": rng.choice(["a", "b"], rows), "dose": rng.uniform(0, 1, rows)})


def schema(**curve):
    age = co.Numeric("age", 18, 90, missing="indicator", **curve)
    return co.Schema((age, co.Categorical("ward", ("a", "b")), co.Numeric("dose", 0, 1, smooth=False)))


def dense(encoded):
    return dense_matrix(encoded.matrix)


def dense_matrix(matrix):
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)


def test_a_curve_is_the_line_its_hats_and_then_its_indicator():
    made = schema(smooth=2)
    assert made.features == ("age", "age~1", "age~2", "age~3", "age=missing", "ward=a", "ward=b", "dose")
    assert made.level == (0, 1, 2, 2, 0, 0, 0, 0)
    found, line = dense(made.encode(frame())), dense(schema(smooth=False).encode(frame()))
    gaps = np.isnan(frame()["age"].to_numpy())
    t = 2 * (np.clip(frame()["age"].to_numpy(), 18, 90) - 18) / 72 - 1
    assert found[:, [0, 4, 5, 6, 7]] == pytest.approx(line)
    assert found[~gaps, 1:4] == pytest.approx(curves.hats(t[~gaps], 2))
    assert not found[gaps, :4].any()
    assert (found[gaps, 4] == 1).all()
    around = co.Schema((co.Numeric("age", -90, 90, missing="indicator", smooth=2),))  # 0 is in the middle of the hats
    assert dense(around.encode(frame()))[gaps].tolist() == [[0, 0, 0, 0, 1]] * int(gaps.sum())


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
def test_the_row_bound_that_a_schema_proves_does_not_grow_with_curves(depth):
    assert schema(smooth=depth).row_bound() == schema().row_bound() == pytest.approx(3**0.5)
    rows = dense(schema(smooth=depth).encode(frame()))
    assert np.linalg.norm(rows, axis=1).max() <= 3**0.5 + 1e-12
    assert (np.abs(rows) <= schema(smooth=depth).entry_bounds()).all()


@given(st.integers(1, 8), st.booleans(), st.integers(0, 5))
def test_rows_that_were_encoded_can_be_bent_later(depth, sparse, seed):
    """As if the schema had said so at first, whether the matrix is compressed or not."""
    left = schema()
    encoded = left.encode(frame(seed=seed)).matrix
    if sparse:
        from scipy.sparse import csc_array

        encoded = csc_array(encoded)
    found = left.bend(encoded, depth)
    found = found.toarray() if hasattr(found, "toarray") else found
    assert np.array_equal(found, dense(left.with_curve_depth(depth).encode(frame(seed=seed))))
    assert left.with_curve_depth(depth) == schema(smooth=depth)


AT = (30.0, 32.0, 33.5, 40.0, 41.0, 60.0, 89.0)  # seven quantiles


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize("missing", ["indicator", 50.0])
def test_knots_of_a_curve_lie_at_the_quantiles_that_are_known(depth, missing):
    """Between knots it is linear in the number's own unit; rows that were encoded as lines can be bent later."""
    line = co.Schema((co.Numeric("age", 18, 90, missing=missing, quantiles=AT),))
    bent = line.with_curve_depth(depth)
    known = min(depth, 3)
    knots = [18.0, *AT, 90.0][:: 8 >> known]
    assert bent.columns[0].knots().tolist() == knots
    assert line.columns[0].deepest == 3
    found = dense(bent.encode(frame()))
    assert dense_matrix(line.bend(line.encode(frame()).matrix, depth)) == pytest.approx(found, abs=1e-12)
    ages = frame()["age"].to_numpy()
    gaps = np.isnan(ages)
    t = np.interp(np.clip(np.where(gaps, 50.0, ages), 18, 90), knots, np.linspace(-1, 1, len(knots)))
    there = ~gaps if missing == "indicator" else np.ones(gaps.size, bool)
    assert found[there, 0] == pytest.approx(t[there])
    assert found[there, 1 : 1 << known] == pytest.approx(curves.hats(t[there], known))
    if missing == "indicator":
        assert not found[gaps, : 1 << known].any()
        assert (found[gaps, -1] == 1).all()
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-12
    assert bent.row_bound() == line.row_bound() == 1.0


def test_a_line_does_not_bend_at_quantiles():
    plain, known = co.Numeric("age", 18, 90, missing=50.0), co.Numeric("age", 18, 90, missing=50.0, quantiles=AT)
    assert dense(co.Schema((plain,)).encode(frame())).tolist() == dense(co.Schema((known,)).encode(frame())).tolist()
    assert known.knots().tolist() == [18.0, 90.0]


def test_what_was_decided_stays_when_a_method_bends():
    asked = co.Schema((co.Numeric("a", 0, 1, smooth=False), co.Numeric("b", 0, 1, smooth=1), co.Binary("c")))
    assert asked.with_curve_depth(3) is asked
    assert asked.auto_curve_counts == ()
    sparse = co.Numeric("n", 0, 9, scale=False)
    assert co.Schema((sparse,)).auto_curve_counts == ()


@pytest.mark.parametrize(("values", "deepest"), [(2, 0), (3, 1), (4, 2), (5, 2), (6, 3), (9, 3), (10, 4), (10_000, 8)])
def test_no_curve_has_more_bends_than_its_values_can_show(values, deepest):
    column = co.Numeric("rooms", 1, 9, values=values)
    assert column.with_curve_depth(8).depth == deepest
    assert co.Numeric("rooms", 1, 9, values=values, smooth=True).depth == min(3, deepest)
    assert len(co.Schema((column,)).auto_curve_counts) == deepest


def test_a_file_keeps_curves_and_says_nothing_where_nothing_is_said():
    made = schema(smooth=3, values=40, monotone=-1)
    assert co.Schema.from_text(made.to_text()) == made
    assert schema(smooth=np.int64(3), values=np.int64(40), monotone=np.int64(-1)).to_text() == made.to_text()
    assert "smooth = 3\nvalues = 40\nmonotone = -1\n" in made.to_text()
    plain = schema()
    assert "smooth" not in plain.to_text().split("dose")[0]
    assert co.Schema.from_text(plain.to_text()).digest() == plain.digest() != made.digest()


@pytest.mark.parametrize(
    ("curve", "says"),
    [
        ({"smooth": 9}, "smooth is 9. Write true, false or a depth from 1 to 8"),
        ({"smooth": "yes"}, "smooth is 'yes'"),
        ({"smooth": True, "scale": False}, "a curve needs a number that is scaled"),
        ({"values": 1}, "values is 1. Write how many"),
        ({"monotone": 0}, "monotone is 0. Write 1 where it never falls"),
        ({"monotone": 1.0}, "monotone is 1.0. Write 1 where it never falls"),
    ],
)
def test_mistakes_are_said(curve, says):
    with pytest.raises(InvalidInput, match=says):
        co.Numeric("age", 18, 90, **curve)


def test_columns_that_are_bent_already_keep_their_places_when_others_follow():
    rng = np.random.default_rng(2)
    columns = (co.Numeric("x", 0, 1, smooth=2), co.Numeric("z", 0, 1, missing="indicator"), co.Binary("f"))
    table = pl.DataFrame(
        {"key": range(30), "x": rng.random(30), "z": rng.random(30), "f": [0, 1] * 15, "y": [0, 1] * 15}
    )
    fed = co.Federation.from_frames(
        {"a": table}, "key", ("a", "y"), schemas={"a": co.Schema(columns)}
    ).with_curve_depth(1)
    assert list(fed.parties["a"].features) == ["x", "x~1", "x~2", "x~3", "z", "z~1", "z=missing", "f"]
    assert fed.roster().positions["a"] == tuple(range(8))
    assert np.array_equal(fed.parties["a"].block.matrix, co.Schema(columns).with_curve_depth(1).encode(table).matrix)
    assert fed.column_groups() == ((0, 1, 2, 3), (4, 5, 6), (7,))


def test_a_federation_bends_all_tables_alike_and_moves_what_comes_after():
    rng = np.random.default_rng(1)
    key = np.arange(50)
    frames = {
        "a": pl.DataFrame({"key": key, "x": rng.random(50), "z": rng.random(50)}),
        "b": pl.DataFrame({"key": key, "w": rng.random(50), "y": rng.integers(0, 2, 50)}),
    }
    schemas = {
        "a": co.Schema((co.Numeric("x", 0, 1), co.Numeric("z", 0, 1, smooth=False))),
        "b": co.Schema((co.Numeric("w", 0, 1),)),
    }
    fed = co.Federation.from_frames(frames, "key", ("b", "y"), schemas=schemas)
    assert fed.roster().auto_curve_counts == (2,) * 8
    bent = fed.with_curve_depth(1)
    assert bent.roster().positions == {"a": (0, 1, 2), "b": (3, 4)}
    assert (bent.roster().auto_curve_counts, bent.roster().depth) == ((), 1)
    assert list(bent.parties["b"].features) == ["w", "w~1"]
    again = co.Federation.from_frames(
        frames, "key", ("b", "y"), schemas={name: s.with_curve_depth(1) for name, s in schemas.items()}
    )
    for name in frames:
        assert np.array_equal(bent.parties[name].block.matrix, again.parties[name].block.matrix)
    assert {name: known.norm for name, known in bent.roster().known.items()} == {"a": 2**0.5, "b": 1.0}
