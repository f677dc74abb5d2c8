"""Faces: what solvers, nodes and engines call is explained once, at its protocol, and `help` shows it everywhere."""

from __future__ import annotations

import functools
import inspect
from typing import Any

SECTIONS = "\n\nParameters\n----------\n"


def explain(face: type, *kinds: type) -> None:
    """Give the methods of these kinds the words of the face: all where they have none, else on the parameters."""
    for name in dir(face):
        at_face = _plain(face, name)
        if name.startswith("_") or not (said := inspect.getdoc(at_face)):
            continue
        for kind in kinds:
            own = _plain(kind, name)
            documented = isinstance(own, property | functools.cached_property) or inspect.isfunction(own)
            if documented and own is not at_face:
                own.__doc__ = joined(inspect.getdoc(own) or "", said)


def explain_by_bases(kind: type, module: str) -> None:
    """The same by those of its bases that this module defines, the nearest first: for `__init_subclass__`."""
    for face in kind.__mro__[1:]:
        if face.__module__ == module:
            explain(face, kind)


def joined(own: str, said: str) -> str:
    """A docstring of its own with the face's sections behind it, or the face's where it has none."""
    if not own:
        return f"{said}\n" if "\n" in said else said
    if SECTIONS in own or SECTIONS not in said:
        return f"{own}\n" if "\n" in own else own
    return f"{own}{SECTIONS}{said.partition(SECTIONS)[2]}\n"


def _plain(kind: type, name: str) -> Any:
    """The function or property that a class has under this name."""
    found = inspect.getattr_static(kind, name, None)
    return found.__func__ if isinstance(found, classmethod | staticmethod) else found
