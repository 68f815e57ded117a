"""What an audit shows: rankings, summary in one sentence, samples with reasons."""

import dataclasses
import json

import numpy as np
import pytest

from audits import audited
from gemmed.report.findings import RANKINGS, Findings

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
    chosen = findings.suspicious(each=20)
    assert set(findings.order("label")[:20]) <= set(chosen)
    assert set(findings.order("measurement")[:20]) <= set(chosen)
    assert len(chosen) <= 40
    assert np.all(np.diff(findings.scores["joint"][chosen]) <= 0)
    assert np.all(findings.scores["joint"][findings.suspicious(0.3)] > 0.3)


def test_one_sentence_says_what_each_number_means(findings):
    sentence = findings.sentence()
    share = findings.shares["joint"]
    assert sentence.startswith(f"{len(findings.flagged())} of 569 rows are flagged")
    assert f"{round(share.low * 569)} to {round(share.high * 569)} rows" in sentence
    assert sentence.count(".") <= 8 and sentence.endswith("cannot be named one by one.")


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


def test_repeated_rows_and_their_labels():
    found = audited()
    frame = found.frame.copy()
    frame.iloc[10] = frame.iloc[11]
    frame.iloc[12] = frame.iloc[11]
    labels = found.labels.copy()
    labels[[10, 11, 12]] = ("benign", "benign", "malignant")
    findings = Findings(dataclasses.replace(found, frame=frame, labels=labels))
    assert findings.duplicates == (2, 3)


def test_rows_that_were_left_out_can_still_be_shown():
    fitted = np.setdiff1d(np.arange(569), [0, 7])
    findings = Findings(audited(fitted=fitted))
    assert 7 not in findings.order() and len(findings.order()) == 567
    sample = findings.sample(7)
    assert sample["scores"]["joint"] is None and sample["verdict"] == "left out"
    assert not any(n["row"] in (1, 15) for n in findings.sample(3)["neighbours"])
    json.dumps(sample, allow_nan=False)


@pytest.mark.parametrize("model", ["paper"])
def test_other_models_have_both_rankings(model):
    findings = Findings(audited(model))
    flagged = findings.flagged()
    kinds = findings.verdicts[flagged]
    label = findings.scores["label"][flagged]
    assert np.all((label > 0) == np.isin(kinds, ("suspicious label", "both")))
    json.dumps(findings.sample(int(flagged[0])), allow_nan=False)


def test_unknown_ranking(findings):
    with pytest.raises(ValueError, match="ranking='best' is unknown: use joint"):
        findings.order("best")
