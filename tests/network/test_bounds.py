"""Claims about what a question may hold: whatever a hub asks, a party's memory does not grow, and it goes on answering.

The services of these tests live in processes that may take little more memory than they have: one that a question could fill
would answer that it is out of memory, or be gone.
"""

from __future__ import annotations

import contextlib
import json
import resource
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as co
from colonnade.errors import InvalidInput, WireError
from colonnade.methods.node_setup import Call, known_methods, known_values, protocol_of
from colonnade.network.bounds import CALL, CEILING, OTHER, Sizes, check_call
from colonnade.network.party_service import OK, UNAVAILABLE
from colonnade.network.questions import Phase, Question, check_sizes, pack, read_as, unpack
from colonnade.runtime.host import MOST
from colonnade.runtime.program import FailureCode
from colonnade.runtime.wire import LONGEST_NAME, Letter

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

from tests.helpers.organisations import SERVER, Organisations

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROOM = 256 << 20  # bytes that a process may take beyond what it has when it begins
STOPS, BREAKS = int(FailureCode.STOPPED) + 1, int(FailureCode.PROTOCOL) + 1
LEAST = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
DEEP = "[" * 50_000 + "]" * 50_000
HOSTILE = {
    "a billion": 10**9,
    "a large number": 10**18,
    "more digits than a float": 10**400,
    "below zero": -1,
    "not finite": float("nan"),
    "a long text": "x" * 100_000,
    "a long list": [0] * 10_000,
    "many lists": [[0, 1]] * 4_000,
    "a large table": {str(place): place for place in range(5_000)},
    "a table of itself": json.loads('{"a":' * 60 + "1" + "}" * 60),
    "nothing": None,
    "yes": True,
}


def made(folder: Path) -> Organisations:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 6))
    return Organisations.of(co.Federation.split(X, X[:, 0], parties=2), folder)


def graph(size: int, edges: Any = ((0, 1),)) -> dict[str, Any]:
    return {"type": "GraphADMM", "topology": {"type": "Topology", "size": size, "edges": edges}}


def proposed(method: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    plain = json.loads(Call(co.DistributedFrankWolfe(), LEAST, None).to_json())
    call = {**plain, **({} if method is None else {"method": method}), **more}
    code = protocol_of(co.DistributedFrankWolfe())
    return {"what": "consider", "run": "run", "call": json.dumps(call), "code": code, "session": ""}


def hostile_calls(names: Collection[str], values: Collection[str]) -> list[dict[str, Any]]:
    """Fields of every value that a call can have, with something hostile in each."""
    asked = []
    for name, kind in known_values().items():
        for field in fields(kind):
            for value in [HOSTILE[value] for value in values if field.name in names]:
                given = {"type": name, field.name: value}
                where = (
                    "method"
                    if name in known_methods()
                    else "problem"
                    if name in ("Problem", "KernelSVM", "AdaBoost")
                    else None
                )
                if where is not None:
                    asked.append(proposed(**{where: given}))
                else:
                    asked.append(proposed({"type": "GraphADMM", "topology": given}))
                    asked.append(
                        proposed(problem={"type": "Problem", "loss": {"type": "Logistic"}, "constraint": given})
                    )
                    asked.append(proposed(privacy=given))
    return asked


PLAIN = {
    "run": "run",
    "call": "{}",
    "code": "code",
    "session": "session",
    "peers": [],
    "heads": {},
    "since": {},
    "letters": [],
    "how": "finished",
    "basis": "0" * 64,
    "over": {},
    "when": "start",
    "peer": "party0",
    "block": 0,
    "part": "setup",
    "blobs": [],
}


def fields_of(what: Question) -> list[str]:
    return [name for name in what.asked.__struct_fields__ if name != "what"]


def asked_with(what: Question, **changes: Any) -> dict[str, Any]:
    return {"what": what, **{name: PLAIN[name] for name in fields_of(what)}, **changes}


def sendable(value: Any) -> bool:
    """Whether msgpack has a form for it: a number of more than 64 bits has none."""
    return not (type(value) is int and value >= 1 << 64)


def hostile_heads(values: Collection[str]) -> list[dict[str, Any]]:
    return [
        asked_with(what, **{field: value})
        for what in Question
        for field in (*fields_of(what), "unknown")
        for value in [HOSTILE[value] for value in values]
        if sendable(value)
    ]


def _answers(folder: str, asked: list[bytes], pipe: Any) -> None:
    """In a process of its own: the codes of all answers, and the memory that they took."""
    with contextlib.closing(made(Path(folder)).service("party0")) as service:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, held + ROOM))
        codes = [unpack(service.answer(raw)).head["code"] for raw in asked]
        pipe.send((codes, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10))


def answers(folder: Path, asked: list[bytes]) -> tuple[list[int], int]:
    ours, theirs = SERVER.Pipe()
    child = SERVER.Process(target=_answers, args=(str(folder), asked, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        return ours.recv()
    finally:
        child.join()


def test_the_bounds_know_every_question_and_every_field(tmp_path: Path) -> None:
    with contextlib.closing(made(tmp_path).service("party0")) as service:
        assert {handler.__name__ for handler in service.handlers.values()} == {what.value for what in Question}
    assert {name for what in Question for name in fields_of(what)} == HEAD_ENDS.keys() == PLAIN.keys()
    named = {field.name for kind in known_values().values() for field in fields(kind)}
    assert CALL.keys() <= named | {"noise", "entries"}


def test_a_graph_of_a_billion_nodes_is_refused_before_it_is_built(tmp_path: Path) -> None:
    sizes = (3, 10**5, 10**6, 10**7, 10**9)
    codes, taken = answers(tmp_path, [pack(proposed(graph(size))) for size in sizes])
    assert codes == [STOPS] * len(sizes)
    assert taken < 64 << 20


def test_a_call_within_its_bounds_is_considered(tmp_path: Path) -> None:
    codes, _ = answers(tmp_path, [pack(proposed())])
    assert codes == [OK]


def test_a_field_of_sixteen_megabytes_is_refused(tmp_path: Path) -> None:
    heads = [{"what": "hello", "x": "y" * (16 << 20)}, {**proposed(), "call": "[" + "[]," * (5 << 20) + "[]]"}]
    codes, taken = answers(tmp_path, [pack(head) for head in heads])
    assert codes == [BREAKS, BREAKS]
    assert taken < 128 << 20  # the two questions themselves
    assert Sizes(10**4, 10**7, 10**9).call == CEILING < 16 << 20


def unharmed(folder: Path, asked: list[dict[str, Any]]) -> None:
    raw = [pack(head) for head in asked]
    raw += [pack({**proposed(), "call": DEEP}), pack({"what": "turn", "run": "run"}, [b""] * 100_000)]
    codes, taken = answers(folder, raw)
    assert len(codes) == len(raw) > 60
    assert UNAVAILABLE not in codes  # what a service answers that has no memory
    assert taken < ROOM // 2


def test_a_field_that_asks_for_memory_gets_none(tmp_path: Path) -> None:
    unharmed(tmp_path, hostile_calls(CALL, ["a billion", "many lists"]) + hostile_heads(["a large table"]))


@pytest.mark.fault
def test_no_field_of_a_call_fills_the_memory(tmp_path: Path) -> None:
    named = {field.name for kind in known_values().values() for field in fields(kind)}
    unharmed(tmp_path, hostile_calls(named, HOSTILE))


@pytest.mark.fault
def test_no_field_of_a_question_fills_the_memory(tmp_path: Path) -> None:
    unharmed(tmp_path, hostile_heads(HOSTILE))


SIZES = Sizes(parties=3, columns=5, rows=20)
FULL, EDGE = {"x" * 200: 1, "y": 2, "z": 3}, [0, 2]
# What a field of a call may just hold, and what is just over that, for 3 parties, 5 columns and 20 rows.
ENDS: dict[str, tuple[list[Any], list[Any]]] = {
    "size": ([0, 3, None], [4, -1, True, 3.0, "3", [3]]),
    "edges": ([[], [EDGE] * 9], [[EDGE] * 10, [[0, 3]], [[-1, 0]], [[0, 1, 2]], [[0]], [[0, True]], EDGE, "ring"]),
    "rounds": (
        [10**7, None, [], [[EDGE] * 9] * 4096],
        [10**7 + 1, -1, 1.5, [[EDGE]] * 4097, [[EDGE] * 10], [[[0, 3]]]],
    ),
    "steps": ([10**6], [10**6 + 1, -1]),
    "draws": ([10**6], [10**6 + 1, -1]),
    "tau": ([25], [26, -1]),
    "sketch_rows": ([20], [21, -1]),
    "seed": ([2**256 - 1], [2**256, -1]),
    "noise": ([2**256 - 1], [2**256, -1]),
    "groups": ([[[0, 1], [2, 3, 4]]], [[[0, 1], [2, 3, 4, 5]], {"a": 1}]),
    "blocks": ([[[0, 1], [2, 3, 4]], "columns"], [[[0, 1], [2, 3, 4, 5]], "c" * 201]),
    "p": ([[0.5] * 25], [[0.5] * 26]),
    "values": ([[1.0] * 20], [[1.0] * 21]),
    "label_range": ([None, [0, 1.5]], [[0], [0, 1, 2], "01", [None, 1]]),
    "looked": ([None, [0.5, 1e-7]], [[0], [0, 1, 2], "01", [None, 1]]),
    "entries": ([{}, FULL], [{**FULL, "w": 4}, {"x" * 201: 1}, {"x": [1]}, {"x": 2**53 + 1}, [1]]),
}
# The same for the fields of a question.
NAMES, DIGEST = ["x" * LONGEST_NAME, "y", "z"], "0" * 64
FRAME = Letter("a", "b", 0, 1, b"").frame("run")
HEAD_ENDS: dict[str, tuple[list[Any], list[Any]]] = {
    "run": (["a" * 64, "A-9"], ["a" * 65, "", "-a", "a/b", "a.b", "../a", "a\n", None, 7]),
    "session": (["a" * 64, "", None], ["a" * 65, "a/b", 0, []]),
    "call": (["x" * SIZES.call], ["x" * (SIZES.call + 1), {}, None]),
    "code": (["x" * 200], ["x" * 201, None]),
    "peers": ([NAMES, []], [[*NAMES, "w"], ["x" * (LONGEST_NAME + 1)], [1], "x"]),
    "peer": (["x" * LONGEST_NAME], ["x" * (LONGEST_NAME + 1), None]),
    "block": ([0, 2**53], [2**53 + 1, -1, None, True, 1.0, "0"]),
    "part": (["x" * 100], ["x" * 101, None]),
    "heads": (
        [{name: [2**53, DIGEST] for name in "abcd"}],
        [{name: [1, DIGEST] for name in "abcde"}]
        + [{"a": wrong} for wrong in ([2**53 + 1, DIGEST], [-1, DIGEST], [1, DIGEST + "0"], [1], [True, DIGEST], [1, 2])],
    ),
    "when": (["x" * 100], ["x" * 101]),
    "since": ([dict.fromkeys("abcd", 2**53)], [dict.fromkeys("abcde", 1), {"a": 2**53 + 1}, {"a": -1}, {"a": None}]),
    "letters": ([[FRAME] * MOST], [[FRAME] * (MOST + 1), [["a", "b", ""]], "abc", {}]),
    "how": (["x" * 100], ["x" * 101]),
    "basis": ([DIGEST], [DIGEST + "0", DIGEST[1:], "A" * 64, ""]),
    "blobs": ([[b"x"] * 2**16], [[b""] * (2**16 + 1), ["x"], b"x", None]),
    "over": (
        [{f"{place:064}": "x" * 100 for place in range(4096)}],
        [dict.fromkeys(map(str, range(4097)), "x"), {"0" * 65: "x"}, {"a": "x" * 101}, {"a": 1}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALL)
def test_a_field_of_a_call_may_reach_its_bound_and_not_pass_it(name: str) -> None:
    kept, refused = ENDS[name]
    for value in kept:
        assert CALL[name].kept(value, SIZES)
        check_call(json.dumps({"type": "X", "method": {"type": "Y", name: value}}), SIZES)
    for value in refused:
        assert not CALL[name].kept(value, SIZES)
        with pytest.raises(InvalidInput, match=f"{name} of the proposed job is over its bound"):
            check_call(json.dumps({"type": "X", "method": {"type": "Y", name: value}}), SIZES)


def test_any_other_field_of_a_call_is_a_small_value_or_a_few_of_them() -> None:
    for value in (2**53, -(2**53), 1.5, True, None, "x" * 200, [1, "a", None], []):
        assert OTHER.kept(value, SIZES)
    for value in (2**53 + 1, -(2**53) - 1, "x" * 201, [1] * 4, [[1]], ["x" * 201], {"a": 1}):
        assert not OTHER.kept(value, SIZES)


def checked(asked: dict[str, Any]) -> None:
    check_sizes(read_as(asked["what"].asked, pack(asked)), SIZES)


@pytest.mark.parametrize("name", HEAD_ENDS)
def test_a_field_of_a_question_may_reach_its_bound_and_not_pass_it(name: str) -> None:
    """In every question that has it; a session may be missing where a run is proposed, and has a name in an alignment."""
    kept, refused = HEAD_ENDS[name]
    for what in [what for what in Question if name in fields_of(what)]:
        unnamed = name == "session" and what.phase is Phase.ALIGNING
        for value in kept[:1] if unnamed else kept:
            checked(asked_with(what, **{name: value}))
        for value in [*refused, *kept[1:]] if unnamed else refused:
            with pytest.raises(WireError, match=name):
                checked(asked_with(what, **{name: value}))


def test_a_call_is_as_deep_wide_and_long_as_any_value_of_colonnade_and_no_more() -> None:
    def nested(depth: int) -> str:
        return '{"a": ' * depth + "1" + "}" * depth

    def wide(fields: int) -> str:
        return json.dumps({str(place): 1 for place in range(fields)})

    check_call(nested(12), SIZES)
    check_call(wide(64), SIZES)
    check_call('{"a": 1}'.ljust(SIZES.call), SIZES)
    for text in (nested(13), wide(65)):
        with pytest.raises(InvalidInput, match="deeper or wider than any value"):
            check_call(text, SIZES)
    with pytest.raises(InvalidInput, match=f"a job of {SIZES.call + 1:,} bytes is over"):
        check_call('{"a": 1}'.ljust(SIZES.call + 1), SIZES)


def test_a_call_of_lists_in_lists_without_end_is_refused_as_any_other() -> None:
    """A list of lists is counted level by level, and so deep a one is no fault of the party."""
    for deep in (100, 480, 900, 5000):
        with pytest.raises(InvalidInput):
            check_call('{"groups": ' + "[" * deep + '"' + "x" * 300 + '"' + "]" * deep + "}", SIZES)


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"\\udc80": 1}', '{"method": {"groups": [["\\ude00\\ud83d"]]}}'])
def test_half_a_character_stands_nowhere_in_a_call(text: str) -> None:
    """A party could neither log it nor answer with it; a whole one, spelt as JSON does, is a word as any other."""
    with pytest.raises(InvalidInput, match="no job that this version of colonnade knows"):
        check_call(text, SIZES)
    check_call('{"a": "\\ud83d\\ude00"}', SIZES)


def test_a_call_has_room_for_numbers_of_its_columns_and_pairs_of_parties() -> None:
    assert Sizes(3, 5, 20).call == 2**21 + 64 * (5 + 9)


@pytest.mark.parametrize("parties", [1, 2])
def test_a_range_of_labels_is_two_numbers_however_few_parties_there_are(parties: int) -> None:
    privacy = json.loads(Call(co.PrivateGram(), LEAST, co.Privacy(1.0, 1e-6, label_range=(2.0, 6.0))).to_json())[
        "privacy"
    ]
    assert privacy["label_range"] == [2.0, 6.0]
    check_call(proposed(privacy=privacy)["call"], Sizes(parties, 6, 30))
    check_call(proposed(privacy={**privacy, "label_range": None})["call"], Sizes(parties, 6, 30))
    for wrong in ([2.0], [1.0, 2.0, 3.0], [[0.0] * 9, 1.0], [2**60, 2.0], ["x", 1.0], "wide", 2.0, [True, 2.0]):
        with pytest.raises(InvalidInput, match="label_range of the proposed job is over its bound: two numbers"):
            check_call(proposed(privacy={**privacy, "label_range": wrong})["call"], Sizes(parties, 6, 30))


@pytest.mark.parametrize(
    "method", [graph(3), graph(2, [[0, 2]]), graph(2, [[0, 1]] * 5), {"type": "GraphADMM", "rounds": 10**8}]
)
def test_the_hub_refuses_by_the_same_bounds_and_says_which(method: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"is over its bound: .* \(K = 2 parties, p = 6 columns, n = 30 rows\)"):
        check_call(proposed(method)["call"], Sizes(2, 6, 30))
