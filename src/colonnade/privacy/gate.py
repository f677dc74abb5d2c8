"""The gate: the only place where a party's values become `Released`.

Every call is one mechanism, one event and one ledger row, however many arrays it releases together. The order is fixed:
the event takes its line of the reserved plan, then noise is drawn, then value and row are recorded in the transaction
of the step, then the step's messages are sent.

When a run is replayed after a crash, a recorded release is not computed again: a noisy one is read back (noise drawn
twice about one value would average out), an exact one must come out the same. Either way the exact input must hash to
what it hashed to before, or the replay stops.
"""

from __future__ import annotations

import hmac
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from colonnade.errors import InvalidInput, LeakError, LedgerDamaged, ProtocolError, ReplayDiverged
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.bits import pack_rows
from colonnade.kernels.ring import Ring
from colonnade.kernels.sparse_fw import Picks
from colonnade.kernels.stream import Stream, keyed_stream
from colonnade.privacy import mechanisms
from colonnade.privacy.events import EXACT, HIDDEN, MASKED, SCORES, Audience, Event, Mechanism, Scope
from colonnade.privacy.keyring import ColumnPad, Keyring, Pad, derive
from colonnade.privacy.lattice import Blinding, Hiding
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.mechanisms import Noise
from colonnade.privacy.values import (
    Packed,
    Private,
    Released,
    decode_value,
    encode_value,
    make_released,
    release,
    released_body,
)

# Drawn from nothing: a replay makes the same again.
REPEATABLE = (Mechanism.EXACT, Mechanism.MASKED, Mechanism.HIDDEN, Mechanism.SCORES)
NONCE = 12  # bytes
T = TypeVar("T")
Weights = float | Floats  # of the noise of a part, or of each of its entries
Drawer = Callable[[float, Stream], Picks]  # c and a stream in, picks out


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a party's gate let out in one run."""

    events: tuple[Event, ...]

    @property
    def rho(self) -> float:
        return math.fsum(event.rho for event in self.events)

    @property
    def delta(self) -> float:
        """What the releases took of a delta beside that rho."""
        return math.fsum(event.delta for event in self.events)


class Levels(NamedTuple):
    """The levels of a column, how many rows have each, and what a noisy count must reach for its level to leave."""

    names: tuple[str, ...]
    counts: Integers
    least: int


class _Pending(NamedTuple):
    slot: int
    event: Event
    what: str
    body: bytes  # what is kept: the released bytes (noisy) or nothing (exact), behind a digest of the exact input


class Gate:
    """The gate of one node in one run."""

    def __init__(self, ledger: Ledger, run: str, noise: Noise, keyring: Keyring | None = None) -> None:
        self._ledger = ledger
        self._run = run
        self._noise = noise
        self._keyring = keyring
        self._unfinished: tuple[float, float, Scope, Audience] | None = None  # of a mechanism that left in part
        self._pads: dict[bytes, int] = {}  # rows that each one-time mask has covered
        self._tick = self._slot = self._round = 0
        self._recorded: dict[int, tuple[Event, bytes]] | None = None
        self._pending: list[_Pending] = []
        self._events: list[Event] = []
        # A digest of an exact value must not let a reader of the file test guesses about it: it is keyed.
        self._key = ledger.log.secret(run, "gate: digest key", 32)

    # ---------------------------------------------------------------- for programs

    @overload
    def exact(self, value: T, /) -> Released[T]: ...
    @overload
    def exact(self, value: Any, /, *more: Any) -> tuple[Released[Any], ...]: ...
    def exact(self, *values: Any) -> Any:
        """The values as they are, at an infinite price: only for parties whose policy allows it."""
        return self._release_as_is(EXACT, values)

    def gaussian(
        self, *exact: Private[Floats], rho: float, scope: Scope = Scope.OWN, audience: Audience = Audience.ALL
    ) -> Any:
        """The arrays with discrete Gaussian noise on a common grid: one mechanism for all of them together."""
        # Values are rounded to multiples of a power of two small against the noise, and the rounding is counted in the
        # sensitivity; noise is added in whole grid steps, so the low bits carry nothing. Members of a consortium see
        # noise too. Counts are `histogram`'s.
        audience = self._members if audience == Audience.CONSORTIUM else Audience.ALL
        for private in exact:
            _check_finite(private.value)
        sizes = [private.value.size for private in exact]
        grid, sensitivity = _grid(math.hypot(*(private.sensitivity for private in exact)), sum(sizes))
        event = Event(Mechanism.GAUSSIAN, self._price(rho), sensitivity, scope, audience)

        def draw() -> tuple[Floats, ...]:
            flat = np.concatenate([private.value.ravel() for private in exact])
            noise = self._fresh().discrete_gaussian(flat.size, mechanisms.gaussian_sigma(sensitivity / grid, rho))
            parts = np.split((mechanisms.quantise_vector(flat, grid) + noise) * grid, np.cumsum(sizes)[:-1])
            return tuple(part.reshape(private.value.shape) for part, private in zip(parts, exact, strict=True))

        released = self._release(event, lambda: encode_value(tuple(private.value for private in exact)), draw)
        return released[0] if len(exact) == 1 else released

    def histogram(
        self, cells: Private[Integers], levels: Sequence[Levels], rows: int, *, rho: float, delta: float = 0.0
    ) -> tuple[Released[Integers], Released[tuple[tuple[str, ...], ...]], Released[tuple[Integers, ...]]]:
        """Counts with discrete Gaussian noise: of public cells all, of levels those that enough rows have.

        `levels` are names and counts by column; the sensitivity is that of all counts together, and a level leaves
        where its noisy count is at least its `least`, which a level that one unit alone has reaches with a chance that
        adds up to delta over all columns: docs/understand/privacy/look.md. So much noise is drawn
        for a column as it may have levels, so that time tells little of how many it has.
        """
        event = Event(Mechanism.HISTOGRAM, self._price(rho), cells.sensitivity, delta=delta)

        def draw() -> tuple[Any, ...]:
            source = self._fresh()
            sigma = mechanisms.gaussian_sigma(cells.sensitivity, rho)
            noisy = cells.value + source.discrete_gaussian(cells.value.size, sigma)
            left_names = []
            left_counts = []
            for names, counts, least in levels:
                found = counts + source.discrete_gaussian(rows, sigma)[: counts.size]
                over = np.flatnonzero(found >= least)
                left_names.append(tuple(names[k] for k in over.tolist()))
                left_counts.append(found[over])
            return noisy, tuple(left_names), tuple(left_counts)

        given = partial(encode_value, (cells.value, tuple((names, counts) for names, counts, _ in levels)))
        noisy, left_names, left_counts = self._release(event, given, draw)
        return noisy, left_names, left_counts

    def noisy_max(self, scores: Private[Floats], *, rho: float) -> tuple[Released[int], Released[int]]:
        """Index and sign of the largest |score|, by the exponential mechanism over the signed candidates."""
        # The noisy value itself never leaves: its price would be infinite.
        _check_finite(scores.value)
        event = Event(Mechanism.GUMBEL, self._price(rho), scores.sensitivity)
        scale = mechanisms.gumbel_scale(scores.sensitivity, rho)
        given = partial(encode_value, scores.value)
        index, sign = self._release(event, given, lambda: mechanisms.signed_argmax(self._fresh(), scores.value, scale))
        return index, sign

    def picks(
        self, draw: Private[Drawer], count: int, given: Callable[[], bytes], *, rho: float
    ) -> tuple[Released[NDArray[np.int64]], Released[NDArray[np.int64]]]:
        """Columns and signs of `count` picks of sparse Frank-Wolfe, each at the model of the picks before: one event.

        `draw.value` makes them from c = 1/b, b the scale of one choice at rho/count, and a ChaCha20 stream; its
        sensitivity is that of one score at any model. `given` encodes what the picks are drawn from.
        """
        event = Event(Mechanism.PICKS, self._price(rho), draw.sensitivity)
        scale = math.nextafter(1.0 / mechanisms.gumbel_scale(draw.sensitivity, rho / count), 0.0)

        def drawn() -> tuple[NDArray[np.int64], ...]:
            columns, signs = draw.value(scale, keyed_stream(self._fresh().uniform_bytes(32)))
            return columns.astype(np.int64), signs.astype(np.int64)

        columns, signs = self._release(event, given, drawn)
        return columns, signs

    def integers(
        self,
        exact: Private[tuple[NDArray[Any], ...]],
        weights: tuple[Weights, ...],
        masks: tuple[NDArray[np.uint64] | int, ...],
        *,
        rho: float,
        scope: Scope,
        audience: Audience = Audience.ALL,
        more: bool = False,
    ) -> tuple[Released[Packed], ...]:
        """Arrays of integers, or shares of them, with discrete Gaussian noise modulo 2^bits: one mechanism for all.

        Noise of an entry of part i has sd weights[i]·Δ/√(2ρ), where Δ is the L2 sensitivity of all entries, each
        divided by its weight. masks[i] is 2^bits - 1, one number or one for each entry. Inside a consortium no noise
        is added, and the price is paid now: whoever publishes adds the noise, once.

        `more`: these are some of the mechanism's entries. The whole price is paid now, and `the_rest` releases the
        others, once.
        """
        audience = self._members if audience == Audience.CONSORTIUM else Audience.ALL
        event = Event(Mechanism.LATTICE, self._price(rho), exact.sensitivity, scope, audience)
        self._unfinished = (exact.sensitivity, rho, scope, audience) if more else None
        return self._lattice(event, exact, weights, masks, rho)

    def the_rest(
        self,
        exact: Private[tuple[NDArray[Any], ...]],
        weights: tuple[Weights, ...],
        masks: tuple[NDArray[np.uint64] | int, ...],
    ) -> tuple[Released[Packed], ...]:
        """The other entries of the mechanism that `integers(..., more=True)` began: the same noise, no further price.

        Rings may depend on what has left; values, sensitivity and noise may not.
        """
        if self._unfinished is None or self._unfinished[0] != exact.sensitivity:
            raise LeakError("the rest of a release was to leave, and no release of that sensitivity is half done.")
        sensitivity, rho, scope, audience = self._unfinished
        self._unfinished = None
        event = Event(Mechanism.CONTINUED, 0.0, sensitivity, scope, audience)
        return self._lattice(event, exact, weights, masks, rho)

    def _lattice(
        self,
        event: Event,
        exact: Private[tuple[NDArray[Any], ...]],
        weights: tuple[Weights, ...],
        masks: tuple[NDArray[np.uint64] | int, ...],
        rho: float,
    ) -> tuple[Released[Packed], ...]:
        def draw() -> tuple[Packed, ...]:
            source = self._fresh()
            sigma = Fraction(mechanisms.gaussian_sigma(exact.sensitivity, rho))
            parts = []
            for part, weight, mask in zip(exact.value, weights, masks, strict=True):
                whole = np.array(part).astype(np.uint64)
                if event.audience is Audience.ALL:
                    whole += mechanisms.weighted_gaussian(source, part.shape, sigma, weight).astype(np.uint64)
                limit = np.asarray(mask, np.uint64)
                parts.append(Packed(whole & limit, max(1, int(limit.max(initial=1)).bit_length())))
            return tuple(parts)

        rings = tuple(np.asarray(mask, np.uint64) for mask in masks)
        return self._release(event, lambda: encode_value((*exact.value, *rings)), draw)

    def masked(self, rows: NDArray[Any], pad: ColumnPad) -> Released[bytes]:
        """The next rows of a matrix plus the same rows of a one-time mask: uniform to whoever lacks the mask.

        A mask covers a row once: the gate counts the rows it has covered, so none can be used again.
        """
        first = self._pads.get(pad.key, 0)
        self._pads[pad.key] = first + len(rows)
        released = release(pack_rows(rows, pad.rows(first, len(rows)), pad.bits).tobytes())
        # A replay must send the same bytes, which the record of what was sent says: they are not hashed here, too.
        self._release(MASKED, lambda: b"%d rows from %d on" % (len(rows), first), draw=None)
        return released

    def seed(self, digest: bytes, *, shown: bool = True) -> tuple[Released[bytes], Released[bytes]]:
        """The digest of a stage and the seed of this party's mask in it, a random number, for its partners only."""
        return release(digest), release(self.secret(f"mask {digest.hex()}") if shown else b"")

    def lattice_seed(self, digest: bytes) -> bytes:
        """What this party's secrets of a stage are drawn from: a secret of the run; of a seeded run, by the seed."""
        name = f"lattice {digest.hex()}"
        return self.secret(name) if self._noise.private else self._noise.at(name).uniform_bytes(32)

    def hidden(self, hiding: Hiding, rows: NDArray[Any] | None = None) -> Released[bytes]:
        """The next rows of a matrix under learning with errors, first the ones that carry nothing (`rows` None).

        Uniform to whoever lacks the secret, if it covers a row once: the gate counts the rows it has covered.
        """
        first = self._pads.get(hiding.key, -1)
        if (first < 0) != (rows is None):
            raise LeakError("rows are hidden once, and behind those that carry nothing. Nothing was sent.")
        self._pads[hiding.key] = first + 1 if rows is None else first + len(rows)
        released = release(hiding.first_rows() if rows is None else hiding.rows(first, rows))
        count = 0 if rows is None else len(rows)
        self._release(HIDDEN, lambda: b"%d hidden rows from %d on" % (count, first), draw=None)
        return released

    def blinded(self, blinding: Blinding, product: NDArray[Any]) -> Released[Packed]:
        """Aᵀ times this party's rows, under rows and errors that only it knows: uniform to everybody else, once."""
        if blinding.key in self._pads:
            raise LeakError("an answer was to leave a second time under the same blinding. Nothing was sent.")
        self._pads[blinding.key] = 1
        released = release(Packed(blinding.blind(product), blinding.lattice.bits))
        self._release(HIDDEN, lambda: released_body(released), draw=None)
        return released

    def nothing(self) -> Released[bytes]:
        """No bytes: what a message carries that only says that its sender is ready."""
        return release(b"")

    def scores(
        self, part: NDArray[Any], first: int, plus: Iterable[Pad], minus: Iterable[Pad], ring: Ring
    ) -> Released[Packed]:
        """This party's part of the scores of its rows under masks that cancel in the sum: for the label holder."""
        for pad in plus:
            part = ring.add(part, pad.rows(first, len(part)))
        for pad in minus:
            part = ring.subtract(part, pad.rows(first, len(part)))
        released: Released[Packed] = self._release_as_is(SCORES, (Packed(part.astype(np.uint64), ring.bits),))
        return released

    def hello(self) -> tuple[Released[bytes], Released[bytes]]:
        """This party's public key of the run and its signature: random numbers, and nothing about data."""
        key, signature = self.keyring.hello
        return release(key), release(signature)

    def sealed(
        self, parts: tuple[Released[Any], ...], places: Mapping[str, int], name: str
    ) -> tuple[Released[bytes], ...]:
        """What was released, over nodes who may not read it: its content, and for each receiver the key to it.

        `places` and `name` are those of `Keyring.seal`: they tell this from everything else that is sealed.
        """
        made = [*self.keyring.seal(places, encode_value(parts), f"passed on/{name}").values()]
        return release(made[0][1]), *(release(key) for key, _ in made)

    def opened(self, sender: str, place: int, key: bytes, content: bytes) -> tuple[Released[Any], ...]:
        """What another node sealed for this one."""
        parts: tuple[Released[Any], ...] = decode_value(self.keyring.open(sender, place, key, content))
        return parts

    @property
    def keyring(self) -> Keyring:
        """The party's keys in this run."""
        if self._keyring is None:
            raise ProtocolError("this run has no keys: its method does not say that parties talk (`relays`)")
        return self._keyring

    # ---------------------------------------------------------------- for a consortium, whose members trust each other

    @overload
    def inside(self, value: T, /) -> Released[T]: ...
    @overload
    def inside(self, value: Any, /, *more: Any) -> tuple[Released[Any], ...]: ...
    def inside(self, *values: Any) -> Any:
        """The values as they are, for members of the consortium only: recorded, and free against everybody else."""
        rho = 0.0 if self._noise.private else math.inf
        return self._release_as_is(Event(Mechanism.EXACT, rho, math.inf, Scope.OWN, self._members), values)

    def entrust(self, scores: Private[Floats], *, rho: float) -> tuple[Released[int], Released[int], Released[int]]:
        """This party's part of one choice over all parties' signed scores: index, sign, and its mass, for members only.

        The whole choice is one mechanism: every party pays for it now, and for the row it counts once.
        """
        _check_finite(scores.value)
        event = Event(Mechanism.GUMBEL, self._price(rho), scores.sensitivity, Scope.JOINT, self._members)
        scale = mechanisms.shared_scale(scores.sensitivity, rho)
        given = partial(encode_value, scores.value)
        part = self._release(event, given, lambda: mechanisms.own_part(self._fresh(), scores.value, scale))
        return part[0], part[1], part[2]

    def publish(self, masses: Private[tuple[int, ...]], *, rho: float) -> Released[int]:
        """Whose pick is taken, drawn from the parties' masses: all of the choice that leaves the consortium."""
        event = Event(Mechanism.GUMBEL, self._price(rho), masses.sensitivity, Scope.JOINT)
        scale = mechanisms.shared_scale(masses.sensitivity, rho)
        given = partial(encode_value, masses.value)
        return self._release(event, given, lambda: (mechanisms.draw_party(self._fresh(), masses.value, scale),))[0]

    @cached_property
    def _members(self) -> Audience:
        """The audience of what stays inside; LeakError where the parties approved no consortium."""
        opened = self._ledger.log.rows(self._run, "open")
        trust = json.loads(opened[0].body)["terms"]["trust"] if opened else "unknown"
        if trust != Audience.CONSORTIUM:
            raise LeakError(
                f"the trust model of this run is {trust!r}: there are no members whom exact values could be shown for "
                "free. Nothing was sent. Ask for Privacy(..., trust='consortium'), or release with noise."
            )
        return Audience.CONSORTIUM

    @property
    def run(self) -> str:
        """The id of the run: public, the same at every node, never used twice."""
        return self._run

    @property
    def node(self) -> str:
        """The name of the node that this gate belongs to."""
        return self._ledger.node

    def secret(self, name: str, size: int = 32) -> bytes:
        """Random bytes that never leave but survive a crash: mask seeds, content keys. Erased when the run closes."""
        return self._ledger.log.secret(self._run, f"program: {name}", size)

    def receipt(self) -> Receipt:
        """What left through this gate in this run, so far."""
        return Receipt(tuple(self._events))

    # ---------------------------------------------------------------- for the node that drives the program

    def begin(self, tick: int, number: int, recorded: dict[int, tuple[Event, bytes]] | None) -> None:
        """Start a step of round `number`; `recorded` holds its releases when the step is a replayed one."""
        self._tick = tick
        self._round = number
        self._slot = 0
        self._recorded = recorded
        self._pending = []

    def flush(self) -> None:
        """Record the step's releases; the caller's transaction also records what is sent."""
        for slot, event, what, body in self._pending:
            self._ledger.record(self._run, self._tick, slot, event, what, self._round)
            if self._ledger.log.durable:
                self._ledger.log.append(self._run, self._tick, "release", str(slot), body)
        self._pending = []

    def _release_as_is(self, event: Event, values: tuple[Any, ...]) -> Any:
        released = tuple(release(value) for value in values)
        self._release(event, lambda: b"".join(released_body(value) for value in released), draw=None)
        return released[0] if len(values) == 1 else released

    def _release(
        self, event: Event, given: Callable[[], bytes], draw: Callable[[], tuple[Any, ...]] | None
    ) -> tuple[Released[Any], ...]:
        slot = self._slot
        self._slot = self._slot + 1
        self._events.append(event)
        digest = self._digest(given()) if self._ledger.log.durable else b""
        if self._recorded is not None:
            return self._replay_release(slot, event, digest)
        what = self._ledger.take(self._run, event)
        body = b"" if draw is None else encode_value(draw())
        # Many large releases would fill the memory.
        kept = digest + self._hidden(slot, event, body, hide=True) if self._ledger.log.durable else b""
        self._pending.append(_Pending(slot, event, what, kept))
        return _mark_released(body) if body else ()

    def _price(self, rho: float) -> float:
        if not (math.isfinite(rho) and rho > 0):
            raise InvalidInput(f"a noisy release needs a finite rho > 0, got {rho}; exact values go through gate.exact")
        # Noise that can be repeated protects nobody.
        return rho if self._noise.private else math.inf

    def _fresh(self) -> Noise:
        """The noise of this release; a seeded one depends on the place only, so that a resumed run repeats it."""
        return self._noise.at(f"{self._tick}/{self._slot}")

    def _digest(self, exact: bytes) -> bytes:
        if len(exact) < 1 << 30:
            return hmac.digest(self._key, exact, "sha256")[:16]
        return hmac.new(self._key, exact, "sha256").digest()[:16]  # the other takes less than 2 GiB

    def _replay_release(self, slot: int, event: Event, digest: bytes) -> tuple[Released[Any], ...]:
        assert self._recorded is not None
        if slot not in self._recorded:
            raise ReplayDiverged(f"step {self._tick} asks for a release that it did not make when it was recorded.")
        was, body = self._recorded[slot]
        if was != event:
            raise ReplayDiverged(f"step {self._tick}: the ledger holds another event for release {slot}.")
        if body[:16] != digest:
            raise ReplayDiverged(
                f"step {self._tick}: release {slot} is computed from other values than before: other data, code or "
                "settings. Restore them and repeat the call; what the run has reserved stays spent until it is closed."
            )
        if event.mechanism not in REPEATABLE and len(body) == 16:
            raise LedgerDamaged(
                f"step {self._tick}: release {slot} left, and its bytes are gone. The run cannot go on."
            )
        return _mark_released(self._hidden(slot, event, body[16:], hide=False)) if body[16:] else ()

    def _hidden(self, slot: int, event: Event, body: bytes, *, hide: bool) -> bytes:
        """What is recorded of a release, or, with `hide` False, read back.

        A correction of masked products leaves sealed, and its partner knows what covers it: on the disk, too, it stands
        under a key that is erased when the run closes.
        """
        if event.mechanism not in (Mechanism.LATTICE, Mechanism.CONTINUED) or not body:
            return body
        cipher = AESGCM(derive(self._key, "release", str(self._tick), str(slot)))
        if not hide:
            return cipher.decrypt(body[:NONCE], body[NONCE:], None)
        # A step that died before it was recorded may have left a large file, and the next one draws other noise: under
        # the same key and nonce both would tell how they differ.
        nonce = os.urandom(NONCE)
        return nonce + cipher.encrypt(nonce, body, None)


def _mark_released(body: bytes) -> tuple[Released[Any], ...]:
    return tuple(make_released(value, encode_value(value)) for value in decode_value(body))


def _grid(delta: float, size: int) -> tuple[float, float]:
    """A grid that is fine against the sensitivity, and the sensitivity of what is rounded to it."""
    grid = mechanisms.grid_below(delta / (1024.0 * math.sqrt(max(size, 1))))
    return grid, mechanisms.rounded_sensitivity(delta, grid, size)


def _check_finite(values: Floats) -> None:
    """Entries are numbers within public bounds before they are added up (`Block.clipped`), so every sum is finite."""
    # A method that breaks this is stopped before anything is paid or sent: no other number would be within the
    # sensitivity that it states (docs/understand/privacy/mechanisms.md, "every sum is finite").
    if not np.isfinite(values).all():
        raise LeakError(
            "a release was to be made of a number that is not finite, about which no sensitivity holds. Nothing was "
            "sent. The method must clean entries before it adds them up (Block.clipped) and bound what messages bring."
        )
