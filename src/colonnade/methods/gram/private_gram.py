"""Private Gram: one exchange, one noisy Gram matrix of all columns, and everything else for free.

Solves   least squares, or classification through least squares on labels ±1, with ridge, lasso, elastic net, group
         lasso or over an l1 ball: the whole path, error bars and calibrated probabilities come from the same release.
Source   ours. A product of columns of two parties costs an error of order √n where each party must protect its own
         messages; inside a light secure protocol (masks.py) it costs what it costs one data holder, or twice
         the variance.
Cross    secure  every product, noised in full by both of its parties                      trust "secure"
                 the same, computed by the two parties alone (lattice.py)             trust "parties"
                 the same, exact inside and noised once on the way out                     trust "consortium"
         none    products within parties only, after one noisy release of the labels       trust "nobody"
Leaves   integers: noisy sums of products of rows clipped to public bounds; and masked columns, to a coordinator that
         has no mask.
Price    rho in all: docs/understand/privacy/gram.md. Which columns are centred, scaled or kept follows from what was
         released before, and costs nothing more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.methods.gram.answer import Curves, chosen_weight, finish_all, gram_answer, released_gram, without
from colonnade.methods.gram.lattice import Across, Lattice, narrow, secrets
from colonnade.methods.gram.local import Local, LocalParts, Products
from colonnade.methods.gram.masks import Masks
from colonnade.methods.gram.plan import TRUSTS, Cross, GramSettings, Purpose, RunPlan, StageName, SumsBy, Weight
from colonnade.methods.gram.products import Diagonal, Form, Masked, Next, Outcome, Parts, SendDiagonal, SendParts
from colonnade.methods.gram.rows import Layout
from colonnade.methods.gram.rule import choose_depth, rule_rho, survival
from colonnade.methods.gram.solve import solve
from colonnade.methods.meeting import Introduce, RunKey, Seed
from colonnade.methods.method import Done, Finish, GraphMethod, Labels, Method, SendLabels, finish_party
from colonnade.model.job import Answer, Job, Own, Solving, directions, entry_bounds, norms
from colonnade.privacy.block import Block
from colonnade.privacy.conditions import Code, Condition
from colonnade.privacy.events import Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.lattice import least_bits
from colonnade.privacy.statement import OF_TRUST, Privacy, Trust
from colonnade.problem import ElasticNet, GroupLasso, Lasso, LeastSquares, Logistic, Ridge, Topology
from colonnade.problem.quadratic import check_term
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Post, Program, expect, is_lost

MOST_PARTIES = 32


# ------------------------------------------------------------------------------------------------ programs


def coordinator(form: Form, gate: Gate) -> Program[Answer]:
    came = yield from form.collect(gate)
    answer = conclude(came)
    # The model is made: whoever is lost now has only not heard of it.
    rest = {party: finish for party, finish in finish_all(form.plan.job, answer).items() if party not in came.absent}
    inbox = yield Post(rest, tuple(rest))
    for party in rest:
        if not is_lost(inbox[party]):
            expect(inbox, party, Done)
    return answer


def party(form: Form, block: Block, gate: Gate) -> Program[Own]:
    finish, shortened = yield from form.release(block, gate)
    return (yield from finish_party(block, gate, finish, shortened))


def conclude(came: Outcome) -> Answer:
    """The answer, from what was released."""
    job = came.plan.job
    settings = came.plan.settings
    columns = came.plan.columns
    frame = came.frame
    choose = settings.purpose == Purpose.PREDICTION
    select = settings.penalty == Weight.SELECT
    curves = Curves(columns.level, directions(job), choose, columns.binary)
    solved = solve(
        *(came.gram, frame, came.rule, job.problem),
        rows=job.roster.rows,
        columns=columns.owner.size,
        label_bound=job.label_bound,
        sums=came.sums,
        curves=curves,
        select=select,
    )
    # Of rows that were shortened they count nothing.
    counted = came.sums if came.counted else None
    known = job, came.gram, frame, came.rule.name, settings.cross, came.figures
    release = released_gram(*known, proven=came.proven, sums=counted)
    sums = None if came.sums is None else came.sums.of(frame.keep)
    release = replace(release, cut=came.cut, solving=Solving(came.rule.ridge, frame.doubt, sums, choose, select))
    remarks = (*came.first, *((chosen_weight(solved),) if select else ()), *came.last)
    return without(gram_answer(job, solved, release, remarks, came.doubt), came.absent)


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


# ------------------------------------------------------------------------------------------------ the form


_MADE: deque[tuple[Job, GramSettings, Form]] = deque(maxlen=4)  # by the last jobs


def form_of(job: Job, settings: GramSettings) -> Form:
    """How products across parties come about, with the plan of the run: made once, since every hook of a method is
    handed the same job."""
    for known, asked, form in tuple(_MADE):
        if known is job and asked == settings:
            return form
    form = _made(RunPlan.of(job, settings))
    _MADE.append((job, settings, form))
    return form


def _made(plan: RunPlan) -> Form:
    settings = plan.settings
    asked = plan.approved.privacy
    trust = None if asked is None else asked.trust
    if settings.cross == Cross.NONE:
        return Local(plan)
    if trust == Trust.PARTIES:
        return Lattice(plan)
    if trust == Trust.SECURE and settings.labels == SumsBy.SECURE:
        stages = (StageName.JOINT,) if settings.purpose == Purpose.INFERENCE else (StageName.SUMS, StageName.JOINT)
        if asked is not None and narrow(plan.job, stages):
            job = replace(plan.job, privacy=replace(asked, trust=Trust.PARTIES))
            if _passes(encrypted := Lattice(replace(plan, job=job))):
                return encrypted
    return Masks(plan)


def conditions_of(form: Form) -> tuple[Condition, ...]:
    """What the way in which products are computed rests on; of encryption with the bits that this run has left."""
    privacy = form.plan.job.privacy
    if form.plan.exact or privacy is None:
        return ()
    known = OF_TRUST.get(str(privacy.trust), ())
    if not isinstance(form, Lattice):
        return known
    count = secrets(form.plan)
    lwe = Condition(Code.LATTICES, (count, *least_bits(count)))
    return tuple(lwe if one.code is Code.LATTICES else one for one in known)


def _passes(form: Form) -> bool:
    try:
        form.check()
    except InvalidInput:
        return False
    return True


# ------------------------------------------------------------------------------------------------ the method


@dataclass(frozen=True)
class PrivateGram(GramSettings, Method):
    """Private Gram: one exchange, one noisy Gram matrix of all columns, and everything else for free.

    Parameters
    ----------
    cross
        How products of columns of two parties are computed: "secure" (trust "secure", "parties" or "consortium"), or
        "none": within parties only (trust "nobody").
    screen
        Keep at most so many columns, chosen by their noisy class sums; None: from the budget and the sizes.
    labels
        What class sums go by: "secure", the labels themselves, in products with every column; or "released", noisy
        labels, with which every party sums by itself: far fewer bytes with thousands of columns.
    purpose
        What the release is for. "prediction": rows are centred, scaled and shortened where that makes the model better.
        "inference": rows as they are, none shortened, the whole budget on one release, of which `fit.inference()` and
        `fit.release.regress(...)` make intervals and tests that cover.
    penalty
        The weight of the problem's penalty: "asked", as it is; or "select", the one of `fit.path` whose error on other
        rows is expected to be least, the noise counted in. It is chosen from the release, for free.
    topology
        None: a star, with a coordinator; a `co.Topology`: none, under trust "parties". Every party talks to its
        neighbours only, and all of them solve the same problem from the same release.

    Examples
    --------
    >>> import colonnade as co
    >>> method = co.PrivateGram(purpose="inference")
    >>> terms = co.Privacy(epsilon=1.0, delta=1e-6, trust="secure")
    >>> terms.trust in method.trusts
    True
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
        from colonnade.methods.gram.graph import GraphGram  # it builds on this file

        if self.topology is None:
            return self
        return GraphGram(**{f.name: getattr(self, f.name) for f in fields(self)})

    def check(self, job: Job) -> None:
        if job.privacy is None and self.purpose != Purpose.INFERENCE:
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
        form = form_of(job, self)
        _ = form.plan.columns  # every bound must be there
        if directions(job).any() and (job.problem.constraint is not None or self.purpose == Purpose.INFERENCE):
            other = "a penalty instead of a set, and purpose='prediction'"
            raise InvalidInput(f"a schema says monotone, which goes with {other}. Nothing was sent.")
        if self.penalty == Weight.SELECT and not isinstance(job.problem.penalty, Ridge | Lasso | ElasticNet):
            raise InvalidInput(
                "penalty='select' chooses the weight of co.Ridge, co.Lasso or co.ElasticNet, and the problem has none. "
                "Give one, as in co.Problem(..., penalty=co.Lasso(0.01)): 100 times to 1/100 of its weight are tried."
            )
        if self.purpose == Purpose.INFERENCE:
            self._check_inference(job)
        form.check()

    def _check_inference(self, job: Job) -> None:
        """Whether rows enter as they are, which public figures prove or not; and whether they are independent."""
        plan = form_of(job, self).plan
        roster = job.roster
        job = plan.job
        if roster.unit.rows > 1:
            raise InvalidInput(
                f"purpose='inference' takes rows that do not depend on each other, and a person has up to "
                f"{roster.unit.rows} here: fit on one row a person, or take purpose='prediction'."
            )
        planned = plan.plain_gram()  # the rule of this purpose
        figures = planned.figures
        layout = Layout(job, planned.figures, planned.frame)
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
        if self.cross != Cross.SECURE or self.screen is not None or not whole:
            return 0
        if job.privacy is None or self.purpose == Purpose.INFERENCE:
            return 0
        lines = sum(len(places) for places in job.roster.positions.values())
        surviving = survival(job.roster.rows, 1, rule_rho(job))
        return choose_depth(surviving, lines, job.roster.auto_curve_counts, job.problem.loss.classifies)

    def price(self, job: Job) -> Mapping[str, Plan]:
        return form_of(job, self).price()

    def depends_on_row_order(self, job: Job) -> bool:
        return form_of(job, self).plan.depends_on_row_order

    def rests_on(self, job: Job) -> tuple[Condition, ...]:
        return conditions_of(form_of(job, self))

    def tolerates_dropout(self, job: Job) -> bool:
        return form_of(job, self).spares

    def relays(self, job: Job) -> bool:  # noqa: ARG002  in every job alike
        return self.cross == Cross.SECURE

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:
        return coordinator(form_of(job, self), gate)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return party(form_of(job, self), block, gate)
