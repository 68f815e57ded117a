"""The estimated share of anomalies: counts, intervals, and the truth on data with a known one."""

import numpy as np
import pytest
from gemmed.estimators.contamination import estimate_contamination
from scipy import stats
from sklearn.datasets import make_blobs

from gemmed import GEMMEDClassifier


def test_share_is_the_weighted_share_of_scores_above_one_half():
    scores = np.array([0.0, 0.3, 0.6, 0.9, 1.0])
    share, _ = estimate_contamination(scores, np.ones(5))
    assert share == pytest.approx(3 / 5)
    share, _ = estimate_contamination(scores, np.array([4.0, 3.0, 1.0, 1.0, 1.0]))
    assert share == pytest.approx(3 / 10)


def test_interval_reaches_from_the_clear_to_the_possible_ones():
    """Jeffreys quantiles of both counts, by root finding of the beta distribution."""
    scores = np.repeat([0.0, 0.3, 0.7, 0.95], [70, 10, 8, 12])
    share, (low, high) = estimate_contamination(scores, np.ones(100))
    assert low < share < high
    assert stats.beta.cdf(low, 12.5, 88.5) == pytest.approx(0.05, abs=1e-6)
    assert stats.beta.cdf(high, 30.5, 70.5) == pytest.approx(0.95, abs=1e-6)


def test_ends_of_the_scale():
    assert estimate_contamination(np.zeros(50), np.ones(50))[0] == 0.0
    low, high = estimate_contamination(np.zeros(50), np.ones(50))[1]
    assert low == 0.0
    assert 0 < high < 0.06
    low, high = estimate_contamination(np.ones(50), np.ones(50))[1]
    assert high == 1.0
    assert 0.94 < low < 1


def test_more_samples_narrow_the_interval():
    widths = []
    for n in (50, 500, 5000):
        scores = np.repeat([0.0, 1.0], [int(0.8 * n), int(0.2 * n)])
        low, high = estimate_contamination(scores, np.ones(n))[1]
        widths.append(high - low)
    assert widths[0] / widths[1] == pytest.approx(np.sqrt(10), rel=0.1)
    assert widths[1] / widths[2] == pytest.approx(np.sqrt(10), rel=0.1)


def blobs(n, share, seed):
    """Two blobs eight standard deviations apart in ten dimensions, and which labels are wrong."""
    X, y = make_blobs(n, centers=np.outer([-4, 4], np.eye(10)[0]), random_state=seed)
    wrong = np.zeros(n, dtype=bool)
    wrong[np.random.default_rng(seed).choice(n, int(share * n), replace=False)] = True
    return X, np.where(wrong, 1 - y, y), wrong


@pytest.mark.parametrize(("share", "tolerance"), [(0.0, 0.02), (0.1, 0.05), (0.25, 0.1)])
def test_flipped_labels_of_separable_blobs_are_counted(share, tolerance):
    covered = 0
    for seed in range(6):
        X, y, _ = blobs(400, share, seed)
        model = GEMMEDClassifier(random_state=0).fit(X, y)
        assert model.contamination_ == pytest.approx(share, abs=tolerance)
        low, high = model.contamination_interval_
        assert low <= model.contamination_ <= high
        covered += low <= share <= high
    assert covered >= 5


def test_weights_count():
    X, y, wrong = blobs(300, 0.1, 0)
    weights = np.where(wrong, 1.0, 3.0)
    weighted = GEMMEDClassifier(random_state=0).fit(X, y, sample_weight=weights)
    plain = GEMMEDClassifier(random_state=0).fit(X, y)
    assert weighted.label_error_share_ < 0.6 * plain.label_error_share_  # 0.036 instead of 0.1
