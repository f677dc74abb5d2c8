"""What is known of a fitted model and its run: what a report, a page or a notebook shows.

Coefficients are by party; some may be held elsewhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np

from colonnade.errors import HeldByParty
from colonnade.fields import Count, Finite, must
from colonnade.kernels.arrays import Floats
from colonnade.model.job import Status
from colonnade.notebook import Grid, shown
from colonnade.privacy.statement import PrivacyStatement
from colonnade.problem import Problem
from colonnade.problem.boosting import Stumps
from colonnade.problem.kernel import Support
from colonnade.problem.link import Link
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import Communication

if TYPE_CHECKING:
    import polars as pl


class Coefficients(Mapping[str, Floats]):
    """Coefficients by party; those of a party that runs elsewhere stay there.

    Parameters
    ----------
    local
        By party, one number for each encoded column.
    elsewhere
        The parties that hold theirs.
    names
        By party, the names of its columns.
    """

    def __init__(
        self,
        local: Mapping[str, Floats],
        elsewhere: Sequence[str] = (),
        names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._local = dict(local)
        self._elsewhere = tuple(elsewhere)
        self._names = names or {}

    def __getitem__(self, party: str) -> Floats:
        if party in self._elsewhere:
            raise HeldByParty(f"the coefficients of {party!r} are held there and did not leave it; ask its operator.")
        if party not in self._local:
            raise KeyError(f"{party!r} has no columns in this model; parties with columns: {', '.join(self)}")
        return self._local[party]

    def __contains__(self, party: object) -> bool:
        # To know that a party has some is not to see them.
        return party in self._local or party in self._elsewhere

    def __iter__(self) -> Iterator[str]:
        return iter([*self._local, *self._elsewhere])

    def __len__(self) -> int:
        return len(self._local) + len(self._elsewhere)

    @property
    def local(self) -> dict[str, Floats]:
        """Those that are known here."""
        return dict(self._local)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The parties that hold theirs."""
        return self._elsewhere

    def table(self) -> pl.DataFrame:
        """One row for each coefficient that is known here: party, feature, coefficient (and response, of several)."""
        import polars as pl

        kinds: dict[str, Any] = {"party": pl.String, "feature": pl.String, "coefficient": pl.Float64}
        if any(x.ndim > 1 for x in self._local.values()):
            kinds["response"] = pl.Int64
        return pl.DataFrame(list(self._lines("response" in kinds)), kinds, orient="row")

    def _lines(self, several: bool) -> Iterator[tuple[Any, ...]]:
        for party, x in self._local.items():
            names = self._names.get(party) or [f"x{k}" for k in range(len(x))]
            for name, values in zip(names, np.atleast_2d(x.T).T.tolist(), strict=True):
                yield from ((party, str(name), v, *((k,) if several else ())) for k, v in enumerate(values))

    def __repr__(self) -> str:
        held = [f"{p}: {np.count_nonzero(x):,} of {x.size:,} nonzero" for p, x in self._local.items()]
        return f"Coefficients({', '.join([*held, *(f'{p}: elsewhere' for p in self._elsewhere)])})"

    def _repr_html_(self) -> str:
        used = {party: f"{np.count_nonzero(x):,} of {x.size:,} are not 0" for party, x in self._local.items()}
        used |= dict.fromkeys(self._elsewhere, "held there")
        return shown("Coefficients", used, [self.largest()])

    def largest(self) -> Grid:
        """Those that are not 0, the largest first."""
        lines = sorted((line for line in self._lines(False) if line[2]), key=lambda line: -abs(line[2]))
        rows = [(party, name, f"{value:.4g}") for party, name, value in lines]
        return Grid("largest first, per unit of the encoded column", ("party", "feature", "coefficient"), rows, 1)


@dataclass(frozen=True, eq=False)
class CoefficientPath:
    """The model along its penalty: what the same release gives at other weights (or radii), for nothing.

    Parameters
    ----------
    weights
        Of the penalty, or radii of the set.
    coefficients
        By party, one row for each weight.
    """

    weights: Floats
    coefficients: Mapping[str, Floats]

    def table(self) -> pl.DataFrame:
        """Nonzero coefficients and their l1 norm at each weight."""
        import polars as pl

        whole = np.hstack(list(self.coefficients.values()))
        sizes = {"weight": self.weights, "nonzero": (whole != 0).sum(axis=1), "l1_norm": np.abs(whole).sum(axis=1)}
        return pl.DataFrame(sizes)


Name = str | bool | int | float  # of a class
Classes = tuple[Name, Name]  # of −1 and of +1
_Class = str | bool | Finite
_Left = Annotated[
    Sequence[tuple[str, Literal["masked", "noisy", "exact"], str, Count]], must("lists of who, how, what and how often")
]


class Encoding(Protocol):
    """How a party's columns became numbers, as far as it is shown; data/schema/table.py has more."""

    @property
    def columns(self) -> tuple[Any, ...]: ...

    @property
    def source(self) -> str: ...

    def digest(self) -> str: ...

    def to_text(self) -> str: ...


@dataclass(frozen=True, eq=False, repr=False)
class FitFacts:
    """A model and how it came about: all of a `Fit`, which explains the fields, but what computes with rows."""

    coefficients: Coefficients
    intercept: float
    objective: float | None
    gap: float | None
    status: Status
    privacy: PrivacyStatement
    communication: Communication
    problem: Problem
    method: str
    run: str
    seconds: float | None
    label: str
    notes: tuple[Mapping[str, Any], ...] = field(repr=False)
    features: Mapping[str, Sequence[str]] = field(repr=False)
    schemas: Mapping[str, Encoding | None] = field(repr=False)
    on: str | None = None
    spread: Mapping[str, Floats] | None = field(default=None, repr=False)
    path: CoefficientPath | None = field(default=None, repr=False)
    link: Link | None = field(default=None, repr=False)
    remarks: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    by_rows: bool = False
    model: Support | Mapping[str, Stumps] | None = field(default=None, repr=False)
    beside: Mapping[str, str] = field(default_factory=dict)

    @property
    def classes(self) -> Classes | None:
        """The labels' own values, of −1 and of +1; None: numbers, or classes that were not named (`predict`)."""
        names = self.facts.get("classes")
        return None if names is None else (names[0], names[1])

    @property
    def coreset(self) -> pl.DataFrame:
        """The atoms of the model with their weights: columns, examples, or stumps with their thresholds."""
        import polars as pl

        kinds = {"party": pl.String, "name": pl.String, "index": pl.Int64, "weight": pl.Float64}
        atoms: list[tuple[Any, ...]] = []
        if isinstance(self.model, Mapping):
            kinds |= {"threshold": pl.Float64, "sign": pl.Float64}
            for party, stumps in self.model.items():
                parts = (stumps.columns, stumps.weights, stumps.thresholds, stumps.signs)
                rows = zip(*(part.tolist() for part in parts), strict=True)
                atoms += [(party, self.features[party][row[0]], *row) for row in rows]
        else:
            for party, x in self.coefficients.items():
                used = np.flatnonzero(x).tolist()
                atoms += [(party, self.features[party][index], index, float(x[index])) for index in used]
        return pl.DataFrame(atoms, kinds, orient="row")

    def __repr__(self) -> str:
        figures = "" if self.objective is None else f", objective {self.objective:.4g}"
        about = f"{self.method}, run {self.run}: {self.status.value}{figures}; {self.coefficients!r}"
        return f"{type(self).__name__}({about})"

    def _repr_html_(self) -> str:
        said = self.privacy
        private = (
            f"ε {said.epsilon:.4g}, δ {said.delta:g}, {said.guarantee}"
            if math.isfinite(said.epsilon)
            else "not private"
        )
        label = self.label if self.classes is None else f"{self.label}: {self.classes[1]} rather than {self.classes[0]}"
        sent = self.communication
        facts = {
            "status": self.status.value,
            "label": label,
            "privacy": private,
            "objective": "" if self.objective is None else f"{self.objective:.4g}",
            "certified gap": "" if self.gap is None else f"{self.gap:.2g}",
            "intercept": f"{self.intercept:.4g}",
            "sent": f"{sent.messages:,} messages, {sent.bytes:,} bytes, {sent.rounds:,} rounds",
            "run": self.run,
        }
        return shown(f"Fit: {self.method}", facts, [self.coefficients.largest()], self.remarks)

    @property
    def history(self) -> pl.DataFrame:
        """One row a round."""
        import polars as pl

        return pl.DataFrame(list(self.notes), infer_schema_length=None)

    @property
    def l1_norm(self) -> float:
        """The sum of all absolute coefficients."""
        return math.fsum(float(np.abs(x).sum()) for x in self.coefficients.values())


@dataclass(frozen=True)
class RunFacts:
    """What a report may say about a run beside its fit: public facts, known before the first message, or empty."""

    rows: Count | None = None  # in common, or in all where rows are split
    depth: Count = 0  # of curves
    classes: Annotated[tuple[_Class, _Class], must("two classes", ["no", "yes"])] | None = None  # of −1 and of +1
    brought: Mapping[str, Count] = field(
        default_factory=dict
    )  # by party; without privacy only, since no price covers it
    policies: Mapping[str, str] = field(default_factory=dict)  # what each party allows, in words
    settings: str = ""  # method and privacy terms as the parties approved them
    protocol: str = ""  # release of the library and protocol of the method
    code: str = ""  # SHA-256 over the files of the library where the fit was made
    asked: str = ""  # the label's column, in its holder's words
    left: _Left = ()  # by whom, how it looked (KINDS), what it was, how often at most
    approved: str = ""  # who agreed to the terms, and how
    federation: str = ""  # hash of the federation file, where parties run elsewhere
    keys: Mapping[str, str] = field(default_factory=dict)  # that the file pins, by party
    absent: Mapping[str, str] = field(default_factory=dict)  # parties that were lost on the way, and when

    @classmethod
    def of(cls, fit: FitFacts) -> RunFacts:
        """Those that the fit carries."""
        return cls(**{one.name: fit.facts[one.name] for one in fields(cls) if one.name in fit.facts})


# ------------------------------------------------------------------------------------------------ traffic


class Sent(NamedTuple):
    """Messages of one type that left or reached one party."""

    party: str
    type: str
    messages: int
    bytes: int


def left_by_party(fit: FitFacts) -> list[Sent]:
    """By sender: what other nodes were given."""
    return _add_up((line[0], *line[2:]) for line in fit.communication.lines)


def reached_by_party(fit: FitFacts) -> list[Sent]:
    """By receiver: what a party was given."""
    return _add_up((line[1], *line[2:]) for line in fit.communication.lines)


def left_by_round(fit: FitFacts, party: str) -> dict[int, int]:
    """Bytes that left a party, by round."""
    rounds: Counter[int] = Counter()
    for sender, _, _, number, _, size in fit.communication.lines:
        if sender == party:
            rounds[number] += size
    return dict(sorted(rounds.items()))


def _add_up(lines: Iterable[tuple[str, str, int, int, int]]) -> list[Sent]:
    messages: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for party, kind, _, count, size in lines:
        if party != COORDINATOR:
            messages[party, kind] += count
            sizes[party, kind] += size
    return [Sent(*key, messages[key], sizes[key]) for key in sorted(messages)]


def parties_of(fit: FitFacts) -> list[str]:
    """Everyone who took part, with or without columns: the label holder too."""
    return list(dict.fromkeys([*fit.coefficients, fit.label]))
