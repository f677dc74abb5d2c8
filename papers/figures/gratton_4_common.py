"""What the figures of zeroth-order ADMM share: chapter 4's problem, one run of each method, drawing, and claims.

Three places where the thesis leaves a choice, and what is taken here:
  the sum    Equation 4.1 has means over an agent's rows, equations 4.18 to 4.20 sums. With means and ρ = 4, exact ADMM still
             has a tenth of its error after 200 rounds (tests/papers/test_zeroth_private.py measures it), so the curves
             of the thesis can only come from sums. The sensitivity c₁/(ρ|V|M) is that of means: here, as there, M = 20
             divides the claimed ε, although no row's loss is divided by it.
  R and L    are not said. (4.14) is said to give 5.85, which makes R = ‖x‖/1.18. α₁ is the largest step that was stable:
             1/curvature, half of it where J = 1.
  |V|        differs between agents, J does not: it is computed for the agent with one neighbour, whose ε is the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from colonnade.data.federation import Federation
from colonnade.kernels.arrays import Floats
from colonnade.methods.graph.zeroth import EstimateShare, GraphZerothOrder, Later
from colonnade.problem import LeastSquares, Problem, Topology
from colonnade.runs.fit import fit
from colonnade.runtime.fault_tools import Tap
from colonnade.runtime.hosted_node import InProcess
from colonnade.runtime.wire import decode
from papers.figure import Case, Claim, Row, Silent, Verdict, stated
from papers.plot import Panel, Plot
from papers.published.graph_rounds import numbers_sent
from papers.published.private_rivals import (
    DualPerturbation,
    LinearisedADMM,
    NoisySubgradient,
    PerRound,
    PrimalPerturbation,
)
from papers.published.row_problems import MatrixProblem, RowProblem, error
from papers.published.zeroth_order import Intrinsic, ZerothADMM

if TYPE_CHECKING:
    import polars as pl

PAPER = "Gratton 2021"
GRAPH = Topology.from_edges([(0, 1), (0, 3), (1, 2), (2, 3), (3, 4)])
AGENTS, ROWS, COLUMNS, PENALTY, STEPS = 5, 20, 10, 4.0, 100
ZOA, ASSUMED, ADMM, SUBGRADIENT = "D-ZOA", "exact ADMM with the noise of theorem 4.1", "DP-ADMM", "DPSGD"
PRIMAL, DUAL, ATTACK = "PVP", "DVP", "attack on one update of D-ZOA"
REPEATS, PRINTED = 20, 100  # of a full run, which a sign test at 19 of 20 needs, and of the thesis
ONE_DIRECTION = 10  # a seed at which, and 1,000 above which, epsilon = 0.15 and delta = 1e-6 allow one direction a step
LASSO_RIVALS, RIDGE_RIVALS = (ADMM, SUBGRADIENT), (ADMM, SUBGRADIENT, PRIMAL, DUAL)
SETTING = (
    "5 agents with links 1-2, 1-4, 2-3, 3-4, 4-5; 20 rows each, 10 columns, normal entries; columns divided by their largest "
    "entry, rows longer than 1 shortened to 1; b = Aw + noise of variance 0.1; eta = 1, rho = 4, 100 inner steps, u = 1, "
    "alpha0 = 0.54, J from equation 4.13. Not said, and chosen here: losses are sums over rows (with means nothing has "
    "converged after 200 rounds), R = |x|/1.18, the first inner step is 1/curvature, b is made after scaling. Rivals' steps "
    "are tuned on each problem and each epsilon."
)


@lru_cache(maxsize=8)
def problem(seed: int, penalty: str) -> RowProblem:
    """Section 4.6; penalty "l1" or "ridge"."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(AGENTS * ROWS, COLUMNS))
    A /= np.abs(A).max(axis=0)
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1, keepdims=True))
    b = A @ rng.normal(size=COLUMNS) + math.sqrt(0.1) * rng.normal(size=AGENTS * ROWS)
    blocks, labels = A.reshape(AGENTS, ROWS, COLUMNS), b.reshape(AGENTS, ROWS)
    return RowProblem(blocks, labels, l1=1.0) if penalty == "l1" else RowProblem(blocks, labels, ridge=1.0)


def intrinsic(own: RowProblem) -> Intrinsic:
    """Of the agent with one neighbour."""
    norm = float(np.linalg.norm(own.answer))
    return Intrinsic(COLUMNS, STEPS, ROWS, 1, PENALTY, norm / 1.18, norm)


def zeroth(own: RowProblem, draws: int) -> ZerothADMM:
    steepest = own.curvature + 2.0 * PENALTY * max(GRAPH.degree(i) for i in range(AGENTS))
    first = 1.0 if draws > 1 else 0.5  # with one direction a step, twice as long a step is not stable
    return ZerothADMM(PENALTY, first / steepest, STEPS, draws)


def estimates(own: RowProblem, method: str, epsilon: float, delta: float, seed: int, rounds: int) -> Iterator[Floats]:
    """The agents' estimates, round by round."""
    rng, asked = np.random.default_rng([seed, 1]), PerRound(epsilon, delta, ROWS)

    def tuned(runs: Iterable[Callable[[np.random.Generator], Iterator[Floats]]]) -> Iterator[Floats]:
        """The run whose last tenth was nearest in a rehearsal with other noise."""

        def left(run: Callable[[np.random.Generator], Iterator[Floats]]) -> float:
            points = list(islice(run(np.random.default_rng([seed, 2])), rounds))[-rounds // 10 :]
            return float(np.mean([error(x, own.answer) for x in points]))

        return min(runs, key=left)(rng)

    match method:
        case "D-ZOA":
            draws = intrinsic(own).draws(epsilon, delta)
            return zeroth(own, draws).rounds(own.differences, GRAPH, COLUMNS, rng)
        case "PVP" | "exact ADMM with the noise of theorem 4.1":
            return PrimalPerturbation(asked, PENALTY).rounds(own.near, GRAPH, COLUMNS, rng)
        case "DVP":
            return DualPerturbation(asked, PENALTY).rounds(own.near, GRAPH, COLUMNS, rng)
        case "DP-ADMM":
            linear = [LinearisedADMM(asked, rho, step) for rho in (1.0, 10.0) for step in (0.1, 0.3)]
            return tuned([lambda r, m=m: m.rounds(own.slopes, AGENTS, COLUMNS, r) for m in linear])  # type: ignore[misc]  # lambda defaults
        case _:
            noisy = [NoisySubgradient(asked, step) for step in (0.05, 0.1, 0.2)]
            return tuned([lambda r, m=m: m.rounds(own.slopes, GRAPH, COLUMNS, r) for m in noisy])  # type: ignore[misc]  # lambda defaults


def sent(method: str) -> float:
    """Numbers an agent sends in a round, on average over agents; DP-ADMM sends to its server."""
    return float(COLUMNS) if method == ADMM else float(numbers_sent(GRAPH, COLUMNS).mean())


def curve(errors: Sequence[float], sent_a_round: float, **labels: int | float | str) -> list[Row]:
    """About 100 rows of a curve, thinned; `values_sent` is by one agent so far."""
    last = len(errors)
    places = sorted({*np.unique(np.geomspace(1, last, 60).astype(int)), *range(1, last + 1, max(1, last // 50)), last})
    return [{**labels, "round": int(k), "error": errors[k - 1], "values_sent": sent_a_round * k} for k in places]


def run_private(method: str, penalty: str, epsilon: float, delta: float, seed: int, rounds: int) -> list[Row]:
    """One method on one problem, or an attack on the published calibration, of so many trials."""
    if method == ATTACK:
        from colonnade.attacks.run import audit
        from papers.attacks import TARGETS

        found = audit(TARGETS["published-zeroth-order"], epsilon=epsilon, delta=delta, trials=rounds, seed=seed)
        terms: Row = {"method": method, "epsilon": epsilon, "delta": delta, "seed": seed, "draws": 0}
        return [{**terms, "round": 1, "error": math.nan, "values_sent": 0.0, "attacked_epsilon": found.lower_bound}]
    own = problem(seed, penalty)
    errors = [error(x, own.answer) for x in islice(estimates(own, method, epsilon, delta, seed, rounds), rounds)]
    draws = intrinsic(own).draws(epsilon, delta) if method == ZOA else 0
    return curve(errors, sent(method), method=method, epsilon=epsilon, delta=delta, seed=seed, draws=draws)


def run_ours(
    own: RowProblem | MatrixProblem, graph: Topology, rounds: int, seed: int, *, steps: int = 30, draws: int = 4
) -> list[float]:
    """GraphZerothOrder through `fit`, on the same functions: the error of what each agent would return after each round."""

    def function(i: int) -> Callable[[Floats], float]:
        only = _alone(own, i)
        return lambda x: float(only(x[None, None])[0, 0])

    rows = np.zeros(
        (own.agents, own.columns)
    )  # the functions are given: the table says only how many columns there are
    fed = Federation.split(rows, np.zeros(own.agents), parties=own.agents, by="rows")
    functions = {name: function(i) for i, name in enumerate(fed.parties)}
    method = GraphZerothOrder(graph, rounds=rounds, steps=steps, draws=draws, functions=functions, seed=seed)
    tap = Tap(InProcess())
    fit(fed, Problem(LeastSquares()), method, engine=tap)
    means = {name: Later(own.columns) for name in functions}
    seen: dict[int, dict[str, Floats]] = {}
    for letter in tap.letters:
        share: EstimateShare = decode(letter.body)
        seen.setdefault(letter.round, {})[letter.sender] = share.estimate.value
    found = []
    for k in sorted(seen):
        for name, x in seen[k].items():
            means[name].add(x)
        found.append(error(np.stack([means[name].mean for name in functions]), own.answer))
    return found


def _alone(own: RowProblem | MatrixProblem, i: int) -> Callable[[Floats], Floats]:
    """Agent i's function, of a stack of one."""
    if isinstance(own, MatrixProblem):
        part: RowProblem | MatrixProblem = MatrixProblem(own.A[i : i + 1], own.B[i : i + 1], own.nuclear / own.agents)
    else:
        share = 1.0 / own.agents
        part = RowProblem(own.A[i : i + 1], own.b[i : i + 1], l1=own.l1 * share, ridge=own.ridge * share, F=own.F)
    return part.values


# ------------------------------------------------------------------------------------------------ cases


def private_cases(
    methods: Sequence[str],
    penalty: str,
    epsilons: Sequence[float],
    deltas: Sequence[float],
    *,
    seeds: Iterable[int],
    rounds: int,
) -> list[Case]:
    return [
        {"method": m, "penalty": penalty, "epsilon": e, "delta": d, "seed": s, "rounds": rounds}
        for d in deltas
        for e in epsilons
        for m in methods
        for s in seeds
    ]


# ------------------------------------------------------------------------------------------------ drawing

MEASURE = "normalised error, summed over agents"


def draw_curves(table: pl.DataFrame, title: str, *, by: str = "", panels: str = "") -> Plot:
    """Mean normalised error over repeats against the round: a panel for each value of `panels`, in it a line for each method and `by`."""
    import polars as pl

    drawn = []
    for value in sorted(set(table[panels])) if panels else (None,):
        part = table if value is None else table.filter(pl.col(panels) == value)
        drawn.append(panel := Panel("" if value is None else f"{panels} = {value:g}", x="round", log="y"))
        for method in part["method"].unique(maintain_order=True):
            of = part.filter(pl.col("method") == method)
            settings = of[by].unique(maintain_order=True).to_list() if by else [None]
            for setting in settings:
                own = of if setting is None else of.filter(pl.col(by) == setting)
                mean = own.group_by("round").agg(pl.col("error").mean()).sort("round")
                name = f"{method}, {setting:g}" if len(settings) > 1 else method
                panel.line(mean["round"], mean["error"], name, method)
    drawn[0].y = MEASURE
    return Plot(title, drawn, columns=len(drawn), same_y=len(drawn) > 1)


def draw_tradeoff(table: pl.DataFrame, title: str, *, against: str, by: str) -> Plot:
    """Mean normalised error of the last tenth of the rounds against epsilon or delta; a panel for each value of the other."""
    import polars as pl

    drawn = []
    for value in sorted(set(table[by])):
        axes = "xy" if against == "delta" else "y"
        drawn.append(panel := Panel(f"{by} = {value:g}", x=f"{against} (of one round)", log=axes))
        ends = final(table).filter(pl.col(by) == value)
        for method in table["method"].unique(maintain_order=True):
            part = ends.filter(pl.col("method") == method).sort(against)
            panel.line(part[against], part["error"], method, marks=True)
    drawn[0].y = MEASURE
    return Plot(title, drawn, columns=len(drawn), same_y=True)


def privacy_text(epsilons: Sequence[float], deltas: Sequence[float], rivals: Sequence[str], rounds: int) -> str:
    """epsilon, delta, unit, trust model and guarantee of what is drawn."""
    whole = [e * math.sqrt(rounds * math.log(1 / d) / (1.05 * math.log(1.25 / d))) for d in deltas for e in epsilons]
    agreed: dict[str, str] = {
        "epsilon": f"{', '.join(f'{e:g}' for e in epsilons)} in ONE round of one agent",
        "delta": ", ".join(f"{d:g}" for d in deltas),
        "unit": "one row, replaced",
        "trust": "nobody",
    }
    solver = "conditional: if the solver's errors are normal, independent and as wide as equation 4.9 bounds them, which they are not"
    rival = "claimed, for losses no steeper than 1 and means over rows; the squared loss and the sums drawn here are neither"
    over = f"Over {rounds} rounds theorem 4.2 makes epsilon {min(whole):.3g} to {max(whole):.3g}."
    both = stated("D-ZOA", **agreed, guarantee=solver), stated(", ".join(rivals), **agreed, guarantee=rival, note=over)
    return " ".join(both)


# ------------------------------------------------------------------------------------------------ claims


def final(table: pl.DataFrame) -> pl.DataFrame:
    """The mean error of the last tenth of the rounds, by method and terms, over repeats."""
    import polars as pl

    ends = table.filter(pl.col("round") > 0.9 * pl.col("round").max().over("method"))
    return ends.group_by("method", "epsilon", "delta").agg(
        pl.col("error").mean(), pl.col("seed").n_unique().alias("repeats")
    )


def ends(table: pl.DataFrame) -> dict[tuple[str, float, float, int], float]:
    """The same for each repeat."""
    import polars as pl

    late = table.filter(pl.col("round") > 0.9 * pl.col("round").max().over("method"))
    rows = late.group_by("method", "epsilon", "delta", "seed").agg(pl.col("error").mean())
    return {(r["method"], r["epsilon"], r["delta"], r["seed"]): r["error"] for r in rows.iter_rows(named=True)}


SIGNS = "19 of 20 runs: a sign test over the repeats of a full run; in a quick run, with few repeats, every run"


def _most(held: Iterable[bool]) -> bool:
    """19 of 20; of fewer than 20, all."""
    each = list(held)
    return sum(each) >= 0.95 * len(each)


def all_converge(methods: Sequence[str]) -> Claim:
    def check(table: pl.DataFrame) -> Verdict:
        import polars as pl

        first = table.filter((pl.col("round") == 1) & pl.col("method").is_in(list(methods)))
        begin = {(r["method"], r["epsilon"], r["delta"], r["seed"]): r["error"] for r in first.iter_rows(named=True)}
        last = ends(table)
        ratios = {key: last[key] / begin[key] for key in begin}
        worst = max(ratios, key=lambda key: ratios[key])
        return Verdict(
            _most(ratio < 0.2 for ratio in ratios.values()),
            f"of {len(ratios)} runs the last tenth has at most {ratios[worst]:.1%} of the first round's error ({worst[0]}, epsilon {worst[1]:g})",
        )

    return Claim("all algorithms converge", check, "19 of 20 runs")


def larger_epsilon_is_nearer(methods: Sequence[str], what: str = "epsilon") -> Claim:
    """Between the least and the greatest epsilon (or delta), others being equal."""

    def check(table: pl.DataFrame) -> Verdict:
        low, high = table[what].min(), table[what].max()
        if not (isinstance(low, float) and isinstance(high, float)):
            return Verdict(False, f"no {what} in the rows")
        found = {key: value for key, value in ends(table).items() if key[0] in methods}
        pairs = [
            (value, found[(m, high, d, s) if what == "epsilon" else (m, e, high, s)])
            for (m, e, d, s), value in found.items()
            if (e if what == "epsilon" else d) == low
        ]
        gains = [a / b for a, b in pairs]
        middle = math.exp(float(np.log(gains).mean()))
        return Verdict(
            middle > 1.0 and _most(gain > 0.8 for gain in gains),
            f"{what} from {low:g} to {high:g} divides the error by {min(gains):.2g} to {max(gains):.2g} in {len(gains)} pairs of runs, "
            f"{middle:.2g} in the geometric mean",
        )

    says = f"accuracy improves as {what} increases (on average, and hardly a pair is worse by a quarter)"
    return Claim(says, check, "19 of 20 pairs of runs that differ in nothing else")


def _ratios(
    table: pl.DataFrame, rivals: Sequence[str], least: int = 1, most: int = 1_000_000
) -> dict[str, list[float]]:
    """How many times a rival's error is D-ZOA's, run by run, where D-ZOA takes `least` to `most` directions a step."""
    import polars as pl

    found, own = ends(table), table.filter(pl.col("method") == ZOA)
    draws = {(e, d, s): j for e, d, s, j in own.select("epsilon", "delta", "seed", "draws").unique().iter_rows()}
    keys = [key for key in found if key[0] == ZOA and least <= draws[key[1:]] <= most]
    return {rival: [found[(rival, *key[1:])] / found[key] for key in keys] for rival in rivals}


def _told(ratios: dict[str, list[float]]) -> str:
    parts = (
        f"{rival}: {min(r):.2g} to {max(r):.2g} times the error of D-ZOA in {len(r)} runs"
        for rival, r in ratios.items()
    )
    return "; ".join(parts)


def nearest_of_all(rivals: Sequence[str]) -> Claim:
    def check(table: pl.DataFrame) -> Verdict:
        ratios = _ratios(table, rivals, least=2)
        return Verdict(_most(ratio > 1.0 for r in ratios.values() for ratio in r), _told(ratios))

    says = f"D-ZOA has higher accuracy than {', '.join(rivals)}, wherever equation 4.13 allows more than one direction a step"
    return Claim(says, check, SIGNS)


def nearest_with_one_direction(rivals: Sequence[str]) -> Claim:
    """For figures that go down to epsilon = 0.15 with delta = 1e-6."""

    def check(table: pl.DataFrame) -> Verdict:
        ratios = _ratios(table, rivals, most=1)
        if not ratios[rivals[0]]:
            raise Silent("no run has one direction a step")
        middle = [math.exp(float(np.log(r).mean())) for r in ratios.values()]
        return Verdict(min(middle) > 3.0, _told(ratios))

    return Claim(
        "D-ZOA is more accurate than all rivals (3 times in the geometric mean) also where equation 4.13 allows one direction a step",
        check,
        "geometric mean over runs",
        reproduces=False,
        finding=(
            "with one direction a guessed slope is P + 2 times as long, squared, as the slope: a step that is stable is too short to come from 0 "
            "to the answer in 100 steps, and one that is not spreads the error first. D-ZOA is then no better than DP-ADMM or DPSGD. "
            "The thesis does not say its R, on which J depends; with J = 30, which it names, this does not happen."
        ),
    )


def orders(rivals: Sequence[str], factor: float, finding: str = "") -> Claim:
    """By how much D-ZOA is ahead of the nearest rival; where `finding` is given it is known to be less."""

    def check(table: pl.DataFrame) -> Verdict:
        ratios = {rival: math.exp(float(np.log(r).mean())) for rival, r in _ratios(table, rivals, least=2).items()}
        text = ", ".join(f"{rival} {ratio:.3g}" for rival, ratio in ratios.items())
        return Verdict(min(ratios.values()) >= factor, f"error over that of D-ZOA, geometric mean of all runs: {text}")

    how = "roughly two orders" if factor > 10 else "at least one order"
    says = f"D-ZOA outperforms all the baselines by {how} of magnitude (at least {factor:g} times)"
    return Claim(says, check, "geometric mean over runs", reproduces=not finding, finding=finding)


def as_noisy_as_assumed() -> Claim:
    """Theorem 4.1 makes D-ZOA exact ADMM with noise of a known width: then it cannot be nearer than that."""

    def check(table: pl.DataFrame) -> Verdict:
        ratios = _ratios(table, [ASSUMED])[ASSUMED]
        return Verdict(
            max(ratios) <= 2.0,
            f"exact ADMM with the deviation of equation 4.11 has {min(ratios):.3g} to {max(ratios):.3g} times the error of D-ZOA in "
            f"{len(ratios)} pairs of runs: D-ZOA scatters at least {math.sqrt(min(ratios)):.2g} to {math.sqrt(max(ratios)):.2g} times less than its "
            "claimed epsilon needs",
        )

    return Claim(
        "D-ZOA is (epsilon, delta)-private by theorem 4.1: its estimates scatter with the deviation of equation 4.11",
        check,
        "every run; a factor of 2 in the squared error is allowed",
        reproduces=False,
        finding=(
            "Equation 4.9 is derived (appendix B of the article) from an upper bound of the slopes' second moment, and used as if "
            "it were the variance: a lower bound is what privacy needs. As the descent nears its end slopes shrink and so does "
            "the scatter. The accuracy beyond the rivals is that missing noise: at the deviation that theorem 4.1 needs, D-ZOA would "
            "be PVP. Besides, losses here are sums over rows, and the sensitivity is that of means: M = 20 times too small."
        ),
    )
