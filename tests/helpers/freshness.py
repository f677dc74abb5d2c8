"""Every secret, key and mask of a run, written down."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from colonnade.kernels.bits import unpack_rows
from colonnade.kernels.ring_products import ring_masks
from colonnade.kernels.stream import Stream, keyed_stream
from colonnade.privacy import gate as gates
from colonnade.privacy import keyring as keyrings
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import ColumnPad, Keyring, Pad
from colonnade.privacy.store import FileLog


class RunLog:
    """Every secret, key and mask of the runs that are made while it is open."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sealed: list[tuple[bytes, bytes, bytes, bytes]] = []  # key, nonce, plaintext, ciphertext
        self.kept: list[tuple[bytes, bytes, bytes, bytes]] = []  # the same, of releases as they stand on the disk
        self.secrets: dict[tuple[str, str, str], set[bytes]] = defaultdict(set)  # by node, run and name
        self.hellos: dict[tuple[str, str], set[bytes]] = defaultdict(set)  # public keys by run and party
        self.offsets: list[
            tuple[str, bytes]
        ] = []  # kind, and what was added to a row, or to a few that follow each other
        self.pads: Counter[tuple[str, bytes, int]] = Counter()  # kind, key, first row: how often a mask was grown
        self.streams: list[bytes] = []  # keys of streams that noise is drawn from
        self._seal(patch)
        self._masks(patch)
        self._secrets(patch)

    def _seal(self, patch: pytest.MonkeyPatch) -> None:
        """Messages between nodes, and what stands on the disk of a release (`Gate._hidden`)."""

        def watched(noted: list[tuple[bytes, bytes, bytes, bytes]]) -> type:
            class Spy:
                def __init__(self, key: bytes) -> None:
                    self.key, self.cipher = key, AESGCM(key)

                def encrypt(self, nonce: bytes, body: bytes, more: Any) -> bytes:
                    out = self.cipher.encrypt(nonce, body, more)
                    noted.append((self.key, nonce, body, out))
                    return out

                def decrypt(self, *given: Any) -> bytes:
                    return self.cipher.decrypt(*given)

            return Spy

        patch.setattr(keyrings, "AESGCM", watched(self.sealed))
        patch.setattr(gates, "AESGCM", watched(self.kept))

    def _masks(self, patch: pytest.MonkeyPatch) -> None:
        masked, scores, rows, whole = Gate.masked, Gate.scores, Pad.rows, ColumnPad.rows

        def cover(kind: str, plain: np.ndarray, out: np.ndarray, bits: np.ndarray) -> None:
            offset = (out.astype(np.uint64) - np.asarray(plain).astype(np.int64).astype(np.uint64)) & ring_masks(
                np.full(1, 64), bits
            )
            rows = -(-60 // int(bits.sum()))
            self.offsets += [(kind, offset[i : i + rows].tobytes()) for i in range(len(offset) - rows + 1)]

        def spy_masked(gate: Gate, plain: Any, pad: ColumnPad) -> Any:
            out = masked(gate, plain, pad)
            cover("columns", plain, unpack_rows(out.value, len(plain), pad.bits), pad.bits)
            return out

        def spy_scores(gate: Gate, plain: Any, first: int, plus: Any, minus: Any, ring: Any) -> Any:
            out = scores(gate, plain, first, plus, minus, ring)
            cover("scores", plain, out.value.values, np.full(out.value.values.shape[1], ring.bits))
            return out

        def spy_rows(pad: Pad, first: int, count: int) -> Any:
            self.pads[pad.label[0], pad.key, first] += 1
            return rows(pad, first, count)

        def spy_whole(pad: ColumnPad, first: int, count: int) -> Any:
            self.pads[pad.label[0], pad.key, first] += 1
            return whole(pad, first, count)

        patch.setattr(Gate, "masked", spy_masked)
        patch.setattr(Gate, "scores", spy_scores)
        patch.setattr(Pad, "rows", spy_rows)
        patch.setattr(ColumnPad, "rows", spy_whole)

    def _secrets(self, patch: pytest.MonkeyPatch) -> None:
        secret, init = FileLog.secret, Keyring.__init__

        def spy_secret(log: FileLog, run: str, name: str, size: int) -> bytes:
            value = secret(log, run, name, size)
            self.secrets[str(log.path), run, name].add(value)
            return value

        def spy_init(ring: Keyring, run: str, me: str, *more: Any, **named: Any) -> None:
            init(ring, run, me, *more, **named)
            self.hellos[run, me].add(ring.hello[0])

        def spy_stream(key: bytes) -> Stream:
            self.streams.append(key)
            return keyed_stream(key)

        patch.setattr(FileLog, "secret", spy_secret)
        patch.setattr(Keyring, "__init__", spy_init)
        patch.setattr(gates, "keyed_stream", spy_stream)

    def check(self, resumed: bool = False) -> None:
        """AssertionError where anything serves twice. A run that was resumed may say the same again, and nothing else."""
        by_key = defaultdict(list)
        assert len({key for key, *_ in self.kept}) == len(self.kept), "one key hides two releases"
        for key, nonce, body, out in self.sealed + self.kept:
            by_key[key].append((nonce, body, out))
        for uses in by_key.values():
            assert len(set(uses)) == 1, "one key sealed two things"
            assert resumed or len(uses) == 1, "one key was used twice"
        streams = [
            bytes(p ^ c for p, c in zip(body[:16], out, strict=False))
            for _, _, body, out in dict.fromkeys(self.sealed + self.kept)
        ]
        assert len(set(streams)) == len(streams), "two sealed messages lie under one key stream"
        offsets = list(dict.fromkeys(self.offsets)) if resumed else self.offsets
        assert len({row for _, row in offsets}) == len(offsets), "one mask covers two rows"
        assert not any(not any(row) for _, row in offsets), "a row went out uncovered"
        for (kind, *_), times in self.pads.items():
            # R is grown once by either side of a pair, the mask of columns by its party and all partners; the mask of scores by both parties that it cancels between.
            assert resumed or kind == "columns" or times == 2, f"the mask {kind} was grown {times} times"
        values = [value for found in self.secrets.values() for value in found]
        assert all(len(found) == 1 for found in self.secrets.values()), "a secret changed within its run"
        publics = [key for found in self.hellos.values() for key in found]
        assert all(len(found) == 1 for found in self.hellos.values()), "a party met others under two keys in one run"
        kinds = [set(by_key), {key for _, key, _ in self.pads}, set(values), set(publics), set(self.streams)]
        assert len(set().union(*kinds)) == sum(map(len, kinds)), "one value serves two purposes"
        assert len(set(values)) == len(values), "two secrets are the same"
        assert len(set(publics)) == len(publics), "two runs or parties have one key"
        assert len(set(self.streams)) == len(self.streams), "two choices were drawn from one stream"


def one_place_on_an_edge(patch: pytest.MonkeyPatch) -> None:
    edge = Keyring._edge
    patch.setattr(Keyring, "_edge", lambda self, sender, receiver, peer, place: edge(self, sender, receiver, peer, 0))


def one_key_both_ways(patch: pytest.MonkeyPatch) -> None:
    edge = Keyring._edge
    patch.setattr(Keyring, "_edge", lambda self, a, b, peer, place: edge(self, min(a, b), max(a, b), peer, place))
