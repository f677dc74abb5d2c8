"""The federation file: who takes part, what each party says in public, what it allows, and the key that proves it.

    version = 1                         # of this form
    on = "flight"                       # the key that rows are matched by
    align = "psi"                       # by private set intersection, or "digests"; left out: "psi" where all say most
    label = ["airline", "late"]         # who holds the labels, and in which column
    positive = "yes"                    # of labels that are words, the class that is learnt; left out: numbers
    negative = "no"                     # the other class; left out: every other value
    offset = ["airline", "log_hours"]   # of its table, a known part of each row's score; left out: none
    weight = ["airline", "flights"]     # likewise, how many rows a row stands for; left out: one
    hub = "hub.example.org:7443"        # where the parties find the coordinator, if they run elsewhere
    coordinator = "ed25519:77c2..."     # its public key, pinned: masked rows are sealed to a key that this one signed

    deadline = 120                      # seconds that a party may be silent in a run; left out: the hub's patience
    quorum = 3                          # parties, label holder included, that a run goes on with; left out: it stops

    rows = 1000                         # instead of `on`: all parties hold these rows in the same order
    by = "rows"                         # parties hold different rows of the same columns; left out: "columns"
    unit = ["passenger", 3]             # whose privacy is protected, and the most rows each; left out: one row
    people = "airline"                  # with unit: the party whose table has that column, and cuts surplus rows

    [parties.airline]
    schema = "airline.schema.toml"      # beside this file: what is public about its columns
    columns = 40                        # instead of `schema`, for a plain matrix: how many it holds
    rows = 250                          # with by = "rows": how many it holds
    exact = true                        # exact values may leave; left out: noisy ones only
    epsilon = 1.0                       # instead: the most that private runs may spend on a row together
    delta = 1e-6                        # at this delta
    consortium = true                   # exact values may go to the other parties in a run whose trust is "consortium"
    scores = true                       # its part of the scores of its rows may go to the label holder
    least = 500                         # it takes part with so many common rows or more, and their number is public
    quorum = 4                          # it goes on with so many parties or more; left out: as above
    most = 25000                        # for "psi": the most keys it may bring, whatever its table holds
    key = "ed25519:4f0a..."             # the party's public key, pinned
    certificate = "sha256:9c1b..."      # of its certificate's key; left out: any that the authority issued
    address = "air.example.org:7444"    # where other parties reach it on a graph without the hub; left out: they do not

All of it is public, and every party holds the same copy: `digest` says whether two copies are the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from colonnade.data.labels import check_classes, check_pairs, check_unit, other_class
from colonnade.data.schema.table import Schema, toml_lines, toml_value
from colonnade.data.text_file import parse_toml, placed, read_text
from colonnade.errors import InvalidInput
from colonnade.fields import Choice, Text, Wrong, check, check_names, check_version, inside, must, read, within
from colonnade.model.facts import Classes, Name
from colonnade.privacy.block import ROW, Unit
from colonnade.privacy.events import Policy
from colonnade.privacy.store import write_synced

_VERSION = 1
NAME_THE_KEY = 'on must name the key column, as in on = "patient"'
_MOST = 100_000_000  # keys of a party; all of them are in memory, and blinded in hours
LONGEST = 86_400  # seconds of a deadline
_KEY_KIND = "ed25519:"
_PIN_KIND = "sha256:"
_HEXADECIMAL = "and 64 hexadecimal digits"
_POLICY = tuple(one.name for one in fields(Policy))

Pair = Annotated[tuple[str, str], must("[party, column]", ["hospital", "readmitted"])]
_Count = Annotated[int, must(f"a whole number, {_MOST:,} at most", 1000, ge=0, le=_MOST)]
_OfPerson = Annotated[int, must("a number of rows", 5, le=_MOST)]
_Unit = Annotated[tuple[str, _OfPerson], must("[column, rows]", ["patient", 5])]
_Keys = Annotated[int, must(f"a number of keys, at least 1 and at most {_MOST:,}", 25_000, ge=1, le=_MOST)]
_Key = Annotated[str, must(f"'{_KEY_KIND}' {_HEXADECIMAL}", pattern=rf"^{_KEY_KIND}[0-9a-f]{{64}}\Z")]
_Pin = Annotated[str, must(f"'{_PIN_KIND}' {_HEXADECIMAL}", pattern=rf"^{_PIN_KIND}[0-9a-f]{{64}}\Z")]
_Address = Annotated[str, must("host:port", "air.example.org:7444", pattern=r"^[A-Za-z0-9.\-\[\]:]+:[0-9]{1,5}\Z")]
_Seconds = Annotated[float, must(f"a number of seconds, 1 to {LONGEST:,}", 120, ge=1.0, le=LONGEST)]


class SplitBy(Choice):
    """What each party holds of the table."""

    COLUMNS = "columns"
    ROWS = "rows"


class AlignBy(Choice):
    """How parties elsewhere find their common rows."""

    DIGESTS = "digests"
    PSI = "psi"


@dataclass(frozen=True)
class Member:
    """One party as the federation knows it."""

    schema: Schema | None  # None: a plain matrix, about which nothing is public but its width
    policy: Policy
    key: _Key
    columns: _Count | None = None  # of a plain matrix
    rows: _Count | None = None  # where rows are split
    certificate: _Pin | None = None
    most: _Keys | None = None  # that it brings to a private set intersection
    address: _Address | None = None  # where other parties may reach it directly

    def __post_init__(self) -> None:
        check(self)
        if (self.schema is None) == (self.columns is None):
            raise InvalidInput("a party has either schema = ... or, for a plain matrix, columns = ...")

    @property
    def width(self) -> int:
        """How many encoded columns it holds."""
        return self.schema.width if self.schema is not None else int(self.columns or 0)

    @property
    def public_key(self) -> bytes:
        return bytes.fromhex(self.key.removeprefix(_KEY_KIND))

    @property
    def pin(self) -> bytes | None:
        """SHA-256 of the public key of its certificate; None: any that the authority issued to its name."""
        return None if self.certificate is None else bytes.fromhex(self.certificate.removeprefix(_PIN_KIND))


@dataclass(frozen=True)
class FederationFile:
    """The content of a federation file."""

    members: Mapping[str, Member]
    on: Annotated[str, must("a text that names the key column", "patient", min_length=1)] | None
    label: Pair
    unit: Unit = ROW
    rows: _Count | None = None  # where all parties hold the same rows in the same order, and no key is needed
    by: Annotated[SplitBy, must("'columns' or 'rows'")] = SplitBy.COLUMNS
    hub: Annotated[str, must("a text, host:port", "hub.example.org:7443")] | None = None
    people: Text | None = None  # who knows whom a row is about, where parties run elsewhere
    align: Annotated[AlignBy, must("'digests' or 'psi'")] = AlignBy.DIGESTS
    coordinator: _Key | None = None  # the public key of who runs the hub
    offset: Pair | None = None  # as the label: who holds it, and in which column
    weight: Pair | None = None
    positive: Name | None = None  # the class that is learnt, where labels are words
    negative: Name | None = None
    deadline: _Seconds | None = None  # seconds that a party may be silent in a run

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "by", SplitBy(self.by))
        object.__setattr__(self, "align", AlignBy(self.align))
        if over := [name for name, one in self.members.items() if (one.policy.quorum or 0) > len(self.members)]:
            raise InvalidInput(f"quorum of {over[0]!r} asks for more than the {len(self.members)} parties there are")
        if self.coordinator in {member.key for member in self.members.values()}:
            raise InvalidInput("the coordinator has a party's key. Whoever coordinates holds no data: give it its own")
        if self.people is not None and (self.people not in self.members or self.unit == ROW):
            what = f"people = {self.people!r} names the party that cuts a unit's surplus rows"
            raise InvalidInput(f"{what}: there is no such party, or no unit")
        if self.by is SplitBy.ROWS:
            if self.on is not None or self.rows is not None:
                raise InvalidInput("where rows are split there is nothing to match: leave on and rows out")
            if bare := [name for name, member in self.members.items() if member.rows is None]:
                raise InvalidInput(f"rows are split, so [parties.{bare[0]}] must say how many it holds: rows = ...")
        elif (self.on is None) == (self.rows is None):
            advice = "or, where all parties hold the same rows in the same order, rows = ... says how many"
            raise InvalidInput(f"{NAME_THE_KEY}; {advice}")
        self._check_tables()
        if self.align is AlignBy.PSI:
            self._check_psi()
        elif odd := [name for name, member in self.members.items() if member.most is not None]:
            raise InvalidInput(
                f'[parties.{odd[0]}] has most = ..., which is for align = "psi"; say it of all parties, or leave it out'
            )
        if self.label[0] not in self.members:
            names = ", ".join(self.members)
            raise InvalidInput(f"label names {self.label[0]!r}, which is not among the parties {names}")
        if self.beside and self.on is None:
            raise InvalidInput(f"{next(iter(self.beside))} names a column of a table that has a key: say on = ... too")
        check_unit(self.beside, None if self.unit == ROW else self.unit)
        if self.positive is None and self.negative is not None:
            raise InvalidInput(
                'negative = ... names the other class: say positive = "...", the one that is learnt, too'
            )
        if self.positive is not None:
            if self.on is None:
                raise InvalidInput("positive names a class in a column of a table that has a key: say on = ... too")
            check_classes(self.classes, 'positive = "yes" and negative = "no"')

    @property
    def classes(self) -> Classes | None:
        """What the labels −1 and 1 are called; None: they are numbers."""
        return None if self.positive is None else (other_class(self.positive, self.negative), self.positive)

    @property
    def beside(self) -> dict[str, str]:
        """The label holder's columns of offset and weight, where there are such."""
        return check_pairs(self.label, self.offset, self.weight)[1]

    def _check_tables(self) -> None:
        """A schema encodes tables that have a key; of a plain matrix nothing is public but its width."""
        for name, member in self.members.items():
            if self.on is None and member.schema is not None:
                raise InvalidInput(
                    f"[parties.{name}] has a schema, which encodes a table with a key, and there is no on = ...: name "
                    f"the key, or say columns = ... of a plain matrix of numbers instead of schema"
                )
            if self.on is not None and member.schema is None:
                raise InvalidInput(
                    f"[parties.{name}] has columns = ..., which is for a plain matrix, and rows are matched by the key "
                    f"{self.on!r}: name its schema = ... instead, or say rows = ... instead of on"
                )
            if member.schema is not None and not member.schema.declared:
                raise InvalidInput(
                    f"the schema of [parties.{name}] has columns without figures, and between organisations nobody "
                    "looks at columns: declare their bounds and levels"
                )
        widths = {member.width for member in self.members.values()}
        if self.by is SplitBy.ROWS and len(widths) > 1:
            raise InvalidInput(
                f"rows are split, so all parties hold the same columns; columns = ... says {min(widths):,} of one and "
                f"{max(widths):,} of another. Write the same number everywhere"
            )

    def _check_psi(self) -> None:
        if self.on is None or len(self.members) < 2:
            raise InvalidInput('align = "psi" is for two or more parties whose rows are matched by a key: on = ...')
        if bare := [name for name, member in self.members.items() if member.most is None]:
            why = "whoever may bring every key there is learns the whole column, so all agree on how many"
            raise InvalidInput(f'align = "psi" needs most = ... in [parties.{bare[0]}]: {why} its table can hold')

    def save(self, path: str | Path) -> None:
        """Write the file, and each party's schema beside it."""
        path = Path(path)
        top = {name: getattr(self, name) for name in ("on", "rows", "hub", "coordinator", "people")}
        align = None if self.align is AlignBy.DIGESTS else self.align
        by = None if self.by is SplitBy.COLUMNS else self.by
        top |= {"align": align, "by": by}
        top |= {name: getattr(self, name) for name in ("label", "positive", "negative", "offset", "weight")}
        top |= {"unit": None if self.unit == ROW else (self.unit.name, self.unit.rows), "deadline": self.deadline}
        lines = [f"version = {_VERSION}", *_given_lines(top)]
        for name, member in self.members.items():
            lines += ["", f"[parties.{toml_value(name)}]"]
            if member.schema is not None:
                file = f"{name}.schema.toml"
                member.schema.check_readable()
                write_synced(path.parent / file, member.schema.to_text().encode())
                lines.append(f"schema = {toml_value(file)}")
            rest = {n: getattr(member, n) for n in ("columns", "rows", "most", "key", "certificate", "address")}
            lines += _given_lines(_policy_entries(member.policy) | rest)
        write_synced(path, ("\n".join(lines) + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> FederationFile:
        """Read a federation file and the schemas it names."""
        return cls.load_text(read_text(Path(path)), Path(path))

    @classmethod
    def load_text(cls, text: str, path: Path) -> FederationFile:
        """The file that `text` would be at `path`."""
        raw = parse_toml(text, path)
        with placed(path, text):
            return _from_plain(raw, path.parent)

    @property
    def keys(self) -> dict[str, bytes]:
        """Everybody's public key, the coordinator's among them if it is pinned."""
        pinned = {} if self.coordinator is None else {"coordinator": self.coordinator}
        texts = pinned | {name: member.key for name, member in self.members.items()}
        return {name: bytes.fromhex(text.removeprefix(_KEY_KIND)) for name, text in texts.items()}

    def listener(self, one: str, other: str) -> str | None:
        """Which of two parties takes the connection between them: of those with an address the one that stands first in
        the file; the other dials. None: they have no connection."""
        return next((name for name in self.members if name in (one, other) and self.members[name].address), None)

    @property
    def digest(self) -> str:
        """A hash of everything in it, schemas included: two parties with the same one hold the same copy."""
        parts: list[object] = [self.on, self.rows, self.by, self.label, self.unit.name, self.unit.rows, self.people]
        for name, member in self.members.items():
            schema = member.schema and member.schema.digest()
            parts += [name, schema, repr(member.policy), member.key, member.columns, member.rows, member.certificate]
            parts += [] if member.most is None else [member.most]
        parts += [] if self.align is AlignBy.DIGESTS else [self.align]
        if addresses := {name: member.address for name, member in self.members.items() if member.address}:
            parts.append(addresses)  # who dials whom follows from them
        parts += [] if self.coordinator is None else ["coordinator", self.coordinator]
        parts += ["beside", self.beside] if self.beside else []
        parts += [] if self.positive is None else ["classes", self.positive, self.negative]
        parts += [] if self.deadline is None else ["deadline", float(self.deadline)]
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def new_key() -> tuple[str, bytes]:
    """A fresh signing key: its public half as a federation file writes it, and the private half."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate().private_bytes_raw()
    return public_text(private), private


def public_text(private: bytes) -> str:
    """The public half of a signing key as a federation file writes it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return _KEY_KIND + Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw().hex()


def pin_coordinator(path: Path, key: str) -> bool:
    """Write the coordinator's key into a federation file, and nothing else; False: it stands there already."""
    pinned = FederationFile.load(path).coordinator
    if pinned == key:
        return False
    if pinned is not None:
        raise InvalidInput(f"{path} pins another key of the coordinator. Use the key it pins, or take that line out.")
    text = read_text(path)
    line = f'coordinator = "{key}"'
    pinning = re.sub(r"(?m)^(version\s*=.*)$", rf"\1\n{line}", text, count=1)
    # That line is written in another way, or in a text.
    if FederationFile.load_text(pinning, path).coordinator != key:
        pinning = f"{line}\n{text}"
        FederationFile.load_text(pinning, path)
    write_synced(path, pinning.encode())
    return True


_TOP = ("version", "parties", "quorum", *(one.name for one in fields(FederationFile) if one.name != "members"))
_PLAIN = set(_TOP) - {"version", "parties", "quorum", "unit"}
_OF_MEMBER = tuple(one.name for one in fields(Member) if one.name != "policy")


def _from_plain(raw: Mapping[str, Any], folder: Path) -> FederationFile:
    check_version(raw, _VERSION)
    parties = raw.get("parties")
    if not (isinstance(parties, dict) and parties):
        raise InvalidInput("no [parties.NAME] tables; add one for each party")
    check_names(raw, _TOP)
    members = {name: _member(name, table, folder, raw.get("quorum")) for name, table in parties.items()}
    given: dict[str, Any] = {"on": None, "label": None}
    given |= {name: tuple(one) if isinstance(one, list) else one for name, one in raw.items() if name in _PLAIN}
    if "align" not in raw and "on" in raw and all(member.most is not None for member in members.values()):
        given["align"] = "psi"
    unit = Unit(*read(raw["unit"], _Unit, "unit")) if "unit" in raw else ROW
    return FederationFile(members, unit=unit, **given)


def _member(name: str, table: Any, folder: Path, quorum: Any) -> Member:
    place = within("parties", name)
    with inside(place):
        if not isinstance(table, dict) or "key" not in table or not {"schema", "columns"} & set(table):
            raise Wrong("", "needs schema = ... (or columns = ...) and key = ...")
        check_names(table, (*_OF_MEMBER, *_POLICY))
        policy = Policy(**{"quorum": quorum, **{one: table[one] for one in _POLICY if one in table}})
        given = {one: table[one] for one in _OF_MEMBER if one in table}
        if "schema" in given:
            given["schema"] = Schema.from_toml(folder / read(table["schema"], Text, "schema"))
        return Member(**{"schema": None, **given}, policy=policy)


def _policy_entries(policy: Policy) -> dict[str, Any]:
    named = {"exact": policy.exact, "scores": policy.scores or None, "consortium": policy.consortium or None}
    limit = {} if policy.epsilon is None else {"epsilon": float(policy.epsilon), "delta": float(policy.delta or 0.0)}
    return named | {"least": policy.least, "quorum": policy.quorum} | limit


def _given_lines(entries: Mapping[str, Any]) -> list[str]:
    return toml_lines({name: value for name, value in entries.items() if value is not None})
