"""`colonnade runs`: the runs of a store, and what to do about one that will not go on."""

from __future__ import annotations

import fcntl
import json
import math
import re
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, answers, explained, finite, lined, table_of
from colonnade.privacy.events import shown, with_delta

app = typer.Typer(epilog="An interrupted run goes on when the same call of fit is repeated with the same store.")

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the runs' names.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
COUNTED = "every later statement counts it"


@app.command(name="list")
def listing(store: options.Store, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Every run: when it began, its method and epsilon, and how it ended, or whether a process is driving it.

    \bExamples:
      colonnade runs list runs
      colonnade runs list runs --json
    """
    with explained():
        lines = list_runs(store)
        table = table_of(f"Runs in {store}", ("run", "began", "method", "epsilon", "state"))
        table.columns[0].no_wrap = True
        for line in lines:
            price = "not private" if line["epsilon"] is None else f"{shown(line['epsilon'])} (delta {line['delta']:g})"
            about = (line["method"], price) if line["method"] else ("", "")
            table.add_row(line["run"], line["began"], *about, line["state"])
        answer(lines, table, "\n".join(line["run"] for line in lines), quiet, as_json)


def list_runs(store: Path) -> list[dict[str, Any]]:
    """Every run of a store as plain data."""
    from colonnade.runtime.run_store import open_existing

    with closing(open_existing(store)) as kept:
        opened = [row for node in kept.nodes() for row in kept.log(node).rows(kind="open")]
        terms = {row.run: json.loads(row.body)["terms"] for row in opened}
        begun = kept.begun()
        over = kept.ended()
    lines = []
    for run, began in begun:
        about = terms.get(run, {})
        asked = re.search(r"Privacy\(epsilon=([^,]+), delta=([^,]+),", about.get("settings", ""))
        epsilon, delta = (None, None) if asked is None else map(float, asked.groups())
        price = {"method": about.get("method"), "epsilon": epsilon, "delta": delta}
        state = over[run].words if run in over else _unfinished(store, run)
        lines.append({"run": run, "began": began, **price, "state": state})
    return lines


def _unfinished(store: Path, run: str) -> str:
    """Whether a live process drives the run: it holds a lock, which the system frees when the process dies. To try it
    takes it for a moment, in which a call that looks for its own unfinished run would find it taken and begin a new
    one: so it is tried inside a transaction of the journal, as whoever looks for runs does."""
    from colonnade.privacy.store import FileLog

    with closing(FileLog(store / "runs.db")) as journal, journal.atomic(), suppress(FileNotFoundError):
        try:
            with (store / "locks" / f"{run}.lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return "running"
    return "interrupted"


@app.command()
def show(
    store: options.Store,
    run: options.RunName,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only its state.")] = False,
    as_json: AsJson = False,
) -> None:
    """One run: its terms, and everything that left the nodes whose ledgers are in this store.

    Example: colonnade runs show runs 20260101T120000-0123456789ab
    """
    with explained():
        from colonnade.runtime.run_store import released

        terms, left = released(store, run)
        about = next(line for line in list_runs(store) if line["run"] == run)
        facts = {name: about[name] for name in ("run", "began", "state")}
        if as_json or quiet:
            priced = [{**line, "rho": finite(line["rho"])} for line in left]
            answer({**facts, "terms": terms, "left": priced}, "", about["state"], quiet, as_json)
            return
        typer.echo(lined(facts | terms, 11))
        if not left:
            typer.echo("Nothing left the nodes whose ledgers are in this store. Parties elsewhere have theirs.")
            return
        table = table_of("What left", ("node", "what", "times", "price (rho)"))
        for line in left:
            price = f"{line['rho']:.4g}{_and_delta(line.get('delta', 0.0))}"
            table.add_row(line["node"], line["what"], f"{line['times']:,}", price)
        answers().print(table)


@app.command()
def resume(
    store: options.Store,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the fit was written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Go on with the command of `colonnade coordinator run` that was stopped: Ctrl-C, SIGTERM, a crash.

    Example: colonnade runs resume hub-store
    """
    with explained():
        from colonnade.cli.coordinator import Pending

        Pending(store).repeat(quiet, as_json)


@app.command()
def abort(store: options.Store, run: options.RunName, quiet: options.Silent = False, as_json: AsJson = False) -> None:
    """End an interrupted run for good: what it reserved and did not release returns to the budgets.

    Example: colonnade runs abort runs 20260101T120000-0123456789ab
    """
    with explained():
        from colonnade.runtime.run_store import abort_run

        closed = abort_run(store, run)
        said = f"{run} is over; closed in the ledgers of {', '.join(closed) or 'nobody'}"
        answer({"run": run, "state": "aborted", "closed_at": closed}, said, "", quiet, as_json)


@app.command()
def replaced(
    place: Annotated[Path, typer.Argument(metavar="PLACE", help="An owner's store, a party's or the federation file.")],
    node: Annotated[str | None, typer.Option(help="In a store of one owner: whose ledger was lost.")] = None,
    sign: Annotated[Path | None, typer.Option(metavar="RECORD", help="Begin a new ledger, write its record.")] = None,
    accept: Annotated[Path | None, typer.Option(metavar="RECORD", help="Take another node's new ledger.")] = None,
    rho: Annotated[float, typer.Option(help="With --sign: spent before, at least what others count.")] = math.inf,
    delta: Annotated[float, typer.Option(help="With --sign: what releases took of a delta before, likewise.")] = 0.0,
    store: Annotated[Path, typer.Option(help="The coordinator's store.")] = Path("hub-store"),
    certs: Annotated[Path, typer.Option(help="The coordinator's certificates.")] = Path("certs"),
    quiet: options.Silent = False,
    as_json: AsJson = False,
) -> None:
    """Go on after a ledger was lost: its owner begins a new one, and all others agree to it by hand.

    Every later statement counts it. Between organisations the owner signs a record and sends it to all others, who
    compare it with what they know of the loss before they take it.

    \bExamples:
      colonnade runs replaced runs --node airline
      colonnade runs replaced party.toml --sign airline.replaced --rho 0.05
      colonnade runs replaced party.toml --accept airline.replaced
      colonnade runs replaced federation.toml --accept airline.replaced --store hub-store
    """
    with explained():
        if [node, sign, accept].count(None) != 2:
            raise co.InvalidInput("say one of --node NAME (a store of one owner), --sign RECORD and --accept RECORD.")
        if node is not None:
            from colonnade.runtime.run_store import begin_new_ledger

            when, spent, taken = begin_new_ledger(place, node)
            begun = f"{node} has a new ledger since {when}, which begins with rho = {spent:.4g}{_and_delta(taken)}"
            text = f"{begun}; {COUNTED}"
            facts: dict[str, Any] = {"node": node, "when": when, "rho": finite(spent), **with_delta(delta=taken)}
        else:
            facts, text = _replaced_between(place, sign, accept, (rho, delta), store, certs)
        answer(facts, text, "", quiet, as_json)


def _is_federation(place: Path) -> bool:
    """Whether a file is a federation file; whoever reads it as a party's says what is wrong with it."""
    from colonnade.data.text_file import read_text, toml_of

    text = read_text(place)
    try:
        return "parties" in toml_of(text)
    except co.InvalidInput:
        return False


def _replaced_between(
    place: Path, sign: Path | None, accept: Path | None, spent: tuple[float, float], store: Path, certs: Path
) -> tuple[dict[str, Any], str]:
    """Between organisations: sign the record of this node's new ledger, or take that of another one."""
    from colonnade.data.federation_file import FederationFile
    from colonnade.network import replaced_ledger as records
    from colonnade.network.certs import tls_in
    from colonnade.network.party_file import PartyFile
    from colonnade.privacy.ledger import Ledger
    from colonnade.runtime.program import COORDINATOR
    from colonnade.runtime.run_store import RunStore

    party = None if _is_federation(place) else PartyFile.load(place)
    file = FederationFile.load(place) if party is None else party.federation_file
    tls = tls_in(certs, COORDINATOR).kept_in(store) if party is None else party.tls
    name = COORDINATOR if party is None else party.name
    with closing(RunStore(store if party is None else party.store)) as kept:
        if accept is not None:
            record = records.Record.load(accept)
            records.accept(kept, name, record, file, tls)
            text = f"{name} takes the new ledger of {record.node}, begun on {record.when}; {COUNTED}"
        else:
            assert sign is not None
            ledger = Ledger(kept.log(name), name, co.Policy(), snapshots=False)
            if party is None:
                record = records.sign_as_coordinator(ledger, tls, file)
            else:
                record = records.sign_as_party(ledger, party.identity(), file, *spent)
            record.save(sign)
            begun = f"{name} has a new ledger since {record.when}, which begins with rho = {record.rho:.4g}"
            begun += _and_delta(record.delta)
            text = f"{begun}; send {sign} to all others, who take it with --accept"
    return {"node": record.node, "when": record.when, "rho": finite(record.rho), **with_delta(delta=record.delta)}, text


def _and_delta(taken: float) -> str:
    return f" and delta = {shown(taken)}" if taken else ""
