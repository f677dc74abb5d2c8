"""What was approved and is not reserved yet: so that nobody is asked twice about one proposal.

A run is proposed twice (party_service.py): first all parties consider it, and only when all would take part do they
reserve. Between the two a party keeps in memory that its operator, or its policy, said yes. What was said yes to is a
digest of everything that was shown: another call, other rows, or one more run of scores since then, and the question is
put again. A process that died in between has forgotten it, and asks again.

The hub chooses how often it proposes. So only the newest few are kept: the oldest is forgotten, and asked about again.
"""

from __future__ import annotations

import hashlib

MOST = 64


class Approvals:
    """The newest approvals, one a run."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def has(self, run: str, *shown: object) -> bool:
        return self._kept.get(run) == _digest(shown)

    def keep(self, run: str, *shown: object) -> None:
        self.forget(run)
        self._kept[run] = _digest(shown)
        if len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]

    def forget(self, run: str) -> bool:
        """Whether there was one."""
        return self._kept.pop(run, None) is not None


def _digest(shown: tuple[object, ...]) -> bytes:
    return hashlib.sha256(repr(shown).encode()).digest()
