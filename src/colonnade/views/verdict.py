"""What a reader wants first: what was asked, how good the answer is, what it cost, what left, and who agreed; then the
sections that say in full what it cost, with its odds in plain words, and what left, by type and round. For a terminal
it is a few lines (`privacy_in_short`); the whole statement is in the report and the fit.

Two tables that differ in one unit, A and B; the adversary knows everything else and sees what the statement says it
sees. (epsilon, delta) says of every set S of outcomes: P_A(S) ≤ e^epsilon · P_B(S) + delta, and the same with A and B
swapped. Hence
    a fair coin between A and B is guessed with probability at most (e^epsilon + delta) / (e^epsilon + 1),
    a test of B that is wrong in a share a of cases finds A in at most
    min(e^epsilon·a + delta, 1 − e^(−epsilon)·(1 − delta − a)).
It does not say that odds move by at most e^epsilon except with chance delta. For odds:
    odds for the truth afterwards ≤ e^t · odds before, except with a chance of at most c,
with t = rho + 2·√(rho·ln(1/delta)) and c = delta for a release of price rho in zCDP, and with t = epsilon + ln 2 and c
= 2·delta for every other. Where releases took a part e of delta for themselves beside rho, c is the whole delta, too,
with t = rho + 2·√(rho·ln(2/(delta − e))) + ln((delta + e)/(delta − e)). The proofs are in
docs/understand/privacy/accounting.md, "What epsilon and delta mean".

Colours  masked, noisy and exact have one each, which means that and nothing else on any page; the word stands by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from markupsafe import Markup

from colonnade.model.facts import FitFacts, RunFacts, left_by_party, left_by_round, parties_of, reached_by_party
from colonnade.privacy.conditions import Kind, as_clause, in_short
from colonnade.privacy.events import KINDS, shown
from colonnade.privacy.statement import Guarantee, PrivacyStatement
from colonnade.views import chart
from colonnade.views import parts as html
from colonnade.views.chart import INK
from colonnade.views.parts import heading, human_bytes, join_names, joined, number, paragraph, piece, with_error

BASES = {
    "public": "These rows are public, so the caller says: the figures tell nothing that is not known.",
    "paid for": "The caller says that these figures are paid for: their release is accounted for apart from the "
    "run, and is not in the epsilon of this report.",
}


@dataclass(frozen=True)
class Quality:
    """How good models are: one figure by model, the fit's own first, and on which data it was computed."""

    measure: str
    values: Mapping[str, float]
    note: str
    errors: Mapping[str, float] = field(default_factory=dict)  # standard errors of the values, where they are known
    not_private: str = ""  # which of the models is one of all parties without privacy

    def shown(self, name: str) -> str:
        """One model's figure as tables show it."""
        return with_error(self.values[name], self.errors.get(name))

    @property
    def best_other(self) -> str:
        """The best of the models that are neither this one nor the one without privacy; none: an empty name."""
        first = next(iter(self.values))
        others = {name: value for name, value in self.values.items() if name not in (first, self.not_private)}
        return max(others, key=lambda name: others[name], default="")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was found on the rows of an evaluation."""

    basis: str
    rows: int
    measure: str  # by which models are compared
    figures: Mapping[str, tuple[float, float | None, str]]  # by name: figure, standard error if known, meaning
    groups: tuple[tuple[float, float, int], ...]  # predicted, found, rows
    roc: tuple[tuple[float, float], ...] = ()
    without: Mapping[str, float] = field(default_factory=dict)  # the measure without a party
    remark: str = ""  # why something is missing


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

PARTS = "verdict_parts.html"
NAMES = {"neighbours": "neighbouring tables", "trust": "trust model", "sees": "an adversary sees"}
BARS = 60  # rounds are put together where there are more
BELIEFS = (0.001, 0.01, 0.1, 0.5, 0.9)
COUNTED = (
    "A message between two parties stands at both; the last line counts it once. Bytes are those of the codec, without "
    "encryption and transport."
)
WRONG = 0.01  # of the example: how often a test may accuse the innocent


def verdict_section(fit: FitFacts, known: RunFacts, quality: Quality | None, evaluation: Evaluation | None) -> str:
    lines = {
        "Asked": paragraph(question_of(fit, known)),
        "How good": quality_part(quality, evaluation),
        "Cost": cost_part(fit),
        "What left": left_part(fit, known),
        "Approved": approved_part(known),
    }
    return piece("verdict", {name: text for name, text in lines.items() if text}, of=PARTS)


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
    if not fit.problem.loss.classifies:
        what = f"{fit.problem.loss.asks.format(label=label)}, {whose}"
    elif fit.classes is None:
        what = f"Whether {label} is so or not, {whose}"
    else:
        negative, positive = fit.classes
        what = f"Whether {label}, {whose} is “{positive}” rather than “{negative}”,"
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
        value = quality.values[name]
        twice = 2.0 * quality.errors.get(name, 0.0)
        dot = chart.interval(value, value - twice, value + twice, span, chart.INK)
        rows.append((_bold(name, name == own), _bold(quality.shown(name), name == own), dot))
    heads = ("model", quality.measure, html.wide("beside each other"))
    spread = "± is one standard error, a line is two. " if quality.errors else ""
    caption = "This model, one without privacy, and the best of the others"
    return html.table(caption, heads, rows, numbers=1, bars=True) + paragraph(f"{spread}{quality.note}", "soft")


def _bold(text: str, heavy: bool) -> str:
    return piece("strong", text, "", of=PARTS) if heavy else text


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
    said = as_clause(privacy.conditions, Kind.BROKEN_BY)
    broken = paragraph(f"Broken by {said}.") if said else ""  # beside the price: whatever epsilon is
    return paragraph(piece("strong", price, plain + rests, of=PARTS)) + broken


def left_part(fit: FitFacts, known: RunFacts) -> str:
    """What the plan let leave, by how it looked; who sent it, and how often at most."""
    if not known.left:
        return paragraph(UNKNOWN)
    size = human_bytes(sum(sent.bytes for sent in left_by_party(fit)))
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
        bare = what.replace(f"{kind} ", "")  # the chip says it
        items.append((kind, bare, f"{join_names(parties)}; {often}"))
    return piece("left", items, of=PARTS)


def chip(kind: str) -> Markup:
    """One of the three words in its colour."""
    return piece("chip", kind, of=PARTS)


def approved_part(known: RunFacts) -> str:
    if not known.approved and not known.policies:
        return ""
    by_words: dict[str, list[str]] = {}
    for party, words in known.policies.items():
        by_words.setdefault(words, []).append(party)
    limits = "; ".join(f"{join_names(names)}: {words}" for words, names in by_words.items())
    return paragraph(f"{known.approved}{' Policies: ' + limits + '.' if limits else ''}".strip())


# ------------------------------------------------------------------------------------------------ what epsilon means


def tail(epsilon: float, delta: float, rho: float | None, taken: float = 0.0) -> tuple[float, float]:
    """t and c: the odds for the truth are multiplied by more than e^t with a chance of at most c."""
    if rho is None:
        return epsilon + math.log(2.0), min(1.0, 2.0 * delta)
    if not taken:
        return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)), delta
    # Of what is left of delta: for the noise; the rest, for what releases took.
    half = (delta - taken) / 2.0
    raised = math.log((delta + taken) / (delta - taken))
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / half)) + raised, delta


def belief(before: float, loss: float) -> float:
    """The probability of the truth after odds of `before` were multiplied by e^loss."""
    if before in (0.0, 1.0):
        return before
    # e^-loss cannot overflow: large losses just end at 1.
    return 1.0 / (1.0 + (1.0 - before) / before * math.exp(-loss))


def guess(epsilon: float, delta: float) -> float:
    """The best chance of telling A from B when both are equally likely."""
    small = math.exp(-epsilon)
    return min(1.0, (1.0 + delta * small) / (1.0 + small))


def power(wrong: float, epsilon: float, delta: float) -> float:
    """The largest share of true cases found by a test that accuses wrongly in the share `wrong`."""
    first = math.exp(epsilon) * wrong + delta if epsilon < 700.0 else math.inf  # beyond, it overflows
    second = 1.0 - math.exp(-epsilon) * (1.0 - delta - wrong)
    return max(0.0, min(1.0, first, second))


def factor(loss: float) -> float:
    """e^loss with four digits, rounded up, since it is said of bounds; inf where it is no float."""
    if loss >= 700.0:
        return math.inf
    value = math.exp(loss)
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    return math.ceil(value / step * (1 - 1e-13)) * step


def percent(share: float) -> str:
    """A probability with enough digits to be told from 0 and from 1; rounded up, since it is said of bounds."""
    far = min(share, 1.0 - share)
    if far <= 0.0:
        return f"{share:.0%}".replace("%", " %")
    digits = min(12, max(1, -math.floor(math.log10(far))))
    least = math.ceil(share * 100.0 * 10**digits * (1 - 1e-13)) / 10**digits
    return f"{least:.{digits}f}".rstrip("0").rstrip(".") + " %"


# ------------------------------------------------------------------------------------------------ in full


def privacy_section(fit: FitFacts) -> str:
    statement = fit.privacy
    kind = "statement none" if statement.guarantee == Guarantee.NONE else "statement"
    values = statement.table()
    names = ("epsilon", "delta", "unit", "neighbours", "trust", "accountant", "guarantee", "sees")
    rows = {NAMES.get(name, name): _figure(values[name]) for name in names}
    return joined([paragraph(statement.sentence, kind), _meaning(fit), html.facts("The statement in figures", rows)])


def _figure(value: object) -> str:
    """A price as everywhere else: rounded up, and in words where it is unbounded."""
    if not isinstance(value, float):
        return str(value)
    return shown(value).replace("-", "−") if math.isfinite(value) else number(value)


def _meaning(fit: FitFacts) -> str:
    epsilon = fit.privacy.epsilon
    delta = fit.privacy.delta
    unit = fit.privacy.unit
    if math.isinf(epsilon):
        return heading("What this means") + paragraph(
            "No number bounds what an adversary can find out. Take it that whoever saw the messages below knows what "
            f"is in them, and all that follows from it about {unit}."
        )
    guarantee = fit.privacy.guarantee
    claimed = paragraph(f"The figures below hold as far as epsilon does, and its guarantee is: {guarantee}.")
    loss, chance = tail(epsilon, delta, fit.privacy.rho, fit.privacy.taken)
    text = (
        f"Take two tables that differ in {unit} only, and any set of outcomes. Its chance under one of them is at most "
        f"e^epsilon = {number(factor(epsilon))} times its chance under the other, plus delta = {number(delta)}. "
        "From this follows what an adversary can do who knows everything but which of the two tables was used, and "
        "sees what the statement says."
    )
    example = (
        f"A coin decides which of the two it is. Without seeing anything the adversary guesses right in 50 % of cases; "
        f"with all it sees, in at most {percent(guess(epsilon, delta))}. And if it may accuse wrongly in "
        f"{percent(WRONG)} of cases only, it finds out the truth in at most "
        f"{percent(power(WRONG, epsilon, delta))}, where blind accusing finds {percent(WRONG)}."
    )
    surprise = (
        f"What it sees multiplies its odds for the truth by at most {number(factor(loss))}, except with a chance "
        f"of at most {number(chance)}. How certain it can become:"
    )
    rows = [(percent(before), percent(belief(before, loss))) for before in BELIEFS]
    heads = ("sure before the run", f"sure after it, at most, except with a chance of {number(chance)}")
    beliefs = html.table("How sure an adversary can become of the truth", heads, rows, numbers=2)
    parts = [
        *([] if guarantee == Guarantee.PROVEN else [claimed]),
        *map(paragraph, (text, example, surprise)),
        beliefs,
    ]
    return heading("What this means") + joined(parts)


def traffic_section(fit: FitFacts) -> str:
    directions = [("left", sent) for sent in left_by_party(fit)] + [("reached", sent) for sent in reached_by_party(fit)]
    directions.sort(key=lambda line: (line[1].party, line[0]))
    most = max((sent.bytes for _, sent in directions), default=0) or 1
    rows = []
    for way, sent in directions:
        bar = chart.bar(float(sent.bytes), 0.0, (0.0, float(most)), INK)
        rows.append((sent.party, way, sent.type, f"{sent.messages:,}", human_bytes(sent.bytes), bar))
    heads = ("party", "direction", "message", "count", "bytes", html.wide("share of the largest"))
    total = ("all", "", "", f"{fit.communication.messages:,}", human_bytes(fit.communication.bytes), "")
    meanings = [(kind, html.message_words(kind)) for kind in sorted({sent.type for _, sent in directions})]
    parts = [
        html.table("Messages by party, direction and type", heads, rows, numbers=2, bars=True, total=total),
        paragraph(COUNTED, "soft"),
        html.folded_part("What the messages are", html.table("Types of messages", ("message", "meaning"), meanings)),
        _timeline(fit),
    ]
    return joined(parts)


def _timeline(fit: FitFacts) -> str:
    """What left each party over the rounds, stacked."""
    if not fit.communication.lines:
        return ""
    width = math.ceil((fit.communication.rounds + 1) / BARS)
    places = list(range(0, fit.communication.rounds + 1, width))
    heights = {party: [0.0] * len(places) for party in parties_of(fit)}
    for party, parts in heights.items():
        for number_, size in left_by_round(fit, party).items():
            parts[number_ // width] += size
    caption = f"Bytes that left each party, by {'round' if width == 1 else f'{width} rounds'}."
    x = chart.Axis("round", whole=True)
    y = chart.Axis("bytes that left", bytes=True, low=0.0)
    drawn = chart.stacked_bars(heights, places, x, y, label=caption)
    sizes = zip(*heights.values(), strict=True)
    rows = [(f"{place:,}", *(human_bytes(int(size)) for size in row)) for place, row in zip(places, sizes, strict=True)]
    data = html.table("Bytes that left, from this round on", ("round", *heights), rows, numbers=len(heights) + 1)
    return html.figure(drawn, caption, data)


def facts_in_short(fit: FitFacts, facts: Mapping[str, str]) -> dict[str, str]:
    """What a command prints of a run's facts: the verdict first, and where the whole statement stands instead of it."""
    where = [f"“Privacy” in {facts['report']}"] if "report" in facts else []
    where += [f"“privacy” in {facts['fit']}"] if "fit" in facts else []
    rest = {name: text for name, text in facts.items() if name != "privacy"}
    return privacy_in_short(fit.privacy, RunFacts.of(fit).left) | {"statement": " and ".join(where)} | rest


def privacy_in_short(privacy: PrivacyStatement, left: Sequence[Sequence[Any]] = ()) -> dict[str, str]:
    """Whether it is private, what that means, what left, and what to mind; lines by name."""
    lines = {"verdict": _verdict(privacy)}
    if math.isfinite(privacy.epsilon):
        best = percent(guess(privacy.epsilon, privacy.delta))
        lines["that is"] = (
            f"somebody who knows everything but {privacy.unit}, and sees all that was released, tells two "
            f"possibilities for it apart in at most {best} of cases; a coin, in 50 %"
        )
    lines |= _left(left)
    if mind := as_clause(privacy.conditions, Kind.NOTE):
        lines["mind"] = mind
    return lines


def _verdict(privacy: PrivacyStatement) -> str:
    if math.isinf(privacy.epsilon):
        return f"not private: {privacy.derivation}, and no number bounds what can be found out from it"
    price = f"ε = {shown(privacy.epsilon)} at δ = {shown(privacy.delta)} for {privacy.unit}"
    match privacy.guarantee:
        case Guarantee.PROVEN:
            return f"private: {price}{_broken(privacy)}"
        case Guarantee.CONDITIONAL:
            rests = in_short(privacy.conditions, Kind.HOLDS_IF) or "what its statement names holds"
            return f"private: {price}, if {rests}{_broken(privacy)}"
    return f"private by a paper's claim alone: {price}{_broken(privacy)}"


def _broken(privacy: PrivacyStatement) -> str:
    """Who can break it, and what follows."""
    said = in_short(privacy.conditions, Kind.BROKEN_BY)
    return f"; broken by {said}" if said else ""


def _left(left: Sequence[Sequence[Any]]) -> dict[str, str]:
    """What left, a line for how it looked; what tells most comes first."""
    found: dict[str, list[str]] = {}
    for _, kind, what, _ in left:
        found.setdefault(kind, []).append(str(what).replace(f"{kind} ", ""))
    order = sorted(found, key=lambda kind: -KINDS.index(kind))
    return {f"left {kind}": "; ".join(dict.fromkeys(found[kind])) for kind in order}
