"""A hub without a network whose parties fall silent."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

import colonnade as co
from colonnade.network.questions import BY_NAME, Question, Said
from colonnade.network.refusals import silence
from colonnade.network.transport.envelope import PeerTimeout
from colonnade.runtime.host import Answered
from tests.helpers.organisations import Organisations
from tests.helpers.stub_hub import AskedOf, Straw

PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
TERMS = co.Privacy(4.0, 1e-6, trust="secure", row_norm=3.0, feature_bound=2.0)
PARTIES = {"a": [0, 1], "b": [2], "c": [3, 4]}


def federation(quorum: int | None = 2) -> co.Federation:
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(size=(200, 5)), -2, 2)
    fed = co.Federation.split(X, np.where(X.sum(axis=1) > 0, 1.0, -1.0), parties=PARTIES, label="b")
    return fed.with_policies(dict.fromkeys(PARTIES, co.Policy(exact=True, quorum=quorum)))


class Power(BaseException):
    """The hub's power goes."""


class Silent(Straw):
    """A hub without a network: `silent` from its so-many-th turn on a party does not answer."""

    def __init__(self, made: Organisations, silent: Mapping[str, int] | None = None, power: int | None = None) -> None:
        super().__init__(made)
        self.silent, self.power, self.turns = dict(silent or {}), power, dict.fromkeys(PARTIES, 0)
        self.missing: Collection[str] = ()

    def wait_for(self, names: Collection[str], timeout: float) -> None:
        if self.missing:
            raise PeerTimeout("after 1 s these parties have not connected: 'c'.")

    def connected(self) -> set[str]:
        return super().connected() - set(self.missing)

    def answer_to(self, asked: AskedOf) -> Answered[Said]:
        if self.power is not None:
            self.power -= 1
            if self.power < 0:
                raise Power
        party = asked.party
        self.turns[party] += asked.what == Question.TURN
        gone = party in self.silent and self.turns[party] >= self.silent[party]
        if gone or party in self.missing:
            error = silence(party, BY_NAME[asked.what], 1.0)
            return Answered(lambda: (_ for _ in ()).throw(error))
        return super().answer_to(asked)
