"""What does not matter: the order of rows, the names of classes; and what a rotation changes.

The model of states is compared loosely: its probabilities move by some hundredths.
"""

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.base import clone

from gemmed import GEMDetector, GEMMEDClassifier
from gemmed.paper import GEMMEDClassifier as PaperGEMMEDClassifier

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3)) + np.repeat([[0.0], [1.5]], 30, axis=0)
X[:4] *= 4.0
Y = np.repeat([0, 1], 30)
Y[8:12] = 1
MODELS = {
    "states": GEMMEDClassifier(gamma=0.3, random_state=0),
    "paper": PaperGEMMEDClassifier(gamma=0.3, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_rows_does_not_matter(name):
    order = np.random.default_rng(0).permutation(60)
    plain = clone(MODELS[name]).fit(X, Y)
    moved = clone(MODELS[name]).fit(X[order], Y[order])
    allowed = 1e-3 if name == "states" else 2e-3
    np.testing.assert_allclose(moved.nominal_proba_, plain.nominal_proba_[order], atol=allowed)


@pytest.mark.parametrize("name", MODELS)
def test_the_names_of_the_classes_do_not_matter(name):
    plain = clone(MODELS[name]).fit(X, Y)
    swapped = clone(MODELS[name]).fit(X, np.where(Y == 1, "a", "b"))
    allowed = 0.1 if name == "states" else 2e-3
    np.testing.assert_allclose(swapped.nominal_proba_, plain.nominal_proba_, atol=allowed)


@pytest.mark.parametrize("seed", range(3))
def test_distances_and_the_model_of_the_paper_turn_with_the_data(seed):
    turn = ortho_group.rvs(3, random_state=seed)
    plain, turned = clone(MODELS["paper"]).fit(X, Y), clone(MODELS["paper"]).fit(X @ turn, Y)
    np.testing.assert_allclose(turned.knn_distances_, plain.knn_distances_, rtol=1e-9)
    np.testing.assert_allclose(turned.nominal_proba_, plain.nominal_proba_, atol=1e-6)
    detector = GEMDetector(random_state=0)
    np.testing.assert_allclose(
        clone(detector).fit(X @ turn).training_scores_, detector.fit(X).training_scores_, rtol=1e-9
    )


def test_columns_mean_something_to_the_states():
    """Not promised: a value far out in one column is a sign of a broken measurement."""
    turn = ortho_group.rvs(3, random_state=0)
    plain, turned = clone(MODELS["states"]).fit(X, Y), clone(MODELS["states"]).fit(X @ turn, Y)
    np.testing.assert_allclose(turned.knn_distances_, plain.knn_distances_, rtol=1e-9)
    assert np.abs(turned.nominal_proba_ - plain.nominal_proba_).max() > 1e-4
