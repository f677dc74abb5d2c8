"""The label holder's side of scores on request: it numbers requests, asks the other parties, and adds up their parts.

    POST /score  {"key": 4711}                          {"key": 4711, "score": 0.31, "class": "yes", ...}
    POST /score  {"keys": [4711, 4712], "id": "a-17"}   {"scores": [{...}, {"key": 4712, "refused": "training"}], ...}

Keys are whole numbers where all keys of the table are, also in a CSV file, which has no types; else texts or dates.

Who may ask is whom the order names: the name in a client certificate, or programs on this machine. A row costs one of
the day's quota here and at every party. A request that carries an `id` and comes again gets the same bytes, and costs
nothing, while this process lives. Where a party is not connected and the order has a fallback without it, that model
answers, and the answer says so; else it is 503 and nothing is used up.

Requests that wait are sent together, one message a party: under load messages get longer, not more.
"""

from __future__ import annotations

import hashlib
import json
import logging
import queue
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from colonnade.data import row_order
from colonnade.data.row_order import KeyKind
from colonnade.errors import ColonnadeError, InvalidInput, LedgerDamaged
from colonnade.fields import Table, must, parse_json, read
from colonnade.methods.masked_scores import FRACTION, RING
from colonnade.network.certs import Tls
from colonnade.network.party_data import PartyData
from colonnade.network.score_order import LOOPBACK, Approved, Order, today
from colonnade.network.score_parts import (
    Answerer,
    Ask,
    Part,
    Quota,
    Rows,
    Trail,
    Why,
    only_process,
    pack_asks,
    places_in,
    row_digest,
    unpack_parts,
)
from colonnade.network.status_page import Answered, Asked, StatusPage
from colonnade.network.transport.direct import Lines, Neighbour

if TYPE_CHECKING:
    from prometheus_client import Metric

ROWS = 1000  # of one request
KEPT = 4096  # answers to requests with an id
PATIENCE = 5.0  # seconds for all parts of a request
SHORT = 1.0  # seconds that a line may be down before a request has no answer
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, PATIENCE)  # seconds, of the histogram
_REFUSED = {"no_row": 404, "training": 403, "quota": 429, "ended": 410}

log = logging.getLogger("colonnade.network.score_service")
_Id = Annotated[str, must("a text of 1 to 200 letters", "a-17", min_length=1, max_length=200)]


class OneKey(Table, frozen=True):
    """A request for one score."""

    key: Annotated[Any, must("a key of the table", 4711)]
    id: _Id = ""  # nothing: it comes once


class ManyKeys(Table, frozen=True):
    """A request for several scores."""

    keys: Annotated[list[Any], must(f"a list of 1 to {ROWS:,} keys", [4711, 4712], min_length=1, max_length=ROWS)]
    id: _Id = ""


class Unanswered(Exception):  # not an error of ours: what a request is answered with
    """Why a request gets no scores: a status of HTTP, and a fixed word."""

    def __init__(self, status: int, word: str, said: str) -> None:
        super().__init__(said)
        self.status = status
        self.word = word


@dataclass(eq=False)
class Waiting:
    """A request on its way: the parts that came, by party and number."""

    asks: Mapping[str, Sequence[Ask]]
    parts: dict[tuple[str, int], Part] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def due(self) -> int:
        return sum(len(asks) for asks in self.asks.values())


class ScoreService:
    """Scores for whoever the order lets ask. `send` gives a message to a party; `there` says who is connected."""

    def __init__(
        self,
        approved: Approved,
        data: PartyData,
        send: Callable[[str, bytes], bool],
        there: Callable[[], set[str]],
        clock: Callable[[], str] = today,
        *,
        certified: bool = False,
    ) -> None:
        """certified  who asks shows a certificate; else only programs on this machine may."""
        self.certified = certified
        self.order = approved.order
        self.name = approved.name
        self._approved = approved
        self._clock = clock
        if approved.name != approved.file.label[0]:
            raise InvalidInput(f"scores are served by {approved.file.label[0]!r}, who holds the labels.")
        keyring = approved.keyring()
        self.others = [name for name in approved.file.members if name != self.name]
        self._pairs = {name: keyring.shared(name, "score rows") for name in self.others}
        self.rows = Rows(data, approved.order, approved.store.folder)
        self._kind = data.keys.dtype
        self._whole = row_order.key_kind(data.keys) in (KeyKind.WHOLE, KeyKind.DIGITS)
        self._places = {key: place for place, key in enumerate(self.rows.keys)}
        self.lock = only_process(approved)
        self.quota = Quota(approved, clock)
        self.trail = Trail(approved.store.folder, approved.order, approved.name)
        self._send = send
        self._there = there
        # Another party saw rows that are not in the store.
        self._damaged: LedgerDamaged | None = None
        self._waiting: dict[int, Waiting] = {}  # by number
        self._replies: OrderedDict[tuple[str, str], tuple[bytes, Answered]] = OrderedDict()
        # Requests with an id that are being answered.
        self._going: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._trailing = threading.Lock()
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[float] = Counter()
        self.time = 0.0
        self._thread = threading.Thread(target=self._dispatch, name="score-requests", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self.trail.close()
        self.lock.close()

    # ------------------------------------------------------------------------ one request

    def answer(self, asked: Asked) -> Answered:
        """The route of POST /score."""
        began = time.perf_counter()
        try:
            found = self._once(self._asker(asked.peer), asked.body)
        except Unanswered as why:
            self._count(why.word)
            found = Answered(why.status, json.dumps({"refused": why.word, "why": str(why)}).encode())
        taken = time.perf_counter() - began
        with self._lock:
            self.seconds[next((bound for bound in BUCKETS if taken <= bound), np.inf)] += 1
            self.time += taken
        return found

    def _count(self, outcome: str) -> None:
        with self._lock:
            self.counts[outcome] += 1

    def _asker(self, peer: str) -> str:
        """Whom the order names: by certificate where there are some, else programs on this machine."""
        local = not self.certified and peer in ("127.0.0.1", "::1")
        asker = LOOPBACK if local else peer
        if asker not in self.order.askers or (asker == LOOPBACK) != local or not (local or self.certified):
            raise Unanswered(403, "asker", "the order does not name you among those who may ask")
        return asker

    def _once(self, asker: str, body: bytes) -> Answered:
        asked = _read(body)
        digest = hashlib.sha256(body).digest()
        name = asked.id
        if not name:
            return self._score(asker, asked)
        with self._lock:
            kept = self._replies.get((asker, name))
            if kept is None:
                if (asker, name) in self._going:
                    raise Unanswered(409, "id", "the same request is being answered; ask again in a moment")
                self._going.add((asker, name))
        if kept is not None:
            if kept[0] != digest:
                raise Unanswered(409, "id", "this id was used for another request")
            self._count("repeated")
            return kept[1]
        try:
            found = self._score(asker, asked)
            with self._lock:
                self._replies[asker, name] = digest, found
                while len(self._replies) > KEPT:
                    self._replies.popitem(last=False)
            return found
        finally:
            with self._lock:
                self._going.discard((asker, name))

    def _score(self, asker: str, asked: OneKey | ManyKeys) -> Answered:
        words = self._words(asked.keys if isinstance(asked, ManyKeys) else [asked.key])
        found, model = self._scores(asker, words)
        lines = [{"key": self._shown(word), **line} for word, line in zip(words, found, strict=True)]
        missing = list(self.order.fallbacks[model - 1].without) if model else []
        about = {"model": self.order.model, "fallback": bool(missing), "without": missing}
        if isinstance(asked, ManyKeys):
            return Answered(200, json.dumps({"scores": lines, **about}).encode())
        (line,) = lines
        status = _REFUSED.get(line.get("refused", ""), 503) if "refused" in line else 200
        return Answered(status, json.dumps({**line, **about}).encode())

    def _words(self, keys: Sequence[Any]) -> list[bytes]:
        import polars as pl

        if self._whole and all(type(key) is int for key in keys):
            # As `canonical` has them, without a column's detour.
            return [b"i%d" % key for key in keys]
        try:
            if any(isinstance(key, bool) for key in keys):
                raise TypeError("true is no key")
            return row_order.canonical(pl.Series(keys, dtype=self._kind, strict=True))
        except Exception as error:  # of whatever type the caller's keys are
            kind = "whole numbers" if self._whole else f"of the type {self._kind}"
            raise Unanswered(400, "keys", f"the table's keys are {kind}, and these are not") from error

    def _shown(self, word: bytes) -> int | str:
        """A key as an answer has it."""
        text = word[1:].decode()
        return int(text) if self._whole and word.startswith(b"i") else text

    # ------------------------------------------------------------------------ parts and their sum

    def _scores(self, asker: str, words: Sequence[bytes]) -> tuple[list[dict[str, Any]], int]:
        """For each row its score, or why there is none; and the model that answered."""
        own = [self._own_refusal(word) for word in words]
        places = [place for place, why in enumerate(own) if why is None]
        model = self._model()
        self._count_refused(asker, model, [(word, why) for word, why in zip(words, own, strict=True) if why])
        first, sums = self._collect(asker, [words[place] for place in places], model) if places else (0, [])
        found: list[Why | int] = [why or 0 for why in own]
        for place, one in zip(places, sums, strict=True):
            found[place] = one
        lines: list[dict[str, Any]] = []
        for place, one in enumerate(found):
            self._count(one.name.lower() if isinstance(one, Why) else "scored")
            if isinstance(one, Why):
                lines.append({"refused": one.name.lower()})
            else:
                number = first + places.index(place)
                score = self._sum(words[place], model, one)
                lines.append({"score": score, **self.order.meaning(score, model), "number": number})
        return lines, model

    def _count_refused(self, asker: str, model: int, refused: Sequence[tuple[bytes, Why]]) -> None:
        """Rows that are refused here cost as much as those that others refuse: else keys could be tried without end."""
        if not refused:
            return
        first = self._use_up(len(refused))
        with self._trailing:
            self.trail.note(asker, [(first + i, model, int(why), w.hex()) for i, (w, why) in enumerate(refused)])

    def _own_refusal(self, word: bytes) -> Why | None:
        place = self._places.get(word)
        if place is None:
            return Why.NO_ROW
        return Why.TRAINING if self.rows.training[place] else None

    def _model(self) -> int:
        """By which model: the fit's own where all are there, else the fallback without those who are not."""
        if self._damaged is not None:
            raise Unanswered(503, "store", "the store here is an old copy; its operator finds more in the log")
        if self._clock() > self.order.until or self._approved.log.holds(self.order.run, "close"):
            raise Unanswered(410, "ended", f"the order ended on {self.order.until}, or was ended here")
        missing = set(self.others) - self._there()
        if not missing:
            return 0
        for model, one in enumerate(self.order.fallbacks, 1):
            if set(one.without) == missing:
                return model
        raise Unanswered(503, "missing", f"{len(missing)} parties are not connected, and no fallback does without them")

    def _collect(self, asker: str, words: Sequence[bytes], model: int) -> tuple[int, list[Why | int]]:
        """The first number, and for each row the sum of the others' parts, or why there is none."""
        first, parts = self._try(asker, words, model)
        if floors := [part.value for part in parts.values() if part.why is Why.NUMBER]:
            # A party died and came back: the numbers that it had reserved are gone. New ones, once.
            self.quota.skip(max(floors))
            first, parts = self._try(asker, words, model)
        return first, [self._total(parts, first + place, model) for place in range(len(words))]

    def _try(self, asker: str, words: Sequence[bytes], model: int) -> tuple[int, dict[tuple[str, int], Part]]:
        first = self._use_up(len(words))
        return first, self._ask(asker, words, first, model)

    def _use_up(self, rows: int) -> int:
        """The first of as many numbers, if the day has them."""
        first = self.quota.take(rows)
        if first is None:
            raise Unanswered(429, "quota", f"the order gives {self.order.rows_a_day:,} rows a day")
        return first

    def _ask(self, asker: str, words: Sequence[bytes], first: int, model: int) -> dict[tuple[str, int], Part]:
        members = [name for name in self.order.parties(self._approved.file, model) if name != self.name]
        asks = {
            name: [Ask(first + i, model, row_digest(self._pairs[name], word)) for i, word in enumerate(words)]
            for name in members
        }
        one = Waiting(asks)
        with self._lock:
            for place in range(len(words)):
                self._waiting[first + place] = one
        try:
            if members:
                self._queue.put(one)
                if not one.done.wait(PATIENCE) or len(one.parts) < one.due:
                    raise Unanswered(503, "late", f"not all parts came within {PATIENCE:g} seconds")
        finally:
            with self._lock:
                for place in range(len(words)):
                    self._waiting.pop(first + place, None)
            lines = [(first + i, model, int(self._outcome_why(one, first + i)), w.hex()) for i, w in enumerate(words)]
            with self._trailing:
                self.trail.note(asker, lines)
        return one.parts

    def _outcome_why(self, one: Waiting, number: int) -> Why:
        """What became of a row, for the trail."""
        parts = [one.parts.get((name, number)) for name in one.asks]
        return next((Why.LATE if part is None else part.why for part in parts if part is None or part.why), Why.OK)

    def _total(self, parts: Mapping[tuple[str, int], Part], number: int, model: int) -> Why | int:
        total = 0
        for name in self.order.parties(self._approved.file, model):
            if name != self.name:
                part = parts[name, number]
                if part.why is not Why.OK:
                    return part.why
                total += part.value
        return total

    def _sum(self, word: bytes, model: int, others: int) -> float:
        own = self.rows.parts[model]
        assert own is not None
        total = (int(own[self._places[word]]) + others) % 2**64
        signed = int(RING.signed(np.array([total], np.uint64))[0])
        return signed * FRACTION + self.rows.intercepts[model]

    # ------------------------------------------------------------------------ to and from the parties

    def _dispatch(self) -> None:
        """Send what waits, one message a party."""
        while (one := self._queue.get()) is not None:
            together = [one]
            while not self._queue.empty() and len(together) < ROWS:
                if (more := self._queue.get()) is None:
                    return
                together.append(more)
            for name in self.others:
                asks = [ask for waiting in together for ask in waiting.asks.get(name, ())]
                if asks and not self._send(name, pack_asks(self.order, asks, self.quota.witness.places_for(name))):
                    for waiting in together:
                        # Its line went down: nobody waits for what cannot come.
                        waiting.done.set()

    def take(self, party: str, raw: bytes) -> None:
        """A message of a party: parts of requests that wait for them, unless it saw rows that this ledger lacks."""
        parts = unpack_parts(self.order, raw)
        try:
            self.quota.witness.hear(party, places_in(raw))
        except LedgerDamaged as error:
            self._stop(error)
            return
        for part in parts:
            with self._lock:
                one = self._waiting.get(part.number)
                if one is None or party not in one.asks:
                    continue  # too late, or never asked
                one.parts.setdefault((party, part.number), part)
                whole = len(one.parts) == one.due
            if whole:
                one.done.set()

    def _stop(self, error: LedgerDamaged) -> None:
        """This store was put back from an old copy: nothing is answered any more."""
        if self._damaged is None:
            log.error("nothing is answered any more", extra={"why": str(error)})
        with self._lock:
            self._damaged, waiting = error, list(self._waiting.values())
        for one in waiting:
            one.done.set()

    # ------------------------------------------------------------------------ what it shows

    def show(self, page: StatusPage) -> None:
        """Route and metrics: counts, and never a score."""
        page.post("/score", self.answer)
        page.counter(
            "colonnade_score_rows_total", "Rows and requests, by outcome.", lambda: dict(self.counts), "outcome"
        )
        page.gauge("colonnade_score_quota_left", "Rows that the day has left here.", self.quota.left)
        page.gauge("colonnade_score_parties_connected", "Other parties.", lambda: len(self._there() & set(self.others)))
        page.include(self._histogram)
        page.needs("a party is missing, and there is no fallback without it", self._is_ready)

    def _is_ready(self) -> bool:
        try:
            self._model()
        except Unanswered:
            return False
        return True

    def _histogram(self) -> list[Metric]:
        from prometheus_client.core import HistogramMetricFamily

        with self._lock:
            so_far = accumulate(self.seconds[bound] for bound in (*BUCKETS, np.inf))
            names = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]
            buckets = list(zip(names, map(float, so_far), strict=True))
            shown = HistogramMetricFamily("colonnade_score_seconds", "Seconds that requests took.")
            shown.add_metric([], buckets, self.time)
        return [shown]


def _read(body: bytes) -> OneKey | ManyKeys:
    """A request, or 400 with what is wrong."""
    form = 'write {"key": ...} or {"keys": [...]}, and "id": "..." if it may come again'
    try:
        raw = parse_json(body)
    except (ValueError, RecursionError) as error:
        raise Unanswered(400, "body", f"this is no JSON: {form}") from error
    many = isinstance(raw, dict) and "keys" in raw
    try:
        asked: OneKey | ManyKeys = read(raw, ManyKeys if many else OneKey, "request")
    except InvalidInput as error:
        raise Unanswered(400, "body", f"{error}; {form}") from error
    return asked


# ------------------------------------------------------------------------------------ the lines


class PartLine:
    """A party's line to the label holder: what comes is answered, one message after the other."""

    def __init__(self, answerer: Answerer, name: str, holder: str, address: str, tls: Tls, pin: bytes | None) -> None:
        self._answerer = answerer
        self._holder = holder
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="score-parts", daemon=True)
        around = {holder: Neighbour(address, pin)}
        self.lines = Lines(name, tls, around, lambda _, raw: self._queue.put(raw), patience=SHORT)

    def __enter__(self) -> PartLine:
        self.lines.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self._thread.join()
        self.lines.stop()

    def _live(self) -> None:
        while (raw := self._queue.get()) is not None:
            try:
                self.lines.send(self._holder, self._answerer.answer(raw))
            except (ColonnadeError, OSError) as error:  # no answer: the label holder says 503
                log.error("no part was sent", extra={"error": type(error).__name__, "why": str(error)})


def holder_lines(order: Approved, tls: Tls, listen: str, take: Callable[[str, bytes], None]) -> Lines:
    """The label holder's lines: all other parties dial it."""
    members = {name: member for name, member in order.file.members.items() if name != order.name}
    around = {name: Neighbour(None, member.pin) for name, member in members.items()}
    return Lines(order.name, tls, around, take, listen=listen, patience=SHORT)


def models_in_words(order: Order, holder: str, members: Sequence[str]) -> list[str]:
    """What the label holder learns from a score by each model, for whoever approves the order."""
    words = []
    for missing in [(), *(one.without for one in order.fallbacks)]:
        left = [name for name in members if name not in (holder, *missing)]
        whom = f"without {', '.join(missing)}" if missing else "all parties"
        sums = f"the sum of the parts of {', '.join(left)}" if len(left) > 1 else f"the part of {left[0]} itself"
        words.append(f"{whom}: {sums if left else 'nothing of anybody else'}")
    return words
