"""Which rows parties that run apart have in common, and in which order, without pooling their keys.

Solves   every party holds a table with a key column; all must end with the same rows in the same order.
Digests  parties agree on a pepper that the coordinator does not know (`PepperShare`, `agree`). Each sends the sorted
         keyed digests of its keys (`offer`); the coordinator intersects (`intersect`) and answers each with a bitmap
         over what it sent (`bitmap`). The order of rows is the order of digests, so an answer cannot express another
         one.
PSI      or the label holder finds the common rows by private set intersection with one party after the other
         (`psi.py`), and sends the digests of the common rows sealed (`locate`).
After    each party keeps an `Agreement` and checks in every run that all others have the same rows in the same order.
Leaves   digests: sizes of all tables and all pairwise overlaps to the coordinator; each party learns which of its rows
         all others have. With the pepper, digests can be tested against guessed keys. PSI: the number of common rows to
         the coordinator; to the label holder also which rows it shares with the first party, the first two, and so on.
         docs/understand/alignment.md derives both.
Price    none in epsilon: who is in the common rows is not protected by noise. `least`, from a party's policy, is
         the agreement to that: the fewest common rows it takes part with, None for none at all.

Nothing here talks to a network: functions make bytes and take bytes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data import row_order
from colonnade.data.row_order import DIGEST, SECRET, Digests, KeyKind, Places, as_words, checked_secret
from colonnade.errors import InvalidInput, PolicyRefused, ProtocolError, WireError
from colonnade.fields import Count, Table, Text, must, parse_json, read
from colonnade.privacy.keyring import Keyring, derive

if TYPE_CHECKING:
    import polars as pl


_VERSION = 1


# ------------------------------------------------------------------------------------------------ the pepper


@dataclass(frozen=True, slots=True)
class PepperShare:
    """What one party adds to the pepper, and the sort of its key. It travels sealed from party to party."""

    kind: str
    contribution: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.kind not in tuple(KeyKind) or len(self.contribution) != SECRET:
            raise WireError(f"a share of a pepper is one of {', '.join(KeyKind)} and {SECRET} bytes; this is not one.")
        object.__setattr__(self, "kind", KeyKind(self.kind))

    @classmethod
    def from_secret(cls, keys: pl.Series, secret: bytes, session: str) -> PepperShare:
        """The share of a party that keeps 32 random bytes: the same secret and session give the same share again.

        A session is tried once. Whoever is refused begins another: sealing two different shares under one session would
        encrypt twice with one key.
        """
        return cls(row_order.key_kind(keys), derive(checked_secret(secret), "align", "share", session))

    def seal(self, keyring: Keyring, places: Mapping[str, int]) -> dict[str, tuple[bytes, bytes]]:
        """For each other party what only it can open; `places` as `Keyring.seal` takes them."""
        return keyring.seal(places, self.contribution + self.kind.encode(), "align/pepper")

    @classmethod
    def unseal(cls, keyring: Keyring, sender: str, place: int, wrapped: bytes, content: bytes) -> PepperShare:
        """The share that `sender` sealed for this party."""
        body = keyring.open(sender, place, wrapped, content)
        return cls(body[SECRET:].decode(errors="replace"), body[:SECRET])


def agree(shares: Mapping[str, PepperShare], session: str) -> bytes:
    """The pepper of a session, from the shares of all parties, this one's included.

    It is a hash of all contributions: unknown to everybody outside as long as one of them is random and kept, whatever
    the others are.
    """
    if len(shares) < 2:
        raise InvalidInput(f"a pepper is agreed between at least 2 parties; there are {len(shares)}.")
    if not row_order.kinds_match({share.kind for share in shares.values()}):
        found = ", ".join(f"{party}: {share.kind}" for party, share in sorted(shares.items()))
        advice = "Convert it to the same sort everywhere, mind leading zeros, and begin another session."
        raise InvalidInput(f"the key is not of one sort at all parties ({found}). No digest was sent. {advice}")
    mixed = hashlib.sha256(b"".join(shares[party].contribution for party in sorted(shares)))
    return derive(mixed.digest(), "align", "pepper", session, *sorted(shares))


# ------------------------------------------------------------------------------------------------ what a party sends


@dataclass(frozen=True, slots=True, eq=False)
class RowOffer:
    """A party's rows for an alignment. Only `digests` leave it."""

    digests: Digests = field(repr=False)  # sorted, so that their order says nothing about the table's
    places: Places = field(repr=False)  # the row of the table that each digest stands for
    least: int  # common rows; below, this party takes no part


def offer(
    keys: pl.Series, pepper: bytes, *, least: int | None, people: pl.Series | None = None, rows: int = 1
) -> RowOffer:
    """A party's digests, ready to be sent, if its policy lets the number of common rows be known.

    `people`, at the one party that says whom rows are about, cuts everybody to `rows` rows before anything is sent, by
    digests that never leave. Nothing about people leaves, and no intersection can bring a row back.
    """
    if least is None:
        raise PolicyRefused(
            "this party's policy does not let the number of common rows be known, and every method uses it in the "
            "clear. Nothing was sent. Set the fewest common rows it takes part with, or do not take part."
        )
    if least < 1:
        raise InvalidInput(f"least={least}: a party takes part with at least 1 common row.")
    mine, places = row_order.in_order(keys, pepper, people, rows)
    return RowOffer(_freeze(mine), _freeze(places), least)


# ------------------------------------------------------------------------------------------------ the coordinator


def intersect(by_party: Mapping[str, Digests], least: int = 1) -> tuple[Digests, dict[str, Places]]:
    """The digests that all parties sent, sorted, and where each stands in what a party sent.

    `least` is the largest of the parties' own: below it nobody is told anything, not even how many rows there are.
    """
    if len(by_party) < 2:
        raise InvalidInput(f"rows are matched between at least 2 parties; there are {len(by_party)}.")
    sent = {party: _sorted_words(party, given) for party, given in by_party.items()}
    common = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), sent.values())
    if common.size < least:
        few = f"fewer than {least:,} rows are in all of {', '.join(map(repr, sent))}. Nobody was told which."
        raise InvalidInput(f"{few} Is it the same key, written the same way, and the same pepper?")
    places = {party: np.searchsorted(words, common).astype(np.int64) for party, words in sent.items()}
    return common.view(np.uint8).reshape(-1, DIGEST), places


def _sorted_words(party: str, given: Digests) -> NDArray[np.bytes_]:
    if given.dtype != np.uint8 or given.ndim != 2 or given.shape[1] != DIGEST or not len(given):
        wanted = f"digests of {DIGEST} bytes were expected"
        raise ProtocolError(f"{party!r} sent {given.dtype} of shape {given.shape} where {wanted}.")
    words = as_words(given)
    if (double := int((words[1:] == words[:-1]).sum())) or (words[1:] < words[:-1]).any():
        advice = "Each key may stand once: let it aggregate the rows of a key, or use a finer key."
        raise ProtocolError(f"{party!r} sent digests that are not sorted, or repeat ({double:,} times). {advice}")
    return words


def bitmap(places: Places, size: int) -> bytes:
    """The answer to a party that sent `size` digests: one bit each, set where all parties have the row."""
    bits = np.zeros(size, np.bool_)
    bits[places] = True
    return np.packbits(bits).tobytes()


def _unpack(bits: bytes, size: int) -> NDArray[np.bool_]:
    if len(bits) != (size + 7) // 8:
        raise ProtocolError(f"the answer to {size:,} digests has {len(bits):,} bytes; one bit a digest was expected.")
    found = np.unpackbits(np.frombuffer(bits, np.uint8)).astype(np.bool_)
    if found[size:].any():
        raise ProtocolError(f"the answer marks rows beyond the {size:,} that were sent.")
    return found[:size]


# ------------------------------------------------------------------------------------------------ one order for all


def order_digest(digests: Digests, pepper: bytes, run: str) -> bytes:
    """32 bytes that two parties have in common if and only if they have the same rows in the same order in this run.

    Without the pepper it says nothing else: to the coordinator two of them are equal or not.
    """
    return hmac.digest(derive(checked_secret(pepper), "align", "order", run), digests.tobytes(), "sha256")


def locate(offered: RowOffer, common: Digests) -> Places:
    """Where the common digests that a label holder sent stand among a party's own; a foreign one is refused."""
    words = as_words(offered.digests)
    wanted = _sorted_words("the label holder", common)
    places = np.minimum(np.searchsorted(words, wanted), words.size - 1)
    if foreign := int((words[places] != wanted).sum()):
        raise ProtocolError(f"{foreign:,} of {wanted.size:,} rows that are said to be common are not in this table.")
    return places.astype(np.int64)


_Key = Annotated[str, must("64 hexadecimal digits", hidden=True, pattern=r"^[0-9a-f]{64}\Z")]


class AgreementTable(Table, frozen=True):
    """An agreement as a party stores it."""

    version: int
    session: Text
    party: Text
    parties: Annotated[list[Text], must("a list of names", ["clinic", "bank"])]
    pepper: _Key
    column: _Key
    bits: Annotated[bytes, must("bits in base64, one a digest", hidden=True)]
    rows: Count


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a party keeps of an alignment: the pepper, and which of its digests are common to all.

    It is as confidential as the table: whoever has it and the coordinator's digests can test guessed keys.
    """

    session: str
    party: str
    parties: tuple[str, ...]  # all of them, sorted
    pepper: bytes = field(repr=False)
    bits: bytes = field(repr=False)
    column: bytes = field(repr=False)  # keyed digest of all that was offered: other keys, another column
    rows: int

    @classmethod
    def from_answer(
        cls, offered: RowOffer, bits: bytes, pepper: bytes, *, session: str, party: str, parties: Sequence[str]
    ) -> Agreement:
        """An agreement from the coordinator's answer, if it leaves enough rows."""
        if party not in parties or len(set(parties)) != len(parties):
            raise InvalidInput(f"{party!r} is not once among the parties {', '.join(map(repr, parties))}.")
        rows = int(_unpack(bits, len(offered.digests)).sum())
        _enough(rows, offered.least)
        return cls(session, party, tuple(sorted(parties)), pepper, bits, _column(offered, pepper), rows)

    def places(self, offered: RowOffer) -> Places:
        """The rows of the table in the common order. The table may be sorted anew, with the keys agreed on."""
        return offered.places[self._common(offered)]

    def confirmation(self, offered: RowOffer, run: str) -> bytes:
        """What this party sends to all others in every run: its rows and their order, under its own name."""
        return self._confirmation(self.party, self._order(offered, run))

    def check(self, offered: RowOffer, run: str, confirmations: Mapping[str, bytes]) -> None:
        """Whether every other party confirmed the same rows in the same order.

        A confirmation carries its sender's name under the pepper: a coordinator can neither make one nor pass one
        party's off as another's.
        """
        others = set(self.parties) - {self.party}
        if set(confirmations) != others:
            names = f"{', '.join(sorted(others))}; {', '.join(sorted(confirmations)) or 'nobody'}"
            advice = "Begin another alignment with the parties that take part."
            raise ProtocolError(f"rows were agreed on with {names} confirmed them. {advice}")
        order = self._order(offered, run)
        wanted = {party: self._confirmation(party, order) for party in sorted(others)}
        if wrong := [party for party in wanted if not hmac.compare_digest(confirmations[party], wanted[party])]:
            raise ProtocolError(
                f"{', '.join(map(repr, wrong))} did not confirm the rows that {self.party!r} would use, or their "
                "order. Nothing of this run was computed. Begin another alignment; if it happens again, ask who runs "
                "the coordinator."
            )

    def _order(self, offered: RowOffer, run: str) -> bytes:
        return order_digest(offered.digests[self._common(offered)], self.pepper, run)

    def _confirmation(self, party: str, order: bytes) -> bytes:
        return hmac.digest(derive(self.pepper, "align", "confirm", party, *self.parties), order, "sha256")

    def _common(self, offered: RowOffer) -> NDArray[np.bool_]:
        if not hmac.compare_digest(self.column, _column(offered, self.pepper)):
            raise InvalidInput(
                f"the keys of {self.party!r} are not those that were agreed on in session {self.session!r}: rows were "
                "added, removed, or cut otherwise. Nothing was sent. Restore the table, or begin another alignment."
            )
        _enough(self.rows, offered.least)
        return _unpack(self.bits, len(offered.digests))

    def to_json(self) -> str:
        """The record as a party stores it."""
        raw = asdict(self) | {"version": _VERSION, "parties": list(self.parties)}
        raw |= {"pepper": self.pepper.hex(), "column": self.column.hex(), "bits": base64.b64encode(self.bits).decode()}
        return json.dumps(raw, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Agreement:
        """The record as it was stored; anything else is refused."""
        try:
            raw = parse_json(text)
            if isinstance(raw, dict) and raw.get("version", _VERSION) != _VERSION:
                reads = f"this Colonnade reads version {_VERSION}. Make a new one with `colonnade party realign`"
                raise InvalidInput(f"it is of another version; {reads}")
            said: AgreementTable = read(raw, AgreementTable)
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, InvalidInput) else "it is no JSON"
            raise InvalidInput(f"this is not a stored agreement: {why}. Align again, or restore the file.") from error
        keys = {"pepper": bytes.fromhex(said.pepper), "column": bytes.fromhex(said.column)}
        found = cls(said.session, said.party, tuple(said.parties), bits=said.bits, rows=said.rows, **keys)
        marked = int.from_bytes(found.bits, "little").bit_count()
        if marked != found.rows or found.party not in found.parties:
            raise InvalidInput("this agreement was damaged. Align again, or restore the file.")
        return found


def _column(offered: RowOffer, pepper: bytes) -> bytes:
    return hmac.digest(derive(checked_secret(pepper), "align", "column"), offered.digests.tobytes(), "sha256")


def _enough(rows: int, least: int) -> None:
    if rows < least:
        raise PolicyRefused(
            f"the common rows are fewer than the {least:,} that this party's policy asks for. Nothing of its columns "
            "was sent. A coordinator that answers with few rows may be after one of them."
        )


def _freeze(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
