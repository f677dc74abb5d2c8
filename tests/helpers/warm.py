"""Imported once by the fork server of tests/helpers/organisations.py: the processes that it makes find all kernels loaded.

A party that starts alone reads compiled kernels from the disk for seconds, which no claim of these tests is about.
"""

from __future__ import annotations

import contextlib
import io
import warnings

from tests import draws
from tests.helpers.contract import METHODS, OTHER_METHODS, fitted

draws.install()  # what these processes draw counts for the test that runs

with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
    warnings.simplefilter("ignore")
    for name in ("private gram, secure", "private sharing admm", "frank-wolfe, logistic, simplex, intercept"):
        fitted(METHODS[name])
    for name in ("graph admm", "kernel svm"):
        fitted(OTHER_METHODS[name])
