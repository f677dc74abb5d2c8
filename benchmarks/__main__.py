"""Run every benchmark: `python -m benchmarks [--full | --smoke] [NAME ...]`.

A quick run is for a look, a full one for figures that are quoted. A smoke run says only that a benchmark still runs: what
`smoke` of its file does, or else a quick run; bars are printed, and missed ones are no failure.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import time

import benchmarks
from benchmarks import elsewhere

HELPERS = {"__main__", "timing", "conftest", "elsewhere", "service_warm", "skglm_program", "spu_program"}


def main() -> int:
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in HELPERS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(names)} (default: all)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="the sizes of the papers, instead of quick ones")
    size.add_argument("--smoke", action="store_true", help="only whether it runs; exits with 0 whatever it measures")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.names if name not in names]:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(names)}")
    elsewhere.INSTALLS = not chosen.smoke
    failed = 0
    for name in chosen.names or names:
        print(f"== {name} {'full' if chosen.full else 'smoke' if chosen.smoke else 'quick'}", flush=True)
        began, module = time.perf_counter(), importlib.import_module(f"benchmarks.{name}")
        if chosen.smoke:
            module.smoke() if hasattr(module, "smoke") else module.main(quick=True)
        else:
            failed |= module.main(quick=not chosen.full)
        print(f"   ({time.perf_counter() - began:.0f} s)\n", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
