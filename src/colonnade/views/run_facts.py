"""What a report may say about a run beside its fit: public facts that everybody knew before the first message.

rows         in common, or in all where rows are split
brought      rows each party came with; kept for runs without privacy only, since no price covers these counts
policies     what each party allows, in words
settings     method and privacy terms as the parties approved them
fingerprint  version of the library and hash of the method's source
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from colonnade.views.fit_facts import FitFacts


@dataclass(frozen=True)
class RunFacts:
    """Facts of one run; what is not known is empty."""

    rows: int | None = None
    brought: Mapping[str, int] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    fingerprint: str = ""

    @classmethod
    def of(cls, fit: FitFacts) -> RunFacts:
        """Those that the fit carries."""
        return cls(**{one.name: fit.facts[one.name] for one in fields(cls) if one.name in fit.facts})
