"""How far a reader walks: the files and functions that a run passes, in the order in which they are first called.

    python -m benchmarks walk           both walks, counted
    python -m benchmarks walk --full    and every step of them: caller, then file and function that is entered

    gram   one secure Private Gram of two parties in this process, from `co.fit` to the report on disk
    bid    one round of Distributed Frank-Wolfe between a hub and two parties, over gRPC with mutual TLS: from one note of
           the coordinator to the next. All are threads of this process.

A walk has every function of the library once, where it is first called; comprehensions and lambdas belong to the function
around them. A re-entry is a step from one file into another that was entered before: what makes a reader turn back. Each
thread has steps of its own, over one set of functions. Each run is done before it is counted, so that nothing is imported
and caches are full. There is no baseline but the bars.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.network import certs
from colonnade.network.certs import tls_in
from colonnade.network.party_data import PartyData
from colonnade.network.party_service import PartyService
from colonnade.network.transport.party import serve

LIBRARY = f"{Path(co.__file__).parent}/"
BARS = {"gram": (52, 230), "bid": (36, None)}  # fewer files than this, and fewer re-entries
ROUND = 3  # the round that is walked: the first ones make what later ones only use

Function = tuple[str, str]  # file and name


class Walk:
    """Notes the first call of every function while it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.steps: list[tuple[int, Function | None, Function]] = []  # thread, caller, function
        self._met: set[Function] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if not self.on or event != "call" or (here := _function(frame)) is None or here in self._met:
            return
        self._met.add(here)
        back = frame.f_back
        while back is not None and _function(back) is None:
            back = back.f_back
        self.steps.append((threading.get_ident(), _function(back) if back else None, here))

    @property
    def files(self) -> list[str]:
        """In the order in which they are entered."""
        return list(dict.fromkeys(file for _, _, (file, _) in self.steps))

    @property
    def re_entries(self) -> int:
        entered: set[str] = set()
        last: dict[int, str] = {}
        count = 0
        for thread, _, (file, _) in self.steps:
            count += file in entered and last.get(thread) != file
            entered.add(file)
            last[thread] = file
        return count

    def show(self, name: str, hops: bool) -> bool:
        """Print it; whether it is within its bars."""
        most_files, most_turns = BARS[name]
        bars = f"bar: under {most_files} files" + (f" and {most_turns} re-entries" if most_turns else "")
        print(
            f"  {name:5} {len(self.files):4} files {len(self.steps):5} functions {self.re_entries:5} re-entries ({bars})"
        )
        for _, caller, (file, function) in self.steps if hops else ():
            print(f"        {':'.join(caller) if caller else '(outside)':>64}  ->  {file}:{function}")
        return len(self.files) < most_files and (most_turns is None or self.re_entries < most_turns)


def _function(frame: FrameType) -> Function | None:
    """Where a frame is in the library; None outside it and in what belongs to the function around."""
    code = frame.f_code
    if not code.co_filename.startswith(LIBRARY) or code.co_name.startswith("<"):
        return None
    return code.co_filename[len(LIBRARY) :], code.co_qualname


@contextlib.contextmanager
def followed() -> Iterator[Walk]:
    """A walk that follows this thread and those that begin meanwhile."""
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


# ------------------------------------------------------------------------------------------------ one process


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    return X, np.sign(X[:, 0] + rng.normal(size=400))


def gram() -> Walk:
    """One secure Private Gram, to its report."""
    fed = co.Federation.split(*table(), parties=2)
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(0.1), intercept=True)
    privacy = co.Privacy(epsilon=1.0, delta=1e-6, trust="secure", row_norm=3.0)
    with followed() as walk, warnings.catch_warnings(action="ignore"):
        for walk.on in (False, True):
            with tempfile.TemporaryDirectory() as store:
                fit = co.fit(fed, problem, co.PrivateGram(), privacy, store=store)
                fit.report(Path(store) / "report.html")
    return walk


# ------------------------------------------------------------------------------------------------ a hub and parties


def bid() -> Walk:
    """One round between a hub and its parties."""
    with tempfile.TemporaryDirectory() as place, followed() as walk:
        folder = Path(place)
        tables, file, keys = _organisations(folder)
        stop = threading.Event()
        with co.Grpc("127.0.0.1:0", folder, patience=120.0) as hub:
            port = hub.open(file).port
            threads = [
                threading.Thread(target=_party, args=(folder, PartyData(file, name, *own), keys[name], port, stop))
                for name, own in tables.items()
            ]
            for thread in threads:
                thread.start()
            hosted_nodes = hub.hosted_nodes

            def noted(node: str, note: Any) -> None:  # noqa: ARG001  the coordinator's alone come here
                walk.on = note["round"] == ROUND

            def listening(run: str, setups: Any, logs: Any, _: Any, call: Any) -> Any:
                return hosted_nodes(run, setups, logs, noted, call)

            try:
                problem = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
                method = co.DistributedFrankWolfe(rounds=ROUND + 2, tolerance=0.0)
                with mock.patch.object(hub, "hosted_nodes", listening):
                    co.fit(co.Federation.elsewhere(file), problem, method, engine=hub, store=folder / "hub")
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
    return walk


def _organisations(folder: Path) -> tuple[dict[str, Any], FederationFile, dict[str, bytes]]:
    """Two parties with half of the columns each; the first has the labels, too."""
    X, y = table()
    tables = {"first": (X[:, :3], y), "second": (X[:, 3:], None)}
    certs.init(folder)
    coordinator, signing = new_key()
    (folder / certs.SIGNING_KEY).write_text(signing.hex())
    certs.issue(folder, certs.HUB)
    keys, members = {}, {}
    for name, (columns, _) in tables.items():
        certs.issue(folder, name)
        public, keys[name] = new_key()
        members[name] = Member(None, co.Policy(exact=True), public, columns=columns.shape[1])
    file = FederationFile(members, None, ("first", "y"), rows=len(y), coordinator=coordinator)
    return tables, file, keys


def _party(folder: Path, data: PartyData, key: bytes, port: int, stop: threading.Event) -> None:
    with contextlib.closing(PartyService(data, folder / f"store-{data.name}", key, lambda _: True)) as service:
        serve(f"127.0.0.1:{port}", tls_in(folder, data.name), data.name, service.answer, stop=stop)


def main(quick: bool = True) -> int:
    print("a walk through the library, each function once")
    within = [walk.show(name, not quick) for name, walk in (("gram", gram()), ("bid", bid()))]
    return int(not all(within))


if __name__ == "__main__":
    raise SystemExit(main())
