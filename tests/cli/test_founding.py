"""`colonnade federation new`: what it makes lets every node begin, and nobody holds what is another one's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.data.federation_file import FederationFile

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

SCHEMAS = {"clinic": co.Schema((co.Numeric("age", 0, 120),)), "lab": co.Schema((co.Numeric("crp", 0, 300),))}
NODES = ("coordinator", "clinic", "lab")


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*map(str, words)])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def found(folder: Path, *more: str) -> tuple[int, str, str]:
    parties = [word for name in SCHEMAS for word in ("--party", f"{name}={folder / name}.toml")]
    place = ("--on", "pid", "--hub", "localhost:7443", *(more or ("--label", "clinic.back")))
    return call("federation", "new", folder / "study", *parties, *place)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, schema in SCHEMAS.items():
        schema.to_toml(tmp_path / f"{name}.toml")
    return tmp_path


def test_every_node_gets_its_own_keys_and_the_same_federation_file(folder: Path) -> None:
    code, out, error = found(folder)
    assert code == 0, error
    files = [FederationFile.load(folder / "study" / name / "federation.toml") for name in NODES]
    assert len({file.digest for file in files}) == 1
    assert (files[0].on, files[0].label, files[0].hub) == ("pid", ("clinic", "back"), "localhost:7443")
    assert {name: member.schema for name, member in files[0].members.items()} == SCHEMAS
    assert all(member.policy == co.Policy(epsilon=2.0, delta=1e-6, least=500) for member in files[0].members.values())
    for name in NODES:
        keys = {path.name for path in (folder / "study" / name).rglob("*.key")}
        assert keys == {f"{name}.key", f"{name}.signing.key" if name == "coordinator" else "signing.key"}
        assert str(folder / "study" / name / "NEXT.md") in out
    assert {path.name for path in (folder / "study" / "authority").rglob("*.key")} == {"authority.key"}
    keys = list((folder / "study").rglob("*.key"))
    assert all(path.stat().st_mode & 0o077 == 0 for path in keys)
    told = (folder / "study" / "clinic" / "NEXT.md").read_text()
    assert "colonnade party run party.toml --dry-run" in told
    assert "its label 'back'" in told


def test_the_coordinator_is_told_which_keys_of_others_lie_with_it_and_to_delete_them(folder: Path) -> None:
    found(folder)
    home = folder / "study" / "coordinator"
    told = (home / "NEXT.md").read_text()
    assert "once, and delete it here" in told
    named = {home / word for word in re.findall(r"`(\.\./[^`]+\.key)`", told)}
    foreign = {path.resolve() for name in SCHEMAS for path in (folder / "study" / name).rglob("*.key")}
    assert {path.resolve() for path in named} == foreign


def test_what_happens_when_a_party_falls_silent_is_there_to_be_filled_in(folder: Path) -> None:
    co.Schema((co.Numeric("cost", 0, 9),)).to_toml(folder / "payer.toml")
    assert found(folder, "--label", "clinic.back", "--party", f"payer={folder / 'payer.toml'}")[0] == 0
    file = folder / "study" / "lab" / "federation.toml"
    file.write_text(file.read_text().replace("# deadline", "deadline").replace("# quorum", "quorum"))
    changed = FederationFile.load(file)
    assert changed.deadline == 120
    assert [member.policy.quorum for member in changed.members.values()] == [2, 2, 2]
    assert FederationFile.load(folder / "study" / "clinic" / "federation.toml").deadline is None


def test_a_label_that_is_a_word_is_named_in_the_federation_file(folder: Path) -> None:
    code, _, error = found(folder, "--label", "clinic.back=yes")
    assert code == 0, error
    file = FederationFile.load(folder / "study" / "clinic" / "federation.toml")
    assert (file.label, file.classes) == (("clinic", "back"), ("not yes", "yes"))
    assert (
        "its label 'back': 'yes' is the class that is learnt" in (folder / "study" / "clinic" / "NEXT.md").read_text()
    )


@pytest.mark.chance(0, "dry runs plan and price: whether they pass depends on no noise")
def test_what_it_makes_passes_the_dry_runs_of_party_and_coordinator(folder: Path, monkeypatch) -> None:
    assert found(folder)[0] == 0
    rows = pl.DataFrame({"pid": range(600), "age": [50.0] * 600, "crp": [9.0] * 600, "back": [0, 1] * 300})
    for name, columns in (("clinic", ["pid", "age", "back"]), ("lab", ["pid", "crp"])):
        monkeypatch.chdir(folder / "study" / name)
        rows.select(columns).write_csv("table.csv")
        code, _, error = call("party", "run", "party.toml", "--dry-run")
        assert code == 0, error
    monkeypatch.chdir(folder / "study" / "coordinator")
    words = ("coordinator", "run", "federation.toml", "--job", "job.toml", "--dry-run", "--rows", "600", "--json")
    code, out, error = call(*words)
    assert code == 0, error
    assert "private Gram" in json.loads(out)["method"]


def test_a_schema_read_off_rows_a_stranger_or_a_folder_in_use_is_refused(folder: Path) -> None:
    for words, place, remedy in (
        (("--label", "back"), "--label back", "clinic, lab"),
        ((), "is not empty", "a new folder"),
    ):
        code, _, error = found(folder, *words) if words else (found(folder), found(folder))[1]
        assert code == 1
        assert place in error
        assert remedy in error
    co.Schema(SCHEMAS["lab"].columns, source="data").to_toml(folder / "lab.toml")
    code, _, error = found(folder)
    assert code == 1
    assert 'remove source = "data"' in error
