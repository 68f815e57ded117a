"""More than two classes: one decision function each, one judgement for all."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.multiclass import OneVsRestClassifier

from flat_options import parameters_of
from gemmed import GEMMEDClassifier, MEDClassifier, Solver

CENTERS = [[0, 5], [-5, -3], [5, -3]]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    rows = np.flatnonzero(y < 5)[:250]
    return X[rows] / 16.0, y[rows]


@pytest.fixture(scope="module")
def flipped(digits):
    X, y = digits
    rng = np.random.default_rng(0)
    wrong = np.zeros(len(y), dtype=bool)
    wrong[rng.choice(len(y), 25, replace=False)] = True
    return X, np.where(wrong, (y + rng.integers(1, 5, len(y))) % 5, y), wrong


@pytest.fixture(scope="module")
def model(flipped):
    X, y, _ = flipped
    return GEMMEDClassifier(random_state=0).fit(X, y)


def test_shapes_and_probabilities(flipped, model):
    X, y, _ = flipped
    n = len(y)
    assert model.decision_function(X).shape == (n, 5)
    assert model.dual_coef_.shape == model.margin_duals_.shape == (n, 5)
    assert model.nominal_proba_.shape == (n,)
    for classwise in (model.entropy_duals_, model.coverage_duals_, model.coverage_):
        assert classwise.shape == (5,)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (n, 5)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
    assert np.all(probabilities >= 0)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.predict(X))
    far = 1e3 * np.ones((2, X.shape[1]))
    np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0)


def test_decision_functions_are_kernel_expansions(flipped):
    X, y, _ = flipped
    model = GEMMEDClassifier(base=None, random_state=0).fit(X, y)
    gram = np.exp(-model.gamma_ * ((X[:, None] - X) ** 2).sum(-1))
    values = (model.function_variance_ * gram + model.bias_variance_) @ model.dual_coef_
    np.testing.assert_allclose(model.decision_function(X), values, atol=1e-8)
    signs = np.where(y[:, None] == np.arange(5), 1.0, -1.0)
    good = 1.0 - model.state_proba_[:, 2:]
    np.testing.assert_allclose(model.dual_coef_, model.margin_duals_ * good * signs)


def test_wrong_labels_of_digits_are_found(digits, flipped, model):
    _, truth = digits
    X, _y, wrong = flipped
    found = model.anomaly_scores_ > 0.5
    assert np.mean(found[wrong]) > 0.9
    assert np.mean(found[~wrong]) < 0.1
    assert np.mean(model.predict(X) == truth) > 0.97
    table = model.explain()
    right = np.asarray(table["suggested_label"])[wrong & found] == truth[wrong & found]
    assert right.mean() > 0.9


def test_names_and_order_of_the_classes_do_not_matter(flipped, model):
    X, y, _ = flipped
    names = np.array(["d", "b", "e", "a", "c"])
    other = GEMMEDClassifier(random_state=0).fit(X, names[y])
    np.testing.assert_array_equal(other.classes_, np.sort(names))
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=1e-6)
    np.testing.assert_array_equal(other.predict(X), names[model.predict(X)])
    order = np.argsort(names)
    np.testing.assert_allclose(
        other.decision_function(X), model.decision_function(X)[:, order], atol=1e-6
    )


def test_order_of_samples_does_not_matter(flipped, model):
    X, y, _ = flipped
    order = np.random.default_rng(1).permutation(len(y))
    other = GEMMEDClassifier(random_state=0).fit(X[order], y[order])
    assert np.mean((other.nominal_proba_ < 0.5) == (model.nominal_proba_ < 0.5)[order]) > 0.99


def test_med_is_one_against_the_rest(digits):
    X, y = digits
    together = MEDClassifier(solver=Solver(tol=1e-9)).fit(X, y)
    apart = OneVsRestClassifier(MEDClassifier(solver=Solver(tol=1e-9))).fit(X, y)
    np.testing.assert_allclose(together.decision_function(X), apart.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(together.predict_proba(X).sum(axis=1), 1.0)


def three_blobs(seed, sizes=(80, 60, 60)):
    return make_blobs(list(sizes), centers=CENTERS, random_state=seed)


def test_one_tiny_class():
    X, y = three_blobs(0, (80, 80, 6))
    with pytest.warns(match="n_neighbors"):
        model = GEMMEDClassifier(random_state=0).fit(X, y)
    assert model.converged_
    assert model.nominal_proba_[y == 2].mean() >= 0.5
    test, labels = three_blobs(1, (50, 50, 50))
    assert model.score(test, labels) > 0.97


def test_groups_are_no_neighbours():
    X, y = three_blobs(3)
    copies, labels = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    groups = np.repeat(np.arange(200), 2)
    options = {"random_state": 0, "neighbor_graph": "leave_one_out", "n_neighbors": 3}
    blind = GEMMEDClassifier(**parameters_of(**options)).fit(copies, labels)
    aware = GEMMEDClassifier(**parameters_of(**options)).fit(copies, labels, groups=groups)
    assert not np.allclose(blind.knn_distances_, aware.knn_distances_)
    np.testing.assert_allclose(aware.knn_distances_[::2], aware.knn_distances_[1::2])


def test_certainties():
    X, y = three_blobs(4)
    prior = np.full(200, 0.95)
    prior[[0, 1]], prior[[2, 3]] = 0.0, 1.0
    model = GEMMEDClassifier(random_state=0).fit(X, y, prior_nominal=prior)
    np.testing.assert_array_equal(model.nominal_proba_[:4], [0.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(model.dual_coef_[:2], 0.0)


@pytest.mark.parametrize("kernel", ["linear", "poly", "precomputed"])
def test_other_kernels(kernel):
    X, y = three_blobs(5)
    data = X @ X.T if kernel == "precomputed" else X
    model = GEMMEDClassifier(kernel, random_state=0).fit(data, y)
    assert model.score(data, y) > 0.97
