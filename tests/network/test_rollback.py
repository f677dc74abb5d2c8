"""Claims about a file that is put back from an old copy while a run is open: no noise is drawn twice for one charge.

What somebody has heard of a node is written down before it is read; whoever remembers less than that has an old file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import colonnade as co
from colonnade.methods.gram import products
from colonnade.privacy.gate import Gate
from colonnade.privacy.store import FileLog, MemoryLog
from colonnade.runtime.host import Turns, check_records
from colonnade.runtime.hosted_node import Joined
from colonnade.runtime.node import LOST, Receipts
from colonnade.runtime.program import COORDINATOR, Failed
from colonnade.runtime.wire import Letter, encode
from tests.helpers.stub_hub import (
    SECURE,
    Straw,
    straw_hub,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

FORGOT = r"received \d+ messages from '.*', whose record holds \d+ of them: the record of .* is an old copy"
LOGISTIC = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)


def fit(store: Path) -> co.Fit:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (200, 4)), np.where(rng.random(200) < 0.5, -1, 1)
    fed = co.Federation.split(X, y, parties={"a": [0, 1], "b": [2, 3]}, label="b")
    privacy = co.Privacy(1.0, 1e-6, trust="secure", row_norm=1.0, feature_bound=1.0)
    return co.fit(fed, LOGISTIC, co.PrivateGram(), privacy, store=store)


def put_back(copy: Path, node: str, nodes: Path) -> None:
    for file in nodes.glob(f"{node}.db*"):
        file.unlink()
    for file in copy.glob(f"{node}.db*"):
        shutil.copy(file, nodes / file.name)


def rows(store: Path, node: str, kind: str) -> list:
    log = FileLog(store / "nodes" / f"{node}.db")
    try:
        return log.rows(kind=kind)
    finally:
        log.close()


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def killed(run: Callable[[], object], where: object, name: str, how: Callable[..., None] = stopped) -> None:
    """The process dies where something is done."""
    with mock.patch.object(where, name, how), pytest.raises(KeyboardInterrupt):
        run()


@pytest.mark.chance(0, "refusals, and how often noise is drawn, not which")
@pytest.mark.parametrize("node", ["a", "b"])
def test_a_message_that_was_read_and_not_recorded_is_remembered(node, tmp_path, monkeypatch):  # noqa: F811
    """The coordinator dies over the first noisy numbers; the party that drew them then has a file from before."""
    store, old, drawn, draw = tmp_path / "store", tmp_path / "old", [], Gate.integers
    killed(lambda: fit(store), Gate, "integers")
    shutil.copytree(store / "nodes", old)

    def drawing(self, *arguments, **options):
        drawn.append(self.node)
        return draw(self, *arguments, **options)

    monkeypatch.setattr(Gate, "integers", drawing)
    killed(lambda: fit(store), products, "gram_matrix")
    before = drawn.count(node)
    assert before >= 1
    put_back(old, node, store / "nodes")
    with pytest.raises(co.LedgerDamaged, match=rf"{FORGOT}|rolled back"):
        fit(store)
    assert drawn.count(node) == before


@pytest.mark.chance(0, "a price, and who was heard")
def test_a_run_that_nobody_put_back_goes_on_from_what_was_heard(tmp_path):  # noqa: F811
    killed(lambda: fit(tmp_path), products, "gram_matrix")
    got = [tuple(json.loads(row.key)) for row in rows(tmp_path, COORDINATOR, "got")]
    assert {("a", COORDINATOR), ("b", COORDINATOR)} <= set(got)
    assert fit(tmp_path).privacy.epsilon == pytest.approx(1.0)


def test_between_organisations_a_letter_that_the_hub_heard_is_remembered(tmp_path):  # noqa: F811
    """The hub dies with a party's letter in its hands, before anybody has read it."""
    with straw_hub(SECURE, tmp_path, co.Policy(epsilon=10.0, delta=1e-5)) as straw:
        killed(lambda: attempt(straw, tmp_path), Turns, "drive")
        victim = straw.made.names[0]
        nodes = tmp_path / victim / "nodes"
        straw.services[victim].close()
        shutil.copytree(nodes, tmp_path / "old")
        straw.die(victim)
        sent = set()

        def dying(turns: Turns, name: str, turn: object) -> None:
            sent.update(letter.sender for letter in turn.letters)
            if name == victim and turn.letters:
                raise KeyboardInterrupt

        killed(lambda: attempt(straw, tmp_path), Turns, "take", dying)
        assert victim in sent
        straw.services[victim].close()
        put_back(tmp_path / "old", victim, nodes)
        straw.die(victim)
        with pytest.raises(co.LedgerDamaged, match=rf"{FORGOT}|rolled back"):
            attempt(straw, tmp_path)
        assert all(len(forms) == 1 for forms in straw.wire.values())


def attempt(straw: Straw, folder: Path) -> co.Fit:
    told = straw.made.federation, SECURE.problem, SECURE.method, SECURE.privacy
    return co.fit(*told, engine=straw, store=folder / "hub")


@pytest.mark.parametrize("heard", [{("a", "b"): 3}, {("a", COORDINATOR): 1}, {("b", COORDINATOR): 2}])
def test_an_engine_whose_stations_are_elsewhere_compares_what_all_have_heard(heard):
    """As Ray and the hub do, whenever a run is taken up or a host comes back."""
    joined = {
        COORDINATOR: Joined({"a": 0, "b": 1}, {}, heard),
        "a": Joined({}, {"b": 2}),
        "b": Joined({}, {COORDINATOR: 1}),
    }
    with pytest.raises(co.LedgerDamaged, match=FORGOT):
        check_records(joined)
    check_records({**joined, COORDINATOR: Joined({"a": 0, "b": 1}, {}, {("a", "b"): 2, ("b", COORDINATOR): 1})})


def test_other_bytes_at_a_place_that_was_heard_are_an_old_copy(tmp_path):  # noqa: F811
    log, edge = FileLog(tmp_path / "node.db"), ("a", "b")
    first = Receipts(log, "run", kept=True)
    for _ in range(2):
        first.note([Letter(*edge, 0, 1, b"abc"), Letter(*edge, 1, 1, b"def")])
    with pytest.raises(co.LedgerDamaged, match=FORGOT):
        first.note([Letter(*edge, 0, 1, b"xyz")])
    again = Receipts(log, "run", kept=True)
    assert again.counts() == {edge: 2}
    again.note([Letter(*edge, 0, 1, b"abc")])
    with pytest.raises(co.LedgerDamaged, match=FORGOT):
        again.note([Letter(*edge, 1, 1, b"xyz")])
    again.note([Letter(*edge, 1, 1, LOST)])  # its sender was given up, after this node heard it and died
    assert (len(log.rows("run", "got")), log.verify()) == (2, 2)
    log.close()


def test_receipts_are_kept_where_noise_is_drawn_and_a_farewell_needs_none(tmp_path):  # noqa: F811
    log = FileLog(tmp_path / "node.db")
    farewell = Letter("a", "b", 0, 1, encode(Failed(1), guarded=False))
    Receipts(log, "run", kept=True).note([farewell])
    Receipts(log, "run", kept=False).note([Letter("a", "b", 0, 1, b"abc")])
    Receipts(MemoryLog(), "run", kept=True).note([Letter("a", "b", 0, 1, b"abc")])
    assert log.rows() == []
    log.close()


@pytest.mark.chance(0, "keys and lengths of ledgers")
def test_when_a_run_that_went_on_is_taken_up_again_the_heads_of_others_are_written_down(tmp_path):  # noqa: F811
    for _ in range(3):
        killed(lambda: fit(tmp_path), products, "gram_matrix")
    fit(tmp_path)
    keys = [row.key for row in rows(tmp_path, "a", "peer")]
    assert keys == ["start", "start 2", "end"]  # it took no step between the second start and the fourth
    counts = [json.loads(row.body)["b"][0] for row in rows(tmp_path, "a", "peer")]
    assert counts == sorted(set(counts))
