"""A store's ledgers as their owners look at them: what was spent, what is left, what a run would cost.

Reads every `nodes/*.db` of a store. Writing (`set_budget`, `renew`) is the owner's hand and appends to the same chain.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from colonnade.data.text_file import safe_cell
from colonnade.errors import InvalidInput, LedgerDamaged
from colonnade.fields import Choice
from colonnade.privacy.accountant import Budget, epsilon, less_taken, rho_for
from colonnade.privacy.events import Ending, Event, Policy, shown, with_delta
from colonnade.privacy.ledger import Entry, Ledger, prices_of_runs
from colonnade.privacy.mechanisms import gaussian_sigma, gumbel_scale
from colonnade.privacy.store import FileLog
from colonnade.privacy.tally import OWNER, Reserved, check_snapshot
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.run_store import JOURNAL, RunStore, file_name, finished_elsewhere, node_name, noted_ledgers

DELTA = 1e-6  # at which spending is shown where the owner has set no delta


@dataclass(frozen=True)
class Account:
    """One party's ledger, summed up."""

    party: str
    budget: Budget
    releases: int
    exact: int
    open_runs: int
    unit: str = "not fixed yet"  # whom its figures are about
    released: float = 0.0  # epsilon of what has left in this period; `spent` has what open runs reserved, too

    @property
    def delta(self) -> float:
        return self.budget.delta if self.budget.delta is not None else DELTA

    @property
    def spent(self) -> float:
        return epsilon(self.budget.rho, less_taken(self.delta, self.budget.taken))

    @property
    def left(self) -> float:
        """The epsilon of one more run that fits, asked for at this delta; infinite without a limit."""
        return epsilon(self.budget.left, self.delta)

    @property
    def lifetime(self) -> float:
        return epsilon(self.budget.lifetime_rho, less_taken(self.delta, self.budget.lifetime_taken))

    @property
    def reserved(self) -> float:
        """What open runs hold beside it."""
        return self.spent - self.released if math.isfinite(self.released) else 0.0

    @property
    def share(self) -> float:
        """What is left of the limit, as a share; prices add up in rho."""
        return self.budget.share

    @property
    def left_words(self) -> str:
        """Epsilon of a run that would still fit: more than the difference of epsilons."""
        return "no limit on record" if self.budget.epsilon is None else f"{self.left:.4g}"

    def cells(self) -> dict[str, str]:
        """What an owner is shown, by name: the same on the command line, on the live page and on an officer's page."""
        limit = self.budget.epsilon
        taken = f", of which releases took {shown(self.budget.taken)}" if self.budget.taken else ""
        return {
            "party": self.party,
            "limit": "none on record" if limit is None else f"ε {shown(limit)} (δ {self.delta:g}{taken})",
            "spent": _epsilon_words(self.released),
            "left of the limit": "no limit" if limit is None else f"{self.share:4.0%}: ε {self.left_words}".strip(),
            "reserved": _epsilon_words(self.reserved) if self.open_runs else "nothing",
            "unit": self.unit,
            "period": str(self.budget.period),
            "in all periods": _epsilon_words(self.lifetime),
            "releases": f"{self.releases:,}" + (f", {self.exact:,} exact" if self.exact else ""),
            "open runs": str(self.open_runs),
        }


def _epsilon_words(value: float) -> str:
    return "unbounded" if math.isinf(value) else f"ε {shown(value)}"


@dataclass(frozen=True)
class Forecast:
    """What a run at (epsilon, delta) would mean for one party's budget."""

    party: str
    rho: float
    fits: bool
    after: float  # epsilon after the run
    runs_left: float  # how many such runs fit, this one included; infinite without a limit
    sigma: float  # of a Gaussian release a round, in units of its sensitivity
    scale: float  # of a noisy choice a round, in units of its sensitivity


def ledger_files(store: str | Path, *, coordinator: bool = False) -> dict[str, Path]:
    """The ledgers in a store, by party; with the coordinator's, which holds no data and spends nothing, if asked."""
    files = {node_name(path.stem): path for path in sorted((Path(store) / "nodes").glob("*.db"))}
    if not coordinator:
        files.pop(COORDINATOR, None)
    if not files:
        raise InvalidInput(f"{store} holds no ledgers; name the folder that was given as store=.")
    return files


@contextmanager
def open_ledger(store: str | Path, party: str) -> Iterator[Ledger]:
    """One party's ledger, checked before it is used."""
    files = ledger_files(store)
    if party not in files:
        raise InvalidInput(f"{store} holds no ledger of {party!r}; there are {', '.join(files)}.")
    with closing(FileLog(files[party])) as log:
        log.verify()
        yield Ledger(log, party, last_policy(log))


def make_ledger(store: str | Path, party: str) -> None:
    """Make a party's ledger, so that its owner can set a limit before the first run."""
    with closing(RunStore(store)) as kept:
        kept.log(party)


def last_policy(log: FileLog) -> Policy:
    """The limit that the party's policy set in its newest run; a run may come with another one."""
    openings = log.rows(kind="open")
    limit = json.loads(openings[-1].body).get("limit") if openings else None
    return Policy(epsilon=limit[0], delta=limit[1]) if limit else Policy()


def accounts(store: str | Path) -> list[Account]:
    """Every party's account."""
    return [account(store, party) for party in ledger_files(store)]


def account(store: str | Path, party: str) -> Account:
    with open_ledger(store, party) as ledger:
        return account_of(ledger)


def account_of(ledger: Ledger) -> Account:
    """A ledger summed up."""
    found = ledger.tally()
    budget = ledger.budget()
    unit = " and ".join(ledger.units()) or "not fixed yet"
    delta = budget.delta if budget.delta is not None else DELTA
    released = epsilon(found.released(), less_taken(delta, found.released_delta()))
    return Account(ledger.node, budget, found.releases, found.exact, len(found.runs), unit, released)


def notes(store: str | Path, party: str) -> list[tuple[str, str]]:
    """What a party's own operator may know about its data: run and text."""
    with open_ledger(store, party) as ledger:
        return ledger.operator_notes()


def forecast(store: str | Path, party: str, target: float, delta: float, rounds: int) -> Forecast:
    """What a run would cost, and how much noise each of its rounds would carry."""
    Policy(epsilon=target, delta=delta)  # the same checks
    rho = rho_for(target, delta)
    with open_ledger(store, party) as ledger:
        budget = ledger.budget()
    after = epsilon(budget.rho + rho, less_taken(budget.delta or delta, budget.taken))
    left = math.inf if math.isinf(budget.limit) else math.floor(budget.left / rho * (1 + 1e-12))
    fits = budget.affords(rho)
    return Forecast(party, rho, fits, after, left, gaussian_sigma(1.0, rho / rounds), gumbel_scale(1.0, rho / rounds))


def spending(store: str | Path, party: str) -> list[tuple[str, float]]:
    """When something was released, and the epsilon spent in all by then (at the budget's delta)."""
    with open_ledger(store, party) as ledger:
        delta = ledger.budget().delta or DELTA
        by_time: dict[str, list[Event]] = {}
        for entry in ledger.entries():
            by_time.setdefault(entry.when, []).append(entry.event)
    total = 0.0
    taken = 0.0
    curve = []
    for when, events in sorted(by_time.items()):
        total += sum(event.rho for event in events)
        taken += sum(event.delta for event in events)
        curve.append((when, epsilon(total, less_taken(delta, taken))))
    return curve


class Form(Choice):
    """How a table is written."""

    CSV = "csv"
    JSON = "json"


class LedgerTable(Choice):
    """A table of a ledger."""

    RELEASES = "releases"  # every one, with its price
    RUNS = "runs"  # terms, what was reserved, how it ended, what it counts for
    OWNER = "owner"  # limits, new periods, ledgers that were replaced


def read_form(word: str) -> Form:
    """How a table is to be written, as somebody asks for it."""
    if word not in tuple(Form):
        raise InvalidInput(f"cannot export as {word!r}; choose csv or json.")
    return Form(word)


def export_table(store: str | Path, party: str, form: str, table: str = LedgerTable.RELEASES) -> str:
    """A table of a party's ledger as CSV or JSON, every row of it checked: facts only, no released values."""
    written = read_form(form)
    if table not in tuple(LedgerTable):
        raise InvalidInput(f"a ledger has no table {table!r}; choose {', '.join(LedgerTable)}.")
    with open_ledger(store, party) as ledger:
        if table == LedgerTable.RELEASES:
            lines = [_plain(entry) for entry in ledger.entries()]
        else:
            lines = _run_lines(ledger) if table == LedgerTable.RUNS else _owner_lines(ledger)
    if written is Form.JSON:
        return json.dumps(lines, indent=1)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for line in lines for name in line)) or ["run"])
    writer.writeheader()
    writer.writerows({name: safe_cell(value) for name, value in line.items()} for line in lines)
    return out.getvalue()


def _run_lines(ledger: Ledger) -> list[dict[str, Any]]:
    """Every run in the order in which they were opened."""
    closed = {row.run: json.loads(row.body) for row in ledger.log.rows(kind="close")}
    lines = []
    for row, price in zip(ledger.log.rows(kind="open"), prices_of_runs(ledger.log), strict=True):
        opened = json.loads(row.body)
        reserved = Reserved.of(opened)
        end = closed.get(row.run, {})
        lines.append(
            {
                "row": row.seq,
                "run": row.run,
                "opened": opened.get("when", ""),
                **opened["terms"],
                "reserved_own_rho": reserved.own,
                "reserved_other_rho": reserved.rest,
                **with_delta(reserved_own_delta=reserved.own_delta, reserved_other_delta=reserved.rest_delta),
                "closed": end.get("when", ""),
                "ended": Ending.of(end["how"]).words if end else "open",
                "counted_own_rho": price.own,
                "counted_rho": price.row,
                **with_delta(counted_own_delta=price.own_delta, counted_delta=price.row_delta),
            }
        )
    return lines


def _owner_lines(ledger: Ledger) -> list[dict[str, Any]]:
    """What the owner wrote, oldest first."""
    rows = sorted([*ledger.log.rows(OWNER, "budget"), *ledger.log.rows(OWNER, "replaced")], key=lambda row: row.seq)
    names = ("when", "do", "epsilon", "delta", "reason", "node", "rho")
    bodies = [(row, json.loads(row.body)) for row in rows]
    return [{"row": row.seq, "kind": row.kind, **{name: body.get(name, "") for name in names}} for row, body in bodies]


def verify_ledgers(store: str | Path) -> dict[str, int]:
    """The rows of every ledger, after each chain was walked and compared with what the other nodes remember; the
    journal's was walked, too. A hub of graphs has a journal and no ledger."""
    with ExitStack() as last:
        own: set[str] = set()
        finished: dict[str, str] = {}
        if (journal := Path(store) / "runs.db").is_file():
            kept = last.enter_context(closing(FileLog(journal)))
            check_whole(kept, JOURNAL)
            own = noted_ledgers(kept)
            finished = finished_elsewhere(kept)
        files = {} if journal.is_file() and not any_ledger(store) else ledger_files(store, coordinator=True)
        logs = {name: last.enter_context(closing(FileLog(path))) for name, path in files.items()}
        counts = {name: check_whole(log, name) for name, log in logs.items()}
        ledgers = {name: Ledger(log, name, Policy()) for name, log in logs.items()}
        for lost in sorted(own - ledgers.keys()):
            raise _gone(store, lost, "it was made in this store")
        for witness in ledgers.values():
            for peer, (count, head) in witness.remembered().items():
                if peer in ledgers:
                    ledgers[peer].check_head(count, head, witness.node)
                # The note of whose ledgers are here is outside the chain: where it is gone, several were one owner's.
                elif not own and len(ledgers) > 1:
                    raise _gone(store, peer, f"{witness.node!r} remembers {count:,} rows of it")
        _check_finished(ledgers, finished)
        return counts


def any_ledger(store: str | Path) -> bool:
    return any((Path(store) / "nodes").glob("*.db"))


def _gone(store: str | Path, party: str, why: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"the ledger of {party!r} is gone: {why}. Restore {Path(store) / 'nodes' / file_name(party)}.db from its "
        "newest copy."
    )


def _check_finished(ledgers: Mapping[str, Ledger], finished: Mapping[str, str]) -> None:
    """What a party's journal says has finished was reserved in its ledger, which no peer is here to remember; a ledger
    that took the place of a lost one knows nothing of what was before."""
    anew = max(
        (one.when for node, ledger in ledgers.items() for one in ledger.replaced() if one.node == node), default=""
    )
    for run, when in finished.items():
        if when > anew and not any(ledger.log.holds(run, "open") for ledger in ledgers.values()):
            raise LedgerDamaged(
                f"the ledger of {', '.join(ledgers)} lacks run {run}, which the journal says has finished: it was "
                "rolled back, for example by restoring an old copy. Restore the newest copy of both."
            )


def check_whole(log: FileLog, name: str) -> int:
    """Walk every row, and compare what the newest snapshot says of them; their number."""
    count = log.verify()
    check_snapshot(log, name)
    return count


def _plain(entry: Entry) -> dict[str, Any]:
    raw = {key: value for key, value in asdict(entry).items() if key != "event"}
    return {**raw, **json.loads(entry.event.to_json())}
