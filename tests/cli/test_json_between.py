"""What `colonnade coordinator run` and `colonnade party show` print as JSON, worked out again from letters and data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.network.questions import letters_in
from tests.helpers.organisations import Organisations
from tests.helpers.stub_hub import (
    Straw,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")
RADIUS, ROUNDS = 1.5, 2  # a third reaches the optimum, up to rounding
JOB = f"""
[problem]
loss = "Logistic"
constraint = {{ type = "L1Ball", radius = {RADIUS} }}
[method]
type = "DistributedFrankWolfe"
rounds = {ROUNDS}
tolerance = 0.0
"""


class Counted(Straw):
    """The hub, with every letter written down in both directions: a letter is its sender, receiver and number."""

    def answer_to(self, asked):
        if asked.what == "turn":
            self.count(letters_in(asked.head["letters"], asked.head["run"]))
        answer = super().answer_to(asked)
        if asked.what == "turn":
            self.count(letters_in(answer.result().letters, asked.head["run"]))
        return answer

    def count(self, letters):
        seen = self.__dict__.setdefault("sizes", {})
        seen |= {(x.sender, x.receiver, x.sequence): len(x.body) for x in letters}


def printed(*words: object) -> dict:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_coordinator_prints_what_went_over_the_wires_and_a_party_its_own_coefficients(tmp_path: Path, monkeypatch):  # noqa: F811
    rng = np.random.default_rng(8)
    X = rng.normal(size=(70, 6))
    y = np.where(X @ np.array([1.0, -1, 0, 0.5, 0, 0]) + 0.5 * rng.normal(size=70) > 0, 1.0, -1.0)
    fed = co.Federation.split(X, y, {"bank": [0, 1], "lab": [2, 3, 4], "shop": [5]}, label="lab")
    made = Organisations.of(fed, tmp_path)
    made.file.save(tmp_path / "federation.toml")
    (tmp_path / "job.toml").write_text(JOB)
    hub = Counted(made)
    monkeypatch.setattr("colonnade.Grpc", lambda *_, **__: hub)
    monkeypatch.setattr("colonnade.cli.terminal.to_stderr", lambda *_: None)  # it would last beyond this test
    places = ["--certs", tmp_path / "certs", "--store", tmp_path / "hub", "--output", tmp_path / "fit.json"]
    places += ["--listen", "127.0.0.1:0"]
    told = printed("coordinator", "run", tmp_path / "federation.toml", "--job", tmp_path / "job.toml", *places)
    assert set(told) == {"run", "status", "privacy", "sent", "fit"}
    assert told["sent"] == f"{sum(hub.sizes.values()):,} bytes in {len(hub.sizes):,} messages"
    assert told["fit"] == str(tmp_path / "fit.json")
    assert told["status"] == "all rounds done, as many as were asked for: the tolerance was 0"
    assert told["privacy"].startswith("Not private: exact values left the parties")
    x = {}
    for name in made.names:
        monkeypatch.setattr(
            "colonnade.network.party_file.PartyFile.load",
            lambda _, name=name: type("F", (), {"name": name, "store": tmp_path / name}),
        )
        shown = printed("party", "show", tmp_path / f"{name}.toml", told["run"])
        x[name] = np.array(shown["coefficients"])
    joined = np.concatenate([x[name] for name in ("bank", "lab", "shop")])
    scores = X @ joined
    gradient = X.T @ (-y / (1.0 + np.exp(y * scores)) / 70)
    saved = co.load(tmp_path / "fit.json")
    assert saved.objective == pytest.approx(np.mean(np.log1p(np.exp(-y * scores))), rel=1e-9)
    assert saved.gap == pytest.approx(joined @ gradient + RADIUS * np.abs(gradient).max(), rel=1e-9)
    assert np.abs(joined).sum() <= RADIUS * (1 + 1e-12)
