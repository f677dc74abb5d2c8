"""`colonnade budget`: the owner's view of the ledgers in a store."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import UNCUT, answer, answers, busy, explained, finite, hand_over, table_of, write_text
from colonnade.privacy.events import shown, with_delta

app = typer.Typer(epilog="A store is the folder that was given as store= to fit.")

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing where all is in order.")]
Party = Annotated[str, typer.Argument(metavar="PARTY", help="Whose ledger.")]


@app.command()
def show(
    store: options.Store,
    plot: Annotated[Path | None, typer.Option(help="Also write spending over time as an HTML page.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only each party and what is left.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Every party's limit, what has left, what open runs have reserved beside it, and what is left of the limit.

    \bExamples:
      colonnade budget show runs
      colonnade budget show runs --plot spending.html
    """
    with explained():
        from colonnade.runs import budgets as budget

        with busy("checking and adding up the ledgers", quiet or as_json):
            accounts = budget.accounts(store)
        if plot is not None:
            _write_plot(store, plot)
        if as_json or quiet:
            brief = "\n".join(f"{account.party}\t{account.left_words}" for account in accounts)
            answer([_plain(account) for account in accounts], "", brief, quiet, as_json)
            return
        _print_table(f"Privacy spent in {store}", [_cells(account) for account in accounts])
        if any(account.budget.epsilon is None for account in accounts):
            typer.echo("A limit in a Policy or a federation file is on record once a run was reserved.", err=True)
        if any(account.open_runs for account in accounts):
            typer.echo("Open runs hold what they reserved until they end: `colonnade runs list` shows them.", err=True)


def _cells(account: Any) -> dict[str, str]:
    """An account with a bar beside what is left of its limit."""
    cells: dict[str, str] = account.cells()
    if account.budget.epsilon is not None:
        full = round(account.share * 5)
        cells["left of the limit"] = "█" * full + "░" * (5 - full) + f" {cells['left of the limit']}"
    return cells


def _print_table(title: str, lines: list[dict[str, str]]) -> None:
    """As a table where the screen has room for it, else a party after the other: no name and no figure is cut."""
    from rich.text import Text

    table = table_of(title, list(lines[0]), right=list(lines[0])[1:])
    for line in lines:
        table.add_row(*map(Text, line.values()))
    console = answers()
    if console.measure(table, options=console.options.update(max_width=UNCUT)).maximum <= console.width:
        console.print(table)
        return
    for line in lines:
        typer.echo("\n".join(f"{name:18} {value}".rstrip() for name, value in line.items()) + "\n")


@app.command()
def notes(
    store: options.Store,
    party: Party,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only how many notes there are.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """What only this party's operator may know: how many of its rows were over their public bound, by run.

    Keep it to yourself: such a count tells about the data, and nobody paid for it.

    \bExamples:
      colonnade budget notes runs hospital
    """
    with explained():
        from colonnade.runs.budgets import notes as kept

        found = kept(store, party)
        plain = [{"run": run, "note": text} for run, text in found]
        answer(plain, "\n".join(f"{run}  {text}" for run, text in found), str(len(found)), quiet, as_json)


@app.command()
def plan(
    store: options.Store,
    party: Party,
    epsilon: Annotated[float, typer.Option(help="What the run would ask for.")],
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-6,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds share it.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only yes or no: whether it fits.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """What a run would cost a party, whether it fits, and how much noise its rounds would carry.

    \bExamples:
      colonnade budget plan runs hospital --epsilon 1
      colonnade budget plan runs hospital --epsilon 0.5 --rounds 40
    """
    with explained():
        from colonnade.runs.budgets import forecast

        cast = forecast(store, party, epsilon, delta, rounds)
        more = "no limit is set" if math.isinf(cast.runs_left) else f"{cast.runs_left:.0f} such runs fit"
        text = (
            f"price      rho = {cast.rho:.4g}; {party} would then have spent epsilon {shown(cast.after)}\n"
            f"fits       {'yes' if cast.fits else 'no: it would be refused before anything is sent'}; {more}\n"
            f"noise      in each of {rounds} rounds: Gaussian sd {cast.sigma:.4g} or choice scale {cast.scale:.4g}, "
            "times the sensitivity of what is released"
        )
        plain = {name: finite(value) for name, value in vars(cast).items()}
        answer(plain, text, "yes" if cast.fits else "no", quiet, as_json)


@app.command(name="set")
def set_limit(
    store: options.Store,
    party: Party,
    epsilon: Annotated[float, typer.Option(help="The most that may be spent in a period.")],
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-6,
    quiet: Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Set a party's limit. It applies to every run from now on, with any method.

    Example: colonnade budget set runs hospital --epsilon 4 --delta 1e-6
    """
    with explained():
        from colonnade.runs.budgets import make_ledger, open_ledger

        co.Policy(epsilon=epsilon, delta=delta)  # a limit that is refused makes no ledger
        make_ledger(store, party)
        with open_ledger(store, party) as ledger:
            ledger.set_budget(epsilon, delta)
            left = ledger.budget()
        text = f"{party}: limit epsilon {shown(epsilon)} at delta {delta:g}; {shown(left.spent)} of it is spent"
        plain = {"party": party, "epsilon_limit": epsilon, "delta": delta, "epsilon_spent": finite(left.spent)}
        answer(plain, text, "", quiet, as_json)


@app.command()
def renew(
    store: options.Store,
    party: Party,
    reason: Annotated[str, typer.Option(help="Why; it stays on record.")],
    yes: options.Yes = False,
    quiet: Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Open a new period: the limit is whole again, what was spent stays on record and adds up for each person.

    Example: colonnade budget renew runs hospital --reason "new study, other patients"
    """
    with explained():
        from colonnade.runs.budgets import open_ledger

        with open_ledger(store, party) as ledger:
            before = ledger.budget()
            beside = f" and delta {shown(before.lifetime_taken)}" if before.lifetime_taken else ""
            given = f"{party}: people in the data have already given rho {before.lifetime_rho:.4g}{beside}"
            if not yes and not typer.confirm(f"{given}; a new period adds to that. Open it?", err=True):
                typer.echo("nothing was changed", err=True)
                raise typer.Exit(1)
            ledger.renew(reason)
            period = ledger.budget().period
        answer({"party": party, "period": period}, f"{party}: period {period} is open", "", quiet, as_json)


@app.command()
def export(
    store: options.Store,
    party: Party,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; by default standard output.")] = None,
    form: Annotated[str, typer.Option("--format", help="csv or json.")] = "csv",
    table: Annotated[
        str, typer.Option(help="releases, runs (what was reserved, and how it ended), or owner (limits and periods).")
    ] = "releases",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="With --output: print nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """A party's ledger for auditors: every release, every run, or what its owner set. No released values.

    Every row is checked first. In CSV a text that a spreadsheet would take for a formula begins with an apostrophe.

    \bExamples:
      colonnade budget export runs hospital --output releases.csv
      colonnade budget export runs hospital --table runs --format json
    """
    with explained():
        from colonnade.runs.budgets import export_table

        hand_over(export_table(store, party, "json" if as_json else form, table), output, quiet)


@app.command()
def verify(store: options.Store, quiet: Quiet = False, as_json: options.AsJson = False) -> None:
    """Check that no row of any ledger was changed, removed or put back from an old copy.

    Every row is walked, also those that a signed snapshot vouches for, and its sums are added up again. Ledgers of one
    store are compared with what they remember of each other; those of other organisations are compared when a run
    begins.

    Example: colonnade budget verify runs
    """
    with explained():
        from colonnade.runs.budgets import verify_ledgers

        with busy("walking every chain of rows", quiet or as_json):
            counts = verify_ledgers(store)
        plain = {party: {"rows": count, "whole": True} for party, count in counts.items()}
        text = "\n".join(f"{party}: {count:,} rows, whole" for party, count in counts.items())
        answer(plain, text or "no ledger here; the journal of runs is whole", "", quiet, as_json)


def _plain(account: Any) -> dict[str, Any]:
    return {
        "party": account.party,
        "unit": account.unit,
        "period": account.budget.period,
        "epsilon_limit": account.budget.epsilon,
        "delta": account.delta,
        "epsilon_spent": finite(account.spent),  # reserved included: what the limit applies to
        "epsilon_released": finite(account.released),
        "epsilon_reserved": finite(account.reserved),
        "epsilon_lifetime": finite(account.lifetime),
        "rho_spent": finite(account.budget.rho),
        **with_delta(delta_taken=account.budget.taken),  # of that delta, by releases for themselves
        "releases": account.releases,
        "exact_releases": account.exact,
        "open_runs": account.open_runs,
    }


def _write_plot(store: Path, target: Path) -> None:
    from colonnade.runs import budgets as budget
    from colonnade.views.chart import plotly_objects

    figure = plotly_objects().Figure()
    for account in budget.accounts(store):
        curve = [(when, spent) for when, spent in budget.spending(store, account.party) if math.isfinite(spent)]
        times = [when for when, _ in curve]
        spent = [value for _, value in curve]
        figure.add_scatter(x=times, y=spent, name=account.party, mode="lines+markers", line_shape="hv")
        if account.budget.epsilon is not None:
            figure.add_hline(y=account.budget.epsilon, line_dash="dash", annotation_text=f"limit of {account.party}")
    title = f"Privacy spent over time in {store}"
    spent_axis = "epsilon spent in all periods"
    figure.update_layout(title=title, xaxis_title="time (UTC)", yaxis_title=spent_axis)
    write_text(target, figure.to_html(include_plotlyjs=True))
    typer.echo(str(target), err=True)
