"""A standing order: who may ask for scores, by which models, how many rows a day, until when; approved by every party.

Whoever has the fit writes it (`colonnade score order`); it goes from party to party, and each adds its approval. An
approval is the party's public key for this order, signed with its pinned signing key together with the digest of all
terms: parties that approved different terms do not meet, and no mask cancels between them. At the party it is a run of
its ledger, counted as one run of scores. `colonnade runs abort` ends it there, erases the key, and nothing more leaves.

The models are the fit's own, and a fallback for each set of parties that the order lets be missing: solved again from
the same release (runs/refit.py), so it costs nothing. Of the fit's own model every party takes the part that it kept;
the coefficients of fallbacks stand in the order, all parties see them, and each solves them again from the release
before it approves (runs/refit.py). What scores tell is derived for a label holder that knows every coefficient
(docs/understand/privacy/scores.md, "Scores on request").
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from colonnade.data.federation_file import FederationFile
from colonnade.data.text_file import fields_in, read_text
from colonnade.errors import InvalidInput, ReplayDiverged
from colonnade.fields import Count, Finite, Flag, Name, Text, Wrong, check, must, read
from colonnade.privacy.events import SCORES, Charge
from colonnade.privacy.keyring import Keyring
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.store import Log, write_synced
from colonnade.problem.link import PLAIN, Link
from colonnade.runtime.run_store import RunStore

METHOD = "scores on request"  # in the terms of its run
LOOPBACK = "loopback"  # the asker that programs on the label holder's own machine are
MOST_A_DAY = 10**9
_HEX = re.compile(r"(?:[0-9a-f]{2})+")
_FORMAT = "colonnade standing order"
_Figures = Annotated[tuple[Finite, ...], must("a list of finite numbers")]
_EVER = 2**53  # answers of an order: its quota says how many a day


@dataclass(frozen=True)
class Fallback:
    """The model of the columns of all other parties."""

    without: Annotated[tuple[str, ...], must("a list of parties", ["lab"], min_length=1)]
    intercept: Finite
    coefficients: Annotated[Mapping[str, tuple[Finite, ...]], must("finite numbers by party")]
    link: _Figures = ()  # as in Order

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Order:
    """The terms, and who has approved them."""

    id: Name
    federation: str  # digest of the federation file
    model: Name  # the run whose model scores
    depth: Count  # of the model's curves
    intercept: Finite
    askers: Annotated[
        tuple[Text, ...], must("a list of who may ask", [LOOPBACK], min_length=1)
    ]  # by client certificates
    rows_a_day: Annotated[int, must(f"a whole number from 1 to {MOST_A_DAY:,}", 1000, ge=1, le=MOST_A_DAY)]
    until: Annotated[str, must("a day", "2027-12-31", pattern=r"^\d{4}-\d\d-\d\d\Z")]  # the last, UTC
    training_rows: Flag = False  # whether rows may be scored that the model was learned from
    fallbacks: tuple[Fallback, ...] = ()
    link: _Figures = ()  # from a score to a probability (problem/link.py); empty: the model knows none
    classes: Annotated[
        tuple[str | bool | Finite, ...], must("two classes, or none")
    ] = ()  # what the labels call −1 and +1; empty: numbers
    approvals: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # public key and signature, hexadecimal

    def __post_init__(self) -> None:
        check(self)
        try:
            date.fromisoformat(self.until)
        except ValueError as error:
            raise Wrong("until", f"is {self.until}, and there is no such day") from error
        missing = [frozenset(one.without) for one in self.fallbacks]
        if len(set(missing)) < len(missing):  # each is an equation more about every row
            raise InvalidInput("two fallbacks are without the same parties")
        links = [self.link, *(one.link for one in self.fallbacks)]
        if len({len(one) for one in links}) > 1 or len(self.link) not in (0, len(Link._fields)):
            raise InvalidInput(f"a link has {len(Link._fields)} figures, and all models of an order have one, or none")
        if not all(_HEX.fullmatch(text) for pair in self.approvals.values() for text in pair):
            raise InvalidInput("an approval is a public key and a signature, both in hexadecimal digits")
        if len(self.classes) not in (0, 2) or (self.link and not self.classes):
            raise InvalidInput("there are two classes where there are probabilities, or none")

    @property
    def run(self) -> str:
        """Its name in ledgers."""
        return self.id

    @property
    def terms(self) -> dict[str, Any]:
        """All that is approved."""
        raw = asdict(self)
        del raw["approvals"]
        # What an order does not have changes no digest.
        for one in (raw, *raw["fallbacks"]):
            for name in [name for name in ("link", "classes") if not one.get(name, True)]:
                del one[name]
        return raw

    def meaning(self, score: float, model: int) -> dict[str, Any]:
        """What a score says of the row's class, as the fit itself would: a function of the score and public figures."""
        if not self.classes:
            return {}
        figures = self.fallbacks[model - 1].link if model else self.link
        link = Link(*figures) if figures else PLAIN
        scores = np.array([score])
        said = {"class": self.classes[int(link.log_odds(scores)[0] >= 0.0)]}
        return {"probability": float(link(scores)[0]), **said} if figures else said

    @cached_property
    def digest(self) -> bytes:
        text = json.dumps([_FORMAT, self.terms], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()

    def parties(self, file: FederationFile, model: int = 0) -> tuple[str, ...]:
        """Who takes part in a model: 0 is the fit's own, then the fallbacks in their order."""
        missing = self.fallbacks[model - 1].without if model else ()
        return tuple(name for name in file.members if name not in missing)

    def check_day(self, today: str) -> None:
        if today > self.until:
            raise InvalidInput(f"the order {self.id} ended on {self.until}; it is {today}. Make a new one.")

    # ------------------------------------------------------------------------ as a file

    def save(self, path: Path) -> None:
        raw = {"format": _FORMAT, "version": 1, **self.terms, "approvals": dict(self.approvals)}
        write_synced(path, json.dumps(raw, indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> Order:
        text = read_text(path)
        try:
            order: Order = read(fields_in(text, _FORMAT), cls)
        except InvalidInput as error:
            raise InvalidInput(f"{path} is no standing order: {error}. `colonnade score order` writes one.") from error
        return order


def is_order(log: Log, run: str) -> bool:
    """Whether a run of a ledger is a standing order, in which a coordinator has no say."""
    return any(json.loads(row.body)["terms"]["method"] == METHOD for row in log.rows(run, "open"))


def today() -> str:
    return datetime.now(UTC).date().isoformat()


class Approved:
    """An order at one party: its ledger's run, its keys, and its word."""

    def __init__(self, order: Order, file: FederationFile, name: str, store: RunStore, identity: bytes) -> None:
        if order.federation != file.digest:
            raise InvalidInput(
                f"the order {order.id} is for another federation file than the one here. Nothing leaves; compare both."
            )
        others = set(file.members) - {file.label[0]}
        for one in order.fallbacks:
            if not set(one.without) <= others or set(one.coefficients) != set(file.members) - set(one.without):
                raise InvalidInput(
                    f"a fallback of the order {order.id} is without {', '.join(one.without)} and has coefficients of "
                    f"{', '.join(one.coefficients)}: these are not the parties of the federation file. Nothing leaves."
                )
        self.order = order
        self.file = file
        self.name = name
        self.store = store
        self.log = store.log(name)
        self.ledger = Ledger(self.log, name, file.members[name].policy, identity=identity)
        self._identity = identity

    @property
    def _terms(self) -> Terms:
        settings = json.dumps(self.order.terms, sort_keys=True)
        unit = self.file.unit
        return Terms(METHOD, settings, "secure", str(unit), unit.neighbours, self.order.digest.hex())

    def approve(self) -> Order:
        """Open the order in this party's ledger, if its policy lets scores leave; the order with this party's word."""
        holder = self.file.label[0]
        charge = Charge(
            SCORES, _EVER, "its part of a score that was asked for, to the label holder, who learns the sum"
        )
        plans = {name: () if name == holder else (charge,) for name in self.file.members}
        with self.log.atomic():
            self.ledger.open_run(self.order.run, self._terms, plans)
            self.store.adopt(self.order.run)
        public, signature = self._keyring().hello
        return replace(self.order, approvals={**self.order.approvals, self.name: (public.hex(), signature.hex())})

    def check_open(self) -> None:
        """Refuse an order that was not approved here, or has ended here; and a ledger in which a row was changed."""
        self.order.check_day(today())
        # All of it: no snapshot vouches for quotas.
        self.log.verify()
        if self.log.holds(self.order.run, "close") or self.store.how_ended(self.order.run) is not None:
            raise ReplayDiverged(f"the order {self.order.id} has ended at {self.name!r}. Nothing leaves.")
        found = self.log.rows(self.order.run, "open")
        if not found or json.loads(found[0].body)["terms"] != asdict(self._terms):
            raise InvalidInput(
                f"{self.name!r} has not approved these terms of the order {self.order.id}. Nothing leaves. Approve "
                "them: `colonnade score approve`."
            )

    def keyring(self) -> Keyring:
        """Its keys for this order, when every party has approved the same terms."""
        self.check_open()
        made = self._keyring()
        for peer in self.file.members:
            if peer not in self.order.approvals:
                raise InvalidInput(f"{peer!r} has not approved the order {self.order.id}. Send it the file.")
            if peer != self.name:
                public, signature = (bytes.fromhex(text) for text in self.order.approvals[peer])
                made.meet(peer, public, signature)
        return made

    def _keyring(self) -> Keyring:
        secret = self.log.secret(self.order.run, "order", 32)
        told = self.order.digest.hex()
        return Keyring(f"order/{self.order.id}", self.name, self._identity, self.file.keys, secret, told)
