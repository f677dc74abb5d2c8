"""The term of one party's columns: its part of the penalty, over its set.

A problem's set ties no parties together here: a Box or x ≥ 0 holds for each column alone, and of a Product each block
lies at one party. A ball or simplex over all columns is one party's own only if no other party has columns.
"""

from __future__ import annotations

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Array
from colonnade.model.job import Job
from colonnade.problem import GroupLasso, Penalty, Problem
from colonnade.problem.penalties import Free, Within
from colonnade.problem.sets import COLUMNS, Box, L1Ball, L2Ball, NonNegative, Product, Set, Simplex


def local_term(job: Job, positions: Array) -> Penalty:
    """Of a party that holds these columns of the joint table, numbered as it numbers them."""
    problem = job.problem
    penalty = None if problem.penalty is None else local_penalty(problem, positions)
    if problem.constraint is None:
        return Free() if penalty is None else penalty
    own = local_set(job, problem.constraint, positions)
    if isinstance(own, NonNegative) and penalty is None:
        return Free(signed=False)
    return Within(own, penalty)


def local_set(job: Job, whole: Set, positions: Array) -> Set:
    """The part of a problem's set that bounds one party's columns."""
    if isinstance(whole, Box | NonNegative):
        return whole
    holders = job.roster.with_columns
    if isinstance(whole, Product):
        if whole.blocks == COLUMNS and not isinstance(whole.each, Simplex):
            return Box(-whole.radius, whole.radius)
        places = {int(place): own for own, place in enumerate(positions)}
        blocks = whole.over([job.roster.positions[name] for name in holders]).blocks
        assert not isinstance(blocks, str)
        inside = tuple(tuple(places[place] for place in group) for group in blocks if group[0] in places)
        return whole.each if len(inside) == 1 else Product(whole.each, inside)
    if isinstance(whole, L1Ball | L2Ball | Simplex) and len(holders) == 1:
        return whole
    kind = type(whole).__name__
    each = f"co.{kind}({whole.radius:g})" if isinstance(whole, L1Ball | L2Ball | Simplex) else "co.L2Ball(radius)"
    remedy = "" if isinstance(whole, L2Ball) else "; or use co.DistributedFrankWolfe()"
    raise InvalidInput(
        f"a {kind} of all columns ties the parties together, and this method needs a set for each: give "
        f"co.Product({each}, blocks='parties'), co.Box(low, high) or co.NonNegative(){remedy}."
    )


def local_penalty(problem: Problem, positions: Array) -> Penalty:
    """The penalty of one party's columns, numbered as the party numbers them."""
    penalty = problem.penalty
    assert penalty is not None
    if not isinstance(penalty, GroupLasso):
        return penalty
    places = {int(place): own for own, place in enumerate(positions)}
    split = [group for group in penalty.named if 0 < sum(column in places for column in group) < len(group)]
    if split:
        wrong = f"{len(split)} of {len(penalty.named)} groups are split over parties, the first is {split[0]}"
        raise InvalidInput(f"{wrong}: give each group's columns to one party, or cut the group along the parties.")
    inside = tuple(tuple(places[column] for column in group) for group in penalty.named if group[0] in places)
    if (named := sum(map(len, inside))) != len(places):
        wrong = f"a party has {len(places)} columns and the groups name {named} of them"
        raise InvalidInput(f"{wrong}: every column needs one group; a column on its own is one such as (7,).")
    return GroupLasso(penalty.a, inside)
