"""`colonnade party`: one organisation's side of a federation; by `inbox`, `approve` and `refuse` its operator answers
when there is time to.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import select
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import colonnade as co
from colonnade.cli import options, terminal
from colonnade.cli.doctor import check_service
from colonnade.cli.terminal import NOTHING, answer, busy, explained, lined, table_of
from colonnade.privacy.events import price_in_words, shown

if TYPE_CHECKING:
    from rich.console import Console

    from colonnade.network.inbox import Inbox
    from colonnade.network.party_file import PartyFile
    from colonnade.network.party_run import Request
    from colonnade.privacy.accountant import Budget

app = typer.Typer(
    epilog="Begin with: colonnade party key signing.key; then write party.toml (docs/operate/organisations.md).",
)

PROMPT = "Take part? [y/N]: "
SEEN = "It is refused. Press Enter: "
_GLANCE = 0.2  # seconds between two looks at whether a question is still open


@app.command()
def run(
    file: options.PartyFile,
    yes: Annotated[bool, typer.Option("--yes", help="Approve every run that the policy and the budget allow.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check this party's own files; dial nobody.")] = False,
    job: Annotated[Path | None, typer.Option(help="With --dry-run: price and check this job as if proposed.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="With --job: suppose so many common rows.")] = None,
    log: options.LogFile = None,
    log_size: options.LogSize = 10,
    log_keep: options.LogKeep = 5,
    quiet: options.LogQuiet = False,
    as_json: options.LogJson = False,
) -> None:
    """Dial the coordinator, and answer until stopped: Ctrl-C or SIGTERM, with exit code 0. Runs go on when the party is
    started again.

    Before anything is reserved, the terms of a run are shown and you are asked, unless the file says approve = "policy"
    or you say --yes; with approve = "inbox" the question waits for `colonnade party approve`. Nothing leaves otherwise.
    Stopped at the question, it has approved nothing, and asks again when it is started again and the run is proposed
    again.

    \bExamples:
      colonnade party run party.toml
      colonnade party run party.toml --yes --json 2>> party.log
      colonnade party run party.toml --dry-run --job job.toml
    """
    with explained("stopped; runs in progress go on when the party is started again."):
        from colonnade.network.party_file import Approval, PartyFile

        terminal.to_stderr(as_json, quiet)
        check_service()
        settings = PartyFile.load(file)
        if dry_run:
            _rehearse(replace(settings, approve=Approval.ALL) if yes else settings, job, rows, quiet, as_json)
            return
        if job is not None or rows is not None:
            raise co.InvalidInput("--job and --rows are for --dry-run: jobs are proposed, and rows agreed on.")
        terminal.to_file(log, log_size, log_keep)
        _answer_until_stopped(settings, yes)


def _answer_until_stopped(settings: PartyFile, yes: bool) -> None:
    from threadpoolctl import threadpool_limits

    from colonnade.network.party_file import Approval
    from colonnade.network.status_page import PartyStatus, StatusPage
    from colonnade.network.transport.metrics import Metrics
    from colonnade.network.transport.party import serve

    told = logging.getLogger("colonnade.party")
    stop = terminal.until_stopped()
    metrics = Metrics()
    states = ["dialling"]

    def hear(state: str) -> None:
        # What it changes, and why, is in the log of the stream.
        states[:] = [state]

    def withdrawn() -> str | None:
        if stop.is_set():
            return "the party was stopped"
        return None if states == ["connected"] else "the coordinator has gone"

    with contextlib.ExitStack() as last:
        # As in one process: results must not depend on threads.
        last.enter_context(threadpool_limits(limits=1))
        lines = last.enter_context(settings.neighbours(metrics))
        service = last.enter_context(contextlib.closing(settings.service(settings.limits, lines)))
        box = None
        if yes or settings.approve == Approval.ALL:
            service.approve = lambda _: True
        elif settings.approve == Approval.ASK:
            service.approve = lambda asked: _ask(asked, service.ledger.budget(), withdrawn)
        elif settings.approve == Approval.INBOX:
            box = settings.inbox(lambda asked: in_words(asked, service.ledger.budget()))
            last.callback(box.close)
            service.approve = settings.passes_or(box)
            service.withdraw = box.withdraw
            service.asks_again = True
        if settings.metrics is not None:
            page = StatusPage(settings.metrics)
            page.include(metrics.families)
            page.needs("not connected", lambda: states == ["connected"])
            policy = service.data.member.policy
            PartyStatus(settings.store, settings.name, policy, box, service.identity).show_on(page)
            last.enter_context(page)
        for what in service.data.seen.nothing:  # before anything is proposed
            told.warning("a private run would pay for nothing", extra={"party": settings.name, "what": what})
        for what in service.data.seen.unused:
            told.info(what, extra={"party": settings.name})
        told.info("ready", extra={"party": settings.name, "rows": service.data.rows, "hub": settings.hub})
        line = (settings.hub, settings.tls, settings.name, service.answer)
        serve(*line, stop=stop, metrics=metrics, on_state=hear)
    told.info("stopped", extra={"party": settings.name})


def _rehearse(settings: PartyFile, job: Path | None, rows: int | None, quiet: bool, as_json: bool) -> None:
    """A dry run: what a run would find here, if it would not be refused."""
    from colonnade.network.status_page import page
    from colonnade.network.transport.party import rehearse as check_dialling
    from colonnade.runs.config import load_job
    from colonnade.runs.preview import seen_by
    from colonnade.runs.rehearsal import open_service, rehearse

    asked = None if job is None else load_job(job)
    with busy("making every check that a run would make here", quiet or as_json), open_service(settings) as service:
        if settings.metrics is not None:
            with page(list, lambda: False, settings.metrics):
                """The port is free."""
        check_dialling(settings.hub, settings.tls, settings.name, settings.federation_file.members[settings.name].pin)
        request = rehearse(settings, service, asked, rows)
        notices = service.data.seen.nothing if request is None else request.notices
        unused = service.data.seen.unused if request is None else request.unused
        agreement = service.agreement()
        budget = service.ledger.budget()
        limit = "none" if budget.epsilon is None else f"epsilon {shown(budget.epsilon)} at delta {budget.delta:g}"
        notes: list[str] = []
        facts: dict[str, str] = {"party": settings.name, "rows": f"{service.data.rows:,}", "hub": settings.hub}
        if settings.federation_file.on is not None:
            facts["common rows"] = "none agreed on yet" if agreement is None else f"{agreement.rows:,} agreed on"
        facts["limit"] = limit + ("" if budget.epsilon is None else f"; {budget.spent:.4g} is spent or reserved")
        if request is not None:
            every = [(name, value) for name, value, _ in _terms(request)]
            notes = [value for name, value in every if name == "note"]
            terms = [(name, value) for name, value in every if name not in ("nothing", "rows", "note", "levels")]
            facts |= {**dict(terms), "over rows": f"{request.rows:,}", "budget": _cost(request, budget)}
    own = () if request is None else request.own
    leaves = [{"what": c.what, "times": c.count, "seen_by": seen_by(c)} for c in own if c.count]
    lines = [lined(facts)]
    lines += [f"{'leaves':12} {x['times']:,} times: {x['what']}; seen by {x['seen_by']}" for x in leaves]
    lines += [f"{'note':12} {note}" for note in notes] + [f"{'for nothing':12} {what}" for what in notices]
    lines += [f"{'levels':12} {what}" for what in unused]
    plain = {**facts, "leaves": leaves, "notes": notes, "notices": list(notices), "unused_levels": list(unused)}
    answer(plain, "\n".join(lines), "\n".join(notices), quiet, as_json)
    if not as_json:
        typer.echo(NOTHING, err=True)


@app.command()
def key(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the signing key.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the public half.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make this party's signing key; its public half goes into the federation file.

    Example: colonnade party key signing.key
    """
    with explained():
        from colonnade.network.party_file import write_key

        public = write_key(path)
        answer({"key": public, "file": str(path)}, f'key = "{public}"', public, quiet, as_json)


@app.command()
def realign(file: options.PartyFile, quiet: options.Silent = False, as_json: options.AsJson = False) -> None:
    """Forget the agreement on common rows, so that the next run makes a new one.

    Each agreement shows the coordinator, or with align = "psi" the label holder, which rows are in it: compare the
    differences with what you want known. A private set intersection that was begun is forgotten, too.

    Example: colonnade party realign party.toml
    """
    with explained():
        from colonnade.network.alignment import forget
        from colonnade.network.party_file import PartyFile

        there = forget(PartyFile.load(file).store)
        said = "the next run agrees on rows anew" if there else "there was no agreement on rows"
        answer({"forgotten": there}, said, "", quiet, as_json)


@app.command()
def show(
    file: options.PartyFile,
    run: options.RunName,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the coefficients.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the file as it is.")] = False,
) -> None:
    """This party's part of a run's model: it is kept here and nowhere else.

    Example: colonnade party show party.toml 20260101T120000-0123456789ab
    """
    with explained():
        from colonnade.data.text_file import read_text
        from colonnade.network.party_data import part_path, read_part
        from colonnade.network.party_file import PartyFile

        settings = PartyFile.load(file)
        part = read_part(path := part_path(settings.store, run), settings.name)
        if as_json:
            typer.echo(read_text(path))
            return
        names = part["features"] or [f"x{place}" for place in range(len(part["coefficients"]))]
        for name, value in zip(names, part["coefficients"], strict=True):
            typer.echo(str(value) if quiet else f"{value!s:>24}  {name}")


def _ask(asked: Request, budget: Budget, withdrawn: Callable[[], str | None]) -> bool:
    """Show the operator the terms of a run, for a yes or no; `withdrawn` says why nobody waits any more."""
    from colonnade.network.party_run import UnknownRun

    about = f"the question to the operator of {asked.party!r} about run {asked.run}"
    if not sys.stdin.isatty():
        raise co.PolicyRefused(
            f"nobody can be shown {about}: standard input is no terminal. Nothing was sent. Start the party in a "
            'terminal, say --yes, or write approve = "policy" and [limits] in its file.'
        )
    _show(asked, budget)
    refused = is_refused(asked, budget)
    # What was typed before was no answer to this.
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    # The refusal leaves when it was read, so that how fast it comes does not tell the ledger's no from the operator's.
    reply = _read_reply(sys.stdin.fileno(), withdrawn, SEEN if refused else PROMPT)
    if isinstance(reply, str):
        typer.echo(err=True)
        facts = {"run": asked.run, "why": reply}
        logging.getLogger("colonnade.party").warning("the question is void, and nothing was approved", extra=facts)
        raise UnknownRun(f"{reply} before {about} was answered")  # no refusal: the hub may propose it again
    if refused:
        raise co.PolicyRefused(
            f"run {asked.run} costs more than the limit of {asked.party!r} leaves, so its operator was shown it and "
            "not asked. Nothing was sent. `colonnade budget set` sets another limit."
        )
    return reply


def in_words(asked: Request, budget: Budget) -> str:
    """What an operator is shown, as plain text."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=100, color_system=None)
    _show(asked, budget, console)
    written = console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue().strip("\n")


def _show(asked: Request, budget: Budget, console: Console | None = None) -> None:
    """The terms in words and exactly, everything that would leave, and what it costs."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from colonnade.runs.preview import seen_by

    console = console or Console(stderr=True)
    console.print(f"\nThe coordinator proposes run {asked.run}", style="bold", markup=False)
    terms = Table.grid(padding=(0, 2))
    cost = Table.grid(padding=(0, 2))
    for grid in (terms, cost):
        grid.add_column(min_width=8)
        grid.add_column(overflow="fold")
    for name, value, exact in _terms(asked):
        terms.add_row(name, Text(value))
        if exact:
            terms.add_row("", Text(f"exactly: {exact}", style="dim"))
    cost.add_row("budget", Text(_cost(asked, budget)))
    console.print(terms)
    table = table_of("What would leave you", ("times", "what", "price (rho)", "seen by"))
    for charge in asked.own:
        price = price_in_words(charge.rho, charge.delta)
        table.add_row(f"{charge.count:,}", Text(charge.what), price, Text(seen_by(charge)))
    console.print(table, cost, sep="")


def _terms(asked: Request) -> Iterator[tuple[str, str, str]]:
    """Name, words, and where words are not exact the value itself."""
    from colonnade.methods.masked_scores import MaskedScores
    from colonnade.privacy.conditions import by_kind
    from colonnade.privacy.events import row_delta, row_rho
    from colonnade.privacy.statement import remarks_on
    from colonnade.runs.preview import Preview
    from colonnade.views.parts import count_noun, plain_words, problem_sentence, value_words

    method = asked.call.method
    problem = asked.call.problem
    privacy = asked.call.privacy
    yield "method", asked.terms.method, "" if isinstance(method, MaskedScores) else repr(method)
    if isinstance(method, MaskedScores):
        yield "model", f"run {method.model}", ""
        yield "before", f"{count_noun(asked.scored, 'run')} of scores of these rows", ""
        yield "of rows", "new ones" if asked.new else "that models may have been learned from", ""
    if isinstance(problem, co.Problem):
        yield "problem", f"{problem_sentence(problem)} {plain_words(problem)}".rstrip(), repr(problem)
    else:
        yield "problem", value_words(problem), repr(problem)
    if privacy is None:
        yield "privacy", "none: exact values leave", ""
    else:
        rho = row_rho(asked.plans)
        unit = asked.terms.unit
        taken = row_delta(asked.plans)
        priced = Preview(asked.terms.method, asked.rows, (), rho, privacy.delta, None, unit=unit, taken=taken)
        yield "privacy", priced.price, repr(privacy)
        yield from ((kind, clause, "") for kind, clause in by_kind(asked.conditions).items())
        yield from (("note", note, "") for note in remarks_on(privacy))
    yield from (("nothing", f"{what}; a run pays for it all the same", "") for what in asked.notices)
    yield from (("levels", what, "") for what in asked.unused)
    yield "protects", f"{asked.terms.unit}; {asked.terms.neighbours}", ""
    yield "rows", f"{asked.rows:,}", ""
    if asked.absence:
        yield "absence", asked.absence, ""
    if asked.curves:
        yield "columns", asked.curves, ""


def is_refused(asked: Request, budget: Budget) -> bool:
    """Whether the ledger will refuse a run, whatever its operator says."""
    from colonnade.privacy.events import row_delta, row_rho

    row = row_rho(asked.plans)
    taken = row_delta(asked.plans)
    return bool(row or taken) and not budget.affords(row, taken)


def _cost(asked: Request, budget: Budget) -> str:
    """The run beside the limit, as `colonnade budget show` has it: at the limit's delta, what is reserved included."""
    from colonnade.privacy.accountant import epsilon, less_taken
    from colonnade.privacy.events import row_delta, row_rho

    row = row_rho(asked.plans)
    taken = row_delta(asked.plans)
    if not (row or taken):
        return "costs no epsilon"
    if budget.epsilon is None or budget.delta is None:
        return "there is no limit: `colonnade budget set` sets one"
    if math.isinf(row):
        limit = f"your limit of epsilon {shown(budget.epsilon)}"
        return f"over {limit}, as no epsilon holds for exact values: it will be refused"
    cost = shown(epsilon(row, less_taken(budget.delta, taken)))
    limit = f"{shown(budget.epsilon)} (delta {budget.delta:g})"
    beside = f" and delta {shown(taken)} beside it" if taken else ""
    words = f"costs at most epsilon {cost}{beside} of your limit {limit}; {budget.spent:.4g} is spent or reserved; "
    if is_refused(asked, budget):
        return words + f"only {epsilon(budget.left, budget.delta):.4g} is left, so it will be refused"
    after = epsilon(replace(budget, rho=budget.rho + row, taken=budget.taken + taken).left, budget.delta)
    return words + f"afterwards about {after:.4g} is left (epsilons do not simply add up)"


def _read_reply(source: int, withdrawn: Callable[[], str | None], prompt: str = PROMPT) -> bool | str:
    """The operator's yes or no, an end of input being a no; or why the question was withdrawn before there was one. A
    signal does not end a read that has begun, so nothing is read before it is there."""
    typed = b""
    typer.echo(prompt, nl=False, err=True)
    while True:
        if (why := withdrawn()) is not None:
            return why
        if not select.select([source], [], [], _GLANCE)[0]:
            continue
        try:
            piece = os.read(source, 1024)
        except OSError:  # the terminal is gone
            piece = b""
        typed += piece
        if piece and b"\n" not in typed:
            continue
        if not piece and not typed:
            typer.echo(err=True)
        said = typed.partition(b"\n")[0].strip().lower()
        if said in (b"y", b"yes"):
            # An answer that came together with the end of the question is none.
            return withdrawn() or True
        if not piece or said in (b"", b"n", b"no"):
            return False
        typed = b""
        if prompt != PROMPT:  # nothing was asked
            return False
        typer.echo(f"Please answer y or n. {PROMPT}", nl=False, err=True)


Names = Annotated[list[str], typer.Argument(metavar="RUN:CODE...", help="As `colonnade party inbox` shows them.")]


@app.command()
def inbox(
    file: options.PartyFile,
    every: Annotated[
        bool, typer.Option("--all", help="Also those that were answered, or that nobody answered.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the questions' names, RUN:CODE.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """The questions that wait for you: terms, what would leave, and what it costs, as `party run` would show them.

    With approve = "inbox" in the party's file a run that [limits] do not let pass becomes a question here, open for
    open_hours. Other runs go on meanwhile. What is printed is as confidential as the table.

    \bExamples:
      colonnade party inbox party.toml
      colonnade party inbox party.toml --all --json
    """
    with explained():
        from colonnade.network.inbox import in_minutes

        with closing(_inbox(file)) as box:
            found = box.questions(every=every)
        plain = [{**asdict(one), "name": one.name, "state": one.state} for one in found]
        texts = [f"{one.shown}\n{one.name} is {one.state}, until {in_minutes(one.until)}\n" for one in found]
        waiting = "\n".join(texts) or "no question is open"
        answer(plain, waiting, "\n".join(one.name for one in found), quiet, as_json)


@app.command()
def approve(
    file: options.PartyFile, names: Names, quiet: options.Silent = False, as_json: options.AsJson = False
) -> None:
    """Say yes to runs: each takes part when the coordinator proposes it again, in at most two minutes.

    A yes is for exactly what the inbox shows under this code: a run that was proposed with other terms meanwhile has
    another one. The ledger and the policy are asked all the same.

    Example: colonnade party approve party.toml 20260101T120000-0123456789ab:5f0c91e2
    """
    with explained():
        _decide(file, names, True, quiet, as_json)


@app.command()
def refuse(
    file: options.PartyFile, names: Names, quiet: options.Silent = False, as_json: options.AsJson = False
) -> None:
    """Say no to runs, with or without a code: the coordinator hears that a party refused, and not why; nobody pays.

    Example: colonnade party refuse party.toml 20260101T120000-0123456789ab
    """
    with explained():
        _decide(file, names, False, quiet, as_json)


def _decide(file: options.PartyFile, names: list[str], yes: bool, quiet: bool, as_json: bool) -> None:
    with closing(_inbox(file)) as box:
        said = [box.answer(name, yes) for name in names]
    plain = [{"run": one.run, "state": one.state} for one in said]
    answer(plain, "\n".join(f"{one.run} {one.state}" for one in said), "", quiet, as_json)


def _inbox(file: options.PartyFile) -> Inbox:
    from colonnade.network.party_file import PartyFile

    settings = PartyFile.load(file)
    if not (settings.store / "inbox.db").is_file():
        raise co.InvalidInput(
            f'{settings.store} has no inbox: write approve = "inbox" into {file} and start `colonnade party run`. '
            "With another word there, runs are decided on while the party runs."
        )
    return settings.inbox()
