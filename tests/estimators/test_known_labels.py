"""fit(X, y, known_labels=...): the given label and the true one of the same sample."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flat_options import parameters_of
from gemmed import GEMMEDClassifier, Solver, load_model, save_model


def mislabelled(n=240, n_classes=2, seed=0, share=0.15):
    """Rows, given labels and true labels."""
    X, truth = make_classification(
        n,
        6,
        n_informative=4,
        n_redundant=0,
        n_classes=n_classes,
        class_sep=1.5,
        flip_y=0.0,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    rows = rng.choice(n, round(share * n), replace=False)
    y = truth.copy()
    y[rows] = (y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
    return X, y, truth


def some_known(y, truth, n=10):
    """True labels of n wrong and n right ones; None elsewhere."""
    known = np.full(len(y), None, dtype=object)
    for rows in (np.flatnonzero(y != truth)[:n], np.flatnonzero(y == truth)[:n]):
        known[rows] = truth[rows]
    return known


def fitted(X, y, known, **options):
    return GEMMEDClassifier(random_state=0, **parameters_of(**options)).fit(
        X, y, known_labels=known
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "base", [None, RandomForestClassifier(20), LogisticRegression(), KNeighborsClassifier()]
)
def test_what_is_known_is_certain(n_classes, base):
    X, y, truth = mislabelled(n_classes=n_classes)
    known = some_known(y, truth)
    model = fitted(X, y, known, base=base)
    checked = np.array([label is not None for label in known])
    right = y == truth
    np.testing.assert_array_equal(model.state_proba_[checked & right], [[1.0, 0.0, 0.0]] * 10)
    np.testing.assert_array_equal(model.state_proba_[checked & ~right], [[0.0, 1.0, 0.0]] * 10)
    certain = np.eye(n_classes)[truth[checked]]
    np.testing.assert_array_equal(model.true_label_proba_[checked], certain)
    np.testing.assert_allclose(model.state_proba_.sum(axis=1), 1.0)
    low, high = model.label_error_interval_
    assert low <= model.label_error_share_ <= high
    assert model.label_error_share_ >= 10 / len(y)
    table = model.explain()
    np.testing.assert_array_equal(table["label"], y)
    np.testing.assert_array_equal(table["verdict"][checked & right], "ok")
    np.testing.assert_array_equal(table["verdict"][checked & ~right], "suspicious label")
    np.testing.assert_array_equal(
        table["suggested_label"][checked & ~right], truth[checked & ~right]
    )
    np.testing.assert_array_equal(
        table["prior"][checked], np.where(right, np.inf, -np.inf)[checked]
    )
    np.testing.assert_array_equal(table["label_term"][checked], 0.0)


def test_found_errors_count_in_the_rates_and_teach_the_classifier():
    """Corrected labels alone made the others seem rare; prior 0 alone changed nothing."""
    X, truth = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    wrong = np.random.default_rng(0).random(len(truth)) < 0.2
    y = np.where(wrong, 1 - truth, truth)
    first = GEMMEDClassifier(random_state=0).fit(X, y)
    seen = np.argsort(first.nominal_proba_)[:40]
    rest = np.setdiff1d(np.arange(len(y)), seen)
    known = np.full(len(y), np.nan)
    known[seen] = truth[seen]
    again = fitted(X, y, known)
    assert abs(again.label_error_share_ - wrong.mean()) < 0.03
    low, high = again.label_error_interval_
    assert low <= wrong.mean() <= high
    corrected = np.where(np.isnan(known), y, truth)
    prior = np.where(np.isnan(known), 0.95, 1.0)
    old = GEMMEDClassifier(random_state=0).fit(X, corrected, prior_nominal=prior)
    left = wrong[rest].mean()
    assert abs(again.state_proba_[rest, 1].mean() - left) < 0.03 < left - old.label_error_share_
    found, before = (
        average_precision_score(wrong[rest], model.anomaly_scores_[rest]) for model in (again, old)
    )
    assert found > before - 0.01
    flagged = again.nominal_proba_[rest] < 0.5
    assert flagged[wrong[rest]].mean() > 0.7 and wrong[rest][flagged].mean() > 0.8


def test_the_classifier_learns_the_true_label():
    """A region whose labels are all wrong: nothing but the known labels can tell."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal((-3, 0), 0.5, (60, 2)), rng.normal((3, 0), 0.5, (60, 2))])
    X = np.concatenate([X, rng.normal((0, 5), 0.3, (20, 2))])
    truth = np.repeat([0, 1, 1], (60, 60, 20))
    y = np.repeat([0, 1, 0], (60, 60, 20))
    assert not GEMMEDClassifier(random_state=0).fit(X, y).predict([[0.0, 5.0]])[0]
    known = np.ma.masked_array(truth, np.arange(140) < 122)
    model = fitted(X, y, known)
    assert model.predict([[0.0, 5.0]])[0] == 1
    np.testing.assert_array_equal(model.true_label_proba_[120:, 1] > 0.5, True)
    base = fitted(X, y, known, base=LogisticRegression(C=100.0))
    assert base.bases_[0].predict([[0.0, 5.0]])[0] == 1


def test_nothing_known_is_the_same_as_no_known_labels():
    X, y, _ = mislabelled()
    plain = GEMMEDClassifier(random_state=0).fit(X, y)
    for nothing in ([None] * len(y), np.full(len(y), np.nan)):
        np.testing.assert_array_equal(fitted(X, y, nothing).state_proba_, plain.state_proba_)


def test_labels_known_to_be_right_are_certainly_nominal():
    X, y, truth = mislabelled()
    right = np.flatnonzero(y == truth)[:30]
    known, prior = np.full(len(y), np.nan), np.full(len(y), 0.95)
    known[right], prior[right] = y[right], 1.0
    by_label = fitted(X, y, known)
    by_prior = GEMMEDClassifier(random_state=0).fit(X, y, prior_nominal=prior)
    np.testing.assert_allclose(by_label.state_proba_, by_prior.state_proba_, atol=0.1)


def test_bad_measurements_go_beside_known_labels():
    X, y, truth = mislabelled()
    known, prior = some_known(y, truth), np.full(len(y), 0.95)
    prior[-3:] = 0.0
    model = GEMMEDClassifier(random_state=0).fit(X, y, prior_nominal=prior, known_labels=known)
    np.testing.assert_array_equal(model.nominal_proba_[-3:], 0.0)
    np.testing.assert_array_equal(model.dual_coef_[-3:], 0.0)
    wrong = [i for i, label in enumerate(known) if label is not None and label != y[i]]
    np.testing.assert_array_equal(model.state_proba_[wrong, 1], 1.0)


# -- kinds of arrays ------------------------------------------------------------------------------


def test_texts_and_missing_values_of_all_kinds():
    pd = pytest.importorskip("pandas")
    X, y, truth = mislabelled()
    objects = some_known(y, truth)
    expected = fitted(X, y, objects, base=None).state_proba_
    names, true_names = np.array(["cat", "dog"])[y], np.array(["cat", "dog"])[truth]
    texts = np.where(objects == None, None, true_names)  # noqa: E711
    forms = [
        texts,
        texts.tolist(),
        pd.Series(texts),
        pd.Series(texts, index=np.arange(len(y))[::-1]),
        pd.Series(texts, dtype="string"),
        pd.Series(texts, dtype="category"),
        pd.Series([pd.NA if text is None else text for text in texts], dtype=object),
        [float("nan") if text is None else text for text in texts],
        np.ma.masked_array(true_names, [text is None for text in texts]),
    ]
    for known in forms:
        np.testing.assert_array_equal(fitted(X, names, known, base=None).state_proba_, expected)
    numbers = np.array([np.nan if label is None else label for label in objects], dtype=float)
    for known in (numbers, pd.Series(numbers), pd.Series(numbers).astype("Int64")):
        np.testing.assert_array_equal(fitted(X, y, known, base=None).state_proba_, expected)
    booleans = np.array([None if label is None else bool(label) for label in objects], dtype=object)
    np.testing.assert_array_equal(
        fitted(X, y.astype(bool), booleans, base=None).state_proba_, expected
    )
    frame = pd.DataFrame(X, columns=list("abcdef"))
    by_frame = fitted(frame, pd.Series(names), pd.Series(texts), base=None)
    np.testing.assert_allclose(by_frame.state_proba_, expected, atol=1e-10)


def test_polars():
    pl = pytest.importorskip("polars")
    X, y, truth = mislabelled()
    known = some_known(y, truth)
    series = pl.Series([None if label is None else int(label) for label in known])
    found = fitted(X, y, series, base=None).state_proba_
    np.testing.assert_array_equal(found, fitted(X, y, known, base=None).state_proba_)


# -- scikit-learn ---------------------------------------------------------------------------------


def test_blocks_have_them_too():
    X, y, truth = mislabelled(n_classes=3)
    known = some_known(y, truth)
    whole = fitted(X, y, known, n_components=60, base=None)
    parts = GEMMEDClassifier(solver=Solver(n_components=60), random_state=0).fit_blocks(
        X, y, known_labels=known
    )
    np.testing.assert_allclose(parts.state_proba_, whole.state_proba_, atol=1e-3)


def test_a_precomputed_kernel():
    X, y, truth = mislabelled()
    gram = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(-1))
    known = some_known(y, truth)
    model = fitted(gram, y, known, kernel="precomputed")
    wrong = [i for i, label in enumerate(known) if label is not None and label != y[i]]
    np.testing.assert_array_equal(model.state_proba_[wrong], [[0.0, 1.0, 0.0]] * len(wrong))


def test_pipelines_and_routing():
    X, y, truth = mislabelled()
    known = some_known(y, truth)
    expected = fitted(StandardScaler().fit_transform(X), y, known, base=None).state_proba_
    pipeline = make_pipeline(StandardScaler(), GEMMEDClassifier(base=None, random_state=0))
    pipeline.fit(X, y, gemmedclassifier__known_labels=known)
    np.testing.assert_array_equal(pipeline[-1].state_proba_, expected)
    with config_context(enable_metadata_routing=True):
        own = GEMMEDClassifier(base=None, random_state=0).set_fit_request(known_labels=True)
        routed = make_pipeline(StandardScaler(), own).fit(X, y, known_labels=known)
        np.testing.assert_array_equal(routed[-1].state_proba_, expected)
        scores = cross_validate(
            make_pipeline(StandardScaler(), own), X, y, cv=3, params={"known_labels": known}
        )
    assert scores["test_score"].mean() > 0.7


def test_grid_search_splits_them_with_the_rows():
    X, y, truth = mislabelled()
    search = GridSearchCV(GEMMEDClassifier(base=None, random_state=0), {"C": [2.0, 5.0]}, cv=3)
    known = np.ma.masked_array(truth, np.arange(len(y)) % 4 > 0)
    search.fit(X, y, known_labels=known)
    best = search.best_estimator_
    wrong = ~known.mask & (y != truth)
    np.testing.assert_array_equal(best.state_proba_[wrong, 1], 1.0)


def test_copies_and_files(tmp_path):
    pytest.importorskip("skops")
    X, y, truth = mislabelled()
    known = some_known(y, truth)
    model = fitted(X, y, known)
    assert clone(model).get_params() == model.get_params()
    save_model(model, tmp_path / "m.gemmed")
    for copy in (pickle.loads(pickle.dumps(model)), load_model(tmp_path / "m.gemmed")):
        np.testing.assert_array_equal(copy.state_proba_, model.state_proba_)
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        assert list(copy.explain()["suggested_label"]) == list(model.explain()["suggested_label"])


# -- what makes no sense --------------------------------------------------------------------------


def test_wrong_input_is_named():
    X, y, truth = mislabelled()
    model = GEMMEDClassifier(random_state=0)
    known = some_known(y, truth)

    def refused(words, labels, **options):
        with pytest.raises(ValueError, match=words):
            model.fit(X, y, known_labels=labels, **options)

    refused(
        r"known_labels has shape \(239,\): give one entry per sample, shape \(240,\)", known[1:]
    )
    refused(r"known_labels has shape \(240, 2\)", np.ones((240, 2)))
    unknown = known.copy()
    unknown[7] = 4
    refused(r"known_labels\[7\]=4 is not a class of y: use one of 0, 1, or None", unknown)
    unknown[7] = "1"
    refused(r"known_labels\[7\]='1' is not a class of y", unknown)
    unknown[7] = [1]
    refused(r"known_labels\[7\]=\[1\] is not a class of y", unknown)
    refused("no sample .* is of class 1: it cannot be learned", np.zeros(240))
    wrong = int(np.flatnonzero(y != truth)[0])
    right = next(i for i, label in enumerate(known) if label == y[i])
    for row, value, words in ((wrong, 1.0, "is nominal"), (right, 0.0, "where the measurement is")):
        prior = np.full(len(y), 0.95)
        prior[row] = value
        refused(rf"prior_nominal\[{row}\]={value:g} says .*{words}", known, prior_nominal=prior)
