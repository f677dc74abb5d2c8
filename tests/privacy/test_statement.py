"""What a statement says in its one line: figures, assumptions, and what stands behind it."""

from __future__ import annotations

import pytest

import colonnade as co
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import ROW
from colonnade.privacy.statement import OF_TRUST, Assumption, Guarantee, Trust, derived

HARD = Assumption("nobody can factor 15", computational=True)
KEPT = Assumption("everybody keeps quiet")


def stated(trust: str, *assumed: Assumption, epsilon: float = 1.0, delta: float = 1e-6):
    privacy = co.Privacy(epsilon, delta, trust=trust)
    rho = rho_for(epsilon, delta)
    return derived(privacy, rho, ROW, "the model", "docs/privacy.md", (*OF_TRUST.get(trust, ()), *assumed))


def test_a_statement_that_rests_on_nothing_more_than_its_derivation_is_proven():
    statement = stated("nobody")
    assert statement.guarantee == Guarantee.PROVEN
    assert "It holds if" not in statement.sentence
    assert "computational" not in statement.sentence


@pytest.mark.parametrize("trust", ["secure", "consortium"])
def test_a_statement_that_rests_on_an_assumption_is_conditional_and_names_it(trust):
    statement = stated(trust)
    assert statement.guarantee == Guarantee.CONDITIONAL
    assert f"It holds if {statement.assumes}." in statement.sentence
    assert "\n" not in statement.sentence


def test_the_secure_line_is_computational_and_says_what_pooling_costs():
    said = stated("secure").sentence
    assert "(1, 1e-06)-computational differential privacy for one row" in said
    assert (
        "if the coordinator and a party pool what they have, they read the columns of all partners of that party"
        in said
    )


def test_the_word_computational_stands_only_where_something_is_hard_to_compute():
    assert "computational" not in stated("consortium").sentence
    assert "computational" not in stated("nobody", KEPT).sentence
    assert "computational" in stated("nobody", HARD).sentence


def test_several_assumptions_stand_in_one_line_each_after_an_if():
    said = stated("nobody", HARD, KEPT)
    assert said.assumes == "nobody can factor 15; and if everybody keeps quiet"
    assert said.guarantee == Guarantee.CONDITIONAL


def test_every_trust_model_that_leaves_somebody_out_says_who():
    """`nobody` is trusted: that model alone assumes nothing of anybody."""
    assert {trust for trust in Trust if trust not in OF_TRUST} == {Trust.NOBODY}
