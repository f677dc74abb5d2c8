"""Claims about what the hub of an alignment brings to whom, without parties: digests, sealed blocks, and who is counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import colonnade as co
from colonnade.data.row_order import DIGEST
from colonnade.errors import InvalidInput, ProtocolError, WireError
from colonnade.network.aligner import align
from colonnade.network.alignment import DECOYS
from colonnade.network.hub import read_answer
from colonnade.network.questions import Agreed, Question, Said, pack

ROWS = {"a": [1, 2, 3, 4], "b": [2, 3, 4, 5, 6, 7, 8, 9, 10], "c": [0, 2, 4, 7]}  # 2 and 4 are in all


def file_of(least: dict[str, int | None], by: str = "digests", most: int = 0) -> Any:
    members = {name: SimpleNamespace(policy=co.Policy(least=least[name]), most=most) for name in ROWS}
    return SimpleNamespace(members=members, align=by, label=("a", "y"))


class Parties:
    """Each answers as if it had agreed; `lies` are other answers to a question."""

    def __init__(self, **lies: Any) -> None:
        self.lies, self.asked = lies, []

    def __call__(self, questions: Any) -> dict[str, Said]:
        found = {}
        for name, (what, head, blobs) in questions.items():
            self.asked.append((name, what, {**head}, list(blobs)))
            answer = self.lies.get(what, lambda *_: None)(name, len(self.asked))
            found[name] = self.honest(name, what, head) if answer is None else answer
        return found

    def honest(self, name: str, what: Question, head: Any) -> Said:
        others = head["peers"]
        assert name not in others
        if what is Question.SHARE:
            return Said(
                code=0, blobs=tuple(f"{part} {name} for {peer}".encode() for peer in others for part in ("s", "t"))
            )
        if what is Question.OFFER:
            return Said(blobs=(b"".join(bytes([row]) * DIGEST for row in ROWS[name]),))
        if what is Question.TELL:
            return Said(blobs=(*(f"words for {peer}".encode() for peer in others), b"content"))
        if what is Question.AGREED:
            return Agreed(rows=2)
        return Said(blobs=(f"{what} 1 {name}".encode(), f"{what} 2 {name}".encode()))

    def of(self, what: Question) -> list[tuple[str, dict, list]]:
        return [(name, head, blobs) for name, asked, head, blobs in self.asked if asked is what]


@pytest.mark.parametrize("least", [{"a": 1, "b": 1, "c": 2}, {"a": 2, "b": 1, "c": 1}])
def test_each_party_hears_the_others_keys_and_its_own_shares_and_one_bit_a_digest(least):
    parties = Parties()
    assert align(parties, file_of(least), "begun") == ("begun", 2)
    greeted = {name: [f"greet {n} {name}".encode() for n in (1, 2)] for name in ROWS}
    (name, head, blobs) = parties.of(Question.SHARE)[1]
    assert (name, head, blobs) == ("b", {"session": "begun", "peers": ["a", "c"]}, [*greeted["a"], *greeted["c"]])
    given = [*greeted["a"], b"s a for b", b"t a for b", *greeted["c"], b"s c for b", b"t c for b"]
    assert parties.of(Question.OFFER)[1][2] == given
    bits = {name: blobs[len(given) :] for name, _, blobs in parties.of(Question.AGREED)}
    assert bits == {"a": [b"\x50"], "b": [b"\xa0\x00"], "c": [b"\x60"]}


def test_common_rows_are_not_told_below_the_largest_least_and_not_counted_where_one_lets_none_be():
    parties = Parties()
    with pytest.raises(InvalidInput, match="fewer than 3 rows"):
        align(parties, file_of({"a": 1, "b": 3, "c": 1}), "begun")
    assert not parties.of(Question.AGREED)
    for closed in ROWS:
        parties = Parties()
        with pytest.raises(InvalidInput, match=f"the policy of '{closed}' has no `least`"):
            align(parties, file_of({name: None if name == closed else 1 for name in ROWS}), "begun")
        assert parties.asked == []


@pytest.mark.parametrize(
    ("what", "answer"),
    [
        (Question.GREET, Said(blobs=(b"1",))),
        (Question.GREET, Said(blobs=(b"1", b"2", b"3"))),
        (Question.SHARE, Said(blobs=(b"1",) * 5)),
        (Question.OFFER, Said(blobs=(bytes(DIGEST + 1),))),
        (Question.OFFER, Said(blobs=(bytes(DIGEST), b"more"))),
        (Question.AGREED, Agreed(rows=3)),
    ],
)
def test_a_party_that_answers_otherwise_than_asked_ends_the_alignment(what, answer):
    lies = {what: lambda name, _: answer if name == "c" else None}
    with pytest.raises(ProtocolError, match=r"'c' sent|different numbers of rows"):
        align(Parties(**lies), file_of(dict.fromkeys(ROWS, 1)), "begun")


@pytest.mark.parametrize("rows", [None, 2.0, True, "2"])
def test_a_number_of_rows_is_a_whole_number_though_all_say_the_same(rows):
    with pytest.raises(WireError, match=r"the answer of 'a' to 'agreed' is not one: .*rows"):
        read_answer("a", Question.AGREED, pack({"code": 0, "rows": rows}))


@pytest.mark.parametrize(("most", "sought", "shown"), [(2**15, 2, 1), (2**15 - DECOYS, 1, 1), (2**16, 3, 2)])
def test_blocks_are_as_many_as_the_bounds_say_decoys_included(most, sought, shown):
    parties = Parties()
    align(parties, file_of(dict.fromkeys(ROWS, 1), "psi", most), "begun")
    for peer in ("b", "c"):
        seen = [
            (what.value, head["block"])
            for name, what, head, _ in parties.asked
            if what in (Question.SHOW, Question.BLIND) and name == peer
        ]
        assert seen.count(("show", 0)) == 1
        assert [at for word, at in seen if word == "show"] == list(range(shown))
        assert [at for word, at in seen if word == "blind"] == list(range(sought))
    kept = [(head["peer"], head["block"], head["part"], blobs[-2:]) for _, head, blobs in parties.of(Question.KEEP)]
    answer = {
        part: [f"{word} {n} b".encode() for n in (1, 2)] for part, word in (("setup", "show"), ("response", "blind"))
    }
    assert kept[:2] == [("b", 0, "setup", answer["setup"]), ("b", 0, "response", answer["response"])]
    assert [name for name, head, _ in parties.of(Question.NARROW)] == ["a", "a"]
    told = {name: blobs[-2:] for name, _, blobs in parties.of(Question.AGREED) if name != "a"}
    assert told == {name: [f"words for {name}".encode(), b"content"] for name in "bc"}
