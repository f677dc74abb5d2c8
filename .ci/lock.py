"""Prints what `pip install '.[grpc,serve]'` would bring, and what builds it, as constraints.txt has it, with hashes.

    make lock      # on Linux, x86-64, with Python 3.11; it writes examples/locked-linux-x86_64.txt

The container installs from that list alone: a file that differs by one byte is refused. A hash is that of a platform's
own file, and constraints with hashes make pip refuse the editable install of `make`: so constraints.txt has none.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--dry-run"]


def main() -> None:
    here = (platform.system(), platform.machine(), sys.version_info[:2])
    if here != ("Linux", "x86_64", (3, 11)):
        raise SystemExit(f"this is {here}; the list is for Linux on x86_64 with Python 3.11. Lock there.")
    command = [
        *PIP,
        "--ignore-installed",
        "--report",
        "-",
        "--constraint",
        "constraints.txt",
        ".[grpc,serve]",
        "hatchling",
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    lines = []
    for found in json.loads(done.stdout)["install"]:
        name, version = found["metadata"]["name"], found["metadata"]["version"]
        if name == "colonnade":
            continue
        digest = found["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name.lower()}=={version} --hash=sha256:{digest}\n")
    sys.stdout.write("".join(sorted(lines)))


if __name__ == "__main__":
    main()
