"""The live view: for looking only, for whoever has the token only, and never a value."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli.live import Reader, Server
from colonnade.privacy.events import Charge, Event, Mechanism
from colonnade.privacy.ledger import Terms
from colonnade.runs.budgets import accounts, open_ledger
from colonnade.runtime.run_store import RunStore
from colonnade.views.officer import IDLE
from tests.helpers.live_view import serving
from tests.helpers.pages import Page, table_of

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 60
METHOD = co.DistributedFrankWolfe(rounds=6, tolerance=0.0)
PROBLEM = co.Problem(co.Logistic(), co.L1Ball(3.0))


def table():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(ROWS, 6))
    return X, np.where(X[:, 0] - X[:, 5] + rng.normal(size=ROWS) > 0.0, 1, -1)


def federation():
    return co.Federation.split(*table(), {"hospital": [0, 1, 2], "lab <b>": [3, 4, 5]})


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One run without privacy and one with, both finished."""
    folder = tmp_path_factory.mktemp("ui") / "runs"
    X, y = table()
    terms = co.Privacy(2.0, 1e-4, trust="secure", row_norm=3.0, feature_bound=1.0)
    private = co.Federation.split(np.clip(X, -1, 1), y, {"hospital": [0, 1, 2], "lab <b>": [3, 4, 5]})
    co.fit(private, co.Problem(co.Logistic(), penalty=co.Ridge(0.1)), None, terms, store=folder)
    co.fit(federation(), PROBLEM, METHOD, store=folder)
    return folder


@pytest.fixture(scope="module")
def server(store):
    with serving(store) as running:
        yield running


@pytest.fixture(scope="module")
def fits(store):
    return {fit.run: fit for fit in map(co.load, (store / "fits").glob("*.json"))}


def request(server, path, *, host=None, origin=None, method="GET"):
    """Status, headers and text of one request, sent as it is written: nothing is made canonical on the way."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host if host is not None else f"127.0.0.1:{server.port}")
    if origin is not None:
        connection.putheader("Origin", origin)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def page(server, rest=""):
    status, _, text = request(server, f"/{server.token}/{rest}")
    assert status == 200
    return Page(text)


def every_page(server, fits):
    return ["", *(f"{kind}/{run}" for kind in ("run", "report", "officer") for run in fits)]


# ---------------------------------------------------------------- who may look


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
@pytest.mark.parametrize(
    "path", ["/", "/wrong/", "/{token}", "/{token}x/", "/{half}/", "/x/{token}/", "/?token={token}"]
)
def test_nothing_is_shown_without_the_whole_token(server, path):
    path = path.format(token=server.token, half=server.token[:-1])
    status, _, text = request(server, path)
    assert status == 404
    assert "hospital" not in text
    assert server.token not in text


@pytest.mark.chance(1e-30, "two tokens of 24 random bytes are the same")
def test_every_server_has_a_token_of_its_own_that_cannot_be_guessed(store):
    with serving(store) as first, serving(store) as second:
        pass
    assert first.token != second.token
    assert len(first.token) >= 32  # 24 random bytes


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1:{port}.evil"]
)
def test_a_name_that_another_site_points_at_this_machine_is_refused(server, host):
    status, _, text = request(server, f"/{server.token}/", host=host.format(port=server.port))
    assert status == 403
    assert "hospital" not in text


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_a_script_of_another_site_is_refused(server, origin):
    status, _, text = request(server, f"/{server.token}/", origin=origin.format(port=server.port))
    assert status == 403
    assert "hospital" not in text


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_its_own_script_and_the_name_localhost_are_let_in(server):
    own = f"http://localhost:{server.port}"
    assert request(server, f"/{server.token}/", host=f"localhost:{server.port}", origin=own)[0] == 200


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_it_listens_on_the_loopback_address_alone(server):
    assert server.http.host == "127.0.0.1"


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_there_is_nothing_but_reading(server, method):
    assert request(server, f"/{server.token}/", method=method)[0] == 501


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
@pytest.mark.parametrize(
    "rest",
    [
        "report/../../runs.db",
        "report/..%2f..%2fruns.db",
        "report/%2e%2e/%2e%2e/nodes/hospital.db",
        "../runs.db",
        "..%2fruns.db",
        "fits/",
        "nodes/hospital.db",
        "style.css/../../../runs.db",
        "run//etc/passwd",
        "report/",
    ],
)
def test_no_address_leads_to_another_file(server, rest):
    assert request(server, f"/{server.token}/{rest}")[0] == 404


def test_a_run_whose_name_somebody_else_chose_leads_to_no_other_file(tmp_path):
    (tmp_path / "outside.json").write_text("{}")
    books = RunStore(tmp_path / "runs")
    books.adopt("../../outside")
    books.close()
    reader = Reader(tmp_path / "runs")
    assert reader.run("../../outside") is not None
    assert reader.fit_file("../../outside") is None
    with serving(tmp_path / "runs") as server:
        assert request(server, f"/{server.token}/report/../../outside")[0] == 404
        assert "outside.json" not in request(server, f"/{server.token}/")[2]


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_answers_are_kept_by_nobody_and_load_nothing_from_elsewhere(server, fits):
    for rest in [*every_page(server, fits), "style.css", "live.js"]:
        _, headers, text = request(server, f"/{server.token}/{rest}")
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "unsafe-inline" not in headers["Content-Security-Policy"] or rest.startswith(("report/", "officer/"))
        assert "script-src 'unsafe" not in headers["Content-Security-Policy"]
        assert "http://" not in text
        assert "https://" not in text
        assert server.token not in text


# ---------------------------------------------------------------- what is shown


@pytest.mark.chance(0, "states, prices, names and counts of the store: no figure of the model is compared")
def test_every_run_is_listed_with_its_state_method_epsilon_and_rounds(server, fits):
    _, *rows = table_of(page(server), "The newest")
    assert {row[0] for row in rows} == set(fits)
    by_method = {row[5]: row for row in rows}
    assert by_method["distributed Frank-Wolfe"][1:5] == [
        "finished",
        "6 of at most 6",
        "no bound",
        "report, officer's page",
    ]
    assert by_method["private Gram"][1] == "finished"
    private = next(fit for fit in fits.values() if fit.method == "private Gram")
    assert float(by_method["private Gram"][3]) == pytest.approx(private.privacy.epsilon, rel=1e-3)


@pytest.mark.chance(0, "states, prices, names and counts of the store: no figure of the model is compared")
def test_budgets_are_those_that_the_ledgers_account_for(server, store):
    found = {party: (line["releases"], line["open runs"]) for party, line in shown_budgets(page(server)).items()}
    expected = {
        one.party: (f"{one.releases:,}" + f", {one.exact:,} exact" * bool(one.exact), f"{one.open_runs:,}")
        for one in accounts(store)
    }
    assert expected == found
    assert {one.party: one.spent for one in accounts(store)} == {
        one.party: one.spent for one in Reader(store).ledgers()
    }


@pytest.mark.chance(0, "states, prices, names and counts of the store: no figure of the model is compared")
def test_names_of_parties_stand_at_the_left_of_their_budgets(server):
    assert '<th scope="row">hospital</th>' in request(server, f"/{server.token}/")[2].partition('id="budgets"')[2]


def shown_budgets(shown):
    """The budgets of a page, by party and name of the column."""
    head, *rows = table_of(shown, "What was spent, and what is left")
    lines = ({n: " ".join(cell.split()) for n, cell in zip(head, row, strict=True) if cell} for row in rows)
    return {line["party"]: line for line in lines}


def printed_budgets(folder):
    """The table of `colonnade budget show`, by party and name of the column, without its bars."""
    text = CliRunner().invoke(app, ["budget", "show", str(folder)]).stdout
    head, *lines = [re.split(r"[┃│]", line)[1:-1] for line in text.splitlines() if line[:1] in "┃│" and line]
    return {
        line[0].strip(): {n.strip(): cell.strip(" █░") for n, cell in zip(head, line, strict=True)} for line in lines
    }


@pytest.mark.chance(0, "states, prices, names and counts of the store: no figure of the model is compared")
def test_live_page_and_officers_page_show_what_budget_show_prints(store, tmp_path):
    limited_run(tmp_path / "runs")
    folder = tmp_path / "runs"
    renewal = ["budget", "renew", str(folder), "a", "--reason", "a new study", "--yes"]
    assert CliRunner().invoke(app, renewal).exit_code == 0
    with open_ledger(folder, "b") as ledger:  # a run that goes on: it has released one of three sums
        (unit,) = ledger.counted_units()
        going, event = "20260101T000000-0123456789ab", Event(Mechanism.GAUSSIAN, 0.004, 1.0)
        ledger.open_run(going, Terms("m", "s", "secure", *unit, "f"), {"b": (Charge(event, 3, "a sum"),)})
        ledger.record(going, 0, 0, event, "a sum", 0)
    for place in (store, folder):
        printed = printed_budgets(place)
        saved = next((place / "fits").glob("*.json"))
        target = tmp_path / "officer.html"
        assert (
            CliRunner().invoke(app, ["report", str(saved), "--officer", "-o", str(target), "--overwrite"]).exit_code
            == 0
        )
        with serving(place) as running:
            shown = [page(running), page(running, f"officer/{saved.stem}"), Page(target.read_text())]
        filled = {p: {n: cell for n, cell in line.items() if cell} for p, line in printed.items()}
        idle = {n for n, none in IDLE.items() if all(line[n] == none for line in printed.values())}
        busy = {p: {n: cell for n, cell in line.items() if n not in idle} for p, line in filled.items()}
        assert [shown_budgets(one) for one in shown] == [filled, busy, busy]
    assert (printed["a"]["spent"], printed["b"]["open runs"]) == ("ε 0", "1")
    assert float(printed["b"]["reserved"].removeprefix("ε ")) > 0.0


def limited_run(folder):
    X, y = table()
    limits = {name: co.Policy(epsilon=4.0, delta=1e-4) for name in ("a", "b", "labels")}
    fed = co.Federation.split(np.clip(X, -1, 1), y, {"a": [0, 1, 2], "b": [3, 4, 5]}).with_policies(limits)
    terms = co.Privacy(2.0, 1e-4, trust="secure", row_norm=3.0, feature_bound=1.0)
    return co.fit(fed, co.Problem(co.Logistic(), penalty=co.Ridge(0.1)), None, terms, store=folder)


@pytest.mark.chance(0, "states, prices, names and counts of the store: no figure of the model is compared")
def test_a_limit_that_an_owner_set_is_shown(tmp_path):
    limited_run(tmp_path)
    (first, *_) = Reader(tmp_path).ledgers()
    assert (first.budget.epsilon, first.delta) == (4.0, 1e-4)
    assert 0.0 < first.spent <= 2.0 + 1e-9


@pytest.mark.chance(0, "states, prices, names and counts of the store: no figure of the model is compared")
def test_messages_agree_with_what_the_fit_counted(store, fits):
    """Kind, size and round of everything that left, read from the first bytes of the rows."""
    fit = next(fit for fit in fits.values() if fit.method == "distributed Frank-Wolfe")
    lines = [line for line in fit.communication.lines if line[0] != "coordinator"]
    expected = sorted((s, r, t, n) for s, r, t, n, count, _ in lines for _ in range(count))
    found = Reader(store).messages(fit.run)
    assert expected == sorted((m.sender, m.receiver, m.kind, m.round) for m in found)
    assert sum(line[5] for line in lines) == sum(m.size for m in found)
    assert [m.round for m in found] == sorted((m.round for m in found), reverse=True)


@pytest.mark.chance(0, "states, prices, names and counts of the store: no figure of the model is compared")
def test_what_left_is_listed_with_its_price(server, store, fits):
    for run in fits:
        _, *rows = table_of(page(server, f"run/{run}"), "What left")
        assert rows
        assert {row[0] for row in rows} <= {"hospital", "lab <b>", "labels"}


@pytest.mark.chance(0, "states, prices, names and counts of the store: no figure of the model is compared")
def test_the_report_of_a_finished_run_is_made_on_demand(server, fits):
    for run, fit in fits.items():
        shown = page(server, f"report/{run}")
        assert fit.privacy.sentence in shown.words
        settings = dict(row for row in table_of(shown, "What was asked") if len(row) == 2)
        assert settings["settings and privacy terms"] != "not kept with this fit"


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_names_are_shown_as_text(server):
    text = request(server, f"/{server.token}/")[2]
    assert "lab &lt;b&gt;" in text
    assert "<b>" not in text


@pytest.mark.chance(0, "states, prices, names and counts of the store: no figure of the model is compared")
def test_no_value_of_the_data_and_no_secret_is_on_any_live_page(server, fits, store):
    X, _ = table()
    values = [repr(value) for value in X.ravel().tolist()] + [f"{value:.7g}" for value in X.ravel().tolist()]
    log = RunStore(store).log("hospital")
    secrets = [bytes(value).hex() for (value,) in log._db.execute("select value from secret")]
    log.close()
    for rest in ["", *(f"run/{run}" for run in fits)]:
        text = request(server, f"/{server.token}/{rest}")[2]
        assert not [value for value in [*values, *secrets] if value in text]


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_of_a_message_only_the_first_bytes_are_read(store):
    """Bodies never come into the process: what SQLite hands over of an `out` row is eight bytes and a length."""
    from colonnade.cli import live

    queries = [live._OUT, live._ROUND]
    for query in queries:
        assert re.findall(r"\bbody\b", re.sub(r"(substr|length)\(body[^)]*\)", "", query)) == []


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_looking_changes_no_file_of_the_store(store, fits):
    def state():
        return {p: p.read_bytes() for p in store.rglob("*") if p.is_file() and p.suffix in (".db", ".json")}

    before = state()
    with serving(store) as server:
        for rest in every_page(server, fits):
            request(server, f"/{server.token}/{rest}")
    assert before == state()


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(co.InvalidInput, match=r"no runs\.db"):
        Server(tmp_path)


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_a_port_that_is_taken_is_named(server, store):
    with pytest.raises(co.InvalidInput, match=rf"port {server.port}.*--port"):
        Server(store, server.port)


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_a_damaged_fit_is_said_to_be_damaged_and_nothing_else_breaks(store, tmp_path):
    copy = Path(shutil.copytree(store, tmp_path / "copy"))
    damaged = next((copy / "fits").glob("*.json"))
    damaged.write_bytes(damaged.read_bytes()[:-40])
    with serving(copy) as server:
        status, _, text = request(server, f"/{server.token}/report/{damaged.stem}")
        assert status == 500
        assert "is damaged" in text
        assert request(server, f"/{server.token}/")[0] == 200


# ---------------------------------------------------------------- while a run goes on

SLOW = """
import sys
sys.path.insert(0, {root!r})
import colonnade as co
from tests.cli.test_ui import PROBLEM, federation
co.fit(federation(), PROBLEM, co.DistributedFrankWolfe(rounds=100000, tolerance=0.0, step=co.OpenLoop()), store={store!r})
"""


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds:g} seconds")


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="who holds a lock is asked of /proc/locks")
def test_a_run_is_watched_while_another_process_writes_it(tmp_path):
    folder = tmp_path / "runs"
    code = SLOW.format(root=str(Path(__file__).parents[2]), store=str(folder))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until(lambda: (folder / "nodes" / "hospital.db").exists() or process.poll() is not None)
        with serving(folder) as server:

            def look():
                status, _, text = request(server, f"/{server.token}/")
                rows = table_of(Page(text), "The newest")[1:] if status == 200 and "The newest" in text else []
                return [(row[1], int(row[2].split()[0].replace(",", ""))) for row in rows]

            (first,) = until(lambda: [row for row in look() if row[0] == "running" and row[1] > 0])
            (later,) = until(lambda: [row for row in look() if row[1] > first[1]])
            assert later[0] == "running"
            process.kill()
            process.wait()
            (stopped,) = look()
            assert stopped[0].startswith("not ended: interrupted")
    finally:
        process.kill()
        process.communicate()


def test_a_store_that_is_still_empty_is_shown_as_empty(tmp_path):
    RunStore(tmp_path).close()
    with serving(tmp_path) as server:
        text = request(server, f"/{server.token}/")[2]
    assert "No run has begun" in text
    assert "No data holder" in text


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_a_file_that_is_just_being_made_does_not_hide_the_others(store, tmp_path):
    copy = Path(shutil.copytree(store, tmp_path / "copy"))
    (copy / "nodes" / "new.db").touch()
    with serving(copy) as server:
        assert {row[0] for row in table_of(page(server), "What was spent")} == {
            "party",
            "hospital",
            "lab <b>",
            "labels",
        }
        (copy / "nodes" / "new.db").write_bytes(b"no database" * 100)
        status, _, text = request(server, f"/{server.token}/")
    assert status == 500
    assert "restore the newest copy" in text


# ---------------------------------------------------------------- the command

COMMAND = "import typer; from colonnade.cli.ui import ui; typer.run(ui)"


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_the_command_prints_its_address_and_ends_cleanly_on_ctrl_c(store):
    arguments = [sys.executable, "-c", COMMAND, str(store), "--no-browser"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        url = process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([\w-]{32})/", url)
        assert found
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=20)
        connection.request("GET", f"/{found[2]}/")
        assert connection.getresponse().status == 200
        connection.close()
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert out == ""
    assert err.splitlines()[-1] == "stopped"
    assert "Traceback" not in err


@pytest.mark.chance(0, "who is let in, headers, codes and files: nothing that was drawn is compared")
def test_the_token_is_on_no_command_line_of_a_browser(store, monkeypatch):
    """Arguments of a process are seen by every user of the machine; a file of its owner's is not."""
    import webbrowser

    from colonnade.cli import ui as command

    seen = []

    def opened(url):
        path = Path(url.removeprefix("file://"))
        seen.append((url, path.stat().st_mode & 0o777, path.read_text()))

    monkeypatch.setattr(webbrowser, "open", opened)
    monkeypatch.setattr(Server, "serve", lambda self: self.http.close())
    command.ui(store, 0, no_browser=False)
    ((url, mode, text),) = seen
    token = re.search(r"127\.0\.0\.1:\d+/([\w-]+)/", text)[1]
    assert token not in url
    assert mode == 0o600


@pytest.mark.chance(0, "a file and a path; charts of bytes are in every report")
def test_the_report_command_writes_the_report_of_a_saved_fit(store, tmp_path, capsys):
    from colonnade.cli.fit import report

    saved = next((store / "fits").glob("*.json"))
    report(saved, tmp_path / "out.html")
    assert capsys.readouterr().out.strip() == str(tmp_path / "out.html")
    assert json.loads(saved.read_text().splitlines()[0])["format"] == "colonnade fit"
    assert Page((tmp_path / "out.html").read_text(encoding="utf-8")).charts
