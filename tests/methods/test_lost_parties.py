"""Parties that fall silent in a run of Private Gram: at every moment, with a coordinator that lies about it, and what
ledger, model, statement and report say afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.errors import PartyLost, ProtocolError
from colonnade.methods.gram import products as gram_products
from colonnade.methods.gram.products import Prepare, SendParts
from colonnade.methods.meeting import Losses
from colonnade.model.job import Roster
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.store import FileLog
from colonnade.runs.scoring import _check_elsewhere
from colonnade.runtime.hosted_node import deliver_once
from colonnade.runtime.node import LOST
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import Letter, decode, encode

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

CLASSES = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
NUMBERS = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-3), intercept=True)
TERMS = co.Privacy(4.0, 1e-6, trust="secure", row_norm=3.0, feature_bound=2.0, label_bound=1.0)
SLOW = pytest.mark.slow
PARTIES = {"a": [0, 1], "b": [2], "c": [3, 4]}
NOISE = SeededNoise(7)
# What party c sends in a run with class sums: its key, two seeds, rows, sums; two seeds, lengths, rows, parts; done.
KEY, SEEDS, ROWS, SUMS, NEXT_SEEDS, LENGTHS, NEXT_ROWS, PARTS, ALL = 1, 3, 4, 5, 7, 8, 9, 10, 11


def federation(parties=PARTIES, quorum=2, columns=5, label="b", exact=True):
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(size=(300, 5)), -2, 2)
    y = np.where(X @ [1.0, 0.5, -1.0, 0.7, 0.3] > 0, 1.0, -1.0)
    fed = co.Federation.split(X[:, :columns], y, parties=parties, label=label)
    return fed.with_policies(dict.fromkeys(parties, co.Policy(exact=exact, quorum=quorum)))


def run(store, after=None, engine=None, fed=None, noise=NOISE, problem=CLASSES, method=None, **terms):
    inner = engine or co.InProcess()
    engine = inner if after is None else co.Dropouts(inner, after)
    given = (fed or federation(), problem, method or co.PrivateGram(), replace(TERMS, **terms))
    return co.fit(*given, store=store, engine=engine, noise=noise)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that loses nobody."""
    return run(tmp_path_factory.mktemp("whole"))


def same(one, other):
    parties = set(one.coefficients)
    return parties == set(other.coefficients) and all(
        np.array_equal(one.coefficients[party], other.coefficients[party]) for party in parties
    )


def entries(store, party):
    log = FileLog(store / "nodes" / f"{party}.db")
    log.verify()
    found = [entry.event.mechanism for entry in Ledger(log, party, co.Policy()).entries()]
    closed = bool(log.rows(kind="close"))
    log.close()
    return found, closed


# ---------------------------------------------------------------------------------------- at every moment


@pytest.mark.parametrize(
    "after", [pytest.param(k, marks=[] if k in (0, 2, 4, 8, PARTS) else SLOW) for k in range(ALL + 1)]
)
def test_a_party_that_falls_silent_at_any_moment_leaves_the_others_a_model_and_nothing_is_paid_twice(
    after, whole, tmp_path
):
    fit = run(tmp_path, {"c": after})
    if after < PARTS:
        assert list(fit.coefficients) == ["a", "b"]
        assert list(fit.absent) == ["c"]
    else:  # its parts had come: the model is whole, and it has only not said that it heard of it
        assert same(fit, whole)
        assert fit.absent == {}
    assert np.isfinite(fit.intercept)
    for party in PARTIES:
        found, closed = entries(tmp_path, party)
        assert found.count("lattice") <= 2
        assert found.count("continued") <= 1
        assert closed


@pytest.mark.parametrize("after", [SUMS, *(pytest.param(k, marks=SLOW) for k in (6, NEXT_SEEDS, LENGTHS)), NEXT_ROWS])
def test_what_is_released_without_a_party_is_the_whole_release_with_its_rows_and_columns_struck_out(
    after, whole, tmp_path, monkeypatch
):
    """To the bit: so that nothing is learned that the whole run would not have told for the same price."""
    matrix, products = gram_products.gram_matrix, []
    monkeypatch.setattr(
        gram_products, "gram_matrix", lambda *given: products.append(given[-1].cross.keys()) or matrix(*given)
    )
    fit, struck = run(tmp_path, {"c": after}), whole.without("c")
    assert products == [{("a", "b")}]  # half a product is none
    assert np.array_equal(fit.release.matrix, struck.release.matrix)
    assert np.array_equal(fit.release.noise, struck.release.noise)
    assert same(fit, struck)
    assert fit.intercept == struck.intercept


def test_a_party_lost_before_anything_is_released_leaves_a_run_of_the_others_alone(tmp_path):
    """Under the same noise, to the bit, where the whole budget goes to one release."""
    kept = {party: places for party, places in PARTIES.items() if party != "c"}
    terms = {"method": co.PrivateGram(purpose="inference"), "row_norm": {"a": 3.0, "b": 2.0, "c": 3.0}}
    fit = run(tmp_path / "lost", {"c": 0}, problem=NUMBERS, **terms)
    terms["row_norm"] = {"a": 3.0, "b": 2.0}
    alone = run(tmp_path / "alone", fed=federation(kept, columns=3), problem=NUMBERS, **terms)
    assert np.array_equal(fit.release.matrix, alone.release.matrix)
    assert same(fit, alone)
    assert "before the first release" in fit.absent["c"]
    assert np.allclose(fit.inference().table["estimate"], alone.inference().table["estimate"])


@pytest.mark.parametrize("after", [*(pytest.param(k, marks=SLOW) for k in (0, 2, 4, 7, LENGTHS)), NEXT_ROWS])
def test_a_consortium_goes_on_without_a_party_too(after, tmp_path):
    fit = run(tmp_path, {"c": after}, trust="consortium")
    assert list(fit.coefficients) == ["a", "b"]
    found, _ = entries(tmp_path, COORDINATOR)
    assert found == ["lattice", "lattice", "continued"]


def test_where_class_sums_go_by_released_labels_a_party_may_be_lost_before_them(tmp_path):
    """The others hear of it before the coordinator, which waits for nobody until it asks for the sums."""
    fit = run(tmp_path, {"c": KEY}, method=co.PrivateGram(labels="released"))
    assert fit.absent == {"c": "while class sums were computed, before anything noisy had come"}
    assert list(fit.coefficients) == ["a", "b"]


def test_the_first_of_the_roster_and_two_of_four_may_be_lost(tmp_path):
    fed = federation({"a": [0], "b": [1], "c": [2, 3], "d": [4]}, label="c")
    fit = run(tmp_path, {"a": 9, "d": 3}, fed=fed)
    assert list(fit.coefficients) == ["b", "c"]
    assert sorted(fit.absent) == ["a", "d"]


def tables():
    """Three tables of one number each, the second with labels, and the federation of them."""
    rng = np.random.default_rng(1)
    X = np.clip(rng.normal(size=(300, 3)), -1, 1)
    frames = {name: pl.DataFrame({"id": np.arange(300), f"x_{name}": X[:, k]}) for k, name in enumerate("abc")}
    frames["b"] = frames["b"].with_columns(late=pl.Series((X.sum(axis=1) > 0).astype(int)))
    schemas = {name: co.Schema((co.Numeric(f"x_{name}", -1, 1),)) for name in "abc"}
    return frames, co.Federation.from_frames(frames, on="id", label=("b", "late"), schemas=schemas)


def test_exact_products_go_on_without_a_party(tmp_path):
    """Against the normal equations of the columns that are left."""
    frames, fed = tables()
    fed = fed.with_policies(dict.fromkeys("abc", co.Policy(exact=True, quorum=2)))
    problem = co.Problem(co.LeastSquares(), intercept=True)
    engine = co.Dropouts(co.InProcess(), {"c": 4})
    fit = co.fit(fed, problem, co.PrivateGram(purpose="inference"), engine=engine, store=tmp_path)
    assert list(fit.absent) == ["c"]
    X = np.column_stack([frames["a"]["x_a"], frames["b"]["x_b"], np.ones(300)])
    best, *_ = np.linalg.lstsq(X, frames["b"]["late"].to_numpy().astype(float), rcond=None)
    here = {name: frames[name] for name in "ab"}
    assert np.allclose(fit.scores(here), X @ best, atol=1e-6)


class Cut(BaseException):
    """The power goes."""


class Until:
    """An engine whose power goes after so many letters."""

    def __init__(self, letters):
        self.left = letters

    def run(self, nodes, carry=deliver_once):
        def watched(letter):
            if not self.left:
                raise Cut
            self.left -= 1
            return carry(letter)

        return co.InProcess().run(nodes, watched)


@pytest.mark.parametrize(
    ("after", "cut"),
    [(4, 38), (9, 46), *(pytest.param(k, n, marks=SLOW) for k in (2, 4, 8, 9) for n in (8, 20, 30))],
)
def test_a_run_that_was_cut_after_it_lost_a_party_goes_on_without_it(after, cut, tmp_path):
    expected = run(tmp_path / "uncut", {"c": after})
    with pytest.raises(Cut):
        co.fit(
            *(federation(), CLASSES, co.PrivateGram(), TERMS),
            store=tmp_path / "cut",
            engine=Before(Until(cut), {"c": after}),
            noise=NOISE,
        )
    fit = run(tmp_path / "cut", {"c": after})
    assert same(fit, expected)
    assert fit.absent == expected.absent
    for party in PARTIES:
        assert entries(tmp_path / "cut", party) == entries(tmp_path / "uncut", party)


class Before:
    """Letters are counted for the power cut before they are lost."""

    def __init__(self, until, after):
        self.until, self.after = until, after

    def run(self, nodes, carry=deliver_once):
        until = self.until

        class Counted:
            def run(self, nodes, carry=deliver_once):
                return until.run(nodes, carry)

        return co.Dropouts(Counted(), self.after).run(nodes, carry)


# ---------------------------------------------------------------------------------------- where it must end


@pytest.mark.parametrize(
    ("lost", "quorum", "why"),
    [
        ({"b": 4}, 2, "holds the labels"),
        ({"c": 4}, None, "needs a quorum"),
        ({"c": 4}, 3, "policies ask for 3"),
        ({"a": 6, "c": 4}, 2, "policies ask for 2"),
    ],
)
def test_without_the_labels_or_a_quorum_a_run_ends_and_says_why_and_ledgers_close(lost, quorum, why, tmp_path):
    with pytest.raises(PartyLost, match=why):
        run(tmp_path, lost, fed=federation(quorum=quorum))
    for party in PARTIES:
        _, closed = entries(tmp_path, party)
        assert closed


def test_one_policy_without_a_quorum_is_enough_to_end(tmp_path):
    fed = federation()
    fed = fed.with_policies({party: co.Policy(exact=True, quorum=None if party == "a" else 2) for party in PARTIES})
    assert fed.roster().quorum == 0
    with pytest.raises(PartyLost, match="needs a quorum"):
        run(tmp_path, {"c": 4}, fed=fed)


def test_nobody_with_columns_left_is_an_end():
    losses = Losses(Roster(10, {"a": (0, 1), "b": (), "c": ()}, "b", quorum=2))
    with pytest.raises(PartyLost, match="Nobody with columns"):
        losses.told((0,), "c", "now")


@pytest.mark.chance(0, "the refusal and what ledgers say: no drawn figure is compared")
@pytest.mark.parametrize("topology", [pytest.param(None, marks=SLOW), co.Topology.ring(3)])
def test_under_encryption_between_two_parties_a_lost_one_is_a_clear_end(topology, tmp_path):
    with pytest.raises(PartyLost, match=r"cannot go on without|needs a quorum"):
        run(tmp_path, {"c": 3}, trust="parties", method=co.PrivateGram(topology=topology), noise=None)
    for party in PARTIES:
        found, closed = entries(tmp_path, party)
        assert found.count("lattice") <= 2
        assert closed


def test_a_quorum_is_a_number_of_parties():
    for wrong in (1, 2.5, True, "2"):
        with pytest.raises(co.InvalidInput, match="quorum"):
            co.Policy(quorum=wrong)


# ---------------------------------------------------------------------------------------- a coordinator that lies


class Lying:
    """An engine whose coordinator gives up parties that are there, to some of the others, and changes what it says."""

    def __init__(self, edges=(), kinds=(), change=None, to=()):
        self.edges, self.kinds, self.change, self.to = set(edges), kinds, change, to

    def run(self, nodes, carry=deliver_once):
        def fault(letter):
            edge = letter.sender, letter.receiver
            if edge in self.edges:
                yield Letter(*edge, letter.sequence, 0, LOST)
                return
            message = decode(letter.body)
            if letter.receiver in self.to and isinstance(message, self.kinds):
                body = encode(self.change(message), guarded=False)
                letter = Letter(*edge, letter.sequence, letter.round, body)
            yield from carry(letter)

        return Unlost().run(nodes, fault)


class Unlost(co.InProcess):
    """Of those who were called lost none stops."""

    def run(self, nodes, carry=deliver_once):
        from colonnade.runtime import hosted_node

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hosted_node, "LOST", b"no such body")
            return super().run(nodes, carry)


def released(monkeypatch):
    """What every gate is asked to release with noise: by party, sensitivity and values."""
    found = []
    integers, rest = Gate.integers, Gate.the_rest

    def note_integers(self, private, *a, **k):
        found.append((self.node, "first", private.sensitivity, private.value))
        return integers(self, private, *a, **k)

    def note_rest(self, private, *a, **k):
        found.append((self.node, "rest", private.sensitivity, private.value))
        return rest(self, private, *a, **k)

    monkeypatch.setattr(Gate, "integers", note_integers)
    monkeypatch.setattr(Gate, "the_rest", note_rest)
    return found


def test_two_parties_told_that_the_other_is_lost_and_has_no_rows_do_not_both_release(monkeypatch, tmp_path):
    """Else each would noise its part for itself alone, and the row would pay twice: the label holder's word on the
    stage is one, and nobody releases without it."""

    def nothing_of_a(told):
        return Prepare(*(np.array([0, *told.norm2[1:]]) if name == "norm2" else getattr(told, name) for name in FIELDS))

    FIELDS = ("name", "step", "bits", "norm2", "constant", "label", "keep", "centre", "scale", "labels")
    found = released(monkeypatch)
    liar = Lying([("a", "c"), ("c", "a")], Prepare, nothing_of_a, ["c"])
    terms = {"method": co.PrivateGram(purpose="inference"), "row_norm": {"a": 3.0, "b": 2.0, "c": 3.0}}
    with pytest.raises(ProtocolError, match="something else of this release"):
        run(tmp_path, engine=liar, problem=NUMBERS, **terms)
    assert "c" not in {node for node, *_ in found}


def test_a_party_that_is_told_of_a_lost_label_holder_releases_nothing(monkeypatch, tmp_path):
    found = released(monkeypatch)
    with pytest.raises(PartyLost, match="holds the labels"):
        run(tmp_path, engine=Lying([("b", "a")]))
    assert "a" not in {node for node, *_ in found}


def test_a_party_that_hears_of_fewer_than_its_quorum_releases_nothing(monkeypatch, tmp_path):
    found = released(monkeypatch)
    with pytest.raises(PartyLost, match="policies ask for 3"):
        run(tmp_path, engine=Lying([("c", "a")]), fed=federation(quorum=3))
    assert "a" not in {node for node, *_ in found}


def test_whoever_is_given_up_what_a_party_releases_is_a_part_of_what_it_would_release_with_all(monkeypatch, tmp_path):
    """With the same sensitivity, so under the same noise: a lie about who is lost buys nothing. Of the last product
    of a pair the coordinator then lacks one half, which hides the other."""
    terms = {"method": co.PrivateGram(purpose="inference"), "row_norm": {"a": 3.0, "b": 2.0, "c": 3.0}}
    with monkeypatch.context() as patch:
        honest = released(patch)
        run(tmp_path / "honest", problem=NUMBERS, **terms)
    with monkeypatch.context() as patch:
        told = released(patch)
        with pytest.raises(ProtocolError, match="sent 3 parts where 4 were due"):
            run(
                tmp_path / "lie",
                engine=Lying((), SendParts, lambda _: SendParts((2,)), ["a"]),
                problem=NUMBERS,
                **terms,
            )
    for kind in ("first", "rest"):
        (whole,), (part,) = ([one[2:] for one in found if one[:2] == ("a", kind)] for found in (honest, told))
        assert part[0] == whole[0]
        assert len(part[1]) == len(whole[1]) - (kind == "rest")
        for one, other in zip(part[1][:2], whole[1][:2], strict=True):  # behind them come corrections, under masks
            assert np.array_equal(one, other)


@pytest.mark.parametrize("lost", [(0,), (7,), (-1,)])
def test_a_coordinator_cannot_give_up_the_party_that_it_tells_so_or_one_that_is_none(lost, tmp_path):
    with pytest.raises(ProtocolError, match=r"gave up"):
        run(tmp_path, engine=Lying((), SendParts, lambda _: SendParts(lost), ["a"]))


def test_a_party_that_was_given_up_is_not_heard_again(tmp_path):
    """Its seed reached one of the others and not the other; later it is silent to all."""
    fit = run(tmp_path, {"c": 2})
    assert list(fit.coefficients) == ["a", "b"]


# ---------------------------------------------------------------------------------------- what is said of it


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """A private run of three tables that lost the last after its class sums."""
    frames, fed = tables()
    fed = fed.with_policies(dict.fromkeys("abc", co.Policy(quorum=2)))
    store, terms = tmp_path_factory.mktemp("said"), co.Privacy(4.0, 1e-6)
    engine = co.Dropouts(co.InProcess(), {"c": LENGTHS})
    return co.fit(fed, CLASSES, co.PrivateGram(), terms, store=store, engine=engine), frames


@pytest.mark.chance(0, "who is lost goes by the count of letters, prices by the plan")
def test_model_statement_report_and_officers_page_say_who_was_lost_and_when(lost, tmp_path):
    from colonnade.views.officer import render_officer

    fit, _ = lost
    when = "while the Gram matrix was computed, after its class sums and squared lengths had come"
    assert fit.absent == {"c": when}
    assert f"c was lost {when}" in fit.privacy.sentence
    assert fit.privacy.epsilon == pytest.approx(4.0, rel=1e-6)  # the whole plan is paid
    assert any("none of its columns" in remark for remark in fit.remarks)
    assert f"lost {when}" in fit.report(tmp_path / "report.html").read_text()
    assert f"lost {when}" in render_officer(fit)
    assert "x_c" not in {column.source for column in fit.release.columns}


@pytest.mark.chance(0, "two models of the same draw are compared")
def test_the_model_without_a_party_is_kept_and_predicts_from_the_others_rows(lost, tmp_path):
    fit, frames = lost
    fit.save(tmp_path / "fit.json")
    again = co.load(tmp_path / "fit.json")
    assert again.absent == fit.absent
    here = {name: frame for name, frame in frames.items() if name != "c"}
    assert np.array_equal(again.scores(here), fit.scores(here))
    assert same(again.without("a"), fit.without("a"))


@pytest.mark.chance(0, "a refusal by the parties' names")
def test_parties_elsewhere_score_rows_without_the_one_that_was_lost(lost):
    fit, _ = lost
    _, everybody = tables()
    with pytest.raises(co.InvalidInput, match="'c' was lost to the run of this model"):
        _check_elsewhere(fit, everybody, ())
    _check_elsewhere(fit, replace(everybody, parties={p: everybody.parties[p] for p in "ab"}), ())


@pytest.mark.chance(0, "who sent letters: no drawn figure is compared")
def test_the_bytes_of_a_lost_party_count_as_far_as_they_were_sent(lost):
    fit, _ = lost
    senders = {line[0] for line in fit.communication.lines}
    assert "c" in senders
