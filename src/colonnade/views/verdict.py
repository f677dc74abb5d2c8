"""What a reader wants first: what was asked, how good the answer is, what it cost, what left, and who agreed.

Colours  masked, noisy and exact have one each, which means that and nothing else on any page; the word stands by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Any

from colonnade.privacy.events import KINDS, shown
from colonnade.privacy.statement import Guarantee
from colonnade.views import chart
from colonnade.views import parts as html
from colonnade.views.fit_facts import Evaluation, FitFacts, Quality, RunFacts, left_by_party, parties_of
from colonnade.views.parts import Markup, join_names, paragraph
from colonnade.views.privacy import guess, percent

MEANINGS = {
    "masked": "random numbers to whoever lacks the mask",
    "noisy": "with noise, which epsilon pays for",
    "exact": "as it is: nothing bounds what follows from it",
}
NOT_MEASURED = (
    "Not measured: a figure of quality tells about the rows that it is computed on. Rows that are public, or paid for, "
    "can be handed over: colonnade evaluate with --report, or fit.report with evaluation."
)
AT_MOST = "“At most” is the plan that the ledgers approved before the first message: fewer pieces may have left."
UNKNOWN = (
    "This fit is of a version that did not keep what left; the statement under Privacy says what an adversary sees."
)


def verdict_section(fit: FitFacts, known: RunFacts, quality: Quality | None, evaluation: Evaluation | None) -> str:
    lines = {
        "Asked": paragraph(question_of(fit, known)),
        "How good": quality_part(quality, evaluation),
        "Cost": cost_part(fit),
        "What left": left_part(fit, known),
        "Approved": approved_part(known),
    }
    inside = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in lines.items() if text)
    return f'<dl class="verdict">{inside}</dl>'


def title_of(fit: FitFacts, known: RunFacts) -> str:
    """The label where it has a name, else how many parties there are."""
    count = len(parties_of(fit))
    private = "One private model" if math.isfinite(fit.privacy.epsilon) else "One model, not private,"
    return f"Predicting “{known.asked}”" if known.asked else f"{private} from {html.count_parties(count)}"


def date_of(run: str) -> str:
    """When a run began, as its name says; nothing where the name says no time."""
    try:
        began = datetime.strptime(run[:15], "%Y%m%dT%H%M%S")  # in UTC
    except ValueError:
        return ""
    return f"{began.day} {began:%B %Y, %H:%M} UTC, "


def question_of(fit: FitFacts, known: RunFacts) -> str:
    """What was asked, in the label's own words."""
    parties = [party for party in parties_of(fit) if party in fit.features]
    whose = f"as {fit.label} records it,"
    label = f"“{known.asked}”" if known.asked else "the label"
    match type(fit.problem.loss).__name__, fit.classes:
        case "Poisson", _:
            what = f"How many events to expect by {label}, {whose}"
        case _, (negative, positive) if fit.problem.loss.classifies:
            what = f"Whether {label}, {whose} is “{positive}” rather than “{negative}”,"
        case _ if fit.problem.loss.classifies:
            what = f"Whether {label} is so or not, {whose}"
        case _:
            what = f"Which number {label} is, {whose}"
    held = "rows" if fit.by_rows else "columns"
    over = "" if known.rows is None else f", over {html.count_noun(known.rows, 'row')}"
    common = " in common" * (known.rows is not None and len(parties) > 1 and not fit.by_rows)
    return f"{what} from the {held} of {join_names(parties or parties_of(fit))}{over}{common}."


def quality_part(quality: Quality | None, evaluation: Evaluation | None) -> str:
    """How good it is, beside a model without privacy and the best of the others."""
    if quality is None:
        if evaluation is None:
            return paragraph(NOT_MEASURED)
        value, error, meaning = evaluation.figures[evaluation.measure]
        over = f"on {html.count_noun(evaluation.rows, 'row')} that are {evaluation.basis}"
        return paragraph(f"{evaluation.measure} {html.with_error(value, error)} {over}: {meaning}.")
    own = next(iter(quality.values))
    names = list(dict.fromkeys(name for name in (own, quality.not_private, quality.best_other) if name))
    ends = [quality.values[n] + side * 2.0 * quality.errors.get(n, 0.0) for n in names for side in (-1.0, 1.0)]
    room = 0.08 * (max(ends) - min(ends)) or 0.5
    span = (min(ends) - room, max(ends) + room)
    rows = []
    for name in names:
        value, twice = quality.values[name], 2.0 * quality.errors.get(name, 0.0)
        dot = chart.interval(value, value - twice, value + twice, span, chart.INK)
        rows.append((_bold(name, name == own), _bold(quality.shown(name), name == own), dot))
    heads = ("model", quality.measure, Markup('<span class="wide">beside each other</span>'))
    spread = "± is one standard error, a line is two. " if quality.errors else ""
    caption = "This model, one without privacy, and the best of the others"
    return html.table(caption, heads, rows, numbers=1, bars=True) + paragraph(f"{spread}{quality.note}", "soft")


def _bold(text: str, heavy: bool) -> Markup:
    return Markup(f"<strong>{escape(text)}</strong>" if heavy else escape(text))


def cost_part(fit: FitFacts) -> str:
    privacy = fit.privacy
    if math.isinf(privacy.epsilon):
        return paragraph("No epsilon: exact values left, and no number bounds what can be found out from them.")
    best = percent(guess(privacy.epsilon, privacy.delta))
    plain = (
        f"Somebody who knows everything but {privacy.unit}, and sees all that was released, is told that it is one of "
        f"two: they name the right one in at most {best} of cases, where a coin names it in 50 %."
    )
    rests = (
        "" if privacy.guarantee == Guarantee.PROVEN else f" Guarantee: {privacy.guarantee}; its conditions stand below."
    )
    price = f"ε = {shown(privacy.epsilon)} at δ = {shown(privacy.delta)}, for {privacy.unit}."
    return paragraph(Markup(f"<strong>{escape(price)}</strong> {escape(plain + rests)}"))


def left_part(fit: FitFacts, known: RunFacts) -> str:
    """What the plan let leave, by how it looked; who sent it, and how often at most."""
    if not known.left:
        return paragraph(UNKNOWN)
    size = html.human_bytes(sum(sent.bytes for sent in left_by_party(fit)))
    legend = [f"{kind}: {MEANINGS[kind]}" for kind in KINDS if any(line[1] == kind for line in known.left)]
    most = f" {AT_MOST}" if any(line[3] > 1 for line in known.left) else ""
    return left_list(known.left) + paragraph(f"{size} in all. {'; '.join(legend).capitalize()}.{most}", "soft")


def left_list(lines: Iterable[Sequence[Any]]) -> Markup:
    """Lines (party, kind, what, count) as a list, the same of several parties once."""
    found: dict[tuple[str, str, int], list[str]] = {}
    for party, kind, what, count in lines:
        found.setdefault((kind, what, count), []).append(party)
    order = sorted(found.items(), key=lambda item: -KINDS.index(item[0][0]))  # what tells most comes first
    items = []
    for (kind, what, count), parties in order:
        often = "once" if count == 1 else f"in at most {count:,} pieces"
        who = f'<span class="soft">{escape(join_names(parties))}; {often}</span>'
        bare = what.replace(f"{kind} ", "")  # the chip says it
        items.append(f"<li>{chip(kind)} <span>{escape(bare)} {who}</span></li>")
    return Markup(f'<ul class="left">{"".join(items)}</ul>')


def chip(kind: str) -> Markup:
    """One of the three words in its colour."""
    return Markup(f'<span class="chip {kind}">{kind}</span>')


def approved_part(known: RunFacts) -> str:
    if not known.approved and not known.policies:
        return ""
    by_words: dict[str, list[str]] = {}
    for party, words in known.policies.items():
        by_words.setdefault(words, []).append(party)
    limits = "; ".join(f"{join_names(names)}: {words}" for words, names in by_words.items())
    return paragraph(f"{known.approved}{' Policies: ' + limits + '.' if limits else ''}".strip())


def sentence_parts(text: str) -> list[str]:
    """The clauses of assumptions that were joined as one sentence."""
    return [part.strip() for part in re.split(r"; and if ", text) if part.strip()]
