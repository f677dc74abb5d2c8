"""Scores of rows by a model: the label holder learns the sum, the others' parts stay hidden, a missing party is said."""

from __future__ import annotations

import numpy as np
import pytest

import colonnade as co

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PARTIES = {"a": [0, 1], "b": [2], "c": [3, 4]}
STRICT = co.Policy(epsilon=10.0, delta=1e-5)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 5))
    fed = co.Federation.split(X, np.sign(X[:, 0] - X[:, 4]), parties=PARTIES, label="b")
    return co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(5.0), intercept=True))


def rows(count=50, **more):
    X = np.random.default_rng(1).uniform(-1, 1, (count, 5))
    return co.Federation.split(X, np.ones(count), parties=PARTIES, label="b", **more)


def test_masked_parts_add_up_to_the_scores(model):
    assert np.abs(co.score(model, rows()) - model.scores(rows())).max() < 3 * 2.0**-32 + 1e-12


def test_a_part_alone_looks_like_random_numbers(model, monkeypatch):
    """Of the two parties beside the label holder: 2,000 masked parts, 8 bits each, chi-square at 1e-6."""
    from scipy.stats import chi2

    from colonnade.privacy.gate import Gate

    sent, scores = [], Gate.scores

    def spy(self, *a):
        sent.append((self.node, scores(self, *a)))
        return sent[-1][1]

    monkeypatch.setattr(Gate, "scores", spy)
    co.score(model, rows(2000))
    for _, part in sent:
        counts = np.bincount((part.value.values.ravel() >> np.uint64(56)).astype(int), minlength=256)
        expected = counts.sum() / 256
        assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-6, 255)
    assert {node for node, _ in sent} == {"a", "c"}


def test_a_missing_party_is_an_error_and_a_named_one_is_left_out(model):
    there = rows()
    parties = {name: party for name, party in there.parties.items() if name != "c"}
    without = __import__("dataclasses").replace(there, parties=parties)
    for scores in (lambda **k: model.scores(without, **k), lambda **k: co.score(model, without, **k)):
        with pytest.raises(co.InvalidInput, match="'c' is missing"):
            scores()
        part = there.parties["c"].block.scores(model.coefficients["c"])
        assert np.abs(scores(without=["c"]) - (model.scores(there) - part)).max() < 1e-8


@pytest.mark.parametrize("wrong", [["x"], "c", ["a", "b", "c"]])
def test_who_is_left_out_must_be_a_party_of_the_model_and_not_all_of_them(model, wrong):
    with pytest.raises(co.InvalidInput, match="without"):
        model.scores(rows(), without=wrong)


def test_a_party_whose_policy_keeps_scores_sends_none(model):
    kept = rows(policies={"a": STRICT})
    with pytest.raises(co.PolicyRefused, match="part of scores"):
        co.score(model, kept)
    allowed = rows(policies={"a": co.Policy(epsilon=10.0, delta=1e-5, scores=True)})
    assert co.score(model, allowed).size == 50


def test_the_label_holder_must_take_part(model):
    X = np.zeros((3, 5))
    other = co.Federation.split(X, None, parties={"a": [0, 1], "c": [3, 4]})
    with pytest.raises(co.InvalidInput, match=r"'b' is missing|takes no part"):
        co.score(model, other, without=["b"])
