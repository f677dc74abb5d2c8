"""`python -m papers`: the papers' figures and our findings about them, measured again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.terminal import answer, answers, explained

if TYPE_CHECKING:
    from papers.registry import Listed
    from papers.runner import Outcome

app = typer.Typer(no_args_is_help=True, help="Run the papers' figures again, and our findings about them.")

Full = Annotated[
    bool, typer.Option("--full/--quick", help="The paper's repeats, or few of them with the same settings.")
]
Results = Annotated[Path, typer.Option(help="Where rows, plots and the gallery are kept.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; by default one a core.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only names: of figures that failed or differ.")]
Names = Annotated[bool, typer.Option("--quiet", "-q", help="Print only names.")]
Check = Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 where something differs.")]
Pages = Annotated[Path, typer.Option("--pages", help="The folder of the pages, with the record in results/.")]
Seeds = Annotated[
    int, typer.Option(min=1, max=2, help="2: once more with other seeds; a verdict that differs is marked as unstable.")
]
KEPT = "what was finished is kept; the same command goes on from there."


@app.callback()
def _every() -> None:
    """Run the papers' figures again, and our findings about them.

    A figure is a plot or a table of a paper with the claims it makes. Running it draws it anew and says of every claim whether it
    holds; a claim that is known not to hold is a finding, with its reason.
    """


@app.command("list")
def list_figures(
    results: Results = Path("reproduced"),
    quiet: Names = False,
    as_json: AsJson = False,
) -> None:
    """Name the figures, the data they read, and what a quick run of each took, if one is in the results folder.

    Examples:

      python -m papers list

      python -m papers list --json
    """
    with explained():
        from papers.registry import discover

        lines = [_line(listed, results) for listed in discover().values()]
        if as_json or quiet:
            answer(lines, "", "\n".join(line["name"] for line in lines), quiet, as_json)
        else:
            from rich.table import Table

            table = Table()
            for name in lines[0] if lines else ():
                table.add_column(name, overflow="fold")
            for line in lines:
                table.add_row(*line.values())
            answers().print(table)


@app.command()
def run(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Figures; 'lou*' stands for all that begin so.")
    ],
    full: Full = False,
    results: Results = Path("reproduced"),
    jobs: Jobs = None,
    seeds: Seeds = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run some figures and judge their claims.

    Finished cases are kept in the results folder, so an interrupted run goes on where it stopped; a change of what is computed runs
    it again, one of a drawing or a check does not. Real data are read from the folder that COLONNADE_DATA names; a figure without its data is left out and said so.
    The exit code is 1 if a case failed, or if a claim's verdict is not the one that its figure's file says.

    Examples:

      python -m papers run lou-2

      python -m papers run "raff*" --full --jobs 2
    """
    with explained(KEPT):
        from papers.registry import chosen, discover

        _reproduce(chosen(names, discover()), full, results, jobs, seeds, quiet, as_json)


@app.command("all")
def run_all(
    full: Full = False,
    results: Results = Path("reproduced"),
    jobs: Jobs = None,
    seeds: Seeds = 1,
    anew: Annotated[bool, typer.Option(help="Full runs that are on record, too.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run every figure; see `python -m papers run`. A full run goes figure by figure, the cheapest first.

    A figure whose full run, of these sizes and claims, is on record in papers/results is left out of a full run unless --anew says otherwise.

    Examples:

      python -m papers all --quick --seeds 2

      COLONNADE_DATA=data python -m papers all --full
    """
    with explained(KEPT):
        from papers.registry import discover

        wanted = list(discover().values())
        if not full:
            _reproduce(wanted, full, results, jobs, seeds, quiet, as_json)
            return
        from papers.pieces import cheapest_first

        pieces = cheapest_first(wanted, Path("papers"), anew)
        for listed in pieces:  # written before the next one begins
            _run([listed], full, results, jobs, seeds, quiet or as_json)
        _reproduce(pieces, full, results, jobs, seeds, quiet, as_json)  # runs nothing: all of it is kept


@app.command()
def findings(
    full: Full = False,
    results: Results = Path("reproduced"),
    jobs: Jobs = None,
    seeds: Seeds = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run what the findings about the papers rest on, attacks among it, and say what was measured of each.

    The figures are those of `python -m papers run`, kept in the same folder; papers/findings.md is rendered by `publish`. The exit
    code is 1 if a verdict is not the one that its figure's file says.

    Examples:

      python -m papers findings

      python -m papers findings --full --jobs 2
    """
    with explained(KEPT):
        from papers.findings import figures, told
        from papers.registry import chosen, discover
        from papers.runner import facts

        outcomes = _run(chosen(figures(), discover()), full, results, jobs, seeds, quiet or as_json)
        said = [facts(outcome) for outcome in outcomes]
        whole = all(outcome.status in ("as stated", "differs") for outcome in outcomes)
        record = {one["name"]: one for one in said}
        text = told(record) if whole else "not all figures could be run: `python -m papers run` says why."
        answer(said, text, _astray(outcomes), quiet, as_json)
        _end(outcomes)


@app.command()
def judge(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Figures; '*' stands for all that were run there.")
    ],
    results: Results = Path("reproduced"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Judge and draw again from the rows of an earlier run, whatever the code's version; nothing is run.

    Examples:

      python -m papers judge lou-2

      python -m papers judge "*" --results reproduced
    """
    with explained():
        from papers.page import write_pages
        from papers.plot import check_drawing
        from papers.registry import chosen, discover
        from papers.runner import judged_again

        check_drawing()
        found = [judged_again(listed, results) for listed in chosen(names, discover())]
        _, outcomes = write_pages([one for one in found if one is not None], results)
        _say(outcomes, quiet, as_json)
        _end(outcomes)


@app.command()
def publish(
    results: Results = Path("reproduced"),
    folder: Pages = Path("papers"),
    quiet: Names = False,
    as_json: AsJson = False,
) -> None:
    """Keep verdicts and plots of a results folder in papers/results, and render the pages from them.

    Every figure that the folder holds replaces its record; the others keep theirs. A record says the mode, the code's version and the
    CPU seconds.

    Examples:

      python -m papers publish

      python -m papers publish --results reproduced --pages papers
    """
    with explained():
        from papers import record
        from papers.registry import discover

        fresh = record.publish(results, folder, list(discover()))
        changed = _render(folder)
        text = (
            f"{len(fresh)} figures kept in {folder / record.FOLDER}; rendered anew: {', '.join(changed) or 'nothing'}"
        )
        answer({"figures": fresh, "pages": changed}, text, "\n".join(fresh), quiet, as_json)


@app.command()
def draw(
    folder: Pages = Path("papers"),
    check: Check = False,
    quiet: Names = False,
    as_json: AsJson = False,
) -> None:
    """Draw every kept figure again from the curves in its record, with the words of its file; nothing is run.

    Examples:

      python -m papers draw

      python -m papers draw --check
    """
    with explained():
        from papers import record
        from papers.plot import check_drawing
        from papers.registry import discover

        check_drawing()
        told = record.retold(record.load(folder), [listed.figure for listed in discover().values()])
        wanted = {f"{name}.json": record.as_json(said) for name, said in told.items()}
        wanted |= {f"{name}.svg": svg for name, svg in record.drawn(told).items()}
        changed = []
        for name, text in wanted.items():
            path = folder / record.FOLDER / name
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                changed.append(name)
                if not check:
                    path.write_text(text, encoding="utf-8")
        _stale(changed, "drawn", check, quiet, as_json)


@app.command()
def pages(
    folder: Pages = Path("papers"),
    check: Check = False,
    quiet: Names = False,
    as_json: AsJson = False,
) -> None:
    """Render findings.md, gallery.md and the table in README.md from the record in papers/results.

    Examples:

      python -m papers pages

      python -m papers pages --check
    """
    with explained():
        changed = _render(folder, write=not check)
        _stale(changed, "rendered", check, quiet, as_json)


@app.command()
def comparison(
    full: Annotated[
        bool, typer.Option("--full/--quick", help="All tables and five splits, or one table and two.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            help="A page with the marks of papers/comparison.md to write into; the record goes to results/ beside it."
        ),
    ] = None,
    rivals: Annotated[
        str | None,
        typer.Option(help="Where diffprivlib and skglm are: an environment's folder, or 'install' to make one."),
    ] = None,
    results: Results = Path("reproduced"),
    jobs: Jobs = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the record is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare our methods with each other and with scikit-learn, skglm and diffprivlib on the same real tables.

    Accuracy on rows set aside, epsilon, bytes, rounds, CPU seconds. Tables are read from the folder that COLONNADE_DATA names. Other
    libraries run in an environment of their own; without --rivals they are left out, and the table says so. Finished models are kept.

    Examples:

      COLONNADE_DATA=data python -m papers comparison

      COLONNADE_DATA=data python -m papers comparison --full --rivals install --page papers/comparison.md
    """
    with explained(KEPT):
        from rich.console import Console

        from papers.comparison import page as pages
        from papers.comparison.record import save
        from papers.comparison.rivals import Rivals
        from papers.comparison.run import compare

        if page is not None:
            pages.around(page)  # refused before the work, not after it
        others = None
        if rivals is not None:
            others = Rivals.installed() if rivals == "install" else Rivals.at(Path(rivals))
        watched = Console(stderr=True).is_terminal
        found = compare(results, quick=not full, rivals=others, jobs=jobs, progress=watched)
        kept = (results / "comparison" if page is None else page.parent / "results") / "comparison.json"
        save(found, kept)
        if page is not None:
            pages.write(found, page)
        answer(found, pages.block(found), str(kept), quiet, as_json)


def _stale(changed: list[str], how: str, check: bool, quiet: bool, as_json: bool) -> None:
    """What differed from the record and was made anew, or where it is only checked ends with code 1."""
    text = f"{'stale' if check else f'{how} anew'}: {', '.join(changed) or 'nothing'}"
    answer(changed, text, "\n".join(changed), quiet, as_json)
    if check and changed:
        raise typer.Exit(1)


def _render(folder: Path, write: bool = True) -> list[str]:
    """The names of the pages that are not what the record makes of them; they are written unless told not to."""
    from papers import coverage, findings, record

    wanted = {"findings.md": findings.page, "gallery.md": record.gallery, "README.md": coverage.page}
    changed = []
    for path, text in record.rendered(folder, wanted).items():
        if path.read_text(encoding="utf-8") != text:
            changed.append(path.name)
            if write:
                path.write_text(text, encoding="utf-8")
    return changed


def _reproduce(
    wanted: Sequence[Listed], full: bool, results: Path, jobs: int | None, seeds: int, quiet: bool, as_json: bool
) -> None:
    outcomes = _run(wanted, full, results, jobs, seeds, quiet or as_json)
    _say(outcomes, quiet, as_json)
    if not (quiet or as_json):
        typer.echo(f"{sum(outcome.seconds for outcome in outcomes):,.0f} s of CPU over {len(outcomes)} figures")
        typer.echo(f"plots: {results / 'index.html'}")
    _end(outcomes)


def _run(
    wanted: Sequence[Listed], full: bool, results: Path, jobs: int | None, seeds: int, silent: bool
) -> list[Outcome]:
    from rich.console import Console

    from papers.page import write_pages
    from papers.plot import check_drawing
    from papers.runner import reproduce

    check_drawing()
    seen = Console(stderr=True).is_terminal and not silent
    outcomes = reproduce(wanted, results, quick=not full, jobs=jobs, progress=seen, seeds=seeds)
    return write_pages(outcomes, results)[1]


def _say(outcomes: Sequence[Outcome], quiet: bool, as_json: bool) -> None:
    """Every verdict, in words or as JSON; of a quiet run the figures that failed or differ."""
    from papers.runner import facts

    if quiet or as_json:
        answer([facts(outcome) for outcome in outcomes], "", _astray(outcomes), quiet, as_json)
        return
    for outcome in outcomes:
        _tell(outcome)


def _astray(outcomes: Sequence[Outcome]) -> str:
    return "\n".join(outcome.figure.name for outcome in outcomes if outcome.status in ("failed", "differs"))


def _end(outcomes: Sequence[Outcome]) -> None:
    if _astray(outcomes):
        raise typer.Exit(1)


def _tell(outcome: Outcome) -> None:
    from rich.console import Console
    from rich.text import Text

    from papers.page import WORDS, seeds_told
    from papers.runner import facts

    console, figure = Console(soft_wrap=True), outcome.figure
    console.print(Text(f"{figure.name}: {figure.title}", style="bold"))
    if outcome.missing:
        console.print(
            f"  not run: it reads {', '.join(outcome.missing)}; set COLONNADE_DATA to the folder that has them"
        )
    for one in outcome.judged:
        verdict = WORDS[one.verdict.held, one.claim.expected(outcome.quick)]
        console.print(Text(f"  {verdict}", style="" if one.as_stated else "bold red") + Text(f": {one.claim.says}"))
        console.print(Text(f"      {one.verdict.evidence} ({one.claim.confidence})"))
        if one.stable is False or one.claim.changed:
            said = facts(outcome)
            (claim,) = [claim for claim in said["claims"] if claim["says"] == one.claim.says]
            console.print(Text(f"      {seeds_told(claim, said)}"))
        if one.claim.finding:
            console.print(Text(f"      {one.claim.finding}"))
    for failure in outcome.failures:
        console.print(Text(f"  failed: {json.dumps(failure.case)}: {failure.reason}", style="red"))


def _line(listed: Listed, results: Path) -> dict[str, str]:
    figure, took = listed.figure, "not run"
    try:
        said = json.loads((results / figure.name / "outcome.json").read_text(encoding="utf-8"))
        if said["quick"] and said["status"] in ("as stated", "differs"):
            took = f"{said['cpu_seconds']:.0f} s"
    except (OSError, ValueError, KeyError):
        pass  # nothing there, or nothing of ours
    claims = sum(claim.reproduces for claim in figure.claims)
    return {
        "name": figure.name,
        "paper": figure.paper,
        "title": figure.title,
        "data": ", ".join(figure.data) or "made up",
        "claims that hold": f"{claims} of {len(figure.claims)}",
        "quick, CPU": took,
    }
