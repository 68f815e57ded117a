"""The paper's simulation: the data, and how far GEM-MED is from the clean-trained classifier."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gemmed import GEMMEDClassifier, MEDClassifier
from gemmed.datasets import make_ring

RADII, RATES = (15, 35, 55, 75), (0.2, 0.3, 0.4, 0.5)


def test_ring_data_is_what_it_says():
    data = make_ring(100, radius=35, corruption=0.3, random_state=0)
    distance = np.linalg.norm(data.X, axis=1)
    assert data.X.shape == (200, 2)
    assert data.anomalous.sum() == 60
    assert np.all((distance[data.anomalous] >= 35) & (distance[data.anomalous] <= 36))
    assert data.X_test.shape == (4000, 2)
    np.testing.assert_allclose(data.X_test[data.y_test == -1].mean(axis=0), [3, 3], atol=0.4)
    again = make_ring(100, radius=35, corruption=0.3, random_state=0)
    np.testing.assert_array_equal(again.X, data.X)


def test_random_labels_of_the_ring_keep_the_class_sizes():
    drawn = [make_ring(100, corruption=0.4, ring_labels="random", random_state=s) for s in range(9)]
    for data in drawn:
        assert data.anomalous.sum() == 80
        assert np.sum(data.y == 1) == np.sum(data.y == -1) == 100
    positive = [int(np.sum(data.y[data.anomalous] == 1)) for data in drawn]
    assert len(set(positive)) > 4
    assert abs(np.mean(positive) - 40) < 5  # three standard errors


def test_random_labels_of_a_ring_without_nominal_samples():
    data = make_ring(5, corruption=1.0, ring_labels="random", n_test_per_class=0, random_state=0)
    assert np.sum(data.y == 1) == 5
    assert data.anomalous.all()


@pytest.mark.parametrize(("layout", "bayes"), [("paper", 0.240), ("separated", 0.017)])
def test_layouts_have_the_documented_bayes_error(layout, bayes):
    data = make_ring(2, layout=layout, n_test_per_class=50_000, random_state=0)
    mean = data.X_test[data.y_test == 1].mean(axis=0)
    direction = np.linalg.solve([[20, 16], [16, 20]], mean)
    error = np.mean(np.sign(data.X_test @ direction) != data.y_test)
    assert error == pytest.approx(bayes, abs=0.003)


@pytest.mark.parametrize(
    "arguments",
    [
        {"layout": "x"},
        {"ring_labels": "x"},
        {"corruption": 1.5},
        {"corruption": -0.1},
        {"n_per_class": 0},
        {"radius": -1},
    ],
)
def test_bad_arguments_are_named(arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"{name}="):
        make_ring(**arguments)


def excess_errors(radius, rate, seeds, **options):
    """Percentage points above MED trained on the clean samples only; and the anomaly AUC."""
    rows = []
    for seed in seeds:
        data = make_ring(100, radius=radius, corruption=rate, random_state=seed)
        clean = ~data.anomalous
        oracle = MEDClassifier("linear").fit(data.X[clean], data.y[clean])
        model = GEMMEDClassifier("linear", random_state=seed, **options).fit(data.X, data.y)
        med = MEDClassifier("linear").fit(data.X, data.y)
        reference = oracle.score(data.X_test, data.y_test)
        rows.append(
            [
                100 * (reference - model.score(data.X_test, data.y_test)),
                100 * (reference - med.score(data.X_test, data.y_test)),
                roc_auc_score(data.anomalous, model.anomaly_scores_),
            ]
        )
    return np.mean(rows, axis=0)


def test_corners_of_the_grid():
    cells = [excess_errors(r, q, range(3), base=None) for r in (15, 75) for q in (0.2, 0.5)]
    excess, med, auc = np.array(cells).T
    assert excess.mean() < 1.0
    assert med.max() > 5.0
    assert auc[2:].min() > 0.99
    assert auc.min() > 0.6  # near the classes, half of the samples: the labels cannot tell


@pytest.mark.slow
def test_whole_grid_of_the_paper():
    """20 seeds, 16 cells: at most 0.8 points above the clean oracle on average, 3 in any cell.

    At a radius of 15 the ring touches the classes.
    """
    cells = np.array([excess_errors(r, q, range(20)) for r in RADII for q in RATES])
    assert cells[:, 0].mean() <= 0.8
    assert cells[:, 0].max() <= 3.0
    assert cells[:, 1].mean() > 3.0
    assert cells[4:, 2].mean() > 0.96
    assert cells[:4, 2].min() > 0.6
