"""Claims about scores of parties elsewhere: those of one process, at the label holder and nowhere else, by consent."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli.party import _show
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.data.schema.columns import Numeric
from colonnade.data.schema.table import Schema
from colonnade.errors import ColonnadeError, HeldByParty, InvalidInput, PeerFailed
from colonnade.methods import masked_scores
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.node_setup import Call, protocol_of
from colonnade.network.party_data import PartyData, Scoring, basis_path, part_path
from colonnade.network.party_file import Limits
from colonnade.network.party_run import Request
from colonnade.network.party_service import DIVERGED, OK, PartyService
from colonnade.network.questions import pack, unpack
from colonnade.privacy.accountant import Budget
from colonnade.privacy.events import SCORES, Charge
from colonnade.privacy.ledger import Terms
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.runs.refit import basis
from colonnade.runtime.wire import decode
from tests.helpers.contract import EVERY_METHOD, Case, federation, fitted
from tests.helpers.organisations import COORDINATOR_KEY, SERVER, Organisations, free_port
from tests.helpers.stub_hub import (
    BREAKS,
    REFUSES,
    STOPS,
    Straw,
    run_of,
    straw_hub,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

STAR, GRAPH = EVERY_METHOD["frank-wolfe, least squares"], EVERY_METHOD["graph admm"]
SECURE = EVERY_METHOD["private gram, secure"]
PROBLEM = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))


def kept(folder: Path, kept_: object) -> pl.DataFrame:
    return pl.read_parquet(folder / kept_.holder / "scores" / f"{kept_.run}.parquet")


def scored(straw: Straw, fit: co.Fit, store: Path, run: str = "scores", **more):
    with mock.patch("colonnade.runtime.run_store.new_run_id", return_value=run):
        return co.score(fit, straw.made.federation, engine=straw, store=store, **more)


@pytest.mark.parametrize("case", [STAR, GRAPH, SECURE], ids=["star", "graph", "secure"])
def test_parties_elsewhere_score_as_one_process_does(case: Case, tmp_path):  # noqa: F811
    """To the bit, with the intercept, wherever it is known: at the hub or, on a graph, at the label holder alone."""
    expected = co.score(fitted(case), federation(case))
    made = Organisations.of(federation(case), tmp_path)
    with Straw(made) as straw:
        fit = run_of(straw, case, tmp_path / "hub")
        found = scored(straw, fit, tmp_path / "hub")
        assert (found.holder, found.rows) == (fit.label, 30)
        assert np.array_equal(expected, kept(tmp_path, found)["score"])
        assert [p for p in made.names if (tmp_path / p / "scores").exists()] == [fit.label]
        for service in straw.services.values():
            service.log.verify()
            assert service.ledger.open_runs() == set()


def test_what_the_hub_carries_of_scores_is_sealed(tmp_path):  # noqa: F811
    with Straw(Organisations.of(federation(STAR), tmp_path)) as straw:
        fit = run_of(straw, STAR, tmp_path / "hub")
        straw.wire.clear()
        scored(straw, fit, tmp_path / "hub")
        between = {at: forms for at, forms in straw.wire.items() if "coordinator" not in at[:2]}
        assert {receiver for _, receiver, _ in between} == {fit.label}
        assert {type(decode(body)).__name__ for forms in between.values() for body in forms} == {"Sealed"}
        to_hub = {type(decode(b)).__name__ for at, forms in straw.wire.items() if at[1] == "coordinator" for b in forms}
        assert to_hub == {"RunKey", "Done"}


@pytest.mark.chance(0, "the same fit is compared with itself, and refusals")
def test_every_party_keeps_what_fallbacks_follow_from_and_hears_it_once_before_the_run_ends(tmp_path):  # noqa: F811
    with straw_hub(SECURE, tmp_path, co.Policy(epsilon=2.0, delta=1e-5)) as straw:
        fit = co.fit(
            straw.made.federation, SECURE.problem, SECURE.method, SECURE.privacy, engine=straw, store=tmp_path / "hub"
        )
        assert basis(fit) == basis(co.load(tmp_path / "hub" / "fits" / f"{fit.run}.json"))
        for name in straw.made.names:
            kept = basis_path(tmp_path / name, fit.run)
            assert kept.read_text() == basis(fit)
            for other in ("0" * 64, basis(fit)):  # the run is over
                assert straw.raw(name, "learned", {"run": fit.run, "basis": other}).head == {"code": BREAKS}
            assert straw.raw(name, "learned", {"run": "never", "basis": "0" * 64}).head == {"code": BREAKS}
            assert kept.read_text() == basis(fit)


def test_a_party_that_dies_at_any_question_changes_no_score(tmp_path):  # noqa: F811
    expected = co.score(fitted(STAR), federation(STAR))
    with Straw(Organisations.of(federation(STAR), tmp_path)) as straw:
        fit = run_of(straw, STAR, tmp_path / "hub")
        straw.wire.clear()
        straw.lose = {straw.asked + at: ("before", "after")[at % 2] for at in range(1, 80, 3)}
        begun = straw.asked
        found = scored(straw, fit, tmp_path / "hub")
        assert straw.asked - begun > 60
        assert np.array_equal(expected, kept(tmp_path, found)["score"])
        assert {len(forms) for forms in straw.wire.values()} == {1}


# ------------------------------------------------------------------------------------------------ consent


def test_nobody_scores_without_approval(tmp_path):  # noqa: F811
    with Straw(Organisations.of(federation(STAR), tmp_path)) as straw:
        fit = run_of(straw, STAR, tmp_path / "hub")
        seen: list[Request] = []
        straw.services["party1"].approve = lambda asked: bool(seen.append(asked))
        with pytest.raises(PeerFailed, match="'party1' refused 'consider'"):
            scored(straw, fit, tmp_path / "hub")
        (asked,) = seen
        assert asked.terms.method == "scores of rows by a model"
        assert not asked.new
        assert [charge.what for charge in asked.own] == [
            "its part of the scores, to the label holder, who learns their sum"
        ]
        assert not list(tmp_path.rglob("scores/*"))


@pytest.mark.chance(0, "refusals, and how many rows were scored, whatever their scores")
def test_a_policy_that_keeps_scores_refuses_them(tmp_path):  # noqa: F811
    strict = co.Policy(epsilon=10.0, delta=1e-5)
    made = Organisations.of(federation(SECURE), tmp_path, strict)
    with Straw(made) as straw, mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"):
        fit = co.fit(
            made.federation, SECURE.problem, SECURE.method, SECURE.privacy, engine=straw, store=tmp_path / "hub"
        )
        with pytest.raises(PeerFailed, match=r"refused 'consider'.*write scores = true into its policy") as told:
            scored(straw, fit, tmp_path / "hub")
        assert "epsilon" not in str(told.value)  # scores have none that could be smaller
        made.file = replace(
            made.file,
            members={n: replace(m, policy=replace(strict, scores=True)) for n, m in made.file.members.items()},
        )
        for name in made.names:
            straw.die(name)
        assert scored(straw, fit, tmp_path / "hub", "allowed").rows == 30


@pytest.mark.parametrize(
    ("limits", "passes"),
    [
        (Limits(("MaskedScores",)), True),
        (Limits(("PrivateGram",), math.inf), False),
        (Limits(), False),
        (Limits(("MaskedScores",), models=("other", "run")), True),
        (Limits(("MaskedScores",), models=("other",)), False),
        (Limits(("MaskedScores",), models=()), False),
        (Limits(("MaskedScores",), scores=0), False),
    ],
)
def test_limits_let_scores_pass_by_name(limits, passes):
    assert passes == (limits.objection(asked_to_score()) is None)


def asked_to_score(scored: int = 0, party: str = "lab") -> Request:
    call = Call(MaskedScores("run", 0.0), PROBLEM, None)
    terms = Terms("scores of rows by a model", "", "", "row", "", "")
    plans = {"lab": (Charge(SCORES, 1, "its part"),), "bank": ()}
    return Request("scores", party, terms, call, plans, 30, scored)


def test_limits_count_runs_of_scores_where_something_leaves():
    """One by default: no larger number is right for every table. The label holder gives nothing away."""
    objections = [Limits(("MaskedScores",)).objection(asked_to_score(scored)) for scored in range(3)]
    assert objections == [
        None,
        "runs of scores of these rows reserved before: 1, and scores = 1",
        "runs of scores of these rows reserved before: 2, and scores = 1",
    ]
    three = Limits(("MaskedScores",), scores=3)
    assert [three.objection(asked_to_score(scored)) is None for scored in range(5)] == [True, True, True, False, False]
    assert three.objection(asked_to_score(99, "bank")) is None


@pytest.mark.parametrize(("scored", "says"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_an_operator_is_told_how_often_the_rows_were_scored_before(scored, says, capsys):
    _show(asked_to_score(scored), Budget(None, None, 1, 0.0, 0.0))
    assert f"before    {says} of scores of these rows" in capsys.readouterr().err


@pytest.mark.parametrize(("new", "says"), [(True, "new ones"), (False, "that models may have been learned from")])
def test_an_operator_is_told_whether_the_rows_to_be_scored_are_new(new, says, capsys):
    _show(replace(asked_to_score(), new=new), Budget(None, None, 1, 0.0, 0.0))
    shown = capsys.readouterr().err
    assert "method    scores of rows by a model" in shown
    assert re.search(rf"^of rows +{says} *$", shown, re.MULTILINE)
    assert new == ("new" in shown)


class Careful(Organisations):
    """Parties whose policy decides, also when they are started again."""

    limits = Limits(("DistributedFrankWolfe", "MaskedScores"), math.inf, scores=2)

    def service(self, name, approve=None):
        return super().service(name, self.limits)


def careful(folder: Path) -> Straw:
    return Straw(Careful(**vars(Organisations.of(federation(STAR), folder))))


def counts(straw: Straw) -> set[int]:
    return {service.ledger.score_runs() for service in straw.services.values() if service.name != "labels"}


def test_no_more_runs_of_scores_pass_a_policy_than_it_says(tmp_path):  # noqa: F811
    """Refused before anything is reserved, wherever the party's process comes from; the label holder is not stopped."""
    with careful(tmp_path) as straw:
        fit = run_of(straw, STAR, tmp_path / "hub")
        assert counts(straw) == {0}
        for run in ("first", "second"):
            scored(straw, fit, tmp_path / "hub", run)
            straw.die("party0")
        assert counts(straw) == {2}
        rows = {name: service.log.length() for name, service in straw.services.items()}
        letters = set(straw.wire)
        for name in straw.made.names:
            answer = straw.raw(name, "reserve", proposal("run", "third")).head["code"]
            assert answer == (OK if name == "labels" else REFUSES)
        assert rows | {"labels": 0} == {n: o.log.length() for n, o in straw.services.items()} | {"labels": 0}
        assert all("third" not in dict(o.run_store.begun()) for n, o in straw.services.items() if n != "labels")
        assert letters == set(straw.wire)
        with pytest.raises(PeerFailed, match=r"raise scores \(how many runs of scores pass\)"):
            scored(straw, fit, tmp_path / "hub", "fourth")
        assert counts(straw) == {2}


def test_no_more_runs_of_scores_pass_a_policy_though_many_were_considered_before(tmp_path):  # noqa: F811
    """Each of them alone was within the limit when the party said that it would take part."""
    with careful(tmp_path) as straw:
        run_of(straw, STAR, tmp_path / "hub")
        asked = [proposal("run", f"scores{number}") for number in range(4)]
        assert [straw.raw("party0", "consider", one).head["code"] for one in asked] == [OK] * 4
        assert counts(straw) == {0}
        assert [straw.raw("party0", "reserve", one).head["code"] for one in asked] == [OK, OK, REFUSES, REFUSES]
        assert straw.services["party0"].ledger.score_runs() == 2


def test_no_more_runs_of_scores_pass_a_policy_though_two_processes_share_a_store(tmp_path):  # noqa: F811
    """The second reserves while the first has found the run within the limit, and has not reserved it yet."""
    one = replace(Careful.limits, scores=1)
    with careful(tmp_path) as straw, contextlib.closing(straw.made.service("party0")) as second:
        run_of(straw, STAR, tmp_path / "hub")
        first, second.approve, codes = straw.services["party0"], one, []

        def slow(request: Request) -> bool:
            said = one(request)
            answer = second.answer(pack({"what": "reserve", **proposal("run", "second")}))
            codes.append(unpack(answer).head["code"])
            return said

        first.approve = slow
        assert straw.raw("party0", "reserve", proposal("run", "first")).head["code"] == REFUSES
        assert codes == [OK]
        assert first.ledger.score_runs() == 1
        assert "first" not in dict(first.run_store.begun())


def test_a_ledger_whose_plans_cannot_be_read_is_called_damaged(tmp_path):  # noqa: F811
    """The runs of scores are counted before the chain of rows is walked."""
    with careful(tmp_path) as straw:
        run_of(straw, STAR, tmp_path / "hub")
        straw.services["party0"].log._db.execute("update log set body = x'00ff' where kind = 'open'")
        assert straw.raw("party0", "reserve", proposal("run")).head == {"code": DIVERGED}


def test_a_run_of_scores_that_is_resumed_counts_once(tmp_path):  # noqa: F811
    """However often a party's process dies in it, and from wherever it goes on."""
    with careful(tmp_path) as straw:
        fit = run_of(straw, STAR, tmp_path / "hub")
        scored(straw, fit, tmp_path / "hub", "first")
        straw.lose = {straw.asked + at: ("before", "after")[at % 2] for at in range(1, 80, 3)}
        found = scored(straw, fit, tmp_path / "hub", "second")  # the last that the policy lets pass
        assert np.array_equal(co.score(fitted(STAR), federation(STAR)), kept(tmp_path, found)["score"])
        assert counts(straw) == {2}


def _reserve_and_be_killed(made: Careful) -> None:
    answer = made.service("party0").answer(pack({"what": "reserve", **proposal("run", "second")}))
    if unpack(answer).head["code"] == OK:  # or the process ends as if all were well, and the test fails
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_run_of_scores_counts_though_the_party_is_killed_when_it_has_reserved(tmp_path):  # noqa: F811
    with careful(tmp_path) as straw:
        fit = run_of(straw, STAR, tmp_path / "hub")
        scored(straw, fit, tmp_path / "hub", "first")
        made = straw.made
    child = SERVER.Process(target=_reserve_and_be_killed, args=(made,))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    with Straw(made) as straw:
        assert straw.services["party0"].ledger.score_runs() == 2
        assert straw.raw("party0", "reserve", proposal("run", "third")).head["code"] == REFUSES
        assert straw.raw("party0", "reserve", proposal("run", "second")).head["code"] == OK  # it goes on


@pytest.mark.parametrize("how", ["failed/PeerFailed", "refused/PolicyRefused", "finished"])
def test_a_run_of_scores_counts_whatever_the_hub_says_of_its_end(how, tmp_path):  # noqa: F811
    """Its parts may have left before, and a hub that could undo the count would have as many as it likes."""
    with careful(tmp_path) as straw:
        run_of(straw, STAR, tmp_path / "hub")
        for run in ("first", "second"):
            assert straw.raw("party0", "reserve", proposal("run", run)).head["code"] == OK
            assert straw.raw("party0", "over", {"run": run, "how": how}).head["code"] == OK
        assert straw.raw("party0", "settle", {"over": {"first": how}}).head["code"] == OK
        straw.die("party0")
        assert straw.raw("party0", "reserve", proposal("run", "third")).head["code"] == REFUSES


def test_a_pinned_list_of_models_keeps_others_from_scoring(tmp_path):  # noqa: F811
    """A model is the run that made it, and its coefficients are what this party kept of that run."""
    with careful(tmp_path) as straw:
        for run in ("run", "other"):
            run_of(straw, STAR, tmp_path / "hub", run)
        straw.services["party0"].approve = replace(Careful.limits, models=("run",))
        assert straw.raw("party0", "reserve", proposal("other", "first")).head["code"] == REFUSES
        assert straw.raw("party0", "reserve", proposal("run", "second")).head["code"] == OK


# ------------------------------------------------------------------------------------------------ a hub that asks otherwise


def proposal(model: object, run: str = "scores", **more) -> dict:
    call = Call(MaskedScores(model, 0.0), STAR.problem, None).to_json()  # type: ignore[arg-type]
    return {"run": run, "call": call, "code": protocol_of(MaskedScores("", 0.0)), "session": "", **more}


def test_a_model_is_a_run_that_the_party_has_a_part_of(tmp_path):  # noqa: F811
    """The hub names it, and the name becomes a path."""
    with Straw(Organisations.of(federation(STAR), tmp_path)) as straw:
        run_of(straw, STAR, tmp_path / "hub")
        aside = tmp_path / "party0" / "fits" / "x"
        aside.mkdir()
        (aside / "run.part.json").write_bytes((tmp_path / "party0" / "fits" / "run.part.json").read_bytes())
        rows = straw.services["party0"].log.length()
        for model in ("another", "x/run", "../fits/run", "../../party1/fits/run", "", "\x00"):
            assert straw.raw("party0", "reserve", proposal(model)).head == {"code": STOPS}
        assert straw.raw("party0", "reserve", proposal(["run"])).head["code"] == STOPS
        assert rows == straw.services["party0"].log.length()
        assert straw.raw("party0", "reserve", proposal("run")).head["code"] == OK


def test_the_coefficients_are_the_partys_own(tmp_path):  # noqa: F811
    """A hub that could choose them would read columns off the scores, with the label holder's help."""
    call = Call(MaskedScores("run", 0.5, {"party0": np.ones(3)}), STAR.problem, None)
    assert Call.from_json(call.to_json()).method == MaskedScores("run", 0.5)
    more = proposal("run")
    more["call"] = more["call"].replace('"scores":', '"coefficients": {}, "scores":')
    with Straw(Organisations.of(federation(STAR), tmp_path)) as straw:
        assert straw.raw("party0", "reserve", more).head == {"code": STOPS}


def test_parties_that_are_told_of_different_models_score_nothing(tmp_path):  # noqa: F811
    """The sum by one model, and the sum with one party's part by another: the difference would be that party's alone."""
    other = replace(STAR, problem=co.Problem(co.LeastSquares(), constraint=co.L1Ball(0.3)))
    with Straw(Organisations.of(federation(STAR), tmp_path)) as straw:
        fit = run_of(straw, STAR, tmp_path / "hub")
        run_of(straw, other, tmp_path / "hub", "other")
        ask = straw.ask

        def told(party, what, head=None, blobs=(), *_):
            if (party, what) == ("party1", "reserve"):
                head = {**head, "call": head["call"].replace('"run"', '"other"')}
            return ask(party, what, head, blobs)

        straw.ask = told
        straw.wire.clear()
        with pytest.raises(ColonnadeError):
            scored(straw, fit, tmp_path / "hub")
        assert not list(tmp_path.rglob("scores/*"))
        assert {"Failed", "RunKey"} == {type(decode(body)).__name__ for forms in straw.wire.values() for body in forms}


def test_sums_of_32_of_the_largest_parts_fit_into_the_ring():
    part = masked_scores.whole(np.array([np.inf, -np.inf]))
    total = np.zeros_like(part)
    for _ in range(32):
        total = masked_scores.RING.add(total, part)
    largest = 32 * masked_scores.LARGEST
    assert [largest, -largest] == (masked_scores.RING.signed(total) * masked_scores.FRACTION).tolist()


def test_a_part_of_other_columns_scores_nothing(tmp_path):  # noqa: F811
    with Straw(Organisations.of(federation(STAR), tmp_path)) as straw:
        run_of(straw, STAR, tmp_path / "hub")
        path = tmp_path / "party0" / "fits" / "run.part.json"
        for change in (('"coefficients": [', '"coefficients": [\n  1.0,'), ('"party0"', '"party1"'), ("part", "whole")):
            text = path.read_text()
            assert change[0] in text
            path.write_text(text.replace(*change))
            assert straw.raw("party0", "reserve", proposal("run")).head == {"code": STOPS}
            path.write_text(text)


@pytest.mark.parametrize("brought", [("b", "a"), ("a", "c"), ("a", "b", "c")])
def test_columns_in_another_order_or_of_other_names_are_not_scored(brought, tmp_path):  # noqa: F811
    def equipped(names: tuple[str, ...]) -> MaskedScores:
        schema = Schema([Numeric(name, 0.0, 1.0) for name in names])
        party_data = mock.Mock(member=mock.Mock(schema=schema, width=len(names)), models=None)
        party_data.name = "party0"
        return Scoring(party_data, tmp_path).equip(MaskedScores("run", 0.5))

    part = {"format": "colonnade part", "version": 1, "party": "party0", "features": ["a", "b"], "intercept": None}
    part_path(tmp_path, "run").parent.mkdir()
    part_path(tmp_path, "run").write_text(json.dumps(part | {"coefficients": [1.0, 2.0]}))
    assert equipped(("a", "b")).coefficients["party0"].tolist() == [1.0, 2.0]
    with pytest.raises(InvalidInput, match="'party0' brings other columns than run"):
        equipped(brought)


# ------------------------------------------------------------------------------------------------ new rows


def keyed(folder: Path, rows: dict[str, range], seed: int) -> Organisations:
    made = Organisations(folder, None, {}, {}, {})  # type: ignore[arg-type]
    members = {}
    for place, (name, held) in enumerate(rows.items()):
        public, made.keys[name] = new_key()
        policy = co.Policy(exact=True, least=3)
        members[name] = Member(Schema((Numeric(f"{name}0", -3.0, 3.0), Numeric(f"{name}1", -3.0, 3.0))), policy, public)
        draw = np.random.default_rng([seed, place])
        columns = {f"{name}{i}": draw.uniform(-3, 3, len(held)) for i in range(2)}
        made.tables[name] = pl.DataFrame({"key": list(held), **columns})
    made.file = FederationFile(members, "key", ("bank", "late"), coordinator=COORDINATOR_KEY)
    return made


class New(Organisations):
    """Organisations with new rows, and the store in which each has its part of the model."""

    def service(self, name, approve=lambda _: True):
        models = self.folder.parent / "learning" / name
        party_data = PartyData(self.file, name, self.tables[name], models=models)
        return PartyService(party_data, self.folder / name, self.keys[name], approve)


def test_new_rows_are_scored_by_a_model_from_another_store_and_need_no_labels(tmp_path):  # noqa: F811
    learning = keyed(tmp_path / "learning", {"bank": range(100), "lab": range(5, 105)}, 1)
    bank = learning.tables["bank"]
    learning.tables["bank"] = bank.with_columns(late=pl.col("bank0") - pl.col("bank1"))
    with Straw(learning) as straw:
        fit = run_of(straw, Case(co.SharingADMM(rounds=20), PROBLEM), tmp_path / "learning" / "hub")
    new = keyed(tmp_path / "new", {"bank": range(100, 112), "lab": range(104, 120)}, 2)
    new = New(new.folder, new.file, new.keys, new.tables, {})
    with Straw(new) as straw:
        asked: list[Request] = []
        straw.services["lab"].approve = lambda request: not asked.append(request)
        found = scored(straw, fit, tmp_path / "new" / "hub")
        assert [request.new for request in asked] == [True]
        frame = kept(tmp_path / "new", found)
        assert sorted(frame["key"]) == list(range(104, 112))
        with pytest.raises(PeerFailed, match="refused 'consider'"):  # and nothing is learned from them
            run_of(straw, Case(co.SharingADMM(rounds=2), PROBLEM), tmp_path / "new" / "hub", "learn")
    joined = new.tables["bank"].join(new.tables["lab"], on="key")
    x = {name: learning.part(name)["coefficients"] for name in new.names}
    encoded = {name: new.file.members[name].schema.encode(joined).matrix for name in x}
    scores = sum(encoded[name] @ np.array(x[name]) for name in x) + fit.intercept
    expected = dict(zip(joined["key"], scores, strict=True))
    assert max(abs(expected[key] - score) for key, score in frame.iter_rows()) < 2 * 2.0**-32 + 1e-12


def test_parties_elsewhere_bend_their_columns_as_one_process_does_and_score_new_rows_with_the_same_curves(tmp_path):  # noqa: F811
    """Each from its own copy of the federation file; its part of the model has a coefficient for every hat."""
    learning = keyed(tmp_path / "learning", {"bank": range(100), "lab": range(5, 105)}, 1)
    bank = learning.tables["bank"]
    learning.tables["bank"] = bank.with_columns(late=(pl.col("bank0").abs() > 1.5).cast(pl.Int64))
    privacy = co.Privacy(60.0, 1e-6, trust="secure", row_norm=2.0, feature_bound=1.0)
    case = Case(co.PrivateGram(), co.Problem(co.Logistic(), intercept=True), privacy)
    asked: list[Request] = []
    with Straw(learning) as straw:
        straw.services["lab"].approve = lambda request: not asked.append(request)
        fit = run_of(straw, case, tmp_path / "learning" / "hub")
    assert fit.depth > 0
    (request,) = asked
    hats = 2**fit.depth - 1
    assert request.curves == f"curves of depth {fit.depth}, 4 in all: {4 + 4 * hats} columns instead of 4"
    part = learning.part("lab")
    assert len(part["coefficients"]) == len(part["features"]) == 2 + 2 * hats
    new = keyed(tmp_path / "new", {"bank": range(100, 112), "lab": range(104, 120)}, 2)
    new = New(new.folder, new.file, new.keys, new.tables, {})
    with Straw(new) as straw:
        frame = kept(tmp_path / "new", scored(straw, fit, tmp_path / "new" / "hub"))
    joined = new.tables["bank"].join(new.tables["lab"], on="key")
    schemas = {name: new.file.members[name].schema.with_curve_depth(fit.depth) for name in new.names}
    x = {name: np.array(learning.part(name)["coefficients"]) for name in new.names}
    scores = sum(schemas[name].encode(joined).matrix @ x[name] for name in x) + fit.intercept
    expected = dict(zip(joined["key"], scores, strict=True))
    assert max(abs(expected[key] - score) for key, score in frame.iter_rows()) < 2 * 2.0**-32 + 1e-12


def test_the_rows_of_parties_elsewhere_are_scored_by_the_protocol_or_not_at_all(tmp_path):  # noqa: F811
    """Their blocks are empty here: adding up what is at hand would be the intercept, for every row."""
    fit, away = fitted(STAR), Organisations.of(federation(STAR), tmp_path).federation
    for use in (fit.scores, fit.predict):
        with pytest.raises(HeldByParty, match=r"co\.score\(fit, federation, engine=co\.Grpc"):
            use(away)
    with pytest.raises(InvalidInput, match=r"run elsewhere: pass engine=co\.Grpc"):
        co.score(fit, away)


def test_the_federation_file_must_be_of_the_models_parties(tmp_path):  # noqa: F811
    fit, made = fitted(STAR), Organisations.of(federation(STAR), tmp_path)
    file, members = made.file, made.file.members
    fewer = {name: member for name, member in members.items() if name != "party1"}
    wider = {**members, "party0": replace(members["party0"], columns=9)}
    for changed, without, says in (
        (replace(file, label=("party0", "y")), (), "scores go to 'labels'"),
        (replace(file, members=fewer), (), "not in the federation file: party1; without= names none"),
        (file, ("party1",), "without= names party1"),
        (replace(file, members=wider), (), "brings 9 columns"),
    ):
        with pytest.raises(InvalidInput, match=says):
            co.score(fit, co.Federation.elsewhere(changed), without=without, engine=mock.Mock())


def test_a_party_that_is_not_in_the_file_is_left_out_by_name(tmp_path):  # noqa: F811
    fed = federation(STAR)
    with Straw(Organisations.of(fed, tmp_path)) as straw:
        fit = run_of(straw, STAR, tmp_path / "hub")
        made = straw.made
        members = {name: member for name, member in made.file.members.items() if name != "party1"}
        made.file = replace(made.file, members=members)
        for name in members:
            straw.die(name)
        found = scored(straw, fit, tmp_path / "hub", without=["party1"])
        assert np.array_equal(
            co.score(fitted(STAR), replace(fed, parties={n: fed.parties[n] for n in members}), without=["party1"]),
            kept(tmp_path, found)["score"],
        )


# ------------------------------------------------------------------------------------------------ processes and a network


def test_processes_on_a_network_score_as_one_process_does_at_the_word_of_a_coordinator(tmp_path):  # noqa: F811
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")
    expected = co.score(fitted(SECURE), federation(SECURE))
    made, port = Organisations.of(federation(SECURE), tmp_path), free_port()
    made.file.save(tmp_path / "federation.toml")
    files = [str(tmp_path / "federation.toml"), "--fit", str(tmp_path / "fit.json"), "--certs", str(tmp_path / "certs")]
    where = ["--store", str(tmp_path / "hub"), "--listen", f"127.0.0.1:{port}", "--json"]
    with made.at_work(port):
        with made.hub(port) as hub, mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"):
            options = {"privacy": SECURE.privacy, "noise": SeededNoise(1), "engine": hub, "store": tmp_path / "hub"}
            co.fit(made.federation, SECURE.problem, SECURE.method, **options).save(tmp_path / "fit.json")
        with mock.patch("colonnade.cli.terminal.to_stderr"):  # it would set up the logs of all tests that follow
            done = CliRunner().invoke(app, ["score", "rows", *files, *where])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["holder"], told["rows"]) == ("labels", 30)
    assert np.array_equal(expected, pl.read_parquet(tmp_path / "labels" / "scores" / f"{told['run']}.parquet")["score"])


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (["17", "-3", "0"], [17, -3, 0]),
        (["17", "007", "0"], ["17", "007", "0"]),
        (["17", "x", "0"], ["17", "x", "0"]),
        (["17", str(2**63), "0"], ["17", str(2**63), "0"]),  # over 64 bits
        ([17, -3, 0], [17, -3, 0]),
    ],
)
def test_keys_beside_scores_are_whole_numbers_where_all_of_the_table_are(tmp_path, written, kept):  # noqa: F811
    class Data:
        def keys_in_order(self, agreement):
            return pl.Series("number", written)

    (tmp_path / "scores").mkdir()
    Scoring.keep(SimpleNamespace(data=Data(), store=tmp_path), "run", np.zeros(3), object())
    assert pl.read_parquet(tmp_path / "scores" / "run.parquet")["number"].to_list() == kept
