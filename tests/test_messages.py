"""Every message in full: what happened, with numbers, and what to do next.

The table is for reading. A change of a text is a change of this file, so that somebody looks at it; a new way to be wrong
enters the table with its answer. FOLDER stands for the test's own folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.data.federation_file import FederationFile
from colonnade.network.certs import tls_in
from colonnade.network.hub import read_answer
from colonnade.network.party_file import write_key
from colonnade.network.questions import Question, pack
from colonnade.network.refusals import PeerBroken, PeerRefused
from colonnade.network.replaced_ledger import Record, accept
from colonnade.privacy.ledger import Ledger, Replaced
from colonnade.privacy.store import MemoryLog
from colonnade.runtime.run_store import RunStore

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

X = np.random.default_rng(0).uniform(-1, 1, (12, 4))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
SQUARES = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
CLASSES = co.Problem(co.Logistic(), co.L1Ball(1.0))
PRIVACY = co.Privacy(1.0, 1e-6, feature_bound=1.0)
DFW = co.DistributedFrankWolfe(rounds=2)
LEFT = pl.DataFrame({"key": [f"k{i}" for i in range(6)], "a": [0.1 * i for i in range(6)], "late": [1, -1] * 3})
RIGHT = pl.DataFrame({"key": [f"k{i}" for i in range(5, -1, -1)], "b": [0.2 * i for i in range(6)]})
BOTH = {"airline": LEFT, "weather": RIGHT}
COLUMN = '[[column]]\ntype = "numeric"\nname = "age"\n'
BALL = '[problem]\nloss = "LeastSquares"\nconstraint = { type = "L1Ball", radius = 1.0 }\n'


class Said(Exception):
    """What a command wrote on standard error before it ended with 1."""


def split(**more: Any) -> co.Federation:
    return co.Federation.split(X, more.pop("y", Y), **{"parties": 2, **more})


def frames(tables: Any = BOTH, **more: Any) -> co.Federation:
    return co.Federation.from_frames(tables, **{"on": "key", "label": ("airline", "late"), **more})


def fitted() -> co.Fit:
    return co.fit(frames(), CLASSES, DFW)


def central(store: Path | None, privacy: co.Privacy = PRIVACY, **more: Any) -> co.Fit:
    federation = co.Federation.split(X, Y, parties={"clinic": slice(None)}, label="clinic", **more)
    return co.fit(federation, CLASSES, co.CentralFrankWolfe(rounds=2), privacy, store=store)


def cell(value: float) -> np.ndarray:
    return np.where((np.arange(12) == 3)[:, None] & (np.arange(4) == 1), value, X)


def schema(text: str) -> co.Schema:
    return co.Schema.from_text(text)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def damaged(path: Path) -> Path:
    fitted().save(path)
    return write(path, path.read_text(encoding="utf-8") + " ")


def holder(folder: Path, problem: str = BALL, top: str = "") -> Path:
    LEFT.write_csv(folder / "t.csv")
    data = 'output = "fit.json"\n[data]\nsource = "t.csv"\nlabel = "late"\n\n'
    return write(folder / "c.toml", top + data + problem)


def elsewhere(folder: Path) -> Path:
    party = f'[parties.a]\nkey = "{write_key(folder / "a.key")}"\ncolumns = 2\n'
    return write(folder / "federation.toml", 'version = 1\nrows = 5\nlabel = ["a", "late"]\n' + party)


def cli(*words: object) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 1, done.output
    assert done.stdout == ""
    raise Said(done.stderr.removeprefix("error: ").removesuffix("\n"))


def spending() -> MemoryLog:
    """The records of a ledger that begins with half a rho."""
    log = MemoryLog()
    with mock.patch("colonnade.privacy.ledger._now", return_value="2031-01-01T00:00:00+00:00"):
        Ledger(log, "bank", co.Policy()).begin_anew(0.5)
    return log


def taken(folder: Path, node: str) -> object:
    file = FederationFile.load(elsewhere(folder))
    record = Record(node, "2031-01-01T00:00:00+00:00", "0" * 16, file.digest, 1.0, 1, "00" * 32)
    return accept(RunStore(folder / "store"), "b", record, file, tls_in(folder, "b"))


def authority(folder: Path) -> Path:
    assert CliRunner().invoke(app, ["certs", "init", str(folder)]).exit_code == 0
    return folder


def refused(what: str, code: int) -> object:
    """What the coordinator makes of a party's code."""
    return read_answer("bank", Question(what), pack({"code": code}))


# What was asked, the error, its whole text.
Wrong = dict[str, tuple[Callable[[Path], object], type[Exception], str]]
WRONG: Wrong = {
    # a party that says no
    "terms that a party does not approve": (
        lambda folder: refused("consider", 2),
        PeerRefused,
        "'bank' refused 'consider' (refused): its policy, budget or operator did not approve the terms. Ask its operator which; then propose a smaller epsilon or another method, or have the policy, the [limits] of its file or the budget changed. If nobody had reserved, nothing was sent and nothing was spent, at no party. Else (the run had begun before, or a party was restarted meanwhile) what had left is spent. Every party gets back what it did not send, and goes on counting what the others planned about the same rows. Its own log says why.",
    ),
    "a job that a party cannot run": (
        lambda folder: refused("consider", 1),
        PeerBroken,
        "'bank' refused 'consider' (stopped): it cannot run this: another release of colonnade or protocol of the method, columns that do not fit, or no part of the model that is to score. Try `colonnade federation check`, then ask its operator. If nobody had reserved, nothing was sent and nothing was spent, at no party. Else (the run had begun before, or a party was restarted meanwhile) what had left is spent. Every party gets back what it did not send, and goes on counting what the others planned about the same rows. Its own log says why.",
    ),
    "a run that a party knows by another call": (
        lambda folder: refused("consider", 3),
        PeerBroken,
        "'bank' refused 'consider' (protocol): it keeps another agreement on rows, or knows this run by another call. Let every party run `colonnade party realign`, and repeat the call. If nobody had reserved, nothing was sent and nothing was spent, at no party. Else (the run had begun before, or a party was restarted meanwhile) what had left is spent. Every party gets back what it did not send, and goes on counting what the others planned about the same rows. Its own log says why.",
    ),
    "a party that says yes and then no": (
        lambda folder: refused("reserve", 2),
        PeerRefused,
        "'bank' refused 'reserve' (refused): its policy, budget or operator did not approve the terms. Ask its operator which; then propose a smaller epsilon or another method, or have the policy, the [limits] of its file or the budget changed. It had said that it would take part: something changed since, or its table does not suit the problem. Nothing was sent for it; do not repeat it before all agree. Whoever had reserved already gets back its own part, and goes on counting what the others planned about the same rows. Its own log says why.",
    ),
    "parties that do not meet": (
        lambda folder: refused("meet", 3),
        PeerBroken,
        "'bank' refused 'meet' (protocol): the parties were told different things of this run, or a table has changed. Let every party run `colonnade party realign`, and repeat the call. Nothing leaves when parties meet. Every party gets back what it did not send, and goes on counting what the others planned about the same rows. Its own log says why.",
    ),
    "a party whose part of a run fails": (
        lambda folder: refused("turn", 1),
        PeerBroken,
        "'bank' refused 'turn' (stopped): its part of the run failed, and the run is over there. Ask its operator, and repeat the call when that is mended: it begins a new run. What had left any party is spent, and in its ledger. Every party gets back what it did not send, and goes on counting what the others planned about the same rows. Its own log says why.",
    ),
    "a party that stops because another did": (
        lambda folder: refused("turn", 3),
        PeerBroken,
        "'bank' refused 'turn' (protocol): another node had stopped (whose log stopped first?), or sent it what it cannot accept. Ask its operator, and repeat the call when that is mended: it begins a new run. What had left any party is spent, and in its ledger. Every party gets back what it did not send, and goes on counting what the others planned about the same rows. Its own log says why.",
    ),
    "too few common rows": (
        lambda folder: refused("agreed", 2),
        PeerRefused,
        "'bank' refused 'agreed' (refused): it has agreed on rows before, or fewer rows are common to all than one party accepts. Check that all write the key in the same way. Let every party run `colonnade party realign`, and repeat the call. No run was begun, and nothing was spent. Its own log says why.",
    ),
    "a code that nobody knows": (
        lambda folder: refused("hello", 11),
        PeerBroken,
        "'bank' refused 'hello' (unknown code): it gives no reason that this version knows. Install the same version of colonnade on both sides. This question spends nothing. Its own log says why.",
    ),
    "a run that a party cannot go on with": (
        lambda folder: refused("join", 17),
        co.ReplayDiverged,
        "'bank' cannot go on with this run: it is over there, or records, data or code changed; its log says which. Put back what was changed and repeat the call, or end the run with `colonnade runs abort`.",
    ),
    # data
    "a gap in a matrix": (
        lambda folder: co.Federation.split(cell(np.nan), Y),
        co.InvalidInput,
        "X holds 1 values that are NaN or infinite; fill them in or leave those rows out.",
    ),
    "an infinite value": (
        lambda folder: co.Federation.split(cell(np.inf), Y),
        co.InvalidInput,
        "X holds 1 values that are NaN or infinite; fill them in or leave those rows out.",
    ),
    "labels of another length": (
        lambda folder: co.Federation.split(X, Y[:5]),
        co.InvalidInput,
        "X has 12 rows, and y has shape (5,); give one label a row.",
    ),
    "a gap in the labels of a fit": (
        lambda folder: co.fit(co.Federation.split(X, np.where(np.arange(12) == 2, np.nan, Y)), SQUARES, DFW),
        co.InvalidInput,
        "1 of 12 labels are NaN or infinite: drop those rows or fill them in.",
    ),
    "no rows": (
        lambda folder: co.Federation.split(X[:0], Y[:0]),
        co.InvalidInput,
        "X has 0 rows and 4 columns; it needs at least one of each.",
    ),
    "text in a matrix": (
        lambda folder: co.Federation.split(np.array([["a", "b"]]), np.ones(1)),
        co.InvalidInput,
        "X is not a table of numbers: some entries are text or objects, or its rows differ in length. Pass an array of numbers, a sparse matrix or a data frame, whose columns of text become levels.",
    ),
    "one dimension": (
        lambda folder: co.Federation.split(X[:, 0], Y),
        co.InvalidInput,
        "X needs two dimensions, rows and columns; it has 1. A column: X.reshape(-1, 1).",
    ),
    "more parties than columns": (
        lambda folder: split(parties=5),
        co.InvalidInput,
        "parties=5: give a whole number from 1 to the 4 columns, or a dict.",
    ),
    "a column at two parties": (
        lambda folder: split(parties={"a": [0, 1], "b": [1, 2, 3]}),
        co.InvalidInput,
        "1 columns are given twice, the first is 1; a column lives at one party. Leave it out of all but one share.",
    ),
    "a column that is not there": (
        lambda folder: split(parties={"a": [0, 1], "b": [2, 9]}),
        co.InvalidInput,
        "party 'b': X has no column 9; it has 4 columns.",
    ),
    "a label holder that is not a party": (
        lambda folder: split(parties={"a": [0, 1], "b": [2, 3]}, label="c"),
        co.InvalidInput,
        "label='c' is not a party; there are 'a', 'b'.",
    ),
    "a split that is neither": (
        lambda folder: split(by="blocks"),
        co.InvalidInput,
        "by='blocks': a table is split by 'columns' or by 'rows'.",
    ),
    "a complex matrix": (
        lambda folder: co.Federation.split(X.astype(complex), Y),
        co.InvalidInput,
        "X holds complex numbers; give their real and imaginary parts as columns of their own.",
    ),
    "a key that is not in a frame": (
        lambda folder: frames(on="pid"),
        co.InvalidInput,
        "party 'airline' has no key column 'pid'; its columns are 'key', 'a', 'late'. The key has one name at all parties, "
        "in the first line of each file.",
    ),
    "a label that is not in its frame": (
        lambda folder: frames(label=("airline", "delay")),
        co.InvalidInput,
        "party 'airline' has no column 'delay' to use as label; it has 'key', 'a', 'late'.",
    ),
    "a label holder without a frame": (
        lambda folder: frames(label=("registry", "late")),
        co.InvalidInput,
        "label names 'registry', which is not a party; there are 'airline', 'weather'.",
    ),
    "a key twice": (
        lambda folder: frames({"airline": pl.concat([LEFT, LEFT[:1]]), "weather": RIGHT}),
        co.InvalidInput,
        "party 'airline': 1 rows repeat a key of 'key'; each key may stand once. Aggregate the rows of a key, or use a finer key.",
    ),
    "an empty key": (
        lambda folder: frames({"airline": LEFT, "weather": RIGHT.with_columns(key=pl.lit(None, dtype=pl.String))}),
        co.InvalidInput,
        "party 'weather': 6 rows have no key in 'key'; fill it in or leave them out.",
    ),
    "no common keys": (
        lambda folder: frames({"airline": LEFT, "weather": RIGHT.with_columns(key=pl.col("key") + "x")}),
        co.InvalidInput,
        "no key of 'key' is in all of 'airline', 'weather'; is it the same key, written the same way?",
    ),
    "keys of two types": (
        lambda folder: frames({"airline": LEFT, "weather": RIGHT.with_columns(key=pl.Series(range(6)))}),
        co.InvalidInput,
        "the key 'key' has different types (airline: String, weather: Int64); convert it to the same type everywhere, and mind "
        "leading zeros.",
    ),
    "no frames": (
        lambda folder: frames({}),
        co.InvalidInput,
        "no frames were given: pass {'party': frame, ...} with one frame a party.",
    ),
    "something that is not a frame": (
        lambda folder: frames({"airline": LEFT, "weather": 3}),
        co.InvalidInput,
        "party 'weather': rows came as int. Give a polars or pandas DataFrame.",
    ),
    "a file that is not there": (
        lambda folder: co.read("/nowhere/t.csv"),
        co.InvalidInput,
        "/nowhere/t.csv is not a file. Give the path of a .csv, .parquet, .arrow, .feather, .ipc, .svm, .svmlight, .libsvm, .txt, .npz file.",
    ),
    "a file of a kind that is not read": (
        lambda folder: co.read(write(folder / "t.xls", "x")),
        co.InvalidInput,
        "t.xls: no reader for .xls; there are .csv, .parquet, .arrow, .feather, .ipc, .svm, .svmlight, .libsvm, .txt, .npz.",
    ),
    # schema
    "bounds the wrong way round": (
        lambda folder: co.Numeric("age", 120.0, 0.0),
        co.InvalidInput,
        "column 'age': low = 120 is not below high = 0. Write public bounds with low < high.",
    ),
    "a bound that is not finite": (
        lambda folder: co.Numeric("age", 0.0, float("inf")),
        co.InvalidInput,
        "column 'age': high is inf. Write a number within ±1e+100.",
    ),
    "no levels": (
        lambda folder: co.Categorical("city", ()),
        co.InvalidInput,
        "column 'city': no levels. List the values it may take: levels = [...].",
    ),
    "a level twice": (
        lambda folder: co.Categorical("city", ("a", "a")),
        co.InvalidInput,
        "column 'city': the level 'a' is listed 2 times. List it once.",
    ),
    "two columns of one name": (
        lambda folder: co.Schema((co.Numeric("a", 0, 1), co.Numeric("a", 0, 1))),
        co.InvalidInput,
        "the name 'a' stands for 2 columns. Rename all but one.",
    ),
    "a schema file that is not TOML": (
        lambda folder: schema("age: 3"),
        co.InvalidInput,
        "not TOML: Expected '=' after a key in a key/value pair (at line 1, column 4). Correct it there.",
    ),
    "a kind of column that is unknown": (
        lambda folder: schema('[[column]]\ntype = "text"\nname = "age"\n'),
        co.InvalidInput,
        "line 1, [[column]] number 1: type is 'text'. Write one of numeric, binary, categorical, plain, date, unknown.",
    ),
    "a key of a schema that is unknown": (
        lambda folder: schema(COLUMN + 'low = 0\nhigh = 1\nunits = "years"\n'),
        co.InvalidInput,
        "line 1, [[column]] number 1: units is unknown; there are name, low, high, scale, missing, smooth, values, monotone, quantiles",
    ),
    "a bound that is absent": (
        lambda folder: schema(COLUMN + "low = 0\n"),
        co.InvalidInput,
        "line 1, [[column]] number 1: column 'age': one bound without the other. Write low and high, or neither for a look at a price.",
    ),
    "a column that the frame lacks": (
        lambda folder: co.Schema((co.Numeric("age", 0, 1),)).encode(RIGHT),
        co.InvalidInput,
        "the table lacks 1 of the schema's 1 columns, the first is 'age'. Rename the table's column or take it out of the schema.",
    ),
    "text where numbers are declared": (
        lambda folder: co.Schema((co.Numeric("key", 0, 1),)).encode(RIGHT),
        co.InvalidInput,
        "column 'key' holds String, but the schema expects numbers. Convert it, or declare type = \"categorical\" with its levels.",
    ),
    "a schema read off the data": (
        lambda folder: co.fit(frames(), CLASSES, privacy=PRIVACY, store=folder),
        co.InvalidInput,
        "nothing public bounds the rows of party 'airline': declare its schema (from_frames(..., schemas={party: co.Schema(...)}); in its file, replace what was read off the data and then remove the line source = \"data\"), or give Privacy(row_norm=...), a length beyond which a row is shortened. A bound read off the data would tell about single rows.",
    ),
    "a schema for nobody": (
        lambda folder: frames(schemas={"registry": co.Schema((co.Numeric("b", 0, 1),))}),
        co.InvalidInput,
        "schemas names 'registry', which is not a party; there are 'airline', 'weather'.",
    ),
    # problem
    "a negative radius": (
        lambda folder: co.L1Ball(-1.0),
        co.InvalidInput,
        "radius must be a finite number above 0, got -1.0. A larger radius allows larger coefficients; for no bound, leave constraint out of the problem.",
    ),
    "a penalty that is not a number": (
        lambda folder: co.Ridge("much"),
        co.InvalidInput,
        "a must be a finite number above 0, got 'much'. It weighs the penalty against the loss; for no penalty, leave penalty out of the problem.",
    ),
    "a quantile outside": (
        lambda folder: co.Quantile(1.5),
        co.InvalidInput,
        "q must be below 1, got 1.5. It is the quantile to fit: 0.5 is the median.",
    ),
    "a loss that is a class": (
        lambda folder: co.Problem(co.Logistic, co.L1Ball(1.0)),
        co.InvalidInput,
        "loss=<class 'colonnade.problem.losses.Logistic'> is not a loss: give a value such as loss=Logistic().",
    ),
    "a loss that is a word": (
        lambda folder: co.Problem("logistic"),
        co.InvalidInput,
        "loss='logistic' is not a loss: give a value such as loss=Logistic().",
    ),
    "a box whose ends are exchanged": (
        lambda folder: co.Box(1.0, -1.0),
        co.InvalidInput,
        "Box(1.0, -1.0) is no range: give two finite numbers, the smaller one first; for x ≥ 0 alone, use NonNegative().",
    ),
    "a graph in two pieces": (
        lambda folder: co.Topology.from_edges([(0, 1), (2, 3)]),
        co.InvalidInput,
        "the graph of 4 nodes and 2 edges falls into separate parts, which could never agree: add edges between them.",
    ),
    "a kernel of width zero": (
        lambda folder: co.RBF(0.0),
        co.InvalidInput,
        "gamma must be a finite number above 0, got 0.0. It is one over twice the squared width: larger means that fewer examples count as near.",
    ),
    # method
    "a method that is a class": (
        lambda folder: co.fit(split(), SQUARES, co.DistributedFrankWolfe),
        co.InvalidInput,
        "method=<class 'colonnade.methods.frank_wolfe.distributed.DistributedFrankWolfe'> is not a method: give a value such as co.DistributedFrankWolfe().",
    ),
    "a method that is a word": (
        lambda folder: co.fit(split(), SQUARES, "dfw"),
        co.InvalidInput,
        "method='dfw' is not a method: give a value such as co.DistributedFrankWolfe().",
    ),
    "no rounds": (
        lambda folder: co.DistributedFrankWolfe(rounds=0),
        co.InvalidInput,
        "rounds must be a positive integer, got 0",
    ),
    "a tolerance below zero": (
        lambda folder: co.DistributedFrankWolfe(tolerance=-1.0),
        co.InvalidInput,
        "tolerance must be 0 (use all rounds) or a positive number, got -1.0",
    ),
    "a problem that the method does not solve": (
        lambda folder: co.fit(split(), co.Problem(co.Absolute(), co.L1Ball(1.0)), DFW),
        co.InvalidInput,
        "distributed Frank-Wolfe needs a smooth loss, and Absolute has kinks. Use a smooth one, such as LeastSquares, Logistic or Huber.",
    ),
    "labels that a classifier cannot use": (
        lambda folder: co.fit(split(y=np.arange(12.0)), CLASSES, DFW),
        co.InvalidInput,
        "found 12 different labels that are not just -1 and +1 (or 0 and 1): map the two classes to -1 and +1, or choose a regression loss.",
    ),
    "three classes for a machine that learns two": (
        lambda folder: co.fit(split(y=np.arange(12) % 3, by="rows"), co.KernelSVM(co.RBF(1.0)), DFW),
        co.InvalidInput,
        "found 3 different labels, and KernelSVM and AdaBoost learn two classes. For more, fit each class against the rest, one fit each with labels +1 and -1, and take the largest score: docs/understand/methods/frank-wolfe.md.",
    ),
    "one class only": (
        lambda folder: co.fit(split(y=np.ones(12)), CLASSES, DFW),
        co.InvalidInput,
        "all 12 labels are the same class, so there is nothing to learn: check the label column, or add rows of the other class.",
    ),
    "rows where columns are wanted": (
        lambda folder: co.fit(split(by="rows"), SQUARES, DFW),
        co.InvalidInput,
        "distributed Frank-Wolfe works on split columns, and these parties hold different rows: take Federation.split(..., by='columns'), or another method.",
    ),
    "a frame where a federation is wanted": (
        lambda folder: co.fit(LEFT, SQUARES, DFW),
        co.InvalidInput,
        "fit wants a Federation first, got DataFrame; make one with Federation.split or from_frames.",
    ),
    "no problem": (
        lambda folder: co.fit(split(), co.Logistic(), DFW),
        co.InvalidInput,
        "fit wants a Problem second, got Logistic; give one such as co.Problem(co.Logistic(), co.L1Ball(10.0)).",
    ),
    "a graph of another size": (
        lambda folder: co.fit(
            split(), co.Problem(co.LeastSquares(), penalty=co.Ridge(1.0)), co.GraphRidge(topology=co.Topology.ring(5))
        ),
        co.InvalidInput,
        "the topology has 5 nodes for 3 parties (party0, party1, labels): every party is a node, in this order. Give a topology of 3 nodes.",
    ),
    # privacy and budgets
    "a trust that the method does not know": (
        lambda folder: co.fit(split(), CLASSES, co.PrivateGram(), co.Privacy(1.0, 1e-06, "nobody"), store=folder),
        co.InvalidInput,
        "cross='secure' protects under trust 'secure' or 'parties' or 'consortium', and privacy= asks for trust='nobody'. Take cross='none', or another trust model.",
    ),
    "a bound that is not public": (
        lambda folder: co.fit(split(), CLASSES, co.PrivateGram(), co.Privacy(1.0, 1e-06, trust="secure"), store=folder),
        co.InvalidInput,
        "nothing public bounds the rows of party 'party0': declare its schema (from_frames(..., schemas={party: co.Schema(...)}); in its file, replace what was read off the data and then remove the line source = \"data\"), or give Privacy(row_norm=...), a length beyond which a row is shortened. A bound read off the data would tell about single rows.",
    ),
    "a budget without a store": (
        lambda folder: central(None),
        co.InvalidInput,
        "a run with a privacy budget needs store='a folder', where its ledgers outlive the process.",
    ),
    "privacy that is a number": (
        lambda folder: co.fit(split(), CLASSES, privacy=1.0),
        co.InvalidInput,
        "privacy=1.0: give co.Privacy(epsilon, delta, trust='secure'), or leave it out.",
    ),
    "epsilon zero": (
        lambda folder: co.Privacy(0.0, 1e-06),
        co.InvalidInput,
        "epsilon must be a finite number above 0, got 0.0; 1.0 is a common choice",
    ),
    "delta one": (
        lambda folder: co.Privacy(1.0, 1.0),
        co.InvalidInput,
        "delta must lie between 0 and 1, got 1.0; well below 1/rows, such as 1e-6",
    ),
    "a trust that is unknown": (
        lambda folder: co.Privacy(1.0, 1e-06, trust="friends"),
        co.InvalidInput,
        "trust='friends' is not known; choose one of nobody, secure, parties, consortium",
    ),
    "an exact method under privacy": (
        lambda folder: co.fit(split(), SQUARES, DFW, PRIVACY, store=folder),
        co.InvalidInput,
        "distributed Frank-Wolfe releases exact values (index and score of its steepest column in every round; every column that wins a round, in full; the labels), so no finite epsilon can hold. Leave privacy out, or choose a private method.",
    ),
    "a budget that is spent": (
        lambda folder: [central(folder, policies={"clinic": co.Policy(epsilon=1.2, delta=1e-06)}) for _ in range(2)],
        co.BudgetExhausted,
        "party 'clinic': this run would bring epsilon to 1.452, over the limit 1.2 (delta=1e-06); 1 is spent or reserved in this period. Nothing was sent. Ask for a smaller epsilon or fewer rounds, close runs that will not go on, or let the owner open a new period with `colonnade budget renew`.",
    ),
    "a delta that one row at random would satisfy": (
        lambda folder: central(folder, privacy=replace(PRIVACY, delta=0.1)),
        co.InvalidInput,
        "delta=0.1 is not below 1/rows = 0.083: publishing one of them at random would satisfy it. Nothing was sent. Ask for delta=0.001 or less, or, if you know what it means, allow it by allow_large_delta (`colonnade sparse`: --allow-large-delta); the statement then says so.",
    ),
    "a setting for products between parties without any": (
        lambda folder: co.PrivateGram(cross="none", screen=3),
        co.InvalidInput,
        "screen=3 does nothing with cross='none': it is for cross='secure'. Leave it out.",
    ),
    "a run about another unit than its ledger": (
        lambda folder: [central(folder, unit=unit) for unit in (None, (np.arange(12) // 2, 2))],
        co.BudgetExhausted,
        "party 'clinic': its ledger counts for one row, and this run is about one person (at most 2 rows). Prices about different neighbours do not add up to a promise. Nothing was sent. Ask for the unit one row, or keep runs about one person (at most 2 rows) in a store of their own; its owner sets that limit with both in mind.",
    ),
    "a run that costs more than a whole period allows": (
        lambda folder: central(folder, policies={"clinic": co.Policy(epsilon=0.5, delta=1e-06)}),
        co.BudgetExhausted,
        "party 'clinic': this run alone costs epsilon 1, over the limit 0.5 (delta=1e-06) of a whole period. Nothing was sent. Ask for a smaller epsilon or fewer rounds, or let the owner raise the limit: in the party's policy, or, if that allows more, with `colonnade budget set`.",
    ),
    "seeded noise against a policy": (
        lambda folder: co.fit(
            split(parties={"clinic": slice(None)}, label="clinic", policies={"clinic": co.Policy()}),
            CLASSES,
            co.CentralFrankWolfe(rounds=2),
            PRIVACY,
            store=folder,
            noise=co.SeededNoise(1),
        ),
        co.PolicyRefused,
        "seeded noise protects nobody, and party 'clinic' does not let exact values leave. Nothing was sent. Leave noise= out; for a test or a figure, set Policy(exact=True) on data that may be shown.",
    ),
    # policy
    "a policy against exact values": (
        lambda folder: co.fit(
            split(parties={"a": [0, 1], "b": [2, 3]}, label="a", policies={"b": co.Policy()}), SQUARES, DFW
        ),
        co.PolicyRefused,
        "party 'b' does not let exact values leave, and this method would release index and score of its steepest column in every round; every column that wins a round, in full. Nothing was sent. Choose a private method (privacy=...), or, if the party agrees, set Policy(exact=True) for it.",
    ),
    "a policy with a budget and no store": (
        lambda folder: co.fit(
            split(parties={"a": [0, 1], "b": [2, 3]}, label="a", policies={"b": co.Policy(epsilon=1.0, delta=1e-06)}),
            SQUARES,
            DFW,
        ),
        co.InvalidInput,
        "the policy of 'b' limits what all runs may spend, so what this one spends must be kept: give store='a folder', and a private method, as exact values exceed any limit.",
    ),
    "a policy for nobody": (
        lambda folder: split(policies={"registry": co.Policy()}),
        co.InvalidInput,
        "policies names 'registry', which is not a party; there are 'party0', 'party1', 'labels'.",
    ),
    "a limit without a delta": (
        lambda folder: co.Policy(epsilon=1.0),
        co.InvalidInput,
        "a budget needs both epsilon and delta; give both, or neither for no budget",
    ),
    "a limit for exact values": (
        lambda folder: co.Policy(exact=True, epsilon=1.0, delta=1e-06),
        co.InvalidInput,
        "a party that lets exact values leave has no budget to keep: drop exact=True or epsilon",
    ),
    # engines
    "an engine that is a word": (
        lambda folder: co.fit(split(), SQUARES, DFW, engine="ray"),
        co.InvalidInput,
        "engine='ray' is not an engine: give a value such as co.InProcess() or co.Ray().",
    ),
    "an engine that is a class": (
        lambda folder: co.fit(split(), SQUARES, DFW, engine=co.InProcess),
        co.InvalidInput,
        "engine=<class 'colonnade.runtime.hosted_node.InProcess'> is not an engine: give a value such as co.InProcess() or co.Ray().",
    ),
    "parties elsewhere without an engine": (
        lambda folder: co.fit(co.Federation.open(elsewhere(folder)), SQUARES, DFW),
        co.InvalidInput,
        "the parties of this federation run elsewhere: pass engine=co.Grpc(...), or open it with Federation.open(path, frames={party: frame}) to run it in this process.",
    ),
    "certificates that are not there": (
        lambda folder: cli(
            "federation", "check", elsewhere(folder), "--certs", folder / "certs", "--listen", "127.0.0.1:0"
        ),
        Said,
        "cannot read FOLDER/certs/coordinator.pem: No such file or directory. Check it, or `colonnade certs issue`.",
    ),
    "a store that is a file": (
        lambda folder: central(write(folder / "runs", "x")),
        co.StoreError,
        "cannot use FOLDER/runs as a store: it is a file. Name a folder that is writable or still to be made.",
    ),
    # save and load
    "a fit that is not there": (
        lambda folder: co.load(folder / "fit.json"),
        co.InvalidInput,
        "cannot read FOLDER/fit.json: No such file or directory. Check the path.",
    ),
    "a fit that is something else": (
        lambda folder: co.load(write(folder / "fit.json", "hello")),
        co.InvalidInput,
        "FOLDER/fit.json is not a saved fit, or it is damaged. Save the fit again, or restore a copy.",
    ),
    "a fit that is damaged": (
        lambda folder: co.load(damaged(folder / "fit.json")),
        co.InvalidInput,
        "FOLDER/fit.json is damaged: its content does not match its check-sum. Restore it from a copy.",
    ),
    "a fit in a folder that is not there": (
        lambda folder: fitted().save(folder / "none" / "fit.json"),
        co.StoreError,
        "cannot write FOLDER/none/fit.json: No such file or directory. Nothing was written; create its folder, make it writable or free space, and try again.",
    ),
    "a report in a folder that is not there": (
        lambda folder: fitted().report(folder / "none" / "r.html"),
        co.InvalidInput,
        "the folder FOLDER/none does not exist; create it, or name another.",
    ),
    # prediction
    "a party missing at prediction": (
        lambda folder: fitted().scores({"airline": LEFT}),
        co.InvalidInput,
        "a prediction needs a frame of every party, and 'weather' is missing. Add its frame, or name it in without= to leave its part of every score out.",
    ),
    "a column missing at prediction": (
        lambda folder: fitted().scores({"airline": LEFT.drop("a"), "weather": RIGHT}),
        co.InvalidInput,
        "party 'airline': the frame lacks 1 of the 2 columns asked for, the first is 'a'. It has 2: key, late. Correct the name.",
    ),
    "rows without a match at prediction": (
        lambda folder: fitted().scores({"airline": LEFT, "weather": RIGHT[:3]}),
        co.InvalidInput,
        "3 of the 6 rows of 'airline' are not at every party, so they have no score. Leave them out first: their 'key' is not in federation.keys of Federation.from_frames(...) over the same frames.",
    ),
    "probabilities of values": (
        lambda folder: co.fit(split(), SQUARES, DFW).predict_proba(split()),
        co.InvalidInput,
        "LeastSquares predicts values, not classes; use fit.predict.",
    ),
    "a matrix of another width": (
        lambda folder: co.fit(split(), SQUARES, DFW).scores(co.Federation.split(X[:, :3], None, parties=2)),
        co.InvalidInput,
        "party 'party1' brings 1 columns; the model was fitted on 2. Give the same columns in the same order.",
    ),
    "gaps that were not released": (
        lambda folder: fitted().communication.by("colour"),
        co.InvalidInput,
        "cannot sum by 'colour'; choose among sender, receiver, type, round, messages, bytes, numbers, direction, party",
    ),
    # config file
    "a config file that is not there": (
        lambda folder: cli("fit", "/nowhere/c.toml"),
        Said,
        "cannot read /nowhere/c.toml: No such file or directory. Check the path.",
    ),
    "a config file that is not TOML": (
        lambda folder: cli("fit", write(folder / "c.toml", "data = [")),
        Said,
        "FOLDER/c.toml is not a TOML file: Invalid value (at end of document). Correct it there.",
    ),
    "a config file without data": (
        lambda folder: cli("fit", write(folder / "c.toml", 'output = "x.json"\n')),
        Said,
        'FOLDER/c.toml has no [problem]; write at least: [problem] and loss = "Logistic".',
    ),
    "a config key that is unknown": (
        lambda folder: cli("fit", holder(folder, top="epsilon = 1.0\n")),
        Said,
        "FOLDER/c.toml, line 1 (epsilon = 1.0): epsilon is unknown; there are problem, method, privacy, data, store, report, output",
    ),
    "a config table that is not there": (
        lambda folder: cli("fit", holder(folder, problem="")),
        Said,
        'FOLDER/c.toml has no [problem]; write at least: [problem] and loss = "Logistic".',
    ),
    "a loss that the config misspells": (
        lambda folder: cli("fit", holder(folder, problem='[problem]\nloss = "Logistik"\n')),
        Said,
        'FOLDER/c.toml, line 7 (loss = "Logistik"): problem.loss: "Logistik" is not known; write loss = "Logistic".',
    ),
    "a setting that a value has not": (
        lambda folder: cli(
            "fit",
            holder(folder, problem='[problem]\nloss = "Logistic"\nconstraint = { type = "L1Ball", size = 1.0 }\n'),
        ),
        Said,
        "FOLDER/c.toml, line 8 (constraint = { type = \"L1Ball\", size = 1.0 }): problem.constraint.size: L1Ball has no 'size'; it has radius.",
    ),
    # command line
    "a task that is unknown": (
        lambda folder: cli("sparse", write(folder / "t.svm", "1 1:1\n"), "--task", "cluster"),
        Said,
        "--task cluster is not known; choose classify or regress",
    ),
    "classes that are not numbers": (
        lambda folder: cli("sparse", write(folder / "t.svm", "1 1:1\n"), "--classes", "a,b"),
        Said,
        "--classes 'a,b' is not a list of numbers; write as in --classes=-1,1",
    ),
    "privacy without classes": (
        lambda folder: cli("sparse", write(folder / "t.svm", "1 1:1\n-1 2:1\n"), "--epsilon", 1),
        Said,
        "a private fit of a svmlight file needs columns=, the number of columns from public knowledge (--columns on the command line): the largest number in the file tells about the row that holds it.",
    ),
    "a store that is none": (
        lambda folder: cli("runs", "list", folder),
        Said,
        "FOLDER is not a store: it has no runs.db. Name the folder that was given as store=.",
    ),
    "a run that is not there": (
        lambda folder: (central(folder), cli("runs", "show", folder, "20200101T000000-000000000000")),
        Said,
        "FOLDER holds no run '20200101T000000-000000000000'; `colonnade runs list FOLDER` shows those it has.",
    ),
    "a ledger that was not lost": (
        lambda folder: (central(folder), cli("runs", "replaced", folder, "--node", "clinic")),
        Said,
        "the ledger of 'clinic' has rows, so it is not new. Nothing was changed. Move its file away if it is lost, or restore the newest copy.",
    ),
    "a lost ledger that nobody knew": (
        lambda folder: (central(folder), cli("runs", "replaced", folder, "--node", "registry")),
        Said,
        "no ledger in FOLDER remembers one of 'registry'; there are those of clinic, coordinator.",
    ),
    "two ways to replace a ledger": (
        lambda folder: cli("runs", "replaced", folder, "--node", "clinic", "--sign", "record"),
        Said,
        "say one of --node NAME (a store of one owner), --sign RECORD and --accept RECORD.",
    ),
    "a record that is none": (
        lambda folder: Record.load(write(folder / "record", "{}")),
        co.InvalidInput,
        "FOLDER/record is no record of a replaced ledger: it is no colonnade replaced ledger of version 1. Ask its owner for it again.",
    ),
    "a record of a party that is not there": (
        lambda folder: taken(folder, "nobody"),
        co.InvalidInput,
        "the record is about 'nobody', who is not in the federation file. Ask for its file.",
    ),
    "a record that its node did not sign": (
        lambda folder: taken(folder, "a"),
        co.InvalidInput,
        "the record of 'a' is refused: its signature is not that of the node's own key. Nothing changed; ask its owner.",
    ),
    "a record that counts less than is known": (
        lambda folder: Ledger(spending(), "bank", co.Policy()).accept_replaced(
            Replaced("clinic", "2031-01-01T00:00:00+00:00", "0" * 16), (1, bytes(32)), 0.25
        ),
        co.InvalidInput,
        "the new ledger of 'clinic' begins with rho = 0.25, and the one of 'bank' counts 0.5 about the same rows: it would forget the rest. The record was not taken. Let its owner sign again with --rho 0.5 or more.",
    ),
    "a record of an older loss": (
        lambda folder: Ledger(spending(), "bank", co.Policy()).accept_replaced(
            Replaced("bank", "2020-01-01T00:00:00+00:00", "0" * 16), (1, bytes(32)), 1.0
        ),
        co.InvalidInput,
        "the record about 'bank' is of 2020-01-01T00:00:00+00:00, and the ledger of 'bank' has taken one of 2031-01-01T00:00:00+00:00. Nothing was changed. Ask its owner for the newest record.",
    ),
    "a sum that is none": (
        lambda folder: Ledger(MemoryLog(), "bank", co.Policy()).begin_anew(-1.0),
        co.InvalidInput,
        "rho=-1.0: what was spent before is a number of at least 0. Give inf if it is not known.",
    ),
    "a party without a ledger": (
        lambda folder: (central(folder), cli("budget", "plan", folder, "registry", "--epsilon", 1)),
        Said,
        "FOLDER holds no ledger of 'registry'; there are clinic.",
    ),
    "a format that is unknown": (
        lambda folder: (central(folder), cli("budget", "export", folder, "clinic", "--format", "xml")),
        Said,
        "cannot export as 'xml'; choose csv or json.",
    ),
    "a file that init would write over": (
        lambda folder: cli("init", write(folder / "c.toml", "")),
        Said,
        "FOLDER/c.toml already exists. Name another file, or write over it with --force.",
    ),
    "an authority twice": (
        lambda folder: cli("certs", "init", authority(folder / "ca")),
        Said,
        "FOLDER/ca holds an authority already; issue from it, or take another folder.",
    ),
    "a certificate from nobody": (
        lambda folder: cli("certs", "issue", folder / "ca", "hospital"),
        Said,
        "FOLDER/ca holds no authority; make one with `colonnade certs init FOLDER/ca`.",
    ),
    # federation
    "a federation file that is not there": (
        lambda folder: co.Federation.open(folder / "federation.toml"),
        co.InvalidInput,
        "cannot read FOLDER/federation.toml: No such file or directory. Check the path.",
    ),
    "a federation file without parties": (
        lambda folder: co.Federation.open(write(folder / "federation.toml", "version = 1\n")),
        co.InvalidInput,
        "FOLDER/federation.toml: no [parties.NAME] tables; add one for each party",
    ),
    "a federation file of a later version": (
        lambda folder: co.Federation.open(write(folder / "federation.toml", "version = 9\n")),
        co.InvalidInput,
        "FOLDER/federation.toml, line 1 (version = 9): version is 9; this Colonnade reads version = 1. Write that, or install a newer one.",
    ),
    "a party file that is not there": (
        lambda folder: cli("party", "run", folder / "party.toml"),
        Said,
        "cannot read FOLDER/party.toml: No such file or directory. Check the path.",
    ),
    # estimators
    "an estimator's radius": (
        lambda folder: co.SparseClassifier(radius=-1.0).fit(X, Y),
        co.InvalidInput,
        "radius must be a number above 0 and of a sensible size, got -1.0",
    ),
    "an estimator's epsilon without classes": (
        lambda folder: co.SparseClassifier(epsilon=1.0).fit(X, Y),
        co.InvalidInput,
        "a private fit needs classes=, the labels there may be, from public knowledge: a list taken from the data would show a class that only one row has.",
    ),
    "an estimator's method": (
        lambda folder: co.SparseClassifier(method="newton").fit(X, Y),
        co.InvalidInput,
        "method='newton' is not known; choose one of auto, frank-wolfe, gaussian",
    ),
    "an estimator's labels without a bound": (
        lambda folder: co.SparseRegressor(epsilon=1.0, delta=1e-06).fit(X, Y),
        co.InvalidInput,
        "a private fit needs label_range=(low, high), or label_bound=, a finite public bound of |y| above 0, got None. Labels are clipped to it; a bound taken from the data would be a release.",
    ),
    # simulate
    "a sampling of nothing": (
        lambda folder: co.Nice(0),
        co.InvalidInput,
        "tau must be a whole number of at least 1, got 0.",
    ),
}


@pytest.mark.chance(0, "texts of prices and settings; picks that were drawn stand in none of them")
@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_answered_with_what_happened_and_what_to_do(name: str, tmp_path: Path) -> None:
    call, error, text = WRONG[name]
    with pytest.raises(error) as raised:
        call(tmp_path)
    assert isinstance(raised.value, error)
    assert str(raised.value).replace(str(tmp_path), "FOLDER") == text


ADVICE = set(
    re.findall(
        r"\w+",
        "add aggregate allow ask check choose convert correct create declare drop fill give install keep leave let list lower make "
        "map name needs pass rename repeat restore save set take try use write",
    )
)
CHOICES = (
    "there are",
    "it has",
    "its columns are",
    "must be",
    "must lie",
    "it needs",
    "needs it",
    "is it the same",
    "split by",
)


@pytest.mark.parametrize("name", WRONG)
def test_every_text_says_what_to_do_or_what_there_is(name: str) -> None:
    text = WRONG[name][2]
    words = set(re.findall(r"[a-z]+", text.lower()))
    assert words & ADVICE or any(choice in text for choice in CHOICES)
    assert "\n" not in text
    assert not text.startswith(" ")


def test_the_table_covers_what_a_user_can_get_wrong() -> None:
    assert len(WRONG) >= 100


# ------------------------------------------------------------------------------------------------ what people fear


def test_rows_in_another_order_give_the_same_model() -> None:
    mixed = co.fit(frames({"airline": LEFT, "weather": RIGHT.reverse()}), CLASSES, DFW)
    assert all(np.array_equal(mixed.coefficients[p], x) for p, x in fitted().coefficients.items())


def test_a_party_may_hold_the_labels_and_nothing_else() -> None:
    parts = {"clinic": LEFT.select("key", "a"), "weather": RIGHT, "registry": LEFT.select("key", "late")}
    fit = co.fit(frames(parts, label=("registry", "late")), CLASSES, DFW)
    assert set(fit.coefficients) == {"clinic", "weather"}


def test_more_columns_than_rows_are_no_mistake() -> None:
    wide = np.random.default_rng(1).normal(size=(12, 60))
    fit = co.fit(co.Federation.split(wide, Y, parties=3), CLASSES, co.DistributedFrankWolfe(rounds=40))
    assert sum(x.size for x in fit.coefficients.values()) == 60
    assert fit.l1_norm <= 1.0 + 1e-12
