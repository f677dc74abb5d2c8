"""`colonnade score`: scores of rows between organisations, all at once or one by one as they are asked for."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import colonnade as co
from colonnade.cli import options, terminal
from colonnade.cli.coordinator import SAME, hub_address, log_to_stderr
from colonnade.cli.doctor import check_service
from colonnade.cli.terminal import answer, explained, hand_over, lined

if TYPE_CHECKING:
    from colonnade.network.party_data import PartyData
    from colonnade.network.party_file import PartyFile
    from colonnade.network.score_order import Approved, Order

app = typer.Typer(
    epilog="A standing order: score order, then score approve at every party, score part at all but the label holder, "
    "and score serve there (docs/operate/organisations.md).",
)

OrderFile = Annotated[Path, typer.Argument(metavar="ORDER.json", help="The standing order.")]
PartyToml = Annotated[Path, typer.Argument(metavar="PARTY.toml", help="This party's file, for the rows to score.")]

LOST = "stopped; the same command goes on. What was reserved of today's quota and not used is lost."

log = logging.getLogger("colonnade.score")


@app.command()
def rows(
    file: options.Federation,
    fit: Annotated[Path, typer.Option(help="The fit of an earlier run, as `coordinator run` wrote it.")],
    certs: options.Certs = Path("certs"),
    store: options.HubStore = Path("hub-store"),
    listen: options.Listen = None,
    patience: options.Patience = 600.0,
    without: Annotated[list[str] | None, typer.Option(help="A party not in the federation file; may repeat.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the run's id; log warnings.")] = False,
    as_json: options.LoggedJson = False,
) -> None:
    """Have the parties score all their rows by a model they have parts of; the label holder alone learns the scores.

    It is a run of its own, at the coordinator: every party approves it, and its policy must allow scores.

    Example: colonnade score rows federation.toml --fit fit.json
    """
    with explained(SAME):
        from colonnade.runs.result import KeptScores

        log_to_stderr(as_json, quiet)
        check_service()
        model = co.load(fit)
        fed = co.Federation.open(file)
        with co.Grpc(hub_address(fed, listen), certs, patience=patience) as hub:
            found = co.score(model, fed, without=without or (), engine=hub, store=store)
        assert isinstance(found, KeptScores)
        answer(vars(found), repr(found), found.run, quiet, as_json)


# ------------------------------------------------------------------------------------ a standing order


@app.command()
def order(
    file: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="The federation file of the rows to score.")],
    fit: Annotated[Path, typer.Option(help="The fit whose model scores.")],
    rows_a_day: Annotated[int, typer.Option(min=1, help="The most rows that are answered in a day (UTC).")],
    until: Annotated[str, typer.Option(help="The last day, such as 2027-12-31.")],
    ask: Annotated[list[str] | None, typer.Option(help="Who may ask, by certificate; loopback: that machine.")] = None,
    missing: Annotated[list[str] | None, typer.Option(help="A fallback without PARTY[,PARTY]; may repeat.")] = None,
    training_rows: Annotated[bool, typer.Option("--training-rows", help="Score rows the model learned from.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the order.")] = Path("order.json"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the order's id.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a standing order: who may ask for scores, by which model, how many rows a day, until when.

    It asks and pays nobody. Give the file to one party after the other: each adds its approval. Fallbacks are solved
    again from the fit's release, which costs nothing; a label holder with one other party left learns that party's
    part of each score.

    \bExamples:
      colonnade score order new/federation.toml --fit fit.json --rows-a-day 1000 --until 2027-12-31
      colonnade score order federation.toml --fit fit.json --rows-a-day 50000 --until 2027-12-31 --ask crm --missing lab
    """
    with explained():
        from colonnade.data.federation_file import FederationFile
        from colonnade.network.score_order import LOOPBACK, Order
        from colonnade.runs.refit import fallback, link_of, says_classes
        from colonnade.runtime.run_store import new_run_id

        model = co.load(fit)
        there = FederationFile.load(file)
        _check_model(model, there.label[0], list(there.members))
        fallbacks = [fallback(model, [name.strip() for name in given.split(",")]) for given in missing or ()]
        made = Order(
            new_run_id(),
            there.digest,
            model.run,
            model.depth,
            float(model.intercept),
            tuple(ask or [LOOPBACK]),
            rows_a_day,
            until,
            training_rows,
            tuple(fallbacks),
            link_of(model),
            (model.classes or (-1.0, 1.0)) if says_classes(model) else (),
        )
        made.save(output)
        facts = {**_facts(made, there.label[0], list(there.members)), "file": str(output)}
        answer(facts, lined(facts, 13), made.id, quiet, as_json)


def _check_model(model: co.Fit, holder: str, members: list[str]) -> None:
    if model.model is not None or model.by_rows:
        raise co.InvalidInput("scores on request are for linear models over the columns of several parties.")
    if model.label != holder or set(model.features) != set(members):
        raise co.InvalidInput(
            f"the fit has columns of {', '.join(model.features)} and labels of {model.label}; the federation file has "
            f"{', '.join(members)} and labels of {holder}. Write a federation file of the same parties."
        )


def _facts(made: Order, holder: str, members: list[str]) -> dict[str, Any]:
    from colonnade.network.score_service import models_in_words

    learns = models_in_words(made, holder, members)
    refused = f"are refused; of runs without {holder}, as if there were no such row"
    return {
        "order": made.id,
        "model": made.model,
        "may ask": ", ".join(made.askers),
        "rows a day": f"{made.rows_a_day:,}",
        "until": made.until,
        "answers": "score, probability, class" if made.link else "score, class" if made.classes else "score",
        "training rows": "may be scored: no epsilon holds for them then" if made.training_rows else refused,
        f"{holder} learns": "; ".join(learns),
        "equations": f"up to {len(learns)} about each row: one for each model",
        "fallbacks": "solved again from the release of the model's run" if made.fallbacks else "none",
        "approved by": ", ".join(made.approvals) or "nobody yet",
    }


@app.command()
def approve(
    order: OrderFile,
    file: PartyToml,
    fit: Annotated[
        Path | None, typer.Option(help="For an order with fallbacks: the fit they were solved from.")
    ] = None,
    yes: options.Yes = False,
    quiet: options.Silent = False,
    as_json: options.AsJson = False,
) -> None:
    """Approve a standing order as one party: your ledger opens it, and your signed key is added to the file.

    Your policy must allow scores. Nothing leaves before `score part` runs here and every party has approved the same
    terms. `colonnade runs abort STORE ORDER` ends it, for good. Fallbacks are solved again here, from the fit, and
    refused if they do not follow from what your party was told when the model was learned.

    \bExamples:
      colonnade score approve order.json party.toml
      colonnade score approve order.json party.toml --fit fit.json
    """
    with explained(), _at_party(order, file) as (settings, approved, data):
        from colonnade.network.score_order import today
        from colonnade.network.score_parts import Rows

        made = approved.order
        holder = settings.federation_file.label[0]
        made.check_day(today())
        # Its part of the model, its columns, and what it was learned from.
        Rows(data, made, settings.store)
        _check_fallbacks(made, fit, settings)
        facts = _facts(made, holder, list(settings.federation_file.members))
        if not yes:
            typer.echo(lined(facts, 13), err=True)
            if not typer.confirm(f"Approve it for {settings.name}?", err=True):
                typer.echo("nothing was approved", err=True)
                raise typer.Exit(1)
        signed = approved.approve()
        signed.save(order)
        still = [name for name in settings.federation_file.members if name not in signed.approvals]
        told = {"order": signed.id, "approved": settings.name, "missing": still, "file": str(order)}
        next_step = f"give {order} to {still[0]}" if still else f"give {order} to all: every party has approved"
        answer(told, f"{settings.name} has approved {signed.id}; {next_step}", "", quiet, as_json)


def _check_fallbacks(made: Order, fit: Path | None, settings: PartyFile) -> None:
    from colonnade.runs.refit import check_fallbacks

    if not made.fallbacks:
        return
    if fit is None:
        raise co.InvalidInput("the order has fallbacks: give the fit that they were solved from, --fit FILE.")
    check_fallbacks(made, co.load(fit), settings.models or settings.store, settings.name)


@app.command()
def serve(
    order: OrderFile,
    file: PartyToml,
    listen: Annotated[str, typer.Option(help="Where the other parties dial in, HOST:PORT; mutual TLS.")],
    port: Annotated[int, typer.Option(help="The port of POST /score, /health, /ready and /metrics.")] = 8440,
    host: Annotated[str, typer.Option(help="Its address; any but 127.0.0.1 needs --mtls.")] = "127.0.0.1",
    mtls: Annotated[bool, typer.Option("--mtls", help="Who asks shows a certificate that the order names.")] = False,
    log_file: options.LogFile = None,
    log_size: options.LogSize = 10,
    log_keep: options.LogKeep = 5,
    quiet: options.LogQuiet = False,
    as_json: options.LogJson = False,
) -> None:
    """Answer requests for scores, at the label holder, until stopped: Ctrl-C or SIGTERM, with exit code 0.

    POST /score with {"key": 4711}, or {"keys": [...]} and an "id" if the request may come again. An answer says the
    score, its number and the model; a row that the model was learned from, an unknown key and a day that is used up are
    refused. Metrics count, and show no score.

    \bExamples:
      colonnade score serve order.json party.toml --listen 0.0.0.0:7445
      curl -s localhost:8440/score -d '{"key": 4711}'
    """
    with explained(LOST):
        check_service()
        if host != "127.0.0.1" and not mtls:
            raise co.InvalidInput(
                f"--host {host} without --mtls would let anybody ask. Say --mtls, or leave --host out."
            )
        with _at_party(order, file) as (settings, approved, data), contextlib.ExitStack() as last:
            terminal.to_stderr(as_json, quiet)
            terminal.to_file(log_file, log_size, log_keep)
            stop = terminal.until_stopped()
            service = _serving(settings, approved, data, listen, mtls, last)
            page = last.enter_context(_page(settings, port, host, mtls, service.show))
            # A request passes through several threads, and none of them works for long.
            sys.setswitchinterval(0.001)
            log.info("serving scores", extra={"order": approved.order.id, "port": page.port, "lines": listen})
            stop.wait()
        log.info("stopped", extra={"order": approved.order.id})


def _serving(
    settings: PartyFile, approved: Approved, data: PartyData, listen: str, mtls: bool, last: contextlib.ExitStack
) -> Any:
    from colonnade.network.score_service import ScoreService, holder_lines

    lines = holder_lines(approved, settings.tls, listen, lambda party, raw: service.take(party, raw))
    last.callback(lines.stop)
    service = ScoreService(approved, data, lines.send, lines.connected, certified=mtls)
    last.callback(service.close)
    lines.start()  # last: what comes is for the service
    return service


@app.command()
def part(
    order: OrderFile,
    file: PartyToml,
    holder: Annotated[str, typer.Option(help="HOST:PORT, where the label holder's `score serve` listens.")],
    metrics: options.MetricsPort = None,
    log_file: options.LogFile = None,
    log_size: options.LogSize = 10,
    log_keep: options.LogKeep = 5,
    quiet: options.LogQuiet = False,
    as_json: options.LogJson = False,
) -> None:
    """Answer for one party: dial the label holder and send masked parts of the rows that are asked for, until stopped.

    A part is masked by keys that you share with the other parties, so that the label holder learns the sum of all parts
    and not yours, unless you are the only other party. Each request counts against the day's quota here, too.

    Example: colonnade score part order.json party.toml --holder bank.example.org:7445
    """
    with explained(LOST):
        from colonnade.network.score_parts import Answerer
        from colonnade.network.score_service import PartLine

        check_service()
        with _at_party(order, file) as (settings, approved, data), contextlib.ExitStack() as last:
            terminal.to_stderr(as_json, quiet)
            terminal.to_file(log_file, log_size, log_keep)
            name = settings.federation_file.label[0]
            members = settings.federation_file.members
            if settings.name == name:
                raise co.InvalidInput(f"{name!r} holds the labels: it runs `colonnade score serve`.")
            stop = terminal.until_stopped()
            answerer = last.enter_context(contextlib.closing(Answerer(approved, data)))
            pin = members[name].pin
            line = last.enter_context(PartLine(answerer, settings.name, name, holder, settings.tls, pin))
            if metrics is not None:

                def show(page: Any) -> None:
                    page.counter(
                        "colonnade_score_parts_total", "Parts, by outcome.", lambda: dict(answerer.counts), "outcome"
                    )
                    page.gauge("colonnade_score_quota_left", "Rows that the day has left.", answerer.quota.left)
                    page.needs("not connected to the label holder", lambda: bool(line.lines.connected()))

                last.enter_context(_page(settings, metrics, "127.0.0.1", False, show))
            sys.setswitchinterval(0.001)  # as in serve
            log.info("answering", extra={"order": approved.order.id, "party": settings.name, "holder": holder})
            stop.wait()
        log.info("stopped", extra={"order": approved.order.id})


@app.command(name="log")
def trail(
    order: OrderFile,
    file: PartyToml,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; by default standard output.")] = None,
    form: Annotated[str, typer.Option("--format", help="csv or json.")] = "csv",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="With --output: print nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """What was asked of this party under an order: day, asker, number, model, outcome, and a digest of the row's key.

    The chain of its rows is checked first. At the label holder the digest is the key itself, in hexadecimal.

    Example: colonnade score log order.json party.toml --output asked.csv
    """
    with explained():
        from colonnade.data.text_file import safe_cell
        from colonnade.network.party_file import PartyFile
        from colonnade.network.score_order import Order
        from colonnade.network.score_parts import read_trail
        from colonnade.runs.budgets import Form, read_form

        written = read_form(form)
        settings = PartyFile.load(file)
        lines = read_trail(settings.store, Order.load(order), settings.name)
        text = json.dumps(lines, indent=1) if as_json or written is Form.JSON else None
        if text is None:
            out = io.StringIO()
            writer = csv.DictWriter(out, ["day", "asker", "number", "model", "outcome", "row"])
            writer.writeheader()
            writer.writerows({name: safe_cell(value) for name, value in line.items()} for line in lines)
            text = out.getvalue()
        hand_over(text, output, quiet)


# ------------------------------------------------------------------------------------ what they share


@contextlib.contextmanager
def _at_party(order: Path, file: Path) -> Iterator[tuple[PartyFile, Approved, PartyData]]:
    from colonnade.network.party_file import PartyFile
    from colonnade.network.score_order import Approved, Order
    from colonnade.runtime.run_store import RunStore

    settings = PartyFile.load(file)
    made = Order.load(order)
    with contextlib.closing(RunStore(settings.store)) as store:
        approved = Approved(made, settings.federation_file, settings.name, store, settings.identity())
        data = replace(settings.read_data(), models=settings.models or settings.store)  # no labels are needed
        yield settings, approved, data


def _page(settings: PartyFile, port: int, host: str, mtls: bool, show: Any) -> Any:
    import ssl

    from colonnade.network.certs import load
    from colonnade.network.status_page import StatusPage
    from colonnade.network.transport.tls import tls_context

    tls = tls_context(settings.tls, load(settings.tls), ssl.PROTOCOL_TLS_SERVER) if mtls else None
    page = StatusPage(port, host, tls=tls, revoked=settings.tls.revocations() if mtls else None)
    show(page)
    return page
