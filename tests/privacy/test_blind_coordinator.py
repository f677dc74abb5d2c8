"""What the blind coordinator can make of masked products: its view enumerated on tiny rings, and what its files hold.

The view is enumerated on a model of the protocol in plain integers, which is first compared with the programs' own code number
by number. It has one distribution for each vector of noisy products: then nothing else can be read off it, whatever is known.
"""

from __future__ import annotations

import itertools
import sqlite3
from types import SimpleNamespace

import numpy as np
import pytest

import colonnade as co
from colonnade.kernels.bits import pack_rows
from colonnade.methods.gram import masks as gram_masks
from colonnade.methods.gram.masks import Corrections, Stage, Totals
from colonnade.methods.gram.products import Masked, Parts
from colonnade.methods.meeting import Seed
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Keyring
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Packed, decode_value, encode_value, release
from colonnade.runtime.hosted_node import InProcess, deliver_once
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import decode

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

NAMES = ("a", "b", "c")
ALL_PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))
WITH_B = (("a", "b"), ("b", "c"))  # class sums, where b holds the labels


# ---------------------------------------------------------------------------------------- the model is the code


def model(rows, masks, between, noise, first_has_d, bits, pairs):
    """Uploads, and both corrections of every pair, in plain integers. `first_has_d`: by pair and row, who multiplies the masks."""
    uploads = {p: (rows[p] + masks[p]) % (1 << bits[p]) for p in rows}
    sent = {}
    for pair in pairs:
        (k, m), ring = pair, np.minimum.outer(bits[pair[0]], bits[pair[1]])
        mine = np.asarray(first_has_d[pair])[:, None]
        d_first, d_second = (masks[k] * mine).T @ masks[m], (masks[k] * ~mine).T @ masks[m]
        sent[k, m] = (-rows[k].T @ masks[m] - d_first + between[pair] + noise[k, m]) % (1 << ring)
        sent[m, k] = (-masks[k].T @ rows[m] - d_second - between[pair] + noise[m, k]) % (1 << ring)
    return uploads, sent


class Fixed:
    """A mask whose numbers are given."""

    def __init__(self, values, bits):
        self.values, self.bits, self.dtype = values, bits, np.dtype(np.uint64)

    def rows(self, first, count):
        return self.values[first : first + count].astype(np.uint64)


def by_the_code(stage, rows, masks, between, noise, monkeypatch):
    """The same by the programs' own classes: what each party sends, and what the coordinator has in the end."""
    monkeypatch.setattr(Stage, "between", lambda self, gate, pair: between[pair].astype(np.uint64))
    monkeypatch.setattr(Stage, "mask", lambda self, party, seed, run: Fixed(masks[party], self.bits[party]))
    totals, uploads, sent, parts = Totals(stage, dict.fromkeys(NAMES, 0)), {}, {}, {}
    for p in NAMES:
        made = Corrections(stage, SimpleNamespace(node=p, run="run"), dict.fromkeys(NAMES, b""))
        for number, (first, count) in enumerate(stage.blocks()):
            made.add(number, first, rows[p][first : first + count], 1 << 20)
        for (partner, pair), covered in zip(made.partners.items(), made.covered().values(), strict=True):
            sent[p, partner] = (covered + noise[p, partner].astype(np.uint64)) & stage.masks(pair)
        parts[p] = Parts(tuple(release(Packed(sent[p, q], 62)) for q in stage.partners(p)))
    for first, count in stage.blocks():
        block = {
            p: pack_rows(rows[p][first : first + count], masks[p][first : first + count], stage.bits[p]).tobytes()
            for p in stage.uploading
        }
        totals.add({p: Masked(release(packed)) for p, packed in block.items()})
    totals.add(parts)
    for p in NAMES:
        uploads[p] = (rows[p] + masks[p]) % (1 << stage.bits[p])
    return uploads, sent, totals.products()


@pytest.mark.parametrize("pairs", [ALL_PAIRS, WITH_B], ids=["all pairs", "pairs with the label holder"])
def test_the_model_is_what_the_programs_send_and_the_coordinator_adds_up(pairs, monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(25):
        bits = {p: rng.integers(1, rng.choice([3, 24, 40]), rng.integers(1, 4)) for p in NAMES}
        stage = Stage("joint", int(rng.integers(1, 9)), bits, pairs, bytes(32))
        monkeypatch.setattr(gram_masks, "BLOCK_BYTES", max(1, sum(map(int, bits["a"])) * int(rng.integers(1, 4)) // 8))
        n = stage.rows
        rows = {p: rng.integers(-3, 4, (n, bits[p].size)) for p in NAMES}
        masks = {p: rng.integers(0, 1 << 20, (n, bits[p].size)) % (1 << bits[p]) for p in NAMES}
        between = {
            q: rng.integers(0, 1 << 30, stage.masks(q).shape) % (stage.masks(q).astype(np.int64) + 1) for q in pairs
        }
        noise = {side: rng.integers(-9, 10, stage.masks(q).shape) for q in pairs for side in (q, q[::-1])}
        even = np.concatenate([np.full(count, number % 2 == 0) for number, (_, count) in enumerate(stage.blocks())])
        uploads, sent = model(rows, masks, between, noise, dict.fromkeys(pairs, even), bits, pairs)
        same, code, products = by_the_code(stage, rows, masks, between, noise, monkeypatch)
        for p in NAMES:
            np.testing.assert_array_equal(uploads[p], same[p])
        for side, values in sent.items():
            np.testing.assert_array_equal(values, code[side].astype(np.int64))
        for k, m in pairs:
            want = rows[k].T @ rows[m] + noise[k, m] + noise[m, k]
            np.testing.assert_array_equal(products[k, m].astype(np.int64), want & stage.masks((k, m)).astype(np.int64))


# ---------------------------------------------------------------------------------------- every view, counted


def view(x, n, bits, pairs, split, *, covered=True, cut=True, lost=None):
    """How often the coordinator sees what, over all masks and all R: one row, one column a party.

    x  rows, n  noise of either side of every pair, split  whether the first of a pair has D.
    covered, cut  False: bugs, R left out and corrections in more bits than R.
    lost  whose corrections do not come, though its masked rows and everybody's corrections with it do.
    """
    rings = [1 << b for b in bits]
    least = [min(rings[k], rings[m]) for k, m in pairs]
    ranges = [range(q) for q in rings] + [range(q if covered else 1) for q in least]
    drawn = np.array(list(itertools.product(*ranges)))
    u, r = drawn[:, : len(bits)], drawn[:, len(bits) :]
    seen = [(x[k] + u[:, k]) % rings[k] for k in range(len(bits))]
    for i, ((k, m), q) in enumerate(zip(pairs, least, strict=True)):
        modulus, d = q if cut else max(rings), u[:, k] * u[:, m]
        first = (-x[k] * u[:, m] - d * split[i] + r[:, i] + n[i][0]) % modulus
        second = (-u[:, k] * x[m] - d * (1 - split[i]) - r[:, i] + n[i][1]) % modulus
        assert not ((seen[k] * seen[m] + first + second - x[k] * x[m] - sum(n[i])) % q).any()
        seen += [came for came, sender in ((first, k), (second, m)) if sender != lost]
    found, times = np.unique(np.column_stack(seen), axis=0, return_counts=True)
    return found.tobytes() + times.tobytes()


def views(bits, numbers, pairs, noises=((0, 0), (1, 0), (0, 1)), splits=None, **bug):
    """Of every split of D the most distributions that one vector of noisy products has."""
    worst = 0
    for split in splits or itertools.product((0, 1), repeat=len(pairs)):
        known: dict[tuple[int, ...], set[bytes]] = {}
        for x in itertools.product(*(range(number) for number in numbers)):
            for n in itertools.product(noises, repeat=len(pairs)):
                product = tuple(
                    (x[k] * x[m] + sum(one)) % (1 << min(bits[k], bits[m]))
                    for (k, m), one in zip(pairs, n, strict=True)
                    if bug.get("lost") not in (k, m)
                )
                known.setdefault(product, set()).add(view(x, n, bits, pairs, split, **bug))
        worst = max(worst, *map(len, known.values()))
    return worst


NUMBERED = ((0, 1), (0, 2), (1, 2))
STAR = ((0, 1), (1, 2))


@pytest.mark.parametrize("bits", [(1, 1, 1), (2, 1, 2), (1, 2, 2)], ids=str)
@pytest.mark.parametrize("pairs", [NUMBERED, STAR], ids=["all pairs", "pairs with the label holder"])
def test_the_coordinators_view_is_one_for_each_vector_of_noisy_products(bits, pairs):
    """Three parties, rings that differ, every split of D, with noise of either side: enumerated, so nothing is left to chance."""
    assert views(bits, (2, 2, 2), pairs) == 1


@pytest.mark.parametrize("bug", [{"covered": False}, {"cut": False}], ids=["R left out", "c in more bits than R"])
def test_planted_a_view_that_tells_more_has_more_than_one_distribution(bug):
    assert views((2, 1, 2), (2, 2, 2), NUMBERED, noises=((0, 0),), splits=[(1, 1, 1)], **bug) > 1


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("pairs", [NUMBERED, STAR], ids=["all pairs", "pairs with the label holder"])
def test_without_a_lost_partys_corrections_the_view_is_one_for_each_vector_of_the_other_products(lost, pairs):
    """So the others' corrections with it tell nothing, of its rows or of theirs."""
    noises = ((0, 0), (1, 0))
    assert views((1, 1, 2), (2, 2, 2), pairs, noises=noises, splits=[(1, 0, 1)], lost=lost) == 1


def test_planted_without_r_the_corrections_with_a_lost_party_tell_of_rows():
    bug = {"covered": False, "lost": 2}
    assert views((2, 1, 2), (2, 2, 2), NUMBERED, noises=((0, 0),), splits=[(1, 1, 1)], **bug) > 1


def test_two_rows_of_two_parties_are_as_well_hidden():
    """Two rows in a ring of two bits, D with the first, with the second, and shared: the view of both blocks together."""
    q, vectors = 4, np.array(list(itertools.product(range(4), repeat=2)))
    u, v, r = (part.reshape(-1, *part.shape[3:]) for part in np.broadcast_arrays(*_grid(vectors, q)))
    for mine in ([1, 1], [0, 0], [1, 0]):
        known: dict[int, set[bytes]] = {}
        for x, y in itertools.product(vectors, repeat=2):
            both = (u * v * mine).sum(axis=1), (u * v * (1 - np.array(mine))).sum(axis=1)
            first, second = (-(v @ x) - both[0] + r[:, 0]) % q, (-(u @ y) - both[1] - r[:, 0]) % q
            seen = np.column_stack([(x + u) % q, (y + v) % q, first, second])
            assert not ((((x + u) * (y + v)).sum(axis=1) + first + second - x @ y) % q).any()
            found, times = np.unique(seen, axis=0, return_counts=True)
            known.setdefault(int(x @ y) % q, set()).add(found.tobytes() + times.tobytes())
        assert all(len(one) == 1 for one in known.values())


def _grid(vectors, q):
    """All masks of both parties and all R, to be broadcast."""
    r = np.repeat(np.arange(q)[:, None], 2, axis=1)
    return vectors[:, None, None, :], vectors[None, :, None, :], r[None, None, :, :]


# ---------------------------------------------------------------------------------------- what its files hold

PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
TERMS = co.Privacy(1.0, 1e-6, trust="secure", row_norm=3.0, feature_bound=2.0)


class Cut(BaseException):
    """The power goes."""


class Watched:
    """A run in several blocks a stage, which may be cut; with all that was sealed in it, open and under its seal."""

    def __init__(self, store, monkeypatch, letters=None):
        self.store, self.left = store, letters
        self.plain, self.covered = [], []  # (sender, receivers, body), and what lies under the seal
        monkeypatch.setattr(gram_masks, "BLOCK_BYTES", 200)
        seal = Keyring.seal

        def spy(ring, places, body, name):
            out = seal(ring, places, body, name)
            self.plain.append((ring._me, tuple(places), body))
            self.covered += [content for _, content in out.values()]
            return out

        with monkeypatch.context() as patch:
            patch.setattr(Keyring, "seal", spy)
            rng = np.random.default_rng(0)
            X = np.clip(rng.normal(size=(120, 5)), -2, 2)
            fed = co.Federation.split(X, np.sign(X[:, 0]), parties={"a": [0, 1], "b": [2], "c": [3, 4]}, label="b")
            self.cut = False
            try:
                self.fit = co.fit(fed, PROBLEM, co.PrivateGram(), TERMS, store=store, engine=self)
            except Cut:
                self.cut = True

    def run(self, nodes, carry=deliver_once):
        def watched(letter):
            if self.left is not None:
                if not self.left:
                    raise Cut
                self.left -= 1
            return carry(letter)

        return InProcess().run(nodes, watched)

    def bodies(self, kind):
        return [(who, to, body, decode(body)) for who, to, body in self.plain if isinstance(decode(body), kind)]

    def files(self, node=""):
        """The bytes of a node's files, journals and blobs included, or of everything."""
        paths = [p for p in self.store.rglob("*") if p.is_file() and (not node or p.name.startswith(f"{node}.db"))]
        return b"".join(path.read_bytes() for path in sorted(paths))

    def secrets(self, node):
        with sqlite3.connect(self.store / "nodes" / f"{node}.db") as db:
            return {(run, name): bytes(value) for run, name, value in db.execute("select run, name, value from secret")}


def core(body):
    """The middle of a body: enough of it to be known by, wherever it stands."""
    return body[len(body) // 3 :][:48]


def corrections(watched):
    """The corrections as a gate records them, before they are hidden: their numbers, as bytes."""
    found = [m.parts[-1].value for _, _, _, m in watched.bodies(Parts)]
    return [core(encode_value(part)) for part in found]


@pytest.mark.chance(1e-15, "250 parts of 80 random bits or more in 90 kB: 250 * 9e4 / 2^80")
@pytest.mark.parametrize("letters", [24, 30, 36, 60, 68, 76, None])
def test_the_coordinators_files_hold_no_masked_row_and_no_single_correction(letters, monkeypatch, tmp_path):
    """While the run is open, wherever it stops, and when it is over."""
    watched = Watched(tmp_path, monkeypatch, letters)
    assert watched.cut == (letters is not None)
    held = watched.files(COORDINATOR)
    for _, _, body, message in watched.bodies(Masked):
        assert core(body) not in held
        assert core(message.rows.value) not in held
    for part in corrections(watched):
        assert part not in held
    sealed = [
        content for (_, to, _), content in zip(_one_each(watched), watched.covered, strict=True) if COORDINATOR in to
    ]
    assert not any(core(content) in held for content in sealed)  # nor under its seal, which the coordinator can open


def _one_each(watched):
    """One entry for each receiver, as sealing gives one content for each."""
    return [(who, (peer,), body) for who, to, body in watched.plain for peer in to]


def totals_in(watched):
    """The coordinator's totals as they are kept, by stage: how many blocks they hold."""
    kept = {name: value for (_, name), value in watched.secrets(COORDINATOR).items() if name.startswith("fold: totals")}
    return {name.split()[-1]: decode_value(value)[0] for name, value in kept.items()}


def folded(store):
    """How many steps of the coordinator's record added something up, squared lengths aside."""
    with sqlite3.connect(store / "nodes" / f"{COORDINATOR}.db") as db:
        return len(set(db.execute("select tick from log where kind = 'folded'").fetchall()))


@pytest.mark.chance(0, "bytes of a run that goes on against those before, and counts")
@pytest.mark.parametrize("at", [1, 2, 3])
def test_totals_are_kept_with_the_number_of_their_block_in_one_transaction(at, monkeypatch, tmp_path):
    """The power goes when totals have been written and the step has not: both are as before, and the run goes on."""
    append, count = FileLog.append, [0]

    def failing(self, run, tick, kind, key, body, *more):
        if kind == "step" and self.path.name == f"{COORDINATOR}.db" and self.holds(run, "folded"):
            count[0] += 1
            if count[0] > at:
                raise Cut
        return append(self, run, tick, kind, key, body, *more)

    with monkeypatch.context() as patch:
        patch.setattr(FileLog, "append", failing)
        first = Watched(tmp_path, monkeypatch)
    assert first.cut
    assert sum(totals_in(first).values()) == folded(tmp_path) == at
    second = Watched(tmp_path, monkeypatch)
    assert not second.cut
    assert {body for *_, body in first.plain} <= {
        body for *_, body in second.plain
    }  # the same bytes, and nothing drawn again


def test_totals_are_overwritten_and_only_the_last_ones_are_kept(monkeypatch, tmp_path):
    watched = Watched(tmp_path, monkeypatch, 76)
    done = totals_in(watched)
    assert set(done) <= {"sums", "joint"}
    assert max(done.values()) > 1  # several blocks, and one row of totals for each stage


@pytest.mark.chance(1e-60, "6 seeds of 256 bits in 400 kB: 6 * 4e5 / 2^256")
def test_when_a_run_is_over_totals_seeds_and_keys_are_gone_at_all_nodes(monkeypatch, tmp_path):
    open_run = Watched(tmp_path / "open", monkeypatch, 60)
    assert any(name.startswith("fold:") for _, name in open_run.secrets(COORDINATOR))
    assert any(name.startswith("program: mask") for _, name in open_run.secrets("a"))
    watched = Watched(tmp_path / "over", monkeypatch)
    run, seeds = watched.fit.run, {m.seed.value for _, _, _, m in watched.bodies(Seed)} - {b""}
    assert len(seeds) == 6
    for node in (*NAMES, COORDINATOR):
        assert not {name for of, name in watched.secrets(node) if of == run}
    left = watched.files()
    assert not any(seed in left for seed in seeds)


@pytest.mark.chance(1e-15, "6 parts of 80 random bits or more in 400 kB: 6 * 4e5 / 2^80")
def test_after_closing_no_file_of_a_party_shows_a_correction_to_a_partner_who_kept_its_keys_and_seeds(
    monkeypatch, tmp_path
):
    """With R and both masks a correction is a noisy product with noise of one party only; a store never shows one."""
    assert not _shown(Watched(tmp_path / "hidden", monkeypatch))
    monkeypatch.setattr(Gate, "_hidden", lambda self, slot, event, body, *, hide: body)
    assert len(_shown(Watched(tmp_path / "planted", monkeypatch))) == 6  # three parties, two stages: the test can fail


def _shown(watched):
    found = corrections(watched)
    assert len(found) == 6
    return [part for part in found if any(part in watched.files(name) for name in NAMES)]
