"""Claims about the coordinator's signing key: made once, kept when a certificate is renewed, pinned in the federation file,
and asked for before anything that is sealed to it is sent or paid.
"""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

import colonnade as co
from colonnade.cli import app
from colonnade.data.federation_file import FederationFile, new_key
from colonnade.network.certs import SIGNING_KEY, tls_in
from colonnade.network.hub import Grpc
from colonnade.network.party_service import OK
from tests.helpers.contract import federation
from tests.helpers.organisations import Organisations
from tests.helpers.stub_hub import (
    SECURE,
    STAR,
    Straw,
    entries,
    proposal,
    run_of,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

FILE = """# agreed in March
version = 1
label = ["bank", "default"]
rows = 20

[parties.bank]
key = "{}"
columns = 3
[parties.shop]
key = "{}"
columns = 2
"""


def called(*words: object, fails: bool = False) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert (done.exit_code, done.exception is None) == ((1, False) if fails else (0, True)), done.output
    assert not fails or isinstance(done.exception, SystemExit), done.exception
    return done.stderr if fails else done.stdout


def printed(*words: object) -> dict:
    return json.loads(called(*words, "--json"))


@pytest.fixture
def authority(tmp_path: Path) -> Path:  # noqa: F811
    called("certs", "init", tmp_path / "certs")
    return tmp_path / "certs"


@pytest.fixture
def file(tmp_path: Path) -> Path:  # noqa: F811
    path = tmp_path / "federation.toml"
    path.write_text(FILE.format(new_key()[0], new_key()[0]))
    return path


# ------------------------------------------------------------------------------------------------ made and kept


def test_a_coordinators_certificate_comes_with_a_signing_key_that_a_renewal_keeps(authority: Path) -> None:
    first = printed("certs", "issue", authority, "coordinator")
    key = authority / SIGNING_KEY
    assert first["signing"] == str(key)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    secret = key.read_bytes()
    again = printed("certs", "issue", authority, "coordinator", "--replace")
    assert again["fingerprint"] != first["fingerprint"]
    assert again["pin"] == first["pin"]
    assert key.read_bytes() == secret
    assert secret.decode().strip() not in json.dumps([first, again])


def test_no_other_node_gets_a_signing_key_here(authority: Path) -> None:
    assert "pin" not in printed("certs", "issue", authority, "bank")
    assert not (authority / SIGNING_KEY).exists()


# ------------------------------------------------------------------------------------------------ pinned


def test_a_key_is_pinned_once_and_nothing_else_changes_in_the_file(authority: Path, file: Path) -> None:
    key, before = printed("certs", "issue", authority, "coordinator")["pin"], file.read_text()
    assert printed("federation", "pin", file, "--certs", authority) == {
        "coordinator": key,
        "file": str(file),
        "changed": True,
    }
    after = file.read_text()
    assert after == before.replace("version = 1\n", f'version = 1\ncoordinator = "{key}"\n')
    assert FederationFile.load(file).coordinator == key
    assert printed("federation", "pin", file, "--certs", authority)["changed"] is False
    assert called("federation", "pin", file, "--certs", authority, "--quiet") == key + "\n"
    assert file.read_text() == after


def test_a_key_is_made_where_there_is_none(authority: Path, file: Path) -> None:
    key = printed("federation", "pin", file, "--certs", authority)["coordinator"]
    assert printed("certs", "issue", authority, "coordinator")["pin"] == key
    assert printed("federation", "pin", file, "--certs", authority)["changed"] is False


def test_another_pinned_key_stays(authority: Path, file: Path) -> None:
    printed("federation", "pin", file, "--certs", authority)
    (authority / SIGNING_KEY).unlink()
    before = file.read_text()
    assert "pins another key of the coordinator" in called("federation", "pin", file, "--certs", authority, fails=True)
    assert file.read_text() == before


@pytest.mark.parametrize("line", ["", "version = 2\n", "# version = 1\n"])
def test_a_file_without_its_version_is_refused_and_stays(line: str, authority: Path, file: Path) -> None:
    file.write_text(file.read_text().replace("version = 1\n", line))
    before = file.read_text()
    assert "version = 1" in called("federation", "pin", file, "--certs", authority, fails=True)
    assert file.read_text() == before


@pytest.mark.parametrize(
    "line", ["  version = 1", "version=1 # the first", '"version" = 1', "'version' = 1", '"v\\u0065rsion" = 1']
)
def test_a_version_in_any_form_that_toml_knows_is_enough(line: str, authority: Path, file: Path) -> None:
    file.write_text(file.read_text().replace("version = 1", line))
    told = printed("federation", "pin", file, "--certs", authority)
    assert FederationFile.load(file).coordinator == told["coordinator"]


@pytest.mark.parametrize("content", ["", "no key", "abcd", "é"])
def test_a_file_that_is_no_signing_key_is_refused_in_words_and_stays(content: str, authority: Path, file: Path) -> None:
    path, before = authority / SIGNING_KEY, file.read_text()
    path.write_text(content, encoding="utf-8")
    for words in (("federation", "pin", file, "--certs", authority), ("certs", "issue", authority, "coordinator")):
        assert "is not a signing key" in called(*words, fails=True)
    assert path.read_text(encoding="utf-8") == content
    assert file.read_text() == before


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, file: Path) -> None:  # noqa: F811
    before = file.read_text()
    assert "nowhere" in called("federation", "pin", file, "--certs", tmp_path / "nowhere", fails=True)
    assert file.read_text() == before


# ------------------------------------------------------------------------------------------------ asked for


class Strict(Straw):
    """A hub without a network that reads its signing key as a real one does."""

    @property
    def tls(self):
        return tls_in(self.made.folder / "certs", "coordinator")

    def identity(self) -> bytes:
        return Grpc.identity(self)


SPOILED = {
    "missing": (None, r"cannot read .*coordinator\.signing\.key.*`colonnade federation pin` makes a key"),
    "no key": ("nothing", r"coordinator\.signing\.key is not a signing key"),
    "another": (new_key()[1].hex(), "is not the key that the federation file pins.*Use the pinned one"),
}


def untouched(straw: Straw) -> bool:
    """No party has paid or reserved anything."""
    services = straw.services.values()
    return all(not entries(one) and not one.ledger.open_runs() and not one.log.rows(kind="open") for one in services)


@pytest.mark.parametrize(("content", "words"), SPOILED.values(), ids=SPOILED)
def test_a_hub_whose_signing_key_is_not_the_pinned_one_says_what_to_do(content, words, tmp_path):  # noqa: F811
    with Strict(Organisations.of(federation(SECURE), tmp_path)) as hub:
        path = tmp_path / "certs" / SIGNING_KEY
        true = path.read_text()
        path.unlink() if content is None else path.write_text(content)
        with pytest.raises(co.InvalidInput, match=words):
            run_of(hub, SECURE, tmp_path / "hub")
        assert untouched(hub)
        run_of(hub, STAR, tmp_path / "hub", "open")  # a method that seals nothing needs no key
        path.write_text(true)
        run_of(hub, SECURE, tmp_path / "hub", "sealed")


def unpinned(folder: Path) -> Organisations:
    made = Organisations.of(federation(SECURE), folder)
    made.file = replace(made.file, coordinator=None)
    return made


def test_a_party_whose_file_pins_nothing_refuses_before_anything_is_spent(tmp_path):  # noqa: F811
    with Straw(unpinned(tmp_path)) as hub:
        for question in ("consider", "reserve"):
            for name in hub.made.names:
                assert hub.raw(name, question, proposal(SECURE)).head["code"] != OK
        assert untouched(hub)
        assert hub.raw("party0", "consider", proposal(STAR)).head["code"] == OK


def test_a_hub_whose_file_pins_nothing_says_how_to_pin_and_asks_nobody(tmp_path):  # noqa: F811
    with Straw(unpinned(tmp_path)) as hub:
        with pytest.raises(co.InvalidInput, match=r"colonnade federation pin FEDERATION\.toml"):
            run_of(hub, SECURE, tmp_path / "hub")
        assert untouched(hub)
