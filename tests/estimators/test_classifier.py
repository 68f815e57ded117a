"""GEMMEDClassifier: what it must not depend on, what it must respect, what it finds."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from flat_options import parameters_of
from gemmed import GEMMEDClassifier, MEDClassifier, Selection, Solver
from gemmed.datasets import make_ring


@pytest.fixture(scope="module")
def ring():
    return make_ring(40, radius=20, corruption=0.25, n_test_per_class=200, random_state=0)


def fitted(X, y, **parameters):
    # Without the forest, whose random draws depend on the order of rows and classes.
    parameters = {"base": None, "random_state": 0, "n_neighbors": 5, "tol": 1e-10} | parameters
    return GEMMEDClassifier(**parameters_of(**parameters)).fit(X, y)


KERNELS = ["linear", "rbf"]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("graph", ["bipartite", "leave_one_out"])
def test_order_of_samples_does_not_matter(ring, kernel, graph):
    model = fitted(ring.X, ring.y, kernel=kernel, neighbor_graph=graph)
    order = np.random.default_rng(1).permutation(len(ring.y))
    other = fitted(ring.X[order], ring.y[order], kernel=kernel, neighbor_graph=graph)
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_[order], atol=1e-6)
    np.testing.assert_allclose(
        other.decision_function(ring.X_test), model.decision_function(ring.X_test), atol=1e-5
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_swapping_the_labels_swaps_the_sign(ring, kernel):
    model = fitted(ring.X, ring.y, kernel=kernel)
    other = fitted(ring.X, -ring.y, kernel=kernel)
    np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=1e-6)
    np.testing.assert_allclose(
        other.decision_function(ring.X_test), -model.decision_function(ring.X_test), atol=1e-5
    )


def test_encoding_of_the_labels_does_not_matter(ring):
    model = fitted(ring.X, ring.y)
    for encoded in (ring.y + 7, np.where(ring.y > 0, "yes", "no"), ring.y > 0):
        other = fitted(ring.X, encoded)
        np.testing.assert_array_equal(other.nominal_proba_, model.nominal_proba_)
        np.testing.assert_array_equal(
            other.predict(ring.X_test) == other.classes_[1], model.predict(ring.X_test) == 1
        )


def test_unit_of_the_features_does_not_matter(ring):
    model = fitted(ring.X, ring.y)
    for scale in (1e-3, 1e4):
        other = fitted(scale * ring.X, ring.y)
        np.testing.assert_allclose(other.nominal_proba_, model.nominal_proba_, atol=1e-6)
        np.testing.assert_allclose(other.knn_distances_, model.knn_distances_, rtol=1e-6)


def test_anomalies_are_found_and_the_classifier_survives():
    data = make_ring(100, radius=75, corruption=0.4, random_state=3)
    model = GEMMEDClassifier("linear", random_state=0).fit(data.X, data.y)
    assert (
        model.anomaly_scores_[data.anomalous].min() > model.anomaly_scores_[~data.anomalous].mean()
    )
    clean = GEMMEDClassifier("linear", random_state=0)
    clean.fit(data.X[~data.anomalous], data.y[~data.anomalous])
    difference = clean.score(data.X_test, data.y_test) - model.score(data.X_test, data.y_test)
    assert difference < 0.03


def test_half_of_a_class_may_be_gross_outliers():
    rng = np.random.default_rng(0)
    X, y = make_blobs(200, centers=[[-3, 0], [3, 0]], random_state=0)
    bad = np.zeros(200, dtype=bool)
    for label in (0, 1):
        bad[rng.choice(np.flatnonzero(y == label), 49, replace=False)] = True
    angle = rng.uniform(0, 2 * np.pi, 98)
    X[bad] = rng.uniform(60, 300, (98, 1)) * np.column_stack([np.cos(angle), np.sin(angle)])
    model = GEMMEDClassifier(random_state=0).fit(X, y)
    assert model.anomaly_scores_[bad].min() > 0.5
    test, labels = make_blobs(400, centers=[[-3, 0], [3, 0]], random_state=1)
    assert model.score(test, labels) > 0.98


def test_judgements_of_a_person_are_respected_exactly(ring):
    prior = np.full(80, 0.95)
    prior[3], prior[10] = 0.0, 1.0
    model = GEMMEDClassifier(random_state=0).fit(ring.X, ring.y, prior_nominal=prior)
    assert model.nominal_proba_[3] == 0.0
    assert model.nominal_proba_[10] == 1.0
    assert model.dual_coef_[3] == 0.0


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_function_variance_scales_the_kernel(ring, kernel):
    model = fitted(
        ring.X / 10, ring.y, kernel=kernel, function_variance=0.1, gamma=0.5, bias_variance=1.0
    )
    gram = {
        "linear": ring.X @ ring.X.T / 100,
        "rbf": np.exp(-0.5 * ((ring.X[:, None] - ring.X) ** 2).sum(-1) / 100),
        "poly": (0.5 * ring.X @ ring.X.T / 100) ** 3,
    }[kernel]
    values = (0.1 * gram + 1.0) @ model.dual_coef_
    np.testing.assert_allclose(model.decision_function(ring.X / 10), values, atol=1e-8)
    by_matrix = MEDClassifier(
        "precomputed", kernel_params={"function_variance": 0.1}, solver=Solver(tol=1e-10)
    ).fit(gram, ring.y)
    direct = MEDClassifier(
        kernel, gamma=0.5, kernel_params={"function_variance": 0.1}, solver=Solver(tol=1e-10)
    )
    np.testing.assert_allclose(
        by_matrix.decision_function(gram),
        direct.fit(ring.X / 10, ring.y).decision_function(ring.X / 10),
        atol=1e-6,
    )


def test_groups_change_the_neighbours(ring):
    groups = np.arange(80) // 2
    blind = fitted(ring.X, ring.y, neighbor_graph="leave_one_out")
    model = GEMMEDClassifier(
        selection=Selection(neighbor_graph="leave_one_out"), random_state=0, n_neighbors=5
    )
    model.fit(ring.X, ring.y, groups=groups)
    assert not np.allclose(model.knn_distances_, blind.knn_distances_)


def test_random_state_makes_a_fit_reproducible(ring):
    models = [
        GEMMEDClassifier("linear", random_state=seed).fit(ring.X, ring.y) for seed in (4, 4, 5)
    ]
    values = [model.decision_function(ring.X) for model in models]
    np.testing.assert_array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])


def test_random_state_does_not_change_what_is_flagged(ring):
    one, two = (GEMMEDClassifier("linear", random_state=s).fit(ring.X, ring.y) for s in (4, 5))
    np.testing.assert_array_equal(one.state_proba_, two.state_proba_)


def test_stopping_early_warns_with_what_was_reached(ring):
    with pytest.warns(ConvergenceWarning, match=r"1 iterations .*duality gap .* raise max_iter"):
        model = GEMMEDClassifier(solver=Solver(max_iter=1), random_state=0).fit(ring.X, ring.y)
    assert not model.converged_


def test_fit_does_not_change_its_input(ring):
    X, y, prior = ring.X.copy(), ring.y.copy(), np.full(80, 0.9)
    GEMMEDClassifier(random_state=0).fit(X, y, prior_nominal=prior)
    np.testing.assert_array_equal(X, ring.X)
    np.testing.assert_array_equal(y, ring.y)
    np.testing.assert_array_equal(prior, 0.9)
    gram = np.ascontiguousarray(ring.X @ ring.X.T)
    before = gram.copy()
    GEMMEDClassifier("precomputed", random_state=0).fit(gram, y)
    np.testing.assert_array_equal(gram, before)


def test_a_solver_that_does_not_arrive_is_not_called_converged(ring):
    """Weights of 1e10 leave no digits for the margins."""
    weights = np.full(len(ring.y), 1e10)
    with pytest.warns(ConvergenceWarning, match="without converging"):
        model = GEMMEDClassifier(random_state=0).fit(ring.X, ring.y, sample_weight=weights)
    assert not model.converged_
    assert model.duality_gap_ > 1.0
