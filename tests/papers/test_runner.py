"""The runner of figures: what is kept, what is run again, what a failure costs, and the pages that a run leaves."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as co
from papers import pieces, registry, runner, sources
from papers.commands import app
from papers.figure import Claim, Verdict
from papers.page import write_pages
from papers.registry import chosen, discover, in_module

ROOT = Path(__file__).resolve().parents[2]

# A figure whose cases count how often they ran, and misbehave on request: files named in the folder TOY_TOUCHES steer them.
TOY = '''
"""A figure for tests."""
import os, signal, time
from pathlib import Path
from papers.figure import Claim, Figure, Verdict
from papers.plot import Panel, Plot

def run(seed, method):
    folder = Path(os.environ["TOY_TOUCHES"])
    with (folder / f"{method}-{seed}").open("a") as file:
        file.write("x")
    if (folder / f"fail-{method}-{seed}").exists():
        raise ValueError("the toy was told to fail")
    if (folder / f"die-{method}-{seed}").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if (folder / f"wait-{method}-{seed}").exists():
        time.sleep(300)
    rate = {"fast": 2.0, "slow": 1.0}[method]
    return [{"method": method, "seed": seed, "round": t, "error": 10.0 ** (-rate * t) * (1 + seed),
             "note": None if t else "start"} for t in range(4)]

def draw(table):
    panel = Panel(x="round", y="error", log="y")
    for (method,), own in table.group_by("method", maintain_order=True):
        panel.line(own["round"], own["error"], method)
    return Plot("toy <b>&</b> co", [panel])

def last(table, method):
    import polars as pl
    return table.filter(pl.col("method") == method, pl.col("round") == 3)["error"].mean()

def faster(table):
    a, b = last(table, "fast"), last(table, "slow")
    return Verdict(a < b, f"{a:.1e} against {b:.1e}")

def slower(table):
    return Verdict(not faster(table).held, faster(table).evidence)

FIGURE = Figure(
    name="toy-1", paper="Toy 2020", title="A toy", setting="two methods",
    cases=lambda quick: [{"seed": s, "method": m} for s in range(1 if quick else 2) for m in ("fast", "slow")],
    run=run, draw=draw, privacy="epsilon 1 </script>, claimed",
    claims=(Claim("the fast one is faster", faster, "exact"),
            Claim("the slow one is faster", slower, "exact", reproduces=False, finding="it is not")),
)
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A package of figures with the toy in it; (the folder of its source, the folder where it counts)."""
    source, touches = tmp_path / "source", tmp_path / "touches"
    (source / "toy_figures").mkdir(parents=True)
    touches.mkdir()
    (source / "toy_figures" / "__init__.py").write_text("")
    (source / "toy_figures" / "toy.py").write_text(TOY)
    monkeypatch.syspath_prepend(str(source))
    monkeypatch.setenv("TOY_TOUCHES", str(touches))
    monkeypatch.setattr(registry, "FIGURES", "toy_figures")
    monkeypatch.setattr("papers.registry.discover.__defaults__", ("toy_figures",))
    yield source / "toy_figures", touches
    for name in [name for name in sys.modules if name.split(".")[0] == "toy_figures"]:
        del sys.modules[name]


def runs(touches: Path) -> dict[str, int]:
    return {path.name: len(path.read_text()) for path in sorted(touches.iterdir()) if re.match(r"fast|slow", path.name)}


def go_on(results: Path, quick: bool = True, jobs: int = 1) -> runner.Outcome:
    (outcome,) = runner.reproduce(list(discover("toy_figures").values()), results, quick=quick, jobs=jobs)
    return outcome


@pytest.mark.slow
def test_a_second_run_takes_every_row_from_the_first(toy, tmp_path):
    _, touches = toy
    first, second = go_on(tmp_path / "out", jobs=2), go_on(tmp_path / "out")
    assert runs(touches) == {"fast-0": 1, "slow-0": 1}
    assert "as stated" == first.status == second.status
    assert first.table.equals(second.table)
    assert first.table.height == 8


@pytest.mark.slow
def test_a_full_run_adds_only_the_cases_that_a_quick_one_has_not(toy, tmp_path):
    _, touches = toy
    go_on(tmp_path / "out")
    full = go_on(tmp_path / "out", quick=False)
    assert runs(touches) == {"fast-0": 1, "fast-1": 1, "slow-0": 1, "slow-1": 1}
    assert {0, 1} == set(full.table["seed"])


@pytest.mark.slow
def test_a_changed_source_runs_everything_again(toy, tmp_path):
    source, touches = toy
    before = go_on(tmp_path / "out").version
    (source / "toy.py").write_text(TOY.replace("(1 + seed)", "(2 + seed)"))
    importlib.invalidate_caches()
    importlib.reload(sys.modules["toy_figures.toy"])
    after = go_on(tmp_path / "out")
    assert before != after.version
    assert runs(touches) == {"fast-0": 2, "slow-0": 2}
    assert after.table.filter(pl.col("round") == 0)["error"][0] == 2.0


def test_the_version_covers_the_package_and_what_a_case_reaches_and_nothing_else(toy, tmp_path, monkeypatch):
    source, _ = toy
    package = tmp_path / "package"
    package.mkdir()
    (package / "one.py").write_text("a = 1\n")
    monkeypatch.setattr(sources, "PACKAGE", (package,))
    (listed,) = discover("toy_figures").values()

    def version(old: str = "", new: str = "") -> str:
        (source / "toy.py").write_text(TOY.replace(old, new) if old else TOY)
        sources._parsed.cache_clear()
        return sources.version(listed.module, listed.figure.run)

    before = version()
    assert (
        before
        == version("drawn", "painted")
        == version('"exact"', '"surely"')
        == version("return Plot(", "return  Plot(")
    )
    assert before != version("10.0 **", "11.0 **")
    (package / "notes.md").write_text("no source\n")
    assert before == version()
    (package / "one.py").write_text("a = 2\n")
    assert before != version()


def test_a_case_reaches_what_its_run_uses_through_imports_and_not_what_draws_it():
    found = sources.reached("papers.figures.lou_9", discover()["lou-9"].figure.run)
    assert {"papers.figures.lou_9:run", "papers.figures.lou_3_private:published_iterates"} <= set(found)
    assert "papers.published.block_frank_wolfe:PublishedBlockFrankWolfe" in found
    assert "papers.published.dense_sketch:gaussian_sketch" in found
    assert not {name for name in found if name.endswith((":draw", ":Plot", ":_more", ":FIGURE"))}


@pytest.mark.slow
def test_a_verdict_that_other_seeds_turn_is_marked_as_unstable(toy, tmp_path):
    source, touches = toy
    swinging = TOY.replace("return Verdict(a < b,", 'return Verdict(table["seed"].max() < 1000,')
    (source / "toy.py").write_text(swinging)
    wanted = list(discover("toy_figures").values())
    (outcome,) = runner.reproduce(wanted, tmp_path / "out", jobs=1, seeds=2)
    assert [one.stable for one in outcome.judged] == [False, False]
    assert runs(touches) == {"fast-0": 1, "fast-1000": 1, "slow-0": 1, "slow-1000": 1}
    assert set(outcome.table["seed"]) == {0}
    (once,) = runner.reproduce(wanted, tmp_path / "out", jobs=1)
    assert [one.stable for one in once.judged] == [None, None]
    said = runner.facts(outcome)
    assert said["settings"] == {"seed": "0", "method": "fast, slow"}
    assert said["run"].startswith("Quick run, cut to fit in minutes: seed 0 instead of 0, 1.")
    assert "UNSTABLE" in write_pages([outcome], tmp_path / "out")[0].read_text()


def test_a_full_run_says_on_its_plot_which_of_the_papers_sizes_it_has_not_and_what_they_would_cost(toy):
    source, _ = toy
    (source / "toy.py").write_text(TOY.replace("run=run, draw", 'printed={"seed": 8}, less="No moon.", run=run, draw'))
    (listed,) = discover("toy_figures").values()
    figure, cases = listed.figure, listed.figure.cases(False)
    assert runner.printed_sizes(figure, cases) == [4.0] * 4
    full = runner.Outcome(figure, "1", False, 4, 900.0, None, (), printed_seconds=3600.0)
    assert runner.run_line(full) == (
        "Full run; less than the paper has, to save time: 2 repeats instead of 8 "
        "(all of it would take 1 CPU hours, this took 0.25). No moon."
    )
    some = replace(figure, cases=lambda _: [case for case in cases if case["method"] == "slow" or case["seed"] == 0])
    assert "1 repeat of fast instead of 8; 2 repeats of slow instead of 8" in runner.run_line(
        replace(full, figure=some)
    )
    assert runner.run_line(replace(full, figure=replace(figure, printed={"seed": 2}))) == "Full run. No moon."


def test_figures_that_share_their_cases_keep_them_in_one_place(toy, tmp_path):
    (listed,) = discover("toy_figures").values()
    one, other = (replace(listed, figure=replace(listed.figure, name=name, shares="toys")) for name in ("a", "b"))
    targets = [[job.target for job in runner.plan(each, tmp_path, quick=True)] for each in (one, other)]
    assert targets[0] == targets[1]
    assert {target.parent for target in targets[0]} == {tmp_path / "toys"}
    assert runner.plan(one, tmp_path, quick=True)[0].figure == "a"


def test_a_full_run_on_record_is_left_out_until_its_sizes_or_claims_change(toy):
    (listed,) = discover("toy_figures").values()
    figure = listed.figure
    claims = [{"says": c.says, "expected": c.reproduces, "confidence": c.confidence} for c in figure.claims]
    said = {"quick": False, "settings": runner.settings(figure.cases(False)), "claims": claims}
    assert pieces.on_record(figure, said)
    assert not pieces.on_record(figure, None)
    assert not pieces.on_record(figure, {**said, "quick": True})
    assert not pieces.on_record(figure, {**said, "claims": claims[:1]})
    assert not pieces.on_record(replace(figure, cases=lambda _: [{"seed": 5, "method": "fast"}]), said)


def test_a_claim_that_a_quick_run_is_too_small_for_says_what_that_one_finds():
    claim = Claim("dFW is ahead", lambda _: Verdict(True, ""), "exact", False, "it is not with more rounds", quick=True)
    alike = replace(claim, quick=None)
    stated = {quick: runner.Judged(claim, claim.check(None), quick).as_stated for quick in (True, False)}
    assert stated == {True: True, False: False}
    assert not runner.Judged(alike, alike.check(None), quick=True).as_stated


@pytest.mark.slow
def test_a_full_run_is_repeated_with_other_seeds_at_the_size_of_a_quick_one(toy, tmp_path):
    _, touches = toy
    wanted = list(discover("toy_figures").values())
    (outcome,) = runner.reproduce(wanted, tmp_path / "out", quick=False, jobs=1, seeds=2)
    assert runs(touches) == {"fast-0": 1, "fast-1": 1, "fast-1000": 1, "slow-0": 1, "slow-1": 1, "slow-1000": 1}
    assert [one.stable for one in outcome.judged] == [True, True]
    assert (
        "A second run with other seeds, of the quick size, gives the same verdict."
        in write_pages([outcome], tmp_path / "out")[0].read_text()
    )


@pytest.mark.slow
def test_a_full_run_with_a_claim_too_large_for_a_quick_one_is_repeated_in_full(toy, tmp_path):
    _, touches = toy
    (listed,) = discover("toy_figures").values()
    first, *others = listed.figure.claims
    larger = replace(listed, figure=replace(listed.figure, claims=(replace(first, quick=first.reproduces), *others)))
    (outcome,) = runner.reproduce([larger], tmp_path / "out", quick=False, jobs=1, seeds=2)
    assert {name for name in runs(touches) if "-1" in name} == {
        "fast-1",
        "slow-1",
        "fast-1000",
        "fast-1001",
        "slow-1000",
        "slow-1001",
    }
    assert not outcome.again_quick
    page = write_pages([outcome], tmp_path / "out")[0].read_text()
    assert "A second run with other seeds gives the same verdict." in page


@pytest.mark.slow
def test_a_claim_of_which_other_seeds_say_nothing_is_not_called_stable(toy, tmp_path):
    source, _ = toy
    mute = 'if table["seed"].max() >= 1000:\n        raise Silent("no such run")\n    return Verdict(not faster('
    text = TOY.replace("return Verdict(not faster(", mute).replace("import Claim,", "import Silent, Claim,")
    (source / "toy.py").write_text(text)
    wanted = list(discover("toy_figures").values())
    (outcome,) = runner.reproduce(wanted, tmp_path / "out", jobs=1, seeds=2)
    assert [one.stable for one in outcome.judged] == [True, None]
    (source / "toy.py").write_text(text.replace(">= 1000", ">= 0"))
    importlib.reload(sys.modules["toy_figures.toy"])
    assert "the rows say nothing of 'the slow one is faster': no such run" in go_on(tmp_path / "out").failures[0].reason


@pytest.mark.slow
def test_a_damaged_file_is_run_again(toy, tmp_path):
    _, touches = toy
    go_on(tmp_path / "out")
    victim = sorted((tmp_path / "out" / "toy-1").glob("*.parquet"))[0]
    victim.write_bytes(victim.read_bytes()[:40])
    assert go_on(tmp_path / "out").status == "as stated"
    assert sorted(runs(touches).values()) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "reason"),
    [("fail", "ValueError: the toy was told to fail"), ("die", r"its process died \(exit code -9\)")],
)
def test_a_case_that_fails_is_named_and_the_others_are_kept(toy, tmp_path, order, reason):
    _, touches = toy
    (touches / f"{order}-fast-0").touch()
    outcome = go_on(tmp_path / "out", quick=False)
    assert outcome.status == "failed"
    assert outcome.judged == ()
    (failure,) = outcome.failures
    assert failure.case == {"seed": 0, "method": "fast"}
    assert re.match(reason, failure.reason)
    (touches / f"{order}-fast-0").unlink()
    again = go_on(tmp_path / "out", quick=False)
    assert again.status == "as stated"
    assert runs(touches) == {"fast-0": 2, "fast-1": 1, "slow-0": 1, "slow-1": 1}
    assert list((tmp_path / "out").rglob("*.failed.txt")) == []


@pytest.mark.slow
def test_a_run_killed_in_the_middle_goes_on_where_it_stopped(toy, tmp_path):
    """kill -9 of the whole run, after the first case was written and while the second one was running."""
    source, touches = toy
    (touches / "wait-slow-0").touch()
    script = textwrap.dedent(f"""
        import sys
        sys.path[:0] = [{str(source.parent)!r}, {str(ROOT)!r}]
        from pathlib import Path
        from papers.registry import discover
        from papers.runner import reproduce
        if __name__ == "__main__":
            reproduce(list(discover("toy_figures").values()), Path({str(tmp_path / "out")!r}), jobs=1)
    """)
    file = tmp_path / "run.py"
    file.write_text(script)
    child = subprocess.Popen([sys.executable, str(file)], start_new_session=True)
    deadline = time.monotonic() + 60
    while not ((touches / "slow-0").exists() and list((tmp_path / "out").rglob("*.parquet"))):
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    (touches / "wait-slow-0").unlink()
    assert go_on(tmp_path / "out").status == "as stated"
    assert runs(touches) == {"fast-0": 1, "slow-0": 2}


def test_a_figure_without_its_data_is_left_out_and_said_so(toy, tmp_path, monkeypatch):
    source, touches = toy
    (source / "toy.py").write_text(TOY.replace('setting="two methods"', 'setting="", data=("no-such-data",)'))
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    outcome = go_on(tmp_path / "out")
    assert (outcome.status, outcome.missing) == ("no data", ("no-such-data",))
    assert runs(touches) == {}


def test_two_figures_of_one_name_are_refused(toy):
    source, _ = toy
    (source / "twin.py").write_text(TOY)
    with pytest.raises(co.InvalidInput, match=r"toy_figures.toy and toy_figures.twin both define 'toy-1': rename one"):
        discover("toy_figures")


def test_a_name_that_is_nearly_right_is_corrected(toy):
    known = discover("toy_figures")
    assert [listed.figure.name for listed in chosen(["toy*"], known)] == ["toy-1"]
    with pytest.raises(co.InvalidInput, match=r"no figure called 'toi-1': did you mean toy-1"):
        chosen(["toi-1"], known)


def test_every_figure_of_the_package_is_found_and_complete():
    known = discover()
    assert known
    for name, listed in known.items():
        figure = listed.figure
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name), name
        assert figure in [one.figure for one in in_module(listed.module)]
        assert figure.claims, name
        for claim in figure.claims:
            assert claim.reproduces or claim.finding, f"{name}: {claim.says}"
        for quick in (True, False):
            keys = [runner.case_key(dict(case)) for case in figure.cases(quick)]
            assert len(set(keys)) == len(keys) > 0, name


# ------------------------------------------------------------------------------------------------ the command line


@pytest.mark.slow
def test_the_exit_code_is_1_where_a_verdict_differs_and_0_where_none_does(toy, tmp_path):
    source, _ = toy
    out = ["--results", str(tmp_path / "out"), "--jobs", "1"]
    good = CliRunner().invoke(app, ["run", "toy-1", *out])
    assert good.exit_code == 0, good.output
    assert "holds: the fast one is faster" in good.output
    assert "does not hold: a finding: the slow one is faster" in good.output
    (source / "toy.py").write_text(TOY.replace('reproduces=False, finding="it is not"', ""))
    importlib.reload(sys.modules["toy_figures.toy"])
    bad = CliRunner().invoke(app, ["all", *out])
    assert bad.exit_code == 1
    assert "DOES NOT HOLD, against what the figure says: the slow one is faster" in bad.output


@pytest.mark.slow
def test_json_carries_every_verdict(toy, tmp_path):
    told = CliRunner().invoke(app, ["run", "toy-1", "--json", "--results", str(tmp_path / "out"), "--jobs", "1"])
    (said,) = json.loads(told.stdout)
    assert [(claim["held"], claim["expected"]) for claim in said["claims"]] == [(True, True), (False, False)]
    assert said["claims"][0]["evidence"] == "1.0e-06 against 1.0e-03"


@pytest.mark.slow
def test_the_list_names_every_figure_and_what_a_quick_run_took(toy, tmp_path):
    out = str(tmp_path / "out")
    before = json.loads(CliRunner().invoke(app, ["list", "--results", out, "--json"]).stdout)
    CliRunner().invoke(app, ["run", "toy-1", "--results", out, "--jobs", "1"])
    after = json.loads(CliRunner().invoke(app, ["list", "--results", out, "--json"]).stdout)
    assert [(line["name"], line["claims that hold"]) for line in after] == [("toy-1", "1 of 2")]
    assert [before[0]["quick, CPU"], after[0]["quick, CPU"]] == ["not run", "0 s"]
    assert CliRunner().invoke(app, ["list", "--results", out, "--quiet"]).stdout == "toy-1\n"


@pytest.mark.slow
def test_a_quiet_run_prints_the_names_of_what_differs_and_nothing_else(toy, tmp_path):
    source, _ = toy
    out = ["--results", str(tmp_path / "out"), "--jobs", "1", "--quiet"]
    assert CliRunner().invoke(app, ["all", *out]).stdout == ""
    (source / "toy.py").write_text(TOY.replace('reproduces=False, finding="it is not"', ""))
    importlib.reload(sys.modules["toy_figures.toy"])
    assert CliRunner().invoke(app, ["all", *out]).stdout == "toy-1\n"


# ------------------------------------------------------------------------------------------------ plots


class Balanced(HTMLParser):
    """Fails where a tag is closed that was not open."""

    EMPTY = frozenset({"meta", "img", "br", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open, self.sources = [], []

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag == self.open.pop()


@pytest.mark.slow
def test_the_page_is_whole_and_loads_nothing_from_elsewhere(toy, tmp_path):
    out = tmp_path / "out"
    index, _ = write_pages([go_on(out)], out)
    parser = Balanced()
    parser.feed(index.read_text())
    parser.close()
    assert parser.open == []
    shown = [source for source in parser.sources if not source.startswith("#")]
    assert set(shown) == {"toy-1/figure.svg"}
    assert (out / shown[0]).is_file()
    assert "the slow one is faster" in index.read_text()


@pytest.mark.slow
def test_the_privacy_line_stands_on_the_plot_and_on_the_page(toy, tmp_path):
    out = tmp_path / "out"
    index, _ = write_pages([go_on(out)], out)
    svg = ET.fromstring((out / "toy-1" / "figure.svg").read_text())
    texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "Privacy: epsilon 1 </script>, claimed" in texts
    assert "Privacy: epsilon 1 &lt;/script&gt;, claimed" in index.read_text()


@pytest.mark.slow
def test_a_drawing_that_fails_is_reported_and_costs_no_verdict(toy, tmp_path):
    source, _ = toy
    (source / "toy.py").write_text(TOY.replace("def draw(table):", "def draw(table):\n    raise KeyError('error')"))
    out = tmp_path / "out"
    _, (outcome,) = write_pages([go_on(out)], out)
    assert (outcome.status, len(outcome.judged)) == ("failed", 2)
    assert "draw raised KeyError" in outcome.failures[0].reason
