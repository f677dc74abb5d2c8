"""`colonnade fit` and `colonnade report`: a whole run from one configuration file, and the page about its fit."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import colonnade as co
from colonnade.cli import options, terminal
from colonnade.cli.terminal import answer, busy, complain, explained, lined, on_screen

if TYPE_CHECKING:
    from colonnade.runs.config import Configured

STOPPED = "interrupted; with the same store, the same command goes on where this one stopped."


def fit(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to run and on what (docs/use/files.md).")],
    epsilon: Annotated[float | None, typer.Option(help="The budget, instead of the one in the file.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta; 1e-6 where the file has none.")] = None,
    bounds_are_public: options.BoundsArePublic = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Spend also on what the rows show to be for nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would release and cost; spend nothing.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write the fit, instead of the place in the file; report beside it."
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the fit was written.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Run a configuration file; `colonnade init` writes one.

    A result that is there is not written over, and no other run is begun and paid, without --overwrite. What a private
    run would pay for nothing stops it before anything is spent; whoever runs it holds all tables.

    \bExamples:
      colonnade fit study.toml --epsilon 1
      colonnade fit study.toml --dry-run
      colonnade fit study.toml --epsilon 4 --output four.json
    """
    with explained(STOPPED):
        from colonnade.runs.config import load_config
        from colonnade.views.verdict import facts_in_short

        asked = load_config(config, epsilon=epsilon, delta=delta, public=bounds_are_public)
        if output is not None:
            asked = replace(asked, output=output, report=asked.report and output.with_suffix(".html"))
        asked.check_places()
        if dry_run:
            with busy("making every check that the run would make", quiet or as_json):
                found = asked.preview()
            terminal.show_preview(found, quiet, as_json)
            if asked.output.is_file() and not overwrite:
                complain("note: ", f"{asked.output} already exists: the run needs --overwrite, or --output.")
            return
        cost = terminal.cost_of_another(asked.job.privacy)
        terminal.check_free(asked.output, overwrite, cost, "name another file with --output")
        with _nothing_for_nothing(asked.job.privacy, anyway):
            fitted = asked.run(progress=on_screen(quiet or as_json))
        facts = {
            "run": fitted.run,
            "method": fitted.method,
            "status": fitted.status.value,
            "privacy": fitted.privacy.sentence,
            "sent": f"{fitted.communication.bytes:,} bytes in {fitted.communication.messages:,} messages",
            "rows": f"{asked.federation.alignment}",
            **({"remarks": "; ".join(fitted.remarks)} if fitted.remarks else {}),
            **{
                name: str(path) for name, path in (("report", asked.report), ("store", asked.store)) if path is not None
            },
            "fit": str(asked.output),
            "next": _next(asked),
        }
        answer(facts, lined(facts_in_short(fitted, facts)), str(asked.output), quiet, as_json)


def _next(asked: Configured) -> str:
    """What whoever has a fit wants to do with it."""
    parties = " ".join(f"--party {name}=NEW_ROWS" for name in asked.federation.parties)
    notes = f"; colonnade budget notes {asked.store} PARTY counts the cells that bounds cut" if asked.store else ""
    return f"colonnade predict {asked.output} {parties}{notes}"


@contextlib.contextmanager
def _nothing_for_nothing(privacy: co.Privacy | None, anyway: bool) -> Iterator[None]:
    """Stop a private run before it is paid if its terms promise nothing, or it would pay for nothing."""
    from colonnade.data.notices import UNSPENT
    from colonnade.privacy.statement import remarks_on

    if anyway:
        yield
        return
    if remarks := remarks_on(privacy):
        raise co.InvalidInput(f"{remarks[0]}. Nothing was spent. Ask for less, or say --anyway.")
    with warnings.catch_warnings():
        warnings.simplefilter("error", co.NothingToLearn)
        try:
            yield
        except co.NothingToLearn as found:
            what = str(found).removesuffix(UNSPENT).rstrip(" .")
            raise co.InvalidInput(f"{what}. Nothing was spent. Mend table or file, or say --anyway.") from None


def report(
    saved: Annotated[Path, typer.Argument(metavar="FIT.json", help="A fit saved with fit.save(path).")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it; report.html, or officer.html.")
    ] = None,
    officer: Annotated[
        bool, typer.Option("--officer", help="Write the data-protection officer's page instead: what to file and sign.")
    ] = False,
    purpose: Annotated[str, typer.Option(help="With --officer: what the model is for, in your words.")] = "",
    store: Annotated[
        Path | None,
        typer.Option(help="With --officer: the store whose budgets it shows; else the fit's own, or `runs`."),
    ] = None,
    overwrite: options.WriteOver = False,
    quiet: options.Silent = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the report of a saved fit, or the data-protection officer's page: one HTML file that needs no network.

    It costs nothing. Figures of quality need rows that are public or paid for: `colonnade evaluate` computes them.

    \bExamples:
      colonnade report fit.json
      colonnade report runs/fits/20260101T120000-0123456789ab.json --output model.html
      colonnade report fit.json --officer --purpose "To plan beds for the winter of 2026"
    """
    with explained():
        if not officer and (purpose or store is not None):
            raise co.InvalidInput("--purpose and --store are for the officer's page: add --officer, or leave them out.")
        target = output or Path("officer.html" if officer else "report.html")
        terminal.check_new(target, overwrite, (saved,))
        with busy("writing the report", quiet or as_json):
            fitted = co.load(saved)
            if officer:
                path = str(_write_officer(fitted, target, purpose, store or _store_of(saved, fitted.run)))
            else:
                path = str(fitted.report(target))
        answer({"report": path}, path, "", quiet, as_json)


def _store_of(saved: Path, run: str) -> Path | None:
    """The store that keeps this fit: the one it lies in, or `runs` beside it, as `colonnade init` names it."""
    folder = saved.resolve().parent
    stores = [folder.parent] if folder.name == "fits" else [folder / "runs"]
    return next(
        (one for one in stores if (one / "runs.db").is_file() and (one / "fits" / f"{run}.json").is_file()), None
    )


def _write_officer(fitted: co.Fit, target: Path, purpose: str, store: Path | None) -> Path:
    from colonnade.privacy.store import write_synced
    from colonnade.runs.budgets import accounts
    from colonnade.views.officer import render_officer
    from colonnade.views.page import check_target

    budgets = [] if store is None else [account.cells() for account in accounts(store)]
    page = render_officer(fitted, purpose=purpose, budgets=budgets)
    write_synced(check_target(target), page.encode())
    return target
