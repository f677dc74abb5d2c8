"""A run over columns that nobody declared: it looks first, costs what was asked for, and goes on where it stopped."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation import Federation
from colonnade.methods import look as looking
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.conditions import Code
from colonnade.privacy.ledger import Ledger
from colonnade.runs import look as runs_look
from colonnade.runs.preview import preview
from colonnade.runtime.run_store import MemoryStore, RunStore

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

N = 20_000
OPEN = {
    "a": co.Schema((co.Numeric("income"), co.Categorical("job"), co.Binary("new"))),
    "b": co.Schema((co.Numeric("age"), co.Unknown("since"))),
}
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3))
SQUARES = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-3))
TERMS = co.Privacy(4.0, 1e-6, trust="secure")


def frames(seed: int = 0) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(8.0, 0.7, N))
    age = rng.integers(18, 91, N)
    job = rng.choice(["clerk", "cook", "pilot"], N, p=[0.6, 0.399, 0.001])
    score = (np.log(income) - 8.0) * 2.0 + (age - 50) / 15.0 + np.where(job == "cook", 1.0, 0.0)
    gaps = rng.random(N) < 0.3
    a = pl.DataFrame(
        {
            "id": np.arange(N),
            "income": pl.Series(income).set(pl.Series(gaps), None),
            "job": job,
            "new": rng.integers(0, 2, N),
            "late": (score + rng.logistic(size=N) > 0.5).astype(np.float64),
            "cost": 100.0 + 20.0 * score + rng.normal(size=N),
        }
    )
    days = [f"20{10 + y:02d}-06-{d:02d}" for y, d in zip(rng.integers(0, 10, N), rng.integers(1, 29, N), strict=True)]
    return {"a": a, "b": pl.DataFrame({"id": np.arange(N), "age": age, "since": days})}


def federation(
    label: str = "late", schemas: dict[str, co.Schema] | None = None, seed: int = 0, **more: Any
) -> Federation:
    tables = frames(seed)
    own = {name: table.drop({"late", "cost"} - {label}, strict=False) for name, table in tables.items()}
    return Federation.from_frames(own, on="id", label=("a", label), schemas=schemas or OPEN, **more)


def spent(store: Path, party: str) -> tuple[float, float]:
    folder = RunStore(store)
    try:
        budget = Ledger(folder.log(party), party, co.Policy(exact=True)).budget()
        return budget.rho, budget.taken
    finally:
        folder.close()


def seeded(fed: Federation, terms: co.Privacy = TERMS, seed: int = 7) -> runs_look.Looked:
    """A look with repeatable noise: what it finds is the same every time."""
    return runs_look.look_in(MemoryStore(), fed, terms, noise=co.SeededNoise(seed))


def test_a_look_finds_what_many_rows_have() -> None:
    found = seeded(federation())
    schemas = found.schemas
    income, job, new = schemas["a"].columns
    age, since = schemas["b"].columns
    assert isinstance(income, co.Numeric)
    assert income.missing == "indicator"
    assert 300 < income.low < 900
    assert 10_000 < income.high < 30_000
    quantiles = np.array(income.quantiles)
    exact = np.nanquantile(frames()["a"]["income"].to_numpy(), np.arange(1, 64) / 64)
    assert np.abs(np.log2(quantiles / exact)).max() < 0.25
    assert job == co.Categorical("job", ("clerk", "cook"), missing="other")  # twenty pilots stay unnamed
    assert new == co.Binary("new")
    assert isinstance(age, co.Numeric)
    assert age.missing == pytest.approx((age.low + age.high) / 2)
    assert 16 <= age.low <= 24
    assert 84 <= age.high <= 91
    assert isinstance(since, co.Date)
    assert isinstance(since.missing, dt.date)
    assert since.low.year in range(2006, 2012)
    assert since.high.year in range(2018, 2024)
    assert found.federation.parties["b"].block.columns == 2
    assert found.federation.roster().known["a"].norm > 0


@pytest.mark.chance(0, "figures of the statement, which follow from the terms, and a model that is read back")
def test_a_fit_looks_first_and_costs_what_was_asked_for(tmp_path: Path) -> None:
    fit = co.fit(federation(), RIDGE, privacy=TERMS, store=tmp_path)
    assert 4.0 * (1.0 - 1e-6) <= fit.privacy.epsilon <= 4.0
    assert fit.privacy.delta == 1e-6
    assert fit.privacy.sees.startswith(f"{looking.THE_RANGES}; {looking.THE_PARTS}; ")
    left = {(party, what) for party, kind, what, _ in fit.facts["left"] if kind == "noisy"}
    assert {("a", looking.THE_RANGES), ("b", looking.THE_KINDS), ("b", looking.THE_PARTS)} <= left
    assert ("a", looking.THE_KINDS) not in left
    assert fit.privacy.taken == pytest.approx(1e-6 / 20)
    (said,) = [one for one in fit.privacy.conditions if one.code is Code.LOOKED_AT]
    assert 0.0 < said.figures[0] < 4.0
    assert "looked for before, for epsilon" in fit.privacy.sentence
    income, job, new = fit.schemas["a"].columns  # type: ignore[union-attr]
    age, since = fit.schemas["b"].columns  # type: ignore[union-attr]
    assert isinstance(income, co.Numeric)
    assert income.missing == "indicator"
    assert 300 < income.low < 900  # a part of the range is 15 % wide there
    assert 10_000 < income.high < 25_000
    assert len(income.quantiles or ()) == 63
    assert isinstance(job, co.Categorical)
    assert job.levels == ("clerk", "cook")  # twenty pilots stay unnamed
    assert job.missing == "other"
    assert new == co.Binary("new")
    assert isinstance(age, co.Numeric)
    assert isinstance(age.missing, float)
    assert isinstance(since, co.Date)
    assert since.low.year < 2011
    assert since.high.year > 2018
    rows = {name: table.drop("late", "cost", strict=False) for name, table in frames().items()}
    again = co.load(next(path for path in (tmp_path / "fits").glob("*.json") if "look" not in path.name))
    assert np.array_equal(again.predict_proba(rows), fit.predict_proba(rows))
    both = [spent(tmp_path, party) for party in ("a", "b")]
    assert all(taken == pytest.approx(1e-6 / 20) for _, taken in both)  # what others take about a row counts, too
    assert all(rho == pytest.approx(rho_for(4.0, 1e-6 * 0.95), rel=1e-6) for rho, _ in both)


@pytest.mark.chance(0, "how much is spent follows from the terms")
def test_the_same_look_is_bought_once(tmp_path: Path) -> None:
    fed = federation()
    first = co.look(fed, TERMS, store=tmp_path)
    price = spent(tmp_path, "a")
    second = co.look(fed, TERMS, store=tmp_path)
    assert second.run == first.run
    assert spent(tmp_path, "a") == price
    assert {name: one.schema for name, one in second.parties.items()} == {
        name: one.schema for name, one in first.parties.items()
    }
    fit = co.fit(fed, RIDGE, privacy=TERMS, store=tmp_path)  # the same terms: the look is there
    assert fit.schemas["b"] is not None
    assert fit.schemas["b"].columns[0].to_file() == {
        **first.parties["b"].schema.columns[0].to_file(),
        **{k: v for k, v in fit.schemas["b"].columns[0].to_file().items() if k == "smooth"},
    }
    other = co.look(fed, replace(TERMS, look=0.2), store=tmp_path)  # another look is another release
    assert other.run != first.run
    assert spent(tmp_path, "a")[1] == pytest.approx(2 * 1e-6 / 20)


@pytest.mark.chance(0, "whether a run goes on, whatever was drawn")
def test_a_fit_that_stopped_after_its_look_takes_that_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = federation()
    before = runs_look.look_in

    def stop(*given: Any, **named: Any) -> Any:
        before(*given, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(runs_look, "look_in", stop)
    with pytest.raises(KeyboardInterrupt):
        co.fit(fed, RIDGE, privacy=TERMS, store=tmp_path)
    looked = spent(tmp_path, "a")
    monkeypatch.setattr(runs_look, "look_in", before)
    fit = co.fit(fed, RIDGE, privacy=TERMS, store=tmp_path)
    assert fit.privacy.epsilon <= 4.0
    assert spent(tmp_path, "a")[1] == looked[1]


def test_a_range_of_labels_is_looked_for_where_nobody_declared_it(tmp_path: Path) -> None:
    schemas = {**OPEN, "a": replace(OPEN["a"], label=co.Numeric("cost"))}
    noise = co.SeededNoise(7)
    fit = co.fit(federation("cost", schemas), SQUARES, privacy=TERMS, store=tmp_path, noise=noise)
    label = fit.schemas["a"].label  # type: ignore[union-attr]
    assert label is not None
    assert -40.0 < label.low < 70.0
    assert 140.0 < label.high < 300.0
    rows = {name: table.drop("late", "cost", strict=False) for name, table in frames(1).items()}
    cost = frames(1)["a"]["cost"].to_numpy()
    assert np.corrcoef(fit.predict(rows), cost)[0, 1] > 0.8
    terms = replace(TERMS, label_range=(0.0, 200.0))
    told = co.fit(federation("cost", schemas), SQUARES, privacy=terms, store=tmp_path, noise=noise)
    assert told.schemas["a"].label is None  # type: ignore[union-attr]
    assert told.privacy.guarantee == "none"  # the noise was seeded


def test_people_with_several_rows_are_looked_at_by_the_rows_that_count() -> None:
    tables = frames()
    tables["a"] = tables["a"].drop("cost").with_columns(who=np.arange(N) // 3)
    fed = Federation.from_frames(tables, on="id", label=("a", "late"), schemas=OPEN, unit=("who", 2))
    found = seeded(fed)
    assert found.parties["a"].schema.columns[1].levels_of() == ("clerk", "cook")
    kept = fed.rows
    assert kept == 13_334
    job = found.columns["a"][1]
    assert abs(int(job.counts.sum()) + 14 - kept) < 300  # of the rows that stay


def test_a_column_that_is_too_faint_is_left_out_and_named(tmp_path: Path) -> None:
    tables = frames()
    rng = np.random.default_rng(5)
    wide = rng.choice([-1.0, 1.0], N) * np.exp2(rng.uniform(-19.0, 40.0, N))  # 85 rows a cell
    names = [f"name {k}" for k in range(N)]
    tables["b"] = tables["b"].with_columns(wide=wide, who=pl.Series(names))
    schema = co.Schema((co.Numeric("age"), co.Numeric("wide"), co.Categorical("who")))
    fed = Federation.from_frames(
        {"a": tables["a"].drop("cost"), "b": tables["b"]},
        on="id",
        label=("a", "late"),
        schemas={"a": OPEN["a"], "b": schema},
    )
    terms = co.Privacy(1.0, 1e-6, trust="secure")
    found = seeded(fed, terms)
    assert found.left_out == {"b": ("wide", "who")}
    assert "too faint to see" in repr(found)
    assert "too faint to see" in found._repr_html_()
    fit = co.fit(found.federation, RIDGE, privacy=found.privacy, store=tmp_path, noise=co.SeededNoise(1))
    assert [one for one in fit.remarks if "too faint" in one] == [
        f"column {name!r} of 'b' was too faint for the look to see, and takes no part" for name in ("wide", "who")
    ]


@pytest.mark.parametrize("trust", ["nobody", "secure", "parties", "consortium"])
@pytest.mark.chance(0, "figures of the statement, which follow from the terms")
def test_every_trust_model_takes_a_look(trust: str, tmp_path: Path) -> None:
    policies = {name: co.Policy(consortium=True) for name in OPEN}
    fit = co.fit(federation(policies=policies), RIDGE, privacy=replace(TERMS, trust=trust), store=tmp_path)
    assert fit.privacy.trust == trust
    assert fit.privacy.epsilon <= 4.0


@pytest.mark.chance(0, "figures of the statement, which follow from the terms")
def test_other_private_methods_take_a_look(tmp_path: Path) -> None:
    ball = co.Problem(co.Logistic(), constraint=co.L1Ball(5.0))
    block = co.fit(
        federation(),
        ball,
        co.PrivateBlockFrankWolfe(rounds=3),
        replace(TERMS, trust="nobody", feature_bound=1.0),
        store=tmp_path / "block",
    )
    assert block.privacy.epsilon <= 4.0
    admm = co.fit(
        federation("cost", {**OPEN, "a": replace(OPEN["a"], label=co.Numeric("cost"))}),
        SQUARES,
        co.PrivateSharingADMM(),
        replace(TERMS, trust="nobody", row_norm=2.0),
        store=tmp_path / "admm",
    )
    assert admm.privacy.epsilon <= 4.0


def test_without_privacy_figures_are_read_off_the_rows() -> None:
    fit = co.fit(federation(), co.Problem(co.Logistic(), constraint=co.L1Ball(5.0)))
    assert not fit.privacy.has(Code.LOOKED_AT)
    schema = fit.schemas["a"]
    assert schema is not None
    assert schema.source == "data"
    assert schema.columns[1].levels_of() == ("clerk", "cook", "pilot")


@pytest.mark.chance(0, "noise of made-up rows, whose bytes alone are counted")
def test_a_dry_run_shows_the_look_and_the_run_and_spends_nothing(tmp_path: Path) -> None:
    found = preview(federation(), RIDGE, None, TERMS, store=tmp_path)
    assert found.epsilon == pytest.approx(4.0, rel=1e-9)
    assert found.taken == pytest.approx(1e-6 / 20)
    whats = [line.what for line in found.lines if line.party == "b"]
    assert whats[:3] == [looking.THE_KINDS, looking.THE_RANGES, looking.THE_PARTS]
    assert "columns without figures are looked at first" in " ".join(found.notes)
    assert not tmp_path.exists() or not list(tmp_path.glob("nodes/*.db"))
    told = {**OPEN, "a": replace(OPEN["a"], label=co.Numeric("cost"))}
    ranged = preview(federation("cost", told), SQUARES, None, TERMS, store=tmp_path)
    assert ranged.epsilon == pytest.approx(4.0, rel=1e-9)
    assert preview(federation(), co.Problem(co.Logistic(), constraint=co.L1Ball(5.0))).delta is None


# ------------------------------------------------------------------------------------------------ refused before


@pytest.mark.parametrize(
    ("problem", "method", "terms", "message"),
    [
        (RIDGE, co.PrivateGram(), replace(TERMS, trust="nobody"), "cross='none'"),
        (co.Problem(co.Poisson(), penalty=co.Ridge(1.0)), co.PrivateGram(), TERMS, "no Poisson likelihood"),
        (co.Problem(co.Hinge(), penalty=co.Ridge(1.0)), co.PrivateGram(), TERMS, "solves LeastSquares"),
        (RIDGE, None, replace(TERMS, delta=0.1), "delta=0.1 is not below 1/rows"),
    ],
)
def test_what_would_be_refused_after_the_look_is_refused_before(
    problem: Any, method: Any, terms: co.Privacy, message: str, tmp_path: Path
) -> None:
    with pytest.raises(co.InvalidInput, match=message):
        co.fit(federation(), problem, method, terms, store=tmp_path)
    assert not list(tmp_path.glob("nodes/*.db"))


def test_a_budget_that_affords_the_look_alone_is_refused_before_it(tmp_path: Path) -> None:
    policies = {"a": co.Policy(epsilon=3.0, delta=1e-6)}
    with pytest.raises(co.BudgetExhausted, match="this run alone costs epsilon 4"):
        co.fit(federation(policies=policies), RIDGE, privacy=TERMS, store=tmp_path)
    assert all(spent(tmp_path, party) == (0.0, 0.0) for party in OPEN)


def test_a_private_run_needs_a_store_before_it_looks() -> None:
    with pytest.raises(co.InvalidInput, match="needs store="):
        co.fit(federation(), RIDGE, privacy=TERMS)


@pytest.mark.chance(0, "what is refused does not depend on noise")
def test_parties_that_were_told_different_columns_release_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    """A coordinator that tells each party that it alone is looked at would have each pay, and show, the whole share."""
    real = looking.Look.party

    def told(self: looking.Look, job: Any, block: Any, gate: Any) -> Any:
        own = {gate.node: job.roster.sought[gate.node]}
        return real(self, replace(job, roster=replace(job.roster, sought=own)), block, gate)

    monkeypatch.setattr(looking.Look, "party", told)
    with pytest.raises(co.ColonnadeError, match="something else of this release than us"):
        co.look(federation(), TERMS, store=tmp_path)
    folder = RunStore(tmp_path)
    try:
        assert all(not Ledger(folder.log(p), p, co.Policy(exact=True)).entries() for p in OPEN)
    finally:
        folder.close()


# ------------------------------------------------------------------------------------------------ estimators


@pytest.mark.chance(0, "figures of the statement, which follow from the terms")
def test_an_estimator_looks_at_columns_without_figures(tmp_path: Path) -> None:
    tables = frames()
    X = tables["a"].drop("late", "cost").join(tables["b"], on="id").drop("id").to_pandas()
    y = tables["a"]["late"].to_numpy()
    found = co.FederatedClassifier(
        classes=[0, 1], schemas=OPEN, epsilon=4.0, delta=1e-6, store=str(tmp_path / "two")
    ).fit(X, y)
    assert found.privacy_.epsilon <= 4.0
    assert found.privacy_.has(Code.LOOKED_AT)
    several = co.FederatedClassifier(
        classes=[0, 1, 2], schemas=OPEN, epsilon=4.0, delta=1e-6, store=str(tmp_path / "three")
    )
    with pytest.raises(co.InvalidInput, match=r"columns have no figures, and there are 3 models\. Look once before"):
        several.fit(X, np.arange(N) % 3)
