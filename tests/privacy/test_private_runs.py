"""Whole private runs: what may not happen between the first reservation and the saved fit."""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import colonnade as co
from colonnade.privacy.block import sum_slack
from colonnade.privacy.events import FINISHED, Charge, Ending, Event, How, Mechanism, Scope, row_rho
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.store import FileLog, MemoryLog
from colonnade.runtime.program import COORDINATOR, Post
from tests.helpers.spending import own_spent

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

TERMS = Terms("m", "s", "nobody", "one row", "replace one row", "f")
PRIVACY = co.Privacy(1.0, 1e-6, feature_bound=1.0)
PROBLEM = co.Problem(co.Logistic(), co.L1Ball(2.0))


def table(rows: int = 60, columns: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, columns))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


def holder(X: Any, y: Any, **more: Any) -> co.Federation:
    return co.Federation.split(X, y, parties={"holder": slice(None)}, label="holder", **more)


def private_fit(federation: co.Federation, store: Path, **more: Any) -> co.Fit:
    method = co.CentralFrankWolfe(rounds=4)
    return co.fit(federation, PROBLEM, method, more.pop("privacy", PRIVACY), store=store, **more)


def ledger(store: Path, party: str = "holder") -> Ledger:
    return Ledger(FileLog(store / "nodes" / f"{party}.db"), party, co.Policy())


def gaussian(rho: float, count: int = 1, what: str = "sums", scope: Scope = Scope.OWN) -> Charge:
    return Charge(Event(Mechanism.GAUSSIAN, rho, math.inf, scope), count, what)


# ---------------------------------------------------------------------------------------- statements


@pytest.mark.chance(0, "prices, rounds and texts")
def test_a_private_run_states_what_it_cost_and_the_ledger_agrees(tmp_path: Path) -> None:
    fit = private_fit(holder(*table()), tmp_path)
    assert fit.privacy.guarantee == "proven"
    assert fit.privacy.epsilon <= 1.0
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    entries = ledger(tmp_path).entries()
    assert len(entries) == 4
    assert fit.objective is None
    assert fit.gap is None
    assert (
        json.loads(fit.privacy.to_json())["derivation"] == "docs/understand/privacy/frank-wolfe.md, central Frank-Wolfe"
    )
    assert [entry.round for entry in entries] == [1, 2, 3, 4]


@pytest.mark.chance(0, "what a fit carries, not its figures")
def test_a_private_fit_carries_no_durations(tmp_path: Path) -> None:
    """How long a round takes depends on the data."""
    fit = private_fit(holder(*table()), tmp_path)
    assert fit.seconds is None
    assert "seconds" not in fit.history.columns


def test_seeded_noise_is_an_exact_release_and_says_so(tmp_path: Path) -> None:
    fit = private_fit(holder(*table()), tmp_path, noise=co.SeededNoise(1))
    assert fit.privacy.guarantee == "none"
    assert "seeded" in fit.privacy.sentence
    assert all(math.isinf(entry.event.rho) for entry in ledger(tmp_path).entries())


def test_a_party_that_keeps_exact_values_refuses_seeded_noise(tmp_path: Path) -> None:
    federation = holder(*table()).with_policies({"holder": co.Policy(epsilon=1.0, delta=1e-6)})
    with pytest.raises(co.PolicyRefused, match="Nothing was sent"):
        private_fit(federation, tmp_path, noise=co.SeededNoise(1))


def test_seeded_runs_repeat_and_other_seeds_differ(tmp_path: Path) -> None:
    """64 signed choices among 10 candidates agree by chance with probability far below 1e-10."""
    method, federation = co.CentralFrankWolfe(rounds=64), holder(*table())
    fits = [
        co.fit(federation, PROBLEM, method, PRIVACY, store=tmp_path / str(i), noise=co.SeededNoise(seed))
        for i, seed in enumerate([5, 5, 6])
    ]
    x = [fit.coefficients["holder"] for fit in fits]
    np.testing.assert_array_equal(x[0], x[1])
    assert (x[0] != x[2]).any()


def test_a_schema_read_off_the_data_cannot_enter_a_private_run(tmp_path: Path) -> None:
    X, y = table()
    frame = pl.DataFrame(X).with_columns(key=pl.int_range(pl.len()), late=pl.Series(y))
    federation = co.Federation.from_frames({"holder": frame}, on="key", label=("holder", "late"))
    with pytest.raises(co.InvalidInput, match="read off its data"):
        private_fit(federation, tmp_path)


@pytest.mark.chance(0, "remarks, facts and prices of both runs are those of public figures")
def test_a_single_class_is_noticed_under_privacy_by_the_caller_alone_and_refuses_nothing(tmp_path: Path) -> None:
    """Whether the run is refused would tell whether the last positive label is there; so would a word in the fit."""
    X, y = table()
    with pytest.warns(co.NothingToLearn, match="labels of all rows are the same"):
        fit = private_fit(holder(X, np.ones_like(y)), tmp_path / "one")
    assert fit.status is co.Status.FIXED_ROUNDS
    both = private_fit(holder(X, y), tmp_path / "two")
    assert (fit.remarks, fit.facts, fit.privacy) == (both.remarks, both.facts, both.privacy)


def test_another_trust_model_than_the_derivation_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(co.InvalidInput, match="trust model"):
        private_fit(holder(*table()), tmp_path, privacy=replace(PRIVACY, trust="secure"))


# ---------------------------------------------------------------------------------------- the boundary


def test_a_node_that_holds_data_cannot_write_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def party(self: Any, job: Any, block: Any, gate: Any) -> Any:
        yield Post({}, (COORDINATOR,), {"labels": str(block.labels)})

    monkeypatch.setattr(co.CentralFrankWolfe, "party", party)
    with pytest.raises(co.LeakError, match="note"):
        private_fit(holder(*table()), tmp_path)


@pytest.mark.chance(1e-30, "two keys under random secrets are the same")
def test_the_journal_does_not_let_guesses_about_a_row_be_tested(tmp_path: Path) -> None:
    """The same call in two stores is filed under different keys, so no public hash of the data is written."""
    federation = holder(*table())
    for name in ("a", "b"):
        private_fit(federation, tmp_path / name)
    keys = {FileLog(tmp_path / name / "runs.db").rows(kind="begin")[0].key for name in ("a", "b")}
    assert len(keys) == 2


# ---------------------------------------------------------------------------------------- people


@pytest.mark.chance(0, "sensitivities on record")
def test_a_person_with_many_rows_is_charged_for_all_of_them(tmp_path: Path) -> None:
    X, y = table()
    for name, unit in (("row", None), ("person", (np.arange(60) // 3, 3))):
        private_fit(holder(X, y, unit=unit), tmp_path / name)
    one, three = (ledger(tmp_path / name).entries()[0].event.sensitivity for name in ("row", "person"))
    assert three == pytest.approx(3 * one, rel=1e-12)


def test_surplus_rows_of_a_person_are_left_out_by_order(tmp_path: Path) -> None:
    X, y = table(rows=7)
    federation = holder(X, y, unit=(np.array(list("aabacca")), 2))
    np.testing.assert_array_equal(X[[0, 1, 2, 4, 5]], federation.parties["holder"].block.matrix)
    assert federation.alignment.surplus == 2
    assert str(federation.unit) == "one person (at most 2 rows)"


def test_surplus_rows_over_frames_are_left_out_in_the_order_of_the_key() -> None:
    frame = pl.DataFrame({"key": [5, 3, 1, 2, 4], "patient": ["p", "p", "p", "q", "q"], "v": [5.0, 3.0, 1.0, 2.0, 4.0]})
    other = pl.DataFrame({"key": [1, 2, 3, 4, 5], "late": [1, 0, 1, 0, 1]})
    federation = co.Federation.from_frames({"a": frame, "b": other}, "key", ("b", "late"), unit=("patient", 2))
    assert federation.rows == 4
    assert list(federation.labels) == [1, 0, 1, 0]
    assert federation.parties["a"].features == ("v",)


@pytest.mark.parametrize("rows", [0, 1.5, True, "3"])
def test_the_rows_of_a_person_are_a_whole_number(rows: Any) -> None:
    with pytest.raises(co.InvalidInput, match="whole number"):
        holder(*table(), unit=(np.arange(60), rows))


def test_patients_of_a_real_hospital_keep_at_most_five_rows() -> None:
    """diabetes130: 71,518 patients in 101,766 rows."""
    folder = Path(os.environ.get("COLONNADE_DATA", Path(__file__).parents[3] / "shared" / "data")) / "diabetes130"
    if not folder.is_dir():
        pytest.skip(f"no data set in {folder}; set COLONNADE_DATA to the folder that holds diabetes130")
    patients, y = np.load(folder / "patient.npy"), np.load(folder / "y_any.npy")
    X = sparse.csr_array(sparse.load_npz(folder / "X.npz"))
    federation = holder(X, y, unit=(patients, 5))
    counts = np.unique(patients, return_counts=True)[1]
    assert len(counts) == 71_518
    assert federation.rows == int(np.minimum(counts, 5).sum())
    assert federation.alignment.surplus == 101_766 - federation.rows


def test_the_unit_survives_the_federation_file(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"key": [1, 2, 3, 4], "who": ["p", "p", "p", "q"], "v": [0.1, 0.2, 0.3, 0.4], "late": [0, 1, 0, 1]}
    )
    schemas = {"a": co.Schema((co.Numeric("v", 0.0, 1.0),))}
    federation = co.Federation.from_frames({"a": frame}, "key", ("a", "late"), schemas=schemas, unit=("who", 2))
    federation.to_file().save(tmp_path / "federation.toml")
    opened = co.Federation.open(tmp_path / "federation.toml", {"a": frame})
    assert (federation.unit, federation.rows) == (opened.unit, opened.rows)


# ---------------------------------------------------------------------------------------- accounting


def test_a_closed_exact_run_still_counts_what_others_released() -> None:
    book = Ledger(MemoryLog(), "a", co.Policy(exact=True))
    exact = Charge(Event(Mechanism.EXACT, math.inf, math.inf), 1, "labels")
    book.open_run("r", TERMS, {"a": (exact,), "b": (exact,)})
    book.close_run("r", FINISHED)
    assert math.isinf(book.row_spent())
    assert own_spent(book) == 0.0


def test_joint_releases_of_one_plan_add_up_and_count_once_over_parties() -> None:
    plan = (gaussian(0.1, what="gram", scope=Scope.JOINT), gaussian(0.1, what="gram", scope=Scope.JOINT))
    assert row_rho({"a": plan, "b": plan}) == pytest.approx(0.2)


def test_a_run_that_was_open_at_a_renewal_counts_in_the_new_period() -> None:
    book = Ledger(MemoryLog(), "a", co.Policy())
    book.set_budget(1.0, 1e-6)
    book.open_run("r", TERMS, {"a": (gaussian(0.01),)})
    book.renew("a new year")
    assert book.budget().rho == pytest.approx(0.01)
    assert book.budget().period == 2


def test_a_renewal_returns_the_budget_and_keeps_the_record() -> None:
    book = Ledger(MemoryLog(), "a", co.Policy())
    book.open_run("r", TERMS, {"a": (gaussian(0.01),)})
    book.record("r", 0, 0, Event(Mechanism.GAUSSIAN, 0.01, 1.0), "sums", 1)
    book.close_run("r", FINISHED)
    book.renew("a new year")
    assert book.budget().rho == 0.0
    assert book.budget().lifetime_rho == pytest.approx(0.01)


def test_the_tighter_of_policy_and_ledger_limit_applies() -> None:
    book = Ledger(MemoryLog(), "a", co.Policy(epsilon=0.5, delta=1e-6))
    book.set_budget(4.0, 1e-6)
    assert book.budget().epsilon == 0.5


def test_unused_reservations_return_when_the_run_closes() -> None:
    book = Ledger(MemoryLog(), "a", co.Policy())
    book.open_run("r", TERMS, {"a": (gaussian(0.01, 5),), "b": (gaussian(0.02),)})
    assert book.row_spent() == pytest.approx(0.07)
    book.record("r", 0, 0, Event(Mechanism.GAUSSIAN, 0.01, 1.0), "sums", 1)
    book.close_run("r", Ending(How.INTERRUPTED))
    assert own_spent(book) == pytest.approx(0.01)
    assert book.row_spent() == pytest.approx(0.03)


@pytest.mark.chance(0, "a refusal by lengths of ledgers")
def test_a_ledger_put_back_from_an_old_copy_releases_nothing(tmp_path: Path) -> None:
    federation, store = holder(*table()), tmp_path / "store"
    private_fit(federation, store)
    shutil.copytree(store / "nodes", tmp_path / "old")
    private_fit(federation, store)
    for file in (tmp_path / "old").glob("holder.db*"):
        shutil.copy(file, store / "nodes" / file.name)
    for side in store.glob("nodes/holder.db-*"):
        if not (tmp_path / "old" / side.name).exists():
            side.unlink()
    with pytest.raises(co.LedgerDamaged, match="rolled back"):
        private_fit(federation, store)


@pytest.mark.chance(0, "a refusal by counts of messages")
def test_an_old_copy_inside_an_open_run_is_noticed_before_noise_is_drawn_again(tmp_path: Path) -> None:
    """The coordinator has seen more messages than the restored party remembers sending."""
    federation, store = holder(*table()), tmp_path / "store"

    class Stop(Exception):
        pass

    def stopping(limit: int) -> Any:
        seen = 0

        def fault(letter: Any) -> Any:
            nonlocal seen
            seen += letter.receiver == COORDINATOR
            if seen > limit:
                raise Stop
            return (letter,)

        return co.Faults(co.InProcess(), fault)

    with pytest.raises(Stop):
        private_fit(federation, store, engine=stopping(1))
    shutil.copytree(store / "nodes", tmp_path / "old")
    with pytest.raises(Stop):
        private_fit(federation, store, engine=stopping(3))
    for file in (store / "nodes").glob("holder.db*"):
        file.unlink()
    for file in (tmp_path / "old").glob("holder.db*"):
        shutil.copy(file, store / "nodes" / file.name)
    sent: list[Any] = []
    tap = co.Faults(co.InProcess(), lambda letter: (sent.append(letter), (letter,))[1])
    with pytest.raises(co.LedgerDamaged, match=r"old copy|rolled back"):
        private_fit(federation, store, engine=tap)
    assert sent == []


@pytest.mark.chance(0, "texts on record")
def test_entries_say_what_when_and_in_which_round(tmp_path: Path) -> None:
    private_fit(holder(*table()), tmp_path)
    entry = ledger(tmp_path).entries()[0]
    assert entry.what == "one signed column number a round"
    assert entry.when.endswith("+00:00")
    opened = json.loads(ledger(tmp_path).log.rows(kind="open")[0].body)
    assert opened["terms"]["trust"] == "nobody"
    assert opened["terms"]["unit"] == "one row"
    assert opened["terms"]["neighbours"] == "replace one row"


def test_the_rounding_of_a_long_sum_is_in_the_sensitivity_of_a_choice() -> None:
    """n terms that are added in doubles are off by at most n·γ_n of the largest, γ_n = nu/(1 − nu), u = 2⁻⁵³."""
    rows, unit = 40_000, 2.0**-53
    assert sum_slack(rows) == pytest.approx(1 + rows * rows * unit / (1 - rows * unit), rel=1e-15)
    assert sum_slack(rows) > 1 + 1e-7
