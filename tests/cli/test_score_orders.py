"""`colonnade score`: from a fit to an order that all have approved, and scores as the fit itself gives them."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.data import row_order
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.data.schema.columns import Numeric
from colonnade.data.schema.table import Schema
from colonnade.network.party_data import basis_path, part_path, rows_path
from colonnade.network.party_file import PartyFile
from colonnade.network.score_order import Fallback, Order
from colonnade.runs.refit import basis, check_fallbacks
from tests.helpers.standing_orders import HOLDER, Consortium, Wired

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

NAMES, ROWS = (HOLDER, "lab", "shop"), 40


def call(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["score", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three organisations on disk, and a fit whose release has fallbacks in it."""
    folder, draw = tmp_path_factory.mktemp("order"), np.random.default_rng(3)
    schemas = {name: Schema(tuple(Numeric(f"{name}{k}", -3.0, 3.0) for k in range(2))) for name in NAMES}
    frames, members = {}, {}
    for name in NAMES:
        cells = {f"{name}{k}": draw.uniform(-3, 3, ROWS) for k in range(2)}
        frames[name] = pl.DataFrame({"key": np.arange(ROWS), **cells})
    labels = frames[HOLDER]["bank0"] - frames["lab"]["lab1"] + 0.5 * frames["shop"]["shop0"]
    frames[HOLDER] = frames[HOLDER].with_columns(late=labels)
    fed = co.Federation.from_frames(frames, on="key", label=(HOLDER, "late"), schemas=schemas)
    fit = co.fit(fed, co.Problem(co.LeastSquares(), intercept=True), co.PrivateGram(purpose="inference"))
    fit.save(folder / "fit.json")
    for name in NAMES:
        public, private = new_key()
        (folder / f"{name}.key").write_text(private.hex())
        members[name] = Member(schemas[name], co.Policy(scores=True, least=3), public)
        frames[name].write_parquet(folder / f"{name}.parquet")
        (folder / name / "fits").mkdir(parents=True)
        part = {"format": "colonnade part", "version": 1, "run": fit.run, "party": name, "intercept": None}
        part |= {"features": list(schemas[name].features), "coefficients": fit.coefficients[name].tolist()}
        part_path(folder / name, fit.run).write_text(json.dumps(part))
        learned = row_order.digests(pl.Series([0, 1]), bytes(32), "training")
        rows_path(folder / name, fit.run).write_bytes(bytes(32) + learned.tobytes())
        basis_path(folder / name, fit.run).write_text(basis(fit))
        text = f'version = 1\nname = "{name}"\nfederation = "federation.toml"\nhub = "localhost:1"\nstore = "{name}"\n'
        text += f'key = "{name}.key"\ncerts = "certs"\nmodels = "{name}"\n[data]\nsource = "{name}.parquet"\n'
        (folder / f"{name}.toml").write_text(text)
    FederationFile(members, "key", (HOLDER, "late")).save(folder / "federation.toml")
    given = ["--rows-a-day", 50, "--until", "2999-12-31", "--missing", "shop", "--output", folder / "order.json"]
    said = call("order", folder / "federation.toml", "--fit", folder / "fit.json", *given)
    assert "without shop: the part of lab itself" in said
    assert "nobody yet" in said
    for place, name in enumerate(NAMES, 1):
        words = (folder / "order.json", folder / f"{name}.toml", "--yes")
        assert "give the fit that they were solved from" in call("approve", *words, code=1)
        said = call("approve", *words, "--fit", folder / "fit.json")
        assert ("give" in said, "every party has approved" in said) == (True, place == 3)
    return folder


def test_an_order_that_all_approved_scores_as_the_fit_does_and_its_fallback_as_the_fit_without_a_party(founded):
    settings = {name: PartyFile.load(founded / f"{name}.toml") for name in NAMES}
    order, fit = Order.load(founded / "order.json"), co.load(founded / "fit.json")
    tables = {name: pl.read_parquet(founded / f"{name}.parquet") for name in NAMES}
    keys = {name: one.identity() for name, one in settings.items()}
    file = settings[HOLDER].federation_file
    made = Consortium(founded, file, keys, {n: t.drop("late", strict=False) for n, t in tables.items()}, {}, order)
    whole, less = fit.scores(tables), fit.without("shop").scores({n: tables[n] for n in NAMES[:2]})
    with Wired(made) as wired:
        for key in (2, 17, 39):
            assert wired.ask(key=key)[1]["score"] == pytest.approx(whole[key], abs=1e-8)
        wired.there = {"lab"}
        status, found = wired.ask(key=17)
        assert (status, found["without"]) == (200, ["shop"])
        assert found["score"] == pytest.approx(less[17], abs=1e-8)
        assert wired.ask(key=0)[0] == 403
    lines = list(csv.DictReader(io.StringIO(call("log", founded / "order.json", founded / "lab.toml"))))
    assert [(line["outcome"], line["model"]) for line in lines] == [("ok", "0")] * 3 + [("ok", "1")]
    listed = json.loads(call("log", founded / "order.json", founded / f"{HOLDER}.toml", "--json"))
    assert [bytes.fromhex(line["row"]) for line in listed] == [b"i2", b"i17", b"i39", b"i17", b"i0"]


def test_a_party_takes_no_fallback_but_what_follows_from_the_release_that_it_was_told_of(founded, tmp_path):
    """Whoever writes the order, or gives the fit along, chooses no coefficient: not by the release, nor by the problem."""
    order, fit, lab = Order.load(founded / "order.json"), co.load(founded / "fit.json"), founded / "lab"
    check_fallbacks(order, fit, lab, "lab")
    (true,) = order.fallbacks
    reads = {name: tuple(0.0 for _ in part) for name, part in true.coefficients.items()} | {"lab": (1.0, 0.0)}
    changes = [
        replace(true, coefficients=reads),
        replace(true, intercept=true.intercept + 1e-3),
        Fallback(("lab",), 0.0, {}),
    ]
    for change in changes:
        with pytest.raises(co.InvalidInput, match="is not what follows from the release"):
            check_fallbacks(replace(order, fallbacks=(change,)), fit, lab, "lab")
    heavy = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e3), intercept=True)
    forged = replace(fit.release, matrix=fit.release.matrix * 2.0)
    for other in (replace(fit, problem=heavy), replace(fit, released=forged), replace(fit, released=None)):
        with pytest.raises(co.InvalidInput, match="is not what 'lab' was told"):
            check_fallbacks(order, other, lab, "lab")
    with pytest.raises(co.InvalidInput, match="was not told what fallbacks"):
        check_fallbacks(order, fit, tmp_path, "lab")
    with pytest.raises(co.InvalidInput, match="Give that fit"):
        check_fallbacks(order, replace(fit, run="20260101T000000-other"), lab, "lab")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--until", "soon"], "until must be a day, as in until"),
        (["--until", "2999-12-31", "--missing", "nobody"], "nobody"),
        (["--until", "2999-12-31", "--rows-a-day", 10**12], "rows_a_day must be a whole number from 1"),
    ],
)
def test_an_order_that_cannot_be_is_refused_and_not_written(founded, tmp_path, words, says):
    given = ["--fit", founded / "fit.json", "--rows-a-day", 5, "--output", tmp_path / "order.json", *words]
    assert says in call("order", founded / "federation.toml", *given, code=1)
    assert not (tmp_path / "order.json").exists()


def test_an_operator_is_asked_and_a_no_approves_nothing(founded, tmp_path):
    order = Order.load(founded / "order.json")
    asked = Order(**{**vars(order), "id": "20260303T000000-asked", "approvals": {}})
    asked.save(tmp_path / "order.json")
    words = [
        "score",
        "approve",
        str(tmp_path / "order.json"),
        str(founded / "lab.toml"),
        "--fit",
        str(founded / "fit.json"),
    ]
    done = CliRunner().invoke(app, words, input="n\n")
    assert done.exit_code == 1
    assert "bank learns" in done.stderr
    assert Order.load(tmp_path / "order.json").approvals == {}
    with closing(PartyFile.load(founded / "lab.toml").service(lambda _: True)) as service:
        assert asked.run not in service.ledger.open_runs()


def test_the_wrong_party_and_an_open_door_are_refused(founded):
    order = founded / "order.json"
    assert "holds the labels" in call("part", order, founded / f"{HOLDER}.toml", "--holder", "localhost:1", code=1)
    said = call("serve", order, founded / f"{HOLDER}.toml", "--listen", "localhost:1", "--host", "0.0.0.0", code=1)
    assert "without --mtls would let anybody ask" in said
    assert "no standing order" in call("log", founded / "fit.json", founded / "lab.toml", code=1)
