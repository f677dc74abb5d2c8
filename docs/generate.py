"""Writes the parts of the documents that repeat what the code says.

    python docs/generate.py            rewrite every generated block
    python docs/generate.py --check    exit with 1 and name the blocks that differ from the code

A block stands between two comments, `<!-- generated: NAME -->` and `<!-- end -->`; what is between them is replaced. NAME is
one of BLOCKS below, or `source FILE NAME`, which shows a function, class or constant as it stands in the source.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import itertools
import json
import math
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import colonnade
from colonnade.methods.node_setup import known_methods

sys.path.insert(0, str(Path(__file__).resolve().parent))  # picture.py, where this file is imported by its path
ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "colonnade"
BLOCK = re.compile(r"(<!-- generated: (?P<name>[^\n]+?) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
EXAMPLE_ROWS, EXAMPLE_COLUMNS = 10_000, 40  # of the price table


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Rewrite the documents under `root`, or only compare them; the exit code."""
    checking = arguments == ["--check"]
    if arguments and not checking:
        sys.stderr.write("usage: python docs/generate.py [--check]\n")
        return 2
    stale = []
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        fresh = refreshed(text)
        if fresh == text:
            continue
        stale += [f"{path.relative_to(root)}: {name}" for name in changed(text, fresh)]
        if not checking:
            path.write_text(fresh, encoding="utf-8")
    if checking and stale:
        listed = "\n".join(f"  {line}" for line in stale)
        sys.stderr.write(f"these blocks differ from the code; run `make docs` and commit:\n{listed}\n")
        return 1
    return 0


def documents(root: Path) -> list[Path]:
    """Every document of the project."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("papers/*.md")])


def refreshed(text: str) -> str:
    """The text with all its blocks made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{block(found['name']).rstrip()}\n{found[4]}", text)


def changed(old: str, new: str) -> list[str]:
    """Names of the blocks that differ."""
    pairs = zip(BLOCK.finditer(old), BLOCK.finditer(new), strict=True)
    return [a["name"] for a, b in pairs if a["body"] != b["body"]]


def block(name: str) -> str:
    """What stands in the block of this name."""
    if name.startswith("source "):
        _, file, wanted = name.split()
        return f"```python\n{source(SOURCE / file, wanted)}\n```"
    if name not in BLOCKS:
        raise SystemExit(f"no generated block is called {name!r}; there are {', '.join(BLOCKS)}, source ...")
    return BLOCKS[name]()


# ------------------------------------------------------------------------------------------------ tables


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    lines = [list(head), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def first(thing: object) -> str:
    """The first sentence of a docstring; `help` shows the rest."""
    return opening(inspect.getdoc(thing) or "")


def card(path: Path) -> str:
    """The first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


# ------------------------------------------------------------------------------------------------ blocks


def methods() -> str:
    """Every public method: what leaves whom, how often at most, and at which price, from its own price()."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, kind in sorted(known_methods().items()):
        job = example_job(name, kind())
        found.setdefault(tuple(releases(kind().price(job), job)), []).append(f"`{name}`")
    listed = "\n".join(
        f"- {', '.join(names)}: {'; '.join(f'{what}: {price}' for what, price in lines)}"
        for lines, names in found.items()
    )
    note = (
        f"In brackets: how often at most; then the price in all; for *exact* no finite ε holds. Default settings, {EXAMPLE_ROWS:,} "
        f"rows, {EXAMPLE_COLUMNS} columns per party, logistic loss over an L1 ball of radius 10 or the nearest problem that the "
        "method solves; private methods at ε = 1, δ = 1e-6, bounds of 1."
    )
    return f"{listed}\n\n{note}"


def releases(plans: dict[str, Any], job: Any) -> list[tuple[str, str]]:
    """What leaves in a run, by whom, and its price: a line for each price, one for all that is exact."""
    said: dict[str, dict[str, list[str]]] = {}
    for party, plan in plans.items():
        for charge in plan:
            price = f"ρ = {charge.rho:.3g}" if math.isfinite(charge.rho) else "exact"
            said.setdefault(price, {}).setdefault(f"{charge.what} ({charge.count:,})", []).append(role(party, job))
    return [
        ("; ".join(f"{who[0] if len(who) == 1 else 'everyone'}: {what}" for what, who in whats.items()), price)
        for price, whats in said.items()
    ]


def example_job(name: str, method: Any) -> Any:
    """The first of a few jobs that this method accepts: parties or one holder, without a budget or with one."""
    from colonnade.model.job import Job, Roster

    co = colonnade
    ball = co.L1Ball(10.0)
    problems = [
        co.Problem(co.Logistic(), ball),
        co.Problem(co.Logistic(), penalty=co.Ridge(0.1)),
        co.Problem(co.Logistic(), co.Product(ball, "parties")),
        co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)),
        co.Problem(co.LeastSquares()),
    ]
    places = tuple(range(EXAMPLE_COLUMNS))
    split = Roster(EXAMPLE_ROWS, {"labels": (), "party": places}, "labels")
    alone = Roster(EXAMPLE_ROWS, {"holder": places}, "holder")
    rows = Roster(
        2 * EXAMPLE_ROWS, {"one": places, "two": places}, "one", held_rows=dict.fromkeys(("one", "two"), EXAMPLE_ROWS)
    )
    bounds = {"row_norm": 1.0, "feature_bound": 1.0, "label_bound": 1.0}
    budgets = [None, *(co.Privacy(1.0, 1e-6, trust=trust, **bounds) for trust in ("nobody", "secure"))]
    rosters = [split, alone] if "columns" in method.SPLITS else [rows]
    for job in (Job(*parts) for parts in itertools.product(problems, rosters, budgets)):
        with contextlib.suppress(co.InvalidInput):
            method.check(job)
            return job
    raise SystemExit(f"{name} accepts none of the example jobs of docs/generate.py; add one that it does")


def role(party: str, job: Any) -> str:
    """Who a party of an example job stands for."""
    if len(job.roster.parties) == 1:
        return "the one holder"
    return "label holder" if party == job.roster.label else "each party"


def output() -> str:
    """What the Python code of the README prints."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = readme.partition("```python\n")[2].partition("```")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102  our own page
    return f"```text\n{printed.getvalue()}```"


def demo() -> str:
    """The models of the demonstration, from what docs/picture.py kept of a run."""
    import picture

    return str(picture.table(json.loads(picture.FIGURES.read_text(encoding="utf-8"))))


def attacked() -> str:
    """What the repository does to itself, counted: attacks, planted mistakes, what is open."""
    from colonnade.attacks.run import CONFIDENCE, TARGETS

    planted = len(tomllib.loads((ROOT / "tests/mutants/list.toml").read_text(encoding="utf-8"))["mutant"])
    threats = (ROOT / "docs/understand/threat-model.md").read_text(encoding="utf-8").partition("## What is open")[2]
    open_lines = len(re.findall(r"^\d+\. \*\*", threats.partition("\n## ")[0], re.MULTILINE))
    return "\n".join(
        [
            f"- **Attacked by**: `make audit`, which plays {len(TARGETS)} adversaries against the real programs and bounds ε from",
            f"  below at confidence 1 − {1 - CONFIDENCE:.0e}; `make mutants`, which plants over {planted // 100 * 100} mistakes one at a time that tests must",
            "  catch; `make faults`, which kills processes at every step.",
            f"- **Open**: [{open_lines} gaps](docs/understand/threat-model.md#what-is-open), each with who gains what, and what to do about it.",
        ]
    )


def fields_of(file: Path) -> str:
    """Every field that the TOML in a module's docstring names, with its comment, under the table it stands in."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    lines = []
    for line in text.splitlines():
        found = re.fullmatch(r" {4}(?P<what>\[[\w.]+\]|\w+ = .*?)(?:\s+# (?P<why>.*))?", line)
        if found and found["what"].startswith("["):
            lines += ["", f"In `{found['what']}`{': ' + found['why'] if found['why'] else ''}", ""]
        elif found:
            lines.append(f"- `{found['what']}`: {found['why']}")
        elif lines and (more := re.fullmatch(r" {5,}# (.+)", line)):
            lines[-1] += f" {more[1]}"
    return "\n".join(lines).strip()


def federation_fields() -> str:
    return fields_of(PACKAGE / "data/federation_file.py")


def party_fields() -> str:
    return fields_of(PACKAGE / "network/party_file.py")


def messages() -> str:
    """The messages by the file that defines them: number, name and fields; their docstrings say who sends what to whom."""
    from colonnade.methods import load_all
    from colonnade.runtime.program import BY_CODE

    load_all()
    files: dict[str, list[str]] = {}
    for code, shape in sorted(BY_CODE.items()):
        if shape.cls.__module__.startswith("colonnade."):
            file = shape.cls.__module__.removeprefix("colonnade.").replace(".", "/")
            fields = ", ".join(f"{f.name}{'*' if 'Released[' in f.declared else ''}" for f in shape.fields)
            files.setdefault(f"`{file}.py`", []).append(f"{code} `{shape.cls.__name__}({fields})`")
    return "\n".join(f"- {file}: {', '.join(found)}" for file, found in files.items())


def values() -> str:
    """Example values and their bytes."""
    import numpy as np
    from scipy import sparse

    from colonnade.privacy.values import Packed, decode_value, encode_value

    column = sparse.csc_array(([1.0, 1.0], [0, 2], [0, 2]), shape=(4, 1))
    examples: list[tuple[str, Any]] = [
        ('"é"', "é"),
        ("Released 7", decode_value(b"R" + encode_value(7))),
        ("int8 array [1, -1]", np.array([1, -1], np.int8)),
        ("CSC column, 4 rows, 1.0 in rows 0 and 2", column),
        ("Packed [1, 2, 3], 2 bits", Packed(np.array([1, 2, 3], np.uint64), 2)),
    ]
    return "\n".join(f"- `{text}`: `{spaced(encode_value(v))}`" for text, v in examples)


def spaced(raw: bytes) -> str:
    """The tag as a character, the rest in hexadecimal, of long values eight bytes together."""
    rest = raw[1:].hex(" ", -8) if len(raw) > 16 else raw[1:].hex()
    return f"{chr(raw[0])} {rest}".strip()


def dtypes() -> str:
    """The numbers of array types."""
    from colonnade.privacy.values import DTYPES

    return f"Array types by number: {', '.join(f'{code} `{dtype.name}`' for code, dtype in enumerate(DTYPES))}."


def limits() -> str:
    """What somebody else may ask of a long-lived process, and what happens above it."""
    from colonnade.cli.coordinator import MOST_RUNS
    from colonnade.network import coordinator_service, inbox, job_queue, page_server, party_service, score_service
    from colonnade.network.transport import direct, doorkeeper, envelope, hub

    seconds = f"{envelope.GREETING_SECONDS:g} s"
    streams = f"{hub.STREAMS_AT_ONCE} at once, then {hub.STREAMS_A_SECOND:g} a second"
    proposals = f"{party_service.PROPOSALS_AT_ONCE} at once, then {party_service.PROPOSALS_A_SECOND:g} a second"
    answered = f"{page_server.CONNECTIONS}; {page_server.A_SOURCE}"
    places: dict[str, list[tuple[str, object, str]]] = {
        "coordinator's port": [
            ("connections that have not greeted, an address", doorkeeper.A_SOURCE, "oldest hung up"),
            ("the same, of all addresses", doorkeeper.IN_ALL, "oldest hung up"),
            ("handshake and greeting", seconds, "hung up"),
            ("streams of a certificate", streams, "`busy`"),
            ("streams of a certificate that have not greeted", hub.UNGREETED, "`busy`"),
            ("a message", f"{envelope.LIMIT >> 20} MiB", "refused before it is read"),
            ("requests that wait for a party", hub.WINDOW, "who asks waits"),
        ],
        "coordinator": [
            ("runs at a time", MOST_RUNS, "jobs wait"),
            ("jobs that are not over", f"{job_queue.MOST:,}", "refused"),
            ("a job file", f"{job_queue.LARGEST >> 20} MiB", "refused"),
            ("troubles of a job", coordinator_service.TROUBLES, "it fails, with the last reason"),
        ],
        "party": [
            ("proposals of runs", proposals, "undecided: proposed again"),
            ("open questions to its operator", inbox.MOST, "refused"),
            ("strangers at its own port", f"{direct.STRANGERS}, and one a neighbour", "hung up"),
        ],
        "pages and scores": [
            ("requests that arrive; of one address", answered, "503 to the slowest"),
            ("requests being answered; of one address", answered, "503; `/health` is answered"),
            ("a request arrives within, and its answer is read within", f"{page_server.ARRIVAL:g} s", "hung up"),
            ("a request without its body", f"{page_server.HEAD >> 10} KiB", "400, or 431"),
            ("the body of a request", f"{page_server.LARGEST >> 20} MiB", "413"),
            ("rows of a request for scores", f"{score_service.ROWS:,}", "400"),
        ],
    }
    lines = ["At most, and in brackets what happens above it."]
    for place, limits_there in places.items():
        lines += ["", f"*{place.capitalize()}*", ""]
        lines += [f"- {what}: {most} ({above})" for what, most, above in limits_there]
    return "\n".join(lines)


def failures() -> str:
    """The codes of the message Failed, and which error sends which."""
    from colonnade.runtime.hosted_node import FINAL
    from colonnade.runtime.program import FailureCode

    lines = []
    for code in FailureCode:
        errors = ", ".join(f"`{kind.__name__}`" for kind, sent in FINAL.items() if sent is code)
        lines.append(f"- {code.value} `{code.name}`: {errors or 'no error'}")
    return "\n".join(lines)


def rooms() -> str:
    """The contract of import-linter, top room first, each with the first sentence of its docstring."""
    return table(
        ["Room", "What it is for"], [(f"`{name}/`", card(PACKAGE / name / "__init__.py")) for name in contract()]
    )


def contract() -> list[str]:
    """The rooms of pyproject.toml, top first; the files below them are left out."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    names = [line.removeprefix("colonnade.") for line in wanted]
    return [name for name in names if (PACKAGE / name).is_dir()]


def opening(text: str) -> str:
    """The first sentence of a text."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=\.)(?<!\b[A-Z]\.) ", paragraph)[0]


def names() -> str:
    """Every public name with what its docstring begins with: up to a colon, where that says enough."""
    return "\n".join(f"- `co.{name}`: {head(first(getattr(colonnade, name)))}" for name in colonnade.__all__)


def head(sentence: str) -> str:
    """A sentence up to its first colon or semicolon, if at least five words stand before it."""
    begun = re.split(r"[:;] ", sentence)[0]
    return f"{begun.rstrip('.')}." if len(begun.split()) >= 5 else sentence


def settings() -> str:
    """What may stand in a job file: every problem, its parts, methods and the terms of privacy, with their settings."""
    from dataclasses import MISSING, fields

    from colonnade.runs.config import PARTS, accepted, known_parts

    def setting(field: Any) -> str:
        if field.default is MISSING and field.default_factory is MISSING:
            return f"`{field.name}*`"
        value = field.default if field.default_factory is MISSING else field.default_factory()
        return f"`{field.name}`" if value is None else f"`{field.name} = {toml(value)}`"

    def said(kind: Any) -> str:
        given = ", ".join(setting(f) for f in fields(kind) if f.init)
        return f"`{kind.__name__}`: {given}" if given else f"`{kind.__name__}`"

    parts = {title: sorted(known_parts(part).items()) for part, title in PARTS.items()}
    lines = [f"{title}: {'; '.join(said(kind) for _, kind in kinds)}" for title, kinds in parts.items()]
    problem, method, privacy = ([said(kind) for kind in kinds] for kinds in accepted().values())
    return "\n".join(f"- {line}" for line in [*problem, *lines, *method, *privacy])


def toml(value: Any) -> str:
    """A setting as a job file has it."""
    from colonnade.methods.node_setup import to_plain

    match to_plain(value):
        case {"type": name, **inside}:
            entries = ", ".join([f'type = "{name}"', *(f"{key} = {toml(item)}" for key, item in inside.items())])
            return f"{{ {entries} }}" if inside else f'"{name}"'
        case bool() | str() as plain:
            return json.dumps(plain)
        case plain:
            return str(plain)


def commands() -> str:
    """The command line: every command at its top, with the names of those below it."""
    import typer.main

    from colonnade.cli import app

    found = walk(typer.main.get_command(app))
    return "\n".join(command_text(path, command) for path, command in found if path.count(" ") == 1)


def walk(command: Any, path: str = "colonnade") -> Iterator[tuple[str, Any]]:
    """A command and everything below it."""
    yield path, command
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from walk(below, f"{path} {name}")


def command_text(path: str, command: Any) -> str:
    """One command: its name and what it needs, the commands below it, and what its help begins with."""
    needed = [
        parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.name.upper()
        for parameter in command.params
        if parameter.param_type_name != "option" or parameter.required
    ]
    below = ", ".join(sorted(getattr(command, "commands", ())))
    return (
        f"- `{' '.join([path, *needed])}`{below and f' {below}'}: {head(opening(inspect.cleandoc(command.help or '')))}"
    )


def source(file: Path, wanted: str) -> str:
    """A function, class or constant at the top of a file, or `Class.method`, word for word."""
    text = file.read_text(encoding="utf-8")
    place: Any = ast.parse(text)
    for part in wanted.split("."):
        place = next((node for node in place.body if part in bound_names(node)), None)
        if place is None:
            raise SystemExit(f"{file.relative_to(ROOT)} has no {wanted}; a document shows it")
    first = min([place.lineno, *(d.lineno for d in getattr(place, "decorator_list", []))])
    lines = text.splitlines()[first - 1 : place.end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def bound_names(node: ast.stmt) -> set[str]:
    """The names a statement binds."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


BLOCKS: dict[str, Callable[[], str]] = {
    "methods": methods,
    "output": output,
    "demo": demo,
    "attacked": attacked,
    "federation fields": federation_fields,
    "party fields": party_fields,
    "messages": messages,
    "values": values,
    "dtypes": dtypes,
    "failures": failures,
    "limits": limits,
    "rooms": rooms,
    "names": names,
    "settings": settings,
    "commands": commands,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
