"""Claims about the gate: what passes is in the plan, one call is one row, and a replay draws nothing again."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import colonnade as co
from colonnade.kernels.bits import unpack_rows
from colonnade.kernels.ring import Ring
from colonnade.kernels.sparse_fw import Picks
from colonnade.privacy.events import EXACT, FINISHED, MASKED, Charge, Event, Mechanism, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import ColumnPad, Pad
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.mechanisms import SystemNoise, gumbel_scale
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Private, Released, encode_value
from tests.helpers.contract import FREELY, TERMS, gate, ledger

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RHO = 0.5
NOISY = Charge(Event(Mechanism.GAUSSIAN, RHO, 1.0), 2, "sums")
CHOICE = Charge(Event(Mechanism.GUMBEL, RHO, 1.0), 2, "choices")
VALUE = Private(np.arange(4.0), 1.0)


class Counting(SystemNoise):
    """Counts how often noise is drawn."""

    drawn = 0

    def discrete_gaussian(self, *arguments, **named):
        Counting.drawn += 1
        return super().discrete_gaussian(*arguments, **named)


def test_exact_values_pass_unchanged_and_several_at_once():
    door = gate()
    one = door.exact(np.arange(3.0))
    assert type(one) is Released
    assert np.array_equal(one.value, np.arange(3.0))
    two, three = door.exact(1, 2.5)
    assert (two.value, three.value) == (1, 2.5)


@pytest.mark.chance(0, "prices and events: nothing that was drawn is compared")
def test_one_call_is_one_event_however_many_arrays():
    door = gate((NOISY,))
    door.gaussian(VALUE, VALUE, VALUE, rho=RHO)
    assert [event.mechanism for event in door.receipt().events] == [Mechanism.GAUSSIAN]
    assert door.receipt().rho == RHO


@pytest.mark.chance(0, "the sensitivity that is recorded does not depend on the noise")
def test_arrays_released_together_have_the_joint_sensitivity():
    door = gate((NOISY,))
    door.gaussian(VALUE, Private(np.zeros(3), 2.0), rho=RHO)
    (event,) = door.receipt().events
    assert math.sqrt(5.0) <= event.sensitivity <= math.sqrt(5.0) * 1.01


@pytest.mark.parametrize(
    "release",
    [
        lambda door: door.exact(1.0),
        lambda door: door.gaussian(VALUE, rho=2 * RHO),
        lambda door: door.gaussian(VALUE, rho=RHO, scope=Scope.JOINT),
        lambda door: door.noisy_max(VALUE, rho=RHO),
    ],
    ids=["exact", "dearer", "joint", "another mechanism"],
)
def test_a_release_outside_the_plan_is_refused(release):
    with pytest.raises(co.LeakError, match=r"not in the plan.*Nothing was sent.*price\(\)"):
        release(gate((NOISY,)))


@pytest.mark.chance(0, "counts of releases: nothing that was drawn is compared")
def test_a_plan_is_used_up():
    door = gate((NOISY,))
    door.gaussian(VALUE, rho=RHO)
    door.gaussian(VALUE, rho=RHO)
    with pytest.raises(co.LeakError, match=r"used up"):
        door.gaussian(VALUE, rho=RHO)


def test_nothing_is_drawn_for_a_refused_release():
    Counting.drawn = 0
    door = Gate(ledger((CHOICE,)), "run", Counting())
    with pytest.raises(co.LeakError):
        door.gaussian(VALUE, rho=RHO)
    assert Counting.drawn == 0


@pytest.mark.parametrize("rho", [0.0, -1.0, math.inf, math.nan])
def test_noise_needs_a_finite_price(rho):
    with pytest.raises(co.InvalidInput, match=r"finite rho > 0.*gate.exact"):
        gate((NOISY,)).gaussian(VALUE, rho=rho)


def test_a_closed_run_releases_nothing_more():
    book = ledger((NOISY,))
    door = Gate(book, "run", SystemNoise())
    book.close_run("run", FINISHED)
    with pytest.raises(co.LeakError, match=r"Nothing was sent"):
        door.gaussian(VALUE, rho=RHO)


@pytest.mark.chance(0, "any whole number of grid steps passes, whatever the noise")
def test_the_low_bits_of_a_noisy_release_carry_nothing():
    """Whatever the value, what leaves is a whole number of grid steps."""
    left = [gate((NOISY,)).gaussian(Private(np.array([x]), 1.0), rho=RHO).value for x in (0.1, math.pi, 1e3 / 3)]
    for value in left:
        grid = 2.0 ** math.floor(math.log2(1.0 / 1024.0))
        assert float(value[0]) % grid == 0.0


# ---------------------------------------------------------------- replay


@pytest.fixture
def log(tmp_path):
    made = FileLog(tmp_path / "a.db")
    yield made
    made.close()


def recorded(log, tick=0):
    """The releases of a step as a replay finds them."""
    from colonnade.runtime.node import Transcript

    steps = {step.tick: step for step in Transcript(log, "run").steps()}
    return steps[tick].releases


def made_durable(door, log):
    from colonnade.runtime.node import Transcript

    Transcript(log, "run").record(0, {}, {}, door)


@pytest.mark.chance(0, "two readings of one draw are compared")
def test_a_recorded_release_is_read_back_and_not_drawn_again(log):
    door = gate((NOISY, CHOICE), log=log)
    door.begin(0, 0, None)
    first, choice = door.gaussian(VALUE, rho=RHO), door.noisy_max(VALUE, rho=RHO)
    made_durable(door, log)

    Counting.drawn = 0
    again = Gate(ledger((NOISY, CHOICE), log=log), "run", Counting())
    again.begin(0, 0, recorded(log))
    assert first == again.gaussian(VALUE, rho=RHO)
    assert choice == again.noisy_max(VALUE, rho=RHO)
    assert Counting.drawn == 0


@pytest.mark.chance(1e-27, "two nonces of 96 bits are the same; else 496 random bytes agree by chance")
def test_what_a_step_that_died_left_on_the_disk_tells_nothing_of_what_the_next_one_drew(log):
    """A large release is a file before its step is recorded. The next life draws noise again, at the same place."""
    noisy = Charge(Event(Mechanism.LATTICE, RHO, 1.0, Scope.JOINT), 2, "sums")
    files, drawn = [], []
    for _ in range(2):
        door = gate((noisy,), log=log)
        door.begin(0, 0, None)
        (released,) = door.integers(
            Private((np.zeros(64, np.int64),), 1.0), (1.0,), (2**62 - 1,), rho=RHO, scope=Scope.JOINT
        )
        drawn.append(encode_value((released.value,)))
        files.append(door._pending[0].body[16:])
    shift = len(files[0]) - len(drawn[0]) - 16  # a nonce before, a tag behind
    assert shift > 0
    hidden, plain = (np.frombuffer(a, np.uint8) ^ np.frombuffer(b, np.uint8) for a, b in (files, drawn))
    for at in range(shift + 1):
        assert not np.array_equal(hidden[at : at + plain.size], plain)


@pytest.mark.chance(0, "digests of exact inputs are compared, not what was drawn")
def test_a_replay_on_other_data_stops(log):
    door = gate((NOISY,), log=log)
    door.begin(0, 0, None)
    door.gaussian(VALUE, rho=RHO)
    made_durable(door, log)
    again = gate((NOISY,), log=log)
    again.begin(0, 0, recorded(log))
    with pytest.raises(co.ReplayDiverged, match=r"other data, code or settings"):
        again.gaussian(Private(np.arange(4.0) + 1e-9, 1.0), rho=RHO)


@pytest.mark.chance(0, "the order of events is compared, not what was drawn")
def test_a_replay_that_asks_for_more_or_other_releases_stops(log):
    plan = (NOISY, CHOICE)
    door = gate(plan, log=log)
    door.begin(0, 0, None)
    door.gaussian(VALUE, rho=RHO)
    made_durable(door, log)
    again = gate(plan, log=log)
    again.begin(0, 0, recorded(log))
    with pytest.raises(co.ReplayDiverged, match=r"another event"):
        again.noisy_max(VALUE, rho=RHO)
    again.begin(0, 0, recorded(log))
    again.gaussian(VALUE, rho=RHO)
    with pytest.raises(co.ReplayDiverged, match=r"did not make"):
        again.gaussian(VALUE, rho=RHO)


def test_an_exact_release_must_come_out_the_same(log):
    door = gate(FREELY, log=log)
    door.begin(0, 0, None)
    door.exact(np.zeros(2))
    made_durable(door, log)
    again = gate(FREELY, log=log)
    again.begin(0, 0, recorded(log))
    with pytest.raises(co.ReplayDiverged):
        again.exact(np.ones(2))


@pytest.mark.chance(0, "a refusal, whatever the bytes were")
def test_a_release_whose_bytes_are_gone_fails_closed(log):
    door = gate((NOISY,), log=log)
    door.begin(0, 0, None)
    door.gaussian(VALUE, rho=RHO)
    made_durable(door, log)
    lost = {slot: (event, body[:16]) for slot, (event, body) in recorded(log).items()}
    again = gate((NOISY,), log=log)
    again.begin(0, 0, lost)
    with pytest.raises(co.LedgerDamaged, match=r"cannot go on"):
        again.gaussian(VALUE, rho=RHO)


@pytest.mark.chance(0, "counts of releases: nothing that was drawn is compared")
def test_what_was_used_before_a_crash_stays_used(log):
    door = gate((NOISY,), log=log)
    door.begin(0, 0, None)
    door.gaussian(VALUE, rho=RHO)
    made_durable(door, log)
    again = gate((NOISY,), log=log)
    again.begin(1, 0, None)
    again.gaussian(VALUE, rho=RHO)
    with pytest.raises(co.LeakError, match=r"used up"):
        again.gaussian(VALUE, rho=RHO)


def test_the_digest_of_an_exact_value_cannot_be_tested_without_the_key(tmp_path):
    """Two stores keep different digests of the same value: a reader of the file cannot check a guess."""
    digests = set()
    for name in ("one", "two"):
        log = FileLog(tmp_path / f"{name}.db")
        door = gate((Charge(EXACT, 1, "x"),), log=log)
        door.begin(0, 0, None)
        door.exact(1)
        made_durable(door, log)
        ((_, body),) = recorded(log).values()
        digests.add(body)
        log.close()
    assert len(digests) == 2


def test_the_digests_of_two_runs_of_one_store_cannot_be_compared(log):
    """Whether a value is the same as in an earlier run is nobody's to read off the file, the key of which is gone by then."""
    book = Ledger(log, "a", co.Policy(exact=True))
    for run in ("one", "two"):
        book.open_run(run, TERMS, {"a": (Charge(EXACT, 1, "x"),)})
        door = Gate(book, run, SystemNoise())
        door.begin(0, 0, None)
        door.exact(1)
        with log.atomic():
            door.flush()
    one, two = (log.rows(run, "release")[0].body for run in ("one", "two"))
    assert len(one) == len(two) == 16
    assert one != two


def test_a_secret_survives_a_crash_and_is_erased_at_the_end(log):
    book = ledger(log=log)
    first = Gate(book, "run", SystemNoise()).secret("mask")
    assert first == Gate(ledger(log=log), "run", SystemNoise()).secret("mask")
    book.close_run("run", FINISHED)
    assert first != log.secret("run", "program: mask", 32)


@pytest.mark.slow
def test_a_release_may_be_drawn_from_more_than_two_gigabytes(log):
    """Picks hash all entries of a sparse table, 12 bytes each: whether a fit fails must not depend on how many are not zero."""
    door = gate((Charge(Event(Mechanism.PICKS, RHO, 1.0), 1, "picks"),), log=log)
    door.begin(0, 0, None)
    drawer = Private(lambda scale, stream: Picks(np.zeros(1, np.int64), np.ones(1, np.int8)), 1.0)
    columns, signs = door.picks(drawer, 1, lambda: bytes(1 << 31), rho=RHO)
    assert (columns.value.tolist(), signs.value.tolist()) == ([0], [1])


# ---------------------------------------------------------------- how much noise is drawn


class Told(SystemNoise):
    """Draws nothing, and remembers what it was asked for: sizes with sds in grid steps, candidates with scales."""

    def __init__(self):
        self.normal, self.choices = [], []

    def discrete_gaussian(self, size, sigma):
        self.normal.append((size, float(sigma)))
        return np.zeros(size, np.int64)

    def gumbel_argmax(self, scores, scale):
        self.choices.append((len(scores), scale))
        return 0


def watched(
    mechanism: Mechanism, scope: Scope = Scope.OWN, trust: str = "nobody", rho: float = RHO
) -> tuple[Gate, Told]:
    from dataclasses import replace

    from colonnade.privacy.ledger import Ledger
    from colonnade.privacy.store import MemoryLog

    made, noise = Ledger(MemoryLog(), "a", co.Policy(exact=True)), Told()
    lines = [Charge(Event(mechanism, rho, 1.0, scope, audience), 9, "x") for audience in ("all", "consortium")]
    made.open_run("run", replace(TERMS, trust=trust), {"a": tuple(lines)})
    return Gate(made, "run", noise), noise


def test_gaussian_noise_has_the_sd_of_the_joint_sensitivity_and_the_rounding():
    """Δ = 5 of 3 and 4; the grid is the power of two below Δ/(1024 √7), and rounding seven numbers costs a step times √7."""
    door, noise = watched(Mechanism.GAUSSIAN)
    door.gaussian(Private(np.zeros(3), 3.0), Private(np.zeros(4), 4.0), rho=RHO)
    ((size, sigma),) = noise.normal
    grid = 2.0 ** math.floor(math.log2(5 / (1024 * math.sqrt(7))))
    assert size == 7
    assert sigma == pytest.approx((5 + grid * math.sqrt(7)) / grid / math.sqrt(2 * RHO), rel=1e-12)
    assert door.receipt().events[0].sensitivity == pytest.approx(5 + grid * math.sqrt(7), rel=1e-12)


def test_a_choice_is_made_among_both_signs_at_the_scale_of_its_price():
    door, noise = watched(Mechanism.GUMBEL)
    door.noisy_max(Private(np.arange(6.0), 3.0), rho=RHO)
    assert noise.choices[0][0] == 12  # every score with both signs
    assert noise.choices[0][1] == pytest.approx(3 / math.sqrt(2 * RHO), rel=1e-9)


@pytest.mark.chance(0, "the scale that a drawer is told follows from the price alone")
@pytest.mark.parametrize("count", [1, 9])
def test_picks_share_the_price_of_all(count):
    door, told = watched(Mechanism.PICKS)[0], []
    drawer = Private(lambda scale, stream: told.append(scale) or Picks(np.zeros(1, np.int64), np.ones(1, np.int8)), 3.0)
    door.picks(drawer, count, lambda: b"", rho=RHO)
    assert told[0] == pytest.approx(math.sqrt(2 * RHO / count) / 3, rel=1e-9)
    assert told[0] < math.sqrt(2 * RHO / count) / 3  # rounded to the private side
    assert Fraction(told[0]) * Fraction(gumbel_scale(3.0, RHO / count)) < 1  # and so is the inverse of the scale


def test_integers_carry_noise_in_proportion_to_their_weights():
    door, noise = watched(Mechanism.LATTICE, Scope.JOINT)
    parts = (np.arange(4), np.arange(6).reshape(2, 3))
    out = door.integers(Private(parts, 8.0), (1.0, 0.25), (2**20 - 1, 2**30 - 1), rho=RHO, scope=Scope.JOINT)
    sigma = 8 / math.sqrt(2 * RHO)
    assert [size for size, _ in noise.normal] == [4, 6]
    assert [sd for _, sd in noise.normal] == pytest.approx([sigma, sigma / 4], rel=1e-12)
    assert [part.value.values.tolist() for part in out] == [part.tolist() for part in parts]
    assert [part.value.bits for part in out] == [20, 30]


def test_every_entry_of_integers_may_have_a_weight_and_a_ring_of_its_own():
    door, noise = watched(Mechanism.LATTICE, Scope.JOINT)
    part, weights = np.array([[-1, 5, 300], [7, 8, 9]]), np.array([[1.0, 0.5, 1.0], [0.25, 0.5, 1.0]])
    masks = np.array([[1, 3, 255], [7, 7, 7]], np.uint64)
    (out,) = door.integers(Private((part,), 8.0), (weights,), (masks,), rho=RHO, scope=Scope.JOINT)
    sigma = 8 / math.sqrt(2 * RHO)
    assert noise.normal == [(n, pytest.approx(w * sigma, rel=1e-12)) for w, n in ((0.25, 1), (0.5, 2), (1.0, 3))]
    assert out.value.values.tolist() == [[1, 1, 300 - 256], [7, 0, 1]]  # cut before it is packed
    assert out.value.bits == 8


@pytest.mark.chance(6e-9, "2,000 entries within 7 sds: 2,000 * 2.6e-12; five agreeing numbers of 50: 1e-20")
@pytest.mark.parametrize("size", [1, 40])
def test_noise_stands_where_its_weight_says(size):
    """Entries of a thousandth of the sd beside entries of all of it: 7 sds of either, and no noise twice."""
    line = Charge(Event(Mechanism.LATTICE, RHO, 1.0, Scope.JOINT), 1, "x")
    weights = np.where(np.arange(50 * size) % 2, 1.0, 1e-3)
    exact = Private((np.zeros(50 * size, np.int64),), 1e9)
    (out,) = gate((line,)).integers(exact, (weights,), (2**62 - 1,), rho=RHO, scope=Scope.JOINT)
    noise, sigma = Ring(62).signed(out.value.values), 1e9 / math.sqrt(2 * RHO)
    assert np.abs(noise[::2]).max() < 7e-3 * sigma < np.abs(noise[1::2]).max()  # all of 25 that near zero: 10^-56
    assert np.abs(noise[1::2]).max() < 7 * sigma
    assert len(set(noise.tolist())) > 45 * size


def continued(**lines: int) -> tuple[Gate, Told]:
    """A gate with a line for a release and for its rest."""
    from colonnade.privacy.store import MemoryLog

    made, noise = Ledger(MemoryLog(), "a", co.Policy(exact=True)), Told()
    first = Charge(Event(Mechanism.LATTICE, RHO, 1.0, Scope.JOINT), lines.get("first", 1), "x")
    rest = Charge(Event(Mechanism.CONTINUED, 0.0, 1.0, Scope.JOINT), lines.get("rest", 1), "more of x")
    made.open_run("run", TERMS, {"a": (first, rest)})
    return Gate(made, "run", noise), noise


def test_the_rest_of_a_release_has_the_same_noise_and_costs_nothing_more():
    door, noise = continued()
    given = Private((np.arange(4),), 8.0)
    door.integers(given, (1.0,), (2**20 - 1,), rho=RHO, scope=Scope.JOINT, more=True)
    (out,) = door.the_rest(Private((np.arange(6),), 8.0), (0.5,), (3,))
    sigma = 8 / math.sqrt(2 * RHO)
    assert noise.normal == [(4, pytest.approx(sigma)), (6, pytest.approx(sigma / 2))]
    assert out.value.values.tolist() == [0, 1, 2, 3, 0, 1]
    assert [event.mechanism for event in door.receipt().events] == [Mechanism.LATTICE, Mechanism.CONTINUED]
    assert door.receipt().rho == RHO


@pytest.mark.parametrize(
    "how", ["nothing begun", "begun whole", "twice", "other sensitivity", "another release between"]
)
def test_the_rest_leaves_once_and_only_behind_its_beginning(how):
    door, noise = continued(first=2, rest=2)
    given, terms = (Private((np.arange(4),), 8.0), (1.0,), (255,)), {"rho": RHO, "scope": Scope.JOINT}
    if how != "nothing begun":
        door.integers(*given, **terms, more=how != "begun whole")
    if how == "twice":
        door.the_rest(*given)
    if how == "another release between":
        door.integers(*given, **terms)
    drawn = len(noise.normal)
    with pytest.raises(co.LeakError, match="no release of that sensitivity is half done"):
        door.the_rest(Private((np.arange(4),), 7.0 if how == "other sensitivity" else 8.0), (1.0,), (255,))
    assert len(noise.normal) == drawn


def test_inside_a_consortium_integers_carry_no_noise_and_cost_the_same():
    door, noise = watched(Mechanism.LATTICE, Scope.JOINT, trust="consortium")
    given = Private((np.arange(4),), 8.0), (1.0,), (2**20 - 1,)
    door.integers(*given, rho=RHO, scope=Scope.JOINT, audience="consortium")
    assert noise.normal == []
    assert door.receipt().rho == RHO
    with pytest.raises(co.LeakError, match="there are no members"):
        watched(Mechanism.LATTICE, Scope.JOINT)[0].integers(*given, rho=RHO, scope=Scope.JOINT, audience="consortium")


def test_noise_that_can_be_repeated_has_no_finite_price():
    from colonnade.privacy.mechanisms import SeededNoise

    door = Gate(ledger((Charge(Event(Mechanism.GAUSSIAN, math.inf, 1.0), 1, "x"),)), "run", SeededNoise(1))
    door.gaussian(VALUE, rho=RHO)
    assert door.receipt().rho == math.inf


def test_every_release_of_a_step_and_of_a_run_draws_noise_of_its_own():
    from colonnade.privacy.mechanisms import SeededNoise

    line = Charge(Event(Mechanism.GAUSSIAN, math.inf, 1.0), 9, "x")
    door = Gate(ledger((line,)), "run", SeededNoise(1))
    left = []
    for tick in range(2):
        door.begin(tick, 0, None)
        left += [door.gaussian(Private(np.zeros(8), 1.0), rho=RHO).value.tobytes() for _ in range(2)]
    assert len(set(left)) == 4


# ---------------------------------------------------------------- masks


def pad(label: str = "stage", seed: bytes = bytes(32), columns: int = 3, bits: int = 40) -> Pad:
    return Pad(seed, (label,), columns, Ring(bits))


BITS = np.array([40, 7, 13])


def columns(label: str = "stage", seed: bytes = bytes(32), bits: np.ndarray = BITS) -> ColumnPad:
    return ColumnPad(seed, (label,), bits)


def test_a_mask_covers_each_row_once_however_the_rows_come():
    """What is sent of zeros is the mask itself: over 9 rows in three calls no two rows are alike, none is repeated."""
    door, zeros = gate((Charge(MASKED, 9, "x"),)), np.zeros((9, 3), np.int64)
    sent = [unpack_rows(door.masked(zeros[:rows], columns()).value, rows, BITS) for rows in (2, 4, 3)]
    whole = unpack_rows(gate((Charge(MASKED, 1, "x"),)).masked(zeros, columns()).value, 9, BITS)
    np.testing.assert_array_equal(np.vstack(sent), whole)
    assert len({row.tobytes() for row in whole}) == 9
    np.testing.assert_array_equal(columns().rows(0, 9) % (1 << BITS).astype(np.uint64), whole)


def test_what_is_masked_is_the_row_plus_its_mask_in_the_ring_of_each_column():
    rows = np.arange(27).reshape(9, 3) - 13
    sent = unpack_rows(gate((Charge(MASKED, 1, "x"),)).masked(rows, columns()).value, 9, BITS)
    want = (rows.astype(object) + columns().rows(0, 9).astype(object)) % (1 << BITS.astype(object))
    np.testing.assert_array_equal(sent.astype(object), want)


def test_column_masks_of_another_seed_stage_or_ring_share_nothing():
    masks = [columns(), columns("other"), columns(seed=bytes(31) + b"1"), columns(bits=np.array([40, 7, 14]))]
    assert len({mask.key for mask in masks}) == len(masks)
    numbers = [int(value) for mask in masks for value in mask.rows(0, 4).ravel()]
    assert len(set(numbers)) == len(numbers)  # 48 draws from 2^64


def test_the_seed_of_a_mask_is_the_same_for_one_digest_and_another_for_another():
    door = gate()
    first, again, other = (door.seed(digest) for digest in (b"one", b"one", b"two"))
    hidden = door.seed(b"one", shown=False)
    assert [part.value for part in first] == [part.value for part in again]
    assert first[1].value != other[1].value
    assert len(first[1].value) == 32
    assert (hidden[0].value, hidden[1].value) == (b"one", b"")
    assert gate().seed(b"one")[1].value != first[1].value


def test_masks_of_another_seed_stage_width_or_ring_share_nothing():
    masks = [pad(), pad("other"), pad(seed=bytes(31) + b"1"), pad(columns=4), pad(bits=41)]
    assert len({mask.key for mask in masks}) == len(masks)
    numbers = [int(value) for mask in masks for value in mask.rows(0, 4).ravel()]
    assert len(set(numbers)) == len(numbers)  # 64 draws from 2^40: two alike by chance once in 10^9


def test_masked_scores_are_the_part_and_pads_that_cancel():
    from colonnade.privacy.events import SCORES

    ring, part = Ring(40), np.arange(6, dtype=np.uint64).reshape(6, 1)
    one, two = pad("one", columns=1), pad("two", columns=1)

    def shared(plus, minus, first=2):
        return gate((Charge(SCORES, 1, "x"),)).scores(part, first, plus, minus, ring).value.values

    total = shared([one], [two]).astype(object) + shared([two], [one]).astype(object)
    np.testing.assert_array_equal(total % 2**40, (2 * part).astype(object))
    np.testing.assert_array_equal(shared([one], []), ring.add(part, one.rows(2, 6)))
    np.testing.assert_array_equal(shared([], [one]), ring.subtract(part, one.rows(2, 6)))
