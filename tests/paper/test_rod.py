"""RODClassifier: the estimator around the solvers."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed.datasets import make_ring
from gemmed.paper import RODClassifier


@pytest.fixture(scope="module")
def ring():
    return make_ring(20, radius=15, corruption=0.2, n_test_per_class=200, random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([RODClassifier()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_attributes(ring):
    model = RODClassifier("linear", outlier_fraction=0.2).fit(ring.X, ring.y)
    assert model.converged_
    assert 0 <= model.duality_gap_ <= 0.01 * model.objective_
    assert model.nominal_proba_.sum() >= 0.8 * 40 - 1e-6
    np.testing.assert_allclose(model.anomaly_scores_, 1 - model.nominal_proba_)
    np.testing.assert_allclose(
        model.decision_function(ring.X_test), (ring.X_test @ ring.X.T + 1) @ model.dual_coef_
    )


def test_without_outliers_it_is_a_support_vector_machine(ring):
    """No sample may be ablated: the dual value of the SVM without intercept."""
    from gemmed.model.kernels.function_space import GramSpace
    from gemmed.paper.baselines.box_svm import solve_box_svm

    model = RODClassifier("linear", outlier_fraction=0.0, tol=1e-6).fit(ring.X, ring.y)
    gram = GramSpace(ring.X @ ring.X.T + 1.0)
    plain = solve_box_svm(gram, ring.y.astype(float), np.ones(40), tol=1e-8)
    assert model.objective_ == pytest.approx(plain.primal, rel=1e-5)
    np.testing.assert_array_equal(model.nominal_proba_, 1.0)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("C", 0.0), ("outlier_fraction", 1.0), ("outlier_fraction", -0.1)],
)
def test_bad_parameters_are_named(ring, parameter, value):
    with pytest.raises(ValueError, match=f"{parameter}="):
        RODClassifier(**{parameter: value}).fit(ring.X, ring.y)
