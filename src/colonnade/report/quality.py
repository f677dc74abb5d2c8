"""Figures of quality that a caller computed, such as a comparison of several models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Quality:
    """How good models are: one figure by model, and on which data it was computed."""

    measure: str
    values: Mapping[str, float]
    note: str
