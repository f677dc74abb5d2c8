"""`make soak`: repeats `make test`, and adds a line a run to soak.txt: date, commit, counts, seconds, beside what.

Ctrl-C ends it after a summary of all lines of the file; the next call goes on with the same file. A run that was stopped
is not counted.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "soak.txt"
COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")
SPIN = "while True: pass"


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """A program beside the tests that keeps every core busy."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range((os.cpu_count() or 1) * wanted)]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


def commit() -> str:
    """The commit that is tested, with a plus sign if files differ from it."""
    said = subprocess.run(["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


def line(told: str, code: int, seconds: float, beside: bool, tested: str) -> str:
    """What is kept of a run; one without a last line of pytest's has failed."""
    last = next((text for text in reversed(told.splitlines()) if COUNTS.search(text)), "")
    counts = Counter({what.rstrip("s") if what == "errors" else what: int(n) for n, what in COUNTS.findall(last)})
    bad = counts["failed"] + counts["error"]
    words = [f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", tested, "failed" if code or bad or not last else "passed"]
    words += [f"{counts['passed']} passed", f"{bad} failed", f"{seconds:.0f} s", "busy" if beside else "quiet"]
    names = re.findall(r"^(?:FAILED|ERROR) (\S+)", told, re.MULTILINE)
    return "  ".join([*words, *names])


def summary(lines: list[str]) -> str:
    """How often the whole passed, and what failed how often."""
    split = [text.split("  ") for text in lines]
    failed = [words for words in split if words[2] == "failed"]
    seconds = sorted(int(words[5].split()[0]) for words in split)
    told = [f"{len(split)} runs, {len(failed)} failed"]
    if seconds:
        told[0] += f"; {seconds[0]} to {seconds[-1]} seconds, half of them within {seconds[len(seconds) // 2]}"
    often = Counter(name for words in failed for name in words[7:])
    return "\n".join([*told, *(f"{count:4d}  {name}" for name, count in often.most_common())])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=0, help="end after so many; 0: never")
    parser.add_argument("--busy", action="store_true")
    asked, done = parser.parse_args(), 0
    try:
        with busy(asked.busy):
            while not asked.runs or done < asked.runs:
                begun, tested = time.monotonic(), commit()
                run = subprocess.run(["make", "test"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
                with FILE.open("a") as file:
                    print(line(run.stdout, run.returncode, time.monotonic() - begun, asked.busy, tested), file=file)
                print(FILE.read_text().splitlines()[-1], flush=True)
                done += 1
    except KeyboardInterrupt:
        print(" stopped; the run that was under way is not counted")
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    print(summary(lines))
    return int(any(text.split("  ")[2] == "failed" for text in lines[len(lines) - done :]))


if __name__ == "__main__":
    sys.exit(main())
