"""Marks: on disk before they are confirmed, never lost, by several people."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from gemmed._core.exceptions import ReviewError
from gemmed.review.marks import MarkStore, judgements


def add(store, row, kind="right", label=None, reviewer="ann"):
    return store.add(row, kind, label, reviewer, content=f"c{row}", given="a")


@pytest.fixture
def store(tmp_path):
    store = MarkStore(tmp_path / "t.csv.review.sqlite")
    yield store
    store.close()


def test_who_said_what_and_when(store):
    add(store, 4, "wrong", "b")
    (mark,) = store.standing()
    assert mark[1:7] == (4, "c4", "a", "wrong", "b", "ann")
    assert mark.at.endswith("+00:00") and "T" in mark.at


def test_undo_takes_back_the_last_mark_of_that_reviewer_and_keeps_the_log(store):
    add(store, 1)
    add(store, 2, reviewer="bob")
    assert store.undo("ann").row == 1
    assert store.undo("ann") is None
    assert [mark.row for mark in store.standing()] == [2]
    rows = sqlite3.connect(store.path).execute("SELECT row, undone_at FROM marks").fetchall()
    assert rows[0][0] == 1 and rows[0][1] is not None


def test_the_latest_mark_counts_and_dissent_is_known(store):
    add(store, 1, "right")
    add(store, 1, "wrong", "b", reviewer="bob")
    add(store, 2, "bad")
    add(store, 2, "unsure", reviewer="bob")
    add(store, 3, "unsure")
    add(store, 3, "right", reviewer="bob")
    add(store, 5, "right")
    add(store, 5, "bad")
    found = judgements(store.standing())
    assert (found[1].mark.kind, found[1].disputed) == ("wrong", True)
    assert (found[2].mark.kind, found[2].disputed) == ("bad", False)
    assert (found[3].mark.kind, found[3].disputed) == ("right", False)
    assert (found[5].mark.kind, found[5].disputed) == ("bad", False)


def test_a_commit_is_on_disk(store):
    assert store._database.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert store._database.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL


def test_kill_9_loses_no_confirmed_mark(tmp_path):
    """A process that confirms marks is killed in the middle; what it confirmed is there."""
    path = tmp_path / "m.sqlite"
    code = (
        "import sys\nfrom gemmed.review.marks import MarkStore\n"
        f"store = MarkStore({str(path)!r})\n"
        "for row in range(10**6):\n"
        "    store.add(row, 'right', None, 'ann', content='c', given='a')\n"
        "    print(row, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    for _ in range(25):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    confirmed = 25 + len([line for line in process.stdout.read().splitlines() if line.isdigit()])
    process.wait()
    process.stdout.close()
    store = MarkStore(path)
    rows = [mark.row for mark in store.standing()]
    store.close()
    assert rows == list(range(len(rows))) and len(rows) >= confirmed - 1


def test_a_full_disk_is_reported_and_loses_nothing(store):
    add(store, 0)
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(ReviewError, match="the mark is not stored: database or disk is full"):
        [add(store, row) for row in range(1, 10_000)]
    kept = [mark.row for mark in store.standing()]
    assert kept == list(range(len(kept)))
    store._database.execute("PRAGMA max_page_count = 1000000")
    add(store, len(kept))
    assert len(store.standing()) == len(kept) + 1


def test_threads_and_processes_share_the_file(store):
    other = MarkStore(store.path)

    def work(mine, start):
        for row in range(start, start + 30):
            add(mine, row)

    threads = [
        threading.Thread(target=work, args=(mine, start))
        for mine, start in ((store, 0), (store, 100), (other, 200), (other, 300))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert len(store.standing()) == 120


@pytest.mark.parametrize("content", [b"not a database, and longer than its header would be" * 9])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "x.sqlite"
    path.write_bytes(content)
    with pytest.raises(ReviewError, match="--marks"):
        MarkStore(path)
    assert path.read_bytes() == content


def test_databases_of_others_are_refused(tmp_path):
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    with pytest.raises(ReviewError, match="is not a file of marks of this version"):
        MarkStore(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ReviewError, match="name another file with --marks"):
        MarkStore(tmp_path / "x.sqlite")
    tmp_path.chmod(0o700)


def test_a_missing_folder(tmp_path):
    with pytest.raises(ReviewError, match="name another file with --marks"):
        MarkStore(tmp_path / "no" / "x.sqlite")


def test_an_empty_database_becomes_a_file_of_marks(tmp_path):
    """All a process leaves that ends before the schema is written, which is one transaction."""
    path = tmp_path / "t.sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
    store = MarkStore(path)
    assert add(store, 1) == 1
    store.close()


@pytest.mark.parametrize("version", [0, 1, 3])
def test_files_of_other_versions_are_refused(tmp_path, version):
    path = tmp_path / "t.sqlite"
    MarkStore(path).close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {version}")
    database.close()
    with pytest.raises(ReviewError, match="is not a file of marks of this version"):
        MarkStore(path)


def test_a_damaged_mark_is_refused_with_a_sentence(tmp_path):
    path = tmp_path / "t.sqlite"
    database = sqlite3.connect(path)
    columns = "id, row, content, given, kind, label, reviewer, at, undone_at, how, draws"
    database.execute(f"CREATE TABLE marks ({columns}, confidence)")
    database.execute("CREATE TABLE meta (key, value)")
    values = "1, 2, NULL, 'a', 'right', NULL, 'ann', '', NULL, 'pick', NULL, NULL"
    database.execute(f"INSERT INTO marks VALUES ({values})")
    database.execute("PRAGMA user_version = 2")
    database.commit()
    database.close()
    with pytest.raises(ReviewError, match="mark 1 is damaged"):
        MarkStore(path)
