"""Claims about private block Frank-Wolfe: its price to the last digit, its ball, its replays, and attacks on it."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import colonnade as co
from colonnade.attacks import frank_wolfe as audit_bfw
from colonnade.attacks.lower_bound import epsilon_lower_bound
from colonnade.methods.frank_wolfe import private_block as private
from colonnade.methods.frank_wolfe.private_block import PrivateBlockFrankWolfe
from colonnade.methods.frank_wolfe.private_spend import INSIDE
from colonnade.methods.method import Labels
from colonnade.model.job import Job
from colonnade.privacy.events import Charge, Mechanism, plan_rho, row_rho
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.store import FileLog, MemoryLog
from colonnade.privacy.values import Private
from colonnade.problem.problem import PublicLabels
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import decode
from tests.helpers import contract

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PRIVACY = co.Privacy(1.0, 1e-6, "nobody", feature_bound=1.0, label_bound=1.0)
RADIUS = 1.5
LOSSES = [co.LeastSquares(), co.Logistic(), co.SquaredHinge()]


def table(rows=120, columns=16, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, columns))
    return X, np.clip(X[:, 0] - X[:, 9], -1, 1)


def run(store, method, parties=3, loss=None, X=None, engine=None, privacy=PRIVACY, **options):
    plain, y = table()
    X, loss = plain if X is None else X, loss or co.LeastSquares()
    federation = co.Federation.split(X, np.sign(y) if loss.classifies else y, parties=parties, **options)
    problem = co.Problem(loss, co.L1Ball(RADIUS))
    fit = co.fit(federation, problem, method, privacy, store=store, engine=engine)
    return fit, Job(problem, federation.roster(), privacy)


def entries(store, party):
    log = FileLog(store / "nodes" / f"{party}.db")
    try:
        return Ledger(log, party, co.Policy()).entries()
    finally:
        log.close()


def norm(fit) -> float:
    return sum(np.abs(x).sum() for x in fit.coefficients.values())


# ---------------------------------------------------------------- the price


@pytest.mark.chance(0, "prices, and one to three columns a party: the first pick is always new")
@pytest.mark.parametrize(("parties", "public"), [(2, False), (3, True), (5, False), (8, True), (16, False), (16, True)])
def test_the_plan_costs_the_budget_and_the_ledger_what_was_released(tmp_path, parties, public):
    method = PrivateBlockFrankWolfe(rounds=3, labels=PublicLabels(table()[1]) if public else None)
    fit, job = run(tmp_path, method, parties)
    plans, spend = method.price(job), method.spend(job)
    assert row_rho(plans) == pytest.approx(job.rho, rel=1e-12)
    assert row_rho(plans) <= job.rho * (1 + 1e-12)
    for party in job.roster.with_columns:
        events = [entry.event for entry in entries(tmp_path, party)]
        picks = [event for event in events if event.mechanism is Mechanism.GUMBEL]
        columns = [event for event in events if event.mechanism is Mechanism.GAUSSIAN]
        assert [spend.rho_pick] * 3 == [event.rho for event in picks]
        assert {spend.rho_column} == {event.rho for event in columns}
        assert 1 <= len(columns) <= min(3, len(job.roster.positions[party]))
        assert math.fsum(event.rho for event in events) <= plan_rho(plans[party]) * (1 + 1e-12)
    labels = [entry.event.rho for entry in entries(tmp_path, "labels")]
    assert labels == ([] if public else [spend.rho_labels])
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    assert fit.privacy.guarantee == "proven"


@pytest.mark.chance(0, "prices: with one round each line is used, whatever is picked")
@pytest.mark.parametrize("parties", [2, 16])
def test_where_every_line_of_the_plan_is_used_the_ledger_is_the_price(tmp_path, parties):
    """One round: every party picks once and its column is new."""
    method = PrivateBlockFrankWolfe(rounds=1)
    _, job = run(tmp_path, method, parties)
    spent = [entry.event.rho for party in job.roster.parties for entry in entries(tmp_path, party)]
    assert math.fsum(spent) == pytest.approx(job.rho, rel=1e-12)
    assert math.fsum(spent) == pytest.approx(row_rho(method.price(job)), rel=1e-14)


@pytest.mark.chance(0, "letters and entries of one run are counted against each other")
@pytest.mark.parametrize("parties", [2, 4, 8, 16])
def test_what_crossed_the_wires_costs_what_the_ledgers_say(tmp_path, parties):
    """Counted from the letters themselves: a pick each, a column where one came along, the labels once."""
    tap = co.Tap(co.InProcess())
    method = PrivateBlockFrankWolfe(rounds=4)
    _, job = run(tmp_path, method, parties, engine=tap)
    spend, seen = method.spend(job), [(letter.sender, decode(letter.body)) for letter in tap.letters]
    for party in job.roster.parties:
        picks = [body for sender, body in seen if sender == party and type(body) is private.Pick]
        fresh, labels = (
            [p for p in picks if p.column],
            [b for s, b in seen if s == party and type(b) is Labels],
        )
        cost = [spend.rho_pick] * len(picks) + [spend.rho_column] * len(fresh) + [spend.rho_labels] * len(labels)
        assert sorted(cost) == sorted(entry.event.rho for entry in entries(tmp_path, party))
        assert len(picks) == (4 if party in job.roster.with_columns else 0)


@pytest.mark.chance(0, "letters and entries are counted against each other, whichever columns are picked")
def test_a_column_is_sent_and_paid_for_once(tmp_path):
    """Two columns a party and eight rounds: six picks at least are repeats, and they send nothing but a number."""
    tap = co.Tap(co.InProcess())
    X = table()[0][:, :4]
    _, job = run(tmp_path, PrivateBlockFrankWolfe(rounds=8), 2, X=X, engine=tap)
    letters = [(letter.sender, decode(letter.body)) for letter in tap.letters]
    picks = [(sender, body) for sender, body in letters if type(body) is private.Pick]
    for party in job.roster.with_columns:
        mine = [pick for sender, pick in picks if sender == party]
        fresh = [pick.index.value for pick in mine if pick.column]
        assert len(mine) == 8
        assert len(fresh) == len(set(fresh)) == len({pick.index.value for pick in mine}) <= 2
        paid = [e for e in entries(tmp_path, party) if e.event.mechanism is Mechanism.GAUSSIAN]
        assert len(paid) == len(fresh)


@pytest.mark.chance(0, "sensitivities follow from bounds and grids, not from what is drawn")
def test_the_sensitivity_of_a_pick_is_that_of_the_slope_over_its_largest_entry(tmp_path):
    """2·B, of whatever size the slope is that was received: at zero it is that of the labels everybody has."""
    y = 0.25 * table()[1]
    method = PrivateBlockFrankWolfe(rounds=1, labels=PublicLabels(y))
    run(tmp_path, method, 2)
    (pick, column) = (entry.event for entry in entries(tmp_path, "party0"))
    assert pick.sensitivity == pytest.approx(2, rel=1e-9)
    assert 2 * math.hypot(1, private.PRODUCT) <= column.sensitivity <= 2 * math.hypot(1, private.PRODUCT) * 1.01


@pytest.mark.chance(0, "sensitivities follow from bounds and grids, not from what is drawn")
def test_a_person_with_several_rows_is_charged_for_all_of_them(tmp_path):
    for name, unit in (("row", None), ("person", (np.arange(120) // 3, 3))):
        run(tmp_path / name, PrivateBlockFrankWolfe(rounds=1, labels=PublicLabels(table()[1])), unit=unit)
    one, three = ([e.event.sensitivity for e in entries(tmp_path / name, "party0")] for name in ("row", "person"))
    assert three == pytest.approx([3 * s for s in one], rel=2e-3)  # the grid of a sketch is a power of two


@pytest.mark.chance(0, "a sentence and an empty ledger")
def test_public_labels_are_named_as_unprotected_and_cost_nothing(tmp_path):
    fit, _ = run(tmp_path, PrivateBlockFrankWolfe(rounds=1, labels=PublicLabels(table()[1])))
    assert "public: neighbours keep them, unprotected" in fit.privacy.sentence
    assert entries(tmp_path, "labels") == []


# ---------------------------------------------------------------- the answer


@pytest.mark.chance(0, "the answer is projected onto the ball, whatever was drawn")
@pytest.mark.thinned("slow")
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("parties", [1, 4, 16])
def test_the_answer_lies_in_the_ball_whatever_was_drawn(tmp_path, loss, parties):
    fit, _ = run(tmp_path, PrivateBlockFrankWolfe(rounds=4), parties, loss)
    assert norm(fit) <= RADIUS * (1 + 1e-12)
    assert fit.objective is None
    assert fit.gap is None
    assert "seconds" not in fit.history.columns
    assert fit.status is co.Status.FIXED_ROUNDS


@pytest.mark.chance(0, "every answer is a mean of corners of the ball, whichever are picked")
@pytest.mark.thinned("slow")
@pytest.mark.parametrize("epsilon", [0.05, 8.0])
@pytest.mark.parametrize("parties", [2, 16])
def test_the_answer_of_a_consortium_lies_in_the_ball_whatever_was_drawn(tmp_path, parties, epsilon):
    privacy = co.Privacy(epsilon, 1e-6, trust="consortium", feature_bound=1.0, label_bound=1.0)
    fit, _ = run(tmp_path, PrivateBlockFrankWolfe(rounds=6), parties, privacy=privacy)
    assert norm(fit) <= RADIUS * (1 + 1e-12)


HUGE = co.Privacy(1e9, 1e-6, "nobody", feature_bound=1.0, label_bound=1.0)


@pytest.mark.chance(1e-10, "the quotient is 1 to 2e-8 (sd 3e-9 over 20 runs), and 0.85 is asked for")
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_with_a_budget_that_hides_nothing_the_model_is_that_of_the_quadratic(tmp_path, loss):
    """A sketch of as many rows as the table is the identity. Over 20 runs of each the quotient was 1 less 2e-8 at most."""
    method = PrivateBlockFrankWolfe(rounds=16, sketch_rows=120, labels=PublicLabels(np.sign(table()[1])))
    fit, _ = run(tmp_path, method, 4, loss, privacy=HUGE)
    X, y = table()
    y = np.sign(y)
    x = np.concatenate([fit.coefficients[f"party{k}"] for k in range(4)])
    model = private.Quadratic(*{co.Logistic: (0.5, 0.25)}.get(type(loss), (1.0, 1.0)))

    def quadratic(x):
        return float(np.mean(0.5 * model.bend * (X @ x) ** 2 - model.pull * y * (X @ x)))

    from colonnade.kernels.newton_model import quadratic_minimum

    best = quadratic_minimum(model.bend * X.T @ X, -model.pull * X.T @ y, RADIUS, np.zeros(16))
    assert quadratic(best) - 1e-9 <= quadratic(x) <= 0.85 * quadratic(best) < 0


def test_a_noisy_label_is_clipped_to_a_public_bound_and_keeps_its_scale():
    """One standard deviation beyond the bound; the slope of the clipped mean at zero is put back to 1 (100,000 draws, 5
    sigma)."""
    spend = PrivateBlockFrankWolfe(rounds=1).spend(job_of(2))
    rng, sigma = np.random.default_rng(0), spend.label_sigma
    made = private.clipped_labels(0.5 + sigma * rng.standard_normal(100_000), spend)
    limit = (1.0 + sigma) / math.erf((1 + sigma) / sigma / math.sqrt(2))
    assert np.abs(made).max() == pytest.approx(limit, rel=1e-12)
    assert made.mean() == pytest.approx(0.5, abs=5 * limit / math.sqrt(100_000))


def job_of(parties, privacy=PRIVACY, loss=None, rows=120, columns=16) -> Job:
    federation = co.Federation.split(np.zeros((rows, columns)), np.zeros(rows), parties=parties)
    return Job(co.Problem(loss or co.LeastSquares(), co.L1Ball(RADIUS)), federation.roster(), privacy)


def test_the_sketch_grows_with_the_rows_and_has_as_many_as_columns():
    method = PrivateBlockFrankWolfe()
    small, large = (method.spend(job_of(2, rows=rows)) for rows in (500, 500_000))
    assert small.rounds == 1
    assert small.rows % 4 == 0
    assert small.rows < large.rows <= 500_000
    assert large.rows >= 2 * large.rounds


@pytest.mark.parametrize(
    ("parties", "epsilon", "rounds"), [(2, 1.0, 1), (2, 50.0, 4), (2, 100.0, 5), (8, 100.0, 1), (8, 1000.0, 3)]
)
def test_rounds_bring_as_many_columns_as_the_bound_is_least_for(parties, epsilon, rounds):
    """`reach` columns are as long as their noise in a sketch of as many rows: reach² is ‖a‖²/σ², σ with one column. The
    least bound is looked for on a grid of numbers of columns."""
    job = job_of(parties, co.Privacy(epsilon, 1e-6, feature_bound=1.0, label_bound=1.0), rows=20_000)
    one = PrivateBlockFrankWolfe(rounds=1).spend(job)
    reach = math.sqrt(0.1 * 20_000 * sum(one.quota.values())) / one.sigma(1)
    columns = np.linspace(0.0, 400.0, 400_001)
    least = columns[np.argmin(4.0 / (columns + 2.0) + 4.0 * columns / reach)]
    planned = PrivateBlockFrankWolfe().spend(job).rounds
    assert planned == rounds
    assert planned == 1 or abs(parties * planned - least) <= parties / 2 + 1e-3


@pytest.mark.chance(0, "the answer is projected onto the ball; the warning is about the table")
def test_duplicate_and_empty_columns_are_taken_as_they_come(tmp_path):
    X = table()[0]
    X[:, 1:4] = X[:, [0]]
    X[:, 4:10] = 0.0
    for name, matrix in (("dense", X), ("sparse", sparse.csc_array(X))):
        fit, _ = run(tmp_path / name, PrivateBlockFrankWolfe(rounds=6), 3, X=matrix)
        assert np.isfinite(norm(fit))
        assert norm(fit) <= RADIUS * (1 + 1e-12)
    with pytest.warns(co.NothingToLearn, match="hold one value in all 120 rows"):
        fit, _ = run(tmp_path / "nothing", PrivateBlockFrankWolfe(rounds=2), 2, X=np.zeros((120, 4)))
    assert norm(fit) <= RADIUS * (1 + 1e-12)


def test_a_sparse_table_gives_the_releases_of_the_same_dense_one():
    X = table()[0] * (np.random.default_rng(2).random((120, 16)) < 0.2)
    models = []
    for matrix in (X, sparse.csc_array(X)):
        block = co.Federation.split(matrix, np.zeros(120), parties=1).parties["party0"].block
        models.append(private.HashedSketch("run", 40, 120).of(block, 3))
    assert models[0].tolist() == models[1].tolist()


@pytest.mark.chance(0, "the second run is compared with what the first one drew")
def test_an_interrupted_run_goes_on_and_nothing_is_drawn_twice(tmp_path):
    seen = []

    def cut(letter):
        seen.append(letter)
        if len(seen) == 17:
            raise KeyboardInterrupt
        return (letter,)

    method = PrivateBlockFrankWolfe(rounds=5)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, method, engine=co.Faults(co.InProcess(), cut))
    before = [(e.tick, e.slot, e.event) for e in entries(tmp_path, "party1")]
    tap = co.Tap(co.InProcess())
    run(tmp_path, method, engine=tap)
    second = [(e.tick, e.slot, e.event) for e in entries(tmp_path, "party1")]
    assert before
    assert before == second[: len(before)]
    assert len(second) == len(set(second))
    resent = {letter.body for letter in tap.letters}
    assert {letter.body for letter in seen[:16]} <= resent  # the same bytes, noise and all


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: PrivateBlockFrankWolfe(rounds=0), "positive integer"),
        (lambda: PrivateBlockFrankWolfe(sketch_rows=2.5), "positive integer"),
        (lambda: PrivateBlockFrankWolfe(label_share=1.0), "between 0 and 1"),
        (lambda: PrivateBlockFrankWolfe(labels=[1.0]), "PublicLabels"),
        (lambda: PublicLabels([[1.0]]), "one finite number"),
        (lambda: PublicLabels([1.0, math.nan]), "one finite number"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(make, advice):
    with pytest.raises(co.InvalidInput, match=advice):
        make()


@pytest.mark.parametrize(
    ("method", "job", "advice"),
    [
        (PrivateBlockFrankWolfe(sketch_rows=121), job_of(2), r"more than the 120 rows.*at most 120"),
        (PrivateBlockFrankWolfe(labels=PublicLabels(np.ones(7))), job_of(2), "7 public labels"),
        (PrivateBlockFrankWolfe(labels=PublicLabels(np.zeros(120))), job_of(2, loss=co.Logistic()), "-1 or \\+1"),
        (PrivateBlockFrankWolfe(), job_of(2, co.Privacy(1.0, 1e-6, "nobody")), "feature_bound"),
        (PrivateBlockFrankWolfe(), job_of(2, co.Privacy(1.0, 1e-6, "nobody", feature_bound=1.0)), "label_range"),
        (PrivateBlockFrankWolfe(), job_of(2, None), "feature_bound"),
        (
            PrivateBlockFrankWolfe(),
            job_of(2, co.Privacy(1.0, 1e-6, trust="secure", feature_bound=1.0, label_bound=1.0)),
            "'nobody' and 'consortium'",
        ),
        (PrivateBlockFrankWolfe(), job_of(2, loss=co.Huber(1.0)), "LeastSquares, Logistic and SquaredHinge"),
        (
            PrivateBlockFrankWolfe(labels=PublicLabels(np.ones(120))),
            job_of(2, co.Privacy(1.0, 1e-6, trust="consortium", feature_bound=1.0, label_bound=1.0)),
            "consortium keeps",
        ),
    ],
)
def test_a_job_that_cannot_be_done_is_refused_before_anything_is_sent(method, job, advice):
    with pytest.raises(co.InvalidInput, match=advice):
        method.check(job)


@pytest.mark.parametrize("question", ["InsideTurn", "SendColumn"])
def test_a_party_that_trusts_nobody_answers_no_question_of_a_consortium(question):
    """A coordinator that turns to asking for exact columns is refused by the party's own program, and nothing was
    sent."""
    job, spend = job_of(2), PrivateBlockFrankWolfe(rounds=2).spend(job_of(2))
    inside = inside_gate()
    asked = (
        private.InsideTurn(inside.inside(np.ones(120)))
        if question == "InsideTurn"
        else private.SendColumn(inside.inside(0))
    )
    block = co.Federation.split(table()[0], table()[1], parties=1).parties["party0"].block
    program = private.party(job, block, contract.gate(), spend)
    next(program)
    with pytest.raises(co.ProtocolError, match=f"sent {question}"):
        program.send({COORDINATOR: asked})


def inside_gate() -> Gate:
    book = Ledger(MemoryLog(), "a", co.Policy(consortium=True))
    book.open_run("run", Terms("m", "s", "consortium", "", "", ""), {"a": (Charge(INSIDE, 9, "x"),)})
    return Gate(book, "run", SystemNoise())


# ---------------------------------------------------------------- attacks


ATTACKS = {"block-frank-wolfe": audit_bfw.sketches, "shared-choice": audit_bfw.models}


def attacked(name, claim=1.0, trials=200, delta=1e-5):
    setting = SimpleNamespace(epsilon=claim, delta=delta, seed=0)
    inside, outside = (ATTACKS[name](setting, side, trials) for side in (True, False))
    return epsilon_lower_bound(inside, outside, delta, 1 - 1e-7).against(claim)


@pytest.mark.chance(1e-7, "the level of the lower bound")
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_method_finds_no_more_than_it_claims(name):
    """A verdict "violated" is wrong with probability at most 1e-7."""
    assert not attacked(name).violated


@pytest.mark.audit
@pytest.mark.parametrize("claim", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_method_finds_no_more_than_it_claims_in_a_full_audit(name, claim):
    assert not attacked(name, claim=claim, trials=10_000).violated


def per_row(value, sensitivity):
    """The published calibration: as if the sensitivity were that of a mean, here over 200 rows."""
    return Private(value, sensitivity / 200)


def plant_published_sensitivity(patch):
    patch.setattr(private, "Private", per_row)


def plant_no_noise_on_sketches(patch):
    patch.setattr(SystemNoise, "discrete_gaussian", lambda self, size, sigma: np.zeros(size, dtype=np.int64))


def plant_no_choice(patch):
    """The steepest column itself, both inside a party and over the parties."""
    from colonnade.privacy import mechanisms

    own_part = mechanisms.own_part

    def steepest(noise, scores, scale):
        index = int(np.argmax(np.abs(scores)))
        _, _, mass = own_part(noise, scores, scale)
        return index, 1 if scores[index] > 0 else -1, mass

    patch.setattr(mechanisms, "own_part", steepest)
    patch.setattr(mechanisms, "signed_argmax", lambda noise, scores, scale: steepest(noise, scores, scale)[:2])


def plant_product_not_counted(patch):
    """The product with the labels rides along without its share of the sensitivity, and unscaled."""
    patch.setattr(private, "PRODUCT", 400.0)
    patch.setattr(private, "Private", lambda value, s: Private(value, 2.0 if value.size == 1 else s))


BUGS = [
    ("block-frank-wolfe", plant_published_sensitivity),
    ("block-frank-wolfe", plant_no_noise_on_sketches),
    ("block-frank-wolfe", plant_product_not_counted),
    ("shared-choice", plant_published_sensitivity),
    ("shared-choice", plant_no_choice),
]


@pytest.mark.chance(1e-9, "28 of 100 trials may miss an event chosen on 100 others: more do at 1.8e-10")
@pytest.mark.parametrize(("name", "plant"), BUGS, ids=[f"{name}, {plant.__name__[6:]}" for name, plant in BUGS])
def test_a_planted_bug_is_caught(name, plant, monkeypatch):
    plant(monkeypatch)
    assert attacked(name).violated
