"""Claims about a ledger that was lost: nothing goes on until its owner says so and all others agree by hand, what others remember to
have been spent stays spent, and every later statement counts it.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli.coordinator import write_example
from colonnade.data.federation_file import new_key
from colonnade.network import certs
from colonnade.network.certs import tls_in
from colonnade.network.hub_run import read_replaced
from colonnade.network.party_service import OK
from colonnade.network.questions import Stood, pack, read_as
from colonnade.network.replaced_ledger import Record, sign_as_coordinator
from colonnade.privacy.block import ROW
from colonnade.privacy.conditions import Code
from colonnade.privacy.events import Charge, Event, Mechanism
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Replaced, Terms
from colonnade.privacy.statement import replaced_ledgers
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.run_store import abort_run, begin_new_ledger
from tests.helpers import lost_ledger, stub_hub
from tests.helpers.lost_ledger import ROLLED_BACK, Federation, ledger_of
from tests.helpers.stub_hub import NOISY, STAR, proposal, run_of, straw_hub

tmp_path = stub_hub.tmp_path
made = lost_ledger.made

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def later(days: int) -> contextlib.AbstractContextManager[object]:
    return mock.patch("colonnade.privacy.ledger._now", return_value=f"2031-01-{days:02}T00:00:00+00:00")


# ------------------------------------------------------------------------------------------------ one owner's store


def fit(store: Path, epsilon: float = 1.0, limit: float = 4.0) -> co.Fit:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (200, 4)), np.where(rng.random(200) < 0.5, -1, 1)
    fed = co.Federation.split(X, y, parties={"a": [0, 1], "b": [2, 3]}, label="b")
    fed = replace(
        fed, parties={n: replace(p, policy=co.Policy(epsilon=limit, delta=1e-6)) for n, p in fed.parties.items()}
    )
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
    privacy = co.Privacy(epsilon, 1e-6, trust="secure", row_norm=1.0, feature_bound=1.0)
    return co.fit(fed, problem, co.PrivateGram(), privacy, store=store)


def lose(store: Path, node: str) -> None:
    files = list((store / "nodes").glob(f"{node}.db*"))
    assert files
    for file in files:
        file.unlink()


def spent(store: Path, node: str) -> float:
    with ledger_of(store, node) as ledger:
        return ledger.row_spent()


@pytest.mark.chance(0, "prices by the plan, and sentences about ledgers: nothing that was drawn")
@pytest.mark.parametrize("node", ["a", COORDINATOR])
def test_a_store_goes_on_after_a_loss_with_what_the_others_remember_and_says_so(node, tmp_path):
    assert not fit(tmp_path).privacy.has(Code.LEDGERS_REPLACED)
    known = {name: spent(tmp_path, name) for name in ("a", "b")}
    lose(tmp_path, node)
    with pytest.raises(co.LedgerDamaged, match="colonnade runs replaced"):
        fit(tmp_path)
    lose(tmp_path, node)
    when, rho, _ = begin_new_ledger(tmp_path, node)
    assert spent(tmp_path, "a") >= known["a"] > 0
    assert spent(tmp_path, "b") == known["b"]
    assert rho >= max(known.values())
    said = f"1 ledger was replaced after it was lost: that of {node} on {when[:10]}"
    for _ in range(2):
        found = fit(tmp_path, epsilon=0.5)
        assert said in found.privacy.sentence
    found.save(tmp_path / "fit.json")
    assert said in co.load(tmp_path / "fit.json").privacy.sentence


@pytest.mark.chance(0, "prices by the plan, limits and dates")
def test_a_new_ledger_is_no_new_budget(tmp_path):
    fit(tmp_path, epsilon=3.0)
    known = spent(tmp_path, "b")
    with pytest.raises(co.BudgetExhausted):
        fit(tmp_path, epsilon=3.1)
    for days in (1, 2, 3):
        lose(tmp_path, "b")
        with later(days):
            begin_new_ledger(tmp_path, "b")
    with ledger_of(tmp_path, "b", co.Policy(epsilon=4.0, delta=1e-6)) as ledger:
        assert ledger.budget().rho >= known > 0
        assert ledger.budget().lifetime_rho == ledger.row_spent()
        with pytest.raises(co.BudgetExhausted):
            fit(tmp_path, epsilon=3.1)
    lose(tmp_path, "b")
    with later(4):
        begin_new_ledger(tmp_path, "b")
    found = fit(tmp_path, epsilon=0.1)
    assert (
        "4 ledgers were replaced after they were lost: that of b on 2031-01-01, 2031-01-02," in found.privacy.sentence
    )


@pytest.mark.chance(0, "units and a refusal: nothing that was drawn is compared")
def test_a_new_ledger_keeps_the_unit_of_the_lost_one(tmp_path):
    """What was spent about a row does not add up with what is spent about a person."""
    fit(tmp_path)
    with ledger_of(tmp_path, "b") as ledger:
        (unit,) = ledger.units()
    lose(tmp_path, "a")
    begin_new_ledger(tmp_path, "a")
    with ledger_of(tmp_path, "a") as ledger:
        assert ledger.units() == (unit,)
        plans = {"a": (Charge(Event(Mechanism.GAUSSIAN, 0.01, 1.0), 1, "a sum"),)}
        terms = Terms("a method", "", "nobody", "one patient with at most 5 rows", "replaced", "code")
        with pytest.raises(co.BudgetExhausted, match="Prices about different neighbours do not add up"):
            ledger.check_run("run", terms, plans)
        ledger.check_run("run", replace(terms, unit=unit, neighbours=ledger.counted_units()[0][1]), plans)


@pytest.mark.chance(0, "states of runs and prices by the plan")
def test_a_run_that_was_open_at_a_loss_is_ended_and_stays_counted(tmp_path):
    with mock.patch.object(Gate, "integers", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        fit(tmp_path)
    with ledger_of(tmp_path, "b") as ledger:
        assert len(ledger.open_runs()) == 1
    lose(tmp_path, "a")
    _, rho, _ = begin_new_ledger(tmp_path, "a")
    assert rho > 0.0
    with ledger_of(tmp_path, "b") as ledger:
        assert ledger.open_runs() == set()
    assert fit(tmp_path, epsilon=0.5).privacy.has(Code.LEDGERS_REPLACED)


@pytest.mark.chance(0, "refusals, and prices by the plan before and after")
def test_a_ledger_that_is_there_is_not_replaced(tmp_path):
    fit(tmp_path)
    before = {name: spent(tmp_path, name) for name in ("a", "b")}
    with pytest.raises(co.InvalidInput, match=r"has rows, so it is not new\. Nothing was changed"):
        begin_new_ledger(tmp_path, "a")
    with pytest.raises(
        co.InvalidInput, match=r"no ledger in .* remembers one of 'c'; there are those of a, b, coordin"
    ):
        begin_new_ledger(tmp_path, "c")
    assert not (tmp_path / "nodes" / "c.db").exists()
    assert before == {name: spent(tmp_path, name) for name in ("a", "b")}
    assert not fit(tmp_path, epsilon=0.5).privacy.has(Code.LEDGERS_REPLACED)


@pytest.mark.chance(0, "exit codes and sentences about ledgers")
def test_the_command_for_one_owner_that_was_cut_off_is_repeated(tmp_path):
    fit(tmp_path)
    lose(tmp_path, "a")
    with mock.patch.object(Ledger, "accept_replaced", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        begin_new_ledger(tmp_path, "a")
    for _ in range(2):
        said = CliRunner().invoke(app, ["runs", "replaced", str(tmp_path), "--node", "a"])
        assert said.exit_code == 0, said.output
        assert "a has a new ledger since" in said.output
    assert "1 ledger" in fit(tmp_path, epsilon=0.5).privacy.sentence


# ------------------------------------------------------------------------------------------------ between organisations


@pytest.mark.chance(0, "refusals, lengths of ledgers and sentences")
@pytest.mark.parametrize("node", ["party0", COORDINATOR])
def test_nothing_goes_on_until_everybody_who_remembers_has_taken_the_record(node, made):
    made.fit()
    rho = 2 * made.spent()
    made.lose(node)
    with pytest.raises(co.ColonnadeError, match=ROLLED_BACK):
        made.fit()
    made.lose(node)
    record = made.sign(node, rho)
    last = (
        "labels" if node == COORDINATOR else COORDINATOR
    )  # who remembers it: the one before it, and the coordinator all
    with ledger_of(made.folder / last, last) as ledger:
        assert node in ledger.remembered()
    for name in set(made.nodes) - {node, last}:
        made.take(name, record)
    rows = made.lengths()
    with pytest.raises(co.ColonnadeError, match=ROLLED_BACK):
        made.fit()
    assert made.lengths() == rows
    made.take(last, record)
    statement = made.fit().privacy
    said = f"1 ledger was replaced after it was lost: that of {node} on {record.when[:10]}."
    assert said in statement.sentence


@pytest.mark.chance(0, "prices by the plan, units and refusals")
def test_a_new_ledger_begins_with_at_least_what_any_other_counts(made):
    made.fit()
    needed = made.spent()
    assert 0 < needed < math.inf
    made.lose("party0")
    record = made.sign("party0", 0.0)
    rows = made.lengths()
    with pytest.raises(co.InvalidInput, match=r"begins with rho = 0\.0, .* --rho 0\.\d+ or more"):
        made.take("party1", record)
    assert made.lengths() == rows
    with pytest.raises(co.ColonnadeError, match=ROLLED_BACK):
        made.fit()
    with ledger_of(made.folder / COORDINATOR, COORDINATOR) as ledger:
        needed = max(needed, ledger.row_spent())
    raised = made.sign("party0", needed)  # until the first run its owner may say more, and it is the same replacement
    assert (raised.replaced, raised.rho) == (record.replaced, needed)
    made.all_take(raised)
    assert made.straw.services["party0"].ledger.units() == made.straw.services["party1"].ledger.units() == (str(ROW),)
    assert made.straw.services["party0"].ledger.row_spent() == needed
    assert "1 ledger was" in made.fit().privacy.sentence


@pytest.mark.chance(0, "refusals and lengths of ledgers")
def test_without_a_figure_all_may_have_been_spent_and_a_limit_lets_nothing_leave(made):
    made.fit()
    made.lose("party0")
    made.all_take(made.sign("party0"))
    before = made.lengths()
    with pytest.raises(co.ColonnadeError, match="'party0' refused"):
        made.fit()
    assert {name: made.lengths()[name] for name in ("party1", "party2", "labels")} == {
        name: before[name] for name in ("party1", "party2", "labels")
    }
    made.straw.services["party0"].ledger.renew("the disk died; the owner knows that nothing else was spent")
    assert made.fit().privacy.has(Code.LEDGERS_REPLACED)


def forged(made: Federation) -> dict[str, tuple[Record, str]]:
    """Records that nobody may take, and what is said."""
    true = made.sign("party0")
    wrong = "its signature is not that of the node's own key"
    foreign = Ed25519PrivateKey.from_private_bytes(made.straw.made.keys["party1"])
    return {
        "not signed": (replace(true, signature=""), wrong),
        "signed by another party": (replace(true, signature=foreign.sign(true.statement).hex()), wrong),
        "about another party": (replace(true, node="party1"), wrong),
        "about a stranger": (replace(true, node="nobody"), "not in the federation file"),
        "a larger rho than was signed": (replace(true, rho=1e9), wrong),
        "another head": (replace(true, head="00" * 32), wrong),
        "another count": (replace(true, count=2), wrong),
        "another day": (replace(true, when="2031-01-01T00:00:00+00:00"), wrong),
        "another mark": (replace(true, mark="0" * 16), wrong),
        "of another federation": (replace(true, federation="0" * 64), "another federation file"),
        "a party's as the coordinator's": (replace(true, node=COORDINATOR), wrong),
    }


@pytest.mark.chance(0, "refusals by signatures, and lengths of ledgers")
def test_a_forged_record_is_taken_by_nobody_and_changes_nothing(made):
    made.fit()
    made.lose("party0")
    rows = made.lengths()
    for kind, (record, why) in forged(made).items():
        with pytest.raises(co.InvalidInput, match=why):
            made.take("party2", record)
        assert {**made.lengths(), "party0": 0} == {**rows, "party0": 0}, kind
    with pytest.raises(co.InvalidInput, match="record of 'party0' itself"):
        made.take("party0", made.sign("party0"))


@pytest.mark.chance(0, "refusals by the digest of a federation file")
def test_a_record_of_the_same_key_in_another_federation_is_refused(made):
    """One organisation may sign in several federations by one key."""
    made.fit()
    made.lose("party0")
    record = made.sign("party0")
    members = {**made.file.members, "party1": replace(made.file.members["party1"], policy=co.Policy())}
    made.file = replace(made.file, members=members)
    with pytest.raises(co.InvalidInput, match="another federation file"):
        made.take("party2", record)
    elsewhere = made.sign("party0")
    made.file = made.straw.made.file
    with pytest.raises(co.InvalidInput, match="another federation file"):
        made.take("party2", elsewhere)


@pytest.mark.chance(0, "a refusal by a key, and an empty ledger")
def test_only_the_pinned_key_begins_a_new_ledger(made):
    made.fit()
    made.lose("party0")
    with pytest.raises(co.InvalidInput, match="the federation file pins another key for"):
        made.sign("party0", key=new_key()[1])
    with ledger_of(made.folder / "party0", "party0") as ledger:
        assert ledger.log.length() == 0


@pytest.mark.chance(0, "refusals by certificates, and lengths of ledgers")
@pytest.mark.parametrize("kind", ["another authority", "a party's certificate", "revoked", "not signed", "changed"])
def test_a_record_of_the_coordinator_needs_its_certificate(kind, made, tmp_path):
    made.fit()
    made.lose(COORDINATOR)
    true, place = made.sign(COORDINATOR), made.folder / "certs"
    shown = place
    if kind == "another authority":
        shown = made.folder / "elsewhere"
        certs.init(shown)
        certs.issue(shown, COORDINATOR, hosts=["localhost"])
    record = true
    if kind in ("another authority", "a party's certificate"):
        name = "party1" if kind == "a party's certificate" else COORDINATOR
        with ledger_of(made.folder / COORDINATOR, COORDINATOR) as ledger:
            record = sign_as_coordinator(ledger, tls_in(shown, name), made.file)
    if kind == "revoked":
        certs.revoke(place, COORDINATOR)
    record = replace(record, signature="") if kind == "not signed" else record
    record = replace(record, count=7) if kind == "changed" else record
    rows = made.lengths()
    with pytest.raises(co.InvalidInput, match="the record of 'coordinator' is refused"):
        made.take("party0", record)
    assert made.lengths() == rows
    if kind != "revoked":
        made.take("party0", true)


def authority_in(folder: Path) -> Path:
    """Another authority, which issued a certificate to a coordinator too."""
    certs.init(folder)
    certs.issue(folder, COORDINATOR, hosts=["localhost"])
    return folder


def with_authorities(place: Path, *files: Path) -> None:
    (place / "authority.pem").write_bytes(b"".join(file.read_bytes() for file in files))


@pytest.mark.chance(0, "certificates alone decide")
@pytest.mark.parametrize("first", ["old", "new"])
def test_while_one_authority_follows_another_a_record_under_either_is_taken(first, made):
    made.fit()
    made.lose(COORDINATOR)
    place, new = made.folder / "certs", authority_in(made.folder / "new")
    old = shutil.copy(place / "authority.pem", made.folder / "old.pem")
    both = [Path(old), new / "authority.pem"]
    with_authorities(place, *(both if first == "old" else both[::-1]))
    with ledger_of(made.folder / COORDINATOR, COORDINATOR) as ledger:
        by_new = sign_as_coordinator(ledger, tls_in(new, COORDINATOR), made.file)
    made.take("party0", made.sign(COORDINATOR))
    made.take("party1", by_new)


@pytest.mark.chance(0, "refusals by certificates, and lengths of ledgers")
@pytest.mark.parametrize("kind", ["outside", "expired", "a party's"])
def test_of_two_authorities_neither_lets_a_third_one_sign(kind, made):
    """A third one of the same name, one that has expired, and a party whose certificate somebody put into the file."""
    made.fit()
    made.lose(COORDINATOR)
    place, new = made.folder / "certs", authority_in(made.folder / "new")
    true, files = made.sign(COORDINATOR), [place / "authority.pem", new / "authority.pem"]
    third = made.folder / "third"
    if kind == "a party's":
        (third / "issued").mkdir(parents=True)
        for end in ("pem", "key"):
            shutil.copy(place / f"party1.{end}", third / f"authority.{end}")
        certs.issue(third, COORDINATOR, hosts=["localhost"])
    else:
        authority_in(third)
    if kind == "expired":  # the same key and name in a certificate of long ago; what it issued may say anything
        key = load_pem_private_key((third / "authority.key").read_bytes(), None)
        long_ago = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
        then = mock.patch("colonnade.network.certs._now", return_value=long_ago)
        with then, mock.patch("colonnade.network.certs.ec.generate_private_key", return_value=key):
            files.append(certs.init(made.folder / "then"))
    if kind == "a party's":
        files.append(third / "authority.pem")
    with ledger_of(made.folder / COORDINATOR, COORDINATOR) as ledger:
        forged = sign_as_coordinator(ledger, tls_in(third, COORDINATOR), made.file)
    with_authorities(place, *files)
    rows = made.lengths()
    with pytest.raises(co.InvalidInput, match=r"no authority in .*authority.pem issued the certificate"):
        made.take("party0", forged)
    assert made.lengths() == rows
    made.take("party0", true)


@pytest.mark.chance(0, "lengths of ledgers and a refusal")
def test_a_record_that_is_played_again_does_not_let_an_old_copy_pass(made):
    """Taken twice, it would make others forget where the new ledger stood since."""
    made.fit()
    made.lose("party0")
    record = made.sign("party0", 1.0)
    copy = made.folder / "copy"
    made.straw.services["party0"].close()
    shutil.copytree(made.folder / "party0", copy)
    made.straw.services["party0"] = made.straw.made.service("party0")
    made.all_take(record)
    made.straw.services["party0"].ledger.renew("it goes on")
    made.fit()
    rows = made.lengths()
    made.all_take(record)
    assert made.lengths() == rows
    made.straw.services["party0"].close()
    shutil.rmtree(made.folder / "party0")
    shutil.copytree(copy, made.folder / "party0")
    made.straw.services["party0"] = made.straw.made.service("party0")
    with pytest.raises(co.ColonnadeError, match=ROLLED_BACK):
        made.fit()


@pytest.mark.chance(0, "dates that the test gives, lengths of ledgers and a sentence")
def test_a_record_from_before_the_newest_is_refused_by_who_never_took_it(made):
    made.fit()
    made.lose("party0")
    with later(1):
        first = made.sign("party0")
    made.take("party2", first)
    made.lose("party0")
    with later(2):
        second = made.sign("party0")
    made.take("party1", second)
    made.take("party2", second)
    rows = made.lengths()
    with pytest.raises(co.InvalidInput, match="has taken one of 2031-01-02"):
        made.take("party1", first)
    made.take("party2", first)  # it is known, and no news
    assert made.lengths() == rows
    made.straw.services["party0"].ledger.renew("it goes on")
    for node in (COORDINATOR, "labels"):
        made.take(node, second)
    told = "2 ledgers were replaced after they were lost: that of party0 on 2031-01-01, 2031-01-02"
    assert told in made.fit().privacy.sentence  # also the first, which one party remembers


def test_open_runs_are_ended_by_who_takes_the_record_and_stay_counted(made):
    for name in made.straw.made.names:
        assert made.straw.raw(name, "reserve", proposal(NOISY, seeded=False)).head["code"] == OK
    reserved = made.straw.services["party1"].ledger.row_spent()
    made.lose("party0")
    made.take("party1", made.sign("party0"))
    ledger = made.straw.services["party1"].ledger
    assert ledger.open_runs() == set()
    assert 0 < ledger.row_spent() <= reserved  # its own part was not used; that of the others may have been
    assert made.straw.raw("party1", "reserve", proposal(NOISY, seeded=False)).head["code"] != OK
    with pytest.raises(co.InvalidInput, match="is over already"):
        abort_run(made.folder / "party1", "run")


# ------------------------------------------------------------------------------------------------ what is said and read


def test_two_replacements_of_one_second_are_two():
    one, two = (Replaced("a", "2031-01-01T00:00:00+00:00", mark) for mark in ("0" * 16, "1" * 16))
    (said,) = replaced_ledgers([one, one])
    assert said.full.startswith("1 ledger was replaced")
    (said,) = replaced_ledgers([one, two, one])
    assert said.full.startswith("2 ledgers were replaced after they were lost: that of a on 2031-01-01, 2031-")
    assert replaced_ledgers([]) == ()


LIES: list[Callable[[list], object]] = [
    lambda one: [["stranger", *one[1:]]],
    lambda one: [[one[0], "\x1b[2J", one[2]]],
    lambda one: [[one[0], one[1], "mark"]],
    lambda one: [one[:2]],
    lambda one: [[one[0], 3, one[2]]],
    lambda one: [[[one[0]], *one[1:]]],
    lambda one: [one] * 1001,
    lambda _: 3,
    lambda _: None,
]


@pytest.mark.parametrize("lie", LIES)
def test_what_a_party_says_of_replaced_ledgers_is_read_or_refused(lie):
    def read(said):
        found = read_as(Stood, pack({"code": OK, "heads": {}, "replaced": said}))
        return read_replaced(found.replaced, ["party0"])

    one = ["party0", "2031-01-01T00:00:00+00:00", "0" * 16]
    assert read([one]) == (Replaced(*one),)
    with pytest.raises((ValueError, co.WireError)):
        read(lie(one))


@contextlib.contextmanager
def not_a_record() -> Iterator[None]:
    try:
        yield
    except co.InvalidInput as error:
        if not re.search(r"is no record of a replaced ledger: .*\. Ask its owner for it again", str(error)):
            raise


def test_a_file_that_is_no_record_is_told(made, tmp_path):
    path = tmp_path / "record"
    made.sign("party0", 0.5).save(path)
    assert Record.load(path) == made.sign("party0", 0.5)
    good = json.loads(path.read_text())
    bad = [{**good, name: value} for name in good for value in (None, [1], {"a": 1}, -1, True, "\x1b")]
    bad += [{k: v for k, v in good.items() if k != name} for name in good if name not in ("certificate", "signature")]
    bad += [{**good, "more": 1}, {**good, "rho": math.nan}, {**good, "count": 2**60}, [], 3]
    texts = [json.dumps(one) for one in bad] + ["", "[" * 10**5, "{"]
    for text in texts:
        path.write_text(text)
        with not_a_record():
            found = vars(Record.load(path))
            changed = {name for name in found if found[name] != good[name] or type(found[name]) is not type(good[name])}
            assert changed
            assert changed <= {
                "node",
                "federation",
                "certificate",
                "signature",
            }  # texts that a check of the signature tells


def test_the_exact_run_of_a_replaced_ledger_says_so_too(tmp_path):
    with straw_hub(STAR, tmp_path) as straw:
        run_of(straw, STAR, tmp_path / COORDINATOR, "first")
        made = Federation(straw, tmp_path)
        made.lose("party1")
        made.all_take(made.sign("party1"))
        sentence = run_of(straw, STAR, tmp_path / COORDINATOR, "second").privacy.sentence
        assert sentence.startswith("Not private")
        assert "that of party1 on" in sentence


def test_the_commands_between_organisations_begin_sign_and_take(tmp_path):
    parties = write_example(tmp_path / "example", 40, "localhost:1")
    homes = {name: tmp_path / "example" / name for name in (COORDINATOR, *parties)}
    lost, *others = parties

    def told(node: str, *words: object) -> str:
        file = homes[node] / ("federation.toml" if node == COORDINATOR else "party.toml")
        own = ["--store", homes[node] / "hub-store", "--certs", homes[node] / "certs"] if node == COORDINATOR else []
        said = CliRunner().invoke(app, ["runs", "replaced", *map(str, (file, *words, *own))])
        assert said.exit_code == (1 if "error" in said.output else 0)
        return said.output

    for node, spent in ((lost, ["--rho", "0.05", "--delta", "5e-8"]), (COORDINATOR, [])):
        record = tmp_path / f"{node}.replaced"
        said = told(node, "--sign", record, *spent)
        assert f"{node} has a new ledger since" in said
        assert ("begins with rho = 0.05 and delta = 5e-08; send" in said) == bool(spent)
        for other in {COORDINATOR, *parties} - {node}:
            assert f"{other} takes the new ledger of {node}" in told(other, "--accept", record)
        assert "is the record of" in told(node, "--accept", record)
    store = homes[lost] / "store"
    shown = CliRunner().invoke(app, ["budget", "show", str(store), "--json"])
    assert json.loads(shown.output)[0]["rho_spent"] == 0.05
    assert json.loads(shown.output)[0]["delta_taken"] == 5e-8
    for other in others:
        with ledger_of(homes[other] / "store", other) as ledger:
            assert {one.node for one in ledger.replaced()} == {lost, COORDINATOR}
