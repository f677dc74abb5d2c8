"""Claims about the list of revoked certificates: once it has been there it is required, it never goes back, and whatever
cannot be read of it lets nobody in.
"""

from __future__ import annotations

import base64
import datetime
import json
import subprocess
from pathlib import Path
from unittest import mock

import pytest
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli.coordinator import write_example
from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput
from colonnade.network import certs, revoked_list
from colonnade.network.certs import RevocationList, tls_in
from colonnade.network.hub import Grpc
from colonnade.network.party_file import PartyFile

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(RevocationList, "LOOK_AGAIN", 0.0)
    certs.init(tmp_path / "certs")
    for name in ("coordinator", "hospital", "lab"):
        certs.issue(tmp_path / "certs", name)
    return tmp_path / "certs"


def lists(folder: Path, store: str = "store") -> RevocationList | None:
    """The list as a node reads it that was just started."""
    return tls_in(folder, "coordinator").kept_in(folder.parent / store).revocations()


def serial(folder: Path, name: str) -> int:
    return certs.read(folder / f"{name}.pem").serial_number


def test_lists_are_numbered_as_openssl_reads_it(folder: Path) -> None:
    found = []
    for name in ("", "hospital", "lab"):
        if name:
            certs.revoke(folder, name)
        command = ["openssl", "crl", "-in", str(folder / "revoked.pem"), "-noout", "-crlnumber"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found.append(int(said.strip().partition("=")[2], 16))
    assert found == [1, 2, 3]


def test_a_list_that_was_there_once_is_required(folder: Path) -> None:
    certs.revoke(folder, "hospital")
    assert lists(folder).holds(serial(folder, "hospital")) is True
    (folder / "revoked.pem").unlink()
    for _ in range(2):
        with pytest.raises(InvalidInput, match="is gone, and this node has used a list of revoked certificates before"):
            lists(folder)
    assert lists(folder, "another") is None  # of a node that never had one
    assert certs.distrust(certs.read(folder / "lab.pem"), "lab", None, lists(folder, "another")) is None


@pytest.mark.parametrize("running", [True, False])
def test_a_list_whose_number_went_back_is_refused(running: bool, folder: Path) -> None:
    old = (folder / "revoked.pem").read_bytes()
    certs.revoke(folder, "hospital")
    before, newest = lists(folder), (folder / "revoked.pem").read_bytes()
    (folder / "revoked.pem").write_bytes(old)
    if running:  # whoever was on the newer list stays there; of others nobody knows
        assert before.holds(serial(folder, "hospital")) is True
        assert before.holds(serial(folder, "lab")) is None
    else:
        with pytest.raises(InvalidInput, match=r"older than the list that was read before \(number 1 after 2\)"):
            lists(folder)
    (folder / "revoked.pem").write_bytes(newest)
    assert (before if running else lists(folder)).holds(serial(folder, "lab")) is False


def test_another_process_of_the_node_may_have_read_a_newer_list(folder: Path) -> None:
    old, first = (folder / "revoked.pem").read_bytes(), lists(folder)
    certs.revoke(folder, "hospital")
    assert lists(folder).holds(serial(folder, "hospital")) is True
    (folder / "revoked.pem").write_bytes(old + b"\n")
    assert first.holds(serial(folder, "lab")) is None


def signed(folder: Path, minutes: int, number: int | None, *names: str) -> None:
    """A list as another maker writes it, issued so many minutes ago."""
    authority = certs.read(folder / "authority.pem")
    key = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), None)
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    made = made.last_update(now - datetime.timedelta(minutes=minutes)).next_update(now + datetime.timedelta(days=1))
    if number is not None:
        made = made.add_extension(x509.CRLNumber(number), critical=False)
    for name in names:
        entry = x509.RevokedCertificateBuilder().serial_number(serial(folder, name)).revocation_date(now).build()
        made = made.add_revoked_certificate(entry)
    body = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "revoked.pem").write_bytes(body)


def test_lists_without_a_number_are_told_by_their_time_and_numbers_go_first(folder: Path) -> None:
    for minutes, number, taken in [
        (60, None, True),
        (90, None, False),
        (30, None, True),
        (120, 7, True),  # a number is newer than none
        (10, None, False),
        (10, 6, False),
        (240, 8, True),
    ]:
        signed(folder, minutes, number, "lab")
        if taken:
            assert lists(folder).holds(serial(folder, "lab")) is True
        else:
            with pytest.raises(InvalidInput, match="older than the list"):
                lists(folder)


def test_a_list_of_the_next_authority_begins_its_own_numbers(folder: Path, tmp_path: Path) -> None:
    for name in ("hospital", "lab"):
        certs.revoke(folder, name)
    lists(folder)
    certs.init(tmp_path / "next", title="the next one")
    both = (folder / "authority.pem").read_bytes() + (tmp_path / "next" / "authority.pem").read_bytes()
    (folder / "authority.pem").write_bytes(both)
    (folder / "revoked.pem").write_bytes((tmp_path / "next" / "revoked.pem").read_bytes())
    assert lists(folder).holds(serial(folder, "lab")) is False


def strange(folder: Path) -> dict[str, bytes]:
    """Lists in which one part is not what a list has there, by kind of mistake."""
    der = base64.b64decode(b"".join((folder / "revoked.pem").read_bytes().splitlines()[1:-1]))
    ecdsa = bytes.fromhex("06082a8648ce3d040302")  # ecdsa-with-SHA256
    assert der.count(ecdsa) == 2
    number = bytes.fromhex("0603551d14")  # cRLNumber
    assert der.count(number) == 1
    changed = {
        "an unknown signature": der.replace(ecdsa, ecdsa[:-1] + b"\x7f"),
        "two kinds of signature": der.replace(ecdsa, ecdsa[:-1] + b"\x03", 1),
        "an extension that is none": der.replace(number, b"\x06\x03\x55\x1d\xff"),
        "cut short": der[:-7],
        "nothing": b"",
        "text": b"text",
    }
    frame = b"-----BEGIN X509 CRL-----\n%b\n-----END X509 CRL-----\n"
    return {kind: frame % base64.encodebytes(body) for kind, body in changed.items()} | {"no PEM": b"\xff\x00"}


@pytest.mark.parametrize(
    "kind",
    [
        "an unknown signature",
        "two kinds of signature",
        "an extension that is none",
        "cut short",
        "nothing",
        "text",
        "no PEM",
    ],
)
def test_whatever_cannot_be_read_of_a_list_pauses_and_lets_nobody_in(kind: str, folder: Path) -> None:
    certs.revoke(folder, "hospital")
    found, whole = lists(folder), (folder / "revoked.pem").read_bytes()
    (folder / "revoked.pem").write_bytes(strange(folder)[kind])
    lab = certs.read(folder / "lab.pem")
    assert found.holds(lab.serial_number) is None
    assert certs.distrust(lab, "lab", None, found) == "unreadable"
    with pytest.raises(InvalidInput):
        lists(folder)
    (folder / "revoked.pem").write_bytes(whole)
    assert certs.distrust(lab, "lab", None, found) is None


@pytest.mark.parametrize("error", [UnsupportedAlgorithm("ed448"), x509.InvalidVersion("7", 7), OverflowError("a date")])
def test_whatever_error_the_parser_has_for_a_list_it_pauses(error: Exception, folder: Path, monkeypatch) -> None:
    """Parts are parsed when they are asked for, by a library whose errors differ between versions."""
    found, lab = lists(folder), certs.read(folder / "lab.pem")
    parsed = mock.Mock(side_effect=error)
    monkeypatch.setattr(revoked_list, "_parse_list", parsed)
    (folder / "revoked.pem").write_bytes((folder / "revoked.pem").read_bytes() + b"\n")
    assert certs.distrust(lab, "lab", None, found) == "unreadable"
    assert parsed.called
    monkeypatch.undo()
    monkeypatch.setattr(RevocationList, "LOOK_AGAIN", 0.0)
    assert certs.distrust(lab, "lab", None, found) is None


@pytest.mark.parametrize("raw", ["", "[]", '{"a": 1}', '{"a": [1, "x"]}'])
def test_a_damaged_memory_of_lists_is_named(raw: str, folder: Path) -> None:
    lists(folder)
    memory = folder.parent / "store" / "revoked.json"
    assert next(iter(json.loads(memory.read_text()).values()))[0] == 1
    memory.write_text(raw)
    with pytest.raises(InvalidInput, match=r"revoked\.json cannot be read"):
        lists(folder)


def test_checking_ones_own_files_writes_nothing(folder: Path) -> None:
    tls = tls_in(folder, "coordinator").kept_in(folder.parent / "store")
    certs.check_own(tls, "coordinator")
    Grpc("127.0.0.1:0", tls).rehearse()
    assert not (folder.parent / "store").exists()
    tls.revocations()
    assert (folder.parent / "store" / "revoked.json").exists()


# ------------------------------------------------------------------------------------------------ hubs and parties


def test_a_hub_that_is_started_again_without_its_list_does_not_listen(tmp_path: Path) -> None:
    """By the library and by the command; a party's file says the same of its own list."""
    write_example(tmp_path / "all", 200, "localhost:0")
    place = tmp_path / "all" / "coordinator"
    file = FederationFile.load(place / "federation.toml")
    for _ in range(2):
        with Grpc("127.0.0.1:0", place / "certs").keep_in(place / "hub-store") as hub:
            hub.open(file)
    (place / "certs" / "revoked.pem").unlink()
    hub = Grpc("127.0.0.1:0", place / "certs", patience=0.1)
    fed = co.Federation.open(place / "federation.toml")
    with pytest.raises(InvalidInput, match="is gone"):
        hub.meet(fed, place / "hub-store")
    for more in ((), ("--dry-run",)):
        words = [place / "federation.toml", "--job", place / "job.toml", "--certs", place / "certs"]
        words += ["--store", place / "hub-store", "--listen", "127.0.0.1:0", "--output", tmp_path / "fit.json", *more]
        said = CliRunner().invoke(app, ["coordinator", "run", *map(str, words)])
        assert said.exit_code == 1
        assert "is gone, and this node has used a list" in " ".join(said.stderr.split())
    party = PartyFile.load(tmp_path / "all" / "airline" / "party.toml")
    assert party.tls.memory == party.store / "revoked.json"
