"""Trust "parties": products by two parties alone, as a protocol: right, interrupted, forged, told differently."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import colonnade as co
from colonnade.errors import InvalidInput, ProtocolError
from colonnade.methods.gram import lattice as gram_lattice
from colonnade.methods.gram import plan as gram_plan
from colonnade.methods.gram.lattice import Across
from colonnade.methods.gram.plan import RunPlan
from colonnade.methods.gram.products import Prepare
from colonnade.model.job import Job
from colonnade.privacy.conditions import CHEATING, PROTOCOL, Code
from colonnade.privacy.exchange import ERROR, GROWTH, Exchange
from colonnade.privacy.lattice import least_bits
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Packed, release
from colonnade.runs.preview import preview
from colonnade.views.verdict import privacy_in_short
from tests.helpers.forgery import CHANGES, Cut, Until, forging
from tests.helpers.gram_runs import plain_gram
from tests.helpers.lwe_views import NUMBERS, PARTIES, PROBLEM, TERMS, Views, federation, table

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def run(store, engine=None):
    return co.fit(federation(), PROBLEM, co.PrivateGram(), TERMS, store=store, engine=engine)


# ---------------------------------------------------------------------------------------- right


@pytest.mark.parametrize("middle", [0.0, 1.4, -1.4])
@pytest.mark.parametrize("problem", [PROBLEM, NUMBERS], ids=["classes", "numbers"])
def test_without_noise_the_gram_matrix_is_the_plain_one_up_to_the_errors_of_encryption(problem, middle, monkeypatch):
    """Each error has at most ERROR of one party's noise for its sd: 8 of them are passed once in 10^15 entries.

    Also where columns lie near either end of their bounds, where rows are cut far from even."""
    X, y = table()
    fed = federation((np.clip(middle + X / (1.0 + abs(middle)), -2, 2), y))
    terms = replace(TERMS, label_bound=1.0, epsilon=1.0 if problem is PROBLEM else 30.0)
    view = Views(fed, problem, terms, monkeypatch)
    design = RunPlan.of(view.job, co.PrivateGram())
    y = (np.sign(fed.labels) * view.figures.label).astype(np.int64)
    plain = plain_gram(fed, view.job, view.figures, view.frame, y)
    moved = np.abs(view.matrix - plain)
    limit = 8 * ERROR * design.sds(view.figures, view.frame) / view.figures.step**2
    assert (moved <= limit + 1e-6).all()
    owner = np.append(design.columns.owner, [-1, 1])
    within = (owner[:, None] == owner) | (owner < 0) | (owner < 0)[:, None]
    assert not moved[within].any()  # what a party computes alone is exact
    assert moved[~within].any()
    assert view.sums is not None  # for prediction they come first


@pytest.mark.chance(1e-10, "0.99 is 50 sds of the coefficients' noise away, over 30 runs")
def test_models_are_those_of_the_exact_products_where_there_is_little_noise(tmp_path):
    X, y = table(rows=4_000)
    terms = replace(TERMS, epsilon=30.0)
    fit = co.fit(federation((X, y)), PROBLEM, co.PrivateGram(), terms, store=tmp_path)
    design = np.column_stack([X, np.ones(len(X))])
    exact = np.linalg.solve(design.T @ design + 1e-3 * len(X) * np.diag([1.0] * 6 + [0.0]), design.T @ y)[:6]
    order = [i for places in PARTIES.values() for i in places]
    ours = np.concatenate([fit.coefficients[name] for name in PARTIES])
    assert np.corrcoef(ours, exact[order])[0, 1] > 0.99


@pytest.mark.chance(0, "prices and texts: nothing that was drawn is compared")
def test_the_statement_is_conditional_and_names_both_assumptions(tmp_path):
    fit = run(tmp_path)
    said = fit.privacy
    assert (said.guarantee, said.trust, said.computational) == ("conditional", "parties", True)
    assert {PROTOCOL, CHEATING} < set(said.conditions)
    (lwe,) = (one for one in said.conditions if one.code is Code.LATTICES)
    assert lwe.figures[1:] == least_bits(lwe.figures[0])
    assert "nobody solves learning with errors (LWE: " in privacy_in_short(said)["verdict"]
    assert "no outside cryptographer" in said.sentence
    assert said.epsilon <= 1.0 + 1e-9


@pytest.mark.chance(0, "lines and prices of a plan, which are public")
def test_a_preview_lists_what_leaves_and_spends_nothing(tmp_path):
    seen = preview(federation(), PROBLEM, co.PrivateGram(), TERMS, store=tmp_path)
    hidden = [line for line in seen.lines if "lattice encryption" in line.what]
    assert len(hidden) == 3
    assert all(line.rho == 0.0 and line.seen_by == "its receiver, as uniform numbers" for line in hidden)
    assert seen.trust == "parties"


# ---------------------------------------------------------------------------------------- what it costs


def neighbours(which):
    """Two tables that differ in one row: at full length, orthogonal, at all parties or at one."""
    X, y = table()
    one, two = X.copy(), X.copy()
    ours = [0, 1, 5] if which == "receiver" else list(range(6))
    one[7], two[7] = 0.0, 0.0
    one[7, ours], two[7, ours] = np.resize([2.0, 0.0], len(ours)), np.resize([0.0, 2.0], len(ours))
    flipped = y.copy()
    flipped[7] = -y[7] if which == "all" else y[7]
    return (one, y), (two, flipped)


@pytest.mark.parametrize("which", ["all", "receiver"])
def test_all_that_senders_and_readers_see_moves_by_no_more_than_is_priced(which, monkeypatch):
    """The same secrets on both sides: what a sender opens is (ΔX + e + d)ᵀY, errors counted."""
    first, second = neighbours(which)
    view = Views(federation(first), PROBLEM, TERMS, monkeypatch)
    other = Views(federation(second), PROBLEM, TERMS, monkeypatch, like=view)
    by_stage = {}
    for place, given in enumerate(view.given):
        by_stage.setdefault(given[-1], []).append(place)
    assert len(by_stage) == 2
    for sensitivity, places in by_stage.items():
        pair = [type("Part", (), {"given": [v.given[i] for i in places]}) for v in (view, other)]
        moved = Views.distance(pair[0], pair[1])
        assert 0.1 * sensitivity < moved <= sensitivity


def test_sensitivity_grows_by_what_errors_may_cost_and_no_more(monkeypatch):
    view = Views(federation(), PROBLEM, TERMS, monkeypatch)
    bare = RunPlan.of(Job(PROBLEM, federation().roster(), replace(TERMS, trust="secure")), co.PrivateGram())
    design = RunPlan.of(view.job, co.PrivateGram())
    figures = view.figures
    assert design.sensitivity(figures) == pytest.approx((1 + GROWTH) * bare.sensitivity(figures), rel=1e-12)
    assert all(isinstance(e, Exchange) and e.growth <= GROWTH for e in view.exchanges)


def test_both_parties_of_a_product_add_their_full_noise(monkeypatch):
    """On the grid of the ciphertext: weights are Δ·w/(f·f), never a multiple of Δ apart."""
    view = Views(federation(), PROBLEM, TERMS, monkeypatch)
    exchange = view.exchanges[-1]
    for route in exchange.routes:
        expected = exchange.noise(route) * exchange.scales[route[0]][:, None] / exchange.mechanism.sigma
        assert (exchange.weights(route) >= expected).all()
        assert np.allclose(exchange.weights(route), expected, rtol=1e-12)
        for end in route:
            found = [w for node, _, weights, _ in view.given if node == end for w in weights if np.ndim(w) == 2]
            assert any(w.shape == expected.shape and np.array_equal(w, exchange.weights(route)) for w in found)


# ---------------------------------------------------------------------------------------- interrupted


@pytest.mark.chance(0, "letters of one draw are compared with themselves, prices with the plan")
@pytest.mark.parametrize("cut", [24, 40, 52, 62])
def test_a_run_that_was_cut_goes_on_with_the_same_bytes_and_pays_once(cut, tmp_path):
    first, second = Until(cut), Until(10**9)
    with pytest.raises(Cut):
        run(tmp_path, first)
    fit = run(tmp_path, second)
    known = {(x.sender, x.receiver, x.sequence): x.body for x in second.sent}
    for letter in first.sent:
        assert known[letter.sender, letter.receiver, letter.sequence] == letter.body
    for party in PARTIES:
        ledger = Ledger(FileLog(tmp_path / "nodes" / f"{party}.db"), party, co.Policy())
        noisy = [e for e in ledger.entries() if e.event.rho]
        assert len(noisy) == 2
        assert ledger.row_spent() == pytest.approx(sum(e.event.rho for e in noisy))
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.chance(0, "names of the secrets that are kept")
def test_when_a_run_is_over_its_secrets_are_gone(tmp_path):
    run(tmp_path)
    for party in PARTIES:
        log = FileLog(tmp_path / "nodes" / f"{party}.db")
        with log._db as db:
            names = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
            kept = [row for name in names if "secret" in name for row in db.execute(f"select * from {name}")]
        assert [row[:2] for row in kept] == [("node", "signing key")]  # of the party, not of the run


# ---------------------------------------------------------------------------------------- forged, told differently


@pytest.mark.chance(0, "digests of two different messages differ, and no part of the stage is paid for")
@pytest.mark.parametrize("field", ["norm2", "scale", "label"])
def test_a_party_releases_nothing_of_a_stage_of_which_another_was_told_something_else(field, tmp_path):
    def forge(message):
        if message.name != "joint":
            return None
        fields = {name: getattr(message, name) for name in message.__slots__} | {field: CHANGES[field](message)}
        return Prepare(**fields)

    with pytest.raises(ProtocolError, match="something else of this release"):
        run(tmp_path, forging(Prepare, "a", forge))
    for party in PARTIES:
        ledger = Ledger(FileLog(tmp_path / "nodes" / f"{party}.db"), party, co.Policy())
        assert [e.what for e in ledger.entries() if e.event.rho] == ["noisy class sums of the columns"]


WRONG = {
    "rows": ("encrypted rows", lambda m: Across(release(m.rows.value[:-1]), m.answer) if m.rows.value else m),
    "answer": ("answer of other sizes", lambda m: Across(m.rows, m.answer[:1])),
    "bits": (
        "answer of other sizes",
        lambda m: Across(m.rows, tuple(release(Packed(p.value.values, 64)) for p in m.answer)),
    ),
}


@pytest.mark.chance(0, "refusals by sizes, which are public")
@pytest.mark.parametrize("which", WRONG)
def test_rows_and_answers_of_other_sizes_are_refused(which, tmp_path, monkeypatch):
    said, change = WRONG[which]
    monkeypatch.setattr(gram_lattice, "Across", lambda rows, answer: change(Across(rows, answer)))
    monkeypatch.setattr(gram_lattice, "expect", lambda inbox, node, _: inbox[node])
    with pytest.raises(ProtocolError, match=said):
        run(tmp_path)


@pytest.mark.chance(0, "kinds of letters, which are public")
def test_what_goes_between_parties_is_sealed_and_nobody_else_reads_it(tmp_path):
    tap = co.Tap(co.InProcess())
    run(tmp_path, tap)
    between = [x for x in tap.letters if x.sender in PARTIES and x.receiver in PARTIES]
    assert {x.inside for x in between} == {"Seed", "Across"}


def test_settings_that_do_not_go_with_it_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="Take cross='secure'"):
        co.fit(federation(), PROBLEM, co.PrivateGram(cross="none"), TERMS, store=tmp_path)
    with pytest.raises(InvalidInput, match="2\\^-100"):
        co.fit(federation(), PROBLEM, co.PrivateGram(), replace(TERMS, epsilon=80.0), store=tmp_path)


def test_a_gram_matrix_that_does_not_fit_is_refused_before_class_sums_are_paid(tmp_path, monkeypatch):
    settle = gram_lattice.settle
    rule = gram_plan.HALF
    monkeypatch.setattr(
        gram_lattice,
        "settle",
        lambda *of: settle(*of[:2], replace(of[2], rows=10**12)) if of[2].weight == rule else settle(*of),
    )
    with pytest.raises(InvalidInput, match="too large for encryption"):
        run(tmp_path)
    assert not list(tmp_path.glob("nodes/*"))


@pytest.mark.chance(0, "whatever class sums advise is said not to fit")
def test_rows_stay_as_they_are_where_what_class_sums_advise_does_not_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(gram_lattice.Lattice, "fits", lambda *_: False)
    fit = run(tmp_path)
    assert fit.release.rule == "raw"


@pytest.mark.chance(0, "the trust model that the statement names")
def test_labels_that_were_released_need_no_products_for_class_sums(tmp_path):
    fit = co.fit(federation(), PROBLEM, co.PrivateGram(labels="released"), TERMS, store=tmp_path)
    assert fit.privacy.trust == "parties"


@pytest.mark.chance(0, "the trust model that the statement names")
def test_it_is_the_default_method_of_its_trust_model(tmp_path):
    fit = co.fit(federation(), PROBLEM, privacy=TERMS, store=tmp_path)
    assert fit.privacy.trust == "parties"
