"""Claims about the gate: what passes is in the plan, one call is one row, and a replay draws nothing again."""

from __future__ import annotations

import math

import numpy as np
import pytest

import colonnade as co
from colonnade.kernels.sparse_fw import Picks
from colonnade.privacy.events import EXACT, Charge, Event, Mechanism, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.released import Private, Released
from colonnade.privacy.store import FileLog
from contract import FREELY, gate, ledger

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


def test_one_call_is_one_event_however_many_arrays():
    door = gate((NOISY,))
    door.gaussian(VALUE, VALUE, VALUE, rho=RHO)
    assert [event.mechanism for event in door.receipt().events] == [Mechanism.GAUSSIAN]
    assert door.receipt().rho == RHO


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
    book.close_run("run", "finished")
    with pytest.raises(co.LeakError, match=r"Nothing was sent"):
        door.gaussian(VALUE, rho=RHO)


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
    from colonnade.runtime.transcript import Transcript

    steps = {step.tick: step for step in Transcript(log, "run").steps()}
    return steps[tick].releases


def made_durable(door, log):
    from colonnade.runtime.transcript import Transcript

    Transcript(log, "run").record(0, {}, {}, door)


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


def test_a_replay_on_other_data_stops(log):
    door = gate((NOISY,), log=log)
    door.begin(0, 0, None)
    door.gaussian(VALUE, rho=RHO)
    made_durable(door, log)
    again = gate((NOISY,), log=log)
    again.begin(0, 0, recorded(log))
    with pytest.raises(co.ReplayDiverged, match=r"other data, code or settings"):
        again.gaussian(Private(np.arange(4.0) + 1e-9, 1.0), rho=RHO)


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


def test_a_secret_survives_a_crash_and_is_erased_at_the_end(log):
    book = ledger(log=log)
    first = Gate(book, "run", SystemNoise()).secret("mask")
    assert first == Gate(ledger(log=log), "run", SystemNoise()).secret("mask")
    book.close_run("run", "finished")
    assert first != log.secret("run", "program: mask", 32)


@pytest.mark.slow
def test_a_release_may_be_drawn_from_more_than_two_gigabytes(log):
    """Picks hash all entries of a sparse table, 12 bytes each: whether a fit fails must not depend on how many are not zero."""
    door = gate((Charge(Event(Mechanism.PICKS, RHO, 1.0), 1, "picks"),), log=log)
    door.begin(0, 0, None)
    drawer = Private(lambda scale, stream: Picks(np.zeros(1, np.int64), np.ones(1, np.int8)), 1.0)
    columns, signs = door.picks(drawer, 1, lambda: bytes(1 << 31), rho=RHO)
    assert (columns.value.tolist(), signs.value.tolist()) == ([0], [1])
