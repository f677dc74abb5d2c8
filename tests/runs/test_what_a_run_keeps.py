"""What a run keeps and tells of itself: its clock, its end, what makes it the same run again, and how a job of it ends."""

from __future__ import annotations

import itertools
import signal
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.errors import ProtocolError, StoreError
from colonnade.methods.gatekeeper import released_to_all
from colonnade.network.coordinator_service import job_key
from colonnade.network.job_queue import QueuedJob
from colonnade.network.refusals import PeerUndecided
from colonnade.privacy.events import ABORTED, FINISHED, MASKED, Audience, Charge, Ending, Event, How, Mechanism
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.runs import call as calls
from colonnade.runs import jobs as queue
from colonnade.runs.budgets import accounts, notes
from colonnade.runs.fit import RunDriver
from colonnade.runs.scoring import _check_elsewhere
from colonnade.runtime.hosted_node import HostedNode, Standing
from colonnade.runtime.run_store import RunStore
from tests.helpers.contract import EVERY_METHOD
from tests.helpers.contract import fitted as agreed
from tests.helpers.exact_fits import fitted, tables
from tests.helpers.hosts import answering

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

X = np.random.default_rng(0).uniform(-1, 1, (60, 4))
PARTIES = {"a": [0, 1], "b": [2, 3]}
PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(0.1))


def federation(**more) -> co.Federation:
    return co.Federation.split(X, np.sign(X[:, 0]), more.pop("parties", PARTIES), label=more.pop("label", "a"), **more)


# ------------------------------------------------------------------------------------------------ a fit


@pytest.mark.chance(0, "which fields there are, whatever was released")
def test_how_long_a_private_run_took_is_not_kept_and_terms_that_promise_nothing_are(tmp_path):
    """Time depends on the data. e^21 rules out next to nothing."""
    exact = co.fit(federation(), PROBLEM, co.SharingADMM(rounds=3, tolerance=0.0))
    assert exact.seconds > 0.0
    clock = [note["seconds"] for note in exact.notes if "gap" in note]
    assert len(clock) == 3
    assert clock == sorted(clock)
    assert clock[-1] <= exact.seconds
    terms = co.Privacy(21.0, 1e-6, "nobody", row_norm=2.0, feature_bound=1.0)
    with pytest.warns(UserWarning, match=r"epsilon=21 is over 20"):
        private = co.fit(federation(), PROBLEM, co.PrivateSharingADMM(rounds=3), terms, store=tmp_path)
    assert private.seconds is None
    assert private.notes
    assert not any("seconds" in note for note in private.notes)
    assert [one for one in private.remarks if one.startswith("epsilon=21 is over 20")]
    assert (exact.facts["brought"], private.facts["brought"]) == ({"a": 60, "b": 60}, {})
    assert exact.facts["approved"] == private.facts["approved"] == calls.HERE


def test_a_fit_leaves_signals_and_files_as_they_were(tmp_path, monkeypatch):
    closed, close, before = [], RunStore.close, signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(RunStore, "close", lambda self: (closed.append(self.folder), close(self)))
    co.fit(federation(), PROBLEM, co.SharingADMM(rounds=1), store=tmp_path)
    assert signal.getsignal(signal.SIGINT) is before
    assert closed == [tmp_path]


def test_ledgers_that_were_not_told_of_an_end_are_before_the_next_run(tmp_path, monkeypatch):
    def died(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(HostedNode, "close", died)
        with pytest.raises(ZeroDivisionError):
            co.fit(federation(), PROBLEM, co.SharingADMM(rounds=1), store=tmp_path)
    assert [one.open_runs for one in accounts(tmp_path)] == [1, 1]
    co.fit(federation(), PROBLEM, co.SharingADMM(rounds=2), store=tmp_path)
    assert [one.open_runs for one in accounts(tmp_path)] == [0, 0]


def test_a_ledger_is_vouched_for_by_every_node_that_remembers_it():
    heads = {name: (k, bytes([k])) for k, name in enumerate("abc")}
    seen = {"a": {"b": (1, b"x")}, "b": {"gone": (9, b"z")}, "c": {"a": (0, b"y"), "b": (2, b"w")}}
    standing = {name: Standing(heads[name], seen[name], b"k" * (name != "b")) for name in "abc"}
    told: dict[str, dict] = {}

    def answer(name, what, *heads):
        told.update({name: heads[0]} if what == "vouch" else {})
        return standing[name] if what == "standing" else None

    driver = object.__new__(RunDriver)
    driver.hosted_nodes = SimpleNamespace(hosts=answering("abc", answer))
    assert driver.check_heads() == {"a": b"k", "c": b"k"}
    assert told == {"a": {"c": (0, b"y")}, "b": {"a": (1, b"x"), "c": (2, b"w")}}


# ------------------------------------------------------------------------------------------------ a call


def test_a_call_is_the_same_only_if_all_of_it_is():
    """Another method, problem, noise, label holder, unit, policy, table or split of it is another run."""
    fed, method = federation(), co.SharingADMM(rounds=3)

    def mark(fed=fed, problem=PROBLEM, method=method, noise=None, privacy=None):
        passed = calls.checked_call(fed, problem, method, privacy)
        return calls.call_fingerprint(passed, noise)

    other, people = X.copy(), np.arange(60) // 2
    other[7, 3] += 1e-9
    terms = co.Privacy(1.0, 1e-6, "nobody", row_norm=2.0, feature_bound=1.0)
    private = {"method": co.PrivateSharingADMM(rounds=3), "privacy": terms}
    marks = [
        mark(),
        mark(method=co.SharingADMM(rounds=4)),
        mark(problem=co.Problem(co.Logistic(), penalty=co.Ridge(0.2))),
        mark(noise=SeededNoise(1)),
        mark(noise=SeededNoise(2)),
        mark(federation(label="b")),
        mark(federation(unit=(people, 2))),
        mark(federation(policies={"b": co.Policy(exact=True, scores=True)})),
        mark(federation(parties={"a": [0, 1, 2], "b": [3]})),
        mark(federation(parties={"a": [0, 1], "c": [2, 3]})),
        mark(co.Federation.split(other, np.sign(X[:, 0]), PARTIES, label="a")),
        mark(co.Federation.split(X, np.sign(X[:, 1]), PARTIES, label="a")),
        mark(**private),
        mark(**{**private, "privacy": replace(terms, epsilon=2.0)}),
    ]
    assert len(set(marks)) == len(marks)
    assert mark(federation()) == marks[0]


@pytest.mark.parametrize(
    ("policy", "exact", "private"),
    [
        (co.Policy(exact=True), "exact values may leave", "no limit of its own"),
        (co.Policy(), "noisy values only", "noisy values only"),
        (co.Policy(epsilon=2.5, delta=1e-6), *["noisy values only, epsilon at most 2.5 (delta 1e-06)"] * 2),
        (co.Policy(consortium=True), *["noisy values only, exact values inside the consortium"] * 2),
        (co.Policy(exact=True, scores=True), "exact values may leave, its part of scores", "its part of scores"),
        (co.Policy(quorum=3), *["noisy values only, goes on with 3 parties when others are lost"] * 2),
    ],
)
def test_a_policy_is_told_as_far_as_it_bears_on_the_run(policy, exact, private):
    assert (calls.policy_words(policy, False), calls.policy_words(policy, True)) == (exact, private)


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (co.Problem(co.Logistic(), co.L1Ball(1.0)), co.DistributedFrankWolfe),
        (co.Problem(co.Logistic(), co.Simplex(1.0)), co.DistributedFrankWolfe),
        (co.Problem(co.Logistic(), co.GroupL1Ball(1.0, [[0, 1], [2, 3]])), co.DistributedFrankWolfe),
        (co.AdaBoost(5.0), co.DistributedFrankWolfe),
        (PROBLEM, co.SharingADMM),
        (co.Problem(co.Logistic()), co.SharingADMM),
    ],
)
def test_what_solves_a_problem_unless_a_method_is_named(problem, method):
    assert type(calls.default_method(None, problem)) is method


def test_masked_sums_are_told_where_everybody_sees_them_and_not_inside_a_consortium():
    exact = Event(Mechanism.EXACT, np.inf, 0.0)
    inside = replace(exact, audience=Audience.CONSORTIUM)
    masked, told = Charge(MASKED, 3, "masked sums"), Charge(exact, 1, "a total")
    assert released_to_all({"a": (masked, told), "b": (masked,)}) == "masked sums; a total"
    assert released_to_all({"a": (masked, told), "b": (Charge(inside, 1, "columns"),)}) == "a total"


# ------------------------------------------------------------------------------------------------ scores


@pytest.fixture(scope="module")
def model() -> co.Fit:
    return co.fit(federation(), PROBLEM, co.SharingADMM(rounds=2))


@pytest.mark.parametrize(
    ("there", "without", "words"),
    [
        (federation(), ["b"], "not in the federation file: none; without= names b"),
        (federation(parties={"a": [0, 1]}), [], "not in the federation file: b; without= names none"),
        (federation(parties={"a": [0, 1]}), ["b", "a"], "without= names b, a"),
        (federation(label="b"), [], "the federation file names 'b'"),
        (federation(parties={"a": [0, 1, 2], "b": [3]}), [], "'a' brings 3 columns; the model was fitted on 2"),
        (federation(parties={"a": [0, 1], "b": [2]}), [], "'b' brings 1 columns; the model was fitted on 2"),
    ],
)
def test_scores_of_parties_elsewhere_need_those_of_the_model(model, there, without, words):
    _check_elsewhere(model, federation(), [])
    _check_elsewhere(model, federation(parties={"a": [0, 1]}), ["b"])
    with pytest.raises(co.InvalidInput, match=words):
        _check_elsewhere(model, there, without)


def test_rows_without_a_partner_are_counted_and_a_strangers_table_gives_no_order(tmp_path):
    fit, frames = fitted(tmp_path), {name: frame.head(20) for name, frame in tables().items()}
    few = {"b": frames["b"], "a": frames["a"].head(17), "c": frames["c"].tail(19)}
    with pytest.raises(co.InvalidInput, match=r"4 of the 20 rows of 'b' are not at every party"):
        fit.scores(few)
    stranger = {"x": pl.DataFrame({"id": [5, 3]}), **frames}
    np.testing.assert_array_equal(fit.scores(stranger), fit.scores(frames))
    turned = {"c": frames["c"].reverse(), "a": frames["a"], "b": frames["b"]}
    np.testing.assert_allclose(fit.scores(turned), fit.scores(frames)[::-1], rtol=1e-12)
    with pytest.raises(co.InvalidInput, match="'b' is missing"):
        fit.scores({"a": frames["a"]})  # the first that is, of two


@pytest.mark.parametrize("by", ["columns", "rows"])
def test_a_model_that_is_the_same_everywhere_scores_any_split_and_any_frame_with_its_intercept(by):
    """Its columns are those of the joint table, wherever they lie."""
    fit = replace(agreed(EVERY_METHOD["graph tls, rows"]), intercept=0.75)
    x = fit.coefficients[fit.label]
    new = np.random.default_rng(2).uniform(-1, 1, (9, x.size))
    split = {"rows": 3, "columns": {"a": [2, 0], "b": [k for k in range(x.size) if k not in (0, 2)]}}[by]
    fed = co.Federation.split(new, None, split, label=None, by=by)
    np.testing.assert_allclose(fit.scores(fed), new @ x + 0.75, rtol=1e-12)
    schema = co.Schema(tuple(co.Numeric(f"x{k}", -1, 1) for k in range(x.size)))
    named = replace(fit, schemas=dict.fromkeys(fit.schemas, schema))
    frame = pl.DataFrame(new, schema=[f"x{k}" for k in range(x.size)])
    np.testing.assert_allclose(named.scores(frame), new @ x + 0.75, rtol=1e-12)
    for width in (x.size - 1, x.size + 1):
        wrong = co.Federation.split(np.ones((9, width)), None, 3, label=None, by=by)
        with pytest.raises(co.InvalidInput, match=f"the data have {width} columns; the model was fitted on {x.size}"):
            fit.scores(wrong)


# ------------------------------------------------------------------------------------------------ jobs


def queued(state: str, **more) -> QueuedJob:
    known = {"seq": 1, "name": "ward", "owner": "lab", "digest": "d", "why": "", "run": "", "round": 0, "bytes": 0}
    times = {"attempts": 0, "troubles": 0, "cancel": 0, "submitted": 0.0, "began": None, "ended": None}
    return QueuedJob(**{**known, **times, "state": state, **more})


def watched(monkeypatch, states: list[QueuedJob], timeout: float | None) -> list[QueuedJob]:
    """Looks a second apart."""
    clock, looks = itertools.count(0.0, 1.0), iter(states)
    monkeypatch.setattr(queue, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
    jobs = object.__new__(co.Jobs)
    jobs._queue = SimpleNamespace(job=lambda _: next(looks))
    return list(jobs.watch("ward", timeout))


def test_a_job_is_told_whenever_it_changed_until_it_is_over_or_the_time_is_up(monkeypatch):
    states = [queued("queued"), queued("queued"), queued("running"), queued("running", round=1), queued("finished")]
    assert watched(monkeypatch, [*states, queued("queued")], None) == [states[0], *states[2:]]
    assert watched(monkeypatch, states, 2.5) == [states[0], states[2]]  # looked at after 1, 2 and 3 seconds
    assert watched(monkeypatch, [queued("failed")], 100.0) == [queued("failed")]


ENDS = {
    "its operator has not answered": (PeerUndecided("b"), ("undecided", ""), "undecided"),
    "a refusal": (co.PolicyRefused("no,\n  never"), ("failed", "no, never"), "failed"),
    "nobody there": (ProtocolError("away"), ("again", "away"), "failed"),
    "a full disk": (StoreError("full"), ("again", "full"), "again"),
    "a fault of ours": (RuntimeError("a cell: 17"), ("again", "its process failed: RuntimeError"), "again"),
    "nothing": (None, ("finished", ""), "finished"),
}


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("case", ENDS)
def test_how_a_job_ended_is_told_in_the_words_of_the_queue(case, begun, tmp_path, monkeypatch):
    """A run that failed for good is over in the store; one that may go on is not."""
    error, (state, why), once_begun = ENDS[case]
    job, run = queued("running"), ""
    with closing(RunStore(tmp_path)) as store:
        if begun:
            with store.run_once(job_key(job)) as run:
                pass

    def fit_as(*_):
        if error is not None:
            raise error

    monkeypatch.setattr(queue, "fit_as", fit_as)
    found = queue._drive(job, '[problem]\nloss = "Logistic"\n', None, None, tmp_path)
    assert found[0] == (once_begun if begun else state)
    assert found[2] == run
    assert found[1] == " ".join(str(error).split()) if case == "its operator has not answered" else found[1] == why
    with closing(RunStore(tmp_path)) as store:
        over = begun and store.how_ended(run)
    assert over == (ABORTED if begun and once_begun == "failed" else None if begun else False)


@pytest.mark.parametrize(
    ("how", "told"),
    [(FINISHED, ("finished", "")), (Ending(How.FAILED, "X"), ("failed", "failed: X"))],
    ids=["finished", "failed"],
)
def test_a_job_whose_run_is_over_is_not_begun_again(how, told, tmp_path):
    job = queued("running")
    with closing(RunStore(tmp_path)) as store, store.run_once(job_key(job)) as run:
        store.end(run, how)
    assert queue._drive(job, "no job at all", None, None, tmp_path) == (*told, run)


@pytest.mark.chance(0, "counts of rows over a public bound: exact, for the operator alone")
def test_a_partys_operator_reads_how_many_rows_were_over_the_bound(tmp_path):
    rows = np.full((30, 3), 0.5)
    rows[:7] = 0.9
    fed = co.Federation.split(rows, np.linspace(-1, 1, 30), parties={"a": [0, 1], "b": [2]}, label="b")
    terms = co.Privacy(1.0, 1e-6, row_norm={"a": 1.0, "b": 2.0}, feature_bound=1.0, label_bound=1.0, trust="nobody")
    fit = co.fit(fed, co.Problem(co.LeastSquares()), co.PrivateGram(cross="none"), terms, store=tmp_path)
    assert notes(tmp_path, "a") == [(fit.run, "7 of 30 rows were over the public bound and were shortened")]
    assert notes(tmp_path, "b") == []
