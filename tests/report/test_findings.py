"""What an audit shows: rankings, summary in one sentence, samples with reasons."""

import json
from dataclasses import replace

import numpy as np
import pytest

from audits import arrays, audited
from gemmed import GEMMEDClassifier
from gemmed.inspection import Slice
from gemmed.report.audited import NO_SIGNAL
from gemmed.report.findings import RANKINGS, Findings
from gemmed.report.patterns import Patterns, SliceFinding

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def findings():
    return Findings(audited())


def test_every_ranking_is_an_order_of_its_score(findings):
    for ranking in RANKINGS:
        order = findings.order(ranking)
        assert sorted(order) == list(range(569))
        assert np.all(np.diff(findings.scores[ranking][order]) <= 0)
    states = findings.scores["label"] + findings.scores["measurement"]
    np.testing.assert_allclose(states, findings.scores["joint"], atol=1e-12)


def test_the_top_of_each_is_as_easy_as_a_threshold(findings):
    chosen = findings.flagged(each=20)
    assert set(findings.order("label")[:20]) <= set(chosen)
    assert set(findings.order("measurement")[:20]) <= set(chosen)
    assert len(chosen) <= 40
    assert np.all(np.diff(findings.scores["joint"][chosen]) <= 0)
    assert np.all(findings.scores["joint"][findings.flagged(0.3)] > 0.3)


def test_one_sentence_says_what_each_number_means(findings):
    sentence = findings.sentence()
    low, high = (round(value * 569) for value in findings.shares["joint"][1:])
    assert sentence.startswith(
        f"{len(findings.flagged())} of 569 rows are flagged: a wrong label or"
    )
    assert f"(90 % interval {low} to {high})" in sentence
    assert sentence.endswith("no row has been checked.")
    assert "above 0.9" in findings.sentence(0.9)


def test_held_out_accuracy_is_set_against_the_largest_class(findings):
    signal, labels = findings.signal, findings.audited.labels
    assert signal.majority == pytest.approx(np.mean(labels == "benign"))
    predicted = np.array(findings.classes)[np.argmax(findings.held_out, axis=1)]
    assert signal.accuracy == pytest.approx(np.mean(predicted == labels))
    assert signal.lower < signal.accuracy < signal.upper
    assert signal.is_informative
    assert findings.signal_sentence.startswith("Held-out accuracy ")


@pytest.mark.parametrize("n_classes", [2, 5])
def test_no_label_is_judged_where_columns_do_not_tell_the_classes_apart(n_classes):
    rng = np.random.default_rng(n_classes)
    X, labels = rng.normal(size=(300, 6)), rng.integers(0, n_classes, 300).astype(str)
    X[7] = 60.0
    model = GEMMEDClassifier(random_state=0).fit(X, labels)
    findings = Findings(arrays(X, labels, model))
    assert findings.signal_sentence.startswith(NO_SIGNAL)
    assert not np.isin(findings.verdicts, ("suspicious label", "both")).any()
    assert len(findings.flagged()) <= 0.05 * 300
    assert len(findings.worth_a_look) == 0 and set(findings.shares) <= {"measurement"}
    assert findings.scores["label"].max() == 0.0
    assert "bad measurements" in findings.sentence()


def test_rows_worth_a_look_make_up_the_estimated_number(findings):
    share = findings.shares["joint"]
    more = findings.worth_a_look
    assert len(findings.flagged()) + len(more) <= max(
        round(share.mean * 569), len(findings.flagged())
    )
    assert not set(more) & set(findings.flagged())
    assert np.all(findings.scores["joint"][more] > share.mean)


def test_verdicts_take_turns(findings):
    flagged = findings.flagged()
    mixed = findings.mixed(flagged)
    assert sorted(mixed) == sorted(flagged)
    assert {"suspicious label", "suspicious measurement"} <= set(findings.verdicts[mixed[:2]])
    for verdict in ("suspicious label", "suspicious measurement"):
        own = mixed[findings.verdicts[mixed] == verdict]
        assert np.all(np.diff(findings.scores["joint"][own]) <= 0)


def test_each_and_threshold_hold_together(findings):
    both = findings.flagged(0.6, each=20)
    alone = findings.flagged(each=20)
    assert set(both) == {row for row in alone if findings.scores["joint"][row] > 0.6}
    assert len(both) < len(alone)


def test_distributions_mark_the_row(findings):
    row = int(next(r for r in findings.flagged() if findings.verdicts[r] == "suspicious label"))
    found = findings.sample(row)["distributions"]
    assert 1 <= len(found) <= 3
    for one in found:
        assert set(one["groups"]) <= {"benign", "malignant"}
        assert all(0 <= height <= 100 for bars in one["groups"].values() for height in bars)
        assert one["mark"] is None or 0 <= one["mark"] <= (5 if one["is_category"] else 1)


def test_a_sample_is_plain_data_with_neighbours_of_both_classes(findings):
    row = int(next(r for r in findings.flagged() if findings.verdicts[r] == "suspicious label"))
    sample = json.loads(json.dumps(findings.sample(row), allow_nan=False))
    assert sample["row"] == 2 * row + 1 and sample["ids"] == {"patient": f"P{row}"}
    assert sample["suggested"] != sample["label"]
    assert 0.5 < sample["probability"] <= 1
    labels = [n["label"] for n in sample["neighbours"]]
    assert labels == [sample["label"]] * 3 + [sample["suggested"]] * 3
    assert [c["name"] for c in sample["columns"]].count("ward") == 1
    assert all(len(n["values"]) == len(sample["columns"]) for n in sample["neighbours"])
    for near in (sample["neighbours"][:3], sample["neighbours"][3:]):
        assert [n["distance"] for n in near] == sorted(n["distance"] for n in near)


def test_neighbours_are_the_nearest_trusted_rows(findings):
    row = int(findings.flagged()[0])
    X = findings.audited.X
    own = findings.trusted & (findings.class_index == findings.class_index[row])
    own[row] = False
    distances = np.linalg.norm(X - X[row], axis=1)
    expected = np.flatnonzero(own)[np.argsort(distances[own], kind="stable")[:3]]
    assert findings.neighbours(row)[:3] == expected.tolist()


def test_columns_as_they_were_read(findings):
    columns = {c["name"]: c for c in findings.columns}
    assert columns["ward"]["kind"] == "categories" and columns["ward"]["distinct"] == 2
    assert columns["mean area"]["missing"] == 1
    assert sum(c["odd"] for c in findings.columns) > 0


def test_rows_that_were_left_out_can_still_be_shown():
    fitted = np.setdiff1d(np.arange(569), [0, 7])
    findings = Findings(audited(fitted=fitted))
    assert 7 not in findings.order() and len(findings.order()) == 567
    sample = findings.sample(7)
    assert sample["scores"]["joint"] is None and sample["verdict"] == "left out"
    assert not any(n["row"] in (1, 15) for n in findings.sample(3)["neighbours"])
    json.dumps(sample, allow_nan=False)


def test_unknown_ranking(findings):
    with pytest.raises(ValueError, match="ranking='best' is unknown: use joint"):
        findings.order("best")


def test_the_text_of_a_slice_does_not_doubt_what_was_counted():
    rows = np.arange(50) < 20
    own = Slice(("ward",), "ward is 'a'", rows, 20, 20, 50, 20, 0.86, 1.0, 0.001)
    assert SliceFinding("wrong labels", own).text() == (
        "All 20 flagged wrong labels are where ward is 'a', which holds 40 % of the rows. Flagged "
        "there: 100 % (90 % interval 86 % to 100 %); elsewhere: 0 %."
    )
    part = own._replace(n_faults=10, n_all_faults=13)
    assert (
        SliceFinding("wrong labels", part)
        .text()
        .startswith("77 % of the flagged wrong labels (10 of 13) are where ward is 'a'")
    )


def test_categories_are_no_slices_of_bad_measurements_that_they_decide(findings):
    def decisive(**columns):
        categories = [name for name, values in columns.items() if values.dtype == object]
        changed = {"frame": pd.DataFrame(columns), "categories": categories}
        patterns = Patterns(Findings(replace(findings.audited, **changed)))
        return {column.name for column, decides in patterns._columns if decides}

    colour = np.array(["red", "blue"], dtype=object)[np.arange(569) % 2]
    assert decisive(colour=colour) == {"colour"}
    assert decisive(colour=colour, age=np.arange(569) + 0.5) == {"age"}
