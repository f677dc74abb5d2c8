"""One method a file: node programs that read like the paper."""

from __future__ import annotations

import pkgutil
from importlib import import_module


def load_all() -> None:
    """Import every method, so that the table of messages is whole: for whoever names messages of runs that others made."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
