"""Anchored consensus over the links of a graph: for sums of functions with kinks, where plain ADMM crawls.

Solves   min Σᵢ fᵢ(x), as consensus.py does, with the same messages, and the same step of an agent.
Source   the map T: w_ij ↦ 2 x_j − w_ji of consensus.py never takes two points further apart (Peaceman and Rachford),
         and Halpern's iteration, which pulls a shrinking part of the way back to an anchor a, drives ‖Tw − w‖ down like
         1/k for every such map (Lieder, "On the convergence rate of the Halpern-iteration", 2021):
             w_ij ← a_ij/(k+1) + k/(k+1) (2 x_j − w_ji)            k rounds after the anchor was dropped, at w
         Dropping the anchor anew when ‖Tw − w‖ has fallen makes that linear where the problem is sharp, as every linear
         program is (Applegate, Hinder, Lu, Lubin, "Faster first-order primal-dual methods for linear programming using
         restarts and sharpness", 2023; with Halpern: Lu, Yang, "Restarted Halpern PDHG for linear programming", 2024).
Restart  agents agree by flooding on the largest residuals of any of them, as in consensus.py. In the same round all of
         them restart when ‖Tw − w‖ has fallen to FALL of what it was, or to LESS of it and rises again, or when the
         anchor has lain for SHARE of all rounds. admm/sharing.py, which shares this rule, also has relaxed epochs.
ρ        Nobody chooses it. It moves at restarts only, halfway on a logarithmic scale to ‖λ − λ₀‖/‖z − z₀‖, what the
         multipliers moved by over what the estimates did: in the norm that T does not increase, both then count alike.
         At most MOST_CHANGES times: after that it is constant.
Proof    for constant ρ, no step takes w away from any fixed point beyond the anchor's distance, so restarts do not
         either; ‖Tw − w‖ ≤ 2·distance/(k+1), and an anchor lies ever longer or each drop cuts ‖Tw − w‖ by a factor.
Links    may rest in some rounds (`Changing`): k counts a link's own meetings. T is then applied to some links at a
         time, and there are patterns in which ‖Tw − w‖ grows without end. When it has risen to RISE times the least
         that was seen, links move half as far from then on: w ← w + θ (the above − w), θ = 1, ½, ¼ …  The smaller θ,
         the nearer the path of w to that of ẇ = −D (w − Tw), D the shares of rounds in which links meet, along which
         the distance to every fixed point, by D⁻¹, falls: with θ small enough a pattern in which all links meet ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from colonnade.kernels.arrays import Floats
from colonnade.kernels.links import anchored_exchange
from colonnade.methods.graph.consensus import Links, ratio

FALL = 0.3
LESS = 0.8
SHARE = 0.36
# where epochs alternate
RELAXED_FALL = 0.2
PATIENCE = 20
MOST_CHANGES = 40
RISE = 100.0
FAINT = 1e-10  # of the estimates' size: what moved less since the last restart says nothing about ρ


@dataclass
class Epochs:
    """From one restart to the next: what follows from ‖Tw − w‖ alone, for everybody who knows it."""

    anchored: bool = True  # else relaxed
    alternates: bool = False  # an epoch that has lasted its share, and PATIENCE, and has not fallen: then the other way
    began: int = 0
    first: float = math.nan  # ‖Tw − w‖ at its beginning
    before: float = math.nan  # and when it was last seen

    def over(self, t: int, residual: float) -> bool:
        """Whether to restart after round t, which found this ‖Tw − w‖."""
        if math.isnan(self.first):
            self.first = self.before = residual
            return False
        rises = residual > self.before
        self.before = residual
        fallen = residual <= (FALL if self.anchored else RELAXED_FALL) * self.first
        late = t - self.began >= SHARE * t
        if not (fallen or late or (self.anchored and rises and residual <= LESS * self.first)):
            return False
        if self.alternates and late and not fallen and t - self.began >= PATIENCE:
            self.anchored = not self.anchored
        self.began = t
        self.first = math.nan
        return True


def halfway(rho: float, shift: float, turned: float) -> float:
    """By what ρ is multiplied at a restart: to halfway, on a logarithmic scale, to turned/shift; at most tenfold."""
    return min(max(math.sqrt(turned / shift / rho), 0.1), 10.0)


class AnchoredLinks(Links):
    """Links with their anchors: of w_ij and w_ji, and of z and λ_ij, `now` and `then`."""

    FIGURES = 7  # residuals: see kernels/links.py

    def __init__(self, neighbours: Sequence[str], shape: tuple[int, ...], penalty: float) -> None:
        super().__init__(neighbours, shape, penalty)
        self.anchors, self.now, self.then = (np.zeros_like(self.pairs) for _ in range(3))
        self.ages = [0] * len(neighbours)
        self.pace = 1.0  # θ

    def begin(self, estimate: Floats, multipliers: Mapping[str, Floats]) -> None:
        self.now[0] = estimate.reshape(-1)
        for name, multiplier in multipliers.items():
            self.now[1, self.place[name]] = multiplier.reshape(-1)
        self.pairs[0] = self.now[0] - self.now[1] / self.penalty
        self.pairs[1] = self.now[0] + self.now[1] / self.penalty
        self.restart(1.0)

    def exchange(self, k: int, x: Floats, y: Floats, sums: Floats) -> None:
        self.ages[k] += 1
        pair = self.pairs[:, k]
        before = self.pairs[:, k].copy() if self.pace < 1.0 else None
        anchored_exchange(
            x, y, self.penalty, self.ages[k], pair, self.anchors[:, k], self.now[:, k], self.then[:, k], sums
        )
        if before is not None:
            pair[:] = before + self.pace * (pair - before)

    def restart(self, factor: float) -> None:
        """ρ ← factor·ρ with the multipliers as they are, w along its link's middle; the anchor is dropped there."""
        self.penalty *= factor
        if factor != 1.0:
            middle = self.now[:1]
            self.pairs = middle - (middle - self.pairs) / factor
        self.anchors[:], self.then[:] = self.pairs, self.now
        self.ages = [0] * len(self.ages)

    def slow(self) -> None:
        """θ ← θ/2; the anchor is dropped here."""
        self.pace /= 2.0
        self.restart(1.0)


@dataclass
class Restarts:
    """The rule of an Accord whose links are anchored: when all agents restart, with which ρ, and when they slow."""

    FIGURES: ClassVar[int] = AnchoredLinks.FIGURES
    rests: bool = False  # whether links may
    least: float = math.inf  # ‖Tw − w‖, since all slowed down
    epochs: Epochs = field(default_factory=Epochs)
    changes: int = 0

    def judge(self, t: int, flood: Floats, own: Sequence[AnchoredLinks]) -> None:
        _, size, _, pull, residual, shift, turned = flood.tolist()
        self.least = min(self.least, residual)
        if self.rests and residual > RISE * self.least:
            self.least = residual
            self.epochs = Epochs(began=t)
            for links in own:
                links.slow()
            return
        if not self.epochs.over(t, residual):
            return
        factor = 1.0
        if min(ratio(shift, size), ratio(turned, pull)) > FAINT and self.changes < MOST_CHANGES:
            self.changes += 1
            factor = halfway(own[0].penalty, shift, turned)
        for links in own:
            links.restart(factor)
