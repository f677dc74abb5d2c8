"""Claims about reading a saved fit: whatever stands in the file, it is a fit that can be shown and used, or one clear error."""

from __future__ import annotations

import hashlib
import json
import math
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.problem import Huber
from colonnade.runs.fit_file import to_plain
from colonnade.runs.release_file import FIT_FORMAT as FORMAT
from tests.helpers.contract import EVERY_METHOD, fitted

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

KINDS = ["frank-wolfe, logistic, simplex, intercept", "private gram, secure", "adaboost", "kernel svm"]
BAD = (
    *(None, True, -1, 10**400, 2**60, float("nan"), float("inf"), "x", [], {}, [[1e308] * 3], {"a": "b"}, [None]),
    *({"party0": {"size": 10**12, "places": [], "values": []}}, {"type": "Topology", "size": 10**9, "edges": []}),
    {"party0": {"size": 3, "places": [0, 7], "values": [1.0, 2.0]}},
)


def write(path: Path, body: str, version: int = FORMAT) -> Path:
    head = {"format": "colonnade fit", "version": version, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    path.write_text(json.dumps(head) + "\n" + body)
    return path


def tried(path: Path) -> str:
    """What becomes of a file: an error of ours, or a fit that can be looked at from all sides."""
    try:
        fit = co.load(path)
    except co.InvalidInput as error:
        said = str(error)
    else:
        _ = repr(fit), str(fit.privacy), fit.history, fit.l1_norm, fit.coreset, fit.communication.table()
        fit.report(path.with_suffix(".html"))
        if fit.released is not None:
            _ = repr(fit.release), fit.release.refusal, fit.release.shortened, fit.release.names
        return "read"
    assert str(path) in said
    assert "Save the fit again, or restore a copy." in said
    return "refused"


@pytest.fixture(scope="module")
def plain() -> dict[str, dict[str, Any]]:
    return {kind: json.loads(json.dumps(to_plain(fitted(EVERY_METHOD[kind])))) for kind in KINDS}


@dataclass(frozen=True)
class Own(Huber):
    """A loss that is no public name."""


@dataclass(frozen=True)
class OwnColumn(co.Binary):
    """A column kind that is none."""


def asked(loss: Huber, kind: type[co.Binary]) -> tuple[co.Federation, co.Problem]:
    frame = pl.DataFrame({"id": range(4), "a": [0, 1, 1, 0], "y": [0.0, 1.0, 2.0, 0.0]})
    schemas = {"one": co.Schema((kind("a"),))}
    fed = co.Federation.from_frames({"one": frame}, on="id", label=("one", "y"), schemas=schemas)
    return fed, co.Problem(loss, penalty=co.Ridge(0.1))


@pytest.mark.parametrize(
    ("loss", "kind", "name"), [(Own(1.0), co.Binary, "Own"), (co.Huber(1.0), OwnColumn, "OwnColumn")]
)
def test_what_nobody_could_read_back_is_neither_kept_in_a_store_nor_saved(loss, kind, name, tmp_path):
    call = asked(loss, kind)
    with pytest.raises(co.InvalidInput, match=rf"{name}.*public name.*CONTRIBUTING.md"):
        co.fit(*call, store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    fit = co.fit(*call)  # in one process it may be anything
    with pytest.raises(co.InvalidInput, match=rf"{name}.*public name.*CONTRIBUTING.md"):
        fit.save(tmp_path / "fit.json")
    assert not (tmp_path / "fit.json").exists()


def test_numpys_true_is_saved_as_a_problem_takes_it(tmp_path):
    fed, problem = asked(co.Huber(1.0), co.Binary)
    co.fit(fed, replace(problem, intercept=np.True_)).save(tmp_path / "fit.json")
    assert co.load(tmp_path / "fit.json").problem == replace(problem, intercept=True)


def test_what_was_saved_is_read(plain, tmp_path):
    for kind, raw in plain.items():
        path = write(tmp_path / "fit.json", json.dumps(raw, indent=1))
        assert tried(path) == "read", kind
        assert json.loads(json.dumps(to_plain(co.load(path)))) == raw
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))  # as some programs copy a text
        assert tried(path) == "read", kind


def first(raw: dict[str, Any]) -> str:
    return next(iter(raw["coefficients"]))


def vector(size: int = 0, **given: Any) -> Callable[[dict[str, Any]], None]:
    """Another vector of coefficients of the first party; `size` more than it has."""

    def change(raw: dict[str, Any]) -> None:
        own = raw["coefficients"][first(raw)]
        if given.get("places") == "end":
            given["places"] = [own["size"]]
        own |= {"size": own["size"] + size, "places": [0], "values": [1.0], **given}

    return change


def shape(raw: dict[str, Any]) -> None:
    own = raw["coefficients"][first(raw)]
    own["shape"] = [own["size"] + 1]


def rows_of_path(change: Callable[[list[list[float]]], None]) -> Callable[[dict[str, Any]], None]:
    return lambda raw: change(raw["path"][1][next(iter(raw["path"][1]))])


def spread_of_one(raw: dict[str, Any]) -> None:
    raw["spread"] = {first(raw): {**raw["coefficients"][first(raw)], "places": [0], "values": [1.0]}}


def end_of_stumps(raw: dict[str, Any]) -> None:
    party, part = next((party, part) for party, part in raw["model"].items() if part["columns"])
    part["columns"][0] = len(raw["features"][party])


def large_rows(raw: dict[str, Any]) -> None:
    """Two rows, of which the file's length would bear one."""
    size = 200 * len(json.dumps(raw))
    rows = [{"size": size, "places": [], "values": []}] * 2
    raw["model"] |= {"size": size, "points": rows, "labels": [1.0, -1.0], "weights": [0.5, 0.5]}


OWN, PRIVATE, BOOSTED, KERNEL = KINDS
LEFT = ["a", "exact", "what", 1]
ONE_OFF = {
    "a place behind the last": (OWN, "coefficients.party0 has places or values", vector(places="end")),
    "a value too many": (OWN, "coefficients.party0 has places or values", vector(values=[1.0, 2.0])),
    "a value too few": (OWN, "coefficients.party0 has places or values", vector(values=[])),
    "a shape of one entry more": (OWN, "coefficients.party0 has a shape", shape),
    "a vector of one entry more": (OWN, "coefficients' and 'features' of", vector(size=1)),
    "a line of seven": (OWN, "communication must be lists of sender", lambda raw: raw["communication"][0].append(1)),
    "a line of five": (OWN, "communication must be lists of sender", lambda raw: raw["communication"][0].pop()),
    "numbers of one line less": (OWN, "'numbers' and", lambda raw: raw["numbers"].pop()),
    "numbers of one line more": (OWN, "'numbers' and", lambda raw: raw["numbers"].append(1)),
    "a round that is no count": (
        OWN,
        "].round must be a whole number from 0 on; got 1.5",
        lambda raw: raw["notes"].append({"round": 1.5}),
    ),
    "a time below 0": (
        OWN,
        "seconds must be a finite number from 0 on; got -1e-09",
        lambda raw: raw.update(seconds=-1e-9),
    ),
    "a party here and elsewhere": (OWN, "different parties", lambda raw: raw["elsewhere"].append(first(raw))),
    "a schema of a stranger": (OWN, "different parties", lambda raw: raw["schemas"].update(stranger=None)),
    "features of a stranger": (OWN, "different parties", lambda raw: raw["features"].update(stranger=[])),
    "errors of one party": (OWN, "'spread' and 'coefficients' name", spread_of_one),
    "what left, of no known kind": (
        OWN,
        "facts.left must be",
        lambda raw: raw["facts"].update(left=[["a", "?", "b", 1]]),
    ),
    "what left, without how often": (OWN, "facts.left must be", lambda raw: raw["facts"].update(left=[LEFT[:3]])),
    "three classes": (
        OWN,
        "facts.classes must be two classes",
        lambda raw: raw["facts"].update(classes=["a", "b", "c"]),
    ),
    "a link of one number": (
        PRIVATE,
        "link must be a list of 2 to 7 finite numbers",
        lambda raw: raw.update(link=[1.0]),
    ),
    "a link of eight numbers": (
        PRIVATE,
        "link must be a list of 2 to 7 finite numbers",
        lambda raw: raw.update(link=[1.0] * 8),
    ),
    "a path without its last weight": (PRIVATE, "path has a row too many", rows_of_path(lambda rows: rows.pop())),
    "a path with a longer row": (PRIVATE, "path has a row too many", rows_of_path(lambda rows: rows[0].append(0.0))),
    "a path of longer rows": (PRIVATE, "'path' and 'coeff", rows_of_path(lambda rows: [r.append(0.0) for r in rows])),
    "a stump behind the last column": (BOOSTED, "'model' names columns", end_of_stumps),
    "a row of a kernel too long": (
        KERNEL,
        "model has rows of different lengths",
        lambda raw: raw["model"].update(size=1),
    ),
    "rows that are too large together": (KERNEL, "model is too large for the file", large_rows),
    "a label too few": (KERNEL, "model has lists of different lengths", lambda raw: raw["model"]["labels"].pop()),
}


@pytest.mark.parametrize("case", ONE_OFF)
def test_what_is_one_off_is_refused(case, plain, tmp_path):
    kind, words, change = ONE_OFF[case]
    raw = json.loads(json.dumps(plain[kind]))
    change(raw)
    with pytest.raises(co.InvalidInput, match="is not a whole saved fit: ") as caught:
        co.load(write(tmp_path / "fit.json", json.dumps(raw)))
    assert words in str(caught.value)


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None])
def test_a_version_that_nobody_wrote_is_damage(version, plain, tmp_path):
    with pytest.raises(co.InvalidInput, match="is not a saved fit, or it is damaged"):
        co.load(write(tmp_path / "fit.json", json.dumps(plain[OWN]), version))


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_is_missing_is_named(kind, plain, tmp_path):
    for name in plain[kind]:
        raw = {key: value for key, value in plain[kind].items() if key != name}
        with pytest.raises(co.InvalidInput, match=f"is not a whole saved fit: it needs {name}, "):
            co.load(write(tmp_path / "fit.json", json.dumps(raw)))


def test_every_field_with_something_else_in_it_is_refused_or_can_be_used(plain, tmp_path):
    raw = plain[KINDS[1]]
    found = {
        (name, place): tried(write(tmp_path / "fit.json", json.dumps({**raw, name: bad})))
        for name in raw
        for place, bad in enumerate(BAD)
    }
    assert len(found) == len(raw) * len(BAD)
    for name in ("coefficients", "intercept", "privacy", "communication", "problem", "features", "link"):
        refused = [place for place in range(len(BAD)) if found[name, place] == "refused"]
        assert len(refused) >= len(BAD) - 4, name


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 10**400, "1.0", None, True, [1.0]])
def test_a_coefficient_that_is_no_finite_number_is_refused(bad, plain, tmp_path):
    raw = json.loads(json.dumps(plain[KINDS[0]]))
    party = next(party for party, x in raw["coefficients"].items() if x["values"])
    raw["coefficients"][party]["values"][0] = bad
    with pytest.raises(co.InvalidInput, match=rf"coefficients\.{party}\.values must be a list, each a finite number"):
        co.load(write(tmp_path / "fit.json", json.dumps(raw)))


def test_a_coefficient_of_no_column_is_refused(plain, tmp_path):
    """Places count from 0: the first beyond the last is the number of columns."""
    kind = KINDS[0]
    party = next(party for party, x in plain[kind]["coefficients"].items() if x["values"])
    size = plain[kind]["coefficients"][party]["size"]
    for place in (size - 1, size, size + 1, -1):
        raw = json.loads(json.dumps(plain[kind]))
        raw["coefficients"][party] |= {"places": [place], "values": [0.5]}
        path = write(tmp_path / "fit.json", json.dumps(raw))
        if place == size - 1:
            assert co.load(path).coefficients[party].tolist() == [0.0] * place + [0.5]
            continue
        with pytest.raises(co.InvalidInput, match=rf"coefficients\.{party}.* (places or values|from 0 on)"):
            co.load(path)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, "1" * 5000, "", "null", "[1, 2]", '"x"', "{}", "\x00", "NaN"],
    ids=[
        "deep list",
        "deep table",
        "many digits",
        "nothing",
        "null",
        "list",
        "text",
        "empty table",
        "zero byte",
        "NaN",
    ],
)
def test_a_body_that_is_no_fit_is_refused(text, tmp_path):
    assert tried(write(tmp_path / "fit.json", text)) == "refused"
    (tmp_path / "fit.json").write_text(text)
    assert tried(tmp_path / "fit.json") == "refused"


def damaged(draw: random.Random, raw: Any) -> Any:
    """One place of a tree, anywhere, with something else in it, or without it."""
    made = json.loads(json.dumps(raw))
    at = made
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return made
        key = draw.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and draw.random() < 0.8:
            at = at[key]
        elif draw.random() < 0.2:
            del at[key]
            return made
        else:
            at[key] = draw.choice(BAD)
            return made


def tries(plain: dict[str, dict[str, Any]], folder: Path, count: int) -> None:
    draw, found = random.Random(5), []
    for place in range(count):
        raw = damaged(draw, plain[KINDS[place % len(KINDS)]])
        found.append(tried(write(folder / "fit.json", json.dumps(raw))))
    assert {"read", "refused"} == set(found)


def test_a_hundred_damaged_fits_are_read_or_refused(plain, tmp_path):
    tries(plain, tmp_path, 100)


@pytest.mark.fault
def test_three_thousand_damaged_fits_are_read_or_refused(plain, tmp_path):
    tries(plain, tmp_path, 3000)


def test_a_path_is_finite_and_the_largest_numbers_can_be_drawn(plain, tmp_path):
    kind = next(kind for kind, raw in plain.items() if raw["path"])
    for place in (0, 1):
        raw = json.loads(json.dumps(plain[kind]))
        rows = raw["path"][1][next(iter(raw["path"][1]))]
        (raw["path"][0] if place == 0 else rows[0])[0] = math.inf
        assert tried(write(tmp_path / "fit.json", json.dumps(raw))) == "refused"
    raw = json.loads(json.dumps(plain[kind]))
    rows = raw["path"][1][next(iter(raw["path"][1]))]
    rows[0][0], rows[1][0], raw["path"][0][0] = 1e308, -1e308, 1e308
    assert tried(write(tmp_path / "fit.json", json.dumps(raw))) == "read"


def test_a_small_file_cannot_ask_for_memory(plain, tmp_path):
    """In a process that may take 2 GiB: a vector of 10^10 entries in 40 bytes is refused by its size."""
    raw = json.loads(json.dumps(plain[KINDS[3]]))
    party = next(iter(raw["coefficients"]))
    raw["coefficients"][party] = {"size": 10**10, "places": [], "values": []}
    one = write(tmp_path / "one.json", json.dumps(raw))
    raw = json.loads(json.dumps(plain[KINDS[3]]))
    raw["model"]["size"] = 10**10
    other = write(tmp_path / "other.json", json.dumps(raw))
    code = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)); import colonnade as co\nfor path in {[str(one), str(other)]!r}:\n  try: co.load(path)\n  except co.InvalidInput as error: assert 'too large for the file' in str(error), error\n  else: raise SystemExit(1)"
    subprocess.run([sys.executable, "-c", code], check=True)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("kind", "field", "bad"),
    [
        (KINDS[0], "intercept", NAN),
        (KINDS[0], "intercept", INF),
        (KINDS[0], "objective", NAN),
        (KINDS[0], "gap", NAN),
        (KINDS[0], "seconds", -1.0),
        (KINDS[1], "spread", -0.5),
        (KINDS[1], "spread", NAN),
        ("adaboost", "weights", NAN),
        ("adaboost", "weights", INF),
        ("adaboost", "signs", NAN),
        ("adaboost", "thresholds", NAN),
    ],
)
def test_a_figure_that_is_nan_or_an_sd_below_zero_is_refused(kind, field, bad, plain, tmp_path):
    """Either would make a score or an interval of it without a word: every comparison with nan is false."""
    raw = json.loads(json.dumps(plain[kind]))
    named = field
    if field == "spread":
        coefficients = raw["coefficients"]
        raw["spread"] = {party: {**x, "places": [0], "values": [1.0]} for party, x in coefficients.items()}
        assert tried(write(tmp_path / "fit.json", json.dumps(raw))) == "read"
        raw["spread"][next(iter(coefficients))]["values"] = [bad]
    elif kind == "adaboost":
        part = next(part for part in raw["model"].values() if part["columns"])
        part[field][0], named = bad, "model"
    else:
        raw[field] = bad
    with pytest.raises(co.InvalidInput, match=rf"is not a whole saved fit: {named}[ .]"):
        co.load(write(tmp_path / "fit.json", json.dumps(raw)))
