"""What a statement says in its one line: figures, assumptions, and what stands behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from colonnade.methods.gatekeeper import released_to_all
from colonnade.methods.node_setup import Call, known_methods
from colonnade.model.job import Job
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import ROW
from colonnade.privacy.conditions import LATTICES, Code, Condition, Kind, as_clause
from colonnade.privacy.events import MASKED, Audience, Charge, Event, Mechanism, Scope, shown
from colonnade.privacy.statement import (
    OF_TRUST,
    Guarantee,
    Trust,
    check_delta,
    derived_statement,
    not_private,
    remarks_on,
    replaced_ledgers,
    with_trust,
)
from colonnade.runs.config import load_job
from colonnade.runs.preview import preview

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

HARD, KEPT = LATTICES, Condition(Code.PAPER, ("everybody keeps quiet",))


def stated(trust: str, *added: Condition, epsilon: float = 1.0, delta: float = 1e-6):
    privacy = co.Privacy(epsilon, delta, trust=trust)
    rho = rho_for(epsilon, delta)
    return derived_statement(
        privacy, rho, ROW, "the model", "docs/understand/privacy.md", (*OF_TRUST.get(trust, ()), *added)
    )


def test_a_statement_that_rests_on_nothing_more_than_its_derivation_is_proven():
    statement = stated("nobody")
    assert statement.guarantee == Guarantee.PROVEN
    assert "It holds if" not in statement.sentence
    assert "computational" not in statement.sentence


@pytest.mark.parametrize("trust", ["secure", "consortium"])
def test_a_statement_that_rests_on_an_assumption_is_conditional_and_names_it(trust):
    statement = stated(trust)
    assert statement.guarantee == Guarantee.CONDITIONAL
    assert f"It holds if {as_clause(statement.conditions, Kind.HOLDS_IF)}." in statement.sentence
    assert "\n" not in statement.sentence


@pytest.mark.parametrize("trust", list(Trust))
def test_the_summary_has_the_figures_first_and_then_a_line_for_all_conditions_of_a_kind(trust):
    statement = stated(trust, Condition(Code.LARGE_DELTA, (1e-6, 1_000_000, "rows")))
    first, *others = statement.summary.split("\n")
    assert first.startswith("ε = 1, δ = 1e-06 for one row, replace one row (")
    assert f"{statement.guarantee}, trust model: {trust})" in first
    assert ("computational" in first) is statement.computational
    heads = {"Holds if ": Kind.HOLDS_IF, "Does not protect against ": Kind.BROKEN_BY, "Note: ": Kind.NOTE}
    said = {head: as_clause(statement.conditions, kind) for head, kind in heads.items()}
    assert others == [f"{head}{clause}" for head, clause in said.items() if clause]


def test_the_summary_of_a_run_that_is_not_private_is_its_sentence():
    statement = not_private("exact values left", ROW, "every message")
    assert statement.summary == statement.sentence
    assert statement.summary.startswith("Not private: exact values left.")


def test_the_secure_line_is_computational_and_says_what_pooling_costs():
    said = stated("secure").sentence
    assert "(1, 1e-06)-computational differential privacy for one row" in said
    assert "It is broken by a coordinator and a party that pool what they have: whatever epsilon is, they read" in said
    assert "the columns of all partners of that party, and the labels, in every stage under masks" in said


def test_the_word_computational_stands_only_where_something_is_hard_to_compute():
    assert "computational" not in stated("consortium").sentence
    assert "computational" not in stated("nobody", KEPT).sentence
    assert "computational" in stated("nobody", HARD).sentence


def test_several_assumptions_stand_in_one_line_each_after_an_if():
    said = stated("nobody", HARD, KEPT)
    assert f"It holds if {LATTICES.full}; and if everybody keeps quiet." in said.sentence
    assert said.guarantee == Guarantee.CONDITIONAL


def test_every_trust_model_that_leaves_somebody_out_says_who():
    """`nobody` is trusted: that model alone assumes nothing of anybody."""
    assert {trust for trust in Trust if trust not in OF_TRUST} == {Trust.NOBODY}


# ------------------------------------------------------------------------------------------------ how a price is written


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9999999999999999, "1"),
        (1.0, "1"),
        (1.0000000000000002, "1"),
        (1.0000001, "1.001"),
        (1.4523, "1.453"),
        (0.99991, "1"),
        (9.9999, "10"),
        (12345.6, "1.235e+04"),
        (3.0001e-7, "3.001e-07"),
        (1e-6, "1e-06"),
        (0.0, "0"),
        (float("inf"), "inf"),
    ],
)
def test_a_price_is_written_in_four_digits(value, text):
    assert shown(value) == text


@settings(max_examples=100)
@given(st.floats(1e-12, 1e12))
def test_a_price_never_looks_lower_than_it_is(value):
    written = float(shown(value))
    assert written >= value * (1.0 - 1e-9)
    assert written <= value * (1.0 + 1.001e-3)  # one step of the fourth digit


def test_the_epsilon_that_was_asked_for_stands_in_the_sentence():
    for epsilon in (0.1, 0.5, 1.0, 1.1, 3.0, 10.0):
        assert f"({epsilon:g}, 1e-06)-" in stated("nobody", epsilon=epsilon).sentence


# ------------------------------------------------------------------------------------------------ whom to trust


@pytest.mark.parametrize(
    ("method", "word"),
    [
        (co.PrivateGram(), "secure"),
        (co.PrivateGram(cross="none"), "nobody"),
        (co.PrivateBlockFrankWolfe(), "nobody"),
        (co.PrivateSharingADMM(), "nobody"),
        (co.CentralFrankWolfe(), "nobody"),
    ],
)
def test_terms_without_a_trust_model_get_secure_or_else_the_strictest(method, word):
    assert with_trust(co.Privacy(1.0, 1e-6), method.trusts).trust == word
    asked = co.Privacy(1.0, 1e-6, trust="consortium")
    assert with_trust(asked, method.trusts) is asked


def test_every_method_with_a_derivation_says_which_trust_models_it_knows():
    private = [kind for kind in known_methods().values() if kind.DERIVATION is not None]
    assert private
    for kind in private:
        assert kind().trusts
        assert set(kind().trusts) <= set(Trust)


def table(rows: int = 60) -> co.Federation:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, 4))
    return co.Federation.split(X, np.where(X[:, 0] > 0, 1, -1), parties=2)


RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(0.1))
OPEN = {"row_norm": 1.0, "feature_bound": 1.0}


@pytest.mark.chance(0, "words of plan, terms and statement: no drawn figure is compared")
def test_the_word_stands_in_plan_terms_and_statement(tmp_path):
    asked = co.Privacy(1.0, 1e-6, **OPEN)
    assert preview(table(), RIDGE, None, asked, store=tmp_path).trust == "secure"
    fit = co.fit(table(), RIDGE, privacy=asked, store=tmp_path)
    assert (fit.privacy.trust, fit.method) == ("secure", "private Gram")
    assert "trust='secure'" in fit.facts["settings"]


def test_a_job_that_names_no_trust_model_is_none_between_organisations():
    call = Call(co.PrivateGram(), RIDGE, co.Privacy(1.0, 1e-6))
    with pytest.raises(co.InvalidInput, match="name no trust model"):
        Call.from_json(call.to_json())


# ------------------------------------------------------------------------------------------------ delta and epsilon that promise nothing


def test_a_delta_that_is_not_below_one_in_the_rows_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(co.InvalidInput, match=r"delta=0.0001 is not below 1/rows.*Ask for delta=1e-05 or less"):
        check_delta(co.Privacy(1.0, 1e-4), 10_000)
    check_delta(co.Privacy(1.0, 0.99e-4), 10_000)
    with pytest.raises(co.InvalidInput, match=r"allow it by allow_large_delta .* the statement then says so"):
        co.fit(table(), RIDGE, privacy=co.Privacy(1.0, 1 / 60, **OPEN), store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.chance(0, "what the statement and the preview say of delta: no drawn figure is compared")
def test_an_allowed_large_delta_is_said_in_the_statement(tmp_path):
    asked = co.Privacy(1.0, 1 / 60, allow_large_delta=True, **OPEN)
    fit = co.fit(table(), RIDGE, privacy=asked, store=tmp_path)
    assert "Note: delta=0.0166667 is not below 1/rows = 0.017" in fit.privacy.sentence
    assert (
        preview(table(), RIDGE, None, asked, store=tmp_path).notes[0].startswith("delta=0.0166667 is not below 1/rows")
    )


def test_a_unit_of_columns_is_counted_in_columns():
    federation = co.Federation.split(np.zeros((60, 4)), np.ones(60), parties=2, unit=co.COLUMN)
    assert Job(RIDGE, federation.roster()).units == (4, "columns")
    assert Job(RIDGE, table().roster()).units == (60, "rows")


@pytest.mark.chance(0, "a refusal and a sentence that go by delta and the rows alone")
@pytest.mark.parametrize("kind", [co.SparseClassifier, co.FederatedClassifier])
def test_an_estimator_refuses_a_large_delta_and_can_be_told_to_take_it(kind, tmp_path):
    X, y = np.random.default_rng(0).uniform(-1, 1, (50, 4)), np.arange(50) % 2
    bounds = {**OPEN, **({"store": tmp_path} if kind is co.FederatedClassifier else {})}
    with pytest.raises(co.InvalidInput, match=r"delta=0\.02 is not below 1/rows"):
        kind(epsilon=1.0, delta=0.02, classes=[0, 1], **bounds).fit(X, y)
    fitted = kind(epsilon=1.0, delta=0.02, classes=[0, 1], allow_large_delta=True, **bounds).fit(X, y)
    assert "Note: delta=0.02" in fitted.privacy_.sentence


def test_a_job_file_may_leave_trust_out_and_allow_a_large_delta(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('[problem]\nloss = "Logistic"\n[privacy]\nepsilon = 1.0\ndelta = 0.1\nallow_large_delta = true\n')
    privacy = load_job(path).privacy
    assert privacy == co.Privacy(1.0, 0.1, allow_large_delta=True)
    assert privacy.trust is None


@pytest.mark.chance(0, "the warning and the remark go by epsilon alone")
def test_an_epsilon_over_20_warns_and_20_does_not(tmp_path):
    with pytest.warns(UserWarning, match="epsilon=20.01 is over 20"):
        fit = co.fit(table(), RIDGE, privacy=co.Privacy(20.01, 1e-6, **OPEN), store=tmp_path / "a")
    assert any("is over 20" in remark for remark in fit.remarks)
    assert remarks_on(co.Privacy(20.0, 1e-6)) == ()


def test_a_consortium_s_masked_columns_are_not_among_what_readers_of_the_model_see():
    sums = Charge(Event(Mechanism.LATTICE, 0.1, 1.0, Scope.JOINT, Audience.CONSORTIUM), 1, "noisy sums")
    outside = replace(sums, event=replace(sums.event, audience=Audience.ALL))
    hidden = Charge(MASKED, 1, "its columns under masks")
    assert released_to_all({"a": (sums, hidden), "coordinator": (outside,)}) == "noisy sums"
    assert released_to_all({"a": (outside, hidden)}) == "noisy sums; its columns under masks"


# ------------------------------------------------------------------------------------------------ figures by hand


def test_a_range_of_labels_is_known_by_its_middle_and_its_reach():
    terms = [co.Privacy(1.0, 1e-6, **more) for more in ({"label_range": (2.0, 6.0)}, {"label_bound": 3.0}, {})]
    assert [(one.label_middle, one.label_reach) for one in terms] == [(4.0, 2.0), (0.0, 3.0), (0.0, None)]


def test_the_delta_that_is_advised_is_one_that_is_taken():
    for rows in (9, 60, 1000, 12_345):
        with pytest.raises(co.InvalidInput) as refused:
            check_delta(co.Privacy(1.0, 1.0 / rows), rows)
        advised = float(str(refused.value).partition("Ask for delta=")[2].split()[0])
        check_delta(co.Privacy(1.0, advised), rows)
        assert 0.01 / rows <= advised <= 0.1 / rows


def test_an_epsilon_up_to_a_million_million_is_a_number_and_beyond_it_protects_nobody():
    assert co.Privacy(1e12, 1e-6).epsilon == 1e12
    for epsilon in (1.001e12, 1e20):
        with pytest.raises(co.InvalidInput, match="protects nobody"):
            co.Privacy(epsilon, 1e-6)


def test_every_replaced_ledger_is_counted_once():
    first, again, later = (
        ("a", "2031-01-02T00:00:00+00:00", "m"),
        ("b", "2031-01-02T00:00:00+00:00", "n"),
        ("a", "2031-02-03T", "o"),
    )
    assert replaced_ledgers([]) == ()
    (said,) = replaced_ledgers([first, first])
    assert said.full.startswith("1 ledger was replaced after it was lost: that of a on 2031-01-02.")
    (said,) = replaced_ledgers([later, first, again, first])
    assert said.full.startswith(
        "3 ledgers were replaced after they were lost: that of a on 2031-01-02, 2031-02-03; that of b on 2031-01-02."
    )
