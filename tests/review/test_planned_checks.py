"""Random checks inside a review: draws and picks, reviewers, bulk acceptance, the log."""

import csv
import json
import re

import numpy as np
import pytest
from test_review_session import open_session

from gemmed._core.exceptions import ReviewError
from gemmed.checks import plan_checks
from gemmed.review.corrected import export
from gemmed.review.marks import MarkStore, agreements, judgements
from gemmed.review.planned_checks import PlannedChecks, strata_of
from reviewed import write_patients


@pytest.fixture
def session(tmp_path):
    session, _ = open_session(write_patients(tmp_path / "t.csv"))
    yield session
    session.store.close()


def other_label(session, row):
    return "gesund" if session.sample(row)["given"] == "kränk" else "kränk"


def log_of(path):
    with open(f"{path}.changes.csv", newline="", encoding="utf-8") as file:
        return {int(entry["row"]): entry for entry in csv.DictReader(file)}


# -- draws and picks ----------------------------------------------------------------------------


def test_draws_and_picks_are_told_apart(session, tmp_path):
    session.plan_draws(30, seed=4)
    order = session.checks.plan.order + 1
    assert session.next_row("checks", None, "ann") == order[0]
    assert session.sample(int(order[0]))["how"] == "draw"
    session.mark(int(order[0]), "right", None, "ann")
    late = int(order[-1])
    assert session.sample(late)["how"] == "pick"
    session.mark(late, "right", None, "ann")
    found = session.state()["checks"]
    assert (found["answered"], found["picked"]) == (1, 1)
    assert session.next_row("checks", None, "ann") == order[1]
    export(session.subject.table, "diagnosis", session.store, tmp_path / "c.csv")
    log = log_of(tmp_path / "c.csv")
    assert log[int(order[0])]["how"] == "random draw" and log[late]["how"] == "picked"
    summary = json.loads((tmp_path / "c.csv.checks.json").read_text())
    assert summary["checks"]["basis"] == "checked" and summary["checks"]["answered"] == 1


def test_picks_change_no_interval_of_the_draws(session):
    session.plan_draws(60)
    order = session.checks.plan.order + 1
    for row in order[:15]:
        session.mark(int(row), "right", None, "ann")
    before = session.state()["checks"]
    for row in order[-30:]:
        session.mark(int(row), "bad", None, "ann")
    after = session.state()["checks"]
    assert after["picked"] == 30 and after["answered"] == 15
    assert after["shares"] == before["shares"] and after["precision"] == before["precision"]


def test_two_reviewers_at_once_share_the_draws(session):
    session.plan_draws(40)
    order = (session.checks.plan.order + 1).tolist()
    ann, bob = (session.next_row("checks", None, name) for name in ("ann", "bob"))
    assert [ann, bob] == order[:2]
    session.mark(bob, "right", None, "bob")  # before ann is ready: still a draw
    assert session.store.standing()[0].how == "draw"
    assert session.state()["checks"]["answered"] == 0
    assert session.next_row("checks", bob, "bob") == order[2]
    session.mark(ann, "right", None, "ann")
    assert session.state()["checks"]["answered"] == 2
    # Nobody comes back to a row that is held: it is offered again.
    session._held = {name: (row, -1e9) for name, (row, _) in session._held.items()}
    assert session.next_row("checks", None, "cyd") == order[2]


def test_a_goal_mixes_likely_faults_into_the_draws(session):
    session.plan_draws(None, goal=0.05)
    assert session.checks.plan.n == 120
    hows = []
    for _ in range(40):
        row = session.next_row("checks", None, "ann")
        hows.append(session.sample(row)["how"])
        session.mark(row, "wrong", other_label(session, row), "ann") if row <= 8 else session.mark(
            row, "right", None, "ann"
        )
    assert {"draw", "pick"} == set(hows)
    picked = [mark.row for mark in session.store.standing() if mark.how == "pick"]
    assert len(picked) == session.state()["checks"]["picked"]
    assert np.mean([row < 8 for row in picked]) > 0.2


def test_a_plan_belongs_to_its_table_and_seed(session):
    session.plan_draws(20, seed=1)
    with pytest.raises(ReviewError, match="--seed 2: the draws were made with seed 1"):
        session.plan_draws(None, seed=2)
    session.plan_draws(30)
    assert session.checks.plan.n == 30
    session.checks.rows = session.checks.rows[::-1]
    session.checks.save(session.store)
    with pytest.raises(ReviewError, match="for other rows"):
        session.plan_draws(None)
    record = json.loads(session.store.meta()["plan"])
    for change in ({"rows": [1, 2]}, {"rows": [1e999]}, {"goal": float("nan")}, {"strata": ...}):
        damaged = {name: value for name, value in (record | change).items() if value is not ...}
        session.store.set_meta({"plan": json.dumps(damaged)})
        with pytest.raises(ReviewError, match="is damaged"):
            PlannedChecks.stored(session.store)
    session.checks.save(session.store)
    session.store.set_meta({"sha256": "other"})
    with pytest.raises(ReviewError, match="for another table"):
        PlannedChecks.stored(session.store)


def test_a_goal_for_the_flags_draws_flagged_rows_only(session, tmp_path):
    session.plan_draws(500, precision=0.6)
    flagged = set((np.flatnonzero(session.fitted.findings.is_flagged) + 1).tolist())
    assert session.checks.plan.n == len(flagged)
    other = next(row for row in range(1, 121) if row not in flagged)
    session.mark(other, "right", None, "ann")  # a pick
    rows = []
    while not (found := session.state()["checks"])["reached"] and len(rows) < len(flagged):
        rows.append(session.next_row("checks", None, "ann"))
        assert session.sample(rows[-1])["how"] == "draw"
        session.mark(rows[-1], "bad", None, "ann")
    assert found["reached"] and set(rows) < flagged
    assert (found["answered"], found["picked"]) == (len(rows), 1)
    least = re.search(r"at least ([\d.]+) % of the \d+ flagged rows are faulty", found["sentence"])
    assert float(least[1]) >= 60.0
    # The panel's interval has two ends, the goal is one-sided.
    assert 100.0 * found["precision"][1] <= float(least[1])
    assert session.offer(0.5).n_checks <= len(rows)
    with pytest.raises(ReviewError, match="are from the flagged rows only"):
        session.plan_draws(None, goal=0.02)
    session.plan_draws(None)
    assert session.state()["checks"] == found
    export(session.subject.table, "diagnosis", session.store, tmp_path / "c.csv")
    assert "by_class" not in json.loads((tmp_path / "c.csv.checks.json").read_text())["checks"]


def test_strata_and_classes(session, tmp_path):
    table, findings = session.subject.table, session.fitted.findings
    for name, n_groups in (("ward", 2), ("class", 2), ("verdict", len(set(findings.verdicts)))):
        groups = strata_of(name, table, findings, 40)
        assert len(groups) == 120 and len(set(groups)) == n_groups
    for name, words in (("age", "groups are more than the 40 checks"), ("odd", "no such column")):
        with pytest.raises(ReviewError, match=words):
            strata_of(name, table, findings, 40)
    session.plan_draws(40, strata="verdict")
    chance, rare = session.checks.plan.inclusion(), findings.is_flagged
    assert chance[rare].mean() > 1.5 * chance[~rare].mean()
    for row in (session.checks.plan.rows + 1).tolist():
        session.mark(row, "right", None, "ann")
    export(table, "diagnosis", session.store, tmp_path / "c.csv")
    found = json.loads((tmp_path / "c.csv.checks.json").read_text())["checks"]
    assert set(found["by_class"]) == {"gesund", "kränk"} and "2 intervals" in found["by_class_note"]
    assert found["missed"][1] == 0.0


def test_draws_come_before_marks(session):
    session.mark(1, "right", None, "ann")
    with pytest.raises(ReviewError, match="drawn before the first mark"):
        session.plan_draws(20)


# -- several reviewers --------------------------------------------------------------------------


def test_kappa_of_reviewers(tmp_path):
    store = MarkStore(tmp_path / "m.sqlite")

    def say(row, kind, reviewer, label=None):
        store.add(row, kind, label, reviewer, content="c", given="a")

    for row in range(20):
        say(row, "right" if row < 12 else "bad", "ann")
        say(row, "right" if row < 10 else "bad", "bob")
    say(20, "unsure", "ann")
    say(20, "right", "bob")
    (pair,) = agreements(store.standing())
    assert (pair.reviewers, pair.n_rows, pair.n_same) == (("ann", "bob"), 20, 18)
    # By chance they agree on .6 * .5 + .4 * .5 = .5 of the rows.
    assert pair.kappa == pytest.approx((0.9 - 0.5) / 0.5)
    assert "kappa 0.80" in pair.sentence() and "errs in about 5 %" in pair.sentence()
    say(30, "right", "cyd")
    say(30, "right", "dee")
    kappas = {pair.reviewers: pair.kappa for pair in agreements(store.standing())}
    assert kappas["cyd", "dee"] is None
    store.close()


def test_second_marks_and_disputed_rows(session):
    session.mark(3, "right", None, "ann")
    session.mark(5, "unsure", None, "ann")
    assert session.next_row("again", None, "ann") == 5
    assert {item["row"] for item in session.queue("again", 0, 9, reviewer="bob")["items"]} == {3, 5}
    assert session.next_row("disputed", None, "bob") is None
    session.mark(3, "bad", None, "bob")
    assert session.next_row("disputed", None, "ann") == 3
    item = session.queue("disputed", 0, 9)["items"][0]
    assert item["disputed"] and item["mark"] == "bad"


# -- bulk acceptance ----------------------------------------------------------------------------


def test_suggestions_are_accepted_in_bulk_with_the_expected_errors(session, tmp_path):
    offer = session.offer(0.5)
    assert offer.suggestions and offer.n_checks == 0 and offer.most_errors is None
    assert offer.expected_errors == pytest.approx(
        sum(1 - one.confidence for one in offer.suggestions)
    )
    assert len(session.offer(0.99).suggestions) <= len(offer.suggestions)
    n = len(offer.suggestions)
    with pytest.raises(ReviewError, match=f"{n} suggestions are above this confidence now, not 1"):
        session.accept(0.5, 1, "ann")
    assert session.accept(0.5, n, "ann") == n
    assert session.state()["accepted"] == n and not session.offer(0.5).suggestions
    assert not session.known().certain  # nobody has looked: nothing to learn
    done = export(
        session.subject.table,
        "diagnosis",
        session.store,
        tmp_path / "c.csv",
        identifiers=session.identifiers,
    )
    assert done.corrected == done.accepted == n
    row = int(session.subject.rows[offer.suggestions[0].position]) + 1
    entry = log_of(tmp_path / "c.csv")[row]
    confidence = offer.suggestions[0].confidence
    assert entry["how"] == f"accepted without a look at confidence {confidence:.3f}"
    assert entry["patient"] == f"P{row - 1:03d}"
    # Who looks decides, and an undo takes all back.
    session.mark(row, "right", None, "bob")
    assert judgements(session.store.standing())[row - 1].mark.kind == "right"
    assert not judgements(session.store.standing())[row - 1].disputed
    session.undo("ann")
    assert [mark.reviewer for mark in session.store.standing()] == ["bob"]


def test_accepted_labels_are_no_answers_of_checks(session):
    session.plan_draws(120)
    n = len(session.offer(0.5).suggestions)
    session.accept(0.5, n, "ann")
    assert session.state()["checks"]["answered"] == 0
    rows = []
    for _ in range(120):
        rows.append(session.next_row("checks", None, "bob"))
        session.mark(rows[-1], "right", None, "bob")
    assert sorted(rows) == list(range(1, 121))


def test_checks_correct_the_expected_errors(session):
    """Half of the rows are checked: 8 labels are wrong, then none is."""
    session.plan_draws(120)
    before = session.offer(0.5)
    assert before.most_errors is None
    rows = (session.checks.plan.order[:60] + 1).tolist()
    for row in rows:
        if row <= 8:
            session.mark(row, "wrong", other_label(session, row), "ann")
        else:
            session.mark(row, "right", None, "ann")
    found = session.offer(0.5)
    assert found.n_checks > 0 and found.expected_errors <= found.most_errors
    assert found.most_errors <= len(found.suggestions)
    for row in rows:
        session.mark(row, "right", None, "ann")
    after = session.offer(0.5)
    # No suggestion was right: either none is left, or most of them are expected to be errors.
    assert not after.suggestions or after.expected_errors > 0.5 * len(after.suggestions)
    assert len(after.suggestions) < len(before.suggestions)


@pytest.mark.parametrize("confidence", [0.4, 1.0, float("nan")])
def test_a_confidence_that_makes_no_sense(session, confidence):
    with pytest.raises(ReviewError, match=r"must lie between 0\.5 and 1"):
        session.offer(confidence)


# -- files --------------------------------------------------------------------------------------


def test_exported_labels_hold_no_formulas(tmp_path):
    from gemmed.rows.tables import read_table

    path = tmp_path / "t.csv"
    path.write_text(
        "name,x,y\n" + "".join(f"r{i},{i},{'=A1' if i % 2 else 'b'}\n" for i in range(6))
    )
    store = MarkStore(tmp_path / "m.sqlite")
    store.add(0, "wrong", "=A1", "ann", content="c", given="b")
    store.add(1, "right", None, "ann", content="c", given="=A1")
    table = read_table(path)
    done = export(table, "y", store, tmp_path / "c.csv")
    labels = read_table(tmp_path / "c.csv").frame["y"].tolist()
    assert labels == ["'=A1", "'=A1", "b", "'=A1", "b", "'=A1"] and done.formulas == 4
    export(table, "y", store, tmp_path / "g.csv", labels="given")
    given = read_table(tmp_path / "g.csv").frame
    assert given["known_label"].tolist()[:3] == ["'=A1", "'=A1", ""]
    export(table, "y", store, tmp_path / "raw.csv", raw_cells=True)
    assert read_table(tmp_path / "raw.csv").frame["y"].tolist()[:2] == ["=A1", "=A1"]
    store.close()


def test_labels_of_a_workbook_stay_as_they_are(tmp_path):
    """Its cells have a type: text that begins like a formula is text."""
    pytest.importorskip("openpyxl")
    from gemmed.rows.tables import read_table

    (tmp_path / "t.csv").write_text("x,y\n1,=A1\n2,b\n3,b\n")
    store = MarkStore(tmp_path / "m.sqlite")
    store.add(1, "wrong", "=A1", "ann", content="c", given="b")
    done = export(read_table(tmp_path / "t.csv"), "y", store, tmp_path / "c.xlsx")
    assert read_table(tmp_path / "c.xlsx").text("y")[0].tolist() == ["=A1", "=A1", "b"]
    assert done.formulas == 0
    store.close()


def test_a_plan_of_equal_rows_has_a_place_for_each(tmp_path):
    plan = plan_checks(np.full(9, 0.1), 9)
    checks = PlannedChecks(plan, np.arange(9), np.zeros(9, dtype=bool))
    assert sorted(checks.place(row) for row in range(9)) == list(range(1, 10))
    assert checks.summary([])["precision"] is None and checks.summary([])["shares"]["bad"] is None
