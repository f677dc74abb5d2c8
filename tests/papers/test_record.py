"""The record of runs that is kept in papers/results: pages are made from it, and nothing else is on them."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import colonnade as co
from papers import record
from papers.commands import app
from papers.comparison import page as comparison
from papers.comparison.record import load as load_comparison
from papers.findings import FINDINGS, Shown, page
from papers.looks import COLOURS, METHODS, shade
from papers.registry import discover

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PAPERS = Path(__file__).resolve().parents[2] / "papers"
PAGES = ("findings.md", "gallery.md", "README.md")
STATED = ("epsilon ", "delta ", "unit: ", "trust model: ", "guarantee: ")


@pytest.fixture(scope="module")
def kept() -> record.Record:
    return record.load(PAPERS)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The pages that the record makes, to be spoilt."""
    pages = tmp_path / "papers"
    (pages / record.FOLDER).mkdir(parents=True)
    for path in (*(PAPERS / name for name in PAGES), *(PAPERS / record.FOLDER).glob("*.json")):
        shutil.copy(path, pages / path.relative_to(PAPERS))
    return pages


def stale(pages: Path) -> list[str]:
    told = CliRunner().invoke(app, ["pages", "--check", "--json", "--pages", str(pages)])
    names = json.loads(told.stdout)
    assert told.exit_code == (1 if names else 0)
    return names


# ------------------------------------------------------------------------------------------------ pages and record


def test_the_pages_are_what_the_record_makes_of_them():
    assert stale(PAPERS) == [], "run `python -m papers pages`"


@pytest.mark.parametrize("name", PAGES)
def test_a_number_that_is_changed_on_a_page_is_noticed_and_rendered_away(copy, name):
    path = copy / name
    before, start, rest = path.read_text().partition(record.START)
    digit = re.search(r"\d", rest)
    path.write_text(before + start + rest[: digit.start()] + str(9 - int(digit[0])) + rest[digit.end() :])
    assert stale(copy) == [name]
    assert CliRunner().invoke(app, ["pages", "--pages", str(copy)]).exit_code == 0
    assert path.read_text() == (PAPERS / name).read_text()


def test_a_number_that_is_changed_in_the_record_is_noticed(copy):
    path = copy / record.FOLDER / "finding-sketch-noise.json"
    changed = json.loads(path.read_text())
    changed["claims"][0]["evidence"] += "1"
    path.write_text(json.dumps(changed))
    assert stale(copy) == ["findings.md", "gallery.md"]


def test_another_version_of_the_code_makes_no_page_stale(copy, monkeypatch):
    monkeypatch.setattr("papers.runner.version", lambda module, run: "another")
    assert stale(copy) == []


def test_a_page_without_marks_is_refused(copy):
    (copy / "gallery.md").write_text("nothing here\n")
    told = CliRunner().invoke(app, ["pages", "--pages", str(copy)])
    assert told.exit_code == 1
    assert "add them where it is to be filled" in told.stderr


def test_the_record_holds_the_claims_that_a_figure_s_file_makes_or_the_readme_says_that_they_wait(kept):
    """A figure that was added, or a claim that was changed, is to be run and published again; until then it is named as waiting."""
    known = {name: one.figure for name, one in discover().items()}
    assert set(kept) <= set(known)
    left = record.waiting(known.values(), kept)
    said = re.search(r"Claims written down and not yet judged: (.*?) \(`", (PAPERS / "README.md").read_text())
    assert left == (said[1].split(", ") if said else [])
    for name in set(kept) - set(left):
        wanted = [
            (c.says, c.expected(kept[name]["quick"]), c.finding, c.confidence, c.changed) for c in known[name].claims
        ]
        keys = ("says", "expected", "finding", "confidence", "changed")
        assert [tuple(c[key] for key in keys) for c in kept[name]["claims"]] == wanted, name


def test_every_recorded_verdict_is_the_one_that_its_figure_states(kept):
    assert {name: said["status"] for name, said in kept.items() if said["status"] != "as stated"} == {}


def test_every_recorded_figure_says_what_it_was_run_with_and_has_a_small_plot(kept):
    sizes = {}
    for name, said in kept.items():
        assert re.fullmatch(r"[\d.]+\+[0-9a-f]{16}", said["version"]), name
        assert said["cpu_seconds"] > 0
        assert isinstance(said["quick"], bool)
        assert said["settings"]
        assert said["hours"] > 0 or said["cpu_seconds"] < 1
        sizes[name] = (PAPERS / record.FOLDER / f"{name}.svg").stat().st_size
    assert max(sizes.values()) < 150_000  # nine panels
    assert sum(sizes.values()) < 4_000_000


def test_a_verdict_was_looked_at_with_other_seeds_or_the_readme_says_that_it_was_not(kept):
    """An unstable one is marked as such; what has no chance in it is the same again."""
    text = (PAPERS / "README.md").read_text()
    alone = re.search(r"Not yet judged with other seeds, or not all of its claims: (.*?)\. ", text)
    for name, said in kept.items():
        looked = all(claim["stable"] is not None for claim in said["claims"])
        assert looked or (alone and f"[{name}]" in alone[1]), name


def test_a_kept_plot_is_what_its_record_makes_of_it(kept):
    """One figure here; `python -m papers draw --check` looks at all."""
    name = "finding-sketch-noise"
    assert record.drawn({name: kept[name]})[name] == (PAPERS / record.FOLDER / f"{name}.svg").read_text()


def test_words_come_from_a_figures_file_and_what_was_measured_from_its_record(kept):
    figures = [listed.figure for listed in discover().values()]
    name = "finding-sketch-noise"
    figure = next(one for one in figures if one.name == name)
    first, *others = figure.claims
    said = replace(figure, less="Without the moon.", claims=(replace(first, changed="another word."), *others))
    told = record.retold(kept, [said])[name]
    assert told["run"].endswith("Without the moon.")
    assert told["claims"][0]["changed"] == "another word."
    assert {**told, "run": "", "less": "", "claims": []} == {**kept[name], "run": "", "less": "", "claims": []}
    other = replace(said, claims=(replace(first, says="something else"), *others))
    assert record.retold(kept, [other])[name] == kept[name]  # of another claim the record knows nothing


def test_every_curve_that_is_kept_has_its_own_colour_dash_and_name_and_a_method_one_hue(kept):
    hues: dict[str, set[str]] = {}
    for name, said in kept.items():
        for panel in said["plot"]["panels"] if said["plot"] else ():
            lines = panel["lines"]
            assert len(lines) <= 8, name
            for key in ("colour", "dash", "name"):
                assert len({line[key] for line in lines}) == len(lines), f"{name}: {key}"
            for line in lines:
                if line["method"] in METHODS:
                    shades = [shade(COLOURS[METHODS[line["method"]]], turn) for turn in range(8)]
                    assert line["colour"] in shades, f"{name}: {line['name']}"
                    hues.setdefault(line["method"], set()).add(shades[0])
    assert all(len(found) == 1 for found in hues.values())
    assert len(hues) > 5


def test_every_plot_says_on_its_face_how_large_its_run_was(kept):
    for name, said in kept.items():
        if said["plot"] is None:
            continue  # drawn before curves were kept
        drawn = ET.fromstring((PAPERS / record.FOLDER / f"{name}.svg").read_text())
        text = " ".join(element.text or "" for element in drawn.iter("{http://www.w3.org/2000/svg}text"))
        assert " ".join(said["run"].split()) in " ".join(text.split()), name
        assert said["run"].startswith("Quick run" if said["quick"] else "Full run"), name


def test_every_plot_carries_the_privacy_of_its_curves(kept):
    """epsilon, delta, unit, trust model and guarantee of every private method, or that there is none."""
    for name, one in discover().items():
        if name not in kept:
            continue
        said = one.figure.privacy
        if not said.startswith("none"):
            counts = {word: said.count(word) for word in STATED[2:]}
            assert len(set(counts.values())) == 1, f"{name}: {counts}"
            assert all(word in said for word in STATED), name
        drawn = ET.fromstring((PAPERS / record.FOLDER / f"{name}.svg").read_text())
        text = " ".join(element.text or "" for element in drawn.iter("{http://www.w3.org/2000/svg}text"))
        assert f"Privacy: {said}".split() == text[text.index("Privacy: ") :].split(), name
        assert kept[name]["privacy"] == said


# ------------------------------------------------------------------------------------------------ the comparison


@pytest.fixture(scope="module")
def measured() -> dict:
    return load_comparison(PAPERS / record.FOLDER / "comparison.json")


def test_the_page_of_the_comparison_holds_what_its_record_says(measured):
    text = (PAPERS / "comparison.md").read_text(encoding="utf-8")
    assert text.partition(comparison.START)[2].partition(comparison.END)[0] == f"\n{comparison.block(measured)}\n"


def test_a_number_changed_in_the_record_of_the_comparison_shows_in_its_page(measured):
    """Else the test above could pass whatever was measured."""
    for name in ("auc", "seconds", "epsilon"):
        other = deepcopy(measured)
        line = next(line for line in comparison.shown(other["lines"]) if line[name] and " alone" not in line["model"])
        line[name] *= 2
        assert comparison.block(other) != comparison.block(measured), name


# ------------------------------------------------------------------------------------------------ findings


def test_the_words_of_a_finding_hold_no_measured_number():
    """Places in a paper and formulas only: everything measured comes from the record."""
    places = r"(?:equation|line|algorithm|theorem|lemma|table|figure|chapter)s? \d[\d.]*(?:(?:,| to| and) \d[\d.]*)*"
    for finding in FINDINGS:
        for words in (finding.title, finding.wrong, finding.instead):
            assert re.findall(r"\d\d|\d\.\d|%", re.sub(places, "", words)) == [], finding.title


def test_what_a_finding_shows_does_not_hold_and_what_stands_in_its_place_does(kept):
    def held(shown: Shown) -> bool:
        return next(c["held"] for c in kept[shown.figure]["claims"] if c["says"].startswith(shown.claim))

    for finding in FINDINGS:
        assert not held(finding.shown[0]), finding.title
        assert all(held(one) for one in finding.holds), finding.title


def test_the_page_explains_every_finding_and_names_every_claim_that_does_not_hold(kept):
    text = page(kept)
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert len(sections) == len(FINDINGS) + 1
    for section in sections[:-1]:
        assert "**What is wrong.**" in section
        assert "**What holds instead.**" in section
        assert re.search(r"!\[.+\]\(results/.+\.svg\)", section)
    for said in kept.values():
        for claim in said["claims"]:
            assert claim["held"] or f"“{claim['says']}”" in text


def test_every_published_calibration_is_recorded_as_violated_and_no_bound_is_above_the_truth(kept):
    rows = kept["attacks-published"]["listing"]
    assert rows
    for row in rows:
        bound, exact = float(row["Shown by attack: ε at least"]), row["Exact ε of the pair"]
        assert row["Verdict"] == "violated"
        assert bound > float(row["Claimed ε"])
        if re.fullmatch(r"[\d.,]+", exact):
            assert bound < float(exact.replace(",", ""))  # each bound errs less than once in 10^6


def test_a_finding_that_rests_on_nothing_recorded_is_refused(kept):
    without = {name: said for name, said in kept.items() if name != "lou-5"}
    with pytest.raises(co.InvalidInput, match=r"lou-5 has 0 recorded claims .* publish it"):
        page(without)


# ------------------------------------------------------------------------------------------------ publishing


def outcome(folder: Path, name: str, **changes: object) -> None:
    said = {
        "name": name,
        "status": "as stated",
        "quick": True,
        "claims": [],
        "failures": [],
        "missing_data": [],
    } | changes
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "outcome.json").write_text(json.dumps(said))
    (folder / name / "figure.svg").write_text(f"<svg>{said['status']}</svg>")
    (folder / name / "plot.json").write_text("{}")


def test_publishing_takes_what_was_run_and_leaves_the_rest(tmp_path):
    results, pages = tmp_path / "results", tmp_path / "papers"
    for name in ("one", "two", "gone"):
        outcome(results, name)
    record.publish(results, pages, ["one", "two", "gone"])
    shutil.rmtree(results)
    outcome(results, "one", status="differs")
    outcome(results, "two", status="failed")
    assert record.publish(results, pages, ["two", "one"]) == ["one"]
    assert {name: said["status"] for name, said in record.load(pages).items()} == {"two": "as stated", "one": "differs"}
    assert list(record.load(pages)) == ["one", "two"]
    assert {path.name for path in (pages / "results").glob("*.svg")} == {"one.svg", "two.svg"}
    assert "differs" in (pages / "results" / "one.svg").read_text()
    assert "as stated" in (pages / "results" / "two.svg").read_text()


def test_a_quick_run_does_not_take_the_place_of_a_full_one_that_claims_the_same(tmp_path):
    results, pages = tmp_path / "results", tmp_path / "papers"
    outcome(results, "one", quick=False)
    record.publish(results, pages, ["one"])
    outcome(results, "one")
    assert record.publish(results, pages, ["one"]) == []
    assert record.load(pages)["one"]["quick"] is False
    outcome(results, "one", claims=[{"says": "more", "expected": True, "confidence": "exact"}])
    assert record.publish(results, pages, ["one"]) == ["one"]
    outcome(results, "one", quick=False, claims=[{"says": "more", "expected": False, "confidence": "exact"}])
    assert record.publish(results, pages, ["one"]) == ["one"]
    outcome(results, "one", claims=[{"says": "more", "expected": True, "confidence": "exact"}])  # of its size
    assert record.publish(results, pages, ["one"]) == []


def test_publishing_nothing_is_refused(tmp_path):
    outcome(tmp_path / "results", "one", status="no data")
    with pytest.raises(co.InvalidInput, match="holds no finished figure: run `python -m papers all"):
        record.publish(tmp_path / "results", tmp_path / "papers", ["one", "two"])
    assert not (tmp_path / "papers").exists()
