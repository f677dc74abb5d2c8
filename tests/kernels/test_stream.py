"""The ChaCha20 stream against RFC 8439 and against an independent implementation."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import InvalidInput
from colonnade.kernels.stream import below, keyed_stream, next_word, open_uniform
from tests.helpers.sparse_problems import fresh_stream

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def key_stream(key: bytes, nonce: bytes, counter: int, words: int) -> bytes:
    stream = keyed_stream(key, nonce, counter)
    return np.array([next_word(stream) for _ in range(words)], dtype="<u8").tobytes()


def test_the_block_function_gives_the_vector_of_rfc_8439_section_2_3_2():
    expected = bytes.fromhex(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert expected == key_stream(bytes(range(32)), bytes.fromhex("000000090000004a00000000"), 1, 8)


def test_the_stream_gives_the_first_vector_of_rfc_8439_appendix_a_1():
    expected = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    assert expected == key_stream(bytes(32), bytes(12), 0, 8)


@settings(max_examples=50, deadline=None)
@given(
    key=st.binary(min_size=32, max_size=32),
    nonce=st.binary(min_size=12, max_size=12),
    counter=st.integers(0, 2**32 - 100),
    words=st.integers(1, 300),
)
def test_the_stream_is_the_one_of_the_cryptography_package(key, nonce, counter, words):
    other = Cipher(algorithms.ChaCha20(key, counter.to_bytes(4, "little") + nonce), None).encryptor()
    assert other.update(bytes(8 * words)) == key_stream(key, nonce, counter, words)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 100])
def test_integers_below_n_are_uniform(n):
    """Chi-square at 1e-6, six cases: fails by chance less than once in 100,000 runs."""
    stream = fresh_stream()
    counts = np.bincount([int(below(stream, n)) for _ in range(20_000)], minlength=n)
    assert n == counts.size
    assert stats.chisquare(counts).pvalue > 1e-6 or n == 1


def test_integers_below_a_number_near_the_top_use_all_bits():
    stream = keyed_stream(bytes(32))
    n = 2**62 + 12345
    draws = [int(below(stream, n)) for _ in range(2_000)]
    assert max(draws) < n
    assert max(draws) > 0.99 * n
    assert pytest.approx(np.mean([d & 1 for d in draws]), abs=0.06) == 1.0 / 2


def test_uniform_doubles_are_never_zero_or_one():
    words = keyed_stream(bytes(32))
    words[0] = 0  # hand it a buffer with the extreme words
    words[9:11] = [0, 2**64 - 1]
    low, high = open_uniform(words), open_uniform(words)
    assert (low, high) == (2.0**-53, 1.0 - 2.0**-53)


@pytest.mark.parametrize(("key", "nonce"), [(b"short", bytes(12)), (bytes(32), bytes(8))])
def test_a_key_of_the_wrong_size_is_refused(key, nonce):
    with pytest.raises(InvalidInput, match="key of 32 bytes"):
        keyed_stream(key, nonce)
