"""Facts of a private fit and of an exact one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
import pytest

import colonnade as co

TERMS = co.Privacy(1.0, 1e-5, trust="secure")


def frames() -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(2)
    age, balance = rng.uniform(20, 80, 400), rng.uniform(0, 10, 400)
    said = np.where(age / 40 + balance / 10 + rng.normal(size=400) > 1.8, "yes", "no")
    registry = pl.DataFrame({"client": range(400), "age": age})
    return {"registry": registry, "bank": pl.DataFrame({"client": range(400), "balance": balance, "subscribed": said})}


SCHEMAS = {
    "registry": co.Schema((co.Numeric("age", 20, 80),)),
    "bank": co.Schema((co.Numeric("balance", 0, 10),)),
}


def federation(policies: Mapping[str, co.Policy] | None = None) -> co.Federation:
    fed = co.Federation.from_frames(frames(), on="client", label=("bank", "subscribed"), schemas=SCHEMAS)
    fed = fed.with_classes("yes", "no")
    return fed if policies is None else fed.with_policies(policies)


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> co.Fit:
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
    limits = {"registry": co.Policy(epsilon=3.0, delta=1e-5)}
    return co.fit(federation(limits), problem, None, TERMS, store=tmp_path_factory.mktemp("verdict"))


@pytest.fixture(scope="module")
def exact() -> co.Fit:
    return co.fit(federation(), co.Problem(co.Logistic(), co.L1Ball(2.0)), co.DistributedFrankWolfe(rounds=5))
