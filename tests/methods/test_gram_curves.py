"""Claims about curves in Private Gram: decided by public figures, borne out by the release, and the same everywhere."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.errors import InvalidInput
from colonnade.kernels import curves
from colonnade.methods.gram.answer import Curves, candidates
from colonnade.methods.gram.rule import Gram, RowFrame, as_they_are, choose_depth, survival, weigh
from colonnade.methods.gram.solve import solve
from colonnade.model.job import Job, curves_in_words
from colonnade.privacy.accountant import rho_for
from colonnade.runs.preview import preview

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 4000
SCHEMAS = {
    "bank": co.Schema((co.Numeric("age", 18, 90), co.Numeric("income", 0, 10), co.Binary("home"))),
    "shop": co.Schema((co.Numeric("visits", 0, 50), co.Numeric("spent", 0, 100, smooth=False))),
}


def frames(rows=ROWS, seed=0, straight=False):
    """A label that rises and falls with age and with visits, or follows a line; at the bank."""
    rng = np.random.default_rng(seed)
    age, income, visits, spent = (rng.uniform(*ends, rows) for ends in ((18, 90), (0, 10), (0, 50), (0, 100)))
    home = rng.integers(0, 2, rows)
    bend = (
        np.abs(age - 54) / 12 - 1.5 + np.abs(visits - 25) / 8 - 1.5
        if not straight
        else (age - 54) / 12 - income / 5 + 1
    )
    y = rng.random(rows) < 1 / (1 + np.exp(-bend - home + 0.5))
    key = np.arange(rows)
    return {
        "bank": pl.DataFrame({"key": key, "age": age, "income": income, "home": home, "late": y.astype(int)}),
        "shop": pl.DataFrame({"key": key, "visits": visits, "spent": spent}),
    }


def federation(tables=None, schemas=None):
    return co.Federation.from_frames(tables or frames(), "key", ("bank", "late"), schemas=schemas or SCHEMAS)


def as_lines(schemas=SCHEMAS):
    return {name: schema.as_lines() for name, schema in schemas.items()}


def fitted(store, epsilon=4.0, problem=None, seed=None, **more):
    """Whoever looks at how good a model is says a seed of its noise."""
    problem = problem or co.Problem(co.Logistic(), intercept=True)
    noise = None if seed is None else co.SeededNoise(seed)
    return co.fit(federation(**more), problem, privacy=co.Privacy(epsilon, 1e-6), store=store, noise=noise)


def area(y, scores):
    order = np.argsort(np.argsort(scores))
    m = int(y.sum())
    return (order[y > 0].sum() + m - m * (m + 1) / 2) / (m * (y.size - m))


# ------------------------------------------------------------------------------------------------ the rule


def test_depth_follows_from_public_figures_alone(tmp_path):
    """Other rows, the same rows and columns: the same depth, the same price, the same columns."""
    problem, privacy = co.Problem(co.Logistic(), intercept=True), co.Privacy(4.0, 1e-6, trust="secure")
    depths = set()
    for seed, straight in ((0, False), (1, True), (2, False)):
        job = Job(problem, federation(frames(seed=seed, straight=straight)).roster(), privacy)
        depths.add(co.PrivateGram().depth(job))
    surviving = survival(ROWS, 1, rho_for(4.0, 1e-6))
    assert depths == {choose_depth(surviving, 5, (3,) * 8, True)} == {4}


def test_a_larger_budget_never_makes_curves_shallower_or_lighter():
    level = np.repeat([0, 1], [33, 20])
    for classes in (True, False):
        depths = [choose_depth(n, 33, (20,) * 8, classes) for n in np.geomspace(10, 1000, 200)]
        assert depths == sorted(depths)
        assert set(depths) == {0, 1, 2, 3, 4}
        weights = [weigh(n, level, classes)[-1] for n in np.geomspace(10, 1000, 200)]
        assert weights == sorted(weights)
        assert 0 < weights[0] < weights[-1] == 1.0


def test_all_levels_of_a_curve_weigh_the_same_and_no_more_than_there_is_room():
    level = np.array([0, 1, 2, 2, 3, 3, 3, 3, 0])
    for surviving, classes in ((3.0, True), (9.0, True), (25.0, True), (25.0, False)):
        weight, spare = weigh(surviving, level, classes), surviving**2 / (1000 if classes else 8000)
        by_level = [np.square(weight[level == k]).sum() for k in (1, 2, 3)]
        assert by_level == pytest.approx([by_level[0]] * 3)
        assert sum(by_level) == pytest.approx(max(min(surviving / 3 - 2, spare), min(0.15 * 2, spare / 4)))


def test_all_columns_together_are_at_most_half_of_what_survives():
    for surviving in np.geomspace(40, 4000, 100):
        depth = choose_depth(surviving, 33, (20,) * 8, True)
        assert depth < 2 or 33 + 20 * (2**depth - 1) <= surviving / 2


def test_few_distinct_values_and_no_room_leave_lines():
    assert choose_depth(100.0, 33, (), True) == 0
    assert choose_depth(32.0, 33, (20, 20), True) == 0
    assert choose_depth(1e6, 33, (20,), True) == 1


def test_tables_on_which_bends_would_cost_more_than_they_bring_keep_lines():
    found = {n: [choose_depth(n, 8, (8,), classes) for classes in (True, False)] for n in (35.0, 37.0, 99.0, 101.0)}
    assert found == {35.0: [0, 0], 37.0: [1, 0], 99.0: [1, 0], 101.0: [1, 1]}


def test_lines_are_tried_first_and_each_weight_once():
    tried = list(candidates(np.array([0, 1, 1])))
    assert [part.tolist() for part in tried] == [[1, 0, 0], [1, 0.5, 0.5], [1, 1, 1]]
    assert len(list(candidates(np.array([0, 1, 2, 2])))) == 7


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (co.Problem(co.Logistic(), co.L1Ball(3.0)), co.PrivateGram()),
        (co.Problem(co.Logistic(), penalty=co.Lasso(0.01)), co.PrivateGram()),
        (co.Problem(co.Logistic()), co.PrivateGram(screen=3)),
        (co.Problem(co.Logistic()), co.PrivateGram(cross="none")),
        (co.Problem(co.Logistic()), co.DistributedFrankWolfe()),
    ],
)
def test_lines_stay_lines_where_columns_are_chosen_among_and_with_other_methods(problem, method):
    assert method.depth(Job(problem, federation().roster(), co.Privacy(4.0, 1e-6))) == 0


def released(lines, hats, y, sd, seed):
    """A release of rows as they are, with normal noise of this sd, and its solution as numbers with curves of depth 1."""
    A = np.column_stack([lines, hats])
    s, whole = A.shape[1], np.column_stack([A, np.ones(len(A)), y])
    noise = np.triu(np.random.default_rng(seed).normal(size=(s + 2, s + 2))) * sd
    sds = np.full((s + 2, s + 2), sd)
    gram = Gram(whole.T @ whole + noise + np.triu(noise, 1).T, sds)
    frame = RowFrame(np.arange(s), np.zeros(s), np.ones(s), np.ones(1), np.full(s, np.inf))
    level = np.repeat([0, 1], [lines.shape[1], hats.shape[1]])
    problem, rule = co.Problem(co.LeastSquares(), intercept=True), as_they_are(s, 1.0)
    found = solve(gram, frame, rule, problem, rows=len(A), columns=s, label_bound=4.0, curves=Curves(level))
    return found.coefficients[level > 0]


def test_noise_alone_bends_nothing():
    """A straight label: in hundred releases few take a bend, each with a chance of 2 sds or less; a bent one is found."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-1, 1, (3000, 3))
    hats = np.column_stack([curves.hats(t[:, j], 1) for j in range(3)])
    straight = t @ [1.0, -0.5, 0.2] + 0.3 * rng.normal(size=3000)
    taken = [released(t, hats, straight, 30.0, seed).any() for seed in range(100)]
    # Two candidates, of which the noise of each passes 2 sds with a chance of .023: 16 of 100 by chance once in 10,000.
    assert sum(taken) <= 15
    bent = straight + 2 * np.abs(t[:, 0])
    assert all(released(t, hats, bent, 30.0, seed)[0] < -0.5 for seed in range(20))


# ------------------------------------------------------------------------------------------------ whole runs


@pytest.mark.chance(0, "the noise is seeded; masks cancel")
def test_curves_find_what_lines_cannot_and_every_way_to_score_agrees(tmp_path):
    fit = fitted(tmp_path / "curves", seed=1)
    new = frames(seed=9)
    y = new["bank"]["late"].to_numpy()
    scores = fit.scores(new)
    assert fit.depth == 4
    assert list(fit.features["shop"]) == ["visits", *(f"visits~{j}" for j in range(1, 16)), "spent"]
    assert area(y, scores) > 0.75 > 0.66 > area(y, fitted(tmp_path / "lines", seed=1, schemas=as_lines()).scores(new))
    one = new["bank"].join(new["shop"], on="key")
    assert np.allclose(fit.scores(one), scores)
    assert np.allclose(fit.scores(federation(new)), scores)
    assert np.allclose(co.score(fit, federation(new)), scores, atol=1e-8)
    assert ((fit.predict(new) > 0) == (fit.predict_proba(new) >= 0.5)).all()
    fit.save(tmp_path / "fit.json")
    assert np.array_equal(co.load(tmp_path / "fit.json").scores(federation(new)), fit.scores(federation(new)))


@pytest.mark.chance(0, "the noise is seeded; masks cancel")
def test_probabilities_of_curves_are_those_of_the_rows(tmp_path):
    """In ten parts of the rows, by their probability, the label is as frequent as was said, to a few hundredths."""
    fit = fitted(tmp_path, seed=1)
    new = frames(20_000, seed=3)
    p, y = fit.predict_proba(new), new["bank"]["late"].to_numpy()
    parts = np.array_split(np.argsort(p), 10)
    assert max(abs(p[part].mean() - y[part].mean()) for part in parts) < 0.12


@pytest.mark.chance(0, "the noise is seeded; masks cancel")
def test_straight_labels_lose_little_to_lines(tmp_path):
    """The release of a straight table bears out no bends, or hardly any."""
    new = frames(seed=8, straight=True)
    y = new["bank"]["late"].to_numpy()
    told = {"tables": frames(straight=True)}
    found = [area(y, fitted(tmp_path / str(i), seed=i, **told).scores(new)) for i in range(2)]
    lines = area(y, fitted(tmp_path / "lines", seed=2, **told, schemas=as_lines()).scores(new))
    assert min(found) > lines - 0.02  # of 150 pairs of fits none lost more than .004


@pytest.mark.parametrize(
    ("smooth", "values", "said"),
    [
        ((2, 2), None, "curves of depth 2, 2 in all: 8 columns instead of 2"),
        ((1, True), None, "curves of depth 1 to 3, 2 in all: 10 columns instead of 2"),
        ((False, 8), 4, "curves of depth 2, 1 in all: 5 columns instead of 2"),
        ((None, False), None, ""),
    ],
)
def test_curves_that_are_asked_for_are_said_as_those_that_are_chosen(smooth, values, said):
    schemas = {
        n: co.Schema((co.Numeric("x", 0, 1, smooth=s, values=values),)) for n, s in zip("ab", smooth, strict=True)
    }
    frame = pl.DataFrame({"key": [1, 2, 3], "x": [0.1, 0.5, 0.9], "y": [0, 1, 0]})
    fed = co.Federation.from_frames({"a": frame, "b": frame}, on="key", label=("a", "y"), schemas=schemas)
    assert curves_in_words(fed.roster()) == said


@pytest.mark.chance(1e-10, "bytes of a run lie 15 sds within the tenth, over 126 runs")
def test_the_same_call_goes_on_and_a_dry_run_says_depth_columns_and_bytes(tmp_path, monkeypatch):
    problem, privacy = co.Problem(co.Logistic(), intercept=True), co.Privacy(4.0, 1e-6)
    monkeypatch.setattr("colonnade.runs.preview.MANY", 0)  # of few bytes, those of lines are not worth their time
    (note,) = [n for n in preview(federation(), problem, None, privacy, store=tmp_path).notes if "curves" in n]
    assert note.startswith("curves of depth 4, 3 in all: 50 columns instead of 5, and about ")
    assert note.endswith("smooth = false in a schema keeps a column a line")
    said = int(note.split("about ")[1].split(" bytes")[0].replace(",", ""))
    fit = fitted(tmp_path)
    assert fit.communication.bytes == pytest.approx(said, rel=0.1)


@pytest.mark.chance(0, "the noise is seeded; masks cancel")
def test_least_squares_has_curves_too(tmp_path):
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, (6000, 2))
    y = np.clip(np.abs(x[:, 0]) - 1 + 0.1 * rng.normal(size=6000), -1, 1)
    key = np.arange(6000)
    tables = {"a": pl.DataFrame({"key": key, "u": x[:, 0], "y": y}), "b": pl.DataFrame({"key": key, "v": x[:, 1]})}
    schemas = {
        "a": co.Schema((co.Numeric("u", -2, 2),), label=co.Numeric("y", -1, 1)),
        "b": co.Schema((co.Numeric("v", -2, 2),)),
    }
    fed = co.Federation.from_frames(tables, "key", ("a", "y"), schemas=schemas)
    problem, privacy = co.Problem(co.LeastSquares(), intercept=True), co.Privacy(2.0, 1e-6)
    fit = co.fit(fed, problem, privacy=privacy, store=tmp_path, noise=co.SeededNoise(1))
    assert np.mean((fit.predict(fed) - y) ** 2) < 0.2 * np.var(y)  # a line explains nothing of it


# ------------------------------------------------------------------------------------------------ asked for


@pytest.mark.parametrize(
    "method", [co.SharingADMM(rounds=5000, tolerance=1e-10), co.DistributedFrankWolfe(rounds=2000)]
)
def test_exact_methods_take_curves_when_asked(method):
    """As a pooled ridge, or its l1 ball, on the widened columns."""
    from sklearn.linear_model import Ridge

    schemas = {n: co.Schema(tuple(_asked(c, 2) for c in s.columns)) for n, s in SCHEMAS.items()}
    fed = federation(frames(600), schemas)
    X = np.hstack([party.block.matrix for party in fed.parties.values()])
    y = np.where(fed.labels > 0, 1.0, -1.0)
    assert X.shape == (600, 5 + 3 * 4)
    fed = fed.relabelled(y)
    if isinstance(method, co.SharingADMM):
        fit = co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)), method)
        expected = X @ Ridge(alpha=0.1 * 600, fit_intercept=False).fit(X, y).coef_
        assert fit.scores(fed) == pytest.approx(expected, abs=1e-3)
    else:
        fit = co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(2.0)), method)
        assert fit.gap < 1e-3
        assert len(np.concatenate([fit.coefficients[p] for p in fed.parties])) == 17


def _asked(column, depth):
    return co.Numeric(column.name, column.low, column.high, smooth=depth) if isinstance(column, co.Numeric) else column


def test_estimators_take_curves_when_asked():
    whole = frames(1500)
    X = whole["bank"].join(whole["shop"], on="key").drop("key", "late")
    y = whole["bank"]["late"].to_numpy()
    asked = {n: co.Schema(tuple(_asked(c, 2) for c in s.columns)) for n, s in SCHEMAS.items()}
    curved = co.FederatedClassifier(schemas=asked, label="bank").fit(X, y)
    straight = co.FederatedClassifier(schemas=SCHEMAS, label="bank").fit(X, y)
    assert area(y, curved.decision_function(X)) > 0.75 > 0.68 > area(y, straight.decision_function(X))


@pytest.mark.chance(0, "a dry run: the depth follows from public figures")
def test_a_configuration_with_curves_runs_from_the_command_line(tmp_path):
    for name, frame in frames(1500).items():
        frame.write_csv(tmp_path / f"{name}.csv")
        SCHEMAS[name].to_toml(tmp_path / f"{name}.schema.toml")
    (tmp_path / "run.toml").write_text(
        'store = "runs"\noutput = "fit.json"\n[data]\non = "key"\nlabel = ["bank", "late"]\n'
        + "".join(f'[data.parties.{n}]\nsource = "{n}.csv"\nschema = "{n}.schema.toml"\n' for n in SCHEMAS)
        + '[problem]\nloss = { type = "Logistic" }\nintercept = true\n[privacy]\nepsilon = 4.0\ndelta = 1e-6\n'
    )
    said = CliRunner().invoke(app, ["fit", str(tmp_path / "run.toml"), "--dry-run", "--json"])
    assert said.exit_code == 0, said.output
    assert any(note.startswith("curves of depth ") for note in json.loads(said.stdout)["notes"])


# ------------------------------------------------------------------------------------------------ monotone, in or out


def monotone(direction, **more):
    age = co.Numeric("age", 18, 90, monotone=direction, **more)
    return {**SCHEMAS, "bank": co.Schema((age, *SCHEMAS["bank"].columns[1:]))}


@pytest.mark.chance(1e-10, "projected onto the cone: rounding of 4e-16 in 288 fits, against 1e-9")
@pytest.mark.thinned("slow")
@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("smooth", [None, False, 4])
def test_a_monotone_curve_never_turns_whatever_the_rows_and_the_noise(direction, smooth, tmp_path):
    """The label falls and rises with age, so that either direction is wrong somewhere."""
    for epsilon in (0.3, 4.0):
        fit = fitted(tmp_path / str(epsilon), epsilon, schemas=monotone(direction, smooth=smooth))
        ages = np.linspace(18, 90, 500)
        row = frames(1)["bank"].join(frames(1)["shop"], on="key")
        scores = fit.scores(pl.concat([row.with_columns(age=pl.lit(float(age))) for age in ages]))
        assert (np.diff(direction * scores) >= -1e-9).all()
        assert (np.diff(direction * fit.curves()["age"].effect) >= -1e-9).all()
        assert fit.spread is None


@pytest.mark.parametrize(
    ("lost", "unused"),
    [((), ()), ((3,), (2,)), ((1,), (2, 3)), ((4,), (5, 6, 7)), ((0, 7), (1, 2, 3, 6)), ((8,), ()), ((9,), ())],
)
def test_of_a_monotone_curve_whole_levels_are_used_or_none(lost, unused):
    level = np.array([0, 1, 2, 2, 0, 1, 2, 2, 0, 1])
    known = Curves(level, np.array([1, 0, 0, 0, -1, 0, 0, 0, 0, 0]))
    keep = np.setdiff1d(np.arange(10), lost)
    assert keep[known.unbroken(keep)].tolist() == sorted({*range(10)} - {*lost, *unused})


@pytest.mark.chance(0, "the noise is seeded; masks cancel")
@pytest.mark.parametrize("direction", [1, None])
def test_curves_whose_lines_were_dropped_are_solved_and_monotone_where_they_must_be(direction, tmp_path):
    x = np.random.default_rng(3).uniform(0.0, 1.0, (600, 2))
    frame = pl.DataFrame({"key": range(600), "x": x[:, 0], "z": x[:, 1], "y": np.abs(x[:, 0] - 0.5) < 0.2})
    schemas = {n: co.Schema((co.Numeric(n, 0, 1, smooth=2, monotone=direction),)) for n in ("x", "z")}
    fed = co.Federation.from_frames({"x": frame, "z": frame}, on="key", label=("x", "y"), schemas=schemas)
    method, privacy, noise = co.PrivateGram(screen=1), co.Privacy(16.0, 1e-6), co.SeededNoise(1)
    fit = co.fit(fed, co.Problem(co.Logistic(), intercept=True), method, privacy, store=tmp_path, noise=noise)
    assert fit.coefficients["x"][0] == 0.0  # what says most is the hat in the middle
    assert (fit.coefficients["x"][1] > 0.0) == (direction is None)


@pytest.mark.chance(1e-10, "projected onto the cone: rounding of 6e-17 in 79 paths, against 1e-9")
def test_monotone_curves_along_the_path_are_monotone_too(tmp_path):
    fit = fitted(tmp_path, schemas=monotone(1, smooth=2), problem=co.Problem(co.Logistic(), penalty=co.Ridge(0.01)))
    blocks = fit.path.coefficients["bank"][:, :4]
    assert all((np.diff(curves.values(curves.knots(2), x)) >= -1e-9).all() for x in blocks)


def test_what_does_not_keep_a_curve_monotone_is_refused(tmp_path):
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    with pytest.raises(InvalidInput, match="monotone of column 'age', and sharing ADMM does not keep to that"):
        co.fit(federation(schemas=monotone(1)), problem, co.SharingADMM())
    with pytest.raises(InvalidInput, match="a penalty instead of a set"):
        fitted(tmp_path, schemas=monotone(1), problem=co.Problem(co.Logistic(), co.L1Ball(1.0)))


@pytest.mark.chance(0, "the noise is seeded; masks cancel")
def test_a_group_penalty_without_groups_takes_a_curve_in_or_leaves_it_out_as_a_whole(tmp_path):
    problem = co.Problem(co.Logistic(), penalty=co.GroupLasso(0.02), intercept=True)
    fit = fitted(tmp_path, epsilon=8.0, problem=problem, seed=1)
    assert fit.depth == 4
    groups = (tuple(range(16)), tuple(range(16, 32)), (32,), tuple(range(33, 49)), (49,))
    assert fit.problem.penalty.groups == groups
    whole = np.hstack([fit.path.coefficients[party] for party in ("bank", "shop")])
    patterns = {tuple(row) for at in ((0, 16), (16, 32), (33, 49)) for row in whole[:, slice(*at)] != 0.0}
    # A curve is out, or in with all levels that the release bears out.
    assert len(patterns) == 2
    assert (False,) * 16 in patterns


def test_a_group_penalty_without_groups_is_for_runs():
    with pytest.raises(InvalidInput, match="without groups takes those of the schemas"):
        co.GroupLasso(0.1).value(np.ones(3))


def test_group_lasso_over_schemas_agrees_with_the_same_groups_by_number():
    asked = {n: co.Schema(tuple(_asked(c, 1) for c in s.columns)) for n, s in SCHEMAS.items()}
    fed = federation(frames(300), asked)
    fed = fed.relabelled(np.where(fed.labels > 0, 1.0, -1.0))
    groups = ((0, 1), (2, 3), (4,), (5, 6), (7, 8))
    assert fed.column_groups() == groups
    method = co.SharingADMM(rounds=300)
    one, other = (
        co.fit(fed, co.Problem(co.LeastSquares(), penalty=penalty), method)
        for penalty in (co.GroupLasso(0.05), co.GroupLasso(0.05, groups))
    )
    assert np.array_equal(one.scores(fed), other.scores(fed))
