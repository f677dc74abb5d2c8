"""Methods say what is said to whom: one folder per family, node programs that read like the paper they come from.

`methods/method.py` is the face that every method has, `methods/gatekeeper.py` checks a call, `methods/node_setup.py`
turns a job into nodes. Imports: `data` and below. Start with `methods/method.py`, then `frank_wolfe/distributed.py`,
the model for a new one.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module


def load_all() -> None:
    """Import every method: the table of messages is then whole, for whoever names messages of others' runs."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
