"""From a job to the nodes that do it: who sits where, what each may say, and the terms that all of them approve.

The same for every engine: in one process all setups are made here; between organisations each party makes its own, from
its own federation file and data, so that nobody else can choose its neighbours, its price or its policy.

A call travels as plain data, as do files of settings and kept fits:

    {"type": "ElasticNet", "l1": 0.1, "l2": 1.0}   <->   co.ElasticNet(l1=0.1, l2=1.0)

Only types that Colonnade itself exports are made, by their public names; nothing is imported or executed. A function
cannot travel.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from colonnade import problem
from colonnade.errors import InvalidInput
from colonnade.fields import Finite, Table, must, parse_json, read
from colonnade.kernels.curves import DEEPEST
from colonnade.methods.look import Look
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.method import GraphMethod, Method, MethodBase, network
from colonnade.model.job import Job, Own
from colonnade.privacy.block import Block
from colonnade.privacy.conditions import KEYED_HASH, PLACE_BY_HASH, PLACE_BY_KEY, PLACE_BY_TABLE, Condition
from colonnade.privacy.events import Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Terms
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.statement import Privacy, Trust, large_delta
from colonnade.problem import AdaBoost, KernelSVM, Problem
from colonnade.problem.adjusted import check_offset, check_weight
from colonnade.problem.checks import two_classes
from colonnade.runtime.node import NodeSetup
from colonnade.runtime.program import COORDINATOR, NodeId, Program

AnyMethod = Method | GraphMethod | MaskedScores | Look
Nodes = tuple[NodeId, ...]


_Value = Annotated[dict[str, Any], must("a value of colonnade", {"type": "PrivateGram"})]


class CallTable(Table, frozen=True):
    """A call as it travels."""

    method: _Value
    problem: _Value
    privacy: _Value | None
    noise: Annotated[int, must("the seed of a rehearsal, a whole number", 7, ge=0)] | None


class ScoresTable(Table, frozen=True):
    """Scores by a model, as a call has them in place of a method."""

    scores: str
    intercept: Finite
    curves: Annotated[int, must(f"a depth, 0 to {DEEPEST}", 3, ge=0, le=DEEPEST)]


@dataclass(frozen=True, slots=True)
class Call:
    """What a user asked for, as parties elsewhere are told it."""

    method: AnyMethod
    problem: Problem | KernelSVM | AdaBoost
    privacy: Privacy | None
    noise: SeededNoise | None = None

    def to_json(self) -> str:
        seed = None if self.noise is None else self.noise.seed
        plain = {name: to_plain(getattr(self, name)) for name in ("problem", "privacy")}
        return json.dumps({**plain, "method": _method_out(self.method), "noise": seed}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Call:
        try:
            said: CallTable = read(parse_json(text), CallTable, "call")
            parts = {name: from_plain(getattr(said, name), name) for name in ("problem", "privacy")}
            parts["method"] = _method_in(said.method)
            noise = None if said.noise is None else SeededNoise(said.noise)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput("the coordinator proposes no job that this version of colonnade knows.") from error
        kinds = {"problem": Problem | KernelSVM | AdaBoost, "method": AnyMethod, "privacy": Privacy | None}
        for name, kind in kinds.items():
            if not isinstance(parts[name], kind):
                raise InvalidInput(f"the coordinator proposes a {type(parts[name]).__name__} as a {name}.")
        if parts["privacy"] is not None and parts["privacy"].trust is None:
            raise InvalidInput("the coordinator's terms of privacy name no trust model; a job between parties has one.")
        return cls(parts["method"], parts["problem"], parts["privacy"], noise)


def _method_out(method: AnyMethod) -> Any:
    """Scores are no method that a job could name: which model, and nobody's coefficients."""
    if isinstance(method, MaskedScores):
        return {"scores": method.model, "intercept": method.intercept, "curves": method.curves}
    return to_plain(method)


def _method_in(raw: Any) -> Any:
    if isinstance(raw, dict) and "scores" in raw:
        said: ScoresTable = read(raw, ScoresTable, "method")
        return MaskedScores(said.scores, float(said.intercept), curves=said.curves)
    return from_plain(raw, "method")


def coordinator_setup(job: Job, method: Method | MaskedScores | Look, noise: SeededNoise | None) -> NodeSetup:
    """The coordinator of a star: it holds no data, so its messages are plain."""
    quorum = quorum_for(job, method)
    relays = method.relays(job)
    policy = Policy(exact=noise is not None, consortium=True)
    program = partial(method.coordinator, job)
    setup = NodeSetup(COORDINATOR, program, job.roster.parties, False, method.REPLIES, policy, noise=noise)
    sealing = bool(method.SEALED) and relays
    receipts = job.privacy is not None or relays
    return replace(setup, sealing=sealing, sealed=method.SEALED, receipts=receipts, quorum=quorum)


def neighbours(job: Job, method: AnyMethod) -> dict[NodeId, Nodes]:
    """Whom each party talks to: its neighbours on a graph; on a star the coordinator, and others through it."""
    parties = job.roster.parties
    if isinstance(method, GraphMethod):
        return dict(network(method.topology, job.roster).over(parties))
    others = parties if method.relays(job) else ()
    return {name: (COORDINATOR, *(p for p in others if p != name)) for name in parties}


def party_setup(
    job: Job, method: AnyMethod, block: Block, policy: Policy, noise: SeededNoise | None, name: NodeId, around: Nodes
) -> NodeSetup:
    """The setup of one party among the neighbours it has."""
    if isinstance(method, GraphMethod):
        make: Callable[[Gate], Program[Any]] = partial(method.peer, job, block, neighbours=around)
        relayed: Nodes = ()
    else:
        make = partial(method.party, job, block)
        relayed = tuple(p for p in around if p != COORDINATOR)
    remark = partial(_for_the_operator, block)
    sealing = method.relays(job)
    # Whether a node that forgot a step would not say the same again: noise is drawn, or masks and keys are.
    receipts = job.privacy is not None or sealing
    setup = NodeSetup(name, make, around, True, method.REPLIES, policy, relayed, sealing, noise, remark)
    return replace(setup, sealed=method.SEALED, receipts=receipts, quorum=quorum_for(job, method))


def quorum_for(job: Job, method: AnyMethod) -> int:
    """How many parties must be left for the run to go on when others are lost; 0: it ends then."""
    return job.roster.quorum if method.tolerates_dropout(job) else 0


def conditions_of(job: Job, method: AnyMethod, *, keyed: bool) -> tuple[Condition, ...]:
    """The conditions of the statement of a private run, before it begins: by its trust model, by what makes two rows
    the same row where what leaves depends on the place of a row, and by its figures."""
    if job.privacy is None:
        return ()
    return (*method.rests_on(job), *_place(job, method, keyed), *large_delta(job.privacy, *job.units))


def _place(job: Job, method: AnyMethod, keyed: bool) -> tuple[Condition, ...]:
    if not method.depends_on_row_order(job):
        return ()
    if not keyed:
        return (PLACE_BY_TABLE,)
    # Of its two promises the one against outsiders rests on a hash that nobody tells from a random one.
    return (PLACE_BY_KEY,) if method.labels_public else (KEYED_HASH, PLACE_BY_HASH)


def terms_of(job: Job, method: AnyMethod) -> Terms:
    """What the parties of a run approve, as their ledgers keep it."""
    unit = job.roster.unit
    trust = Trust.NOBODY if job.privacy is None else str(job.privacy.trust)
    return Terms(method.TITLE, f"{method!r} {job.privacy!r}", trust, str(unit), unit.neighbours, protocol_of(method))


def protocol_of(method: AnyMethod) -> str:
    """What two nodes must have in common to take part in one run, and a run to be gone on with: the release of
    colonnade, and the protocol of the method."""
    return f"{installed()} {type(method).__name__} {method.PROTOCOL}"


@cache
def code_digest() -> str:
    """SHA-256 over all files of the package: what ran here, for the record. Nothing is refused by it."""
    package = Path(__file__).parents[1]
    text = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        text.update(bytes(file.relative_to(package)) + file.read_bytes())
    return text.hexdigest()


@cache
def installed() -> str:
    """The version of colonnade, read from its files once."""
    return version("colonnade")


def usable_labels(y: NDArray[Any], job: Job, beside: Mapping[str, NDArray[Any]] | None = None) -> NDArray[Any]:
    """The labels as the loss wants them; beside each its offset and its weight, where rows have them."""
    loss = job.problem.loss
    check = two_classes if isinstance(job.problem, KernelSVM | AdaBoost) else loss.check
    checked = check(y) if job.privacy is None else _private_labels(y, job)
    if job.roster.beside and job.privacy is None:  # private methods have refused them
        assert beside is not None, "whoever holds the labels holds what stands beside them"
        checks = {"offset": check_offset, "weight": check_weight}
        return np.column_stack([checked, *(checks[name](beside[name]) for name in job.roster.beside)])
    return checked.astype(np.int8) if loss.classifies else checked


def _private_labels(y: Any, job: Job) -> Any:
    """Labels under privacy: no check, since a refusal would tell whether both classes, or a wild value, occur."""
    assert job.privacy is not None
    if np.asarray(y).dtype.kind not in "biuf":  # the type of a column is public
        raise InvalidInput(
            "labels of a private run must be numbers: write the positive class as 1, the other as 0; or name it in the "
            'federation file, as in positive = "yes".'
        )
    middle = job.privacy.label_middle
    reach = job.privacy.label_reach
    # Of wider floats: a warning may be an error, which others see.
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.nan_to_num(np.asarray(y, dtype=np.float64), nan=middle)
    if job.problem.loss.classifies:
        return np.where(values > 0.0, 1.0, -1.0)
    # Measured from the middle of their range, which the model's intercept gets back.
    return values if reach is None else np.clip(np.clip(values, middle - reach, middle + reach) - middle, -reach, reach)


def _for_the_operator(block: Block, own: object) -> str:
    """What a party's operator should know about its data after a run."""
    count = own.shortened if isinstance(own, Own) else 0
    over = (f"{count:,} of {block.rows:,} rows were over the public bound and were shortened",) if count else ()
    return "; ".join((*block.owner_notes, *over))


# ------------------------------------------------------------------------------------------------ values as plain data


@lru_cache(maxsize=1)
def known_values() -> dict[str, type]:
    """Every frozen value that may be part of a job, by its name: of `problem`, and what `methods` has in public."""
    # Its table of public names; the package loads this file when it is asked to.
    package = import_module("colonnade")
    rooms = ("colonnade.methods.", "colonnade.problem.")
    public = [getattr(package, name) for name, home in package.HOMES.items() if home.startswith(rooms)]
    named = [*(getattr(problem, name) for name in problem.__all__), *public, Privacy]
    return {kind.__name__: kind for kind in named if isinstance(kind, type) and is_dataclass(kind)}


def known_methods() -> dict[str, type[MethodBase]]:
    """Every public method, by its name."""
    return {name: kind for name, kind in known_values().items() if issubclass(kind, MethodBase)}


def to_plain(value: Any) -> Any:
    """A frozen value as numbers, texts, lists and tables."""
    if is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        if known_values().get(name) is not type(value):
            raise InvalidInput(
                f"{name} cannot be sent or saved: it is not among the public names of colonnade, by which it would be "
                "read again. Export it (CONTRIBUTING.md), or fit in one process, without store= and save."
            )
        return {"type": name, **{f.name: to_plain(getattr(value, f.name)) for f in fields(value) if f.init}}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {"type": "table", "entries": {str(key): to_plain(item) for key, item in value.items()}}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, str) else value
    wrong = f"a {type(value).__name__} cannot be sent or saved as part of a job"
    raise InvalidInput(f"{wrong}: use numbers, texts and the values of colonnade.")


class InvalidValue(InvalidInput):
    """A value that cannot be made, where it stands in the plain data: `place`, as in problem.loss."""

    def __init__(self, place: str, what: str, setting: str = "") -> None:
        super().__init__(f"{place}: {what}", setting)
        self.place = place
        self.what = what


def from_plain(raw: Any, where: str = "value") -> Any:
    """The value that `to_plain` wrote, or InvalidValue, which names the place."""
    if isinstance(raw, list):
        return tuple(from_plain(item, f"{where}[{place}]") for place, item in enumerate(raw))
    if not isinstance(raw, Mapping):
        return raw
    name = raw.get("type")
    if name == "table":
        return {key: from_plain(item, f"{where}.{key}") for key, item in raw.get("entries", {}).items()}
    kind = known_values().get(str(name))
    if kind is None:
        longer = [one for one in known_values() if str(name).lower() in one.lower()]
        near = [f"; the nearest name is {one!r}" for one in (get_close_matches(str(name), known_values(), 1) or longer)]
        wrong = f"{name!r} is not a value of colonnade{''.join(near[:1])}"
        raise InvalidValue(where, f"{wrong}. docs/use/reference.md lists all, under Public names.")
    given = {str(key): from_plain(item, f"{where}.{key}") for key, item in raw.items() if key != "type"}
    allowed = [f.name for f in fields(kind) if f.init]
    if unknown := sorted(set(given) - set(allowed)):
        has = ", ".join(allowed) or "no settings"
        raise InvalidValue(where, f"{name} has no {unknown[0]!r}; it has {has}.", unknown[0])
    try:
        return kind(**given)
    except TypeError as error:
        needed = [f.name for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING]
        if missing := [setting for setting in needed if setting not in given]:
            raise InvalidValue(where, f"{name} needs {', '.join(missing)}.") from error
        raise InvalidValue(where, f"{name} cannot be made from {', '.join(given) or 'nothing'} ({error}).") from error
    except InvalidInput as error:
        raise InvalidValue(where, str(error), error.setting) from error
