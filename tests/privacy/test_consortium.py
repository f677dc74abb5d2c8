"""Claims about a consortium: exact values for members only, one choice by several parties, one price for the row.

Tests of a law compare counts with exact probabilities and fail by chance less than once in 10,000,000 runs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import chisquare

import colonnade as co
from colonnade.methods.frank_wolfe.private_block import PrivateBlockFrankWolfe
from colonnade.methods.frank_wolfe.private_spend import INSIDE
from colonnade.methods.node_setup import conditions_of
from colonnade.model.job import Job
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.conditions import PLACE_BY_TABLE
from colonnade.privacy.events import Audience, Charge, Event, Mechanism, Scope, row_rho
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import (
    LEAST_RHO,
    SLACK,
    SeededNoise,
    SystemNoise,
    _whole_steps,
    choice_grid,
    draw_party,
    gumbel_scale,
    own_part,
    shared_scale,
)
from colonnade.privacy.store import FileLog, MemoryLog
from colonnade.privacy.values import Private
from colonnade.runs.preview import preview
from colonnade.runtime.node import Transcript
from colonnade.runtime.program import COORDINATOR
from tests.helpers.spending import own_spent

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RHO, WHAT = 0.5, "one choice"
PART = Charge(Event(Mechanism.GUMBEL, RHO, math.inf, Scope.JOINT, Audience.CONSORTIUM), 2, WHAT)
TAKEN = Charge(Event(Mechanism.GUMBEL, RHO, math.inf, Scope.JOINT), 2, WHAT)
MEMBERS = Charge(INSIDE, 2, "columns")
SCORES = Private(np.array([1.0, -2.0, 0.5]), 1.0)


def door(plan=(MEMBERS, PART, TAKEN), trust="consortium", log=None, noise=None) -> Gate:
    book = Ledger(log or MemoryLog(), "a", co.Policy(consortium=True))
    book.open_run("run", Terms("m", "s", trust, "one row", "replace one row", "0"), {"a": plan})
    return Gate(book, "run", noise or SystemNoise())


# ---------------------------------------------------------------- inside


def test_what_passes_inside_is_exact_recorded_and_free_against_outsiders():
    gate = door()
    gate.begin(0, 1, None)
    one, (two, three) = gate.inside(np.arange(3.0)), gate.inside(1, 2.5)
    gate.flush()
    assert one.value.tolist() == [0.0, 1.0, 2.0]
    assert (two.value, three.value) == (1, 2.5)
    events = [entry.event for entry in gate._ledger.entries()]
    assert events == [INSIDE, INSIDE]
    assert gate.receipt().rho == 0.0


@pytest.mark.parametrize("trust", ["nobody", "secure"])
@pytest.mark.parametrize("call", [lambda g: g.inside(1.0), lambda g: g.entrust(SCORES, rho=RHO)])
def test_without_a_consortium_nothing_passes_to_members_only(trust, call):
    """Even if a method's plan lists it: whom a run trusts is in its terms, not in its plan."""
    with pytest.raises(co.LeakError, match=rf"trust model of this run is '{trust}'.*Nothing was sent"):
        call(door(trust=trust))


@pytest.mark.parametrize(
    "call",
    [
        lambda g: [g.inside(1.0) for _ in range(3)],
        lambda g: g.entrust(SCORES, rho=2 * RHO),
        lambda g: g.publish(Private((1, 2), 1.0), rho=RHO / 2),
        lambda g: g.noisy_max(SCORES, rho=RHO),
    ],
    ids=["more than planned", "dearer", "cheaper", "for everybody"],
)
def test_a_release_outside_the_plan_is_refused_inside_too(call):
    with pytest.raises(co.LeakError, match="not in the plan"):
        call(door())


def test_under_repeatable_noise_nothing_inside_is_free():
    """Whoever knows the seed can subtract the noise of the choice, and then sees what was inside."""
    exact = Charge(Event(Mechanism.EXACT, math.inf, math.inf, Scope.OWN, Audience.CONSORTIUM), 1, "columns")
    book = Ledger(MemoryLog(), "a", co.Policy(exact=True))
    book.open_run("run", Terms("m", "s", "consortium", "one row", "replace one row", "0"), {"a": (exact,)})
    gate = Gate(book, "run", SeededNoise(1))
    gate.inside(1.0)
    assert math.isinf(gate.receipt().rho)


# ---------------------------------------------------------------- one choice by several parties


@pytest.mark.chance(5e-8, "chi-square at 1e-9; with 12 expected in its least cell, tails are a few times heavier")
def test_a_choice_by_several_parties_has_the_law_of_the_central_one():
    parts = [np.array([2.0, -1.0, 0.3]), np.array([-2.5, 0.0]), np.array([1.2])]
    noise, scale, trials = SystemNoise(), shared_scale(1.0, RHO), 4500
    signed = np.concatenate([np.concatenate([part, -part]) for part in parts])
    law = np.exp(signed / scale) / np.exp(signed / scale).sum()
    first, counts = np.cumsum([0, 6, 4]), np.zeros(12)
    for _ in range(trials):
        offers = [own_part(noise, part, scale) for part in parts]
        k = draw_party(noise, [mass for *_, mass in offers], scale)
        index, sign, _ = offers[k]
        counts[first[k] + index + (parts[k].size if sign < 0 else 0)] += 1
    assert chisquare(counts, law * trials).pvalue > 1e-9


@pytest.mark.chance(1e-8, "chi-square at 1e-9, with 137 expected in its least cell")
def test_the_gate_draws_that_law_too():
    """Two parties of one column each: sign and party, through the gates."""
    scores, trials = [Private(np.array([1.0]), 1.0), Private(np.array([-0.5]), 1.0)], 2000
    plan = (Charge(PART.event, 2 * trials, WHAT), Charge(TAKEN.event, trials, WHAT))
    scale, counts, gate = shared_scale(1.0, RHO), np.zeros(4), door(plan)
    for trial in range(trials):
        gate.begin(trial, trial, None)
        offers = [gate.entrust(score, rho=RHO) for score in scores]
        k = gate.publish(Private(tuple(mass.value for *_, mass in offers), 1.0), rho=RHO).value
        counts[2 * k + (offers[k][1].value < 0)] += 1
    signed = np.array([1.0, -1.0, -0.5, 0.5]) / scale
    assert chisquare(counts, np.exp(signed) / np.exp(signed).sum() * trials).pvalue > 1e-9


@pytest.mark.chance(0, "a mass follows from the scores: the pick that was drawn is not looked at")
@settings(max_examples=60)
@given(
    scores=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30),
    rho=st.floats(1e-8, 10.0),
    sensitivity=st.floats(1e-3, 1e3),
)
def test_a_mass_is_off_by_less_than_one_step_which_the_scale_pays_for(scores, rho, sensitivity):
    scale = shared_scale(sensitivity, rho)
    grid, steps = choice_grid(scale)
    *_, mass = own_part(SystemNoise(), np.array(scores), scale)
    signed = np.array([*scores, *(-s for s in scores)])
    heights = [int(h) for h in _whole_steps(signed, grid)]
    mp.prec = 200
    best = max(heights)
    total = sum(mpf(2) ** -min(mpf(best - h) / steps, mpf(128)) for h in heights)
    assert abs(best + steps * mp.log(total, 2) - mass) < 1
    # On two neighbours a mass may be wrong by a step each, and cutting scores to the grid costs one: three in all.
    assert 2 * grid <= SLACK * sensitivity
    assert scale >= gumbel_scale(sensitivity, rho)


@pytest.mark.chance(1e-50, "50 draws, another party with 2^-200 each")
def test_a_party_that_is_hopeless_and_one_that_is_certain_are_drawn_so():
    noise, scale = SystemNoise(), shared_scale(1.0, RHO)
    _, steps = choice_grid(scale)
    assert all(draw_party(noise, [0, 200 * steps, -(2**62)], scale) == 1 for _ in range(50))


def test_a_price_below_the_resolution_of_a_shared_choice_is_refused():
    with pytest.raises(co.InvalidInput, match="spend at least"):
        shared_scale(1.0, LEAST_RHO / 2)


def test_a_choice_by_many_parties_is_paid_by_each_and_counts_once_for_the_row():
    plans = {"a": (PART, MEMBERS), "b": (PART,), "c": (PART,), COORDINATOR: (TAKEN, MEMBERS)}
    assert row_rho(plans) == 2 * RHO


@pytest.mark.chance(0, "draws beside their own record; scores that differ are told by their bytes")
def test_a_recorded_part_and_a_recorded_winner_are_read_back(tmp_path):
    log = FileLog(tmp_path / "a.db")
    gate = door(log=log)
    gate.begin(0, 0, None)
    first = gate.entrust(SCORES, rho=RHO), gate.publish(Private((5, 6, 7), 1.0), rho=RHO), gate.inside(4)
    Transcript(log, "run").record(0, {}, {}, gate)
    again = door(log=log)
    again.begin(0, 0, next(iter(Transcript(log, "run").steps())).releases)
    assert first == (again.entrust(SCORES, rho=RHO), again.publish(Private((5, 6, 7), 1.0), rho=RHO), again.inside(4))
    once_more = door(log=log)
    once_more.begin(0, 0, next(iter(Transcript(log, "run").steps())).releases)
    with pytest.raises(co.ReplayDiverged):
        once_more.entrust(Private(SCORES.value + 1e-9, 1.0), rho=RHO)
    log.close()


# ---------------------------------------------------------------- a whole run


PRIVACY = co.Privacy(1.0, 1e-6, trust="consortium", feature_bound=1.0, label_bound=1.0)
METHOD = PrivateBlockFrankWolfe(rounds=6)


def table(rows=80, columns=7):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, columns))
    return X, np.clip(X[:, 0] - X[:, 5], -1, 1)


def run(store, loss=None, parties=3, engine=None, method=METHOD):
    X, y = table()
    loss = loss or co.LeastSquares()
    federation = co.Federation.split(X, np.sign(y) if loss.classifies else y, parties=parties)
    problem = co.Problem(loss, co.L1Ball(1.5))
    return co.fit(federation, problem, method, PRIVACY, store=store, engine=engine), federation, problem


def book(store, node) -> Ledger:
    return Ledger(FileLog(store / "nodes" / f"{node}.db"), node, co.Policy())


@pytest.mark.chance(0, "prices, and a bound that every model keeps")
@pytest.mark.parametrize("loss", [co.LeastSquares(), co.Logistic(), co.SquaredHinge()])
@pytest.mark.parametrize("parties", [2, 7])
def test_the_row_pays_the_budget_once_however_many_parties(tmp_path, loss, parties):
    fit, federation, problem = run(tmp_path, loss, parties)
    plans = METHOD.price(Job(problem, federation.roster(), PRIVACY))
    assert row_rho(plans) == pytest.approx(Job(problem, federation.roster(), PRIVACY).rho, rel=1e-12)
    assert fit.privacy.guarantee == "conditional"  # on members who keep what they hold to themselves
    assert fit.privacy.trust == "consortium"
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    for name in ("party0", "party1"):
        assert book(tmp_path, name).row_spent() == pytest.approx(row_rho(plans), rel=1e-12)
        assert own_spent(book(tmp_path, name)) == 0.0
    outside = [e for e in book(tmp_path, COORDINATOR).entries() if e.event.audience is Audience.ALL]
    assert [METHOD.rounds] == [len(outside)]
    assert sum(np.abs(x).sum() for x in fit.coefficients.values()) <= 1.5 * (1 + 1e-12)


@pytest.mark.chance(0, "which figures there are, whatever was chosen")
def test_a_fit_of_a_consortium_carries_no_exact_figure(tmp_path):
    fit, *_ = run(tmp_path)
    assert (fit.objective, fit.gap, fit.seconds) == (None, None, None)
    assert set(fit.history.columns) == {"round", "step"}


@pytest.mark.chance(0, "sizes of columns, one of which is sent in the first round whoever wins")
def test_sizes_on_the_wire_do_not_tell_how_sparse_a_column_is(tmp_path):
    """The Fit counts bytes, and the Fit is published."""
    sizes = set()
    for name, keep in (("full", 1.0), ("sparse", 0.02)):
        X, y = table()
        X[np.random.default_rng(1).random(X.shape) > keep] = 0.0
        federation = co.Federation.split(X, y, parties=2)
        fit = co.fit(federation, co.Problem(co.LeastSquares(), co.L1Ball(1.5)), METHOD, PRIVACY, store=tmp_path / name)
        sizes |= {line[5] // line[4] for line in fit.communication.lines if line[2] == "InsideColumn"}
    assert len(sizes) == 1


@pytest.mark.chance(0, "its record beside itself: party0 has drawn by the sixth letter, and each run has over 40")
def test_an_interrupted_consortium_goes_on_and_pays_nothing_twice(tmp_path):
    seen = []

    def cut(letter):
        seen.append(letter)
        if len(seen) == 30:
            raise KeyboardInterrupt
        return (letter,)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, engine=co.Faults(co.InProcess(), cut))
    before = {n: [(e.tick, e.slot, e.event) for e in book(tmp_path, n).entries()] for n in ("party0", COORDINATOR)}
    fit, *_ = run(tmp_path)
    assert before["party0"]
    for name, rows in before.items():
        after = [(e.tick, e.slot, e.event) for e in book(tmp_path, name).entries()]
        assert rows == after[: len(rows)]
        assert len(set(after)) == len(after)
    assert fit.status is co.Status.FIXED_ROUNDS


# ---------------------------------------------------------------- noisy labels that members alone are told


def released_labels(trust):
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 1, (60, 4))
    federation = co.Federation.split(X, np.where(X[:, 0] > 0.5, 1.0, -1.0), parties=2)
    asked = co.Privacy(1.0, 1e-6, trust=trust, row_norm=1.0)
    return federation, co.Problem(co.Logistic(), penalty=co.Ridge(1e-3)), co.PrivateGram(labels="released"), asked


@pytest.mark.chance(0, "prices and words: nothing that was drawn is compared")
@pytest.mark.parametrize(("trust", "told"), [("consortium", False), ("secure", True)])
def test_readers_of_the_model_of_a_consortium_see_no_labels(tmp_path, trust, told):
    """Its coordinator sends them to the parties, and to nobody else; without a consortium they count as public."""
    federation, problem, method, asked = released_labels(trust)
    fit = co.fit(federation, problem, method, asked, store=tmp_path)
    assert ("the labels, noisy" in fit.privacy.sees) == told
    words = (
        "noisy class sums of the columns"
        if told
        else "class sums of the columns (exact inside the consortium, noisy outside)"
    )
    assert words in fit.privacy.sees
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)  # sums by them leave, so that they are paid for
    (line,) = [e for e in book(tmp_path, federation.label).entries() if e.event.mechanism is Mechanism.GAUSSIAN]
    assert line.event.audience == ("all" if told else "consortium")
    (shown,) = [
        c for c in preview(federation, problem, method, asked, store=tmp_path).lines if c.what == "the labels, noisy"
    ]
    assert shown.seen_by == ("everybody" if told else "the parties and their coordinator")


@pytest.mark.chance(1e-20, "20 of 40 draws would have to repeat another, each with 0.016: 2e-25")
def test_noise_for_members_is_noise_and_without_a_consortium_there_are_none():
    line = Charge(Event(Mechanism.GAUSSIAN, RHO, math.inf, audience=Audience.CONSORTIUM), 2, "labels")
    exact = Private(np.zeros(40), 1.0)
    released = door((line,)).gaussian(exact, rho=RHO, audience=Audience.CONSORTIUM).value
    assert len(set(released.tolist())) > 20  # 40 draws of sd 1 on a grid finer than 1/1024
    with pytest.raises(co.LeakError, match="not in the plan"):
        door((line,)).gaussian(exact, rho=RHO)
    with pytest.raises(co.LeakError, match="trust model of this run is 'secure'"):
        door((line,), trust="secure").gaussian(exact, rho=RHO, audience=Audience.CONSORTIUM)


def test_a_party_that_shows_members_nothing_exact_is_told_what_would_be_and_not_what_is_noisy(tmp_path):
    federation, problem, method, asked = released_labels("consortium")
    with pytest.raises(
        co.PolicyRefused, match=r"class sums of the columns \(exact inside the consortium, noisy outside\)"
    ) as refused:
        co.fit(federation.with_policies({federation.label: co.Policy()}), problem, method, asked, store=tmp_path)
    assert "the labels" not in str(refused.value)


@pytest.mark.parametrize("way", ["Gram matrix", "choices"])
def test_no_line_of_a_member_calls_noisy_what_leaves_it_exact(way):
    """Members send exact sums, and every party's pick with its mass; words are the same at all nodes, or the row pays twice."""
    federation, problem, method, asked = released_labels("consortium")
    if way == "choices":
        problem, asked = (
            co.Problem(co.Logistic(), co.L1Ball(1.0)),
            co.Privacy(1.0, 1e-6, "consortium", feature_bound=1.0),
        )
        method = co.PrivateBlockFrankWolfe(rounds=2)
    plans = method.price(Job(problem, federation.roster(), asked))
    inside = [
        c for p, plan in plans.items() if p != COORDINATOR for c in plan if c.event.audience is Audience.CONSORTIUM
    ]
    exact = [c for c in inside if c.event.mechanism is not Mechanism.GAUSSIAN]
    assert exact
    assert all("exact inside" in c.what or "members" in c.what for c in exact)
    joint = {name: {c.what for c in plan if c.event.scope is Scope.JOINT} for name, plan in plans.items()}
    assert len({frozenset(words) for words in joint.values() if words}) == 1
    assert row_rho(plans) == pytest.approx(rho_for(1.0, 1e-6), rel=1e-9)


@pytest.mark.parametrize(
    ("trust", "place"),
    [("consortium", False), ("secure", True)],
)
def test_labels_that_stay_inside_have_no_place_outside(trust, place):
    """What leaves a consortium are sums by them, the same in every order of rows."""
    federation, problem, method, asked = released_labels(trust)
    job = Job(problem, federation.roster(), asked)
    assert (PLACE_BY_TABLE in conditions_of(job, method, keyed=False)) is place
