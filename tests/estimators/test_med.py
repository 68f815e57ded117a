"""MED against independent solvers."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.datasets import make_classification

from gemmed import MEDClassifier, Solver


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(80, 5, flip_y=0.1, random_state=0)
    return X, y


def signed_gram(model, X, y, gram):
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    return signs[:, None] * (gram + 1.0) * signs


@pytest.mark.parametrize("C", [1.5, 3.0, 20.0])
def test_dual_optimum_against_scipy(data, C):
    X, y = data
    model = MEDClassifier("linear", solver=Solver(tol=1e-10), C=C).fit(X, y)
    G = signed_gram(model, X, y, X @ X.T)
    reference = optimize.minimize(
        lambda a: -(a + np.log1p(-a / C)).sum() + 0.5 * a @ G @ a,
        np.full(len(y), 0.1),
        jac=lambda a: -(1 - 1 / (C - a)) + G @ a,
        bounds=[(0, C * (1 - 1e-9))] * len(y),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 20000, "maxfun": 200000},
    )
    assert model.dual_value_ == pytest.approx(-reference.fun, rel=1e-6)
    assert 0 <= model.duality_gap_ + 1e-9 <= 1e-6 * abs(model.dual_value_) + 1e-9


def test_primal_optimum_against_cvxpy(data):
    cvxpy = pytest.importorskip("cvxpy")
    X, y = data
    C = 3.0
    model = MEDClassifier("linear", solver=Solver(tol=1e-10), C=C).fit(X, y)
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    w, v = cvxpy.Variable(6), cvxpy.Variable(len(y))
    margins = cvxpy.multiply(signs, np.column_stack([X, np.ones(len(y))]) @ w)
    # v - 1 - log v is least at v = 1, so v >= max(1, C (1 - margin)) is the loss
    problem = cvxpy.Problem(
        cvxpy.Minimize(0.5 * cvxpy.sum_squares(w) + cvxpy.sum(v - 1 - cvxpy.log(v))),
        [v >= C * (1 - margins), v >= 1],
    )
    problem.solve(solver="CLARABEL")
    assert model.dual_value_ + model.duality_gap_ == pytest.approx(problem.value, rel=1e-6)


def test_decision_function_is_the_kernel_expansion(data):
    X, y = data
    for kernel, gram in (
        ("linear", X @ X.T),
        ("rbf", np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(-1))),
        ("poly", (0.3 * X @ X.T + 1.0) ** 2),
    ):
        model = MEDClassifier(kernel, gamma=0.3, kernel_params={"degree": 2, "coef0": 1.0}).fit(
            X, y
        )
        np.testing.assert_allclose(
            model.decision_function(X), (gram + 1.0) @ model.dual_coef_, atol=1e-8
        )
        by_matrix = MEDClassifier("precomputed").fit(gram, y)
        np.testing.assert_allclose(
            by_matrix.decision_function(gram), model.decision_function(X), atol=1e-6
        )
        by_function = MEDClassifier(lambda A, B, k=kernel: _kernel(k, A, B)).fit(X, y)
        np.testing.assert_allclose(
            by_function.decision_function(X), model.decision_function(X), atol=1e-6
        )


def _kernel(name, A, B):
    if name == "linear":
        return A @ B.T
    if name == "rbf":
        return np.exp(-0.3 * ((A[:, None] - B) ** 2).sum(-1))
    return (0.3 * A @ B.T + 1.0) ** 2


def test_probabilities_are_calibrated_on_new_data():
    X, y = make_classification(3000, 6, n_informative=4, flip_y=0.2, random_state=1)
    model = MEDClassifier(gamma=0.05).fit(X[:400], y[:400])
    p = model.predict_proba(X[400:])[:, 1]
    bins = np.digitize(p, [0.2, 0.4, 0.6, 0.8])
    error = sum(
        np.mean(bins == b) * abs(p[bins == b].mean() - y[400:][bins == b].mean())
        for b in np.unique(bins)
    )
    assert error < 0.05


def test_weights_count_copies(data):
    X, y = data
    weights = np.random.default_rng(0).integers(1, 4, len(y))
    first = MEDClassifier(gamma=0.1, solver=Solver(tol=1e-10)).fit(X, y, sample_weight=weights)
    second = MEDClassifier(gamma=0.1, solver=Solver(tol=1e-10)).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    np.testing.assert_allclose(first.decision_function(X), second.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_landmarks_stand_for_the_kernel(n_classes):
    X, y = make_classification(
        1500, 4, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=2
    )
    kernel = {"gamma": 0.1, "random_state": 0}
    exact = MEDClassifier(solver=Solver(n_components=None), **kernel).fit(X[:1000], y[:1000])
    some = MEDClassifier(solver=Solver(n_components=300), **kernel).fit(X[:1000], y[:1000])
    assert some.converged_
    assert len(some._function.used) <= 300
    assert some.dual_coef_.shape == exact.dual_coef_.shape
    values, wanted = some.decision_function(X[1000:]), exact.decision_function(X[1000:])
    assert np.abs(values - wanted).mean() < 0.02 * np.abs(wanted).mean()
    assert some.dual_value_ == pytest.approx(exact.dual_value_, rel=1e-2)
    again = MEDClassifier(solver=Solver(n_components=300), n_jobs=2, **kernel).fit(
        X[:1000], y[:1000]
    )
    np.testing.assert_array_equal(again.margin_duals_, some.margin_duals_)


def test_a_kernel_matrix_has_no_landmarks(data):
    X, y = data
    model = MEDClassifier("precomputed", solver=Solver(n_components=20)).fit(X @ X.T, y)
    assert len(model.dual_coef_) == len(y)


def test_a_number_of_landmarks_that_is_none(data):
    with pytest.raises(ValueError, match="n_components"):
        MEDClassifier(solver=Solver(n_components=0)).fit(*data)


def test_predictions_of_many_samples_are_those_of_the_solver():
    """Multipliers that are good to a small gap define a function that is off by its root."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = (X[:, 0] + 2.0 * rng.normal(size=2000) > 0).astype(int)
    usual = MEDClassifier(gamma=0.2).fit(X, y)
    exact = MEDClassifier(gamma=0.2, solver=Solver(tol=1e-11, max_iter=300)).fit(X, y)
    some = X[:200]
    values = exact.decision_function(some)
    np.testing.assert_allclose(usual.decision_function(some), values, atol=1e-3)
    kernel = np.exp(-0.2 * ((some[:, None] - X) ** 2).sum(-1)) + 1.0
    assert np.abs(kernel @ usual.dual_coef_ - values).max() > 1e-3
