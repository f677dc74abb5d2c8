"""`colonnade ui`: look at a store in a browser while runs go on."""

from __future__ import annotations

import tempfile
from html import escape
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import options
from colonnade.cli.terminal import answer, explained


def ui(
    store: options.Store,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen here; 0 lets the system choose.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the address.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Show a store in the browser: runs, budgets, messages as they leave, reports. It changes nothing; Ctrl-C stops it.

    The page is for this machine alone, and its address holds a token: keep it to yourself.

    \bExamples:
      colonnade ui runs
      colonnade ui runs --port 8765 --no-browser
    """
    with explained():
        from colonnade.cli.live import Server

        server = Server(store, port)
        answer({"url": server.url}, server.url, server.url, quiet, as_json)
        if not quiet:
            typer.echo("Ctrl-C stops it.", err=True)
        with tempfile.TemporaryDirectory() as folder:
            if not no_browser:
                _open(server.url, Path(folder))
            server.serve()
        if not quiet:
            typer.echo("stopped", err=True)


def _open(url: str, folder: Path) -> None:
    """Through a file that only its owner can read: arguments of a browser are seen by everybody on the machine."""
    import webbrowser

    door = folder / "open.html"
    door.touch(mode=0o600)
    door.write_text(f'<meta http-equiv="refresh" content="0; url={escape(url)}">', encoding="utf-8")
    webbrowser.open(door.as_uri())
