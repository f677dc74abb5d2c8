"""Claims about dry runs between organisations: they refuse what a run refuses, say what it costs, and leave no trace."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.data.federation_file import FederationFile, Member
from colonnade.errors import BudgetExhausted
from colonnade.network import certs
from colonnade.network.hub import Grpc
from colonnade.network.party_file import PartyFile, write_key
from colonnade.runs.config import load_job
from colonnade.runs.rehearsal import open_service, rehearse, suppose_rows
from tests.helpers.organisations import COORDINATOR_KEY, free_port

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS, FEWEST = 60, 20
SCHEMAS = {
    "ward": co.Schema((co.Categorical("sex", ("f", "m")),)),
    "lab": co.Schema((co.Numeric("crp", 0, 100, missing=0),)),
}
JOB = """[problem]
loss = "Logistic"
penalty = { type = "Ridge", a = 1e-3 }

[method]
type = "PrivateGram"

[privacy]
epsilon = 1.0
delta = 1e-6
trust = "secure"
"""
PARTY = """version = 1
name = "{name}"
federation = "federation.toml"
store = "store"
key = "signing.key"
certs = "../certs"
approve = "ask"

[data]
source = "table.csv"
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("authority") / "certs"
    certs.init(folder)
    for name in ("coordinator", *SCHEMAS):
        certs.issue(folder, name, hosts=["localhost"] if name == "coordinator" else ())
    return folder


@pytest.fixture
def place(tmp_path, authority, monkeypatch) -> Path:
    """Two organisations and a coordinator, ready to run, none of which may call anybody."""
    for file in authority.rglob("*.*"):
        target = tmp_path / "certs" / file.relative_to(authority)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
        target.chmod(0o600)
    tables = {
        "ward": ["pid,sex,sick", *(f"{i:04},{'fm'[i % 2]},{i % 2}" for i in range(ROWS))],
        "lab": ["pid,crp", *(f"{i:04},{i}" for i in range(ROWS))],
    }
    keys = {}
    for name, lines in tables.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.csv").write_text("\n".join(lines) + "\n")
        (tmp_path / name / "party.toml").write_text(PARTY.format(name=name))
        keys[name] = write_key(tmp_path / name / "signing.key")
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "job.toml").write_text(JOB)
    agreed_on(tmp_path, keys)

    def nobody(*_: object, **__: object) -> None:
        raise AssertionError("a dry run dials nobody")

    monkeypatch.setattr(socket, "create_connection", nobody)
    return tmp_path


def agreed_on(place: Path, keys: dict[str, str], epsilon: float = 2.0, least: int | None = FEWEST) -> None:
    policy = co.Policy(epsilon=epsilon, delta=1e-6, least=least)
    members = {name: Member(SCHEMAS[name], policy, keys[name]) for name in SCHEMAS}
    for name in (*SCHEMAS, "hub"):
        hub = f"localhost:{free_port()}"
        pinned = FederationFile(members, "pid", ("ward", "sick"), hub=hub, coordinator=COORDINATOR_KEY)
        pinned.save(place / name / "federation.toml")


def changed_file(place: Path, **policy: object) -> None:
    keys = {name: member.key for name, member in FederationFile.load(place / "hub" / "federation.toml").members.items()}
    agreed_on(place, keys, **policy)  # type: ignore[arg-type]  # as the tests below write it


def changed(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in folder.rglob("*")
    }


def call(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, " ".join(done.stderr.split())


def hub(place: Path, *words: object) -> tuple[int, str, str]:
    at = place / "hub"
    places = ("--certs", place / "certs", "--store", at / "store", "--output", at / "fit.json", "--patience", 1)
    return call("coordinator", "run", at / "federation.toml", "--job", at / "job.toml", *places, *words)


def party(place: Path, name: str, *words: object) -> tuple[int, str, str]:
    return call("party", "run", place / name / "party.toml", *words)


# ------------------------------------------------------------------------------------------------ the coordinator


@pytest.mark.chance(0, "plan, price and texts of a run that is not made: no drawn figure is compared")
def test_a_coordinators_dry_run_says_plan_price_and_what_it_cannot_know_and_leaves_no_trace(place):
    before = digests(place)
    code, out, error = hub(place, "--dry-run", "--json")
    assert code == 0, error
    said = json.loads(out)
    assert (said["rows"], said["epsilon"], said["delta"]) == (FEWEST, pytest.approx(1.0, rel=1e-6), 1e-6)
    assert {line["party"] for line in said["leaves"]} == set(SCHEMAS)
    assert f"these figures suppose {FEWEST}" in said["unknown"][0]
    assert "their ledgers have room" in " ".join(said["unknown"])
    code, out, error = hub(place, "--dry-run", "--rows", ROWS)
    assert (code, error) == (0, "nothing was sent, and nothing was spent")
    assert "would release over 60 rows" in out
    assert "epsilon 1 at delta 1e-06" in out
    assert "not known" in out
    assert before == digests(place)


def a_port_in_use(place: Path) -> contextlib.AbstractContextManager[object]:
    held = socket.socket()
    held.bind(("0.0.0.0", int(FederationFile.load(place / "hub" / "federation.toml").hub.rpartition(":")[2])))
    held.listen()
    return contextlib.closing(held)


HUB_REFUSES = {
    "a job that is no job": (lambda at: changed(at / "hub/job.toml", "loss", "lass"), "has no 'lass'"),
    "no federation file": (lambda at: (at / "hub/federation.toml").unlink(), "cannot read"),
    "no certificate": (lambda at: (at / "certs/coordinator.pem").unlink(), "coordinator.pem"),
    "a list of nobody's": (lambda at: (at / "certs/revoked.pem").write_text("x"), "holds no list of revoked"),
    "a port in use": (a_port_in_use, "the port is in use"),
    "a result that is there": (lambda at: (at / "hub/fit.json").write_text("{}"), "already exists"),
    "exact values under privacy": (
        lambda at: changed(at / "hub/job.toml", "PrivateGram", "SharingADMM"),
        "releases exact values",
    ),
    "a loss that the method does not take": (lambda at: changed(at / "hub/job.toml", "Logistic", "Huber"), "Huber"),
    "a delta that promises nothing": (lambda at: changed(at / "hub/job.toml", "1e-6", "0.3"), "delta"),
}


@pytest.mark.parametrize("case", HUB_REFUSES)
def test_a_coordinators_dry_run_refuses_in_the_words_of_the_run(case, place, monkeypatch):
    """The run's parties are not there: that they came and agreed on their rows is the one thing made up."""
    monkeypatch.setattr(Grpc, "meet", lambda _, federation, _store: suppose_rows(federation.away))
    spoil, words = HUB_REFUSES[case]
    with spoil(place) if case == "a port in use" else contextlib.nullcontext(spoil(place)):
        before = digests(place)
        code, out, error = hub(place, "--dry-run")
        assert (code, out) == (1, "")
        assert words in error
        assert before == digests(place)
        code, _, real = hub(place, "--quiet")
        assert (code, real) == (1, error)


def test_a_coordinators_dry_run_refuses_what_no_party_and_no_store_would_take(place):
    """In a run parties say these, by a code without words, or the books do when it is begun."""
    (place / "hub" / "store").write_text("somebody's")
    assert "cannot use" in hub(place, "--dry-run")[2]
    (place / "hub" / "store").unlink()
    changed_file(place, epsilon=0.5)
    code, _, error = hub(place, "--dry-run")
    assert code == 1
    assert "party 'ward': this run alone costs epsilon 1, over the limit 0.5" in error
    changed_file(place, least=None)
    assert "common rows may not be counted" in hub(place, "--dry-run")[2]
    changed_file(place)
    (place / "certs/coordinator.pem").write_bytes((place / "certs/ward.pem").read_bytes())
    (place / "certs/coordinator.key").write_bytes((place / "certs/ward.key").read_bytes())
    assert "it carries another name" in hub(place, "--dry-run")[2]


def test_rows_are_supposed_only_where_nobody_knows_them_and_not_below_the_fewest(place):
    assert "parties take part with 20 common rows or more" in hub(place, "--dry-run", "--rows", 19)[2]
    assert "--rows is for --dry-run" in hub(place, "--rows", 30)[2]
    assert "--job and --rows are for --dry-run" in party(place, "ward", "--rows", 30)[2]


# ------------------------------------------------------------------------------------------------ a party


def test_a_partys_dry_run_looks_at_everything_and_leaves_no_trace(place):
    before = digests(place)
    code, out, error = party(place, "ward", "--dry-run")
    assert (code, error) == (0, "nothing was sent, and nothing was spent")
    assert "none agreed on yet" in out
    code, out, error = party(place, "ward", "--dry-run", "--job", place / "hub" / "job.toml", "--json")
    assert code == 0, error
    said = json.loads(out)
    assert said["privacy"].startswith("epsilon 1 at delta 1e-06")
    assert "costs at most epsilon 1 of your limit 2" in said["budget"]
    assert (said["over rows"], said["notices"]) == (f"{FEWEST}", [])
    assert {line["seen_by"] for line in said["leaves"]} == {"everybody", "its receiver, as uniform numbers"}
    assert before == digests(place)


PARTY_REFUSES = {
    "an unknown entry": (
        lambda at: changed(at / "ward/party.toml", "version = 1", "version = 1\nx = 1"),
        "x is unknown; there are version, name",
    ),
    "no federation file": (lambda at: (at / "ward/federation.toml").unlink(), "cannot read"),
    "no table": (lambda at: (at / "ward/table.csv").unlink(), "table.csv"),
    "a column too few": (lambda at: changed(at / "ward/table.csv", "sex", "sax"), "has no column 'sex'"),
    "rows without labels": (lambda at: changed(at / "ward/table.csv", "0001,m,1", "0001,m,"), "is missing in 1 rows"),
    "another's key": (
        lambda at: (at / "ward/signing.key").write_bytes((at / "lab/signing.key").read_bytes()),
        "the federation file pins another signing key",
    ),
    "no key": (lambda at: (at / "ward/signing.key").unlink(), "`colonnade party key` makes a key"),
    "no certificate": (lambda at: (at / "certs/ward.pem").unlink(), "ward.pem"),
    "another's certificate": (
        lambda at: (at / "certs/ward.pem").write_bytes((at / "certs/lab.pem").read_bytes()),
        "is not the key of",
    ),
    "a list of nobody's": (lambda at: (at / "certs/revoked.pem").write_text("x"), "holds no list of revoked"),
    "a port that nobody knows": (
        lambda at: changed(at / "ward/party.toml", "approve", 'listen = "127.0.0.1:0"\napprove'),
        "either both are there, or none",
    ),
    "a hub without a port": (lambda at: changed(at / "ward/party.toml", "approve", 'hub = "h"\napprove'), "host:port"),
}


@pytest.mark.parametrize("case", PARTY_REFUSES)
def test_a_partys_dry_run_refuses_in_the_words_of_the_run(case, place):
    spoil, words = PARTY_REFUSES[case]
    spoil(place)
    before = digests(place)
    code, out, error = party(place, "ward", "--dry-run")
    assert (code, out) == (1, "")
    assert words in error
    assert before == digests(place)
    code, _, real = party(place, "ward", "--quiet")
    assert (code, real) == (1, error)


def test_a_partys_dry_run_tells_what_a_run_would_pay_for_nothing(place):
    table = place / "ward" / "table.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *(f"{i:04},{'FM'[i % 2]},{i % 3}" for i in range(ROWS))]) + "\n")
    told = "column 'sex': none of its 60 values is one of its 2 declared levels"
    code, out, _ = party(place, "ward", "--dry-run")
    assert code == 0
    assert told in out
    code, out, _ = party(place, "ward", "--dry-run", "--job", place / "hub" / "job.toml")
    assert code == 0
    assert told in out
    assert "3 different labels become two classes" in out


def test_a_partys_dry_run_refuses_a_table_that_a_run_would_fail_on(place):
    changed(place / "lab" / "table.csv", "0001,1\n", "0001,much\n")
    code, _, error = party(place, "lab", "--dry-run")
    assert code == 1
    assert "crp" in error
    assert "much" not in error


def test_a_partys_dry_run_knows_its_limits_its_ledger_and_a_damaged_one(place):
    job = place / "hub" / "job.toml"
    path = place / "ward" / "party.toml"
    changed(path, 'approve = "ask"', 'approve = "policy"')
    path.write_text(path.read_text() + '\n[limits]\nmethods = ["PrivateGram"]\nepsilon = 0.5\n')
    code, _, error = party(place, "ward", "--dry-run", "--job", job)
    assert code == 1
    assert "epsilon = 1 is over 0.5" in error
    assert party(place, "ward", "--dry-run", "--job", job, "--yes")[0] == 0
    changed_file(place, epsilon=1.2)
    changed(path, "epsilon = 0.5", "epsilon = 5")
    settings = PartyFile.load(path)
    settings.service(settings.limits).close()  # it makes the store
    with open_service(settings) as service:
        request = rehearse(settings, service, load_job(job))
        service.ledger.open_run("first", request.terms, request.plans)
        with pytest.raises(BudgetExhausted) as refused:
            service.ledger.open_run("second", request.terms, request.plans)
    before = digests(place)
    code, _, error = party(place, "ward", "--dry-run", "--job", job)
    assert (code, error) == (1, f"error: {refused.value}")
    assert before == digests(place)
    ledger = place / "ward" / "store" / "nodes" / "ward.db"
    raw = ledger.read_bytes()
    assert raw.count(b"private Gram")
    ledger.write_bytes(raw.replace(b"private Gram", b"private Grim"))
    code, _, error = party(place, "ward", "--dry-run")
    assert code == 1
    assert "does not continue the chain" in error
