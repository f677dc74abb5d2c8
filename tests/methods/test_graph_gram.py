"""Private Gram on a graph: the same release on every graph, passed on where parties are no neighbours, solved by all."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.errors import InvalidInput, ProtocolError
from colonnade.methods.gram import graph as gram_graph
from colonnade.methods.gram import products as gram_products
from colonnade.methods.gram.answer import Curves
from colonnade.methods.gram.graph import GraphGram, Item, Mail, Passed
from colonnade.methods.gram.rule import Gram, RowFrame, as_they_are
from colonnade.methods.gram.solve import solve
from colonnade.privacy.conditions import Code
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.lattice import least_bits
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Packed, encode_value, release
from colonnade.runtime.program import COORDINATOR
from tests.helpers.forgery import Cut, Until
from tests.helpers.gram_runs import silent_run

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
NUMBERS = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-3), intercept=True)
TERMS = co.Privacy(1.0, 1e-6, trust="parties", row_norm=3.0, feature_bound=2.0, label_bound=1.0)
PARTIES = {"a": [0, 1], "b": [2], "c": [3, 4], "d": [5]}
GRAPHS = {"line": co.Topology.line(4), "ring": co.Topology.ring(4), "complete": co.Topology.complete(4)}


def federation(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(rows, 6)), -2, 2)
    y = np.where(X[:, 0] - X[:, 3] + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)
    return co.Federation.split(X, y, parties=PARTIES, label="b")


def run(store, graph="line", engine=None, problem=PROBLEM, method=None, terms=TERMS):
    method = method or co.PrivateGram(topology=GRAPHS[graph])
    return co.fit(federation(), problem, method, terms, store=store, engine=engine)


def keyring(name):
    pinned = {other: public_key(other.encode() * 32) for other in "abc"}
    return Keyring("run", name, name.encode() * 32, pinned, name.encode() * 32)


# ---------------------------------------------------------------------------------------- the same on every graph


@pytest.mark.chance(1e-8, "35 entries within 6.36 sds: 35 * 2e-10")
@pytest.mark.parametrize("graph", ["line", "complete"])
def test_every_graph_releases_what_the_star_does(graph, tmp_path):
    """Rows of numbers as they are: both matrices are of the same products, with noises of their own."""
    terms = replace(TERMS, epsilon=25.0, row_norm=5.0)
    methods = (co.PrivateGram(purpose="inference", topology=where) for where in (None, GRAPHS[graph]))
    star, fit = (run(tmp_path / str(k), problem=NUMBERS, method=m, terms=terms) for k, m in enumerate(methods))
    known = star.release.noise > 0
    apart = (fit.release.matrix - star.release.matrix)[known] / star.release.noise[known]
    assert np.abs(apart).max() < 9.0  # 6.36 sds of the difference: twice in 10^10 entries, of which 35 are different
    assert np.array_equal(fit.release.noise, star.release.noise)
    assert np.array_equal(fit.release.matrix[~known], star.release.matrix[~known])


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """A run on a line: the fit, what each agent returned, all letters, and the store."""
    found, peer, tap, store = {}, gram_graph.peer, co.Tap(co.InProcess()), tmp_path_factory.mktemp("line")

    def watched(form, block, gate, topology):
        found[gate.node] = yield from peer(form, block, gate, topology)
        return found[gate.node]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram_graph, "peer", watched)
        return run(store, "line", tap), found, tap.letters, store


@pytest.mark.chance(0, "the same draws, as each agent has them")
def test_all_agents_solve_the_same_problem_and_get_the_same_bits(line):
    fit, found, *_ = line
    assert set(found) == set(PARTIES)
    first = found["a"].answer
    for own in found.values():
        assert np.array_equal(own.answer.release.matrix, first.release.matrix)
        assert own.answer.intercept == first.intercept == fit.intercept
        for name in PARTIES:
            assert np.array_equal(own.answer.coefficients[name], fit.coefficients[name])
    for name, own in found.items():
        assert np.array_equal(own.coefficients, fit.coefficients[name])


@pytest.mark.chance(0, "who writes to whom, whatever was drawn")
def test_there_is_no_coordinator_and_only_neighbours_talk(line):
    _, _, letters, _ = line
    order = list(PARTIES)
    assert COORDINATOR not in {x.sender for x in letters} | {x.receiver for x in letters}
    assert all(abs(order.index(x.sender) - order.index(x.receiver)) == 1 for x in letters)


@pytest.mark.chance(1e-30, "27 bytes or more would have to stand in what is sealed by chance")
def test_agents_in_between_are_shown_nothing_but_what_is_sealed(tmp_path, monkeypatch):
    """On a line: rows, W and B as their gates let them out are in no message; the ones that go through "b" and "c" are
    opened by those alone whom they are for."""
    plain, opened = [], []
    sealed, open_ = Gate.sealed, Keyring.open

    def look(gate, parts, places, name):
        plain.extend((gate.node, tuple(places), encode_value(part.value)) for part in parts)
        return sealed(gate, parts, places, name)

    monkeypatch.setattr(Gate, "sealed", look)
    monkeypatch.setattr(Keyring, "open", lambda ring, *of: opened.append((of[0], ring._me)) or open_(ring, *of))
    tap = co.Tap(co.InProcess())
    run(tmp_path, "line", tap)
    assert any(source == "a" and "d" in to for source, to, _ in plain) or any("a" in to for _, to, _ in plain)
    sent = [letter.body for letter in tap.letters]
    for _, _, body in plain:
        inside = body[16:] if len(body) > 64 else body
        assert not any(inside in message for message in sent)
    assert set(opened) == {(source, to) for source, ends, _ in plain for to in ends}


def test_what_is_sealed_for_one_agent_opens_for_no_other():
    rings = {name: keyring(name) for name in "abc"}
    for one, other in permutations("abc", 2):
        rings[one].meet(other, *rings[other].hello)
    (key, content) = rings["a"].seal({"c": 0}, b"rows", "0")["c"]
    assert rings["c"].open("a", 0, key, content) == b"rows"
    with pytest.raises(ProtocolError, match="does not open"):
        rings["b"].open("a", 0, key, content)


def test_a_key_that_was_changed_on_the_way_stops_the_run(tmp_path, monkeypatch):
    """ "b", between "a" and all others, puts its own in the place of that of "a"."""
    unbundle = gram_graph._unbundle

    def swapped(came, sender, sizes):
        found = unbundle(came, sender, sizes)
        if sender == "b" and {"a", "b"} & found.keys() and all(size == (2, 0) for size in sizes.values()):
            found["a"] = Item((release(bytes(32)), *found.get("a", next(iter(found.values()))).rows[1:]))
        return found

    monkeypatch.setattr(gram_graph, "_unbundle", swapped)
    with pytest.raises(ProtocolError, match="not signed by the key pinned for it"):
        run(tmp_path)


@pytest.mark.chance(0, "a refusal of what was changed, whatever the noise")
@pytest.mark.parametrize(
    ("parts", "why"), [(False, "'a' does not open"), (True, "'[abcd]' got other noisy parts than we did")]
)
def test_a_digest_or_a_noisy_part_that_was_changed_on_the_way_stops_the_run(parts, why, tmp_path, monkeypatch):
    """By "b", between "a" and all others: else those would plan, noise or solve for something else than "a" does."""
    unbundle = gram_graph._unbundle

    def changed(came, sender, sizes):
        found = unbundle(came, sender, sizes)
        rows, numbers = sizes.get("a", (0, 0))
        if sender == "b" and (numbers if parts else rows == len(PARTIES)):
            found["a"] = Item(*(tuple(map(_other, each)) for each in found["a"]))
        return found

    monkeypatch.setattr(gram_graph, "_unbundle", changed)
    with pytest.raises(ProtocolError, match=why):
        run(tmp_path)


def _other(part):
    value = part.value
    return release(bytes(len(value)) if isinstance(value, bytes) else Packed(value.values ^ np.uint64(1), value.bits))


@pytest.mark.chance(0, "prices and words: nothing that was drawn is compared")
def test_a_statement_names_what_it_rests_on_and_prices_are_those_of_the_star(line):
    fit, _, _, store = line
    assert (fit.privacy.guarantee, fit.privacy.trust) == ("conditional", "parties")
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    (lwe,) = (one for one in fit.privacy.conditions if one.code is Code.LATTICES)
    assert lwe.figures[1:] == least_bits(lwe.figures[0])
    for party in PARTIES:
        ledger = Ledger(FileLog(store / "nodes" / f"{party}.db"), party, co.Policy())
        assert len([e for e in ledger.entries() if e.event.rho]) == 2


@pytest.mark.chance(0, "the same bytes again, and every run has 135 letters, whatever was drawn")
@pytest.mark.parametrize("cut", [20, pytest.param(45, marks=pytest.mark.fault), 70])
def test_a_run_that_was_cut_goes_on_with_the_same_bytes(cut, tmp_path):
    first, second = Until(cut), Until(10**9)
    with pytest.raises(Cut):
        run(tmp_path, "line", first)
    run(tmp_path, "line", second)
    known = {(x.sender, x.receiver, x.sequence): x.body for x in second.sent}
    assert all(known[x.sender, x.receiver, x.sequence] == x.body for x in first.sent)


@pytest.mark.chance(0, "a refusal of another plan, whatever the noise")
def test_an_agent_that_planned_something_else_stops_the_run_before_anything_leaves(tmp_path, monkeypatch):
    describe = gram_graph.describe

    def other(design, figures, frame, labels):
        told = describe(design, figures, frame, labels)
        return told if figures.name == "sums" or other.told else other.change(told)

    def change(told):
        other.told = True
        fields = {name: getattr(told, name) for name in told.__slots__}
        return type(told)(**(fields | {"scale": told.scale * 2}))

    other.told, other.change = False, change
    monkeypatch.setattr(gram_graph, "describe", other)
    with pytest.raises(ProtocolError, match="planned another release"):
        run(tmp_path)
    for party in PARTIES:
        ledger = Ledger(FileLog(tmp_path / "nodes" / f"{party}.db"), party, co.Policy())
        assert [e.what for e in ledger.entries() if e.event.rho] == ["noisy class sums of the columns"]


@pytest.mark.chance(1e-12, "a coefficient is 0 only where noisy sums cancel to the last of 53 bits")
def test_an_agent_of_whose_columns_none_was_kept_still_passes_on(tmp_path, monkeypatch):
    """On a line "c" stands between "d" and the others."""
    prepare = gram_products.prepare

    def without(rule, columns, rows, sums):
        rule, frame = prepare(rule, columns, rows, sums)
        keep = columns.owner[frame.keep] != list(PARTIES).index("c")
        norms = np.where(np.arange(4) == list(PARTIES).index("c"), 0.0, frame.norms)
        parts = {name: getattr(frame, name)[keep] for name in ("keep", "centre", "scale", "doubt")}
        return rule, replace(frame, norms=norms, **parts)

    monkeypatch.setattr(gram_products, "prepare", without)
    fit = run(tmp_path)
    assert not fit.coefficients["c"].any()
    assert fit.coefficients["d"].any()


# ---------------------------------------------------------------------------------------- what is solved


PATTERNS = GRAPHS | {
    "star": co.Topology.star(4),
    "tree": co.Topology.tree(4),
    "random": co.Topology.random(4, degree=2, seed=1),
    "changing": co.Changing.silent(co.Topology.ring(4), {1: range(1)}, 2),
}


def flagged():
    """A column of zeros and ones at "a" and a number at "b" say nearly all of the class; those of "c" and "d" nothing."""
    rng, rows = np.random.default_rng(4), 200
    y = np.where(rng.random(rows) < 0.4, 1.0, -1.0)
    X = {"a": (y > 0) != (rng.random(rows) < 0.02), "b": np.clip(0.4 * y + 0.25 * rng.normal(size=rows), -1, 1)}
    X |= {party: rng.uniform(-1, 1, rows) for party in "cd"}
    frames = {party: pl.DataFrame({"key": np.arange(rows), f"x{party}": column}) for party, column in X.items()}
    frames["b"] = frames["b"].with_columns(pl.Series("y", y))
    columns = {party: co.Numeric(f"x{party}", -1, 1, scale=False) for party in "bcd"} | {"a": co.Binary("xa")}
    schemas = {party: co.Schema((columns[party],)) for party in "abcd"}
    return co.Federation.from_frames(frames, "key", ("b", "y"), schemas=schemas)


@pytest.mark.parametrize("graph", PATTERNS)
def test_what_is_solved_follows_from_the_release_on_every_graph(graph, monkeypatch):
    """Coefficients, intercept and link are those of the rule on the matrix and sums that the fit carries, with the flag
    named by hand; and the normal part of the link is .85·(1 − h⁴), h = v²/(Σv)², v the variances of parts of scores."""
    fed, terms = flagged(), co.Privacy(30.0, 1e-6, trust="parties")
    fit = silent_run(fed, GraphGram(topology=PATTERNS[graph]), terms, monkeypatch, intercept=True).fit
    release, solving, flags = fit.release, fit.release.solving, np.array([True, False, False, False])
    assert (release.rule, solving.ridge, solving.choose, solving.select) == ("centred", 1.5, True, False)
    frame = RowFrame(np.arange(4), release.centre, release.scale, np.zeros(4), solving.doubt)
    rule = replace(as_they_are(4, 1.0), name="centred", ridge=1.5)
    sizes = {"rows": fed.rows, "columns": 4, "label_bound": 1.0, "sums": solving.sums}
    curves = Curves(np.zeros(4, int), flags=flags)
    solved = solve(Gram(release.matrix, release.noise), frame, rule, PROBLEM, **sizes, curves=curves)
    found = np.concatenate([fit.coefficients[party] for party in PARTIES])
    np.testing.assert_allclose(found, solved.coefficients, rtol=1e-12)
    assert fit.intercept == pytest.approx(solved.intercept, rel=1e-12)
    assert fit.link == pytest.approx(solved.link, rel=1e-12)

    known = np.square(solving.doubt * release.scale * fed.rows)  # of centres: sums of rows around them are 0 up to this
    around = release.matrix[:4, 4] * known / (known + np.square(release.noise[:4, 4]))
    variance = (np.diag(release.matrix)[:4] - np.square(around) / fed.rows) / np.square(release.scale)
    parts = np.square(found) * variance
    share = parts[0] / parts.sum()
    assert 0.6 < share < 0.95
    assert fit.link.weight == pytest.approx(0.85 * (1.0 - share**8), rel=1e-9)


# ---------------------------------------------------------------------------------------- passing on


@pytest.mark.parametrize("graph", [co.Topology.line(5), co.Topology.star(5), co.Topology.ring(5)], ids=str)
def test_what_is_spread_reaches_those_it_is_for_and_nobody_waits_for_nothing(graph):
    """Driven by hand: in every round each agent gets exactly what its neighbours sent it."""
    names = tuple("abcde")
    reach = {"a": ("c", "e"), "d": ("a",), "e": ("b", "c", "d")}
    agents = {me: Mail(graph, names, me) for me in names}
    programs = {
        me: mail.spread(Item((release(me.encode()),)), reach, dict.fromkeys(names, (1, 0)))
        for me, mail in agents.items()
    }
    boxes = {(a, b): [] for a in names for b in names}
    found, posts = {}, {me: next(program, None) for me, program in programs.items()}
    for me, post in posts.items():
        for to, message in (post.to if post else {}).items():
            boxes[me, to].append(message)
    while any(post is not None for post in posts.values()):
        ready = [me for me, post in posts.items() if post and all(boxes[other, me] for other in post.wait)]
        assert ready  # or everybody waits
        for me in ready:
            inbox = {other: boxes[other, me].pop(0) for other in posts[me].wait}
            try:
                posts[me] = programs[me].send(inbox)
            except StopIteration as stop:
                found[me], posts[me] = stop.value, None
                continue
            for to, message in posts[me].to.items():
                assert names.index(to) in graph.neighbours(names.index(me))
                boxes[me, to].append(message)
    assert not any(boxes.values())
    for me in names:
        due = {source for source, ends in reach.items() if me in ends}
        if me in found:
            assert {s: item.rows[0].value for s, item in found[me].items()} == {s: s.encode() for s in due}


def test_bundles_of_another_size_are_refused():
    with pytest.raises(ProtocolError, match="passed on 0 rows"):
        gram_graph._unbundle(Passed((), ()), "a", {"a": (1, 0)})


# ---------------------------------------------------------------------------------------- what is refused


def test_what_does_not_go_with_a_graph_is_refused(tmp_path):
    graph = GRAPHS["line"]
    with pytest.raises(InvalidInput, match="is not a graph"):
        co.PrivateGram(topology="ring")
    with pytest.raises(InvalidInput, match="leave cross= and labels= out"):
        run(tmp_path, method=co.PrivateGram(labels="released", topology=graph))
    with pytest.raises(InvalidInput, match="'parties'; got 'secure'"):
        run(tmp_path, terms=replace(TERMS, trust="secure"))
    with pytest.raises(InvalidInput, match="needs privacy="):
        co.fit(federation(), PROBLEM, co.PrivateGram(topology=graph))
    with pytest.raises(InvalidInput, match="3 nodes for 4 parties"):
        run(tmp_path, method=co.PrivateGram(topology=co.Topology.line(3)))


# ---------------------------------------------------------------------------------------- graph methods with a budget


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        (co.GraphRidge(GRAPHS["ring"]), NUMBERS),
        (co.GraphADMM(GRAPHS["ring"]), PROBLEM),
        (co.GraphADMM(GRAPHS["ring"]), co.Problem(co.LeastSquares(), penalty=co.ElasticNet(0.01, 0.01))),
        (co.GraphADMM(GRAPHS["ring"]), co.Problem(co.LeastSquares(), penalty=co.GroupLasso(0.01))),
    ],
    ids=["ridge", "classes", "elastic net", "groups"],
)
def test_graph_methods_with_a_budget_are_the_noisy_release_on_their_graph(method, problem):
    assert method.variant(problem, TERMS) == GraphGram(topology=GRAPHS["ring"])
    assert method.variant(problem, None) == method


@pytest.mark.chance(0, "words and a shape, which is that of all columns")
def test_a_graph_method_with_a_budget_fits_and_keeps_its_trust_model(tmp_path):
    fit = run(tmp_path, problem=NUMBERS, method=co.GraphRidge(GRAPHS["ring"]), terms=replace(TERMS, trust=None))
    assert (fit.privacy.trust, fit.privacy.guarantee) == ("parties", "conditional")
    assert fit.release.matrix.shape == (8, 8)


def test_graph_methods_with_a_budget_refuse_other_problems_and_say_what_to_take(tmp_path):
    ring = GRAPHS["ring"]
    for problem in (
        co.Problem(co.Huber(1.0), penalty=co.Ridge(0.1)),
        co.Problem(co.SquaredHinge(), penalty=co.Lasso(0.1)),
    ):
        with pytest.raises(InvalidInput, match="serves LeastSquares\\(\\) and Logistic\\(\\)"):
            run(tmp_path, problem=problem, method=co.GraphADMM(ring))
    with pytest.raises(InvalidInput, match="takes every loss and penalty"):
        run(tmp_path, problem=PROBLEM, method=co.GraphRidge(ring))
    start = {name: np.zeros(len(places)) for name, places in PARTIES.items()}
    with pytest.raises(InvalidInput, match="no start="):
        run(tmp_path, problem=NUMBERS, method=co.GraphRidge(ring, start=start))
