"""Private Gram as its adversaries see it: hostile rows, a coordinator that asks for more, a dealer that knows every mask,
parties that look on, whoever finds the files; and bugs planted on purpose, which the same attacks must find.

Statistics are judged at 1e-6 or less each, so that a test fails by chance less than once in 10,000 runs.
"""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from gram_runs import silent_run
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

import colonnade as co
from colonnade.audit import gram as attacks
from colonnade.audit import gram_runs
from colonnade.audit.lower_bound import epsilon_lower_bound
from colonnade.errors import ProtocolError
from colonnade.kernels.ring import Ring, product, uniform
from colonnade.methods.gram import design as gram_design
from colonnade.methods.gram import integer_rows, secure_design, secure_products
from colonnade.methods.gram import local as local_gram
from colonnade.methods.gram.design import OWN, Figures, cross_weight, grid, own_count
from colonnade.methods.gram.integer_rows import IntegerRows, within
from colonnade.methods.gram.local import Products, SendSketch
from colonnade.methods.gram.noisy_labels import NoisyLabels
from colonnade.methods.gram.private_gram import Parts, Prepare, PrivateGram
from colonnade.methods.gram.secure_products import Deal, Masked
from colonnade.methods.masked_scores import PartScores
from colonnade.methods.method import Job, SendLabels
from colonnade.privacy import gate as gates
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Keyring, derive
from colonnade.privacy.mechanisms import gaussian_sigma
from colonnade.privacy.pads import Pad
from colonnade.privacy.released import Private
from colonnade.privacy.store import FileLog
from colonnade.runtime.inprocess import Tap
from colonnade.runtime.messages import Sealed
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import decode, encode

audits = importlib.import_module("colonnade.audit.run")  # the module; the name in the package is the function
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
ONE_EPSILON = audits.Setting(1.0, 1e-5, 0)
ERROR = 1e-6


def privacy(epsilon=1.0, trust="secure", **more):
    return co.Privacy(epsilon, 1e-6, trust=trust, **{"row_norm": 3.0, "feature_bound": 2.0, **more})


# ---------------------------------------------------------------------------------------- hostile rows

WRAPS = 3_037_000_500  # its square is over 2^63, which 64 bits take for a negative number


@settings(max_examples=60)
@given(st.integers(1, 5), st.integers(1, 10**8), st.integers(0, 2**32))
def test_no_entry_is_too_large_to_be_shortened(columns, norm2, seed):
    rng = np.random.default_rng(seed)
    rows = rng.choice([0, 1, -1, 2**31, 2**32, -(2**32), WRAPS, -WRAPS, 2**40 + 1, 2**62], (20, columns))
    cut, shortened = within(rows.astype(np.int64), norm2)
    assert all(sum(int(x) ** 2 for x in row) <= norm2 for row in cut)
    assert shortened == sum(sum(int(x) ** 2 for x in row) > norm2 for row in rows)


def test_lengths_whose_squares_do_not_fit_are_refused_whatever_the_rows():
    with pytest.raises(co.InvalidInput, match="do not fit 63 bits"):
        within(np.zeros((1, 8), np.int64), 1 << 60)


@given(st.integers(1, 6), st.integers(4, 10**6), st.integers(0, 2**32))
def test_shortening_moves_two_vectors_apart_by_less_than_a_step_an_entry(columns, norm2, seed):
    """What the sensitivity of buckets rests on: entries cut, then shortened, then cut toward zero."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([3, 300, 30_000]))
    a, b = rng.integers(-size, size + 1, (2, 50, columns))
    apart = np.linalg.norm(a - b, axis=1)
    (first, _), (second, _) = within(a, norm2), within(b, norm2)
    assert (np.linalg.norm(first - second, axis=1) <= apart + np.sqrt(columns) + 1e-6).all()


def income(rows, y):
    """Two parties whose declared bounds are far beyond the length that rows are cut to."""
    names = {"a": ["u", "v"], "b": ["w"]}
    key = np.arange(len(rows))
    frames = {p: pl.DataFrame({"key": key, **{c: rows[:, "uvw".index(c)] for c in cs}}) for p, cs in names.items()}
    frames["b"] = frames["b"].with_columns(pl.Series("y", y))
    schemas = {p: co.Schema(tuple(co.Numeric(c, 0.0, 1e9, scale=False) for c in cs)) for p, cs in names.items()}
    return co.Federation.from_frames(frames, on="key", label=("b", "y"), schemas=schemas)


EVERY_WAY = [
    (co.PrivateGram(), "secure", 60.0),
    (co.PrivateGram(), "secure", 2.0),
    (co.PrivateGram(labels="released"), "secure", 2.0),
    (co.PrivateGram(sketch_rows=3), "secure", 60.0),
    (co.PrivateGram(cross="none"), "nobody", 4.0),
    (co.PrivateGram(cross="sketch"), "nobody", 4.0),
]
WAYS = ["raw", "sums first", "labels first", "sketch_rows", "none", "sketch"]


def furthest(method, trust, epsilon, monkeypatch):
    """How far a row can move a release, relative to what is stated, if its entries are chosen so that squares wrap."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 1, (30, 3)), np.where(np.arange(30) % 2, 1.0, -1.0)
    terms = privacy(epsilon, trust, row_norm={"a": 1.0, "b": 1.0}, feature_bound=None)
    plain = silent_run(income(X, y), method, terms, monkeypatch).releases[0]
    found = []
    for step in (2.0**-5, 2.0**-7, 2.0**-9, 2.0**-11):  # one of those that a length of 1 is cut into
        X[-1] = [WRAPS * step, 0.0, WRAPS * step]
        wild = silent_run(income(X, y), method, terms, monkeypatch).releases[0]
        found.append(plain.distance(wild) / plain.sensitivity)
    return max(found)


@pytest.mark.parametrize(("method", "trust", "epsilon"), EVERY_WAY, ids=WAYS)
def test_a_row_far_beyond_its_length_moves_a_release_no_further_than_stated(method, trust, epsilon, monkeypatch):
    assert furthest(method, trust, epsilon, monkeypatch) <= 1.0


def test_planted_squares_that_wrap_round_are_found(monkeypatch):
    """Lengths in 64 bits of entries of any size: buckets then move thousands of times as far as their noise allows."""

    def naive(whole, norm2):
        over = (whole**2).sum(axis=1) > norm2
        return np.where(over[:, None], 0, whole), int(over.sum())

    def wide(*figures):
        made = grid(*figures)
        return replace(made, high=np.full_like(made.high, 2**62))

    monkeypatch.setattr(integer_rows, "within", naive)
    monkeypatch.setattr(local_gram, "grid", wide)
    assert furthest(PrivateGram(cross="sketch"), "nobody", 4.0, monkeypatch) > 1e3


@pytest.mark.parametrize(("method", "trust", "epsilon"), EVERY_WAY, ids=WAYS)
def test_values_that_are_no_numbers_or_out_of_bounds_are_cut_like_any_other(method, trust, epsilon, monkeypatch):
    """No error, no warning (they are errors here), and no further than stated: below zero, too, where zero is declared."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(0, 1, (30, 3)), np.where(np.arange(30) % 2, 1.0, -1.0)
    fed = income(X, y)
    terms = privacy(epsilon, trust, row_norm={"a": 1.0, "b": 1.0}, feature_bound=1.0)
    plain = silent_run(fed, method, terms, monkeypatch).releases[0]
    for wild in ([np.nan] * 3, [np.inf, -np.inf, 1e308], [-1.0, -1e300, -np.inf], [1e308, 0.0, -5.0]):
        parties = {}
        for name, party in fed.parties.items():
            matrix = np.asarray(
                party.block.matrix.toarray() if hasattr(party.block.matrix, "toarray") else party.block.matrix
            )
            matrix = matrix.copy()
            matrix[-1] = wild[: matrix.shape[1]]
            parties[name] = replace(party, block=replace(party.block, matrix=matrix))
        hostile = silent_run(replace(fed, parties=parties), method, terms, monkeypatch).releases[0]
        assert plain.distance(hostile) <= plain.sensitivity


# ---------------------------------------------------------------------------------------- a coordinator that asks for more


def federation(rows=60, seed=0, columns=3, label="b"):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(rows, 3 * columns)), -2, 2)
    parties = {p: list(range(columns * k, columns * (k + 1))) for k, p in enumerate("abc")}
    return co.Federation.split(X, np.where(X[:, 0] + X[:, -1] > 0, 1.0, -1.0), parties=parties, label=label)


def forging(change):
    """An engine whose coordinator's messages to "a" are changed on the way."""

    def fault(letter):
        message = decode(letter.body)
        forged = change(message) if (letter.sender, letter.receiver) == (COORDINATOR, "a") else None
        if forged is None:
            return [letter]
        return [letter.with_body(encode(forged, guarded=False), "")]

    return co.Faults(co.InProcess(), fault)


@pytest.mark.parametrize(
    ("cross", "instead"),
    [("sketch", lambda: Products(np.ones(60))), ("none", lambda: SendSketch(2))],
    ids=["products of rows noised like buckets", "buckets noised like products"],
)
def test_a_party_releases_only_what_was_agreed(cross, instead, tmp_path):
    """The noise of buckets is far too small for products: which of them is asked for must not be the asker's choice."""

    def change(message):
        return instead() if isinstance(message, SendSketch | Products) else None

    with pytest.raises(ProtocolError, match="was not agreed"):
        co.fit(
            federation(),
            RIDGE,
            PrivateGram(cross=cross),
            privacy(trust="nobody"),
            store=tmp_path,
            engine=forging(change),
        )


def test_labels_leave_only_where_that_was_agreed(tmp_path):
    def change(message):
        return SendLabels() if isinstance(message, Prepare) else None

    with pytest.raises(ProtocolError, match="was not agreed"):
        co.fit(federation(label="a"), RIDGE, PrivateGram(), privacy(), store=tmp_path, engine=forging(change))


@pytest.mark.parametrize(
    "changes",
    [
        {"centre": lambda m: m.centre + 1.0},  # columns declared nonnegative would no longer be
        {"scale": lambda m: m.scale * 2.0},
        {"keep": lambda m: m.keep[::-1].copy()},
        {"keep": lambda m: np.zeros_like(m.keep)},
        {"norm2": lambda m: m.norm2 * 2},
        {"step": lambda m: m.step / 2},
        {"label": lambda m: m.label + 1},
        {"centre": lambda m: m.centre * np.nan},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_class_sums_are_those_that_every_party_can_work_out(changes, tmp_path):
    def change(message):
        if not (isinstance(message, Prepare) and message.name == "sums"):
            return None
        fields = {name: getattr(message, name) for name in message.__slots__}
        return Prepare(**fields | {name: how(message) for name, how in changes.items()})

    with pytest.raises(ProtocolError, match=COORDINATOR):
        co.fit(federation(), RIDGE, PrivateGram(), privacy(), store=tmp_path, engine=forging(change))


def test_figures_that_differ_between_parties_cost_each_party_no_more_than_its_own_price():
    """Noise is made for the figures that rows are cut by: what a party releases by itself moves within its own noise."""
    job = Job(RIDGE, federation().roster(), privacy(60.0))
    design = secure_design.Design(job, PrivateGram())
    for own in (1, 10, 10_000):
        told = Figures("joint", 2.0**-6, 40, {"a": own, "b": 1, "c": 1}, {"a": 3, "b": 4, "c": 3}, 1, 1, 60)
        assert np.sqrt(2.0) * own <= design.sensitivity(told)


# ---------------------------------------------------------------------------------------- uniform, given all that is known


class Seen:
    """A run over the real engine, tapped on all wires, and what everybody's rows were."""

    def __init__(self, tmp_path, fed):
        self.fed, terms = fed, privacy()
        self.job, self.bodies = Job(RIDGE, fed.roster(), terms), []
        seal = Keyring.seal

        def spy(ring, places, body, name):
            self.bodies.append((ring._me, tuple(places), decode(body)))
            return seal(ring, places, body, name)

        tap = Tap(co.InProcess())
        patch = pytest.MonkeyPatch()
        patch.setattr(Keyring, "seal", spy)
        self.seeds, wrap = {}, secure_products.wrap

        def deal(secret, body, public, run, party, *purpose):
            self.seeds[purpose[1], party] = body
            return wrap(secret, body, public, run, party, *purpose)

        patch.setattr(secure_products, "wrap", deal)
        self.fit = co.fit(fed, RIDGE, PrivateGram(), terms, store=tmp_path, engine=tap)
        patch.undo()
        self.letters = [(x.sender, x.receiver, decode(x.body)) for x in tap.letters]

    def sent(self, sender, receiver, kind):
        return [m for a, b, m in self.letters if (a, b) == (sender, receiver) and isinstance(m, kind)]

    def stages(self):
        """Figures, each party's seed and shares, and its matrix in whole numbers, by stage."""
        for number, told in enumerate(self.sent(COORDINATOR, "a", Prepare)):
            parties = self.job.roster.parties
            norm2, widths = (dict(zip(parties, map(int, v), strict=True)) for v in (told.norm2, told.widths))
            head = told.name, told.step, told.bits, norm2, widths, told.constant, told.label, self.job.roster.rows
            figures = Figures(*head, told.buckets)
            yield number, figures, {p: self.matrix(figures, p, number) for p in parties}

    def matrix(self, figures, party, number):
        told, block = self.sent(COORDINATOR, party, Prepare)[number], self.fed.parties[party].block
        holder, up = party == self.job.roster.label, (np.asarray(self.fed.labels) > 0).astype(np.int64)
        if holder and figures.name == "sums":
            return np.column_stack([up, 1 - up])
        made = IntegerRows(block, grid(self.job, party, figures, told.keep, told.centre, told.scale))
        whole = made.rows(0, self.fed.rows)
        return np.column_stack([whole, (2 * up - 1) * figures.label]) if holder else whole

    def hidden(self):
        """Of each share what is left when everything is subtracted that dealer and all rows say: R and noise; by pair."""
        for number, figures, rows in self.stages():
            ring, stage = figures.ring, figures.stage(self.job)
            for k, m in stage.pairs:
                seed = {p: self.seeds[figures.name, p] for p in (k, m)}
                masks = {p: stage.mask(p, seed[p], self.fit.run).rows(0, figures.length) for p in (k, m)}
                before = [pair[0] for pair in stage.pairs if pair[1] == m].index(k)
                dealt = self.sent(COORDINATOR, m, Deal)[number].shares[before].values
                share = {p: self.share(figures, stage, number, p, m if p == k else k) for p in (k, m)}
                mine, yours = (ring.reduce(rows[p]) for p in (k, m))
                first = ring.add(
                    product(mine, ring.subtract(yours, masks[m]), ring), stage.share((k, m), seed[k], self.fit.run)
                )
                second = ring.add(product(ring.subtract(mine, masks[k]), masks[m], ring), ring.reduce(dealt))
                yield figures, ring.subtract(share[k], first), ring.subtract(share[m], second)

    def share(self, figures, stage, number, party, partner):
        at = own_count(self.job, figures, party) + stage.partners(party).index(partner)
        return figures.ring.reduce(self.sent(party, COORDINATOR, Parts)[number].parts[at].value.values)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return Seen(tmp_path_factory.mktemp("tapped"), federation(rows=300, columns=10))


def too_uneven(values, shift):
    """Whether 4 bits of ring elements are further from uniform than once in a million times."""
    counts = np.bincount(
        ((values.ravel().astype(np.uint64) >> np.uint64(shift)) & np.uint64(15)).astype(int), minlength=16
    )
    expected = counts.sum() / 16
    assert expected >= 10
    return ((counts - expected) ** 2 / expected).sum() > chi2.ppf(1 - ERROR, 15)


def test_shares_are_uniform_to_a_dealer_who_knows_all_masks_and_all_rows(seen):
    pools = {"k, high": [], "k, low": [], "l, high": [], "l, low": []}
    design = secure_design.Design(seen.job, PrivateGram())
    for figures, first, second in seen.hidden():
        # The sum of both is their noise, and no more: what was subtracted is right. Some 360 numbers within 7 deviations.
        ring, sigma = figures.ring, gaussian_sigma(design.sensitivity(figures), design.rho(figures.name))
        assert np.abs(ring.signed(ring.add(first, second))).max() < 7 * np.sqrt(2.0) * cross_weight(figures) * sigma
        for side, left in (("k", first), ("l", second)):
            pools[f"{side}, high"].append((left.ravel() >> (ring.bits - 4)).astype(np.uint64))
            pools[f"{side}, low"].append(left.ravel().astype(np.uint64))
    for values in pools.values():
        assert not too_uneven(np.concatenate(values), 0)


def test_masked_columns_are_uniform_to_partners_who_know_the_rows(seen):
    for number, figures, rows in seen.stages():
        stage = figures.stage(seen.job)
        for party in stage.widths:
            sent = [m for who, _, m in seen.bodies if who == party and isinstance(m, Masked)]
            packed = sent[number].rows.value
            mask = figures.ring.subtract(figures.ring.reduce(packed.values), figures.ring.reduce(rows[party]))
            assert not too_uneven(mask, figures.bits - 4)
            assert not too_uneven(mask, 0)


def test_what_the_coordinator_carries_between_parties_is_sealed(seen):
    """Bytes of all ciphertexts together: uniform, and every one another one."""
    sealed = {m.content for a, b, m in seen.letters if isinstance(m, Sealed)}
    between = [m for a, b, m in seen.letters if COORDINATOR not in (a, b)]
    assert between
    assert all(isinstance(m, Sealed) for m in between)
    assert len(sealed) == len(seen.bodies)
    counts = np.bincount(np.frombuffer(b"".join(sealed), np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - ERROR, 255)


# ---------------------------------------------------------------------------------------- planted: masks


class OnceTooOften:
    """A mask that a stage does not change: the same rows for the same seed."""

    def __init__(self, seed, columns, ring, name=""):
        self.seed, self.columns, self.ring, self.key = seed, columns, ring, derive(seed, name)

    def rows(self, first, count):
        return self.ring.reduce(uniform(self.seed, b"planted", first, count, self.columns, Ring(62)))


class NoMask(OnceTooOften):
    def rows(self, first, count):
        return np.zeros((count, self.columns), self.ring.dtype)


def without_r(monkeypatch):
    def pad(seed, label, columns, ring):
        return NoMask(seed, columns, ring) if label == ("R",) else Pad(seed, label, columns, ring)

    monkeypatch.setattr(secure_products, "Pad", pad)


def r_in_two_stages(monkeypatch):
    """Both stages in one ring, and R that does not know which stage it is for."""
    fitted = gram_design._fitted
    monkeypatch.setattr(gram_design, "_fitted", lambda *a: replace(fitted(*a), bits=40))
    monkeypatch.setattr(Keyring, "shared", lambda self, peer, *purpose: derive(self._with(peer), "shared"))


def u_in_two_stages(monkeypatch):
    def mask(self, party, seed, run):
        return OnceTooOften(derive(bytes(32), party), self.widths[party], self.ring, self.name)

    monkeypatch.setattr(secure_products.Stage, "mask", mask)


def right_guesses(adversary, runs):
    """Of so many runs on each of two neighbouring tables, how often the attack names the right one."""
    attack = attacks.ATTACKS["class-sums-gram"].adversaries[adversary].attack
    inside, outside = (attack(ONE_EPSILON, side, runs) for side in (True, False))
    return int((inside > 0).sum() + (outside < 0).sum())


@pytest.mark.parametrize("adversary", ["dealer", "onlooker"])
def test_neither_shares_nor_masked_columns_tell_which_of_two_tables_it_was(adversary):
    """Of 40 guesses more are right than chance allows once in a million times, if anything is told."""
    assert right_guesses(adversary, 20) <= binom.isf(ERROR, 40, 0.5)


@pytest.mark.parametrize(
    ("plant", "adversary"),
    [(without_r, "dealer"), (r_in_two_stages, "dealer"), (u_in_two_stages, "onlooker")],
    ids=["no R: the dealer", "R in two stages: the dealer", "U in two stages: a partner"],
)
def test_planted_a_missing_or_repeated_mask_gives_the_table_away_every_time(plant, adversary, monkeypatch):
    plant(monkeypatch)
    assert right_guesses(adversary, 10) == 20


def test_planted_shares_without_r_are_not_uniform_to_the_dealer(monkeypatch, tmp_path):
    without_r(monkeypatch)
    bare = Seen(tmp_path, federation(rows=300, columns=10))
    high = [(first.ravel() >> (figures.bits - 4)).astype(np.uint64) for figures, first, _ in bare.hidden()]
    assert too_uneven(np.concatenate(high), 0)


# ---------------------------------------------------------------------------------------- planted: sensitivities


def whole(figures, *, norm2=sum, constant=True, label=True):
    return norm2(figures.norm2.values()) + constant * figures.constant**2 + label * figures.label**2


SENSITIVITIES = {
    "label not counted": lambda job, f: np.sqrt(2.0) * whole(f, label=False),
    "constant not counted": lambda job, f: np.sqrt(2.0) * whole(f, constant=False),
    "smaller party's length": lambda job, f: np.sqrt(2.0) * whole(f, norm2=min),
}


def movement(world, setting):
    """For each release of a run: how far it moves between the two tables, and how far its parties say it can.

    Both tables are asked for the same release, that which the run on the first one prepared.
    """
    job, view = world.job(setting), gram_runs.run(world, setting, world.blocks(setting, True))
    found = []
    stated = zip(attacks.stages(world, setting, view), attacks.sensitivities(view), strict=True)
    for stage, sensitivity in stated:
        first, second = (stage.means(job, world.blocks(setting, side)) for side in (True, False))
        total = 0.0
        for name, weights in stage.weights.items():
            for mean1, mean2, weight in zip(first[name], second[name], weights, strict=True):
                total += float(np.square((mean1 - mean2) / weight).sum())
        found.append((np.sqrt(total), sensitivity))
    return found


def test_two_rows_at_right_angles_need_nearly_all_of_the_sensitivity_and_no_more():
    """How far the release moves is computed from the two tables alone: no bug in a bound can hide in it."""
    ((moved, stated),) = movement(gram_runs.RAW, ONE_EPSILON)
    assert 0.99 * stated <= moved <= stated
    for moved, stated in movement(gram_runs.FIRST_SUMS, ONE_EPSILON):
        assert moved <= stated


@pytest.mark.parametrize("bug", SENSITIVITIES)
def test_planted_a_sensitivity_that_leaves_something_out_is_found(bug, monkeypatch):
    """By the distance itself: a twelfth or a fifth too little noise is more than trials could show in a test."""
    monkeypatch.setattr(secure_design, "joint_sensitivity", SENSITIVITIES[bug])
    ((moved, stated),) = movement(gram_runs.RAW, ONE_EPSILON)
    assert moved > 1.05 * stated


class Door:
    """A gate that only remembers what it was given."""

    node = gram_runs.ONE

    def integers(self, exact, *more, **terms):
        self.given = exact
        return ()


def tied(labels):
    """How far the release of a party's own products moves when a row turns round, given these labels; and what it states."""
    world, doors = gram_runs.OWN, (Door(), Door())
    local = local_gram.Local(world.job(ONE_EPSILON), sketch=False)
    for door, side in zip(doors, (True, False), strict=True):
        local_gram.own_products_release(local, world.blocks(ONE_EPSILON, side)[gram_runs.ONE], door, labels)
    first, second = (door.given.value for door in doors)
    weights = (1.0, gram_design.HALF, gram_design.HALF, gram_design.HALF)
    moved = sum(float(np.square((a - b) / w).sum()) for a, b, w in zip(first, second, weights, strict=True))
    return np.sqrt(moved), doors[0].given.sensitivity


def wild_labels():
    return np.random.default_rng(0).normal(0.0, 50.0, gram_runs.OWN.rows) * 1e3


@pytest.mark.parametrize("labels", [wild_labels(), np.full(12, 1.7e308), np.full(12, -5e-324), np.zeros(12)])
def test_whatever_labels_come_back_a_party_cuts_them_again(labels):
    moved, stated = tied(labels)
    assert moved <= stated


@pytest.mark.parametrize("labels", [np.full(12, np.inf), np.full(12, np.nan)], ids=["inf", "nan"])
def test_labels_that_are_no_numbers_do_not_come_back(labels):
    with pytest.raises(ProtocolError, match="not finite"):
        tied(labels)


def test_planted_noisy_labels_that_are_not_cut_again_are_found(monkeypatch):
    monkeypatch.setattr(NoisyLabels, "cut_to", lambda self, labels: labels)
    monkeypatch.setattr(local_gram, "_beside", lambda y, size: np.trunc(y * size).astype(np.int64))
    moved, stated = tied(wild_labels())
    assert moved > 100 * stated


# ---------------------------------------------------------------------------------------- audits


def shown(name, adversary, trials, setting=ONE_EPSILON):
    """The epsilon that an attack proves, wrong once in a million times."""
    attack = attacks.ATTACKS[name].adversaries[adversary].attack
    inside, outside = (attack(setting, side, trials) for side in (True, False))
    return epsilon_lower_bound(inside, outside, setting.delta, 1 - ERROR).epsilon


@pytest.mark.parametrize(("name", "adversary"), [("gram", "coordinator"), ("shared-gram", "reader")])
def test_the_noise_of_a_release_survives_its_likelihood_ratio(name, adversary):
    assert shown(name, adversary, 40_000) <= 1.0


VIEWS = [
    (name, adversary)
    for name, attacked in attacks.ATTACKS.items()
    if attacked.trials < 1000
    for adversary in attacked.adversaries
]


def bound(score, quiet=None, runs=104):
    """The epsilon that scores of whole runs prove. With 52 runs a side to judge, one that is always right proves 1.1."""
    world, scores = gram_runs.FIRST_SUMS, []
    for side in (True, False):
        blocks = world.blocks(ONE_EPSILON, side, only_one=quiet is not None)
        views = (gram_runs.run(world, ONE_EPSILON, blocks, quiet) for _ in range(runs))
        scores.append(np.array([score(view) for view in views]).T)
    return [epsilon_lower_bound(*pair, ONE_EPSILON.delta, 1 - ERROR).epsilon for pair in zip(*scores, strict=True)]


def test_from_no_viewpoint_does_a_whole_run_tell_more_than_it_states():
    """Coordinator, dealer and reader of the same runs: class sums, then the Gram matrix. `make audit` makes more."""
    seen = gram_runs.FIRST_SUMS, ONE_EPSILON
    shown = bound(
        lambda view: [score(*seen, view) for score in (attacks.likelihood, attacks.dealer_score, attacks.model_score)]
    )
    assert max(shown) <= 1.0


def test_a_partner_learns_no_more_than_a_run_states_even_from_the_released_matrix():
    seen = gram_runs.FIRST_SUMS, ONE_EPSILON
    shown = bound(lambda v: [attacks.likelihood(*seen, v, gram_runs.TWO), attacks.masks_score(*seen, v)], gram_runs.TWO)
    assert max(shown) <= 1.0


def test_planted_the_same_number_of_runs_finds_a_dealer_that_can_see(monkeypatch):
    without_r(monkeypatch)
    assert bound(lambda view: [attacks.dealer_score(gram_runs.FIRST_SUMS, ONE_EPSILON, view)], runs=120)[0] > 1.0


@pytest.mark.audit
@pytest.mark.parametrize(("name", "adversary"), VIEWS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_from_no_viewpoint_do_hundreds_of_runs_tell_more_than_they_state(name, adversary, epsilon):
    assert shown(name, adversary, 300, audits.Setting(epsilon, 1e-5, 1)) <= epsilon


@pytest.mark.audit
@pytest.mark.parametrize(("name", "adversary"), [("gram", "coordinator"), ("shared-gram", "reader")])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_noise_of_a_release_survives_a_million_draws(name, adversary, epsilon):
    assert shown(name, adversary, 1_000_000, audits.Setting(epsilon, 1e-5, 1)) <= epsilon


def spreads():
    """The noise of every part of the release, in units of its stated variance: both parties' own, and their product."""
    world, trials = gram_runs.RAW, 2_000
    given = dict(gram_runs.run(world, ONE_EPSILON, world.blocks(ONE_EPSILON, True)).given)
    drawn = {name: attacks._draw_often(name, what, trials) for name, what in given.items()}
    found = {}
    for name, what in given.items():
        stated = gaussian_sigma(what.exact.sensitivity, what.rho)
        noise = [part - OWN.signed(exact) for part, exact in zip(drawn[name][:-1], what.exact.value[:-1], strict=True)]
        found[name] = [float(np.mean((x / (w * stated)) ** 2)) for x, w in zip(noise, what.weights, strict=False)]
    ring = given[gram_runs.ONE].rings[-1]
    exact = ring.add(*(given[name].exact.value[-1] for name in gram_runs.NAMES))
    both = ring.signed(ring.subtract(ring.add(*(drawn[name][-1] for name in gram_runs.NAMES)), exact))
    return found, float(np.mean((both / (given[gram_runs.ONE].weights[-1] * stated)) ** 2))


# Of 2,000 draws and more: chi-square, at a millionth for all eight bounds of a test together.
LEAST, MOST = chi2.ppf([ERROR / 16, 1 - ERROR / 16], 2_000) / 2_000


def test_every_part_of_a_release_has_its_full_noise_and_products_have_it_twice():
    own, both = spreads()
    assert all(LEAST <= part <= MOST for parts in own.values() for part in parts)
    assert 2 * LEAST <= both <= 2 * MOST


@pytest.mark.parametrize("party", gram_runs.NAMES)
def test_planted_without_one_partys_noise_in_a_product_the_partners_is_enough(party, monkeypatch):
    bare_shares([party], monkeypatch)
    _, both = spreads()
    assert LEAST <= both <= MOST
    assert shown("gram", "coordinator", 20_000) <= 1.0


def test_planted_without_both_parties_noise_in_a_product_it_is_missed(monkeypatch):
    bare_shares(gram_runs.NAMES, monkeypatch)
    assert spreads()[1] < LEAST


def bare_shares(parties, monkeypatch):
    """No noise on the shares of some parties; their own parts keep it."""
    often = attacks._draw_often

    def planted(name, what, trials):
        drawn = often(name, what, trials)
        if name not in parties:
            return drawn
        exact = what.rings[-1].signed(what.exact.value[-1])
        return *drawn[:-1], np.broadcast_to(exact, (trials, *exact.shape))

    monkeypatch.setattr(attacks, "_draw_often", planted)


def scaled_noise(factor, monkeypatch):
    monkeypatch.setattr(gates, "gaussian_sigma", lambda *a: gaussian_sigma(*a) * factor)


def test_planted_half_of_the_noise_is_missed_in_every_part(monkeypatch):
    scaled_noise(0.5, monkeypatch)
    own, both = spreads()
    assert all(part < LEAST for parts in own.values() for part in parts)
    assert both < LEAST


@pytest.mark.parametrize(("name", "adversary"), [("gram", "coordinator"), ("shared-gram", "reader")])
def test_planted_a_quarter_of_the_noise_is_found_by_the_likelihood_ratio(name, adversary, monkeypatch):
    scaled_noise(0.25, monkeypatch)
    assert shown(name, adversary, 40_000) > 1.0


@pytest.mark.audit
def test_planted_half_of_the_noise_is_found_by_a_million_draws(monkeypatch):
    scaled_noise(0.5, monkeypatch)
    assert shown("shared-gram", "reader", 1_000_000) > 1.0


# ---------------------------------------------------------------------------------------- what else a run shows


@pytest.mark.parametrize(("method", "trust", "epsilon"), EVERY_WAY, ids=WAYS)
def test_all_that_a_fit_says_follows_from_what_was_released(method, trust, epsilon, monkeypatch):
    """Gates that always let out the same numbers make the same Fit of any rows: sizes, history and error bars too."""
    integers, gaussian = Gate.integers, Gate.gaussian

    def made_up(value):
        return np.random.default_rng(value.size).integers(0, 50, value.shape)

    def always(self, exact, *more, **terms):
        same = Private(tuple(made_up(part) for part in exact.value), exact.sensitivity)
        return integers(self, same, *more, **terms)

    monkeypatch.setattr(Gate, "integers", always)
    monkeypatch.setattr(
        Gate,
        "gaussian",
        lambda self, exact, **k: gaussian(self, Private(made_up(exact.value) / 50, exact.sensitivity), **k),
    )
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(40, 4)), np.zeros((40, 4)), rng.choice([np.nan, np.inf, 1e308, -3.0], (40, 4))]
    labels = [np.where(rng.normal(size=40) > 0, 1.0, -1.0), np.ones(40), -np.ones(40)]
    fits = []
    for X, y in zip(tables, labels, strict=True):
        fed = co.Federation.split(np.zeros((40, 4)), y, parties={"a": [0, 1], "b": [2, 3]}, label="b")
        parties = {
            n: replace(p, block=replace(p.block, matrix=np.ascontiguousarray(X[:, 2 * k : 2 * k + 2])))
            for k, (n, p) in enumerate(fed.parties.items())
        }
        fits.append(silent_run(replace(fed, parties=parties), method, privacy(epsilon, trust), monkeypatch).fit)
    said = []
    for fit in fits:
        arrays = [
            *fit.coefficients.values(),
            *(fit.errors or {}).values(),
            *fit.path.coefficients.values(),
            fit.path.weights,
        ]
        rest = fit.intercept, fit.link, fit.remarks, fit.notes, fit.status, fit.objective, fit.gap, fit.seconds
        said.append(
            (b"".join(np.asarray(a).tobytes() for a in arrays), rest, fit.communication, fit.history.to_dicts())
        )
    assert said[0] == said[1] == said[2]


def files(store):
    return b"".join(path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file())


def test_no_key_of_a_run_that_is_over_is_left_in_any_file(monkeypatch, tmp_path):
    """Sealed columns may stay on the disk, and so do seeds of masks: without these keys they do not meet."""
    rings, contents = [], []
    seal = Keyring.seal

    def spy(self, places, body, name):
        rings.append(self)
        contents.append(body)
        return seal(self, places, body, name)

    monkeypatch.setattr(Keyring, "seal", spy)
    fit = co.fit(federation(), RIDGE, PrivateGram(), privacy(), store=tmp_path)
    left = files(tmp_path)
    assert fit.run.encode() in left
    for ring in rings:
        secret = [ring._secret, ring._private.private_bytes_raw(), *ring._shared.values()]
        secret += [derive(ring._secret, "content", fit.run, ring._me, f"{tick}/0") for tick in range(20)]
        assert not any(key in left for key in secret)
    assert not any(body[16:64] in left for body in contents)


class Cut(BaseException):
    """The power goes."""


def test_while_a_run_is_open_the_files_of_a_party_and_the_coordinator_hold_its_partners_rows(tmp_path):
    """A limit, not a promise: the two may not collude, and neither may who has copies of both of their files."""
    fed = federation()

    def fault(letter):
        if letter.sender == "b" and isinstance(decode(letter.body), Parts):
            raise Cut
        return [letter]

    with pytest.raises(Cut):
        co.fit(fed, RIDGE, PrivateGram(), privacy(), store=tmp_path, engine=co.Faults(co.InProcess(), fault))
    party, dealer = (FileLog(tmp_path / "nodes" / f"{name}.db") for name in ("b", COORDINATOR))
    (run,) = {row.run for row in party.rows(kind="open")}
    ring = Keyring(run, "b", bytes(32), {}, party.secret(run, "keyring", 32))
    incoming = [(row.key, row.body) for row in party.rows(run, "in")]
    hello = next(
        m for who, body in incoming if who == COORDINATOR and isinstance(m := decode(body[16:]), secure_products.Meet)
    )
    shared = ring._private.exchange(X25519PublicKey.from_public_bytes(hello.keys[0]))
    ring._shared["a"] = derive(shared, "pair", run, "a", "b")
    sent = next(decode(body[16:]) for who, body in incoming if who == "a")
    hidden = decode(ring.open("a", 0, sent.key, sent.content)).rows.value
    seed = dealer.secret(run, "program: mask sums a", 32)
    job = Job(RIDGE, fed.roster(), privacy())
    figures = secure_design.Design(job, PrivateGram()).sums
    stage = figures.stage(job)
    rows = stage.ring.signed(stage.ring.add(hidden.values, stage.mask("a", seed, run).rows(0, fed.rows)))
    every = np.arange(3)
    own = IntegerRows(fed.parties["a"].block, grid(job, "a", figures, every, np.zeros(3), np.ones(3)))
    assert np.array_equal(rows, own.rows(0, fed.rows))


def test_a_part_of_scores_is_uniform_to_the_label_holder_and_a_party_that_helps_it(monkeypatch):
    """Of parties a, b, c beside the holder: b's part, less all that a and the holder know, b's rows included."""
    rng = np.random.default_rng(0)
    parties = {"a": [0], "b": [1], "c": [2], "d": [3]}
    X = rng.uniform(-1, 1, (600, 4))
    fed = co.Federation.split(X, np.sign(X.sum(axis=1)), parties=parties, label="d")
    model = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(5.0)))
    sent, rings, seal = {}, {}, Keyring.seal

    def spy(self, places, body, name):
        sent[self._me], rings[self._me] = decode(body), self
        return seal(self, places, body, name)

    monkeypatch.setattr(Keyring, "seal", spy)
    co.score(model, fed)
    ring = Ring(64)
    assert isinstance(sent["b"], PartScores)
    part = np.rint(fed.parties["b"].block.scores(model.coefficients["b"]) * 2.0**32).astype(np.int64)
    known = Pad(rings["a"].shared("b", "scores", "a", "b"), ("scores",), 1, ring).rows(0, 600)[:, 0]
    left = ring.add(ring.subtract(sent["b"].values.value.values[:, 0], ring.reduce(part)), known)
    assert not too_uneven(left, 60)
    assert not too_uneven(left, 0)
    with_c = Pad(rings["c"].shared("b", "scores", "b", "c"), ("scores",), 1, ring).rows(0, 600)[:, 0]
    assert not ring.subtract(left, with_c).any()  # what is left is c's mask, and nothing else
