"""Where rows stand in what leaves row by row: tables that differ in one person move a release no further than it is
charged, whoever takes whose place, and the order of rows says nothing without its secret.

A second run goes on from what the first one released, as a neighbour must: what is compared is what reaches the gate. The
one statistical test is judged at 1e-6 on either side.
"""

from __future__ import annotations

import importlib
import math
import stat
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom, chi2

import colonnade as co
from colonnade.cli.runs import list_runs
from colonnade.data import row_order
from colonnade.data.row_order import in_order
from colonnade.estimators.federated import same_call
from colonnade.methods.gram import masks as gram_masks
from colonnade.methods.gram import products as gram_products
from colonnade.model.job import Job
from colonnade.privacy.conditions import KEYED_HASH, PLACE_BY_HASH, PLACE_BY_KEY, PLACE_BY_TABLE
from colonnade.privacy.events import Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import derive
from colonnade.runs.call import blocks_with_labels
from colonnade.runs.fit import RunDriver
from colonnade.runtime.run_store import MemoryStore, RunStore
from tests.helpers.gram_runs import gram_release, sums_release

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

running = importlib.import_module("colonnade.runs.fit")  # the module; the name in the package is the function
SECRET = derive(b"the secret of an order", "test")
ROWS = 60
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1e-2))
BALL = co.Problem(co.Logistic(), constraint=co.L1Ball(1.0))
SCHEMAS = {
    "clinic": co.Schema((co.Numeric("u", -1, 1), co.Numeric("v", -1, 1))),
    "lab": co.Schema((co.Numeric("w", -1, 1),)),
}


def nobody(**bounds):
    return co.Privacy(4.0, 1e-6, trust="nobody", **bounds)


WAYS = {
    "noisy labels": (co.PrivateGram(cross="none"), RIDGE, nobody()),
    "released labels": (co.PrivateGram(labels="released"), RIDGE, co.Privacy(2.0, 1e-6, trust="secure")),
    "sharing ADMM": (co.PrivateSharingADMM(rounds=3), RIDGE, nobody(row_norm=1.5)),
    "block Frank-Wolfe": (co.PrivateBlockFrankWolfe(rounds=2, sketch_rows=8), BALL, nobody(feature_bound=1.0)),
}
by_every_way = pytest.mark.parametrize("way", WAYS)


# ---------------------------------------------------------------------------------------- tables


@dataclass
class People:
    """Rows with a key, somebody whom they are about, cells at their bounds and a label."""

    keys: list
    who: list
    cells: np.ndarray
    labels: np.ndarray

    @classmethod
    def made(cls, rows=ROWS, each=1):
        rng = np.random.default_rng(0)
        cells = np.sign(rng.standard_normal((rows, 3))) * rng.choice([1.0, 0.1], (rows, 3), p=[0.8, 0.2])
        # What follows the order of the key follows the labels, so that a shift by one place moves every label.
        return cls(
            [f"p{i:04}" for i in range(rows)],
            [f"P{i // each}" for i in range(rows)],
            cells,
            np.where(np.arange(rows) % 2, 1, 0),
        )

    def replaced(self, person, keys=None, flipped=True):
        """Another person's rows in this one's stead: other keys, all cells turned round, the other label."""
        mine = [i for i, who in enumerate(self.who) if who == person]
        given = dict(zip(mine, keys if keys is not None else [self.keys[i] for i in mine], strict=True))
        sign = np.array([-1.0 if i in given and flipped else 1.0 for i in range(len(self.keys))])
        return People(
            [given.get(i, key) for i, key in enumerate(self.keys)],
            ["another" if i in given and keys is not None else who for i, who in enumerate(self.who)],
            self.cells * sign[:, None],
            np.where(sign < 0, 1 - self.labels, self.labels),
        )

    def federation(self, unit=None):
        key = {"key": self.keys}
        frames = {
            "clinic": pl.DataFrame({**key, "u": self.cells[:, 0], "v": self.cells[:, 1], "ill": self.labels}),
            "lab": pl.DataFrame({**key, "w": self.cells[:, 2]}),
        }
        if unit is not None:
            frames["lab"] = frames["lab"].with_columns(pl.Series("who", self.who))
        return co.Federation.from_frames(frames, "key", ("clinic", "ill"), schemas=SCHEMAS, unit=unit)


# ---------------------------------------------------------------------------------------- what reaches the gate


@dataclass
class Tape:
    """What reached the gates in one run, beside what may move; and what came out, for a second run to go on from."""

    exact: dict = field(default_factory=lambda: defaultdict(list))
    out: dict = field(default_factory=lambda: defaultdict(list))
    earlier: Tape | None = None

    def noted(self, place, parts, sensitivity, released, farthest=False):
        self.exact[place].append((parts, sensitivity, farthest))
        self.out[place].append(released)
        return released if self.earlier is None else self.earlier.out[place][len(self.out[place]) - 1]

    def ratios(self):
        """How far each release moved from the earlier run's, relative to what is charged."""
        assert self.exact.keys() == self.earlier.exact.keys()
        found = {}
        for place, seen in self.exact.items():
            for i, ((parts, sensitivity, farthest), (before, charged, _)) in enumerate(
                zip(seen, self.earlier.exact[place], strict=True)
            ):
                moved = np.concatenate([((a - b) / w).ravel() for (a, w), (b, _) in zip(parts, before, strict=True)])
                assert sensitivity == charged
                far = np.abs(moved).max() if farthest else np.linalg.norm(moved)
                found[(*place, i)] = float(far) / sensitivity
        return found


def run_of(federation, way, monkeypatch, earlier=None):
    """One run of a method over rows in the order they have here, on tape; nothing on disk."""
    method, problem, privacy = WAYS[way]
    tape = Tape(earlier=earlier)
    gaussian, integers, noisy_max = Gate.gaussian, Gate.integers, Gate.noisy_max
    sums, matrix = gram_masks.collect_sums, gram_products.gram_matrix

    def on_gaussian(self, *exact, **more):
        parts = [(np.array(part.value), 1.0) for part in exact]
        sensitivity = math.hypot(*(part.sensitivity for part in exact))
        return tape.noted((self.node, "gaussian"), parts, sensitivity, gaussian(self, *exact, **more))

    def on_integers(self, exact, weights, masks, **more):
        released = integers(self, exact, weights, masks, **more)
        if more["scope"] is not Scope.OWN:  # parts of what all release together: looked at below
            return released
        parts = [(np.asarray(part, float), w) for part, w in zip(exact.value, weights, strict=True)]
        return tape.noted((self.node, "integers"), parts, exact.sensitivity, released)

    def on_max(self, scores, **more):
        parts = [(np.array(scores.value), 1.0)]
        place = self.node, "choice"
        return tape.noted(place, parts, scores.sensitivity, noisy_max(self, scores, **more), farthest=True)

    def on_sums(design, prepared, gate, losses):
        got = yield from sums(design, prepared, gate, losses)
        made = sums_release(design, prepared.figures, got)
        return tape.noted(("joint", "sums"), made.parts, made.sensitivity, got)

    def on_matrix(layout, got):
        made = gram_release(method, layout, got)
        return tape.noted(("joint", "gram"), made.parts, made.sensitivity, matrix(layout, got))

    with monkeypatch.context() as patch:
        patch.setattr(Gate, "gaussian", on_gaussian)
        patch.setattr(Gate, "integers", on_integers)
        patch.setattr(Gate, "noisy_max", on_max)
        patch.setattr(gram_masks, "collect_sums", on_sums)
        patch.setattr(gram_products, "gram_matrix", on_matrix)
        patch.setattr("colonnade.privacy.gate.Gate._fresh", lambda _: Still())
        job = Job(problem, federation.roster(), privacy)
        method.check(job)
        blocks = blocks_with_labels(federation, job)
        # One id for all, so that sketches are the same: they are public, and the same for both neighbours.
        args = "run", federation, job, method, method.price(job), blocks, MemoryStore(), lambda _: None, None
        run = RunDriver(*args)
        with run.hosted(co.InProcess()):
            running.drive_and_save(run)
    return tape


class Still(co.SeededNoise):
    """Noise that is zero, and choices that are the largest score."""

    def __init__(self):
        super().__init__(0)

    def discrete_gaussian(self, size, sigma):
        return np.zeros(size, np.int64)


def moved(way, monkeypatch, first, second):
    """The farthest that a release moves between two federations whose rows are in order."""
    tape = run_of(first, way, monkeypatch)
    return max(run_of(second, way, monkeypatch, tape).ratios().values())


def coupled(monkeypatch, new, old):
    """The random function in which a new key stands for an old one: F∘τ, as likely as F."""
    words, stands_for = (
        row_order.canonical,
        {b"t" + k.encode(): b"t" + o.encode() for k, o in zip(new, old, strict=True)},
    )
    monkeypatch.setattr(row_order, "canonical", lambda keys: [stands_for.get(word, word) for word in words(keys)])


@by_every_way
def test_neighbours_who_keep_their_keys_move_a_release_no_further_than_charged(way, monkeypatch):
    people = People.made()
    found = moved(way, monkeypatch, *(p.federation().ordered(SECRET) for p in (people, people.replaced("P31"))))
    assert 0.0 < found <= 1.0 + 1e-9


@by_every_way
def test_a_replaced_person_moves_a_release_no_further_than_charged_if_the_orders_are_coupled(way, monkeypatch):
    """Its key would be the first in the order of keys, where it was the last: every other row would move by one place."""
    people = People.made()
    first = people.federation().ordered(SECRET)
    coupled(monkeypatch, ["a first one"], [people.keys[-1]])
    second = people.replaced(people.who[-1], ["a first one"]).federation().ordered(SECRET)
    assert 0.0 < moved(way, monkeypatch, first, second) <= 1.0 + 1e-9


@by_every_way
def test_in_the_order_of_the_key_the_same_replacement_moves_a_release_further(way, monkeypatch):
    """What the order by a secret is for; and the test above can fail."""
    people = People.made()
    found = moved(way, monkeypatch, people.federation(), people.replaced(people.who[-1], ["a first one"]).federation())
    assert found > 1.0


@by_every_way
@pytest.mark.parametrize("keeps", ["keys", "number of rows", "more rows"])
def test_a_person_with_surplus_rows_moves_a_release_no_further_than_charged(way, keeps, monkeypatch):
    """Three rows stay of five, or of nine: those of others stay where they were."""
    people, unit = People.made(each=5), ("who", 3)
    first = people.federation(unit).ordered(SECRET)
    mine = [key for key, who in zip(people.keys, people.who, strict=True) if who == "P4"]
    if keeps == "keys":
        other = people.replaced("P4")
    else:
        new = [f"a{i}" for i in range(5)]
        coupled(monkeypatch, new, mine)
        other = people.replaced("P4", new)
    if keeps == "more rows":
        # Four rows more, of which none stays: their digests for the cut are the last, wherever they would stand.
        extra = People([f"z{i}" for i in range(4)], ["another"] * 4, np.ones((4, 3)), np.ones(4, int))
        other = People(
            other.keys + extra.keys,
            other.who + extra.who,
            np.vstack([other.cells, extra.cells]),
            np.r_[other.labels, extra.labels],
        )
        digests = row_order.digests

        def last(keys, secret, use="row"):
            found = digests(keys, secret, use).copy()
            found[keys.str.starts_with("z").to_numpy() & (use == "cut"), 0] = 255
            return found

        monkeypatch.setattr(row_order, "digests", last)
    second = other.federation(unit).ordered(SECRET)
    assert first.rows == second.rows == 3 * 12
    assert 0.0 < moved(way, monkeypatch, first, second) <= 1.0 + 1e-9


# ---------------------------------------------------------------------------------------- the order


def test_without_the_secret_nobody_says_who_is_in_the_table_more_often_than_by_chance():
    """The table has one of two people, a fresh secret each time; the adversary knows all cells and sees labels *without noise*.

    Its test is the one that is always right where rows are in the order of the key: which of the two label vectors is nearer.
    """
    people = People.made(rows=80)
    tables = people, people.replaced(people.who[-1], ["a first one"], flipped=False)
    by_key = [table.labels[np.argsort(table.keys)] * 2.0 - 1.0 for table in tables]
    rng, tries, right = np.random.default_rng(1), 600, 0
    for _ in range(tries):
        truth = int(rng.integers(2))
        _, places = in_order(pl.Series(tables[truth].keys), rng.bytes(32))
        seen = tables[truth].labels[places] * 2.0 - 1.0
        near = [float(seen @ vector) for vector in by_key]
        guess = int(near[1] > near[0]) if near[0] != near[1] else int(rng.integers(2))
        right += guess == truth
    assert binom.ppf(1e-6, tries, 0.5) <= right <= binom.ppf(1 - 1e-6, tries, 0.5)


def test_where_a_persons_rows_stand_does_not_tell_how_many_were_left_out():
    """One row stays of a person with 40 and of nine with one; chance of more than this: 1e-6."""
    keys = pl.Series(range(49))
    who = pl.Series([0] * 40 + list(range(1, 10)))
    rng, tries, ranks = np.random.default_rng(2), 1500, np.zeros(10)
    for _ in range(tries):
        _, places = in_order(keys, rng.bytes(32), who, 1)
        ranks[int(np.flatnonzero(places < 40)[0])] += 1
    assert ((ranks - tries / 10) ** 2 / (tries / 10)).sum() < chi2.isf(1e-6, 9)


@pytest.mark.parametrize(
    "keys",
    [pl.Series(["007", "7", "é", "b"]), pl.Series([3, -1, 20, 7], dtype=pl.Int16), pl.Series([3, -1, 20, 7])],
    ids=["text", "short", "long"],
)
def test_the_order_goes_by_the_key_however_the_table_was_sorted_and_stored(keys):
    found = [series.gather(in_order(series, SECRET)[1]).to_list() for series in (keys, keys.reverse(), keys.sort())]
    assert found[0] == found[1] == found[2]
    assert sorted(found[0]) == sorted(keys.to_list())
    if keys.dtype.is_integer():
        assert found[0] == pl.Series([3, -1, 20, 7]).gather(in_order(pl.Series([3, -1, 20, 7]), SECRET)[1]).to_list()


# ---------------------------------------------------------------------------------------- runs


def seen_labels(federation, monkeypatch, store, way="noisy labels", **more):
    """A run as a user starts it, and the labels that reach the gate."""
    method, problem, privacy = WAYS[way]
    seen, gaussian = [], Gate.gaussian

    def note(self, *exact, **terms):
        seen.append(np.array(exact[0].value))
        return gaussian(self, *exact, **terms)

    with monkeypatch.context() as patch:
        patch.setattr(Gate, "gaussian", note)
        fit = co.fit(federation, problem, method, privacy, store=store, **more)
    return seen[0], fit


@pytest.mark.chance(1e-11, "two secrets put 20 of 40 labels in the same places: 1 in C(40, 20) = 1.4e11")
def test_a_private_run_orders_its_rows_by_the_secret_of_its_store_and_the_next_one_alike(monkeypatch, tmp_path):
    people = People.made(rows=40)
    one, _ = seen_labels(people.federation(), monkeypatch, tmp_path / "a")
    books = RunStore(tmp_path / "a")
    _, places = in_order(pl.Series(people.keys), books.order_secret())
    books.close()
    np.testing.assert_array_equal(one, people.labels[places] * 2.0 - 1.0)
    again, _ = seen_labels(people.federation(), monkeypatch, tmp_path / "a")
    np.testing.assert_array_equal(one, again)
    other, _ = seen_labels(people.federation(), monkeypatch, tmp_path / "b")
    assert (one != other).any()
    assert stat.S_IMODE((tmp_path / "a" / "runs.db").stat().st_mode) == 0o600


@pytest.mark.chance(0, "the state of the run: nothing that was drawn is compared")
def test_a_run_that_was_interrupted_goes_on_with_the_same_order(monkeypatch, tmp_path):
    people, made = People.made(rows=40), running.assemble_fit

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "assemble_fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        co.fit(people.federation(), RIDGE, *WAYS["noisy labels"][::2], store=tmp_path)
    monkeypatch.setattr(running, "assemble_fit", made)
    co.fit(people.federation(), RIDGE, *WAYS["noisy labels"][::2], store=tmp_path)
    assert [line["state"] for line in list_runs(tmp_path)] == ["finished"]


@pytest.mark.chance(0, "scores of one draw, computed twice, within the rounding of their parts")
def test_rows_have_the_order_of_the_key_for_whoever_made_the_federation(monkeypatch, tmp_path):
    people, unit = People.made(each=5), ("who", 3)
    federation = people.federation(unit)
    before = federation.parties["clinic"].block.matrix.copy(), federation.labels.copy(), federation.keys.to_list()
    _, fit = seen_labels(federation, monkeypatch, tmp_path)
    np.testing.assert_array_equal(before[0], federation.parties["clinic"].block.matrix)
    np.testing.assert_array_equal(before[1], federation.labels)
    assert before[2] == federation.keys.to_list() == sorted(before[2])
    by_hand = sum(party.block.matrix @ fit.coefficients[name] for name, party in federation.parties.items())
    size = sum(np.abs(part).sum() for part in fit.coefficients.values()) + abs(fit.intercept)  # cells are 1 at most
    np.testing.assert_allclose(fit.scores(federation), by_hand + fit.intercept, rtol=0, atol=1e-12 * size)


def test_an_exact_run_keeps_the_order_of_the_key_with_a_store_and_without(tmp_path):
    people, problem = People.made(rows=40), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    fits = [co.fit(people.federation(), problem, co.SharingADMM(rounds=5), store=s) for s in (None, tmp_path)]
    for name in SCHEMAS:
        np.testing.assert_array_equal(fits[0].coefficients[name], fits[1].coefficients[name])


@pytest.mark.chance(0, "labels before any noise, against the order of the same secret")
def test_a_private_fit_of_classes_labels_the_rows_that_its_order_keeps(monkeypatch, tmp_path):
    """The estimator turns labels into targets: also those of rows that the order of the key leaves out."""
    people = People.made(each=5)
    federation = people.federation(("who", 3))
    model = co.FederatedClassifier(epsilon=4.0, delta=1e-6, classes=[0, 1], trust="nobody", store=tmp_path)
    seen, gaussian = [], Gate.gaussian

    def note(self, *exact, **terms):
        seen.append(np.array(exact[0].value))
        return gaussian(self, *exact, **terms)

    monkeypatch.setattr(Gate, "gaussian", note)
    model.fit(federation)
    books = RunStore(tmp_path)
    _, places = in_order(pl.Series(people.keys), books.order_secret(), pl.Series(people.who), 3)
    books.close()
    np.testing.assert_array_equal(seen[0], people.labels[places] * 2.0 - 1.0)


def test_a_job_of_several_classes_is_another_if_a_row_that_may_be_kept_has_changed():
    people, unit = People.made(each=5), ("who", 3)
    first = people.federation(unit)
    cells = people.cells.copy()
    cells[4, 2] = -cells[4, 2]  # the last of five rows of a person: left out in the order of the key
    second = People(people.keys, people.who, cells, people.labels).federation(unit)
    assert first.keys.to_list() == second.keys.to_list()
    assert people.keys[4] not in first.keys
    assert same_call([first]) == same_call([people.federation(unit)]) != same_call([second])


def test_keys_without_an_order_are_refused_before_anything_is_written(tmp_path):
    frames = {"clinic": pl.DataFrame({"key": [0.5, 1.5], "u": [0.1, 0.2], "v": [0.1, 0.2], "ill": [0, 1]})}
    federation = co.Federation.from_frames(frames, "key", ("clinic", "ill"), schemas={"clinic": SCHEMAS["clinic"]})
    with pytest.raises(co.InvalidInput, match="key column has type Float64"):
        co.fit(federation, RIDGE, *WAYS["noisy labels"][::2], store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


# ---------------------------------------------------------------------------------------- what is printed


@pytest.mark.chance(0, "texts, and a statement against itself, saved and read")
@by_every_way
def test_the_statement_says_what_makes_two_rows_the_same_row(way, tmp_path):
    method, problem, privacy = WAYS[way]
    fit = co.fit(People.made().federation(), problem, method, privacy, store=tmp_path)
    assert {KEYED_HASH, PLACE_BY_HASH} <= set(fit.privacy.conditions)
    fit.save(tmp_path / "fit.json")
    assert co.load(tmp_path / "fit.json").privacy == fit.privacy


@pytest.mark.chance(0, "texts of the statement: nothing that was drawn is compared")
def test_rows_of_one_table_are_known_by_their_place(tmp_path):
    people = People.made()
    federation = co.Federation.split(people.cells, people.labels, 2)
    fit = co.fit(
        federation, RIDGE, co.PrivateGram(cross="none"), nobody(row_norm=2.0, feature_bound=1.0), store=tmp_path
    )
    assert PLACE_BY_TABLE in fit.privacy.conditions


@pytest.mark.chance(0, "rows before any noise, and texts")
def test_public_labels_keep_the_order_of_the_key_and_the_statement_says_so(monkeypatch, tmp_path):
    people = People.made()
    public = co.PublicLabels(people.labels * 2.0 - 1.0)
    method = co.PrivateBlockFrankWolfe(rounds=1, labels=public)
    seen, party = [], type(method).party

    def note(self, job, block, gate):
        seen.append(np.array(block.matrix))
        return party(self, job, block, gate)

    monkeypatch.setattr(type(method), "party", note)
    federation = people.federation()
    fit = co.fit(federation, BALL, method, nobody(feature_bound=1.0), store=tmp_path)
    assert any(np.array_equal(federation.parties["clinic"].block.matrix, matrix) for matrix in seen)
    assert PLACE_BY_KEY in fit.privacy.conditions


@pytest.mark.chance(0, "texts of the statement: nothing that was drawn is compared")
def test_a_gram_matrix_has_no_order_and_its_statement_needs_none(tmp_path):
    people, terms = People.made(), co.Privacy(60.0, 1e-6, trust="secure")
    fit = co.fit(people.federation(), RIDGE, co.PrivateGram(), terms, store=tmp_path)
    assert not {PLACE_BY_HASH, PLACE_BY_KEY, PLACE_BY_TABLE} & set(fit.privacy.conditions)
    assert "keys" not in str(fit.privacy)
