"""Claims about distributed Frank-Wolfe, about `fit`, and about saved fits."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Lasso

import colonnade as co
from colonnade.runtime.program import FailureCode
from tests.helpers.contract import METHODS, federation
from tests.helpers.reference import confident

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

LOSSES = {"least squares": co.LeastSquares(), "logistic": co.Logistic(), "squared hinge": co.SquaredHinge()}


# ---------------------------------------------------------------- generated problems


@st.composite
def tables(draw, classes=False, sparse_too=True):
    """A small table with entries of moderate size, and its labels."""
    rows, columns = draw(st.integers(3, 12)), draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < draw(st.sampled_from([1.0, 0.5])))
    if draw(st.booleans()):
        X = np.round(X)  # equal scores and equal columns become likely
    y = X @ rng.normal(size=columns) + rng.normal(size=rows)
    if classes:
        y = np.where(y > np.median(y), 1.0, -1.0)
        assume(len(set(y)) == 2)
    return X, y


@st.composite
def problems(draw):
    loss = draw(st.sampled_from(list(LOSSES.values())))
    ball = draw(st.sampled_from([co.L1Ball, co.Simplex]))(draw(st.sampled_from([0.1, 1.0, 5.0])))
    X, y = draw(tables(classes=loss.classifies))
    return X, y, co.Problem(loss, ball, intercept=draw(st.booleans()))


def optimum(X, y, problem) -> float:
    """By an independent solver."""
    x, b = cp.Variable(X.shape[1]), cp.Variable()
    scores = X @ x + (b if problem.intercept else 0.0)
    radius = problem.constraint.radius
    limits = [cp.norm1(x) <= radius] if isinstance(problem.constraint, co.L1Ball) else [x >= 0, cp.sum(x) == radius]
    match problem.loss:
        case co.LeastSquares():
            loss = cp.sum_squares(scores - y) / (2 * len(y))
        case co.Logistic():
            loss = cp.sum(cp.logistic(-cp.multiply(y, scores))) / len(y)
        case _:
            loss = cp.sum_squares(cp.pos(1 - cp.multiply(y, scores))) / (2 * len(y))
    return confident(cp.Problem(cp.Minimize(loss), limits))


def joined(fit: co.Fit, fed: co.Federation) -> np.ndarray:
    """All coefficients in the order of the joint table."""
    x = np.full(sum(p.block.columns for p in fed.parties.values()), np.nan)
    for party, own in fit.coefficients.items():
        x[fed.parties[party].block.positions] = own
    return x


steps = st.sampled_from([co.LineSearch(), co.OpenLoop(), co.DistributedFrankWolfe().step])


@settings(max_examples=10)
@given(problems(), steps, st.integers(1, 60), st.booleans())
def test_the_gap_bounds_the_distance_to_the_optimum(task, step, rounds, compressed):
    X, y, problem = task
    fed = co.Federation.split(sparse.csc_array(X) if compressed else X, y, parties=min(3, X.shape[1]))
    fit = co.fit(fed, problem, method=co.DistributedFrankWolfe(rounds=rounds, tolerance=0.0, step=step))
    x = joined(fit, fed)
    objective = problem.loss.value(X @ x + fit.intercept, y)
    assert objective == pytest.approx(fit.objective, rel=1e-9, abs=1e-12)
    room = 1e-6 * max(1.0, abs(objective))
    assert -room <= objective - optimum(X, y, problem) <= fit.gap + room


@settings(max_examples=10)
@given(problems(), steps, st.integers(1, 100))
def test_the_coefficients_stay_in_the_set(task, step, rounds):
    X, y, problem = task
    fed = co.Federation.split(X, y, parties=1)
    fit = co.fit(fed, problem, method=co.DistributedFrankWolfe(rounds=rounds, tolerance=0.0, step=step))
    radius = problem.constraint.radius
    assert fit.l1_norm <= radius * (1 + 1e-12)
    if isinstance(problem.constraint, co.Simplex):
        assert min(float(x.min()) for x in fit.coefficients.values()) >= 0.0
        assert fit.l1_norm >= radius * (1 - 1e-12)


@settings(max_examples=10)
@given(problems(), st.floats(0.0, 1.0), st.integers(1, 30))
def test_a_fit_is_certified_exactly_when_its_gap_is_within_the_tolerance(task, tolerance, rounds):
    X, y, problem = task
    fed = co.Federation.split(X, y, parties=1)
    fit = co.fit(fed, problem, method=co.DistributedFrankWolfe(rounds=rounds, tolerance=tolerance))
    assert (fit.status is co.Status.CERTIFIED) == (0.0 < tolerance >= fit.gap)  # 0 asks for all rounds
    assert fit.status is co.Status.CERTIFIED or len(fit.notes) == rounds


@settings(max_examples=10)
@given(tables(), st.sampled_from([0.5, 2.0]))
def test_the_gap_closes(table, radius):
    """Frank-Wolfe's gap after t rounds is O(radius² · largest column² / t), with line search and a constant of 27/4·2."""
    X, y = table
    fed = co.Federation.split(X, y, parties=1)
    rounds = 100
    fit = co.fit(
        fed,
        co.Problem(co.LeastSquares(), co.L1Ball(radius)),
        method=co.DistributedFrankWolfe(rounds=rounds, tolerance=0.0),
    )
    diameter = 2 * radius * math.sqrt(float(np.max(np.sum(X**2, axis=0))) / len(y))
    assert min([fit.gap, *(note["gap"] for note in fit.notes)]) <= 13.5 * diameter**2 / (rounds + 2) + 1e-12


# ---------------------------------------------------------------- who holds what changes nothing


@st.composite
def shares(draw, columns: int):
    """Every column at one of up to six parties, in any order."""
    order = draw(st.permutations(range(columns)))
    owners = draw(st.lists(st.integers(0, 5), min_size=columns, max_size=columns))
    by_owner: dict[str, list[int]] = {}
    for column, owner in zip(order, owners, strict=True):
        by_owner.setdefault(f"p{owner}", []).append(column)
    return by_owner


@settings(max_examples=12)
@given(problems(), steps, st.data())
def test_a_split_of_the_columns_changes_no_bit(task, step, data):
    X, y, problem = task
    if data.draw(st.booleans(), "repeat columns"):
        X = np.hstack([X, X[:, : data.draw(st.integers(1, X.shape[1]))], -X[:, :1]])
    method = co.DistributedFrankWolfe(rounds=12, tolerance=0.0, step=step)
    whole = co.Federation.split(X, y, parties=1)
    parts = co.Federation.split(X, y, parties=data.draw(shares(X.shape[1])))
    one, many = co.fit(whole, problem, method=method), co.fit(parts, problem, method=method)
    assert joined(one, whole).tobytes() == joined(many, parts).tobytes()
    assert (one.intercept, one.objective, one.gap) == (many.intercept, many.objective, many.gap)


@settings(max_examples=20)
@given(problems(), steps, st.sampled_from([1.0, 0.1]))
def test_sparse_and_dense_tables_agree_to_the_bit(task, step, kept):
    X, y, problem = task
    X = np.where(np.random.default_rng(0).random(X.shape) < kept, X, 0.0)  # zeros of a sparse table are not read
    method = co.DistributedFrankWolfe(rounds=12, tolerance=0.0, step=step)
    feds = [co.Federation.split(table, y, parties=min(2, X.shape[1])) for table in (X, sparse.csr_array(X))]
    dense, compressed = (co.fit(fed, problem, method=method) for fed in feds)
    assert joined(dense, feds[0]).tobytes() == joined(compressed, feds[1]).tobytes()
    assert (dense.intercept, dense.objective, dense.gap) == (compressed.intercept, compressed.objective, compressed.gap)


def test_scores_that_differ_only_in_the_last_bit_are_told_apart_at_every_split():
    """radius·a = radius·b may hold in floating point although a < b: the winner is decided on the scores."""
    radius, a = 1.5, 1.4
    while radius * a != radius * np.nextafter(a, 2.0):
        a = float(np.nextafter(a, 2.0))
    X, y = np.array([[a, np.nextafter(a, 2.0)]]), np.array([1.0])
    problem = co.Problem(co.LeastSquares(), co.L1Ball(radius))
    method = co.DistributedFrankWolfe(rounds=1, tolerance=0.0)
    feds = [co.Federation.split(X, y, parties=parties) for parties in (1, 2)]
    one, two = (joined(co.fit(fed, problem, method=method), fed) for fed in feds)
    assert one.tobytes() == two.tobytes()


def test_the_objective_agrees_with_scikit_learn():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 12))
    y = X[:, 0] - 2 * X[:, 5] + rng.normal(size=60)
    reference = Lasso(alpha=0.1, tol=1e-10, fit_intercept=True).fit(X, y)
    radius = float(np.abs(reference.coef_).sum())
    fed = co.Federation.split(X, y, parties=4)
    fit = co.fit(
        fed,
        co.Problem(co.LeastSquares(), co.L1Ball(radius), intercept=True),
        method=co.DistributedFrankWolfe(rounds=20_000, tolerance=1e-4),
    )
    best = float(np.sum((reference.predict(X) - y) ** 2)) / 120
    assert fit.status is co.Status.CERTIFIED
    assert -1e-8 <= fit.objective - best <= 1e-4


def test_each_column_travels_up_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    fit = co.fit(
        co.Federation.split(X, X[:, 0] + X[:, 1], parties=2),
        co.Problem(co.LeastSquares(), co.L1Ball(1.0)),
        method=co.DistributedFrankWolfe(rounds=50, tolerance=0.0),
    )
    table = fit.communication.by("type")
    sent = dict(zip(table["type"], table["messages"], strict=True))
    assert sent["Atom"] <= 5
    assert sent["Bid"] == 2 * (len(fit.notes) + 1)


# ---------------------------------------------------------------- a peer that lies


def lying(change):
    """An engine whose wires change the first message for which `change` gives another one."""
    from colonnade.runtime.wire import decode, encode

    def fault(letter):
        told = change(letter.sender, decode(letter.body))
        if told is None:
            return (letter,)
        return (letter.with_body(encode(told, guarded=False), ""),)

    return co.Faults(co.InProcess(), fault)


def released(value):
    from tests.helpers.contract import gate

    return gate().exact(value)


def lies():
    from colonnade.methods.frank_wolfe.distributed import Atom, Begin, Bid, Move, Place, SendAtom
    from colonnade.methods.method import Finish, Labels

    tall = sparse.csc_array((np.ones(1), [10**6], [0, 1]), shape=(10**6 + 1, 1))
    wide = sparse.csc_array(np.ones((30, 2)))
    return {
        "a sparse column with too many rows": (Atom, lambda m: Atom(released(tall))),
        "a sparse block of two columns": (Atom, lambda m: Atom(released(wide))),
        "a short dense column": (Atom, lambda m: Atom(released(np.ones(7)))),
        "a column of one number": (Atom, lambda m: Atom(released(np.ones(1)))),
        "a table for a column": (Atom, lambda m: Atom(released(np.ones((30, 1))))),
        "an index past the block": (Bid, lambda m: Bid(released(99), m.score)),
        "a negative index": (Bid, lambda m: Bid(released(-1), m.score)),
        "a score that is no number": (Bid, lambda m: Bid(m.index, released(math.nan))),
        "too few labels": (Labels, lambda m: Labels(released(m.values.value[:-1]))),
        "labels that are no numbers": (Labels, lambda m: Labels(released(m.values.value * math.nan))),
        "a question about a column past the block": (SendAtom, lambda m: SendAtom(99)),
        "a question about a negative column": (SendAtom, lambda m: SendAtom(-1)),
        "a step towards an atom never sent": (Move, lambda m: Move(m.new, 99, m.step, m.weight, m.intercept)),
        "a step towards a negative atom": (Move, lambda m: Move(m.new, -9, m.step, m.weight, m.intercept)),
        "a tall column from the coordinator": (Place, lambda m: Place(tall, m.weights, m.intercept)),
        "two columns from the coordinator": (Place, lambda m: Place(wide, m.weights, m.intercept)),
        "too few weights": (Place, lambda m: Place(m.new, sparse.csc_array((0, 1)), m.intercept)),
        "too many weights": (Place, lambda m: Place(m.new, sparse.csc_array((99, 1)), m.intercept)),
        "too few labels from the coordinator": (Begin, lambda m: Begin(m.labels[:-1], m.intercept)),
        "coefficients of another size": (Finish, lambda m: Finish(np.zeros(99), m.intercept)),
        "another kind of answer": (Bid, lambda m: Labels(released(np.zeros(3)))),
    }


@pytest.mark.parametrize("lie", lies())
def test_a_message_that_makes_no_sense_ends_the_run_with_an_error_of_ours(lie):
    """A peer may be wrong or hostile: no crash, no memory written past an array, no silent nonsense."""
    kind, other = lies()[lie]
    case = next(iter(METHODS.values()))
    step = {"step": co.LineSearch()} if kind.__name__ == "Move" else {}
    method = co.DistributedFrankWolfe(rounds=6, tolerance=0.0, **step)
    engine = lying(lambda sender, m: other(m) if type(m) is kind else None)
    with pytest.raises((co.ProtocolError, co.InvalidInput)):
        co.fit(federation(case), case.problem, method=method, engine=engine)


# ---------------------------------------------------------------- calls that cannot be


X, Y = np.arange(12.0).reshape(4, 3), np.array([0.0, 1.0, 2.0, 3.0])
FED = co.Federation.split(X, Y, parties=2)
LEAST = co.Problem(co.LeastSquares(), co.L1Ball(1.0))

BAD_CALLS = {
    "no federation": (lambda: co.fit(X, LEAST), "wants a Federation first.*Federation.split"),
    "no problem": (lambda: co.fit(FED, co.LeastSquares()), "wants a Problem second.*co.Problem"),
    "a class for a method": (lambda: co.fit(FED, LEAST, co.DistributedFrankWolfe), r"DistributedFrankWolfe\(\)"),
    "a text for a method": (lambda: co.fit(FED, LEAST, "frank-wolfe"), "is not a method.*give a value"),
    "a penalty": (
        lambda: co.fit(FED, co.Problem(co.LeastSquares(), penalty=co.Lasso(1.0)), co.DistributedFrankWolfe()),
        "L1Ball",
    ),
    "neither set nor penalty": (
        lambda: co.fit(FED, co.Problem(co.LeastSquares()), co.DistributedFrankWolfe()),
        "L1Ball",
    ),
    "a loss with kinks": (lambda: co.fit(FED, co.Problem(co.Absolute(), co.L1Ball(1.0))), "smooth loss.*Use"),
    "labels that are not classes": (lambda: co.fit(FED, co.Problem(co.Logistic(), co.L1Ball(1.0))), "map the two"),
    "no radius": (lambda: co.L1Ball(0.0), "above 0.*larger radius"),
    "a negative radius": (lambda: co.Simplex(-1.0), "above 0"),
    "a radius that is no number": (lambda: co.L1Ball(math.nan), "above 0"),
    "no rounds": (lambda: co.DistributedFrankWolfe(rounds=0), "positive integer"),
    "half a round": (lambda: co.DistributedFrankWolfe(rounds=1.5), "positive integer"),
    "a negative tolerance": (lambda: co.DistributedFrankWolfe(tolerance=-1.0), "positive number"),
    "a tolerance that is no number": (lambda: co.DistributedFrankWolfe(tolerance=math.nan), "positive number"),
    "privacy for exact releases": (
        lambda: co.fit(FED, LEAST, co.DistributedFrankWolfe(), co.Privacy(epsilon=1.0, delta=1e-6), store="unused"),
        "private method",
    ),
    "an unknown sum of bytes": (lambda: co.fit(FED, LEAST).communication.by("colour"), "choose among"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_call_that_cannot_be_is_refused_with_advice(name):
    call, advice = BAD_CALLS[name]
    with pytest.raises(co.InvalidInput, match=advice):
        call()


def test_a_budget_of_a_party_needs_a_store_that_outlives_the_process():
    """Without one every call would begin with a fresh budget."""
    from tests.helpers.noisy import NoisySums

    fed = FED.with_policies({"party0": co.Policy(epsilon=3.0, delta=1e-6)})
    with pytest.raises(co.InvalidInput, match=r"store="):
        co.fit(fed, LEAST, method=NoisySums(rounds=1))


def test_a_plan_dearer_than_the_budget_of_the_run_is_refused(tmp_path):
    from tests.helpers.noisy import NoisySums

    with pytest.raises((co.InvalidInput, co.BudgetExhausted), match=r"epsilon"):
        co.fit(
            FED,
            LEAST,
            method=NoisySums(rounds=40),
            privacy=co.Privacy(epsilon=0.1, delta=1e-6),
            store=tmp_path,
        )


def test_failure_codes_keep_their_numbers():
    numbers = {"STOPPED": 0, "REFUSED": 1, "PROTOCOL": 2, "TIMEOUT": 3, "LOST": 4}
    assert {c.name: c.value for c in FailureCode} == numbers


# ---------------------------------------------------------------- saved fits


@pytest.fixture
def fitted():
    case = METHODS["frank-wolfe, logistic, simplex, intercept"]
    fed = federation(case)
    return co.fit(fed, case.problem, method=case.method), fed


def test_a_loaded_fit_is_the_fit_that_was_saved(fitted, tmp_path):
    fit, fed = fitted
    fit.save(tmp_path / "fit.json")
    back = co.load(tmp_path / "fit.json")
    for name in ("intercept", "objective", "gap", "status", "privacy", "communication", "problem", "method", "run"):
        assert getattr(back, name) == getattr(fit, name), name
    assert list(back.coefficients) == list(fit.coefficients)
    assert back.scores(fed).tobytes() == fit.scores(fed).tobytes()
    assert back.history.equals(fit.history)


def test_a_loaded_fit_adds_up_scores_in_the_order_of_the_fit(tmp_path):
    """Parties out of alphabetical order, and sums that depend on the order."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 6)) * 10.0 ** np.arange(6), rng.normal(size=60)
    fed = co.Federation.split(X, y, parties={"z": [0, 3], "m": [1, 4], "a": [2, 5]})
    fit = co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(1.0)), method=co.DistributedFrankWolfe(rounds=20))
    fit.save(tmp_path / "fit.json")
    back = co.load(tmp_path / "fit.json")
    assert list(back.coefficients) == ["z", "m", "a"]
    assert back.scores(fed).tobytes() == fit.scores(fed).tobytes()


SCORER = """
import sys, numpy as np, colonnade as co
X = np.load(sys.argv[2])
fit = co.load(sys.argv[1])
sys.stdout.write(fit.scores(co.Federation.split(X, np.zeros(len(X)), parties=3)).tobytes().hex())
"""


def test_a_saved_fit_scores_the_same_in_another_process(fitted, tmp_path):
    fit, _fed = fitted
    rng = np.random.default_rng(9)
    X = rng.normal(size=(50, 8))
    fit.save(tmp_path / "fit.json")
    np.save(tmp_path / "X.npy", X)
    arguments = [sys.executable, "-c", SCORER, str(tmp_path / "fit.json"), str(tmp_path / "X.npy")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True)
    fresh = co.Federation.split(X, np.zeros(50), parties=3)
    assert bytes.fromhex(done.stdout) == fit.scores(fresh).tobytes()


def test_a_model_fitted_on_frames_scores_frames_in_any_order(tmp_path):
    import polars as pl

    rng = np.random.default_rng(1)
    left = pl.DataFrame({"key": range(40), "a": rng.normal(size=40), "b": rng.choice(["u", "v"], 40)})
    right = pl.DataFrame({"key": range(40), "c": rng.normal(size=40), "y": rng.normal(size=40)})
    fed = co.Federation.from_frames({"l": left, "r": right}, on="key", label=("r", "y"))
    fit = co.fit(fed, LEAST, method=co.DistributedFrankWolfe(rounds=10))
    fit.save(tmp_path / "fit.json")
    frames = {"r": right.drop("y").sample(fraction=1.0, shuffle=True, seed=1), "l": left.reverse()}
    in_that_order = fit.scores(fed)[frames["r"]["key"].to_numpy()]
    assert co.load(tmp_path / "fit.json").scores(frames).tobytes() == in_that_order.tobytes()
    with pytest.raises(co.InvalidInput, match=r"'r' is missing"):
        fit.scores({"l": left})


def broken(text: str) -> dict[str, bytes]:
    head, body = text.split("\n", 1)
    header = json.loads(head)
    return {
        "empty": b"",
        "cut short": text.encode()[: len(text) // 2],
        "its head alone": head.encode(),
        "edited": text.replace('"intercept": ', '"intercept": 1', 1).encode(),
        "no text": b"\xff\xfe\x00",
        "no JSON": b"a model, honestly",
        "another JSON": b"[1, 2]\n",
        "a number": b"3\n{}",
        "a later version": (json.dumps({**header, "version": header["version"] + 1}) + "\n" + body).encode(),
        "another format": (json.dumps({**header, "format": "other"}) + "\n" + body).encode(),
        "no check-sum": (json.dumps({k: v for k, v in header.items() if k != "sha256"}) + "\n" + body).encode(),
    }


@pytest.mark.parametrize("how", broken('{"version": 1}\nbody'))
def test_a_file_that_is_not_a_saved_fit_is_refused_with_advice(fitted, tmp_path, how):
    fit, _ = fitted
    fit.save(tmp_path / "fit.json")
    (tmp_path / "fit.json").write_bytes(broken((tmp_path / "fit.json").read_text())[how])
    with pytest.raises(co.InvalidInput, match=r"Restore|restore|reads"):
        co.load(tmp_path / "fit.json")


def test_a_file_with_a_right_check_sum_and_wrong_content_is_refused(tmp_path):
    import hashlib

    body = "{}"
    head = {"format": "colonnade fit", "version": 1, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    (tmp_path / "fit.json").write_text(json.dumps(head) + "\n" + body)
    with pytest.raises(co.InvalidInput, match=r"fit"):
        co.load(tmp_path / "fit.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(co.InvalidInput, match=r"nowhere\.json.*Check the path"):
        co.load(tmp_path / "nowhere.json")


@pytest.mark.parametrize("where", ["missing/fit.json", "file/fit.json"])
def test_saving_where_one_cannot_write_is_a_store_error_with_advice(fitted, tmp_path, where):
    fit, _ = fitted
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(co.StoreError, match=r"writable"):
        fit.save(tmp_path / where)


def test_saving_over_a_fit_leaves_no_half_file(fitted, tmp_path):
    fit, _ = fitted
    fit.save(tmp_path / "fit.json")
    fit.save(tmp_path / "fit.json")
    assert [path.name for path in tmp_path.iterdir()] == ["fit.json"]


def test_scores_of_other_columns_are_refused(fitted):
    fit, _ = fitted
    rng = np.random.default_rng(0)
    narrow = co.Federation.split(rng.normal(size=(5, 6)), np.zeros(5), parties=3)
    with pytest.raises(co.InvalidInput, match=r"fitted on 3"):
        fit.scores(narrow)
    strangers = co.Federation.split(rng.normal(size=(5, 8)), np.zeros(5), parties={"x": range(8)})
    with pytest.raises(co.InvalidInput, match=r"'party0' is missing"):
        fit.scores(strangers)


def test_what_stays_at_a_party_is_refused_by_name():
    from colonnade.model.facts import Coefficients

    held = Coefficients({"a": np.ones(2)}, elsewhere=("b",))
    with pytest.raises(co.HeldByParty, match=r"'b'.*ask its operator"):
        held["b"]
    assert list(held) == ["a", "b"]


def test_rounds_that_agents_count_are_no_history_and_figures_are():
    from types import SimpleNamespace

    from colonnade.runs.fit import RunDriver

    shown: list[dict] = []
    job = SimpleNamespace(privacy=co.Privacy(1.0, 1e-6))
    run = SimpleNamespace(job=job, notes=[], show=shown.append, began=0.0)
    RunDriver.listen(run, "party0", {"round": 1, "party": "party0"})
    assert run.notes == shown == []
    RunDriver.listen(run, "party0", {"round": 1, "residual": 0.5})
    RunDriver.listen(run, "coordinator", {"round": 2})
    assert run.notes == shown == [{"round": 1, "residual": 0.5}, {"round": 2}]
    run.job.privacy = None
    RunDriver.listen(run, "coordinator", {"round": 3})
    assert set(run.notes[-1]) == {"round", "seconds"}
