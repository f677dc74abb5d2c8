"""The whole model as a scikit-learn pipeline of standard parts, which skl2onnx turns into ONNX.

A number's effect is linear between knots k_0 … k_m and level beyond them: f(k_0) + Σ (f(k_i) − f(k_(i−1)))·r_i, where
the ramp r_i climbs from 0 to 1 between two knots: a MinMaxScaler that clips. Levels are a OneHotEncoder's. A gap of a
number becomes HUGE first: there every ramp is 1, and a Binarizer tells it from values; of a level it becomes the level
"missing". Whole numbers among levels may come as texts or as numbers, which become texts first. The last step is a
logistic, a linear or, for counts, a Poisson regression with the model's coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.data.labels import called
from colonnade.data.schema.cells import CardKind, Gaps
from colonnade.errors import InvalidInput, StoreError
from colonnade.problem.link import PLAIN
from colonnade.runs.effects import Effect, effects_of

if TYPE_CHECKING:
    from colonnade.runs.result import Fit

HUGE = 1e30  # stands for a gap; no value of a table is beyond it
GAP = "missing"
GAPS = (np.nan, None)  # of texts, as pandas and as polars write them; the first makes room for the second
WRITTEN = ("nan", "None", "<NA>")  # gaps of numbers that are written as texts


@dataclass
class _Plan:
    """Which column goes through which part, and what its coefficient is, in the order of the parts."""

    ramps: list[list[tuple[str, float, float, float]]] = field(
        default_factory=list
    )  # name, from, to, how far it climbs
    fills: dict[str, float] = field(default_factory=dict)  # of numbers, what stands in for a gap
    gaps: list[tuple[str, float]] = field(default_factory=list)
    levels: list[tuple[str, list[str], list[float], str | None]] = field(default_factory=list)
    constant: float = 0.0

    def add_number(self, effect: Effect, knots: Any, values: Any) -> None:
        name = effect.column.name
        missing = effect.column.missing
        self.constant += float(values[0])
        for k in range(len(knots) - 1):
            if len(self.ramps) == k:
                self.ramps.append([])
            self.ramps[k].append((name, float(knots[k]), float(knots[k + 1]), float(values[k + 1] - values[k])))
        if missing == Gaps.INDICATOR:
            self.fills[name] = HUGE
            self.gaps.append((name, float(effect.at([None])[0] - values[-1])))
        elif isinstance(missing, float):
            self.fills[name] = missing

    def add_levels(self, effect: Effect) -> None:
        levels = list(effect.column.levels_of())
        values = effect.at(levels).tolist()
        stands = None if effect.column.missing == Gaps.REFUSE else effect.column.missing
        if stands == Gaps.INDICATOR:
            levels = [*levels, GAP]
            values = [*values, float(effect.at([None])[0])]
            stands = GAP
        self.levels.append((effect.column.name, levels, values, stands))


def pipeline_of(fit: Fit) -> Any:
    """A fitted scikit-learn Pipeline; its input is one frame with the declared columns of all parties by name."""
    model = _assemble(fit, _plan(fit))
    if fit.problem.loss.classifies and fit.classes is not None:
        model.named_steps["model"].classes_ = called(np.array([False, True]), fit.classes)
    return model


def write_onnx(fit: Fit, path: str | Path) -> Path:
    """The same as an ONNX file: an input of 32-bit floats or of strings for every column, "" for a gap among them.

    Its classes are −1 and 1, whatever they are called.
    """
    try:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    except ImportError as error:
        raise InvalidInput("ONNX needs skl2onnx: pip install 'colonnade[onnx]'.") from error
    plan = _plan(fit)
    texts = {name for name, *_ in plan.levels}
    model = _assemble(fit, plan, onnx=True)
    kinds = [
        (name, (StringTensorType if name in texts else FloatTensorType)([None, 1]))
        for name in model.named_steps["columns"].feature_names_in_
    ]
    options = {"zipmap": False} if fit.problem.loss.classifies else None
    try:
        Path(path).write_bytes(to_onnx(model, initial_types=kinds, options=options).SerializeToString())
    except OSError as error:
        raise StoreError(f"the model could not be written to {path}: {error.strerror}.") from error
    return Path(path)


def _plan(fit: Fit) -> _Plan:
    if fit.by_rows or fit.model is not None or any(x.ndim > 1 for x in fit.coefficients.local.values()):
        raise InvalidInput("only one linear score becomes a pipeline, of columns and not of rows split over parties.")
    plan = _Plan()
    seen = set[str]()
    for party in fit.coefficients:
        if (schema := fit.schemas.get(party)) is None:
            raise InvalidInput(f"the columns of {party!r} have no schema: make the federation from frames.")
        for effect in effects_of(fit, party, schema):
            column = effect.column
            kind = effect.column.card(effect.group).get("kind")
            if kind not in (CardKind.NUMBER, CardKind.FLAG, CardKind.LEVEL):
                what = f"{column.name!r} is a {column.noun()}, for which scikit-learn has no standard part"
                raise InvalidInput(f"{what}; fit.scorecard().to_python(...) takes dates, and fit.scores every column.")
            if column.name in seen:
                raise InvalidInput(f"{column.name!r} is a column of two parties; a pipeline wants names of their own.")
            seen.add(column.name)
            if kind == CardKind.LEVEL:
                plan.add_levels(effect)
            elif kind == CardKind.FLAG:
                plan.add_number(effect, [0.0, 1.0], effect.at([0.0, 1.0]))
            else:
                plan.add_number(effect, effect.knots, effect.at_numbers(effect.knots))
    return plan


def _assemble(fit: Fit, plan: _Plan, onnx: bool = False) -> Any:
    """The parts, fitted on a few rows by scikit-learn itself, and then given the model's figures."""
    import polars as pl
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import Binarizer, MinMaxScaler, OneHotEncoder

    coefficients: list[float] = []
    numbers = list(dict.fromkeys(name for ramp in plan.ramps for name, *_ in ramp))
    sample: dict[str, Any] = {name: [0.0, 1.0] for name in numbers}
    sample |= {name: [levels[0], levels[-1]] for name, levels, _, _ in plan.levels}
    steps: list[tuple[str, Any, list[str]]] = []
    for k, ramp in enumerate(plan.ramps, 1):
        filled = Pipeline([("fill", SimpleImputer(keep_empty_features=True)), ("ramp", MinMaxScaler(clip=True))])
        steps.append((f"ramp{k}", filled, [name for name, *_ in ramp]))
        coefficients += [climb for *_, climb in ramp]
    if plan.gaps:
        told = Pipeline([("fill", SimpleImputer(keep_empty_features=True)), ("gap", Binarizer(threshold=HUGE / 10.0))])
        steps.append(("gaps", told, [name for name, _ in plan.gaps]))
        coefficients += [value for _, value in plan.gaps]
    for name, levels, values, stands in plan.levels:
        gaps: Sequence[Any] = ("",) if onnx else GAPS
        start: list[tuple[str, Any]] = []
        if not onnx and (floats := _as_floats(levels)) and not {*WRITTEN} & {*levels}:  # the column may hold numbers
            gaps = WRITTEN
            start = [(f"as {kind.__name__}", _cast(kind)) for kind in (str, object)]
            levels = [*levels, *floats.values()]
            values = [*values, *(values[k] for k in floats)]
        coder = OneHotEncoder(categories=[levels], handle_unknown="ignore", sparse_output=False, dtype=np.float64)
        fill = [] if stands is None else [(f"fill {gap!r}", _text_filler(gap, stands)) for gap in gaps]
        steps.append((f"levels of {name}", Pipeline([*start, *fill, ("code", coder)]), [name]))
        coefficients += values
    model = Pipeline([("columns", ColumnTransformer(steps)), ("model", _last(fit))])
    model.fit(pl.DataFrame(sample), np.array([-1, 1] if fit.problem.loss.classifies else [0, 1]))
    _set_figures(model, plan)
    _set_model(fit, model.named_steps["model"], np.array(coefficients), plan.constant + fit.intercept)
    return model


def _as_floats(levels: Sequence[str]) -> dict[int, str]:
    """By place of a level that is a whole number, how a column of floats writes it."""
    whole = {k: f"{level}.0" for k, level in enumerate(levels) if level.removeprefix("-").isdecimal()}
    return {k: text for k, text in whole.items() if text not in levels}


def _cast(kind: type) -> Any:
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(np.array, kw_args={"dtype": kind})


def _text_filler(gap: Any, stands: str) -> Any:
    from sklearn.impute import SimpleImputer

    return SimpleImputer(missing_values=gap, strategy="constant", fill_value=stands)


def _last(fit: Fit) -> Any:
    from sklearn import linear_model

    if not fit.problem.loss.classifies:
        return getattr(linear_model, fit.problem.loss.sklearn)()
    if fit.link is None and fit.problem.loss.odds is None:
        raise InvalidInput(f"scores of {type(fit.problem.loss).__name__} are no log-odds; fit with co.Logistic().")
    return linear_model.LogisticRegression()


def _set_figures(model: Any, plan: _Plan) -> None:
    """Ramps and fills of the model, where the few rows had others."""
    parts = model.named_steps["columns"].named_transformers_
    for k, ramp in enumerate(plan.ramps, 1):
        _set_fill(parts[f"ramp{k}"], [name for name, *_ in ramp], plan.fills)
        scaler = parts[f"ramp{k}"].named_steps["ramp"]
        low, high = (np.array([one[place] for one in ramp]) for place in (1, 2))
        scaler.data_min_ = low
        scaler.data_max_ = high
        scaler.data_range_ = high - low
        scaler.scale_ = 1.0 / (high - low)
        scaler.min_ = -low * scaler.scale_
    if plan.gaps:
        _set_fill(parts["gaps"], [name for name, _ in plan.gaps], plan.fills)


def _set_fill(part: Any, names: list[str], fills: dict[str, float]) -> None:
    # A column without gaps keeps nan where there is one: the last step then refuses the row.
    part.named_steps["fill"].statistics_ = np.array([fills.get(name, np.nan) for name in names])


def _set_model(fit: Fit, model: Any, coefficients: Any, constant: float) -> None:
    """Of classes: log-odds, those of the score itself where the fit has no link of its own."""
    link = (fit.link or PLAIN) if fit.problem.loss.classifies else PLAIN
    coefficients = link.slope * coefficients
    constant = link.slope * constant + link.offset
    if fit.problem.loss.classifies:
        model.coef_ = coefficients.reshape(1, -1)
        model.intercept_ = np.array([constant])
    else:
        model.coef_ = coefficients
        model.intercept_ = constant
