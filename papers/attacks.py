"""Attacks on the papers' calibrations, as `published/` has them: targets for `co.audit(TARGETS[name])` and `audit.sweep(TARGETS)`.

Leaves   nothing of anybody's: the tables are made up here.
"""

from __future__ import annotations

import math

import numpy as np

from colonnade.attacks.setting import Adversary, Setting, Target
from colonnade.kernels.arrays import Floats
from papers import published


def sketch_pair(setting: Setting, rows: int = 200, size: int = 20) -> tuple[Floats, Floats, Floats]:
    """A Gaussian sketch, and a column of zeros whose entry in the sketch's longest direction is +1 or -1."""
    rng = np.random.default_rng(setting.seed)
    sketch = rng.standard_normal((size, rows)) / math.sqrt(size)
    column = np.zeros(rows)
    column[int(np.linalg.norm(sketch, axis=0).argmax())] = 1.0
    return sketch, column, -column


def sketches(setting: Setting, inside: bool, trials: int) -> Floats:
    sketch, *columns = sketch_pair(setting)
    seen = published.SketchedColumns(setting.epsilon, setting.delta).release(
        sketch, columns[0 if inside else 1], np.random.default_rng(), trials
    )
    return np.asarray(seen.sum(axis=1) @ (sketch @ columns[0]))


def _one_label(inside: bool, rows: int = 200, columns: int = 4) -> tuple[Floats, Floats]:
    """One row holds the first feature and nobody holds another; its label is 1 or 0."""
    X, y = np.zeros((rows, columns)), np.zeros(rows)
    X[0, 0], y[0] = 1.0, float(inside)
    return X, y


def signs(setting: Setting, inside: bool, trials: int) -> Floats:
    method = published.SparseFrankWolfe(setting.epsilon, setting.delta)
    return method.release(*_one_label(inside), np.random.default_rng(), trials)[:, 0]


def laplace(setting: Setting, inside: bool, trials: int) -> Floats:
    method = published.SparseLaplace(setting.epsilon, setting.delta)
    return method.release(*_one_label(inside), np.random.default_rng(), trials)[:, 0]


def sharing_pair(setting: Setting, rows: int = 200, columns: int = 100) -> tuple[Floats, Floats, Floats, float]:
    """Unit rows; the same with signs flipped in one column, a change of norm at most 1; a dual vector; b₁.

    The dual vector is the unit vector that the two predictions tell apart best.
    """
    method = published.SharingADMM(setting.epsilon, setting.delta)
    first = np.random.default_rng(setting.seed).standard_normal((rows, columns))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    changes = 4 * first[:, 0] ** 2
    largest_first = np.argsort(-changes)
    flipped = largest_first[np.cumsum(changes[largest_first]) <= 1]
    second = first.copy()
    second[flipped, 0] *= -1
    apart = first @ method.update(first, np.eye(rows)) - second @ method.update(second, np.eye(rows))
    values, vectors = np.linalg.eigh((apart + apart.T) / 2)
    dual = vectors[:, int(np.abs(values).argmax())]
    norms = [float(np.linalg.norm(method.update(D, dual))) for D in (first, second)]
    return first, second, dual, max(1.0, *norms)


def theorem(setting: Setting, inside: bool, trials: int) -> Floats:
    method = published.SharingADMM(setting.epsilon, setting.delta)
    first, second, dual, largest = sharing_pair(setting)
    seen = method.theorem(first if inside else second, dual, largest, np.random.default_rng(), trials)
    return np.asarray(seen @ (first @ method.update(first, dual) - second @ method.update(second, dual)))


def outside_range(setting: Setting, inside: bool, trials: int) -> Floats:
    """How far a release lies from the range of the first matrix: nothing at all, if it is the first that was used."""
    method = published.SharingADMM(setting.epsilon, setting.delta)
    first, second, dual, largest = sharing_pair(setting)
    seen = method.algorithm(first if inside else second, dual, largest, np.random.default_rng(), trials)
    basis = np.linalg.qr(first)[0]
    return np.asarray(np.linalg.norm(seen - (seen @ basis) @ basis.T, axis=1) / np.linalg.norm(seen, axis=1))


def first_update(setting: Setting, inside: bool, trials: int) -> Floats:
    method = published.ZerothOrder(setting.epsilon, setting.delta)
    A, b = np.zeros((method.rows, method.columns)), np.zeros(method.rows)
    A[0, 0] = b[0] = 1.0 if inside else 0.0
    return method.release(A, b, np.random.default_rng(), trials)[:, 0]


_ONE_FEATURE = "replace one row of 200: the only one with the first feature, label 1 or 0"
_COLUMN = "change one column of 200 unit rows by flipping signs, a change of norm at most 1"
TARGETS = {
    "published-sketch": Target(
        "noisy sketches of columns, Lou and Cheung, equation 17",
        "replace one row of 200: its entry in every party's column is +1 or -1",
        {"coordinator": Adversary("all sketches of a run", "their sum along the row's direction", sketches)},
        trials=10_000,
        batch=5_000,
        claimed=True,
        delta=1 / 200,
    ),
    "published-sign": Target(
        "sparse Frank-Wolfe with exact signs, Raff et al., algorithm 2",
        _ONE_FEATURE,
        {"reader": Adversary("the final model", "its first coefficient", signs)},
        trials=10_000,
        batch=5_000,
        claimed=True,
        delta=1e-3,
    ),
    "published-laplace": Target(
        "sparse Frank-Wolfe with Laplace noise at the printed scale, Raff et al., algorithm 1",
        _ONE_FEATURE,
        {"reader": Adversary("the final model", "its first coefficient", laplace)},
        trials=10_000,
        batch=5_000,
        claimed=True,
        delta=1e-3,
    ),
    "published-sharing-lemma": Target(
        "one iteration of ADMM sharing with independent noise, Hu et al., theorem 1",
        _COLUMN,
        {"coordinator": Adversary("the noisy prediction", "the likelihood ratio", theorem)},
        trials=200_000,
        batch=5_000,
        claimed=True,
        claims=(0.1, 1.0),  # the theorem is stated for epsilon up to 1
        delta=1e-3,
    ),
    "published-sharing-range": Target(
        "one iteration of ADMM sharing with noise on the coefficients, Hu et al., algorithm 1",
        _COLUMN,
        {"coordinator": Adversary("the noisy prediction", "its distance from one matrix's range", outside_range)},
        trials=10_000,
        batch=5_000,
        claimed=True,
        claims=(0.1, 1.0),
        delta=1e-3,
    ),
    "published-zeroth-order": Target(
        "one primal update of zeroth-order ADMM at a smoothing of u = 0.1 (the thesis has u = 1), Gratton, theorem 4.1",
        "replace one row of 20: all zeros, or the first feature and the label 1",
        {"neighbour": Adversary("the agent's x", "its first entry", first_update)},
        trials=1_000,
        batch=250,
        claimed=True,
        claims=(0.5,),  # the thesis computes epsilon from a whole number of directions
        delta=1e-3,
    ),
}
