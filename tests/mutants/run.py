"""Plants every mistake of `list.toml`, one at a time, in a scratch copy of the tree: the tests named for it must see it.

    python tests/mutants/run.py [--only TEXT] [--processes 2] [--again FILE]

A mistake is seen when a named test fails or hangs, and when that test passes on the code as it is. Ends with 1 if one is not
seen, or if its text is no longer found exactly once. `--only` takes those whose name or file holds the text; with `--again`
what was seen is kept in a file, and is not run again while neither the entry, its file nor its tests have changed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("list.toml")
PATIENCE = 900.0  # seconds for the tests of one mistake
# Imports what tests need and what is never mutated, once; then every line of its input is a run of pytest in a fork.
NURSERY = """
import json, os, sys
import cvxpy, mpmath, numba, numpy, polars, pytest, scipy.sparse, scipy.special, scipy.stats, sklearn.metrics
assert "colonnade" not in sys.modules
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        os.setsid()
        os.environ.update(asked["environment"])
        os.dup2(os.open(asked["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--basetemp", asked["base"], *asked["tests"]])
        sys.stdout.flush()
        os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
HANGS, BEHIND = "a test that hangs", "what is left behind its tests"  # such as a file that stays open
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """One mistake: what is written instead of what, why it matters, and who must see it."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]

    def planted(self, root: Path = ROOT) -> str:
        """The file with the mistake in it; ValueError where its place is not found exactly once."""
        text = (root / self.file).read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: its old text stands {found} times in {self.file}")
        return text.replace(self.old, self.new)

    def digest(self) -> str:
        """Changes with the entry, with its file, and with its tests."""
        files = [self.file, *(test.partition("::")[0] for test in self.tests)]
        parts = [json.dumps(asdict(self)).encode(), *((ROOT / file).read_bytes() for file in files)]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()


@dataclass(frozen=True)
class Verdict:
    """What the tests said of one mistake: the test that saw it, empty where none did."""

    seen_by: str
    told: str = ""


def mutants() -> list[Mutant]:
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


class Copy:
    """A scratch copy of the tree, of which one file at a time is wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, files.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        self._python("-m", "compileall", "-q", "src", "tests")
        where = self._python("-c", "import colonnade; print(colonnade.__file__)").stdout.strip()
        if not Path(where).is_relative_to(folder):
            raise SystemExit(f"the tests of a copy would import {where}, which is not the copy in {folder}")
        self._nursery = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            cwd=folder,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def verdict(self, mutant: Mutant) -> Verdict:
        """What the named tests say with the mistake in place."""
        path, planted = self.folder / mutant.file, mutant.planted(self.folder)
        before, kept = path.stat(), path.read_bytes()
        try:
            path.write_text(planted, encoding="utf-8")
            os.utime(path, (before.st_mtime + 1000, before.st_mtime + 1000))  # so that no compiled form fits it
            return self.tested(mutant.tests, fresh="/kernels/" in mutant.file)
        finally:
            path.write_bytes(kept)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def tested(self, tests: tuple[str, ...], *, fresh: bool = False) -> Verdict:
        """`fresh`: compiled kernels hold what they call, so those of an earlier mistake must not be used."""
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "out"
            environment = {"NUMBA_CACHE_DIR": scratch} if fresh else {}
            # A folder of its own: pytest clears folders of earlier runs, and stumbles where another does so at once.
            asked = {"tests": tests, "out": str(out), "environment": environment, "base": str(Path(scratch) / "base")}
            assert self._nursery.stdin is not None
            assert self._nursery.stdout is not None
            self._nursery.stdin.write(json.dumps(asked) + "\n")
            self._nursery.stdin.flush()
            child = int(self._nursery.stdout.readline())
            late = threading.Timer(PATIENCE, _ended, [child])
            late.start()
            code = int(self._nursery.stdout.readline())
            late.cancel()
            _ended(child)  # whatever a failed test has left running
            told = out.read_text(encoding="utf-8", errors="replace")
        if code == -signal.SIGKILL:
            return Verdict(HANGS)
        if code not in (0, 1, 2):  # usage, nothing collected, no run at all
            raise SystemExit(f"pytest ended with {code} on {tests}:\n{told[-2000:]}")
        failed = FAILED.findall(told) or [BEHIND] * bool(code)
        return Verdict(failed[0] if failed else "", told[-1500:])

    def close(self) -> None:
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        self._nursery.wait()

    def _python(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=True,
        )

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        own = {"PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
        return kept | own | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _ended(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def judged(wanted: list[Mutant], processes: int) -> Iterator[tuple[Mutant, Verdict]]:
    """Every mistake with its verdict, as they come; a test that also fails without the mistake saw nothing."""
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(processes) as pool:
        free: Queue[Copy] = Queue()
        for copy in pool.map(Copy, (Path(scratch).resolve() / str(k) for k in range(processes))):
            free.put(copy)

        def one(mutant: Mutant) -> Verdict:
            copy = free.get()
            try:
                found = copy.verdict(mutant)
                same = mutant.tests if found.seen_by == BEHIND else (found.seen_by,)
                if found.seen_by not in ("", HANGS) and (without := copy.tested(same)).seen_by:
                    return Verdict("", f"{without.seen_by} fails without the mistake too:\n{without.told}")
                return found
            finally:
                free.put(copy)

        yield from zip(wanted, pool.map(one, wanted), strict=True)
        while not free.empty():
            free.get().close()


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--only", default="", help="those whose name or file holds this text")
    asked.add_argument("--processes", type=int, default=2)
    asked.add_argument("--again", type=Path, help="a file that keeps what was seen")
    given = asked.parse_args()
    known: dict[str, str] = json.loads(given.again.read_text()) if given.again and given.again.exists() else {}
    chosen = [one for one in mutants() if given.only in one.name or given.only in one.file]
    for one in chosen:
        one.planted()
    wanted = [one for one in chosen if known.get(one.name) != one.digest()]
    survivors = []
    for one, verdict in judged(wanted, given.processes):
        print(f"{'seen     ' if verdict.seen_by else 'SURVIVED '} {one.name}: {verdict.seen_by or one.why}", flush=True)
        if verdict.seen_by:
            known[one.name] = one.digest()
            if given.again:
                given.again.write_text(json.dumps(known, indent=1))
        else:
            survivors.append(one.name)
            print(verdict.told, flush=True)
    print(f"{len(chosen)} planted, {len(chosen) - len(wanted)} of them seen before; {len(survivors)} survived")
    print(*(f"survived: {name}" for name in survivors), sep="\n")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
