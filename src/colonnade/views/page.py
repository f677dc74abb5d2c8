"""The page: the sections of one fit, put together and written in one piece."""

from __future__ import annotations

from html import escape
from pathlib import Path

from colonnade.errors import InvalidInput
from colonnade.privacy.store import write_synced
from colonnade.views import sections
from colonnade.views.fit_facts import Evaluation, FitFacts, Quality, RunFacts
from colonnade.views.model import model_section, quality_section
from colonnade.views.parts import section, style
from colonnade.views.privacy import privacy_section, traffic_section

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write_report(
    fit: FitFacts,
    path: str | Path,
    *,
    quality: Quality | None = None,
    evaluation: Evaluation | None = None,
    facts: RunFacts | None = None,
) -> Path:
    """Write the report of a fit to one self-contained HTML file; the path it was written to.

    quality     figures that the caller computed, such as a comparison of models.
    evaluation  what was found on rows of the caller's: ROC, calibration and what each party adds.
    facts       what is known about the run beside the fit; by default what the fit carries.
    """
    target = check_target(path)
    write_synced(target, render_report(fit, quality=quality, evaluation=evaluation, facts=facts).encode())
    return target


def check_target(path: str | Path) -> Path:
    """The path, or InvalidInput where no file can be written: better said before a run than after it."""
    target = Path(path)
    try:
        if target.is_dir():
            raise InvalidInput(f"{target} is a folder; name a file in it.")
        if not target.parent.is_dir():
            raise InvalidInput(f"the folder {target.parent} does not exist; create it, or name another.")
    except OSError as error:  # a folder that may not be looked into, a name that is too long
        raise InvalidInput(f"{target} cannot be written: {error.strerror}. Name another file.") from error
    return target


def render_report(
    fit: FitFacts,
    *,
    quality: Quality | None = None,
    evaluation: Evaluation | None = None,
    facts: RunFacts | None = None,
) -> str:
    """The report as text; arguments as in `write_report`."""
    known = RunFacts.of(fit) if facts is None else facts
    parts = [
        ("question", "The question", sections.question_section(fit)),
        ("parties", "The parties", sections.parties_section(fit, known)),
        ("model", "The model", model_section(fit)),
        ("quality", "How good it is", quality_section(evaluation, quality)),
        ("privacy", "Privacy", privacy_section(fit)),
        ("traffic", "What left each party", traffic_section(fit)),
        ("convergence", "Convergence", sections.convergence_section(fit)),
        ("cost", "Cost", sections.cost_section(fit)),
        ("settings", "Settings and scaling", sections.settings_section(fit, known)),
        ("reproduction", "Reproduction", sections.reproduction_section(fit, known)),
    ]
    links = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title, _ in parts)
    count = len(sections.parties_of(fit))
    title = f"One model from {count:,} {'party' if count == 1 else 'parties'}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} – Colonnade report</title>
<style>{style()}</style>
</head>
<body>
<header><h1>{title}</h1>
<p class="soft">{escape(fit.method[:1].upper() + fit.method[1:])}, run <code>{escape(fit.run)}</code></p></header>
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main>
{"".join(section(*part) for part in parts)}</main>
</body>
</html>
"""
