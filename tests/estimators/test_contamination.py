"""The estimated share of anomalies: the truth on data with a known one."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from gemmed import GEMMEDClassifier


def blobs(n, share, seed):
    """Two blobs eight standard deviations apart in ten dimensions, and which labels are wrong."""
    X, y = make_blobs(n, centers=np.outer([-4, 4], np.eye(10)[0]), random_state=seed)
    wrong = np.zeros(n, dtype=bool)
    wrong[np.random.default_rng(seed).choice(n, int(share * n), replace=False)] = True
    return X, np.where(wrong, 1 - y, y), wrong


@pytest.mark.parametrize("n_seeds", [2, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("share", "tolerance"), [(0.0, 0.02), (0.1, 0.05), (0.25, 0.1)])
def test_flipped_labels_of_separable_blobs_are_counted(share, tolerance, n_seeds):
    covered = 0
    for seed in range(n_seeds):
        X, y, _ = blobs(400, share, seed)
        model = GEMMEDClassifier(random_state=0).fit(X, y)
        assert model.contamination_ == pytest.approx(share, abs=tolerance)
        low, high = model.contamination_interval_
        assert low <= model.contamination_ <= high
        covered += low <= share <= high
    assert covered >= 0.8 * n_seeds


def test_weights_count():
    X, y, wrong = blobs(300, 0.1, 0)
    weights = np.where(wrong, 1.0, 3.0)
    weighted = GEMMEDClassifier(random_state=0).fit(X, y, sample_weight=weights)
    plain = GEMMEDClassifier(random_state=0).fit(X, y)
    assert weighted.label_error_share_ < 0.6 * plain.label_error_share_  # 0.036 instead of 0.1
