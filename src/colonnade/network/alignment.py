"""An alignment at a party: which of its rows all others have, agreed on once and kept. The hub drives it (aligner.py).

    both         greet    a key for this session, signed
                 share    its part of the pepper, sealed for each other party
    "digests"    offer    the sorted keyed digests of its keys; the hub intersects and answers with a bit for each
    "psi"        show     a block of its keys to the label holder, blinded and sealed
                 seek     the label holder, to one party after the other: a block of its keys, blinded and sealed
                 blind    the party's answer: the same block, blinded again and sealed
                 keep     the label holder keeps a block that was shown, blinded again, or an answer
                 narrow   the label holder takes from all of them which rows are left
                 tell     the label holder, to all, sealed: the digests of the rows that are left at the end
    both         agreed   keep the rows

Which of the two ways is in the party's own copy of the federation file, and a hub that asks for the other is refused.
All blinded keys are filled up to the public `most` of whoever brings them, so sizes say nothing; no count goes to the
hub but that of the common rows, at the end. Every answer is a function of stored secrets and the table: asked again
after a crash a party says the same bytes, and with another table nothing, since two contents under one key would show
both. A block that was blinded stays on disk until the rows are agreed on: whoever dies loses one block of work.

A party answers one private intersection: what its operator has not let go (`party realign`) is gone on with, never
begun anew, or whoever asks could bring other keys each time.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.data import psi
from colonnade.data.alignment import Agreement, PepperShare, RowOffer, agree, bitmap, locate
from colonnade.data.federation_file import AlignBy
from colonnade.data.row_order import DIGEST, Places
from colonnade.errors import PolicyRefused, ProtocolError, WireError
from colonnade.network.party_data import PartyData
from colonnade.network.questions import Agreed, Aligning, OfBlock, OfPeer, OfPeersBlock, PartOfBlock, Said
from colonnade.privacy.keyring import Keyring, derive
from colonnade.privacy.ledger import ADMIN, Ledger
from colonnade.privacy.store import Log, write_synced

AGREED = "alignment.json"
BEGUN = "alignment.begun"
BLOCKS = "alignment.blocks"
# Where a sealed message stands on its edge: the same bytes at another place do not open. Blocks stand at every other
# place from theirs on.
PEPPER = 0
COMMON = 1
REQUEST = 2
SETUP = 2
RESPONSE = 3
# Words among the label holder's that nobody else can have, however full its table is: a party that would have rows
# declared common without holding them cannot tell which to leave out.
DECOYS = 128
_REALIGN = "Let all operators run `colonnade party realign`."

log = logging.getLogger("colonnade.network.alignment")


def forget(store: Path) -> bool:
    """Let the next run agree on rows anew; whether there was anything to forget."""
    there = [path for name in (AGREED, BEGUN) if (path := store / name).is_file()]
    for path in there:
        path.unlink()
    # Of a process that was killed while it wrote one of them.
    for path in store.glob(".alignment.*"):
        path.unlink(missing_ok=True)
    shutil.rmtree(store / BLOCKS, ignore_errors=True)
    return bool(there)


def write_once(records: Log, run: str, kind: str, what: str, value: bytes) -> bool:
    """Write a value down, or see whether it is the one that was written down before."""
    with records.atomic():
        known = [row.body for row in records.rows(run, kind) if row.key == what]
        if not known:
            records.append(run, ADMIN, kind, what, value)
        return known in ([], [value])


class PartyAlignment:
    """What one party says and keeps of an alignment."""

    def __init__(self, data: PartyData, records: Log, ledger: Ledger, folder: Path, identity: bytes) -> None:
        self.data = data
        self.name = data.name
        self.file = data.file
        self.records = records
        self.ledger = ledger
        self.folder = folder
        self.identity = identity
        self._offered: tuple[bytes, RowOffer] | None = None  # under the pepper of a session
        self._sending: tuple[tuple[str, str, bytes], _Words] | None = None  # to a peer in a session, under a pepper
        if self._is_agreed():  # it may have died before it could
            self._drop_blocks()

    # ------------------------------------------------------------------------ what it keeps

    def agreement(self) -> Agreement | None:
        path = self.folder / AGREED
        if self.file.on is None or not path.is_file():
            return None
        return Agreement.from_json(path.read_text(encoding="utf-8"))

    def standing(self) -> dict[str, Any]:
        """The rows agreed on, or the private intersection that was begun."""
        agreement = self.agreement()
        begun = self._begun()
        if agreement is not None:
            return {"session": agreement.session, "rows": agreement.rows}
        return {"begun": begun} if begun else {}

    def _is_agreed(self) -> bool:
        return (self.folder / AGREED).is_file()

    def _drop_blocks(self) -> None:
        shutil.rmtree(self.folder / BLOCKS, ignore_errors=True)

    def _begun(self) -> str | None:
        path = self.folder / BEGUN
        return path.read_text(encoding="ascii") if self.file.align == AlignBy.PSI and path.is_file() else None

    def _may_align(self, session: str) -> None:
        """A party agrees on rows once; its operator lets it do so again (`colonnade party realign`)."""
        agreement = self.agreement()
        begun = self._begun()
        if agreement is not None and agreement.session != session:
            raise PolicyRefused(f"this party has agreed on rows; to ask again would tell the difference. {_REALIGN}")
        if agreement is None and begun not in (None, session):
            raise PolicyRefused(
                f"this party has begun an intersection in session {begun}: in another, keys could be tried. {_REALIGN}"
            )

    def _once(self, session: str, what: str, value: bytes) -> None:
        """Keep what this party said or heard in a session; something else in the same session is refused."""
        if not write_once(self.records, f"align/{session}", "session", what, value):
            raise ProtocolError(f"session {session} had another {what} before. {_REALIGN}")

    # ------------------------------------------------------------------------ keys and pepper

    def greet(self, asked: Aligning) -> Said:
        """A key for one alignment, signed."""
        self._may_align(asked.session)
        public, signature = self._keyring(asked.session).hello
        return Said(blobs=(public, signature))

    def share(self, asked: Aligning) -> Said:
        """Its part of the pepper, sealed for each other party."""
        session = asked.session
        peers = asked.peers
        self._may_align(session)
        keyring = self._meet(session, peers, asked.blobs)
        sealed = self._share(session).seal(keyring, dict.fromkeys(peers, PEPPER))
        return Said(blobs=tuple(part for peer in peers for part in sealed[peer]))

    def _keyring(self, session: str) -> Keyring:
        pinned = {name: member.public_key for name, member in self.file.members.items()}
        secret = self.records.secret(f"align/{session}", "keyring", 32)
        return Keyring(f"align/{session}", self.name, self.identity, pinned, secret)

    def _share(self, session: str) -> PepperShare:
        share = PepperShare.from_secret(self.data.keys, self.records.secret("align", "share", 32), session)
        # One key must never seal two different shares.
        self._once(session, "sort of key", share.kind.encode())
        return share

    def _meet(self, session: str, peers: Sequence[str], blobs: Sequence[bytes]) -> Keyring:
        if len(blobs) != 2 * len(peers):
            raise WireError("a key and a signature for each party named")
        keyring = self._keyring(session)
        for place, peer in enumerate(peers):
            keyring.meet(peer, blobs[2 * place], blobs[2 * place + 1])
        return keyring

    def _open_session(self, asked: Aligning, more: int) -> tuple[str, Keyring, bytes, tuple[bytes, ...]]:
        """Session, keys and pepper from what a question brings, and the blobs behind them.

        Four blobs a peer: its key and signature, its share as sealed for this party.
        """
        session = asked.session
        peers = asked.peers
        self._may_align(session)
        blobs = asked.blobs
        size = 4 * len(peers)
        if set(peers) != set(self.file.members) - {self.name} or len(blobs) != size + more:
            raise ProtocolError("an alignment needs every party of the federation file, once")
        keyring = self._meet(session, peers, [part for at in range(0, size, 4) for part in blobs[at : at + 2]])
        shares = {self.name: self._share(session)}
        for at, peer in enumerate(peers):
            shares[peer] = PepperShare.unseal(keyring, peer, PEPPER, *blobs[4 * at + 2 : 4 * at + 4])
        pepper = agree(shares, session)
        # Bits were found in the order of digests under this one; under another they would stand for other rows.
        self._once(session, "pepper", _hash(pepper))
        return session, keyring, pepper, blobs[size:]

    # ------------------------------------------------------------------------ by keyed digests

    def offer(self, asked: Aligning) -> Said:
        """The keyed digests of its keys, if the others' parts of the pepper are genuine."""
        self._way("digests")
        session, _, pepper, _ = self._open_session(asked, 0)
        offered = self._offer(session, pepper)
        log.info("offer", extra={"session": session, "rows": len(offered.digests)})
        return Said(blobs=(offered.digests.tobytes(),))

    # ------------------------------------------------------------------------ by private set intersection

    def show(self, asked: OfBlock) -> Said:
        """Party → label holder: a block of its keys, blinded, filled up and in a secret order."""
        holder = self._way("psi", holds=False)
        session, keyring, pepper, _ = self._open_session(asked, 0)
        at = _block_in(asked, self._most(self.name))
        most = self._most(self.name)
        words = self._words(
            session, holder, pepper, lambda whole: psi.psi_fill(whole, most, self._psi_key(session, holder))
        )
        setup = self._made(session, f"setup {at}", lambda: words.block(at))
        return self._seal(session, keyring, {holder: SETUP + 2 * at}, setup, f"setup {at}")

    def seek(self, asked: OfPeersBlock) -> Said:
        """Label holder → one party: a block of those of its keys that are left, blinded, among some that nobody has."""
        session, keyring, peer, words = self._words_for(asked)
        at = _block_in(asked, len(words.words))
        request = self._made(session, f"request {at} to {peer}", lambda: words.block(at))
        return self._seal(session, keyring, {peer: REQUEST + 2 * at}, request, f"request {at} to {peer}")

    def blind(self, asked: OfBlock) -> Said:
        """Party → label holder: a block that it asked about, blinded again; once in a session."""
        holder = self._way("psi", holds=False)
        session, keyring, _, sealed = self._open_session(asked, 2)
        most = self._most(holder) + DECOYS
        at = _block_in(asked, most)
        request = keyring.open(holder, REQUEST + 2 * at, *sealed)
        self._once(session, f"request {at}", _hash(request))
        key = self._psi_key(session, holder)
        size = psi.block_size(most, at)
        response = self._made(session, f"response {at}", lambda: psi.blind_again(request, key, size))
        return self._seal(session, keyring, {holder: RESPONSE + 2 * at}, response, f"response {at}")

    def keep(self, asked: PartOfBlock) -> Said:
        """At the label holder: a block of a party's keys, blinded again, or a block of its answers."""
        holder = self._way("psi", holds=True)
        peers = self._peers()
        session, keyring, _, sealed = self._open_session(asked, 2)
        peer = self._peer_in(asked, peers)
        what = asked.part
        places = {"setup": (SETUP, self._most(peer)), "response": (RESPONSE, self._most(holder) + DECOYS)}
        if what not in places:
            raise WireError("a block is a part of a setup or of a response")
        place, most = places[what]
        at = _block_in(asked, most)
        body = keyring.open(peer, place + 2 * at, *sealed)
        size = psi.block_size(most, at)
        # Before it is looked at: whether another answer finds the same rows would tell about one key after the other.
        self._once(session, f"{what} {at} of {peer}", _hash(body))
        if f"answer of {peer}" not in self._answers(session):
            key = self._psi_key(session, peer)
            made = (lambda: psi.blind_again(body, key, size)) if what == "setup" else (lambda: psi.checked(body, size))
            self._made(session, f"{what} {at} of {peer}", made)
        return Said()

    def narrow(self, asked: OfPeer) -> Said:
        """At the label holder: which of the rows that were left this party has. How many goes nowhere."""
        session, _, peer, words = self._words_for(asked)
        if f"answer of {peer}" in self._answers(session):
            return Said()
        theirs = self._gather(session, f"setup {{}} of {peer}", self._most(peer))
        answered = self._gather(session, f"response {{}} of {peer}", len(words.words))
        found = psi.common(theirs, answered, words.order, words.words)
        self._once(session, f"answer of {peer}", bitmap(found, len(words.words)))
        return Said()

    def _made(self, session: str, what: str, make: Callable[[], bytes]) -> bytes:
        """A block as it was made before, or made now and put on disk: to blind one takes seconds."""
        # Asked again at the end, by a hub that repeats the session for somebody else.
        if self._is_agreed():
            return make()
        path = self._path(session, what)
        if not path.is_file():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_synced(path, make(), private=True)
        return path.read_bytes()

    def _gather(self, session: str, what: str, size: int) -> bytes:
        paths = [self._path(session, what.format(at)) for at in range(psi.blocks(size))]
        if not all(path.is_file() for path in paths):
            raise ProtocolError("the hub asks for the rows that are left before all blocks came")
        return b"".join(path.read_bytes() for path in paths)

    def _path(self, session: str, what: str) -> Path:
        return self.folder / BLOCKS / _hash(f"{session}/{what}".encode()).hex()[:32]

    def tell(self, asked: Aligning) -> Said:
        """Label holder → all parties: the digests of the rows that all have; a key for each party, one content."""
        self._way("psi", holds=True)
        session, keyring, pepper, _ = self._open_session(asked, 0)
        digests = self._offer(session, pepper).digests
        common = digests[self._common(session, len(digests))]
        return self._seal(session, keyring, dict.fromkeys(self._peers(), COMMON), common.tobytes(), "common rows")

    def _way(self, align: str, holds: bool | None = None) -> str:
        """The label holder's name, if the federation aligns this way and this party has that part in it."""
        holder = self.file.label[0]
        if self.file.align != align or holds not in (None, self.name == holder):
            raise ProtocolError(f"the hub asks for a step of {align!r} that is not this party's in the federation file")
        return holder

    def _words_for(self, asked: OfPeer) -> tuple[str, Keyring, str, _Words]:
        """At the label holder: what a question about one party brings, and the words that this party is asked about."""
        self._way("psi", holds=True)
        session, keyring, pepper, _ = self._open_session(asked, 0)
        peers = self._peers()
        peer = self._peer_in(asked, peers)
        left = self._left(session, len(self._offer(session, pepper).digests), peers[: peers.index(peer)])
        size = self._most(self.name) + DECOYS
        key = self._psi_key(session, peer)

        def filled(words: Sequence[bytes]) -> list[bytes]:
            return psi.psi_fill([word if stays else None for word, stays in zip(words, left, strict=True)], size, key)

        return session, keyring, peer, self._words(session, peer, pepper, filled)

    def _peer_in(self, asked: OfPeer, peers: Sequence[str]) -> str:
        if asked.peer not in peers:
            raise ProtocolError("the hub names a party that is not in the federation file")
        return asked.peer

    def _words(self, session: str, peer: str, pepper: bytes, fill: Callable[[Sequence[bytes]], list[bytes]]) -> _Words:
        """What this party sends to a peer in a session; made once, since it is asked block by block."""
        name = session, peer, pepper
        if self._sending is None or self._sending[0] != name:
            words = fill(psi.psi_words(self.data.keys, self._offer(session, pepper)))
            key = self._psi_key(session, peer)
            # Blocks are on disk: those of a table that changed meanwhile would stand among those of the old one.
            framed = b"".join([len(word).to_bytes(4, "little") + word for word in words])
            self._once(session, f"words for {peer}", hmac.digest(key, framed, "sha256"))
            self._sending = name, _Words(words, psi.secret_order(words, key), key, derive(pepper, "align", "curve"))
        return self._sending[1]

    def _offer(self, session: str, pepper: bytes) -> RowOffer:
        """Its rows in the order of their digests; one table a session."""
        if self._offered is None or self._offered[0] != pepper:
            offered = self.data.offer(pepper)
            # Of another table the digests would show which rows came and went, and bits stand for other rows.
            self._once(session, "digests", _hash(offered.digests.tobytes()))
            self._offered = pepper, offered
        return self._offered[1]

    def _left(self, session: str, size: int, before: Sequence[str]) -> NDArray[np.bool_]:
        """Which of the rows offered all these parties have, by what they answered."""
        answers = self._answers(session)
        left = np.ones(size, np.bool_)
        for peer in before:
            bits = answers.get(f"answer of {peer}")
            if bits is None:
                raise ProtocolError(f"{peer!r} has not answered yet; the parties are asked in the file's order")
            left &= np.unpackbits(np.frombuffer(bits, np.uint8))[:size].astype(np.bool_)
        return left

    def _answers(self, session: str) -> dict[str, bytes]:
        return {row.key: row.body for row in self.records.rows(f"align/{session}", "session")}

    def _common(self, session: str, size: int) -> NDArray[np.bool_]:
        """Which of its rows all parties have, if they are enough for all of them."""
        left = self._left(session, size, self._peers())
        least = max(member.policy.least or 1 for member in self.file.members.values())
        if left.sum() < least:
            raise PolicyRefused(
                f"fewer than {least:,} rows are common to all parties, and one accepts no less. Is it the same key, "
                f"written the same way? {_REALIGN}"
            )
        return left

    def _seal(self, session: str, keyring: Keyring, places: dict[str, int], body: bytes, what: str) -> Said:
        """A message of a private intersection, sealed: from here on this party goes on with this session only."""
        # Before the seal: another content under the same name would be encrypted with the same key.
        self._once(session, what, _hash(body))
        if self._begun() is None:
            write_synced(self.folder / BEGUN, session.encode(), private=True)
        sealed = keyring.seal(places, body, f"align/{what}")
        log.info("sealed", extra={"session": session, "step": what, "bytes": len(body)})
        content = next(iter(sealed.values()))[1]
        return Said(blobs=(*(sealed[peer][0] for peer in places), content))

    def _psi_key(self, session: str, peer: str) -> bytes:
        return psi.psi_key(self.records.secret(f"align/{session}", "psi", 32), session, peer)

    def _most(self, party: str) -> int:
        most = self.file.members[party].most
        assert most is not None  # the file wants it of every party
        return most

    def _peers(self) -> list[str]:
        """Everybody but the label holder, in the order in which they are asked."""
        return [name for name in self.file.members if name != self.file.label[0]]

    # ------------------------------------------------------------------------ the end of it

    def agreed(self, asked: Aligning) -> Agreed:
        """Keep which rows all parties have; several alignments may have been prepared, one is kept."""
        digests = self.file.align == AlignBy.DIGESTS
        holder = self.file.label[0]
        session, keyring, pepper, rest = self._open_session(asked, 1 if digests else 2 * (self.name != holder))
        offered = self._offer(session, pepper)
        bits = rest[0] if digests else self._intersect(session, keyring, offered, rest)
        how = "keyed digests of their keys left" if digests else "found by private set intersection"
        names = list(self.file.members)
        agreement = Agreement.from_answer(offered, bits, pepper, session=session, party=self.name, parties=names)
        # Another answer for the same session, run after run, would show what single rows contribute.
        self._once(session, "rows", agreement.bits)
        write_synced(self.folder / AGREED, agreement.to_json().encode(), private=True)
        self._drop_blocks()
        told = f"{agreement.rows:,} of {self.data.rows:,} rows are common to all parties; {how}"
        self.ledger.tell_operator(f"align/{session}", told)
        log.info("agreed", extra={"session": session, "rows": agreement.rows, "of": self.data.rows})
        return Agreed(rows=agreement.rows)

    def _intersect(self, session: str, keyring: Keyring, offered: RowOffer, rest: tuple[bytes, ...]) -> bytes:
        """Which rows are common: from the answers at the label holder, elsewhere from what it told."""
        holder = self.file.label[0]
        if self.name == holder:
            left = self._common(session, len(offered.digests))
            return bitmap(np.flatnonzero(left), left.size)
        told = keyring.open(holder, COMMON, *rest)
        # Before it is looked at: how a list is refused tells whether its digests are in this table.
        self._once(session, "common rows", _hash(told))
        if not told or len(told) % DIGEST:
            raise WireError("the label holder told something that is no digests")
        common = np.frombuffer(told, np.uint8).reshape(-1, DIGEST)
        return bitmap(locate(offered, common), len(offered.digests))


class _Words(NamedTuple):
    """What one party sends to another in a private intersection, block by block."""

    words: list[bytes]
    order: Places  # in which they are sent
    key: bytes
    salt: bytes  # under which they are hashed onto the curve

    def block(self, at: int) -> bytes:
        """One of its blocks, blinded."""
        first = at * psi.BLOCK
        return psi.blind([self.words[place] for place in self.order[first : first + psi.BLOCK]], self.key, self.salt)


def _block_in(asked: OfBlock | OfPeersBlock, size: int) -> int:
    """Which block of so many words a question is about."""
    psi.block_size(size, asked.block)
    return asked.block


def _hash(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
