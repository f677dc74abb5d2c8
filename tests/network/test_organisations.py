"""The README's lines for three organisations, followed as printed, and the files they are made of."""

from __future__ import annotations

import contextlib
import json
import math
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli.runs import list_runs
from colonnade.errors import InvalidInput, PolicyRefused
from colonnade.methods.node_setup import Call, terms_of
from colonnade.model.job import Job
from colonnade.network.party_file import Limits, PartyFile, _limits
from colonnade.network.party_run import Request
from colonnade.privacy.events import FINISHED, Ending, How
from colonnade.runtime.run_store import RunStore
from tests.helpers.contract import EVERY_METHOD, federation
from tests.helpers.organisations import entered, free_port

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

README = Path(__file__).parents[2] / "README.md"


def lines() -> list[str]:
    """The commands of the section, without their comments."""
    text = README.read_text(encoding="utf-8")
    block = re.search(r"## Three organisations on three terminals\n+```\n(.*?)```", text, re.S)
    assert block is not None
    return [line.partition("#")[0].strip() for line in block[1].splitlines()]


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """Every line typed in, with fewer flights and a free port."""
    folder, port = tmp_path_factory.mktemp("readme"), free_port()
    example, *parties, enter, coordinator = lines()
    said = {stream: folder / f"{stream}.txt" for stream in ("stdout", "stderr")}
    made = ended(entered(f"{example} --rows 1500 --hub localhost:{port}", folder, **said))
    assert made == 0, said["stderr"].read_text()
    (folder / "printed.txt").write_text(said["stdout"].read_text())
    started = [entered(line, folder, stderr=folder / f"{number}.log") for number, line in enumerate(parties)]
    try:
        code = ended(entered(coordinator, folder / enter.split()[1], **said))
    finally:
        for party in started:
            party.terminate()
        codes = [ended(party) for party in started]
    ran = SimpleNamespace(returncode=code, **{stream: path.read_text() for stream, path in said.items()})
    return folder, ran, codes


def ended(process) -> int | None:
    process.join(300)
    return process.exitcode


@pytest.mark.chance(0, "an exit code, a price and files")
def test_the_lines_end_with_a_private_fit(followed):
    folder, ran, _ = followed
    assert ran.returncode == 0, ran.stderr
    assert "private: ε = 1 at δ = 1e-06 for one row" in ran.stdout
    saved = folder / "tryout" / "coordinator"
    assert (saved / "fit.json").is_file()
    assert "<html" in (saved / "report.html").read_text(encoding="utf-8")[:200].lower()


@pytest.mark.chance(0, "printed before any run")
def test_what_the_example_prints_is_what_the_readme_says(followed):
    assert (followed[0] / "printed.txt").read_text().splitlines() == lines()[1:]


@pytest.mark.chance(0, "exit codes")
def test_parties_stop_when_they_are_told_to(followed):
    assert followed[2] == [0, 0, 0]


@pytest.mark.chance(0, "names and files")
def test_every_party_keeps_its_part_and_its_ledger(followed):
    folder, _, _ = followed
    for party in ("airline", "weather", "registry"):
        store = folder / "tryout" / party / "store"
        (part,) = (store / "fits").glob("*.part.json")
        assert json.loads(part.read_text())["party"] == party
        assert (store / "nodes" / f"{party}.db").is_file()


@pytest.mark.chance(0, "times, names and counts: what a log says of noise has no figure in it")
def test_no_log_of_a_party_carries_a_value(followed):
    """Counts and names of runs and parties may stand there; numbers with a fraction would be data."""
    folder, _, _ = followed
    for log in folder.glob("*.log"):
        said = re.sub(r"\d\d:\d\d:\d\d|localhost:\d+|party\.toml", "", log.read_text(encoding="utf-8"))
        assert not re.findall(r"\d+\.\d+", said), log


@pytest.mark.chance(0, "lines that depend on noise are left out, and no line has a figure of it")
def test_the_coordinators_log_follows_the_run_in_whole_numbers(followed):
    folder, ran, _ = followed
    run = co.load(folder / "tryout" / "coordinator" / "fit.json").run
    said = [line.split(maxsplit=1)[1] for line in ran.stderr.splitlines()]
    about = [line.partition(f" run={run} ")[0] for line in said if run in line]
    # Whether the noise swamped the model is drawn anew with the noise of every run.
    drawn = ("under way", "the noise swamps the model")
    assert [words for words in about if not words.startswith(drawn)] == [
        "proposed",
        "reserved by all",
        "letters between parties",
        "over",
    ]
    assert re.search(r" how=finished rounds=\d+ messages=\d+ bytes=\d+ seconds=\d+$", ran.stderr, re.MULTILINE)
    assert not re.findall(r"=\d*\.\d", ran.stderr)


def typed(*words: str):
    """A command in this process; it would set up the logs and signals of all tests that follow."""
    with mock.patch("colonnade.cli.coordinator.log_to_stderr"):
        return CliRunner().invoke(app, words)


@pytest.mark.chance(0, "exit codes, files and texts of a run that is over: no figure of it is compared")
def test_the_coordinators_line_typed_in_again_begins_and_pays_no_other_run(followed, monkeypatch):
    home = followed[0] / "tryout" / "coordinator"
    monkeypatch.chdir(home)
    words, before = lines()[-1].split()[1:], (home / "fit.json").read_bytes()
    done = typed(*words)
    run, said = co.load("fit.json").run, " ".join(done.stderr.split())
    assert (done.exit_code, before) == (1, (home / "fit.json").read_bytes())
    assert f"fit.json already exists, the result of run {run}, which is finished. Nothing was begun." in said
    assert "would cost epsilon 1 (delta 1e-06) once more. Say --overwrite" in said
    assert "--output" in said
    assert [run] == [line["run"] for line in list_runs(home / "hub-store")]
    assert not (home / "hub-store" / "pending.json").exists()


@pytest.mark.chance(0, "exit codes, files and texts of a run that is over: no figure of it is compared")
def test_a_stopped_command_is_repeated_by_runs_resume_as_it_was_given(followed, monkeypatch):
    """Also that it may write over a file; and once its run is over there is nothing to resume, whatever became of the file."""
    home = followed[0] / "tryout" / "coordinator"
    monkeypatch.chdir(home)
    made, begun = co.load("fit.json"), mock.Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(co, "fit", begun)
    words = ["coordinator", "run", "federation.toml", "--job", "job.toml", "--listen", "127.0.0.1:0"]
    stopped = typed(*words, "--overwrite", "--output", "again.json")
    assert stopped.exit_code == 130, stopped.stderr
    (home / "again.json").write_text("somebody's")
    begun.side_effect = None
    begun.return_value = made
    assert typed("runs", "resume", "hub-store").exit_code == 0
    assert co.load("again.json").run == made.run
    assert begun.call_args_list[0].kwargs["store"].resolve() == begun.call_args_list[1].kwargs["store"].resolve()
    assert "no command" in typed("runs", "resume", "hub-store").stderr


@pytest.mark.chance(0, "exit codes, files and texts of a run that is over: no figure of it is compared")
@pytest.mark.parametrize("again", ["the same command", "runs resume"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_command_that_was_killed_when_its_run_had_finished_writes_that_fit_and_pays_no_other(
    again, overwrite, followed, monkeypatch
):
    """Killed when `co.fit` had ended its run, before it came back: the fit lies in the store alone."""
    home = followed[0] / "tryout" / "coordinator"
    monkeypatch.chdir(home)
    made, place = co.load("fit.json"), f"killed-{again[0]}-{overwrite}"

    def killed(*_, store, **__):
        with contextlib.closing(RunStore(store)) as books:
            for run, how in (("early", Ending(How.FAILED, "PeerSilent")), ("late", FINISHED)):
                books.adopt(run)
                made.save(books.fit_path(run))
                books.end(run, how)
        raise KeyboardInterrupt

    begun = mock.Mock(side_effect=killed)
    monkeypatch.setattr(co, "fit", begun)
    words = ["coordinator", "run", "federation.toml", "--job", "job.toml", "--listen", "127.0.0.1:0"]
    words += ["--store", place, "--output", f"{place}.json", "--report", f"{place}.html"]
    if overwrite:
        Path(f"{place}.json").write_text("somebody's")
        words.append("--overwrite")
    assert typed(*words).exit_code == 130
    dry = typed(*words, "--dry-run")
    assert dry.exit_code == 1
    assert "that run has finished" in dry.stderr
    done = typed(*words) if again == "the same command" else typed("runs", "resume", place)
    assert done.exit_code == 0, done.stderr
    assert begun.call_count == 1
    found = co.load(f"{place}.json")
    assert (found.run, found.objective) == (made.run, made.objective)
    assert Path(f"{place}.html").is_file()
    assert "no command" in typed("runs", "resume", place).stderr
    if not overwrite:  # the file is there now, as after every run
        assert "already exists" in typed(*words).stderr
        assert begun.call_count == 1


@pytest.mark.chance(0, "exit codes, files and texts of a run that is over: no figure of it is compared")
def test_whoever_says_overwrite_to_a_command_that_was_killed_gets_another_run(followed, monkeypatch):
    home = followed[0] / "tryout" / "coordinator"
    monkeypatch.chdir(home)
    made = co.load("fit.json")

    def killed(*_, store, **__):
        with contextlib.closing(RunStore(store)) as books:
            books.adopt("late")
            made.save(books.fit_path("late"))
            books.end("late", FINISHED)
        raise KeyboardInterrupt

    begun = mock.Mock(side_effect=killed)
    monkeypatch.setattr(co, "fit", begun)
    words = ["coordinator", "run", "federation.toml", "--job", "job.toml", "--listen", "127.0.0.1:0"]
    words += ["--store", "killed-store", "--output", "late.json"]
    assert typed(*words).exit_code == 130
    begun.side_effect = KeyboardInterrupt
    assert typed(*words[:-1], "other.json").exit_code == 130  # another command
    assert begun.call_count == 2
    assert typed(*words, "--overwrite").exit_code == 130
    assert begun.call_count == 3
    assert typed(*words).exit_code == 130  # that one was stopped before its end: the command goes on with it
    assert begun.call_count == 4


PARTY = """version = 1
name = "{name}"
federation = "federation.toml"
store = "store"
key = "signing.key"
certs = "certs"
approve = "{approve}"

[data]
source = "table.parquet"
"""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda text: text.replace("version = 1", "version = 7"),
            "line 1 (version = 7): version is 7; this Colonnade reads version = 1. Write that",
        ),
        (
            lambda text: text.replace('store = "store"', ""),
            'it needs store, a text that names a folder, as in store = "store"',
        ),
        (
            lambda text: text.replace('approve = "ask"', 'approve = "perhaps"'),
            'line 7 (approve = "perhaps"): approve must be one of ask, policy, all, inbox',
        ),
        (lambda text: text.replace("[data]", "[date]"), "line 9 ([date]): date is unknown; the nearest name is 'data'"),
        (
            lambda text: text.replace("source =", "sauce ="),
            "line 10 (sauce = \"table.parquet\"): data.sauce is unknown; the nearest name is 'source'",
        ),
        (lambda text: text + "[[", "not a TOML file"),
        (lambda text: "open_hours = 0\n" + text, "open_hours must be a number of hours above 0"),
        (lambda text: "open_hours = -1.0\n" + text, "above 0, 8,784 at most, as in open_hours = 72; got -1.0"),
        (lambda text: "open_hours = nan\n" + text, "above 0, 8,784 at most, as in open_hours = 72; got nan"),
        (
            lambda text: "open_hours = 8785\n" + text,
            "above 0, 8,784 at most, as in open_hours = 72; got 8785",
        ),
        (
            lambda text: text + "[limits]\nscore = 3",
            "limits.score is unknown; the nearest name is 'scores'; there are methods, epsilon,",
        ),
        (lambda text: "limits = 3\n" + text, "limits must be a table; got 3"),
        (
            lambda text: text + "[limits]\nscores = true",
            "limits.scores must be a whole number of runs, 0 or more, as in scores = 1; got True",
        ),
        (
            lambda text: text + "[limits]\nscores = -1",
            "limits.scores must be a whole number of runs, 0 or more, as in scores = 1; got -1",
        ),
        (lambda text: text + '[limits]\nmodels = "run"', "limits.models must be a list of names"),
        (
            lambda text: text + '[limits]\nmethods = ["PrivateGram", "PrivateGramm"]',
            "limits.methods names 'PrivateGramm', which is no method; there are BlockFrankWolfe, CentralFrankWolfe,",
        ),
        (
            lambda text: text + '[limits]\nmethods = ["OpenLoop"]',
            "limits.methods names 'OpenLoop', which is no method",
        ),
        (
            lambda text: text + '[limits]\nepsilon = "1"',
            "limits.epsilon must be a number from 0 on, as in epsilon = 1.0; got '1'",
        ),
    ],
)
def test_a_mistake_in_a_partys_file_is_named(change, says, tmp_path):
    path = tmp_path / "party.toml"
    path.write_text(change(PARTY.format(name="airline", approve="ask")), encoding="utf-8")
    with pytest.raises(InvalidInput, match=re.escape(says)):
        PartyFile.load(path)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", Limits()),
        ('methods = ["MaskedScores"]', Limits(("MaskedScores",), scores=1, models=None)),
        ('models = ["a", "b"]\nscores = 3\nepsilon = inf', Limits((), math.inf, scores=3, models=("a", "b"))),
        ("models = []\nscores = 0\ndelta = 1e-7", Limits((), 0.0, 1e-7, 0, ())),
    ],
)
def test_limits_are_read_as_they_stand_and_are_narrow_where_nothing_stands(text, limits):
    assert limits == _limits(tomllib.loads(text))


def request(epsilon: float | None) -> Request:
    fed = federation(EVERY_METHOD["private gram, secure"])
    privacy = None if epsilon is None else co.Privacy(epsilon, 1e-6, trust="secure", row_norm=3.0)
    method = co.PrivateGram() if epsilon is not None else co.SharingADMM()
    call = Call(method, co.Problem(co.Logistic(), penalty=co.Ridge(0.1)), privacy)
    job = Job(call.problem, fed.roster(), privacy)
    return Request("run", "party0", terms_of(job, method), call, method.price(job), fed.rows)


@pytest.mark.parametrize(
    ("limits", "epsilon", "passes"),
    [
        (Limits(("PrivateGram",), 1.0), 1.0, True),
        (Limits(("PrivateGram",), 1.0), 1.1, False),
        (Limits(("SharingADMM",), 1.0), 1.0, False),
        (Limits(), 0.1, False),
        (Limits(("SharingADMM",), 1e9), None, False),  # exact values have no epsilon
        (Limits(("SharingADMM",), math.inf), None, True),
    ],
)
def test_a_policy_lets_pass_what_it_names_and_nothing_else(limits, epsilon, passes):
    if passes:
        assert limits(request(epsilon))
        return
    with pytest.raises(PolicyRefused, match=r"^the \[limits\] of 'party0' stop run run: .*\. Nothing was sent\.$"):
        limits(request(epsilon))
