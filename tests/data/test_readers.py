"""Claims about reading files: what comes out is what was written, and what cannot be read is named by its place."""

from __future__ import annotations

import bz2
import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from colonnade.data.readers import fit_file, read
from colonnade.data.sources import matrices
from colonnade.errors import InvalidInput
from colonnade.estimators.sparse import SparseClassifier, SparseRegressor

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def table(seed: int = 0, rows: int = 40, columns: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, columns)), 3) * (rng.random((rows, columns)) < 0.4)
    X[:, -1] = 1.0  # the last column is there
    return X, np.where(rng.random(rows) < 0.5, 1.0, -1.0)


def written(folder: Path, kind: str, X: np.ndarray, y: np.ndarray) -> tuple[Path, str | None]:
    import pandas as pd

    path = folder / f"X.{kind}"
    if kind in ("svm", "svm.gz", "svm.bz2"):
        plain = folder / "X.svm"
        dump_svmlight_file(X, y, str(plain), zero_based=False)
        if kind != "svm":
            path.write_bytes((gzip if kind.endswith("gz") else bz2).compress(plain.read_bytes()))
        return path, None
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    frame.insert(2, "late", y)
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        sparse.save_npz(path, sparse.csr_matrix(X))
        np.save(folder / "y.npy", y)
        return path, None
    return path, "late"


@pytest.mark.parametrize("kind", ["svm", "svm.gz", "svm.bz2", "csv", "parquet", "npz"])
@pytest.mark.parametrize("chunk", [64, 1 << 24])
def test_a_file_is_read_back_as_it_was_written(kind, chunk, tmp_path, monkeypatch):
    X, y = table()
    monkeypatch.setattr(matrices, "CHUNK", chunk)
    monkeypatch.setattr("colonnade.data.sources.files.BLOCK", max(chunk, 1024))
    path, label = written(tmp_path, kind, X, y)
    seen: list[float] = []
    A, b = read(path, label, progress=seen.append)
    assert (A.format, A.dtype) == ("csc", np.dtype(np.float64))
    assert A.has_canonical_format
    np.testing.assert_array_equal(X, A.toarray())
    np.testing.assert_array_equal(y, b)
    assert sorted(seen) == seen
    assert seen[-1] == 1.0


@settings(max_examples=30, deadline=None)
@given(
    lines=st.lists(
        st.tuples(
            st.integers(-3, 3),
            st.dictionaries(st.integers(0, 12), st.floats(-1e3, 1e3).filter(bool), max_size=5),
            st.sampled_from(["", " # a note", " #"]),
            st.sampled_from(["", "qid:3 "]),
        ),
        min_size=1,
        max_size=12,
    ),
    chunk=st.sampled_from([16, 1 << 20]),
)
def test_svmlight_lines_mean_what_scikit_learn_reads_in_them(lines, chunk, tmp_path_factory):
    path = tmp_path_factory.mktemp("svm") / "data.svm"
    rows = [
        f"{label} {query}" + " ".join(f"{k}:{v!r}" for k, v in sorted(row.items())) + note
        for label, row, note, query in lines
    ]
    path.write_text("# a heading\n\n" + "\n".join(rows) + "\n")
    wanted, labels = load_svmlight_file(str(path), zero_based="auto")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrices, "CHUNK", chunk)
        X, y = read(path)
    np.testing.assert_array_equal(labels, y)
    found = X.toarray()
    np.testing.assert_array_equal(wanted.toarray(), found[:, : wanted.shape[1]])
    assert not found[:, wanted.shape[1] :].any()


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("1 1:2\nx 1:2\n", "line 2: the label is not a number"),
        ("1 1:2\n\n1 1:2 3\n", "line 3: entry 2 is not 'index:value'"),
        ("1 1:2 1:3\n", "line 1: the index of entry 2 is not above"),
        ("1 2:2 1:3\n", "line 1: the index of entry 2 is not above"),
        ("1 1:nan\n", "line 1: entry 1"),
        ("1 -1:2\n", "line 1: entry 1"),
        ("1 1.5:2\n", "line 1: entry 1"),
        ("1 a:2\n", "line 1: entry 1"),
        ("1 1:2 3\n1 1:\n", "line 1: entry 2"),  # the numbers of both lines together would fit
        ("1 1:2:3 4\n", "line 1: entry 1"),
        ("1 1: 2\n", "line 1: entry 1"),
        ("inf 1:2\n", "line 1: the label"),
        ("# nothing\n", "no row"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text, advice, tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=advice):
        read(path)


@pytest.mark.parametrize(
    ("text", "label", "advice"),
    [
        ("a,b\n1,2\n3,\n", "a", "column 'b' is empty in line 3"),
        ("a,b\n1,2\n,4\n", "a", "column 'a' is empty in line 3"),
        ("a,b\n1,2\n3,inf\n", "a", "column 'b' is not finite in line 3"),
        ("a,b\n1,2\n3,secret\n", "a", r"column 'b' has a cell in line 3 that is not a number"),
        ("a,b\n1,2\nsecret\n", "a", r"1 cells in line 3, and the header has 2"),
        ("a,b\n1,2\n", "z", "lacks 1 of the 1 columns asked for, the first is 'z'"),
        ("a,a\n1,2\n", "a", "1 column names stand more than once, the first is 'a'"),
        ("a\n1\n", "a", "no other"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(text, label, advice, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=advice) as refused:
        read(path, label)
    assert "secret" not in str(refused.value)  # a cell may be what privacy is about


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("data.csv", b"", r"data\.csv is empty: 0 bytes\. Give a file with rows"),
        ("data.svm", b"", r"data\.svm is empty: 0 bytes"),
        ("data.csv", b"a,b\n", "the file holds no row; give a file with data"),
        ("data.csv", b"\n", "not even a header names its columns"),
        ("data.csv", b"a\n", "a column of labels and no other; add the features"),
        ("data.csv", b"a,caf\xe9\n1,2\n", r"data\.csv is not UTF-8 .* iconv -f latin1"),
        (
            "data.csv",
            b"a,b\n" + b"1,x\n" * 5000 + b"2,caf\xe9\n",
            r"data\.csv is not UTF-8 \(in column 'b' in line 5,002\)\. Save it as UTF-8",
        ),
        ("data.parquet", b"PAR1 secret", r"data\.parquet cannot be read as Parquet \(ComputeError\)\. Is it whole"),
    ],
)
def test_a_file_that_is_empty_damaged_or_in_another_alphabet_is_explained(name, content, advice, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=advice) as refused:
        read(path)
    assert "secret" not in str(refused.value)


def test_a_mark_at_the_beginning_of_a_file_is_not_part_of_a_name(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"\xef\xbb\xbfkind,x\nyes,2\n")
    assert list(read(path, "kind")[1]) == ["yes"]


def test_labels_of_a_table_may_be_words_and_default_to_the_last_column(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b,kind\n1,0,yes\n0,2,no\n")
    X, y = read(path)
    np.testing.assert_array_equal([[1, 0], [0, 2]], X.toarray())
    assert list(y) == ["yes", "no"]


def test_files_that_do_not_fit_together_are_refused(tmp_path):
    X, y = table()
    with pytest.raises(InvalidInput, match="is not a file"):
        read(tmp_path / "nothing.svm")
    (tmp_path / "a.xlsx").write_text("x")
    with pytest.raises(InvalidInput, match=r"no reader for \.xlsx"):
        read(tmp_path / "a.xlsx")
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_matrix(X))
    with pytest.raises(InvalidInput, match=r"no labels for X\.npz"):
        read(tmp_path / "X.npz")
    for labels in (y[:-1], np.append(y, 1.0), np.column_stack([y, y]), y[:, None]):
        np.save(tmp_path / "y.npy", labels)
        with pytest.raises(InvalidInput, match="they must match"):
            read(tmp_path / "X.npz")
    np.save(tmp_path / "y.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(tmp_path / "X.npz")
    with pytest.raises(InvalidInput, match="leave label= out"):
        read(written(tmp_path, "svm", X, y)[0], "y")


@pytest.mark.parametrize("more", ["1\n", "1 1:1\n", "1 99:1\n"])
def test_a_file_that_changes_between_the_two_runs_is_refused(more, tmp_path):
    X, y = table()
    path, _ = written(tmp_path, "svm", X, y)

    def grow(done: float) -> None:
        if done == 0.5:
            other = tmp_path / "other.svm"
            other.write_text(path.read_text() + more)
            other.replace(path)

    with pytest.raises(InvalidInput, match="changed while it was read"):
        read(path, progress=grow)


def test_a_fit_of_a_file_is_the_fit_of_its_contents(tmp_path):
    X, y = table(rows=80)
    path, label = written(tmp_path, "parquet", X, y)
    found = fit_file(path, SparseClassifier(radius=3.0), label=label)
    np.testing.assert_allclose(SparseClassifier(radius=3.0).fit(X, y).coef_, found.estimator.coef_, atol=1e-9)
    assert {k: v for k, v in found.table().items() if k in ("rows", "columns")} == {"rows": 80, "columns": 7}
    assert found.table()["gap"] <= 1e-6


@pytest.mark.chance(0, "names of figures, not the figures")
def test_the_figures_of_a_private_fit_are_released_ones(tmp_path):
    X, y = table(rows=80)
    path, label = written(tmp_path, "parquet", X, y)
    shown = fit_file(path, SparseRegressor(epsilon=1.0, label_bound=1.0), label=label).table()
    assert {"rows", "columns", "privacy", "columns used"} == set(shown)


def test_a_public_width_does_not_depend_on_the_rows(tmp_path):
    """One row with a large number, or none with the last, changes nothing about the shape."""
    shapes = set()
    for name, last in (("a", "1 2:0.5 9:1"), ("b", "1 2:0.5"), ("c", "1 2:0.5 4000:1"), ("d", "1 0:3 2:0.5")):
        path = tmp_path / f"{name}.svm"
        path.write_text(f"-1 1:0.25\n{last}\n")
        X, _ = read(path, columns=9)
        shapes.add(X.shape)
        assert X.toarray()[1, 1] == 0.5
    assert shapes == {(2, 9)}


@pytest.mark.parametrize("name", ["data.svm", "data.svm.gz"])
def test_a_private_fit_of_a_packed_file_needs_a_public_width_too(name, tmp_path):
    (tmp_path / name).write_bytes(b"")
    model = SparseClassifier(epsilon=1.0, classes=[-1, 1])
    with pytest.raises(InvalidInput, match="needs columns="):
        fit_file(tmp_path / name, model)


PEAK = """
import resource, sys
from colonnade.data.readers import read
warm, _ = read(sys.argv[2])  # numba's own memory counts before
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
X, _ = read(sys.argv[1])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(before * 1024, after * 1024, X.data.nbytes + X.indices.nbytes + X.indptr.nbytes, X.nnz)
"""


@pytest.mark.slow
def test_memory_is_that_of_the_answer_and_a_buffer_that_does_not_grow(tmp_path):
    """Two files, of 3 and of 12 million entries: what a read takes beside its answer is the same, up to a tenth."""
    rng = np.random.default_rng(0)
    small = tmp_path / "small.svm"
    small.write_text("1 1:0.5\n-1 2:0.5\n")
    columns = rng.integers(1, 9, (10_000, 100)).cumsum(axis=1)
    block = "".join(
        f"{label} " + " ".join(f"{j}:0.{j % 997:03d}" for j in row) + "\n"
        for label, row in zip(rng.choice([-1, 1], 10_000), columns.tolist(), strict=True)
    )
    beside = []
    for rows in (30_000, 120_000):
        path = tmp_path / f"{rows}.svm"
        with path.open("w") as out:
            out.writelines([block] * (rows // 10_000))
        words = subprocess.run(
            [sys.executable, "-c", PEAK, path, small], check=True, capture_output=True, text=True
        ).stdout.split()
        before, after, answer, entries = map(int, words)
        assert entries == rows * 100
        beside.append(after - before - answer)
        print(
            f"{entries:,} entries: answer {answer / 2**20:.0f} MiB, beside it {beside[-1] / 2**20:.0f} MiB at the peak"
        )
    assert beside[1] <= 1.1 * beside[0] + 2**24
    assert beside[1] < 40 * matrices.CHUNK
