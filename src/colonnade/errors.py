"""Every error Colonnade raises on purpose, in one tree under ColonnadeError, and every warning under ColonnadeWarning.

`warnings.filterwarnings("error", category=...)` turns a warning into an error.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType
from typing import Literal


class ColonnadeError(Exception):
    """Root of all errors raised on purpose."""


class InvalidInput(ColonnadeError, ValueError):
    """The data, a bound or a setting cannot be used; the message says which and what to do.

    Parameters
    ----------
    message
        What happened, and what to do next.
    setting
        Its name, where it is one setting of a value: whoever reads values from a file finds its line by it.
    """

    def __init__(self, message: str = "", setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


class LeakError(ColonnadeError):
    """Something would have left a party without passing its gate. Nothing was sent."""


class WireError(ColonnadeError):
    """Bytes that are not a message of ours."""


class ProtocolError(ColonnadeError):
    """A node broke the rules of the conversation, or nobody can go on."""


class PeerFailed(ProtocolError):
    """Another node said that it stops."""


class PartyLost(ProtocolError):
    """A party was silent past its deadline, and the run cannot go on without it."""


class BudgetExhausted(ColonnadeError):
    """A release would cost more than its owner allows. Nothing was sent."""


class PolicyRefused(ColonnadeError):
    """A party's policy forbids what a run asks for. Nothing was sent."""


class ReplayDiverged(ColonnadeError):
    """A resumed run does not compute what it computed before: other data, code or settings."""


class LedgerDamaged(ColonnadeError):
    """A ledger or transcript cannot be trusted any more; it refuses to release anything."""


class StoreError(ColonnadeError):
    """The disk said no: read-only, full, locked."""


class HeldByParty(ColonnadeError):
    """The value exists, at a party, and stays there."""


class FinishedInterrupt(KeyboardInterrupt):
    """Ctrl-C after a run had finished; its note says where the fit is."""


class ColonnadeWarning(UserWarning):
    """Root of all warnings of ours."""


class NothingToLearn(ColonnadeWarning):
    """A private run would spend its budget on columns or labels that carry nothing; said before it spends more."""


class UnusedLevels(ColonnadeWarning):
    """Declared levels that no row has, in a table that is otherwise in order: for information before a private run."""


class MostlyNoise(ColonnadeWarning):
    """What a private run released is about what noise alone would make: the model is hardly better than none."""


class NotPrivate(ColonnadeWarning):
    """What is about to be computed is covered by no statement."""


class unquoted(ContextDecorator):  # noqa: N801  # used as contextlib's are: @unquoted(), with unquoted():
    """Around whatever touches cells: no message of another library leaves with an error, since it may quote cells.

    An error of ours loses the foreign ones that hang on it as cause or context, where tracebacks and loggers find them.
    A foreign one that complains about values becomes InvalidInput with its type alone: only where it says `about`, if
    that is given. Errors of the system stay: they name files.
    """

    def __init__(self, about: str = "") -> None:
        self.about = about

    def __enter__(self) -> unquoted:
        return self

    def __exit__(self, _: object, error: BaseException | None, at: TracebackType | None) -> Literal[False]:
        if isinstance(error, ColonnadeError):
            _forget_foreign(error, set())
        elif (isinstance(error, ValueError) and self.about in str(error)) or quoting(error):
            what = f"some cells cannot be used ({type(error).__name__}; its message may quote one and is not shown)"
            clean = InvalidInput(f"{what}. Is every column of one type, and as its schema says?").with_traceback(at)
            try:
                raise clean
            except InvalidInput:
                clean.__context__ = None
                raise
        return False


def quoting(error: BaseException | None) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyarrow", "polars", "pandas", "adbc_driver_manager")


def _forget_foreign(error: BaseException, seen: set[int]) -> None:
    if id(error) in seen:
        return
    seen.add(id(error))
    for link in ("__cause__", "__context__"):
        other = getattr(error, link)
        if isinstance(other, ColonnadeError):
            _forget_foreign(other, seen)
        elif other is not None and not isinstance(other, OSError):
            setattr(error, link, None)
