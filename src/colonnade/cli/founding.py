"""Organisations that begin to work together: authority, certificates, keys and files for all of them, in one go.

Each one's folder holds what only it has (certificate, signing key, its own file) and what everybody has (the federation
file with the schemas), and says in NEXT.md what its operator does. Whoever makes the folders has seen every key, and
holds them until each folder was handed over and deleted there; the authority keeps none but its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import colonnade as co
from colonnade.cli.terminal import write_text
from colonnade.data.federation_file import AlignBy, FederationFile, Member
from colonnade.data.schema.table import Source
from colonnade.network import certs
from colonnade.network.party_file import write_key
from colonnade.runtime.program import COORDINATOR

JOB = """# What the coordinator proposes; every party prices it and approves it.
[problem]
loss = "{loss}"
penalty = {{ type = "Ridge", a = 1e-3 }}
intercept = true

[method]
type = "PrivateGram"

[privacy]
epsilon = 1.0
delta = 1e-6
trust = "secure"
"""
PARTY = """version = 1
name = "{name}"
federation = "federation.toml"
store = "store"
key = "signing.key"
certs = "certs"
approve = "ask"

[data]
source = "{source}"
"""
LATE = """
# A party that falls silent ends a run after the coordinator's --patience, or after as many seconds as this line says
# without its #. All copies of this file must be the same: docs/operate/organisations.md, "A party stays away".
# deadline = 120
"""
FEWER = """# With this line, too, the run goes on while so many parties are left, the label holder among them.
# quorum = {quorum}
"""
NEXT_PARTY = """# {name}: what to do next

1. Take this folder over a way that nobody else can read: `signing.key` and `certs/{name}.key` let their holder speak
   for you. Then have the copy deleted where it was made.
2. Read `federation.toml` and the schemas beside it: who takes part, which bounds are public, and what your entry allows
   ({allows}). All parties and the coordinator must hold the same copy.
3. Write into `party.toml`, under [data], where your table is (now: {source}). Its key column is {on!r}{label}.
4. `colonnade party run party.toml --dry-run` checks files, table, certificate and ledger. It sends nothing.
5. `colonnade party run party.toml` dials {hub} and waits. You are shown each run's price, and asked.

Keep `store/`: it is the record of what was spent on your rows.
"""
NEXT_COORDINATOR = """# The coordinator: what to do next

1. Hand every party its own folder over a way that nobody else can read ({parties}), once, and delete it here: until
   then {keys} lie on this machine, and whoever reads them can speak for their parties.
   Where nobody may ever have seen another one's key, begin again with docs/operate/organisations.md, "Set up", and have
   each party make its own.
2. Keep `../authority` off the network: whoever holds `authority.key` can make a certificate for everybody. It holds no
   key of a party or of yours.
3. Let {hub} lead to this machine, and its port be open for the parties.
4. `colonnade coordinator run federation.toml --job job.toml --dry-run` prices the job. It asks nobody.
5. `colonnade federation check federation.toml` says who is there, with which version and which copy of the file.
6. `colonnade coordinator run federation.toml --job job.toml --report report.html` runs it.
"""


def read_members(
    words: Sequence[str], label: str
) -> tuple[dict[str, tuple[co.Schema, str]], tuple[str, str], str | None]:
    """The parties' schemas, who holds the label in which column, and the class that is learnt if it has words."""
    members: dict[str, tuple[co.Schema, str]] = {}
    for word in words:
        name, mark, path = word.partition("=")
        if not mark or name in members:
            raise co.InvalidInput(f"--party {word}: write --party NAME=SCHEMA.toml, once for each party.")
        schema = co.Schema.from_toml(path)
        if schema.source == Source.DATA:
            what = f"{path} was read off the rows of {name}: its bounds tell about single people"
            raise co.InvalidInput(f'{what}. Have {name} replace them by public ones and remove source = "data".')
        members[name] = (schema, "table.csv")
    holder, _, rest = label.partition(".")
    column, named, positive = rest.partition("=")
    if holder not in members or not column or bool(named) != bool(positive):
        known = ", ".join(members)
        raise co.InvalidInput(f"--label {label}: write PARTY.COLUMN or PARTY.COLUMN=CLASS; the parties are {known}.")
    return members, (holder, column), positive or None


def write_organisations(
    folder: Path,
    members: Mapping[str, tuple[co.Schema, str]],
    on: str,
    label: tuple[str, str],
    hub: str,
    policy: co.Policy,
    most: int,
    positive: str | None = None,
) -> None:
    """Fill a new folder; `members` are the parties' schemas, and where each one's table will be."""
    if folder.exists() and any(folder.iterdir()):
        raise co.InvalidInput(f"{folder} is not empty; name a new folder.")
    authority = folder / "authority"
    parties = {}
    certs.init(authority)
    for name in (COORDINATOR, *members):
        home = folder / name
        (home / "certs").mkdir(parents=True)
        certs.issue(authority, name, hosts=[hub.rpartition(":")[0]] if name == COORDINATOR else ())
        for file in (f"{name}.pem", "authority.pem", "revoked.pem"):
            shutil.copy2(authority / file, home / "certs" / file)
        for key in (f"{name}.key", *([certs.SIGNING_KEY] if name == COORDINATOR else [])):
            shutil.move(authority / key, home / "certs" / key)  # its owner's alone
        if name != COORDINATOR:
            schema, source = members[name]
            parties[name] = Member(schema, policy, write_key(home / "signing.key"), most=most)
            write_text(home / "party.toml", PARTY.format(name=name, source=source))
    pin = certs.keep_signing_key(folder / COORDINATOR / "certs")
    federation = FederationFile(parties, on, label, hub=hub, coordinator=pin, align=AlignBy.PSI, positive=positive)
    fewer = FEWER.format(quorum=len(members) - 1) if len(members) > 2 else ""  # of two, none can be spared
    for name in (COORDINATOR, *members):
        written = folder / name / "federation.toml"
        federation.save(written)
        top, mark, rest = written.read_text(encoding="utf-8").partition("\n[parties.")
        write_text(written, top + LATE + fewer + mark + rest)
    loss = "Logistic" if members[label[0]][0].label is None else "LeastSquares"
    write_text(folder / COORDINATOR / "job.toml", JOB.format(loss=loss))
    _write_next(folder, members, federation, policy)


def _write_next(
    folder: Path, members: Mapping[str, tuple[co.Schema, str]], federation: FederationFile, policy: co.Policy
) -> None:
    hub, (holder, column) = federation.hub, federation.label
    allows = f"private runs of {policy.least:,} common rows or more, up to epsilon {policy.epsilon:g} in all at delta "
    allows += f"{policy.delta:g}; no exact values"
    for name, (_, source) in members.items():
        kind = "numbers, or 1 and 0 for two classes"
        if federation.positive is not None:
            kind = f"{federation.positive!r} is the class that is learnt"
        own = f", its label {column!r}: {kind}" if name == holder else ""
        text = NEXT_PARTY.format(name=name, allows=allows, source=source, on=federation.on, label=own, hub=hub)
        write_text(folder / name / "NEXT.md", text)
    keys = ", ".join(f"`../{name}/{key}`" for name in members for key in (f"certs/{name}.key", "signing.key"))
    told = NEXT_COORDINATOR.format(parties=", ".join(members), hub=hub, keys=keys)
    write_text(folder / COORDINATOR / "NEXT.md", told)
