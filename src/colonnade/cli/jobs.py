"""`colonnade jobs`: the queue of a coordinator that serves; what to run, how far it is, how it ended."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, explained, lined, table_of

if TYPE_CHECKING:
    from colonnade.network.job_queue import QueuedJob

app = typer.Typer(epilog="On the coordinator's machine, as a user who may write to its store.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The job's name, as it was submitted.")]
Store = Annotated[Path, typer.Option(help="The store of `colonnade coordinator serve`.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the job's state.")]
Fetched = Annotated[Path | None, typer.Option("--output", "-o", help="When it has finished, write the fit here.")]
HUB_STORE = Path("hub-store")


@app.command()
def submit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new name: letters, digits, dots, dashes.")],
    job: Annotated[Path, typer.Option(help="Problem, method and privacy (docs/use/files.md).")],
    store: Store = HUB_STORE,
    owner: Annotated[str | None, typer.Option(help="For whom; left out, the user. Owners take turns.")] = None,
    quiet: Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Add a job to the queue. The same name with the same file again begins nothing: it tells how the job is.

    A name with another file is refused. Every party still prices and approves the run, when its turn comes.

    \bExamples:
      colonnade jobs submit ward-7 --job job.toml
      colonnade jobs submit ward-7 --job job.toml --owner lab --store hub-store
    """
    with explained(), co.Jobs(store) as jobs:
        _show(jobs.submit(name, job, owner=owner), quiet, as_json)


@app.command(name="list")
def listing(
    store: Store = HUB_STORE,
    open_only: Annotated[bool, typer.Option("--open", help="Only those that are not over.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the jobs' names.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Every job: its owner, its state, how far its run is, and why it ended.

    \bExamples:
      colonnade jobs list
      colonnade jobs list --store hub-store --open --json
    """
    with explained(), co.Jobs(store) as jobs:
        found = [job for job in jobs.list() if not (open_only and job.over)]
        table = table_of(f"Jobs in {store}", ("job", "owner", "state", "submitted", "run", "round", "why"), ("round",))
        for job in found:
            table.add_row(job.name, job.owner, job.state, _when(job.submitted), job.run, f"{job.round:,}", job.why)
        answer([_plain(job) for job in found], table, "\n".join(job.name for job in found), quiet, as_json)


@app.command()
def watch(
    name: Name,
    store: Store = HUB_STORE,
    output: Fetched = None,
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds to watch at most.")] = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object when it is over.")] = False,
) -> None:
    """Follow a job until it is over. Ctrl-C ends the watching and not the job. Exit code 0 only if it finished.

    \bExamples:
      colonnade jobs watch ward-7
      colonnade jobs watch ward-7 --output fit.json --quiet
    """
    with explained("the job goes on."), co.Jobs(store) as jobs:
        for job in jobs.watch(name, timeout):
            if not (quiet or as_json) and not job.over:
                typer.echo(f"{time.strftime('%H:%M:%S')} {job.state} round {job.round:,} {job.why}".rstrip(), err=True)
        if job.finished and output is not None:
            jobs.fit(name).save(output)
        _show(job, quiet, as_json)
        if not job.finished:
            raise typer.Exit(1)


@app.command()
def cancel(name: Name, store: Store = HUB_STORE, quiet: Quiet = False, as_json: options.AsJson = False) -> None:
    """End a job: at once if it waits; one that runs is ended by the service, and what it did not release returns.

    Example: colonnade jobs cancel ward-7
    """
    with explained(), co.Jobs(store) as jobs:
        _show(jobs.cancel(name), quiet, as_json)


def _show(job: QueuedJob, quiet: bool, as_json: bool) -> None:
    facts = {"job": job.name, "owner": job.owner, "state": f"{job.state}{', to be cancelled' * job.cancel}"}
    facts |= {"sha-256": job.digest, "submitted": _when(job.submitted)}
    facts |= {"run": job.run, "round": f"{job.round:,}"} if job.run else {}
    facts |= {"why": job.why} if job.why else {}
    answer(_plain(job), lined(facts, 9), job.state, quiet, as_json)


def _plain(job: QueuedJob) -> dict[str, Any]:
    return {**asdict(job), "cancel": bool(job.cancel)}


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
