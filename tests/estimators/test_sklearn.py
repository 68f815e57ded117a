"""scikit-learn manners: estimator checks, pipelines, pandas, pickles."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed import GEMDetector, GEMMEDClassifier, MEDClassifier
from gemmed.estimators.detector import METHODS

SAME_AS_SVC = {
    "check_sample_weight_equivalence_on_dense_data": (
        "as for SVC: gamma='scale' uses the unweighted variance of X, and for GEM-MED the k-NN "
        "distances count every sample once"
    )
}


def expected_failures(estimator):
    return {} if isinstance(estimator, GEMDetector) else SAME_AS_SVC


@pytest.mark.filterwarnings("ignore::gemmed._core.exceptions.GemmedWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        GEMMEDClassifier(base=RandomForestClassifier(5)),
        MEDClassifier(),
        *(GEMDetector(method) for method in METHODS),
    ],
    expected_failed_checks=expected_failures,
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gemmed._core.exceptions.GemmedWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([GEMMEDClassifier()], expected_failed_checks=expected_failures)
def test_estimator_checks_with_all_trees(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    data = load_breast_cancer(as_frame=True)
    return data.data.iloc[:200], data.target.iloc[:200].map({0: "malignant", 1: "benign"})


@pytest.mark.parametrize(
    "classifier", [GEMMEDClassifier(base=None, random_state=0), MEDClassifier()]
)
def test_pipeline_grid_search_and_pandas(cancer, classifier):
    X, y = cancer
    name = type(classifier).__name__.lower()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), classifier), {f"{name}__C": [2.0, 5.0]}, cv=3
    )
    search.fit(X, y)
    assert search.best_score_ > 0.9
    assert set(search.predict(X)) == {"malignant", "benign"}
    direct = clone(classifier).fit(X, y)
    np.testing.assert_array_equal(direct.feature_names_in_, X.columns)
    with pytest.raises(ValueError, match="feature names"):
        direct.predict(X[X.columns[::-1]])


def test_parallel_cross_validation(cancer):
    X, y = cancer
    scores = cross_val_score(
        make_pipeline(StandardScaler(), GEMMEDClassifier(random_state=0)), X, y, cv=3, n_jobs=2
    )
    assert scores.min() > 0.8


@pytest.mark.parametrize(
    "estimator", [GEMMEDClassifier(random_state=0), MEDClassifier(), GEMDetector(random_state=0)]
)
def test_pickle_and_clone(cancer, estimator):
    X, y = cancer
    fitted = estimator.fit(X, y)
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(restored.decision_function(X), fitted.decision_function(X))
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "n_features_in_")


def test_precomputed_kernel_is_sliced_by_cross_validation(cancer):
    X, y = cancer
    scaled = StandardScaler().fit_transform(X)
    gram = scaled @ scaled.T / 30
    scores = cross_val_score(GEMMEDClassifier("precomputed", random_state=0), gram, y, cv=3)
    assert scores.min() > 0.8
