"""Nystroem features and landmarks."""

from dataclasses import replace

import numpy as np
import pytest

from gemmed import GEMMEDClassifier
from gemmed._core.exceptions import UnscaledDataError
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.landmarks import (
    LinearMap,
    choose_landmarks,
    feature_map,
    nystroem_map,
)
from gemmed.rows.blocks import BlockRows, LocalBlocks

KERNELS = [
    Kernel("rbf", gamma=0.1, bias_variance=2.0, function_variance=3.0),
    Kernel("poly", gamma=0.2, degree=2, coef0=1.0),
    Kernel(lambda A, B: np.exp(-np.abs(A[:, None] - B).sum(axis=2)), bias_variance=0.5),
]
ONES = np.ones(4000)
RBF = Kernel("rbf", gamma=0.5)


def sample(n=200, n_features=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n_features))


def features(made, X):
    return made.solve(made.raw(X).T.astype(np.float64)).T


def landmarks_of(X, classes, number, trust=ONES, seed=1):
    rows = BlockRows(LocalBlocks(X))
    return feature_map(RBF, rows, classes, trust[: len(X)], number, seed).landmarks


@pytest.mark.parametrize("kernel", KERNELS, ids=["rbf", "poly", "callable"])
def test_all_samples_as_landmarks_give_the_kernel(kernel):
    X = sample(60)
    phi = features(nystroem_map(kernel, X), X)
    gram = kernel.between(X, X)
    np.testing.assert_allclose(phi @ phi.T, gram, atol=3e-4 * gram.max())


@pytest.mark.parametrize("kernel", KERNELS, ids=["rbf", "poly", "callable"])
def test_features_are_the_projection_on_the_landmarks(kernel):
    """Against the formula of the Nystroem method with a pseudo-inverse."""
    X, Z = sample(50), sample(12, seed=1)
    inner = replace(kernel, bias_variance=0.0)
    expected = inner.between(X, Z) @ np.linalg.pinv(inner.between(Z, Z)) @ inner.between(Z, X)
    phi = features(nystroem_map(kernel, Z), X)
    error = 1e-5 * expected.max()
    np.testing.assert_allclose(phi @ phi.T, expected + kernel.bias_variance, atol=error)


def test_duplicate_landmarks_are_dropped():
    Z = sample(20)
    twice = nystroem_map(KERNELS[0], np.vstack([Z, Z, Z[:5] + 1e-9]))
    once = nystroem_map(KERNELS[0], Z)
    assert twice.n_features == once.n_features == 21
    X = sample(30, seed=2)
    np.testing.assert_allclose(
        features(twice, X) @ features(twice, X).T,
        features(once, X) @ features(once, X).T,
        atol=2e-5,
    )


def test_nearly_singular_landmarks_stay_finite_and_close():
    """Two thousand landmarks on a line: the kernel matrix has rank thirty or so."""
    Z = np.linspace(-1, 1, 2000)[:, None]
    kernel = Kernel("rbf", gamma=1.0)
    made = nystroem_map(kernel, Z)
    assert made.n_features < 30
    X = np.random.default_rng(0).uniform(-1, 1, size=(100, 1))
    phi = features(made, X)
    np.testing.assert_allclose(phi @ phi.T, kernel.between(X, X), atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS, ids=["rbf", "poly", "callable"])
def test_weights_of_kernel_values_are_those_of_features(kernel):
    X, rng = sample(70), np.random.default_rng(3)
    made = nystroem_map(kernel, sample(15, seed=1))
    w = rng.normal(size=(made.n_features, 1))
    values = made.raw(X) @ made.solve(w, transposed=True)
    np.testing.assert_allclose(values, features(made, X) @ w, atol=1e-5 * np.abs(values).max())


def test_linear_map_is_the_linear_kernel():
    X = sample(30)
    kernel = Kernel("linear", bias_variance=2.0, function_variance=0.5)
    made = LinearMap(4, 0.5, 2.0)
    phi = features(made, X)
    np.testing.assert_allclose(phi @ phi.T, kernel.between(X, X), atol=1e-5)


def test_data_far_from_the_origin_lose_few_digits():
    X = sample(50) + 300.0
    kernel = Kernel("rbf", gamma=0.3)
    phi = features(nystroem_map(kernel, X), X.astype(np.float32))
    np.testing.assert_allclose(phi @ phi.T, kernel.between(X, X), atol=2e-3)


def test_kernels_without_landmarks_are_refused():
    with pytest.raises(ValueError, match="n_components"):
        nystroem_map(Kernel("precomputed"), np.eye(3))
    with pytest.raises(UnscaledDataError, match="scale X"), np.errstate(all="ignore"):
        nystroem_map(Kernel("poly", degree=5), np.full((3, 2), 1e200))


def test_unusable_samples_are_never_landmarks():
    usable = np.arange(400) % 5 > 0
    rows = choose_landmarks(np.arange(400) % 2, 100, np.random.default_rng(0), usable=usable)
    assert len(rows) == len(np.unique(rows)) == 100
    assert np.all(usable[rows])


def test_rare_classes_are_represented():
    classes = np.r_[np.zeros(9900, int), np.ones(100, int)]
    rng = np.random.default_rng(0)
    rows = choose_landmarks(classes, 100, rng)
    assert len(rows) == 100
    assert 20 <= classes[rows].sum() <= 30
    few = choose_landmarks(np.r_[np.zeros(990, int), np.ones(10, int)], 100, rng)
    assert len(few) == 100
    assert np.all(np.isin(np.arange(990, 1000), few))


def test_same_seed_same_landmarks():
    first, second = (
        choose_landmarks(np.arange(500) % 3, 50, np.random.default_rng(7)) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_fewer_usable_rows_than_landmarks_are_all_taken():
    usable = np.arange(25) < 5
    rows = choose_landmarks(np.zeros(25, int), 10, np.random.default_rng(0), usable=usable)
    np.testing.assert_array_equal(rows, np.arange(5))


def test_means_of_rows_explain_more_than_rows():
    """Eight clusters in two of ten directions: means lose the noise of the other eight."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 10))
    X[:, :2] += 4.0 * rng.integers(-1, 2, size=(4000, 2))
    kernel, classes = Kernel("rbf", gamma=0.05, bias_variance=0.0), np.arange(4000) % 2
    points = landmarks_of(X, classes, 60)
    rows = choose_landmarks(classes, 60, np.random.default_rng(1))
    assert points.shape == (60, 10)
    left = [
        4000 - float((features(nystroem_map(kernel, Z), X) ** 2).sum()) for Z in (points, X[rows])
    ]
    assert left[0] < 0.9 * left[1]


def test_landmarks_are_means_of_the_rows_nearest_to_them():
    """Clusters far apart: k-means must end in their centres, also far from zero."""
    rng = np.random.default_rng(0)
    centres = 1e4 + 100.0 * np.arange(5)[:, None] * np.ones(3)
    which = np.arange(4000) % 5
    X = centres[which] + rng.normal(size=(4000, 3))
    points = landmarks_of(X, which, 5)
    np.testing.assert_allclose(points[np.argsort(points[:, 0])], centres, atol=0.5)


def test_landmarks_do_not_tell_labels():
    """Held-out predictions of labels of chance were right for 38 % of the rows of six classes."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(2270, 27)), rng.permutation(np.arange(2270) % 6)
    model = GEMMEDClassifier(base=None, random_state=0).fit(X, y)
    assert len(model._function.samples) < 2270
    assert model.held_out_accuracy_ < 0.2
    assert not model.is_informative_


def test_rows_that_are_not_trusted_do_not_move_landmarks():
    X, trust = sample(4000), (np.arange(4000) % 10 > 0).astype(float)
    classes = np.arange(4000) % 2
    clean, spoiled = (
        landmarks_of(rows, classes, 50, trust) for rows in (X, np.where(trust[:, None] > 0, X, 1e3))
    )
    np.testing.assert_array_equal(clean, spoiled)


def test_a_class_that_nobody_trusts_has_landmarks():
    X, classes = sample(100), np.arange(100) % 2
    points = landmarks_of(X, classes, 40, np.where(classes, 0.2, 0.9))
    of_class = [np.any(np.all(point == X[classes == 1], axis=1)) for point in points]
    assert 15 < np.sum(of_class) < 25


def test_few_rows_are_landmarks_themselves():
    X = sample(150)
    points = landmarks_of(X, np.zeros(150, int), 50)
    assert all(np.any(np.all(point == X, axis=1)) for point in points)


def test_equal_rows_are_one_landmark_without_a_warning():
    X = np.repeat(sample(30), 100, axis=0)
    assert len(landmarks_of(X, np.zeros(3000, int), 60)) <= 30
