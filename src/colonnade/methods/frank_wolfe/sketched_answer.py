"""The weights of private block Frank-Wolfe, from what has left: noisy sketches of columns, noisy products with labels.

Solves   min F(x) = ½·bend·xᵀGx − pull·pᵀx  on ‖x‖₁ ≤ radius, where G = AᵀA and p = Aᵀy are known with errors only.
Chosen   of the least points of the estimate of F on balls of ever larger radius, and 0, the one with the least *upper
         bound* U ≥ F. So F(x) ≤ U(x) ≤ U(0) = F(0), and U falls to F as the budget grows; bounds:
         docs/understand/methods/frank-wolfe.md. A point of the estimate's own on the whole ball may be many times worse
         than 0.
Leaves   nothing: all is a function of what was released. Price: none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri

from colonnade.kernels.arrays import Floats
from colonnade.kernels.newton_model import quadratic_minimum
from colonnade.kernels.prox import soft_threshold
from colonnade.methods.frank_wolfe.private_spend import PRODUCT, Spend, ball_of
from colonnade.model.job import Job

CHANCE = 0.2  # that one of all bounds fails, at most: by counting each one's chance
RADII = 0.5 ** (np.arange(24, -1, -1) / 3)  # of the ball's, down to 1/256


@dataclass(frozen=True)
class Quadratic:
    """φ(s, y) ≈ φ(0) − pull·y·s + ½·bend·s²: the loss itself for least squares, its quadratic at zero for the others.

    The published version puts the lifted sketch Jᵀq̂ through the sigmoid or the hinge: noise of standard deviation far
    above 1, so that nothing is left of the curve. In the quadratic the noise averages out.
    """

    pull: float
    bend: float

    @classmethod
    def at_zero(cls, job: Job) -> Quadratic:
        one = np.ones(1)
        zero = np.zeros(1)
        return cls(-float(job.problem.loss.slope(zero, one)[0]), float(job.problem.loss.curvature(zero, one)[0]))

    def slope(self, scores: Floats, y: Floats) -> Floats:
        """By row; clipped to twice its size at zero, so that wild entries of the lift do not raise the sensitivity."""
        limit = 2.0 * self.pull * largest(y)
        return np.clip(self.bend * scores - self.pull * y, -limit, limit)


class Estimates:
    """Products of columns with each other and with the labels, and by how much they may be off.

    `columns` are sketches, one a column, each with its product below it; `label` is the largest label.
    """

    def __init__(self, columns: Floats, spend: Spend, label: float, job: Job) -> None:
        sketches = columns[:-1]
        self.products = columns[-1] * label / PRODUCT
        self.rows, self.count = sketches.shape
        sigma = spend.sigma(job.roster.unit.rows)
        chance = CHANCE / 3.0
        self.noise = self.rows * sigma**2  # what it adds to the square of a sketch's length, on average
        self.hashed = self.rows < job.roster.rows
        self.moments = sketches.T @ sketches
        # ‖Ĵa‖² is (‖a‖² + noise)·χ²/rows; a column of n entries within ±B is no longer than B√n.
        low = 2.0 * float(gammaincinv(self.rows / 2.0, chance / self.count)) / self.rows
        squares = np.clip(np.diag(self.moments) / low - self.noise, 0.0, job.roster.rows * spend.bound**2)
        # Variances of products of sketches, times their rows: of hashing, and of noise.
        hashing = np.outer(squares, squares) if self.hashed else 0.0
        self.spread = np.sqrt(hashing + self.noise * (np.add.outer(squares, squares) + self.noise))
        self.doubts = np.hypot(sigma * label / PRODUCT, spend.label_sigma * np.sqrt(squares))
        self.most = float(ndtri(1.0 - chance / (self.count * (self.count + 1))))  # deviations, of all products
        self.most_of_labels = float(ndtri(1.0 - chance / (2 * self.count)))
        self.least_singular = 1.0 - (math.sqrt(self.count) + math.sqrt(-2.0 * math.log(chance))) / math.sqrt(self.rows)

    @property
    def gram(self) -> Floats:
        """Without what the noise adds on average; negative eigenvalues cut, and a ridge of the usual error's size."""
        values, vectors = np.linalg.eigh(self.moments - self.noise * np.eye(self.count))
        ridge = math.sqrt(self.count / self.rows) * np.diag(self.spread)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T + np.diag(ridge))

    def upper(self, x: Floats, model: Quadratic) -> float:
        """U(x) ≥ F(x) for all x at once, but for CHANCE."""
        size = np.abs(x)
        square = float(x @ self.moments @ x)
        bent = max(square - self.noise * float(x @ x), 0.0)
        bent += self.most / math.sqrt(self.rows) * float(size @ self.spread @ size)
        if self.hashed and self.least_singular > 0.0:
            bent = min(bent, square / self.least_singular**2 - self.noise * float(x @ x))
        doubt = self.most_of_labels * float(self.doubts @ size)
        return float(0.5 * model.bend * bent - model.pull * (float(self.products @ x) - doubt))


def best_on_ball(columns: Floats, spend: Spend, model: Quadratic, label: float, job: Job) -> Floats:
    """The weights of all columns so far on ‖x‖₁ ≤ radius: of a path from 0, the point with the least upper bound."""
    known = Estimates(columns, spend, label, job)
    ball = ball_of(job)
    hessian = model.bend * known.gram
    pull = model.pull * soft_threshold(known.products, known.doubts)
    x = best = np.zeros(known.count)
    least = 0.0  # U(0)
    for part in RADII:
        x = quadratic_minimum(hessian, -pull, part * ball.radius, x)
        if (bound := known.upper(x, model)) < least:
            best = x
            least = bound
    return ball.project(best)


def largest(values: Floats) -> float:
    """max |value|, and 1 where all are zero: a sensitivity must be positive."""
    return float(np.abs(values).max(initial=0.0)) or 1.0
