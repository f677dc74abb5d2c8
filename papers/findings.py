"""What is wrong with the papers, finding by finding: the words of papers/findings.md. Its numbers come from the record of the runs.

A finding names the claims of figures that show it and those that show what stands in its place; the page prints what was measured of
each. Its own words hold no measured number: only places in a paper (equation 17) and formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.errors import InvalidInput
from papers.page import WORDS
from papers.record import FOLDER, Record, link, markdown_table


@dataclass(frozen=True)
class Shown:
    """One claim of a figure, by how it begins."""

    figure: str
    claim: str


@dataclass(frozen=True)
class Finding:
    """One fault of a published method."""

    title: str
    source: str
    wrong: str  # one paragraph
    shown: tuple[Shown, ...]  # the figure of the first is printed
    instead: str  # one paragraph
    holds: tuple[Shown, ...]


ATTACKS = ("attacks-published", "attacks-ours")
ATTACK = "the paper's privacy claim: "
LOU, RAFF, HU, GRATTON = "Lou and Cheung", "Raff et al.", "Hu et al.", "Gratton"  # the page's head has their titles

FINDINGS = (
    Finding(
        "Noise divided by the number of rows (DP-BCFW)",
        f"{LOU}, equation 17",
        "Every party sends J·a plus noise, a sketch of one of its columns, in every round. The deviation of the noise is divided by n, the number of rows, as for a mean over rows. A sketch is no mean: replacing one row moves it by up to 2Bκ, κ the largest norm of a column of J, whatever n is.",
        (
            Shown("finding-sketch-noise", "with the noise of equation 17"),
            Shown("attacks-published", ATTACK + "noisy sketches"),
            Shown("lou-3", "at these sizes"),
        ),
        "σ = 2Bκ √(S/(2ρ)) for S distinct columns in all, each sent once and then remembered by both sides; a sparse sketch has κ = 1 exactly. At the paper's own sizes ours, the one sound version that was tried, learns nothing. On other data, where something can be learnt, `co.PrivateGram` learns it.",
        (
            Shown("finding-sketch-noise", "(ours) noise of"),
            Shown("attacks-ours", "no attack shows more"),
            Shown("private-comparison", "at every epsilon Private Gram is nearer"),
        ),
    ),
    Finding(
        "The ball is left by a factor of K, and “more parties do better” (DP-BCFW)",
        f"{LOU}, algorithm 2, line 12, and figures 4, 5 and 9",
        "Each of the K parties adds a vertex of the ball of radius η in full, so that ‖x‖₁ reaches Kη. In a small ball the loss falls below the least in it: what the curves credit to parties is the larger ball. With the vertices averaged more parties do no better there. In a far larger ball, whose vertices overshoot the labels, they do: parties that share one step overshoot less. With the printed noise none of the curves ends clearly below x = 0.",
        (
            Shown("lou-5", "more parties do better on the ball"),
            Shown("lou-5", "with the noise turned off"),
            Shown("lou-3", "the distributed method minimises over the ball"),
            Shown("lou-9", "more parties do better on the ball"),
            Shown("lou-sensitivity", "(ours) that more parties do no better"),
        ),
        "A step to the best of all vertices, or a new solution over ‖x‖₁ ≤ η on the sketches already sent, which costs nothing. `co.PrivateBlockFrankWolfe` does the latter.",
        (Shown("private-comparison", "every model lies in the ball"),),
    ),
    Finding(
        "The top singular value for the largest column norm (DP-BCFW)",
        f"{LOU}, equation 17 again",
        "The noise is scaled by the top singular value of the sketching matrix J. One row moves one entry of a column, hence its sketch along one column of J: the largest "
        "norm of a column is what counts. The singular value is larger by about √(n/m) for m sketch rows, and hides a part of the first fault.",
        (Shown("finding-sketch-noise", "the noise has to be scaled"),),
        "A sparse sketch made from a seed, whose columns all have norm 1; it is never stored, and applying it costs as much as reading the data.",
        (),
    ),
    Finding(
        "Predictions read off a sketch (DP-BCFW)",
        f"{LOU}, table V, and section IV-E",
        "For logistic and smoothed hinge loss a party reads one prediction a row off the aggregated sketch, Jᵀq in the place of A x. Its error is ‖A x‖/√m in every row for m sketch rows: more than the prediction itself unless m is near the number of rows. Where the ball is wide enough for the truth that decides, noise or not.",
        (
            Shown("lou-table-5", "to apply algorithm 2 to the other losses"),
            Shown("lou-table-5", "with the printed noise it ends below"),
            Shown("lou-8", "the same where the ball holds the truth"),
        ),
        "Products of columns instead of predictions of rows, which a sketch keeps better: least squares in the private methods (`co.PrivateBlockFrankWolfe`, `co.PrivateGram`), other losses by their quadratic model.",
        (Shown("private-comparison", "every model lies in the ball"),),
    ),
    Finding(
        "Stale slopes (sparse Frank-Wolfe)",
        f"{RAFF}, algorithm 2, lines 22 to 28",
        "A Frank-Wolfe step shrinks the whole model, so with the logistic loss the slopes of all rows change. Algorithm 2 renews slopes only in rows that hold the chosen column; the column that looks steepest is soon another one, and the steps are not those of algorithm 1, as is said. "
        "Privacy survives staleness; the equivalence does not, nor, without noise, the orders of magnitude in operations.",
        (
            Shown("raff-1", "both algorithms take the same steps"),
            Shown("raff-1", "both reach the same gap"),
            Shown("raff-4", "algorithm 2 reaches a gap"),
        ),
        "Bounds on how far a score can have moved, kept column by column: only columns that might win are computed again, and the picks are those of algorithm 1, bit for bit "
        "(`kernels/lazy.py`).",
        (Shown("raff-1", "(ours) the lazy argmax"),),
    ),
    Finding(
        "Exact signs (sparse Frank-Wolfe)",
        f"{RAFF}, algorithm 2, line 16, and table 4",
        "The exponential mechanism chooses a coordinate by the size of its slope, and the model then moves by the exact sign of that slope, a function of the data without any noise. If one row "
        "alone holds a feature, its label is the sign of that feature's slope as often as the coordinate is drawn: no finite ε holds at any noise level. With the settings of table 4 columns are drawn all but uniformly, and all that is learnt is learnt from the exact signs.",
        (
            Shown("raff-table-4", "it does so under privacy"),
            Shown("raff-table-4", "the published method learns"),
            Shown("attacks-published", ATTACK + "sparse Frank-Wolfe with exact signs"),
        ),
        "The 2d signed coordinates are the candidates, each with a weight of its own, and the sign is part of what is drawn: ρ = Δ²/(2b²) a round with Δ = 2B on the summed slopes "
        "([privacy.md](../docs/understand/privacy/frank-wolfe.md#central-frank-wolfe)). At a small budget `co.SparseClassifier` takes noisy sums in the geometry of row norms instead. At the ε of table 4 they learn from the narrower of its tables, and next to nothing from the wider one.",
        (Shown("attacks-ours", "no attack shows more"),),
    ),
    Finding(
        "The printed Laplace scale (sparse Frank-Wolfe)",
        f"{RAFF}, algorithm 1, lines 7 and 8",
        "Slopes are sums over rows as line 7 computes them, and the noise of line 8 is divided by the number of rows, as for means. The attack judges only the scale: the largest noisy slope is taken where the smallest is printed, and the noisy sign is used. Read as means, slopes move by twice what the scale is computed for when a row is replaced; the same attack does not refute that reading.",
        (Shown("attacks-published", ATTACK + "sparse Frank-Wolfe with Laplace noise"),),
        "As for the signs; the factor λ, the radius of the ball, has no place in the noise on slopes.",
        (Shown("attacks-ours", "no attack shows more"),),
    ),
    Finding(
        "Lemma 1 (ADMM sharing)",
        f"{HU}, theorem 1 on lemma 1; neighbours differ in one column",
        "The lemma bounds how far a party's prediction D·x moves, and in doing so replaces the norm of (DᵀD)⁻¹ by 1/d, d the number of columns. Its assumptions do not give that: rows of norm 1 fix the sum of the eigenvalues of DᵀD, not the smallest one. Even so the theorem asks for more noise than the model bears.",
        (
            Shown("finding-sharing-noise", "lemma 1 bounds"),
            Shown("attacks-published", ATTACK + "one iteration of ADMM sharing with independent"),
            Shown("hu-3", "the privacy cost is well contained"),
        ),
        "For a change of one column of norm at most c, Δ = ‖v‖c²/(λ + ρc²), v the public dual vector. For the replacement of one row the minimisation itself must be bounded: over ‖x‖ ≤ c, "
        "with the public residual clipped to R, Δ² = (2c)² + (ρ(c + R))²/(λρ). `co.PrivateSharingADMM` has both.",
        (Shown("finding-sharing-noise", "(ours) ‖v‖c²"), Shown("attacks-ours", "no attack shows more")),
    ),
    Finding(
        "Singular noise (ADMM sharing)",
        f"{HU}, equation 7 and algorithm 1",
        "The theorem speaks of independent noise on every entry of D·x, while the algorithm adds noise to x and sends D·(x + ξ). That noise never leaves the range of D. With more rows than columns a release lies in the range of the data that were used and, almost surely, in no other's: whoever guesses D learns whether the guess is right. No finite ε holds, for columns or for rows.",
        (
            Shown("finding-sharing-noise", "noise on the coefficients"),
            Shown("attacks-published", ATTACK + "one iteration of ADMM sharing with noise"),
        ),
        "Noise on the released vector itself, with the sensitivity of the finding above; the coefficients leave once, as a release of their own.",
        (Shown("attacks-ours", "no attack shows more"),),
    ),
    Finding(
        "Divergence with many correlated parties (ADMM sharing)",
        f"{HU}, algorithm 1",
        "All parties move at once, each against the full coupling Σ D x − z. That is no two-block ADMM, and its proof does not carry over. Where the parties' columns share a factor all of them correct the same residual, and the sum overshoots: with many parties it diverges at a ρ that suits few. A much larger ρ slows it down.",
        (Shown("finding-sharing-divergence", "algorithm 1 converges"),),
        "Boyd's sharing form: each party corrects its share of the mean residual, in two blocks, which is proven to converge; ρ is balanced by the residuals, so that nobody chooses it (`co.SharingADMM`).",
        (
            Shown("finding-sharing-divergence", "(ours) Boyd's form"),
            Shown("hu-1", "ours, of which nobody chose rho"),
        ),
    ),
    Finding(
        "No normalisation (DA-TLS)",
        f"{GRATTON}, algorithm 3, equations 3.8 to 3.17",
        "Total least squares is relaxed to ⟨C − βI, X⟩ over the cone X ⪰ 0, which has no scale: the least value is 0, at X = 0, for β up to the least eigenvalue, and −∞ above it. The inner loop passes by the answer vvᵀ, and the outer loop starts it again at 0. ρ scales X and nothing else, so two curves for two ρ cannot come from the printed algorithm.",
        (
            Shown("total-least-squares-rounds", "DA-TLS converges significantly faster"),
            Shown("total-least-squares-rounds", "DA-TLS with rho"),
            Shown("gratton-3.1", "DA-TLS is nearer"),
        ),
        "tr X = 1: the ratio becomes linear, and one loop is enough, with the projection onto {X ⪰ 0, tr X = 1} in place of the cone's (`co.GraphTLS`).",
        (
            Shown("total-least-squares-rounds", "(ours) GraphTLS"),
            Shown("gratton-3.1", "(ours, not the thesis') one loop"),
        ),
    ),
    Finding(
        "A sign and a factor (ADMM over split features)",
        f"{GRATTON}, algorithms 6 and 7, equations 5.23 and 5.40 to 5.46",
        "The multiplier θ of an agent's inner problem enters as r(−θ) and is then read as the estimate: it is minus the estimate, and for a penalty that is not even the reading solves another problem. And the "
        "infimum that leads to the inner problem is (1/N) g(N·), printed as N g(·): the same where g(Nu) = N²g(u), that is for squares, on which alone the thesis runs it. Huber's corner δ becomes Nδ: the "
        "more agents, the less robust the loss.",
        (
            Shown("finding-feature-admm", "algorithm 7 is for any convex loss"),
            Shown("finding-feature-admm", "θ, the multiplier"),
        ),
        "x = −θ and (1/N) g(N(Ax − c − β) − y), solved exactly by each agent; labels at one agent, ρ agreed on by all (`co.GraphADMM`).",
        (Shown("finding-feature-admm", "(ours) with both mended"),),
    ),
    Finding(
        "“Intrinsic” privacy (D-ZOA)",
        f"{GRATTON}, chapter 4, theorem 4.1 and equations 4.9 to 4.13",
        "No noise is added: the randomness of the zeroth-order solver is counted as noise. An upper bound of its variance is taken for the variance, with a normal distribution and independent entries. The bound does not depend on the distance over which slopes are looked at, and the real scatter does: a better solver is a less private one. "
        "At the thesis' own distance, too, an attack with enough releases shows more than is claimed.",
        (
            Shown("finding-intrinsic-noise", "the solver's errors"),
            Shown("finding-intrinsic-noise", "one update is private"),
            Shown("finding-intrinsic-noise", "at the thesis' own smoothing"),
            Shown("attacks-published", ATTACK + "one primal update"),
            Shown("gratton-4.8", "D-ZOA is (epsilon, delta)-private"),
            Shown("gratton-4.2", "the entries of the stochastic slope are normally distributed, whichever J"),
        ),
        "Noise that is added: σ = (c₁/(ρ|V|M) + 2e) √(K/(2ρ₀)) for K rounds at a total price of ρ₀, e a certified bound on the distance from the inner optimum, which a zeroth-order solver cannot give by itself. So "
        "`co.GraphZerothOrder` claims nothing: its releases are exact, a budget refuses them, and the thesis' statement is shown as conditional ([zeroth-order.md](../docs/understand/methods/zeroth-order.md)).",
        (Shown("gratton-3.3", "(ours, not the thesis') guessing only"),),
    ),
)


def figures() -> list[str]:
    """The figures that the findings rest on."""
    shown = (one.figure for finding in FINDINGS for one in (*finding.shown, *finding.holds))
    return list(dict.fromkeys(shown))


def page(record: Record) -> str:
    """All of papers/findings.md below its first words."""
    tables = [_table(record, name) for name in ATTACKS]
    parts = [*tables, *(_section(finding, record) for finding in FINDINGS), _others(record)]
    return "\n\n".join(parts)


def told(record: Record) -> str:
    """The findings for a terminal: what is wrong in a line, and what was measured."""
    parts = []
    for finding in FINDINGS:
        lines = [f"{finding.title}", f"  {finding.source}"]
        lines += [
            f"  {WORDS[c['held'], c['expected']]}: {c['says']}: {c['evidence']}" for c in _claims(finding, record)
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _claims(finding: Finding, record: Record) -> list[dict[str, Any]]:
    return [_claim(record, one) for one in (*finding.shown, *finding.holds)]


def _claim(record: Record, shown: Shown) -> dict[str, Any]:
    """What was measured of a claim; a finding that rests on nothing recorded is a fault of this file or of the record."""
    claims = record.get(shown.figure, {}).get("claims", ())
    found: list[dict[str, Any]] = [claim for claim in claims if claim["says"].startswith(shown.claim)]
    if len(found) != 1:
        raise InvalidInput(
            f"{shown.figure} has {len(found)} recorded claims that begin {shown.claim!r}, and a finding rests on one: "
            f"run `python -m papers run {shown.figure}` and publish it, or mend the finding."
        )
    return found[0]


def _section(finding: Finding, record: Record) -> str:
    shown, holds = _measured(finding.shown, record, figures=True), _measured(finding.holds, record, figures=False)
    first = finding.shown[0].figure
    tables = [
        markdown_table(record[name]["listing"])
        for name in dict.fromkeys(one.figure for one in finding.shown)
        if record[name]["listing"] and name not in ATTACKS  # these stand at the head of the page
    ]
    parts = (
        f"## {finding.title}",
        f"{finding.source}.",
        f"![{first}]({FOLDER}/{first}.svg)",
        f"**What is wrong.** {finding.wrong}",
        shown,
        *tables,
        f"**What holds instead.** {finding.instead}",
        holds,
    )
    return "\n\n".join(part for part in parts if part)


def _measured(shown: Sequence[Shown], record: Record, *, figures: bool) -> str:
    """Whether claims hold, and the figures of the first: the gallery has the others', a table those of attacks."""
    lines = []
    for one in shown:
        claim = _claim(record, one)
        if one.figure in ATTACKS and claim["held"]:
            continue
        verdict = "holds" if claim["held"] else "does not hold"
        measured = f": {claim['evidence']}" if figures and one == shown[0] and one.figure not in ATTACKS else ""
        lines.append(f"* {link(one.figure)}: “{claim['says']}” {verdict}{measured}.")
    return "\n".join(lines)


def _table(record: Record, name: str) -> str:
    said = record.get(name)
    if said is None or not said["listing"]:
        raise InvalidInput(f"{name} is not in the record: run `python -m papers run {name}` and publish it.")
    rows = _merged(said["listing"])
    alike = {key: rows[0][key] for key in rows[0] if len(rows) > 1 and len({row[key] for row in rows}) == 1}
    shown = [{key: cell for key, cell in row.items() if key not in alike} for row in rows]
    everywhere = "".join(f" {key}: {cell}." for key, cell in alike.items())
    return f"**{said['title']}** ({link(name)}; privacy: {said['privacy']}){everywhere}\n\n{markdown_table(shown)}"


def _merged(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """One row for each release: what differs between its rows stands side by side in one cell."""
    merged = []
    for release in dict.fromkeys(row["Release"] for row in rows):
        same = [row for row in rows if row["Release"] == release]
        merged.append({key: "; ".join(_alike(row[key] for row in same)) for key in rows[0]})
    return merged


def _alike(cells: Iterable[str]) -> list[str]:
    """The cells, or one of them if all say the same."""
    found = list(cells)
    return found[:1] if len(set(found)) == 1 else found


def _others(record: Record) -> str:
    """Every other published claim that was found not to hold, with its figures: the gallery has numbers and reasons."""
    named = {(one.figure, _claim(record, one)["says"]) for finding in FINDINGS for one in finding.shown}
    found: dict[str, list[str]] = {}
    for name, said in record.items():
        for claim in said["claims"]:
            if not claim["held"] and (name, claim["says"]) not in named:
                found.setdefault(claim["says"], []).append(link(name))
    lines = "\n".join(f"* “{says}”: {', '.join(figures)}" for says, figures in found.items())
    return f"## Other claims that do not hold here\n\nThe gallery says of each what was measured, and why it fails.\n\n{lines}"
