"""A review without its page: what marks do to the fit, the order, the table and the log."""

import csv
import time

import numpy as np
import pytest

from gemmed import GEMMEDClassifier
from gemmed._core.exceptions import ReviewError, TableError
from gemmed.estimators.table_columns import training_data
from gemmed.review.corrected import export
from gemmed.review.marks import MarkStore, attach
from gemmed.review.session import ReviewSession
from gemmed.review.subjects import table_subject
from gemmed.rows.tables import read_table
from reviewed import write_patients


def open_session(path, *, match=False, fit=True):
    table = read_table(path, encoding="latin-1")
    store = MarkStore(f"{path}.review.sqlite")
    try:
        said = attach(store, table, path, "diagnosis", match=match)
    except ReviewError:
        store.close()
        raise
    subject = table_subject(
        table,
        training_data(table, "diagnosis", drop=("patient",)),
        GEMMEDClassifier(base=None, random_state=0),
        target="diagnosis",
        identifiers=("patient",),
    )
    session = ReviewSession(subject, store, path, "ann")
    if fit:
        session.fit()
    return session, said


@pytest.fixture
def session(tmp_path):
    session, _ = open_session(write_patients(tmp_path / "t.csv"))
    yield session
    session.store.close()


def test_the_order_goes_on_behind_marks(session):
    first = session.next_row("joint", None)
    assert first == session.queue("joint", 0, 1)["items"][0]["row"]
    session.mark(first, "right", None, "ann")
    second = session.next_row("joint", first)
    assert second == session.queue("joint", 1, 1)["items"][0]["row"]
    assert session.queue("joint", 0, 1)["items"][0]["mark"] == "right"
    assert session.next_row("label", None) is not None


def test_every_row_can_be_marked_and_then_there_is_none_left(session):
    for row in range(1, 121):
        session.mark(row, "unsure", None, "ann")
    assert session.next_row("joint", 5) is None
    assert session.state()["marked"] == 120


def test_marks_become_certainties(session):
    session.mark(1, "right", None, "ann")
    session.mark(2, "wrong", "kränk" if session.sample(2)["given"] == "gesund" else "gesund", "ann")
    session.mark(21, "bad", None, "ann")
    session.fit()
    findings = session.fitted.findings
    assert findings.states[:, 0][0] == findings.states[:, 0][1] == 1.0
    assert findings.audited.labels[1] != session.subject.labels[1]
    assert not findings.fitted[20] and 20 not in session.fitted.orders["joint"]
    assert session.fitted.number == 2
    assert session.sample(21)["scores"]["joint"] is None


def test_refit_beside_the_review(session):
    session.mark(1, "right", None, "ann")
    assert session.refit()
    while session.progress()["running"]:
        session.mark(3, "unsure", None, "ann")
        time.sleep(0.02)
    assert session.progress()["error"] is None
    assert session.fitted.number == 2 and session.fitted.findings.states[:, 0][0] == 1.0


def test_a_refit_that_fails_leaves_the_last_fit(session):
    labels = session.subject.labels
    for row in np.flatnonzero(labels == labels[0]):
        session.mark(int(row) + 1, "bad", None, "ann")
    assert session.refit()
    while session.progress()["running"]:
        time.sleep(0.02)
    assert "fewer than two classes are left" in session.progress()["error"]
    assert session.fitted.number == 1


@pytest.mark.parametrize(
    ("row", "kind", "label", "reviewer", "words"),
    [
        (1, "nice", None, "ann", "mark='nice' is unknown: use right"),
        (1, "wrong", None, "ann", "label=None is not a class of the table"),
        (1, "wrong", "dead", "ann", "label='dead' is not a class of the table"),
        (1, "wrong", "own", "ann", "has the label 'own' already: mark it right"),
        (1, "right", "gesund", "ann", "mark='right' takes no label"),
        (1, "right", None, "  ", "reviewer='  ' must be a name"),
        (1, "right", None, "x" * 81, "must be a name of 1 to 80"),
    ],
)
def test_marks_that_make_no_sense(session, row, kind, label, reviewer, words):
    if label == "own":
        label = str(session.subject.labels[0])
        words = words.replace("own", label)
    with pytest.raises(ReviewError, match=words):
        session.mark(row, kind, label, reviewer)
    assert session.store.standing() == []


def test_rows_that_do_not_exist(session):
    for row in (0, -1, 121):
        with pytest.raises(LookupError, match=f"row {row} is not under review"):
            session.mark(row, "right", None, "ann")


# -- the corrected table ------------------------------------------------------------------------


def test_the_table_as_it_was_with_corrected_labels(session, tmp_path):
    before = session.path.read_bytes().split(b"\r\n")
    given = session.sample(1)["given"]
    other = "gesund" if given == "kränk" else "kränk"
    session.mark(1, "wrong", other, "ann")
    session.mark(2, "right", None, "ann")
    session.mark(21, "bad", None, "bob")
    session.mark(3, "unsure", None, "bob")
    done = export(session.subject.table, "diagnosis", session.store, tmp_path / "c.csv")
    after = (tmp_path / "c.csv").read_bytes().split(b"\r\n")
    expected = list(before)
    expected[1] = before[1].replace(given.encode("latin-1"), other.encode("latin-1"))
    del expected[21]
    assert after == expected
    assert (done.corrected, done.bad, done.disputed) == (1, 1, 0)
    with open(done.log, newline="", encoding="utf-8") as file:
        log = list(csv.DictReader(file))
    assert [(e["row"], e["change"], e["given"], e["new"], e["reviewer"]) for e in log[:1]] == [
        ("1", "label", given, other, "ann")
    ]
    assert {e["row"]: e["change"] for e in log} == {
        "1": "label",
        "2": "none: right",
        "21": "left out",
        "3": "none: unsure",
    }


def test_bad_rows_flagged_or_kept(session, tmp_path):
    session.mark(21, "bad", None, "ann")
    export(session.subject.table, "diagnosis", session.store, tmp_path / "f.csv", bad="flag")
    flagged = read_table(tmp_path / "f.csv", encoding="latin-1")
    assert flagged.columns[-1] == "review" and len(flagged) == 120
    assert [i for i, cell in enumerate(flagged.frame["review"]) if cell] == [20]
    export(session.subject.table, "diagnosis", session.store, tmp_path / "k.csv", bad="keep")
    assert (tmp_path / "k.csv").read_bytes() == session.path.read_bytes()


def test_disputed_rows_are_in_the_log(session, tmp_path):
    given = session.sample(1)["given"]
    other = "gesund" if given == "kränk" else "kränk"
    session.mark(1, "wrong", other, "ann")
    session.mark(1, "right", None, "bob")
    done = export(session.subject.table, "diagnosis", session.store, tmp_path / "c.csv")
    assert done.disputed == 1 and done.corrected == 0
    log = (tmp_path / "c.csv.changes.csv").read_text(encoding="utf-8").splitlines()
    assert "another mark counts" in log[1] and log[1].count("yes") == 1


# -- resuming, and a table that changed -----------------------------------------------------------


def test_the_next_start_goes_on(session):
    first = session.next_row("joint", None)
    session.mark(first, "right", None, "ann")
    session.store.close()
    again, said = open_session(session.path)
    assert said == "" and again.state()["marked"] == 1
    assert again.fitted.findings.states[:, 0][first - 1] == 1.0
    assert again.next_row("joint", None) != first
    session.store = again.store


def test_a_changed_table_is_noticed_and_marks_can_follow(session):
    session.mark(2, "right", None, "ann")
    session.mark(5, "bad", None, "ann")
    session.store.close()
    lines = session.path.read_bytes().split(b"\r\n")
    new = [lines[0], b"X;1,0;2,0;south;gesund", *lines[1:5], *lines[6:]]
    session.path.write_bytes(b"\r\n".join(new))
    with pytest.raises(ReviewError, match=r"has changed since it was reviewed.*1 of 2 marks fit"):
        open_session(session.path, fit=False)
    again, said = open_session(session.path, match=True, fit=False)
    assert said == "the table has changed: 1 marks follow their rows, 1 are set aside"
    assert [(mark.row, mark.kind) for mark in again.store.standing()] == [(2, "right")]
    session.store = again.store


def test_a_table_that_changes_during_the_review(session, tmp_path):
    assert not session.state()["changed"]
    session.path.write_bytes(session.path.read_bytes() + b"X;1,0;2,0;south;gesund\r\n")
    assert session.state()["changed"]
    with pytest.raises(TableError, match="has changed since it was read"):
        export(session.subject.table, "diagnosis", session.store, tmp_path / "c.csv")
    assert not (tmp_path / "c.csv").exists()


def test_marks_belong_to_a_label_column(session):
    session.store.close()
    store = MarkStore(f"{session.path}.review.sqlite")
    table = read_table(session.path, encoding="latin-1")
    with pytest.raises(ReviewError, match="are about column 'diagnosis', not 'ward'"):
        attach(store, table, session.path, "ward", match=False)
    session.store = store


def test_a_mark_about_a_label_does_not_survive_another_label(tmp_path):
    path = write_patients(tmp_path / "t.csv")
    session, _ = open_session(path, fit=False)
    session.mark(1, "right", None, "ann")
    session.mark(2, "right", None, "ann")
    session.mark(21, "bad", None, "ann")
    session.store.close()
    lines = path.read_bytes().split(b"\r\n")
    for number in (1, 21):
        cells, _, label = lines[number].rpartition(b";")
        lines[number] = cells + (b";gesund" if label != b"gesund" else ";kränk".encode("latin-1"))
    path.write_bytes(b"\r\n".join(lines))
    session, said = open_session(path, match=True, fit=False)
    assert "2 marks follow their rows, 1 are set aside" in said
    assert [mark.row for mark in session.store.standing()] == [1, 20]
    session.store.close()
