"""Every algorithm, theorem, figure and table of the five papers: where it is, how it is called, what holds, and who checks that.

The words are here, the verdicts come from the record. A row names what checks it: figures of this folder, test files, attacks. A test
holds the names to what there is, the test files to the names, and the figures to the registry: none may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from papers.pieces import hours
from papers.record import Record, link, listed, markdown_table, mode, waiting
from papers.registry import discover

BELLET, LOU, RAFF, HU, GRATTON, OWN = (
    "Bellet et al. 2015",
    "Lou & Cheung 2020",
    "Raff et al. 2023",
    "Hu et al. 2020",
    "Gratton 2021",
    "this project",
)
NOBODY = "by nobody"


@dataclass(frozen=True)
class Item:
    """One row of the table."""

    paper: str
    what: str
    call: str  # code in backticks is looked up by a test; else in words
    holds: str
    fails: str
    checked: str = ""  # test files and attacks; figures are named below
    figures: tuple[str, ...] = ()


def shown(paper: str, what: str, call: str, *figures: str) -> Item:
    """A figure or table: what holds of it is in the record."""
    return Item(paper, what, call, "", "", "", figures)


ITEMS: tuple[Item, ...] = (
    # ---------------------------------------------------------------- Bellet et al.
    Item(BELLET, "Algorithms 1, 2: Frank-Wolfe, its vertex", "`co.DistributedFrankWolfe` with one party; `co.L1Ball`, `co.Simplex`, `co.GroupL1Ball`", "all", "nothing", "tests/methods/test_dfw_graph.py, tests/problem/test_sets.py"),
    Item(BELLET, "Theorem 1: 6.75 C/ε iterations", "`co.DistributedFrankWolfe`: its gap is the certificate", "the gap bounds objective − optimum", "nothing; the constant is not tested", "tests/methods/test_certificates.py"),
    Item(BELLET, "Algorithm 3: dFW, on star, tree and graph", "`co.DistributedFrankWolfe`, `co.Topology`", "same iterates on every graph; counts on every edge", "nothing", "tests/methods/test_dfw_graph.py"),
    Item(BELLET, "Theorem 2, claim 3: communication", "`co.DistributedFrankWolfe`; `fit.communication` counts", "the order: on star and tree by nodes, rows and gap, on a ring by nodes", "nothing", "tests/methods/test_dfw_graph.py"),
    Item(BELLET, "Claim 1: a good approximation takes atoms of both nodes", "`co.DistributedFrankWolfe`", "in runs on the paper's hardest problem", "nothing", "tests/methods/test_dfw_graph.py"),
    Item(BELLET, "Theorem 3, claim 2, appendix B: lower bound on communication", "nothing to call", "not tested: a statement about all algorithms", "not tested", "nothing that a run could check"),
    Item(BELLET, "Section 5: kernel SVM over examples", "`co.KernelSVM`, `co.RBF`", "the dual, its gap, memory of a node", "one machine for two classes; more are refused", "tests/methods/test_kernel_svm.py"),
    Item(BELLET, "Section 5: l1-AdaBoost", "`co.AdaBoost`", "with the gradient's 1/T, which the paper drops", "the printed gradient, hence the printed gap", "tests/methods/test_adaboost.py"),
    Item(BELLET, "Section 7: random atoms, local coresets, partitions", "`papers.baselines.random_atoms`, `papers.baselines.local_coresets`, `papers.partition.similar`", "as described", "by similarity the nearest node is taken, not drawn", "tests/papers/test_baselines.py"),
    Item(BELLET, "Section 7.3: ADMM, six settings", "`papers.published.boyd_sharing`", "all six go to the lasso of scikit-learn", "nothing", "tests/papers/test_smoke.py"),
    Item(BELLET, "Figure 1: topologies", "`co.Topology.star`, `co.Topology.tree`", "a drawing, no claim", "no claim", "tests/problem/test_topology.py"),
    shown(BELLET, "Figure 2(a): kernel SVM", "`python -m papers run \"bellet-2a*\"`", "bellet-2a", "bellet-2a-others"),
    Item(BELLET, "Figure 2(b): 8 million examples of speech", "nothing to call", "not run: the data are licensed", "not run", "by nobody, without the data"),
    shown(BELLET, "Figure 3(a): lasso against ADMM", "`python -m papers run bellet-3a`", "bellet-3a"),
    shown(BELLET, "Figure 3(b): lasso against baselines", "`python -m papers run bellet-3b`", "bellet-3b"),
    shown(BELLET, "Figure 4: iterations and time", "`python -m papers run bellet-4`", "bellet-4"),
    # ---------------------------------------------------------------- Lou and Cheung
    Item(LOU, "Algorithm 1: BCFW-AS, all samplings", "`co.BlockFrankWolfe`, `co.Elementary`, `co.Nice`, `co.PerParty`, `co.Serial`, `co.Independent`", "with p_min by its definition", "the p_min of table III for (K, τ)", "tests/methods/test_block_frank_wolfe.py", ("lou-1", "lou-2")),
    Item(LOU, "Definition 3, propositions 1 to 4: expected curvature", "nothing to call: tests/helpers/curvature.py", "for the losses' own 1/n; 1 and 2 tested for least squares", "nothing", "tests/methods/test_block_frank_wolfe.py"),
    Item(LOU, "Theorem 1: convergence", "`co.BlockFrankWolfe`", "for every sampling", "nothing; 200 rounds end above x = 0", "tests/methods/test_block_frank_wolfe.py", ("lou-1",)),
    Item(LOU, "Theorem 2: inexact steps", "`co.BlockFrankWolfe`", "with errors |T|(D ϱ_g + ϱ_l), D of a block", "the printed (D + |T|) ϱ_g + |T| ϱ_l is not tested: the proof gives another sum", "tests/methods/test_block_frank_wolfe.py"),
    Item(LOU, "Algorithm 2: DP-BCFW-AS", "`papers.published.PublishedBlockFrankWolfe`; ours `co.PrivateBlockFrankWolfe`", "ours stays in the ball and within its budget", "x leaves the ball K-fold; the noise is n times too small", "tests/papers/test_baselines.py, tests/methods/test_private_block_frank_wolfe.py", ("finding-sketch-noise", "private-comparison")),
    Item(LOU, "Lemma 1: report noisy max", "ours `colonnade.privacy.gate.Gate.noisy_max`", "ours, by the exponential mechanism at the scale of its price", "nothing; known, and not tested as printed", "tests/privacy/test_gate.py"),
    Item(LOU, "Lemma 2: privacy of the sketches", "`papers.published.SketchedColumns`", "nothing", "refuted by a closed form and by attack", "tests/papers/test_published.py, attack published-sketch", ("finding-sketch-noise", "attacks-published")),
    Item(LOU, "Lemma 3: privacy of the index", "`papers.published.PublishedBlockFrankWolfe`", "not refuted here", "not attacked by itself", NOBODY),
    Item(LOU, "Theorem 3: privacy of algorithm 2", "`papers.published.PublishedBlockFrankWolfe`", "nothing", "falls with lemma 2", "attack published-sketch", ("attacks-published",)),
    Item(LOU, "Theorem 4, table IV: utility", "`papers.published.PublishedBlockFrankWolfe`", "nothing at these sizes", "the excess does not fall with the rows", "", ("lou-4",)),
    Item(LOU, "Corollary 1: uplink communication", "ours `co.PrivateBlockFrankWolfe`", "ours: an index a party and round, and a sketch for every new column", "nothing; the order is not tested, nor the published method counted", "tests/methods/test_private_block_frank_wolfe.py"),
    Item(LOU, "Tables I, II: notation, related work", "nothing to call", "no claim about the method", "no claim", "nothing to check"),
    Item(LOU, "Table III: p_min", "`co.PerParty`", "elementary, τ-nice", "(K, τ): the square of what the definition gives", "tests/methods/test_block_frank_wolfe.py", ("lou-1",)),
    shown(LOU, "Table V: other losses", "`papers.published.PublishedBlockFrankWolfe`", "lou-table-5"),
    *(shown(LOU, f"Figure {k}: {what}", f"`python -m papers run lou-{k}`", f"lou-{k}") for k, what in enumerate(("samplings", "K without privacy", "beside the central method", "rows", "K", "ε", "division of ε", "sketch", "real data"), 1)),
    shown(LOU, "What the paper does not give: radius, rounds, sketch", "`python -m papers run lou-sensitivity`", "lou-sensitivity"),
    # ---------------------------------------------------------------- Raff et al.
    Item(RAFF, "Algorithm 1: standard Frank-Wolfe", "`papers.published.algorithm_1.argmax_picks`; ours `co.SparseClassifier`, `co.CentralFrankWolfe`", "all, with the largest score", "argmin for argmax; the Laplace scale", "tests/kernels/test_sparse_fw.py, tests/estimators/test_estimators.py, tests/privacy/test_private_runs.py, attack published-laplace", ("attacks-published",)),
    Item(RAFF, "Algorithm 2: fast Frank-Wolfe", "`papers.published.published_noisy_max`", "cheap steps where columns are rare", "not algorithm 1's steps; exact signs leave", "tests/papers/test_raff.py, attack published-sign", ("raff-1", "attacks-published")),
    Item(RAFF, "Algorithm 3: Fibonacci heap", "`papers.published.heap_picks`", "few pops; a binary heap, the same items", "the picks are those of stale slopes", "tests/papers/test_raff.py", ("raff-3",)),
    Item(RAFF, "Algorithm 4: Big-Step Little-Step", "`papers.published.published_big_step_little_step`", "draws from its weights, with groups by division", "groups by remainder, as printed; cancellation in lines 34 and 35", "tests/kernels/test_sparse_fw.py"),
    Item(RAFF, "Appendix B.1: utility of algorithm 2", "`papers.published.SparseFrankWolfe`", "not tested: no run measures the bound", "its proof, which takes the steps for algorithm 1's", "", ("raff-1", "raff-table-4")),
    Item(RAFF, "Appendix B.2: privacy of algorithms 2 and 4", "`papers.published.SparseFrankWolfe`", "nothing", "the exact sign is seen without noise", "tests/papers/test_published.py, attack published-sign", ("attacks-published",)),
    Item(RAFF, "Table 1: prior methods", "nothing to call", "no claim about the method", "no claim", "nothing to check"),
    Item(RAFF, "Table 2: data", "nothing to call: papers/figures/raff_data.py", "RCV1 and 20 Newsgroups as they can be had", "URL, Web and KDDA are made up", "tests/papers/test_raff.py"),
    *(shown(RAFF, f"Figure {k}: {what}", f"`python -m papers run raff-{k}`", f"raff-{k}") for k, what in enumerate(("convergence", "operations", "pops", "gap against operations"), 1)),
    *(shown(RAFF, f"Table {k}: {what}", f"`python -m papers run raff-table-{k}`", f"raff-table-{k}") for k, what in ((3, "times faster"), (4, "accuracy at ε = 0.1"))),
    # ---------------------------------------------------------------- Hu et al.
    Item(HU, "Algorithm 1: ADMM sharing", "`papers.published.ParallelSharing`; ours `co.SharingADMM`", "with few parties", "with many correlated parties it diverges", "tests/papers/test_published_sharing.py, tests/methods/test_sharing_admm.py", ("finding-sharing-divergence",)),
    Item(HU, "Lemma 1: sensitivity", "`papers.published.SharingADMM`; ours `co.PrivateSharingADMM`", "‖v‖c²/(λ + ρc²), ours", "the printed bound", "tests/papers/test_published.py, tests/privacy/test_private_admm.py, attack published-sharing-lemma", ("finding-sharing-noise", "attacks-published")),
    Item(HU, "Theorem 1: privacy of an iteration", "`papers.published.SharingADMM`", "nothing", "falls with lemma 1, and with noise in the range of D", "attacks published-sharing-lemma, published-sharing-range", ("attacks-published",)),
    Item(HU, "Corollary 1: composition", "`papers.figures.hu_sharing.composed`", "as known", "rests on theorem 1", "tests/papers/test_hu.py"),
    Item(HU, "FDML: SGD over split features", "`papers.published.FeatureSGD`", "as described, without staleness", "nothing", "tests/papers/test_published_sharing.py"),
    *(shown(HU, f"Figure {k}: {what}", f"`python -m papers run hu-{k}`", f"hu-{k}") for k, what in enumerate(("a9a", "gisette", "noise"), 1)),
    # ---------------------------------------------------------------- Gratton
    Item(GRATTON, "Algorithm 1: consensus ADMM over split rows", "`papers.published.private_rivals.PrimalPerturbation` without noise", "goes to the answer of all rows together", "nothing", "tests/papers/test_zeroth_private.py"),
    Item(GRATTON, "Algorithm 2: ADMM with primal perturbation", "`papers.published.private_rivals.PrimalPerturbation`", "as a rival of D-ZOA", "its guarantee is claimed for other losses", "tests/papers/test_zeroth_private.py", ("gratton-4.10",)),
    Item(GRATTON, "Proposition 1, algorithm 3: DA-TLS", "`papers.published.da_tls`; ours `co.GraphTLS`", "with the trace fixed, in one loop", "as printed it has no normalisation", "tests/papers/test_graph_baselines.py, tests/methods/test_graph_tls.py", ("gratton-3.1", "total-least-squares-rounds")),
    Item(GRATTON, "Rivals: D-TLS, IPI-D-TLS", "`papers.published.d_tls`, `papers.published.ipi_d_tls`", "as described", "nothing", "tests/papers/test_graph_baselines.py"),
    Item(GRATTON, "Algorithm 4: D-ZOA", "`papers.published.zeroth_order.ZerothADMM`; ours `co.GraphZerothOrder`", "comes near the answer", "a bias stays where loops start at 0", "tests/papers/test_zeroth_rivals.py, tests/methods/test_graph_zeroth.py", ("gratton-3.4",)),
    Item(GRATTON, "Theorem 3.1: convergence of D-ZOA", "`papers.published.zeroth_order.ZerothADMM`", "with exact descents; with errors of mean 0, which it assumes, not tested", "these errors have another mean", "tests/papers/test_zeroth_rivals.py", ("gratton-3.4",)),
    Item(GRATTON, "Lemmas 1 to 3: variance and sensitivity", "`papers.published.zeroth_order.Intrinsic`", "as an upper bound of the second moment; the formulas", "as a variance; as a sensitivity of sums; slopes that are normal at any J", "tests/papers/test_zeroth_rivals.py", ("finding-intrinsic-noise", "gratton-4.2", "gratton-4.8")),
    Item(GRATTON, "Theorem 4.1, corollary 1: privacy of a round", "`papers.published.ZerothOrder`", "nothing", "refuted by attack, at the thesis' own u = 1 too", "attack published-zeroth-order", ("finding-intrinsic-noise", "attacks-published")),
    Item(GRATTON, "Theorem 4.2: privacy of a run", "`papers.published.zeroth_order.conditional`", "the formula", "rests on theorem 4.1", "tests/methods/test_graph_zeroth.py"),
    Item(GRATTON, "Theorem 4.3: neighbourhood of the answer", "`papers.published.zeroth_order.ZerothADMM`", "the error levels off", "nothing; the constant is not tested", "", ("gratton-4.6",)),
    Item(GRATTON, "Algorithm 5: D-Ridge", "`papers.published.d_ridge`; ours `co.GraphRidge`", "all", "nothing", "tests/papers/test_graph_baselines.py, tests/methods/test_graph_ridge.py", ("gratton-5.2",)),
    Item(GRATTON, "Algorithm 6: nonsmooth penalties", "`papers.published.dc_admm` with labels everywhere; ours `co.GraphADMM`", "with x = −θ", "θ as the estimate", "tests/papers/test_graph_baselines.py, tests/methods/test_graph_admm.py", ("gratton-5.5", "finding-feature-admm")),
    Item(GRATTON, "Algorithm 7: any convex loss", "`papers.published.feature_admm`; ours `co.GraphADMM`", "for squares, and with both slips mended for all", "N g(·) for (1/N) g(N·)", "tests/papers/test_graph_baselines.py, tests/methods/test_graph_admm.py", ("finding-feature-admm",)),
    Item(GRATTON, "Theorems 5.1, 5.2, lemma 4: answer and convergence", "`co.GraphADMM`", "with both slips mended", "as printed for losses that are not squares", "tests/methods/test_graph_admm.py", ("finding-feature-admm",)),
    Item(GRATTON, "Rivals: diffusion, DC-ADMM, broadcast ADMM", "`papers.published.diffusion_ridge`, `papers.published.dc_admm`, `papers.published.broadcast_admm`", "as described", "nothing", "tests/papers/test_graph_baselines.py"),
    Item(GRATTON, "Figures 1.1, 2.1, 2.2, 5.1: an l1 norm and three networks", "`co.Lasso`, `co.Topology.from_edges`", "drawings, no claim", "no claim", "tests/problem/test_penalties.py, tests/problem/test_topology.py"),
    Item(GRATTON, "Tables 1.1, 1.2: related work", "nothing to call", "no claim about the methods", "no claim", "nothing to check"),
    *(shown(GRATTON, f"Figure {k}", f"`python -m papers run gratton-{k}`", f"gratton-{k}") for k in (*(f"3.{n}" for n in range(1, 5)), *(f"4.{n}" for n in range(1, 14)), *(f"5.{n}" for n in range(2, 19)))),
    # ---------------------------------------------------------------- ours
    shown(OWN, "Attacks on our own releases", "`python -m papers run attacks-ours`", "attacks-ours"),
    shown(OWN, "Rounds by connectivity", "`python -m papers run rounds-against-connectivity`", "rounds-against-connectivity"),
)  # fmt: skip


def page(record: Record) -> str:
    """What papers/README.md holds between its marks."""
    return f"{listed(record)}\n\n{table(record)}"


def table(record: Record) -> str:
    """The rows as Markdown, paper by paper, and what a full run of all would cost."""
    known = discover()
    parts = []
    left_out = waiting([one.figure for one in known.values()], record)
    if left_out:
        parts.append(
            f"Claims written down and not yet judged: {', '.join(left_out)} (`python -m papers run {' '.join(left_out)} --seeds 2`, then `publish`)."
        )
    before = [link(name) for name, said in record.items() if said["plot"] is None]
    if before:
        parts.append(f"Drawn before curves were kept, in other colours: {', '.join(before)}.")
    for paper in (BELLET, LOU, RAFF, HU, GRATTON, OWN):
        rows = [_row(item, record) for item in ITEMS if item.paper == paper]
        parts.append(f"### {paper}\n\n{markdown_table(rows)}")
    estimates = {name: hours(one.figure, record.get(name)) for name, one in known.items()}
    left = [value for name, value in estimates.items() if value is not None and record[name]["quick"]]
    spent = [value for name, value in estimates.items() if value is not None and not record[name]["quick"]]
    told = f"Full runs on record: {len(spent)} figures, {sum(spent):,.1f} CPU hours; figures that share curves each count them."
    if left:
        told += (
            f" The other {len(left)}: about {sum(left):,.0f} CPU hours, estimated from their quick runs by the rounds and repeats that a full one has more "
            "of (`python -m papers list`); half of that on two cores."
        )
    return "\n\n".join((told, *parts))


def _row(item: Item, record: Record) -> dict[str, str]:
    claims = [claim for name in item.figures if name in record for claim in record[name]["claims"]]
    held, swings = sum(c["held"] for c in claims), sum(c["stable"] is False for c in claims)
    words = f"{held} of {len(claims)} claims" + (f", {swings} unstable" if swings else "")
    figures = ", ".join(
        f"{link(name)} ({mode(record[name])})" if name in record else f"{name} (not yet run)" for name in item.figures
    )
    if item.figures and not claims:
        words = "not yet run"
    return {
        "What": item.what,
        "How to call it": item.call,
        "Holds": item.holds or words,
        "Does not": item.fails
        or (f"{len(claims) - held} of {len(claims)} claims" if held < len(claims) else "nothing" if claims else words),
        "Checked by": ", ".join(part for part in (item.checked, figures) if part),
    }


def unnamed(known: Mapping[str, object]) -> set[str]:
    """Figures that no row names."""
    return set(known) - {name for item in ITEMS for name in item.figures}
