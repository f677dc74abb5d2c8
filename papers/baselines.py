"""What the Frank-Wolfe family is compared with, on one machine: functions of a table, for figures and never for private data.

random_atoms        columns drawn at random, then the best model on them (Bellet et al., arXiv:1404.2644).
local_coresets      every party runs Frank-Wolfe on its own columns; one solve over the columns they found (the same).
replicated_blocks   AP-BCFW: every worker has a copy of the whole table and tau blocks move a round (Wang et al., 2016).
one_shot_sketches   every party sends one noisy sketch of all its columns before anything is solved, as PRIDE does.

Each says how many numbers would travel between parties and their coordinator, labels not counted. There is no gate and no ledger here: the
noise of one_shot_sketches is floating point from a seed, so it protects nobody and stands for what a real one would cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.kernels.newton_model import quadratic_minimum
from colonnade.problem import L1Ball, LeastSquares, Problem
from colonnade.problem.hull import Corrector
from colonnade.problem.sampling import Nice, universal_step
from colonnade.problem.sets import L2Ball, Product
from papers.published.dense_sketch import rademacher_sketch

SWEEPS = 60  # of the corrective solve, each of which never raises the objective


@dataclass(frozen=True, eq=False)
class Baseline:
    """A model, its objective, and how many numbers travel for it."""

    coefficients: Floats
    objective: float
    values_sent: int


def random_atoms(problem: Problem, A: Floats, y: Floats, count: int, seed: int) -> Baseline:
    """The best model on `count` columns drawn at random."""
    n, d = A.shape
    if not 1 <= count <= d:
        raise InvalidInput(f"count={count} columns cannot be drawn from {d}: give 1 to {d}.")
    chosen = np.sort(np.random.default_rng(seed).choice(d, count, replace=False))
    return _solved(problem, A, y, chosen.tolist(), count * (n + 1))


def local_coresets(problem: Problem, A: Floats, y: Floats, parts: Sequence[Sequence[int]], each: int) -> Baseline:
    """The best model on the columns that every party's own Frank-Wolfe met in `each` rounds."""
    ball, loss, found = _ball(problem), problem.loss, list[int]()
    for own in parts:
        block = A[:, list(own)]
        x, atoms = np.zeros(len(own)), dict[int, None]()
        for _ in range(each):
            column, weight = ball.vertex(block.T @ loss.slope(block @ x, y))
            atoms[column] = None
            vertex = weight * np.eye(1, len(own), column)[0]
            x = x + loss.minimise_along(block @ x, block @ (vertex - x), y) * (vertex - x)
        found += [own[column] for column in atoms]
    return _solved(problem, A, y, sorted(found), len(found) * (A.shape[0] + 1))


def replicated_blocks(
    problem: Problem, A: Floats, y: Floats, workers: int, tau: int, rounds: int, seed: int
) -> Baseline:
    """Block Frank-Wolfe with tau-nice sampling over the whole table, which all workers but one must first be sent."""
    if not isinstance(problem.constraint, Product) or isinstance(problem.constraint.each, L2Ball):
        raise InvalidInput(
            "replicated blocks need a product of sets: Problem(loss, constraint=Product(L1Ball(radius)))."
        )
    n, d = A.shape
    product, rng = problem.constraint.over([range(d)]), np.random.default_rng(seed)
    each, blocks = problem.constraint.each, [np.array(group, np.int64) for group in product.blocks]
    owners, x = np.zeros(len(blocks), np.int64), np.zeros(d)
    for own in blocks:
        x[own] = each.start(own.size)
    sampling = Nice(tau)
    least = float(sampling.probabilities(owners).min())
    for t in range(rounds):
        gradient = A.T @ problem.loss.slope(A @ x, y)
        for number in sampling.draw(owners, rng):
            own = blocks[number]
            column, weight = each.vertex(gradient[own])
            x[own] += universal_step(t, least) * (weight * np.eye(1, own.size, column)[0] - x[own])
    sent = (workers - 1) * n * d + rounds * (2 * tau + workers * d)  # the copies; then vertices up and x down
    return Baseline(x, problem.loss.value(A @ x, y), sent)


def one_shot_sketches(
    problem: Problem, A: Floats, y: Floats, parts: Sequence[Sequence[int]], rho: float, sketch_rows: int, seed: int
) -> Baseline:
    """Least squares from noisy sketches of all columns and of public labels.

    One row moves a sketch of all columns by at most 2·C, C the largest norm of a row, so σ = 2C/√(2ρ) on every number.
    """
    if not isinstance(problem.loss, LeastSquares):
        raise InvalidInput("one-shot sketches solve least squares: a sketch keeps products, and no other loss.")
    n, d = A.shape
    rng = np.random.default_rng(seed)
    sketch = rademacher_sketch(rng.bytes(32), sketch_rows, n)
    sigma = 2.0 * float(np.linalg.norm(A, axis=1).max()) / math.sqrt(2.0 * rho)
    noisy = np.zeros((sketch_rows, d))
    for own in parts:
        noisy[:, list(own)] = sketch @ A[:, list(own)] + sigma * rng.standard_normal((sketch_rows, len(own)))
    gram = noisy.T @ noisy - sketch_rows * sigma**2 * np.eye(d)
    values, vectors = np.linalg.eigh(gram)
    gram = (vectors * (np.maximum(values, 0.0) + sigma**2 * math.sqrt(sketch_rows * d))) @ vectors.T
    x = quadratic_minimum(gram, -(noisy.T @ (sketch @ y)), _ball(problem).radius, np.zeros(d))
    return Baseline(x, problem.loss.value(A @ x, y), sketch_rows * d)


def _solved(problem: Problem, A: Floats, y: Floats, chosen: list[int], sent: int) -> Baseline:
    ball, atoms = _ball(problem), sparse.csc_array(A[:, chosen])
    corrector = Corrector(problem.loss, ball, y)
    weights = np.full(len(chosen), 1e-9 * ball.radius / len(chosen))  # the solve looks at atoms in use only
    for _ in range(SWEEPS):
        weights = corrector.best_weights(atoms, np.where(weights == 0.0, 1e-300, weights), atoms @ weights)
    x = np.zeros(A.shape[1])
    x[chosen] = weights
    return Baseline(x, problem.loss.value(A @ x, y), sent)


def _ball(problem: Problem) -> L1Ball:
    if not isinstance(problem.constraint, L1Ball):
        raise InvalidInput("this baseline minimises over an L1Ball: give Problem(loss, constraint=L1Ball(radius)).")
    return problem.constraint
