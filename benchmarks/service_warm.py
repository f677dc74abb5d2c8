"""Imported once by the process that forks the components of benchmarks/service.py: they find all code and kernels loaded."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings

import numpy as np

import colonnade as co
import colonnade.cli
import colonnade.network.coordinator_service
import colonnade.network.hub
import colonnade.network.party_service
import colonnade.network.transport.party
import colonnade.runs.jobs

with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
    warnings.simplefilter("ignore")
    fed = co.Federation.split(np.eye(40, 4), np.ones(40) / 2, parties={"a": [0, 1], "b": [2, 3]}, label="a")
    co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(1.0)), co.DistributedFrankWolfe(rounds=2))
    private = co.Privacy(epsilon=1.0, delta=1e-6, trust="secure", row_norm=1.0, label_bound=1.0)
    with tempfile.TemporaryDirectory() as store:
        co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)), co.PrivateGram(), private, store=store)
