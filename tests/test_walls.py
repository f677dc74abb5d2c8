"""Claims about the walls: what crosses them, for every method on every engine, and what the source may not do."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import Counter, deque
from functools import cache
from pathlib import Path

import pytest

import colonnade as co
from colonnade.methods import load_all
from colonnade.model.job import Job
from colonnade.privacy.events import unprotected
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Released
from colonnade.runtime.program import BY_TYPE, Sealed
from colonnade.runtime.wire import decode, type_name
from tests.helpers.contract import ENGINES, EXACT_METHODS, METHODS, federation, fitted

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

SOURCE = Path(co.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
COORDINATOR = "coordinator"

every_case = pytest.mark.parametrize("case", METHODS.values(), ids=METHODS)
every_exact_case = pytest.mark.parametrize("case", EXACT_METHODS.values(), ids=EXACT_METHODS)
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


@pytest.fixture
def tapped(case, engine):
    """The case solved once for all tests that only read what crossed."""
    (name,) = (name for name, one in METHODS.items() if one is case)
    return _tapped(name, engine)


@cache
def _tapped(name, engine):
    tap = co.Tap(engine())
    return tap, fitted(METHODS[name], tap)


def messages(tap):
    return [(letter, decode(letter.body)) for letter in tap.letters]


# ---------------------------------------------------------------- every method on every engine


def between_parties(replies):
    """The kinds that a party may send another one: unasked, and in reply to one of these."""
    kinds = {replies[None]}
    while more := {replies[kind] for kind in kinds if kind in replies} - kinds:
        kinds |= more
    return kinds


@every_engine
@every_case
def test_only_declared_questions_and_answers_cross(case, tapped):
    tap, _ = tapped
    asked: dict[str, deque[type]] = {}
    pairs = set()
    for letter, message in messages(tap):
        if letter.sender == COORDINATOR:
            asked.setdefault(letter.receiver, deque()).append(type(message))
        elif letter.receiver == COORDINATOR:
            sealed = {kind.__name__: kind for kind in case.method.SEALED}
            kind = sealed[letter.inside] if isinstance(message, Sealed) else type(message)
            assert isinstance(message, Sealed) == (kind in case.method.SEALED)
            answered = [one for one in asked[letter.sender] if one in case.method.REPLIES]  # some are only told
            asked[letter.sender].remove(answered[0])  # more rows may be asked for before the first have come
            pairs.add((answered[0], kind))
        else:  # party to party: sealed, so that the coordinator, who carries it, reads nothing
            assert isinstance(message, Sealed)
            assert letter.inside in {kind.__name__ for kind in between_parties(case.method.REPLIES)}
    assert pairs
    assert pairs <= set(case.method.REPLIES.items())


@every_engine
@every_case
def test_every_field_that_leaves_a_party_is_released(case, tapped):
    tap, _ = tapped
    up = [message for letter, message in messages(tap) if letter.sender != COORDINATOR and not letter.inside]
    fields = [getattr(m, f.name) for m in up for f in dataclasses.fields(m)]
    assert fields
    for value in fields:
        assert all(type(item) is Released for item in (value if type(value) is tuple else (value,)))


@every_case
def test_every_declared_answer_has_released_fields_only(case):
    for kind in case.method.REPLIES.values():
        assert all("Released[" in field.declared for field in BY_TYPE[kind].fields), kind


@every_engine
@every_case
def test_the_bytes_reported_are_the_bytes_that_the_codec_produced(case, tapped):
    tap, fit = tapped
    sizes, counts = Counter(), Counter()
    for letter in tap.letters:
        key = (letter.sender, letter.receiver, letter.inside or type_name(letter.body), letter.round)
        sizes[key] += len(letter.body)
        counts[key] += 1
    assert sum(sizes.values()) == fit.communication.bytes
    assert len(tap.letters) == fit.communication.messages
    assert {(s, r, t, n): (m, b) for s, r, t, n, m, b in fit.communication.lines} == {
        key: (counts[key], sizes[key]) for key in sizes
    }


@every_engine
@every_case
def test_bytes_by_type_and_by_direction_add_up_to_the_whole(case, tapped):
    _, fit = tapped
    for column in ("type", "direction", "party", "round"):
        assert fit.communication.by(column)["bytes"].sum() == fit.communication.bytes
    assert set(fit.communication.by("direction")["direction"]) - {"across"} == {"up", "down"}


@every_engine
@every_exact_case
@pytest.mark.parametrize("refusing", ["party0", "party2", "labels"])
def test_a_party_that_lets_nothing_exact_leave_stops_the_run_before_the_first_message(case, engine, refusing, tmp_path):
    fed = federation(case, policies={refusing: co.Policy(exact=False)})
    tap = co.Tap(engine())
    with pytest.raises(co.PolicyRefused, match=rf"party '{refusing}'.*Nothing was sent.*private method"):
        fitted(case, tap, tmp_path, fed)
    assert tap.letters == []
    for name in (COORDINATOR, *fed.parties):
        assert open_reservations(tmp_path / "nodes" / f"{name}.db") == set()


def open_reservations(path: Path) -> set[str]:
    log = FileLog(path)
    opened, closed = ({row.run for row in log.rows(kind=kind)} for kind in ("open", "close"))
    log.close()
    return opened - closed


@every_exact_case
def test_a_party_that_was_refused_elsewhere_has_spent_nothing(case, tmp_path):
    """Nothing was sent, so a later budget must not find the row's price infinite."""
    fed = federation(case, policies={"labels": co.Policy(exact=False)})
    with pytest.raises(co.PolicyRefused):
        co.fit(fed, case.problem, method=case.method, store=tmp_path)
    log = FileLog(tmp_path / "nodes" / "party0.db")
    spent = Ledger(log, "party0", co.Policy(exact=True)).row_spent()
    log.close()
    assert spent == 0.0


@every_engine
@every_case
def test_what_a_party_received_as_its_own_is_what_the_fit_reports(case, tapped):
    tap, fit = tapped
    ends = {letter.receiver: message for letter, message in messages(tap) if type(message).__name__ == "Finish"}
    if not any(message.coefficients.size for message in ends.values()):
        pytest.skip("its coefficients never leave a party")
    assert set(fit.coefficients) == {p for p, m in ends.items() if m.coefficients.size}
    for party, x in fit.coefficients.items():
        assert x.tobytes() == ends[party].coefficients.tobytes()


@every_exact_case
def test_a_method_that_releases_exact_values_refuses_a_budget(case, tmp_path):
    with pytest.raises(co.InvalidInput, match=r"exact values.*private method"):
        co.fit(
            federation(case),
            case.problem,
            method=case.method,
            privacy=co.Privacy(epsilon=1.0, delta=1e-6),
            store=tmp_path,
        )


@every_engine
@every_case
def test_the_ledgers_hold_what_the_plan_allowed_and_nothing_is_left_open(case, engine, tmp_path):
    fed = federation(case)
    fitted(case, engine(), tmp_path, fed)
    plans = case.method.price(Job(case.problem, fed.roster(), case.privacy))
    for name in fed.parties:
        path = tmp_path / "nodes" / f"{name}.db"
        log = FileLog(path)
        events = [entry.event for entry in Ledger(log, name, co.Policy(exact=True)).entries()]
        log.close()
        assert len(events) <= sum(charge.count for charge in plans.get(name, ()))
        # Noise from a seed protects nobody, so those runs are recorded as exact releases.
        plan = plans.get(name, ()) if case.privacy is None else unprotected(plans.get(name, ()))
        assert all(any(charge.covers(event) for charge in plan) for event in events)
        assert open_reservations(path) == set()


# ---------------------------------------------------------------- what the source says


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file, walked once."""
    return tuple(ast.walk(tree(path)))


def called(node: ast.AST) -> str:
    """The dotted name of a call, "" for anything else."""
    return dotted(node.func) if isinstance(node, ast.Call) else ""


def dotted(node: ast.expr) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{dotted(node.value)}.{node.attr}"
    return ast.unparse(node)


@cache
def calls(path: Path) -> set[str]:
    return {called(node) for node in nodes(path)} - {""}


@cache
def names(path: Path) -> set[str]:
    """Every name, attribute and import in a file."""
    found = set()
    for node in nodes(path):
        match node:
            case ast.Name():
                found.add(node.id)
            case ast.Attribute():
                found.add(node.attr)
            case ast.ImportFrom():
                found |= {alias.name for alias in node.names} | {node.module or ""}
            case ast.Import():
                found |= {alias.name for alias in node.names}
    return found


def inside(*parts: str) -> set[Path]:
    return {SOURCE.joinpath(*part.split("/")) for part in parts}


def test_the_lint_sees_the_files_it_is_about():
    assert inside("privacy/gate.py", "privacy/values.py") <= set(FILES)
    assert "make_released" in calls(SOURCE / "privacy" / "values.py")


def test_only_the_gate_and_the_decoder_mark_a_value_as_released():
    allowed = inside("privacy/gate.py", "privacy/values.py")
    for path in set(FILES) - allowed:
        assert not {"make_released", "_MARK"} & names(path), path
        assert not any(call == "release" or call.endswith("values.release") for call in calls(path)), path
        assert not any(
            isinstance(node, ast.ImportFrom)
            and (node.module or "").endswith("privacy.values")
            and "release" in {alias.name for alias in node.names}
            for node in nodes(path)
        ), path


def test_inside_the_codec_only_the_decoder_and_release_mark_a_value():
    functions = [n for n in nodes(SOURCE / "privacy" / "values.py") if isinstance(n, ast.FunctionDef)]
    marking = {f.name for f in functions if any(called(n) == "make_released" for n in ast.walk(f))}
    assert {"read_value", "release"} == marking


@pytest.mark.parametrize("path", sorted((SOURCE / "methods").rglob("*.py")), ids=lambda path: path.name)
def test_an_algorithm_has_no_way_around_its_gate(path):
    assert not names(path) & {
        "encode",
        "decode",
        "encode_value",
        "decode_value",
        "read_value",
        "make_released",
        "released_body",
        "__new__",
        "__setattr__",
        "__class__",
        "__dict__",
        "open",
        "socket",
    }


def test_no_file_unpickles_or_executes_data():
    for path in FILES:
        assert not names(path) & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}, path
        assert not calls(path) & {"eval", "exec", "compile", "__import__"}, path
        assert not any(call.endswith(("np.load", "numpy.load")) for call in calls(path)), path


def test_no_file_prints():
    assert [path for path in FILES if "print" in calls(path)] == []


def test_every_line_of_the_log_is_fixed_words_with_named_figures_beside_them():
    """One style for people and collectors: what varies stands in `extra`, by name, and never in the words."""
    logged = [
        (p, n)
        for p in FILES
        if "logging" in p.read_text()
        for n in nodes(p)
        if re.fullmatch(r"log(ging\.getLogger\(.*\))?\.(log|debug|info|warning|error)", called(n))
    ]
    assert {"hub.py", "party_service.py", "party.py"} <= {path.name for path, _ in logged}
    for path, call in logged:
        words = [str(n.value) for n in ast.walk(call.args[-1]) if isinstance(n, ast.Constant)]
        assert len(call.args) == (2 if called(call).endswith("log.log") else 1), f"{path}:{call.lineno}"
        assert [k.arg for k in call.keywords] == ["extra"], f"{path}:{call.lineno}"
        assert not any("=" in word or "%" in word for word in words), f"{path}:{call.lineno}"


HEAVY = (
    "polars",
    "pyarrow",
    "plotly",
    "networkx",
    "opendp",
    "dp_accounting",
    "ray",
    "pandas",
    "scipy.optimize",
    "scipy.stats",
)


def at_import(body: list[ast.stmt]) -> set[str]:
    """The modules that a file brings in as soon as it is imported."""
    found = set()
    for node in body:
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
            case ast.If() if ast.unparse(node.test) != "TYPE_CHECKING":
                found |= at_import(node.body) | at_import(node.orelse)
            case ast.Try():
                found |= at_import(node.body)
    return found


def test_no_file_loads_what_is_slow_to_load_before_it_is_needed():
    for path in FILES:
        loaded = at_import(tree(path).body)
        assert not [name for name in loaded for slow in HEAVY if name == slow or name.startswith(f"{slow}.")], path


def test_every_message_says_who_sends_it_to_whom():
    load_all()
    own = [shape.cls for shape in BY_TYPE.values() if shape.cls.__module__.startswith("colonnade.")]
    assert own
    for cls in own:
        assert "→" in (cls.__doc__ or "").splitlines()[0], cls.__name__


def method_modules() -> list[Path]:
    return [path for path in (SOURCE / "methods").rglob("*.py") if "party" in functions(path)]


def functions(path: Path) -> set[str]:
    return {node.name for node in tree(path).body if isinstance(node, ast.FunctionDef)}


def test_every_method_opens_with_its_card():
    assert method_modules()
    for path in method_modules():
        card = ast.get_docstring(tree(path)) or ""
        for line in ("Solves", "Source", "Leaves", "Price"):
            assert any(text.startswith(line) for text in card.splitlines()), f"{path.name}: {line}"
        assert "????" not in card


# ---------------------------------------------------------------------------------------- what only the coordinator may see

FOR_THE_COORDINATOR = {"Masked", "Diagonal", "Parts"}


def makes(node: ast.AST, makers: set[str]) -> bool:
    """Whether an expression is such a message, or what a function gives back that makes one."""
    if isinstance(node, ast.YieldFrom | ast.Await):
        node = node.value
    return isinstance(node, ast.Call) and called(node).rpartition(".")[2] in makers


def misaddressed(text: str, makers: set[str]) -> list[int]:
    """Lines where such a message, or a name that holds one, is used otherwise than as `ask_one(COORDINATOR, message, ...)`.

    A function may return one; who calls it is looked at like who makes one.
    """
    wrong = []
    for function in (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)):
        held, right = set(), set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and makes(node.value, makers):
                held |= {target.id for target in node.targets if isinstance(target, ast.Name)}
                right.add(node.value)
            if isinstance(node, ast.Return) and node.value is not None:
                right.add(node.value)
            if isinstance(node, ast.Call) and called(node) == "ask_one":
                to, message = node.args[:2]
                if isinstance(to, ast.Name) and to.id == "COORDINATOR":
                    right.add(message)
            if isinstance(node, ast.YieldFrom) and node in right:
                right.add(node.value)
        for node in ast.walk(function):
            is_held = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in held
            if (is_held or (isinstance(node, ast.Call) and makes(node, makers))) and node not in right:
                wrong.append(node.lineno)
    return wrong


@cache
def coordinators_makers() -> set[str]:
    """The messages, and the functions that give one back."""
    functions = [n for path in FILES for n in nodes(path) if isinstance(n, ast.FunctionDef) and n.returns]
    return FOR_THE_COORDINATOR | {f.name for f in functions if ast.unparse(f.returns) in {"Parts", "Program[Parts]"}}


def test_masked_rows_lengths_and_corrections_are_addressed_to_the_coordinator_alone():
    """Partners know the masks: one line that sends them what is masked shows them rows."""
    from colonnade.methods.gram.private_gram import PrivateGram

    assert {kind.__name__ for kind in PrivateGram.SEALED} == FOR_THE_COORDINATOR
    makers = coordinators_makers()
    assert makers == FOR_THE_COORDINATOR | {"release_gram", "release_sums", "release_stage"}
    made = [path for path in FILES if any(makes(node, makers) for node in nodes(path))]  # nobody else has one to send
    assert {path.name for path in made} == {"masks.py", "lattice.py", "products.py"}
    for path in made:
        assert misaddressed(path.read_text(encoding="utf-8"), makers) == [], path


@pytest.mark.parametrize(
    "line",
    [
        "yield Post({partner: Masked(rows)}, ())",
        "yield Post({COORDINATOR: Masked(rows), partner: Masked(rows)}, ())",
        "yield from ask_one(partner, Parts(rows), Next)",
        "one = Diagonal(rows); yield from ask_one(COORDINATOR, one, Next); yield Post({partner: one}, ())",
        "one = yield from release_gram(rows); yield Post({partner: one}, ())",
    ],
)
def test_planted_a_message_to_a_partner_is_found_by_the_lint(line):
    body = line.replace("; ", "\n    ")
    assert misaddressed(f"def party(rows, partner):\n    {body}\n", coordinators_makers())
