"""Masked products as a protocol: interrupted, forged, repeated, told differently, and what is left on the disk."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.errors import LeakError, ProtocolError
from colonnade.methods.gram import masks as gram_masks
from colonnade.methods.gram import private_gram
from colonnade.methods.gram import products as gram_products
from colonnade.methods.gram import rows as gram_rows
from colonnade.methods.gram.masks import Stage, Totals
from colonnade.methods.gram.plan import GramSettings, RunPlan
from colonnade.methods.gram.products import Masked, Next, SendParts, Widths
from colonnade.methods.meeting import CoordinatorKey, Introduce
from colonnade.model.job import Job
from colonnade.privacy.keyring import ColumnPad
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import release
from colonnade.runtime.hosted_node import InProcess
from colonnade.runtime.program import COORDINATOR, Sealed
from colonnade.runtime.wire import Letter, decode, encode
from tests.helpers.forgery import CHANGES, Cut, Until, forging

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
PRIVACY = co.Privacy(1.0, 1e-6, trust="secure", row_norm=3.0, feature_bound=2.0)
PARTIES = {"a": [0, 1], "b": [2], "c": [3, 4]}


def federation(seed=0, rows=200):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(rows, 5)), -2, 2)
    return co.Federation.split(X, np.where(X[:, 0] > 0, 1.0, -1.0), parties=PARTIES, label="b")


def run(store, engine=None, fed=None, trust="secure"):
    terms = replace(PRIVACY, trust=trust)
    return co.fit(fed or federation(), PROBLEM, co.PrivateGram(), terms, store=store, engine=engine)


def is_sealed(letter):
    return isinstance(decode(letter.body), Sealed)


# ---------------------------------------------------------------------------------------- interrupted


SPREAD = (3, 12, 20, 30, 38, 46, 54)  # moments between those of every run


@pytest.mark.chance(0, "the same bytes again and what was paid: whatever was drawn, and every run has as many letters")
@pytest.mark.parametrize(
    "cut", [0, 8, 16, 25, 34, 42, 50, 58, *(pytest.param(cut, marks=pytest.mark.fault) for cut in SPREAD)]
)
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
        assert len(noisy) == 2  # class sums and the Gram matrix, once each
        rest = [e for e in ledger.entries() if e.event.mechanism == "continued"]
        assert len(rest) == 1  # the squared lengths left first
        assert ledger.row_spent() == pytest.approx(sum(e.event.rho for e in noisy))
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.chance(0, "the same bytes again and what was paid: whatever was drawn, and every run has as many letters")
@pytest.mark.parametrize("cut", [30, 50, 62, *(pytest.param(cut, marks=pytest.mark.fault) for cut in (46, 54, 58))])
def test_a_consortium_that_was_cut_goes_on_and_its_coordinator_draws_no_noise_twice(cut, tmp_path):
    """Its coordinator noises what was added up; the record holds what was added, not what noise has made of it."""
    first, second = Until(cut), Until(10**9)
    with pytest.raises(Cut):
        run(tmp_path, first, trust="consortium")
    run(tmp_path, second, trust="consortium")
    known = {(x.sender, x.receiver, x.sequence): x.body for x in second.sent}
    for letter in first.sent:
        assert known[letter.sender, letter.receiver, letter.sequence] == letter.body
    ledger = Ledger(FileLog(tmp_path / "nodes" / f"{COORDINATOR}.db"), COORDINATOR, co.Policy())
    assert [e.event.mechanism for e in ledger.entries()] == ["lattice", "lattice", "continued"]


@pytest.mark.chance(0, "ids of runs are compared, and no noise")
def test_other_data_under_the_same_run_stop_it(tmp_path):
    with pytest.raises(Cut):
        run(tmp_path, Until(20))
    changed = run(tmp_path, fed=federation(seed=1))  # another call: a run of its own, with its own masks
    assert changed.run != next(iter(_runs(tmp_path)))


def _runs(store):
    with sqlite3.connect(store / "runs.db") as db:
        return [run for (run,) in db.execute("select run from log where kind = 'begin' order by seq")]


# ---------------------------------------------------------------------------------------- forged and repeated


def changed(letter):
    sealed = decode(letter.body)
    flipped = sealed.content[:-1] + bytes([sealed.content[-1] ^ 1])
    return encode(Sealed(sealed.key, flipped), guarded=False)


@pytest.mark.parametrize("to", ["a", COORDINATOR])
def test_a_sealed_message_that_was_changed_is_refused(to, tmp_path):
    def fault(letter):
        if is_sealed(letter) and letter.receiver == to:
            place = letter.sequence
            return [Letter(letter.sender, letter.receiver, place, letter.round, changed(letter))]
        return [letter]

    with pytest.raises(ProtocolError, match="does not open"):
        run(tmp_path, co.Faults(InProcess(), fault))


@pytest.mark.chance(0, "a refusal of what was forged, whatever the noise")
def test_a_sealed_message_sent_again_at_the_next_place_is_refused(tmp_path):
    seen = {}

    def fault(letter):
        edge = letter.sender, letter.receiver
        if is_sealed(letter) and edge in seen:  # the first one again, for the second
            return [Letter(*edge, letter.sequence, letter.round, seen[edge])]
        if is_sealed(letter):
            seen[edge] = letter.body
        return [letter]

    with pytest.raises(ProtocolError, match="does not open"):
        run(tmp_path, co.Faults(InProcess(), fault))


def test_a_message_between_parties_that_is_not_sealed_is_refused(tmp_path):
    def fault(letter):
        if is_sealed(letter):
            return [Letter(letter.sender, letter.receiver, 0, 0, encode(Introduce(), guarded=False))]
        return [letter]

    with pytest.raises(ProtocolError, match="unsealed"):
        run(tmp_path, co.Faults(InProcess(), fault))


def test_a_key_that_the_coordinator_put_in_its_place_is_refused(tmp_path):
    def fault(letter):
        message = decode(letter.body)
        if letter.receiver == "a" and type(message).__name__ == "Meet":
            keys = (bytes(range(32)), *message.keys[1:])
            forged = encode(
                type(message)((message.keys[0], keys[0], *message.keys[2:]), message.signatures), guarded=False
            )
            return [Letter(letter.sender, "a", letter.sequence, letter.round, forged)]
        return [letter]

    with pytest.raises(ProtocolError, match="not signed by the key pinned"):
        run(tmp_path, co.Faults(InProcess(), fault))


def test_a_coordinator_whose_pinned_key_did_not_sign_its_own_is_sent_nothing(tmp_path):
    """Whoever else could read what is masked may know the masks."""
    sent = []

    def forge(message):
        return CoordinatorKey(bytes(range(32)), message.signature)

    engine = co.Tap(forging(CoordinatorKey, "a", forge))
    with pytest.raises(ProtocolError, match="not signed by the key pinned"):
        run(tmp_path, engine)
    sent = [letter for letter in engine.letters if letter.sender == "a" and is_sealed(letter)]
    assert not sent


@pytest.mark.chance(0, "every field is changed whatever the noise: all columns are kept, and norms are above 0")
@pytest.mark.parametrize("field", CHANGES)
def test_a_party_releases_nothing_of_a_stage_of_which_a_partner_was_told_something_else(field, tmp_path):
    """Zero norms of the others, told to each party, would have each noise its part for itself: K times the price."""

    def forge(message):
        if message.name != "joint":
            return None
        fields = {name: getattr(message, name) for name in message.__slots__} | {field: CHANGES[field](message)}
        if field == "keep":
            fields |= {"centre": message.centre[:0], "scale": message.scale[:0]}
        return gram_products.Prepare(**fields)

    engine = co.Tap(forging(gram_products.Prepare, "a", forge))
    with pytest.raises(ProtocolError, match="something else of this release"):
        run(tmp_path, engine)
    for party in PARTIES:
        ledger = Ledger(FileLog(tmp_path / "nodes" / f"{party}.db"), party, co.Policy())
        assert [e.what for e in ledger.entries() if e.event.rho] == ["noisy class sums of the columns"]


@pytest.mark.chance(0, "a refusal of what was forged, whatever the noise")
@pytest.mark.parametrize(("name", "again"), [("sums", "sums"), ("joint", "sums")])
def test_a_stage_is_accepted_once_and_in_its_turn(name, again, tmp_path):
    told = {}

    def forge(message):
        told[message.name] = message
        return told[again] if message.name == name and again in told and again != name else None

    if name == again:  # class sums once more, where the Gram matrix is due

        def forge(message):
            told.setdefault(message.name, message)
            return told["sums"] if message.name == "joint" else None

    with pytest.raises(ProtocolError, match="not the next one"):
        run(tmp_path, forging(gram_products.Prepare, "a", forge))


@pytest.mark.chance(0, "a refusal of what was forged, whatever the noise")
def test_rings_that_columns_cannot_have_are_refused(tmp_path):
    for bad in (lambda bits: bits[:-1], lambda bits: bits * 0, lambda bits: bits + 63, lambda bits: bits * 1.0):
        engine = forging(Widths, "a", lambda message, bad=bad: Widths(bad(message.bits)))
        with pytest.raises(ProtocolError, match="rings"):
            run(tmp_path / str(id(bad)), engine)


@pytest.mark.chance(1e-12, "six uniform numbers of a ring, all within 2^-8 of it: (2^-7)^6")
def test_parties_that_were_told_different_rings_get_noise_instead_of_products(monkeypatch, tmp_path):
    """Masks are derived from the rings of all columns: where they differ nothing cancels, and nothing is learned."""
    matrices, widths = [], []
    real, fit = gram_products.gram_matrix, gram_rows.Layout.fit
    monkeypatch.setattr(gram_rows.Layout, "fit", lambda *a: (widths.append(fit(*a)), widths[-1])[1])
    monkeypatch.setattr(gram_products, "gram_matrix", lambda *a: (matrices.append(real(*a)), matrices[-1])[1])
    told_apart = forging(Widths, "a", lambda m: Widths(m.bits + np.eye(len(m.bits), dtype=int)[-1]))
    for name, engine in (("told alike", None), ("told apart", told_apart)):  # with the same noise
        options = {"store": tmp_path / name, "engine": engine, "noise": SeededNoise(1)}
        co.fit(federation(), PROBLEM, co.PrivateGram(), PRIVACY, **options)
    (alike, apart), bits = matrices, widths[0].bits
    off = np.abs(apart - alike)
    assert off[:2, 2:5].max() > 2.0 ** (bits.max() - 8)  # 6 uniform numbers
    assert not off[2:5, 2:5].any()  # of those who were told alike


def test_a_party_cannot_send_masked_columns_to_another_party(tmp_path, monkeypatch):
    """Who knows the masks must never see what they hide: not even by a mistake in a program."""
    real = gram_masks.upload

    def misdirected(stage, gate, *rest):
        program = real(stage, gate, *rest)
        post = next(program)
        while True:
            to = {stage.partners(gate.node)[0] if isinstance(m, Masked) else r: m for r, m in post.to.items()}
            post = program.send((yield type(post)(to, post.wait)))

    monkeypatch.setattr(gram_masks, "upload", misdirected)
    engine = co.Tap(InProcess())
    with pytest.raises(LeakError, match="nobody but the coordinator"):
        run(tmp_path, engine)
    assert not [letter for letter in engine.letters if letter.inside == "Masked"]


@pytest.mark.chance(0, "kinds of messages, which are those of every run")
def test_on_the_wire_no_masked_row_no_correction_and_no_length_reaches_a_party(tmp_path):
    engine = co.Tap(InProcess())
    run(tmp_path, engine)
    inside = {(letter.inside, letter.receiver == COORDINATOR) for letter in engine.letters if is_sealed(letter)}
    assert inside == {("Seed", False), ("Masked", True), ("Diagonal", True), ("Parts", True)}
    plain = {type(decode(letter.body)).__name__ for letter in engine.letters if letter.sender != COORDINATOR}
    assert plain == {"Sealed", "RunKey", "Done"}


def test_masked_rows_that_come_unsealed_are_refused(tmp_path):
    """Whoever carried them could have read them."""
    bare = encode(Masked(release(b"rows")), guarded=False)

    def fault(letter):
        return [replace(letter, body=bare, _sha256=b"") if letter.inside == "Masked" else letter]

    with pytest.raises(ProtocolError, match="Masked unsealed"):
        run(tmp_path, co.Faults(InProcess(), fault))


def test_masked_rows_of_another_length_are_refused(tmp_path, monkeypatch):
    real = gram_masks.Totals._multiply

    def cut(self, came):
        real(self, {party: packed[:-1] for party, packed in came.items()})

    monkeypatch.setattr(gram_masks.Totals, "_multiply", cut)
    with pytest.raises(ProtocolError, match="bytes for"):
        run(tmp_path)


@pytest.mark.chance(0, "a refusal of what was forged, whatever the noise")
def test_corrections_of_another_shape_are_refused(tmp_path, monkeypatch):
    real = gram_masks.Totals._correct

    def turned(self, party, parts):
        last = parts[-1]
        real(self, party, [*parts[:-1], replace(last, values=last.values[:1, :1])])

    monkeypatch.setattr(gram_masks.Totals, "_correct", turned)
    with pytest.raises(ProtocolError, match="sent a correction of shape"):
        run(tmp_path)


@pytest.mark.chance(0, "a refusal of what was forged, whatever the noise")
def test_a_coordinator_that_asks_for_parts_too_early_or_for_too_many_rows_is_refused(tmp_path):
    for change in ("early", "late"):

        def fault(letter, change=change):
            message = decode(letter.body)
            wanted, other = (Next, SendParts) if change == "early" else (SendParts, Next)
            if letter.receiver == "a" and isinstance(message, wanted):
                body = encode(other(()) if other is SendParts else other(), guarded=False)
                return [Letter(letter.sender, "a", letter.sequence, letter.round, body)]
            return [letter]

        with pytest.raises(ProtocolError, match=r"before all rows had come|more rows than there are"):
            run(tmp_path / change, co.Faults(InProcess(), fault))


# ---------------------------------------------------------------------------------------- masks


@pytest.mark.chance(0, "seeds and labels are counted: two of 32 bytes are never alike, and noise is in none")
def test_every_stage_of_a_run_has_seeds_of_its_own_for_every_party_and_every_pair(tmp_path, monkeypatch):
    """Two stages whose corrections are hidden alike show the coordinator their difference."""
    hidden, seeds = [], []

    def pad(seed, label, bits):
        (hidden if label == ("R",) else seeds).append((seed, label))
        return ColumnPad(seed, label, bits)

    monkeypatch.setattr(gram_masks, "ColumnPad", pad)
    run(tmp_path)
    assert len({seed for seed, _ in seeds}) == 2 * 3  # class sums and the Gram matrix
    assert len({label for _, label in seeds}) == 2 * 3  # run, party, and all that the stage was told to be
    assert len(set(hidden)) == 2 + 3  # pairs with the label holder, then all; both parties of each make the same
    assert all(hidden.count(one) == 2 for one in hidden)


def test_no_two_stages_parties_runs_or_rings_share_a_mask():
    rows, seed = 4, bytes(32)
    pairs = (("a", "b"),)
    stages = [
        Stage(name, rows, {"a": np.full(2, bits), "b": np.full(2, 20)}, pairs, digest)
        for name in ("sums", "joint")
        for bits in (20, 21)
        for digest in (name.encode() + b"x", name.encode() + b"y")
    ]
    masks = [s.mask(p, seed, r).rows(0, rows).tobytes() for s in stages for p in "ab" for r in ("run1", "run2")]
    assert len(set(masks)) == len(masks)


def test_a_mask_goes_on_where_it_was_and_never_back(tmp_path):
    from colonnade.kernels.bits import unpack_rows
    from colonnade.privacy.events import MASKED, Charge
    from tests.helpers.contract import gate

    bits = np.array([13, 31, 32])
    door, pad, zeros = gate((Charge(MASKED, 3, "masks"),)), ColumnPad(bytes(32), ("x",), bits), np.zeros((4, 3), int)
    door.begin(0, 0, None)
    hidden = [unpack_rows(door.masked(zeros, pad).value, 4, bits) for _ in range(3)]
    assert np.array_equal(np.vstack(hidden), pad.rows(0, 12) & ((1 << bits) - 1))


# ---------------------------------------------------------------------------------------- what is left


@pytest.mark.chance(0, "what is left on the disk, and sizes of masked columns, whatever was drawn")
def test_when_a_run_is_over_its_keys_seeds_and_masked_columns_are_gone(tmp_path):
    fed = federation(rows=60_000)  # enough for messages that are kept as files
    fit = run(tmp_path, fed=fed)
    assert fit.communication.bytes > 1 << 20
    assert not list((tmp_path / "nodes" / "blobs").glob("*"))
    for node in (*PARTIES, COORDINATOR):
        log = FileLog(tmp_path / "nodes" / f"{node}.db")
        assert fit.run not in log.unerased()
        log.verify()
        log.close()


def test_a_run_that_fails_for_good_leaves_nothing_to_open_either(tmp_path):
    count = 0

    def fault(letter):
        nonlocal count
        count += is_sealed(letter)
        if count == 5:
            return [Letter(letter.sender, letter.receiver, letter.sequence, 0, changed(letter))]
        return [letter]

    with pytest.raises(ProtocolError):
        run(tmp_path, co.Faults(InProcess(), fault))
    for node in (*PARTIES, COORDINATOR):
        assert FileLog(tmp_path / "nodes" / f"{node}.db").unerased() <= {"node", "owner"}


# ---------------------------------------------------------------------------------------- a party that drops out


@pytest.mark.chance(0, "names of parties and ids of runs: no noise is compared")
def test_when_a_party_drops_out_nothing_is_released_and_the_others_start_anew_without_it(tmp_path):
    def silent(letter):  # before its shares arrive, party c is gone
        return [] if letter.sender == "c" and letter.inside == "Parts" else [letter]

    published = []
    real = private_gram.solve

    def solve(*a, **k):
        published.append(a)
        return real(*a, **k)

    patch = pytest.MonkeyPatch()
    patch.setattr(private_gram, "solve", solve)
    with pytest.raises(ProtocolError, match="nobody can go on"):
        run(tmp_path, co.Faults(InProcess(), silent))
    assert not published  # no sum was ever complete
    fed = federation().without("c")
    fit = run(tmp_path, fed=fed)
    patch.undo()
    assert set(fit.coefficients) == {"a", "b"}
    first, second = _runs(tmp_path)
    assert fit.run == second != first
    with pytest.raises(co.InvalidInput, match="holds the labels"):
        federation().without("b")


@pytest.mark.chance(0, "a refusal that follows from public figures")
def test_sums_that_no_ring_holds_are_refused_before_anything_is_sent(tmp_path):
    fed = federation()
    wild = co.Privacy(1e-9, 1e-6, trust="secure", row_norm=3.0, feature_bound=2.0)
    with pytest.raises(co.InvalidInput, match="bits"):
        co.fit(fed, PROBLEM, co.PrivateGram(), wild, store=tmp_path / "store")


def with_schemas(rows=200):
    """Two parties with declared columns: zeros and ones at a, numbers from 0 to 1 at b."""
    rng = np.random.default_rng(0)
    key, labels = np.arange(rows), np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    frames = {
        "a": pl.DataFrame({"key": key, "u": rng.integers(0, 2, rows).astype(bool)}),
        "b": pl.DataFrame({"key": key, "v": rng.random(rows), "y": labels}),
    }
    schemas = {"a": co.Schema((co.Binary("u"),)), "b": co.Schema((co.Numeric("v", 0.0, 1.0, scale=False),))}
    return co.Federation.from_frames(frames, on="key", label=("b", "y"), schemas=schemas)


def test_a_party_whose_file_says_something_else_of_a_partners_columns_releases_nothing(monkeypatch, tmp_path):
    """That b's numbers are zeros and ones, in a's copy: a would noise their products as if they were 0 or 1, not up to
    1/step, and no message tells them apart."""
    real = co.PrivateGram.party

    def party(self, job, block, gate):
        if gate.node == "a":
            known = job.roster.known | {"b": replace(job.roster.known["b"], binary=(True,))}
            job = replace(job, roster=replace(job.roster, known=known))
        return real(self, job, block, gate)

    monkeypatch.setattr(co.PrivateGram, "party", party)
    terms = co.Privacy(60.0, 1e-6, trust="secure")  # one release, and no class sums whose figures would differ
    with pytest.raises(ProtocolError, match="something else of this release"):
        co.fit(with_schemas(), PROBLEM, co.PrivateGram(), terms, store=tmp_path)
    for name in ("a", "b"):
        ledger = Ledger(FileLog(tmp_path / "nodes" / f"{name}.db"), name, co.Policy())
        assert not [e for e in ledger.entries() if e.event.rho]


def test_labels_are_plus_and_minus_one_at_a_weight_that_doubles_cannot_hold():
    """-(2^54 + 4) // (2^54 + 3) is -2: past the bound of products, where an error would tell of a negative label."""
    fed = federation(rows=20)
    design = RunPlan.of(Job(PROBLEM, fed.roster(), replace(PRIVACY, epsilon=60.0)), GramSettings())
    told = gram_products.Prepare(
        name="joint",
        step=1.0,
        bits=31,
        norm2=np.zeros(3, int),
        constant=1,
        label=2**54 + 3,
        keep=np.zeros(0, int),
        centre=np.zeros(0),
        scale=np.zeros(0),
        labels=np.zeros(0),
    )
    prepared = gram_products.check_prepare(design, "joint", told)
    block = replace(fed.parties["b"].block, labels=np.where(np.arange(20) % 2, 1.0, -1.0))
    matrix = gram_rows.OwnMatrix(design, prepared, block, SimpleNamespace(node="b", run="run"))
    assert matrix.bound == 1
    np.testing.assert_array_equal(matrix.read(0, 20)[:, 0], block.own_labels())


@pytest.mark.chance(0, "names of parties with coefficients, whatever these are")
def test_a_label_holder_without_columns_takes_part_under_declared_schemas(tmp_path):
    """Of its rows nothing is bounded, since there is nothing in them but the label."""
    rng = np.random.default_rng(2)
    frames = {
        "a": pl.DataFrame({"key": np.arange(60), "x": rng.uniform(0, 1, 60)}),
        "labels": pl.DataFrame({"key": np.arange(60), "y": rng.integers(0, 2, 60)}),
    }
    schemas = {"a": co.Schema((co.Numeric("x", 0, 1),)), "labels": co.Schema(())}
    fed = co.Federation.from_frames(frames, on="key", label=("labels", "y"), schemas=schemas)
    terms = co.Privacy(1.0, 1e-6, trust="secure")
    fit = co.fit(fed, PROBLEM, co.PrivateGram(), terms, store=tmp_path)
    assert set(fit.coefficients) == {"a"}


def test_masked_rows_beyond_the_last_block_are_refused():
    stage = Stage("joint", 2, {"a": np.array([8]), "b": np.array([8])}, (("a", "b"),), bytes(32))
    totals = Totals(stage, {"a": 0, "b": 0})
    block = {party: Masked(release(bytes(2))) for party in stage.bits}
    totals.add(block)
    with pytest.raises(ProtocolError, match="after all 2 rows had come"):
        totals.add(block)
