"""Claims about audits: they break what is broken, leave alone what is sound, and catch bugs planted in real code.

Every verdict errs with probability at most 1e-6, so the sound targets below are accused less than once in 10,000
runs of this file. What must be violated is so far over its claim that it is missed less often still.
"""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import colonnade as co
import colonnade.attacks.run
from colonnade.attacks import gram, mechanisms
from colonnade.attacks.lower_bound import Verdict
from colonnade.attacks.setting import CLAIMS, Adversary, Target
from colonnade.errors import InvalidInput, LeakError, LedgerDamaged
from colonnade.estimators import recipe
from colonnade.kernels.sparse_fw import Picks
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.mechanisms import SeededNoise, SystemNoise, gaussian_sigma
from colonnade.privacy.statement import Guarantee
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Private

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

audits = importlib.import_module("colonnade.attacks.run")  # the module: its function may stand before it as `co.audit`
audit, TARGETS = audits.audit, audits.TARGETS

EVERY_ATTACK = [(name, adversary) for name, target in TARGETS.items() for adversary in target.adversaries]
FEW = {
    "gaussian": 50_000,
    "replay": 5_000,
    "frank-wolfe": 200,
}  # trials of a test that only must not accuse
ESTIMATORS = ("class-sums", "screened-sums", "noisy-gradient", "sparse-picks")
CHEAP = ("gaussian", "replay", "noisy-max")  # of the others quick tests ask one claim, a full audit all
FEW |= dict.fromkeys(ESTIMATORS, 200)
WHOLE_RUNS = gram.ATTACKS  # attacked in tests of their own, with fewer trials
# So are these (test_private_block_frank_wolfe, test_private_admm): here only their names are followed to the attack.
FEW |= dict.fromkeys(("block-frank-wolfe", "shared-choice", "sharing-admm", "sharing-admm-column"), 10)
QUICK = [
    (*attack, claim)
    for attack in EVERY_ATTACK
    for claim in CLAIMS
    if (claim == 1.0 or attack[0] in CHEAP) and attack[0] not in WHOLE_RUNS
]


def bare(setting, inside, trials):
    """A release without any noise: which of the two tables was used."""
    return np.full(trials, float(inside))


LEAKY = Target("a table's name", "replace one row", {"reader": Adversary("the name", "the name", bare)}, 10_000, 5_000)


# ---------------------------------------------------------------- verdicts


@pytest.mark.chance(1e-10, "worst rates that obey the claim, exact binomials: 4e-11 a way round")
@pytest.mark.thinned("audit")
@pytest.mark.parametrize(("name", "adversary", "claim"), QUICK)
def test_ours_is_consistent_with_its_claim(name, adversary, claim):
    verdict = audit(name, epsilon=claim, trials=FEW.get(name, 500), adversary=adversary)
    assert not verdict.violated
    assert claim == verdict.claim


@pytest.mark.audit
@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(("name", "adversary"), EVERY_ATTACK)
def test_ours_is_consistent_with_its_claim_in_a_full_audit(name, adversary, claim):
    trials = {"gaussian": 2_000_000, "replay": 200_000}.get(name, 10_000)
    trials = 300 if name in WHOLE_RUNS and name not in ("gram", "curve-gram", "shared-gram") else trials
    assert not audit(name, epsilon=claim, trials=trials, adversary=adversary).violated


# ---------------------------------------------------------------- planted bugs


def no_gaussian(self, size, sigma):
    return np.zeros(size, dtype=np.int64)


def no_choice(self, scores, scale):
    return int(np.argmax(scores))


def same_stream(self, size, sigma):
    """Every release starts the same generator again; many trials are one call here, so all get the same number."""
    return np.full(size, SeededNoise(7).discrete_gaussian(1, sigma)[0])


def exact_sign(noise, scores, scale):
    index = noise.gumbel_argmax(np.abs(scores), scale)
    return index, 1 if scores[index] > 0 else -1


def per_row(value, sensitivity):
    return Private(value, sensitivity / 21)


def plant_no_gaussian(patch):
    patch.setattr(SystemNoise, "discrete_gaussian", no_gaussian)


def plant_no_choice(patch):
    patch.setattr(SystemNoise, "gumbel_argmax", no_choice)


def plant_half_sensitivity(patch):
    patch.setattr("colonnade.privacy.mechanisms.gaussian_sigma", lambda delta, rho: gaussian_sigma(delta / 2, rho))


def plant_mean_sensitivity(patch):
    patch.setattr("colonnade.methods.frank_wolfe.central.Private", per_row)


def plant_exact_sign(patch):
    patch.setattr("colonnade.privacy.mechanisms.signed_argmax", exact_sign)


def plant_same_stream(patch):
    patch.setattr(SystemNoise, "discrete_gaussian", same_stream)


def plant_new_noise_on_replay(patch):
    forget_what_was_recorded(patch)
    patch.setattr(Ledger, "take", lambda self, run, event: "anything")


def plant_raw_rows(patch):
    patch.setattr("colonnade.estimators.recipe.clipped", lambda X, bound: sparse.csr_array(X))
    patch.setattr("colonnade.estimators.recipe.unit_rows", lambda rows, power: rows)


def plant_gradients_of_short_rows(patch):
    """Noise for rows a thousand times shorter than they are."""
    gaussian = Gate.gaussian

    def cheap(self, *exact, rho):
        fewer = [Private(p.value, p.sensitivity / 1000) for p in exact] if exact[0].value.size == 3 else exact
        return gaussian(self, *fewer, rho=rho)

    patch.setattr(Gate, "gaussian", cheap)


def plant_residuals_uncut(patch):
    """Targets a hundred times too large, and nothing that cuts their residuals."""
    clip = np.clip
    fake = SimpleNamespace(**{name: getattr(np, name) for name in dir(np) if not name.startswith("__")})
    fake.clip = lambda a, low, high: 100.0 * np.asarray(a) if np.ndim(a) and low == -1.0 else clip(a, low, high)
    patch.setattr("colonnade.estimators.recipe.np", fake)


def plant_exact_picked_sign(patch):
    """The published fault: the column is drawn, its sign is that of the exact score."""
    whole = recipe.exact_picks

    def leaky(data, indices, indptr, y, **settings):
        picks, counts = whole(data, indices, indptr, y, **settings)
        columns = sparse.csc_array((data, indices, indptr), shape=(y.size, indptr.size - 1))
        slopes = columns.T @ (-y / 2.0)
        return Picks(picks.columns, np.where(slopes[picks.columns] >= 0, 1, -1).astype(np.int8)), counts

    patch.setattr(recipe, "exact_picks", leaky)


def plant_picks_without_noise(patch):
    whole = recipe.exact_picks
    patch.setattr(recipe, "exact_picks", lambda *a, scale, **more: whole(*a, scale=1e3 * scale, **more))


def plant_sizes_of_columns_unpaid(patch):
    gaussian = Gate.gaussian

    def bare(self, *exact, rho):
        fewer = [Private(p.value, 1e-3) for p in exact] if abs(exact[0].sensitivity - 2**0.5) < 1e-6 else exact
        return gaussian(self, *fewer, rho=rho)

    patch.setattr(Gate, "gaussian", bare)


def forget_what_was_recorded(patch):
    begin = Gate.begin
    patch.setattr(Gate, "begin", lambda self, tick, number, recorded: begin(self, tick, number, None))


BUGS = [
    ("gaussian", "receiver", plant_no_gaussian, 1_000),
    ("noisy-max", "receiver", plant_no_choice, 200),
    ("frank-wolfe", "coordinator", plant_no_choice, 200),
    ("frank-wolfe", "reader", plant_no_choice, 200),
    ("gaussian", "receiver", plant_half_sensitivity, 1_000_000),
    ("frank-wolfe", "coordinator", plant_mean_sensitivity, 1_000),
    ("noisy-max", "receiver", plant_exact_sign, 200),
    ("frank-wolfe", "coordinator", plant_exact_sign, 200),
    ("gaussian", "receiver", plant_same_stream, 1_000),
    ("replay", "receiver", plant_new_noise_on_replay, 50_000),
    ("class-sums", "receiver", plant_no_gaussian, 200),
    ("class-sums", "reader", plant_no_gaussian, 200),
    ("class-sums", "receiver", plant_raw_rows, 1_000),
    ("noisy-gradient", "reader", plant_no_gaussian, 200),
    ("noisy-gradient", "reader", plant_gradients_of_short_rows, 200),
    ("noisy-gradient", "receiver", plant_residuals_uncut, 400),
    ("screened-sums", "screener", plant_sizes_of_columns_unpaid, 200),
    ("sparse-picks", "receiver", plant_exact_picked_sign, 200),
    ("sparse-picks", "receiver", plant_picks_without_noise, 200),
    ("sparse-picks", "reader", plant_picks_without_noise, 200),
]


@pytest.mark.chance(1e-9, "both ways round must miss, by binomials at rates measured: below 1e-10")
@pytest.mark.thinned("audit")
@pytest.mark.parametrize(
    ("name", "adversary", "plant", "trials"), BUGS, ids=[f"{bug[0]}, {bug[1]}, {bug[2].__name__[6:]}" for bug in BUGS]
)
def test_a_planted_bug_is_caught(name, adversary, plant, trials, monkeypatch):
    plant(monkeypatch)
    assert audit(name, epsilon=1.0, trials=trials, adversary=adversary).violated


@pytest.mark.chance(0, "a refusal by the plan: nothing that was drawn is compared")
def test_a_gate_that_forgets_its_record_is_stopped_by_the_plan(monkeypatch):
    """New noise on replay needs two bugs: the plan has no second release to give."""
    forget_what_was_recorded(monkeypatch)
    with pytest.raises(LeakError, match="used up"):
        audit("replay", trials=10)


@pytest.fixture
def spent(tmp_path):
    """A store in which one run has been paid, and the call that paid it."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (12, 3)), np.array([1.0, -1.0] * 6)
    fed = co.Federation.split(
        X, y, parties={"holder": slice(None)}, label="holder", policies={"holder": co.Policy(epsilon=1.2, delta=1e-6)}
    )

    def call(rounds):
        return co.fit(
            fed,
            co.Problem(co.Logistic(), co.L1Ball(1.0)),
            co.CentralFrankWolfe(rounds=rounds),
            co.Privacy(epsilon=1.0, delta=1e-6, feature_bound=1.0),
            store=tmp_path,
        )

    call(2)
    return tmp_path / "nodes" / "holder.db", call


def row_total(file) -> float:
    log = FileLog(file)
    try:
        return Ledger(log, "holder", co.Policy()).row_spent()
    finally:
        log.close()


@pytest.mark.chance(0, "prices and refusals: nothing that was drawn is compared")
@pytest.mark.parametrize(
    ("forget", "told", "message"),
    [
        ("delete from log", 0.0, "lacks row"),  # an old copy put back: its chain is whole, a peer knows better
        ("delete from log where kind = 'open'", 1.0, "does not continue the chain"),  # its sums are kept apart
    ],
)
def test_a_budget_reset_by_deleted_rows_is_refused(spent, forget, told, message):
    file, call = spent
    paid = row_total(file)
    with pytest.raises(co.BudgetExhausted):
        call(3)
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        db.execute(forget)
    assert row_total(file) == told * paid  # the ledger alone would pay again where it tells of nothing
    assert paid > 0.0
    with pytest.raises(LedgerDamaged, match=message):
        call(4)


# ---------------------------------------------------------------- how an audit is asked for


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_says_what_is_attacked_how_and_by_whom(name):
    target = TARGETS[name]
    assert target.title
    assert target.neighbours.startswith(("replace one row", "change one column"))
    assert all(adversary.sees and adversary.statistic for adversary in target.adversaries.values())


@pytest.mark.chance(1e-9, "ten draws of sd 4 steps or more are all equal: 0.1 each")
def test_data_come_from_the_seed_and_noise_does_not():
    attack = TARGETS["gaussian"].adversaries["receiver"].attack
    setting, other = audits.Setting(1.0, 1e-5, seed=0), audits.Setting(1.0, 1e-5, seed=1)
    assert attack(setting, True, 10).tolist() != attack(setting, True, 10).tolist()
    for one, again in zip(mechanisms.table(setting, True), mechanisms.table(setting, True), strict=True):
        assert one.tolist() == again.tolist()
    assert mechanisms.table(setting, True)[0].tolist() != mechanisms.table(other, True)[0].tolist()


def test_two_processes_do_the_same_trials():
    alone, together = (audit(LEAKY, trials=6_000, jobs=jobs) for jobs in (1, 2))
    assert alone.violated
    assert together.violated
    assert 6_000 == alone.trials == together.trials


def test_the_two_data_sets_of_a_method_differ_in_one_row():
    for seed in range(5):
        (X, y), (other_X, other_y) = (mechanisms.table(audits.Setting(1.0, 1e-5, seed), side) for side in (True, False))
        assert X.tolist() == other_X.tolist()
        assert (y != other_y).sum() == 1


def test_progress_counts_every_trial_on_both_sides(monkeypatch, capsys):
    told = []

    @contextlib.contextmanager
    def recorder(wanted, title, rounds):
        told.append(rounds)
        yield lambda note: told.append(note["round"])
        told.append("stopped")

    monkeypatch.setattr(audits, "progress_bar", recorder)
    audit(LEAKY, trials=7_000, progress=True)
    assert told == [14_000, 5_000, 7_000, 12_000, 14_000, "stopped"]
    assert capsys.readouterr().out == ""


def test_results_are_told_as_texts():
    results = [
        audits.Result("gaussian", "receiver", 1e-5, Verdict(1.0, 0.25, 2_000, 1 - 1e-6)),
        audits.Result("leaky", "reader", 1e-3, Verdict(0.1, 5.7891, 10_000, 1 - 1e-6)),
    ]
    sound, broken = audits.rows(results)
    assert sound == {
        "target": "gaussian",
        "adversary": "receiver",
        "claim": "1",
        "delta": "1e-05",
        "lower bound": "0.25",
        "confidence": "1 - 1e-06",
        "trials": "2,000",
        "verdict": "consistent: proves nothing more",
    }
    assert (broken["lower bound"], broken["verdict"]) == ("5.79", "violated")


@pytest.mark.chance(0, "names, claims and counts of trials: no verdict is asserted")
def test_a_sweep_attacks_at_every_claim_by_every_adversary():
    results = [*audits.sweep({"leaky": LEAKY}, effort=0.01), *audits.sweep(["frank-wolfe"], effort=0.01)]
    asked = [(result.target, result.adversary, result.verdict.claim) for result in results]
    assert asked == [
        *(("leaky", "reader", claim) for claim in CLAIMS),
        *(("frank-wolfe", who, claim) for who in ("coordinator", "reader") for claim in CLAIMS),
    ]
    assert {100, 10} == {result.verdict.trials for result in results}


@pytest.mark.parametrize(
    ("ask", "advice"),
    [
        (lambda: audit("laplace"), "choose one of gaussian"),
        (lambda: audit("frank-wolfe", adversary="spy"), "choose coordinator, reader"),
        (lambda: audit("gaussian", epsilon=0.0), "epsilon > 0"),
        (lambda: audit("gaussian", delta=1.0), "0 < delta < 1"),
        (lambda: audit("gaussian", trials=1), "at least 2"),
        (lambda: audit("gaussian", trials=10, jobs=0), "at least 1"),
        (lambda: audits.sweep(["gaussian"], effort=0), "above 0"),
    ],
)
def test_an_audit_that_cannot_be_run_is_refused(ask, advice):
    with pytest.raises(InvalidInput, match=advice):
        ask()


# ---------------------------------------------------------------- the word behind a claim


def test_a_target_has_the_guarantee_that_a_statement_under_its_trust_model_has():
    """By hand: what is attacked under secure or inside a consortium rests on how people behave, picks on a stream."""
    conditional = {name for name, target in TARGETS.items() if target.guarantee is Guarantee.CONDITIONAL}
    whole = {"gram", "curve-gram", "gram-views", "class-sums-gram", "labels-gram", "shared-gram"}
    assert conditional == {*whole, "shared-choice", "sparse-picks"}
    assert Guarantee.CLAIMED not in {target.guarantee for target in TARGETS.values()}
    assert replace(LEAKY, claimed=True).guarantee is Guarantee.CLAIMED
    for name, target in TARGETS.items():
        if "trust 'secure'" in target.title or "consortium" in target.title:
            assert target.guarantee is Guarantee.CONDITIONAL, name
