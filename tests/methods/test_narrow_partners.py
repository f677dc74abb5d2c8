"""Trust "secure" between narrow partners: encryption takes the place of masks by a rule of public figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import colonnade as co
from colonnade.methods.gram import lattice as gram_lattice
from colonnade.methods.gram.lattice import bytes_sent
from colonnade.methods.gram.private_gram import form_of
from colonnade.methods.gram.products import _digest
from colonnade.model.job import Job
from colonnade.privacy.conditions import CHEATING, COORDINATOR_ALONE, FORGING, MASKS, POOLING, PROTOCOL, Code
from colonnade.privacy.lattice import least_bits
from colonnade.runs.preview import preview
from colonnade.views.verdict import privacy_in_short

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
TERMS = co.Privacy(1.0, 1e-8, trust="secure", row_norm=3.0, feature_bound=1.0)


def job_of(rows, *widths, terms=TERMS):
    """Parties of so many columns, the label holder first."""
    ends = np.cumsum((0, *widths)).tolist()
    parties = {f"p{k}": slice(ends[k], ends[k + 1]) for k in range(len(widths))}
    fed = co.Federation.split(sparse.csr_array((rows, ends[-1])), np.ones(rows), parties=parties, label="p0")
    return Job(PROBLEM, fed.roster(), terms)


def encrypted(job, **settings):
    return isinstance(form_of(job, co.PrivateGram(**settings)), gram_lattice.Lattice)


@pytest.fixture
def any_size(monkeypatch):
    monkeypatch.setattr(gram_lattice, "WORTH", 0.0)


def federation(rows=150, wide=40):
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(size=(rows, wide + 1)), -1, 1)
    y = np.where(X[:, -1] + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)
    return co.Federation.split(X, y, parties={"wide": slice(0, wide), "narrow": [wide]}, label="narrow")


# ---------------------------------------------------------------------------------------- the rule


def test_masks_stay_unless_every_partner_is_narrow_and_bytes_are_many():
    assert encrypted(job_of(1_000_000, 2, 200))
    assert encrypted(job_of(1_000_000, 2, 200), purpose="inference")
    assert not encrypted(job_of(1_000_000, 40, 200))
    assert not encrypted(job_of(10_000, 2, 200))  # 14 MB
    assert not encrypted(job_of(261_877, 164, 37, 36))  # flights
    assert not encrypted(job_of(39_073, 41, 41, 41))  # a9a
    assert not encrypted(job_of(24_000, 7, 14, 6, 6))  # credit-default


def test_other_trusts_and_settings_are_what_they_were(any_size):
    for terms in (replace(TERMS, trust="consortium"), replace(TERMS, epsilon=1e-12)):
        assert not encrypted(job_of(150, 1, 60, terms=terms))  # the last: no modulus has room for its noise
    assert not encrypted(job_of(150, 1, 60), labels="released")
    assert encrypted(job_of(150, 1, 60))
    assert encrypted(job_of(150, 1, 60, terms=replace(TERMS, trust="parties")))


def test_bytes_are_those_of_columns_by_stage():
    """Masked: everybody's, once up. Encrypted: the narrower one's of each pair, up and down."""
    job = job_of(800, 3, 10, 5)
    assert bytes_sent(job, ("sums",)) == (800 / 8 * 32 * (2 + 10 + 5), 800 / 8 * 2 * 27 * (2 + 2))
    assert bytes_sent(job, ("joint",)) == (800 / 8 * 20 * (4 + 10 + 5), 800 / 8 * 2 * 27 * (4 + 4 + 5))


# ---------------------------------------------------------------------------------------- a run


@pytest.mark.chance(0, "kinds of letters, prices and texts, which go by public figures")
def test_a_run_between_narrow_partners_says_what_it_did_and_rests_on(any_size, tmp_path):
    tap = co.Tap(co.InProcess())
    fit = co.fit(federation(), PROBLEM, co.PrivateGram(), TERMS, store=tmp_path, engine=tap)
    assert {x.inside for x in tap.letters} >= {"Across", "Parts"}
    assert "Masked" not in {x.inside for x in tap.letters}
    said = fit.privacy
    assert (said.trust, said.guarantee, said.computational) == ("secure", "conditional", True)
    assert {PROTOCOL, CHEATING} < set(said.conditions)
    (lwe,) = (one for one in said.conditions if one.code is Code.LATTICES)
    assert lwe.figures == (84, *least_bits(84))  # a label's two weights and one column, then label and column; twice 40
    work = "(LWE: {} bits of work, {} on a quantum computer, by our own estimate)".format(*least_bits(84))
    assert f"nobody solves learning with errors {work}" in privacy_in_short(said)["verdict"]
    assert "learning with errors (LWE)" in said.sentence
    assert said.epsilon == pytest.approx(1.0, rel=1e-6)
    (remark,) = (one for one in fit.remarks if "lattice encryption" in one)
    assert "about 10 times the bytes" in remark
    lines = preview(federation(), PROBLEM, co.PrivateGram(), TERMS, store=tmp_path).lines
    assert sum("lattice encryption" in line.what for line in lines) == 2
    assert not any("masks" in line.what for line in lines)


@pytest.mark.chance(0, "assumptions and remarks, which go by public figures")
def test_a_run_that_stays_under_masks_names_what_masks_rest_on(tmp_path):
    fit = co.fit(federation(), PROBLEM, co.PrivateGram(), TERMS, store=tmp_path)
    assert {MASKS, PROTOCOL, COORDINATOR_ALONE, POOLING, FORGING} <= set(fit.privacy.conditions)
    assert not any("lattice" in one for one in fit.remarks)


def test_its_noise_is_that_of_the_release_between_the_two_parties_alone(any_size):
    both = [
        form_of(job_of(150, 1, 60, terms=replace(TERMS, trust=trust)), co.PrivateGram())
        for trust in ("secure", "parties")
    ]
    for name in ("sensitivity", "bare_sensitivity"):
        one, other = (getattr(form.plan, name)(form.plan.sums) for form in both)
        assert one == other
    assert both[0].price() == both[1].price()
    assert _digest(both[0].plan, "told") != _digest(both[1].plan, "told")  # what was approved is part of it
