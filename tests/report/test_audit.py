"""gemmed.audit: one call from a table to verdicts, summary and report."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import cross_val_predict

from gemmed import GEMMEDClassifier, audit

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def patients():
    """Breast cancer with 30 wrong labels, a column of text and a missing value."""
    data = load_breast_cancer(as_frame=True)
    rng = np.random.default_rng(0)
    X = data.data.iloc[:, :10].set_axis([f"P{i}" for i in range(569)])
    X["ward"] = rng.choice(["north", "south"], len(X))
    X.iloc[5, 2] = np.nan
    y = data.target.to_numpy().copy()
    wrong = rng.permutation(len(y))[:30]
    y[wrong] = 1 - y[wrong]
    return X, y, wrong


@pytest.fixture(scope="module")
def found(patients):
    return audit(*patients[:2], name="patients")


def test_verdicts_keep_order_and_index(patients, found):
    X, y, wrong = patients
    table = found.verdicts
    assert table.index.equals(X.index) and table["label"].tolist() == list(map(str, y))
    np.testing.assert_allclose(
        table["fault_proba"], table["wrong_label_proba"] + table["bad_measurement_proba"], atol=1e-9
    )
    flagged = found.flagged
    assert flagged["is_flagged"].all() and flagged["fault_proba"].is_monotonic_decreasing
    assert np.mean(np.isin(X.index[wrong], flagged.index)) > 0.6
    assert (flagged["reasons"] != "").all()
    assert not set(found.worth_a_look.index) & set(flagged.index)
    changed = flagged["verdict"] == "suspicious label"
    assert (flagged["suggested_label"] != flagged["label"])[changed].all()


def test_summary_report_and_model(patients, found, tmp_path):
    assert found.summary.startswith("Held-out accuracy") and found.summary == repr(found)
    page = found.to_html()
    assert found.to_html(tmp_path / "r.html") is None
    assert (tmp_path / "r.html").read_text() == page
    assert "Audit of patients" in page and "P1" in page
    assert found._repr_html_().startswith("<iframe")
    assert found.model.predict(patients[0]).shape == (569,)


def test_probabilities_of_own_models_count(patients):
    X, y, wrong = patients
    numbers = X.drop(columns="ward").fillna(0.0)
    truth = y.copy()
    truth[wrong] = 1 - truth[wrong]
    rng = np.random.default_rng(1)
    sure = np.where(truth == 1, 0.9, 0.1) + rng.uniform(-0.05, 0.05, len(y))
    oracle = pd.DataFrame({"0": 1 - sure, "1": sure})
    noise = numbers.apply(rng.permutation)
    alone = audit(noise, y, base=None).flagged
    with_oracle = audit(noise, y, pred_probs=oracle, base=None)
    is_wrong = np.isin(X.index, X.index[wrong])
    assert is_wrong[with_oracle.verdicts["is_flagged"].to_numpy()].mean() > 0.9
    assert with_oracle.flagged.shape[0] >= 25 > alone.shape[0]
    trees = ExtraTreesClassifier(30, random_state=0)
    own = cross_val_predict(trees, numbers, y, method="predict_proba")
    several = audit(X, y, pred_probs=[oracle.to_numpy(), own], base=None)
    assert np.mean(np.isin(X.index[wrong], several.flagged.index)) > 0.9
    only = audit(None, y, pred_probs=oracle)
    assert np.mean(only.verdicts["is_flagged"].to_numpy()[wrong]) > 0.9
    assert set(only.verdicts["verdict"]) == {"ok", "suspicious label"}  # nothing was measured
    assert "wrong labels" in only.summary and (only.verdicts["bad_measurement_proba"] == 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p[:5], r"shape \(5, 3\), expected \(178, 3\)"),
        (lambda p: p[:, :2], r"in the order 0, 1, 2"),
        (lambda p: 3.0 * p, "sums to 3 in row 0, not to 1"),
        (lambda p: np.where(p == p.max(), np.nan, p), "negative or missing value in row"),
        (lambda p: p - 0.5, "negative or missing value in row 0"),
        (lambda p: pd.DataFrame(p, columns=["a", "b", "c"]), "no column '0'"),
        (lambda p: [p, p[:, :1]], "expected"),
        (lambda p: p.astype(str) + "x", "not numbers"),
    ],
)
def test_probabilities_are_checked(change, message):
    X, y = load_wine(return_X_y=True)
    probs = np.full((len(y), 3), 1 / 3)
    with pytest.raises(ValueError, match=message):
        GEMMEDClassifier(base=None).fit(X, y, pred_probs=change(probs))


def test_something_to_judge_by_is_needed():
    with pytest.raises(ValueError, match="give columns, probabilities, or both"):
        audit(None, [0, 1, 0, 1])


def test_every_level_of_an_index_names_the_samples(patients):
    X, y = patients[0].iloc[:80], patients[1][:80]
    levels = pd.MultiIndex.from_product([range(40), ["left", "right"]], names=["person", None])
    found = audit(X.set_axis(levels), y)
    assert found.verdicts.index.equals(levels)
    names = found._findings.identifiers_of(3)
    assert names == {"person": "1", "index 2": "right"}


def test_identifiers_are_one_per_sample(patients):
    with pytest.raises(ValueError, match=r"identifiers\['id'\] has shape \(2,\)"):
        audit(patients[0].iloc[:80], patients[1][:80], identifiers={"id": [1, 2]})
