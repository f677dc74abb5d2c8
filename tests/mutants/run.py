"""Plants every mistake of `list.toml`, one at a time, in a scratch copy of the tree: the tests named for it must see it.

    python tests/mutants/run.py [--only TEXT] [--processes 2] [--again FILE]

A mistake is seen when a named test fails or hangs, and when that test passes on the code as it is. Ends with 1 if one is not
seen, or if its text is no longer found exactly once. `--only` takes those whose name or file holds the text; with `--again`
what was seen is kept in a file, and is not run again while neither the entry, its file nor its tests have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("list.toml")
PATIENCE = 900.0  # seconds for the tests of one mistake
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
        with tempfile.TemporaryDirectory() as kernels:
            more = {"NUMBA_CACHE_DIR": kernels} if fresh else {}
            try:
                done = self._python("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests, **more)
            except subprocess.TimeoutExpired:
                return Verdict("a test that hangs")
        if done.returncode not in (0, 1, 2):  # usage, nothing collected, killed
            raise SystemExit(
                f"pytest ended with {done.returncode} on {tests}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        failed = FAILED.findall(done.stdout)
        return Verdict(failed[0] if failed else "", done.stdout[-1500:])

    def _python(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        environment |= {"PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1", **more}
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )


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
                if "::" in found.seen_by and (without := copy.tested((found.seen_by,))).seen_by:
                    return Verdict("", f"{without.seen_by} fails without the mistake too:\n{without.told}")
                return found
            finally:
                free.put(copy)

        yield from zip(wanted, pool.map(one, wanted), strict=True)


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
