"""The page for a data-protection officer: what was asked, of whom, what it cost, what it rests on, what ran, and lines
to sign. It is to be printed and filed; nothing on it is a figure about a row.

Budgets   are handed over as `Account.cells` gives them, so that they are those of `colonnade budget show`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from colonnade.model.facts import FitFacts, RunFacts, parties_of
from colonnade.privacy.conditions import Code, Kind, of_kind
from colonnade.privacy.statement import PrivacyStatement
from colonnade.views import parts as html
from colonnade.views.page import hashes_of
from colonnade.views.parts import join_names, joined, paragraph, piece
from colonnade.views.verdict import approved_part, cost_part, date_of, left_part, question_of

PARTS = "officer_parts.html"
MOST = 200  # columns of a party that are named: an officer has to see whose what was used
PUBLIC = "bounds, levels and row counts in the schemas are public, as their owners declared"
STANDING = (
    PUBLIC,
    "each party's own machine and operator are honest: the boundary stops mistakes, not hostile code inside a party",
    "every node runs the release of Colonnade, and the code, that stand below",
)
WORDS = {  # of the lists above, for whoever does not compute with them
    "Gram matrix": "for every two columns one number, the sum over all rows of their products; it is about all rows "
    "together, and the model follows from it",
    "class sums": "for every column one sum over the rows of each class",
    "mask": "random numbers, used once, that two parties share and add to what they send: without them nothing can be "
    "read off it, and they cancel in sums",
    "bits of work": "how many steps the best attack takes that is known: with 128 bits, 2 to the power of 128",
    "ε": "epsilon, the price: the smaller, the less what left depends on any single unit. Of two tables that differ in "
    "one, the chance of any set of outcomes is under one at most e^ε times that under the other, plus δ",
    "δ": "delta, which is added to these chances, for any set of outcomes. It is not the chance that the odds for the "
    "truth grow by more than e^ε, which may be many times δ",
}
ADD_UP = (
    "Spent is the ε of all runs of this period together; left is the ε of one more run that would still be let "
    "through. The two do not add up to the limit: what adds up is another measure of the price, which the ledger keeps."
)
NO_LIMIT = (
    "No limit is set for {names}: the ledger adds up what is spent, and refuses nothing. `colonnade budget set STORE "
    "PARTY --epsilon 4` sets one."
)
NO_BUDGETS = (
    "The ledgers were not at hand when this page was made: `colonnade report FIT.json --officer --store STORE` shows "
    "what is spent and left."
)
NONE = "none on record"  # of a limit, as `Account.cells` says it
IDLE = {"reserved": "nothing", "open runs": "0"}  # what an officer need not see where it is so for all
OFFICER = "the data-protection officer"
SIGNED = (
    "Approval is a row in each party's own ledger, chained by hashes; `colonnade budget verify STORE` checks the "
    "chain. This page is no signature: it has room for one."
)


def render_officer(fit: FitFacts, *, purpose: str = "", budgets: Sequence[Mapping[str, str]] = ()) -> str:
    """The page as text.

    purpose   what the model is for, in its owner's words; without it the page repeats what was asked.
    budgets   what each party has spent and has left, by name of the column; none: the page says how to get them.
    """
    known = RunFacts.of(fit)
    asked = question_of(fit, known)
    parts = [
        ("purpose", "Purpose", paragraph(purpose) + paragraph(f"Asked: {asked}") if purpose else paragraph(asked)),
        ("parties", "Parties", _parties(fit, known)),
        ("unit", "Whom it protects", paragraph(_unit(fit, known)) + cost_part(fit)),
        ("left", "What left", left_part(fit, known)),
        ("budget", "Budget spent and left", _budgets(budgets)),
        ("assumptions", "What it rests on", _assumptions(fit)),
        ("approvals", "Approval and signatures", approved_part(known) + _signatures(fit, known)),
        *_words(fit, known),
        ("hashes", "What ran", html.facts("Hashes of what ran, never of data", hashes_of(fit, known))),
    ]
    about = known.asked or f"the label of {fit.label}"
    title = f"Record of processing: predicting “{about}”"
    return html.filed_page("officer.html", title, parts, began=date_of(fit.run), run=fit.run)


def _parties(fit: FitFacts, known: RunFacts) -> str:
    rows = []
    for party in parties_of(fit):
        schema = fit.schemas.get(party)
        used = fit.features.get(party, ()) if schema is None else [column.name for column in schema.columns]
        names = [str(name) for name in used]
        shown = ", ".join(names[:MOST]) + (f" and {len(names) - MOST:,} more" if len(names) > MOST else "")
        label = f"the label{f' “{known.asked}”' if known.asked else ''}" if party == fit.label else ""
        rows.append((party, "; ".join(filter(None, (label, shown)))))
    rows += [(party, f"none in the model: it was lost {when}") for party, when in known.absent.items()]
    over = "" if known.rows is None else paragraph(f"{html.count_noun(known.rows, 'row')} took part.")
    return html.table("Who held what", ("party", "columns"), rows) + over


def _unit(fit: FitFacts, known: RunFacts) -> str:
    if math.isinf(fit.privacy.epsilon):
        return "Nobody: exact values left the parties."
    seen = "all that left, as listed below," if known.left else fit.privacy.sees
    return (
        f"Protected is {fit.privacy.unit}: whoever sees {seen} can hardly tell the tables that were used from others "
        f"that differ by it ({fit.privacy.neighbours}); how hardly, says ε."
    )


def _coded(text: str) -> Markup:
    """A text whose commands stand between backticks."""
    return piece("coded", re.split("`([^`]+)`", text), of=PARTS)


def _budgets(budgets: Sequence[Mapping[str, str]]) -> str:
    if not budgets:
        return paragraph(_coded(NO_BUDGETS))
    free = [line["party"] for line in budgets if line["limit"] == NONE]
    without = paragraph(_coded(NO_LIMIT.format(names=join_names(free))), "soft") if free else ""
    shown = [name for name in budgets[0] if name not in IDLE or any(line[name] != IDLE[name] for line in budgets)]
    table = html.budget_table([{name: line[name] for name in shown} for line in budgets])
    return table + paragraph(ADD_UP, "soft") + without


def _words(fit: FitFacts, known: RunFacts) -> list[tuple[str, str, str]]:
    """What the words of the other sections mean, as far as they stand there."""
    conditions = (one.full for one in fit.privacy.conditions)
    said = " ".join([fit.privacy.sees, *conditions, *(str(line[2]) for line in known.left)])
    said += "" if math.isinf(fit.privacy.epsilon) else " ε δ"
    found = {name: what for name, what in WORDS.items() if name in said}
    return [("words", "Words", html.facts("What words on this page mean", found))] if found else []


def _assumptions(fit: FitFacts) -> str:
    privacy = fit.privacy
    if math.isinf(privacy.epsilon):
        return paragraph(privacy.sentence, "statement none")
    guarantee = f"Guarantee: {privacy.guarantee}, {privacy.derivation}. It"
    lines = {
        Kind.HOLDS_IF: [*(one.full for one in of_kind(privacy.conditions, Kind.HOLDS_IF)), *_standing(privacy)],
        Kind.BROKEN_BY: [one.full for one in of_kind(privacy.conditions, Kind.BROKEN_BY)],
        Kind.NOTE: [one.full for one in of_kind(privacy.conditions, Kind.NOTE)],
    }
    heads = {Kind.HOLDS_IF: f"{guarantee} holds if", Kind.BROKEN_BY: "It is broken by", Kind.NOTE: "Note"}
    return joined(paragraph(heads[kind]) + _listed(said) for kind, said in lines.items() if said)


def _standing(privacy: PrivacyStatement) -> tuple[str, ...]:
    """What every statement rests on, but for what this one says of itself to be otherwise."""
    return tuple(text for text in STANDING if not (text is PUBLIC and privacy.has(Code.BOUNDS_READ_OFF)))


def _listed(lines: Sequence[str]) -> Markup:
    return piece("listed", [f"{line}." for line in lines])


def _signatures(fit: FitFacts, known: RunFacts) -> str:
    keys = html.facts("Keys that the federation file pins", dict(known.keys)) if known.keys else ""
    return paragraph(_coded(SIGNED)) + keys + piece("signatures", [*parties_of(fit), OFFICER], of=PARTS)
