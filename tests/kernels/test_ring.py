"""Ring arithmetic against Python's big integers, masks against a second writing of their layout."""

from __future__ import annotations

import hashlib
import hmac
import tracemalloc

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import InvalidInput
from colonnade.kernels import ring as kernel
from colonnade.kernels import ring_products
from colonnade.kernels.bits import PackedRows, pack, pack_rows, packed_size, rows_size, unpack, unpack_rows
from colonnade.kernels.ring import ROWS, Ring, product, uniform
from colonnade.kernels.ring_products import FLOAT_BITS, FLOAT_ROWS, THIN, cross, gram, ring_masks

WIDTHS = [8, 31, 32, 33, 40, 48, 63, 64]
KEY = bytes(range(32))


def big(array):
    """The same integers, of unlimited size."""
    return np.asarray(array).astype(object)


def exact_product(a, b, bits):
    return big(a).T @ big(b) % 2**bits


def same(expected, actual):
    assert (np.asarray(expected, dtype=object) == big(actual)).all()


def elements(rng, shape, bits, extreme=0.3):
    """Uniform ring elements, a part of them 0, 1, the largest, and the two on either side of the sign."""
    values = rng.integers(0, 2**bits - 1, shape, dtype=np.uint64, endpoint=True)
    corners = np.array([0, 1, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1], dtype=np.uint64)
    return np.where(rng.random(shape) < extreme, rng.choice(corners, shape), values).astype(Ring(bits).dtype)


def signed_entries(rng, shape, bound):
    """Integers up to the bound, a part of them at it."""
    values = rng.integers(-bound, bound, shape, endpoint=True)
    return np.where(rng.random(shape) < 0.3, rng.choice(np.array([-bound, bound]), shape), values)


# ---------------------------------------------------------------------------------------------------- the ring


@pytest.mark.parametrize("bits", WIDTHS)
def test_addition_and_subtraction_are_those_of_integers_modulo_a_power_of_two(bits):
    rng, ring = np.random.default_rng(bits), Ring(bits)
    a, b = elements(rng, (40, 30), bits), elements(rng, (40, 30), bits)
    same((big(a) + big(b)) % 2**bits, ring.add(a, b))
    same((big(a) - big(b)) % 2**bits, ring.subtract(a, b))
    assert {ring.dtype} == {ring.add(a, b).dtype, ring.subtract(a, b).dtype}


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_lift_of_a_reduced_integer_is_that_integer_wherever_it_fits(bits):
    half = 2 ** (bits - 1)
    values = np.array([-half, -half + 1, -1, 0, 1, half - 1], dtype=np.int64)
    same(values, Ring(bits).signed(Ring(bits).reduce(values)))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint16, np.uint64])
def test_integers_of_every_type_reduce_to_their_remainder(bits, dtype):
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], dtype=dtype)
    same(big(values) % 2**bits, Ring(bits).reduce(values))
    same((big(values) - 5) % 2**bits, Ring(bits).subtract(values, np.full(6, 5, np.uint32)))


def test_a_masked_value_comes_back_when_the_mask_is_added_again():
    ring = Ring(32)
    features = signed_entries(np.random.default_rng(0), (50, 7), 4096).astype(np.int16)
    mask = uniform(KEY, b"mine", 0, 50, 7, ring)
    same(features, ring.signed(ring.add(ring.subtract(features, mask), mask)))


@pytest.mark.parametrize("bits", [-1, 0, 7, 65])
def test_a_ring_outside_8_to_64_bits_is_refused(bits):
    with pytest.raises(InvalidInput, match="use 8 to 64"):
        Ring(bits)


def test_real_numbers_are_refused_and_not_rounded_in_silence():
    with pytest.raises(InvalidInput, match="round to whole grid steps"):
        Ring(32).reduce(np.array([0.5]))
    with pytest.raises(InvalidInput, match="round to whole grid steps"):
        product(np.ones((3, 2)), np.ones((3, 2), np.int64), Ring(32))
    with pytest.raises(InvalidInput, match="round to whole grid steps"):
        gram(np.ones((3, 2)), bound=1)


# ---------------------------------------------------------------------------------------------------- masks


def slow_mask(key, label, rows, columns, bits):
    """The layout of the module's card from AES on single blocks: no counter mode, no NumPy."""
    size = 4 if bits <= 32 else 8
    message = b"colonnade ring mask" + bytes([bits]) + columns.to_bytes(8, "little") + label
    block = Cipher(algorithms.AES(hmac.new(key, message, hashlib.sha256).digest()), modes.ECB()).encryptor()
    stream = b"".join(block.update(i.to_bytes(16, "big")) for i in range(rows * columns * size // 16 + 1))
    words = [int.from_bytes(stream[size * k : size * (k + 1)], "little") for k in range(rows * columns)]
    return np.array([word % 2**bits for word in words], dtype=object).reshape(rows, columns)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (9, 17)])
def test_a_mask_is_the_documented_bytes_of_aes_256_in_counter_mode(bits, shape):
    same(slow_mask(KEY, b"label", *shape, bits), uniform(KEY, b"label", 0, *shape, Ring(bits)))


def test_the_layout_of_a_mask_does_not_change_between_releases():
    """A party and a dealer of two releases must grow the same mask; the figures are `slow_mask`'s, written down."""
    assert uniform(KEY, b"label", 0, 1, 3, Ring(32)).tolist() == [[0x779B9B04, 0x28BFD4DD, 0x2D13E2F4]]


@settings(max_examples=40, deadline=None)
@given(
    bits=st.sampled_from(WIDTHS),
    columns=st.integers(1, 9),
    first=st.integers(0, 60),
    rows=st.integers(0, 60),
    label=st.binary(max_size=20),
)
def test_a_block_of_rows_equals_the_slice_of_the_whole_mask(bits, columns, first, rows, label):
    whole = uniform(KEY, label, 0, 120, columns, Ring(bits))
    same(whole[first : first + rows], uniform(KEY, label, first, rows, columns, Ring(bits)))


def test_a_block_behind_four_billion_blocks_of_the_cipher_is_the_right_one():
    """The counter has 128 bits: it does not wrap where a 32-bit one would."""
    first, columns = 2**34, 5
    key = hmac.new(KEY, b"colonnade ring mask\x40" + columns.to_bytes(8, "little"), hashlib.sha256).digest()
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    expected = block.update((first * columns * 8 // 16).to_bytes(16, "big"))
    assert expected == uniform(KEY, b"", first, 1, columns, Ring(64)).astype("<u8").tobytes()[:16]


def test_masks_of_neighbouring_labels_widths_and_shapes_share_no_word():
    """As counters, labels 0 and 1 would give one stream shifted by a block. Chance of a false alarm: below 1e-11."""
    label = (0).to_bytes(16, "big")
    masks = [
        uniform(KEY, label, 0, 300, 4, Ring(64)),
        uniform(KEY, (1).to_bytes(16, "big"), 0, 300, 4, Ring(64)),
        uniform(KEY, label, 0, 240, 5, Ring(64)),
        uniform(bytes(32), label, 0, 300, 4, Ring(64)),
    ]
    words = np.concatenate([mask.ravel() for mask in masks])
    assert words.size == np.unique(words).size
    narrower = uniform(KEY, label, 0, 300, 4, Ring(63))
    assert np.mean(narrower == masks[0] & np.uint64(Ring(63).mask)) < 0.01


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_top_and_bottom_bits_of_a_mask_are_uniform(bits):
    """Chi-square on the five highest and the five lowest bits of 32,000 elements; the key is fixed, so is the result."""
    mask = uniform(KEY, b"uniform", 0, 4_000, 8, Ring(bits)).ravel()
    for part in (mask >> np.array(bits - 5, mask.dtype), mask & np.array(31, mask.dtype)):
        counts = np.bincount(part.astype(np.int64), minlength=32)
        assert counts.size == 32
        assert stats.chisquare(counts).pvalue > 1e-6


def test_a_mask_refuses_a_short_key_and_negative_rows():
    with pytest.raises(InvalidInput, match=r"os\.urandom"):
        uniform(bytes(16), b"", 0, 1, 1, Ring(32))
    with pytest.raises(InvalidInput, match="count from 0"):
        uniform(KEY, b"", -1, 1, 1, Ring(32))


# ---------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS + 5])
def test_a_product_of_ring_elements_is_exact_at_the_borders_of_row_blocks(bits, rows):
    rng = np.random.default_rng(1000 * bits + rows)
    a, b = elements(rng, (rows, 3), bits), elements(rng, (rows, 4), bits)
    same(exact_product(a, b, bits), product(a, b, Ring(bits)))


@settings(max_examples=40, deadline=None)
@given(
    bits=st.sampled_from(WIDTHS),
    rows=st.integers(0, 40),
    s=st.integers(0, 35),
    t=st.integers(0, 35),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_a_product_is_that_of_big_integers_for_every_shape_bound_and_form(bits, rows, s, t, seed, data):
    rng, ring = np.random.default_rng(seed), Ring(bits)
    largest = 2 ** (bits - 1)
    bounds = st.one_of(st.none(), st.sampled_from([1, 2**7, min(2**31 - 1, largest), largest]), st.integers(1, largest))
    bound_a, bound_b = data.draw(bounds), data.draw(bounds)

    def matrix(columns, bound):
        if bound is None:
            return elements(rng, (rows, columns), bits)
        entries = signed_entries(rng, (rows, columns), min(bound, 2**63 - 1))
        return ring.reduce(entries) if rng.random() < 0.5 else entries

    a, b = matrix(s, bound_a), matrix(t, bound_b)
    if data.draw(st.booleans()):
        a = np.asfortranarray(a)
    same(exact_product(a, b, bits), product(a, b, ring, bound_a=bound_a, bound_b=bound_b))


@pytest.mark.parametrize("bits", [32, 40, 64])
def test_a_product_wider_than_a_tile_is_exact(bits):
    rng = np.random.default_rng(bits)
    s, t = kernel.TILE + 17, kernel.TILE + 1
    a, b = elements(rng, (20, s), bits), elements(rng, (20, t), bits)
    same(exact_product(a, b, bits), product(a, b, Ring(bits)))


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_largest_entries_in_every_row_do_not_lose_a_bit(bits):
    rows, ring = 3 * ROWS + 1, Ring(bits)
    top = np.full((rows, 2), ring.mask, ring.dtype)
    same(np.full((2, 2), rows * ring.mask**2 % 2**bits, object), product(top, top, ring))
    bound = min(2**31 - 1, 2 ** (bits - 1) - 1)
    ends = np.tile(np.array([bound, -bound]), (rows, 1))
    expected = exact_product(ends, ends, bits)
    same(expected, product(ends, ends, ring, bound_a=bound, bound_b=bound))


def test_products_of_row_blocks_add_up_to_the_product():
    rng, ring = np.random.default_rng(3), Ring(40)
    a, b = signed_entries(rng, (1_000, 5), 4096), elements(rng, (1_000, 6), 40)
    total = np.zeros((5, 6), ring.dtype)
    for rows in (slice(0, 300), slice(300, 600), slice(600, 900), slice(900, 1_000)):
        total = ring.add(total, product(a[rows], b[rows], ring, bound_a=4096))
    same(exact_product(a, b, 40), total)


def test_the_shares_of_two_parties_add_up_to_their_cross_product():
    """The protocol's sum: A'E_l + c and E_k'U_l + (U_k'U_l - c), with masks that grow from seeds."""
    rng, ring, rows = np.random.default_rng(4), Ring(48), 700
    left, right = signed_entries(rng, (rows, 4), 2000), signed_entries(rng, (rows, 3), 2000)
    mask_left, mask_right = uniform(KEY, b"left", 0, rows, 4, ring), uniform(KEY, b"right", 0, rows, 3, ring)
    share = uniform(KEY, b"share", 0, 4, 3, ring)
    rest = ring.subtract(product(mask_left, mask_right, ring), share)
    masked_left, masked_right = ring.subtract(left, mask_left), ring.subtract(right, mask_right)
    first = ring.add(product(left, masked_right, ring, bound_a=2000), share)
    second = ring.add(product(masked_left, mask_right, ring), rest)
    same(big(left).T @ big(right), ring.signed(ring.add(first, second)))


@pytest.mark.parametrize("bits", [32, 48])
@pytest.mark.parametrize("bound", [None, 1000])
def test_a_product_takes_memory_for_a_block_of_rows_not_for_all_of_them(bits, bound):
    """Ten arrays of a block's size at 8 bytes an entry, of a product with a hundred blocks."""
    rng, rows, columns = np.random.default_rng(0), 100 * ROWS, 20
    a, b = signed_entries(rng, (rows, columns), 1000), elements(rng, (rows, columns), bits)
    product(a[:9], b[:9], Ring(bits), bound_a=bound)  # compiles
    tracemalloc.start()
    try:
        product(a, b, Ring(bits), bound_a=bound)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * ROWS * columns * 8


@pytest.mark.parametrize("bits", [32, 48])
@pytest.mark.parametrize("side", ["bound_a", "bound_b"])
def test_an_entry_beyond_its_bound_is_refused_without_being_named(bits, side):
    entries = np.zeros((ROWS + 3, 2), np.int64)
    entries[-1, 1] = -77_777
    with pytest.raises(InvalidInput, match="larger than the public bound 77776; clip") as refusal:
        product(entries, entries, Ring(bits), **{side: 77_776})
    assert "77777" not in str(refusal.value)
    assert product(entries, entries, Ring(bits), **{side: 77_777})[1, 1] == 77_777**2 % 2**bits


def test_a_bound_judges_a_ring_element_by_its_lift_whatever_the_type_that_holds_it():
    entries, ring = np.array([[-3, 5], [2, -5]]), Ring(40)
    for held in (entries, ring.reduce(entries), ring.reduce(entries).astype(np.int64)):
        same(exact_product(entries, entries, 40), product(held, entries, ring, bound_a=5))
        with pytest.raises(InvalidInput, match="larger than the public bound 4"):
            product(held, entries, ring, bound_a=4)


@pytest.mark.parametrize("bound", [-1, 0, 2**31 + 1, 2**64])
def test_a_bound_that_no_entry_of_the_ring_can_have_is_refused(bound):
    ones = np.ones((2, 2), np.int64)
    with pytest.raises(InvalidInput, match="at least 1 and at most 2\\^31"):
        product(ones, ones, Ring(32), bound_b=bound)


def test_matrices_with_different_rows_are_refused():
    with pytest.raises(InvalidInput, match="the same rows"):
        product(np.ones((3, 2), int), np.ones((4, 2), int), Ring(32))
    with pytest.raises(InvalidInput, match="the same rows"):
        product(np.ones(3, int), np.ones((3, 2), int), Ring(32))


# ---------------------------------------------------------------------------------------------------- Gram matrices


@pytest.mark.parametrize("bound", [1, 4096, 2**20, 2**24, 2**25, 2**25 + 1, 2**26])
def test_a_gram_matrix_is_exact_with_entries_at_their_bound(bound):
    rows = 500
    a = signed_entries(np.random.default_rng(bound), (rows, 7), bound)
    a[:, 0], a[:, 1] = bound, -bound
    found = gram(a, bound=bound)
    assert np.int64 == found.dtype
    same(big(a).T @ big(a), found)


def test_a_gram_matrix_stays_exact_over_many_float_blocks():
    a = signed_entries(np.random.default_rng(5), (3 * FLOAT_ROWS + 1, 3), 1000).astype(np.int16)
    same(big(a).T @ big(a), gram(a, bound=1000))


@pytest.mark.parametrize("bound", [44, 181, 362, 363])
def test_a_gram_matrix_in_single_precision_is_exact_at_its_ends(bound):
    """Up to a bound of 362 blocks of 128 rows or more sum to at most 2^24; odd entries, whose sums end in no zeros."""
    a = np.full((3 * FLOAT_ROWS + 7, 3), bound - (bound % 2 == 0))
    a[:, 1] *= np.random.default_rng(bound).choice([-1, 1], len(a))
    a[::7, 2] = -bound
    same(big(a).T @ big(a), gram(a.astype(np.int32), bound=bound))


def test_a_gram_matrix_that_could_overflow_is_refused():
    a = np.zeros((4, 2), np.int64)
    assert (gram(a, bound=2**30 - 1) == 0).all()
    with pytest.raises(InvalidInput, match="coarser grid"):
        gram(a, bound=2**30)
    with pytest.raises(InvalidInput, match="larger than the public bound 3"):
        gram(a + 4, bound=3)
    with pytest.raises(InvalidInput, match="a bound from 1 on"):
        gram(a, bound=0)


# ---------------------------------------------------------------------------------------------------- bytes


@settings(max_examples=100, deadline=None)
@given(bits=st.integers(1, 64), data=st.data())
def test_packed_integers_are_the_digits_of_one_big_integer(bits, data):
    values = data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=40))
    packed = pack(np.array(values, np.uint64), bits)
    whole = sum(value << (bits * i) for i, value in enumerate(values))
    assert whole.to_bytes(packed_size(len(values), bits), "little") == packed.tobytes()
    assert values == unpack(packed, len(values), bits).tolist()


@pytest.mark.parametrize("bits", [5, 32, 40])
def test_packing_keeps_the_low_bits_only(bits):
    values = np.arange(3, dtype=np.uint64) + np.uint64(2**bits)
    assert unpack(pack(values, bits), 3, bits).tolist() == [0, 1, 2]


# ---------------------------------------------------------------------------------------- a ring for each column


def least(bits_a, bits_b):
    return [[2 ** min(int(i), int(j)) for j in bits_b] for i in bits_a]


def exact_cross(a, b, bits_a, bits_b):
    return big(a).T @ big(b) % np.array(least(bits_a, bits_b), object)


def in_rings(rng, rows, bits):
    """Elements of each column's ring, a part of them at its ends."""
    found = []
    for width in bits.tolist():
        most = 2**width - 1
        values = rng.integers(0, most, rows, dtype=np.uint64, endpoint=True)
        ends = np.array([0, most, 2 ** (width - 1), 2 ** (width - 1) - 1], np.uint64)
        found.append(np.where(rng.random(rows) < 0.3, rng.choice(ends, rows), values))
    return np.column_stack(found)


KINDS_OF_RINGS = {
    "narrow": (1, FLOAT_BITS),
    "about where float64 ends": (FLOAT_BITS - 1, FLOAT_BITS + 2),
    "up to 32": (1, 32),
    "up to 64": (1, 64),
    "wide": (33, 64),
}


@pytest.mark.parametrize("kind", KINDS_OF_RINGS)
@pytest.mark.parametrize("rows", [1, 255, 257, 700])
def test_a_cross_product_is_exact_in_the_lesser_ring_of_two_columns(kind, rows):
    low, high = KINDS_OF_RINGS[kind]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        bits_a, bits_b = (rng.integers(low, high + 1, size) for size in (5, 7))
        a, b = in_rings(rng, rows, bits_a), in_rings(rng, rows, bits_b)
        same(exact_cross(a, b, bits_a, bits_b), cross(a, b, bits_a, bits_b))


@pytest.mark.parametrize("kind", KINDS_OF_RINGS)
@pytest.mark.parametrize("bound", [1, 5, 2047, 1 << 20])
def test_a_bound_of_one_operand_changes_no_bit_of_a_cross_product(kind, bound):
    """Rows may be wider than their ring, as a length that was underestimated makes them: wrong, and the same for all."""
    low, high = KINDS_OF_RINGS[kind]
    rng = np.random.default_rng(bound)
    bits_a, bits_b = (rng.integers(low, high + 1, size) for size in (6, 3))
    a = rng.choice([-bound, bound, 0, 1], (1100, 6))
    b = in_rings(rng, 1100, bits_b)
    same(exact_cross(a, b, bits_a, bits_b), cross(a, b, bits_a, bits_b))
    same(exact_cross(a, b, bits_a, bits_b), cross(a, b, bits_a, bits_b, bound_a=bound))


@pytest.mark.parametrize("bound", [1, 3, 2047, (1 << 20) - 1, (1 << 22) - 1])
def test_sums_of_entries_at_their_bound_are_not_rounded(bound):
    """All entries at the end, but one that makes the sum odd: past 2^53 a float has no odd numbers."""
    for wide in range(FLOAT_BITS - 6, 33):
        bits = np.full(THIN + 1, wide)  # so many columns that floats are worth their while
        a, b = np.full((512, bits.size), bound), np.full((512, bits.size), 2 ** (wide - 1) - 1)
        a[0], b[0] = 1, 1
        same(exact_cross(a, b, bits, bits), cross(a, b.astype(np.uint64), bits, bits, bound_a=bound))


def test_the_largest_residues_of_the_widest_float_rings_sum_exactly():
    """All entries at the end of the ring, where a block one row longer, or a ring one bit wider, would pass 2^53."""
    for wide in (FLOAT_BITS, FLOAT_BITS + 1, 28, 30, 31, 32, 33):  # from the second on in two parts, the last in words
        bits = np.full(2, wide)
        a = np.full((9000, 2), 1 << (wide - 1))
        b = np.full((9000, 2), (1 << (wide - 1)) - 1)
        same(exact_cross(a, b, bits, bits), cross(a, b, bits, bits))
        same(exact_cross(a, a, bits, bits), cross(a, a, bits, bits))
        same(exact_cross(b, b, bits, bits), cross(b, b, bits, bits))


@pytest.mark.parametrize("wide", [24, 27, 30, 31, 32])
def test_residues_in_two_parts_sum_exactly_where_either_part_is_largest(wide):
    """Entries whose lower part, upper part or both are at their ends, on either side of zero."""
    half, bits = -(-wide // 2), np.full(4, wide)
    lower, upper = 1 << (half - 1), 1 << (wide - half - 1)
    a = np.array([[lower, -lower, (upper - 1) << half, -(upper << half) + lower]]).repeat(3000, axis=0)
    b = np.array([[1 << (wide - 1), (1 << (wide - 1)) - 1, -1, 1]]).repeat(3000, axis=0)
    same(exact_cross(a, b, bits, bits), cross(a, b, bits, bits))


def nearly(most, rows=9000):
    """Six columns just below a number. Many times the same number, though, ends in zeros, and a double loses nothing."""
    return most - np.random.default_rng(most).integers(0, 9, (rows, 6))


@pytest.mark.parametrize("wide", [FLOAT_BITS, FLOAT_BITS + 1])
def test_residues_near_the_ends_of_the_widest_float_rings_sum_exactly(wide):
    """Near half of the ring they are the longest there are; near its end short ones below zero, or twice as long."""
    bits, half, end = np.full(6, wide), nearly((1 << (wide - 1)) - 1), nearly((1 << wide) - 1)
    for a, b in ((half, half), (half, end), (end, end)):
        same(exact_cross(a, b, bits, bits), cross(a, b, bits, bits))


@pytest.mark.parametrize("bound", [(1 << 12) - 1, (1 << 20) - 1])
def test_a_bound_that_is_nearly_reached_everywhere_sums_exactly(bound):
    bits_a, bits_b = np.full(6, 40), np.full(6, 32)
    a, b = nearly(bound), nearly((1 << 31) - 1)
    same(exact_cross(a, b, bits_a, bits_b), cross(a, b, bits_a, bits_b, bound_a=bound))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 1027])
@pytest.mark.parametrize("thin", ["a", "b"])
def test_a_few_columns_beside_many_are_multiplied_exactly_in_words(rows, thin):
    """In words of every type that rows and masks come in."""
    rng = np.random.default_rng(rows)
    bits_a, bits_b = rng.integers(20, 33, 2), rng.integers(20, 33, 9)
    assert ring_products.is_thin(bits_a, bits_b)
    assert not ring_products.is_thin(bits_a + 1, np.full(9, 32) + 1)
    a, b = in_rings(rng, rows, bits_a), in_rings(rng, rows, bits_b)
    for kind in (np.int64, np.uint32):
        few, many = a.astype(kind), b.astype(np.uint32)
        one, other = (few, bits_a), (many, bits_b)
        left, right = (one, other) if thin == "a" else (other, one)
        found = cross(left[0], right[0], left[1], right[1])
        same(exact_cross(left[0], right[0], left[1], right[1]), found)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=7), st.integers(1, 40), st.integers(0, 2**32), st.data())
def test_residues_of_packed_rows_are_those_nearest_to_zero_wherever_reading_begins(bits, rows, seed, data):
    rng, bits = np.random.default_rng(seed), np.array(bits)
    want = in_rings(rng, rows, bits)
    packed = PackedRows(pack_rows(want, np.zeros_like(want), bits).tobytes(), rows, bits)
    first = data.draw(st.integers(0, rows - 1))
    count, left = data.draw(st.integers(1, rows - first)), data.draw(st.integers(0, 3))
    out = np.full((count, left + bits.size + 1), np.nan)
    packed.residues(first, out, left)
    half = np.array([2 ** (int(b) - 1) for b in bits], object)
    same(
        (big(want[first : first + count]) + half) % (2 * half) - half, out[:, left : left + bits.size].astype(np.int64)
    )
    assert np.isnan(out[:, :left]).all()
    assert np.isnan(out[:, left + bits.size :]).all()


def test_a_cross_product_with_two_threads_is_the_same(monkeypatch):
    monkeypatch.setattr(ring_products, "PARALLEL", 1)
    rng = np.random.default_rng(3)
    bits_a, bits_b = np.array([31, 40, 12, 64, 24]), np.array([60, 25, 9])
    a, b = in_rings(rng, 300, bits_a), in_rings(rng, 300, bits_b)
    same(exact_cross(a, b, bits_a, bits_b), cross(a, b, bits_a, bits_b))


def test_a_cross_product_without_columns_or_rows_is_empty_or_zero():
    bits, none = np.array([3, 40]), np.zeros(0, np.int64)
    assert cross(np.zeros((4, 0), np.int64), np.ones((4, 2), np.int64), none, bits).shape == (0, 2)
    assert not cross(np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64), bits, bits).any()


def test_ring_masks_are_the_lesser_ring_of_two_columns():
    every = np.arange(1, 65)
    masks = ring_masks(every, every)
    assert masks.dtype == np.uint64
    assert [[int(m) + 1 for m in row] for row in masks] == least(every, every)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=9), st.integers(0, 40), st.integers(0, 2**32))
def test_packed_rows_are_one_number_whose_digits_are_the_entries(bits, rows, seed):
    """Entry after entry, each in its own width: read as one little-endian integer; and back."""
    rng, bits = np.random.default_rng(seed), np.array(bits)
    values = rng.integers(-(2**62), 2**62, (rows, bits.size))
    mask = rng.integers(0, 2**64 - 1, (rows, bits.size), dtype=np.uint64, endpoint=True)
    want = (big(values) + big(mask)) % np.array([2 ** int(b) for b in bits], object)
    packed = pack_rows(values, mask, bits).tobytes()
    number = at = 0
    for row in want:
        for value, width in zip(row, bits.tolist(), strict=True):
            number |= int(value) << at
            at += width
    assert len(packed) == rows_size(rows, bits) == -(-at // 8)
    assert int.from_bytes(packed, "little") == number
    same(want, unpack_rows(packed, rows, bits))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_packed_rows_take_the_types_that_rows_and_masks_have(dtype):
    bits = np.array([3, 31, 32])
    values = np.array([[-1, -5, 7], [2, 3, -(2**31)]], dtype)
    for word in (np.uint32, np.uint64):
        mask = np.array([[7, 1, 2**32 - 1], [0, 2**31, 5]], word)
        want = (big(values) + big(mask)) % np.array([8, 2**31, 2**32], object)
        same(want, unpack_rows(pack_rows(values, mask, bits).tobytes(), 2, bits))
