"""Error bars, intervals and bands are drawn as long as their figures say, by hand arithmetic on what a page holds."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

import colonnade as co
from colonnade.views.model import EffectCurve, EffectCurves, probability
from colonnade.views.page import render_report
from colonnade.views.verdict import Quality
from tests.helpers.exact_fits import CLASSES, design, fitted, tables

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

NAMES = ["x0", "flag", "x1", "level=b", "level=c", "x2"]
PLACE = r'([\d.]+)%"'


@pytest.fixture(scope="module")
def fit(tmp_path_factory) -> co.Fit:
    return fitted(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def classes(tmp_path_factory) -> co.Fit:
    return fitted(tmp_path_factory.mktemp("store"), CLASSES)


def share(value: float, span: tuple[float, float]) -> float:
    return 100.0 * (value - span[0]) / (span[1] - span[0])


def cell_of(page: str, after: str, name: str) -> str:
    """The first drawing behind a name, after some words of the page."""
    at = page.index(f">{name}<", page.index(after))
    return page[page.index("<svg", at) : page.index("</svg>", at)]


@pytest.mark.parametrize("longer", [1.0, 3.0])
def test_a_report_draws_two_standard_errors_to_either_side(fit: co.Fit, longer: float, tmp_path) -> None:
    errors = {party: longer * np.linspace(0.02, 0.09, x.size) for party, x in fit.coefficients.items()}
    page = replace(fit, spread=errors).report(tmp_path / "report.html").read_text(encoding="utf-8")
    flat = {
        str(name): (value, error)
        for party, x in fit.coefficients.items()
        for name, value, error in zip(fit.features[party], x, errors[party], strict=True)
        if value
    }
    ends = [value + side * 2 * error for value, error in flat.values() for side in (-1, 1)]
    span = (min(0.0, *ends), max(0.0, *ends))
    assert len(flat) >= 6
    for name, (value, error) in flat.items():
        drawn = cell_of(page, "largest of", name)
        found = re.search(rf'x1="{PLACE} x2="{PLACE} y1="50%" y2="50%" class="whisker"', drawn)
        assert [float(end) for end in found.groups()] == pytest.approx(
            [share(value - 2 * error, span), share(value + 2 * error, span)], abs=0.006
        )
    assert "± is one standard error, the lines show two" in page


def test_an_error_that_is_not_known_has_no_line(fit: co.Fit, tmp_path) -> None:
    errors = {party: np.full(x.size, np.inf) for party, x in fit.coefficients.items()}
    page = replace(fit, spread=errors).report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'class="whisker"' not in page


@pytest.mark.parametrize(("level", "units"), [(0.95, "data"), (0.8, "encoded"), (0.999, "data")])
def test_intervals_are_drawn_as_long_as_least_squares_has_them(fit: co.Fit, level: float, units: str) -> None:
    """Over the range of each column: 8, 16 and 8 of numbers, 1 of flags and levels, in either units."""
    frames = tables()
    theirs = sm.OLS(frames["c"]["y"].to_numpy(), design(frames, NAMES)).fit()
    across = np.array([8, 1, 16, 1, 1, 8])
    values = theirs.params[:-1] * across
    ends = theirs.conf_int(1 - level)[:-1] * across[:, None]
    span = (min(0.0, ends.min()), max(0.0, ends.max()))
    page = fit.inference(level=level, units=units)._repr_html_()
    assert f"{100 * level:.3g} % interval" in page
    for name, value, (low, high) in zip(NAMES, values, ends, strict=True):
        full = next(one for one in fit.release.names if one.endswith(f":{name}"))
        drawn = cell_of(page, "<table", full)
        x1, x2 = re.search(rf'x1="{PLACE} x2="{PLACE} y1="50%"', drawn).groups()
        assert (float(x1), float(x2)) == pytest.approx((share(low, span), share(high, span)), abs=0.006)
        assert float(re.search(rf'cx="{PLACE}', drawn).group(1)) == pytest.approx(share(value, span), abs=0.006)
        zero = re.search(rf'x1="{PLACE} x2="{PLACE} y1="0" y2="100%"', drawn).groups()
        assert [float(end) for end in zero] == pytest.approx([share(0.0, span)] * 2, abs=0.006)


def test_zero_is_on_the_page_where_all_intervals_lie_above_it(fit: co.Fit) -> None:
    found = fit.inference(["x0", "x1"], level=0.5)
    ends = [end * (8 if name == "a:x0" else 16) for name in found.names for end in found.intervals[name]]
    assert min(ends) > 0
    drawn = cell_of(found._repr_html_(), "<table", "a:x0")
    assert re.search(r'x1="0.00%" x2="0.00%" y1="0" y2="100%"', drawn)
    x1, x2 = re.search(rf'x1="{PLACE} x2="{PLACE} y1="50%"', drawn).groups()
    assert (float(x1), float(x2)) == pytest.approx([100 * end / max(ends) for end in ends[:2]], abs=0.006)


def test_a_curves_reach_is_from_its_least_to_its_largest_effect() -> None:
    grid = np.array([0.0, 1.0, 2.0])
    flat, deep = (EffectCurve("a", name, grid, np.array(y)) for name, y in (("f", [0, 0, 2.0]), ("d", [-3.0, 0, 1.0])))
    assert (flat.reach, deep.reach) == (2.0, 4.0)
    shown = EffectCurves((flat, deep))._repr_html_()
    assert shown.index("a: d") < shown.index("a: f")  # the widest first


def test_the_report_draws_the_intervals_of_the_fits_own_inference(fit: co.Fit, tmp_path) -> None:
    page = fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    shown = fit.inference()._repr_html_()
    for name in fit.inference().names:
        assert cell_of(page, "Coefficients with their intervals", name) == cell_of(shown, "<table", name)


def test_models_side_by_side_are_drawn_with_two_standard_errors(fit: co.Fit) -> None:
    values, errors = {"this": 0.70, "open": 0.80, "other": 0.60}, {"this": 0.02, "open": 0.01, "other": 0.04}
    every = {**values, "worse": 0.5}  # neither this one, nor without privacy, nor the best of the others
    page = render_report(fit, quality=Quality("AUC", every, "On other rows.", errors, "open"))
    span = (0.60 - 0.08 - 0.08 * 0.30, 0.82 + 0.08 * 0.30)  # from 0.52 to 0.82, and 8 % of that as room
    for name, value in values.items():
        drawn = cell_of(page, "This model, one without privacy", name)
        x1, x2 = re.search(rf'x1="{PLACE} x2="{PLACE} y1="50%"', drawn).groups()
        ends = share(value - 2 * errors[name], span), share(value + 2 * errors[name], span)
        assert (float(x1), float(x2)) == pytest.approx(ends, abs=0.006)
        assert float(re.search(rf'cx="{PLACE}', drawn).group(1)) == pytest.approx(share(value, span), abs=0.006)


def test_plotly_draws_one_standard_error_to_either_side(fit: co.Fit) -> None:
    assert fit.spread is not None
    drawn = fit.plot.coefficients().data
    found = {name: error for bar in drawn for name, error in zip(bar.y, bar.error_x.array, strict=True)}
    assert all(bar.error_x.arrayminus is None and bar.error_x.visible is not False for bar in drawn)
    every = {f"{p}: {n}": e for p, own in fit.spread.items() for n, e in zip(fit.features[p], own, strict=True)}
    assert found == {name: every[name] for name in found}
    assert len(found) == sum(np.count_nonzero(x) for x in fit.coefficients.values())


@pytest.mark.parametrize("level", [0.95, 0.7])
def test_bands_are_drawn_where_least_squares_has_them(fit: co.Fit, level: float) -> None:
    """At both ends of a line the band is the slope's interval over half its range."""
    frames = tables()
    theirs = sm.OLS(frames["c"]["y"].to_numpy(), design(frames, NAMES)).fit().conf_int(1 - level)
    drawn = {trace.name: trace for trace in fit.curves(level).plot().data}
    for name, place, middle, half in (("x0", 0, 0.0, 4.0), ("x1", 2, 8.0, 8.0), ("x2", 5, 2.0, 4.0)):
        low, high = theirs[place] * half
        ends = [middle - half, middle + half]
        band = drawn[f"band of {name}"]
        assert list(band.x) == [*ends, *ends[::-1]]
        assert list(band.y) == pytest.approx([-low, high, low, -high], rel=1e-6)


@pytest.mark.parametrize("level", [0.95, 0.7])
def test_bands_of_classes_are_on_the_scale_of_the_score(classes: co.Fit, level: float) -> None:
    """A difference in probability is 1/(p·(1 − p)) of log-odds."""
    frames = tables()
    won = (frames["c"]["won"].to_numpy() == 1).astype(float)
    theirs = sm.OLS(won, design(frames, NAMES)).fit().conf_int(1 - level)
    scale = 1.0 / (won.mean() * (1.0 - won.mean()))
    table = classes.curves(level).table()
    for name, place, half in (("x0", 0, 4.0), ("x1", 2, 8.0), ("x2", 5, 4.0)):
        own = table.filter(table["column"] == name)
        low, high = theirs[place] * half * scale
        assert own["low"].to_list() == pytest.approx([-high, low], rel=1e-5)
        assert own["high"].to_list() == pytest.approx([-low, high], rel=1e-5)


def test_a_coefficient_for_one_unit_more_is_over_half_its_range(fit: co.Fit, tmp_path) -> None:
    """8, 16 and 8 wide: an encoded 1 is half of that. Flags and levels have no unit but 1."""
    page = fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    body = page[page.index("Coefficients, largest first") :]
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in body[: body.index("</table>")].split("<tr")]
    found = {row[1]: row[-1] for row in rows if len(row) == 4}
    halves = {"x0": 4.0, "x1": 8.0, "x2": 4.0}
    for party, x in fit.coefficients.items():
        for name, value in zip(fit.features[party], x, strict=True):
            assert found[str(name)] == f"{value / halves.get(str(name), 1.0):.4g}".replace("-", "−")


def test_a_p_value_is_told_to_three_places_and_never_as_smaller() -> None:
    told = {0.2: ".200", 0.0449: ".045", 0.0123: ".012", 0.00051: ".001", 0.00049: "< .001", 1.0: "1.000"}
    assert {value: probability(value) for value in told} == told
