"""`colonnade certs`: an authority for a federation, and the certificates of its nodes."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import options
from colonnade.cli.terminal import answer, explained, lined

if TYPE_CHECKING:
    from colonnade.network.certs import Card

app = typer.Typer(
    epilog="Begin with: colonnade certs init certs; then issue one for 'coordinator' and one for each party.",
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The authority's folder.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="'coordinator', or a party's name in the federation.")]


@app.command()
def init(
    folder: Folder,
    title: Annotated[str, typer.Option(help="The authority's name in certificates.")] = "Colonnade federation",
    days: Annotated[int, typer.Option(min=1, help="How long it is valid.")] = 3650,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the authority's certificate file.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make an authority. Whoever holds authority.key can speak for every party: keep the folder off the network.

    Every node gets a copy of authority.pem, which is public.

    \bExamples:
      colonnade certs init certs
      colonnade certs init certs --title "Heart study 2026" --days 730
    """
    with explained():
        from colonnade.network import certs

        path = certs.init(folder, title=title, days=days)
        plain = {"authority": str(path), "secret": str(folder / "authority.key")}
        secret = f"{plain['secret']}: readable by you alone; keep it off the network"
        text = lined({**plain, "secret": secret, "next": f"colonnade certs issue {folder} coordinator"}, 11)
        answer(plain, text, str(path), quiet, as_json)


@app.command()
def issue(
    folder: Folder,
    name: Name,
    host: Annotated[list[str] | None, typer.Option(help="A DNS name where it listens; may be repeated.")] = None,
    days: Annotated[int, typer.Option(min=1, help="How long it is valid.")] = 365,
    replace: Annotated[bool, typer.Option("--replace", help="Renew: a new key and certificate.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the fingerprint.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a key and a certificate for one node. Send the node its key over a safe way, then delete it here.

    The coordinator gets a signing key, too; the federation file pins its public half (colonnade federation pin).

    \bExamples:
      colonnade certs issue certs coordinator --host hub.example.org
      colonnade certs issue certs hospital --days 90
      colonnade certs issue certs hospital --replace
    """
    with explained():
        from colonnade.network import certs

        files = certs.issue(folder, name, hosts=host or (), days=days, replace=replace)
        mark = certs.inspect(files.certificate).fingerprint
        facts = {"certificate": str(files.certificate), "secret": str(files.key), "fingerprint": mark}
        if name == certs.HUB:
            facts |= {"signing": str(folder / certs.SIGNING_KEY), "pin": certs.keep_signing_key(folder)}
        answer(facts, lined(facts), mark, quiet, as_json)


@app.command()
def revoke(folder: Folder, name: Name, quiet: options.Silent = False, as_json: options.AsJson = False) -> None:
    """Take back every certificate of a node. Copy revoked.pem to the coordinator; it is read again when it changes.

    A stream of that node ends with its next message. Issue a new certificate with --replace when the matter is settled.

    Example: colonnade certs revoke certs hospital
    """
    with explained():
        from colonnade.network import certs

        count = certs.revoke(folder, name)
        text = f"{count} certificate{'s' if count > 1 else ''} of {name} revoked in {folder / 'revoked.pem'}"
        answer({"name": name, "revoked": count, "list": str(folder / "revoked.pem")}, text, "", quiet, as_json)


@app.command()
def show(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A certificate in PEM form, or an authority's folder.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the fingerprints.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Whom certificates are about, how long they are valid, and the fingerprints to pin. Any PEM certificate will do.

    \bExamples:
      colonnade certs show certs
      colonnade certs show hospital.pem --json
    """
    with explained():
        from colonnade.network import certs

        revoked = frozenset[int]()
        files = [path]
        if path.is_dir():
            files = [path / "authority.pem", *sorted((path / "issued").glob("*.pem"))]
            revoked = certs.revoked_serials(path / "revoked.pem", [certs.read(files[0])])
        cards = [certs.inspect(file) for file in files]
        rows = [
            {
                "names": list(card.names) or (["the authority"] if card.authority else []),
                "from": card.begins.date().isoformat(),
                "to": card.ends.date().isoformat(),
                "state": _state(card, card.serial in revoked),
                "serial": f"{card.serial:040x}",
                "fingerprint": card.fingerprint,
            }
            for card in cards
        ]
        text = [
            f"{', '.join(row['names']) or 'no name'}: {row['state']}, {row['from']} to {row['to']}\n"
            f"  serial       {row['serial']}\n  fingerprint  {row['fingerprint']}"
            for row in rows
        ]
        answer(rows, "\n".join(text), "\n".join(card.fingerprint for card in cards), quiet, as_json)


def _state(card: Card, revoked: bool) -> str:
    left = (card.ends - datetime.datetime.now(datetime.UTC)).days
    if revoked or left < 0:
        return "revoked" if revoked else "expired"
    return f"{left:,} days left" if left else "less than a day left"
