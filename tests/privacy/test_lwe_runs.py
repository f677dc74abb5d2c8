"""Whole runs under trust "parties", looked at by whoever is in them: the noise that was drawn, secrets and matrices of
stages, sizes of messages, many blocks of rows, rows at their bounds, and a table that changes under a run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

import colonnade as co
from colonnade.errors import ReplayDiverged
from colonnade.methods.gram import lattice as gram_lattice
from colonnade.methods.gram import products as gram_products
from colonnade.methods.gram.lattice import Products
from colonnade.methods.gram.plan import RunPlan
from colonnade.methods.gram.rule import prepare
from colonnade.privacy import lattice
from colonnade.privacy.block import Block
from colonnade.privacy.exchange import ERROR
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import gaussian_sigma
from tests.helpers.forgery import Cut, Until
from tests.helpers.gram_runs import plain_gram
from tests.helpers.lwe_views import NUMBERS, PARTIES, PROBLEM, TERMS, Views, federation, table

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

WIDE = {"a": list(range(24)), "b": list(range(24, 44)), "c": list(range(44, 60))}  # c sends to both others, b to a
NEAR = 6.5  # sds that a mean may be off: once in 10^10, that of products of two normal numbers once in 10^8
RARE = 1e-9  # of a variance, on either side: half of one is still seen in 98 of 100 noises or more


# ---------------------------------------------------------------------------------------- noise


class Noises:
    """Of every product of a run that was noised in earnest: what each of its two parties added, in sds, and Δ."""

    def __init__(self, monkeypatch, store):
        self.drawn, self.stages = {}, {}
        integers, rest, answer = Gate.integers, Gate.the_rest, Products.answer

        def look(gate, exact, weights, masks, **more):
            made = integers(gate, exact, weights, masks, **more)
            self._note(gate.node, exact, weights, masks, made, more["rho"])
            return made

        def look_on(gate, exact, weights, masks):
            rho = gate._unfinished[1]
            made = rest(gate, exact, weights, masks)
            self._note(gate.node, exact, weights, masks, made, rho)
            return made

        def answering(products, noisy):
            self.stages[products.me, products.digest] = products
            return answer(products, noisy)

        monkeypatch.setattr(Gate, "integers", look)
        monkeypatch.setattr(Gate, "the_rest", look_on)
        monkeypatch.setattr(Products, "answer", answering)
        rng = np.random.default_rng(0)
        X = np.clip(rng.normal(size=(120, 60)), -2, 2)
        fed = co.Federation.split(X, np.sign(X[:, 0]), parties=WIDE, label="c")
        terms = replace(TERMS, label_bound=1.0)
        self.fit = co.fit(fed, NUMBERS, co.PrivateGram(purpose="inference"), replace(terms, row_norm=16.0), store=store)

    def _note(self, node, exact, weights, masks, made, rho):
        sigma = gaussian_sigma(exact.sensitivity, rho)
        for value, weight, mask, part in zip(exact.value, weights, masks, made, strict=True):
            if np.ndim(value) == 2:
                mask = np.uint64(mask)
                noise = (part.value.values - np.asarray(value).astype(np.uint64)) & mask
                noise = np.where(noise > mask // np.uint64(2), noise.astype(float) - float(mask) - 1, noise)
                self.drawn.setdefault(node, []).append((noise, sigma * weight))

    def of(self, route):
        """N_S and N_T of a route, whole numbers, and their sd."""
        exchange = next(iter(self.stages.values())).exchange
        shape = tuple(exchange.sides[end].width for end in route)
        return [next(part for part in self.drawn[end] if part[0].shape == shape) for end in route]


@pytest.fixture(scope="module")
def noises(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return Noises(patch, tmp_path_factory.mktemp("noises"))


ROUTES = [("c", "a"), ("c", "b"), ("b", "a")]


@pytest.mark.chance(1e-8, "two variances within 1e-9 either side, means and a product within 6.5 sds: 5e-9")
@pytest.mark.parametrize("route", ROUTES, ids="".join)
def test_each_party_of_a_product_draws_all_of_the_noise_that_it_is_priced_by(noises, route):
    """So that either one is protected where everybody else, the coordinator among them, pools what they have."""
    exchange = next(iter(noises.stages.values())).exchange
    assert route in exchange.routes
    both = []
    for noise, sd in noises.of(route):
        size = exchange.mechanism.weight * exchange.mechanism.sigma * exchange.scales[route[0]][:, None]
        assert np.allclose(sd, size / np.outer(*(exchange.sides[end].units for end in route)), rtol=1e-9)
        scaled = noise / sd
        low, high = chi2.ppf(RARE, noise.size), chi2.isf(RARE, noise.size)
        assert low < (scaled**2).sum() < high
        assert abs(scaled.mean()) < NEAR / np.sqrt(noise.size)
        both.append(scaled)
    assert abs((both[0] * both[1]).mean()) < NEAR / np.sqrt(both[0].size)  # and not the same numbers


@pytest.mark.chance(1e-8, "two statistics of 8 even counts over 60, exactly summed: 6e-10 each")
@pytest.mark.parametrize("route", ROUTES, ids="".join)
def test_noise_is_spread_evenly_between_multiples_of_a_scale(noises, route):
    """In eighths of Δ a chi square of 7 degrees: over 60 once in 10^9. On the grid of Δ all of it would be in one."""
    exchange = next(iter(noises.stages.values())).exchange
    scale = exchange.scales[route[0]][:, None]
    for noise, sd in noises.of(route):
        assert (sd > 8 * scale).all()
        bins = np.bincount((8 * (noise % scale) / scale).astype(int).ravel(), minlength=8)
        assert ((bins - bins.mean()) ** 2 / bins.mean()).sum() < 60


# ---------------------------------------------------------------------------------------- rows


def near_plain(view, fed, labels):
    """Whether a run without noise has the plain products, up to 8 sds of the errors of encryption."""
    plain = plain_gram(fed, view.job, view.figures, view.frame, labels)
    sds = RunPlan.of(view.job, co.PrivateGram()).sds(view.figures, view.frame) / view.figures.step**2
    return bool((np.abs(view.matrix - plain) <= 8 * ERROR * sds + 1e-6).all())


def test_products_are_the_same_in_many_blocks_of_which_the_last_is_short(monkeypatch):
    """150 rows in blocks of 37, of which 16 are multiplied at a time."""
    sent = []
    hidden = Gate.hidden
    monkeypatch.setattr(Gate, "hidden", lambda gate, *more: sent.append(gate.node) or hidden(gate, *more))
    monkeypatch.setattr(gram_lattice, "block_rows", lambda *_: 37)
    monkeypatch.setattr(lattice, "CHUNK", 16)
    fed = federation()
    view = Views(fed, PROBLEM, TERMS, monkeypatch)
    assert near_plain(view, fed, (np.sign(fed.labels) * view.figures.label).astype(np.int64))
    assert {name: sent.count(name) for name in PARTIES} == {"a": 0, "b": 12, "c": 6}  # b: class sums as well


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rows_at_their_bounds_wrap_in_no_product(sign, monkeypatch):
    X, y = np.full((150, 6), 2.0), np.ones(150)
    X[:, 2:] *= sign
    fed, terms = federation((X, y)), replace(TERMS, label_bound=1.0, epsilon=30.0, row_norm=4.0)
    view = Views(fed, NUMBERS, terms, monkeypatch)
    assert near_plain(view, fed, np.full(150, view.figures.label))


# ---------------------------------------------------------------------------------------- secrets of stages


@pytest.mark.chance(1e-30, "128 numbers of sd 6.4 are the same in two secrets")
def test_stages_have_matrices_secrets_and_blindings_of_their_own(monkeypatch, tmp_path):
    seen = {}
    answer = Products.answer

    def answering(products, noisy):
        exchange = products.exchange
        secret = [products.hiding.secret[:64]] if exchange.receivers(products.me) else []
        secret += [products.blinding.rows[:64]] if exchange.senders(products.me) else []
        seen[products.me, products.public] = secret
        return answer(products, noisy)

    monkeypatch.setattr(Products, "answer", answering)
    for store in ("one", "two"):
        co.fit(federation(), PROBLEM, co.PrivateGram(), TERMS, store=tmp_path / store)
    matrices = {public for _, public in seen}
    assert len(matrices) == 4  # two runs of two stages, the same for all parties
    secrets = [part.ravel().tobytes() for parts in seen.values() for part in parts]
    assert len(secrets) == len(set(secrets)) == 14  # of class sums 3, and of joint 4, where c sends and receives


# ---------------------------------------------------------------------------------------- what sizes tell


@pytest.mark.chance(0, "counts and lengths, which public figures and the first run's sums fix")
def test_sizes_and_order_of_messages_tell_nothing_of_rows(tmp_path, monkeypatch):
    """But what released sums tell, which are made the same in all runs: columns are scaled by them, and by how long they
    then are ciphertexts keep a bit more or less."""
    released = []

    def by_the_same(rule, columns, rows, sums):
        released.append(sums)
        return prepare(rule, columns, rows, released[0])

    monkeypatch.setattr(gram_products, "prepare", by_the_same)
    empty, full = np.zeros((150, 6)), np.full((150, 6), 2.0)
    empty[0], full[0], found = 1.0, -2.0, []
    for k, X in enumerate((table()[0], empty, full)):
        tap = co.Tap(co.InProcess())
        fed, terms = federation((X, X[:, 0] / 2)), replace(TERMS, label_bound=1.0)
        co.fit(fed, NUMBERS, co.PrivateGram(), terms, store=tmp_path / str(k), engine=tap)
        found.append([(x.sender, x.receiver, x.inside, len(x.body)) for x in tap.letters])
    assert [one is not None for one in released] == [True] * 3  # one a run
    assert found[0] == found[1] == found[2]


# ---------------------------------------------------------------------------------------- another table under a run


@pytest.mark.chance(0, "a refusal, and bytes that were sent before: every run has 78 letters")
@pytest.mark.parametrize("cut", [30, 36, 69])
def test_a_run_does_not_go_on_with_other_rows(cut, tmp_path, monkeypatch):
    """The same secrets would hide them, and a second answer be about them: not even a party that is blind for what its
    table is sends other bytes than before."""
    monkeypatch.setattr(Block, "digest", lambda _: "blind")
    first, second = Until(cut), Until(10**9)
    with pytest.raises(Cut):
        co.fit(federation(), PROBLEM, co.PrivateGram(), TERMS, store=tmp_path, engine=first)
    X, y = table()
    X[3], y[3] = -X[3], -y[3]
    with pytest.raises(ReplayDiverged, match=r"other data, code or settings|other bytes"):
        co.fit(federation((X, y)), PROBLEM, co.PrivateGram(), TERMS, store=tmp_path, engine=second)
    known = {(x.sender, x.receiver, x.sequence): x.body for x in first.sent}
    assert all(known[x.sender, x.receiver, x.sequence] == x.body for x in second.sent)
