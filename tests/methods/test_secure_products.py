"""Masked products as a protocol: interrupted, forged, repeated, told differently, and what is left on the disk."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

import colonnade as co
from colonnade.errors import LeakError, ProtocolError
from colonnade.kernels.ring import Ring
from colonnade.methods.gram import private_gram, secure_parts, secure_products
from colonnade.methods.gram.secure_products import Deal, Masked, Stage
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.pads import Pad
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Packed
from colonnade.runtime.inprocess import InProcess, deliver_once
from colonnade.runtime.messages import Sealed
from colonnade.runtime.node import Node
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import Letter, decode, encode

PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
PRIVACY = co.Privacy(1.0, 1e-6, trust="secure", row_norm=3.0, feature_bound=2.0)
PARTIES = {"a": [0, 1], "b": [2], "c": [3, 4]}


def federation(seed=0, rows=200):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(rows, 5)), -2, 2)
    return co.Federation.split(X, np.where(X[:, 0] > 0, 1.0, -1.0), parties=PARTIES, label="b")


def run(store, engine=None, fed=None):
    return co.fit(fed or federation(), PROBLEM, co.PrivateGram(), PRIVACY, store=store, engine=engine)


def is_sealed(letter):
    return isinstance(decode(letter.body), Sealed)


# ---------------------------------------------------------------------------------------- interrupted


class Cut(BaseException):
    """The power goes."""


class Until:
    """An engine whose power goes after so many letters; it keeps those that were sent."""

    def __init__(self, letters):
        self.left, self.sent = letters, []

    def run(self, nodes, carry=deliver_once):
        def watched(letter):
            if not self.left:
                raise Cut
            self.left -= 1
            self.sent.append(letter)
            return carry(letter)

        return InProcess().run(nodes, watched)


@pytest.mark.parametrize("cut", [0, 3, 8, 11, 14, 17, 20, 23, 26, 29])
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
        assert ledger.row_spent() == pytest.approx(sum(e.event.rho for e in noisy))
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)


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


def test_a_sealed_message_that_was_changed_is_refused(tmp_path):
    def fault(letter):
        if is_sealed(letter):
            return [Letter(letter.sender, letter.receiver, 0, letter.round, changed(letter))]
        return [letter]

    with pytest.raises(ProtocolError, match="does not open"):
        run(tmp_path, co.Faults(InProcess(), fault))


def test_a_sealed_message_sent_again_at_the_next_place_is_refused(tmp_path):
    seen = {}

    def fault(letter):
        edge = letter.sender, letter.receiver
        if is_sealed(letter) and letter.sequence == 1:
            return [Letter(*edge, 1, letter.round, seen[edge])]  # the first one again, for the second
        if is_sealed(letter):
            seen[edge] = letter.body
        return [letter]

    with pytest.raises(ProtocolError, match="does not open"):
        run(tmp_path, co.Faults(InProcess(), fault))


def test_a_message_between_parties_that_is_not_sealed_is_refused(tmp_path):
    def fault(letter):
        if is_sealed(letter):
            return [Letter(letter.sender, letter.receiver, 0, 0, encode(secure_products.Introduce(), guarded=False))]
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


def test_parties_that_were_told_different_figures_get_noise_instead_of_products(monkeypatch, tmp_path):
    """Masks are derived from the figures too: where they differ nothing cancels, and nothing is learned."""

    def fault(letter):
        message = decode(letter.body)
        if letter.receiver == "a" and isinstance(message, secure_parts.Prepare) and message.name == "joint":
            fields = {name: getattr(message, name) for name in message.__slots__} | {"constant": message.constant + 1}
            forged = encode(secure_parts.Prepare(**fields), guarded=False)
            return [Letter(letter.sender, "a", letter.sequence, letter.round, forged)]
        return [letter]

    matrices = []
    real = private_gram.gram_matrix
    monkeypatch.setattr(private_gram, "gram_matrix", lambda *a: (matrices.append((a[1], real(*a))), matrices[-1][1])[1])
    run(tmp_path / "told alike")
    run(tmp_path / "told apart", co.Faults(InProcess(), fault))
    (figures, alike), (_, apart) = matrices
    honest, garbled = np.abs(alike[:2, 2:5]).max(), np.abs(apart[:2, 2:5]).max()
    assert honest < 2 ** (figures.bits - 4)
    assert garbled > 2 ** (figures.bits - 4)  # 6 uniform numbers all that small: (1/8)^6, once in 260,000 runs


def test_a_party_cannot_send_masked_columns_to_the_coordinator(tmp_path, monkeypatch):
    """Who knows the masks must never see what they hide: not even by a mistake in a program."""
    check = Node._check_reply

    def misdirected(self, receiver, kind):
        check(self, COORDINATOR if kind is Masked else receiver, kind)

    monkeypatch.setattr(Node, "_check_reply", misdirected)
    with pytest.raises(LeakError, match="does not declare"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("cut", "bits"), [((slice(1), slice(None)), 0), ((slice(None), slice(1)), 0), ((slice(None), slice(None)), 1)]
)
def test_a_dealt_share_of_another_shape_or_ring_is_refused(cut, bits, tmp_path):
    """One row or column would be added to all of them."""

    def fault(letter):
        message = decode(letter.body)
        if letter.receiver == "c" and isinstance(message, Deal):
            shares = tuple(Packed(np.ascontiguousarray(x.values[cut]), x.bits + bits) for x in message.shares)
            forged = encode(Deal(message.key, message.seed, shares), guarded=False)
            return [Letter(letter.sender, "c", letter.sequence, letter.round, forged)]
        return [letter]

    with pytest.raises(ProtocolError, match=r"numbers of .* bits where"):
        run(tmp_path, co.Faults(InProcess(), fault))


# ---------------------------------------------------------------------------------------- masks


def test_every_stage_of_a_run_has_seeds_of_its_own_for_every_party_and_every_pair(tmp_path, monkeypatch):
    """Two stages whose shares are hidden alike show the dealer their difference."""
    hidden, dealt, wrap = [], [], secure_products.wrap

    def pad(seed, label, columns, ring):
        hidden.extend([seed] * (label == ("R",)))
        return Pad(seed, label, columns, ring)

    def deal(secret, seed, *more):
        dealt.append(seed)
        return wrap(secret, seed, *more)

    monkeypatch.setattr(secure_products, "Pad", pad)
    monkeypatch.setattr(secure_products, "wrap", deal)
    run(tmp_path)
    assert len(dealt) == len(set(dealt)) == 2 * 3  # class sums and the Gram matrix
    assert len(set(hidden)) == 2 + 3  # pairs with the label holder, then all; both parties of each make the same
    assert all(hidden.count(seed) == 2 for seed in hidden)


def test_no_two_stages_parties_or_runs_share_a_mask():
    rows, seed, ring = 4, bytes(32), Ring(32)
    pairs = (("a", "b"),)
    stages = [Stage(name, rows, {"a": 2, "b": 2}, pairs, ring, terms) for name in ("sums", "joint") for terms in "xy"]
    masks = [s.mask(p, seed, r).rows(0, rows).tobytes() for s in stages for p in "ab" for r in ("run1", "run2")]
    masks += [s.share(("a", "b"), seed, r).tobytes() for s in stages for r in ("run1", "run2")]
    assert len(set(masks)) == len(masks)


def test_a_mask_goes_on_where_it_was_and_never_back(tmp_path):
    from colonnade.privacy.events import MASKED, Charge
    from contract import gate

    door, pad, zeros = gate((Charge(MASKED, 3, "masks"),)), Pad(bytes(32), ("x",), 3, Ring(32)), np.zeros((4, 3), int)
    door.begin(0, 0, None)
    hidden = [door.masked(zeros, pad).value.values for _ in range(3)]
    whole = pad.rows(0, 12)
    assert np.array_equal(np.vstack(hidden), (-whole.astype(np.int64)) % 2**32)


# ---------------------------------------------------------------------------------------- what is left


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


def test_when_a_party_drops_out_nothing_is_released_and_the_others_start_anew_without_it(tmp_path):
    def silent(letter):  # before its shares arrive, party c is gone
        return [] if letter.sender == "c" and type(decode(letter.body)).__name__ == "Parts" else [letter]

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


def test_sums_that_no_ring_holds_are_refused_before_anything_is_sent(tmp_path):
    fed = federation()
    wild = co.Privacy(1e-9, 1e-6, trust="secure", row_norm=3.0, feature_bound=2.0)
    with pytest.raises(co.InvalidInput, match="bits"):
        co.fit(fed, PROBLEM, co.PrivateGram(), wild, store=tmp_path / "store")
