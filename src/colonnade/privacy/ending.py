"""How a run ended: a word, the name of the error if there was one, and whether another organisation says so.

Journals and ledgers keep it as it is; what people read is made from it (`Ending.words`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum


class How(StrEnum):
    """The ways in which a run ends."""

    FINISHED = "finished"
    REFUSED = "refused"  # before it began: nothing was sent anywhere
    FAILED = "failed"
    ABORTED = "aborted"  # by its owner, after an interruption
    INTERRUPTED = "interrupted"
    LEFT_BEHIND = "left behind"  # it finished without this party, which was lost on the way


# Of other parties a party hears PeerFailed and no more (network/refusals.py): which of the three it was is theirs.
_ERRORS = {
    "PeerSilent": "failed: a party did not answer in time",
    "PeerRefused": "refused: a party's policy, budget or operator said no",
    "PeerBroken": "failed: a party could not go on",
    "PeerFailed": "failed: another node refused, could not go on or did not answer",
    "PolicyRefused": "refused: a policy does not allow it",
    "BudgetExhausted": "refused: a budget does not allow it",
    "InvalidInput": "failed: data, files or settings do not fit it",
    "LeakError": "failed: something would have left without passing a gate",
    "WireError": "failed: something came that is no message of ours",
    "ProtocolError": "failed: a node broke the rules of the conversation, or nobody could go on",
}


_ERROR = re.compile(r"\w{1,80}", re.ASCII)
_CODE = re.compile(rf"(?P<hub>hub/)?(?P<how>{'|'.join(How)})(?:/(?P<error>{_ERROR.pattern}))?", re.ASCII)
_WORDS = {How.LEFT_BEHIND: "finished after this party was lost"}


@dataclass(frozen=True, slots=True)
class Ending:
    """How one run ended."""

    how: How
    error: str = ""  # the name of its kind
    by_hub: bool = False  # another organisation says so

    def __post_init__(self) -> None:
        # A name that no code can hold would be written and never read again, and so close a ledger for good.
        if self.error and not _ERROR.fullmatch(self.error):
            object.__setattr__(self, "error", "Exception")

    @property
    def returns_all(self) -> bool:
        """Whether what other parties reserved about the same rows returns, too: nothing was sent anywhere. The word of
        another organisation is not enough for that."""
        return self.how is How.REFUSED and not self.by_hub

    @property
    def finished(self) -> bool:
        return self.how is How.FINISHED

    @property
    def words(self) -> str:
        """For people."""
        said = _ERRORS.get(self.error) or _WORDS.get(self.how) or ": ".join(filter(None, [self.how, self.error]))
        return f"the hub says: {said}" if self.by_hub and not self.finished else said

    def told_by_hub(self) -> Ending:
        return replace(self, by_hub=True)

    @property
    def code(self) -> str:
        """As journals, ledgers and the wire have it: finished, refused/PolicyRefused, hub/failed/PeerFailed."""
        return "/".join(filter(None, ["hub" * self.by_hub, self.how, self.error]))

    @classmethod
    def of(cls, code: object) -> Ending:
        """The ending with this code, or ValueError."""
        if not (isinstance(code, str) and (found := _CODE.fullmatch(code))):
            raise ValueError(f"no code of an ending: {code!r}")
        return cls(How(found["how"]), found["error"] or "", found["hub"] is not None)


FINISHED = Ending(How.FINISHED)
ABORTED = Ending(How.ABORTED)
