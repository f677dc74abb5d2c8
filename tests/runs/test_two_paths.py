"""Claims that one file and one schema are read alike in one process, from a configuration file and between organisations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import colonnade as co
from colonnade.data.alignment import Agreement, PepperShare, agree, bitmap, intersect
from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.data.row_order import key_kind
from colonnade.errors import InvalidInput
from colonnade.methods.node_setup import usable_labels
from colonnade.model.job import Job
from colonnade.network.certs import Tls
from colonnade.network.party_file import PartyFile
from colonnade.privacy.block import Unit
from colonnade.runs.config import load_config

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 60
SCHEMAS = {
    "ward": co.Schema(
        (
            co.Categorical("fbs", ("0.0", "1.0"), missing="indicator"),
            co.Categorical("postcode", ("01", "1", "007")),
            co.Date("day", "2024-01-01", "2024-12-31", format="%d.%m.%Y"),
        )
    ),
    "lab": co.Schema((co.Categorical("kit", ("2024-01-05", "true", "3")), co.Numeric("crp", 0, 100, missing=0))),
}


@pytest.fixture
def files(tmp_path) -> Path:
    """Cells that look like numbers, dates and truth values, and are names; keys with leading zeros."""
    rng = np.random.default_rng(5)
    keys = [f"{i:05}" for i in rng.permutation(ROWS)]
    ward = {
        "pid": keys,
        "person": [f"0{i % 25}" for i in range(ROWS)],
        "fbs": [["0.0", "1.0", ""][i % 3] for i in range(ROWS)],
        "postcode": [["01", "1", "007", "7"][i % 4] for i in range(ROWS)],
        "day": [f"{1 + i % 28:02}.03.2024" for i in range(ROWS)],
        "sick": [str(i % 2) for i in range(ROWS)],
        "not ours": ["x"] * ROWS,
    }
    order = rng.permutation(ROWS)[:50]
    kits = ["2024-01-05", "true", "3", "False"]
    lab = {
        "pid": [keys[i] for i in order],
        "kit": [kits[i % 4] for i in order],
        "crp": [["1", "2.50", "", "NA", "1e3"][i % 5] for i in order],
    }
    for name, columns in {"ward": ward, "lab": lab}.items():
        lines = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def file(folder: Path) -> FederationFile:
    members = {name: Member(schema, co.Policy(exact=True, least=1), new_key()[0]) for name, schema in SCHEMAS.items()}
    made = FederationFile(members, "pid", ("ward", "sick"), Unit("person", 2), people="ward")
    made.save(folder / "federation.toml")
    return made


def between(folder: Path, shared: FederationFile) -> dict[str, tuple[list[str], object, np.ndarray | None]]:
    """Keys, matrix and labels of each party in the common order, as `colonnade party` reads and aligns them."""
    nowhere = Path("nowhere")
    tls = Tls(nowhere, nowhere, nowhere)
    parties = {
        name: PartyFile(
            folder / "party.toml", name, shared, "hub:1", nowhere, nowhere, tls, "ask", {"source": f"{name}.csv"}
        ).read_data()
        for name in SCHEMAS
    }
    shares = {
        name: PepperShare.from_secret(party.keys, name.encode().ljust(32), "s") for name, party in parties.items()
    }
    pepper = agree(shares, "s")
    offers = {name: party.offer(pepper) for name, party in parties.items()}
    _, places = intersect({name: mine.digests for name, mine in offers.items()})
    job = Job(co.Problem(co.Logistic(), co.L1Ball(1.0)), Federation.elsewhere(shared, 1).roster())
    found = {}
    for name, party in parties.items():
        bits = bitmap(places[name], len(offers[name].digests))
        kept = Agreement.from_answer(offers[name], bits, pepper, session="s", party=name, parties=list(parties))
        block = party.block(job, kept)
        found[name] = (party.keys_in_order(kept).to_list(), block.matrix, block.labels)
    return found


def rows_of(matrix, at) -> np.ndarray:
    return (matrix.toarray() if sparse.issparse(matrix) else matrix)[at]


def ways(folder: Path) -> dict[str, Federation]:
    """The same federation without people, so that all common rows stay, however it is put together in one process."""
    paths = {name: folder / f"{name}.csv" for name in SCHEMAS}
    read = {
        name: co.read(path, schema=SCHEMAS[name], texts=["pid"], columns=_columns(name)) for name, path in paths.items()
    }
    for name, schema in SCHEMAS.items():
        schema.to_toml(folder / f"{name}.schema.toml")
    (folder / "study.toml").write_text(
        '[data]\non = "pid"\nlabel = ["ward", "sick"]\n'
        + "".join(
            f'[data.parties.{name}]\nsource = "{name}.csv"\nschema = "{name}.schema.toml"\n{extra}\n'
            for name, extra in {"ward": 'columns = ["fbs", "postcode", "day"]', "lab": ""}.items()
        )
        + '[problem]\nloss = "Logistic"\n'
    )
    made = {"paths": paths, "frames": read}
    federations = {
        way: Federation.from_frames(given, "pid", ("ward", "sick"), schemas=SCHEMAS) for way, given in made.items()
    }
    return federations | {"configured": load_config(folder / "study.toml").federation}


def _columns(name: str) -> list[str]:
    return ["pid", *(column.name for column in SCHEMAS[name].columns), *(["sick"] if name == "ward" else [])]


def test_one_file_and_one_schema_give_the_same_numbers_to_the_bit_in_every_way(files):
    shared = file(files)
    elsewhere, here = between(files, shared), ways(files)
    job = Job(co.Problem(co.Logistic(), co.L1Ball(1.0)), here["paths"].roster())
    for way, federation in here.items():
        assert federation.keys is not None
        keys = federation.keys.to_list()
        assert set(elsewhere["ward"][0]) <= set(keys), way
        at = [keys.index(key) for key in elsewhere["ward"][0]]
        for name, (order, matrix, labels) in elsewhere.items():
            assert order == elsewhere["ward"][0]
            block = federation.parties[name].block
            assert sparse.issparse(block.matrix) == sparse.issparse(matrix), (way, name)
            assert rows_of(block.matrix, at).tobytes() == rows_of(matrix, slice(None)).tobytes(), (way, name)
            if labels is not None:
                assert np.array_equal(usable_labels(federation.labels, job)[at], labels), way


def test_no_declared_level_is_lost_on_the_way(files):
    """All of these cells are levels as they are written, and every one of them was none as a number, a date or a truth value."""
    matrix = rows_of(ways(files)["paths"].parties["ward"].block.matrix, slice(None))
    assert (matrix[:, :3].sum(axis=1) == 1).all()  # 0.0, 1.0, missing
    assert matrix[:, 3:6].sum() == pytest.approx(0.75 * len(matrix), abs=2)  # 01, 1, 007; "7" is none of them


def test_keys_and_people_keep_their_leading_zeros(files):
    federation = Federation.from_frames(
        {name: files / f"{name}.csv" for name in SCHEMAS}, "pid", ("ward", "sick"), schemas=SCHEMAS, unit=("person", 2)
    )
    assert federation.keys is not None
    assert all(len(key) == 5 for key in federation.keys)
    held = PartyFile(
        files / "party.toml", "ward", file(files), "h:1", files, files, Tls(files, files, files), "ask",
        {"source": "ward.csv"},
    ).read_data()  # fmt: skip
    assert held.table["person"].to_list()[:2] == ["00", "01"]
    assert "not ours" not in held.table.columns


def test_a_csv_column_with_leading_zeros_is_text_wherever_in_the_file_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.data.sources.files.BLOCK", 100)
    path = tmp_path / "t.csv"
    path.write_text("zip,n\n" + "".join(f"{10000 + i},{i}\n" for i in range(200)) + "00123,0\n")
    found = co.read(path)
    assert (found["zip"].dtype, found["n"].dtype) == (pl.String, pl.Int64)
    assert found["zip"][-1] == "00123"


def test_a_whole_number_is_the_level_that_means_it_however_both_are_written():
    numbers = pl.DataFrame({"c": [0.0, 1.0, 2.5]})
    assert co.Schema((co.Categorical("c", ("0.0", "1.0", "2.5")),)).encode(numbers).unknown == {"c": 0}
    assert co.Schema((co.Categorical("c", ("0", "1", "2.5")),)).encode(numbers).unknown == {"c": 0}
    both = co.Schema((co.Categorical("c", ("1.0", "1")),)).encode(numbers)
    assert rows_of(both.matrix, 1).tolist() == [0.0, 1.0]


def test_digits_match_numbers_and_texts_but_numbers_do_not_match_texts_with_leading_zeros(tmp_path):
    numbers, digits, zeros = pl.Series([17, 18]), pl.Series(["17", "18"]), pl.Series(["017", "18"])
    assert [key_kind(keys) for keys in (numbers, digits, zeros)] == ["whole number", "digits", "text"]
    pl.DataFrame({"pid": numbers, "a": [0.0, 1.0]}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("pid,b\n18,1\n17,0\n")
    (tmp_path / "c.csv").write_text("pid,c\n18,1\n017,0\n")
    both = Federation.from_frames({"a": tmp_path / "a.parquet", "b": tmp_path / "b.csv"}, "pid")
    assert both.rows == 2
    texts = Federation.from_frames({"b": tmp_path / "b.csv", "c": tmp_path / "c.csv"}, "pid")
    assert texts.rows == 1
    with pytest.raises(InvalidInput, match=r"different types \(a: Int64, c: String\).*leading zeros"):
        Federation.from_frames({"a": tmp_path / "a.parquet", "c": tmp_path / "c.csv"}, "pid")
