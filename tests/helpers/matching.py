"""Parties that match their rows, and a hub that keeps all it sees."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.alignment import Agreement
from colonnade.data.federation_file import AlignBy, FederationFile, Member, new_key
from colonnade.data.schema.columns import Numeric
from colonnade.data.schema.table import Schema
from colonnade.network.party_data import PartyData
from colonnade.network.questions import Parcel, Said
from colonnade.runtime.host import Answered
from tests.helpers.organisations import Organisations
from tests.helpers.stub_hub import AskedOf, Straw, heard

ROWS = {"clinic": range(2, 14), "bank": range(12), "lab": (*range(1, 9), 40, 41)}  # the bank holds the labels
COMMON = set(range(2, 9))
MOST = 14


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    """As a party's process logs: a log line that cannot be written is an error."""
    caplog.set_level(logging.INFO)


def key(row: int) -> str:
    """A text that stands nowhere by chance."""
    return f"patient-{row:04}-of-the-{row * 7919 % 10007:05}-th-ward"


def keyed(
    folder: Path, align: Literal["digests", "psi"] = "psi", rows: Mapping[str, Sequence[int]] = ROWS, least: int = 3
) -> Organisations:
    members, keys, tables = {}, {}, {}
    most = MOST if align == "psi" else None
    for seed, (name, held) in enumerate(rows.items()):
        public, keys[name] = new_key()
        policy = co.Policy(exact=True, least=least)
        members[name] = Member(Schema((Numeric(name, -3.0, 3.0),)), policy, public, most=most)
        value = [np.random.default_rng([seed, row]).uniform(-3, 3) for row in held]
        label = [np.random.default_rng([9, row]).uniform(-1, 1) for row in held]
        tables[name] = pl.DataFrame({"key": [key(row) for row in held], name: value, "y": label})
    return Organisations(folder, FederationFile(members, "key", ("bank", "y"), align=AlignBy(align)), keys, tables, {})


def kept_keys(made: Organisations, name: str) -> list[str]:
    """The keys of a party's common rows, in the common order."""
    agreement = Agreement.from_json((made.folder / name / "alignment.json").read_text())
    party_data = PartyData(made.file, name, made.tables[name])
    kept: list[str] = made.tables[name]["key"].gather(agreement.places(party_data.offer(agreement.pepper))).to_list()
    return kept


def check_rows(made: Organisations, common: Collection[int] = COMMON) -> None:
    found = {tuple(kept_keys(made, name)) for name in made.names}
    assert len(found) == 1
    assert {key(row) for row in common} == set(*found)


class Watched(Straw):
    """A hub of straw that keeps all it sees of an alignment, and may stop at a question."""

    def __init__(self, made: Organisations, lose: dict[int, str] | None = None, stop: int | str = 0) -> None:
        super().__init__(made, lose)
        self.stop = stop
        self.seen: list[tuple[str, str, tuple[bytes, ...], tuple[bytes, ...]]] = []
        self.forms: dict[tuple[object, ...], set[tuple[bytes, ...]]] = {}

    def answer_to(self, asked: AskedOf) -> Answered[Said]:
        if self.stop in (self.asked + 1, asked.what):
            raise SystemExit
        answer = super().answer_to(asked)
        if (found := heard(answer)) is not None:
            self.seen.append((asked.party, asked.what, asked.blobs, found.blobs))
            about = (asked.head.get(name) for name in ("session", "peer", "block", "part"))
            self.forms.setdefault((asked.party, asked.what, *about), set()).add(found.blobs)
        return answer


def last_seen(straw: Watched, party: str, what: str) -> tuple[bytes, ...]:
    """The blobs of the last question of its kind."""
    return next(asked for who, which, asked, _ in reversed(straw.seen) if (who, which) == (party, what))


def asked(
    straw: Watched, party: str, what: str, blobs: Iterable[bytes], session: str | None = None, **more: Any
) -> Parcel:
    others = [name for name in straw.made.names if name != party]
    first = {"block": 0} if what in ("show", "seek", "blind", "keep") else {}  # the tables here have one block
    return straw.raw(party, what, {"session": session or straw.session, "peers": others, **first, **more}, list(blobs))


def until(made: Organisations, what: str) -> Watched:
    """A hub that stopped just before the first question of a kind."""
    straw = Watched(made, stop=what)
    with pytest.raises(SystemExit):
        straw.meet(made.federation)
    begun = straw.services["bank"].aligning.standing().get("begun", "")
    assert isinstance(begun, str)
    straw.session = begun
    return straw
