"""Questions to a party's operator that need not be answered at once: `store/inbox.db`.

With approve = "inbox" a proposed run that [limits] do not let pass becomes a question here. The hub is told that
nothing is decided yet and proposes the run again later; other runs go on meanwhile. The operator looks
(`colonnade party inbox`) and says yes or no, in any terminal, for as long as the party's file leaves a question open
(`open_hours`); then it is refused. An answer holds for exactly what was shown: a run that is proposed with other terms,
another call, other rows or after one more run of scores is a new question. It has a new code, drawn here: the hub names
runs, so a yes to a run's name alone could be for what the hub put in its place while the operator was reading. A yes
that no run has begun on is forgotten after `open_hours`, too.

A no is kept as a yes is, so that how fast an answer comes does not tell a refusal by the operator from one by the
ledger. The hub chooses how many runs it proposes, so questions are bounded: over `MOST` open ones, a new one is refused
and nobody is disturbed. What was shown is this party's alone, as its store is.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from colonnade.errors import InvalidInput, PolicyRefused, StoreError
from colonnade.fields import Choice
from colonnade.network.party_run import Request, Undecided
from colonnade.privacy.database import SharedFile

MOST = 200  # questions that are open
KEPT = 1000  # questions of which an answer, or that nobody answered, is still known
_CODE = 4  # bytes that tell a question from the one before it about the same run
_FORMAT = 1
_SCHEMA = """
create table if not exists question(
    run text primary key, code text not null, digest blob not null, shown text not null, asked real not null,
    until real not null, answer text not null default '', answered real);
"""

log = logging.getLogger("colonnade.network.inbox")


class Answer(Choice):
    """What the operator said."""

    NOTHING = ""
    YES = "yes"
    NO = "no"


class QuestionState(Choice):
    """How a question stands."""

    OPEN = "open"
    APPROVED = "approved"
    REFUSED = "refused"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """One question as an operator sees it."""

    run: str
    code: str
    shown: str  # the terms, what would leave, and what it costs, in words
    asked: float
    until: float
    answer: str  # an Answer

    @property
    def name(self) -> str:
        """By which it is answered."""
        return f"{self.run}:{self.code}"

    @property
    def state(self) -> QuestionState:
        if self.answer:
            return QuestionState.APPROVED if self.answer == Answer.YES else QuestionState.REFUSED
        return QuestionState.OPEN if time.time() < self.until else QuestionState.EXPIRED


class Inbox:
    """The questions of one party. The party's process asks; any process with the store answers."""

    def __init__(self, store: Path, hours: float = 72.0, describe: Callable[[Request], str] = repr) -> None:
        """describe  what an operator is shown of a request."""
        self.path = store.expanduser() / "inbox.db"
        self.seconds = 3600.0 * hours
        self.describe = describe
        self._file = SharedFile(self.path, _SCHEMA, _FORMAT, "Free space or make it writable.")
        self._db, self._explained = self._file.db, self._file.explained

    def close(self) -> None:
        self._file.close()

    # ------------------------------------------------------------------------ what the party's process does

    def __call__(self, asked: Request) -> bool:
        """The operator's answer; Undecided before there is one, and a refusal when nobody gave one in time."""
        digest = _digest(asked)
        # A question that was just put stays, though there is no answer yet.
        with self._file.atomic(Undecided):
            query = "select digest, until, answer, answered from question where run = ?"
            known = self._db.execute(query, (asked.run,)).fetchone()
            is_old = known is not None and known[2] == Answer.YES and time.time() >= known[3] + self.seconds
            if known is None or known[0] != digest or is_old:
                self._ask(asked, digest)
                raise Undecided
        _, until, answer, _ = known
        if answer:
            return bool(answer == Answer.YES)
        if time.time() < until:
            raise Undecided
        raise PolicyRefused(
            f"nobody answered the question to the operator of {asked.party!r} about run {asked.run} within "
            f"{self.seconds / 3600:g} hours. Nothing was sent. open_hours in the party's file says how long it waits."
        )

    def _ask(self, asked: Request, digest: bytes) -> None:
        now = time.time()
        (waiting,) = self._db.execute(
            "select count(*) from question where answer = '' and until > ? and run != ?", (now, asked.run)
        ).fetchone()
        if waiting >= MOST:
            raise PolicyRefused(
                f"{waiting:,} questions to the operator of {asked.party!r} are open, so run {asked.run} was not added. "
                "Nothing was sent. Answer some: `colonnade party inbox`."
            )
        told = (asked.run, secrets.token_hex(_CODE), digest, self.describe(asked), now, now + self.seconds)
        self._db.execute(
            "insert or replace into question(run, code, digest, shown, asked, until) values (?, ?, ?, ?, ?, ?)", told
        )
        self._db.execute(
            "delete from question where (answer != '' or until <= ?) and run not in "
            "(select run from question order by asked desc limit ?)",
            (now, KEPT),
        )
        log.info("the operator is asked", extra={"run": asked.run, "open": waiting + 1})

    def withdraw(self, *runs: str) -> None:
        """Runs that are over, or have begun: their questions are of no use any more."""
        with self._explained():
            there = {run for (run,) in self._db.execute("select run from question").fetchall()}
            self._db.executemany("delete from question where run = ?", [(run,) for run in there.intersection(runs)])

    # ------------------------------------------------------------------------ what the operator does

    def questions(self, *, every: bool = False) -> list[OpenQuestion]:
        """Those that are open, the oldest first; or all that are known."""
        with self._explained():
            columns = "run, code, shown, asked, until, answer"
            rows = self._db.execute(f"select {columns} from question order by asked").fetchall()  # noqa: S608  fixed
        for row in rows:
            self._file.check_kinds(row, [str(one.type) for one in fields(OpenQuestion)])
            if row[-1] not in tuple(Answer):
                raise StoreError(f"{self.path} is damaged: an answer is neither yes nor no. Restore a copy of it.")
        found = [OpenQuestion(*row) for row in rows]
        return [one for one in found if every or one.state is QuestionState.OPEN]

    def counts(self) -> Mapping[str, int]:
        """How many questions there are, by state."""
        states = [one.state for one in self.questions(every=True)]
        return {state: states.count(state) for state in QuestionState}

    def answer(self, name: str, answer: bool) -> OpenQuestion:
        """Say yes or no to RUN:CODE, as it was shown; until the run has begun the operator may think again."""
        run, _, code = name.partition(":")
        with self._file.atomic():
            known = next((one for one in self.questions(every=True) if one.run == run), None)
            if known is None:
                raise InvalidInput(
                    f"there is no question about run {run!r}: it was answered and has begun, or is over, or never "
                    "came. `colonnade party inbox` shows those that are open."
                )
            if code != known.code and (code or answer):
                raise InvalidInput(
                    f"{name!r} is not the question about run {run} that is open now: say RUN:CODE for what you have "
                    "read. It was proposed with other terms since, or the code is missing. Nothing was answered: read "
                    "`colonnade party inbox` again."
                )
            if known.state is QuestionState.EXPIRED:
                raise InvalidInput(
                    f"the question about run {run} was open until {in_minutes(known.until)}, and is no more."
                )
            told = (Answer.YES if answer else Answer.NO, time.time(), run)
            self._db.execute("update question set answer = ?, answered = ? where run = ?", told)
            return next(one for one in self.questions(every=True) if one.run == run)


def _digest(asked: Request) -> bytes:
    """All that a yes would be said to."""
    about = (asked.terms, asked.call.to_json(), asked.session, dict(asked.plans), asked.rows, asked.scored, asked.new)
    return hashlib.sha256(repr(about).encode()).digest()


def in_minutes(seconds: float) -> str:
    """A time by this machine's clock, for people."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
