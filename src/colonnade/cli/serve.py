"""`colonnade coordinator serve`: the coordinator as a service, which takes jobs from the queue of its store."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

import colonnade as co
from colonnade.cli import options, terminal
from colonnade.cli.coordinator import hub_address
from colonnade.cli.doctor import check_service
from colonnade.cli.terminal import explained

MOST_RUNS = 64
Runs = Annotated[int, typer.Option("--runs", min=1, max=MOST_RUNS, help="So many runs at a time at most.")]
Drain = Annotated[float, typer.Option(min=0, help="After SIGTERM: seconds for runs to end before they are left.")]


def serve(
    file: options.Federation,
    certs: options.Certs = Path("certs"),
    store: Annotated[Path, typer.Option(help="Where jobs and runs are kept.")] = Path("hub-store"),
    listen: options.Listen = None,
    runs: Runs = 4,
    patience: options.Patience = 600.0,
    drain: Drain = 300.0,
    metrics: options.MetricsPort = None,
    log: options.LogFile = None,
    log_size: options.LogSize = 10,
    log_keep: options.LogKeep = 5,
    quiet: options.LogQuiet = False,
    as_json: options.LogJson = False,
) -> None:
    """Listen for parties, and run the jobs of the queue until stopped, several at a time, each in its own process.

    `colonnade jobs submit` adds to the queue. SIGTERM or Ctrl-C drains: no job is begun any more, those that run have
    --drain seconds to end. A second one stops at once. Whatever is left goes on when the service is started again, also
    after a crash: a job has one run, and is paid for once.

    \bExamples:
      colonnade coordinator serve federation.toml --runs 8 --metrics 9465
      colonnade coordinator serve federation.toml --store hub-store --log service.log --quiet
    """
    with explained("stopped; jobs go on when the service is started again."):
        from colonnade.network.coordinator_service import CoordinatorService
        from colonnade.network.status_page import StatusPage
        from colonnade.runs.jobs import Surroundings, drive_job

        terminal.to_stderr(as_json, quiet)
        check_service()
        terminal.to_file(log, log_size, log_keep)
        fed = co.Federation.open(file)
        assert fed.away is not None
        stop = threading.Event()
        at_once = threading.Event()

        def hear(*_: object) -> None:
            (at_once if stop.is_set() else stop).set()

        signal.signal(signal.SIGTERM, hear)
        signal.signal(signal.SIGINT, hear)
        store = store.expanduser()
        with contextlib.ExitStack() as last:
            hub = last.enter_context(co.Grpc(hub_address(fed, listen), certs, patience=patience).keep_in(store))
            level = logging.WARNING if quiet and log is None else logging.INFO
            around = Surroundings(fed.away, hub.tls, store, patience, level)
            board = hub.open(fed.away)
            service = CoordinatorService(board, fed.away, store, drive_job, around, most=runs)
            last.callback(service.close)
            if metrics is not None:
                page = StatusPage(metrics)
                page.include(hub.metrics.families)
                service.show_on(page)
                last.enter_context(page)
            logging.getLogger("colonnade.serve").info("ready", extra={"port": hub.port, "runs": runs})
            service.serve(stop, at_once, drain)
