"""Colours that stand out on white and on the dark page (3 to 1 and more)."""

from __future__ import annotations

from collections.abc import Sequence

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B8618F", "#7570B3", "#A6761D")


def party_colours(parties: Sequence[str]) -> dict[str, str]:
    return {party: COLOURS[place % len(COLOURS)] for place, party in enumerate(parties)}
