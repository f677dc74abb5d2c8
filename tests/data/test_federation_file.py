"""The federation file: what it says comes back, and a mistake in it is named."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key, pin_coordinator
from colonnade.privacy.block import ROW, Unit

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture
def frames() -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(0)
    key = [f"k{i:03}" for i in range(40)]
    return {
        "hos pital": pl.DataFrame({"key": key, "age": rng.uniform(0, 90, 40), "ill": rng.integers(0, 2, 40)}),
        "lab": pl.DataFrame({"key": key[::-1], "kind": [["a", "b"][i % 2] for i in range(40)]}),
    }


@pytest.fixture
def federation(frames: dict[str, pl.DataFrame]) -> co.Federation:
    schemas = {
        "hos pital": co.Schema((co.Numeric("age", 0.0, 120.0),)),
        "lab": co.Schema((co.Categorical("kind", ("a", "b", "c")),), row_norm=1.0),
    }
    policies = {"lab": co.Policy(epsilon=1.0, delta=1e-6)}
    return co.Federation.from_frames(frames, "key", ("hos pital", "ill"), schemas=schemas, policies=policies)


def test_a_federation_file_comes_back_as_it_was_written(federation: co.Federation, tmp_path: Path) -> None:
    file = federation.to_file()
    file.save(tmp_path / "federation.toml")
    assert file == FederationFile.load(tmp_path / "federation.toml")


def test_opening_a_file_over_frames_gives_the_same_federation(
    federation: co.Federation, frames: dict[str, pl.DataFrame], tmp_path: Path
) -> None:
    federation.to_file().save(tmp_path / "federation.toml")
    opened = co.Federation.open(tmp_path / "federation.toml", frames)
    assert federation.roster() == opened.roster()
    assert {n: p.policy for n, p in federation.parties.items()} == {n: p.policy for n, p in opened.parties.items()}
    assert [p.block.digest() for p in federation.parties.values()] == [
        p.block.digest() for p in opened.parties.values()
    ]
    np.testing.assert_array_equal(federation.labels, opened.labels)


def test_two_files_that_differ_in_anything_have_different_digests(federation: co.Federation) -> None:
    """But for where the hub is: parties that reach it by different names hold the same terms."""
    file = replace(federation.to_file(), unit=Unit("patient", 2), people="lab")
    lab = file.members["lab"]
    members = {
        "schema": co.Schema((co.Categorical("kind", ("a", "b")),), row_norm=1.0),
        "policy": co.Policy(epsilon=1.0, delta=1e-5),
        "key": new_key()[0],
        "rows": 40,
        "certificate": "sha256:" + "0" * 64,
        "address": "lab.example.org:7444",
    }
    changes = {
        "on": "person",
        "label": ("hos pital", "well"),
        "unit": Unit("patient", 3),
        "people": "hos pital",
        "members": dict(reversed(file.members.items())),
        "coordinator": new_key()[0],
        "deadline": 60,
    }
    made = [file, *(replace(file, **{name: value}) for name, value in changes.items())]
    made += [replace(file, unit=Unit("person", 2))]
    plain = {name: replace(member, schema=None, columns=3) for name, member in file.members.items()}
    matrices = replace(file, on=None, rows=40, members=plain)
    made += [matrices, replace(matrices, rows=41)]
    made += [replace(matrices, rows=None, by="rows", members=with_rows(matrices))]
    made += [replace(matrices, members={**plain, "lab": replace(plain["lab"], columns=4)})]
    made += [replace(file, members={**file.members, "lab": replace(lab, **{n: v})}) for n, v in members.items()]
    made.append(replace(file, members={**file.members, "lab": replace(lab, address="lab.example.org:7445")}))
    psi = replace(file, align="psi", members={n: replace(m, most=9) for n, m in file.members.items()})
    made += [psi, replace(psi, members={**psi.members, "lab": replace(psi.members["lab"], most=10)})]
    rows = replace(file, unit=ROW, people=None)  # offset and weight go with no unit
    holder = file.label[0]
    beside = [{"offset": (holder, "x")}, {"weight": (holder, "x")}, {"offset": (holder, "z")}, {}]
    made += [replace(rows, **given) for given in beside]
    named = [{"positive": "yes"}, {"positive": "yes", "negative": "no"}, {"positive": "no", "negative": "yes"}]
    made += [replace(file, **given) for given in named]
    assert len({one.digest for one in made}) == len(made)
    assert {field.name for field in fields(Member)} <= {*members, "columns", "most"}
    assert {field.name for field in fields(FederationFile)} <= {
        *changes,
        "rows",
        "by",
        "hub",
        "align",
        "offset",
        "weight",
        "positive",
        "negative",
    }
    assert replace(file, hub="hub.example.org:7443").digest == file.digest


def with_rows(file: FederationFile) -> dict[str, Member]:
    return {name: replace(member, rows=20) for name, member in file.members.items()}


def test_a_coordinator_with_a_partys_key_is_refused(federation: co.Federation) -> None:
    """A party knows masks, and the coordinator sees what is masked: together they read rows."""
    file = federation.to_file()
    for member in file.members.values():
        with pytest.raises(co.InvalidInput, match="the coordinator has a party's key"):
            replace(file, coordinator=member.key)
    assert replace(file, coordinator=new_key()[0]).coordinator


@pytest.mark.parametrize(
    "version",
    [
        "version = 1",
        "version=1  # first",
        "  version = 1",
        '"version" = 1',
        "version = 1\r",
        "# version = 0\nversion = 1",
    ],
)
def test_the_coordinators_key_is_written_however_the_file_is(version: str, tmp_path: Path) -> None:
    path, pinned = tmp_path / "federation.toml", new_key()[0]
    parties = "".join(f'\n[parties.{name}]\ncolumns = 2\nkey = "{new_key()[0]}"\n' for name in "ab")
    path.write_bytes(f'rows = 9  # of them\nlabel = ["b", "y"]\n{version}\n{parties}'.encode())
    before = FederationFile.load(path)
    assert pin_coordinator(path, pinned)
    assert FederationFile.load(path) == replace(before, coordinator=pinned)
    assert "# of them" in path.read_text()
    assert not pin_coordinator(path, pinned)
    with pytest.raises(co.InvalidInput, match="pins another key"):
        pin_coordinator(path, new_key()[0])


def test_two_new_keys_differ() -> None:
    assert new_key()[0] != new_key()[0]


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        (lambda t: t.replace("version = 1", "version = 9"), "reads version = 1"),
        (lambda t: t.replace("[parties", "[people"), r"add one for each party"),
        (lambda t: t.replace('label = ["hos pital"', 'label = ["nobody"'), "not among the parties"),
        (lambda t: t.replace('on = "key"', ""), "name the key column"),
        (lambda t: t.replace("ed25519:", "rsa:"), "64 hexadecimal digits"),
        (
            lambda t: t.replace("exact = true", "exakt = true"),
            r"lab.\.exakt|exakt is unknown; the nearest name is 'exact'",
        ),
        (lambda t: t.replace("lab.schema.toml", "gone.toml"), "could not be read"),
        (lambda t: t + "\nnot toml", "not a TOML file"),
        (lambda t: t.replace("delta = 1e-06", ""), "both epsilon and delta"),
    ],
)
def test_a_mistake_in_the_file_is_named(federation: co.Federation, tmp_path: Path, change, advice: str) -> None:
    path = tmp_path / "federation.toml"
    federation.to_file().save(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(co.InvalidInput, match=advice):
        FederationFile.load(path)


def test_parties_that_run_elsewhere_need_frames_or_an_engine(federation: co.Federation, tmp_path: Path) -> None:
    federation.to_file().save(tmp_path / "federation.toml")
    away = co.Federation.open(tmp_path / "federation.toml")
    with pytest.raises(co.InvalidInput, match=r"pass engine=co.Grpc\(...\), or open it with"):
        co.fit(away, co.Problem(co.Logistic(), co.L1Ball(1.0)))
    with pytest.raises(co.HeldByParty, match="did not leave it"):
        _ = away.labels


@pytest.mark.parametrize("count", [10**25, -1, True, 1.5, "3"])
def test_a_count_that_no_machine_holds_or_that_is_none_is_refused(count: object) -> None:
    with pytest.raises(co.InvalidInput, match="must be a whole number, 100,000,000 at most"):
        Member(None, co.Policy(), new_key()[0], columns=count)
    member = Member(None, co.Policy(), new_key()[0], columns=3)
    with pytest.raises(co.InvalidInput, match="rows must be a whole number"):
        FederationFile({"a": member}, None, ("a", "y"), rows=count)


def test_a_hub_that_is_no_text_is_refused() -> None:
    member = Member(None, co.Policy(), new_key()[0], columns=3)
    with pytest.raises(co.InvalidInput, match="hub must be a text"):
        FederationFile({"a": member}, None, ("a", "y"), rows=3, hub=1.5)
