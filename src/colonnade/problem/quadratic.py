"""The best point of a convex quadratic with a penalty or over a set, with a bound on what is missing.

Solves   min_x ½x'Gx − b'x + penalty(x),  or over a set; G symmetric without negative eigenvalues, maybe singular.
Serves   where G and b are all there is, and the answer needs a bound: whatever is fitted from a Gram matrix.
How      no penalty, Ridge: closed form. Lasso, ElasticNet: coordinate descent. GroupLasso, sets: projected or proximal
         gradients with momentum. Where the answer lies on a face (Lasso, ElasticNet, L1Ball, Simplex), the quadratic is
         solved exactly on the face that the iterations have found. Where an L1Ball is too flat for that: the lasso's
         path.
Bound    every z gives ½x'Gx ≥ x'Gz − ½z'Gz, hence the minimum is at least −½z'Gz − penalty*(b − Gz). Lasso and
         GroupLasso need b − Gz in the domain of penalty*: z is drawn from x towards β with Gβ = b until it is.
         Over a set: <x, Gx − b> minus its least value there.

Cone     of curves that never fall: min ½(z − x)'H(z − x) over z whose monotone blocks have increments v = D·z_block of
         one sign (D regular: kernels/curves.py), all other coefficients free. The free ones are minimised out, which
         leaves their Schur complement S; with z_block = D⁻¹v, v ≥ 0 that is a least-squares problem over v ≥ 0, solved
         exactly by active sets (Lawson and Hanson 1974). If x minimises a quadratic with Hessian H, z minimises it over
         the cone: no approximation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.curves import increments
from colonnade.kernels.prox import coordinate_descent, look_ahead
from colonnade.problem.penalties import ElasticNet, GroupLasso, Lasso, Penalty, Ridge
from colonnade.problem.sets import GroupL1Ball, L1Ball, Set, Simplex

SWEEPS = 5000
STEPS = 40_000
EVERY = 25  # proximal steps between two looks at the gap and the face
CROSSINGS = 10  # coordinates that one step on a face may bring to 0
RANK = 1e-12  # eigenvalues below this share of the largest count as 0


@dataclass(frozen=True)
class Minimum:
    """A point, its objective, and a bound on how much lower the minimum can be."""

    x: Floats
    value: float
    gap: float


Term = Ridge | Lasso | ElasticNet | GroupLasso | L1Ball | Simplex | GroupL1Ball | None  # what is solved here


def check_term(term: Penalty | Set | None) -> Term:
    """The term, or InvalidInput where a quadratic with it is not solved here."""
    if isinstance(term, Term):
        return term
    known = "Ridge, Lasso, ElasticNet or GroupLasso, or over an L1Ball, a Simplex or a GroupL1Ball"
    raise InvalidInput(f"{type(term).__name__} is not solved from a Gram matrix: fit with {known}.")


def minimise(
    G: Floats, b: Floats, term: Penalty | Set | None = None, *, start: Floats | None = None, tolerance: float = 1e-10
) -> Minimum:
    """argmin ½x'Gx − b'x + penalty, or over the set; stops at a gap of tolerance times the size of the objective."""
    G, b = _check_inputs(G, b)
    match check_term(term):
        case None | Ridge() as closed:
            return _closed_form(G, b, closed)
        case Lasso() | ElasticNet() as separable:
            return _descent(G, b, separable, start, tolerance)
        case other:
            return _proximal(G, b, other, start, tolerance)


def path(G: Floats, b: Floats, terms: Sequence[Penalty | Set], *, tolerance: float = 1e-10) -> list[Minimum]:
    """One minimum for each term, in their order, each started from the last: put neighbours next to each other."""
    found: list[Minimum] = []
    for term in terms:
        start = found[-1].x if found else None
        if start is not None and isinstance(term, L1Ball | Simplex | GroupL1Ball):
            start = term.project(start)
        found.append(minimise(G, b, term, start=start, tolerance=tolerance))
    return found


# ------------------------------------------------------------------------------------------------ closed form


def _closed_form(G: Floats, b: Floats, term: Ridge | None) -> Minimum:
    if term is not None:
        x = np.asarray(linalg.cho_solve(linalg.cho_factor(G + term.a * np.eye(b.size)), b))
        return _certificate(x, b, b - G @ x, term, None)
    values, along, vectors = _range(G, b)
    x = vectors @ (along / values)
    missing = vectors.T @ (b - G @ x)
    return Minimum(x, float(x @ (0.5 * (G @ x) - b)), 0.5 * float(np.sum(np.square(missing) / values)))


def _whole(G: Floats, b: Floats) -> Floats:
    """The shortest β with Gβ = b."""
    values, along, vectors = _range(G, b)
    return vectors @ (along / values)


def _range(G: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """G's eigenvalues above 0, b along their vectors, and those; InvalidInput where b has more."""
    values, vectors = np.linalg.eigh(G)
    kept = values > RANK * max(float(values[-1]), 0.0)
    along = vectors.T @ b
    if float(np.linalg.norm(along[~kept])) > 1e-7 * float(np.linalg.norm(b)):
        raise InvalidInput(
            f"b leaves the range of G, which has rank {int(kept.sum())} of {b.size}: the quadratic falls without "
            "bound. Add a Ridge or an ElasticNet, or a constraint."
        )
    return values[kept], along[kept], vectors[:, kept]


# ------------------------------------------------------------------------------------------------ iterations


def _descent(G: Floats, b: Floats, term: Lasso | ElasticNet, start: Floats | None, tolerance: float) -> Minimum:
    l1, l2 = (term.a, 0.0) if isinstance(term, Lasso) else (term.l1, term.l2)
    beta = _whole(G, b) if isinstance(term, Lasso) else None
    x = np.zeros(b.size) if start is None else start.astype(np.float64)
    found = _certificate(x, b, b - G @ x, term, beta)
    for _ in range(SWEEPS):
        signs = np.sign(x)
        # Anew each time: the kernel's own updates would drift.
        slope = b - G @ x
        coordinate_descent(G, l1, l2, x, slope)
        found = _certificate(x, b, b - G @ x, term, beta)
        if found.gap > _enough(found, b, tolerance) and np.array_equal(signs, np.sign(x)):
            face = _to_face(x, lambda used, sign: _free_target(G, b, used, sign, l1, l2))
            found = min(found, _certificate(face, b, b - G @ face, term, beta), key=lambda minimum: minimum.value)
            x = found.x
        if found.gap <= _enough(found, b, tolerance):
            break
    return found


def _proximal(
    G: Floats, b: Floats, term: GroupLasso | L1Ball | Simplex | GroupL1Ball, start: Floats | None, tolerance: float
) -> Minimum:
    beta = _whole(G, b) if isinstance(term, GroupLasso) else None
    bound = float(linalg.eigvalsh(G, subset_by_index=[b.size - 1, b.size - 1])[0])
    step = 1.0 / bound if bound > 0.0 else 1.0

    def closer(v: Floats) -> Floats:
        return term.prox(v, step) if isinstance(term, GroupLasso) else term.project(v)

    if start is None:
        start = np.zeros(b.size) if isinstance(term, GroupLasso) else term.start(b.size)
    x = ahead = start
    momentum = 1.0
    signs = np.zeros(b.size)
    found = _certificate(x, b, b - G @ x, term, beta)
    for t in range(STEPS):
        if t % EVERY == 0:
            found = _certificate(x, b, b - G @ x, term, beta)
            if isinstance(term, L1Ball | Simplex) and np.array_equal(signs, np.sign(x)):
                face = _on_sphere(G, b, term, x)
                found = min(found, _certificate(face, b, b - G @ face, term, beta), key=lambda minimum: minimum.value)
                x = ahead = found.x
            if found.gap <= _enough(found, b, tolerance):
                break
            signs = np.sign(x)
        new = closer(ahead + step * (b - G @ ahead))
        ahead, momentum = look_ahead(x, ahead, new, momentum)
        x = new
    if isinstance(term, L1Ball) and found.gap > _enough(found, b, tolerance):
        walked = _homotopy(G, b, term.radius)
        found = min(found, _certificate(walked, b, b - G @ walked, term, beta), key=lambda minimum: minimum.gap)
    return found


def _homotopy(G: Floats, b: Floats, radius: float) -> Floats:
    """The lasso's own path from 0 to where it meets the ball: exact, for quadratics too flat for gradients."""
    # Half a second, needed where all else has failed.
    from sklearn.linear_model import lars_path_gram

    with warnings.catch_warnings():
        # It warns when columns leave for good; the gap says what that cost.
        warnings.simplefilter("ignore")
        _, _, knots = lars_path_gram(Xy=b, Gram=G.copy(), n_samples=1, method="lasso")
    norms = np.abs(knots).sum(axis=0)
    beyond = np.flatnonzero(norms >= radius)
    if not beyond.size:
        return np.asarray(knots[:, -1])
    last = int(beyond[0])
    before = knots[:, max(last - 1, 0)]
    after = knots[:, last]
    low = norms[max(last - 1, 0)]
    high = norms[last]
    share = 1.0 if high <= low else (radius - low) / (high - low)
    # Between knots no sign changes, so the norm is linear too; a hair of rounding is scaled away.
    x = before + share * (after - before)
    return np.asarray(x * min(1.0, radius / max(float(np.abs(x).sum()), 1e-300)))


# ------------------------------------------------------------------------------------------------ faces

Target = Callable[[Indices, Floats], Floats]


def _to_face(x: Floats, target: Target) -> Floats:
    """Towards the best point with these signs; a coordinate that reaches 0 on the way stays there."""
    for _ in range(CROSSINGS):
        used = np.flatnonzero(x)
        if used.size == 0:
            break
        here = x[used]
        sign = np.sign(x[used])
        goal = target(used, sign)
        crossing = goal * sign <= 0.0
        share = np.where(crossing, here / np.where(crossing, here - goal, 1.0), 1.0)
        first = float(share.min())
        x = np.zeros(x.size)
        x[used] = np.where(crossing & (share == first), 0.0, here + first * (goal - here))
        if not crossing.any():
            break
    return x


def _free_target(G: Floats, b: Floats, used: Indices, sign: Floats, l1: float, l2: float) -> Floats:
    """argmin over the columns in use, with their signs fixed."""
    return _solve(G[np.ix_(used, used)] + l2 * np.eye(used.size), b[used] - l1 * sign)


def _on_sphere(G: Floats, b: Floats, term: L1Ball | Simplex, x: Floats) -> Floats:
    """The best point on the face of the ball or simplex that x lies on, or of the orthant when x lies inside a ball."""

    def target(used: Indices, sign: Floats) -> Floats:
        bordered = np.zeros((used.size + 1, used.size + 1))
        bordered[:-1, :-1] = G[np.ix_(used, used)]
        bordered[-1, :-1] = bordered[:-1, -1] = sign
        return _solve(bordered, np.append(b[used], term.radius))[:-1]

    if isinstance(term, L1Ball) and float(np.sum(np.abs(x))) < term.radius * (1.0 - 1e-12):
        return term.project(_to_face(x, lambda used, sign: _free_target(G, b, used, sign, 0.0, 0.0)))
    face = _to_face(x, target)
    return face * (term.radius / float(np.sum(np.abs(face))))


def _solve(matrix: Floats, right: Floats) -> Floats:
    """matrix⁻¹ right; the shortest of the nearest where the matrix is singular."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", linalg.LinAlgWarning)
            return np.asarray(linalg.solve(matrix, right, assume_a="sym"), dtype=np.float64)
    except (linalg.LinAlgError, linalg.LinAlgWarning):
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=RANK)[0], dtype=np.float64)


# ------------------------------------------------------------------------------------------------ certificate


def _certificate(x: Floats, b: Floats, slope: Floats, term: Penalty | Set, beta: Floats | None) -> Minimum:
    """x with its objective and the bound; slope = b − Gx, and Gβ = b where the penalty needs it."""
    square = max(float(x @ (b - slope)), 0.0)
    smooth = 0.5 * square - float(b @ x)
    if isinstance(term, L1Ball | Simplex | GroupL1Ball):
        return Minimum(x, smooth, max(term.gap(x, -slope), 0.0))
    assert not isinstance(term, Set)
    value = smooth + term.value(x)
    if beta is None:
        bound = -0.5 * square - term.conjugate(slope)
    else:
        factor = term.shrink(slope)
        z = beta - factor * (beta - x)
        bound = -0.5 * float(z @ (b - factor * slope)) - term.conjugate(factor * slope)
    return Minimum(x, value, max(value - bound, 0.0))


def _enough(found: Minimum, b: Floats, tolerance: float) -> float:
    return tolerance * (abs(found.value) + abs(float(b @ found.x)))


def _check_inputs(G: Floats, b: Floats) -> tuple[Floats, Floats]:
    G = np.ascontiguousarray(G, dtype=np.float64)
    b = np.asarray(b, dtype=np.float64)
    if b.ndim != 1 or b.size == 0 or G.shape != (b.size, b.size):
        raise InvalidInput(f"G has shape {G.shape} and b {b.shape}: give a square matrix and a vector of its width.")
    if not (np.isfinite(G).all() and np.isfinite(b).all()):
        raise InvalidInput("G or b holds NaN or infinity: clip and scale the columns before the Gram is made.")
    if not np.allclose(G, G.T, rtol=1e-10, atol=1e-10 * float(np.abs(G).max())) or float(np.diag(G).min()) < 0.0:
        raise InvalidInput("G must be symmetric with no negative eigenvalue: average it with its transpose.")
    return G, b


Block = tuple[Indices, int]  # places of t and its hats, and 1 or -1

TINY = 1e-12  # of the mean diagonal: what makes a Hessian of dependent columns regular


def blocks_of(level: Indices, monotone: Indices) -> list[Block]:
    """The blocks of numbers that have a direction: hats stand behind their number."""
    lines = np.flatnonzero(level == 0)
    ends = dict(zip(lines.tolist(), [*lines[1:].tolist(), level.size], strict=False))  # there may be none
    return [(np.arange(start, ends[start]), int(monotone[start])) for start in np.flatnonzero(monotone).tolist()]


def nearest_monotone(x: Floats, hessian: Floats, blocks: Sequence[Block]) -> Floats:
    """x itself where its blocks are monotone; else the nearest in the metric of the Hessian that are."""
    maps = [sign * increments(int(at.size).bit_length() - 1) for at, sign in blocks]
    if all((steps @ x[at] >= 0.0).all() for steps, (at, _) in zip(maps, blocks, strict=True)):
        return x
    bound = np.concatenate([at for at, _ in blocks])
    free = np.setdiff1d(np.arange(x.size), bound)
    whole = hessian + TINY * float(np.trace(hessian)) / x.size * np.eye(x.size)
    across = linalg.solve(whole[np.ix_(free, free)], whole[np.ix_(free, bound)], assume_a="pos")
    metric = whole[np.ix_(bound, bound)] - whole[np.ix_(bound, free)] @ across
    root = linalg.cholesky((metric + metric.T) / 2.0)
    back = linalg.block_diag(*(np.linalg.inv(steps) for steps in maps))
    # Of what a fit needs this alone would load all optimisers.
    from scipy.optimize import nnls

    rises, _ = nnls(root @ back, root @ x[bound])
    z = x.copy()
    z[bound] = back @ rises
    z[free] -= across @ (z[bound] - x[bound])
    return z
