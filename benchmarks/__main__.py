"""Run every benchmark: `python -m benchmarks [--full] [NAME ...]`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import time

import benchmarks

HELPERS = {"__main__", "timing", "conftest", "elsewhere", "service_warm", "skglm_program", "spu_program"}


def main() -> int:
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in HELPERS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(names)} (default: all)")
    parser.add_argument("--full", action="store_true", help="the sizes of the papers, instead of quick ones")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.names if name not in names]:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(names)}")
    failed = 0
    for name in chosen.names or names:
        print(f"== {name} {'full' if chosen.full else 'quick'}", flush=True)
        began = time.perf_counter()
        failed |= importlib.import_module(f"benchmarks.{name}").main(quick=not chosen.full)
        print(f"   ({time.perf_counter() - began:.0f} s)\n", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
