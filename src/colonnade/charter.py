"""The federation file: who takes part, what each party says in public, what it allows, and the key that proves it.

    version = 1
    on = "flight"                       # the key that rows are matched by
    label = ["airline", "late"]         # who holds the labels, and in which column

    unit = ["passenger", 3]             # whose privacy is protected, and the most rows each; left out: one row

    [parties.airline]
    schema = "airline.schema.toml"      # beside this file
    scores = true                       # its part of the scores of new rows may go to the label holder
    exact = true                        # exact values may leave; or a budget: epsilon = 1.0, delta = 1e-6
    key = "ed25519:4f0a..."             # the party's public key, pinned

All of it is public, and every party holds the same copy.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade.errors import InvalidInput
from colonnade.privacy.block import ROW, Unit
from colonnade.privacy.events import Policy
from colonnade.privacy.store import write_synced
from colonnade.schema import Schema, toml_value

_VERSION = 1
_KEY_KIND = "ed25519:"
_MEMBER_FIELDS = {"schema", "exact", "scores", "consortium", "epsilon", "delta", "key"}


@dataclass(frozen=True)
class Member:
    """One party as the federation knows it."""

    schema: Schema
    policy: Policy
    key: str

    def __post_init__(self) -> None:
        raw = self.key.removeprefix(_KEY_KIND)
        if not (self.key.startswith(_KEY_KIND) and len(raw) == 64 and set(raw) <= set("0123456789abcdef")):
            raise InvalidInput(f"key must be {_KEY_KIND!r} and 64 hexadecimal digits, got {self.key[:24]!r}")


@dataclass(frozen=True)
class Charter:
    """The content of a federation file."""

    members: Mapping[str, Member]
    on: str
    label: tuple[str, str]
    unit: Unit = ROW

    def __post_init__(self) -> None:
        if self.label[0] not in self.members:
            raise InvalidInput(
                f"label names {self.label[0]!r}, which is not among the parties {', '.join(self.members)}"
            )

    def save(self, path: str | Path) -> None:
        """Write the file, and each party's schema beside it."""
        path = Path(path)
        lines = [
            f"version = {_VERSION}",
            f"on = {toml_value(self.on)}",
            f"label = [{', '.join(map(toml_value, self.label))}]",
        ]
        if self.unit != ROW:
            lines.append(f"unit = [{toml_value(self.unit.name)}, {self.unit.rows}]")
        for name, member in self.members.items():
            file = f"{name}.schema.toml"
            write_synced(path.parent / file, member.schema.to_text().encode())
            lines += [
                "",
                f"[parties.{toml_value(name)}]",
                f"schema = {toml_value(file)}",
                *_policy_lines(member.policy),
            ]
            lines.append(f"key = {toml_value(member.key)}")
        write_synced(path, ("\n".join(lines) + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> Charter:
        """Read a federation file and the schemas it names."""
        path = Path(path)
        try:
            raw = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(f"cannot read {path}: {error.strerror}. Check the path.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path} is not a TOML file: {error}") from error
        try:
            return _charter(raw, path.parent)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from error


def new_key() -> tuple[str, bytes]:
    """A fresh signing key: its public half as a federation file writes it, and the private half."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    return _KEY_KIND + private.public_key().public_bytes_raw().hex(), private.private_bytes_raw()


def _charter(raw: Mapping[str, Any], folder: Path) -> Charter:
    if raw.get("version") != _VERSION:
        raise InvalidInput(f"version is {raw.get('version')!r}; this colonnade reads version = {_VERSION}")
    parties, label, on = raw.get("parties"), raw.get("label"), raw.get("on")
    if not (isinstance(parties, dict) and parties):
        raise InvalidInput("no [parties.NAME] tables; add one for each party")
    if not (isinstance(on, str) and on):
        raise InvalidInput('on must name the key column, as in on = "patient"')
    if not (isinstance(label, list) and len(label) == 2 and all(isinstance(part, str) for part in label)):
        raise InvalidInput('label must be [party, column], as in label = ["hospital", "readmitted"]')
    members = {name: _member(name, table, folder) for name, table in parties.items()}
    return Charter(members, on, (label[0], label[1]), _unit(raw.get("unit")))


def _unit(raw: Any) -> Unit:
    if raw is None:
        return ROW
    if not (isinstance(raw, list) and len(raw) == 2 and isinstance(raw[0], str)):
        raise InvalidInput('unit must be [column, rows], as in unit = ["patient", 5]')
    return Unit(raw[0], raw[1])


def _member(name: str, table: Any, folder: Path) -> Member:
    if not isinstance(table, dict) or "schema" not in table or "key" not in table:
        raise InvalidInput(f"[parties.{name}] needs schema = ... and key = ...")
    if unknown := set(table) - _MEMBER_FIELDS:
        raise InvalidInput(
            f"[parties.{name}] has unknown entries: {', '.join(sorted(unknown))}; known: {', '.join(sorted(_MEMBER_FIELDS))}"
        )
    schema = Schema.from_toml(folder / str(table["schema"]))
    said = {name: table[name] for name in ("exact", "scores", "consortium", "epsilon", "delta") if name in table}
    policy = Policy(**said)
    return Member(schema, policy, str(table["key"]))


def _policy_lines(policy: Policy) -> list[str]:
    lines = [f"exact = {'true' if policy.exact else 'false'}"]
    lines += [f"{name} = true" for name in ("scores", "consortium") if getattr(policy, name)]
    if policy.epsilon is not None:
        lines += [f"epsilon = {float(policy.epsilon)!r}", f"delta = {float(policy.delta or 0.0)!r}"]
    return lines
