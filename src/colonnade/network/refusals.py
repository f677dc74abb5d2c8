"""What a party's refusal means, in words: why it may be, what to do next, what was spent.

A party says no by a fixed code and never by a text, since text may carry data (party_service.py). So whoever runs the
coordinator learns what kind of reason there is and whom to ask; the reason itself is a line of the party's own log. The
words depend on the code, the question and whether it is about scores, which the coordinator knows anyway.
"""

from __future__ import annotations

from colonnade.errors import PeerFailed
from colonnade.network.questions import Phase, Question
from colonnade.runtime.messages import FailureCode


class PeerSilent(PeerFailed):
    """A party did not answer in time."""


class PeerRefused(PeerFailed):
    """A party's policy, budget or operator said no."""


class PeerBroken(PeerFailed):
    """A party could not answer, or its part of a run failed."""


# What a code means at any time, and what to do; then at times at which more can be said.
_REASONS = {
    FailureCode.STOPPED: "something in its data, its files or its program is not as it should be. Ask its operator.",
    FailureCode.REFUSED: "its policy or its budget does not allow it. Ask its operator.",
    FailureCode.PROTOCOL: "what it was sent does not fit what it keeps or expects. Check with `colonnade federation "
    "check` that all have the same version and the same file.",
    FailureCode.TIMEOUT: "it waited too long for somebody else. Check that all parties are there, and repeat the call.",
}
_ALIGNING = {
    FailureCode.REFUSED: "it has agreed on rows before, or too few rows are common to all parties for the least that "
    "one of them accepts. Check that all write the key in the same way; then let every party run `colonnade party "
    "realign`.",
    FailureCode.PROTOCOL: "this alignment does not go on as it began. Let every party run `colonnade party realign`, "
    "and repeat the call.",
}
_PROPOSED = {
    FailureCode.REFUSED: "its policy, its budget or its operator did not approve the terms. Ask its operator which; "
    "then propose a smaller epsilon or another method, or let its owner change the policy, the [limits] of its file "
    "or the budget.",
    FailureCode.STOPPED: "it cannot run what was proposed. It may have another version of colonnade or of the "
    "method's code, columns that do not fit the problem, or no part of the model that is to score. Compare versions "
    "with `colonnade federation check`, then ask its operator.",
    FailureCode.PROTOCOL: "it keeps another agreement on rows than the coordinator, or knows this run by another "
    "call. Let every party run `colonnade party realign` if the rows are the reason, and repeat the call.",
}
# Scores have no epsilon that could be smaller: what decides is named in words.
_SCORES = (
    "its policy, its [limits] or its operator did not approve the scores. Ask its operator which; then let its owner "
    "write scores = true into its policy (all change the federation file), name MaskedScores in the [limits] of its "
    "file, raise scores there (how many runs of scores pass) or add the run of this model to models there."
)
_MEETING = {
    FailureCode.PROTOCOL: "what the parties say of this run or of their rows does not match: they were told different "
    "things, or a table has changed. Let every party run `colonnade party realign`, and repeat the call.",
}
_RUNNING = {
    FailureCode.REFUSED: "its policy, its budget or the plan that it approved does not allow the next step. Ask its "
    "operator, and repeat the call when all agree: it begins a new run.",
    FailureCode.STOPPED: "its part of the run failed, and the run is over there. Ask its operator, and repeat the "
    "call when it is mended: it begins a new run.",
    FailureCode.PROTOCOL: "it heard that another node had stopped, or was sent something that it cannot accept. Ask "
    "all operators whose log stopped first, and repeat the call when that is mended: it begins a new run.",
}
_REASONS_THEN = {
    Phase.BEFORE: _REASONS,
    Phase.ALIGNING: _REASONS | _ALIGNING,
    Phase.CONSIDERED: _REASONS | _PROPOSED,
    Phase.PROPOSED: _REASONS | _PROPOSED,
    Phase.MEETING: _REASONS | _MEETING,
    Phase.RUNNING: _REASONS | _RUNNING,
}
_STRANGE = "it gives no reason that this version knows. Install the same version of colonnade on both sides."

_COUNTS_ON = "and goes on counting what the others planned about the same rows"
_SPENT = {
    Phase.BEFORE: "This question spends nothing.",
    Phase.ALIGNING: "No run was begun, and nothing was spent.",
    Phase.CONSIDERED: "This is asked before anybody reserves: if nobody had, nothing was sent and nothing was spent, "
    "at no party. If somebody had (the run had begun before, or a party was restarted while others reserved), what "
    f"had left is spent; every party gets back what it did not send, {_COUNTS_ON}.",
    Phase.PROPOSED: f"Nothing was sent for it. Whoever had reserved already gets back its own part, {_COUNTS_ON}: do "
    "not repeat it before all agree.",
    Phase.MEETING: f"Nothing leaves when parties meet. Every party gets back what it did not send, {_COUNTS_ON}.",
    Phase.RUNNING: "What had left any party is spent, and in its ledger. Every party gets back what it did not send, "
    f"{_COUNTS_ON}.",
}


_SILENT = {
    Phase.CONSIDERED: "Its operator may not have said yes or no yet, or its process hangs. Ask its operator, and "
    "repeat the call, with a longer patience if the answer needs time.",
}
_HANGS = "Its process hangs, is slower than that, or cannot be reached. Look at its log, start it again if need be, "
"and repeat the call."


def silence(party: str, what: Question, seconds: float) -> PeerSilent:
    """What to tell the coordinator's user when a party does not answer a question."""
    when = what.phase
    why = _SILENT.get(when, _HANGS)
    return PeerSilent(f"{party!r} did not answer {what!r} for {seconds:g} seconds. {why} {_SPENT[when]}")


def refusal(party: str, what: Question, code: object, *, scores: bool = False) -> PeerFailed:
    """What to tell the coordinator's user when a party refuses a question; `scores`: about a run of scores."""
    when = what.phase
    known = {int(one) + 1: one for one in FailureCode}.get(code) if type(code) is int else None
    name = known.name.lower() if known is not None else "unknown code" if isinstance(code, int) else "no code"
    why = _STRANGE if known is None else _REASONS_THEN[when][known]
    if scores and known is FailureCode.REFUSED and when in (Phase.CONSIDERED, Phase.PROPOSED):
        why = _SCORES
    if when is Phase.PROPOSED:
        why += " It had said that it would take part: something changed since, or its table does not suit the problem."
    kind = PeerRefused if known is FailureCode.REFUSED else PeerBroken
    return kind(f"{party!r} refused {what!r} ({name}): {why} {_SPENT[when]} Its own log says why.")


def told_to_others(how: str) -> str:
    """How a run ended, for other parties: not whether one refused, was silent or failed, that may tell of a budget."""
    stage, _, name = how.rpartition(": ")
    ours = {kind.__name__ for kind in (PeerSilent, PeerRefused, PeerBroken)}
    return f"{stage}: {PeerFailed.__name__}" if name in ours else how
