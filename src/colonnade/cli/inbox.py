"""`colonnade party inbox`, `approve` and `refuse`: a party's operator answers when there is time to."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, explained

if TYPE_CHECKING:
    from colonnade.network.inbox import Inbox

Names = Annotated[list[str], typer.Argument(metavar="RUN:CODE...", help="As `colonnade party inbox` shows them.")]


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
