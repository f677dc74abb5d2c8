"""Three organisations on one machine, ready to run apart: folders, certificates, keys, a federation file and a job.

Each organisation's folder holds what only it has: its table, its signing key, its certificate, its copy of the file.
The data are the flights of the demo (flights.py); the policies allow private runs up to an epsilon, and nothing else.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from colonnade.cli import flights
from colonnade.data.federation_file import FederationFile, Member
from colonnade.errors import InvalidInput
from colonnade.network import certs
from colonnade.network.party_file import write_key
from colonnade.privacy.events import Policy
from colonnade.privacy.store import write_synced
from colonnade.runtime.program import COORDINATOR

JOB = """# What the coordinator proposes; every party prices it and approves it.
[problem]
loss = "Logistic"
penalty = { type = "Ridge", a = 1e-3 }
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
source = "table.parquet"
"""


def write_example(folder: Path, rows: int, hub: str) -> list[str]:
    """Fill an empty folder; the parties' names."""
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} is not empty; name a new folder.")
    data = flights.load(rows)
    authority = folder / "authority"
    certs.init(authority)
    members = {}
    for name in (COORDINATOR, *data.frames):
        home = folder / name
        (home / "certs").mkdir(parents=True)
        certs.issue(authority, name, hosts=["localhost"] if name == COORDINATOR else ())
        for file in (f"{name}.pem", f"{name}.key", "authority.pem", "revoked.pem"):
            shutil.copy2(authority / file, home / "certs" / file)
        if name == COORDINATOR:
            shutil.copy2(authority / certs.SIGNING_KEY, home / "certs" / certs.SIGNING_KEY)
        else:
            data.frames[name].write_parquet(home / "table.parquet")
            policy = Policy(epsilon=2.0, delta=1e-6, least=min(500, rows))
            members[name] = Member(data.schemas[name], policy, write_key(home / "signing.key"))
            write_synced(home / "party.toml", PARTY.format(name=name).encode())
    pin = certs.keep_signing_key(authority)
    federation_file = FederationFile(members, flights.KEY, flights.LABEL, hub=hub, coordinator=pin)
    for name in (COORDINATOR, *data.frames):
        federation_file.save(folder / name / "federation.toml")
    write_synced(folder / COORDINATOR / "job.toml", JOB.encode())
    return list(members)
