"""Options and arguments that several commands have, each with its one line of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Store = Annotated[Path, typer.Argument(metavar="STORE", help="The folder given as store= to fit.")]
Silent = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]
WriteOver = Annotated[bool, typer.Option("--overwrite", help="Write over a file that is there.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
SavedFit = Annotated[Path, typer.Argument(metavar="FIT.json", help="A fit, as `colonnade fit` wrote it.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="As `colonnade runs list` shows it.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write over a finished run's result, or any file.")]
LogFile = Annotated[Path | None, typer.Option("--log", help="Log here too: one JSON object a line, rotated.")]
LogQuiet = Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings and errors only.")]
LogJson = Annotated[bool, typer.Option("--json", help="Log one JSON object a line instead of text.")]
LogSize = Annotated[int, typer.Option(min=1, help="Megabytes of the log file before a new one is begun.")]
LogKeep = Annotated[int, typer.Option(min=1, help="So many older log files are kept.")]
BoundsArePublic = Annotated[
    bool, typer.Option("--bounds-are-public", help="Figures read off the rows may be known; the statement says so.")
]
Federation = Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="The federation file.")]
PartyFile = Annotated[Path, typer.Argument(metavar="PARTY.toml", help="This party's file.")]
Certs = Annotated[Path, typer.Option(help="Folder with coordinator.pem, coordinator.key and authority.pem.")]
Listen = Annotated[str | None, typer.Option(help="Where to listen, HOST:PORT; by default the federation file's port.")]
HubStore = Annotated[Path, typer.Option(help="Where runs are kept; the same call goes on with an unfinished one.")]
MetricsPort = Annotated[int | None, typer.Option(help="Serve /metrics, /health and /ready on this loopback port.")]
Patience = Annotated[float, typer.Option(min=1, help="Seconds to wait for parties, and for an answer.")]
LoggedJson = Annotated[bool, typer.Option("--json", help="One JSON object at the end; logs as JSON lines.")]
