"""Claims about the store: a chain that shows every change, payloads that fail closed, disks that say no."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import colonnade as co
from colonnade.privacy.store import LARGE, FileLog, MemoryLog, chain, write_synced
from colonnade.runtime.run_store import RunStore, file_name, node_name
from tests.helpers.contract import METHODS, federation

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

CASE = next(iter(METHODS.values()))


@pytest.fixture
def log(tmp_path):
    made = FileLog(tmp_path / "a.db")
    for i in range(5):
        made.append("run", i, "kind", "key", f"body {i}".encode())
    yield made
    made.close()


def edit(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


def test_an_untouched_chain_verifies(log):
    assert log.verify() == 5


@pytest.mark.parametrize(
    "statements",
    [
        ["update log set body = x'0062' where seq = 3"],
        ["update log set run = 'other' where seq = 3"],
        ["update log set tick = 9 where seq = 3"],
        ["update log set kind = 'other' where seq = 3"],
        ["update log set key = 'other' where seq = 3"],
        ["update log set head = zeroblob(32) where seq = 3"],
        ["delete from log where seq = 3"],
        ["delete from log where seq = 1"],
        [
            "update log set seq = 10 where seq = 2",
            "update log set seq = 2 where seq = 3",
            "update log set seq = 3 where seq = 10",
        ],
        ["delete from log where seq = 3", "update log set seq = seq - 1 where seq > 3"],
        ["update log set seq = seq + 10"],  # every row and every head as it was: rows before them may have been cut off
        ["insert into log values (6, 'run', 6, 'kind', 'key', x'00', zeroblob(32))"],
    ],
    ids=lambda s: "; ".join(s),
)
def test_every_change_of_a_row_is_noticed(log, statements):
    edit(log.path, *statements)
    with pytest.raises(co.LedgerDamaged, match=r"Restore the newest copy"):
        log.verify()


@pytest.mark.parametrize(("synced", "level"), [(True, 2), (False, 0)])
def test_records_are_synced_unless_they_need_not_outlive_the_machine(tmp_path, power_cuts, synced, level):
    """SQLite's own word on it: 2 is a sync at every commit, 0 is none."""
    made = FileLog(tmp_path / "b.db", **({} if synced else {"synced": False}))
    assert made._db.execute("pragma synchronous").fetchone() == (level,)
    made.close()


def test_a_row_is_recorded_once(log):
    with pytest.raises(co.LedgerDamaged, match=r"recorded already"):
        log.append("run", 3, "kind", "key", b"again")
    assert log.verify() == 5


def test_a_transaction_that_fails_leaves_nothing(log):
    def half():
        with log.atomic():
            log.append("run", 9, "kind", "key", b"")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert 5 == log.verify() == len(log.rows())


def test_inner_transactions_are_part_of_the_outer_one(log):
    with log.atomic(), log.atomic():
        log.append("run", 9, "kind", "key", b"")
    assert log.verify() == 6


def test_two_writers_of_one_file_continue_one_chain(log):
    other = FileLog(log.path)
    for i in range(3):
        other.append("other", i, "kind", "key", b"")
        log.append("run", 10 + i, "kind", "key", b"")
    assert 11 == other.verify() == log.verify()
    other.close()


def test_rows_are_found_by_run_and_kind(log):
    log.append("other", 0, "special", "key", b"x")
    for store in (log, filled_memory()):
        assert [row.kind for row in store.rows("other")] == ["special"]
        assert [row.body for row in store.rows(kind="special")] == [b"x"]
        assert len(store.rows()) == 6


def filled_memory() -> MemoryLog:
    made = MemoryLog()
    for i in range(5):
        made.append("run", i, "kind", "key", b"")
    made.append("other", 0, "special", "key", b"x")
    return made


# ---------------------------------------------------------------- large payloads


@pytest.fixture
def large(log):
    log.append("run", 9, "large", "key", bytes(LARGE))
    (blob,) = (log.path.parent / "blobs").iterdir()
    return log, blob


def test_a_large_payload_is_a_file_named_by_its_hash(large):
    import hashlib

    log, blob = large
    assert blob.name == hashlib.sha256(bytes(LARGE)).hexdigest()
    assert [bytes(LARGE)] == [row.body for row in log.rows(kind="large")]
    assert log.path.stat().st_size < LARGE


def test_a_payload_just_below_the_limit_stays_in_the_database(log):
    log.append("run", 9, "large", "key", bytes(LARGE - 1))
    assert not (log.path.parent / "blobs").exists()


def test_a_missing_payload_fails_closed(large):
    log, blob = large
    blob.unlink()
    with pytest.raises(co.LedgerDamaged, match=r"Put the file back"):
        log.rows(kind="large")


@pytest.mark.parametrize(
    "content", [b"", bytes(LARGE - 1), b"\x01" + bytes(LARGE - 1)], ids=["empty", "short", "edited"]
)
def test_a_changed_payload_fails_closed(large, content):
    log, blob = large
    blob.write_bytes(content)
    with pytest.raises(co.LedgerDamaged, match=r"not what was recorded"):
        log.rows(kind="large")


# ---------------------------------------------------------------- files that are no logs


@pytest.mark.parametrize("content", [b"this is no database" * 100, os.urandom(8192)], ids=["text", "noise"])
def test_a_garbage_file_is_damage_with_advice(tmp_path, content):
    (tmp_path / "a.db").write_bytes(content)
    with pytest.raises(co.LedgerDamaged, match=r"damaged.*Nothing will be released.*restore the newest copy"):
        FileLog(tmp_path / "a.db")


@pytest.mark.parametrize("node", ["party1", "coordinator"])
def test_a_fit_refuses_a_garbage_ledger_before_anything_is_sent(tmp_path, node):
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / f"{node}.db").write_bytes(b"garbage" * 1000)
    tap = co.Tap(co.InProcess())
    with pytest.raises(co.LedgerDamaged, match=r"restore"):
        co.fit(federation(CASE), CASE.problem, method=CASE.method, engine=tap, store=tmp_path)
    assert tap.letters == []


@pytest.mark.parametrize("node", ["party1", "coordinator", "labels"])
def test_a_fit_refuses_an_edited_ledger_before_anything_is_sent(tmp_path, node):
    fit = lambda engine: co.fit(federation(CASE), CASE.problem, method=CASE.method, engine=engine, store=tmp_path)  # noqa: E731
    fit(co.InProcess())
    edit(tmp_path / "nodes" / f"{node}.db", "update log set body = x'0062' where seq = 2")
    tap = co.Tap(co.InProcess())
    with pytest.raises(co.LedgerDamaged):
        fit(tap)
    assert tap.letters == []


@pytest.mark.parametrize("node", ["party1", "labels"])
def test_a_fit_refuses_a_ledger_put_back_from_an_old_copy(tmp_path, node):
    fit = lambda: co.fit(federation(CASE), CASE.problem, method=CASE.method, store=tmp_path)  # noqa: E731
    fit()
    path = tmp_path / "nodes" / f"{node}.db"
    old = path.read_bytes()
    fit()
    path.write_bytes(old)
    with pytest.raises(co.LedgerDamaged, match=r"rolled back"):
        fit()


def test_a_ledger_of_a_later_format_is_refused(log):
    edit(log.path, "update meta set value = 99 where name = 'format'")
    with pytest.raises(co.LedgerDamaged, match=r"format 99"):
        FileLog(log.path)


@pytest.mark.parametrize("where", ["file/store", "file"])
def test_a_store_where_one_cannot_write_is_a_store_error_with_advice(tmp_path, where):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(co.StoreError, match=r"Name a folder that is writable"):
        RunStore(tmp_path / where)


def test_a_store_in_a_folder_that_takes_no_files_is_a_store_error(tmp_path):
    with pytest.raises(co.StoreError, match=r"cannot use /proc"):
        co.fit(federation(CASE), CASE.problem, method=CASE.method, store="/proc/store")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_store_is_a_store_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(co.StoreError, match=r"writable"):
        RunStore(tmp_path)


# ---------------------------------------------------------------- full disks


def test_a_full_disk_sends_nothing_unrecorded_and_the_same_call_goes_on(tmp_path):
    """The databases may not grow past a number of pages; then they may again."""
    whole = co.fit(federation(CASE), CASE.problem, method=CASE.method, store=tmp_path / "reference")
    sent, largest = [], max(pages_of(path) for path in (tmp_path / "reference" / "nodes").glob("*.db"))
    for pages in (largest // 2, largest * 2 // 3, largest - 2):
        with pytest.raises(co.StoreError, match=r"full.*Nothing was sent that is not recorded.*same call"):
            fit_with_pages(tmp_path / "store", pages, sent)
    assert sent
    recorded = outbox(tmp_path / "store")
    assert {(s, r, n, body) for s, r, n, body in sent} <= recorded
    again = fit_with_pages(tmp_path / "store", 2**30, sent)
    assert {p: x.tobytes() for p, x in whole.coefficients.items()} == {
        p: x.tobytes() for p, x in again.coefficients.items()
    }
    assert whole.communication == again.communication
    assert len({row[0] for row in begun(tmp_path / "store")}) == 1


def pages_of(path: Path) -> int:
    db = sqlite3.connect(path)
    ((count,),) = db.execute("pragma page_count")
    db.close()
    return count


def fit_with_pages(store: Path, pages: int, sent: list):
    """A fit whose node databases hold at most so many pages; what it sends is kept."""
    original = FileLog.__init__

    def small(self, path):
        original(self, path)
        if self.path.parent.name == "nodes":
            self._db.execute(f"pragma max_page_count = {pages}")

    def carry(letter):
        sent.append((letter.sender, letter.receiver, letter.sequence, letter.body))
        return (letter,)

    FileLog.__init__ = small
    try:
        return co.fit(
            federation(CASE),
            CASE.problem,
            method=CASE.method,
            store=store,
            engine=co.Faults(co.InProcess(), carry),
        )
    finally:
        FileLog.__init__ = original


def outbox(store: Path) -> set:
    """Every message that is recorded as sent: sender, receiver, its place on the edge, its bytes."""
    found = set()
    for path in (store / "nodes").glob("*.db"):
        log, places = FileLog(path), {}
        for row in log.rows(kind="out"):
            found.add((path.stem, row.key, places.setdefault(row.key, 0), row.body))
            places[row.key] += 1
        log.close()
    return found


def begun(store: Path) -> list:
    log = FileLog(store / "runs.db")
    rows = [(row.run, row.kind) for row in log.rows(kind="begin")]
    log.close()
    return rows


LIMITED = """
import os, resource, sys
sys.path.insert(0, sys.argv[1])
import colonnade as co
from tests.helpers.contract import METHODS, federation
case = next(iter(METHODS.values()))
co.fit(federation(case), case.problem, method=case.method)
limited = os.fork()
if limited == 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    if limited:
        os.waitpid(limited, 0)
    fit = co.fit(federation(case), case.problem, method=case.method, store=sys.argv[2])
except co.StoreError as error:
    sys.exit(f"StoreError: {error}")
sys.stdout.write(fit.coefficients["party0"].tobytes().hex())
"""


def test_a_file_that_may_not_grow_is_a_store_error_and_the_run_goes_on_later(tmp_path):
    """A process that may write no more, forked off before another one goes on with its run."""
    arguments = [sys.executable, "-c", LIMITED, str(Path(__file__).parents[2]), str(tmp_path / "store")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert "StoreError" in done.stderr, done.stderr[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
    reference = co.fit(federation(CASE), CASE.problem, method=CASE.method)
    assert reference.coefficients["party0"].tobytes().hex() == done.stdout
    assert len(begun(tmp_path / "store")) == 1


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("names", [("a b", "a_b", "a_20_b", "ä", "a", "A", "..", "-", "日本")])
def test_no_two_parties_share_a_file(names):
    files = {file_name(name) for name in names}
    assert len(files) == len(names)
    assert [node_name(file_name(name)) for name in names] == list(names)
    assert all("/" not in name and name not in (".", "..") for name in files)


# ---------------------------------------------------------------- what a head stands for


def test_a_head_depends_on_every_field_and_on_where_it_ends():
    """A letter that moves from one field to the next makes another head: every field is framed by its length."""
    rows = [
        ("run", 1, "kind", "key", b"body"),
        ("other", 1, "kind", "key", b"body"),
        ("run", 2, "kind", "key", b"body"),
        ("run", 1, "other", "key", b"body"),
        ("run", 1, "kind", "other", b"body"),
        ("run", 1, "kind", "key", b"other"),
        ("ru", 1, "nkind", "key", b"body"),
        ("run", 1, "kin", "dkey", b"body"),
        ("run", 1, "kindk", "ey", b"body"),
        ("run", 1, "kind", "keyb", b"ody"),
        ("run1", 1, "kind", "key", b"body"),
        ("run", 11, "kind", "key", b"body"),
        ("run", 1, "1kind", "key", b"body"),
    ]
    heads = {chain(head, *row) for row in rows for head in (bytes(32), bytes(31) + b"1")}
    assert len(heads) == 2 * len(rows)


def test_a_head_is_the_hash_of_the_head_before_and_of_lengths_and_fields():
    """Written out once: files of today must be read by every later version."""
    import hashlib

    def framed(part: bytes) -> bytes:
        return len(part).to_bytes(8, "little") + part

    whole = bytes(32) + b"".join(map(framed, (b"run", b"-1", b"open", b"", b"\0body")))
    assert chain(bytes(32), "run", -1, "open", "", b"\0body") == hashlib.sha256(whole).digest()


# ---------------------------------------------------------------- secrets


@pytest.mark.parametrize("kind", [FileLog, MemoryLog])
def test_a_secret_is_one_for_each_run_and_name_and_goes_with_its_run_alone(kind, tmp_path):
    log = kind(tmp_path / "s.db") if kind is FileLog else MemoryLog()
    secrets = {(run, name): log.secret(run, name, 32) for run in ("one", "two") for name in ("a", "b")}
    assert len(set(secrets.values())) == 4
    assert {len(value) for value in secrets.values()} == {32}
    assert all(log.secret(run, name, 32) == value for (run, name), value in secrets.items())
    log.erase("one")
    assert log.unerased() == {"two"}
    assert log.secret("two", "a", 32) == secrets["two", "a"]
    assert log.secret("one", "a", 32) != secrets["one", "a"]
    log.close()


def test_an_erased_secret_is_in_no_file_any_more(tmp_path):
    log = FileLog(tmp_path / "s.db")
    values = [log.secret("run", str(k), 32) for k in range(40)]
    log.erase("run")
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [value for value in values if value in left] == []
    log.close()


def test_a_file_that_two_runs_need_stays_until_both_are_over(tmp_path):
    log = FileLog(tmp_path / "s.db")
    for run in ("one", "two"):
        log.secret(run, "gate: digest key", 32)  # as every run has until it is over
        log.append(run, 0, "large", "key", bytes(LARGE))
    (blob,) = (tmp_path / "blobs").iterdir()
    log.erase("one")
    assert blob.exists()
    assert log.rows("two", "large")[0].body == bytes(LARGE)
    log.erase("two")
    assert not blob.exists()
    assert log.verify() == 2  # the chain keeps its hash
    log.close()


def test_what_a_store_writes_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        log = FileLog(tmp_path / "s.db")
        log.append("one", 0, "large", "key", bytes(LARGE))
        write_synced(tmp_path / "private", b"x", private=True)
        write_synced(tmp_path / "public", b"x")
    finally:
        os.umask(before)
    (blob,) = (tmp_path / "blobs").iterdir()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (log.path, tmp_path / "private", tmp_path / "public")}
    assert modes == {"s.db": 0o600, "private": 0o600, "public": 0o666}
    assert blob.stat().st_mode & 0o777 == 0o600
    log.close()


def test_a_file_is_synced_before_it_has_its_name_and_its_folder_after(tmp_path, monkeypatch):
    """A power cut leaves all of a file or none of it: its content first, then its name, then the folder that lists it."""
    seen, sync, target = [], os.fsync, tmp_path / "made"

    def watched(number):
        seen.append((Path(f"/proc/self/fd/{number}").resolve().is_dir(), target.exists()))
        sync(number)

    monkeypatch.setattr(os, "fsync", watched)
    write_synced(target, b"body")
    assert seen == [(False, False), (True, True)]
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_a_transaction_is_taken_before_anything_is_read(tmp_path):
    """Two processes cannot decide on the same past: while one looks, the other waits."""
    log = FileLog(tmp_path / "s.db")
    other = sqlite3.connect(tmp_path / "s.db", timeout=0.0, isolation_level=None)
    with log.atomic(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("begin immediate")
    other.execute("begin immediate")
    other.execute("rollback")
    other.close()
    log.close()


def test_rows_are_walked_in_the_order_of_their_writing(tmp_path):
    for log in (FileLog(tmp_path / "s.db"), MemoryLog()):
        for k in (3, 1, 2):
            log.append("run", k, "kind", "key", bytes([k]))
            log.append("other", k, "kind", "key", b"")
        assert [(row.seq, row.tick, row.body) for row in log.walk("run")] == [
            (1, 3, b"\3"),
            (3, 1, b"\1"),
            (5, 2, b"\2"),
        ]
        assert [row.tick for row in log.rows("run")] == [3, 1, 2]
        assert (log.length(), log.holds("run", "kind"), log.holds("run", "open"), log.holds("none", "kind")) == (
            6,
            True,
            False,
            False,
        )
        log.close()


def test_a_head_is_that_of_its_row_and_empty_where_there_is_none(log):
    assert [len(log.head_at(k)) for k in (1, 5, 6)] == [32, 32, 0]
    assert len({log.head_at(k) for k in range(1, 6)}) == 5
    head = bytes(32)
    for row in log.rows():
        head = chain(head, row.run, row.tick, row.kind, row.key, b"\0" + row.body)
        assert log.head_at(row.seq) == head
