"""The bar of a long run: on standard error, after a moment, gone at the end; and nothing where nobody looks."""

from __future__ import annotations

import pytest
from rich.progress import Progress

from colonnade.runs import progress


@pytest.mark.parametrize(
    ("wanted", "patience", "shown"), [(True, 0.0, True), (True, 600.0, False), (False, 0.0, False)]
)
def test_a_bar_appears_where_it_is_wanted_and_work_takes_longer_than_a_moment(
    wanted, patience, shown, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # as on a screen
    with progress.progress_bar(wanted, "rounds of a test", 3) as show:
        for done in range(1, 4):
            show({"round": done, "gap": 0.5**done})
    out, err = capsys.readouterr()
    assert out == ""
    assert ("rounds of a test" in err) == shown


def test_a_bar_shows_rounds_and_gap_and_leaves_no_line(monkeypatch, capsys):
    seen, update, stop = [], Progress.update, Progress.stop
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(Progress, "update", lambda *a, **given: (seen.append(given), update(*a, **given)))
    monkeypatch.setattr(Progress, "stop", lambda self: (seen.append(self.live.transient), stop(self)))
    with progress.progress_bar(True, "rounds", 3) as show:
        show({"round": 1, "gap": 0.0125})
        show({"round": 2})
        show({"party": "a"})
    rounds = [{"completed": 1.0, "figures": "gap 1.25e-02"}, {"completed": 2.0, "figures": ""}]
    assert seen == [*rounds, {"completed": 0.0, "figures": ""}, True]
    assert capsys.readouterr().out == ""


def test_a_bar_ends_with_the_work_that_failed(monkeypatch, capsys):
    stop, stopped = Progress.stop, []
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(Progress, "stop", lambda self: (stop(self), stopped.append(True)))

    def fail():
        with progress.progress_bar(True, "rounds", 3) as show:
            show({"round": 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert stopped == [True]
    capsys.readouterr()
