"""Claims about a command of the coordinator that was killed: which fit of which run it finds when it is repeated."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from colonnade.cli.coordinator import Pending
from colonnade.privacy.events import FINISHED, Ending, How
from colonnade.runtime.run_store import RunStore

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


class Command:
    """A command with its files, and the store in which its run was driven."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self.paths = [folder / name for name in ("federation.toml", "job.toml", "certs", "fit.json", "report.html")]
        self.end("before", FINISHED)  # of another command, long ago

    def end(self, run: str, how: Ending, *, kept: bool = True) -> None:
        with contextlib.closing(RunStore(self.store)) as books:
            books.adopt(run)
            books.end(run, how)
            if kept:
                books.fit_path(run).write_text("{}")

    def note(self, overwrite: bool = False) -> None:
        Pending(self.store).note(*self.paths, listen=None, patience=1.0, overwrite=overwrite)

    def finished(self, overwrite: bool = False, **changed: Path) -> str | None:
        file, job, _, output, _ = self.paths
        found = Pending(self.store).finished(overwrite, **{"file": file, "job": job, "output": output, **changed})
        return None if found is None else found.stem


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


def test_nothing_is_found_without_a_note_or_before_the_run_has_finished(command: Command) -> None:
    assert command.finished() is None
    command.note()
    assert command.finished() is None  # the run before it is none of its
    command.end("failed", Ending(How.FAILED, "PeerSilent"))
    assert command.finished() is None
    command.end("gone", FINISHED, kept=False)
    assert command.finished() is None
    command.end("mine", FINISHED)
    assert command.finished() == "mine"
    Pending(command.store).clear()
    assert command.finished() is None


@pytest.mark.parametrize(("noted", "said", "found"), [(0, 0, True), (0, 1, False), (1, 0, True), (1, 1, True)])
def test_only_who_newly_says_overwrite_wants_another_run(noted: int, said: int, found: bool, command: Command) -> None:
    command.note(bool(noted))
    command.end("mine", FINISHED)
    assert (command.finished(bool(said)) == "mine") is found


@pytest.mark.parametrize("name", ["file", "job", "output"])
def test_a_command_about_other_files_is_another_one(name: str, command: Command, tmp_path: Path) -> None:
    command.note()
    command.end("mine", FINISHED)
    assert command.finished(**{name: tmp_path / "other"}) is None
