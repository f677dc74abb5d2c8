"""Claims about files that are damaged, edited or of another kind: every command ends with an answer or one line that says what
is wrong. No traceback, nothing that nobody foresaw, and no waiting for a pipe or a device.

Seeds are fixed. A few of each kind are tried in every run, and 10,000 by `slow`; COLONNADE_MUTATED says another number.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app, terminal
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.network import certs
from colonnade.network.inbox import Inbox
from colonnade.network.job_queue import JobQueue
from colonnade.network.party_data import part_path
from colonnade.network.score_order import LOOPBACK, Order
from tests.helpers.mutated import mutate, put_back
from tests.helpers.organisations import COORDINATOR_IDENTITY, COORDINATOR_KEY

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

FEW = 14  # of each kind in every run
MANY = int(os.environ.get("COLONNADE_MUTATED", "10000"))
SECONDS = 60  # that a command may take before it counts as waiting for ever
NAMES = ("bank", "lab")
PARTY = "party run {}/lab.toml --dry-run"
JOB = """[problem]
loss = "LeastSquares"
penalty = { type = "Ridge", a = 0.1 }
intercept = true
[method]
type = "PrivateGram"
[privacy]
epsilon = 1.0
delta = 1e-6
label_bound = 2.0
"""
DATA = """[data]
on = "key"
label = ["bank", "y"]
[data.parties.bank]
source = "bank.csv"
schema = "bank.schema.toml"
epsilon = 4.0
delta = 1e-6
[data.parties.lab]
source = "lab.csv"
schema = "lab.schema.toml"
"""
TOP = 'store = "runs"\noutput = "out.json"\nreport = "out.html"\n'
# By kind: the file, and the commands that read it; {} is the folder.
KINDS = {
    "federation file": ("federation.toml", [PARTY, "coordinator run {}/federation.toml --job {}/job.toml --dry-run --certs {}/certs --store {}/hub"]),
    "party file": ("lab.toml", [PARTY, "party inbox {}/lab.toml", "party show {}/lab.toml RUN"]),
    "job file": ("job.toml", ["coordinator run {}/federation.toml --job {}/job.toml --dry-run --certs {}/certs --store {}/hub", PARTY + " --job {}/job.toml --rows 20"]),
    "configuration": ("study.toml", ["fit {}/study.toml --dry-run", "confirm {}/study.toml --yes"]),
    "schema": ("lab.schema.toml", [PARTY, "fit {}/study.toml --dry-run"]),
    "csv": ("lab.csv", ["data inspect {}/lab.csv", "fit {}/study.toml --dry-run"]),
    "parquet": ("lab.parquet", ["data inspect {}/lab.parquet", PARTY]),
    "arrow": ("lab.arrow", ["data inspect {}/lab.arrow"]),
    "svmlight": ("rows.svm", ["sparse {}/rows.svm --rounds 1 -o {}/model.json --overwrite"]),
    "npz": ("X.npz", ["sparse {}/X.npz --rounds 1 -o {}/model.json --overwrite"]),
    "npy": ("y.npy", ["sparse {}/X.npz --rounds 1 -o {}/model.json --overwrite"]),
    "certificate": ("certs/lab.pem", [PARTY, "certs show {}/certs/lab.pem"]),
    "authority": ("certs/authority.pem", [PARTY, "certs show {}/certs"]),
    "key of a certificate": ("certs/lab.key", [PARTY]),
    "revoked": ("certs/revoked.pem", [PARTY]),
    "signing key": ("lab.key", [PARTY]),
    "coordinator's key": ("certs/coordinator.signing.key", ["federation pin {}/federation.toml --certs {}/certs"]),
    "fit": ("fit.json", ["release show {}/fit.json", "report {}/fit.json -o {}/r.html --overwrite", "scorecard {}/fit.json -o {}/c.csv --overwrite", "predict {}/fit.json --party bank={}/bank.csv --party lab={}/lab.csv -o {}/p.csv --overwrite"]),
    "release": ("release.json", ["release show {}/release.json", "release correlate {}/release.json", "release regress {}/release.json"]),
    "journal": ("store/runs.db", ["runs list {}/store", "budget show {}/store", "runs show {}/store RUN"]),
    "ledger": ("store/nodes/lab.db", ["budget show {}/store", "budget verify {}/store", "budget export {}/store lab", "runs list {}/store", "budget plan {}/store lab --epsilon 0.1 --delta 1e-6"]),
    "inbox": ("lab/inbox.db", ["party inbox {}/lab.toml", "party refuse {}/lab.toml RUN"]),
    "queue": ("hub/jobs.db", ["jobs list --store {}/hub"]),
    "part of a model": ("lab/fits/RUN.part.json", ["party show {}/lab.toml RUN"]),
    "order": ("order.json", ["score log {}/order.json {}/lab.toml", "score approve {}/order.json {}/lab.toml --yes"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> tuple[Path, str]:
    """Every kind of file that commands read, in order; and the run that they are about."""
    folder, draw = tmp_path_factory.mktemp("files"), np.random.default_rng(5)
    schemas = {
        name: co.Schema((co.Numeric(f"{name}0", -3.0, 3.0), co.Categorical(f"{name}1", ("p", "q")))) for name in NAMES
    }
    frames = {}
    for name in NAMES:
        cells = {f"{name}0": draw.uniform(-3, 3, 20).round(3), f"{name}1": draw.choice(["p", "q"], 20)}
        frames[name] = pl.DataFrame({"key": [f"k{row}" for row in range(20)], **cells})
    frames["bank"] = frames["bank"].with_columns(y=frames["bank"]["bank0"] / 2)
    fed = co.Federation.from_frames(frames, on="key", label=("bank", "y"), schemas=schemas)
    privacy = co.Privacy(4.0, 1e-6, label_bound=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = co.fit(
            fed,
            co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1), intercept=True),
            co.PrivateGram(purpose="inference"),
            privacy,
            store=folder / "store",
            noise=co.SeededNoise(1),
        )
    fit.save(folder / "fit.json")
    fit.release.save(folder / "release.json")
    certs.init(folder / "certs")
    certs.issue(folder / "certs", "coordinator", hosts=["localhost"])
    (folder / "certs" / certs.SIGNING_KEY).write_text(COORDINATOR_IDENTITY.hex())
    members = {}
    for name in NAMES:
        public, private = new_key()
        certs.issue(folder / "certs", name)
        (folder / f"{name}.key").write_text(private.hex())
        members[name] = Member(schemas[name], co.Policy(scores=True, least=3, epsilon=9.0, delta=1e-6), public)
        for write, suffix in (("write_csv", "csv"), ("write_parquet", "parquet"), ("write_ipc", "arrow")):
            getattr(frames[name], write)(folder / f"{name}.{suffix}")
        text = f'version = 1\nname = "{name}"\nfederation = "federation.toml"\nhub = "localhost:1"\nstore = "{name}"\n'
        text += f'key = "{name}.key"\ncerts = "certs"\nmodels = "{name}"\napprove = "inbox"\nopen_hours = 3.5\n'
        text += f'[data]\nsource = "{name}.parquet"\n[limits]\nmethods = ["PrivateGram"]\nepsilon = 1.0\n'
        (folder / f"{name}.toml").write_text(text.replace(f'models = "{name}"\n', ""))
        (folder / name / "fits").mkdir(parents=True)
        part = {"format": "colonnade part", "version": 1, "run": fit.run, "party": name, "intercept": 0.5}
        part |= {"features": list(schemas[name].features), "coefficients": fit.coefficients[name].tolist()}
        part_path(folder / name, fit.run).write_text(json.dumps(part))
    certs.revoke(folder / "certs", "bank")
    file = FederationFile(members, "key", ("bank", "y"), hub="localhost:1", coordinator=COORDINATOR_KEY)
    file.save(folder / "federation.toml")
    (folder / "job.toml").write_text(JOB)
    (folder / "study.toml").write_text(TOP + DATA + JOB)
    rows = "".join(f"{1 if row % 2 else -1} 1:{row} 3:0.5\n" for row in range(1, 20))
    (folder / "rows.svm").write_text(rows)
    sparse.save_npz(folder / "X.npz", sparse.csc_array(draw.normal(size=(20, 3))))
    np.save(folder / "y.npy", np.where(np.arange(20) % 2, 1.0, -1.0))
    with closing(Inbox(folder / "lab", 3.0, repr)) as inbox:
        told = (fit.run, "0123", b"", "terms", 1.0, 9e9)
        inbox._db.execute(
            "insert into question(run, code, digest, shown, asked, until) values (?, ?, ?, ?, ?, ?)", told
        )
    with closing(JobQueue(folder / "hub")) as queue:
        queue.submit("one", JOB, "me")
    order = Order("20260102T000000-order", file.digest, fit.run, 0, 0.25, (LOOPBACK,), 50, "2999-12-31")
    order.save(folder / "order.json")
    return folder, fit.run


def entered(words: list[str]) -> tuple[int, str, BaseException | None]:
    """A command: its code, what it said to standard error, and what it let pass."""

    def late(*_: object) -> None:
        raise TimeoutError(f"over {SECONDS} s: {words}")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = CliRunner().invoke(app, words)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return done.exit_code, done.stderr, done.exception


def trouble(words: list[str]) -> str:
    """What is wrong with how a command ended; empty: nothing."""
    code, said, error = entered(words)
    if error is not None and not isinstance(error, SystemExit):
        return f"{type(error).__name__} passed"
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    if code not in (0, 1, 2) or "Traceback" in said or "does not foresee" in said or "TimeoutError" in said:
        return f"code {code}: {said[-300:]}"
    return "" if code != 1 or len(errors) == 1 else f"{len(errors)} lines of error: {said[-300:]}"


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    """Where a command would write down what it did not foresee."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "colonnade" / "errors.log"


def file_and_commands(kind: str, place: tuple[Path, str]) -> tuple[Path, list[list[str]]]:
    folder, run = place
    name, lines = KINDS[kind]
    return folder / name.replace("RUN", run), [line.replace("RUN", run).format(*[folder] * 9).split() for line in lines]


def attempts(kind: str, place: tuple[Path, str], count: int) -> list[str]:
    """What went wrong with so many mutations of a file, the commands taking turns."""
    path, commands = file_and_commands(kind, place)
    kept = {one: one.read_bytes() for one in (path, place[0] / "federation.toml", place[0] / "study.toml")}
    found = []
    for seed, words in zip(range(count), itertools.cycle(commands), strict=False):
        how = mutate(path, (kind, seed))
        if wrong := trouble(words):
            found.append(f"seed {seed}, {how}, {' '.join(words[:3])}: {wrong}")
        for one, body in kept.items():
            put_back(one, body)
    return found


@pytest.mark.chance(0, "exit codes and lines of error: no figure that was drawn is compared")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_order_is_read(kind, place):
    """Or the claims below would hold of commands that refuse everything."""
    path, commands = file_and_commands(kind, place)
    kept = path.read_bytes()
    for words in commands:
        code, said, _ = entered(words)
        known = (words[0] == "score", "party refuse" in " ".join(words), "scorecard" in words)
        assert code == 0 or any(known), (words, said)
    put_back(path, kept)


@pytest.mark.chance(0, "exit codes and lines of error: no figure that was drawn is compared")
@pytest.mark.parametrize("kind", KINDS)
def test_a_mutated_file_ends_in_an_answer_or_in_one_line(kind, place):
    assert attempts(kind, place, FEW) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_mutated_files_of_every_kind_end_in_an_answer_or_in_one_line(kind, place):
    assert attempts(kind, place, MANY) == []


def test_what_nobody_foresaw_is_one_line_and_its_place_is_in_a_file_without_what_the_error_says(monkeypatch, state):
    def broken(*_: object) -> None:
        raise ZeroDivisionError(f"a cell: {47 * 100 + 11}")

    monkeypatch.setattr("colonnade.cli.answer", broken)
    done = CliRunner().invoke(app, ["version"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "does not foresee (ZeroDivisionError)" in done.stderr
    assert str(state) in done.stderr.replace("\n", "")
    assert "in broken" in state.read_text()
    assert "4711" not in state.read_text() + done.stderr
    assert state.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (OSError(36, "File name too long", "xx"), 1, "cannot use xx: File name too long"),
        (MemoryError(), 1, "not enough memory"),
        (co.InvalidInput("so it is"), 1, "error: so it is"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_is_foreseen_keeps_its_words_and_its_code(monkeypatch, state, raised, code, says):
    def broken(*_: object) -> None:
        raise raised

    monkeypatch.setattr("colonnade.cli.answer", broken)
    done = CliRunner().invoke(app, ["version"])
    assert done.exit_code == code
    assert says in done.stderr
    assert not state.exists()


def test_the_file_of_what_nobody_foresaw_is_of_bounded_size(state):
    state.parent.mkdir()
    state.write_bytes(bytes(terminal.MOST + 1))
    with pytest.raises(BaseException, match="1"), terminal.last_resort():
        raise ZeroDivisionError
    assert state.stat().st_size < 10_000
    assert state.with_suffix(".log.1").stat().st_size == terminal.MOST + 1
