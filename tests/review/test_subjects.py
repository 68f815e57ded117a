"""How marks reach the next fit: given and true labels, and what the page says of the rest."""

import numpy as np
import pytest

from gemmed import GEMMEDClassifier
from gemmed._core.exceptions import ReviewError
from gemmed.estimators.explanation import Verdicts
from gemmed.estimators.table_columns import training_data
from gemmed.report.audited import Settled
from gemmed.report.findings import Findings
from gemmed.review.subjects import Known, apply_marks, table_subject
from gemmed.rows.tables import read_table

MODEL = GEMMEDClassifier(random_state=0)
LABELS = np.array(["a", "b", "a", "b", "a", "b"])


def marked(certain, bad=(), labels=LABELS, **options):
    return apply_marks(labels, labels.astype(str), Known(certain, frozenset(bad)), options)


def test_given_labels_stay_and_true_ones_go_beside_them():
    found = marked({0: "b", 1: "b"}, bad={5})
    assert found.corrected.tolist() == ["b", "b", "a", "b", "a", "b"]
    assert found.labels.tolist() == LABELS.tolist()
    assert found.options["known_labels"].tolist() == ["b", "b", None, None, None, None]
    assert found.options["prior_nominal"].tolist() == [0.5, 0.5, 0.95, 0.95, 0.95, 0.0]
    assert found.kept.tolist() == [0, 1, 2, 3, 4, 5]  # how many are bad is learned from
    assert found.settled.rows.tolist() == [0, 1] and found.settled.bad.tolist() == [5]


def test_what_is_settled_is_not_estimated_any_more():
    states = np.array([[0, 1, 0], [1, 0, 0], [0.5, 0.4, 0.1], [0, 0.2, 0.8]], dtype=float)
    found = Verdicts(states[:, 0], *4 * [np.empty(0)], crowding=np.empty(0))._replace(states=states)
    settled = Settled(np.array([0, 1]), np.array([4]), np.array([3.0, 1.0, 2.0, 9.0, 2.0]))
    left, counted = settled.shares(found, np.array([0, 1, 2, 4]))
    assert left == pytest.approx(6 / 8)
    assert counted == pytest.approx({"joint": 5 / 8, "label": 3.4 / 8, "measurement": 1.6 / 8})


def test_without_marks_nothing_changes():
    found = marked({})
    assert found.options == {} and not found.settled
    assert found.labels.tolist() == found.corrected.tolist() == LABELS.tolist()


def test_marks_count_more_than_columns():
    prior = np.array([1.0, 0.0, 1.0, 0.3, 0.95, 0.95])
    column = np.array([None, "a", None, None, "b", None], dtype=object)
    found = marked({0: "b", 1: "b"}, prior_nominal=prior, known_labels=column)
    assert found.options["known_labels"].tolist() == ["b", "b", None, None, "b", None]
    assert found.options["prior_nominal"].tolist() == [0.5, 0.5, 1.0, 0.3, 0.5, 0.95]
    assert column[1] == "a" and prior[0] == 1.0  # the table's are not changed
    assert found.settled.rows.tolist() == [0, 1, 4]
    found = marked({}, {1}, known_labels=column)  # of a bad measurement no label is known
    assert found.options["known_labels"].tolist() == [None, None, None, None, "b", None]


def test_classes_that_are_mistakes():
    """A class of which no row is left cannot be learned: its rows have the label they should."""
    labels = np.array(["a", "b", "a", "b", "A ", "c"])
    found = marked({4: "a", 5: "b"}, labels=labels)
    assert found.labels.tolist() == ["a", "b", "a", "b", "a", "b"]
    found = marked({0: "c"}, {5}, labels=labels)  # the only other row of c is bad
    assert found.labels.tolist() == ["c", "b", "a", "b", "A ", "c"]
    found = marked({}, {5}, labels=labels)
    assert found.kept.tolist() == [0, 1, 2, 3, 4]  # nothing could be learned of c
    # c comes and goes at once
    found = marked({5: "A ", 0: "c"}, {4}, labels=labels)
    good = np.setdiff1d(np.arange(6), found.settled.bad)
    assert set(found.labels[good]) == set(found.corrected[good])
    with pytest.raises(ReviewError, match="which no row of the table has"):
        marked({0: "z"})
    with pytest.raises(ReviewError, match="fewer than two classes"):
        marked({}, bad={1, 3, 5})


@pytest.fixture(scope="module")
def flipped(tmp_path_factory):
    """A table of two classes with 20 % wrong labels and 5 % bad rows, and what is true of it."""
    rng = np.random.default_rng(1)
    truth = np.where(rng.random(300) < 0.5, "up", "down")
    x = rng.normal(size=(300, 3)) + 1.6 * (truth == "up")[:, None]
    wrong = rng.random(300) < 0.2
    bad = (rng.random(300) < 0.05) & ~wrong
    x[bad] += 12.0 * rng.normal(size=(bad.sum(), 3))
    given = np.where(wrong, np.where(truth == "up", "down", "up"), truth)
    path = tmp_path_factory.mktemp("review") / "t.csv"
    lines = [f"{a:.3f},{b:.3f},{c:.3f},{label}" for (a, b, c), label in zip(x, given, strict=True)]
    path.write_text("a,b,c,way\n" + "\n".join(lines) + "\n")
    return path, truth, wrong, bad


def test_the_page_shows_rows_as_corrected(flipped):
    path, truth, wrong, bad = flipped
    table = read_table(path)
    subject = table_subject(table, training_data(table, "way"), MODEL, target="way")
    first = Findings(subject.fit(Known({}, frozenset())))
    checked = first.order()[:30]
    seen, out = checked[~bad[checked]], checked[bad[checked]]
    assert len(out)
    known = Known({int(row): str(truth[row]) for row in seen}, frozenset(map(int, out)))
    found = Findings(subject.fit(known))
    assert not found.fitted[out].any() and np.isnan(found.states[out, 0]).all()
    assert set(found.verdicts[out]) == {"left out"} and not found.trusted[out].any()
    assert len(found.order()) == 300 - len(out)
    np.testing.assert_array_equal(found.states[seen, 0], 1.0)
    np.testing.assert_array_equal(found.scores["label"][seen], 0.0)
    np.testing.assert_array_equal(found.verdicts[seen], "ok")
    np.testing.assert_array_equal(found.audited.labels[seen], truth[seen])
    assert set(found.order()[-len(seen) :]) == set(seen)
    assert not set(found.flagged()) & set(seen)
    assert found.verdict_of(int(seen[0])).suggested is None
    assert found.trusted[seen].all()
    rest = np.setdiff1d(np.arange(300), checked)
    for name, fault in (("label", wrong), ("measurement", bad), ("joint", wrong | bad)):
        left, share = fault[rest].sum() / (300 - len(out)), found.shares[name]
        assert share.low - 0.02 <= left <= share.high and abs(share.mean - left) < 0.05
    assert "rows were checked by a person" in found.sentence()
    assert "no row has been checked" in first.sentence()
