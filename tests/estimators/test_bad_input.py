"""Every bad input gets an error that names it."""

import numpy as np
import pytest

from flat_options import parameters_of
from gemmed import GEMMEDClassifier, MEDClassifier, Priors, Solver
from gemmed._core.exceptions import (
    DegenerateDataError,
    IndefiniteKernelWarning,
    NeighborsReducedWarning,
    UnscaledDataError,
    UnscaledDataWarning,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.repeat([0, 1], 20)
UNIT = {"function_variance": 1.0, "bias_variance": 1.0}
BOTH = pytest.mark.parametrize("classifier", [GEMMEDClassifier, MEDClassifier])


@BOTH
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity(classifier, value):
    broken = X.copy()
    broken[3, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        classifier().fit(broken, Y)
    model = classifier(n_jobs=1).fit(X, Y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.predict(broken)


@BOTH
def test_classes(classifier):
    with pytest.raises(ValueError, match="one class only"):
        classifier().fit(X, np.zeros(40))
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(X, RNG.normal(size=40))


@BOTH
def test_empty_and_misshapen(classifier):
    with pytest.raises(ValueError, match="0 sample"):
        classifier().fit(np.empty((0, 3)), np.empty(0))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="Expected 2D array"):
        classifier().fit(X[:, 0], Y)
    with pytest.raises(ValueError, match="features"):
        classifier().fit(X, Y).predict(X[:, :2])


@BOTH
def test_constant_features(classifier):
    with pytest.raises(DegenerateDataError, match="all features are constant"):
        classifier().fit(np.ones((40, 3)), Y)
    one_constant = X.copy()
    one_constant[:, 1] = 5.0
    assert np.all(np.isfinite(classifier().fit(one_constant, Y).decision_function(one_constant)))


@BOTH
@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("C", [1.0, 0.5, -3, "a", None, np.nan, np.inf]),
        ("kernel", ["bogus", None, 3]),
        ("gamma", [0.0, -1.0, "wide", None]),
        ("degree", [0, 1.5]),
        ("coef0", ["a", np.nan]),
        ("bias_variance", [-1.0, None, "wide"]),
        ("function_variance", [0.0, -1.0, None, "wide"]),
        ("max_iter", [0, 2.5, True]),
        ("tol", [0.0, -1e-3]),
        ("n_components", [0, 2.5, "many"]),
        ("kernel_params", [3, "rbf", {"width": 1.0}, {3: 1.0}]),
        ("solver", [200, {"tol": 1e-3}, Priors()]),
    ],
)
def test_parameters_of_both(classifier, parameter, values):
    for value in values:
        with pytest.raises(ValueError, match=f"{parameter}="):
            classifier(**parameters_of(**{parameter: value})).fit(X, Y)


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("n_neighbors", [0, -1, 2.5]),
        ("neighbor_graph", ["kdtree", None]),
        ("warm_start", [None, 1, "yes"]),
        ("priors", [0.95, {"bad_rate": 0.1}, Priors]),
        ("selection", ["bipartite", Solver()]),
    ],
)
def test_parameters_of_gem_med(parameter, values):
    for value in values:
        with pytest.raises(ValueError, match=f"{parameter}="):
            GEMMEDClassifier(**parameters_of(**{parameter: value})).fit(X, Y)


def test_a_class_of_one_sample():
    with pytest.raises(ValueError, match="class 1 has 1 sample"):
        GEMMEDClassifier().fit(X, [0] * 39 + [1])


def test_more_neighbours_than_the_class_has():
    with pytest.warns(NeighborsReducedWarning, match="n_neighbors=15"):
        model = GEMMEDClassifier(n_neighbors=15).fit(X, Y)
    assert np.all(np.isfinite(model.knn_distances_))


def test_duplicates():
    copies = X.copy()
    copies[:20] = copies[0]
    with pytest.raises(DegenerateDataError, match="duplicates of one point"):
        GEMMEDClassifier().fit(copies, Y)
    assert MEDClassifier().fit(copies, Y).converged_
    copies = X.copy()
    copies[12:28] = copies[0]
    # As evidence: the copies read like a sensor that is stuck, with any label.
    model = GEMMEDClassifier(n_neighbors=3).fit(copies, Y)
    assert model.entropy_statistic_[12:28].min() > model.entropy_statistic_[28:].max()
    assert model.state_proba_[12:28, 2].min() > 0.75


@BOTH
def test_kernel_matrices(classifier):
    with pytest.raises(ValueError, match=r"must be square.*\(40, 3\)"):
        classifier("precomputed").fit(X, Y)
    gram = X @ X.T
    lopsided = gram + np.triu(np.ones((40, 40)))
    with pytest.raises(ValueError, match="not symmetric"):
        classifier("precomputed").fit(lopsided, Y)
    with pytest.raises(ValueError, match=r"shape \(40, 1\)"):
        classifier(lambda A, B: np.zeros((len(A), 1))).fit(X, Y)


@BOTH
def test_indefinite_kernel_is_clipped_with_a_warning(classifier):
    indefinite = np.tanh(X @ X.T - 1.0)
    model = classifier("precomputed", kernel_params=UNIT)
    with pytest.warns(IndefiniteKernelWarning, match="eigenvalues are negative"):
        model.fit(indefinite, Y)
    # f on the training points, as solved and as predicted, are one function
    eigenvalues, vectors = np.linalg.eigh(indefinite + 1.0)
    clipped = (vectors * np.maximum(eigenvalues, 0)) @ vectors.T
    np.testing.assert_allclose(
        model.decision_function(indefinite), clipped @ model.dual_coef_, atol=1e-8
    )


def test_per_sample_arguments():
    model = GEMMEDClassifier()
    with pytest.raises(ValueError, match=r"prior_nominal has shape \(3,\)"):
        model.fit(X, Y, prior_nominal=[0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match=r"prior_nominal\[2\]"):
        model.fit(X, Y, prior_nominal=[0.5, 0.5, 1.5] + [0.5] * 37)
    with pytest.raises(ValueError, match="prior_nominal contains NaN"):
        model.fit(X, Y, prior_nominal=[np.nan] * 40)
    with pytest.raises(ValueError, match=r"groups has shape \(2,\)"):
        model.fit(X, Y, groups=[1, 2])
    with pytest.raises(DegenerateDataError, match="groups"):
        model.fit(X, Y, groups=Y)
    with pytest.raises(ValueError, match="sample_weight is zero for every sample of class"):
        model.fit(X, Y, sample_weight=1.0 - Y)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model.fit(X, Y, sample_weight=-np.ones(40))


@BOTH
@pytest.mark.parametrize("scale", [1e160, 1e200])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_numbers_that_overflow(classifier, scale, kernel):
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(UnscaledDataError, match="scale"),
    ):
        classifier(kernel).fit(scale * X, Y)


@BOTH
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_that_floating_point_cannot_combine(classifier):
    """A time stamp beside a small feature."""
    stamps = np.column_stack([X[:, 0] + Y, 1.6e9 + 1e7 * RNG.random(40)])
    with pytest.warns(UnscaledDataWarning, match="scale X"):
        classifier("linear", kernel_params=UNIT).fit(stamps, Y)


@BOTH
@pytest.mark.parametrize("value", [0, 1.5, "a"])
def test_n_jobs(classifier, value):
    with pytest.raises(ValueError, match="n_jobs="):
        classifier(n_jobs=value).fit(X, Y)
