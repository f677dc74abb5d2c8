"""Every error Colonnade raises on purpose, in one tree.

ColonnadeError
├── InvalidInput        the data, a bound or a setting cannot be used (also a ValueError)
├── LeakError           something would have left a party without passing its gate
├── WireError           bytes that are not a message of ours
├── ProtocolError       a node broke the rules of the conversation, or nobody can go on
│   └── PeerFailed      another node said that it stops
├── BudgetExhausted     a release would cost more than its owner allows
├── PolicyRefused       a party's policy forbids what a run asks for
├── ReplayDiverged      a resumed run does not compute what it computed before
├── LedgerDamaged       a ledger or transcript cannot be trusted any more
├── StoreError          the disk said no: read-only, full, locked
└── HeldByParty         the value exists, at a party, and stays there
"""

from __future__ import annotations


class ColonnadeError(Exception):
    """Root of all errors raised on purpose."""


class InvalidInput(ColonnadeError, ValueError):
    """The data, a bound or a setting cannot be used; the message says which and what to do."""


class LeakError(ColonnadeError):
    """Something would have left a party without passing its gate. Nothing was sent."""


class WireError(ColonnadeError):
    """Bytes that are not a message of ours."""


class ProtocolError(ColonnadeError):
    """A node broke the rules of the conversation, or nobody can go on."""


class PeerFailed(ProtocolError):
    """Another node said that it stops."""


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
