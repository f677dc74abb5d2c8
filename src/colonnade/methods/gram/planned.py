"""The Gram matrix that is released, planned from public figures and class sums; under encryption, whether it fits.

Fits     what class sums advise may not fit under encryption (rows that are shorter or longer than they were). Rows as
         they are are known before a run: where they do not fit, nothing is sent and nothing is paid for; where only the
         advice does not, rows stay as they are.
Leaves   nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.methods.gram import lwe_release
from colonnade.methods.gram.design import Figures, plan_joint, whole_frame
from colonnade.methods.gram.losses import Losses
from colonnade.methods.gram.lwe_design import check_failure
from colonnade.methods.gram.rule import Extended, GramRule, RowFrame, Sums, as_they_are, prepare
from colonnade.methods.gram.secure_design import Design, Layout


@dataclass(frozen=True)
class PlannedGram:
    """The Gram matrix that is released, from public figures and released class sums."""

    figures: Figures
    extended: Extended
    frame: RowFrame
    rule: GramRule


def plan_gram(design: Design, sums: Sums | None, losses: Losses) -> PlannedGram:
    """Rows as the rule has them; under encryption, where those do not fit, rows as they are.

    For those who are not lost: of the others no column is kept.
    """
    lost = [place in losses.places for place in range(len(design.job.roster.parties))]
    here = np.flatnonzero(~np.array(lost)[design.columns.owner])
    columns = design.columns.of(here, np.where(lost, 0.0, design.columns.norms))
    rule = replace(design.rule, keep=min(design.rule.keep, here.size))
    rule, frame = prepare(rule, columns, design.job.roster.rows, None if sums is None else sums.of(here))
    planned = _planned(design, rule, replace(frame, keep=here[frame.keep]))
    if sums is None or not design.lattice or lwe_release.fits(design, planned.figures, _layout(design, planned)):
        return planned
    return _as_they_are(design)


def check_encrypted(design: Design) -> None:
    """Refuse a run of which a release does not fit under encryption, before any of them is paid for."""
    privacy = design.job.privacy
    assert privacy is not None
    if (rows := design.settings.sketch_rows) is not None:
        raise InvalidInput(
            f"sketch_rows={rows} goes with trust='secure' or 'consortium': entries of buckets are too large under the "
            "encryption of trust='parties'. Leave it out, or take another trust model."
        )
    check_failure(privacy.epsilon, privacy.delta, len(design.stages))
    if design.sums is not None:
        layout = Layout(design.job, design.sums, whole_frame(design.columns))
        lwe_release.exchange_of(design, design.sums, layout)
    planned = _as_they_are(design)
    lwe_release.exchange_of(design, planned.figures, _layout(design, planned))


def fits_encrypted(design: Design) -> bool:
    """Whether `check_encrypted` lets a run begin."""
    try:
        check_encrypted(design)
    except InvalidInput:
        return False
    return True


def _as_they_are(design: Design) -> PlannedGram:
    """Known before anything is released."""
    rule = as_they_are(design.columns.owner.size, design.rule.rho)
    return _planned(design, rule, whole_frame(design.columns))


def _planned(design: Design, rule: GramRule, frame: RowFrame) -> PlannedGram:
    buckets = design.settings.sketch_rows or 0
    how = {"nearest": design.settings.purpose == "inference", "exact": design.exact}
    joint, extended = plan_joint(design.job, design.columns, frame, rule, design.rho("joint"), buckets, **how)
    return PlannedGram(joint, extended, frame, rule)


def _layout(design: Design, planned: PlannedGram) -> Layout:
    return Layout(design.job, planned.figures, planned.frame)
