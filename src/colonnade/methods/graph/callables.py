"""What a function of the user's is, in one digest: so that a run kept in a store goes on with the same functions.

Claim    equal digests mean the same code, defaults, captured values and global values, under the same Python and the same
         versions of the packages it names. Where that cannot be told, there is no digest: never a wrong one.
Method   a walk over the code object and everything it can reach by name. Arrays count by their bytes; functions of
         installed packages and of Python itself by name and version; everything else of the user's by its parts.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np


class _Unknown(Exception):
    """Something whose content cannot be told."""


def digest(function: Callable[..., Any]) -> str | None:
    """16 hexadecimal digits, or None where the function reaches something that cannot be identified."""
    try:
        return hashlib.sha256(bytes("\n".join(_parts(function, ())), "utf-8")).hexdigest()[:16]
    except _Unknown:
        return None


def _parts(value: Any, above: tuple[int, ...]) -> Iterator[str]:
    """Lines that say what `value` is; `above` are the values that contain it, so that recursion ends."""
    if id(value) in above:
        yield f"again {len(above) - above.index(id(value))}"
        return
    inner = (*above, id(value))
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes() | np.generic():
            yield f"{type(value).__name__} {value!r}"
        case np.ndarray() if value.dtype != object:
            yield f"array {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
        case tuple() | list():
            yield f"{type(value).__name__} {len(value)}"
            for item in value:
                yield from _parts(item, inner)
        case dict():
            yield f"dict {len(value)}"
            for key, item in value.items():
                yield from (*_parts(key, inner), *_parts(item, inner))
        case frozenset() | set():
            yield f"set {sorted(' '.join(_parts(item, inner)) for item in value)}"
        case ModuleType():
            yield f"module {_version(value.__name__)}"
        case CodeType():
            yield f"code {sys.version_info[:3]} {value.co_code.hex()} {value.co_names} {value.co_varnames} {value.co_flags}"
            yield from _parts(value.co_consts, inner)
        case functools.partial():
            yield "partial"
            yield from _parts((value.func, value.args, value.keywords), inner)
        case FunctionType() if _installed(value.__module__):
            yield f"function {_version(value.__module__)} {value.__qualname__}"
        case FunctionType():
            yield "function"
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            known = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
            yield from _parts((value.__code__, value.__defaults__, value.__kwdefaults__, cells, known), inner)
        case BuiltinFunctionType() | np.ufunc() | type():
            module = getattr(value, "__module__", None) or "builtins"
            yield f"function {_version('numpy' if isinstance(value, np.ufunc) else module)} {value.__name__}"
        case _:
            raise _Unknown


def _names(code: CodeType) -> list[str]:
    """Every name that the code or a function inside it uses; what it imports on the way must be identified by its version."""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            _version(str(step.argval))
    inside = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return sorted({*code.co_names, *inside})


def _installed(module: str | None) -> bool:
    try:
        _version(module or "")
    except _Unknown:
        return False
    return True


def _version(module: str) -> str:
    """A module of Python, or of a package that says its version; of anything else the content is unknown."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names and package != "__main__":
        return f"{module} {sys.version_info[:3]}"
    known = getattr(sys.modules.get(package), "__version__", None)
    if known is None:
        raise _Unknown
    return f"{module} {known}"
