"""Several labels a sample: rates of annotators, true labels, bad input."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed import AnnotatorGEMMEDClassifier
from gemmed.model.states.answers import Answers, infer_labels, majority

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "as for GEMMEDClassifier: distances and gamma='scale' count every sample once"
    ),
    "check_supervised_y_2d": "y is a matrix: one column per annotator",
}


@pytest.mark.filterwarnings("ignore::gemmed._core.exceptions.GemmedWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [AnnotatorGEMMEDClassifier(base=None)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_estimator_checks(estimator, check):
    check(estimator)


def annotated(seed, *, n=300, accuracies=(0.9, 0.75, 0.6, 0.6, 0.35), share=0.6, n_classes=2):
    """Samples of overlapping classes, and the answers of annotators to some of them."""
    rng = np.random.default_rng(seed)
    t = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, 4)) + 1.6 * np.eye(4)[t]
    y = np.full((n, len(accuracies)), np.nan)
    for a, accuracy in enumerate(accuracies):
        right = rng.random(n) < accuracy
        wrong = (t + rng.integers(1, n_classes, n)) % n_classes
        y[:, a] = np.where(right, t, wrong)
    y[rng.random(y.shape) > share] = np.nan
    y[np.isnan(y).all(axis=1), 0] = t[np.isnan(y).all(axis=1)]
    return X, y, t


def long_form(y):
    """Answers of a matrix, all samples of weight 1 and without a known label."""
    given = ~np.isnan(y)
    sample, annotator = np.nonzero(given)
    n = len(y)
    labels = y[given].astype(int)
    return Answers(sample, annotator, labels, y.shape[1], 2, np.ones(n), np.full(n, -1))


@pytest.mark.slow
def test_labels_and_ranking_are_better_than_majority_and_dawid_skene():
    gains = []
    for seed in range(5):
        X, y, t = annotated(seed)
        model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y)
        answers = long_form(y)
        votes = majority(answers)[:, 1]
        skene = infer_labels(answers).labels[:, 1]
        ours = model.true_label_proba_[:, 1]
        gains.append(
            [roc_auc_score(t, ours) - roc_auc_score(t, other) for other in (votes, skene)]
            + [np.mean((ours > 0.5) == t) - np.mean((other > 0.5) == t) for other in (votes, skene)]
        )
    assert np.all(np.mean(gains, axis=0) > 0.01)


@pytest.mark.slow
def test_rates_have_intervals_that_hold_the_truth():
    hits, widths = [], []
    accuracies = np.array([0.9, 0.75, 0.6, 0.6, 0.35])
    for seed in range(6):
        X, y, _ = annotated(10 + seed)
        model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y)
        low, high = model.annotator_interval_.T
        hits.append((low <= accuracies) & (accuracies <= high))
        widths.append(high - low)
        assert np.all(np.abs(model.annotator_accuracy_ - accuracies) < 0.15)
    assert np.mean(hits) > 0.8
    assert np.mean(widths) < 0.3


def shared_errors(seed, *, n=400, n_annotators=12, share=0.25):
    """Answers to samples of four classes; some samples look like another class to everybody."""
    rng = np.random.default_rng(seed)
    t = rng.integers(0, 4, n)
    seen = np.where(rng.random(n) < share, (t + rng.integers(1, 4, n)) % 4, t)
    ease = rng.beta(4.0, 2.0, n)
    right = rng.random((n, n_annotators)) < ease[:, None]
    other = (seen[:, None] + rng.integers(1, 4, right.shape)) % 4
    y = np.where(right, seen[:, None], other).astype(float)
    y[rng.random(y.shape) > 0.5] = np.nan
    y[np.isnan(y).all(axis=1), 0] = 0.0
    return y, t


def test_annotators_who_are_wrong_together_get_wide_intervals_and_unclear_labels():
    for seed in range(3):
        y, t = shared_errors(seed)
        model = AnnotatorGEMMEDClassifier(random_state=0).fit(None, y)
        given = ~np.isnan(y)
        accuracies = np.array([np.mean(y[g, a] == t[g]) for a, g in enumerate(given.T)])
        low, high = model.annotator_interval_.T
        assert np.mean((low <= accuracies) & (accuracies <= high)) >= 0.9
        assert model.answer_correlation_ > 0.03
        share = np.mean(model.true_label_ == t)
        assert abs(model.true_label_proba_.max(axis=1).mean() - share) < 0.15


def test_shares_of_the_classes_are_learned_from_answers_alone():
    rng = np.random.default_rng(0)
    t = (rng.random(1500) < 0.12).astype(int)
    y = np.where(rng.random((1500, 3)) < 0.82, t[:, None], 1 - t[:, None])
    model = AnnotatorGEMMEDClassifier(random_state=0).fit(None, y)
    assert np.mean(model.true_label_ == t) > np.mean((y.mean(axis=1) > 0.5) == t) + 0.01
    with pytest.raises(ValueError, match="cannot predict"):
        model.predict(np.zeros((2, 2)))


def test_known_labels_are_certain_and_teach_the_accuracies():
    gains = []
    for seed in range(3):
        X, y, t = annotated(seed, accuracies=(0.8, 0.65, 0.6), share=0.7)
        known = np.where(np.arange(len(t)) % 2 == 0, t, np.nan)
        free = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y)
        told = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y, known_labels=known)
        np.testing.assert_array_equal(told.true_label_proba_[::2], np.eye(2)[t[::2]])
        low, high = told.annotator_interval_.T
        assert np.mean(high - low) < 0.95 * np.mean(np.diff(free.annotator_interval_))
        given = ~np.isnan(y)
        right = np.array([np.mean(y[g, a] == t[g]) for a, g in enumerate(given.T)])
        assert np.all((low <= right) & (right <= high))
        others = np.arange(len(t)) % 2 == 1
        gains.append(
            np.log(told.true_label_proba_[others, t[others]]).mean()
            - np.log(free.true_label_proba_[others, t[others]]).mean()
        )
    assert np.mean(gains) > 0.0


def test_known_labels_of_samples_without_answers_teach_the_classifier():
    X, y, t = annotated(5, accuracies=(0.6, 0.55), share=0.9)
    y[:150] = np.nan
    known = np.where(np.arange(len(t)) < 150, t, -1).astype(object)
    known[known == -1] = None
    free = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y)
    told = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y, known_labels=known)
    X_new, _, t_new = annotated(6, n=1000)
    assert told.score(X_new, t_new) > free.score(X_new, t_new) + 0.01


def test_samples_of_weight_zero_are_judged_and_teach_nothing():
    X, y, t = annotated(7, n=400, accuracies=(0.9, 0.8, 0.75), share=0.8)
    weights = np.where(np.arange(400) < 300, 1.0, 0.0)
    spoilt = y.copy()
    spoilt[300:, 0] = 1 - t[300:]  # the best annotator is always wrong there
    model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, spoilt, sample_weight=weights)
    less = AnnotatorGEMMEDClassifier(random_state=0).fit(X[:300], spoilt[:300])
    all_of_them = AnnotatorGEMMEDClassifier(random_state=0).fit(X, spoilt)
    np.testing.assert_allclose(model.annotator_accuracy_, less.annotator_accuracy_, atol=0.02)
    assert all_of_them.annotator_accuracy_[0] < model.annotator_accuracy_[0] - 0.05
    assert np.all(np.isfinite(model.true_label_proba_))
    assert np.mean(model.true_label_[300:] != t[300:]) > 0.1  # the answers there still count


def test_a_weight_of_two_counts_answers_twice():
    _, y, _ = annotated(8, n=120, accuracies=(0.9, 0.7, 0.6), share=0.8)
    weights = np.where(np.arange(120) < 60, 2.0, 1.0)
    once = AnnotatorGEMMEDClassifier().fit(None, y, sample_weight=weights)
    twice = AnnotatorGEMMEDClassifier().fit(None, np.repeat(y, weights.astype(int), axis=0))
    np.testing.assert_allclose(once.annotator_rates_, twice.annotator_rates_, atol=2e-3)


def test_samples_of_a_group_are_held_out_together():
    # Rows of a recording lie together and are labelled alike: each confirms the others.
    excess = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        t = rng.integers(0, 2, 60)
        groups = np.repeat(np.arange(60), 5)
        X = (rng.normal(size=(60, 5)) + 1.2 * np.eye(5)[t])[groups]
        X += 0.1 * rng.normal(size=X.shape)
        y = np.where(rng.random((60, 3)) < (0.25, 0.3, 0.35), 1 - t[:, None], t[:, None])[groups]
        for own in (None, groups):
            model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y, groups=own)
            share = np.mean(model.true_label_ == t[groups])
            excess.append(model.true_label_proba_.max(axis=1).mean() - share)
    alone, together = np.reshape(excess, (2, 2)).mean(axis=0)
    assert alone > together + 0.05


def test_three_classes_text_missing_answers_and_long_form():
    pd = pytest.importorskip("pandas")
    X, y, t = annotated(3, n_classes=3, accuracies=(0.9, 0.7, 0.5))
    names = np.array(["ant", "bee", "cat"])
    words = np.where(np.isnan(y), None, names[np.nan_to_num(y).astype(int)])
    model = AnnotatorGEMMEDClassifier(base=None, random_state=0)
    model.fit(X, pd.DataFrame(words, columns=["Ann", "Bob", "Cy"]))
    assert model.annotators_ == ["Ann", "Bob", "Cy"]
    assert model.classes_.tolist() == names.tolist()
    assert np.mean(model.true_label_ == names[t]) > 0.8
    assert model.predict_proba(X).shape == (300, 3)
    sample, annotator = np.nonzero(~np.isnan(y))
    long = AnnotatorGEMMEDClassifier(base=None, random_state=0).fit_answers(
        X, sample, np.array(["Ann", "Bob", "Cy"])[annotator], words[sample, annotator].astype(str)
    )
    np.testing.assert_allclose(long.true_label_proba_, model.true_label_proba_)
    further = {"sample_weight": 1.0 + t, "known_labels": np.where(t == 0, names[t], None)}
    model.fit(X, pd.DataFrame(words, columns=["Ann", "Bob", "Cy"]), **further)
    long.fit_answers(
        X,
        sample,
        np.array(["Ann", "Bob", "Cy"])[annotator],
        words[sample, annotator].astype(str),
        **further,
    )
    np.testing.assert_allclose(long.true_label_proba_, model.true_label_proba_)
    assert set(model.true_label_[t == 0]) == {"ant"}


def test_missing_answers_of_any_kind_are_the_same():
    pd = pytest.importorskip("pandas")
    y = annotated(4, n=80)[1][:, :3]
    kinds = [
        pd.DataFrame(y, columns=[0, 1, 2]).astype("Int64"),
        np.ma.masked_array(np.nan_to_num(y).astype(int), np.isnan(y)),
        np.where(np.isnan(y), "", np.nan_to_num(y).astype(int).astype(str)),
    ]
    expected = AnnotatorGEMMEDClassifier(random_state=0).fit(None, y)
    for own in kinds:
        found = AnnotatorGEMMEDClassifier(random_state=0).fit(None, own)
        np.testing.assert_array_equal(found.true_label_proba_, expected.true_label_proba_)
        np.testing.assert_array_equal(found.n_answers_, expected.n_answers_)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full((4, 2), np.nan), "has given no answer"),
        (np.array([[1.5, 0], [1, 0], [1, 0], [0, 1]]), "whole numbers or text"),
        (np.ones((4, 2), dtype=int), "one class only"),
        (np.ones((3, 2), dtype=int), "3 rows for 4 samples"),
        (np.ones((2, 2, 2)), "one column per annotator"),
        (np.array([["a", 1]] * 4, dtype=object), "mixes text and numbers"),
    ],
)
def test_answers_that_make_no_sense_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        AnnotatorGEMMEDClassifier().fit(np.arange(8.0).reshape(4, 2), y)


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ({"known_labels": [0, 1, 7, None]}, r"known_labels\[2\]=7 is not a class of y"),
        ({"known_labels": [0, 1]}, r"known_labels has shape \(2,\)"),
        ({"sample_weight": [1, 1, 1]}, "sample_weight"),
        ({"sample_weight": [1, -1, 1, 1]}, "[Nn]egative"),
        ({"sample_weight": [1, 1, 0, 0]}, "sample_weight is zero for every sample of class 1"),
        ({"groups": ["a", None, "b", "c"]}, r"groups\[1\] is missing"),
    ],
)
@pytest.mark.parametrize("has_rows", [True, False])
def test_what_is_known_of_samples_is_checked(further, message, has_rows):
    X = np.arange(8.0).reshape(4, 2) if has_rows else None
    y = np.array([[0, 0], [0, 0], [1, 1], [1, 1]])
    with pytest.raises(ValueError, match=message):
        AnnotatorGEMMEDClassifier().fit(X, y, **further)
    sample, annotator = np.nonzero(y >= 0)
    with pytest.raises(ValueError, match=message):
        AnnotatorGEMMEDClassifier().fit_answers(X, sample, annotator, y.ravel(), **further)


def test_long_answers_are_checked():
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(ValueError, match="rows of X"):
        AnnotatorGEMMEDClassifier().fit_answers(X, [0, 9], ["a", "b"], [0, 1])
    with pytest.raises(ValueError, match="have shapes"):
        AnnotatorGEMMEDClassifier().fit_answers(X, [0, 1], ["a"], [0, 1])
