"""Claims about shards: the same fits as from a table in memory, and nobody but a party holds its columns."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy import sparse

import colonnade as co
from colonnade.data.readers import Shard, shards
from colonnade.privacy.block import Block

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

L1, RIDGE = co.Problem(co.LeastSquares(), co.L1Ball(2.0)), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
CASES = {
    "frank-wolfe": (L1, co.DistributedFrankWolfe(rounds=5, tolerance=0.0)),
    "sharing admm": (RIDGE, co.SharingADMM(rounds=5, tolerance=0.0)),
    "graph admm": (RIDGE, co.GraphADMM(co.Topology.ring(4), rounds=5)),
}
every_case = pytest.mark.parametrize(("problem", "method"), CASES.values(), ids=CASES)


def table(rows: int = 40, columns: int = 11, seed: int = 3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.4)
    X[0] = 1.0  # no column is empty, so that the last one is seen in a sparse file
    return X, X[:, 0] - X[:, 5 % columns] + 0.1 * rng.normal(size=rows)


def write_parquet(path, X, y, label: str = "y") -> None:
    columns = {f"f{j}": X[:, j] for j in range(X.shape[1])}
    parquet.write_table(pa.table({label: y, **columns}), path, row_group_size=17)


def write_svmlight(path, X, y, first: int = 1) -> None:
    lines = (
        " ".join([repr(float(v)), *(f"{j + first}:{float(row[j])!r}" for j in np.flatnonzero(row))])
        for row, v in zip(X, y, strict=True)
    )
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt") as out:
        out.write("\n".join(lines) + "\n")


def bits(fit) -> dict[str, bytes]:
    return {party: x.tobytes() for party, x in fit.coefficients.items()}


# ------------------------------------------------------------------------------------------------ the same fits


@every_case
def test_columns_of_a_parquet_file_give_the_fit_of_the_table(tmp_path, problem, method):
    X, y = table()
    write_parquet(tmp_path / "t.parquet", X, y)
    fed = shards(tmp_path / "t.parquet", label="y", parties=3)
    one, two = co.fit(fed, problem, method=method), co.fit(co.Federation.split(X, y, 3), problem, method=method)
    assert bits(one) == bits(two)
    assert one.communication == two.communication
    assert list(one.features["party1"]) == ["f4", "f5", "f6", "f7"]


@pytest.mark.thinned("slow")
@every_case
@pytest.mark.parametrize(("name", "first"), [("t.svm", 1), ("t.svm", 0), ("t.libsvm.gz", 1)])
def test_columns_of_a_svmlight_file_give_the_fit_of_the_table(tmp_path, problem, method, name, first):
    X, y = table()
    write_svmlight(tmp_path / name, X, y, first)
    fed = shards(tmp_path / name, parties=3)
    whole = co.Federation.split(sparse.csc_array(X), y, 3)
    one, two = co.fit(fed, problem, method=method), co.fit(whole, problem, method=method)
    assert bits(one) == bits(two)
    assert one.communication == two.communication
    assert one.scores(fed).tolist() == two.scores(whole).tolist()


@settings(max_examples=25)
@given(rows=st.integers(1, 30), columns=st.integers(1, 12), seed=st.integers(0, 999), data=st.data())
def test_the_parts_of_a_file_are_the_columns_of_the_whole(tmp_path_factory, rows, columns, seed, data):
    X, y = table(rows, columns, seed)
    parties = data.draw(st.integers(1, columns))
    folder = tmp_path_factory.mktemp("parts")
    write_parquet(folder / "t.parquet", X, y)
    write_svmlight(folder / "t.svm", X, y)
    for path, options in ((folder / "t.parquet", {"label": "y"}), (folder / "t.svm", {})):
        fed = shards(path, parties=parties, **options)
        split = co.Federation.split(X, y, parties)
        assert fed.roster() == split.roster()
        assert np.array_equal(fed.labels, y)
        for name, party in split.parties.items():
            held = fed.parties[name].block.matrix
            assert np.array_equal(held.toarray() if sparse.issparse(held) else held, party.block.matrix)


def test_a_public_number_of_columns_leaves_out_what_lies_beyond(tmp_path):
    X, y = table()
    write_svmlight(tmp_path / "t.svm", X, y)
    fed = shards(tmp_path / "t.svm", parties=2, columns=8)
    assert np.array_equal(X[:, 4:8], fed.parties["party1"].block.matrix.toarray())
    wide = shards(tmp_path / "t.svm", parties=2, columns=20)
    assert wide.parties["party1"].block.matrix.shape == (40, 10)


# ------------------------------------------------------------------------------------------------ recipes


def test_a_block_travels_as_a_recipe_and_is_read_when_it_is_used(tmp_path):
    X, y = table(rows=4000)
    write_parquet(tmp_path / "t.parquet", X, y)
    block = shards(tmp_path / "t.parquet", label="y", parties=2).parties["party0"].block
    assert "matrix" not in vars(block)
    assert np.array_equal(X[:, :6], block.matrix)
    packed = pickle.dumps(block)
    assert len(packed) < 1000
    again = pickle.loads(packed)
    assert isinstance(again, Shard)
    assert "matrix" not in vars(again)
    assert np.array_equal(X[:, :6], again.matrix)


def test_a_clipped_shard_is_a_clipped_block(tmp_path):
    X, y = table()
    write_parquet(tmp_path / "t.parquet", X, y)
    block = shards(tmp_path / "t.parquet", label="y", parties=2).parties["party0"].block
    assert np.array_equal(np.clip(X[:, :6], -0.5, 0.5), block.clipped(0.5).matrix)
    assert block.clipped(0.5).digest() == Block(np.clip(X[:, :6], -0.5, 0.5), np.arange(6)).digest()


def test_a_digest_follows_the_file_and_the_columns_and_reads_nothing(tmp_path):
    X, y = table()
    path = tmp_path / "t.parquet"
    write_parquet(path, X, y)
    digests = [party.block.digest() for party in shards(path, label="y", parties=3).parties.values()]
    assert len(set(digests)) == 4
    assert [p.block.digest() for p in shards(path, label="y", parties=3).parties.values()] == digests
    os.utime(path, ns=(1, 1))
    block = shards(path, label="y", parties=3).parties["party0"].block
    assert block.digest() != digests[0]
    assert "matrix" not in vars(block)


def test_an_interrupted_fit_of_shards_goes_on_and_not_with_another_file(tmp_path):
    X, y = table()
    write_parquet(tmp_path / "t.parquet", X, y)
    problem, method = CASES["frank-wolfe"]
    seen = []

    def carry(letter):
        seen.append(letter)
        if len(seen) == 12:
            raise KeyboardInterrupt
        return (letter,)

    def fit(engine=None):
        fed = shards(tmp_path / "t.parquet", label="y", parties=3)
        return co.fit(fed, problem, method=method, store=tmp_path / "store", engine=engine)

    with pytest.raises(KeyboardInterrupt):
        fit(co.Faults(co.InProcess(), carry))
    (begun,) = [path.stem for path in (tmp_path / "store" / "locks").glob("*.lock")]
    written = (tmp_path / "t.parquet").stat().st_mtime_ns
    os.utime(tmp_path / "t.parquet", ns=(1, 1))
    assert fit().run != begun
    os.utime(tmp_path / "t.parquet", ns=(written, written))
    again = fit()
    assert again.run == begun
    assert bits(again) == bits(co.fit(co.Federation.split(X, y, 3), problem, method=method))


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("name", "options", "advice"),
    [
        ("none.parquet", {}, r"is not a file. Give the path of a .parquet, .svm, .svmlight"),
        ("t.csv", {}, r"shards are read from .parquet and svmlight files"),
        ("empty.svm", {}, r"is empty: 0 bytes"),
        ("blank.svm", {}, r"holds no row"),
        ("t.svm", {"label": "y"}, r"leave label= out"),
        ("t.parquet", {"columns": 3}, r"leave columns= out"),
        ("t.parquet", {"label": "z"}, r"lacks 1 of the 1 columns asked for, the first is 'z'.*It has 12: y, f0"),
        ("t.parquet", {"label": "y", "parties": 12}, r"from 1 to the 11 columns"),
        ("t.svm", {"parties": 0}, r"from 1 to the 11 columns"),
        ("alone.parquet", {}, r"a column of labels and no other"),
        ("gaps.parquet", {"label": "y"}, r"column 'y' is empty in row \d+; fill or drop it"),
        ("broken.parquet", {}, r"cannot be read as Parquet"),
    ],
)
def test_what_cannot_be_sharded_is_refused_with_advice(tmp_path, name, options, advice):
    X, y = table()
    write_parquet(tmp_path / "t.parquet", X, y)
    write_svmlight(tmp_path / "t.svm", X, y)
    parquet.write_table(pa.table({"y": y}), tmp_path / "alone.parquet")
    parquet.write_table(pa.table({"y": [1.0, None], "x": [1.0, 2.0]}), tmp_path / "gaps.parquet")
    for file, text in {
        "t.csv": "a,b\n1,2\n",
        "empty.svm": "",
        "blank.svm": "\n# no row\n",
        "broken.parquet": "x",
    }.items():
        (tmp_path / file).write_text(text)
    with pytest.raises(co.InvalidInput, match=advice):
        shards(tmp_path / name, **{"parties": 2, **options})


def test_a_file_that_changed_or_is_elsewhere_is_refused_where_it_is_read(tmp_path):
    X, y = table()
    write_svmlight(tmp_path / "t.svm", X, y)
    fed = shards(tmp_path / "t.svm", parties=2)
    for changed in (slice(1, None), [0, *range(len(y))]):  # a row fewer, and a row more
        write_svmlight(tmp_path / "t.svm", X[changed], y[changed])
        with pytest.raises(co.InvalidInput, match=r"bytes here and had .* Give every machine the same file"):
            _ = fed.parties["party0"].block.matrix
    (tmp_path / "t.svm").unlink()
    with pytest.raises(co.InvalidInput, match=r"not on this machine. Put it under the same path"):
        _ = fed.parties["party1"].block.matrix


@pytest.mark.parametrize("value", [float("nan"), None])
def test_a_hole_in_a_party_s_columns_is_refused_by_its_place(tmp_path, value):
    X, y = table(rows=5)
    columns = {"y": y, "a": X[:, 0], "b": [1.0, 2.0, value, 4.0, 5.0]}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    fed = shards(tmp_path / "t.parquet", label="y", parties=2)
    assert fed.parties["party0"].block.matrix.shape == (5, 1)
    with pytest.raises(co.InvalidInput, match=r"column 'b' is .* in row 3; fill or drop it"):
        _ = fed.parties["party1"].block.matrix


# ------------------------------------------------------------------------------------------------ on a cluster

DRIVER = """
import json, resource, sys
import colonnade as co
from colonnade.runtime.ray import Ray
from colonnade.data.readers import shards

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

problem, method = co.Problem(co.LeastSquares(), co.L1Ball(2.0)), co.DistributedFrankWolfe(rounds=2, tolerance=0.0)
with Ray() as engine:
    small = co.fit(shards(sys.argv[1], label="y", parties=2), problem, method=method, engine=engine)
    before = peak()  # everything is imported and running
    co.fit(shards(sys.argv[2], label="y", parties=2), problem, method=method, engine=engine)
    grown = peak() - before
print(json.dumps({"grown": grown, "model": {p: x.tobytes().hex() for p, x in small.coefficients.items()}}))
"""


@pytest.mark.slow
def test_on_ray_the_driver_never_holds_the_matrix(tmp_path):
    """The table has 128 MB of numbers; the driver grows by less than an eighth of that, two vectors of labels among it."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'colonnade[ray]'")
    rows, columns = 50_000, 320
    rng = np.random.default_rng(1)
    names = {f"f{j}": rng.random(rows, np.float32) for j in range(columns)}
    parquet.write_table(pa.table({"y": rng.random(rows), **names}), tmp_path / "large.parquet", use_dictionary=False)
    X, y = table()
    write_parquet(tmp_path / "small.parquet", X, y)
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "small.parquet"), str(tmp_path / "large.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    assert answer["grown"] < rows * columns * 8 / 8
    problem, method = L1, co.DistributedFrankWolfe(rounds=2, tolerance=0.0)
    here = co.fit(co.Federation.split(X, y, 2), problem, method=method)
    assert answer["model"] == {party: part.hex() for party, part in bits(here).items()}
