"""Private Gram: one exchange, one noisy Gram matrix of all columns, and everything else for free.

Solves   least squares, or classification through least squares on labels ±1, with ridge, lasso, elastic net, group
         lasso or over an l1 ball: the whole path, error bars and calibrated probabilities come from the same release.
Source   ours. A product of columns of two parties costs an error of order √n where each party must protect its own
         messages; inside a light secure protocol (secure_products.py) it costs what it costs one data holder, or twice
         the variance.
Cross    secure  every product, noised in full by both of its parties                      trust "secure"
                 the same, computed by the two parties alone (lwe_products.py)             trust "parties"
                 the same, exact inside and noised once on the way out                     trust "consortium"
         none    products within parties only, after one noisy release of the labels       trust "nobody"
Leaves   integers: noisy sums of products of rows clipped to public bounds; and masked columns, to a coordinator that
         has no mask.
Price    rho in all: docs/understand/privacy/gram.md. Which columns are centred, scaled or kept follows from what was
         released before, and costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Floats
from colonnade.methods.gram import lwe_release
from colonnade.methods.gram.answer import Curves, chosen_weight, finish_all, gram_answer, released_gram, without
from colonnade.methods.gram.design import (
    Figures,
    cut_toward_zero,
    label_bound,
    public_columns,
    rule_rho,
)
from colonnade.methods.gram.integer_rows import directions, entry_bounds, norms, uncut
from colonnade.methods.gram.local import (
    Local,
    LocalParts,
    Products,
    local_coordinator,
    local_party,
)
from colonnade.methods.gram.lwe_products import Across
from colonnade.methods.gram.messages import (
    Diagonal,
    Introduce,
    Masked,
    Next,
    Parts,
    Prepare,
    RunKey,
    Seed,
    SendDiagonal,
    SendParts,
)
from colonnade.methods.gram.rule import Gram, RowFrame, choose_depth, prepare, survival, whole_frame
from colonnade.methods.gram.secure_design import TRUSTS, Design, GramSettings, Layout, PlannedGram, narrow_remark
from colonnade.methods.gram.secure_products import STAGES, Losses, exchange_seeds, introduce_itself, meet_coordinator
from colonnade.methods.gram.secure_release import (
    OwnMatrix,
    Prepared,
    SumsOfRows,
    check_prepare,
    class_sums,
    collect_gram,
    collect_sums,
    release_gram,
    release_sums,
)
from colonnade.methods.gram.solve import solve
from colonnade.methods.method import Done, Finish, GraphMethod, Labels, Method, SendLabels, finish_party, numbers
from colonnade.model.answer import Answer, Own
from colonnade.model.job import Job
from colonnade.model.release import Solving, Sums
from colonnade.privacy.block import LARGEST, Block
from colonnade.privacy.events import Audience, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import Privacy, Trust
from colonnade.problem import ElasticNet, GroupLasso, Lasso, LeastSquares, Logistic, Ridge, Topology
from colonnade.problem.quadratic import check_term
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Post, Program, ask_one, expect, is_lost, receive

MOST_PARTIES = 32
WEAK = "at this size and budget the noise is about as large as what the columns can tell: expect little of the model"


# ------------------------------------------------------------------------------------------------ programs


def coordinator(job: Job, gate: Gate, settings: PrivateGram) -> Program[Answer]:
    design, sums, whole, losses = Design(job, settings), None, False, Losses(job.roster, spares=settings.spares(job))
    yield from introduce_itself(gate, losses)
    if design.exact and not job.problem.loss.classifies:
        told = (yield from ask_one(job.roster.label, SendLabels(), Labels)).values.value
        (largest,) = numbers(told, (1,), job.roster.label)
        design = Design(job, settings, _power(float(largest)))
    job = design.job
    if design.sums is not None:
        labels = np.zeros(0)
        if design.labels is not None:
            labels = (yield from ask_one(job.roster.label, SendLabels(), Labels)).values.value
        prepared = yield from _tell_how(design, design.sums, whole_frame(design.columns), labels, losses)
        whole = all(map(prepared.layout.whole, job.roster.with_columns))
        if design.lattice:
            got = yield from lwe_release.collect_sums(design, prepared)
        else:
            got = yield from collect_sums(design, prepared, gate, losses)
        sums = class_sums(design, got, labels)
    planned = plan_gram(design, sums, losses)
    prepared = yield from _tell_how(design, planned.figures, planned.frame, np.zeros(0), losses)
    if design.lattice:
        steps = yield from lwe_release.collect_gram(design, prepared)
    else:
        steps = yield from collect_gram(design, prepared, gate, losses)
    answer = conclude(design, planned, prepared, steps, sums, losses, whole=whole)
    # The model is made: whoever is lost now has only not heard of it.
    rest = {party: finish for party, finish in finish_all(job, answer).items() if party not in losses.lost}
    inbox = yield Post(rest, tuple(rest))
    for party in rest:
        if not is_lost(inbox[party]):
            expect(inbox, party, Done)
    return answer


def plan_gram(design: Design, sums: Sums | None, losses: Losses) -> PlannedGram:
    """Rows as the rule has them; under encryption, where those do not fit, rows as they are.

    For those who are not lost: of the others no column is kept.
    """
    lost = [place in losses.places for place in range(len(design.job.roster.parties))]
    here = np.flatnonzero(~np.array(lost)[design.columns.owner])
    columns = design.columns.of(here, np.where(lost, 0.0, design.columns.norms))
    rule = replace(design.rule, keep=min(design.rule.keep, here.size))
    rule, frame = prepare(rule, columns, design.job.roster.rows, None if sums is None else sums.of(here))
    planned = design.plan(rule, replace(frame, keep=here[frame.keep]))
    if sums is None or not design.lattice:
        return planned
    layout = Layout(design.job, planned.figures, planned.frame)
    return planned if lwe_release.fits(design, planned.figures, layout) else design.plan_as_they_are()


def conclude(
    design: Design,
    planned: PlannedGram,
    prepared: Prepared,
    steps: Floats,
    sums: Sums | None,
    losses: Losses,
    *,
    whole: bool,
) -> Answer:
    """The answer, from the noisy Gram matrix in steps²; `whole`: rows of class sums were not shortened."""
    job, settings, joint, rule = design.job, design.settings, planned.figures, planned.rule
    present, absent = losses.rest(job.roster.with_columns), losses.in_words()
    here = ~np.isin(design.columns.owner[planned.frame.keep], losses.places)  # the others' rows and columns go
    frame = planned.frame.of(np.flatnonzero(here), losses.places)
    there = np.flatnonzero(np.append(here, [True, True]))
    steps = steps[np.ix_(there, there)]
    remarks = (narrow_remark(design),) if design.switched else ()
    gram = Gram.of(planned.extended, steps * joint.step**2, design.sds(joint, frame))
    proven = all(map(prepared.layout.whole, present))
    cut = any(cut_toward_zero(job, name, joint) for name in present)
    doubt = None if uncut(job) else "no declared schemas prove that rows and entries stay as they are"
    every, bound = design.columns.owner.size, label_bound(job)
    rows, choose = job.roster.rows, settings.purpose == "prediction"
    curves = Curves(design.columns.level, directions(job), choose, design.columns.binary)
    known, select = (gram, frame, rule, job.problem), settings.penalty == "select"
    solved = solve(*known, rows=rows, columns=every, label_bound=bound, sums=sums, curves=curves, select=select)
    counted = sums if whole else None  # of rows that were shortened they count nothing
    release = released_gram(job, gram, frame, rule.name, settings.cross, joint, proven=proven, sums=counted)
    solving = Solving(rule.ridge, frame.doubt, None if sums is None else sums.of(frame.keep), curves.choose, select)
    release = replace(release, cut=cut, solving=solving)
    remarks = (*((WEAK,) if rule.name == "weak" else ()), *((chosen_weight(solved),) if select else ()), *remarks)
    return without(gram_answer(job, solved, release, remarks, doubt), absent)


def party(job: Job, block: Block, gate: Gate, settings: PrivateGram) -> Program[Own]:
    design, shortened, losses = Design(job, settings), 0, Losses(job.roster, spares=settings.spares(job))
    yield from meet_coordinator(gate, losses)
    request = yield from receive(COORDINATOR, SendLabels | Prepare)
    if design.exact and gate.node == job.roster.label and not job.problem.loss.classifies:
        if not isinstance(request, SendLabels):
            raise ProtocolError(f"{COORDINATOR!r} described a release before it asked how large labels are")
        largest = _power(float(np.abs(block.bounded_labels(LARGEST)).max(initial=0.0)))
        design = Design(job, settings, largest)
        request = yield from ask_one(COORDINATOR, Labels(gate.exact(np.array([largest]))), Prepare)
    elif isinstance(request, SendLabels):
        if design.labels is None:
            raise ProtocolError(f"{COORDINATOR!r} asked for labels, which was not agreed")
        request = yield from ask_one(COORDINATOR, design.labels.release(block, gate), Prepare)
    for stage in design.stages:
        if not isinstance(request, Prepare):
            raise ProtocolError(f"{COORDINATOR!r} ended the run before all releases that were agreed")
        prepared = check_prepare(design, stage, request)
        masked = () if design.lattice else prepared.partners(gate.node)  # who is told the seed of a mask
        seeds = yield from exchange_seeds(prepared.digest, masked, gate, losses, STAGES[stage])
        if stage == "sums":
            rows = prepared.rows(block, gate.node)
            sums = SumsOfRows(design, prepared, block, gate, rows, request.labels)
            if design.lattice:
                parts = yield from lwe_release.release_sums(design, prepared, sums)
            else:
                parts = yield from release_sums(design, prepared, sums, seeds, losses)
        else:
            matrix = OwnMatrix(design, prepared, block, gate)
            rows = matrix.rows
            if design.lattice:
                parts = yield from lwe_release.release_gram(design, prepared, matrix)
            else:
                parts = yield from release_gram(design, prepared, matrix, seeds, losses)
        if stage == design.stages[0]:  # later ones are cut to what class sums say, not to their bound
            shortened = rows.shortened
        request = yield from ask_one(COORDINATOR, parts, Prepare | Finish)
    if not isinstance(request, Finish):
        raise ProtocolError(f"{COORDINATOR!r} described one more release than was agreed")
    return (yield from finish_party(block, gate, request, shortened))


def _power(largest: float) -> float:
    """The next power of two: a bound of labels that tells less of them; 1 where all of them are zeros."""
    return float(2.0 ** math.ceil(math.log2(largest))) if 1.0 / LARGEST <= largest <= LARGEST else 1.0


REPLIES: Replies = {
    Introduce: RunKey,
    None: Seed,
    Seed: Across,
    Across: Across,
    SendDiagonal: Diagonal,
    Next: Masked,
    SendParts: Parts,
    SendLabels: Labels,
    Products: LocalParts,
    Finish: Done,
}


def describe(design: Design, figures: Figures, frame: RowFrame, labels: Floats) -> Prepare:
    """How rows of a release are made, in words for all parties."""
    return Prepare(
        name=figures.name,
        step=figures.step,
        bits=figures.bits,
        norm2=np.array([figures.norm2[p] for p in design.job.roster.parties]),
        constant=figures.constant,
        label=figures.label,
        keep=frame.keep,
        centre=frame.centre,
        scale=frame.scale,
        labels=labels,
    )


def _tell_how(design: Design, figures: Figures, frame: RowFrame, labels: Floats, losses: Losses) -> Program[Prepared]:
    """Tell all parties the same."""
    told = describe(design, figures, frame, labels)
    note = {"round": 1 if figures.name == "sums" else 2, "stage": figures.name}
    yield Post(dict.fromkeys(losses.rest(design.job.roster.parties), told), (), note)
    return check_prepare(design, figures.name, told)


# ------------------------------------------------------------------------------------------------ the method


@dataclass(frozen=True)
class PrivateGram(GramSettings, Method):
    """Settings.

    cross     how products of columns of two parties are computed: "secure" or "none" (see above).
    screen    keep at most so many columns, chosen by their noisy class sums; None: from the budget and the sizes.
    labels    what class sums go by: "secure", the labels themselves, in products with every column; or "released",
              noisy labels, with which every party sums by itself: far fewer bytes with thousands of columns.
    purpose   what the release is for. "prediction": rows are centred, scaled and shortened where that makes the
              model better. "inference": rows as they are, none shortened, the whole budget on one release, of which
              `fit.inference()` and `fit.release.regress(...)` make intervals and tests that cover.
    topology  None: a star, with a coordinator; a co.Topology: none, under trust "parties". Every party talks to its
              neighbours only, and all of them solve the same problem from the same release.
    penalty   the weight of the problem's penalty: "asked", as it is; or "select", the one of `fit.path` whose error
              on other rows is expected to be least, the noise counted in. It is chosen from the release, for free.
    """

    topology: Topology | None = None

    TITLE: ClassVar[str] = "private Gram"
    LOSSES: ClassVar[tuple[type, ...]] = (LeastSquares, Logistic)
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    SEALED: ClassVar[tuple[type, ...]] = (Masked, Diagonal, Parts)
    KEEPS_MONOTONE: ClassVar[bool] = True
    DERIVATION: ClassVar[str | None] = "docs/understand/privacy/gram.md, Private Gram"

    @property
    def trusts(self) -> tuple[Trust, ...]:
        return TRUSTS[self.cross]

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.topology
        if not (given is None or isinstance(given, Topology)):
            raise InvalidInput(f"topology={given!r} is not a graph: give one such as co.Topology.ring(4).", "topology")

    def variant(self, problem: object, privacy: Privacy | None = None) -> Method | GraphMethod:  # noqa: ARG002
        """The form of the method on this topology."""
        from colonnade.methods.gram.graph_gram import GraphGram  # it builds on this file

        if self.topology is None:
            return self
        return GraphGram(**{f.name: getattr(self, f.name) for f in fields(self)})

    def check(self, job: Job) -> None:
        if job.privacy is None and self.purpose != "inference":
            raise InvalidInput(
                "private Gram needs privacy=co.Privacy(epsilon, delta, trust='secure', ...): its noise is set by the "
                "budget. Without privacy only purpose='inference' is exact: classical errors from an exact Gram matrix."
            )
        if job.privacy is not None and job.privacy.trust not in self.trusts:
            fitting = " or ".join(repr(c) for c, trusts in TRUSTS.items() if job.privacy.trust in trusts)
            raise InvalidInput(
                f"cross={self.cross!r} protects under trust "
                f"{' or '.join(repr(str(trust)) for trust in TRUSTS[self.cross])}, and privacy= "
                f"asks for trust={str(job.privacy.trust)!r}. Take cross={fitting}, or another trust model."
            )
        if not isinstance(job.problem.loss, self.LOSSES):
            raise InvalidInput(
                f"{self.TITLE} solves LeastSquares() and, through it, Logistic(); got {job.problem.loss!r}."
            )
        check_term(job.problem.penalty if job.problem.constraint is None else job.problem.constraint)
        if not job.problem.loss.classifies and job.privacy is not None and job.privacy.label_reach is None:
            raise InvalidInput(
                "least squares under privacy needs Privacy(..., label_range=(low, high)): labels are clipped to it."
            )
        if len(job.roster.parties) > MOST_PARTIES:
            raise InvalidInput(
                f"{self.TITLE} runs between at most {MOST_PARTIES} parties; there are {len(job.roster.parties)}."
            )
        public_columns(Design(job, self).job)  # every bound must be there
        if directions(job).any() and (job.problem.constraint is not None or self.purpose == "inference"):
            other = "a penalty instead of a set, and purpose='prediction'"
            raise InvalidInput(f"a schema says monotone, which goes with {other}. Nothing was sent.")
        if self.penalty == "select" and not isinstance(job.problem.penalty, Ridge | Lasso | ElasticNet):
            raise InvalidInput(
                "penalty='select' chooses the weight of co.Ridge, co.Lasso or co.ElasticNet, and the problem has none. "
                "Give one, as in co.Problem(..., penalty=co.Lasso(0.01)): 100 times to 1/100 of its weight are tried."
            )
        if self.purpose == "inference":
            self._check_inference(job)
        if job.privacy is not None and job.privacy.trust == Trust.PARTIES:
            lwe_release.check_encrypted(Design(job, self))

    def _check_inference(self, job: Job) -> None:
        """Whether rows enter as they are, which public figures prove or not; and whether they are independent."""
        design, roster = Design(job, self), job.roster
        job = design.job
        if roster.unit.rows > 1:
            raise InvalidInput(
                f"purpose='inference' takes rows that do not depend on each other, and a person has up to "
                f"{roster.unit.rows} here: fit on one row a person, or take purpose='prediction'."
            )
        planned = design.plan_as_they_are()  # the rule of this purpose
        figures, layout = planned.figures, Layout(job, planned.figures, planned.frame)
        if missing := [party for party in roster.with_columns if not layout.whole(party)]:
            party = missing[0]
            bound = entry_bounds(job, party)[0]
            proven = roster.known[party].norm if party in roster.known else float(np.linalg.norm(bound))
            remedy = (
                "declare its schema (from_frames(..., schemas={party: co.Schema(...)})), or give feature_bound=B and "
                "a row_norm of at least B·√columns for it"
            )
            if party in roster.known:
                remedy = f"leave row_norm and feature_bound out, so that what its schema proves holds ({proven:.4g})"
                if figures.step > 1.0:
                    remedy = "declare its numbers with scale=True: beside them a 1 would be less than a step"
            raise InvalidInput(
                f"purpose='inference' shortens no row, and nothing public proves that rows of {party!r} stay within "
                f"{norms(job)[party]:.4g}. Nothing was sent. To fit for inference, {remedy}."
            )

    def depth(self, job: Job) -> int:
        """From rows, columns and budget. Lines where columns are chosen among, and where each party is by itself."""
        term = job.problem.constraint or job.problem.penalty
        whole = term is None or isinstance(term, Ridge) or (isinstance(term, GroupLasso) and term.groups is None)
        if self.cross != "secure" or self.screen is not None or not whole:
            return 0
        if job.privacy is None or self.purpose == "inference":
            return 0
        lines = sum(len(places) for places in job.roster.positions.values())
        surviving = survival(job.roster.rows, 1, rule_rho(job))
        return choose_depth(surviving, lines, job.roster.left_open, job.problem.loss.classifies)

    def price(self, job: Job) -> Mapping[str, Plan]:
        return Design(job, self).plans() if self.cross == "secure" else Local(job).plans()

    def by_place(self, job: Job) -> bool:
        """Whether what leaves depends on where a row stands: noisy labels.

        Labels that members of a consortium alone are told do not leave it, and sums by them are the same in every
        order.
        """
        if self.cross != "secure":
            return True
        design = Design(job, self)
        return design.audience is Audience.ALL and design.labels is not None

    def rests_on(self, job: Job) -> str:
        if job.privacy is None or self.cross != "secure":
            return super().rests_on(job)
        privacy = Design(job, self).job.privacy
        assert privacy is not None
        return str(privacy.trust)

    def spares(self, job: Job) -> bool:
        return self.cross == "secure" and not Design(job, self).lattice

    def relays(self, job: Job) -> bool:  # noqa: ARG002  in every job alike
        return self.cross == "secure"

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:
        if self.cross == "secure":
            return coordinator(job, gate, self)
        return local_coordinator(Local(job), self.penalty == "select")

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        if self.cross == "secure":
            return party(job, block, gate, self)
        return local_party(Local(job), block, gate)
