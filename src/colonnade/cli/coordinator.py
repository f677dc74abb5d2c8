"""`colonnade coordinator` and `colonnade federation`: the organisation in the middle, which holds no data; `serve` is
the coordinator as a service, which takes jobs from the queue of its store.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shlex
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import colonnade as co
from colonnade.cli import options, terminal
from colonnade.cli.doctor import check_service
from colonnade.cli.terminal import answer, busy, explained, lined, on_screen, write_text
from colonnade.privacy.events import Ending

if TYPE_CHECKING:
    from colonnade.network.questions import Greeting
    from colonnade.runs.config import JobFile
    from colonnade.runs.preview import Preview

app = typer.Typer()
federation = typer.Typer()

DryRun = Annotated[bool, typer.Option("--dry-run", help="Check all that needs no party; ask nobody, write nothing.")]
SupposedRows = Annotated[int | None, typer.Option(min=1, help="With --dry-run: suppose so many common rows.")]
SAME = "the same command goes on with a run that is not over."


@app.command()
def run(
    file: options.Federation,
    job: Annotated[Path, typer.Option(help="Problem, method and privacy (docs/use/files.md).")],
    certs: options.Certs = Path("certs"),
    store: options.HubStore = Path("hub-store"),
    listen: options.Listen = None,
    patience: options.Patience = 600.0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the fit.")] = Path("fit.json"),
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here, too.")] = None,
    overwrite: options.Overwrite = False,
    dry_run: DryRun = False,
    rows: SupposedRows = None,
    metrics: options.MetricsPort = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the fit was written.")] = False,
    as_json: options.LoggedJson = False,
) -> None:
    """Wait for the parties, agree on rows, run the job, write the fit.

    Every party prices the job itself and approves it before anything is reserved. Ctrl-C leaves the run to be resumed
    by the same command. When it has finished, the same command does not begin and pay another run: it says that the fit
    is there, or writes it if the process was killed before it could.

    \bExamples:
      colonnade coordinator run federation.toml --job job.toml
      colonnade coordinator run federation.toml --job job.toml --certs hub/certs --report report.html
      colonnade coordinator run federation.toml --job job.toml --dry-run
    """
    with explained(SAME):
        from colonnade.runs.config import load_job, save_finished
        from colonnade.views.page import check_target
        from colonnade.views.verdict import facts_in_short

        log_to_stderr(as_json, quiet or dry_run)
        check_service()
        asked = load_job(job)
        fed = co.Federation.open(file)
        for target in (output, report):
            if target is not None:
                check_target(target)
        cost = terminal.cost_of_another(asked.privacy)
        terminal.check_free(output, overwrite, cost, "name another file with --output")
        pending = Pending(store)
        kept = pending.finished(overwrite, file=file, job=job, output=output)
        if dry_run:
            if kept is not None:
                raise co.InvalidInput(
                    f"that run has finished: repeated without --dry-run, the command writes {output}."
                )
            hub = co.Grpc(hub_address(fed, listen), certs).keep_in(store)
            with busy("making every check that needs no party", quiet or as_json):
                unknown, found = _rehearse(fed, asked, hub, store, rows, metrics)
            terminal.show_preview(found, quiet, as_json, unknown)
            return
        if rows is not None:
            raise co.InvalidInput("--rows is for --dry-run: the parties agree on their rows themselves.")
        if kept is None:
            pending.note(file, job, certs, output, report, listen=listen, patience=patience, overwrite=overwrite)
            hub = co.Grpc(hub_address(fed, listen), certs, patience=patience).keep_in(store)
            fitted = _fit_between(fed, asked, hub, store, metrics, on_screen(quiet or as_json))
        else:
            fitted = co.load(kept)
            logging.getLogger("colonnade.network.hub").info("had finished", extra={"run": fitted.run})
        save_finished(fitted, output, store)
        # Killed before, the next command sees in the store that the run is over.
        pending.clear()
        if report is not None:
            fitted.report(report)
        facts = {
            "run": fitted.run,
            "status": fitted.status.value,
            "privacy": fitted.privacy.sentence,
            "sent": f"{fitted.communication.bytes:,} bytes in {fitted.communication.messages:,} messages",
            "fit": str(output),
            **({} if report is None else {"report": str(report)}),
        }
        answer(facts, lined(facts_in_short(fitted, facts)), str(output), quiet, as_json)


def _fit_between(
    fed: co.Federation, asked: JobFile, hub: co.Grpc, store: Path, metrics: int | None, progress: bool
) -> co.Fit:
    from colonnade.network.status_page import page

    assert fed.away is not None
    with contextlib.ExitStack() as last:
        last.enter_context(hub)
        board = hub.open(fed.away)
        if metrics is not None:
            last.enter_context(page(hub.metrics.families, lambda: board.connected() == set(fed.parties), metrics))
        return co.fit(fed, asked.problem, asked.method, asked.privacy, engine=hub, store=store, progress=progress)


def _rehearse(
    fed: co.Federation, asked: JobFile, hub: co.Grpc, store: Path, rows: int | None, metrics: int | None
) -> tuple[list[str], Preview]:
    """A dry run: what it cannot know, and what would be proposed, if this side would not refuse it."""
    from colonnade.network.status_page import page
    from colonnade.runs.preview import preview
    from colonnade.runs.rehearsal import ROWS, UNKNOWN, propose_call, suppose_rows

    assert fed.away is not None
    hub.rehearse()
    if metrics is not None:
        with page(hub.metrics.families, lambda: False, metrics):
            """The port is free."""
    supposed = suppose_rows(fed.away, rows)
    propose_call(supposed, asked)
    found = preview(supposed, asked.problem, asked.method, asked.privacy, store=store)
    agreed = [f"{ROWS}: these figures suppose {supposed.rows:,}"] if supposed.on is not None else []
    return [*agreed, *UNKNOWN], found


def log_to_stderr(as_json: bool, quiet: bool) -> None:
    """Logs on standard error, and SIGTERM as gentle as Ctrl-C."""
    terminal.to_stderr(as_json, quiet)
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))


class Pending:
    """The command whose run is not over yet: `colonnade runs resume` repeats it."""

    def __init__(self, store: Path) -> None:
        self.path = store.expanduser() / "pending.json"

    PATHS = ("file", "job", "certs", "output", "report")

    def note(self, *paths: Path | None, **given: Any) -> None:
        places = {name: path and str(path.resolve()) for name, path in zip(self.PATHS, paths, strict=True)}
        write_text(self.path, json.dumps({**places, **given, "ended_before": len(self._ended())}))

    def finished(self, overwrite: bool, **given: Path) -> Path | None:
        """The fit of the run that had finished when the same command was killed: another would be begun and paid.

        Who says --overwrite to a command that had not said so wants another run.
        """
        noted = self._noted()
        same = noted and all(noted[name] == str(path.resolve()) for name, path in given.items())
        if not same or overwrite > noted["overwrite"]:
            return None
        over = [run for run, ending in list(self._ended().items())[noted["ended_before"] :] if ending.finished]
        kept = [self.path.parent / "fits" / f"{run}.json" for run in over]
        return next((path for path in kept if path.is_file()), None)

    def _ended(self) -> dict[str, Ending]:
        from colonnade.runtime.run_store import RunStore

        with contextlib.closing(RunStore(self.path.parent)) as store:
            return store.ended()

    def _noted(self) -> dict[str, Any]:
        """What was noted; empty where no command was stopped."""
        noted = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else None
        return noted if isinstance(noted, dict) else {}

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)

    def repeat(self, quiet: bool = False, as_json: bool = False) -> None:
        noted = self._noted()
        if not noted:
            raise co.InvalidInput(
                f"{self.path.parent} has no command of `colonnade coordinator run` that was stopped. A fit of your own "
                "program goes on when the same call is repeated with the same store."
            )
        paths: dict[str, Any] = {name: noted[name] and Path(noted[name]) for name in self.PATHS}
        given = {name: noted[name] for name in ("listen", "patience", "overwrite")}
        run(store=self.path.parent, quiet=quiet, as_json=as_json, **paths, **given)


@federation.command()
def check(
    file: options.Federation,
    certs: options.Certs = Path("certs"),
    listen: options.Listen = None,
    patience: options.Patience = 60.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only what is not in order.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """See whether all parties come, speak the same version, hold the same file and have agreed on rows; spends nothing.

    It also says which of them are connected directly.

    Example: colonnade federation check federation.toml --certs certs
    """
    with explained():
        check_service()
        fed = co.Federation.open(file)
        assert fed.away is not None
        waiting = f"waiting for {len(fed.parties)} parties, {patience:g} seconds at most"
        with co.Grpc(hub_address(fed, listen), certs, patience=patience) as hub, busy(waiting, quiet or as_json):
            found = hub.hello(fed.away)
            troubles = hub.check(fed.away)
            roads = hub.roads(fed.away)
        direct = [pair for pair, up in roads.items() if up]
        apart = [pair for pair, up in roads.items() if not up]
        troubles += [f"{one} and {other} are not connected; see both logs" for one, other in apart]
        if as_json:
            parties = {party: said.figures() for party, said in found.items()}
            typer.echo(json.dumps({"parties": parties, "direct": direct, "troubles": troubles}))
        else:
            for party, said in found.items() if not quiet else ():
                typer.echo(f"{party:20} version {said.version}  {_rows(fed, said)}")
            for one, other in direct if not quiet else ():
                typer.echo(f"{one} and {other} are connected directly")
            for trouble in troubles:
                typer.echo(f"not in order: {trouble}")
        if troubles:
            raise typer.Exit(1)


@federation.command()
def pin(
    file: options.Federation,
    certs: options.Certs = Path("certs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the key.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write the coordinator's public key into the federation file; then give all parties the new file.

    What parties send under masks is sealed to keys that this one has signed. It is made beside the coordinator's
    certificate if there is none.

    Example: colonnade federation pin federation.toml --certs certs
    """
    with explained():
        from colonnade.data.federation_file import pin_coordinator
        from colonnade.network.certs import keep_signing_key

        key = keep_signing_key(certs)
        changed = pin_coordinator(file, key)
        told = {"coordinator": key, "file": str(file), "changed": changed}
        shown = {"coordinator": key, "file": f"{file}: {'give all parties this copy' if changed else 'as it was'}"}
        answer(told, lined(shown, 11), key, quiet, as_json)


@federation.command()
def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")],
    party: Annotated[list[str], typer.Option(help="NAME=SCHEMA.toml: a party's public schema; once for each.")],
    on: Annotated[str, typer.Option(help="The key by which rows are matched.")],
    label: Annotated[str, typer.Option(help="PARTY.COLUMN or PARTY.COLUMN=CLASS: who holds the label.")],
    hub: Annotated[str, typer.Option(help="HOST:PORT, where the parties find the coordinator.")],
    epsilon: Annotated[float, typer.Option(help="The most that all runs may spend on a party's rows.")] = 2.0,
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-6,
    least: Annotated[int, typer.Option(min=1, help="Fewest common rows to take part; their number is public.")] = 500,
    most: Annotated[int, typer.Option(min=1, help="Most rows a table may have; matching takes as long.")] = 100_000,
    quiet: options.Silent = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Found a federation: certificates, keys, federation and party files for all, and what each operator does next.

    Whoever runs it sees every key. Where that may not be, each party makes its own with `colonnade party key`.

    Example: colonnade federation new study --party a=a.toml --party b=b.toml --on id --label a.y --hub hub.org:7443
    """
    with explained():
        from colonnade.cli.founding import read_members, write_organisations

        members, pair, positive = read_members(party, label)
        policy = co.Policy(epsilon=epsilon, delta=delta, least=least)
        with busy("making keys and certificates", quiet or as_json):
            write_organisations(folder, members, on, pair, hub, policy, most, positive)
        told = {name: str(folder / name / "NEXT.md") for name in ("coordinator", *members)}
        shown = {**told, "authority": f"{folder / 'authority'}: keep it off the network"}
        answer({"folder": str(folder), "next": told}, lined(shown, max(map(len, shown))), "", quiet, as_json)


@federation.command()
def example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")],
    rows: Annotated[int, typer.Option(min=200, help="Flights to share out.")] = 20_000,
    hub: Annotated[str, typer.Option(help="Where the coordinator will listen.")] = "localhost:7443",
    quiet: options.Silent = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the commands as JSON.")] = False,
) -> None:
    """Write three organisations to try: each with its table, key, certificate and file, and a coordinator with a job.

    Example: colonnade federation example tryout
    """
    with explained():
        with busy("sharing out flights, and making keys and certificates", quiet or as_json):
            names = write_example(folder, rows, hub)
        parties = [f"colonnade party run {shlex.quote(str(folder / name / 'party.toml'))} --yes" for name in names]
        there = f"cd {shlex.quote(str(folder / 'coordinator'))}"
        job = "colonnade coordinator run federation.toml --job job.toml --report report.html"
        plain = {"parties": parties, "coordinator": f"{there} && {job}"}
        answer(plain, "\n".join([*parties, there, job]), "", quiet, as_json)


def write_example(folder: Path, rows: int, hub: str) -> list[str]:
    """Fill an empty folder with three organisations, ready to run apart on one machine; the parties' names.

    The policies allow private runs up to an epsilon, and nothing else.
    """
    from colonnade.cli import flights
    from colonnade.cli.founding import write_organisations

    data = flights.load(rows)
    members = {name: (flights.SCHEMAS[name], "table.parquet") for name in data.frames}
    policy = co.Policy(epsilon=2.0, delta=1e-6, least=min(500, rows))
    write_organisations(folder, members, flights.KEY, flights.LABEL, hub, policy, most=rows)
    for name, frame in data.frames.items():
        frame.write_parquet(folder / name / "table.parquet")
    return list(members)


def _rows(fed: co.Federation, said: Greeting) -> str:
    if fed.on is None:
        return "rows need no agreement"
    if said.begun is not None:
        return f"has begun to agree on rows (session {said.begun}); the next run goes on with it"
    if said.rows is None:
        return "has not agreed on rows yet; the first run does"
    return f"{said.rows:,} rows agreed on (session {said.session})"


def hub_address(fed: co.Federation, listen: str | None) -> str:
    if listen is not None:
        return listen
    assert fed.away is not None
    if fed.away.hub is None:
        raise co.InvalidInput('the federation file has no hub = "host:port"; say where with --listen 0.0.0.0:7443.')
    return f"0.0.0.0:{fed.away.hub.rpartition(':')[2]}"


MOST_RUNS = 64
Runs = Annotated[int, typer.Option("--runs", min=1, max=MOST_RUNS, help="So many runs at a time at most.")]
Drain = Annotated[float, typer.Option(min=0, help="After SIGTERM: seconds for runs to end before they are left.")]


@app.command()
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
