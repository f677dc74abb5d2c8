"""Attacks on the papers' calibrations: each claim is broken, at every epsilon that its paper speaks of.

Every verdict errs with probability at most 1e-6; what must be violated is so far over its claim that it is missed less often still.
"""

from __future__ import annotations

import importlib

import pytest

import colonnade as co
from colonnade.privacy.statement import Guarantee
from papers import published
from papers.attacks import TARGETS, sketch_pair
from papers.figures import attacks, gratton_4_tradeoff

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

audits = importlib.import_module("colonnade.attacks.run")  # the module: its function may stand before it as `co.audit`
ENOUGH = {"published-sharing-lemma": 20_000, "published-zeroth-order": 500}  # to break a claim of 1 (0.5)
QUICK = "published-sharing-range"


@pytest.mark.chance(1e-12, "21 sds over the claim or more in 12 runs of each")
@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in TARGETS if one != QUICK)]
)
def test_a_published_calibration_is_violated(name):
    target = TARGETS[name]
    claim = 1.0 if 1.0 in target.claims else 0.5
    assert audits.audit(target, epsilon=claim, trials=ENOUGH.get(name, 2_000)).violated


@pytest.mark.audit
@pytest.mark.parametrize("name", TARGETS)
def test_a_published_calibration_is_violated_at_every_claim_in_a_full_audit(name):
    results = audits.sweep({name: TARGETS[name]}, effort=10)
    assert TARGETS[name].claims == tuple(result.verdict.claim for result in results)
    assert all(result.verdict.violated for result in results)


@pytest.mark.slow
@pytest.mark.parametrize("claim", TARGETS["published-laplace"].claims)
def test_the_printed_laplace_scale_is_not_refuted_where_slopes_are_read_as_means(claim, monkeypatch):
    """Means with this noise are sums with as many times more of it as there are rows."""
    printed = published.SparseLaplace.scale
    monkeypatch.setattr(published.SparseLaplace, "scale", lambda self, rows: rows * printed(self, rows))
    assert not audits.audit(TARGETS["published-laplace"], epsilon=claim, trials=10_000).violated


@pytest.mark.slow
def test_two_processes_do_the_same_trials():
    target = TARGETS["published-sharing-range"]
    alone, together = (audits.audit(target, trials=6_000, jobs=jobs) for jobs in (1, 2))
    assert alone.violated
    assert together.violated
    assert 6_000 == alone.trials == together.trials


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_says_what_is_attacked_how_and_by_whom_and_that_the_claim_is_a_papers(name):
    target = TARGETS[name]
    assert name.startswith("published-")
    assert target.title
    assert target.neighbours.startswith(("replace one row", "change one column"))
    assert all(adversary.sees and adversary.statistic for adversary in target.adversaries.values())
    assert target.guarantee is Guarantee.CLAIMED


def test_what_the_library_attacks_by_name_has_no_papers_claim_in_it():
    assert not set(TARGETS) & set(audits.TARGETS)
    with pytest.raises(co.InvalidInput, match="no target 'published-sign'"):
        audits.audit("published-sign")


def test_data_come_from_the_seed():
    setting, other = audits.Setting(1.0, 1e-5, seed=0), audits.Setting(1.0, 1e-5, seed=1)
    for one, again in zip(sketch_pair(setting), sketch_pair(setting), strict=True):
        assert one.tolist() == again.tolist()
    assert sketch_pair(setting)[0].tolist() != sketch_pair(other)[0].tolist()


# ---------------------------------------------------------------- the figures that are made of attacks


def test_the_figure_of_the_papers_attacks_has_every_target_at_every_claim_with_a_name_and_a_reason():
    figure = next(one for one in attacks.FIGURES if one.name == "attacks-published")
    for quick in (True, False):
        asked = [(case["target"], case["claim"]) for case in figure.cases(quick)]
        assert asked == [(name, claim) for name, target in TARGETS.items() for claim in target.claims]
    assert len(figure.claims) == len(TARGETS)
    assert set(TARGETS) <= set(attacks.SHORT)
    assert set(TARGETS) == set(attacks.WHY)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "violated"), [("published-sharing-range", 1), ("sharing-admm-column", 0)])
def test_a_case_of_the_figures_attacks_what_it_names_and_keeps_what_was_shown(name, violated):
    (row,) = attacks.run(name, claim=1.0, trials=500)
    assert (row["target"], row["violated"]) == (name, violated)
    assert (row["bound"] > 1.0) == bool(violated)


@pytest.mark.slow
def test_the_tradeoff_figure_refutes_theorem_4_1_by_attack():
    (row,) = gratton_4_tradeoff.run(gratton_4_tradeoff.ATTACK, "l1", 0.5, 1e-3, seed=0, rounds=500)
    assert row["attacked_epsilon"] > 0.5
