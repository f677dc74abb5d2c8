"""A party's neighbours on a graph: letters that go to them without the hub, where the federation file gives addresses.

A letter is the same on both roads: sealed for its receiver, at its place on its edge. On the direct one its bytes go
over the line of the two parties (network/transport/direct.py), and the hub, which drives the turns as ever, carries in
its stead a `Direct`, 16 bytes that stand for it.

Who sent a letter, at which place of which run, is proved by its seal: a line that is down costs time and no safety. A
sender whose line has been down for `PATIENCE` seconds gives the letter itself to the hub. A receiver that has waited so
long, and has heard nothing of the sender, must begin anew; what is then sent again goes through the hub.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Self

import msgspec

from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput, ProtocolError, WireError
from colonnade.network.certs import Tls
from colonnade.network.questions import Name, read_as
from colonnade.network.transport.direct import HELD, PATIENCE, Lines, Neighbour
from colonnade.network.transport.metrics import Metrics
from colonnade.runtime.program import Direct
from colonnade.runtime.wire import Frame, Letter, decode, encode

LETTER = 1024  # bytes that a letter takes beside its body: many empty ones would fill a memory, too
LONGEST = 12  # times the patience: a sender that says something now and then cannot keep its receiver waiting for ever


class DirectLetter(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One letter on a line of its own: of which run, and the letter."""

    run: Name
    letter: Frame


class Neighbours:
    """The lines of one party, and the letters that came over them and were not read yet."""

    def __init__(
        self,
        file: FederationFile,
        name: str,
        tls: Tls,
        *,
        listen: str | None = None,
        metrics: Metrics | None = None,
        patience: float = PATIENCE,
    ) -> None:
        address = file.members[name].address
        if (listen is None) != (address is None):
            raise InvalidInput(
                f"the federation file gives {name!r} the address {address!r} and its own file says listen = "
                f"{listen!r}: either both are there, or none. Listening opens a port of this machine."
            )
        self.name = name
        self.patience = patience
        self.metrics = metrics or Metrics()
        self._letters: dict[str, dict[tuple[str, int], Letter]] = {}  # by run, then by sender and place
        self._held: Counter[str] = Counter()  # bytes, by sender
        self._arrived = threading.Condition()
        around = _neighbours_of(file, name)
        self.lines = Lines(name, tls, around, self._take, listen=listen, metrics=self.metrics, patience=patience)

    def __enter__(self) -> Self:
        if self.lines.neighbours:
            self.lines.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.stop()

    def begin(self, run: str) -> None:
        """Take letters of a run from now on; those of an earlier life of it are made again."""
        with self._arrived:
            self.end(run)
            self._letters[run] = {}

    def end(self, run: str) -> None:
        """Take no more, and forget those that nobody has read."""
        with self._arrived:
            for (sender, _), letter in self._letters.pop(run, {}).items():
                self._held[sender] -= _room(letter)

    def send(self, run: str, letter: Letter, *, again: bool) -> Letter:
        """What the hub is to carry: a note that the letter went over the line, or else the letter."""
        if letter.receiver not in self.lines.neighbours:
            return letter
        message = msgspec.msgpack.encode(DirectLetter(run, letter.frame(run)))
        direct = not again and self.lines.send(letter.receiver, message)
        self.metrics.letter(direct=direct)
        if not direct:
            return letter
        return letter.with_body(encode(Direct(letter.check), guarded=False), letter.inside)

    def fetch(self, run: str, carried: Letter) -> Letter | None:
        """The letter itself, for what the hub carried; None if it did not come."""
        message = decode(carried.body)
        if not isinstance(message, Direct):
            return carried
        if carried.sender not in self.lines.neighbours:
            raise ProtocolError(f"there is no line to {carried.sender!r}, and the hub says that a letter came over it")
        began = time.monotonic()
        latest = began + LONGEST * self.patience
        with self._arrived:
            while (letter := self._read(run, carried.sender, carried.sequence)) is None:
                last = max(began, self.lines.heard(carried.sender))  # a long letter may be on its way
                if (left := min(last + self.patience, latest) - time.monotonic()) <= 0:
                    return None
                self._arrived.wait(left)
        if letter.check != message.digest:
            raise ProtocolError(f"{carried.sender!r} sent one letter over the line and told the hub of another")
        return letter

    def _read(self, run: str, sender: str, place: int) -> Letter | None:
        """A letter, and away with those before it on its edge: they went through the hub."""
        letters = self._letters.get(run, {})
        letter = letters.get((sender, place))
        for old in [key for key in letters if key[0] == sender and key[1] <= place]:
            self._held[sender] -= _room(letters.pop(old))
        return letter

    def _take(self, sender: str, message: bytes) -> None:
        """A message of a neighbour: a letter in its own name, for this party, of a run that is on here."""
        came = read_as(DirectLetter, message)
        with self._arrived:
            held = self._letters.get(came.run)
            if held is None:
                # Over here, or not begun: if it is wanted it is sent again.
                self.metrics.refuse("run")
                return
            letter = Letter.read(came.letter, came.run)
            if (letter.sender, letter.receiver) != (sender, self.name):
                raise WireError("a letter of somebody else, or for somebody else, came over a line")
            self._keep(held, letter)
            self._arrived.notify_all()

    def _keep(self, held: dict[tuple[str, int], Letter], letter: Letter) -> None:
        sender = letter.sender
        known = held.get((letter.sender, letter.sequence))
        if known is not None and known.body != letter.body:
            raise WireError("other bytes for a letter that is here already")
        if known is None and self._held[sender] + _room(letter) > HELD:
            self.metrics.refuse("full")  # nobody is so far ahead of a neighbour
        elif known is None:
            held[sender, letter.sequence] = letter
            self._held[sender] += _room(letter)

    def reach(self) -> list[str]:
        """The neighbours to whom there is a line, after some patience."""
        self.lines.wait_for(self.lines.neighbours, self.patience)
        return sorted(self.lines.connected())


def _room(letter: Letter) -> int:
    return len(letter.body) + LETTER


def _neighbours_of(file: FederationFile, name: str) -> dict[str, Neighbour]:
    """Everybody with whom this party has a line: whom it dials and where, and who dials it."""
    found = {}
    for peer, member in file.members.items():
        if peer != name and (listener := file.listener(name, peer)) is not None:
            found[peer] = Neighbour(member.address if listener == peer else None, member.pin)
    return found
