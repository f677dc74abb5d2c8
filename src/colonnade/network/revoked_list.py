"""The list of revoked certificates: what it says, and which was the newest that a node has read.

A list that was there once is required from then on: with it gone, whoever is on it would be let in again. An authority
numbers its lists, and one with a smaller number than that of a list that was read is an old copy, which would let in
whoever was revoked since. One without a number, of another maker, counts as number 0 and is told from others by its
time.

    store/revoked.json      by fingerprint of the authority that signed it: number, and second, of its newest list
"""

from __future__ import annotations

import datetime
import hashlib
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from colonnade.data.text_file import LARGEST_KEY, read_bytes, read_text
from colonnade.errors import InvalidInput
from colonnade.fields import read
from colonnade.privacy.store import write_synced

FILE = "revoked.json"


class Edition(NamedTuple):
    """Which list of an authority it is; the newer is the larger."""

    number: int
    issued: int  # seconds of its thisUpdate


class RevokedList(NamedTuple):
    """What a list says."""

    serials: frozenset[int]
    authority: str  # fingerprint of who signed it
    edition: Edition


def read_list(path: Path, authorities: Iterable[x509.Certificate]) -> RevokedList:
    """A CRL, if one of the authorities signed it and it is still current."""
    body = read_pem(path)
    try:
        return _parse_list(path, x509.load_pem_x509_crl(body), authorities)
    except InvalidInput:
        raise
    except Exception as error:
        # Parts are parsed when they are asked for, and errors of many kinds come of it.
        raise InvalidInput(f"{path} holds no list of revoked certificates in PEM form.") from error


def _parse_list(
    path: Path, revoked: x509.CertificateRevocationList, authorities: Iterable[x509.Certificate]
) -> RevokedList:
    signer = next((one for one in authorities if _is_list_signed(revoked, one)), None)
    if signer is None:
        raise InvalidInput(f"{path} was not signed by the authority of this federation; fetch it again.")
    if revoked.next_update_utc is not None and revoked.next_update_utc < datetime.datetime.now(datetime.UTC):
        raise InvalidInput(f"{path} ended on {revoked.next_update_utc:%Y-%m-%d}; fetch the authority's newest list.")
    try:
        number = revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        number = 0
    edition = Edition(number, int(revoked.last_update_utc.timestamp()))
    return RevokedList(frozenset(entry.serial_number for entry in revoked), _mark(signer), edition)


def _mark(authority: x509.Certificate) -> str:
    """Of its key, which stays when its certificate is renewed."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(authority.public_key().public_bytes(serialization.Encoding.DER, form)).hexdigest()


def _is_list_signed(revoked: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        # Kinds of key that sign nothing raise TypeError.
        key: Any = authority.public_key()
        return revoked.issuer == authority.subject and revoked.is_signature_valid(key)
    except (InvalidSignature, TypeError):
        return False


def read_pem(path: Path) -> bytes:
    """A certificate, a key or a list, as it lies in its file."""
    return read_bytes(path, LARGEST_KEY, "Check it, or `colonnade certs issue`.")


class NewestList:
    """What was read last. Without a path it lasts as long as the process; `kept` False writes nothing."""

    def __init__(self, path: Path | None = None, *, kept: bool = True) -> None:
        self._path = path
        self._kept = kept
        self._lock = threading.Lock()
        self._read: dict[str, Edition] = {}
        self._load()

    @property
    def known(self) -> bool:
        """Whether there was a list before."""
        return bool(self._read)

    def take(self, list_path: Path, authority: str, edition: Edition) -> None:
        """Remember a list that is about to be used; one that is older than what was read before is refused."""
        with self._lock:
            # Another process of the same node may have read a newer one.
            self._load()
            before = self._read.get(authority)
            if before is not None and edition < before:
                raise InvalidInput(
                    f"{list_path} is older than the list that was read before (number {edition.number} after "
                    f"{before.number}): it would let in whoever was revoked since. Fetch the authority's newest list."
                )
            if before is None or edition > before:
                self._read[authority] = edition
                if self._path is not None and self._kept:
                    self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    write_synced(self._path, json.dumps(self._read).encode())

    def _load(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            found: dict[str, Edition] = read(json.loads(read_text(self._path)), dict[str, Edition])
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"{self._path} cannot be read: it says which list of revoked certificates is the newest. Restore it "
                "from a copy of the store; where there is none, fetch the authority's newest list and delete the file."
            ) from error
        self._read = {**self._read, **{name: max(one, self._read.get(name, one)) for name, one in found.items()}}
