"""What may leave a party, as a type.

`Released` marks a value that passed a gate (or came off the wire, where the sender's gate let it out). It is immutable:
it keeps the bytes it was encoded to at the moment of release, and those bytes are what is sent, so nothing done to the
value afterwards can change what leaves. Only the gate and the decoder make one; a test reads the source to hold us to
it.

`Private` is the opposite: an exact value together with how far it can move when one unit of data is replaced. It is the
only thing a noisy mechanism of the gate accepts, so a sensitivity cannot come from a message.

The boundary stops mistakes, not hostile code running inside a party.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from colonnade.errors import InvalidInput, LeakError

T = TypeVar("T")
_MARK = object()


class Released(Generic[T]):
    """A value that passed a gate. Read it with `.value`; nobody can change it."""

    __slots__ = ("_body", "_mark", "_value")
    _body: bytes
    _mark: object
    _value: T

    def __init__(self, *_: object) -> None:
        raise LeakError("only a gate makes a Released: pass the value through gate.exact or a noisy mechanism")

    @property
    def value(self) -> T:
        return self._value

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise LeakError(f"a released value cannot be changed (tried to set {name!r})")

    __delattr__ = __setattr__  # type: ignore[assignment]  # both only refuse

    def __repr__(self) -> str:
        return f"Released({self._value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Released) and released_body(self) == released_body(other)

    def __hash__(self) -> int:
        return hash(self._body)

    def __reduce__(self) -> NoReturn:
        raise LeakError("a Released cannot be pickled or copied; send it in a message")


def make_released(value: T, body: bytes) -> Released[T]:
    """For the gate and the decoder only: mark `value`, which encodes to `body`, as released."""
    released: Released[T] = object.__new__(Released)
    object.__setattr__(released, "_value", value)
    object.__setattr__(released, "_body", body)
    object.__setattr__(released, "_mark", _MARK)
    return released


def released_body(released: Released[Any]) -> bytes:
    """The bytes fixed at release; a Released that no gate made is refused."""
    if getattr(released, "_mark", None) is not _MARK:
        raise LeakError("this Released was not made by a gate; pass the value through the gate")
    return released._body


@dataclass(frozen=True, slots=True)
class Private(Generic[T]):
    """An exact value that stays, and the most it moves (L2; entrywise for scores) when one unit is replaced."""

    value: T
    sensitivity: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sensitivity) and self.sensitivity > 0):
            raise InvalidInput(
                f"a private value needs a finite, positive sensitivity, got {self.sensitivity}. "
                "Give public bounds (row_norm, feature_bound, label_bound) from which it can be computed."
            )
