"""What a party's refusal means, in words: why it may be, what to do next, what was spent.

A party says no by a fixed code and never by a text, since text may carry data; the reason itself is a line of its own
log. The words depend on the code, the question and whether it is about scores: the coordinator knows all three.
"""

from __future__ import annotations

from dataclasses import replace

from colonnade.errors import ColonnadeError, PeerFailed
from colonnade.network.questions import Phase, Question
from colonnade.privacy.events import Ending
from colonnade.runtime.program import FailureCode


class PeerSilent(PeerFailed):
    """A party did not answer in time."""

    party = ""


class PeerRefused(PeerFailed):
    """A party's policy, budget or operator said no."""


class PeerBroken(PeerFailed):
    """A party could not answer, or its part of a run failed."""


class PeerUndecided(ColonnadeError):
    """A party's operator has not decided on a run yet: nothing is refused, and it can be proposed again."""

    def __init__(self, party: str) -> None:
        self.party = party
        super().__init__(
            f"the operator of {party!r} has not decided yet (`colonnade party inbox` shows the question there), or too "
            "many runs were proposed to it at once. Nothing was sent."
        )


_REALIGN = "Let every party run `colonnade party realign`, and repeat the call."
_MEND = "Ask its operator, and repeat the call when that is mended: it begins a new run."
# What a code may mean, and what to do: in a phase, or else at any time.
_ALWAYS = {
    FailureCode.STOPPED: "something in its data, files or program is not as it should be. Ask its operator.",
    FailureCode.REFUSED: "its policy or its budget does not allow it. Ask its operator.",
    FailureCode.PROTOCOL: "what it was sent does not fit what it keeps or expects. Check that all have the same "
    "version and the same file: `colonnade federation check`.",
    FailureCode.LOST: "it was given up after its deadline. Check that all parties are there, and repeat the call.",
    FailureCode.TIMEOUT: "it waited too long for somebody else. Check that all parties are there, and repeat the call.",
}
_PROPOSED = {
    FailureCode.REFUSED: "its policy, budget or operator did not approve the terms. Ask its operator which; then "
    "propose a smaller epsilon or another method, or have the policy, the [limits] of its file or the budget changed.",
    FailureCode.STOPPED: "it cannot run this: another release of colonnade or protocol of the method, columns that do "
    "not fit, or no part of the model that is to score. Try `colonnade federation check`, then ask its operator.",
    FailureCode.PROTOCOL: f"it keeps another agreement on rows, or knows this run by another call. {_REALIGN}",
}
_IN_PHASE = {
    Phase.ALIGNING: {
        FailureCode.REFUSED: "it has agreed on rows before, or fewer rows are common to all than one party accepts. "
        f"Check that all write the key in the same way. {_REALIGN}",
        FailureCode.PROTOCOL: f"this alignment does not go on as it began. {_REALIGN}",
    },
    Phase.CONSIDERED: _PROPOSED,
    Phase.PROPOSED: _PROPOSED,
    Phase.MEETING: {
        FailureCode.PROTOCOL: f"the parties were told different things of this run, or a table has changed. {_REALIGN}",
    },
    Phase.RUNNING: {
        FailureCode.REFUSED: f"its policy, its budget or the plan that it approved forbids the next step. {_MEND}",
        FailureCode.STOPPED: f"its part of the run failed, and the run is over there. {_MEND}",
        FailureCode.PROTOCOL: "another node had stopped (whose log stopped first?), or sent it what it cannot accept. "
        f"{_MEND}",
    },
}
# Scores have no epsilon that could be smaller: what decides is named in words.
_SCORES = (
    "its policy, its [limits] or its operator did not approve the scores. Ask its operator which; then let its owner "
    "write scores = true into its policy (all change the federation file), or in the [limits] of its file name "
    "MaskedScores, raise scores (how many runs of scores pass) or add the run of this model to models."
)
_STRANGE = "it gives no reason that this version knows. Install the same version of colonnade on both sides."

_COUNTS_ON = "and goes on counting what the others planned about the same rows"
_RETURNS = f"Every party gets back what it did not send, {_COUNTS_ON}."
_SPENT = {
    Phase.BEFORE: "This question spends nothing.",
    Phase.ALIGNING: "No run was begun, and nothing was spent.",
    Phase.CONSIDERED: "If nobody had reserved, nothing was sent and nothing was spent, at no party. Else (the run had "
    f"begun before, or a party was restarted meanwhile) what had left is spent. {_RETURNS}",
    Phase.PROPOSED: "Nothing was sent for it; do not repeat it before all agree. Whoever had reserved already gets "
    f"back its own part, {_COUNTS_ON}.",
    Phase.MEETING: f"Nothing leaves when parties meet. {_RETURNS}",
    Phase.RUNNING: f"What had left any party is spent, and in its ledger. {_RETURNS}",
}
_UNDECIDED = "Its operator may not have decided yet: ask, and repeat the call, with a longer patience if need be."
_HANGS = "Its process hangs, is slower than that, or cannot be reached. Look at its log, and repeat the call."


def silence(party: str, what: Question, seconds: float) -> PeerSilent:
    """What to tell the coordinator's user when a party does not answer a question."""
    why = _UNDECIDED if what.phase is Phase.CONSIDERED else _HANGS
    error = PeerSilent(f"{party!r} did not answer {what!r} for {seconds:g} seconds. {why} {_SPENT[what.phase]}")
    error.party = party
    return error


def refusal(party: str, what: Question, code: object, *, scores: bool = False) -> PeerFailed:
    """What to tell the coordinator's user when a party refuses a question; `scores`: about a run of scores."""
    when = what.phase
    known = {int(one) + 1: one for one in FailureCode}.get(code) if type(code) is int else None
    name = known.name.lower() if known is not None else "unknown code" if isinstance(code, int) else "no code"
    why = _STRANGE if known is None else (_ALWAYS | _IN_PHASE.get(when, {}))[known]
    if scores and known is FailureCode.REFUSED and when in (Phase.CONSIDERED, Phase.PROPOSED):
        why = _SCORES
    if when is Phase.PROPOSED:
        why += " It had said that it would take part: something changed since, or its table does not suit the problem."
    kind = PeerRefused if known is FailureCode.REFUSED else PeerBroken
    return kind(f"{party!r} refused {what!r} ({name}): {why} {_SPENT[when]} Its own log says why.")


def for_others(ending: Ending) -> Ending:
    """How a run ended, for other parties: not whether one refused, was silent or failed, that may tell of a budget."""
    ours = {kind.__name__ for kind in (PeerSilent, PeerRefused, PeerBroken)}
    return replace(ending, error=PeerFailed.__name__) if ending.error in ours else ending
