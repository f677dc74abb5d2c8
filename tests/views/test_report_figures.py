"""Every figure of a report, worked out again from the data and from the letters that went over the wires.

Nothing here is read from the fit but its coefficients and intercept: losses, areas, counts and sizes are written by hand.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from scipy.stats import ks_2samp

import colonnade as co
from colonnade.runs.evaluation import evaluate_fit
from colonnade.runtime.wire import decode
from colonnade.views.page import render_report
from tests.helpers.pages import Page, table_of

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RADIUS, ROUNDS = 2.5, 3  # so few that a gap is left: of a closed one all digits are rounding
PARTIES = {"hospital": [0, 1, 2], "lab": [3, 4], "insurer": [5, 6, 7]}


def four(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def sized(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    assert count < 999_500, "the tests' messages are small"
    return f"{count / 1000:#.3g}".rstrip(".") + " kB"


class Ran:
    """A run over a wire that was tapped, and its report with an evaluation on rows of its own."""

    def __init__(self) -> None:
        rng = np.random.default_rng(11)
        self.X, new = rng.normal(size=(90, 8)), rng.normal(size=(400, 8))
        truth = np.array([2.0, 0, -1, 0, 1.5, 0, 0, -0.5])
        self.y = np.where(self.X @ truth + rng.logistic(size=90) > 0, 1.0, -1.0)
        self.new, self.labels = new, np.where(new @ truth + rng.logistic(size=400) > 0, 1.0, -1.0)
        tap = co.Tap(co.InProcess())
        problem = co.Problem(co.Logistic(), co.L1Ball(RADIUS), intercept=True)
        method = co.DistributedFrankWolfe(rounds=ROUNDS, tolerance=0.0)
        fed = co.Federation.split(self.X, self.y, PARTIES, label="lab")
        self.fit = co.fit(fed, problem, method, engine=tap)
        self.x = np.concatenate([self.fit.coefficients[party] for party in PARTIES])
        self.b = self.fit.intercept
        self.letters = [
            (x.sender, x.receiver, type(decode(x.body)).__name__, x.round, len(x.body)) for x in tap.letters
        ]
        split = co.Federation.split(new, None, PARTIES)
        self.page = Page(render_report(self.fit, evaluation=evaluate_fit(self.fit, (split, self.labels), "public")))
        self.text = " ".join(self.page.words)

    def summed(self, key, wanted=lambda letter: True) -> dict:
        """Messages and bytes of the letters, by a key."""
        found: dict = defaultdict(lambda: [0, 0])
        for letter in filter(wanted, self.letters):
            found[key(letter)][0] += 1
            found[key(letter)][1] += letter[4]
        return {name: tuple(counts) for name, counts in found.items()}


@pytest.fixture(scope="module")
def ran() -> Ran:
    return Ran()


def loss(s: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.log1p(np.exp(-y * s))))


def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """By its definition: over all pairs of a positive and a negative row."""
    pairs = scores[positive][:, None] - scores[~positive][None, :]
    return float(np.mean((pairs > 0) + 0.5 * (pairs == 0)))


# ---------------------------------------------------------------- the figures that catch the eye


def cards_of(page) -> dict[str, str]:
    (cards,) = re.findall(r'<dl class="figures">(.*?)</dl>', page.text)
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", cards))


def test_the_cards_hold_objective_gap_rounds_and_bytes(ran):
    cards = cards_of(ran.page)
    scores = ran.X @ ran.x + ran.b
    slope = -ran.y / (1 + np.exp(ran.y * scores)) / 90
    gradient = ran.X.T @ slope
    left = sum(size for sender, *_, size in ran.letters if sender != "coordinator")
    assert cards == {
        "objective": four(loss(scores, ran.y)),
        "gap to the best, at most": four(ran.x @ gradient + RADIUS * np.abs(gradient).max()),
        "rounds": str(ROUNDS),
        "left the parties": sized(left),
    }


def test_the_tables_of_convergence_hold_the_history_to_four_digits(ran):
    notes = ran.fit.notes
    for name in ("gap", "objective"):
        _, *lines = table_of(ran.page, f"The {name} in {ROUNDS} of {ROUNDS} rounds")
        assert lines == [[str(k + 1), four(note[name])] for k, note in enumerate(notes)]
    assert notes[0]["objective"] == pytest.approx(loss(np.full(90, best_constant(ran.y)), ran.y), rel=1e-9)


def best_constant(y: np.ndarray) -> float:
    share = float(np.mean(y > 0))
    return math.log(share / (1 - share))


# ---------------------------------------------------------------- who took part


def test_the_table_of_parties_holds_what_each_brought(ran):
    _, *rows = table_of(ran.page, "Who took part")
    assert [(row[0], row[1], row[3], row[4]) for row in rows] == [
        ("hospital", "columns", "90", "3"),
        ("lab", "columns and the label", "90", "2"),
        ("insurer", "columns", "90", "3"),
    ]
    assert "90 rows matched in all parties" in ran.text
    assert f"It took {ran.fit.seconds:.1f} seconds." in ran.text


def test_rows_that_were_brought_are_told_from_rows_in_common():
    rng = np.random.default_rng(3)
    frames = {
        "a": pl.DataFrame({"key": range(70), "u": rng.normal(size=70), "y": rng.normal(size=70)}),
        "b": pl.DataFrame({"key": range(40, 95), "v": rng.normal(size=55), "w": rng.normal(size=55)}),
    }
    fed = co.Federation.from_frames(frames, on="key", label=("a", "y"))
    page = Page(render_report(co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(1.0)))))
    rows = {row[0]: (row[3], row[4]) for row in table_of(page, "Who took part")[1:]}
    assert rows == {"a": ("70", "1"), "b": ("55", "2")}
    assert any("30 rows matched in all parties" in words and "'key'" in words for words in page.words)


# ---------------------------------------------------------------- what went over the wires


def test_the_table_of_messages_holds_every_letter(ran):
    _, *lines, total = table_of(ran.page, "Messages by party")
    expected = {
        (party, way, kind, str(count), sized(size))
        for way, place in (("left", 0), ("reached", 1))
        for (party, kind), (count, size) in ran.summed(lambda x, place=place: (x[place], x[2])).items()
        if party != "coordinator"
    }
    assert {tuple(line[:5]) for line in lines} == expected
    assert len(lines) == len(expected)
    assert total[3:5] == [str(len(ran.letters)), sized(sum(x[4] for x in ran.letters))]


def test_letters_of_one_kind_on_one_edge_in_one_round_add_up():
    from colonnade.methods.method import Done, Finish
    from colonnade.runtime.wire import Letter, Traffic, encode

    bodies = [
        encode(message, guarded=False) for message in (Finish(np.zeros(3), 1.0), Finish(np.zeros(5), 1.0), Done())
    ]
    counted, other = Traffic(), Traffic()
    for place, body in enumerate(bodies):
        counted.count(Letter("a", "b", place, 4, body))
        other.count(Letter("a", "b", place, 5, body))
    sizes = [len(body) for body in bodies]
    expected = {("a", "b", "Finish", 4): (2, sizes[0] + sizes[1], 4 + 6), ("a", "b", "Done", 4): (1, sizes[2], 0)}
    assert counted.table == expected
    counted.add(other)
    counted.add(other)
    later = {(*key[:3], 5): tuple(2 * value for value in counts) for key, counts in expected.items()}
    assert counted.table == expected | later


def test_the_table_of_directions_holds_every_letter(ran):
    _, *lines, total = table_of(ran.page, "On the wires, by direction")
    ways = ran.summed(lambda x: "from the parties" if x[1] == "coordinator" else "to the parties")
    assert {line[0]: (line[1], line[2]) for line in lines} == {
        way: (str(count), sized(size)) for way, (count, size) in ways.items()
    }
    assert total[1:] == [str(len(ran.letters)), sized(sum(x[4] for x in ran.letters))]


def test_the_tables_by_round_hold_every_letter(ran):
    head, *lines = table_of(ran.page, "Bytes that left, from this round on")
    last = max(x[3] for x in ran.letters)
    own = ran.summed(lambda x: (x[0], x[3]))
    expected = [[str(t), *(sized(own.get((party, t), (0, 0))[1]) for party in head[1:])] for t in range(last + 1)]
    assert lines == expected
    assert set(head[1:]) == set(PARTIES)
    _, *so_far = table_of(ran.page, "Bytes up to a round")
    for line in so_far:
        up = sum(x[4] for x in ran.letters if x[1] == "coordinator" and x[3] <= int(line[0]))
        down = sum(x[4] for x in ran.letters if x[0] == "coordinator" and x[3] <= int(line[0]))
        assert line[1:] == [sized(up), sized(down)]
    assert int(so_far[-1][0]) == last


# ---------------------------------------------------------------- the model


def test_the_tables_of_the_model_hold_every_coefficient(ran):
    _, *counts = table_of(ran.page, "Columns by party")
    start = 0
    for row, (party, places) in zip(counts, PARTIES.items(), strict=True):
        own = ran.x[start : start + len(places)]
        start += len(places)
        assert row == [party, str(len(own)), str(int((own != 0).sum())), four(np.abs(own).sum())]
    _, *rows = table_of(ran.page, "Coefficients, largest first")
    owners = [party for party, places in PARTIES.items() for _ in places]
    order = sorted(np.flatnonzero(ran.x), key=lambda j: -abs(ran.x[j]))
    assert [(row[0], row[2]) for row in rows] == [(owners[j], four(ran.x[j])) for j in order]
    names = {party: list(ran.fit.features[party]) for party in PARTIES}
    places = {j: names[owners[j]][j - owners.index(owners[j])] for j in order}
    assert [row[1] for row in rows] == [str(places[j]) for j in order]
    assert f"{len(order)} of 8 coefficients known here are not zero." in ran.text
    assert f"The intercept is {four(ran.b)}." in ran.text
    bars = table_of(ran.page, f"The {len(order)} largest of {len(order)} coefficients")
    assert [row[2] for row in bars[1:]] == [four(ran.x[j]) for j in order]


def test_the_bars_of_coefficients_are_as_long_as_their_figures(ran):
    order = sorted(np.flatnonzero(ran.x), key=lambda j: -abs(ran.x[j]))
    values = ran.x[order]
    low, high = min(0.0, values.min()), max(0.0, values.max())
    model = ran.page.text[ran.page.text.index("largest of") :]
    drawn = re.findall(r'<rect x="([\d.]+)%" y="15%" width="([\d.]+)%"', model)[: len(order)]
    for (left, width), value in zip(drawn, values, strict=True):
        assert float(left) == pytest.approx(100 * (min(value, 0.0) - low) / (high - low), abs=0.006)
        assert float(width) == pytest.approx(max(100 * abs(value) / (high - low), 0.4), abs=0.011)


# ---------------------------------------------------------------- how good it is


def two(value: float, error: float) -> str:
    """A figure with two digits of its error, by decimal arithmetic."""
    kept = Decimal(f"{error:.1e}")
    step = Decimal(1).scaleb(kept.as_tuple().exponent)
    return f"{Decimal(value).quantize(step)} ± {Decimal(error).quantize(step)}".replace("-", "−")


def jackknife(scores: np.ndarray, positive: np.ndarray) -> float:
    """The standard error of an area, each row left out in turn: for an area it is DeLong's by another way."""
    variance = 0.0
    for side in (positive, ~positive):
        left = [auc(np.delete(scores, k), np.delete(positive, k)) for k in np.flatnonzero(side)]
        variance += (len(left) - 1) / len(left) * float(np.sum((np.array(left) - np.mean(left)) ** 2))
    return math.sqrt(variance)


def test_every_figure_of_quality_is_that_of_the_rows_given(ran):
    scores, positive = ran.new @ ran.x + ran.b, ran.labels > 0
    chances = 1 / (1 + np.exp(-scores))
    _, *rows = table_of(ran.page, "Figures of quality")
    right, squares = (scores >= 0) == positive, (chances - positive) ** 2
    lost = -np.log(np.where(positive, chances, 1 - chances))
    expected = {
        "AUC": (auc(scores, positive), jackknife(scores, positive)),
        "Gini": (2 * auc(scores, positive) - 1, 2 * jackknife(scores, positive)),
        "accuracy": (right.mean(), math.sqrt(right.mean() * (1 - right.mean()) / 399)),
        "base rate": (positive.mean(), math.sqrt(positive.mean() * (1 - positive.mean()) / 399)),
        "log loss": (lost.mean(), math.sqrt(np.sum((lost - lost.mean()) ** 2) / 399 / 400)),
        "Brier score": (squares.mean(), math.sqrt(np.sum((squares - squares.mean()) ** 2) / 399 / 400)),
    }
    shown = {row[0]: row[1] for row in rows}
    assert shown.pop("KS") == four(ks_2samp(scores[positive], scores[~positive]).statistic)
    assert shown == {name: two(*figures) for name, figures in expected.items()}
    assert "On 400 rows given for this report" in ran.text


def test_the_groups_of_the_calibration_hold_what_was_predicted_and_found(ran):
    chances = 1 / (1 + np.exp(-(ran.new @ ran.x + ran.b)))
    order = np.argsort(chances)
    _, *rows = table_of(ran.page, "Groups")
    expected = [
        [f"{chances[part].mean():.4g}", f"{(ran.labels[part] > 0).mean():.4g}", "40"] for part in order.reshape(10, 40)
    ]
    assert rows == expected


def test_the_points_of_the_roc_are_shares_found_and_accused(ran):
    scores, positive = ran.new @ ran.x + ran.b, ran.labels > 0
    _, *rows = table_of(ran.page, "Points of the ROC")
    curve = {("0.000", "0.000")}
    for threshold in scores:
        said = scores >= threshold
        curve.add((f"{said[~positive].mean():.3f}", f"{said[positive].mean():.3f}"))
    assert {tuple(row) for row in rows} <= curve
    assert rows[0] == ["0.000", "0.000"]
    assert rows[-1] == ["1.000", "1.000"]


def test_what_a_party_adds_is_the_difference_without_its_columns(ran):
    positive = ran.labels > 0
    whole = auc(ran.new @ ran.x + ran.b, positive)
    _, first, *rows = table_of(ran.page, "What each party adds")
    assert first == ["all parties", four(whole), ""]
    start = 0
    for row, (party, places) in zip(rows, PARTIES.items(), strict=True):
        kept = ran.x.copy()
        kept[start : start + len(places)] = 0.0
        start += len(places)
        alone = auc(ran.new @ kept + ran.b, positive)
        assert row == [f"without {party}", four(alone), four(alone - whole)]


def test_every_figure_of_a_model_of_values_is_that_of_the_rows_given():
    rng = np.random.default_rng(4)
    X, new = rng.normal(size=(60, 4)), rng.normal(size=(50, 4))
    y, labels = X[:, 0] + 0.1 * rng.normal(size=60), new[:, 0] + 0.5 * rng.normal(size=50)
    fit = co.fit(co.Federation.split(X, y, 2), co.Problem(co.LeastSquares(), co.L1Ball(0.8), intercept=True))
    page = Page(render_report(fit, evaluation=evaluate_fit(fit, (co.Federation.split(new, None, 2), labels), "public")))
    off = new @ np.concatenate(list(fit.coefficients.values())) + fit.intercept - labels
    root, size, squares = math.sqrt(np.mean(off**2)), np.abs(off), off**2
    assert {row[0]: row[1] for row in table_of(page, "Figures of quality")[1:]} == {
        "RMSE": two(root, squares.std(ddof=1) / math.sqrt(50) / (2 * root)),
        "MAE": two(size.mean(), size.std(ddof=1) / math.sqrt(50)),
        "R²": four(1 - np.sum(off**2) / np.sum((labels - labels.mean()) ** 2)),
    }


# ---------------------------------------------------------------- what it cost


@pytest.mark.chance(0, "prices on record and on the page, none of the model")
def test_the_price_of_a_private_run_is_that_of_its_ledgers(tmp_path):
    """Epsilon from the rho on record: D_α ≤ αρ, converted at the best order of a fine grid."""
    import json
    import sqlite3

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 4))
    fed = co.Federation.split(X, np.sign(X[:, 0] + 0.1), parties={"clinic": slice(None)}, label="clinic")
    problem, privacy = co.Problem(co.Logistic(), co.L1Ball(2.0)), co.Privacy(0.7, 1e-5, feature_bound=1.0)
    fit = co.fit(fed, problem, co.CentralFrankWolfe(rounds=5), privacy, store=tmp_path)
    rows = sqlite3.connect(tmp_path / "nodes" / "clinic.db").execute("select body from log where kind = 'event'")
    prices = [json.loads(body[1:])["event"]["rho"] for (body,) in rows]
    assert len(prices) == 5
    orders = 1 + np.logspace(-2, 4, 200_000)
    spent = np.min(orders * sum(prices) + np.log1p(-1 / orders) - np.log(1e-5 * orders) / (orders - 1))
    assert spent == pytest.approx(0.7, rel=2e-3)
    assert fit.privacy.epsilon == pytest.approx(spent, rel=2e-3)
    page = Page(render_report(fit))
    figures = dict(row for row in table_of(page, "The statement in figures") if len(row) == 2)
    assert not {"objective", "gap to the best, at most"} & cards_of(page).keys()
    assert f"ε = {four(fit.privacy.epsilon)} at δ = 1e-05, for one row." in page.words
    assert (figures["epsilon"], figures["delta"]) == (four(fit.privacy.epsilon), "1e−05")
    said = next(words for words in page.words if words.startswith("It cost epsilon"))
    assert said.startswith(f"It cost epsilon {four(fit.privacy.epsilon)} of every budget")
    assert said.endswith("at delta 1e−05.")
    sure = {row[0]: row[1] for row in table_of(page, "How sure")[1:]}
    factor = math.exp(sum(prices) + 2 * math.sqrt(sum(prices) * math.log(1e5)))
    for before, after in sure.items():
        odds = float(before.removesuffix(" %")) / 100
        odds = factor * odds / (1 - odds)
        assert float(after.removesuffix(" %")) == pytest.approx(100 * odds / (1 + odds), abs=0.11)
    assert "not kept: under privacy a duration would tell" in " ".join(page.words)
