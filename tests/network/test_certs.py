"""The certificate authority, its files, and `colonnade certs`."""

from __future__ import annotations

import datetime
import json
import os
import stat
import subprocess
import time
from pathlib import Path
from unittest import mock

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from typer.testing import CliRunner

from colonnade.cli.certs import app
from colonnade.errors import InvalidInput, StoreError
from colonnade.network import certs

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certs.init(tmp_path / "certs")
    return tmp_path / "certs"


def serials(folder: Path) -> set[int]:
    return certs.revoked_serials(folder / "revoked.pem", [certs.read(folder / "authority.pem")])


# ------------------------------------------------------------------------------------------------ issuing


def test_a_certificate_is_signed_by_the_authority_and_carries_the_name(folder: Path) -> None:
    tls = certs.issue(folder, "hospital", hosts=["node.example.org"])
    authority, certificate = certs.read(tls.authority), certs.read(tls.certificate)
    certificate.verify_directly_issued_by(authority)  # raises if not
    assert {"hospital", "node.example.org"} == {*certs.uri_names(certificate), *certs.dns_names(certificate)}
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert isinstance(certificate.public_key().curve, ec.SECP256R1)


def test_openssl_agrees_about_the_chain_the_purpose_and_the_revoked(folder: Path) -> None:
    """An independent implementation reads the same from the files."""
    hospital, hub = certs.issue(folder, "hospital"), certs.issue(folder, "coordinator")

    def verified(path: Path, purpose: str) -> bool:
        lists = ["-crl_check", "-CRLfile", str(folder / "revoked.pem")]
        command = [
            "openssl",
            "verify",
            "-CAfile",
            str(folder / "authority.pem"),
            "-purpose",
            purpose,
            *lists,
            str(path),
        ]
        try:
            return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
        except FileNotFoundError:
            pytest.skip("openssl is not installed")

    assert verified(hospital.certificate, "sslclient")
    assert not verified(hospital.certificate, "sslserver")  # a party cannot pose as the hub
    assert verified(hub.certificate, "sslserver")
    certs.revoke(folder, "hospital")
    assert not verified(hospital.certificate, "sslclient")
    assert verified(hub.certificate, "sslserver")


def test_only_the_coordinator_and_who_has_a_host_may_accept_connections(folder: Path) -> None:
    for name, hosts, serves in (("coordinator", (), True), ("hospital", (), False), ("bank", ("bank.example",), True)):
        certificate = certs.read(certs.issue(folder, name, hosts=hosts).certificate)
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert serves == (ExtendedKeyUsageOID.SERVER_AUTH in uses)
        assert ExtendedKeyUsageOID.CLIENT_AUTH in uses


def test_names_with_spaces_and_accents_come_back_unchanged(folder: Path) -> None:
    for name in ("Hôpital du Nord", "a:b%20c", "x" * 64):
        assert (name,) == certs.inspect(certs.issue(folder, name).certificate).names


@pytest.mark.parametrize("name", ["", " hospital", "a/b", "a\nb", "x" * 65, "authority", "revoked"])
def test_a_name_that_cannot_be_certified_is_refused_and_nothing_is_written(folder: Path, name: str) -> None:
    before = sorted(folder.rglob("*"))
    with pytest.raises(InvalidInput):
        certs.issue(folder, name)
    assert before == sorted(folder.rglob("*"))


def test_keys_are_readable_by_their_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        certs.init(tmp_path / "certs")
        tls = certs.issue(tmp_path / "certs", "hospital")
    finally:
        os.umask(before)
    for path in (tls.key, tmp_path / "certs" / "authority.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list((tmp_path / "certs").glob(".*")) == []


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    certs.init(tmp_path / "certs", days=10)
    tls = certs.issue(tmp_path / "certs", "hospital", days=365)
    assert certs.read(tls.authority).not_valid_after_utc == certs.read(tls.certificate).not_valid_after_utc


def test_an_authority_and_a_certificate_are_not_overwritten_by_mistake(folder: Path) -> None:
    tls = certs.issue(folder, "hospital")
    before = tls.key.read_bytes(), (folder / "authority.key").read_bytes()
    with pytest.raises(InvalidInput, match="--replace"):
        certs.issue(folder, "hospital")
    with pytest.raises(InvalidInput, match="already"):
        certs.init(folder)
    assert before == (tls.key.read_bytes(), (folder / "authority.key").read_bytes())
    certs.issue(folder, "hospital", replace=True)
    assert before[0] != tls.key.read_bytes()
    certs.load(tls)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make"):
        certs.init(tmp_path / "file" / "certs")
    with pytest.raises(InvalidInput, match="certs init"):
        certs.issue(tmp_path, "hospital")


# ------------------------------------------------------------------------------------------------ revoking


def test_revoking_takes_back_every_certificate_of_a_name_and_no_other(folder: Path) -> None:
    mine = [certs.read(certs.issue(folder, "hospital", replace=True).certificate).serial_number for _ in range(3)]
    certs.issue(folder, "lab")
    assert set() == serials(folder)
    assert certs.revoke(folder, "hospital") == 3
    assert set(mine) == serials(folder)
    with pytest.raises(InvalidInput, match="nothing to 'bank'"):
        certs.revoke(folder, "bank")


def test_what_was_revoked_before_stays_revoked(folder: Path) -> None:
    first, second = (certs.read(certs.issue(folder, name).certificate).serial_number for name in ("a", "b"))
    certs.revoke(folder, "a")
    certs.revoke(folder, "b")
    assert {first, second} == serials(folder)


def test_a_list_that_another_authority_signed_is_refused(folder: Path, tmp_path: Path) -> None:
    certs.init(tmp_path / "other")
    with pytest.raises(InvalidInput, match="not signed by the authority"):
        certs.revoked_serials(tmp_path / "other" / "revoked.pem", [certs.read(folder / "authority.pem")])


def test_a_list_that_is_out_of_date_is_refused(folder: Path) -> None:
    key = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), password=None)
    authority, now = certs.read(folder / "authority.pem"), datetime.datetime.now(datetime.UTC)
    old = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now - datetime.timedelta(days=9))
        .next_update(now - datetime.timedelta(days=2))
        .sign(key, hashes.SHA256())
    )
    (folder / "revoked.pem").write_bytes(old.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(InvalidInput, match="newest list"):
        serials(folder)


def test_a_list_is_read_again_when_it_changes_and_a_damaged_one_says_nothing_of_anybody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certs.RevocationList, "LOOK_AGAIN", 0.0)
    serial = certs.read(certs.issue(folder, "hospital").certificate).serial_number
    revoked = certs.RevocationList(folder / "revoked.pem", folder / "authority.pem")
    assert not revoked.holds(serial)
    certs.revoke(folder, "hospital")
    assert revoked.holds(serial)
    assert not revoked.holds(serial + 1)
    whole = (folder / "revoked.pem").read_bytes()
    for half in (b"", whole[: len(whole) // 2], b"damaged"):
        (folder / "revoked.pem").write_bytes(half)
        assert revoked.holds(serial + 1) is None
        assert revoked.holds(serial) is True  # nobody comes back from a list
    (folder / "revoked.pem").unlink()
    assert revoked.holds(serial + 1) is None
    (folder / "revoked.pem").write_bytes(whole)
    assert revoked.holds(serial + 1) is False


# ------------------------------------------------------------------------------------------------ trusting


def test_a_name_or_a_pinned_key_is_proof_and_anything_else_is_not(folder: Path) -> None:
    hospital = certs.read(certs.issue(folder, "hospital").certificate)
    lab = certs.read(certs.issue(folder, "lab").certificate)
    assert None is certs.distrust(hospital, "hospital", None, None)
    assert certs.distrust(hospital, "lab", None, None) == "name"
    assert None is certs.distrust(hospital, "lab", certs.fingerprint(hospital), None)
    assert certs.distrust(hospital, "hospital", certs.fingerprint(lab), None) == "fingerprint"
    certs.revoke(folder, "hospital")
    revoked = certs.RevocationList(folder / "revoked.pem", folder / "authority.pem")
    assert certs.distrust(hospital, "hospital", certs.fingerprint(hospital), revoked) == "revoked"
    (folder / "revoked.pem").write_text("")
    time.sleep(2 * certs.RevocationList.LOOK_AGAIN)
    assert certs.distrust(lab, "lab", None, revoked) == "unreadable"


def test_a_host_that_is_called_as_another_party_is_no_proof_of_being_it(folder: Path) -> None:
    """A party may listen at a host of any name; whom its certificate is about is said by its URI, where it has one."""
    lab = certs.read(certs.issue(folder, "lab", hosts=["hospital", "lab.example.org"]).certificate)
    assert certs.dns_names(lab) == ["hospital", "lab.example.org"]
    assert certs.distrust(lab, "lab", None, None) is None
    for other in ("hospital", "lab.example.org", "coordinator"):
        assert certs.distrust(lab, other, None, None) == "name"


def test_no_party_is_given_the_hubs_name_as_a_host(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="could pose as the hub"):
        certs.issue(folder, "lab", hosts=["lab.example.org", "coordinator"])
    assert not (folder / "lab.pem").exists()
    assert "coordinator" in certs.dns_names(certs.read(certs.issue(folder, "coordinator").certificate))


def test_a_common_name_alone_is_no_proof(folder: Path) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hospital")])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - datetime.timedelta(days=2))
    for ends, expected in ((1, "name"), (-1, "expired")):
        made = builder.not_valid_after(now + datetime.timedelta(days=ends)).sign(key, hashes.SHA256())
        assert expected == certs.distrust(made, "hospital", None, None)


def test_the_fingerprint_is_that_of_the_public_key_as_openssl_computes_it(folder: Path) -> None:
    tls = certs.issue(folder, "hospital")
    try:
        spki = subprocess.run(
            ["openssl", "pkey", "-in", str(tls.key), "-pubout", "-outform", "DER"], capture_output=True, timeout=30
        ).stdout
        digest = subprocess.run(
            ["openssl", "dgst", "-sha256", "-r"], input=spki, capture_output=True, timeout=30
        ).stdout
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    assert digest.split()[0].decode() == certs.inspect(tls.certificate).fingerprint


# ------------------------------------------------------------------------------------------------ loading


def test_files_that_do_not_fit_together_are_refused_with_the_reason(folder: Path) -> None:
    hospital, lab = certs.issue(folder, "hospital"), certs.issue(folder, "lab")
    certs.load(hospital)
    cases = {
        "not the key of": certs.Tls(hospital.certificate, lab.key, hospital.authority),
        "no certificate in PEM": certs.Tls(hospital.key, hospital.key, hospital.authority),
        "no private key": certs.Tls(hospital.certificate, hospital.certificate, hospital.authority),
        "cannot read": certs.Tls(folder / "nobody.pem", hospital.key, hospital.authority),
    }
    hospital.certificate.chmod(0o600)  # so that the case of "no private key" is not refused for its mode
    for reason, tls in cases.items():
        with pytest.raises(InvalidInput, match=reason):
            certs.load(tls)


def test_a_certificate_counts_from_its_first_second_to_its_last_and_five_minutes_before(folder: Path) -> None:
    """Of its own a node reads the same dates as a peer does: the five minutes are for clocks that differ."""
    tls = certs.issue(folder, "hospital", days=3)
    certificate = certs.read(tls.certificate)
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    second, clocks = datetime.timedelta(seconds=1), datetime.timedelta(minutes=5)
    assert last - first - clocks == datetime.timedelta(days=3)
    for now, counts in (
        (first - clocks - second, False),
        (first - clocks, True),
        (first, True),
        (last, True),
        (last + second, False),
    ):
        with mock.patch("colonnade.network.certs._now", return_value=now):
            assert certs.distrust(certificate, "hospital", None, None) == (None if counts else "expired")
            if counts:
                assert certs.load(tls).certificate == certificate
            else:
                with pytest.raises(InvalidInput, match="not now; issue a new one, or set the clock"):
                    certs.load(tls)
    for days in (0, -1):
        with pytest.raises(InvalidInput, match="at least one day"):
            certs.issue(folder, "lab", days=days)


def test_a_key_that_everybody_can_read_is_refused(folder: Path) -> None:
    tls = certs.issue(folder, "hospital")
    tls.key.chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        certs.load(tls)


# ------------------------------------------------------------------------------------------------ the command


def call(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return " ".join((result.output if code == 0 else result.stderr).split())


def test_the_command_makes_an_authority_issues_shows_and_revokes(tmp_path: Path) -> None:
    place = tmp_path / "certs"
    assert f"colonnade certs issue {place} coordinator" in call("init", place).replace("\n", "")
    call("issue", place, "coordinator", "--host", "hub.example.org")
    told = call("issue", place, "hospital", "--days", 90)
    card = certs.inspect(place / "hospital.pem")
    assert f"fingerprint {card.fingerprint}" in told
    assert 89 <= (card.ends - datetime.datetime.now(datetime.UTC)).days <= 90
    assert "hospital: 89 days left" in call("show", place / "hospital.pem")
    assert "coordinator, hub.example.org" in call("show", place)
    assert "1 certificate of hospital revoked" in call("revoke", place, "hospital")
    rows = json.loads(CliRunner().invoke(app, ["show", str(place), "--json"]).output)
    states = {row["names"][0]: row["state"] for row in rows}
    assert {"the authority", "coordinator", "hospital"} == set(states)
    assert states["hospital"] == "revoked"
    assert "days left" in states["coordinator"]


def test_a_mistake_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    assert "colonnade certs init" in call("issue", tmp_path, "hospital", code=1)
    (tmp_path / "some.pem").write_text("text")
    assert "no certificate in PEM form" in call("show", tmp_path / "some.pem", code=1)


def test_every_command_teaches_by_an_example() -> None:
    for command in ("init", "issue", "revoke", "show"):
        assert f"colonnade certs {command} " in call(command, "--help")


@pytest.mark.parametrize("raw", [b"", b"no key", b"ab" * 31, "schlüssel".encode()])
def test_a_damaged_signing_key_is_named_and_not_made_anew(raw: bytes, folder: Path) -> None:
    """Parties' files pin the old one."""
    (folder / certs.SIGNING_KEY).write_bytes(raw)
    with pytest.raises(InvalidInput, match="is not a signing key"):
        certs.keep_signing_key(folder)
    assert (folder / certs.SIGNING_KEY).read_bytes() == raw
