"""Several labels a sample: rates of annotators, true labels, bad input."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gemmed import AnnotatorGEMMEDClassifier
from gemmed.model.states.answers import Answers, infer_labels, majority


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


def test_labels_and_ranking_are_better_than_majority_and_dawid_skene():
    gains = []
    for seed in range(5):
        X, y, t = annotated(seed)
        model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y)
        given = ~np.isnan(y)
        sample, annotator = np.nonzero(given)
        answers = Answers(sample, annotator, y[given].astype(int), len(X), y.shape[1], 2)
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


def test_three_classes_text_missing_answers_and_long_form():
    pd = pytest.importorskip("pandas")
    X, y, t = annotated(3, n_classes=3, accuracies=(0.9, 0.7, 0.5))
    names = np.array(["ant", "bee", "cat"])
    words = np.where(np.isnan(y), None, names[np.nan_to_num(y).astype(int)])
    model = AnnotatorGEMMEDClassifier(random_state=0)
    model.fit(X, pd.DataFrame(words, columns=["Ann", "Bob", "Cy"]))
    assert model.annotators_ == ["Ann", "Bob", "Cy"]
    assert model.classes_.tolist() == names.tolist()
    assert np.mean(model.true_label_ == names[t]) > 0.8
    assert model.predict_proba(X).shape == (300, 3)
    sample, annotator = np.nonzero(~np.isnan(y))
    long = AnnotatorGEMMEDClassifier(random_state=0).fit_answers(
        X, sample, np.array(["Ann", "Bob", "Cy"])[annotator], words[sample, annotator].astype(str)
    )
    np.testing.assert_allclose(long.true_label_proba_, model.true_label_proba_)


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


def test_long_answers_are_checked():
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(ValueError, match="rows of X"):
        AnnotatorGEMMEDClassifier().fit_answers(X, [0, 9], ["a", "b"], [0, 1])
    with pytest.raises(ValueError, match="have shapes"):
        AnnotatorGEMMEDClassifier().fit_answers(X, [0, 1], ["a"], [0, 1])
