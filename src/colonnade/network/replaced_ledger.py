"""A ledger that was lost: its owner says so in a signed record, and every other node accepts that by hand.

Peers remember where a ledger stood, so a new one in its place is refused as rolled back. The owner begins a new ledger
with what it knows was spent before, and signs a record of where it stands: a party by the key that the federation file
pins for it, the coordinator by the key of its certificate. Whoever takes the record forgets the old ledger's heads and
remembers the new one's. Both sides keep a row of it, and every later statement counts it.
"""

from __future__ import annotations

import hmac
import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from colonnade.data.federation_file import FederationFile
from colonnade.data.text_file import fields_in, read_text
from colonnade.errors import InvalidInput
from colonnade.fields import LARGEST_WHOLE, Count, must, read
from colonnade.network.certs import HUB, Tls, distrust, is_issued_under, load
from colonnade.privacy.events import Policy, with_delta
from colonnade.privacy.keyring import public_key
from colonnade.privacy.ledger import Ledger, Replaced
from colonnade.privacy.store import Log, write_synced
from colonnade.runtime.run_store import RunStore, end_open_runs

_FORMAT = "colonnade replaced ledger"
_WHEN = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\Z")
_TOKEN = re.compile(r"^[0-9a-f]{16}\Z")


@dataclass(frozen=True)
class Record:
    """Where a new ledger stands, what it counts from before, and who says so."""

    node: str
    when: Annotated[str, must("a time in UTC", "2026-01-31T12:00:00+00:00", pattern=_WHEN.pattern)]
    mark: Annotated[str, must("16 hexadecimal digits", pattern=_TOKEN.pattern)]
    federation: str  # digest of the federation file: in another one it says nothing
    rho: Annotated[float, must("a number from 0 on", ge=0.0)] | Count
    count: Annotated[int, must("a whole number above 0", gt=0, lt=LARGEST_WHOLE)]
    head: Annotated[str, must("64 hexadecimal digits", pattern=r"^[0-9a-f]{64}\Z")]
    certificate: str = ""  # of the coordinator, which has no pinned key
    signature: str = ""
    delta: Annotated[float, must("a number from 0 on", ge=0.0)] | Count = 0.0  # that releases took beside rho

    @property
    def replaced(self) -> Replaced:
        return Replaced(self.node, self.when, self.mark)

    @property
    def statement(self) -> bytes:
        """What is signed."""
        said = [_FORMAT, self.node, self.when, self.mark, self.federation, float(self.rho), self.count, self.head]
        return json.dumps([*said, float(self.delta)] if self.delta else said).encode()

    def save(self, path: Path) -> None:
        said = {name: value for name, value in vars(self).items() if name != "delta"}
        said |= with_delta(delta=self.delta)
        text = json.dumps({"format": _FORMAT, "version": 1, **said}, indent=1)
        write_synced(path, text.encode())

    @classmethod
    def load(cls, path: Path) -> Record:
        text = read_text(path)
        try:
            record: Record = read(fields_in(text, _FORMAT), cls)
        except InvalidInput as error:
            why = f"{path} is no record of a replaced ledger: {error}"
            raise InvalidInput(f"{why}. Ask its owner for it again.") from error
        return record


def is_replaced(one: Replaced) -> bool:
    """Whether it reads as `begin_anew` writes it: it is shown to people in statements."""
    return isinstance(one.node, str) and all(
        isinstance(text, str) and form.fullmatch(text) for text, form in ((one.when, _WHEN), (one.mark, _TOKEN))
    )


def keyed_head(log: Log, count: int) -> bytes:
    """The head of a party's records as others may know it: keyed, since they could guess the last row and compare."""
    found = log.head_at(count)
    return hmac.digest(log.secret("node", "heads", 32), found, "sha256") if found else b""


def sign_as_party(ledger: Ledger, identity: bytes, file: FederationFile, rho: float, delta: float = 0.0) -> Record:
    """Begin a party's new ledger, and sign where it stands."""
    if public_key(identity) != file.members[ledger.node].public_key:
        raise InvalidInput(f"the federation file pins another key for {ledger.node!r}. Nothing was changed.")
    one = ledger.begin_anew(rho, [(str(file.unit), file.unit.neighbours)], delta)
    count = ledger.log.length()
    stands = ledger.row_spent(), count, keyed_head(ledger.log, count).hex()
    record = Record(*one, file.digest, *stands, delta=ledger.row_taken())
    signature = Ed25519PrivateKey.from_private_bytes(identity).sign(record.statement)
    return replace(record, signature=signature.hex())


def sign_as_coordinator(ledger: Ledger, tls: Tls, file: FederationFile) -> Record:
    """Begin the coordinator's new ledger, and sign where it stands by the key of its certificate. It counts no rows."""
    credentials = load(tls)
    key = serialization.load_pem_private_key(credentials.key, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInput(f"{tls.key} is no key that signs records: have one made with `colonnade certs issue`.")
    one = ledger.begin_anew(0.0)
    count = ledger.log.length()
    shown = credentials.certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")
    record = Record(*one, file.digest, 0.0, count, ledger.log.head_at(count).hex(), shown)
    return replace(record, signature=key.sign(record.statement, ec.ECDSA(hashes.SHA256())).hex())


def accept(store: RunStore, name: str, record: Record, file: FederationFile, tls: Tls) -> Ledger:
    """Take a record, if its owner signed it: from now on the new ledger counts as the node's own.

    Runs that are open cannot go on without the lost ledger, and are ended.
    """
    ledger = Ledger(store.log(name), name, Policy(), snapshots=False)
    _check(record, name, file, tls)
    if not ledger.knows_replaced(record.replaced):
        end_open_runs(store)
        # The coordinator's ledger is about nobody's rows.
        rho = math.inf if record.node == HUB else record.rho
        ledger.accept_replaced(record.replaced, (record.count, bytes.fromhex(record.head)), rho, record.delta)
    return ledger


def _check(record: Record, name: str, file: FederationFile, tls: Tls) -> None:
    if record.node == name:
        raise InvalidInput(f"this is the record of {record.node!r} itself; it is for the other nodes.")
    if record.node != HUB and record.node not in file.members:
        raise InvalidInput(f"the record is about {record.node!r}, who is not in the federation file. Ask for its file.")
    try:
        if record.federation != file.digest:
            raise InvalidInput("it is about another federation file than the one here")
        if record.node == HUB:
            _check_coordinator(record, tls)
        else:
            public = Ed25519PublicKey.from_public_bytes(file.members[record.node].public_key)
            public.verify(bytes.fromhex(record.signature), record.statement)
    except (InvalidSignature, ValueError, TypeError) as error:
        why = str(error) if isinstance(error, InvalidInput) else "its signature is not that of the node's own key"
        raise InvalidInput(
            f"the record of {record.node!r} is refused: {why}. Nothing changed; ask its owner."
        ) from error


def _check_coordinator(record: Record, tls: Tls) -> None:
    shown = x509.load_pem_x509_certificate(record.certificate.encode())
    if not is_issued_under(shown, tls.authority):
        raise InvalidInput(f"no authority in {tls.authority} issued the certificate that it shows")
    if why := distrust(shown, HUB, None, tls.revocations()):
        raise InvalidInput(f"the certificate that it shows is not the coordinator's ({why})")
    key = shown.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise InvalidInput("the certificate that it shows has no key that signs records")
    key.verify(bytes.fromhex(record.signature), record.statement, ec.ECDSA(hashes.SHA256()))
