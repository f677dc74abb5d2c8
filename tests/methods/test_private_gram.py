"""Private Gram: the right sums, at the right price, and nothing else."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from colonnade.errors import ProtocolError
from colonnade.methods.gram import local as local_gram
from colonnade.methods.gram.local import Local
from colonnade.methods.gram.plan import RunPlan
from colonnade.methods.gram.private_gram import form_of
from colonnade.methods.gram.products import Prepare, check_prepare
from colonnade.methods.gram.rows import Grid, IntegerRows, class_weights, label_steps
from colonnade.model.job import Job, norms, uncut
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import LARGEST, ROW, Block, Unit
from colonnade.privacy.conditions import Kind, of_kind
from colonnade.privacy.events import row_rho
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from tests.helpers.gram_runs import plain_gram, silent_run

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
SPLITS = {
    "one": ({"a": slice(None)}, "a"),
    "two": ({"a": [0, 1, 2], "b": [3, 4, 5]}, "b"),
    "apart": ({"a": [0, 1], "b": [2, 3, 4, 5]}, None),
    "five": ({"a": [0], "b": [1], "c": [2, 3], "d": [4], "e": [5]}, "c"),
}


def privacy(epsilon=1.0, trust="secure", **more):
    return co.Privacy(epsilon, 1e-6, trust=trust, **{"row_norm": 3.0, "feature_bound": 2.0, **more})


NUMBERS = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-3), intercept=True)
RAW = 300.0  # an epsilon at which rows of numeric labels are multiplied as they are
SUMS = 1.0  # one at which class sums come first


def table(rows=300, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(rows, columns)), -2, 2)
    return X, np.where(X[:, 0] - X[:, -1] + rng.normal(size=rows) > 0, 1.0, -1.0)


def split(name="two", data=None):
    parties, label = SPLITS[name]
    return co.Federation.split(*(data or table()), parties=parties, label=label)


# ---------------------------------------------------------------------------------------- the sums


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("trust", ["secure", "consortium"])
@pytest.mark.parametrize("epsilon", [RAW, SUMS])
def test_without_noise_the_gram_matrix_is_the_plain_one_to_the_last_bit(name, trust, epsilon, monkeypatch):
    fed, terms = split(name), privacy(epsilon, trust, label_bound=1.0)
    loss = co.LeastSquares() if epsilon == RAW else co.Logistic()  # rows of classes are always centred
    seen = silent_run(fed, co.PrivateGram(), terms, monkeypatch, intercept=True, loss=loss)
    (figures, matrix) = seen.matrices[0]
    assert bool(seen.frame.centre.any()) == (epsilon != RAW)
    y = (np.sign(fed.labels) * figures.label).astype(np.int64)
    assert np.array_equal(matrix, plain_gram(fed, Job(RIDGE, fed.roster(), terms), figures, seen.frame, y))


@pytest.mark.parametrize("name", SPLITS)
def test_without_noise_class_sums_are_those_of_the_rows_up_to_half_a_step_each(name, monkeypatch):
    fed = split(name)
    seen = silent_run(fed, co.PrivateGram(), privacy(SUMS, row_norm=9.0), monkeypatch)
    X, y = table()
    step = seen.figures[0].step
    for got, rows in ((seen.sums.positive, X[y > 0]), (seen.sums.negative, X[y < 0])):
        assert np.abs(got - rows.sum(axis=0)).max() <= step / 2 * len(rows)
    assert seen.sums.count == (y > 0).sum()
    assert np.abs(seen.sums.half_squares - (X**2).sum(axis=0) / 2).max() <= 2.0 * step / 2 * len(X) + len(X) * step**2


def test_real_labels_are_weighed_between_the_classes(monkeypatch):
    X, _ = table()
    y = np.clip(X @ np.linspace(-1, 1, 6), -4, 4)
    fed = split("two", (X, y))
    seen = silent_run(
        fed, co.PrivateGram(), privacy(SUMS, label_bound=4.0, row_norm=9.0), monkeypatch, loss=co.LeastSquares()
    )
    weights = (1 + y / 4.0) / 2
    half = seen.figures[0].step / 2
    slack = len(X) * (0.5 / 64 + half)  # half a level of a label, half a step of a column, for every row
    assert np.abs(seen.sums.positive - X.T @ weights).max() <= slack
    assert np.abs(seen.sums.positive + seen.sums.negative - X.sum(axis=0)).max() <= len(X) * half


@pytest.mark.parametrize("size", [1, 7, 64])
def test_labels_become_the_nearest_whole_number_of_steps_and_never_more_than_their_bound(size):
    bound, y = 20.0, np.append(np.linspace(-30.0, 30.0, 1201), [np.nan, np.inf, -np.inf, 1e308])
    job = Job(co.Problem(co.LeastSquares()), split("two").roster(), privacy(label_bound=bound))
    exact = np.clip(np.nan_to_num(y), -bound, bound) / bound
    steps, weights = label_steps(job, y, size), class_weights(job, y, size)
    for found, want, low in (
        (steps, exact * size, -size),
        (local_gram._beside(y / bound, size), exact * size, -size),
        (weights[:, 0], (1 + exact) / 2 * size, 0),
    ):
        assert np.abs(found - want).max() <= 0.5 + 1e-9
        assert low <= found.min()
        assert found.max() <= size
    assert (weights.sum(axis=1) == size).all()


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 10**6), st.integers(0, 2**32))
def test_no_row_is_longer_than_its_bound_in_integers(rows, columns, norm2, seed):
    before = np.random.default_rng(seed).integers(-(2**20), 2**20, (rows, columns))
    every, ends = np.arange(columns), np.full(columns, 2**20)
    grid = Grid(every, np.zeros(columns), np.ones(columns), -ends, ends, norm2, 1.0, np.ones(columns, int))
    read = IntegerRows(Block(before.astype(float), every), grid)
    cut = read.rows(0, rows).astype(np.int64)
    assert ((cut**2).sum(axis=1) <= norm2).all()
    long = (before**2).sum(axis=1) > norm2
    assert read.shortened == long.sum()
    assert np.array_equal(cut[~long], before[~long])


# ---------------------------------------------------------------------------------------- sensitivity


def corner(rng, columns, nonnegative):
    """A row at the edge of what the bounds allow: sparse, spread out, or far outside."""
    kind = rng.integers(4)
    if kind == 0:
        return np.full(columns, 2.0) * (1 if nonnegative else rng.choice([-1, 1]))
    if kind == 1:
        return 2.0 * (rng.integers(columns) == np.arange(columns)) * (1 if nonnegative else rng.choice([-1, 1]))
    row = rng.uniform(0 if nonnegative else -1, 1, columns) * rng.choice([0.1, 1.0, 100.0])
    return row if kind == 2 else np.round(row, 1)


@pytest.mark.thinned("slow")
@settings(max_examples=4)  # tests/privacy/test_widened_rows_attacked.py looks at all pairs of rows
@given(st.integers(0, 2**32))
@pytest.mark.parametrize(
    ("method", "trust", "epsilon"),
    [
        (co.PrivateGram(), "secure", RAW),
        (co.PrivateGram(), "secure", SUMS),
        (co.PrivateGram(), "consortium", RAW),
        (co.PrivateGram(labels="released"), "secure", SUMS),
        (co.PrivateGram(cross="none"), "nobody", 4.0),
    ],
    ids=lambda value: getattr(value, "cross", str(value)),
)
@pytest.mark.parametrize("loss", [co.Logistic(), co.LeastSquares()], ids=["classes", "values"])
def test_replacing_one_row_moves_a_release_by_no_more_than_its_sensitivity(method, trust, epsilon, loss, seed):
    rng = np.random.default_rng(seed)
    X, y = table(30, seed=seed)
    y = y if loss.classifies else np.clip(3 * y * rng.uniform(size=30), -2, 2)
    X2, y2 = X.copy(), y.copy()
    row = int(rng.integers(30))
    X2[row] = corner(rng, 6, False)
    if (
        method.cross != "none" and method.labels == "secure" and rng.integers(2)
    ):  # there labels are a release of their own, and public to this one
        y2[row] = -y[row]
    if rng.integers(2):
        X[row] = corner(rng, 6, False)
    name = str(rng.choice(list(SPLITS)))
    patch = pytest.MonkeyPatch()
    terms = privacy(epsilon, trust, label_bound=2.0)
    one = silent_run(split(name, (X, y)), method, terms, patch, loss=loss)
    # Centres follow from the sums as released, which noise makes equally likely of both tables: they are given.
    two = silent_run(split(name, (X2, y2)), method, terms, patch, like=one, loss=loss)
    for mine, yours in zip(one.releases, two.releases, strict=True):
        assert mine.distance(yours) <= mine.sensitivity * (1 + 1e-9)


def test_opposite_rows_of_full_length_need_nearly_all_of_the_sensitivity(monkeypatch):
    """√2·(C² + c² + τ²) is reached when a row turns orthogonal to what it was: so it is no loose bound."""
    X, y = np.zeros((20, 6)), np.ones(20)
    y[1] = -1
    X2, y2 = X.copy(), y.copy()
    X[0], X2[0] = [3, 0, 0, 0, 0, 0], [-3, 0, 0, 0, 0, 0]
    terms = privacy(RAW, feature_bound=3.0, row_norm={"a": 3.0, "b": 1e-3}, label_bound=1.0)
    one, two = (
        silent_run(split("two", data), co.PrivateGram(), terms, monkeypatch, loss=co.LeastSquares())
        for data in ((X, y), (X2, y2))
    )
    claimed = one.releases[0].sensitivity
    assert 0.5 * claimed <= one.releases[0].distance(two.releases[0]) <= claimed


# ---------------------------------------------------------------------------------------- price and ledger


@pytest.mark.chance(0, "prices and statements: nothing that was drawn is compared")
@pytest.mark.thinned("slow")
@pytest.mark.parametrize(
    ("method", "trust"),
    [
        (co.PrivateGram(), "secure"),
        (co.PrivateGram(), "consortium"),
        (co.PrivateGram(cross="none"), "nobody"),
        (co.PrivateGram(screen=3), "secure"),
        (co.PrivateGram(screen=3, labels="released"), "secure"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["two", "apart"])
def test_the_ledgers_hold_what_was_priced_and_the_row_pays_epsilon_once(method, trust, name, tmp_path):
    fed, terms = split(name), privacy(1.0, trust)
    fit = co.fit(fed, RIDGE, method, terms, store=tmp_path)
    price = row_rho(method.price(Job(RIDGE, fed.roster(), terms)))
    assert price == pytest.approx(rho_for(1.0, 1e-6), rel=1e-12)
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    rests = of_kind(fit.privacy.conditions, Kind.HOLDS_IF)
    assert fit.privacy.guarantee == ("conditional" if rests else "proven")
    assert bool(rests) or trust == "nobody"
    assert fit.privacy.trust == trust
    spent = {p: Ledger(FileLog(tmp_path / "nodes" / f"{p}.db"), p, co.Policy()) for p in fed.parties}
    for ledger in spent.values():
        assert ledger.row_spent() == pytest.approx(price, rel=1e-9)
    assert fit.objective is None
    assert fit.gap is None


@pytest.mark.chance(2e-8, "a chi-square bound at 1e-8; that rows are taken as they are has a margin of 48 sds")
def test_noise_of_the_released_matrix_has_the_stated_size(monkeypatch, tmp_path):
    """Of 20 runs on the same rows, every entry's spread; a chi-square bound at 1e-8 for all entries together."""
    import colonnade.methods.gram.private_gram as module

    fed, terms, got = split("two"), privacy(RAW, label_bound=1.0), []
    monkeypatch.setattr(module, "solve", lambda gram, *a, **k: (got.append(gram), solve(gram, *a, **k))[1])
    solve = module.solve.__closure__ and __import__("colonnade.methods.gram.solve", fromlist=["solve"]).solve
    for i in range(20):
        co.fit(fed, NUMBERS, co.PrivateGram(), terms, store=tmp_path / str(i))
    stack = np.array([gram.matrix for gram in got])
    sds = got[0].noise
    i, j = np.triu_indices(len(sds))
    noisy = sds[i, j] > 0
    z = (stack - stack.mean(axis=0))[:, i, j][:, noisy] / sds[i, j][noisy]
    from scipy.stats import chi2

    freedom = (len(stack) - 1) * noisy.sum()
    low, high = chi2.ppf([5e-9, 1 - 5e-9], freedom)
    assert low <= (z**2).sum() <= high
    assert (stack[:, ~(sds > 0)] == stack[0, ~(sds > 0)]).all()


# ---------------------------------------------------------------------------------------- the answer


@pytest.mark.chance(1e-9, "noise of sd 0.001, measured, and 0.0088 of 0.01 left for it: 8 sds")
@pytest.mark.parametrize("bound", [5.0, 100.0])
def test_with_hardly_any_noise_it_is_the_ridge_regression_of_scikit_learn(bound, tmp_path):
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(3)
    X = np.clip(rng.normal(size=(4000, 6)), -2, 2)
    y = np.clip(X @ [1.0, -0.5, 0.3, 0, 0.2, -0.1] + 0.2 * rng.normal(size=4000), -5, 5)
    fed = split("two", (X, y))
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1), intercept=True)
    terms = privacy(1e5, row_norm=6.0, label_bound=bound)
    fit = co.fit(fed, problem, co.PrivateGram(), terms, store=tmp_path)
    reference = Ridge(alpha=0.1 * 4000).fit(X, y)
    found = np.concatenate([fit.coefficients["a"], fit.coefficients["b"]])
    # Columns are rounded to 1/2048 of their bound, labels to the nearest of steps far below
    # their spread, whatever their bound: a hundredth is ample.
    assert np.abs(found - reference.coef_).max() < 0.01
    assert fit.intercept == pytest.approx(reference.intercept_, abs=0.01)


@pytest.mark.chance(1e-10, "0.8 is 36 degrees off: 1.46 of coefficients whose sds are 0.15, by 40 runs")
def test_without_products_between_parties_a_strong_signal_still_shows(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 4))
    y = np.where(X[:, 0] + X[:, 2] > 0, 1.0, -1.0)
    fed = co.Federation.split(X, y, parties={"a": [0, 1], "b": [2, 3]}, label="a")
    terms = co.Privacy(16.0, 1e-6, row_norm=2.0, feature_bound=1.0)
    fit = co.fit(fed, RIDGE, co.PrivateGram(cross="none"), terms, store=tmp_path)
    agreement = float(np.mean(fit.predict(fed) == y))
    assert agreement > 0.8  # coefficients of equal sign and size on columns 0 and 2 give nearly 1; guessing .5


@pytest.mark.chance(0, "one fit beside itself; its link keeps probabilities off 0 and 1, whatever the noise")
def test_a_logistic_problem_says_that_it_was_solved_by_its_surrogate(tmp_path):
    fit = co.fit(split(), RIDGE, co.PrivateGram(), privacy(), store=tmp_path)
    assert "least squares" in fit.remarks[0]
    again = co.load(next((tmp_path / "fits").glob("*.json")))
    assert again.remarks == fit.remarks
    assert again.link == fit.link
    assert again.spread is fit.spread is None
    assert all(np.array_equal(again.path.coefficients[p], fit.path.coefficients[p]) for p in fit.coefficients)
    probabilities = fit.predict_proba(split())
    assert ((probabilities > 0) & (probabilities < 1)).all()


@pytest.mark.chance(0, "names of methods")
def test_private_gram_is_what_a_private_fit_takes_by_default(tmp_path):
    assert co.fit(split(), RIDGE, privacy=privacy(), store=tmp_path / "1").method == "private Gram"
    assert co.fit(split(), RIDGE, privacy=privacy(trust="nobody"), store=tmp_path / "2").method == "private Gram"


# ---------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("method", "terms", "problem", "message"),
    [
        (co.PrivateGram(), None, RIDGE, "needs privacy="),
        (co.PrivateGram(), privacy(trust="nobody"), RIDGE, "cross='secure' protects under trust"),
        (co.PrivateGram(cross="none"), privacy(), RIDGE, "cross='none' protects under trust 'nobody'"),
        (co.PrivateGram(), privacy(row_norm=None), RIDGE, "nothing public bounds the rows of party 'a'"),
        (co.PrivateGram(), privacy(row_norm={"a": 1.0}), RIDGE, "says nothing about party 'b'"),
        (co.PrivateGram(), privacy(row_norm={"a": 1.0, "x": 1.0}), RIDGE, "names 'x'"),
        (co.PrivateGram(), privacy(), co.Problem(co.LeastSquares()), "label_range"),
        (co.PrivateGram(), privacy(), co.Problem(co.Huber(1.0)), "solves LeastSquares"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(method, terms, problem, message, tmp_path):
    with pytest.raises(co.InvalidInput, match=message):
        co.fit(split(), problem, method, terms, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "wrong", [{"cross": "plain"}, {"screen": 0}, {"screen": 2.5}, {"screen": True}, {"labels": "x"}]
)
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(co.InvalidInput):
        co.PrivateGram(**wrong)


@pytest.mark.parametrize("idle", [{"screen": 3}, {"labels": "released"}])
def test_settings_of_products_between_parties_are_refused_where_there_are_none(idle):
    with pytest.raises(co.InvalidInput, match=r"does nothing with cross='none'.*Leave it out"):
        co.PrivateGram(cross="none", **idle)


def test_more_parties_than_a_run_can_have_are_refused(tmp_path):
    X = np.zeros((10, 33))
    fed = co.Federation.split(X, np.array([1.0, -1.0] * 5), parties=33, label="party0")
    with pytest.raises(co.InvalidInput, match="at most 32 parties"):
        co.fit(fed, RIDGE, co.PrivateGram(), privacy(), store=tmp_path)


@pytest.mark.chance(0, "parties are counted, whatever their coefficients")
@pytest.mark.parametrize("parties", [12, pytest.param(32, marks=pytest.mark.slow)])
def test_many_parties_run_up_to_thirty_two(parties, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60, parties)), np.sign(rng.normal(size=60))
    fed = co.Federation.split(X, y, parties=parties, label="party0")
    fit = co.fit(fed, RIDGE, co.PrivateGram(), privacy(RAW), store=tmp_path)
    assert len(fit.coefficients) == parties


def test_a_length_for_the_whole_row_is_shared_out_among_the_parties():
    fed = split("two")
    shares = norms(Job(RIDGE, fed.roster(), privacy(row_norm=4.0)))
    assert math.hypot(*shares.values()) == pytest.approx(4.0)
    assert shares["a"] == shares["b"]


def declared(**terms):
    """A job over two parties whose schemas prove lengths of √2 and 1, and entries within 1."""
    names = {"a": ["u", "v"], "b": ["w"]}
    frames = {p: pl.DataFrame({"key": [1, 2], **{c: [0.0, 1.0] for c in cs}}) for p, cs in names.items()}
    frames["b"] = frames["b"].with_columns(y=pl.Series([-1.0, 1.0]))
    schemas = {p: co.Schema(tuple(co.Numeric(c, 0.0, 1.0, scale=False) for c in cs)) for p, cs in names.items()}
    fed = co.Federation.from_frames(frames, on="key", label=("b", "y"), schemas=schemas)
    return Job(RIDGE, fed.roster(), co.Privacy(1.0, 1e-6, trust="secure", **terms))


@pytest.mark.parametrize(
    ("row_norm", "a", "b"),
    [
        (None, math.sqrt(2), 1.0),
        ({"a": 0.5}, 0.5, 1.0),
        ({"a": 9.0, "b": 0.5}, math.sqrt(2), 0.5),
        (9.0, math.sqrt(2), 1.0),
        (math.sqrt(3) / 4, math.sqrt(2) / 4, 0.25),
    ],
)
def test_a_row_is_cut_to_the_shorter_of_what_is_asked_and_what_schemas_prove(row_norm, a, b):
    assert norms(declared(row_norm=row_norm)) == pytest.approx({"a": a, "b": b})
    with pytest.raises(co.InvalidInput, match="'c', which is not a party with columns"):
        norms(declared(row_norm={"c": 1.0}))


def test_nothing_is_cut_only_where_schemas_prove_lengths_and_entries():
    assert uncut(declared())
    assert uncut(declared(row_norm={"a": 2.0, "b": 1.0}, feature_bound=1.0))
    for short in ({"row_norm": {"b": 0.99}}, {"row_norm": 1.7}, {"feature_bound": 0.99}):
        assert not uncut(declared(**short))
    plain = co.Federation.split(*table(), parties={"a": [0, 1, 2], "b": [3, 4, 5]}, label="b")
    assert not uncut(Job(RIDGE, plain.roster(), privacy()))


@pytest.mark.chance(0, "rows are counted by their public bound, before they are centred")
def test_rows_over_their_bound_are_counted_for_their_own_operator_only(tmp_path, capsys):
    from typer.testing import CliRunner

    from colonnade.cli import app

    X, y = table()
    X[:7, :3] = 2.0  # longer than the share of the row that party a may have
    fit = co.fit(
        split("two", (X, y)), RIDGE, co.PrivateGram(), privacy(RAW, row_norm={"a": 3.4, "b": 9.0}), store=tmp_path
    )
    said = CliRunner().invoke(app, ["budget", "notes", str(tmp_path), "a"]).stdout
    assert f"{fit.run}  7 of 300 rows" in said
    assert not CliRunner().invoke(app, ["budget", "notes", str(tmp_path), "b"]).stdout.strip()
    kept = (tmp_path / "fits" / f"{fit.run}.json").read_text()
    assert "shortened" not in kept
    others = [file for file in (tmp_path / "nodes").glob("*.db") if file.stem != "a"]
    assert all(b"over the public bound" not in file.read_bytes() for file in others)


@given(st.integers(0, 2**32), st.integers(1, 2**20), st.sampled_from([0.01, 1.0, 1e9]))
def test_sparse_rows_are_the_dense_ones(seed, norm2, size):
    from scipy import sparse

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 7)) * (rng.random((30, 7)) < 0.3) * size
    keep = np.flatnonzero(rng.random(7) < 0.8)
    ends = np.full(keep.size, 2**21)
    grid = Grid(keep, np.zeros(keep.size), np.ones(keep.size), -ends, ends, norm2, 0.25, np.ones(keep.size, int))
    found = []
    for matrix in (X, sparse.csc_array(X)):
        rows = IntegerRows(Block(matrix, np.arange(7)), grid)
        dense = rows.rows(3, 20)
        found.append((dense, rows.shortened))
    again = IntegerRows(Block(sparse.csc_array(X), np.arange(7)), grid)
    assert again.stay_sparse
    assert np.array_equal(again.sparse_rows(3, 20).toarray(), found[0][0])
    assert np.array_equal(found[1][0], found[0][0])
    assert again.shortened == found[0][1] == found[1][1]


def test_squares_that_could_wrap_round_are_refused_in_either_form():
    from scipy import sparse

    ends = np.full(4, 2**31)
    grid = Grid(np.arange(4), np.zeros(4), np.ones(4), -ends, ends, 2**61, 1.0, np.ones(4, int))
    rows = IntegerRows(Block(sparse.csc_array(np.ones((3, 4))), np.arange(4)), grid)
    for read in (rows.rows, rows.sparse_rows):
        with pytest.raises(co.InvalidInput, match="63 bits"):
            read(0, 3)


def test_a_row_that_rounding_leaves_a_hair_too_long_is_shortened_again_in_either_form():
    """√(m² − ½) is m in doubles: shortened once, the row (m, m) would be over the bound 2m² − 1."""
    from scipy import sparse

    m, ends = 2**27, np.full(2, 2**28)
    norm2, X = 2 * m**2 - 1, np.array([[m + 2.0**k] * 2 for k in range(10, 16)])
    once = np.trunc(X[0] * np.sqrt(norm2 / (X[0] ** 2).sum())).astype(int)
    assert sum(int(x) ** 2 for x in once) > norm2  # the case is one
    grid = Grid(np.arange(2), np.zeros(2), np.ones(2), -ends, ends, norm2, 1.0, np.ones(2, int))
    rows = IntegerRows(Block(sparse.csc_array(X), np.arange(2)), grid)
    for found in (rows.rows(0, 6), rows.sparse_rows(0, 6).toarray()):
        assert all(norm2 - 2**30 < sum(int(x) ** 2 for x in row) <= norm2 for row in found)


def test_an_entry_whose_square_would_wrap_round_is_cut_in_either_form():
    """2⁶⁴ is 0 in 64 bits: the square of such an entry looks short."""
    from scipy import sparse

    every, ends = np.arange(2), np.full(2, 2**33)
    grid = Grid(every, np.zeros(2), np.ones(2), -ends, ends, 25, 1.0, np.ones(2, int))
    for read in (lambda rows: rows.rows(0, 3), lambda rows: rows.sparse_rows(0, 3).toarray()):
        rows = IntegerRows(Block(sparse.csc_array([[2.0**32, 0.0], [0.0, -(2.0**32)], [3.0, 4.0]]), every), grid)
        assert read(rows).tolist() == [[5, 0], [0, -5], [3, 4]]
        assert rows.shortened == 2


# ---------------------------------------------------------------------------------------- what a party lets itself be
# told


def described(stage):
    """A design in which class sums come first, and an honest description of one of its releases for party "a"."""
    fed = co.Federation.split(np.zeros((40, 3)), np.ones(40), parties={"a": [0, 1], "b": [2]}, label="b")
    privacy = co.Privacy(1.0, 1e-6, trust="secure", row_norm=1.5, feature_bound=1.0)
    design = RunPlan.of(Job(co.Problem(co.Logistic(), penalty=co.Ridge(0.1)), fed.roster(), privacy), co.PrivateGram())
    sums = design.sums
    assert sums is not None
    told = {
        "name": "joint", "step": 2.0**-6, "bits": 32, "norm2": np.array([4000, 2000]),
        "constant": 50, "label": 50, "keep": np.array([0, 1, 2]), "centre": np.array([0.25, -0.5, 0.0]),
        "scale": np.array([0.5, 2.0, 1.0]), "labels": np.zeros(0),
    }  # fmt: skip
    if stage == "sums":
        ends = {"norm2": np.array(list(sums.norm2.values()))}
        plain = {"centre": np.zeros(3), "scale": np.ones(3), "constant": sums.constant, "label": sums.label}
        told |= {"name": "sums", "step": sums.step, "bits": sums.bits, **ends, **plain}
    return design, told


def pair(*values):
    return np.array(values)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"}, {"bits": 7}, {"bits": 65}, {"step": 0.9 / LARGEST}, {"step": 1.1 * LARGEST}, {"step": 0.0},
        {"step": -1.0}, {"norm2": pair(4000, -1)}, {"norm2": pair(4000)},
        {"constant": 0}, {"constant": -1}, {"label": 0}, {"label": -1},
        {"keep": pair(0, 1, 3)}, {"keep": pair(-1, 0, 1)}, {"keep": pair(1, 0, 2)}, {"keep": pair(0, 1, 1)},
        {"keep": pair(0.0, 1.0, 2.0)}, {"keep": pair(0)}, {"centre": pair(0.0)}, {"scale": pair(1.0, 1.0)},
        {"centre": pair(0.0, 0.0, -1.1 * LARGEST)}, {"centre": pair(np.nan, 0.0, 0.0)}, {"scale": pair(0.0, 1.0, 1.0)},
        {"scale": pair(1.0, -1.0, 1.0)}, {"scale": pair(1.0, 1.0, 1.1 * LARGEST)}, {"scale": pair(np.nan, 1.0, 1.0)},
    ],
    ids=str,
)  # fmt: skip
def test_a_description_of_a_release_with_figures_out_of_range_is_refused(change):
    design, told = described("joint")
    check_prepare(design, told["name"], Prepare(**told))
    with pytest.raises(ProtocolError):
        check_prepare(design, told["name"], Prepare(**{**told, **change}))


def test_a_description_at_the_ends_of_its_range_is_taken():
    design, told = described("joint")
    for ends in ({"bits": 8}, {"bits": 64}, {"step": 1.0 / LARGEST}, {"step": LARGEST}, {"norm2": pair(0, 0)}):
        check_prepare(design, told["name"], Prepare(**{**told, **ends}))
    for ends in (
        {"constant": 1, "label": 1},
        {"scale": pair(1e-300, LARGEST, 1.0)},
        {"centre": pair(LARGEST, -LARGEST, 0.0)},
    ):
        check_prepare(design, told["name"], Prepare(**{**told, **ends}))
    fewer = {"keep": pair(1), "centre": pair(0.0), "scale": pair(1.0)}
    check_prepare(design, told["name"], Prepare(**{**told, **fewer}))


@pytest.mark.parametrize(
    "change",
    [
        lambda told: {"step": told["step"] * 2}, lambda told: {"bits": told["bits"] + 1},
        lambda told: {"norm2": told["norm2"] + 1},
        lambda _: {"constant": 1}, lambda told: {"label": told["label"] + 1},
        lambda _: {"scale": pair(1.0, 2.0, 1.0)}, lambda _: {"centre": pair(0.0, 0.5, 0.0)},
        lambda _: {"keep": pair(1), "centre": pair(0.0), "scale": pair(1.0)},
    ],
    ids=["step", "bits", "norm2", "constant", "label", "scale", "centre", "keep"],
)  # fmt: skip
def test_class_sums_described_in_any_other_way_than_agreed_are_refused(change):
    design, told = described("sums")
    assert check_prepare(design, "sums", Prepare(**told)).figures == design.sums
    with pytest.raises(ProtocolError, match="another release than the one that was agreed"):
        check_prepare(design, told["name"], Prepare(**{**told, **change(told)}))


@pytest.mark.parametrize(("trust", "shares"), [("secure", 2), ("consortium", 1)])
def test_the_noise_of_class_sums_is_told_by_who_computed_them(trust, shares, monkeypatch):
    """The label holder's own carry it once; those of products with another party once for each share."""
    fed, terms = split("two"), privacy(SUMS, trust)
    seen = silent_run(fed, co.PrivateGram(), terms, monkeypatch)
    design, figures = RunPlan.of(Job(RIDGE, fed.roster(), terms), co.PrivateGram()), seen.figures[0]
    rho = rho_for(SUMS, 1e-6) * design.rule.sums
    sd = design.sensitivity(figures) / math.sqrt(2 * rho) * figures.step / figures.label
    assert seen.sums.noise == pytest.approx([sd * math.sqrt(shares)] * 3 + [sd] * 3, rel=1e-6)
    assert seen.sums.count_noise == pytest.approx(sd, rel=1e-6)
    assert seen.sums.square_noise == pytest.approx([sd] * 6, rel=1e-6)


@pytest.mark.parametrize("method", [co.PrivateGram(), co.PrivateGram(cross="none")], ids=["secure", "apart"])
def test_the_rule_for_persons_of_m_rows_is_that_of_a_budget_m_squared_times_smaller(method):
    """Every sensitivity is m times larger, and with it the noise."""
    roster = split("two").roster()
    jobs = [
        Job(NUMBERS, replace(roster, unit=unit), privacy(RAW, label_bound=1.0)) for unit in (ROW, Unit("person", 3))
    ]
    made = [Local(RunPlan.of(job, method)) if method.cross == "none" else RunPlan.of(job, method) for job in jobs]
    assert [one.rule.rho for one in made] == pytest.approx([jobs[0].rho, jobs[0].rho / 9])


@pytest.mark.parametrize("rows", [200, 250])
@pytest.mark.parametrize("row_norm", [5.0, 9.0])
def test_products_of_rows_that_are_all_at_their_bounds_do_not_wrap_round(rows, row_norm, monkeypatch):
    """Products of columns, and of columns with labels, which weigh more than an entry where rows may be long."""
    fed = split("two", (np.full((rows, 6), 2.0), np.ones(rows)))
    terms = privacy(1e5, label_bound=1.0, row_norm=row_norm)
    seen = silent_run(fed, co.PrivateGram(), terms, monkeypatch, intercept=True, loss=co.LeastSquares())
    (figures, matrix) = seen.matrices[0]
    y = np.full(rows, figures.label)
    assert np.array_equal(matrix, plain_gram(fed, Job(NUMBERS, fed.roster(), terms), figures, seen.frame, y))


@pytest.mark.parametrize("rows", [200, 250])
def test_class_sums_of_rows_that_are_all_at_their_bounds_do_not_wrap_round(rows, monkeypatch):
    fed = split("two", (np.full((rows, 6), 2.0), np.ones(rows)))
    terms = privacy(1e5, row_norm=9.0)
    seen = silent_run(fed, co.PrivateGram(), terms, monkeypatch, intercept=True, loss=co.Logistic())
    assert np.array_equal(seen.sums.positive, np.full(6, 2.0 * rows))


# ---------------------------------------------------------------------------------------- the plan of a run


@pytest.mark.chance(0, "plans are counted")
@pytest.mark.parametrize("method", [co.PrivateGram(), co.PrivateGram(cross="none")], ids=["secure", "apart"])
def test_the_plan_of_a_run_is_made_once_for_all_that_ask_for_it(method, monkeypatch, tmp_path):
    made, of = [], RunPlan.of
    monkeypatch.setattr(RunPlan, "of", staticmethod(lambda *given: made.append(given) or of(*given)))
    trust = "secure" if method.cross == "secure" else "nobody"
    co.fit(split(), RIDGE, method, privacy(trust=trust), store=tmp_path)
    assert len(made) == 1


def test_every_setting_of_one_job_has_a_plan_of_its_own():
    job = Job(RIDGE, split().roster(), privacy())
    first, second = co.PrivateGram(), co.PrivateGram(screen=3)
    forms = [form_of(job, method) for method in (first, second, first)]
    assert [form.plan.settings for form in forms] == [first, second, first]
    assert forms[0] is forms[2]
    assert form_of(replace(job), first) is not forms[0]
