"""Who is who between organisations: a small certificate authority, and the check of a peer's certificate.

One folder holds the authority (`authority.pem`, `authority.key`), what it issued (`issued/`), the newest certificate
and key of each name (`hospital.pem`, `hospital.key`) and the list of what it took back (`revoked.pem`, an X.509 CRL
that the authority signed). Keys are ECDSA on P-256 and readable by their owner only.

A certificate says whom it is about by a subject alternative name: the URI `colonnade:<name>`, or a DNS name.
Certificates of another authority work as well, as PEM files: either they carry such a name, or their public key is
pinned by its fingerprint, the SHA-256 of its SubjectPublicKeyInfo.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from colonnade.data.federation_file import new_key, public_text
from colonnade.data.text_file import LARGEST_KEY, read_text
from colonnade.errors import InvalidInput, StoreError
from colonnade.network.revoked_list import FILE, NewestList, read_list, read_pem
from colonnade.privacy.store import write_synced

HUB = "coordinator"
SCHEME = "colonnade:"
SIGNING_KEY = "coordinator.signing.key"  # beside the coordinator's certificate
log = logging.getLogger("colonnade.network.certs")
_OWN_FILES = {"authority", "revoked", "coordinator.signing"}
_CLOCKS_DIFFER = datetime.timedelta(minutes=5)
# What `cryptography` raises of a file that is damaged or of a kind that it does not know.
UNPARSED = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension)


@dataclass(frozen=True)
class Tls:
    """Where a node's certificate, its key, the authority and the list of revoked certificates are: PEM files.

    Parameters
    ----------
    certificate
        The node's certificate.
    key
        Its private key.
    authority
        The certificate of the authority that all nodes trust.
    revoked
        The authority's list of revoked certificates; None: there is none yet.
    memory
        Where it is remembered which list was the newest, so that an older one is refused; None: nowhere.
    kept
        Whether what is read now will be remembered.
    """

    certificate: Path
    key: Path
    authority: Path
    revoked: Path | None = None
    memory: Path | None = None
    kept: bool = True

    def revocations(self) -> RevocationList | None:
        """The list of revoked certificates, if there is one; where there was one before, there must be."""
        newest = NewestList(self.memory, kept=self.kept)
        if self.revoked is None and not newest.known:
            return None
        return RevocationList(self.revoked or self.authority.with_name("revoked.pem"), self.authority, newest)

    def unkept(self) -> Tls:
        """The same files, for a look that leaves no trace on the disk."""
        return replace(self, kept=False)

    def kept_in(self, store: str | Path) -> Tls:
        """The same files, with what was read of lists remembered in a node's store.

        Parameters
        ----------
        store
            The folder of the node's store.
        """
        return replace(self, memory=Path(store).expanduser() / FILE)


def tls_in(folder: str | Path, name: str) -> Tls:
    """The files of one node, as `issue` names them."""
    at = Path(folder)
    revoked = at / "revoked.pem"
    return Tls(at / f"{name}.pem", at / f"{name}.key", at / "authority.pem", revoked if revoked.is_file() else None)


@dataclass(frozen=True)
class Card:
    """What a certificate says, for people."""

    names: tuple[str, ...]
    serial: int
    begins: datetime.datetime
    ends: datetime.datetime
    fingerprint: str
    authority: bool


# ------------------------------------------------------------------------------------------------ the authority


def init(folder: Path, *, title: str = "Colonnade federation", days: int = 3650) -> Path:
    """Make an authority in `folder`; the path of its certificate, which every node gets."""
    target = folder / "authority.pem"
    if (folder / "authority.key").exists() or target.exists():
        raise InvalidInput(f"{folder} holds an authority already; issue from it, or take another folder.")
    issued = folder / "issued"
    try:
        issued.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make {issued}: {error.strerror}. Make its parent writable and try again.") from error
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(title, _subject(title), key, _end_after(days), key, authority=True)
    write_synced(folder / "authority.key", _key_pem(key), private=True)
    _write_revoked(folder, certificate, key, [])
    write_synced(target, certificate.public_bytes(serialization.Encoding.PEM))  # last: without it, no authority
    return target


def issue(folder: Path, name: str, *, hosts: Iterable[str] = (), days: int = 365, replace: bool = False) -> Tls:
    """A key and a certificate for `name`; `hosts` are further DNS names, at which it may take connections."""
    authority, signer = _authority(folder)
    if not (name and name == name.strip() and name.isprintable() and "/" not in name and len(name) <= 64):
        raise InvalidInput(f"{name!r}: a name has 1 to 64 printable characters, no slashes and no outer spaces.")
    if name in _OWN_FILES:
        raise InvalidInput(f"{name!r} is the name of a file of the authority; give the party another name.")
    files = Tls(folder / f"{name}.pem", folder / f"{name}.key", folder / "authority.pem", folder / "revoked.pem")
    if files.certificate.exists() and not replace:
        raise InvalidInput(
            f"{name!r} has a certificate in {folder}. Use --replace; first revoke it if its key was lost or seen."
        )
    if name == HUB:
        keep_signing_key(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    # Whoever has a host takes connections there, and nobody else: most parties only dial.
    hosts = [HUB, *hosts] if name == HUB else list(hosts)
    if name != HUB and HUB in hosts:
        raise InvalidInput(f"{HUB!r} is the hub's name: a certificate of {name!r} with it could pose as the hub.")
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])
    known_as = [x509.UniformResourceIdentifier(SCHEME + quote(name, safe="")), *map(_dns, hosts)]
    certificate = _certificate(
        name,
        authority.subject,
        key,
        min(_end_after(days), authority.not_valid_after_utc),
        signer,
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
        x509.ExtendedKeyUsage(uses),
        x509.SubjectAlternativeName(known_as),
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    write_synced(folder / "issued" / f"{certificate.serial_number:040x}.pem", pem)
    write_synced(files.key, _key_pem(key), private=True)
    write_synced(files.certificate, pem)
    return files


def keep_signing_key(folder: Path) -> str:
    """The public half of the coordinator's signing key, which is made if there is none; files pin it, a renewal keeps
    it."""
    path = folder / SIGNING_KEY
    if not path.exists():
        write_synced(path, new_key()[1].hex().encode() + b"\n", private=True)
    try:
        return public_text(bytes.fromhex(read_text(path, LARGEST_KEY).strip()))
    except ValueError:
        raise InvalidInput(
            f"{path} is not a signing key. Restore it from a copy: parties' files pin its public half."
        ) from None


def revoke(folder: Path, name: str) -> int:
    """Take back every certificate that was issued to `name`; how many there are."""
    authority, signer = _authority(folder)
    issued = [read(path) for path in sorted((folder / "issued").glob("*.pem"))]
    mine = {certificate.serial_number for certificate in issued if name in uri_names(certificate)}
    if not mine:
        raise InvalidInput(f"{folder} has issued nothing to {name!r}: see `colonnade certs show {folder}`.")
    before = read_list(folder / "revoked.pem", [authority])
    _write_revoked(folder, authority, signer, sorted(before.serials | mine), before.edition.number + 1)
    return len(mine)


def inspect(path: Path) -> Card:
    """What the (first) certificate in a PEM file says."""
    certificate = read(path)
    return Card(
        tuple(sorted({*uri_names(certificate), *dns_names(certificate)})),
        certificate.serial_number,
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        fingerprint(certificate).hex(),
        _may_issue(certificate),
    )


@dataclass(frozen=True)
class Credentials:
    """What a connection needs, checked: chain, key and authority as PEM."""

    chain: bytes
    key: bytes
    authority: bytes
    certificate: x509.Certificate


def load(tls: Tls) -> Credentials:
    """Read a node's files; they must fit each other and be valid now."""
    if tls.key.exists() and tls.key.stat().st_mode & 0o007:
        raise InvalidInput(f"{tls.key} can be read by everybody on this machine; run `chmod 600 {tls.key}`.")
    certificate = read(tls.certificate)
    key_pem, key = _private_key(tls.key)
    if _spki(key.public_key()) != _spki(certificate.public_key()):
        raise InvalidInput(f"{tls.key} is not the key of {tls.certificate}; take both from the same issue.")
    if not certificate.not_valid_before_utc <= _now() + _CLOCKS_DIFFER or certificate.not_valid_after_utc < _now():
        raise InvalidInput(
            f"{tls.certificate} is valid from {certificate.not_valid_before_utc:%Y-%m-%d} to "
            f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, not now; issue a new one, or set the clock."
        )
    _read_all(tls.authority)
    return Credentials(read_pem(tls.certificate), key_pem, read_pem(tls.authority), certificate)


def read(path: Path) -> x509.Certificate:
    """The first certificate of a PEM file: in a chain, the node's own."""
    return _read_all(path)[0]


def _read_all(path: Path) -> list[x509.Certificate]:
    body = read_pem(path)
    try:
        found = x509.load_pem_x509_certificates(body)
        # Its parts are read when they are asked for, and may be damaged.
        for one in found:
            _ = one.version, one.subject, one.issuer, one.extensions, one.public_key(), one.not_valid_after_utc
            _alternatives(one, x509.DNSName)
        return found
    except UNPARSED as error:
        raise InvalidInput(
            f"{path} holds no certificate in PEM form, or a damaged one. Take it from a copy, or issue a new one."
        ) from error


def uri_names(certificate: x509.Certificate) -> set[str]:
    """The names that a certificate carries as `colonnade:<name>`."""
    found = _alternatives(certificate, x509.UniformResourceIdentifier)
    return {unquote(uri.removeprefix(SCHEME)) for uri in found if uri.startswith(SCHEME)}


def dns_names(certificate: x509.Certificate) -> list[str]:
    """The DNS names of a certificate, in order."""
    return _alternatives(certificate, x509.DNSName)


def host_name(certificate: x509.Certificate) -> str | None:
    """The name by which TLS libraries know a server: its first DNS name, or else its common name."""
    subject = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return next(iter([*dns_names(certificate), *(str(name.value) for name in subject)]), None)


def fingerprint(certificate: x509.Certificate) -> bytes:
    """SHA-256 of the public key: it stays the same when a certificate is renewed for the same key."""
    return hashlib.sha256(_spki(certificate.public_key())).digest()


# ------------------------------------------------------------------------------------------------ trusting a peer


def distrust(
    certificate: x509.Certificate, name: str, pinned: bytes | None, revoked: RevocationList | None
) -> str | None:
    """Why a certificate that the authority signed does not prove that its holder is `name`; None if it does.

    A pinned key decides alone; without one the certificate must carry the name. Where it says by a `colonnade:` URI
    whom it is about, its DNS names are hosts: one may be called as another party is.
    """
    now = _now()
    if now > certificate.not_valid_after_utc or now + _CLOCKS_DIFFER < certificate.not_valid_before_utc:
        return "expired"
    if revoked is not None and (listed := revoked.holds(certificate.serial_number)) is not False:
        return "revoked" if listed else "unreadable"
    if pinned is not None:
        return None if secrets.compare_digest(pinned, fingerprint(certificate)) else "fingerprint"
    return None if name in (uri_names(certificate) or dns_names(certificate)) else "name"


def is_issued_under(certificate: x509.Certificate, authorities: Path) -> bool:
    """Whether an authority of a file signed it: any of them, since there are two while one follows the other.

    As on a connection, one that has expired signs nothing, nor does a certificate in that file which is no authority's.
    """
    return any(
        _may_issue(authority) and authority.not_valid_after_utc >= _now() and _is_signed(certificate, authority)
        for authority in _read_all(authorities)
    )


def _may_issue(certificate: x509.Certificate) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except x509.ExtensionNotFound:
        return False


def _is_signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


_DISTRUSTED = {
    "expired": "it is not valid now",
    "revoked": "it was revoked",
    "unreadable": "the list of revoked certificates cannot be read",
    "fingerprint": "the federation file pins another key",
    "name": "it carries another name",
}


def check_own(tls: Tls, name: str, pinned: bytes | None = None) -> None:
    """Refuse files of one's own by which no other node would know `name`."""
    certificate = load(tls).certificate
    if (why := distrust(certificate, name, pinned, tls.unkept().revocations())) is not None:
        raise InvalidInput(
            f"others would refuse {tls.certificate} as the certificate of {name!r}: {_DISTRUSTED[why]}. Have one "
            "issued with `colonnade certs issue`, or have the federation file changed at all parties."
        )


class RevocationList:
    """The file of revoked certificates, read again when it changes.

    One that cannot be read now, as while somebody copies a new one over it, or that is older than one read before, says
    nothing about anybody: whoever asks waits.
    """

    LOOK_AGAIN = 0.25  # seconds: between two looks at the file, since every message asks

    def __init__(self, path: Path, authority: Path, newest: NewestList | None = None) -> None:
        self._path = path
        self._authorities = _read_all(authority)
        self._newest = newest or NewestList()
        self._lock = threading.Lock()
        if self._newest.known and not path.is_file():
            raise InvalidInput(
                f"{path} is gone, and this node has used a list of revoked certificates before: without it whoever is "
                "on it would be let in. Put it back, or fetch the authority's newest list."
            )
        self._serials = self._read()  # a mistake in the set-up is told at once
        self._seen = self._stamp()
        self._looked = time.monotonic()
        self._readable = True

    def _read(self) -> frozenset[int]:
        found = read_list(self._path, self._authorities)
        self._newest.take(self._path, found.authority, found.edition)
        return found.serials

    def holds(self, serial: int) -> bool | None:
        """Whether a certificate is on the list; None while it is on none that could be read, and the newest cannot."""
        with self._lock:
            if time.monotonic() >= self._looked + self.LOOK_AGAIN:
                self._look()
            return True if serial in self._serials else False if self._readable else None

    def _look(self) -> None:
        before = self._readable
        self._looked = time.monotonic()
        try:
            if (stamp := self._stamp()) != self._seen or not before:
                self._serials = self._read()
                self._seen = stamp
            self._readable = True
        except (InvalidInput, StoreError, OSError) as error:
            self._readable = False
            if before:
                log.warning("the list of revoked certificates cannot be read; waiting", extra={"why": str(error)})
        if self._readable and not before:
            log.info("the list of revoked certificates can be read again", extra={"revoked": len(self._serials)})

    def _stamp(self) -> tuple[int, int, int]:
        stat = self._path.stat()
        return stat.st_mtime_ns, stat.st_ino, stat.st_size


def revoked_serials(path: Path, authorities: Iterable[x509.Certificate]) -> frozenset[int]:
    """The serial numbers in a CRL, if one of the authorities signed it and it is still current."""
    return read_list(path, authorities).serials


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    if not (folder / "authority.pem").exists():
        raise InvalidInput(f"{folder} holds no authority; make one with `colonnade certs init {folder}`.")
    _, key = _private_key(folder / "authority.key")
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInput(f"{folder / 'authority.key'} is not a key that `colonnade certs init` made.")
    return read(folder / "authority.pem"), key


def _private_key(path: Path) -> tuple[bytes, PrivateKeyTypes]:
    body = read_pem(path)
    try:
        return body, serialization.load_pem_private_key(body, password=None)
    except UNPARSED as error:
        raise InvalidInput(
            f"{path} holds no private key in PEM form without a password, or a damaged one. Take it from a copy."
        ) from error


def _end_after(days: int) -> datetime.datetime:
    if days < 1:
        raise InvalidInput(f"a certificate must be valid for at least one day, got days={days}.")
    return _now() + datetime.timedelta(days=days)


def _certificate(
    name: str,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    ends: datetime.datetime,
    signer: ec.EllipticCurvePrivateKey,
    *extensions: x509.ExtensionType,
    authority: bool = False,
) -> x509.Certificate:
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        **dict.fromkeys((*unused, "encipher_only", "decipher_only"), False),
    )
    builder = (
        x509.CertificateBuilder(issuer, _subject(name), key.public_key(), x509.random_serial_number())
        .not_valid_before(_now() - _CLOCKS_DIFFER)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(usage, critical=True)
    )
    for extension in (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), *extensions):
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA256())


def _write_revoked(
    folder: Path,
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    serials: Iterable[int],
    number: int = 1,
) -> None:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(_now() - _CLOCKS_DIFFER)
        .next_update(authority.not_valid_after_utc)
        .add_extension(x509.CRLNumber(number), critical=False)
    )
    for serial in serials:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(_now()).build()
        builder = builder.add_revoked_certificate(entry)
    write_synced(folder / "revoked.pem", builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def _alternatives(
    certificate: x509.Certificate, kind: type[x509.UniformResourceIdentifier] | type[x509.DNSName]
) -> list[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return list(extension.value.get_values_for_type(kind))


def _dns(host: str) -> x509.DNSName:
    if not host or not host.isascii() or not host.replace("-", "").replace(".", "").isalnum():
        raise InvalidInput(f"{host!r} is not a host name: use letters, digits, dashes and dots.")
    return x509.DNSName(host)


def _subject(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _spki(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
