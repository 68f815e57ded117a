"""Which columns are evidence against a sample: numbers to check, words that state them."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from gemmed import GEMMEDClassifier, load_model, save_model
from gemmed._core.exceptions import DegenerateDataError, NeighborsReducedWarning
from gemmed.estimators.column_reasons import MAX_NAMED_COLUMNS, _describe, learn_columns
from gemmed.estimators.explanation import judge_states
from gemmed.estimators.reasons import Reasons, Verdict, number_text, percent

pd = pytest.importorskip("pandas")


def correlated(n=400, p=6, seed=0):
    """Rows of two classes whose columns follow one hidden value."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    hidden = rng.normal(size=n)
    X = hidden[:, None] + 0.2 * rng.normal(size=(n, p)) + 3.0 * z[:, None]
    return X * np.arange(1, p + 1), z


def reference_of(X, z, trusted=None, categories=None):
    trusted = np.ones(len(X), dtype=bool) if trusted is None else trusted
    names = [f"c{i}" for i in range(X.shape[1])]
    return learn_columns(X, names, categories or {}, z, trusted, int(z.max()) + 1)


def measurement(label="0", nominal=0.01):
    return Verdict("suspicious measurement", nominal, label, None, None, 0.9)


def test_deviations_are_those_of_the_class():
    X, z = correlated()
    found = reference_of(X, z).numbers(X[7], 1)
    own = X[z == 1]
    q = np.quantile(own, (0.05, 0.25, 0.75, 0.95), axis=0)
    spread = np.maximum((q[2] - q[1]) / 1.3489795, (q[3] - q[0]) / 3.2897073)
    expected = (X[7] - np.median(own, axis=0)) / spread
    np.testing.assert_allclose(found.deviations, expected, rtol=1e-7)


def test_the_distance_loses_exactly_what_is_said():
    """Squared distances without columns, by inverting the covariance that is left."""
    X, z = correlated()
    reference = reference_of(X, z)
    row = X[4].copy()
    row[[1, 4]] += (40.0, -60.0)
    found = reference.numbers(row, 0)
    covariance = np.linalg.inv(reference.precision)
    u = found.deviations

    def without(columns):
        kept = np.setdiff1d(np.arange(len(u)), columns)
        return u[kept] @ np.linalg.solve(covariance[np.ix_(kept, kept)], u[kept])

    assert set(found.broken) == {1, 4}
    assert found.distance == pytest.approx(without([]))
    assert found.rest == pytest.approx(without(found.broken))
    first, second = found.broken
    assert found.gain[first] == pytest.approx(without([]) - without([first]))
    assert found.gain[second] == pytest.approx(without([first]) - without([first, second]))
    assert found.rest <= reference.classes[0].limit < found.distance


def test_expected_values_are_those_of_the_columns_that_are_not_broken():
    X, z = correlated()
    row = X[4].copy()
    truth = row[[1, 4]].copy()
    row[[1, 4]] += (40.0, -60.0)
    found = reference_of(X, z).numbers(row, 0)
    assert found.expected[1] == pytest.approx(truth[0], abs=1.5)
    assert found.expected[4] == pytest.approx(truth[1], abs=4.0)
    others = [0, 2, 3, 5]
    assert np.all(np.abs(found.residual[others]) < 4.0)
    assert np.all(np.abs(found.residual[[1, 4]]) > 10.0)


def test_doubted_rows_do_not_describe_their_class():
    X, z = correlated()
    X[z == 0] += 0.0
    trusted = np.ones(len(X), dtype=bool)
    trusted[:40:2] = False
    X[:40:2] += 1000.0
    assert np.all(reference_of(X, z, trusted).classes[0].high < 100.0)


def test_missing_values_say_nothing():
    X, z = correlated()
    X[::5, 2] = np.nan
    found = reference_of(X, z).numbers(X[0], 0)
    assert np.isnan(found.deviations[2]) and np.isnan(found.expected[2]) and np.isnan(found.gain[2])
    assert np.isfinite(found.distance)


def test_a_column_of_one_value():
    X, z = correlated(p=3)
    X[:, 1] = 7.0
    reasons = Reasons(reference_of(X, z), ["0", "1"])
    row = X[0].copy()
    row[1] = 8.0
    found = reasons.of(row, [], measurement())
    assert "c1 is 8; all trusted rows of '0' have 7." in found.sentences
    assert found.columns[0].name == "c1" and found.columns[0].deviations == np.inf


def test_rare_categories_are_odd():
    X, z = correlated(p=2)
    ward = np.where(np.arange(len(z)) % 3 == 0, "north", "south")
    reasons = Reasons(reference_of(X, z, categories={"ward": ward}), ["0", "1"])
    found = reasons.of(X[0], ["moon"], measurement())
    assert "ward is 'moon', which none of the trusted rows of '0' has." in found.sentences
    assert not any(c.odd for c in reasons.of(X[0], ["north"], measurement()).columns)


def test_rare_values_of_a_column_of_names_are_not_odd():
    """Every second row has a value of its own: none of them is unusual."""
    X, z = correlated()
    names = np.array([f"n{i}" if i % 4 < 2 else "usual" for i in range(len(X))], dtype=object)
    reasons = Reasons(reference_of(X, z, categories={"name": names}), ["0", "1"])
    found = reasons.of(X[0], ["n0"], measurement())
    assert not any(c.odd for c in found.columns if c.name == "name")
    assert "n0" not in " ".join(found.sentences)


def test_what_is_marked_odd_is_named_of_a_suspicious_label_too():
    X, z = correlated()
    row = np.median(X[z == 1], axis=0)
    row[3] = 99999.0
    found = Reasons(reference_of(X, z), ["a", "b"]).of(
        row, [], Verdict("suspicious label", 0.1, "a", "b", 0.97, 0.02)
    )
    odd = [column.name for column in found.columns if column.odd]
    assert "c3" in odd
    assert any(sentence.startswith("c3 is 99999") for sentence in found.sentences)


def test_a_label_without_a_more_likely_alternative_gets_no_suggestion():
    verdict = Verdict("suspicious label", 0.1, "a", None, None, 0.004)
    X, z = correlated()
    found = Reasons(reference_of(X, z), ["a", "b"]).of(X[0], [], verdict)
    assert "no other label is more likely, so none is suggested" in found.sentences[0]
    states = np.array([[0.1, 0.9, 0.0]] * 3)
    clean = np.array([[0.9, 0.05, 0.05], [0.02, 0.78, 0.2], [0.2, 0.25, 0.55]])
    verdicts, suggested = judge_states(states, clean, clean, np.zeros(3, dtype=int))
    assert verdicts.tolist() == ["suspicious label"] * 3
    assert suggested.tolist() == [0, 1, 2]


def test_sentences_state_the_numbers():
    X, z = correlated()
    row = X[4].copy()
    row[1] += 40.0
    reasons = Reasons(reference_of(X, z), ["0", "1"])
    found = reasons.of(row, [], measurement(nominal=0.01))
    first = found.columns[0]
    assert first.name == "c1" and first.odd
    assert (
        f"c1 is {number_text(row[1])}, {first.deviations:.1f} deviations above the median of '0'"
        in (found.sentences[0])
    )
    assert found.change[0].startswith(f"c1 = {first.expected}: ")
    assert "which is usual" in found.change[0]
    assert "at least 99 to 1" in found.change[1]


def test_a_label_is_contradicted_by_both_classes():
    X, z = correlated()
    reasons = Reasons(reference_of(X, z), ["a", "b"])
    row = np.median(X[z == 1], axis=0)
    verdict = Verdict("suspicious label", 0.1, "a", "b", 0.97, 0.02)
    found = reasons.of(row, [], verdict)
    assert found.sentences[0] == (
        "Without this row the model gives 'b' 97 % and the given label 'a' 2.0 %."
    )
    assert "deviations from the median of 'a'" in found.sentences[1]
    assert "0 from that of 'b'" in found.sentences[1]
    assert found.change[0] == "The label 'b': without this row the model gives it 97 %."


def test_many_columns_are_compared_with_their_class_only():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(60, 501)), np.arange(60) % 2
    found = reference_of(X, z).numbers(X[0], 0)
    assert np.all(np.isfinite(found.deviations)) and np.all(np.isnan(found.residual))
    assert found.broken == []


def test_a_class_without_trusted_rows_is_described_all_the_same():
    X, z = correlated()
    trusted = z == 1
    described = reference_of(X, z, trusted).classes[0]
    np.testing.assert_array_equal(described.middle, np.median(X[z == 0], axis=0))


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.0 %"),
        (1e-5, "less than 0.1 %"),
        (0.034, "3.4 %"),
        (0.5, "50 %"),
        (1.0, "more than 99.9 %"),
    ],
)
def test_percent(share, text):
    assert percent(share) == text


# -- explain -----------------------------------------------------------------------------------


def frame(index=None):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(160) % 2 == 0, "u", "v")
    X = pd.DataFrame(rng.normal(size=(160, 3)), columns=["a", "b", "c"], index=index)
    X["a"] += np.where(y == "u", 8.0, 0.0)
    y[:6] = np.where(y[:6] == "u", "v", "u")
    X.iloc[20, 1] = 40.0
    return X, y


@pytest.mark.parametrize(
    "index",
    [[f"r{i}" for i in range(160)], list(range(5, 165)), "dates"],
    ids=["text", "numbers", "times"],
)
def test_explain_keeps_the_index(index, tmp_path):
    index = pd.date_range("2024-01-01", periods=160) if index == "dates" else index
    X, y = frame(index)
    model = GEMMEDClassifier(random_state=0).fit(X, y)
    assert model.explain().index.tolist() == X.index.tolist()
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m").explain().index.tolist() == X.index.tolist()


def test_other_indices_become_row_numbers():
    X, y = frame(pd.MultiIndex.from_product([range(80), ["x", "y"]]))
    found = GEMMEDClassifier(random_state=0).fit(X, y).explain()
    assert found.index.tolist() == list(range(160))


def test_explain_names_the_columns():
    data = load_breast_cancer(as_frame=True)
    X = (data.data - data.data.median()) / data.data.std()
    y = data.target.to_numpy().copy()
    y[:40:2] = 1 - y[:40:2]
    found = GEMMEDClassifier(random_state=0).fit(X, y).explain()
    doubted = found[found["verdict"] == "suspicious label"]
    assert len(doubted)
    assert doubted["reasons"].str.startswith("Without this row the model gives '").all()
    assert (doubted["suggested_proba"] > 0.5).all()
    named = {name for names in doubted["odd_columns"] for name in names}
    assert named and named <= set(X.columns)
    assert (found[found["verdict"] == "ok"]["reasons"] == "").all()


def test_the_distance_of_the_nearest_rows_is_stated():
    X, z = correlated()
    reasons = Reasons(reference_of(X, z), ["0", "1"])
    for crowding, shown in ((0.04, "0.04"), (2.5, "2.5"), (1234.0, "1,234")):
        found = reasons.of(X[0], [], measurement()._replace(crowding=crowding))
        sentence = f"The nearest rows of its class are at {shown} times the usual distance."
        assert sentence in found.sentences
    assert "nearest rows" not in " ".join(reasons.of(X[0], [], measurement()).sentences)


def test_huge_odds_are_capped_and_one_more_column_is_singular():
    X, z = correlated()
    reasons = Reasons(reference_of(X, z), ["0", "1"])
    row = X[0] + 500.0 * np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    found = reasons.of(row, [], measurement(nominal=1e-9))
    assert found.change[-1].endswith("favours it more than 1,000 to 1.")
    n_more = sum(column.odd for column in found.columns) - MAX_NAMED_COLUMNS
    assert n_more == 1
    assert "1 more column is odd." in found.sentences


def test_equal_values_have_no_spread_though_their_mean_is_rounded():
    rows = np.full((7, 1), 2.7)
    assert np.std(rows) > 0.0
    described = _describe(rows)
    assert described.usual_deviation[0] == 0.0 and described.middle[0] == 2.7


def test_a_class_of_two_rows_is_explained_without_p_values():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), np.repeat([1, 0], [2, 38])
    with pytest.warns(NeighborsReducedWarning):
        model = GEMMEDClassifier(base=None).fit(X, y)
    with pytest.raises(DegenerateDataError, match="class 1"):
        model.p_values(X)
    table = model.explain()
    assert len(table) == 40 and table["p_value"].isna().all()
